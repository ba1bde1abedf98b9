# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # most of these are for those who source this
#
# Versions, paths and small functions that the scripts of the project share, beside those of
# base.sh. Sourced, never run.
#
# The cache lies outside the checkout: $OXE_CACHE, or oxe/ under the user's cache directory. Each
# stage of the set-up has its own entry there, named by its versions and by a hash of its sources,
# so an edit of a stage's recipe makes a new entry and never spoils the old one.

. "$(dirname "${BASH_SOURCE[0]}")/base.sh"

# The system: Debian's suite, and the kernels of its backports that oxe is built and tested for,
# newest first. The kernel's source package is named by the first two numbers of the version.
# check-kernels tries others, one at a time.
OXE_SUITE=trixie
OXE_KERNELS=(7.3.4+deb13-amd64 7.2.12+deb13-amd64)
# The same for another architecture, with roots of its own: KERNEL=arm64 compiles across, and boots
# a machine with an emulated CPU of that kind.
OXE_KERNEL_ARM64=7.3.4+deb13-arm64
case ${KERNEL:-} in
arm64) KERNEL=$OXE_KERNEL_ARM64 OXE_KERNELS=("$OXE_KERNEL_ARM64") ;;
*-arm64) OXE_KERNELS=("$OXE_KERNEL_ARM64") ;;
esac
[ -z "${OXE_ONLY_KERNEL:-}" ] || OXE_KERNELS=("$OXE_ONLY_KERNEL")
# The tests in the virtual machine that show that the module fits a kernel.
OXE_FIT_TESTS=(link verbs-rc verbs-uc verbs-ud cm ops loopback capture interop)

# An ordinary user's PATH may lack where chroot and the like are.
PATH=$PATH:/usr/sbin:/sbin

# The kernel in use: the newest, or the one that KERNEL= names, in full or by its first numbers
# (KERNEL=7.2).
OXE_KVER=
for OXE_KVER in "${OXE_KERNELS[@]}" ''; do
	[[ $OXE_KVER != "${KERNEL:-}"* ]] || break
done
[ -n "$OXE_KVER" ] ||
	die "KERNEL=$KERNEL names none of the kernels in scripts/common.sh: ${OXE_KERNELS[*]}"

# Arguments of make for Debian's kernel, so that the module's version string and its compiler are
# those of the stock kernel; and for the debug kernel (Rust with KASAN needs clang).
OXE_ARCH=${OXE_KVER##*-}
OXE_STOCK_ARGS="LOCALVERSION=+${OXE_KVER#*+}"
case $OXE_ARCH in
arm64)
	OXE_STOCK_ARGS+=" ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- CC=aarch64-linux-gnu-gcc-14"
	;;
*) OXE_STOCK_ARGS+=" CC=x86_64-linux-gnu-gcc-14" ;;
esac
# Kbuild refuses a series that oxe is not made for; check-kernels tries it.
[ -z "${OXE_ONLY_KERNEL:-}" ] || OXE_STOCK_ARGS+=" oxe_series=$(source_of "$OXE_ONLY_KERNEL")"
OXE_DEBUG_ARGS="LLVM=1"

# hash_of FILE...: twelve hex digits naming the contents of these files, the suite and the kernels.
hash_of() {
	{ echo "$OXE_SUITE ${OXE_KERNELS[*]}"; cat "$@"; } | sha256sum | cut -c1-12
}

# Where each stage keeps its product. Build root and guest are for all kernels, the debug kernel is
# of the newest source.
OXE_BUILDROOT=$OXE_CACHE/buildroot-$OXE_SUITE-$(hash_of \
	"$OXE_SCRIPTS"/{mmdebstrap.sh,setup-buildroot})
OXE_TREE=$OXE_CACHE/tree-$OXE_KVER-$(hash_of \
	"$OXE_SCRIPTS"/{mmdebstrap.sh,setup-buildroot,setup-tree})
OXE_GUEST=$OXE_CACHE/guest-$OXE_SUITE-$(hash_of \
	"$OXE_SCRIPTS"/{mmdebstrap.sh,setup-buildroot,setup-guest,guest-initramfs})
OXE_DEBUG_SOURCE=$(source_of "${OXE_KERNELS[0]}")
OXE_DEBUG_TREE=$OXE_CACHE/debug-$OXE_DEBUG_SOURCE-$(hash_of \
	"$OXE_SCRIPTS"/{mmdebstrap.sh,setup-buildroot,setup-debug,debug-kernel.config})

# sdk_of PACKAGE...: where the root is in which users' programs are compiled (setup-sdk): there is
# one for each list of further packages.
sdk_of() {
	local of_recipe
	of_recipe=$(hash_of "$OXE_SCRIPTS"/{mmdebstrap.sh,setup-buildroot,setup-sdk})
	echo "$OXE_CACHE/sdk-$OXE_SUITE-$(echo "$of_recipe $*" | sha256sum | cut -c1-12)"
}

# The root in which make deb builds the packages, and the one in which they are tested; nothing else
# uses these.
OXE_PACKAGING=$OXE_CACHE/packaging-$OXE_SUITE-$(hash_of \
	"$OXE_SCRIPTS"/{mmdebstrap.sh,setup-packaging})
OXE_PLAIN=$OXE_CACHE/plain-$OXE_SUITE-$(hash_of "$OXE_SCRIPTS"/{mmdebstrap.sh,setup-plain})
# The kernel trees that prepare-kernel makes there: it would remove those of this machine's kernels,
# whose headers are not there.
OXE_DEB_CACHE=$OXE_CACHE/deb

# Where the module built for the kernel in use is, and that for the debug kernel.
OXE_BUILD=$OXE_TOP/build/$OXE_KVER
OXE_DEBUG_BUILD=$OXE_TOP/build/debug

# Where the build root sees the two kernel trees.
OXE_IN_TREE=/usr/src/oxe-stock
OXE_IN_DEBUG_TREE=/usr/src/oxe-debug

# make_stage FINAL COMMAND...: run COMMAND with a temporary name as its last argument, then rename
# that to FINAL. The remains of an interrupted run are removed first, so FINAL is either whole or
# absent. Processes and mounts of COMMAND end with it, however it ends: a mount left in the
# temporary directory could not be removed.
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

# Reports that a sound kernel never makes (ref_tracker's own lack of memory, where faults are
# injected, is none of them). No test provokes one of these on purpose.
OXE_REPORTS='WARNING:|BUG:|Oops|Call Trace|KASAN|UBSAN|KCSAN|refcount_t:|suspicious RCU|'
OXE_REPORTS+='possible (circular|recursive) locking|inconsistent lock state|'
OXE_REPORTS+='unregister_netdevice: waiting|waiting for .* to become free|'
OXE_REPORTS+='blocked for more than|rcu: INFO:|soft lockup|hard LOCKUP|'
OXE_REPORTS+='sleeping function called|scheduling while atomic|ODEBUG|ref_tracker: [^m]|'
OXE_REPORTS+='restrack: .*leak|general protection|Unable to handle|panicked at|'
OXE_REPORTS+='list_(add|del) corruption|Kernel panic'

# need_root ARGUMENT...: the rest of the script, whose arguments these are, runs as root. An
# ordinary user's script starts again in a user namespace in which this user is root; their
# subordinate ids are the other users there.
need_root() {
	[ "$(id -u)" != 0 ] || return 0
	local name=${0##*/} user
	user=$(id -un)
	command -v newuidmap >/dev/null ||
		die "there is no newuidmap: install uidmap (Debian, Ubuntu; Fedora: shadow-utils," \
			"Arch: shadow), or run this as root"
	if ! grep -qE "^($user|$(id -u)):" /etc/subuid || ! grep -qE "^($user|$(id -u)):" /etc/subgid; then
		die "$user has no subordinate ids in /etc/subuid and /etc/subgid: run" \
			"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $user as root" \
			"(other numbers if these are taken there), or run this as root"
	fi
	unshare --user --map-root-user --map-auto --mount --pid --fork --mount-proc true 2>/dev/null ||
		die "this machine does not let $user make user namespaces with their own mounts: run this" \
			"as root, or allow it (sysctl kernel.apparmor_restrict_unprivileged_userns=0 on" \
			"Ubuntu, kernel.unprivileged_userns_clone=1 on older systems; unshare must be of" \
			"util-linux 2.38 or newer; containers often forbid it)"
	exec unshare --user --map-root-user --map-auto -- "$OXE_SCRIPTS/$name" "$@"
}
