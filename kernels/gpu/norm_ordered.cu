// SPDX-License-Identifier: MIT
/*
 * Norms of f32 in the CPU's order (kernels/cpu/norm.c, norm_nchw.c), for strict bits: layer and RMS
 * norm of rows, with the residual addition in front of them, group norm, local response norm.
 *
 * Algorithm: a warp sums 1,024 elements in two times sixteen lanes; such sums of a row meet in a
 * double. A warp has a row of up to 1,024, else a block of eight warps has, which take turns; of
 * few rows all warps of the grid take their parts, in a launch for each sum and one for the result.
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
enum { BLOCK = 1024, WARPS = NORM_WARPS };	/* of a row; 0: they have parts of rows */

struct statistics {
	float	mean, rest, var;
};

/* Elements of row @u that a thread has: from @from on, by @step. */
struct span {
	int64_t	u, from, to;
	int	step;
};

/* Sums of block @b of @n values that f gives: of distances from @mean, or of their squares. */
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

/* Of a first mean, and of the sums of distances from it and of their squares. */
static DEV inline struct statistics statistics_of(float m, double d, double q, int64_t n)
{
	double left = d / (double)n;
	struct statistics r;

	r.mean = (float)((double)m + left);
	r.rest = (float)((double)m + left - (double)r.mean);
	left = q / (double)n - left * left;
	r.var = left < 0 ? 0 : (float)left;
	return r;
}

#if !NORM_WARPS
/* The sums of a row's blocks, which stand in @part, and @total behind each other three kinds. */
static DEV inline double sum_of_parts(const float *part, int64_t n)
{
	double sum = 0;

	for (int64_t k = 0; k < (n + BLOCK - 1) / BLOCK; k++)
		sum += (double)part[k];
	return sum;
}

static DEV inline float mean_of_parts(const float *part, int64_t n)
{
	return (float)(sum_of_parts(part, n) / (double)n);
}

enum { PLAIN, SQUARES, DISTANCES };	/* what a launch adds up; the latter: and their squares */

/* What the blocks of one row left: each kind behind @total of the one before it. */
struct parts {
	float	*at;
	int64_t	total, n;
};

/* Of block @b. @m: the row's mean, of which distances are */
template <class F> static DEV inline void leave_parts(F f, struct parts p, int64_t b, int what,
						      float m)
{
	const float v = what == SQUARES ? distance_block<F, true>{ f, p.n, 0 }(b) :
					  distance_block<F, false>{ f, p.n, m }(b);
	const float w = what == DISTANCES ? distance_block<F, true>{ f, p.n, m }(b) : 0;

	if (lane_id())
		return;
	p.at[b + (what == DISTANCES ? p.total : 0)] = v;
	if (what == DISTANCES)
		p.at[b + 2 * p.total] = w;
}

static DEV inline struct statistics statistics_of_parts(struct parts p, bool rms)
{
	if (rms)
		return { 0, 0, (float)(sum_of_parts(p.at, p.n) / (double)p.n) };
	return statistics_of(mean_of_parts(p.at, p.n), sum_of_parts(p.at + p.total, p.n),
			     sum_of_parts(p.at + 2 * p.total, p.n), p.n);
}

/* A launch's rows, of @n numbers each. @all: rows that the scratch is for */
struct long_rows {
	int64_t	rows, all, n;
	bool	rms;
};

/*
 * A launch of those that blocks of few long rows go through: sums, distances (not for rms) and
 * results. A warp has neighbouring blocks, and adds up what a row's blocks left once for each row.
 */
template <class ROW, class RESULT>
static DEV inline void by_parts(const struct rlx_g_env &env, struct long_rows l, ROW row,
				RESULT result)
{
	const int64_t blocks = (l.n + BLOCK - 1) / BLOCK;
	const int last = l.rms ? 1 : 2, pass = (int)env.pass;
	const int what = pass ? DISTANCES : l.rms ? SQUARES : PLAIN;
	const struct part_range r = part_range_of(l.rows * blocks, 256 / WARP, warp_id());
	struct statistics s = { 0, 0, 0 };
	int64_t at = -1;

	for (int64_t w = r.from; w < r.to; w++) {
		const int64_t u = w / blocks, b = w % blocks;
		const struct parts p = { (float *)env.scratch + u * blocks, l.all * blocks, l.n };

		if (u != at && pass == last)
			s = statistics_of_parts(p, l.rms);
		else if (u != at && pass)
			s.mean = mean_of_parts(p.at, l.n);
		at = u;
		if (pass < last)
			leave_parts(row(u), p, b, what, s.mean);
		else
			result(row(u), s, { u, b * BLOCK + lane_id(),
					    (b + 1) * BLOCK < l.n ? (b + 1) * BLOCK : l.n, WARP });
	}
}
#else
template <class F> static DEV inline double mean_square(F f, int64_t n, float *smem)
{
	const int64_t blocks = (n + BLOCK - 1) / BLOCK;

	return sum_of_blocks<WARPS>(blocks, smem, distance_block<F, true>{ f, n, 0 }) / (double)n;
}

template <class F> static DEV inline struct statistics moments(F f, int64_t n, float *smem)
{
	const int64_t blocks = (n + BLOCK - 1) / BLOCK;
	const distance_block<F, false> plain = { f, n, 0 };
	const float m = (float)(sum_of_blocks<WARPS>(blocks, smem, plain) / (double)n);
	const double d = sum_of_blocks<WARPS>(blocks, smem, distance_block<F, false>{ f, n, m });
	const double q = sum_of_blocks<WARPS>(blocks, smem, distance_block<F, true>{ f, n, m });

	return statistics_of(m, d, q, n);
}
#endif

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

static DEV inline void norm_result(const struct rlx_k_norm &a, const struct rlx_g_env &env,
				   struct row_of f, struct statistics s, struct span w)
{
	const float *gamma = RLX_G_PTR(const float, a.gamma);
	const float *beta = RLX_G_PTR(const float, a.beta);
	float *y = RLX_G_PTR(float, a.y) + w.u * a.n, *sum = RLX_G_PTR(float, a.sum);
	const float inv = 1 / sqrtf(s.var + a.eps), shift = -s.rest * inv;

	if (!w.from && a.mean)
		RLX_G_PTR(float, a.mean)[w.u] = s.mean;
	if (!w.from && a.inv)
		RLX_G_PTR(float, a.inv)[w.u] = inv;
	for (int64_t i = w.from; i < w.to; i += w.step) {
		const float x = f(i);
		float v = fmaf(x - s.mean, inv, shift);

		if (NORM_GAMMA && NORM_BETA)
			v = fmaf(v, gamma[i], beta[i]);
		else if (NORM_GAMMA)
			v = v * gamma[i];
		else if (NORM_BETA)
			v = v + beta[i];
		if (a.sum)
			sum[w.u * a.n + i] = x;
		y[i] = v;
	}
}

static DEV inline struct row_of norm_row(const struct rlx_k_norm &a, const struct rlx_g_env &env,
					 int64_t u)
{
	return { RLX_G_PTR(const float, a.x) + u * a.n,
		 RLX_G_PTR(const float, a.residual) + u * a.residual_stride,
		 RLX_G_PTR(const float, a.bias) };
}

RLX_G_KERNEL(norm_ordered, struct rlx_k_norm, 256)
{
	const int64_t rows = live_rows(env, a.rows);
#if NORM_WARPS
	SHARED(float, smem, [MAX_WARPS]);
	const int teams = 256 / WARP / WARPS, t = (int)threadIdx.x % (WARPS * WARP);

	for (int64_t u = (int64_t)blockIdx.x * teams + (int)threadIdx.x / (WARPS * WARP);
	     u < rows; u += (int64_t)gridDim.x * teams) {
		const struct row_of f = norm_row(a, env, u);
		struct statistics s = { 0, 0, 0 };

		if (a.rms)
			s.var = (float)mean_square(f, a.n, smem);
		else
			s = moments(f, a.n, smem);
		norm_result(a, env, f, s, { u, t, a.n, WARPS * WARP });
	}
#else
	by_parts(env, { rows, a.rows, a.n, (bool)a.rms },
		 [&](int64_t u) { return norm_row(a, env, u); },
		 [&](struct row_of f, struct statistics s, struct span w) {
			 norm_result(a, env, f, s, w);
		 });
#endif
}
#else
struct group_of {
	const float	*x;
	DEV inline float operator()(int64_t i) const { return x[i]; }
};

static DEV inline void group_result(const struct rlx_k_group_norm &a, const struct rlx_g_env &env,
				    struct group_of f, struct statistics s, struct span w)
{
	const float *gamma = RLX_G_PTR(const float, a.gamma);
	const float *beta = RLX_G_PTR(const float, a.beta);
	const int64_t per = a.channels / a.groups;
	const float inv = 1 / sqrtf(s.var + a.eps);
	float *y = RLX_G_PTR(float, a.y) + w.u * per * a.inner;

	for (int64_t i = w.from; i < w.to; i += w.step) {
		const int64_t c = w.u % a.groups * per + i / a.inner;
		const float by = gamma ? gamma[c] * inv : inv;
		const float shift = (beta ? beta[c] : 0.0f) - s.rest * by;

		y[i] = fmaf(f(i) - s.mean, by, shift);
	}
}

RLX_G_KERNEL(group_norm_ordered, struct rlx_k_group_norm, 256)
{
	const int64_t n = a.channels / a.groups * a.inner;
	const int64_t groups = live_rows(env, a.batch) * a.groups;
	const float *x = RLX_G_PTR(const float, a.x);
#if NORM_WARPS
	SHARED(float, smem, [MAX_WARPS]);
	const int teams = 256 / WARP / WARPS, t = (int)threadIdx.x % (WARPS * WARP);

	for (int64_t u = (int64_t)blockIdx.x * teams + (int)threadIdx.x / (WARPS * WARP);
	     u < groups; u += (int64_t)gridDim.x * teams) {
		const struct group_of f = { x + u * n };

		group_result(a, env, f, moments(f, n, smem), { u, t, n, WARPS * WARP });
	}
#else
	by_parts(env, { groups, a.batch * a.groups, n, false },
		 [&](int64_t u) { return group_of{ x + u * n }; },
		 [&](struct group_of f, struct statistics s, struct span w) {
			 group_result(a, env, f, s, w);
		 });
#endif
}
#endif
#endif
