/* SPDX-License-Identifier: MIT */
/* What benchmarks of single kernels share: random operands, timing by the GPU's events. */
#ifndef RLX_GPUBENCH_KERNEL_H
#define RLX_GPUBENCH_KERNEL_H

#include "selftests/gpu/against_cpu.h"

static inline void *random_halves(size_t n, int type, uint64_t *seed)
{
	uint16_t *p = malloc(n * 2);

	CHECK(p);
	for (size_t i = 0; i < n; i++) {
		/* the sum of four of sixteen bits: a bell, as data has */
		uint64_t r = rlx_test_rand(seed);
		float x = (float)((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) +
				  (r >> 48)) * 0x1p-15f - 4;
		_Float16 h = (_Float16)x;

		p[i] = kc_to_bf16(x);
		if (type == RLX_K_F16)
			memcpy(&p[i], &h, 2);
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

#endif
