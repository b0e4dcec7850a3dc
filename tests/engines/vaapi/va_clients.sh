#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that know nothing of Headrace use the software VA driver through the
# stock libva: the proof that it is a VA driver and not merely a match for our
# engine. And our engine must submit the same buffers as they do. A missing
# program is named "not run"; exit code 77 if nothing ran.
#   va_clients.sh BUILD
set -euo pipefail
build=$(realpath "${1:?usage: va_clients.sh BUILD}")
driver=$build/tests/va_driver
scratch=$build/va-clients
python=/usr/bin/python3
[[ -x $python ]] || python=python3

unset HEADRACE_VA_DRIVER DISPLAY WAYLAND_DISPLAY LIBVA_TRACE
export LIBVA_DRIVERS_PATH=$driver LIBVA_DRIVER_NAME=headrace
export LIBVA_MESSAGING_LEVEL=0
rm -rf "$scratch"
mkdir -p "$scratch"
export HOME=$scratch XDG_CACHE_HOME=$scratch/cache XDG_RUNTIME_DIR=$scratch

passed=0 failed=0 missing=0
pass() { passed=$((passed + 1)); printf 'pass     %s\n' "$*"; }
fail() { failed=$((failed + 1)); printf 'FAIL     %s\n' "$*"; }
not_run() { missing=$((missing + 1)); printf 'not run: %s\n' "$*"; }
have() { command -v "$1" >/dev/null; }
with_log() { export HEADRACE_VA_DRIVER="log=$scratch/$1.log ${2-}"; }

if [[ ! -e $driver/headrace_drv_video.so ]]; then
    not_run "$driver/headrace_drv_video.so was not built"
    exit 77
fi

# A driver that was built with AddressSanitizer needs it in every client.
preload=$(ldd "$driver/headrace_drv_video.so" |
          awk '/lib[at]san/ {print $3}')
# (PoCL's compiler has signal stacks of its own.)
export ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0
node=${preload:+$preload:}$driver/libva_node_type.so

# ---- pictures ----------------------------------------------------------------

# kind, FFmpeg's format of it.
kinds="baseline-420 yuv420p
       baseline-422 yuv422p
       baseline-444 yuv444p
       baseline-440 yuv440p
       baseline-411 yuv411p
       gray gray
       restart-rows yuv420p
       restart-every-mcu yuv444p
       restart-5 yuv422p
       optimized-420 yuv420p
       optimized-444 yuv444p
       baseline-420-aligned yuv420p"
pictures=$scratch/pictures

make_pictures()
{
    local names
    names=$(awk '{printf "%s%s", sep, $1; sep=","}' <<<"$kinds")
    "$build/headrace" samples --count 0 --kinds "$names" "$pictures" \
        >/dev/null 2>&1 ||
        "$build/headrace" samples --count 1 "$pictures" >/dev/null
}

picture() { echo "$pictures/kinds/$1.jpg"; }

same()  # what file file: samples that are off by 1 at most
{
    local what=$1 said
    if said=$("$python" - "$2" "$3" 2>&1 <<'END'
import sys
import numpy
a, b = (numpy.fromfile(name, numpy.uint8).astype(int) for name in sys.argv[1:])
if a.size != b.size or not a.size:
    sys.exit(f"{a.size} and {b.size} bytes")
print("at most", abs(a - b).max())
sys.exit(int(abs(a - b).max() > 1))
END
    ); then
        pass "$what: $said"
    else
        fail "$what: $said"
    fi
}

# ---- vainfo ------------------------------------------------------------------

check_vainfo()
{
    local what="vainfo, DRM" out=$scratch/vainfo.out
    have vainfo || { not_run "vainfo is not installed"; return; }
    with_log vainfo
    LD_PRELOAD=$node timeout 20 vainfo -a --display drm --device /dev/null \
        >"$out" 2>&1 || true
    if grep -q 'VAProfileJPEGBaseline.*VAEntrypointVLD' "$out" &&
       grep -q 'VAProfileNone.*VAEntrypointVideoProc' "$out"; then
        pass "$what lists JPEG decode and the video processor"
    else
        tail -n 5 "$out"
        fail "$what"
    fi
}

# ---- FFmpeg ------------------------------------------------------------------

# FFmpeg that may not fall back: a frame that is no surface is an error.
ffmpeg_va()  # picture filters output-arguments...
{
    local file=$1 filters=$2
    shift 2
    LD_PRELOAD=$node timeout 30 ffmpeg -nostdin -v error -y \
        -init_hw_device vaapi=va:/dev/null -hwaccel vaapi \
        -hwaccel_device va -hwaccel_output_format vaapi \
        -i "$file" -vf "$filters" "$@"
}

check_decode()
{
    local kind format file
    have ffmpeg || { not_run "ffmpeg is not installed"; return; }
    with_log ffmpeg
    while read -r kind format _; do
        file=$(picture "$kind")
        if ffmpeg_va "$file" "hwdownload,format=$format" -f rawvideo \
                     "$scratch/$kind.va" &&
           timeout 30 ffmpeg -nostdin -v error -y -i "$file" -f rawvideo \
                   "$scratch/$kind.software"; then
            same "ffmpeg $kind, against its software decoder" \
                 "$scratch/$kind.va" "$scratch/$kind.software"
        else
            fail "ffmpeg $kind"
        fi
    done <<<"$kinds"
}

# ---- our engine --------------------------------------------------------------

# For a file the engine submits the same as FFmpeg: the driver's log without the
# lines that may differ (va_driver/README.md, "The log").
check_submissions()
{
    local kind file
    have ffmpeg || { not_run "submissions: ffmpeg is not installed"; return; }
    if [[ ! -x $build/tests/test_vaapi ]]; then
        not_run "submissions: this build has no VA-API engine"
        return
    fi
    while read -r kind _; do
        file=$(picture "$kind")
        rm -f "$scratch/ours.log" "$scratch/theirs.log"
        ours "$kind" || tail -n 3 "$scratch/ours.out"
        with_log theirs
        ffmpeg_va "$file" hwdownload,format=nv12 -f null - || true
        if [[ $(grep -c '^picture' "$scratch/theirs.log") != 1 ]]; then
            fail "submission of $kind: ffmpeg does not make one"
        elif diff -u --label ffmpeg <(submitted theirs) \
                  --label headrace <(submitted ours) | cut -c1-200; then
            pass "submission of $kind: $(submitted ours | wc -l) lines equal"
        else
            fail "submission of $kind"
        fi
    done <<<"$kinds"
}

# Untested, so that the certificate's pictures are not in the log.
ours()  # kind
{
    with_log ours
    LD_PRELOAD=$node HEADRACE_CERTIFICATE=off timeout 30 "$build/headrace" \
        run --backend vaapi:/dev/null --out none --quiet "$(picture "$1")" \
        >"$scratch/ours.out" 2>&1
}

submitted() { grep -vE '^(\+|end:)' "$scratch/$1.log"; }

# ---- what they left ----------------------------------------------------------

# Programs end with vaTerminate: whatever the driver still holds then, they
# leaked, and what it complains of is theirs or its own.
check_left()
{
    local ends
    ends=$(grep '^end:' "$scratch/ffmpeg.log" 2>/dev/null || true)
    if [[ ! $ends ]]; then
        not_run "leaks: no program ended"
    elif grep -vE ' left 0 bad_ids 0 violations 0 remarks 0$' <<<"$ends"; then
        fail "programs end with something left or misused"
    else
        pass "$(wc -l <<<"$ends") displays closed, nothing left or misused"
    fi
}

make_pictures
check_vainfo
check_decode
check_submissions
check_left
echo "$passed passed, $failed failed, $missing not run"
((failed == 0)) || exit 1
((passed > 0)) || exit 77
