// SPDX-License-Identifier: MIT
/* Broadcasting to a larger shape. */
#include "ops/batch.h"
#include "ops/op.h"

/*
 * Shapes:	x[..] -> y[shape]; sizes of x, aligned at the end, are those of shape or 1
 * Dtypes:	any; y as x
 * Does:	repeats x along dimensions of size 1 and those it does not have. Other than in
 *		ONNX, shape is the result's: a 1 in it does not stand for x's size.
 * Gradient:	dy summed over what was repeated
 * Source:	numpy.broadcast_to
 */
RLX_OP(expand, "repeat along dimensions of size 1 up to a given shape",
	IN(x)
	ATTR(ints, shape),
	RLX_T_MOVE)

static enum rlx_status expand_infer(struct rlx_infer *q)
{
	const struct rlx_op_expand *a = q->args;
	struct rlx_type want = { .dtype = q->in[0]->dtype, .rank = a->shape.n }, got;
	char tx[96], tw[96];
	uint32_t i;

	if (a->shape.n > RLX_MAX_RANK)
		return op_fail(q, RLX_ESHAPE, "rank %u is over %d", a->shape.n,
			       RLX_MAX_RANK);
	for (i = 0; i < a->shape.n; i++)
		want.dim[i] = a->shape.v[i];
	got = want;
	if (rlx_type_count(&want) < 0 || !op_broadcast(q->in[0], &want, &got) ||
	    !rlx_type_equal(&got, &want)) {
		rlx_type_print(q->in[0], tx, sizeof(tx));
		rlx_type_print(&want, tw, sizeof(tw));
		return op_fail(q, RLX_ESHAPE, "%s does not broadcast to %s", tx, tw);
	}
	q->out[0] = want;
	return RLX_OK;
}

static enum rlx_status expand_eval(struct rlx_eval *q)
{
	int64_t s[RLX_MAX_RANK];
	struct op_walk w;

	shape_broadcast(&q->in[0].type, &q->out[0].type, s);
	op_walk_begin(&w, &q->out[0].type, s, NULL, NULL);
	for (; !w.done; op_walk_next(&w))
		el_copy(&q->out[0], w.i, &q->in[0], w.off[0]);
	return RLX_OK;
}

static enum rlx_status expand_vjp(struct rlx_grad *q)
{
	q->d_in[0] = op_unbroadcast(q->g, q->d_out[0], q->in[0]);
	return RLX_OK;
}

static bool expand_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_expand *a = s->args;

	s->n_in = 1;
	switch (i) {
	case 0:
		s->in[0] = rlx_type(RLX_F32, 3, 1);
		a->shape = op_keep(s, RLX_INTS(2, 3, 4));
		return true;
	case 1:
		s->in[0] = rlx_scalar(RLX_F32);
		a->shape = op_keep(s, RLX_INTS(5));
		return true;
	case 2:
		s->in[0] = rlx_type(RLX_I64, 1, 1);
		a->shape = op_keep(s, RLX_INTS(0, 3));
		return true;
	}
	return false;
}

static enum rlx_status expand_batch(struct rlx_batching *q)
{
	struct rlx_op_expand a = *(const struct rlx_op_expand *)q->args;
	int64_t dim[RLX_MAX_RANK + 1] = { q->n };

	memcpy(dim + 1, q->out_type->dim, q->out_type->rank * sizeof(dim[0]));
	a.shape = (struct rlx_ints){ dim, q->out_type->rank + 1 };
	q->to[0] = op_batch_aligned(q, 0, q->out_type->rank).id;
	return op_batch_emit(q, &a);
}

const struct rlx_op_impl rlx_op_expand_impl = {
	.infer = expand_infer, .eval = expand_eval, .vjp = expand_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_PARTS,
	.batch = expand_batch,
};
RLX_SAMPLES(expand, expand_sample)
