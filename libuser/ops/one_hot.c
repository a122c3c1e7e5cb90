// SPDX-License-Identifier: MIT
/* Indices as unit vectors. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	indices[i..], values[2] -> y[i.., with depth put in on axis]
 * Dtypes:	indices: i32 i64 u32; values: any; y as values
 * Does:	values[1] where the position on the new axis is the index, values[0] elsewhere. A
 *		negative index counts from the end of depth; one outside is on nowhere.
 * Gradient:	values get the sums of dy where they stand; none to indices
 * Source:	ONNX OneHot-11
 */
RLX_OP(one_hot, "a vector per index: values[1] at it, values[0] elsewhere",
	IN(indices) IN(values)
	REQ(i64, depth, "the number of classes")
	REQ(i32, axis, "where the new dimension goes, -1 for last"),
	RLX_T_MOVE)

static enum rlx_status one_hot_infer(struct rlx_infer *q)
{
	const struct rlx_op_one_hot *a = q->args;
	const struct rlx_type *idx = q->in[0], *v = q->in[1];
	struct rlx_type *y = &q->out[0];
	enum rlx_status st = op_need_index(q, 0);
	uint32_t ax, i;

	if (st)
		return st;
	if (v->rank != 1 || v->dim[0] != 2)
		return op_fail(q, RLX_ESHAPE, "the values must be two: off, on");
	if (a->depth < 0)
		return op_fail(q, RLX_EINVAL, "depth is %lld", (long long)a->depth);
	if (idx->rank >= RLX_MAX_RANK)
		return op_fail(q, RLX_ESHAPE, "the result's rank is over %d",
			       RLX_MAX_RANK);
	st = op_infer_axis(q, a->axis, idx->rank + 1, &ax);
	if (st)
		return st;
	y->dtype = v->dtype;
	y->rank = idx->rank + 1;
	for (i = 0; i < y->rank; i++)
		y->dim[i] = i < ax ? idx->dim[i] : i == ax ? a->depth : idx->dim[i - 1];
	return RLX_OK;
}

static enum rlx_status one_hot_eval(struct rlx_eval *q)
{
	const struct rlx_op_one_hot *a = q->args;
	const struct rlx_type *y = &q->out[0].type;
	int64_t post, i, k, at, n = rlx_type_count(y);
	uint32_t ax = 0;

	op_axis(a->axis, y->rank, &ax);
	post = shape_span(y, ax + 1, y->rank);
	for (i = 0; i < n; i++) {
		k = i / post % a->depth;
		at = el_geti(&q->in[0], i / post / a->depth * post + i % post);
		el_copy(&q->out[0], i, &q->in[1],
			at == k || (at < 0 && at + a->depth == k));
	}
	return RLX_OK;
}

/* Where y is on: the op itself once more, with 0 and 1. */
static enum rlx_status one_hot_vjp(struct rlx_grad *q)
{
	const struct rlx_op_one_hot *a = q->args;
	rlx_value dy = q->d_out[0], hot, on, all;
	struct rlx_graph *g = q->g;
	enum rlx_dtype dt = op_type(g, dy).dtype;

	hot = rlx_emit(g, iota, .type = rlx_type(dt, 2));
	hot = rlx_emit(g, one_hot, .indices = q->in[0], .values = hot, .depth = a->depth,
		       .axis = a->axis);
	on = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = dy, .b = hot));
	all = rlx_emit(g, reduce, .x = dy);
	on = op_reshape(g, on, (int64_t[]){ 1 }, 1);
	all = op_reshape(g, all, (int64_t[]){ 1 }, 1);
	q->d_in[1] = rlx_emit(g, concat, .axis = 0,
			      .xs = RLX_VALUES(rlx_emit(g, sub, .a = all, .b = on), on));
	return op_done(g);
}

static bool one_hot_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_one_hot *a = s->args;

	s->n_in = 2;
	s->in[0] = rlx_type(RLX_I64, 3, 5);
	s->in[1] = rlx_type(RLX_F32, 2);
	s->lo[0] = -9;
	s->hi[0] = 9;
	a->depth = 7;
	switch (i) {
	case 0: case 1: case 2:
		a->axis = (int32_t)i - 1;
		return true;
	case 3:
		s->in[0] = rlx_scalar(RLX_I32);
		s->in[1].dtype = RLX_I64;
		return true;
	case 4:
		a->depth = 0;
		return true;
	case 5:
		s->in[0].dim[0] = 0;
		a->axis = 1;
		return true;
	case 6:
		s->in[1].dtype = RLX_C64;
		return true;
	}
	return false;
}

const struct rlx_op_impl rlx_op_one_hot_impl = {
	.infer = one_hot_infer, .eval = one_hot_eval, .vjp = one_hot_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_PARTS,
	.batch = op_batch_axes_of_first,
};
RLX_SAMPLES(one_hot, one_hot_sample)
