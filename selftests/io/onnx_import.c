// SPDX-License-Identifier: MIT
/*
 * The ONNX importer on models written here: what it folds away, where it stops
 * and how it goes on, and what it refuses.
 */
#include <math.h>
#include <pthread.h>

#include "base/alloc.h"
#include "ir/graph.h"
#include "selftests/io/onnx_model.h"

static const int64_t dims_n4[] = { -1, 4 };

/* How many nodes of the graph are not leaves. */
static unsigned int work(const struct rlx_graph *g)
{
	unsigned int i, n = 0;

	for (i = 0; i < g->n_node; i++)
		n += !(g->node[i].def->traits & RLX_T_LEAF);
	return n;
}

static unsigned int count_of(const struct rlx_graph *g, const struct rlx_op_def *def)
{
	unsigned int i, n = 0;

	for (i = 0; i < g->n_node; i++)
		n += g->node[i].def == def;
	return n;
}

/* y = reshape(x, [shape(x)[0] * 2, -1]): only the reshape is left. */
TEST(shape_arithmetic_disappears)
{
	static const int64_t zero = 0, two = 2, minus = -1;
	const struct rlx_type want = rlx_type(RLX_F32, 6, 2);
	struct rlx_spec x = f32_spec("x", 3, 4);
	struct rlx_segment seg;
	struct out g = { .n = 0 }, n, o;
	struct onnx_file *f;

	put_info(&g, 11, "x", ONNX_FLOAT, dims_n4, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, dims_n4, 2);
	put_i64_tensor(&g, 5, "zero", &zero, 1);
	put_i64_tensor(&g, 5, "two", &two, 1);
	put_i64_tensor(&g, 5, "rest", &minus, 1);
	put_node(&g, "Shape x > s");
	put_node(&g, "Gather s zero > n");
	put_node(&g, "Mul n two > n2");
	node_of(&n, "Concat n2 rest > t");
	put_attr_i(&n, "axis", 0);
	put_msg(&g, 1, &n);
	put_node(&g, "Reshape x t > y");
	model_of(&o, &g, 13);
	f = open_model(&o);
	build(f, (struct rlx_instance){ &x, 1 }, &seg);
	/* The file may go: nothing is left of it, or it is still referenced. */
	onnx_put(f);
	CHECK_EQ(seg.need, RLX_NEED_NOTHING);
	CHECK_EQ(work(seg.g), 1);
	CHECK_EQ(seg.n_out, 1);
	CHECK_STR(seg.out[0].name, "y");
	CHECK(rlx_type_equal(&seg.out[0].type, &want));
	rlx_segment_fini(&seg);
}

/* Weights that are quantized are left so, however small: products of bytes read them. */
TEST(quantized_weights_stay_quantized)
{
	static const int64_t dims[] = { 2, 4 };
	static const int8_t w[4] = { 3, -5, 7, 9 };
	const float scale = 0.5f;
	struct rlx_spec x = f32_spec("x", 2, 4);
	struct out g = { .n = 0 }, t = { .n = 0 }, o;
	struct rlx_segment seg;
	struct onnx_file *f;

	put_info(&g, 11, "x", ONNX_FLOAT, dims, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, dims, 2);
	tensor_head(&t, "w", ONNX_INT8, 4);
	put_bytes(&t, 9, w, sizeof(w));
	put_msg(&g, 5, &t);
	t.n = 0;
	tensor_head(&t, "s", ONNX_FLOAT, 1);
	put_bytes(&t, 9, &scale, sizeof(scale));
	put_msg(&g, 5, &t);
	put_node(&g, "DequantizeLinear w s > d");
	put_node(&g, "MatMul x d > y");
	model_of(&o, &g, 13);
	f = open_model(&o);
	build(f, (struct rlx_instance){ &x, 1 }, &seg);
	onnx_put(f);
	CHECK_EQ(count_of(seg.g, rlx_op_dequantize.def), 1);
	rlx_segment_fini(&seg);
}

static struct rlx_blob *only_constant(const struct rlx_graph *g)
{
	struct rlx_blob *b = NULL;
	unsigned int i;

	for (i = 0; i < g->n_node; i++) {
		const struct rlx_op_constant *c = g->node[i].args;

		if (g->node[i].def != rlx_op_constant.def)
			continue;
		CHECK(!b);
		b = c->data;
	}
	CHECK(b);
	return b;
}

/* x + w with @n weights */
static struct onnx_file *weights_model(const float *w, size_t n)
{
	static struct out g, o, t;
	const int64_t dim[2] = { 1, (int64_t)n };

	g.n = o.n = t.n = 0;
	tensor_head(&t, "w", ONNX_FLOAT, (int64_t)n);
	put_bytes(&t, 9, w, n * sizeof(*w));
	put_msg(&g, 5, &t);
	put_info(&g, 11, "x", ONNX_FLOAT, dim, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
	put_node(&g, "Add x w > y");
	model_of(&o, &g, 13);
	return open_model(&o);
}

TEST(weights_outlive_the_file_and_are_shared)
{
	struct rlx_spec x = f32_spec("x", 1, 1024);
	struct rlx_instance in = { &x, 1 };
	struct rlx_segment a, b;
	struct rlx_blob *blob;
	struct onnx_file *f;
	float w[1024];
	unsigned int i;

	for (i = 0; i < 1024; i++)
		w[i] = (float)i;
	f = weights_model(w, 1024);
	build(f, in, &a);
	build(f, in, &b);
	blob = only_constant(a.g);
	CHECK(only_constant(b.g) == blob);
	rlx_segment_fini(&a);
	onnx_put(f);
	CHECK(!memcmp(rlx_blob_data(blob), w, sizeof(w)));
	CHECK_EQ((uintptr_t)rlx_blob_data(blob) % sizeof(float), 0);
	rlx_segment_fini(&b);
	/* Nobody holds it any more: the next import makes it anew. */
	f = weights_model(w, 1024);
	build(f, in, &a);
	CHECK(!memcmp(rlx_blob_data(only_constant(a.g)), w, sizeof(w)));
	rlx_segment_fini(&a);
	build(f, in, &a);
	CHECK(!memcmp(rlx_blob_data(only_constant(a.g)), w, sizeof(w)));
	rlx_segment_fini(&a);
	onnx_put(f);
}

static void reshape_by_input(struct out *g)
{
	static const int64_t two = 2;

	put_info(g, 11, "x", ONNX_FLOAT, dims_n4, 2);
	put_info(g, 11, "s", ONNX_INT64, &two, 1);
	put_info(g, 12, "y", ONNX_FLOAT, dims_n4, 2);
	put_node(g, "Reshape x s > y");
}

/* A shape that is a model input: its contents are asked for. */
TEST(shape_inputs_specialise)
{
	static const int64_t want[2] = { 2, 6 };
	struct rlx_spec spec[2] = {
		f32_spec("x", 3, 4),
		{ .kind = RLX_SPEC_TENSOR, .name = "s",
		  .type = rlx_type(RLX_I64, 2) },
	};
	struct rlx_segment seg;
	struct out g = { .n = 0 }, o;
	struct onnx_file *f;

	reshape_by_input(&g);
	model_of(&o, &g, 13);
	f = open_model(&o);
	build(f, (struct rlx_instance){ spec, 2 }, &seg);
	CHECK_EQ(seg.need, RLX_NEED_INPUTS);
	CHECK_EQ(seg.inputs, 2);
	CHECK(!seg.g);
	rlx_segment_fini(&seg);
	spec[1].data = want;
	build(f, (struct rlx_instance){ spec, 2 }, &seg);
	CHECK_EQ(seg.need, RLX_NEED_NOTHING);
	CHECK_EQ(seg.out[0].type.dim[1], 6);
	/* A known input is no input of the graph any more. */
	CHECK_EQ(rlx_graph_io_count(seg.g, RLX_IO_INPUT), 1);
	rlx_segment_fini(&seg);
	onnx_put(f);
}

/* Near 0 exp(x) has lost what it is to give less 1. */
TEST(elu_selu_celu_keep_their_digits)
{
	static const struct {
		const char	*node;
		double		 gamma;
	} act[] = {
		{ "Elu x > y", 1 }, { "Celu x > y", 1 },
		{ "Selu x > y", 1.67326319217681884765625 * 1.05070102214813232421875 },
	};
	const float x[4] = { -1e-3f, -3e-6f, -1e-20f, -2 };
	const char *const names[] = { "x", NULL };
	const void *const data[] = { x };
	struct rlx_spec spec = f32_spec("x", 1, 4);
	struct rlx_segment seg;
	struct rlx_tensor y;
	unsigned int i, k;

	for (i = 0; i < 3; i++) {
		struct out g = { .n = 0 }, o;
		struct onnx_file *f;

		put_info(&g, 11, "x", ONNX_FLOAT, dims_n4, 2);
		put_info(&g, 12, "y", ONNX_FLOAT, dims_n4, 2);
		put_node(&g, act[i].node);
		model_of(&o, &g, 13);
		f = open_model(&o);
		build(f, (struct rlx_instance){ &spec, 1 }, &seg);
		run(&seg, names, data, &y);
		for (k = 0; k < 4; k++) {
			double want = act[i].gamma * expm1((double)x[k]);

			CHECKF(fabs((double)((float *)y.data)[k] - want) <= 3e-7 * fabs(want),
			       "%s: %.9g for %.9g, not %.9g", act[i].node,
			       (double)((float *)y.data)[k], (double)x[k], want);
		}
		rlx_segment_fini(&seg);
		onnx_put(f);
	}
}

/*
 * y = reshape(x + x, cast(sum(x))): the shape depends on float data, so the
 * import runs in two segments, and x + x crosses the cut.
 */
TEST(data_dependent_shapes_cut)
{
	static const float data[4] = { 1, 0, 2, 1 };
	const char *names[] = { "x", NULL, NULL };
	const void *given[] = { data, NULL };
	struct rlx_spec x = f32_spec("x", 1, 4);
	static const int64_t one = 1;
	struct rlx_segment a, b;
	struct rlx_answer answer;
	struct rlx_tensor out[4], last[2];
	struct out g = { .n = 0 }, n, o;
	struct onnx_file *f;
	unsigned int i;

	put_info(&g, 11, "x", ONNX_FLOAT, dims_n4, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
	put_node(&g, "Add x x > twice");
	node_of(&n, "ReduceSum x > sum");
	put_attr_i(&n, "keepdims", 0);
	put_msg(&g, 1, &n);
	put_i64_tensor(&g, 5, "one", &one, 1);
	put_node(&g, "Reshape sum one > sum1");
	node_of(&n, "Cast sum1 > shape");
	put_attr_i(&n, "to", ONNX_INT64);
	put_msg(&g, 1, &n);
	put_node(&g, "Reshape twice shape > flat");
	put_node(&g, "Neg flat > y");
	model_of(&o, &g, 13);
	f = open_model(&o);
	build(f, (struct rlx_instance){ &x, 1 }, &a);
	CHECK_EQ(a.need, RLX_NEED_VALUES);
	CHECK_EQ(a.n_needed, 1);
	CHECK_EQ(rlx_graph_io_count(a.g, RLX_IO_OUTPUT), 2);
	run(&a, names, given, out);
	CHECK_EQ(*(int64_t *)out[0].data, 4);
	answer = (struct rlx_answer){ 1, out };
	build(f, (struct rlx_instance){ &x, 1, 1, &answer }, &b);
	CHECK_EQ(b.need, RLX_NEED_NOTHING);
	/* The sum is not computed again: twice comes from the first segment. */
	CHECK_EQ(work(b.g), 2);
	names[1] = rlx_graph_io_name(a.g, RLX_IO_OUTPUT, 1);
	given[1] = out[1].data;
	run(&b, names, given, last);
	CHECK_EQ(last[0].type.rank, 1);
	for (i = 0; i < 4; i++)
		CHECK(((float *)last[0].data)[i] == -2 * data[i]);
	rlx_segment_fini(&a);
	rlx_segment_fini(&b);
	onnx_put(f);
}

TEST(functions_are_inlined_with_their_attributes)
{
	struct out g = { .n = 0 }, fn = { .n = 0 }, n, a = { .n = 0 }, o;
	struct out ops = { .n = 0 };
	struct rlx_spec x = f32_spec("x", 2, 3);
	struct rlx_segment seg;
	struct onnx_file *f;

	/* Turn(x; axis) = Flatten(x; axis = axis) */
	node_of(&n, "Flatten p > q");
	put_str(&a, 1, "axis");
	put_str(&a, 21, "way");
	put_int(&a, 20, ONNX_ATTR_INT);
	put_msg(&n, 5, &a);
	put_str(&fn, 1, "Turn");
	put_str(&fn, 4, "p");
	put_str(&fn, 5, "q");
	put_str(&fn, 6, "way");
	put_msg(&fn, 7, &n);
	put_int(&ops, 2, 13);
	put_msg(&fn, 9, &ops);
	put_str(&fn, 10, "mine");
	node_of(&n, "Turn x > y");
	put_str(&n, 7, "mine");
	put_attr_i(&n, "way", 2);
	put_msg(&g, 1, &n);
	put_info(&g, 11, "x", ONNX_FLOAT, (const int64_t[]){ 2, 3 }, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
	model_of(&o, &g, 13);
	put_msg(&o, 25, &fn);
	f = open_model(&o);
	build(f, (struct rlx_instance){ &x, 1 }, &seg);
	CHECK_EQ(seg.out[0].type.dim[0], 6);
	CHECK_EQ(seg.out[0].type.dim[1], 1);
	rlx_segment_fini(&seg);
	onnx_put(f);
}

/* A function that calls itself must not exhaust the stack. */
/*
 * Loop: v = v + v while v < 100, optionally with v of each step stacked. The
 * condition depends on data; @limit is a name for the trip count or "_".
 */
static void doubling_loop(struct out *g, const char *limit, bool stacked)
{
	struct out body = { .n = 0 }, n;
	const float hundred = 100;
	struct out t = { .n = 0 };
	char text[64];

	put_str(&t, 8, "hundred");
	put_int(&t, 2, ONNX_FLOAT);
	put_bytes(&t, 9, &hundred, 4);
	put_msg(g, 5, &t);
	put_info(&body, 11, "i", ONNX_INT64, NULL, 0);
	put_info(&body, 11, "c", ONNX_BOOL, NULL, 0);
	put_info(&body, 11, "v", ONNX_FLOAT, NULL, 0);
	put_info(&body, 12, "c2", ONNX_BOOL, NULL, 0);
	put_info(&body, 12, "v2", ONNX_FLOAT, NULL, 0);
	if (stacked)
		put_info(&body, 12, "v3", ONNX_FLOAT, NULL, 0);
	put_node(&body, "Add v v > v2");
	put_node(&body, "Less v2 hundred > c2");
	if (stacked)
		put_node(&body, "Identity v2 > v3");
	put_info(g, 11, "x", ONNX_FLOAT, NULL, 0);
	put_info(g, 12, "y", ONNX_FLOAT, NULL, 0);
	if (stacked)
		put_info(g, 12, "all", ONNX_FLOAT, NULL, 0);
	put_node(g, "Less x hundred > go");
	snprintf(text, sizeof(text), "Loop %s go x > y%s", limit,
		 stacked ? " all" : "");
	node_of(&n, text);
	put_attr_graph(&n, "body", &body);
	put_msg(g, 1, &n);
}

static struct rlx_spec scalar_spec(const char *name)
{
	return (struct rlx_spec){ .kind = RLX_SPEC_TENSOR, .name = name,
				   .type = rlx_scalar(RLX_F32) };
}

/* Without stacked outputs: one graph, whatever the number of steps. */
TEST(loops_that_end_by_data_are_one_graph)
{
	static const float start[3] = { 3, 200, 60 };
	static const float want[3] = { 192, 200, 120 };
	const char *names[] = { "x", NULL };
	struct rlx_spec x = scalar_spec("x");
	struct out g = { .n = 0 }, o;
	struct rlx_segment seg;
	struct rlx_tensor out[2];
	struct onnx_file *f;
	int i;

	doubling_loop(&g, "_", false);
	model_of(&o, &g, 13);
	f = open_model(&o);
	build(f, (struct rlx_instance){ &x, 1 }, &seg);
	CHECK_EQ(seg.need, RLX_NEED_NOTHING);
	for (i = 0; i < 3; i++) {
		const void *data[] = { &start[i] };

		run(&seg, names, data, out);
		CHECK(*(float *)out[0].data == want[i]);
	}
	rlx_segment_fini(&seg);
	onnx_put(f);
}

/* The limit comes from data too: trunc(x) steps at most. */
TEST(loops_with_a_limit_from_data)
{
	static const float start[2] = { 3, 1 };
	static const float want[2] = { 24, 2 };
	const char *names[] = { "x", NULL };
	struct rlx_spec x = scalar_spec("x");
	struct out g = { .n = 0 }, n, o;
	struct rlx_segment seg;
	struct rlx_tensor out[2];
	struct onnx_file *f;
	int i;

	node_of(&n, "Cast x > m");
	put_attr_i(&n, "to", ONNX_INT64);
	put_msg(&g, 1, &n);
	doubling_loop(&g, "m", false);
	model_of(&o, &g, 13);
	f = open_model(&o);
	build(f, (struct rlx_instance){ &x, 1 }, &seg);
	CHECK_EQ(seg.need, RLX_NEED_NOTHING);
	for (i = 0; i < 2; i++) {
		const void *data[] = { &start[i] };

		run(&seg, names, data, out);
		CHECK(*(float *)out[0].data == want[i]);
	}
	rlx_segment_fini(&seg);
	onnx_put(f);
}

/* Stacked outputs have as many rows as there are steps: two segments. */
TEST(loops_that_stack_are_counted_first)
{
	static const float start = 30;
	const char *names[] = { "x", NULL };
	const void *data[] = { &start, NULL };
	struct rlx_spec x = scalar_spec("x");
	struct out g = { .n = 0 }, o;
	struct rlx_segment a, b;
	struct rlx_tensor first[4], out[4];
	struct rlx_answer answer = { 1, first };
	struct onnx_file *f;

	doubling_loop(&g, "_", true);
	model_of(&o, &g, 13);
	f = open_model(&o);
	build(f, (struct rlx_instance){ &x, 1 }, &a);
	CHECK_EQ(a.need, RLX_NEED_VALUES);
	run(&a, names, data, first);
	CHECK_EQ(*(int64_t *)first[0].data, 2);
	build(f, (struct rlx_instance){ &x, 1, 1, &answer }, &b);
	CHECK_EQ(b.need, RLX_NEED_NOTHING);
	run(&b, names, data, out);
	CHECK(*(float *)out[0].data == 120);
	CHECK_EQ(out[1].type.dim[0], 2);
	CHECK(((float *)out[1].data)[0] == 60);
	CHECK(((float *)out[1].data)[1] == 120);
	rlx_segment_fini(&a);
	rlx_segment_fini(&b);
	onnx_put(f);
}

/* Both branches in one graph when only data decide. */
TEST(conditions_from_data_keep_both_branches)
{
	static const float in[2] = { -3, 5 }, want[2] = { 3, 10 };
	const char *names[] = { "x", NULL };
	struct rlx_spec x = scalar_spec("x");
	struct out g = { .n = 0 }, t = { .n = 0 }, e = { .n = 0 }, n, o;
	struct out z = { .n = 0 };
	const float zero = 0;
	struct rlx_segment seg;
	struct rlx_tensor out[2];
	struct onnx_file *f;
	int i;

	put_str(&z, 8, "zero");
	put_int(&z, 2, ONNX_FLOAT);
	put_bytes(&z, 9, &zero, 4);
	put_msg(&g, 5, &z);
	put_info(&g, 11, "x", ONNX_FLOAT, NULL, 0);
	put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
	put_node(&g, "Less x zero > neg");
	put_node(&t, "Neg x > a");
	put_info(&t, 12, "a", ONNX_FLOAT, NULL, 0);
	put_node(&e, "Add x x > b");
	put_info(&e, 12, "b", ONNX_FLOAT, NULL, 0);
	node_of(&n, "If neg > y");
	put_attr_graph(&n, "then_branch", &t);
	put_attr_graph(&n, "else_branch", &e);
	put_msg(&g, 1, &n);
	model_of(&o, &g, 13);
	f = open_model(&o);
	build(f, (struct rlx_instance){ &x, 1 }, &seg);
	CHECK_EQ(seg.need, RLX_NEED_NOTHING);
	for (i = 0; i < 2; i++) {
		const void *data[] = { &in[i] };

		run(&seg, names, data, out);
		CHECK(*(float *)out[0].data == want[i]);
	}
	rlx_segment_fini(&seg);
	onnx_put(f);
}

TEST(endless_recursion_is_refused)
{
	struct out g = { .n = 0 }, fn = { .n = 0 }, n, o, ops = { .n = 0 };
	struct rlx_spec x = f32_spec("x", 2, 4);
	struct rlx_instance in = { &x, 1 };
	struct rlx_error err = { 0 };
	struct rlx_segment seg;
	struct onnx_file *f;

	put_str(&fn, 1, "F");
	put_str(&fn, 4, "p");
	put_str(&fn, 5, "q");
	node_of(&n, "F p > q");
	put_str(&n, 7, "mine");
	put_msg(&fn, 7, &n);
	put_int(&ops, 2, 13);
	put_msg(&fn, 9, &ops);
	put_str(&fn, 10, "mine");
	node_of(&n, "F x > y");
	put_str(&n, 7, "mine");
	put_msg(&g, 1, &n);
	put_info(&g, 11, "x", ONNX_FLOAT, dims_n4, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
	model_of(&o, &g, 13);
	put_msg(&o, 25, &fn);
	f = open_model(&o);
	CHECK_EQ(onnx_build(f, &in, &seg, &err), RLX_EPARSE);
	CHECK(strstr(err.text, "nest more than"));
	onnx_put(f);
}

TEST(errors_name_op_opset_and_node)
{
	static const int64_t ones[9] = { 1, 1, 1, 1, 1, 1, 1, 2, 4 };
	struct rlx_spec x = f32_spec("x", 2, 4), bad;
	struct out g = { .n = 0 }, n;

	put_info(&g, 11, "x", ONNX_FLOAT, dims_n4, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
	put_node(&g, "NoSuchOp x > y");
	refuse(&g, 13, x, RLX_ENOSUP, "NoSuchOp (opset 13, node 'y')");
	g.n = 0;
	put_info(&g, 11, "x", ONNX_FLOAT, dims_n4, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
	node_of(&n, "Relu x > y");
	put_attr_i(&n, "speed", 11);
	put_msg(&g, 1, &n);
	refuse(&g, 13, x, RLX_ENOSUP, "attribute speed is not supported");
	g.n = 0;
	put_info(&g, 11, "x", ONNX_FLOAT, dims_n4, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
	put_node(&g, "Relu nowhere > y");
	refuse(&g, 13, x, RLX_EPARSE, "'nowhere' is made by no earlier node");
	g.n = 0;
	put_info(&g, 11, "x", ONNX_FLOAT, dims_n4, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
	put_i64_tensor(&g, 5, "nine", ones, 9);
	put_node(&g, "Reshape x nine > y");
	refuse(&g, 13, x, RLX_ENOSUP, "Reshape (opset 13, node 'y'): rank 9 is over 8");
	g.n = 0;
	put_info(&g, 11, "x", ONNX_FLOAT, dims_n4, 2);
	put_info(&g, 12, "z", ONNX_FLOAT, NULL, 0);
	put_node(&g, "Relu x > y");
	refuse(&g, 13, x, RLX_EPARSE, "output 'z' is made by no node");
	put_node(&g, "Abs x > y");
	refuse(&g, 13, x, RLX_EPARSE, "two values are named 'y'");
	g.n = 0;
	put_info(&g, 11, "x", ONNX_FLOAT, dims_n4, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
	put_node(&g, "MatMul x x > y");
	refuse(&g, 13, x, RLX_ESHAPE, "MatMul (opset 13, node 'y')");
	bad = x;
	bad.name = "q";
	refuse(&g, 13, bad, RLX_ENOENT, "no input 'q'");
	bad = x;
	bad.type.dim[1] = 5;
	refuse(&g, 13, bad, RLX_ESHAPE, "dim 1 of input 'x' is 5");
	bad = x;
	bad.type.dtype = RLX_I64;
	refuse(&g, 13, bad, RLX_ETYPE, "input 'x' has type i64");
	bad = x;
	bad.type.rank = 1;
	refuse(&g, 13, bad, RLX_ESHAPE, "has rank 1");
	bad = x;
	bad.type.dim[0] = -1;
	refuse(&g, 13, bad, RLX_ESHAPE, "no valid type");
}

TEST(missing_inputs_are_named)
{
	struct rlx_instance in = { 0 };
	struct rlx_error err = { 0 };
	struct out g = { .n = 0 }, o;
	struct rlx_segment seg;
	struct onnx_file *f;

	reshape_by_input(&g);
	model_of(&o, &g, 13);
	f = open_model(&o);
	CHECK_EQ(onnx_build(f, &in, &seg, &err), RLX_ENOENT);
	CHECK(strstr(err.text, "'x'"));
	onnx_put(f);
}

TEST(wrong_answers_are_refused)
{
	struct rlx_spec spec[2] = {
		f32_spec("x", 3, 4),
		{ .kind = RLX_SPEC_TENSOR, .name = "s",
		  .type = rlx_type(RLX_F32, 3, 4) },
	};
	struct out g = { .n = 0 }, n, o;
	struct rlx_answer answer = { 0 };
	struct rlx_instance in = { spec, 1, 1, &answer };
	struct rlx_error err = { 0 };
	struct rlx_segment seg;
	struct onnx_file *f;

	put_info(&g, 11, "x", ONNX_FLOAT, dims_n4, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
	node_of(&n, "Cast x > shape");
	put_attr_i(&n, "to", ONNX_INT64);
	put_msg(&g, 1, &n);
	put_node(&g, "Reshape x shape > y");
	model_of(&o, &g, 13);
	f = open_model(&o);
	CHECK_EQ(onnx_build(f, &in, &seg, &err), RLX_EINVAL);
	CHECK(strstr(err.text, "answer 0"));
	onnx_put(f);
}

/* Fail each allocation of an import in turn: no memory, and nothing else. */
static void sweep(const struct out *g, const struct rlx_spec *spec, uint32_t n)
{
	struct rlx_instance in = { spec, n };
	struct onnx_file *f;
	struct out o;
	uint64_t k;

	model_of(&o, g, 13);
	f = open_model(&o);
	for (k = 1; k < 2000; k++) {
		struct rlx_error err = { 0 };
		struct rlx_segment seg;
		enum rlx_status st;

		rlx_alloc_fail_nth(k);
		st = onnx_build(f, &in, &seg, &err);
		rlx_alloc_fail_nth(0);
		if (!st) {
			rlx_segment_fini(&seg);
			break;
		}
		CHECKF(st == RLX_ENOMEM, "%s: %s", rlx_status_name(st),
		       err.text);
		CHECK(err.text[0]);
	}
	CHECK(k > 10 && k < 2000);
	onnx_put(f);
}

TEST(no_allocation_failure_leaks_or_crashes)
{
	static const int64_t want[2] = { 2, 6 };
	struct rlx_spec spec[2] = {
		f32_spec("x", 3, 4),
		{ .kind = RLX_SPEC_TENSOR, .name = "s",
		  .type = rlx_type(RLX_I64, 2), .data = want },
	};
	struct rlx_spec x = scalar_spec("x");
	struct out g = { .n = 0 };

	reshape_by_input(&g);
	put_node(&g, "Shape y > sh");
	put_node(&g, "Mul sh sh > sq");
	put_info(&g, 12, "sq", ONNX_INT64, NULL, 0);
	sweep(&g, spec, 2);
	g.n = 0;
	doubling_loop(&g, "_", false);
	sweep(&g, &x, 1);
	g.n = 0;
	doubling_loop(&g, "_", true);
	sweep(&g, &x, 1);
}

struct shared {
	struct onnx_file	*file;
	const float		*want;
	bool			 ok;
};

static void *import_often(void *arg)
{
	struct shared *s = arg;
	struct rlx_spec x = f32_spec("x", 1, 1024);
	struct rlx_instance in = { &x, 1 };
	struct rlx_segment seg;
	int i;

	s->ok = true;
	for (i = 0; i < 200 && s->ok; i++) {
		if (onnx_build(s->file, &in, &seg, NULL)) {
			s->ok = false;
			break;
		}
		s->ok = !memcmp(rlx_blob_data(only_constant(seg.g)), s->want,
				1024 * sizeof(float));
		rlx_segment_fini(&seg);
	}
	return NULL;
}

/* The last reference to a shared tensor goes while another is being taken. */
TEST(threads_may_import_one_file)
{
	struct shared s[4];
	pthread_t t[4];
	float w[1024];
	int i;

	for (i = 0; i < 1024; i++)
		w[i] = (float)i;
	s[0].file = weights_model(w, 1024);
	for (i = 0; i < 4; i++) {
		s[i] = (struct shared){ s[0].file, w, false };
		CHECK(!pthread_create(&t[i], NULL, import_often, &s[i]));
	}
	for (i = 0; i < 4; i++) {
		CHECK(!pthread_join(t[i], NULL));
		CHECK(s[i].ok);
	}
	onnx_put(s[0].file);
}

TEST_MAIN()
