// SPDX-License-Identifier: MIT
/* A matrix product of narrow floats with scales beside them. */
#include "ops/scaled.h"

/*
 * Shapes:	a[.., m, k], b[.., k, n], scale_a that broadcasts to [.., m, s], scale_b to
 *		[.., s, n] -> y[.., m, n]; s is ceil(k / block), or 1 without blocks; leading
 *		dimensions of a and b broadcast
 * Dtypes:	a, b: floats, f8 too; scales: f64 f32 f16 bf16; y f64 if a or b is, else f32, or
 *		out_dtype
 * Does:	(a scale_a) (b scale_b), each element by the scale of its row or column and its
 *		block of k: one scale for all, one a row, or with block one for so many of k.
 *		Products are summed in f32 (f64 with it); y is rounded once, to
 *		out_dtype if that is given f64, f32, f16 or bf16.
 * Gradient:	by those operations: to a, b and both scales
 * Source:	Micikevicius et al. 2022 (f8), OCP Microscaling Formats 1.0 (blocks)
 */
RLX_OP(scaled_matmul, "(a scale_a) (b scale_b): scales of all, of rows, or of blocks of k",
	IN(a) IN(b) IN(scale_a) IN(scale_b)
	ATTR(i64, block)
	ATTR(dtype, out_dtype),
	RLX_T_COMPUTE)

/* Blocks of a k of that length. */
static int64_t blocks_of(int64_t block, int64_t k)
{
	return !block ? 1 : k ? (k - 1) / block + 1 : 0;
}

static enum rlx_status scaled_matmul_infer(struct rlx_infer *q)
{
	const struct rlx_op_scaled_matmul *p = q->args;
	const struct rlx_type *a = q->in[0], *b = q->in[1];
	struct rlx_type ba, bb, *y = &q->out[0];
	enum rlx_status st = RLX_OK;
	uint32_t i;

	for (i = 0; !st && i < 4; i++)
		st = op_need_float(q, i, i < 2);
	for (i = 0; !st && i < 2; i++)
		st = op_need_rank(q, i, 2, RLX_MAX_RANK - 1);
	if (st)
		return st;
	if (p->block < 0)
		return op_fail(q, RLX_EINVAL, "block is %lld", (long long)p->block);
	if (a->dim[a->rank - 1] != b->dim[b->rank - 2])
		return op_fail(q, RLX_ESHAPE, "inner dims %lld != %lld",
			       (long long)a->dim[a->rank - 1], (long long)b->dim[b->rank - 2]);
	ba = *a;
	bb = *b;
	ba.dim[a->rank - 1] = bb.dim[b->rank - 2] = blocks_of(p->block, a->dim[a->rank - 1]);
	if (!op_fits(q->in[2], &ba) || !op_fits(q->in[3], &bb))
		return op_fail(q, RLX_ESHAPE, "scale_%c does not broadcast to the operand's rows "
			       "and its %lld blocks of k", op_fits(q->in[2], &ba) ? 'b' : 'a',
			       (long long)ba.dim[a->rank - 1]);
	ba.rank -= 2;
	bb.rank -= 2;
	if (!op_broadcast(&ba, &bb, y))
		return op_fail(q, RLX_ESHAPE, "the batch dimensions do not broadcast");
	y->dim[y->rank++] = a->dim[a->rank - 2];
	y->dim[y->rank++] = b->dim[b->rank - 1];
	y->dtype = op_scaled_acc(a->dtype, b->dtype);
	return op_infer_out_dtype(q, p->out_dtype);
}

/* @x times the scale of each of its blocks along @ax. */
static rlx_value by_blocks(struct rlx_graph *g, rlx_value x, rlx_value s, uint32_t ax,
			   int64_t block)
{
	struct rlx_type t = op_type(g, x), each = t, wide;
	int64_t k = t.dim[ax], n = blocks_of(block, k);
	uint32_t i;

	each.dim[ax] = n;
	s = op_expand_to(g, s, &each);
	wide = each;
	wide.rank++;
	for (i = wide.rank - 1; i > ax + 1; i--)
		wide.dim[i] = each.dim[i - 1];
	wide.dim[ax + 1] = 1;
	s = op_reshape(g, s, wide.dim, wide.rank);
	wide.dim[ax + 1] = block < k ? block : k;
	s = op_expand_to(g, s, &wide);
	each.dim[ax] = n * wide.dim[ax + 1];
	s = op_reshape(g, s, each.dim, each.rank);
	if (each.dim[ax] != k)
		s = rlx_emit(g, slice, .x = s, .axes = RLX_INTS(ax), .starts = RLX_INTS(0),
			     .ends = RLX_INTS(k));
	return rlx_emit(g, mul, .a = x, .b = s);
}

static enum rlx_status scaled_matmul_expand(struct rlx_expand *q)
{
	const struct rlx_op_scaled_matmul *p = q->args;
	struct rlx_type a = op_type(q->g, q->in[0]), b = op_type(q->g, q->in[1]);
	enum rlx_dtype acc = op_scaled_acc(a.dtype, b.dtype);
	struct rlx_graph *g = q->g;
	rlx_value s[2], v;

	s[0] = op_cast(g, q->in[2], acc);
	s[1] = op_cast(g, q->in[3], acc);
	if (p->block) {
		v = rlx_emit(g, matmul, .a = by_blocks(g, op_cast(g, q->in[0], acc), s[0],
						       a.rank - 1, p->block),
			     .b = by_blocks(g, op_cast(g, q->in[1], acc), s[1], b.rank - 2,
					    p->block));
	} else {
		v = rlx_emit(g, fused_matmul, .a = op_scaled_wide(g, q->in[0]),
			     .b = op_scaled_wide(g, q->in[1]), .out_dtype = acc);
		v = rlx_emit(g, mul, .a = v, .b = s[0]);
		v = rlx_emit(g, mul, .a = v, .b = s[1]);
	}
	q->out[0] = op_cast(g, v, q->out_type->dtype);
	return op_done(g);
}

static void scaled_matmul_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_type *a = q->in[0];

	c->flops = 2 * (double)rlx_type_count(&q->out[0]) * (double)a->dim[a->rank - 1];
}

static bool scaled_matmul_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_scaled_matmul *a = s->args;
	enum rlx_dtype dt = i == 1 ? RLX_F8E5M2 : RLX_F8E4M3;

	if (i > 5)
		return false;
	s->n_in = 4;
	s->f32_only = true;
	s->grad_tol = i < 3 ? -1 : 0;	/* f8 has no small differences */
	s->tol = 1e-5;
	s->in[0] = i == 4 ? rlx_type(RLX_F32, 2, 3, 70) : rlx_type(i < 3 ? dt : RLX_F32, 5, 70);
	s->in[1] = rlx_type(i < 2 ? RLX_F8E4M3 : i == 2 ? dt : RLX_F32, 70, i == 5 ? 0 : 6);
	s->in[2] = !i || i == 5 ? rlx_type(RLX_F32) : i == 1 ? rlx_type(RLX_F32, 5, 1) :
		   i == 4 ? rlx_type(RLX_F32, 2, 3, 1) : rlx_type(RLX_F32, 5, 3);
	s->in[3] = !i || i == 5 ? rlx_type(RLX_F32, 1) : i == 1 || i == 4 ?
		   rlx_type(RLX_F32, 1, 6) : rlx_type(RLX_F32, 3, 6);
	a->block = i == 2 || i == 3 ? 32 : 0;
	return true;
}

const struct rlx_op_impl rlx_op_scaled_matmul_impl = {
	.infer = scaled_matmul_infer, .expand = scaled_matmul_expand,
	.cost = scaled_matmul_cost,
};
RLX_SAMPLES(scaled_matmul, scaled_matmul_sample)
