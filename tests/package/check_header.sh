#!/bin/sh
# The header compiles alone as C11 and C++17 without a warning. The README's C example compiles as
# well, and runs.
#
#   check_header.sh BUILD
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#include <clattn/clattn.h>\nint main(void) { return 0; }\n' >"$work/header.c"
cc -std=c11 -Wall -Wextra -Werror -pedantic -Iinclude -fsyntax-only "$work/header.c"
c++ -x c++ -std=c++17 -Wall -Wextra -Werror -pedantic -Iinclude -fsyntax-only "$work/header.c"
awk '/^```c$/ {on = 1; next} /^```$/ {on = 0} on' README.md >"$work/example.c"
[ -s "$work/example.c" ] || { echo "README.md has no C example"; exit 1; }
cc -std=c11 -Wall -Wextra -Werror -Iinclude "$work/example.c" -o "$work/example" -L"$1" -lclattn -lOpenCL -lm
LD_LIBRARY_PATH=$1 "$work/example"
