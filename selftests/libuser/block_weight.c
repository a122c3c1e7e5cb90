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

static void check(struct xy_net *n, const char *what, const char *device)
{
	static float x[XY_MOST], want[XY_MOST], y[XY_MOST];
	struct rlx_compile_opts ref = { .size = sizeof(ref), .device = "ref",
					.flags = RLX_COMPILE_NO_FUSE };
	struct rlx_compile_opts opts = { .size = sizeof(opts), .device = device,
					 .flags = RLX_COMPILE_NATIVE };
	double off, top;

	xy_fill(n, x, -3, 3);
	xy_run(n, n->g, &ref, x, want, NULL);
	xy_run(n, n->g, &opts, x, y, NULL);
	off = xy_off(n, want, y, &top);
	CHECKF(off <= 2e-6 * top, "%s: off by %g of %g", what, off, top);
	rlx_graph_put(n->g);
}

/* Few rows and many, ends of columns, one block and some tens. */
TEST(products_drawn_at_every_level)
{
	static uint8_t w[XY_MOST];
	struct xy_net n = { .seed = 0 };
	uint64_t seed = rlx_test_seed();
	char what[128];
	int i;

	for (i = 0; i < 3 * (RLX_SCHEME_COUNT - RLX_SCHEME_Q4_0); i++) {
		int scheme = RLX_SCHEME_Q4_0 + i / 3, e = rlx_block_elements(scheme);
		int64_t m = upto(&seed, 1, upto(&seed, 0, 1) ? 4 : 140), cols = upto(&seed, 1, 40);
		int64_t blocks = upto(&seed, 1, 2560 / e), bytes;
		rlx_value x = xy_begin(&n, rlx_type(RLX_F32, m, blocks * e)), v;

		bytes = cols * blocks * rlx_block_bytes(scheme);
		draw(w, scheme, cols * blocks, &seed);
		v = rlx_constant(n.g, rlx_type(RLX_U8, bytes), w);
		snprintf(what, sizeof(what), "%s: %lldx%lldx%lld, scheme %d", isa[i % 3],
			 (long long)m, (long long)cols, (long long)(blocks * e), scheme);
		setenv("RLX_ISA", isa[i % 3], 1);
		xy_end(&n, rlx_emit(n.g, dequant_matmul, .x = x, .w = v, .scheme = scheme,
				    .n = cols));
		check(&n, what, "cpu");
	}
	unsetenv("RLX_ISA");
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

TEST_MAIN()
