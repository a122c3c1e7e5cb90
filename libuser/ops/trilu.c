// SPDX-License-Identifier: MIT
/* The upper or lower triangle of the last two dimensions. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[.., m, n] -> y[.., m, n]
 * Dtypes:	any; y as x
 * Does:	keeps columns up to row + k and puts 0 elsewhere; with upper those from row + k
 *		on. k is 0 if not given, negative below the diagonal.
 * Gradient:	dx = trilu(dy)
 * Source:	ONNX Trilu-14, whose triangle is the upper if not given
 */
RLX_OP(trilu, "keep the triangle above (or below) diagonal k, zero the rest",
	IN(x)
	ATTR(bool, upper)
	ATTR(i64, k),
	RLX_T_MOVE | RLX_T_INPLACE)

static enum rlx_status trilu_infer(struct rlx_infer *q)
{
	enum rlx_status st = op_need_rank(q, 0, 2, RLX_MAX_RANK);

	return st ? st : op_infer_same(q);
}

static enum rlx_status trilu_eval(struct rlx_eval *q)
{
	const struct rlx_op_trilu *a = q->args;
	const struct rlx_type *x = &q->in[0].type;
	size_t el = rlx_dtype_size(x->dtype);
	struct op_walk w;
	int64_t over;

	op_walk_begin(&w, x, NULL, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		over = w.idx[x->rank - 1] - w.idx[x->rank - 2];
		if (a->upper ? over >= a->k : over <= a->k)
			el_copy(&q->out[0], w.i, &q->in[0], w.i);
		else
			memset((char *)q->out[0].data + (size_t)w.i * el, 0, el);
	}
	return RLX_OK;
}

static enum rlx_status trilu_vjp(struct rlx_grad *q)
{
	const struct rlx_op_trilu *a = q->args;

	q->d_in[0] = rlx_emit(q->g, trilu, .x = q->d_out[0], .upper = a->upper,
			      .k = a->k);
	return op_done(q->g);
}

static bool trilu_sample(unsigned int i, struct rlx_sample *s)
{
	static const int64_t k[] = { 0, 2, -3, INT64_MAX, INT64_MIN };
	struct rlx_op_trilu *a = s->args;

	if (i >= 12)
		return false;
	s->n_in = 1;
	s->in[0] = i == 10 ? rlx_type(RLX_I64, 0, 3, 0) : i == 11 ?
		   rlx_type(RLX_F32, 1, 1) : rlx_type(RLX_F32, 2, 5, 7);
	a->upper = i & 1;
	a->k = k[i / 2 % 5];
	return true;
}

const struct rlx_op_impl rlx_op_trilu_impl = {
	.infer = trilu_infer, .eval = trilu_eval, .vjp = trilu_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.batch = op_batch_front,
};
RLX_SAMPLES(trilu, trilu_sample)
