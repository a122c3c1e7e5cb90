#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the packages from a clean copy of the tree, and looks into them.
#
#   selftests/deb/packages.sh [-A]		-A: rlx-dkms alone
# shellcheck disable=SC1091,SC2154 # it sets tmp, version, rc
. "$(dirname "$0")/debs.sh"
arch=$(dpkg --print-architecture)

# The same version everywhere, or packages and modules would not find each other: what
# cannot read version.mk agrees with it, and no other file of the build says a version.
versions()
{
	echo "version.mk says $version"
	[ "$(dpkg-parsechangelog -S Version)" = "$version" ] ||
		fail "debian/changelog differs"
	# As DKMS does, from another folder.
	[ "$(here=$PWD && cd / && bash -c '. "$1" && echo "$PACKAGE_VERSION"' \
	     bash "$here/dkms.conf")" = "$version" ] ||
		fail "dkms.conf makes another of it"
	! grep -n "${version%%.*}\.[0-9][0-9]*\.[0-9]" dkms.conf kmod/main.c Makefile \
		debian/rlx-dkms.install debian/rules ||
		fail "a version that version.mk does not know of"
}

# Every file under the GPL is named so in debian/copyright, and no other.
copyright()
{
	pattern=$(awk '/^Files:/ { f = $0; sub(/^Files: */, "", f) }
		/^License: GPL-2$/ && f { print f; exit }' debian/copyright |
		sed 's/\*//g; s/ /|^/g')
	sources | while read -r f; do
		case $f in *.md|*.scd|LICENSES/*) continue ;; esac
		[ -f "$f" ] && head -n 2 "$f" | grep -aq \
			'SPDX-License-Identifier: GPL-2.0-only\( \*/\)*$' &&
			echo "${f#./}"
	done | sort >"$tmp/gpl"
	sources | sed 's,^\./,,' | grep -E "^$pattern" | while read -r f; do
		[ -f "$f" ] && echo "$f"
	done | grep -vE '\.(md|config)$' | sort >"$tmp/said"
	[ -s "$tmp/gpl" ] && diff "$tmp/gpl" "$tmp/said"
}

build()
{
	copy_sources || return 1
	unset BUILD
	# shellcheck disable=SC2086 # no word when empty
	(cd "$src" && dpkg-buildpackage $only_all -us -uc -rfakeroot "-j$(nproc)") || return 1
	rm -rf "$src"
	rm -f "$debs"/*.deb "$debs"/rlx_*
	mv "$tmp"/*.deb "$tmp"/rlx_* "$debs/"
}

all_are_there()
{
	for p in librlx1 librlx-train1 librlx-dev rlx-tools rlxd; do
		[ -s "$(deb_of $p "$arch")" ] || fail "no $p"
	done
	[ -s "$(deb_of rlx-dkms all)" ] || fail "no rlx-dkms"
	[ -s "$debs/rlx_$version.dsc" ] && [ -s "$debs/rlx_$version.tar.xz" ] ||
		fail "no source package"
}

lintian_clean()
{
	user=
	[ "$(id -u)" != 0 ] || user=--allow-root
	lintian $user --fail-on error,warning \
		"$debs"/rlx_"$version"_*.changes \
		>"$tmp/lintian" 2>&1
	ret=$?
	cat "$tmp/lintian"
	! grep '^[EW]:' "$tmp/lintian" && [ "$ret" = 0 ]
}

# has PACKAGE FILE ...
has()
{
	dpkg-deb -c "$1" | awk '{ print $6 }' >"$tmp/files"
	shift
	for f; do
		grep -qx "\./$f" "$tmp/files" || fail "no $f" || return 1
	done
}

contents()
{
	lib=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
	has "$(deb_of librlx1 "$arch")" "$lib/librlx.so.1" \
		$(test "$arch" != amd64 || echo "$lib/librlx-avx512.so.1") &&
	has "$(deb_of librlx-train1 "$arch")" "$lib/librlx-train.so.1" &&
	has "$(deb_of librlx-dev "$arch")" usr/include/rlx/arena.h \
		usr/include/linux/rlx.h "$lib/librlx.a" "$lib/pkgconfig/rlx.pc" \
		"$lib/cmake/rlx/rlxConfig.cmake" usr/share/man/man3/librlx.3.gz \
		usr/share/man/man3/rlx-ops.3.gz &&
	has "$(deb_of rlx-tools "$arch")" usr/bin/rlx \
		usr/share/man/man1/rlx-doctor.1.gz \
		usr/share/bash-completion/completions/rlx &&
	has "$(deb_of rlxd "$arch")" usr/sbin/rlxd etc/rlxd/rlxd.conf \
		lib/systemd/system/rlxd.service lib/systemd/system/rlxd.socket \
		lib/systemd/system/rlxd@.service lib/systemd/system/rlxd-fd-store.service \
		usr/lib/sysusers.d/rlxd.conf usr/share/man/man8/rlxd.8.gz \
		usr/share/man/man5/rlxd.conf.5.gz
}

dkms_contents()
{
	has "$(deb_of rlx-dkms all)" "usr/src/rlx-$version/dkms.conf" \
		"usr/src/rlx-$version/Kbuild" "usr/src/rlx-$version/kmod/main.c" \
		"usr/src/rlx-$version/uapi/linux/rlx.h" usr/share/man/man4/rlx.4.gz \
		lib/udev/rules.d/60-rlx.rules usr/lib/modules-load.d/rlx.conf &&
	! dpkg-deb -c "$(deb_of rlx-dkms all)" | grep -E '\.(o|ko|cmd)$|rlx_conf\.h'
}

udev_rule()
{
	dpkg-deb --fsys-tarfile "$(deb_of rlx-dkms all)" |
		tar -xO ./lib/udev/rules.d/60-rlx.rules >"$tmp/rule" &&
	grep -q 'KERNEL=="rlx", GROUP="render", MODE="0660"' "$tmp/rule"
}

# hardened PACKAGE PROGRAM
hardened()
{
	dpkg-deb -x "$(deb_of "$1" "$arch")" "$tmp/$1" &&
	readelf -d "$tmp/$1/$2" | grep -q 'BIND_NOW' &&
	readelf -h "$tmp/$1/$2" | grep -q 'DYN' &&
	"$tmp/$1/$2" --version | grep -qx "${2##*/} $version"
}

# The units as systemd reads them beside its own, with the programs they name.
units()
{
	u=$tmp/units
	dpkg-deb -x "$(deb_of rlxd "$arch")" "$u" && mkdir -p "$u/bin" &&
	cp -rn /lib/systemd/system "$u/lib/systemd/" && cp /bin/kill "$u/bin/" &&
	systemd-analyze verify --man=no --root="$u" rlxd.service rlxd.socket \
		rlxd@1.service rlxd-fd-store.service >"$tmp/verify" 2>&1
	ret=$?
	cat "$tmp/verify"
	[ $ret = 0 ] && ! grep rlxd "$tmp/verify"
}

conffiles()
{
	dpkg-deb -I "$(deb_of rlxd "$arch")" conffiles | grep -qx /etc/rlxd/rlxd.conf &&
	! dpkg-deb -I "$(deb_of rlxd "$arch")" conffiles | grep -v '^/etc/rlxd/rlxd.conf$'
}

check versions versions
check copyright copyright
check build build
check dkms-contents dkms_contents
check udev-rule udev_rule
[ -z "$only_all" ] || finish
check packages all_are_there
check lintian lintian_clean
check contents contents
check hardened hardened rlx-tools usr/bin/rlx
check hardened-rlxd hardened rlxd usr/sbin/rlxd
check conffiles conffiles
check units units
finish
