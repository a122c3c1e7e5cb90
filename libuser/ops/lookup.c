// SPDX-License-Identifier: MIT
/* Any function of a byte. */
#include "ops/quant.h"

/*
 * Shapes:	x[..], table[256] -> y[..] like x
 * Dtypes:	x: u8 i8; table: u8 i8; y as table
 * Does:	y[i] = table[x[i]], of a negative x table[256 + x[i]]
 * Gradient:	none: it is a step function
 * Source:	gather, cast
 */
RLX_OP(lookup, "a table's elements by the bits of bytes",
	IN(x) IN(table),
	RLX_T_FUSED | RLX_T_NODIFF)

static enum rlx_status lookup_infer(struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0], *t = q->in[1];

	if (!op_quant_bytes(x) || !op_quant_bytes(t))
		return op_fail(q, RLX_ETYPE, "x and table must be bytes");
	if (t->rank != 1 || t->dim[0] != 256)
		return op_fail(q, RLX_ESHAPE, "table is not of 256 elements");
	q->out[0] = *x;
	q->out[0].dtype = t->dtype;
	return RLX_OK;
}

/* Negative indices count from the end. */
static enum rlx_status lookup_expand(struct rlx_expand *q)
{
	q->out[0] = rlx_emit(q->g, gather, .x = q->in[1],
			     .indices = op_cast(q->g, q->in[0], RLX_I32));
	return op_done(q->g);
}

static bool lookup_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_type x[] = {
		{ RLX_U8, 2, { 5, 133 } }, { RLX_I8, 4, { 1, 3, 9, 7 } }, { RLX_U8, 0, { 0 } },
		{ RLX_I8, 1, { 0 } },
	};

	if (i >= sizeof(x) / sizeof(x[0]))
		return false;
	s->n_in = 2;
	s->in[0] = x[i];
	s->in[1] = rlx_type(i & 2 ? RLX_I8 : RLX_U8, 256);
	s->lo[0] = x[i].dtype == RLX_I8 ? -128 : 0;
	s->hi[0] = s->lo[0] + 255;
	s->lo[1] = i & 2 ? -128 : 0;
	s->hi[1] = s->lo[1] + 255;
	return true;
}

const struct rlx_op_impl rlx_op_lookup_impl = {
	.infer = lookup_infer, .expand = lookup_expand,
};
RLX_SAMPLES(lookup, lookup_sample)
