// SPDX-License-Identifier: MIT
/* Functions of a byte, by a table of 256. */
#include "kernels/kernel.h"
#include "kernels/quant.h"
#include "kernels/simd/vec.h"

#if defined(RLX_V256) || defined(RLX_V512)
#include <immintrin.h>
#endif

rlx_k_fn RLX_K(lookup);

#if defined(RLX_V512)
#define W	64

/* Two tables of 128 bytes, of which the high bit chooses. */
__attribute__((target("avx512vbmi")))
static size_t permuted(const struct rlx_k_lookup *a, size_t i, size_t end)
{
	__m512i t[4];

	for (size_t k = 0; k < 4; k++)
		t[k] = _mm512_loadu_si512(a->table + k * W);
	for (; i + W <= end; i += W) {
		const __m512i x = _mm512_loadu_si512(a->x + i);
		const __m512i lo = _mm512_permutex2var_epi8(t[0], x, t[1]);
		const __m512i hi = _mm512_permutex2var_epi8(t[2], x, t[3]);

		_mm512_storeu_si512(a->y + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), lo,
								     hi));
	}
	return i;
}
#endif

#if defined(RLX_V256) && !defined(RLX_V512)
#define W	32

/* Sixteen tables of 16 bytes; a shuffle gives 0 for what is not of its table. */
static size_t permuted(const struct rlx_k_lookup *a, size_t i, size_t end)
{
	const __m256i step = _mm256_set1_epi8(16), past = _mm256_set1_epi8(0x70);
	__m256i t[16];

	for (size_t k = 0; k < 16; k++)
		t[k] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)a->table + k));
	for (; i + W <= end; i += W) {
		__m256i x = _mm256_loadu_si256((const __m256i *)(a->x + i));
		__m256i y = _mm256_setzero_si256();

		for (size_t k = 0; k < 16; k++, x = _mm256_sub_epi8(x, step))
			y = _mm256_or_si256(y, _mm256_shuffle_epi8(t[k],
								   _mm256_adds_epu8(x, past)));
		_mm256_storeu_si256((__m256i *)(a->y + i), y);
	}
	return i;
}
#endif

void RLX_K(lookup)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_lookup *a = args;
	size_t i = begin * RLX_K_QUANT_UNIT;

	(void)scratch;
	end = end * RLX_K_QUANT_UNIT < a->n ? end * RLX_K_QUANT_UNIT : a->n;
#if defined(RLX_V512)
	if (__builtin_cpu_supports("avx512vbmi"))
		i = permuted(a, i, end);
#elif defined(RLX_V256)
	i = permuted(a, i, end);
#endif
	for (; i < end; i++)
		a->y[i] = a->table[a->x[i]];
}
