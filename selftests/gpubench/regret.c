// SPDX-License-Identifier: MIT
/*
 * How well kernels are chosen: of random problems every candidate is timed, those that the cost
 * model would not take too. Regret is the chosen one's time by the fastest one's: 1 where the
 * choice was right, whatever the model says of ns. Beside it, of each kernel, what was measured by
 * what was predicted: the factor by which its cost could be mended.
 *
 *	build/test/gpubench/regret [PROBLEMS [LARGEST [FAMILY [FILE]]]]
 *
 * PROBLEMS of a family's (40), of up to LARGEST elements (2^24), of all families or of those whose
 * names begin so. FILE is given every time that was measured, for a model to be fitted to: a line
 * "problem" for each, then of each of its candidates the ns by the model, and measured, then what
 * it is.
 *
 * RLX_TEST_SEED draws the same again.
 */
#include <math.h>

#include "backends/gpu/tune_rig.h"
#include "base/clock.h"
#include "selftests/gpu/kernel_run.h"

enum { LAUNCHES = 10, TURNS = 3, MOST_PROBLEMS = 1000, WORST = 5 };

static uint64_t seed;
static int64_t largest = 1 << 24;

/* A problem of a family takes no longer on the mean. */
#define PROBLEM_NS	750000000ull

static struct gpu_rig *rig;	/* NULL: problems are drawn lest their kernels be waited for */
static struct gpu_rig drawn;
static FILE *raw;

/* What came of the problem at hand, by the judge. */
static struct outcome {
	char	text[256], chosen[640], fastest[640];
	double	chosen_ns, fastest_ns;
} now, worst[WORST];

/* Per kernel, logarithms of measured by predicted. */
static struct {
	double		sum, square;
	unsigned int	n;
} error_of[RLX_G_VARIANTS];

static double regret[MOST_PROBLEMS];

static int64_t pick(int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(&seed) % (uint64_t)(hi - lo + 1));
}

/* Evenly by logarithm; a multiple of 64, of 8, or anything. */
static int64_t size(int64_t lo, int64_t hi)
{
	static const int64_t steps[] = { 64, 64, 8, 8, 1 };
	double u = (double)(rlx_test_rand(&seed) >> 11) * 0x1p-53;
	int64_t v = (int64_t)(exp(log((double)lo) + u * log((double)hi / (double)lo)));
	int64_t step = steps[pick(0, 4)];

	v = v >= step ? v / step * step : v;
	return v < lo ? lo : v > hi ? hi : v;
}

static double time_of(const struct rlx_g_launch *l)
{
	void *graph = gpu_rig_graph(rig, l, LAUNCHES);
	double least = 0, ns;

	for (int i = 0; i < TURNS && graph; i++) {
		ns = gpu_rig_time(rig, graph) / LAUNCHES;
		least = ns > 0 && (!(least > 0) || ns < least) ? ns : least;
	}
	gpu_rig_graph_free(rig, graph);
	return least;
}

/* Far ones would take the whole time. */
static bool is_near(const struct rlx_g_candidate *c, unsigned int i, unsigned int least)
{
	return !c[i].why_not && (i == least || c[i].ns < 20 * c[least].ns);
}

/* Their kernels are compiled meanwhile. */
static unsigned int ask(struct rlx_g_judge *j, const struct rlx_g_family *f, const void *args,
			const struct rlx_g_candidate *c, unsigned int n, unsigned int least)
{
	struct gpu_module *m;
	struct rlx_error err;

	for (unsigned int i = 0; i < n; i++) {
		const struct rlx_g_launch *l = &c[i].launch;
		struct gpu_kernel k;

		if (!is_near(c, i, least))
			continue;
		k = gpu_kernel_of(l->variant, &l->param, l->shared);
		gpu_module_get(gpu, &k, &m, &err);
	}
	return least;
}

static void write_raw(const struct rlx_g_candidate *c, double ns, bool chosen)
{
	char text[640];

	gpu_launch_text(&c->launch, text, sizeof(text));
	fprintf(raw, "%c %.0f %.0f block %u shared %u %s\n", chosen ? '*' : ' ', c->ns, ns,
		c->launch.block[0], c->launch.shared, text);
}

/* Times all that can do it; the model's choice stays. */
static unsigned int judge(struct rlx_g_judge *j, const struct rlx_g_family *f, const void *args,
			  const struct rlx_g_candidate *c, unsigned int n, unsigned int least)
{
	unsigned int i;

	f->describe(args, now.text, sizeof(now.text));
	if (raw)
		fprintf(raw, "problem %s\n", now.text);
	for (i = 0; i < n; i++) {
		double ns, by;

		if (!is_near(c, i, least))
			continue;
		ns = time_of(&c[i].launch);
		if (!(ns > 0))
			continue;
		if (raw)
			write_raw(&c[i], ns, i == least);
		by = log(ns / c[i].ns);
		error_of[c[i].variant].sum += by;
		error_of[c[i].variant].square += by * by;
		error_of[c[i].variant].n++;
		if (i == least) {
			now.chosen_ns = ns;
			gpu_launch_text(&c[i].launch, now.chosen, sizeof(now.chosen));
		}
		if (!(now.fastest_ns > 0) || ns < now.fastest_ns) {
			now.fastest_ns = ns;
			gpu_launch_text(&c[i].launch, now.fastest, sizeof(now.fastest));
		}
	}
	return least;
}

static struct rlx_g_judge all = { judge }, ahead = { ask };

static void *memory(int64_t elements, int bytes)
{
	if (rig == &drawn)	/* of no use but that its alignment is seen */
		return (void *)(uintptr_t)256;
	return (void *)(uintptr_t)gpu_rig_memory(rig, (uint64_t)(elements * bytes), 1);
}

/* ---- problems ---- */

enum { F16, F32, TF32 };

/* The launch of @a, which has sizes and b_form, of a batch; false: it is too large. */
static bool product(struct rlx_k_gemv_stream *a, int what, struct rlx_g_launch *l)
{
	int64_t m = (int64_t)a->g.m, n = (int64_t)a->g.n, k = (int64_t)a->g.k;
	int64_t batch = (int64_t)rlx_k_gemm_batches(&a->g);
	int bytes = what == F16 ? 2 : 4;

	if (batch * m * k > largest || batch * n * k > largest || batch * m * n > largest)
		return false;
	a->g.lda = (size_t)k;
	a->g.ldb = (size_t)(a->g.b_form == RLX_B_COLS ? k : n);
	a->g.ldc = a->g.ldr = (size_t)n;
	a->g.alpha = a->g.beta = 1;
	a->g.a_type = a->g.b_type = a->g.c_type = what == F16 ? RLX_F16 : RLX_F32;
	a->g.tf32 = what == TF32;
	a->g.a = memory(batch * m * k, bytes);
	a->g.b = memory(batch * n * k, bytes);
	a->g.c = memory(batch * m * n, bytes);
	if (a->g.residual)
		a->g.residual = memory(batch * m * n, bytes);
	memcpy(rig->args, a, sizeof(*a));
	(what == F16 ? rlx_g_gemm_16bit_launch : rlx_g_gemm_f32_launch)(rig->args, l);
	return a->g.a && a->g.b && a->g.c;
}

static bool gemm(int what, struct rlx_g_launch *l)
{
	static const int64_t rows[] = { 1, 8, 16, 50, 128, 197, 333, 577, 4096 };
	struct rlx_k_gemv_stream a = { .g = {
		.m = (size_t)(pick(0, 2) ? size(1, 8192) : rows[pick(0, 8)]),
		.n = (size_t)size(16, 8192), .k = (size_t)size(16, 8192),
		.b_form = pick(0, 2) ? RLX_B_COLS : RLX_B_ROWS, .b_fixed = true,
		.act = pick(0, 3) ? RLX_ACT_NONE : RLX_ACT_GELU,
		.residual = pick(0, 3) ? NULL : &seed,
	} };

	return product(&a, what, l);
}

static bool gemm_f16(struct rlx_g_launch *l)
{
	return gemm(F16, l);
}

static bool gemm_f32(struct rlx_g_launch *l)
{
	return gemm(F32, l);
}

static bool gemm_tf32(struct rlx_g_launch *l)
{
	return gemm(TF32, l);
}

/* Sizes as attention and small models have: many small products, lines at odd places too. */
static bool batched(int what, struct rlx_g_launch *l)
{
	int64_t batch = size(2, 256), m = size(1, 1024), n = size(8, 1024), k = size(16, 1024);
	struct rlx_k_gemv_stream a = { .g = {
		.batch = { (size_t)batch, 1 }, .m = (size_t)m, .n = (size_t)n, .k = (size_t)k,
		.a_step = { (size_t)(m * k) }, .b_step = { (size_t)(n * k) },
		.c_step = { (size_t)(m * n) }, .r_step = { (size_t)(m * n) },
		.b_form = pick(0, 1) ? RLX_B_COLS : RLX_B_ROWS,
	} };

	return product(&a, what, l);
}

static bool batched_f16(struct rlx_g_launch *l)
{
	return batched(F16, l);
}

static bool batched_f32(struct rlx_g_launch *l)
{
	return batched(F32, l);
}

static bool batched_tf32(struct rlx_g_launch *l)
{
	return batched(TF32, l);
}

static bool attention(struct rlx_g_launch *l)
{
	static const int64_t dims[] = { 32, 40, 64, 64, 80, 96, 128, 128, 256 };
	int type = pick(0, 3) ? RLX_F16 : RLX_F32, bytes = type == RLX_F32 ? 4 : 2;
	struct rlx_k_attention a = {
		.batch = size(1, 32), .heads = pick(1, 16), .head_dim = dims[pick(0, 8)],
		.q_len = pick(0, 3) ? size(8, 2048) : pick(1, 8), .causal = pick(0, 1),
		.q_type = (uint8_t)type, .kv_type = (uint8_t)type, .out_type = (uint8_t)type,
	};

	a.kv_len = pick(0, 1) ? a.q_len : size(16, 4096);
	a.kv_len = a.kv_len < a.q_len ? a.q_len : a.kv_len;
	a.q_offset = a.kv_len - a.q_len;
	a.kv_heads = a.heads;
	a.v_dim = a.head_dim;
	a.scale = 1 / sqrtf((float)a.head_dim);
	a.q_stride[2] = a.k_stride[2] = a.v_stride[2] = a.out_stride[2] = a.heads * a.head_dim;
	a.q_stride[1] = a.k_stride[1] = a.v_stride[1] = a.out_stride[1] = a.head_dim;
	a.q_stride[0] = a.out_stride[0] = a.q_len * a.q_stride[2];
	a.k_stride[0] = a.v_stride[0] = a.kv_len * a.k_stride[2];
	if (a.batch * a.k_stride[0] > largest || a.batch * a.q_stride[0] > largest ||
	    a.batch * a.heads * a.q_len > largest / 1024 * 1024 / (a.kv_len / 64 + 1))
		return false;
	a.q = memory(a.batch * a.q_stride[0], bytes);
	a.k = memory(a.batch * a.k_stride[0], bytes);
	a.v = memory(a.batch * a.k_stride[0], bytes);
	a.out = memory(a.batch * a.q_stride[0], bytes);
	memcpy(rig->args, &a, sizeof(a));
	rlx_g_attention_launch(rig->args, l);
	return a.q && a.k && a.v && a.out;
}

static bool conv(struct rlx_g_launch *l)
{
	static const size_t edge[] = { 7, 14, 28, 56, 112 }, taps[] = { 1, 1, 3, 3, 5, 7 };
	size_t e = edge[pick(0, 4)], k = taps[pick(0, 5)], s = (size_t)pick(1, 2);
	int type = pick(0, 2) ? RLX_F16 : RLX_F32, bytes = type == RLX_F32 ? 4 : 2;
	struct rlx_k_conv_nd a = {
		.n = (size_t)size(1, 32), .ic = (size_t)size(1, 512), .oc = (size_t)size(1, 512),
		.groups = 1, .in = { 1, e, e }, .k = { 1, k, k }, .s = { 1, s, s },
		.d = { 1, 1, 1 }, .p = { 0, k / 2, k / 2 }, .type = (uint8_t)type,
		.out_type = (uint8_t)type, .bias_type = (uint8_t)type,
	};
	size_t out = (e + 2 * (k / 2) - k) / s + 1;

	if (!pick(0, 4))
		a.groups = a.oc = a.ic;
	a.out[0] = 1;
	a.out[1] = a.out[2] = out;
	a.skips = rlx_g_conv_skips(&a);
	a.x_n = a.ic * e * e;
	a.y_n = a.res_n = a.oc * out * out;
	if ((int64_t)(a.n * a.x_n) > largest || (int64_t)(a.n * a.y_n) > largest)
		return false;
	a.x = memory((int64_t)(a.n * a.x_n), bytes);
	a.y = memory((int64_t)(a.n * a.y_n), bytes);
	a.w = memory((int64_t)(a.oc * a.ic / a.groups * k * k), bytes);
	memcpy(rig->args, &a, sizeof(a));
	rlx_g_conv_nd_launch(rig->args, l);
	return a.x && a.y && a.w;
}

/* Numbers that differ, where time goes by them. */
static void *numbers(int64_t elements, int type)
{
	int64_t bytes = elements * (int64_t)rlx_k_type_size((enum rlx_dtype)type), i;
	void *at = memory(bytes, 1), *host;

	if (rig == &drawn)
		return at;
	host = malloc((size_t)bytes + 8);
	CHECK(host);
	for (i = 0; i < elements; i++) {
		uint64_t r = rlx_test_rand(&seed);
		float f = (float)(r >> 40) * 0x1p-24f;
		_Float16 h = (_Float16)f;

		if (type == RLX_F32)
			memcpy((float *)host + i, &f, sizeof(f));
		else if (type == RLX_F16)
			memcpy((_Float16 *)host + i, &h, sizeof(h));
		else
			memcpy((uint64_t *)host + i, &r, sizeof(r));
	}
	if (at && gpu->api->copy_in((uint64_t)(uintptr_t)at, host, (size_t)bytes, NULL))
		at = NULL;
	gpu->api->stream_wait(NULL);
	free(host);
	return at;
}

static bool topk(struct rlx_g_launch *l)
{
	static const int types[] = { RLX_F32, RLX_F32, RLX_F16, RLX_I64 };
	int type = types[pick(0, 3)];
	struct rlx_k_topk a = {
		.outer = size(1, 1 << 17), .n = size(100, 1 << 20), .inner = 1,
		.type = (uint8_t)type, .idx_type = RLX_I64,
	};
	int64_t bytes = type == RLX_F16 ? 2 : type == RLX_F32 ? 4 : 8;

	if (!pick(0, 4))
		a.inner = size(2, 64);
	a.k = pick(0, 3) ? size(1, 128) : size(1, a.n);
	a.k = a.k < a.n ? a.k : a.n;
	if (a.outer * a.n * a.inner > largest)
		return false;
	a.x = numbers(a.outer * a.n * a.inner, type);
	a.values = memory(a.outer * a.k * a.inner, (int)bytes);
	a.idx = memory(a.outer * a.k * a.inner, 8);
	memcpy(rig->args, &a, sizeof(a));
	rlx_g_topk_launch(rig->args, l);
	return a.x && a.values && a.idx;
}

/* ---- what came of it ---- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void keep_worst(const struct outcome *o)
{
	struct outcome with = *o;

	for (int i = 0; i < WORST; i++) {
		double has = worst[i].fastest_ns > 0 ? worst[i].chosen_ns / worst[i].fastest_ns : 0;

		if (with.chosen_ns / with.fastest_ns > has) {
			struct outcome t = worst[i];

			worst[i] = with;
			with = t;
		}
		if (!(with.fastest_ns > 0))
			return;
	}
}

static void print_family(const char *name, int n)
{
	double sum = 0;

	qsort(regret, (size_t)n, sizeof(*regret), by_value);
	for (int i = 0; i < n; i++)
		sum += log(regret[i]);
	if (!n) {
		printf("%-11s nothing was measured\n", name);
		return;
	}
	printf("%-11s %4d problems: regret %.3f on the mean, %.2f at 95 %%, %.2f at worst\n",
	       name, n, exp(sum / n), regret[n * 95 / 100], regret[n - 1]);
	for (int i = 0; i < WORST && worst[i].chosen_ns > 1.1 * worst[i].fastest_ns; i++)
		printf("  %.2f  %s\n        %9.2f us %s\n        %9.2f us %s\n",
		       worst[i].chosen_ns / worst[i].fastest_ns, worst[i].text,
		       worst[i].chosen_ns * 1e-3, worst[i].chosen, worst[i].fastest_ns * 1e-3,
		       worst[i].fastest);
	fflush(stdout);
}

/* A problem of its own seed, so that it can be drawn again. */
static bool draw(bool (*problem)(struct rlx_g_launch *l), uint64_t own, struct rlx_g_judge *judge)
{
	struct rlx_g_launch l = gpu_launch_for(gpu, 0);
	uint64_t before = seed;
	bool ok;

	l.judge = judge;
	seed = own;
	ok = problem(&l);
	seed = before;
	return ok;
}

static bool measure(bool (*problem)(struct rlx_g_launch *l), uint64_t own)
{
	bool ok;

	memset(&now, 0, sizeof(now));
	rig = gpu_rig_new(gpu);
	CHECK(rig);
	ok = draw(problem, own, &all);
	if (ok && rig->err.status)
		printf("  %s: %s\n", now.text, rig->err.text);
	gpu_rig_free(rig);
	return ok && now.chosen_ns > 0;
}

static void family(const char *name, bool (*problem)(struct rlx_g_launch *l), int problems)
{
	static uint64_t own[MOST_PROBLEMS];
	uint64_t end;
	int n = 0, some = 0, turns = 0;

	problems = problems < MOST_PROBLEMS ? problems : MOST_PROBLEMS;
	memset(worst, 0, sizeof(worst));
	rig = &drawn;
	for (; some < problems && turns < 1000 * problems; turns++) {
		own[some] = rlx_test_rand(&seed);
		some += draw(problem, own[some], &ahead);
	}
	end = rlx_now() + (uint64_t)problems * PROBLEM_NS;
	for (int i = 0; i < some && rlx_now() < end; i++) {
		if (!measure(problem, own[i]))
			continue;
		regret[n++] = now.chosen_ns / now.fastest_ns;
		keep_worst(&now);
	}
	print_family(name, n);
}

static void print_errors(void)
{
	printf("measured by predicted, on the mean, and how far that scatters:\n");
	for (int v = 1; v < RLX_G_VARIANTS; v++) {
		double mean = error_of[v].n ? error_of[v].sum / error_of[v].n : 0;
		double var = error_of[v].n ? error_of[v].square / error_of[v].n - mean * mean : 0;

		if (error_of[v].n)
			printf("  %-20s %5.2f  x/ %.2f  of %u\n", gpu_variants[v].name, exp(mean),
			       exp(sqrt(var > 0 ? var : 0)), error_of[v].n);
	}
}

static const struct {
	const char	*name;
	bool		(*problem)(struct rlx_g_launch *l);
} families[] = {
	{ "gemm f16", gemm_f16 }, { "gemm f32", gemm_f32 }, { "batched f16", batched_f16 },
	{ "batched f32", batched_f32 }, { "gemm tf32", gemm_tf32 },
	{ "batched tf32", batched_tf32 }, { "attention", attention }, { "conv", conv },
	{ "topk", topk },
};

int main(int argc, char **argv)
{
	int problems = argc > 1 ? atoi(argv[1]) : 40;

	largest = argc > 2 ? atoll(argv[2]) : largest;
	raw = argc > 4 ? fopen(argv[4], "a") : NULL;
	if (problems < 1 || largest < 256 || (argc > 4 && !raw)) {
		fprintf(stderr, "usage: regret [PROBLEMS [LARGEST [FAMILY [FILE]]]]\n");
		return 2;
	}
	gpu_start();
	seed = rlx_test_seed();
	printf("%s: numbers %s\n", gpu_chip(gpu)->name, gpu_chip(gpu)->source);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (argc < 4 || !strncmp(argv[3], families[i].name, strlen(argv[3])))
			family(families[i].name, families[i].problem, problems);
	print_errors();
	return raw && fclose(raw);
}
