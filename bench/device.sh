#!/bin/sh
# What a machine's OpenCL devices can do and whether they are right, unattended and in under ten minutes: verify, suites, and
# the bench of prefill, decode and projections beside PyTorch's own kernels where PyTorch has the device. Installs nothing.
#   sh bench/device.sh                        every device, from the build in build/
#   sh bench/device.sh --driver /path/libOpenCL_of_a_vendor.so     also a driver that has no .icd file yet
#   sh bench/device.sh --build FOLDER --libraries FOLDER           a build folder and libraries that were brought along: sources,
#                     build and libraries may lie elsewhere than where they were made; what the machine needs itself is Python 3
#   sh bench/device.sh --help
# Two files, whole or not at all: bench/results/DATE-NAME-device.json and .md. Exit status: 0 all right, 1 a device was wrong
# or a step failed, 2 the request was wrong.
exec python3 "$(dirname "$0")/device.py" "$@"
