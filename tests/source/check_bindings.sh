#!/bin/sh
# Only one file of the library each includes the headers of OpenCL, CLBlast and the operating
# system. Every OpenCL function is called through the table of that file, in the library and in the
# program. No kernel is built with flags that drop NaN or infinity.
set -eu
bad=0
files_of() { find "$@" -name '*.[ch]'; }
# A pattern that matches no file would hide errors.
for folder in src/lib src/bindings/mpi src/bindings/onnxruntime src/verification src/cli cl bench tests; do
    [ "$(files_of "$folder" | wc -l)" -ge 1 ] || { echo "found no file in $folder"; bad=1; }
done
core=$(files_of src/lib)
complain() { [ -z "$2" ] || { echo "$1: $2"; bad=1; }; }
complain "includes CL/" "$(grep -lE '#include *<(CL|OpenCL)/' $core | tr '\n' ' ')"
# A function that is not in the table would be resolved by the linker.
for door in src/lib/device src/bindings/mpi src/verification/device; do
    table=$door/opencl_calls.def
    case $door in
    src/lib/device) table=src/lib/tables/opencl_calls.def files=$(echo "$core" | grep 'c$') ;;
    src/bindings/mpi) files=$(ls src/bindings/mpi/*.c) ;;
    *) files=$(files_of src/verification src/cli | grep 'c$') ;;
    esac
    called=$(echo "$files" | xargs cat | sed -e 's,//.*,,' -e 's/"[^"]*"//g' |
        grep -oE '\bcl(Build|Create|Enqueue|Finish|Flush|Get|Release|Retain|Set|Wait|Compile|Link|Unload)[A-Za-z]* *\(' | tr -d ' (' |
        sort -u)
    listed=$(sed -n 's/^OPENCL_CALL(\(.*\))/\1/p' $table | sort -u)
    [ "$called" = "$listed" ] ||
        complain "called, or listed in $table, alone" \
            "$(printf '%s\n%s\n' "$called" "$listed" | sort | uniq -u | tr '\n' ' ')"
    named=$(sed -n 's/^#define \(cl[A-Z][A-Za-z]*\) .*/\1/p' $door/opencl.h | sort -u)
    [ "$named" = "$listed" ] ||
        complain "$door/opencl.h: the names are not those of opencl_calls.def" \
            "$(printf '%s\n%s\n' "$named" "$listed" | sort | uniq -u | tr '\n' ' ')"
    for file in $(echo "$files" | xargs grep -lE '\bcl(Build|Create|Enqueue|Finish|Flush|Get|Release|Retain|Set|Wait)[A-Z][A-Za-z]* *\(' |
        grep -v 'opencl_load.c$'); do
        [ $door != src/verification/device ] || grep -q '"verification/device/opencl.h"' "$file" || complain "calls OpenCL without its door" "$file"
    done
done
complain "includes clblast" "$(grep -lE '#include *<clblast' -r src | grep -vE "^src/(lib/layer/projection/clblast_module|cli/bench/bench_baseline).c\$" | tr '\n' ' ')"
complain "includes POSIX or Windows headers" \
    "$(grep -lE '#include *<(unistd|pthread|fcntl|dlfcn|sys/|windows)' $core | grep -vE 'os_(posix|windows).c$' | tr '\n' ' ')"
# Host memory is allocated in one place, so that an application's own functions allocate all of it.
# check_exports.sh checks the objects.
complain "takes host memory beside base/host.c" \
    "$(grep -lE '\b(malloc|calloc|realloc|reallocarray|free|strn?dup|aligned_alloc|posix_memalign|v?asprintf|getline|getdelim|open_memstream|wcsdup|_strdup) *\(' $core | grep -v '^src/lib/base/host.c$' | tr '\n' ' ')"
complain "takes host memory beside world.c" \
    "$(grep -lE '\b(malloc|calloc|realloc|free|strn?dup) *\(' src/bindings/mpi/*.[ch] | grep -v '^src/bindings/mpi/world.c$' | tr '\n' ' ')"
complain "unsafe math flags" "$(grep -lE '\-cl-(fast-relaxed-math|finite-math-only|unsafe-math-optimizations)' -r src cl | tr '\n' ' ')"
# Few functions parse numbers, and strictly: strtol accepts spaces and signs, stops at the first
# letter, and saturates.
complain "reads numbers by itself" "$(grep -lE '\b(strto(l|ul|ll|ull|d|f|ld|imax|umax)|ato[ifl]l?|sscanf) *\(' -r src | grep -vE '^src/(verification/words/words|cli/heatmap/heatmap).c$' | tr '\n' ' ')"
complain "includes mpi.h outside of its module, its tests and the program's door to it" \
    "$(grep -lE '#include *<mpi.h>' -r src | tr '\n' ' ')"
# src/verification only includes the public header and the tables. src/cli, tests and bench use
# src/verification, but do not use one another.
own_only() { grep -rnE '#include "' "$1" --include='*.[ch]' | grep -vE "$2" | cut -d: -f1 | sort -u | tr '\n' ' '; }
complain "includes more than mpi/, tables/ and args.h" "$(own_only src/bindings/mpi '"(mpi/|tables/|args/args[.]h")')"
complain "includes more than onnxruntime/" "$(own_only src/bindings/onnxruntime '"onnxruntime/')"
complain "includes more than verification/ and tables/" "$(own_only src/verification '"(verification|tables)/')"
complain "includes more than the public header" "$(own_only src/bindings/ggml none)"
complain "includes more than verification/, cli/, tables/ and the hash of base/" "$(own_only src/cli '"(verification/|cli/|tables/|base/sha256[.]h"|[a-z_]*\.h")')"
complain "includes cli/ or tests/" "$(grep -lE '#include ".*(cli|tests)/' bench/*.[ch] | tr '\n' ' ')"
complain "Check or Jansson in src/verification" "$(grep -lE '#include *<(check|jansson)' $(files_of src/verification) | tr '\n' ' ')"
complain "the library includes src/verification or src/cli" "$(grep -lE '#include "(verification|cli)/' $core | tr '\n' ' ')"
complain "a suite's header includes cli/" \
    "$(grep -lE '#include "(cli/|.*src/cli)' $(find tests -name '*.h') tests/support/case_assert.c tests/support/harness.c | tr '\n' ' ')"
# Downloads are verified: PyPI's packages by their hashes, and never built here; Debian's by its
# keys.
complain "installs from PyPI without hashes" "$(grep -rnE "pip[\"]? install|[\"]pip[\"], [\"]install" tests bench --include='*.sh' --include='*.py' --exclude-dir=data --exclude-dir=examples | grep -vE 'require-hashes|^tests/source/check_bindings.sh:' | tr '\n' ' ')"
complain "debootstrap without --force-check-gpg" \
    "$(grep -rnE '^ *debootstrap ' tests --include='*.sh' | grep -v -- --force-check-gpg | tr '\n' ' ')"
exit $bad
