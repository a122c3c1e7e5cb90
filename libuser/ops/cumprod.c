// SPDX-License-Identifier: MIT
/* Running products along an axis. */
#include "ops/scan.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	f64 f32 f16 bf16 and integers; y as x
 * Does:	the product of all elements along axis up to and with this one; exclusive: without
 *		it, beginning at 1; reverse: from the end. Integers wrap.
 * Gradient:	dx = s / x, s the sum of dy y over all products that x is in; not defined where x
 *		is 0
 * Source:	numpy.cumprod
 */
RLX_OP(cumprod, "running product along an axis, from either end, with or without itself",
	IN(x)
	REQ(i32, axis, "the dimension to run along, -1 for the last")
	ATTR(bool, exclusive)
	ATTR(bool, reverse),
	RLX_T_REDUCTION)

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

/* Each x[j] is a factor of the products from it on; not defined at zeros. */
static enum rlx_status cumprod_vjp(struct rlx_grad *q)
{
	const struct rlx_op_cumprod *a = q->args;
	rlx_value d = rlx_emit(q->g, mul, .a = q->d_out[0], .b = q->out[0]);

	d = rlx_emit(q->g, cumsum, .x = d, .axis = a->axis, .exclusive = a->exclusive,
		     .reverse = !a->reverse);
	q->d_in[0] = rlx_emit(q->g, div, .a = d, .b = q->in[0]);
	return op_done(q->g);
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
	.sample = cumprod_sample,
};
