#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One arithmetic everywhere: the command, built for 64-bit Arm and run by qemu,
# makes of every picture the bytes, statuses and messages that it makes here.
# Before that the tests that hold the NEON kernels against the readable C, and
# the conformance suite at each instruction set.
# Exit code 77, after a line "not run: REASON": what is needed is not here.
#   aarch64.sh BUILD [CORPUS]
# CORPUS has kinds/, bad/ and photos/, of which 50 are taken; without it, what
# headrace samples makes. Needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and
# qemu-user or qemu-user-static; the libraries are Debian's for arm64, in a
# folder of BUILD, so that the system stays as it is.
set -euo pipefail
build=$(realpath "${1:?usage: aarch64.sh BUILD [CORPUS]}")
corpus=$(realpath -m "${2:-/nowhere}")
source=$(cd "$(dirname "$0")/../.." && pwd)
where=$build/aarch64
root=$where/root
lib=$root/usr/lib/aarch64-linux-gnu
packages=(libjpeg62-turbo libjpeg62-turbo-dev libpng16-16 libpng-dev zlib1g
          zlib1g-dev libwebp7 libwebpdemux2 libwebp-dev libpopt0 libpopt-dev libjansson4 libjansson-dev
          libxxhash-dev librandom123-dev libcunit1 libcunit1-dev)
kernel_tests=(check_simd test_augment test_packed test_planes)

not_run() { echo "not run: $*"; exit 77; }

for tool in aarch64-linux-gnu-gcc apt-get dpkg-deb; do
    command -v $tool >/dev/null || not_run "$tool is not installed"
done
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) ||
    not_run "qemu-aarch64 is not installed"
beside=$lib:$root/lib/aarch64-linux-gnu
qemu=("$qemu" -L /usr/aarch64-linux-gnu
      -E "LD_LIBRARY_PATH=$beside:$where/build:$where/build/tests")
mkdir -p "$where"

. "$(dirname "$0")/arm64.sh"
libraries()
{
    local debs=$where/debs
    mkdir -p "$debs"
    arm64_apt "$where/apt" update || true
    (cd "$debs" && arm64_apt "$where/apt" download "${packages[@]}") &&
        arm64_unpack "$debs" "$root"
}

# pkg-config and CMake look into the folder only; gcc has its own libc.
build_arm()
{
    export PKG_CONFIG_LIBDIR=$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
    local args=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux
                -DCMAKE_SYSTEM_PROCESSOR=aarch64
                -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc
                -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu
                "-DCMAKE_C_FLAGS=-isystem $root/usr/include/aarch64-linux-gnu"
                "-DCMAKE_FIND_ROOT_PATH=$root"
                -DCMAKE_FIND_ROOT_PATH_MODE_{LIBRARY,INCLUDE}"=ONLY"
                -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER
                "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-rpath-link,$beside"
                "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-rpath-link,$beside"
                -DHEADRACE_{TESTS,WERROR}"=ON"
                -DHEADRACE_{OPENCL,VAAPI,PYTHON}"=OFF"
                "-DCMAKE_CROSSCOMPILING_EMULATOR=$(IFS=\;; echo "${qemu[*]}")")
    if command -v ccache >/dev/null; then
        args+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    fi
    cmake -S "$source" -B "$where/build" "${args[@]}" >"$where/build.log" &&
        cmake --build "$where/build" -j "${HEADRACE_JOBS:-$(nproc)}" \
              --target headrace test_conformance "${kernel_tests[@]}" \
              >>"$where/build.log"
}

arm() { "${qemu[@]}" "$where/build/$1" "${@:2}"; }

# Prints the last line of a program; all of it where something failed. 77: parts
# of it are not for this build, such as engines.
arm_test()  # program [case]
{
    local rc=0
    HEADRACE_TEST_ALARM=1200 arm "tests/$1" "${@:2}" >"$where/$1.log" 2>&1 ||
        rc=$?
    ((rc == 0 || rc == 77)) || { cat "$where/$1.log"; return 1; }
    grep "^$1: " "$where/$1.log" | tail -n 1
}

# Pictures that fail are among them: 1. Time is not what is compared.
run()  # folder command...
{
    local out=$where/$1 rc=0
    shift
    rm -rf "$out"
    mkdir "$out"
    "$@" run --list "$where/list" --ops decode --dtype u8 --layout nhwc \
         --on-error zero --backend cpu --max-item-ms 600000 --quiet \
         --out "$out/" 2>"$out.err" || rc=$?
    ((rc <= 1)) || { cat "$out.err"; return 1; }
}

[[ -e $lib/libcunit.so && -e $lib/libwebp.so ]] || libraries >"$where/apt.log" 2>&1 ||
    not_run "Debian's libraries for arm64: $(tail -n 1 "$where/apt.log")"
build_arm || { tail -n 40 "$where/build.log"; exit 1; }
[[ $(arm headrace devices) == *" neon kernels"* ]] ||
    { echo "the NEON kernels are not what works there"; exit 1; }
for name in "${kernel_tests[@]}"; do
    arm_test "$name"
done
arm_test test_conformance cpu_masks
if [[ ! -d $corpus ]]; then
    corpus=$where/samples
    "$build/headrace" samples --count 8 "$corpus" >/dev/null
fi
{
    find "$corpus/kinds" "$corpus/bad" -type f | sort
    find "$corpus/photos" -type f | sort | head -n 50
} >"$where/list"
run here "$build/headrace"
run there arm headrace
made=$(find "$where/here" -name '*.npy' | wc -l)
echo "$(wc -l <"$where/list") files of $corpus, $made of them decode"
((made >= 50)) || { echo "too few"; exit 1; }
if ! diff -rq "$where/here" "$where/there"; then
    echo "Arm makes other pictures, or other messages (manifest.json)"
    exit 1
fi
echo "0 differ: bytes, statuses, messages"
