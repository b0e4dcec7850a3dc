#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The library with a newer libjpeg-turbo than the distribution's: that of the
# wheel of Pillow, which has the same soname. (The corpus gate stays out: its
# list says what the distribution's does.)
. "$(dirname "$0")/lib.sh"
dir=$build/jpeg3
file=$(pillow_jpeg) ||
    skip "the packages of tests/python/pillow-13.txt cannot be had"
[[ $file ]] || skip "this Pillow carries no libjpeg.so.62"
use_jpeg "$file" "$dir"
# (Not grep -q: it may end before ldd, which then fails.)
ldd "$build/tests/test_decode" | grep "$dir/libjpeg.so.62" ||
    skip "the library is not linked so"
rc=0
for name in decode decode_memory decode_png coefficients entropy planes \
            header_damage samples; do
    "$build/tests/test_$name" || rc=1
done
exit $rc
