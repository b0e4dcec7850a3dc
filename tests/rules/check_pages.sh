#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares the pages with the tree that they describe:
# - docs/environment.md and headrace-environment(7) name the variables that the
#   sources read, all of them and no others;
# - `headrace run --help` and headrace-run(1) name the ops that --ops reads;
# - links between pages lead to files and headings that are there, and a file
#   of the tree that they, ./dev or a comment name is there;
# - the list of headers in headrace.h is what it includes, in this order;
# - docs/architecture.md names the fuzz targets;
# - README.md stays short, and its ratios stand in docs/performance.md;
# - CHANGELOG.md begins with the version of version.h, which CITATION.cff and
#   the manual pages name, too.
#   check_pages.sh [ROOT]      check_pages.sh --self-test
set -euo pipefail
shopt -s nullglob
here=$(cd "$(dirname "$0")" && pwd)
readme_lines=150
name='[A-Z][A-Z0-9_]+'

bad=0 seen=0
complain() { echo "$1"; bad=1; }

# ---- Variables --------------------------------------------------------------

# A name that is a string of its own counts as read, too: it may be handed to a
# function that asks for it.
read_by_c()  # pattern-of-name pattern-of-strings folder...
{
    local getenv="(secure_)?getenv\\(\"$1\"" strings=\"$2\"
    shift 2
    grep -rhoE "$getenv|$strings" "$@" --include='*.[ch]' 2>/dev/null |
        grep -oE "\"$name" | tr -d '"'
}

read_by_shell()  # pattern file...
{
    local pattern=$1
    shift
    grep -hoE "\\$\\{?$pattern" "$@" /dev/null | grep -oE "$name"
}

read_by_library() { read_by_c "$name" 'HEADRACE_[A-Z_]+' hal backends \
                              cpu_fallback; }
read_by_command() { read_by_c "$name" 'HEADRACE_[A-Z_]+' tools; }

# Variables of development: others only with a default in ./dev and its steps,
# since tests set up whole environments for the programs they run.
read_by_development()
{
    local own='(HEADRACE|HR)_[A-Z0-9_]+' scripts=()
    mapfile -t scripts < <(find tests -name '*.sh' ! -name check_pages.sh)
    read_by_shell '(HEADRACE_[A-Z0-9_]+|[A-Z][A-Z0-9_]+:?-)' dev tools/*.sh \
                  tests/steps/*.sh
    read_by_shell 'HEADRACE_[A-Z0-9_]+' "${scripts[@]}"
    read_by_c "$own" 'no other strings' tests
    grep -rhoE "environ\\.get\\(\"$own" tests tools --include='*.py' |
        grep -oE "$own"
}

# First cells of tables below a heading, up to the next of its kind.
on_page()  # heading
{
    awk -v heading="## $1" '/^## / {on = $0 == heading} on' \
        docs/environment.md | sed -nE "s/^\\| \`($name)\` \\|.*/\\1/p"
}

# Tags of paragraphs: the line behind .TP.
in_manual()  # heading
{
    awk -v heading=".SH $1" '/^\.SH / {on = $0 == heading}
                             on && tag {print} {tag = $0 == ".TP"}' \
        tools/man/headrace-environment.7 | grep -oE "$name{3}" | grep -v '^BR'
}

compare()  # what lines-of-the-page lines-of-the-sources
{
    local variable
    seen=$((seen + $(sort -u <<<"$3" | wc -l)))
    while read -r variable; do
        complain "$1 does not name $variable, which is read"
    done < <(comm -13 <(sort -u <<<"$2") <(sort -u <<<"$3"))
    while read -r variable; do
        complain "$1 names $variable, which nothing reads"
    done < <(comm -23 <(sort -u <<<"$2") <(sort -u <<<"$3"))
}

check_environment()
{
    local library command development page=docs/environment.md
    library=$(read_by_library || true)
    command=$(read_by_command || true)
    development=$(read_by_development || true)
    compare "$page, Library," "$(on_page Library)" "$library"
    compare "$page, Command," "$(on_page Command)" "$command"
    compare "$page, Development," "$(on_page Development)" "$development"
    compare "headrace-environment(7), LIBRARY," "$(in_manual LIBRARY)" \
            "$library"
    compare "headrace-environment(7), COMMAND," "$(in_manual COMMAND)" \
            "$command"
    echo "$seen variables compared"
}

# A variable on any other page is one of these, or an option of the build; or
# NAME, which stands for a backend's.
check_mentions()
{
    local file variable known
    known=$(on_page Library; on_page Command; on_page Development
            echo HEADRACE_NAME
            grep -hoE 'HEADRACE_[A-Z0-9_]+' CMakeLists.txt cmake/* || true)
    while IFS=: read -r file variable; do
        grep -qxF "$variable" <<<"$known" ||
            complain "$file speaks of $variable, which does not exist"
    done < <(grep -oE '\bHEADRACE_[A-Z0-9_]*[A-Z0-9]\b' README.md \
                  CONTRIBUTING.md docs/*.md tools/man/* | sort -u)
}

# ---- Ops --------------------------------------------------------------------

check_ops()
{
    local op ops=0
    while read -r op; do
        ops=$((ops + 1))
        grep -qE "(^|[^a-z_])$op([^a-z_]|\$)" tools/man/headrace-run.1 ||
            complain "headrace-run(1) does not name the op $op"
    done < <(grep -rhoE --include='*.c' '\{\.name = "[a-z_]+"' hal/ops |
             grep -oE '[a-z_]{2,}"' | tr -d '"' | sort -u)
    echo "$ops ops looked up"
}

# ---- Links ------------------------------------------------------------------

# As forges make them of headings.
# shellcheck disable=SC2016
anchors_of()  # file
{
    sed -n '/^```/,/^```/d; s/^#\{1,6\} //p' "$1" |
        tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

check_link()  # file target
{
    local path=${2%%#*} anchor=
    [[ $2 != *'#'* ]] || anchor=${2#*#}
    if [[ $path ]]; then path=$(dirname "$1")/$path; else path=$1; fi
    links=$((links + 1))
    if [[ ! -e $path ]]; then
        complain "$1: there is no $2"
    elif [[ $anchor ]] && ! anchors_of "$path" | grep -qxF -- "$anchor"; then
        complain "$1: $path has no heading #$anchor"
    fi
}

check_links()
{
    local file target links=0
    while IFS=: read -r file target; do
        target=${target#*(}
        [[ $target == *://* ]] || check_link "${file#./}" "$target"
    done < <(find . -maxdepth 3 -name '*.md' -not -path './build*' \
                  -not -path './.git/*' -print0 |
             xargs -0r grep -HoE '\]\([^) ]+')
    echo "$links links followed"
}

# ---- Paths ------------------------------------------------------------------

# Words that begin with a folder of the tree and end as a file does. Pages name
# any file, comments and messages of the sources only name tests.
paths_in_pages()
{
    grep -sHnoE '[A-Za-z0-9_./$-]*/[A-Za-z0-9_.-]+\.[a-z]+\b' dev ./*.md \
         docs/*.md tests/{,*/}README.md tools/man/* ||
        true
    grep -rHnoE '[A-Za-z0-9_./-]*\btests/[A-Za-z0-9_/-]+\.(c|h|py|sh)\b' \
         hal backends cpu_fallback kernels examples tools tests \
         --include='*.[ch]' --include='*.cl' --include='*.py' \
         --include=CMakeLists.txt 2>/dev/null || true
}

check_paths()
{
    local file line path paths=0
    while IFS=: read -r file line path; do
        path=${path#'$root/'} path=${path#ROOT/}
        while [[ $path == ../* ]]; do path=${path#../}; done
        [[ $path == */* && $path != build/* && -d ${path%%/*} ]] || continue
        paths=$((paths + 1))
        [[ -e $path ]] || complain "$file:$line: there is no $path"
    done < <(paths_in_pages)
    echo "$paths paths looked up"
}

# ---- README -----------------------------------------------------------------

check_readme()
{
    local lines ratio ratios=0
    lines=$(wc -l <README.md)
    ((lines <= readme_lines)) ||
        complain "README.md has $lines lines, more than $readme_lines"
    while read -r ratio; do
        ratios=$((ratios + 1))
        grep -qE "(^|[^0-9.])${ratio/./\\.}([^0-9.]|\$)" docs/performance.md ||
            complain "README.md: $ratio is not in docs/performance.md"
    done < <(awk '/^## / {on = $0 == "## How fast"} on' README.md |
             grep -oE '[0-9]+\.[0-9]{2}\b')
    ((ratios)) || complain "README.md: no ratios below 'How fast'"
    echo "$ratios ratios looked up"
}

check_headers()
{
    local file=hal/include/headrace/headrace.h listed included
    [[ -e $file ]] || { complain "$file is not there"; return 0; }
    listed=$(sed -n '/^\/\/ Headers in their order/,/\.$/p' "$file" |
             tr -d '\n' | sed 's|.*before it:||; s|[/|,.]| |g' | xargs)
    included=$(sed -n 's|^#include <headrace/\(.*\)\.h>|\1|p' "$file" | xargs)
    [[ $listed == "$included" ]] ||
        complain "$file lists '$listed', includes '$included'"
}

check_fuzzers()
{
    local page=docs/architecture.md there named
    there=$(find tests/fuzz -name 'fuzz_*.c' ! -name fuzz_replay.c \
                 -printf '%f\n' | sed 's/\.c$//' | sort | xargs)
    named=$(grep -soE '`fuzz_[a-z_]+`' "$page" | tr -d '`' | sort | xargs ||
            true)
    [[ $there == "$named" ]] || complain "$page names '$named', not '$there'"
}

check_version()
{
    local file=hal/include/headrace/version.h version changes cited named
    version=$(sed -nE 's/^#define HR_VERSION_(MAJOR|MINOR|PATCH) //p' "$file" |
              paste -sd.)
    changes=$(sed -nE '0,/^## /s/^## ([0-9.]+).*/\1/p' CHANGELOG.md)
    [[ $changes == "$version" ]] ||
        complain "CHANGELOG.md begins with '$changes', not $version"
    cited=$(sed -n 's/^version: //p' CITATION.cff)
    [[ $cited == "$version" ]] ||
        complain "CITATION.cff cites '$cited', not $version"
    while IFS=: read -r file named; do
        [[ $named == *"\"headrace $version\""* ]] ||
            complain "$file is not of headrace $version"
    done < <(grep -H '^\.TH ' tools/man/*)
}

check_tree()
{
    cd "$1"
    check_headers
    check_fuzzers
    check_environment
    check_mentions
    check_ops
    check_links
    check_paths
    check_readme
    check_version
    return $bad
}

# ---- Self-test --------------------------------------------------------------

# A tree that passes, file by file.
# shellcheck disable=SC2016
make_tree()
{
    mkdir -p hal/ops backends cpu_fallback tools/man tests/fuzz docs cmake
    echo 'x = secure_getenv("HEADRACE_A"); getenv("HOME");' >hal/a.c
    echo 'load("HEADRACE_B_LIBRARY"); say("HEADRACE_B is %s");' >backends/b.c
    echo 'getenv("NO_COLOR")' >tools/c.c
    echo 'build=${HEADRACE_BUILD:-x} cc=${CC-cc} y=$PATH' >dev
    echo 'getenv("HEADRACE_T1")' >tests/test_d.c
    echo 'os.environ.get("HEADRACE_T2")' >tests/d.py
    echo '[[ ${HEADRACE_T3-} ]]' >tests/d.sh
    echo 'option(HEADRACE_PNG "" ON)' >CMakeLists.txt
    printf '%s\n' '## Library' '| `HEADRACE_A` | |' '| `HOME` | |' \
           '| `HEADRACE_B_LIBRARY` | |' '## Command' '| `NO_COLOR` | |' \
           '## Development' '| `HEADRACE_BUILD` | |' '| `CC` | |' \
           '| `HEADRACE_T1` | |' '| `HEADRACE_T2` | |' '| `HEADRACE_T3` | |' \
           >docs/environment.md
    printf '%s\n' '.SH LIBRARY' '.TP' '.B HEADRACE_A' 'It.' '.TP' '.B HOME' \
           '.TP' '.BR HEADRACE_B_LIBRARY ", " HOME' '.SH COMMAND' '.TP' \
           '.B NO_COLOR' '.SH NOTES' >tools/man/headrace-environment.7
    echo '{.name = "crop"}, {.name = "hflip"},' >hal/ops/ops.c
    printf '.BI crop= N\nhflip\n' >tools/man/headrace-run.1
    echo '| 1.05 (0.74-1.07) |' >docs/performance.md
    printf '%s\n' '# Words and `more`' '[a](docs/environment.md#command)' \
           '[b](#words-and-more) HEADRACE_PNG' '## How fast' '1.05 ==' \
           >README.md
    mkdir -p hal/include/headrace
    printf '%s\n' '// Headers in their order, each needs only those before it:' \
           '// op |' '// job.' '#include <headrace/op.h>' \
           '#include <headrace/job.h>' >hal/include/headrace/headrace.h
    printf '#define HR_VERSION_%s\n' 'MAJOR 1' 'MINOR 2' 'PATCH 0' \
           >hal/include/headrace/version.h
    printf '%s\n' '# Changes' '## 1.2.0' '## 1.1.0' >CHANGELOG.md
    echo 'version: 1.2.0' >CITATION.cff
    echo '.TH A 1 "" "headrace 1.2.0"' >tools/man/headrace.1
    touch CONTRIBUTING.md cmake/x
}

self_test()
{
    local tmp file text n=0
    tmp=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$tmp'" EXIT
    while IFS='|' read -r file text; do
        rm -rf "$tmp/tree"
        mkdir "$tmp/tree"
        cd "$tmp/tree"
        make_tree
        [[ $file ]] || { "$here/check_pages.sh" . >../log && continue
                         echo "self-test: the clean tree does not pass"
                         cat ../log
                         exit 1; }
        n=$((n + 1))
        if [[ $text == -* ]]; then
            sed -i "/${text#-}/d" "$file"
        else
            echo "$text" >>"$file"
        fi
        if "$here/check_pages.sh" . >../log; then
            echo "self-test: not found in $file: $text"
            exit 1
        fi
    done <<'END'
|
hal/x.c|getenv("HEADRACE_NEW")
backends/x.c|load("HEADRACE_NEW_LIBRARY")
tools/x.c|getenv("LINES")
tests/x.c|getenv("HEADRACE_NEW")
tests/x.py|os.environ.get("HEADRACE_NEW")
tests/x.sh|echo $HEADRACE_NEW
dev|echo ${HEADRACE_NEW}
dev|echo ${LINES:-80}
hal/a.c|-HEADRACE_A
tools/c.c|-NO_COLOR
docs/environment.md|| `HEADRACE_NEW` | |
docs/environment.md|-HOME
tools/man/headrace-environment.7|-HEADRACE_A
tools/man/headrace-environment.7|-NO_COLOR
tools/man/headrace.1|.B HEADRACE_OLD
hal/ops/ops.c|{.name = "fit"},
tools/man/headrace-run.1|-hflip
docs/engines.md|set HEADRACE_OLD
README.md|[c](docs/gone.md)
README.md|[c](docs/environment.md#gone)
CONTRIBUTING.md|[c](#gone)
CONTRIBUTING.md|`tests/core/gone.py`
README.md|(tests/gone.c)
docs/engines.md|see hal/gone.c.
dev|bash "$root/tests/gone.sh" "$build"
tools/man/headrace.1|.B tests/gone.py
hal/a.c|// tests/gone.c compares.
hal/include/headrace/headrace.h|#include <headrace/new.h>
hal/include/headrace/headrace.h|-include <headrace.job.h>
tests/fuzz/fuzz_new.c|int x;
docs/architecture.md|`fuzz_old`
README.md|about 1.06
README.md|-1.05
CHANGELOG.md|-1.2.0
CITATION.cff|-version
tools/man/headrace.1|.TH B 1 "" "headrace 1.1.0"
END
    cd "$tmp/tree"
    make_tree
    printf '%*s' $((readme_lines - 4)) '' | tr ' ' '\n' >>README.md
    ! "$here/check_pages.sh" . >../log ||
        { echo "self-test: a long README.md is not found"; exit 1; }
    echo "self-test: $((n + 1)) faults found"
}

if [[ ${1-} == --self-test ]]; then
    self_test
else
    check_tree "${1:-$here/../..}"
fi
