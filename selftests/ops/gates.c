// SPDX-License-Identifier: MIT
/* Running extremes, clamps, gates and scaled products: numbers that are known. */
#include "rlx/grad.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static void want_all(struct rig *r, unsigned int out, const double *want, int64_t n, double tol)
{
	int64_t i;

	for (i = 0; i < n; i++)
		rig_want(r, out, i, want[i], tol);
}

/* The gradient of sum(weight y) by @x, as an output. */
static void gradient(struct rig *r, rlx_value y, rlx_value weight, rlx_value x)
{
	rlx_value d;

	y = rlx_emit(r->g, reduce, .x = rlx_emit(r->g, mul, .a = y, .b = weight));
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(y),
					.wrt = { &x, 1 } }, &d);
	rig_output(r, d);
}

EVERYWHERE(running_maxima)
{
	static const float v[] = { 1, 3, 2, 3, NAN, 9, NAN, 1 };
	static const float weight[] = { 1, 2, 4, 8, 16, 32, 64, 128 };
	rlx_value x = rig_input(r, rlx_type(RLX_F32, 8), v);
	rlx_value w = rig_input(r, rlx_type(RLX_F32, 8), weight);
	rlx_value y = rlx_emit(r->g, cummax, .x = x, .axis = -1);

	rig_output(r, y);
	rig_output(r, rlx_out(r->g, y, 1));
	gradient(r, y, w, x);
	rig_run(r);
	want_all(r, 0, (double[]){ 1, 3, 3, 3, NAN, NAN, NAN, NAN }, 8, 0);
	want_all(r, 1, (double[]){ 0, 1, 1, 3, 4, 4, 6, 6 }, 8, 0);
	want_all(r, 2, (double[]){ 1, 6, 0, 8, 48, 0, 192, 0 }, 8, 0);
}

EVERYWHERE(running_minima_of_columns)
{
	static const int32_t v[] = { 3, -1, 2, -1, 2, 5 };
	rlx_value y = rlx_emit(r->g, cummin, .x = rig_input(r, rlx_type(RLX_I32, 3, 2), v),
			       .axis = 0);

	rig_output(r, y);
	rig_output(r, rlx_out(r->g, y, 1));
	rig_run(r);
	want_all(r, 0, (double[]){ 3, -1, 2, -1, 2, -1 }, 6, 0);
	want_all(r, 1, (double[]){ 0, 0, 1, 1, 2, 1 }, 6, 0);
}

EVERYWHERE(clamp_and_its_gradient)
{
	static const float v[] = { -2, 0.5f, 9, NAN, 0, 1, INFINITY };
	rlx_value x = rig_input(r, rlx_type(RLX_F32, 7), v);
	rlx_value y = rlx_emit(r->g, clamp, .x = x, .lo = 0, .hi = 1);
	static const float weight[] = { 1, 2, 4, 8, 16, 32, 64 };

	rig_output(r, y);
	gradient(r, y, rig_input(r, rlx_type(RLX_F32, 7), weight), x);
	rig_run(r);
	want_all(r, 0, (double[]){ 0, 0.5, 1, NAN, 0, 1, 1 }, 7, 0);
	want_all(r, 1, (double[]){ 0, 2, 0, 0, 0, 0, 0 }, 7, 0);
}

EVERYWHERE(gated_residual_of_one)
{
	static const float v[] = { 1, 0.5f, 4 };
	rlx_value x[3];
	int i;

	for (i = 0; i < 3; i++)
		x[i] = rig_input(r, rlx_type(RLX_F32, 1), &v[i]);
	rig_output(r, rlx_emit(r->g, gated_residual, .x = x[0], .gate = x[1], .y = x[2]));
	rig_run(r);
	rig_want(r, 0, 0, 3, 0);
}

EVERYWHERE(r184_experts_of_the_best_group)
{
	static const float v[] = { 0.9f, 0.1f, 0.5f, 0.6f, 2, NAN, -1, 0.5f };
	rlx_value x = rig_input(r, rlx_type(RLX_F32, 2, 4), v);
	rlx_value y = rlx_emit(r->g, group_topk, .route = x, .gate = x, .groups = 2, .keep = 1,
			       .k = 2, .scaling = 2.5f);

	rig_output(r, y);
	rig_output(r, rlx_out(r->g, y, 1));
	rig_run(r);
	/* the second row's first group has no sum, which is behind any that has */
	want_all(r, 0, (double[]){ 3, 2, 3, 2 }, 4, 0);
	want_all(r, 1, (double[]){ 1.5 / 1.1, 1.25 / 1.1, -2.5, 5 }, 4, 1e-6);
}

/* Equal scores: the lower group, and of it the lower experts. */
EVERYWHERE(experts_that_are_alike)
{
	static const float v[] = { 1, 1, 1, 1, 1, 1 };
	rlx_value x = rig_input(r, rlx_type(RLX_F32, 6), v);
	rlx_value y = rlx_emit(r->g, group_topk, .route = x, .gate = x, .groups = 3, .keep = 2,
			       .k = 3);

	rig_output(r, y);
	rig_output(r, rlx_out(r->g, y, 1));
	rig_run(r);
	want_all(r, 0, (double[]){ 0, 1, 2 }, 3, 0);
	want_all(r, 1, (double[]){ 1.0 / 3, 1.0 / 3, 1.0 / 3 }, 3, 1e-6);
}

/* In e4m3: 448 is 0x7e, 1 is 0x38, 0x7f is no number. */
EVERYWHERE(scaled_products_of_bytes)
{
	static const uint8_t a[] = { 0x7e, 0x7f }, b[] = { 0x38 };
	static const float sa = 0x1p-8f, sb = 1;
	rlx_value s[2] = { rig_input(r, rlx_scalar(RLX_F32), &sa),
			   rig_input(r, rlx_scalar(RLX_F32), &sb) };

	rig_output(r, rlx_emit(r->g, scaled_matmul,
			       .a = rig_input(r, rlx_type(RLX_F8E4M3, 2, 1), a),
			       .b = rig_input(r, rlx_type(RLX_F8E4M3, 1, 1), b),
			       .scale_a = s[0], .scale_b = s[1]));
	rig_run(r);
	want_all(r, 0, (double[]){ 1.75, NAN }, 2, 0);
}

/* Blocks of two along k, the last of one; and rows that choose. */
EVERYWHERE(scaled_products_of_blocks_and_groups)
{
	static const float x[] = { 1, 2, 3, 4, 5, 6 }, w[] = { 1, 1, 1, 2, 2, 2 };
	static const float sx[] = { 1, 10, 2, 20 }, sw[] = { 3, 5 }, srow[] = { 1, 2 };
	static const int32_t idx[] = { 1, 0 };
	rlx_value a = rig_input(r, rlx_type(RLX_F32, 2, 3), x), b;

	b = rig_input(r, rlx_type(RLX_F32, 2, 3, 1), w);
	rig_output(r, rlx_emit(r->g, scaled_matmul, .a = a, .block = 2,
			       .b = rlx_emit(r->g, slice, .x = b, .axes = RLX_INTS(0),
					     .starts = RLX_INTS(0), .ends = RLX_INTS(1)),
			       .scale_a = rig_input(r, rlx_type(RLX_F32, 2, 2), sx),
			       .scale_b = rig_input(r, rlx_type(RLX_F32, 1, 2, 1), sw)));
	rig_output(r, rlx_emit(r->g, scaled_grouped_matmul, .x = a, .w = b,
			       .idx = rig_input(r, rlx_type(RLX_I32, 2), idx),
			       .scale_x = rig_input(r, rlx_type(RLX_F32, 2, 1), srow),
			       .scale_w = rig_input(r, rlx_type(RLX_F32, 2, 1, 1), sw)));
	rig_run(r);
	/* 3 (1 + 2) + 50 * 3, 6 (4 + 5) + 100 * 6 */
	want_all(r, 0, (double[]){ 159, 654 }, 2, 1e-6);
	/* 2 * 6 * 5, 15 * 2 * 3 */
	want_all(r, 1, (double[]){ 60, 90 }, 2, 1e-6);
}

TEST_MAIN()
