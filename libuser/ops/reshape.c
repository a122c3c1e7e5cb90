// SPDX-License-Identifier: MIT
/* The same elements under another shape. */
#include "ops/batch.h"
#include "ops/op.h"

/*
 * Shapes:	x[..] -> y[shape], of as many elements
 * Dtypes:	any; y as x
 * Does:	nothing to the elements; most often not even a copy. One size may be -1: it
 *		becomes what is left, 0 if that is open. A 0 is a size, where ONNX takes x's.
 * Gradient:	dy in x's shape
 * Source:	numpy.reshape
 */
RLX_OP(reshape, "the same elements under another shape; one -1 is worked out",
	IN(x)
	ATTR(ints, shape),
	RLX_T_VIEW | RLX_T_MOVE)

static enum rlx_status reshape_infer(struct rlx_infer *q)
{
	const struct rlx_op_reshape *a = q->args;
	int64_t n = rlx_type_count(q->in[0]), known = 1;
	uint32_t i, hole = RLX_MAX_RANK;
	char text[96];

	if (a->shape.n > RLX_MAX_RANK)
		return op_fail(q, RLX_ESHAPE, "rank %u is over %d", a->shape.n,
			       RLX_MAX_RANK);
	q->out[0].dtype = q->in[0]->dtype;
	q->out[0].rank = a->shape.n;
	for (i = 0; i < a->shape.n; i++) {
		int64_t d = a->shape.v[i];

		if (d < -1 || (d == -1 && hole < RLX_MAX_RANK))
			return op_fail(q, RLX_ESHAPE,
				       "dimension %u is %lld; one -1 at most, the others >= 0",
				       i, (long long)d);
		if (d == -1)
			hole = i;
		else if (__builtin_mul_overflow(known, d, &known))
			return op_fail(q, RLX_ESHAPE, "the shape overflows 2^63 elements");
		q->out[0].dim[i] = d;
	}
	if (hole < RLX_MAX_RANK && known && n % known == 0) {
		q->out[0].dim[hole] = n / known;
		known = n;
	}
	if (hole < RLX_MAX_RANK && !known && !n)
		q->out[0].dim[hole] = 0;
	else if (known != n) {
		rlx_type_print(q->in[0], text, sizeof(text));
		return op_fail(q, RLX_ESHAPE, "%s has %lld elements, the shape %lld",
			       text, (long long)n, (long long)known);
	}
	return RLX_OK;
}

static enum rlx_status reshape_vjp(struct rlx_grad *q)
{
	q->d_in[0] = op_reshape_like(q->g, q->d_out[0], q->in[0]);
	return RLX_OK;
}

static bool reshape_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_reshape *a = s->args;

	s->n_in = 1;
	switch (i) {
	case 0:
		s->in[0] = rlx_type(RLX_F32, 2, 3, 4);
		a->shape = op_keep(s, RLX_INTS(-1, 4));
		break;
	case 1:
		s->in[0] = rlx_type(RLX_F32, 1, 1);
		a->shape = (struct rlx_ints){ NULL, 0 };
		break;
	case 2:
		s->in[0] = rlx_type(RLX_I64, 0, 5);
		a->shape = op_keep(s, RLX_INTS(5, 0));
		break;
	default:
		return false;
	}
	return true;
}

static enum rlx_status reshape_batch(struct rlx_batching *q)
{
	struct rlx_op_reshape a = *(const struct rlx_op_reshape *)q->args;
	int64_t dim[RLX_MAX_RANK + 1] = { q->n };

	memcpy(dim + 1, q->out_type->dim, q->out_type->rank * sizeof(dim[0]));
	a.shape = (struct rlx_ints){ dim, q->out_type->rank + 1 };
	q->to[0] = q->in[0].id;
	return op_batch_emit(q, &a);
}

const struct rlx_op_impl rlx_op_reshape_impl = {
	.infer = reshape_infer, .eval = op_eval_view, .vjp = reshape_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.batch = reshape_batch,
};
RLX_SAMPLES(reshape, reshape_sample)
