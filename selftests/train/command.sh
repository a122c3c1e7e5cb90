#!/bin/sh
# SPDX-License-Identifier: MIT
# rlx train: a decoder of licence texts and a classifier of clothes, that go on where they were,
# to the same bits; what they write; configurations that are wrong.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
rlx=$BUILD/bin/rlx
clothes=/usr/share/datasets/fashion-mnist

# text_config FOLDER STEPS
text_config()
{
	cat <<EOF
# a small one
[model]
kind = decoder
layers = 1
dim = 32
heads = 2
context = 32
dropout = 0.1
[data]
text = /usr/share/common-licenses
[optimizer]
lr = 0.005
[train]
steps = $2
batch = 16
[eval]
every = 20
batches = 4
sample = 40
[output]
folder = $1
save_every = 20
EOF
}

decoder()
{
	text_config "$tmp/text" 60 >"$tmp/text.conf" &&
	$rlx train "$tmp/text.conf" >"$tmp/got" && cat "$tmp/got" &&
	grep -q '^step 60/60  loss [0-3]\.' "$tmp/got" &&
	awk -F, 'NR == 1 { ok = $0 == "step,loss,test_loss,accuracy" }
		 NR == 2 { first = $3 } NR > 1 { n++; last = $3 }
		 END { exit !(ok && n == 3 && last < first && last > 1) }' "$tmp/text/curve.csv" &&
	grep -q '<polyline' "$tmp/text/curve.svg" &&
	[ -s "$tmp/text/checkpoints/step-000000060/model.safetensors" ]
}

# Without its last checkpoint it goes on at the one before, to the same weights.
goes_on()
{
	mv "$tmp/text/checkpoints/step-000000060" "$tmp/last" &&
	cp "$tmp/text/curve.csv" "$tmp/curve.csv" &&
	$rlx train "$tmp/text.conf" >"$tmp/got" &&
	grep -q 'goes on at step 40' "$tmp/got" &&
	for f in model optim; do
		cmp "$tmp/last/$f.safetensors" \
			"$tmp/text/checkpoints/step-000000060/$f.safetensors" || return 1
	done
	cmp "$tmp/curve.csv" "$tmp/text/curve.csv"
}

# Nothing is left to do, and nothing is done.
done_already()
{
	$rlx train "$tmp/text.conf" >"$tmp/got" && ! grep '^step' "$tmp/got"
}

classifier()
{
	cat >"$tmp/clothes.conf" <<EOF
[model]
kind = classifier
channels = 4
hidden = 32
[data]
folder = $clothes
train = image=t10k-images-idx3-ubyte.gz,label=t10k-labels-idx1-ubyte.gz
test = image=t10k-images-idx3-ubyte.gz,label=t10k-labels-idx1-ubyte.gz
[optimizer]
kind = muon
nesterov = 1
lr = 0.02
[train]
steps = 60
batch = 32
[eval]
every = 30
batches = 20
[output]
folder = $tmp/clothes
EOF
	$rlx train "$tmp/clothes.conf" >"$tmp/got" && cat "$tmp/got" &&
	awk -F, 'END { exit !($4 > 65 && $4 <= 100) }' "$tmp/clothes/curve.csv"
}

# An evaluation that is no better ends it.
early_stop()
{
	text_config "$tmp/stop" 400 | sed 's/^lr = .*/lr = 0/; s/^batches = .*/&\npatience = 2/' \
		>"$tmp/stop.conf" &&
	$rlx train "$tmp/stop.conf" >"$tmp/got" && grep -q '^stops: 2 evaluations' "$tmp/got" &&
	[ "$(wc -l <"$tmp/stop/curve.csv")" -lt 6 ]
}

# wrong STATUS TEXT SED: what a changed configuration is told
wrong()
{
	text_config "$tmp/wrong" 20 | sed "$3" >"$tmp/wrong.conf"
	$rlx train "$tmp/wrong.conf" >/dev/null 2>"$tmp/said"
	got=$?
	cat "$tmp/said"
	[ $got = "$1" ] && grep -q "$2" "$tmp/said"
}

mistakes()
{
	wrong 2 "wrong.conf:4: layers is 'one'" 's/^layers = .*/layers = one/' &&
	wrong 2 "\[model\] has no key 'layer'" 's/^layers/layer/' &&
	wrong 2 "dim must be a multiple of heads" 's/^heads = .*/heads = 5/' &&
	wrong 2 "kind is 'gpt'; there are classifier|decoder" 's/^kind = .*/kind = gpt/' &&
	wrong 2 "folder is missing" '/^folder/d' &&
	wrong 2 "neither \[section\] nor key" 's/^layers.*/layers/' &&
	wrong 3 "/nowhere cannot be read" 's|^text = .*|text = /nowhere|' &&
	wrong 3 "no device 'gpu'" 's/^batch = .*/&\ndevice = gpu/'
}

# The example as its readers would build it.
example()
{
	# shellcheck disable=SC2086 # it may be called by another: ccache gcc
	$CC -std=gnu11 -Wall -Wextra -Werror -Wno-missing-field-initializers -Ilibuser/include \
		-I"$BUILD/gen" examples/train.c -L"$BUILD/lib" -lrlx-train -lrlx -lm \
		-o "$tmp/train" &&
	LD_LIBRARY_PATH=$BUILD/lib "$tmp/train" 60 >"$tmp/got" && cat "$tmp/got" &&
	awk '/images right/ { got = $1 } END { exit !(got > 70 && got <= 100) }' "$tmp/got" &&
	[ "$(wc -l <examples/train.c)" -lt 200 ]
}

check decoder decoder
check goes-on goes_on
check done-already done_already
check classifier classifier
check early-stop early_stop
check mistakes mistakes
check example example
finish
