# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For tests of the command, which read this in: an empty folder to be in, the
# command, what is expected of it, and counts.
set -u
export LC_ALL=C
unset HEADRACE_BACKEND

headrace=$(readlink -f "${1:?usage: $(basename "$0") PATH-OF-HEADRACE}")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
passed=0 failed=0 not_run=0

pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    echo "FAILED: $*"
    sed 's/^/    /' err | head -n 5
}
skip() {
    not_run=$((not_run + 1))
    echo "not run: $*"
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
# Until process $1 has its handlers: SIGTERM is bit 14 of those it catches. Not
# the shell that it is at first.
listens() {
    local catches i
    for ((i = 0; i < 1200; i++)); do
        catches=$(sed -n 's/^SigCgt:[[:space:]]*/0x/p' "/proc/$1/status")
        [ "$(cat "/proc/$1/comm")" = headrace ] &&
            [ $((catches >> 14 & 1)) = 1 ] && return
        sleep 0.05
    done
    return 1
}
# The processes that process $1 has started, where the kernel lists them.
children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }
# until_any COMMAND...: waits for it to print something, at most a minute
until_any() {
    local i
    for ((i = 0; i < 1200; i++)); do
        [ -z "$("$@" 2>/dev/null)" ] || return 0
        sleep 0.05
    done
    return 1
}
# The last line of a test: what was counted; false if something failed.
summary() {
    local text="$passed passed, $failed failed"
    [ "$not_run" = 0 ] || text="$text, $not_run not run"
    echo "$text"
    [ "$failed" = 0 ]
}
