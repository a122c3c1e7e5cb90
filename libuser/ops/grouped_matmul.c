// SPDX-License-Identifier: MIT
/* Each row multiplied by the expert matrix that its index names. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[m, k], w[e, k, n], idx[m] -> y[m, n]
 * Dtypes:	x, w: f64 f32 f16 bf16; idx: i32 i64 u32; y as x and w promoted
 * Does:	row i times matrix idx[i]. A negative index counts from the end.
 * Errors:	RLX_ERANGE for an index outside -e to e - 1.
 * Gradient:	dx = grouped_matmul(dy, w'), dw the outer products of x and dy added up by idx;
 *		none to idx
 * Source:	Shazeer et al. 2017 (mixture of experts)
 */
RLX_OP(grouped_matmul, "y[m] = x[m] w[idx[m]]",
	IN(x) IN(w) IN(idx),
	RLX_T_COMPUTE)

static enum rlx_status grouped_matmul_infer(struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0], *w = q->in[1], *idx = q->in[2];
	enum rlx_status st = op_need_float(q, 0, false);

	st = st ? st : op_need_float(q, 1, false);
	st = st ? st : op_need_index(q, 2);
	st = st ? st : op_need_rank(q, 0, 2, 2);
	st = st ? st : op_need_rank(q, 1, 3, 3);
	st = st ? st : op_need_rank(q, 2, 1, 1);
	if (st)
		return st;
	if (x->dim[1] != w->dim[1] || idx->dim[0] != x->dim[0])
		return op_fail(q, RLX_ESHAPE,
			       "x[%lld, %lld], w[%lld, %lld, %lld], idx[%lld] do not fit",
			       (long long)x->dim[0], (long long)x->dim[1],
			       (long long)w->dim[0], (long long)w->dim[1],
			       (long long)w->dim[2], (long long)idx->dim[0]);
	q->out[0] = rlx_type(rlx_dtype_promote(x->dtype, w->dtype), x->dim[0], w->dim[2]);
	return RLX_OK;
}

static enum rlx_status grouped_matmul_eval(struct rlx_eval *q)
{
	const struct rlx_tensor *x = &q->in[0], *w = &q->in[1];
	int64_t m = x->type.dim[0], k = x->type.dim[1], n = w->type.dim[2], e, i, j, p;
	enum rlx_status st;
	double sum;

	for (i = 0; i < m; i++) {
		st = op_index(q, el_geti(&q->in[2], i), w->type.dim[0], &e);
		if (st)
			return st;
		for (j = 0; j < n; j++) {
			sum = 0;
			for (p = 0; p < k; p++)
				sum += el_get(x, i * k + p) *
				       el_get(w, (e * k + p) * n + j);
			el_set(&q->out[0], i * n + j, sum);
		}
	}
	return RLX_OK;
}

static enum rlx_status grouped_matmul_vjp(struct rlx_grad *q)
{
	struct rlx_graph *g = q->g;
	struct rlx_type x = op_type(g, q->in[0]), w = op_type(g, q->in[1]);
	int64_t m = x.dim[0], k = x.dim[1], n = w.dim[2];
	rlx_value outer;

	q->d_in[0] = rlx_emit(g, grouped_matmul, .x = q->d_out[0],
			      .w = op_swap_last(g, q->in[1]), .idx = q->in[2]);
	outer = rlx_emit(g, mul, .a = op_reshape(g, q->in[0], (int64_t[]){ m, k, 1 }, 3),
			 .b = op_reshape(g, q->d_out[0], (int64_t[]){ m, 1, n }, 3));
	q->d_in[1] = op_gather_grad(g, outer, q->in[2], &w, 0);
	return op_done(g);
}

static void grouped_matmul_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	c->flops = 2.0 * (double)rlx_type_count(&q->out[0]) * (double)q->in[0]->dim[1];
}

static bool grouped_matmul_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 4)
		return false;
	s->n_in = 3;
	s->in[0] = rlx_type(RLX_F32, i == 1 ? 0 : 7, i == 2 ? 0 : 5);
	s->in[1] = rlx_type(RLX_F32, 4, i == 2 ? 0 : 5, i == 4 ? 0 : 3);
	s->in[2] = rlx_type(i ? RLX_I64 : RLX_I32, i == 1 ? 0 : 7);
	s->lo[2] = i == 3 ? -4 : 0;
	s->hi[2] = 3;
	s->tol = 1e-5;
	return true;
}

/* Of rows and which matrix each has, not of matrices. */
static enum rlx_status grouped_matmul_batch(struct rlx_batching *q)
{
	return op_batch_merged(q, 1 | 1 << 2);
}

const struct rlx_op_impl rlx_op_grouped_matmul_impl = {
	.infer = grouped_matmul_infer, .eval = grouped_matmul_eval,
	.vjp = grouped_matmul_vjp, .cost = grouped_matmul_cost,
	.batch = grouped_matmul_batch,
};
RLX_SAMPLES(grouped_matmul, grouped_matmul_sample)
