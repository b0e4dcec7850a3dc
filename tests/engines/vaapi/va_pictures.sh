#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Real pictures on the VA-API engine over the software driver, and on the CPU:
# the same bytes, every picture's way planned, and the reasons for the pictures
# that the device did not make; the kinds that are made whole in tier fast. Exit
# code 77, after a line "not run: REASON": something it needs is not here.
#   va_pictures.sh BUILD [--long] [CORPUS]
# CORPUS has kinds/ and photos/; without it, the files of headrace samples. One
# photo in eight, on one kind of driver; --long: all, on each.
set -euo pipefail
build=$(realpath "${1:?usage: va_pictures.sh BUILD [--long] [CORPUS]}")
here=$(cd "$(dirname "$0")" && pwd)
long=
shift
[[ ${1-} != --long ]] || { long=1; shift; }
corpus=${1-}
scratch=$build/va-pictures
driver=$build/tests/va_driver
python=/usr/bin/python3
[[ -x $python ]] || python=python3

not_run() { echo "not run: $*"; exit 77; }

[[ -e $driver/headrace_drv_video.so ]] ||
    not_run "$driver/headrace_drv_video.so was not built"
rm -rf "$scratch"
mkdir -p "$scratch/cache" "$scratch/few"
unset HEADRACE_VA_DRIVER HEADRACE_BACKEND HEADRACE_CERTIFICATE
unset HEADRACE_VAAPI_DEVICE HEADRACE_VAAPI_READ
export XDG_CACHE_HOME=$scratch/cache
export LIBVA_DRIVERS_PATH=$driver LIBVA_DRIVER_NAME=headrace
export LIBVA_MESSAGING_LEVEL=0 ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0
# A driver that was built with a sanitizer needs it first.
node=$(ldd "$driver/headrace_drv_video.so" | awk '/lib[at]san/ {print $3}')
node=${node:+$node:}$driver/libva_node_type.so

run()  # name backend ops pictures...
{
    local name=$1 backend=$2 ops=$3 rc=0
    shift 3
    LD_PRELOAD=$node timeout 600 "$build/headrace" run --tier exact \
        --backend "$backend" --ops "$ops" --json --quiet \
        --out "$scratch/$name.npy" "$@" >"$scratch/$name.summary" \
        2>"$scratch/$name.err" || rc=$?
    # 1: no engine can make some of the pictures.
    ((rc <= 1)) || { cat "$scratch/$name.err"; return 1; }
}

bad=0
same()  # what least ops personalities pictures...
{
    local what=$1 least=$2 ops=$3 persons=$4 person
    shift 4
    run cpu cpu "$ops" "$@"
    for person in $persons; do
        export HEADRACE_VA_DRIVER=personality=$person
        run device vaapi:/dev/null+cpu "$ops" "$@" || { bad=1; continue; }
        "$python" "$here/va_pictures.py" "$scratch" "$what, $person" \
            "$least" || bad=1
    done
}

# Prints the kinds of JPEG that go to the video processor, per headrace devices.
processed()  # personality kinds
{
    local got
    got=$(LD_PRELOAD=$node HEADRACE_VAAPI_DEVICE=/dev/null \
        HEADRACE_VA_DRIVER=personality=$1 "$build/headrace" devices --json |
        "$python" -c '
import json, sys
found = [d for d in json.load(sys.stdin)["devices"] if d["backend"] == "vaapi"]
fast = [k for d in found for k in d["certificate"]["records"]
        if k["tier"] == "fast"]
assert all(k["pictures"] > 0 and k["max"] > 0 and k["psnr"] > 20 for k in fast)
print(*(k["kind"] for k in fast if not k["failed"]))') || got=nothing
    [[ $got == "$2" ]] || { echo "$1: fast takes $got, not $2"; bad=1; }
}

processed plain "gray 4:2:0 4:2:2 4:4:0 4:4:4 4:1:1"
processed ihd "4:2:0 4:2:2 4:4:0"
processed mesa_main "gray 4:2:0 4:2:2 4:4:4"
for person in i965 mesa22 nvidia; do
    processed $person ""
done

all="plain ihd i965 mesa22 mesa_main nvidia"
ops=decode,resize=256,center_crop=224,normalize=imagenet
if [[ -d $corpus/kinds && -d $corpus/photos ]]; then
    same kinds 20 "$ops" "$all" "$corpus/kinds"
    if [[ $long ]]; then
        same photos 50 "$ops" "$all" "$corpus/photos"
        same "photos, whole" 50 decode,resize=512x512 plain "$corpus/photos"
    else
        find "$corpus/photos" -type f | sort | awk 'NR % 8 == 1' |
            while read -r file; do
                ln -s "$file" "$scratch/few/$(basename "$(dirname "$file")")-$(
                    basename "$file")"
            done
        same "one in eight photos" 50 "$ops" plain "$scratch/few"
    fi
else
    "$build/headrace" samples --count 8 "$scratch/samples" >/dev/null
    same samples 10 "$ops" "$all" "$scratch/samples"
fi
rm -rf "$scratch"
exit $bad
