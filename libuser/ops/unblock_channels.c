// SPDX-License-Identifier: MIT
/* Back from the blocked layout of convolutions. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[n, cb, h, w, block] -> y[n, channels, h, w]
 * Dtypes:	any; y as x
 * Does:	undoes block_channels: channel ch is lane ch % block of block ch / block. The last
 *		block must hold at least one of the channels; its lanes past them are dropped.
 * Gradient:	dx = block_channels(dy)
 * Source:	the layouts that oneDNN calls nChw8c and nChw16c
 */
RLX_OP(unblock_channels, "[n, cb, h, w, block] as [n, channels, h, w]; fill is dropped",
	IN(x)
	REQ(i64, channels, "the number of channels before blocking"),
	RLX_T_MOVE)

static enum rlx_status unblock_channels_infer(struct rlx_infer *q)
{
	const struct rlx_op_unblock_channels *a = q->args;
	const struct rlx_type *x = q->in[0];

	if (x->rank != 5)
		return op_fail(q, RLX_ESHAPE, "rank %u; [n, cb, h, w, block] is needed", x->rank);
	if (a->channels < 0 || a->channels > x->dim[1] * x->dim[4] ||
	    a->channels <= (x->dim[1] - 1) * x->dim[4])
		return op_fail(q, RLX_ESHAPE, "%lld channels in %lld blocks of %lld",
			       (long long)a->channels, (long long)x->dim[1],
			       (long long)x->dim[4]);
	q->out[0] = (struct rlx_type){ x->dtype, 4, { x->dim[0], a->channels, x->dim[2],
						      x->dim[3] } };
	return RLX_OK;
}

static enum rlx_status unblock_channels_eval(struct rlx_eval *q)
{
	const struct rlx_type *x = &q->in[0].type, *y = &q->out[0].type;
	int64_t c = y->dim[1], b = x->dim[4], pixels = y->dim[2] * y->dim[3], i, n;

	n = rlx_type_count(y);
	for (i = 0; i < n; i++) {
		int64_t pixel = i % pixels, ch = i / pixels % c, img = i / pixels / c;

		el_copy(&q->out[0], i, &q->in[0],
			((img * x->dim[1] + ch / b) * pixels + pixel) * b + ch % b);
	}
	return RLX_OK;
}

static enum rlx_status unblock_channels_vjp(struct rlx_grad *q)
{
	q->d_in[0] = rlx_emit(q->g, block_channels, .x = q->d_out[0],
			      .block = (int32_t)rlx_type_of(q->g, q->in[0])->dim[4]);
	return RLX_OK;
}

static bool unblock_channels_sample(unsigned int i, struct rlx_sample *s)
{
	static const int64_t c[] = { 32, 17, 5 };
	struct rlx_op_unblock_channels *a = s->args;

	if (i >= 3)
		return false;
	s->n_in = 1;
	s->in[0] = rlx_type(RLX_F32, 2, (c[i] + 15) / 16, 3, 5, 16);
	a->channels = c[i];
	return true;
}

const struct rlx_op_impl rlx_op_unblock_channels_impl = {
	.infer = unblock_channels_infer, .eval = unblock_channels_eval,
	.vjp = unblock_channels_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.batch = op_batch_examples,
};
RLX_SAMPLES(unblock_channels, unblock_channels_sample)
