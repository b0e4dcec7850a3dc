#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A report about every OpenCL device of this machine: is it exact, how fast is
# it with stage entropy on the host, on the device and from a cache, what does
# it cost the host, how long does each kernel take and how long would it if it
# did nothing but move its bytes; the rate of three recipes of random ops;
# nvJPEG beside it, if its library is here. Needs a built tree with its tests,
# bash and python3, and nothing else; some minutes.
#
#   tools/gpu_report.sh [-b BUILD] [-o FOLDER] [-e EPOCHS] [-t SECONDS] [-q]
#                       [BUS_GBPS [PICTURES...]]
#
# Prints a table, and writes REPORT.json and REPORT.html to FOLDER (gpu-report).
# EPOCHS: of each run, behind a first one that is not measured (as many as take
# 2 s). SECONDS: after so long no more is begun, and what runs is ended; the
# report has what was measured until then. -q: one size of batch, few pictures,
# short: to see that all of it runs. BUS_GBPS: what the bus to the device can
# carry, in 10^9 bytes per second and direction (PCIe 4.0 x16: about 25).
# Without it the bus is measured, as the device's memory always is. PICTURES:
# files and folders to measure with; else photos are made.
# HEADRACE_REPORT_DEVICES: names of devices, instead of all.
# Exit code 1: a device is not exact, or did not make the pictures; 77: there is
# none.
set -euo pipefail
root=$(cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.." && pwd)
build=${HEADRACE_BUILD:-$root/build} out=gpu-report more=()
while getopts b:o:e:t:qh option; do
    case $option in
    b) build=$OPTARG ;;
    o) out=$OPTARG ;;
    e) more+=(--epochs "$OPTARG") ;;
    t) more+=(--limit "$OPTARG") ;;
    q) more+=(--quick) ;;
    *) sed -n '3,23s/^# \?//p' "$0"; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
bus=${1-}
(($# == 0)) || shift
[[ -z $bus || $bus =~ ^[0-9]+(\.[0-9]+)?$ ]] ||
    { echo "gpu_report: BUS_GBPS is no number: $bus" >&2; exit 2; }
[[ -x $build/headrace ]] ||
    { echo "gpu_report: no $build/headrace" >&2; exit 2; }
command -v python3 >/dev/null || { echo "gpu_report: no python3" >&2; exit 2; }

# Drivers and the engine compile anew, unless a cache is given.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export XDG_CACHE_HOME=$tmp POCL_CACHE_DIR=${POCL_CACHE_DIR:-$tmp/pocl}
mkdir -p "$POCL_CACHE_DIR"
export PYTHONDONTWRITEBYTECODE=1
unset HEADRACE_BACKEND HEADRACE_OPENCL_DEVICE HEADRACE_OPENCL_LIBRARY \
    HEADRACE_OPENCL_{ENTROPY,AUGMENT,VARIANT}
python3 "$root/tools/gpu_report/main.py" --build "$build" --out "$out" \
    --bus "${bus:-0}" "${more[@]}" -- "$@"
