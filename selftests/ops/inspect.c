// SPDX-License-Identifier: MIT
/* Where a NaN comes from: all values of a run. */
#include <math.h>
#include <stdlib.h>

#include "rlx/inspect.h"
#include "selftests/lib/rig.h"
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
