// SPDX-License-Identifier: MIT
/*
 * Pointwise ops: floats by the expressions of elementwise.def, in f32 or f64; integers, whose
 * expressions are C, by a function for each op, in the dtype that they are promoted to.
 */
#include <ctype.h>
#include <string.h>

#include "backends/pjrt/emit.h"
#include "base/number.h"

/* ---- expressions ---- */

struct reader {
	struct hlo_emit	*e;
	const char	*p;
	struct hlo_type	 t;		/* what all is computed in */
	struct hlo	 x, a, b, cond;
};

static struct hlo read_sum(struct reader *r);

static void blanks(struct reader *r)
{
	while (*r->p == ' ')
		r->p++;
}

static bool is_next(struct reader *r, const char *s)
{
	size_t n = strlen(s);

	blanks(r);
	if (strncmp(r->p, s, n))
		return false;
	r->p += n;
	return true;
}

static struct hlo number(struct reader *r, double x)
{
	return hlo_number(r->e, &r->t, x);
}

/* A comparison, or a bool itself: the condition of sel() */
static struct hlo read_condition(struct reader *r)
{
	static const char *const sign[] = { "<=", "LE", ">=", "GE", "==", "EQ", "!=", "NE",
					    "<", "LT", ">", "GT" };
	struct hlo a = read_sum(r);
	unsigned int i;

	for (i = 0; i < sizeof(sign) / sizeof(*sign); i += 2)
		if (is_next(r, sign[i]))
			return hlo_compare(r->e, sign[i + 1], a, read_sum(r));
	return a;
}

static struct hlo truncated(struct hlo_emit *e, struct hlo x)
{
	return hlo_select(e, hlo_compare(e, "LT", x, hlo_number(e, &x.t, 0)),
			  hlo_1(e, "ceil", x), hlo_1(e, "floor", x));
}

static struct hlo with_sign(struct hlo_emit *e, struct hlo x, struct hlo of)
{
	struct hlo one = hlo_number(e, &x.t, 1), zero = hlo_number(e, &x.t, 0);
	/* 1 / -0 is -inf */
	struct hlo minus = hlo_2(e, "or", hlo_compare(e, "LT", of, zero),
				 hlo_2(e, "and", hlo_compare(e, "EQ", of, zero),
				       hlo_compare(e, "LT", hlo_2(e, "divide", one, of), zero)));
	struct hlo up = hlo_1(e, "abs", x);

	return hlo_select(e, minus, hlo_1(e, "negate", up), up);
}

/* The remainder with the sign of the divisor, which 0 has as well */
static struct hlo floor_mod(struct hlo_emit *e, struct hlo a, struct hlo b)
{
	struct hlo zero = hlo_number(e, &a.t, 0), r = hlo_2(e, "remainder", a, b), other;

	other = hlo_2(e, "xor", hlo_compare(e, "LT", r, zero), hlo_compare(e, "LT", b, zero));
	return hlo_select(e, hlo_compare(e, "EQ", r, zero), with_sign(e, zero, b),
			  hlo_select(e, other, hlo_2(e, "add", r, b), r));
}

/*
 * XLA for CPUs (0.11.2) makes rubbish of it where it knows that @b is 1, from some 16 elements on:
 * that is kept from it.
 */
static struct hlo angle(struct hlo_emit *e, struct hlo a, struct hlo b)
{
	return hlo_2(e, "atan2", a, hlo_1(e, "optimization_barrier", b));
}

static struct hlo apply(struct reader *r, const char *name, const struct hlo *arg, uint32_t n)
{
	static const struct { const char *name, *op; uint32_t n; } f[] = {
		{ "exp", "exponential", 1 }, { "expm1", "exponential_minus_one", 1 },
		{ "log", "log", 1 }, { "log1p", "log_plus_one", 1 }, { "sqrt", "sqrt", 1 },
		{ "sin", "sine", 1 }, { "cos", "cosine", 1 }, { "tan", "tan", 1 },
		{ "tanh", "tanh", 1 }, { "floor", "floor", 1 }, { "ceil", "ceil", 1 },
		{ "rint", "round_nearest_even", 1 }, { "abs", "abs", 1 },
		{ "asin", "chlo.asin", 1 }, { "acos", "chlo.acos", 1 },
		{ "sinh", "chlo.sinh", 1 },
		{ "cosh", "chlo.cosh", 1 }, { "asinh", "chlo.asinh", 1 },
		{ "acosh", "chlo.acosh", 1 }, { "atanh", "chlo.atanh", 1 },
		{ "erf", "chlo.erf", 1 }, { "pow", "power", 2 },
		{ "fmod", "remainder", 2 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(f) / sizeof(*f); i++)
		if (!strcmp(f[i].name, name) && f[i].n == n)
			return n == 1 ? hlo_1(r->e, f[i].op, arg[0]) :
					hlo_2(r->e, f[i].op, arg[0], arg[1]);
	if (!strcmp(name, "sel") && n == 3)
		return hlo_select(r->e, arg[0], arg[1], arg[2]);
	if (!strcmp(name, "max") || !strcmp(name, "min"))
		return hlo_extremum(r->e, name[1] == 'i', arg[0], arg[1]);
	if (!strcmp(name, "atan"))
		return angle(r->e, arg[0], number(r, 1));
	if (!strcmp(name, "atan2"))
		return angle(r->e, arg[0], arg[1]);
	if (!strcmp(name, "trunc"))
		return truncated(r->e, arg[0]);
	if (!strcmp(name, "mod"))
		return floor_mod(r->e, arg[0], arg[1]);
	return hlo_fail(r->e, "a function that StableHLO lacks");
}

static struct hlo read_name(struct reader *r)
{
	struct hlo arg[3] = { { 0 } };
	uint32_t n = 0;
	char name[16];
	size_t len = 0;

	while (isalnum((unsigned char)*r->p) && len < sizeof(name) - 1)
		name[len++] = *r->p++;
	name[len] = 0;
	if (!is_next(r, "("))
		return !strcmp(name, "x") ? r->x : !strcmp(name, "a") ? r->a :
		       !strcmp(name, "b") ? r->b : !strcmp(name, "cond") ? r->cond :
		       hlo_fail(r->e, "an expression that cannot be read");
	do
		arg[n] = !n && !strcmp(name, "sel") ? read_condition(r) : read_sum(r);
	while (++n < 3 && is_next(r, ","));
	return is_next(r, ")") ? apply(r, name, arg, n) :
	       hlo_fail(r->e, "an expression that cannot be read");
}

static struct hlo read_factor(struct reader *r)
{
	struct hlo v;
	char *end;

	blanks(r);
	if (is_next(r, "-")) {
		blanks(r);
		if (!isdigit((unsigned char)*r->p))
			return hlo_1(r->e, "negate", read_factor(r));
		v = number(r, -rlx_strtod(r->p, &end));
		r->p = end;
		return v;
	}
	if (is_next(r, "(")) {
		v = read_sum(r);
		return is_next(r, ")") ? v : hlo_fail(r->e, "an expression that cannot be read");
	}
	if (!isdigit((unsigned char)*r->p))
		return read_name(r);
	v = number(r, rlx_strtod(r->p, &end));
	r->p = end;
	return v;
}

static struct hlo read_product(struct reader *r)
{
	struct hlo v = read_factor(r);

	for (;;) {
		if (is_next(r, "*"))
			v = hlo_2(r->e, "multiply", v, read_factor(r));
		else if (is_next(r, "/"))
			v = hlo_2(r->e, "divide", v, read_factor(r));
		else
			return v;
	}
}

static struct hlo read_sum(struct reader *r)
{
	struct hlo v = read_product(r);

	for (;;) {
		if (is_next(r, "+"))
			v = hlo_2(r->e, "add", v, read_product(r));
		else if (is_next(r, "-"))
			v = hlo_2(r->e, "subtract", v, read_product(r));
		else
			return v;
	}
}

/* ---- integers and bools ---- */

static struct hlo constant(struct hlo_emit *e, struct hlo like, int64_t x)
{
	return hlo_integer(e, &like.t, x);
}

static struct hlo is_negative(struct hlo_emit *e, struct hlo x)
{
	return hlo_compare(e, "LT", x, constant(e, x, 0));
}

/* By 0 and, of signed ones, by -1, where the division is not done: 1 takes its place. */
static struct hlo divisor(struct hlo_emit *e, struct hlo b, struct hlo *zero, struct hlo *minus)
{
	*zero = hlo_compare(e, "EQ", b, constant(e, b, 0));
	*minus = hlo_compare(e, "EQ", b, constant(e, b, -1));
	b = hlo_select(e, *zero, constant(e, b, 1), b);
	return rlx_dtype_is_signed(b.t.dtype) ? hlo_select(e, *minus, constant(e, b, 1), b) : b;
}

static struct hlo int_div(struct hlo_emit *e, struct hlo a, struct hlo b)
{
	struct hlo zero, minus, q = hlo_2(e, "divide", a, divisor(e, b, &zero, &minus));

	if (rlx_dtype_is_signed(a.t.dtype))
		q = hlo_select(e, minus, hlo_2(e, "subtract", constant(e, a, 0), a), q);
	return hlo_select(e, zero, constant(e, a, 0), q);
}

static struct hlo int_rem(struct hlo_emit *e, struct hlo a, struct hlo b)
{
	struct hlo zero, minus, r = hlo_2(e, "remainder", a, divisor(e, b, &zero, &minus));

	return hlo_select(e, zero, constant(e, a, 0), r);
}

static struct hlo int_mod(struct hlo_emit *e, struct hlo a, struct hlo b)
{
	struct hlo r = int_rem(e, a, b), other, rest;

	if (!rlx_dtype_is_signed(a.t.dtype))
		return r;
	rest = hlo_compare(e, "NE", r, constant(e, r, 0));
	other = hlo_2(e, "xor", is_negative(e, r), is_negative(e, b));
	return hlo_select(e, hlo_2(e, "and", rest, other), hlo_2(e, "add", r, b), r);
}

/* Bit by bit of the exponent */
static struct hlo int_pow(struct hlo_emit *e, struct hlo a, struct hlo b)
{
	unsigned int bits = 8 * (unsigned int)rlx_dtype_size(b.t.dtype), i;
	struct hlo one = constant(e, a, 1), r = one, x = a, odd, few;

	for (i = 0; i < bits; i++) {
		struct hlo bit = hlo_2(e, "and", b, constant(e, b, (int64_t)(UINT64_C(1) << i)));

		r = hlo_select(e, hlo_compare(e, "NE", bit, constant(e, b, 0)),
			       hlo_2(e, "multiply", r, x), r);
		x = hlo_2(e, "multiply", x, x);
	}
	if (!rlx_dtype_is_signed(b.t.dtype))
		return r;
	odd = hlo_compare(e, "NE", hlo_2(e, "and", b, one), constant(e, b, 0));
	few = hlo_select(e, hlo_compare(e, "EQ", a, constant(e, a, -1)),
			 hlo_select(e, odd, constant(e, a, -1), one), constant(e, a, 0));
	few = hlo_select(e, hlo_compare(e, "EQ", a, one), one, few);
	return hlo_select(e, is_negative(e, b), few, r);
}

/* By more than there are bits, nothing is left, or the sign. */
static struct hlo shift(struct hlo_emit *e, struct hlo a, struct hlo b, bool right)
{
	bool sign = rlx_dtype_is_signed(a.t.dtype);
	int64_t bits = 8 * (int64_t)rlx_dtype_size(a.t.dtype);
	struct hlo in = hlo_compare(e, "LT", b, constant(e, b, bits)), gone, s;

	if (sign)
		in = hlo_2(e, "and", in, hlo_compare(e, "GE", b, constant(e, b, 0)));
	s = hlo_select(e, in, b, constant(e, b, 0));
	s = hlo_2(e, !right ? "shift_left" : sign ? "shift_right_arithmetic" :
		  "shift_right_logical", a, s);
	gone = constant(e, a, 0);
	if (right && sign)
		gone = hlo_select(e, is_negative(e, a), constant(e, a, -1), gone);
	return hlo_select(e, in, s, gone);
}

static struct hlo int_1(struct hlo_emit *e, struct hlo x)
{
	struct hlo zero = constant(e, x, 0), minus;

	switch (e->def->index) {
	case RLX_OP_abs:
		minus = hlo_2(e, "subtract", zero, x);
		return rlx_dtype_is_signed(x.t.dtype) ?
		       hlo_select(e, is_negative(e, x), minus, x) : x;
	case RLX_OP_neg:
		return hlo_2(e, "subtract", zero, x);
	case RLX_OP_relu:
		return hlo_2(e, "maximum", x, zero);
	case RLX_OP_sign:
		minus = hlo_select(e, is_negative(e, x), constant(e, x, -1), zero);
		return hlo_select(e, hlo_compare(e, "GT", x, zero), constant(e, x, 1), minus);
	case RLX_OP_bit_not:
	case RLX_OP_logical_not:
		return hlo_1(e, "not", x);
	default:
		return hlo_fail(e, "not for integers");
	}
}

static const char *comparison(uint16_t op)
{
	switch (op) {
	case RLX_OP_eq: return "EQ";
	case RLX_OP_ne: return "NE";
	case RLX_OP_lt: return "LT";
	case RLX_OP_le: return "LE";
	case RLX_OP_gt: return "GT";
	case RLX_OP_ge: return "GE";
	default: return NULL;
	}
}

static struct hlo int_2(struct hlo_emit *e, struct hlo a, struct hlo b)
{
	switch (e->def->index) {
	case RLX_OP_add: return hlo_2(e, "add", a, b);
	case RLX_OP_sub: return hlo_2(e, "subtract", a, b);
	case RLX_OP_mul: return hlo_2(e, "multiply", a, b);
	case RLX_OP_max: return hlo_2(e, "maximum", a, b);
	case RLX_OP_min: return hlo_2(e, "minimum", a, b);
	case RLX_OP_bit_and: return hlo_2(e, "and", a, b);
	case RLX_OP_bit_or: return hlo_2(e, "or", a, b);
	case RLX_OP_bit_xor: return hlo_2(e, "xor", a, b);
	case RLX_OP_div: return int_div(e, a, b);
	case RLX_OP_fmod: return int_rem(e, a, b);
	case RLX_OP_mod: return int_mod(e, a, b);
	case RLX_OP_pow: return int_pow(e, a, b);
	case RLX_OP_shl: return shift(e, a, b, false);
	case RLX_OP_shr: return shift(e, a, b, true);
	default: return hlo_fail(e, "not for integers");
	}
}

/* ---- ops ---- */

/* Operands in the shape of the result, and the dtype that they are computed in */
static void take_operands(struct hlo_emit *e, struct hlo *v, enum rlx_dtype *dt)
{
	struct hlo_type shape = hlo_type(&e->type[0]);
	uint32_t k;

	*dt = e->n_in == 1 ? e->in[0].t.dtype :
	      rlx_dtype_promote(e->in[e->n_in - 2].t.dtype, e->in[e->n_in - 1].t.dtype);
	if (*dt == RLX_C64)
		hlo_fail(e, "complex numbers");
	if (rlx_dtype_is_float(*dt) && *dt != RLX_F64)
		*dt = RLX_F32;
	for (k = 0; k < e->n_in; k++) {
		v[k] = e->in[k];
		if (k || e->n_in < 3)
			v[k] = hlo_cast(e, v[k], *dt);
		v[k] = hlo_broadcast(e, v[k], &shape, NULL);
	}
}

static struct hlo of_floats(struct hlo_emit *e, const char *value, const struct hlo *v)
{
	struct reader r = { .e = e, .p = value, .t = v[e->n_in - 1].t };

	if (e->def->index == RLX_OP_is_inf)	/* the row's bound is f64's */
		return hlo_compare(e, "EQ", hlo_1(e, "abs", v[0]), hlo_lowest(e, &v[0].t, true));
	r.x = v[0];
	r.a = v[e->n_in == 3];
	r.b = v[e->n_in - 1];
	r.cond = v[0];
	return read_sum(&r);
}

static void emit_row(struct hlo_emit *e, const char *value)
{
	const char *how = comparison(e->def->index);
	enum rlx_dtype dt;
	struct hlo v[3], r;

	take_operands(e, v, &dt);
	if (e->n_in == 3)
		r = hlo_select(e, v[0], v[1], v[2]);
	else if (how)
		r = hlo_compare(e, how, v[0], v[1]);
	else if (rlx_dtype_is_float(dt))
		r = of_floats(e, value, v);
	else
		r = e->n_in == 1 ? int_1(e, v[0]) : int_2(e, v[0], v[1]);
	e->out[0] = hlo_cast(e, r, e->type[0].dtype);
}

void hlo_emit_cast(struct hlo_emit *e)
{
	e->out[0] = hlo_cast(e, e->in[0], e->type[0].dtype);
}

#define EW(n, value)							\
	void hlo_emit_##n(struct hlo_emit *e) { emit_row(e, #value); }
#define EW1(n, types, result, value, ...) EW(n, value)
#define EW2(n, types, result, value, ...) EW(n, value)
#define EW3(n, types, result, value, ...) EW(n, value)
#include "ops/elementwise.def"
