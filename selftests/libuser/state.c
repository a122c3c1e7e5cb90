// SPDX-License-Identifier: MIT
/* States on the reference evaluator and the CPU: see selftests/lib/state_cases.h. */
#include "base/alloc.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/state_cases.h"

#define BOTH(name)					\
	TEST(name)					\
	{						\
		state_case_##name("ref");		\
		state_case_##name("cpu");		\
	}
BOTH(update)
BOTH(cycle)
BOTH(read_after)
BOTH(order)
BOTH(product)
BOTH(failure)
BOTH(wanted_alone)
BOTH(wanted_next)
BOTH(passed_on)
BOTH(subsets)

/* w += x, or only what reads w. */
static void counting(struct state_rig *r, bool update, struct rlx_states *states)
{
	rlx_value w;

	state_begin(r);
	w = rlx_state(r->g, "w", r->t);
	rlx_output(r->g, "y", rlx_emit(r->g, neg, .x = w));
	if (update) {
		rlx_state(r->g, "other", rlx_scalar(RLX_I32));
		rlx_state_next(r->g, w, rlx_emit(r->g, add, .a = w,
						 .b = rlx_input(r->g, "x", r->t)));
	}
	state_open(r, "cpu", states);
}

/* One program trains, another reads: the same memory. */
TEST(shared)
{
	struct rlx_states *states = NULL, *few = NULL;
	struct rlx_session_opts so = { .size = sizeof(so) };
	struct state_rig a, b;
	struct rlx_session *s = NULL;
	float *w;
	int32_t *other;
	int i;

	counting(&a, true, NULL);
	rlx_session_free(a.s);
	CHECKF(!rlx_states_new(a.p, NULL, &states, &a.err), "%s", a.err.text);
	CHECK_EQ(rlx_states_count(states), 2);
	CHECK_STR(rlx_states_name(states, 0), "w");
	CHECK(rlx_type_equal(rlx_states_type(states, 0), &a.t));
	CHECK_EQ(rlx_states_find(states, "other"), 1);
	CHECK_EQ(rlx_states_find(states, "none"), -1);
	so.states = states;
	CHECKF(!rlx_session_new(a.p, &so, &a.s, &a.err), "%s", a.err.text);
	counting(&b, false, states);
	state_set(&a, RLX_IO_INPUT, "x", 0);
	CHECK_EQ(rlx_session_run(a.s), RLX_EINVAL);
	w = rlx_buf_ptr(rlx_states_buf(states, 0));
	other = rlx_buf_ptr(rlx_states_buf(states, 1));
	*other = 7;
	for (i = 0; i < STATE_N; i++)
		w[i] = 5;
	state_run(&a);
	state_run(&b);
	state_is(&b, RLX_IO_OUTPUT, "y", -5, -1);
	CHECK(w == rlx_buf_ptr(rlx_session_bound(b.s, RLX_IO_STATE, "w")));
	CHECK_EQ(*other, 7);
	/* of the program that has fewer they are too few for the other */
	CHECK(!rlx_states_new(b.p, NULL, &few, &b.err));
	so.states = few;
	CHECK_EQ(rlx_session_new(a.p, &so, &s, &a.err), RLX_ENOENT);
	CHECKF(strstr(a.err.text, "have no 'other'"), "%s", a.err.text);
	rlx_states_put(few);
	rlx_states_put(states);	/* sessions have theirs */
	state_run(&a);
	state_end(&a);
	state_end(&b);
}

/* What an update reads and writes is where the caller put it; a run allocates nothing. */
TEST(bound)
{
	struct rlx_arena_opts ao = { .size = 1 << 16 };
	struct rlx_arena *arena;
	struct state_rig r;
	struct rlx_buf buf;
	uint64_t before;
	float *w;

	counting(&r, true, NULL);
	CHECK(!rlx_arena_new(&ao, &arena, NULL));
	CHECK(!rlx_buf_new(arena, sizeof(float) * STATE_N, 64, &buf, NULL));
	w = rlx_buf_ptr(buf);
	memset(w, 0, sizeof(float) * STATE_N);
	CHECKF(!rlx_session_bind(r.s, RLX_IO_STATE, "w", buf), "%s",
	       rlx_session_error(r.s)->text);
	CHECK(!rlx_session_set_at(r.s, RLX_IO_STATE, 1, rlx_scalar(RLX_I32), &(int32_t){ 0 }));
	state_set(&r, RLX_IO_INPUT, "x", 1);
	state_run(&r);
	CHECK(w[0] == 1 && w[2] == 3);
	before = rlx_alloc_count();
	state_run(&r);
	CHECK_EQ(rlx_alloc_count(), before);
	CHECK(w[0] == 2 && w[2] == 6);
	/* an input or another state in its place is refused */
	CHECK(!rlx_session_bind(r.s, RLX_IO_INPUT, "x", buf));
	CHECK(!rlx_session_run(r.s));	/* read from a copy */
	CHECK(w[0] == 4 && w[2] == 12);
	CHECK(!rlx_session_bind(r.s, RLX_IO_OUTPUT, "y", buf));
	CHECK_EQ(rlx_session_run(r.s), RLX_EINVAL);
	CHECKF(strstr(rlx_session_error(r.s)->text, "overlap"), "%s",
	       rlx_session_error(r.s)->text);
	CHECK_EQ(rlx_session_bind(r.s, RLX_IO_STATE, "none", buf), RLX_ENOENT);
	CHECK(strstr(rlx_session_error(r.s)->text, "no state 'none'; there are w, other"));
	state_end(&r);
	rlx_arena_put(arena);
}

/* Only what is wanted is computed: a loss is read without an update. */
TEST(what_is_wanted)
{
	static const char *const y[] = { "y" };
	struct state_rig r;

	counting(&r, true, NULL);
	state_set(&r, RLX_IO_STATE, "w", 3);
	CHECK(!rlx_session_set_at(r.s, RLX_IO_STATE, 1, rlx_scalar(RLX_I32), &(int32_t){ 0 }));
	state_set(&r, RLX_IO_INPUT, "x", 1);
	CHECK(!rlx_session_want(r.s, y, 1));
	state_run(&r);
	state_is(&r, RLX_IO_OUTPUT, "y", -3, -1);
	state_is(&r, RLX_IO_STATE, "w", 3, 1);
	CHECK(!rlx_session_want(r.s, NULL, 0));
	state_run(&r);
	state_is(&r, RLX_IO_STATE, "w", 4, 2);
	state_end(&r);
}

static enum rlx_status whole_life(void *ctx)
{
	struct rlx_graph *g = rlx_graph_new("life");
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_states *states = NULL;
	struct rlx_session_opts so = { .size = sizeof(so) };
	rlx_value w = rlx_state(g, "w", rlx_type(RLX_F32, 3)), v, n;
	enum rlx_status st;

	v = rlx_state(g, "v", rlx_type(RLX_F32, 3));
	n = rlx_emit(g, add, .a = w, .b = v);
	rlx_state_next(g, w, n);
	rlx_state_next(g, v, w);
	st = rlx_graph_finish(g);
	if (!st)
		st = rlx_compile(g, NULL, &p, NULL);
	if (!st)
		st = rlx_states_new(p, NULL, &states, NULL);
	so.states = states;
	if (!st)
		st = rlx_session_new(p, &so, &s, NULL);
	if (!st) {
		memset(rlx_buf_ptr(rlx_states_buf(states, 0)), 0, 12);
		memset(rlx_buf_ptr(rlx_states_buf(states, 1)), 0, 12);
		st = rlx_session_run(s);
	}
	rlx_session_free(s);
	rlx_states_put(states);
	rlx_program_put(p);
	rlx_graph_put(g);
	return st;
}

TEST(no_memory)
{
	CHECK(rlx_oom_sweep(whole_life, NULL) > 50);
}

/* States that wrap to a few bytes together are no memory, nor is a session's arena for them. */
TEST(states_without_number)
{
	struct rlx_graph *g = rlx_graph_new("far");
	struct rlx_states *states = NULL;
	struct rlx_program *p = NULL;
	struct rlx_program_info info;
	rlx_value w[4];
	char name[8];
	int i;

	for (i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		w[i] = rlx_state(g, name, rlx_type(RLX_F32, (int64_t)1 << 60));
	}
	rlx_output(g, "y", rlx_emit(g, slice, .x = w[0], .axes = RLX_INTS(0), .starts = RLX_INTS(5),
				    .ends = RLX_INTS(6)));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECK_EQ(rlx_compile(g, NULL, &p, NULL), 0);
	rlx_program_info(p, &info);
	CHECK(info.session_bytes >= (uint64_t)1 << 62);
	CHECK_EQ(rlx_states_new(p, NULL, &states, NULL), RLX_ENOMEM);
	rlx_states_put(states);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST(r005_clone)
{
	state_case_clone("cpu");
	state_case_clone("ref");
}

/* States that sessions share are copied as well, and a strict session's are. */
TEST(r005_clone_of_shared_states)
{
	struct rlx_session_opts so = { .size = sizeof(so), .strict = true };
	struct rlx_states *states = NULL;
	struct rlx_session *s = NULL, *c = NULL;
	struct state_rig r;
	rlx_value w;
	float *p, x[STATE_N];
	int i;

	state_begin(&r);
	w = rlx_state(r.g, "w", r.t);
	rlx_state_next(r.g, w, rlx_emit(r.g, add, .a = w, .b = rlx_scalar_const(r.g, RLX_F32, 1)));
	rlx_output(r.g, "y", rlx_emit(r.g, neg, .x = w));
	state_open(&r, "cpu", NULL);
	CHECKF(!rlx_states_new(r.p, NULL, &states, &r.err), "%s", r.err.text);
	so.states = states;
	CHECKF(!rlx_session_new(r.p, &so, &s, &r.err), "%s", r.err.text);
	p = rlx_buf_ptr(rlx_states_buf(states, 0));
	for (i = 0; i < STATE_N; i++)
		p[i] = (float)i;
	CHECKF(!rlx_session_clone_with(s, RLX_CLONE_STATES, &c, &r.err), "%s", r.err.text);
	CHECK_EQ(rlx_session_get(c, RLX_IO_STATE, "w", r.t, x), RLX_EACCES);	/* is strict */
	CHECKF(!rlx_session_run(c) && !rlx_session_run(c), "%s", rlx_session_error(c)->text);
	for (i = 0; i < STATE_N; i++)
		CHECK(p[i] == (float)i);
	rlx_session_free(s);
	rlx_states_put(states);
	p = rlx_buf_ptr(rlx_session_bound(c, RLX_IO_STATE, "w"));
	for (i = 0; i < STATE_N; i++)
		CHECK(p[i] == (float)i + 2);
	rlx_session_free(c);
	state_end(&r);
}

TEST_MAIN()
