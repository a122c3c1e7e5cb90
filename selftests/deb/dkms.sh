#!/bin/sh
# SPDX-License-Identifier: MIT
# DKMS builds, signs, installs and removes the module of the package, in trees of
# its own, against the headers of each kernel in $BUILD/kernels.
#
#   selftests/deb/dkms.sh [-A] SERIES ...	-A: of the package that packages.sh -A built
# shellcheck disable=SC1091,SC2154 # it sets tmp, version, rc
. "$(dirname "$0")/debs.sh"

# Keys are made here, and not on this system.
export mok_signing_key="$tmp/mok.key" mok_certificate="$tmp/mok.pub"

# For kernels of another suite that suite's DKMS, with its compiler: set by each kernel.
enter=

run_dkms()
{
	# shellcheck disable=SC2086 # no word when empty
	$enter dkms "$@" --dkmstree "$tmp/dkms" --sourcetree "$tmp/pkg/usr/src" \
		--installtree "$tmp/modules" -m rlx -v "$version"
}

unpack()
{
	mkdir "$tmp/dkms" "$tmp/modules" &&
	dpkg-deb -x "$(deb_of rlx-dkms all)" "$tmp/pkg" && run_dkms add
}

build_for()
{
	run_dkms build -k "$1" --kernelsourcedir "$2" || {
		cat "$tmp/dkms/rlx/$version/build/make.log"
		return 1
	}
	cat "$tmp/dkms/rlx/$version/$1"/*/log/make.log
	! grep -i 'warning: ' "$tmp/dkms/rlx/$version/$1"/*/log/make.log
}

# DKMS compresses it where the kernel's own modules are.
ko() { ls "$tmp/modules/$1/updates/dkms"/rlx.ko* 2>/dev/null; }

install_for()
{
	mkdir -p "$tmp/modules/$1" &&
	run_dkms install -k "$1" --kernelsourcedir "$2" --no-depmod &&
	[ "$(modinfo -F version "$(ko "$1")")" = "$version" ] &&
	modinfo -F vermagic "$(ko "$1")" | grep -q "^$1 "
}

signed()
{
	case $(ko "$1") in
	*.xz)	xz -dc "$(ko "$1")" ;;
	*)	cat "$(ko "$1")" ;;
	esac | tail -c 28 | grep -q 'Module signature appended' &&
	[ "$(modinfo -F signer "$(ko "$1")")" = "DKMS module signing key" ]
}

removed()
{
	run_dkms remove -k "$1" --no-depmod && [ -z "$(ko "$1")" ]
}

# A kernel older than what the module takes is refused before it is compiled.
too_old()
{
	! run_dkms build -k 5.10.0-1-amd64 --kernelsourcedir "$1" >"$tmp/old" 2>&1
	cat "$tmp/old"
	grep -q BUILD_EXCLUSIVE "$tmp/old"
}

need_debs
check unpack unpack
some=
for series; do
	k=$BUILD/kernels/$series
	if [ ! -d "$k/build/include" ]; then
		skip "build-$series" "no headers of Linux $series"
		continue
	fi
	some=$(cd "$k/build" && pwd -P)
	# DKMS looks where packages would have put it, which these need not be.
	export sign_file="$some/scripts/sign-file"
	release=$(cat "$k/release")
	enter=
	[ ! -e "$k/userland" ] || enter="tools/userland.sh enter $k/userland"
	check "build-$series" build_for "$release" "$some"
	check "install-$series" install_for "$release" "$some"
	check "signed-$series" signed "$release"
	check "remove-$series" removed "$release"
done
enter=
[ -z "$some" ] || check too-old too_old "$some"
finish
