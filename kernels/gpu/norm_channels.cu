// SPDX-License-Identifier: MIT
/*
 * Norms of [batch, channels, inner]: batch norm with given statistics (channel_norm), group norm
 * (with one channel a group instance norm), local response norm (lrn).
 *
 * Algorithm: channel_norm: a thread an element, (x - mean) scale / sqrt(var + eps) + shift. Group
 * norm: a block of 256 threads a group, mean and then squared distances from it, in f32 64 at a
 * time and then in f64, as a group may hold a million. lrn: a thread an element sums the squares
 * of its channel's neighbours.
 * Traffic: channel_norm x and y once, 8 bytes an element. Group norm y once, x three times, from
 * caches where they hold the group; groups fewer than multiprocessors leave some of those idle.
 * lrn: y once, x `size` times, mostly from caches.
 * Source: Ioffe and Szegedy (2015), Wu and He (2018), Krizhevsky et al. (2012).
 * Limits: f32 alone.
 */
#include "kernels/gpu/dialect.h"
#include "kernels/norm.h"

RLX_G_KERNEL(channel_norm, struct rlx_k_channel_norm, 256)
{
	const float *x = RLX_G_PTR(const float, a.x);
	const float *scale = RLX_G_PTR(const float, a.scale);
	const float *shift = RLX_G_PTR(const float, a.shift);
	const float *mean = RLX_G_PTR(const float, a.mean);
	const float *var = RLX_G_PTR(const float, a.var);
	float *y = RLX_G_PTR(float, a.y);
	int64_t n = a.outer * a.channels * a.inner, step = (int64_t)gridDim.x * 256;

	for (int64_t e = (int64_t)blockIdx.x * 256 + threadIdx.x; e < n; e += step) {
		int64_t c = e / a.inner % a.channels;
		float s = scale ? scale[c] : 1.0f;

		if (var)
			s /= sqrtf(var[c] + a.eps);
		y[e] = fmaf(x[e] - (mean ? mean[c] : 0.0f), s, shift ? shift[c] : 0.0f);
	}
}

/*
 * Sum over the block of what @of gives for each element: in floats 64 at a time, then
 * in doubles, as a group may hold a million.
 */
template <class F> static DEV inline double sum_of(int64_t n, double *smem, F of)
{
	double whole = 0;
	float piece = 0;
	int k = 0;

	for (int64_t i = threadIdx.x; i < n; i += 256) {
		piece += of(i);
		if (++k == 64) {
			whole += (double)piece;
			piece = 0;
			k = 0;
		}
	}
	return block_reduce<op_sum>(whole + (double)piece, smem);
}

struct plain {
	const float *x;
	DEV inline float operator()(int64_t i) const { return x[i]; }
};

struct square_from {
	const float *x;
	float mean;
	DEV inline float operator()(int64_t i) const
	{
		return (x[i] - mean) * (x[i] - mean);
	}
};

RLX_G_KERNEL(group_norm, struct rlx_k_group_norm, 256)
{
	SHARED(double, smem, [MAX_WARPS]);
	const float *gamma = RLX_G_PTR(const float, a.gamma);
	const float *beta = RLX_G_PTR(const float, a.beta);
	int64_t per = a.channels / a.groups, n = per * a.inner;

	for (int64_t u = blockIdx.x; u < a.batch * a.groups; u += gridDim.x) {
		const float *x = RLX_G_PTR(const float, a.x) + u * n;
		float *y = RLX_G_PTR(float, a.y) + u * n, mean, inv;

		mean = (float)(sum_of(n, smem, plain{ x }) / (double)n);
		inv = (float)(sum_of(n, smem, square_from{ x, mean }) / (double)n);
		inv = 1.0f / sqrtf(inv + a.eps);
		for (int64_t i = threadIdx.x; i < n; i += 256) {
			int64_t c = u % a.groups * per + i / a.inner;
			float g = gamma ? gamma[c] * inv : inv;

			y[i] = fmaf(x[i] - mean, g, beta ? beta[c] : 0.0f);
		}
	}
}

RLX_G_KERNEL(lrn, struct rlx_k_lrn, 256)
{
	const float *x = RLX_G_PTR(const float, a.x);
	float *y = RLX_G_PTR(float, a.y);
	int64_t n = a.batch * a.channels * a.inner, step = (int64_t)gridDim.x * 256;

	for (int64_t e = (int64_t)blockIdx.x * 256 + threadIdx.x; e < n; e += step) {
		int64_t c = e / a.inner % a.channels;
		int64_t low = c - (a.size - 1) / 2, high = c + a.size / 2;
		float s = 0, p;

		low = low < 0 ? 0 : low;
		high = high < a.channels ? high : a.channels - 1;
		for (int64_t k = low; k <= high; k++) {
			float v = x[e + (k - c) * a.inner];

			s += v * v;
		}
		/* half of the power, twice: the whole may be beyond f32 */
		p = powf(a.bias + a.alpha / (float)a.size * s, -0.5f * a.beta);
		y[e] = x[e] * p * p;
	}
}
