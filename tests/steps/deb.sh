#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages, and what else must work on a machine that has none of
# this checkout: an empty Debian.
#   deb.sh make       build/deb/packages/*.deb
#   deb.sh test       that, and in an empty Debian: installed, used, removed
#   deb.sh sdist      pip installs the source archive in an empty Debian
#   deb.sh container  the image of examples/container is built and used
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dir=$build/deb
run=$dir/run-$1 log=$dir/$1.log
debs=$dir/packages

make_packages()
{
    needs_tool dpkg-shlibdeps cpack
    configure "$dir" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr \
        -DHEADRACE_DEB=ON -DHEADRACE_TESTS=OFF -DHEADRACE_PYTHON=ON -DHEADRACE_TOOLS=ON \
        -DHEADRACE_OPENCL=ON -DHEADRACE_VAAPI=ON || return 1
    compile "$dir" >"$log" ||
        { cat "$log"; return 1; }
    rm -rf "$debs"
    (cd "$dir" && cpack -B "$debs" >"$log" 2>&1) ||
        { cat "$log"; return 1; }
    rm -rf "$debs/_CPack_Packages"
    ls "$debs"
}

# The empty Debian is kept: making it takes a minute and a download.
empty_debian()
{
    local mirror list=/etc/apt/sources.list.d/debian.sources
    [[ ! -e $dir/root.done ]] || return 0
    mirror=$(sed -n 's/^URIs: *//p' "$list" 2>/dev/null | head -n 1)
    rm -rf "$dir/root"
    debootstrap --variant=minbase --include=ca-certificates bookworm \
        "$dir/root" "${mirror:-http://deb.debian.org/debian}" \
        >"$log" 2>&1 || { tail -n 3 "$log"; return 1; }
    : >"$dir/root.done"
}

inside() { as_root chroot "$run" /usr/bin/env -i \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }

files_of_root() { (cd "$run" && find usr -path '*headrace*' | sort); }

needs_debian()
{
    ((EUID == 0)) || skip "an empty Debian needs root"
    needs_tool debootstrap
    mkdir -p "$dir"
    (flock 9 && empty_debian) 9>"$dir/lock" ||
        skip "an empty Debian cannot be had"
}

# A copy of it, for one test.
new_run()
{
    rm -rf "$run"
    cp -a "$dir/root" "$run"
}

install_inside()  # package...
{
    inside apt-get install -y -q --no-install-recommends "$@" \
        >"$log" 2>&1 || { tail -n 20 "$log"; return 1; }
}

test_packages()
{
    needs_debian
    make_packages || return 1
    new_run
    cp "$debs"/*.deb "$run/tmp/"
    inside sh -c 'echo /tmp/*.deb' >"$dir/debs"
    # shellcheck disable=SC2046
    install_inside $(cat "$dir/debs") gcc libc6-dev pkg-config || return 1
    inside headrace samples /tmp/s --photos-only --count 2
    inside headrace run /tmp/s --out /tmp/x.npy --ops decode,resize=64x64
    sed -n '/^```c$/,/^```$/{/^```/!p}' "$root/README.md" \
        >"$run/tmp/demo.c"
    inside sh -c 'cc -std=gnu11 -o /tmp/demo /tmp/demo.c \
        $(pkg-config --cflags --libs headrace) &&
        /tmp/demo $(find /tmp/s -name "*.jpg" | head -n 1)'
    inside python3 -c 'import headrace
print(headrace.version(), [d["name"] for d in headrace.devices()])'
    inside sh -c 'apt-get purge -y -q headrace libheadrace-dev \
        python3-headrace "libheadrace[0-9]*"' >"$log" 2>&1 ||
        { tail -n 20 "$log"; return 1; }
    files_of_root >"$dir/left"
    [[ ! -s $dir/left ]] || { echo "left behind:"; cat "$dir/left"; return 1; }
    rm -rf "$run"
    echo "note: $(compgen -G "$debs/*.deb" | wc -l) packages"
}

# The compiler and the libraries' headers are Debian's, as docs/install.md says;
# what pip builds with comes along, so that the empty Debian asks no registry.
test_sdist()
{
    local tools
    needs_debian
    bash "${BASH_SOURCE[0]%/*}/wheel.sh" sdist >"$log" 2>&1 ||
        { cat "$log"; return 1; }
    tools=$(venv wheel)
    new_run
    mkdir "$run/tmp/pip"
    cp "$build"/sdist/headrace-*.tar.gz "$run/tmp/"
    "$tools" -m pip download -q --python-version 3.11 --only-binary :all: \
        -d "$run/tmp/pip" scikit-build-core pathspec packaging ||
        skip "what pip builds with cannot be had"
    install_inside python3-venv python3-dev "${packages_run[@]}" || return 1
    inside sh -c 'cd /tmp && python3 -m venv v &&
        v/bin/pip install -q --no-index --find-links /tmp/pip headrace-*.tar.gz' ||
        return 1
    inside sh -c 'cd /tmp && v/bin/headrace samples s --photos-only --count 2 &&
        v/bin/headrace run s --out x.npy --ops decode,resize=64x64'
    inside /tmp/v/bin/python -c 'import headrace
print(headrace.version(), [d["name"] for d in headrace.devices()])'
    rm -rf "$run"
    echo "note: $(wc -c <"$(compgen -G "$build/sdist/headrace-*.tar.gz")") bytes"
}

# Its base image is the empty Debian, under the name that the recipe gives, so
# no registry is asked.
test_container()
{
    local box=(--storage-driver vfs --root "$dir/box/root"
               --runroot "$dir/box/run")
    local image base=docker.io/library/debian:bookworm-slim
    needs_debian
    needs_tool buildah git
    rm -rf "$dir/box"
    mkdir -p "$dir/box/context"
    git -C "$root" archive HEAD | tar -x -C "$dir/box/context"
    image=$(buildah "${box[@]}" from scratch) &&
        buildah "${box[@]}" add -q "$image" "$dir/root" / >"$log" 2>&1 &&
        buildah "${box[@]}" commit -q --rm "$image" "$base" \
            >"$log" 2>&1 || {
        tail -n 3 "$log"
        skip "buildah cannot make an image here"
    }
    buildah "${box[@]}" bud --isolation chroot --pull-never -t headrace \
        -f "$dir/box/context/examples/container/Dockerfile" \
        --ignorefile "$dir/box/context/examples/container/Dockerfile.dockerignore" \
        "$dir/box/context" >"$log" 2>&1 ||
        { tail -n 20 "$log"; return 1; }
    image=$(buildah "${box[@]}" from --pull-never headrace)
    mkdir -m 777 "$dir/box/data"
    in_image() { buildah "${box[@]}" run --isolation chroot \
        -v "$dir/box/data:/data" "$image" -- "$@"; }
    in_image headrace samples s --photos-only --count 2
    in_image headrace run s --out x.npy --ops decode,resize=64x64
    in_image python3 -c 'import headrace, os
print(headrace.version(), [d["name"] for d in headrace.devices()], os.getuid())'
    [[ -s $dir/box/data/x.npy ]]
    buildah "${box[@]}" rm "$image" >"$log"
    rm -rf "$dir/box"
}

set -e
case $1 in
make) make_packages ;;
test) test_packages ;;
sdist) test_sdist ;;
container) test_container ;;
esac
