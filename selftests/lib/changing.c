// SPDX-License-Identifier: MIT
/* Inputs that somebody else writes while programs read them. */
#include <string.h>

#include "base/clock.h"
#include "rlx/run.h"
#include "selftests/lib/changing.h"
#include "selftests/lib/rlx_test.h"

static struct rlx_buf part(struct rlx_arena *a, uint64_t at, uint64_t bytes)
{
	return (struct rlx_buf){ a, at, bytes };
}

static void *change(void *ctx)
{
	struct changing *c = ctx;
	uint32_t i, turn;
	uint64_t until;

	for (turn = 0; !atomic_load(&c->over); turn ^= 1) {
		for (i = 0; i < c->n; i++)
			atomic_store_explicit(&c->at[i], c->value[turn], memory_order_relaxed);
		until = rlx_now() + c->pause_ns;
		while (rlx_now() < until && !atomic_load(&c->over))
			;
	}
	return NULL;
}

void changing_begin(struct changing *c)
{
	CHECK(!pthread_create(&c->thread, NULL, change, c));
}

void changing_end(struct changing *c)
{
	atomic_store(&c->over, true);
	pthread_join(c->thread, NULL);
}

/* Expert e's matrix is all e + 1: a row of y is all @k, or all @k * @experts. */
static void check_rows(const float *y, int m, int n, float k, float experts)
{
	int i, j;

	for (i = 0; i < m; i++, y += n)
		for (j = 0; j < n; j++)
			CHECKF(y[j] == y[0] && (y[0] == k || y[0] == k * experts),
			       "row %d: %g and %g", i, (double)y[0], (double)y[j]);
}

void changing_indices(const char *device, bool output, int runs)
{
	const struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	enum { M = 64, K = 16, N = 64, E = 16 };
	struct rlx_graph *g = rlx_graph_new("flip");
	rlx_value w = rlx_input(g, "w", rlx_type(RLX_F32, E, K, N)), idx;
	static const int32_t none[M];
	const struct rlx_arena_opts ao = { .size = 1 << 20 };
	struct changing f = { .n = M, .value = { 0, E - 1 } };	/* one end or the other */
	struct rlx_error err = { 0 };
	struct rlx_arena *a;
	float *x, *y, *v;
	struct rlx_program *p;
	struct rlx_session *s;
	int i;

	CHECKF(!rlx_arena_new(&ao, &a, &err), "%s", err.text);
	f.at = rlx_arena_base(a);
	x = (float *)rlx_arena_base(a) + 1024;
	y = x + M * K;
	v = y + M * N;
	idx = rlx_input(g, "i", rlx_type(RLX_I32, M));
	if (output) {
		idx = rlx_emit(g, min, .a = idx, .b = rlx_scalar_const(g, RLX_I32, E - 1));
		rlx_output(g, "e", idx);
	}
	w = rlx_emit(g, grouped_matmul, .x = rlx_input(g, "x", rlx_type(RLX_F32, M, K)), .w = w,
		     .idx = idx);
	rlx_output(g, "y", w);
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	for (i = 0; i < M * K; i++)
		x[i] = 1;
	for (i = 0; i < E * K * N; i++)
		v[i] = (float)(i / (K * N) + 1);
	CHECK_EQ(rlx_session_bind(s, output ? RLX_IO_OUTPUT : RLX_IO_INPUT, output ? "e" : "i",
				  part(a, 0, M * 4)), 0);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", part(a, 4096, M * K * 4)), 0);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", part(a, 4096 + M * K * 4, M * N * 4)), 0);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "w", part(a, 4096 + (M * K + M * N) * 4,
							     E * K * N * 4)), 0);
	if (output)
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "i", rlx_type(RLX_I32, M), none), 0);
	changing_begin(&f);
	for (i = 0; i < runs; i++) {
		memset(y, 0xff, M * N * 4);
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		check_rows(y, M, N, K, E);
	}
	changing_end(&f);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	rlx_arena_put(a);
}
