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

/* How often each op runs; products must read 16 bits. */
static void count(const struct rlx_graph *g, bool narrow, unsigned int n[RLX_OP_COUNT])
{
	uint32_t i, k;

	memset(n, 0, RLX_OP_COUNT * sizeof(*n));
	for (i = 0; i < g->n_node; i++) {
		const struct rlx_node *d = &g->node[i];

		n[d->def->index]++;
		if (d->def->index != RLX_OP_fused_matmul && d->def->index != RLX_OP_attention)
			continue;
		for (k = 0; k < (d->def->index == RLX_OP_attention ? 3u : 2u); k++)
			CHECKF((rlx_dtype_size(g->val[d->in[k]].type.dtype) == 2) == narrow,
			       "%s reads %s", d->def->name,
			       rlx_dtype_name(g->val[d->in[k]].type.dtype));
	}
}

enum { N = BATCH * ROWS * WIDTH };

static void run_as(enum rlx_precision precision, uint64_t seed, const float *x, float *y,
		   unsigned int n[RLX_OP_COUNT])
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = getenv("RLX_TEST_GPU"), .precision = precision,
		.flags = RLX_COMPILE_NATIVE,
	};
	struct rlx_session *s = rig_session(encoder(seed), &o);
	struct rlx_type t = rlx_type(RLX_F32, BATCH, ROWS, WIDTH);

	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, x));
	poison(s);
	run(s);
	memcpy(y, rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "y")), N * sizeof(*y));
	count(rlx_program_graph(s->p), precision != RLX_PRECISION_AS_WRITTEN, n);
	rlx_session_free(s);
}

static double off(const float *got, const float *want)
{
	double most = 0, d;
	int i;

	for (i = 0; i < N; i++) {
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

TEST(policies_run_the_same_steps)
{
	static const struct {
		enum rlx_precision	only, mixed;
		double			tol;
	} p[] = {
		{ RLX_PRECISION_F16, RLX_PRECISION_MIXED_F16, 6e-3 },
		{ RLX_PRECISION_BF16, RLX_PRECISION_MIXED_BF16, 5e-2 },
	};
	unsigned int plain[RLX_OP_COUNT], only[RLX_OP_COUNT], mixed[RLX_OP_COUNT];
	static float x[N], want[N], y[N], z[N];
	uint64_t seed = rlx_test_seed(), weights = seed;
	size_t i;

	for (i = 0; i < N; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	run_as(RLX_PRECISION_AS_WRITTEN, weights, x, want, plain);
	for (i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
		run_as(p[i].only, weights, x, y, only);
		run_as(p[i].mixed, weights, x, z, mixed);
		compare_lists(plain, only, mixed);
		CHECKF(off(y, want) <= p[i].tol, "off by %.3g", off(y, want));
		CHECKF(off(z, want) <= 2 * p[i].tol, "mixed off by %.3g", off(z, want));
		printf("# off by %.2g, mixed by %.2g\n", off(y, want), off(z, want));
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
