#!/bin/sh
# OpenCL, CLBlast and the operating system each have one door: no other file of the library includes their headers.
# No kernel is built with flags that drop NaN or infinity.
set -eu
bad=0
complain() { [ -z "$2" ] || { echo "$1: $2"; bad=1; }; }
complain "includes CL/" "$(grep -lE '#include *<(CL|OpenCL)/' src/core/*.[ch] src/plan/*.[ch] src/attention/*.[ch] src/layer/*.[ch] | tr '\n' ' ')"
complain "includes clblast" "$(grep -lE '#include *<clblast' -r src | grep -vE "^src/(layer/clblast|tool/bench_baseline).c\$" | tr '\n' ' ')"
complain "includes POSIX or Windows headers" "$(grep -lE '#include *<(unistd|pthread|fcntl|dlfcn|sys/|windows)' src/core/*.[ch] src/plan/*.[ch] src/attention/*.[ch] src/layer/*.[ch] | grep -vE 'os_(posix|windows).c$' | tr '\n' ' ')"
complain "unsafe math flags" "$(grep -lE '\-cl-(fast-relaxed-math|finite-math-only|unsafe-math-optimizations)' -r src cl | tr '\n' ' ')"
complain "more than 400 lines" "$(find src include cl tests bench -name '*.[ch]' -o -name '*.cl' -o -name '*.clh' | xargs wc -l | awk '$1 > 400 && $2 != "total" {print $2}' | tr '\n' ' ')"
exit $bad
