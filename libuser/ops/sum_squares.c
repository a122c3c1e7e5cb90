// SPDX-License-Identifier: MIT
/* The sum of squares over any set of axes, whose squares are nowhere in memory. */
#include "ops/emit.h"
#include "ir/match.h"

/*
 * Shapes:	x[..] -> y without the named axes, with keep_dims 1 in their place
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	the sum of x^2 over axes, all if none is given; mean: divided by their number.
 * Gradient:	by the ops that it stands for
 * Source:	mul, reduce; ONNX ReduceSumSquare-18, and within ReduceL2-18
 */
RLX_OP(sum_squares, "sum, or mean, of x^2 over a set of axes",
	IN(x)
	ATTR(ints, axes)
	ATTR(bool, mean)
	ATTR(bool, keep_dims),
	RLX_T_FUSED | RLX_T_REDUCTION | RLX_T_STEEP)

static int32_t kind_of(const struct rlx_op_sum_squares *a)
{
	return a->mean ? RLX_REDUCE_MEAN : RLX_REDUCE_SUM;
}

static enum rlx_status sum_squares_infer(struct rlx_infer *q)
{
	const struct rlx_op_sum_squares *a = q->args;
	struct rlx_op_reduce r = { .axes = a->axes, .kind = kind_of(a), .keep_dims = a->keep_dims };
	enum rlx_status st = op_need_float(q, 0, false);

	if (st)
		return st;
	q->args = &r;
	st = rlx_op_reduce_impl.infer(q);
	q->args = a;
	return st;
}

static enum rlx_status sum_squares_expand(struct rlx_expand *q)
{
	const struct rlx_op_sum_squares *a = q->args;
	rlx_value x = rlx_emit(q->g, mul, .a = q->in[0], .b = q->in[0]);

	q->out[0] = rlx_emit(q->g, reduce, .x = x, .axes = a->axes, .kind = kind_of(a),
			     .keep_dims = a->keep_dims);
	return op_done(q->g);
}

static bool sum_squares_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_sum_squares *a = s->args;
	static const struct { uint8_t n; int64_t ax[2]; } pick[] = {
		{ 1, { -1 } }, { 1, { 0 } }, { 2, { 0, 2 } }, { 0, { 0 } },
	};

	if (i >= 8)
		return false;
	s->n_in = 1;
	s->in[0] = rlx_type(RLX_F32, 3, 5, 17);
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
	.infer = sum_squares_infer, .expand = sum_squares_expand, .sample = sum_squares_sample,
};
