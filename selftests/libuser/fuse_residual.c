// SPDX-License-Identifier: MIT
/* What is added to a product without a bias goes into it, if it has the product's shape. */
#include "ir/graph.h"
#include "rlx/run.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { BATCH = 2, M = 13, N = 35, K = 29 };

/* What is drawn: the product's op, which side it stands on, what comes behind. */
struct form {
	bool	fused, right, relu;
	int64_t	lines;		/* of what is added: M or 1 */
};

/* y = a b + r or r + a b, or its relu */
static struct rlx_graph *product(const struct form *f)
{
	struct rlx_graph *g = rlx_graph_new("product");
	rlx_value a = rlx_input(g, "a", rlx_type(RLX_F32, BATCH, M, K));
	rlx_value b = rlx_input(g, "b", rlx_type(RLX_F32, BATCH, K, N));
	rlx_value r = rlx_input(g, "r", rlx_type(RLX_F32, BATCH, f->lines, N)), y;

	y = f->fused ? rlx_emit(g, fused_matmul, .a = a, .b = b, .alpha = 0.5f) :
		       rlx_emit(g, matmul, .a = a, .b = b);
	y = f->right ? rlx_emit(g, add, .a = r, .b = y) : rlx_emit(g, add, .a = y, .b = r);
	rlx_output(g, "y", f->relu ? rlx_emit(g, relu, .x = y) : y);
	CHECK_EQ(rlx_graph_finish(g), RLX_OK);
	return g;
}

static void check(const struct form *f, const float *a, const float *b, const float *r,
		  const float *y)
{
	for (int i = 0; i < BATCH * M * N; i++) {
		const float *p = a + i / N * K, *q = b + i / N / M * K * N + i % N;
		double sum = 0;

		for (int k = 0; k < K; k++)
			sum += (double)p[k] * q[k * N];
		sum *= f->fused ? 0.5 : 1;
		sum += r[(f->lines == M ? i / N : i / N / M) * N + i % N];
		if (f->relu && sum < 0)
			sum = 0;
		CHECKF(fabs(y[i] - sum) < 1e-5, "[%d] is %g, not %g", i, y[i], sum);
	}
}

static void run(const struct form *f)
{
	static float a[BATCH * M * K], b[BATCH * K * N], r[BATCH * M * N], y[BATCH * M * N];
	struct rlx_type tr = rlx_type(RLX_F32, BATCH, f->lines, N);
	struct rlx_graph *g = product(f);
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	int i;

	for (i = 0; i < BATCH * M * K; i++)
		a[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < BATCH * K * N; i++)
		b[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < BATCH * M * N; i++)
		r[i] = (float)rlx_test_uniform(&seed, -1, 1);
	CHECKF(!rlx_compile(g, NULL, &p, &err), "%s", err.text);
	CHECK_EQ(rig_count(rlx_program_graph(p), RLX_OP_fused_matmul), f->fused || f->lines == M);
	CHECK_EQ(rlx_program_graph(p)->n_node, 3 + 1 + (f->lines != M));
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "a", rlx_type(RLX_F32, BATCH, M, K), a));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "b", rlx_type(RLX_F32, BATCH, K, N), b));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "r", tr, r));
	CHECK(!rlx_session_run(s));
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, BATCH, M, N), y));
	check(f, a, b, r, y);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

static void all(int64_t lines)
{
	for (int i = 0; i < 8; i++)
		run(&(struct form){ i & 1, i & 2, i & 4, lines });
}

TEST(goes_into_the_product) { all(M); }
TEST(stays_where_it_is_repeated) { all(1); }
TEST_MAIN()
