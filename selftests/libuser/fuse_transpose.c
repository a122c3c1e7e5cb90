// SPDX-License-Identifier: MIT
/* A transpose of a product's right operand goes into the product, if nothing else reads it. */
#include "ir/graph.h"
#include "rlx/grad.h"
#include "rlx/run.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { BATCH = 3, M = 21, N = 50, K = 37 };

/* y = a b^T, or its relu; and b^T itself where it is read twice */
static struct rlx_graph *product(bool relu, bool read)
{
	static const int64_t perm[] = { 0, 2, 1 };
	struct rlx_graph *g = rlx_graph_new("product");
	rlx_value a = rlx_input(g, "a", rlx_type(RLX_F32, BATCH, M, K));
	rlx_value b = rlx_input(g, "b", rlx_type(RLX_F32, BATCH, N, K));
	rlx_value t = rlx_emit(g, transpose, .x = b, .perm = { perm, 3 });
	rlx_value y = rlx_emit(g, matmul, .a = a, .b = t);

	rlx_output(g, "y", relu ? rlx_emit(g, relu, .x = y) : y);
	if (read)
		rlx_output(g, "t", t);
	CHECK_EQ(rlx_graph_finish(g), RLX_OK);
	return g;
}

static void check(const float *a, const float *b, const float *y, bool relu)
{
	for (int i = 0; i < BATCH * M * N; i++) {
		const float *p = a + i / N * K, *q = b + (i / N / M * N + i % N) * K;
		double sum = 0;

		for (int k = 0; k < K; k++)
			sum += (double)p[k] * q[k];
		if (relu && sum < 0)
			sum = 0;
		CHECKF(fabs(y[i] - sum) < 1e-5, "[%d] is %g, not %g", i, y[i], sum);
	}
}

static void run(bool relu, bool read)
{
	static float a[BATCH * M * K], b[BATCH * N * K], y[BATCH * M * N];
	struct rlx_graph *g = product(relu, read);
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	int i;

	for (i = 0; i < BATCH * M * K; i++)
		a[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < BATCH * N * K; i++)
		b[i] = (float)rlx_test_uniform(&seed, -1, 1);
	CHECKF(!rlx_compile(g, NULL, &p, &err), "%s", err.text);
	CHECK_EQ(rig_count(rlx_program_graph(p), RLX_OP_transpose), read);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "a", rlx_type(RLX_F32, BATCH, M, K), a));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "b", rlx_type(RLX_F32, BATCH, N, K), b));
	CHECK(!rlx_session_run(s));
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, BATCH, M, N), y));
	check(a, b, y, relu);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

/* Of @a, [M, K], and @b, [N, K]: what sum((a b^T)^2) grows by. */
static void check_gradients(const float *a, const float *b, const float *da, const float *db)
{
	static double y[M * N];
	double sum;
	int i, j, k;

	for (i = 0; i < M * N; i++)
		for (k = 0, y[i] = 0; k < K; k++)
			y[i] += 2 * (double)a[i / N * K + k] * b[i % N * K + k];
	for (i = 0; i < M * K; i++) {
		for (j = 0, sum = 0; j < N; j++)
			sum += y[i / K * N + j] * b[j * K + i % K];
		CHECKF(fabs(da[i] - sum) < 1e-4, "da[%d] is %g, not %g", i, da[i], sum);
	}
	for (i = 0; i < N * K; i++) {
		for (j = 0, sum = 0; j < M; j++)
			sum += y[j * N + i / K] * a[j * K + i % K];
		CHECKF(fabs(db[i] - sum) < 1e-4, "db[%d] is %g, not %g", i, db[i], sum);
	}
}

/* As of a head that is the embedding, too: neither it nor its gradient is turned. */
TEST(is_none_in_gradients)
{
	static float a[M * K], b[N * K], da[M * K], db[N * K];
	const struct rlx_type ta = rlx_type(RLX_F32, M, K), tb = rlx_type(RLX_F32, N, K);
	struct rlx_graph *g = rlx_graph_new("gradients"), *d;
	rlx_value x[2] = { rlx_input(g, "a", ta), rlx_input(g, "b", tb) }, y;
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	int i;

	y = rlx_emit(g, transpose, .x = x[1], .perm = RLX_INTS(1, 0));
	y = rlx_emit(g, matmul, .a = x[0], .b = y);
	rlx_output(g, "loss", rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = y, .b = y)));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_graph_grad(g, x, 2, &d, &err), "%s", err.text);
	rlx_graph_put(g);
	s = rig_session(d, &(struct rlx_compile_opts){ .size = sizeof(struct rlx_compile_opts) });
	CHECK_EQ(rig_count(rlx_program_graph(rlx_session_program(s)), RLX_OP_transpose), 0);
	for (i = 0; i < M * K; i++)
		a[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < N * K; i++)
		b[i] = (float)rlx_test_uniform(&seed, -1, 1);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "a", ta, a));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "b", tb, b));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "d_a", ta, da));
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "d_b", tb, db));
	check_gradients(a, b, da, db);
	rlx_session_free(s);
}

TEST(goes_into_the_product) { run(false, false); }
TEST(goes_into_the_product_with_its_activation) { run(true, false); }
TEST(stays_where_it_is_read) { run(false, true); }
TEST_MAIN()
