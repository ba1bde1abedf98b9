# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # these are for oxe-run's other parts
#
# oxe-run's options.

hosts=2 port='' stop_server=0 limit=300 read_only=0 mtu='' log='' quiet=0 pcap=0 counters=0
server='' client='' both='' build='' params='' cpus=2 type=${LINK_TYPE:-oxe}
exclude=() environment=() roles=()
declare -A netem=() rate=()

# impair WHICH VALUE: a setting of one end of the wire, or of all, in the array named.
impair() {
	local -n array=$1
	local role=all value=$2
	if [[ $value =~ ^([a-z0-9]+):(.*)$ ]]; then
		role=${BASH_REMATCH[1]} value=${BASH_REMATCH[2]}
	fi
	[[ -n $value && $value =~ ^[a-zA-Z0-9.%\ -]+$ ]] ||
		die "--$1 '$2' is not what tc's netem takes"
	array[$role]=$value
}

# add_environment NAME: a variable for the programs, as it is here.
add_environment() {
	[[ $1 =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || die "--env takes the name of a variable, not '$1'"
	[ -n "${!1+set}" ] || die "--env $1: the environment has no such variable"
	environment+=("$1")
}

parse() {
	while [ $# -gt 0 ]; do
		case $1 in
		--hosts | --wait-for | --time | --mtu | --log | --smp | --mem | --params | \
			--server | --client | --build | --packages | --exclude | --netem | \
			--rate | --env)
			[ $# -ge 2 ] || die "$1 takes a value"
			;;
		esac
		case $1 in
		--hosts) number "$1" "$2"; hosts=$2; shift ;;
		--build) build=$2; shift ;;
		--server) server=$2; shift ;;
		--client) client=$2; shift ;;
		--wait-for) number "$1" "$2"; port=$2; shift ;;
		--stop-server) stop_server=1 ;;
		--time) number "$1" "$2"; limit=$2; shift ;;
		--exclude) exclude+=("--exclude=$2"); shift ;;
		--env) add_environment "$2"; shift ;;
		--read-only) read_only=1 ;;
		--mtu) number "$1" "$2"; mtu=$2; shift ;;
		--netem) impair netem "$2"; shift ;;
		--rate) impair rate "$2"; shift ;;
		--pcap) pcap=1 ;;
		--counters) counters=1 ;;
		--log) log=$2; shift ;;
		--quiet) quiet=1 ;;
		--shell) shell=1 serve=1 ;;
		--smp) number "$1" "$2"; cpus=$2; shift ;;
		--mem) number "$1" "$2"; memory=$2; shift ;;
		--params) params=$2; shift ;;
		--help | -h) usage; exit 0 ;;
		--) shift; break ;;
		-*)
			taken=0
			more_options "$@"
			[ $taken != 0 ] || die "there is no option $1: see $oxe_run --help"
			shift $((taken - 1))
			;;
		*) break ;;
		esac
		shift
	done
	[ $# = 0 ] || both=$(printf '%q ' "$@")
	check_options
}

check_options() {
	local role
	[ "$hosts" -le 32 ] || die "--hosts is 32 at most"
	name_hosts
	if [ -n "$server$client" ]; then
		[ $serve = 0 ] || die "no program runs where the machines stay up"
		[ "$hosts" != 1 ] && [ -n "$server" ] && [ -n "$client" ] && [ -z "$both" ] ||
			die "--server and --client go together, for two hosts or more, and" \
				"without another program"
	elif [ $serve = 1 ]; then
		[ -z "$both" ] && [ -z "$port" ] || die "no program runs where the machines stay up"
		# They stay up for as long as the user wants.
		limit=1000000
		[ $shell = 0 ] || [ -t 0 ] || die "--shell needs a terminal"
	else
		[ -n "$both" ] || die "which program? See $oxe_run --help"
	fi
	[ "$hosts" != 1 ] || [ -z "$port" ] || die "--wait-for needs two hosts"
	[ "$hosts" != 1 ] || [ $stop_server = 0 ] || die "--stop-server needs two hosts"
	for role in "${!netem[@]}" "${!rate[@]}"; do
		[[ " all ${roles[*]} " == *" $role "* ]] ||
			die "there is no host $role: there is ${roles[*]}"
	done
	directory=$(pwd -P)
	[ "$directory" != / ] ||
		die "the root directory does not go into a machine: change to another"
	[[ $directory != *$'\n'* ]] || die "the current directory has a line break in its name"
}

# name_hosts: the machines' names, by which all else is kept.
name_hosts() {
	local i
	case $hosts in
	1) roles=(single) ;;
	2) roles=(server client) ;;
	*)
		for ((i = 1; i <= hosts; i++)); do
			roles+=("host$i")
		done
		;;
	esac
}
