// SPDX-License-Identifier: MIT
/*
 * Norms of f32 in the CPU's order (kernels/cpu/norm.c, norm_nchw.c), for strict bits: layer and RMS
 * norm of rows, with the residual addition in front of them, group norm, local response norm.
 *
 * Algorithm: a warp sums 1,024 elements in two times sixteen lanes; such sums of a row meet in a
 * double. A warp has a row of up to 1,024, else a block of eight warps has, which take turns.
 * Mean, then distances from it and their squares, as the CPU does it. lrn: a thread an element.
 * Traffic: x three times (rms: twice), y once; from caches where these hold the row.
 * Limits: f32.
 */
#include "kernels/gpu/lanes.h"
#include "kernels/norm.h"

#ifdef RLX_KERNEL_lrn_ordered
RLX_G_KERNEL(lrn_ordered, struct rlx_k_lrn, 256)
{
	const float *x = RLX_G_PTR(const float, a.x);
	float *y = RLX_G_PTR(float, a.y);
	const int64_t n = a.batch * a.channels * a.inner, step = (int64_t)gridDim.x * 256;

	for (int64_t e = (int64_t)blockIdx.x * 256 + threadIdx.x; e < n; e += step) {
		const int64_t c = e / a.inner % a.channels;
		int64_t low = c - (a.size - 1) / 2, high = c + a.size / 2;
		float s = 0, p;

		low = low < 0 ? 0 : low;
		high = high < a.channels ? high : a.channels - 1;
		for (int64_t k = low; k <= high; k++) {
			const float v = x[e + (k - c) * a.inner];

			s = v * v + s;
		}
		p = fmaf(s, a.alpha / (float)a.size, a.bias);
		p = a.beta == 0 ? 1.0f : vf_exp(vf_log(p) * (-0.5f * a.beta));
		y[e] = x[e] * p * p;
	}
}
#else
enum { BLOCK = 1024, WARPS = NORM_WARPS };

struct statistics {
	float	mean, rest, var;
};

/* Of @n values that f gives: sums of block @b. */
template <class F> struct plain_block {
	F	f;
	int64_t	n;
	DEV inline float operator()(int64_t b) const
	{
		const int l = lane_id(), lane = lane16();
		const int64_t end = (b + 1) * BLOCK < n ? (b + 1) * BLOCK : n;
		int64_t i = b * BLOCK;
		float s = 0;

		for (; i + 32 <= end; i += 32)
			s += f(i + l);
		for (; i < end; i += 16)
			s += l < 16 && i + lane < end ? f(i + lane) : 0.0f;
		return fold16<ordered_sum>(s + warp_xor(s, 16));
	}
};

/* The same of their distances from @mean, or of these squared. */
template <class F, bool SQUARES> struct distance_block {
	F	f;
	int64_t	n;
	float	mean;
	static DEV inline float add(float s, float d) { return SQUARES ? fmaf(d, d, s) : s + d; }
	DEV inline float operator()(int64_t b) const
	{
		const int l = lane_id(), lane = lane16();
		const int64_t end = (b + 1) * BLOCK < n ? (b + 1) * BLOCK : n;
		int64_t i = b * BLOCK;
		float s = 0;

		for (; i + 32 <= end; i += 32)
			s = add(s, f(i + l) - mean);
		for (; i < end; i += 16)
			s = add(s, l < 16 && i + lane < end ? f(i + lane) - mean : 0.0f);
		return fold16<ordered_sum>(s + warp_xor(s, 16));
	}
};

template <class F> static DEV inline double mean_square(F f, int64_t n, float *smem)
{
	const int64_t blocks = (n + BLOCK - 1) / BLOCK;

	return sum_of_blocks<WARPS>(blocks, smem, distance_block<F, true>{ f, n, 0 }) / (double)n;
}

template <class F> static DEV inline struct statistics moments(F f, int64_t n, float *smem)
{
	const int64_t blocks = (n + BLOCK - 1) / BLOCK;
	const float m = (float)(sum_of_blocks<WARPS>(blocks, smem, plain_block<F>{ f, n }) /
				(double)n);
	const double d = sum_of_blocks<WARPS>(blocks, smem, distance_block<F, false>{ f, n, m });
	const double q = sum_of_blocks<WARPS>(blocks, smem, distance_block<F, true>{ f, n, m });
	double left = d / (double)n;
	struct statistics r;

	r.mean = (float)((double)m + left);
	r.rest = (float)((double)m + left - (double)r.mean);
	left = q / (double)n - left * left;
	r.var = left < 0 ? 0 : (float)left;
	return r;
}

#ifdef RLX_KERNEL_norm_ordered
struct row_of {
	const float	*x, *residual, *bias;
	DEV inline float operator()(int64_t i) const
	{
		float v = x[i];

		if (NORM_RESIDUAL)
			v = v + residual[i];
		return NORM_BIAS ? v + bias[i] : v;
	}
};

RLX_G_KERNEL(norm_ordered, struct rlx_k_norm, 256)
{
	SHARED(float, smem, [MAX_WARPS]);
	const float *gamma = RLX_G_PTR(const float, a.gamma);
	const float *beta = RLX_G_PTR(const float, a.beta);
	const int teams = 256 / WARP / WARPS, t = (int)threadIdx.x % (WARPS * WARP);
	float *mean = RLX_G_PTR(float, a.mean), *inverse = RLX_G_PTR(float, a.inv);
	const int64_t rows = live_rows(env, a.rows);

	for (int64_t u = (int64_t)blockIdx.x * teams + (int)threadIdx.x / (WARPS * WARP);
	     u < rows; u += (int64_t)gridDim.x * teams) {
		const struct row_of f = { RLX_G_PTR(const float, a.x) + u * a.n,
			RLX_G_PTR(const float, a.residual) + u * a.residual_stride,
			RLX_G_PTR(const float, a.bias) };
		float *y = RLX_G_PTR(float, a.y) + u * a.n, *sum = RLX_G_PTR(float, a.sum);
		struct statistics s = { 0, 0, 0 };
		float inv, shift;

		if (a.rms)
			s.var = (float)mean_square(f, a.n, smem);
		else
			s = moments(f, a.n, smem);
		inv = 1 / sqrtf(s.var + a.eps);
		shift = -s.rest * inv;
		if (!t && a.mean)
			mean[u] = s.mean;
		if (!t && a.inv)
			inverse[u] = inv;
		for (int64_t i = t; i < a.n; i += WARPS * WARP) {
			const float x = f(i);
			float v = fmaf(x - s.mean, inv, shift);

			if (NORM_GAMMA && NORM_BETA)
				v = fmaf(v, gamma[i], beta[i]);
			else if (NORM_GAMMA)
				v = v * gamma[i];
			else if (NORM_BETA)
				v = v + beta[i];
			if (a.sum)
				sum[u * a.n + i] = x;
			y[i] = v;
		}
	}
}
#else
struct group_of {
	const float	*x;
	DEV inline float operator()(int64_t i) const { return x[i]; }
};

RLX_G_KERNEL(group_norm_ordered, struct rlx_k_group_norm, 256)
{
	SHARED(float, smem, [MAX_WARPS]);
	const float *gamma = RLX_G_PTR(const float, a.gamma);
	const float *beta = RLX_G_PTR(const float, a.beta);
	const int teams = 256 / WARP / WARPS, t = (int)threadIdx.x % (WARPS * WARP);
	const int64_t per = a.channels / a.groups, n = per * a.inner;
	const int64_t groups = live_rows(env, a.batch) * a.groups;

	for (int64_t u = (int64_t)blockIdx.x * teams + (int)threadIdx.x / (WARPS * WARP);
	     u < groups; u += (int64_t)gridDim.x * teams) {
		const struct group_of f = { RLX_G_PTR(const float, a.x) + u * n };
		float *y = RLX_G_PTR(float, a.y) + u * n;
		const struct statistics s = moments(f, n, smem);
		const float inv = 1 / sqrtf(s.var + a.eps);

		for (int64_t i = t; i < n; i += WARPS * WARP) {
			const int64_t c = u % a.groups * per + i / a.inner;
			const float by = gamma ? gamma[c] * inv : inv;
			const float shift = (beta ? beta[c] : 0.0f) - s.rest * by;

			y[i] = fmaf(f(i) - s.mean, by, shift);
		}
	}
}
#endif
#endif
