#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the Debian packages a group of targets needs and that are missing.
#
#   tools/setup.sh build|demo|check ...      each group includes those before it
#   tools/setup.sh ops                       build, and what ops are tested with
#   tools/setup.sh train                     demo, and data to train on
#   tools/setup.sh rlxd                      build, and the daemon
#   tools/setup.sh serve                     check, and the daemon with its tests
#   tools/setup.sh kmod                      build, and guests for the module
#   tools/setup.sh kernel                    kmod, and compiling a kernel
#   tools/setup.sh vulkan                   build, and Vulkan with a device on the CPU
#   tools/setup.sh arm64                     check, and programs for arm64
#   tools/setup.sh hip                      build, and AMD's compiler for GPU kernels
#   tools/setup.sh dkms                      check, and the module's Debian package
#   tools/setup.sh deb                       dkms, and the other Debian packages
#
# When nothing is missing it only reads a stamp under $BUILD. It needs root, or
# sudo, only when something is missing.
set -eu

BUILD=${BUILD:-build}
build_pkgs="gcc libc6-dev libssl-dev liburing-dev make"
ops_pkgs="$build_pkgs libopenblas0-pthread"
demo_pkgs="$ops_pkgs ca-certificates python3 python3-pip"
vulkan_pkgs="$build_pkgs glslc libvulkan-dev mesa-vulkan-drivers spirv-tools"
vulkan_pkgs="$vulkan_pkgs vulkan-validationlayers"
check_pkgs="$demo_pkgs clang clang-format g++ glslc libclang-rt-dev libonnx-testdata lld"
check_pkgs="$check_pkgs libvulkan-dev pkg-config scdoc"
train_pkgs="$demo_pkgs dataset-fashion-mnist gzip python3-venv"
rlxd_pkgs="$build_pkgs libinih-dev node-llhttp"
serve_pkgs="$check_pkgs libinih-dev node-llhttp curl openssl"
serve_pkgs="$serve_pkgs prometheus python3-venv wrk"
kmod_pkgs="$build_pkgs binutils busybox-static ccache cpio gcc-multilib kmod"
kmod_pkgs="$kmod_pkgs pahole qemu-system-x86 sparse spin systemd xz-utils zstd"
hip_pkgs="$build_pkgs hipcc"
arm64_pkgs="$check_pkgs libc6-dev-arm64-cross libgcc-12-dev-arm64-cross llvm"
arm64_pkgs="$arm64_pkgs qemu-user-static"
dkms_pkgs="$check_pkgs binutils build-essential debhelper dh-dkms dkms fakeroot kmod"
dkms_pkgs="$dkms_pkgs libinih-dev node-llhttp openssl pahole xz-utils zstd"
deb_pkgs="$dkms_pkgs lintian procps systemd"
kernel_pkgs="$kmod_pkgs bc bison cpio flex libelf-dev"

say() { printf 'setup: %s\n' "$*" >&2; }

die()
{
	say "$1"
	shift
	for line; do
		printf '       %s\n' "$line" >&2
	done
	exit 1
}

stamp_is_fresh()
{
	[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$pkgs" ] &&
		[ "$stamp" -nt /var/lib/dpkg/status ]
}

# The packages of $pkgs that dpkg does not hold as installed.
list_missing()
{
	for p in $pkgs; do
		st=$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null) ||
			st=
		[ "$st" = installed ] || printf '%s ' "$p"
	done
}

# Systems without dpkg: we cannot install there, only say what is wanting.
check_other_system()
{
	lack=
	for c in gcc make; do
		command -v "$c" >/dev/null || lack="$lack $c"
	done
	printf '#include <liburing.h>\n' | ${CC:-gcc} -E -x c - \
		>/dev/null 2>&1 || lack="$lack liburing-headers"
	printf '#include <openssl/ssl.h>\n' | ${CC:-gcc} -E -x c - \
		>/dev/null 2>&1 || lack="$lack openssl-headers"
	if [ "$group" != build ] && [ "$group" != ops ]; then
		command -v python3 >/dev/null || lack="$lack python3"
		python3 -m pip --version >/dev/null 2>&1 || lack="$lack pip"
	fi
	[ -z "$lack" ] && return
	die "this is not a Debian system, and these are missing:$lack" \
	    "Install them with this system's own tools and try again." \
	    "On Debian 12 the packages would be: $pkgs"
}

run_apt()
{
	$asroot env DEBIAN_FRONTEND=noninteractive apt-get -qq -o \
		DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

install_missing()
{
	asroot=
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null || die \
		    "missing packages: $missing" \
		    "Neither root nor sudo is available. As root, run:" \
		    "  apt-get install --no-install-recommends $missing"
		asroot=sudo
	fi
	say "installing: $missing"
	log=$BUILD/setup.log
	if ! run_apt update >"$log" 2>&1; then
		say "the package lists could not be refreshed; trying without"
	fi
	# shellcheck disable=SC2086 # a list of words
	run_apt install -y --no-install-recommends $missing >>"$log" 2>&1 &&
		return
	tail -n 5 "$log" >&2
	die "could not install: $missing" \
	    "The log is $log. If this machine is offline, connect it once, or" \
	    "install by hand: apt-get install --no-install-recommends $missing"
}

# Groups of tests that run at once take turns.
mkdir -p "$BUILD"
exec 9>"$BUILD/.setup-lock"
flock 9 2>/dev/null || :
for group in "${@:-build}"; do
	case $group in
	build)	pkgs=$build_pkgs ;;
	ops)	pkgs=$ops_pkgs ;;
	demo)	pkgs=$demo_pkgs ;;
	check)	pkgs=$check_pkgs ;;
	train)	pkgs=$train_pkgs ;;
	rlxd)	pkgs=$rlxd_pkgs ;;
	serve)	pkgs=$serve_pkgs ;;
	kmod)	pkgs=$kmod_pkgs ;;
	kernel)	pkgs=$kernel_pkgs ;;
	hip)	pkgs=$hip_pkgs ;;
	arm64)	pkgs=$arm64_pkgs ;;
	vulkan)	pkgs=$vulkan_pkgs ;;
	dkms)	pkgs=$dkms_pkgs ;;
	deb)	pkgs=$deb_pkgs ;;
	*)	die "unknown group '$group'" \
		    "There are: build ops demo train check rlxd serve kmod kernel hip vulkan dkms" \
		    "deb" ;;
	esac
	stamp=$BUILD/.setup-$group
	stamp_is_fresh && continue
	mkdir -p "$BUILD"
	if command -v dpkg-query >/dev/null; then
		missing=$(list_missing)
		[ -z "$missing" ] || install_missing
	else
		check_other_system
	fi
	printf '%s\n' "$pkgs" >"$stamp"
done
