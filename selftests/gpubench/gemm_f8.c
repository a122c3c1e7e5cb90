// SPDX-License-Identifier: MIT
/*
 * Products with fp8 on a GPU, in turns with the same of bf16: few rows of bf16 by weights in
 * fp8 from memory (they take turns, so that none stay in the cache), and large ones where
 * both sides are in fp8.
 *
 *	build/test/gpubench/gemm_f8 [M N K [0|1 [COLS THREADS STAGES]]]
 *
 * 1: weights are by columns. COLS ..: another shape of blocks than the chosen one.
 */
#include "selftests/gpubench/kernel_bench.h"

#include "base/half.h"
#include "kernels/gemv_stream_f8.h"
#include "kernels/gemv_stream.h"

enum { MOST_BYTES = 512 << 20, SETS = 16 };

struct side {
	struct rlx_k_gemv_stream	a;		/* or of fp8, whose g comes first as well */
	struct rlx_k_gemv_stream_f8	f8;
	const void		*b[SETS];
	struct rlx_g_launch	l;
	void			*fn;
	int			sets, turn;
};

struct both {
	struct side	f8, half;
};

static int run_f8(const void *arg)
{
	struct side *s = &((struct both *)(uintptr_t)arg)->f8;
	struct rlx_g_env env = { 0 };

	s->f8.g.b = s->b[s->turn++ % s->sets];
	return gpu_launch(s->fn, &s->l, &s->f8, &env);
}

static int run_half(const void *arg)
{
	struct side *s = &((struct both *)(uintptr_t)arg)->half;
	struct rlx_g_env env = { 0 };

	s->a.g.b = s->b[s->turn++ % s->sets];
	return gpu_launch(s->fn, &s->l, &s->a, &env);
}

static void shape_by_hand(struct side *s, int argc, char **argv)
{
	struct rlx_g_f8_shape by;

	if (argc < 8)
		return;
	by = (struct rlx_g_f8_shape){ (uint32_t)atoi(argv[5]), (uint32_t)atoi(argv[6]),
				      (uint32_t)atoi(argv[7]) };
	rlx_g_line(&s->l, rlx_g_ceil((int64_t)s->f8.g.n, by.cols) *
		   rlx_g_ceil((int64_t)s->f8.g.m, 16), by.threads);
	s->l.shared = rlx_g_f8_shared(&by);
	s->l.param.gemv_stream_f8.STREAM_COLS = (int32_t)by.cols;
	s->l.param.gemv_stream_f8.STREAM_THREADS = (int32_t)by.threads;
	s->l.param.gemv_stream_f8.STREAM_STAGES = (int32_t)by.stages;
}

static void check(const struct side *s, const uint16_t *x, const uint8_t *w, uint64_t *seed)
{
	const struct rlx_k_gemm *g = &s->f8.g;
	uint16_t *c = malloc(g->m * g->n * 2);

	dev_read(c, g->c, g->m * g->n * 2);
	for (int i = 0; i < 200; i++) {
		size_t row = rlx_test_rand(seed) % g->m, col = rlx_test_rand(seed) % g->n;
		double sum = 0, size = 0, got = kc_from_bf16(c[row * g->n + col]);

		for (size_t k = 0; k < g->k; k++) {
			double v = kc_from_bf16(x[row * g->k + k]) *
				   rlx_minifloat_to(RLX_MF_F8E4M3, w[g->b_form == RLX_B_COLS ?
						    col * g->k + k : k * g->n + col]);

			sum += v;
			size += fabs(v);
		}
		CHECKF(fabs(got - sum) <= 4e-3 * fabs(sum) + 1e-5 * size,
		       "(%zu, %zu) is %g, not %g", row, col, got, sum);
	}
	free(c);
}

static void one(size_t m, size_t n, size_t k, bool cols, int argc, char **argv)
{
	struct rlx_k_gemm g = { .m = m, .n = n, .k = k, .alpha = 1, .lda = k, .ldb = cols ? k : n,
		.ldc = n, .b_form = cols ? RLX_B_COLS : RLX_B_ROWS, .a_type = RLX_BF16,
		.b_type = RLX_BF16, .c_type = RLX_BF16, .b_fixed = true };
	static struct both p;
	uint64_t seed = rlx_test_seed();
	uint16_t *x = random_floats(m * k, RLX_BF16, &seed);
	uint8_t *w = malloc(n * k);
	double ms[2];

	p = (struct both){ 0 };
	CHECK(w);
	for (size_t i = 0; i < n * k; i++)
		w[i] = (uint8_t)(rlx_test_rand(&seed) & 0xbf);
	g.a = dev_of(x, m * k * 2);
	g.c = dev_new(m * n * 2);
	p.f8.f8.g = p.half.a.g = g;
	p.f8.l = p.half.l = gpu_launch_for(gpu, 0);
	rlx_g_gemv_stream_f8_launch(&p.f8.f8, &p.f8.l);
	shape_by_hand(&p.f8, argc, argv);
	p.f8.fn = gpu_function(&p.f8.l);
	rlx_g_gemv_stream_launch(&p.half.a, &p.half.l);
	if (p.half.l.can && argc < 8)
		p.half.fn = gpu_function(&p.half.l);
	p.f8.sets = p.half.sets = (int)(MOST_BYTES / (2 * n * k)) + 1;
	p.f8.sets = p.f8.sets > SETS ? SETS : p.f8.sets;
	p.half.sets = p.f8.sets;
	for (int i = 0; i < p.f8.sets; i++) {
		p.f8.b[i] = dev_of(w, n * k);
		p.half.b[i] = dev_new(2 * n * k);
		CHECK_CU(gpu->api->fill8((uint64_t)(uintptr_t)p.half.b[i], 0x3c, 2 * n * k, NULL));
	}
	CHECK_CU(run_f8(&p));
	CHECK_CU(gpu->api->stream_wait(NULL));
	check(&p.f8, x, w, &seed);
	measure_both((int (*[])(const void *)){ run_f8, p.half.fn ? run_half : NULL }, &p, 40, ms);
	printf("m %3zu n %5zu k %5zu %s: fp8 %7.2f us %5.0f GB/s", m, n, k, cols ? "cols" : "rows",
	       ms[0] * 1e3, (double)(n * k) / ms[0] * 1e-6);
	if (p.half.fn)
		printf("  bf16 %7.2f us %5.0f GB/s  %.2f", ms[1] * 1e3,
		       (double)(2 * n * k) / ms[1] * 1e-6, ms[1] / ms[0]);
	printf("  (%d columns, %d threads, %d stages, %u blocks)\n",
	       p.f8.l.param.gemv_stream_f8.STREAM_COLS,
	       p.f8.l.param.gemv_stream_f8.STREAM_THREADS,
	       p.f8.l.param.gemv_stream_f8.STREAM_STAGES, p.f8.l.grid[0]);
	fflush(stdout);
	for (int i = 0; i < p.f8.sets; i++) {
		dev_free(p.f8.b[i]);
		dev_free(p.half.b[i]);
	}
	dev_free(g.a);
	dev_free(g.c);
	free(x);
	free(w);
}

/* ---- both in fp8, by warpgroups ---- */

struct large {
	struct rlx_k_gemm	a[2];		/* fp8, bf16 */
	struct rlx_g_launch	l[2];
	struct rlx_g_env	env[2];
	void			*fn[2];
};

static int run_large(const void *arg)
{
	const struct large *p = arg;

	return gpu_launch(p->fn[0], &p->l[0], &p->a[0], &p->env[0]);
}

static int run_large_half(const void *arg)
{
	const struct large *p = arg;

	return gpu_launch(p->fn[1], &p->l[1], &p->a[1], &p->env[1]);
}

/* The most that sums are off by, in parts of their terms. */
static double off_by(const struct rlx_k_gemm *g, const uint8_t *x, const uint8_t *w,
		     uint64_t *seed)
{
	float *c = malloc(g->m * g->n * 4);
	double most = 0;

	CHECK(c);
	dev_read(c, g->c, g->m * g->n * 4);
	for (int i = 0; i < 300; i++) {
		size_t row = rlx_test_rand(seed) % g->m, col = rlx_test_rand(seed) % g->n;
		double sum = 0, size = 0;

		for (size_t k = 0; k < g->k; k++) {
			double v = rlx_minifloat_to(RLX_MF_F8E4M3, x[row * g->k + k]) *
				   rlx_minifloat_to(RLX_MF_F8E4M3, w[col * g->k + k]);

			sum += v;
			size += fabs(v);
		}
		most = fmax(most, fabs((double)c[row * g->n + col] - sum) / size);
	}
	free(c);
	return most;
}

static void *random_f8(size_t n, bool positive, uint64_t *seed)
{
	uint64_t *p = malloc(n);

	CHECK(p && n % 8 == 0);
	for (size_t i = 0; i < n / 8; i++)
		p[i] = rlx_test_rand(seed) & (positive ? 0x3f3f3f3f3f3f3f3f : 0xbfbfbfbfbfbfbfbf);
	return p;
}

/* @out: the result's type, of enum rlx_dtype; in f32 it is told how far sums are off. */
static void large(size_t m, size_t n, size_t k, enum rlx_dtype out, bool positive)
{
	struct large p = { .a = { { .m = m, .n = n, .k = k, .alpha = 1, .lda = k, .ldb = k,
		.ldc = n, .b_form = RLX_B_COLS, .a_type = RLX_F8E4M3,
		.b_type = RLX_F8E4M3, .c_type = out } } };
	static const char *const names[] = { "f32", "bf16", "f16", "f8e4m3" };
	double off = 0, ms[2], flop = 2.0 * (double)m * (double)n * (double)k;
	uint64_t seed = rlx_test_seed();
	uint8_t *x = random_f8(m * k, positive, &seed), *w = random_f8(n * k, positive, &seed);
	void *half[2];

	p.a[0].a = dev_of(x, m * k);
	p.a[0].b = dev_of(w, n * k);
	p.a[0].c = dev_new(m * n * 4);
	p.a[1] = p.a[0];
	p.a[1].a_type = p.a[1].b_type = p.a[1].c_type = RLX_BF16;
	half[0] = random_floats(m * k, RLX_BF16, &seed);
	half[1] = random_floats(n * k, RLX_BF16, &seed);
	p.a[1].a = dev_of(half[0], m * k * 2);
	p.a[1].b = dev_of(half[1], n * k * 2);
	for (int i = 0; i < 2; i++) {
		p.l[i] = gpu_launch_for(gpu, 0);
		if (i)
			rlx_g_gemm_bf16_launch(&p.a[i], &p.l[i]);
		else
			rlx_g_gemm_wgmma_f8_launch(&p.a[i], &p.l[i]);
		CHECK(p.l[i].can);
		CHECK(p.l[i].n_launches <= 1);
		p.fn[i] = gpu_function(&p.l[i]);
		p.env[i].scratch = dev_new(p.l[i].scratch);
		p.env[i].zeros = gpu_zeros_new();
		if (p.l[i].n_map)
			p.env[i].maps = gpu_tensor_maps(&p.a[i], &p.l[i], p.env[i].scratch);
	}
	CHECK_CU(run_large(&p));
	CHECK_CU(gpu->api->stream_wait(NULL));
	if (out == RLX_F32)
		off = off_by(&p.a[0], x, w, &seed);
	measure_both((int (*[])(const void *)){ run_large, run_large_half }, &p,
		     flop > 3e11 ? 5 : 20, ms);
	printf("m %5zu n %5zu k %5zu to %-6s fp8 %8.2f us %6.1f TF/s  bf16 %8.2f us %6.1f TF/s"
	       "  %.2f", m, n, k, names[out], ms[0] * 1e3, flop / ms[0] * 1e-9, ms[1] * 1e3,
	       flop / ms[1] * 1e-9, ms[1] / ms[0]);
	if (out == RLX_F32)
		printf("  (off by %.1e of the terms)", off);
	printf("\n");
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		dev_free(p.a[i].a);
		dev_free(p.a[i].b);
		dev_free(p.env[i].scratch);
		gpu_zeros_free(p.env[i].zeros);
	}
	dev_free(p.a[0].c);
	free(half[0]);
	free(half[1]);
	free(x);
	free(w);
}

static void large_all(void)
{
	large(4096, 4096, 4096, RLX_BF16, false);
	large(4096, 4096, 4096, RLX_F8E4M3, false);
	large(4096, 4096, 4096, RLX_F32, false);
	large(4096, 4096, 4096, RLX_F32, true);
	large(8192, 8192, 8192, RLX_BF16, false);
	large(512, 4096, 4096, RLX_BF16, false);
	large(512, 14336, 4096, RLX_BF16, false);
}

int main(int argc, char **argv)
{
	static const size_t rows[] = { 1, 8, 16, 32, 64 };

	gpu_start();
	if (argc > 4) {
		one((size_t)atoll(argv[1]), (size_t)atoll(argv[2]), (size_t)atoll(argv[3]),
		    atoi(argv[4]), argc, argv);
		return 0;
	}
	for (int cols = 0; cols < 2; cols++)
		for (int i = 0; i < 5; i++) {
			one(rows[i], 4096, 14336, cols, argc, argv);
			one(rows[i], 14336, 4096, cols, argc, argv);
		}
	large_all();
	return 0;
}
