// SPDX-License-Identifier: MIT
/*
 * Sizes far beyond what memory holds that are legal beside a dimension of 0 or 1, or that no memory
 * stands for: pads, strides. Loops over one end by the time limit of the test where they are wrong.
 */
#include "rlx/run.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static const int64_t far = (int64_t)1 << 40;

/* Scratch of as many scores as there are keys, which wraps to a few bytes, is no memory. */
EVERYWHERE(attention_to_keys_without_number)
{
	const int64_t keys = (int64_t)1 << 61;
	rlx_value q = rig_input(r, rlx_type(RLX_F32, 1, 1, 1, 0), NULL), v, y;

	v = rig_input(r, rlx_type(RLX_F32, 1, 1, keys, 0), NULL);
	y = rlx_emit(r->g, attention, .q = q, .k = v, .v = v, .heads = 1, .layout = RLX_BHSD,
		     .lse = true);
	rig_output(r, rlx_out(r->g, y, 1));
	CHECKF(rig_try(r) == RLX_ENOMEM, "%s", r->err.text);
}

/* m^2 doubles wrap: what "ref" would set aside for them was less than x and q. */
TEST(qr_of_a_long_column)
{
	static const int64_t rows[] = { 1518500249, INT32_MAX, (int64_t)1 << 32 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "ref" };
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *g;
	unsigned int i;
	rlx_value v;

	for (i = 0; i < 3; i++) {
		g = rlx_graph_new("qr");
		v = rlx_emit(g, qr, .x = rlx_input(g, "x", rlx_type(RLX_F32, rows[i], 1)));
		rlx_output(g, "r", rlx_out(g, v, 1));
		CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
		CHECKF(rlx_compile(g, &o, &p, &err) == RLX_ENOMEM, "%lld rows: %s",
		       (long long)rows[i], err.text);
		rlx_program_put(p);
		rlx_graph_put(g);
	}
}

static rlx_value sums_of_keys(struct rlx_graph *g, rlx_value q, rlx_value v)
{
	rlx_value y = rlx_emit(g, attention, .q = q, .k = v, .v = v, .heads = 1,
			       .layout = RLX_BHSD, .lse = true);

	return rlx_out(g, y, 1);
}

/* One number comes of them, but not without a look at each: that is the run's to do. */
TEST(attention_to_many_keys_of_nothing)
{
	const int64_t keys = (int64_t)1 << 26;
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	struct rlx_graph *g = rlx_graph_new("keys");
	struct rlx_program_info info;
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	rlx_output(g, "y", sums_of_keys(g, rlx_input(g, "q", rlx_type(RLX_F32, 1, 1, 1, 0)),
					rlx_input(g, "v", rlx_type(RLX_F32, 1, 1, keys, 0))));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_program_info(p, &info);
	CHECKF(info.steps > 1, "it is evaluated by the compiler");
	rlx_program_put(p);
	rlx_graph_put(g);
}

EVERYWHERE(attention_to_keys_of_nothing)
{
	static const int64_t keys[2] = { 60000, 70000 };
	rlx_value q = rig_input(r, rlx_type(RLX_F32, 1, 1, 1, 0), NULL), v;
	int i;

	for (i = 0; i < 2; i++) {
		v = rig_input(r, rlx_type(RLX_F32, 1, 1, keys[i], 0), NULL);
		rig_output(r, sums_of_keys(r->g, q, v));
	}
	rig_run(r);
	for (i = 0; i < 2; i++)
		rig_want(r, (unsigned int)i, 0, log((double)keys[i]), 1e-5);
}

static rlx_value square(struct rlx_graph *g, int64_t n)
{
	return rlx_input(g, "x", rlx_type(RLX_F32, n, n));
}

/* What "ref" sets aside for matrices that no memory stands for is no few bytes. */
TEST(matrices_beyond_all_memory)
{
	const int64_t n = (int64_t)1 << 30, most = 1518500249;	/* its square in f32: 2^63 */
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "ref" };
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *g;
	rlx_value y;
	int i;

	for (i = 0; i < 3; i++) {
		g = rlx_graph_new("far");
		y = !i ? rlx_emit(g, svd, .x = square(g, n)) :
		    i == 1 ? rlx_emit(g, eigh, .x = square(g, n)) :
		    rlx_emit(g, solve, .a = square(g, most),
			     .b = rlx_input(g, "b", rlx_type(RLX_F32, most, 1)));
		rlx_output(g, "y", y);
		CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
		CHECKF(rlx_compile(g, &o, &p, &err) == RLX_ENOMEM, "op %d: %s", i, err.text);
		rlx_program_put(p);
		rlx_graph_put(g);
	}
}

/* What the first axis of two makes has 2^61 numbers, of which the result has a few. */
TEST(transforms_between_that_no_memory_holds)
{
	const int64_t n = (int64_t)1 << 38, first = (int64_t)1 << 22;
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *g = rlx_graph_new("far");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, 1, n, 2));

	rlx_output(g, "y", rlx_emit(g, fft, .x = x, .axes = RLX_INTS(0, 1),
				    .n = RLX_INTS(first, 1)));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(rlx_compile(g, &o, &p, &err) == RLX_ENOMEM, "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
}

/* Strides that nothing is a stride away at: pixels are few, what lies between them is not. */
EVERYWHERE(conv_transpose_by_far_strides)
{
	const int64_t s = 1 << 29;
	const float x = 3, w = 5;
	rlx_value a = rig_input(r, rlx_type(RLX_F32, 1, 1, 1, 1), &x);
	rlx_value b = rig_input(r, rlx_type(RLX_F32, 1, 1, 1, 1), &w);

	rig_output(r, rlx_emit(r->g, conv_transpose, .x = a, .w = b, .stride = RLX_INTS(s, s)));
	rig_output(r, rlx_emit(r->g, conv_transpose, .x = a, .w = b, .stride = RLX_INTS(3, 5)));
	rig_run(r);
	rig_want(r, 0, 0, 15, 0);
	rig_want(r, 1, 0, 15, 0);
}

/* Without boxes nothing is kept, of however many images and classes. */
EVERYWHERE(nms_of_no_boxes)
{
	rlx_value b = rig_input(r, rlx_type(RLX_F32, far, 0, 4), NULL), many, none;
	rlx_value s = rig_input(r, rlx_type(RLX_F32, far, 3, 0), NULL);

	many = rig_input(r, rlx_type(RLX_F32, 0, far, 4), NULL);
	none = rig_input(r, rlx_type(RLX_F32, 0, 3, far), NULL);
	rig_output(r, rlx_emit(r->g, nms_count, .boxes = b, .scores = s, .max_per_class = 3));
	rig_output(r, rlx_emit(r->g, nms_count, .boxes = many, .scores = none,
			       .max_per_class = 3));
	rig_output(r, rlx_emit(r->g, nms, .boxes = b, .scores = s, .max_per_class = 3));
	rig_run(r);
	rig_want(r, 0, 0, 0, 0);
	rig_want(r, 1, 0, 0, 0);
	CHECK_EQ(rlx_type_count(&r->out[2].type), 0);
	rig_reset(r);
	b = rig_input(r, rlx_type(RLX_F32, far, 0, 4), NULL);
	s = rig_input(r, rlx_type(RLX_F32, far, 3, 0), NULL);
	rig_output(r, rlx_emit(r->g, nms, .boxes = b, .scores = s, .max_per_class = 3,
			       .count = 1));
	CHECKF(rig_try(r) == RLX_ERANGE, "%s", r->err.text);
	CHECKF(strstr(r->err.text, "count is"), "%s", r->err.text);
}

/* Points without coordinates are all as near: the first ones, and never the point itself. */
EVERYWHERE(neighbours_without_coordinates)
{
	enum { N = 1000, K = 2 };
	rlx_value x = rig_input(r, rlx_type(RLX_F32, N, 0), NULL), v;
	rlx_value y = rig_input(r, rlx_type(RLX_F32, INT32_MAX, 0), NULL);
	unsigned int m;
	int64_t i;

	for (m = RLX_KNN_L2; m <= RLX_KNN_COS; m++) {
		v = rlx_emit(r->g, knn, .x = x, .y = y, .k = K, .metric = (int32_t)m);
		rig_output(r, v);
		rig_output(r, rlx_out(r->g, v, 1));
		v = rlx_emit(r->g, knn, .x = x, .k = K, .metric = (int32_t)m);
		rig_output(r, v);
		rig_output(r, rlx_out(r->g, v, 1));
	}
	rig_run(r);
	for (i = 0; i < N * K * (RLX_KNN_COS + 1); i++) {
		int64_t e = i % (N * K), row = e / K, k = e % K;

		m = (unsigned int)(i / (N * K));
		rig_want(r, 4 * m, e, m == RLX_KNN_COS, 0);
		rig_want(r, 4 * m + 1, e, (double)k, 0);
		rig_want(r, 4 * m + 2, e, m == RLX_KNN_COS, 0);
		rig_want(r, 4 * m + 3, e, (double)(k + (row <= k)), 0);
	}
}

/* Positions that far in front wrapped: zeros stood where elements were to be. */
TEST(pad_from_afar)
{
	static const int64_t pads[][2] = {
		{ INT64_MIN + 9, INT64_MAX - 10 }, { INT64_MAX - 10, INT64_MIN + 9 },
		{ INT64_MIN, INT64_MAX },
	};
	unsigned int i, mode;
	struct rig r;

	for (i = 0; i < 3; i++)
		for (mode = RLX_PAD_CONSTANT; mode <= RLX_PAD_WRAP; mode++) {
			rig_init(&r, NULL);
			rlx_emit(r.g, pad, .x = rig_random(&r, rlx_type(RLX_F32, 4), 1, 2),
				 .pads = RLX_INTS(pads[i][0], pads[i][1]),
				 .mode = (int32_t)mode);
			CHECK_EQ(rlx_graph_error(r.g)->status, RLX_ESHAPE);
			CHECKF(strstr(rlx_graph_error(r.g)->text, "cannot be padded"), "%s",
			       rlx_graph_error(r.g)->text);
			rig_fini(&r);
		}
}

/* What may be. */
EVERYWHERE(pad_from_as_far_as_may_be)
{
	static const int64_t b[] = { -(INT64_MAX / 4), INT64_MAX / 4 - 4 };
	const float x[4] = { 1, 2, 3, 4 };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 4), x);
	unsigned int k;
	int64_t i;

	for (k = 0; k < 2; k++)
		rig_output(r, rlx_emit(r->g, pad, .x = v, .mode = RLX_PAD_WRAP,
				       .pads = RLX_INTS(b[k], -b[k])));
	rig_run(r);
	for (k = 0; k < 2; k++)
		for (i = 0; i < 4; i++)
			rig_want(r, k, i, (double)x[((i - b[k]) % 4 + 4) % 4], 0);
}

/* The element of x[.., n] that tap @k of window @o reads along a dimension, or -1. */
static int64_t tap(int64_t n, int64_t o, int64_t k, const int64_t by[3])
{
	int64_t at = o * by[0] - by[1] + k * by[2];

	return at >= 0 && at < n ? at : -1;
}

/* Of windows far apart that mostly lie in padding, or in between, all elements are known. */
EVERYWHERE(windows_far_apart)
{
	static const int64_t far_by[3] = { INT32_MAX, INT32_MAX, 1 }, wide[3] = { 19998, 20000, 3 };
	static const int64_t near[3] = { 2, 1, 1 };
	float x[2 * 3 * 4 * 5 * 6];
	int64_t i, d[3], o[3], k[3], from;
	rlx_value v;

	for (i = 0; i < 2 * 3 * 4 * 5 * 6; i++)
		x[i] = (float)(i + 1);
	v = rig_input(r, rlx_type(RLX_F32, 2, 3, 7), x);
	rig_output(r, rlx_emit(r->g, im2col, .x = v, .kernel = RLX_INTS(3),
			       .stride = RLX_INTS(19998), .pad = RLX_INTS(20000, 20000),
			       .dilation = RLX_INTS(3)));
	v = rig_input(r, rlx_type(RLX_F32, 2, 3, 4, 5, 6), x);
	rig_output(r, rlx_emit(r->g, im2col, .x = v, .kernel = RLX_INTS(1, 2, 3),
			       .stride = RLX_INTS(INT32_MAX, 2, 19998),
			       .pad = RLX_INTS(INT32_MAX, 1, 20000, INT32_MAX, 0, 20000),
			       .dilation = RLX_INTS(1, 1, 3)));
	v = rig_input(r, rlx_type(RLX_F32, 0, 3, 4), NULL);
	rig_output(r, rlx_emit(r->g, im2col, .x = v, .kernel = RLX_INTS(1),
			       .stride = RLX_INTS(INT32_MAX),
			       .pad = RLX_INTS(INT32_MAX, INT32_MAX)));
	rig_run(r);
	CHECK_EQ(r->out[0].type.dim[0], 2 * 3);
	CHECK_EQ(r->out[1].type.dim[0], 2 * 3 * 3 * 3);
	CHECK_EQ(r->out[2].type.dim[0], 0);
	for (i = 0; i < 2 * 3 * 3 * 3; i++) {
		d[2] = tap(7, i / 9 % 3, i % 3, wide);
		from = i / 27 * 21 + i / 3 % 3 * 7 + d[2];
		rig_want(r, 0, i, d[2] < 0 ? 0 : (double)x[from], 0);
	}
	for (i = 0; i < rlx_type_count(&r->out[1].type); i++) {
		int64_t row = i / 18, col = i % 18;

		k[2] = col % 3, k[1] = col / 3 % 2;
		o[2] = row % 3, o[1] = row / 3 % 3, o[0] = row / 9 % 3;
		d[0] = tap(4, o[0], 0, far_by);
		d[1] = tap(5, o[1], k[1], near);
		d[2] = tap(6, o[2], k[2], wide);
		from = (((row / 27 * 3 + col / 6) * 4 + d[0]) * 5 + d[1]) * 6 + d[2];
		rig_want(r, 1, i, d[0] < 0 || d[1] < 0 || d[2] < 0 ? 0 : (double)x[from], 0);
	}
}

/* Zeros come of nothing as soon as they are asked for, not by computing each in the compiler. */
EVERYWHERE(product_of_no_terms)
{
	enum { N = 2000 };
	rlx_value a = rig_input(r, rlx_type(RLX_F32, N, 0), NULL);
	rlx_value b = rig_input(r, rlx_type(RLX_F32, 0, N), NULL);

	rig_output(r, rlx_emit(r->g, matmul, .a = a, .b = b));
	rig_run(r);
	rig_want(r, 0, 0, 0, 0);
	rig_want(r, 0, (int64_t)N * N - 1, 0, 0);
}

/* Compiled, not run: what it takes to compile hangs on no size. */
TEST(large_product_of_no_terms)
{
	const int64_t n = (int64_t)1 << 28;
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu",
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_graph *g = rlx_graph_new("product");
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	rlx_output(g, "y", rlx_emit(g, matmul, .a = rlx_input(g, "a", rlx_type(RLX_F32, n, 0)),
				    .b = rlx_input(g, "b", rlx_type(RLX_F32, 0, n))));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST(stft_of_a_signal_that_padding_makes_too_long)
{
	struct rig r;

	rig_init(&r, NULL);
	rlx_emit(r.g, stft, .x = rig_input(&r, rlx_type(RLX_F32, 0, INT64_MAX), NULL), .n_fft = 8,
		 .hop = (int64_t)1 << 53, .center = true);
	CHECK_EQ(rlx_graph_error(r.g)->status, RLX_ESHAPE);
	rig_fini(&r);
}

TEST_MAIN()
