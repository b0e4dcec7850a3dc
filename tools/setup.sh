# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What is installed, and how the tree is built: ./dev and the steps of
# tests/steps/ source it. `root` is the tree.
set -euo pipefail

# Another place for everything built.
build=$(realpath -m -- "${HEADRACE_BUILD:-$root/build}")
jobs=${HEADRACE_JOBS:-$(nproc)}
export HEADRACE_JOBS=$jobs  # CMake counts cores that the process may not use
python=/usr/bin/python3  # the distribution's: it has Pillow and torchvision

# shellcheck disable=SC2034
{
packages_run=(gcc libc6-dev cmake ninja-build pkg-config libjpeg-dev libpng-dev
              libwebp-dev
              libpopt-dev libjansson-dev librandom123-dev opencl-headers
              libxxhash-dev libarchive-dev libcurl4-openssl-dev libhwloc-dev
              libjs-chart.js libva-dev)
packages_python=(python3 python3-dev python3-venv)
packages_test=(g++ binutils ccache lld libcunit1-dev nginx-light openssl
               "${packages_python[@]}" python3-pil python3-numpy python3-torch
               python3-torchvision)
packages_engines=(ocl-icd-libopencl1 pocl-opencl-icd libdrm-dev libva2
                  libva-drm2)
packages_arm=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
packages_full=(clang libclang-rt-14-dev mesa-opencl-icd oclgrind chromium
               vainfo ffmpeg doxygen dpkg-dev debootstrap buildah
               "${packages_arm[@]}")
packages_deb=(dpkg-dev file "${packages_python[@]}")
packages_docs=(doxygen "${packages_python[@]}")
packages_check=(clang-format cppcheck shellcheck clang libclang-rt-14-dev)
}

say() { printf '\033[1mdev:\033[0m %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

as_root()
{
    if ((EUID == 0)); then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        say "this needs root: $*"
        return 1
    fi
}

missing_packages()  # package... -> those not installed, one per line
{
    local installed
    # shellcheck disable=SC2016
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" \
                    2>/dev/null | sed -n 's/^installed //p' || true)
    comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$installed")
}

# Names the installed packages that these would upgrade. On a terminal it asks
# first, elsewhere it only tells; HEADRACE_SETUP=keep refuses.
may_upgrade()  # package...
{
    local old answer
    old=$(LC_ALL=C apt-get install -s -q --no-install-recommends "$@" \
              2>/dev/null | sed -n 's/^Inst \([^ ]*\) \[.*/\1/p' | tr '\n' ' ')
    [[ $old ]] || return 0
    say "for $* these are upgraded: $old(HEADRACE_SETUP=keep: never)"
    [[ ${HEADRACE_SETUP-} != keep ]] || return 1
    [[ -t 0 && -t 2 ]] || return 0
    read -rp 'dev: upgrade them? [y/N] ' answer || return 1
    [[ $answer == [yY]* ]]
}

apt_install()
{
    may_upgrade "$@" || return 2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
        --no-install-recommends -o Dpkg::Use-Pty=0 "$@" </dev/null
}

apt_lists_present()
{
    compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null
}

# Installs what is missing. Fails if something stays missing.
setup()  # package...
{
    local missing package
    [[ ${HEADRACE_SETUP-1} != 0 ]] || return 0
    if ! have dpkg-query || ! have apt-get; then
        say "not a Debian: please see to it that these are there: $*"
        return 0
    fi
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]})) || return 0
    say "installing ${missing[*]}"
    if ! apt_lists_present; then
        as_root apt-get update -q || true
    fi
    apt_install "${missing[@]}" && return 0
    if (($? != 2)); then
        say "again, with fresh package lists"
        as_root apt-get update -q || true
        apt_install "${missing[@]}" && return 0
    fi
    say "not all at once, so one by one"
    for package in "${missing[@]}"; do
        apt_install "$package" || true
    done
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]})) || return 0
    say "could not be installed: ${missing[*]}"
    return 1
}

# The interpreter of a virtual environment with the pinned releases of a file
# in tests/python/; made once, and again when the file changes.
# interpreter: it sees that one's packages, too, and what that one sees, and is
# of the same Python.
# (A shell of its own, which holds the lock: steps run side by side.)
venv()  # name [interpreter]
(
    dir=$build/venv-$1 want=$root/tests/python/$1.txt site=
    mkdir -p "$build"
    exec 9>"$dir.lock"
    ! have flock || flock 9
    [[ ! ${2-} ]] || site=$("$2" -c 'import os, sys, sysconfig
print(sysconfig.get_path("purelib"))
below = os.path.join(sys.prefix, "others.txt")
if os.path.exists(below):
    print(open(below).read())') || return 1
    if ! cmp -s "$want" "$dir/installed.txt" ||
       [[ $(cat "$dir/others.txt" 2>/dev/null) != "$site" ]]; then
        [[ ${HEADRACE_SETUP-1} != 0 ]] || return 1
        say "installing the packages of tests/python/$1.txt in $dir"
        rm -rf "$dir"
        "${2:-$python}" -m venv "$dir" >&2 && venv_sees "$dir" "$site" &&
            "$dir/bin/pip" install -q --disable-pip-version-check \
                --no-cache-dir -r "$want" >&2 &&
            cp "$want" "$dir/installed.txt" || return 1
    fi
    echo "$dir/bin/python"
)

venv_sees()  # folder site-packages
{
    local own
    [[ $2 ]] || return 0
    own=$("$1/bin/python" -c 'import sysconfig
print(sysconfig.get_path("purelib"))') &&
        echo "$2" | tee "$1/others.txt" >"$own/others.pth"
}

# ---- build -----------------------------------------------------------------

# ccache finds a file's includes by the compiler's dependency file, and runs no
# preprocessor of its own: that saves a fifth of the time with a cold cache.
export CCACHE_DEPEND=1

configure()  # folder cmake-args...
{
    local dir=$1 cache=$1/CMakeCache.txt args=()
    shift
    # A folder that was copied with the tree still points to the old tree.
    if [[ -e $cache ]] &&
       ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
        rm -rf "$dir"
    fi
    if [[ ! -e $cache ]] && have ninja; then
        args+=(-G Ninja)
    fi
    if have ccache; then
        args+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    fi
    [[ ! -x $python ]] || args+=("-DPython3_EXECUTABLE=$python")
    mkdir -p "$dir"
    cmake -S "$root" -B "$dir" "${args[@]}" "$@" >"$dir/configure.log" 2>&1 ||
        { cat "$dir/configure.log"; return 1; }
}

compile()  # folder [target...]
{
    local dir=$1
    shift
    cmake --build "$dir" -j "$jobs" ${1+--target "$@"}
}

# Shows how far cmake --build is: on a terminal in one line that changes,
# elsewhere in a line for each quarter.
show_progress()
{
    local line now told=0
    while IFS= read -r line; do
        if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
            now=$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
        elif [[ $line =~ ^\[\ *([0-9]+)%\] ]]; then
            now=${BASH_REMATCH[1]}
        else
            continue
        fi
        if [[ -t 2 ]]; then
            printf '\r\033[Kdev: %d %% ' "$now" >&2
        elif ((now >= told + 25)); then
            told=$((now / 25 * 25))
            say "$told % built"
        fi
    done
    [[ ! -t 2 ]] || printf '\r\033[K' >&2
}
