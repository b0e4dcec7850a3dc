#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Circles between the objects of the library, and of the command, by what the
# linker sees: who uses a symbol stands above who has it. The table of backends
# names the engines, which stand above it; that arrow does not count.
#
# check_circles.sh BUILD [MOST]: prints a line per loop that tsort finds and
# fails if there are more than MOST (0). check_circles.sh --self-test
set -euo pipefail

loops()  # folder of objects
{
    (cd "$1" && find . -name '*.o' -printf '%P\n' | xargs nm -A -P) | awk '
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
        }' | sort -u | tsort 2>&1 >/dev/null | grep 'contains a loop' || true
}

self_test()
{
    local dir
    dir=$(mktemp -d)
    trap "rm -rf '$dir'" EXIT
    echo 'int b(void); int a(void) { return b(); }' >"$dir/a.c"
    echo 'int c(void) { return 0; } int b(void) { return c(); }' >"$dir/b.c"
    (cd "$dir" && "${CC:-cc}" -c -o a.c.o a.c && "${CC:-cc}" -c -o b.c.o b.c)
    [[ -z $(loops "$dir") ]] || { echo "a circle where there is none"; exit 1; }
    echo 'int a(void); int c(void) { return a(); } int b(void) { return c(); }' \
        >"$dir/b.c"
    (cd "$dir" && "${CC:-cc}" -c -o b.c.o b.c)
    [[ -n $(loops "$dir") ]] || { echo "a circle is not seen"; exit 1; }
    echo "self-test passed"
}

[[ ${1-} != --self-test ]] || { self_test; exit; }

bad=0
for name in headrace_objects headrace; do
    dir=$1/CMakeFiles/$name.dir
    [[ -d $dir ]] || continue
    found=$(loops "$dir" | wc -l)
    echo "$name: $found loops"
    bad=$((bad + found))
done
((bad <= ${2:-0}))
