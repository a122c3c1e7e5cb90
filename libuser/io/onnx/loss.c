// SPDX-License-Identifier: MIT
/* Losses and optimizer steps. */
#include "io/onnx/handlers.h"

/* Where the label is to be ignored; none if nothing is. */
static rlx_value ignored(struct onnx_op *q, rlx_value label)
{
	int64_t v = onnx_attr_i(q, "ignore_index", 0);

	if (!onnx_has(q, "ignore_index"))
		return RLX_NONE;
	return E(q, eq, .a = label,
		 .b = onnx_num(q, onnx_type(q, label).dtype, (double)v));
}

static rlx_value zero_where(struct onnx_op *q, rlx_value cond, rlx_value x)
{
	if (!cond.id)
		return x;
	return E(q, where, .cond = cond,
		 .a = onnx_num(q, onnx_type(q, x).dtype, 0), .b = x);
}

/* -log_prob at the label, weighted and reduced; x is [N, C, ...]. */
static rlx_value nll(struct onnx_op *q, rlx_value x, rlx_value label,
		     rlx_value weight)
{
	static const char *const how[] = { "mean", "sum", "none", NULL };
	int mode = onnx_attr_enum(q, "reduction", how, 0);
	rlx_value skip = ignored(q, label), loss, w = RLX_NONE, idx;
	struct rlx_type t = onnx_type(q, label), tx = onnx_type(q, x), ti = t;
	uint32_t i;

	label = zero_where(q, skip, label);
	ti.rank = tx.rank;
	for (i = 0; i < tx.rank; i++)
		ti.dim[i] = i == 1 ? 1 : t.dim[i ? i - 1 : 0];
	idx = onnx_reshape(q, label, ti.rank, ti.dim);
	loss = E(q, gather_elements, .x = x, .indices = idx, .axis = 1);
	loss = E(q, neg, .x = onnx_reshape(q, loss, t.rank, t.dim));
	if (weight.id)
		w = E(q, gather, .x = weight, .indices = label, .axis = 0);
	else if (skip.id)
		w = E(q, expand, .x = onnx_num(q, tx.dtype, 1),
		      .shape = { t.dim, t.rank });
	if (w.id) {
		w = zero_where(q, skip, w);
		loss = E(q, mul, .a = loss, .b = w);
	}
	if (mode == 2)
		return loss;
	if (mode == 1 || !w.id)
		return onnx_reduce(q, loss, (struct rlx_ints){ 0 }, mode ?
				   RLX_REDUCE_SUM : RLX_REDUCE_MEAN, false);
	loss = onnx_reduce(q, loss, (struct rlx_ints){ 0 }, RLX_REDUCE_SUM,
			   false);
	return E(q, div, .a = loss, .b = onnx_reduce(q, w,
		 (struct rlx_ints){ 0 }, RLX_REDUCE_SUM, false));
}

static enum rlx_status loss_shapes(struct onnx_op *q)
{
	struct rlx_type x = onnx_type(q, onnx_in(q, 0));
	struct rlx_type t = onnx_type(q, onnx_in(q, 1));
	uint32_t i;

	if (x.rank < 2 || t.rank + 1 != x.rank)
		return op_err(q, RLX_ESHAPE, "scores of rank %u, labels of "
			      "rank %u", x.rank, t.rank);
	for (i = 0; i < t.rank; i++)
		if (t.dim[i] != x.dim[i ? i + 1 : 0])
			return op_err(q, RLX_ESHAPE, "dim %u of the labels "
				      "does not fit the scores", i);
	return RLX_OK;
}

enum rlx_status onnx_nll_loss(struct onnx_op *q)
{
	enum rlx_status st = loss_shapes(q);

	if (st)
		return st;
	onnx_out(q, 0, nll(q, onnx_in(q, 0), onnx_in(q, 1), onnx_in(q, 2)));
	return RLX_OK;
}

enum rlx_status onnx_softmax_cross_entropy(struct onnx_op *q)
{
	enum rlx_status st = loss_shapes(q);
	rlx_value p;

	if (st)
		return st;
	p = E(q, log_softmax, .x = onnx_in(q, 0), .axis = 1);
	onnx_out(q, 0, nll(q, p, onnx_in(q, 1), onnx_in(q, 2)));
	onnx_out(q, 1, p);
	return RLX_OK;
}

/* Inputs: R, T, then @parts groups of n tensors each. Returns n. */
static uint32_t group_size(struct onnx_op *q, uint32_t parts)
{
	return q->n_in > 2 && (q->n_in - 2) % parts == 0 &&
	       q->n_out == (q->n_in - 2) / parts * (parts - 1) ?
	       (q->n_in - 2) / parts : 0;
}

static rlx_value madd(struct onnx_op *q, rlx_value a, double ka, rlx_value b,
		      double kb)
{
	return E(q, add, .a = onnx_scale(q, a, ka), .b = onnx_scale(q, b, kb));
}

enum rlx_status onnx_adagrad(struct onnx_op *q)
{
	double eps = onnx_attr_f(q, "epsilon", 1e-6f);
	double norm = onnx_attr_f(q, "norm_coefficient", 0);
	double decay = onnx_attr_f(q, "decay_factor", 0);
	uint32_t n = group_size(q, 3), i;
	rlx_value r, t, x, g, h;

	if (!n)
		return op_err(q, RLX_EPARSE, "%u inputs, %u outputs", q->n_in,
			      q->n_out);
	r = onnx_in(q, 0);
	t = E(q, cast, .x = onnx_in(q, 1), .to = onnx_type(q, r).dtype);
	r = E(q, div, .a = r, .b = onnx_shift(q, onnx_scale(q, t, decay), 1));
	for (i = 0; i < n; i++) {
		x = onnx_in(q, 2 + i);
		g = madd(q, onnx_in(q, 2 + n + i), 1, x, norm);
		h = E(q, add, .a = onnx_in(q, 2 + 2 * n + i),
		      .b = E(q, mul, .a = g, .b = g));
		g = E(q, div, .a = g,
		      .b = onnx_shift(q, E(q, sqrt, .x = h), eps));
		onnx_out(q, i, E(q, sub, .a = x,
				 .b = E(q, mul, .a = r, .b = g)));
		onnx_out(q, n + i, h);
	}
	return RLX_OK;
}

/* r sqrt(1 - beta^t) / (1 - alpha^t), r itself for the first step (t = 0) */
static rlx_value adam_rate(struct onnx_op *q, double alpha, double beta)
{
	rlx_value r = onnx_in(q, 0), t = onnx_in(q, 1), a, b, one;
	enum rlx_dtype dt = onnx_type(q, r).dtype;

	one = onnx_num(q, dt, 1);
	t = E(q, cast, .x = t, .to = dt);
	a = E(q, pow, .a = onnx_num(q, dt, alpha), .b = t);
	b = E(q, pow, .a = onnx_num(q, dt, beta), .b = t);
	a = E(q, sub, .a = one, .b = a);
	b = E(q, sqrt, .x = E(q, sub, .a = one, .b = b));
	return E(q, where, .cond = E(q, gt, .a = t, .b = onnx_num(q, dt, 0)),
		 .a = E(q, mul, .a = r, .b = E(q, div, .a = b, .b = a)),
		 .b = r);
}

enum rlx_status onnx_adam(struct onnx_op *q)
{
	double alpha = onnx_attr_f(q, "alpha", 0.9f);
	double beta = onnx_attr_f(q, "beta", 0.999f);
	double eps = onnx_attr_f(q, "epsilon", 1e-6f);
	double norm = onnx_attr_f(q, "norm_coefficient", 0);
	double post = onnx_attr_f(q, "norm_coefficient_post", 0);
	uint32_t n = group_size(q, 4), i;
	rlx_value r, x, g, v, h;

	if (!n)
		return op_err(q, RLX_EPARSE, "%u inputs, %u outputs", q->n_in,
			      q->n_out);
	r = adam_rate(q, alpha, beta);
	for (i = 0; i < n; i++) {
		x = onnx_in(q, 2 + i);
		g = madd(q, onnx_in(q, 2 + n + i), 1, x, norm);
		v = madd(q, onnx_in(q, 2 + 2 * n + i), alpha, g, 1 - alpha);
		h = madd(q, onnx_in(q, 2 + 3 * n + i), beta,
			 E(q, mul, .a = g, .b = g), 1 - beta);
		g = E(q, div, .a = v,
		      .b = onnx_shift(q, E(q, sqrt, .x = h), eps));
		x = E(q, sub, .a = x, .b = E(q, mul, .a = r, .b = g));
		onnx_out(q, i, onnx_scale(q, x, 1 - post));
		onnx_out(q, n + i, v);
		onnx_out(q, 2 * n + i, h);
	}
	return RLX_OK;
}

enum rlx_status onnx_momentum(struct onnx_op *q)
{
	static const char *const modes[] = { "standard", "nesterov", NULL };
	bool nesterov = onnx_attr_enum(q, "mode", modes, 0);
	double alpha = onnx_attr_f(q, "alpha", 0);
	double beta = onnx_attr_f(q, "beta", 0);
	double norm = onnx_attr_f(q, "norm_coefficient", 0);
	uint32_t n = group_size(q, 3), i;
	rlx_value r, t, x, g, v, b;
	enum rlx_dtype dt;

	if (!n)
		return op_err(q, RLX_EPARSE, "%u inputs, %u outputs", q->n_in,
			      q->n_out);
	r = onnx_in(q, 0);
	dt = onnx_type(q, r).dtype;
	t = onnx_in(q, 1);
	/* The first step takes the gradient whole. */
	b = E(q, where, .cond = E(q, gt, .a = t,
	      .b = onnx_num(q, onnx_type(q, t).dtype, 0)),
	      .a = onnx_num(q, dt, beta), .b = onnx_num(q, dt, 1));
	for (i = 0; i < n; i++) {
		x = onnx_in(q, 2 + i);
		g = madd(q, onnx_in(q, 2 + n + i), 1, x, norm);
		v = E(q, add, .a = onnx_scale(q, onnx_in(q, 2 + 2 * n + i),
		      alpha), .b = E(q, mul, .a = b, .b = g));
		g = nesterov ? madd(q, g, 1, v, alpha) : v;
		onnx_out(q, i, E(q, sub, .a = x,
				 .b = E(q, mul, .a = r, .b = g)));
		onnx_out(q, n + i, v);
	}
	return RLX_OK;
}
