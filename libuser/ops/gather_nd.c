// SPDX-License-Identifier: MIT
/* Slices picked by index tuples. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[b.., p.., s..], indices[b.., i.., m], m sizes p -> y[b.., i.., s..]; b is
 *		batch_dims dimensions
 * Dtypes:	x: any; indices: i32 i64 u32; y as x
 * Does:	each tuple in the last axis of indices names a place in the dimensions p of x,
 *		within its own batch; y gets the slice there. batch_dims is 0 if not given; with m
 *		= 0 the slice is all of the batch. Negative indices count from the end.
 * Errors:	RLX_ERANGE for an index outside its dimension.
 * Gradient:	dy added into zeros at the tuples; none to indices
 * Source:	ONNX GatherND-13
 */
RLX_OP(gather_nd, "x's slices picked by the tuples in the last axis of indices",
	IN(x) IN(indices)
	ATTR(i32, batch_dims),
	RLX_T_MOVE)

static enum rlx_status gather_nd_infer(struct rlx_infer *q)
{
	const struct rlx_op_gather_nd *a = q->args;
	const struct rlx_type *x = q->in[0], *idx = q->in[1];
	struct rlx_type *y = &q->out[0];
	enum rlx_status st = op_need_index(q, 1);
	uint32_t b = (uint32_t)a->batch_dims, i;
	int64_t m;

	if (st)
		return st;
	if (!idx->rank || a->batch_dims < 0 || b >= idx->rank || b > x->rank)
		return op_fail(q, RLX_ESHAPE,
			       "batch_dims %d does not fit x of rank %u and indices of rank %u",
			       a->batch_dims, x->rank, idx->rank);
	m = idx->dim[idx->rank - 1];
	if (m > x->rank - b)
		return op_fail(q, RLX_ESHAPE, "tuples of %lld for %u dimensions",
			       (long long)m, x->rank - b);
	for (i = 0; i < b; i++)
		if (x->dim[i] != idx->dim[i])
			return op_fail(q, RLX_ESHAPE,
				       "batch dimension %u is %lld in x, %lld in indices",
				       i, (long long)x->dim[i], (long long)idx->dim[i]);
	if (idx->rank - 1 + x->rank - b - (uint32_t)m > RLX_MAX_RANK)
		return op_fail(q, RLX_ESHAPE, "the result's rank is over %d",
			       RLX_MAX_RANK);
	y->dtype = x->dtype;
	for (i = 0; i + 1 < idx->rank; i++)
		y->dim[y->rank++] = idx->dim[i];
	for (i = b + (uint32_t)m; i < x->rank; i++)
		y->dim[y->rank++] = x->dim[i];
	return RLX_OK;
}

static enum rlx_status gather_nd_eval(struct rlx_eval *q)
{
	const struct rlx_op_gather_nd *a = q->args;
	const struct rlx_tensor *x = &q->in[0], *idx = &q->in[1];
	uint32_t b = (uint32_t)a->batch_dims, m, k;
	int64_t s[RLX_MAX_RANK], tuples, per, i, at, off;
	enum rlx_status st;
	size_t row;

	m = (uint32_t)idx->type.dim[idx->type.rank - 1];
	tuples = shape_span(&idx->type, 0, idx->type.rank - 1);
	per = shape_span(&idx->type, b, idx->type.rank - 1);	/* tuples of a batch */
	row = (size_t)shape_span(&x->type, b + m, x->type.rank) *
	      rlx_dtype_size(x->type.dtype);
	shape_dense(&x->type, s);
	for (i = 0; i < tuples; i++) {
		off = i / per * shape_span(&x->type, b, x->type.rank);
		for (k = 0; k < m; k++) {
			st = op_index(q, el_geti(idx, i * m + k), x->type.dim[b + k], &at);
			if (st)
				return st;
			off += at * s[b + k];
		}
		if (row)
			memcpy((char *)q->out[0].data + (size_t)i * row,
			       (const char *)x->data + (size_t)off *
			       rlx_dtype_size(x->type.dtype), row);
	}
	return RLX_OK;
}

/* Batch positions written out in front of each tuple. */
static rlx_value full_tuples(struct rlx_graph *g, rlx_value idx, uint32_t b)
{
	struct rlx_type t = op_type(g, idx);
	rlx_value part[RLX_MAX_RANK + 1];
	uint32_t k;

	t.dim[t.rank - 1] = 1;
	for (k = 0; k < b; k++)
		part[k] = rlx_emit(g, iota, .type = t, .axis = (int32_t)k, .step = 1);
	part[b] = idx;
	return b ? rlx_emit(g, concat, .axis = -1, .xs = { part, b + 1 }) : idx;
}

static enum rlx_status gather_nd_vjp(struct rlx_grad *q)
{
	const struct rlx_op_gather_nd *a = q->args;

	q->d_in[0] = rlx_emit(q->g, scatter_nd, .x = op_zeros_like(q->g, q->in[0]),
			      .indices = full_tuples(q->g, q->in[1],
						     (uint32_t)a->batch_dims),
			      .updates = q->d_out[0], .reduction = RLX_SCATTER_ADD);
	return op_done(q->g);
}

static bool gather_nd_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type x, idx; int32_t b; double top; } c[] = {
		{ { RLX_F32, 2, { 4, 5 } }, { RLX_I64, 2, { 3, 2 } }, 0, 3 },
		{ { RLX_F32, 3, { 4, 5, 3 } }, { RLX_I32, 3, { 2, 3, 1 } }, 0, 3 },
		{ { RLX_F32, 3, { 2, 5, 3 } }, { RLX_I64, 2, { 2, 1 } }, 1, 4 },
		{ { RLX_F32, 4, { 2, 3, 5, 4 } }, { RLX_I64, 4, { 2, 3, 2, 2 } }, 2, 3 },
		{ { RLX_I64, 1, { 5 } }, { RLX_I64, 1, { 1 } }, 0, 4 },
		{ { RLX_F32, 2, { 3, 2 } }, { RLX_I64, 2, { 4, 0 } }, 0, 0 },
		{ { RLX_F32, 2, { 3, 2 } }, { RLX_I64, 2, { 0, 2 } }, 0, 0 },
	};

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 2;
	s->in[0] = c[i].x;
	s->in[1] = c[i].idx;
	((struct rlx_op_gather_nd *)s->args)->batch_dims = c[i].b;
	s->hi[1] = c[i].top;
	s->lo[1] = -c[i].top;
	return true;
}

static enum rlx_status gather_nd_batch(struct rlx_batching *q)
{
	struct rlx_op_gather_nd a = *(const struct rlx_op_gather_nd *)q->args;

	a.batch_dims++;
	q->to[0] = op_batch_in(q, 0).id;
	q->to[1] = op_batch_in(q, 1).id;
	return op_batch_emit(q, &a);
}

const struct rlx_op_impl rlx_op_gather_nd_impl = {
	.infer = gather_nd_infer, .eval = gather_nd_eval, .vjp = gather_nd_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_PARTS,
	.batch = gather_nd_batch,
};
RLX_SAMPLES(gather_nd, gather_nd_sample)
