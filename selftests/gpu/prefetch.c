// SPDX-License-Identifier: MIT
/*
 * Inputs that are brought to the device beside the run before: what runs compute is of the buffer
 * that is bound, whatever was prefetched, and nothing is brought twice.
 */
#include <time.h>

#include "rlx/arena.h"
#include "selftests/gpu/sessions.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rig.h"

enum { ROWS = 64, COLS = 1024, N = ROWS * COLS, BYTES = 4 * N, SLOTS = 3 };

/* y: sums of rows, whose place no input has. w: small, read in place. */
static struct rlx_session *open_sums(const char *device)
{
	struct rlx_graph *g = rlx_graph_new("prefetch");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, COLS)), y;

	y = rlx_emit(g, reduce, .x = x, .axes = RLX_INTS(1), .kind = RLX_REDUCE_SUM);
	y = rlx_emit(g, add, .a = y, .b = rlx_input(g, "w", rlx_type(RLX_F32, ROWS)));
	rlx_output(g, "y", y);
	return rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = device });
}

struct loop {
	struct rlx_session	*s;
	struct rlx_arena	*a;
	struct rlx_buf		 slot[SLOTS], small;
};

static void fill(struct rlx_buf b, float v)
{
	float *x = rlx_buf_ptr(b);
	int i;

	for (i = 0; i < N; i++)
		x[i] = v + (float)(i % COLS % 7);
}

static void begin(struct loop *r, const char *device)
{
	struct rlx_arena_opts o = { .size = SLOTS * BYTES + 4 * ROWS };
	int i;

	r->s = open_sums(device);
	CHECK_EQ(rlx_arena_new(&o, &r->a, NULL), 0);
	for (i = 0; i < SLOTS; i++)
		r->slot[i] = (struct rlx_buf){ r->a, (uint64_t)i * BYTES, BYTES };
	r->small = (struct rlx_buf){ r->a, SLOTS * BYTES, 4 * ROWS };
	memset(rlx_buf_ptr(r->small), 0, 4 * ROWS);
	CHECK_EQ(rlx_session_bind(r->s, RLX_IO_INPUT, "w", r->small), 0);
}

static void end(struct loop *r)
{
	rlx_session_free(r->s);
	rlx_arena_put(r->a);
}

static void bind(struct loop *r, int i)
{
	CHECK_EQ(rlx_session_bind(r->s, RLX_IO_INPUT, "x", r->slot[i]), 0);
}

static void prefetch(struct loop *r, int i)
{
	CHECKF(!rlx_session_prefetch(r->s, RLX_IO_INPUT, "x", r->slot[i]), "%s",
	       rlx_session_error(r->s)->text);
}

/* The last run was of what fill() left with @v. */
static void check_y(struct loop *r, float v)
{
	const float *y = rlx_buf_ptr(rlx_session_bound(r->s, RLX_IO_OUTPUT, "y"));
	float want = 0;
	int i;

	for (i = 0; i < COLS; i++)
		want += v + (float)(i % 7);
	for (i = 0; i < ROWS; i++)
		CHECKF(y[i] == want, "y[%d] is %g, not %g", i, (double)y[i], (double)want);
}

static uint64_t brought(struct loop *r)
{
	return rlx_session_transfers(r->s).in_bytes;
}

/* Steps of a training loop, each batch beside the step before. */
static void steps(const char *device)
{
	struct loop r;
	uint64_t run, from = 0;
	int i;

	begin(&r, device);
	fill(r.slot[0], 1);
	bind(&r, 0);
	for (i = 0; i < 7; i++) {
		CHECK_EQ(rlx_session_submit(r.s, &run), 0);
		fill(r.slot[(i + 1) % SLOTS], (float)(i + 2));
		prefetch(&r, (i + 1) % SLOTS);
		CHECK_EQ(rlx_session_prefetch(r.s, RLX_IO_INPUT, "w", r.small), 0);
		CHECK_EQ(rlx_session_wait(r.s, run, -1), 0);
		check_y(&r, (float)(i + 1));
		if (!i)
			from = brought(&r);
		CHECK_EQ(brought(&r), from * (uint64_t)(i + 1));
		bind(&r, (i + 1) % SLOTS);
	}
	end(&r);
}

TEST(loop)
{
	steps(op_case_gpu());
}

/* Where there is no memory but the host's, and where a thread of the session's has the run. */
TEST(loop_on_the_host)
{
	steps("cpu");
	steps("ref");
}

/* It was brought when it was asked for: by contract nobody would write there. */
TEST(brought_ahead)
{
	const struct timespec enough = { 0, 100000000 };
	struct loop r;

	begin(&r, op_case_gpu());
	fill(r.slot[0], 1);
	bind(&r, 0);
	run(r.s);
	fill(r.slot[1], 2);
	prefetch(&r, 1);
	nanosleep(&enough, NULL);
	fill(r.slot[1], 3);
	bind(&r, 1);
	run(r.s);
	check_y(&r, 2);
	run(r.s);		/* each run reads its input */
	check_y(&r, 3);
	end(&r);
}

/* Another buffer is bound, or the same twice, or nothing; what was prefetched is forgotten. */
TEST(others)
{
	struct loop r;
	int i;

	begin(&r, op_case_gpu());
	for (i = 0; i < SLOTS; i++)
		fill(r.slot[i], (float)(i + 1));
	prefetch(&r, 1);
	bind(&r, 0);
	run(r.s);
	check_y(&r, 1);
	fill(r.slot[1], 5);
	bind(&r, 1);
	run(r.s);
	check_y(&r, 5);
	prefetch(&r, 0);
	prefetch(&r, 2);
	run(r.s);
	check_y(&r, 5);
	bind(&r, 2);
	run(r.s);
	check_y(&r, 3);
	prefetch(&r, 2);
	bind(&r, 2);
	run(r.s);
	check_y(&r, 3);
	prefetch(&r, 0);
	CHECK_EQ(rlx_session_prefetch(r.s, RLX_IO_INPUT, "x", (struct rlx_buf){ 0 }), 0);
	fill(r.slot[0], 7);	/* it was forgotten */
	bind(&r, 0);
	run(r.s);
	check_y(&r, 7);
	prefetch(&r, 1);
	end(&r);
}

TEST(stable_input)
{
	struct loop r;
	uint64_t was;

	begin(&r, op_case_gpu());
	fill(r.slot[0], 4);
	prefetch(&r, 0);
	CHECK_EQ(rlx_session_bind_stable(r.s, RLX_IO_INPUT, "x", r.slot[0]), 0);
	run(r.s);
	check_y(&r, 4);
	was = brought(&r);
	fill(r.slot[0], 6);
	run(r.s);
	check_y(&r, 4);
	CHECK(brought(&r) - was < BYTES);
	CHECK_EQ(rlx_session_touch(r.s, RLX_IO_INPUT, "x"), 0);
	run(r.s);
	check_y(&r, 6);
	end(&r);
}

TEST(refused)
{
	struct loop r;
	struct rlx_buf few;

	begin(&r, op_case_gpu());
	few = r.slot[0];
	few.bytes--;
	CHECK_EQ(rlx_session_prefetch(r.s, RLX_IO_INPUT, "x", few), RLX_ERANGE);
	CHECK_EQ(rlx_session_prefetch(r.s, RLX_IO_INPUT, "z", r.slot[0]), RLX_ENOENT);
	CHECK_EQ(rlx_session_prefetch(r.s, RLX_IO_OUTPUT, "y", r.slot[0]), RLX_EINVAL);
	CHECK_EQ(rlx_session_prefetch(NULL, RLX_IO_INPUT, "x", r.slot[0]), RLX_EINVAL);
	end(&r);
}

TEST_MAIN()
