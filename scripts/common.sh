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

# The kernels of Debian 13's backports that oxe is built and tested for, newest first. The archive
# drops versions: where one is gone, choose-kernel takes another (see setup).
OXE_KERNELS=(7.3.4+deb13-amd64 7.2.12+deb13-amd64)
# For another architecture there are roots of its own: KERNEL=arm64 compiles across, and boots a
# machine with an emulated CPU of that kind.
OXE_KERNEL_ARM64=7.3.4+deb13-arm64
# The tests in the virtual machine that show that the module fits a kernel (test-fit), and those of
# them that make test runs on other kernels than the first.
OXE_FIT_TESTS=(link verbs-rc verbs-uc verbs-ud srq cm mcast ops loopback keys remove capture
	pyverbs-suite interop)
OXE_SHORT_FIT_TESTS=(link verbs-rc verbs-ud cm keys)
# Those in which contexts meet most often (test-nightly repeats them).
OXE_SOAK_TESTS=(cq errors kill loss mcast odp remove ring srq timers)

# An ordinary user's PATH may lack where chroot and the like are.
PATH=$PATH:/usr/sbin:/sbin

# is_kernel NAME: is this the name of one of Debian's kernels, as 7.3.4+deb13-cloud-amd64?
is_kernel() { [[ $1 =~ ^[0-9][0-9.]*\+deb[0-9]+(\+[0-9]+)?-([a-z]+-)?(amd64|arm64)$ ]]; }

# wanted_kernel: the kernel that KERNEL= names: one of the list by its first numbers (7.2), any by
# its full name, arm64, cloud (the newest of the list in the flavour for clouds), or a suite of
# Debian's, testing or sid, for the newest kernel there. Without KERNEL= "default": the first of the
# list whose series the archive has.
wanted_kernel() {
	local kernel
	case ${KERNEL:-} in
	'') echo default; return ;;
	arm64) echo "$OXE_KERNEL_ARM64"; return ;;
	cloud) echo "${OXE_KERNELS[0]/-/-cloud-}"; return ;;
	testing | sid) echo "$KERNEL"; return ;;
	esac
	for kernel in "${OXE_KERNELS[@]}"; do
		[[ $kernel != "$KERNEL"* ]] || { echo "$kernel"; return; }
	done
	is_kernel "$KERNEL" ||
		die "KERNEL=$KERNEL is neither one of the kernels in scripts/common.sh" \
			"(${OXE_KERNELS[*]}), nor the full name of another, as" \
			"7.3.4+deb13-cloud-amd64, nor arm64, cloud, testing or sid"
	echo "$KERNEL"
}
OXE_WANTED=$(wanted_kernel)
[[ $OXE_WANTED != *-rt-* ]] ||
	die "$OXE_WANTED: PREEMPT_RT is not supported. oxe's locks are taken with bottom halves" \
		"or interrupts off, which that kernel does not let them be; take" \
		"${OXE_WANTED/-rt-/-}"

# hash_of WORD... -- FILE...: twelve hex digits naming these words and the contents of these
# scripts.
hash_of() {
	local words=()
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	{ echo "${words[*]}"; (cd "$OXE_SCRIPTS" && cat /dev/null "$@"); } | sha256sum | cut -c1-12
}

# The file that says what setup took for a wanted kernel: its name, suite and package version. Where
# it is missing, it is the very kernel that was wanted.
taken_file() { # WANTED
	local name=$1
	[ "$name" != default ] || name=default-$(hash_of "${OXE_KERNELS[@]}" --)
	echo "$OXE_CACHE/taken/$name"
}

# use_kernel: the names and paths that depend on the kernel in use, after what setup took.
use_kernel() {
	local of_root
	OXE_KVER=$OXE_WANTED
	[ "$OXE_WANTED" != default ] || OXE_KVER=${OXE_KERNELS[0]}
	OXE_SUITE=trixie
	case $OXE_KVER in
	testing | *+deb14*) OXE_SUITE=testing ;;
	sid) OXE_SUITE=sid ;;
	esac
	if [ -e "$(taken_file "$OXE_WANTED")" ]; then
		read -r OXE_KVER OXE_SUITE _ <"$(taken_file "$OXE_WANTED")"
	fi
	OXE_ARCH=amd64
	[[ $OXE_KVER != *-arm64 ]] || OXE_ARCH=arm64
	# The compiler that the suite's kernels are made by.
	OXE_GCC=14
	[ "$OXE_SUITE" = trixie ] || OXE_GCC=15

	# Arguments of make for Debian's kernel, so that the module's version string and its
	# compiler are those of the stock kernel; and for the debug kernel (Rust with KASAN needs
	# clang).
	OXE_STOCK_ARGS="LOCALVERSION=+${OXE_KVER#*+}"
	case $OXE_ARCH in
	arm64)
		OXE_STOCK_ARGS+=" ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-"
		OXE_STOCK_ARGS+=" CC=aarch64-linux-gnu-gcc-$OXE_GCC"
		;;
	*) OXE_STOCK_ARGS+=" CC=x86_64-linux-gnu-gcc-$OXE_GCC" ;;
	esac
	# Kbuild refuses a series that oxe is not made for; a kernel of one that is asked for by its
	# name, or is all that the archive has, is tried.
	is_known_series "$(source_of "$OXE_KVER")" ||
		OXE_STOCK_ARGS+=" oxe_series=$(source_of "$OXE_KVER")"
	OXE_DEBUG_ARGS="LLVM=1"

	# Where each stage keeps its product. Build root and guest are for all kernels of a suite.
	of_root=$OXE_SUITE-$OXE_ARCH
	OXE_BUILDROOT=$OXE_CACHE/buildroot-$of_root-$(hash_of -- mmdebstrap.sh setup-buildroot)
	OXE_GUEST=$OXE_CACHE/guest-$of_root-$(hash_of -- mmdebstrap.sh setup-guest)
	# The kernel: its sources (OXE_TREE: prepared for modules), its image and its modules; and
	# what the virtual machine boots from.
	OXE_LINUX=$OXE_CACHE/linux-$OXE_KVER-$(hash_of -- setup-linux)
	OXE_TREE=$OXE_LINUX/tree
	OXE_BOOT=$OXE_CACHE/boot-$OXE_KVER-$(hash_of "$OXE_LINUX" -- setup-boot guest-initramfs)
	# The debug kernel is of the same source.
	OXE_DEBUG_TREE=$OXE_CACHE/debug-$(source_of "$OXE_KVER")-$(
		hash_of -- setup-debug debug-kernel.config)
	OXE_DEBUG_BOOT=$OXE_CACHE/boot-debug-$(
		hash_of "$OXE_DEBUG_TREE" -- setup-boot guest-initramfs)
	# The root in which the packages for this kernel are tested.
	OXE_PLAIN=$OXE_CACHE/plain-$OXE_KVER-$(hash_of -- mmdebstrap.sh setup-plain)

	# Where the module built for the kernel in use is, and that for the debug kernel.
	OXE_BUILD=$OXE_TOP/build/$OXE_KVER
	OXE_DEBUG_BUILD=$OXE_TOP/build/debug
}

# is_known_series SERIES: is oxe made for it?
is_known_series() {
	[[ " $(sed -n 's/^oxe_series := //p' "$OXE_TOP/Kbuild") " == *" $1 "* ]]
}

use_kernel

# set_up ARGUMENT...: run setup; it may take another kernel than the one that was wanted.
set_up() {
	"$OXE_SCRIPTS/setup" "$@" || exit
	# A substitute was named: once a command.
	export OXE_TOLD=1
	use_kernel
}

# listed_kernels: the kernels of the list, as the archive has them now. One whose series is gone is
# left out, with the reason on stderr.
listed_kernels() {
	local kernel
	for kernel in "${OXE_KERNELS[@]}"; do
		KERNEL=$kernel "$OXE_SCRIPTS/setup" --choose || say "$kernel is left out"
	done
}

# need_build_directory DIRECTORY: it is there, and this user may write in it.
need_build_directory() {
	mkdir -p "$1" 2>/dev/null || true
	[ -z "$(find "$1" -maxdepth 1 ! -writable -print -quit 2>&1)" ] ||
		die "$(id -un) may not write in $1: an earlier run was another user's. Run make" \
			"clean as root, or work as that user"
}

# packaging_of KERNEL...: the root in which make deb builds the packages for these kernels.
packaging_of() {
	echo "$OXE_CACHE/packaging-$OXE_SUITE-$(hash_of "$@" -- mmdebstrap.sh setup-packaging)"
}

# sdk_of PACKAGE...: where the root is in which users' programs are compiled (setup-sdk): there is
# one for each list of further packages.
sdk_of() {
	local of_recipe
	of_recipe=$(hash_of -- mmdebstrap.sh setup-sdk)
	echo "$OXE_CACHE/sdk-$OXE_SUITE-$(echo "$of_recipe $*" | sha256sum | cut -c1-12)"
}

# bundle_of KIND: where the images of a bundle are (setup-bundle); slim or full.
bundle_of() {
	echo "$OXE_CACHE/bundle-$1-$OXE_KVER-$(hash_of "$OXE_BOOT" -- mmdebstrap.sh setup-bundle)"
}

# user_of SUITE: the root that stands for the machine of a user of oxe-run (setup-user).
user_of() { echo "$OXE_CACHE/user-$1-$(hash_of -- mmdebstrap.sh setup-user)"; }

# The root in which the documents are made into HTML (setup-docs); for all kernels.
OXE_DOCS=$OXE_CACHE/docs-trixie-$(hash_of -- mmdebstrap.sh setup-docs)

# packed DIRECTORY ARGUMENT...: zstd, as setup-bundle has left it there.
packed() {
	"$1"/tools/ld-linux-x86-64.so.2 --library-path "$1/tools" "$1/tools/zstd" -q "${@:2}"
}

# The kernel trees that prepare-kernel makes there: it would remove those of this machine's kernels,
# whose headers are not there.
OXE_DEB_CACHE=$OXE_CACHE/deb

# Where the build root sees the two kernel trees.
OXE_IN_TREE=/usr/src/oxe-stock
OXE_IN_DEBUG_TREE=/usr/src/oxe-debug

# make_stage FINAL COMMAND...: run COMMAND with a temporary name as its last argument, then rename
# that to FINAL. The remains of an interrupted run are removed first, so FINAL is either whole or
# absent. Processes and mounts of COMMAND end with it, however it ends: a mount left in the
# temporary directory could not be removed.
make_stage() {
	local final=$1 life
	shift
	[ ! -e "$final" ] || return 0
	rm -rf --one-file-system "$final".tmp
	mkdir -p "$OXE_CACHE"
	# It ends with this shell, however that ends.
	exec {life}> >(exec 9>&-; signs_of_life "$final".tmp)
	unshare --mount --pid --fork --kill-child --mount-proc "$@" "$final".tmp {life}>&-
	exec {life}>&-
	sync -f "$OXE_CACHE"
	mv "$final".tmp "$final"
}

# signs_of_life DIRECTORY: every ten seconds until stdin ends, the last line of the log of the stage
# that is made there, or else how much there is of it.
signs_of_life() {
	local status log text
	while status=0; read -rt 10 || status=$?; [ $status -gt 128 ]; do
		log=$(find "$1".log "$1"/*.log "$OXE_CACHE"/setup-*.log -mmin -0.2 2>/dev/null |
			head -n 1)
		text=''
		[ -z "$log" ] || text=$(tail -n 1 "$log" | tr -cd ' -~' | cut -c 1-70)
		[ -n "$text" ] || text="$(du -sm "$1" 2>/dev/null | cut -f 1) MB so far"
		step "  $text"
	done
}

# makes_namespaces: may this ordinary user make a user namespace with mounts of its own, in which
# their subordinate ids are the other users?
makes_namespaces() {
	unshare --user --map-root-user --map-auto --mount --pid --fork --mount-proc true 2>/dev/null
}

# need_root ARGUMENT...: the rest of the script, whose arguments these are, runs as root. An
# ordinary user's script starts again in a user namespace in which this user is root. Where that is
# not possible, doctor has the reasons.
need_root() {
	[ "$(id -u)" != 0 ] || return 0
	makes_namespaces || { "$OXE_SCRIPTS/doctor" --quiet; exit 1; }
	exec unshare --user --map-root-user --map-auto -- "$OXE_SCRIPTS/${0##*/}" "$@"
}
