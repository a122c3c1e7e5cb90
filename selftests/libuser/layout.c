// SPDX-License-Identifier: MIT
/* Which convolutions a CPU blocks, and what they give either way. */
#include <inttypes.h>
#include <math.h>

#include "ir/graph.h"
#include "rlx/grad.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/xy_net.h"

/* Convolutions after the passes: all, and blocked ones. */
struct found {
	unsigned int	all, blocked;
};

/* Of x[n, ic, size, size], or of x[n, ic, size] where @line. */
struct form {
	int64_t		n, ic, oc, size, k, stride, dilation, pad;
	bool		line;
	bool		changes;	/* its weights are of each run */
	bool		transpose;
	bool		by_channel;	/* a group for each; oc is ic */
};

static void look(void *ctx, const char *pass, const struct rlx_graph *g)
{
	struct found *f = ctx;
	uint32_t i;

	if (strcmp(pass, "layout"))
		return;
	*f = (struct found){ 0 };
	for (i = 0; i < g->n_node; i++) {
		const struct rlx_node *n = &g->node[i];

		if (n->def->index != RLX_OP_fused_conv && n->def->index != RLX_OP_conv &&
		    n->def->index != RLX_OP_conv_transpose)
			continue;
		f->all++;
		f->blocked += n->def->index == RLX_OP_fused_conv &&
			      ((const struct rlx_op_fused_conv *)n->args)->block;
	}
}

static struct rlx_type input_of(const struct form *f)
{
	return f->line ? rlx_type(RLX_F32, f->n, f->ic, f->size) :
			 rlx_type(RLX_F32, f->n, f->ic, f->size, f->size);
}

/* Constants, or those and a mean of @x. */
static rlx_value weights(struct xy_net *n, const struct form *f, rlx_value x)
{
	const int64_t in = f->by_channel ? 1 : f->transpose ? f->oc : f->ic;
	const int64_t out = f->transpose ? f->ic : f->oc;
	rlx_value w = xy_floats(n, f->line ? rlx_type(RLX_F32, out, in, f->k) :
				   rlx_type(RLX_F32, out, in, f->k, f->k), -1, 1);

	return !f->changes ? w :
	       rlx_emit(n->g, add, .a = w, .b = rlx_emit(n->g, reduce, .x = x,
							 .kind = RLX_REDUCE_MEAN));
}

static rlx_value conv(struct xy_net *n, const struct form *f, rlx_value x)
{
	rlx_value w = weights(n, f, x), bias = xy_floats(n, rlx_type(RLX_F32, f->oc), -1, 1);
	const int64_t groups = f->by_channel ? f->ic : 1;
	const uint32_t nd = f->line ? 1 : 2;
	int64_t s[2] = { f->stride, f->stride }, d[2] = { f->dilation, f->dilation };
	int64_t p[4] = { f->pad, f->pad, f->pad, f->pad };

	if (f->transpose)
		return rlx_emit(n->g, conv_transpose, .x = x, .w = w, .bias = bias,
				.stride = { s, nd }, .dilation = { d, nd }, .pad = { p, 2 * nd },
				.groups = groups);
	return rlx_emit(n->g, conv, .x = x, .w = w, .bias = bias, .stride = { s, nd },
			.dilation = { d, nd }, .pad = { p, 2 * nd }, .groups = groups);
}

/*
 * The CPU against the evaluator in double, by the largest result, or by @size, what sums are like
 * before terms cancel out: the only result that there is may be little.
 */
static struct found check(struct xy_net *n, double most, double size)
{
	static float x[XY_MOST], y[XY_MOST], want[XY_MOST];
	struct found found = { 0 };
	struct rlx_compile_opts ref = { .size = sizeof(ref), .device = "ref" };
	struct rlx_compile_opts cpu = { .size = sizeof(cpu), .device = "cpu", .dump = look,
					.flags = RLX_COMPILE_NATIVE, .dump_ctx = &found };
	double off, top;

	xy_fill(n, x, -1, 1);
	xy_run(n, n->g, &ref, x, want, NULL);
	xy_run(n, n->g, &cpu, x, y, NULL);
	off = xy_off(n, want, y, &top);
	CHECKF(off <= most * fmax(top, size), "off by %g of %g", off, top);
	rlx_graph_put(n->g);
	return found;
}

static struct found check_form(const struct form *f, bool relu)
{
	struct xy_net n;
	rlx_value y = conv(&n, f, xy_begin(&n, input_of(f)));

	xy_end(&n, relu ? rlx_emit(n.g, relu, .x = y) : y);
	/* products of two that are even from -1 to 1 have a standard deviation of 1/3 */
	return check(&n, 1e-5, sqrt(f->by_channel ? 1 : (double)f->ic) / 3);
}

/* Blocks would be filled up with what nobody reads, and x is large beside what is computed. */
TEST(a_lone_convolution_of_few_channels_stays_plain)
{
	static const struct form forms[] = {
		{ 1, 384, 9, 48, 1, 1, 1, 0, false },
		{ 2, 200, 9, 300, 2, 1, 1, 0, true },
		{ 1, 130, 10, 61, 1, 2, 1, 0, false },
	};
	unsigned int i;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct found f = check_form(&forms[i], i & 1);

		CHECK_EQ(f.all, 1);
		CHECKF(!f.blocked, "form %u is blocked", i);
	}
}

TEST(a_lone_convolution_of_many_channels_is_blocked)
{
	static const struct form forms[] = {
		{ 1, 64, 64, 14, 3, 1, 1, 1, false },
		{ 1, 64, 128, 300, 5, 1, 1, 2, true },
	};
	unsigned int i;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		CHECK_EQ(check_form(&forms[i], i & 1).blocked, 1);
}

/* Gradients in x are transposes, and their weights and the forward ones' change with each step. */
TEST(weights_that_change_and_transposes_are_blocked)
{
	static const struct form forms[] = {
		{ 4, 32, 32, 14, 3, 1, 1, 1, .changes = true },
		{ 4, 32, 48, 14, 3, 1, 1, 1, .changes = true, .transpose = true },
		{ 2, 64, 32, 15, 5, 1, 1, 0, .transpose = true },
		{ 2, 33, 33, 20, 3, 1, 1, 1, .changes = true, .transpose = true,
		  .by_channel = true },
		{ 2, 64, 64, 18, 5, 1, 2, 3, .line = true, .changes = true, .transpose = true },
	};
	unsigned int i;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct found f = check_form(&forms[i], i & 1);

		CHECKF(f.all == 1 && f.blocked == 1, "form %u is plain", i);
	}
}

/* A gradient's weights are images, more of them than of results; zeros stand between strides. */
TEST(weights_as_large_as_images_and_strides_of_transposes_stay_plain)
{
	static const struct form forms[] = {
		{ 16, 20, 20, 14, 14, 1, 1, 1, .changes = true },
		{ 2, 64, 32, 9, 3, 2, 1, 1, .transpose = true },
		{ 2, 64, 32, 9, 3, 1, 1, 3, .transpose = true },	/* it leaves some out */
	};
	unsigned int i;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		CHECKF(!check_form(&forms[i], i & 1).blocked, "form %u is blocked", i);
}

/* Reorders of what no cache holds cost more than one tap gains, but where weights stay. */
TEST(large_images_by_channel)
{
	const struct form stays = { 1, 16, 16, 210, 1, 1, 1, 0, .by_channel = true };
	struct form changes = stays;

	changes.changes = true;
	CHECK_EQ(check_form(&stays, false).blocked, 1);
	CHECK_EQ(check_form(&changes, false).blocked, 0);
}

/* What another reads blocked is made so: it has no reorder of its own then. */
TEST(a_chain_of_convolutions_is_blocked)
{
	static const struct form first = { 1, 96, 9, 24, 1, 1, 1, 0, false };
	static const struct form next = { 1, 9, 64, 24, 3, 1, 1, 1, false };
	struct found f;
	struct xy_net n;
	rlx_value y = conv(&n, &first, xy_begin(&n, input_of(&first)));

	xy_end(&n, conv(&n, &next, rlx_emit(n.g, sigmoid, .x = y)));
	f = check(&n, 1e-5, 0);
	CHECK_EQ(f.all, 2);
	CHECK_EQ(f.blocked, 2);
}

static int64_t drawn(uint64_t *seed, uint64_t n)
{
	return (int64_t)((rlx_test_rand(seed) >> 20) % n);
}

TEST(drawn_convolutions)
{
	uint64_t seed = rlx_test_seed();
	unsigned int i, plain = 0;

	for (i = 0; i < 60; i++) {
		struct form f;
		int64_t out;

		do {
			f = (struct form){
				.n = 1 + drawn(&seed, 2),
				.ic = 1 + drawn(&seed, 70),
				.oc = 1 + drawn(&seed, 40),
				.size = 1 + drawn(&seed, 40),
				.k = 1 + drawn(&seed, 4),
				.stride = 1 + drawn(&seed, 3),
				.dilation = 1 + drawn(&seed, 2),
				.pad = drawn(&seed, 3),
				.line = drawn(&seed, 2),
				.changes = drawn(&seed, 2),
				.transpose = drawn(&seed, 3) == 0,
				.by_channel = drawn(&seed, 6) == 0,
			};
			f.oc = f.by_channel ? f.ic : f.oc;
			f.stride = f.transpose && drawn(&seed, 4) ? 1 : f.stride;
			out = f.transpose ?
			      (f.size - 1) * f.stride + (f.k - 1) * f.dilation + 1 - 2 * f.pad :
			      f.size + 2 * f.pad - (f.k - 1) * f.dilation;
		} while (out < 1 || f.n * f.ic * f.oc * out * out * f.k * f.k > 6000000);
		printf("# %" PRId64 " x %" PRId64 " -> %" PRId64 ", %" PRId64 "%s k%" PRId64
		       " s%" PRId64 " d%" PRId64 " p%" PRId64 "%s%s%s\n", f.n, f.ic, f.oc, f.size,
		       f.line ? "" : "^2", f.k, f.stride, f.dilation, f.pad,
		       f.by_channel ? " by channel" : "", f.transpose ? " transposed" : "",
		       f.changes ? " of changing weights" : "");
		plain += !check_form(&f, i & 1).blocked;
	}
	printf("# %u plain\n", plain);
}

/* A convolution whose weights are @w, each channel around its mean, relu, a maximum of 2 x 2. */
static rlx_value layer(struct rlx_graph *g, rlx_value x, rlx_value w, int64_t pad, bool pool)
{
	rlx_value y = rlx_emit(g, conv, .x = x, .w = w, .pad = RLX_INTS(pad, pad, pad, pad));
	rlx_value mean = rlx_emit(g, reduce, .x = y, .kind = RLX_REDUCE_MEAN,
				  .axes = RLX_INTS(0, 2, 3), .keep_dims = true);
	rlx_value off = rlx_emit(g, sub, .a = y, .b = mean);
	rlx_value var = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = off, .b = off),
				 .kind = RLX_REDUCE_MEAN, .axes = RLX_INTS(0, 2, 3),
				 .keep_dims = true);

	y = rlx_emit(g, relu, .x = rlx_emit(g, div, .a = off, .b = rlx_emit(g, sqrt, .x = var)));
	return !pool ? y : rlx_emit(g, pool, .x = y, .kind = RLX_POOL_MAX,
				    .kernel = RLX_INTS(2, 2), .stride = RLX_INTS(2, 2));
}

/* Gradients in the weights of two layers, one behind the other, their mean squares 1. */
static void gradients(struct xy_net *n, rlx_value x, int64_t mid, int64_t oc, int64_t k)
{
	rlx_value w[2] = { xy_floats(n, rlx_type(RLX_F32, mid, n->in.dim[1], k, k), -1, 1),
			   xy_floats(n, rlx_type(RLX_F32, oc, mid, 3, 3), -1, 1) }, d[2], y, s;
	int i;

	y = layer(n->g, x, w[0], k / 2, true);
	y = layer(n->g, y, w[1], 1, false);
	y = rlx_emit(n->g, mul, .a = y, .b = xy_floats(n, *rlx_type_of(n->g, y), -1, 1));
	y = rlx_emit(n->g, reduce, .x = y);
	rlx_vjp(n->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &y, 1 },
					.wrt = { w, 2 } }, d);
	for (i = 0; i < 2; i++) {
		d[i] = rlx_emit(n->g, reshape, .x = d[i], .shape = RLX_INTS(-1));
		s = rlx_emit(n->g, reduce, .x = rlx_emit(n->g, mul, .a = d[i], .b = d[i]),
			     .kind = RLX_REDUCE_MEAN);
		d[i] = rlx_emit(n->g, div, .a = d[i], .b = rlx_emit(n->g, sqrt, .x = s));
	}
	xy_end(n, rlx_emit(n->g, concat, .xs = { d, 2 }));
}

/* Root of the mean of squares of what @got is off @want. */
static double off_by(const float *want, const float *got, int64_t n)
{
	double sum = 0;
	int64_t i;

	for (i = 0; i < n; i++)
		sum += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
	return sqrt(sum / (double)n);
}

/* Gradients that stay in blocks, beside those of the evaluator: off by less than @most. */
static void drawn_gradients(enum rlx_precision precision, double most)
{
	static float x[XY_MOST], y[XY_MOST], want[XY_MOST];
	struct rlx_compile_opts ref = { .size = sizeof(ref), .device = "ref" };
	struct rlx_compile_opts cpu = { .size = sizeof(cpu), .device = "cpu",
					.precision = precision };
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < 12; i++) {
		int64_t n = 2 + drawn(&seed, 4), ic = 2 + drawn(&seed, 20);
		int64_t mid = 1 + drawn(&seed, 40), oc = 1 + drawn(&seed, 24);
		int64_t size = 8 + 2 * drawn(&seed, 4), k = 1 + 2 * drawn(&seed, 2), off;
		struct xy_net net;

		gradients(&net, xy_begin(&net, rlx_type(RLX_F32, n, ic, size, size)), mid, oc, k);
		off = mid * ic * k * k;
		xy_fill(&net, x, -1, 1);
		xy_run(&net, net.g, &ref, x, want, NULL);
		xy_run(&net, net.g, &cpu, x, y, NULL);
		printf("# %" PRId64 " x %" PRId64 " -> %" PRId64 " -> %" PRId64 ", %" PRId64
		       "^2 k%" PRId64 ": off by %.3g and %.3g\n", n, ic, mid, oc, size, k,
		       off_by(want, y, off), off_by(want + off, y + off, oc * mid * 9));
		CHECK(off_by(want, y, off) < most);
		CHECK(off_by(want + off, y + off, oc * mid * 9) < most);
		rlx_graph_put(net.g);
	}
}

/*
 * What is rounded to bf16 turns signs of relu, and maxima: off by 0.2 at most, as without blocks.
 * Channels in a wrong order give 1.4, and a tap that is missing 0.33.
 */
TEST(drawn_gradients_of_bf16)
{
	drawn_gradients(RLX_PRECISION_MIXED_BF16, 0.3);
}

/* Here one sign or maximum is turned at most, where two are within f32's roundings. */
TEST(drawn_gradients_of_f32)
{
	drawn_gradients(RLX_PRECISION_AS_WRITTEN, 0.02);
}

TEST_MAIN()
