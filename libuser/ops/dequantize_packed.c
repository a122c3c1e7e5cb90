// SPDX-License-Identifier: MIT
/* Blocks of few bits, as GGUF has them, as floats. */
#include "ops/batch.h"
#include "ops/blocks.h"
#include "ops/emit.h"

/*
 * Shapes:	x[.., b], b bytes being whole blocks -> y[.., b / bytes of a block x its elements]
 * Dtypes:	x: u8; to: f32 (if not given), f16, bf16
 * Does:	(scale code + addend) of each element, in f32, then in the dtype to. scheme is
 *		RLX_SCHEME_Q4_0 to RLX_SCHEME_NVFP4: a block has 32 elements (Q4_0, Q4_1, Q5_0,
 *		Q5_1, Q8_0, IQ4_NL, MXFP4), 64 (NVFP4) or 256. rlx/scheme.h says what its bytes
 *		mean. A scale that is NaN gives NaN.
 * Gradient:	none to x
 * Source:	GGUF
 */
RLX_OP(dequantize_packed, "blocks of few bits as floats",
	IN(x)
	REQ(i32, scheme, "a scheme of blocks")
	ATTR(dtype, to),
	RLX_T_MOVE | RLX_T_NODIFF)

static enum rlx_status dequantize_packed_infer(struct rlx_infer *q)
{
	const struct rlx_op_dequantize_packed *a = q->args;
	enum rlx_dtype to = a->to ? a->to : RLX_F32;
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_rank(q, 0, 1, RLX_MAX_RANK);
	int64_t e = rlx_block_elements(a->scheme), n;

	if (st)
		return st;
	if (!e)
		return op_fail(q, RLX_EINVAL, "scheme %d has no blocks; RLX_SCHEME_Q4_0 to "
			       "RLX_SCHEME_NVFP4 have", a->scheme);
	if (x->dtype != RLX_U8)
		return op_fail(q, RLX_ETYPE, "x is %s, u8 is needed", rlx_dtype_name(x->dtype));
	if (to != RLX_F32 && to != RLX_F16 && to != RLX_BF16)
		return op_fail(q, RLX_ETYPE, "to is %s; f32, f16 and bf16 are possible",
			       rlx_dtype_name(to));
	n = x->dim[x->rank - 1];
	if (n % rlx_block_bytes(a->scheme))
		return op_fail(q, RLX_ESHAPE, "%lld bytes are no whole blocks of %d",
			       (long long)n, rlx_block_bytes(a->scheme));
	q->out[0] = *x;
	q->out[0].dtype = to;
	q->out[0].dim[x->rank - 1] = n / rlx_block_bytes(a->scheme) * e;
	return RLX_OK;
}

static enum rlx_status dequantize_packed_eval(struct rlx_eval *q)
{
	const struct rlx_op_dequantize_packed *a = q->args;
	int64_t n = rlx_type_count(&q->out[0].type), i;

	for (i = 0; i < n; i++)
		el_set(&q->out[0], i, op_block_element(a->scheme, q->in[0].data, i));
	return RLX_OK;
}

static bool dequantize_packed_sample(unsigned int i, struct rlx_sample *s)
{
	static const enum rlx_dtype to[] = { RLX_F32, RLX_F16, RLX_BF16, RLX_NODTYPE };
	struct rlx_op_dequantize_packed *a = s->args;

	a->scheme = (int32_t)(RLX_SCHEME_Q4_0 + i);
	if (a->scheme == RLX_SCHEME_COUNT)
		return false;
	a->to = to[i % 4];
	s->in[0] = rlx_type(RLX_U8, 3, i == 4 ? 0 : 2 * rlx_block_bytes(a->scheme));
	s->n_in = 1;
	op_sample_blocks(s, 0, a->scheme);
	s->tol = 1e-6;
	return true;
}

const struct rlx_op_impl rlx_op_dequantize_packed_impl = {
	.infer = dequantize_packed_infer, .eval = dequantize_packed_eval,
	.batch = op_batch_front,
};
RLX_SAMPLES(dequantize_packed, dequantize_packed_sample)
