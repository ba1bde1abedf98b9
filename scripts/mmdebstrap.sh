# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# How both roots, the build root and the guest, come out of Debian's archive. Sourced after common.sh.
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

# debian_root DIRECTORY PACKAGES [MMDEBSTRAP-OPTION...]: the suite, with the kernel packages of its backports.
debian_root() {
	local target=$1 packages=$2 mirror options log
	shift 2
	need_root
	need_mmdebstrap
	mirror=$(debian_mirror)
	log=$target.log
	options=$(mktemp)
	apt_options >"$options"
	# The set-up hook derives the backports line from the suite's own, whatever mirror that names.
	# shellcheck disable=SC2016 # "$1" is for the hooks' shells
	mmdebstrap --verbose --mode=root --variant=minbase --components=main \
		--keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
		--aptopt="$options" --aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "5"' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--setup-hook='sed -i -n "/^deb.* '"$OXE_SUITE"' /{p;s/ '"$OXE_SUITE"' / '"$OXE_SUITE"'-backports /p}" "$1/etc/apt/sources.list"' \
		--setup-hook='printf "Package: linux-*\nPin: release n='"$OXE_SUITE"'-backports\nPin-Priority: 990\n" >"$1/etc/apt/preferences.d/oxe"' \
		--extract-hook="'$OXE_SCRIPTS/check-kernel-package'" \
		--include="$packages" "$@" "$OXE_SUITE" "$target" ${mirror:+"$mirror"} >"$log" 2>&1 || {
		grep -E '^(oxe|E|W|dpkg): |^    ' "$log" | tail -n 20 >&2
		rm -f "$options"
		die "mmdebstrap failed, see $log. Mirror used: ${mirror:-its default}; set OXE_MIRROR= to use another"
	}
	rm -f "$options" "$log"
}
