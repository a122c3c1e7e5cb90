// SPDX-License-Identifier: MIT
/* Maxima put back where pooling found them. */
#include "ops/emit.h"

/*
 * Shapes:	x[..], indices[..] like x -> y[out_shape]
 * Dtypes:	x: any; indices: i32 i64 u32; y as x
 * Does:	y is 0 but for x[i] at the flat position indices[i], counted over all of y as
 *		pool's indices are over its input; negative ones count from the end. Which of
 *		several stays that name one place is not said.
 * Errors:	RLX_ERANGE for an index outside y.
 * Gradient:	dx = dy at the indices; none to indices
 * Source:	ONNX MaxUnpool-11
 */
RLX_OP(max_unpool, "zeros of out_shape with x[i] at flat position indices[i]",
	IN(x) IN(indices)
	ATTR(ints, out_shape),
	RLX_T_MOVE)

static enum rlx_status max_unpool_infer(struct rlx_infer *q)
{
	const struct rlx_op_max_unpool *a = q->args;
	const struct rlx_type *x = q->in[0], *idx = q->in[1];
	enum rlx_status st = op_need_index(q, 1);
	uint32_t i;

	if (st)
		return st;
	if (idx->rank != x->rank || memcmp(idx->dim, x->dim, x->rank * sizeof(x->dim[0])))
		return op_fail(q, RLX_ESHAPE, "the indices have not x's shape");
	if (a->out_shape.n > RLX_MAX_RANK)
		return op_fail(q, RLX_ESHAPE, "rank %u is over %d", a->out_shape.n,
			       RLX_MAX_RANK);
	q->out[0].dtype = x->dtype;
	q->out[0].rank = a->out_shape.n;
	for (i = 0; i < a->out_shape.n; i++)
		q->out[0].dim[i] = a->out_shape.v[i];
	if (rlx_type_count(x) && rlx_type_count(&q->out[0]) == 0)
		return op_fail(q, RLX_ESHAPE, "out_shape has no place for x's elements");
	return RLX_OK;
}

static enum rlx_status max_unpool_eval(struct rlx_eval *q)
{
	int64_t n = rlx_type_count(&q->in[0].type), i, at;
	int64_t bytes = rlx_type_bytes(&q->out[0].type);
	enum rlx_status st;

	if (bytes)
		memset(q->out[0].data, 0, (size_t)bytes);
	for (i = 0; i < n; i++) {
		st = op_index(q, el_geti(&q->in[1], i),
			      rlx_type_count(&q->out[0].type), &at);
		if (st)
			return st;
		el_copy(&q->out[0], at, &q->in[0], i);
	}
	return RLX_OK;
}

static enum rlx_status max_unpool_expand(struct rlx_expand *q)
{
	struct rlx_type x = op_type(q->g, q->in[0]), y = *q->out_type;
	int64_t n = rlx_type_count(&x), m = rlx_type_count(&y);
	struct rlx_type line = rlx_type(y.dtype, m);
	rlx_value v;

	v = rlx_emit(q->g, scatter_elements, .x = op_fill(q->g, &line, 0),
		     .indices = op_reshape(q->g, q->in[1], &n, 1),
		     .updates = op_reshape(q->g, q->in[0], &n, 1));
	q->out[0] = op_reshape(q->g, v, y.dim, y.rank);
	return op_done(q->g);
}

static enum rlx_status max_unpool_vjp(struct rlx_grad *q)
{
	struct rlx_type x = op_type(q->g, q->in[0]), y = op_type(q->g, q->out[0]);
	int64_t n = rlx_type_count(&y);
	rlx_value d = op_reshape(q->g, q->d_out[0], &n, 1);

	d = rlx_emit(q->g, gather, .x = d, .indices = q->in[1]);
	q->d_in[0] = op_reshape(q->g, d, x.dim, x.rank);
	return op_done(q->g);
}

static bool max_unpool_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_max_unpool *a = s->args;

	if (i > 2)
		return false;
	s->n_in = 2;
	/* one element: no two can meet */
	s->in[0] = rlx_type(RLX_F32, i == 1 ? 0 : 1, 1, 1, 1);
	s->in[1] = rlx_type(RLX_I64, i == 1 ? 0 : 1, 1, 1, 1);
	s->hi[1] = i == 1 ? 0 : 15;
	a->out_shape = op_keep(s, RLX_INTS(i == 1 ? 0 : 1, 1, 4, 4));
	return true;
}

const struct rlx_op_impl rlx_op_max_unpool_impl = {
	.infer = max_unpool_infer, .eval = max_unpool_eval,
	.expand = max_unpool_expand, .vjp = max_unpool_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_PARTS,
};
RLX_SAMPLES(max_unpool, max_unpool_sample)
