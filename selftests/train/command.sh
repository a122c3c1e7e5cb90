#!/bin/sh
# SPDX-License-Identifier: MIT
# rlx train: a decoder of licence texts, a classifier of clothes and adapters of an encoder, that
# go on where they were, to the same bits; what they write; configurations that are wrong.
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

# What it writes as .gguf gives the logits of what it writes as ONNX.
# gguf FORMAT ATOL
gguf()
{
	text_config "$tmp/gguf" 1 >"$tmp/gguf.conf" && echo "gguf = $1" >>"$tmp/gguf.conf" &&
	$rlx train "$tmp/gguf.conf" &&
	$rlx run "$tmp/gguf/model.onnx" --input tokens=random:0:255 --seed 5 \
		--output "logits=$tmp/logits.npy" &&
	$rlx run "$tmp/gguf/model.gguf" --input input_ids=random:0:255 --seed 5 \
		--shape input_ids=1,32 --expect "logits=$tmp/logits.npy" --rtol 0 --atol "$2"
}

# Averages of weights are no weights: model.safetensors has none, and training goes on with them.
averages()
{
	text_config "$tmp/ema" 2 | sed 's/^\[train\]/&\nema = 0.9/' >"$tmp/ema.conf" &&
	$rlx train "$tmp/ema.conf" || return 1
	at=$tmp/ema/checkpoints/latest
	! grep -qa '"ema\.' "$at/model.safetensors" && grep -qa '"tok"' "$at/model.safetensors" &&
	grep -qa '"ema\.tok"' "$at/optim.safetensors" || return 1
	sed -i 's/^steps = 2/steps = 3/' "$tmp/ema.conf"
	$rlx train "$tmp/ema.conf" >"$tmp/got" && grep -q 'goes on at step 2' "$tmp/got"
}

# A FIFO in the place of the curve has no writer: it is refused, and not replaced.
curve_is_a_fifo()
{
	rm -rf "$tmp/last" && mv "$tmp/text/checkpoints/step-000000060" "$tmp/last" &&
	rm "$tmp/text/curve.csv" && mkfifo "$tmp/text/curve.csv" || return 1
	timeout 60 "$rlx" train "$tmp/text.conf" >"$tmp/got" 2>&1
	is=$?
	cat "$tmp/got"
	[ $is = 3 ] && grep -q 'curve.csv: not a regular file' "$tmp/got" &&
	[ -p "$tmp/text/curve.csv" ] && rm "$tmp/text/curve.csv" &&
	mv "$tmp/curve.csv" "$tmp/text/" &&
	rm -rf "$tmp/text/checkpoints/step-000000060" &&
	mv "$tmp/last" "$tmp/text/checkpoints/step-000000060"
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

# encoder_config FOLDER STEPS
encoder_config()
{
	cat <<EOF
[model]
kind = encoder
base = $BUILD/models/minilm
context = 32
rank = 8
targets = query,value,attention.output.dense
[data]
text = /usr/share/common-licenses
[optimizer]
lr = 0.002
[schedule]
warmup = 2
[train]
steps = $2
batch = 16
threads = 1
[eval]
every = 12
[output]
folder = $1
save_every = 12
EOF
}

# Adapters make the encoder find more second halves of paragraphs by the first; its own weights
# stay, the merged ones are an encoder.
encoder()
{
	sum=$(sha256sum <"$BUILD/models/minilm/model.safetensors")
	encoder_config "$tmp/lora" 24 >"$tmp/lora.conf" &&
	$rlx train "$tmp/lora.conf" >"$tmp/got" && cat "$tmp/got" &&
	awk '{ for (i = 2; i < NF; i++) if ($(i + 1) == "%") last = $i }
		/^before:/ { before = last } END { exit !(NR == 3 && last >= before + 2) }' \
		"$tmp/got" &&
	awk -F, 'NR == 2 { first = $3 } END { exit !(NR == 3 && $3 < first) }' \
		"$tmp/lora/curve.csv" &&
	[ "$sum" = "$(sha256sum <"$BUILD/models/minilm/model.safetensors")" ] &&
	grep -q '"encoder.layer.5.attention.output.dense"' \
		"$tmp/lora/adapter/adapter_config.json" &&
	! grep -q 'intermediate' "$tmp/lora/adapter/adapter_config.json" &&
	$rlx embed --model "$tmp/lora/merged" --query liability \
		--corpus /usr/share/common-licenses/BSD >"$tmp/got" && cat "$tmp/got" &&
	grep -q 'common-licenses/BSD:16$' "$tmp/got" || return 1
	# it goes on to the same adapters
	cp -r "$tmp/lora" "$tmp/again" && rm -r "$tmp/again/checkpoints/step-000000024" &&
	encoder_config "$tmp/again" 24 >"$tmp/again.conf" &&
	$rlx train "$tmp/again.conf" >"$tmp/got" && grep -q 'goes on at step 12' "$tmp/got" &&
	cmp "$tmp/lora/adapter/adapter_model.safetensors" \
		"$tmp/again/adapter/adapter_model.safetensors" &&
	cmp "$tmp/lora/merged/model.safetensors" "$tmp/again/merged/model.safetensors"
}

# ranks_config FOLDER RANKS STEPS: rows of a step are 16, whoever has them
ranks_config()
{
	text_config "$1" "$3" |
		sed "/^dropout/d; s/^batch = .*/batch = $((16 / $2))\nranks = $2\nthreads = 1/"
}

# Ranks take the losses of one process with all rows, to what sums in another order make of
# them, and end with its step's checkpoint; another number of ranks goes on with the same rows.
ranks()
{
	ranks_config "$tmp/one" 1 40 >"$tmp/one.conf" &&
	ranks_config "$tmp/four" 4 40 >"$tmp/four.conf" &&
	$rlx train "$tmp/one.conf" >"$tmp/got" && $rlx train "$tmp/four.conf" >"$tmp/got" &&
	cat "$tmp/got" && [ "$(grep -c '^step' "$tmp/got")" = 2 ] &&
	paste -d, "$tmp/one/curve.csv" "$tmp/four/curve.csv" | awk -F, '
		NR > 1 { n++; d = $2 - $6; if (d > 1e-4 || d < -1e-4) bad = 1 }
		END { exit !(n == 2 && !bad) }' &&
	ranks_config "$tmp/four" 2 60 | sed '/^ranks/d' >"$tmp/two.conf" &&
	$rlx train --ranks 2 "$tmp/two.conf" >"$tmp/got" && cat "$tmp/got" &&
	grep -q 'goes on at step 40' "$tmp/got" &&
	ranks_config "$tmp/four" 2 80 | sed 's/^batch = .*/batch = 7/' >"$tmp/other.conf" &&
	! $rlx train "$tmp/other.conf" >"$tmp/got" 2>&1 && cat "$tmp/got" &&
	grep -q 'batch of 7 x 2' "$tmp/got"
}

# Ranks that have a part of the optimizer's states each end with the weights of ranks that have
# all; as many others, and one alone, go on with what they wrote.
zero()
{
	ranks_config "$tmp/all" 4 24 >"$tmp/all.conf" &&
	ranks_config "$tmp/zero" 4 24 | sed 's/^ranks = .*/&\nzero = 1/' >"$tmp/zero.conf" &&
	$rlx train "$tmp/all.conf" >"$tmp/got" && $rlx train "$tmp/zero.conf" >"$tmp/got" &&
	cat "$tmp/got" && cmp "$tmp/all/curve.csv" "$tmp/zero/curve.csv" &&
	cmp "$tmp/all/model.onnx" "$tmp/zero/model.onnx" &&
	at=checkpoints/step-000000024 &&
	cmp "$tmp/all/$at/model.safetensors" "$tmp/zero/$at/model.safetensors" &&
	[ "$(find "$tmp/zero/$at" -name 'optim-0000?-of-00004.safetensors' | wc -l)" = 4 ] &&
	all=$(stat -c %s "$tmp/all/$at/optim.safetensors") &&
	part=$(stat -c %s "$tmp/zero/$at/optim-00001-of-00004.safetensors") &&
	rest=$(stat -c %s "$tmp/zero/$at/optim.safetensors") &&
	echo "# $all bytes, in parts $part and $rest" &&
	[ $((part + rest)) -lt $((all * 2 / 5)) ] &&
	ranks_config "$tmp/zero" 2 30 | sed 's/^ranks = .*/&\nzero = 1/' >"$tmp/two.conf" &&
	ranks_config "$tmp/all" 2 30 >"$tmp/alltwo.conf" &&
	$rlx train "$tmp/alltwo.conf" >"$tmp/got" && $rlx train "$tmp/two.conf" >"$tmp/got" &&
	grep -q 'goes on at step 24' "$tmp/got" &&
	cmp "$tmp/all/model.onnx" "$tmp/zero/model.onnx" &&
	ranks_config "$tmp/zero" 1 36 >"$tmp/one.conf" && ranks_config "$tmp/all" 1 36 \
		>"$tmp/allone.conf" &&
	$rlx train "$tmp/allone.conf" >"$tmp/got" && $rlx train "$tmp/one.conf" >"$tmp/got" &&
	grep -q 'goes on at step 30' "$tmp/got" &&
	cmp "$tmp/all/model.onnx" "$tmp/zero/model.onnx" &&
	cmp "$tmp/all/checkpoints/step-000000036/optim.safetensors" \
		"$tmp/zero/checkpoints/step-000000036/optim.safetensors" &&
	sed 's/^lr = .*/&\nkind = muon/' "$tmp/zero.conf" >"$tmp/muon.conf" &&
	! $rlx train "$tmp/muon.conf" 2>"$tmp/got" && cat "$tmp/got" &&
	grep -q 'muon and adafactor need whole ones' "$tmp/got"
}

# torchrun's variables do as well.
torchrun()
{
	ranks_config "$tmp/torch" 2 20 >"$tmp/torch.conf"
	export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=here MASTER_PORT=$$
	RANK=1 $rlx train "$tmp/torch.conf" >"$tmp/second" &
	RANK=0 $rlx train "$tmp/torch.conf" >"$tmp/got"
	got=$?
	wait $! || got=1
	unset WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
	[ $got = 0 ] && [ ! -s "$tmp/second" ] && grep -q '^step 20/20' "$tmp/got"
}

# One that is alone, and one whose launcher says half of it, are told what to do.
alone()
{
	ranks_config "$tmp/alone" 2 20 | sed 's/^ranks = .*/&\ntimeout = 1/' >"$tmp/alone.conf"
	env RANK=1 WORLD_SIZE=2 MASTER_ADDR=alone MASTER_PORT=$$ \
		$rlx train "$tmp/alone.conf" 2>"$tmp/said"
	got=$?
	WORLD_SIZE=2 $rlx train "$tmp/alone.conf" 2>>"$tmp/said" && return 1
	cat "$tmp/said"
	[ $got = 3 ] && grep -q 'rank 1 found no rank 0 within 1 s' "$tmp/said" &&
	grep -q '\[train\] timeout is how long is waited' "$tmp/said" &&
	grep -q "WORLD_SIZE is '2' and RANK not set" "$tmp/said" && [ ! -e "$tmp/alone" ]
}

# Who ignores the ends of its children hands that down.
ignored_ends()
{
	ranks_config "$tmp/ends" 2 20 >"$tmp/ends.conf"
	selftests/lib/limit.sh 60 env --ignore-signal=CHLD \
		$rlx train "$tmp/ends.conf" >"$tmp/got" &&
	grep -q '^step 20/20' "$tmp/got"
}

# Children of process $1
children()
{
	cat /proc/"$1"/task/*/children
}

# at_work PID: until the ranks that it started have done some steps, for they have saved
at_work()
{
	until ls "$tmp/killed/checkpoints" 2>/dev/null | grep -q '^step-[0-9]*$'; do
		kill -0 "$1" || return 1
		sleep 0.1
	done
}

# gone PID ...: until they are, a minute at most
gone()
{
	tries=600
	for p; do
		while [ -e "/proc/$p" ] && ! grep -q '^State:.*Z' "/proc/$p/status"; do
			tries=$((tries - 1))
			[ $tries -gt 0 ] || return 1
			sleep 0.1
		done
	done
}

# One that is killed ends all, and they say which it was; so does the end of who started them.
killed()
{
	ranks_config "$tmp/killed" 4 1000000 | sed 's/^every = .*/every = 0/' >"$tmp/killed.conf"
	$rlx train "$tmp/killed.conf" >/dev/null 2>"$tmp/said" &
	first=$!
	at_work $first || return 1
	all=$(children $first)
	# shellcheck disable=SC2086 # they are numbers
	set -- $all
	[ $# = 4 ] && kill -KILL "$3"
	wait $first
	got=$?
	cat "$tmp/said"
	[ $got = 3 ] && grep -q 'rank 2 was ended by signal 9' "$tmp/said" &&
	grep -q "rank 1: rank 2 (pid $3) died" "$tmp/said" || return 1
	rm -r "$tmp/killed"
	$rlx train "$tmp/killed.conf" >/dev/null 2>&1 &
	first=$!
	at_work $first || return 1
	all="$all $(children $first)"
	kill -KILL $first
	wait $first
	# shellcheck disable=SC2086 # they are numbers
	gone $all
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

# The same of an encoder's.
wrong_encoder()
{
	encoder_config "$tmp/wrong" 20 | sed "$3" >"$tmp/wrong.conf"
	$rlx train "$tmp/wrong.conf" >/dev/null 2>"$tmp/said"
	got=$?
	cat "$tmp/said"
	[ $got = "$1" ] && grep -q "$2" "$tmp/said"
}

encoder_mistakes()
{
	wrong_encoder 2 "base is missing" '/^base/d' &&
	wrong_encoder 2 "text is missing" '/^text/d' &&
	wrong_encoder 2 "must be above 0" 's/^rank = .*/rank = 0/' &&
	wrong_encoder 2 "must be above 0" 's/^rank = .*/&\nalpha = 0/' &&
	wrong_encoder 2 "rank is '-1'" 's/^rank = .*/rank = -1/' &&
	wrong_encoder 2 "batch must be 2 at least" 's/^batch = .*/batch = 1/' &&
	wrong_encoder 2 "dropout is not for an encoder" 's/^rank = .*/&\ndropout = 0.1/' &&
	wrong_encoder 3 "no matrix in the blocks of .* is called keys" \
		's/^targets = .*/targets = keys/' &&
	wrong_encoder 3 "takes 512 tokens at most" 's/^context = .*/context = 513/' &&
	wrong_encoder 3 "rank is 2097152" 's/^rank = .*/rank = 2097152/' &&
	wrong_encoder 3 "/nowhere" 's|^base = .*|base = /nowhere|' && rm -rf "$tmp/wrong" &&
	wrong_encoder 3 "0 paragraphs; 10 at least" 's|^text = .*|text = /dev/null|'
}

# It has no lines, and no end.
said_of_zeros()
{
	timeout 20 $rlx train /dev/zero 2>"$tmp/said"
	[ $? = 2 ] && grep -q '/dev/zero:1: a byte of 0' "$tmp/said"
}

mistakes()
{
	wrong 2 "wrong.conf:4: layers is 'one'" 's/^layers = .*/layers = one/' &&
	wrong 2 "\[model\] has no key 'layer'" 's/^layers/layer/' &&
	wrong 2 "dim must be a multiple of heads" 's/^heads = .*/heads = 5/' &&
	wrong 2 "kind is 'gpt'; there are classifier|decoder" 's/^kind = .*/kind = gpt/' &&
	wrong 2 "folder is missing" '/^folder/d' &&
	wrong 2 "zero is 1 or 0" 's/^batch = .*/&\nzero = 2/' &&
	wrong 2 "ranks and timeout must be 1" 's/^batch = .*/&\ntimeout = 0/' &&
	wrong 2 "neither \[section\] nor key" 's/^layers.*/layers/' &&
	wrong 2 "kind is 'decoder|encoder'" 's/^kind = .*/kind = decoder|encoder/' &&
	wrong 2 "there is no section \[modell\]" 's/^\[model\]/[modell]/' &&
	wrong 2 "rlx train --keys lists them" 's/^layers/layer/' &&
	wrong 2 "lr is '1e300'" 's/^lr = .*/lr = 1e300/' &&
	wrong 2 "layers must be 4096 at most" 's/^layers = .*/layers = 1073741824/' &&
	wrong 2 "batches must be 1 at least" 's/^batches = .*/batches = 0/' &&
	wrong 2 "folder is empty" 's/^folder = .*/folder =/' &&
	wrong 2 "over 1022 bytes" "s/^layers/$(printf '%1100s' '')layers/" &&
	said_of_zeros &&
	$rlx train --keys | grep -q '^  kind = adamw    sgd|adamw|lion' &&
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

# The loss falls; stopped and called again it ends with the same bits as without.
text_example()
{
	# shellcheck disable=SC2086 # it may be called by another: ccache gcc
	$CC -std=gnu11 -Wall -Wextra -Werror -Wno-missing-field-initializers -Ilibuser/include \
		-I"$BUILD/gen" examples/train_text.c -L"$BUILD/lib" -lrlx-train -lrlx -lm \
		-o "$tmp/train_text" || return 1
	text=/usr/share/common-licenses/GPL-3
	for call in 'whole 30' 'parts 11' 'parts 30'; do
		# shellcheck disable=SC2086 # folder and steps
		set -- $call
		LD_LIBRARY_PATH=$BUILD/lib "$tmp/train_text" $text "$tmp/$1" "$2" >"$tmp/got" ||
			return 1
	done
	cat "$tmp/got"
	for f in model optim; do
		cmp "$tmp/whole/checkpoints/step-000000030/$f.safetensors" \
			"$tmp/parts/checkpoints/step-000000030/$f.safetensors" || return 1
		! cmp -s "$tmp/whole/checkpoints/step-000000030/$f.safetensors" \
			"$tmp/parts/checkpoints/step-000000011/$f.safetensors" || return 1
	done
	awk '/^ *30  loss/ { got = $3 } END { exit !(got > 1 && got < 3.6) }' "$tmp/got" &&
	[ "$(wc -c <"$tmp/got")" -gt 300 ] && [ "$(wc -l <examples/train_text.c)" -lt 250 ]
}

# Weights of 1e30 after a step: it ends, and says where the NaN comes from.
not_finite()
{
	text_config "$tmp/nan" 60 | sed 's/^lr = .*/kind = sgd\nlr = 1e30/' >"$tmp/nan.conf" &&
	printf '[schedule]\nwarmup = 0\n[train]\nclip = 0\n' >>"$tmp/nan.conf" &&
	! $rlx train "$tmp/nan.conf" >/dev/null 2>"$tmp/got" && cat "$tmp/got" &&
	grep -q '20 times in turn (NaN comes first in value %[0-9]*, .* of .*\.c:[0-9]*)' "$tmp/got"
}

custom_op()
{
	# shellcheck disable=SC2086 # it may be called by another: ccache gcc
	$CC -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter \
		-Wno-missing-field-initializers -Ilibuser/include -I"$BUILD/gen" \
		examples/custom_op.c -L"$BUILD/lib" -lrlx -lm -o "$tmp/custom_op" &&
	LD_LIBRARY_PATH=$BUILD/lib "$tmp/custom_op" cpu &&
	LD_LIBRARY_PATH=$BUILD/lib "$tmp/custom_op" ref &&
	[ "$(wc -l <examples/custom_op.c)" -lt 150 ]
}

check decoder decoder
check goes-on goes_on
check gguf-f32 gguf f32 1e-5
check gguf-q8_0 gguf q8_0 0.02
check averages averages
check curve-fifo curve_is_a_fifo
check done-already done_already
check classifier classifier
check encoder encoder
check encoder-mistakes encoder_mistakes
check early-stop early_stop
check ranks ranks
check zero zero
check torchrun torchrun
check alone alone
check ignored-ends ignored_ends
check killed killed
check mistakes mistakes
check example example
check text-example text_example
check not-finite not_finite
check custom-op custom_op
finish
