// SPDX-License-Identifier: MIT
/* The sum of squares or products over any set of axes, which are nowhere in memory. */
#include "ops/emit.h"
#include "ir/match.h"

/*
 * Shapes:	x[..], by like x, centre broadcast to x along axes -> y without the named axes, with
 *		keep_dims 1 in their place, and with sum_by a second one like it
 * Dtypes:	f64 f32 f16 bf16; by, centre and y as x
 * Does:	the sum of x^2 over axes, all if none is given; mean: divided by their number. With
 *		centre of (x - centre)^2, with by of x by, with both of (x - centre) by; sum_by: of
 *		by alone as well, which must be given.
 * Gradient:	by the ops that it stands for
 * Source:	mul, reduce; ONNX ReduceSumSquare-18, and within ReduceL2-18
 */
RLX_OP(sum_squares, "sum, or mean, of x^2 or x by over a set of axes",
	IN(x) OPT(by) OPT(centre)
	ATTR(ints, axes)
	ATTR(bool, mean)
	ATTR(bool, keep_dims)
	ATTR(bool, sum_by),
	RLX_T_FUSED | RLX_T_REDUCTION | RLX_T_STEEP)

static int32_t kind_of(const struct rlx_op_sum_squares *a)
{
	return a->mean ? RLX_REDUCE_MEAN : RLX_REDUCE_SUM;
}

/* One centre for all elements that are summed up. */
static enum rlx_status check_centre(struct rlx_infer *q, const struct rlx_op_sum_squares *a)
{
	const struct rlx_type *x = q->in[0], *c = q->in[2];
	uint32_t mask = 0, lead, i;
	enum rlx_status st = op_infer_axes(q, a->axes, x->rank, true, &mask);

	if (st)
		return st;
	lead = x->rank - c->rank;
	for (i = 0; i < c->rank; i++)
		if (c->rank > x->rank || (c->dim[i] != 1 && (c->dim[i] != x->dim[lead + i] ||
							     mask >> (lead + i) & 1)))
			return op_fail(q, RLX_ESHAPE, "centre does not broadcast to x along axes");
	return c->dtype == x->dtype ? RLX_OK : op_fail(q, RLX_ETYPE, "centre is not of x's dtype");
}

static enum rlx_status sum_squares_infer(struct rlx_infer *q)
{
	const struct rlx_op_sum_squares *a = q->args;
	struct rlx_op_reduce r = { .axes = a->axes, .kind = kind_of(a), .keep_dims = a->keep_dims };
	enum rlx_status st = op_need_float(q, 0, false);

	if (!st && q->in[1] && !rlx_type_equal(q->in[0], q->in[1]))
		st = op_fail(q, RLX_ESHAPE, "by is not like x");
	if (!st && q->in[2])
		st = check_centre(q, a);
	if (!st && a->sum_by && !q->in[1])
		st = op_fail(q, RLX_EINVAL, "sum_by: by is not given");
	if (st)
		return st;
	q->args = &r;
	st = rlx_op_reduce_impl.infer(q);
	q->args = a;
	q->n_out = 1 + a->sum_by;
	q->out[1] = q->out[0];
	return st;
}

/* Centred, or by something else, it is what that leaves; else mul and reduce. */
static enum rlx_status sum_squares_expand(struct rlx_expand *q)
{
	const struct rlx_op_sum_squares *a = q->args;
	rlx_value x = q->in[0];

	if (q->in[2].id)
		x = rlx_emit(q->g, sub, .a = x, .b = q->in[2]);
	if (q->in[2].id && !q->in[1].id) {
		q->out[0] = rlx_emit(q->g, sum_squares, .x = x, .axes = a->axes, .mean = a->mean,
				     .keep_dims = a->keep_dims);
		return op_done(q->g);
	}
	x = rlx_emit(q->g, mul, .a = x, .b = q->in[1].id ? q->in[1] : x);
	q->out[0] = rlx_emit(q->g, reduce, .x = x, .axes = a->axes, .kind = kind_of(a),
			     .keep_dims = a->keep_dims);
	if (a->sum_by)
		q->out[1] = rlx_emit(q->g, reduce, .x = q->in[1], .axes = a->axes,
				     .kind = kind_of(a), .keep_dims = a->keep_dims);
	return op_done(q->g);
}

static bool sum_squares_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_sum_squares *a = s->args;
	static const struct { uint8_t n; int64_t ax[2]; } pick[] = {
		{ 1, { -1 } }, { 1, { 0 } }, { 2, { 0, 2 } }, { 0, { 0 } },
	};

	if (i >= 14)
		return false;
	s->n_in = 3;
	s->in[0] = rlx_type(RLX_F32, 3, 5, 17);
	if (i >= 8) {		/* over all axes but the last, as channels last, and other ones */
		s->in[1] = i % 2 ? s->in[0] : s->in[1];
		s->in[2] = i < 12 ? rlx_type(RLX_F32, 17) : s->in[2];
		s->tol = 1e-5;
		a->axes = op_keep(s, i == 10 ? RLX_INTS(1) : RLX_INTS(0, 1));
		a->mean = i % 3 == 0;
		a->sum_by = i % 2 && i > 9;
		return true;
	}
	s->tol = 1e-5;
	a->axes = op_keep(s, (struct rlx_ints){ pick[i % 4].ax, pick[i % 4].n });
	a->mean = i >= 4;
	a->keep_dims = i & 1;
	return true;
}

static bool sum_squares_accept(struct rlx_match *m, void *args)
{
	struct rlx_op_sum_squares *a = args;
	const struct rlx_op_reduce *r = m->g->node[m->root].args;

	if (r->kind != RLX_REDUCE_SUM && r->kind != RLX_REDUCE_MEAN)
		return false;
	a->x = rlx_match_value(m, "x");
	a->axes = r->axes;
	a->mean = r->kind == RLX_REDUCE_MEAN;
	a->keep_dims = r->keep_dims;
	return true;
}

static const struct rlx_pattern sum_squares_patterns[] = {
	{ "reduce(mul(x, x))", sum_squares_accept },
	{ NULL, NULL },
};

const struct rlx_op_impl rlx_op_sum_squares_impl = {
	.pattern = sum_squares_patterns,
	.infer = sum_squares_infer, .expand = sum_squares_expand,
};
RLX_SAMPLES(sum_squares, sum_squares_sample)
