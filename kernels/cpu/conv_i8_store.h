/* SPDX-License-Identifier: MIT */
/* What the 8-bit convolution kernels make of sums: bias, zero points, scale, bounds. */
#ifndef RLX_CPU_CONV_I8_STORE_H
#define RLX_CPU_CONV_I8_STORE_H

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
	vu v = (vu)vi_load(s->s + i / PANEL * s->panel + i % PANEL) + f->add;

	return (vi)(wz ? v - (vu)vi_load(s->xsum + i) * f->wz : v);
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

#endif
