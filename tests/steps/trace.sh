#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Traces of both kinds of engine, held to what viewers want of them.
. "$(dirname "$0")/lib.sh"
check=$root/tests/tools/check_trace.py where=$build/trace devices=cpu
"$python" "$check" --self-test
rm -rf "$where"
mkdir -p "$where"
"$build/headrace" samples --count 8 "$where/samples" >/dev/null
"$build/headrace" devices --json >"$where/devices.json"
! "$python" -c 'import json, sys; sys.exit(not any(
    d["available"] and d["backend"] == "opencl"
    for d in json.load(open(sys.argv[1]))["devices"]))' \
    "$where/devices.json" || devices=cpu,opencl
"$build/headrace" profile "$where/samples" --backends "$devices" \
    --seconds 2 --batch 8 -q --trace "$where/trace.json" >/dev/null
"$python" "$check" "$where/trace.json"
echo "note: of $devices; $("$python" "$check" --perfetto "$where/trace.json" |
                     grep -E '^(not run|Perfetto)' | cut -c1-60)"
