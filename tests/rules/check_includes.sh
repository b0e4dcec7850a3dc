#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who may include whom. An include is resolved as the compiler would (own
# folder, hal/include, hal, root); what is not found is a system header.
#   check_includes.sh [ROOT]      check_includes.sh --self-test
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Patterns of files that a folder's files may include, of those among them that
# they may not, and of the libraries (system headers with a vendor) it may use.
# "-": none.
rules_of()
{
    not='-'
    case $1 in
    hal/include/headrace/*) may='hal/include/headrace/*' libs='-' ;;
    hal/guard/*)            may='hal/include/headrace/* hal/backend.h
                                 hal/service.h hal/picture.h hal/guard/*'
                            libs='-' ;;
    hal/*)                  may='hal/*' not='hal/guard/*' libs='Random123/*' ;;
    backends/cpu/*)         may='hal/include/headrace/* hal/backend.h
                                 backends/cpu/* cpu_fallback/*' libs='-' ;;
    backends/opencl/*)      may='hal/include/headrace/* hal/backend.h
                                 hal/guard/guard.h backends/opencl/* kernels/*'
                            libs='CL/* xxhash.h' ;;
    backends/vaapi/*)       may='hal/include/headrace/* hal/backend.h
                                 hal/guard/guard.h backends/vaapi/*' libs='va/*' ;;
    backends/*/*)           may="hal/include/headrace/* hal/backend.h
                                 hal/guard/guard.h $(dirname "$1")/*" libs='*' ;;
    examples/engine_*)      may='hal/include/headrace/* hal/backend.h
                                 hal/guard/guard.h' libs='-' ;;
    examples/*)             may='hal/include/headrace/*' libs='-' ;;
    cpu_fallback/*)         may='cpu_fallback/*'
                            libs='jpeglib.h jerror.h png.h' ;;
    kernels/*.cl)           may='kernels/layout.h kernels/*.cl' libs='-' ;;
    kernels/*)              may='hal/include/headrace/* hal/backend.h
                                 kernels/*' libs='-' ;;
    loader/*)               may='hal/include/headrace/* loader/*'
                            libs='archive.h archive_entry.h Random123/*' ;;
    tools/*)                may='hal/include/headrace/* tools/*'
                            libs='jpeglib.h jerror.h png.h popt.h jansson.h' ;;
    *)                      may='*' libs='*' ;;
    esac
}

vendor='CL/* va/* jpeglib.h jerror.h jmorecfg.h turbojpeg.h png.h zlib.h
        popt.h jansson.h archive.h archive_entry.h Random123/* xxhash.h
        CUnit/*'

matches()  # path pattern...
{
    local path=$1 pattern
    shift
    for pattern; do
        # shellcheck disable=SC2053
        [[ $path == $pattern ]] && return 0
    done
    return 1
}

resolve()  # file name quoted? -> path inside the root, or fails
{
    local dirs=(hal/include hal .) dir path
    [[ $3 == '"' ]] && dirs=("$(dirname "$1")" "${dirs[@]}")
    for dir in "${dirs[@]}"; do
        if [[ -e $dir/$2 ]]; then
            path=$(realpath --relative-to=. "$dir/$2")
            echo "$path"
            return 0
        fi
    done
    return 1
}

bad=0 seen=0
complain() { echo "$1"; bad=1; }

check_include()  # file line name quote
{
    local may not libs target
    seen=$((seen + 1))
    rules_of "$1"
    set -f
    # shellcheck disable=SC2086
    if target=$(resolve "$1" "$3" "$4"); then
        { matches "$target" $may && ! matches "$target" $not; } ||
            complain "$1:$2: $(dirname "$1") may not include $target"
    elif [[ $4 == '"' ]]; then
        complain "$1:$2: \"$3\" is not in the tree"
    elif matches "$3" $vendor && ! matches "$3" $libs; then
        complain "$1:$2: $(dirname "$1") may not use <$3>"
    fi
    set +f
}

check_tree()
{
    cd "$1"
    local file line text
    local include='^[[:space:]]*#[[:space:]]*include[[:space:]]*(["<])([^">]+)'
    while IFS=: read -r file line text; do
        [[ $text =~ $include ]] || continue
        file=${file#./}
        check_include "$file" "$line" "${BASH_REMATCH[2]}" "${BASH_REMATCH[1]}"
    done < <(find ./hal ./backends ./kernels ./cpu_fallback ./loader ./tools \
                  ./examples -name '*.[chl]*' -type f -print0 2>/dev/null |
             xargs -0r grep -HnE '^[[:space:]]*#[[:space:]]*include')
    # Engines are known by name in one table only.
    while IFS=: read -r file line text; do
        complain "${file#./}:$line: only hal/registry.c names backends"
    done < <(grep -rnE '\bextern\b.*\bstruct hr_*backend\b' ./hal ./loader \
                  ./tools ./cpu_fallback --include='*.[ch]' 2>/dev/null |
             grep -v '^./hal/registry\.c:')
    echo "$seen include lines checked"
    return $bad
}

# A tree with one clean and one forbidden line of each kind.
self_test()
{
    local tmp file text n=0
    tmp=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$tmp'" EXIT
    cd "$tmp"
    mkdir -p hal/include/headrace hal/guard examples backends/{cpu,opencl,vaapi} cpu_fallback \
             kernels loader tools tests
    touch hal/include/headrace/job.h hal/{backend,plan,guard/guard}.h loader/loader.h \
          backends/{cpu/cpu,opencl/opencl,vaapi/vaapi}.h \
          cpu_fallback/cpu_ops.h kernels/layout.h tools/tool.h
    while read -r file text; do
        echo "$text" >>"$file"
    done <<'END'
hal/job.c #include "plan.h"
hal/guard/queue.c #include "hal/guard/guard.h"
hal/guard/queue.c #include "hal/backend.h"
backends/opencl/guard.c #include "hal/guard/guard.h"
examples/engine_small.c #include "hal/guard/guard.h"
examples/train.c #include <headrace/job.h>
hal/random.c #include <Random123/philox.h>
hal/job.c #include <stdio.h>
hal/registry.c extern const struct hr__backend hr__backend_cpu;
backends/cpu/job.c #include "cpu_fallback/cpu_ops.h"
backends/opencl/job.c #include "backend.h"
backends/opencl/job.c #include <CL/cl.h>
backends/opencl/job.c #include <xxhash.h>
backends/opencl/job.c #include "kernels/layout.h"
kernels/plan.h #include "hal/backend.h"
kernels/plan.h #include "kernels/layout.h"
cpu_fallback/jpeg.c #include <jpeglib.h>
loader/loader.c #include <headrace/job.h>
tools/run.c #include <popt.h>
tests/test_plan.c #include "hal/plan.h"
END
    "$here/check_includes.sh" "$tmp" >log ||
        { echo "self-test: the clean tree does not pass"; cat log; exit 1; }
    while read -r file text; do
        n=$((n + 1))
        echo "$text" >"$file"
        if "$here/check_includes.sh" "$tmp" >log; then
            echo "self-test: not found in $file: $text"
            exit 1
        fi
        rm "$file"
    done <<'END'
tools/bad.c #include "hal/plan.h"
tools/bad.c #include "backend.h"
tools/bad.c #include <CL/cl.h>
tools/bad.c   #  include "../hal/backend.h"
tools/bad.c #include <Random123/philox.h>
hal/include/headrace/bad.h #include <Random123/philox.h>
loader/bad.c #include "hal/backend.h"
loader/bad.c #include "cpu_fallback/cpu_ops.h"
hal/bad.c #include "cpu_fallback/cpu_ops.h"
hal/bad.c #include "../backends/cpu/cpu.h"
hal/bad.c #include <jpeglib.h>
hal/bad.c #include "guard/guard.h"
hal/guard/bad.c #include "hal/plan.h"
hal/guard/bad.c #include "backends/opencl/opencl.h"
examples/bad.c #include "hal/backend.h"
examples/engine_bad.c #include "hal/plan.h"
hal/bad.c #include "not_there.h"
hal/bad.c extern const struct hr__backend hr__backend_cpu;
hal/include/headrace/bad.h #include "plan.h"
backends/opencl/bad.c #include "../vaapi/vaapi.h"
backends/opencl/bad.c #include "plan.h"
backends/opencl/bad.c #include "cpu_fallback/cpu_ops.h"
backends/opencl/bad.c #include <va/va.h>
backends/cpu/bad.c #include "kernels/layout.h"
backends/vaapi/bad.c #include <xxhash.h>
kernels/bad.h #include "hal/plan.h"
kernels/bad.h #include "backends/opencl/opencl.h"
kernels/bad.cl #include "hal/backend.h"
kernels/bad.h #include <CL/cl.h>
hal/bad.c #include "kernels/layout.h"
hal/bad.c #include <xxhash.h>
backends/cpu/bad.c #include "hal/plan.h"
cpu_fallback/bad.c #include <headrace/job.h>
cpu_fallback/bad.c #include "../hal/plan.h"
cpu_fallback/bad.c #include <popt.h>
END
    echo "self-test: $n forbidden lines found"
}

if [[ ${1-} == --self-test ]]; then
    self_test
else
    check_tree "${1:-$here/../..}"
fi
