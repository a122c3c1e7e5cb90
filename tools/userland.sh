#!/bin/sh
# SPDX-License-Identifier: MIT
# The programs of another Debian release, beside this system's and never installed.
#
#   tools/userland.sh make FOLDER PACKAGE ...    unpacks them and what they need
#   tools/userland.sh enter FOLDER COMMAND ...   runs COMMAND with FOLDER/usr as /usr
#
# Headers of newer kernels want a newer compiler, and the programs that come with
# them a newer C library. "make" takes them from the suite that $APT_CONFIG tells
# apt of. "enter" covers /usr in a mount namespace of the command's own: all other
# paths are as ever, so it works on files here by the names they have.
#
# Exit status 4: it cannot be had, or not entered, here; what is wrong is said.
set -u

say() { printf 'userland: %s\n' "$*" >&2; }

# download DIR PACKAGE ...: as if nothing were installed, so with all they need
download()
{
	d=$1
	shift
	mkdir -p "$d/archives/partial"
	: >"$d/status"
	apt-get -y -qq -o Dir::State::status="$d/status" \
		-o Dir::Cache::archives="$d/archives" -o Debug::NoLocking=1 \
		-o APT::Install-Recommends=0 -o APT::Sandbox::User=root \
		-o APT::Keep-Downloaded-Packages=1 \
		install --download-only "$@" >"$d/log" 2>&1
}

make_root()
{
	root=$1
	shift
	[ "$(cat "$root/made-of" 2>/dev/null)" = "$*" ] && return
	tmp=$(mktemp -d "$root.XXXXXX") && chmod 755 "$tmp" || return 1
	trap 'rm -rf "$tmp"' EXIT
	printf '  FETCH   %s\n' "$(basename "$root")"
	if ! download "$tmp" "$@"; then
		tail -n 2 "$tmp/log" | cut -c 1-200 >&2
		say "apt could not bring $*"
		return 4
	fi
	mkdir -p "$tmp/usr"
	for d in bin sbin lib lib64; do
		mkdir -p "$tmp/usr/$d"
		ln -s "usr/$d" "$tmp/$d"
	done
	for f in "$tmp"/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$f" |
		tar -x -C "$tmp" --keep-directory-symlink \
			--exclude './usr/share/doc/*' --exclude './usr/share/man/*' \
			--exclude './usr/share/locale/*' --exclude './var/*' || {
			say "could not unpack $f: is the disk full?"
			return 1
		}
	done
	# What update-alternatives would have done; its links lie in /etc.
	[ -e "$tmp/usr/bin/awk" ] || ln -sfn mawk "$tmp/usr/bin/awk"
	rm -rf "$tmp/archives" "$tmp/status" "$tmp/log"
	printf '%s\n' "$*" >"$tmp/made-of"
	rm -rf "$root"
	mv "$tmp" "$root"
	trap - EXIT
}

enter()
{
	[ -L /bin ] && [ -L /lib ] || {
		say "/usr is not all of this system: /lib or /bin is a folder"
		exit 4
	}
	case $PWD/ in
	/usr/*)	say "/usr will be another: run this from a folder elsewhere"
		exit 4 ;;
	esac
	map=
	[ "$(id -u)" = 0 ] || map=-r
	# shellcheck disable=SC2086,SC2016 # no word when empty; for the other shell
	exec unshare -m $map sh -c 'root=$1
		shift
		mount --bind "$root/usr" /usr && exec "$@"
		echo "userland: no mount namespace can be had here" >&2
		exit 4' sh "$root" "$@"
}

what=${1-}
[ $# -ge 3 ] || what=
case $what in
make)	shift; make_root "$@" ;;
enter)	root=$(readlink -f "$2"); shift 2; enter "$@" ;;
*)	sed -n '5,6s/^# *//p' "$0" >&2; exit 2 ;;
esac
