#!/bin/sh
# `clattn doctor` on drivers that are right, absent, broken or silent, and on drivers that crash or
# hang a process. Its output has nothing personal. Other commands on such drivers avoid what
# crashed.
#
#   check_doctor.sh BUILD [some]     some: without Oclgrind, and without the devices command on a
#                                    driver that is surveyed
set -u
clattn=$PWD/$1/clattn
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
complain() { echo "$1"; [ -z "${2:-}" ] || cat "$2"; bad=1; }
cc -std=c11 -Wall -Wextra -Werror -shared -fPIC tests/program/unkind_layer.c -o "$work/unkind.so" || exit 1
cd "$work" || exit 1
export OPENCL_LAYERS= HOME="$work/ada" USER=ada LOGNAME=ada XDG_CACHE_HOME="$work/ada/.cache"
mkdir -p ada/.cache
unkind() { env OPENCL_LAYERS="$work/unkind.so" "$@"; }
status() { # WANTED COMMAND...
    want=$1 got=0
    shift
    "$@" >out 2>err || got=$?
    [ "$got" = "$want" ] || complain "exit status $got instead of $want: $*" out
    [ ! -s err ] || complain "on stderr, which is no terminal: $*" err
    LC_ALL=C.UTF-8 awk 'length > 100' out >wide
    case $* in *--json*) ;; *) [ ! -s wide ] || complain "wider than 100 columns: $*" wide ;; esac
    if grep -nwi -e ada -e "$(uname -n)" -e "$work" out >personal; then complain "personal: $*" personal; fi
}
says() { grep -q -- "$1" out || complain "it does not say '$1'" out; }
json() { python3 -c 'import json, sys
report = json.load(open("out"))
assert eval(sys.argv[1]), (sys.argv[1], report)' "$1" 2>why || complain "$(tail -n 1 why)"; }

# A driver that works. Its folder also has a driver file for a missing library, which is a hint and
# no error.
mkdir ada/vendors
for folder in "${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}"; do cp "$folder"/*.icd ada/vendors/ 2>/dev/null || cp "$folder" ada/vendors/; done
echo libnothing-of-ada.so.9 >ada/vendors/broken.icd
status 0 env OCL_ICD_VENDORS="$work/ada/vendors/" RUSTICL_DEBUG="$HOME/x" "$clattn" doctor --only flash
says 'all right'
says '^right *flash$'
says 'broken.icd names libnothing-of-(user).so.9, which cannot be loaded:'
says 'cannot open shared object'
says 'RUSTICL_DEBUG=.../x'
status 0 env OCL_ICD_VENDORS="$work/ada/vendors/" CLATTN_TOKEN=1234567 "$clattn" doctor --only unfused --json
json 'not report["findings"] and report["devices"][0]["calls"][0]["outcome"] == "right"'
json 'report["devices"][0]["calls"][0]["error_nmse"] < 1e-9 and report["platforms"][0]["devices"] >= 1'
json 'any(not f.get("loads", True) for d in report["driver_files"] for f in d["files"])'
grep -q 1234567 out && complain "a secret is shown"

# No driver at all.
mkdir hidden
for name in libOpenCL.so.1 libOpenCL.so; do echo "no library" >hidden/$name; done
status 1 env LD_LIBRARY_PATH="$work/hidden" "$clattn" doctor
says 'no OpenCL loader'
status 1 env OCL_ICD_VENDORS="$work/nothing/" "$clattn" doctor
says 'finding *no OpenCL platform'
says 'no such folder'
status 1 unkind UNKIND_EMPTY=1 "$clattn" doctor
says 'no platform has a device'
status 1 unkind UNKIND_SILENT=1 "$clattn" doctor
says 'cannot be described'
unkind UNKIND_SILENT=1 "$clattn" devices >out 2>err && complain "clattn devices with a silent device ends well"
grep -q 'none of the . devices here can be described; see clattn doctor' err || complain "clattn devices of a silent device:" err
status 1 unkind UNKIND_LOAD=1 "$clattn" doctor
says 'OpenCL: died by signal 6'
says 'alone: died by signal 6'

# Hints about environment variables.
env PATH="$work" POCL_CACHE_DIR=/proc/none "$clattn" doctor --only flash --json >out 2>err
case $(cat out) in *"Portable Computing"*)
    json 'any("there is none on PATH" in h for h in report["hints"]) and any("POCL_CACHE_DIR" in h for h in report["hints"])' ;;
esac

status 1 unkind UNKIND_EMPTY=1 UNKIND_NAME=rusticl env -u RUSTICL_ENABLE "$clattn" doctor
says 'rusticl (Mesa) shows no device unless'
status 1 unkind UNKIND_EMPTY=1 UNKIND_NAME=rusticl RUSTICL_ENABLE=iris "$clattn" doctor
says 'rusticl (Mesa) shows no device for RUSTICL_ENABLE=iris'
denied() { # PATH WORD: the hint for a device file that this user may not open
    status 1 unkind UNKIND_EMPTY=1 UNKIND_FILE="$1" LD_PRELOAD="$work/unkind.so" "$clattn" doctor --json
    json "any(h.startswith('$1: no permission: Permission denied. ') and '$2' in h for h in report['hints'])"
}
denied /dev/dri/renderD128 render
denied /dev/nvidia0 administrator
denied /dev/kfd 'render and video'
denied /dev/mali0 video
denied /dev/kgsl-3d0 video

# A kernel whose build crashes, hangs, fails, or is wrong, and the kernel after it.
status 1 unkind UNKIND_DIES=flash "$clattn" doctor --only flash,unfused
says 'flash: died by signal 11'
says 'unkind: internal compiler error'
says '^right *unfused$'
status 1 unkind UNKIND_HANGS=scores "$clattn" doctor --only unfused,flash --time-limit 4
says 'unfused: timed out after 4 s'
status 1 unkind UNKIND_REFUSES=flash_lanes "$clattn" doctor --only flash-lanes-4 --json
json '"too unkind" in report["findings"][0] or "clBuildProgram" in report["findings"][0]'
status 1 unkind UNKIND_LIES=flash "$clattn" doctor --only flash
says 'flash: wrong by'
"$clattn" doctor --only nonesuch >out 2>err
[ $? = 2 ] && grep -q 'no such kernel; like it' err || complain "--only nonesuch:" err

# An unknown driver is surveyed in a separate process, which crashes. The command continues, and so
# does the next one.
kernel() { unkind UNKIND_VERSION='OpenCL 3.0 Stranger 1.0' "$@" "$clattn" verify --only planner --verbose --cache-dir cache \
    --case attend-f32-b1-h2-n9-nkv33-d64-causal >out 2>err || complain "verify on a stranger: exit status $?" err; }
kernel UNKIND_DIES=probe_tiles
grep -q 'a survey is done; 1 of its processes ended early$' err || complain "no survey:" err
says '1 pass'
kernel UNKIND_DIES=probe_tiles
grep -q 'survey' err && complain "a second survey:" err
if [ "${2:-}" = some ]; then
    [ "$bad" = 0 ] && echo "clattn doctor and surveys: all held"
    exit "$bad"
fi
unkind UNKIND_VERSION='OpenCL 3.0 Stranger 1.0' UNKIND_DIES=probe_tiles "$clattn" devices --json --cache-dir cache >out 2>err || complain "devices of a stranger:" err
json 'all(e["died"] == (e["name"] == "tiles through local memory") for e in report["devices"][0]["engines"])'
json 'not report["devices"][0]["driver_known"]'
unkind UNKIND_VERSION='OpenCL 3.0 Stranger 1.0' "$clattn" devices --measure --json --cache-dir cache >out 2>err || complain "devices --measure:" err
json 'not any(e["died"] for e in report["devices"][0]["engines"])'
json 'any(e["works"] for e in report["devices"][0]["engines"] if e["name"] == "tiles through local memory")'
# Oclgrind crashes when it compiles inline assembly, of x86 and of PTX. It reports to be both a CPU
# and a GPU.
if command -v oclgrind >/dev/null; then
    oclgrind "$clattn" verify --only flash --verbose --cache-dir interpreted --case attend-f32-b1-h1-n3-nkv5-d8-full >out 2>err ||
        complain "verify on Oclgrind: exit status $?" err
    says '1 pass'
    grep -q 'a survey is done; 2 of its processes ended early$' err || complain "no survey on Oclgrind:" err
fi
[ "$bad" = 0 ] && echo "clattn doctor and surveys: all held"
exit "$bad"
