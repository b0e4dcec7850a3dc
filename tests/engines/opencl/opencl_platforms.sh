#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The OpenCL engine on the drivers of this machine. Exit code 77, after a line
# "not run: REASON": what is needed is not here.
#   opencl_platforms.sh BUILD pocl       the conformance suite on PoCL, with
#                                        each variant of the kernels
#   opencl_platforms.sh BUILD rusticl    a part of it on Mesa's rusticl
#   opencl_platforms.sh BUILD races      kernels on bytes from outside in
#                                        Oclgrind, which sees races and accesses
#                                        out of bounds
#   opencl_platforms.sh BUILD engine-races
#                                        the engine in it, with a few pictures
#   opencl_platforms.sh BUILD same [NAME] [PICTURES...]
#                                        headrace run on it and on the CPU: the
#                                        same bytes, the reasons for what is not
#                                        the device's (its samples, if no
#                                        pictures are named)
# All but the races fail when the device did not make the pictures itself:
# conformance.h, made.py.
# Drivers and the engine keep their caches in BUILD.
set -euo pipefail
build=$(realpath "${1:?usage: opencl_platforms.sh BUILD WHAT}")
export XDG_CACHE_HOME=$build/opencl-cache POCL_CACHE_DIR=$build/opencl-cache/pocl
mkdir -p "$POCL_CACHE_DIR"
unset HEADRACE_BACKEND HEADRACE_OPENCL_DEVICE
python=/usr/bin/python3
[[ -x $python ]] || python=python3

not_run() { echo "not run: $*"; exit 77; }

# Opening says best whether a device is there, and why not.
needs_device()  # name
{
    local why rc=0 picture=$build/no-picture.jpg
    echo "not a picture" >"$picture"
    why=$("$build/headrace" run --backend "$1" --deadline 300 --out none \
              --quiet "$picture" 2>&1 >/dev/null) || rc=$?
    # 1: the device is there, the picture is none. 2: it does not open.
    ((rc == 2)) || return 0
    does_not_open "$why"
}

# Only a device that is not here is passed over.
does_not_open()  # why
{
    [[ ! $1 =~ no\ OpenCL\ |no\ such\ backend|no\ compiler ]] ||
        not_run "${1#headrace: }"
    echo "FAILED: $1"
    exit 1
}

conformance()  # name scale
{
    local log
    needs_device "$1"
    log=$(mktemp "$build/opencl-XXXXXX.log")
    HEADRACE_TEST_DEVICE=$1 HEADRACE_TEST_SCALE=$2 \
        "$build/tests/test_conformance" other_devices 2>&1 | tee "$log"
    # The suite passes, too, where it found nothing to run.
    grep -qE '^ +tier exact: made by the device: reconstruct..store [1-9]' \
        "$log" || { echo "nothing was made by $1"; exit 1; }
    rm "$log"
    # The same, and more, in the device's own memory.
    HEADRACE_TEST_DEVICE=$1 HEADRACE_TEST_SCALE=$2 \
        "$build/tests/test_device_memory"
}

races()
{
    local log corpus
    corpus=$(dirname "$0")/../../corpus/kernels
    command -v oclgrind >/dev/null || not_run "oclgrind is not installed"
    log=$(mktemp "$build/opencl-XXXXXX.log")
    HEADRACE_TEST_OPENCL=Oclgrind oclgrind --data-races --check-api \
        --uniform-writes --log "$log" "$build/tests/fuzz_kernels_replay" "$corpus"
    # The sanitizer's report does not change the exit code.
    if [[ -s $log ]]; then
        head -n 60 "$log"
        exit 1
    fi
    rm "$log"
}

# ---- same -------------------------------------------------------------------

make_samples()
{
    [[ -e $build/fuzz-samples/samples.json ]] ||
        "$build/headrace" samples --count 8 "$build/fuzz-samples" >/dev/null
}

# (Emulators on a busy machine took longer for a batch than a device may.)
make_both()  # folder backend ops dtype layout inputs...
{
    local to=$1 name=$2 ops=$3 dtype=$4 layout=$5 which rc
    shift 5
    rm -rf "$to"
    mkdir -p "$to"
    for which in cpu "$name"; do
        rc=0
        "$build/headrace" run --backend "$which" --ops "$ops" --seed 11 \
            --dtype "$dtype" --layout "$layout" --on-error zero --json \
            --batch "${batch:-64}" --deadline 300 \
            --out "$to/${which%%:*}.npy" "$@" \
            >"$to/${which%%:*}.summary" 2>"$to/${which%%:*}.errors" || rc=$?
        # 2: the device does not open, or no picture could be read at all.
        ((rc <= 1)) || does_not_open "$(cat "$to/${which%%:*}.errors")"
    done
}

same()  # name inputs...
{
    local name=$1 bad=0 dtype layout filter tail
    shift
    needs_device "$name"
    if (($# == 0)); then
        make_samples
        set -- "$build/fuzz-samples"
    fi
    while read -r dtype layout filter tail; do
        make_both "$build/opencl-same" "$name" \
            "decode,random_resized_crop=${filter},random_hflip$tail" \
            "$dtype" "$layout" "$@"
        echo "$dtype $layout $filter"
        "$python" "$(dirname "$0")/opencl_same.py" "$build/opencl-same" ||
            bad=1
    done <<<"${rows:-$geometries}"
    rm -rf "$build/opencl-same"
    exit $bad
}

# dtype, layout, random_resized_crop=, and the ops behind it
geometries='f32 nchw 224:bilinear ,normalize=imagenet
f32 nhwc 160x96:lanczos ,normalize=imagenet:v2
f16 nchw 224:bicubic ,normalize=imagenet
f16 nhwc 96:box ,to_tensor
u8 nchw 128:hamming
u8 nhwc 224:nearest'
# All codes of stage augment but warps.
codes='f32 nchw 64:bilinear ,adjust_contrast=1.5,adjust_hue=0.1,autocontrast=2
f16 nhwc 48x40:bicubic ,adjust_saturation=0.3,permute_channels=2,0,1,box_blur=2
u8 nhwc 40:lanczos ,equalize,adjust_sharpness=1.7,grayscale,kernel3=smooth'

# ---- engine-races -----------------------------------------------------------

# By itself Oclgrind is loaded before the program and handed to all of it; as
# the engine's library it has only the driver thread to do with, and more than
# one it does not stand.
engine_races()
{
    local library log=$build/engine-races.log bad=0 variant entropy dtype layout
    local ops long codes
    local kinds=$build/fuzz-samples/kinds batch=2
    library=$(find /usr/lib /usr/local/lib -path '*oclgrind*' \
                   -name liboclgrind-rt.so 2>/dev/null | head -n 1)
    [[ $library ]] || not_run "Oclgrind's liboclgrind-rt.so is not here"
    make_samples
    rm -f "$log"
    export HEADRACE_OPENCL_LIBRARY=$library HEADRACE_CERTIFICATE=off
    export OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1 OCLGRIND_LOG=$log
    export OCLGRIND_NUM_THREADS=1
    # Opening takes 7 seconds: the first line says whether it is here.
    while read -r variant entropy dtype layout ops long; do
        [[ ! $long || ${HEADRACE_TEST_LONG-} ]] || continue
        # (Compiling codes takes long: only for lists that have some.)
        codes=host
        [[ $ops != *adjust* ]] || codes=device
        HEADRACE_OPENCL_VARIANT=$variant HEADRACE_OPENCL_ENTROPY=$entropy \
            HEADRACE_OPENCL_AUGMENT=$codes make_both "$build/engine-races" \
            opencl:oclgrind "$ops" "$dtype" "$layout" "$kinds/tiny-16x16.jpg" \
            "$kinds/tiny-444.jpg" "$kinds/tiny-7x7.jpg" \
            "$kinds/gray-2x2.jpg" "$kinds/png-gray1.png"
        echo "$variant $entropy $dtype $layout $ops"
        "$python" "$(dirname "$0")/opencl_same.py" "$build/engine-races" ||
            bad=1
    done <<'END'
staged host f32 nchw decode,resize=12x10,hflip,normalize=imagenet
gpu device f16 nhwc decode,random_resized_crop=9:lanczos,normalize=imagenet
staged device u8 nhwc decode,center_crop=21x17
gpu host u8 nchw decode,transpose,resize=7x11:bicubic
gpu host u8 nchw decode,resize=40x35:bicubic,vflip long
staged host f32 nhwc decode,resize=10x12,adjust_contrast=1.5,adjust_sharpness=2,autocontrast=2,equalize,box_blur=2,rotate=30,erase=2,3,5,9:1,2,3
END
    [[ ${HEADRACE_TEST_LONG-} ]] ||
        echo "not run: engine-races: one of its six lines: with --long"
    rm -rf "$build/engine-races"
    if [[ -s $log ]]; then
        head -n 60 "$log"
        bad=1
    fi
    exit $bad
}

case ${2-} in
pocl)
    conformance opencl:pocl "${HEADRACE_TEST_SCALE:-1}"
    HEADRACE_OPENCL_VARIANT=gpu conformance opencl:pocl 0.3
    ;;
rusticl)
    export RUSTICL_ENABLE=llvmpipe
    conformance opencl:rusticl 0.1
    # The form for GPUs takes llvmpipe longer to compile than a device may take
    # to open: by the command, which is told to wait.
    make_samples
    (HEADRACE_OPENCL_AUGMENT=device rows=$codes
     export HEADRACE_OPENCL_AUGMENT
     same opencl:rusticl "$build"/fuzz-samples/kinds/baseline-*.jpg)
    export HEADRACE_OPENCL_VARIANT=gpu
    same opencl:rusticl "$build"/fuzz-samples/kinds/baseline-*.jpg
    ;;
races)   races ;;
engine-races) engine_races ;;
same)    shift 2; same "${1:-opencl}" "${@:2}" ;;
*)       sed -n '3,20s/^# \?//p' "$0"; exit 2 ;;
esac
