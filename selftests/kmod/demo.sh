#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the demo (rlx embed with its real model) in a guest of KERNEL, on arenas of
# the module, and on this host; they must agree. rlx info and doctor run as well.
#
#   selftests/kmod/demo.sh KERNEL
#
# The corpus is small: the guest's processor is emulated.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
kernel=$1
model=$BUILD/models/minilm
rlx=$BUILD/bin/rlx-static

need "$BUILD/kernels/$kernel/vmlinuz" demo "no kernel $kernel"
need "$model/model.safetensors" demo "no model minilm"
need "$BUILD/serve-venv/made-of" demo "no packages of Python"

# What is said as text is asked of a small encoder: the whole one takes a minute there.
"$BUILD/serve-venv/bin/python" selftests/serve/small.py "$model" "$tmp/small" || exit 1

mkdir "$tmp/corpus"
printf '%s\n\n%s\n\n%s\n' 'You may sell copies for any price, or give them away.' \
	'There is no warranty: the authors do not pay for damage.' \
	'Whoever breaks these terms loses all rights under them.' >"$tmp/corpus/terms"
cp selftests/kmod/demo-guest "$tmp/demo"
# The host's answer, on a memfd; the guest compares its own with it.
sed -n 's/^# host: //p' "$tmp/demo" | sed "s|/demo/rlx|$PWD/$rlx|; s|/demo/model|\
$PWD/$model|; s|/demo/corpus|$tmp/corpus|" >"$tmp/host.sh"
RLX_ARENA_PROVIDER=memfd sh "$tmp/host.sh" >"$tmp/host.json" || {
	check host fail "the demo does not run here"
	finish
}
selftests/kmod/run-qemu.sh -k "$kernel" -n "demo-$kernel" -t 400 -T 150 \
	-f "$rlx:/demo/rlx" -f "$model:/demo/model" -f "$tmp/small:/demo/small" \
	-f "$tmp/corpus:/demo/corpus" \
	-f "$tmp/host.json:/demo/host.json" "$tmp/demo"
