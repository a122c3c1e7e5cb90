/* SPDX-License-Identifier: MIT */
/* What tests of CPU kernels share: levels, guarded buffers, random splits. */
#ifndef RLX_KERNEL_TEST_H
#define RLX_KERNEL_TEST_H

#include "base/amx.h"
#include "kernels/kernel.h"
#include "selftests/lib/rlx_test.h"

#define GUARD	256	/* bytes on both sides of a buffer */

/* Under the address sanitizer reads of the guards are caught as well. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define kt_forbid(p, n)	__asan_poison_memory_region(p, n)
#define kt_allow(p, n)	__asan_unpoison_memory_region(p, n)
#else
#define kt_forbid(p, n)	((void)(p), (void)(n))
#define kt_allow(p, n)	((void)(p), (void)(n))
#endif

static inline bool kt_isa_runs(enum rlx_isa isa)
{
	if (isa == RLX_ISA_BASE)
		return true;
#if defined(__x86_64__)
	if (isa == RLX_ISA_V3)
		return __builtin_cpu_supports("avx2") &&
		       __builtin_cpu_supports("fma");
	if (!__builtin_cpu_supports("avx512f") ||
	    !__builtin_cpu_supports("avx512bw") ||
	    !__builtin_cpu_supports("avx512dq") ||
	    !__builtin_cpu_supports("avx512vl"))
		return false;
	if (isa == RLX_ISA_V4_AMX && rlx_amx_why())
		return false;
	if (isa >= RLX_ISA_V4X && !__builtin_cpu_supports("avx512bf16"))
		return false;
	return isa == RLX_ISA_V4 || __builtin_cpu_supports("avx512vnni");
#else
	return false;
#endif
}

/* @bytes between guards, all of it poisoned; 64-byte aligned. */
static inline void *kt_new(size_t bytes)
{
	size_t all = (bytes + 63) / 64 * 64 + 2 * GUARD;
	unsigned char *p = aligned_alloc(64, all);

	CHECK(p != NULL);
	memset(p, 0xa5, all);
	memset(p + GUARD, 0xff, bytes);	/* NaN as f32 */
	kt_forbid(p, GUARD);
	kt_forbid(p + GUARD + bytes, all - GUARD - bytes);
	return p + GUARD;
}

/* Check the guards, then free. */
static inline void kt_free(void *buf, size_t bytes)
{
	unsigned char *p = (unsigned char *)buf - GUARD;
	size_t i;

	kt_allow(p, bytes + 2 * GUARD);
	for (i = 0; i < GUARD; i++)
		CHECKF(p[i] == 0xa5, "byte -%zu written", GUARD - i);
	for (i = 0; i < GUARD; i++)
		CHECKF(p[GUARD + bytes + i] == 0xa5,
		       "byte %zu past the end written", i);
	free(p);
}

static inline size_t kt_pick(uint64_t *s, size_t lo, size_t hi)
{
	return lo + (size_t)(rlx_test_rand(s) % (hi - lo + 1));
}

static inline void kt_fill(float *p, size_t n, uint64_t *s)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (float)rlx_test_uniform(s, -1, 1);
}

/* All units, in pieces of random length, the later half first. */
static inline void kt_run(rlx_k_fn *fn, const void *args, size_t units,
			  size_t scratch, uint64_t *s)
{
	void *sc = kt_new(scratch);
	size_t half = units ? kt_pick(s, 0, units) : 0, pass, at, end, stop;

	for (pass = 0; pass < 2; pass++) {
		at = pass ? 0 : half;
		stop = pass ? half : units;
		for (; at < stop; at = end) {
			end = kt_pick(s, at + 1, stop);
			memset(sc, 0xff, scratch);
			fn(args, at, end, scratch ? sc : NULL);
		}
	}
	kt_free(sc, scratch);
}

#endif
