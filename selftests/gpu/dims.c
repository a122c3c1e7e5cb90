// SPDX-License-Identifier: MIT
/* Sizes that come with the run on a device with memory of its own: one copy of a param for all. */
#include "rlx/dims.h"
#include "rlx/model.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

enum { K = 64, N = 96, MOST = 40 };

static struct rlx_model *open_model(void)
{
	struct rlx_graph *g = rlx_graph_new("dims");
	int64_t b = rlx_dim(g, "b", 1, MOST), s = rlx_dim(g, "s", 1, MOST);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, b, s, K));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, K, N));
	struct rlx_model *m = NULL;
	struct rlx_error err = { 0 };

	x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(rlx_dim_mul(g, b, s), K));
	rlx_output(g, "y", rlx_emit(g, matmul, .a = x, .b = w));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_model_from_graph(g, &m, &err), "%s", err.text);
	rlx_graph_put(g);
	return m;
}

/* Whole numbers, whose products are exact in every order. */
static void fill(float *x, int64_t n, uint64_t *seed)
{
	int64_t i;

	for (i = 0; i < n; i++)
		x[i] = (float)(rlx_test_rand(seed) % 9) - 4;
}

static void run(struct rlx_runner *r, int64_t b, int64_t s, const float *w, uint64_t *seed)
{
	float *x = malloc((size_t)(b * s) * K * sizeof(*x));
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, b, s, K), x }, y;
	struct rlx_error err = { 0 };
	uint32_t where = 0;
	int64_t i, j, k;
	struct rlx_session *session;

	CHECK(x);
	fill(x, b * s * K, seed);
	session = rlx_runner_session(r, &in, 1, &err);
	CHECKF(session, "%s", err.text);
	CHECK_EQ(rlx_session_where(session, RLX_IO_PARAM, "w", &where), 0);
	CHECK_EQ(where, RLX_WHERE_HOST | RLX_WHERE_DEVICE);	/* before any run of it */
	CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
	CHECK(rlx_session_transfers(session).in < K * N * sizeof(float) + b * s * K * 4);
	CHECK(rlx_runner_output(r, 0, &y) && y.type.dim[0] == b * s);
	for (i = 0; i < b * s; i++)
		for (j = 0; j < N; j++) {
			float sum = 0, got;

			for (k = 0; k < K; k++)
				sum += x[i * K + k] * w[k * N + j];
			got = ((const float *)y.data)[i * N + j];
			CHECKF(got == sum, "y[%lld,%lld] is %g, not %g", (long long)i,
			       (long long)j, (double)got, (double)sum);
		}
	free(x);
}

TEST(one_param_for_all_sizes)
{
	static float w[2][K * N];
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	uint64_t seed = rlx_test_seed();
	struct rlx_model *m = open_model();
	struct rlx_runner *r = NULL, *c = NULL;
	struct rlx_error err = { 0 };

	fill(w[0], K * N, &seed);
	fill(w[1], K * N, &seed);
	CHECKF(!rlx_runner_new(m, &o, &r, &err), "%s", err.text);
	CHECKF(!rlx_runner_set(r, "w", rlx_type(RLX_F32, K, N), w[0], &err), "%s", err.text);
	CHECKF(!rlx_runner_clone(r, &c, &err), "%s", err.text);
	run(r, 2, 3, w[0], &seed);
	run(r, 1, 5, w[0], &seed);
	run(r, 2, 3, w[0], &seed);
	CHECKF(!rlx_runner_set(r, "w", rlx_type(RLX_F32, K, N), w[1], &err), "%s", err.text);
	run(r, 1, 5, w[1], &seed);
	run(r, 2, 3, w[1], &seed);
	run(c, 2, 3, w[0], &seed);
	rlx_runner_free(r);
	run(c, 3, 1, w[0], &seed);
	rlx_runner_free(c);
	rlx_model_put(m);
}

TEST_MAIN()
