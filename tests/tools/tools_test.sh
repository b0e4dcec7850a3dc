#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command as its users treat it: files and folders of any name, streams
# that are closed, links, signals, a media engine that is wrong, or dies.
# Usage: tools_test.sh PATH-OF-HEADRACE
# shellcheck source=tests/tools/command_env.sh
. "$(dirname "$0")/command_env.sh"

# profile, as short as can be
quick() { run "$1" profile --backends cpu --threads 1 --seconds 0.3 "${@:2}"; }

run 0 samples --count 3 --seed 5 pictures
one=$(find pictures/photos -type f | sort | head -n 1)

# ---- what is taken if nothing is said ---------------------------------------

HEADRACE_BACKEND=cpu run 0 validate "$one"
says out "against the readable C"
HEADRACE_BACKEND=cpu run 0 validate "$one" --against cpu
says out "against the CPU"
# More threads than a profile has CPU times of are idle all the same.
quick 0 "$one" --threads 100 --json
idle=$(sed -n 's/.*"worker_idle": \([0-9.]*\).*/\1/p' out)
expect "idle for $idle of the time" \
    awk -v idle="$idle" 'BEGIN { exit !(idle > 0 && idle <= 1) }'
# One core is one thread, whatever the machine has.
core=$(taskset -cp $$ | sed 's/.*: *//; s/[,-].*//')
taskset -c "$core" "$headrace" profile "$one" --backends cpu --seconds 0.3 \
    --json >out 2>err
expect "profile on one core" [ $? = 0 ]
expect "no more threads than cores" [ -z "$(grep -E '"threads": [^1]' out)" ]

# Pictures that need the memory of all jobs wait until none is in flight.
run 0 samples --photos-only --count 2 --size 2000x2000 large
quick 0 large --ops decode --json
says out '"pictures": 2.0'
for budget in 1M 1G; do
    HEADRACE_BACKEND=cpu run 0 run large --ops decode --dtype u8 --batch 1 \
        --threads 2 --budget $budget --out $budget/
done
expect "the budget does not matter" diff -r 1M 1G
rm -r large 1M 1G

# ---- names ----------------------------------------------------------------

# Names may have every byte but /.
folder=$'f\xe9 "quoted"\n<b>&amp;\''
mkdir "$folder" "$folder/"$'\xff'
cp "$one" "$folder/"$'\xff/x\xfe.jpg'
mkdir "$folder/%s%n"
cp "$one" "$folder/%s%n/%s%n.jpg"
cp "$one" "$folder/%s%n/-q.jpg"
ln -s . "$folder/loop"
ln -s nowhere "$folder/gone.jpg"
quick 0 "$folder" --json --report names.html --trace names.json
says out '"pictures": 3.0'
run 0 validate "$folder" --backend cpu -q --report names.html
says out "in 3 pictures"
run 2 profile "$folder" --backends $'\xff' -q
expect "one sentence" [ "$(wc -l <err)" = 1 ]
says err "no such backend"

# ---- lists, limits, and what cannot be read ---------------------------------

printf '%s\tyes\nnone.jpg\tno\n' "$one" >list
printf '%s\0' pictures/photos/*/*.jpg >zero-list
num=$(tr -cd '\0' <zero-list | wc -c)
expect "there are some" [ "$num" -gt 1 ]
run 1 validate --list list --backend cpu --json
expect "one line of what cannot be read" [ "$(cat err)" = \
    "headrace: none.jpg: read: No such file or directory" ]
says out '"label":"yes"'
says out '"unread": 1,'
says out '"verdict": "exact: '
says out '"within": true'
run 1 validate --list list --backend cpu -q --report list.html
says list.html '"unread":1,'
run 0 validate --list - -0 --backend cpu --json <zero-list
says out "\"checked\": $num,"
says out '"unread": 0,'
run 2 validate "$one" --backend cpu --max-side 8
says out "none of 1 pictures could be made"
expect "too large is not unread" [ ! -s err ]
quick 1 --list list --json
expect "one line of profile" [ "$(cat err)" = \
    "headrace: none.jpg: No such file or directory" ]
says out '"pictures": 2.0'
says out '"failing": 0.5'
says out '"unread": 1'
quick 1 --list list --report list.html
says out "1 could not be read"
says list.html "could not be read"
# A list of standard input reaches every process, and no more than it.
quick 0 --list - --null --json <zero-list
says out "\"pictures\": $num.0"
quick 0 --list - --null --limit 1 --json <zero-list
says out '"pictures": 1.0'
quick 2 "$one" --max-side 8
says err "none of the pictures could be"
for command in validate profile; do
    run 2 $command "$one" -0
    says err "$command: --null is of --list, which is missing"
    run 2 $command "$one" --max-file-bytes 1X
    says err "$command: --max-file-bytes: '1X' is not a size such as 64M"
    run 2 $command
    says err "$command: name a folder or a picture"
done

mkdir strange
cp "$one" strange
mkfifo strange/pipe.jpg
run 0 run strange --out none
says err "left out 1: not a regular file (strange/pipe.jpg)"
says out "1 picture on"
mkfifo strange/queue.jpg
run 0 run strange --out none --limit 18446744073709551615
says err "left out 2: not a regular file (the first is strange/pipe.jpg)"
run 2 run strange --out none --limit 18446744073709551616
says err "'18446744073709551616' is not a number in 1 .. 2^64 - 1"

# ---- where it writes ------------------------------------------------------

mkdir far
: >far/report
ln -s far/report link.html
run 0 validate "$one" --backend cpu --report link.html
expect "a link stays a link" [ -L link.html ]
expect "what is behind it is written" grep -q 'main id="page"' far/report
# The leftovers of a killed process go; no process has the number 99999999.
left() { : >.headrace-99999999-0.part; : >far/.headrace-99999999-1.part; }
left
run 0 validate "$one" --backend cpu --report left.html
expect "validate cleans" [ ! -e .headrace-99999999-0.part ]
run 0 validate "$one" --backend cpu --report link.html
expect "behind a link, too" [ ! -e far/.headrace-99999999-1.part ]
left
quick 0 "$one" --trace left.json
expect "profile cleans" [ ! -e .headrace-99999999-0.part ]
quick 0 "$one" --report link.html
expect "profile cleans behind a link" [ ! -e far/.headrace-99999999-1.part ]
run 2 validate "$one" --backend cpu --report ""
expect "no work before" [ ! -s out ]
cp "$one" keep.jpg
run 2 validate --backend cpu --report keep.jpg "$one"
says err "keep.jpg: the report cannot be written: File exists"
quick 2 --trace keep.jpg "$one"
expect "no picture is lost" cmp keep.jpg "$one"
quick 2 "$one" --report one.x --trace one.x
says err "are one file"
expect "nothing is written" [ ! -e one.x ]
(
    failed=0
    ulimit -f 4
    run 2 validate "$one" --backend cpu --report large.html
    says err "large.html: the report cannot be written: File too large"
    quick 2 "$one"
    says err "File too large"
    [ $failed = 0 ]
)
expect "a full disk is an error" [ $? = 0 ]
expect "a full disk leaves nothing" [ ! -e large.html ]
# Nothing that profile keeps meanwhile has a name, or it would be left by one
# that is killed.
mkdir traces
TMPDIR=$tmp/traces "$headrace" profile "$one" --backends cpu --threads 1 \
    --seconds 3 --trace traces.json >out 2>err &
child=$!
named=0
while kill -0 $child 2>/dev/null; do
    [ -z "$(ls traces)" ] || named=$((named + 1))
    sleep 0.02
done
wait $child
expect "profile ends well" [ $? = 0 ]
expect "there is a trace" [ -s traces.json ]
expect "its files have no name ($named)" [ $named -le 1 ]
before=$SECONDS
TMPDIR=/nowhere quick 2 "$one" --seconds 20
says err "/nowhere/headrace-profile-"
expect "said at once" [ $((SECONDS - before)) -lt 10 ]
quick 2 "$one" --seconds 100000
says err "--seconds: '100000' is not a number above 0, at most 86400"

# Pictures that go away: also if that is before they were opened.
cp -r pictures/photos gone
"$headrace" profile gone --backends cpu --threads 1 --seconds 6 >out 2>err &
sleep 1.5
rm -r gone
wait $!
expect "nothing measured is no success" [ $? = 2 ]
expect "one sentence says so" [ "$(wc -l <err)" = 1 ]
expect "and no table" [ ! -s out ]

# ---- streams --------------------------------------------------------------

"$headrace" validate "$one" --backend cpu --report closed.html >&- 2>err
expect "a closed output is an error" [ $? = 2 ]
says err "standard output"
expect "the page is written all the same" grep -q 'main id="page"' closed.html
# The message about the damaged picture must not go to the array.
head -c 900 "$one" >short.jpg
run 1 run "$one" short.jpg --backend cpu --out open.npy
"$headrace" run "$one" short.jpg --backend cpu --out closed.npy >&- 2>err
expect "a closed output is an error of run" [ $? = 2 ]
"$headrace" run "$one" short.jpg --backend cpu --out mute.npy >out 2>&-
expect "what cannot be said is no error of run" [ $? = 1 ]
expect "nothing is printed to an array" cmp open.npy closed.npy
expect "nor errors" cmp open.npy mute.npy
"$headrace" profile "$one" --backends cpu --threads 1 --seconds 0.3 \
    <&- >out 2>err
expect "profile reads no input" [ $? = 0 ]

# ---- signals --------------------------------------------------------------

# Background jobs of a script ignore SIGINT unless it has job control.
set -m
for signal in INT TERM HUP; do
    TMPDIR=$tmp env --default-signal=HUP "$headrace" profile pictures/photos \
        --backends cpu --threads 1 --seconds 20 --report stop.html \
        --trace stop.json >out 2>err &
    child=$!
    expect "it listens" listens $child
    expect "it measures" until_any children $child
    kill -s $signal $child
    wait $child
    code=$?
    expect "$signal ends profile with $code" \
        [ $code = $((128 + $(kill -l $signal))) ]
    says err "interrupted"
    expect "one sentence after $signal" [ "$(wc -l <err)" = 1 ]
    expect "no file after $signal" [ ! -e stop.html -a ! -e stop.json ]
done
set +m
expect "no temporary files are left" \
    [ -z "$(find . -name '.headrace-*' -o -name 'headrace-profile-*')" ]

# ---- a device that is wrong ------------------------------------------------

driver=$(dirname "$headrace")/tests/va_driver
# on_media CODE FAULT ARGUMENT...: the command with the media engine in software
on_media() {
    local preload=$driver/libva_node_type.so
    LIBVA_DRIVERS_PATH=$driver LIBVA_DRIVER_NAME=headrace \
        LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$preload \
        HEADRACE_VA_DRIVER=fault=$2 HEADRACE_CERTIFICATE=off \
        run "$1" "${@:3}" --backend vaapi:/dev/null+cpu
}
media() { on_media "$1" "$2" validate same "${@:3}"; }
if [ -e "$driver/headrace_drv_video.so" ] &&
   "$headrace" devices | grep -q '^vaapi'; then
    # 20 of one size, and no two alike: what is stale is another picture. The
    # first 16 are looked at by the library itself.
    "$headrace" samples --photos-only --count 94 --seed 5 more >/dev/null
    mkdir same
    for i in 05 09 13 14 18 34 45 46 49 53 54 57 64 72 73 76 78 85 88 93; do
        cp more/photos/*/*-000$i.jpg same
    done
    media 0 none
    says out "verdict: exact"
    on_media 0 none run pictures/kinds/progressive-420.jpg --out none
    says out "handed to the next engine: 1 (progressive JPEG)"
    media 1 Decode:wrong:always --report lies.html --json
    says out '"mismatches": '
    says out '"verdict": "not within tier exact: the library found '
    expect "the page says so" grep -q '"within":false' lies.html
    # Two cuts of 20 are right; then come whole pictures.
    for tier in close fast; do
        media 1 Decode:stale:41+ --tier $tier
        says out "have another picture's pixels"
        says out ", if cut after color, but not at the end"
        media 1 Decode:wrong:41+ --tier $tier
        says out "; begins at "
    done
    # Its certificate refuses it every kind: the CPU's pictures are no proof.
    idle=(env LIBVA_DRIVERS_PATH="$driver" LIBVA_DRIVER_NAME=headrace
          LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$driver/libva_node_type.so"
          HEADRACE_VA_DRIVER=idct=ifast XDG_CACHE_HOME="$PWD/refused")
    "${idle[@]}" "$headrace" validate same --backend vaapi:/dev/null+cpu \
        --tier fast --json >out 2>err
    expect "a device that made nothing ends with 2" [ $? = 2 ]
    says out '"verdict": "nothing shown: vaapi:/dev/null made none of 20 '
    says out '"within": null'
    # Pictures that a device does not make are not its gain.
    LIBVA_DRIVERS_PATH=$driver LIBVA_DRIVER_NAME=headrace \
        LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$driver/libva_node_type.so \
        HEADRACE_VA_DRIVER=fault=Decode:wrong:always \
        HEADRACE_CERTIFICATE=off quick 0 same --backends vaapi:/dev/null+cpu \
        --report lies.html
    says out "vaapi:/dev/null, 1 thread: handed to the next engine: the device"
    says out "vaapi:/dev/null+cpu made wrong pictures and was left: see headra"
    says lies.html "handed to the next engine: the device gave wrong pictures"
else
    skip "a device that is wrong (no VA-API)"
fi

# ---- a device that dies ---------------------------------------------------

# The processes that measure, in the order of their start: four of the CPU, one
# of each mode, then those of the device.
# dies WHICH COMMAND...: as soon as all are there, the command with the id of
# that process behind it. Leaves out, err and code.
dies() {
    local which=$1 profile i
    shift
    LIBVA_DRIVERS_PATH=$driver LIBVA_DRIVER_NAME=headrace \
        LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$driver/libva_node_type.so \
        HEADRACE_CERTIFICATE=off "$headrace" profile same --threads 1 \
        --backends vaapi:/dev/null+cpu --seconds 1 --consumer 5 --json \
        --report dead.html >out 2>err &
    profile=$!
    for ((i = 0; i < 600; i++)); do
        [ "$(children $profile | wc -w)" = 8 ] && break
        sleep 0.05
    done
    "$@" "$(children $profile | cut -d ' ' -f "$which")" >/dev/null
    wait $profile
    code=$?
}
limit_files() { prlimit --fsize=1000 --pid "$1"; }
if [ -e same ] && children $$ >/dev/null; then
    dies 5 kill -9
    expect "a device that dies is an error" [ $code = 2 ]
    says err "profile: vaapi:/dev/null+cpu, 1 thread, planned: killed by sig"
    expect "one sentence says so" [ "$(wc -l <err)" = 1 ]
    says out '"reason": "killed by signal 9"'
    expect "the CPU is measured" grep -q '"device": "cpu"' out
    expect "and nothing else" [ "$(grep -c '"device": "vaapi' out)" = 0 ]
    says dead.html "Left out: vaapi:/dev/null+cpu, 1 thread, planned: killed"
    # A process that fails can give the reason itself: its trace has no place.
    dies 8 limit_files
    expect "a device that fails is an error" [ $code = 2 ]
    expect "it said why itself" [ "$(grep -c 'File too large' err)" = 1 ]
    expect "its reason is kept" grep -q '"reason": ".*File too large"' out
    rm dead.html
    dies 1 kill -9
    expect "without the CPU there is nothing" [ $code = 2 ]
    says err "profile: cpu, 1 thread, planned: killed by signal 9"
    expect "to print" [ ! -s out ]
    expect "nor to draw" [ ! -e dead.html ]
else
    skip "a device that dies (no VA-API, or no list of children)"
fi

summary
