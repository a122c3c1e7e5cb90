/* SPDX-License-Identifier: MIT */
/*
 * What all GEMM kernels share: C = act(alpha A B + bias + row bias + beta R) of a batch index.
 *
 * The epilogue is applied while a sum is in a register, so that C is written once and never read;
 * R, if there is one, is read once. The biases and R may be NULL. GEMM_SCALED adds scales, one or
 * one a column (quantized weights), which multiply the sum before alpha.
 *
 * gemm_tile() orders tiles in bands of eight rows of tiles, column after column within a band:
 * blocks that run together share panels of A and B in the L2.
 * Source: "grouped ordering" of Triton's matrix multiplication tutorial.
 * Limits: two batch dimensions; a step of 0 lets all of a batch read one matrix.
 */
#ifndef RLX_G_GEMM_H
#define RLX_G_GEMM_H

#include "kernels/gpu/act.h"
#include "kernels/gpu/move.h"
#include "kernels/gemm.h"

/* Who includes this may have said so: sums are multiplied by scales, if there are any. */
#ifndef GEMM_SCALED
#define GEMM_SCALED	0
#endif

/* Or this: with strict bits the epilogue is the CPU's (kernels/cpu/gemm_epi.c). */
#ifndef GEMM_ORDERED
#define GEMM_ORDERED	0
#endif
#if GEMM_ORDERED
#include "kernels/simd/act.h"
#endif

/* What comes last, of f32 or f64. */
template <class T>
static DEV inline T gemm_act(int act, const struct rlx_k_gemm &a, T x)
{
#if GEMM_ORDERED
	return vf_act(x, act, (T)a.lo, (T)a.hi);
#else
	return act_of(act, (T)a.lo, (T)a.hi, x);
#endif
}

/* The operands of one batch index. T: of sums and biases; TA .. TC: of elements. */
template <class T, class TA, class TB, class TC> struct gemm_operands {
	const TA	*a;
	const TB	*b;
	TC		*c;
	const TC	*r;
	const T		*bias, *row_bias;
#if GEMM_SCALED
	const void	*scales;
#endif

	DEV gemm_operands(const struct rlx_k_gemm &g, const struct rlx_g_env &env,
			  int64_t batch)
	{
		int64_t rest, inner = g.batch[1] ? (int64_t)g.batch[1] : 1;
		size_t i = (size_t)divide(batch, inner, &rest), j = (size_t)rest;

		a = RLX_G_PTR(const TA, g.a) + i * g.a_step[0] + j * g.a_step[1];
		b = RLX_G_PTR(const TB, g.b) + i * g.b_step[0] + j * g.b_step[1];
		c = RLX_G_PTR(TC, g.c) + i * g.c_step[0] + j * g.c_step[1];
		r = g.residual ? RLX_G_PTR(const TC, g.residual) + i * g.r_step[0] +
					 j * g.r_step[1] : (const TC *)0;
		bias = RLX_G_PTR(const T, g.bias);
		row_bias = RLX_G_PTR(const T, g.row_bias);
#if GEMM_SCALED
		scales = RLX_G_PTR(const void, g.scales);
#endif
	}

	/* What is added to the product at (row, col); the bias as it lies in memory. */
	struct added {
		T	bias, row_bias, r;
	};

	/* The bias of column @col: to convert it is to wait for it. */
	DEV T bias_bits(const struct rlx_k_gemm &g, size_t col) const
	{
		if constexpr (sizeof(TC) == 2)
			if (g.bias_as_c)
				return bits_f32(((const uint16_t *)bias)[col]);
		return bias[col];
	}

	DEV T bias_value(const struct rlx_k_gemm &g, T bits) const
	{
		if constexpr (sizeof(TC) == 2)
			if (g.bias_as_c) {
				uint16_t u = (uint16_t)f32_bits(bits);
				TC v;

				memcpy(&v, &u, sizeof(v));
				return to_f32(v);
			}
		return bits;
	}

	template <class GET>
	DEV struct added adds(const struct rlx_k_gemm &g, size_t row, size_t col, GET get) const
	{
		struct added x = { GEMM_ORDERED ? -0.0f : 0, 0, 0 };

		if (bias)
			x.bias = bias_bits(g, col);
		if (row_bias)
			x.row_bias = row_bias[row];
		if (r)
			x.r = GEMM_ORDERED ? get(r[row * g.ldr + col]) :
					    (T)g.beta * get(r[row * g.ldr + col]);
		return x;
	}

	/* A sum of column @col, with all that is added to it. */
	DEV T added_up(const struct rlx_k_gemm &g, size_t col, T sum, const struct added &x) const
	{
#if GEMM_SCALED
		sum *= load_float(scales, g.one_scale ? 0 : (int64_t)col, g.scale_type);
#endif
#if GEMM_ORDERED
		sum = fmaf(sum, (T)g.alpha, row_bias ? x.bias + x.row_bias : x.bias);
		return r ? fmaf(x.r, (T)g.beta, sum) : sum;
#else
		return (T)g.alpha * sum + bias_value(g, x.bias) + x.row_bias + x.r;
#endif
	}

	/* What becomes of it. */
	DEV T value(const struct rlx_k_gemm &g, size_t col, T sum, const struct added &x) const
	{
		return gemm_act(g.act, g, added_up(g, col, sum, x));
	}

	/* What becomes of the sum at (row, col); TC's conversions by get and put. */
	template <class GET, class PUT>
	DEV void finish(const struct rlx_k_gemm &g, size_t row, size_t col, T sum, GET get,
			PUT put) const
	{
		c[row * g.ldc + col] = put(value(g, col, sum, adds(g, row, col, get)));
	}

	/* May four elements side by side be written at once? */
	DEV bool is_wide(const struct rlx_k_gemm &g) const
	{
		return ((uint64_t)c | g.ldc * sizeof(TC)) % (4 * sizeof(TC)) == 0;
	}

	/* What becomes of four sums side by side, of which @left have a place: none waits. */
	template <class GET>
	DEV void four_values(const struct rlx_k_gemm &g, size_t row, size_t col, const T *sum,
			     int left, GET get, T *v) const
	{
		struct added x[4];

#pragma unroll
		for (int j = 0; j < 4; j++)
			x[j] = adds(g, row, j < left ? col + j : col, get);
#pragma unroll
		for (int j = 0; j < 4; j++)
			v[j] = added_up(g, j < left ? col + j : col, sum[j], x[j]);
		if (g.act)
#pragma unroll
			for (int j = 0; j < 4; j++)
				v[j] = gemm_act(g.act, g, v[j]);
	}

	/* Values side by side into their places, @left of them, if these are @wide all at once. */
	template <class PUT>
	DEV void put_four(const struct rlx_k_gemm &g, size_t row, size_t col, const T *v, int left,
			  bool wide, PUT put) const
	{
		struct alignas(4 * sizeof(TC)) four { TC v[4]; } y;

#pragma unroll
		for (int j = 0; j < 4; j++)
			y.v[j] = put(v[j]);
		if (left == 4 && wide) {
			*(struct four *)(c + row * g.ldc + col) = y;
			return;
		}
#pragma unroll
		for (int j = 0; j < 4; j++)
			if (j < left)
				c[row * g.ldc + col + j] = y.v[j];
	}
};

/*
 * N sums over LANES neighbours, of which each keeps LEFT at last: from one round to the next half
 * as many, and of twice as many lanes. Neighbours meet first, or with HALVES those half of LANES
 * apart, which is the order of the CPU's vectors. Returns the first one's number.
 */
template <int LANES, int N, int LEFT, bool HALVES = false, int ROUND = 1>
static DEV inline int sum_over_lanes(float *c)
{
	if constexpr (N > LEFT) {
		constexpr int mask = HALVES ? LANES / 2 / ROUND : ROUND;
		bool upper = lane_id() & mask;

#pragma unroll
		for (int i = 0; i < N / 2; i++) {
			float give = upper ? c[i] : c[i + N / 2];
			float keep = upper ? c[i + N / 2] : c[i];

			c[i] = keep + warp_xor(give, mask);
		}
		return (upper ? N / 2 : 0) +
		       sum_over_lanes<LANES, N / 2, LEFT, HALVES, ROUND * 2>(c);
	} else {
		for (int m = ROUND; m < LANES; m *= 2)
			for (int i = 0; i < LEFT; i++)
				c[i] += warp_xor(c[i], HALVES ? LANES / 2 / m : m);
		return 0;
	}
}

/* Of @tiles in rows of @across: tiles near in time share rows and columns. */
template <class I>
static DEV inline void gemm_tile(I t, I down, I across, I *row, I *col)
{
	const I group = 8;
	int64_t rest, in_band;
	I first = (I)divide((int64_t)t, (int64_t)(group * across), &in_band) * group;
	I rows = down - first < group ? down - first : group;

	*col = (I)divide(in_band, (int64_t)rows, &rest);
	*row = first + (I)rest;
}

#endif
