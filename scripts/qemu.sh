# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # some of these are for those who source this
#
# How scripts start QEMU: which one, how it ends with them, and the wire between two machines.
# Sourced after common.sh.
#
# QEMU is the build root's, or OXE_QEMU=<binary> of this machine. 6.2 is the least version; 7.2 and
# newer have a better wire.

case $OXE_ARCH in
arm64) OXE_EMULATOR=qemu-system-aarch64 ;;
*) OXE_EMULATOR=qemu-system-x86_64 ;;
esac

# temporary NAME [LINE]: make the directory $run, for as long as this script lives. A process of
# another session waits for the script's end, which even SIGKILL brings about: it is the reader of a
# pipe that the script and its children hold open. It then runs LINE, where $0 is the directory, and
# removes that. Children that outlive the script close ${leash}.
temporary() {
	run=$(mktemp -d "/tmp/$1.XXXXXX")
	# shellcheck disable=SC2016 # for the shell in there
	exec {leash}> >(exec setsid bash -c 'read -r _; '"${2:-}"'
		rm -rf "$0"' "$run" >/dev/null 2>&1)
}

# qemu ARGUMENT...: QEMU in the place of this shell, which must be a background one. The kernel
# kills it when the process that started the shell ends.
qemu() {
	if [ -n "${OXE_QEMU:-}" ]; then
		exec setpriv --pdeathsig KILL unshare --pid --fork --kill-child "$OXE_QEMU" "$@"
	fi
	exec setpriv --pdeathsig KILL "$OXE_SCRIPTS/in-buildroot" "$OXE_EMULATOR" "$@"
}

# probe_qemu: choose $wire_by, how machines are joined:
#   retry    a stream on a Unix socket; the client asks every 200 ms, or every second, until the
#            server is there
#   stream   the same, but the client asks once (QEMU 7.2)
#   socket   a stream on a TCP port of 127.0.0.1, and the client asks once (older than 7.2)
# The build root's QEMU is Debian 13's or newer.
probe_qemu() {
	local version
	wire_by=retry retry=reconnect-ms=200
	[ -n "${OXE_QEMU:-}" ] || return 0
	version=$("$OXE_QEMU" --version | sed -n 's/^QEMU emulator version \([0-9.]*\).*/\1/p') &&
		[ -n "$version" ] || die "OXE_QEMU=$OXE_QEMU is not QEMU"
	at_least 6.2 || die "OXE_QEMU=$OXE_QEMU is QEMU $version: 6.2 is the oldest that will do"
	if ! "$OXE_QEMU" -netdev help 2>&1 | grep -qx stream; then
		wire_by=socket
	elif ! at_least 8.0; then
		wire_by=stream
	elif ! at_least 9.2; then
		retry=reconnect=1
	fi
}
at_least() { [ "$(printf '%s\n' "$1" "$version" | sort -V | head -n 1)" = "$1" ]; }

# wire_end ROLE NAME: $netdev, what -netdev takes for this end (server or client) of the wire with
# that name, a path. Where the client asks once, it waits here for the server.
wire_end() {
	local port
	case $wire_by-$1 in
	socket-server)
		port=$(free_port)
		netdev=socket,id=wire,listen=127.0.0.1:$port
		echo "$port" >"$2"
		;;
	socket-client)
		await_listener "$2"
		netdev=socket,id=wire,connect=127.0.0.1:$(cat "$2")
		;;
	*-server) netdev=stream,id=wire,server=on,addr.type=unix,addr.path=$2 ;;
	*)
		netdev=stream,id=wire,server=off,addr.type=unix,addr.path=$2
		[ "$wire_by" = stream ] || netdev+=,$retry
		[ "$wire_by" = retry ] || await_listener "$2"
		;;
	esac
}

# free_port: a TCP port, outside of those that the kernel hands out.
free_port() {
	local port
	for _ in $(seq 100); do
		port=$((20000 + RANDOM % 12000))
		! tcp_listens "$port" || continue
		echo "$port"
		return
	done
	die "there is no free TCP port for the wire"
}
tcp_listens() { grep -q " 0100007F:$(printf %04X "$1") [0-9A-F:]* 0A " /proc/net/tcp; }

# listens NAME: the server's end of the wire can be asked.
listens() {
	if [ "$wire_by" = socket ]; then
		[ -s "$1" ] && tcp_listens "$(cat "$1")"
	else
		# 10000 is the kernel's mark of a socket that accepts connections.
		awk -v path="$1" '$4 == "00010000" && $8 == path { found = 1 } END { exit !found }' \
			/proc/net/unix
	fi
}
await_listener() {
	local end=$((SECONDS + 300))
	until listens "$1"; do
		[ $SECONDS -lt $end ] || die "the machine at the other end of the wire did not start in 300 s"
		sleep 0.2
	done
}

# choose_accel: $accel, KVM where it is usable. Unless the user asks for KVM, QEMU may emulate the
# CPU all the same.
choose_accel() {
	local kind
	kind=$("$OXE_SCRIPTS/accelerator")
	accel=()
	[ "$kind" = tcg ] || accel+=(-accel kvm)
	[ "$kind" = kvm ] && [ "${OXE_ACCEL:-}" = kvm ] || accel+=(-accel "tcg,thread=multi")
	tell_emulation
}

# tell_emulation: where QEMU emulates the CPU for want of KVM, say so, once for each command of the
# user's.
tell_emulation() {
	[ -z "${OXE_TOLD_EMULATION:-}" ] && [ "$OXE_ARCH" = amd64 ] || return 0
	export OXE_TOLD_EMULATION=1
	"$OXE_SCRIPTS/accelerator" --tell
}
