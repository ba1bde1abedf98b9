# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The examples in documents: after a line ".. example: NAME" the first literal block has commands,
# the second their output. And the steps of workflows. Sourced.

# block DOCUMENT NAME N: the Nth literal block of that example.
block() {
	awk -v name="$2" -v number="$3" '
		$0 == ".. example: " name { inside = 1; next }
		!inside { next }
		/^    / { count += !indented; indented = 1 }
		/^[^ ]/ { indented = 0 }
		indented && count == number { print substr($0, 5) }
		count > number { exit }' "$1"
}

# steps FILE: the lines for the shell of an action's or a workflow's steps ("run:"), in their order.
steps() {
	awk '
		{ match($0, /^ */) }
		RLENGTH > depth && block { print substr($0, depth + 3); next }
		{ block = 0 }
		/^ *(- )?run: / {
			depth = RLENGTH + (/- run/ ? 2 : 0)
			sub(/^ *(- )?run: /, "")
			if ($0 == "|") block = 1; else print
		}' "$1"
}
