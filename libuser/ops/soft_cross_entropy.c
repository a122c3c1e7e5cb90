// SPDX-License-Identifier: MIT
/* Cross entropy of logits against probabilities: distillation, smoothed or mixed labels. */
#include "ops/emit.h"

/*
 * Shapes:	logits[n, c], p[n, c] -> y[n]
 * Dtypes:	f64 f32 f16 bf16; y as logits
 * Does:	-sum(p log_softmax(logits)) for each row; a p of 0 adds nothing, whatever its logit.
 *		p need not sum to 1.
 * Gradient:	dlogits = dy (softmax(logits) sum(p) - p), dp = -dy log_softmax(logits) where p
 *		is not 0
 * Source:	torch.nn.functional.cross_entropy with probabilities, reduction none
 */
RLX_OP(soft_cross_entropy, "-sum(p log softmax(logits)) for each row",
	IN(logits) IN(p),
	RLX_T_REDUCTION)

static enum rlx_status soft_cross_entropy_infer(struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0], *p = q->in[1];
	enum rlx_status st = op_need_float(q, 0, false);

	st = st ? st : op_need_float(q, 1, false);
	st = st ? st : op_need_rank(q, 0, 2, 2);
	if (!st && (p->rank != 2 || p->dim[0] != x->dim[0] || p->dim[1] != x->dim[1]))
		st = op_fail(q, RLX_ESHAPE, "p must be [%lld, %lld], as the logits",
			     (long long)x->dim[0], (long long)x->dim[1]);
	q->out[0] = rlx_type(x->dtype, x->dim[0]);
	return st;
}

static enum rlx_status soft_cross_entropy_eval(struct rlx_eval *q)
{
	const struct rlx_tensor *x = &q->in[0], *p = &q->in[1];
	int64_t n = x->type.dim[0], c = x->type.dim[1], i, k;
	double top, sum, y, w;

	for (i = 0; i < n; i++) {
		for (top = -INFINITY, k = 0; k < c; k++)
			top = fmax(top, el_get(x, i * c + k));
		for (sum = 0, k = 0; k < c; k++)
			sum += exp(el_get(x, i * c + k) - top);
		for (y = 0, k = 0; k < c; k++) {
			w = el_get(p, i * c + k);
			y -= w == 0 ? 0 : w * (el_get(x, i * c + k) - top - log(sum));
		}
		el_set(&q->out[0], i, y);
	}
	return RLX_OK;
}

static enum rlx_status soft_cross_entropy_expand(struct rlx_expand *q)
{
	struct rlx_graph *g = q->g;
	enum rlx_dtype acc = op_acc_type(q->out_type->dtype);
	rlx_value x = op_cast(g, q->in[0], acc), p = op_cast(g, q->in[1], acc), zero, none;

	x = rlx_emit(g, log_softmax, .x = x, .axis = 1);
	zero = op_const_like(g, x, 0);
	none = rlx_emit(g, eq, .a = p, .b = zero);
	x = rlx_emit(g, where, .cond = none, .a = zero, .b = x);
	x = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = p, .b = x), .axes = RLX_INTS(1));
	q->out[0] = op_cast(g, rlx_emit(g, neg, .x = x), q->out_type->dtype);
	return op_done(g);
}

static bool soft_cross_entropy_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 2)
		return false;
	s->n_in = 2;
	s->in[0] = s->in[1] = rlx_type(RLX_F32, i == 1 ? 0 : 7, i == 2 ? 1 : 13);
	s->lo[0] = -6;
	s->hi[0] = 6;
	s->lo[1] = 0.1;
	s->hi[1] = 1;
	s->tol = 1e-5;
	return true;
}

const struct rlx_op_impl rlx_op_soft_cross_entropy_impl = {
	.infer = soft_cross_entropy_infer, .eval = soft_cross_entropy_eval,
	.expand = soft_cross_entropy_expand, .sample = soft_cross_entropy_sample,
};
