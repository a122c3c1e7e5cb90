// SPDX-License-Identifier: MIT
/*
 * Inputs that stay: brought to a device with memory of its own once, and again when something was
 * said of them; and where the bytes of values are, which nothing moves to find out.
 */
#include <stdlib.h>

#include "rlx/arena.h"
#include "selftests/gpu/sessions.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rig.h"

enum { N = 1 << 18, BYTES = 4 * N };	/* 1 MiB */

/*
 * y = 2 x: as large as the input, whose place it could take. @more: z = x + w, and the sum of x by
 * a launch of its own, so that a GPU's first one brings what is small.
 */
static struct rlx_session *open_line(int64_t n, bool more)
{
	struct rlx_type t = rlx_type(RLX_F32, n);
	struct rlx_graph *g = rlx_graph_new("stable");
	rlx_value x = rlx_input(g, "x", t);

	rlx_output(g, "y", rlx_emit(g, mul, .a = x, .b = rlx_scalar_const(g, RLX_F32, 2)));
	if (more) {
		rlx_output(g, "z", rlx_emit(g, add, .a = x, .b = rlx_param(g, "w", t)));
		rlx_output(g, "sum", rlx_emit(g, reduce, .x = x, .kind = RLX_REDUCE_SUM));
	}
	return rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = op_case_gpu() });
}

static struct rlx_arena *arena(uint64_t bytes)
{
	struct rlx_arena *a = NULL;

	CHECK_EQ(rlx_arena_new(&(struct rlx_arena_opts){ .size = bytes }, &a, NULL), 0);
	return a;
}

static void fill(float *x, int64_t n, float v)
{
	int64_t i;

	for (i = 0; i < n; i++)
		x[i] = v + (float)(i % 1000);
}

/* All of y is of x as fill() with @v leaves it. */
static void check_y(struct rlx_session *s, int64_t n, float v)
{
	const float *y = rlx_buf_ptr(rlx_session_bound(s, RLX_IO_OUTPUT, "y"));
	int64_t i;

	for (i = 0; i < n; i++)
		CHECKF(y[i] == 2 * (v + (float)(i % 1000)), "y[%lld] is %g, not of %g",
		       (long long)i, (double)y[i], (double)v);
}

static uint64_t brought(struct rlx_session *s)
{
	return rlx_session_transfers(s).in;
}

static uint32_t where(struct rlx_session *s, enum rlx_io io, const char *name)
{
	struct rlx_transfers before = rlx_session_transfers(s), after;
	uint32_t at = ~0u;

	CHECKF(!rlx_session_where(s, io, name, &at), "%s", rlx_session_error(s)->text);
	after = rlx_session_transfers(s);
	CHECK(!memcmp(&before, &after, sizeof(before)));
	return at;
}

enum { BOTH = RLX_WHERE_HOST | RLX_WHERE_DEVICE };

TEST(brought_once)
{
	struct rlx_session *s = open_line(N, false);
	struct rlx_arena *a = arena(BYTES);
	struct rlx_buf b = { a, 0, BYTES };
	float *x = rlx_arena_base(a);
	int i;

	fill(x, N, 1);
	CHECK_EQ(where(s, RLX_IO_INPUT, "x"), 0);
	CHECK_EQ(rlx_session_bind_stable(s, RLX_IO_INPUT, "x", b), 0);
	CHECK_EQ(where(s, RLX_IO_INPUT, "x"), RLX_WHERE_HOST);
	for (i = 0; i < 3; i++) {
		run(s);
		check_y(s, N, 1);
		CHECK_EQ(brought(s), 1);
		CHECK_EQ(rlx_session_transfers(s).in_bytes, BYTES);
		CHECK_EQ(where(s, RLX_IO_INPUT, "x"), BOTH);
	}
	fill(x, N, 5);		/* without a word: by contract of a device apart, as before */
	run(s);
	check_y(s, N, 1);
	CHECK_EQ(rlx_session_touch(s, RLX_IO_INPUT, "x"), 0);
	CHECK_EQ(where(s, RLX_IO_INPUT, "x"), RLX_WHERE_HOST);
	for (i = 0; i < 2; i++) {
		run(s);
		check_y(s, N, 5);
		CHECK_EQ(brought(s), 2);
	}
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", b), 0);	/* no promise any more */
	for (i = 0; i < 2; i++) {
		fill(x, N, (float)(7 + i));
		run(s);
		check_y(s, N, (float)(7 + i));
		CHECK_EQ(brought(s), 3 + i);
		CHECK_EQ(where(s, RLX_IO_INPUT, "x"), RLX_WHERE_HOST);
	}
	rlx_session_free(s);
	rlx_arena_put(a);
}

/* What is set is compared. */
static void set_again(int64_t n)
{
	struct rlx_type t = rlx_type(RLX_F32, n), half = rlx_type(RLX_F16, n);
	struct rlx_session *s = open_line(n, true);
	float *x = calloc((size_t)n, sizeof(*x));
	uint16_t *ones = calloc((size_t)n, sizeof(*ones));
	uint64_t was, in_place = 0;
	int64_t i;

	fill(x, n, 1);
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", t, x), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, x), 0);
	run(s);
	in_place = brought(s) == 1;	/* the param alone */
	run(s);
	was = brought(s);
	for (i = 0; i < 3; i++) {
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, x), 0);
		run(s);
		check_y(s, n, 1);
		CHECK_EQ(brought(s), was);
	}
	x[n - 1] += 1;		/* one element, the last */
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, x), 0);
	run(s);
	CHECK_EQ(brought(s), was + !in_place);
	CHECK_EQ(((float *)rlx_buf_ptr(rlx_session_bound(s, RLX_IO_OUTPUT, "y")))[n - 1],
		 2 * x[n - 1]);
	for (i = 0; i < n; i++)
		ones[i] = 0x3c00;
	for (i = 0; i < 2; i++) {	/* converted */
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", half, ones), 0);
		run(s);
		CHECK_EQ(brought(s), was + 2 * !in_place);
		CHECK_EQ(((float *)rlx_buf_ptr(rlx_session_bound(s, RLX_IO_OUTPUT, "y")))[0], 2);
	}
	rlx_session_free(s);
	free(x);
	free(ones);
}

TEST(set_of_what_is_there)
{
	set_again(N);
	set_again(1000);
	set_again(7);
}

/* Whoever knows where the memory is may write there: each run looks. */
TEST(memory_that_was_asked_for)
{
	struct rlx_session *s = open_line(N, false);
	float *x = calloc(N, sizeof(*x)), *own;
	int i;

	fill(x, N, 1);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, N), x), 0);
	run(s);
	own = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x"));
	for (i = 0; i < 3; i++) {
		fill(own, N, (float)i);
		run(s);
		check_y(s, N, (float)i);
		CHECK_EQ(brought(s), 2 + i);
	}
	rlx_session_free(s);
	free(x);
}

/* Of a state, and of what is fed, which a device keeps; set, run, set of the first bytes again. */
TEST(what_is_kept)
{
	struct rlx_type t = rlx_type(RLX_F32, N);
	struct rlx_session *s = open_line(N, false);
	float *x = calloc(N, sizeof(*x));

	fill(x, N, 1);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, x), 0);
	run(s);
	run(s);
	CHECK_EQ(where(s, RLX_IO_OUTPUT, "y"), RLX_WHERE_HOST);
	CHECK_EQ(rlx_session_feed(s, "y", "x"), 0);
	CHECK_EQ(where(s, RLX_IO_INPUT, "x"), RLX_WHERE_HOST);
	run(s);
	CHECK_EQ(where(s, RLX_IO_INPUT, "x"), RLX_WHERE_DEVICE);
	CHECK_EQ(where(s, RLX_IO_OUTPUT, "y"), RLX_WHERE_DEVICE);
	check_y(s, N, 1);
	CHECK_EQ(where(s, RLX_IO_OUTPUT, "y"), BOTH);
	CHECK_EQ(where(s, RLX_IO_INPUT, "x"), RLX_WHERE_DEVICE);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, x), 0);
	CHECK_EQ(where(s, RLX_IO_INPUT, "x"), RLX_WHERE_HOST);
	run(s);
	check_y(s, N, 1);
	CHECK_EQ(rlx_session_feed(s, NULL, "x"), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, x), 0);
	run(s);
	check_y(s, N, 1);
	rlx_session_free(s);
	free(x);
}

TEST(params_and_small_inputs)
{
	struct rlx_type t = rlx_type(RLX_F32, 1000);
	struct rlx_session *s = open_line(1000, true);
	struct rlx_arena *a = arena(4096);
	float *x = rlx_arena_base(a), w[1000];
	uint64_t was;
	int i;

	fill(x, 1000, 1);
	fill(w, 1000, 0);
	CHECK_EQ(where(s, RLX_IO_PARAM, "w"), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", t, w), 0);
	CHECK_EQ(where(s, RLX_IO_PARAM, "w"), RLX_WHERE_HOST);
	CHECK_EQ(rlx_session_bind_stable(s, RLX_IO_INPUT, "x", (struct rlx_buf){ a, 0, 4000 }), 0);
	run(s);
	CHECK_EQ(where(s, RLX_IO_PARAM, "w"), BOTH);
	was = brought(s);
	for (i = 0; i < 3; i++)
		run(s);
	CHECK_EQ(brought(s), was);
	check_y(s, 1000, 1);
	fill(x, 1000, 3);
	CHECK_EQ(rlx_session_touch_at(s, RLX_IO_INPUT, 0), 0);
	run(s);
	check_y(s, 1000, 3);
	CHECK(brought(s) <= was + 1);
	was = brought(s);
	CHECK_EQ(rlx_session_touch(s, RLX_IO_PARAM, "w"), 0);
	CHECK_EQ(where(s, RLX_IO_PARAM, "w"), RLX_WHERE_HOST);
	run(s);
	CHECK_EQ(brought(s), was + 1);
	CHECK_EQ(where(s, RLX_IO_PARAM, "w"), BOTH);
	rlx_session_free(s);
	rlx_arena_put(a);
}

/* Whatever was done before, with whatever size: a run takes what it should. */
static void at_random(uint64_t *seed)
{
	static const int64_t sizes[] = { 5, 1000, 16384, 16385, 40000 };
	int64_t n = sizes[(unsigned int)rlx_test_uniform(seed, 0, 5)];
	struct rlx_session *s = open_line(n, rlx_test_uniform(seed, 0, 2) < 1);
	struct rlx_arena *a = arena((uint64_t)n * 8 + 64);
	float *x = calloc((size_t)n, sizeof(*x)), *at = NULL, v = 0;
	struct rlx_buf b = { a, 0, (uint64_t)n * 4 };
	int i;

	fill(x, n, 1);
	if (rlx_program_io_count(rlx_session_program(s), RLX_IO_PARAM))
		CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", rlx_type(RLX_F32, n), x), 0);
	for (i = 0; i < 12; i++) {
		int what = i ? (int)rlx_test_uniform(seed, 0, 6) : 0;

		if (what < 2) {
			v = what ? v : (float)i;
			fill(x, n, v);
			CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, n), x), 0);
		} else if (what < 4) {
			b.offset = rlx_test_uniform(seed, 0, 2) < 1 ? 0 :
				   (uint64_t)(n * 4 + 63) / 64 * 64;
			at = (float *)((char *)rlx_arena_base(a) + b.offset);
			fill(at, n, v = (float)i);
			CHECK_EQ(what == 2 ? rlx_session_bind(s, RLX_IO_INPUT, "x", b) :
				 rlx_session_bind_stable(s, RLX_IO_INPUT, "x", b), 0);
		} else if (what == 4) {
			at = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x"));
			fill(at, n, v = (float)i);
		} else {
			CHECK_EQ(rlx_session_touch(s, RLX_IO_INPUT, "x"), 0);
		}
		run(s);
		check_y(s, n, v);
		run(s);
		check_y(s, n, v);
	}
	rlx_session_free(s);
	rlx_arena_put(a);
	free(x);
}

TEST(random_turns)
{
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < 12; i++)
		at_random(&seed);
}

TEST_MAIN()
