#!/bin/sh
# SPDX-License-Identifier: MIT
# Gets Debian's newest kernel of a series, unpacked and never installed.
#
#   tools/fetch-kernels.sh [-p] [-H] [SERIES ...]      6.1 and 6.12 when none
#
# A series may end in a flavour: 6.12-rt, 7-cloud. Of each come the image, the few
# modules the guests need and the headers to build against (-H: only these), by apt
# alone. They are kept in ${XDG_CACHE_HOME:-~/.cache}/rlx/kernels/RELEASE, and
# $BUILD/kernels/SERIES points there:
#
#   vmlinuz  vmlinux  config  release  build/ (the headers)  modules/*.ko
#
# What the sources of this system do not offer is looked for in another suite,
# $RLX_KERNEL_SUITE (trixie) with its backports, on the mirror that apt uses here.
# Its package lists are kept apart, and apt's own never changed. Such kernels are
# built with that release's compiler: "userland" beside "build" is entered for it
# by tools/userland.sh.
#
# -p looks at the package lists again for a newer release; without it a second
# run asks for nothing. A series that apt does not offer, or cannot bring, is
# named and the exit status is 4; a series with headers alone has no vmlinuz.
set -u

BUILD=${BUILD:-build}
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rlx/kernels
suite=${RLX_KERNEL_SUITE:-trixie}
here=$(cd "$(dirname "$0")" && pwd)
arch=amd64
probe='' headers_only='' other=''
tmp=
trap '[ -z "$tmp" ] || rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

say() { printf 'fetch-kernels: %s\n' "$*" >&2; }

# Modules wanted in a guest, with what they depend on among these folders.
module_dirs='*/kernel/drivers/gpu/drm/drm*.ko* */kernel/drivers/gpu/drm/vgem/*
*/kernel/net/9p/9pnet.ko* */kernel/net/9p/9pnet_virtio.ko* */kernel/fs/9p/*
*/kernel/fs/netfs/* */kernel/fs/fscache/* */kernel/drivers/block/ublk_drv.ko*
*/kernel/drivers/block/brd.ko* */kernel/net/tls/tls.ko* */kernel/crypto/g*.ko*
*/kernel/crypto/crypto_null.ko* */kernel/lib/crypto/gf128mul.ko*
*/kernel/drivers/virtio/virtio.ko* */kernel/drivers/virtio/virtio_[pr]*'

candidate() { apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [0-9]'; }

# The newest release of a series whose headers apt can bring, with its flavour.
newest_release()
{
	flavour=
	case $1 in *-*) flavour=-${1#*-} ;; esac
	apt-cache pkgnames "linux-headers-${1%%-*}." 2>/dev/null |
	sed -n "s/^linux-headers-\([0-9][0-9.]*[-+~a-z0-9.]*$flavour\)-$arch\$/\1/p" |
	{ [ -n "$flavour" ] && cat || grep -Ev -- '-(rt|cloud)$'; } | sort -rV |
	while read -r v; do
		candidate "linux-headers-$v-$arch" && echo "$v" && break
	done
}

depends_of()
{
	apt-cache depends --no-recommends --no-suggests "$1" 2>/dev/null |
		sed -n 's/^ *Depends: \(linux-\(headers\|kbuild\)-.*\)/\1/p'
}

image_of()
{
	# From 7.0 on in parts; the configuration is in linux-base.
	if candidate "linux-binary-$1-$arch"; then
		echo "linux-binary-$1-$arch linux-modules-$1-$arch" \
			"linux-base-$1-$arch"
		return
	fi
	for p in "linux-image-$1-$arch" "linux-image-$1-$arch-unsigned"; do
		candidate "$p" && echo "$p" && return
	done
}

# The other suite's sources: this system's own mirror, with the suite replaced.
write_sources()
{
	mirror=$(apt-get indextargets --format \
		'$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(CODENAME)|$(REPO_URI)' \
		'Created-By: Packages' 2>/dev/null |
		sed -n 's/^Debian|Debian|main|[^|]*|//p' | head -n 1)
	[ -n "$mirror" ] || return 1
	keys=/usr/share/keyrings/debian-archive-keyring.gpg
	{
		echo "Types: deb"
		echo "URIs: $mirror"
		echo "Suites: $suite $suite-backports"
		echo "Components: main"
		[ ! -f $keys ] || echo "Signed-By: $keys"
	} >"$other/debian.sources"
}

# From here on apt knows the other suite and no more.
use_other_suite()
{
	[ -z "$other" ] || { [ -n "${APT_CONFIG-}" ]; return; }
	other=$cache/apt-$suite
	mkdir -p "$other/lists/partial" "$other/cache/archives/partial" || return 1
	write_sources || {
		say "apt's sources name no mirror of Debian's"
		return 1
	}
	cat >"$other/apt.conf" <<-END
		Dir::State::Lists "$other/lists";
		Dir::Cache "$other/cache";
		Dir::Etc::sourcelist "$other/debian.sources";
		Dir::Etc::sourceparts "/dev/null";
		Acquire::Languages "none";
		APT::Architecture "$arch";
		APT::Architectures "$arch";
		APT::Sandbox::User "root";
	END
	export APT_CONFIG="$other/apt.conf"
	[ -z "$probe" ] && [ -n "$(newest_release 7)" ] || refresh
}

refresh()
{
	if [ -n "$other" ]; then
		say "fetching the package lists of $suite"
		apt-get -qq update >"$other/log" 2>&1 ||
			{ tail -n 2 "$other/log" | cut -c 1-200 >&2; return 1; }
		return
	fi
	root=
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null || return 1
		root="sudo -n"
	fi
	say "refreshing the package lists"
	$root apt-get -qq -o DPkg::Lock::Timeout=300 update >/dev/null 2>&1
}

# number FILE OFFSET SIZE: one of the image's header, little-endian
number() { od -An "-tu$3" "-j$2" "-N$3" "$1" | tr -d ' '; }

# The kernel out of its own archive (Documentation/arch/x86/boot.rst), which QEMU
# boots as it is and saves the guest the unpacking.
extract_vmlinux()
{
	at=$((($(number "$1/vmlinuz" 497 1) + 1) * 512 +
	      $(number "$1/vmlinuz" 584 4)))
	size=$(number "$1/vmlinuz" 588 4)
	case $(od -An -tx1 "-j$at" -N4 "$1/vmlinuz" | tr -d ' ') in
	28b52ffd)	by="zstd -dcq" ;;
	fd377a58)	by="xz -dc --single-stream" ;;
	*)		return ;;
	esac
	# What follows the stream is its size, which the tools complain of.
	tail -c "+$((at + 1))" "$1/vmlinuz" | head -c "$size" | $by \
		>"$1/vmlinux.new" 2>/dev/null
	mv "$1/vmlinux.new" "$1/vmlinux"
}

# Depmod's work for few files: a module next to the others, uncompressed.
place_modules()
{
	mkdir -p "$1/modules"
	find "$1/raw/lib/modules" "$1/raw/usr/lib/modules" -name '*.ko*' \
	     2>/dev/null | while read -r f; do
		case $f in
		*.xz)	xz -dc "$f" >"$1/modules/$(basename "$f" .xz)" ;;
		*.zst)	zstd -qdc "$f" >"$1/modules/$(basename "$f" .zst)" ;;
		*)	cp "$f" "$1/modules/" ;;
		esac
	done
}

# The packages' makefiles name /usr/src and /usr/lib; ours lie elsewhere.
move_paths()
{
	hdr=$1/usr/src/linux-headers-$2-$arch
	grep -rlE '/usr/(src|lib)/linux-' "$1"/usr/src/*/Makefile \
	     "$hdr/.kernelvariables" 2>/dev/null | while read -r f; do
		sed -i "s,/usr/\(src\|lib\)/linux-,$3/usr/\1/linux-,g" "$f"
	done
}

# place_image DIR: the kernel and what belongs to it, out of DIR/raw
place_image()
{
	for f in "$1"/raw/boot/vmlinuz-* "$1"/raw/usr/lib/modules/*/vmlinuz; do
		[ ! -f "$f" ] || mv "$f" "$1/vmlinuz" || return 1
	done
	for f in "$1"/raw/boot/config-* "$1"/raw/usr/lib/modules/*/config; do
		[ ! -f "$f" ] || mv "$f" "$1/config" || return 1
	done
	[ -f "$1/vmlinuz" ] || return 0
	extract_vmlinux "$1"
	place_modules "$1"
}

# unpack DIR RELEASE FINAL, with the packages in DIR/deb
unpack()
{
	mkdir -p "$1/raw"
	for d in "$1"/deb/linux-headers-*.deb "$1"/deb/linux-kbuild-*.deb; do
		dpkg-deb -x "$d" "$1" || return 1
	done
	move_paths "$1" "$2" "$3"
	ln -s "usr/src/linux-headers-$2-$arch" "$1/build"
	for d in "$1"/deb/linux-image-*.deb "$1"/deb/linux-b*.deb \
		 "$1"/deb/linux-modules-*.deb; do
		[ -f "$d" ] || continue
		# No match for one of many patterns is no error here.
		set -f
		# shellcheck disable=SC2086 # a list of patterns
		dpkg-deb --fsys-tarfile "$d" | tar -x -C "$1/raw" --wildcards \
			'./boot/vmlinuz-*' './boot/config-*' \
			'./usr/lib/modules/*/vmlinuz' './usr/lib/modules/*/config' \
			$module_dirs 2>/dev/null
		set +f
	done
	place_image "$1" || return 1
	[ -z "$other" ] || ln -s "../userland-$suite" "$1/userland"
	rm -rf "${1:?}/raw" "${1:?}/deb" "${1:?}/usr/share"
	printf '%s\n' "$module_dirs" >"$1/module_dirs"
	[ -n "$headers_only" ] || : >"$1/image_wanted"
	printf '%s-%s\n' "$2" "$arch" >"$1/release"
}

# The compiler of the other suite and what kbuild calls, DKMS with them.
fetch_userland()
{
	gcc=$(apt-cache depends "linux-headers-$1-$arch" 2>/dev/null |
		sed -n 's/^ *Depends: \(gcc-[0-9]*\)-for-host$/\1/p')
	"$here/userland.sh" make "$cache/userland-$suite" "${gcc:-gcc}" bash \
		binutils bzip2 ccache coreutils dash diffutils dkms findutils gawk \
		grep gzip kmod libc6-dev libelf1t64 make mawk mount openssl pahole \
		perl-base sed tar util-linux xz-utils zstd || return 1
	"$here/userland.sh" enter "$cache/userland-$suite" true
}

download()
{
	(cd "$1/deb" && shift &&
	 apt-get -o APT::Sandbox::User=root download "$@") \
		>"$1/log" 2>&1
}

# Is a tree whole, with the modules that are wanted today?
has_all()
{
	[ -n "$headers_only" ] || [ -f "$1/image_wanted" ] || return 1
	[ ! -L "$1/userland" ] || [ -d "$1/userland/usr" ] || return 1
	[ -f "$1/release" ] && [ "$(cat "$1/module_dirs" 2>/dev/null)" = "$module_dirs" ]
}

# fetch_release SERIES RELEASE: the unpacked tree at $cache/RELEASE
fetch_release()
{
	final=$cache/$2
	has_all "$final" && return
	[ -z "$other" ] || fetch_userland "$2" || return 1
	pkgs="linux-headers-$2-$arch $(depends_of "linux-headers-$2-$arch")"
	[ -n "$headers_only" ] || pkgs="$pkgs $(image_of "$2")"
	tmp=$(mktemp -d "$cache/tmp.XXXXXX") && chmod 755 "$tmp" || return 1
	mkdir "$tmp/deb"
	printf '  FETCH   linux %s\n' "$2"
	# shellcheck disable=SC2086 # a list of words
	if ! download "$tmp" $pkgs && { ! refresh || ! download "$tmp" $pkgs; }
	then
		tail -n 2 "$tmp/log" | cut -c 1-200 >&2
		say "apt could not bring linux $2"
		rm -rf "$tmp"
		return 1
	fi
	if ! unpack "$tmp" "$2" "$final"; then
		say "could not unpack linux $2: is the disk full?"
		rm -rf "$tmp"
		return 1
	fi
	rm -rf "$tmp/log"
	[ ! -d "$final" ] || mv "$final" "$tmp.old"
	mv "$tmp" "$final"
	rm -rf "$tmp.old"
	tmp=
}

fetch_series()
{
	link=$BUILD/kernels/$1
	[ -z "$probe" ] && has_all "$link" && return
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
		say "linux $1: this system has no apt"
		return 1
	}
	rel=$(newest_release "$1")
	if [ -z "$rel" ] && [ -z "$(newest_release 6)" ] && [ -z "$other" ]; then
		refresh
		rel=$(newest_release "$1")
	fi
	if [ -z "$rel" ] && use_other_suite; then
		rel=$(newest_release "$1")
	fi
	[ -n "$rel" ] || {
		say "linux $1: apt has no headers of it, here or in $suite"
		return 1
	}
	fetch_release "$1" "$rel" || return 1
	ln -sfn "$cache/$rel" "$link"
}

while getopts pH o; do
	case $o in
	p)	probe=1 ;;
	H)	headers_only=1 ;;
	*)	exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- 6.1 6.12

mkdir -p "$BUILD/kernels" "$cache" || exit 1
exec 9>"$cache/.lock"
flock 9 2>/dev/null
rc=0
for series; do
	# In a shell of its own: each begins with this system's own sources.
	(fetch_series "$series") || rc=4
done
exit $rc
