#!/bin/sh
# SPDX-License-Identifier: MIT
# Finds a built debug kernel and puts it where tools/fetch-kernels.sh puts others.
#
#   tools/debug-kernel.sh find       status 4 when there is none
#
# $BUILD/kernels/debug gets vmlinuz, build/ (the headers), modules/ and release
# out of the archive that $RLX_DEBUG_KERNEL names, or ../shared/kernel/debug-*
# when it names none.
set -u

BUILD=${BUILD:-build}
here=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rlx/kernels
link=$BUILD/kernels/debug

say() { printf 'debug-kernel: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# An archive that was built elsewhere: DIR/bzImage, DIR/headers, DIR/modules.
use_archive()
{
	key=$(sha256sum "$1" | cut -c 1-16)
	dir=$cache/debug-$key
	if [ ! -f "$dir/release" ]; then
		command -v zstd >/dev/null || die "no zstd: tools/setup.sh kmod"
		tmp=$(mktemp -d "$cache/tmp.XXXXXX") || exit 1
		printf '  UNPACK  %s\n' "$(basename "$1")"
		zstd -dc "$1" | tar -x -C "$tmp" --strip-components=1 ||
			die "cannot unpack $1"
		mv "$tmp/bzImage" "$tmp/vmlinuz"
		ln -s headers "$tmp/build"
		mkdir -p "$tmp/modules"
		cp "$tmp/headers/include/config/kernel.release" "$tmp/release"
		rm -rf "$dir"
		mv "$tmp" "$dir"
	fi
	ln -sfn "$dir" "$link"
}

find_kernel()
{
	if [ -n "${RLX_DEBUG_KERNEL-}" ]; then
		[ -f "$RLX_DEBUG_KERNEL" ] ||
			die "RLX_DEBUG_KERNEL names no file: $RLX_DEBUG_KERNEL"
		use_archive "$RLX_DEBUG_KERNEL"
		return
	fi
	for f in "$here"/../shared/kernel/debug-*.tar.zst; do
		[ -f "$f" ] || continue
		use_archive "$f"
		return
	done
	say "no debug kernel: RLX_DEBUG_KERNEL may name an archive of one"
	rm -f "$link"
	exit 4
}

mkdir -p "$BUILD/kernels" "$cache" || exit 1
exec 9>"$cache/.lock-debug"
flock 9 2>/dev/null
case ${1-} in
find)	find_kernel ;;
*)	sed -n '3,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
