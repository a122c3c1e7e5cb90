/* SPDX-License-Identifier: MIT */
/*
 * For tests of CPU kernels: the levels this machine has, buffers that end at an
 * unmapped page and know what was written before their start, and running the
 * units of a kernel in random ranges and order.
 */
#ifndef RLX_KCHECK_H
#define RLX_KCHECK_H

#include <sys/mman.h>

#include "base/amx.h"
#include "kernels/kernel.h"
#include "kernels/type.h"
#include "selftests/lib/rlx_test.h"

#define KC_PAGE		4096u
#define KC_POISON	0xa5

/* Levels from RLX_ISA_BASE up to the best this machine runs. */
static inline int kc_levels(void)
{
#if defined(__x86_64__)
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
		return 1;
	if (!__builtin_cpu_supports("avx512bw") ||
	    !__builtin_cpu_supports("avx512dq") ||
	    !__builtin_cpu_supports("avx512vl"))
		return 2;
	if (!__builtin_cpu_supports("avx512vnni"))
		return 3;
	if (!__builtin_cpu_supports("avx512bf16"))
		return 4;
	return rlx_amx_why() ? 5 : 6;
#else
	return 1;
#endif
}

/* size bytes ending (up to @align) at an unmapped page; poisoned */
struct kc_buf {
	void	*p;
	char	*map;
	size_t	size, len;
};

static inline struct kc_buf kc_buf_new(size_t size, size_t align)
{
	struct kc_buf b;
	size_t body = (size + KC_PAGE) / KC_PAGE * KC_PAGE + KC_PAGE;

	b.len = body + KC_PAGE;
	b.size = size;
	b.map = mmap(NULL, b.len, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b.map == MAP_FAILED ||
	    mprotect(b.map + body, KC_PAGE, PROT_NONE) != 0)
		rlx_test_fail(__FILE__, __LINE__, "no memory for a buffer");
	memset(b.map, KC_POISON, body);
	b.p = b.map + (body - size) / align * align;
	return b;
}

/* Checks that nothing around the buffer was written, then frees it. */
static inline void kc_buf_free(struct kc_buf *b)
{
	const char *p = b->p;

	for (const char *q = b->map; q < p; q++)
		CHECKF((unsigned char)*q == KC_POISON,
		       "a byte %td before the buffer was written", p - q);
	for (const char *q = p + b->size; q < b->map + b->len - KC_PAGE; q++)
		CHECKF((unsigned char)*q == KC_POISON,
		       "a byte %td after the buffer was written",
		       q - p - (ptrdiff_t)b->size);
	munmap(b->map, b->len);
}

/* All units of a kernel, in random ranges, the second half first. */
static inline void kc_run(rlx_k_fn *fn, const void *args, size_t units,
			  size_t scratch, uint64_t *seed)
{
	struct kc_buf s = kc_buf_new(scratch, 64);
	size_t cut = units ? rlx_test_rand(seed) % (units + 1) : 0;
	size_t i, n;

	CHECK(fn != NULL);
	for (i = cut; i < units; i += n) {
		n = 1 + rlx_test_rand(seed) % (units - i);
		fn(args, i, i + n, scratch ? s.p : NULL);
	}
	for (i = 0; i < cut; i += n) {
		n = 1 + rlx_test_rand(seed) % (cut - i);
		fn(args, i, i + n, scratch ? s.p : NULL);
	}
	kc_buf_free(&s);
}

static inline int64_t kc_pick(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) % (uint64_t)(hi - lo + 1));
}

static inline void kc_fill(float *p, size_t n, double lo, double hi,
			   uint64_t *seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (float)rlx_test_uniform(seed, lo, hi);
}

static inline uint16_t kc_to_bf16(float x)
{
	uint32_t b;

	memcpy(&b, &x, 4);
	if (x != x)
		return (uint16_t)(b >> 16 | 0x40);
	return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

static inline float kc_from_bf16(uint16_t h)
{
	uint32_t b = (uint32_t)h << 16;
	float x;

	memcpy(&x, &b, 4);
	return x;
}

/* |got - want| in units in the last place of want as a float */
static inline double kc_ulp(float got, double want)
{
	double scale;
	int e;

	if (want != want)
		return got != got ? 0 : INFINITY;
	if ((double)got == want || (float)want == got)
		return 0;
	if (isinf(want) || isinf(got) || got != got)
		return isinf((float)want) && got == (float)want ? 0 : INFINITY;
	frexp(want, &e);
	scale = ldexp(1.0, (e < -125 ? -125 : e) - 24);
	return fabs((double)got - want) / scale;
}

#endif
