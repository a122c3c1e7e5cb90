/* SPDX-License-Identifier: MIT */
/*
 * States of programs, on any device: what a run replaces, in which order, and what is left
 * after one that fails. Each case fails the test that calls it.
 */
#ifndef STATE_CASES_H
#define STATE_CASES_H

#include "rlx/graph.h"
#include "rlx/run.h"
#include "selftests/lib/rlx_test.h"

enum { STATE_N = 37 };

struct state_rig {
	struct rlx_graph	*g;
	struct rlx_program	*p;
	struct rlx_session	*s;
	struct rlx_error	 err;
	struct rlx_type		 t;
	uint32_t		 flags;		/* to compile with */
};

static inline void state_begin(struct state_rig *r)
{
	*r = (struct state_rig){ .g = rlx_graph_new("states") };
	r->t = rlx_type(RLX_F32, STATE_N);
}

static inline void state_open(struct state_rig *r, const char *device, struct rlx_states *states)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device,
				      .flags = r->flags };
	struct rlx_session_opts so = { .size = sizeof(so), .states = states };

	CHECKF(!rlx_graph_finish(r->g), "%s", rlx_graph_error(r->g)->text);
	CHECKF(!rlx_compile(r->g, &o, &r->p, &r->err), "%s", r->err.text);
	CHECKF(!rlx_session_new(r->p, &so, &r->s, &r->err), "%s", r->err.text);
}

static inline void state_end(struct state_rig *r)
{
	rlx_session_free(r->s);
	rlx_program_put(r->p);
	rlx_graph_put(r->g);
}

/* All elements of state or input @name become @x + 0, @x + 1, .. */
static inline void state_set(struct state_rig *r, enum rlx_io io, const char *name, float x)
{
	float v[STATE_N];
	int i;

	for (i = 0; i < STATE_N; i++)
		v[i] = x + (float)i;
	CHECKF(!rlx_session_set(r->s, io, name, r->t, v), "%s", rlx_session_error(r->s)->text);
}

/* @name must be @x + 0 @step, @x + 1 @step, .. */
static inline void state_is(struct state_rig *r, enum rlx_io io, const char *name, float x,
			    float step)
{
	float v[STATE_N];
	int i;

	memset(v, 0xa5, sizeof(v));
	CHECKF(!rlx_session_get(r->s, io, name, r->t, v), "%s", rlx_session_error(r->s)->text);
	for (i = 0; i < STATE_N; i++)
		CHECKF(v[i] == x + (float)i * step, "%s[%d] is %g, not %g", name, i, (double)v[i],
		       (double)(x + (float)i * step));
}

static inline void state_run(struct state_rig *r)
{
	CHECKF(!rlx_session_run(r->s), "%s", rlx_session_error(r->s)->text);
}

/* w -= m', m' = m / 2 + x, both in place; an output reads the old w though it comes after. */
static inline void state_case_update(const char *device)
{
	struct state_rig r;
	rlx_value w, m, x, next;
	char text[4096] = "";
	FILE *f;

	state_begin(&r);
	w = rlx_state(r.g, "w", r.t);
	m = rlx_state(r.g, "m", r.t);
	x = rlx_input(r.g, "x", r.t);
	next = rlx_emit(r.g, mul, .a = m, .b = rlx_scalar_const(r.g, RLX_F32, 0.5));
	next = rlx_emit(r.g, add, .a = next, .b = x);
	rlx_state_next(r.g, m, next);
	rlx_state_next(r.g, w, rlx_emit(r.g, sub, .a = w, .b = next));
	rlx_output(r.g, "double", rlx_emit(r.g, add, .a = w, .b = w));
	state_open(&r, device, NULL);
	CHECK_EQ(rlx_program_io_count(r.p, RLX_IO_INPUT), 1);
	CHECK_EQ(rlx_program_io_count(r.p, RLX_IO_OUTPUT), 1);
	CHECK_EQ(rlx_program_io_count(r.p, RLX_IO_STATE), 2);
	CHECK_EQ(rlx_program_io_find(r.p, RLX_IO_STATE, "m"), 1);
	state_set(&r, RLX_IO_INPUT, "x", 1);
	CHECK_EQ(rlx_session_run(r.s), RLX_EINVAL);
	CHECK(strstr(rlx_session_error(r.s)->text, "state 'w' has no value"));
	state_set(&r, RLX_IO_STATE, "w", 100);
	state_set(&r, RLX_IO_STATE, "m", 8);
	state_run(&r);
	state_is(&r, RLX_IO_OUTPUT, "double", 200, 2);
	state_is(&r, RLX_IO_STATE, "m", 5, 1.5f);
	state_is(&r, RLX_IO_STATE, "w", 95, -0.5f);
	state_run(&r);
	state_is(&r, RLX_IO_OUTPUT, "double", 190, -1);
	state_is(&r, RLX_IO_STATE, "m", 3.5f, 1.75f);
	state_is(&r, RLX_IO_STATE, "w", 91.5f, -2.25f);
	/* set between runs */
	state_set(&r, RLX_IO_STATE, "w", 0);
	state_run(&r);
	state_is(&r, RLX_IO_STATE, "w", -2.75f, 1 - 1.875f);
	f = fmemopen(text, sizeof(text), "w");
	CHECK(f && !rlx_program_report(r.p, f));
	fclose(f);
	CHECKF(strstr(text, "2 states, 0 of them copied"), "%s", text);
	state_end(&r);
}

/* a and b exchange what they hold, c gets the old a, d stays: three copies. */
static inline void state_case_cycle(const char *device)
{
	struct state_rig r;
	rlx_value a, b, c;
	char text[4096] = "";
	FILE *f;

	state_begin(&r);
	a = rlx_state(r.g, "a", r.t);
	b = rlx_state(r.g, "b", r.t);
	c = rlx_state(r.g, "c", r.t);
	rlx_state_next(r.g, a, b);
	rlx_state_next(r.g, b, a);
	rlx_state_next(r.g, c, a);
	rlx_output(r.g, "y", rlx_emit(r.g, add, .a = rlx_state(r.g, "d", r.t), .b = c));
	state_open(&r, device, NULL);
	state_set(&r, RLX_IO_STATE, "a", 1);
	state_set(&r, RLX_IO_STATE, "b", 2);
	state_set(&r, RLX_IO_STATE, "c", 3);
	state_set(&r, RLX_IO_STATE, "d", 4);
	state_run(&r);
	state_is(&r, RLX_IO_STATE, "a", 2, 1);
	state_is(&r, RLX_IO_STATE, "b", 1, 1);
	state_is(&r, RLX_IO_STATE, "c", 1, 1);
	state_is(&r, RLX_IO_OUTPUT, "y", 7, 2);
	state_run(&r);
	state_is(&r, RLX_IO_STATE, "a", 1, 1);
	state_is(&r, RLX_IO_STATE, "b", 2, 1);
	state_is(&r, RLX_IO_STATE, "c", 2, 1);
	state_is(&r, RLX_IO_STATE, "d", 4, 1);
	f = fmemopen(text, sizeof(text), "w");
	CHECK(f && !rlx_program_report(r.p, f));
	fclose(f);
	CHECKF(strstr(text, "4 states, 3 of them copied"), "%s", text);
	state_end(&r);
}

/* The old value is read by what depends on the new one; and the old one is an output. */
static inline void state_case_read_after(const char *device)
{
	struct state_rig r;
	rlx_value w, v, x, next;

	state_begin(&r);
	w = rlx_state(r.g, "w", r.t);
	v = rlx_state(r.g, "v", r.t);
	x = rlx_input(r.g, "x", r.t);
	next = rlx_emit(r.g, add, .a = w, .b = x);
	rlx_state_next(r.g, w, next);
	rlx_state_next(r.g, v, rlx_emit(r.g, sub, .a = v, .b = x));
	rlx_output(r.g, "moved", rlx_emit(r.g, sub, .a = next, .b = w));
	rlx_output(r.g, "new", next);
	rlx_output(r.g, "old", v);
	state_open(&r, device, NULL);
	state_set(&r, RLX_IO_STATE, "w", 10);
	state_set(&r, RLX_IO_STATE, "v", 20);
	state_set(&r, RLX_IO_INPUT, "x", 1);
	state_run(&r);
	state_is(&r, RLX_IO_OUTPUT, "moved", 1, 1);
	state_is(&r, RLX_IO_OUTPUT, "new", 11, 2);
	state_is(&r, RLX_IO_OUTPUT, "old", 20, 1);
	state_is(&r, RLX_IO_STATE, "w", 11, 2);
	state_is(&r, RLX_IO_STATE, "v", 19, 0);
	state_run(&r);
	state_is(&r, RLX_IO_OUTPUT, "old", 19, 0);
	state_is(&r, RLX_IO_STATE, "w", 12, 3);
	state_end(&r);
}

/* What replaces m is written first, but w reads the old m: steps are put in order for it. */
static inline void state_case_order(const char *device)
{
	struct state_rig r;
	rlx_value w, m, x, c, next;
	char text[4096] = "";
	FILE *f;

	state_begin(&r);
	w = rlx_state(r.g, "w", r.t);
	m = rlx_state(r.g, "m", r.t);
	x = rlx_input(r.g, "x", r.t);
	c = rlx_emit(r.g, add, .a = m, .b = x);
	next = rlx_emit(r.g, sub, .a = m, .b = x);
	rlx_state_next(r.g, m, next);
	rlx_state_next(r.g, w, rlx_emit(r.g, add, .a = w, .b = c));
	rlx_output(r.g, "m", next);
	rlx_output(r.g, "old", m);
	state_open(&r, device, NULL);
	state_set(&r, RLX_IO_INPUT, "x", 1);
	state_set(&r, RLX_IO_STATE, "w", 100);
	state_set(&r, RLX_IO_STATE, "m", 10);
	state_run(&r);
	state_is(&r, RLX_IO_STATE, "w", 111, 3);
	state_is(&r, RLX_IO_STATE, "m", 9, 0);
	state_is(&r, RLX_IO_OUTPUT, "m", 9, 0);
	state_is(&r, RLX_IO_OUTPUT, "old", 10, 1);
	f = fmemopen(text, sizeof(text), "w");
	CHECK(f && !rlx_program_report(r.p, f));
	fclose(f);
	CHECKF(strstr(text, "2 states, 0 of them copied"), "%s", text);
	state_end(&r);
}

/* A product and a turned state replace states that they read: not in their places. */
static inline void state_case_product(const char *device)
{
	static const float half[4] = { 0, 1, 0.5f, 0 };
	struct rlx_type t = rlx_type(RLX_F32, 2, 2);
	float w[4] = { 1, 2, 3, 4 }, u[4] = { 1, 2, 3, 4 };
	struct state_rig r;
	rlx_value v;

	state_begin(&r);
	v = rlx_state(r.g, "w", t);
	rlx_state_next(r.g, v, rlx_emit(r.g, matmul, .a = v, .b = rlx_constant(r.g, t, half)));
	v = rlx_state(r.g, "u", t);
	rlx_state_next(r.g, v, rlx_emit(r.g, add, .a = v, .b = rlx_emit(r.g, transpose, .x = v)));
	state_open(&r, device, NULL);
	CHECK(!rlx_session_set(r.s, RLX_IO_STATE, "w", t, w));
	CHECK(!rlx_session_set(r.s, RLX_IO_STATE, "u", t, u));
	state_run(&r);
	CHECK(!rlx_session_get(r.s, RLX_IO_STATE, "w", t, w));
	CHECK(!rlx_session_get(r.s, RLX_IO_STATE, "u", t, u));
	CHECKF(w[0] == 1 && w[1] == 1 && w[2] == 2 && w[3] == 3, "%g %g %g %g", (double)w[0],
	       (double)w[1], (double)w[2], (double)w[3]);
	CHECKF(u[0] == 2 && u[1] == 5 && u[2] == 5 && u[3] == 8, "%g %g %g %g", (double)u[0],
	       (double)u[1], (double)u[2], (double)u[3]);
	state_end(&r);
}

/* A bad index ends a run before any state is touched. */
static inline void state_case_failure(const char *device)
{
	struct state_rig r;
	rlx_value w, i, x;
	int64_t at = 3;

	state_begin(&r);
	w = rlx_state(r.g, "w", r.t);
	i = rlx_input(r.g, "i", rlx_type(RLX_I64, 1));
	rlx_state_next(r.g, w, rlx_emit(r.g, add, .a = w, .b = rlx_scalar_const(r.g, RLX_F32, 1)));
	x = rlx_emit(r.g, gather, .x = w, .indices = i);
	rlx_output(r.g, "y", rlx_emit(r.g, exp, .x = x));
	state_open(&r, device, NULL);
	state_set(&r, RLX_IO_STATE, "w", 1);
	CHECK(!rlx_session_set(r.s, RLX_IO_INPUT, "i", rlx_type(RLX_I64, 1), &at));
	state_run(&r);
	state_is(&r, RLX_IO_STATE, "w", 2, 1);
	at = STATE_N + 5;
	CHECK(!rlx_session_set(r.s, RLX_IO_INPUT, "i", rlx_type(RLX_I64, 1), &at));
	CHECK_EQ(rlx_session_run(r.s), RLX_ERANGE);
	state_is(&r, RLX_IO_STATE, "w", 2, 1);
	state_end(&r);
}

/* An output that a state's next value is computed from is wanted alone: the state stays. */
static inline void state_case_wanted_alone(const char *device)
{
	static const char *const want[] = { "y" };
	struct state_rig r;
	rlx_value w, x, y;

	state_begin(&r);
	w = rlx_state(r.g, "w", r.t);
	x = rlx_input(r.g, "x", r.t);
	y = rlx_emit(r.g, add, .a = w, .b = x);
	rlx_output(r.g, "y", y);
	rlx_state_next(r.g, w, rlx_emit(r.g, sub, .a = y, .b = rlx_emit(r.g, neg, .x = x)));
	state_open(&r, device, NULL);
	state_set(&r, RLX_IO_STATE, "w", 3);
	state_set(&r, RLX_IO_INPUT, "x", 1);
	CHECK(!rlx_session_want(r.s, want, 1));
	state_run(&r);
	state_is(&r, RLX_IO_OUTPUT, "y", 4, 2);
	state_is(&r, RLX_IO_STATE, "w", 3, 1);
	CHECK(!rlx_session_want(r.s, NULL, 0));
	state_run(&r);
	state_is(&r, RLX_IO_OUTPUT, "y", 4, 2);
	state_is(&r, RLX_IO_STATE, "w", 5, 3);
	state_end(&r);
}

/* One that is a next value itself replaces its state, and no other whose next value it is of. */
static inline void state_case_wanted_next(const char *device)
{
	static const char *const want[] = { "z" };
	struct state_rig r;
	rlx_value u, w, x, z;

	state_begin(&r);
	u = rlx_state(r.g, "u", r.t);
	w = rlx_state(r.g, "w", r.t);
	x = rlx_input(r.g, "x", r.t);
	z = rlx_emit(r.g, add, .a = u, .b = x);
	rlx_output(r.g, "z", z);
	rlx_state_next(r.g, u, z);
	rlx_state_next(r.g, w, rlx_emit(r.g, sub, .a = w, .b = z));
	state_open(&r, device, NULL);
	state_set(&r, RLX_IO_STATE, "u", 3);
	state_set(&r, RLX_IO_STATE, "w", 9);
	state_set(&r, RLX_IO_INPUT, "x", 1);
	CHECK(!rlx_session_want(r.s, want, 1));
	state_run(&r);
	state_is(&r, RLX_IO_OUTPUT, "z", 4, 2);
	state_is(&r, RLX_IO_STATE, "u", 4, 2);
	state_is(&r, RLX_IO_STATE, "w", 9, 1);
	CHECK(!rlx_session_want(r.s, NULL, 0));
	state_run(&r);
	state_is(&r, RLX_IO_OUTPUT, "z", 5, 3);
	state_is(&r, RLX_IO_STATE, "u", 5, 3);
	state_is(&r, RLX_IO_STATE, "w", 4, -2);
	state_end(&r);
}

/* States a and b become two outputs of one region of both: of @sum a + b and a, or b and a. */
static inline void state_region(const char *device, bool sum)
{
	struct rlx_graph *body = rlx_graph_new("body");
	struct state_rig r;
	rlx_value in[2], s[2], y;

	state_begin(&r);
	in[0] = rlx_input(body, "0", r.t);
	in[1] = rlx_input(body, "1", r.t);
	rlx_output(body, "y", sum ? rlx_emit(body, add, .a = in[0], .b = in[1]) : in[1]);
	rlx_output(body, "y1", in[0]);
	CHECK(!rlx_graph_finish(body));
	s[0] = rlx_state(r.g, "a", r.t);
	s[1] = rlx_state(r.g, "b", r.t);
	y = rlx_emit(r.g, region, .body = body, .xs = { s, 2 });
	rlx_graph_put(body);
	rlx_state_next(r.g, s[0], y);
	rlx_state_next(r.g, s[1], rlx_out(r.g, y, 1));
	state_open(&r, device, NULL);
	state_set(&r, RLX_IO_STATE, "a", 1);
	state_set(&r, RLX_IO_STATE, "b", 20);
	state_run(&r);
	state_is(&r, RLX_IO_STATE, "a", sum ? 21 : 20, sum ? 2 : 1);
	state_is(&r, RLX_IO_STATE, "b", 1, 1);
	state_end(&r);
}

/* A region passes on what it reads, to one state while the other's next value is written. */
static inline void state_case_passed_on(const char *device)
{
	struct state_rig r;
	rlx_value a, b, t;

	state_region(device, true);
	state_region(device, false);
	state_begin(&r);
	r.flags = RLX_COMPILE_NO_SIMPLIFY;
	a = rlx_state(r.g, "a", r.t);
	b = rlx_state(r.g, "b", r.t);
	t = rlx_emit(r.g, cast, .x = a, .to = RLX_F32);
	rlx_state_next(r.g, b, t);
	rlx_state_next(r.g, a, rlx_emit(r.g, add, .a = t, .b = b));
	state_open(&r, device, NULL);
	state_set(&r, RLX_IO_STATE, "a", 1);
	state_set(&r, RLX_IO_STATE, "b", 20);
	state_run(&r);
	state_is(&r, RLX_IO_STATE, "a", 21, 2);
	state_is(&r, RLX_IO_STATE, "b", 1, 1);
	state_end(&r);
}

/* Updates of one form that a device may make at once, each read by an output of its own. */
enum { STATE_WANTED = 3 };

static const char *const state_wanted[] = { "a", "b", "c" };
static const char *const state_sum[] = { "ya", "yb", "yc" };

static inline void state_wanted_open(struct state_rig *r, const char *device)
{
	rlx_value next[STATE_WANTED], x, s;
	int k;

	state_begin(r);
	x = rlx_input(r->g, "x", r->t);
	for (k = 0; k < STATE_WANTED; k++) {
		s = rlx_state(r->g, state_wanted[k], r->t);
		next[k] = rlx_emit(r->g, sub, .a = s, .b = x);
		rlx_state_next(r->g, s, next[k]);
	}
	for (k = 0; k < STATE_WANTED; k++)
		rlx_output(r->g, state_sum[k], rlx_emit(r->g, reduce, .x = next[k],
							.kind = RLX_REDUCE_SUM));
	rlx_output(r->g, "x", rlx_emit(r->g, neg, .x = x));
	state_open(r, device, NULL);
}

/* One run that wants the sums in @set, and nothing but "x" if that is empty. */
static inline void state_wanted_run(struct state_rig *r, unsigned int set, float at[STATE_WANTED],
				    float step[STATE_WANTED])
{
	const char *want[STATE_WANTED + 1] = { "x" };
	unsigned int n = 0, k;
	float sum;

	for (k = 0; k < STATE_WANTED; k++)
		if (set >> k & 1)
			want[n++] = state_sum[k];
	CHECK(!rlx_session_want(r->s, set >> STATE_WANTED ? NULL : want,
				set >> STATE_WANTED ? 0 : n ? n : 1));
	state_run(r);
	for (k = 0; k < STATE_WANTED; k++) {
		if (!(set >> k & 1)) {
			state_is(r, RLX_IO_STATE, state_wanted[k], at[k], step[k]);
			continue;
		}
		at[k] -= 1;
		step[k] -= 1;
		state_is(r, RLX_IO_STATE, state_wanted[k], at[k], step[k]);
		CHECK(!rlx_session_get(r->s, RLX_IO_OUTPUT, state_sum[k], rlx_scalar(RLX_F32),
				       &sum));
		CHECKF(sum == STATE_N * (at[k] + step[k] * (STATE_N - 1) / 2),
		       "set %u: %s is %g, not %g", set, state_sum[k], (double)sum,
		       (double)(STATE_N * (at[k] + step[k] * (STATE_N - 1) / 2)));
	}
}

/* What is wanted alone is replaced, of whatever is made at once; all where nothing is named. */
static inline void state_case_subsets(const char *device)
{
	enum { ALL = (1 << STATE_WANTED) - 1, RUNS = 40 };
	float at[STATE_WANTED], step[STATE_WANTED];
	uint64_t seed = rlx_test_seed();
	struct state_rig r;
	unsigned int k;

	state_wanted_open(&r, device);
	for (k = 0; k < STATE_WANTED; k++) {
		at[k] = (float)(rlx_test_rand(&seed) % 1000);
		step[k] = 1;
		state_set(&r, RLX_IO_STATE, state_wanted[k], at[k]);
	}
	state_set(&r, RLX_IO_INPUT, "x", 1);
	for (k = 0; k <= ALL; k++)
		state_wanted_run(&r, k, at, step);
	for (k = 0; k < RUNS; k++)
		state_wanted_run(&r, rlx_test_rand(&seed) % 4 ?
				 (unsigned int)(rlx_test_rand(&seed) & ALL) : 2 * ALL + 1, at, step);
	state_end(&r);
}

/* Clones take over what is asked for: feeds, what is wanted, and copies of what there is by now. */
static inline void state_case_clone(const char *device)
{
	static const char *const want[] = { "n" };
	struct state_rig r, c, d;
	rlx_value w, x;

	state_begin(&r);
	w = rlx_state(r.g, "w", r.t);
	x = rlx_input(r.g, "x", r.t);
	rlx_state_next(r.g, w, rlx_emit(r.g, add, .a = w, .b = x));
	rlx_output(r.g, "c1", rlx_emit(r.g, add, .a = rlx_input(r.g, "c", r.t), .b = x));
	rlx_output(r.g, "n", rlx_emit(r.g, neg, .x = x));
	state_open(&r, device, NULL);
	CHECK(!rlx_session_feed(r.s, "c1", "c"));
	state_set(&r, RLX_IO_INPUT, "x", 1);
	state_set(&r, RLX_IO_INPUT, "c", 0);
	state_set(&r, RLX_IO_STATE, "w", 10);
	state_run(&r);
	state_run(&r);
	c = d = r;
	CHECKF(!rlx_session_clone_with(r.s, 0, &c.s, &r.err), "%s", r.err.text);
	CHECK_EQ(rlx_session_run(c.s), RLX_EINVAL);
	rlx_session_free(c.s);
	CHECKF(!rlx_session_clone_with(r.s, RLX_CLONE_STATES, &d.s, &r.err), "%s", r.err.text);
	CHECKF(!rlx_session_clone_with(r.s, RLX_CLONE_STATES | RLX_CLONE_FEEDS, &c.s, &r.err), "%s",
	       r.err.text);
	CHECK_EQ(rlx_session_run(c.s), RLX_EINVAL);
	CHECK(strstr(rlx_session_error(c.s)->text, "'x'"));	/* is of whoever runs it */
	state_set(&c, RLX_IO_INPUT, "x", 1);
	state_set(&d, RLX_IO_INPUT, "x", 1);
	state_run(&c);
	state_run(&c);
	state_is(&c, RLX_IO_STATE, "w", 14, 5);
	state_is(&c, RLX_IO_INPUT, "c", 4, 5);
	state_run(&d);
	state_run(&d);
	state_is(&d, RLX_IO_STATE, "w", 14, 5);
	state_is(&d, RLX_IO_OUTPUT, "c1", 3, 4);	/* nothing is fed */
	rlx_session_free(d.s);
	state_run(&r);		/* knows nothing of it */
	state_is(&r, RLX_IO_STATE, "w", 13, 4);
	state_is(&r, RLX_IO_INPUT, "c", 3, 4);
	CHECK(!rlx_session_want(r.s, want, 1));
	CHECKF(!rlx_session_clone_with(r.s, RLX_CLONE_WANT | RLX_CLONE_STATES | RLX_CLONE_FEEDS,
				       &d.s, &r.err), "%s", r.err.text);
	rlx_session_free(r.s);
	state_set(&d, RLX_IO_INPUT, "x", 1);
	state_run(&d);
	state_is(&d, RLX_IO_OUTPUT, "n", -1, -1);
	state_is(&d, RLX_IO_STATE, "w", 13, 4);
	CHECK(!rlx_session_want(d.s, NULL, 0));
	state_run(&d);
	state_is(&d, RLX_IO_STATE, "w", 14, 5);
	rlx_session_free(d.s);
	r.s = c.s;
	state_end(&r);
}

#endif
