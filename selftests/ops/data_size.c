// SPDX-License-Identifier: MIT
/*
 * Ops whose result size depends on data, on cases worked out by hand: the size an
 * op's twin finds, the result, and the error when the size given is another.
 */
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static void want_all(const struct rig *r, unsigned int k, const int64_t *want, int64_t n)
{
	int64_t i;

	CHECK_EQ(rlx_type_count(&r->out[k].type), n);
	for (i = 0; i < n; i++)
		rig_want(r, k, i, (double)want[i], 0);
}
#define WANT(r, k, ...)							\
	want_all(r, k, (const int64_t[]){ __VA_ARGS__ },		\
		 sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

static void wrong_count(struct rig *r, rlx_value v)
{
	rig_output(r, v);
	CHECK_EQ(rig_try(r), RLX_ERANGE);
	CHECKF(strstr(r->err.text, "count is"), "%s", r->err.text);
}

EVERYWHERE(nonzero)
{
	const float x[6] = { 0, 3, -0.0f, NAN, 0, 1 };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 2, 3), x);

	rig_output(r, rlx_emit(r->g, nonzero_count, .x = v));
	rig_output(r, rlx_emit(r->g, nonzero, .x = v, .count = 3));
	rig_run(r);
	WANT(r, 0, 3);
	WANT(r, 1, 0, 1, 1, 1, 0, 2);
	rig_reset(r);
	wrong_count(r, rlx_emit(r->g, nonzero, .count = 2,
				.x = rig_input(r, rlx_type(RLX_F32, 2, 3), x)));
}

EVERYWHERE(unique_flat)
{
	const int64_t x[7] = { 5, 2, 5, -1, 2, 2, 9 };
	rlx_value v = rig_input(r, rlx_type(RLX_I64, 7), x), s, u;
	unsigned int k;

	s = rlx_emit(r->g, unique, .x = v, .flat = true, .count = 4);
	u = rlx_emit(r->g, unique, .x = v, .flat = true, .count = 4, .unsorted = true);
	for (k = 0; k < 4; k++)
		rig_output(r, rlx_out(r->g, s, k));
	for (k = 0; k < 4; k++)
		rig_output(r, rlx_out(r->g, u, k));
	rig_output(r, rlx_emit(r->g, unique_count, .x = v, .flat = true));
	rig_run(r);
	WANT(r, 0, -1, 2, 5, 9);
	WANT(r, 1, 3, 1, 0, 6);
	WANT(r, 2, 2, 1, 2, 0, 1, 1, 3);
	WANT(r, 3, 1, 3, 2, 1);
	WANT(r, 4, 5, 2, -1, 9);
	WANT(r, 5, 0, 1, 3, 6);
	WANT(r, 6, 0, 1, 0, 2, 1, 1, 3);
	WANT(r, 7, 2, 3, 1, 1);
	WANT(r, 8, 4);
	rig_reset(r);
	v = rig_input(r, rlx_type(RLX_I64, 7), x);
	wrong_count(r, rlx_emit(r->g, unique, .x = v, .flat = true, .count = 5));
}

EVERYWHERE(unique_rows)
{
	const int64_t x[8] = { 1, 0, 1, -1, 1, 0, 0, 7 };	/* rows 0 and 2 agree */
	rlx_value v = rig_input(r, rlx_type(RLX_I64, 4, 2), x), s;
	unsigned int k;

	s = rlx_emit(r->g, unique, .x = v, .axis = 0, .count = 3);
	for (k = 0; k < 4; k++)
		rig_output(r, rlx_out(r->g, s, k));
	rig_run(r);
	WANT(r, 0, 0, 7, 1, -1, 1, 0);
	WANT(r, 1, 3, 1, 0);
	WANT(r, 2, 2, 1, 2, 0);
	WANT(r, 3, 1, 1, 2);
}

EVERYWHERE(compress)
{
	const int64_t x[6] = { 1, 2, 3, 4, 5, 6 };
	const bool cond[3] = { true, false, true }, few[2] = { false, true };
	rlx_value v = rig_input(r, rlx_type(RLX_I64, 2, 3), x);
	rlx_value c = rig_input(r, rlx_type(RLX_BOOL, 3), cond);

	rig_output(r, rlx_emit(r->g, compress, .x = v, .cond = c, .axis = 1, .count = 2));
	rig_output(r, rlx_emit(r->g, compress, .x = v, .cond = c, .flat = true, .count = 2));
	rig_output(r, rlx_emit(r->g, compress, .x = v, .axis = -1, .count = 1, .cond =
			       rig_input(r, rlx_type(RLX_BOOL, 2), few)));
	rig_run(r);
	WANT(r, 0, 1, 3, 4, 6);
	WANT(r, 1, 1, 3);
	WANT(r, 2, 2, 5);
	rig_reset(r);
	v = rig_input(r, rlx_type(RLX_I64, 2, 3), x);
	c = rig_input(r, rlx_type(RLX_BOOL, 3), cond);
	wrong_count(r, rlx_emit(r->g, compress, .x = v, .cond = c, .axis = 1, .count = 3));
}

/* Two pairs that overlap by more than half, one box alone, one under the score. */
EVERYWHERE(nms)
{
	const float boxes[6][4] = {
		{ 0, 0, 1, 1 }, { 0, 0.1f, 1, 1.1f }, { 5, 5, 6, 6 },
		{ 6.1f, 6, 5.1f, 5 }, { 9, 9, 10, 10 }, { 20, 20, 21, 21 },
	};
	const float score[6] = { 0.5f, 0.9f, 0.8f, 0.8f, 0.3f, 0.05f };
	rlx_value b = rig_input(r, rlx_type(RLX_F32, 1, 6, 4), boxes);
	rlx_value s = rig_input(r, rlx_type(RLX_F32, 1, 1, 6), score);

	rig_output(r, rlx_emit(r->g, nms, .boxes = b, .scores = s, .max_per_class = 10,
			       .iou = 0.5f, .score = 0.1f, .use_score = true, .count = 3));
	rig_output(r, rlx_emit(r->g, nms, .boxes = b, .scores = s, .max_per_class = 2,
			       .iou = 0.5f, .count = 2));
	rig_output(r, rlx_emit(r->g, nms_count, .boxes = b, .scores = s, .iou = 0.95f,
			       .max_per_class = 10));
	rig_run(r);
	WANT(r, 0, 0, 0, 1, 0, 0, 2, 0, 0, 4);
	WANT(r, 1, 0, 0, 1, 0, 0, 2);
	WANT(r, 2, 6);
}

EVERYWHERE(max_unpool_undoes_pool)
{
	const float x[16] = { 1, 2, 9, 4, 5, 6, 7, 8, 13, 12, 11, 10, 3, 14, 15, 16 };
	static const int64_t want[16] = { 0, 0, 9, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 14, 0, 16 };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 1, 1, 4, 4), x), p;

	p = rlx_emit(r->g, pool, .x = v, .kernel = RLX_INTS(2, 2), .stride = RLX_INTS(2, 2),
		     .indices = true);
	rig_output(r, rlx_emit(r->g, max_unpool, .x = p, .indices = rlx_out(r->g, p, 1),
			       .out_shape = RLX_INTS(1, 1, 4, 4)));
	rig_output(r, rlx_out(r->g, p, 1));
	rig_run(r);
	want_all(r, 0, want, 16);
	WANT(r, 1, 5, 2, 13, 15);
}

EVERYWHERE(reverse_sequence)
{
	const int64_t x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, lens[2] = { 3, 1 }, bad[2] = { 5, 0 };
	rlx_value v = rig_input(r, rlx_type(RLX_I64, 2, 4), x);

	rig_output(r, rlx_emit(r->g, reverse_sequence, .x = v, .time_axis = 1, .batch_axis = 0,
			       .lens = rig_input(r, rlx_type(RLX_I64, 2), lens)));
	rig_run(r);
	WANT(r, 0, 3, 2, 1, 4, 5, 6, 7, 8);
	rig_reset(r);
	v = rig_input(r, rlx_type(RLX_I64, 2, 4), x);
	rig_output(r, rlx_emit(r->g, reverse_sequence, .x = v, .time_axis = 1, .batch_axis = 0,
			       .lens = rig_input(r, rlx_type(RLX_I64, 2), bad)));
	CHECK_EQ(rig_try(r), RLX_ERANGE);
	CHECKF(strstr(r->err.text, "length"), "%s", r->err.text);
}

EVERYWHERE(scatter_repeats)
{
	const float x[3] = { 1, 1, 1 }, u[4] = { 2, 3, 5, -7 };
	const int64_t idx[4] = { 0, -1, 0, 2 };
	static const double want[5][3] = {
		{ 5, 1, -7 }, { 8, 1, -3 }, { 10, 1, -21 }, { 5, 1, 3 }, { 1, 1, -7 },
	};
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 3), x);
	rlx_value i = rig_input(r, rlx_type(RLX_I64, 4), idx);
	rlx_value n = rlx_emit(r->g, reshape, .x = i, .shape = RLX_INTS(4, 1));
	rlx_value w = rig_input(r, rlx_type(RLX_F32, 4), u);
	int k, j;

	for (k = 0; k < 5; k++) {
		rig_output(r, rlx_emit(r->g, scatter_elements, .x = v, .indices = i,
				       .updates = w, .reduction = k));
		rig_output(r, rlx_emit(r->g, scatter_nd, .x = v, .indices = n, .updates = w,
				       .reduction = k));
	}
	rig_run(r);
	for (k = 0; k < 10; k++)
		for (j = 0; j < 3; j++)
			rig_want(r, (unsigned int)k, j, want[k / 2][j], 0);
}

TEST_MAIN()
