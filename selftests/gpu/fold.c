// SPDX-License-Identifier: MIT
/* GPU kernels that fold or order along axes, on the emulator. */
#include "kernels/knn.h"
#include "kernels/reduce.h"
#include "kernels/sortk.h"
#include "selftests/gpu/against_cpu.h"

static const int folded[] = {
	RLX_F32, RLX_F32, RLX_F64, RLX_F16, RLX_BF16, RLX_I64, RLX_I32,
	RLX_U64, RLX_I8, RLX_BOOL,
};

static int any_type(uint64_t *seed)
{
	return folded[kc_pick(seed, 0, sizeof(folded) / sizeof(folded[0]) - 1)];
}

static double tolerance(int type)
{
	return type == RLX_F32 ? 1e-4 : type == RLX_F64 ? 1e-11 :
	       type == RLX_F16 ? 4e-3 : type == RLX_BF16 ? 2e-2 : 0;
}

static bool is_float(int type)
{
	return rlx_k_type_float((enum rlx_dtype)type);
}

static void one_reduce(const int64_t *dim, int rank, uint32_t axes, int type,
		       uint64_t *seed)
{
	struct rlx_k_reduce a = { .rank = rank, .axes = axes, .type = (uint8_t)type };
	int64_t n = 1;

	a.op = (uint8_t)kc_pick(seed, 0, RLX_K_REDUCE_OPS - 1);
	for (int d = 0; d < rank; d++)
		n *= a.dim[d] = dim[d];
	rlx_k_reduce_plan(&a);
	{
		/* products stay near 1 */
		bool near_one = a.op == RLX_K_REDUCE_PROD && is_float(type);
		double lo = near_one ? 0.99 : -2;
		struct gpu_field f[] = {
			GPU_IN(struct rlx_k_reduce, x, type, n),
			GPU_OUT(struct rlx_k_reduce, y, type, a.n_out, tolerance(type)),
		};

		if (type == RLX_BOOL || type == RLX_U64)
			lo = 0;
		a.x = gpu_alloc((size_t)n, type, lo, near_one ? 1.01 : 2, seed);
		a.y = gpu_alloc((size_t)a.n_out, type, 0, 0, seed);
		GPU_AGAINST_CPU(reduce, a, rlx_k_reduce_units(&a),
				RLX_K_REDUCE_SCRATCH, f, seed);
	}
}

TEST(reduce)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 24; i++) {
		int64_t dim[4];
		int rank = (int)kc_pick(&seed, 1, 4);

		for (int d = 0; d < rank; d++)
			dim[d] = kc_pick(&seed, 1, rank > 2 ? 9 : 60);
		one_reduce(dim, rank, (uint32_t)kc_pick(&seed, 0, (1 << rank) - 1),
			   any_type(&seed), &seed);
	}
}

/* Rows for a whole block, and few results of many elements, which are split. */
TEST(reduce_long)
{
	static const struct { int64_t dim[3]; int rank; uint32_t axes; } c[] = {
		{ { 3, 2500 }, 2, 2 }, { { 300000 }, 1, 1 }, { { 20000, 7 }, 2, 1 },
		{ { 50, 3, 1200 }, 3, 5 }, { { 0, 5 }, 2, 1 }, { { 5, 0 }, 2, 2 },
	};
	uint64_t seed = rlx_test_seed();

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		one_reduce(c[i].dim, c[i].rank, c[i].axes,
			   kc_pick(&seed, 0, 1) ? RLX_F32 : RLX_I64, &seed);
}

/* Rows and columns of every width and alignment, short and long ones, few and many. */
TEST(reduce_shares)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 8; i++) {
		int64_t rows[2] = { kc_pick(&seed, 1, 400), kc_pick(&seed, 1, 50) };
		int64_t wide[2] = { kc_pick(&seed, 1, 30), 8 * kc_pick(&seed, 1, 700) };
		int64_t cols[3] = { kc_pick(&seed, 1, 20), kc_pick(&seed, 1, 40),
				    8 * kc_pick(&seed, 1, 40) };
		int64_t tall[3] = { kc_pick(&seed, 1, 3), kc_pick(&seed, 200, 1500),
				    kc_pick(&seed, 2, 40) };
		int64_t longer[2] = { kc_pick(&seed, 1, 2), kc_pick(&seed, 20481, 70000) };

		int64_t cut[4] = { kc_pick(&seed, 1, 6), kc_pick(&seed, 2, 9),
				   kc_pick(&seed, 2, 9), 4 * kc_pick(&seed, 1, 60) };

		one_reduce(cut, 4, 5, any_type(&seed), &seed);
		one_reduce(cut, 4, 10, any_type(&seed), &seed);
		one_reduce(cut + 1, 3, 5, any_type(&seed), &seed);
		one_reduce(rows, 2, 2, any_type(&seed), &seed);
		one_reduce(wide, 2, 2, any_type(&seed), &seed);
		one_reduce(cols, 3, 2, any_type(&seed), &seed);
		one_reduce(tall, 3, 2, any_type(&seed), &seed);
		one_reduce(longer, 2, 2, any_type(&seed), &seed);
	}
	one_reduce((int64_t[]){ 6000, 16 }, 2, 1, RLX_F16, &seed);
	one_reduce((int64_t[]){ 30000, 3 }, 2, 2, RLX_F32, &seed);
	one_reduce((int64_t[]){ 300, 900, 5 }, 3, 2, RLX_I32, &seed);
	/* as a batch norm sums, of lines that blocks share */
	one_reduce((int64_t[]){ 8, 3, 49 * 49 * 4 }, 3, 5, RLX_F32, &seed);
	one_reduce((int64_t[]){ 40, 2, 75, 16 }, 4, 5, RLX_F16, &seed);
}

static void one_argreduce(int64_t outer, int64_t n, int64_t inner, uint64_t *seed)
{
	int type = any_type(seed), it = kc_pick(seed, 0, 1) ? RLX_I64 : RLX_I32;
	struct rlx_k_argreduce a = {
		.outer = outer, .n = n, .inner = inner, .type = (uint8_t)type,
		.idx_type = (uint8_t)it, .min = kc_pick(seed, 0, 1),
		.last = kc_pick(seed, 0, 1),
	};
	int64_t all = outer * n * inner;
	struct gpu_field f[] = {
		GPU_IN(struct rlx_k_argreduce, x, type, all),
		GPU_OUT(struct rlx_k_argreduce, idx, it, outer * inner, 0),
	};

	/* few values, so that there are ties */
	a.x = gpu_alloc((size_t)all, type, type == RLX_U64 ? 0 : -3, 3, seed);
	a.idx = gpu_alloc((size_t)(outer * inner), it, 0, 0, seed);
	if (type == RLX_F32)
		for (int64_t i = 0; i < all; i++) {
			float *v = (float *)(uintptr_t)a.x + i;

			*v = kc_pick(seed, 0, 40) ? floorf(*v) : NAN;
		}
	GPU_AGAINST_CPU(argreduce, a, rlx_k_argreduce_units(&a),
			RLX_K_REDUCE_SCRATCH, f, seed);
}

TEST(argreduce)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 8; i++) {
		one_argreduce(kc_pick(&seed, 1, 5), kc_pick(&seed, 1, 900), 1, &seed);
		one_argreduce(kc_pick(&seed, 1, 5), kc_pick(&seed, 1, 30),
			      kc_pick(&seed, 2, 70), &seed);
		one_argreduce(kc_pick(&seed, 1, 3), kc_pick(&seed, 16000, 60000), 1, &seed);
	}
}

static void one_scan(int64_t outer, int64_t n, int64_t inner, uint64_t *seed)
{
	int type = any_type(seed);
	struct rlx_k_scan a = {
		.outer = outer, .n = n, .inner = inner, .type = (uint8_t)type,
		.prod = kc_pick(seed, 0, 1), .exclusive = kc_pick(seed, 0, 1),
		.reverse = kc_pick(seed, 0, 1),
	};
	bool near_one = a.prod && is_float(type);
	int64_t all = outer * n * inner;
	struct gpu_field f[] = {
		GPU_IN(struct rlx_k_scan, x, type, all),
		GPU_OUT(struct rlx_k_scan, y, type, all, tolerance(type)),
	};

	if (type == RLX_BOOL)	/* cumsum takes numbers */
		return;
	a.x = gpu_alloc((size_t)all, type, near_one ? 0.97 : type == RLX_U64 ? 0 : -3,
			near_one ? 1.03 : 3, seed);
	a.y = gpu_alloc((size_t)all, type, 0, 0, seed);
	GPU_AGAINST_CPU(scan, a, rlx_k_scan_units(&a), RLX_K_REDUCE_SCRATCH, f, seed);
}

TEST(scan)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 8; i++) {
		one_scan(kc_pick(&seed, 1, 5), kc_pick(&seed, 1, 700), 1, &seed);
		one_scan(kc_pick(&seed, 1, 5), kc_pick(&seed, 1, 30),
			 kc_pick(&seed, 2, 70), &seed);
	}
}

/*
 * Factors of which many have no product that is a number: large ones, then small, and the other
 * way round. What is infinite, or 0, stays so; also behind a factor that is 0.
 */
TEST(products_past_all_numbers)
{
	static const int types[] = { RLX_F64, RLX_F32, RLX_BF16 };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 16; i++) {
		const int type = types[i % 3];
		const size_t size = rlx_k_type_size((enum rlx_dtype)type), n = 900;
		struct rlx_k_scan a = {
			.outer = 1, .n = (int64_t)n, .inner = 1, .type = (uint8_t)type, .prod = 1,
			.exclusive = kc_pick(&seed, 0, 1), .reverse = kc_pick(&seed, 0, 1),
		};
		struct gpu_field f[] = {
			GPU_IN(struct rlx_k_scan, x, type, (int64_t)n),
			GPU_OUT(struct rlx_k_scan, y, type, (int64_t)n, tolerance(type)),
		};
		char *x = gpu_alloc(n, type, 0, 0, &seed);
		size_t from = (size_t)kc_pick(&seed, 250, 350);

		gpu_fill(x, n, type, i & 8 ? -1e12 : 1e-12, i & 8 ? -1e12 : 1e-12, &seed);
		gpu_fill(x + from * size, from, type, i & 8 ? 1e-12 : -1e12, i & 8 ? 1e-12 : -1e12,
			 &seed);
		if (i & 4)
			gpu_fill(x + (a.reverse ? n - 1 : 0) * size, 1, type, 0, 0, &seed);
		a.x = x;
		a.y = gpu_alloc(n, type, 0, 0, &seed);
		GPU_AGAINST_CPU(scan, a, rlx_k_scan_units(&a), RLX_K_REDUCE_SCRATCH, f, &seed);
	}
}

/* How the values of a line lie: what a selection finds a threshold for. */
enum lie {
	LIE_ANY,	/* at random, with some NaN and zeros of either sign */
	LIE_EQUAL,	/* all but a few are */
	LIE_RISING,
	LIE_FALLING,
	LIE_BUNCHED,	/* the best at distances of a power of two, which one thread may have */
	LIE_COUNT
};

/* NaN of either sign, or zeros. */
static void put_special(char *x, int type, uint64_t *seed)
{
	static const uint16_t narrow[] = { 0x7fff, 0xffff, 0x8000, 0 };
	const uint16_t bits = narrow[kc_pick(seed, 0, 3)];
	const float f = kc_pick(seed, 0, 1) ? NAN : -0.0f;

	if (type == RLX_F32)
		memcpy(x, &f, sizeof(f));
	else if (rlx_k_type_size((enum rlx_dtype)type) == 2)
		memcpy(x, &bits, sizeof(bits));
	else if (type == RLX_F8E4M3 || type == RLX_F8E5M2)
		*x = (char)(bits >> 8);
}

static void put_lie(const struct rlx_k_topk *a, enum lie lie, uint64_t *seed)
{
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	int64_t all = a->outer * a->n * a->inner, i, at;
	char *x = (char *)(uintptr_t)a->x;
	float *f = (float *)(void *)x;

	for (i = 0; i < all && rlx_k_type_float((enum rlx_dtype)a->type); i++)
		if (lie == LIE_ANY && !kc_pick(seed, 0, 20))
			put_special(x + (size_t)i * size, a->type, seed);
	for (i = 1; i < all; i++)
		if (lie == LIE_EQUAL && kc_pick(seed, 0, 500))
			memcpy(x + (size_t)i * size, x, size);
	for (i = 0; i < all && a->type == RLX_F32; i++) {
		at = i / a->inner % a->n;
		if (lie == LIE_RISING || lie == LIE_FALLING)
			f[i] = (float)(lie == LIE_RISING ? at : -at);
		else if (lie == LIE_BUNCHED && at % 256 == 5)
			f[i] += a->smallest ? -100 : 100;
	}
}

/* The @select-th way of selecting, with its tiles as far as it has them. */
static int select_way;

static void select_launch(const void *args, struct rlx_g_launch *l)
{
	CHECK(!rlx_g_topk_select_why_not(args, l));
	CHECK(rlx_g_topk_select_plan(args, (unsigned int)select_way, l));
	if (!l->can)
		rlx_g_topk_launch(args, l);
}

/* Some values, of 8 and 16 bits nearly all that there are. */
static void *to_order(size_t n, int type, uint64_t *seed)
{
	const int bits = 8 * (int)rlx_k_type_size((enum rlx_dtype)type);
	double most = rlx_k_type_float((enum rlx_dtype)type) || bits > 16 ? 9 :
		      ldexp(1, bits - 1) - 1;

	if (type == RLX_BOOL)
		return gpu_alloc(n, type, 0, 2, seed);
	if (type == RLX_U64 || type == RLX_U32 || type == RLX_U16 || type == RLX_U8)
		return gpu_alloc(n, type, 0, 2 * most, seed);
	return gpu_alloc(n, type, -most, most, seed);
}

static void one_topk(struct rlx_k_topk a, gpu_launch_fn *launch, uint64_t *seed)
{
	int it = kc_pick(seed, 0, 1) ? RLX_I64 : RLX_I32, type = a.type;
	int64_t all = a.outer * a.n * a.inner, best = a.outer * a.k * a.inner;
	struct gpu_field f[] = {
		GPU_IN(struct rlx_k_topk, x, type, all),
		GPU_OUT(struct rlx_k_topk, values, type, best, 0),
		GPU_OUT(struct rlx_k_topk, idx, it, best, 0),
	};

	a.idx_type = (uint8_t)it;
	a.smallest = kc_pick(seed, 0, 1);
	a.x = to_order((size_t)all, type, seed);
	if (kc_pick(seed, 0, 3))
		a.values = gpu_alloc((size_t)best, type, 0, 0, seed);
	a.idx = gpu_alloc((size_t)best, it, 0, 0, seed);
	put_lie(&a, (enum lie)kc_pick(seed, 0, LIE_COUNT - 1), seed);
	gpu_against_cpu(&(struct gpu_case){
		.name = "topk", .launch = launch, .cpu = rlx_kernels_get(RLX_ISA_BASE)->topk,
		.args = &a, .size = sizeof(a), .units = (size_t)(a.outer * a.inner),
		.scratch = rlx_k_topk_scratch(&a), .field = f, .n = 3 }, seed);
}

static struct rlx_k_topk sizes(int64_t outer, int64_t n, int64_t inner, int64_t k, int type)
{
	return (struct rlx_k_topk){
		.outer = outer, .n = n, .inner = inner, .k = k, .type = (uint8_t)type };
}

TEST(topk)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 8; i++) {
		int64_t n = kc_pick(&seed, 1, 300);

		one_topk(sizes(kc_pick(&seed, 1, 4), n, kc_pick(&seed, 1, 3),
			       kc_pick(&seed, 1, n), any_type(&seed)), rlx_g_topk_launch, &seed);
	}
}

static void warp_launch(const void *args, struct rlx_g_launch *l)
{
	CHECK(!rlx_g_topk_warp_why_not(args, l));
	CHECK(rlx_g_topk_warp_plan(args, 0, l));
}

/* Lines of every length that a warp's registers hold, of which a block has one or many. */
TEST(topk_few)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 30; i++) {
		int64_t n = kc_pick(&seed, 1, 1 << i % 10);

		one_topk(sizes(kc_pick(&seed, 1, 40), n, kc_pick(&seed, 0, 2) ? 1 : 3,
			       kc_pick(&seed, 1, n), i % 2 ? RLX_F32 : any_type(&seed)),
			 warp_launch, &seed);
	}
}

/* Lines of more than one tile: the best few, and all of them. */
TEST(topk_long)
{
	uint64_t seed = rlx_test_seed();

	one_topk(sizes(2, 2049, 1, 2049, any_type(&seed)), rlx_g_topk_launch, &seed);
	one_topk(sizes(1, 13001, 1, 50, any_type(&seed)), rlx_g_topk_launch, &seed);
	one_topk(sizes(1, 9000, 2, 9000, any_type(&seed)), rlx_g_topk_launch, &seed);
	one_topk(sizes(1, 7000, 1, 3000, any_type(&seed)), rlx_g_topk_launch, &seed);
}

/* The @select-th size of a tile */
static void radix_launch(const void *args, struct rlx_g_launch *l)
{
	CHECK(rlx_g_topk_radix_plan(args, (unsigned int)select_way, l));
	if (!l->can)	/* no room for so many items, or k is all */
		CHECK(rlx_g_topk_radix_plan(args, 0, l));
}

/* By digits: every type, lines of one and of many tiles, few of the results and all. */
TEST(topk_radix)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 24; i++) {
		int64_t n = kc_pick(&seed, 1, i % 4 ? 3000 : 9000);

		select_way = i % 3;
		one_topk(sizes(kc_pick(&seed, 1, 3), n, kc_pick(&seed, 0, 2) ? 1 : 2,
			       kc_pick(&seed, 0, 1) ? n : kc_pick(&seed, 1, n),
			       i % 2 ? RLX_F32 : any_type(&seed)), radix_launch, &seed);
	}
}

/* The k best are selected by digits first: every type, few different ones, one and almost all. */
TEST(topk_radix_select)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 36; i++) {
		int64_t n = kc_pick(&seed, 2, i % 4 ? 3000 : 40000);

		select_way = 3 + i % 2;
		one_topk(sizes(kc_pick(&seed, 1, 3), n, kc_pick(&seed, 0, 2) ? 1 : 2,
			       i % 9 == 1 ? 1 : i % 9 == 2 ? n - 1 : kc_pick(&seed, 1, n - 1),
			       i % 2 ? RLX_F32 : any_type(&seed)), radix_launch, &seed);
	}
}

/* Integers have a digit a byte. */
TEST(topk_radix_integers)
{
	static const int type[] = { RLX_I8, RLX_U8, RLX_BOOL, RLX_I16, RLX_U16, RLX_I32, RLX_U32 };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 28; i++) {
		int64_t n = kc_pick(&seed, 1, 3000);

		select_way = i % 5;
		one_topk(sizes(kc_pick(&seed, 1, 3), n, 1, kc_pick(&seed, 0, 1) ? n : 1 + n / 2,
			       type[i / 4]), radix_launch, &seed);
	}
}

/* A block of the @select-th size, with shared memory as an H200 has it. */
static void block_launch(const void *args, struct rlx_g_launch *l)
{
	CHECK(rlx_g_topk_block_plan(args, (unsigned int)select_way, l));
	if (!l->can)
		rlx_g_topk_launch(args, l);
}

/* In a block's shared memory: every type, lines about the limits of blocks and of warps' runs. */
TEST(topk_block)
{
	static const int type[] = {
		RLX_F32, RLX_F16, RLX_BF16, RLX_F64, RLX_I64, RLX_I8, RLX_U8, RLX_BOOL, RLX_I16,
		RLX_U16, RLX_I32, RLX_U32, RLX_U64, RLX_F8E4M3, RLX_F8E5M2,
	};
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 45; i++) {
		int64_t lanes = 256, n;

		select_way = i % 3;
		lanes <<= select_way;
		n = i % 2 ? kc_pick(&seed, 1, 3000) :
		    (lanes << kc_pick(&seed, 0, 3)) + kc_pick(&seed, -1, 1);
		one_topk(sizes(kc_pick(&seed, 1, 3), n, kc_pick(&seed, 0, 2) ? 1 : 2,
			       kc_pick(&seed, 0, 1) ? n : kc_pick(&seed, 1, (int)n),
			       type[i / 3]), block_launch, &seed);
	}
}

/* Every size of a block, lines of one and of many tiles, few and many of them. */
TEST(topk_select)
{
	static const int type[] = { RLX_F32, RLX_F32, RLX_F32, RLX_F32, RLX_I64, RLX_F16 };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 36; i++) {
		int64_t lanes = 32, k = (int64_t)1 << kc_pick(&seed, 0, 9), n;

		select_way = i % 6;
		lanes <<= select_way;
		n = kc_pick(&seed, 1, (int)lanes * (i % 3 ? 16 : 100));
		k = kc_pick(&seed, 1, (int)k);
		one_topk(sizes(kc_pick(&seed, 1, 3), n, kc_pick(&seed, 0, 3) ? 1 : 2,
			       k < n ? k : n, type[kc_pick(&seed, 0, 5)]), select_launch, &seed);
	}
}

/* The terms of @n numbers of @x, one a row, of the left operand or of the other. */
static void knn_terms(const float *x, int64_t n, bool left, uint16_t *out)
{
	size_t bytes = (size_t)n * RLX_K_KNN_TERMS * sizeof(*out);
	struct rlx_k_knn a = { .rows = n, .d = 1, .type = RLX_F32, .left = left };
	struct rlx_g_env env = { 0 };

	a.x = dev_of(x, (size_t)n * sizeof(*x));
	a.split = dev_new(bytes);
	gpu_run_kernel(rlx_g_knn_launch, &a, &env);
	dev_read(out, a.split, bytes);
	dev_free(a.x);
	dev_free(a.split);
}

/* Six products of terms add up to that of two numbers; of what is not finite they are as it is. */
TEST(knn_terms)
{
	enum { N = 40, TERMS = RLX_K_KNN_TERMS };
	static const float few[] = { 0, 1, -3, INFINITY, -INFINITY, NAN, 1e30f, -1e-30f, 0.1f };
	uint16_t s[N * TERMS], t[N * TERMS];
	uint64_t seed = rlx_test_seed();
	float x[N], y[N];
	int i, j, k;

	for (i = 0; i < N; i++) {
		x[i] = i < 9 ? few[i] : (float)rlx_test_uniform(&seed, -4, 4);
		y[i] = i < 9 ? few[i] : (float)rlx_test_uniform(&seed, -4, 4);
	}
	knn_terms(x, N, true, s);
	knn_terms(y, N, false, t);
	for (i = 0; i < N; i++)
		for (j = 0; j < N; j++) {
			double want = (double)x[i] * (double)y[j], sum = 0;

			for (k = 0; k < TERMS; k++)
				sum += (double)kc_from_bf16(s[i * TERMS + k]) *
				       (double)kc_from_bf16(t[j * TERMS + k]);
			CHECKF(isfinite(want) ? fabs(sum - want) <= ldexp(fabs(want), -24) :
			       isnan(want) ? isnan(sum) : sum == want,
			       "%g times %g is %g", (double)x[i], (double)y[j], sum);
		}
}

TEST_MAIN()
