// SPDX-License-Identifier: MIT
/* Fusion keeps a product that is both fused and added: y = xw + (xw + b). */
#include "rlx/run.h"
#include "selftests/lib/rlx_test.h"

static struct rlx_graph *twice(void)
{
	struct rlx_graph *g = rlx_graph_new("twice");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	rlx_value w = rlx_input(g, "w", rlx_type(RLX_F32, 3, 4));
	rlx_value b = rlx_input(g, "b", rlx_type(RLX_F32, 4));
	rlx_value m = rlx_emit(g, matmul, .a = x, .b = w);

	rlx_output(g, "y", rlx_emit(g, add, .a = m,
				    .b = rlx_emit(g, add, .a = m, .b = b)));
	CHECK_EQ(rlx_graph_finish(g), RLX_OK);
	return g;
}

TEST(a_product_added_to_itself_and_a_bias)
{
	struct rlx_graph *g = twice();
	float x[6], w[12], b[4], y[8];
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	double sum;
	int i, j, k;

	for (i = 0; i < 6; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < 12; i++)
		w[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < 4; i++)
		b[i] = (float)rlx_test_uniform(&seed, -1, 1);
	CHECKF(!rlx_compile(g, NULL, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 2, 3),
			       x));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "w", rlx_type(RLX_F32, 3, 4),
			       w));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "b", rlx_type(RLX_F32, 4), b));
	CHECK(!rlx_session_run(s));
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 2, 4),
			       y));
	for (i = 0; i < 2; i++)
		for (j = 0; j < 4; j++) {
			for (sum = k = 0; k < 3; k++)
				sum += (double)x[i * 3 + k] * w[k * 4 + j];
			CHECK(fabs(y[i * 4 + j] - (2 * sum + b[j])) < 1e-5);
		}
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST_MAIN()
