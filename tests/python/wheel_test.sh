#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The wheel on a machine that has no compiler and no libraries of ours: into an
# empty environment, where wheel_smoke.py holds it to what the command makes.
#   wheel_test.sh BUILD WHEEL [INTERPRETER...]
# BUILD/venv-wheel has pip and abi3audit, and its interpreter is the first.
set -euo pipefail
build=$(cd "${1:?build folder}" && pwd) wheel=$(realpath "${2:?wheel}")
here=$(cd "$(dirname "$0")" && pwd)
package=$here/../../python
bin=$build/venv-wheel/bin
most=3000000  # bytes
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() { echo "$*"; exit 1; }

# ---- the file ---------------------------------------------------------------

size=$(stat -c %s "$wheel")
((size <= most)) || fail "$wheel has $size bytes, more than $most"
[[ $wheel == *-cp311-abi3-manylinux_*_x86_64.whl ||
   $wheel == *-cp311-abi3-manylinux_*_aarch64.whl ]] ||
    fail "$wheel is not for every CPython from 3.11 on"
"$bin/abi3audit" --strict --report "$wheel" >"$tmp/abi3" ||
    { cat "$tmp/abi3"; fail "uses what is not in the limited API of 3.11"; }

"$bin/python" -m zipfile -e "$wheel" "$tmp/unpacked"
(cd "$package" && echo headrace/report.html &&
    find headrace -name '*.py' -o -name '*.pyi' -o -name py.typed) |
    sort >"$tmp/want"
(cd "$tmp/unpacked" && find headrace -type f ! -name _core.abi3.so) |
    sort >"$tmp/have"
diff -u "$tmp/want" "$tmp/have" || fail "not the files of python/headrace"
licences=(LICENSE libjpeg62-turbo.txt libpng16-16.txt libpopt0.txt
          libwebp7.txt libwebpdemux2.txt
          libjansson4.txt libjs-chart.js.txt librandom123-dev.txt
          libxxhash-dev.txt)
for licence in "${licences[@]}"; do
    [[ -s $(echo "$tmp"/unpacked/*.dist-info/licenses/"$licence") ]] ||
        fail "no $licence in the wheel"
done
# A library that comes along has a licence here, and a row in docs/install.md.
for library in "$tmp"/unpacked/headrace.libs/*.so*; do
    name=$(basename "$library" | sed -E 's/^lib//; s/[-.].*//; s/[0-9]+$//')
    ls "$tmp"/unpacked/*.dist-info/licenses/lib"$name"* >/dev/null ||
        fail "no licence of $library"
done

# ---- what it does -----------------------------------------------------------

"$build/headrace" samples "$tmp/pictures" --count 6 --size 240x320 \
    --photos-only >"$tmp/log"
raw=(--dtype u8 --layout nhwc --ops decode)
"$build/headrace" run "$tmp/pictures" --backend cpu -q "${raw[@]}" \
    --out "$tmp/decoded.npy"
"$build/headrace" run "$tmp/pictures" --backend cpu -q --out "$tmp/tensor.npy" \
    --ops resize=128,center_crop=112,normalize=imagenet

# No PATH to a compiler, no variables; and where these libraries are looked for
# first, files that are none.
mkdir "$tmp/decoys"
for library in libjpeg.so.62 libpng16.so.16 libwebp.so.7 libwebpdemux.so.2 \
               libpopt.so.0 libjansson.so.4 \
               libOpenCL.so.1 libva.so.2 libva-drm.so.2 $(cd "$build" && echo libheadrace.so*); do
    echo "not a library" >"$tmp/decoys/$library"
done

# The command that the wheel brings makes what the build's does.
command_of()
{
    local alone=("${bare[@]}" "LD_LIBRARY_PATH=$tmp/decoys")
    local run=(run "$tmp/pictures" --backend cpu -q
               --ops 'resize=128,center_crop=112,normalize=imagenet')
    "${alone[@]}" headrace "${run[@]}" --out "$tmp/script.npy"
    "${alone[@]}" python -m headrace "${run[@]}" --out "$tmp/module.npy"
    cmp "$tmp/script.npy" "$tmp/tensor.npy"
    cmp "$tmp/module.npy" "$tmp/tensor.npy"
    "${alone[@]}" headrace validate "$tmp/pictures" --backend cpu -q \
        --report "$tmp/page.html"
    cmp <("${alone[@]}" headrace run --help) <("$build/headrace" run --help)
    "${alone[@]}" headrace pack "$tmp/pictures" --out "$tmp/one.hrp" -q
    "${alone[@]}" python -c "import headrace
headrace.pack_folder('$tmp/pictures', '$tmp/two.hrp')"
    cmp "$tmp/one.hrp" "$tmp/two.hrp"
}

try()  # interpreter
{
    local venv=$tmp/venv
    rm -rf "$venv"
    "$1" -m venv --without-pip "$venv"
    "$bin/pip" --python "$venv/bin/python" install -q --no-index --no-deps \
        --disable-pip-version-check "$wheel"
    bare=(env -i "HOME=$tmp" "PATH=$venv/bin" TERM=dumb)
    cd "$tmp"
    "${bare[@]}" "LD_LIBRARY_PATH=$tmp/decoys" python "$here/wheel_smoke.py" \
        --alone "$tmp/pictures" "$tmp/decoded.npy" "$tmp/tensor.npy"
    command_of
    # A machine with drivers; PoCL calls a linker, and aborts without one.
    "${bare[@]}" "PATH=$venv/bin:/usr/bin:/bin" python "$here/wheel_smoke.py" \
        "$tmp/pictures" "$tmp/decoded.npy" "$tmp/tensor.npy"
    "$bin/pip" --python "$venv/bin/python" uninstall -q -y headrace
    left=$(find "$venv" -path '*headrace*' | head -n 3)
    [[ ! $left ]] || fail "pip leaves behind: $left"
}

try "$bin/python"
for interpreter in "${@:3}"; do
    try "$interpreter"
done
echo "$size bytes"
