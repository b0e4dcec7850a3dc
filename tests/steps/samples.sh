#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pictures of every kind and with every damage, which several steps read side by
# side; and an empty folder for those of the Python tests.
. "$(dirname "$0")/lib.sh"
for folder in fuzz-samples python-samples; do
    [[ $build/$folder -nt $build/headrace ]] || rm -rf "${build:?}/$folder"
done
mkdir -p "$build/python-samples"
[[ -e $build/fuzz-samples/samples.json ]] ||
    "$build/headrace" samples --count 8 "$build/fuzz-samples" >/dev/null
