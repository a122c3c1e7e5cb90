// SPDX-License-Identifier: MIT
/* Where a NaN comes from: all values of a run. */
#include <math.h>
#include <stdlib.h>

#include "rlx/inspect.h"
#include "rlx/view.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

static unsigned int log_line;

/* y = log(x - 1) * 0 + relu(x): NaN where x is below 1, and -inf * 0 where it is 1 */
static struct rlx_graph *log_graph(void)
{
	struct rlx_graph *g = rlx_graph_new("log");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 3));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 3));
	rlx_value d = rlx_emit(g, sub, .a = x, .b = w), l;

	log_line = __LINE__ + 1;
	l = rlx_emit(g, log, .x = d);
	rlx_output(g, "y", rlx_emit(g, add, .a = rlx_emit(g, softmax, .x = l, .axis = 0),
				    .b = rlx_emit(g, relu, .x = x)));
	return g;
}

static struct rlx_session *session(struct rlx_graph *g, const char *device)
{
	return rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = device,
		.flags = RLX_COMPILE_NO_FUSE });
}

static struct rlx_inspection *inspect(struct rlx_session *s)
{
	struct rlx_inspection *a = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_session_inspect(s, &a, &err), "%s", err.text);
	return a;
}

static void first_nan_on(const char *device)
{
	static const float x[3] = { 2, 0.5f, 1 }, one[3] = { 1, 1, 1 }, good[3] = { 2, 3, 4 };
	struct rlx_session *s = session(log_graph(), device);
	struct rlx_type t = rlx_type(RLX_F32, 3);
	const struct rlx_inspected *v, *d;
	struct rlx_inspection *a;

	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, x), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", t, one), 0);
	a = inspect(s);
	v = rlx_inspection_first_bad(a, 0);
	CHECK(v && !strcmp(v->op, "log") && !v->name);
	CHECKF(v->line == log_line && strstr(v->file, "inspect.c"), "%s:%u", v->file, v->line);
	CHECK(v->count == 3 && v->nan == 1 && v->first_nan == 1 && v->inf == 1 &&
	      v->first_inf == 2 && v->min == 0 && v->max == 0);
	CHECK_EQ(v->n_in, 1);
	d = v->in[0];
	CHECK(!strcmp(d->op, "sub") && !d->nan && d->min == -0.5 && d->max == 1 &&
	      d->absmax == 1 && d->nonzero == 2);
	CHECK(((const float *)d->data)[1] == -0.5f);
	CHECK(d->n_in == 2 && !strcmp(d->in[0]->name, "x") && !strcmp(d->in[1]->name, "w"));
	CHECK(rlx_inspection_first_bad(a, RLX_INSPECT_INF) == v);
	rlx_inspection_free(a);

	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, good), 0);
	a = inspect(s);
	CHECK(!rlx_inspection_first_bad(a, RLX_INSPECT_INF));
	CHECK(rlx_inspection_at(a, 0) && !rlx_inspection_at(a, 1000));
	rlx_inspection_free(a);

	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, ((float[]){ 2, NAN, 4 })), 0);
	a = inspect(s);
	v = rlx_inspection_first_bad(a, 0);
	CHECK(v && v->name && !strcmp(v->name, "x") && v->first_nan == 1);
	rlx_inspection_free(a);
	rlx_session_free(s);
}

static void on_each(void (*test)(const char *device))
{
	test("ref");
	test("cpu");
	if (getenv("RLX_TEST_GPU"))
		test(getenv("RLX_TEST_GPU"));
}

TEST(first_nan)
{
	on_each(first_nan_on);
}

/* A state is what it was before, as the session has it afterwards. */
static void state_on(const char *device)
{
	struct rlx_graph *g = rlx_graph_new("state");
	rlx_value n = rlx_state(g, "n", rlx_type(RLX_F32, 1)), next;
	struct rlx_inspection *a;
	struct rlx_session *s;
	float was = 4, is = 0;
	int i;

	next = rlx_emit(g, sqrt, .x = n);
	rlx_state_next(g, n, next);
	rlx_output(g, "y", rlx_emit(g, neg, .x = next));
	s = session(g, device);
	CHECK_EQ(rlx_session_set(s, RLX_IO_STATE, "n", rlx_type(RLX_F32, 1), &was), 0);
	for (i = 0; i < 2; i++) {
		a = inspect(s);
		CHECK(!strcmp(rlx_inspection_at(a, 0)->name, "n"));
		CHECK(rlx_inspection_at(a, 0)->max == 4 && rlx_inspection_at(a, 1)->max == 2);
		rlx_inspection_free(a);
	}
	CHECK_EQ(rlx_session_get(s, RLX_IO_STATE, "n", rlx_type(RLX_F32, 1), &is), 0);
	CHECK(is == 4);
	rlx_session_free(s);
}

TEST(states_stay)
{
	on_each(state_on);
}

/* What an input that lies by strides has now, not what the last run took. */
static void view_on(const char *device)
{
	static const float one[3] = { 1, 1, 1 }, good[3] = { 4, 3, 2 };
	struct rlx_session *s = session(log_graph(), device);
	struct rlx_type t = rlx_type(RLX_F32, 3);
	struct rlx_arena *mem = NULL;
	struct rlx_inspection *a;
	struct rlx_view back;
	float *x;

	CHECK(!rlx_arena_new(&(struct rlx_arena_opts){ .size = 4096 }, &mem, NULL));
	back = (struct rlx_view){ rlx_buf_whole(mem), sizeof(good[0]) * 2, { -1 } };
	x = rlx_buf_ptr(back.buf);
	memcpy(x, good, sizeof(good));
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", t, one), 0);
	CHECKF(!rlx_session_bind_view(s, RLX_IO_INPUT, "x", &back), "%s",
	       rlx_session_error(s)->text);
	a = inspect(s);
	CHECK(!rlx_inspection_first_bad(a, RLX_INSPECT_INF));
	CHECK(((const float *)rlx_inspection_at(a, 0)->data)[0] == 2);
	rlx_inspection_free(a);
	x[0] = 0.5f;
	a = inspect(s);
	CHECK(rlx_inspection_first_bad(a, 0) && rlx_inspection_first_bad(a, 0)->first_nan == 2);
	rlx_inspection_free(a);
	rlx_session_free(s);
	rlx_arena_put(mem);
}

TEST(views)
{
	on_each(view_on);
}

/* Elements of @dtype, of which the first is a NaN where there is one. */
static void dtype_on(const char *device, enum rlx_dtype dtype, int64_t n)
{
	struct rlx_type t = rlx_type(dtype, n), real = rlx_type(RLX_F32, n);
	struct rlx_type integer = rlx_type(RLX_I64, n);
	bool whole = !rlx_dtype_is_float(dtype);
	struct rlx_graph *g = rlx_graph_new("dtype");
	const int64_t k[3] = { 1, -2, 0 };
	const float x[3] = { NAN, -2, 0 };
	struct rlx_inspection *a;
	const struct rlx_inspected *v;
	struct rlx_session *s;

	rlx_output(g, "y", rlx_emit(g, neg, .x = rlx_input(g, "x", t)));
	s = session(g, device);
	if (whole)
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", integer, k), 0);
	else
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", real, x), 0);
	a = inspect(s);
	v = rlx_inspection_at(a, 1);
	CHECKF(v->count == n && v->nan == (n && !whole) && v->nonzero == (n ? 2 : 0) &&
	       v->max == (n ? 2 : 0) && v->type.dtype == dtype, "%s: %s", device,
	       rlx_dtype_name(dtype));
	CHECK(!rlx_inspection_first_bad(a, 0) == (!n || whole));
	rlx_inspection_free(a);
	rlx_session_free(s);
}

static void dtypes_on(const char *device)
{
	static const enum rlx_dtype dtype[] = { RLX_F64, RLX_F16, RLX_BF16, RLX_I64, RLX_I8 };
	size_t i;

	for (i = 0; i < sizeof(dtype) / sizeof(dtype[0]); i++) {
		dtype_on(device, dtype[i], 3);
		dtype_on(device, dtype[i], 0);
	}
}

TEST(dtypes)
{
	on_each(dtypes_on);
}

/* ---- bodies of control flow ---- */

enum { STEPS = 5 };

static unsigned int inner_line;

/* (v) -> v, or log(v) */
static struct rlx_graph *branch(bool log)
{
	struct rlx_graph *g = rlx_graph_new("branch");
	rlx_value v = rlx_input(g, "v", rlx_type(RLX_F32, 2));

	if (log) {
		inner_line = __LINE__ + 1;
		v = rlx_emit(g, log, .x = v);
	}
	rlx_output(g, "out", v);
	CHECK(!rlx_graph_finish(g));
	return g;
}

/* s -= x; y = log(s), or, if @nested, that where s[0] is below 0, and else s */
static struct rlx_graph *countdown(bool nested)
{
	struct rlx_graph *b = rlx_graph_new("step"), *g = rlx_graph_new("countdown"), *part[2];
	struct rlx_type t = rlx_type(RLX_F32, 2);
	rlx_value s = rlx_input(b, "s", t), x = rlx_input(b, "x", t), y, xs[2];

	s = rlx_emit(b, sub, .a = s, .b = x);
	if (nested) {
		part[0] = branch(true);
		part[1] = branch(false);
		y = rlx_emit(b, slice, .x = s, .axes = RLX_INTS(0), .starts = RLX_INTS(0),
			     .ends = RLX_INTS(1));
		y = rlx_emit(b, lt, .a = y, .b = rlx_scalar_const(b, RLX_F32, 0));
		y = rlx_emit(b, if, .pred = y, .then_g = part[0], .else_g = part[1],
			     .xs = RLX_VALUES(s));
		rlx_graph_put(part[0]);
		rlx_graph_put(part[1]);
	} else {
		inner_line = __LINE__ + 1;
		y = rlx_emit(b, log, .x = s);
	}
	rlx_output(b, "s", s);
	rlx_output(b, "y", y);
	CHECKF(!rlx_graph_finish(b), "%s", rlx_graph_error(b)->text);
	xs[0] = rlx_input(g, "s", t);
	xs[1] = rlx_input(g, "x", rlx_type(RLX_F32, STEPS, 2));
	y = rlx_emit(g, scan, .body_g = b, .n_carry = 1, .n_xs = 1, .length = STEPS,
		     .xs = { xs, 2 });
	rlx_graph_put(b);
	rlx_output(g, "last", y);
	rlx_output(g, "y", rlx_emit(g, neg, .x = rlx_out(g, y, 1)));
	return g;
}

static struct rlx_session *counting(bool nested, const char *device)
{
	static const float from[2] = { 3, 9 }, one[2 * STEPS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
	struct rlx_session *s = session(countdown(nested), device);

	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "s", rlx_type(RLX_F32, 2), from), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, STEPS, 2), one), 0);
	return s;
}

static const struct rlx_inspected *inside(struct rlx_inspection *a, const struct rlx_inspected *v,
					  uint32_t flags, int64_t iteration)
{
	const struct rlx_inspected *in = (void *)1;
	struct rlx_error err = { 0 };
	int64_t at = -1;

	CHECKF(!rlx_inspection_inside(a, v, flags, &in, &at, &err), "%s", err.text);
	CHECKF(at == iteration, "iteration %lld, not %lld", (long long)at, (long long)iteration);
	return in;
}

static void bodies_on(const char *device)
{
	struct rlx_session *s = counting(false, device);
	struct rlx_inspection *a = inspect(s);
	const struct rlx_inspected *v = rlx_inspection_first_bad(a, 0), *in;

	CHECK(v && !strcmp(v->op, "scan") && v->nan == 2);
	in = inside(a, v, 0, 3);	/* 3 - 4 is the first below 0 */
	CHECK(in && !strcmp(in->op, "log") && in->line == inner_line && !in->name);
	CHECK(in->count == 2 && in->nan == 1 && in->first_nan == 0 && !in->inf);
	CHECK(in->n_in == 1 && !strcmp(in->in[0]->op, "sub") && in->in[0]->min == -1 &&
	      in->in[0]->max == 5 && ((const float *)in->in[0]->data)[1] == 5);
	CHECK(!inside(a, in, 0, 0));	/* is no control flow */
	in = inside(a, v, RLX_INSPECT_INF, 2);
	CHECK(in && in->inf == 1 && in->first_inf == 0 && !in->nan);
	CHECK(!inside(a, rlx_inspection_at(a, 0), 0, 0));
	rlx_inspection_free(a);
	rlx_session_free(s);
}

static void nested_on(const char *device)
{
	struct rlx_session *s = counting(true, device);
	struct rlx_inspection *a = inspect(s);
	const struct rlx_inspected *v = rlx_inspection_first_bad(a, 0), *in;

	CHECK(v && !strcmp(v->op, "scan"));
	v = inside(a, v, 0, 3);
	CHECK(v && !strcmp(v->op, "if") && v->nan == 1);
	in = inside(a, v, 0, 0);
	CHECK(in && !strcmp(in->op, "log") && in->line == inner_line);
	CHECK(in->n_in == 1 && !strcmp(in->in[0]->name, "v") && in->in[0]->min == -1);
	rlx_inspection_free(a);
	rlx_session_free(s);
}

/* v -= 2 while below 9 in all: which is so at once. */
static void loop_on(const char *device)
{
	struct rlx_graph *g = rlx_graph_new("loop"), *c = rlx_graph_new("cond");
	struct rlx_graph *b = rlx_graph_new("body");
	struct rlx_type t = rlx_type(RLX_F32, 1);
	struct rlx_inspection *a;
	const struct rlx_inspected *v;
	struct rlx_session *s;
	float x = 6;

	rlx_output(c, "go", rlx_emit(c, lt, .a = rlx_input(c, "v", t),
				     .b = rlx_scalar_const(c, RLX_F32, 9)));
	rlx_output(b, "v", rlx_emit(b, sqrt, .x = rlx_emit(b, sub, .a = rlx_input(b, "v", t),
							   .b = rlx_scalar_const(b, RLX_F32, 2))));
	CHECK(!rlx_graph_finish(c) && !rlx_graph_finish(b));
	rlx_output(g, "y", rlx_emit(g, while, .cond_g = c, .body_g = b, .n_carry = 1,
				    .xs = RLX_VALUES(rlx_input(g, "x", t))));
	rlx_graph_put(c);
	rlx_graph_put(b);
	s = session(g, device);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, &x), 0);
	a = inspect(s);		/* 6, 2, 0, sqrt(-2); what is NaN is below nothing */
	v = rlx_inspection_first_bad(a, 0);
	CHECK(v && !strcmp(v->op, "while"));
	v = inside(a, v, 0, 2);
	CHECK(v && !strcmp(v->op, "sqrt") && v->in[0]->min == -2);
	rlx_inspection_free(a);
	rlx_session_free(s);
}

TEST(r164_bodies)
{
	on_each(bodies_on);
	on_each(nested_on);
	on_each(loop_on);
}

static enum rlx_status look_inside(void *s)
{
	struct rlx_inspection *a = NULL;
	const struct rlx_inspected *in;
	enum rlx_status st = rlx_session_inspect(s, &a, NULL);
	int64_t at;

	if (!st)
		st = rlx_inspection_inside(a, rlx_inspection_first_bad(a, 0), 0, &in, &at, NULL);
	if (!st)
		st = rlx_inspection_inside(a, in, 0, &in, &at, NULL);
	CHECK(st || (in && at == 0 && !strcmp(in->op, "log")));
	rlx_inspection_free(a);
	return st;
}

TEST(r164_bodies_without_memory)
{
	struct rlx_session *s = counting(true, "cpu");
	const struct rlx_inspected stranger = { .id = 1 }, *in;
	struct rlx_inspection *a = inspect(s);
	struct rlx_error err = { 0 };
	int64_t at;

	CHECK_EQ(look_inside(s), 0);
	CHECK(rlx_oom_sweep(look_inside, s) > 50);
	CHECK_EQ(rlx_inspection_inside(a, &stranger, 0, &in, &at, &err), RLX_EINVAL);
	CHECK(strstr(err.text, "of this inspection"));
	CHECK_EQ(rlx_inspection_inside(a, NULL, 0, &in, &at, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_inspection_inside(NULL, &stranger, 0, &in, &at, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_inspection_inside(a, rlx_inspection_at(a, 0), 0, NULL, &at, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_inspection_inside(a, rlx_inspection_at(a, 0), 0, &in, NULL, NULL), RLX_EINVAL);
	rlx_inspection_free(a);
	rlx_session_free(s);
}

static enum rlx_status once(void *s)
{
	struct rlx_inspection *a = NULL;
	enum rlx_status st = rlx_session_inspect(s, &a, NULL);

	CHECK(!a == !!st);
	rlx_inspection_free(a);
	return st;
}

/* Every allocation fails once. */
TEST(out_of_memory)
{
	static const float x[3] = { 2, 3, 4 };
	struct rlx_session *s = session(log_graph(), "cpu");
	struct rlx_type t = rlx_type(RLX_F32, 3);

	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, x), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", t, x), 0);
	CHECK_EQ(once(s), 0);
	CHECK(rlx_oom_sweep(once, s) > 50);
	rlx_session_free(s);
}

TEST(busy)
{
	static const float x[3] = { 2, 3, 4 };
	struct rlx_session *s = session(log_graph(), "cpu");
	struct rlx_type t = rlx_type(RLX_F32, 3);
	struct rlx_error err = { 0 };
	struct rlx_inspection *a;
	enum rlx_status st = RLX_OK;
	uint64_t point;
	int i;

	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, x), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", t, x), 0);
	for (i = 0; i < 200 && !st; i++) {
		CHECK_EQ(rlx_session_submit(s, &point), 0);
		st = rlx_session_inspect(s, &a, &err);
		rlx_inspection_free(a);
		CHECK_EQ(rlx_session_wait(s, point, -1), 0);
	}
	CHECKF(st == RLX_EBUSY && strstr(err.text, "is under way"), "%d: %s", st, err.text);
	rlx_session_free(s);
}

TEST(refused)
{
	struct rlx_session *s = session(log_graph(), "cpu");
	struct rlx_inspection *a = NULL;
	struct rlx_error err = { 0 };

	CHECK_EQ(rlx_session_inspect(s, &a, &err), RLX_EINVAL);
	CHECKF(strstr(err.text, "'x' has no value") && !a, "%s", err.text);
	CHECK_EQ(rlx_session_inspect(NULL, &a, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_session_inspect(s, NULL, NULL), RLX_EINVAL);
	rlx_inspection_free(NULL);
	rlx_session_free(s);
}

TEST_MAIN()
