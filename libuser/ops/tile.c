// SPDX-License-Identifier: MIT
/* Repeating a tensor along its axes. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[d..] -> y[d repeats, ..]
 * Dtypes:	any; y as x
 * Does:	puts x behind itself so often along each axis; repeats has one number for each, 0
 *		gives an empty axis.
 * Gradient:	dy summed over the copies
 * Source:	ONNX Tile-13, numpy.tile
 */
RLX_OP(tile, "repeat the whole tensor along each axis",
	IN(x)
	ATTR(ints, repeats),
	RLX_T_MOVE)

static enum rlx_status tile_infer(struct rlx_infer *q)
{
	const struct rlx_op_tile *a = q->args;
	const struct rlx_type *x = q->in[0];
	uint32_t i;

	if (a->repeats.n != x->rank)
		return op_fail(q, RLX_ESHAPE, "%u repeats for rank %u", a->repeats.n,
			       x->rank);
	q->out[0] = *x;
	for (i = 0; i < x->rank; i++)
		if (a->repeats.v[i] < 0 ||
		    __builtin_mul_overflow(x->dim[i], a->repeats.v[i],
					   &q->out[0].dim[i]))
			return op_fail(q, RLX_ESHAPE,
				       "axis %u of %lld cannot be repeated %lld times",
				       i, (long long)x->dim[i],
				       (long long)a->repeats.v[i]);
	return RLX_OK;
}

static enum rlx_status tile_eval(struct rlx_eval *q)
{
	const struct rlx_type *x = &q->in[0].type;
	int64_t s[RLX_MAX_RANK], off;
	struct op_walk w;
	uint32_t i;

	shape_dense(x, s);
	op_walk_begin(&w, &q->out[0].type, NULL, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		off = 0;
		for (i = 0; i < x->rank; i++)
			off += w.idx[i] % x->dim[i] * s[i];
		el_copy(&q->out[0], w.i, &q->in[0], off);
	}
	return RLX_OK;
}

static enum rlx_status tile_vjp(struct rlx_grad *q)
{
	const struct rlx_op_tile *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]), t;
	rlx_value d = q->d_out[0];
	uint32_t i;

	for (i = 0; i < x.rank; i++) {
		if (a->repeats.v[i] == 1)
			continue;
		t = op_type(q->g, d);
		d = rlx_emit(q->g, reshape, .x = d,
			     .shape = RLX_INTS(shape_span(&t, 0, i), a->repeats.v[i],
					       x.dim[i], shape_span(&t, i + 1, t.rank)));
		d = op_reduce_span(q->g, d, RLX_REDUCE_SUM, 1, 2);
		t.dim[i] = x.dim[i];
		d = op_reshape(q->g, d, t.dim, t.rank);
	}
	q->d_in[0] = d;
	return op_done(q->g);
}

static bool tile_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_tile *a = s->args;

	s->n_in = 1;
	switch (i) {
	case 0:
		s->in[0] = rlx_type(RLX_F32, 2, 3);
		a->repeats = op_keep(s, RLX_INTS(3, 2));
		return true;
	case 1:
		s->in[0] = rlx_type(RLX_F32, 1, 5, 1);
		a->repeats = op_keep(s, RLX_INTS(1, 1, 7));
		return true;
	case 2:
		s->in[0] = rlx_type(RLX_U8, 4, 0);
		a->repeats = op_keep(s, RLX_INTS(2, 5));
		return true;
	case 3:
		s->in[0] = rlx_type(RLX_F32, 4, 2);
		a->repeats = op_keep(s, RLX_INTS(0, 2));
		return true;
	case 4:
		s->in[0] = rlx_scalar(RLX_F32);
		return true;
	case 5:		/* more dimensions than a copy walks */
		s->in[0] = rlx_type(RLX_F32, 2, 1, 2, 2, 1, 2, 1, 2);
		a->repeats = op_keep(s, RLX_INTS(2, 2, 2, 2, 2, 2, 1, 2));
		return true;
	}
	return false;
}

static enum rlx_status tile_batch(struct rlx_batching *q)
{
	struct rlx_op_tile a = *(const struct rlx_op_tile *)q->args;
	int64_t repeats[RLX_MAX_RANK + 1] = { 1 };

	memcpy(repeats + 1, a.repeats.v, a.repeats.n * sizeof(repeats[0]));
	a.repeats = (struct rlx_ints){ repeats, a.repeats.n + 1 };
	q->to[0] = q->in[0].id;
	return op_batch_emit(q, &a);
}

const struct rlx_op_impl rlx_op_tile_impl = {
	.infer = tile_infer, .eval = tile_eval, .vjp = tile_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_PARTS,
	.batch = tile_batch,
};
RLX_SAMPLES(tile, tile_sample)
