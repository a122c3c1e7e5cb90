#!/bin/sh
# SPDX-License-Identifier: MIT
# What the package tests share: TAP, and where the packages lie. To be sourced.
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL
BUILD=${BUILD:-build}
version=$(sed -n 's/^VERSION[[:space:]]*:= *//p' Makefile)
mkdir -p "$BUILD/deb"
debs=$(cd "$BUILD/deb" && pwd)
tmp=$(mktemp -d) || exit 1
n=0 rc=0

# check NAME COMMAND ...: passes if the command does; its output is kept on failure
check()
{
	n=$((n + 1)) name=$1
	shift
	if "$@" >"$tmp/out" 2>&1; then
		echo "ok $n $name"
	else
		sed 's/^/# /' "$tmp/out" | tail -n 40
		echo "not ok $n $name"
		rc=1
	fi
}

skip()
{
	n=$((n + 1))
	echo "ok $n $1 # SKIP $2"
}

fail() { echo "$*"; return 1; }

deb_of() { echo "$debs/$1_${version}_$2.deb"; }

# Without packages there is nothing to test, which packages.sh has said.
need_debs()
{
	[ -f "$(deb_of rlx-dkms all)" ] && return
	check packages fail "no packages in $debs"
	finish
}

finish()
{
	echo "1..$n"
	exit $rc
}
