// SPDX-License-Identifier: MIT
/* What ONNX ops give where attributes, types and shapes are seldom ones. */
#include "selftests/io/onnx_model.h"

/* An initializer [n] of f32. */
static void put_f32_tensor(struct out *g, const char *name, const float *v, size_t n)
{
	struct out t = { .n = 0 };

	tensor_head(&t, name, ONNX_FLOAT, (int64_t)n);
	put_bytes(&t, 9, v, n * sizeof(*v));
	put_msg(g, 5, &t);
}

/* The model's only output for its only input; @domain: whose ops it has besides. */
static struct rlx_tensor result_of(const struct out *g, int64_t opset, struct rlx_spec x,
				   const void *data, const char *domain)
{
	static struct rlx_tensor out[8];
	struct rlx_segment seg;
	struct onnx_file *f;
	struct out o, v = { .n = 0 };

	model_of(&o, g, opset);
	put_str(&v, 1, domain);
	put_int(&v, 2, 1);
	if (*domain)
		put_msg(&o, 8, &v);
	f = open_model(&o);
	build(f, (struct rlx_instance){ &x, 1 }, &seg);
	CHECK_EQ(seg.need, RLX_NEED_NOTHING);
	run(&seg, (const char *const[]){ x.name, NULL }, (const void *const[]){ data }, out);
	rlx_segment_fini(&seg);
	onnx_put(f);
	return out[0];
}

static struct rlx_tensor result(const struct out *g, int64_t opset, struct rlx_spec x,
				const void *data)
{
	return result_of(g, opset, x, data, "");
}

static void check_f32(struct rlx_tensor y, const float *want, int64_t n)
{
	int64_t i;

	CHECK_EQ(y.type.dtype, RLX_F32);
	CHECK_EQ(rlx_type_count(&y.type), n);
	for (i = 0; i < n; i++)
		CHECKF(((const float *)y.data)[i] == want[i], "element %lld is %g, not %g",
		       (long long)i, (double)((const float *)y.data)[i], (double)want[i]);
}

/* s + e, also as what is stacked. */
static void put_sums(struct out *n)
{
	struct out body = { .n = 0 };

	put_node(&body, "Add s e > t");
	put_node(&body, "Identity t > u");
	put_info(&body, 11, "s", ONNX_FLOAT, NULL, 0);
	put_info(&body, 11, "e", ONNX_FLOAT, NULL, 0);
	put_info(&body, 12, "t", ONNX_FLOAT, NULL, 0);
	put_info(&body, 12, "u", ONNX_FLOAT, NULL, 0);
	put_attr_graph(n, "body", &body);
	put_attr_i(n, "num_scan_inputs", 1);
}

/* Opset 8 names the directions otherwise; they were read and not followed. */
TEST(scan_of_opset_8_goes_backwards)
{
	static const float zero = 0, x[] = { 1, 2, 4 }, sums[] = { 4, 6, 7 };
	static const int64_t dims[] = { 1, 3 }, back = 1;
	struct out g = { .n = 0 }, n;

	put_info(&g, 11, "x", ONNX_FLOAT, dims, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
	put_f32_tensor(&g, "zero", &zero, 1);
	node_of(&n, "Scan _ zero x > last y");
	put_sums(&n);
	put_attr_ints(&n, "directions", &back, 1);
	put_msg(&g, 1, &n);
	check_f32(result(&g, 8, f32_spec("x", 1, 3), x), sums, 3);
}

/* An axis that is not there was taken for 0, or for the order that there was. */
TEST(scan_refuses_axes_that_are_not_there)
{
	static const int64_t dims[] = { 3, 1 }, far[] = { 2, -3 };
	static const char *const attr[] = { "scan_input_axes", "scan_output_axes" };
	static const float zero = 0;
	struct out g, n;
	int i;

	for (i = 0; i < 4; i++) {
		g.n = 0;
		put_info(&g, 11, "x", ONNX_FLOAT, dims, 2);
		put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
		put_f32_tensor(&g, "zero", &zero, 1);
		node_of(&n, "Scan zero x > last y");
		put_sums(&n);
		put_attr_ints(&n, attr[i / 2], &far[i % 2], 1);
		put_msg(&g, 1, &n);
		refuse(&g, 11, f32_spec("x", 3, 1), RLX_ESHAPE, "of a tensor of rank 2");
	}
}

/* Over no axes, but for the steps that are no reduction. */
TEST(reductions_over_no_axes_do_the_rest)
{
	static const struct {
		const char	*op;
		float		 want[2];
	} c[] = {
		{ "ReduceL1", { 4, 3 } }, { "ReduceL2", { 4, 3 } },
		{ "ReduceSumSquare", { 16, 9 } }, { "ReduceLogSumExp", { -4, 3 } },
		{ "ReduceSum", { -4, 3 } },
	};
	static const float x[] = { -4, 3 };
	static const int64_t dims[] = { 1, 2 };
	struct out g, n;
	char line[64];
	size_t i;

	for (i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		g.n = 0;
		put_info(&g, 11, "x", ONNX_FLOAT, dims, 2);
		put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
		snprintf(line, sizeof(line), "%s x > y", c[i].op);
		node_of(&n, line);
		put_attr_i(&n, "noop_with_empty_axes", 1);
		put_msg(&g, 1, &n);
		check_f32(result(&g, 18, f32_spec("x", 1, 2), x), c[i].want, 2);
	}
}

/* Whatever is far in front of everything is that, backwards and forwards. */
TEST(slices_from_and_to_far_in_front)
{
	static const int64_t far[] = { INT64_MIN, INT64_MIN + 1, -(1ll << 62) - 1, -(1ll << 62),
				       -(1ll << 62) + 7, -(1ll << 62) + (1 << 20), -9 };
	static const float x[] = { 1, 2, 3, 4 }, back[] = { 3, 2, 1 };
	static const int64_t dims[] = { 1, 4 }, axis = 1, last = -2, minus = -1, end = 9;
	struct out g;
	size_t i;

	for (i = 0; i < 2 * sizeof(far) / sizeof(far[0]); i++) {
		g.n = 0;
		put_info(&g, 11, "x", ONNX_FLOAT, dims, 2);
		put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
		put_i64_tensor(&g, 5, "from", i & 1 ? &far[i / 2] : &last, 1);
		put_i64_tensor(&g, 5, "to", i & 1 ? &end : &far[i / 2], 1);
		put_i64_tensor(&g, 5, "axes", &axis, 1);
		put_i64_tensor(&g, 5, "steps", i & 1 ? &axis : &minus, 1);
		put_node(&g, "Slice x from to axes steps > y");
		check_f32(result(&g, 17, f32_spec("x", 1, 4), x), i & 1 ? x : back, i & 1 ? 4 : 3);
	}
}

/* The standard has them of integers, too: 5 = sqrt(9 + 16), 2 = [log 10], 4 = [4.05]. */
TEST(roots_and_logarithms_of_integers_are_reduced)
{
	static const char *const op[] = { "ReduceL2", "ReduceLogSum", "ReduceLogSumExp" };
	static const int64_t x[3][2] = { { 3, -4 }, { 4, 6 }, { 4, 1 } }, want[] = { 5, 2, 4 };
	struct rlx_spec spec = f32_spec("x", 1, 2);
	static const int64_t dims[] = { 1, 2 };
	struct rlx_tensor y;
	struct out g;
	char line[64];
	int i;

	spec.type.dtype = RLX_I64;
	for (i = 0; i < 3; i++) {
		g.n = 0;
		put_info(&g, 11, "x", ONNX_INT64, dims, 2);
		put_info(&g, 12, "y", ONNX_INT64, NULL, 0);
		snprintf(line, sizeof(line), "%s x > y", op[i]);
		put_node(&g, line);
		y = result(&g, 13, spec, x[i]);
		CHECK_EQ(y.type.dtype, RLX_I64);
		CHECK_EQ(*(const int64_t *)y.data, want[i]);
	}
}

/* A condition may be longer than the axis: known, and where only its number is asked for. */
TEST(compress_drops_what_is_behind_the_axis)
{
	static const int64_t dims[] = { 1, 4 }, flags[] = { 1, 0, 1, 1 }, line = -1, one = 1;
	static const float x[] = { 1, 2, 3, 4 }, zero = 0;
	struct rlx_tensor count = { rlx_type(RLX_I64), (void *)(uintptr_t)&one };
	struct rlx_answer answer = { 1, &count };
	struct rlx_spec spec = f32_spec("x", 1, 4);
	struct rlx_segment seg;
	struct onnx_file *f;
	struct out g, n, o;
	int known;

	for (known = 0; known < 2; known++) {
		g.n = 0;
		put_info(&g, 11, "x", ONNX_FLOAT, dims, 2);
		put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
		put_i64_tensor(&g, 5, "flags", flags, 4);
		put_i64_tensor(&g, 5, "line", &line, 1);
		put_f32_tensor(&g, "zero", &zero, 1);
		put_node(&g, "Reshape x line > r");
		node_of(&n, "Cast flags > c");
		put_attr_i(&n, "to", ONNX_BOOL);
		put_msg(&g, 1, &n);
		put_node(&g, "Greater r zero > d");
		node_of(&n, known ? "Compress x c > y" : "Compress x d > y");
		put_attr_i(&n, "axis", 0);
		put_msg(&g, 1, &n);
		if (known) {
			check_f32(result(&g, 13, spec, x), x, 4);
			continue;
		}
		model_of(&o, &g, 13);
		f = open_model(&o);
		build(f, (struct rlx_instance){ .spec = &spec, .n_spec = 1, .answer = &answer,
						.n_answer = 1 }, &seg);
		CHECK_EQ(seg.need, RLX_NEED_NOTHING);
		rlx_segment_fini(&seg);
		onnx_put(f);
	}
}

/* 5 less 2, and 9 more 0: a bias of bytes has no negative, nor 0.5 one of integers. */
TEST(shrink_of_integers_has_its_bias)
{
	static const struct {
		float	bias;
		uint8_t	want[2];
	} c[] = { { 2, { 3, 7 } }, { 0.5f, { 4, 8 } } };
	static const int64_t dims[] = { 1, 2 };
	static const uint8_t x[] = { 5, 9 };
	struct rlx_spec spec = f32_spec("x", 1, 2);
	struct out g, n, a;
	int i;

	spec.type.dtype = RLX_U8;
	for (i = 0; i < 2; i++) {
		g.n = a.n = 0;
		put_info(&g, 11, "x", ONNX_UINT8, dims, 2);
		put_info(&g, 12, "y", ONNX_UINT8, NULL, 0);
		node_of(&n, "Shrink x > y");
		put_str(&a, 1, "bias");
		put_f32(&a, 2, c[i].bias);
		put_int(&a, 20, ONNX_ATTR_FLOAT);
		put_msg(&n, 5, &a);
		put_msg(&g, 1, &n);
		CHECK(!memcmp(result(&g, 9, spec, x).data, c[i].want, 2));
	}
}

/* The type that the node asks for, not that of the scale. */
TEST(dequantize_gives_its_output_dtype)
{
	static const int64_t dims[] = { 1, 2 };
	static const uint8_t x[] = { 5, 9 };
	struct rlx_spec spec = f32_spec("x", 1, 2);
	static const float half = 0.5;
	struct out g = { .n = 0 }, n;
	struct rlx_tensor y;

	spec.type.dtype = RLX_U8;
	put_info(&g, 11, "x", ONNX_UINT8, dims, 2);
	put_info(&g, 12, "y", ONNX_DOUBLE, NULL, 0);
	put_f32_tensor(&g, "half", &half, 1);
	node_of(&n, "DequantizeLinear x half > y");
	put_attr_i(&n, "output_dtype", ONNX_DOUBLE);
	put_msg(&g, 1, &n);
	y = result(&g, 23, spec, x);
	CHECK_EQ(y.type.dtype, RLX_F64);
	CHECKF(((const double *)y.data)[0] == 2.5, "%g", ((const double *)y.data)[0]);
}

/* Nor is what is no float one, and the error says which attribute is meant. */
TEST(dequantize_gives_floats)
{
	static const int64_t dims[] = { 1, 2 }, to[] = { ONNX_STRING, ONNX_INT32, 99 };
	struct rlx_spec spec = f32_spec("x", 1, 2);
	static const float half = 0.5;
	struct out g, n;
	int i;

	spec.type.dtype = RLX_U8;
	for (i = 0; i < 3; i++) {
		g.n = 0;
		put_info(&g, 11, "x", ONNX_UINT8, dims, 2);
		put_info(&g, 12, "y", ONNX_FLOAT, NULL, 0);
		put_f32_tensor(&g, "half", &half, 1);
		node_of(&n, "DequantizeLinear x half > y");
		put_attr_i(&n, "output_dtype", to[i]);
		put_msg(&g, 1, &n);
		refuse(&g, 23, spec, RLX_ENOSUP, "attribute output_dtype=");
	}
}

/* An initializer of strings, each of which ends with a blank in @text. */
static void put_strings(struct out *g, const char *name, const char *text)
{
	struct out t = { .n = 0 };
	const char *end;
	int64_t n = 0;

	for (; (end = strchr(text, ' ')); text = end + 1, n++)
		put_bytes(&t, 6, text, (size_t)(end - text));
	tensor_head(&t, name, ONNX_STRING, n);
	put_msg(g, 5, &t);
}

static void begin_f32(struct out *g)
{
	static const int64_t dims[] = { 1, -1 };

	g->n = 0;
	put_info(g, 11, "x", ONNX_FLOAT, dims, 2);
	put_info(g, 12, "y", ONNX_FLOAT, NULL, 0);
}

/* Texts are read to their ends, and integers as such. */
TEST(casts_of_strings_keep_all_digits)
{
	static const int64_t want[] = { 9007199254740993, INT64_MIN };
	static const float x = 0;
	struct rlx_tensor y;
	char text[128];
	struct out g, n;

	begin_f32(&g);
	put_strings(&g, "s", "9007199254740993 -9223372036854775808 ");
	node_of(&n, "Cast s > y");
	put_attr_i(&n, "to", ONNX_INT64);
	put_msg(&g, 1, &n);
	y = result(&g, 13, f32_spec("x", 1, 1), &x);
	CHECK(y.type.dtype == RLX_I64 && !memcmp(y.data, want, sizeof(want)));
	/* beside one that is no integer, too */
	begin_f32(&g);
	put_strings(&g, "s", "9007199254740993 1.5 ");
	node_of(&n, "Cast s > y");
	put_attr_i(&n, "to", ONNX_INT64);
	put_msg(&g, 1, &n);
	y = result(&g, 13, f32_spec("x", 1, 1), &x);
	CHECK_EQ(((const int64_t *)y.data)[0], want[0]);
	CHECK_EQ(((const int64_t *)y.data)[1], 1);
	begin_f32(&g);
	snprintf(text, sizeof(text), "1%090d ", 0);
	put_strings(&g, "s", text);
	node_of(&n, "Cast s > y");
	put_attr_i(&n, "to", ONNX_DOUBLE);
	put_msg(&g, 1, &n);
	y = result(&g, 13, f32_spec("x", 1, 1), &x);
	CHECKF(*(const double *)y.data == 1e90, "%g", *(const double *)y.data);
}

/* The largest number of 64 bits without a sign came out as -1. */
TEST(casts_to_strings_have_no_sign_of_their_own)
{
	static const int64_t most = -1;
	struct out g, n, o, t = { .n = 0 };
	struct rlx_spec x = f32_spec("x", 1, 1);
	struct rlx_segment seg;
	struct onnx_file *f;

	begin_f32(&g);
	tensor_head(&t, "u", ONNX_UINT64, 1);
	put_bytes(&t, 9, &most, 8);
	put_msg(&g, 5, &t);
	node_of(&n, "Cast u > y");
	put_attr_i(&n, "to", ONNX_STRING);
	put_msg(&g, 1, &n);
	model_of(&o, &g, 13);
	f = open_model(&o);
	build(f, (struct rlx_instance){ &x, 1 }, &seg);
	CHECK_EQ(seg.out[0].kind, RLX_SPEC_STRINGS);
	CHECK_EQ(seg.out[0].str[0].n, 20);
	CHECK(!memcmp(seg.out[0].str[0].p, "18446744073709551615", 20));
	rlx_segment_fini(&seg);
	onnx_put(f);
	/* nor has a sequence a text */
	begin_f32(&g);
	put_node(&g, "SequenceConstruct x > s");
	node_of(&n, "Cast s > y");
	put_attr_i(&n, "to", ONNX_STRING);
	put_msg(&g, 1, &n);
	refuse(&g, 13, x, RLX_ETYPE, "the input is no tensor");
}

/* Of two nodes without a seed, each its own numbers, and the same ones at the next import. */
TEST(nodes_without_a_seed_draw_apart)
{
	static const int64_t four[] = { 1, 4 };
	static const float x = 0;
	float first[4];
	struct rlx_tensor y;
	struct out g, n;
	int i;

	begin_f32(&g);
	for (i = 0; i < 2; i++) {
		node_of(&n, i ? "RandomNormal > b" : "RandomNormal > a");
		put_attr_ints(&n, "shape", four, 2);
		put_msg(&g, 1, &n);
	}
	put_node(&g, "Sub a b > y");
	y = result(&g, 13, f32_spec("x", 1, 1), &x);
	memcpy(first, y.data, sizeof(first));
	for (i = 0; i < 4; i++)
		CHECKF(first[i] != 0, "draw %d of both is the same", i);
	y = result(&g, 13, f32_spec("x", 1, 1), &x);
	CHECK(!memcmp(first, y.data, sizeof(first)));
}

static void put_equation(struct out *g, const char *node, const char *equation)
{
	struct out n, a = { .n = 0 };

	node_of(&n, node);
	put_str(&a, 1, "equation");
	put_str(&a, 4, equation);
	put_int(&a, 20, ONNX_ATTR_STRING);
	put_msg(&n, 5, &a);
	put_msg(g, 1, &n);
}

/*
 * Sum of z_i z_i, beside factors of 1 with 17 labels that come before z: with more than 16 of
 * them the last was summed out at once, and (1 + 2)(1 + 2) came of it.
 */
TEST(einsum_keeps_all_labels)
{
	static const float x[] = { 1, 2 }, one = 1, five = 5;
	static const int64_t eight[] = { 1, 1, 1, 1, 1, 1, 1, 1 }, two[] = { 2, 1 }, line = -1;
	struct out g = { .n = 0 };

	begin_f32(&g);
	put_f32_tensor(&g, "one", &one, 1);
	put_i64_tensor(&g, 5, "eight", eight, 8);
	put_i64_tensor(&g, 5, "column", two, 2);
	put_i64_tensor(&g, 5, "line", &line, 1);
	put_node(&g, "Expand one eight > cube");
	put_node(&g, "Reshape x line > z");
	put_node(&g, "Reshape x column > zq");
	put_equation(&g, "Einsum z one cube cube zq > y", "z,A,ABCDEFGH,IJKLMNOP,zQ->");
	check_f32(result(&g, 12, f32_spec("x", 1, 2), x), &five, 1);
}

/* Without segment ids the first row of their table is added. */
TEST(tokens_without_segments_are_of_the_first)
{
	static const float x[] = { 1, 2 }, rows[][2] = { { 0, 0 }, { 8, 0 } }, norm[][2] = {
		{ 1, 1 }, { 0, 0 } };
	static const int64_t one = 0, two[] = { 1, 2 };
	struct rlx_tensor y;
	struct out g, n;
	int i;

	begin_f32(&g);
	put_i64_tensor(&g, 5, "id", &one, 0);
	put_i64_tensor(&g, 5, "column", two, 2);
	for (i = 0; i < 2; i++) {
		put_f32_tensor(&g, i ? "segment" : "zeros", rows[i], 2);
		put_f32_tensor(&g, i ? "beta" : "gamma", norm[i], 2);
	}
	put_node(&g, "Reshape x column > words");
	put_node(&g, "Reshape zeros column > places");
	put_node(&g, "Reshape segment column > segments");
	put_i64_tensor(&g, 5, "ones", (const int64_t[]){ 1, 1 }, 2);
	put_node(&g, "Reshape id ones > ids");
	node_of(&n, "EmbedLayerNormalization ids _ words places segments gamma beta > y");
	put_str(&n, 7, "com.microsoft");
	put_msg(&g, 1, &n);
	y = result_of(&g, 17, f32_spec("x", 1, 2), x, "com.microsoft");
	/* 9 and 2: the first is above their mean, of 1 and 2 below */
	CHECKF(((const float *)y.data)[0] > 0.5f, "%g", (double)((const float *)y.data)[0]);
}

/* Elements that were in no part were dropped, and parts cut where there were too few. */
TEST(parts_are_all_of_the_dim)
{
	static const int64_t few[] = { 1, 1 }, many[] = { 2, 3 };
	struct out g, n;
	int i;

	for (i = 0; i < 4; i++) {
		begin_f32(&g);
		put_i64_tensor(&g, 5, "parts", i % 2 ? many : few, 2);
		node_of(&n, i < 2 ? "Split x parts > a b" : "SplitToSequence x parts > s");
		put_attr_i(&n, "axis", 1);
		put_msg(&g, 1, &n);
		put_node(&g, "Identity x > y");
		refuse(&g, 13, f32_spec("x", 1, 4), RLX_ESHAPE,
		       i % 2 ? "part 1 has length 3 of 2 left" : "2 parts leave 2 of 4");
	}
}

/* 2^32 + 1 heads were taken for one. */
TEST(heads_are_not_cut_to_32_bits)
{
	static const int64_t cube[] = { 1, 1, 2 };
	struct out g, n;

	begin_f32(&g);
	put_i64_tensor(&g, 5, "cube", cube, 3);
	put_node(&g, "Reshape x cube > a");
	put_i64_tensor(&g, 5, "half", (const int64_t[]){ 1, 1, -1 }, 3);
	put_f32_tensor(&g, "one", &(const float){ 1 }, 1);
	put_node(&g, "Reshape one half > c");
	node_of(&n, "RotaryEmbedding a c c > y");
	put_attr_i(&n, "num_heads", (1ll << 32) + 1);
	put_msg(&g, 1, &n);
	refuse(&g, 23, f32_spec("x", 1, 2), RLX_ERANGE, "num_heads=4294967297 is out of range");
}

TEST_MAIN()
