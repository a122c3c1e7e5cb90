#!/bin/sh
# SPDX-License-Identifier: MIT
# What the package tests share: TAP, and where the packages lie. To be sourced.
#
# With -A as first word it is about rlx-dkms alone, which needs nothing compiled, in a folder
# of its own: what "make check" has time for.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
unset MAKEFLAGS MFLAGS MAKELEVEL
version=$(sed -n 's/^RLX_VERSION[[:space:]]*:= *//p' version.mk)
only_all=
if [ "${1-}" = -A ]; then
	only_all=-A
	shift
fi
debs=$BUILD/deb${only_all:+/all}
mkdir -p "$debs"
debs=$(cd "$debs" && pwd)

deb_of() { echo "$debs/$1_${version}_$2.deb"; }

# What git would commit; or, where there is no git, all that is not built.
sources()
{
	git ls-files -co --exclude-standard 2>/dev/null ||
		find . -name .git -prune -o -path "./$BUILD" -prune -o \
			-path ./build -prune -o -type f -print
}

# A copy of the tree, in the folder of its name and version.
src=$tmp/rlx-$version
copy_sources()
{
	mkdir "$src" && sources | while read -r f; do
		[ -f "$f" ] && echo "$f"
	done | tar -cf - -T - | tar -xf - -C "$src"
}

# Without packages there is nothing to test, which packages.sh has said.
need_debs()
{
	[ -f "$(deb_of rlx-dkms all)" ] && return
	check packages fail "no packages in $debs"
	finish
}
