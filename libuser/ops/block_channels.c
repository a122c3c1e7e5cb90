// SPDX-License-Identifier: MIT
/* To the blocked layout of convolutions: some channels of a pixel side by side. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[n, c, h, w] -> y[n, ceil(c / block), h, w, block]
 * Dtypes:	any; y as x
 * Does:	channel ch of a pixel becomes lane ch % block of block ch / block, so that the
 *		channels of a block lie side by side; lanes past the last channel are 0. A block of
 *		all channels is channels last.
 * Gradient:	dx = unblock_channels(dy)
 * Source:	the layouts that oneDNN calls nChw8c and nChw16c
 */
RLX_OP(block_channels, "[n, c, h, w] as [n, c / block, h, w, block], filled up with zeros",
	IN(x)
	REQ(i32, block, "the number of channels in a block"),
	RLX_T_MOVE)

static enum rlx_status block_channels_infer(struct rlx_infer *q)
{
	const struct rlx_op_block_channels *a = q->args;
	const struct rlx_type *x = q->in[0];

	if (x->rank != 4)
		return op_fail(q, RLX_ESHAPE, "rank %u; [n, c, h, w] is needed", x->rank);
	if (a->block < 1)
		return op_fail(q, RLX_EINVAL, "block is %d; 1 or more", a->block);
	q->out[0] = (struct rlx_type){ x->dtype, 5, { x->dim[0],
		x->dim[1] / a->block + !!(x->dim[1] % a->block), x->dim[2], x->dim[3],
		a->block } };
	return RLX_OK;
}

static enum rlx_status block_channels_eval(struct rlx_eval *q)
{
	const struct rlx_type *x = &q->in[0].type, *y = &q->out[0].type;
	int64_t c = x->dim[1], b = y->dim[4], pixels = x->dim[2] * x->dim[3], i, n;

	n = rlx_type_count(y);
	memset(q->out[0].data, 0, (size_t)rlx_type_bytes(y));
	for (i = 0; i < n; i++) {
		int64_t lane = i % b, pixel = i / b % pixels, blk = i / b / pixels;
		int64_t ch = blk % y->dim[1] * b + lane, img = blk / y->dim[1];

		if (ch < c)
			el_copy(&q->out[0], i, &q->in[0], (img * c + ch) * pixels + pixel);
	}
	return RLX_OK;
}

static enum rlx_status block_channels_vjp(struct rlx_grad *q)
{
	q->d_in[0] = rlx_emit(q->g, unblock_channels, .x = q->d_out[0],
			      .channels = rlx_type_of(q->g, q->in[0])->dim[1]);
	return RLX_OK;
}

static bool block_channels_sample(unsigned int i, struct rlx_sample *s)
{
	static const int64_t c[] = { 32, 5, 16, 33, 0, 70 };
	struct rlx_op_block_channels *a = s->args;

	if (i >= 6)
		return false;
	s->n_in = 1;
	s->in[0] = rlx_type(RLX_F32, 2, c[i], 3, 5);
	a->block = i == 2 ? 4 : i == 5 ? 70 : 16;
	return true;
}

const struct rlx_op_impl rlx_op_block_channels_impl = {
	.infer = block_channels_infer, .eval = block_channels_eval,
	.vjp = block_channels_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.batch = op_batch_examples,
};
RLX_SAMPLES(block_channels, block_channels_sample)
