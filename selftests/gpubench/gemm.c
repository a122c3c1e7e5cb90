// SPDX-License-Identifier: MIT
/*
 * Products of random floats on a GPU by the kernels that the product chooses, in turns
 * with cuBLAS where its library is found (which then has nothing to do at the end of a
 * sum). Some elements of each result are checked against sums in double.
 *
 *	build/test/gpubench/gemm [M N K [bf16|f16|f32|tf32 [FORM [TILE [BY]]]]]
 *
 * FORM: the sum of 1 a is transposed, 2 b is by columns, 4 bias and gelu, 8 bias and
 * residual; 2 if none is given. TILE: rows x columns, as 128x256; of f32 either of few rows, by
 * BY warps, or rows x columns x teams, of which BY blocks split k (split-K).
 */
#include "selftests/gpubench/kernel_bench.h"

#include "kernels/gemm.h"

/* cuBLAS's numbers */
enum { CUDA_F32 = 0, CUDA_F16 = 2, CUDA_BF16 = 14, COMPUTE_F32 = 68, COMPUTE_TF32 = 77,
       DEFAULT_ALGO = -1 };

/* An element's type, of f32 with tensor cores as well. */
enum { TF32 = 1000 };

/* As the command line calls them. */
enum { BF16, F16, F32, T32, TYPES };
static const struct { const char *name; int type; enum rlx_dtype elem; int peer; } types[TYPES] = {
	{ "bf16", RLX_BF16, RLX_BF16, CUDA_BF16 },
	{ "f16", RLX_F16, RLX_F16, CUDA_F16 },
	{ "f32", RLX_F32, RLX_F32, CUDA_F32 },
	{ "tf32", TF32, RLX_F32, CUDA_F32 },
};

#define PEER_PARAMS							\
	void *handle, int opa, int opb, int m, int n, int k, const float *alpha, \
	const void *a, int ta, int lda, const void *b, int tb, int ldb, const float *beta, \
	void *c, int tc, int ldc, int compute, int algo

static struct {
	void	*handle;
	int	(*gemm)(PEER_PARAMS);
} peer;

static void *stream;

struct product {
	union {
		struct rlx_k_gemm		a;
		struct rlx_k_gemv_stream	stream;	/* which it begins */
	};
	struct rlx_g_launch	l;
	struct rlx_g_env	env;
	void			*fn;
	void			*host[2], *residual;
	float			*bias;
	int			type;		/* in memory */
	int			kind;		/* of types[] */
	size_t			size;
};

static void open_peer(void)
{
	static const char *const name[] = { "libcublas.so.13", "libcublas.so.12" };
	void *lib = NULL;

	for (int i = 0; i < 2 && !lib; i++)
		lib = dlopen(name[i], RTLD_NOW);
	if (lib && !CALL(lib, cublasCreate_v2, void **)(&peer.handle) &&
	    !CALL(lib, cublasSetStream_v2, void *, void *)(peer.handle, stream))
		peer.gemm = (int (*)(PEER_PARAMS))gpu_sym(lib, "cublasGemmEx");
}

/* The same product for somebody to whom columns are rows. */
static int run_peer(const void *arg)
{
	const struct product *p = arg;
	const struct rlx_k_gemm *a = &p->a;
	int type = types[p->kind].peer;
	int compute = types[p->kind].type == TF32 ? COMPUTE_TF32 : COMPUTE_F32;
	float one = 1, zero = 0;

	return peer.gemm(peer.handle, a->b_form == RLX_B_COLS, a->trans_a, (int)a->n, (int)a->m,
			 (int)a->k, &one, a->b, type, (int)a->ldb, a->a, type, (int)a->lda,
			 &zero, a->c, type, (int)a->ldc, compute, DEFAULT_ALGO);
}

/* As the product launches it: each may begin while the one before it ends. */
static int run_own(const void *arg)
{
	const struct product *p = arg;
	const struct rlx_g_launch *l = &p->l;
	struct rlx_gpu_launch_attr pdl = { .id = gpu->v->launch_pdl, .value = { 1 } };
	struct rlx_gpu_launch ex = {
		.grid = { l->grid[0], l->grid[1], l->grid[2] },
		.block = { l->block[0], l->block[1], l->block[2] },
		.shared = l->shared, .stream = stream, .attr = &pdl, .n_attr = 1,
	};
	struct rlx_g_env env = p->env;
	void *params[2] = { (void *)(uintptr_t)&p->a, &env };
	bool may_pdl = pdl.id && gpu->attr[GPU_ATTR_MAJOR] >= GPU_PDL_MAJOR;
	int rc = 0;

	for (env.pass = 0; env.pass < (l->n_launches ? l->n_launches : 1) && !rc; env.pass++)
		rc = may_pdl ? gpu->api->launch_ex(&ex, p->fn, params, NULL) :
			       gpu_launch(p->fn, l, &p->a, &env);
	return rc;
}

static void check(const struct product *p, uint64_t *seed)
{
	const struct rlx_k_gemm *a = &p->a;
	void *c = malloc(a->m * a->n * p->size);
	double tol = p->type == RLX_F16 ? 5e-4 : p->type == RLX_BF16 ? 4e-3 : 1e-6;
	double each = types[p->kind].type == TF32 ? 1e-3 : p->type == RLX_F32 ? 1e-6 : 1e-5;

	CHECK(c);
	dev_read(c, a->c, a->m * a->n * p->size);
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
		if (a->act == RLX_ACT_GELU)
			sum *= 0.5 * (1 + erf(sum * sqrt(0.5)));
		CHECKF(fabs(got - sum) <= tol * fabs(sum) + each * size, "(%zu, %zu) is %g, not %g",
		       row, col, got, sum);
	}
	free(c);
}

static void measure(const struct product *p)
{
	double flop = 2.0 * (double)p->a.m * (double)p->a.n * (double)p->a.k, ms[2];
	const struct gpu_kernel kernel = gpu_kernel_of(p->l.variant, &p->l.param, 0);
	int n = flop > 3e11 ? 3 : flop > 3e10 ? 10 : 40;
	char params[512];

	measure_graphs((int (*[])(const void *)){ run_own, peer.gemm ? run_peer : NULL }, p, n,
		       stream, ms);
	printf("%-4s %6zu %6zu %6zu %s%s %-4s %9.2f us %6.1f TF/s", types[p->kind].name,
	       p->a.m, p->a.n, p->a.k, p->a.trans_a ? "t" : "n",
	       p->a.b_form == RLX_B_COLS ? "t" : "n", p->a.act ? "gelu" : p->residual ? "add" :
	       "", ms[0] * 1e3, flop / ms[0] * 1e-9);
	if (peer.gemm)
		printf("  cuBLAS %9.2f us %6.1f TF/s  %.3f", ms[1] * 1e3,
		       flop / ms[1] * 1e-9, ms[1] / ms[0]);
	gpu_params_text(&kernel, params, sizeof(params));
	printf("  (%s%s, %u blocks)\n", kernel.name, params, p->l.grid[0]);
	fflush(stdout);
}

/* What a shape is computed with: 1 a is transposed, 2 b is by columns; ends of sums. */
enum { TRANS_A = 1, B_COLS = 2, GELU = 4, RESIDUAL = 8 };

/* @by: where another tile than the chosen one is to be tried, of f32 by so many @warps; 0: none */
static void choose(struct product *p, const struct rlx_g_tiling *by, uint32_t warps)
{
	bool halves = p->type != RLX_F32;
	size_t zeros = RLX_G_ZEROS * sizeof(uint32_t);

	p->l = gpu_launch_for(gpu, 0);
	p->a.tf32 = types[p->kind].type == TF32;
	if (!by->tile.m)
		(halves ? rlx_g_gemm_16bit_launch : rlx_g_gemm_f32_launch)(&p->a, &p->l);
	else if (halves)
		rlx_g_gemm_by(&p->a, by->tile, &p->l);
	else if (!by->teams)
		rlx_g_gemm_small_m_f32_by(&p->a, by->tile, warps, &p->l);
	else
		rlx_g_gemm_tiled_by(&p->a, *by, &p->l);
	p->fn = gpu_function(&p->l);
	p->env.scratch = dev_new(p->l.scratch);
	p->env.zeros = dev_new(zeros);
	CHECK_CU(gpu->api->fill8((uint64_t)(uintptr_t)p->env.zeros, 0, zeros, NULL));
	if (p->l.n_map)
		p->env.maps = gpu_tensor_maps(&p->a, &p->l, p->env.scratch);
	CHECK_CU(gpu->api->stream_wait(NULL));
}

static void one(const size_t size[3], int kind, int form, const struct rlx_g_tiling *by,
		uint32_t warps)
{
	size_t m = size[0], n = size[1], k = size[2];
	int type = types[kind].type == TF32 ? RLX_F32 : types[kind].type;
	enum rlx_dtype elem = types[kind].elem;
	struct product p = { .type = type, .kind = kind,
		.size = rlx_k_type_size((enum rlx_dtype)type), .stream.g = { .m = m, .n = n, .k = k,
		.alpha = 1,
		.lda = form & TRANS_A ? m : k, .ldb = form & B_COLS ? k : n, .ldc = n,
		.trans_a = form & TRANS_A, .b_form = form & B_COLS ? RLX_B_COLS : RLX_B_ROWS,
		.act = form & GELU ? RLX_ACT_GELU : RLX_ACT_NONE,
		.a_type = elem, .b_type = elem, .c_type = elem } };
	uint64_t seed = rlx_test_seed();

	p.host[0] = random_floats(m * k, type, &seed);
	p.host[1] = random_floats(n * k, type, &seed);
	p.a.a = dev_of(p.host[0], m * k * p.size);
	p.a.b = dev_of(p.host[1], n * k * p.size);
	p.a.c = dev_new(m * n * p.size);
	if (form & (GELU | RESIDUAL)) {
		p.bias = malloc(n * sizeof(float));
		CHECK(p.bias);
		for (size_t i = 0; i < n; i++)
			p.bias[i] = (float)rlx_test_uniform(&seed, -1, 1);
		p.a.bias = dev_of(p.bias, n * sizeof(float));
	}
	if (form & RESIDUAL) {
		p.residual = random_floats(m * n, type, &seed);
		p.a.residual = dev_of(p.residual, m * n * p.size);
		p.a.ldr = n;
		p.a.beta = 1;
	}
	CHECK_CU(gpu->api->fill8((uint64_t)(uintptr_t)p.a.c, 0xff, m * n * p.size, NULL));
	choose(&p, by, warps);
	CHECK_CU(run_own(&p));
	CHECK_CU(gpu->api->stream_wait(stream));
	check(&p, &seed);
	measure(&p);
	if (p.env.maps)
		dev_free(p.env.maps);
	dev_free(p.env.scratch);
	dev_free(p.env.zeros);
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
	static const struct { size_t size[3]; int kind, form; } shape[] = {
		{ { 4096, 4096, 4096 }, BF16, B_COLS },
		{ { 4096, 4096, 4096 }, BF16, 0 },
		{ { 4096, 4096, 4096 }, BF16, TRANS_A },
		{ { 4096, 4096, 4096 }, F16, B_COLS },
		{ { 8192, 8192, 8192 }, BF16, B_COLS },
		{ { 8192, 8192, 8192 }, BF16, 0 },
		{ { 512, 4096, 4096 }, BF16, B_COLS },
		{ { 512, 14336, 4096 }, BF16, B_COLS },
		{ { 2048, 4096, 14336 }, BF16, B_COLS },
		{ { 16384, 1536, 384 }, F16, B_COLS },
		{ { 16384, 1536, 384 }, F16, B_COLS | GELU },
		{ { 16384, 1152, 384 }, F16, B_COLS },
		{ { 16384, 384, 384 }, F16, B_COLS | RESIDUAL },
		{ { 16384, 384, 1536 }, F16, B_COLS | RESIDUAL },
		{ { 4096, 4096, 4096 }, F32, B_COLS },
		{ { 4096, 4096, 4096 }, F32, 0 },
		{ { 16, 384, 384 }, F32, B_COLS },
		{ { 16, 384, 384 }, F32, 0 },
		{ { 16, 1536, 384 }, F32, B_COLS | GELU },
		{ { 16, 384, 1536 }, F32, 0 },
		{ { 128, 384, 384 }, F32, 0 },
		{ { 128, 1536, 384 }, F32, GELU },
		{ { 128, 384, 1536 }, F32, RESIDUAL },
		{ { 512, 1536, 384 }, F32, 0 },
		{ { 16384, 1536, 384 }, F32, 0 },
		{ { 16384, 384, 1536 }, F32, RESIDUAL },
		{ { 4096, 4096, 4096 }, T32, B_COLS },
		{ { 4096, 4096, 4096 }, T32, 0 },
		{ { 16384, 1536, 384 }, T32, 0 },
	};
	struct rlx_g_tiling by = { .shares = 1 };
	uint32_t warps = 12;
	size_t size[3];
	int kind = 0;

	gpu_start();
	CHECK_CU(gpu->api->stream_new(&stream, 1));	/* waits for no other */
	open_peer();
	if (!peer.gemm)
		printf("no cuBLAS to compare with\n");
	for (int i = 1; i < argc && i < 4; i++)
		size[i - 1] = (size_t)atoll(argv[i]);
	if (argc > 3) {
		while (argc > 4 && kind < TYPES - 1 && strcmp(argv[4], types[kind].name))
			kind++;
		if (argc > 6)
			CHECKF(sscanf(argv[6], "%dx%dx%d", &by.tile.m, &by.tile.n, &by.teams) > 1,
			       "'%s' is no tile", argv[6]);
		if (argc > 7)
			warps = (uint32_t)(by.shares = atoi(argv[7]));
		one(size, kind, argc > 5 ? atoi(argv[5]) : B_COLS, &by, warps);
		return 0;
	}
	for (size_t i = 0; i < sizeof(shape) / sizeof(*shape); i++)
		one(shape[i].size, shape[i].kind, shape[i].form, &by, warps);
	return 0;
}
