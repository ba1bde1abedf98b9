#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# process: oxe check says what keeps RDMA from a peer, and how it goes away. No route, no device
# here or there, a closed firewall, a netdev that is down, packets that are too long for the path:
# each made for real, each with its sentences and exit status. oxe top counts what programs do.
. "$(dirname "$0")/lib.sh"
[ "$(uname -m)" = x86_64 ] || skip_all "the command is built for x86-64 alone"
[ "$LINK_TYPE" = oxe ] || skip_all "the command is about oxe"
hosts_up 1500

# prints STATUS COMMAND...: the command ends with that status, and prints what $WANT has.
prints() {
	local want=$1 status=0 out
	shift
	out=$("$@" 2>&1) || status=$?
	echo "--- status $status of: $*"
	echo "$out"
	[ "$out" = "$WANT" ] || { echo "--- wanted:"; echo "$WANT"; return 1; }
	[ $status = "$want" ] || { echo "wanted status $want"; return 1; }
}
# json STATUS EXPRESSION COMMAND...: the status, and an expression of Python about its JSON, d.
json() {
	local want=$1 expression=$2 status=0 out
	shift 2
	out=$("$@") || status=$?
	echo "--- status $status of: $*"
	echo "$out"
	[ $status = "$want" ] || { echo "wanted status $want"; return 1; }
	python3 -c 'import json, sys
d = json.loads(sys.argv[1])
if not eval("(" + sys.argv[2] + ")"):
    sys.exit("not true: " + sys.argv[2])' "$out" "$expression"
}
# filtered NAMESPACE RULE COMMAND...: while a firewall there has the rule.
filtered() {
	local ns=$1 rule=$2 status=0
	shift 2
	nsenter --net=/run/netns/$ns nft -f - <<-T || return 1
		table inet oxt {
			chain in {
				type filter hook input priority 0; policy accept;
				$rule
			}
		}
	T
	"$@" || status=$?
	nsenter --net=/run/netns/$ns nft delete table inet oxt
	return $status
}

route4="Route: by $VETH_A from $IP4_A."
route6="Route: by $VETH_A from $IP6_A."
device="Device: $DEV_A, ACTIVE, path MTU 1024."
size="Size: packets of 1116 bytes reach it."
silent_size="Size: unknown, as it does not answer ICMP echo."
no_answer="problem: $IP4_B does not answer RoCEv2 (UDP port 4791).
    Run oxe status there: is there a device on its netdev, does its firewall accept the port?"

# ---------------------------------------------------------------- all is well

all_is_well() { # ROUTE ADDRESS OPTION...
	WANT="$1
$device
$size
RDMA: it answers.
Nothing is wrong." prints 0 in_a oxe check "${@:2}"
}
t "a peer answers" all_is_well "$route4" $IP4_B
t "a peer answers over IPv6" all_is_well "$route6" $IP6_B
t "a peer answers a device that is named" all_is_well "$route4" $IP4_B --device $DEV_A
t "this host answers itself" all_is_well "Route: by lo from $IP4_A." $IP4_A
t "this host answers itself over IPv6" all_is_well "Route: by lo from $IP6_A." $IP6_A
link_local_of() { # NAMESPACE NETDEV
	ip -n "$1" -6 addr show dev "$2" scope link | awk '/inet6/ { sub("/.*", "", $2); print $2 }'
}
link_local() {
	local a b
	a=$(link_local_of $NS_A $VETH_A) b=$(link_local_of $NS_B $VETH_B)
	wait_gid $DEV_A "$a" && wait_gid $DEV_B "$b" &&
		all_is_well "Route: by $VETH_A from $a." "$b%$VETH_A"
}
t "a link-local address answers" link_local
# sysfs of the namespace, as containers have it.
own_sysfs() {
	WANT="$route4
$device
$size
RDMA: it answers.
Nothing is wrong." prints 0 ip netns exec $NS_A oxe check $IP4_B
}
t "a peer answers a process with a sysfs of its own" own_sysfs
t "JSON of a peer that answers" json 0 "d['problems'] == [] and
	d['device']['name'] == '$DEV_A' and d['route'] ==
	{'source': '$IP4_A', 'netdev': '$VETH_A', 'gateway': None, 'is_local': False} and
	d['echo'] == {'bytes': 1116, 'large': 'answered', 'small': 'answered'} and
	d['path_mtu'] == 1024 and d['rdma']['answer'] == 'no_listener'" in_a oxe -j check $IP4_B

unprivileged() {
	in_a setpriv --reuid 65534 --regid 65534 --clear-groups oxe check $IP4_B | tee "$TMP/out"
	[ "${PIPESTATUS[0]}" = 0 ] && grep -qx "RDMA: it answers." "$TMP/out"
}
t "a peer answers an ordinary user" unprivileged

service() {
	local pid status=0
	WANT="$route4
$device
$size
RDMA: it answers; no program listens on port 20077.
Nothing is wrong." prints 0 in_a oxe check $IP4_B --port 20077 || return 1
	nsenter --net=/run/netns/$NS_B rping -s -P -a $IP4_B -p 20077 9>&- &
	pid=$!
	poll 60 cm_listening 20077 || status=1
	WANT="$route4
$device
$size
RDMA: it answers; a program listens on port 20077.
Nothing is wrong." prints 0 in_a oxe check $IP4_B --port 20077 || status=1
	kill_wait $pid
	return $status
}
t "a port with and without a program" service

loopback() {
	local status=0
	WANT="problem: No RDMA device has the address 127.0.0.1 of lo, from which packets to \
127.0.0.1 leave.
    rdma link add oxe0 type oxe netdev lo
Route: by lo from 127.0.0.1.
Size: packets of 4188 bytes reach it." prints 1 in_a oxe check 127.0.0.1 || return 1
	link_add ${LINK_TYPE}l lo $NS_A && wait_gid ${LINK_TYPE}l 127.0.0.1 || return 1
	WANT="problem: The connection manager refuses loopback addresses such as 127.0.0.1.
    Name another address of this host, or give lo one: ip addr add ADDRESS/32 dev lo
Route: by lo from 127.0.0.1.
Device: ${LINK_TYPE}l, ACTIVE, path MTU 4096.
Size: packets of 4188 bytes reach it." prints 1 in_a oxe check 127.0.0.1 || status=1
	ip -n $NS_A addr add 10.79.0.1/32 dev lo && wait_gid ${LINK_TYPE}l 10.79.0.1 || return 1
	WANT="Route: by lo from 10.79.0.1.
Device: ${LINK_TYPE}l, ACTIVE, path MTU 4096.
Size: packets of 4188 bytes reach it.
RDMA: it answers.
Nothing is wrong." prints 0 in_a oxe check 10.79.0.1 || status=1
	ip -n $NS_A addr del 10.79.0.1/32 dev lo
	link_del ${LINK_TYPE}l
	return $status
}
t "the loopback address, without and with a device on lo" loopback

# ---------------------------------------------------------------- nothing can be asked

t "no such device" fails "^oxe: there is no RDMA device none$" in_a oxe check $IP4_B --device none
t "no such netdev" fails "^oxe: there is no netdev none$" in_a oxe check fe80::1%none
t "no address" fails "not an IPv4 or IPv6 address" in_a oxe check host.example

add_route="Give a netdev an address of the peer's network (ip addr add), or add a route \
(ip route add)."
no_route() {
	WANT="problem: There is no route to 192.0.2.1: Network is unreachable.
    $add_route" \
		prints 1 in_a oxe check 192.0.2.1
}
t "no route" no_route
t "JSON of no route" json 1 "[p['id'] for p in d['problems']] == ['no-route'] and
	d['route'] is None and d['device'] is None and d['echo'] is None and d['rdma'] is None" \
	in_a oxe -j check 2001:db8::1

other_device() {
	WANT="problem: $DEV_B does not have the address $IP4_A of $VETH_A, from which packets to \
$IP4_B leave.
    oxe gids $DEV_B shows its addresses. Without --device, any device serves.
$route4
$size" prints 1 in_a oxe check $IP4_B --device $DEV_B
}
t "a device that has no route there" other_device

no_host() {
	WANT="problem: The connection manager did not find the address of 10.77.0.77: Connection \
timed out.
    ip neigh show 10.77.0.77: without an Ethernet address, nothing answers there. Then: \
oxe status
$route4
$device
$silent_size" prints 1 in_a oxe check 10.77.0.77
}
t "an address that no host has" no_host

# ---------------------------------------------------------------- the path

closed_firewall() {
	WANT="$no_answer
$route4
$device
$size" filtered $NS_B "udp dport 4791 drop" prints 1 in_a oxe check $IP4_B
}
t "a peer whose firewall is closed" closed_firewall
# With the end of the request, which the connection manager takes back.
in_time() {
	filtered $NS_B "udp dport 4791 drop" json 1 "d['rdma']['answer'] == 'silent' and
		7000 <= d['rdma']['milliseconds'] < 9000 * $SLOW" in_a oxe -j check $IP4_B
}
t "silence is an answer after 7 seconds" in_time
closed_here() {
	WANT="$no_answer
problem: The firewall drops what peers send: no rule of chain in in table inet oxt accepts UDP \
port 4791.
    nft insert rule inet oxt in udp dport 4791 accept
    With firewalld: firewall-cmd --add-port=4791/udp; with ufw: ufw allow 4791/udp
$route4
$device
$size" filtered $NS_A "udp dport 4791 drop" prints 1 in_a oxe check $IP4_B
}
t "a firewall that is closed here" closed_here
nothing_passes() {
	WANT="problem: $IP4_B does not answer RoCEv2 (UDP port 4791).
    Nor does it answer ICMP echo: see whether the host is up, and what is between.
    Then run oxe status there: is there a device on its netdev, does its firewall accept \
the port?
$route4
$device
$silent_size" filtered $NS_B "drop" prints 1 in_a oxe check $IP4_B
}
t "a peer that answers nothing" nothing_passes
no_echo() {
	WANT="$route4
$device
$silent_size
RDMA: it answers.
Nothing is wrong." filtered $NS_B "meta l4proto icmp drop" prints 0 in_a oxe check $IP4_B
}
t "a peer that answers no echo" no_echo
no_ping() {
	mkdir -p "$TMP/bin"
	WANT="$route4
$device
Size: unknown, as there is no ICMP echo: ping (iputils) is not installed.
RDMA: it answers.
Nothing is wrong." prints 0 in_a env PATH="$TMP/bin" "$(command -v oxe)" check $IP4_B
}
t "a host without ping" no_ping

same_mtu="Give all netdevs of the path the same MTU, that of $VETH_A here: 1500."
hole() { # SIZE PATH-MTU ROUTE ADDRESS
	WANT="problem: Packets of 1116 bytes do not reach $4: path MTU 1024 needs them.
    $same_mtu
    Or connect with a path MTU of $2, whose packets arrive.
$3
$device
RDMA: it answers." filtered $NS_B "meta length > $1 drop" prints 1 in_a oxe check "$4"
}
t "long packets are dropped" hole 1000 512 "$route4" $IP4_B
t "packets but for the shortest are dropped" hole 400 256 "$route4" $IP4_B
t "long packets are dropped over IPv6" hole 1000 512 "$route6" $IP6_B
# What hosts drop that were not given jumbo frames as their peers were.
jumbo() {
	local status=0
	ip -n $NS_A link set $VETH_A mtu 4200
	WANT="problem: Packets of 4188 bytes do not reach $IP4_B: path MTU 4096 needs them.
    Give all netdevs of the path the same MTU, that of $VETH_A here: 4200.
    Or connect with a path MTU of 1024, whose packets arrive.
$route4
Device: $DEV_A, ACTIVE, path MTU 4096.
RDMA: it answers." prints 1 in_a oxe check $IP4_B || status=1
	ip -n $NS_A link set $VETH_A mtu 1500
	return $status
}
t "a netdev with a larger MTU than the peer's" jumbo

# Host B is a router to a third one, whose netdev has a smaller MTU.
router() {
	local ns=oxt-c dev=${LINK_TYPE}c status=0
	ip netns add $ns && ip link add oxvr mtu 1000 netns $NS_B type veth \
		peer name oxvc mtu 1000 netns $ns &&
		ip -n $NS_B addr add 10.78.0.1/24 dev oxvr && ip -n $NS_B link set oxvr up &&
		ip -n $ns addr add 10.78.0.2/24 dev oxvc && ip -n $ns link set oxvc up &&
		ip -n $ns route add 10.77.0.0/24 via 10.78.0.1 &&
		ip -n $NS_A route add 10.78.0.0/24 via $IP4_B &&
		in_b sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' &&
		link_add $dev oxvc $ns && wait_gid $dev 10.78.0.2 &&
		"$@" || status=1
	link_del $dev
	ip netns del $ns
	ip -n $NS_A route del 10.78.0.0/24
	return $status
}
narrow() {
	WANT="problem: Packets of 1116 bytes do not reach 10.78.0.2: path MTU 1024 needs them. The \
path's MTU is 1000 bytes, as ICMP tells.
    $same_mtu
    Or connect with a path MTU of 512, whose packets arrive.
Route: by $VETH_A from $IP4_A, gateway $IP4_B.
$device
RDMA: it answers." prints 1 in_a oxe check 10.78.0.2
}
t "a router to a netdev of a smaller MTU" router narrow

# ---------------------------------------------------------------- oxe top

traffic() { # COMMAND...: while two programs talk.
	local server client status=0
	nsenter --net=/run/netns/$NS_A rping -s -P -a $IP4_A -p 20078 9>&- &
	server=$!
	poll 60 cm_listening 20078 || status=1
	nsenter --net=/run/netns/$NS_B rping -c -a $IP4_A -p 20078 9>&- >/dev/null &
	client=$!
	poll 60 connected || status=1
	"$@" || status=1
	kill_wait $client $server
	return $status
}
connected() { rdma resource show qp | grep -q 'state RTS.*comm rping'; }
top_shows() { # PREFIX...
	"$@" oxe top -d 1 -n 2 | tee "$TMP/top"
	[ "$(grep -cE '^--- [0-9:]{8} UTC$' "$TMP/top")" = 2 ] &&
		grep -qE "^$DEV_A +sent_pkts +[0-9]+" "$TMP/top" &&
		grep -qE "^$DEV_B +rcvd_pkts +[0-9]+" "$TMP/top" &&
		grep -qE "^[0-9]+ +$DEV_A +RC +RTS +rping( +[0-9]+){4}$" "$TMP/top"
}
t "top shows rates and queue pairs" traffic top_shows
t "top shows them with the sysfs of another namespace" traffic top_shows ip netns exec $NS_A
top_json() {
	oxe -j top -d 0.2 -n 3 >"$TMP/top"
	cat "$TMP/top"
	[ "$(wc -l <"$TMP/top")" = 3 ] || return 1
	json 0 "{'device', 'counter', 'rate'} == set(d['rates'][0]) and
		any(q['user'] == 'rping' and 'cwnd' in q['details'] for q in d['qps'])" \
		tail -n 1 "$TMP/top"
}
t "top prints an object a line" traffic top_json
top_ends() { timeout 20 sh -c 'oxe top -d 0.1 | head -n 3' && poll 5 no_top; }
no_top() { ! pgrep -x oxe; }
t "top ends with its reader" top_ends

# ---------------------------------------------------------------- devices and netdevs

without_peer() {
	local status=0
	link_del $DEV_B || return 1
	WANT="$no_answer
$route4
$device
$size" prints 1 in_a oxe check $IP4_B || status=1
	link_add $DEV_B $VETH_B $NS_B && wait_gid $DEV_B $IP4_B && wait_gid $DEV_B $IP6_B ||
		return 1
	return $status
}
t "a peer without a device" without_peer
without_device() {
	local status=0
	link_del $DEV_A || return 1
	WANT="problem: No RDMA device has the address $IP4_A of $VETH_A, from which packets to \
$IP4_B leave.
    rdma link add oxe0 type oxe netdev $VETH_A
$route4
$size" prints 1 in_a oxe check $IP4_B || status=1
	link_add $DEV_A $VETH_A $NS_A && wait_gid $DEV_A $IP4_A && wait_gid $DEV_A $IP6_A ||
		return 1
	return $status
}
t "no device here" without_device

# These forget neighbours: they come last.
no_carrier() {
	local status=0
	ip -n $NS_B link set $VETH_B down
	poll 60 is_down
	WANT="problem: $VETH_A, the netdev of $DEV_A, has no carrier.
    See to its cable, or to the other end: ip -d link show $VETH_A
$route4
Device: $DEV_A, DOWN, path MTU 1024.
$silent_size" prints 1 in_a oxe check $IP4_B || status=1
	ip -n $NS_B link set $VETH_B up
	return $status
}
is_down() { port_attr $DEV_A state | grep -q DOWN; }
t "no carrier" no_carrier
netdev_down() {
	local status=0
	ip -n $NS_A link set $VETH_A down
	WANT="problem: There is no route to $IP4_B: Network is unreachable.
    $VETH_A, the netdev of $DEV_A, is down: ip link set $VETH_A up
    $add_route" \
		prints 1 in_a oxe check $IP4_B || status=1
	ip -n $NS_A link set $VETH_A up
	return $status
}
t "the netdev is down" netdev_down
finish
