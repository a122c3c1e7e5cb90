// SPDX-License-Identifier: MIT
/*
 * Layer norm and RMS norm of rows of x + residual + bias.
 *
 * Algorithm: mean, then variance as the mean of squared distances from it (two passes, so nothing
 * cancels); RMS: the mean of squares. RLX_K0 1, 2: the row stays in registers between passes, 8
 * elements a load, and gamma and beta from one row to the next. RLX_K0 0: rows that are too long
 * for that are read three times, mostly from caches.
 * Tiles: rows of up to 512 elements a warp each, up to 8,192 a block of 256 threads, longer ones
 * a block too; of short rows 528 blocks at most, which go over all of them.
 * Traffic: x, the residual and y once (and x + residual + bias if asked for, written), which is
 * the bound. Mean and 1 / deviation of a row are written for gradients if asked for.
 * Source: Ba et al., "Layer Normalization" (2016); Zhang and Sennrich, "Root Mean Square Layer
 * Normalization" (2019). Limits: f32, f16, bf16, computed in f32; 16-byte accesses where all
 * addresses allow and rows are multiples of 8 elements, else by elements. y may be x.
 */
#include "kernels/gpu/dialect.h"
#include "kernels/norm.h"

#if RLX_K0 == 0
/* x + residual + bias at @i of the row */
static DEV inline float sum_at(const struct rlx_k_norm &a, const struct rlx_g_env &env,
			       int64_t row, int64_t i)
{
	float v = load_float(RLX_G_PTR(const void, a.x), row * a.n + i, a.x_type);

	if (a.residual)
		v += load_float(RLX_G_PTR(const void, a.residual),
				row * a.residual_stride + i, a.residual_type);
	if (a.bias)
		v += load_float(RLX_G_PTR(const void, a.bias), i, a.param_type);
	return v;
}

/* Rows of any length, a block each; they are read twice more. */
RLX_G_KERNEL(norm, struct rlx_k_norm, 256)
{
	SHARED(float, smem, [MAX_WARPS]);
	void *y = RLX_G_PTR(void, a.y), *out = RLX_G_PTR(void, a.sum);
	const void *gamma = RLX_G_PTR(const void, a.gamma);
	const void *beta = RLX_G_PTR(const void, a.beta);
	float *means = RLX_G_PTR(float, a.mean), *invs = RLX_G_PTR(float, a.inv);

	for (int64_t row = blockIdx.x, n = live_rows(env, a.rows); row < n; row += gridDim.x) {
		float mean = 0, var = 0, inv;

		for (int64_t i = threadIdx.x; i < a.n; i += 256)
			mean += sum_at(a, env, row, i);
		mean = a.rms ? 0 : block_reduce<op_sum>(mean, smem) / (float)a.n;
		for (int64_t i = threadIdx.x; i < a.n; i += 256) {
			float v = sum_at(a, env, row, i) - mean;

			var += v * v;
		}
		var = block_reduce<op_sum>(var, smem) / (float)a.n;
		inv = rsqrt_f32(var + a.eps);
		if (threadIdx.x == 0 && means)
			means[row] = mean;
		if (threadIdx.x == 0 && invs)
			invs[row] = inv;
		for (int64_t i = threadIdx.x; i < a.n; i += 256) {
			float v = sum_at(a, env, row, i), t;

			t = (v - mean) * inv;
			if (gamma)
				t *= load_float(gamma, i, a.param_type);
			if (beta)
				t += load_float(beta, i, a.param_type);
			/* out and y may be x itself: the row was read by this thread */
			if (out)
				store_float(out, row * a.n + i, a.x_type, v);
			store_float(y, row * a.n + i, a.y_type, t);
		}
	}
}
#else

/*
 * Rows of up to MOST eights for each of LANES threads, which keep them: a warp a row
 * (RLX_K0 1) or a block (2). RLX_K1, RLX_K2, RLX_K3: types of x and y (times 16), of
 * the residual, of gamma, beta and bias.
 */
enum { LANES = RLX_K0 == 1 ? RLX_WARP : 256, AT_ONCE = 256 / LANES,
       MOST = RLX_K0 == 1 ? 2 : 4 };

template <class M> struct alignas(16) eight {
	M	v[8];
};

/* What a lane has of a row: eights c * LANES + lane; @n of the row, @wide by words. */
struct eights {
	int64_t	n;
	int	lane;
	bool	wide;

	DEV int64_t at(int c) const { return ((int64_t)c * LANES + lane) * 8; }

	/* v += the row at @p, by @T's conversion */
	template <class T> DEV void add(const typename T::mem *p, float (*v)[8]) const
	{
#pragma unroll
		for (int c = 0; c < MOST; c++) {
			eight<typename T::mem> x = {};

			if (wide && at(c) < n)
				x = *(const eight<typename T::mem> *)(p + at(c));
			else
				for (int i = 0; i < 8; i++)
					if (at(c) + i < n)
						x.v[i] = p[at(c) + i];
#pragma unroll
			for (int i = 0; i < 8; i++)
				v[c][i] += (float)T::get(x.v[i]);
		}
	}

	template <class T> DEV void store(typename T::mem *p, const float (*v)[8]) const
	{
#pragma unroll
		for (int c = 0; c < MOST; c++) {
			eight<typename T::mem> x;

#pragma unroll
			for (int i = 0; i < 8; i++)
				x.v[i] = T::put(v[c][i]);
			if (wide && at(c) < n)
				*(eight<typename T::mem> *)(p + at(c)) = x;
			else
				for (int i = 0; i < 8; i++)
					if (at(c) + i < n)
						p[at(c) + i] = x.v[i];
		}
	}
};

typedef rlx_t<(RLX_K1 & 15)> type_x;
typedef rlx_t<(RLX_K1 >> 4)> type_y;
typedef rlx_t<RLX_K2> type_r;
typedef rlx_t<RLX_K3> type_p;

static DEV inline float row_sum(float v, float *smem)
{
	return RLX_K0 == 1 ? warp_reduce<op_sum>(v) : block_reduce<op_sum>(v, smem);
}

/* Sum of v, or of (v - mean)^2, by whichever @squares says. */
static DEV inline float total(const struct eights &e, const float (*v)[8], float mean,
			      bool squares, float *smem)
{
	float s = 0;

#pragma unroll
	for (int c = 0; c < MOST; c++)
#pragma unroll
		for (int i = 0; i < 8; i++) {
			float d = e.at(c) + i < e.n ? v[c][i] - mean : 0;

			s += squares ? d * d : d;
		}
	return row_sum(s, smem) / (float)e.n;
}

/* What a normalised row is multiplied by, and what is added; the same for all rows. */
struct shape {
	float	gamma[MOST][8], beta[MOST][8];
};

static DEV inline void norm_row(const struct rlx_k_norm &a, const struct rlx_g_env &env,
				const struct eights &e, const struct shape &p, int64_t row,
				float *smem)
{
	type_x::mem *out = RLX_G_PTR(type_x::mem, a.sum);
	float *means = RLX_G_PTR(float, a.mean), *invs = RLX_G_PTR(float, a.inv);
	float v[MOST][8] = {}, mean, inv;

	e.add<type_x>(RLX_G_PTR(const type_x::mem, a.x) + row * a.n, v);
	if (a.residual)
		e.add<type_r>(RLX_G_PTR(const type_r::mem, a.residual) +
			      row * a.residual_stride, v);
	if (a.bias)
		e.add<type_p>(RLX_G_PTR(const type_p::mem, a.bias), v);
	mean = a.rms ? 0 : total(e, v, 0, false, smem);
	inv = rsqrt_f32(total(e, v, mean, true, smem) + a.eps);
	if (e.lane == 0 && means)
		means[row] = mean;
	if (e.lane == 0 && invs)
		invs[row] = inv;
	/* out and y may be x itself: all of the row was read */
	if (out)
		e.store<type_x>(out + row * a.n, v);
#pragma unroll
	for (int c = 0; c < MOST; c++)
#pragma unroll
		for (int i = 0; i < 8; i++)
			v[c][i] = (v[c][i] - mean) * inv * (a.gamma ? p.gamma[c][i] : 1) +
				  p.beta[c][i];
	e.store<type_y>(RLX_G_PTR(type_y::mem, a.y) + row * a.n, v);
}

RLX_G_KERNEL(norm, struct rlx_k_norm, 256)
{
	SHARED(float, smem, [MAX_WARPS]);
	uint64_t all = (uint64_t)RLX_G_PTR(const void, a.x) | (uint64_t)RLX_G_PTR(void, a.y) |
		(uint64_t)RLX_G_PTR(const void, a.residual) |
		(uint64_t)RLX_G_PTR(const void, a.bias) |
		(uint64_t)RLX_G_PTR(const void, a.gamma) |
		(uint64_t)RLX_G_PTR(const void, a.beta) | (uint64_t)RLX_G_PTR(void, a.sum);
	struct eights e = { a.n, (int)threadIdx.x % LANES,
			    (all & 15) == 0 && (a.n | a.residual_stride) % 8 == 0 };
	struct shape p = {};

	const int64_t rows = live_rows(env, a.rows);

	if (a.gamma)
		e.add<type_p>(RLX_G_PTR(const type_p::mem, a.gamma), p.gamma);
	if (a.beta)
		e.add<type_p>(RLX_G_PTR(const type_p::mem, a.beta), p.beta);
	for (int64_t row = (int64_t)blockIdx.x * AT_ONCE + (int)threadIdx.x / LANES;
	     row < rows; row += (int64_t)gridDim.x * AT_ONCE)
		norm_row(a, env, e, p, row, smem);
}
#endif
