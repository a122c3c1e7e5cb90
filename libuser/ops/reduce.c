// SPDX-License-Identifier: MIT
/* Sum, mean, max, min and product over any set of axes. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[..] -> y without the named axes, with keep_dims 1 in their place
 * Dtypes:	floats, f8 too, and integers; bool for RLX_REDUCE_MAX and MIN; y as x
 * Does:	over axes, all if none is given, of kind RLX_REDUCE_SUM (if not given), MEAN, MAX,
 *		MIN or PROD. NaN wins in MAX and MIN. Integers wrap, and their mean is truncated.
 *		Over nothing: sum 0, product 1, max -inf and min +inf (the ends of an integer's
 *		range), mean NaN, of integers 0.
 * Gradient:	SUM: dy to all; MEAN: dy divided by their number; MAX, MIN: dy in equal parts to
 *		those that equal the result; PROD: dy times the product of the others
 * Source:	ONNX ReduceSum-13, ReduceMean-18, ReduceMax-20, ReduceMin-20, ReduceProd-18
 */
RLX_OP(reduce, "sum, mean, max, min or product over a set of axes",
	IN(x)
	ATTR(ints, axes)
	ATTR(i32, kind)
	ATTR(bool, keep_dims),
	RLX_T_REDUCTION | RLX_T_STEEP)

static enum rlx_status reduce_infer(struct rlx_infer *q)
{
	const struct rlx_op_reduce *a = q->args;
	const struct rlx_type *x = q->in[0];
	enum rlx_status st;
	uint32_t mask, i;

	if (a->kind < 0 || a->kind >= RLX_REDUCE_COUNT)
		return op_fail(q, RLX_EINVAL, "kind %d is not one of enum rlx_reduce_kind",
			       a->kind);
	if (x->dtype == RLX_C64 ||
	    (x->dtype == RLX_BOOL && a->kind != RLX_REDUCE_MAX && a->kind != RLX_REDUCE_MIN))
		return op_fail(q, RLX_ETYPE, "%s is not taken; cast it",
			       rlx_dtype_name(x->dtype));
	st = op_infer_axes(q, a->axes, x->rank, true, &mask);
	if (st)
		return st;
	q->out[0].dtype = x->dtype;
	for (i = 0; i < x->rank; i++)
		if (!(mask >> i & 1))
			q->out[0].dim[q->out[0].rank++] = x->dim[i];
		else if (a->keep_dims)
			q->out[0].dim[q->out[0].rank++] = 1;
	return RLX_OK;
}

/* The input's shape with reduced dimensions set to 1. */
static struct rlx_type kept_shape(const struct rlx_type *x, struct rlx_ints axes)
{
	struct rlx_type t = *x;
	uint32_t i, ax;

	for (i = 0; i < x->rank; i++)
		if (!axes.n)
			t.dim[i] = 1;
	for (i = 0; i < axes.n; i++)
		if (op_axis(axes.v[i], x->rank, &ax))
			t.dim[ax] = 1;
	return t;
}

static double start_value(int kind)
{
	return kind == RLX_REDUCE_PROD ? 1 : kind == RLX_REDUCE_MAX ? -INFINITY :
	       kind == RLX_REDUCE_MIN ? INFINITY : 0;
}

static double step(int kind, double acc, double x)
{
	switch (kind) {
	case RLX_REDUCE_PROD: return acc * x;
	case RLX_REDUCE_MAX: return isnan(x) || x > acc ? x : acc;
	case RLX_REDUCE_MIN: return isnan(x) || x < acc ? x : acc;
	default: return acc + x;
	}
}

static int64_t step_int(int kind, int64_t acc, int64_t x, bool uns)
{
	switch (kind) {
	case RLX_REDUCE_PROD: return (int64_t)((uint64_t)acc * (uint64_t)x);
	case RLX_REDUCE_MAX:
		return (uns ? (uint64_t)x > (uint64_t)acc : x > acc) ? x : acc;
	case RLX_REDUCE_MIN:
		return (uns ? (uint64_t)x < (uint64_t)acc : x < acc) ? x : acc;
	default: return (int64_t)((uint64_t)acc + (uint64_t)x);
	}
}

/* Identity of max and min over nothing: the dtype's own end. */
static int64_t start_int(int kind, enum rlx_dtype dt)
{
	unsigned int bits = (unsigned int)rlx_dtype_size(dt) * 8;
	bool sgn = rlx_dtype_is_signed(dt);
	uint64_t top = ~0ull >> (64 - bits + (sgn ? 1 : 0));

	if (dt == RLX_BOOL)
		top = 1;
	return kind == RLX_REDUCE_PROD ? 1 : kind == RLX_REDUCE_MIN ? (int64_t)top :
	       kind == RLX_REDUCE_MAX && sgn ? -(int64_t)top - 1 : 0;
}

/* Accumulators in scratch, one per output: double or int64. */
static size_t reduce_scratch(const struct rlx_infer *q)
{
	return (size_t)rlx_type_count(&q->out[0]) * 8 + 8;
}

static int64_t mean_int(int64_t sum, int64_t n, bool uns)
{
	return uns ? (int64_t)((uint64_t)sum / (uint64_t)n) : sum / n;
}

static enum rlx_status reduce_eval(struct rlx_eval *q)
{
	const struct rlx_op_reduce *a = q->args;
	const struct rlx_tensor *x = &q->in[0];
	struct rlx_type kept = kept_shape(&x->type, a->axes);
	int64_t n = rlx_type_count(&q->out[0].type), i, *acc_i = q->scratch;
	int64_t per = n ? rlx_type_count(&x->type) / n : 0, s[RLX_MAX_RANK];
	bool ints = el_is_int(x->type.dtype), uns = x->type.dtype == RLX_U64;
	double *acc = q->scratch;
	struct op_walk w;

	for (i = 0; i < n; i++)
		if (ints)
			acc_i[i] = start_int(a->kind, x->type.dtype);
		else
			acc[i] = start_value(a->kind);
	shape_broadcast(&kept, &x->type, s);
	op_walk_begin(&w, &x->type, s, NULL, NULL);
	for (; !w.done; op_walk_next(&w))
		if (ints)
			acc_i[w.off[0]] = step_int(a->kind, acc_i[w.off[0]],
						   el_geti(x, w.i), uns);
		else
			acc[w.off[0]] = step(a->kind, acc[w.off[0]], el_get(x, w.i));
	for (i = 0; i < n; i++) {
		if (!ints)
			el_set(&q->out[0], i, a->kind == RLX_REDUCE_MEAN ?
			       acc[i] / (double)per : acc[i]);
		else
			el_seti(&q->out[0], i, a->kind == RLX_REDUCE_MEAN && per ?
				mean_int(acc_i[i], per, uns) : acc_i[i]);
	}
	return RLX_OK;
}

/* Ties of max and min share the gradient, as differences of neighbours would. */
static rlx_value pick_gradient(struct rlx_graph *g, rlx_value x, rlx_value y,
			       rlx_value dy)
{
	rlx_value hit = rlx_emit(g, cast, .x = rlx_emit(g, eq, .a = x, .b = y),
				 .to = rlx_type_of(g, x) ? rlx_type_of(g, x)->dtype : RLX_F32);
	rlx_value n = op_unbroadcast(g, hit, y);

	return rlx_emit(g, mul, .a = hit, .b = rlx_emit(g, div, .a = dy, .b = n));
}

/*
 * For each element the product of the others: of those before it and those behind it, for
 * dividing by it would fail at zeros.
 */
static rlx_value product_of_others(struct rlx_graph *g, rlx_value x, const struct rlx_type *kept)
{
	struct rlx_type t = op_type(g, x), turned = t;
	int64_t perm[RLX_MAX_RANK], back[RLX_MAX_RANK], flat[2] = { 1, 1 };
	rlx_value before, behind;
	uint32_t i, n = 0, pass;

	for (pass = 0; pass < 2; pass++)	/* the reduced axes last */
		for (i = 0; i < t.rank; i++) {
			if ((kept->dim[i] != t.dim[i]) != pass)
				continue;
			flat[pass] *= t.dim[i];
			turned.dim[n] = t.dim[i];
			back[i] = n;
			perm[n++] = i;
		}
	x = op_transpose(g, x, (struct rlx_ints){ perm, t.rank });
	x = op_reshape(g, x, flat, 2);
	before = rlx_emit(g, cumprod, .x = x, .axis = 1, .exclusive = true);
	behind = rlx_emit(g, cumprod, .x = x, .axis = 1, .exclusive = true, .reverse = true);
	x = op_reshape(g, rlx_emit(g, mul, .a = before, .b = behind), turned.dim, t.rank);
	return op_transpose(g, x, (struct rlx_ints){ back, t.rank });
}

static enum rlx_status reduce_vjp(struct rlx_grad *q)
{
	const struct rlx_op_reduce *a = q->args;
	struct rlx_type x = *rlx_type_of(q->g, q->in[0]);
	struct rlx_type kept = kept_shape(&x, a->axes);
	int64_t outs = rlx_type_count(&kept), n = rlx_type_count(&x);
	rlx_value dy, y;

	dy = rlx_emit(q->g, reshape, .x = q->d_out[0], .shape = { kept.dim, kept.rank });
	y = rlx_emit(q->g, reshape, .x = q->out[0], .shape = { kept.dim, kept.rank });
	switch (a->kind) {
	case RLX_REDUCE_MAX:
	case RLX_REDUCE_MIN:
		q->d_in[0] = pick_gradient(q->g, q->in[0], y, dy);
		return RLX_OK;
	case RLX_REDUCE_PROD:
		q->d_in[0] = rlx_emit(q->g, mul, .a = dy,
				      .b = product_of_others(q->g, q->in[0], &kept));
		return op_done(q->g);
	case RLX_REDUCE_MEAN:
		dy = rlx_emit(q->g, mul, .a = dy,
			      .b = op_const_like(q->g, dy, n ? (double)outs / (double)n : 0));
		break;
	}
	q->d_in[0] = rlx_emit(q->g, expand, .x = dy, .shape = { x.dim, x.rank });
	return RLX_OK;
}

static bool reduce_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_reduce *a = s->args;
	static const struct { uint8_t n; int64_t ax[3]; bool keep; } pick[] = {
		{ 1, { -1 }, false }, { 1, { 0 }, true }, { 1, { 1 }, false },
		{ 2, { 0, 2 }, true }, { 2, { 0, -2 }, false }, { 0, { 0 }, false },
	};
	unsigned int n = sizeof(pick) / sizeof(pick[0]);

	if (i >= n * RLX_REDUCE_COUNT)
		return false;
	s->n_in = 1;
	s->in[0] = rlx_type(RLX_F32, 3, 5, 17);
	s->tol = 1e-5;
	a->kind = (int32_t)(i / n);
	a->keep_dims = pick[i % n].keep;
	a->axes = op_keep(s, (struct rlx_ints){ pick[i % n].ax, pick[i % n].n });
	/* one sum of both signs may be near 0, and no relative error is small there */
	if (!a->axes.n && a->kind <= RLX_REDUCE_MEAN) {
		s->lo[0] = 0.5;
		s->hi[0] = 2;
	}
	/* of all elements it stays what f16 has all its bits for */
	if (a->kind == RLX_REDUCE_PROD) {
		s->lo[0] = a->axes.n ? 0.7 : 0.9;
		s->hi[0] = a->axes.n ? 1.3 : 1.11;
	}
	return true;
}

static enum rlx_status reduce_batch(struct rlx_batching *q)
{
	struct rlx_op_reduce a = *(const struct rlx_op_reduce *)q->args;
	rlx_value x = q->in[0];

	if (!q->type->rank)	/* no axes would be all */
		x = op_reshape(q->g, x, (int64_t[]){ q->n, 1 }, 2);
	a.axes = op_batch_axis_list(q, a.axes, q->type->rank ? q->type->rank : 1);
	a.keep_dims &= q->type->rank > 0;
	q->to[0] = x.id;
	return op_batch_emit(q, &a);
}

const struct rlx_op_impl rlx_op_reduce_impl = {
	.infer = reduce_infer, .scratch = reduce_scratch, .eval = reduce_eval,
	.vjp = reduce_vjp,
	.batch = reduce_batch,
};
RLX_SAMPLES(reduce, reduce_sample)
