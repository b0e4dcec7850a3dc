#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests of the Python package beside those on the distribution's interpreter,
# which CMake has one by one.
#   python.sh types | asan | others | current | processors | codec | records |
#             programs | site | neighbours | mindspore | pillow-suite
. "$(dirname "$0")/lib.sh"
tests=("$root/tests/python/run.py" --build "$build" --jobs "$half")
unpacked=(--package "$build/wheel/unpacked")
cannot="cannot be had"
needs_module

# Types as the package and its stub say them, the stub against the module, and
# what a linter sees.
types()
{
    local bin config=$root/python/pyproject.toml rc=0
    bin=$(venv types) || skip "the packages of tests/python/types.txt $cannot"
    bin=$(dirname "$bin")
    cd "$root/python" || exit
    "$bin/mypy" --config-file "$config" --cache-dir "$build/mypy" || rc=1
    MYPYPATH=$root/python PYTHONPATH=$build/python "$bin/stubtest" \
        --mypy-config-file "$config" headrace._core || rc=1
    "$bin/ruff" check --no-cache --config "$config" "$root/python" \
        "$root/tests/python" || rc=1
    return $rc
}

# The module and the library in it with AddressSanitizer, which must be in the
# interpreter first. Interpreters leak at exit, so leaks are not looked for;
# with malloc() below them, Python's objects are watched, too.
asan()
{
    local dir=$build/address-undefined library preload=
    [[ -e $dir/python/headrace/_core.abi3.so ]] || skip "$dir is not built"
    for library in libasan.so libubsan.so; do
        preload+="$("${CC:-cc}" -print-file-name="$library") "
    done
    mkdir -p "$build/no-opencl"
    # A child that is forked while others allocate may find AddressSanitizer's
    # allocator locked for ever, which has nothing for that.
    env "LD_PRELOAD=$preload" PYTHONMALLOC=malloc \
        ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0 \
        OCL_ICD_VENDORS="$build/no-opencl" "$python" "${tests[@]}" \
        --package "$dir/python" \
        --without 'Forking\.test_(rounds|with_callbacks)|Processes\.test_fork' \
        'core*' loader loader_arguments packjob
}

# Runs the tests that need no other package, on other interpreters.
others()
{
    local line rc=0 tried=()
    while read -r line; do
        echo "$line"
        [[ $line != "not run:"* ]] || continue
        tried+=("$line")
        "$python" "${tests[@]}" --python "$line" 'core*' || rc=1
    done < <(other_interpreters)
    ((${#tried[@]})) || skip "no other Python is installed"
    echo "note: ${tried[*]}"
    return $rc
}

torch()  # [pinned packages to put on top...]
{
    local interpreter name
    interpreter=$(interpreter_of torch) ||
        skip "current torch: HEADRACE_TORCH_PYTHON or --long"
    for name; do
        interpreter=$(venv "$name" "$interpreter") ||
            skip "the packages of tests/python/$name.txt $cannot"
    done
    echo "$interpreter"
}

# All programs of tests/python/programs against stock, with the distribution's
# torch and with a current one. (python_test_programs has a choice of them.)
programs()
{
    local interpreter current rc=0
    current=$(interpreter_of torch) ||
        echo "not run: current torch: tests/python/torch.txt $cannot"
    for interpreter in "$python" $current; do
        HEADRACE_BUILD=$build PYTHONPATH=$build/python:$root/tests/python \
            "$interpreter" -B -m programs.run --jobs "$jobs" || rc=1
    done
    return $rc
}

# Pillow's own tests, from its source archive, with the switch on and off.
pillow_suite()
{
    local interpreter dir=$build/pillow-suite release
    interpreter=$(venv pillow-suite) ||
        skip "the packages of tests/python/pillow-suite.txt $cannot"
    release=$(sed -n 's/^pillow==//p' "$root/tests/python/pillow-suite.txt")
    if [[ ! -d $dir/pillow-$release/Tests ]]; then
        mkdir -p "$dir"
        "$interpreter" -m pip download -q --no-deps --no-binary pillow \
            --no-cache-dir -d "$dir" "pillow==$release" &&
            tar -C "$dir" -xf "$dir/pillow-$release.tar.gz" ||
            skip "the source archive of Pillow $release $cannot"
    fi
    "$interpreter" "$root/tests/python/pillow_suite.py" --build "$build" \
        "${unpacked[@]}" "$dir/pillow-$release"
}

# The site builds without a warning, and its search finds C and Python.
site()
{
    local interpreter word
    needs_tool doxygen
    interpreter=$(venv docs) || skip "the packages of tests/python/docs.txt $cannot"
    HEADRACE_BUILD=$build bash "$root/docs/site/build.sh" "$interpreter" ||
        return 1
    for word in hr_submit headrace.Loader; do
        grep -qF "$word" "$build/site/html/genindex.html" ||
            { echo "$word is not in the index"; return 1; }
    done
}

# Also on photos, with --long on 500 for each processor.
processors()  # interpreter
{
    local photos=$corpus/photos rc=0
    "$python" "${tests[@]}" --python "$1" "${unpacked[@]}" \
        'processors*' || rc=1
    if [[ -d $photos ]]; then
        "$1" "$root/tests/compare/compare_processors.py" --build "$build" \
            ${long:+--count 500} "$photos" || rc=1
    else
        echo "not run: processors on photos: $photos is missing"
    fi
    return $rc
}

case $1 in
types | asan | others | programs | site) "$1" ;;
current)
    interpreter=$(torch) || { echo "$interpreter"; exit 77; }
    "$python" "${tests[@]}" --python "$interpreter" "${unpacked[@]}"
    ;;
neighbours)  # timm, datasets, webdataset, Lightning, Ray and aiohttp
    interpreter=$(torch neighbours) || { echo "$interpreter"; exit 77; }
    "$python" "${tests[@]}" --python "$interpreter" "${unpacked[@]}" \
        --only 'neighbours|arrow|ray|serve' \
        neighbours arrow 'ray*' serve docs
    ;;
processors)  # transformers and datasets
    interpreter=$(torch processors) || { echo "$interpreter"; exit 77; }
    processors "$interpreter"
    ;;
codec)  # torchcodec decodes paths, also those of transformers
    interpreter=$(torch processors codec) || { echo "$interpreter"; exit 77; }
    "$python" "${tests[@]}" --python "$interpreter" "${unpacked[@]}" \
        dropin_encoded 'processors*' &&
        "$interpreter" "$root/tests/compare/compare_torch.py" \
            --build "$build" --count 20
    ;;
records)  # what writes TFRecord and its kin
    interpreter=$(venv records) ||
        skip "the packages of tests/python/records.txt $cannot"
    "$python" "${tests[@]}" --python "$interpreter" "${unpacked[@]}" \
        records lmdb mindrecord arrow containers
    ;;
mindspore)
    interpreter=$(venv mindspore) ||
        skip "the packages of tests/python/mindspore.txt $cannot"
    "$python" "${tests[@]}" --python "$interpreter" "${unpacked[@]}" \
        --only mindspore mindspore docs
    ;;
pillow-suite) pillow_suite ;;
esac
