// SPDX-License-Identifier: MIT
/* Parts of a concat that are written in their places, and slices that are read in theirs. */
#include "backends/gpu/gpu.h"
#include "rt/session.h"
#include "selftests/gpu/sessions.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

static rlx_value cut(struct rlx_graph *g, rlx_value x, int64_t from, int64_t to)
{
	return rlx_emit(g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(from),
			.ends = RLX_INTS(to));
}

/* Against the CPU; how many calls there are but for that which brings inputs. */
static uint32_t calls_of(struct rlx_graph *g)
{
	const struct gpu_code *code;
	struct rlx_session *s;
	uint32_t n = 0, i;

	CHECK(!rlx_graph_finish(g));
	s = session_as_cpu(g, op_case_gpu(), RLX_COMPILE_NO_FUSE);
	code = (const struct gpu_code *)s->exec->code;
	for (i = 0; i < code->calls.n_call; i++)
		n += gpu_calls(code)[i].base.step != GPU_NO_STEP;
	rlx_session_free(s);
	rlx_graph_put(g);
	return n;
}

/* neg(x) and exp(x) in one, whose tanh is read again by two; the first has @n elements. */
static uint32_t two_parts(int64_t n)
{
	struct rlx_graph *g = rlx_graph_new("parts");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, n));
	rlx_value all = rlx_emit(g, concat, .xs = RLX_VALUES(rlx_emit(g, neg, .x = x),
							     rlx_emit(g, exp, .x = x)));

	all = rlx_emit(g, tanh, .x = all);
	rlx_output(g, "a", rlx_emit(g, neg, .x = cut(g, all, 0, n)));
	rlx_output(g, "b", rlx_emit(g, exp, .x = cut(g, all, n, 2 * n)));
	return calls_of(g);
}

TEST(aligned)
{
	CHECK_EQ(two_parts(64), 5);
	CHECK_EQ(two_parts(16), 5);
}

/* Only what begins at 64 bytes is left where it is. */
TEST(not_aligned)
{
	CHECK_EQ(two_parts(20), 5 + 2);
	CHECK_EQ(two_parts(1), 5 + 2);
}

/* A part of a part, and rows of a matrix; a matrix's columns are no run of bytes. */
TEST(nested)
{
	struct rlx_graph *g = rlx_graph_new("nested");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4, 32)), y, z;

	y = rlx_emit(g, concat, .xs = RLX_VALUES(rlx_emit(g, neg, .x = x),
						 rlx_emit(g, exp, .x = x)));
	y = rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(1, 256));
	z = rlx_emit(g, concat, .axis = 1, .xs =
		     RLX_VALUES(rlx_emit(g, reshape, .x = rlx_emit(g, tanh, .x = x),
					 .shape = RLX_INTS(1, 128)), y));
	z = rlx_emit(g, reshape, .x = z, .shape = RLX_INTS(12, 32));
	z = rlx_emit(g, sin, .x = z);
	rlx_output(g, "rows", rlx_emit(g, neg, .x = cut(g, cut(g, z, 1, 9), 2, 5)));
	z = rlx_emit(g, slice, .x = z, .axes = RLX_INTS(1), .starts = RLX_INTS(16),
		     .ends = RLX_INTS(32));
	rlx_output(g, "columns", rlx_emit(g, neg, .x = z));
	CHECK_EQ(calls_of(g), 7);
}

/* What is changed behind the cut, or read by others than the concat, is copied. */
TEST(kept_apart)
{
	struct rlx_graph *g = rlx_graph_new("apart");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 64)), a, y, part;

	a = rlx_emit(g, neg, .x = x);
	y = rlx_emit(g, concat, .xs = RLX_VALUES(a, rlx_emit(g, exp, .x = x)));
	part = cut(g, y, 16, 48);
	y = rlx_emit(g, tanh, .x = y);		/* in y's place */
	rlx_output(g, "y", rlx_emit(g, neg, .x = y));
	rlx_output(g, "part", rlx_emit(g, sin, .x = part));
	rlx_output(g, "a", rlx_emit(g, cos, .x = a));
	calls_of(g);
}

TEST_MAIN()
