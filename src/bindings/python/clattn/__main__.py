"""Run the program inside the package: python -m clattn."""
import clattn

clattn.main()
