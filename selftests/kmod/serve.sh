#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs rlxd in a guest of KERNEL: clients over channels of the module, TLS that the
# kernel does, weights that outlive a server, replicas on two nodes of memory. Then the
# tests of channels, selftests/serve/channel.py, over channels of the module.
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
[ -f "$BUILD/models/minilm/model.safetensors" ] || skip "no model minilm"
[ -f "$BUILD/serve-venv/made-of" ] || skip "no packages of Python"

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
	-keyout "$tmp/tls.key" -out "$tmp/tls.pem" 2>/dev/null || exit 1

# An encoder that an emulated processor is up to; demo.sh has the whole one.
"$BUILD/serve-venv/bin/python" selftests/serve/small.py "$BUILD/models/minilm" \
	"$tmp/encoder" || exit 1
{
	echo "cd '$PWD' && export PATH='$PATH' BUILD='$BUILD'"
	echo "export RLXD_TRANSPORT=kmod RLXD_MINILM='$tmp/encoder' TMPDIR=/dev/shm"
	echo "exec selftests/serve/run.sh channel"
} >"$tmp/channel"

# The command openssl is the guest's TLS client.
selftests/kmod/run-qemu.sh -k "$kernel" -n "serve-$kernel" -t 800 -T 400 -N 2 \
	-f "$BUILD/bin/rlx-static:/demo/rlx" -f "$BUILD/bin/rlxd-static:/demo/rlxd" \
	-f "$BUILD/serve/relu.onnx:/demo/relu.onnx" -f "$tmp/encoder:/demo/minilm" \
	-f "$tmp/tls.pem:/demo/tls.pem" -f "$tmp/tls.key:/demo/tls.key" \
	-f "$tmp/channel:/demo/channel" -r \
	-l tls,ghash-generic,gcm -b "$(command -v openssl)" selftests/kmod/serve-guest \
	selftests/kmod/channel-guest
