#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs, upgrades and removes the packages in a Debian system of their own: a
# folder made by root.sh, entered by chroot. It must be left as it was found.
# shellcheck disable=SC1091,SC2154 # it sets tmp, version, rc
. "$(dirname "$0")/debs.sh"
root=$BUILD/deb/root
arch=$(dpkg --print-architecture)

leave()
{
	umount "$root/proc" 2>/dev/null
	rm -rf "$tmp"
}
trap leave EXIT

in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	HOME=/tmp LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }

# Files of the system, but for what the tools themselves keep records in (and copies
# of, as /etc/shadow- is: a user that was made stays).
listing()
{
	(cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp \
		-o -path ./debs -o -path ./var/lib/dpkg -o -path ./var/cache \
		-o -path ./var/log -o -path './var/lib/dkms/mok*' -o \
		-path './lib/modules/*/modules.*' -o -path './usr/lib/modules/*/modules.*' \
		-o -path './etc/*-' -o -name '*.pyc' \) -prune -o -print | sort)
}

releases() { ls "$root/lib/modules"; }

built_for_all()
{
	for r in $(releases); do
		ko=$root/lib/modules/$r/updates/dkms/rlx.ko
		[ -f "$ko" ] || fail "no module for $r" || return 1
		[ "$(modinfo -F version "$ko")" = "$1" ] ||
			fail "the module for $r is not $1" || return 1
		grep -q '^updates/dkms/rlx.ko:' "$root/lib/modules/$r/modules.dep" ||
			fail "depmod did not see the module for $r" || return 1
	done
}

put_debs()
{
	mkdir -p "$root/debs" && rm -f "$root"/debs/*.deb || return 1
	for p in "librlx1 $arch" "librlx-train1 $arch" "librlx-dev $arch" "rlx-tools $arch" \
		 "rlxd $arch" "rlx-dkms all"; do
		# shellcheck disable=SC2086 # two words
		cp "$(deb_of $p)" "$root/debs/" || return 1
	done
}

install_all() { in_root sh -c 'dpkg -i /debs/*.deb' && built_for_all "$version"; }

# What a user does first.
use_it()
{
	cat >"$root/tmp/p.c" <<'EOF'
#include <linux/rlx.h>
#include <rlx/arena.h>

int main(void)
{
	struct rlx_arena_opts o = { .size = 4096 };
	struct rlx_ioc_query q = { .abi = RLX_ABI };
	struct rlx_arena *a;

	if (rlx_arena_new(&o, &a, 0))
		return 1;
	rlx_arena_put(a);
	return q.abi != 1;
}
EOF
	in_root rlx --version | grep -qx "rlx $version" &&
	in_root sh -c 'gcc -Wall -Werror -o /tmp/p /tmp/p.c \
		$(pkg-config --cflags --libs rlx) && /tmp/p && rm /tmp/p /tmp/p.c' &&
	in_root sh -c 'rlx doctor; test $? -le 1' &&
	in_root rlx doctor --json | grep -q '"secure_boot"' &&
	serve_it
}

serve_it()
{
	in_root rlxd --check && in_root getent passwd rlxd &&
	in_root sh -c 'rlxd --listen unix:/tmp/rlxd.sock 2>/tmp/rlxd.log & n=0
		until rlx top --to unix:/tmp/rlxd.sock --count 1 --every 0.1; do
			n=$((n + 1)); [ $n -lt 50 ] || break; sleep 0.2
		done
		kill $!; wait $!; ret=$?; cat /tmp/rlxd.log; rm /tmp/rlxd.log; exit $ret'
}

# What an administrator wrote stays over an upgrade.
edit_conf() { echo '# mine' >>"$root/etc/rlxd/rlxd.conf"; }

conf_stays() { tail -n 1 "$root/etc/rlxd/rlxd.conf" | grep -qx '# mine'; }

# The packages, as if they were an older version.
older()
{
	old=0.0.9
	for f in "$root"/debs/*.deb; do
		d=$tmp/repack
		rm -rf "$d" && dpkg-deb -R "$f" "$d" || return 1
		sed -i "s/$version/$old/g" "$d"/DEBIAN/*
		if [ -d "$d/usr/src/rlx-$version" ]; then
			mv "$d/usr/src/rlx-$version" "$d/usr/src/rlx-$old"
			sed -i "s/$version/$old/g" "$d/usr/src/rlx-$old/dkms.conf" \
				"$d/usr/src/rlx-$old/kmod/main.c" "$d/DEBIAN/md5sums"
		fi
		dpkg-deb -b "$d" "$f" || return 1
	done
	in_root sh -c 'dpkg -i /debs/*.deb' && built_for_all $old
}

upgrade()
{
	put_debs && install_all || return 1
	[ ! -e "$root/var/lib/dkms/rlx/0.0.9" ] ||
		fail "an older tree of DKMS stayed" || return 1
	[ ! -e "$root/usr/src/rlx-0.0.9" ] || fail "an older source stayed"
}

remove()
{
	in_root dpkg -r rlxd rlx-dkms rlx-tools librlx-dev librlx-train1 librlx1 || return 1
	! ls "$root"/lib/modules/*/updates/dkms/rlx.ko 2>/dev/null ||
		fail "a module stayed"
}

purge() { in_root dpkg -P rlxd rlx-dkms rlx-tools librlx-dev librlx-train1 librlx1; }

nothing_stays()
{
	listing >"$tmp/after"
	diff "$tmp/before" "$tmp/after"
}

if [ "$(id -u)" != 0 ]; then
	skip install "not root: a system of its own cannot be made"
	finish
fi
need_debs
selftests/deb/root.sh "$root" >"$tmp/root" 2>&1
case $? in
0)	;;
4)	skip install "no system of its own: $(tail -n 1 "$tmp/root")"
	finish ;;
*)	check root fail "$(tail -n 20 "$tmp/root")"
	finish ;;
esac
mount -t proc proc "$root/proc" || exit 1
listing >"$tmp/before"
put_debs
check install install_all
check use use_it
check remove remove
check purge purge
check nothing-stays nothing_stays
check install-older older
check edit-conf edit_conf
check upgrade upgrade
check conf-stays conf_stays
check use-upgraded use_it
check purge-upgraded purge
check nothing-stays-upgraded nothing_stays
# A system that something was left in is of no use to the next run.
if [ $rc != 0 ]; then
	umount "$root/proc" 2>/dev/null
	rm -rf --one-file-system "$root"
fi
finish
