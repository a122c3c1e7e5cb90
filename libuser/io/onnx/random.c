// SPDX-License-Identifier: MIT
/* Random numbers, and Dropout. */
#include "io/onnx/handlers.h"

/*
 * A node without a seed has one of its own: by its place in the import, which is the same each
 * time. Draws of two nodes would be the same ones else.
 */
static int64_t own_seed(const struct onnx_op *q)
{
	return (int64_t)1 << 62 | (int64_t)q->b->n_node;
}

/* Seeds are floats in ONNX; ours are integers. */
static int64_t seed_of(struct onnx_op *q)
{
	double s = onnx_attr_f(q, "seed", 0) * 1000;

	if (!onnx_has(q, "seed"))
		return own_seed(q);
	return s > -0x1p62 && s < 0x1p62 ? (int64_t)s : 0;
}

/* RandomUniform, RandomNormal and the Like forms (argument: 1 = Like). */
enum rlx_status onnx_random(struct onnx_op *q)
{
	const int *arg = q->row->arg;	/* kind, like */
	int64_t to = onnx_attr_i(q, "dtype", 0);
	struct rlx_ints shape = onnx_attr_ints(q, "shape");
	bool normal = arg[0];
	struct rlx_type t = { .dtype = RLX_F32 };
	uint32_t i;

	if (arg[1]) {
		t = onnx_type(q, onnx_in(q, 0));
	} else if (shape.n > RLX_MAX_RANK) {
		return op_err(q, RLX_ENOSUP, "rank %u is over %d", shape.n,
			      RLX_MAX_RANK);
	} else {
		t.rank = shape.n;
		for (i = 0; i < shape.n; i++)
			t.dim[i] = shape.v[i];
	}
	if (to)
		t.dtype = onnx_dtype_to_rlx(to);
	onnx_out(q, 0, E(q, rng, .type = t,
		.kind = normal ? RLX_RNG_NORMAL : RLX_RNG_UNIFORM,
		.a = normal ? onnx_attr_f(q, "mean", 0) :
		     onnx_attr_f(q, "low", 0),
		.b = normal ? onnx_attr_f(q, "scale", 1) :
		     onnx_attr_f(q, "high", 1), .seed = seed_of(q)));
	return RLX_OK;
}

const int onnx_random_kinds[4][2] = {
	{ 0, 0 }, { 1, 0 }, { 0, 1 }, { 1, 1 },
};

enum rlx_status onnx_bernoulli(struct onnx_op *q)
{
	int64_t to = onnx_attr_i(q, "dtype", 0);
	rlx_value p = onnx_in(q, 0), u;
	struct rlx_type t = onnx_type(q, p);

	u = E(q, rng, .type = t, .kind = RLX_RNG_UNIFORM, .a = 0, .b = 1,
	      .seed = seed_of(q));
	onnx_out(q, 0, E(q, cast, .x = E(q, lt, .a = u, .b = p),
			 .to = to ? onnx_dtype_to_rlx(to) : t.dtype));
	return RLX_OK;
}

/* Random masks: x mask / (1 - ratio). */
static void dropout_train(struct onnx_op *q, rlx_value x, double ratio)
{
	struct rlx_type t = onnx_type(q, x);
	rlx_value u, mask;

	u = E(q, rng, .type = { .dtype = RLX_F32, .rank = t.rank, .dim = {
		      t.dim[0], t.dim[1], t.dim[2], t.dim[3], t.dim[4],
		      t.dim[5], t.dim[6], t.dim[7] } },
	      .kind = RLX_RNG_UNIFORM, .a = 0, .b = 1,
	      .seed = onnx_has(q, "seed") ? onnx_attr_i(q, "seed", 0) : own_seed(q));
	mask = E(q, ge, .a = u, .b = onnx_num(q, RLX_F32, ratio));
	onnx_out(q, 0, E(q, mul, .a = onnx_scale(q, x, 1 / (1 - ratio)),
			 .b = E(q, cast, .x = mask, .to = t.dtype)));
	onnx_out(q, 1, mask);
}

enum rlx_status onnx_dropout(struct onnx_op *q)
{
	rlx_value x, one;
	int64_t train = 0;
	const double *ratio;
	enum rlx_status st;
	struct rlx_type t;
	uint32_t n;

	onnx_attr_of(q, "consumed_inputs");
	onnx_attr_of(q, "is_test");
	onnx_attr_i(q, "seed", 0);
	onnx_attr_f(q, "ratio", 0.5);
	if (q->opset >= 12) {
		st = onnx_int(q, 2, 0, &train);
		if (!st)
			st = onnx_floats(q, 1, &ratio, &n);
		if (st)
			return st;
		if (train && (!n || ratio[0] != 0)) {
			dropout_train(q, onnx_in(q, 0), n ? ratio[0] : 0.5);
			return RLX_OK;
		}
	}
	onnx_identity(q);
	if (q->n_out < 2)
		return RLX_OK;
	x = onnx_in(q, 0);
	t = onnx_type(q, x);
	one = onnx_num(q, q->opset >= 10 ? RLX_BOOL : t.dtype, 1);
	onnx_out(q, 1, E(q, expand, .x = one, .shape = { t.dim, t.rank }));
	return RLX_OK;
}
