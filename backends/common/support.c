// SPDX-License-Identifier: MIT
/*
 * Forms of an op that its kernel does not take, where the op stands for simpler
 * ones: those are better than the host.
 */
#include "backends/common/lower.h"

/* Inputs [from, to): each absent or a row of @n values, all of one dtype. */
static bool supports_rows(const struct rlx_infer *q, uint32_t from, uint32_t to, int64_t n)
{
	const struct rlx_type *first = NULL, *t;

	for (; from < to; from++) {
		t = q->in[from];
		if (!t)
			continue;
		if (rlx_type_count(t) != n || !rlx_lower_real(t->dtype) ||
		    (first && first->dtype != t->dtype))
			return false;
		first = t;
	}
	return true;
}

static bool supports_norm(const struct rlx_infer *q, int32_t axis)
{
	const struct rlx_type *x = q->in[0];

	if (q->n_out == 3 && q->out[1].dtype != RLX_F32)
		return false;
	return rlx_lower_real(x->dtype) &&
	       supports_rows(q, 1, 3, shape_span(x, shape_axis(axis, x->rank), x->rank));
}

static bool supports_residual_norm(const struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0], *r = q->in[1], *b = q->in[2];
	int64_t n = x->dim[x->rank - 1];

	if (!rlx_lower_real(x->dtype) || !rlx_lower_real(r->dtype) ||
	    rlx_dtype_promote(x->dtype, r->dtype) != x->dtype ||
	    !supports_rows(q, 2, 5, n))
		return false;
	/* as many values, but along another axis */
	if ((b && (!b->rank || b->dim[b->rank - 1] != n)) || !r->rank ||
	    r->dim[r->rank - 1] != n)
		return false;
	return rlx_type_count(r) == rlx_type_count(x) || rlx_type_count(r) == n;
}

static bool all_f32(const struct rlx_infer *q)
{
	uint32_t k;

	for (k = 0; k < q->n_in; k++)
		if (q->in[k] && q->in[k]->dtype != RLX_F32)
			return false;
	return true;
}

static bool supports_lrn(const struct rlx_infer *q)
{
	const struct rlx_op_lrn *a = q->args;

	/* the power is of a positive number; the window is walked */
	return all_f32(q) && a->bias > 0 && a->alpha >= 0 && a->size <= 4096;
}

static bool supports_matmul(const struct rlx_infer *q)
{
	const struct rlx_op_fused_matmul *a = q->args;
	const struct rlx_type *bias = q->in[2], *res = q->in[3], *y = &q->out[0];

	if (bias && (rlx_type_count(bias) != y->dim[y->rank - 1] ||
		     bias->dtype != (y->dtype == RLX_F64 ? RLX_F64 : RLX_F32)))
		return false;
	/* nothing multiplies f64 with less */
	if (a->compute == RLX_F16 || (a->compute && y->dtype == RLX_F64))
		return false;
	return !res || res->dtype == y->dtype;
}

bool rlx_supports(const struct rlx_infer *q)
{
	switch (q->def->index) {
	case RLX_OP_layer_norm:
		return supports_norm(q, ((const struct rlx_op_layer_norm *)q->args)->axis);
	case RLX_OP_rms_norm:
		return supports_norm(q, ((const struct rlx_op_rms_norm *)q->args)->axis);
	case RLX_OP_fused_residual_norm:
		return supports_residual_norm(q);
	case RLX_OP_group_norm:
		return all_f32(q);
	case RLX_OP_lrn:
		return supports_lrn(q);
	case RLX_OP_fused_matmul:
		return supports_matmul(q);
	case RLX_OP_fused_conv:
		return ((const struct rlx_op_fused_conv *)q->args)->act != RLX_ACT_GELU_TANH;
	case RLX_OP_rope:
		return rlx_lower_real(q->in[0]->dtype) && rlx_lower_real(q->in[1]->dtype) &&
		       q->in[1]->dtype == q->in[2]->dtype;
	case RLX_OP_dequantize:
		return rlx_lower_real(q->in[1]->dtype) && !(q->in[0]->dtype == RLX_I32 && q->in[2]);
	}
	return true;
}

bool rlx_lower_supported(const struct rlx_lower *lo)
{
	const struct rlx_type *in[8] = { NULL };
	struct rlx_infer q = { .def = lo->st->def, .args = lo->args, .in = in };
	uint32_t k;

	q.n_in = lo->st->n_in < 8 ? lo->st->n_in : 8;
	q.n_out = lo->st->n_out < RLX_MAX_OUT ? lo->st->n_out : RLX_MAX_OUT;
	for (k = 0; k < q.n_in; k++)
		in[k] = rlx_lower_in(lo, k);
	for (k = 0; k < q.n_out; k++)
		q.out[k] = *rlx_lower_out(lo, k);
	return rlx_supports(&q);
}
