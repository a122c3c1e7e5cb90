// SPDX-License-Identifier: MIT
/*
 * Weights in blocks of few bits: elements to the bit at every level, products against those of
 * doubles, and what is refused.
 */
#include <math.h>

#include "ir/graph.h"
#include "kernels/blocks.h"
#include "selftests/kernels/kcheck.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/xy_net.h"

static const char *const isa[] = { "base", "v3", "v4" };

enum { MOST_BYTES = 1 << 16 };

static int64_t upto(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) >> 16) % (hi - lo + 1);
}

static void fill(uint8_t *p, size_t n, uint64_t *seed)
{
	while (n--)
		*p++ = (uint8_t)(rlx_test_rand(seed) >> 24);
}

/* Any bytes, but with scales that are about 1 / 1000 so that sums say something. */
static void draw(uint8_t *p, int scheme, int64_t blocks, uint64_t *seed)
{
	static const uint8_t at[RLX_SCHEME_COUNT][2] = {
		[RLX_SCHEME_Q4_1] = { 0, 2 }, [RLX_SCHEME_Q5_1] = { 0, 2 },
		[RLX_SCHEME_Q2_K] = { 80, 82 }, [RLX_SCHEME_Q3_K] = { 108, 108 },
		[RLX_SCHEME_Q4_K] = { 0, 2 }, [RLX_SCHEME_Q5_K] = { 0, 2 },
		[RLX_SCHEME_Q6_K] = { 208, 208 },
	};
	int size = rlx_block_bytes(scheme), i;

	for (fill(p, (size_t)(blocks * size), seed); blocks--; p += size)
		for (i = 0; i < 4; i++) {
			if (scheme == RLX_SCHEME_NVFP4)
				p[i] &= 0x3f;
			else if (scheme == RLX_SCHEME_MXFP4)
				p[0] = (uint8_t)upto(seed, 115, 120);
			else if (scheme == RLX_SCHEME_Q8_K)
				memcpy(p, &(float){ 0.001f }, 4);
			else
				p[at[scheme][i / 2] + 1] = (uint8_t)((p[at[scheme][i / 2] + 1] &
								      0x83) | 0x14);
		}
}

static bool same(float a, float b)
{
	return (isnan(a) && isnan(b)) || !memcmp(&a, &b, sizeof(a));
}

/* Any bytes at all: infinite and NaN too. */
TEST(elements_at_every_level)
{
	static uint8_t x[MOST_BYTES];
	static float y[MOST_BYTES * 4];
	uint64_t seed = rlx_test_seed();
	int s, i;

	for (s = RLX_SCHEME_Q4_0; s < RLX_SCHEME_COUNT; s++) {
		int64_t blocks = upto(&seed, 1, 9000 / rlx_block_elements(s));
		struct rlx_k_dequant_blocks a = {
			.x = x, .y = y, .n = blocks * rlx_block_elements(s),
			.scheme = (uint8_t)s, .y_type = RLX_F32,
		};

		fill(x, (size_t)(blocks * rlx_block_bytes(s)), &seed);
		for (i = 0; i < kc_levels(); i++) {
			const struct rlx_kernels *k = rlx_kernels_get((enum rlx_isa)i);
			int64_t e, n = rlx_block_elements(s);

			memset(y, 0, sizeof(y));
			kc_run(k->dequant_blocks, &a, rlx_k_dequant_blocks_units(&a), 0, &seed);
			for (e = 0; e < a.n; e++) {
				float want = rlx_block_at(s, x + e / n * rlx_block_bytes(s),
							  (int)(e % n));

				if (!same(y[e], want))
					break;
			}
			CHECKF(e == a.n, "level %d, scheme %d: element %lld of %lld", i, s,
			       (long long)e, (long long)a.n);
		}
	}
}

/*
 * A product against that of @n's graph on the host, whose error is a part of the sum of its terms'
 * magnitudes, which @terms gives: the terms may cancel. Both graphs are put.
 */
static void check(struct xy_net *n, struct xy_net *terms, const char *what)
{
	static float x[XY_MOST], want[XY_MOST], size[XY_MOST], y[XY_MOST];
	struct rlx_compile_opts ref = { .size = sizeof(ref), .device = "ref",
					.flags = RLX_COMPILE_NO_FUSE };
	struct rlx_compile_opts opts = { .size = sizeof(opts), .device = "cpu",
					 .flags = RLX_COMPILE_NATIVE };
	int64_t i;

	xy_fill(n, x, -3, 3);
	xy_run(n, n->g, &ref, x, want, NULL);
	xy_run(n, n->g, &opts, x, y, NULL);
	xy_run(terms, terms->g, &ref, x, size, NULL);
	for (i = 0; i < rlx_type_count(&n->out); i++)
		CHECKF(fabs((double)y[i] - (double)want[i]) <= 2e-7 * (double)size[i],
		       "%s: element %lld is %.9g, not %.9g; its terms' magnitudes sum to %g", what,
		       (long long)i, (double)y[i], (double)want[i], (double)size[i]);
	rlx_graph_put(n->g);
	rlx_graph_put(terms->g);
}

/* Magnitudes of packed weights, [..., k, columns]. */
static rlx_value magnitudes(struct rlx_graph *g, rlx_value w, int scheme, struct rlx_ints perm)
{
	w = rlx_emit(g, dequantize_packed, .x = w, .scheme = scheme);
	return rlx_emit(g, transpose, .x = rlx_emit(g, abs, .x = w), .perm = perm);
}

/* Few rows and many, ends of columns, one block and some tens. */
TEST(products_drawn_at_every_level)
{
	static uint8_t w[XY_MOST];
	struct xy_net n, t;
	uint64_t seed = rlx_test_seed();
	char what[128];
	int i;

	for (i = 0; i < 3 * (RLX_SCHEME_COUNT - RLX_SCHEME_Q4_0); i++) {
		int scheme = RLX_SCHEME_Q4_0 + i / 3, e = rlx_block_elements(scheme);
		int64_t m = upto(&seed, 1, upto(&seed, 0, 1) ? 4 : 140), cols = upto(&seed, 1, 40);
		int64_t blocks = upto(&seed, 1, 2560 / e), line = blocks * rlx_block_bytes(scheme);
		rlx_value x = xy_begin(&n, rlx_type(RLX_F32, m, blocks * e)), v;

		draw(w, scheme, cols * blocks, &seed);
		v = rlx_constant(n.g, rlx_type(RLX_U8, cols * line), w);
		snprintf(what, sizeof(what), "%s: %lldx%lldx%lld, scheme %d", isa[i % 3],
			 (long long)m, (long long)cols, (long long)(blocks * e), scheme);
		setenv("RLX_ISA", isa[i % 3], 1);
		xy_end(&n, rlx_emit(n.g, dequant_matmul, .x = x, .w = v, .scheme = scheme,
				    .n = cols));
		x = xy_begin(&t, n.in);
		v = rlx_constant(t.g, rlx_type(RLX_U8, cols, line), w);
		v = magnitudes(t.g, v, scheme, RLX_INTS(1, 0));
		xy_end(&t, rlx_emit(t.g, matmul, .a = rlx_emit(t.g, abs, .x = x), .b = v));
		check(&n, &t, what);
	}
	unsetenv("RLX_ISA");
}

/* Experts that many rows chose, few or none, by indices that may count from the end. */
TEST(experts_drawn_at_every_level)
{
	static uint8_t w[XY_MOST];
	static int64_t at[256];
	struct xy_net n, t;
	uint64_t seed = rlx_test_seed();
	char what[128];
	int i;

	for (i = 0; i < 3 * (RLX_SCHEME_COUNT - RLX_SCHEME_Q4_0); i++) {
		int scheme = RLX_SCHEME_Q4_0 + i / 3, e = rlx_block_elements(scheme), j;
		int64_t m = upto(&seed, 1, upto(&seed, 0, 1) ? 9 : 256), cols = upto(&seed, 1, 40);
		int64_t blocks = upto(&seed, 1, 1280 / e), all = upto(&seed, 1, 9);
		int64_t line = blocks * rlx_block_bytes(scheme);
		rlx_value x = xy_begin(&n, rlx_type(RLX_F32, m, blocks * e)), v, idx;

		draw(w, scheme, all * cols * blocks, &seed);
		for (j = 0; j < m; j++)		/* one of them is chosen most */
			at[j] = upto(&seed, 0, 1) ? -1 : upto(&seed, -all, all - 1);
		v = rlx_constant(n.g, rlx_type(RLX_U8, all, cols, line), w);
		idx = rlx_constant(n.g, rlx_type(RLX_I64, m), at);
		snprintf(what, sizeof(what), "%s: %lld rows, %lld of %lldx%lld, scheme %d",
			 isa[i % 3], (long long)m, (long long)all, (long long)cols,
			 (long long)(blocks * e), scheme);
		setenv("RLX_ISA", isa[i % 3], 1);
		xy_end(&n, rlx_emit(n.g, dequant_grouped_matmul, .x = x, .w = v, .idx = idx,
				    .scheme = scheme));
		x = xy_begin(&t, n.in);
		v = rlx_constant(t.g, rlx_type(RLX_U8, all, cols, line), w);
		v = magnitudes(t.g, v, scheme, RLX_INTS(0, 2, 1));
		idx = rlx_constant(t.g, rlx_type(RLX_I64, m), at);
		xy_end(&t, rlx_emit(t.g, grouped_matmul, .x = rlx_emit(t.g, abs, .x = x), .w = v,
				    .idx = idx));
		check(&n, &t, what);
	}
	unsetenv("RLX_ISA");
}

/* Two experts of one column, which are 1 and -1. */
TEST(r130_known_experts)
{
	static const char *const device[] = { "ref", "cpu" };
	uint8_t w[2][34] = { { 0, 0x38 }, { 0, 0x34 } };
	const int32_t at[2] = { 0, 1 };
	static float x[64], y[2];
	int i;

	memset(w[0] + 2, 2, 32);
	memset(w[1] + 2, -4, 32);
	for (i = 0; i < 64; i++)
		x[i] = 1;
	for (i = 0; i < 2; i++) {
		struct rlx_compile_opts o = { .size = sizeof(o), .device = device[i] };
		struct xy_net n = { .seed = 0 };
		rlx_value v = xy_begin(&n, rlx_type(RLX_F32, 2, 32));

		xy_end(&n, rlx_emit(n.g, dequant_grouped_matmul, .x = v, .scheme = RLX_SCHEME_Q8_0,
				    .w = rlx_constant(n.g, rlx_type(RLX_U8, 2, 1, 34), w),
				    .idx = rlx_constant(n.g, rlx_type(RLX_I32, 2), at)));
		xy_run(&n, n.g, &o, x, y, NULL);
		CHECK(y[0] == 32 && y[1] == -32);
		rlx_graph_put(n.g);
	}
}

enum { EXPERTS = 8, CHOSEN = 2, WIDE = 512, TOKENS = 37 };

/* Rows by the experts that @idx names, of @n columns, as blocks or by floats of them. */
static rlx_value choose(rlx_value x, rlx_value idx, struct rlx_graph *g, const void *w, int64_t n,
			bool floats)
{
	int64_t k = rlx_type_of(g, x)->dim[1];
	int64_t line = k / rlx_block_elements(RLX_SCHEME_Q4_K) * rlx_block_bytes(RLX_SCHEME_Q4_K);
	rlx_value v = rlx_constant(g, rlx_type(RLX_U8, EXPERTS, n, line), w);

	if (!floats)
		return rlx_emit(g, dequant_grouped_matmul, .x = x, .w = v, .idx = idx,
				.scheme = RLX_SCHEME_Q4_K);
	v = rlx_emit(g, dequantize_packed, .x = v, .scheme = RLX_SCHEME_Q4_K);
	v = rlx_emit(g, transpose, .x = v, .perm = RLX_INTS(0, 2, 1));
	return rlx_emit(g, grouped_matmul, .x = x, .w = v, .idx = idx);
}

/* A layer of which each token takes two experts, by its router's probabilities. */
static rlx_value layer(struct rlx_graph *g, rlx_value x, const float *router, uint8_t *const *w,
		       bool floats)
{
	rlx_value p, top, idx, up, y;

	p = rlx_emit(g, matmul, .a = x,
		     .b = rlx_constant(g, rlx_type(RLX_F32, 256, EXPERTS), router));
	p = rlx_emit(g, softmax, .x = p, .axis = -1);
	top = rlx_emit(g, topk, .x = p, .k = CHOSEN, .axis = -1);
	idx = rlx_emit(g, reshape, .x = rlx_out(g, top, 1), .shape = RLX_INTS(TOKENS * CHOSEN));
	x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(TOKENS, 1, 256));
	x = rlx_emit(g, expand, .x = x, .shape = RLX_INTS(TOKENS, CHOSEN, 256));
	x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(TOKENS * CHOSEN, 256));
	y = rlx_emit(g, silu, .x = choose(x, idx, g, w[0], WIDE, floats));
	up = choose(x, idx, g, w[1], WIDE, floats);
	y = choose(rlx_emit(g, mul, .a = y, .b = up), idx, g, w[2], 256, floats);
	y = rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(TOKENS, CHOSEN, 256));
	top = rlx_emit(g, reshape, .x = top, .shape = RLX_INTS(TOKENS, CHOSEN, 1));
	y = rlx_emit(g, mul, .a = y, .b = top);
	return rlx_emit(g, reduce, .x = y, .kind = RLX_REDUCE_SUM, .axes = RLX_INTS(1));
}

TEST(r198_layer_of_packed_experts)
{
	static float x[TOKENS * 256], y[2][TOKENS * 256], router[256 * EXPERTS];
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	int64_t blocks = EXPERTS * WIDE, i;
	uint64_t seed = rlx_test_seed();
	struct xy_net n = { .seed = 0 };
	double off, top;
	uint8_t *w[3];

	for (i = 0; i < 3; i++) {
		w[i] = malloc((size_t)(blocks * rlx_block_bytes(RLX_SCHEME_Q4_K)));
		draw(w[i], RLX_SCHEME_Q4_K, blocks, &seed);
	}
	for (i = 0; i < 256 * EXPERTS; i++)
		router[i] = (float)rlx_test_uniform(&seed, -0.2, 0.2);
	for (i = 0; i < 2; i++) {
		rlx_value in = xy_begin(&n, rlx_type(RLX_F32, TOKENS, 256));

		xy_end(&n, layer(n.g, in, router, w, i));
		if (!i)
			xy_fill(&n, x, -1, 1);
		xy_run(&n, n.g, &o, x, y[i], NULL);
		rlx_graph_put(n.g);
	}
	off = xy_off(&n, y[1], y[0], &top);
	CHECKF(top > 0 && off <= 1e-5 * top, "off by %g of %g", off, top);
	for (i = 0; i < 3; i++)
		free(w[i]);
}

static double product(int scheme, const void *w, int64_t bytes, int64_t k)
{
	static float x[256], y[1];
	struct xy_net n = { .seed = 0 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	rlx_value v = xy_begin(&n, rlx_type(RLX_F32, 1, k));
	int i;

	for (i = 0; i < k; i++)
		x[i] = 1;
	xy_end(&n, rlx_emit(n.g, dequant_matmul, .x = v, .scheme = scheme, .n = 1,
			    .w = rlx_constant(n.g, rlx_type(RLX_U8, bytes), w)));
	xy_run(&n, n.g, &o, x, y, NULL);
	rlx_graph_put(n.g);
	return (double)y[0];
}

TEST(r197_known_blocks)
{
	uint8_t q8[34] = { 0, 0x38 }, q4[18] = { 0, 0x38 }, nv[36] = { 0x3c, 0x3c, 0, 127 };

	memset(q8 + 2, 2, 32);
	memset(q4 + 2, 0xaa, 16);
	CHECK(product(RLX_SCHEME_Q8_0, q8, 34, 32) == 32);
	CHECK(product(RLX_SCHEME_Q4_0, q4, 18, 32) == 32);
	nv[4] = 0x07 | 0xa0;		/* 6 and -1, by 1.5 */
	CHECK(product(RLX_SCHEME_NVFP4, nv, 36, 64) == 7.5);
}

/* Two experts as floats: stored order, and turned. */
TEST(r131_packed_experts)
{
	uint8_t w[2][34] = { { 0, 0x38 }, { 0, 0x34 } };
	static float y[64], x[1] = { 1 };
	struct xy_net n = { .seed = 0 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	rlx_value v, in = xy_begin(&n, rlx_type(RLX_F32, 1));
	int i;

	memset(w[0] + 2, 2, 32);
	memset(w[1] + 2, -4, 32);
	v = rlx_constant(n.g, rlx_type(RLX_U8, 2, 1, 34), w);
	v = rlx_emit(n.g, dequantize_packed, .x = v, .scheme = RLX_SCHEME_Q8_0);
	v = rlx_emit(n.g, transpose, .x = v, .perm = RLX_INTS(0, 2, 1));
	xy_end(&n, rlx_emit(n.g, mul, .a = v, .b = in));
	CHECK_EQ(n.out.dim[1], 32);
	xy_run(&n, n.g, &o, x, y, NULL);
	for (i = 0; i < 64; i++)
		CHECK(y[i] == (i < 32 ? 1 : -1));
	rlx_graph_put(n.g);
}

static enum rlx_status tried(int scheme, int64_t k, int64_t bytes, int64_t block)
{
	struct rlx_graph *g = rlx_graph_new(NULL);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1, k));
	rlx_value w = rlx_input(g, "w", rlx_type(RLX_U8, bytes));
	enum rlx_status st;

	rlx_output(g, "y", rlx_emit(g, dequant_matmul, .x = x, .w = w, .scheme = scheme, .n = 1,
				    .block = block));
	st = rlx_graph_finish(g);
	rlx_graph_put(g);
	return st;
}

TEST(what_does_not_fit)
{
	CHECK_EQ(tried(RLX_SCHEME_Q4_K, 256, 144, 0), RLX_OK);
	CHECK_EQ(tried(RLX_SCHEME_Q4_K, 128, 72, 0), RLX_ESHAPE);
	CHECK_EQ(tried(RLX_SCHEME_Q4_K, 256, 143, 0), RLX_ESHAPE);
	CHECK_EQ(tried(RLX_SCHEME_Q4_K, 256, 144, 32), RLX_EINVAL);
	CHECK_EQ(tried(RLX_SCHEME_COUNT, 256, 144, 0), RLX_EINVAL);
	CHECK_EQ(tried(RLX_SCHEME_Q4_K, 0, 0, 0), RLX_OK);
}

static enum rlx_status tried_experts(int scheme, int64_t k, enum rlx_dtype dt, int64_t line,
				     int64_t n_idx)
{
	struct rlx_graph *g = rlx_graph_new(NULL);
	enum rlx_status st;

	rlx_output(g, "y", rlx_emit(g, dequant_grouped_matmul, .scheme = scheme,
				    .x = rlx_input(g, "x", rlx_type(RLX_F32, 3, k)),
				    .w = rlx_input(g, "w", rlx_type(dt, 2, 5, line)),
				    .idx = rlx_input(g, "idx", rlx_type(RLX_I32, n_idx))));
	st = rlx_graph_finish(g);
	rlx_graph_put(g);
	return st;
}

/* A stack that is cut short has not fewer experts. */
TEST(experts_that_do_not_fit)
{
	CHECK_EQ(tried_experts(RLX_SCHEME_Q4_K, 512, RLX_U8, 288, 3), RLX_OK);
	CHECK_EQ(tried_experts(RLX_SCHEME_Q4_K, 512, RLX_U8, 287, 3), RLX_ESHAPE);
	CHECK_EQ(tried_experts(RLX_SCHEME_Q4_K, 512, RLX_U8, 144, 3), RLX_ESHAPE);
	CHECK_EQ(tried_experts(RLX_SCHEME_Q4_K, 500, RLX_U8, 288, 3), RLX_ESHAPE);
	CHECK_EQ(tried_experts(RLX_SCHEME_Q4_K, 512, RLX_U8, 288, 4), RLX_ESHAPE);
	CHECK_EQ(tried_experts(RLX_SCHEME_Q4_K, 512, RLX_I8, 288, 3), RLX_ETYPE);
	CHECK_EQ(tried_experts(RLX_SCHEME_INT8_BLOCK, 512, RLX_U8, 288, 3), RLX_EINVAL);
	CHECK_EQ(tried_experts(RLX_SCHEME_COUNT, 512, RLX_U8, 288, 3), RLX_EINVAL);
	CHECK_EQ(tried_experts(-1, 512, RLX_U8, 288, 3), RLX_EINVAL);
	CHECK_EQ(tried_experts(RLX_SCHEME_Q4_K, 0, RLX_U8, 0, 3), RLX_OK);
}

TEST_MAIN()
