#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What ./dev says and does before it builds, with apt-get, dpkg-query and cmake
# that only look as if: nothing is installed or upgraded in silence, and a build
# says how far it is.
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
echo "fine"
