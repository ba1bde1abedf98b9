# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What has passed, on which driver and kernel: run-selftests --resume does not run it again, and
# with --record another machine does not, either, by Documentation/passes.tsv. Sourced after
# common.sh.

passes=$OXE_TOP/Documentation/passes.tsv

# passes_on KERNEL TYPE: the directory of what passed on this driver, as committed, of what is
# recorded as well: a file for each run of a test, with the numbers of what passed and was skipped.
passes_on() {
	local of=(Kbuild rust scripts/debug-kernel.config) key driver run ok skip
	[ -z "$(git -C "$OXE_TOP" status --porcelain -- "${of[@]}")" ] ||
		die "--resume: ${of[*]} have changes that are not committed"
	key=$(git -C "$OXE_TOP" rev-parse HEAD:Kbuild HEAD:rust HEAD:scripts/debug-kernel.config |
		sha256sum | cut -c 1-12)
	key=$key-$1-$OXE_KVER-$2
	mkdir -p "$OXE_CACHE/passed/$key"
	[ ! -e "$passes" ] || while IFS=$'\t' read -r driver run ok skip; do
		[ "$driver" != "$key" ] || echo "$ok $skip" >"$OXE_CACHE/passed/$key/$run"
	done <"$passes"
	echo "$OXE_CACHE/passed/$key"
}

# record_passes DIRECTORY: Documentation/passes.tsv has what is in it, in place of what it had of
# that kernel, and of other drivers.
record_passes() {
	local key=${1##*/} file ok skip
	exec {lock}<"$1"
	flock "$lock"
	{
		echo "# What passed on this driver, as run-selftests --record writes it. Columns:"
		echo "# digest of the driver, kernel, link type; test, digest of its files; passed;"
		echo "# skipped."
		awk -v key="$key" -v driver="${key%%-*}-" \
			'index($1, driver) == 1 && $1 != key' "$passes"
		for file in "$1"/*; do
			[ -e "$file" ] || continue
			read -r ok skip <"$file"
			printf '%s\t%s\t%s\t%s\n' "$key" "${file##*/}" "$ok" "$skip"
		done
	} >"$passes.new"
	mv "$passes.new" "$passes"
	exec {lock}<&-
}
