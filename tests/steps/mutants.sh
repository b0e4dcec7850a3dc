#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Deliberate faults, tests/mutants/*.toml, in copies of the tree: a few, or with
# --long all.
. "$(dirname "$0")/lib.sh"
mutants=("$root/tests/mutants.py" --build "$build" --jobs)
"$python" -c 'import tomllib' 2>/dev/null || skip "$python is older than 3.11"
needs_tool ninja git
"$python" "${mutants[@]}" "$half" --self-test
if [[ $long ]]; then
    "$python" "${mutants[@]}" $((2 * jobs))  # most of what it starts waits
else
    "$python" "${mutants[@]}" "$half" --fast
fi
