// SPDX-License-Identifier: MIT
/* A region that begins with logic on bools still computes floats as floats. */
#include "rlx/run.h"
#include "selftests/lib/rlx_test.h"

/* y = where(a & b, x, -inf), x with fractions */
TEST(masks_do_not_make_integers_of_floats)
{
	static const bool a[4] = { true, true, false, false };
	static const bool b[4] = { true, false, true, false };
	static const float x[4] = { 0.25f, -1.5f, 2.75f, 1e20f };
	struct rlx_graph *g = rlx_graph_new("mask");
	struct rlx_type t = rlx_type(RLX_F32, 4), tb = rlx_type(RLX_BOOL, 4);
	rlx_value both = rlx_emit(g, bit_and, .a = rlx_input(g, "a", tb),
				  .b = rlx_input(g, "b", tb));
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	float y[4];
	int i;

	rlx_output(g, "y", rlx_emit(g, where, .cond = both,
				    .a = rlx_input(g, "x", t),
				    .b = rlx_scalar_const(g, RLX_F32,
							  -(double)INFINITY)));
	CHECK_EQ(rlx_graph_finish(g), RLX_OK);
	CHECKF(!rlx_compile(g, NULL, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "a", tb, a));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "b", tb, b));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, x));
	CHECK(!rlx_session_run(s));
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y));
	for (i = 0; i < 4; i++)
		CHECK(y[i] == (a[i] && b[i] ? x[i] : -INFINITY));
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST_MAIN()
