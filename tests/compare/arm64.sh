# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Debian's packages for 64-bit Arm in a folder, so that the system stays as it
# is. Sourced; each command's failure is the function's, also where -e is off.

# An apt of its own in a folder, which knows arm64 only and installs nothing.
arm64_apt()  # folder apt-get's-arguments...
{
    local state=$1
    mkdir -p "$state"/{lists,cache/archives}/partial || return 1
    : >"$state/status"
    cat >"$state/apt.conf" <<END
APT::Architecture "arm64";
APT::Architectures "arm64";
APT::Sandbox::User "root";
Dir::State "$state";
Dir::State::status "$state/status";
Dir::State::lists "$state/lists";
Dir::Cache "$state/cache";
END
    APT_CONFIG=$state/apt.conf timeout 300 apt-get -q "${@:2}"
}

# Unpacks a folder's packages to a root; links to libraries stay inside it.
arm64_unpack()  # folder root
{
    local root=$2 deb link target
    rm -rf "$root.new" "$root"
    mkdir -p "$root.new"
    for deb in "$1"/*.deb; do
        dpkg-deb -x "$deb" "$root.new" || return 1
    done
    for link in "$root.new"/usr/lib/aarch64-linux-gnu/*.so; do
        target=$(readlink "$link") || continue
        [[ $target != /* ]] || ln -sf "$root$target" "$link"
    done
    mv "$root.new" "$root"
}
