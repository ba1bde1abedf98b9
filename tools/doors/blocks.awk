# SPDX-License-Identifier: GPL-2.0
#
# The commands in a document (Markdown or reStructuredText), for scripts/check-doors. A block is
# lines indented by four blanks. The line of its kind is the last one of these before it:
#
#   .. run: PLACE [ROLE]       <!-- run: PLACE [ROLE] -->       commands, and where they run
#   .. output                  <!-- output -->                  the output of the block before
#   .. not run: REASON         <!-- not run: REASON -->         neither; why
#
# Writes each block of commands to OUT/NN.sh, its output to OUT/NN.out, and prints "NN PLACE ROLE
# LINE" ("-" for no role). A block without such a line, or such a line without a block, is an error.

function kind_of(line) {
	if (line !~ /^(\.\.|<!--) (run: |output( -->)?$|not run: )/)
		return ""
	sub(/^(\.\.|<!--) /, "", line)
	sub(/ -->$/, "", line)
	return line
}

function fail(line, text) {
	print FILENAME ":" line ": " text >"/dev/stderr"
	failed = 1
}

kind_of($0) {
	if (kind)
		fail(kind_line, "no block follows: " kind)
	kind = kind_of($0)
	kind_line = FNR
	inside = 0
	next
}

/^    / && (inside || last == "") {
	if (!inside) {
		inside = 1
		file = "/dev/null"
		if (!kind) {
			fail(FNR, "a block of which no line before it says whether it runs")
		} else if (kind ~ /^run: /) {
			number++
			split(substr(kind, 6), words, " ")
			name = sprintf("%02d", number)
			file = out "/" name ".sh"
			print name, words[1], words[2] ? words[2] : "-", FNR
		} else if (kind == "output") {
			file = out "/" name ".out"
		}
		kind = ""
	}
	for (; empty > 0; empty--)
		print "" >file
	print substr($0, 5) >file
	last = $0
	next
}

$0 == "" {
	empty = inside ? empty + 1 : 0
	last = ""
	next
}

{
	inside = 0
	empty = 0
	last = $0
}

END {
	if (kind)
		fail(kind_line, "no block follows: " kind)
	exit failed
}
