#!/bin/sh
# SPDX-License-Identifier: MIT
# What the packages' lists make of what is installed, without building the packages: each list
# finds what it names, and each file lies in one package.
# shellcheck disable=SC1091,SC2154 # it sets tmp, version, rc, src
. "$(dirname "$0")/debs.sh"

# As debian/rules installs it, in a copy of the tree, with what is built here already. A file stands
# for the kernels of GPUs, which take minutes to compile: scripts/install.sh has them all.
installed()
{
	built=$(cd "$BUILD" && pwd) && copy_sources || return 1
	mkdir "$tmp/gpu" && echo kernel >"$tmp/gpu/0123.bin" && touch "$tmp/gpu/.made" || return 1
	case $BUILD in
	/*)	;;
	*)	mkdir -p "$(dirname "$src/$BUILD")" && ln -s "$built" "$src/$BUILD" ;;
	esac
	(cd "$src" && debian/rules override_dh_auto_install-arch ARGS="BUILD=$BUILD PREFIX=/usr \
		KERNELS=$tmp/gpu LIBDIR=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)")
}

# dh_install says what a list names that is not there, dh_missing what no list names.
listed()
{
	cd "$src" && debian/rules override_dh_install && dh_missing --fail-missing
}

once()
{
	(cd "$src/debian" && find librlx1 librlx-train1 librlx-dev rlx-tools rlxd rlx-dkms \
		! -type d) | sed 's,^[^/]*/,,' | sort >"$tmp/files"
	[ "$(wc -l <"$tmp/files")" -gt 100 ] || fail "hardly any files" || return 1
	grep -q 'lib/.*/rlx/gpu/0123.bin' "$tmp/files" || fail "no kernels for GPUs" || return 1
	! uniq -d "$tmp/files" | grep . || fail "in two packages"
}

# The lists find a fault where there is one.
finds_missing()
{
	cd "$src" && rm -r debian/.debhelper &&
	sed -i '/share.man.man1/d' debian/rlx-tools.install &&
	debian/rules override_dh_install && ! dh_missing --fail-missing >"$tmp/missing" 2>&1
	cat "$tmp/missing"
	grep -q 'man1/rlx-doctor.1' "$tmp/missing"
}

check installed installed
check listed listed
check once once
check finds-missing finds_missing
finish
