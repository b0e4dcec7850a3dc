#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ./dev before it builds: its messages and its steps, with stand-ins for
# apt-get, dpkg-query, cmake and ctest. It installs and upgrades nothing in
# silence, a build says how far it is, and a test that fails makes ./dev test
# fail.
set -euo pipefail
dev=$(cd "$(dirname "$0")/../.." && pwd)/dev
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset HEADRACE_SETUP

mkdir "$tmp/bin"
cat >"$tmp/bin/dpkg-query" <<'END'
#!/bin/bash
exit 1
END
cat >"$tmp/bin/apt-get" <<'END'
#!/bin/bash
if [[ " $* " == *" -s "* ]]; then
    [[ ! -e $OLD ]] || echo "Inst curl [7.88.1-1] (7.88.1-2 Debian:12 [amd64])"
    echo "Inst gcc (4:12.2.0-3 Debian:12 [amd64])"
else
    echo "$*" >>"$DONE"
fi
END
cat >"$tmp/bin/sudo" <<'END'
#!/bin/bash
"$@"
END
cat >"$tmp/bin/cmake" <<'END'
#!/bin/bash
[[ $1 == --build ]] || exit 0
for i in {1..8}; do echo "[$i/8] Building C object x$i.o"; done
[[ ! -e $BROKEN ]] || { echo "x8.c: error: no such thing"; exit 1; }
printf '#!/bin/sh\necho "run $*"\n' >"$HEADRACE_BUILD/headrace"
chmod +x "$HEADRACE_BUILD/headrace"
END
chmod +x "$tmp"/bin/*
export PATH=$tmp/bin:$PATH HEADRACE_BUILD=$tmp/build
export DONE=$tmp/done OLD=$tmp/old BROKEN=$tmp/broken

dev()  # variable... -- argument...
{
    local settings=()
    rm -rf "$DONE" "$HEADRACE_BUILD"
    while [[ $1 != -- ]]; do settings+=("$1"); shift; done
    shift
    rc=0
    env "${settings[@]}" "$dev" "$@" >"$tmp/out" 2>&1 </dev/null || rc=$?
}
says() { grep -qF -- "$1" "$tmp/out" || { cat "$tmp/out"; echo "not said: $1"; exit 1; }; }
silent() { ! grep -qF -- "$1" "$tmp/out" || { cat "$tmp/out"; echo "said: $1"; exit 1; }; }

dev -- run a/ --out b.npy
says "building in $tmp/build"
for share in 25 50 75 100; do says "$share % built"; done
says "run run a/ --out b.npy"
silent "are upgraded"
[[ -e $DONE ]] || { echo "nothing was installed"; exit 1; }

touch "$OLD"
dev -- run a/ --out b.npy
says "these are upgraded: curl"
[[ -e $DONE ]] || { echo "nothing was installed"; exit 1; }

dev HEADRACE_SETUP=keep -- run a/ --out b.npy
says "these are upgraded: curl"
grep -q install "$DONE" 2>/dev/null && { echo "upgraded"; cat "$DONE"; exit 1; }
says "run run a/"

dev HEADRACE_SETUP=0 -- run a/ --out b.npy
[[ ! -e $DONE ]] || { echo "installed"; exit 1; }

touch "$BROKEN"
dev -- run a/ --out b.npy
says "x8.c: error: no such thing"
says "does not build"
silent "run run"
((rc == 1)) || { echo "exit code $rc"; exit 1; }
dev -- test
says "0 passed, 1 failed, 0 skipped"
((rc == 1)) || { echo "exit code $rc of a build that fails"; exit 1; }
rm "$BROKEN"

# ctest -N lists test_a and test_b; else it writes what $XML has.
cat >"$tmp/bin/ctest" <<'END'
#!/bin/bash
[[ " $* " != *" -N "* ]] || { [[ " $* " == *" -L "* ]] ||
    grep -E "${@: -1}" <<<$'test_a\ntest_b' | sed 's/^/ Test #1: /'; exit 0; }
while [[ $1 != --output-junit ]]; do shift; done
echo "<testsuite>$(<"$XML")</testsuite>" >"$2"
echo "ctest ${@:3}"
! grep -q '"fail"\|Fixture' "$XML"
END
chmod +x "$tmp/bin/ctest"
export XML=$tmp/xml HEADRACE_SETUP=0
case_of()  # name status inside
{
    echo "<testcase name=\"$1\" time=\"1\" status=\"$2\">$3</testcase>"
}
passed=$(case_of test_a run "<system-out>  not run: p: no q
0.50 s of processor time</system-out>")
skipped=$(case_of exact notrun "<skipped message=\"SKIP_RETURN_CODE=77\"/>
<system-out>not run: no numpy</system-out>")

echo "$passed$skipped" >"$XML"
dev -- test
says "ctest -L ^(short)\$"
says "no q (p)"
says "no numpy (exact)"
[[ $(tail -n 1 "$tmp/out") == "1 passed, 0 failed, 1 skipped" ]] ||
    { cat "$tmp/out"; exit 1; }
((rc == 0)) || { echo "exit code $rc"; exit 1; }
for bad in "$(case_of tsan fail '<system-out>a race</system-out>')" \
           "$(case_of tsan notrun '<skipped message="Fixture a race"/>')"; do
    echo "$passed$bad" >"$XML"
    dev -- test --full
    says "a race"
    says "1 passed, 1 failed, 0 skipped"
    ((rc == 1)) || { echo "exit code $rc of a test that fails"; exit 1; }
done
echo "$skipped" >"$XML"
dev -- test
((rc == 1)) || { echo "exit code $rc where nothing has passed"; exit 1; }
echo "$passed" >"$XML"
dev -- test 'test_*'
says "ctest -R ^(test_a|test_b)\$"
dev -- test test_c
says "no test is named test_c"
((rc == 1)) || { echo "exit code $rc of a name that is none"; exit 1; }
# Two in one folder would write the same files.
rc=0
flock "$HEADRACE_BUILD/test.lock" "$dev" test >"$tmp/out" 2>&1 || rc=$?
says "another ./dev test is at work in $HEADRACE_BUILD"
((rc == 1)) || { echo "exit code $rc beside another"; exit 1; }
echo "fine"
