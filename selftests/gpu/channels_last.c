// SPDX-License-Identifier: MIT
/*
 * Networks of convolutions in 16-bit floats: the GPU's passes put channels last, so what stands
 * between convolutions works on that, and nothing is turned within a chain.
 */
#include "ir/element.h"
#include "ir/graph.h"
#include "plan/plan.h"
#include "rt/session.h"
#include "selftests/gpu/sessions.h"
#include "selftests/lib/rig.h"

/*
 * A net being drawn: the value at its end, and that as it is. @rounds, if there is one: what
 * convolutions read is rounded to it.
 */
struct net {
	struct rlx_graph	*g;
	uint64_t		 seed;
	rlx_value		 x;
	enum rlx_dtype		 dtype, rounds;
};

static int64_t pick(struct net *t, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(&t->seed) % (uint64_t)(hi - lo + 1));
}

static rlx_value constant(struct net *t, struct rlx_type type, double most)
{
	int64_t n = rlx_type_count(&type), i;
	float *x = malloc((size_t)n * sizeof(*x));
	struct rlx_type wide = type;
	rlx_value v;

	for (i = 0; i < n; i++)
		x[i] = (float)rlx_test_uniform(&t->seed, -most, most);
	wide.dtype = RLX_F32;
	v = rlx_constant(t->g, wide, x);
	free(x);
	return type.dtype == RLX_F32 ? v : rlx_emit(t->g, cast, .x = v, .to = type.dtype);
}

static struct rlx_type at(const struct net *t)
{
	return *rlx_type_of(t->g, t->x);
}

static rlx_value rounded(struct net *t, rlx_value x)
{
	if (!t->rounds)
		return x;
	x = rlx_emit(t->g, cast, .x = x, .to = t->rounds);
	return rlx_emit(t->g, cast, .x = x, .to = t->dtype);
}

static void conv(struct net *t, int64_t oc, int64_t k, int64_t stride, int64_t groups)
{
	int64_t ic = at(t).dim[1], p = k / 2, pads[4] = { p, p, p, p };
	int64_t strides[2] = { stride, stride };
	rlx_value w = constant(t, rlx_type(t->dtype, oc, ic / groups, k, k),
			       2 / sqrt((double)(ic / groups * k * k)));
	rlx_value b = constant(t, rlx_type(t->dtype, oc), 0.5);

	pads[2] = at(t).dim[2] > k ? pick(t, 0, p) : p;
	t->x = rlx_emit(t->g, conv, .x = rounded(t, t->x), .w = rounded(t, w),
			.bias = pick(t, 0, 3) ? b : RLX_NONE,
			.stride = { strides, 2 }, .pad = { pads, 4 }, .groups = groups);
}

/* conv, relu, conv, and x added to it. */
static void residual(struct net *t, int64_t k)
{
	int64_t c = at(t).dim[1];
	rlx_value x = t->x;

	k = k % 2 ? k : 1;
	conv(t, 8 * pick(t, 1, 4), 1, 1, 1);
	t->x = rlx_emit(t->g, relu, .x = t->x);
	conv(t, c, 1, 1, 1);
	t->x = rlx_emit(t->g, relu, .x = rlx_emit(t->g, add, .a = t->x, .b = x));
}

/* A gate for each channel, by means over the pixels (squeeze and excitation). */
static void gate(struct net *t)
{
	int64_t c = at(t).dim[1];
	rlx_value x = t->x;

	t->x = rlx_emit(t->g, reduce, .x = x, .kind = RLX_REDUCE_MEAN, .axes = RLX_INTS(2, 3),
			.keep_dims = true);
	conv(t, 8, 1, 1, 1);
	t->x = rlx_emit(t->g, silu, .x = t->x);
	conv(t, c, 1, 1, 1);
	t->x = rlx_emit(t->g, mul, .a = x, .b = rlx_emit(t->g, sigmoid, .x = t->x));
}

static void pool(struct net *t)
{
	if (at(t).dim[2] < 3 || at(t).dim[3] < 3)
		return;
	t->x = rlx_emit(t->g, pool, .x = t->x, .kind = (int32_t)pick(t, 0, 1),
			.kernel = RLX_INTS(3, 3), .stride = RLX_INTS(2, 2),
			.pad = RLX_INTS(1, 1, 1, 1));
}

/* Two branches side by side. */
static void branches(struct net *t)
{
	rlx_value x = t->x, a, both[2];

	conv(t, 8 * pick(t, 1, 3), 1, 1, 1);
	a = t->x;
	t->x = x;
	conv(t, pick(t, 1, 20), 1, 1, 1);
	both[0] = a;
	both[1] = t->x;
	t->x = rlx_emit(t->g, concat, .axis = 1, .xs = { both, 2 });
}

static void step(struct net *t)
{
	int64_t c = at(t).dim[1];

	switch (pick(t, 0, 7)) {
	case 0: residual(t, 3); break;
	case 1: gate(t); break;
	case 2: pool(t); break;
	case 3: branches(t); break;
	case 4: conv(t, 16 * pick(t, 1, 2), pick(t, 0, 1) ? 3 : 1, pick(t, 1, 2), 1); break;
	case 5: conv(t, pick(t, 1, 40), 3, 1, 1); break;
	case 6: conv(t, c, 1 + 2 * pick(t, 0, 2), pick(t, 1, 2), c); break;	/* depthwise */
	default:
		if (at(t).dim[1] % 16 == 0)
			conv(t, 32, 3, 1, 2);
		t->x = rlx_emit(t->g, hard_swish, .x = t->x);
	}
}

static struct rlx_graph *draw(uint64_t seed, enum rlx_dtype dtype, enum rlx_dtype rounds, int steps)
{
	struct net t = { rlx_graph_new("net"), seed, RLX_NONE, dtype, rounds };
	int i;

	t.x = rlx_input(t.g, "x", rlx_type(dtype, pick(&t, 1, 2), pick(&t, 1, 12),
					   pick(&t, 5, 20), pick(&t, 5, 20)));
	conv(&t, 8 * pick(&t, 1, 5), 3, 1, 1);
	for (i = 0; i < steps; i++)
		step(&t);
	rlx_output(t.g, "y", t.x);
	CHECKF(!rlx_graph_finish(t.g), "%s", rlx_graph_error(t.g)->text);
	return t.g;
}

/* Element @i of output @k as a double. */
static double value(struct rlx_session *s, uint32_t k, int64_t i)
{
	struct rlx_program *p = rlx_session_program(s);
	struct rlx_buf b = rlx_session_buf(s, RLX_IO_OUTPUT,
					   rlx_program_io_name(p, RLX_IO_OUTPUT, k));
	struct rlx_tensor x = { .type = *rlx_program_io_type(p, RLX_IO_OUTPUT, k),
				.data = rlx_buf_ptr(b) };

	return el_get(&x, i);
}

static struct rlx_session *session(struct rlx_graph *g, const char *device,
				   enum rlx_precision precision, uint64_t seed)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = device, .precision = precision,
		.flags = RLX_COMPILE_NATIVE,
	};
	struct rlx_session *s = rig_session(rlx_graph_get(g), &o);
	const struct rlx_type *t = rlx_program_io_type(rlx_session_program(s), RLX_IO_INPUT, 0);
	struct rlx_tensor x = { .type = *t,
				.data = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x")) };
	int64_t i;

	for (i = 0; i < rlx_type_count(t); i++)
		el_set(&x, i, rlx_test_uniform(&seed, -1, 1));
	poison(s);
	run(s);
	return s;
}

/*
 * Both round each result alike, but now and then to the other neighbour; with a @precision @as says
 * where. Takes @g and @as.
 */
static void against(struct rlx_graph *g, struct rlx_graph *as, enum rlx_precision precision,
		    uint64_t seed, double tol, int i)
{
	struct rlx_session *a = session(g, getenv("RLX_TEST_GPU"), precision, seed);
	struct rlx_session *b = session(as, "ref", RLX_PRECISION_AS_WRITTEN, seed);
	const struct rlx_named_list *out = &g->io[RLX_IO_OUTPUT];

	for (uint32_t o = 0; o < out->n; o++) {
		int64_t n = rlx_type_count(&g->val[out->e[o].v.id].type), k;
		double most = 0;

		for (k = 0; k < n; k++)
			most = fmax(most, fabs(value(b, o, k)));
		for (k = 0; k < n; k++)
			CHECKF(fabs(value(a, o, k) - value(b, o, k)) <= tol * (most + 1e-3),
			       "net %d: %s[%lld] is %g, not %g (of %g)", i, out->e[o].name,
			       (long long)k, value(a, o, k), value(b, o, k), most);
	}
	rlx_session_free(a);
	rlx_session_free(b);
	rlx_graph_put(g);
	rlx_graph_put(as);
}

static void against_ref(struct rlx_graph *g, enum rlx_precision precision, uint64_t seed,
			double tol, int i)
{
	against(g, rlx_graph_get(g), precision, seed, tol, i);
}

TEST(random_nets)
{
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < 14; i++) {
		enum rlx_dtype dtype = i % 2 ? RLX_BF16 : RLX_F16;

		against_ref(draw(seed + (uint64_t)i, dtype, RLX_NODTYPE, 1 + i % 6),
			    RLX_PRECISION_AS_WRITTEN, seed, dtype == RLX_F16 ? 6e-3 : 5e-2, i);
	}
}

/* Tensors of f32, of which convolutions alone round what they read. */
TEST(random_nets_of_rounded_operands)
{
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < 12; i++)
		against(draw(seed + (uint64_t)i, RLX_F32, RLX_NODTYPE, 1 + i % 6),
			draw(seed + (uint64_t)i, RLX_F32, i % 2 ? RLX_BF16 : RLX_F16, 1 + i % 6),
			i % 2 ? RLX_PRECISION_BF16 : RLX_PRECISION_F16, seed,
			i % 2 ? 5e-2 : 6e-3, i);
}

/* One convolution of a pixel, with a residual now and then: weights times an image's channels. */
static struct rlx_graph *one_pixel(uint64_t seed, enum rlx_dtype dtype)
{
	struct net t = { rlx_graph_new("pixel"), seed, RLX_NONE, dtype };
	rlx_value r;

	t.x = rlx_input(t.g, "x", rlx_type(dtype, pick(&t, 1, 4), pick(&t, 1, 70),
					   pick(&t, 1, 20), pick(&t, 1, 20)));
	conv(&t, pick(&t, 1, 70), 1, 1, 1);
	r = constant(&t, at(&t), 1);
	if (pick(&t, 0, 1))
		t.x = rlx_emit(t.g, add, .a = t.x, .b = r);
	if (pick(&t, 0, 1))
		t.x = rlx_emit(t.g, hard_swish, .x = t.x);
	rlx_output(t.g, "y", t.x);
	CHECKF(!rlx_graph_finish(t.g), "%s", rlx_graph_error(t.g)->text);
	return t.g;
}

TEST(pixels)
{
	static const struct {
		enum rlx_dtype		dtype;
		enum rlx_precision	precision;
		double			tol;
	} form[] = {
		{ RLX_F32, RLX_PRECISION_AS_WRITTEN, 2e-5 },
		{ RLX_F16, RLX_PRECISION_AS_WRITTEN, 4e-3 },
		{ RLX_BF16, RLX_PRECISION_AS_WRITTEN, 3e-2 },
		{ RLX_F32, RLX_PRECISION_F16, 4e-3 },
		{ RLX_F32, RLX_PRECISION_BF16, 3e-2 },
	};
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < 30; i++)
		against_ref(one_pixel(seed + (uint64_t)i, form[i % 5].dtype),
			    form[i % 5].precision, seed, form[i % 5].tol, i);
}

/* A bottleneck between plain tensors: of one pixel, of several, of one with the input added. */
static struct rlx_graph *bottleneck(uint64_t seed, enum rlx_dtype dtype, int64_t h, int64_t w)
{
	struct net t = { rlx_graph_new("bottleneck"), seed, RLX_NONE, dtype };
	int64_t c = pick(&t, 0, 3) ? 8 * pick(&t, 1, 12) : pick(&t, 1, 20);
	rlx_value x;

	t.x = x = rlx_input(t.g, "x", rlx_type(dtype, pick(&t, 1, 3), c, h, w));
	conv(&t, 8 * pick(&t, 1, 6), 1, 1, 1);
	t.x = rlx_emit(t.g, relu, .x = t.x);
	conv(&t, 8 * pick(&t, 1, 6), 3, 1, 1);
	t.x = rlx_emit(t.g, relu, .x = t.x);
	if (at(&t).dim[2] == h && at(&t).dim[3] == w) {
		conv(&t, c, 1, 1, 1);
		t.x = rlx_emit(t.g, relu, .x = rlx_emit(t.g, add, .a = t.x, .b = x));
	} else {
		conv(&t, c, 3, 2, 1);
	}
	rlx_output(t.g, "y", t.x);
	CHECKF(!rlx_graph_finish(t.g), "%s", rlx_graph_error(t.g)->text);
	return t.g;
}

TEST(bottlenecks)
{
	uint64_t seed = rlx_test_seed(), draws = seed;

	for (int i = 0; i < 16; i++) {
		int64_t h = 1 + (int64_t)(rlx_test_rand(&draws) % 14);
		int64_t w = i % 2 ? 8 : 1 + (int64_t)(rlx_test_rand(&draws) % 14);

		against_ref(bottleneck(seed + (uint64_t)i, i / 2 % 2 ? RLX_BF16 : RLX_F16, h, w),
			    RLX_PRECISION_AS_WRITTEN, seed, i / 2 % 2 ? 5e-2 : 6e-3, i);
	}
}

/* The chosen launch's kernel for the problem that begins with @problem; "" if there is none. */
static void kernel_of(struct rlx_graph *g, const char *problem, char *buf, size_t size)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = getenv("RLX_TEST_GPU"),
				      .flags = RLX_COMPILE_NATIVE | RLX_COMPILE_EXPLAIN };
	struct rlx_session *s = rig_session(rlx_graph_get(g), &o);
	const struct rlx_code *c = s->p->code;

	*buf = 0;
	for (uint32_t i = 0; i < c->n_choice; i++)
		if (c->choice[i].chosen && c->choice[i].problem &&
		    !strncmp(c->choice[i].problem, problem, strlen(problem)))
			snprintf(buf, size, "%s", c->choice[i].what);
	rlx_session_free(s);
}

/*
 * Few terms for few channels: nothing is turned for tensor cores, and a thread has an output. For
 * more channels it is.
 */
TEST(few_channels_and_taps_are_of_threads)
{
	for (int i = 0; i < 5; i++) {
		struct net t = { rlx_graph_new("few"), rlx_test_seed(), RLX_NONE,
				 i % 2 ? RLX_BF16 : RLX_F16 };
		int64_t k = i < 2 || i == 4 ? 1 : 3, c = k == 1 ? pick(&t, 8, 16) : 1;
		char kernel[256];

		t.x = rlx_input(t.g, "x", rlx_type(t.dtype, 4, c, 57, 40 + pick(&t, 0, 9)));
		conv(&t, i < 4 ? 8 : pick(&t, 60, 70), k, 2, 1);
		t.x = rlx_emit(t.g, relu, .x = t.x);
		rlx_output(t.g, "y", t.x);
		CHECKF(!rlx_graph_finish(t.g), "%s", rlx_graph_error(t.g)->text);
		kernel_of(t.g, "conv ", kernel, sizeof(kernel));
		CHECKF(!strncmp(kernel, "conv_depthwise ", 15) == (i < 4), "%s", kernel);
		against_ref(t.g, RLX_PRECISION_AS_WRITTEN, t.seed, i % 2 ? 5e-2 : 6e-3, i);
	}
}

/* The first convolution reads a plain input, the last one writes a plain result: none is turned. */
TEST(ends_are_plain)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = getenv("RLX_TEST_GPU"),
				      .flags = RLX_COMPILE_NATIVE };

	for (int i = 0; i < 2; i++) {
		struct net t = { rlx_graph_new("ends"), rlx_test_seed(), RLX_NONE, RLX_F16 };
		const struct rlx_graph *done;
		struct rlx_session *s;
		rlx_value x;

		t.x = x = rlx_input(t.g, "x", rlx_type(RLX_F16, 1, 64, 16, 16));
		if (i) {
			conv(&t, 16, 1, 1, 1);
			t.x = rlx_emit(t.g, conv, .x = t.x, .pad = RLX_INTS(1, 1, 1, 1),
				       .w = constant(&t, rlx_type(RLX_F16, 16, 16, 3, 3), 0.2));
			conv(&t, 64, 1, 1, 1);
			t.x = rlx_emit(t.g, add, .a = t.x, .b = x);
		} else {	/* large enough by itself */
			conv(&t, 128, 3, 1, 1);
		}
		rlx_output(t.g, "y", t.x);
		s = rig_session(t.g, &o);
		done = rlx_program_graph(s->p);
		for (uint32_t k = 0; k < done->n_node; k++)
			CHECK(done->node[k].def->index != RLX_OP_transpose);
		rlx_session_free(s);
	}
}

/* Of @dtype with @precision: only the input and the result are turned, however long the chain. */
static void chain_stays(enum rlx_dtype dtype, enum rlx_precision precision)
{
	struct net t = { rlx_graph_new("chain"), rlx_test_seed(), RLX_NONE, dtype };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = getenv("RLX_TEST_GPU"),
				      .precision = precision, .flags = RLX_COMPILE_NATIVE };
	const struct rlx_graph *done;
	unsigned int turned = 0, i;
	struct rlx_session *s;

	t.x = rlx_input(t.g, "x", rlx_type(dtype, 1, 16, 12, 12));
	for (i = 0; i < 4; i++) {
		conv(&t, 24, 3, 1, 1);
		conv(&t, 24, 3, 1, 24);
		residual(&t, 3);
		pool(&t);
		gate(&t);
	}
	rlx_output(t.g, "y", t.x);
	s = rig_session(t.g, &o);
	done = rlx_program_graph(s->p);
	for (i = 0; i < done->n_node; i++)
		turned += done->node[i].def->index == RLX_OP_transpose;
	CHECKF(turned <= 2, "%u transposes", turned);
	rlx_session_free(s);
}

TEST(chains_stay)
{
	chain_stays(RLX_F16, RLX_PRECISION_AS_WRITTEN);
	chain_stays(RLX_F32, RLX_PRECISION_F16);
	chain_stays(RLX_F32, RLX_PRECISION_MIXED_BF16);
}

/* Weights that are params are rounded and turned by the first run alone. */
TEST(weights_of_params_are_turned_once)
{
	struct net t = { rlx_graph_new("params"), rlx_test_seed(), RLX_NONE, RLX_F32 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = getenv("RLX_TEST_GPU"),
				      .precision = RLX_PRECISION_F16,
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_type type = rlx_type(RLX_F32, 16, 16, 3, 3);
	static const char *const name[] = { "w0", "w1" };
	static float w[16 * 16 * 9];
	struct rlx_session *s;
	uint32_t i, k, turned = 0;

	t.x = rlx_input(t.g, "x", rlx_type(RLX_F32, 1, 16, 12, 12));
	conv(&t, 16, 3, 1, 1);		/* of constants */
	for (k = 0; k < 2; k++)
		t.x = rlx_emit(t.g, conv, .x = t.x, .w = rlx_param(t.g, name[k], type),
			       .pad = RLX_INTS(1, 1, 1, 1));
	rlx_output(t.g, "y", t.x);
	s = rig_session(t.g, &o);
	for (k = 0; k < 2; k++) {
		for (i = 0; i < 16 * 16 * 9; i++)
			w[i] = (float)rlx_test_uniform(&t.seed, -0.1, 0.1);
		CHECK(!rlx_session_set(s, RLX_IO_PARAM, name[k], type, w));
	}
	(void)rlx_session_buf(s, RLX_IO_INPUT, "x");
	for (i = 0; i < s->p->plan->n_step; i++)
		turned += s->p->plan->step[i].once;
	CHECK_EQ(s->p->plan->n_persistent, 2);
	CHECKF(turned >= 2, "%u steps of params", turned);
	run(s);
	CHECK(!s->exec->skip);
	run(s);
	CHECK(s->exec->skip);
	for (i = 0; i < s->p->plan->n_step; i++)
		CHECK_EQ(s->exec->skip[i], s->p->plan->step[i].once);
	rlx_session_free(s);
}

/* ---- values of several readers, in nets of several results ---- */

enum { POOL = 12 };

/* A convolution of anything that the op takes, of x. */
static void any_conv(struct net *t)
{
	int64_t c = at(t).dim[1], k = 1 + 2 * pick(t, 0, 1), groups = 1, oc = pick(t, 1, 40), i;
	int64_t strides[2] = { 1, 1 }, dils[2] = { 1, 1 }, pads[4];

	if (!pick(t, 0, 3))
		groups = c % 8 == 0 && pick(t, 0, 1) ? c / 8 : c;	/* of 8, or depthwise */
	if (groups > 1)
		oc = groups * pick(t, 1, 2);
	else if (pick(t, 0, 1))
		oc = pick(t, 0, 1) ? c : 8 * pick(t, 1, 6);
	for (i = 0; i < 2; i++) {
		dils[i] = pick(t, 0, 5) ? 1 : 2;
		strides[i] = pick(t, 0, 5) ? 1 : 2;
		pads[i] = pads[i + 2] = k / 2 * dils[i];
		if (at(t).dim[2 + i] > k * dils[i] && !pick(t, 0, 5))
			pads[i] = 0;
	}
	t->x = rlx_emit(t->g, conv, .x = t->x, .groups = groups, .stride = { strides, 2 },
			.pad = { pads, 4 }, .dilation = { dils, 2 },
			.w = constant(t, rlx_type(t->dtype, oc, c / groups, k, k),
				      2 / sqrt((double)(c / groups * k * k))),
			.bias = pick(t, 0, 1) ? constant(t, rlx_type(t->dtype, oc), 0.5) :
						RLX_NONE);
}

/* As trained: with what running statistics are. */
static void batch_norm(struct net *t)
{
	struct rlx_type c = rlx_type(t->dtype, at(t).dim[1]);
	rlx_value v = constant(t, c, 1);

	t->x = rlx_emit(t->g, batch_norm, .x = t->x, .gamma = constant(t, c, 1),
			.beta = constant(t, c, 1), .mean = constant(t, c, 0.5),
			.var = rlx_emit(t->g, exp, .x = v), .eps = 1e-3f);
}

/* Something of one value drawn before, and now and then a second. */
static void any_step(struct net *t, const rlx_value *drawn, int64_t n)
{
	rlx_value r;

	t->x = drawn[pick(t, 0, n - 1)];
	switch (pick(t, 0, 9)) {
	case 0: pool(t); break;
	case 1: batch_norm(t); break;
	case 2: t->x = rlx_emit(t->g, relu, .x = t->x); break;
	case 3: branches(t); break;
	default:
		any_conv(t);
		if (!pick(t, 0, 3))
			batch_norm(t);
		r = drawn[pick(t, 0, n - 1)];
		if (rlx_type_equal(rlx_type_of(t->g, r), rlx_type_of(t->g, t->x)))
			t->x = rlx_emit(t->g, add, .a = t->x, .b = r);
		if (pick(t, 0, 1))
			t->x = rlx_emit(t->g, relu, .x = t->x);
	}
}

static struct rlx_graph *draw_wide(uint64_t seed, enum rlx_dtype dtype, int64_t images)
{
	struct net t = { rlx_graph_new("wide"), seed, RLX_NONE, dtype };
	static const char *const name[] = { "y", "z" };
	rlx_value drawn[POOL + 1];
	int64_t n = 1;

	drawn[0] = rlx_input(t.g, "x", rlx_type(dtype, images, pick(&t, 0, 1) ?
						8 * pick(&t, 1, 4) : pick(&t, 1, 30),
						pick(&t, 1, 24), pick(&t, 1, 24)));
	while (n < 3 + (int64_t)(seed % (POOL - 2))) {
		any_step(&t, drawn, n);
		drawn[n++] = t.x;
	}
	for (int i = 0; i < 2; i++)
		rlx_output(t.g, name[i], drawn[n - 1 - i]);
	CHECKF(!rlx_graph_finish(t.g), "%s", rlx_graph_error(t.g)->text);
	return t.g;
}

TEST(values_of_several_readers)
{
	static const struct {
		enum rlx_dtype		dtype;
		enum rlx_precision	precision;
		double			tol;
	} form[] = {
		{ RLX_F16, RLX_PRECISION_AS_WRITTEN, 6e-3 },
		{ RLX_BF16, RLX_PRECISION_AS_WRITTEN, 5e-2 },
		{ RLX_F32, RLX_PRECISION_F16, 6e-3 },
		{ RLX_F32, RLX_PRECISION_BF16, 5e-2 },
		{ RLX_F32, RLX_PRECISION_AS_WRITTEN, 1e-4 },
	};
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 25; i++)
		against_ref(draw_wide(seed + (uint64_t)i, form[i % 5].dtype, i % 7 == 6 ? 0 :
				      1 + i % 3), form[i % 5].precision, seed, form[i % 5].tol, i);
}

TEST_MAIN()
