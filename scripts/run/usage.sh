# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # set by oxe-run
usage() {
	cat <<T
usage: $oxe_run [OPTION...] [--] PROGRAM [ARGUMENT...]
       $oxe_run [OPTION...] --server LINE --client LINE
       $oxe_run [OPTION...] --shell
       $oxe_run up [OPTION...]; $oxe_run exec HOST COMMAND; $oxe_run down

Boots two machines with Debian's kernel and oxe, joined by a wire, and runs PROGRAM on both at the
same time, as root. LINE is a line for the shell (bash). Each machine has a copy of the current
directory, under its own name, as the program's current directory. When both have ended, files that
the programs made or changed there come back: the server's, then the client's, which win.

--shell has a prompt on each machine instead. "up" leaves the machines running, "exec" runs a
command on one of them, with its output and exit status, and "down" ends them; all in the same
directory.

$(more_usage)
  --hosts N          so many machines on one wire (2); their names are host1, host2 ...: with two
                     also server and client, with one single. --server is for the first, --client
                     for all others
  --wait-for PORT    the client's program starts when the server listens on this port, by TCP or by
                     the connection manager
  --stop-server      the server's program is ended when the client's has succeeded
  --time SECONDS     limit for the programs, without the machines' boot (300)
  --env NAME         the programs have this variable of the environment, too; may be given several
                     times
  --exclude PATTERN  files and directories of this name (a pattern as tar has them: *.o, ./data)
                     stay out of the machines; may be given several times
  --read-only        the programs cannot write in the current directory
  --mtu N            MTU of the wire (1500)
  --netem [ROLE:]SPEC   an impaired wire, as tc's netem has it ('delay 1ms loss 1%'), for what every
                     host sends, or one: --netem 'server:loss 1%'
  --rate [ROLE:]RATE    the same for its rate (100mbit)
  --pcap             the packets of each host, both ways, in ROLE.pcap among the logs
  --counters         tell at the end which counters of the devices are not 0
  --log DIRECTORY    for each machine the output (ROLE.out) and the kernel's log (ROLE.dmesg); by
                     default a new directory in $(log_base_text),
                     where the link "last" leads to it, and the last ten are kept. Earlier files are
                     replaced
  --quiet            of $oxe_run itself only errors
  --smp N            CPUs of a machine (2)
  --mem MIB          memory of a machine (2048; debug 3072)
  --params TEXT      parameters of the module

The programs find in their environment
  OXE_ROLE           server or client; single with --hosts 1
  OXE_DEVICE         the RDMA device, oxe0         OXE_GID_INDEX  its GID of OXE_ADDR, RoCEv2
  OXE_ADDR           the IPv4 address of its host  OXE_PEER_ADDR  that of the other host; for
  OXE_NETDEV         eth0                                         clients the server's
  OXE_HOSTS          how many hosts there are      OXE_INDEX      which one this is, from 1 on
  OXE_ADDR_1 ...     the addresses of all
and the other machines by their names. LINK_TYPE=rxe has the stock driver rdma_rxe in oxe's place,
OXE_QEMU=<binary> a QEMU of this machine's (6.2 or newer), OXE_ACCEL=tcg or kvm how it runs.

Exit status: 0 if all programs succeed, else that of the first that failed. 124: time limit;
125: a machine died, or its kernel reported an error; 126: a machine could not be prepared, or an
option is wrong.
T
}
