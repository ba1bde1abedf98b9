# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # most of these are for those who source this
#
# What all scripts share, those too that run on a user's own machine and go into packages. Sourced,
# never run.

OXE_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
OXE_SCRIPTS=$OXE_TOP/scripts
# Outside the checkout, so that all checkouts share it.
OXE_CACHE=${OXE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var}/.cache}/oxe}

say() { printf 'oxe: %s\n' "$*" >&2; }
die() { printf 'oxe: error: %s\n' "$*" >&2; exit 1; }

# step TEXT: announce a long step with the time since the first of these scripts began.
export OXE_BEGAN=${OXE_BEGAN:-$EPOCHSECONDS}
step() { printf 'oxe: [%3d s] %s\n' $((EPOCHSECONDS - OXE_BEGAN)) "$*" >&2; }

# The version of the module and its packages (Documentation/release.rst).
oxe_version() { sed -n 's/^oxe_version := //p' "$OXE_TOP/Kbuild"; }

# source_of KERNEL: the version of its source package, 7.3 for 7.3.4+deb13-amd64.
source_of() { cut -d. -f1,2 <<<"$1"; }
