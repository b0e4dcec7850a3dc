#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The wheel and the source archive.
#   wheel.sh make   build/wheel/headrace-*.whl, and unpacked/ beside it
#   wheel.sh sdist  build/sdist/headrace-*.tar.gz, the sources for pip
#   wheel.sh test   the wheel in empty environments
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

wheel_file() { compgen -G "$build/wheel/headrace-*manylinux*.whl"; }

# One file in build/wheel, for every CPython from 3.11 on and no libraries but
# libc: libheadrace and the command are in the module, libjpeg-turbo, libpng,
# libwebp, popt and jansson are beside it,
# OpenCL's loader and libva are opened when a device is. It is compiled with the
# distribution's jpeglib.h, and carries libjpeg-turbo 3 if that can be had: both
# have the same soname, and the step jpeg3 tests that pair. The last line that
# this prints says which one it is.
make_wheel()
{
    local tools bin dir=$build/wheel jpeg library licences=
    local setting settings=()
    tools=$(venv wheel) || return 1
    bin=$(dirname "$tools")
    rm -rf "$dir"
    mkdir -p "$dir"/{raw,jpeg,licences,unpacked}
    for library in libjpeg62-turbo libpng16-16 libwebp7 libwebpdemux2 libpopt0 \
                   libjansson4 libjs-chart.js librandom123-dev libxxhash-dev; do
        cp "/usr/share/doc/$library/copyright" "$dir/licences/$library.txt" ||
            return 1
        licences+="$dir/licences/$library.txt;"
    done
    jpeg=$(pillow_jpeg) || jpeg=
    [[ ! $jpeg ]] || cp "$jpeg" "$dir/jpeg/libjpeg.so.62"
    # With ccache it shares with the step package what an archive is made of: if
    # the compiler has the same name, which Python would give another one.
    ! have ccache ||
        settings+=(--config-settings
                   cmake.define.CMAKE_C_COMPILER_LAUNCHER=ccache)
    for setting in build-dir="$build/wheel-build" \
                   cmake.define.HEADRACE_{OPENCL,VAAPI,TOOLS,WEBP}=ON \
                   cmake.define.HEADRACE_PYTHON_LICENCES="$licences"; do
        settings+=(--config-settings "$setting")
    done
    PATH=$bin:$PATH CC=${CC:-cc} "$bin/pip" wheel -q \
        --disable-pip-version-check --no-deps --no-build-isolation \
        -w "$dir/raw" "${settings[@]}" "$root/python" || return 1
    PATH=$bin:$PATH LD_LIBRARY_PATH=$dir/jpeg \
        "$bin/auditwheel" repair -w "$dir" "$dir"/raw/*.whl || return 1
    [[ $(wheel_file | wc -l) == 1 ]] || return 1
    "$tools" -m zipfile -e "$(wheel_file)" "$dir/unpacked" || return 1
    PYTHONPATH=$dir/unpacked "$tools" -c 'from headrace import _core
print(_core.jpeg_library(), "inside")'
}

# pip wants the project file at the top, and the sources below it; a checkout
# has it in python/, beside the modules.
make_sdist()
{
    local tools dir=$build/sdist
    have git && git -C "$root" rev-parse -q --verify HEAD >/dev/null ||
        skip "a source archive is made of a git checkout"
    tools=$(venv wheel) || return 1
    rm -rf "$dir"
    mkdir -p "$dir/tree"
    git -C "$root" archive HEAD CMakeLists.txt LICENSE README.md \
        backends cmake cpu_fallback hal kernels loader python tools |
        tar -x -C "$dir/tree" || return 1
    sed -e 's|source-dir = ".."|source-dir = "."|' \
        -e 's|input = "../|input = "|' \
        -e 's|^dynamic = .*|&\nreadme = "README.md"|' \
        -e '/^# A source archive of this folder/,/^messages/d' \
        "$root/python/pyproject.toml" >"$dir/tree/pyproject.toml" || return 1
    rm "$dir/tree/python/pyproject.toml"
    (cd "$dir/tree" && "$tools" -c '
import sys
from scikit_build_core.build import build_sdist
print(build_sdist(sys.argv[1]))' "$dir") || return 1
    rm -rf "$dir/tree"
}

test_wheel()
{
    local others
    needs_module
    venv wheel >/dev/null ||
        skip "the packages of tests/python/wheel.txt cannot be had"
    make_wheel
    mapfile -t others < <(other_interpreters | grep -v '^not run:')
    bash "$root/tests/python/wheel_test.sh" "$build" "$(wheel_file)" \
         "${others[@]}"
    echo "note: $(wc -c <"$(wheel_file)") bytes," \
         "$((1 + ${#others[@]})) interpreters"
}

case $1 in
make) make_wheel ;;
sdist) make_sdist ;;
test) test_wheel ;;
esac
