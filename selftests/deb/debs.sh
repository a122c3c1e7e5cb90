#!/bin/sh
# SPDX-License-Identifier: MIT
# What the package tests share: TAP, and where the packages lie. To be sourced.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
unset MAKEFLAGS MFLAGS MAKELEVEL
version=$(sed -n 's/^RLX_VERSION[[:space:]]*:= *//p' version.mk)
mkdir -p "$BUILD/deb"
debs=$(cd "$BUILD/deb" && pwd)

deb_of() { echo "$debs/$1_${version}_$2.deb"; }

# Without packages there is nothing to test, which packages.sh has said.
need_debs()
{
	[ -f "$(deb_of rlx-dkms all)" ] && return
	check packages fail "no packages in $debs"
	finish
}
