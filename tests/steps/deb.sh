#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages.
#   deb.sh make  build/deb/packages/*.deb
#   deb.sh test  that, and in an empty Debian: installed, used, removed
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dir=$build/deb
debs=$dir/packages

make_packages()
{
    needs_tool dpkg-shlibdeps cpack
    configure "$dir" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr \
        -DHEADRACE_DEB=ON -DHEADRACE_TESTS=OFF -DHEADRACE_PYTHON=ON -DHEADRACE_TOOLS=ON \
        -DHEADRACE_OPENCL=ON -DHEADRACE_VAAPI=ON || return 1
    compile "$dir" >"$dir/log" ||
        { cat "$dir/log"; return 1; }
    rm -rf "$debs"
    (cd "$dir" && cpack -B "$debs" >"$dir/log" 2>&1) ||
        { cat "$dir/log"; return 1; }
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
        >"$dir/log" 2>&1 || { tail -n 3 "$dir/log"; return 1; }
    : >"$dir/root.done"
}

inside() { as_root chroot "$dir/run" /usr/bin/env -i \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }

files_of_root() { (cd "$dir/run" && find usr -path '*headrace*' | sort); }

test_packages()
{
    ((EUID == 0)) || skip "an empty Debian needs root"
    needs_tool debootstrap
    make_packages || return 1
    empty_debian || skip "an empty Debian cannot be had"
    rm -rf "$dir/run"
    cp -a "$dir/root" "$dir/run"
    cp "$debs"/*.deb "$dir/run/tmp/"
    inside sh -c 'apt-get install -y -q --no-install-recommends /tmp/*.deb \
        gcc libc6-dev pkg-config' >"$dir/log" 2>&1 ||
        { tail -n 20 "$dir/log"; return 1; }
    inside headrace samples /tmp/s --photos-only --count 2
    inside headrace run /tmp/s --out /tmp/x.npy --ops decode,resize=64x64
    sed -n '/^```c$/,/^```$/{/^```/!p}' "$root/README.md" \
        >"$dir/run/tmp/demo.c"
    inside sh -c 'cc -std=gnu11 -o /tmp/demo /tmp/demo.c \
        $(pkg-config --cflags --libs headrace) &&
        /tmp/demo $(find /tmp/s -name "*.jpg" | head -n 1)'
    inside python3 -c 'import headrace
print(headrace.version(), [d["name"] for d in headrace.devices()])'
    inside sh -c 'apt-get purge -y -q headrace libheadrace-dev \
        python3-headrace "libheadrace[0-9]*"' >"$dir/log" 2>&1 ||
        { tail -n 20 "$dir/log"; return 1; }
    files_of_root >"$dir/left"
    [[ ! -s $dir/left ]] || { echo "left behind:"; cat "$dir/left"; return 1; }
    rm -rf "$dir/run"
    echo "note: $(compgen -G "$debs/*.deb" | wc -l) packages"
}

set -e
case $1 in
make) make_packages ;;
test) test_packages ;;
esac
