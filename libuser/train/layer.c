// SPDX-License-Identifier: MIT
/* Layers that training needs a form of its own of, or that are tedious to write. */
#include <string.h>

#include "rlx/custom.h"
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

/* [c] as [1, c, 1, ..] of @rank, to broadcast against x. */
static rlx_value channels(struct rlx_graph *g, rlx_value x, uint32_t rank)
{
	int64_t shape[RLX_MAX_RANK], c = type_of(g, x).dim[0];
	uint32_t i;

	for (i = 0; i < rank; i++)
		shape[i] = i == 1 ? c : 1;
	return rlx_emit(g, reshape, .x = x, .shape = { shape, rank });
}

/* All axes but that of channels; how many. */
static uint32_t but_channels(struct rlx_graph *g, rlx_value x, int64_t axes[RLX_MAX_RANK])
{
	uint32_t i, k = 0, rank = type_of(g, x).rank;

	for (i = 0; i < rank; i++)
		if (i != 1)
			axes[k++] = i;
	return k;
}

/* The mean of (x - centre)^2, or sums of (x - centre) by and of by; [c] are centre and results. */
static rlx_value moment(struct rlx_graph *g, rlx_value x, rlx_value by, rlx_value centre)
{
	int64_t axes[RLX_MAX_RANK];
	uint32_t k = but_channels(g, x, axes);

	return rlx_emit(g, sum_squares, .x = x, .by = by, .axes = { axes, k }, .mean = !by.id,
			.sum_by = by.id, .centre = channels(g, centre, type_of(g, x).rank));
}

static rlx_value mean_of(struct rlx_graph *g, rlx_value x)
{
	int64_t axes[RLX_MAX_RANK];
	uint32_t k = but_channels(g, x, axes);

	return rlx_emit(g, reduce, .x = x, .axes = { axes, k }, .kind = RLX_REDUCE_MEAN);
}

/* The running statistic moves by momentum to the batch's, which gets no gradient for it. */
static void move(struct rlx_graph *g, struct rlx_vars *v, rlx_value running, rlx_value batch,
		 double momentum)
{
	batch = scaled(g, rlx_emit(g, stop_gradient, .x = batch), momentum);
	rlx_var_next(g, v, running, rlx_emit(g, add, .a = scaled(g, running, 1 - momentum),
					     .b = batch));
}

/* What a batch norm is made of. */
struct bn {
	struct rlx_bn	how;
	rlx_value	gamma, beta, mean, var;
};

/* 1 / deviation. */
static rlx_value inverse(struct rlx_graph *g, rlx_value var, double eps)
{
	return rlx_emit(g, rsqrt, .x = plus(g, var, eps));
}

/* By pointwise ops, so that they fuse with their neighbours; @x has mean 0. */
static rlx_value apply(struct rlx_graph *g, rlx_value x, rlx_value var, rlx_value gamma,
		       rlx_value beta, double eps)
{
	rlx_value scale = rlx_emit(g, mul, .a = gamma, .b = inverse(g, var, eps));
	uint32_t rank = type_of(g, x).rank;

	x = rlx_emit(g, mul, .a = x, .b = channels(g, scale, rank));
	return rlx_emit(g, add, .a = x, .b = channels(g, beta, rank));
}

static rlx_value centred(struct rlx_graph *g, rlx_value x, rlx_value mean)
{
	return rlx_emit(g, sub, .a = x, .b = channels(g, mean, type_of(g, x).rank));
}

/* What the variance is of is what is scaled. */
static void bn_body(struct rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value beta, double eps)
{
	rlx_value mean = mean_of(g, x), var = moment(g, x, RLX_NONE, mean);

	rlx_output(g, "y", apply(g, centred(g, x, mean), var, gamma, beta, eps));
	rlx_output(g, "mean", mean);
	rlx_output(g, "var", var);
}

/*
 * By two sums of dy: rules of the single ops would sum a third, which is 0 but for rounding, and
 * write four tensors as large as x. Statistics are made as above, so that they are made once.
 */
static void bn_vjp(struct rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value dy, double eps)
{
	rlx_value sum, xsum, inv, scale, dx, mean = mean_of(g, x);
	struct rlx_type t = type_of(g, x);
	double n = t.dim[1] ? (double)rlx_type_count(&t) / (double)t.dim[1] : 1;

	inv = inverse(g, moment(g, x, RLX_NONE, mean), eps);
	scale = channels(g, rlx_emit(g, mul, .a = gamma, .b = inv), t.rank);
	xsum = moment(g, x, dy, mean);
	sum = rlx_out(g, xsum, 1);
	xsum = rlx_emit(g, mul, .a = xsum, .b = inv);
	rlx_output(g, "d_beta", sum);
	rlx_output(g, "d_gamma", xsum);
	/* scale (dy - sum / n - (x - mean) xsum inv / n), of which x - mean is nowhere */
	xsum = rlx_emit(g, mul, .a = scaled(g, xsum, 1 / n), .b = inv);
	sum = rlx_emit(g, sub, .a = scaled(g, sum, 1 / n),
		       .b = rlx_emit(g, mul, .a = mean, .b = xsum));
	x = rlx_emit(g, mul, .a = x, .b = channels(g, xsum, t.rank));
	dx = rlx_emit(g, sub, .a = centred(g, dy, sum), .b = x);
	rlx_output(g, "d_x", rlx_emit(g, mul, .a = dx, .b = scale));
}

/* The layer with statistics of the batch, or (@vjp) its gradient, as a graph of its own. */
static struct rlx_graph *bn_graph(struct rlx_type x, struct rlx_type c, double eps, bool vjp)
{
	struct rlx_graph *g = rlx_graph_new("batch_norm");
	rlx_value in = rlx_input(g, "x", x), gamma = rlx_input(g, "gamma", c);

	if (vjp)
		bn_vjp(g, in, gamma, rlx_input(g, "d_y", x), eps);
	else
		bn_body(g, in, gamma, rlx_input(g, "beta", c), eps);
	if (g && rlx_graph_finish(g)) {
		rlx_graph_put(g);
		g = NULL;
	}
	return g;
}

static rlx_value bn_train(struct rlx_graph *g, struct rlx_vars *v, rlx_value x, const struct bn *b)
{
	struct rlx_type t = type_of(g, x), c = type_of(g, b->gamma);
	double n = (double)rlx_type_count(&t) / (t.dim[1] ? (double)t.dim[1] : 1);
	struct rlx_graph *body = bn_graph(t, c, b->how.eps, false);
	struct rlx_graph *vjp = bn_graph(t, c, b->how.eps, true);
	rlx_value out[3] = { { 0 } };

	if (body && vjp)
		rlx_call(g, body, RLX_VALUES(x, b->gamma, b->beta), vjp, out);
	else
		rlx_graph_fail(g, RLX_ENOMEM, "batch_norm: out of memory");
	rlx_graph_put(body);
	rlx_graph_put(vjp);
	move(g, v, b->mean, out[1], b->how.momentum);
	move(g, v, b->var, scaled(g, out[2], n > 1 ? n / (n - 1) : 1), b->how.momentum);
	return out[0];
}

rlx_value rlx_batch_norm(struct rlx_graph *g, struct rlx_vars *v, rlx_value x, bool train,
			 const struct rlx_bn *given)
{
	struct bn b = { .how.eps = 0 };
	struct rlx_type t = type_of(g, x), c = rlx_type(RLX_F32, t.rank > 1 ? t.dim[1] : 1);
	uint32_t i;

	if (given)
		memcpy(&b.how, given, given->size < sizeof(b.how) ? given->size : sizeof(b.how));
	b.how.eps = b.how.eps != 0 ? b.how.eps : 1e-5;
	b.how.momentum = b.how.momentum != 0 ? b.how.momentum : 0.1;
	if (!g || rlx_graph_error(g)->status)
		return RLX_NONE;
	if (t.rank < 2 || !(b.how.eps > 0) || !(b.how.momentum > 0 && b.how.momentum <= 1) ||
	    (given && !given->size)) {
		rlx_graph_fail(g, RLX_EINVAL, "batch_norm: x [n, c, ..] is needed, eps above 0, "
			       "momentum within 0 and 1, and a size");
		return RLX_NONE;
	}
	for (i = 0; train && i < t.rank; i++)
		if (t.dim[i] < 0) {
			rlx_graph_fail(g, RLX_EINVAL, "batch_norm: the size of x along axis %u is "
				       "known later; in training the running variance is scaled by "
				       "how many elements a mean is of, which takes plain sizes", i);
			return RLX_NONE;
		}
	c.dtype = t.dtype == RLX_F64 ? RLX_F64 : RLX_F32;
	b.gamma = rlx_var(g, v, "weight", c, RLX_ONES, RLX_VAR_NO_DECAY);
	b.beta = rlx_var(g, v, "bias", c, RLX_ZEROS, RLX_VAR_NO_DECAY);
	b.mean = rlx_var(g, v, "running_mean", c, RLX_ZEROS, RLX_VAR_BUFFER);
	b.var = rlx_var(g, v, "running_var", c, RLX_ONES, RLX_VAR_BUFFER);
	x = cast_to(g, x, c.dtype);
	x = train ? bn_train(g, v, x, &b) :
	    apply(g, centred(g, x, b.mean), b.var, b.gamma, b.beta, b.how.eps);
	return cast_to(g, x, t.dtype);
}
