#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that ./dev check adds to the rules, without a build.
#   lint.sh format [--write]   as clang-format and .clang-format have it, and
#                              comments of at most 80 columns
#   lint.sh analysis           cppcheck
#   lint.sh shell              shellcheck
. "$(dirname "$0")/lib.sh"
cd "$root" || exit

# clang-format 14 takes the star of `typedef const struct { } *hr_x;` for a
# multiplication.
formatted() { clang-format --style=file "$1" | sed -E 's/^\} \* (\w+);/} *\1;/'; }

format()  # [--write]
{
    local file bad=0 new
    local folders=(hal backends cpu_fallback examples loader python tools tests)
    needs_tool clang-format
    new=$(mktemp)
    while read -r file; do
        formatted "$file" >"$new"
        ! cmp -s "$file" "$new" || continue
        if [[ ${1-} == --write ]]; then
            cat "$new" >"$file"  # keeps its mode
            say "formatted $file"
        else
            diff -u --label "$file" --label formatted "$file" "$new" || bad=1
        fi
    done < <(find "${folders[@]}" -name '*.[ch]' -type f | sort)
    rm "$new"
    ((!bad)) || say "./dev format puts that right"
    # (clang-format leaves comments as they are.)
    ! grep -rnE --include='*.'{c,h,cl} '^.{81}' kernels "${folders[@]}" |
        grep -E '^[^:]+:[0-9]+:[^"]*//' || bad=1
    return $bad
}

# The suppressed kinds were all false alarms: a function that does not return,
# an address that is only passed on, GNU C. Python.h is not looked into, so some
# of its macros are here.
analysis()
{
    local name macros=(-DPy_{BEGIN,END}_ALLOW_THREADS=)
    needs_tool cppcheck
    for name in None True False; do
        macros+=("-DPy_RETURN_${name^^}=return Py_$name")
    done
    cppcheck --std=c11 --quiet --error-exitcode=1 --inline-suppr -j "$jobs" \
        --enable=warning,portability --suppress=missingIncludeSystem \
        --suppress=nullPointerRedundantCheck --suppress=uninitvar \
        --suppress=invalidPointerCast \
        --suppress=arithOperationsOnVoidPointer \
        -I hal/include -I . -D__x86_64__ -D__GNUC__ "${macros[@]}" \
        hal backends cpu_fallback loader python/core tools
}

case $1 in
format) format "${2-}" ;;
analysis) analysis ;;
shell)
    needs_tool shellcheck
    # Variables of files that a path in a variable names are not followed.
    shellcheck -x -e SC2154 --severity=warning dev .ci/run \
        tests/{,engines/}*/*.sh tools/*.sh docs/site/*.sh
    ;;
esac
