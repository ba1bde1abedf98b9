#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The test of oxe-dkms, in a throw-away copy of the packaging root: dkms.sh PACKAGES CACHE OLD NEW,
# the directory of the packages, that of prepared kernel trees, and two kernels whose headers and
# sources are there. Prints TAP.
set -u
export LC_ALL=C HOME=/root
packages=$1 cache=$2 old=$3 new=$4
number=0

# check TEXT COMMAND...: one case; the output of one that fails is shown.
check() {
	local text=$1
	shift
	number=$((number + 1))
	if out=$("$@" 2>&1); then
		echo "ok $number - $text"
	else
		echo "not ok $number - $text"
		sed 's/^/# /' <<<"$out"
	fi
}
not() { ! "$@"; }
says() { grep -qF -- "$1" <<<"$out" || { echo "$out"; false; }; }
# There are headers alone, so DKMS runs no depmod: the module is found by its path.
module() { echo "/lib/modules/$1/updates/dkms/oxe.ko"; }
has_module() { [ "$(modinfo -F vermagic "$(module "$1")" | cut -d ' ' -f 1)" = "$1" ]; }
# arrives KERNEL: what dpkg runs when its headers are installed, by the package's own script; what
# such a script runs, for a kernel that there is no package of.
arrives() {
	local script=/var/lib/dpkg/info/linux-headers-$1.postinst
	if [ -e "$script" ]; then
		DPKG_MAINTSCRIPT_NAME=postinst DPKG_MAINTSCRIPT_PACKAGE=linux-headers-$1 \
			"$script" configure
	else
		run-parts --exit-on-error --arg="$1" \
			--arg="/boot/vmlinuz-$1" /etc/kernel/header_postinst.d
	fi
}

# prepared KERNEL: DKMS finds its tree made, if this machine has made it before.
prepared() {
	mkdir -p /var/cache/oxe
	find "$cache" -maxdepth 1 -name "kernel-$1-*[0-9a-f]" -exec ln -sf -t /var/cache/oxe {} +
}

mv "/lib/modules/$new" /var/tmp/
prepared "$old"
check "oxe-dkms is installed, with kernel $old" dpkg -i "$packages"/oxe-dkms_*.deb
check "the module is built" has_module "$old"
check "it is small" test "$(stat -c %s "$(module "$old")")" -lt 2000000
check "it is signed" grep . <(modinfo -F signer "$(module "$old")")

# DKMS would move a prebuilt module away, and put it back over what dpkg has done meanwhile.
check "a prebuilt module is refused beside it" \
	not dpkg -i --force-depends "$packages/linux-modules-oxe-${old}_"*.deb
check "the message says so" says "conflicts with oxe-dkms"
check "there is none" not test -e "/lib/modules/$old/updates/oxe.ko"

mv "/var/tmp/$new" /lib/modules/
mv "/usr/src/linux-source-${new%.*+*}.tar.xz" /var/tmp/
check "kernel $new comes without its sources" arrives "$new"
check "the message names them" says "apt-get install linux-source-${new%.*+*}"
mv /var/tmp/linux-source-*.tar.xz /usr/src/
mv /usr/bin/rustc /var/tmp/
printf '#!/bin/sh\necho rustc 1.97.1\n' >/usr/bin/rustc
chmod +x /usr/bin/rustc
check "kernel $new comes with another rustc" arrives "$new"
check "the message names the right one" says "rustc=1.85.1"
mv /var/tmp/rustc /usr/bin/
mount -t tmpfs -o size=9m none /var/cache/oxe
check "kernel $new comes, and the disk is full" arrives "$new"
check "the message says so" says "MB are free in /var/cache/oxe"
umount /var/cache/oxe
check "there is no module for $new" not has_module "$new"
prepared "$new"
check "kernel $new comes" arrives "$new"
check "the module follows" has_module "$new"
check "that for $old stays" has_module "$old"

cp -r "/lib/modules/$new" /lib/modules/7.9.0
rm -r /lib/modules/7.9.0/updates
check "a kernel comes that oxe is not made for" arrives 7.9.0
check "there is no module for it" not has_module 7.9.0
rm -r /lib/modules/7.9.0

check "oxe-dkms is removed" dpkg -r oxe-dkms
check "purged" dpkg -P oxe-dkms
check "no module is left" not grep . <(find /lib/modules -name 'oxe*')
check "no file is left" not grep . <(
	find /usr/src /var/lib/dkms /var/cache /etc -maxdepth 2 -name 'oxe*' \
		! -path '/usr/src/oxe-stock' ! -path '/usr/src/oxe-debug')
echo "1..$number"
