# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What a virtual machine has left, into directories of the host. The machine is not trusted.
# Sourced; needs the functions say and die.

# unpack_guest TAR DIRECTORY: unpack what a machine has written, a tar, into a new directory. There
# will be regular files, directories, and symbolic links that do not lead out of the directory,
# owned by the user who runs this, without set-user-ID. All else is left out, with a line that names
# it. If the tar is damaged, as by a machine that died while it wrote, the rest is left out too, and
# the exit status is 1.
unpack_guest() {
	local tar=$1 directory=$2 status=0 path errors
	mkdir -m 700 "$directory"
	# GNU tar takes leading slashes off, refuses names with "..", and makes links that lead
	# elsewhere only when it has made all else, so that nothing is written through them.
	errors=$(tar -xf "$tar" -C "$directory" --no-same-owner --no-same-permissions \
		--delay-directory-restore --warning=no-timestamp 2>&1 >/dev/null) || {
		status=1
		say "not all that the machine left could be unpacked:" \
			"$(tail -n 2 <<<"$errors" | tr '\n' ' ')"
	}
	chmod -R u+rwX "$directory"
	while IFS= read -r -d '' path; do
		if [ -L "$path" ]; then
			case $(readlink "$path") in
			/* | .. | ../* | */.. | */../*)
				left_out "$path" "it is a link that may lead out of the directory"
				;;
			esac
		elif [ ! -f "$path" ] && [ ! -d "$path" ]; then
			left_out "$path" \
				"it is neither a file, nor a directory, nor a symbolic link"
		fi
	done < <(all_in "$directory")
	return $status
}
left_out() { # PATH REASON
	rm -f -- "$1"
	say "$(printf '%q is left out: %s' "${1#"$directory"/}" "$2")"
}

# all_in DIRECTORY: the paths of all that is below it, a directory before what is in it, ended by
# zero bytes. Symbolic links are not followed.
all_in() (
	shopt -s globstar dotglob nullglob
	for path in "$1"/**; do
		[ "$path" = "$1/" ] || printf '%s\0' "$path"
	done
)

# bring_back FROM TO: the files of a machine, unpacked in one directory, into another, where files
# keep their owner and directories stay as they are. Nothing is written through a symbolic link
# there: the machine does not know where it leads.
bring_back() {
	local from=$1 to=$2 path name
	while IFS= read -r -d '' path; do
		[ -e "$path" ] || [ -L "$path" ] || continue
		name=${path#"$from"/}
		if [ ! -d "$path" ] || [ -L "$path" ]; then
			[ ! -L "$to/$name" ] || rm -f "$to/$name"
		elif [ -L "$to/$name" ]; then
			say "$name is a symbolic link here: what a program has put in it as a" \
				"directory is left out"
			rm -rf "${path:?}"
			continue
		elif [ -d "$to/$name" ]; then
			continue
		fi
		printf './%s\0' "$name"
	done < <(all_in "$from") >"$from.names"
	tar -c -C "$from" --no-recursion --null -T "$from.names" |
		tar -x -C "$to" --overwrite --no-same-owner
}
