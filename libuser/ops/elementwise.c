// SPDX-License-Identifier: MIT
/*
 * The pointwise ops of elementwise.def: types, reference loops and gradients,
 * all made from the rows.
 */
#pragma GCC diagnostic ignored "-Wtype-limits"

#include "ops/op.h"
#include "ops/ew_expr.h"
#include "ops/elementwise.h"

/* ---- the dialect in double ---- */

static double nan_max(double a, double b)
{
	return isnan(a) ? a : isnan(b) ? b : a > b ? a : b;
}

static double nan_min(double a, double b)
{
	return isnan(a) ? a : isnan(b) ? b : a < b ? a : b;
}

/* the sign of the divisor, of 0 as well, as Python; exact where fmod is */
static double floor_mod(double a, double b)
{
	double r = fmod(a, b);

	if (r != 0)
		return (r < 0) != (b < 0) ? r + b : r;
	return r == 0 ? copysign(r, b) : r;
}

#define NOFLOAT		NAN
#define sel(c, a, b)	((c) ? (a) : (b))
#define abs(x)		fabs(x)
#define max(a, b)	nan_max(a, b)
#define min(a, b)	nan_min(a, b)
#define mod(a, b)	floor_mod(a, b)
#define EW1(n, types, res, f, i, d) \
	static double f_##n(double x, double u1, double u2) \
	{ (void)x; (void)u1; (void)u2; return f; }
#define EW2(n, types, res, f, i, da, db) \
	static double f_##n(double a, double b, double u) \
	{ (void)a; (void)b; (void)u; return f; }
#define EW3(n, types, res, f, i, da, db) \
	static double f_##n(double cond, double a, double b) { return f; }
#include "ops/elementwise.def"
#undef EW1
#undef EW2
#undef EW3
#undef sel
#undef abs
#undef max
#undef min
#undef mod

/* ---- the dialect in 64-bit integers, signed and unsigned ---- */

#define I int64_t
#define V(n) i_##n
#include "ops/elementwise_int.h"
#undef I
#undef V
#define I uint64_t
#define V(n) u_##n
#include "ops/elementwise_int.h"
#undef I
#undef V

/* ---- rows ---- */

enum { SAME, BOOL };
#define STEPPED			/* of traits ops.awk makes flags */
#define STEEP
#define TAPERS

#define EW1(n, t, r, f, i, d) \
	{ RLX_OP_##n, 1, r, t, f_##n, i_##n, u_##n, #f, { #d, NULL, NULL } },
#define EW2(n, t, r, f, i, da, db) \
	{ RLX_OP_##n, 2, r, t, f_##n, i_##n, u_##n, #f, { #da, #db, NULL } },
#define EW3(n, t, r, f, i, da, db) \
	{ RLX_OP_##n, 3, r, t, f_##n, i_##n, u_##n, #f, { "NODIFF", #da, #db } },
static const struct ew_row rows[] = {
#include "ops/elementwise.def"
};
#undef EW1
#undef EW2
#undef EW3
#undef STEPPED
#undef STEEP
#undef TAPERS

const struct ew_row *rlx_ew_row(const struct rlx_op_def *def)
{
	static const uint8_t *index_of;
	static uint8_t table[RLX_OP_COUNT];
	unsigned int i;

	/* filled more than once by a race: with the same bytes */
	if (!__atomic_load_n(&index_of, __ATOMIC_ACQUIRE)) {
		for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			__atomic_store_n(&table[rows[i].op], (uint8_t)(i + 1),
					 __ATOMIC_RELAXED);
		__atomic_store_n(&index_of, table, __ATOMIC_RELEASE);
	}
	i = __atomic_load_n(&table[def->index], __ATOMIC_RELAXED);
	return i ? &rows[i - 1] : NULL;
}

static char class_of(enum rlx_dtype dt)
{
	return rlx_dtype_is_float(dt) ? 'F' : rlx_dtype_is_int(dt) ? 'I' :
	       dt == RLX_BOOL ? 'B' : 0;
}

/* The dtype that the operands are promoted to. */
static enum rlx_dtype ew_compute_type(const struct ew_row *r,
				      const struct rlx_type *const *in)
{
	if (r->arity == 1)
		return in[0]->dtype;
	return rlx_dtype_promote(in[r->arity - 2]->dtype, in[r->arity - 1]->dtype);
}

static enum rlx_status ew_infer(struct rlx_infer *q)
{
	const struct ew_row *r = rlx_ew_row(q->def);
	enum rlx_dtype dt = ew_compute_type(r, q->in);
	char ta[96], tb[96];
	uint32_t k;

	if (r->arity == 3 && q->in[0]->dtype != RLX_BOOL)
		return op_fail(q, RLX_ETYPE, "cond is %s, bool is needed",
			       rlx_dtype_name(q->in[0]->dtype));
	if (!class_of(dt) || !strchr(r->types, class_of(dt)))
		return op_fail(q, RLX_ETYPE, "%s operands are not taken here; cast them",
			       rlx_dtype_name(dt));
	q->out[0] = *q->in[0];
	for (k = 1; k < r->arity; k++) {
		struct rlx_type so_far = q->out[0];

		if (op_broadcast(&so_far, q->in[k], &q->out[0]))
			continue;
		rlx_type_print(&so_far, ta, sizeof(ta));
		rlx_type_print(q->in[k], tb, sizeof(tb));
		return op_fail(q, RLX_ESHAPE, "%s and %s do not broadcast", ta, tb);
	}
	q->out[0].dtype = r->result == BOOL ? RLX_BOOL : dt;
	return RLX_OK;
}

/* Promoted to @dt: f32 has not all digits of large integers. */
static double load_f(const struct rlx_tensor *t, int64_t i, enum rlx_dtype dt)
{
	double x = t->data ? el_get(t, i) : 0;

	return dt == RLX_F32 ? (double)(float)x : x;
}

static enum rlx_status ew_eval(struct rlx_eval *q)
{
	const struct ew_row *r = rlx_ew_row(q->def);
	const struct rlx_type *types[3] = { 0 };
	int64_t s[3][RLX_MAX_RANK] = { 0 };
	struct op_walk w;
	enum rlx_dtype dt;
	uint32_t k;
	bool ints, uns;

	for (k = 0; k < r->arity; k++) {
		types[k] = &q->in[k].type;
		shape_broadcast(types[k], &q->out[0].type, s[k]);
	}
	dt = ew_compute_type(r, types);
	ints = el_is_int(dt);
	uns = dt == RLX_U64;
	op_walk_begin(&w, &q->out[0].type, s[0], s[1], s[2]);
	for (; !w.done; op_walk_next(&w)) {
		if (ints) {
			int64_t v[3] = { 0 };

			for (k = 0; k < r->arity; k++)
				v[k] = el_geti(&q->in[k], w.off[k]);
			el_seti(&q->out[0], w.i, uns ?
				(int64_t)r->u((uint64_t)v[0], (uint64_t)v[1], (uint64_t)v[2]) :
				r->i(v[0], v[1], v[2]));
		} else {
			double v[3] = { 0 };

			for (k = 0; k < r->arity; k++)
				v[k] = load_f(&q->in[k], w.off[k], dt);
			el_set(&q->out[0], w.i, r->f(v[0], v[1], v[2]));
		}
	}
	return RLX_OK;
}

static enum rlx_status ew_vjp(struct rlx_grad *q)
{
	const struct ew_row *r = rlx_ew_row(q->def);
	struct ew_vars vars = { .y = q->out[0] };
	uint32_t k;

	if (r->arity == 1) {
		vars.x = q->in[0];
	} else {
		vars.cond = q->in[0];
		vars.a = q->in[r->arity - 2];
		vars.b = q->in[r->arity - 1];
	}
	for (k = 0; k < r->arity; k++) {
		const struct rlx_type *t = rlx_type_of(q->g, q->in[k]);
		rlx_value d;

		if (!q->need[k] || !strcmp(r->deriv[k], "NODIFF") || !t ||
		    !rlx_dtype_is_float(t->dtype))
			continue;
		d = ew_expr_times(q->g, r->deriv[k], &vars, q->d_out[0]);
		if (!d.id)	/* 0, whatever the gradient */
			continue;
		t = rlx_type_of(q->g, q->in[k]);
		if (t && rlx_type_of(q->g, d) && rlx_type_of(q->g, d)->dtype != t->dtype)
			d = rlx_emit(q->g, cast, .x = d, .to = t->dtype);
		q->d_in[k] = op_unbroadcast(q->g, d, q->in[k]);
	}
	return rlx_graph_error(q->g)->status;
}

/* Ranges on which each row is defined and smooth enough for differences. */
static const struct { uint16_t op; double lo, hi; } domains[] = {
	{ RLX_OP_acos, -0.9, 0.9 }, { RLX_OP_asin, -0.9, 0.9 },
	{ RLX_OP_atanh, -0.9, 0.9 }, { RLX_OP_acosh, 1.2, 4 },
	{ RLX_OP_log, 0.1, 4 }, { RLX_OP_sqrt, 0.1, 4 }, { RLX_OP_rsqrt, 0.1, 4 },
	{ RLX_OP_recip, 0.2, 3 }, { RLX_OP_div, 0.3, 3 }, { RLX_OP_mod, 0.6, 3 },
	{ RLX_OP_fmod, 0.6, 3 }, { RLX_OP_pow, 0.3, 2 }, { RLX_OP_tan, -1.2, 1.2 },
	{ RLX_OP_atan2, 0.3, 2 },
};

/* No gradient check where differences cross a step. */
static bool has_steps(uint16_t op)
{
	return op == RLX_OP_mod || op == RLX_OP_fmod || op == RLX_OP_round ||
	       op == RLX_OP_floor || op == RLX_OP_ceil || op == RLX_OP_trunc ||
	       op == RLX_OP_sign;
}

static bool ew_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type a, b; } shape[] = {
		{ { RLX_F32, 2, { 3, 17 } }, { RLX_F32, 2, { 3, 17 } } },
		{ { RLX_F32, 3, { 2, 5, 33 } }, { RLX_F32, 1, { 33 } } },
		{ { RLX_F32, 2, { 7, 1 } }, { RLX_F32, 2, { 1, 9 } } },
		{ { RLX_F32, 0, { 0 } }, { RLX_F32, 2, { 2, 3 } } },
		{ { RLX_F32, 2, { 0, 4 } }, { RLX_F32, 2, { 1, 4 } } },
	};
	const struct ew_row *r = rlx_ew_row(s->def);
	uint32_t k;

	if (i >= sizeof(shape) / sizeof(shape[0]))
		return false;
	s->n_in = r->arity;
	for (k = 0; k < r->arity; k++) {
		s->in[k] = k & 1 ? shape[i].b : shape[i].a;
		if (!strchr(r->types, 'F'))
			s->in[k].dtype = strchr(r->types, 'I') ? RLX_I32 : RLX_BOOL;
		if (rlx_dtype_is_int(s->in[k].dtype))
			s->hi[k] = 6;
	}
	if (r->arity == 3)
		s->in[0].dtype = RLX_BOOL;
	for (k = 0; k < sizeof(domains) / sizeof(domains[0]); k++)
		if (domains[k].op == r->op) {
			s->lo[0] = s->lo[1] = domains[k].lo;
			s->hi[0] = s->hi[1] = domains[k].hi;
		}
	s->tol = 2e-6;
	if (has_steps(r->op))
		s->grad_tol = -1;
	return true;
}

#define IMPL(n)								\
	const struct rlx_op_impl rlx_op_##n##_impl = {			\
		.infer = ew_infer, .eval = ew_eval, .vjp = ew_vjp,	\
	};								\
	RLX_SAMPLES(n, ew_sample)
#define EW1(n, ...) IMPL(n)
#define EW2(n, ...) IMPL(n)
#define EW3(n, ...) IMPL(n)
#include "ops/elementwise.def"
