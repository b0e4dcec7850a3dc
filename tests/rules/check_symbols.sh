#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The library exports exactly what the public headers declare with HR_API, and
# reads the environment by secure_getenv() only.
# The Python module exports what the interpreter looks for, nothing else, and
# does not read the environment: the library does.
# Each export is used by a program of ours: the command, the Python module, an
# example.
#   check_symbols.sh LIBRARY [HEADER_DIR]      check_symbols.sh --self-test
#   check_symbols.sh --python MODULE
#   check_symbols.sh --used LIBRARY EXAMPLE_DIR BINARY...
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Names between HR_API and the parenthesis of the parameter list.
declared()
{
    cat "$1"/*.h | sed 's|//.*||; /^[[:space:]]*#/d' | tr '\n' ' ' |
        grep -oE '\bHR_API\b[^;(]*\(' |
        sed -E 's/.*[^A-Za-z0-9_]([A-Za-z0-9_]+)[[:space:]]*\($/\1/' | sort -u
}

exported()
{
    nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' |
        sed 's/@.*//' | sort -u
}

# Sanitizers export helpers of their own from every shared object.
ours()
{
    grep -vE '^(__(asan|odr_asan|ubsan|tsan|sanitizer|sancov|start|stop)_?|_init$|_fini$)' || true
}

check()
{
    local want have bad=0 name
    want=$(declared "$2")
    have=$(exported "$1" | ours)
    [[ -n $want ]] || { echo "no HR_API declaration in $2"; return 1; }
    while read -r name; do
        echo "declared in a header but not exported: $name"; bad=1
    done < <(comm -23 <(echo "$want") <(echo "$have") | sed '/^$/d')
    while read -r name; do
        echo "exported but in no public header: $name"; bad=1
    done < <(comm -13 <(echo "$want") <(echo "$have") | sed '/^$/d')
    while read -r name; do
        echo "not named hr_[a-z]...: $name"; bad=1
    done < <(echo "$have" | grep -vE '^hr_[a-z][a-z0-9_]*$' | sed '/^$/d')
    # A privileged program must not be told by its user what to load.
    if [[ -n $(nm -D --undefined-only "$1" | grep -w getenv) ]]; then
        echo "uses getenv(), not secure_getenv()"; bad=1
    fi
    ((bad)) || echo "$(wc -l <<<"$have") symbols, as declared"
    return $bad
}

check_module()
{
    local name bad=0
    while read -r name; do
        [[ $name == PyInit__core ]] ||
            { echo "exported from the module: $name"; bad=1; }
    done < <(exported "$1" | ours)
    [[ $(exported "$1") == *PyInit__core* ]] ||
        { echo "PyInit__core is not exported"; bad=1; }
    if [[ -n $(nm -D --undefined-only "$1" | grep -w getenv) ]]; then
        echo "uses getenv()"; bad=1
    fi
    return $bad
}

check_used()
{
    local library=$1 examples=$2 name bad=0
    shift 2
    while read -r name; do
        echo "exported, but no program uses it: $name"; bad=1
    done < <(comm -23 <(exported "$library" | ours) \
                 <({ for name in "$@"; do nm -D --undefined-only "$name"; done |
                         awk '{ sub("@.*", "", $NF); print $NF }'
                     cat "$examples"/*.c | grep -ow 'hr_[a-z0-9_]*'
                   } | sort -u) | sed '/^$/d')
    return $bad
}

self_test()
{
    local tmp cc=${CC:-cc}
    tmp=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$tmp'" EXIT
    mkdir "$tmp/h"
    printf '#define HR_API\nHR_API const char *hr_one(int\n  a);\n' >"$tmp/h/a.h"
    printf 'HR_API int\n    hr_two(void);\n' >>"$tmp/h/a.h"
    try()
    {
        echo "$2" | $cc -shared -fPIC -x c - -o "$tmp/lib.so"
        if "${@:3}" "$tmp/lib.so" "$tmp/h" >"$tmp/log"; then got=0; else got=1; fi
        [[ $got == "$1" ]] && return
        echo "self-test: expected $1, got $got for: $2"; cat "$tmp/log"
        exit 1
    }
    try 0 'void hr_one(void){} void hr_two(void){}' check
    try 1 'void hr_one(void){}' check
    try 1 'void hr_one(void){} void hr_two(void){} void hr_three(void){}' check
    try 1 'void hr_one(void){} void hr_two(void){} void hr__two(void){}' check
    try 1 'void hr_one(void){} void hr_two(void){} int helper;' check
    try 1 'void hr_one(void){} char *getenv(const char *);
           void hr_two(void){getenv("x");}' check
    try 0 'void PyInit__core(void){}' check_module
    try 1 'void PyInit__core(void){} void hr_one(void){}' check_module
    try 1 'void PyInit__cor(void){}' check_module
    try 1 'char *getenv(const char *);
           void PyInit__core(void){getenv("x");}' check_module
    used() { check_used "$1" "$tmp/h" "$tmp/user.so"; }
    echo 'void hr_one(void); void f(void){hr_one();}' |
        $cc -shared -fPIC -x c - -o "$tmp/user.so"
    echo 'int main(void) { hr_two(); }' >"$tmp/h/example.c"
    try 0 'void hr_one(void){} void hr_two(void){}' used
    try 1 'void hr_one(void){} void hr_two(void){} void hr_three(void){}' used
    echo "self-test: 12 cases as expected"
}

if [[ ${1-} == --self-test ]]; then
    self_test
elif [[ ${1-} == --used ]]; then
    check_used "${@:2}"
elif [[ ${1-} == --python ]]; then
    check_module "$2"
else
    check "${1:?library}" "${2:-$here/../../hal/include/headrace}"
fi
