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
#include "base/map.h"
#include "ir/element.h"
#include "selftests/lib/fuzz_case.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

enum { SECONDS = 12, MOST = 8, ROWS = 19, INPUTS = 8 };

/* A way to run: a level by its name, and threads. */
struct way {
	const char	*isa;
	unsigned int	threads;
};

/* The first of them is what the others are compared with. */
static const struct way ways[] = {
	{ "v3", 1 }, { "v3", 2 }, { "v4", 1 }, { "v4", 2 }, { "v4_vnni", 1 }, { "v4x", 1 },
	{ "v4_amx", 1 }, { "v4_amx", 2 },
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

/* The bytes that a NaN has in comparisons. */
static void one_nan(struct rlx_tensor *t)
{
	int64_t n = rlx_type_count(&t->type), i;
	uint32_t *bits = t->data;

	for (i = 0; t->type.dtype == RLX_F32 && i < n; i++)
		if (isnan(((float *)t->data)[i]))
			bits[i] = 0x7fc00000;
}

struct outputs {
	enum rlx_status	status;
	unsigned int	n;
	struct rlx_tensor t[MOST];
};

static void outputs_free(struct outputs *o)
{
	for (unsigned int k = 0; k < o->n; k++)
		free(o->t[k].data);
}

/* @in: what the graph's inputs are set to, in their order. */
static void run(struct rlx_graph *g, void *const *in, const struct way *w, uint32_t flags,
		struct outputs *o)
{
	struct rlx_compile_opts opts = { .size = sizeof(opts), .device = "cpu",
					 .threads = w->threads,
					 .flags = flags | RLX_COMPILE_STRICT_BITS };
	struct rlx_program *p = NULL;
	struct rlx_session *ss = NULL;
	struct rlx_error err = { 0 };
	unsigned int k, n;

	setenv("RLX_ISA", w->isa, 1);
	*o = (struct outputs){ .status = rlx_compile(g, &opts, &p, &err) };
	unsetenv("RLX_ISA");
	if (!o->status)
		o->status = rlx_session_new(p, NULL, &ss, &err);
	n = rlx_program_io_count(p, RLX_IO_INPUT);
	for (k = 0; k < n && !o->status; k++)
		o->status = rlx_session_set(ss, RLX_IO_INPUT,
					    rlx_program_io_name(p, RLX_IO_INPUT, k),
					    *rlx_program_io_type(p, RLX_IO_INPUT, k), in[k]);
	if (!o->status)
		o->status = rlx_session_run(ss);
	n = rlx_program_io_count(p, RLX_IO_OUTPUT);
	for (k = 0; k < n && k < MOST && !o->status; k++) {
		struct rlx_tensor *t = &o->t[o->n++];

		t->type = *rlx_program_io_type(p, RLX_IO_OUTPUT, k);
		t->data = calloc(1, (size_t)rlx_type_bytes(&t->type) + 64);
		CHECK(t->data);
		o->status = rlx_session_get(ss, RLX_IO_OUTPUT,
					    rlx_program_io_name(p, RLX_IO_OUTPUT, k), t->type,
					    t->data);
		one_nan(t);
	}
	rlx_session_free(ss);
	rlx_program_put(p);
}

static bool same(const struct outputs *a, const struct outputs *b)
{
	if (a->status != b->status || a->n != b->n)
		return false;
	for (unsigned int k = 0; k < a->n; k++)
		if (memcmp(a->t[k].data, b->t[k].data, (size_t)rlx_type_bytes(&a->t[k].type)))
			return false;
	return true;
}

/* ---- programs that are drawn ---- */

static bool is_f32(const struct fuzz_case *c)
{
	uint32_t k, o;

	for (k = 0; k < c->n_leaf; k++)
		if (!el_is_int(c->leaf[k].type.dtype) && c->leaf[k].type.dtype != RLX_F32)
			return false;
	for (k = 0; k < c->n_node; k++)
		for (o = 0; o < c->node[k].n_out; o++)
			if (!el_is_int(c->node[k].out[o].dtype) &&
			    c->node[k].out[o].dtype != RLX_F32)
				return false;
	return true;
}

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

/* "%d" is the batch, which comes first in inputs and outputs; other inputs are the same for all. */
static const struct part {
	const char	*name, *text;
	uint64_t	digest;		/* of what ROWS rows give; 0: compilers round there */
} parts[] = {
	{ "mlp", "%1 = input(name=\"x\", type=f32[%d,200])\n"
	  "%2 = input(name=\"w\", type=f32[200,77])\n%3 = input(name=\"b\", type=f32[77])\n"
	  "%4 = input(name=\"v\", type=f32[77,10])\n"
	  "%5 = matmul(a=%1, b=%2)\n%6 = add(a=%5, b=%3)\n%7 = gelu(x=%6)\n"
	  "%8 = matmul(a=%7, b=%4)\n%9 = softmax(x=%8, axis=-1)\nreturn \"y\"=%9\n",
	  0x4be1dc82c5c4d39f },
	{ "columns", "%1 = input(name=\"x\", type=f32[%d,300])\n"
	  "%2 = input(name=\"w\", type=f32[50,300])\n"
	  "%3 = fused_matmul(a=%1, b=%2, trans_b=true)\n%4 = silu(x=%3)\nreturn \"y\"=%4\n",
	  0x3d1ef68301455713 },
	{ "few columns", "%1 = input(name=\"x\", type=f32[%d,700])\n"
	  "%2 = input(name=\"w\", type=f32[700,3])\n%3 = matmul(a=%1, b=%2)\nreturn \"y\"=%3\n",
	  0xc60f36f873983a23 },
	{ "norms", "%1 = input(name=\"x\", type=f32[%d,1037])\n"
	  "%2 = input(name=\"g\", type=f32[1037])\n"
	  "%3 = layer_norm(x=%1, gamma=%2, beta=%2, axis=-1, eps=1e-05)\n"
	  "%4 = rms_norm(x=%3, gamma=%2, axis=-1, eps=1e-05)\n"
	  "%5 = log_softmax(x=%4, axis=-1)\n%6 = reduce(x=%5, axes=[1], kind=1)\n"
	  "return \"y\"=%5, \"z\"=%6\n",
	  0x0c1ac22eef30b639 },
	{ "attention", "%1 = input(name=\"q\", type=f32[%d,9,4,40])\n"
	  "%2 = input(name=\"k\", type=f32[%d,150,2,40])\n"
	  "%3 = input(name=\"v\", type=f32[%d,150,2,40])\n"
	  "%4 = attention(q=%1, k=%2, v=%3, mask=1, kv_heads=2)\nreturn \"y\"=%4\n",
	  0x62504376e2fbb3db },
	{ "convolutions", "%1 = input(name=\"x\", type=f32[%d,3,33,29])\n"
	  "%2 = input(name=\"a\", type=f32[24,3,3,3])\n%3 = input(name=\"b\", type=f32[24,1,3,3])\n"
	  "%4 = input(name=\"c\", type=f32[64,24,1,1])\n"
	  "%5 = input(name=\"d\", type=f32[48,64,3,3])\n"
	  "%6 = conv(x=%1, w=%2, stride=[2,2], pad=[1,1,1,1])\n%7 = hard_swish(x=%6)\n"
	  "%8 = conv(x=%7, w=%3, groups=24, pad=[1,1,1,1])\n%9 = relu(x=%8)\n"
	  "%10 = conv(x=%9, w=%4)\n%11 = conv(x=%10, w=%5, pad=[1,1,1,1])\n"
	  "%12 = pool(x=%11, kind=1, kernel=[2,2], stride=[2,2])\n"
	  "%13 = reduce(x=%11, axes=[2,3], kind=1)\nreturn \"y\"=%12, \"z\"=%13\n",
	  0xbb31cd9ecf088d72 },
	{ "resize", "%1 = input(name=\"x\", type=f32[%d,5,17,16])\n"
	  "%2 = resize(x=%1, sizes=[%d,5,29,40], mode=1)\nreturn \"y\"=%2\n",
	  0x767324561b629acf },
	{ "transforms", "%1 = input(name=\"x\", type=f32[%d,360])\n%2 = rfft(x=%1)\n"
	  "return \"y\"=%2\n",
	  0 },
	{ "recurrent", "%1 = input(name=\"x\", type=f32[%d,7,40])\n"
	  "%2 = input(name=\"w\", type=f32[1,120,40])\n%3 = input(name=\"r\", type=f32[1,120,40])\n"
	  "%4 = input(name=\"u\", type=f32[1,40,40])\n"
	  "%5 = transpose(x=%1, perm=[1,0,2])\n%6, %7 = gru(x=%5, w=%2, r=%3)\n"
	  "%8, %9 = rnn(x=%5, w=%4, r=%4)\n"
	  "%10 = transpose(x=%6, perm=[2,0,1,3])\n%11 = transpose(x=%8, perm=[2,0,1,3])\n"
	  "return \"y\"=%10, \"z\"=%11\n",
	  0x30f2fe91c7881ee9 },
	{ "solve", "%1 = input(name=\"a\", type=f32[%d,60,60])\n"
	  "%2 = input(name=\"b\", type=f32[%d,60,2])\n%3 = solve(a=%1, b=%2)\nreturn \"y\"=%3\n",
	  0 },
};

/* The graph for a batch of @n. */
static struct rlx_graph *graph_of(const struct part *p, int n)
{
	char text[2048] = "graph \"t\" {\n";
	struct rlx_error err = { 0 };
	struct rlx_graph *g = NULL;
	const char *at = p->text;
	size_t len = strlen(text);

	for (; *at; at++)
		if (at[0] == '%' && at[1] == 'd') {
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%d", n);
			at++;
		} else {
			text[len++] = *at;
		}
	text[len++] = '}';
	text[len++] = '\n';
	CHECKF(!rlx_graph_parse(text, len, &g, &err), "%s: %s", p->name, err.text);
	return g;
}

/* Numbers of [-1, 1), the same on each machine. */
static void fill(float *x, int64_t n, uint64_t seed)
{
	for (int64_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005 + 1442695040888963407;
		x[i] = (float)(int32_t)(seed >> 32) * 0x1p-31f;
	}
}

/* Inputs of a whole batch, and the bytes of a row of each; 0: all rows have the same. */
struct inputs {
	unsigned int	n;
	void		*data[INPUTS];
	size_t		row[INPUTS];
};

static void inputs_of(const struct part *p, struct inputs *in)
{
	struct rlx_graph *g = graph_of(p, ROWS), *one = graph_of(p, 1);
	struct rlx_compile_opts opts = { .size = sizeof(opts), .device = "ref" };
	struct rlx_program *all = NULL, *alone = NULL;

	CHECK(!rlx_compile(g, &opts, &all, NULL) && !rlx_compile(one, &opts, &alone, NULL));
	in->n = rlx_program_io_count(all, RLX_IO_INPUT);
	CHECK(in->n <= INPUTS);
	for (unsigned int k = 0; k < in->n; k++) {
		const struct rlx_type *t = rlx_program_io_type(all, RLX_IO_INPUT, k);
		const struct rlx_type *u = rlx_program_io_type(alone, RLX_IO_INPUT, k);

		in->data[k] = malloc((size_t)rlx_type_bytes(t));
		CHECK(in->data[k]);
		in->row[k] = t->dim[0] != u->dim[0] ? (size_t)rlx_type_bytes(u) : 0;
		fill(in->data[k], rlx_type_count(t), k + 1);
	}
	rlx_program_put(all);
	rlx_program_put(alone);
	rlx_graph_put(g);
	rlx_graph_put(one);
}

/* Rows [@first, @first + @n) by themselves give what they give in @whole. */
static void check_rows(const struct part *p, const struct inputs *in, const struct way *w,
		       int first, int n, const struct outputs *whole)
{
	struct rlx_graph *g = graph_of(p, n);
	struct outputs o;
	void *from[INPUTS];

	for (unsigned int k = 0; k < in->n; k++)
		from[k] = (char *)in->data[k] + (size_t)first * in->row[k];
	run(g, from, w, 0, &o);
	CHECKF(!o.status && o.n == whole->n, "%s: %s", p->name, rlx_status_name(o.status));
	for (unsigned int k = 0; k < o.n; k++) {
		const size_t bytes = (size_t)rlx_type_bytes(&o.t[k].type), row = bytes / (size_t)n;

		CHECKF(!memcmp(o.t[k].data, (char *)whole->t[k].data + (size_t)first * row, bytes),
		       "%s, output %u: rows %d to %d by %s and %u threads", p->name, k, first,
		       first + n - 1, w->isa, w->threads);
	}
	outputs_free(&o);
	rlx_graph_put(g);
}

static uint64_t digest_of(const struct outputs *o)
{
	uint64_t h = 1;

	for (unsigned int k = 0; k < o->n; k++)
		h = rlx_hash_bytes(o->t[k].data, (size_t)rlx_type_bytes(&o->t[k].type), h);
	return h;
}

static void check_part(const struct part *p)
{
	struct rlx_graph *g = graph_of(p, ROWS);
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
		check_rows(p, &in, &ways[i], 0, ROWS, &whole);
		check_rows(p, &in, &ways[i], 0, 1, &whole);
		check_rows(p, &in, &ways[i], 7, 1, &whole);
		check_rows(p, &in, &ways[i], ROWS - 1, 1, &whole);
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
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		check_part(&parts[i]);
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

/* ---- who may have them ---- */

static void refused(const struct rlx_compile_opts *opts, enum rlx_status want, const char *word)
{
	struct rlx_graph *g = graph_of(&parts[0], 2);
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
