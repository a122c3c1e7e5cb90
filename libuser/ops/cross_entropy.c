// SPDX-License-Identifier: MIT
/* Cross entropy of logits against class labels. */
#include "ops/emit.h"

/*
 * Shapes:	logits[n, c], labels[n] -> y[n]
 * Dtypes:	logits: f64 f32 f16 bf16; labels: i32 i64 u32; y as logits
 * Does:	log(sum(exp(logits))) - logits[label] for each row, less the largest so that exp
 *		stays finite. It is not averaged. NaN in a row makes its loss NaN.
 * Errors:	RLX_ERANGE for a label outside 0 to c - 1; none is counted from the end.
 * Gradient:	by log_softmax: dlogits = dy (softmax(logits) - one_hot(label)); none to labels
 * Source:	ONNX SoftmaxCrossEntropyLoss-13 with reduction none
 */
RLX_OP(cross_entropy, "-log softmax(logits)[label] for each row",
	IN(logits) IN(labels),
	RLX_T_REDUCTION)

static enum rlx_status cross_entropy_infer(struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0], *l = q->in[1];
	enum rlx_status st = op_need_float(q, 0, false);

	if (!st)
		st = op_need_index(q, 1);
	if (!st)
		st = op_need_rank(q, 0, 2, 2);
	if (!st && (l->rank != 1 || l->dim[0] != x->dim[0]))
		st = op_fail(q, RLX_ESHAPE, "the labels must be [%lld]",
			     (long long)x->dim[0]);
	q->out[0].dtype = x->dtype;
	q->out[0].rank = 1;
	q->out[0].dim[0] = x->dim[0];
	return st;
}

static enum rlx_status cross_entropy_eval(struct rlx_eval *q)
{
	const struct rlx_tensor *x = &q->in[0];
	int64_t n = x->type.dim[0], c = x->type.dim[1], i, k, label;
	double top, sum;

	for (i = 0; i < n; i++) {
		label = el_geti(&q->in[1], i);
		if (label < 0 || label >= c)
			return op_fail(q, RLX_ERANGE, "label %lld of row %lld is not in 0 to %lld",
				       (long long)label, (long long)i, (long long)c - 1);
		for (top = -INFINITY, k = 0; k < c; k++)
			top = fmax(top, el_get(x, i * c + k));
		for (sum = 0, k = 0; k < c; k++)
			sum += exp(el_get(x, i * c + k) - top);
		el_set(&q->out[0], i, log(sum) + top - el_get(x, i * c + label));
	}
	return RLX_OK;
}

static enum rlx_status cross_entropy_expand(struct rlx_expand *q)
{
	struct rlx_graph *g = q->g;
	enum rlx_dtype acc = op_acc_type(q->out_type->dtype);
	int64_t n = q->out_type->dim[0];
	rlx_value x, l = q->in[1], past = rlx_scalar_const(g, op_type(g, l).dtype,
							   (double)op_type(g, q->in[0]).dim[1]);

	/* elements may be counted from the end, labels may not */
	l = rlx_emit(g, where, .cond = rlx_emit(g, lt, .a = l, .b = op_const_like(g, l, 0)),
		     .a = past, .b = l);
	x = rlx_emit(g, log_softmax, .x = op_cast(g, q->in[0], acc), .axis = 1);
	l = op_reshape(g, l, (int64_t[]){ n, 1 }, 2);
	x = rlx_emit(g, gather_elements, .x = x, .indices = l, .axis = 1);
	x = op_reshape(g, rlx_emit(g, neg, .x = x), &n, 1);
	q->out[0] = op_cast(g, x, q->out_type->dtype);
	return op_done(g);
}

static bool cross_entropy_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 2)
		return false;
	s->n_in = 2;
	s->in[0] = rlx_type(RLX_F32, i == 1 ? 0 : 7, i == 2 ? 1 : 13);
	s->in[1] = rlx_type(i ? RLX_I64 : RLX_I32, i == 1 ? 0 : 7);
	s->lo[0] = -6;
	s->hi[0] = 6;
	s->lo[1] = i == 2 ? -0.4 : 0;	/* only 0, but not "both 0" */
	s->hi[1] = i == 2 ? 0.4 : 12;
	s->tol = 1e-5;
	return true;
}

const struct rlx_op_impl rlx_op_cross_entropy_impl = {
	.infer = cross_entropy_infer, .eval = cross_entropy_eval,
	.expand = cross_entropy_expand, .sample = cross_entropy_sample,
};
