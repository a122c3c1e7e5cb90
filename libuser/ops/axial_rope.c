// SPDX-License-Identifier: MIT
/* Rotary position embedding over a image's two axes. */
#include "base/alloc.h"
#include "ir/graph.h"
#include "ops/emit.h"

/*
 * Shapes:	x[b, t, heads w] -> y like x; w = 4 n, t = end_x end_y repeat
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	rotary embedding for tokens of an image. Token t has place p = t / repeat, column
 *		p % end_x, row p / end_x; repeat is 1 if not given. Of each head's w / 2 adjacent
 *		pairs the first half turn by the column, the others by the row, pair i of w / 4 by
 *		it times theta^(-4 i / w).
 * Gradient:	dx = dy turned back
 * Source:	Su et al. 2021 (RoFormer), for two axes Heo et al. 2024
 */
RLX_OP(axial_rope, "rotary embedding of tokens laid out end_x by end_y, adjacent pairs",
	IN(x)
	REQ(i32, heads, "the number of heads")
	REQ(i64, end_x, "the width of the grid of tokens")
	REQ(i64, end_y, "its height")
	ATTR_NZ(i64, repeat, 1)
	REQ(f32, theta, "the base of the frequencies, often 10000"),
	RLX_T_MOVE)

static enum rlx_status axial_rope_infer(struct rlx_infer *q)
{
	const struct rlx_op_axial_rope *a = q->args;
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_rank(q, 0, 3, 3);
	int64_t tokens;

	if (!st)
		st = op_need_float(q, 0, false);
	if (st)
		return st;
	if (a->heads < 1 || x->dim[2] % a->heads || x->dim[2] / a->heads % 4)
		return op_fail(q, RLX_ESHAPE,
			       "[batch, tokens, heads * width] with a width of 4 n is needed; "
			       "%lld in %d heads is not", (long long)x->dim[2], a->heads);
	if (a->end_x < 1 || a->end_y < 1 || a->repeat < 1 || !(a->theta > 0) ||
	    __builtin_mul_overflow(a->end_x, a->end_y, &tokens) ||
	    __builtin_mul_overflow(tokens, a->repeat, &tokens) || tokens != x->dim[1])
		return op_fail(q, RLX_ESHAPE, "%lld tokens are not %lld by %lld, %lld each",
			       (long long)x->dim[1], (long long)a->end_x,
			       (long long)a->end_y, (long long)a->repeat);
	return op_infer_same(q);
}

/* The angle of pair @i of @width / 2 for the token at @p of the image. */
static double angle(const struct rlx_op_axial_rope *a, int64_t p, int64_t i, int64_t width)
{
	int64_t quarter = width / 4;
	int64_t at = i < quarter ? p % a->end_x : p / a->end_x;

	return (double)at * pow((double)a->theta, -4.0 * (double)(i % quarter) / (double)width);
}

static enum rlx_status axial_rope_eval(struct rlx_eval *q)
{
	const struct rlx_op_axial_rope *a = q->args;
	const struct rlx_type *x = &q->in[0].type;
	int64_t width = x->dim[2] / a->heads, n = rlx_type_count(x) / 2, i;

	for (i = 0; i < n; i++) {
		int64_t token = 2 * i / x->dim[2] % x->dim[1];
		double t = angle(a, token / a->repeat, i % (width / 2), width);
		double re = el_get(&q->in[0], 2 * i), im = el_get(&q->in[0], 2 * i + 1);

		el_set(&q->out[0], 2 * i, re * cos(t) - im * sin(t));
		el_set(&q->out[0], 2 * i + 1, re * sin(t) + im * cos(t));
	}
	return RLX_OK;
}

/* What rope calls a table: a row for each token, of the angles' cosines or sines. */
static rlx_value table(struct rlx_graph *g, const struct rlx_op_axial_rope *a,
		       const struct rlx_type *x, bool sine)
{
	int64_t width = x->dim[2] / a->heads, half = width / 2, p, i;
	struct rlx_tensor t = {
		.type = rlx_type(op_acc_type(x->dtype), x->dim[1], half),
	};
	rlx_value v;
	double by;

	/* fewer bytes than x has: no overflow */
	t.data = rlx_malloc((size_t)rlx_type_bytes(&t.type));
	if (!t.data) {
		rlx_fail(&g->err, RLX_ENOMEM, "axial_rope: out of memory");
		return RLX_NONE;
	}
	for (p = 0; p < x->dim[1]; p++)
		for (i = 0; i < half; i++) {
			by = angle(a, p / a->repeat, i, width);
			el_set(&t, p * half + i, sine ? sin(by) : cos(by));
		}
	v = rlx_constant(g, t.type, t.data);
	rlx_free(t.data);
	return v;
}

static enum rlx_status axial_rope_expand(struct rlx_expand *q)
{
	const struct rlx_op_axial_rope *a = q->args;
	struct rlx_type x = *q->out_type;

	q->out[0] = q->in[0];
	if (rlx_type_count(&x))
		q->out[0] = rlx_emit(q->g, rope, .x = q->in[0], .cos = table(q->g, a, &x, false),
				     .sin = table(q->g, a, &x, true), .heads = a->heads,
				     .style = RLX_ROPE_GPTJ);
	return op_done(q->g);
}

/* A rotation's gradient turns the other way: mirror the pairs, turn, mirror back. */
static enum rlx_status axial_rope_vjp(struct rlx_grad *q)
{
	const struct rlx_op_axial_rope *a = q->args;
	struct rlx_type t = *rlx_type_of(q->g, q->in[0]);
	float pair[2] = { 1, -1 };
	rlx_value sign = rlx_emit(q->g, cast, .to = t.dtype,
				  .x = rlx_constant(q->g, rlx_type(RLX_F32, 2), pair));
	rlx_value d = rlx_emit(q->g, reshape, .x = q->d_out[0],
			       .shape = RLX_INTS(t.dim[0], t.dim[1], t.dim[2] / 2, 2));

	d = rlx_emit(q->g, mul, .a = d, .b = sign);
	d = rlx_emit(q->g, reshape, .x = d, .shape = { t.dim, 3 });
	d = rlx_emit(q->g, axial_rope, .x = d, .heads = a->heads, .end_x = a->end_x,
		     .end_y = a->end_y, .repeat = a->repeat, .theta = a->theta);
	d = rlx_emit(q->g, reshape, .x = d,
		     .shape = RLX_INTS(t.dim[0], t.dim[1], t.dim[2] / 2, 2));
	d = rlx_emit(q->g, mul, .a = d, .b = sign);
	q->d_in[0] = rlx_emit(q->g, reshape, .x = d, .shape = { t.dim, 3 });
	return op_done(q->g);
}

static bool axial_rope_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_axial_rope *a = s->args;

	if (i > 2)
		return false;
	s->n_in = 1;
	s->in[0] = rlx_type(RLX_F32, i == 2 ? 0 : 2, i ? 12 : 6, 16);
	s->tol = 2e-6;
	a->heads = 2;
	a->end_x = 3;
	a->end_y = 2;
	a->repeat = i ? 2 : 0;
	a->theta = 100;
	return true;
}

const struct rlx_op_impl rlx_op_axial_rope_impl = {
	.infer = axial_rope_infer, .eval = axial_rope_eval,
	.expand = axial_rope_expand, .vjp = axial_rope_vjp,
};
RLX_SAMPLES(axial_rope, axial_rope_sample)
