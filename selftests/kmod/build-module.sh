#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the kernel module, or modules of selftests/kmod, for one kernel.
#
#   selftests/kmod/build-module.sh [-d FOLDER] [-o OUT] [-v WORD ...] KERNEL
#
# KERNEL is a folder of $BUILD/kernels. Without -d it is the module itself; its
# sources are linked into OUT ($BUILD/kmod/KERNEL) so that kernels do not share
# objects. -d names another folder with a Kbuild, which lands next to kmod/ as
# it does in the repository. OUT/*.ko are the modules, OUT/said what the compiler
# had to say, which is printed too. -v gives make variables.
set -eu
unset MAKEFLAGS MFLAGS

BUILD=${BUILD:-build}
here=$(cd "$(dirname "$0")/../.." && pwd)
folder=kmod out='' vars=''
while getopts d:o:v: o; do
	case $o in
	d)	folder=${OPTARG%/} ;;
	o)	out=$OPTARG ;;
	v)	vars="$vars $OPTARG" ;;
	*)	exit 2 ;;
	esac
done
shift $((OPTIND - 1))
kernel=$1
kdir=$BUILD/kernels/$kernel/build
out=${out:-$BUILD/kmod/$kernel}

[ -d "$kdir/include" ] || {
	printf 'build-module: no headers in %s: run "make kernels"\n' "$kdir" >&2
	exit 1
}
# Objects made with the headers of another kernel of that name are no use, and
# look as new as any.
headers=$(readlink -f "$kdir")
[ "$(cat "$out/headers" 2>/dev/null)" = "$headers" ] || rm -rf "$out/src"
# Nor would a warning be said again that an object was made with.
[ ! -s "$out/said" ] || rm -rf "$out/src"
mkdir -p "$out/src"
echo "$headers" >"$out/headers"
out=$(cd "$out" && pwd)

# Links to the sources; those whose source went are removed, those of another tree, whose
# folder was copied, made anew.
cd "$here"
find kmod uapi version.mk "$folder" -type f \( -name '*.[ch]' -o -name '*.sh' -o \
     -name 'Kbuild' -o -name '*.mk' \) 2>/dev/null | sort -u |
while read -r f; do
	[ "$(readlink "$out/src/$f")" = "$here/$f" ] && continue
	mkdir -p "$out/src/$(dirname "$f")"
	ln -sf "$here/$f" "$out/src/$f"
done
find "$out/src" -xtype l -delete
cd - >/dev/null

# Debian's headers call ccache only when asked to. By the files that the compiler says it read it
# need not run the preprocessor as well, which is a third of what compiling takes here.
export CCACHE_DEPEND=1
command -v ccache >/dev/null && vars="$vars DEBIAN_KERNEL_USE_CCACHE=1"

# KASAN's red zones make frames larger than they are elsewhere. Of KCSAN's reports one
# wants to know the lines, and that kernel itself is built without.
case $kernel in
debug)	vars="$vars KCFLAGS=-Wframe-larger-than=2048" ;;
kcsan)	vars="$vars KCFLAGS=-g" ;;
esac

# Kernels of another suite are built by the programs of that suite.
enter=
[ ! -e "$BUILD/kernels/$kernel/userland" ] ||
	enter="$here/tools/userland.sh enter $BUILD/kernels/$kernel/userland"

# shellcheck disable=SC2086 # words for make
$enter make -j"${JOBS:-2}" -s -C "$kdir" M="$out/src/$folder" $vars modules >"$out/log" 2>&1 || {
	cp "$out/log" "$out/said"
	cat "$out/log" >&2
	exit 1
}
# What is said of every module that is built apart from its kernel.
grep -vE -e 'BTF|^make(\[[0-9]\])?: (Enter|Leav)' -e 'compiler differs' \
	-e 'The kernel was built (by|with)|You are using|pahole version differs' \
	-e '^ +(CC|CHECK|LD|AR|MODPOST|CONFTEST)  ' "$out/log" >"$out/said" || :
cat "$out/said" >&2
# One that is as it was stays, for a guest may be made of it meanwhile.
find "$out/src/$folder" -name '*.ko' -exec cp -pu {} "$out/" \;
