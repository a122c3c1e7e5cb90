// SPDX-License-Identifier: MIT
/* Products with weights of 4 and 8 bits read them packed, and give what floats give. */
#include "ir/graph.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/xy_net.h"

static int64_t upto(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) >> 16) % (hi - lo + 1);
}

/* Constants known to be whole, from @lo to @hi. */
static rlx_value whole(struct xy_net *n, struct rlx_type t, int64_t lo, int64_t hi)
{
	static int8_t v[XY_MOST];
	int64_t i;

	for (i = 0; i < rlx_type_count(&t); i++)
		v[i] = (int8_t)upto(&n->seed, lo, hi);
	return rlx_constant(n->g, t, v);
}

static void look(void *ctx, const char *pass, const struct rlx_graph *g)
{
	unsigned int *packed = ctx;
	uint32_t i;

	(void)pass;
	*packed = 0;
	for (i = 0; i < g->n_node; i++)
		*packed += g->node[i].def->index == RLX_OP_dequant_matmul;
}

/* On the CPU natively, against the graph as it is written: the packed products there are. */
static unsigned int check(struct xy_net *n, const char *what)
{
	static float x[XY_MOST], want[XY_MOST], y[XY_MOST];
	struct rlx_compile_opts ref = { .size = sizeof(ref), .device = "ref",
					.flags = RLX_COMPILE_NO_FUSE };
	unsigned int packed = 0;
	struct rlx_compile_opts cpu = { .size = sizeof(cpu), .device = "cpu",
					.flags = RLX_COMPILE_NATIVE, .dump = look,
					.dump_ctx = &packed };
	double off, top;

	xy_fill(n, x, -3, 3);
	xy_run(n, n->g, &ref, x, want, NULL);
	xy_run(n, n->g, &cpu, x, y, NULL);
	off = xy_off(n, want, y, &top);
	CHECKF(off <= 1e-5 * top, "%s: off by %g of %g", what, off, top);
	rlx_graph_put(n->g);
	return packed;
}

static rlx_value drawn(struct xy_net *n, int64_t m, int64_t k, int64_t cols, int scheme)
{
	bool few = scheme >= RLX_SCHEME_INT4_BLOCK, zeros = scheme != RLX_SCHEME_INT8_BLOCK;
	int64_t block = upto(&n->seed, 0, 2) ? upto(&n->seed, 1, k + 3) : 0;
	int64_t rows = block ? (k - 1) / block + 1 : 1;
	rlx_value x = xy_begin(n, rlx_type(RLX_F32, m, k)), s, z = RLX_NONE;

	s = xy_floats(n, rlx_type(RLX_F32, rows, cols), 0.001, 0.01);
	if (upto(&n->seed, 0, 3) == 0)
		s = rlx_emit(n->g, cast, .x = s, .to = RLX_F16);
	if (zeros && upto(&n->seed, 0, 1))
		z = upto(&n->seed, 0, 1) ? whole(n, rlx_type(RLX_I8, rows, cols), -9, 15) :
		    xy_floats(n, rlx_type(RLX_F32, rows, cols), -9, 9);
	return rlx_emit(n->g, dequant_matmul, .x = x, .scheme = scheme, .block = block, .n = cols,
			.w = xy_bytes(n, rlx_type(RLX_U8, few ? (k * cols + 1) / 2 : k * cols)),
			.scale = s, .zp = z);
}

/* Rows by tens, ends of panels and blocks, sums of one and of some thousands. */
TEST(products_drawn_at_every_level)
{
	static const char *const isa[] = { "base", "v3", "v4" };
	struct xy_net n = { .seed = 0 };
	uint64_t seed = rlx_test_seed();
	char what[128];
	unsigned int i;

	for (i = 0; i < 60; i++) {
		int64_t m = upto(&seed, 1, i & 1 ? 4 : 40), cols = upto(&seed, 1, 90);
		int64_t k = upto(&seed, 1, i % 10 == 0 ? 3000 : 120);
		int scheme = (int)upto(&seed, RLX_SCHEME_INT8_BLOCK, RLX_SCHEME_UINT4_BLOCK);

		snprintf(what, sizeof(what), "%s: %lldx%lldx%lld, scheme %d", isa[i % 3],
			 (long long)m, (long long)cols, (long long)k, scheme);
		setenv("RLX_ISA", isa[i % 3], 1);
		xy_end(&n, drawn(&n, m, k, cols, scheme));
		CHECK_EQ(check(&n, what), 1);
	}
	unsetenv("RLX_ISA");
}

/* As ONNX writes them: a constant that is dequantized, in blocks, by columns, or as one. */
TEST(dequantized_constants_are_packed)
{
	for (unsigned int i = 0; i < 24; i++) {
		bool is_signed = i & 1, few = i & 2, zeros = i & 4;
		struct rlx_type t = { .dtype = is_signed ? RLX_I8 : RLX_U8, .rank = 2,
				      .dim = { 70, 21 } };
		unsigned int kind = i / 8;	/* of scales */
		struct rlx_type s = kind == 0 ? rlx_scalar(RLX_F32) :
				    kind == 1 ? rlx_type(RLX_F32, 21) : rlx_type(RLX_F32, 5, 21);
		struct xy_net n;
		rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 2, 3, 70)), w, z = RLX_NONE;

		w = few ? whole(&n, t, is_signed ? -8 : 0, is_signed ? 7 : 15) : xy_bytes(&n, t);
		t = s;
		t.dtype = is_signed ? RLX_I8 : RLX_U8;
		if (zeros)
			z = whole(&n, t, is_signed ? -5 : 0, 9);
		w = rlx_emit(n.g, dequantize, .x = w, .scale = xy_floats(&n, s, 0.001, 0.01),
			     .zp = z, .axis = kind == 1 ? 1 : 0, .block = kind == 2 ? 16 : 0);
		xy_end(&n, rlx_emit(n.g, matmul, .a = x, .b = w));
		CHECK_EQ(check(&n, "dequantized"), 1);
	}
}

/* Scales along the sum, or a weight that is not known: a product of floats. */
TEST(what_is_not_packed)
{
	struct xy_net n;
	rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 4, 64)), w;

	w = rlx_emit(n.g, dequantize, .x = xy_bytes(&n, rlx_type(RLX_I8, 64, 8)), .axis = 0,
		     .scale = xy_floats(&n, rlx_type(RLX_F32, 64), 0.001, 0.01));
	xy_end(&n, rlx_emit(n.g, matmul, .a = x, .b = w));
	CHECK_EQ(check(&n, "rows"), 0);

	x = xy_begin(&n, rlx_type(RLX_F32, 8, 8));
	w = rlx_emit(n.g, cast, .x = x, .to = RLX_I8);
	w = rlx_emit(n.g, dequantize, .x = w, .scale = rlx_scalar_const(n.g, RLX_F32, 0.5));
	xy_end(&n, rlx_emit(n.g, matmul, .a = x, .b = w));
	CHECK_EQ(check(&n, "run time"), 0);
}

static enum rlx_status compiled(void *ctx)
{
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_compile(ctx, NULL, &p, &err);

	rlx_program_put(p);
	return st;
}

TEST(no_memory_anywhere)
{
	struct xy_net n;
	rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 3, 16)), w;

	w = rlx_emit(n.g, dequantize, .x = whole(&n, rlx_type(RLX_I8, 16, 5), -8, 7), .axis = 1,
		     .scale = xy_floats(&n, rlx_type(RLX_F32, 5), 0.001, 0.01));
	xy_end(&n, rlx_emit(n.g, matmul, .a = x, .b = w));
	CHECK(rlx_oom_sweep(compiled, n.g) > 50);
	rlx_graph_put(n.g);
}

TEST_MAIN()
