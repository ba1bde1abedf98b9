# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # of what those set and use who source this
#
# One virtual machine, from its start to its end. Sourced after emulator.sh. Needs bash and
# coreutils.
#
# All that goes into the machine is in one tar on a drive of its own; all that comes back is in a
# tar that the guest writes on another. The guest knows its drives by their serial numbers. While it
# runs the two talk by the kernel's console: the guest by lines with "oxe-vm: " in the kernel's log,
# the host by lines of input (see guest-init).
#
# Those who source this set:
#   here         the machine's directory, new, for what this keeps: dmesg, told, out.tar ...
#   images       a directory with vmlinuz, initramfs, modules.img and root.img
#   share        what the guest is to have as /oxe: with guest-init, env (see write_env) and command
#   limit        seconds until the machine is ended; 0: none
#   line         the QEMU character device, with id=out, of the line that the command's output takes
#   told         a file to which what the guest tells is appended, too
#   accel machine board nic drives append memory kernel serial leash   see boot

drives=() board=() nic=() wires=() told='' append='' memory='' kernel=stock serial=ttyS struck=0
qemu='' readers='' more=()

# drive SERIAL FILE OPTIONS: a drive that the guest knows by this serial number.
drive() {
	drives+=(-drive "file=$2,format=raw,if=none,id=$1,$3" \
		-device "virtio-blk-pci,drive=$1,serial=$1")
}

# card NETDEV N: a NIC whose address ends in N, on that netdev. It boots nothing, so it needs no
# ROM.
card() {
	nic+=(-device "virtio-net-pci,netdev=$1,mac=52:54:00:00:00:$(printf %02x "$2"),romfile=")
}

# lay_drives: those that each machine has.
lay_drives() {
	tar -cf "$here/in.tar" -C "$share" --owner=0 --group=0 --numeric-owner .
	truncate -s 4G "$here/out.tar"
	drive root "$images/root.img" snapshot=on
	drive modules "$images/modules.img" readonly=on
	drive in "$here/in.tar" readonly=on
	drive out "$here/out.tar" cache=unsafe
	# Console and monitor are pipes, so that plain redirections can write to them (see
	# dump_tasks).
	mkfifo "$here"/con.in "$here"/con.out "$here"/mon.in "$here"/mon.out
}

# write_env NAME=VALUE...: the settings of guest-init.
write_env() {
	local setting
	for setting in OXE_INTERACTIVE=0 OXE_KERNEL=$kernel OXE_LINE=/dev/${serial}1 \
		OXE_CONSOLE=/dev/${serial}0 "$@"; do
		printf '%s=%q\n' "${setting%%=*}" "${setting#*=}"
	done >"$share/env"
}

# dump_tasks: ask the kernel itself, over its serial console, which tasks are blocked (w), what runs
# on each CPU (l), and, where lockdep is built in, which locks are held (d).
dump_tasks() {
	local key
	for key in w l $([ $kernel = stock ] || echo d); do
		echo 'chardev-send-break con' >&4
		sleep 0.5
		printf %s "$key" >&3
		sleep 2
	done
}

# end_at_limit: the limit has struck. A guest that can still do so hands over what it has, and
# resets.
end_at_limit() {
	local end=$((SECONDS + 30))
	dump_tasks
	[ ! -s "$here/told" ] || echo deliver >&3
	while [ -s "$here/told" ] && [ $SECONDS -lt $end ] && kill -0 "$qemu" 2>/dev/null; do
		sleep 0.2
	done
	kill -KILL "$qemu" 2>/dev/null || true
}

# watch: until QEMU ends; its first line tells that a machine has come to its first program. One
# that does not is given up.
watch() {
	local end=$((SECONDS + limit)) begin=$((SECONDS + (limit > 600 ? limit : 600) / 5)) begun=0
	while kill -0 "$qemu" 2>/dev/null; do
		if [ $begun = 0 ] && [ -s "$here/told" ]; then
			begun=1
			mark_begun
		elif [ $begun = 0 ] && [ $SECONDS -ge $begin ]; then
			kill -KILL "$qemu" 2>/dev/null || true
			break
		fi
		if [ $SECONDS -ge $end ]; then
			struck=1
			end_at_limit
			break
		fi
		sleep 0.2
	done
}

# mark_begun: this machine's servers of wires will not be replaced by others. A client that asks
# once waits for that, as it would never find the other server.
mark_begun() {
	local i
	for ((i = 0; i < ${#wires[@]}; i += 3)); do
		[ "${wires[i]}" != server ] || : >"${wires[i + 1]}.begun"
	done
}
await_begun() { # NAME
	local end=$((SECONDS + 900))
	until [ -e "$1.begun" ]; do
		[ $SECONDS -lt $end ] ||
			die "the machine at the other end of the wire did not start in 900 s"
		sleep 0.2
	done
}

# listen: keep the kernel's log, and what the guest tells in it: lines of printable characters.
listen() {
	: >"$here/dmesg"
	: >"$here/told"
	{
		tee -a "$here/dmesg" <"$here/con.out" | {
			LC_ALL=C
			while IFS= read -r text; do
				[[ $text == *'oxe-vm: '* ]] || continue
				text="oxe-vm: ${text#*oxe-vm: }"
				text=${text%%[^ -~]*}
				echo "$text" >>"$here/told"
				[ -z "$told" ] || echo "$text" >>"$told"
			done
		}
	} {leash}>&- &
	readers=$!
	cat {leash}>&- <"$here/mon.out" >/dev/null &
}

# boot: one boot of the machine, to its end.
boot() {
	local arguments="console=${serial}0 panic=-1 oops=panic sysrq_always_enabled loglevel=7" i
	local ends=()
	arguments+=" mitigations=off tsc=reliable no_timer_check cryptomgr.notests"
	arguments+=" printk.devkmsg=on"
	# Each boot makes its ends of the wires anew: ROLE NAME ID for each (see wire_end).
	for ((i = 0; i < ${#wires[@]}; i += 3)); do
		[ "$wire_by-${wires[i]}" != socket-client ] || await_begun "${wires[i + 1]}"
		wire_end "${wires[@]:i:3}"
		ends+=(-netdev "$netdev")
	done
	listen
	# Both ends open before QEMU starts: opening one end of a FIFO waits for the other.
	exec 3<>"$here/con.in" 4<>"$here/mon.in"
	(
		echo $BASHPID >"$here/qemu.pid"
		exec "${emulator[@]}" "${board[@]}" "${accel[@]}" "${machine[@]}" \
			-m "${memory:-2048}" -nodefaults -no-user-config -display none -no-reboot \
			-kernel "$images/vmlinuz" -initrd "$images/initramfs" \
			-append "$arguments $append" \
			-chardev "pipe,id=con,path=$here/con" -serial chardev:con \
			-chardev "$line" -serial chardev:out \
			-chardev "pipe,id=mon,path=$here/mon" -monitor chardev:mon \
			"${drives[@]}" "${ends[@]}" "${nic[@]}" "${more[@]}"
	) {leash}>&- <&5 &
	qemu=$!
	struck=0
	[ "$limit" = 0 ] || watch
	wait "$qemu" 2>/dev/null || true
	qemu=
	rm -f "$here/qemu.pid"
	# The last output of QEMU may still be in the pipe; a QEMU that never started has left the
	# reader waiting for a writer.
	exec 3>&- 4>&-
	release
	wait "$readers" 2>/dev/null || true
	readers=
}
# release: those who read QEMU's pipes go on, also where QEMU never opened them.
release() {
	: <>"$here/con.out"
	: <>"$here/mon.out"
}

# run_machine: its end; file descriptor 5 is what QEMU reads. On a busy host the interrupts of a
# boot that takes minutes may come too early for the kernel, or too late, or not at all: then it is
# booted again.
run_machine() {
	local try began=$SECONDS
	boot
	for try in 2 3 4; do
		if [ ! -s "$here/told" ] && [ $struck = 0 ]; then
			say "the machine did not boot in $((SECONDS - began)) s:" \
				"this host may be busy; trying again ($try of 4)"
			began=$SECONDS
			# It may have been KVM's fault.
			[ ${#accel[@]} -le 2 ] || [[ ${accel[*]} == *icount* ]] ||
				accel=(-accel "tcg,thread=multi")
			boot
		fi
	done
}

# machine_status: unpack what came back into back/, and give the exit status of the command: 124 if
# the limit struck, 125 if the machine died or its results are damaged.
machine_status() {
	local damaged=0 status=''
	unpack_guest "$here/out.tar" "$here/back" || damaged=1
	[ ! -f "$here/back/status" ] || status=$(head -c 4 "$here/back/status")
	if [[ $status =~ ^[0-9]+$ ]] && [ "$status" -le 255 ]; then
		[ "$status" != 0 ] || [ $damaged = 0 ] || return 125
		return "$status"
	fi
	[ $struck = 0 ] || return 124
	return 125
}
