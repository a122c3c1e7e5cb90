// SPDX-License-Identifier: MIT
/* A matrix product with a low-rank correction. */
#include "ops/emit.h"

/*
 * Shapes:	x[.., k], w[k, n], a[k, r], b[r, n] -> y[.., n]
 * Dtypes:	f64 f32 f16 bf16; y as x and w promoted
 * Does:	x w + scale (x a) b; a b is never made.
 * Gradient:	by the ops that it stands for
 * Source:	Hu et al. 2021
 */
RLX_OP(lora_matmul, "x w + scale (x a) b",
	IN(x) IN(w) IN(a) IN(b)
	REQ(f32, scale, "the factor of the correction, alpha / rank"),
	RLX_T_COMPUTE | RLX_T_FUSED)

static enum rlx_status lora_matmul_infer(struct rlx_infer *q)
{
	const struct rlx_op_lora_matmul *l = q->args;
	const struct rlx_type *x = q->in[0], *w = q->in[1], *a = q->in[2], *b = q->in[3];
	enum rlx_status st = op_need_rank(q, 0, 2, RLX_MAX_RANK);
	uint32_t k;

	for (k = 0; !st && k < 4; k++)
		st = op_need_float(q, k, false);
	for (k = 1; !st && k < 4; k++)
		st = op_need_rank(q, k, 2, 2);
	if (!st && !isfinite(l->scale))
		st = op_fail(q, RLX_EINVAL, "scale is %g", (double)l->scale);
	if (st)
		return st;
	if (x->dim[x->rank - 1] != w->dim[0] || w->dim[0] != a->dim[0] ||
	    a->dim[1] != b->dim[0] || b->dim[1] != w->dim[1])
		return op_fail(q, RLX_ESHAPE,
			       "x[.., %lld], w[%lld, %lld], a[%lld, %lld], b[%lld, %lld] do not fit",
			       (long long)x->dim[x->rank - 1], (long long)w->dim[0],
			       (long long)w->dim[1], (long long)a->dim[0],
			       (long long)a->dim[1], (long long)b->dim[0],
			       (long long)b->dim[1]);
	q->out[0] = *x;
	q->out[0].dim[x->rank - 1] = w->dim[1];
	q->out[0].dtype = rlx_dtype_promote(x->dtype, w->dtype);
	return RLX_OK;
}

static enum rlx_status lora_matmul_expand(struct rlx_expand *q)
{
	const struct rlx_op_lora_matmul *a = q->args;
	struct rlx_graph *g = q->g;
	enum rlx_dtype dt = q->out_type->dtype;
	rlx_value y, low;

	y = rlx_emit(g, matmul, .a = q->in[0], .b = q->in[1]);
	low = rlx_emit(g, matmul, .a = q->in[0], .b = q->in[2]);
	low = rlx_emit(g, matmul, .a = low, .b = q->in[3]);
	low = op_mul_const(g, op_cast(g, low, dt), a->scale);
	q->out[0] = rlx_emit(g, add, .a = y, .b = low);
	return op_done(g);
}

static void lora_matmul_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	double rows = (double)shape_span(q->in[0], 0, q->in[0]->rank - 1);

	c->flops = 2 * rows * (double)(rlx_type_count(q->in[1]) +
				       rlx_type_count(q->in[2]) +
				       rlx_type_count(q->in[3]));
}

static bool lora_matmul_sample(unsigned int i, struct rlx_sample *s)
{
	int64_t r = i == 2 ? 0 : 3;

	if (i > 3)
		return false;
	s->n_in = 4;
	s->in[0] = i == 1 ? rlx_type(RLX_F32, 2, 5, 17) :
		   rlx_type(RLX_F32, i == 3 ? 0 : 5, 17);
	s->in[1] = rlx_type(RLX_F32, 17, 9);
	s->in[2] = rlx_type(RLX_F32, 17, r);
	s->in[3] = rlx_type(RLX_F32, r, 9);
	s->tol = 1e-5;
	((struct rlx_op_lora_matmul *)s->args)->scale = i == 1 ? 0 : 0.5f;
	return true;
}

const struct rlx_op_impl rlx_op_lora_matmul_impl = {
	.infer = lora_matmul_infer, .expand = lora_matmul_expand,
	.cost = lora_matmul_cost,
};
RLX_SAMPLES(lora_matmul, lora_matmul_sample)
