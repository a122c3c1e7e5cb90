// SPDX-License-Identifier: MIT
/* Each row multiplied by the expert matrix that its index names, stored in few bits. */
#include "ops/batch.h"
#include "ops/blocks.h"
#include "ops/emit.h"

/*
 * Shapes:	x[m, k], w[e, n, b], b being the bytes of k elements, and k a multiple of the 32,
 *		64 or 256 elements of a block; idx[m] -> y[m, n]
 * Dtypes:	x: f64 f32 f16 bf16; w: u8; idx: i32 i64 u32; y as x
 * Does:	row i times the transpose of matrix idx[i], whose n rows of k elements are as
 *		dequantize_packed gives them by scheme, RLX_SCHEME_Q4_0 to RLX_SCHEME_NVFP4: GGUF
 *		has the weights of experts so. A negative index counts from the end. CPUs read the
 *		blocks as they lie, for x of f64 and on other devices they become floats; on
 *		GPUs, under RLX_COMPILE_PLACE and for x of f32, those of one expert at a time.
 * Errors:	RLX_ERANGE for an index outside -e to e - 1.
 * Gradient:	by dequantize_packed and grouped_matmul: to x; none to w and idx
 * Source:	grouped_matmul and GGUF
 */
RLX_OP(dequant_grouped_matmul, "y[m] = x[m] w[idx[m]]', w in blocks of few bits",
	IN(x) IN(w) IN(idx)
	REQ(i32, scheme, "a scheme of blocks"),
	RLX_T_COMPUTE | RLX_T_STEEP)

static enum rlx_status dequant_grouped_matmul_infer(struct rlx_infer *q)
{
	const struct rlx_op_dequant_grouped_matmul *a = q->args;
	const struct rlx_type *x = q->in[0], *w = q->in[1], *idx = q->in[2];
	enum rlx_status st = op_need_float(q, 0, false);
	int64_t e = rlx_block_elements(a->scheme), bytes;

	st = st ? st : op_need_index(q, 2);
	st = st ? st : op_need_rank(q, 0, 2, 2);
	st = st ? st : op_need_rank(q, 1, 3, 3);
	st = st ? st : op_need_rank(q, 2, 1, 1);
	if (st)
		return st;
	if (!e)
		return op_fail(q, RLX_EINVAL, "scheme %d has no blocks; RLX_SCHEME_Q4_0 to "
			       "RLX_SCHEME_NVFP4 have", a->scheme);
	if (w->dtype != RLX_U8)
		return op_fail(q, RLX_ETYPE, "w is %s, u8 is needed", rlx_dtype_name(w->dtype));
	if (x->dim[1] % e)
		return op_fail(q, RLX_ESHAPE, "k is %lld, no multiple of the scheme's %lld",
			       (long long)x->dim[1], (long long)e);
	bytes = rlx_block_bytes(a->scheme);
	if (w->dim[2] % bytes || w->dim[2] / bytes != x->dim[1] / e)
		return op_fail(q, RLX_ESHAPE, "w has rows of %lld bytes, which are not the %lld "
			       "blocks of %lld bytes that k of %lld takes", (long long)w->dim[2],
			       (long long)(x->dim[1] / e), (long long)bytes,
			       (long long)x->dim[1]);
	if (idx->dim[0] != x->dim[0])
		return op_fail(q, RLX_ESHAPE, "idx has %lld elements for the %lld rows of x",
			       (long long)idx->dim[0], (long long)x->dim[0]);
	q->out[0] = rlx_type(x->dtype, x->dim[0], w->dim[1]);
	return RLX_OK;
}

static enum rlx_status dequant_grouped_matmul_expand(struct rlx_expand *q)
{
	const struct rlx_op_dequant_grouped_matmul *a = q->args;
	struct rlx_graph *g = q->g;
	enum rlx_dtype dt = op_type(g, q->in[0]).dtype, acc = op_acc_type(dt);
	rlx_value w = rlx_emit(g, dequantize_packed, .x = q->in[1], .scheme = a->scheme);

	w = rlx_emit(g, grouped_matmul, .x = op_cast(g, q->in[0], acc), .idx = q->in[2],
		     .w = op_swap_last(g, op_cast(g, w, acc)));
	q->out[0] = op_cast(g, w, dt);
	return op_done(g);
}

/* Of fewer rows than experts, no more experts than rows are read. */
static void dequant_grouped_matmul_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	double m = (double)q->in[0]->dim[0], e = (double)q->in[1]->dim[0];

	c->flops = 2.0 * (double)rlx_type_count(&q->out[0]) * (double)q->in[0]->dim[1];
	if (m < e)
		c->bytes -= (double)rlx_type_bytes(q->in[1]) * (1 - m / e);
}

static bool dequant_grouped_matmul_sample(unsigned int i, struct rlx_sample *s)
{
	enum { SCHEMES = RLX_SCHEME_COUNT - RLX_SCHEME_Q4_0 };
	struct rlx_op_dequant_grouped_matmul *a = s->args;
	int64_t blocks = i == SCHEMES ? 0 : 2, m = i == SCHEMES + 1 ? 0 : 7;

	if (i > SCHEMES + 2)
		return false;
	a->scheme = (int32_t)(RLX_SCHEME_Q4_0 + i % SCHEMES);
	s->n_in = 3;
	s->in[0] = rlx_type(RLX_F32, m, blocks * rlx_block_elements(a->scheme));
	s->in[1] = rlx_type(RLX_U8, 4, i == SCHEMES + 2 ? 0 : 3,
			    blocks * rlx_block_bytes(a->scheme));
	s->in[2] = rlx_type(i & 1 ? RLX_I64 : RLX_I32, m);
	op_sample_block_product(s, a->scheme);
	s->lo[2] = i % 3 ? -4 : 0;
	s->hi[2] = 3;
	s->tol = 1e-5;
	return true;
}

/* Of rows and which matrix each has, not of matrices. */
static enum rlx_status dequant_grouped_matmul_batch(struct rlx_batching *q)
{
	return op_batch_merged(q, 1 | 1 << 2);
}

const struct rlx_op_impl rlx_op_dequant_grouped_matmul_impl = {
	.infer = dequant_grouped_matmul_infer, .expand = dequant_grouped_matmul_expand,
	.cost = dequant_grouped_matmul_cost,
	.batch = dequant_grouped_matmul_batch,
};
RLX_SAMPLES(dequant_grouped_matmul, dequant_grouped_matmul_sample)
