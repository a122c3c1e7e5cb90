// SPDX-License-Identifier: MIT
/* Rows that choose their matrix, of narrow floats with scales beside them. */
#include "ops/scaled.h"

/*
 * Shapes:	x[m, k], w[e, k, n], idx[m], scale_x that broadcasts to [m, 1], scale_w to
 *		[e, 1, n] -> y[m, n]
 * Dtypes:	x, w: floats, f8 too; idx: i32 i64 u32; scales: f64 f32 f16 bf16; y f64 if x or w
 *		is, else f32, or out_dtype
 * Does:	row i of x times its scale, times matrix idx[i] of w times that one's: one scale
 *		for all, one a row or matrix, or one a column of each. A negative index counts
 *		from the end. Products are summed in f32 (f64 with it); y is rounded once, to
 *		out_dtype if that is given f64, f32, f16 or bf16.
 * Errors:	RLX_ERANGE for an index outside -e to e - 1.
 * Gradient:	by those operations: to x, w and both scales; none to idx
 * Source:	grouped_matmul and scaled_matmul
 */
RLX_OP(scaled_grouped_matmul, "y[m] = (scale_x x)[m] (scale_w w)[idx[m]]",
	IN(x) IN(w) IN(idx) IN(scale_x) IN(scale_w)
	ATTR(dtype, out_dtype),
	RLX_T_COMPUTE)

static enum rlx_status scaled_grouped_matmul_infer(struct rlx_infer *q)
{
	const struct rlx_op_scaled_grouped_matmul *p = q->args;
	const struct rlx_type *x = q->in[0], *w = q->in[1], *idx = q->in[2];
	enum rlx_status st = op_need_float(q, 0, true);
	struct rlx_type sx, sw;

	st = st ? st : op_need_float(q, 1, true);
	st = st ? st : op_need_index(q, 2);
	st = st ? st : op_need_float(q, 3, false);
	st = st ? st : op_need_float(q, 4, false);
	st = st ? st : op_need_rank(q, 0, 2, 2);
	st = st ? st : op_need_rank(q, 1, 3, 3);
	st = st ? st : op_need_rank(q, 2, 1, 1);
	if (st)
		return st;
	if (x->dim[1] != w->dim[1] || idx->dim[0] != x->dim[0])
		return op_fail(q, RLX_ESHAPE,
			       "x[%lld, %lld], w[%lld, %lld, %lld], idx[%lld] do not fit",
			       (long long)x->dim[0], (long long)x->dim[1], (long long)w->dim[0],
			       (long long)w->dim[1], (long long)w->dim[2],
			       (long long)idx->dim[0]);
	sx = rlx_type(RLX_F32, x->dim[0], 1);
	sw = rlx_type(RLX_F32, w->dim[0], 1, w->dim[2]);
	if (!op_fits(q->in[3], &sx))
		return op_fail(q, RLX_ESHAPE, "scale_x does not broadcast to [%lld, 1]",
			       (long long)x->dim[0]);
	if (!op_fits(q->in[4], &sw))
		return op_fail(q, RLX_ESHAPE, "scale_w does not broadcast to [%lld, 1, %lld]",
			       (long long)w->dim[0], (long long)w->dim[2]);
	q->out[0] = rlx_type(op_scaled_acc(x->dtype, w->dtype), x->dim[0], w->dim[2]);
	return op_infer_out_dtype(q, p->out_dtype);
}

static enum rlx_status scaled_grouped_matmul_expand(struct rlx_expand *q)
{
	struct rlx_graph *g = q->g;
	struct rlx_type w = op_type(g, q->in[1]), s;
	enum rlx_dtype acc = op_scaled_acc(op_type(g, q->in[0]).dtype, w.dtype);
	rlx_value scale = op_cast(g, q->in[4], acc), v;

	v = rlx_emit(g, grouped_matmul, .x = op_cast(g, q->in[0], acc),
		     .w = op_cast(g, q->in[1], acc), .idx = q->in[2]);
	v = rlx_emit(g, mul, .a = v, .b = op_cast(g, q->in[3], acc));
	s = op_type(g, scale);
	if (!rlx_type_count(q->out_type) || !rlx_type_count(&s))	/* no index is looked at */
		scale = op_fill(g, &(struct rlx_type){ .dtype = acc }, 1);
	else if (s.rank == 3 && s.dim[0] != 1)	/* of each matrix */
		scale = rlx_emit(g, gather, .x = op_reshape(g, scale, (int64_t[]){ s.dim[0],
							    s.dim[2] }, 2), .indices = q->in[2]);
	else
		scale = op_reshape(g, scale, (int64_t[]){ 1, rlx_type_count(&s) }, 2);
	v = rlx_emit(g, mul, .a = v, .b = scale);
	q->out[0] = op_cast(g, v, q->out_type->dtype);
	return op_done(g);
}

static void scaled_grouped_matmul_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	c->flops = 2 * (double)rlx_type_count(&q->out[0]) * (double)q->in[0]->dim[1];
}

static bool scaled_grouped_matmul_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 4)
		return false;
	s->n_in = 5;
	s->f32_only = true;
	s->grad_tol = i < 2 ? -1 : 0;
	s->tol = 1e-5;
	s->in[0] = rlx_type(i < 2 ? RLX_F8E4M3 : RLX_F32, i == 3 ? 0 : 7, 9);
	s->in[1] = rlx_type(i == 1 ? RLX_F8E5M2 : i ? RLX_F32 : RLX_F8E4M3, 4, 9, 5);
	s->in[2] = rlx_type(RLX_I32, i == 3 ? 0 : 7);
	s->lo[2] = -4;
	s->hi[2] = 3;
	s->in[3] = i == 1 ? rlx_type(RLX_F32) : rlx_type(RLX_F32, i == 3 ? 0 : 7, 1);
	if (i == 4)
		s->in[1].dim[2] = 0;
	s->in[4] = !i || i == 4 ? rlx_type(RLX_F32, 4, 1, 1) : i == 1 ? rlx_type(RLX_F32, 5) :
		   i == 2 ? rlx_type(RLX_F32, 4, 1, 5) : rlx_type(RLX_F32);
	return true;
}

const struct rlx_op_impl rlx_op_scaled_grouped_matmul_impl = {
	.infer = scaled_grouped_matmul_infer, .expand = scaled_grouped_matmul_expand,
	.cost = scaled_grouped_matmul_cost,
};
RLX_SAMPLES(scaled_grouped_matmul, scaled_grouped_matmul_sample)
