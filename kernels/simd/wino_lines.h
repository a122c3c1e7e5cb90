/* SPDX-License-Identifier: MIT */
/*
 * Winograd's minimal filtering along one axis, F(2, 3) and F(4, 3), m being a constant: for the
 * CPU's vectors (kernels/cpu/conv_wino.c), and for GPUs with strict bits (conv_winograd.cu), where
 * a vector is one number, so that both round alike.
 */
#ifndef RLX_SIMD_WINO_LINES_H
#define RLX_SIMD_WINO_LINES_H

#include "kernels/simd/math.h"

#if defined(__CUDACC__) || defined(__HIP__)
#define WINO_UNROLL	_Pragma("unroll")
#elif defined(__clang__)
#define WINO_UNROLL	_Pragma("clang loop unroll(full)")
#else
#define WINO_UNROLL	_Pragma("GCC unroll 8")
#endif

/* The points of F(4, 3) and their powers; why these: kernels/cpu/conv_wino.c. */
#define PA	0.75f
#define PB	1.5f
#define PA2	(PA * PA)
#define PB2	(PB * PB)

/* Input along one axis: d is side elements, @s apart; so is o. */
RLX_INLINE void in_line(const vf *d, vf *o, const int s, const int m)
{
	if (m == 2) {
		o[0] = d[0] - d[2 * s];
		o[s] = d[s] + d[2 * s];
		o[2 * s] = d[2 * s] - d[s];
		o[3 * s] = d[s] - d[3 * s];
	} else {
		const vf pa = vf_set1(PA), pb = vf_set1(PB), pa2 = vf_set1(PA2);
		const vf pb2 = vf_set1(PB2), both = vf_set1(PA2 * PB2);
		const vf sum = vf_set1(PA2 + PB2);
		vf e = vf_fnma(pb2, d[2 * s], d[4 * s]), f = vf_fnma(pb2, d[s], d[3 * s]);
		vf g = vf_fnma(pa2, d[2 * s], d[4 * s]), h = vf_fnma(pa2, d[s], d[3 * s]);

		o[0] = vf_fma(both, d[0], vf_fnma(sum, d[2 * s], d[4 * s]));
		o[5 * s] = vf_fma(both, d[s], vf_fnma(sum, d[3 * s], d[5 * s]));
		o[s] = vf_fma(pa, f, e);
		o[2 * s] = vf_fnma(pa, f, e);
		o[3 * s] = vf_fma(pb, h, g);
		o[4 * s] = vf_fnma(pb, h, g);
	}
}

/* Sums along one axis: q has side elements, @s apart; o has m, @so apart. */
RLX_INLINE void out_line(const vf *q, const int s, vf *o, const int so,
			 const int m)
{
	if (m == 2) {
		o[0] = q[0] + q[s] + q[2 * s];
		o[so] = q[s] - q[2 * s] - q[3 * s];
	} else {
		vf e = q[s] + q[2 * s], f = q[s] - q[2 * s];
		vf g = q[3 * s] + q[4 * s], h = q[3 * s] - q[4 * s];

		o[0] = q[0] + e + g;
		o[so] = vf_fma(vf_set1(PA), f, PB * h);
		o[2 * so] = vf_fma(vf_set1(PA2), e, PB2 * g);
		o[3 * so] = vf_fma(vf_set1(PA2 * PA), f,
				   vf_fma(vf_set1(PB2 * PB), h, q[5 * s]));
	}
}

/* Weights along one axis, in double: 3 values @s apart to side, @so apart. */
RLX_INLINE void weight_line(const vd *g, size_t s, vd *o, size_t so, const size_t m)
{
	const double p[2] = { PA, PB };

	if (m == 2) {
		o[0] = g[0];
		o[so] = (g[0] + g[s] + g[2 * s]) * 0.5;
		o[2 * so] = (g[0] - g[s] + g[2 * s]) * 0.5;
		o[3 * so] = g[2 * s];
		return;
	}
	o[0] = g[0] * (1 / (double)(PA2 * PB2));
	WINO_UNROLL
	for (size_t i = 0; i < 2; i++) {
		const double a = p[i], b = p[1 - i], q = 1 / (2 * a * a * (a * a - b * b));
		const vd even = (g[0] + a * a * g[2 * s]) * q, odd = g[s] * (a * q);

		o[(2 * i + 1) * so] = even + odd;
		o[(2 * i + 2) * so] = even - odd;
	}
	o[5 * so] = g[2 * s];
}

#endif
