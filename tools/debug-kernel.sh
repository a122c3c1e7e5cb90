#!/bin/sh
# SPDX-License-Identifier: MIT
# Finds a built kernel for guests that watch, or builds one from Debian's source of 6.12.
#
#   tools/debug-kernel.sh [-k NAME] find        what was built; status 4 when nothing was
#   tools/debug-kernel.sh [-k NAME] config      fetches the source, configures and checks
#   tools/debug-kernel.sh [-k NAME] build       all of it: 20 minutes on two processors
#   tools/debug-kernel.sh [-k NAME] pack FILE   an archive of what "find" found
#
# NAME is debug (which watches memory and locks) or kcsan (data races): the kernel of
# selftests/kmod/guest.config and selftests/kmod/NAME.config, where lines "# make: WORD ..."
# hold variables for make.
# $BUILD/kernels/NAME gets vmlinuz, build/ (the headers), modules/ and release,
# as tools/fetch-kernels.sh leaves them for other kernels. "find" takes the archive
# that $RLX_DEBUG_KERNEL ($RLX_KCSAN_KERNEL) names, or what "build" left in the cache for
# these very fragments (${XDG_CACHE_HOME:-~/.cache}/rlx/kernels), or the newest archive
# ../shared/kernel/NAME-*.tar.zst. "build" does nothing for a source, fragments and a
# compiler it knows already.
set -u
unset MAKEFLAGS MFLAGS

BUILD=${BUILD:-build}
JOBS=${JOBS:-$(nproc)}
here=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rlx/kernels
pkg=linux-source-6.12

kind=debug
[ "${1-}" != -k ] || { kind=${2-}; shift 2; }
case $kind in
debug)	named=RLX_DEBUG_KERNEL archive=${RLX_DEBUG_KERNEL-} ;;
kcsan)	named=RLX_KCSAN_KERNEL archive=${RLX_KCSAN_KERNEL-} ;;
*)	echo "debug-kernel: there are debug and kcsan" >&2; exit 2 ;;
esac
link=$BUILD/kernels/$kind
src=$BUILD/$kind-kernel
parts="$here/selftests/kmod/guest.config $here/selftests/kmod/$kind.config"

# shellcheck disable=SC2086 # two files
fragment() { cat $parts; }

say() { printf 'debug-kernel: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

unpack_archive()
{
	command -v zstd >/dev/null || die "no zstd: run 'tools/setup.sh kmod'"
	tmp=$(mktemp -d "$cache/tmp.XXXXXX") && chmod 755 "$tmp" || exit 1
	printf '  UNPACK  %s\n' "$(basename "$1")"
	if ! zstd -dc "$1" | tar -x -C "$tmp" --strip-components=1 ||
	   [ ! -f "$tmp/headers/Makefile" ]; then
		rm -rf "$tmp"
		die "cannot unpack $1"
	fi
	[ -f "$tmp/vmlinuz" ] || mv "$tmp/bzImage" "$tmp/vmlinuz"
	ln -sfn headers "$tmp/build"
	mkdir -p "$tmp/modules"
	cp "$tmp/headers/include/config/kernel.release" "$tmp/release"
	rm -rf "$2"
	mv "$tmp" "$2"
}

# An archive of a kernel and headers alone lacks the importer of the PRIME tests:
# it is built of Debian's source, if that is of the same version. Tests of it are
# skipped otherwise.
add_vgem()
{
	[ ! -f "$1/modules/vgem.ko" ] || return 0
	release=$(sed 's/-.*//' "$1/release")
	case $(source_version) in
	"$release"-*)	;;
	*)	say "no vgem: apt's $pkg is not $release"; return 0 ;;
	esac
	gpu=drivers/gpu/drm
	mkdir -p "$1/vgem"
	printf '  FETCH   %s %s, for vgem\n' "$pkg" "$release"
	if ! (cd "$1/vgem" &&
	      apt-get -o APT::Sandbox::User=root download $pkg &&
	      dpkg-deb --fsys-tarfile ./*.deb |
		tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
		tar -xJ --strip-components=4 --wildcards "*/$gpu/vgem/*" \
			"*/$gpu/drm_gem_shmem_helper.c" &&
	      mv vgem/*.[ch] . &&
	      printf 'obj-m += drm_shmem_helper.o vgem.o\n%s\n%s\n' \
		'drm_shmem_helper-y := drm_gem_shmem_helper.o' \
		'vgem-y := vgem_drv.o vgem_fence.o' >Kbuild &&
	      make -s -C "$1/headers" M="$PWD" modules && strip -g ./*.ko
	     ) >"$1/vgem.log" 2>&1; then
		say "no vgem: $(tail -n 1 "$1/vgem.log")"
		return 0
	fi
	mv "$1"/vgem/*.ko "$1/modules/"
	rm -rf "$1/vgem"
}

use_archive()
{
	dir=$cache/$kind-$(sha256sum "$1" | cut -c 1-16)
	[ -f "$dir/release" ] || unpack_archive "$1" "$dir"
	[ -f "$dir/vgem.log" ] || add_vgem "$dir"
	ln -sfn "$dir" "$link"
}

# What was built here for these fragments, if anything, the newest first.
use_built()
{
	for d in $(find "$cache" -maxdepth 1 -name "$kind-built-*" -printf \
		   '%T@ %p\n' | sort -rn | cut -d' ' -f2); do
		fragment | cmp -s - "$d/fragment" || continue
		ln -sfn "$d" "$link"
		return 0
	done
	return 1
}

find_kernel()
{
	if [ -n "$archive" ]; then
		[ -f "$archive" ] || die "$named names no file: $archive"
		use_archive "$archive"
		return
	fi
	use_built && return
	newest=$(find "$here/../shared/kernel" -name "$kind-*.tar.zst" \
		 -printf '%T@ %p\n' 2>/dev/null | sort -rn | sed 's/^[^ ]* //;q')
	if [ -n "$newest" ]; then
		use_archive "$newest"
		return
	fi
	rm -f "$link"
	say "there is none: 'make $kind-kernel' builds one, and" \
	    "$named names an archive of one"
	exit 4
}

source_version()
{
	apt-cache show --no-all-versions $pkg 2>/dev/null |
		sed -n 's/^Version: //p'
}

compiler() { gcc --version | head -n 1; }

fetch_source()
{
	version=$(source_version)
	[ -n "$version" ] || die "apt's package lists have no $pkg"
	[ "$(cat "$src/.version" 2>/dev/null)" = "$version" ] && return
	rm -rf "$src" "$src.deb"
	mkdir -p "$src" "$src.deb"
	printf '  FETCH   %s %s\n' "$pkg" "$version"
	(cd "$src.deb" && apt-get -o APT::Sandbox::User=root download $pkg) \
		>"$src.deb/log" 2>&1 || {
		tail -n 2 "$src.deb/log" >&2
		die "apt could not bring $pkg"
	}
	dpkg-deb --fsys-tarfile "$src.deb"/*.deb |
		tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
		tar -xJ -C "$src" --strip-components=1 || die "cannot unpack $pkg"
	rm -rf "$src.deb"
	echo "$version" >"$src/.version"
}

# Fixed names and dates: with them ccache knows every object again.
kmake()
{
	cc=gcc
	command -v ccache >/dev/null && cc="ccache gcc"
	# shellcheck disable=SC2046 # words
	make -s -C "$src" -j"$JOBS" CC="$cc" HOSTCC="$cc" KBUILD_BUILD_USER=rlx \
		KBUILD_BUILD_HOST=rlx KBUILD_BUILD_VERSION=1 \
		KBUILD_BUILD_TIMESTAMP='2025-01-01 00:00:00 UTC' \
		$(fragment | sed -n 's/^# make: //p') "$@"
}

# Lines of the fragments that the configuration did not take.
lost_lines()
{
	fragment | grep -E '^(CONFIG_|# CONFIG_)' | while read -r line; do
		name=$(printf '%s' "$line" | sed 's/^# //;s/[= ].*//')
		case $line in
		'#'*)	grep -q "^$name=" "$src/.config" && echo "$line" ;;
		*)	grep -qxF "$line" "$src/.config" || echo "$line" ;;
		esac
	done
}

configure()
{
	printf '  CONFIG  %s\n' "$src"
	# shellcheck disable=SC2086 # two files
	if ! { kmake tinyconfig && (cd "$src" &&
	       scripts/kconfig/merge_config.sh -m .config $parts) &&
	       kmake olddefconfig; } >"$src/.log" 2>&1; then
		tail -n 5 "$src/.log" >&2
		die "could not configure the kernel"
	fi
	lost=$(lost_lines)
	[ -z "$lost" ] || die "lines of the fragments that did not survive:" "$lost"
}

# Collects DIR: what a guest boots, and what a module is built against.
collect()
{
	mkdir -p "$1/modules" "$1/headers"
	cp "$src/arch/x86/boot/bzImage" "$1/vmlinuz"
	find "$src/drivers" -name '*.ko' -exec cp {} "$1/modules/" \;
	strip -g "$1"/modules/*.ko
	top=$(cd "$1" && pwd)
	(cd "$src" && srctree=. SRCARCH=x86 CC=gcc HOSTCC=gcc MAKE=make \
		KCONFIG_CONFIG=.config KBUILD_EXTMOD='' \
		sh scripts/package/install-extmod-build "$top/headers") \
		>>"$src/.log" 2>&1 || die "cannot collect headers: see $src/.log"
	ln -sfn headers "$1/build"
	cp "$src/include/config/kernel.release" "$1/release"
	fragment >"$1/fragment"
}

build_kernel()
{
	fetch_source
	key=$({ echo "$version"; compiler; fragment; } | sha256sum)
	dir=$cache/$kind-built-$(printf '%s' "$key" | cut -c 1-16)
	if [ ! -f "$dir/release" ]; then
		configure
		printf '  BUILD   linux %s, %s jobs\n' "$version" "$JOBS"
		start=$(date +%s)
		kmake bzImage modules >>"$src/.log" 2>&1 || {
			tail -n 10 "$src/.log" >&2
			die "the kernel did not build: see $src/.log"
		}
		printf '  BUILD   took %s s\n' "$(($(date +%s) - start))"
		tmp=$(mktemp -d "$cache/tmp.XXXXXX") && chmod 755 "$tmp" || exit 1
		collect "$tmp"
		rm -rf "$dir"
		mv "$tmp" "$dir"
	fi
	ln -sfn "$dir" "$link"
}

pack()
{
	[ -f "$link/release" ] || find_kernel
	top=$(readlink -f "$link")
	tar -c -C "$(dirname "$top")" --transform \
		"s,^$(basename "$top"),$kind-$(cat "$link/release")," \
		"$(basename "$top")" | zstd -q -12 -T0 -f -o "$1"
}

# Runs take turns: those that unpack by the cache, those that build by their folder.
mkdir -p "$BUILD/kernels" "$cache" || exit 1
case ${1-} in
config|build)	exec 9>"$BUILD/kernels/.lock-build-$kind" ;;
*)		exec 9>"$cache/.lock-$kind" ;;
esac
flock 9
case ${1-} in
find)	find_kernel ;;
config)	fetch_source && configure ;;
build)	build_kernel ;;
pack)	pack "${2:?the file}" ;;
*)	sed -n '5,8s/^# *//p' "$0" >&2; exit 2 ;;
esac
