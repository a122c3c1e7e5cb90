// SPDX-License-Identifier: MIT
/* Layers that training needs a form of its own of, or that are tedious to write. */
#include <string.h>

#include "train/vars.h"

rlx_value rlx_train_count(struct rlx_graph *g, struct rlx_vars *v)
{
	return vars_state(g, v, "train.", "step", rlx_scalar(RLX_I64), RLX_ZEROS);
}

rlx_value rlx_dropout(struct rlx_graph *g, rlx_value x, double p, rlx_value call, int64_t id)
{
	struct rlx_type t = type_of(g, x), draw = t;
	rlx_value u;

	if (!g || rlx_graph_error(g)->status)
		return RLX_NONE;
	if (!(p >= 0 && p < 1) || !rlx_dtype_is_float(t.dtype)) {
		rlx_graph_fail(g, RLX_EINVAL, "dropout: p is %g, from 0 on and below 1 is needed, "
			       "and x must be a float", p);
		return RLX_NONE;
	}
	if (p == 0)
		return x;
	draw.dtype = RLX_F32;	/* 16 bits have too few numbers below 1 */
	u = rlx_emit(g, rng, .type = draw, .seed = id, .call = call);
	return rlx_emit(g, where, .cond = rlx_emit(g, ge, .a = u, .b = like_const(g, u, p)),
			.a = scaled(g, x, 1 / (1 - p)), .b = like_const(g, x, 0));
}

void rlx_split(struct rlx_graph *g, rlx_value x, int axis, unsigned int n, rlx_value *out)
{
	struct rlx_type t = type_of(g, x);
	int64_t ax = axis < 0 ? axis + (int64_t)t.rank : axis, part;
	unsigned int i;

	if (!g || rlx_graph_error(g)->status)
		return;
	if (ax < 0 || ax >= (int64_t)t.rank || !n || t.dim[ax] % n) {
		rlx_graph_fail(g, RLX_ESHAPE, "split: axis %d of rank %u is not there, or not a "
			       "multiple of %u parts", axis, t.rank, n);
		return;
	}
	part = t.dim[ax] / n;
	for (i = 0; i < n; i++)
		out[i] = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(ax),
				  .starts = RLX_INTS(part * i), .ends = RLX_INTS(part * (i + 1)));
}

/* Statistics of the batch and what the running ones become. */
static void batch_statistics(struct rlx_graph *g, struct rlx_vars *v, rlx_value x,
			     const struct rlx_bn *how, rlx_value running[2])
{
	struct rlx_type t = type_of(g, x);
	int64_t axes[RLX_MAX_RANK], shape[RLX_MAX_RANK], n;
	rlx_value mean, var, s[2];
	uint32_t i, k = 0;

	for (i = 0; i < t.rank; i++) {
		shape[i] = i == 1 ? t.dim[1] : 1;
		if (i != 1)
			axes[k++] = i;
	}
	n = rlx_type_count(&t) / (t.dim[1] ? t.dim[1] : 1);
	mean = rlx_emit(g, reduce, .x = x, .axes = { axes, k }, .kind = RLX_REDUCE_MEAN);
	x = rlx_emit(g, sub, .a = x, .b = rlx_emit(g, reshape, .x = mean,
						  .shape = { shape, t.rank }));
	var = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = x, .b = x), .axes = { axes, k },
		       .kind = RLX_REDUCE_MEAN);
	s[0] = rlx_emit(g, stop_gradient, .x = mean);
	s[1] = scaled(g, rlx_emit(g, stop_gradient, .x = var),
		      n > 1 ? (double)n / (double)(n - 1) : 1);
	for (i = 0; i < 2; i++)
		rlx_var_next(g, v, running[i], rlx_emit(g, add,
			     .a = scaled(g, running[i], 1 - how->momentum),
			     .b = scaled(g, s[i], how->momentum)));
	running[0] = mean;
	running[1] = var;
}

rlx_value rlx_batch_norm(struct rlx_graph *g, struct rlx_vars *v, rlx_value x, bool train,
			 const struct rlx_bn *given)
{
	struct rlx_bn how = { 0 };
	struct rlx_type t = type_of(g, x), c = rlx_type(RLX_F32, t.rank > 1 ? t.dim[1] : 1);
	rlx_value gamma, beta, s[2], y;

	if (given)
		memcpy(&how, given, given->size < sizeof(how) ? given->size : sizeof(how));
	how.eps = how.eps != 0 ? how.eps : 1e-5;
	how.momentum = how.momentum != 0 ? how.momentum : 0.1;
	if (!g || rlx_graph_error(g)->status)
		return RLX_NONE;
	if (t.rank < 2 || !(how.eps > 0) || !(how.momentum > 0 && how.momentum <= 1)) {
		rlx_graph_fail(g, RLX_EINVAL, "batch_norm: x [n, c, ..] is needed, eps above 0, "
			       "momentum within 0 and 1");
		return RLX_NONE;
	}
	c.dtype = t.dtype == RLX_F64 ? RLX_F64 : RLX_F32;
	gamma = rlx_var(g, v, "weight", c, RLX_ONES, RLX_VAR_NO_DECAY);
	beta = rlx_var(g, v, "bias", c, RLX_ZEROS, RLX_VAR_NO_DECAY);
	s[0] = rlx_var(g, v, "running_mean", c, RLX_ZEROS, RLX_VAR_BUFFER);
	s[1] = rlx_var(g, v, "running_var", c, RLX_ONES, RLX_VAR_BUFFER);
	y = cast_to(g, x, c.dtype);
	if (train)
		batch_statistics(g, v, y, &how, s);
	y = rlx_emit(g, batch_norm, .x = y, .gamma = gamma, .beta = beta, .mean = s[0],
		     .var = s[1], .eps = (float)how.eps);
	return cast_to(g, y, t.dtype);
}
