// SPDX-License-Identifier: MIT
/* Short convolutions over time that see no future. */
#include "ops/emit.h"

enum { MOST_TAPS = 64 };

/*
 * Shapes:	x[b, s, h], w[h, taps], bias[h], state[b, taps - 1, h] -> y[b, s, h], last[b, taps -
 *		1, h]
 * Dtypes:	f64 f32 f16 bf16; all as x
 * Does:	y_t = bias + sum over i of w[.., i] x_(t - taps + 1 + i), channel by channel, where
 *		what is before x is state, or 0; last is what a call on the next elements wants for
 *		state. With silu y times its sigmoid. 1 to 64 taps.
 * Gradient:	by slice, mul and add: to all
 * Source:	Gu and Dao 2023 (Mamba); torch.nn.functional.conv1d
 */
RLX_OP(causal_conv, "convolution over time, a channel by itself, with state in and out",
	IN(x) IN(w) OPT(bias) OPT(state)
	ATTR(bool, silu),
	RLX_T_REDUCTION)

static enum rlx_status causal_conv_infer(struct rlx_infer *q)
{
	static const char name[][6] = { "x", "w", "bias", "state" };
	const struct rlx_type *x = q->in[0], *w = q->in[1];
	enum rlx_status st = op_need_float(q, 0, false);
	struct rlx_type want[4];
	uint32_t i;

	if (!st)
		st = op_need_rank(q, 0, 3, 3);
	if (!st)
		st = op_need_rank(q, 1, 2, 2);
	if (st)
		return st;
	if (w->dim[1] < 1 || w->dim[1] > MOST_TAPS)
		return op_fail(q, RLX_ERANGE, "%lld taps; 1 to %d are possible",
			       (long long)w->dim[1], MOST_TAPS);
	want[0] = *x;
	want[1] = rlx_type(x->dtype, x->dim[2], w->dim[1]);
	want[2] = rlx_type(x->dtype, x->dim[2]);
	want[3] = rlx_type(x->dtype, x->dim[0], w->dim[1] - 1, x->dim[2]);
	for (i = 0; i < 4 && i < q->n_in; i++)
		if (q->in[i] && !rlx_type_equal(q->in[i], &want[i]))
			return op_fail(q, RLX_ESHAPE, "%s does not fit x[%lld, %lld, %lld] and "
				       "%lld taps of one dtype", name[i], (long long)x->dim[0],
				       (long long)x->dim[1], (long long)x->dim[2],
				       (long long)w->dim[1]);
	q->n_out = 2;
	q->out[0] = *x;
	q->out[1] = want[3];
	return RLX_OK;
}

static rlx_value cut(struct rlx_graph *g, rlx_value x, int64_t axis, int64_t from, int64_t to)
{
	return rlx_emit(g, slice, .x = x, .axes = RLX_INTS(axis), .starts = RLX_INTS(from),
			.ends = RLX_INTS(to));
}

static enum rlx_status causal_conv_expand(struct rlx_expand *q)
{
	const struct rlx_op_causal_conv *a = q->args;
	struct rlx_graph *g = q->g;
	const struct rlx_type x = op_type(g, q->in[0]), last = q->out_type[1];
	const int64_t s = x.dim[1], taps = last.dim[1] + 1;
	const enum rlx_dtype acc = op_acc_type(x.dtype);
	rlx_value all = q->in[0], y = RLX_NONE, t, w;
	int64_t i;

	/* products and their sum in f32 where x has 16 bits, as kernels have them */
	if (taps > 1) {
		t = q->n_in > 3 && q->in[3].id ? q->in[3] : op_fill(g, &last, 0);
		all = rlx_emit(g, concat, .axis = 1, .xs = RLX_VALUES(t, all));
	}
	for (i = 0; i < taps; i++) {
		w = op_cast(g, op_reshape(g, cut(g, q->in[1], 1, i, i + 1), &x.dim[2], 1), acc);
		t = rlx_emit(g, mul, .a = op_cast(g, cut(g, all, 1, i, i + s), acc), .b = w);
		y = i ? rlx_emit(g, add, .a = y, .b = t) : t;
	}
	if (q->n_in > 2 && q->in[2].id)
		y = rlx_emit(g, add, .a = y, .b = op_cast(g, q->in[2], acc));
	y = a->silu ? rlx_emit(g, silu, .x = y) : y;
	q->out[0] = op_cast(g, y, x.dtype);
	q->out[1] = taps > 1 ? cut(g, all, 1, s, s + taps - 1) : op_fill(g, &last, 0);
	return op_done(g);
}

static bool causal_conv_sample(unsigned int i, struct rlx_sample *s)
{
	/* b, s, h, taps */
	static const int64_t c[][4] = {
		{ 2, 7, 5, 4 }, { 1, 2, 3, 4 }, { 1, 6, 2, 1 }, { 2, 0, 3, 3 },
	};
	struct rlx_op_causal_conv *a = s->args;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 4;
	s->in[0] = rlx_type(RLX_F32, c[i][0], c[i][1], c[i][2]);
	s->in[1] = rlx_type(RLX_F32, c[i][2], c[i][3]);
	if (i != 1)
		s->in[2] = rlx_type(RLX_F32, c[i][2]);
	if (i != 2)
		s->in[3] = rlx_type(RLX_F32, c[i][0], c[i][3] - 1, c[i][2]);
	s->tol = 1e-6;
	a->silu = i == 0;
	return true;
}

const struct rlx_op_impl rlx_op_causal_conv_impl = {
	.infer = causal_conv_infer, .expand = causal_conv_expand,
};
RLX_SAMPLES(causal_conv, causal_conv_sample)
