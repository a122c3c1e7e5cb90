// SPDX-License-Identifier: MIT
/*
 * Gradients of a small convolutional network and of a small encoder on the GPU,
 * without a step on the host, against those of the CPU.
 */
#include "backends/gpu/gpu.h"
#include "rlx/grad.h"
#include "rlx/run.h"
#include "rt/session.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_models.h"

enum { MOST = 8 };

/* A loss and what it is derived by. */
struct model {
	struct rlx_graph *g;
	rlx_value	 wrt[MOST];
	unsigned int	 n;
	const char	*coarse;	/* names of what is drawn in steps of a half, or NULL */
};

static rlx_value weight(struct model *m, const char *name, struct rlx_type t)
{
	return m->wrt[m->n++] = rlx_param(m->g, name, t);
}

/* Logits far apart have a loss and gradients of 0, or of what 16-bit floats make of that. */
static rlx_value loss_of(struct model *m, rlx_value logits, int64_t rows)
{
	rlx_value labels = rlx_input(m->g, "labels", rlx_type(RLX_I64, rows));
	rlx_value near = rlx_emit(m->g, mul, .a = logits,
				  .b = rlx_scalar_const(m->g, RLX_F32, 1.0 / 32));
	rlx_value l = rlx_emit(m->g, cross_entropy, .logits = near, .labels = labels);

	return rlx_emit(m->g, reduce, .x = l, .kind = RLX_REDUCE_MEAN);
}

/*
 * What the pool takes the largest of is exact, also in 16-bit floats: a multiple of 2^-3,
 * then of 2^-4, in its dozens. Else a rounding makes another pixel the largest at times, and that
 * takes the gradient, which has no bound.
 */
static rlx_value conv_net(struct model *m)
{
	struct rlx_graph *g = m->g;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 3, 3, 14, 12));

	m->coarse = "x w1 b1 w0 b0";
	x = rlx_emit(g, conv, .x = x, .w = weight(m, "w1", rlx_type(RLX_F32, 16, 3, 3, 3)),
		     .bias = weight(m, "b1", rlx_type(RLX_F32, 16)), .pad = RLX_INTS(1, 1, 1, 1));
	x = rlx_emit(g, relu, .x = x);
	x = rlx_emit(g, conv, .x = x, .w = weight(m, "w0", rlx_type(RLX_F32, 12, 16, 1, 1)),
		     .bias = weight(m, "b0", rlx_type(RLX_F32, 12)));
	x = rlx_emit(g, pool, .x = x, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(2, 2),
		     .stride = RLX_INTS(2, 2));
	x = rlx_emit(g, conv, .x = x, .w = weight(m, "w2", rlx_type(RLX_F32, 12, 1, 3, 3)),
		     .pad = RLX_INTS(1, 1, 1, 1), .groups = 12);
	x = rlx_emit(g, gelu, .x = x);
	x = rlx_emit(g, conv, .x = x, .w = weight(m, "w3", rlx_type(RLX_F32, 20, 12, 3, 3)),
		     .stride = RLX_INTS(2, 2), .pad = RLX_INTS(1, 1, 1, 1));
	x = rlx_emit(g, pool, .x = x, .kind = RLX_POOL_AVG, .kernel = RLX_INTS(2, 3),
		     .stride = RLX_INTS(2, 3));
	x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(3, 40));
	x = rlx_emit(g, matmul, .a = x, .b = weight(m, "w4", rlx_type(RLX_F32, 40, 7)));
	return loss_of(m, x, 3);
}

/* Each channel less its mean, over its deviation. */
static rlx_value normalised(struct rlx_graph *g, rlx_value x)
{
	rlx_value mean = rlx_emit(g, reduce, .x = x, .kind = RLX_REDUCE_MEAN, .keep_dims = true,
				  .axes = RLX_INTS(0, 2, 3)), var;

	x = rlx_emit(g, sub, .a = x, .b = mean);
	var = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = x, .b = x), .keep_dims = true,
		       .kind = RLX_REDUCE_MEAN, .axes = RLX_INTS(0, 2, 3));
	var = rlx_emit(g, add, .a = var, .b = rlx_scalar_const(g, RLX_F32, 1e-3));
	return rlx_emit(g, mul, .a = x, .b = rlx_emit(g, rsqrt, .x = var));
}

/* What the drawn net is drawn by. */
static uint64_t drawn_by;

static int64_t pick(int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(&drawn_by) % (uint64_t)(hi - lo + 1));
}

/* A convolution of any window, stride and dilation, whose channels may be no multiple of 8. */
static rlx_value drawn_conv(struct model *m, rlx_value x, const char *name, int64_t oc)
{
	const struct rlx_type *t = rlx_type_of(m->g, x);
	int64_t ic = t->dim[1], k[2], s[2], d[2], pad[4], i;

	for (i = 0; i < 2; i++) {
		k[i] = pick(0, 3) ? 1 + 2 * pick(0, 2) : 1 + pick(0, 4);
		s[i] = pick(1, 2);
		d[i] = pick(0, 3) ? 1 : 2;
		if ((k[i] - 1) * d[i] + 1 > t->dim[2 + i])
			k[i] = 1;	/* and no padding, which may be all that strides see */
		pad[i] = pick(0, (k[i] - 1) * d[i]);
		pad[2 + i] = pick(0, k[i] / 2 * d[i]);
	}
	x = rlx_emit(m->g, conv, .x = x, .stride = { s, 2 }, .dilation = { d, 2 },
		     .pad = { pad, 4 },
		     .w = weight(m, name, rlx_type(RLX_F32, oc, ic, k[0], k[1])));
	t = rlx_type_of(m->g, x);
	/* of a few elements a deviation is mostly rounding */
	if (t->dim[0] * t->dim[2] * t->dim[3] >= 64)
		x = normalised(m->g, x);
	return rlx_emit(m->g, gelu, .x = x);
}

static rlx_value drawn_net(struct model *m)
{
	static const char *const name[] = { "w0", "w1", "w2", "w3" };
	rlx_value x = rlx_input(m->g, "x", rlx_type(RLX_F32, pick(2, 4), 8, pick(9, 21),
						    pick(9, 21)));
	size_t i;

	for (i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		x = drawn_conv(m, x, name[i], pick(0, 4) ? 8 * pick(1, 4) : pick(3, 20));
	x = rlx_emit(m->g, mul, .a = x, .b = x);
	return rlx_emit(m->g, reduce, .x = rlx_emit(m->g, mul, .a = x, .b = rlx_scalar_const(m->g,
			RLX_F32, 1.0 / 64)), .kind = RLX_REDUCE_SUM);
}

/* Windows that overlap, in planes of more places than bf16 tells apart; what they take is exact. */
static rlx_value pooled(struct model *m)
{
	rlx_value x = rlx_input(m->g, "x", rlx_type(RLX_F32, 2, 8, 24, 22));

	m->coarse = "x w0";
	x = rlx_emit(m->g, conv, .x = x, .w = weight(m, "w0", rlx_type(RLX_F32, 16, 8, 1, 1)));
	x = rlx_emit(m->g, pool, .x = x, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(3, 3),
		     .stride = RLX_INTS(2, 2), .pad = RLX_INTS(1, 1, 1, 1));
	x = rlx_emit(m->g, reshape, .x = x, .shape = RLX_INTS(2, 16 * 12 * 11));
	x = rlx_emit(m->g, matmul, .a = x, .b = weight(m, "w1", rlx_type(RLX_F32, 2112, 7)));
	return loss_of(m, x, 2);
}

/* Bottlenecks, whose images are larger than all weights. */
static rlx_value bottlenecks(struct model *m)
{
	static const struct { const char *name; int64_t oc, k, s; } c[] = {
		{ "w0", 16, 1, 1 }, { "w1", 16, 3, 1 }, { "w2", 32, 1, 2 }, { "w3", 16, 3, 2 },
	};
	rlx_value x = rlx_input(m->g, "x", rlx_type(RLX_F32, 4, 16, 32, 32));
	size_t i;

	for (i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		int64_t p = c[i].k / 2, ic = rlx_type_of(m->g, x)->dim[1];

		x = rlx_emit(m->g, conv, .x = x, .stride = RLX_INTS(c[i].s, c[i].s),
			     .pad = RLX_INTS(p, p, p, p), .w = weight(m, c[i].name,
			     rlx_type(RLX_F32, c[i].oc, ic, c[i].k, c[i].k)));
		x = rlx_emit(m->g, relu, .x = normalised(m->g, x));
	}
	x = rlx_emit(m->g, reduce, .x = x, .kind = RLX_REDUCE_MEAN, .axes = RLX_INTS(2, 3));
	x = rlx_emit(m->g, matmul, .a = x, .b = weight(m, "w4", rlx_type(RLX_F32, 16, 7)));
	return loss_of(m, x, 4);
}

static rlx_value encoder(struct model *m)
{
	struct rlx_graph *g = m->g;
	rlx_value t = rlx_input(g, "tokens", rlx_type(RLX_I64, 2, 6)), x, y, p[3];
	static const char *const name[3] = { "q", "k", "v" };

	x = rlx_emit(g, gather, .x = weight(m, "table", rlx_type(RLX_F32, 9, 16)), .indices = t);
	y = rlx_emit(g, layer_norm, .x = x, .gamma = weight(m, "gamma", rlx_type(RLX_F32, 16)),
		     .beta = weight(m, "beta", rlx_type(RLX_F32, 16)), .axis = -1, .eps = 0);
	for (int i = 0; i < 3; i++) {
		p[i] = rlx_emit(g, matmul, .a = y,
				.b = weight(m, name[i], rlx_type(RLX_F32, 16, 16)));
		p[i] = rlx_emit(g, reshape, .x = p[i], .shape = RLX_INTS(2, 6, 2, 8));
	}
	y = rlx_emit(g, attention, .q = p[0], .k = p[1], .v = p[2]);
	y = rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(2, 6, 16));
	y = rlx_emit(g, rms_norm, .x = rlx_emit(g, add, .a = x, .b = y), .axis = -1,
		     .eps = 0);
	y = rlx_emit(g, silu, .x = y);
	y = rlx_emit(g, matmul, .a = y, .b = weight(m, "out", rlx_type(RLX_F32, 16, 7)));
	return loss_of(m, rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(12, 7)), 12);
}

/* A block whose q, k and v are parts of one product, in an order; @read: something else has q. */
static rlx_value packed_block(struct model *m, const int order[3], bool read)
{
	struct rlx_graph *g = m->g;
	rlx_value t = rlx_input(g, "tokens", rlx_type(RLX_I64, 2, 6)), x, y, p[3];

	x = rlx_emit(g, gather, .x = weight(m, "table", rlx_type(RLX_F32, 9, 32)), .indices = t);
	y = rlx_emit(g, layer_norm, .x = x, .gamma = weight(m, "gamma", rlx_type(RLX_F32, 32)),
		     .beta = weight(m, "beta", rlx_type(RLX_F32, 32)), .axis = -1, .eps = 1e-5f);
	y = rlx_emit(g, matmul, .a = y, .b = weight(m, "qkv", rlx_type(RLX_F32, 32, 96)));
	y = rlx_emit(g, add, .a = y, .b = weight(m, "bias", rlx_type(RLX_F32, 96)));
	for (int i = 0; i < 3; i++)
		p[i] = rlx_emit(g, slice, .x = y, .starts = RLX_INTS(32 * i),
				.ends = RLX_INTS(32 * i + 32), .axes = RLX_INTS(-1));
	y = rlx_emit(g, attention, .q = p[order[0]], .k = p[order[1]], .v = p[order[2]], .heads = 2,
		     .mask = RLX_MASK_CAUSAL, .scale = 0.05f);
	if (read)
		y = rlx_emit(g, add, .a = y, .b = p[order[0]]);
	x = rlx_emit(g, add, .a = x, .b = y);
	y = rlx_emit(g, rms_norm, .x = x, .gamma = weight(m, "scale", rlx_type(RLX_F32, 32)),
		     .axis = -1, .eps = 1e-5f);
	y = rlx_emit(g, matmul, .a = y, .b = weight(m, "out", rlx_type(RLX_F32, 32, 7)));
	return loss_of(m, rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(12, 7)), 12);
}

static rlx_value packed(struct model *m)
{
	return packed_block(m, (int[]){ 0, 1, 2 }, false);
}

static rlx_value packed_otherwise(struct model *m)
{
	return packed_block(m, (int[]){ 2, 0, 1 }, false);
}

static rlx_value packed_and_read(struct model *m)
{
	return packed_block(m, (int[]){ 0, 1, 2 }, true);
}

static struct rlx_session *open_session(struct rlx_graph *g, const char *device,
					enum rlx_precision precision)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device,
				      .precision = precision, .flags = RLX_COMPILE_NATIVE };
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;

	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	rlx_program_put(p);
	return s;
}

static float draw(const struct model *m, const char *name, uint64_t *seed)
{
	double v = rlx_test_uniform(seed, -1, 1);

	return (float)(m->coarse && strstr(m->coarse, name) ? rint(2 * v) / 2 : v);
}

static void fill(const struct model *m, struct rlx_session *s[2], enum rlx_io io, uint64_t *seed)
{
	const struct rlx_program *p = rlx_session_program(s[0]);
	unsigned int i, k;

	for (i = 0; i < rlx_program_io_count(p, io); i++) {
		const char *name = rlx_program_io_name(p, io, i);
		struct rlx_type t = *rlx_program_io_type(p, io, i);
		int64_t n = rlx_type_count(&t), j;
		int64_t *v = calloc((size_t)n, sizeof(*v));

		CHECK(v);
		for (j = 0; j < n; j++)
			if (t.dtype == RLX_I64)
				v[j] = (int64_t)(rlx_test_rand(seed) % 7);
			else
				((float *)(void *)v)[j] = draw(m, name, seed);
		for (k = 0; k < 2; k++)
			CHECKF(!rlx_session_set(s[k], io, name, t, v), "%s",
			       rlx_session_error(s[k])->text);
		free(v);
	}
}

static void one(rlx_value (*build)(struct model *m), enum rlx_precision precision)
{
	uint64_t seed = rlx_test_seed();
	struct model m = { .g = rlx_graph_new("model") };
	struct rlx_error err = { 0 };
	struct rlx_session *s[2];
	struct rlx_graph *d;
	unsigned int i;

	rlx_output(m.g, "loss", build(&m));
	CHECKF(!rlx_graph_finish(m.g), "%s", rlx_graph_error(m.g)->text);
	CHECKF(!rlx_graph_grad(m.g, m.wrt, m.n, &d, &err), "%s", err.text);
	s[0] = open_session(d, op_case_gpu(), precision);
	s[1] = open_session(d, "cpu", RLX_PRECISION_AS_WRITTEN);
	fill(&m, s, RLX_IO_INPUT, &seed);
	fill(&m, s, RLX_IO_PARAM, &seed);
	for (i = 0; i < 2; i++)
		CHECKF(!rlx_session_run(s[i]), "%s", rlx_session_error(s[i])->text);
	for (i = 0; i < m.n + 1; i++) {
		const struct rlx_program *p = rlx_session_program(s[0]);
		const char *name = rlx_program_io_name(p, RLX_IO_OUTPUT, i);
		struct rlx_type t = *rlx_program_io_type(p, RLX_IO_OUTPUT, i);
		struct rlx_distance far = rlx_model_distance(
			rlx_buf_ptr(rlx_session_buf(s[0], RLX_IO_OUTPUT, name)),
			rlx_buf_ptr(rlx_session_buf(s[1], RLX_IO_OUTPUT, name)),
			rlx_type_count(&t), 0);

		/*
		 * Each of some twenty roundings one after the other is 2^-11 or, in bf16, 2^-8 of
		 * its result at the most: an angle of 0.08 where all of them add up
		 */
		CHECKF(precision == RLX_PRECISION_AS_WRITTEN ? far.relative < 2e-5 :
		       far.cosine > 0.996, "%s: relative %g, cosine %.6f", name, far.relative,
		       far.cosine);
	}
	rlx_session_free(s[0]);
	rlx_session_free(s[1]);
	rlx_graph_put(d);
	rlx_graph_put(m.g);
}

TEST(convolutions) { one(conv_net, RLX_PRECISION_AS_WRITTEN); }
TEST(encoders) { one(encoder, RLX_PRECISION_AS_WRITTEN); }
/* weights that stay in f32 beside 16-bit floats */
TEST(convolutions_in_halves) { one(conv_net, RLX_PRECISION_MIXED_F16); }
TEST(encoders_in_halves) { one(encoder, RLX_PRECISION_MIXED_F16); }

/* Sums, windows and what lies between them channels last, in all their sizes. */
TEST(drawn_convolutions)
{
	int i;

	drawn_by = rlx_test_seed();
	for (i = 0; i < 6; i++) {
		one(drawn_net, i % 2 ? RLX_PRECISION_MIXED_BF16 : RLX_PRECISION_MIXED_F16);
		one(drawn_net, i % 2 ? RLX_PRECISION_F16 : RLX_PRECISION_AS_WRITTEN);
	}
}

TEST(overlapping_windows)
{
	one(pooled, RLX_PRECISION_AS_WRITTEN);
	one(pooled, RLX_PRECISION_MIXED_F16);
	one(pooled, RLX_PRECISION_MIXED_BF16);
}

/* What attention reads and its gradient writes within a product of others; see copies() */
TEST(packed_heads)
{
	static const enum rlx_precision precision[] = {
		RLX_PRECISION_AS_WRITTEN, RLX_PRECISION_MIXED_F16, RLX_PRECISION_MIXED_BF16,
	};
	size_t i;

	for (i = 0; i < sizeof(precision) / sizeof(precision[0]); i++) {
		one(packed, precision[i]);
		one(packed_otherwise, precision[i]);
		one(packed_and_read, precision[i]);
	}
}

/* Launches of the gradient of @build of ops that @is names, which write @least elements or more. */
static unsigned int launches(rlx_value (*build)(struct model *m), bool (*is)(int op),
			     int64_t least)
{
	struct model m = { .g = rlx_graph_new("model") };
	struct rlx_error err = { 0 };
	unsigned int n = 0, i;
	struct rlx_session *s;
	struct gpu_code *c;
	struct rlx_graph *d;

	rlx_output(m.g, "loss", build(&m));
	CHECKF(!rlx_graph_finish(m.g), "%s", rlx_graph_error(m.g)->text);
	CHECKF(!rlx_graph_grad(m.g, m.wrt, m.n, &d, &err), "%s", err.text);
	s = open_session(d, op_case_gpu(), RLX_PRECISION_MIXED_F16);
	c = (struct gpu_code *)s->p->code;
	for (i = 0; i < c->calls.n_call; i++) {
		const struct gpu_call *call = &gpu_calls(c)[i];
		const struct rlx_plan *p = c->base.plan;
		const struct rlx_plan_step *st = call->base.step == GPU_NO_STEP ? NULL :
						 &p->step[call->base.step];

		n += st && st->def && is((int)st->def->index) &&
		     rlx_type_count(&p->val[st->out[0]].type) >= least;
	}
	rlx_session_free(s);
	rlx_graph_put(d);
	rlx_graph_put(m.g);
	return n;
}

static bool slices_or_joins(int op)
{
	return op == RLX_OP_slice || op == RLX_OP_concat;
}

static bool turns(int op)
{
	return op == RLX_OP_transpose;
}

static unsigned int copies(rlx_value (*build)(struct model *m))
{
	return launches(build, slices_or_joins, 0);
}

/* The first image is turned, and its gradient is not asked for. */
TEST(gradients_stay_channels_last)
{
	CHECKF(launches(bottlenecks, turns, 8192) <= 1, "%u images are turned",
	       launches(bottlenecks, turns, 8192));
}

TEST(packed_heads_are_not_copied)
{
	CHECK_EQ(copies(packed), 0);
	CHECK_EQ(copies(packed_otherwise), 0);
	CHECKF(copies(packed_and_read) > 0, "q, which something else reads, is nowhere");
}

TEST_MAIN()
