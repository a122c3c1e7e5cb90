#!/bin/sh
# SPDX-License-Identifier: MIT
# Boots a guest of KERNEL that takes signed modules only, as under Secure Boot, has
# it refuse the module, unsigned and signed by a stranger, and asks rlx doctor why.
#
#   selftests/kmod/refused.sh KERNEL
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
kernel=$1
ko=$BUILD/kmod/$kernel/rlx.ko

need "$BUILD/kernels/$kernel/vmlinuz" refused "no kernel $kernel"

# What DKMS does: a key of its own, and sign-file of the kernel's headers.
mkdir "$tmp/ko"
cp "$ko" "$tmp/ko/unsigned.ko" && cp "$ko" "$tmp/ko/signed.ko" &&
openssl req -new -x509 -nodes -days 2 -subj "/CN=DKMS module signing key" \
	-newkey rsa:2048 -keyout "$tmp/mok.key" -outform DER \
	-out "$tmp/ko/mok.pub" 2>/dev/null &&
"$BUILD/kernels/$kernel/build/scripts/sign-file" sha256 "$tmp/mok.key" \
	"$tmp/ko/mok.pub" "$tmp/ko/signed.ko" || {
	check sign fail "the module cannot be signed"
	finish
}
cp selftests/kmod/refused-guest "$tmp/refused"
selftests/kmod/run-qemu.sh -k "$kernel" -n "refused-$kernel" -o none -t 300 -m 768 \
	-a module.sig_enforce=1 -f "$BUILD/bin/rlx-static:/demo/rlx" \
	-f "$tmp/ko:/demo/ko" "$tmp/refused"
