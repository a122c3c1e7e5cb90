/* SPDX-License-Identifier: MIT */
/* What benchmarks of single kernels share: random operands, timing by the GPU's events. */
#ifndef RLX_GPUBENCH_KERNEL_H
#define RLX_GPUBENCH_KERNEL_H

#include "selftests/gpu/against_cpu.h"

/* f32, bf16 or f16 */
static inline void *random_floats(size_t n, int type, uint64_t *seed)
{
	uint16_t *p = malloc(n * rlx_k_type_size((enum rlx_dtype)type));

	CHECK(p);
	for (size_t i = 0; i < n; i++) {
		/* the sum of four of sixteen bits: a bell, as data has */
		uint64_t r = rlx_test_rand(seed);
		float x = (float)((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) +
				  (r >> 48)) * 0x1p-15f - 4;
		_Float16 h = (_Float16)x;

		if (type == RLX_F32)
			memcpy(p + 2 * i, &x, 4);
		else if (type == RLX_F16)
			memcpy(&p[i], &h, 2);
		else
			p[i] = kc_to_bf16(x);
	}
	return p;
}

/* Milliseconds of one of @n launches by @run, one behind the other. */
static inline double run_many(int (*run)(const void *), const void *p, int n)
{
	void *e[2];
	float ms;

	for (int i = 0; i < 2; i++)
		CHECK_CU(gpu->api->event_new(&e[i], 0));
	CHECK_CU(gpu->api->event_record(e[0], NULL));
	for (int i = 0; i < n; i++)
		CHECK_CU(run(p));
	CHECK_CU(gpu->api->event_record(e[1], NULL));
	CHECK_CU(gpu->api->stream_wait(NULL));
	CHECK_CU(gpu->api->event_elapsed(&ms, e[0], e[1]));
	for (int i = 0; i < 2; i++)
		CHECK_CU(gpu->api->event_free(e[i]));
	return (double)ms / n;
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

enum { ROUNDS = 7 };

/* The median of ROUNDS, of each of two in turns; NULL: nobody, and 0. */
static inline void measure_both(int (*const run[2])(const void *), const void *p, int n,
				double median[2])
{
	double ms[2][ROUNDS];

	for (int i = -1; i < ROUNDS; i++)	/* the first to get warm */
		for (int j = 0; j < 2; j++)
			ms[j][i < 0 ? 0 : i] = run[j] ? run_many(run[j], p, n) : 0;
	for (int j = 0; j < 2; j++) {
		qsort(ms[j], ROUNDS, sizeof(double), by_value);
		median[j] = ms[j][ROUNDS / 2];
	}
}

/* A graph of @n launches by @run into @stream. */
static inline void *graph_of(int (*run)(const void *), const void *p, int n, void *stream)
{
	void *graph, *exec;

	CHECK_CU(run(p));	/* what there is to prepare is not for the graph */
	CHECK_CU(gpu->api->stream_wait(stream));
	CHECK_CU(gpu->api->capture_begin(stream, 1));
	for (int i = 0; i < n; i++)
		CHECK_CU(run(p));
	CHECK_CU(gpu->api->capture_end(stream, &graph));
	CHECK_CU(gpu->api->graph_ready(&exec, graph, 0));
	CHECK_CU(gpu->api->graph_free(graph));
	return exec;
}

/* As measure_both(), of launches in a graph, which wait for no processor of the host's. */
static inline void measure_graphs(int (*const run[2])(const void *), const void *p, int n,
				  void *stream, double median[2])
{
	void *exec[2] = { NULL, NULL }, *e[2];
	double ms[2][ROUNDS];
	float took;

	for (int j = 0; j < 2; j++) {
		CHECK_CU(gpu->api->event_new(&e[j], 0));
		if (run[j])
			exec[j] = graph_of(run[j], p, n, stream);
	}
	for (int i = -1; i < ROUNDS; i++)	/* the first to get warm */
		for (int j = 0; j < 2 && exec[j]; j++) {
			CHECK_CU(gpu->api->event_record(e[0], stream));
			CHECK_CU(gpu->api->graph_launch(exec[j], stream));
			CHECK_CU(gpu->api->event_record(e[1], stream));
			CHECK_CU(gpu->api->stream_wait(stream));
			CHECK_CU(gpu->api->event_elapsed(&took, e[0], e[1]));
			ms[j][i < 0 ? 0 : i] = (double)took / n;
		}
	for (int j = 0; j < 2; j++) {
		CHECK_CU(gpu->api->event_free(e[j]));
		median[j] = 0;
		if (!exec[j])
			continue;
		CHECK_CU(gpu->api->graph_exec_free(exec[j]));
		qsort(ms[j], ROUNDS, sizeof(double), by_value);
		median[j] = ms[j][ROUNDS / 2];
	}
}

#endif
