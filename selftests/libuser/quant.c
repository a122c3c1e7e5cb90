// SPDX-License-Identifier: MIT
/* Quantising after training: accuracy, what runs natively, what moves, bad input. */
#include "base/alloc.h"
#include "ir/graph.h"
#include "rlx/quant.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/xy_net.h"

enum { SETS = 3 };

static const char *const devices[] = { "cpu", "ref" };

static rlx_value weight(struct xy_net *n, struct rlx_type t)
{
	return xy_floats(n, t, -0.5, 0.5);
}

static rlx_value dense(struct xy_net *n, rlx_value x, int64_t k, int64_t m)
{
	rlx_value w = weight(n, rlx_type(RLX_F32, k, m));
	rlx_value b = weight(n, rlx_type(RLX_F32, m));

	return rlx_emit(n->g, add, .a = rlx_emit(n->g, matmul, .a = x, .b = w), .b = b);
}

static void mlp(struct xy_net *n)
{
	rlx_value x = xy_begin(n, rlx_type(RLX_F32, 2, 5, 24));

	x = rlx_emit(n->g, relu, .x = dense(n, x, 24, 40));
	x = rlx_emit(n->g, gelu, .x = dense(n, x, 40, 33));
	xy_end(n, dense(n, x, 33, 7));
}

/* conv + relu, depthwise, grouped with strides, max pool, batch norm, 1 x 1 */
static void cnn(struct xy_net *n)
{
	rlx_value x = xy_begin(n, rlx_type(RLX_F32, 2, 3, 14, 13)), one[4];
	int i;

	x = rlx_emit(n->g, conv, .x = x, .w = weight(n, rlx_type(RLX_F32, 8, 3, 3, 3)),
		     .bias = weight(n, rlx_type(RLX_F32, 8)), .pad = RLX_INTS(1, 1, 1, 1));
	x = rlx_emit(n->g, relu, .x = x);
	x = rlx_emit(n->g, conv, .x = x, .w = weight(n, rlx_type(RLX_F32, 8, 1, 3, 3)),
		     .pad = RLX_INTS(1, 1, 1, 1), .groups = 8);
	for (i = 0; i < 4; i++)
		one[i] = weight(n, rlx_type(RLX_F32, 8));
	one[3] = rlx_emit(n->g, abs, .x = one[3]);
	one[3] = rlx_emit(n->g, add, .a = one[3], .b = rlx_scalar_const(n->g, RLX_F32, 1));
	x = rlx_emit(n->g, batch_norm, .x = x, .gamma = one[0], .beta = one[1],
		     .mean = one[2], .var = one[3], .eps = 1e-5f);
	x = rlx_emit(n->g, pool, .x = x, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(2, 2),
		     .stride = RLX_INTS(2, 2));
	x = rlx_emit(n->g, conv, .x = x, .w = weight(n, rlx_type(RLX_F32, 12, 4, 3, 2)),
		     .bias = weight(n, rlx_type(RLX_F32, 12)), .stride = RLX_INTS(2, 1),
		     .groups = 2);
	x = rlx_emit(n->g, sigmoid, .x = x);
	xy_end(n, rlx_emit(n->g, conv, .x = x, .w = weight(n, rlx_type(RLX_F32, 5, 12, 1, 1))));
}

static void fill(struct xy_net *n, float *x)
{
	xy_fill(n, x, -1, 2);
}

static float seen[SETS][XY_MOST];

static enum rlx_status calibrate(struct xy_net *n, struct rlx_quant_ranges **r,
				 struct rlx_error *err)
{
	struct rlx_named_tensor t[SETS];
	struct rlx_quant_set sets[SETS];
	int i;

	for (i = 0; i < SETS; i++) {
		fill(n, seen[i]);
		t[i] = (struct rlx_named_tensor){ "x", n->in, seen[i] };
		sets[i] = (struct rlx_quant_set){ &t[i], 1 };
	}
	return rlx_quant_calibrate(n->g, sets, SETS, r, err);
}

static struct rlx_graph *quantized(struct xy_net *n, const struct rlx_quant_opts *o)
{
	struct rlx_quant_ranges *r = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *q = NULL;

	CHECKF(!calibrate(n, &r, &err), "%s", err.text);
	CHECKF(!rlx_graph_quantize(n->g, r, o, &q, &err), "%s", err.text);
	rlx_quant_ranges_free(r);
	CHECK_EQ(rlx_graph_io_count(q, RLX_IO_INPUT), 1);
	CHECK_EQ(rlx_graph_io_count(q, RLX_IO_OUTPUT), 1);
	return q;
}

/* The one node of an op; nothing else if there are more. */
static const struct rlx_node *the(const struct rlx_graph *g, unsigned int op)
{
	unsigned int i;

	CHECK_EQ(rig_count(g, op), 1);
	for (i = 0; g->node[i].def->index != op; i++)
		;
	return &g->node[i];
}

/*
 * Greatest difference from the f32 graph, as a part of its greatest result: below
 * @most, and above @least, as 8 bits cannot give what f32 gives. On
 * data of the calibration: beyond its ranges values are clipped, and differ by more.
 */
static void check_off(struct xy_net *n, struct rlx_graph *q, double least, double most)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "ref" };
	static float want[XY_MOST], y[XY_MOST];
	const float *x = seen[SETS - 1];
	unsigned int d;
	double off, top;

	xy_run(n, n->g, &o, x, want, NULL);
	for (d = 0; d < 2; d++) {
		o.device = devices[d];
		xy_run(n, q, &o, x, y, NULL);
		off = xy_off(n, want, y, &top);
		CHECKF(off <= most * top, "%s: off by %g of %g", devices[d], off, top);
		CHECKF(off >= least * top, "%s: off by %g only", devices[d], off);
	}
}

static void check_near(struct xy_net *n, struct rlx_graph *q)
{
	check_off(n, q, 1e-6, 0.04);
}

/* Everything has a kernel, and the report names the op. */
static void check_native(struct xy_net *n, struct rlx_graph *q, const char *op)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	static float x[XY_MOST], y[XY_MOST];
	struct rlx_program_info info;
	struct rlx_program *p = NULL;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	fill(n, x);
	xy_run(n, q, &o, x, y, &p);
	rlx_program_info(p, &info);
	CHECK(info.native > 0);
	CHECK_EQ(info.host, 0);
	CHECK(f && !rlx_program_report(p, f));
	fclose(f);
	CHECKF(strstr(text, op), "no %s in:\n%s", op, text);
	free(text);
	rlx_program_put(p);
}

TEST(a_perceptron_runs_in_bytes)
{
	struct rlx_quant_opts o = { .size = sizeof(o) };
	struct rlx_graph *q;
	struct xy_net n;
	int i;

	for (i = 0; i < 4; i++) {
		o.symmetric = i & 1;
		o.per_tensor = i & 2;
		mlp(&n);
		q = quantized(&n, i ? &o : NULL);
		CHECK_EQ(rig_count(q, RLX_OP_matmul), 0);
		CHECK_EQ(rig_count(q, RLX_OP_qmatmul), 3);
		CHECK_EQ(rig_count(q, RLX_OP_add), 0);	/* the products add their bias */
		/* without a zero point, or with one scale a weight, steps are coarser */
		check_off(&n, q, 1e-6, i ? 0.06 : 0.04);
		check_native(&n, q, "qmatmul");
		rlx_graph_put(q);
		rlx_graph_put(n.g);
	}
}

TEST(convolutions_run_in_bytes)
{
	struct rlx_quant_opts o = { .size = sizeof(o) };
	struct rlx_graph *q;
	struct xy_net n;
	int i;

	for (i = 0; i < 2; i++) {
		o.symmetric = i;
		cnn(&n);
		q = quantized(&n, &o);
		CHECK_EQ(rig_count(q, RLX_OP_conv), 0);
		CHECK_EQ(rig_count(q, RLX_OP_qconv), 4);
		CHECK_EQ(rig_count(q, RLX_OP_batch_norm), 0);	/* in the weights */
		check_off(&n, q, 1e-6, i ? 0.06 : 0.04);
		check_native(&n, q, "qconv");
		rlx_graph_put(q);
		rlx_graph_put(n.g);
	}
}

TEST(a_product_before_a_relu_gives_bytes)
{
	struct rlx_graph *q;
	struct xy_net n;

	cnn(&n);
	q = quantized(&n, NULL);
	/* of the input, the pooled and the sigmoid; none between the first two */
	CHECK_EQ(rig_count(q, RLX_OP_quantize), 3);
	CHECK_EQ(rig_count(q, RLX_OP_relu), 0);
	rlx_graph_put(q);
	rlx_graph_put(n.g);
}

TEST(skipped_ops_stay_in_f32)
{
	const char *const skip[] = { "conv" }, *const bad[] = { "matmul", "softmax" };
	struct rlx_quant_opts o = { .size = sizeof(o), .skip = skip, .n_skip = 1 };
	struct rlx_quant_ranges *r = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *q = NULL;
	struct xy_net n;

	cnn(&n);
	q = quantized(&n, &o);
	CHECK_EQ(rig_count(q, RLX_OP_conv), 4);
	CHECK_EQ(rig_count(q, RLX_OP_qconv), 0);
	CHECK_EQ(rig_count(q, RLX_OP_quantize), 0);
	rlx_graph_put(q);
	q = NULL;
	CHECKF(!calibrate(&n, &r, &err), "%s", err.text);
	o.skip = bad;
	o.n_skip = 2;
	CHECK_EQ(rlx_graph_quantize(n.g, r, &o, &q, &err), RLX_ENOENT);
	CHECK(strstr(err.text, "softmax"));
	err = (struct rlx_error){ 0 };
	o.skip = NULL;
	CHECK_EQ(rlx_graph_quantize(n.g, r, &o, &q, &err), RLX_EINVAL);
	o.size = 0;
	CHECK_EQ(rlx_graph_quantize(n.g, r, &o, &q, &err), RLX_EINVAL);
	CHECK(!q);
	rlx_quant_ranges_free(r);
	rlx_graph_put(n.g);
}

/* y = transpose(reshape(x)) w */
TEST(quantising_moves_above_what_moves)
{
	const struct rlx_node *t, *m;
	struct rlx_graph *q;
	rlx_value x, s;
	struct xy_net n;

	x = xy_begin(&n, rlx_type(RLX_F32, 6, 20));
	s = rlx_emit(n.g, sin, .x = x);
	x = rlx_emit(n.g, reshape, .x = s, .shape = RLX_INTS(3, 2, 20));
	x = rlx_emit(n.g, transpose, .x = x, .perm = RLX_INTS(1, 0, 2));
	xy_end(&n, rlx_emit(n.g, matmul, .a = x, .b = weight(&n, rlx_type(RLX_F32, 20, 9))));
	q = quantized(&n, NULL);
	t = the(q, RLX_OP_transpose);
	m = the(q, RLX_OP_qmatmul);
	CHECK_EQ(q->val[t->out].type.dtype, RLX_U8);
	CHECK_EQ(m->in[0], t->out);
	CHECK_EQ(rlx_node_of(q, the(q, RLX_OP_quantize)->in[0])->def->index, RLX_OP_sin);
	check_near(&n, q);
	check_native(&n, q, "qmatmul");
	rlx_graph_put(q);
	rlx_graph_put(n.g);
}

/* One tensor read whole, sliced and transposed is quantised once. */
TEST(equal_scales_merge)
{
	rlx_value x, s, a, b, c;
	struct rlx_graph *q;
	struct xy_net n;

	x = xy_begin(&n, rlx_type(RLX_F32, 8, 8));
	s = rlx_emit(n.g, sin, .x = x);
	a = rlx_emit(n.g, matmul, .a = s, .b = weight(&n, rlx_type(RLX_F32, 8, 8)));
	b = rlx_emit(n.g, slice, .x = s, .axes = RLX_INTS(0), .starts = RLX_INTS(3),
		     .ends = RLX_INTS(4), .steps = RLX_INTS(1));
	b = rlx_emit(n.g, matmul, .a = b, .b = weight(&n, rlx_type(RLX_F32, 8, 8)));
	c = rlx_emit(n.g, transpose, .x = s, .perm = RLX_INTS(1, 0));
	c = rlx_emit(n.g, matmul, .a = c, .b = weight(&n, rlx_type(RLX_F32, 8, 8)));
	xy_end(&n, rlx_emit(n.g, add, .a = rlx_emit(n.g, add, .a = a, .b = b), .b = c));
	q = quantized(&n, NULL);
	CHECK_EQ(rig_count(q, RLX_OP_qmatmul), 3);
	the(q, RLX_OP_quantize);
	CHECK_EQ(q->val[the(q, RLX_OP_slice)->out].type.dtype, RLX_U8);
	CHECK_EQ(q->val[the(q, RLX_OP_transpose)->out].type.dtype, RLX_U8);
	check_near(&n, q);
	rlx_graph_put(q);
	rlx_graph_put(n.g);
}

/* Both parts of a concat become bytes; a slice alone is quantised after cutting. */
TEST(concat_joins_bytes_and_a_slice_cuts_floats)
{
	rlx_value x, a, b;
	struct rlx_graph *q;
	struct xy_net n;

	x = xy_begin(&n, rlx_type(RLX_F32, 8, 8));
	a = rlx_emit(n.g, slice, .x = rlx_emit(n.g, sin, .x = x), .axes = RLX_INTS(0),
		     .starts = RLX_INTS(3), .ends = RLX_INTS(5), .steps = RLX_INTS(1));
	b = rlx_emit(n.g, exp, .x = x);
	x = rlx_emit(n.g, concat, .axis = 0, .xs = RLX_VALUES(a, b));
	xy_end(&n, rlx_emit(n.g, matmul, .a = x, .b = weight(&n, rlx_type(RLX_F32, 8, 8))));
	q = quantized(&n, NULL);
	CHECK_EQ(rig_count(q, RLX_OP_quantize), 2);
	CHECK_EQ(q->val[the(q, RLX_OP_concat)->out].type.dtype, RLX_U8);
	CHECK_EQ(q->val[the(q, RLX_OP_slice)->out].type.dtype, RLX_F32);
	check_near(&n, q);
	rlx_graph_put(q);
	rlx_graph_put(n.g);
}

/* An input of zeros tells no scale, an infinite weight has none: nothing changes. */
TEST(what_has_no_scale_stays)
{
	static const float zero[48], w[8] = { 1, 2, INFINITY, 3 };
	struct rlx_named_tensor t = { "x", rlx_type(RLX_F32, 6, 8), zero };
	struct rlx_quant_set set = { &t, 1 };
	struct rlx_quant_ranges *r = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *q = NULL;
	struct xy_net n;
	rlx_value x = xy_begin(&n, t.type);

	xy_end(&n, dense(&n, x, 8, 4));
	CHECKF(!rlx_quant_calibrate(n.g, &set, 1, &r, &err), "%s", err.text);
	CHECKF(!rlx_graph_quantize(n.g, r, NULL, &q, &err), "%s", err.text);
	CHECK_EQ(rig_count(q, RLX_OP_qmatmul), 0);
	fill(&n, seen[SETS - 1]);
	check_off(&n, q, 0, 1e-6);
	rlx_quant_ranges_free(r);
	rlx_graph_put(q);
	rlx_graph_put(n.g);
	x = xy_begin(&n, t.type);
	x = rlx_emit(n.g, matmul, .a = x, .b = rlx_constant(n.g, rlx_type(RLX_F32, 8, 1), w));
	xy_end(&n, x);
	q = quantized(&n, NULL);
	CHECK_EQ(rig_count(q, RLX_OP_qmatmul), 0);
	rlx_graph_put(q);
	rlx_graph_put(n.g);
}

/* A bias too large for the sums, and one that is computed, are added in f32. */
TEST(a_bias_that_does_not_fit_is_added)
{
	float b[5] = { 1e9f, 0, 0, 0, 1 };
	struct rlx_graph *q;
	rlx_value x, w, bias;
	struct xy_net n;
	int i;

	for (i = 0; i < 2; i++) {
		x = xy_begin(&n, rlx_type(RLX_F32, 1, 3, 7));
		w = weight(&n, rlx_type(RLX_F32, 5, 3, 2));
		bias = i ? rlx_constant(n.g, rlx_type(RLX_F32, 5), b) :
		       rlx_emit(n.g, reduce, .kind = RLX_REDUCE_SUM,
				.x = rlx_emit(n.g, slice, .x = x, .axes = RLX_INTS(2),
					      .starts = RLX_INTS(0), .ends = RLX_INTS(5),
					      .steps = RLX_INTS(1)),
				.axes = RLX_INTS(0, 1));
		xy_end(&n, rlx_emit(n.g, conv, .x = x, .w = w, .bias = bias));
		q = quantized(&n, NULL);
		CHECK_EQ(rig_count(q, RLX_OP_qconv), 1);
		CHECK_EQ(rig_count(q, RLX_OP_add), 1);
		check_off(&n, q, 0, 0.03);
		rlx_graph_put(q);
		rlx_graph_put(n.g);
	}
}

/*
 * Of two convolutions by one weight the second finds the scales that the first made: its bias is in
 * units of those, and becomes integers as the first's does.
 */
TEST(one_weight_twice_has_its_scales_twice)
{
	unsigned int i, biased = 0;
	struct rlx_graph *q;
	struct xy_net n;
	rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 2, 4, 6, 6)), w;

	w = weight(&n, rlx_type(RLX_F32, 4, 4, 3, 3));
	for (i = 0; i < 3; i++)
		x = rlx_emit(n.g, conv, .x = x, .w = w, .pad = RLX_INTS(1, 1, 1, 1),
			     .bias = weight(&n, rlx_type(RLX_F32, 4)));
	xy_end(&n, x);
	q = quantized(&n, NULL);
	for (i = 0; i < q->n_node; i++)
		biased += q->node[i].def->index == RLX_OP_qconv && q->node[i].in[2];
	CHECK_EQ(biased, 3);
	check_near(&n, q);
	rlx_graph_put(q);
	rlx_graph_put(n.g);
}

TEST(params_may_be_given_once)
{
	struct rlx_error err = { 0 };
	struct rlx_quant_ranges *r = NULL;
	float data[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
	struct rlx_named_tensor t[2] = {
		{ "x", rlx_type(RLX_F32, 3, 4), data }, { "p", rlx_type(RLX_F32, 4), data },
	};
	struct rlx_quant_set sets[2] = { { t, 2 }, { t, 1 } };
	struct rlx_graph *q = NULL;
	struct xy_net n;
	rlx_value x = xy_begin(&n, t[0].type), p = rlx_param(n.g, "p", t[1].type);

	xy_end(&n, dense(&n, rlx_emit(n.g, mul, .a = x, .b = p), 4, 5));
	CHECKF(!rlx_quant_calibrate(n.g, sets, 2, &r, &err), "%s", err.text);
	CHECKF(!rlx_graph_quantize(n.g, r, NULL, &q, &err), "%s", err.text);
	CHECK_EQ(rig_count(q, RLX_OP_qmatmul), 1);
	CHECK_EQ(rlx_graph_io_count(q, RLX_IO_PARAM), 1);
	rlx_graph_put(q);
	rlx_quant_ranges_free(r);
	r = NULL;
	sets[0].n = 1;
	CHECK_EQ(rlx_quant_calibrate(n.g, sets, 2, &r, &err), RLX_EINVAL);
	CHECK(strstr(err.text, "'p'") && !r);
	rlx_graph_put(n.g);
}

static enum rlx_status one_set(struct xy_net *n, struct rlx_named_tensor t,
			       struct rlx_error *err)
{
	struct rlx_quant_set set = { &t, 1 };
	struct rlx_quant_ranges *r = NULL;
	enum rlx_status st;

	*err = (struct rlx_error){ 0 };
	st = rlx_quant_calibrate(n->g, &set, 1, &r, err);
	CHECK(!r == !!st);
	rlx_quant_ranges_free(r);
	return st;
}

TEST(bad_input_is_refused)
{
	struct rlx_quant_set empty = { 0 }, torn = { NULL, 1 };
	struct rlx_quant_ranges *r = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *q = NULL;
	static float x[XY_MOST];
	struct rlx_named_tensor t;
	struct xy_net n, other;

	mlp(&n);
	cnn(&other);
	fill(&n, x);
	CHECK_EQ(rlx_quant_calibrate(n.g, &empty, 1, &r, &err), RLX_EINVAL);
	CHECK(strstr(err.text, "'x'"));
	CHECK_EQ(rlx_quant_calibrate(n.g, &torn, 1, &r, &err), RLX_EINVAL);
	CHECK_EQ(rlx_quant_calibrate(n.g, &empty, 0, &r, &err), RLX_EINVAL);
	CHECK_EQ(rlx_quant_calibrate(NULL, &empty, 1, &r, &err), RLX_EINVAL);
	CHECK_EQ(rlx_quant_calibrate(n.g, NULL, 1, &r, &err), RLX_EINVAL);
	CHECK_EQ(rlx_quant_calibrate(n.g, &empty, 1, NULL, &err), RLX_EINVAL);
	t = (struct rlx_named_tensor){ "x", other.in, x };
	CHECKF(one_set(&n, t, &err) == RLX_ESHAPE, "%s", err.text);
	t = (struct rlx_named_tensor){ "x", n.in, NULL };
	CHECK_EQ(one_set(&n, t, &err), RLX_EINVAL);
	t.data = x;
	CHECK_EQ(one_set(&n, t, &err), 0);
	x[17] = NAN;
	CHECK_EQ(one_set(&n, t, &err), RLX_EINVAL);
	CHECK(strstr(err.text, "'x'"));
	x[17] = -INFINITY;
	CHECK_EQ(one_set(&n, t, &err), RLX_EINVAL);
	err = (struct rlx_error){ 0 };
	CHECKF(!calibrate(&other, &r, &err), "%s", err.text);
	CHECK_EQ(rlx_graph_quantize(n.g, r, NULL, &q, &err), RLX_EINVAL);
	CHECK(strstr(err.text, "another graph"));
	CHECK_EQ(rlx_graph_quantize(NULL, r, NULL, &q, &err), RLX_EINVAL);
	CHECK_EQ(rlx_graph_quantize(n.g, NULL, NULL, &q, &err), RLX_EINVAL);
	CHECK_EQ(rlx_graph_quantize(other.g, r, NULL, NULL, &err), RLX_EINVAL);
	CHECK(!q);
	rlx_quant_ranges_free(r);
	rlx_quant_ranges_free(NULL);
	rlx_graph_put(n.g);
	rlx_graph_put(other.g);
}

TEST(an_unknown_name_is_refused)
{
	static float x[XY_MOST];
	struct rlx_error err = { 0 };
	struct rlx_quant_ranges *r = NULL;
	struct rlx_quant_set set;
	struct rlx_named_tensor t[2];
	struct xy_net n;

	mlp(&n);
	fill(&n, x);
	t[0] = (struct rlx_named_tensor){ "x", n.in, x };
	t[1] = (struct rlx_named_tensor){ "z", n.in, x };
	set = (struct rlx_quant_set){ t, 2 };
	CHECK_EQ(rlx_quant_calibrate(n.g, &set, 1, &r, &err), RLX_ENOENT);
	CHECK(strstr(err.text, "z") && !r);
	rlx_graph_put(n.g);
}

/* Finite inputs, but not what comes of them. */
TEST(what_overflows_inside_is_named)
{
	float data[6] = { 1, 2, 3, 200, 5, 6 };
	struct rlx_error err = { 0 };
	struct xy_net n;
	rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 2, 3));

	xy_end(&n, dense(&n, rlx_emit(n.g, exp, .x = x), 3, 4));
	CHECK_EQ(one_set(&n, (struct rlx_named_tensor){ "x", n.in, data }, &err),
		 RLX_EINVAL);
	CHECKF(strstr(err.text, "'exp'") && strstr(err.text, "quant.c"), "%s", err.text);
	data[3] = 4;
	CHECKF(!one_set(&n, (struct rlx_named_tensor){ "x", n.in, data }, &err), "%s",
	       err.text);
	rlx_graph_put(n.g);
}

static enum rlx_status whole(void *ctx)
{
	struct xy_net *n = ctx;
	struct rlx_quant_ranges *r = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *q = NULL;
	enum rlx_status st = calibrate(n, &r, &err);

	if (!st)
		st = rlx_graph_quantize(n->g, r, NULL, &q, &err);
	CHECKF(!st || st == RLX_ENOMEM, "%s: %s", rlx_status_name(st), err.text);
	rlx_graph_put(q);
	rlx_quant_ranges_free(r);
	return st;
}

TEST(no_memory_anywhere)
{
	struct xy_net n;

	mlp(&n);
	CHECK_EQ(whole(&n), 0);
	CHECK(rlx_oom_sweep(whole, &n) > 50);
	rlx_graph_put(n.g);
	cnn(&n);
	CHECK_EQ(whole(&n), 0);
	CHECK(rlx_oom_sweep(whole, &n) > 50);
	rlx_graph_put(n.g);
}

TEST_MAIN()
