/* SPDX-License-Identifier: MIT */
/* What the 8-bit convolution kernels make of sums: bias, zero points, scale, bounds. */
#ifndef RLX_CPU_CONV_I8_STORE_H
#define RLX_CPU_CONV_I8_STORE_H

#include <math.h>
#include <string.h>

#include "kernels/cpu/conv_panel.h"

static inline int32_t zero_point(const struct rlx_k_conv_i8 *a)
{
	if (!a->x_zero_at)
		return a->x_zero;
	return a->x_signed ? *(const int8_t *)a->x_zero_at : *(const uint8_t *)a->x_zero_at;
}

/* What makes results of the sums of one output channel. */
struct finish {
	uint32_t	add, wz;	/* to each sum; times the sum of its inputs, off it */
	float		scale;
};

/* Sums of one output channel of a unit, @panel elements from panel to panel. */
struct sums {
	const int32_t	*s, *xsum;
	size_t		panel, pixels;
};

/* Those of a vector from pixel @i on, with what is added and taken off. */
RLX_INLINE vi sum_at(const struct sums *s, const struct finish *f, size_t i, const bool wz)
{
	vu v = (vu)vi_loadu(s->s + i / PANEL * s->panel + i % PANEL) + f->add;

	return (vi)(wz ? v - (vu)vi_loadu(s->xsum + i) * f->wz : v);
}

static inline void store_ints(const struct sums *s, const struct finish *f, int32_t *y)
{
	for (size_t i = 0; i < s->pixels; i += RLX_VL)
		vi_storen(y + i, sum_at(s, f, i, f->wz), s->pixels - i);
}

/* Of 8-bit results, for all channels. */
struct bounds {
	vf		lo, hi;
	vi		zero;
};

RLX_INLINE struct bounds bounds_of(const struct rlx_k_conv_i8 *a)
{
	return (struct bounds){ vf_set1((float)(a->lo - a->y_zero)),
				vf_set1((float)(a->hi - a->y_zero)), vi_set1(a->y_zero) };
}

/* Scale, round, clamp. */
RLX_INLINE void store_bytes(const struct sums *s, const struct finish *f, const struct bounds *q,
			    uint8_t *y, const bool wz)
{
	const vf scale = vf_set1(f->scale);
	const struct sums at = *s;
	const struct finish by = *f;

	for (size_t i = 0; i < at.pixels; i += RLX_VL) {
		const vf v = vf_max(q->lo, vf_from_vi(sum_at(&at, &by, i, wz)) * scale);
		const vu8q b = vi_low_8(vi_round(vf_min(q->hi, v)) + q->zero);

		if (at.pixels - i >= RLX_VL)
			memcpy(y + i, &b, RLX_VL);
		else
			memcpy(y + i, &b, at.pixels - i);
	}
}

/*
 * What is stored of a panel: segments, each from element @in of a channel on, of @rows channels,
 * @plane elements apart, the first of them from element @to on.
 */
struct stored {
	const struct seg *g;
	size_t		n, rows, plane, to;
};

/* What lies in a panel of some pixels that follow one another, from its pixel @at on. */
RLX_INLINE struct sums sums_from(const struct sums *s, size_t at, size_t pixels)
{
	return (struct sums){ s->s + at, s->xsum + at, s->panel, pixels };
}

#if defined(RLX_V512)
/* Scaled and rounded, up to the upper bound; what is far below is the least number. */
RLX_INLINE __m512i rounded_at(const struct sums *s, const struct finish *f, vf hi, size_t i,
			      const bool wz)
{
	const vf v = vf_from_vi(sum_at(s, f, i, wz)) * vf_set1(f->scale);

	return (__m512i)vi_round(vf_min(hi, v));
}

/* Pixels [at, at + len) of each of @n segments of a panel's go from element @in of @y on. */
RLX_INLINE void segs_of(uint8_t *y, __m256i bytes, const struct seg *g, size_t n)
{
	for (; n--; g++)
		_mm256_mask_storeu_epi8(y + g->in - g->at,
					(__mmask32)((UINT32_MAX >> (PANEL - g->len)) << g->at),
					bytes);
}

/*
 * store_bytes() of a panel; @whole: it is one segment. Words saturate, and with them the least
 * number, which no NaN may be.
 */
RLX_INLINE void panel_bytes(const struct rlx_k_conv_i8 *a, struct sums s, const struct finish *f,
			    const struct stored *p, const bool wz, const bool whole)
{
	const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11,
						15);
	const __m512i least = _mm512_set1_epi16((int16_t)a->lo);
	const __m512i zero = _mm512_set1_epi16((int16_t)a->y_zero);
	const vf hi = vf_set1((float)(a->hi - a->y_zero));
	const bool is_signed = a->out == RLX_CONV_I8;
	const struct stored at = *p;
	uint8_t *y = (uint8_t *)a->y + at.to + (whole ? at.g->in : 0);

	for (size_t o = 0; o < at.rows; o++, f++, y += at.plane, s.s += PANEL) {
		const struct finish by = *f;
		__m512i w = _mm512_packs_epi32(rounded_at(&s, &by, hi, 0, wz),
					       rounded_at(&s, &by, hi, RLX_VL, wz));
		__m256i b;

		w = _mm512_max_epi16(_mm512_adds_epi16(w, zero), least);
		w = is_signed ? _mm512_packs_epi16(w, w) : _mm512_packus_epi16(w, w);
		b = _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, w));
		if (whole)
			_mm256_storeu_si256((__m256i *)y, b);
		else
			segs_of(y, b, at.g, at.n);
	}
}
#endif

#endif
