/* SPDX-License-Identifier: MIT */
/*
 * 64 bytes of floats, in as many vectors as a level needs for them: sums along a row are kept
 * in so many lanes at every level, and folded in one order, so that each gives the same bits.
 * Base, whose blocks of channels are smaller too, does not in any case, and takes a vector.
 *
 *	vw	RLX_WL float lanes: .v[RLX_WIDE] of vf
 */
#ifndef RLX_SIMD_WIDE_H
#define RLX_SIMD_WIDE_H

#include "kernels/simd/vec.h"

#if RLX_VB >= 32
#define RLX_WIDE	(64 / RLX_VB)
#else
#define RLX_WIDE	1
#endif
#define RLX_WB		(RLX_WIDE * RLX_VB)	/* bytes */
#define RLX_WL		(RLX_WB / 4)

/* over the vectors of a vw */
#define RLX_EACH_WIDE(w)	RLX_UNROLL for (size_t w = 0; w < RLX_WIDE; w++)

typedef struct { vf v[RLX_WIDE]; } vw;

/* Of @n lanes that are left, those from vector @w on. */
RLX_INLINE size_t vw_left(size_t n, size_t w)
{
	return n > w * RLX_VL ? n - w * RLX_VL : 0;
}

RLX_INLINE vw vw_set1(float x)
{
	vw r;

	RLX_EACH_WIDE(w)
		r.v[w] = vf_set1(x);
	return r;
}

RLX_INLINE vw vw_loadu(const float *p)
{
	vw r;

	RLX_EACH_WIDE(w)
		r.v[w] = vf_loadu(p + w * RLX_VL);
	return r;
}

RLX_INLINE void vw_storeu(float *p, vw x)
{
	RLX_EACH_WIDE(w)
		vf_storeu(p + w * RLX_VL, x.v[w]);
}

/* The first @n lanes; the others are 0, and are not touched. */
RLX_INLINE vw vw_loadn(const float *p, size_t n)
{
	vw r;

	RLX_EACH_WIDE(w)
		r.v[w] = vf_loadn(p + w * RLX_VL, vw_left(n, w));
	return r;
}

RLX_INLINE void vw_storen(float *p, vw x, size_t n)
{
	RLX_EACH_WIDE(w)
		vf_storen(p + w * RLX_VL, x.v[w], vw_left(n, w));
}

/* The first @n lanes of x, 0 in the others. */
RLX_INLINE vw vw_first(vw x, size_t n)
{
	RLX_EACH_WIDE(w)
		x.v[w] = vf_sel(vm_first(vw_left(n, w)), x.v[w], vf_zero());
	return x;
}

#define RLX_VW_OP(name, expr)						\
RLX_INLINE vw name(vw a, vw b)						\
{									\
	RLX_EACH_WIDE(w)						\
		a.v[w] = expr;						\
	return a;							\
}
RLX_VW_OP(vw_add, a.v[w] + b.v[w])
RLX_VW_OP(vw_sub, a.v[w] - b.v[w])

RLX_INLINE vw vw_fma(vw a, vw b, vw c)
{
	RLX_EACH_WIDE(w)
		a.v[w] = vf_fma(a.v[w], b.v[w], c.v[w]);
	return a;
}

/* Halves of lanes added up until a vector has them, as vf_hsum() goes on with it. */
RLX_INLINE vf vw_fold(vw x)
{
	RLX_UNROLL
	for (size_t half = RLX_WIDE / 2; half; half /= 2)
		RLX_UNROLL
		for (size_t w = 0; w < half; w++)
			x.v[w] += x.v[w + half];
	return x.v[0];
}

RLX_INLINE float vw_hsum(vw x) { return vf_hsum(vw_fold(x)); }

/* Those of four. */
RLX_INLINE void vw_hsum4(const vw *x, float *sum)
{
	const vf four[4] = { vw_fold(x[0]), vw_fold(x[1]), vw_fold(x[2]), vw_fold(x[3]) };

	vf_hsum4(four, sum);
}

#endif
