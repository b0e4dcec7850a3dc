#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The includes that each folder may have. An include is resolved as the compiler
# would (own folder, hal/include, root); any other is a system header. And no
# header of the core, or of Python's, has more prototypes than a reader keeps in
# mind.
#   check_includes.sh [ROOT]      check_includes.sh --self-test
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Patterns of files that a folder's files may include, and of the libraries
# (system headers with a vendor) that they may use.
# "-": none.
rules_of()
{
    local public='hal/include/headrace/*' engine='hal/engine/*.h'
    local base='hal/base/*' facts='hal/facts/facts.h'
    local shape='hal/shape/*' ops='hal/ops/ops.h'
    local trace='hal/trace/*' device='hal/device/*'
    local job='hal/job/job.h hal/cache/cache.h'
    local common='tools/common/*' loader="$public hal/engine/base.h"
    local cpu='cpu_fallback/+([!/]).h hal/engine/plain.h hal/engine/jpeg.h
               hal/engine/raster.h hal/engine/augment.h cpu_fallback/augment/augment.h'
    local of_tools='jpeglib.h jerror.h png.h popt.h jansson.h'
    libs='-'
    case $1 in
    hal/include/headrace/*) may=$public ;;
    # The rooms of the core, from the lowest; each has one header for others.
    hal/engine/*) may="$public $engine" ;;
    hal/base/*)   may="$public hal/engine/base.h $base" libs='hwloc.h' ;;
    hal/facts/*)  may="$public $engine $base hal/facts/*" ;;
    hal/ops/*)    may="$public $engine $base $facts hal/ops/*" libs='Random123/*' ;;
    hal/shape/*)  may="$public $engine $base $facts $ops $shape" ;;
    hal/trace/*)  may="$public $engine $base $trace" ;;
    hal/cache/*)  may="$public $engine $base hal/cache/*" libs='xxhash.h' ;;
    hal/device/*) may="$public $engine $base $facts $ops $shape $trace $device" ;;
    hal/job/*)    may="$public $engine $base $facts $ops $shape $trace $device
                       hal/cache/cache.h hal/job/*" ;;
    hal/trust/*)  may="$public $engine $base $facts $ops $shape $trace $device $job
                       hal/trust/*" ;;
    hal/entry/*)  may="$public $engine $base $facts $ops $shape $trace $device $job
                       hal/trust/trust.h hal/entry/*" ;;
    # Beside them, written as an engine is.
    hal/guard/*)  may="$public $engine hal/guard/*" ;;
    hal/*)        may=$public ;;
    backends/cpu/*)    may="$public $engine backends/cpu/* cpu_fallback/*" ;;
    backends/opencl/*) may="$public $engine backends/opencl/* kernels/*"
                       libs='CL/* xxhash.h' ;;
    backends/vaapi/*)  may="$public $engine backends/vaapi/*" libs='va/*' ;;
    backends/*/*)      may="$public $engine ${1%/*}/*" libs='*' ;;
    examples/engine_*) may="$public $engine" ;;
    examples/*)        may=$public ;;
    # Below its folders stand the files beside them; cpu_ops.c lists the
    # kernels.
    cpu_fallback/augment/*) may="$cpu cpu_fallback/augment/*" ;;
    cpu_fallback/pixel/*)  may="$cpu cpu_fallback/pixel/*" ;;
    cpu_fallback/packed/*) may="$cpu cpu_fallback/packed/*" ;;
    cpu_fallback/jpeg/*)   may="$cpu cpu_fallback/packed/packed.h
                                cpu_fallback/pixel/planes.h cpu_fallback/jpeg/*"
                           libs='jpeglib.h jerror.h' ;;
    cpu_fallback/x86/*)    may="$cpu cpu_fallback/jpeg/lanes.h
                                cpu_fallback/augment/*
                                cpu_fallback/packed/line.h
                                cpu_fallback/pixel/reconstruct.h
                                cpu_fallback/pixel/resample_pack.h
                                cpu_fallback/pixel/store_rows.h
                                cpu_fallback/x86/*" ;;
    cpu_fallback/arm/*)    may="$cpu cpu_fallback/packed/line.h
                                cpu_fallback/augment/*
                                cpu_fallback/pixel/reconstruct.h
                                cpu_fallback/pixel/resample_pack.h
                                cpu_fallback/pixel/store_rows.h
                                cpu_fallback/arm/*" ;;
    cpu_fallback/cpu_ops.c) may="$cpu cpu_fallback/jpeg/lanes.h
                                cpu_fallback/augment/*" ;;
    cpu_fallback/*)        may=$cpu libs='png.h webp/*' ;;
    kernels/*.cl)      may='kernels/layout.h kernels/*.cl' ;;
    kernels/*)         may="$public $engine kernels/*" ;;
    python/core/command.c)
                       may='python/core/core.h tools/command.h' libs='Python.h' ;;
    python/core/*)     may="$public python/core/*" libs='Python.h structmember.h' ;;
    python/*)          may='-' ;;
    # A part of the library: its errors and its heap are the library's.
    loader/pack/*)     may="$loader loader/pack/*" libs='xxhash.h' ;;
    loader/http/*)     may="$loader loader/http/*" libs='curl/* Random123/* xxhash.h' ;;
    loader/source/*)   may="$loader loader/pack/format.h loader/pack/writer.h
                            loader/http/http.h loader/source/*"
                       libs='archive.h archive_entry.h xxhash.h' ;;
    loader/queue/*)    may="$loader loader/source/source.h loader/queue/*"
                       libs='Random123/* xxhash.h' ;;
    loader/*)          may='-' ;;
    tools/main.c)      may='tools/command.h' ;;
    tools/command.?)   may="$public $common tools/command.h tools/run/run.h
                            tools/devices/devices.h tools/validate/validate.h
                            tools/profile/profile.h tools/samples/samples.h
                            tools/pack/pack.h"
                       libs=$of_tools ;;
    tools/common/*)    may="$public $common" libs=$of_tools ;;
    # profile measures the pipeline of run.
    tools/profile/*)   may="$public $common tools/report/report.h
                            tools/run/run.h tools/profile/*" libs=$of_tools ;;
    tools/run/*|tools/devices/*|tools/validate/*|tools/samples/*|tools/pack/*)
                       may="$public $common tools/report/report.h
                            ${1%/*}/*" libs=$of_tools ;;
    tools/report/*)    may="$public $common tools/report/*" libs=$of_tools ;;
    tools/*)           may='-' ;;
    *)                 may='*' libs='*' ;;
    esac
}

vendor='CL/* va/* jpeglib.h jerror.h jmorecfg.h turbojpeg.h png.h webp/* zlib.h
        popt.h jansson.h archive.h archive_entry.h curl/* Random123/* xxhash.h
        CUnit/* Python.h structmember.h'

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

resolve()  # file name quoted?: target is the path inside the root, or fails
{
    local dirs=(hal/include .) dir
    [[ $3 == '"' ]] && dirs=("${1%/*}" "${dirs[@]}")
    for dir in "${dirs[@]}"; do
        [[ -e $dir/$2 ]] || continue
        target=$dir/$2
        target=${target#./}
        # (A process for each line would take most of the time.)
        [[ $target != *..* ]] ||
            target=$(realpath --relative-to=. "$target")
        return 0
    done
    return 1
}

bad=0 seen=0
complain() { echo "$1"; bad=1; }

check_include()  # file line name quote
{
    local may libs target
    seen=$((seen + 1))
    rules_of "$1"
    set -f
    # shellcheck disable=SC2086
    if resolve "$1" "$3" "$4"; then
        matches "$target" $may ||
            complain "$1:$2: ${1%/*} may not include $target"
    elif [[ $4 == '"' ]]; then
        complain "$1:$2: \"$3\" is not in the tree"
    elif matches "$3" $vendor && ! matches "$3" $libs; then
        complain "$1:$2: ${1%/*} may not use <$3>"
    fi
    set +f
}

most_prototypes=40

prototypes()  # -> header, how many
{
    find hal python/core -name '*.h' ! -path 'hal/include/*' -exec \
        awk 'FNR == 1 && file { print file, n; n = 0 }
             { file = FILENAME }
             /^[A-Za-z].*\(/ { is = 1 }
             /^{/ { is = 0 }
             is && /;/ { n++; is = 0 }
             END { if (file) print file, n }' {} +
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
    done < <(find ./hal ./backends ./kernels ./cpu_fallback ./loader ./python \
                  ./tools ./examples -name '*.[chl]*' -type f -print0 2>/dev/null |
             xargs -0r grep -HnE '^[[:space:]]*#[[:space:]]*include')
    # Engines are known by name in one table only.
    while IFS=: read -r file line text; do
        complain "${file#./}:$line: only hal/device/registry.c names backends"
    done < <(grep -rnE '\bextern\b.*\bstruct hr_*backend\b' ./hal ./loader \
                  ./tools ./cpu_fallback --include='*.[ch]' 2>/dev/null |
             grep -v '^./hal/device/registry\.c:')
    while read -r file text; do
        ((text <= most_prototypes)) ||
            complain "$file: $text prototypes, at most $most_prototypes"
    done < <(prototypes)
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
    mkdir -p hal/include/headrace \
          hal/{engine,base,facts,ops,shape,trace,device,job,trust,entry,guard} \
          examples backends/{cpu,opencl,vaapi} cpu_fallback/{augment,jpeg,packed,pixel,x86} \
          kernels loader/{http,pack,queue,source} \
          python/core \
          tools/{common,run,devices,validate,profile,samples,pack,report} tests
    touch hal/include/headrace/job.h hal/engine/{base,engine,guard}.h \
          hal/{base/base,facts/{facts,parts},ops/{ops,op_def},shape/shape,trace/trace}.h \
          hal/{device/device,job/{job,work},trust/trust,entry/entry}.h \
          hal/guard/lanes.h loader/queue/loader.h loader/source/source.h \
          loader/pack/format.h cpu_fallback/{cpu_ops,jpeg/lanes,x86/wide}.h \
          backends/{cpu/cpu,opencl/opencl,vaapi/vaapi}.h kernels/layout.h \
          tools/{common/tools,run/run,run/npy,devices/devices}.h \
          tools/{validate/validate,profile/profile,samples/samples}.h \
          tools/report/report.h python/core/core.h
    while read -r file text; do
        echo "$text" >>"$file"
    done <<'END'
hal/engine/task.h #include "hal/engine/base.h"
hal/base/alloc.c #include "hal/base/base.h"
hal/base/alloc.c #include "hal/engine/base.h"
hal/facts/png.c #include "hal/facts/parts.h"
hal/ops/random.c #include <Random123/philox.h>
hal/job/more.c #include "hal/ops/ops.h"
hal/shape/plan.c #include "hal/facts/facts.h"
hal/trace/meter.c #include "hal/base/base.h"
hal/device/pool.c #include "hal/shape/shape.h"
hal/device/registry.c extern const struct hr__backend hr__backend_cpu;
hal/job/job.c #include "work.h"
hal/job/job.c #include "hal/device/device.h"
hal/job/job.c #include <stdio.h>
hal/trust/run.c #include "hal/job/job.h"
hal/entry/open.c #include "hal/trust/trust.h"
hal/guard/queue.c #include "hal/engine/guard.h"
hal/guard/queue.c #include "hal/guard/lanes.h"
backends/opencl/guard.c #include "hal/engine/guard.h"
examples/engine_small.c #include "hal/engine/guard.h"
examples/train.c #include <headrace/job.h>
backends/cpu/job.c #include "cpu_fallback/cpu_ops.h"
backends/opencl/job.c #include "hal/engine/engine.h"
backends/opencl/job.c #include <CL/cl.h>
backends/opencl/job.c #include <xxhash.h>
backends/opencl/job.c #include "kernels/layout.h"
kernels/plan.h #include "hal/engine/engine.h"
kernels/plan.h #include "kernels/layout.h"
cpu_fallback/jpeg/reader.c #include <jpeglib.h>
cpu_fallback/jpeg/reader.c #include "cpu_fallback/cpu_ops.h"
cpu_fallback/decode_png.c #include <png.h>
cpu_fallback/x86/streams.c #include "cpu_fallback/jpeg/lanes.h"
loader/source/tar.c #include "loader/pack/format.h"
loader/queue/loader.c #include <headrace/job.h>
loader/queue/loader.c #include "hal/engine/base.h"
loader/queue/loader.c #include <xxhash.h>
tools/pack/out.c #include "tools/common/tools.h"
python/core/job.c #include <Python.h>
python/core/job.c #include <headrace/job.h>
python/core/job.c #include "core.h"
tools/command.c #include "tools/validate/validate.h"
tools/common/options.c #include <popt.h>
tools/run/sink.c #include "npy.h"
tools/run/sink.c #include "tools/common/tools.h"
tools/validate/page.c #include "tools/report/report.h"
tools/profile/profile.h #include "tools/run/run.h"
tools/report/report.c #include "report.h"
tools/report/report.c #include "tools/common/tools.h"
tests/test_plan.c #include "hal/shape/shape.h"
END
    for n in {1..40}; do
        echo "void f$n(void);"
    done >hal/job/job.h
    n=0
    "$here/check_includes.sh" "$tmp" >log ||
        { echo "self-test: the clean tree does not pass"; cat log; exit 1; }
    for file in hal/job/job.h python/core/core.h; do
        cp hal/job/job.h forty
        cp forty "$file"
        echo "PyObject *one_more(int a);" >>"$file"
        ! "$here/check_includes.sh" "$tmp" >log ||
            { echo "self-test: 41 prototypes pass"; exit 1; }
        cp forty hal/job/job.h
        : >python/core/core.h
    done
    : >hal/job/job.h
    while read -r file text; do
        n=$((n + 1))
        echo "$text" >"$file"
        if "$here/check_includes.sh" "$tmp" >log; then
            echo "self-test: not found in $file: $text"
            exit 1
        fi
        rm "$file"
    done <<'END'
tools/run/bad.c #include "hal/shape/shape.h"
tools/run/bad.c #include "hal/base/base.h"
tools/run/bad.c #include <CL/cl.h>
tools/run/bad.c   #  include "../../hal/engine/engine.h"
tools/run/bad.c #include <Random123/philox.h>
tools/command.c #include "hal/shape/shape.h"
tools/command.c #include "tools/report/report.h"
tools/command.c #include "tools/run/npy.h"
python/core/ops.c #include "tools/command.h"
tools/main.c #include "tools/run/run.h"
tools/bad.c #include <popt.h>
tools/bad.c #include "tools/common/tools.h"
tools/common/bad.c #include "tools/run/run.h"
tools/common/bad.c #include "tools/report/report.h"
tools/report/bad.c #include "tools/samples/samples.h"
tools/run/bad.c #include "tools/profile/profile.h"
tools/devices/bad.c #include "tools/run/run.h"
tools/validate/bad.c #include "../run/run.h"
tools/samples/bad.c #include "tools/validate/validate.h"
tools/profile/bad.c #include "tools/run/npy.h"
tools/profile/bad.c #include "tools/validate/validate.h"
hal/include/headrace/bad.h #include <Random123/philox.h>
hal/include/headrace/bad.h #include "hal/base/base.h"
hal/engine/bad.h #include "hal/base/base.h"
hal/base/bad.c #include "hal/engine/engine.h"
hal/base/bad.c #include "hal/facts/facts.h"
hal/base/bad.c #include <xxhash.h>
hal/facts/bad.c #include "hal/shape/shape.h"
hal/facts/bad.c #include "hal/trace/trace.h"
hal/shape/bad.c #include "hal/device/device.h"
hal/job/bad.c #include "hal/ops/op_def.h"
hal/shape/bad.c #include "hal/facts/parts.h"
hal/trace/bad.c #include "hal/device/device.h"
hal/device/bad.c #include "hal/job/job.h"
hal/device/bad.c #include "hal/trust/trust.h"
hal/job/bad.c #include "hal/trust/trust.h"
hal/job/bad.c #include "hal/entry/entry.h"
hal/job/bad.c #include "hal/guard/lanes.h"
hal/job/bad.c #include "cpu_fallback/cpu_ops.h"
hal/job/bad.c #include "../../backends/cpu/cpu.h"
hal/job/bad.c #include "kernels/layout.h"
hal/job/bad.c #include <jpeglib.h>
hal/job/bad.c #include "not_there.h"
hal/job/bad.c extern const struct hr__backend hr__backend_cpu;
hal/trust/bad.c #include "hal/job/work.h"
hal/trust/bad.c #include "hal/entry/entry.h"
hal/entry/bad.c #include "hal/job/work.h"
hal/guard/bad.c #include "hal/base/base.h"
hal/guard/bad.c #include "backends/opencl/opencl.h"
hal/bad.c #include "hal/base/base.h"
loader/queue/bad.c #include "hal/engine/engine.h"
loader/queue/bad.c #include "hal/base/base.h"
loader/queue/bad.c #include "cpu_fallback/cpu_ops.h"
tools/pack/bad.c #include "loader/queue/loader.h"
python/core/bad.c #include "hal/engine/engine.h"
python/core/bad.c #include "cpu_fallback/cpu_ops.h"
python/core/bad.c #include <jpeglib.h>
python/core/bad.c #include <CL/cl.h>
python/core/bad.c #include <png.h>
python/bad.c #include <Python.h>
hal/job/bad.c #include <Python.h>
tools/run/bad.c #include "python/core/core.h"
examples/bad.c #include "hal/engine/engine.h"
examples/engine_bad.c #include "hal/shape/shape.h"
backends/opencl/bad.c #include "../vaapi/vaapi.h"
backends/opencl/bad.c #include "hal/base/base.h"
backends/opencl/bad.c #include "hal/guard/lanes.h"
backends/opencl/bad.c #include "cpu_fallback/cpu_ops.h"
backends/opencl/bad.c #include <va/va.h>
backends/cpu/bad.c #include "kernels/layout.h"
backends/cpu/bad.c #include "hal/shape/shape.h"
backends/vaapi/bad.c #include <xxhash.h>
kernels/bad.h #include "hal/shape/shape.h"
kernels/bad.h #include "backends/opencl/opencl.h"
kernels/bad.h #include <CL/cl.h>
kernels/bad.cl #include "hal/engine/engine.h"
cpu_fallback/bad.c #include <headrace/job.h>
cpu_fallback/bad.c #include "../hal/shape/shape.h"
cpu_fallback/bad.c #include <popt.h>
cpu_fallback/bad.c #include "cpu_fallback/jpeg/lanes.h"
cpu_fallback/pixel/bad.c #include "cpu_fallback/jpeg/lanes.h"
cpu_fallback/packed/bad.c #include "../jpeg/lanes.h"
cpu_fallback/jpeg/bad.c #include "cpu_fallback/x86/wide.h"
loader/pack/bad.c #include "loader/source/source.h"
loader/http/bad.c #include "loader/source/source.h"
loader/source/bad.c #include "loader/queue/loader.h"
loader/queue/bad.c #include <archive.h>
loader/bad.c #include <headrace/job.h>
END
    echo "self-test: $n forbidden lines found"
}

if [[ ${1-} == --self-test ]]; then
    self_test
else
    check_tree "${1:-$here/../..}"
fi
