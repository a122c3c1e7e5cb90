// SPDX-License-Identifier: MIT
/* Slices picked by a mask. */
#include "ops/emit.h"

/*
 * Shapes:	x[.., d, ..], cond[m], m <= d -> y[.., count, ..] with d on axis; flat: m <= all
 *		elements of x -> y[count]
 * Dtypes:	x: any; cond: bool; y as x
 * Does:	keeps slice k along axis (0 if not given) where cond[k] is true, in order; what
 *		stands behind the last condition is dropped. flat takes x as one line of elements.
 *		count is how many conditions are true, as shapes do not depend on data.
 * Errors:	RLX_ERANGE if another number of conditions is true.
 * Gradient:	dy where the slices came from, 0 elsewhere
 * Source:	ONNX Compress-11, numpy.compress
 */
RLX_OP(compress, "the slices along an axis (or, flat, elements) whose condition is true",
	IN(x) IN(cond)
	ATTR(i32, axis)
	ATTR(bool, flat)
	ATTR(i64, count),
	RLX_T_MOVE | RLX_T_STEPPED)

static enum rlx_status compress_infer(struct rlx_infer *q)
{
	const struct rlx_op_compress *a = q->args;
	const struct rlx_type *x = q->in[0], *c = q->in[1];
	enum rlx_status st;
	uint32_t ax = 0;
	int64_t n;

	if (c->dtype != RLX_BOOL || c->rank != 1)
		return op_fail(q, RLX_ETYPE, "the condition must be a vector of bool");
	if (!a->flat) {
		st = op_infer_axis(q, a->axis, x->rank, &ax);
		if (st)
			return st;
	}
	n = a->flat ? rlx_type_count(x) : x->dim[ax];
	if (c->dim[0] > n || a->count < 0 || a->count > c->dim[0])
		return op_fail(q, RLX_ESHAPE, "count %lld of %lld conditions for %lld slices",
			       (long long)a->count, (long long)c->dim[0], (long long)n);
	q->out[0] = *x;
	if (a->flat)
		q->out[0] = rlx_type(x->dtype, 0);
	q->out[0].dim[ax] = a->count;
	return RLX_OK;
}

static enum rlx_status compress_eval(struct rlx_eval *q)
{
	const struct rlx_op_compress *a = q->args;
	const struct rlx_tensor *x = &q->in[0], *c = &q->in[1];
	int64_t pre = 1, d, post = 1, have = 0, i, j, k;
	uint32_t ax = 0;

	d = rlx_type_count(&x->type);
	if (!a->flat) {
		op_axis(a->axis, x->type.rank, &ax);
		pre = shape_span(&x->type, 0, ax);
		d = x->type.dim[ax];
		post = shape_span(&x->type, ax + 1, x->type.rank);
	}
	for (k = 0; k < c->type.dim[0]; k++) {
		if (!el_geti(c, k))
			continue;
		for (i = 0; have < a->count && i < pre; i++)
			for (j = 0; j < post; j++)
				el_copy(&q->out[0], (i * a->count + have) * post + j, x,
					(i * d + k) * post + j);
		have++;
	}
	if (have != a->count)
		return op_fail(q, RLX_ERANGE, "%lld conditions are true, count is %lld",
			       (long long)have, (long long)a->count);
	return RLX_OK;
}

/* The positions that the condition keeps. */
static rlx_value kept(struct rlx_graph *g, rlx_value cond, int64_t count)
{
	return op_reshape(g, rlx_emit(g, nonzero, .x = cond, .count = count), &count, 1);
}

static enum rlx_status compress_expand(struct rlx_expand *q)
{
	const struct rlx_op_compress *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]);
	int64_t n = rlx_type_count(&x);

	if (!n) {	/* no condition is looked at; see rlx_op_eval() */
		q->out[0] = op_reshape(q->g, q->in[0], q->out_type->dim, q->out_type->rank);
		return op_done(q->g);
	}
	q->out[0] = rlx_emit(q->g, gather, .axis = a->flat ? 0 : a->axis,
			     .x = a->flat ? op_reshape(q->g, q->in[0], &n, 1) : q->in[0],
			     .indices = kept(q->g, q->in[1], a->count));
	return op_done(q->g);
}

static enum rlx_status compress_vjp(struct rlx_grad *q)
{
	const struct rlx_op_compress *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]), f = x;
	rlx_value idx, d;
	uint32_t ax = 0;

	if (!rlx_type_count(&x)) {
		q->d_in[0] = op_reshape(q->g, q->d_out[0], x.dim, x.rank);
		return op_done(q->g);
	}
	idx = kept(q->g, q->in[1], a->count);
	if (a->flat)
		f = rlx_type(x.dtype, rlx_type_count(&x));
	else
		op_axis(a->axis, x.rank, &ax);
	d = op_gather_grad(q->g, q->d_out[0], idx, &f, ax);
	q->d_in[0] = op_reshape(q->g, d, x.dim, x.rank);
	return op_done(q->g);
}

static bool compress_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_compress *a = s->args;

	if (i > 4)
		return false;
	s->n_in = 2;
	s->in[0] = i == 4 ? rlx_type(RLX_I64, 2, 0) : rlx_type(RLX_F32, 3, 5);
	s->in[1] = rlx_type(RLX_BOOL, i == 1 ? 4 : i == 3 ? 0 : 3);
	s->lo[1] = s->hi[1] = 1;	/* so that the count is known */
	a->flat = i == 2;
	a->axis = i == 1 ? -1 : 0;
	if (i == 4) {
		a->axis = 1;
		s->in[1].dim[0] = 0;
	}
	a->count = s->in[1].dim[0];
	return true;
}

const struct rlx_op_impl rlx_op_compress_impl = {
	.infer = compress_infer, .eval = compress_eval, .expand = compress_expand,
	.vjp = compress_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_PARTS,
};
RLX_SAMPLES(compress, compress_sample)
