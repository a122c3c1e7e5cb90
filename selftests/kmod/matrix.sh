#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the module for every kernel whose headers are here; prints TAP.
#
#   selftests/kmod/matrix.sh KERNEL ...
#
# For each: gcc with W=1; for Debian's own of this release, without a flavour, also
# sparse, and clang by the commands gcc was called with, less the options it does not
# know; for others, the module that their guests get. A warning is a failure. The same
# is done once to a module with a fault for each check, which must be found.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
out=$BUILD/kmod/matrix

# Options of gcc's that clang lacks, and warnings kernel headers are not free of.
not_clang='mpreferred-stack-boundary=[0-9]+|mskip-rax-setup|mindirect-branch[^ ]*'
not_clang="$not_clang|mharden-sls=[a-z]+|mrecord-mcount|fconserve-stack"
not_clang="$not_clang|fno-allow-store-data-races|fsanitize[^ ]*|falign-[^ ]*"
not_clang="$not_clang|fno-stack-clash-protection|mfunction-return=[^ ]*|fno-ipa[^ ]*"
not_clang="$not_clang|fzero-call[^ ]*|ftrivial-auto[^ ]*|mno-fp-ret-in-387"
not_clang="$not_clang|fmin-function-alignment=[0-9]*|Wimplicit-fallthrough=5"
not_clang="$not_clang|Werror=designated-init|-param[ =][^ ]*"
clang_has="-mstack-alignment=8 -Wno-unknown-warning-option -Wimplicit-fallthrough"
clang_has="$clang_has -Wno-ignored-optimization-argument -Qunused-arguments -Wno-gnu"
clang_has="$clang_has -Wno-duplicate-decl-specifier"

# What nobody loads needs nothing for debuggers, which takes a tenth of the time.
lean="KCFLAGS=-g0 CONFIG_DEBUG_INFO_BTF_MODULES="

# Nothing was said; or the one thing that was wanted.
silent() { cat "$1"; [ ! -s "$1" ]; }
says() { cat "$1"; grep -q -- "$2" "$1" || fail "wanted: $2"; }

# build KERNEL FOLDER OUT [WORD ...]: what it had to say is left in OUT.log
build()
{
	k=$1 d=$2 o=$3
	shift 3
	mkdir -p "$(dirname "$o")"
	# shellcheck disable=SC2046 # words
	selftests/kmod/build-module.sh -d "$d" -o "$o" $(printf -- '-v %s ' W=1 "$@") \
		"$k" >"$o.log" 2>&1 || echo "build failed" >>"$o.log"
}

# clang KERNEL FOLDER OUT: every file gcc compiled there
run_clang()
{
	src=$(cd "$3/src/$2" && pwd)
	log=$(cd "$(dirname "$3")" && pwd)/$(basename "$3").log
	: >"$log"
	find "$src" -name '.*.o.cmd' ! -name '*.mod.o.cmd' \
	     ! -name '.module-common*' | sort | while read -r f; do
		cmd=$(sed -nE '1{
			/ -c -o /!d
			s/^[a-z]*cmd_[^ ]* := *(ccache )?[^ ]*gcc[^ ]* //
			s/; .*//
			s/ -Wp,-MMD,[^ ]*//
			s| -c -o [^ ]*| -c -o /dev/null|
			s/\$\(pound\)/#/g
			p
		}' "$f" | sed -E ":a;s/ -($not_clang)( |\$)/ /;ta")
		[ -n "$cmd" ] || continue
		# The command is quoted for a shell, as make had it.
		(cd "$BUILD/kernels/$1/build" &&
		 eval "clang $clang_has $cmd") >>"$log" 2>&1
		echo "$f" >>"$src/.clang"
	done
	[ -s "$src/.clang" ] || echo "no file was compiled" >>"$log"
	rm -f "$src/.clang"
}

check_kernel()
{
	k=$1
	if [ ! -d "$BUILD/kernels/$k/build" ]; then
		skip "$k" "no headers of $k"
		return
	fi
	o=$out/$k
	case $k in
	6.1|6.12) ;;
	*)	o=$BUILD/kmod/$k
		words=$lean
		[ ! -f "$BUILD/kernels/$k/vmlinuz" ] || words=''	# a guest does
		# shellcheck disable=SC2086 # words
		build "$k" kmod "$o" RLX_TESTING=1 $words
		check "$k:gcc" silent "$o.log"
		return ;;
	esac
	# shellcheck disable=SC2086 # words
	build "$k" kmod "$o" $lean
	check "$k:gcc" silent "$o.log"
	# shellcheck disable=SC2086 # words
	build "$k" kmod "$o" $lean C=2 CHECK=sparse CF=-D__CHECK_ENDIAN__
	check "$k:sparse" silent "$o.log"
	run_clang "$k" kmod "$o"
	check "$k:clang" silent "$o.log"
}

# The checks themselves: each must find the fault that is there for it.
check_checks()
{
	bad=selftests/kmod/bad/static
	o=$out/wrong-$1
	[ -d "$BUILD/kernels/$1/build" ] || return
	rm -rf "$o"
	build "$1" $bad "$o"
	check "finds:gcc" says "$o.log" 'no previous prototype'
	build "$1" $bad "$o" C=2 CHECK=sparse CF=-D__CHECK_ENDIAN__
	check "finds:sparse" says "$o.log" 'noderef'
	run_clang "$1" $bad "$o"
	check "finds:clang" says "$o.log" 'self-assign'
}

mkdir -p "$out"
for kernel; do
	check_kernel "$kernel"
done
[ "$1" = debug ] || check_checks "$1"
finish
