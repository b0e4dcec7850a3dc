#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The wheel for 64-bit Arm, cross-built: build/wheel-aarch64/headrace-*.whl. It
# carries Debian's libjpeg-turbo, libpng and libwebp for arm64. Afterwards that
# architecture's Python makes with it, in qemu, the tensors that build/headrace
# makes here, and each reads the pack file of the other.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dir=$build/wheel-aarch64
sys=$dir/root
lib=$sys/usr/lib/aarch64-linux-gnu
beside=$lib:$sys/lib/aarch64-linux-gnu

. "$(dirname "${BASH_SOURCE[0]}")/../compare/arm64.sh"
libraries()
{
    local apt=$dir/apt
    arm64_apt "$apt" update &&
        arm64_apt "$apt" install -y --download-only --no-install-recommends \
            python3 python3-numpy libpython3-dev libjpeg62-turbo-dev \
            libpng-dev libwebp-dev libpopt-dev libjansson-dev libxxhash-dev \
            librandom123-dev &&
        (cd "$apt/cache/archives" && arm64_apt "$apt" download \
             opencl-c-headers ocl-icd-opencl-dev libva-dev libdrm-dev \
             libhwloc-dev) &&
        arm64_unpack "$apt/cache/archives" "$sys"
}

toolchain()
{
    cat >"$dir/toolchain.cmake" <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH "$sys")
foreach(kind LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_\${kind} ONLY)
endforeach()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_C_FLAGS_INIT "-isystem $sys/usr/include/aarch64-linux-gnu")
foreach(kind EXE SHARED MODULE)
    set(CMAKE_\${kind}_LINKER_FLAGS_INIT "-Wl,-rpath-link,$beside")
endforeach()
set(Python3_INCLUDE_DIR "$sys/usr/include/python3.11" CACHE PATH "")
END
}

make_wheel()
{
    local bin=$1 library setting settings=() licences=
    rm -rf "$dir"/{raw,licences,unpacked} "$dir"/*.whl
    mkdir -p "$dir"/{raw,licences,unpacked}
    for library in libjpeg62-turbo libpng16-16 libwebp7 libwebpdemux2 libpopt0 \
                   libjansson4 libjs-chart.js librandom123-dev libxxhash-dev; do
        cp "/usr/share/doc/$library/copyright" "$dir/licences/$library.txt"
        licences+="$dir/licences/$library.txt;"
    done
    ! have ccache ||
        settings+=(--config-settings
                   cmake.define.CMAKE_C_COMPILER_LAUNCHER=ccache)
    for setting in build-dir="$dir/build" \
                   cmake.define.CMAKE_TOOLCHAIN_FILE="$dir/toolchain.cmake" \
                   cmake.define.HEADRACE_{OPENCL,VAAPI,TOOLS,WEBP}=ON \
                   cmake.define.HEADRACE_PYTHON_LICENCES="$licences"; do
        settings+=(--config-settings "$setting")
    done
    PKG_CONFIG_LIBDIR=$lib/pkgconfig:$sys/usr/share/pkgconfig \
        PKG_CONFIG_SYSROOT_DIR=$sys _PYTHON_HOST_PLATFORM=linux-aarch64 \
        PATH=$bin:$PATH CC=aarch64-linux-gnu-gcc "$bin/pip" wheel -q \
        --disable-pip-version-check --no-deps --no-build-isolation \
        -w "$dir/raw" "${settings[@]}" "$root/python"
    PATH=$bin:$PATH LD_LIBRARY_PATH=$beside \
        "$bin/auditwheel" repair -w "$dir" "$dir"/raw/*.whl
    "$bin/abi3audit" --strict "$dir"/*.whl
    "$bin/python" -m zipfile -e "$dir"/*.whl "$dir/unpacked"
}

# Its command, in its module, by the interpreter for arm64.
arm()
{
    qemu-aarch64 -L "$sys" -E LD_LIBRARY_PATH="$beside:$lib/blas:$lib/lapack" \
        -E PYTHONPATH="$dir/unpacked" "$sys/usr/bin/python3.11" -B "$@"
}

smoke()
{
    local ops=random_resized_crop=96,random_hflip,normalize=imagenet
    rm -rf "$dir/smoke"
    mkdir "$dir/smoke"
    cd "$dir/smoke" || return 1
    "$build/headrace" samples --count 6 --photos-only pictures >/dev/null
    "$build/headrace" run pictures --backend cpu -q --ops "$ops" --out here.npy
    arm -m headrace run pictures --backend cpu -q --ops "$ops" --out there.npy
    cmp here.npy there.npy
    "$build/headrace" pack pictures --out here.hrp --quiet
    arm -m headrace pack pictures --out there.hrp --quiet
    "$build/headrace" run there.hrp --backend cpu -q --ops "$ops" --out a.npy
    arm -m headrace run here.hrp --backend cpu -q --ops "$ops" --out b.npy
    cmp here.npy a.npy
    cmp here.npy b.npy
}

for tool in aarch64-linux-gnu-gcc qemu-aarch64 apt-get dpkg-deb; do
    needs_tool $tool
done
tools=$(venv wheel) ||
    skip "the packages of tests/python/wheel.txt cannot be had"
mkdir -p "$dir"
[[ -e $sys/usr/bin/python3.11 && -e $lib/libwebp.so ]] || libraries ||
    skip "Debian's libraries for arm64 cannot be had"
toolchain
make_wheel "$(dirname "$tools")"
smoke
echo "the same tensors and pack files as here"
