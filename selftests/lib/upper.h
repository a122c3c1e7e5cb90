/* SPDX-License-Identifier: MIT */
/* Whether a call left the upper halves of vector registers in use, with which SSE code is slow. */
#ifndef SELFTESTS_UPPER_H
#define SELFTESTS_UPPER_H

#include <stdbool.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

/* State components 2 and 6, which VZEROUPPER puts back: Intel SDM, volume 1, 13.6. */
#define UPPER_HALVES	0x44

__attribute__((target("xsave"))) static inline bool upper_halves(void)
{
	return _xgetbv(1) & UPPER_HALVES;
}

__attribute__((target("avx"))) static inline void upper_clear(void)
{
	_mm256_zeroupper();
}

/* In use by this thread; false where the processor does not say so, or has none. */
static inline bool upper_in_use(void)
{
	unsigned int a, b, c, d;
	bool used;

	if (!__builtin_cpu_supports("avx") || !__get_cpuid_count(13, 1, &a, &b, &c, &d) ||
	    !(a & 4))
		return false;
	used = upper_halves();
	if (used)
		upper_clear();
	return used && !upper_halves();		/* else they count as used always */
}
#else
static inline bool upper_in_use(void)
{
	return false;
}
#endif

#endif
