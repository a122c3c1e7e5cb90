// SPDX-License-Identifier: MIT
/* Distinct elements or slices, and their number. */
#include "ops/emit.h"

/*
 * Shapes:	x[.., d, ..], d on axis -> y[.., count, ..], first[count], inverse[d],
 *		counts[count]; flat: d is all elements of x, y[count]
 * Dtypes:	x: f64 f32 f16 bf16, integers, bool; y as x; the others i64
 * Does:	the distinct slices along axis (0 if not given), flat: elements, from the smallest
 *		on as compared element by element, or with unsorted as first met. first is where
 *		each stands first, inverse which of y each slice is, counts how often each comes.
 *		NaN counts as the largest number and equals itself, -0 equals 0. count is how many
 *		there are, as shapes do not depend on data: unique_count finds it.
 * Errors:	RLX_ERANGE if there is another number of them.
 * Gradient:	dy where first says, 0 elsewhere
 * Source:	ONNX Unique-11, numpy.unique
 */
RLX_OP(unique, "distinct slices, sorted or as met; first positions, inverse map, counts (i64)",
	IN(x)
	ATTR(i32, axis)
	ATTR(bool, flat)
	ATTR(bool, unsorted)
	ATTR(i64, count),
	RLX_T_MOVE | RLX_T_STEPPED)

/*
 * Shapes:	x[..] -> y[]
 * Dtypes:	x: f64 f32 f16 bf16, integers, bool; y: i64
 * Does:	how many distinct slices x has along axis (0 if not given), flat: how many
 *		elements: the count of unique.
 * Gradient:	none: the result is a number of slices
 * Source:	ONNX Unique-11
 */
RLX_OP(unique_count, "how many distinct slices (or, flat, elements), an i64 scalar",
	IN(x)
	ATTR(i32, axis)
	ATTR(bool, flat),
	RLX_T_REDUCTION | RLX_T_NODIFF)

/* x as [pre, n, post]; slice k is all elements (.., k, ..) in row-major order. */
struct slices {
	const struct rlx_tensor	*x;
	int64_t			 pre, n, post;
};

static struct slices slices_of(const struct rlx_tensor *x, bool flat, int32_t axis)
{
	uint32_t ax = 0;

	if (flat)
		return (struct slices){ x, 1, rlx_type_count(&x->type), 1 };
	op_axis(axis, x->type.rank, &ax);
	return (struct slices){ x, shape_span(&x->type, 0, ax), x->type.dim[ax],
				shape_span(&x->type, ax + 1, x->type.rank) };
}

static int compare(const struct slices *s, int64_t i, int64_t j)
{
	int64_t p, o;
	int c;

	for (p = 0; p < s->pre; p++)
		for (o = 0; o < s->post; o++) {
			c = op_compare(s->x, (p * s->n + i) * s->post + o,
				       (p * s->n + j) * s->post + o);
			if (c)
				return c;
		}
	return 0;
}

static bool before(const void *ctx, int64_t i, int64_t j)
{
	int c = compare(ctx, i, j);

	return c ? c < 0 : i < j;
}

/* Sort positions into order[]; the number of runs of equal slices. */
static int64_t sort_slices(const struct slices *s, int64_t *order)
{
	int64_t i, groups = s->n > 0;

	for (i = 0; i < s->n; i++)
		order[i] = i;
	op_sort_by(before, s, order, s->n);
	for (i = 1; i < s->n; i++)
		groups += compare(s, order[i - 1], order[i]) != 0;
	return groups;
}

static enum rlx_status check(struct rlx_infer *q, bool flat, int32_t axis, uint32_t *ax)
{
	enum rlx_status st = q->in[0]->dtype == RLX_BOOL ? RLX_OK : op_need_number(q, 0);

	*ax = 0;
	return st || flat ? st : op_infer_axis(q, axis, q->in[0]->rank, ax);
}

static enum rlx_status unique_infer(struct rlx_infer *q)
{
	const struct rlx_op_unique *a = q->args;
	const struct rlx_type *x = q->in[0];
	uint32_t ax;
	enum rlx_status st = check(q, a->flat, a->axis, &ax);
	int64_t n;

	if (st)
		return st;
	n = a->flat ? rlx_type_count(x) : x->dim[ax];
	if (a->count < 0 || a->count > n)
		return op_fail(q, RLX_EINVAL, "count is %lld of %lld", (long long)a->count,
			       (long long)n);
	q->n_out = 4;
	q->out[0] = *x;
	if (a->flat)
		q->out[0] = rlx_type(x->dtype, 0);
	q->out[0].dim[ax] = a->count;
	q->out[1] = rlx_type(RLX_I64, a->count);
	q->out[2] = rlx_type(RLX_I64, n);
	q->out[3] = q->out[1];
	return RLX_OK;
}

/* Per slice: sorted order, its group; per group: first slice, order met, rank. */
static size_t unique_scratch(const struct rlx_infer *q)
{
	const struct rlx_op_unique *a = q->args;
	uint32_t ax = 0;
	int64_t n;

	if (!a->flat)
		op_axis(a->axis, q->in[0]->rank, &ax);
	n = a->flat ? rlx_type_count(q->in[0]) : q->in[0]->dim[ax];
	return n > INT64_MAX / 64 ? SIZE_MAX : (size_t)(5 * n + 1) * sizeof(int64_t);
}

static bool first_before(const void *ctx, int64_t i, int64_t j)
{
	const int64_t *first = ctx;

	return first[i] < first[j];
}

static void write_group(struct rlx_eval *q, const struct slices *s, int64_t g,
			int64_t first)
{
	const struct rlx_op_unique *a = q->args;
	int64_t p, o;

	for (p = 0; p < s->pre; p++)
		for (o = 0; o < s->post; o++)
			el_copy(&q->out[0], (p * a->count + g) * s->post + o, s->x,
				(p * s->n + first) * s->post + o);
	el_seti(&q->out[1], g, first);
}

static enum rlx_status unique_eval(struct rlx_eval *q)
{
	const struct rlx_op_unique *a = q->args;
	struct slices s = slices_of(&q->in[0], a->flat, a->axis);
	int64_t *order = q->scratch, *group = order + s.n, *first = group + s.n;
	int64_t *met = first + s.n, *rank = met + s.n, have, i, g = -1;

	have = sort_slices(&s, order);
	if (have != a->count)
		return op_fail(q, RLX_ERANGE, "%lld distinct slices, count is %lld",
			       (long long)have, (long long)a->count);
	for (i = 0; i < s.n; i++) {
		/* equal slices stand in order of position: the first is the lowest */
		if (!i || compare(&s, order[i - 1], order[i])) {
			first[++g] = order[i];
			met[g] = g;
		}
		group[order[i]] = g;
	}
	if (g + 1 != have)	/* x may be memory that others write meanwhile */
		return op_fail(q, RLX_ERANGE, "x changed while it was read");
	if (a->unsorted)
		op_sort_by(first_before, first, met, have);
	for (g = 0; g < have; g++) {
		rank[met[g]] = g;
		write_group(q, &s, g, first[met[g]]);
		el_seti(&q->out[3], g, 0);
	}
	for (i = 0; i < s.n; i++) {
		g = rank[group[i]];
		el_seti(&q->out[2], i, g);
		el_seti(&q->out[3], g, el_geti(&q->out[3], g) + 1);
	}
	return RLX_OK;
}

static enum rlx_status unique_count_infer(struct rlx_infer *q)
{
	const struct rlx_op_unique_count *a = q->args;
	uint32_t ax;

	q->out[0] = rlx_scalar(RLX_I64);
	return check(q, a->flat, a->axis, &ax);
}

static size_t unique_count_scratch(const struct rlx_infer *q)
{
	const struct rlx_op_unique_count *a = q->args;
	uint32_t ax = 0;
	int64_t n;

	if (!rlx_type_count(q->in[0]))		/* of which there may be any number */
		return 0;
	if (!a->flat)
		op_axis(a->axis, q->in[0]->rank, &ax);
	n = a->flat ? rlx_type_count(q->in[0]) : q->in[0]->dim[ax];
	return n > INT64_MAX / 16 ? SIZE_MAX : (size_t)(n + 1) * sizeof(int64_t);
}

static enum rlx_status unique_count_eval(struct rlx_eval *q)
{
	const struct rlx_op_unique_count *a = q->args;
	struct slices s = slices_of(&q->in[0], a->flat, a->axis);

	/* slices of nothing are all the same */
	el_seti(&q->out[0], 0, rlx_type_count(&q->in[0].type) ? sort_slices(&s, q->scratch) :
			       s.n > 0);
	return RLX_OK;
}

/* Random floats are all distinct; equal ones all the same: counts known before. */
/* Values are those of the first of each. */
static enum rlx_status unique_vjp(struct rlx_grad *q)
{
	const struct rlx_op_unique *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]), flat = rlx_type(x.dtype, rlx_type_count(&x));
	uint32_t ax = 0;
	rlx_value d;

	if (!q->d_out[0].id)
		return op_done(q->g);
	if (!a->flat)
		op_axis(a->axis, x.rank, &ax);
	d = op_gather_grad(q->g, q->d_out[0], q->out[1], a->flat ? &flat : &x, ax);
	q->d_in[0] = op_reshape(q->g, d, x.dim, x.rank);
	return op_done(q->g);
}

static bool unique_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_unique *a = s->args;

	s->n_in = 1;
	s->grad_tol = -1;
	s->f32_only = true;
	s->in[0] = rlx_type(RLX_F32, 3, 5);
	switch (i) {
	case 0:
		s->in[0] = rlx_type(RLX_I64, 3, 5);
		s->lo[0] = s->hi[0] = 7;
		a->flat = true;
		a->count = 1;
		return true;
	case 1:
		a->axis = 1;
		a->count = 5;
		return true;
	case 2:
		a->axis = -2;
		a->count = 3;
		a->unsorted = true;
		return true;
	case 3:
		s->in[0] = rlx_type(RLX_F32, 0);
		a->flat = true;
		return true;
	case 4:
		s->in[0] = rlx_scalar(RLX_F32);
		a->flat = a->unsorted = true;
		a->count = 1;
		return true;
	}
	return false;
}

static bool unique_count_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_unique_count *a = s->args;

	if (i > 3)
		return false;
	s->n_in = 1;
	s->in[0] = i == 3 ? rlx_type(RLX_I32, 0, 2) : rlx_type(RLX_I32, 9, 2);
	s->hi[0] = 2;
	a->flat = i == 0;
	a->axis = i == 2;
	return true;
}

static void unique_bad_data(const void *args, char *text, size_t size)
{
	const struct rlx_op_unique *a = args;

	snprintf(text, size, "count is %lld, other many slices are distinct",
		 (long long)a->count);
}

const struct rlx_op_impl rlx_op_unique_impl = {
	.infer = unique_infer, .scratch = unique_scratch, .eval = unique_eval,
	.vjp = unique_vjp, .bad_data = unique_bad_data,
};
RLX_SAMPLES(unique, unique_sample)

const struct rlx_op_impl rlx_op_unique_count_impl = {
	.infer = unique_count_infer, .scratch = unique_count_scratch,
	.eval = unique_count_eval,
};
RLX_SAMPLES(unique_count, unique_count_sample)
