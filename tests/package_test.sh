#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build into an empty prefix and uses it as a stranger would, by
# CMake and by pkg-config, shared and static, and after moving the prefix.
#   package_test.sh BUILD
set -euo pipefail
build=$(cd "${1:?build folder}" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
cc=${CC:-cc}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
unset CFLAGS LDFLAGS LD_LIBRARY_PATH

use_cmake()  # prefix
{
    rm -rf "$tmp/cmake"
    cmake -S "$source/tests/package" -B "$tmp/cmake" -G "$generator" \
          -DCMAKE_PREFIX_PATH="$1" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF \
          >"$tmp/log" || { cat "$tmp/log"; exit 1; }
    cmake --build "$tmp/cmake" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
    "$tmp/cmake/consumer"
}

use_pkg_config()  # prefix
{
    local pc flags
    pc=$(find "$1" -name headrace.pc)
    flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs headrace)
    # shellcheck disable=SC2086
    $cc -std=c11 -o "$tmp/pc" "$source/tests/package/consumer.c" $flags
    LD_LIBRARY_PATH=$(dirname "$(find "$1" -name 'libheadrace.*' -print -quit)") \
        "$tmp/pc"
}

has()  # prefix pattern...
{
    local prefix=$1 pattern
    shift
    for pattern; do
        [[ -n $(find "$prefix" -path "$prefix/$pattern") ]] ||
            { echo "not installed: $pattern"; exit 1; }
    done
}

echo "== shared"
cmake --install "$build" --prefix "$tmp/first" >"$tmp/log" ||
    { cat "$tmp/log"; exit 1; }
mv "$tmp/first" "$tmp/moved"
prefix=$tmp/moved
has "$prefix" 'include/headrace/headrace.h' '*/headrace.pc' \
    '*/libheadrace.so' '*/headraceConfig.cmake' 'bin/headrace'
for page in "$source"/tools/man/*.1; do
    [[ ! -e $page ]] || has "$prefix" "*/man1/$(basename "$page")"
done
if grep -rIl -e "$source" -e "$build" "$prefix"; then
    echo "an installed text file names the build machine's folders"
    exit 1
fi
"$prefix/bin/headrace" --help >/dev/null
use_cmake "$prefix"
use_pkg_config "$prefix"

echo "== static"
launcher=$(sed -n 's/^CMAKE_C_COMPILER_LAUNCHER:[A-Z]*=//p' \
               "$build/CMakeCache.txt")
cmake -S "$source" -B "$tmp/static" -G "$generator" -DBUILD_SHARED_LIBS=OFF \
      -DCMAKE_C_COMPILER_LAUNCHER="$launcher" \
      -DHEADRACE_TOOLS=OFF -DHEADRACE_TESTS=OFF >"$tmp/log" ||
    { cat "$tmp/log"; exit 1; }
cmake --build "$tmp/static" -j"$(nproc)" >"$tmp/log" ||
    { cat "$tmp/log"; exit 1; }
cmake --install "$tmp/static" --prefix "$tmp/archive" >/dev/null
has "$tmp/archive" '*/libheadrace.a'
use_cmake "$tmp/archive"
use_pkg_config "$tmp/archive"
