// SPDX-License-Identifier: MIT
/*
 * Norms, softmax and sums on a GPU by the kernels that the product chooses: time of a launch and
 * bytes in a second, in turns with the driver's copy of as many bytes. Launches stand in a graph,
 * and go over operands of 256 MiB in all, so that caches keep none from one to the next (smaller
 * ones than a tenth of it lie there 64 times). Some lines of each result are checked in double.
 *
 *	build/test/gpubench/rows [norm|rms|add|softmax|sum f32|f16|bf16 OUTER N INNER]
 *
 * OUTER lines of N, or OUTER * INNER of them that are INNER elements apart (norms: INNER is 1).
 * norm: layer norm by gamma and beta of f32; add: the same of x + residual; sum: over N.
 */
#include "selftests/gpubench/kernel_bench.h"

#include "kernels/reduce.h"

enum op { NORM, RMS, ADD, SOFTMAX, SUM, OPS };
static const char *const op_name[OPS] = { "norm", "rms", "add", "softmax", "sum" };

struct shape {
	enum op	op;
	int	type;
	int64_t	outer, n, inner;
};

/* A launch of one of many alike operands, which take turns. */
struct rows {
	struct shape		s;
	union {
		struct rlx_k_norm	norm;
		struct rlx_k_softmax	softmax;
		struct rlx_k_reduce	reduce;
	} a;
	struct rlx_g_launch	l;
	struct rlx_g_env	env;
	void			*fn;
	char			*x, *y, *r;	/* on the device, @slots times */
	float			*param[2];	/* gamma, beta */
	size_t			x_bytes, y_bytes, moved;
	int			slots;
};

static void *stream;
static int slot;

static void set_args(struct rows *p, int at)
{
	char *x = p->x + (size_t)at * p->x_bytes, *y = p->y + (size_t)at * p->y_bytes;

	if (p->s.op == SOFTMAX) {
		p->a.softmax.x = x;
		p->a.softmax.y = y;
	} else if (p->s.op == SUM) {
		p->a.reduce.x = x;
		p->a.reduce.y = y;
	} else {
		p->a.norm.x = x;
		p->a.norm.y = y;
		p->a.norm.residual = p->r ? p->r + (size_t)at * p->x_bytes : NULL;
	}
}

/* As the product launches it: each may begin while the one before it ends. */
static int run_own(const void *arg)
{
	struct rows p = *(const struct rows *)arg;
	const struct rlx_g_launch *l = &p.l;
	struct rlx_gpu_launch_attr pdl = { .id = gpu->v->launch_pdl, .value = { 1 } };
	bool early = pdl.id && gpu->attr[GPU_ATTR_MAJOR] >= GPU_PDL_MAJOR;
	struct rlx_gpu_launch ex = {
		.grid = { l->grid[0], l->grid[1], l->grid[2] },
		.block = { l->block[0], l->block[1], l->block[2] },
		.shared = l->shared, .stream = stream, .attr = &pdl, .n_attr = early,
	};
	int err = 0;

	set_args(&p, slot = (slot + 1) % p.slots);
	for (uint32_t i = 0; i < (l->n_launches ? l->n_launches : 1) && !err; i++) {
		void *params[2] = { &p.a, &p.env };

		p.env.pass = i;
		err = early ? gpu->api->launch_ex(&ex, p.fn, params, NULL) :
		      gpu->api->launch(p.fn, l->grid[0], l->grid[1], l->grid[2], l->block[0],
				       l->block[1], l->block[2], l->shared, stream, params, NULL);
	}
	return err;
}

/* Half of the bytes that are moved, which are read and written. */
static int run_copy(const void *arg)
{
	const struct rows *p = arg;
	size_t n = p->moved / 2 < p->x_bytes ? p->moved / 2 : p->x_bytes;
	char *x = p->x + (size_t)(slot = (slot + 1) % p->slots) * p->x_bytes;
	char *to = p->y_bytes >= n ? p->y + (size_t)slot * p->y_bytes :
		   p->x + (size_t)((slot + p->slots / 2) % p->slots) * p->x_bytes;

	return CU(cuMemcpyDtoDAsync_v2, uint64_t, uint64_t, size_t, void *)(
		(uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)x, n, stream);
}

/* What element @i of line @at (of @x) should be, all of which lies @step apart. */
static double want_of(const struct rows *p, const void *x, const void *r, int64_t at, int64_t step,
		      int64_t i)
{
	double sum = 0, mean = 0, max = -INFINITY, v = 0;
	int64_t n = p->s.n;

	for (int64_t j = 0; j < n; j++) {
		double e = gpu_value(x, (size_t)(at + j * step), p->s.type) +
			   (r ? gpu_value(r, (size_t)(at + j * step), p->s.type) : 0);

		mean += e / (double)n;
		max = e > max ? e : max;
		v = j == i ? e : v;
	}
	if (p->s.op == SUM)
		return mean * (double)n;
	mean = p->s.op == RMS ? 0 : mean;
	for (int64_t j = 0; j < n; j++) {
		double e = gpu_value(x, (size_t)(at + j * step), p->s.type) +
			   (r ? gpu_value(r, (size_t)(at + j * step), p->s.type) : 0);

		sum += p->s.op == SOFTMAX ? exp(e - max) : (e - mean) * (e - mean) / (double)n;
	}
	if (p->s.op == SOFTMAX)
		return exp(v - max) / sum;
	return (v - mean) / sqrt(sum + 1e-5) * (double)p->param[0][i] +
	       (p->s.op == RMS ? 0 : (double)p->param[1][i]);
}

static void check(const struct rows *p, const void *x, const void *r, uint64_t *seed)
{
	double tol = p->s.type == RLX_F16 ? 2e-3 : p->s.type == RLX_BF16 ? 1e-2 : 5e-5;
	void *y = malloc(p->y_bytes);

	CHECK(y);
	dev_read(y, p->y + (size_t)slot * p->y_bytes, p->y_bytes);
	for (int k = 0; k < 10; k++) {
		int64_t o = (int64_t)(rlx_test_rand(seed) % (uint64_t)p->s.outer);
		int64_t c = (int64_t)(rlx_test_rand(seed) % (uint64_t)p->s.inner);
		int64_t i = (int64_t)(rlx_test_rand(seed) % (uint64_t)p->s.n);
		int64_t at = o * p->s.n * p->s.inner + c;
		double want = want_of(p, x, r, at, p->s.inner, i), got;

		got = gpu_value(y, (size_t)(p->s.op == SUM ? o * p->s.inner + c :
					    at + i * p->s.inner), p->s.type);
		CHECKF(fabs(got - want) <= tol * (p->s.op == SUM ? sqrt((double)p->s.n) : 1) *
		       (1 + fabs(want)), "%s of %lld x %lld x %lld: (%lld, %lld, %lld) is %g, not "
		       "%g", op_name[p->s.op], (long long)p->s.outer, (long long)p->s.n,
		       (long long)p->s.inner, (long long)o, (long long)i, (long long)c, got, want);
	}
	free(y);
}

static void choose(struct rows *p)
{
	const struct shape *s = &p->s;
	size_t zeros = RLX_G_ZEROS * sizeof(uint32_t);

	set_args(p, 0);
	p->l = gpu_launch_for(gpu, 0);
	if (s->op == SOFTMAX)
		rlx_g_softmax_launch(&p->a, &p->l);
	else if (s->op == SUM)
		rlx_g_reduce_launch(&p->a, &p->l);
	else
		rlx_g_norm_launch(&p->a, &p->l);
	p->fn = gpu_function(&p->l);
	p->env.scratch = dev_new(p->l.scratch);
	p->env.zeros = dev_new(zeros);
	CHECK_CU(gpu->api->fill8((uint64_t)(uintptr_t)p->env.zeros, 0, zeros, NULL));
	CHECK_CU(gpu->api->stream_wait(NULL));
}

/* @p with arguments but those that turns change */
static void describe(struct rows *p)
{
	const struct shape *s = &p->s;
	uint8_t t = (uint8_t)s->type;

	if (s->op == SOFTMAX) {
		p->a.softmax = (struct rlx_k_softmax){ .outer = s->outer, .n = s->n,
			.inner = s->inner, .x_type = t, .y_type = t };
	} else if (s->op == SUM) {
		p->a.reduce = (struct rlx_k_reduce){ .rank = 3,
			.dim = { s->outer, s->n, s->inner }, .axes = 2, .type = t,
			.op = RLX_K_REDUCE_SUM };
		rlx_k_reduce_plan(&p->a.reduce);
	} else {
		p->a.norm = (struct rlx_k_norm){ .rows = s->outer, .n = s->n, .eps = 1e-5f,
			.residual_stride = s->n, .rms = s->op == RMS, .x_type = t,
			.residual_type = t, .param_type = RLX_F32, .y_type = t };
		p->a.norm.gamma = dev_of(p->param[0], (size_t)s->n * 4);
		p->a.norm.beta = s->op == RMS ? NULL : dev_of(p->param[1], (size_t)s->n * 4);
	}
}

/* @bytes of @host, @slots times one after the other */
static char *many_of(const void *host, size_t bytes, int slots)
{
	char *d = dev_new(bytes * (size_t)slots);

	for (int i = 0; i < slots; i++)
		CHECK_CU(CU(cuMemcpyHtoD_v2, uint64_t, const void *, size_t)(
			(uint64_t)(uintptr_t)d + (uint64_t)i * bytes, host, bytes));
	return d;
}

static void measure(const struct rows *p)
{
	double ms[2];
	const struct gpu_kernel kernel = gpu_kernel_of(p->l.variant, &p->l.param, 0);
	int n = p->moved > 1 << 27 ? 8 : 64;
	char params[512];

	gpu_params_text(&kernel, params, sizeof(params));
	measure_graphs((int (*[])(const void *)){ run_own, run_copy }, p, n, stream, ms);
	printf("%-7s %-4s %7lld %8lld %5lld %9.2f us %7.1f GB/s  copy %9.2f us  %.3f  (%s%s, "
	       "%u x %u blocks of %u)\n", op_name[p->s.op], p->s.type == RLX_F32 ? "f32" :
	       p->s.type == RLX_F16 ? "f16" : "bf16", (long long)p->s.outer, (long long)p->s.n,
	       (long long)p->s.inner, ms[0] * 1e3, (double)p->moved / ms[0] * 1e-6, ms[1] * 1e3,
	       ms[1] / ms[0], kernel.name, params, p->l.grid[0], p->l.grid[1],
	       p->l.block[0]);
	fflush(stdout);
}

static void one(const struct shape *s)
{
	size_t all = (size_t)(s->outer * s->n * s->inner), size;
	size_t out = s->op == SUM ? (size_t)(s->outer * s->inner) : all;
	struct rows p = { .s = *s };
	uint64_t seed = rlx_test_seed();
	void *x, *r = NULL;

	size = rlx_k_type_size((enum rlx_dtype)s->type);
	p.x_bytes = (all * size + 255) / 256 * 256;
	p.y_bytes = (out * size + 255) / 256 * 256;
	p.moved = (all * (s->op == ADD ? 2 : 1) + out) * size;
	p.slots = (int)((256u << 20) / (p.x_bytes + p.y_bytes) + 1);
	p.slots = p.slots < 2 ? 2 : p.slots < 64 ? p.slots : 64;
	x = random_floats(p.x_bytes / size, s->type, &seed);
	p.x = many_of(x, p.x_bytes, p.slots);
	p.y = dev_new(p.y_bytes * (size_t)p.slots);
	if (s->op == ADD) {
		r = random_floats(p.x_bytes / size, s->type, &seed);
		p.r = many_of(r, p.x_bytes, p.slots);
	}
	for (int i = 0; i < 2; i++)
		p.param[i] = random_floats((size_t)s->n, RLX_F32, &seed);
	describe(&p);
	choose(&p);
	CHECK_CU(run_own(&p));
	CHECK_CU(gpu->api->stream_wait(stream));
	check(&p, x, r, &seed);
	measure(&p);
	if (s->op != SOFTMAX && s->op != SUM) {
		dev_free(p.a.norm.gamma);
		if (p.a.norm.beta)
			dev_free(p.a.norm.beta);
	}
	dev_free(p.env.scratch);
	dev_free(p.env.zeros);
	dev_free(p.x);
	dev_free(p.y);
	if (p.r)
		dev_free(p.r);
	free(p.param[0]);
	free(p.param[1]);
	free(x);
	free(r);
}

int main(int argc, char **argv)
{
	static const struct shape shape[] = {
		{ NORM, RLX_F16, 4096, 768, 1 }, { NORM, RLX_F16, 16384, 768, 1 },
		{ ADD, RLX_F16, 4096, 768, 1 }, { NORM, RLX_F16, 16, 384, 1 },
		{ NORM, RLX_F16, 16384, 384, 1 }, { NORM, RLX_F32, 16384, 384, 1 },
		{ NORM, RLX_F16, 8192, 1024, 1 }, { RMS, RLX_BF16, 1, 4096, 1 },
		{ RMS, RLX_BF16, 4096, 4096, 1 }, { NORM, RLX_F32, 2048, 4096, 1 },
		{ NORM, RLX_F16, 4096, 777, 1 }, { NORM, RLX_F16, 131072, 64, 1 },
		{ NORM, RLX_F32, 131072, 15, 1 }, { NORM, RLX_F32, 256, 16384, 1 },
		{ NORM, RLX_F16, 100, 65536, 1 }, { NORM, RLX_F32, 1, 1000000, 1 },
		{ NORM, RLX_F32, 64, 262144, 1 },
		{ SOFTMAX, RLX_F16, 49152, 128, 1 }, { SOFTMAX, RLX_F16, 12288, 512, 1 },
		{ SOFTMAX, RLX_F32, 4096, 4096, 1 }, { SOFTMAX, RLX_F32, 16, 50257, 1 },
		{ SOFTMAX, RLX_F16, 8192, 1000, 1 }, { SOFTMAX, RLX_F16, 32768, 197, 1 },
		{ SOFTMAX, RLX_F16, 1, 131072, 1 }, { SOFTMAX, RLX_F32, 64, 21, 16384 },
		{ SOFTMAX, RLX_F16, 8, 4096, 64 },
		{ SUM, RLX_F32, 1, 16777216, 1 }, { SUM, RLX_F16, 16384, 1024, 1 },
		{ SUM, RLX_F16, 1, 16384, 1024 }, { SUM, RLX_F32, 64, 256, 1024 },
		{ SUM, RLX_F32, 131072, 49, 1 }, { SUM, RLX_F16, 256, 100000, 1 },
	};
	static const int type[] = { RLX_F32, RLX_F16, RLX_BF16 };
	static const char *const name[] = { "f32", "f16", "bf16" };
	struct shape s = { NORM, RLX_F32, 1, 1, 1 };
	size_t i = 0, k = 0;

	gpu_start();
	CHECK_CU(gpu->api->stream_new(&stream, 1));	/* waits for no other */
	for (; argc < 5 && i < sizeof(shape) / sizeof(*shape); i++)
		one(&shape[i]);
	if (argc < 5)
		return 0;
	while (i < OPS - 1 && strcmp(argv[1], op_name[i]))
		i++;
	while (k < 2 && strcmp(argv[2], name[k]))
		k++;
	s = (struct shape){ (enum op)i, type[k], atoll(argv[3]), atoll(argv[4]),
			    argc > 5 ? atoll(argv[5]) : 1 };
	one(&s);
	return 0;
}
