#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes a Debian system in a folder, with what the packages need to be installed.
#
#   selftests/deb/root.sh FOLDER
#
# apt of this system brings the packages by its own settings, so whatever mirror
# it uses is used here; they are unpacked and configured by chroot. A folder made
# before, of the same packages, is left as it is. Exit status 4: it cannot be had.
set -eu

BUILD=${BUILD:-build}
root=$1
cache=$BUILD/deb/cache
mkdir -p "$cache/archives/partial"
cache=$(cd "$cache" && pwd)

say() { printf 'root: %s\n' "$*" >&2; }

want="?essential apt dkms kmod libc6-dev libinih1 libssl3 liburing-dev openssl procps"
want="$want pkg-config systemd-standalone-sysusers udev"
for series in 6.1 6.12; do
	k=$BUILD/kernels/$series/release
	[ -f "$k" ] || continue
	p=linux-headers-$(cat "$k")
	if apt-cache show "$p" >/dev/null 2>&1; then
		want="$want $p"
	fi
done

if [ -f "$root/.made-of" ] && [ "$(cat "$root/.made-of")" = "$want" ]; then
	exit 0
fi

# As if nothing were installed: everything is fetched, with all it depends on.
: >"$cache/status"
# shellcheck disable=SC2086 # lists of words
apt-get -y -qq -o Dir::State::status="$cache/status" \
	-o Dir::Cache::archives="$cache/archives" -o Dir::Cache::pkgcache= \
	-o Dir::Cache::srcpkgcache= -o Debug::NoLocking=1 \
	-o APT::Install-Recommends=0 -o APT::Sandbox::User=root \
	-o APT::Keep-Downloaded-Packages=1 \
	install --download-only $want >"$cache/log" 2>&1 || {
	tail -n 5 "$cache/log" >&2
	say "apt could not bring the packages of a Debian system"
	exit 4
}

rm -rf --one-file-system "$root"
mkdir -p "$root/debs" "$root/dev" "$root/proc" "$root/usr/bin" "$root/usr/sbin" \
	"$root/usr/lib" "$root/usr/lib64" "$root/var/lib/dpkg" "$root/etc/dkms"
root=$(cd "$root" && pwd)
for d in bin sbin lib lib64; do
	ln -s "usr/$d" "$root/$d"
done
for dev in null:3 zero:5 random:8 urandom:9; do
	mknod -m 666 "$root/dev/${dev%:*}" c 1 "${dev#*:}" 2>/dev/null ||
		: >"$root/dev/${dev%:*}"
done
: >"$root/var/lib/dpkg/status"
: >"$root/var/lib/dpkg/available"

# Some headers want their kernel as well, which has nothing to start here.
rm -f "$cache"/archives/linux-image-*.deb "$cache"/archives/initramfs-tools*.deb
# It is thrown away: nothing need survive a crash, nobody reads there.
mkdir -p "$root/etc/dpkg/dpkg.cfg.d"
printf '%s\n' force-unsafe-io 'path-exclude=/usr/share/doc/*' \
	'path-exclude=/usr/share/man/*' 'path-exclude=/usr/share/locale/*' \
	>"$root/etc/dpkg/dpkg.cfg.d/rlx-tests"
# First the bare files, so that dpkg can run there; then everything by dpkg.
for f in "$cache"/archives/*.deb; do
	case $(basename "$f") in
	linux-*|gcc-*|cpp-*|g++-*) continue ;;
	esac
	dpkg-deb --fsys-tarfile "$f" | tar -x -C "$root" --keep-directory-symlink
done
cp "$cache"/archives/*.deb "$root/debs/"
echo autoinstall_all_kernels=yes >"$root/etc/dkms/framework.conf"
cat >"$root/usr/sbin/policy-rc.d" <<'EOF'
#!/bin/sh
exit 101
EOF
chmod 755 "$root/usr/sbin/policy-rc.d"
ln -s /proc/self/fd "$root/dev/fd"
mount -t proc proc "$root/proc" 2>/dev/null || {
	say "mounting /proc is not allowed here"
	exit 4
}
trap 'umount "$root/proc" 2>/dev/null || :' EXIT
in_root()
{
	chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C \
		HOME=/tmp DEBIAN_FRONTEND=noninteractive "$@" >>"$cache/log" 2>&1
}
in_root true || {
	say "chroot is not allowed here"
	exit 4
}
in_root sh -c 'dpkg --force-depends --force-confold -i /debs/base-passwd_*.deb \
		/debs/base-files_*.deb' &&
in_root sh -c 'dpkg --force-depends --force-confold -i /debs/*.deb' || {
	tail -n 20 "$cache/log" >&2
	say "configuring the system failed; the log is $cache/log"
	exit 1
}
rm -rf "$root/debs"
printf '%s\n' "$want" >"$root/.made-of"
