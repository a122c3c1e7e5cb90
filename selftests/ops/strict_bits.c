// SPDX-License-Identifier: MIT
/*
 * RLX_COMPILE_STRICT_BITS: what a program gives has the same bits at each level of instructions
 * that this machine has, by one thread and two, and for a row alone and among others. NaNs are
 * one here, whatever their payload. A digest of what networks are made of is in the test, so
 * that machines are compared as well; RLX_STRICT_PRINT=1 prints what it is.
 */
#include <inttypes.h>
#include <time.h>

#include "backends/cpu/cpu.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/strict_bits.h"

enum { SECONDS = 12 };

/* The first of them is what the others are compared with. */
static const struct way ways[] = {
	{ .isa = "v3", .threads = 1 }, { .isa = "v3", .threads = 2 },
	{ .isa = "v4", .threads = 1 }, { .isa = "v4", .threads = 2 },
	{ .isa = "v4_vnni", .threads = 1 }, { .isa = "v4x", .threads = 1 },
	{ .isa = "v4_amx", .threads = 1 }, { .isa = "v4_amx", .threads = 2 },
};

static bool has(const char *isa)
{
	bool there;

	setenv("RLX_ISA", isa, 1);
	there = !strcmp(cpu_isa_name(cpu_isa_detect()), isa);
	unsetenv("RLX_ISA");
	return there;
}

/* Without FMA they are refused, which is all there is to test. */
static bool refused_here(void)
{
	struct rlx_compile_opts opts = { .size = sizeof(opts), .device = "cpu",
					 .flags = RLX_COMPILE_STRICT_BITS };
	static const char text[] = "graph \"t\" {\n%1 = input(name=\"x\", type=f32[3])\n"
				   "%2 = exp(x=%1)\nreturn \"y\"=%2\n}\n";
	struct rlx_program *p = NULL;
	struct rlx_graph *g = NULL;
	struct rlx_error err = { 0 };

	if (has("v3"))
		return false;
	CHECK(!rlx_graph_parse(text, sizeof(text) - 1, &g, &err));
	CHECK_EQ(rlx_compile(g, &opts, &p, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "FMA"), "%s", err.text);
	rlx_graph_put(g);
	return true;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- programs that are drawn ---- */

/* False: some way gives other bits, which is told. */
static bool agrees(const struct fuzz_case *c)
{
	void *data[FUZZ_LEAVES] = { 0 }, *in[FUZZ_LEAVES];
	struct outputs first, other;
	struct rlx_graph *g;
	uint32_t k, n = 0;
	bool right = true;
	size_t w;

	for (k = 0; k < c->n_leaf; k++) {
		data[k] = fuzz_data(c, k);
		if (!c->leaf[k].fixed)
			in[n++] = data[k];
	}
	g = fuzz_graph(c, data, RLX_NODTYPE, 0, 0);
	run(g, in, &ways[0], c->flags, &first);
	for (w = 1; w < sizeof(ways) / sizeof(*ways) && right; w++) {
		if (!has(ways[w].isa))
			continue;
		run(g, in, &ways[w], c->flags, &other);
		right = same(&first, &other);
		if (!right)
			printf("# seed %" PRIu64 ": %s by %u differs\n", c->seed, ways[w].isa,
			       ways[w].threads);
		outputs_free(&other);
	}
	outputs_free(&first);
	rlx_graph_put(g);
	for (k = 0; k < c->n_leaf; k++)
		free(data[k]);
	return right;
}

static void draw(void (*one)(struct fuzz_case *c, uint64_t seed))
{
	struct fuzz_case *c = malloc(sizeof(*c));
	uint64_t seed = rlx_test_seed();
	const double end = now() + SECONDS;
	unsigned int n = 0, wrong = 0;

	CHECK(c);
	if (refused_here())
		return;
	op_case_host_is_fine();
	while (now() < end && wrong < 3) {
		one(c, rlx_test_rand(&seed));
		if (!is_f32(c))
			continue;
		n++;
		if (!agrees(c)) {
			fuzz_print(c, stdout);
			wrong++;
		}
	}
	printf("# %u programs\n", n);
	CHECKF(n > 20 && !wrong, "%u of %u", wrong, n);
	free(c);
}

TEST(ops_that_are_drawn) { draw(fuzz_draw_op); }
TEST(graphs_that_are_drawn) { draw(fuzz_draw_graph); }

/* ---- what networks are made of: a row alone and among others ---- */

static void check_part(const struct part *p)
{
	struct rlx_graph *g = graph_of(p, STRICT_ROWS);
	struct inputs in = { 0 };
	struct outputs whole;

	inputs_of(p, &in);
	run(g, in.data, &ways[0], 0, &whole);
	CHECKF(!whole.status, "%s: %s", p->name, rlx_status_name(whole.status));
	if (getenv("RLX_STRICT_PRINT"))
		printf("# %s 0x%016" PRIx64 "\n", p->name, digest_of(&whole));
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (!has(ways[i].isa))
			continue;
		check_rows(p, &in, &ways[i], 0, STRICT_ROWS, &whole);
		check_rows(p, &in, &ways[i], 0, 1, &whole);
		check_rows(p, &in, &ways[i], 7, 1, &whole);
		check_rows(p, &in, &ways[i], STRICT_ROWS - 1, 1, &whole);
		check_rows(p, &in, &ways[i], 3, 5, &whole);
	}
	CHECKF(!p->digest || getenv("RLX_STRICT_PRINT") || digest_of(&whole) == p->digest,
	       "%s: 0x%016" PRIx64 ", not 0x%016" PRIx64, p->name,
	       digest_of(&whole), p->digest);
	outputs_free(&whole);
	for (unsigned int k = 0; k < in.n; k++)
		free(in.data[k]);
	rlx_graph_put(g);
}

TEST(rows_alone_and_among_others)
{
	if (refused_here())
		return;
	for (size_t i = 0; i < sizeof(strict_parts) / sizeof(*strict_parts); i++)
		check_part(&strict_parts[i]);
}

/* ---- lines of Fourier transforms, which threads may share where they are few and long ---- */

enum { LINES = 4 };

/* What @op gives of @lines lines of @x, of @n numbers (but for rfft complex ones) each. */
static void transformed(const char *op, int64_t n, int lines, void *x, const struct way *w,
			struct outputs *o)
{
	const bool pairs = strcmp(op, "rfft");
	char text[256];
	struct rlx_graph *g = NULL;
	struct rlx_error err = { 0 };
	int len;

	len = snprintf(text, sizeof(text), "graph \"t\" {\n%%1 = input(name=\"x\", "
		       "type=f32[%d,%" PRId64 "%s])\n%%2 = %s(x=%%1, axes=[1])\n"
		       "return \"y\"=%%2\n}\n", lines, n, pairs ? ",2" : "", op);
	CHECKF(!rlx_graph_parse(text, (size_t)len, &g, &err), "%s", err.text);
	run(g, (void *[]){ x }, w, 0, o);
	CHECKF(!o->status, "%s of %" PRId64 ": %s", op, n, o->why);
	rlx_graph_put(g);
}

static void check_lines(const char *op, int64_t n, uint64_t *seed)
{
	const size_t each = (size_t)n * (strcmp(op, "rfft") ? 2 : 1);
	float *x = malloc(LINES * each * sizeof(*x));
	struct outputs all, one;
	size_t bytes, w;
	int lines;

	CHECK(x);
	for (size_t i = 0; i < LINES * each; i++)
		x[i] = (float)(rlx_test_rand(seed) % 2000) / 1000 - 1;
	transformed(op, n, LINES, x, &ways[0], &all);
	bytes = (size_t)rlx_type_bytes(&all.t[0].type) / LINES;
	for (w = 0; w < sizeof(ways) / sizeof(*ways); w++)
		for (lines = 1; lines < LINES && has(ways[w].isa); lines++) {
			transformed(op, n, lines, x + (size_t)(LINES - lines) * each, &ways[w],
				    &one);
			CHECKF(!memcmp((char *)all.t[0].data + (size_t)(LINES - lines) * bytes,
				       one.t[0].data, (size_t)lines * bytes),
			       "%s of %" PRId64 ": %d lines by %s, %u threads", op, n, lines,
			       ways[w].isa, ways[w].threads);
			outputs_free(&one);
		}
	outputs_free(&all);
	free(x);
}

TEST(lines_of_fourier_transforms)
{
	static const int64_t lengths[] = { 66000, 69300, 40001, 65536 };
	static const char *const op[] = { "fft", "rfft", "irfft" };
	uint64_t seed = rlx_test_seed();
	size_t i;

	if (refused_here())
		return;
	for (i = 0; i < 12; i++)
		check_lines(op[i % 3], i < 6 ? lengths[i % 4] : 20000 +
			    (int64_t)(rlx_test_rand(&seed) % 60000), &seed);
}


/* Attention of the last query alone, as when decoding, and among those before it. */
static void check_last_query(const char *mask)
{
	enum { QUERIES = 9, KEYS = 150, WIDTH = 4 * 40, KV = 2 * 40 };
	static float q[QUERIES * WIDTH], k[KEYS * KV], v[KEYS * KV];
	void *all[] = { q, k, v }, *last[] = { q + (QUERIES - 1) * WIDTH, k, v };
	struct outputs o[2];
	struct part p = { .name = mask };
	char text[512];

	fill(q, QUERIES * WIDTH, 1);
	fill(k, KEYS * KV, 2);
	fill(v, KEYS * KV, 3);
	snprintf(text, sizeof(text), "%%1 = input(name=\"q\", type=f32[1,%%d,4,40])\n"
		 "%%2 = input(name=\"k\", type=f32[1,%d,2,40])\n"
		 "%%3 = input(name=\"v\", type=f32[1,%d,2,40])\n"
		 "%%4 = attention(q=%%1, k=%%2, v=%%3, kv_heads=2, %s)\nreturn \"y\"=%%4\n",
		 KEYS, KEYS, mask);
	p.text = text;
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		struct rlx_graph *g[] = { graph_of(&p, QUERIES), graph_of(&p, 1) };

		if (has(ways[i].isa)) {
			run(g[0], all, &ways[i], 0, &o[0]);
			run(g[1], last, &ways[i], 0, &o[1]);
			CHECK(!o[0].status && !o[1].status);
			CHECKF(!memcmp((float *)o[0].t[0].data + (QUERIES - 1) * WIDTH,
				       o[1].t[0].data, WIDTH * sizeof(float)), "%s by %s", mask,
			       ways[i].isa);
			outputs_free(&o[0]);
			outputs_free(&o[1]);
		}
		rlx_graph_put(g[0]);
		rlx_graph_put(g[1]);
	}
}

TEST(a_query_alone_and_behind_others)
{
	if (refused_here())
		return;
	check_last_query("mask=0");
	check_last_query("mask=1");
	check_last_query("mask=2, window=70");
}

TEST(maxima_of_zeros)
{
	for (size_t w = 1; w < sizeof(ways) / sizeof(*ways) && !refused_here(); w++)
		for (int width = 7; width <= 16; width++)
			CHECKF(!has(ways[w].isa) ||
			       maxima_of_zeros_alike(&ways[0], &ways[w], width),
			       "rows of %d by %s", width, ways[w].isa);
}

/* ---- who may have them ---- */

static void refused(const struct rlx_compile_opts *opts, enum rlx_status want, const char *word)
{
	struct rlx_graph *g = graph_of(&strict_parts[0], 2);
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	CHECK_EQ(rlx_compile(g, opts, &p, &err), want);
	CHECKF(!p && strstr(err.text, word), "%s", err.text);
	rlx_graph_put(g);
}

TEST(what_cannot_have_them_is_refused)
{
	struct rlx_compile_opts opts = { .size = sizeof(opts), .device = "cpu",
					 .flags = RLX_COMPILE_STRICT_BITS };

	opts.precision = RLX_PRECISION_BF16;
	refused(&opts, RLX_EINVAL, "precision");
	opts.precision = RLX_PRECISION_AS_WRITTEN;
	opts.device = "ref";
	refused(&opts, RLX_ENOSUP, "ref");
	opts.device = "cpu";
	setenv("RLX_ISA", "base", 1);
	refused(&opts, RLX_ENOSUP, "FMA");
	/* by the environment alone */
	opts.flags = 0;
	setenv("RLX_STRICT_BITS", "1", 1);
	refused(&opts, RLX_ENOSUP, "FMA");
	unsetenv("RLX_STRICT_BITS");
	unsetenv("RLX_ISA");
}

TEST_MAIN()
