#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the demo (rlx embed with its real model) in a guest of KERNEL, on arenas of
# the module, and on this host; they must agree. rlx info and doctor run as well.
#
#   selftests/kmod/demo.sh KERNEL
#
# The corpus is small: the guest's processor is emulated.
set -u

cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
kernel=$1
model=$BUILD/models/minilm
rlx=$BUILD/bin/rlx-static
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

skip()
{
	echo "# SKIP $1"
	echo "ok 1 demo # SKIP"
	echo "1..1"
	exit 0
}

[ -f "$BUILD/kernels/$kernel/vmlinuz" ] || skip "no kernel $kernel"
[ -f "$model/model.safetensors" ] || skip "no model minilm"

mkdir "$tmp/corpus"
printf '%s\n\n%s\n\n%s\n' 'You may sell copies for any price, or give them away.' \
	'There is no warranty: the authors do not pay for damage.' \
	'Whoever breaks these terms loses all rights under them.' >"$tmp/corpus/terms"
cp selftests/kmod/demo-guest "$tmp/demo"
# The host's answer, on a memfd; the guest compares its own with it.
sed -n 's/^# host: //p' "$tmp/demo" | sed "s|/demo/rlx|$PWD/$rlx|; s|/demo/model|\
$PWD/$model|; s|/demo/corpus|$tmp/corpus|" >"$tmp/host.sh"
RLX_ARENA_PROVIDER=memfd sh "$tmp/host.sh" >"$tmp/host.json" || {
	echo "not ok 1 host"
	echo "1..1"
	exit 1
}
exec selftests/kmod/run-qemu.sh -k "$kernel" -n "demo-$kernel" -t 400 -T 150 \
	-f "$rlx:/demo/rlx" -f "$model:/demo/model" -f "$tmp/corpus:/demo/corpus" \
	-f "$tmp/host.json:/demo/host.json" "$tmp/demo"
