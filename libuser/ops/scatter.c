// SPDX-License-Identifier: MIT
/* What scatter_elements and scatter_nd share. */
#include "ops/scatter.h"

static bool in_double(enum rlx_dtype dt, int reduction)
{
	return reduction != RLX_SCATTER_NONE && !el_is_int(dt);
}

size_t op_scatter_scratch(const struct rlx_infer *q, int reduction)
{
	if (!in_double(q->out[0].dtype, reduction))
		return 0;
	return (size_t)rlx_type_count(&q->out[0]) * sizeof(double) + sizeof(double);
}

void op_scatter_begin(struct rlx_eval *q, int reduction)
{
	int64_t n = rlx_type_count(&q->out[0].type), i;
	double *acc = q->scratch;

	if (n)
		memcpy(q->out[0].data, q->in[0].data,
		       (size_t)rlx_type_bytes(&q->out[0].type));
	if (in_double(q->out[0].type.dtype, reduction))
		for (i = 0; i < n; i++)
			acc[i] = el_get(&q->in[0], i);
}

static double join(int reduction, double x, double u)
{
	switch (reduction) {
	case RLX_SCATTER_ADD: return x + u;
	case RLX_SCATTER_MUL: return x * u;
	case RLX_SCATTER_MAX: return isnan(u) || u > x ? u : x;
	default: return isnan(u) || u < x ? u : x;
	}
}

static int64_t join_int(const struct rlx_eval *q, int reduction, int64_t at,
			int64_t from)
{
	int64_t x = el_geti(&q->out[0], at), u = el_geti(&q->in[2], from);
	bool less = q->out[0].type.dtype == RLX_U64 ? (uint64_t)x < (uint64_t)u : x < u;

	switch (reduction) {
	case RLX_SCATTER_ADD: return (int64_t)((uint64_t)x + (uint64_t)u);
	case RLX_SCATTER_MUL: return (int64_t)((uint64_t)x * (uint64_t)u);
	case RLX_SCATTER_MAX: return less ? u : x;
	default: return less ? x : u;
	}
}

void op_scatter_one(struct rlx_eval *q, int reduction, int64_t at, int64_t from)
{
	double *acc = q->scratch;

	if (reduction == RLX_SCATTER_NONE)
		el_copy(&q->out[0], at, &q->in[2], from);
	else if (el_is_int(q->out[0].type.dtype))
		el_seti(&q->out[0], at, join_int(q, reduction, at, from));
	else
		acc[at] = join(reduction, acc[at], el_get(&q->in[2], from));
}

void op_scatter_end(struct rlx_eval *q, int reduction)
{
	int64_t n = rlx_type_count(&q->out[0].type), i;
	double *acc = q->scratch;

	if (in_double(q->out[0].type.dtype, reduction))
		for (i = 0; i < n; i++)
			el_set(&q->out[0], i, acc[i]);
}

enum rlx_status op_scatter_infer(struct rlx_infer *q, int reduction)
{
	enum rlx_status st = op_need_enum(q, "reduction", reduction,
					  RLX_SCATTER_MIN + 1);

	if (!st)
		st = op_need_index(q, 1);
	if (st)
		return st;
	if (q->in[2]->dtype != q->in[0]->dtype)
		return op_fail(q, RLX_ETYPE, "the updates are %s, x is %s; cast one",
			       rlx_dtype_name(q->in[2]->dtype),
			       rlx_dtype_name(q->in[0]->dtype));
	if (q->in[0]->dtype == RLX_C64 && reduction != RLX_SCATTER_NONE)
		return op_fail(q, RLX_ETYPE, "c64 cannot be combined here");
	return RLX_OK;
}

static rlx_value hit(struct rlx_graph *g, rlx_value d, rlx_value a, rlx_value b)
{
	return rlx_emit(g, where, .cond = rlx_emit(g, eq, .a = a, .b = b), .a = d,
			.b = op_const_like(g, d, 0));
}

static rlx_value is_zero(struct rlx_graph *g, rlx_value v)
{
	return rlx_emit(g, eq, .a = v, .b = op_const_like(g, v, 0));
}

static rlx_value select_const(struct rlx_graph *g, rlx_value cond, double a, rlx_value b)
{
	return rlx_emit(g, where, .cond = cond, .a = op_const_like(g, b, a), .b = b);
}

/* The op itself once more, with other operands: of either scatter. */
static rlx_value again(struct rlx_grad *q, rlx_value x, rlx_value updates, int reduction)
{
	const struct rlx_op_scatter_elements *e = q->args;

	if (q->def->index == RLX_OP_scatter_nd)
		return rlx_emit(q->g, scatter_nd, .x = x, .indices = q->in[1],
				.updates = updates, .reduction = reduction);
	return rlx_emit(q->g, scatter_elements, .x = x, .indices = q->in[1], .updates = updates,
			.axis = e->axis, .reduction = reduction);
}

/* @dy_p over factor @v; its place has @zeros factors that are 0, which @dy_p leaves out. */
static rlx_value of_factor(struct rlx_graph *g, rlx_value dy_p, rlx_value zeros, rlx_value v)
{
	rlx_value zero = is_zero(g, v), none = op_const_like(g, v, 0), one, d;

	d = rlx_emit(g, div, .a = dy_p, .b = select_const(g, zero, 1, v));
	one = rlx_emit(g, bit_and, .a = zero,
		       .b = rlx_emit(g, eq, .a = zeros, .b = op_const_like(g, zeros, 1)));
	one = rlx_emit(g, where, .cond = one, .a = dy_p, .b = none);
	return rlx_emit(g, where, .cond = is_zero(g, zeros), .a = d, .b = one);
}

/*
 * A place is the product of x and of updates, in any number. One 0 among them: all get 0 but
 * the 0 itself, which gets the product of the rest; several: all get 0.
 */
static void mul_vjp(struct rlx_grad *q, op_scatter_pick *pick)
{
	struct rlx_graph *g = q->g;
	rlx_value x = q->in[0], u = q->in[2], zx = is_zero(g, x), zu = is_zero(g, u), zeros, p;
	enum rlx_dtype dt = op_type(g, x).dtype;

	zeros = again(q, op_cast(g, zx, dt), op_cast(g, zu, dt), RLX_SCATTER_ADD);
	p = again(q, select_const(g, zx, 1, x), select_const(g, zu, 1, u), RLX_SCATTER_MUL);
	p = rlx_emit(g, mul, .a = q->d_out[0], .b = p);
	q->d_in[0] = of_factor(g, p, zeros, x);
	q->d_in[2] = of_factor(g, pick(q, p), pick(q, zeros), u);
}

void op_scatter_vjp(struct rlx_grad *q, int reduction, op_scatter_pick *pick)
{
	rlx_value dy = q->d_out[0];

	switch (reduction) {
	case RLX_SCATTER_ADD:
		q->d_in[0] = dy;
		q->d_in[2] = pick(q, dy);
		break;
	case RLX_SCATTER_MUL:
		mul_vjp(q, pick);
		break;
	default:
		q->d_in[0] = hit(q->g, dy, q->in[0], q->out[0]);
		q->d_in[2] = hit(q->g, pick(q, dy), q->in[2], pick(q, q->out[0]));
	}
}
