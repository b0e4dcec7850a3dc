#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# compare.py, compare_ops.py and, where torchvision is, compare_recipes.py,
# against one release of Pillow and torchvision; compare_torch.py against a
# current torch.
#   exact.sh debian      the distribution's, with all instruction sets
#   exact.sh NAME        those of tests/python/NAME.txt, and with the
#                        libjpeg-turbo that their Pillow carries
#   exact.sh NAME ops|recipes [ARGUMENTS]
#                        one of these alone, with more comparisons
#   exact.sh NAME pictures [ARGUMENTS]
#                        compare.py alone
. "$(dirname "$0")/lib.sh"
release=$1 what=${2-} more=("${@:3}") interpreter=$python rc=0
set -- ${long:+--long}
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
compare()  # program [arguments]
{
    "$interpreter" "$root/tests/compare/$1.py" --build "$build" "${@:2}" || rc=$?
}
case $what in
pictures) compare compare --jobs "$half" "$@" "${more[@]}" ;;
ops) compare compare_ops --jobs "$half" --count 60000${long:+0} "${more[@]}" ;;
recipes)
    # (Without timm its recipes are named as not run.)
    [[ $release != torch ]] || interpreter=$(venv timm "$interpreter" ||
                                             echo "$interpreter")
    compare compare_recipes --count 200${long:+0} --size 224 "${more[@]}"
    ;;
'')
    compare compare --jobs "$half" "$@"
    compare compare_ops --jobs "$half"
    [[ $release == pillow-* ]] || compare compare_recipes
    [[ $release != torch ]] || compare compare_torch --count 3000
    ;;
*) echo "exact.sh: $what is no part of it"; rc=2 ;;
esac
exit $rc
