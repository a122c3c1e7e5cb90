// SPDX-License-Identifier: MIT
/* Local response normalisation across channels. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[n, c, ..] -> y[n, c, ..]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	the sum goes over channels c - (size - 1) / 2 to c + size / 2, as far as there are
 *		such; it is divided by size all the same. y = x (bias + alpha / size sum)^-beta; a
 *		negative base gives NaN.
 * Gradient:	by those operations
 * Source:	Krizhevsky et al. 2012; ONNX LRN-13
 */
RLX_OP(lrn, "x / (bias + alpha / size * sum of x^2 over 'size' neighbouring channels)^beta",
	IN(x)
	REQ(i64, size, "the number of channels in the sum")
	REQ(f32, alpha, "its factor, often 1e-4")
	REQ(f32, beta, "the exponent, often 0.75")
	REQ(f32, bias, "what is added, often 1"),
	RLX_T_REDUCTION | RLX_T_STEEP | RLX_T_NONFINITE)

static enum rlx_status lrn_infer(struct rlx_infer *q)
{
	const struct rlx_op_lrn *a = q->args;
	enum rlx_status st = op_need_float(q, 0, false);

	if (!st)
		st = op_need_rank(q, 0, 2, RLX_MAX_RANK);
	if (!st && (a->size < 1 || a->size > INT32_MAX))
		st = op_fail(q, RLX_EINVAL, "size is %lld, 1 to 2^31 - 1 is taken",
			     (long long)a->size);
	if (!st && (!isfinite(a->alpha) || !isfinite(a->beta) || !isfinite(a->bias)))
		st = op_fail(q, RLX_EINVAL, "alpha %g, beta %g, bias %g", (double)a->alpha,
			     (double)a->beta, (double)a->bias);
	return st ? st : op_infer_same(q);
}

static enum rlx_status lrn_eval(struct rlx_eval *q)
{
	const struct rlx_op_lrn *a = q->args;
	const struct rlx_type *x = &q->in[0].type;
	int64_t n = rlx_type_count(x), sp = shape_span(x, 2, x->rank), i, c, k, lo, hi;
	double sum, v;

	for (i = 0; i < n; i++) {
		c = i / sp % x->dim[1];
		lo = c - (a->size - 1) / 2;
		hi = c + a->size / 2;
		lo = lo < 0 ? 0 : lo;
		hi = hi >= x->dim[1] ? x->dim[1] - 1 : hi;
		sum = 0;
		for (k = lo; k <= hi; k++) {
			v = el_get(&q->in[0], i + (k - c) * sp);
			sum += v * v;
		}
		v = pow(a->bias + (double)a->alpha / (double)a->size * sum, -(double)a->beta);
		el_set(&q->out[0], i, el_get(&q->in[0], i) * v);
	}
	return RLX_OK;
}

/*
 * The window sum is an average pool over channels that counts its padding. A window may be
 * far larger than what there is.
 */
static enum rlx_status lrn_expand(struct rlx_expand *q)
{
	const struct rlx_op_lrn *a = q->args;
	struct rlx_graph *g = q->g;
	struct rlx_type t = *q->out_type;
	/* a base that is small, or below 0, has powers that f32 does not hold */
	enum rlx_dtype acc = a->alpha >= 0 && a->bias >= 1 ? op_acc_type(t.dtype) : RLX_F64;
	rlx_value x = op_cast(g, q->in[0], acc), s;
	int64_t far = t.dim[1] > 0 ? t.dim[1] - 1 : 0, k;
	int64_t below = (a->size - 1) / 2, above = a->size / 2;

	below = below < far ? below : far;
	above = above < far ? above : far;
	k = below + above + 1;
	s = rlx_emit(g, mul, .a = x, .b = x);
	s = op_reshape(g, s, (int64_t[]){ t.dim[0], 1, t.dim[1],
		       shape_span(&t, 2, t.rank) }, 4);
	if (rlx_type_count(&t))
		s = rlx_emit(g, pool, .x = s, .kind = RLX_POOL_AVG, .include_pad = true,
			     .kernel = RLX_INTS(k, 1), .pad = RLX_INTS(below, 0, above, 0));
	s = op_mul_const(g, s, (double)a->alpha / (double)a->size * (double)k);
	s = op_add_const(g, s, a->bias);
	s = rlx_emit(g, pow, .a = s, .b = op_const_like(g, s, -(double)a->beta));
	s = rlx_emit(g, mul, .a = x, .b = op_reshape(g, s, t.dim, t.rank));
	q->out[0] = op_cast(g, s, t.dtype);
	return op_done(g);
}

static bool lrn_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type x; int64_t size; } c[] = {
		{ { RLX_F32, 4, { 2, 7, 3, 4 } }, 3 }, { { RLX_F32, 4, { 1, 5, 2, 2 } }, 4 },
		{ { RLX_F32, 3, { 2, 3, 5 } }, 9 }, { { RLX_F32, 2, { 3, 6 } }, 1 },
		{ { RLX_F32, 4, { 1, 4, 0, 2 } }, 3 },
	};

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 1;
	s->in[0] = c[i].x;
	s->tol = 1e-5;
	*(struct rlx_op_lrn *)s->args = (struct rlx_op_lrn){
		.size = c[i].size, .alpha = 0.3f, .beta = 0.75f, .bias = 1,
	};
	return true;
}

const struct rlx_op_impl rlx_op_lrn_impl = {
	.infer = lrn_infer, .eval = lrn_eval, .expand = lrn_expand,
	.batch = op_batch_examples,
};
RLX_SAMPLES(lrn, lrn_sample)
