// SPDX-License-Identifier: MIT
/* The device's memory of workspaces: sessions that share one on the host share it there, too. */
#include <math.h>
#include <stdlib.h>

#include "backends/gpu/gpu.h"
#include "ops/defaults.h"
#include "rlx/run.h"
#include "rt/rt.h"
#include "rt/session.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

/* softmax(x x') x, whose products lie in the workspace. */
static struct rlx_program *of_rows(int64_t n)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	struct rlx_graph *g = rlx_graph_new("rows");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, n, 16)), y;
	struct rlx_error err = { 0 };
	struct rlx_program *p;

	y = rlx_emit(g, fused_matmul, .a = x, .b = x, .trans_b = true);
	y = rlx_emit(g, softmax, .x = y, .axis = -1);
	rlx_output(g, "y", rlx_emit(g, matmul, .a = y, .b = x));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	return p;
}

static void run_rows(struct rlx_session *s, int64_t n, uint64_t seed)
{
	struct rlx_type t = rlx_type(RLX_F32, n, 16);
	float *x = malloc((size_t)n * 16 * 4), *y = malloc((size_t)n * 16 * 4);
	double e[512], sum, dot;
	int64_t i, j, k;

	CHECK(x && y && n <= 512);
	for (i = 0; i < n * 16; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, x), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y), 0);
	for (i = 0; i < n; i += 7) {
		for (sum = 0, j = 0; j < n; sum += e[j++]) {
			for (dot = 0, k = 0; k < 16; k++)
				dot += (double)x[i * 16 + k] * x[j * 16 + k];
			e[j] = exp(dot);
		}
		for (dot = 0, j = 0; j < n; j++)
			dot += e[j] / sum * x[j * 16];
		CHECKF(fabs(y[i * 16] - dot) < 1e-4, "row %lld: %g, not %g", (long long)i,
		       (double)y[i * 16], dot);
	}
	free(y);
	free(x);
}

static uint64_t work_of(const struct rlx_session *s)
{
	return ((const struct gpu_exec *)s->exec)->work;
}

/* On the device as on the host: what the largest one takes, once. */
TEST(sessions_that_share_a_workspace)
{
	enum { N = 3 };
	static const int64_t rows[N] = { 300, 120, 40 };
	struct rlx_arena_opts ao = { .size = 4 << 20 };
	struct rlx_session_opts so = { .size = sizeof(so) };
	struct rlx_session *s[N], *own, *larger;
	struct rlx_program *p[N], *large = of_rows(400);
	uint64_t seed = rlx_test_seed(), at;
	struct rlx_arena *a = NULL;
	int i, k;

	CHECK_EQ(rlx_arena_new(&ao, &a, NULL), 0);
	so.work = rlx_buf_whole(a);
	for (i = 0; i < N; i++) {
		p[i] = of_rows(rows[i]);
		CHECK_EQ(rlx_session_new(p[i], &so, &s[i], NULL), 0);
	}
	CHECK_EQ(rlx_session_new(p[0], NULL, &own, NULL), 0);
	CHECK_EQ(rlx_session_new(large, &so, &larger, NULL), 0);
	at = work_of(s[0]);
	for (i = 1; i < N; i++)
		CHECK(work_of(s[i]) == at);
	CHECK(work_of(own) != at);
	CHECK(work_of(larger) != at);
	for (k = 0; k < 4; k++) {
		for (i = 0; i < N; i++)
			run_rows(s[i], rows[i], rlx_test_rand(&seed));
		run_rows(own, rows[0], rlx_test_rand(&seed));
		run_rows(larger, 400, rlx_test_rand(&seed));
	}
	/* Whoever leaves, even the first: the others go on. */
	rlx_session_free(s[0]);
	run_rows(s[1], rows[1], rlx_test_rand(&seed));
	run_rows(s[2], rows[2], rlx_test_rand(&seed));
	for (i = 1; i < N; i++)
		rlx_session_free(s[i]);
	rlx_session_free(own);
	rlx_session_free(larger);
	for (i = 0; i < N; i++)
		rlx_program_put(p[i]);
	rlx_program_put(large);
	rlx_arena_put(a);
}

static uint64_t work_of_knn(int64_t n, int64_t m, int64_t d)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	struct rlx_graph *g = rlx_graph_new("neighbours");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, n, d));
	rlx_value y = rlx_input(g, "y", rlx_type(RLX_F32, m, d));
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	uint64_t bytes;

	rlx_output(g, "near", rlx_emit(g, knn, .x = x, .y = y, .k = 10));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	bytes = p->plan->work_bytes;
	rlx_program_put(p);
	return bytes;
}

/* Points as terms of bf16 take three times their bytes: as long as that is not too much. */
TEST(terms_of_points_are_bounded)
{
	static const int64_t shape[][3] = {
		{ 60000, 60000, 4096 }, { 2000000, 256, 1024 }, { 5000, 5000, 60000 },
	};
	const uint64_t most = 2ull * OP_KNN_TERMS + 4ull * OP_KNN_CHUNK + (64 << 20);
	uint64_t work;
	unsigned int i;

	work = work_of_knn(20000, 20000, 1024);
	CHECKF(work > 12ull * 20000 * 1024, "no terms of points: %llu", (unsigned long long)work);
	for (i = 0; i < sizeof(shape) / sizeof(shape[0]); i++) {
		work = work_of_knn(shape[i][0], shape[i][1], shape[i][2]);
		CHECKF(work <= most, "n %lld m %lld d %lld: %llu bytes of workspace",
		       (long long)shape[i][0], (long long)shape[i][1], (long long)shape[i][2],
		       (unsigned long long)work);
	}
}

TEST_MAIN()
