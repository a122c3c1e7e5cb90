// SPDX-License-Identifier: MIT
/* GPU kernels that work along rows, on the emulator: softmax, norms. */
#include "selftests/gpu/against_cpu.h"

static const int small_float[3] = { RLX_F32, RLX_BF16, RLX_F16 };

static double tolerance(int type)
{
	return type == RLX_F32 ? 2e-5 : type == RLX_F16 ? 2e-3 : 1e-2;
}

static void one_softmax(int64_t outer, int64_t n, int64_t inner, uint64_t *seed)
{
	int xt = small_float[kc_pick(seed, 0, 2)], yt = small_float[kc_pick(seed, 0, 2)];
	struct rlx_k_softmax a = { .outer = outer, .n = n, .inner = inner,
				   .x_type = (uint8_t)xt, .y_type = (uint8_t)yt,
				   .log = kc_pick(seed, 0, 1) };
	int64_t all = outer * n * inner;
	struct gpu_field f[] = {
		GPU_IN(struct rlx_k_softmax, x, xt, all),
		GPU_OUT(struct rlx_k_softmax, y, yt, all, tolerance(yt)),
	};

	a.x = gpu_alloc((size_t)all, xt, -8, 8, seed);
	a.y = gpu_alloc((size_t)all, yt, 0, 0, seed);
	if (xt == RLX_F32 && all > 3 && kc_pick(seed, 0, 1))
		((float *)(uintptr_t)a.x)[kc_pick(seed, 0, all - 1)] = -INFINITY;
	GPU_AGAINST_CPU(softmax, a, rlx_k_softmax_units(&a),
			rlx_k_softmax_scratch(&a), f, seed);
}

TEST(softmax)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 4; i++) {
		one_softmax(kc_pick(&seed, 1, 9), kc_pick(&seed, 1, 200), 1, &seed);
		one_softmax(kc_pick(&seed, 1, 4), kc_pick(&seed, 1025, 2000), 1, &seed);
		one_softmax(kc_pick(&seed, 1, 4), kc_pick(&seed, 1, 60),
			    kc_pick(&seed, 2, 80), &seed);
	}
}

/* Parts of a warp a row, blocks of all sizes, rows in pieces that blocks share. */
TEST(softmax_rows)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 4; i++) {
		one_softmax(kc_pick(&seed, 1, 300), kc_pick(&seed, 1, 40), 1, &seed);
		one_softmax(kc_pick(&seed, 1, 40), 8 * kc_pick(&seed, 1, 600), 1, &seed);
	}
	one_softmax(20000, kc_pick(&seed, 1, 9), 1, &seed);
	one_softmax(1, kc_pick(&seed, 16385, 20480), 1, &seed);
	one_softmax(1, 8 * kc_pick(&seed, 2561, 6000), 1, &seed);
	one_softmax(1, kc_pick(&seed, 20481, 60000), 1, &seed);
	one_softmax(3, 20481, 1, &seed);
}

/* Columns that registers hold, and those in pieces, which blocks share. */
TEST(softmax_columns)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 6; i++) {
		one_softmax(kc_pick(&seed, 1, 4), kc_pick(&seed, 1, 40),
			    8 * kc_pick(&seed, 1, 40), &seed);
		one_softmax(kc_pick(&seed, 1, 3), kc_pick(&seed, 100, 600),
			    kc_pick(&seed, 2, 30), &seed);
		one_softmax(kc_pick(&seed, 1, 40), kc_pick(&seed, 1, 3),
			    kc_pick(&seed, 2, 600), &seed);
	}
	one_softmax(1, 3000, 8, &seed);
	one_softmax(2, 1500, 7, &seed);
	one_softmax(300, 1100, 3, &seed);
}

/* A line that is nothing but -inf, or has NaN or +inf, is NaN; others beside it are not. */
TEST(softmax_specials)
{
	static const int64_t shape[][3] = {
		{ 3, 100, 1 }, { 3, 30000, 1 }, { 1, 50, 3 }, { 1, 5000, 3 },
	};
	static const float special[] = { -INFINITY, NAN, INFINITY };
	uint64_t seed = rlx_test_seed();

	for (size_t i = 0; i < sizeof(shape) / sizeof(shape[0]) * 3; i++) {
		const int64_t *s = shape[i / 3], all = s[0] * s[1] * s[2];
		struct rlx_k_softmax a = { .outer = s[0], .n = s[1], .inner = s[2],
			.x_type = RLX_F32, .y_type = RLX_F32, .log = kc_pick(&seed, 0, 1) };
		float *x = gpu_alloc((size_t)all, RLX_F32, -8, 8, &seed);
		struct gpu_field f[] = {
			GPU_IN(struct rlx_k_softmax, x, RLX_F32, all),
			GPU_OUT(struct rlx_k_softmax, y, RLX_F32, all, 2e-5),
		};

		for (int64_t k = i % 3 ? s[1] - 1 : 0; k < s[1]; k++)
			x[s[2] == 1 ? s[1] + k : k * s[2] + 1] = special[i % 3];
		a.x = x;
		a.y = gpu_alloc((size_t)all, RLX_F32, 0, 0, &seed);
		GPU_AGAINST_CPU(softmax, a, rlx_k_softmax_units(&a),
				rlx_k_softmax_scratch(&a), f, &seed);
	}
}

static void one_norm(int64_t rows, int64_t n, uint64_t *seed)
{
	int xt = small_float[kc_pick(seed, 0, 2)], pt = small_float[kc_pick(seed, 0, 2)];
	int rt = small_float[kc_pick(seed, 0, 2)], yt = small_float[kc_pick(seed, 0, 2)];
	bool one = kc_pick(seed, 0, 1);
	struct rlx_k_norm a = { .rows = rows, .n = n, .residual_stride = one ? 0 : n,
				.eps = 1e-5f, .rms = kc_pick(seed, 0, 1),
				.x_type = (uint8_t)xt, .residual_type = (uint8_t)rt,
				.param_type = (uint8_t)pt, .y_type = (uint8_t)yt };
	struct gpu_field f[] = {
		GPU_IN(struct rlx_k_norm, x, xt, rows * n),
		GPU_IN(struct rlx_k_norm, residual, rt, one ? n : rows * n),
		GPU_IN(struct rlx_k_norm, bias, pt, n),
		GPU_IN(struct rlx_k_norm, gamma, pt, n),
		GPU_IN(struct rlx_k_norm, beta, pt, n),
		GPU_OUT(struct rlx_k_norm, y, yt, rows * n, tolerance(yt)),
		GPU_OUT(struct rlx_k_norm, sum, xt, rows * n, tolerance(xt)),
		GPU_OUT(struct rlx_k_norm, mean, RLX_F32, rows, 1e-5),
		GPU_OUT(struct rlx_k_norm, inv, RLX_F32, rows, 1e-4),
	};

	a.x = gpu_alloc((size_t)(rows * n), xt, -2, 3, seed);
	a.y = gpu_alloc((size_t)(rows * n), yt, 0, 0, seed);
	if (kc_pick(seed, 0, 1))
		a.residual = gpu_alloc((size_t)(rows * n), rt, -2, 2, seed);
	if (kc_pick(seed, 0, 1))
		a.bias = gpu_alloc((size_t)n, pt, -2, 2, seed);
	if (kc_pick(seed, 0, 1))
		a.gamma = gpu_alloc((size_t)n, pt, -2, 2, seed);
	if (kc_pick(seed, 0, 1))
		a.beta = gpu_alloc((size_t)n, pt, -2, 2, seed);
	if (kc_pick(seed, 0, 1)) {
		a.sum = gpu_alloc((size_t)(rows * n), xt, 0, 0, seed);
		a.mean = gpu_alloc((size_t)rows, RLX_F32, 0, 0, seed);
		a.inv = gpu_alloc((size_t)rows, RLX_F32, 0, 0, seed);
	}
	GPU_AGAINST_CPU(norm, a, (size_t)rows, rlx_k_norm_scratch(&a), f, seed);
}

TEST(norm)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 8; i++)
		one_norm(kc_pick(&seed, 1, 5), kc_pick(&seed, 1, 700), &seed);
	for (int i = 0; i < 4; i++) {	/* by words, a warp or a block each row */
		one_norm(kc_pick(&seed, 1, 20), 8 * kc_pick(&seed, 1, 64), &seed);
		one_norm(kc_pick(&seed, 1, 5), 8 * kc_pick(&seed, 65, 1024), &seed);
	}
	one_norm(2, 256 * 8 + 3, &seed);
	one_norm(1, 5000, &seed);
	one_norm(2, 8192 + 5, &seed);
}

/* Parts of a warp a row, several of which a group has one after the other. */
TEST(norm_short)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 4; i++) {
		one_norm(kc_pick(&seed, 1, 300), kc_pick(&seed, 1, 40), &seed);
		one_norm(kc_pick(&seed, 1, 300), 4 * kc_pick(&seed, 1, 40), &seed);
	}
	one_norm(20000, kc_pick(&seed, 1, 9), &seed);
}

/* Blocks of all sizes; rows in pieces, which blocks share where they are few. */
TEST(norm_long)
{
	uint64_t seed = rlx_test_seed();

	one_norm(1, 4 * kc_pick(&seed, 2049, 4096), &seed);
	one_norm(2, kc_pick(&seed, 16385, 20480), &seed);
	one_norm(1, 8 * kc_pick(&seed, 2561, 6000), &seed);
	one_norm(1, kc_pick(&seed, 20481, 60000), &seed);
	one_norm(3, 20481, &seed);
}

static void gpu_put(void *p, int64_t i, int type, double v)
{
	if (type == RLX_F32)
		((float *)p)[i] = (float)v;
	else if (type == RLX_BF16)
		((uint16_t *)p)[i] = kc_to_bf16((float)v);
	else
		((_Float16 *)p)[i] = (_Float16)v;
}

/* Both of the CPU's kernels, which are one on a GPU, that adds to dx as well. */
static void norm_grad_on_cpu(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_kernels *k = rlx_kernels_get(RLX_ISA_BASE);
	const struct rlx_k_norm_grad *a = args;
	int64_t i;

	(void)begin;
	(void)end;
	k->norm_grad(a, 0, rlx_k_norm_grad_units(a), scratch);
	k->norm_grad_sums(a, 0, rlx_k_norm_grad_sum_units(a), scratch);
	for (i = 0; a->residual && i < a->rows * a->n; i++)
		gpu_put(a->dx, i, a->x_type, gpu_value(a->dx, (size_t)i, a->x_type) +
				 gpu_value(a->residual, (size_t)i, a->x_type));
}

static void one_norm_grad(int64_t rows, int64_t n, uint64_t *seed)
{
	int xt = small_float[kc_pick(seed, 0, 2)], pt = small_float[kc_pick(seed, 0, 2)];
	int yt = small_float[kc_pick(seed, 0, 2)];
	double tol = 2e-5 * sqrt((double)rows);
	struct rlx_k_norm_grad a = { .rows = rows, .n = n, .block = rlx_k_norm_grad_block(rows, n),
				     .eps = 1e-3f, .rms = kc_pick(seed, 0, 1),
				     .x_type = (uint8_t)xt, .dy_type = (uint8_t)yt,
				     .param_type = (uint8_t)pt };
	struct gpu_field f[] = {
		GPU_IN(struct rlx_k_norm_grad, x, xt, rows * n),
		GPU_IN(struct rlx_k_norm_grad, dy, yt, rows * n),
		GPU_IN(struct rlx_k_norm_grad, gamma, pt, n),
		GPU_IN(struct rlx_k_norm_grad, mean, RLX_F32, rows),
		GPU_IN(struct rlx_k_norm_grad, inv, RLX_F32, rows),
		GPU_IN(struct rlx_k_norm_grad, residual, xt, rows * n),
		GPU_OUT(struct rlx_k_norm_grad, dx, xt, rows * n, 2 * tolerance(xt)),
		GPU_OUT(struct rlx_k_norm_grad, dgamma, RLX_F32, n, tol),
		GPU_OUT(struct rlx_k_norm_grad, dbeta, RLX_F32, n, tol),
	};
	struct gpu_case c = { "norm_grad", rlx_g_norm_grad_launch, norm_grad_on_cpu, &a, sizeof(a),
			      1, rlx_k_norm_grad_scratch(&a), f, sizeof(f) / sizeof(f[0]) };

	a.x = gpu_alloc((size_t)(rows * n), xt, -2, 3, seed);
	a.dy = gpu_alloc((size_t)(rows * n), yt, -1, 1, seed);
	if (kc_pick(seed, 0, 3))
		a.gamma = gpu_alloc((size_t)n, pt, -2, 2, seed);
	if (!a.rms) {
		a.mean = gpu_alloc((size_t)rows, RLX_F32, -1, 1, seed);
		a.inv = gpu_alloc((size_t)rows, RLX_F32, 0.5, 2, seed);
	}
	if (kc_pick(seed, 0, 1))
		a.residual = gpu_alloc((size_t)(rows * n), xt, -2, 2, seed);
	a.dx = gpu_alloc((size_t)(rows * n), xt, 0, 0, seed);
	if (kc_pick(seed, 0, 3))
		a.dgamma = gpu_alloc((size_t)n, RLX_F32, 0, 0, seed);
	if (kc_pick(seed, 0, 3))
		a.dbeta = gpu_alloc((size_t)n, RLX_F32, 0, 0, seed);
	a.partial = gpu_alloc(rlx_k_norm_grad_units(&a) * 2 * (size_t)n, RLX_F32, 0, 0, seed);
	gpu_against_cpu(&c, seed);
	free(a.partial);
}

/* Parts of a warp a row, warps, blocks of all sizes; more rows than there are blocks. */
TEST(norm_gradients)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 4; i++) {
		one_norm_grad(kc_pick(&seed, 1, 300), kc_pick(&seed, 1, 40), &seed);
		one_norm_grad(kc_pick(&seed, 1, 40), 8 * kc_pick(&seed, 1, 100), &seed);
		one_norm_grad(kc_pick(&seed, 1, 5), kc_pick(&seed, 1, 700), &seed);
	}
	one_norm_grad(2, 8 * kc_pick(&seed, 129, 1024), &seed);
	one_norm_grad(3, 256 * 8 + 3, &seed);
	one_norm_grad(8000, kc_pick(&seed, 1, 9), &seed);
}

static void one_group_norm(int64_t batch, int64_t groups, int64_t per, int64_t inner,
			   uint64_t *seed)
{
	int64_t channels = groups * per, n = batch * channels * inner;
	struct rlx_k_group_norm a = { .batch = batch, .channels = channels, .inner = inner,
				      .groups = groups, .eps = 1e-5f };
	struct gpu_field f[] = {
		GPU_IN(struct rlx_k_group_norm, x, RLX_F32, n),
		GPU_IN(struct rlx_k_group_norm, gamma, RLX_F32, channels),
		GPU_IN(struct rlx_k_group_norm, beta, RLX_F32, channels),
		GPU_OUT(struct rlx_k_group_norm, y, RLX_F32, n, 5e-5),
	};

	a.x = gpu_alloc((size_t)n, RLX_F32, -2, 5, seed);
	a.y = gpu_alloc((size_t)n, RLX_F32, 0, 0, seed);
	if (kc_pick(seed, 0, 1))
		a.gamma = gpu_alloc((size_t)channels, RLX_F32, -2, 2, seed);
	if (kc_pick(seed, 0, 1))
		a.beta = gpu_alloc((size_t)channels, RLX_F32, -2, 2, seed);
	GPU_AGAINST_CPU(group_norm, a, (size_t)(batch * groups), 0, f, seed);
}

TEST(group_norm)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 4; i++)
		one_group_norm(kc_pick(&seed, 1, 3), kc_pick(&seed, 1, 3),
			       kc_pick(&seed, 1, 4), kc_pick(&seed, 1, 90), &seed);
	one_group_norm(1, 1, 9, 4000, &seed);
}

static void one_channel_norm(int64_t outer, int64_t channels, int64_t inner, uint64_t *seed)
{
	int64_t n = outer * channels * inner;
	struct rlx_k_channel_norm a = { .outer = outer, .channels = channels,
					.inner = inner, .eps = 1e-5f };
	struct gpu_field f[] = {
		GPU_IN(struct rlx_k_channel_norm, x, RLX_F32, n),
		GPU_IN(struct rlx_k_channel_norm, scale, RLX_F32, channels),
		GPU_IN(struct rlx_k_channel_norm, shift, RLX_F32, channels),
		GPU_IN(struct rlx_k_channel_norm, mean, RLX_F32, channels),
		GPU_IN(struct rlx_k_channel_norm, var, RLX_F32, channels),
		GPU_OUT(struct rlx_k_channel_norm, y, RLX_F32, n, 2e-5),
	};

	a.x = gpu_alloc((size_t)n, RLX_F32, -2, 5, seed);
	a.y = gpu_alloc((size_t)n, RLX_F32, 0, 0, seed);
	if (kc_pick(seed, 0, 1))
		a.scale = gpu_alloc((size_t)channels, RLX_F32, -2, 2, seed);
	if (kc_pick(seed, 0, 1))
		a.shift = gpu_alloc((size_t)channels, RLX_F32, -2, 2, seed);
	if (kc_pick(seed, 0, 1))
		a.mean = gpu_alloc((size_t)channels, RLX_F32, -2, 2, seed);
	if (kc_pick(seed, 0, 1))
		a.var = gpu_alloc((size_t)channels, RLX_F32, 0.1, 2, seed);
	GPU_AGAINST_CPU(channel_norm, a, (size_t)(outer * channels), 0, f, seed);
}

TEST(channel_norm)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 6; i++)
		one_channel_norm(kc_pick(&seed, 1, 3), kc_pick(&seed, 1, 9),
				 kc_pick(&seed, 1, 90), &seed);
}

TEST(lrn)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 6; i++) {
		struct rlx_k_lrn a = {
			.batch = kc_pick(&seed, 1, 3), .channels = kc_pick(&seed, 1, 9),
			.inner = kc_pick(&seed, 1, 300), .size = kc_pick(&seed, 1, 7),
			.alpha = 0.3f, .beta = 0.75f, .bias = 1.2f,
		};
		int64_t n = a.batch * a.channels * a.inner;
		struct gpu_field f[] = {
			GPU_IN(struct rlx_k_lrn, x, RLX_F32, n),
			GPU_OUT(struct rlx_k_lrn, y, RLX_F32, n, 2e-5),
		};

		a.x = gpu_alloc((size_t)n, RLX_F32, -3, 3, &seed);
		a.y = gpu_alloc((size_t)n, RLX_F32, 0, 0, &seed);
		GPU_AGAINST_CPU(lrn, a, rlx_k_lrn_units(&a),
				RLX_K_LRN_BLOCK * sizeof(float), f, &seed);
	}
}

TEST_MAIN()
