#!/bin/sh
# bench/device.sh with small sizes, on this machine's CPU devices: the fields of its JSON, the page,
# a driver passed by path, and failure for a wrong kernel.
#
#   check_device.sh BUILD
set -eu
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/clattn" devices >/dev/null 2>&1 || { echo "no OpenCL device"; exit 77; }
fail() { echo "$*"; [ ! -f "$work/said" ] || tail -n 20 "$work/said"; exit 1; }
measure() { sh bench/device.sh --quick --device cpu "$@" >"$work/said" 2>&1; }

measure --build "$build" --out "$work/a" || fail "a good device: exit status $?"
python3 - "$work" <<'PYTHON'
import json, sys
report = json.load(open(f"{sys.argv[1]}/a.json"))
assert not set("format_version clattn date quick devices seconds status".split()) - set(report), report.keys()
assert report["format_version"] == 1 and report["status"] == "ok" and report["quick"] and report["seconds"] > 0
assert report["date"][4] == "-" and report["date"].endswith("+00:00") and report["devices"]
for device in report["devices"]:
    fields = "index device type driver platform version compute_units local_bytes status bad verify suites bench torch"
    assert not set(fields.split()) - set(device), device.keys()
    verify, suites, bench, torch = (device[x] for x in ("verify", "suites", "bench", "torch"))
    assert device["status"] == "ok" and device["bad"] == []
    assert verify["status"] == "ok" and verify["pass"] >= 5 and verify["fail"] == 0 and verify["failures"] == [] and verify["families"]
    assert suites["status"] in ("ok", "absent") and all(s["status"] == "ok" and s["checks"] > 0 for s in suites["suites"]), suites
    assert bench["status"] == "ok" and bench["limits"]["fma_gflops"] > 0 and {r["list"] for r in bench["rows"]} == {"prefill", "decode", "projections"}
    assert all(r["status"] == "ok" and r["time_ns"] > 0 and r["error_nmse"] < 5e-5 for r in bench["rows"])
    assert torch["status"] in ("ok", "absent", "unfinished") and "rows" in torch and (torch["why"] or torch["rows"])
    assert all(r["status"] == "unsupported" or r["ratio"] > 0 for r in torch["rows"])
page = open(f"{sys.argv[1]}/a.md").read()
assert all(r["case"] in page for d in report["devices"] for r in d["bench"]["rows"]) and report["devices"][0]["device"] in page
PYTHON

# Pass only the driver's path, without an .icd file.
icd=$(find "${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}" -name '*.icd' | head -n 1)
library=$(head -n 1 "$icd")
case $library in
/*) ;;
*) library=$(ldconfig -p | sed -n "s|.* $library .*=> ||p" | head -n 1) ;;
esac
mkdir "$work/none" "$work/bad"
if [ -f "$library" ]; then
    status=0
    OCL_ICD_VENDORS="$work/none/" sh bench/device.sh --quick --build "$build" --out "$work/b" >"$work/said" 2>&1 || status=$?
    [ $status != 0 ] || fail "without a driver there was a device"
    # Pretend that the device is no CPU, and that the build has no tests.
    cat >"$work/bad/clattn" <<END
#!/bin/sh
if [ "\$1" = devices ]; then
    "$build/clattn" "\$@" | sed 's/"type": "cpu"/"type": "gpu"/'
    exit
fi
exec "$build/clattn" "\$@"
END
    chmod +x "$work/bad/clattn"
    OCL_ICD_VENDORS="$work/none/" measure --device 0 --steps verify,suites --build "$work/bad" --driver "$library" --out "$work/c" ||
        fail "a driver by its path: exit status $?"
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))["devices"][0]
assert d["suites"]["status"] == "absent" and d["verify"]["pass"] > 0, d
assert {"flash", "unfused"} <= set(d["verify"]["families"]) and not any("lanes" in f for f in d["verify"]["families"]), d["verify"]' "$work/c.json"
fi

# A wrong kernel: verify reports it, with its exit status.
cat >"$work/bad/clattn" <<END
#!/bin/sh
if [ "\$1" = verify ]; then
    "$build/clattn" "\$@" | sed -e 's/"fail": 0/"fail": 1/' -e '0,/"status": "pass"/s//"status": "fail"/'
    exit 1
fi
exec "$build/clattn" "\$@"
END
chmod +x "$work/bad/clattn"
status=0
measure --steps verify --build "$work/bad" --out "$work/d" || status=$?
[ $status = 1 ] || fail "a kernel that is wrong: exit status $status"
python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert d["status"] == "fail" and d["devices"][0]["bad"] == ["verify"] and len(d["devices"][0]["verify"]["failures"]) == 1, d["devices"][0]["verify"]' "$work/d.json"
grep -q 'failed: ' "$work/d.md" || fail "the page does not name what failed"
# An interrupted run leaves no files. Wrong requests end with a one-line reason.
sh bench/device.sh --quick --device cpu --build "$build" --out "$work/e" >"$work/said" 2>&1 &
sleep 2
kill $! && wait $! || true
[ -z "$(find "$work" -name 'e.*')" ] || fail "a run that was ended left $(find "$work" -name 'e.*')"
for wrong in "--build $work/none" "--driver $work/absent.so --build $build" "--minutes 0 --build $build" \
    "--build $build --out $work/no-folder/f" \
    "--build $build --steps verify,none" "--nonsense"; do
    status=0
    # shellcheck disable=SC2086
    sh bench/device.sh $wrong >"$work/said" 2>&1 || status=$?
    [ $status = 2 ] || fail "$wrong: exit status $status"
done
echo "device.sh: all held"
