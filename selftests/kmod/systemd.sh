#!/bin/sh
# SPDX-License-Identifier: MIT
# Boots a guest of KERNEL where this machine's systemd runs rlxd by the units as they
# are shipped, over HTTP and a channel of the module, and kills it: the manager has its
# sockets and its weights. Then two that serve in turns.
#
#   selftests/kmod/systemd.sh KERNEL
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
kernel=$1
model=$BUILD/models/minilm

need "$BUILD/kernels/$kernel/vmlinuz" systemd "no kernel $kernel"
need "$model/model.safetensors" systemd "no model minilm"
need "$BUILD/serve/relu.onnx" systemd "no packages of Python"
need /lib/systemd/systemd systemd "no systemd"

# An encoder that an emulated processor is up to; demo.sh has the whole one.
"$BUILD/serve-venv/bin/python" selftests/serve/small.py "$model" "$tmp/encoder" || exit 1
mkdir "$tmp/units" "$tmp/rlxd"
# unit FROM TO [SED ARGUMENT ...]
unit()
{
	from=$1 to=$tmp/units/$2
	shift 2
	sed -e 's|@SBINDIR@|/demo|' -e 's|@SYSCONFDIR@|/demo/etc|' "$@" "tools/rlxd/$from" >"$to"
}
unit rlxd.service.in rlxd.service
unit rlxd.service.in rlxd@.service -f tools/rlxd/pair.sed
unit rlxd-fd-store.service.in rlxd-fd-store.service
cp tools/rlxd/rlxd.socket "$tmp/units"
# What they are ordered by, and what is to be started.
for unit in sysinit basic shutdown sockets network; do
	printf '[Unit]\nDefaultDependencies=no\n' >"$tmp/units/$unit.target"
done
printf '[Unit]\nRequires=rlxd.socket rlxd.service\n' >"$tmp/units/guest.target"
cat >"$tmp/rlxd/rlxd.conf" <<EOF
[model minilm]
path = /demo/minilm
buckets = 16
max_batch = 1
[model relu]
path = /demo/relu.onnx
[channel demo]
address = @demo
transport = kmod
users = root
EOF
cp selftests/kmod/systemd-guest "$tmp/manager"
selftests/kmod/run-qemu.sh -k "$kernel" -n "systemd-$kernel" -t 400 -T 200 \
	-f "$BUILD/bin/rlxd-static:/demo/rlxd" -f "$BUILD/bin/rlx-static:/demo/rlx" \
	-f "$tmp/encoder:/demo/minilm" -f "$BUILD/serve/relu.onnx:/demo/relu.onnx" \
	-f "$tmp/units:/demo/units" -f "$tmp/rlxd:/demo/etc/rlxd" \
	-b /lib/systemd/systemd -b /bin/systemctl "$tmp/manager"
