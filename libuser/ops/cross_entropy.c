// SPDX-License-Identifier: MIT
/* Cross entropy of logits against class labels, or against probabilities. */
#include "ops/emit.h"

/*
 * Shapes:	logits[n, c], labels[n], or probabilities as labels[n, c] -> y[n]
 * Dtypes:	logits: f64 f32 f16 bf16; labels: i32 i64 u32, or floats as logits; y as logits
 * Does:	log(sum(exp(logits))) - logits[label] for each row, less the largest so that exp
 *		stays finite. Of labels that are floats, p: -sum(p log_softmax(logits)), to which a
 *		p of 0 adds nothing, whatever its logit; they need not sum to 1. It is not averaged.
 *		NaN in a row makes its loss NaN.
 * Errors:	RLX_ERANGE for a label outside 0 to c - 1; none is counted from the end.
 * Gradient:	by log_softmax: dlogits = dy (softmax(logits) - one_hot(label)), or dy
 *		(softmax(logits) sum(p) - p), and dp = -dy log_softmax(logits) where p is not 0;
 *		none to integers
 * Source:	ONNX SoftmaxCrossEntropyLoss-13 and torch.nn.functional.cross_entropy, both with
 *		reduction none
 */
RLX_OP(cross_entropy, "-log softmax(logits)[label] for each row, or -sum(p log softmax(logits))",
	IN(logits) IN(labels),
	RLX_T_REDUCTION)

static enum rlx_status cross_entropy_infer(struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0], *l = q->in[1];
	bool soft = rlx_dtype_is_float(l->dtype);
	enum rlx_status st = op_need_float(q, 0, false);

	if (!st)
		st = soft ? op_need_float(q, 1, false) : op_need_index(q, 1);
	if (!st)
		st = op_need_rank(q, 0, 2, 2);
	if (!st && soft && (l->rank != 2 || l->dim[0] != x->dim[0] || l->dim[1] != x->dim[1]))
		st = op_fail(q, RLX_ESHAPE, "labels that are probabilities must be [%lld, %lld]",
			     (long long)x->dim[0], (long long)x->dim[1]);
	if (!st && !soft && (l->rank != 1 || l->dim[0] != x->dim[0]))
		st = op_fail(q, RLX_ESHAPE, "the labels must be [%lld]",
			     (long long)x->dim[0]);
	q->out[0].dtype = x->dtype;
	q->out[0].rank = 1;
	q->out[0].dim[0] = x->dim[0];
	return st;
}

/* Row @i's loss by probabilities; @lse: the logarithm of the sum of its exponentials. */
static double soft_loss(const struct rlx_eval *q, int64_t i, double lse)
{
	int64_t c = q->in[0].type.dim[1], k;
	double y = 0, p;

	for (k = i * c; k < (i + 1) * c; k++) {
		p = el_get(&q->in[1], k);
		y += p == 0 ? 0 : p * (lse - el_get(&q->in[0], k));
	}
	return y;
}

static enum rlx_status cross_entropy_eval(struct rlx_eval *q)
{
	const struct rlx_tensor *x = &q->in[0];
	bool soft = rlx_dtype_is_float(q->in[1].type.dtype);
	int64_t n = x->type.dim[0], c = x->type.dim[1], i, k, label;
	double top, lse;

	for (i = 0; i < n; i++) {
		label = soft ? 0 : el_geti(&q->in[1], i);
		if (!soft && (label < 0 || label >= c))
			return op_fail(q, RLX_ERANGE, "label %lld of row %lld is not in 0 to %lld",
				       (long long)label, (long long)i, (long long)c - 1);
		for (top = -INFINITY, k = 0; k < c; k++)
			top = fmax(top, el_get(x, i * c + k));
		for (lse = 0, k = 0; k < c; k++)
			lse += exp(el_get(x, i * c + k) - top);
		lse = log(lse) + top;
		el_set(&q->out[0], i, soft ? soft_loss(q, i, lse) :
		       lse - el_get(x, i * c + label));
	}
	return RLX_OK;
}

/* What each label, [n], picks of log softmax @x: [n, 1]. */
static rlx_value picked(struct rlx_expand *q, rlx_value x)
{
	rlx_value l = q->in[1], past = rlx_scalar_const(q->g, op_type(q->g, l).dtype,
							(double)op_type(q->g, x).dim[1]);

	/* elements may be counted from the end, labels may not */
	l = rlx_emit(q->g, where, .a = past, .b = l,
		     .cond = rlx_emit(q->g, lt, .a = l, .b = op_const_like(q->g, l, 0)));
	l = op_reshape(q->g, l, (int64_t[]){ q->out_type->dim[0], 1 }, 2);
	return rlx_emit(q->g, gather_elements, .x = x, .indices = l, .axis = 1);
}

/* The sums of log softmax @x weighed by probabilities: [n]. */
static rlx_value weighed(struct rlx_expand *q, rlx_value x)
{
	rlx_value p = op_cast(q->g, q->in[1], op_type(q->g, x).dtype);
	rlx_value zero = op_const_like(q->g, x, 0);

	x = rlx_emit(q->g, where, .cond = rlx_emit(q->g, eq, .a = p, .b = zero), .a = zero, .b = x);
	return rlx_emit(q->g, reduce, .x = rlx_emit(q->g, mul, .a = p, .b = x),
			.axes = RLX_INTS(1));
}

static enum rlx_status cross_entropy_expand(struct rlx_expand *q)
{
	struct rlx_graph *g = q->g;
	enum rlx_dtype acc = op_acc_type(q->out_type->dtype);
	rlx_value x = rlx_emit(g, log_softmax, .x = op_cast(g, q->in[0], acc), .axis = 1);

	x = rlx_dtype_is_float(op_type(g, q->in[1]).dtype) ? weighed(q, x) : picked(q, x);
	x = op_reshape(g, rlx_emit(g, neg, .x = x), &q->out_type->dim[0], 1);
	q->out[0] = op_cast(g, x, q->out_type->dtype);
	return op_done(g);
}

static bool cross_entropy_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 4)
		return false;
	s->n_in = 2;
	s->in[0] = rlx_type(RLX_F32, i % 3 == 1 ? 0 : 7, i == 2 ? 1 : 13);
	s->in[1] = i > 2 ? s->in[0] : rlx_type(i ? RLX_I64 : RLX_I32, i == 1 ? 0 : 7);
	s->lo[0] = -6;
	s->hi[0] = 6;
	s->lo[1] = i == 2 ? -0.4 : 0;	/* only 0, but not "both 0" */
	s->hi[1] = i == 2 ? 0.4 : i > 2 ? 1 : 12;
	if (i > 2)
		s->lo[1] = 0.1;
	s->tol = 1e-5;
	return true;
}

const struct rlx_op_impl rlx_op_cross_entropy_impl = {
	.infer = cross_entropy_infer, .eval = cross_entropy_eval,
	.expand = cross_entropy_expand,
};
RLX_SAMPLES(cross_entropy, cross_entropy_sample)
