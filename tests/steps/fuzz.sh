#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The fuzz targets.
#   fuzz.sh build          with clang, in a build of their own
#   fuzz.sh run [SECONDS]  each that long; what is new stays in the build
#                          folder, what crashes one is named
#   fuzz.sh corpora        each on its corpus and on samples, without a fuzzer
. "$(dirname "$0")/lib.sh"
samples=$build/fuzz-samples

build_it()
{
    needs_tool clang
    echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -fsanitize=fuzzer -x c - -o "$build/fuzz-probe" 2>/dev/null ||
        skip "clang has no libFuzzer"
    configure "$build/fuzz" "${test_flags[@]}" -DCMAKE_C_COMPILER=clang \
        -DHEADRACE_FUZZ=ON -DHEADRACE_SANITIZE=address,undefined
    jobs=$half compile "$build/fuzz"
}

fuzz_one()  # name seconds
{
    local name=$1 seeds=("$root/tests/corpus/${1#fuzz_}")
    [[ -d ${seeds[0]} ]] || seeds=()
    [[ ! -d $samples ]] || seeds+=("$samples"/{kinds,bad})
    mkdir -p "$build/fuzz-corpus/$name" "$build/fuzz-found"
    "$build/fuzz/tests/$name" -max_total_time="$2" -timeout=25 \
        -rss_limit_mb=4096 -print_final_stats=1 -verbosity=1 -max_len=65536 \
        -artifact_prefix="$build/fuzz-found/$name-" \
        "$build/fuzz-corpus/$name" "${seeds[@]}" \
        >"$build/fuzz/$name.log" 2>&1
}

run()  # seconds
{
    local file name bad=0 ran=() pids=() i
    for file in "$root"/tests/fuzz/fuzz_*.c; do
        name=$(basename "$file" .c)
        [[ $name != fuzz_replay && -x $build/fuzz/tests/$name ]] || continue
        while (($(jobs -rp | wc -l) >= jobs)); do
            wait -n || true  # how it ended is asked below
        done
        say "$name for $1 s"
        fuzz_one "$name" "$1" &
        ran+=("$name") pids+=($!)
    done
    ((${#ran[@]})) || skip "no fuzz targets"
    for i in "${!ran[@]}"; do
        wait "${pids[i]}" || bad=1
        echo "${ran[i]}:"
        grep -E 'Seed:|^SUMMARY|Test unit|^stat::number_of_exec| DONE ' \
            "$build/fuzz/${ran[i]}.log" || true
    done
    echo "note: ${#ran[@]} targets, $1 s each"
    return $bad
}

corpora()
{
    local target name n=0 bad=0 places
    for target in "$build"/address-undefined/tests/fuzz_*_replay; do
        [[ -x $target ]] || continue
        name=$(basename "$target" _replay)
        places=("$samples")
        [[ ! -d $root/tests/corpus/${name#fuzz_} ]] ||
            places+=("$root/tests/corpus/${name#fuzz_}")
        n=$((n + 1))
        echo "$name on ${places[*]}"
        "$target" "${places[@]}" || bad=1
    done
    ((n)) || skip "no fuzz targets"
    echo "note: $n targets"
    return $bad
}

case $1 in
build) build_it ;;
run) run "${2:-$([[ $long ]] && echo 120 || echo 5)}" ;;
corpora) corpora ;;
esac
