// SPDX-License-Identifier: MIT
/* State-space recurrences on the GPU or the emulator, against sums in double. */
#include "selftests/gpu/against_cpu.h"

/* A tensor in double for the reference, and in the kernel's type on the device. */
struct pair {
	double	*p;
	void	*dev;
	size_t	n;
	int	type;
	size_t	before;		/* bytes on the device ahead of the first one */
};

/* The next ones begin at a multiple of their elements alone. */
static bool odd;

/* @bytes of @raw on the device, behind @before. */
static void *dev_behind(const void *raw, size_t bytes, size_t before)
{
	char *all = malloc(before + bytes + 1), *dev;

	CHECK(all);
	memset(all, 0xa5, before);
	memcpy(all + before, raw, bytes);
	dev = dev_of(all, before + bytes);
	free(all);
	return dev + before;
}

static struct pair pair_new(int64_t n, int type, double lo, double hi, uint64_t *seed)
{
	struct pair t = { .n = (size_t)n, .type = type };
	void *raw = gpu_alloc(t.n, type, lo, hi, seed);

	t.p = malloc((t.n + 1) * sizeof(*t.p));
	CHECK(t.p);
	for (size_t i = 0; i < t.n; i++)
		t.p[i] = gpu_value(raw, i, type);
	t.before = odd ? rlx_k_type_size((enum rlx_dtype)type) : 0;
	t.dev = dev_behind(raw, t.n * rlx_k_type_size((enum rlx_dtype)type), t.before);
	free(raw);
	return t;
}

/* @n numbers of @t from @from on become @x, which is one of its type. */
static void pair_set(struct pair *t, size_t from, size_t n, double x)
{
	size_t bytes = t->n * rlx_k_type_size((enum rlx_dtype)t->type);
	uint64_t seed = 0;
	void *raw = malloc(bytes + 64);

	CHECK(raw && from + n <= t->n);
	dev_read(raw, t->dev, bytes);
	gpu_fill((char *)raw + from * rlx_k_type_size((enum rlx_dtype)t->type), n, t->type, x, x,
		 &seed);
	for (size_t i = from; i < from + n; i++)
		t->p[i] = gpu_value(raw, i, t->type);
	dev_free((char *)t->dev - t->before);
	t->dev = dev_behind(raw, bytes, t->before);
	free(raw);
}

/* What the device has is @t, by @tol of 1 or of the number. */
static void pair_compare(const struct pair *t, double tol, const char *what)
{
	size_t bytes = t->n * rlx_k_type_size((enum rlx_dtype)t->type);
	void *raw = malloc(bytes + 1);

	CHECK(raw);
	dev_read(raw, t->dev, bytes);
	for (size_t i = 0; i < t->n; i++) {
		double got = gpu_value(raw, i, t->type);

		CHECKF(got == t->p[i] || fabs(got - t->p[i]) <= tol * (1 + fabs(t->p[i])),
		       "%s %zu of %zu: %.9g, not %.9g", what, i, t->n, got, t->p[i]);
	}
	free(raw);
}

static void pairs_free(struct pair *t, int n)
{
	for (int i = 0; i < n; i++) {
		if (!t[i].dev)
			continue;
		dev_free((char *)t[i].dev - t[i].before);
		free(t[i].p);
	}
}

static double tolerance(int type)
{
	return type == RLX_F64 ? 1e-12 : type == RLX_F32 ? 3e-5 : type == RLX_F16 ? 2e-3 : 1.5e-2;
}

static const int types[] = { RLX_F64, RLX_F32, RLX_F16, RLX_BF16 };

/* Launches are planned for so many multiprocessors: with many, few lines are cut into chunks. */
static uint32_t processors;
static uint32_t launches;	/* of the last */

static void planned(gpu_launch_fn *how, const void *args, struct rlx_g_launch *l)
{
	l->processors = processors;
	how(args, l);
	launches = l->n_launches;
}

static void how_linear(const void *args, struct rlx_g_launch *l)
{
	planned(rlx_g_linear_scan_launch, args, l);
}

static void how_selective(const void *args, struct rlx_g_launch *l)
{
	planned(rlx_g_selective_scan_launch, args, l);
}

static void linear(int64_t outer, int64_t n, int64_t inner, int type, uint64_t *seed)
{
	enum { A, X, INITIAL, Y, FIELDS };
	int64_t all = outer * n * inner;
	bool reverse = kc_pick(seed, 0, 1), initial = kc_pick(seed, 0, 1);
	struct pair t[FIELDS] = { pair_new(all, type, -1, 1, seed),
				  pair_new(all, type, -1, 1, seed),
				  pair_new(outer * inner, type, -1, 1, seed),
				  pair_new(all, type, 5, 6, seed) };
	struct rlx_k_linear_scan a = {
		.a = t[A].dev, .x = t[X].dev, .initial = initial ? t[INITIAL].dev : NULL,
		.y = t[Y].dev, .outer = outer, .n = n, .inner = inner, .type = (uint8_t)type,
		.reverse = reverse,
	};
	struct rlx_g_env env = { .units = 0 };

	for (int64_t i = 0; i < outer * inner; i++) {
		double y = initial ? t[INITIAL].p[i] : 0;

		for (int64_t k = 0; k < n; k++) {
			int64_t at = (i / inner * n + (reverse ? n - 1 - k : k)) * inner +
				     i % inner;

			t[Y].p[at] = y = t[A].p[at] * y + t[X].p[at];
		}
	}
	gpu_run_kernel(how_linear, &a, &env);
	pair_compare(&t[Y], tolerance(type), "y");
	pairs_free(t, FIELDS);
}

/* Factors whose product overflows, some 0, past which y is 0 until the last steps: so it stays. */
static void linear_past_all(int64_t n, int64_t inner, int type, bool reverse, uint64_t *seed)
{
	int64_t all = n * inner, tail = n / 4 * inner, at = reverse ? tail : 0;
	struct pair a = pair_new(all, type, -1, 1, seed), x = pair_new(all, type, -1, 1, seed);
	struct pair y = pair_new(all, type, 5, 6, seed);
	struct rlx_k_linear_scan args = {
		.a = a.dev, .x = x.dev, .y = y.dev, .outer = 1, .n = n, .inner = inner,
		.type = (uint8_t)type, .reverse = reverse,
	};
	struct rlx_g_env env = { .units = 0 };

	pair_set(&a, (size_t)at, (size_t)(all - tail), 32768);
	for (int i = 0; i < 8; i++)
		pair_set(&a, (size_t)(at + kc_pick(seed, 0, all - tail - 1)), 1, 0);
	pair_set(&x, (size_t)at, (size_t)(all - tail), 0);
	args.a = a.dev;
	args.x = x.dev;
	for (int64_t i = 0; i < all; i++) {
		int64_t k = reverse ? all - 1 - i : i;

		y.p[k] = x.p[k] + (i < inner ? 0 : a.p[k] * y.p[reverse ? k + inner : k - inner]);
	}
	gpu_run_kernel(how_linear, &args, &env);
	CHECK(launches > 1);
	pair_compare(&y, tolerance(type), "y");
	pairs_free((struct pair[]){ a, x, y }, 3);
}

TEST(linear_scans_past_all_numbers)
{
	uint64_t seed = rlx_test_seed();

	processors = 200;
	for (int i = 0; i < 16; i++)
		linear_past_all(i & 8 ? kc_pick(&seed, 12288, 20000) : kc_pick(&seed, 3000, 6000),
				i & 8 ? 1 : 32, types[i % 4], i & 4, &seed);
}

/* What overflows is infinite if it is not 0, also where factors below 1 come behind. */
TEST(linear_scans_that_overflow)
{
	uint64_t seed = rlx_test_seed();
	const int64_t n = kc_pick(&seed, 12288, 20000);

	processors = 200;
	for (int i = 0; i < 4; i++) {
		struct pair a = pair_new(n, types[i], 0.9, 0.99, &seed);
		struct pair x = pair_new(n, types[i], 0.4, 0.6, &seed);
		struct pair y = pair_new(n, types[i], 5, 6, &seed);
		size_t bytes = (size_t)n * rlx_k_type_size((enum rlx_dtype)types[i]);
		void *raw = malloc(bytes);
		struct rlx_g_env env = { .units = 0 };

		pair_set(&a, 0, 1000, 32768);
		gpu_run_kernel(how_linear, &(struct rlx_k_linear_scan){
			.a = a.dev, .x = x.dev, .y = y.dev, .outer = 1, .n = n, .inner = 1,
			.type = (uint8_t)types[i] }, &env);
		CHECK(raw && launches > 1);
		dev_read(raw, y.dev, bytes);
		for (int64_t k = 200; k < n; k++)
			CHECKF(gpu_value(raw, (size_t)k, types[i]) == INFINITY, "y %lld is %g",
			       (long long)k, gpu_value(raw, (size_t)k, types[i]));
		free(raw);
		pairs_free((struct pair[]){ a, x, y }, 3);
	}
}

/* What is infinite stays so, by factors whose product is none of a double's numbers but not 0. */
TEST(linear_scans_that_underflow)
{
	uint64_t seed = rlx_test_seed();

	processors = 200;
	for (int i = 0; i < 12; i++) {
		const int64_t inner = i < 8 ? 1 : 24;
		const int64_t n = inner > 1 ? kc_pick(&seed, 3000, 6000) :
				  kc_pick(&seed, 12288, 20000);
		const int type = types[i % 4];
		struct pair a = pair_new(n * inner, type, 0.1, 0.2, &seed);
		struct pair x = pair_new(n * inner, type, 0.4, 0.6, &seed);
		struct pair y = pair_new(n * inner, type, 5, 6, &seed);
		size_t bytes = y.n * rlx_k_type_size((enum rlx_dtype)type);
		void *raw = malloc(bytes);
		struct rlx_g_env env = { .units = 0 };

		if (i & 4)
			pair_set(&a, 0, a.n, -0.125);
		pair_set(&a, 0, (size_t)(100 * inner), 32768);
		gpu_run_kernel(how_linear, &(struct rlx_k_linear_scan){
			.a = a.dev, .x = x.dev, .y = y.dev, .outer = 1, .n = n, .inner = inner,
			.type = (uint8_t)type }, &env);
		CHECK(raw && launches > 1);
		dev_read(raw, y.dev, bytes);
		for (int64_t k = 100 * inner; k < n * inner; k++) {
			double got = gpu_value(raw, (size_t)k, type);
			bool below = i & 4 && k / inner % 2 == 0;

			CHECKF(got == (below ? -INFINITY : INFINITY), "y %lld of %lld is %g",
			       (long long)k, (long long)(n * inner), got);
		}
		free(raw);
		pairs_free((struct pair[]){ a, x, y }, 3);
	}
}

TEST(linear_scans)
{
	uint64_t seed = rlx_test_seed();
	unsigned int chunked = 0;

	for (int i = 0; i < 24; i++) {
		bool lines = kc_pick(&seed, 0, 1), few = kc_pick(&seed, 0, 1);
		int64_t n = kc_pick(&seed, 1, lines && few ? 20000 : few ? 700 : 90);

		processors = few ? 200 : 1;
		linear(kc_pick(&seed, 1, few ? 2 : 5), n,
		       lines ? kc_pick(&seed, 1, 3) : kc_pick(&seed, 16, few ? 40 : 600),
		       types[i % 4], &seed);
		chunked += launches > 1;
	}
	CHECK(chunked);
}

/* What a form of it has, by bits. */
enum { WITH_D = 1, WITH_Z = 2, WITH_STATE = 4, WITH_SOFTPLUS = 8, GROWS = 16, FADES = 32 };
enum { X, DELTA, A, B, C, D, Z, STATE, Y, LAST, FIELDS };

static void selective_truth(const struct rlx_k_selective_scan *a, struct pair *t, int form)
{
	for (int64_t l = 0; l < a->batch * a->h; l++) {
		int64_t entry = l / a->h, ch = l % a->h;
		double *h = t[LAST].p + l * a->n;

		for (int64_t i = 0; i < a->n; i++)
			h[i] = form & WITH_STATE ? t[STATE].p[l * a->n + i] : 0;
		for (int64_t s = 0; s < a->steps; s++) {
			int64_t row = entry * a->steps + s, at = row * a->h + ch;
			double delta = t[DELTA].p[at], y = 0, z = t[Z].p[at];

			if (form & WITH_SOFTPLUS)
				delta = log1p(exp(delta));
			for (int64_t i = 0; i < a->n; i++) {
				h[i] = exp(delta * t[A].p[ch * a->n + i]) * h[i] +
				       delta * t[X].p[at] * t[B].p[row * a->n + i];
				y += t[C].p[row * a->n + i] * h[i];
			}
			if (form & WITH_D)
				y += t[D].p[ch] * t[X].p[at];
			t[Y].p[at] = form & WITH_Z ? y * z / (1 + exp(-z)) : y;
		}
	}
}

static void selective(struct rlx_k_selective_scan a, int type, int form, uint64_t *seed)
{
	int64_t rows = a.batch * a.steps, states = a.batch * a.h * a.n;
	double size = 1 / sqrt((double)a.n + 1);
	struct pair t[FIELDS] = {
		[X] = pair_new(rows * a.h, type, -1, 1, seed),
		[DELTA] = pair_new(rows * a.h, type, form & WITH_SOFTPLUS ? -2 : 0, 1, seed),
		[A] = pair_new(a.h * a.n, type, -2, -0.1, seed),
		[B] = pair_new(rows * a.n, type, -size, size, seed),
		[C] = pair_new(rows * a.n, type, -size, size, seed),
		[D] = pair_new(a.h, type, -1, 1, seed),
		[Z] = pair_new(rows * a.h, type, -2, 2, seed),
		[STATE] = pair_new(states, type, -1, 1, seed),
		[Y] = pair_new(rows * a.h, type, 5, 6, seed),
		[LAST] = pair_new(states, type, 5, 6, seed),
	};
	struct rlx_g_env env = { .units = 0 };

	if (form & GROWS) {	/* e^(20 steps) of 0, but for the last steps */
		const size_t calm = (size_t)(rows - 8) * (size_t)a.h;

		pair_set(&t[A], 0, t[A].n, 20);
		pair_set(&t[DELTA], 0, calm, 1);
		pair_set(&t[DELTA], calm, t[DELTA].n - calm, 0.015625);
		pair_set(&t[X], 0, calm, 0);
	}
	if (form & FADES) {	/* e^(-20 steps) of what is infinite from the first step on */
		pair_set(&t[A], 0, t[A].n, -20);
		pair_set(&t[DELTA], 0, t[DELTA].n, 1);
		pair_set(&t[DELTA], 0, (size_t)a.h, 32768);
		pair_set(&t[X], 0, (size_t)a.h, 1e308);
	}
	a.x = t[X].dev;
	a.delta = t[DELTA].dev;
	a.a = t[A].dev;
	a.b = t[B].dev;
	a.c = t[C].dev;
	a.d = form & WITH_D ? t[D].dev : NULL;
	a.z = form & WITH_Z ? t[Z].dev : NULL;
	a.state = form & WITH_STATE ? t[STATE].dev : NULL;
	a.y = t[Y].dev;
	a.last = t[LAST].dev;
	a.type = (uint8_t)type;
	a.softplus = (form & WITH_SOFTPLUS) != 0;
	selective_truth(&a, t, form);
	gpu_run_kernel(how_selective, &a, &env);
	pair_compare(&t[Y], tolerance(type), "y");
	pair_compare(&t[LAST], tolerance(type), "last");
	pairs_free(t, FIELDS);
}

TEST(selective_scans)
{
	uint64_t seed = rlx_test_seed();
	unsigned int chunked = 0;

	for (int i = 0; i < 32; i++) {
		bool few = kc_pick(&seed, 0, 1), wide = kc_pick(&seed, 0, 5) == 0;
		struct rlx_k_selective_scan a = {
			.batch = kc_pick(&seed, 1, few ? 1 : 3),
			.steps = kc_pick(&seed, 0, few ? 900 : 70),
			.h = kc_pick(&seed, 1, few ? 9 : 70),
			.n = wide ? kc_pick(&seed, 33, 300) : kc_pick(&seed, 1, 18),
		};

		processors = few ? 100 : 1;
		selective(a, types[i % 4], (int)kc_pick(&seed, 0, 15), &seed);
		chunked += launches > 1;
	}
	CHECK(chunked);
}

/* As decoders take them: a launch, whatever there is, by vectors or not. */
TEST(short_scans)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 48; i++) {
		const int64_t steps = i & 4 ? 1 : kc_pick(&seed, 2, 16);
		const bool few = kc_pick(&seed, 0, 1);
		const int64_t n = kc_pick(&seed, 0, 1) ? 1 << kc_pick(&seed, 0, 6) :
				  4 * kc_pick(&seed, 1, 20);
		const struct rlx_k_selective_scan a = {
			.batch = kc_pick(&seed, 1, few ? 1 : 4), .steps = steps,
			.h = kc_pick(&seed, 1, few ? 9 : 300), .n = n,
		};

		odd = i & 8;
		processors = kc_pick(&seed, 0, 1) ? 200 : 1;
		selective(a, types[i % 4], (int)kc_pick(&seed, 0, 15), &seed);
		CHECK(launches <= 1);
		linear(kc_pick(&seed, 1, 4), steps, kc_pick(&seed, 1, 700), types[i % 4], &seed);
		CHECK(launches <= 1);
	}
	odd = false;
}

/* What would grow past all numbers is 0, and stays so. */
TEST(selective_scans_past_all_numbers)
{
	uint64_t seed = rlx_test_seed();

	processors = 100;
	for (int i = 0; i < 8; i++) {
		struct rlx_k_selective_scan a = {
			.batch = 1, .steps = kc_pick(&seed, 700, 900),
			.h = kc_pick(&seed, 1, 9), .n = kc_pick(&seed, 1, 18),
		};

		selective(a, types[i % 4], GROWS | (i & WITH_Z) | WITH_D, &seed);
		CHECK(launches > 1);
	}
}

/* The same of what is infinite, by decays that would be 0 if they were one. */
TEST(selective_scans_that_fade)
{
	uint64_t seed = rlx_test_seed();

	processors = 100;
	for (int i = 0; i < 4; i++) {
		const struct rlx_k_selective_scan a = {
			.batch = 1, .steps = kc_pick(&seed, 700, 900),
			.h = kc_pick(&seed, 1, 9), .n = 1,
		};

		selective(a, RLX_F64, FADES | WITH_D, &seed);
		CHECK(launches > 1);
	}
}

enum { Q, K, V, G, BETA, FROM, OUT, TO, DELTA_FIELDS };

static void delta_truth(const struct rlx_k_gated_delta *a, struct pair *t, bool state)
{
	int64_t dk = a->dk, dv = a->dv;

	for (int64_t l = 0; l < a->batch * a->hv * dv; l++) {
		int64_t entry = l / dv / a->hv, head = l / dv % a->hv, c = l % dv;
		double *s = t[TO].p + (entry * a->hv + head) * dk * dv + c;

		for (int64_t i = 0; i < dk; i++)
			s[i * dv] = state ? t[FROM].p[s - t[TO].p + i * dv] : 0;
		for (int64_t k = 0; k < a->steps; k++) {
			int64_t at = (entry * a->steps + k) * a->hv + head;
			int64_t key = ((entry * a->steps + k) * a->hk +
				       head / (a->hv / a->hk)) * dk;
			double u = 0, y = 0;

			for (int64_t i = 0; i < dk; i++) {
				s[i * dv] *= exp(t[G].p[at]);
				u += s[i * dv] * t[K].p[key + i];
			}
			u = t[BETA].p[at] * (t[V].p[at * dv + c] - u);
			for (int64_t i = 0; i < dk; i++) {
				s[i * dv] += t[K].p[key + i] * u;
				y += s[i * dv] * t[Q].p[key + i];
			}
			t[OUT].p[at * dv + c] = a->scale * y;
		}
	}
}

typedef void delta_run(struct rlx_k_gated_delta *a, struct rlx_g_env *env);

/* @masks: of so many steps g is -inf, or that far below 0 that all is forgotten. */
static void gated_delta(delta_run *run, struct rlx_k_gated_delta a, int type, double tol,
			int masks, uint64_t *seed)
{
	static const double mask[] = { -1e300, -6e4, -1e9 };	/* -inf but for f64 and bf16 */
	int64_t rows = a.batch * a.steps, states = a.batch * a.hv * a.dk * a.dv;
	bool state = kc_pick(seed, 0, 1);
	double size = sqrt(3 / (double)a.dk);	/* keys of length 1 */
	struct pair t[DELTA_FIELDS] = {
		[Q] = pair_new(rows * a.hk * a.dk, type, -1, 1, seed),
		[K] = pair_new(rows * a.hk * a.dk, type, -size, size, seed),
		[V] = pair_new(rows * a.hv * a.dv, type, -1, 1, seed),
		[G] = pair_new(rows * a.hv, type, kc_pick(seed, 0, 3) ? -0.3 : -30, 0, seed),
		[BETA] = pair_new(rows * a.hv, type, 0, 1, seed),
		[FROM] = pair_new(states, type, -1, 1, seed),
		[OUT] = pair_new(rows * a.hv * a.dv, type, 5, 6, seed),
		[TO] = pair_new(states, type, 5, 6, seed),
	};
	struct rlx_g_env env = { .units = 0 };

	for (int i = 0; i < masks && rows; i++)
		pair_set(&t[G], (size_t)kc_pick(seed, 0, rows * a.hv - 1), 1, mask[i % 3]);
	a.q = t[Q].dev;
	a.k = t[K].dev;
	a.v = t[V].dev;
	a.g = t[G].dev;
	a.beta = t[BETA].dev;
	a.state = state ? t[FROM].dev : NULL;
	a.y = t[OUT].dev;
	a.last = t[TO].dev;
	a.type = (uint8_t)type;
	a.scale = 1 / sqrt((double)a.dk);
	delta_truth(&a, t, state);
	run(&a, &env);
	pair_compare(&t[OUT], tol, "y");
	pair_compare(&t[TO], tol, "last");
	pairs_free(t, DELTA_FIELDS);
}

static void how_steps(const void *args, struct rlx_g_launch *l)
{
	planned(rlx_g_gated_delta_net_launch, args, l);
}

static void how_prepare(const void *args, struct rlx_g_launch *l)
{
	planned(rlx_g_gated_delta_prepare_launch, args, l);
}

static void how_chunks(const void *args, struct rlx_g_launch *l)
{
	planned(rlx_g_gated_delta_chunks_launch, args, l);
}

/* Some chunks at a time, each time by the same kernels as all of them. */
static int64_t chunks_at_a_time;

static void run_chunks(struct rlx_k_gated_delta *a, struct rlx_g_env *env)
{
	const int64_t chunks = (a->steps + RLX_K_DELTA_CHUNK - 1) / RLX_K_DELTA_CHUNK;
	const int64_t keys = rlx_k_gated_delta_keys(a), lines = a->batch * a->hv;

	a->work = dev_new(rlx_k_gated_delta_item(keys, a->dv) *
			  (size_t)(lines * chunks_at_a_time));
	a->carry = dev_new((size_t)(lines * a->dk * a->dv) * sizeof(float));
	for (a->first = 0; a->first < chunks; a->first += chunks_at_a_time) {
		a->count = chunks - a->first < chunks_at_a_time ? chunks - a->first :
			   chunks_at_a_time;
		gpu_run_kernel(how_prepare, a, env);
		gpu_run_kernel(how_chunks, a, env);
	}
	dev_free(a->work);
	dev_free(a->carry);
}

static void run_steps(struct rlx_k_gated_delta *a, struct rlx_g_env *env)
{
	gpu_run_kernel(how_steps, a, env);
}

TEST(gated_delta_by_steps)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 24; i++) {
		struct rlx_k_gated_delta a = {
			.batch = kc_pick(&seed, 1, 2), .steps = kc_pick(&seed, 0, 50),
			.hk = kc_pick(&seed, 1, 2),
			.dk = kc_pick(&seed, 1, i % 6 == 5 ? 300 : 40),
			.dv = kc_pick(&seed, 1, 70),
		};

		a.hv = a.hk * kc_pick(&seed, 1, 2);
		processors = kc_pick(&seed, 0, 1) ? 100 : 1;
		gated_delta(run_steps, a, types[i % 4], tolerance(types[i % 4]), i % 3, &seed);
	}
}

/* As decoders take them: values of whole vectors, or not, from where these may begin or not. */
TEST(gated_delta_of_few_steps)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 24; i++) {
		struct rlx_k_gated_delta a = {
			.batch = kc_pick(&seed, 1, 3), .steps = i & 4 ? 1 : kc_pick(&seed, 2, 16),
			.hk = kc_pick(&seed, 1, 2), .dk = 8 * kc_pick(&seed, 1, 20),
			.dv = kc_pick(&seed, 0, 3) ? 4 * kc_pick(&seed, 1, 40) :
			      kc_pick(&seed, 1, 99),
		};

		a.hv = a.hk * kc_pick(&seed, 1, 3);
		odd = i & 8;
		processors = kc_pick(&seed, 0, 2) ? 1 : 100;
		gated_delta(run_steps, a, types[i % 4], tolerance(types[i % 4]), i % 3, &seed);
	}
	odd = false;
}

TEST(gated_delta_by_chunks)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 12; i++) {
		struct rlx_k_gated_delta a = {
			.batch = kc_pick(&seed, 1, 2), .steps = kc_pick(&seed, 192, 420),
			.hk = kc_pick(&seed, 1, 2), .dk = 8 * kc_pick(&seed, 1, i % 4 ? 16 : 32),
			.dv = 16 * kc_pick(&seed, 1, 9),
		};

		a.hv = a.hk * kc_pick(&seed, 1, 2);
		processors = kc_pick(&seed, 0, 1) ? 100 : 1;
		chunks_at_a_time = kc_pick(&seed, 1, 7);
		/* the state and what is written are of 16 bits in products */
		gated_delta(run_chunks, a, types[2 + i % 2], 2 * tolerance(types[2 + i % 2]),
			    i % 3 * 3, &seed);
	}
}

TEST_MAIN()
