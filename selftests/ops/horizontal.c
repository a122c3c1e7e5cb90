// SPDX-License-Identifier: MIT
/*
 * Concats of equal pointwise chains, which become one step: known numbers, steps, and drawn ones
 * against the evaluator.
 */
#include <math.h>
#include <string.h>

#include "selftests/lib/drawn.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { CASES = 100, LARGE_CASES = 5, MANY = 70 };

static bool joins(const struct rig *r)
{
	return r->device && (!strcmp(r->device, "cpu") || !strcmp(r->device, "cuda") ||
			     !strcmp(r->device, "rocm"));
}

static rlx_value less_one(struct rig *r, rlx_value x, double one)
{
	x = rlx_emit(r->g, sub, .a = x, .b = rlx_scalar_const(r->g, RLX_F32, one));
	return rlx_emit(r->g, relu, .x = x);
}

EVERYWHERE(r182_one_step_of_70_equal_chains)
{
	rlx_value v[MANY];
	int64_t i;

	for (i = 0; i < MANY; i++)
		v[i] = less_one(r, rig_random(r, rlx_type(RLX_F32, 1, 5), -3, 3), 1);
	rig_output(r, rlx_emit(r->g, concat, .axis = 0, .xs = { v, MANY }));
	rig_run(r);
	for (i = 0; i < MANY * 5; i++)
		rig_want(r, 0, i, fmax(rig_in(r, (unsigned int)(i / 5), i % 5) - 1, 0), 1e-6);
	if (joins(r))
		CHECK_EQ(r->steps, 1);
}

/* Steps of a concat of four chains, of which the third is something else; @also: wanted too. */
static unsigned int steps_of(struct rig *r, rlx_value other, bool also)
{
	rlx_value v[4];
	unsigned int i, steps;

	for (i = 0; i < 4; i++)
		v[i] = i == 2 && other.id ? other :
		       less_one(r, rig_random(r, rlx_type(RLX_F32, 2, 5), -3, 3), 1);
	rig_output(r, rlx_emit(r->g, concat, .axis = 0, .xs = { v, 4 }));
	if (also)
		rig_output(r, v[0]);
	rig_run(r);
	steps = r->steps;
	rig_reset(r);
	return steps;
}

static rlx_value rows(struct rig *r, int64_t n)
{
	return rig_random(r, rlx_type(RLX_F32, n, 5), -3, 3);
}

EVERYWHERE(r182_only_equal_chains_are_one_step)
{
	if (!joins(r))
		return;
	CHECK_EQ(steps_of(r, RLX_NONE, false), 1);
	CHECK_EQ(steps_of(r, less_one(r, rows(r, 3), 1), false), 1);	/* of another length */
	/* two of them, and what is another, the last one and a concat */
	CHECK_EQ(steps_of(r, less_one(r, rows(r, 2), 2), false), 4);
	CHECK_EQ(steps_of(r, rlx_emit(r->g, neg, .x = rows(r, 2)), false), 4);
	CHECK_EQ(steps_of(r, rows(r, 2), false), 3);
	CHECK_EQ(steps_of(r, RLX_NONE, true), 3);	/* the first is wanted by itself */
}

/* An operand that repeats along the axis in one chain and lies along it in the other. */
EVERYWHERE(operand_that_repeats_in_one_chain_alone)
{
	enum { ROWS = 3, N = 400 };
	rlx_value v[2], s;
	int64_t i;

	for (i = 0; i < 2; i++) {
		v[i] = rig_random(r, rlx_type(RLX_F32, ROWS, N), -3, 3);
		s = rig_random(r, rlx_type(RLX_F32, i ? ROWS : 1, N), -3, 3);
		v[i] = rlx_emit(r->g, relu, .x = rlx_emit(r->g, sub, .a = v[i], .b = s));
	}
	rig_output(r, rlx_emit(r->g, concat, .axis = 0, .xs = { v, 2 }));
	rig_run(r);
	for (i = 0; i < ROWS * N; i++) {
		rig_want(r, 0, i, fmax(rig_in(r, 0, i) - rig_in(r, 1, i % N), 0), 1e-6);
		rig_want(r, 0, i + ROWS * N, fmax(rig_in(r, 2, i) - rig_in(r, 3, i), 0), 1e-6);
	}
}

/* The same chain twice, which scopes keep apart: there is nothing to join. */
EVERYWHERE(chains_of_one_input)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 1, 5), -3, 3), v[2];
	int64_t i;

	for (i = 0; i < 2; i++) {
		rlx_scope_begin(r->g, (uint32_t)i + 1);
		v[i] = less_one(r, x, 1);
		rlx_scope_end(r->g);
	}
	rig_output(r, rlx_emit(r->g, concat, .axis = 0, .xs = { v, 2 }));
	rig_run(r);
	for (i = 0; i < 10; i++)
		rig_want(r, 0, i, fmax(rig_in(r, 0, i % 5) - 1, 0), 1e-6);
}

/* ---- regions that users wrote ---- */

enum { BODIES = 5 };

static rlx_value written(struct rlx_graph *b, const rlx_value *x, int how)
{
	rlx_value y = rlx_emit(b, concat, .axis = 0, .xs = { x, 2 });
	rlx_value v[2] = { rlx_emit(b, neg, .x = x[0]), x[1] }, w[2] = { x[0], x[2] };

	if (how == 0)		/* behind an op */
		return rlx_emit(b, concat, .axis = 0, .xs = { v, 2 });
	if (how == 1)		/* a part by itself, and what is as long as all parts */
		return rlx_emit(b, sub, .a = y, .b = x[0]);
	if (how == 2)
		return rlx_emit(b, sub, .a = y, .b = x[3]);
	if (how == 3)		/* two of one input */
		return rlx_emit(b, sub, .a = y,
				.b = rlx_emit(b, concat, .axis = 0, .xs = { w, 2 }));
	w[0] = y;		/* of a concat */
	return rlx_emit(b, abs, .x = rlx_emit(b, concat, .axis = 0, .xs = { w, 2 }));
}

/* As what they are written of. */
EVERYWHERE(written_regions_that_join)
{
	int how, k;
	int64_t i;

	for (how = 0; how < BODIES; how++) {
		struct rlx_graph *b = rlx_graph_new("written");
		rlx_value x[4], in[4];
		char name[8];

		rig_reset(r);
		for (k = 0; k < 4; k++) {
			struct rlx_type t = rlx_type(RLX_F32, k < 3 ? 1 : 2, 500);

			snprintf(name, sizeof(name), "%d", k);
			x[k] = rlx_input(b, name, t);
			in[k] = rig_random(r, t, -3, 3);
		}
		rlx_output(b, "y", written(b, x, how));
		CHECK_EQ(rlx_graph_finish(b), 0);
		rig_output(r, rlx_emit(r->g, region, .body = b, .xs = { in, 4 }));
		rig_output(r, written(r->g, in, how));
		rlx_graph_put(b);
		rig_run(r);
		for (i = 0; i < rlx_type_count(&r->out[1].type); i++)
			rig_want(r, 0, i, rig_get(r, 1, i), 1e-6);
	}
}

/* Two of them, joined: what joins is no chain. */
EVERYWHERE(written_regions_that_join_joined)
{
	enum { N = 6 };
	rlx_value x[N], in[2 * N], v[2];
	int64_t i, k;
	char name[8];

	for (i = 0; i < 2; i++) {
		struct rlx_graph *b = rlx_graph_new("written");

		for (k = 0; k < N; k++) {
			snprintf(name, sizeof(name), "%d", (int)k);
			x[k] = rlx_input(b, name, rlx_type(RLX_F32, 2, 500));
			in[i * N + k] = rig_random(r, rlx_type(RLX_F32, 2, 500), -3, 3);
		}
		rlx_output(b, "y", rlx_emit(b, abs, .x = rlx_emit(b, concat, .axis = 0,
								  .xs = { x, N })));
		CHECK_EQ(rlx_graph_finish(b), 0);
		v[i] = rlx_emit(r->g, region, .body = b, .xs = { in + i * N, N });
		rlx_graph_put(b);
	}
	rig_output(r, rlx_emit(r->g, concat, .axis = 0, .xs = { v, 2 }));
	rig_run(r);
	for (i = 0; i < 2 * N * 1000; i++)
		rig_want(r, 0, i, fabs(rig_in(r, (unsigned int)(i / 1000), i % 1000)), 1e-6);
}

/* ---- drawn ---- */

/* What the parts of a case have in common: how operand @k lies, and which are shared. */
struct form {
	struct rlx_type	y;
	uint32_t	axis, n_operand, ops;
	uint32_t	full;			/* an operand that lies all along */
	bool		mixed, scoped;		/* others along the axis or not, as each part has it */
	bool		again;			/* now and then what the part before read */
	uint32_t	lies[3];		/* bits: before the axis, along it, behind it */
	enum rlx_dtype	dtype[3], out;
	rlx_value	shared[3], last[3];
};

static struct rlx_type operand_type(const struct form *f, uint32_t k, uint32_t lies,
				    int64_t length)
{
	struct rlx_type t = f->y;
	uint32_t i;

	t.dtype = f->dtype[k];
	t.dim[f->axis] = length;
	for (i = 0; i < t.rank; i++)
		if (!(lies >> (i < f->axis ? 0 : i == f->axis ? 1 : 2) & 1))
			t.dim[i] = 1;
	while (t.rank && t.dim[0] == 1 && lies & 8)	/* without leading ones */
		memmove(t.dim, t.dim + 1, --t.rank * sizeof(t.dim[0]));
	return t;
}

static rlx_value operand(struct rig *r, struct form *f, uint32_t k, int64_t length)
{
	bool flips = f->mixed && k != f->full && drawn_below(r, 2);
	struct rlx_type t = operand_type(f, k, f->lies[k] ^ (flips ? 2 : 0), length);

	if (f->shared[k].id)
		return f->shared[k];
	if (!f->again || !f->last[k].id || drawn_below(r, 3) ||
	    !rlx_type_equal(&t, rlx_type_of(r->g, f->last[k])))
		f->last[k] = drawn_input(r, t);
	return f->last[k];
}

static rlx_value chain(struct rig *r, struct form *f, int64_t length)
{
	rlx_value v, w;

	rlx_scope_begin(r->g, f->scoped ? (uint32_t)drawn_below(r, 4) : 0);
	v = operand(r, f, 0, length);
	if (f->dtype[0] != f->y.dtype)
		v = rlx_emit(r->g, cast, .x = v, .to = f->y.dtype);
	if (f->n_operand > 1) {
		w = operand(r, f, 1, length);
		v = f->ops & 1 ? rlx_emit(r->g, sub, .a = w, .b = v) :
				 rlx_emit(r->g, max, .a = v, .b = w);
	}
	if (f->n_operand > 2)
		v = rlx_emit(r->g, add, .a = v, .b = operand(r, f, 2, length));
	if (f->ops & 2)
		v = rlx_emit(r->g, relu, .x = v);
	if (f->ops & 4 && f->y.dtype != RLX_BOOL)
		v = rlx_emit(r->g, abs, .x = v);
	if (f->ops & 24)
		v = rlx_emit(r->g, min, .a = v, .b = rlx_scalar_const(r->g, f->y.dtype, 3));
	if (f->out != f->y.dtype)
		v = rlx_emit(r->g, cast, .x = v, .to = f->out);
	rlx_scope_end(r->g);
	return v;
}

static struct form drawn_form(struct rig *r, bool large)
{
	static const enum rlx_dtype dtypes[] = { RLX_F32, RLX_F32, RLX_F16, RLX_BF16, RLX_F64,
						 RLX_I32, RLX_I8, RLX_U8, RLX_I64 };
	struct form f = { .y = { .dtype = dtypes[drawn_below(r, 9)],
				 .rank = 1 + (uint32_t)drawn_below(r, 4) } };
	uint32_t i;

	for (i = 0; i < f.y.rank; i++)
		f.y.dim[i] = drawn_below(r, 40) ? 1 + drawn_below(r, 7) : 0;
	if (!drawn_below(r, 3))
		f.y.dim[f.y.rank - 1] *= 1 + drawn_below(r, 200);
	f.out = drawn_below(r, 4) || f.y.dtype == RLX_F64 ? f.y.dtype : RLX_F32;
	if (large)
		f.y.dim[f.y.rank - 1] = 4096 * (1 + drawn_below(r, 3)) + drawn_below(r, 2);
	f.axis = (uint32_t)drawn_below(r, f.y.rank - (large && f.y.rank > 1));
	f.n_operand = 1 + (uint32_t)drawn_below(r, 3);
	f.ops = (uint32_t)drawn_below(r, 32);
	f.full = drawn_below(r, 3) ? 0 : (uint32_t)drawn_below(r, f.n_operand);
	f.mixed = drawn_below(r, 2);
	f.scoped = !drawn_below(r, 4);
	f.again = !drawn_below(r, 4);
	for (i = 0; i < f.n_operand; i++) {
		f.lies[i] = i == f.full ? 7 : (uint32_t)drawn_below(r, 16);
		f.dtype[i] = f.y.dtype;
		if (i != f.full && drawn_below(r, 2)) {
			f.lies[i] &= ~2u;
			f.shared[i] = drawn_input(r, operand_type(&f, i, f.lies[i], 1));
		}
	}
	if (rlx_dtype_is_float(f.y.dtype) && !f.shared[0].id && !drawn_below(r, 4))
		f.dtype[0] = RLX_I8;
	return f;
}

static void drawn_concat(struct rig *r, bool large)
{
	struct form f = drawn_form(r, large);
	int64_t n = 2 + drawn_below(r, drawn_below(r, 4) ? 6 : 38), i;
	int64_t even = drawn_below(r, 2) ? drawn_below(r, 9) : -1;
	int64_t wide = drawn_below(r, 4) ? 9 : 300;
	bool odd = !drawn_below(r, 3), wanted = !drawn_below(r, 8);
	rlx_value v[40];

	for (i = 0; i < n; i++) {
		int64_t length = even >= 0 ? even : drawn_below(r, wide);
		struct rlx_type t = f.y;

		t.dtype = f.out;
		t.dim[f.axis] = length;
		v[i] = odd && !drawn_below(r, 5) ? drawn_input(r, t) : chain(r, &f, length);
	}
	rig_output(r, rlx_emit(r->g, concat, .xs = { v, (uint32_t)n },
			       .axis = (int32_t)f.axis -
				       (drawn_below(r, 2) ? (int32_t)f.y.rank : 0)));
	if (wanted)
		rig_output(r, v[0]);
}

static void drawn_small(struct rig *r)
{
	drawn_concat(r, false);
}

static void drawn_large(struct rig *r)
{
	drawn_concat(r, true);
}

TEST(drawn_concats_are_as_evaluated)
{
	drawn_as_evaluated("concat", drawn_cases(CASES), drawn_small);
}

/* Of several blocks a row, which threads share, and vectors of a GPU's threads. */
TEST(drawn_large_concats_are_as_evaluated)
{
	drawn_as_evaluated("large concat", LARGE_CASES, drawn_large);
}

/* More than one call's arguments take, and shared between the calls. */
EVERYWHERE(r182_hundreds_of_parts)
{
	enum { N = 900 };
	rlx_value x = rig_random(r, rlx_type(RLX_F32, N, 3), -3, 3), v[N];
	int64_t i;

	for (i = 0; i < N; i++) {
		v[i] = rlx_emit(r->g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(i),
				.ends = RLX_INTS(i + 1));
		v[i] = less_one(r, v[i], 1);
	}
	rig_output(r, rlx_emit(r->g, concat, .axis = 0, .xs = { v, N }));
	rig_run(r);
	for (i = 0; i < N * 3; i++)
		rig_want(r, 0, i, fmax(rig_in(r, 0, i) - 1, 0), 1e-6);
	if (joins(r))
		CHECK_EQ(r->steps, N + 1);	/* the slices */
}

TEST_MAIN()
