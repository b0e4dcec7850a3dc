#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that know nothing of Headrace use the software VA driver through the
# stock libva: the proof that it is a VA driver and not merely what our engine
# expects. And our engine must submit what they submit. What is missing is
# named "not run"; exit code 77 if nothing ran.
#   va_clients.sh BUILD
# HEADRACE_TEST_VA_API: a test_va_api of libva-utils, if not in the path (no
# Debian package has it).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${1:?usage: va_clients.sh BUILD}")
driver=$build/tests/va_driver
scratch=$build/va-clients
python=/usr/bin/python3
[[ -x $python ]] || python=python3

[[ ${2-} == --inside ]] || unset HEADRACE_VA_DRIVER
unset DISPLAY WAYLAND_DISPLAY LIBVA_TRACE
export LIBVA_DRIVERS_PATH=$driver LIBVA_DRIVER_NAME=headrace
export LIBVA_MESSAGING_LEVEL=0 GST_VAAPI_ALL_DRIVERS=1
[[ ${2-} == --inside ]] || rm -rf "$scratch"
mkdir -p "$scratch"
# GStreamer remembers what plugins could do: a registry per run.
export GST_REGISTRY=$scratch/registry.bin XDG_RUNTIME_DIR=$scratch
export HOME=$scratch XDG_CACHE_HOME=$scratch/cache

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

# kind, FFmpeg's format of it, GStreamer's in vaapijpegdec and vajpegdec ("-":
# that one cannot: 4:4:0, 4:1:1; DRI before SOS in vajpegdec).
kinds="baseline-420 yuv420p NV12 NV12
       baseline-422 yuv422p YUY2 Y42B
       baseline-444 yuv444p Y444 Y444
       baseline-440 yuv440p - -
       baseline-411 yuv411p - -
       gray gray GRAY8 GRAY8
       restart-rows yuv420p NV12 -
       restart-every-mcu yuv444p Y444 -
       restart-5 yuv422p YUY2 -
       optimized-420 yuv420p NV12 NV12
       optimized-444 yuv444p Y444 Y444
       baseline-420-aligned yuv420p NV12 NV12"
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

size_of()  # picture -> WxH
{
    "$python" - "$1" <<'END'
import sys
from PIL import Image
print("%dx%d" % Image.open(sys.argv[1]).size)
END
}

same()  # what WxH file:format file:format [limit]
{
    local what=$1 said
    shift
    if said=$("$python" "$here/va_planes.py" "$@" 2>&1); then
        pass "$what: $said"
    else
        fail "$what: $said"
    fi
}

# ---- vainfo ------------------------------------------------------------------

vainfo_lists()  # what command...
{
    local what=$1 out=$scratch/vainfo.out
    shift
    "$@" >"$out" 2>&1 || true
    if grep -q 'VAProfileJPEGBaseline.*VAEntrypointVLD' "$out" &&
       grep -q 'VAProfileNone.*VAEntrypointVideoProc' "$out"; then
        pass "$what lists JPEG decode and the video processor"
    else
        tail -n 5 "$out"
        fail "$what"
    fi
}

check_vainfo()
{
    have vainfo || { not_run "vainfo is not installed"; return; }
    with_log vainfo
    vainfo_lists "vainfo, DRM" \
        env LD_PRELOAD="$node" timeout 20 vainfo -a --display drm \
        --device /dev/null
    if have Xvfb; then
        vainfo_lists "vainfo, X11" with_x env LD_PRELOAD="$preload" timeout 20 \
            vainfo --display x11
    else
        not_run "vainfo on X11: Xvfb is not installed"
    fi
}

# Runs a command with an X server of its own, on a display nobody has.
with_x()  # command...
{
    local number rc=0
    mkfifo "$scratch/display" 2>/dev/null || true
    exec 9<>"$scratch/display"
    Xvfb -displayfd 9 -screen 0 640x480x24 -nolisten tcp \
        >"$scratch/xvfb.log" 2>&1 &
    x_pid=$!
    read -r -t 20 number <&9 || number=
    if [[ $number ]]; then
        DISPLAY=:$number "$@" || rc=$?
    else
        echo "Xvfb does not start"
        rc=1
    fi
    exec 9>&-
    kill "$x_pid" 2>/dev/null || true
    wait "$x_pid" 2>/dev/null || true
    x_pid=
    return $rc
}
x_pid=
trap '[[ ! $x_pid ]] || kill "$x_pid" 2>/dev/null' EXIT

# ---- FFmpeg, GStreamer -------------------------------------------------------

# shellcheck source=tests/engines/vaapi/va_clients_ffmpeg.sh
. "$here/va_clients_ffmpeg.sh"
# shellcheck source=tests/engines/vaapi/va_clients_gstreamer.sh
. "$here/va_clients_gstreamer.sh"

# ---- our engine --------------------------------------------------------------

# What the engine submits for a file is what FFmpeg submits: the driver's log
# without the lines that may differ (va_driver/README.md, "The log").
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

# ---- libva-utils -------------------------------------------------------------

# It opens /dev/dri/renderD128 and nothing else: a mount namespace shows it
# /dev/null under that name, and what libdrm asks of a node in /sys.
check_test_va_api()
{
    local tool=${HEADRACE_TEST_VA_API-} log=$scratch/test_va_api.out person
    [[ $tool ]] || tool=$(command -v test_va_api || true)
    if [[ ! -x $tool ]]; then
        not_run "test_va_api: no Debian package has it; HEADRACE_TEST_VA_API" \
                "may name one"
        return
    fi
    for person in plain ihd i965 mesa22 mesa_main nvidia; do
        with_log test_va_api "personality=$person"
        # shellcheck disable=SC2016
        LD_PRELOAD=$preload timeout 120 unshare -rm bash -c '
            set -e
            mount -t tmpfs none /sys/dev/char
            mkdir -p /sys/dev/char/1:3/device/drm
            mkdir -p "$1/dri"
            for node in null zero urandom dri/renderD128; do
                touch "$1/$node"
                from=/dev/$node
                [[ -e $from ]] && [[ $node != dri/* ]] || from=/dev/null
                mount --bind "$from" "$1/$node"
            done
            mount --rbind "$1" /dev
            exec "$0"' "$tool" "$scratch/dev" >"$log" 2>&1 || true
        if ! grep -qE 'tests from .* ran' "$log"; then
            not_run "test_va_api, $person: $(tail -n 1 "$log")"
        elif grep -q 'FAILED  ]' "$log"; then
            grep 'FAILED  ]' "$log" | head -n 5
            fail "test_va_api, $person"
        else
            pass "test_va_api, $person: $(grep -oE '[0-9]+ tests from .* ran' \
                                               "$log")"
        fi
    done
}

# ---- what they left ----------------------------------------------------------

# Programs end with vaTerminate: whatever the driver still holds then, they
# leaked, and what it complains of is theirs or its own.
check_left()
{
    local ends
    ends=$(cat "$scratch"/{ffmpeg,late,ihd,mesa22,nvidia,processor}.log \
               "$scratch"/va*jpegdec*.log 2>/dev/null | grep '^end:' || true)
    if [[ ! $ends ]]; then
        not_run "leaks: no program ended"
    elif grep -vE ' left 0 bad_ids 0 violations 0 remarks 0$' <<<"$ends"; then
        fail "programs end with something left or misused"
    else
        pass "$(wc -l <<<"$ends") displays closed, nothing left or misused"
    fi
}

# What check_gst_va runs where a DRM node is to be seen.
if [[ ${2-} == --inside ]]; then
    export LD_PRELOAD=$node:${LD_PRELOAD-}
    preload=
    gst-inspect-1.0 "$3" >/dev/null 2>&1 || { echo nothing; exit 0; }
    gst_pictures "$3" "$4"
    exit 0
fi

make_pictures
check_vainfo
check_ffmpeg
check_gstreamer
check_submissions
check_test_va_api
check_left
echo "$passed passed, $failed failed, $missing not run"
((failed == 0)) || exit 1
((passed > 0)) || exit 77
