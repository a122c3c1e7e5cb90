// SPDX-License-Identifier: MIT
/* Sizes that come with the run on a device with memory of its own: one copy of a param for all. */
#include "rlx/dims.h"
#include "rlx/model.h"
#include "rlx/resident.h"
#include "selftests/gpu/memory_left.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

/* LARGE: columns of a param that is there before any run, as those of 1 MiB are. */
enum { K = 64, N = 96, LARGE = 4128, MOST = 40 };

static struct rlx_model *open_model(int64_t n)
{
	struct rlx_graph *g = rlx_graph_new("dims");
	int64_t b = rlx_dim(g, "b", 1, MOST), s = rlx_dim(g, "s", 1, MOST);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, b, s, K));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, K, n));
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

/* Is a param there before any run? Drivers that share no memory bring it with each first one. */
static bool is_shared(void)
{
	struct rlx_arena_opts o = { .name = "probe", .size = 4096 };
	struct rlx_resident *have = NULL;
	struct rlx_arena *a = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st;

	CHECKF(!rlx_arena_new(&o, &a, &err) && !rlx_arena_seal(a, RLX_SEAL_WRITE, &err), "%s",
	       err.text);
	st = rlx_resident_new(a, 0, op_case_gpu(), &have, &err);
	CHECKF(!st || st == RLX_ENOSUP, "%s", err.text);
	rlx_resident_put(have);
	rlx_arena_put(a);
	return !st;
}

static void run(struct rlx_runner *r, int64_t n, int64_t b, int64_t s, const float *w,
		uint64_t *seed)
{
	float *x = malloc((size_t)(b * s) * K * sizeof(*x));
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, b, s, K), x }, y;
	struct rlx_error err = { 0 };
	uint32_t where = 0;
	uint64_t was;
	int64_t i, j, k;
	bool shared = n == LARGE && is_shared();
	struct rlx_session *session;

	CHECK(x);
	fill(x, b * s * K, seed);
	session = rlx_runner_session(r, &in, 1, &err);
	CHECKF(session, "%s", err.text);
	CHECK_EQ(rlx_session_where(session, RLX_IO_PARAM, "w", &where), 0);
	if (shared)	/* before any run of it */
		CHECK_EQ(where, RLX_WHERE_HOST | RLX_WHERE_DEVICE);
	was = rlx_session_transfers(session).in_bytes;
	CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
	was = rlx_session_transfers(session).in_bytes - was;
	CHECKF(!shared || was < K * LARGE * sizeof(float), "%llu bytes brought",
	       (unsigned long long)was);
	CHECK_EQ(rlx_session_where(session, RLX_IO_PARAM, "w", &where), 0);
	CHECK_EQ(where, RLX_WHERE_HOST | RLX_WHERE_DEVICE);
	CHECK(rlx_runner_output(r, 0, &y) && y.type.dim[0] == b * s);
	for (i = 0; i < b * s; i++)
		for (j = 0; j < n; j++) {
			float sum = 0, got;

			for (k = 0; k < K; k++)
				sum += x[i * K + k] * w[k * n + j];
			got = ((const float *)y.data)[i * n + j];
			CHECKF(got == sum, "y[%lld,%lld] is %g, not %g", (long long)i,
			       (long long)j, (double)got, (double)sum);
		}
	free(x);
}

static void one_param(int64_t n)
{
	static float w[2][K * LARGE];
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	uint64_t seed = rlx_test_seed();
	struct rlx_model *m = open_model(n);
	struct rlx_runner *r = NULL, *c = NULL;
	struct rlx_error err = { 0 };

	fill(w[0], K * n, &seed);
	fill(w[1], K * n, &seed);
	CHECKF(!rlx_runner_new(m, &o, &r, &err), "%s", err.text);
	CHECKF(!rlx_runner_set(r, "w", rlx_type(RLX_F32, K, n), w[0], &err), "%s", err.text);
	CHECKF(!rlx_runner_clone(r, &c, &err), "%s", err.text);
	run(r, n, 2, 3, w[0], &seed);
	run(r, n, 1, 5, w[0], &seed);
	run(r, n, 2, 3, w[0], &seed);
	CHECKF(!rlx_runner_set(r, "w", rlx_type(RLX_F32, K, n), w[1], &err), "%s", err.text);
	run(r, n, 1, 5, w[1], &seed);
	run(r, n, 2, 3, w[1], &seed);
	run(c, n, 2, 3, w[0], &seed);
	rlx_runner_free(r);
	run(c, n, 3, 1, w[0], &seed);
	rlx_runner_free(c);
	rlx_model_put(m);
}

TEST(one_param_for_all_sizes)
{
	one_param(LARGE);
	one_param(N);
}

/* Many small ones take as much memory as they have, not a step of what a driver shares each. */
TEST(small_params_take_little)
{
	enum { MANY = 200, EACH = 512 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	struct rlx_graph *g = rlx_graph_new("biases");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, rlx_dim(g, "b", 1, MOST), EACH));
	float w[EACH], data[2 * EACH];
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 2, EACH), data }, y;
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	struct rlx_model *m = NULL;
	struct rlx_runner *r = NULL;
	char name[16];
	size_t left;
	int i;

	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		x = rlx_emit(g, add, .a = x, .b = rlx_param(g, name, rlx_type(RLX_F32, EACH)));
	}
	rlx_output(g, "y", x);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_model_from_graph(g, &m, &err), "%s", err.text);
	rlx_graph_put(g);
	CHECKF(!rlx_runner_new(m, &o, &r, &err), "%s", err.text);
	fill(data, 2 * EACH, &seed);
	fill(w, EACH, &seed);
	is_shared();	/* the device is there */
	left = memory_left();
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		CHECKF(!rlx_runner_set(r, name, rlx_type(RLX_F32, EACH), w, &err), "%s", err.text);
	}
	CHECKF(memory_left() + ((size_t)MANY << 20) > left, "%zu bytes of %zu are left",
	       memory_left(), left);
	CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
	CHECK(rlx_runner_output(r, 0, &y));
	for (i = 0; i < 2 * EACH; i++)
		CHECK(((const float *)y.data)[i] == data[i] + MANY * w[i % EACH]);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* Sizes that are run once each keep no values of a param that was set anew since. */
TEST(old_values_go)
{
	enum { WIDE = 1 << 16, SIZES = 12 };
	static float w[K * WIDE], x[SIZES * K];
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	const size_t bytes = sizeof(w);
	struct rlx_model *m = open_model(WIDE);
	struct rlx_runner *r = NULL;
	struct rlx_error err = { 0 };
	size_t left = 0;
	int64_t b;

	CHECKF(!rlx_runner_new(m, &o, &r, &err), "%s", err.text);
	for (b = 1; b <= SIZES; b++) {
		struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, b, 1, K), x }, y;

		w[0] = (float)b;
		x[0] = 1;
		CHECKF(!rlx_runner_set(r, "w", rlx_type(RLX_F32, K, WIDE), w, &err), "%s",
		       err.text);
		CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
		CHECK(rlx_runner_output(r, 0, &y) && ((const float *)y.data)[0] == (float)b);
		left = b == 1 ? memory_left() : left;
	}
	/* what sizes and their streams take, 27 MiB on an H100, is little beside it */
	CHECKF(memory_left() + SIZES / 2 * bytes > left, "%zu bytes of %zu are left",
	       memory_left(), left);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* Sizes that a thread compiled, kernels and all, and one that it does while others run. */
TEST(sizes_ahead)
{
	static float w[K * N];
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	uint64_t seed = rlx_test_seed(), point = 0;
	struct rlx_model *m = open_model(N);
	struct rlx_runner *r = NULL;
	struct rlx_error err = { 0 };
	int64_t b;

	CHECKF(!rlx_runner_new(m, &o, &r, &err), "%s", err.text);
	fill(w, K * N, &seed);
	for (b = 1; b <= 8; b *= 2) {
		struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, b, 3, K), NULL };

		CHECKF(!rlx_runner_prepare(r, &in, 1, &point, &err), "%s", err.text);
	}
	CHECKF(!rlx_runner_set(r, "w", rlx_type(RLX_F32, K, N), w, &err), "%s", err.text);
	run(r, N, 3, 3, w, &seed);
	run(r, N, 8, 3, w, &seed);
	CHECKF(!rlx_runner_wait(r, point, -1, &err), "%s", err.text);
	for (b = 1; b <= 8; b *= 2)
		run(r, N, b, 3, w, &seed);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* Experts that a session places are not in the device's memory whole. */
TEST(experts_stay_where_they_are)
{
	enum { E = 512, ROWS = 3 };
	static float w[E * K * N], x[ROWS * K];
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu(),
				      .flags = RLX_COMPILE_PLACE };
	struct rlx_graph *g = rlx_graph_new("experts");
	int64_t rows = rlx_dim(g, "rows", 1, MOST);
	rlx_value v = rlx_input(g, "x", rlx_type(RLX_F32, rows, K));
	rlx_value e = rlx_param(g, "w", rlx_type(RLX_F32, E, K, N));
	rlx_value at = rlx_input(g, "at", rlx_type(RLX_I32, rows));
	int32_t route[ROWS] = { 300, 0, 300 };
	struct rlx_named_tensor in[] = {
		{ "x", rlx_type(RLX_F32, ROWS, K), x }, { "at", rlx_type(RLX_I32, ROWS), route },
	}, y;
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	struct rlx_model *m = NULL;
	struct rlx_runner *r = NULL;
	size_t left;
	int i, j, k;

	rlx_output(g, "y", rlx_emit(g, grouped_matmul, .x = v, .w = e, .idx = at));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_model_from_graph(g, &m, &err), "%s", err.text);
	rlx_graph_put(g);
	fill(w, E * K * N, &seed);
	fill(x, ROWS * K, &seed);
	CHECKF(!rlx_runner_new(m, &o, &r, &err), "%s", err.text);
	left = is_shared() ? memory_left() : 0;
	CHECKF(!rlx_runner_set(r, "w", rlx_type(RLX_F32, E, K, N), w, &err), "%s", err.text);
	if (left)
		CHECKF(memory_left() + sizeof(w) / 2 > left, "%zu bytes of %zu are left",
		       memory_left(), left);
	CHECKF(!rlx_runner_run(r, in, 2, &err), "%s", err.text);
	CHECK(rlx_runner_output(r, 0, &y));
	for (i = 0; i < ROWS; i++)
		for (j = 0; j < N; j++) {
			float sum = 0;

			for (k = 0; k < K; k++)
				sum += x[i * K + k] * w[(route[i] * K + k) * N + j];
			CHECK(((const float *)y.data)[i * N + j] == sum);
		}
	rlx_runner_free(r);
	rlx_model_put(m);
}

TEST_MAIN()
