/* SPDX-License-Identifier: MIT */
/* Mean and variance of a row, as the norms take them. */
#ifndef RLX_K_CPU_MOMENTS_H
#define RLX_K_CPU_MOMENTS_H

#include "kernels/simd/wide.h"

/* So many elements are summed in f32 before a double takes them. */
#define MOMENTS_BLOCK	1024

/* Sums of x - mean and of its squares over up to a block. */
static inline void moments_block(const float *x, float mean, size_t n, double sum[2])
{
	vw s0 = vw_set1(0), s1 = s0, q0 = s0, q1 = s0, d;
	const vw m = vw_set1(mean);
	size_t i = 0;

	for (; i + 2 * RLX_WL <= n; i += 2 * RLX_WL) {
		d = vw_sub(vw_loadu(x + i), m);
		s0 = vw_add(s0, d);
		q0 = vw_fma(d, d, q0);
		d = vw_sub(vw_loadu(x + i + RLX_WL), m);
		s1 = vw_add(s1, d);
		q1 = vw_fma(d, d, q1);
	}
	for (; i < n; i += RLX_WL)
		RLX_EACH_WIDE(w) {
			const size_t left = vw_left(n - i, w);
			vf e;

			if (!left)
				break;
			e = vf_sel(vm_first(left), vf_loadn(x + i + w * RLX_VL, left) - m.v[w],
				   vf_zero());
			s0.v[w] += e;
			q0.v[w] = vf_fma(e, e, q0.v[w]);
		}
	sum[0] += (double)vw_hsum(vw_add(s0, s1));
	sum[1] += (double)vw_hsum(vw_add(q0, q1));
}

static inline float moments_sum(const float *x, size_t n)
{
	vw s0 = vw_set1(0), s1 = s0;
	size_t i = 0;

	for (; i + 2 * RLX_WL <= n; i += 2 * RLX_WL) {
		s0 = vw_add(s0, vw_loadu(x + i));
		s1 = vw_add(s1, vw_loadu(x + i + RLX_WL));
	}
	for (; i < n; i += RLX_WL)
		s0 = vw_add(s0, vw_loadn(x + i, n - i));
	return vw_hsum(vw_add(s0, s1));
}

/* The mean of x^2. */
static inline float mean_square(const float *x, size_t n)
{
	double sum[2] = { 0, 0 };
	size_t i;

	for (i = 0; i < n; i += MOMENTS_BLOCK)
		moments_block(x + i, 0, n - i < MOMENTS_BLOCK ? n - i : MOMENTS_BLOCK, sum);
	return (float)(sum[1] / (double)n);
}

/*
 * The mean, and the mean of (x - mean)^2. What the first sum rounded away is found by the
 * second pass, which sums what is left: of equal values the mean is that value then, and
 * not some ulps off, which 1 / sqrt(eps) would multiply. Nor may what a float cannot hold of
 * it be lost, where elements differ by little more than that: @rest is to be subtracted too.
 */
static inline void moments(const float *x, size_t n, float *mean, float *rest, float *var)
{
	double s = 0, sum[2] = { 0, 0 }, left;
	float m;
	size_t i;

	for (i = 0; i < n; i += MOMENTS_BLOCK)
		s += (double)moments_sum(x + i, n - i < MOMENTS_BLOCK ? n - i : MOMENTS_BLOCK);
	m = (float)(s / (double)n);
	for (i = 0; i < n; i += MOMENTS_BLOCK)
		moments_block(x + i, m, n - i < MOMENTS_BLOCK ? n - i : MOMENTS_BLOCK, sum);
	left = sum[0] / (double)n;
	*mean = (float)((double)m + left);
	*rest = (float)((double)m + left - (double)*mean);
	left = sum[1] / (double)n - left * left;
	*var = left < 0 ? 0 : (float)left;
}

#endif
