#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command with tar, RecordIO and CIFAR files: the same tensors as of the
# files themselves, from one file or many, and what is whole in a damaged one.
# Usage: shards_test.sh PATH-OF-HEADRACE
# shellcheck source=tests/tools/command_env.sh
. "$(dirname "$0")/command_env.sh"

export HEADRACE_BACKEND=cpu
run 0 samples --photos-only --count 12 --size 120x90 --seed 3 pictures
mkdir flat
num=0
while read -r picture; do
    printf -v key '%03d' $num
    cp "$picture" "flat/$key.jpg"
    echo "class $((num % 3))" >"flat/$key.cls"
    printf '%s.jpg\tclass %d\n' "$key" $((num % 3)) >>flat/list
    num=$((num + 1))
done < <(find pictures -name '*.jpg' | sort)
expect "enough pictures" [ "$num" -ge 9 ]

tar_of() {  # tar_of FILE FIRST END
    local keys=() i
    for ((i = $2; i < $3; i++)); do
        printf -v key '%03d' "$i"
        keys+=("$key.cls" "$key.jpg")
    done
    tar -C flat -cf "$1" --format=ustar "${keys[@]}"
}
le32() {
    local i
    for i in 0 8 16 24; do
        # shellcheck disable=SC2059
        printf "\\x$(printf %02x $(($1 >> i & 255)))"
    done
}
record() {  # record LABEL FILE: as im2rec writes it; LABEL is 0, 1 or 2
    local size floats=(0 0x3f800000 0x40000000)
    size=$(($(stat -c %s "$2") + 24))
    le32 $((0xced7230a))
    le32 $size
    le32 0
    le32 $((floats[$1]))
    head -c 16 /dev/zero
    cat "$2"
    head -c $(((4 - size % 4) % 4)) /dev/zero
}
tar_of all.tar 0 $num
tar_of a-08.tar 0 4
tar_of a-09.tar 4 5
tar_of a-10.tar 5 $num
for ((i = 0; i < num; i++)); do
    record $((i % 3)) "flat/$(printf %03d $i).jpg"
done >all.rec

# ---- CIFAR: pixels as they lie there ----------------------------------------

mkdir cifar
for ((i = 0; i < 23; i++)); do
    # shellcheck disable=SC2059
    printf "\\x$(printf %02x $((i % 10)))" >>cifar/data_batch_1.bin
    head -c 3072 /dev/urandom | tee -a cifar/data_batch_1.bin >>planes
done
run 0 run cifar/data_batch_1.bin --cifar 10 --out cifar.npy --batch 5 \
    --ops decode --dtype u8
tail -c $((23 * 3072)) cifar.npy >tensors
expect "the planes of the file" cmp planes tensors
says cifar.json 'data_batch_1.bin/00022'
says cifar.json '"label":"2","class":2'
run 0 run cifar/data_batch_1.bin --cifar 10 --out sizes-cifar/ --limit 2 \
    --ops decode --dtype u8
tail -c 3072 sizes-cifar/00001.npy >one
expect "and one by one" cmp one <(head -c 6144 planes | tail -c 3072)
printf '%s\n' a b c d e f g h i j >cifar/batches.meta.txt
run 0 run cifar/data_batch_{1,1}.bin --cifar 10 --out cifar.npy --epochs 2 \
    --ops decode,random_crop=32:4,random_hflip,normalize=imagenet
says out "92 pictures"
says cifar.json '"label":"j","class":9'
run 2 run cifar/data_batch_1.bin --cifar 100 --out none
says err "data_batch_1.bin: offset 67628: a record of CIFAR-100 has 3074 bytes"
run 2 run cifar --cifar 10 --out none
says err "cifar: not a regular file"
run 2 run cifar/data_batch_1.bin --cifar 1 --out none
says err "--cifar: '1' is not one of"

"$headrace" run all.tar --out none -q 2>err
if grep -q libarchive err; then
    skip "tar files (no libarchive)"
    summary
    exit
fi

# ---- the same tensors, names and labels -------------------------------------

# (Batches of 5, so that the last one is not full.)
run 0 run --list flat/list --out files.npy --batch 5
run 0 run all.tar --out tar.npy --batch 5
expect "as the files" cmp files.npy tar.npy
says tar.json '"label":"class 2"'
says tar.json 'all.tar/003.jpg'
run 0 run a-08.tar a-09.tar a-10.tar --out several.npy --batch 5
expect "one behind the other" cmp files.npy several.npy
run 0 run 'a-{08..10}.tar' --out braces.npy --batch 5
expect "and by their numbers" cmp files.npy braces.npy
run 0 run all.rec --out rec.npy --batch 5
expect "records" cmp files.npy rec.npy
run 0 run all.tar --out again.npy --batch 2 --epochs 3 --budget 2M --threads 3
expect "whatever the batch and the budget" cmp files.npy again.npy
run 0 run --list flat/list --out by-files/ --ops decode,random_crop=64
run 0 run all.tar --out by-tar/ --ops decode,random_crop=64
rm by-files/manifest.json by-tar/manifest.json
expect "a folder, with the same random windows" diff -r by-files by-tar
run 0 run --list flat/list --out sizes-files/ --ops decode --limit 3
run 0 run all.tar --out sizes-tar/ --ops decode --limit 3
rm sizes-files/manifest.json sizes-tar/manifest.json
expect "of their own sizes" diff -r sizes-files sizes-tar
run 2 run all.tar a-08.tar --out clash/
says err "all.tar/000.jpg"
run 2 run 'a-{08..11}.tar' --out none
says err "a-11.tar: No such file"
cp a-08.tar 'b-{1..2}.tar'
run 0 run 'b-{1..2}.tar' --out none
says out "4 pictures"
run 1 run all.tar --out none --max-file-bytes 1K
says err "more than the limit of 1024"

# ---- the other commands -----------------------------------------------------

run 0 validate all.tar --json --against reference
says out "\"checked\": $num,"
run 0 validate all.rec -q
quick() { run 0 profile --backends cpu --threads 1 --seconds 0.2 "$@"; }
quick all.rec --json
says out "\"pictures\": $num.0"
quick all.tar --memory --json
says out "\"pictures\": $num.0"
run 0 pack all.tar --out all.hrp
run 0 run all.hrp --out hrp.npy
expect "packed" cmp files.npy hrp.npy
cp all.hrp begun.hrp.part
run 0 pack all.tar --out begun.hrp
says out "$num of an earlier run"

# ---- from the web -----------------------------------------------------------

web() {
    local port i nginx
    if ! command -v nginx >/dev/null; then
        skip "the web (no nginx)"
        return
    fi
    for ((i = 0; i < 20; i++)); do
        port=$((20000 + RANDOM % 20000))
        cat >nginx.conf <<END
daemon off; master_process off; pid $tmp/pid; error_log $tmp/error.log;
$([ "$(id -u)" != 0 ] || echo 'user root;')
events {}
http {
    access_log off;
    client_body_temp_path $tmp/t1; proxy_temp_path $tmp/t2;
    fastcgi_temp_path $tmp/t3; uwsgi_temp_path $tmp/t4; scgi_temp_path $tmp/t5;
    server { listen 127.0.0.1:$port; root $tmp; }
}
END
        nginx -c "$tmp/nginx.conf" 2>/dev/null &
        nginx=$!
        sleep 0.5
        kill -0 $nginx 2>/dev/null && break
    done
    export no_proxy=127.0.0.1
    "$headrace" run "http://127.0.0.1:$port/all.tar" --out none -q 2>err
    if grep -q libcurl err; then
        skip "the web (no libcurl)"
    else
        run 0 run "http://127.0.0.1:$port/all.tar?key" --out web.npy --batch 5
        expect "of the web" cmp files.npy web.npy
        says web.json "\"http://127.0.0.1:$port/all.tar/003.jpg\""
        run 0 run "http://127.0.0.1:$port/a-{08..10}.tar" --out web.npy
        expect "by their numbers" cmp files.npy web.npy
        run 0 run "http://127.0.0.1:$port/all.hrp" --out web.npy
        expect "a pack file" cmp files.npy web.npy
        run 0 pack "http://127.0.0.1:$port/all.hrp" --out web.hrp
        run 0 pack all.hrp --out disk.hrp
        expect "packed as from the disk" cmp disk.hrp web.hrp
        run 0 run --list "http://127.0.0.1:$port/flat/list" --out web.npy
        expect "a list" cmp files.npy web.npy
        run 0 run --list "http://127.0.0.1:$port/flat/list" --out web/
        expect "names" [ -e web/000.npy ]
        run 2 run "http://127.0.0.1:$port/none.tar" --out none
        says err "none.tar: answer, offset 0: status 404: there is no such"
    fi
    kill $nginx
    wait $nginx
}
web

# ---- classes -----------------------------------------------------------------

mkdir -p tree/{a,b,c/deep,empty}
cp flat/000.jpg tree/a
cp flat/001.jpg tree/c/deep
cp flat/001.jpg tree/beside.jpg
: >tree/b/x.txt
run 0 run tree --out tree.npy
says err "left out 2: a folder of a class without pictures"
says err "left out 1: a picture beside the folders of classes (tree/beside.jpg)"
says out ", 0 failed, 3 left out"
says tree.json '"class":0'
says tree.json '"class":2'
says tree.json '"left_out":3'
run 0 run tree --out tree.npy --json
says out '"left_out": 3'
printf 'c\n\nnever\na\n' >classes.txt
run 0 run tree --classes classes.txt --out tree.npy
says tree.json '"class":3'
says tree.json '"class":0'
run 0 pack tree --classes classes.txt --out tree.hrp -q
run 0 run tree.hrp --out hrp.npy
expect "packed, they have the same numbers" diff \
    <(grep -o '"class":[0-9]*' tree.json) <(grep -o '"class":[0-9]*' hrp.json)
printf 'c\n' >one.txt
run 0 run tree --classes one.txt --out tree.npy
says out "1 picture on"
says err "left out 1: a label that is none of the classes (tree/a/000.jpg)"
run 2 run tree --classes nowhere.txt --out none
says err "nowhere.txt: No such file"
printf 'c\nc\n' >twice.txt
run 2 run tree --classes twice.txt --out none
says err "class 'c' is number 1, and was 0"

# ---- damaged and hostile ones -----------------------------------------------

ln -s /etc/passwd flat/link.jpg
cp flat/000.jpg flat/lost.jpg
tar -C flat -cf hostile.tar --format=ustar -P \
    --transform='s,lost,../../lost,' 000.jpg link.jpg lost.jpg 001.jpg
run 1 run hostile.tar --out hostile/
says err "link.jpg: it is a link or a device"
says err "../../lost.jpg: the name is not a relative path"
expect "the good ones" [ "$(cd hostile && echo *.npy)" = "000.npy 001.npy" ]
expect "nothing outside" [ ! -e ../lost.npy ]
head -c "$(($(stat -c %s a-08.tar) / 2 + 700))" a-08.tar >cut.tar
run 1 run cut.tar --out none --json
says err "cut.tar: offset "
says out '"failed": 0'
expect "what was whole" grep -q '"images": [12],' out
tar -C flat -cf four.tar --format=ustar 000.jpg 001.jpg 002.jpg 003.jpg
at=$(tar -tRf four.tar | sed -n 's/^block \([0-9]*\): 001.jpg/\1/p')
for device in urandom zero; do  # no header, and the end of an archive
    cp four.tar $device.tar
    dd if=/dev/$device of=$device.tar bs=512 count=1 seek="$at" \
        conv=notrunc status=none
    run 1 run $device.tar --out none --json
    says err "$device.tar: offset "
    says out '"images": 3,'
done
# Behind its end an archive may have anything; members there are told of.
tar -C flat -cf end.tar --format=ustar -b 2 000.jpg 001.jpg
{ cat end.tar; head -c 700 /dev/zero; } >zeros.tar
{ cat end.tar; head -c 3000 /dev/urandom; } >noise-behind.tar
for each in zeros noise-behind; do
    run 0 run $each.tar --out none --json
    says out '"images": 2,'
done
cat end.tar four.tar >behind.tar
run 1 run behind.tar --out none --json
says err "the archive ends before other members"
says out '"images": 2,'
head -c "$(($(stat -c %s all.rec) - 100))" all.rec >cut.rec
run 1 run cut.rec --out none --json
says err "cut.rec: offset "
says out "\"images\": $((num - 1)),"
# Parts of names that no file can have are cut, and stay apart.
long=$(printf 'é%.0s' {1..180})
tar -C flat -cf long.tar --format=pax --transform="s,^01,$long/&," \
    --transform="s,^000,a$long," --transform="s,^001,b$long," \
    000.jpg 001.jpg 010.jpg 011.jpg
run 0 run long.tar --out long/
says long/manifest.json "b$long.jpg"
run 0 pack long.tar --out long.hrp
run 0 unpack long.hrp --out unpacked-long
for folder in long unpacked-long; do
    expect "two are beside each other" [ \
        "$(cd $folder && echo [ab]é*é-????????????????.* | wc -w)" = 2 ]
    expect "two are in one folder" [ \
        "$(cd $folder && echo é*é-????????????????/01[01].* | wc -w)" = 2 ]
done
tar -C flat -cf apart.tar 000.jpg 001.jpg 000.cls
run 2 run apart.tar --out none
says err "members of the same sample do not follow each other"
tar -C flat -cf lost.tar --format=ustar --hard-dereference 003.jpg 002.jpg \
    000.jpg 001.jpg 001.jpg 000.cls 000.cls
at=$(tar -tRf lost.tar | sed -n 's/^block \([0-9]*\): 002.jpg/\1/p')
dd if=/dev/urandom of=lost.tar bs=512 count=1 seek="$at" conv=notrunc status=none
run 1 run lost.tar --out none --json
says err "members of the same sample do not follow each other"
says err "001.jpg: the sample has two pictures"
says err "000.cls: the sample has two labels"
says out '"images": 3,'
head -c 4096 /dev/urandom >noise.tar
run 2 run noise.tar --out none
says err "noise.tar: "
: >empty.tar
run 2 run empty.tar --out none
summary
