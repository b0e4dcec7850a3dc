#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command as its users treat it: files and folders of any name, streams
# that are closed, links, signals. Usage: tools_test.sh PATH-OF-HEADRACE
set -u
export LC_ALL=C
unset HEADRACE_BACKEND

headrace=$(readlink -f "${1:?usage: tools_test.sh PATH-OF-HEADRACE}")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
passed=0 failed=0

pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    echo "FAILED: $*"
    sed 's/^/    /' err | head -n 5
}

# run CODE ARGUMENT...: the command must exit with CODE. Leaves out and err.
run() {
    local want=$1 code
    shift
    timeout 300 "$headrace" "$@" >out 2>err
    code=$?
    if [ "$code" = "$want" ]; then
        pass
    else
        fail "headrace $* (exit $code, not $want)"
    fi
}
says() {    # says FILE TEXT: the output of the last run holds TEXT
    if grep -qF -- "$2" "$1"; then pass; else fail "'$2' is not in $1"; fi
}
expect() {  # expect WHAT COMMAND...
    local what=$1
    shift
    if "$@" >/dev/null 2>&1; then pass; else fail "$what"; fi
}
# profile, as short as can be
quick() { run "$1" profile --backends cpu --threads 1 --seconds 0.3 "${@:2}"; }

run 0 samples --count 3 --seed 5 pictures
one=$(find pictures/photos -type f | sort | head -n 1)

# ---- names ----------------------------------------------------------------

# Of these every byte but / may be in a name.
folder=$'f\xe9 "quoted"\n<b>&amp;\''
mkdir "$folder" "$folder/"$'\xff'
cp "$one" "$folder/"$'\xff/x\xfe.jpg'
cp "$one" "$folder/%s%n.jpg"
cp "$one" "$folder/-q.jpg"
ln -s . "$folder/loop"
ln -s nowhere "$folder/gone.jpg"
quick 0 "$folder" --json --report names.html --trace names.json
says out '"pictures": 3.0'
run 0 validate "$folder" --backend cpu -q --report names.html
says out "in 3 pictures"
run 2 profile "$folder" --backends $'\xff' -q
expect "one sentence" [ "$(wc -l <err)" = 1 ]
says err "no such backend"

# ---- where it writes ------------------------------------------------------

mkdir far
: >far/report
ln -s far/report link.html
run 0 validate "$one" --backend cpu --report link.html
expect "a link stays a link" [ -L link.html ]
expect "what is behind it is written" grep -q data-selfcheck far/report
run 2 validate "$one" --backend cpu --report ""
expect "no work before" [ ! -s out ]
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
quick 2 "$one" --seconds 100000
says err "--seconds: 100000 is not above 0 and up to 86400"

# ---- streams --------------------------------------------------------------

"$headrace" validate "$one" --backend cpu --report closed.html >&- 2>err
expect "a closed output is an error" [ $? = 2 ]
says err "standard output"
# What is said of the damaged one must not go to the array.
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
for signal in INT TERM; do
    TMPDIR=$tmp "$headrace" profile pictures --backends cpu --threads 1 \
        --seconds 20 --report stop.html --trace stop.json >out 2>err &
    child=$!
    sleep 1
    kill -s $signal $child
    wait $child
    code=$?
    expect "$signal ends profile with $code" \
        [ $code = $((128 + $(kill -l $signal))) ]
    says err "interrupted"
    expect "one sentence after $signal" [ "$(wc -l <err)" = 1 ]
    expect "no file after $signal" [ ! -e stop.html ]
done
set +m
expect "no temporary files are left" \
    [ -z "$(find . -name '.headrace-*' -o -name 'headrace-profile-*')" ]

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
