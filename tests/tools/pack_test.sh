#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Pack files on the command line: pack, run, unpack, info; names that are odd,
# pictures that are bad, runs that are killed.
# Usage: pack_test.sh PATH-OF-HEADRACE
# shellcheck source=tests/tools/command_env.sh
. "$(dirname "$0")/command_env.sh"

train=decode,random_resized_crop=32,random_hflip,normalize=imagenet
same() { cmp -s "$1" "$2"; }
# The statuses and labels of a manifest, without the paths of its files.
facts() {
    grep -oE '"(label|class|status|width|height)":("[^"]*"|[^,}]*)' "$1"
}
same_facts() { [ "$(facts "$1")" = "$(facts "$2")" ] && [ "$(facts "$1")" ]; }

run 0 samples --count 12 --seed 5 --size 120x90 pictures
photos=pictures/photos
num=$(find "$photos" -type f | wc -l)

# ---- the thin path ----------------------------------------------------------

run 0 pack "$photos" --out a.hrp
says out "$num pictures in a.hrp: $num packed, 0 kept as they are"
expect "no part is left" [ ! -e a.hrp.part ]
run 0 run "$photos" --out files.npy --ops "$train" --seed 3
run 0 run a.hrp --out packed.npy --ops "$train" --seed 3
expect "the same array" same files.npy packed.npy
expect "the same labels and classes" same_facts files.json packed.json
says packed.json '"path":"a.hrp/'
run 0 run "$photos" --out files/ --ops decode --dtype u8
run 0 run a.hrp --out packed/ --ops decode --dtype u8
rm files/manifest.json packed/manifest.json
expect "the same files at the same places" diff -r files packed
run 0 run a.hrp a.hrp --out none --quiet
run 2 run a.hrp a.hrp --out twice/
says err "would be written to the same file"

# ---- whatever comes ---------------------------------------------------------

run 0 pack pictures --out all.hrp --quiet
expect "--quiet prints nothing" [ ! -s out ]
run 1 run pictures --out all-files/ --ops decode,resize=16x16 --on-error fail
run 1 run all.hrp --out all-packed/ --ops decode,resize=16x16 --on-error fail
expect "bad pictures end alike" \
    same_facts all-files/manifest.json all-packed/manifest.json
rm all-files/manifest.json all-packed/manifest.json
expect "the same pixels of every kind" diff -r all-files all-packed
run 0 info --check all.hrp
says out "pictures are sound"
says out "kept as they are"
run 0 info --list --json all.hrp
says out '"packed": true'
says out '"packed": false'

mkdir -p "odd/é/"$'\xff'
one=$(find "$photos" -type f | sort | head -n 1)
cp "$one" "odd/é/a.jpg"
cp "$one" odd/é/$'new\nline.jpg'
cp "$one" odd/é/$'\xff/x\xfe.jpg'
run 0 pack odd --out odd.hrp
run 0 info --list odd.hrp
says out 'new\x0aline.jpg'
run 0 run odd.hrp --out odd-packed/ --ops decode
run 0 run odd --out odd-files/ --ops decode
rm odd-files/manifest.json odd-packed/manifest.json
expect "odd names" diff -r odd-files odd-packed

printf '%s\n' "$one	first" "$one" >list
run 2 pack --list list --out list.hrp
says err "two pictures are called"
expect "nothing is begun" [ ! -e list.hrp.part ]
printf '%s\0' "$(realpath "$one")	a label" "gone.jpg	x" >list
run 1 pack --list list -0 --out list.hrp
says err "gone.jpg: read: No such file"
says out "1 could not be read"
run 0 info --list list.hrp
says out "a label	$(basename "$one")"
mkdir empty
run 2 pack empty --out empty.hrp
run 2 pack nowhere --out x.hrp
run 2 pack "$photos"
run 2 pack "$photos" --out x.npy
says err ".hrp"
echo letter >letter.hrp
run 2 pack "$photos" --out letter.hrp
says err "is not written over"
run 2 run letter.hrp --out none
says err "letter.hrp: offset 0: not a pack file"
run 2 info letter.hrp
says err "headrace pack makes one"
run 2 pack "$photos" --out nowhere/x.hrp

# ---- split, put together ----------------------------------------------------

run 0 pack "$photos" --out s.hrp --split 3 --threads 2 --json
says out '"files": 3'
run 0 run s-0000?-of-00003.hrp --out split.npy --ops "$train" --seed 3
expect "the same array of three files" same files.npy split.npy
run 0 pack s-0000?-of-00003.hrp --out whole.hrp
expect "put together they are the one file" same a.hrp whole.hrp
run 0 pack "$photos" --out threads.hrp --threads 7
expect "threads do not matter" same a.hrp threads.hrp
run 0 pack a.hrp --out a.hrp
expect "a file from itself" same a.hrp whole.hrp

# ---- unpack -----------------------------------------------------------------

run 0 unpack a.hrp --out u/
says out "$num pictures as PNG"
run 0 run u --out unpacked/ --ops decode --dtype u8
expect "a PNG of each" [ "$(find u -name '*.jpg.png' | wc -l)" = "$num" ]
for file in unpacked/*/*.npy; do
    name=${file#unpacked/}
    expect "$file" same "$file" "files/${name%.jpg.npy}.npy"
done
run 0 unpack all.hrp --out all-u/ --threads 2
while IFS=$'\t' read -r sort _ _ _ name; do
    [ "$sort" = kept ] || continue
    expect "$name as it was" same "all-u/$name" "pictures/$name"
done < <("$headrace" info --list all.hrp)
run 2 unpack a.hrp
run 2 unpack --out u/
# A path as long as one may be leaves no room for .png or .npy.
part=$(printf 'k%.0s' {1..250})
last=$(printf 'n%.0s' {1..78})
(for _ in {1..16}; do mkdir "$part" && cd "$part" || exit; done
 cp "$tmp/$one" "$last")
{ printf "$part/%.0s" {1..16}; echo "$last"; } >longest
run 0 pack --list longest --out longest.hrp
for command in "unpack longest.hrp" "run --list longest"; do
    # shellcheck disable=SC2086
    run 2 $command --out longest-u/
    says err "headrace: $part/"
    says err "/$last: File name too long"
done

# ---- damage -----------------------------------------------------------------

cp a.hrp bad.hrp
size=$(stat -c %s bad.hrp)
printf 'xxxx' | dd of=bad.hrp bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
run 1 info --check bad.hrp
says err "is damaged"
says out "$((num - 1)) of $num pictures are sound"
run 1 run bad.hrp --out bad.npy --ops "$train" --epochs 2
says err "damaged"
says bad.json '"status":"HR_ECORRUPT"'
says out "2 failed"
run 1 unpack bad.hrp --out bad-u/
# The PNG among these, of which the library knows no checksum.
mkdir mixed
cp "$one" pictures/kinds/png-rgb.png mixed
run 0 pack mixed --out mixed.hrp
at=$(grep -abo IDAT mixed.hrp | head -n 1 | cut -d: -f1)
printf 'x' | dd of=mixed.hrp bs=1 seek=$((at + 30)) conv=notrunc 2>/dev/null
run 1 run mixed.hrp --out none
says err "its checksum is wrong"
for cut in 0 10 64 $((size / 2)) $((size - 1)); do
    head -c "$cut" a.hrp >cut.hrp
    run 2 run cut.hrp --out none
    run 2 info cut.hrp
    says err "cut.hrp: offset"
done

# ---- validate, profile ------------------------------------------------------

run 0 validate a.hrp --backend cpu
says out "in $num pictures"
run 0 profile a.hrp --backends cpu --threads 1 --seconds 0.3 --json
says out "\"pictures\": $num.0"

# ---- interrupted ------------------------------------------------------------

# Larger ones, so that there is something to interrupt.
run 0 samples --photos-only --count 24 --seed 9 --size 900x700 large
run 0 pack large --out large.hrp
rounds=10 resumed=0
[ -z "${HEADRACE_TEST_LONG-}" ] || rounds=200
set -m
for ((i = 0; i < rounds; i++)); do
    "$headrace" pack large --out killed.hrp --threads 2 >out 2>err &
    sleep "0.$(printf %03d $((RANDOM % 120)))"
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
    [ ! -e killed.hrp ] || expect "a whole file" same large.hrp killed.hrp
    run 0 pack large --out killed.hrp --threads 2
    ! grep -q "earlier run" out || resumed=$((resumed + 1))
    expect "the same file" same large.hrp killed.hrp
    expect "no part" [ ! -e killed.hrp.part ]
    [ $((i % 3)) = 0 ] || rm killed.hrp
done
echo "$resumed of $rounds went on with something"
# A picture that was replaced meanwhile, by one of the same size, is packed
# anew.
cp -r large changed
cp large.hrp changed.hrp.part
picture=$(find changed -type f | sort | sed -n 7p)
printf '\1\2\3' | dd of="$picture" bs=1 seek=3000 conv=notrunc 2>/dev/null
run 0 pack changed --out fresh.hrp
run 0 pack changed --out changed.hrp
expect "something went on" grep -q "earlier run" out
expect "the picture that is there now" same fresh.hrp changed.hrp
"$headrace" pack large --out t.hrp >out 2>err &
# (Or has ended, on a machine that looks too late.)
expect "it begins" until_any find . -name 't.hrp*' -size +200k
kill -TERM $! 2>/dev/null
wait $!
code=$?
expect "SIGTERM exits with 143, or it was done" \
    test $code = 143 -o $code = 0
set +m
# A file that has changed since is packed again, and all behind it.
cp large.hrp t.hrp.part
third=$(find large -type f | sort | sed -n 3p)
cp "$one" "$third"
run 0 pack large --out t.hrp
says out "2 of an earlier run"
run 0 pack large --out fresh.hrp
expect "the file of what is there now" same t.hrp fresh.hrp
cp fresh.hrp t.hrp.part
run 0 pack large --out t.hrp
says out "24 of an earlier run"
expect "all of it was there" same t.hrp fresh.hrp
rm "$third"
cp fresh.hrp t.hrp.part
run 0 pack large --out t.hrp
says out "2 of an earlier run"
says out "23 pictures in"

summary
