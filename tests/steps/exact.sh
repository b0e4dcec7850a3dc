#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# compare.py against one release of Pillow and torchvision.
#   exact.sh debian [ARGS]   the distribution's, with all instruction sets
#   exact.sh NAME [ARGS]     those of tests/python/NAME.txt, and with the
#                            libjpeg-turbo that their Pillow carries
. "$(dirname "$0")/lib.sh"
release=$1 interpreter=$python
shift
[[ ! $long ]] || set -- "$@" --long
if [[ $release == debian ]]; then
    "$python" -c 'import numpy, PIL, torchvision' 2>/dev/null ||
        skip "$python lacks numpy, Pillow or torchvision"
else
    interpreter=$(interpreter_of "$release") ||
        skip "the packages of tests/python/$release.txt cannot be had"
    jpeg=$(pillow_jpeg "$interpreter")
    [[ $jpeg ]] || skip "this Pillow carries no libjpeg.so.62"
    use_jpeg "$jpeg" "$build/jpeg-$release"
    set -- "$@" --jpeg "$jpeg"
    # All instruction sets, and all files, are in the step exact.
    [[ $long || $release == torch ]] || set -- "$@" --draw-level --part 3
fi
"$interpreter" "$root/tests/compare/compare.py" --build "$build" \
    --jobs "$half" "$@"
