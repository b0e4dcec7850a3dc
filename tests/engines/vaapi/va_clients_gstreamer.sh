# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Of va_clients.sh, which has the pictures and counts: GStreamer on the
# driver, against what FFmpeg got of it.

gst_decode()  # element picture format out
{
    LD_PRELOAD=${LD_PRELOAD-}${LD_PRELOAD:+:}$preload \
        timeout 30 gst-launch-1.0 -q filesrc location="$2" ! jpegparse ! \
        "$1" ! "video/x-raw,format=$3" ! filesink location="$4" >/dev/null 2>&1
}

# Inside with_x or umockdev-run: all pictures with one element.
gst_pictures()  # element column
{
    local element=$1 column=$2 kind line format
    while read -r line; do
        kind=$(awk '{print $1}' <<<"$line")
        format=$(awk -v c="$column" '{print $c}' <<<"$line")
        [[ $format != - ]] || continue
        gst_decode "$element" "$(picture "$kind")" "$format" \
                   "$scratch/$kind.$element" || true
    done <<<"$kinds"
}

gst_compare()  # element column
{
    local element=$1 column=$2 kind ours format
    while read -r line; do
        read -r kind ours _ <<<"$line"
        format=$(awk -v c="$column" '{print $c}' <<<"$line")
        [[ $format != - ]] || continue
        if [[ ! -s $scratch/$kind.$element ]]; then
            fail "$element $kind: no picture"
            continue
        fi
        same "$element $kind, against ffmpeg on this driver" \
             "$(size_of "$(picture "$kind")")" \
             "$scratch/$kind.$element:$format" "$scratch/$kind.va:$ours"
    done <<<"$kinds"
}

check_gst_vaapi()
{
    local file person
    have Xvfb || { not_run "vaapijpegdec: Xvfb is not installed"; return; }
    with_log vaapijpegdec
    if ! with_x env LD_PRELOAD="$preload" timeout 60 \
            gst-inspect-1.0 vaapijpegdec >/dev/null 2>&1; then
        not_run "vaapijpegdec: gstreamer1.0-vaapi does not offer it"
        return
    fi
    with_x gst_pictures vaapijpegdec 3
    gst_compare vaapijpegdec 3
    file=$(picture baseline-420)
    for person in ihd i965 mesa22; do
        with_log "vaapijpegdec-$person" "personality=$person"
        with_x gst_decode vaapijpegdec "$file" NV12 "$scratch/gst.$person" ||
            true
        same "vaapijpegdec, $person" "$(size_of "$file")" \
             "$scratch/gst.$person:NV12" "$scratch/baseline-420.va:yuv420p"
    done
}

# The plugin looks for a DRM node in udev; umockdev shows it one.
check_gst_va()
{
    have umockdev-run || { not_run "vajpegdec: umockdev is not installed"
                           return; }
    cat >"$scratch/node.umockdev" <<'END'
P: /devices/virtual/drm/renderD128
N: dri/renderD128
E: DEVNAME=/dev/dri/renderD128
E: DEVTYPE=drm_minor
E: SUBSYSTEM=drm
E: MAJOR=226
E: MINOR=128
A: dev=226:128

END
    with_log vajpegdec
    timeout 120 umockdev-run -d "$scratch/node.umockdev" -- \
        bash "$here/va_clients.sh" "$build" --inside vajpegdec 4 \
        >"$scratch/umockdev.log" 2>&1 || true
    if grep -q '^nothing$' "$scratch/umockdev.log"; then
        not_run "vajpegdec: gstreamer1.0-plugins-bad does not offer it"
        return
    fi
    gst_compare vajpegdec 4
}

check_gstreamer()
{
    have gst-launch-1.0 || { not_run "GStreamer is not installed"; return; }
    check_gst_vaapi
    check_gst_va
}
