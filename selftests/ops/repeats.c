// SPDX-License-Identifier: MIT
/*
 * Pointwise chains that read what only repeats elements (resize, tile, expand), which they do
 * without a step for it where that is all: known numbers, steps, and drawn chains against the
 * evaluator.
 */
#include <string.h>

#include "selftests/lib/drawn.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { CASES = 300 };

static bool compiles_regions(const struct rig *r)
{
	return r->device && strcmp(r->device, "ref");
}

static rlx_value twice(struct rig *r, rlx_value x, struct rlx_ints sizes)
{
	return rlx_emit(r->g, resize, .x = x, .sizes = sizes, .coord = RLX_COORD_ASYMMETRIC,
			.nearest = RLX_NEAREST_FLOOR);
}

EVERYWHERE(r183_chain_over_an_image_of_twice_the_size)
{
	static const float x[] = { 1, 2, 3, 4 };
	static const double want[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 1, 1, 2, 2 };
	struct rlx_ints sizes[] = { RLX_INTS(4, 4), RLX_INTS(1, 1, 4, 4) };
	struct rlx_type types[] = { rlx_type(RLX_F32, 2, 2), rlx_type(RLX_F32, 1, 1, 2, 2) };
	int k, i;

	for (k = 0; k < 2; k++) {
		rlx_value v = twice(r, rig_input(r, types[k], x), sizes[k]);

		v = rlx_emit(r->g, sub, .a = v, .b = rlx_scalar_const(r->g, RLX_F32, 2));
		rig_output(r, rlx_emit(r->g, relu, .x = v));
		rig_run(r);
		for (i = 0; i < 16; i++)
			rig_want(r, 0, i, want[i], 0);
		if (compiles_regions(r))
			CHECK_EQ(r->steps, 1);
		rig_reset(r);
	}
}

/* Steps of relu of @v, beside which @also is an output. */
static unsigned int steps_of(struct rig *r, rlx_value v, rlx_value also)
{
	unsigned int steps;

	rig_output(r, rlx_emit(r->g, relu, .x = v));
	if (also.id)
		rig_output(r, also);
	rig_run(r);
	steps = r->steps;
	rig_reset(r);
	return steps;
}

static rlx_value image(struct rig *r)
{
	return rig_random(r, rlx_type(RLX_F32, 1, 2, 3, 5), -1, 1);
}

EVERYWHERE(only_what_repeats_is_read_so)
{
	rlx_value x, y;

	if (!compiles_regions(r))
		return;
	x = rlx_emit(r->g, tile, .x = image(r), .repeats = RLX_INTS(1, 2, 1, 3));
	CHECK_EQ(steps_of(r, x, RLX_NONE), 1);
	x = rlx_emit(r->g, expand, .x = rig_random(r, rlx_type(RLX_F32, 3, 1), -1, 1),
		     .shape = RLX_INTS(2, 3, 4));
	CHECK_EQ(steps_of(r, x, RLX_NONE), 1);
	x = twice(r, image(r), RLX_INTS(1, 2, 6, 10));	/* of two factors in one chain */
	y = twice(r, rig_random(r, rlx_type(RLX_F32, 3, 5), -1, 1), RLX_INTS(6, 10));
	CHECK_EQ(steps_of(r, rlx_emit(r->g, mul, .a = x, .b = y), RLX_NONE), 1);
	x = twice(r, image(r), RLX_INTS(1, 2, 6, 10));	/* it is wanted by itself */
	CHECK_EQ(steps_of(r, x, x), 2);
	x = twice(r, image(r), RLX_INTS(1, 2, 7, 10));	/* not by a whole number */
	CHECK_EQ(steps_of(r, x, RLX_NONE), 2);
	x = rlx_emit(r->g, resize, .x = image(r), .sizes = RLX_INTS(1, 2, 6, 10),
		     .coord = RLX_COORD_ASYMMETRIC, .nearest = RLX_NEAREST_CEIL);
	CHECK_EQ(steps_of(r, x, RLX_NONE), 2);		/* it is moved by half a pixel */
	x = rig_random(r, rlx_type(RLX_F32, 9, 40, 3), -1, 1);
	x = twice(r, x, RLX_INTS(18, 80, 3));
	/* pieces that are too short for a CPU's vectors; to a GPU none are */
	CHECK_EQ(steps_of(r, x, RLX_NONE), strcmp(r->device, "cuda") && strcmp(r->device, "rocm") ?
		 2 : 1);
}

/* ---- regions that users wrote ---- */

enum { BODIES = 4 };

static rlx_value written(struct rlx_graph *g, rlx_value x, int how)
{
	int64_t to[] = { 3, 500 };

	if (how == 0)		/* behind an op, as the result */
		x = rlx_emit(g, neg, .x = x);
	x = rlx_emit(g, expand, .x = x, .shape = { to + (how == 1), how == 1 ? 1 : 2 });
	if (how == 1)		/* twice */
		x = rlx_emit(g, expand, .x = x, .shape = { to, 2 });
	return how == 2 ? rlx_emit(g, relu, .x = x) : x;
}

EVERYWHERE(written_regions_that_repeat)
{
	int how;
	int64_t i;

	for (how = 0; how < BODIES; how++) {
		struct rlx_graph *b = rlx_graph_new("written");
		struct rlx_type t = rlx_type(RLX_F32, how == 1 ? 1 : 500);
		rlx_value x;

		rig_reset(r);
		x = rig_random(r, t, -3, 3);
		rlx_output(b, "y", written(b, rlx_input(b, "x", t), how));
		CHECK_EQ(rlx_graph_finish(b), 0);
		rig_output(r, rlx_emit(r->g, region, .body = b, .xs = { &x, 1 }));
		rig_output(r, written(r->g, x, how));
		rlx_graph_put(b);
		rig_run(r);
		for (i = 0; i < 1500; i++)
			rig_want(r, 0, i, rig_get(r, 1, i), 0);
	}
}

/* ---- drawn ---- */

/* By any rule, to @y or what is near it. */
static rlx_value drawn_resize(struct rig *r, struct rlx_type x, struct rlx_type y)
{
	int32_t coord = (int32_t)drawn_below(r, RLX_COORD_TF_HALF_PIXEL_NN + 1);
	double scales[RLX_MAX_RANK];
	uint32_t i;

	for (i = 0; i < x.rank; i++)
		scales[i] = (double)(y.dim[i] ? y.dim[i] : 1) / (double)(x.dim[i] ? x.dim[i] : 1) +
			    (drawn_below(r, 4) ? 0 : 0.2);
	if (coord == RLX_COORD_TF_CROP_AND_RESIZE)
		coord = RLX_COORD_ASYMMETRIC;
	return rlx_emit(r->g, resize, .x = drawn_input(r, x), .sizes = { y.dim, y.rank },
			.scales = { scales, drawn_below(r, 3) ? 0 : y.rank }, .coord = coord,
			.nearest = (int32_t)drawn_below(r, RLX_NEAREST_SIMPLE + 1));
}

/* Something of shape @y, which mostly repeats something smaller. */
static rlx_value drawn_move(struct rig *r, struct rlx_type y)
{
	int64_t repeats[RLX_MAX_RANK], kind = drawn_below(r, 4), f;
	struct rlx_type x = y;
	uint32_t i;

	for (i = 0; i < y.rank; i++) {
		f = 1 + drawn_below(r, 4);
		repeats[i] = kind != 2 ? f : f < 4 && y.dim[i] ? y.dim[i] : 1;
		if (y.dim[i] % repeats[i])
			repeats[i] = 1;
		x.dim[i] = y.dim[i] / repeats[i];
	}
	if (kind == 0 || (kind == 1 && y.dtype == RLX_BOOL))
		return rlx_emit(r->g, tile, .x = drawn_input(r, x), .repeats = { repeats, y.rank });
	if (kind == 1)
		return drawn_resize(r, x, y);
	if (kind == 2)
		return rlx_emit(r->g, expand, .x = drawn_input(r, x), .shape = { y.dim, y.rank });
	return drawn_input(r, y);
}

static void drawn_chain(struct rig *r)
{
	static const enum rlx_dtype dtypes[] = { RLX_F32, RLX_F32, RLX_F16, RLX_BF16, RLX_F64,
						 RLX_I32, RLX_I8, RLX_U8, RLX_I64 };
	struct rlx_type y = { .dtype = dtypes[drawn_below(r, 9)],
			      .rank = 1 + (uint32_t)drawn_below(r, 5) };
	struct rlx_type cond;
	rlx_value v;
	uint32_t i;

	for (i = 0; i < y.rank; i++)
		y.dim[i] = drawn_below(r, 30) ? 1 + drawn_below(r, 12) : 0;
	if (!drawn_below(r, 4))
		y.dim[y.rank - 1] *= 24;
	cond = y;
	cond.dtype = RLX_BOOL;
	v = drawn_move(r, y);
	if (drawn_below(r, 4))
		v = rlx_emit(r->g, sub, .a = v, .b = drawn_move(r, y));
	if (!drawn_below(r, 4))
		v = rlx_emit(r->g, where, .cond = drawn_move(r, cond), .a = v,
			     .b = drawn_move(r, y));
	if (drawn_below(r, 3))
		v = rlx_emit(r->g, relu, .x = v);
	if (!drawn_below(r, 3))
		v = rlx_emit(r->g, max, .a = drawn_move(r, y), .b = v);
	if (!drawn_below(r, 5))
		v = rlx_emit(r->g, cast, .x = v, .to = RLX_F32);
	rig_output(r, v);
	if (!drawn_below(r, 6))
		rig_output(r, rlx_emit(r->g, neg, .x = v));
}

TEST(drawn_chains_are_as_evaluated)
{
	drawn_as_evaluated("chain", drawn_cases(CASES), drawn_chain);
}

TEST_MAIN()
