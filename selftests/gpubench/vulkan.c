// SPDX-License-Identifier: MIT
/*
 * The Vulkan backend beside the CUDA backend on one GPU: products, ops that memory bounds beside a
 * copy by CUDA's driver, and a model. Where results of both are apart it fails.
 *
 *	build/test/gpubench/vulkan [MODEL]
 *
 * MODEL: an ONNX file whose input is images, f32[batch, 3, 224, 224]; 32 of them are run, in
 * mixed f16. An op's time is that of its step, less that of the same step on tiny operands:
 * Vulkan's steps are timed by the host, submission and all.
 */
#include <dlfcn.h>

#include "base/clock.h"
#include "rlx/model.h"
#include "rt/session.h"
#include "selftests/lib/rlx_test.h"

enum { RUNS = 15, VULKAN = 0, CUDA = 1, BOTH = 2 };
static const char *const devices[BOTH] = { "vulkan", "cuda" };

static void must(enum rlx_status st, const struct rlx_error *err)
{
	if (st) {
		fprintf(stderr, "vulkan: %s: %s\n", rlx_status_name(st), err->text);
		exit(1);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[n / 2];
}

/* ---- sessions of one graph ---- */

static struct rlx_session *open_session(struct rlx_graph *g, const char *device,
					enum rlx_precision precision)
{
	const struct rlx_compile_opts c = { .size = sizeof(c), .device = device,
					    .precision = precision };
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	struct rlx_program *p;

	must(rlx_compile(g, &c, &p, &err), &err);
	must(rlx_session_new(p, NULL, &s, &err), &err);
	rlx_program_put(p);
	return s;
}

static void *at(struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	void *p = rlx_buf_ptr(rlx_session_buf(s, io, rlx_program_io_name(s->p, io, i)));

	CHECKF(p, "%s", rlx_session_error(s)->text);
	return p;
}

static double element(const void *p, int64_t i, enum rlx_dtype dt)
{
	_Float16 h;
	uint32_t wide;
	float f;

	if (dt == RLX_F32)
		return (double)((const float *)p)[i];
	if (dt == RLX_F16) {
		memcpy(&h, (const char *)p + 2 * i, 2);
		return (double)h;
	}
	wide = (uint32_t)((const uint16_t *)p)[i] << 16;
	memcpy(&f, &wide, 4);
	return (double)f;
}

/* PERIOD random numbers, over and over. */
static void fill_one(char *v, const struct rlx_type *t, uint64_t *seed)
{
	enum { PERIOD = 65521 };
	const size_t size = rlx_dtype_size(t->dtype), n = (size_t)rlx_type_count(t);
	uint32_t bits;
	_Float16 h;
	size_t i, part;
	float x;

	for (i = 0; i < n && i < PERIOD; i++) {
		x = (float)rlx_test_uniform(seed, -1, 1);
		h = (_Float16)x;
		memcpy(&bits, &x, sizeof(bits));
		if (t->dtype == RLX_BF16)
			bits >>= 16;
		if (t->dtype == RLX_F16)
			memcpy(&bits, &h, sizeof(h));
		memcpy(v + i * size, &bits, size);
	}
	for (; i < n; i += part) {
		part = n - i < PERIOD ? n - i : PERIOD;
		memcpy(v + i * size, v, part * size);
	}
}

static void fill(struct rlx_session *s)
{
	uint64_t seed = 3;
	unsigned int k;

	for (k = 0; k < rlx_program_io_count(s->p, RLX_IO_INPUT); k++)
		fill_one(at(s, RLX_IO_INPUT, k), rlx_program_io_type(s->p, RLX_IO_INPUT, k), &seed);
}

static void run(struct rlx_session *s)
{
	must(rlx_session_run(s), rlx_session_error(s));
}

/* How far apart the first outputs are, by the root of their mean square; NaN is no distance. */
static double distance(struct rlx_session *const s[BOTH])
{
	const struct rlx_type *t = rlx_program_io_type(s[0]->p, RLX_IO_OUTPUT, 0);
	const void *p[BOTH] = { at(s[0], RLX_IO_OUTPUT, 0), at(s[1], RLX_IO_OUTPUT, 0) };
	double diff = 0, size = 0;
	int64_t i;

	for (i = 0; i < rlx_type_count(t); i++) {
		double x = element(p[0], i, t->dtype), y = element(p[1], i, t->dtype);

		diff += (x - y) * (x - y);
		size += y * y;
	}
	return sqrt(diff / size);
}

/* Milliseconds of the longest step. */
static double step_ms(struct rlx_session *s)
{
	const uint32_t n = s->p->plan->n_step;
	uint64_t *ns = calloc(n + 1, sizeof(*ns));
	double each[RUNS];
	uint32_t k;
	int i;

	CHECK(ns);
	s->exec->step_ns = ns;
	for (i = -2; i < RUNS; i++) {
		memset(ns, 0, n * sizeof(*ns));
		run(s);
		for (each[i < 0 ? 0 : i] = 0, k = 0; k < n; k++)
			each[i < 0 ? 0 : i] = fmax(each[i < 0 ? 0 : i], (double)ns[k] * 1e-6);
	}
	s->exec->step_ns = NULL;
	free(ns);
	return median(each, RUNS);
}

/* ---- single ops ---- */

enum kind { GEMM, GELU, ADD, SOFTMAX, LAYER_NORM, TRANSPOSE, REDUCE, CAST };

struct row {
	const char	*name;
	enum kind	 kind;
	enum rlx_dtype	 dtype;
	int64_t		 m, n;		/* n: of a product k as well */
	double		 limit;		/* of cuBLAS's rate, or of the copy's */
};

static const struct row rows[] = {
	{ "GEMM f16 4096^3", GEMM, RLX_F16, 4096, 4096, 0.6 },
	{ "GEMM bf16 4096^3", GEMM, RLX_BF16, 4096, 4096, 0.6 },
	{ "GEMM f16 8192^3", GEMM, RLX_F16, 8192, 8192, 0.6 },
	{ "gelu f32", GELU, RLX_F32, 16384, 4096, 0.85 },
	{ "gelu f16", GELU, RLX_F16, 32768, 4096, 0.85 },
	{ "add f32", ADD, RLX_F32, 16384, 4096, 0.85 },
	{ "cast f32 f16", CAST, RLX_F32, 16384, 4096, 0.85 },
	{ "softmax f32", SOFTMAX, RLX_F32, 16384, 4096, 0.85 },
	{ "softmax f16", SOFTMAX, RLX_F16, 32768, 4096, 0.85 },
	{ "layer_norm f32", LAYER_NORM, RLX_F32, 65536, 1024, 0.85 },
	{ "transpose f32", TRANSPOSE, RLX_F32, 16384, 4096, 0.85 },
	{ "reduce f32", REDUCE, RLX_F32, 16384, 4096, 0.85 },
};

static struct rlx_graph *graph_of(const struct row *r, int64_t m, int64_t n)
{
	struct rlx_graph *g = rlx_graph_new("op");
	rlx_value x = rlx_input(g, "x", rlx_type(r->dtype, m, n)), y = RLX_NONE;
	static float ones[8192];
	int i;

	for (i = 0; i < 8192; i++)
		ones[i] = 1;
	switch (r->kind) {
	case GEMM:
		y = rlx_emit(g, matmul, .a = x, .b = rlx_input(g, "w", rlx_type(r->dtype, n, n)));
		break;
	case GELU: y = rlx_emit(g, gelu, .x = x); break;
	case ADD:
		y = rlx_emit(g, add, .a = x, .b = rlx_input(g, "w", rlx_type(r->dtype, m, n)));
		break;
	case SOFTMAX: y = rlx_emit(g, softmax, .x = x, .axis = -1); break;
	case LAYER_NORM:
		y = rlx_emit(g, layer_norm, .x = x, .axis = -1, .eps = 1e-5f,
			     .gamma = rlx_constant(g, rlx_type(RLX_F32, n), ones),
			     .beta = rlx_constant(g, rlx_type(RLX_F32, n), ones));
		break;
	case TRANSPOSE: y = rlx_emit(g, transpose, .x = x, .perm = RLX_INTS(1, 0)); break;
	case REDUCE: y = rlx_emit(g, reduce, .x = x, .axes = RLX_INTS(1)); break;
	case CAST: y = rlx_emit(g, cast, .x = x, .to = RLX_F16); break;
	}
	rlx_output(g, "y", y);
	must(rlx_graph_finish(g), rlx_graph_error(g));
	return g;
}

/* Of the large one less the tiny one, on both; how far results are apart. */
static double time_row(const struct row *r, double ms[BOTH])
{
	struct rlx_session *s[BOTH];
	double apart = 0;
	int tiny, d;

	for (tiny = 0; tiny < 2; tiny++) {
		struct rlx_graph *g = graph_of(r, tiny ? 64 : r->m, tiny ? 64 : r->n);

		for (d = 0; d < BOTH; d++) {
			s[d] = open_session(g, devices[d], RLX_PRECISION_AS_WRITTEN);
			fill(s[d]);
			run(s[d]);
		}
		apart = tiny ? apart : distance(s);
		for (d = 0; d < BOTH; d++) {
			ms[d] = tiny ? ms[d] - step_ms(s[d]) : step_ms(s[d]);
			rlx_session_free(s[d]);
		}
		rlx_graph_put(g);
	}
	return apart;
}

/* Bytes a millisecond that are read and written by a copy of 1 GiB within the device. */
static double copy_rate(void)
{
	const size_t n = (size_t)1 << 30;
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int (*mem_new)(uint64_t *, size_t), (*wait)(void);
	int (*mem_free)(uint64_t), (*copy)(uint64_t, uint64_t, size_t, void *);
	uint64_t p[2], t0;
	double each[RUNS];
	int i, k;

	CHECK(lib);
	*(void **)&mem_new = dlsym(lib, "cuMemAlloc_v2");
	*(void **)&mem_free = dlsym(lib, "cuMemFree_v2");
	*(void **)&copy = dlsym(lib, "cuMemcpyDtoDAsync_v2");
	*(void **)&wait = dlsym(lib, "cuCtxSynchronize");
	CHECK(mem_new && mem_free && copy && wait);
	CHECK(!mem_new(&p[0], n) && !mem_new(&p[1], n));
	for (i = -1; i < RUNS; i++) {
		t0 = rlx_now();
		for (k = 0; k < 4; k++)
			CHECK(!copy(p[k & 1], p[!(k & 1)], n, NULL));
		CHECK(!wait());
		each[i < 0 ? 0 : i] = (double)(rlx_now() - t0) * 1e-6 / 4;
	}
	CHECK(!mem_free(p[0]) && !mem_free(p[1]));
	return 2 * (double)n / median(each, RUNS);
}

static double bytes_of(const struct row *r)
{
	const double n = (double)r->m * (double)r->n, size = r->dtype == RLX_F32 ? 4 : 2;

	return n * (r->kind == REDUCE ? size : r->kind == ADD ? 3 * size :
		    r->kind == CAST ? size + 2 : 2 * size);
}

static void print_row(const struct row *r, double copied)
{
	double ms[BOTH], apart = time_row(r, ms), part = ms[CUDA] / ms[VULKAN];

	if (r->kind != GEMM)
		part = bytes_of(r) / ms[VULKAN] / copied;
	printf("%-18s %8.4f ms, CUDA %8.4f: %5.2f of %s (limit %.2f)%s; apart %.1e\n", r->name,
	       ms[VULKAN], ms[CUDA], part, r->kind == GEMM ? "CUDA's rate" : "the copy's rate",
	       r->limit, part < r->limit ? " MISSED" : "", apart);
	fflush(stdout);
	CHECKF(apart < (r->dtype == RLX_BF16 ? 1e-2 : 2e-3), "%s: results differ", r->name);
}

/* ---- a model, host to host ---- */

static void print_model(const char *path, double limit)
{
	enum { BATCH = 32 };
	struct rlx_named_tensor in = { .type = rlx_type(RLX_F32, BATCH, 3, 224, 224) };
	struct rlx_error err = { 0 };
	double each[BOTH][RUNS], ms[BOTH];
	struct rlx_model_io io;
	struct rlx_session *s[BOTH];
	struct rlx_model *m;
	struct rlx_graph *g;
	uint64_t t0;
	int d, i;

	must(rlx_model_open(path, &m, &err), &err);
	CHECK(rlx_model_io_at(m, RLX_IO_INPUT, 0, &io));
	in.name = io.name;
	must(rlx_model_graph(m, &in, 1, &g, &err), &err);
	for (d = 0; d < BOTH; d++) {
		s[d] = open_session(g, devices[d], RLX_PRECISION_MIXED_F16);
		fill(s[d]);
		run(s[d]);
	}
	for (i = -2; i < RUNS; i++)
		for (d = 0; d < BOTH; d++) {
			t0 = rlx_now();
			run(s[d]);
			each[d][i < 0 ? 0 : i] = (double)(rlx_now() - t0) * 1e-6;
		}
	for (d = 0; d < BOTH; d++)
		ms[d] = median(each[d], RUNS);
	printf("%s x %d mixed f16: %.3f ms, CUDA %.3f: %.2f times (limit %.1f)%s; apart %.1e\n",
	       path, BATCH, ms[VULKAN], ms[CUDA], ms[VULKAN] / ms[CUDA], limit,
	       ms[VULKAN] > limit * ms[CUDA] ? " MISSED" : "", distance(s));
	CHECKF(distance(s) < 5e-3, "%s: results differ", path);
	for (d = 0; d < BOTH; d++)
		rlx_session_free(s[d]);
	rlx_graph_put(g);
	rlx_model_put(m);
}

int main(int argc, char **argv)
{
	double copied, ms[BOTH];
	unsigned int i;

	if (argc > 1)
		print_model(argv[1], 2.5);
	time_row(&rows[0], ms);		/* the copy wants the context that this leaves */
	copied = copy_rate();
	printf("copy by the driver: %.2f TB/s read and written\n", copied * 1e-9);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		print_row(&rows[i], copied);
	return 0;
}
