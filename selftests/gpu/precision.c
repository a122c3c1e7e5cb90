// SPDX-License-Identifier: MIT
/*
 * The precision policies differ by what they round, not by what runs: an encoder's GEMMs
 * and attention read 16 bits and keep their epilogues under each of them.
 */
#include "ir/graph.h"
#include "rlx/compile.h"
#include "rt/session.h"
#include "selftests/gpu/sessions.h"
#include "selftests/lib/rig.h"

enum { BATCH = 2, ROWS = 40, WIDTH = 64, HEADS = 2, INNER = 160, LAYERS = 2 };
enum { PIXELS = 37, CHANNELS = 16, CLASSES = 12, CONVS = 12, BLOCKS = 3 };

static rlx_value weight(struct rlx_graph *g, int64_t k, int64_t n, uint64_t *seed)
{
	struct rlx_type t = k ? rlx_type(RLX_F32, k, n) : rlx_type(RLX_F32, n);
	double most = k ? 1.7 / sqrt((double)k) : 0.5;
	float *x = malloc((size_t)rlx_type_bytes(&t));
	rlx_value v;
	int64_t i;

	for (i = 0; i < rlx_type_count(&t); i++)
		x[i] = (float)rlx_test_uniform(seed, -most, most);
	v = rlx_constant(g, t, x);
	free(x);
	return v;
}

static rlx_value linear(struct rlx_graph *g, rlx_value x, int64_t k, int64_t n, uint64_t *seed)
{
	x = rlx_emit(g, matmul, .a = x, .b = weight(g, k, n, seed));
	return rlx_emit(g, add, .a = x, .b = weight(g, 0, n, seed));
}

static rlx_value layer(struct rlx_graph *g, rlx_value x, uint64_t *seed)
{
	rlx_value q = linear(g, x, WIDTH, WIDTH, seed), k = linear(g, x, WIDTH, WIDTH, seed);
	rlx_value v = linear(g, x, WIDTH, WIDTH, seed), y;

	y = rlx_emit(g, attention, .q = q, .k = k, .v = v, .heads = HEADS);
	x = rlx_emit(g, add, .a = linear(g, y, WIDTH, WIDTH, seed), .b = x);
	x = rlx_emit(g, layer_norm, .x = x, .axis = -1, .eps = 1e-5f);
	y = rlx_emit(g, gelu, .x = linear(g, x, WIDTH, INNER, seed));
	x = rlx_emit(g, add, .a = linear(g, y, INNER, WIDTH, seed), .b = x);
	return rlx_emit(g, layer_norm, .x = x, .axis = -1, .eps = 1e-5f);
}

static struct rlx_graph *encoder(uint64_t seed)
{
	struct rlx_graph *g = rlx_graph_new("encoder");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, BATCH, ROWS, WIDTH));
	int i;

	for (i = 0; i < LAYERS; i++)
		x = layer(g, x, &seed);
	rlx_output(g, "y", x);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

/* ---- a net of convolutions ---- */

struct net {
	struct rlx_graph	*g;
	uint64_t		seed;
};

static rlx_value conv(struct net *t, rlx_value x, int64_t oc, int64_t k, int64_t stride,
		      int64_t groups)
{
	struct rlx_graph *g = t->g;
	int64_t ic = rlx_type_of(g, x)->dim[1] / groups, p = k / 2;
	int64_t pads[4] = { p, p, p, p }, strides[2] = { stride, stride };
	rlx_value w = rlx_emit(g, reshape, .x = weight(g, ic * k * k, oc, &t->seed),
			       .shape = RLX_INTS(oc, ic, k, k));

	return rlx_emit(g, conv, .x = x, .w = w, .bias = weight(g, 0, oc, &t->seed),
			.stride = { strides, 2 }, .pad = { pads, 4 }, .groups = groups);
}

/* One pixel, three by three of a group or of as many as channels, one pixel; x is added. */
static rlx_value bottleneck(struct net *t, rlx_value x, int64_t oc, int64_t stride,
			    bool depthwise)
{
	struct rlx_graph *g = t->g;
	int64_t ic = rlx_type_of(g, x)->dim[1];
	rlx_value y = rlx_emit(g, relu, .x = conv(t, x, CHANNELS, 1, 1, 1));

	y = conv(t, y, CHANNELS, 3, stride, depthwise ? CHANNELS : 1);
	y = conv(t, rlx_emit(g, silu, .x = y), oc, 1, 1, 1);
	if (ic != oc || stride > 1)
		x = conv(t, x, oc, 1, stride, 1);
	return rlx_emit(g, relu, .x = rlx_emit(g, add, .a = y, .b = x));
}

static struct rlx_graph *resnet(uint64_t seed)
{
	struct net t = { rlx_graph_new("resnet"), seed };
	struct rlx_graph *g = t.g;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, BATCH, 3, PIXELS, PIXELS));

	x = rlx_emit(g, relu, .x = conv(&t, x, 2 * CHANNELS, 7, 2, 1));
	x = rlx_emit(g, pool, .x = x, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(3, 3),
		     .stride = RLX_INTS(2, 2), .pad = RLX_INTS(1, 1, 1, 1));
	x = bottleneck(&t, x, 4 * CHANNELS, 1, false);
	x = bottleneck(&t, x, 4 * CHANNELS, 1, true);
	x = bottleneck(&t, x, 4 * CHANNELS, 2, false);
	x = rlx_emit(g, reduce, .x = x, .kind = RLX_REDUCE_MEAN, .axes = RLX_INTS(2, 3),
		     .keep_dims = true);
	x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(BATCH, 4 * CHANNELS));
	rlx_output(g, "y", linear(g, x, 4 * CHANNELS, CLASSES, &t.seed));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

/* ---- what runs ---- */

static bool is_product(uint16_t op)
{
	return op == RLX_OP_fused_matmul || op == RLX_OP_attention || op == RLX_OP_fused_conv;
}

/* How often each op runs; products must read 16 bits. */
static void count(const struct rlx_graph *g, bool narrow, unsigned int n[RLX_OP_COUNT])
{
	uint32_t i, k;

	memset(n, 0, RLX_OP_COUNT * sizeof(*n));
	for (i = 0; i < g->n_node; i++) {
		const struct rlx_node *d = &g->node[i];

		n[d->def->index]++;
		if (!is_product(d->def->index))
			continue;
		for (k = 0; k < (d->def->index == RLX_OP_attention ? 3u : 2u); k++)
			CHECKF((rlx_dtype_size(g->val[d->in[k]].type.dtype) == 2) == narrow,
			       "%s reads %s", d->def->name,
			       rlx_dtype_name(g->val[d->in[k]].type.dtype));
	}
}

enum { N = BATCH * ROWS * WIDTH, IMAGES = BATCH * 3 * PIXELS * PIXELS };

/* @g at @precision, of which x is @type. Takes @g. */
static void run_as(struct rlx_graph *g, enum rlx_precision precision, const float *x, float *y,
		   unsigned int n[RLX_OP_COUNT])
{
	struct rlx_type type = g->val[g->io[RLX_IO_INPUT].e[0].v.id].type;
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = getenv("RLX_TEST_GPU"), .precision = precision,
		.flags = RLX_COMPILE_NATIVE,
	};
	struct rlx_session *s = rig_session(g, &o);
	struct rlx_buf out;

	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", type, x));
	poison(s);
	run(s);
	out = rlx_session_buf(s, RLX_IO_OUTPUT, "y");
	memcpy(y, rlx_buf_ptr(out), out.bytes < N * sizeof(*y) ? out.bytes : N * sizeof(*y));
	count(rlx_program_graph(s->p), precision != RLX_PRECISION_AS_WRITTEN, n);
	rlx_session_free(s);
}

static double off(const float *got, const float *want, int n)
{
	double most = 0, d;
	int i;

	for (i = 0; i < n; i++) {
		d = fabs((double)got[i] - (double)want[i]);
		most = isnan(d) || d > most ? d : most;
	}
	return most;
}

/* @mixed keeps 16 bits between ops as well: what it saves is at most a cast behind a norm. */
static void compare_lists(const unsigned int *plain, const unsigned int *only,
			  const unsigned int *mixed)
{
	unsigned int i;

	for (i = 0; i < RLX_OP_COUNT; i++) {
		if (i == RLX_OP_cast)
			continue;
		CHECKF(only[i] == plain[i] && mixed[i] == plain[i], "%s: %u, %u and %u times",
		       rlx_op_defs[i]->name, plain[i], only[i], mixed[i]);
	}
	CHECK_EQ(only[RLX_OP_fused_matmul], 6 * LAYERS);
	CHECK_EQ(only[RLX_OP_attention], LAYERS);
	CHECK_EQ(only[RLX_OP_region] + only[RLX_OP_gelu] + only[RLX_OP_add], 0);
	CHECKF(only[RLX_OP_cast] <= mixed[RLX_OP_cast] + 2 * LAYERS, "%u casts, %u if mixed",
	       only[RLX_OP_cast], mixed[RLX_OP_cast]);
}

static const struct {
	enum rlx_precision	only, mixed;
	double			tol;
} p[] = {
	{ RLX_PRECISION_F16, RLX_PRECISION_MIXED_F16, 6e-3 },
	{ RLX_PRECISION_BF16, RLX_PRECISION_MIXED_BF16, 5e-2 },
};

TEST(policies_run_the_same_steps)
{
	unsigned int plain[RLX_OP_COUNT], only[RLX_OP_COUNT], mixed[RLX_OP_COUNT];
	static float x[N], want[N], y[N], z[N];
	uint64_t seed = rlx_test_seed(), weights = seed;
	size_t i;

	for (i = 0; i < N; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	run_as(encoder(weights), RLX_PRECISION_AS_WRITTEN, x, want, plain);
	for (i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
		run_as(encoder(weights), p[i].only, x, y, only);
		run_as(encoder(weights), p[i].mixed, x, z, mixed);
		compare_lists(plain, only, mixed);
		CHECKF(off(y, want, N) <= p[i].tol, "off by %.3g", off(y, want, N));
		CHECKF(off(z, want, N) <= 2 * p[i].tol, "mixed off by %.3g", off(z, want, N));
		printf("# off by %.2g, mixed by %.2g\n", off(y, want, N), off(z, want, N));
	}
}

/*
 * Convolutions run channels last with all that stands behind them; where tensors stay in f32, the
 * sum of each block is rounded by a step of its own, and added to as it is. Maxima that
 * convolutions alone read are those of what was rounded.
 */
TEST(policies_run_the_same_convolutions)
{
	unsigned int only[RLX_OP_COUNT], mixed[RLX_OP_COUNT], k;
	static float x[IMAGES], want[N], y[N], z[N];
	uint64_t seed = rlx_test_seed(), weights = seed;
	size_t i;

	for (i = 0; i < IMAGES; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	run_as(resnet(weights), RLX_PRECISION_AS_WRITTEN, x, want, only);
	for (i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
		run_as(resnet(weights), p[i].only, x, y, only);
		run_as(resnet(weights), p[i].mixed, x, z, mixed);
		for (k = 0; k < RLX_OP_COUNT; k++)
			CHECKF(k == RLX_OP_cast || only[k] == mixed[k], "%s: %u and %u times",
			       rlx_op_defs[k]->name, only[k], mixed[k]);
		CHECK_EQ(only[RLX_OP_fused_conv], CONVS);
		CHECK_EQ(only[RLX_OP_region] + only[RLX_OP_relu] + only[RLX_OP_add], 0);
		CHECKF(only[RLX_OP_cast] < mixed[RLX_OP_cast] + BLOCKS, "%u casts, %u if mixed",
		       only[RLX_OP_cast], mixed[RLX_OP_cast]);
		CHECKF(off(y, want, BATCH * CLASSES) <= p[i].tol, "off by %.3g",
		       off(y, want, BATCH * CLASSES));
		CHECKF(off(z, want, BATCH * CLASSES) <= 2 * p[i].tol, "mixed off by %.3g",
		       off(z, want, BATCH * CLASSES));
		printf("# off by %.2g, mixed by %.2g, %u and %u casts\n",
		       off(y, want, BATCH * CLASSES), off(z, want, BATCH * CLASSES),
		       only[RLX_OP_cast], mixed[RLX_OP_cast]);
	}
}

/* A graph in 16 bits: biases are of it, too, and yet a part of the product. */
TEST(biases_of_16_bits)
{
	static const enum rlx_dtype dtype[] = { RLX_F16, RLX_BF16 };
	unsigned int n[RLX_OP_COUNT] = { 0 }, i, k;

	for (k = 0; k < 4; k++) {
		struct rlx_compile_opts o = { .size = sizeof(o), .device = getenv("RLX_TEST_GPU"),
					      .flags = RLX_COMPILE_NATIVE };
		struct rlx_graph *g = rlx_graph_new("linear");
		uint64_t seed = rlx_test_seed();
		rlx_value w = rlx_emit(g, cast, .x = weight(g, WIDTH, INNER, &seed),
				       .to = dtype[k % 2]);
		rlx_value b = rlx_emit(g, cast, .x = weight(g, 0, INNER, &seed),
				       .to = dtype[k % 2]);
		rlx_value x = rlx_input(g, "x", rlx_type(dtype[k % 2], ROWS, WIDTH)), y;
		struct rlx_session *s;

		y = k < 2 ? rlx_emit(g, matmul, .a = x, .b = w) :
			    rlx_emit(g, fused_matmul, .a = x, .b = w);
		rlx_output(g, "y", rlx_emit(g, gelu, .x = rlx_emit(g, add, .a = y, .b = b)));
		s = rig_session(g, &o);
		count(rlx_program_graph(s->p), true, n);
		CHECK_EQ(n[RLX_OP_fused_matmul], 1);
		for (i = 0; i < RLX_OP_COUNT; i++)
			CHECKF(!n[i] || i == RLX_OP_fused_matmul || i == RLX_OP_constant ||
			       i == RLX_OP_input, "%u %s", n[i], rlx_op_defs[i]->name);
		rlx_session_free(s);
	}
}

TEST_MAIN()
