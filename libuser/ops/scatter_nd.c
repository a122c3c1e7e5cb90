// SPDX-License-Identifier: MIT
/* Slices written by index tuples. */
#include "ir/graph.h"
#include "ops/batch.h"
#include "ops/scatter.h"

/*
 * Shapes:	x[p.., s..], indices[i.., m], m sizes p, updates[i.., s..] -> y[..] like x
 * Dtypes:	x: any; indices: i32 i64 u32; updates and y as x
 * Does:	y is x but at the slices that the tuples in the last axis of indices name, where
 *		updates are put, by reduction as scatter_elements does. Negative indices count
 *		from the end.
 * Errors:	RLX_ERANGE for an index outside its dimension.
 * Gradient:	as scatter_elements has it, slice by slice; none to indices
 * Source:	ONNX ScatterND-18
 */
RLX_OP(scatter_nd, "y = x; y[tuple] op= update, for each tuple in indices' last axis",
	IN(x) IN(indices) IN(updates)
	ATTR(i32, reduction),
	RLX_T_MOVE | RLX_T_ACCUMULATES)

static enum rlx_status scatter_nd_infer(struct rlx_infer *q)
{
	const struct rlx_op_scatter_nd *a = q->args;
	const struct rlx_type *x = q->in[0], *idx = q->in[1], *u = q->in[2];
	enum rlx_status st = op_scatter_infer(q, a->reduction);
	struct rlx_type want = { .dtype = x->dtype };
	char have[96], need[96];
	uint32_t i;
	int64_t m;

	if (st)
		return st;
	if (!idx->rank)
		return op_fail(q, RLX_ESHAPE,
			       "the indices are a scalar; their last axis holds the tuples");
	m = idx->dim[idx->rank - 1];
	if (m > x->rank)
		return op_fail(q, RLX_ESHAPE, "tuples of %lld for rank %u",
			       (long long)m, x->rank);
	if (idx->rank - 1 + x->rank - (uint32_t)m > RLX_MAX_RANK)
		return op_fail(q, RLX_ESHAPE, "the updates' rank would be over %d",
			       RLX_MAX_RANK);
	for (i = 0; i + 1 < idx->rank; i++)
		want.dim[want.rank++] = idx->dim[i];
	for (i = (uint32_t)m; i < x->rank; i++)
		want.dim[want.rank++] = x->dim[i];
	if (!rlx_type_equal(&want, u)) {
		rlx_type_print(u, have, sizeof(have));
		rlx_type_print(&want, need, sizeof(need));
		return op_fail(q, RLX_ESHAPE, "the updates are %s, %s is needed",
			       have, need);
	}
	return op_infer_same(q);
}

static size_t scatter_nd_scratch(const struct rlx_infer *q)
{
	const struct rlx_op_scatter_nd *a = q->args;

	return op_scatter_scratch(q, a->reduction);
}

static enum rlx_status scatter_nd_eval(struct rlx_eval *q)
{
	const struct rlx_op_scatter_nd *a = q->args;
	const struct rlx_tensor *x = &q->in[0], *idx = &q->in[1];
	int64_t s[RLX_MAX_RANK], tuples, row, i, j, at, off;
	enum rlx_status st;
	uint32_t m, k;

	m = (uint32_t)idx->type.dim[idx->type.rank - 1];
	tuples = shape_span(&idx->type, 0, idx->type.rank - 1);
	row = shape_span(&x->type, m, x->type.rank);
	shape_dense(&x->type, s);
	op_scatter_begin(q, a->reduction);
	for (i = 0; i < tuples; i++) {
		off = 0;
		for (k = 0; k < m; k++) {
			st = op_index(q, el_geti(idx, i * m + k), x->type.dim[k], &at);
			if (st)
				return st;
			off += at * s[k];
		}
		for (j = 0; j < row; j++)
			op_scatter_one(q, a->reduction, off + j, i * row + j);
	}
	op_scatter_end(q, a->reduction);
	return RLX_OK;
}

static rlx_value pick(struct rlx_grad *q, rlx_value v)
{
	return rlx_emit(q->g, gather_nd, .x = v, .indices = q->in[1]);
}

static enum rlx_status scatter_nd_vjp(struct rlx_grad *q)
{
	const struct rlx_op_scatter_nd *a = q->args;

	if (a->reduction == RLX_SCATTER_NONE) {
		q->d_in[0] = rlx_emit(q->g, scatter_nd, .x = q->d_out[0],
				      .indices = q->in[1],
				      .updates = op_zeros_like(q->g, q->in[2]));
		q->d_in[2] = pick(q, q->d_out[0]);
	} else {
		op_scatter_vjp(q, a->reduction, pick);
	}
	return op_done(q->g);
}

static bool scatter_nd_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_scatter_nd *a = s->args;

	s->n_in = 3;
	s->tol = 1e-6;
	if (i < 5) {
		s->in[0] = rlx_type(RLX_F32, 4, 5, 3);
		s->in[1] = rlx_type(RLX_I64, 6, 2);
		s->in[2] = rlx_type(RLX_F32, 6, 3);
		if (!i) {	/* one tuple: no two updates meet */
			s->in[1].dim[0] = 1;
			s->in[2].dim[0] = 1;
		}
		a->reduction = (int32_t)i;
		s->lo[1] = -4;
		s->hi[1] = 3;
		if (i == RLX_SCATTER_MUL) {
			s->lo[0] = s->lo[2] = 0.5;
			s->hi[0] = s->hi[2] = 1.5;
		}
	} else if (i == 5) {
		s->in[0] = rlx_type(RLX_I64, 3);
		s->in[1] = rlx_type(RLX_I32, 2, 4, 1);
		s->in[2] = rlx_type(RLX_I64, 2, 4);
		a->reduction = RLX_SCATTER_ADD;
		s->hi[1] = 2;
	} else if (i == 6) {
		s->in[0] = rlx_type(RLX_F32, 3, 2);
		s->in[1] = rlx_type(RLX_I64, 0, 1);
		s->in[2] = rlx_type(RLX_F32, 0, 2);
	} else {
		return false;
	}
	return true;
}

/* Tuples have the instance in front. */
static enum rlx_status scatter_nd_batch(struct rlx_batching *q)
{
	struct rlx_graph *g = q->g;
	rlx_value idx = op_batch_in(q, 1), at;
	struct rlx_type t = op_type(g, idx);

	if (g->err.status)
		return op_done(g);
	t.dim[t.rank - 1] = 1;
	at = rlx_emit(g, iota, .type = t, .step = 1);
	q->to[0] = op_batch_in(q, 0).id;
	q->to[1] = rlx_emit(g, concat, .axis = -1, .xs = RLX_VALUES(at, idx)).id;
	q->to[2] = op_batch_in(q, 2).id;
	return op_batch_emit(q, q->args);
}

const struct rlx_op_impl rlx_op_scatter_nd_impl = {
	.infer = scatter_nd_infer, .scratch = scatter_nd_scratch,
	.eval = scatter_nd_eval, .vjp = scatter_nd_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_PARTS,
	.batch = scatter_nd_batch,
};
RLX_SAMPLES(scatter_nd, scatter_nd_sample)
