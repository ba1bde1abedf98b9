# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # some of these are for those who source this
#
# How scripts of the project start QEMU. Sourced after common.sh. QEMU is the build root's, or
# OXE_QEMU=<binary> of this machine. The kernel kills it when the process that started it ends.

. "$OXE_SCRIPTS/run/reports.sh"
. "$OXE_SCRIPTS/run/emulator.sh"

if [ -n "${OXE_QEMU:-}" ]; then
	emulator=(setpriv --pdeathsig KILL unshare --pid --fork --kill-child "$OXE_QEMU")
elif [ "$OXE_ARCH" = arm64 ]; then
	# Its CPU is always emulated: there is nothing to say of that.
	export OXE_TOLD_EMULATION=1
	emulator=(setpriv --pdeathsig KILL "$OXE_SCRIPTS/in-buildroot" qemu-system-aarch64)
else
	emulator=(setpriv --pdeathsig KILL "$OXE_SCRIPTS/in-buildroot" qemu-system-x86_64)
fi
