// SPDX-License-Identifier: MIT
/* The graph of small_net.h. */
#include "rlx/graph.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

/* A constant of values that depend on @seed alone. */
static rlx_value weight(struct rlx_graph *g, uint64_t seed, struct rlx_type t)
{
	float v[SMALL_DIM * SMALL_DIM * 4];
	int64_t n = rlx_type_count(&t), i;

	for (i = 0; i < n && i < (int64_t)(sizeof(v) / sizeof(v[0])); i++)
		v[i] = (float)rlx_test_uniform(&seed, -0.4, 0.4);
	return rlx_constant(g, t, v);
}

static rlx_value linear(struct rlx_graph *g, rlx_value x, uint64_t seed, int64_t in,
			int64_t out)
{
	rlx_value w = weight(g, seed, rlx_type(RLX_F32, in, out));
	rlx_value b = weight(g, seed + 1, rlx_type(RLX_F32, out));

	return rlx_emit(g, add, .a = rlx_emit(g, matmul, .a = x, .b = w), .b = b);
}

static rlx_value mlp(struct rlx_graph *g, rlx_value x)
{
	rlx_value h = rlx_emit(g, gelu, .x = linear(g, x, 10, SMALL_DIM, 2 * SMALL_DIM));

	return linear(g, h, 20, 2 * SMALL_DIM, SMALL_DIM);
}

static rlx_value attn(struct rlx_graph *g, rlx_value x)
{
	rlx_value q = linear(g, x, 30, SMALL_DIM, SMALL_DIM);
	rlx_value k = linear(g, x, 40, SMALL_DIM, SMALL_DIM);
	rlx_value v = linear(g, x, 50, SMALL_DIM, SMALL_DIM);

	return rlx_emit(g, attention, .q = q, .k = k, .v = v, .heads = 2,
			.layout = RLX_BSHD);
}

/* (x - mean) / sqrt(mean (x - mean)^2 + eps) gamma + beta, as exporters write it */
static rlx_value norm(struct rlx_graph *g, rlx_value x, rlx_value shift)
{
	rlx_value mean = rlx_emit(g, reduce, .x = x, .axes = RLX_INTS(-1),
				  .kind = RLX_REDUCE_MEAN, .keep_dims = true);
	rlx_value d = rlx_emit(g, sub, .a = x, .b = mean);
	rlx_value var = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = d, .b = d),
				 .axes = RLX_INTS(-1), .kind = RLX_REDUCE_MEAN,
				 .keep_dims = true);
	rlx_value eps = rlx_scalar_const(g, RLX_F32, 1e-5);
	rlx_value sd = rlx_emit(g, sqrt, .x = rlx_emit(g, add, .a = var, .b = eps));
	rlx_value y = rlx_emit(g, div, .a = d, .b = sd);

	y = rlx_emit(g, mul, .a = y, .b = weight(g, 60, rlx_type(RLX_F32, SMALL_DIM)));
	return rlx_emit(g, add, .a = y, .b = shift);
}

static rlx_value conv(struct rlx_graph *g, int64_t batch)
{
	rlx_value x = rlx_input(g, "img", rlx_type(RLX_F32, batch, SMALL_CH, SMALL_SIDE,
						   SMALL_SIDE));
	rlx_value w = weight(g, 70, rlx_type(RLX_F32, 8, SMALL_CH, 3, 3));
	rlx_value dw = weight(g, 80, rlx_type(RLX_F32, 8, 1, 3, 3));
	rlx_value b = weight(g, 71, rlx_type(RLX_F32, 8));
	rlx_value y = rlx_emit(g, conv, .x = x, .w = w, .bias = b,
			       .stride = RLX_INTS(1, 1), .pad = RLX_INTS(1, 1, 1, 1));

	y = rlx_emit(g, relu, .x = y);
	y = rlx_emit(g, conv, .x = y, .w = dw, .stride = RLX_INTS(2, 2), .groups = 8);
	return rlx_emit(g, pool, .x = y, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(2, 2),
			.stride = RLX_INTS(2, 2));
}

static rlx_value ew(struct rlx_graph *g, rlx_value x, rlx_value shift)
{
	rlx_value y = rlx_emit(g, tanh, .x = rlx_emit(g, mul, .a = x, .b = shift));

	y = rlx_emit(g, add, .a = rlx_emit(g, exp, .x = y), .b = x);
	y = rlx_emit(g, softmax, .x = y, .axis = -1);
	return rlx_emit(g, mul, .a = rlx_emit(g, add, .a = y, .b = shift), .b = y);
}

static rlx_value move(struct rlx_graph *g, rlx_value x, int64_t batch)
{
	const int64_t ids[] = { 3, 0, 0, 4 };
	rlx_value idx = rlx_constant(g, rlx_type(RLX_I64, 4), ids);
	rlx_value a = rlx_emit(g, gather, .x = x, .indices = idx, .axis = 1);
	rlx_value b = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(1),
			       .starts = RLX_INTS(0), .ends = RLX_INTS(5),
			       .steps = RLX_INTS(2));
	rlx_value y = rlx_emit(g, concat, .axis = 1, .xs = RLX_VALUES(a, b, x));

	y = rlx_emit(g, transpose, .x = y, .perm = RLX_INTS(0, 2, 1));
	return rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(batch, SMALL_DIM * 12));
}

static struct rlx_graph *branch(int64_t batch, bool neg)
{
	struct rlx_graph *g = rlx_graph_new("branch");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, batch, SMALL_SEQ, SMALL_DIM));
	rlx_value y = neg ? rlx_emit(g, neg, .x = x) : rlx_emit(g, add, .a = x, .b = x);

	rlx_output(g, "y", y);
	CHECKF(!rlx_graph_finish(g) || rlx_graph_error(g)->status == RLX_ENOMEM,
	       "%s", rlx_graph_error(g)->text);
	return g;
}

static rlx_value sub_graphs(struct rlx_graph *g, rlx_value x, struct rlx_graph *yes,
			    struct rlx_graph *no)
{
	rlx_value flat = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(-1));
	rlx_value first = rlx_emit(g, slice, .x = flat, .axes = RLX_INTS(0),
				   .starts = RLX_INTS(0), .ends = RLX_INTS(1));
	rlx_value pred = rlx_emit(g, gt, .a = first, .b = rlx_scalar_const(g, RLX_F32, 0));

	return rlx_emit(g, if, .pred = pred, .then_g = yes, .else_g = no,
			.xs = RLX_VALUES(x));
}

struct rlx_graph *small_net(unsigned int parts, int64_t batch)
{
	struct rlx_graph *g = rlx_graph_new("small");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, batch, SMALL_SEQ, SMALL_DIM));
	rlx_value shift = rlx_param(g, "shift", rlx_type(RLX_F32, SMALL_DIM));

	if (parts & SMALL_NET_MLP)
		rlx_output(g, "mlp", mlp(g, x));
	if (parts & SMALL_NET_ATTN)
		rlx_output(g, "attn", attn(g, x));
	if (parts & SMALL_NET_NORM)
		rlx_output(g, "norm", norm(g, x, shift));
	if (parts & SMALL_NET_CONV)
		rlx_output(g, "conv", conv(g, batch));
	if (parts & SMALL_NET_EW)
		rlx_output(g, "ew", ew(g, x, shift));
	if (parts & SMALL_NET_MOVE)
		rlx_output(g, "move", move(g, x, batch));
	if (parts & SMALL_NET_SUB) {
		struct rlx_graph *yes = branch(batch, false), *no = branch(batch, true);

		if (rlx_graph_error(yes)->status || rlx_graph_error(no)->status) {
			rlx_graph_put(g);	/* no branch, no net */
			g = NULL;
		}
		rlx_output(g, "sub", sub_graphs(g, x, yes, no));
		rlx_graph_put(yes);
		rlx_graph_put(no);
	}
	if (rlx_graph_finish(g)) {	/* the caller reads the graph's error */
	}
	return g;
}

enum rlx_status small_net_fill(struct rlx_session *s, uint64_t seed)
{
	static const enum rlx_io ios[] = { RLX_IO_INPUT, RLX_IO_PARAM };
	struct rlx_program *p = rlx_session_program(s);
	unsigned int k, i;
	int64_t r, j;

	for (k = 0; k < 2; k++)
		for (i = 0; i < rlx_program_io_count(p, ios[k]); i++) {
			const struct rlx_type *t = rlx_program_io_type(p, ios[k], i);
			int64_t row = rlx_type_count(t) / t->dim[0];
			float *v = rlx_buf_ptr(rlx_session_buf(s, ios[k],
						rlx_program_io_name(p, ios[k], i)));

			if (!v)
				return rlx_session_error(s)->status;
			for (r = 0; r < t->dim[0]; r++) {
				uint64_t at = seed + (uint64_t)r * 7919 + i;

				for (j = 0; j < row; j++)
					v[r * row + j] =
						(float)rlx_test_uniform(&at, -1, 1);
			}
		}
	return RLX_OK;
}
