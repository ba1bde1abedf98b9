# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # set by oxe-run and its other parts
#
# Where oxe-run's images come from: a bundle, which is found or fetched, verified, and unpacked once
# in the user's cache.

log_base=$PWD/oxe-logs
log_base_text() { echo "./oxe-logs"; }
more_options() { :; }
more_usage() {
	cat <<'T'
  --build LINE       first compile: this line for the shell runs in a machine, over a copy of the
                     current directory; what it makes there comes back. The machine has gcc, g++,
                     make, cmake, pkg-config and the headers of libibverbs and librdmacm
T
}
build_program() { build_in_guest "$1"; }

# find_images: $images. OXE_BUNDLE= names a bundle (or its address), or a directory that one was
# unpacked in; otherwise it is the one beside this script, or where this script's is published.
find_images() {
	local beside bundle=${OXE_BUNDLE:-} \
		cache=${OXE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var}/.cache}/oxe}
	local digest=${OXE_BUNDLE_SHA256:-$bundle_digest}
	beside=$(cd "$(dirname "${BASH_SOURCE[-1]}")" && pwd -P)/$bundle_name
	if [ -z "$bundle" ]; then
		bundle=$bundle_url
		[ -z "$bundle_name" ] || [ ! -f "$beside" ] || bundle=$beside
	fi
	if [ -d "$bundle" ]; then
		images=$(cd "$bundle" && pwd -P)
		[ -e "$images/vmlinuz" ] ||
			die "OXE_BUNDLE=$bundle is no directory with a bundle's images"
		return 0
	fi
	[ -n "$bundle" ] || die "there is no bundle: give OXE_BUNDLE=<file or address>"
	# A file that was named is looked at each time: it may be another one.
	if [ -n "$digest" ] && [ -e "$cache/bundle-$digest/vmlinuz" ] &&
		[ ! -f "${OXE_BUNDLE:-}" ]; then
		images=$cache/bundle-$digest
		return 0
	fi
	need_program zstd sha256sum tar
	mkdir -p "$cache" && cache=$(cd "$cache" && pwd -P) ||
		die "there cannot be a directory $cache: name another by OXE_CACHE="
	case $bundle in
	http://* | https://* | file://* | ftp://*)
		[ -n "$digest" ] || die "$bundle: its digest is to be known: set OXE_BUNDLE_SHA256="
		fetch "$bundle" "$cache/${digest:0:16}.partial" "$digest"
		unpack_bundle "$cache/${digest:0:16}.partial" "$cache/bundle-$digest"
		rm -f "$cache/${digest:0:16}.partial"
		;;
	*)
		[ -f "$bundle" ] || die "there is no bundle $bundle"
		digest=$(verify "$bundle" "$digest") || exit 126
		[ -e "$cache/bundle-$digest/vmlinuz" ] ||
			unpack_bundle "$bundle" "$cache/bundle-$digest"
		;;
	esac
	images=$cache/bundle-$digest
}

need_program() {
	local name missing=()
	for name; do
		type -P "$name" >/dev/null || missing+=("$name")
	done
	[ ${#missing[@]} = 0 ] || die "this machine lacks ${missing[*]}: install that first"
}

# find_emulator: QEMU, under whatever name it has here.
find_emulator() {
	local name names=(qemu-system-x86_64 qemu-kvm /usr/libexec/qemu-kvm kvm)
	if [ -n "${OXE_QEMU:-}" ]; then
		type -P "$OXE_QEMU" >/dev/null || die "OXE_QEMU=$OXE_QEMU: there is no such program"
		emulator=("$OXE_QEMU")
		return 0
	fi
	for name in "${names[@]}"; do
		if type -P "$name" >/dev/null; then
			emulator=("$name")
			return 0
		fi
	done
	die "there is no QEMU for x86: install it (Debian, Ubuntu: qemu-system-x86; Fedora:" \
		"qemu-system-x86-core; Arch: qemu-system-x86; Alpine: qemu-system-x86_64), or" \
		"name one by OXE_QEMU="
}

# verify FILE [DIGEST]: its digest, which is to be this one.
verify() {
	local digest
	digest=$(sha256sum <"$1")
	digest=${digest%% *}
	[ -z "${2:-}" ] || [ "$digest" = "$2" ] ||
		die "$1 has the SHA-256 $digest, not $2: it is another bundle than this" \
			"$oxe_run's, or damaged. OXE_BUNDLE_SHA256= names the digest that is wanted"
	echo "$digest"
}

# mib BYTES: as 12.3.
mib() { printf '%d.%d' $(($1 / 1048576)) $(($1 * 10 / 1048576 % 10)); }

# fetch ADDRESS FILE DIGEST: into the file, which an interrupted attempt may have begun. Every
# second a line tells bytes, rate and the time left; on a terminal in the place of the one before.
fetch() {
	local command try file=$2 got=0
	if type -P curl >/dev/null; then
		command=(curl --fail --silent --show-error --location --retry 3 --continue-at -
			--output "$file" "$1")
	elif type -P wget >/dev/null; then
		command=(wget --quiet --continue --tries 3 --output-document "$file" "$1")
	else
		die "the bundle is fetched by curl or wget: install one of them, or fetch $1 by" \
			"other means and name the file by OXE_BUNDLE="
	fi
	take_download "$file"
	for try in 1 2; do
		got=$(stat -c %s "$file" 2>/dev/null) || got=0
		[ "$got" = 0 ] ||
			say "going on with a download that was interrupted, at $(mib "$got") MiB"
		# One that is whole already could not be gone on with.
		if [ "$got" = 0 ] || [ "$got" != "${bundle_size:-0}" ]; then
			follow_download "$file" "${command[@]}" ||
				die "$1 could not be fetched: see above. What has come is" \
					"kept, and the next attempt goes on with it"
		fi
		if [ "$try" = 1 ] && [ "$got" != 0 ] &&
			! (verify "$file" "$3") >/dev/null 2>&1; then
			# What was there was of something else.
			say "what was there of the download does not fit: once more from the" \
				"beginning"
			rm -f "$file"
			continue
		fi
		break
	done
	(verify "$file" "$3" >/dev/null) || { rm -f "$file"; exit 126; }
	rm -f "$file.lock"
}
# take_download FILE: one download at a time; others wait for it.
take_download() {
	local holder told=0
	until (set -C; echo $$ >"$1.lock") 2>/dev/null; do
		holder=$(cat "$1.lock" 2>/dev/null) || true
		if [ -z "$holder" ] || [ ! -e "/proc/$holder" ]; then
			rm -f "$1.lock"
			continue
		fi
		[ $told = 1 ] || say "another download of the bundle is under way: waiting for it"
		told=1
		sleep 1
	done
	litter+=("$1.lock")
}
follow_download() { # FILE COMMAND...
	local file=$1 first now begin=$SECONDS end=$'\n' text left status=0
	shift
	[ ! -t 2 ] || end=$'\r'
	first=$(stat -c %s "$file" 2>/dev/null) || first=0
	say "fetching the bundle${bundle_size:+ ($(mib "$bundle_size") MiB)}"
	"$@" &
	loader=$!
	while kill -0 $loader 2>/dev/null; do
		sleep 1
		now=$(stat -c %s "$file" 2>/dev/null) || now=0
		text="$(mib "$now") MiB"
		if [ $SECONDS -gt "$begin" ]; then
			local rate=$(((now - first) / (SECONDS - begin)))
			text+=", $(mib $rate) MiB/s"
			if [ -n "$bundle_size" ] && [ $rate -gt 0 ]; then
				left=$(((bundle_size - now) / rate))
				text+=", $((left > 0 ? left : 0)) s left"
			fi
		fi
		printf 'oxe:   %-50s%s' "$text" "$end" >&2
	done
	wait $loader || status=$?
	loader=''
	[ "$end" != $'\r' ] || echo >&2
	return $status
}

# unpack_bundle FILE DIRECTORY: once; the directory is whole or absent.
unpack_bundle() {
	local new
	say "unpacking the bundle into $2 (once, about 700 MB)"
	new=$(mktemp -d "$2.XXXXXX") || die "there is no room for the bundle: see the message above"
	litter+=("$new")
	# tar stops at the archive's end; zstd is to come to its own, as its checks are there.
	(
		set -o pipefail
		zstd -q -d -c "$1" | {
			tar -x -C "$new" --strip-components=1 --no-same-owner && cat >/dev/null
		}
	) ||
		die "$1 could not be unpacked: see the message above (it takes about 1 GB)"
	if ! mv -T "$new" "$2" 2>/dev/null; then
		# Another run was faster.
		[ -e "$2/vmlinuz" ] || die "$2 could not be made"
	fi
}
