#!/bin/sh
# SPDX-License-Identifier: MIT
# Strict bits of the project's models: SHA-256 of what a row gives, by each level of instructions
# that this machine has, one thread and two, alone and first of three. What it is on each machine
# is in selftests/expect/strict-bits.sha256; PRINT=1 prints such a file.
. selftests/lib/tap.sh
set -f
exec 3>&1

models=$BUILD/models rlx=$BUILD/bin/rlx expect=selftests/expect/strict-bits.sha256
levels=
for l in v3 v4 v4x v4_amx; do
	RLX_ISA=$l "$rlx" info 2>"$tmp/err" | grep -q "kernels for $l," && levels="$levels $l"
done

# digest FILE BYTES: of the first @BYTES behind a .npy file's head
digest()
{
	tail -c +129 "$1" | head -c "$2" | sha256sum | cut -d' ' -f1
}

# row MODEL OUTPUT LEVEL THREADS BATCH SHAPES: the digest of row 0; SHAPES has B for the batch
row()
{
	# shellcheck disable=SC2086
	RLX_ISA=$3 "$rlx" run "$models/$1.onnx" --strict-bits --threads "$4" \
		--output "$2=$tmp/y.npy" $(echo "$6" | sed "s/@/$5/g") >"$tmp/run" 2>&1 || {
		cat "$tmp/run"
		return 1
	}
	bytes=$(($(wc -c <"$tmp/y.npy") - 128))
	digest "$tmp/y.npy" $((bytes / $5))
}

# model MODEL OUTPUT SHAPES: the same by all ways as it should be
model()
{
	want=$(sed -n "s/^\([0-9a-f]*\)  $1\$/\1/p" "$expect")
	for level in $levels; do
		for threads in 1 2; do
			for batch in 1 3; do
				got=$(row "$1" "$2" "$level" "$threads" "$batch" "$3") || {
					echo "$got"
					return 1
				}
				[ -z "${PRINT-}" ] || want=$got
				[ "$got" = "$want" ] || {
					echo "$level, $threads threads, batch $batch: $got, not $want"
					return 1
				}
			done
		done
	done
	[ -z "${PRINT-}" ] || echo "$got  $1" >&3
}

echo "# levels:$levels"
check "there are levels to compare" test -n "$levels"
check minilm model minilm last_hidden_state "--dim batch=@ --dim sequence=19"
check resnet50 model resnet50 logits "--dim batch=@"
check ppocr_cls model ppocr_cls save_infer_model/scale_0.tmp_1 "--shape x=@,3,48,192"
check ppocr_det model ppocr_det sigmoid_0.tmp_0 "--shape x=@,3,96,160"
check ppocr_rec model ppocr_rec softmax_11.tmp_0 "--shape x=@,3,48,160"
check magika model magika target_label "--dim unk__214=@"
echo "1..$n"
exit $rc
