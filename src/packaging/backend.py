"""Build the wheel with meson-python, and change its tags to any Python 3.

meson-python's tags name one version of Python. The module loads its library by ctypes, so it works
with all of them.
"""
import os
import subprocess
import sys

import mesonpy
from mesonpy import (build_sdist, get_requires_for_build_sdist,  # noqa: F401
                    get_requires_for_build_wheel)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    made = mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)
    named = subprocess.run([sys.executable, "-m", "wheel", "tags", "--remove", "--python-tag", "py3", "--abi-tag", "none",
                            os.path.join(wheel_directory, made)], check=True, capture_output=True, text=True)
    return named.stdout.split()[-1]
