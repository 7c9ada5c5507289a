"""python -m clattn: the program inside the package."""
import clattn

clattn.main()
