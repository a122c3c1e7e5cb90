// SPDX-License-Identifier: MIT
/*
 * A recursive-descent reader of the elementwise dialect whose result is not a
 * number but a value in a graph. Only our own rows are read, so a word it does
 * not know is a bug of ours and becomes RLX_EBUG on the graph.
 */
#include <ctype.h>
#include <string.h>

#include "base/number.h"
#include "ir/graph.h"
#include "ops/ew_expr.h"

struct reader {
	struct rlx_graph	*g;
	const char		*p;
	const struct ew_vars	*vars;
	enum rlx_dtype		 dtype;
};

static rlx_value compare(struct reader *r);

static void skip(struct reader *r)
{
	while (isspace((unsigned char)*r->p))
		r->p++;
}

static bool eat(struct reader *r, const char *s)
{
	size_t n = strlen(s);

	skip(r);
	if (strncmp(r->p, s, n))
		return false;
	r->p += n;
	return true;
}

static rlx_value broken(struct reader *r)
{
	rlx_fail(&r->g->err, RLX_EBUG, "elementwise.def: cannot read '%s'", r->p);
	return RLX_NONE;
}

static rlx_value call(struct reader *r, const char *name, size_t len)
{
	static const struct { const char *word, *op; } other[] = {
		{ "rint", "round" },
	};
	const struct rlx_op_def *def;
	rlx_value arg[3];
	unsigned int n = 0, i;

	do {
		if (n == 3)
			return broken(r);
		arg[n++] = compare(r);
	} while (eat(r, ","));
	if (!eat(r, ")"))
		return broken(r);
	if (len == 3 && !strncmp(name, "sel", 3))
		return rlx_emit(r->g, where, .cond = arg[0], .a = arg[1], .b = arg[2]);
	for (i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		if (strlen(other[i].word) == len && !strncmp(other[i].word, name, len)) {
			name = other[i].op;
			len = strlen(name);
		}
	def = rlx_op_find(name, len);
	if (!def || def->n_fixed != n)
		return broken(r);
	return rlx_emit_inputs(r->g, def, arg, n, NULL);
}

static rlx_value primary(struct reader *r)
{
	const char *s;
	char *end;
	double x;

	skip(r);
	if (eat(r, "(")) {
		rlx_value v = compare(r);

		return eat(r, ")") ? v : broken(r);
	}
	if (isdigit((unsigned char)*r->p)) {
		x = rlx_strtod(r->p, &end);
		r->p = end;
		return rlx_scalar_const(r->g, r->dtype, x);
	}
	s = r->p;
	while (isalnum((unsigned char)*r->p) || *r->p == '_')
		r->p++;
	if (r->p - s == 1) {
		switch (*s) {
		case 'x': return r->vars->x;
		case 'y': return r->vars->y;
		case 'a': return r->vars->a;
		case 'b': return r->vars->b;
		}
	}
	if (r->p - s == 4 && !strncmp(s, "cond", 4))
		return r->vars->cond;
	if (r->p > s && eat(r, "("))
		return call(r, s, strcspn(s, "( "));
	return broken(r);
}

static rlx_value unary(struct reader *r)
{
	if (eat(r, "-"))
		return rlx_emit(r->g, neg, .x = unary(r));
	return primary(r);
}

static rlx_value product(struct reader *r)
{
	rlx_value v = unary(r);

	for (;;) {
		if (eat(r, "*"))
			v = rlx_emit(r->g, mul, .a = v, .b = unary(r));
		else if (eat(r, "/"))
			v = rlx_emit(r->g, div, .a = v, .b = unary(r));
		else
			return v;
	}
}

static rlx_value sum(struct reader *r)
{
	rlx_value v = product(r);

	for (;;) {
		if (eat(r, "+"))
			v = rlx_emit(r->g, add, .a = v, .b = product(r));
		else if (eat(r, "-"))
			v = rlx_emit(r->g, sub, .a = v, .b = product(r));
		else
			return v;
	}
}

static rlx_value compare(struct reader *r)
{
	rlx_value v = sum(r);

	if (eat(r, "=="))
		return rlx_emit(r->g, eq, .a = v, .b = sum(r));
	if (eat(r, ">="))
		return rlx_emit(r->g, ge, .a = v, .b = sum(r));
	if (eat(r, "<="))
		return rlx_emit(r->g, le, .a = v, .b = sum(r));
	if (eat(r, ">"))
		return rlx_emit(r->g, gt, .a = v, .b = sum(r));
	if (eat(r, "<"))
		return rlx_emit(r->g, lt, .a = v, .b = sum(r));
	return v;
}

/* Constants are of the dtype of the first variable that is a float. */
static struct reader reader_of(struct rlx_graph *g, const char *text,
			       const struct ew_vars *vars)
{
	const rlx_value list[] = { vars->x, vars->y, vars->a, vars->b };
	struct reader r = { .g = g, .p = text, .vars = vars, .dtype = RLX_F32 };
	unsigned int i;

	for (i = 0; i < 4; i++)
		if (rlx_type_of(g, list[i]) &&
		    rlx_dtype_is_float(rlx_type_of(g, list[i])->dtype)) {
			r.dtype = rlx_type_of(g, list[i])->dtype;
			break;
		}
	return r;
}

rlx_value ew_expr_emit(struct rlx_graph *g, const char *text,
		       const struct ew_vars *vars)
{
	struct reader r = reader_of(g, text, vars);
	rlx_value v = compare(&r);

	skip(&r);
	return *r.p ? broken(&r) : v;
}

/* Is what follows, up to the end or a comma or bracket, the number @x? */
static bool is_number(struct reader *r, const char *x)
{
	size_t n = strlen(x);
	const char *p;

	skip(r);
	if (strncmp(r->p, x, n))
		return false;
	for (p = r->p + n; isspace((unsigned char)*p); p++)
		;
	if (*p && *p != ',' && *p != ')')
		return false;
	r->p = p;
	return true;
}

/* @by times what follows; none if that is 0. */
static rlx_value times(struct reader *r, rlx_value by)
{
	rlx_value cond, v[2];
	unsigned int i;

	if (is_number(r, "0.0"))
		return RLX_NONE;
	if (is_number(r, "1.0"))
		return by;
	if (is_number(r, "-1.0"))
		return rlx_emit(r->g, neg, .x = by);
	/* no row has more behind a sel() that it begins with */
	if (!eat(r, "sel("))
		return rlx_emit(r->g, mul, .a = by, .b = compare(r));
	cond = compare(r);
	for (i = 0; i < 2; i++) {
		if (!eat(r, ","))
			return broken(r);
		v[i] = times(r, by);
	}
	if (!eat(r, ")"))
		return broken(r);
	if (!v[0].id && !v[1].id)
		return RLX_NONE;
	for (i = 0; i < 2; i++)
		if (!v[i].id)
			v[i] = rlx_scalar_const(r->g, rlx_type_of(r->g, by) ?
						rlx_type_of(r->g, by)->dtype : r->dtype, 0);
	return rlx_emit(r->g, where, .cond = cond, .a = v[0], .b = v[1]);
}

rlx_value ew_expr_times(struct rlx_graph *g, const char *text, const struct ew_vars *vars,
			rlx_value by)
{
	struct reader r = reader_of(g, text, vars);
	rlx_value v = times(&r, by);

	skip(&r);
	return *r.p ? broken(&r) : v;
}
