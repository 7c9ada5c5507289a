#!/bin/sh
# OpenCL, CLBlast and the operating system each have one door: no other file of the library includes their headers.
# No kernel is built with flags that drop NaN or infinity.
set -eu
bad=0
complain() { [ -z "$2" ] || { echo "$1: $2"; bad=1; }; }
complain "includes CL/" "$(grep -lE '#include *<(CL|OpenCL)/' src/*.c src/core/*.[ch] src/plan/*.[ch] src/attention/*.[ch] src/layer/*.[ch] | tr '\n' ' ')"
complain "includes clblast" "$(grep -lE '#include *<clblast' -r src | grep -v '^src/layer/clblast.c$' | tr '\n' ' ')"
complain "includes POSIX or Windows headers" "$(grep -lE '#include *<(unistd|pthread|fcntl|dlfcn|sys/|windows)' src/*.c src/core/*.[ch] src/plan/*.[ch] src/attention/*.[ch] src/layer/*.[ch] | grep -vE 'os_(posix|windows).c$' | tr '\n' ' ')"
complain "unsafe math flags" "$(grep -lE '\-cl-(fast-relaxed-math|finite-math-only|unsafe-math-optimizations)' -r src cl | tr '\n' ' ')"
exit $bad
