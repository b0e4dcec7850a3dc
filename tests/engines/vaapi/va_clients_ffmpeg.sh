# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Of va_clients.sh, which has the pictures and counts: FFmpeg on the driver,
# against its own software decoder and scaler.

# FFmpeg that may not fall back: a frame that is no surface is an error.
ffmpeg_va()  # picture filters output-arguments...
{
    local file=$1 filters=$2
    shift 2
    LD_PRELOAD=$node timeout 30 ffmpeg -nostdin -v error -y \
        -init_hw_device vaapi=va:/dev/null -hwaccel vaapi \
        -hwaccel_device va -hwaccel_output_format vaapi \
        "${input[@]}" -i "$file" -vf "$filters" "$@"
}
input=()

ffmpeg_software()  # picture filters format out
{
    timeout 30 ffmpeg -nostdin -v error -y -i "$1" -vf "$2" -pix_fmt "$3" \
        -f rawvideo "$4"
}

check_decode()
{
    local kind format file size
    with_log ffmpeg
    while read -r kind format _; do
        file=$(picture "$kind")
        size=$(size_of "$file")
        if ffmpeg_va "$file" "hwdownload,format=$format" -f rawvideo \
                     "$scratch/$kind.va" &&
           timeout 30 ffmpeg -nostdin -v error -y -i "$file" -f rawvideo \
                   "$scratch/$kind.software"; then
            same "ffmpeg $kind, against its software decoder" "$size" \
                 "$scratch/$kind.va:$format" \
                 "$scratch/$kind.software:$format" 1
        else
            fail "ffmpeg $kind"
        fi
    done <<<"$kinds"
}

# The same picture again and again, late, several at a time.
check_late()
{
    local file out=$scratch/late
    file=$(picture baseline-420)
    with_log once
    ffmpeg_va "$file" "hwdownload,format=yuv420p" -f framemd5 "$out.once" ||
        true
    with_log late "latency=50 workers=2"
    input=(-extra_hw_frames 16 -stream_loop 7 -f image2)
    ffmpeg_va "$file" "hwdownload,format=yuv420p" -f framemd5 "$out.many" ||
        true
    input=()
    if [[ -s $out.once && $(grep -vc '^#' "$out.many") == 8 ]] &&
       [[ $(sums "$out.once") == $(sums "$out.many") ]]; then
        pass "ffmpeg, 8 pictures with 50 ms latency each: the same pixels"
    else
        fail "ffmpeg with latency: $(sums "$out.many" | wc -l) different"
    fi
}

sums() { grep -v '^#' "$1" | awk '{print $NF}' | sort -u; }

check_personalities()
{
    local person file size
    file=$(picture baseline-420)
    size=$(size_of "$file")
    for person in ihd mesa22 mesa_main nvidia; do
        with_log "$person" "personality=$person"
        ffmpeg_va "$file" "hwdownload,format=nv12" -f rawvideo \
                  "$scratch/$person.va" || true
        same "ffmpeg, $person" "$size" "$scratch/$person.va:nv12" \
             "$scratch/baseline-420.software:yuv420p" 1
    done
}

# What only moves pixels is equal, what scales is near.
check_processor()
{
    local file w h even out=$scratch/vpp get=hwdownload,format=nv12
    file=$(picture baseline-420)
    IFS=x read -r w h <<<"$(size_of "$file")"
    with_log processor
    moved()  # what hardware software WxH
    {
        if ffmpeg_va "$file" "$2,$get" -f rawvideo "$out.va" &&
           ffmpeg_va "$file" "$get,$3" -f rawvideo "$out.software"; then
            same "ffmpeg $1" "$4" "$out.va:nv12" "$out.software:nv12"
        else
            fail "ffmpeg $1"
        fi
    }
    moved crop "crop=96:64:32:16,scale_vaapi=w=96:h=64:format=nv12" \
          "crop=96:64:32:16" 96x64
    # Of an even size: which chroma a half pixel at the edge gets is nobody's
    # promise.
    w=$((w / 2 * 2)) h=$((h / 2 * 2))
    even=crop=$w:$h:0:0,scale_vaapi=w=$w:h=$h
    moved hflip "$even,transpose_vaapi=dir=hflip" "crop=$w:$h:0:0,hflip" \
          "${w}x$h"
    moved "turned by 90 degrees" "$even,transpose_vaapi=dir=clock" \
          "crop=$w:$h:0:0,transpose=clock" "${h}x$w"
    if ffmpeg_va "$file" "scale_vaapi=w=96:h=64:format=nv12,$get" \
                 -f rawvideo "$out.va" &&
       ffmpeg_software "$file" "scale=96:64:flags=bilinear:out_range=full" \
                       nv12 "$out.software"; then
        same "ffmpeg scale_vaapi, near swscale" 96x64 "$out.va:nv12" \
             "$out.software:nv12" mean=6
    else
        fail "ffmpeg scale_vaapi"
    fi
    if ffmpeg_va "$(picture baseline-444)" \
           "scale_vaapi=format=rgba,hwdownload,format=rgba" \
           -f rawvideo "$out.va" &&
       ffmpeg_software "$(picture baseline-444)" \
           "scale=flags=accurate_rnd+full_chroma_int" rgba "$out.software"; then
        same "ffmpeg scale_vaapi to RGB, near swscale" \
             "$(size_of "$(picture baseline-444)")" "$out.va:rgba" \
             "$out.software:rgba" 4
    else
        fail "ffmpeg scale_vaapi to RGB"
    fi
}

# That the checks above can fail.
check_can_fail()
{
    local file size
    file=$(picture baseline-420)
    size=$(size_of "$file")
    with_log wrong "fault=Decode:wrong:always"
    ffmpeg_va "$file" "hwdownload,format=yuv420p" -f rawvideo \
              "$scratch/wrong.va" || true
    if "$python" "$here/va_planes.py" "$size" "$scratch/wrong.va:yuv420p" \
           "$scratch/baseline-420.software:yuv420p" 1 >/dev/null 2>&1; then
        fail "wrong pixels pass"
    else
        pass "wrong pixels are found"
    fi
    with_log refused "fault=CreateContext:2:always"
    rm -f "$scratch/refused.va"
    if ffmpeg_va "$file" "hwdownload,format=yuv420p" -f rawvideo \
                 "$scratch/refused.va" 2>/dev/null &&
       [[ -s $scratch/refused.va ]]; then
        fail "ffmpeg without a context makes a picture: it is not ours"
    else
        pass "ffmpeg without a context makes nothing"
    fi
}

check_ffmpeg()
{
    have ffmpeg || { not_run "ffmpeg is not installed"; return; }
    check_decode
    check_late
    check_personalities
    check_processor
    check_can_fail
}
