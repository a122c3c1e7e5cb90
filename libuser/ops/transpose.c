// SPDX-License-Identifier: MIT
/* Permuting dimensions. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[d..] -> y[d[perm[0]], d[perm[1]], ..]
 * Dtypes:	any; y as x
 * Does:	dimension i of y is dimension perm[i] of x. perm names each dimension once, none
 *		from the end; an empty one reverses their order.
 * Gradient:	dy by the inverse permutation
 * Source:	ONNX Transpose-21, numpy.transpose
 */
RLX_OP(transpose, "permute dimensions; an empty perm reverses them",
	IN(x)
	ATTR(ints, perm),
	RLX_T_MOVE)

static uint32_t perm_at(const struct rlx_op_transpose *a, uint32_t rank, uint32_t i)
{
	return a->perm.n ? (uint32_t)a->perm.v[i] : rank - 1 - i;
}

static enum rlx_status transpose_infer(struct rlx_infer *q)
{
	const struct rlx_op_transpose *a = q->args;
	uint32_t rank = q->in[0]->rank, seen = 0, i;

	if (a->perm.n && a->perm.n != rank)
		return op_fail(q, RLX_ESHAPE, "perm has %u entries, the rank is %u",
			       a->perm.n, rank);
	for (i = 0; i < a->perm.n; i++) {
		if (a->perm.v[i] < 0 || a->perm.v[i] >= rank || seen >> a->perm.v[i] & 1)
			return op_fail(q, RLX_EINVAL, "perm is not a permutation of 0..%u",
				       rank - 1);
		seen |= 1u << a->perm.v[i];
	}
	q->out[0] = *q->in[0];
	for (i = 0; i < rank; i++)
		q->out[0].dim[i] = q->in[0]->dim[perm_at(a, rank, i)];
	return RLX_OK;
}

static enum rlx_status transpose_eval(struct rlx_eval *q)
{
	uint32_t rank = q->in[0].type.rank, i;
	int64_t own[RLX_MAX_RANK], s[RLX_MAX_RANK];
	struct op_walk w;

	shape_dense(&q->in[0].type, own);
	for (i = 0; i < rank; i++)
		s[i] = own[perm_at(q->args, rank, i)];
	op_walk_begin(&w, &q->out[0].type, s, NULL, NULL);
	for (; !w.done; op_walk_next(&w))
		el_copy(&q->out[0], w.i, &q->in[0], w.off[0]);
	return RLX_OK;
}

static enum rlx_status transpose_vjp(struct rlx_grad *q)
{
	uint32_t rank = rlx_type_of(q->g, q->in[0])->rank, i;
	int64_t inv[RLX_MAX_RANK] = { 0 };

	if (op_swaps_last(q->args, rank)) {
		q->d_in[0] = op_swap_product(q->g, q->d_out[0]);
		return op_done(q->g);
	}
	for (i = 0; i < rank; i++)
		inv[perm_at(q->args, rank, i)] = i;
	q->d_in[0] = rlx_emit(q->g, transpose, .x = q->d_out[0], .perm = { inv, rank });
	return RLX_OK;
}

static bool transpose_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_transpose *a = s->args;

	s->n_in = 1;
	s->in[0] = rlx_type(RLX_F32, 3, 4, 5);
	switch (i) {
	case 0:
		return true;
	case 1:
		a->perm = op_keep(s, RLX_INTS(1, 0, 2));
		return true;
	case 2:
		a->perm = op_keep(s, RLX_INTS(0, 2, 1));
		s->in[0] = rlx_type(RLX_U8, 2, 33, 17);
		return true;
	case 3:
		a->perm = op_keep(s, RLX_INTS(2, 0, 3, 1));
		s->in[0] = rlx_type(RLX_F32, 2, 3, 9, 8);
		return true;
	}
	return false;
}

static enum rlx_status transpose_batch(struct rlx_batching *q)
{
	struct rlx_op_transpose a = *(const struct rlx_op_transpose *)q->args;
	int64_t perm[RLX_MAX_RANK + 1] = { 0 };
	uint32_t rank = q->type->rank, i;

	for (i = 0; i < rank; i++)
		perm[1 + i] = 1 + (a.perm.n ? shape_axis(a.perm.v[i], rank) : rank - 1 - i);
	a.perm = (struct rlx_ints){ perm, rank + 1 };
	q->to[0] = q->in[0].id;
	return op_batch_emit(q, &a);
}

const struct rlx_op_impl rlx_op_transpose_impl = {
	.infer = transpose_infer, .eval = transpose_eval, .vjp = transpose_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.batch = transpose_batch,
};
RLX_SAMPLES(transpose, transpose_sample)
