// SPDX-License-Identifier: MIT
/*
 * The cost model: its formula against one written out here, chips that are known or derived, and
 * that the least time wins.
 */
#include "backends/gpu/gpu.h"
#include "selftests/lib/rlx_test.h"

static int64_t pick(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) % (uint64_t)(hi - lo + 1));
}

static bool near(double a, double b)
{
	return a >= b * 0.999 - 1 && a <= b * 1.001 + 1;
}

/* Tiles of f32 as they were measured on an H200: two at a time take hardly longer than one. */
TEST(rounds_of_two)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 2000; i++) {
		struct rlx_g_launch l = { .processors = (uint32_t)pick(&seed, 1, 200),
					  .block = { 256, 1, 1 } };
		double steps = (double)pick(&seed, 1, 300), blocks = (double)pick(&seed, 1, 3000);
		struct rlx_g_cost t = {
			.blocks = blocks, .rate = RLX_G_RATE_fma_f32, .part = 0.8, .resident = 2,
			.flops = 262144 * steps, .steps = steps, .step_ns = 1450,
			.begin_ns = 2000, .end_ns = 2000,
		};
		int64_t each = ((int64_t)blocks + l.processors - 1) / l.processors;
		double want = (double)(each / 2) * (steps * 1600 + 6000) +
			      (double)(each % 2) * (steps * 1450 + 4000);
		double got = rlx_g_cost_ns(&l, &t) - rlx_g_least_ns(&l);

		CHECKF(near(got, want), "%g blocks of %g steps on %u: %g, not %g", blocks,
		       steps, l.processors, got, want);
	}
}

/* Warps of a block go round four schedulers: three blocks of two take as long as four. */
TEST(uneven_schedulers)
{
	static const struct { uint32_t threads, blocks; double as; } row[] = {
		{ 64, 1, 2 }, { 64, 2, 2 }, { 64, 3, 4 }, { 64, 4, 4 }, { 64, 7, 8 },
		{ 32, 1, 4 }, { 32, 5, 8 }, { 96, 1, 4.0 / 3 }, { 96, 4, 4 }, { 192, 1, 4.0 / 3 },
		{ 192, 2, 2 }, { 128, 3, 3 }, { 384, 1, 1 },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct rlx_g_launch l = { .processors = 1, .block = { row[i].threads, 1, 1 } };
		struct rlx_g_cost t = {
			.blocks = row[i].blocks, .resident = 16, .flops = 41e5,
			.rate = RLX_G_RATE_fma_f32,
		};
		double got = rlx_g_cost_ns(&l, &t) - rlx_g_least_ns(&l);

		CHECKF(near(got, row[i].as * 1e4), "%u blocks of %u threads: %g ns",
		       row[i].blocks, row[i].threads, got);
	}
}

/*
 * A launch that has fewer blocks than the chip has room for has them let in evenly: so much shared
 * memory is asked for; not where nothing begins before what is ahead has ended.
 */
TEST(shared_out)
{
	static const struct { int64_t blocks, resident, most; } row[] = {
		{ 115, 2, 1 }, { 132, 2, 1 }, { 133, 2, 2 }, { 300, 8, 3 }, { 96, 8, 1 },
		{ 2000, 4, 4 }, { 1, 16, 1 },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		for (uint32_t arch = 80; arch < 100; arch += 10) {
			struct rlx_g_launch l = {
				.processors = 132, .arch = arch, .most_shared = 227 << 10,
				.chip = gpu_chip_usual(), .shared = 10 << 10,
			};
			uint32_t sm = l.chip->smem_sm;

			rlx_g_line(&l, row[i].blocks, 64);
			rlx_g_limit_occupancy(&l, row[i].resident);
			CHECK(l.shared >= 10 << 10 && l.shared <= l.most_shared);
			CHECKF((uint32_t)row[i].most * (l.shared + 1024) <= sm &&
			       (arch < 90 || row[i].most == row[i].resident ||
				((uint32_t)row[i].most + 1) * (l.shared + 1024) > sm),
			       "%u blocks: %u bytes", l.grid[0], l.shared);
			CHECK(arch >= 90 || l.shared == 10 << 10);
		}
}

/* Few blocks do not reach the memory's bandwidth; what is in flight bounds them further. */
TEST(bandwidth)
{
	const struct rlx_g_chip *c = gpu_chip_usual();
	struct rlx_g_launch l = { .processors = 132, .block = { 256, 1, 1 } };
	struct rlx_g_cost t = { .blocks = 1, .dram_bytes = 1e8, .resident = 1 };
	double one, many;

	one = rlx_g_cost_ns(&l, &t) - rlx_g_least_ns(&l);
	CHECK(near(one, 1e8 / c->sm_dram_bw));
	t.blocks = 1e4;
	many = rlx_g_cost_ns(&l, &t) - rlx_g_least_ns(&l);
	CHECK(near(many, 1e8 / c->dram_bw));
	t.in_flight = 1000;
	CHECK(near(rlx_g_cost_ns(&l, &t) - rlx_g_least_ns(&l), 1e8 / (132 * 1000 / c->dram_ns)));
	t.resident = 4;
	many = rlx_g_cost_ns(&l, &t) - rlx_g_least_ns(&l);
	CHECK(near(many, 1e8 / (4 * 132 * 1000 / c->dram_ns)));
	t = (struct rlx_g_cost){ 0 };	/* nothing to do takes what a launch takes */
	CHECK(rlx_g_cost_ns(&l, &t) > 0 && rlx_g_cost_ns(&l, &t) <= rlx_g_least_ns(&l));
	/* what a chip has no arithmetic for takes for ever, and nothing is divided by it */
	t = (struct rlx_g_cost){ .blocks = 1, .flops = 1, .rate = RLX_G_RATE_mma_f8 };
	l.chip = &(struct rlx_g_chip){ .sms = 1, .smem_sm = 1 << 16, .threads_sm = 2048,
				       .dram_bw = 1, .l2_bw = 1, .sm_dram_bw = 1, .sm_l2_bw = 1,
				       .dram_ns = 1, .start_ns = 1 };
	CHECK(rlx_g_cost_ns(&l, &t) > 1e11);
}

static void check_chip(const struct rlx_g_chip *c, bool nvidia)
{
	CHECKF(c->dram_bw > 50 && c->dram_bw < 20000 && c->l2_bw >= c->dram_bw &&
	       c->sm_dram_bw > 1 && c->sm_dram_bw <= c->dram_bw && c->sm_l2_bw > 1, "%s",
	       c->name);
	CHECKF(c->start_ns > 100 && c->pdl_ns > 0 && c->pdl_ns <= c->start_ns && c->event_ns > 0 &&
	       c->dram_ns > c->l2_ns && c->l2_ns > 0, "%s", c->name);
	CHECKF(c->rate[RLX_G_RATE_fma_f32] > 10 && c->rate[RLX_G_RATE_fma_f64] > 1 &&
	       c->rate[RLX_G_RATE_mma_f16] >= c->rate[RLX_G_RATE_fma_f32] / 2, "%s", c->name);
	CHECKF(c->sms && c->smem_sm >= 32 << 10 && c->threads_sm >= 1024 && c->l2_bytes &&
	       c->source && *c->source, "%s", c->name);
	CHECK(!nvidia || c->smem_sm >= 48 << 10);
}

/* Every row of the table, and chips that nobody has heard of. */
TEST(chips)
{
	static const char *const name[] = {
		"NVIDIA H200", "NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL",
		"NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", "AMD Instinct MI300X",
		"AMD Instinct MI250X", "RLX emulated GPU",
		"NVIDIA GeForce RTX 4090", "Tesla T4", "",
	};
	const struct rlx_gpu_api api = { 0 };
	uint64_t seed = rlx_test_seed();
	static struct gpu_device d;

	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		d.api = &api;
		snprintf(d.name, sizeof(d.name), "%s", name[i]);
		d.attr[GPU_ATTR_MAJOR] = (int)pick(&seed, 6, 12);
		d.attr[GPU_ATTR_MINOR] = (int)pick(&seed, 0, 9);
		d.attr[GPU_ATTR_SM_COUNT] = (int)pick(&seed, 1, 300);
		d.attr[GPU_ATTR_WARP] = 32;
		d.attr[GPU_ATTR_SHARED] = 64 << 10;
		d.attr[GPU_ATTR_SHARED_SM] = 100 << 10;
		/* what a driver does not tell is 0, or 1, or nonsense */
		d.attr[GPU_ATTR_CLOCK] = (int)pick(&seed, 0, 1) * (int)pick(&seed, 0, INT32_MAX);
		d.attr[GPU_ATTR_MEMORY_CLOCK] = (int)pick(&seed, -1, 3000000);
		d.attr[GPU_ATTR_MEMORY_BITS] = (int)pick(&seed, -1, 8192);
		d.attr[GPU_ATTR_L2] = (int)pick(&seed, -1, 1) * (1 << 24);
		gpu_chip_describe(&d);
		check_chip(gpu_chip(&d), false);
		CHECK_EQ(gpu_chip(&d)->sms, d.attr[GPU_ATTR_SM_COUNT]);
		CHECK(!strcmp(gpu_chip(&d)->name, name[i]));
		CHECKF(!strstr(gpu_chip(&d)->source, "derived") == (i < 9), "%s: %s", name[i],
		       gpu_chip(&d)->source);
	}
}

/* ---- choosing ---- */

static const char *why_not(const void *args, const struct rlx_g_launch *l)
{
	return *(const int *)args < 0 ? "it is negative" : NULL;
}

static const char *never(const void *args, const struct rlx_g_launch *l)
{
	return "it never can";
}

static bool plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	rlx_g_line(l, (int64_t)i + 1, 32);
	l->can = i != 1;	/* one way does not fit */
	return i < 4;
}

/* The third one, of grid 3, takes the least; the fourth hardly less than that. */
static void cost(const void *args, const struct rlx_g_launch *l, struct rlx_g_cost *t)
{
	static const double ns[] = { 9000, 1, 5000, 4900 };

	t->once_ns = ns[l->grid[0] - 1];
}

static unsigned int judged, judge_n;

static unsigned int last(struct rlx_g_judge *j, const struct rlx_g_family *f, const void *args,
			 const struct rlx_g_candidate *c, unsigned int n, unsigned int least)
{
	judged++;
	judge_n = n;
	CHECK_EQ(c[least].launch.grid[0], 3);
	CHECK(c[n - 1].why_not);
	return n - 2;
}

TEST(least_wins)
{
	static const struct rlx_g_option option[] = {
		{ RLX_G_copy, why_not, plan, cost }, { RLX_G_zero, never, plan, cost },
	};
	static const struct rlx_g_family family = { "test", option, 2, NULL };
	static struct rlx_g_judge judge = { last };
	struct rlx_g_launch l = { .processors = 4 };
	int args = 1;

	rlx_g_choose(&family, &args, &l);
	CHECK(l.can && l.grid[0] == 3 && l.ns > 5000);
	l = (struct rlx_g_launch){ .processors = 4, .judge = &judge };
	rlx_g_choose(&family, &args, &l);
	CHECK_EQ(judged, 1);
	CHECK_EQ(judge_n, 4);	/* three ways, and the one that never can */
	CHECK(l.can && l.grid[0] == 4);
	args = -1;
	l = (struct rlx_g_launch){ .processors = 4, .judge = &judge };
	rlx_g_choose(&family, &args, &l);
	CHECK(!l.can);
	CHECK_EQ(judged, 1);
}

/* Whatever is asked for, some kernel is chosen, in a time that there can be, on any chip. */
TEST(any_gemm)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 20000; i++) {
		int64_t k = pick(&seed, 0, 3) ? pick(&seed, 1, 5000) : pick(&seed, 0, 20);
		struct rlx_k_gemm g = {
			.m = (size_t)(1ull << pick(&seed, 0, 14)) + (size_t)pick(&seed, 0, 3),
			.n = (size_t)pick(&seed, 1, 20000), .k = (size_t)k, .alpha = 1,
			.trans_a = !pick(&seed, 0, 4), .b_fixed = pick(&seed, 0, 1),
			.b_form = pick(&seed, 0, 1) ? RLX_B_COLS : RLX_B_ROWS,
			.batch = { (size_t)pick(&seed, 0, 3), 0 },
		};
		struct rlx_g_launch l = {
			.processors = (uint32_t)pick(&seed, 1, 300), .most_shared = 64 << 10,
			.arch = (uint32_t)pick(&seed, 0, 1) * 90, .chip = gpu_chip_usual(),
		};
		bool f32 = pick(&seed, 0, 1);

		g.a_type = g.b_type = g.c_type = f32 ? RLX_F32 : RLX_F16;
		g.lda = g.trans_a ? g.m : g.k;
		g.ldb = g.b_form == RLX_B_COLS ? g.k : g.n;
		(f32 ? rlx_g_gemm_f32_launch : rlx_g_gemm_16bit_launch)(&g, &l);
		CHECKF(l.can && l.ns > 100 && l.ns < 1e11, "%zux%zux%zu: %d, %g ns", g.m, g.n,
		       g.k, l.can, l.ns);
	}
}

static struct rlx_g_launch on_h200(void)
{
	return (struct rlx_g_launch){ .processors = 132, .arch = 90, .most_shared = 227 << 10,
				      .chip = gpu_chip_usual() };
}

/* Products of f16, small or many: what an H200 takes, and least by this kernel. */
TEST(small_products)
{
	static const struct {
		size_t	batch, m, n, k;
		bool	cols;
		enum rlx_g_variant	variant;
		double	us;
	} p[] = {
		{ 128, 2, 616, 92, false, RLX_G_gemv, 7.2 },
		{ 48, 1, 192, 704, false, RLX_G_gemv, 4.8 },
		{ 24, 24, 18, 48, false, RLX_G_gemm_direct, 2.7 },
		{ 96, 118, 16, 470, true, RLX_G_gemm_direct, 11.7 },
		{ 42, 8, 80, 1024, false, RLX_G_gemm_direct, 5.2 },
		{ 32, 128, 16, 20, false, RLX_G_gemm_direct, 2.7 },
		{ 72, 1, 56, 342, true, RLX_G_gemv, 3.25 },
		{ 32, 36, 128, 50, false, RLX_G_gemm_direct, 3.7 },
		{ 3, 128, 40, 432, false, RLX_G_gemm_direct, 3.5 },
		{ 139, 224, 20, 64, false, RLX_G_gemm_mma, 7.9 },
		{ 85, 384, 18, 39, false, RLX_G_gemm_mma, 9.0 },
		{ 16, 128, 256, 128, true, RLX_G_gemm_wgmma, 3.3 },
		{ 100, 200, 64, 200, false, RLX_G_gemm_wgmma, 6.6 },
		{ 93, 832, 366, 128, true, RLX_G_gemm_wgmma, 79.9 },
	};

	for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
		size_t m = p[i].m, n = p[i].n, k = p[i].k;
		struct rlx_k_gemv_stream a = { .g = {
			.m = m, .n = n, .k = k, .lda = k, .ldb = p[i].cols ? k : n, .ldc = n,
			.alpha = 1, .b_form = p[i].cols ? RLX_B_COLS : RLX_B_ROWS,
			.a_type = RLX_F16, .b_type = RLX_F16, .c_type = RLX_F16,
			.batch = { 1, p[i].batch }, .a_step = { 0, m * k },
			.b_step = { 0, n * k }, .c_step = { 0, m * n },
		} };
		struct rlx_g_launch l = on_h200();

		rlx_g_gemm_16bit_launch(&a, &l);
		CHECKF(l.variant == p[i].variant && l.ns < 1300 * p[i].us && l.ns > 700 * p[i].us,
		       "%zu of %zux%zux%zu: kernel %d, %g ns", p[i].batch, m, n, k, l.variant,
		       l.ns);
	}
}

/* So of many of f32: us as they were measured on an H200. */
TEST(small_products_of_f32)
{
	static const struct {
		size_t	batch, m, n, k;
		bool	cols;
		enum rlx_g_variant	variant;
		double	us;
	} p[] = {
		{ 16, 232, 408, 20, false, RLX_G_gemm_tiled, 11.7 },
		{ 22, 384, 432, 18, true, RLX_G_gemm_tiled, 12.8 },
		{ 5, 720, 128, 63, true, RLX_G_gemm_tiled, 8.9 },
		{ 184, 40, 220, 16, true, RLX_G_gemm_tiled, 10.4 },
		{ 136, 256, 64, 384, false, RLX_G_gemm_tiled, 67.7 },
		{ 3, 947, 16, 784, false, RLX_G_gemm_small_m_f32, 10.5 },
		{ 32, 24, 128, 960, false, RLX_G_gemm_small_m_f32, 14.6 },
		{ 4, 528, 112, 32, false, RLX_G_gemm_tiled, 5.3 },
		{ 32, 96, 96, 264, false, RLX_G_gemm_tiled, 13.1 },
		{ 1, 5165, 64, 136, true, RLX_G_gemm_tiled, 9.8 },
		{ 1, 165, 440, 2608, true, RLX_G_gemm_tiled, 22.5 },
		{ 1, 577, 2944, 3520, true, RLX_G_gemm_tiled, 361 },
	};

	for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
		size_t m = p[i].m, n = p[i].n, k = p[i].k;
		struct rlx_k_gemm a = {
			.m = m, .n = n, .k = k, .lda = k, .ldb = p[i].cols ? k : n, .ldc = n,
			.alpha = 1, .b_form = p[i].cols ? RLX_B_COLS : RLX_B_ROWS,
			.a_type = RLX_F32, .b_type = RLX_F32, .c_type = RLX_F32,
			.batch = { 1, p[i].batch }, .a_step = { 0, m * k },
			.b_step = { 0, n * k }, .c_step = { 0, m * n },
		};
		struct rlx_g_launch l = on_h200();

		rlx_g_gemm_f32_launch(&a, &l);
		CHECKF(l.variant == p[i].variant && l.ns < 1300 * p[i].us && l.ns > 700 * p[i].us,
		       "%zu of %zux%zux%zu: kernel %d, %g ns", p[i].batch, m, n, k, l.variant,
		       l.ns);
	}
}

/* Attention of few queries or few heads: kernels that were the fastest on an H200. */
TEST(small_attention)
{
	static const struct {
		int64_t	batch, heads, queries, keys, dim;
		bool	split;		/* several blocks share out keys */
		enum rlx_g_variant	variant;
		double	us;
	} p[] = {
		{ 3, 1, 427, 427, 128, false, RLX_G_attention_wgmma, 9.5 },
		{ 23, 1, 20, 384, 64, false, RLX_G_attention_wgmma, 6.4 },
		{ 4, 8, 50, 50, 128, false, RLX_G_attention_wgmma, 6.3 },
		{ 14, 1, 28, 25, 256, false, RLX_G_attention_wgmma, 6.5 },
		{ 7, 4, 512, 1171, 32, false, RLX_G_attention_wgmma, 16.6 },
		{ 7, 1, 5, 272, 80, false, RLX_G_attention_decode, 9.5 },
		{ 3, 4, 2, 1728, 128, true, RLX_G_attention_decode, 13.1 },
		{ 10, 1, 4, 7760, 256, true, RLX_G_attention_wgmma, 0 },
		{ 4, 1, 1280, 4352, 32, true, RLX_G_attention_wgmma, 0 },
	};

	for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
		int64_t q = p[i].queries * p[i].dim, k = p[i].keys * p[i].dim;
		struct rlx_k_attention a = {
			.batch = p[i].batch, .heads = p[i].heads, .kv_heads = p[i].heads,
			.q_len = p[i].queries, .kv_len = p[i].keys, .head_dim = p[i].dim,
			.v_dim = p[i].dim, .scale = 0.1f, .q_offset = p[i].keys - p[i].queries,
			.q_stride = { q * p[i].heads, q, p[i].dim },
			.k_stride = { k * p[i].heads, k, p[i].dim },
			.v_stride = { k * p[i].heads, k, p[i].dim },
			.out_stride = { q * p[i].heads, q, p[i].dim },
			.q_type = RLX_F16, .kv_type = RLX_F16, .out_type = RLX_F16,
		};
		struct rlx_g_launch l = on_h200();

		rlx_g_attention_launch(&a, &l);
		CHECKF(l.variant == p[i].variant && (l.n_launches > 1) == p[i].split,
		       "%zu: kernel %d in %u passes", i, l.variant, l.n_launches);
		CHECKF(!(p[i].us > 0) || (l.ns < 1400 * p[i].us && l.ns > 600 * p[i].us),
		       "%zu: %g ns", i, l.ns);
	}
}

/* Small tiles by wgmma: two blocks of a multiprocessor have room, and there are as many. */
TEST(tiles_beside_others)
{
	const size_t n = 240, m = 410, k = 64;
	struct rlx_k_gemv_stream a = { .g = {
		.m = m, .n = k, .k = k, .lda = k, .ldb = k, .ldc = k, .alpha = 1,
		.b_form = RLX_B_COLS, .a_type = RLX_F16, .b_type = RLX_F16, .c_type = RLX_F16,
		.batch = { 1, n }, .a_step = { 0, m * k }, .b_step = { 0, k * k },
		.c_step = { 0, m * k },
	} };
	struct rlx_g_launch l = { .processors = 132, .arch = 90, .most_shared = 227 << 10,
				  .chip = gpu_chip_usual() };

	rlx_g_gemm_16bit_launch(&a, &l);
	CHECK_EQ(l.variant, RLX_G_gemm_wgmma);
	CHECKF(l.grid[0] > 132 && l.grid[0] <= 264, "%u blocks", l.grid[0]);
	/* 1 KiB of its own, and what is static, aligned as the tiles are */
	CHECKF(2 * (l.shared + 2048) <= l.chip->smem_sm, "%u bytes", l.shared);
	CHECKF(l.ns > 0.8 * 10800 && l.ns < 1.05 * 10800, "%g ns", l.ns);
}

/* The sort of all, as measured on an H100; far less of few, which are selected. */
TEST(topk)
{
	struct rlx_k_topk a = { .outer = 4096, .n = 4096, .inner = 1, .k = 4096, .type = RLX_F32 };
	struct rlx_g_launch l = { .processors = 132, .arch = 90, .chip = gpu_chip_usual() };
	double few, tile, all;

	rlx_g_topk_launch(&a, &l);
	all = l.ns;
	CHECKF(all > 1079e3 / 1.3 && all < 1079e3 * 1.3, "%g ns", all);
	a.k = 24;
	l = (struct rlx_g_launch){ .processors = 132, .arch = 90, .chip = gpu_chip_usual() };
	rlx_g_topk_launch(&a, &l);
	few = l.ns;
	CHECK_EQ(l.variant, RLX_G_topk_select);
	a.n = a.k = 2048;
	l = (struct rlx_g_launch){ .processors = 132, .arch = 90, .chip = gpu_chip_usual() };
	rlx_g_topk_launch(&a, &l);
	tile = l.ns;
	a.n = a.k = 24;		/* H100: 3.7 us by warps; in a block threads wait for each other */
	l = (struct rlx_g_launch){ .processors = 132, .arch = 90, .chip = gpu_chip_usual() };
	rlx_g_topk_launch(&a, &l);
	CHECK_EQ(l.variant, RLX_G_topk_warp);
	CHECKF(few < all / 5 && tile < all && tile > all / 3, "%g, %g and %g ns", few, all, tile);
	a.outer = 1;
	a.n = a.k = 1000;	/* less than a tile: of one block, not three launches a digit */
	l = (struct rlx_g_launch){ .processors = 132, .arch = 90, .chip = gpu_chip_usual() };
	rlx_g_topk_launch(&a, &l);
	CHECKF(l.n_launches <= 1, "%u launches", l.n_launches);
	a.outer = 0;
	rlx_g_topk_launch(&a, &l);
	CHECKF(l.ns < 2 * rlx_g_least_ns(&l), "%g ns", l.ns);
}

/* Lines that shared memory holds are sorted there by digits, others too; as measured on an H200. */
TEST(topk_digits)
{
	static const struct {
		struct rlx_k_topk	a;
		enum rlx_g_variant	variant;
		double			ns;
	} row[] = {
		{ { .outer = 3701, .n = 2320, .type = RLX_F16 }, RLX_G_topk_block, 153e3 },
		{ { .outer = 1549, .n = 5736, .type = RLX_F16 }, RLX_G_topk_block, 147e3 },
		{ { .outer = 2945, .n = 8704, .type = RLX_F32 }, RLX_G_topk_block, 905e3 },
		{ { .outer = 31462, .n = 1003, .type = RLX_F32 }, RLX_G_topk_block, 916e3 },
		{ { .outer = 2000, .n = 4000, .type = RLX_I64 }, RLX_G_topk_block, 497e3 },
		{ { .outer = 1, .n = 4096, .type = RLX_F32 }, RLX_G_topk_block, 19.4e3 },
		{ { .outer = 500, .n = 20000, .type = RLX_F32 }, RLX_G_topk_radix, 728e3 },
		{ { .outer = 39, .n = 664851, .type = RLX_F16 }, RLX_G_topk_radix, 939e3 },
		{ { .outer = 100, .n = 40000, .type = RLX_I64 }, RLX_G_topk_radix, 923e3 },
		{ { .outer = 1, .n = 1000000, .type = RLX_F32 }, RLX_G_topk_radix, 94e3 },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct rlx_g_launch l = {
			.processors = 132, .arch = 90, .chip = gpu_chip_usual(),
			.most_shared = 227 << 10,
		};
		struct rlx_k_topk a = row[i].a;

		a.inner = 1;
		a.k = a.n;
		rlx_g_topk_launch(&a, &l);
		CHECK_EQ(l.variant, row[i].variant);
		CHECKF(l.ns > row[i].ns / 1.45 && l.ns < row[i].ns * 1.45, "%zu: %g ns", i, l.ns);
		l.most_shared = 8 << 10;	/* not even the counts fit */
		rlx_g_topk_launch(&a, &l);
		CHECK(l.can && l.variant != RLX_G_topk_block);
	}
}

/* Whatever is asked for, it can be done, by a kernel of which k is no more than it takes. */
TEST(any_topk)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 20000; i++) {
		int64_t bits = pick(&seed, 0, 24), n = (int64_t)1 << bits;
		struct rlx_k_topk a = {	/* of what a device's memory may hold */
			.outer = (int64_t)1 << pick(&seed, 0, bits < 15 ? 17 : 32 - bits),
			.n = pick(&seed, 1, n),
			.inner = pick(&seed, 1, 3), .type = pick(&seed, 0, 1) ? RLX_F32 : RLX_I64,
		};
		struct rlx_g_launch l = {
			.processors = (uint32_t)pick(&seed, 1, 300),
			.most_shared = (uint32_t)(48 << pick(&seed, 0, 2)) << 10,
			.arch = (uint32_t)pick(&seed, 0, 1) * 90, .chip = gpu_chip_usual(),
		};

		a.k = pick(&seed, 0, 1) ? pick(&seed, 1, a.n) : pick(&seed, 1, a.n < 99 ? a.n : 99);
		rlx_g_topk_launch(&a, &l);
		CHECKF(l.can && l.ns > 100 && l.ns < 1e13 && l.shared <= l.most_shared,
		       "%lldx%lldx%lld of %lld: %d, %g ns", (long long)a.outer, (long long)a.n,
		       (long long)a.inner, (long long)a.k, l.can, l.ns);
	}
}

TEST_MAIN()
