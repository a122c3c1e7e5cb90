// SPDX-License-Identifier: MIT
/* The sum of squares of all elements of several tensors. */
#include "base/squares_run.h"
#include "ops/emit.h"

/*
 * Shapes:	xs[k][..] -> y[]
 * Dtypes:	xs: f64 f32 f16 bf16, each its own; y: f64
 * Does:	the sum over xs of the sum of x^2 over all elements of x, which is kept in f64 for
 *		f64, else in f32 at least, before y is in f64. Of nothing 0. As the ops that it
 *		stands for: of an x of 65,536 elements or more each run has a sum of its own, which
 *		f64 adds up; runs are of the most elements up to 1,024 that divide their number,
 *		unless these are below 64. Ranks that each have runs come to the same bits.
 * Gradient:	by the ops that it stands for
 * Source:	mul, reduce, add; the square of the norm that gradients are clipped by (Pascanu et
 *		al. 2013)
 */
RLX_OP(sum_squares_all, "sum of x^2 over all elements of several tensors, in f64",
	INS(xs),
	RLX_T_REDUCTION | RLX_T_STEEP | RLX_T_WIDENS)

static enum rlx_status sum_squares_all_infer(struct rlx_infer *q)
{
	enum rlx_status st = RLX_OK;
	uint32_t k;

	if (!q->n_in)
		return op_fail(q, RLX_EINVAL, "no inputs");
	for (k = 0; !st && k < q->n_in; k++)
		st = op_need_float(q, k, false);
	q->out[0] = rlx_scalar(RLX_F64);
	return st;
}

static enum rlx_status sum_squares_all_eval(struct rlx_eval *q)
{
	double sum = 0, v;
	uint32_t k;
	int64_t i;

	for (k = 0; k < q->n_in; k++)
		for (i = 0; i < rlx_type_count(&q->in[k].type); i++) {
			v = el_get(&q->in[k], i);
			sum += v * v;
		}
	el_set(&q->out[0], 0, sum);
	return RLX_OK;
}

static enum rlx_status sum_squares_all_expand(struct rlx_expand *q)
{
	static const int64_t last = -1;
	struct rlx_graph *g = q->g;
	rlx_value sum = RLX_NONE, x;
	int64_t n, run;
	uint32_t k;

	for (k = 0; k < q->n_in; k++) {
		x = op_cast(g, q->in[k], op_acc_type(op_type(g, q->in[k]).dtype));
		n = rlx_type_count(rlx_type_of(g, x));
		run = rlx_squares_run(n);
		if (run < n)
			x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(n / run, run));
		x = rlx_emit(g, sum_squares, .x = x, .axes = { &last, run < n });
		x = op_cast(g, x, RLX_F64);
		x = run < n ? rlx_emit(g, reduce, .x = x) : x;
		sum = k ? rlx_emit(g, add, .a = sum, .b = x) : x;
	}
	q->out[0] = sum;
	return op_done(g);
}

static bool sum_squares_all_sample(unsigned int i, struct rlx_sample *s)
{
	s->n_in = 3;
	s->tol = 1e-5;
	s->in[0] = rlx_type(RLX_F32, 3, 5, 17);
	s->in[1] = rlx_scalar(RLX_F32);
	s->in[2] = rlx_type(RLX_F32, 33);
	switch (i) {
	case 0:
		return true;
	case 1:		/* one of them */
		s->n_in = 1;
		return true;
	case 2:		/* an empty one among them */
		s->in[1] = rlx_type(RLX_F32, 0, 3);
		return true;
	case 3:		/* one that several blocks share */
		s->in[0] = rlx_type(RLX_F32, 3, 9001);
		return true;
	case 4:		/* of runs */
		s->in[0] = rlx_type(RLX_F32, 3, 22016);
		return true;
	}
	return false;
}

const struct rlx_op_impl rlx_op_sum_squares_all_impl = {
	.infer = sum_squares_all_infer, .eval = sum_squares_all_eval,
	.expand = sum_squares_all_expand,
};
RLX_SAMPLES(sum_squares_all, sum_squares_all_sample)
