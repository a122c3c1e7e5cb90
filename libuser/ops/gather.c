// SPDX-License-Identifier: MIT
/* Rows picked by index. */
#include "ir/graph.h"
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[a.., d, b..], indices[i..] -> y[a.., i.., b..] with d on axis
 * Dtypes:	x: any; indices: i32 i64 u32; y as x
 * Does:	y[a, i, b] = x[a, indices[i], b]. axis is 0 if not given; a negative index counts
 *		from the end.
 * Errors:	RLX_ERANGE for an index outside -d to d - 1.
 * Gradient:	dy added into zeros at the indices, so that slices picked more than once get the
 *		sum; none to indices
 * Source:	ONNX Gather-13, numpy.take
 */
RLX_OP(gather, "x's slices along an axis, picked by an index tensor (numpy take)",
	IN(x) IN(indices)
	ATTR(i32, axis),
	RLX_T_MOVE)

static enum rlx_status gather_infer(struct rlx_infer *q)
{
	const struct rlx_op_gather *a = q->args;
	const struct rlx_type *x = q->in[0], *idx = q->in[1];
	struct rlx_type *y = &q->out[0];
	enum rlx_status st = op_need_index(q, 1);
	uint32_t ax, i;

	if (!st)
		st = op_infer_axis(q, a->axis, x->rank, &ax);
	if (st)
		return st;
	if (x->rank + idx->rank > RLX_MAX_RANK + 1)
		return op_fail(q, RLX_ESHAPE, "the result's rank %u is over %d",
			       x->rank + idx->rank - 1, RLX_MAX_RANK);
	y->dtype = x->dtype;
	for (i = 0; i < ax; i++)
		y->dim[y->rank++] = x->dim[i];
	for (i = 0; i < idx->rank; i++)
		y->dim[y->rank++] = idx->dim[i];
	for (i = ax + 1; i < x->rank; i++)
		y->dim[y->rank++] = x->dim[i];
	return RLX_OK;
}

static enum rlx_status gather_eval(struct rlx_eval *q)
{
	const struct rlx_op_gather *a = q->args;
	const struct rlx_tensor *x = &q->in[0], *idx = &q->in[1];
	int64_t n = rlx_type_count(&idx->type), pre, i, j, at, d;
	size_t row;
	uint32_t ax = 0;
	enum rlx_status st;

	op_axis(a->axis, x->type.rank, &ax);
	d = x->type.dim[ax];
	pre = shape_span(&x->type, 0, ax);
	row = (size_t)shape_span(&x->type, ax + 1, x->type.rank) *
	      rlx_dtype_size(x->type.dtype);
	for (j = 0; j < n; j++) {
		st = op_index(q, el_geti(idx, j), d, &at);
		if (st)
			return st;
		for (i = 0; row && i < pre; i++)
			memcpy((char *)q->out[0].data + (size_t)(i * n + j) * row,
			       (const char *)x->data + (size_t)(i * d + at) * row, row);
	}
	return RLX_OK;
}

static enum rlx_status gather_vjp(struct rlx_grad *q)
{
	const struct rlx_op_gather *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]);
	uint32_t ax = 0;

	op_axis(a->axis, x.rank, &ax);
	q->d_in[0] = op_gather_grad(q->g, q->d_out[0], q->in[1], &x, ax);
	return op_done(q->g);
}

static bool gather_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type x, idx; int32_t axis; } c[] = {
		{ { RLX_F32, 2, { 9, 5 } }, { RLX_I64, 1, { 4 } }, 0 },
		{ { RLX_F32, 3, { 2, 7, 3 } }, { RLX_I32, 2, { 2, 5 } }, 1 },
		{ { RLX_F32, 2, { 3, 8 } }, { RLX_I64, 0, { 0 } }, -1 },
		{ { RLX_I64, 1, { 6 } }, { RLX_U32, 2, { 1, 3 } }, 0 },
		{ { RLX_F32, 2, { 0, 5 } }, { RLX_I64, 1, { 0 } }, 0 },
		{ { RLX_F32, 2, { 4, 0 } }, { RLX_I64, 1, { 3 } }, 0 },
	};

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 2;
	s->in[0] = c[i].x;
	s->in[1] = c[i].idx;
	((struct rlx_op_gather *)s->args)->axis = c[i].axis;
	s->hi[1] = (double)c[i].x.dim[c[i].axis < 0 ? c[i].x.rank - 1 : (uint32_t)c[i].axis] - 1;
	s->lo[1] = c[i].idx.dtype == RLX_U32 ? 0 : -s->hi[1] - 1;
	return true;
}

/* Axis @from of @x as axis @to. */
static rlx_value moved(struct rlx_graph *g, rlx_value x, uint32_t from, uint32_t to)
{
	uint32_t rank = op_type(g, x).rank, i, k = 0;
	int64_t perm[RLX_MAX_RANK];

	for (i = 0; i < rank; i++)
		perm[i] = i == to ? from : (k += k == from, k++);
	return op_transpose(g, x, (struct rlx_ints){ perm, rank });
}

/*
 * Of an index that is mapped its axis goes to where the gathered ones are. Of both each has its
 * own rows: gather_nd's batches.
 */
static enum rlx_status gather_batch(struct rlx_batching *q)
{
	const struct rlx_op_gather *a = q->args;
	uint32_t ax = 0, rank = q->type[1].rank, i;
	struct rlx_graph *g = q->g;
	struct rlx_type t;
	rlx_value x, y;

	op_axis(a->axis, q->type[0].rank, &ax);
	if (!q->mapped[1] || !q->mapped[0]) {
		y = rlx_emit(g, gather, .x = q->in[0], .indices = q->in[1],
			     .axis = (int32_t)ax + q->mapped[0]);
		q->out[0] = q->mapped[0] ? y : moved(g, y, ax, 0);
		return op_done(g);
	}
	x = moved(g, q->in[0], 1 + ax, 1);
	t = op_type(g, q->in[1]);
	if (t.rank == RLX_MAX_RANK)
		return rlx_fail(&g->err, RLX_ESHAPE, "vmap: rank over %d", RLX_MAX_RANK);
	t.dim[t.rank++] = 1;
	y = rlx_emit(g, gather_nd, .x = x, .indices = op_reshape(g, q->in[1], t.dim, t.rank),
		     .batch_dims = 1);
	for (i = 0; i < ax; i++)	/* each dimension in front of the axis to its place */
		y = moved(g, y, 1 + rank + i, 1 + i);
	q->out[0] = y;
	return op_done(g);
}

const struct rlx_op_impl rlx_op_gather_impl = {
	.infer = gather_infer, .eval = gather_eval, .vjp = gather_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_PARTS,
	.batch = gather_batch,
};
RLX_SAMPLES(gather, gather_sample)
