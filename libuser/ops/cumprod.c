// SPDX-License-Identifier: MIT
/* Running products along an axis. */
#include "ops/batch.h"
#include "ops/scan.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	f64 f32 f16 bf16 and integers; y as x
 * Does:	the product of all elements along axis up to and with this one; exclusive: without
 *		it, beginning at 1; reverse: from the end. Integers wrap.
 * Gradient:	dx = the sum of dy times the product of the other factors, over all products that
 *		x is in
 * Source:	numpy.cumprod
 */
RLX_OP(cumprod, "running product along an axis, from either end, with or without itself",
	IN(x)
	REQ(i32, axis, "the dimension to run along, -1 for the last")
	ATTR(bool, exclusive)
	ATTR(bool, reverse),
	RLX_T_REDUCTION | RLX_T_CARRIES | RLX_T_STEEP)

static enum rlx_status cumprod_infer(struct rlx_infer *q)
{
	const struct rlx_op_cumprod *a = q->args;

	return op_scan_infer(q, a->axis);
}

static enum rlx_status cumprod_eval(struct rlx_eval *q)
{
	const struct rlx_op_cumprod *a = q->args;

	op_scan_eval(q, &(struct op_scan){ a->axis, a->exclusive, a->reverse, true });
	return RLX_OK;
}

/* Elements [@from, @to) of the middle axis of three. */
static rlx_value part(struct rlx_graph *g, rlx_value x, int64_t from, int64_t to)
{
	return rlx_emit(g, slice, .x = x, .axes = RLX_INTS(1), .starts = RLX_INTS(from),
			.ends = RLX_INTS(to));
}

static rlx_value join(struct rlx_graph *g, rlx_value a, rlx_value b, bool swap)
{
	return rlx_emit(g, concat, .xs = RLX_VALUES(swap ? b : a, swap ? a : b), .axis = 1);
}

/*
 * r[j] = b[j] + a[j] r[j + 1] along the middle axis of b, of @n, a having n - 1; @reverse:
 * from the other end, r[j] = b[j] + a[j - 1] r[j - 1]. Each round doubles how many terms are
 * in, so that there are log2(n) of them, and nothing is divided by.
 */
static rlx_value recurrence(struct rlx_graph *g, rlx_value a, rlx_value b, int64_t n,
			    bool reverse)
{
	rlx_value more, near;
	int64_t d;

	for (d = 1; d < n; d *= 2) {
		/* those that have a d-th neighbour, and those that are done */
		near = reverse ? part(g, b, 0, n - d) : part(g, b, d, n);
		more = rlx_emit(g, mul, .a = a, .b = near);
		near = reverse ? part(g, b, d, n) : part(g, b, 0, n - d);
		more = rlx_emit(g, add, .a = near, .b = more);
		near = reverse ? part(g, b, 0, d) : part(g, b, n - d, n);
		b = join(g, more, near, reverse);
		if (2 * d < n)
			a = rlx_emit(g, mul, .a = part(g, a, 0, n - 2 * d),
				     .b = part(g, a, d, n - d));
	}
	return b;
}

/*
 * Each x[j] is a factor of the products from it on: dx[j] is the product before it times
 * r[j] = dy[j] + x[j + 1] r[j + 1]; exclusive products begin one later.
 */
static enum rlx_status cumprod_vjp(struct rlx_grad *q)
{
	const struct rlx_op_cumprod *a = q->args;
	struct rlx_type t = op_type(q->g, q->in[0]), edge;
	struct rlx_graph *g = q->g;
	rlx_value x, dy, r, before = q->out[0];
	bool rev = a->reverse;
	uint32_t ax = 0;
	int64_t n;

	op_axis(a->axis, t.rank, &ax);
	n = t.dim[ax];
	if (!rlx_type_count(&t)) {
		q->d_in[0] = q->d_out[0];
		return op_done(g);
	}
	x = op_fold3(g, q->in[0], ax);
	dy = op_fold3(g, q->d_out[0], ax);
	if (a->exclusive) {
		edge = op_type(g, part(g, x, 0, 1));
		r = op_fill(g, &edge, 0);	/* that at the end is in no product */
		dy = rev ? part(g, dy, 0, n - 1) : part(g, dy, 1, n);
		if (n > 1)
			r = join(g, recurrence(g, part(g, x, 1, n - 1), dy, n - 1, rev), r, rev);
	} else {
		before = rlx_emit(g, cumprod, .x = q->in[0], .axis = a->axis, .exclusive = true,
				  .reverse = rev);
		r = recurrence(g, rev ? part(g, x, 0, n - 1) : part(g, x, 1, n), dy, n, rev);
	}
	q->d_in[0] = rlx_emit(g, mul, .a = before, .b = op_reshape(g, r, t.dim, t.rank));
	return op_done(g);
}

static bool cumprod_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_cumprod *a = s->args;
	struct op_scan scan;

	if (!op_scan_sample(i, s, &scan))
		return false;
	if (i != 4) {
		s->lo[0] = 0.5;
		s->hi[0] = 1.5;
	}
	a->axis = scan.axis;
	a->exclusive = scan.exclusive;
	a->reverse = scan.reverse;
	return true;
}

const struct rlx_op_impl rlx_op_cumprod_impl = {
	.infer = cumprod_infer, .eval = cumprod_eval, .vjp = cumprod_vjp,
	.batch = op_batch_axes,
};
RLX_SAMPLES(cumprod, cumprod_sample)
