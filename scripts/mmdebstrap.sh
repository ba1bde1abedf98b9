# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# How roots, packages and lists come out of Debian's archive. Sourced after common.sh.
#
# No mirror is named here. On a Debian host it is the one apt uses already; elsewhere it is
# $OXE_MIRROR or, failing that, the default that mmdebstrap itself knows for the suite.

# The archive's address, or nothing where mmdebstrap shall use its default.
debian_mirror() {
	if [ -n "${OXE_MIRROR:-}" ]; then
		echo "$OXE_MIRROR"
		return
	fi
	# shellcheck disable=SC2016 # the $(...) are apt's own format fields
	apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)' |
		sed -n 's/^Debian|Debian|main|//p' | head -n 1 || true
}

# The host tools the set-up needs; the only packages it ever installs on the host itself.
need_mmdebstrap() {
	local missing=()
	command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
	[ ${#missing[@]} -gt 0 ] || return 0
	need_root
	step "installing on this machine: ${missing[*]} (apt-get)"
	apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "${missing[@]}" >/dev/null ||
		die "apt-get could not install ${missing[*]}: install them by hand and start again"
}

# The host's apt settings that matter beyond its sources: proxies, and leave to use an old snapshot.
apt_options() {
	apt-config dump |
		grep -E '^Acquire::(http|https)::(Proxy|CaInfo|CaPath)|^Acquire::Check-(Valid-Until|Date) ' || true
}

# What all uses of mmdebstrap here share: one for each line.
debian_options() { # FILE-OF-APT-OPTIONS
	printf '%s\n' --mode=root --components=main \
		--keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
		--aptopt="$1" --aptopt='Acquire::Languages "none"'
}

# in_archive SUITE HOOK: run this line for the shell with an apt that knows the suite's packages,
# for $OXE_ARCH, and no root. It ends within a minute where there is no network.
in_archive() {
	local work options mirror status=0
	work=$(mktemp -d /tmp/oxe-archive.XXXXXX)
	apt_options >"$work/options"
	mapfile -t options < <(debian_options "$work/options")
	mirror=$(debian_mirror)
	mmdebstrap "${options[@]}" --variant=custom --format=null --architectures="$OXE_ARCH" \
		--skip=check/qemu \
		--aptopt='Acquire::Retries "1"' --aptopt='Acquire::http::Timeout "10"' \
		--aptopt='Acquire::https::Timeout "10"' \
		--customize-hook="export APT_CONFIG=\$MMDEBSTRAP_APT_CONFIG; $2" \
		"$1" - ${mirror:+"$mirror"} >"$work/log" 2>&1 || status=$?
	if [ $status != 0 ]; then
		grep -E '^(E|W): ' "$work/log" | tail -n 3 >&2 || true
		say "Debian's archive could not be read (suite $1, mirror: ${mirror:-mmdebstrap\'s own})"
	fi
	rm -rf "$work"
	return $status
}

# debian_root DIRECTORY PACKAGES [MMDEBSTRAP-OPTION...]: a root of the suite in use; trixie's has its
# kernels from backports.
debian_root() {
	local target=$1 packages=$2 mirror options apt log backports=()
	shift 2
	need_root
	need_mmdebstrap
	mirror=$(debian_mirror)
	log=$target.log
	apt=$(mktemp)
	apt_options >"$apt"
	mapfile -t options < <(debian_options "$apt")
	# The set-up hook derives the backports line from the suite's own, whatever mirror that names.
	# shellcheck disable=SC2016 # "$1" is for the hooks' shells
	[ "$OXE_SUITE" != trixie ] || backports=(
		--setup-hook='sed -i -n "/^deb.* trixie /{p;s/ trixie / trixie-backports /p}" \
			"$1/etc/apt/sources.list"'
		--setup-hook='printf "Package: linux-*\nPin: release n=trixie-backports\nPin-Priority: 990\n" \
			>"$1/etc/apt/preferences.d/oxe"'
	)
	mmdebstrap --verbose --variant=minbase "${options[@]}" --aptopt='Acquire::Retries "5"' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		"${backports[@]}" --include="$packages" "$@" "$OXE_SUITE" "$target" \
		${mirror:+"$mirror"} >"$log" 2>&1 || {
		grep -E '^(oxe|E|W|dpkg): |^    ' "$log" | tail -n 20 >&2
		rm -f "$apt"
		die "mmdebstrap failed, see $log. Mirror used: ${mirror:-its default}; set OXE_MIRROR= to" \
			"use another"
	}
	rm -f "$apt" "$log"
}
