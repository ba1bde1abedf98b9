# SPDX-License-Identifier: GPL-2.0
#
# A kernel log without lockdep's reports that name the lock or function `known` and no function of
# oxe: the stock kernel's own. Usage: awk -v known=WORD -f known.awk LOG

function judge() {
	if (!inside || report !~ known || report ~ /\[oxe\]/)
		printf "%s", report
	report = ""
	inside = 0
}
/WARNING: possible (circular|recursive) locking/ { judge(); inside = 1 }
{ report = report $0 "\n" }
!inside || /<\/TASK>/ { judge() }
END { judge() }
