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

void op_scatter_vjp(struct rlx_grad *q, int reduction, op_scatter_pick *pick)
{
	rlx_value dy = q->d_out[0], p;

	switch (reduction) {
	case RLX_SCATTER_ADD:
		q->d_in[0] = dy;
		q->d_in[2] = pick(q, dy);
		break;
	case RLX_SCATTER_MUL:	/* not defined at zeros */
		p = rlx_emit(q->g, mul, .a = dy, .b = q->out[0]);
		q->d_in[0] = rlx_emit(q->g, div, .a = p, .b = q->in[0]);
		q->d_in[2] = rlx_emit(q->g, div, .a = pick(q, p), .b = q->in[2]);
		break;
	default:
		q->d_in[0] = hit(q->g, dy, q->in[0], q->out[0]);
		q->d_in[2] = hit(q->g, pick(q, dy), q->in[2], pick(q, q->out[0]));
	}
}
