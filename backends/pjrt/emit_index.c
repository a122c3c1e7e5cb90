// SPDX-License-Identifier: MIT
/*
 * What is picked, or put, by indices. StableHLO clamps or drops those that are outside; here
 * that is an error, so each such op says as well which of them are, for the host to look at.
 */
#include <math.h>
#include <string.h>

#include "backends/pjrt/emit.h"
#include "base/alloc.h"
#include "base/shape.h"
#include "ops/resize_axis.h"

static void put_range(struct hlo_emit *e, uint32_t from, uint32_t to)
{
	uint32_t i;

	for (i = from; i < to; i++)
		hlo_put(&e->text, "%s%u", i == from ? "" : ", ", i);
}

/* ---- gathers ---- */

struct hlo hlo_take(struct hlo_emit *e, struct hlo x, uint32_t axis, struct hlo at)
{
	struct hlo pair[2] = { x, at }, v;
	struct hlo_type t = { .dtype = x.t.dtype };
	int64_t size[HLO_RANK];
	uint32_t d, r = at.t.rank;

	if (!x.id || !at.id)
		return (struct hlo){ 0 };
	if (x.t.rank + r > HLO_RANK)
		return hlo_fail(e, "too many dimensions");
	for (d = 0; d < x.t.rank; d++)
		size[d] = d == axis ? 1 : x.t.dim[d];
	memcpy(t.dim, x.t.dim, axis * sizeof(*t.dim));
	memcpy(t.dim + axis, at.t.dim, r * sizeof(*t.dim));
	memcpy(t.dim + axis + r, x.t.dim + axis + 1, (x.t.rank - axis - 1) * sizeof(*t.dim));
	t.rank = x.t.rank - 1 + r;
	if (!x.t.dim[axis])		/* nothing to pick, or all is outside */
		return hlo_integer(e, &t, 0);
	v = hlo_new(e, &t);
	hlo_put(&e->text, "\"stablehlo.gather\"(%%%u, %%%u) <{dimension_numbers = "
		"#stablehlo.gather<offset_dims = [", x.id, at.id);
	put_range(e, 0, axis);
	hlo_put(&e->text, "%s", axis && axis + 1 < x.t.rank ? ", " : "");
	put_range(e, axis + r, t.rank);
	hlo_put(&e->text, "], collapsed_slice_dims = [%u], start_index_map = [%u], "
		"index_vector_dim = %u>, slice_sizes = array<i64: ", axis, axis, r);
	hlo_put_list(&e->text, size, x.t.rank);
	hlo_put(&e->text, ">, indices_are_sorted = false}>");
	hlo_put_signature(e, pair, 2, &t);
	return v;
}

/* Slices of @x at tuples in the last axis of @at, which name its first dimensions */
static struct hlo take_tuples(struct hlo_emit *e, struct hlo x, struct hlo at)
{
	struct hlo pair[2] = { x, at }, v;
	struct hlo_type t = at.t;
	int64_t size[HLO_RANK];
	uint32_t d, r = at.t.rank - 1, m = (uint32_t)at.t.dim[at.t.rank - 1];

	if (!x.id || !at.id)
		return (struct hlo){ 0 };
	if (x.t.rank - m + r > HLO_RANK)
		return hlo_fail(e, "too many dimensions");
	t.dtype = x.t.dtype;
	t.rank = r + x.t.rank - m;
	memcpy(t.dim + r, x.t.dim + m, (x.t.rank - m) * sizeof(*t.dim));
	if (!hlo_count(&x.t))
		return hlo_integer(e, &t, 0);
	for (d = 0; d < x.t.rank; d++)
		size[d] = d < m ? 1 : x.t.dim[d];
	v = hlo_new(e, &t);
	hlo_put(&e->text, "\"stablehlo.gather\"(%%%u, %%%u) <{dimension_numbers = "
		"#stablehlo.gather<offset_dims = [", x.id, at.id);
	put_range(e, r, t.rank);
	hlo_put(&e->text, "], collapsed_slice_dims = [");
	put_range(e, 0, m);
	hlo_put(&e->text, "], start_index_map = [");
	put_range(e, 0, m);
	hlo_put(&e->text, "], index_vector_dim = %u>, slice_sizes = array<i64: ", r);
	hlo_put_list(&e->text, size, x.t.rank);
	hlo_put(&e->text, ">, indices_are_sorted = false}>");
	hlo_put_signature(e, pair, 2, &t);
	return v;
}

/* ---- indices ---- */

static struct hlo any(struct hlo_emit *e, struct hlo each)
{
	struct hlo_type one = { .dtype = RLX_BOOL };

	return hlo_reduce(e, "or", each, hlo_integer(e, &one, 0), (1u << each.t.rank) - 1);
}

/* @outside: per index, what is wrong; of tuples one for each number, as others look at them */
static void note(struct hlo_emit *e, struct hlo outside)
{
	struct hlo_type flat = { RLX_BOOL, 1, { hlo_count(&outside.t) } };

	e->each_bad = hlo_reshape(e, outside, &flat);
	e->bad = any(e, e->each_bad);
}

/* From the end where negative, in i64; @size, of the indices' shape, is what they are within. */
static struct hlo wrapped(struct hlo_emit *e, struct hlo at, struct hlo size)
{
	struct hlo zero = hlo_integer(e, &size.t, 0), low, i = hlo_convert(e, at, RLX_I64);

	low = hlo_compare(e, "LT", i, zero);
	i = hlo_select(e, low, hlo_2(e, "add", i, size), i);
	note(e, hlo_2(e, "or", hlo_compare(e, "LT", i, zero), hlo_compare(e, "GE", i, size)));
	return i;
}

static struct hlo within(struct hlo_emit *e, struct hlo at, int64_t size)
{
	struct hlo_type t = at.t;

	t.dtype = RLX_I64;
	return wrapped(e, at, hlo_integer(e, &t, size));
}

/* The numbers of tuples, each within its own dimension of @x from @first on */
static struct hlo tuples(struct hlo_emit *e, struct hlo at, const struct hlo_type *x,
			 uint32_t first)
{
	struct hlo_type t = at.t;

	t.dtype = RLX_I64;
	return wrapped(e, at, hlo_broadcast(e, hlo_indices(e, x->dim + first,
							   at.t.dim[at.t.rank - 1]), &t, NULL));
}

/* Positions along dimension @d of @like, as the one number of tuples */
static struct hlo positions(struct hlo_emit *e, const struct hlo_type *like, uint32_t d)
{
	struct hlo_type t = *like, one;

	t.dtype = RLX_I64;
	one = t;
	one.dim[one.rank++] = 1;
	return hlo_reshape(e, hlo_iota(e, &t, d), &one);
}

/* Where indices along @axis are the rest of the coordinates are their own: tuples of all */
static struct hlo coordinates(struct hlo_emit *e, struct hlo at, uint32_t axis)
{
	struct hlo part[HLO_RANK];
	struct hlo_type one = at.t;
	uint32_t d;

	one.dim[one.rank++] = 1;
	for (d = 0; d < at.t.rank; d++)
		part[d] = d == axis ? hlo_reshape(e, at, &one) : positions(e, &at.t, d);
	return hlo_concat(e, part, at.t.rank, at.t.rank);
}

void hlo_emit_gather(struct hlo_emit *e)
{
	const struct rlx_op_gather *a = e->args;
	const struct hlo x = e->in[0];
	uint32_t axis = shape_axis(a->axis, x.t.rank);

	e->out[0] = hlo_take(e, x, axis, within(e, e->in[1], x.t.dim[axis]));
}

void hlo_emit_gather_elements(struct hlo_emit *e)
{
	const struct rlx_op_gather_elements *a = e->args;
	const struct hlo x = e->in[0];
	uint32_t axis = shape_axis(a->axis, x.t.rank);

	e->out[0] = take_tuples(e, x, coordinates(e, within(e, e->in[1], x.t.dim[axis]), axis));
}

void hlo_emit_gather_nd(struct hlo_emit *e)
{
	const struct rlx_op_gather_nd *a = e->args;
	const uint32_t batch = (uint32_t)a->batch_dims;
	struct hlo part[HLO_RANK], at = e->in[1];
	struct hlo_type t = at.t;
	uint32_t d;

	if (!at.t.dim[at.t.rank - 1]) {
		hlo_fail(e, "tuples of nothing");
		return;
	}
	part[batch] = tuples(e, at, &e->in[0].t, batch);
	t.rank--;
	for (d = 0; d < batch; d++)
		part[d] = positions(e, &t, d);
	e->out[0] = take_tuples(e, e->in[0], hlo_concat(e, part, batch + 1, t.rank));
}

/* ---- scatters ---- */

/* " ({ ... })": what becomes of element @is and an update */
static void put_body(struct hlo_emit *e, enum rlx_dtype dt, int32_t reduction)
{
	const struct hlo is = { ++e->last, { .dtype = dt } }, by = { ++e->last, { .dtype = dt } };
	struct hlo r = by;

	hlo_put(&e->text, " ({\n  ^bb0(%%%u: ", is.id);
	hlo_put_type(&e->text, &is.t);
	hlo_put(&e->text, ", %%%u: ", by.id);
	hlo_put_type(&e->text, &by.t);
	hlo_put(&e->text, "):\n");
	if (reduction == RLX_SCATTER_ADD || reduction == RLX_SCATTER_MUL)
		r = hlo_2(e, reduction == RLX_SCATTER_ADD ? "add" : "multiply", is, by);
	else if (reduction != RLX_SCATTER_NONE)
		r = hlo_extremum(e, reduction == RLX_SCATTER_MIN, is, by);
	hlo_put(&e->text, "    stablehlo.return %%%u : ", r.id);
	hlo_put_type(&e->text, &r.t);
	hlo_put(&e->text, "\n  })");
}

static struct hlo put_tuples(struct hlo_emit *e, struct hlo at, struct hlo updates,
			     int32_t reduction)
{
	struct hlo list[3] = { hlo_widen(e, e->in[0]), at, hlo_widen(e, updates) }, v;
	const uint32_t m = (uint32_t)at.t.dim[at.t.rank - 1], r = at.t.rank - 1;

	if (!hlo_count(&updates.t))
		return e->in[0];
	v = hlo_new(e, &list[0].t);
	hlo_put(&e->text, "\"stablehlo.scatter\"(%%%u, %%%u, %%%u) <{scatter_dimension_numbers = "
		"#stablehlo.scatter<update_window_dims = [", list[0].id, at.id, list[2].id);
	put_range(e, r, updates.t.rank);
	hlo_put(&e->text, "], inserted_window_dims = [");
	put_range(e, 0, m);
	hlo_put(&e->text, "], scatter_dims_to_operand_dims = [");
	put_range(e, 0, m);
	hlo_put(&e->text, "], index_vector_dim = %u>, indices_are_sorted = false, "
		"unique_indices = false}>", r);
	put_body(e, list[0].t.dtype, reduction);
	hlo_put_signature(e, list, 3, &list[0].t);
	return hlo_cast(e, v, e->type[0].dtype);
}

void hlo_emit_scatter_elements(struct hlo_emit *e)
{
	const struct rlx_op_scatter_elements *a = e->args;
	uint32_t axis = shape_axis(a->axis, e->in[0].t.rank);
	struct hlo at = within(e, e->in[1], e->in[0].t.dim[axis]);

	e->out[0] = put_tuples(e, coordinates(e, at, axis), e->in[2], a->reduction);
}

void hlo_emit_scatter_nd(struct hlo_emit *e)
{
	const struct rlx_op_scatter_nd *a = e->args;
	const struct hlo_type *at = &e->in[1].t;

	if (!at->dim[at->rank - 1]) {
		hlo_fail(e, "tuples of nothing");
		return;
	}
	e->out[0] = put_tuples(e, tuples(e, e->in[1], &e->in[0].t, 0), e->in[2], a->reduction);
}

/* ---- others that read indices ---- */

/* An index outside is on nowhere, which is no fault. */
void hlo_emit_one_hot(struct hlo_emit *e)
{
	const struct rlx_op_one_hot *a = e->args;
	struct hlo_type t = hlo_type(&e->type[0]), none = { .dtype = e->type[0].dtype };
	uint32_t axis = shape_axis(a->axis, t.rank);
	const int64_t start[2] = { 0, 1 }, step[1] = { 1 }, n[1] = { 1 };
	struct hlo at = hlo_convert(e, e->in[0], RLX_I64), value[2];
	uint32_t k;

	t.dtype = RLX_I64;
	at = hlo_spread(e, at, &t, 1u << axis);
	at = hlo_select(e, hlo_compare(e, "LT", at, hlo_integer(e, &t, 0)),
			hlo_2(e, "add", at, hlo_integer(e, &t, a->depth)), at);
	at = hlo_compare(e, "EQ", at, hlo_iota(e, &t, axis));
	t.dtype = e->type[0].dtype;
	for (k = 0; k < 2; k++) {
		value[k] = hlo_reshape(e, hlo_slice(e, e->in[1], &start[k], step, n), &none);
		value[k] = hlo_broadcast(e, value[k], &t, NULL);
	}
	e->out[0] = hlo_select(e, at, value[1], value[0]);
}

void hlo_emit_reverse_sequence(struct hlo_emit *e)
{
	const struct rlx_op_reverse_sequence *a = e->args;
	const struct hlo x = e->in[0];
	const uint32_t time = shape_axis(a->time_axis, x.t.rank);
	const int64_t batch[1] = { shape_axis(a->batch_axis, x.t.rank) };
	struct hlo_type t = x.t;
	struct hlo len = hlo_convert(e, e->in[1], RLX_I64), at, zero, size, back;

	zero = hlo_integer(e, &len.t, 0);
	size = hlo_integer(e, &len.t, x.t.dim[time]);
	note(e, hlo_2(e, "or", hlo_compare(e, "LT", len, zero), hlo_compare(e, "GT", len, size)));
	t.dtype = RLX_I64;
	len = hlo_broadcast(e, len, &t, batch);
	at = hlo_iota(e, &t, time);
	back = hlo_2(e, "subtract", hlo_2(e, "subtract", len, hlo_integer(e, &t, 1)), at);
	at = hlo_select(e, hlo_compare(e, "LT", at, len), back, at);
	e->out[0] = take_tuples(e, x, coordinates(e, at, time));
}

/* Row by row with the matrix that its index names */
void hlo_emit_grouped_matmul(struct hlo_emit *e)
{
	enum rlx_dtype dt = e->type[0].dtype, in = dt == RLX_F64 ? RLX_F64 : RLX_F32;
	struct hlo x = hlo_cast(e, e->in[0], in), w = hlo_cast(e, e->in[1], in);
	struct hlo_dot d = { .n_batch = 1, .n_contract = 1, .contract = { { 1 }, { 1 } } };

	if (x.t.rank != 2 || e->in[2].t.rank != 1) {
		hlo_fail(e, "rows with batches");
		return;
	}
	w = hlo_take(e, w, 0, within(e, e->in[2], w.t.dim[0]));
	e->out[0] = hlo_cast(e, hlo_dot(e, x, w, &d, in), dt);
}

/* ---- resize: an axis by the elements that each of its outputs reads, and their weights ---- */

enum { MOST_TAPS = 64 };

struct axis_table {
	int64_t	*at, n;		/* tap by tap */
	double	*w;
	bool	*outside, any;
};

static struct hlo weighted(struct hlo_emit *e, struct hlo x, uint32_t axis, int64_t taps,
			   const struct axis_table *t)
{
	struct hlo sum = { 0 }, v, w;
	const int64_t dim[1] = { axis };
	int64_t k;

	for (k = 0; k < taps; k++) {
		v = hlo_take(e, x, axis, hlo_indices(e, t->at + k * t->n, t->n));
		w = hlo_vector(e, x.t.dtype, t->w + k * t->n, t->n);
		v = hlo_2(e, "multiply", v, hlo_broadcast(e, w, &v.t, dim));
		sum = k ? hlo_2(e, "add", sum, v) : v;
	}
	return sum;
}

static struct hlo along_axis(struct hlo_emit *e, struct hlo x, uint32_t d,
			     const struct op_resize_axis *ax, struct axis_table *t)
{
	const struct rlx_op_resize *a = e->args;
	double w[MOST_TAPS];
	int64_t at[MOST_TAPS], o, k;

	for (o = 0; o < t->n; o++) {
		t->outside[o] = op_resize_outside(a, ax, o);
		t->any = t->any || t->outside[o];
		if (a->mode == RLX_RESIZE_NEAREST) {
			t->at[o] = t->outside[o] ? 0 : op_resize_nearest(a, ax, o);
			continue;
		}
		op_resize_weights(a, ax, o, w, at);
		for (k = 0; k < ax->taps; k++) {
			t->at[k * t->n + o] = at[k];
			t->w[k * t->n + o] = w[k];
		}
	}
	if (a->mode == RLX_RESIZE_NEAREST)
		return hlo_take(e, x, d, hlo_indices(e, t->at, t->n));
	return weighted(e, x, d, ax->taps, t);
}

static struct hlo resized(struct hlo_emit *e, struct hlo x, uint32_t d,
			  const struct op_resize_axis *ax)
{
	const size_t n = (size_t)(ax->out * ax->taps) + 1;
	struct axis_table t = {
		.n = ax->out, .at = rlx_calloc(n, sizeof(*t.at)),
		.w = rlx_calloc(n, sizeof(*t.w)), .outside = rlx_calloc(n, sizeof(*t.outside)),
	};

	if (!t.at || !t.w || !t.outside)
		e->text.failed = true;
	else
		x = along_axis(e, x, d, ax, &t);
	if (t.any)
		x = hlo_fail(e, "a region that reaches beyond the input");
	rlx_free(t.at);
	rlx_free(t.w);
	rlx_free(t.outside);
	return x;
}

void hlo_emit_resize(struct hlo_emit *e)
{
	const struct rlx_op_resize *a = e->args;
	struct rlx_type in = { e->in[0].t.dtype, e->in[0].t.rank, { 0 } };
	struct hlo x = e->in[0];
	uint32_t d;

	memcpy(in.dim, x.t.dim, sizeof(in.dim));
	if (a->mode != RLX_RESIZE_NEAREST)
		x = rlx_dtype_is_float(in.dtype) ? hlo_widen(e, x) : hlo_cast(e, x, RLX_F64);
	for (d = 0; d < in.rank; d++) {
		struct op_resize_axis ax = op_resize_axis_of(a, &in, d);

		if (ax.same)
			continue;
		if (ax.taps > MOST_TAPS || ax.out > 1 << 16) {
			hlo_fail(e, "a filter so wide, or an axis so long");
			return;
		}
		x = resized(e, x, d, &ax);
	}
	e->out[0] = hlo_cast(e, x, e->type[0].dtype);
}
