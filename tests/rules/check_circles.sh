#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Circles between objects, by what the linker sees: who uses a symbol stands
# above who has it. The table of backends names the engines, which stand above
# it; that arrow does not count.
#
# check_circles.sh BUILD: prints the loops that tsort finds, room by room, and
# fails if a room has more than it may have. Those numbers only ever fall.
# check_circles.sh --self-test
set -euo pipefail

# room, its objects by name, most loops
rooms=('core ^hal/ 0'
       'guard ^hal/guard/ 0'
       'cpu ^(backends/cpu|cpu_fallback)/ 0'
       'opencl ^backends/opencl/ 0'
       'vaapi ^backends/vaapi/ 0'
       'loader ^loader/ 0'
       'tools ^tools/ 0'
       'all . 0')

# An old build folder has objects whose source is gone: those do not count.
objects()  # folder of objects, folder of sources...
{
    local o dir
    (cd "$1" && find . -name '*.o' -printf '%P\n') | while read -r o; do
        for dir in "${@:2}"; do
            [[ ! -e $dir/${o%.o} ]] || echo "$o"
        done
    done
}

arrows()  # folders of sources, then of objects, separated by --
{
    local sources=()
    while [[ $1 != -- ]]; do
        sources+=("$(realpath "$1")")
        shift
    done
    shift
    local dir
    for dir; do
        objects "$dir" "${sources[@]}" | (cd "$dir" && xargs nm -A -P)
    done | awk '
        { sub(/\.o:$/, "", $1) }
        $3 ~ /^[TDBR]$/ { home[$2] = $1; next }
        $3 == "U" { user[++n] = $1; name[n] = $2 }
        END {
            for (i = 1; i <= n; i++) {
                to = home[name[i]]
                if (to && to != user[i] &&
                    !(user[i] ~ /(^|\/)registry\.c$/ && to ~ /^backends\//))
                    print user[i], to
            }
        }' | sort -u
}

loops()  # pattern; arrows on stdin
{
    awk -v room="$1" '$1 ~ room && $2 ~ room' | tsort 2>&1 >/dev/null |
        grep -c 'contains a loop' || true
}

self_test()
{
    local dir
    dir=$(mktemp -d)
    cd "$dir"
    echo 'int b(void); int a(void) { return b(); }' >a.c
    echo 'int c(void) { return 0; } int b(void) { return c(); }' >b.c
    "${CC:-cc}" -c -o a.c.o a.c
    "${CC:-cc}" -c -o b.c.o b.c
    [[ $(arrows . -- . | loops .) == 0 ]] || { echo "a circle of nothing"; exit 1; }
    echo 'int a(void); int c(void) { return a(); } int b(void) { return c(); }' \
        >b.c
    "${CC:-cc}" -c -o b.c.o b.c
    [[ $(arrows . -- . | loops .) == 1 ]] || { echo "a circle is not seen"; exit 1; }
    [[ $(arrows . -- . | loops '^a') == 0 ]] || { echo "not in that room"; exit 1; }
    rm b.c
    [[ $(arrows . -- . | loops .) == 0 ]] || { echo "a stale object"; exit 1; }
    rm -rf "$dir"
    echo "self-test passed"
}

[[ ${1-} != --self-test ]] || { self_test; exit; }

(($# == 1)) || { echo "usage: $0 BUILD | --self-test"; exit 2; }
bad=0 dirs=()
for name in headrace_objects headrace_tool_objects; do
    [[ ! -d $1/CMakeFiles/$name.dir ]] || dirs+=("$1/CMakeFiles/$name.dir")
done
((${#dirs[@]})) || { echo "$1 holds no objects of the library"; exit 2; }
found=$(arrows "$(dirname "$0")/../.." "$1" -- "${dirs[@]}")
for room in "${rooms[@]}"; do
    read -r name pattern most <<<"$room"
    n=$(loops "$pattern" <<<"$found")
    echo "$name: $n loops, at most $most"
    ((n <= most)) || bad=1
done
exit $bad
