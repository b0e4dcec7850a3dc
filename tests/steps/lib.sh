# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the steps of the tests share. A step prints "not run: PART: REASON" for
# what it leaves out, ends with 77 if that is all of it, and may print "note:
# TEXT", which the table of ./dev test shows.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tools/setup.sh
. "$root/tools/setup.sh"
# shellcheck disable=SC2034
half=$(((jobs + 1) / 2))  # of the cores, for a step beside others
long=${HEADRACE_TEST_LONG-}
# shellcheck disable=SC2034
corpus=${HEADRACE_CORPUS:-$root/../shared/corpus}

skip() { echo "not run: $*"; exit 77; }

needs_tool()
{
    local tool
    for tool; do
        have "$tool" || skip "$tool is not installed"
    done
}

# CMake leaves the package out where it does not find Python's headers.
needs_module()
{
    [[ -e $build/python/headrace/_core.abi3.so ]] ||
        skip "headrace._core is not built: Python.h is missing"
}

# The interpreter with the pinned packages of tests/python/NAME.txt; for torch
# the one that HEADRACE_TORCH_PYTHON names, and no download but with --long.
interpreter_of()  # name [interpreter]
{
    if [[ $1 == torch && ${HEADRACE_TORCH_PYTHON-} ]]; then
        echo "$HEADRACE_TORCH_PYTHON"
        return
    fi
    [[ $1 != torch || $long ]] || return 1
    venv "$@"
}

# The libjpeg-turbo that an interpreter's Pillow carries, that of Pillow 13 if
# none is named: the path of its file, whose soname is that of the
# distribution's.
pillow_jpeg()  # [interpreter]
{
    local interpreter=${1-}
    [[ $interpreter ]] || interpreter=$(venv pillow-13) || return 1
    compgen -G "$("$interpreter" -c 'import os, PIL
print(os.path.dirname(os.path.dirname(PIL.__file__)))')/\
[pP]illow.libs/libjpeg-*.so.62*" || true
}

# Makes that file libjpeg.so.62 for programs linked from here on.
use_jpeg()  # file folder
{
    mkdir -p "$2"
    ln -sf "$1" "$2/libjpeg.so.62"
    export LD_LIBRARY_PATH=$2
}

# Interpreters that the module is for, besides the distribution's: lines with a
# path, or with what is missing.
other_interpreters()
{
    local version candidate found pyenv
    pyenv=$(pyenv root 2>/dev/null || true)
    for version in 3.12 3.13 3.14; do
        found=
        for candidate in "python$version" "$pyenv"/versions/$version.*/bin/python; do
            "$candidate" -c 'import venv' 2>/dev/null || continue
            found=$candidate
            break
        done
        echo "${found:-not run: Python $version: is not installed}"
    done
}

# Builds that only tests use have lines for reports but no variables, and a
# linker that takes a third of the other's time.
test_flags=(-DCMAKE_BUILD_TYPE=RelWithDebInfo
            "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g1" -DHEADRACE_TESTS=ON
            -DHEADRACE_WERROR=ON)
! have ld.lld || test_flags+=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld
                              -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=lld)
