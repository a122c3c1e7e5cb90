// SPDX-License-Identifier: MIT
/* Helpers that many op files share; see op.h. */
#include "ops/op.h"

bool op_axis(int64_t axis, uint32_t rank, uint32_t *out_axis)
{
	if (axis < -(int64_t)rank || axis >= (int64_t)rank)
		return false;
	*out_axis = (uint32_t)(axis < 0 ? axis + rank : axis);
	return true;
}

enum rlx_status op_infer_axis(struct rlx_infer *q, int64_t axis, uint32_t rank,
			      uint32_t *out_axis)
{
	if (!op_axis(axis, rank, out_axis))
		return op_fail(q, RLX_ESHAPE, "axis %lld is outside rank %u",
			       (long long)axis, rank);
	return RLX_OK;
}

enum rlx_status op_infer_axes(struct rlx_infer *q, struct rlx_ints axes,
			      uint32_t rank, bool all, uint32_t *out_mask)
{
	uint32_t mask = 0, i, ax = 0;
	enum rlx_status st;

	for (i = 0; i < axes.n; i++) {
		st = op_infer_axis(q, axes.v[i], rank, &ax);
		if (st)
			return st;
		if (mask >> ax & 1)
			return op_fail(q, RLX_EINVAL, "axis %u is named twice", ax);
		mask |= 1u << ax;
	}
	if (!axes.n && all)
		mask = (1u << rank) - 1;
	*out_mask = mask;
	return RLX_OK;
}

enum rlx_status op_need_float(struct rlx_infer *q, uint32_t k, bool f8)
{
	enum rlx_dtype dt = q->in[k]->dtype;

	if (!rlx_dtype_is_float(dt) || (!f8 && rlx_dtype_size(dt) == 1))
		return op_fail(q, RLX_ETYPE, "input %u is %s, a float is needed",
			       k, rlx_dtype_name(dt));
	return RLX_OK;
}

enum rlx_status op_need_index(struct rlx_infer *q, uint32_t k)
{
	enum rlx_dtype dt = q->in[k]->dtype;

	if (dt != RLX_I64 && dt != RLX_I32 && dt != RLX_U32)
		return op_fail(q, RLX_ETYPE,
			       "input %u is %s, indices are i32, i64 or u32; cast them",
			       k, rlx_dtype_name(dt));
	return RLX_OK;
}

enum rlx_status op_infer_same(struct rlx_infer *q)
{
	q->out[0] = *q->in[0];
	return RLX_OK;
}

enum rlx_status op_eval_view(struct rlx_eval *q)
{
	memcpy(q->out[0].data, q->in[0].data, (size_t)rlx_type_bytes(&q->in[0].type));
	return RLX_OK;
}

bool op_broadcast(const struct rlx_type *a, const struct rlx_type *b,
		  struct rlx_type *out)
{
	uint32_t rank = a->rank > b->rank ? a->rank : b->rank, i;

	out->rank = rank;
	for (i = 0; i < rank; i++) {
		int64_t x = i + a->rank < rank ? 1 : a->dim[i + a->rank - rank];
		int64_t y = i + b->rank < rank ? 1 : b->dim[i + b->rank - rank];

		if (x != y && x != 1 && y != 1)
			return false;
		out->dim[i] = x == 1 ? y : x;
	}
	return true;
}

void op_walk_begin(struct op_walk *w, const struct rlx_type *shape,
		   const int64_t *s0, const int64_t *s1, const int64_t *s2)
{
	*w = (struct op_walk){
		.shape = shape, .stride = { s0, s1, s2 },
		.done = !rlx_type_count(shape),
	};
}

void op_walk_next(struct op_walk *w)
{
	uint32_t d = w->shape->rank, k;

	w->i++;
	while (d-- > 0) {
		for (k = 0; k < 3; k++)
			if (w->stride[k])
				w->off[k] += w->stride[k][d];
		if (++w->idx[d] < w->shape->dim[d])
			return;
		for (k = 0; k < 3; k++)
			if (w->stride[k])
				w->off[k] -= w->stride[k][d] * w->shape->dim[d];
		w->idx[d] = 0;
	}
	w->done = true;
}

rlx_value op_const_like(struct rlx_graph *g, rlx_value v, double x)
{
	const struct rlx_type *t = rlx_type_of(g, v);

	return t ? rlx_scalar_const(g, t->dtype, x) : RLX_NONE;
}

rlx_value op_zeros_like(struct rlx_graph *g, rlx_value v)
{
	const struct rlx_type *t = rlx_type_of(g, v);
	struct rlx_type type;

	if (!t)
		return RLX_NONE;
	type = *t;
	return rlx_emit(g, expand, .x = op_const_like(g, v, 0),
			.shape = { type.dim, type.rank });
}

rlx_value op_reshape_like(struct rlx_graph *g, rlx_value x, rlx_value like)
{
	const struct rlx_type *t = rlx_type_of(g, like);
	struct rlx_type type;

	if (!t)
		return RLX_NONE;
	type = *t;
	t = rlx_type_of(g, x);
	if (t)
		type.dtype = t->dtype;
	if (t && rlx_type_equal(t, &type))
		return x;
	return rlx_emit(g, reshape, .x = x, .shape = { type.dim, type.rank });
}

rlx_value op_unbroadcast(struct rlx_graph *g, rlx_value d, rlx_value like)
{
	const struct rlx_type *dt = rlx_type_of(g, d), *lt = rlx_type_of(g, like);
	int64_t axes[RLX_MAX_RANK];
	uint32_t n = 0, i, pad;

	if (!dt || !lt || dt->rank < lt->rank)
		return RLX_NONE;
	pad = dt->rank - lt->rank;
	for (i = 0; i < dt->rank; i++)
		if (i < pad || (lt->dim[i - pad] == 1 && dt->dim[i] != 1))
			axes[n++] = i;
	if (n)
		d = rlx_emit(g, reduce, .x = d, .axes = { axes, n },
			     .kind = RLX_REDUCE_SUM, .keep_dims = true);
	return op_reshape_like(g, d, like);
}

struct rlx_ints op_keep(struct rlx_sample *s, struct rlx_ints l)
{
	int64_t *to = s->ints + s->n_ints;

	if (l.n > sizeof(s->ints) / sizeof(s->ints[0]) - s->n_ints)
		return (struct rlx_ints){ 0 };
	memcpy(to, l.v, l.n * sizeof(*to));
	s->n_ints += l.n;
	return (struct rlx_ints){ to, l.n };
}

struct rlx_floats op_keep_floats(struct rlx_sample *s, struct rlx_floats l)
{
	double *to = s->floats + s->n_floats;

	if (l.n > sizeof(s->floats) / sizeof(s->floats[0]) - s->n_floats)
		return (struct rlx_floats){ 0 };
	memcpy(to, l.v, l.n * sizeof(*to));
	s->n_floats += l.n;
	return (struct rlx_floats){ to, l.n };
}

struct rlx_graph *op_keep_graph(struct rlx_sample *s, struct rlx_graph *g)
{
	if (!g || s->n_graphs == sizeof(s->graphs) / sizeof(s->graphs[0]) ||
	    rlx_graph_finish(g)) {
		rlx_graph_put(g);
		return NULL;
	}
	s->graphs[s->n_graphs++] = g;
	return g;
}
