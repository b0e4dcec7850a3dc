#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs tests of the Python package under AddressSanitizer, in Debian's Python.
#   tests/python/asan.sh BUILD test_core_memory test_core_jobs
# BUILD was configured with -DHEADRACE_SANITIZE=address,undefined
# -DHEADRACE_PYTHON=ON and built. Python itself leaks on purpose, so leaks are
# not looked for; its allocator is malloc, so that its objects are watched, too.
set -e
build=$(realpath "$1")
shift
cd "$(dirname "$0")"
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:use_sigaltstack=0
UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
PYTHONMALLOC=malloc
HEADRACE_BUILD=$build
PYTHONPATH=$build/python:$PWD
export LD_PRELOAD ASAN_OPTIONS UBSAN_OPTIONS PYTHONMALLOC HEADRACE_BUILD \
    PYTHONPATH
exec /usr/bin/python3 -X faulthandler -m unittest "$@"
