// SPDX-License-Identifier: MIT
/*
 * Can an op run here, and if not, why? One rule for passes, which ask before there is a
 * plan, and for lowering: what the op lacks as far as it can be told for all devices, then
 * the lowering function's own word.
 */
#include "backends/common/lower.h"
#include "base/alloc.h"

/* Inputs [from, to): each absent or a row of @n values, all of one dtype. */
static bool supports_rows(const struct rlx_lower *lo, uint32_t from, uint32_t to, int64_t n)
{
	const struct rlx_type *first = NULL, *t;

	for (; from < to; from++) {
		t = rlx_lower_in(lo, from);
		if (!t)
			continue;
		if (rlx_type_count(t) != n || !rlx_lower_real(t->dtype) ||
		    (first && first->dtype != t->dtype))
			return false;
		first = t;
	}
	return true;
}

static bool supports_norm(const struct rlx_lower *lo, int32_t axis)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);

	if (lo->st->n_out == 3 && rlx_lower_out(lo, 1)->dtype != RLX_F32)
		return false;
	return rlx_lower_real(x->dtype) &&
	       supports_rows(lo, 1, 3, shape_span(x, shape_axis(axis, x->rank), x->rank));
}

static bool supports_residual_norm(const struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0), *r = rlx_lower_in(lo, 1);
	const struct rlx_type *b = rlx_lower_in(lo, 2);
	int64_t n = x->dim[x->rank - 1];

	if (!rlx_lower_real(x->dtype) || !rlx_lower_real(r->dtype) ||
	    rlx_dtype_promote(x->dtype, r->dtype) != x->dtype || !supports_rows(lo, 2, 5, n))
		return false;
	/* as many values, but along another axis */
	if ((b && (!b->rank || b->dim[b->rank - 1] != n)) || !r->rank ||
	    r->dim[r->rank - 1] != n)
		return false;
	return rlx_type_count(r) == rlx_type_count(x) || rlx_type_count(r) == n;
}

static bool supports_f32(const struct rlx_lower *lo)
{
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (rlx_lower_in(lo, k) && rlx_lower_in(lo, k)->dtype != RLX_F32)
			return false;
	return true;
}

static bool supports_lrn(const struct rlx_lower *lo)
{
	const struct rlx_op_lrn *a = lo->args;

	/* the power is of a positive number; the window is walked */
	return supports_f32(lo) && a->bias > 0 && a->alpha >= 0 && a->size <= 4096;
}

static bool supports_matmul(const struct rlx_lower *lo)
{
	const struct rlx_op_fused_matmul *a = lo->args;
	const struct rlx_type *bias = rlx_lower_in(lo, 2), *res = rlx_lower_in(lo, 3);
	const struct rlx_type *y = rlx_lower_out(lo, 0);

	/* whether one of y's own is added is the backend's to say (rlx_gemm_bias()) */
	if (bias && (rlx_type_count(bias) != y->dim[y->rank - 1] ||
		     (bias->dtype != y->dtype &&
		      bias->dtype != (y->dtype == RLX_F64 ? RLX_F64 : RLX_F32))))
		return false;
	/* nothing multiplies f64 with less */
	if (a->compute == RLX_F16 || (a->compute && y->dtype == RLX_F64))
		return false;
	return !res || res->dtype == y->dtype;
}

static bool supports_rope(const struct rlx_lower *lo)
{
	enum rlx_dtype cos = rlx_lower_in(lo, 1)->dtype;

	return rlx_lower_real(rlx_lower_in(lo, 0)->dtype) && rlx_lower_real(cos) &&
	       cos == rlx_lower_in(lo, 2)->dtype;
}

static bool supports_dequantize(const struct rlx_lower *lo)
{
	return rlx_lower_real(rlx_lower_in(lo, 1)->dtype) &&
	       !(rlx_lower_in(lo, 0)->dtype == RLX_I32 && rlx_lower_in(lo, 2));
}

/* What the op, as it is, lacks a kernel for; NULL: nothing is known. */
static const char *lacks(const struct rlx_lower *lo)
{
	static const char dtypes[] = "no kernel for these dtypes";
	static const char shapes[] = "no kernel for these dtypes or this broadcasting";

	switch (lo->st->def->index) {
	case RLX_OP_layer_norm:
		return supports_norm(lo, ((const struct rlx_op_layer_norm *)lo->args)->axis) ?
		       NULL : shapes;
	case RLX_OP_rms_norm:
		return supports_norm(lo, ((const struct rlx_op_rms_norm *)lo->args)->axis) ? NULL :
		       shapes;
	case RLX_OP_fused_residual_norm:
		return supports_residual_norm(lo) ? NULL : shapes;
	case RLX_OP_group_norm:
		return supports_f32(lo) ? NULL : dtypes;
	case RLX_OP_lrn:
		return supports_lrn(lo) ? NULL : "no kernel for this dtype or these constants";
	case RLX_OP_fused_matmul:
		return supports_matmul(lo) ? NULL : shapes;
	case RLX_OP_fused_conv:
		return ((const struct rlx_op_fused_conv *)lo->args)->act == RLX_ACT_GELU_TANH ?
		       "no kernel with this activation" : NULL;
	case RLX_OP_rope:
		return supports_rope(lo) ? NULL : dtypes;
	case RLX_OP_dequantize:
		return supports_dequantize(lo) ? NULL : dtypes;
	}
	return NULL;
}

static int64_t count_of(const void *lower, uint32_t k)
{
	const struct rlx_lower *lo = lower;
	uint32_t n = lo->st->n_in;
	const struct rlx_type *t = k < n ? rlx_lower_in(lo, k) : rlx_lower_out(lo, k - n);

	return t ? rlx_type_count(t) : -1;
}

enum rlx_status rlx_lower_by(struct rlx_lower *lo, rlx_lower_fn *fn)
{
	const char *why;

	if (rlx_is_idle(count_of, lo, lo->st->n_in, lo->st->n_out))
		return lo->status;
	why = fn ? lacks(lo) : "no kernel";
	if (rlx_lower_is_empty(lo))
		return rlx_lower_empty(lo);
	return why ? rlx_lower_unsupported(lo, why) : fn(lo);
}

/* A plan of one step, made from the types of an op: its inputs, then its outputs. */
struct trial {
	struct rlx_plan		 plan;
	struct rlx_plan_step	 step;
	uint32_t		*id;
};

static bool trial_init(struct trial *t, const struct rlx_infer *q, bool constants)
{
	uint32_t n = q->n_in + q->n_out, i;

	*t = (struct trial){ .id = rlx_calloc(n + 1, sizeof(*t->id)) };
	t->plan.cap_val = n + 1 + RLX_LOWER_TMPS;
	t->plan.val = rlx_calloc(t->plan.cap_val, sizeof(*t->plan.val));
	t->plan.constant = rlx_calloc(n + 1, sizeof(*t->plan.constant));
	if (!t->plan.val || !t->plan.constant || !t->id)
		return false;
	for (i = 0; i < n; i++) {
		struct rlx_plan_val *v = &t->plan.val[i + 1];

		if (i < q->n_in && !q->in[i])
			continue;
		t->id[i] = i + 1;
		v->type = i < q->n_in ? *q->in[i] : q->out[i - q->n_in];
		v->root = i + 1;
		v->place.kind = i < q->n_in ? RLX_PLACE_INPUT : RLX_PLACE_OUTPUT;
		v->place.index = i < q->n_in ? i : i - q->n_in;
		if (!constants || i >= q->n_in || !q->constant || !q->constant[i])
			continue;
		v->place.kind = RLX_PLACE_CONST;
		t->plan.constant[i] = q->constant[i];
	}
	t->plan.n_constant = n;
	t->plan.n_val = n + 1;
	t->plan.step = &t->step;
	t->plan.n_step = 1;
	t->step = (struct rlx_plan_step){ .def = q->def, .args = q->args, .in = t->id,
					  .out = t->id + q->n_in, .n_in = q->n_in,
					  .n_out = q->n_out };
	return true;
}

static void trial_fini(struct trial *t)
{
	rlx_free(t->plan.constant);
	rlx_free(t->plan.val);
	rlx_free(t->id);
}

bool rlx_lower_try(struct rlx_lower *lo, rlx_lower_fn *fn, const struct rlx_infer *q,
		   bool constants, struct rlx_error *why)
{
	enum rlx_status st = RLX_ENOMEM;
	struct trial t;

	if (trial_init(&t, q, constants)) {
		lo->plan = lo->code->plan = &t.plan;
		lo->st = &t.step;
		lo->args = q->args;
		lo->trial = true;
		lo->err = why;
		st = rlx_lower_by(lo, fn);
	}
	trial_fini(&t);
	if (st == RLX_ENOMEM)
		rlx_fail(why, st, "%s: out of memory", q->def->name);
	return st != RLX_ENOSUP;
}
