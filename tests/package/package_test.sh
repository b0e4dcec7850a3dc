#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build into an empty prefix and uses it as a stranger would, by
# CMake and by pkg-config, shared and static, and after moving the prefix.
#   package_test.sh BUILD
set -euo pipefail
build=$(cd "${1:?build folder}" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
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

use_pkg_config()  # prefix variable
{
    local pc flags
    pc=$(find "$1" -name headrace.pc)
    flags=$(env "$2=$(dirname "$pc")" pkg-config --cflags --libs headrace)
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
for page in "$source"/tools/man/*.[17]; do
    [[ ! -e $page ]] || has "$prefix" "*/man${page##*.}/$(basename "$page")"
done
if grep -rIl -e "$source" -e "$build" "$prefix"; then
    echo "an installed text file names the build machine's folders"
    exit 1
fi
"$prefix/bin/headrace" --help >/dev/null
use_cmake "$prefix"
# No other .pc file is there: it needs none.
use_pkg_config "$prefix" PKG_CONFIG_LIBDIR

echo "== the program of the README"
sed -n '/^```c$/,/^```$/{/^```/!p}' "$source/README.md" >"$tmp/demo.c"
pc=$(dirname "$(find "$prefix" -name headrace.pc)")
lib=$(dirname "$(find "$prefix" -name libheadrace.so)")
# shellcheck disable=SC2046
$cc -std=gnu11 -Wall -Werror -o "$tmp/demo" "$tmp/demo.c" \
    $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs headrace)
LD_LIBRARY_PATH=$lib "$prefix/bin/headrace" samples "$tmp/samples" \
    --photos-only --count 1 >/dev/null
photo=$(find "$tmp/samples" -name '*.jpg' | head -n 1)
LD_LIBRARY_PATH=$lib "$tmp/demo" "$photo" | grep -q '^first value: '
if LD_LIBRARY_PATH=$lib "$tmp/demo" "$tmp/demo.c" 2>"$tmp/log"; then
    echo "it takes a C file for a picture"
    exit 1
fi
grep -q 'demo.c: ' "$tmp/log"

echo "== the lines of docs/install.md"
mkdir "$tmp/home" "$tmp/there"
ln -s "$build" "$tmp/there/build"
cp "$tmp/demo.c" "$tmp/there"
cp "$photo" "$tmp/there/PICTURE.jpg"
sed -n '/package_test.sh runs these lines/,/^```$/{/^```\|^<!--/!p}' \
    "$source/docs/install.md" >"$tmp/lines.sh"
[[ $(wc -l <"$tmp/lines.sh") == 5 ]] || { echo "not found there"; exit 1; }
(cd "$tmp/there" && HOME=$tmp/home bash -euo pipefail "$tmp/lines.sh") \
    >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
grep -q '^first value: ' "$tmp/log"
grep -q '^cpu ' "$tmp/log"

echo "== static"
launcher=$(sed -n 's/^CMAKE_C_COMPILER_LAUNCHER:[A-Z]*=//p' \
               "$build/CMakeCache.txt")

variant()  # folder cmake-args...
{
    local dir=$1
    shift
    cmake -S "$source" -B "$dir" -G "$generator" \
          -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DHEADRACE_TOOLS=OFF \
          -DHEADRACE_TESTS=OFF "$@" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
    cmake --build "$dir" -j"$(nproc)" >"$tmp/log" ||
        { cat "$tmp/log"; exit 1; }
}

variant "$tmp/static" -DBUILD_SHARED_LIBS=OFF
cmake --install "$tmp/static" --prefix "$tmp/archive" >/dev/null
has "$tmp/archive" '*/libheadrace.a'
use_cmake "$tmp/archive"
use_pkg_config "$tmp/archive" PKG_CONFIG_PATH

# (What matters is what it links: as fast as it compiles.)
echo "== without PNG and WebP"
variant "$tmp/no-png" -DHEADRACE_{PNG,WEBP}=OFF -DCMAKE_BUILD_TYPE=Quick \
        "-DCMAKE_C_FLAGS=-O0 -DNDEBUG"
if readelf -d "$tmp/no-png/libheadrace.so" | grep NEEDED | grep 'png\|webp'; then
    echo "=OFF, and needed nevertheless"
    exit 1
fi
cmake --install "$tmp/no-png" --prefix "$tmp/plain" >/dev/null
use_cmake "$tmp/plain"

# The first command of README on a machine that has no CUnit yet: a broken
# entry hides that of the machine.
echo "== without CUnit"
mkdir "$tmp/none"
printf 'Name: cunit\nDescription:\nVersion: 1\nRequires: not-there\n' \
       >"$tmp/none/cunit.pc"
PKG_CONFIG_PATH=$tmp/none cmake -S "$source" -B "$tmp/no-cunit" \
    -G "$generator" -DHEADRACE_FUZZ=OFF >"$tmp/log" 2>&1 ||
    { cat "$tmp/log"; exit 1; }
# The table of tests then says so.
ctest --test-dir "$tmp/no-cunit" -R '^unit_tests$' >"$tmp/log" 2>&1
grep -q 'unit_tests (Skipped)' "$tmp/log" ||
    { cat "$tmp/log"; echo "CUnit was found nevertheless"; exit 1; }
