#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The C tests with a sanitizer, in a build of their own.
#   sanitized.sh build KIND         KIND: thread, or address,undefined
#   sanitized.sh test KIND SCALE    SCALE: HEADRACE_TEST_SCALE
#   sanitized.sh opencl SCALE       ThreadSanitizer on OpenCL, for --long
. "$(dirname "$0")/lib.sh"
what=$1 kind=${2-}
[[ $what != opencl ]] || kind=thread
dir=$build/${kind//,/-}

# Some kernels lay out memory as ThreadSanitizer cannot stand; without address
# randomisation it runs there, too.
prefix=(env)
find_prefix()
{
    local probe=$build/sanitizer-probe-${kind%%,*}
    echo 'int main(void) { return 0; }' |
        "${CC:-cc}" "-fsanitize=$kind" -x c - -o "$probe" || return 1
    "$probe" 2>/dev/null && return
    prefix=(setarch -R)
    have setarch && setarch -R "$probe" 2>/dev/null
}

# These start no thread, or one that they wait for at once, so there is nothing
# to see; --long looks nevertheless. Nor does ThreadSanitizer stand a child that
# starts threads, as in test_fork, and test_vaapi_faults has clocks.
one_thread='arena|axis|codes|coefficients|corpus|decode|decode_memory|decode_png'
one_thread+='|header|header_corpus|header_damage|opencl_choose|opencl_planes'
one_thread+='|packed|pack_writer|plan|planes|probe|probe_files|profile_advice'
one_thread+='|reconstruct|report|sampler|samples|sequential|source'
one_thread+='|table|tools|tools_disk|tools_files|tune|vaapi_format|vaapi_jpeg'
one_thread+='|validate_cuts|validate_status|worker_memory'

# test_profile_known compares times with arithmetic; a sanitizer changes them.
without=()
[[ $long ]] || without+=(profile_known)
[[ $kind != thread ]] || without+=(fork vaapi_faults)
[[ $kind != thread || $long ]] || without+=("$one_thread")
not_here="^test_($(IFS='|'; echo "${without[*]-none}"))\$"

build_it()
{
    local package=OFF all=OFF targets=()
    [[ $kind != address* || ! -e $build/python/headrace/_core.abi3.so ]] ||
        package=ON
    [[ ! $long ]] || all=ON
    configure "$dir" "${test_flags[@]}" "-DHEADRACE_SANITIZE=$kind" \
        "-DHEADRACE_PYTHON=$package" "-DHEADRACE_TSAN_AVX=$all"
    # ThreadSanitizer is for two thirds of the programs.
    [[ $kind != thread ]] ||
        mapfile -t targets < <(
            ctest --test-dir "$dir" -N -L test -E "$not_here" |
                sed -n 's/^ *Test *#[0-9]*: \(test_.*\)/\1/p' |
                sed 's/_some$//')
    jobs=$half compile "$dir" "${targets[@]}"
}

test_it()  # ctest-args...
{
    local rc=0 log=$dir/Testing/Temporary/LastTest.log
    # A sanitizer and a dozen tests beside it; with --long, complete test data.
    export HEADRACE_TEST_ALARM=700
    [[ ! $long ]] || HEADRACE_TEST_ALARM=1400
    # PoCL's compiler has signal stacks of its own; rusticl leaks.
    export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
    ASAN_OPTIONS+=:use_sigaltstack=0
    export UBSAN_OPTIONS=print_stacktrace=1
    export TSAN_OPTIONS=second_deadlock_stack=1
    "${prefix[@]}" ctest --test-dir "$dir" --output-on-failure \
        --no-tests=error -j $((8 * half + 4)) "$@" || rc=$?
    grep -a '^ *not run: ' "$log" | sort -u || true
    return $rc
}

find_prefix || skip "the compiler's -fsanitize=$kind does not work here"
[[ $what == build ]] || [[ -d $dir/tests ]] || skip "$dir is not built"
case $what in
build)
    build_it
    ;;
opencl)
    export HEADRACE_TEST_SCALE=${HEADRACE_TEST_SCALE:-$2}
    export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
    test_it -R '^test_opencl(_open)?$'
    ;;
test)
    export HEADRACE_TEST_SCALE=${HEADRACE_TEST_SCALE:-$3}
    echo "not run: ${not_here//[\^\$]/}: not with this sanitizer, or with --long"
    if [[ $kind == thread ]]; then
        # Drivers, built without it, take minutes to compile kernels in it.
        echo "not run: OpenCL: with --long"
        mkdir -p "$build/no-opencl"
        OCL_ICD_VENDORS=$build/no-opencl test_it -L '^test$' -E "$not_here"
    else
        OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd \
            test_it -L '^(test|check)$' -E "$not_here"
    fi
    ;;
esac
