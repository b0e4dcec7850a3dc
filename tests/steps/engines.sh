#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pictures of engines and processors, on the corpus where it is there.
#   engines.sh same       OpenCL on PoCL makes what the CPU makes
#   engines.sh exact      compare.py on PoCL; each second file but with --long
#   engines.sh dropin     compare_recipes.py on PoCL, codes by the device; recipes
#                         of several views also from their files
#   engines.sh va         the VA-API engine on the driver in software
#   engines.sh clients    FFmpeg on that driver
#   engines.sh aarch64    kernels, engine, command on 64-bit Arm, by qemu, and
#                         how many instructions a photo takes
. "$(dirname "$0")/lib.sh"
opencl=$root/tests/engines/opencl/opencl_platforms.sh pictures=()

case $1 in
same)
    [[ ! -d $corpus ]] || pictures=("$corpus/photos" "$corpus/kinds")
    bash "$opencl" "$build" same opencl:pocl "${pictures[@]}"
    ;;
exact)
    [[ $long ]] || set -- "$@" --part 2
    bash "$(dirname "$0")/exact.sh" debian pictures --backend opencl:pocl \
         "${@:2}"
    ;;
dropin)
    export HEADRACE_OPENCL_AUGMENT=device
    [[ $long ]] || set -- "$@" --count 24 --size 96
    # (A current torch has more of them.)
    release=torch
    interpreter_of torch >/dev/null || release=debian
    rc=0
    bash "$(dirname "$0")/exact.sh" $release recipes --backend opencl:pocl \
         "${@:2}" || rc=$?
    # Entropy coding by the device, too, once for all views.
    bash "$(dirname "$0")/exact.sh" $release recipes --backend opencl:pocl \
         "${@:2}" --only moco,dino --entropy || rc=$?
    exit $rc
    ;;
va)
    bash "$root/tests/engines/vaapi/va_pictures.sh" "$build" \
         ${long:+--long} "$corpus"
    ;;
clients)
    bash "$root/tests/engines/vaapi/va_clients.sh" "$build"
    ;;
aarch64)
    bash "$root/tests/compare/aarch64.sh" "$build" "$corpus"
    # (How many instructions are promised is a part that may not run.)
    "$python" "$root/tests/compare/instructions.py" --build "$build" \
        --photos "$corpus/photos/imagenet-sample" --check || (($? == 77))
    ;;
esac
