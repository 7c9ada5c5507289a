"""The package clattn of the build folder, in which the name clattn is the program.

This module becomes that package, whose folder is below. The library and the program are here."""
import importlib.machinery
import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import clattn

    clattn.main()
else:
    __path__ = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "src", "bindings", "python", "clattn")]
    __file__ = os.path.join(__path__[0], "__init__.py")
    __loader__ = importlib.machinery.SourceFileLoader(__name__, __file__)
    __spec__.loader, __spec__.origin, __spec__.submodule_search_locations, __package__ = __loader__, __file__, __path__, __name__

    from clattn import _abi

    _abi.LIBRARY_PATH = _abi.PROGRAM_PATH = os.path.join("..", "..", "..", "..")
    exec(__loader__.get_code(__name__))
