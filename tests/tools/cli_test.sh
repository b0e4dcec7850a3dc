#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command from end to end. Usage: cli_test.sh PATH-OF-HEADRACE
# Prints what was not run, and at the end: N passed, N failed[, N not run].
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/tools/command_env.sh
. "$(dirname "$0")/command_env.sh"

# The distribution's Python has numpy more often than others.
python=
for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c 'import numpy' 2>/dev/null; then
        python=$candidate
        break
    fi
done

json() {    # json FILE EXPRESSION: of the object d
    if [ -z "$python" ]; then skip "json: $2"; return; fi
    if "$python" -c '
import json, sys
d = json.load(open(sys.argv[1], encoding="utf-8"))
sys.exit(0 if eval("(" + sys.argv[2] + ")") else 1)' "$1" "$2" 2>>err; then
        pass
    else
        fail "$1: $2"
    fi
}
# Lines of "MESSAGE | ARGUMENTS": refused with exit code 2 and that message, if one
# is named, in one line, before anything is printed.
refused() {
    local text arguments
    while IFS='|' read -r text arguments; do
        eval "run 2 $arguments"
        expect "one sentence of: $arguments" [ "$(wc -l <err)" = 1 ]
        expect "nothing is printed of: $arguments" [ ! -s out ]
        [ -z "${text// /}" ] || says err "${text% }"
    done
}
says_not() { expect "'$2' is in $1" [ -z "$(grep -F -- "$2" "$1")" ]; }
parts() { find "$1" -name '.headrace-*'; }
no_parts() { [ -z "$(parts .)" ]; }
same() { cmp -s "$1" "$2"; }

# ---- pictures -------------------------------------------------------------

run 0 samples --count 12 --seed 5 pictures
photos=pictures/photos
num=$(find "$photos" -type f | wc -l)
expect "photos were written" [ "$num" -eq 12 ]
one=$(find "$photos" -type f | sort | head -n 1)

# ---- what the decoder mends ---------------------------------------------

run 0 samples --count 1 --seed 5 mended
run 0 run mended/bad/restart-wrong.jpg "$one" --ops decode,resize=8x8 \
    --out mended.npy
json mended.json '[p["warnings"] > 0 for p in d["pictures"]] == [True, False]'

# ---- words ----------------------------------------------------------------

run 0 --version
says out "headrace 0."
says out "reference pillow-13"
says out "libjpeg-turbo"
for command in "" run devices validate profile pack unpack info samples; do
    # shellcheck disable=SC2086
    run 0 $command --help
    says out "Example"
done
for command in run devices validate profile pack unpack info samples; do
    run 0 help $command
    mv out help
    run 0 $command --help
    expect "help $command" cmp -s help out
    expect "$command --help fits 80 columns" \
        [ -z "$(awk 'length > 80' out)" ]
    run 2 $command -V
    says err "(see headrace $command --help)"
done
run 0 -V
says out "headrace 0."
# A reader that stops early causes no message.
exec 7> >(exec true)
wait $!
(trap '' PIPE; exec "$headrace" --help >&7 2>err)
exec 7>&-
expect "no noise behind head" [ ! -s err ]

# ---- what a run says that it has written ------------------------------------

mkdir said
cp "$one" said/good.jpg
head -c 1500 "$one" >said/cut.jpg
echo "no picture" >said/bad.jpg
run 1 run said --out said.npy --ops decode,resize=8x8
says out "wrote said.npy and said.json; 2 rows of said.npy are zeros"
run 0 run said --out said.npy --on-error zero --ops decode,resize=8x8
says out "2 rows of said.npy are zeros"
run 0 run said --out said.npy --on-error skip --ops decode,resize=8x8
says out "wrote said.npy and said.json"
says_not out "zeros"
run 0 run said/good.jpg --out said/ --ops decode,resize=8x8
says out "wrote said/ and said/manifest.json"
run 0 run said/good.jpg --out none
says_not out "wrote"
if [ "$(id -u)" != 0 ]; then
    mkdir -p said/closed
    chmod 0 said/closed
    run 1 run said --out none --on-error skip
    says out "; 1 folder or other part of the input unread"
    rmdir said/closed
else
    skip "a folder that cannot be read: root reads all"
fi
run 1 run said/good.jpg --out none --max-pixels 1
says out "limits are raised by --max-pixels"
run 0 run said/good.jpg --out none --max-pixels 200M --max-block-visits 20K
run 0 run "$photos" --out none --limit 1K --max-item-bytes 1G --json
json out 'd["images"] == 12'

run 0 devices
says out "cpu"
run 0 devices --json
json out 'any(x["name"] == "cpu" and x["available"] and
              "entropy..store" in x["spans"]["exact"] for x in d["devices"])'
json out 'all(x["available"] or x["reason"] for x in d["devices"])'
json out 'd["libraries"][0]["name"] == "libwebp" and all(
              x["package"] and x["built"] >= x["found"] for x in d["libraries"])'
if [ -n "$python" ]; then
    expect "pages name stages, ops and engines as the tables do" \
        "$python" "$here/stages.py" out "$here/../.."
fi
HEADRACE_OPENCL_LIBRARY=/nonexistent run 0 devices
expect "a library that is missing comes with its package" grep -Eq \
    'OpenCL devices: (missing .*, Debian package ocl-icd|this build)' out
expect "the file that was named is the one that is missing" grep -Eq \
    'missing as HEADRACE_OPENCL_LIBRARY=/nonexistent,|this build' out

# ---- arrays ---------------------------------------------------------------

run 0 run "$photos" --out all.npy --json
json out "d['images'] == $num and d['failed'] == 0 and d['failures'] == {}"
json out "[e['images'] for e in d['epochs']] == [$num]"
json out "d['img_per_s'] > 0 and d['peak_rss_bytes'] > 0 and
          d['dtype'] == 'f32' and d['layout'] == 'nchw'"
json all.json "len(d['pictures']) == $num and d['failed'] == 0"
json all.json 'all(p["status"] == "HR_OK" and p["index"] == i and p["spans"]
                   and p["label"] == p["path"].split("/")[-2]
                   for i, p in enumerate(d["pictures"]))'
run 0 run "$photos" --out u8.npy --dtype u8 --layout nhwc
says out "0 failed"
run 0 run "$photos" --out f16.npy --dtype f16 --quiet
expect "--quiet prints nothing" [ ! -s out ]

cat >reference.py <<'END'
import json, sys
import numpy as np
from PIL import Image
import torchvision.transforms as T
from torchvision.datasets import ImageFolder
shape = T.Compose([T.Resize(256), T.CenterCrop(224)])
norm = T.Compose([T.ToTensor(), T.Normalize([0.485, 0.456, 0.406],
                                            [0.229, 0.224, 0.225])])
f32, u8, f16 = (np.load(x + ".npy") for x in ("all", "u8", "f16"))
listing = json.load(open("all.json"))
pictures = listing["pictures"]
assert f32.shape == (len(pictures), 3, 224, 224) and f32.dtype == np.float32
assert u8.shape == (len(pictures), 224, 224, 3) and u8.dtype == np.uint8
for i, picture in enumerate(pictures):
    small = shape(Image.open(picture["path"]).convert("RGB"))
    want = norm(small).numpy()
    assert np.array_equal(u8[i], np.asarray(small)), picture
    assert np.array_equal(f32[i].view(np.uint32), want.view(np.uint32)), picture
    assert np.array_equal(f16[i], want.astype(np.float16)), picture
folder = ImageFolder("pictures/photos")
assert listing["classes"] == folder.classes
assert {p["path"]: p["class"] for p in pictures} == dict(folder.samples)
END
if "${python:-false}" -c 'import torchvision, PIL' 2>/dev/null; then
    if "$python" reference.py 2>err; then
        pass
    else
        fail "tensors differ from torchvision's"
    fi
else
    skip "comparison with torchvision (not installed)"
fi

# ---- folders --------------------------------------------------------------

run 0 run "$photos" --out dir/deep/ --ops decode --dtype u8
expect "one file per picture" \
    [ "$(find dir/deep -name '*.npy' | wc -l)" -eq "$num" ]
json dir/deep/manifest.json "len(d['pictures']) == $num"
cat >folder.py <<'END'
import json
import numpy as np
from PIL import Image
for p in json.load(open("dir/deep/manifest.json"))["pictures"]:
    got = np.load("dir/deep/" + p["file"])
    want = np.asarray(Image.open(p["path"]).convert("RGB")).transpose(2, 0, 1)
    assert got.shape == want.shape and np.array_equal(got, want), p
END
if "${python:-false}" -c 'import PIL' 2>/dev/null; then
    if "$python" folder.py 2>err; then pass; else fail "decoded pixels"; fi
else
    skip "comparison with Pillow (not installed)"
fi
# The reference: named in every manifest, and it counts.
high="decode,crop=0,0,40,120,resize=30x30:bicubic"
run 0 run "$one" --out old.npy --ops "$high" --reference pillow-12
run 0 run "$one" --out new.npy --ops "$high"
run 0 run "$one" --out high.npy --ops "$high:vertical" --reference pillow-12
run 0 run "$one" --out wide.npy --ops "$high:horizontal"
json old.json "d['reference'] == 'pillow-12'"
json new.json "d['reference'] == 'pillow-13'"
json new.json "d['libjpeg'].startswith('libjpeg-turbo ')"
expect "the references differ" [ ! "$(cmp old.npy new.npy 2>&1)" = "" ]
expect "the order of the new one" same new.npy high.npy
expect "the order of the old one" same old.npy wide.npy
run 0 run "$one" --out torch.npy --ops "$high" --reference torch-2
run 0 run "$one" --out rule.npy --ops "$high:torch"
json torch.json "d['reference'] == 'torch-2'"
expect "torch's weights are its own" [ ! "$(cmp torch.npy wide.npy 2>&1)" = "" ]
expect "the rule of torch" same torch.npy rule.npy
run 0 validate "$one" --backend cpu --json --reference pillow-12
json out "d['reference'] == 'pillow-12' and 'libjpeg-turbo' in d['libjpeg']"
run 0 validate "$one" --backend cpu
says out "reference pillow-13, libjpeg-turbo "
run 0 devices
says out "reference    pillow-13, libjpeg-turbo "
run 0 devices --json
json out "d['reference'] == 'pillow-13' and 'libjpeg-turbo' in d['libjpeg']"
run 2 run "$photos" --out raw.npy --ops decode
says err "one array needs equal sizes"
expect "no half array" [ ! -e raw.npy ]
expect "no half manifest" [ ! -e raw.json ]
run 0 run "$photos" --out none --ops decode
run 0 run "$photos" --out raw/ --ops decode=gray,resize=99 --layout nhwc

# ---- validate -------------------------------------------------------------

run 0 validate "$photos" --backend cpu --report validate.html
says out "verdict: exact: 0 of"
expect "a report" grep -q 'main id="page"' validate.html
run 0 validate "$photos" --backend cpu --against cpu --limit 5 --json
json out 'd["within"] and d["checked"] == 5 == len(d["pictures"]) and
          d["stages"]["end_to_end"]["differing"] == 0'
cp out again
run 0 validate "$photos" --backend cpu --against cpu --limit 5 --json
expect "the choice of pictures repeats" same out again
run 0 validate "$photos" --backend cpu --limit 2 --json \
    --ops decode,adjust_hue=0.1,resize=64,equalize,hflip,normalize=imagenet
json out 'd["stages"]["augment"]["samples"] and
          not any(s["differing"] for s in d["stages"].values())'

# ---- profile --------------------------------------------------------------

run 0 profile "$photos" --backends cpu --threads 1,2 --seconds 0.5 --batch 4 \
    --consumer 2 --json --report profile.html --trace profile.json
json out 'd["pictures"] == 12 and len(d["advice"]) > 20 and
          {c["mode"] for c in d["configurations"]} ==
          {"planned", "memory", "decoded"} and
          all(c["img_per_s"] > 0 and c["failed"] == 0 and
              c["latency_p99_ms"] >= c["latency_p50_ms"] > 0 and
              c["cpu_s_per_1000"] > 0 for c in d["configurations"])'
json out '{p["part"] for p in d["backends"][0]["parts"]} >=
          {"read", "prepare", "entropy", "reconstruct", "color", "resample",
           "store"}'
json out 'all(0 < c["consumer_busy"] <= 1 for c in d["configurations"]
              if c["mode"] == "planned")'
expect "a report" grep -q 'main id="page"' profile.html
run 0 profile "$photos" --threads 1 --seconds 0.5 -q --memory \
    --ops decode,resize=40x40,gaussian_blur=1,equalize
says out "pictures, batches of"
says out "%  of augment"
# In the round that warms up all of them come into the cache.
run 0 profile "$photos" --backends cpu --threads 1 --seconds 0.5 --cache 64M \
    --json --ops decode,resize=40x40,adjust_hue=0.1,equalize
json out 'all((c["cache_hits"] > 0.5 * c["images"]) == (c["mode"] != "decoded")
              for c in d["configurations"])'
json out '{p["part"] for p in d["backends"][0]["parts"]} >=
          {"entropy", "reconstruct", "color", "resample", "augment", "store"}'
json out '[c["code"] for c in d["backends"][0]["codes"]] == ["hue", "equalize"]'
json out '0.5 < sum(c["share"] for c in d["backends"][0]["codes"]) <= 1'
# Damaged files take time, but are no pictures, neither made nor needed.
mkdir -p damaged only-damaged
cp "$photos"/*/*.jpg damaged 2>/dev/null || cp "$photos"/*.jpg damaged
for i in 1 2 3 4; do
    head -c 900 "$one" >"damaged/short$i.jpg"
    head -c 900 "$one" >"only-damaged/short$i.jpg"
done
run 0 profile damaged --backends cpu --threads 1 --seconds 1 --batch 16 \
    --consumer 4 --consumer-cpu 30 --json
json out 'abs(d["failing"] - 4 / d["pictures"]) < 0.01'
json out 'abs(d["consumer_img_per_s"] - 1000 / 4 * (d["pictures"] - 4)) < 0.1'
json out 'd["consumer_cpu"] == 0.3 and d["backends"][0]["device"] == "cpu"'
json out 'all(0 < c["consumer_cpu"] < 0.4 for c in d["configurations"]
              if c["mode"] == "planned")'
json out 'all(c["fallbacks"] == 0 and c["fallback_reasons"] == {}
              for c in d["configurations"])'
run 0 profile damaged --backends cpu --threads 1 --seconds 1 -q \
    --consumer 4 --consumer-cpu 30
says out "cannot be made"
says out ", using 30 % of a core takes at most"
# The library says of each picture why it failed; a user hears it if asked for.
run 1 run only-damaged --backend cpu --out none -q
expect "no log without HEADRACE_LOG" [ "$(grep -c ': info: ' err)" = 0 ]
HEADRACE_LOG=info run 1 run only-damaged --backend cpu --out none -q
expect "a log with it" [ "$(grep -c '^headrace: info: .*short' err)" = 4 ]
HEADRACE_LOG=loud run 2 devices
says err "HEADRACE_LOG is 'loud', not debug, info, warning or error"
mkdir -p no-pictures
run 2 profile "$photos" --backends quantum
expect "all are named" grep -q 'it has: .*cpu$' err
# Root may read everything, so the command runs as another user.
mkdir locked
chmod 0 locked
chmod 711 "$tmp"
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if "${as[@]}" "$headrace" --version >/dev/null 2>&1; then
    for command in run validate profile; do
        "${as[@]}" "$headrace" $command "$tmp/locked" >out 2>err
        expect "an unreadable folder ends $command with 2" [ $? = 2 ]
        expect "one sentence of $command" [ "$(wc -l <err)" = 1 ]
        [ $command = run ] || says err "locked: Permission denied"
    done
    # One that lies in a folder ends nothing.
    mkdir half half/open
    cp "$one" half/open/1.jpg
    mv locked half
    "${as[@]}" "$headrace" run half --out none --json >out 2>err
    expect "an unreadable folder below is a failure" [ $? = 1 ]
    expect "one line of it" [ "$(cat err)" = \
        "headrace: half/locked: Permission denied" ]
    json out 'd["images"] == 1 and d["unread"] == 1'
    # The same of commands that look at devices, and of each of their processes.
    "${as[@]}" "$headrace" validate half --backend cpu --json >out 2>err
    expect "an unreadable folder below is a failure of validate" [ $? = 1 ]
    expect "one line of validate" [ "$(cat err)" = \
        "headrace: half/locked: Permission denied" ]
    json out 'd["checked"] == 1 and d["unread"] == 1 and d["within"]'
    # (That user may not write where the test's own TMPDIR is.)
    "${as[@]}" env TMPDIR=/tmp "$headrace" profile half --backends cpu \
        --threads 1 --seconds 0.3 --json >out 2>err
    expect "an unreadable folder below is a failure of profile" [ $? = 1 ]
    expect "one line of profile" [ "$(cat err)" = \
        "headrace: half/locked: Permission denied" ]
    json out 'd["pictures"] == 1 and d["unread"] == 1 and d["failing"] == 0'
    mv half/locked .
else
    skip "an unreadable folder: no user here that may not read it"
fi
chmod 700 locked
refused <<'END'
no such backend; it has: |profile "$photos" --backends quantum
|profile "$photos" --backends cpu,quantum
|validate "$photos" --backend quantum
|validate "$photos" --backend cpu --report /nowhere/report.html
|profile /nowhere
no pictures found|profile no-pictures
none of the pictures could be read|profile only-damaged --threads 1 --seconds 1
cannot be written|profile "$photos" --report /nowhere/report.html
cannot be written|profile "$photos" --trace /nowhere/trace.json
|profile "$photos" --threads 0
|profile "$photos" --threads 1,two
|profile "$photos" --consumer never
|profile "$photos" --consumer-cpu 50
|profile "$photos" --consumer 5 --consumer-cpu 101
--consumer-cpu: 'half' is not a number|profile "$photos" --consumer 5 --consumer-cpu half
|profile "$photos" --ops resise=2
|profile "$photos" --tier sloppy
|profile "$photos" --batch 0
|profile "$photos" --seconds 0
--seconds: 'soon' is not a number|profile "$photos" --seconds soon
--cache: 'much' is not a size|profile "$photos" --cache much
profile: --latency needs --balance|profile "$one" --latency 50
END

# ---- random ops -----------------------------------------------------------

random="decode,random_resized_crop=64,random_hflip,random_vflip=0.2,to_tensor"
run 0 run "$photos" --out r1.npy --ops "$random" --seed 3
run 0 run "$photos" --out r2.npy --ops "$random" --seed 3 --threads 4 \
    --batch 5
run 0 run "$photos" --out r3.npy --ops "$random" --seed 3 --budget 200K
run 0 run "$photos" --out r4.npy --ops "$random" --seed 4
run 0 run "$photos" --out r5.npy --ops "$random" --seed 3 --epochs 2 --json
json out "len(d['epochs']) == 2 and d['images'] == 2 * $num"
json r5.json "d['epoch'] == 1"
expect "threads and batch do not matter" same r1.npy r2.npy
expect "the budget does not matter" same r1.npy r3.npy
if same r1.npy r4.npy; then fail "the seed matters"; else pass; fi
if same r1.npy r5.npy; then fail "the epoch matters"; else pass; fi
sleep 0.2  # files that have just changed are not kept
run 0 run "$photos" --out r6.npy --ops "$random" --seed 3 --epochs 2 \
    --cache 100M --backend cpu --json
json out "d['cache']['hits'] == d['cache']['misses'] > 0 and
          0 < d['cache']['bytes'] < 100 << 20 and not d['cache']['evictions']"
expect "a cache does not matter" same r5.npy r6.npy
says r6.json '"cache"'
run 0 run "$photos" --out none --epochs 2 --cache 100M --backend cpu
says out "pictures were there"
run 0 run "$photos" --out none --limit 3 --json
json out "d['images'] == 3"

# ---- bad pictures ---------------------------------------------------------

mkdir -p mixed/a mixed/b
cp "$one" mixed/a/1.jpg
head -c 3000 "$one" >mixed/a/2.jpg
echo "no picture" >mixed/b/3.png
cp "$one" mixed/b/4.jpg
cp "$one" "$(printf 'mixed/b/5\n\377.jpg')"
run 1 run mixed --out fail.npy --json
says err "mixed/a/2.jpg"
says err "mixed/b/3.png"
json out 'd["images"] == 3 and d["failed"] == 2 and
          sum(d["failures"].values()) == 2'
json fail.json '[p["index"] for p in d["pictures"]] == [0, 1, 2, 3, 4]'
json fail.json '[p["status"] == "HR_OK" for p in d["pictures"]] ==
                [True, False, False, True, True]'
json fail.json 'all(p["status"] == "HR_OK" or p["reason"]
                    for p in d["pictures"])'
json fail.json 'bytes.fromhex(d["pictures"][4]["path_hex"]) ==
                b"mixed/b/5\n\xff.jpg"'
run 0 run mixed --out skip.npy --on-error skip
json skip.json '[p.get("index") for p in d["pictures"]] ==
                [0, None, None, 1, 2]'
run 0 run mixed --out zero/ --on-error zero
# A sample that failed has no file, nor an earlier one; other files stay.
mkdir -p faildir/a faildir/b
echo mine >faildir/a/2.npy
run 1 run mixed --out faildir/
expect "no file of others is removed" [ "$(cat faildir/a/2.npy)" = mine ]
echo theirs >faildir/b/9.npy
run 1 run mixed --out faildir/
expect "other files stay" [ -e faildir/b/9.npy ]
json faildir/manifest.json '[p.get("file") for p in d["pictures"]][:4] ==
                            ["a/1.npy", None, None, "b/4.npy"]'
json faildir/manifest.json 'd["pictures"][2]["stage"] == "header"'
says err "mixed/b/3.png: header at byte 0: "
# Each failure is named once; of many the number is given.
mkdir many
for i in $(seq 30); do echo "$i" >many/$i.jpg; done
run 1 run many --out none --epochs 3
expect "20 lines and one" [ "$(wc -l <err)" = 21 ]
says err "headrace: ... and 10 more that failed"
says out "0 of 90 pictures on "
rm many/1*
run 1 run many --out none -q --epochs 2
expect "a line each" [ "$(wc -l <err)" = "$(find many -type f | wc -l)" ]

# ---- lists and labels -----------------------------------------------------

json all.json 'd["classes"] == sorted({p["label"] for p in d["pictures"]}) and
               all(d["classes"][p["class"]] == p["label"]
                   for p in d["pictures"])'
printf '%s\tyes\nmixed/none.jpg\tno\n' "$one" >list
run 1 run --list list --out list.npy
says err "mixed/none.jpg: read: No such file or directory"
json list.json 'd["classes"] == ["no", "yes"] and
                [(p["label"], p["class"]) for p in d["pictures"]] ==
                [("yes", 1), ("no", 0)] and
                d["pictures"][1]["stage"] == "read"'
find "$photos" -type f -print0 | sort -z >zero-list
run 0 run --list - --null --out none <zero-list
says out "$num pictures on"
run 0 run "$one" --list - -0 --out none --json <zero-list
json out "d['images'] == $num + 1"
# Relative to the list, wherever one is.
(cd "$photos" && find . -name '*.jpg' | sort) >"$photos/names.txt"
run 0 run --list "$photos/names.txt" --out listed/ --ops decode
expect "in folders as listed" [ "$(find listed -name '*.npy' | wc -l)" = "$num" ]
rm "$photos/names.txt"
expect "failed pictures leave no file" [ ! -e faildir/a/2.npy ]
expect "zero leaves a file of zeros" [ -e zero/a/2.npy ]
run 1 run mixed --out none --ops decode
if [ -n "$python" ]; then
    if "$python" -c '
import numpy as np
a, s, z = np.load("fail.npy"), np.load("skip.npy"), np.load("zero/a/2.npy")
assert a.shape[0] == 5 and s.shape[0] == 3
assert not a[1].any() and not a[2].any() and not z.any()
assert np.array_equal(a[[0, 3, 4]], s) and s.all(axis=0).any()' 2>err; then
        pass
    else
        fail "rows of failed pictures"
    fi
else
    skip "rows of failed pictures (no numpy)"
fi

# ---- what cannot run ------------------------------------------------------

mkdir empty readonly
mkfifo pipe.jpg
cp "$one" readonly/a.jpg
cp "$one" readonly/a.png
refused <<'END'
|
|nothing
'nothing' is not a command (run, devices, |help nothing
|run
--out|run "$photos"
/no/such: No such file|run /no/such --out none
no pictures found in empty (.jpg|run empty --out none
readonly/a.jpg and readonly/a.png|run readonly --out clash/
no pictures found in empty and 1 more|run empty no-pictures --out none
|run "$photos" --out none --backend nothing
character 8|run "$photos" --out none --ops decode,resise=3
|run "$photos" --out none --batch 0
--batch: 'many' is not a number in 1 .. 65536|run "$photos" --out none --batch many
--threads: 'x' is not a number|run "$photos" --out none --threads x
--threads: 'x' is not a number|run "$photos" --out none --threads=x
--epochs: '99999999999999999999' is not|run "$photos" --out none --epochs 99999999999999999999
--threads: '-1' is not a number in 0 .. 4096|validate "$photos" --backend cpu --threads -1
samples: --count: 'some' is not a number in 0 .. 1000000|samples --count some pictures
|run "$photos" --out none --budget 64Q
--cache: 'much' is not a size|run "$photos" --out none --cache much
|run "$photos" --out none --on-error ignore
|run "$photos" --out none --no-such-option
|run "$photos" --out none --timeout -1
/x.npy: Not a directory|run "$photos" --out "$one/x.npy"
|run "$photos" --out "$one/"
|run "$photos" --out "$one"
run: --dtype: 'f64' is not one of f32, f16, u8|run "$one" --out none --dtype f64
run: --timeout: '0' is not a number above 0, at most 1000000000|run "$one" --out none --timeout 0
run: --deadline: '0' is not a number in 1 .. 3600|run "$one" --out none --deadline 0
run: --latency needs --balance|run "$one" --out none --latency 50
run: --latency: '0' is not a number in 1 .. 3600000|run "$one" --out none --balance --latency 0
run: --ops: character 1: no op is named|run "$one" --out none --ops ''
run: --max-scans: '0' is not a number in 1 .. 2147483647|run "$one" --out none --max-scans 0
run: --max-item-bytes: 'much' is not a size such as 64M|run "$one" --out none --max-item-bytes much
--max-pixels: '2.5M' is not a number such as 200M|run "$one" --out none --max-pixels 2.5M
--limit: '0K' is not a number such as 200M|run "$one" --out none --limit 0K
|run "$one" --out none --max-pixels 20000000000000G
'pillow-11' is not one of pillow-12, pillow-12.2, pillow-13, torch-2|run "$one" --out none --reference pillow-11
/nowhere: No such file|run --list /nowhere --out none
standard input: |run --list - --out none <&-
no pictures found: the list names none|run --list /dev/null --out none
run: --null is of --list, which is missing|run "$one" -0 --out none
samples: --no-such: unknown option|samples --no-such x
samples: --size: '3' is not WxH|samples --size 3 x
samples: name a folder|samples
END
run 2 run pipe.jpg --out none
for out in x.JPG x.npz tensors.pt out.bin - new; do
    run 2 run "$photos" --out $out
    says err "run: --out: '$out' is neither FILE.npy nor a folder that is there"
    expect "nothing of that name: $out" [ ! -e ./$out ]
done
run 0 run "$one" --out x.jpg/ --ops decode
run 0 run "$one" --out x.jpg --ops decode
# Parents are made of both.
run 0 run "$one" --out up/of/x.npy --ops decode
expect "an array in new folders" [ -e up/of/x.npy -a -e up/of/x.json ]
# Files that are not ours stay, and nothing is done before.
mkdir -p set
echo '{"version": 3}' | tee set/manifest.json >labels.json
for out in set/ labels.npy; do
    run 2 run "$photos" --out $out --backend nothing
    says err "not written by headrace run, and not overwritten"
done
says err "labels.json: "
expect "they stay" cmp set/manifest.json labels.json
expect "nothing is made" [ ! -e labels.npy -a "$(ls set)" = manifest.json ]
for ops in to_tensor normalize=imagenet; do
    run 2 run "$one" --out none --dtype u8 --ops resize=9,$ops
    says err "run: --dtype u8 keeps whole levels, 0 .. 255: to_tensor and"
done
run 0 run "$one" --out none --backend cpu --deadline 60 --ops decode
run 0 run "$one" --out none --backend cpu --balance --latency 50 --ops decode
run 0 samples -h
says out "Usage: headrace samples DIR"

# ---- limits ---------------------------------------------------------------

run 1 run "$one" --out none --max-pixels 1000
says err "pixels is over the limit of 1000"
run 1 run "$one" --out none --max-side 20
says err " is over the limit of 20"
run 1 run "$one" --out none --max-file-bytes 1K
says err "the limit is 1024"
cat >large.py <<'END'
import struct, zlib
def png(name, w, h):
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    pack = zlib.compressobj(1)
    rows = b"".join([pack.compress(bytes(w + 1)) for _ in range(h)])
    open(name, "wb").write(
        b"\x89PNG\r\n\x1a\n" +
        chunk(b"IHDR", struct.pack(">2I5B", w, h, 8, 0, 0, 0, 0)) +
        chunk(b"IDAT", rows + pack.flush()) + chunk(b"IEND", b""))
png("large.png", 12000, 12000)
png("long.png", 20000, 1)
END
if [ -n "$python" ]; then
    "$python" large.py
    run 1 run large.png --out none
    says err "large.png: header at byte 16: 12000 x 12000 = 144000000 pixels is over"
    run 0 run large.png --out none --max-pixels 144000000
    run 1 run long.png --out none --ops decode
    says err "is over the limit of 16384"
    run 0 run long.png --out none --ops decode --max-side 20000
else
    skip "pictures over the limits (no Python)"
fi
run 2 run mixed/b/3.png --out none.npy --ops decode
HEADRACE_BACKEND=nothing run 2 run "$photos" --out none
HEADRACE_BACKEND=nothing run 0 run "$photos" --out none --backend cpu
(
    failed=0
    ulimit -f 100
    run 2 run "$photos" --out big.npy
    says err "big.npy: File too large"
    [ $failed = 0 ]
)
expect "a full disk is an error" [ $? = 0 ]
expect "a full disk leaves nothing" [ ! -e big.npy ]
# In a folder the manifest lists the files made before.
"$headrace" samples --photos-only --count 1 --size 64x64 tiny >/dev/null
mkdir full
cp tiny/photos/*/*.jpg full/1.jpg
cp "$one" full/2.jpg
(
    failed=0
    ulimit -f 100
    run 2 run full --out part/ --batch 1 --dtype u8 --ops decode
    says err "part/2.npy: File too large"
    says err "stopped; part/manifest.json lists what was made before"
    [ $failed = 0 ]
)
expect "a full disk is an error of a folder" [ $? = 0 ]
json part/manifest.json 'd["interrupted"] is True and
                         [p["file"] for p in d["pictures"]] == ["1.npy"]'
if [ -w /dev/full ]; then
    timeout 60 "$headrace" run "$photos" --out none >/dev/full 2>err
    expect "a summary that cannot be written" [ $? = 2 ]
else
    skip "/dev/full"
fi

# ---- bounded, and interrupted ---------------------------------------------

run 0 run "$photos" --out none --batch 1 --epochs 100 --budget 64M --json \
    --ops decode,resize=64,center_crop=64
json out "d['peak_rss_bytes'] <= (64 + 60) << 20"
json out "len(d['epochs']) == 100 and d['images'] == 100 * $num"
run 0 run "$photos" --out none --budget 1 --threads 2

# The caller of this script may have ignored SIGHUP (nohup does).
interrupt() {   # interrupt OUT SIGNAL
    env --default-signal=HUP \
        "$headrace" run "$photos" --out "$1" --epochs 1000000 --quiet >out 2>err &
    local child=$!
    expect "it listens" listens $child
    expect "it writes" until_any parts "$(dirname "$1-")"
    kill -s "$2" $child
    wait $child
    expect "$2 exits with 128 and its number" \
        [ $? = $((128 + $(kill -l "$2"))) ]
    says err "interrupted"
}
# Background jobs of a script ignore SIGINT unless it has job control.
set -m
for signal in INT HUP; do
    interrupt stopped.npy $signal
    expect "no array after $signal" [ ! -e stopped.npy ]
    rm -rf stopped
    interrupt stopped/ $signal
    json stopped/manifest.json 'd.get("interrupted") is True'
    expect "no temporary files after $signal" no_parts
done
# A program that nohup starts does not receive it.
nohup "$headrace" run "$photos" --out none --epochs 200 -q >out 2>err &
expect "it listens" listens $!
kill -HUP $!
wait $!
expect "a SIGHUP that is ignored" [ $? = 0 ]
# The leftovers of a killed run go with the next run there.
for out in killed/ killed/x.npy; do
    "$headrace" run "$photos" --out $out --epochs 1000000 -q 2>err &
    expect "it writes" until_any parts killed
    kill -KILL $!
    wait $! 2>/dev/null
    expect "$out: it leaves something" \
        [ -n "$(parts killed)" ]
    run 0 run "$photos" --out $out
    expect "$out: it is gone" no_parts
done
set +m

expect "no temporary files are left" no_parts

summary
