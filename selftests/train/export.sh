#!/bin/sh
# SPDX-License-Identifier: MIT
# What rlx train writes at the end is opened by the tools of others: .gguf in each format by
# gguf's reader and llama.cpp, ONNX by its checker and ONNX Runtime. And what gguf writes is
# opened here.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
rlx=$BUILD/bin/rlx
python=$BUILD/train-venv/bin/python

# config FOLDER FORMAT
config()
{
	cat <<EOF
[model]
kind = decoder
layers = 2
dim = 64
heads = 4
context = 64
[data]
text = /usr/share/common-licenses
[optimizer]
lr = 0.005
[train]
steps = 60
batch = 4
threads = 1
[eval]
every = 0
[output]
folder = $1
gguf = $2
EOF
}

# A second call has nothing to train and writes the same checkpoint in another format.
decoder()
{
	config "$tmp/text" "$1" >"$tmp/text.conf" &&
	$rlx train "$tmp/text.conf" && "$python" selftests/train/export.py "$tmp/text"
}

none()
{
	rm "$tmp/text/model.gguf" && config "$tmp/text" none >"$tmp/text.conf" &&
	$rlx train "$tmp/text.conf" && [ ! -e "$tmp/text/model.gguf" ]
}

for format in f32 f16 bf16 q8_0; do
	check $format decoder $format
done
check none none
check decoders "$python" selftests/train/decoders.py "$rlx" "$tmp"
check blocks "$python" selftests/train/blocks.py "$BUILD/lib/librlx.so" "$tmp"
finish
