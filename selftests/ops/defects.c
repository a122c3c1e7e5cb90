// SPDX-License-Identifier: MIT
/*
 * One named test for each wrong result that was found here, by fuzzing or by use: the
 * same bodies run in the reference evaluator and on every device.
 */
#include "rlx/grad.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

/* A start in front of the axis is its first element, backwards too. */
EVERYWHERE(slice_backwards_from_in_front)
{
	static const int64_t start[] = { -4, -9, INT64_MIN, -3, 2, 9, INT64_MAX };
	static const int64_t first[] = { 0, 0, 0, 0, 2, 2, 2 };
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 3, 4), -1, 1), y;
	unsigned int k;
	int64_t i;

	for (k = 0; k < 7; k++) {
		y = rlx_emit(r->g, slice, .x = x, .axes = RLX_INTS(0),
			     .starts = RLX_INTS(start[k]), .ends = RLX_INTS(INT64_MIN),
			     .steps = RLX_INTS(-1));
		CHECK_EQ(rlx_type_of(r->g, y)->dim[0], first[k] + 1);
		rig_output(r, y);
	}
	rig_run(r);
	for (k = 0; k < 7; k++)
		for (i = 0; i < 4 * (first[k] + 1); i++)
			rig_want(r, k, i, rig_in(r, 0, (first[k] - i / 4) * 4 + i % 4), 0);
}

/* Labels are not counted from the end, whoever computes it. */
EVERYWHERE(cross_entropy_refuses_negative_labels)
{
	static const int64_t label[2] = { 1, -1 };
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 2, 3), -1, 1);

	rig_output(r, rlx_emit(r->g, cross_entropy, .logits = x, .labels =
			       rig_input(r, rlx_type(RLX_I64, 2), label)));
	CHECK_EQ(rig_try(r), RLX_ERANGE);
}

/* A mask whose first 65536 numbers are small keeps those that 16 bits do not hold. */
EVERYWHERE(a_mask_is_looked_at_to_its_end)
{
	enum { N = 66000 };
	rlx_value x = rig_random(r, rlx_type(RLX_F32, N), -1, 1), m;
	float *mask = calloc(N, sizeof(*mask));

	CHECK(mask);
	mask[N - 1] = -3.4e38f;
	m = rlx_constant(r->g, rlx_type(RLX_F32, N), mask);
	free(mask);
	r->precision = RLX_PRECISION_MIXED_BF16;
	rig_output(r, rlx_emit(r->g, add, .a = x, .b = m));
	rig_run(r);
	rig_want(r, 0, N - 1, -3.4e38, 0.01);
}

/* Where nothing goes in and nothing comes out, no index is looked at, by anybody. */
EVERYWHERE(indices_into_nothing)
{
	static const int64_t at[2] = { 7, -9 };
	rlx_value i = rig_input(r, rlx_type(RLX_I64, 2), at), row;
	rlx_value none = rig_random(r, rlx_type(RLX_F32, 3, 0), -1, 1);
	rlx_value empty = rig_random(r, rlx_type(RLX_F32, 0), -1, 1);
	rlx_value two = rig_random(r, rlx_type(RLX_F32, 2), -1, 1);

	rig_output(r, rlx_emit(r->g, gather, .x = none, .indices = i));
	rig_output(r, rlx_emit(r->g, scatter_elements, .x = empty, .indices = i,
			       .updates = two));
	row = rlx_emit(r->g, reshape, .x = i, .shape = RLX_INTS(2, 1));
	rig_output(r, rlx_emit(r->g, scatter_nd, .x = empty, .indices = row, .updates = two));
	rig_output(r, rlx_emit(r->g, reverse_sequence, .time_axis = 0, .x = rlx_emit(r->g, reshape,
			       .x = none, .shape = RLX_INTS(0, 3)), .lens =
			       rig_input(r, rlx_type(RLX_I64, 3), (int64_t[]){ 5, 0, 1 }),
			       .batch_axis = 1));
	rig_run(r);
}

TEST(max_unpool_refuses_no_room)
{
	struct rig r;

	rig_init(&r, NULL);
	rlx_emit(r.g, max_unpool, .x = rig_random(&r, rlx_type(RLX_F32, 1, 2), -1, 1),
		 .indices = rig_random(&r, rlx_type(RLX_I64, 1, 2), 0, 1),
		 .out_shape = RLX_INTS(1, 0));
	CHECK_EQ(rlx_graph_error(r.g)->status, RLX_ESHAPE);
	rig_fini(&r);
}

/* What x and the mean have in common goes before it is scaled up. */
EVERYWHERE(group_norm_far_from_zero)
{
	static const float x[8] = { 1.1f, -0.3f, 7.7f, 1e5f, 1000.25f, 1000.75f, 3, 3 };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 1, 8), x);
	int64_t i;

	rig_output(r, rlx_emit(r->g, group_norm, .x = v, .groups = 8, .eps = 1e-5f));
	rig_output(r, rlx_emit(r->g, group_norm, .x = v, .groups = 4, .eps = 1e-5f));
	rig_run(r);
	for (i = 0; i < 8; i++)
		rig_want(r, 0, i, 0, 0);
	rig_want(r, 1, 4, -0.25 / sqrt(0.0625 + 1e-5), 1e-6);
	rig_want(r, 1, 5, 0.25 / sqrt(0.0625 + 1e-5), 1e-6);
	rig_want(r, 1, 7, 0, 0);
}

EVERYWHERE(gelu_of_infinity)
{
	static const float x[3] = { INFINITY, 20, 1e30f };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 3), x);

	rig_output(r, rlx_emit(r->g, gelu, .x = v));
	rig_output(r, rlx_emit(r->g, gelu_tanh, .x = v));
	rig_run(r);
	rig_want(r, 0, 0, INFINITY, 0);
	rig_want(r, 0, 1, 20, 1e-6);
	rig_want(r, 0, 2, (double)x[2], 1e-6);
	rig_want(r, 1, 0, INFINITY, 0);
}

/* A gate that is not a number stays none, however it is cut off. */
EVERYWHERE(recurrence_of_nan)
{
	static const int64_t acts[3] = { RLX_RNN_HARD_SIGMOID, RLX_RNN_TANH, RLX_RNN_TANH };
	static const float nan = NAN;
	rlx_value x = rig_input(r, rlx_type(RLX_F32, 1, 1, 1), &nan), w, h;

	w = rig_random(r, rlx_type(RLX_F32, 1, 4, 1), 0.5, 1);
	h = rig_random(r, rlx_type(RLX_F32, 1, 4, 1), 0.5, 1);
	rig_output(r, rlx_emit(r->g, lstm, .x = x, .w = w, .r = h, .acts = { acts, 3 }));
	rig_output(r, rlx_emit(r->g, lstm, .x = x, .w = w, .r = h, .clip = 2));
	rig_run(r);
	rig_want(r, 0, 0, NAN, 0);
	rig_want(r, 1, 0, NAN, 0);
}

/* Lengths are data: kernels refuse what the evaluator refuses. */
EVERYWHERE(recurrence_refuses_lengths)
{
	static const int32_t lens[3][2] = { { 4, 0 }, { 1, 5 }, { -1, 2 } };
	static const float w[16] = { 0.5f, -0.25f };
	int k;

	for (k = 0; k < 3; k++) {
		rlx_value x = rig_random(r, rlx_type(RLX_F32, 4, 2, 1), -1, 1), c;

		c = rlx_constant(r->g, rlx_type(RLX_F32, 1, 4, 1), w);
		rig_output(r, rlx_emit(r->g, lstm, .x = x, .w = c, .r = c, .lens =
				       rig_input(r, rlx_type(RLX_I32, 2), lens[k])));
		CHECK_EQ(rig_try(r), k ? RLX_ERANGE : RLX_OK);
		CHECKF(!k || strstr(r->err.text, "length"), "%s", r->err.text);
		rig_reset(r);
	}
}

/* The upper half of u64 is not below 0. */
EVERYWHERE(large_unsigned_numbers)
{
	static const uint64_t x[4] = { 0, 7, UINT64_C(1) << 63, UINT64_MAX };
	rlx_value v = rig_input(r, rlx_type(RLX_U64, 4), x);
	int64_t i;

	rig_output(r, rlx_emit(r->g, relu, .x = v));
	rig_output(r, rlx_emit(r->g, abs, .x = v));
	rig_output(r, rlx_emit(r->g, sign, .x = v));
	rig_run(r);
	for (i = 0; i < 4; i++) {
		rig_want(r, 0, i, (double)x[i], 0);
		rig_want(r, 1, i, (double)x[i], 0);
		rig_want(r, 2, i, i > 0, 0);
	}
}

/* Nor is an exponent: what is odd to the power 2^63 is 1. */
EVERYWHERE(large_unsigned_exponents)
{
	static const uint64_t x[5] = { 3, 3, 2, 5, 0 };
	static const uint64_t y[5] = { UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1,
				       UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX };
	static const uint64_t want[5] = { 1, 3, 0, UINT64_C(0xcccccccccccccccd), 0 };
	rlx_value a = rig_input(r, rlx_type(RLX_U64, 5), x), p;
	int64_t i;

	p = rlx_emit(r->g, pow, .a = a, .b = rig_input(r, rlx_type(RLX_U64, 5), y));
	rig_output(r, p);
	rig_output(r, rlx_emit(r->g, mul, .a = p, .b = a));
	rig_run(r);
	for (i = 0; i < 5; i++) {
		rig_want(r, 0, i, (double)want[i], 0);
		rig_want(r, 1, i, (double)(want[i] * x[i]), 0);
	}
}

/* 1 / cap of a small cap is beyond what f16 holds. */
EVERYWHERE(softcap_of_halves)
{
	static const uint16_t x[2] = { 0, 0x3c00 };
	rlx_value v = rig_input(r, rlx_type(RLX_F16, 2), x);

	rig_output(r, rlx_emit(r->g, softcap, .x = v, .cap = 1e-5f));
	rig_run(r);
	rig_want(r, 0, 0, 0, 0);
	rig_want(r, 0, 1, 1e-5, 1e-7);
}

/* The layout of channels in blocks meets results of one element. */
EVERYWHERE(convolution_of_one_element)
{
	static const float w = -2, low = 0.25f;
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 1, 1, 1, 1), 0.5, 1), y;

	y = rlx_emit(r->g, conv, .x = x, .w = rlx_constant(r->g, rlx_type(RLX_F32, 1, 1, 1, 1),
							   &w));
	rig_output(r, rlx_emit(r->g, max, .a = y, .b = rig_input(r, rlx_scalar(RLX_F32), &low)));
	rig_output(r, rlx_emit(r->g, mul, .a = y, .b = y));
	rig_run(r);
	rig_want(r, 0, 0, 0.25, 0);
	rig_want(r, 1, 0, pow(2 * rig_in(r, 0, 0), 2), 1e-6);
}

static void shrink_far(struct rig *r)
{
	static const float x[8] = { -1.75f, -0.5f, 1.5f, -1.25f, 1, -1.75f, -1.5f, 0.25f };
	static const double scales[3] = { 0.001, 43.0 / 70, 0.64 };

	rig_output(r, rlx_emit(r->g, resize, .x = rig_input(r, rlx_type(RLX_F32, 2, 1, 4), x),
			       .sizes = RLX_INTS(2, 4, 47), .scales = { scales, 3 },
			       .mode = RLX_RESIZE_LINEAR, .antialias = true));
	rig_run(r);
}

/* A thousand taps at an edge are one input: their weights add up in doubles. */
EVERYWHERE(resize_with_many_taps_at_an_edge)
{
	struct rig want;
	int64_t i;

	rig_init(&want, NULL);
	shrink_far(&want);
	shrink_far(r);
	for (i = 0; i < 2 * 4 * 47; i++)
		rig_want(r, 0, i, rig_get(&want, 0, i), 1e-6);
	rig_fini(&want);
}

/* Neighbours where coordinates fall on elements but for a rounding: as f32 has them. */
EVERYWHERE(resize_to_neighbours_in_f32)
{
	static const struct {
		int64_t	in, out;
		double	scale;		/* 0: of the sizes */
		int32_t	coord, nearest;
		int64_t	at, want;
	} c[] = {
		{ 12, 20, (double)1.7f, RLX_COORD_ASYMMETRIC, RLX_NEAREST_FLOOR, 17, 10 },
		{ 10, 22, 0, RLX_COORD_HALF_PIXEL, RLX_NEAREST_FLOOR, 5, 2 },
		{ 10, 14, 0, RLX_COORD_PYTORCH_HALF_PIXEL, RLX_NEAREST_CEIL, 3, 2 },
		{ 11, 25, 0, RLX_COORD_PYTORCH_HALF_PIXEL, RLX_NEAREST_FLOOR, 12, 5 },
	};
	float x[16];
	unsigned int k;

	for (k = 0; k < 16; k++)
		x[k] = (float)k;
	for (k = 0; k < 4; k++)
		rig_output(r, rlx_emit(r->g, resize, .coord = c[k].coord, .nearest = c[k].nearest,
				       .x = rig_input(r, rlx_type(RLX_F32, c[k].in), x),
				       .sizes = RLX_INTS(c[k].out),
				       .scales = { &c[k].scale, c[k].scale > 0 }));
	rig_run(r);
	for (k = 0; k < 4; k++)
		rig_want(r, k, c[k].at, (double)c[k].want, 0);
}

enum hiding { BY_LENGTH, BY_CAUSAL_MASK, BY_MASK, HIDINGS };

/* The last key is no number, and no query but perhaps the last sees it. */
static void hidden_values(struct rig *r, int64_t queries, enum hiding how)
{
	enum { KEYS = 20, D = 8 };
	static const int32_t len = KEYS - 1;
	float k[KEYS * D], v[KEYS * D];
	unsigned char keep[KEYS];
	rlx_value q, m = RLX_NONE, lens = RLX_NONE;
	int64_t i;

	for (i = 0; i < KEYS * D; i++) {
		k[i] = i / D == KEYS - 1 && how != BY_CAUSAL_MASK ? NAN : (float)(i % 7) / 4 - 1;
		v[i] = i / D < KEYS - 1 ? 0.5f : i % 2 ? NAN : INFINITY;
	}
	for (i = 0; i < KEYS; i++)
		keep[i] = i < KEYS - 1;
	q = rig_random(r, rlx_type(RLX_F32, 1, queries, D), -1, 1);
	if (how == BY_MASK)
		m = rig_input(r, rlx_type(RLX_BOOL, 1, 1, 1, KEYS), keep);
	if (how == BY_LENGTH)
		lens = rig_input(r, rlx_type(RLX_I32, 1), &len);
	rig_output(r, rlx_emit(r->g, attention, .q = q, .heads = 1, .bias = m, .lens = lens,
			       .mask = how == BY_CAUSAL_MASK ? RLX_MASK_CAUSAL : RLX_MASK_NONE,
			       .k = rig_input(r, rlx_type(RLX_F32, 1, KEYS, D), k),
			       .v = rig_input(r, rlx_type(RLX_F32, 1, KEYS, D), v)));
	rig_run(r);
	for (i = 0; i < (queries - (how == BY_CAUSAL_MASK)) * D; i++)
		rig_want(r, 0, i, 0.5, 1e-5);
}

/*
 * What a query does not see does not reach it, whatever stands there. Tiles of a GPU
 * multiply what is masked for one query and seen by another by 0.
 */
EVERYWHERE(attention_hides_values)
{
	static const int64_t queries[] = { 2, 7, 20 };
	const char *gpu = getenv("RLX_TEST_GPU");
	unsigned int i, n = r->device && gpu && !strcmp(r->device, gpu) ? 1 : HIDINGS;

	for (i = 0; i < 3 * n; i++) {
		hidden_values(r, queries[i / n], i % n);
		rig_reset(r);
	}
}

/* An index that is in no range leaves numbers of 8 bytes off as it does others. */
EVERYWHERE(one_hot_of_complex_numbers)
{
	static const int64_t at[3] = { 5, -2, -9 };
	static const float v[4] = { -0.25f, 2, 1.5f, -1 };
	rlx_value i = rig_input(r, rlx_type(RLX_I64, 3), at);
	int64_t k;

	rig_output(r, rlx_emit(r->g, one_hot, .indices = i, .depth = 7, .axis = -1,
			       .values = rig_input(r, rlx_type(RLX_C64, 2), v)));
	rig_run(r);
	for (k = 0; k < 21; k++)
		rig_want(r, 0, k, k == 5 || k == 7 + 5 ? 1.5 : -0.25, 0);
}

/* Doubles are rounded to the dtype that the product is to be computed in. */
EVERYWHERE(matmul_of_doubles_in_bf16)
{
	static const double x = 1 + 0x1p-7 + 0x1p-9;
	rlx_value v = rig_input(r, rlx_type(RLX_F64, 1, 1), &x);

	rig_output(r, rlx_emit(r->g, fused_matmul, .a = v, .b = v, .compute = RLX_BF16));
	rig_run(r);
	rig_want(r, 0, 0, (1 + 0x1p-7) * (1 + 0x1p-7), 1e-12);
}

/* A high power is beyond f32 where its root is not. */
EVERYWHERE(pool_by_a_high_norm)
{
	static const float x[6] = { 13.25f, -2, 0, -19.5f, 19.5f, 3 };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 1, 1, 1, 6), x);

	rig_output(r, rlx_emit(r->g, pool, .x = v, .kind = RLX_POOL_LP, .p = 35,
			       .kernel = RLX_INTS(1, 2), .stride = RLX_INTS(1, 2)));
	rig_output(r, rlx_emit(r->g, pool, .x = v, .kind = RLX_POOL_LP, .p = 3,
			       .kernel = RLX_INTS(1, 3), .stride = RLX_INTS(1, 3)));
	rig_run(r);
	rig_want(r, 0, 0, 13.25, 1e-6);
	rig_want(r, 0, 1, 19.5, 1e-6);
	rig_want(r, 0, 2, pow(pow(19.5, 35) + pow(3, 35), 1.0 / 35), 1e-6);
	rig_want(r, 1, 0, pow(pow(13.25, 3) + 8, 1.0 / 3), 1e-6);
	rig_want(r, 1, 1, pow(2 * pow(19.5, 3) + 27, 1.0 / 3), 1e-6);
}

/* And beyond double, or below it, for any power; windows of zeros, infinities and NaN stay so. */
EVERYWHERE(pool_by_any_norm)
{
	enum { FEW = 3, MANY = 4096 };
	static const int32_t power[] = { 2, 3, 7, 300, INT32_MAX };
	static const float value[] = { 10, 1e30f, 1e-30f, 0, INFINITY, NAN, 0.5f };
	static float x[7 * MANY];
	unsigned int k, w, i;

	for (w = FEW; w <= MANY; w += MANY - FEW) {
		rlx_value v;

		for (i = 0; i < 7 * w; i++)	/* halves, zeros, and one of the value */
			x[i] = i % w == w / 2 ? value[i / w] : i % w ? 0 : -value[i / w] / 2;
		v = rig_input(r, rlx_type(RLX_F32, 1, 1, 7, w), x);
		for (k = 0; k < 5; k++)
			rig_output(r, rlx_emit(r->g, pool, .x = v, .kind = RLX_POOL_LP,
					       .p = power[k], .kernel = RLX_INTS(1, w),
					       .stride = RLX_INTS(1, w)));
		rig_run(r);
		for (k = 0; k < 5; k++)
			for (i = 0; i < 7; i++) {
				double want = (double)value[i] *
					      pow(1 + pow(0.5, power[k]), 1.0 / power[k]);

				if (want > 0 && want < 1)	/* the bound is relative from 1 on */
					CHECKF(fabs(rig_get(r, k, i) / want - 1) < 2e-6,
					       "p %d: %g, not %g", power[k], rig_get(r, k, i),
					       want);
				else
					rig_want(r, k, i, want, 2e-6);
			}
		rig_reset(r);
	}
}

/* So is the power of a small sum; the 0th one of infinity is 1. */
EVERYWHERE(lrn_by_high_powers)
{
	static const float x[4] = { 1e-4f, -1e-4f, 0.5f, INFINITY };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 1, 2, 1), x);
	double p = pow((double)1e-5f + 1e-8, -8);

	rig_output(r, rlx_emit(r->g, lrn, .x = v, .size = 2, .alpha = 1, .beta = 8,
			       .bias = 1e-5f));
	rig_output(r, rlx_emit(r->g, lrn, .x = v, .size = 1, .alpha = 1e-5f, .beta = 8,
			       .bias = 0));
	v = rig_input(r, rlx_type(RLX_F32, 1, 2, 1), x + 2);
	rig_output(r, rlx_emit(r->g, lrn, .x = v, .size = 2, .alpha = 1, .bias = 1,
			       .beta = 0));
	rig_output(r, rlx_emit(r->g, lrn, .x = v, .size = 2, .alpha = 1, .bias = 1,
			       .beta = 0.75f));
	rig_run(r);
	rig_want(r, 0, 0, 1e-4 * p, 1e-5);
	CHECKF(isinf(rig_get(r, 1, 1)) && rig_get(r, 1, 1) < 0, "%g", rig_get(r, 1, 1));
	rig_want(r, 2, 0, 0.5, 0);
	rig_want(r, 2, 1, INFINITY, 0);
	rig_want(r, 3, 0, 0, 0);
	rig_want(r, 3, 1, NAN, 0);
}

/*
 * The mean of equal values is that value, however many they are. A GPU's sums by trees miss
 * it by up to a few units, which 1 / sqrt(eps) multiplies.
 */
EVERYWHERE(layer_norm_of_equal_values)
{
	static float x[3100];
	const char *gpu = getenv("RLX_TEST_GPU");
	bool trees = r->device && gpu && !strcmp(r->device, gpu);
	double tol = trees ? 4 * 0x1p-23 / sqrt(1e-5) : 1e-6;
	rlx_value v;
	int64_t i;

	for (i = 0; i < 3100; i++)
		x[i] = 1.3579f;
	v = rig_input(r, rlx_type(RLX_F32, 3100), x);
	rig_output(r, rlx_emit(r->g, layer_norm, .x = v, .axis = 0, .eps = 1e-5f));
	rig_output(r, rlx_emit(r->g, group_norm, .eps = 1e-5f, .groups = 1, .x =
			       rlx_emit(r->g, reshape, .x = v, .shape = RLX_INTS(1, 1, 3100))));
	rig_run(r);
	for (i = 0; i < 3100; i++) {
		rig_want(r, 0, i, 0, tol);
		rig_want(r, 1, i, 0, tol);
	}
}

/*
 * Updates that meet are joined in f32 and rounded once, as the gradient of an embedding wants: sums
 * that are rounded after each would stop to grow at 256 in bf16.
 */
EVERYWHERE(scatter_of_many_16bit_updates)
{
	static const struct { enum rlx_scatter_reduction how; double with, want, tol; } joins[] = {
		{ RLX_SCATTER_ADD, 1, 4098, 0x1p-8 },
		{ RLX_SCATTER_MUL, 1 + 0x1p-7, 3.293, 0x1p-8 },
	};
	enum { ONES = 4096, FACTORS = 64 };
	unsigned int i, k, to, n;
	rlx_value x, u, at;
	enum rlx_dtype dt;

	for (i = 0; i < 8; i++) {
		dt = i & 1 ? RLX_BF16 : RLX_F16;
		k = i >> 1 & 1;
		n = k ? FACTORS : ONES;
		u = rig_random(r, rlx_type(dt, n, 1), joins[k].with, joins[k].with);
		x = rig_random(r, rlx_type(dt, 3, 1), 2, 2);
		at = rig_random(r, rlx_type(RLX_I32, n, 1), 1, 1);
		rig_output(r, i & 4 ?
			   rlx_emit(r->g, scatter_nd, .x = x, .indices = at, .updates = u,
				    .reduction = (int)joins[k].how) :
			   rlx_emit(r->g, scatter_elements, .x = x, .indices = at, .updates = u,
				    .axis = 0, .reduction = (int)joins[k].how));
		rig_run(r);
		for (to = 0; to < 3; to++)
			rig_want(r, 0, to, to == 1 ? joins[k].want : 2, joins[k].tol);
		rig_reset(r);
	}
}

/* Slices of nothing are nothing, whichever the condition keeps. */
EVERYWHERE(compress_of_nothing)
{
	static const unsigned char keep[3] = { 1, 0, 1 };
	rlx_value c = rig_input(r, rlx_type(RLX_BOOL, 3), keep);

	rig_output(r, rlx_emit(r->g, compress, .cond = c, .count = 1,
			       .x = rig_random(r, rlx_type(RLX_F32, 3, 0), -1, 1)));
	rig_run(r);
	rig_reset(r);
	rig_output(r, rlx_emit(r->g, compress, .count = 1,
			       .cond = rig_input(r, rlx_type(RLX_BOOL, 3), keep),
			       .x = rig_random(r, rlx_type(RLX_F32, 3, 1), -1, 1)));
	CHECK_EQ(rig_try(r), RLX_ERANGE);
}

/* Only what has the result's shape makes up for an expansion, not what is empty too. */
EVERYWHERE(expansion_over_nothing)
{
	rlx_value one = rig_random(r, rlx_type(RLX_F32, 1, 1), -1, 1);
	rlx_value none = rig_random(r, rlx_type(RLX_F32, 0, 1), -1, 1), y;

	y = rlx_emit(r->g, expand, .x = one, .shape = RLX_INTS(0, 3));
	rig_output(r, rlx_emit(r->g, sub, .a = y, .b = none));
	rig_run(r);
	CHECK_EQ(r->out[0].type.dim[0], 0);
	CHECK_EQ(r->out[0].type.dim[1], 3);
}

/* What is beyond fp8 is its largest number, in a cast, computed or made of nothing. */
EVERYWHERE(beyond_fp8)
{
	static const float x[4] = { 300, -500, INFINITY, NAN };
	static const uint8_t dt[2] = { RLX_F8E4M3, RLX_F8E5M2 };
	static const double most[2] = { 448, 57344 };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 4), x), y, z;
	unsigned int k;

	for (k = 0; k < 2; k++) {
		y = rlx_emit(r->g, cast, .x = v, .to = dt[k]);
		z = rlx_emit(r->g, mul, .a = y, .b = y);
		rig_output(r, y);
		rig_output(r, z);
		rig_output(r, rlx_emit(r->g, neg, .x = rlx_emit(r->g, mul, .a = z, .b = z)));
		rig_output(r, rlx_emit(r->g, iota, .type = rlx_type(dt[k], 3), .start = 0,
				       .step = most[k]));
	}
	rig_run(r);
	for (k = 0; k < 2; k++) {
		rig_want(r, 4 * k, 1, k ? -512 : -448, 0);
		rig_want(r, 4 * k, 2, most[k], 0);
		rig_want(r, 4 * k, 3, NAN, 0);
		rig_want(r, 4 * k + 1, 0, most[k], 0);
		rig_want(r, 4 * k + 1, 3, NAN, 0);
		rig_want(r, 4 * k + 2, 1, -most[k], 0);
		rig_want(r, 4 * k + 3, 1, most[k], 0);
		rig_want(r, 4 * k + 3, 2, most[k], 0);
	}
}

/* What stands in the lanes behind the last channel of a block reaches no channel. */
EVERYWHERE(infinity_through_blocked_convolutions)
{
	static const float w[36 * 18] = { [0 ... 36 * 18 - 1] = 0.5f };
	static const int64_t channels[5] = { 1, 3, 17, 18, 2 };
	float x[81];
	rlx_value y;
	int64_t i, k;

	for (i = 0; i < 81; i++)
		x[i] = i == 40 ? INFINITY : 1;
	y = rig_input(r, rlx_type(RLX_F32, 1, 1, 9, 9), x);
	for (k = 1; k < 5; k++) {
		struct rlx_type t = rlx_type(RLX_F32, channels[k], channels[k - 1], 1, 1);

		y = rlx_emit(r->g, conv, .x = y, .w = rlx_constant(r->g, t, w));
		y = rlx_emit(r->g, relu, .x = y);
	}
	rig_output(r, y);
	rig_run(r);
	for (i = 0; i < 2 * 81; i++)
		rig_want(r, 0, i, i % 81 == 40 ? INFINITY : 0.5 * 1.5 * 8.5 * 9, 1e-6);
}

/* Of @x and @mixed, which differ in element @k and each fifth behind it. */
static void sines_agree(struct rig *r, enum rlx_dtype dt, rlx_value x, rlx_value mixed, int k)
{
	const int64_t n = rlx_type_count(rlx_type_of(r->g, x));
	rlx_value v = rlx_emit(r->g, cast, .x = x, .to = dt);
	rlx_value w = rlx_emit(r->g, cast, .x = mixed, .to = dt);
	int64_t i;

	rig_output(r, rlx_emit(r->g, sin, .x = v));
	rig_output(r, rlx_emit(r->g, sin, .x = w));
	rig_output(r, rlx_emit(r->g, cos, .x = v));
	rig_output(r, rlx_emit(r->g, cos, .x = w));
	rig_run(r);
	for (i = 0; i < n; i++) {
		if (i % 5 == k)
			continue;
		rig_want(r, 1, i, rig_get(r, 0, i), 0);
		rig_want(r, 3, i, rig_get(r, 2, i), 0);
	}
}

/* What an element's sine is does not hang on its neighbours, be they large, infinite or NaN. */
EVERYWHERE(sine_beside_large_angles)
{
	enum { N = 67 };
	static const float beside[3] = { 1e7f, INFINITY, NAN };
	static const enum rlx_dtype dt[] = { RLX_F64, RLX_F32, RLX_F16, RLX_BF16 };
	float x[N], mixed[N];
	rlx_value v, w;
	int64_t i;
	int k, d;

	for (d = 0; d < 4; d++)
		for (k = 0; k < 3; k++) {
			rig_reset(r);
			for (i = 0; i < N; i++) {
				x[i] = (float)(i - 30) * 1.37f;
				mixed[i] = i % 5 == k ? beside[k] : x[i];
			}
			v = rig_input(r, rlx_type(RLX_F32, N), x);
			w = rig_input(r, rlx_type(RLX_F32, N), mixed);
			sines_agree(r, dt[d], v, w, k);
		}
}

/* Channels last has no block of 0 channels: refused, not divided by. */
TEST(channels_last_of_no_filters)
{
	struct rlx_graph *g = rlx_graph_new("none");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F16, 1, 1, 4, 4, 8));
	rlx_value w = rlx_input(g, "w", rlx_type(RLX_F16, 0, 1, 1, 1, 8));

	CHECK(!rlx_emit(g, fused_conv, .x = x, .w = w, .groups = 1,
			.block = RLX_CHANNELS_LAST).id);
	CHECK_EQ(rlx_graph_finish(g), RLX_ESHAPE);
	rlx_graph_put(g);
}

/*
 * Its expansion, which gradients are made of, reads no type of a table that has moved meanwhile
 * (the sanitizers see it): @before values make the table grow at each of its ops in turn.
 */
TEST(channels_last_while_tables_grow)
{
	struct rlx_graph *g, *d;
	struct rlx_error err;
	rlx_value x, w, y;
	int before, i;

	for (before = 0; before < 40; before++) {
		g = rlx_graph_new("grow");
		x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 1, 4, 3, 8));
		w = rlx_input(g, "w", rlx_type(RLX_F32, 5, 1, 1, 1, 8));
		for (i = 0, y = x; i < before; i++)
			y = rlx_emit(g, neg, .x = y);
		y = rlx_emit(g, fused_conv, .x = y, .w = w, .groups = 1,
			     .block = RLX_CHANNELS_LAST);
		rlx_output(g, "y", rlx_emit(g, reduce, .x = y, .kind = RLX_REDUCE_SUM,
					    .axes = RLX_INTS(0, 1, 2, 3, 4)));
		CHECK(!rlx_graph_finish(g));
		CHECKF(!rlx_graph_grad(g, &w, 1, &d, &err), "%s", err.text);
		rlx_graph_put(d);
		rlx_graph_put(g);
	}
}

/* Frames behind the length that is wanted take no memory, however far off they are. */
EVERYWHERE(istft_of_frames_far_apart)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 4, 4, 2), -1, 1), y;
	int64_t i;

	rig_output(r, rlx_emit(r->g, istft, .x = x, .n_fft = 6, .hop = (int64_t)1 << 40,
			       .length = 9));
	y = rlx_emit(r->g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(0),
		     .ends = RLX_INTS(1));
	rig_output(r, rlx_emit(r->g, irfft, .x = y, .n = RLX_INTS(6)));
	rig_run(r);
	for (i = 0; i < 9; i++)
		rig_want(r, 0, i, i < 6 ? rig_get(r, 1, i) : 0, 1e-6);
}

/* Casts alone are a region too: integers go through no float on their way, nor doubles by f32. */
EVERYWHERE(casts_one_after_the_other)
{
	static const int64_t from[] = { 16777217, -16777217, 300, 0x123456789, 9007199791611905 };
	rlx_value x = rig_input(r, rlx_type(RLX_I64, 5), from);
	rlx_value narrow = rlx_emit(r->g, cast, .x = x, .to = RLX_I32);
	int i;

	rig_output(r, rlx_emit(r->g, cast, .x = narrow, .to = RLX_I64));
	rig_output(r, rlx_emit(r->g, cast, .to = RLX_U8, .x =
			       rlx_emit(r->g, cast, .x = x, .to = RLX_I16)));
	rig_output(r, rlx_emit(r->g, cast, .to = RLX_F32, .x =
			       rlx_emit(r->g, cast, .x = x, .to = RLX_F64)));
	rig_run(r);
	for (i = 0; i < 5; i++) {
		rig_want(r, 0, i, (int32_t)from[i], 0);
		rig_want(r, 1, i, (uint8_t)from[i], 0);
		rig_want(r, 2, i, (double)(float)(double)from[i], 0);
	}
}

TEST_MAIN()
