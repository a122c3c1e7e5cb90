// SPDX-License-Identifier: MIT
/* Norms written as ops of their own are fused, and give what the ops give. */
#include "ir/graph.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/xy_net.h"

enum { ROWS = 37, N = 150 };

struct found {
	unsigned int	rms_norm, reduce, sum_squares;
};

static void look(void *ctx, const char *pass, const struct rlx_graph *g)
{
	struct found *f = ctx;
	uint32_t i;

	if (strcmp(pass, "fuse"))
		return;
	*f = (struct found){ 0 };
	for (i = 0; i < g->n_node; i++) {
		f->rms_norm += g->node[i].def->index == RLX_OP_rms_norm;
		f->sum_squares += g->node[i].def->index == RLX_OP_sum_squares;
		f->reduce += g->node[i].def->index == RLX_OP_reduce;
	}
}

/* The net on the CPU, which is near what the evaluation of its ops gives. */
static struct found fused(struct xy_net *n, rlx_value y)
{
	static float in[ROWS * N], want[ROWS * N], got[ROWS * N];
	struct found found = { 0 };
	struct rlx_compile_opts ref = { .size = sizeof(ref), .device = "ref",
					.flags = RLX_COMPILE_NO_FUSE };
	struct rlx_compile_opts cpu = { .size = sizeof(cpu), .device = "cpu",
					.flags = RLX_COMPILE_NATIVE, .dump = look,
					.dump_ctx = &found };
	double off, top;

	xy_end(n, y);
	xy_fill(n, in, -3, 3);
	xy_run(n, n->g, &ref, in, want, NULL);
	xy_run(n, n->g, &cpu, in, got, NULL);
	off = xy_off(n, want, got, &top);
	CHECKF(off <= 2e-6 * top, "off by %g of %g", off, top);
	rlx_graph_put(n->g);
	return found;
}

/* sqrt(mean x^2 + eps) over @axis */
static rlx_value root_mean_square(struct xy_net *n, rlx_value x, int64_t axis)
{
	rlx_value s = rlx_emit(n->g, mul, .a = x, .b = x);

	s = rlx_emit(n->g, reduce, .x = s, .axes = RLX_INTS(axis), .kind = RLX_REDUCE_MEAN,
		     .keep_dims = true);
	s = rlx_emit(n->g, add, .a = s, .b = rlx_scalar_const(n->g, RLX_F32, 1e-5));
	return rlx_emit(n->g, sqrt, .x = s);
}

TEST(rms_norm_of_ops)
{
	for (int how = 0; how < 4; how++) {
		struct xy_net n;
		rlx_value x = xy_begin(&n, rlx_type(RLX_F32, ROWS, N)), y;
		struct found f;

		y = root_mean_square(&n, x, -1);
		if (how & 1)
			y = rlx_emit(n.g, mul, .a = x, .b = rlx_emit(n.g, recip, .x = y));
		else
			y = rlx_emit(n.g, div, .a = x, .b = y);
		y = rlx_emit(n.g, mul, .a = y, .b = xy_floats(&n, rlx_type(RLX_F32, N), -2, 2));
		if (how & 2)
			y = rlx_emit(n.g, add, .a = y,
				     .b = xy_floats(&n, rlx_type(RLX_F32, N), -2, 2));
		f = fused(&n, y);
		CHECK_EQ(f.rms_norm, 1);
		CHECK_EQ(f.reduce, 0);
	}
}

/* A factor for each element is none of the norm's, and neither is a mean down columns. */
TEST(what_is_no_rms_norm)
{
	struct xy_net n;
	rlx_value x = xy_begin(&n, rlx_type(RLX_F32, ROWS, N)), y;
	struct found f;

	y = rlx_emit(n.g, div, .a = x, .b = root_mean_square(&n, x, -1));
	y = rlx_emit(n.g, mul, .a = y, .b = xy_floats(&n, rlx_type(RLX_F32, ROWS, N), -2, 2));
	f = fused(&n, y);
	CHECK_EQ(f.rms_norm, 1);

	x = xy_begin(&n, rlx_type(RLX_F32, ROWS, N));
	f = fused(&n, rlx_emit(n.g, div, .a = x, .b = root_mean_square(&n, x, 0)));
	CHECK_EQ(f.rms_norm, 0);
}

TEST(sum_of_squares)
{
	for (int how = 0; how < 4; how++) {
		struct xy_net n;
		rlx_value x = xy_begin(&n, rlx_type(RLX_F32, ROWS, N));
		rlx_value b = how & 2 ? xy_floats(&n, rlx_type(RLX_F32, ROWS, N), 1, 2) : x;
		rlx_value y = rlx_emit(n.g, mul, .a = x, .b = b);
		struct found f;

		f = fused(&n, rlx_emit(n.g, reduce, .x = y, .axes = RLX_INTS(how & 1)));
		CHECK_EQ(f.sum_squares, b.id == x.id);
		CHECK_EQ(f.reduce, b.id != x.id);
	}
}

TEST_MAIN()
