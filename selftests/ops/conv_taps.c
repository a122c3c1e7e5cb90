// SPDX-License-Identifier: MIT
/*
 * Convolutions of few output pixels and many taps, whose weights come with each run: gradients of
 * weights. Drawn shapes by conv_taps and by whatever else is chosen, against sums in double.
 */
#include "backends/cpu/cpu.h"
#include "kernels/conv.h"
#include "rt/session.h"
#include "selftests/lib/rlx_test.h"

enum { CASES = 60, LEAST = 20 };

/* Images and channels of a group, in @nd dimensions of pixels; those in front of them are 1. */
struct shape {
	int	nd;
	int64_t	n, icg, ocg, groups, in[3], k[3], s[3], d[3], before[3], after[3], out[3];
};

static int64_t draw(uint64_t *seed, int64_t low, int64_t high)
{
	return low + (int64_t)(rlx_test_rand(seed) % (uint64_t)(high - low + 1));
}

/* One dimension, whose windows are nearly as large as the image, as those of a gradient are. */
static void draw_dim(struct shape *z, int i, uint64_t *seed)
{
	int64_t all;

	z->s[i] = draw(seed, 1, 5) > 3 ? 2 : 1;
	z->d[i] = draw(seed, 1, 6) > 3 ? draw(seed, 2, 3) : 1;
	z->k[i] = draw(seed, 1, z->nd == 1 ? 300 : z->nd == 2 ? 30 : 8);
	z->before[i] = draw(seed, 0, 4);
	z->after[i] = draw(seed, 0, 4);
	z->out[i] = draw(seed, 1, z->nd == 1 ? 20 : z->nd == 2 ? 5 : 3);
	all = (z->out[i] - 1) * z->s[i] + (z->k[i] - 1) * z->d[i] + 1;
	if (all <= z->before[i] + z->after[i])
		z->before[i] = z->after[i] = 0;
	z->in[i] = all - z->before[i] - z->after[i];
}

static struct shape shape_of(uint64_t *seed)
{
	struct shape z = { .n = draw(seed, 1, 12), .icg = draw(seed, 1, 6),
			   .ocg = draw(seed, 1, 20), .groups = draw(seed, 1, 5),
			   .in = { 1, 1, 1 }, .k = { 1, 1, 1 }, .s = { 1, 1, 1 },
			   .d = { 1, 1, 1 }, .out = { 1, 1, 1 } };
	int64_t nd = draw(seed, 1, 6);

	z.nd = nd < 3 ? (int)nd : nd < 4 ? 3 : 2;
	z.groups = z.groups > 3 ? z.groups - 2 : 1;
	for (int i = 3 - z.nd; i < 3; i++)
		draw_dim(&z, i, seed);
	return z;
}

static struct rlx_type planes(const struct shape *z, int64_t n, int64_t c, const int64_t *dims)
{
	struct rlx_type t = { RLX_F32, 2 + (uint32_t)z->nd, { n, c } };

	memcpy(t.dim + 2, dims + 3 - z->nd, (size_t)z->nd * sizeof(*dims));
	return t;
}

static struct rlx_session *session_of(struct shape *z, unsigned int threads)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = threads,
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_graph *g = rlx_graph_new("taps");
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	const uint32_t nd = (uint32_t)z->nd, first = 3 - nd;
	int64_t pad[6];
	rlx_value x, w;

	memcpy(pad, z->before + first, nd * sizeof(*pad));
	memcpy(pad + nd, z->after + first, nd * sizeof(*pad));
	x = rlx_input(g, "x", planes(z, z->n, z->groups * z->icg, z->in));
	w = rlx_input(g, "w", planes(z, z->groups * z->ocg, z->icg, z->k));
	rlx_output(g, "y", rlx_emit(g, conv, .x = x, .w = w, .stride = { z->s + first, nd },
				    .dilation = { z->d + first, nd }, .pad = { pad, 2 * nd },
				    .groups = z->groups));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

static float *at(struct rlx_session *s, enum rlx_io io, const char *name)
{
	return rlx_buf_ptr(rlx_session_buf(s, io, name));
}

static size_t count(const struct rlx_session *s, enum rlx_io io, unsigned int i)
{
	return (size_t)rlx_type_count(rlx_program_io_type(s->p, io, i));
}

static void fill(struct rlx_session *s, uint64_t *seed)
{
	float *x = at(s, RLX_IO_INPUT, "x"), *w = at(s, RLX_IO_INPUT, "w");
	size_t i;

	for (i = 0; i < count(s, RLX_IO_INPUT, 0); i++)
		x[i] = (float)rlx_test_uniform(seed, -1, 1);
	for (i = 0; i < count(s, RLX_IO_INPUT, 1); i++)
		w[i] = (float)rlx_test_uniform(seed, -1, 1);
}

/* Where tap @k of dimension @j of pixel @o is in the input; -1: in the padding. */
static int64_t place(const struct shape *z, int j, int64_t o, int64_t k)
{
	int64_t at = o * z->s[j] + k * z->d[j] - z->before[j];

	return at < z->in[j] ? at : -1;
}

/* One result in double, and the sum of what is added, less its signs. */
static double truth(const struct shape *z, const float *x, const float *w, int64_t r, double *sum)
{
	const int64_t pixels = z->out[0] * z->out[1] * z->out[2];
	const int64_t taps = z->k[0] * z->k[1] * z->k[2];
	int64_t oc = r / pixels % (z->groups * z->ocg), n = r / pixels / (z->groups * z->ocg);
	int64_t first = n * z->groups * z->icg + oc / z->ocg * z->icg, c, k, o[3];
	double y = 0;

	o[0] = r % pixels / z->out[2] / z->out[1];
	o[1] = r / z->out[2] % z->out[1];
	o[2] = r % z->out[2];
	*sum = 0;
	for (c = 0; c < z->icg; c++)
		for (k = 0; k < taps; k++) {
			int64_t a = place(z, 0, o[0], k / z->k[2] / z->k[1]);
			int64_t h = place(z, 1, o[1], k / z->k[2] % z->k[1]);
			int64_t v = place(z, 2, o[2], k % z->k[2]), at;
			double t;

			if (a < 0 || h < 0 || v < 0)
				continue;
			at = (((first + c) * z->in[0] + a) * z->in[1] + h) * z->in[2] + v;
			t = (double)x[at] * (double)w[(oc * z->icg + c) * taps + k];
			y += t;
			*sum += fabs(t);
		}
	return y;
}

static bool by_taps(const struct rlx_session *s)
{
	const struct cpu_code *code = (const struct cpu_code *)s->p->code;
	rlx_k_fn *fn = rlx_kernels_get(code->isa)->conv_taps;
	bool found = false;
	uint32_t i;

	for (i = 0; i < code->calls.n_call; i++)
		found |= cpu_calls(code)[i].fn == fn;
	return found;
}

/* Results of drawn inputs, after a run that leaves NaN in all memory; bits of two threads. */
static bool one_case(uint64_t *seed)
{
	struct shape z = shape_of(seed);
	struct rlx_session *s = session_of(&z, 1), *two = session_of(&z, 2);
	uint64_t data = rlx_test_rand(seed), again = data;
	size_t i, n = count(s, RLX_IO_OUTPUT, 0);
	bool taken = by_taps(s);
	double want, sum;
	float *y;

	memset(at(s, RLX_IO_INPUT, "x"), 0xff, count(s, RLX_IO_INPUT, 0) * sizeof(float));
	memset(at(s, RLX_IO_INPUT, "w"), 0xff, count(s, RLX_IO_INPUT, 1) * sizeof(float));
	CHECK(!rlx_session_run(s));
	fill(s, &data);
	fill(two, &again);
	y = at(s, RLX_IO_OUTPUT, "y");
	memset(y, 0xff, n * sizeof(*y));
	CHECK(!rlx_session_run(s) && !rlx_session_run(two));
	for (i = 0; i < n; i++) {
		want = truth(&z, at(s, RLX_IO_INPUT, "x"), at(s, RLX_IO_INPUT, "w"), (int64_t)i,
			     &sum);
		CHECKF(fabs((double)y[i] - want) <= 1e-6 * sum + 1e-30,
		       "%lld x %lld groups of %lld -> %lld, %lld x %lld x %lld by %lld x %lld x "
		       "%lld: result %zu is %g, not %g", (long long)z.n, (long long)z.groups,
		       (long long)z.icg, (long long)z.ocg, (long long)z.in[0],
		       (long long)z.in[1], (long long)z.in[2], (long long)z.k[0],
		       (long long)z.k[1], (long long)z.k[2], i, (double)y[i], want);
	}
	CHECK(!memcmp(y, at(two, RLX_IO_OUTPUT, "y"), n * sizeof(*y)));
	rlx_session_free(s);
	rlx_session_free(two);
	return taken;
}

TEST(drawn_shapes)
{
	uint64_t seed = rlx_test_seed();
	int i, taken = 0;

	for (i = 0; i < CASES; i++)
		taken += one_case(&seed);
	printf("# %d of %d by sums along the taps\n", taken, CASES);
	CHECKF(taken >= LEAST, "%d of %d", taken, CASES);
}

/* What is infinite in one image stays there: others are met by taps that are zero. */
TEST(images_do_not_meet)
{
	struct shape z = { .nd = 2, .n = 3, .icg = 4, .ocg = 16, .groups = 1, .in = { 1, 25, 25 },
			   .k = { 1, 25, 25 }, .s = { 1, 1, 1 }, .d = { 1, 1, 1 },
			   .before = { 0, 1, 1 }, .after = { 0, 1, 1 }, .out = { 1, 3, 3 } };
	struct rlx_session *s = session_of(&z, 1);
	size_t all = count(s, RLX_IO_INPUT, 0), n = count(s, RLX_IO_OUTPUT, 0), i;
	uint64_t seed = rlx_test_seed();
	float *x = at(s, RLX_IO_INPUT, "x"), *y = at(s, RLX_IO_OUTPUT, "y");

	CHECK(by_taps(s));
	fill(s, &seed);
	for (i = all / 3; i < all / 3 * 2; i++)
		x[i] = INFINITY;
	CHECK(!rlx_session_run(s));
	for (i = 0; i < n; i++)
		CHECKF(i / (n / 3) == 1 || isfinite(y[i]), "result %zu of %zu is %g", i, n,
		       (double)y[i]);
	rlx_session_free(s);
}

TEST_MAIN()
