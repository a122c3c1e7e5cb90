// SPDX-License-Identifier: MIT
/* Normalisations with statistics by channel, and RMS. */
#include "io/onnx/handlers.h"

/* RMSNormalization and SimplifiedLayerNormalization. */
enum rlx_status onnx_rms_norm(struct onnx_op *q)
{
	int64_t axis = onnx_attr_i(q, "axis", -1);
	float eps = (float)onnx_attr_f(q, "epsilon", 1e-5f);
	rlx_value x = onnx_in(q, 0);
	enum rlx_status st;
	uint32_t a;

	onnx_attr_i(q, "stash_type", 1);
	st = onnx_axis(q, axis, onnx_type(q, x).rank, &a);
	if (st)
		return st;
	onnx_out(q, 0, E(q, rms_norm, .x = x, .gamma = onnx_in(q, 1),
			 .axis = (int32_t)a, .eps = eps));
	return RLX_OK;
}

enum rlx_status onnx_instance_norm(struct onnx_op *q)
{
	float eps = (float)onnx_attr_f(q, "epsilon", 1e-5f);
	rlx_value x = onnx_in(q, 0);
	struct rlx_type t = onnx_type(q, x);

	onnx_attr_of(q, "consumed_inputs");
	onnx_out(q, 0, E(q, group_norm, .x = x, .gamma = onnx_in(q, 1),
			 .beta = onnx_in(q, 2),
			 .groups = t.rank > 1 ? t.dim[1] : 1, .eps = eps));
	return RLX_OK;
}

/* Opset 18 had scale and bias by group, 21 by channel. */
static rlx_value by_channel(struct onnx_op *q, rlx_value v, int64_t groups,
			    int64_t channels)
{
	struct rlx_type t = onnx_type(q, v);

	if (t.rank != 1 || t.dim[0] != groups || groups == channels ||
	    q->opset >= 21)
		return v;
	v = E(q, reshape, .x = v, .shape = RLX_INTS(groups, 1));
	v = E(q, expand, .x = v, .shape = RLX_INTS(groups, channels / groups));
	return E(q, reshape, .x = v, .shape = RLX_INTS(channels));
}

enum rlx_status onnx_group_norm(struct onnx_op *q)
{
	float eps = (float)onnx_attr_f(q, "epsilon", 1e-5f);
	int64_t groups = onnx_attr_i(q, "num_groups", 0), c;
	rlx_value x = onnx_in(q, 0), g = onnx_in(q, 1), b = onnx_in(q, 2);
	struct rlx_type t = onnx_type(q, x);

	onnx_attr_i(q, "stash_type", 1);
	c = t.rank > 1 ? t.dim[1] : 0;
	if (groups < 1 || c % groups)
		return op_err(q, RLX_ESHAPE, "%lld groups of %lld channels",
			      (long long)groups, (long long)c);
	onnx_out(q, 0, E(q, group_norm, .x = x,
			 .gamma = by_channel(q, g, groups, c),
			 .beta = by_channel(q, b, groups, c),
			 .groups = groups, .eps = eps));
	return RLX_OK;
}

/* [C] as [C, 1, ...] to stand beside x[N, C, ...]. */
static rlx_value channels(struct onnx_op *q, rlx_value v, uint32_t rank)
{
	int64_t dim[RLX_MAX_RANK];
	uint32_t i;

	for (i = 0; i + 1 < rank; i++)
		dim[i] = i ? 1 : -1;
	return rank < 3 ? v : onnx_reshape(q, v, rank - 1, dim);
}

/* old m + new (1 - m) */
static rlx_value running(struct onnx_op *q, rlx_value old, rlx_value new,
			 double momentum)
{
	return E(q, add, .a = onnx_scale(q, old, momentum),
		 .b = onnx_scale(q, new, 1 - momentum));
}

static void batch_norm_train(struct onnx_op *q, float eps, double momentum)
{
	rlx_value x = onnx_in(q, 0), mean, var, d, y;
	struct rlx_type t = onnx_type(q, x);
	int64_t axes[RLX_MAX_RANK];
	struct rlx_ints ax = { axes, 0 };
	uint32_t i;

	for (i = 0; i < t.rank; i++)
		if (i != 1)
			axes[ax.n++] = i;
	mean = onnx_reduce(q, x, ax, RLX_REDUCE_MEAN, false);
	d = E(q, sub, .a = x, .b = channels(q, mean, t.rank));
	var = onnx_reduce(q, E(q, mul, .a = d, .b = d), ax, RLX_REDUCE_MEAN,
			  false);
	y = E(q, batch_norm, .x = x, .gamma = onnx_in(q, 1),
	      .beta = onnx_in(q, 2), .mean = mean, .var = var, .eps = eps);
	onnx_out(q, 0, y);
	onnx_out(q, 1, running(q, onnx_in(q, 3), mean, momentum));
	onnx_out(q, 2, running(q, onnx_in(q, 4), var, momentum));
	/* Before opset 14: the statistics of this batch too. */
	onnx_out(q, 3, mean);
	onnx_out(q, 4, var);
}

enum rlx_status onnx_batch_norm(struct onnx_op *q)
{
	float eps = (float)onnx_attr_f(q, "epsilon", 1e-5f);
	double momentum = onnx_attr_f(q, "momentum", 0.9f);
	bool train = onnx_attr_i(q, "training_mode", 0);

	onnx_attr_of(q, "consumed_inputs");
	onnx_attr_i(q, "is_test", 0);
	if (!onnx_attr_i(q, "spatial", 1) && onnx_type(q, onnx_in(q, 0)).rank
	    > 2)
		return op_err(q, RLX_ENOSUP, "attribute spatial=0 is not "
			      "supported");
	if (train || (q->opset < 14 && q->n_out > 1)) {
		batch_norm_train(q, eps, momentum);
		return RLX_OK;
	}
	onnx_out(q, 0, E(q, batch_norm, .x = onnx_in(q, 0),
			 .gamma = onnx_in(q, 1), .beta = onnx_in(q, 2),
			 .mean = onnx_in(q, 3), .var = onnx_in(q, 4),
			 .eps = eps));
	return RLX_OK;
}

enum rlx_status onnx_lrn(struct onnx_op *q)
{
	onnx_out(q, 0, E(q, lrn, .x = onnx_in(q, 0),
			 .size = onnx_attr_i(q, "size", 0),
			 .alpha = (float)onnx_attr_f(q, "alpha", 0.0001f),
			 .beta = (float)onnx_attr_f(q, "beta", 0.75),
			 .bias = (float)onnx_attr_f(q, "bias", 1)));
	return RLX_OK;
}
