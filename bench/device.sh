#!/bin/sh
# Verify and measure a machine's OpenCL devices, unattended and in less than ten minutes. The steps
# are verify, suites, and the bench of prefill, decode and projections. PyTorch's own kernels are
# measured too if PyTorch has the device. Installs nothing.
#
#    sh bench/device.sh                  every device, with the build in build/
#    sh bench/device.sh --driver /path/libOpenCL_of_a_vendor.so
#                                        also a driver that has no .icd file
#    sh bench/device.sh --build FOLDER --libraries FOLDER
#                                        a build folder and libraries from another machine, in any
#                                        place; the machine itself needs only Python 3
#    sh bench/device.sh --help
#
# Writes two files, both or none: bench/results/DATE-NAME-device.json and .md. Exit status: 0 for
# success, 1 if a device was wrong or a step failed, 2 for a wrong request.
exec python3 "$(dirname "$0")/device.py" "$@"
