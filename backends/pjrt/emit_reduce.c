// SPDX-License-Identifier: MIT
/* Reductions, running sums, softmax and sorting. Floats of 16 bits are added up in f32. */
#include <math.h>

#include "backends/pjrt/emit.h"
#include "base/shape.h"

static struct hlo_type scalar(enum rlx_dtype dt)
{
	return (struct hlo_type){ .dtype = dt };
}

static struct hlo zero(struct hlo_emit *e, enum rlx_dtype dt, int64_t x)
{
	struct hlo_type t = scalar(dt);

	return hlo_integer(e, &t, x);
}

static struct hlo most(struct hlo_emit *e, struct hlo x, bool min, uint32_t mask)
{
	struct hlo_type t = scalar(x.t.dtype);
	struct hlo m = hlo_reduce(e, min ? "minimum" : "maximum", x, hlo_lowest(e, &t, min), mask);

	if (!rlx_dtype_is_float(t.dtype))
		return m;
	return hlo_or_nan(e, m, hlo_reduce(e, "or", hlo_compare(e, "NE", x, x),
					   zero(e, RLX_BOOL, 0), mask));
}

static struct hlo sum(struct hlo_emit *e, struct hlo x, uint32_t mask)
{
	return hlo_reduce(e, "add", x, zero(e, x.t.dtype, 0), mask);
}

static int64_t span(const struct hlo_type *t, uint32_t mask)
{
	int64_t n = 1;
	uint32_t d;

	for (d = 0; d < t->rank; d++)
		n *= mask >> d & 1 ? t->dim[d] : 1;
	return n;
}

/* Integers' means are truncated, of sums in 64 bits; 0 of nothing */
static struct hlo mean(struct hlo_emit *e, struct hlo x, uint32_t mask)
{
	int64_t n = span(&x.t, mask);
	struct hlo s;

	if (rlx_dtype_is_float(x.t.dtype)) {
		s = sum(e, x, mask);
		return hlo_2(e, "divide", s, hlo_number(e, &s.t, (double)n));
	}
	s = sum(e, hlo_convert(e, x, x.t.dtype == RLX_U64 ? RLX_U64 : RLX_I64), mask);
	return hlo_2(e, "divide", s, hlo_integer(e, &s.t, n ? n : 1));
}

void hlo_emit_reduce(struct hlo_emit *e)
{
	const struct rlx_op_reduce *a = e->args;
	struct hlo x = hlo_widen(e, e->in[0]), y;
	struct hlo_type t = hlo_type(&e->type[0]);
	uint32_t mask = 0, i;

	for (i = 0; i < a->axes.n; i++)
		mask |= 1u << shape_axis(a->axes.v[i], x.t.rank);
	if (!a->axes.n)
		mask = (1u << x.t.rank) - 1;
	switch (a->kind) {
	case RLX_REDUCE_SUM:
		y = sum(e, x, mask);
		break;
	case RLX_REDUCE_MEAN:
		y = mean(e, x, mask);
		break;
	case RLX_REDUCE_PROD:
		y = hlo_reduce(e, "multiply", x, zero(e, x.t.dtype, 1), mask);
		break;
	default:
		y = most(e, x, a->kind == RLX_REDUCE_MIN, mask);
	}
	e->out[0] = hlo_reshape(e, hlo_cast(e, y, t.dtype), &t);
}

/* NaN is larger than any number, with min smaller: the extremum is NaN if there is one. */
void hlo_emit_arg_reduce(struct hlo_emit *e)
{
	const struct rlx_op_arg_reduce *a = e->args;
	struct hlo x = hlo_widen(e, e->in[0]);
	const uint32_t axis = shape_axis(a->axis, x.t.rank), mask = 1u << axis;
	struct hlo_type t = x.t, y = hlo_type(&e->type[0]);
	struct hlo hit, at, beyond;

	if (x.t.dtype == RLX_BOOL)
		x = hlo_convert(e, x, RLX_U8);
	hit = hlo_compare(e, "EQ", x, hlo_spread(e, most(e, x, a->min, mask), &x.t, mask));
	if (rlx_dtype_is_float(x.t.dtype))
		hit = hlo_2(e, "or", hit, hlo_compare(e, "NE", x, x));
	t.dtype = RLX_I64;
	at = hlo_iota(e, &t, axis);
	beyond = hlo_integer(e, &t, a->last_index ? -1 : t.dim[axis]);
	at = hlo_select(e, hit, at, beyond);
	e->out[0] = hlo_reshape(e, most(e, at, !a->last_index, mask), &y);
}

/* ---- running sums and products: windows that end, or begin, at an element ---- */

static void put_pair(struct hlo_emit *e, const char *name, uint32_t rank, uint32_t axis, int64_t n)
{
	uint32_t d;

	hlo_put(&e->text, "%s = array<i64: ", name);
	for (d = 0; d < rank; d++)
		hlo_put(&e->text, "%s%lld", d ? ", " : "", (long long)(d == axis ? n : 1));
	hlo_put(&e->text, ">, ");
}

static void running(struct hlo_emit *e, const char *op, int32_t along, bool exclusive,
		    bool reverse)
{
	struct hlo x = hlo_widen(e, e->in[0]), init, y;
	const uint32_t axis = shape_axis(along, x.t.rank);
	const int64_t n = x.t.dim[axis];
	int64_t low = reverse ? exclusive ? -1 : 0 : n - !exclusive;
	int64_t high = reverse ? n - !exclusive : exclusive ? -1 : 0;
	struct hlo_type one = scalar(x.t.dtype);
	uint32_t d;

	init = zero(e, x.t.dtype, op[0] == 'm');
	y = hlo_new(e, &x.t);
	hlo_put(&e->text, "\"stablehlo.reduce_window\"(%%%u, %%%u) <{", x.id, init.id);
	put_pair(e, "window_dimensions", x.t.rank, axis, n);
	put_pair(e, "window_strides", x.t.rank, axis, 1);
	hlo_put(&e->text, "padding = dense<[");
	for (d = 0; d < x.t.rank; d++)
		hlo_put(&e->text, "%s[%lld, %lld]", d ? ", " : "",
			(long long)(d == axis ? low : 0), (long long)(d == axis ? high : 0));
	hlo_put(&e->text, "]> : tensor<%ux2xi64>}> ({\n  ^bb0(%%a: ", x.t.rank);
	hlo_put_type(&e->text, &one);
	hlo_put(&e->text, ", %%b: ");
	hlo_put_type(&e->text, &one);
	hlo_put(&e->text, "):\n    %%r = stablehlo.%s %%a, %%b : ", op);
	hlo_put_type(&e->text, &one);
	hlo_put(&e->text, "\n    stablehlo.return %%r : ");
	hlo_put_type(&e->text, &one);
	hlo_put(&e->text, "\n  }) : (");
	hlo_put_type(&e->text, &x.t);
	hlo_put(&e->text, ", ");
	hlo_put_type(&e->text, &one);
	hlo_put(&e->text, ") -> ");
	hlo_put_type(&e->text, &x.t);
	hlo_put(&e->text, "\n");
	e->out[0] = hlo_cast(e, y, e->type[0].dtype);
}

void hlo_emit_cumsum(struct hlo_emit *e)
{
	const struct rlx_op_cumsum *a = e->args;

	running(e, "add", a->axis, a->exclusive, a->reverse);
}

void hlo_emit_cumprod(struct hlo_emit *e)
{
	const struct rlx_op_cumprod *a = e->args;

	running(e, "multiply", a->axis, a->exclusive, a->reverse);
}

/* ---- softmax ---- */

static struct hlo off_largest(struct hlo_emit *e, struct hlo x, uint32_t mask)
{
	return hlo_2(e, "subtract", x, hlo_spread(e, most(e, x, false, mask), &x.t, mask));
}

void hlo_emit_softmax(struct hlo_emit *e)
{
	const struct rlx_op_softmax *a = e->args;
	struct hlo x = hlo_widen(e, e->in[0]);
	const uint32_t mask = 1u << shape_axis(a->axis, x.t.rank);
	struct hlo up = hlo_1(e, "exponential", off_largest(e, x, mask));

	up = hlo_2(e, "divide", up, hlo_spread(e, sum(e, up, mask), &x.t, mask));
	e->out[0] = hlo_cast(e, up, e->type[0].dtype);
}

void hlo_emit_log_softmax(struct hlo_emit *e)
{
	const struct rlx_op_log_softmax *a = e->args;
	struct hlo x = hlo_widen(e, e->in[0]);
	const uint32_t mask = 1u << shape_axis(a->axis, x.t.rank);
	struct hlo off = off_largest(e, x, mask);
	struct hlo all = hlo_1(e, "log", sum(e, hlo_1(e, "exponential", off), mask));

	off = hlo_2(e, "subtract", off, hlo_spread(e, all, &x.t, mask));
	e->out[0] = hlo_cast(e, off, e->type[0].dtype);
}

/* ---- sorting ---- */

/* NaN is the largest and -0 equals 0, as comparisons have it. */
static void put_order(struct hlo_emit *e, enum rlx_dtype dt, bool descending)
{
	const char *t = hlo_dtype_name(dt), *first = descending ? "b" : "a";
	const char *other = descending ? "a" : "b";
	const char *kind = rlx_dtype_is_float(dt) ? "FLOAT" : rlx_dtype_is_signed(dt) ? "SIGNED" :
			   "UNSIGNED";
	struct hlo_text *o = &e->text;

	hlo_put(o, "^bb0(%%a: tensor<%s>, %%b: tensor<%s>, %%c: tensor<i64>, %%d: tensor<i64>):\n",
		t, t);
	hlo_put(o, "    %%lt = stablehlo.compare LT, %%%s, %%%s, %s : (tensor<%s>, tensor<%s>) -> "
		"tensor<i1>\n", first, other, kind, t, t);
	if (!rlx_dtype_is_float(dt)) {
		hlo_put(o, "    stablehlo.return %%lt : tensor<i1>\n");
		return;
	}
	hlo_put(o, "    %%n = stablehlo.compare NE, %%%s, %%%s, FLOAT : (tensor<%s>, tensor<%s>) "
		"-> tensor<i1>\n", other, other, t, t);
	hlo_put(o, "    %%m = stablehlo.compare EQ, %%%s, %%%s, FLOAT : (tensor<%s>, tensor<%s>) "
		"-> tensor<i1>\n", first, first, t, t);
	hlo_put(o, "    %%o = stablehlo.and %%n, %%m : tensor<i1>\n"
		"    %%r = stablehlo.or %%lt, %%o : tensor<i1>\n"
		"    stablehlo.return %%r : tensor<i1>\n");
}

/* Stable; @pair: the elements, and where they came from */
static void sorted(struct hlo_emit *e, int32_t along, bool descending, struct hlo pair[2])
{
	struct hlo x = e->in[0], at;
	const uint32_t axis = shape_axis(along, x.t.rank);
	struct hlo_type t = x.t;
	uint32_t k;

	t.dtype = RLX_I64;
	at = hlo_iota(e, &t, axis);
	pair[0] = (struct hlo){ ++e->last, x.t };
	pair[1] = (struct hlo){ ++e->last, t };
	hlo_put(&e->text, "  %%%u, %%%u = \"stablehlo.sort\"(%%%u, %%%u) <{dimension = %u : i64, "
		"is_stable = true}> ({\n  ", pair[0].id, pair[1].id, x.id, at.id, axis);
	put_order(e, x.t.dtype, descending);
	hlo_put(&e->text, "  }) : (");
	for (k = 0; k < 2; k++) {
		hlo_put_type(&e->text, &x.t);
		hlo_put(&e->text, ", ");
		hlo_put_type(&e->text, &t);
		hlo_put(&e->text, k ? ")\n" : ") -> (");
	}
}

void hlo_emit_sort(struct hlo_emit *e)
{
	const struct rlx_op_sort *a = e->args;

	sorted(e, a->axis, a->descending, e->out);
}

void hlo_emit_topk(struct hlo_emit *e)
{
	const struct rlx_op_topk *a = e->args;
	int64_t start[HLO_RANK] = { 0 }, step[HLO_RANK], n[HLO_RANK];
	struct hlo pair[2];
	uint32_t d;

	sorted(e, a->axis, !a->smallest, pair);
	for (d = 0; d < e->type[0].rank; d++) {
		n[d] = e->type[0].dim[d];
		step[d] = 1;
	}
	e->out[0] = hlo_slice(e, pair[0], start, step, n);
	e->out[1] = hlo_slice(e, pair[1], start, step, n);
}
