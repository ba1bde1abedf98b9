# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # most of these are for those who source this
#
# Versions, paths and small functions that every script here shares. Sourced, never run.
#
# The cache lies outside the checkout: $OXE_CACHE, or oxe/ under the user's cache directory. Each stage
# of the set-up has its own entry there, named by its versions and by a hash of what it is made
# from, so an edit of a stage's recipe makes a new entry and never spoils the old one.

# The pinned system: Debian's suite, its backports kernel, and that kernel's source package.
OXE_SUITE=trixie
OXE_KVER=7.2.12+deb13-amd64
OXE_KSRC=7.2

OXE_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
OXE_SCRIPTS=$OXE_TOP/scripts
OXE_CACHE=${OXE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var}/.cache}/oxe}

# What one must say to make for Debian's kernel, so that the module's version string and its compiler
# are those of the stock kernel; and for the debug kernel (Rust with KASAN needs clang).
OXE_STOCK_ARGS="LOCALVERSION=+deb13-amd64 CC=x86_64-linux-gnu-gcc-14"
OXE_DEBUG_ARGS="LLVM=1"

say() { printf 'oxe: %s\n' "$*" >&2; }
die() { printf 'oxe: error: %s\n' "$*" >&2; exit 1; }

# step TEXT: announce a long step with the time since the first of these scripts began.
export OXE_BEGAN=${OXE_BEGAN:-$EPOCHSECONDS}
step() { printf 'oxe: [%3d s] %s\n' $((EPOCHSECONDS - OXE_BEGAN)) "$*" >&2; }

# hash_of FILE...: twelve hex digits naming the contents of these files and the pinned versions.
hash_of() {
	{ echo "$OXE_SUITE $OXE_KVER"; cat "$@"; } | sha256sum | cut -c1-12
}

# Where each stage keeps its product.
OXE_BUILDROOT=$OXE_CACHE/buildroot-$OXE_SUITE-$(hash_of "$OXE_SCRIPTS"/{mmdebstrap.sh,setup-buildroot})
OXE_TREE=$OXE_CACHE/tree-$OXE_KVER-$(hash_of "$OXE_SCRIPTS"/{mmdebstrap.sh,setup-buildroot,setup-tree})
OXE_GUEST=$OXE_CACHE/guest-$OXE_KVER-$(hash_of "$OXE_SCRIPTS"/{mmdebstrap.sh,setup-buildroot,setup-guest,guest-initramfs})
OXE_DEBUG_TREE=$OXE_CACHE/debug-$OXE_KSRC-$(hash_of "$OXE_SCRIPTS"/{mmdebstrap.sh,setup-buildroot,setup-debug,debug-kernel.config})

# Where the build root sees the two kernel trees.
OXE_IN_TREE=/usr/src/oxe-stock
OXE_IN_DEBUG_TREE=/usr/src/oxe-debug

# make_stage FINAL COMMAND...: run COMMAND with a temporary name as its last argument, then rename that to FINAL.
# What an interrupted run left behind is removed first, so FINAL is either whole or absent. Processes and mounts of
# COMMAND end with it, in whatever way that ends: a mount left in the temporary directory could not be removed.
make_stage() {
	local final=$1
	shift
	[ ! -e "$final" ] || return 0
	rm -rf --one-file-system "$final".tmp
	mkdir -p "$OXE_CACHE"
	unshare --mount --pid --fork --kill-child --mount-proc "$@" "$final".tmp
	sync -f "$OXE_CACHE"
	mv "$final".tmp "$final"
}

need_root() {
	[ "$(id -u)" = 0 ] || die "this needs root (chroot and mount namespaces): run it as root or under sudo"
}
