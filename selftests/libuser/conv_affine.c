// SPDX-License-Identifier: MIT
/* Scales and shifts of channels in front of and behind a convolution go into its weights. */
#include "ir/graph.h"
#include "rlx/run.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { MOST = 3 * 24 * 24 * 24 };

struct draw {
	struct rlx_graph	*g;
	uint64_t		 seed;
	uint32_t		 spatial;	/* dimensions */
	int64_t			 in, out, groups, taps, pad;
	bool			 shifts;	/* one stands in front */
};

static int64_t pick(struct draw *d, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(&d->seed) % (uint64_t)(hi - lo + 1));
}

static rlx_value constant(struct draw *d, struct rlx_type t, double lo, double hi)
{
	static float x[MOST];
	int64_t i;

	CHECK(rlx_type_count(&t) <= MOST);
	for (i = 0; i < rlx_type_count(&t); i++)
		x[i] = (float)rlx_test_uniform(&d->seed, lo, hi);
	return rlx_constant(d->g, t, x);
}

/* One value, or one for each of @n channels, of as many dimensions as broadcast so. */
static rlx_value of_channels(struct draw *d, int64_t n)
{
	struct rlx_type t = { .dtype = RLX_F32 };
	uint32_t k;

	if (pick(d, 0, 2)) {
		t.rank = d->spatial + 1 + (uint32_t)pick(d, 0, 1);
		for (k = 0; k < t.rank; k++)
			t.dim[k] = k == t.rank - 1 - d->spatial ? n : 1;
	} else {
		t.rank = (uint32_t)pick(d, 0, 1);
		t.dim[0] = 1;
	}
	return constant(d, t, 0.5, 2);
}

static rlx_value norm(struct draw *d, rlx_value x, int64_t n)
{
	struct rlx_type t = rlx_type(RLX_F32, n);

	return rlx_emit(d->g, batch_norm, .x = x, .gamma = constant(d, t, -2, 2),
			.beta = constant(d, t, -1, 1), .mean = constant(d, t, -1, 1),
			.var = constant(d, t, 0.5, 2), .eps = 1e-5f);
}

/* One op that scales or shifts; *@shifts: it shifts. */
static rlx_value affine(struct draw *d, rlx_value x, int64_t n, bool *shifts)
{
	int64_t form = pick(d, 0, 5);
	rlx_value c = form < 5 ? of_channels(d, n) : x;
	bool left = pick(d, 0, 1);

	*shifts |= form && form != 3;
	switch (form) {
	case 0:
		return left ? rlx_emit(d->g, mul, .a = c, .b = x) :
			      rlx_emit(d->g, mul, .a = x, .b = c);
	case 1:
		return left ? rlx_emit(d->g, add, .a = c, .b = x) :
			      rlx_emit(d->g, add, .a = x, .b = c);
	case 2:
	case 4:
		return left ? rlx_emit(d->g, sub, .a = c, .b = x) :
			      rlx_emit(d->g, sub, .a = x, .b = c);
	case 3:
		return rlx_emit(d->g, div, .a = x, .b = c);
	}
	return norm(d, x, n);
}

/* relu, affine ops, a convolution, affine ops, tanh */
static rlx_value net(struct draw *d, rlx_value x)
{
	struct rlx_type w = { RLX_F32, d->spatial + 2, { d->out, d->in / d->groups } };
	int64_t pad[6] = { 0 }, i;
	rlx_value bias = RLX_NONE;
	bool behind;

	x = rlx_emit(d->g, relu, .x = x);
	for (i = pick(d, 1, 3); i; i--)
		x = affine(d, x, d->in, &d->shifts);
	for (i = 0; i < d->spatial; i++) {
		w.dim[i + 2] = d->taps;
		pad[i] = pad[i + d->spatial] = d->pad;
	}
	if (pick(d, 0, 1))
		bias = constant(d, rlx_type(RLX_F32, d->out), -1, 1);
	x = rlx_emit(d->g, conv, .x = x, .w = constant(d, w, -1, 1), .bias = bias,
		     .pad = { pad, 2 * d->spatial }, .groups = d->groups);
	for (i = pick(d, 0, 2); i; i--)
		x = affine(d, x, d->out, &behind);
	return rlx_emit(d->g, tanh, .x = rlx_emit(d->g, mul, .a = x, .b = x));
}

static struct rlx_session *run(struct draw *d, const char *device, enum rlx_precision precision,
			       const struct rlx_type *t, const float *x)
{
	const struct rlx_compile_opts o = { .size = sizeof(o), .device = device,
					    .precision = precision };
	struct rlx_session *s = rig_session(rlx_graph_get(d->g), &o);

	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", *t, x));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	return s;
}

/* All of rounding to f32: terms of the sum are at most some hundred. */
static void compare(struct rlx_session *s, struct rlx_session *ref)
{
	struct rlx_type t = *rlx_program_io_type(rlx_session_program(s), RLX_IO_OUTPUT, 0);
	const float *y = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "y"));
	const float *want = rlx_buf_ptr(rlx_session_buf(ref, RLX_IO_OUTPUT, "y"));

	for (int64_t i = 0; i < rlx_type_count(&t); i++)
		CHECKF(fabs(y[i] - want[i]) < 1e-4, "[%lld] is %g, not %g", (long long)i, y[i],
		       want[i]);
}

static struct draw drawn(uint64_t seed, struct rlx_type *t)
{
	struct draw d = { .seed = seed };
	uint32_t k;

	d.spatial = (uint32_t)pick(&d, 1, 3);
	d.groups = pick(&d, 0, 2) ? 1 : pick(&d, 2, 4);
	d.in = d.groups * pick(&d, 1, 5);
	d.out = d.groups * pick(&d, 1, 5);
	d.taps = pick(&d, 0, 1) ? 1 : pick(&d, 2, 3);
	d.pad = pick(&d, 0, 2) ? 0 : pick(&d, 1, 2);
	*t = (struct rlx_type){ RLX_F32, d.spatial + 2, { pick(&d, 1, 2), d.in } };
	for (k = 0; k < d.spatial; k++)
		t->dim[k + 2] = pick(&d, 3, 7);
	d.g = rlx_graph_new("net");
	rlx_output(d.g, "y", net(&d, rlx_input(d.g, "x", *t)));
	CHECKF(!rlx_graph_finish(d.g), "%s", rlx_graph_error(d.g)->text);
	return d;
}

/* The convolution of @g reads what relu made, if nothing is left between. */
static bool follows_relu(const struct rlx_graph *g)
{
	uint32_t i, v = 0;

	for (i = 0; i < g->n_node; i++)
		if (g->node[i].def->index == RLX_OP_conv)
			v = g->node[i].in[0];
	CHECK(v);
	return rlx_node_of(g, v)->def->index == RLX_OP_relu;
}

static void on_pass(void *ctx, const char *pass, const struct rlx_graph *g)
{
	if (!strcmp(pass, "conv_affine_front"))
		*(int *)ctx = follows_relu(g);
}

static void check(uint64_t seed, enum rlx_precision precision, uint32_t flags)
{
	int folded = -1;
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .dump = on_pass,
				      .dump_ctx = &folded, .precision = precision,
				      .flags = flags };
	static float x[MOST];
	struct rlx_program *p;
	struct rlx_session *s, *ref;
	struct rlx_error err = { 0 };
	struct rlx_type t;
	struct draw d = drawn(seed, &t);

	for (int64_t i = 0; i < rlx_type_count(&t); i++)
		x[i] = (float)rlx_test_uniform(&d.seed, -2, 2);
	CHECKF(!rlx_compile(d.g, &o, &p, &err), "%s", err.text);
	rlx_program_put(p);
	CHECK_EQ(folded, precision == RLX_PRECISION_AS_WRITTEN && !flags &&
			 !(d.shifts && d.pad));
	if (precision == RLX_PRECISION_AS_WRITTEN && !flags) {
		s = run(&d, "cpu", precision, &t, x);
		ref = run(&d, "ref", precision, &t, x);
		compare(s, ref);
		rlx_session_free(s);
		rlx_session_free(ref);
	}
	rlx_graph_put(d.g);
}

TEST(drawn_nets)
{
	uint64_t seed = rlx_test_seed();

	for (uint64_t i = 0; i < 300; i++)
		check(seed + i, RLX_PRECISION_AS_WRITTEN, 0);
}

/* Rounding what a shift has not centred yet loses what it cancels. */
TEST(stays_in_16_bits)
{
	uint64_t seed = rlx_test_seed();

	for (uint64_t i = 0; i < 30; i++)
		check(seed + i, RLX_PRECISION_BF16, 0);
}

/* Bits of ops as they are written. */
TEST(stays_for_strict_bits)
{
	uint64_t seed = rlx_test_seed();

	for (uint64_t i = 0; i < 30; i++)
		check(seed + i, RLX_PRECISION_AS_WRITTEN, RLX_COMPILE_STRICT_BITS);
}

TEST_MAIN()
