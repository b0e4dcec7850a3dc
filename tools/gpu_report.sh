#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One table about every OpenCL device of this machine: is it exact, how fast is
# it, what does it cost the host, what crosses the bus. Needs a built tree with
# its tests, bash and python3, and nothing else.
#
#   tools/gpu_report.sh [-b BUILD] [-e EPOCHS] [BUS_GBPS [PICTURES...]]
#
# BUS_GBPS: what the bus to the device can carry, in 10^9 bytes per second and
# direction (PCIe 4.0 x16: about 25); the report says how much of it is used.
# Without it the bus is measured, as the device's memory always is: how long
# kernels would take if they did nothing but move their bytes is their floor.
# PICTURES: files and folders to measure with; else photos are made.
# HEADRACE_REPORT_DEVICES: names of devices, instead of all that there are.
set -euo pipefail
root=$(cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.." && pwd)
build=${HEADRACE_BUILD:-$root/build} epochs=5
while getopts b:e:h option; do
    case $option in
    b) build=$OPTARG ;;
    e) epochs=$OPTARG ;;
    *) sed -n '3,15s/^# \?//p' "$0"; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
bus=${1-}
(($# == 0)) || shift
[[ -z $bus || $bus =~ ^[0-9]+(\.[0-9]+)?$ ]] ||
    { echo "gpu_report: BUS_GBPS is no number: $bus" >&2; exit 2; }
headrace=$build/headrace conformance=$build/tests/test_conformance
trace=$build/tests/libbench_trace.so
made='made by the device: reconstruct..store'
[[ -x $headrace ]] || { echo "gpu_report: no $headrace" >&2; exit 2; }
command -v python3 >/dev/null || { echo "gpu_report: no python3" >&2; exit 2; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export XDG_CACHE_HOME=$tmp/cache POCL_CACHE_DIR=$tmp/cache/pocl
mkdir -p "$POCL_CACHE_DIR"
unset HEADRACE_BACKEND HEADRACE_OPENCL_DEVICE HEADRACE_OPENCL_LIBRARY \
    HEADRACE_OPENCL_ENTROPY

pictures=("$@")
if ((${#pictures[@]} == 0)); then
    "$headrace" samples --photos-only --count 200 "$tmp/photos" >/dev/null
    pictures=("$tmp/photos")
fi
ops=decode,random_resized_crop=224,random_hflip,normalize=imagenet

measure()  # device batch epochs > JSON
{
    "$headrace" run --backend "$1" --out none --ops "$ops" --on-error zero \
        --batch "$2" --epochs "$3" --json "${pictures[@]}"
}

speed()  # device folder
{
    local batch
    for batch in 1 16 256; do
        measure "$1" "$batch" "$epochs" >"$2/run-$batch.json" 2>/dev/null
    done
}

# The suite fails, too, where the device did not make the pictures itself; what
# it says first is the reason.
exactness()  # device log -> yes, NO: why, or why that is not known
{
    local why
    if [[ ! -x $conformance ]]; then
        echo "not tested: no test_conformance"
    elif ! HEADRACE_TEST_DEVICE=$1 "$conformance" other_devices >"$2" 2>&1; then
        why=$(grep -m 1 -E '^[a-z_]+:[0-9]+: ' "$2" || echo "see below")
        echo "NO: ${why#*: }"
    elif grep -qE "^ +tier exact: $made [1-9]" "$2"; then
        echo "yes: $(grep -m 1 -oE "tier exact: $made [0-9]+ of [0-9]+" "$2")"
    else
        echo "not tested: the suite did not run there"
    fi
}

# Twice, so that what is only at the start falls out of the difference.
traced()  # device folder
{
    local n
    if [[ ! -e $trace ]]; then
        echo "no libbench_trace.so: OpenCL's loader was not there to build it" \
            >"$2/no-trace"
        return 0
    fi
    for n in 1 $((epochs + 1)); do
        HEADRACE_TRACE=$2/trace-$n.json HEADRACE_OPENCL_LIBRARY=$trace \
            measure "$1" 64 "$n" >"$2/traced-$n.json" 2>"$2/errors" ||
            { head -n 1 "$2/errors" >"$2/no-trace"; return 0; }
    done
}

"$headrace" devices --json >"$tmp/devices.json"
if [[ ${HEADRACE_REPORT_DEVICES-} ]]; then
    read -ra names <<<"$HEADRACE_REPORT_DEVICES"
else
    mapfile -t names < <(python3 -c '
import json, sys
for d in json.load(open(sys.argv[1]))["devices"]:
    if d["backend"] == "opencl" and d["available"]: print(d["name"])
    elif d["backend"] == "opencl": print(d["name"], "absent:", d["reason"],
                                         file=sys.stderr)' "$tmp/devices.json")
fi
((${#names[@]})) || { echo "gpu_report: no OpenCL device here" >&2; exit 77; }

for name in cpu "${names[@]}"; do
    echo "measuring $name" >&2
    folder=$tmp/${name//[:\/]/-}
    mkdir "$folder"
    measure "$name" 64 1 >/dev/null 2>"$folder/errors" ||
        { echo "gpu_report: $(head -n 1 "$folder/errors")" >&2; exit 1; }
    speed "$name" "$folder"
    [[ $name != cpu ]] || continue
    exactness "$name" "$folder/conformance.log" >"$folder/exact"
    traced "$name" "$folder"
    # The same with entropy coding on the device, where it can do that.
    export HEADRACE_OPENCL_ENTROPY=device
    mkdir "$folder/entropy"
    if measure "$name" 64 1 >/dev/null 2>"$folder/entropy/errors"; then
        speed "$name" "$folder/entropy"
        traced "$name" "$folder/entropy"
    fi
    unset HEADRACE_OPENCL_ENTROPY
done

python3 "$root/tools/gpu_report.py" "$tmp" "$epochs" "${bus:-0}" "${names[@]}"
