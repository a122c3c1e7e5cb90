// SPDX-License-Identifier: MIT
/*
 * Products of random halves on a GPU by the kernels that the product chooses, in turns
 * with cuBLAS where its library is found (which then has nothing to do at the end of a
 * sum). Some elements of each result are checked against sums in double.
 *
 *	build/test/gpubench/gemm [M N K [bf16|f16 [FORM [TILE]]]]
 *
 * FORM: the sum of 1 a is transposed, 2 b is by columns, 4 bias and gelu, 8 bias and
 * residual; 2 if none is given. TILE: GEMM_TILE() of gemm_tile.h but its act.
 */
#include "selftests/gpubench/kernel_bench.h"

#include "kernels/gemm.h"

/* cuBLAS's numbers */
enum { CUDA_F16 = 2, CUDA_BF16 = 14, COMPUTE_F32 = 68, DEFAULT_ALGO = -1 };

#define PEER_PARAMS							\
	void *handle, int opa, int opb, int m, int n, int k, const float *alpha, \
	const void *a, int ta, int lda, const void *b, int tb, int ldb, const float *beta, \
	void *c, int tc, int ldc, int compute, int algo

static struct {
	void	*handle;
	int	(*gemm)(PEER_PARAMS);
} peer;

struct product {
	struct rlx_k_gemm	a;
	struct rlx_g_launch	l;
	struct rlx_g_env	env;
	void			*fn;
	void			*host[2], *residual;
	float			*bias;
	int			type;
};

static void open_peer(void)
{
	static const char *const name[] = { "libcublas.so.13", "libcublas.so.12" };
	void *lib = NULL;

	for (int i = 0; i < 2 && !lib; i++)
		lib = dlopen(name[i], RTLD_NOW);
	if (lib && !CALL(lib, cublasCreate_v2, void **)(&peer.handle))
		peer.gemm = (int (*)(PEER_PARAMS))gpu_sym(lib, "cublasGemmEx");
}

/* The same product for somebody to whom columns are rows. */
static int run_peer(const void *arg)
{
	const struct product *p = arg;
	const struct rlx_k_gemm *a = &p->a;
	int type = p->type == RLX_K_F16 ? CUDA_F16 : CUDA_BF16;
	float one = 1, zero = 0;

	return peer.gemm(peer.handle, a->b_form == RLX_B_COLS, a->trans_a, (int)a->n, (int)a->m,
			 (int)a->k, &one, a->b, type, (int)a->ldb, a->a, type, (int)a->lda,
			 &zero, a->c, type, (int)a->ldc, COMPUTE_F32, DEFAULT_ALGO);
}

static int run_own(const void *arg)
{
	const struct product *p = arg;

	return gpu_launch(p->fn, &p->l, &p->a, &p->env);
}

static void check(const struct product *p, uint64_t *seed)
{
	const struct rlx_k_gemm *a = &p->a;
	uint16_t *c = malloc(a->m * a->n * 2);
	double tol = p->type == RLX_K_F16 ? 5e-4 : 4e-3;

	CHECK(c);
	dev_read(c, a->c, a->m * a->n * 2);
	for (int i = 0; i < 100; i++) {
		size_t row = rlx_test_rand(seed) % a->m, col = rlx_test_rand(seed) % a->n;
		double sum = 0, size = 0, got = gpu_value(c, row * a->n + col, p->type);

		for (size_t k = 0; k < a->k; k++) {
			double x = gpu_value(p->host[0], a->trans_a ? k * a->m + row :
					     row * a->k + k, p->type);
			double y = gpu_value(p->host[1], a->b_form == RLX_B_COLS ?
					     col * a->k + k : k * a->n + col, p->type);

			sum += x * y;
			size += fabs(x * y);
		}
		if (p->bias)
			sum += (double)p->bias[col];
		if (p->residual)
			sum += gpu_value(p->residual, row * a->n + col, p->type);
		if (a->act == RLX_K_ACT_GELU_ERF)
			sum *= 0.5 * (1 + erf(sum * sqrt(0.5)));
		CHECKF(fabs(got - sum) <= tol * fabs(sum) + 1e-5 * size, "(%zu, %zu) is %g, not %g",
		       row, col, got, sum);
	}
	free(c);
}

static void measure(const struct product *p)
{
	double flop = 2.0 * (double)p->a.m * (double)p->a.n * (double)p->a.k, ms[2];
	int n = flop > 3e11 ? 3 : flop > 3e10 ? 10 : 40;

	measure_both((int (*[])(const void *)){ run_own, peer.gemm ? run_peer : NULL }, p, n, ms);
	printf("%-4s %6zu %6zu %6zu %s%s %-4s %9.2f us %6.1f TF/s", p->type == RLX_K_F16 ? "f16" :
	       "bf16", p->a.m, p->a.n, p->a.k, p->a.trans_a ? "t" : "n",
	       p->a.b_form == RLX_B_COLS ? "t" : "n", p->a.act ? "gelu" : p->residual ? "add" :
	       "", ms[0] * 1e3, flop / ms[0] * 1e-9);
	if (peer.gemm)
		printf("  cuBLAS %9.2f us %6.1f TF/s  %.3f", ms[1] * 1e3,
		       flop / ms[1] * 1e-9, ms[1] / ms[0]);
	printf("  (key %d, tile %d, %u blocks)\n", p->l.key[1], p->l.key[3], p->l.grid[0]);
	fflush(stdout);
}

/* What a shape is computed with: 1 a is transposed, 2 b is by columns; ends of sums. */
enum { TRANS_A = 1, B_COLS = 2, GELU = 4, RESIDUAL = 8 };

/* @tile: of gemm_tile.h, where another than the chosen one is to be tried; 0: none */
static void one(const size_t size[3], int type, int form, int32_t tile)
{
	size_t m = size[0], n = size[1], k = size[2];
	enum rlx_k_num num = type == RLX_K_F16 ? RLX_NUM_F16 : RLX_NUM_BF16;
	struct product p = { .type = type, .a = { .m = m, .n = n, .k = k, .alpha = 1,
		.lda = form & TRANS_A ? m : k, .ldb = form & B_COLS ? k : n, .ldc = n,
		.trans_a = form & TRANS_A, .b_form = form & B_COLS ? RLX_B_COLS : RLX_B_ROWS,
		.act = form & GELU ? RLX_K_ACT_GELU_ERF : RLX_K_ACT_NONE,
		.a_num = num, .b_num = num, .c_num = num } };
	uint64_t seed = rlx_test_seed();
	void *maps = NULL;

	p.host[0] = random_halves(m * k, type, &seed);
	p.host[1] = random_halves(n * k, type, &seed);
	p.a.a = dev_of(p.host[0], m * k * 2);
	p.a.b = dev_of(p.host[1], n * k * 2);
	p.a.c = dev_new(m * n * 2);
	if (form & (GELU | RESIDUAL)) {
		p.bias = malloc(n * sizeof(float));
		CHECK(p.bias);
		for (size_t i = 0; i < n; i++)
			p.bias[i] = (float)rlx_test_uniform(&seed, -1, 1);
		p.a.bias = dev_of(p.bias, n * sizeof(float));
	}
	if (form & RESIDUAL) {
		p.residual = random_halves(m * n, type, &seed);
		p.a.residual = dev_of(p.residual, m * n * 2);
		p.a.ldr = n;
		p.a.beta = 1;
	}
	CHECK_CU(gpu->api->fill8((uint64_t)(uintptr_t)p.a.c, 0xff, m * n * 2, NULL));
	p.l = gpu_launch_for(gpu, 0);
	rlx_g_gemm_bf16_launch(&p.a, &p.l);
	if (tile)
		rlx_g_gemm_by(&p.a, tile | (int)p.a.act << 5, &p.l);
	p.fn = gpu_function(gpu_source("gemm_half"), "gemm_bf16", &p.l);
	if (p.l.n_map)
		p.env.maps = maps = gpu_maps(&p.a, &p.l);
	CHECK_CU(run_own(&p));
	CHECK_CU(gpu->api->stream_wait(NULL));
	check(&p, &seed);
	measure(&p);
	if (maps)
		dev_free(maps);
	dev_free(p.a.a);
	dev_free(p.a.b);
	dev_free(p.a.c);
	if (p.a.bias)
		dev_free(p.a.bias);
	if (p.a.residual)
		dev_free(p.a.residual);
	free(p.host[0]);
	free(p.host[1]);
	free(p.bias);
	free(p.residual);
}

int main(int argc, char **argv)
{
	static const struct { size_t size[3]; int type, form; } shape[] = {
		{ { 4096, 4096, 4096 }, RLX_K_BF16, B_COLS },
		{ { 4096, 4096, 4096 }, RLX_K_BF16, 0 },
		{ { 4096, 4096, 4096 }, RLX_K_BF16, TRANS_A },
		{ { 4096, 4096, 4096 }, RLX_K_F16, B_COLS },
		{ { 8192, 8192, 8192 }, RLX_K_BF16, B_COLS },
		{ { 8192, 8192, 8192 }, RLX_K_BF16, 0 },
		{ { 512, 4096, 4096 }, RLX_K_BF16, B_COLS },
		{ { 512, 14336, 4096 }, RLX_K_BF16, B_COLS },
		{ { 2048, 4096, 14336 }, RLX_K_BF16, B_COLS },
		{ { 16384, 1536, 384 }, RLX_K_F16, B_COLS },
		{ { 16384, 1536, 384 }, RLX_K_F16, B_COLS | GELU },
		{ { 16384, 1152, 384 }, RLX_K_F16, B_COLS },
		{ { 16384, 384, 384 }, RLX_K_F16, B_COLS | RESIDUAL },
		{ { 16384, 384, 1536 }, RLX_K_F16, B_COLS | RESIDUAL },
	};
	size_t size[3];

	gpu_start();
	open_peer();
	if (!peer.gemm)
		printf("no cuBLAS to compare with\n");
	for (int i = 1; i < argc && i < 4; i++)
		size[i - 1] = (size_t)atoll(argv[i]);
	if (argc > 3) {
		one(size, argc > 4 && !strcmp(argv[4], "f16") ? RLX_K_F16 : RLX_K_BF16,
		    argc > 5 ? atoi(argv[5]) : B_COLS, argc > 6 ? atoi(argv[6]) : 0);
		return 0;
	}
	for (size_t i = 0; i < sizeof(shape) / sizeof(*shape); i++)
		one(shape[i].size, shape[i].type, shape[i].form, 0);
	return 0;
}
