// SPDX-License-Identifier: MIT
/* Rotary embeddings, of the standard domain and of com.microsoft. */
#include "io/onnx/handlers.h"

/* X, cos, sin [P, n/2] with positions, or [B, S, n/2] by place. */
enum rlx_status onnx_rotary(struct onnx_op *q)
{
	int64_t heads = onnx_attr_i32(q, "num_heads", 0);
	int64_t n_rot = onnx_attr_i32(q, "rotary_embedding_dim", 0);
	rlx_value x = onnx_in(q, 0), pos = onnx_in(q, 3), table[2];
	struct rlx_type t = onnx_type(q, x), tc;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		table[i] = onnx_in(q, 1 + i);
		tc = onnx_type(q, table[i]);
		if (tc.rank != 3)
			continue;
		table[i] = E(q, reshape, .x = table[i],
			     .shape = RLX_INTS(tc.dim[0] * tc.dim[1],
					       tc.dim[2]));
		/* Row of position s of batch b: b S + s. */
		pos = E(q, iota, .type = rlx_type(RLX_I64, tc.dim[0] *
			tc.dim[1]), .start = 0, .step = 1);
		pos = E(q, reshape, .x = pos, .shape = RLX_INTS(tc.dim[0],
								tc.dim[1]));
	}
	onnx_out(q, 0, E(q, rope, .x = x, .cos = table[0], .sin = table[1],
		.pos = pos, .layout = t.rank == 3 ? RLX_BSHD : RLX_BHSD,
		.heads = (int32_t)heads, .n_rot = (int32_t)n_rot,
		.style = onnx_attr_i(q, "interleaved", 0) ? RLX_ROPE_GPTJ :
		RLX_ROPE_NEOX));
	return RLX_OK;
}

enum rlx_status onnx_ms_rotary(struct onnx_op *q)
{
	rlx_value x = onnx_in(q, 0), pos = onnx_in(q, 1);
	int64_t heads = onnx_attr_i32(q, "num_heads", 0);
	int64_t n_rot = onnx_attr_i32(q, "rotary_embedding_dim", 0);
	struct rlx_type t = onnx_type(q, x), tp = onnx_type(q, pos);
	struct rlx_type tc = onnx_type(q, onnx_in(q, 2));

	onnx_attr_f(q, "scale", 1);
	onnx_attr_i(q, "is_packed_batching", 0);
	if (t.rank == 3 && !heads && tc.rank == 2 && tc.dim[1] > 0)
		heads = t.dim[2] / (n_rot ? n_rot : 2 * tc.dim[1]);
	/* One position: where the sequence starts. */
	if (tp.rank == 1 && tp.dim[0] == 1)
		pos = E(q, add, .a = E(q, iota, .type = rlx_type(RLX_I64,
			t.rank == 3 ? t.dim[1] : t.dim[2]), .start = 0,
			.step = 1), .b = pos);
	onnx_out(q, 0, E(q, rope, .x = x, .cos = onnx_in(q, 2),
		.sin = onnx_in(q, 3), .pos = pos,
		.layout = t.rank == 3 ? RLX_BSHD : RLX_BHSD,
		.heads = (int32_t)heads, .n_rot = (int32_t)n_rot,
		.style = onnx_attr_i(q, "interleaved", 0) ? RLX_ROPE_GPTJ :
		RLX_ROPE_NEOX));
	return RLX_OK;
}
