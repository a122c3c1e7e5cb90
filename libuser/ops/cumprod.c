// SPDX-License-Identifier: MIT
/* Running products along an axis. */
#include "ops/emit.h"

RLX_OP(cumprod, "running product along an axis, from either end, with or without itself",
	IN(x)
	ATTR(i32, axis)
	ATTR(bool, exclusive)
	ATTR(bool, reverse),
	RLX_T_REDUCTION)

static enum rlx_status cumprod_infer(struct rlx_infer *q)
{
	const struct rlx_op_cumprod *a = q->args;
	enum rlx_status st = op_need_number(q, 0);
	uint32_t ax;

	if (!st)
		st = op_infer_axis(q, a->axis, q->in[0]->rank, &ax);
	return st ? st : op_infer_same(q);
}

static enum rlx_status cumprod_eval(struct rlx_eval *q)
{
	const struct rlx_op_cumprod *a = q->args;
	const struct rlx_tensor *x = &q->in[0], *y = &q->out[0];
	int64_t d, post, lines, i, k, at;
	bool ints = el_is_int(x->type.dtype);
	uint32_t ax = 0;

	op_axis(a->axis, x->type.rank, &ax);
	d = x->type.dim[ax];
	post = op_span(&x->type, ax + 1, x->type.rank);
	lines = op_span(&x->type, 0, ax) * post;
	for (i = 0; i < lines; i++) {
		uint64_t iprod = 1;
		double prod = 1;

		for (k = 0; k < d; k++) {
			at = i / post * d * post + i % post +
			     (a->reverse ? d - 1 - k : k) * post;
			if (a->exclusive && ints)
				el_seti(y, at, (int64_t)iprod);
			else if (a->exclusive)
				el_set(y, at, prod);
			if (ints)
				iprod *= (uint64_t)el_geti(x, at);
			else
				prod *= el_get(x, at);
			if (!a->exclusive && ints)
				el_seti(y, at, (int64_t)iprod);
			else if (!a->exclusive)
				el_set(y, at, prod);
		}
	}
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

	if (i >= 7)
		return false;
	s->n_in = 1;
	s->in[0] = i == 4 ? rlx_type(RLX_I64, 3, 9) : i == 5 ?
		   rlx_type(RLX_F32, 3, 0) : i == 6 ? rlx_type(RLX_F32, 1) :
		   rlx_type(RLX_F32, 3, 5, 7);
	s->tol = 1e-5;
	if (i != 4) {
		s->lo[0] = 0.5;
		s->hi[0] = 1.5;
	}
	a->axis = i < 3 ? (int32_t)i : -1;
	a->exclusive = i & 1;
	a->reverse = i & 2;
	return true;
}

const struct rlx_op_impl rlx_op_cumprod_impl = {
	.infer = cumprod_infer, .eval = cumprod_eval, .vjp = cumprod_vjp,
	.sample = cumprod_sample,
};
