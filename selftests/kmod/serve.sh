#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs rlxd in a guest of KERNEL, with clients over channels of the module.
#
#   selftests/kmod/serve.sh KERNEL
set -u

cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
kernel=$1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

skip()
{
	echo "# SKIP $1"
	echo "ok 1 serve # SKIP"
	echo "1..1"
	exit 0
}

[ -f "$BUILD/kernels/$kernel/vmlinuz" ] || skip "no kernel $kernel"

# y = relu(x) for a matrix of any size, as selftests/serve/vision.py writes it.
base64 -d >"$tmp/relu.onnx" <<EOF
CAg6QgoMCgF4EgF5IgRSZWx1EgRyZWx1WhUKAXgSEAoOCAESCgoDEgFuCgMS
AW1iFQoBeRIQCg4IARIKCgMSAW4KAxIBbUIECgAQEQ==
EOF
selftests/kmod/run-qemu.sh -k "$kernel" -n "serve-$kernel" -t 400 -T 200 \
	-f "$BUILD/bin/rlx-static:/demo/rlx" -f "$BUILD/bin/rlxd-static:/demo/rlxd" \
	-f "$tmp/relu.onnx:/demo/relu.onnx" selftests/kmod/serve-guest
