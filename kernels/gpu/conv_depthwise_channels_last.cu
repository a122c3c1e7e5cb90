// SPDX-License-Identifier: MIT
/*
 * Depthwise convolutions, a channel a group, channels last.
 *
 * Algorithm: a thread has CONV_CHANNELS channels side by side, 16 bytes where they come in such
 * multiples, of CONV_PIXELS outputs of a row. Where the taps of the innermost dimension are known
 * (7 at most, stride 4 at most, no dilation), it reads each input of a row once, into registers,
 * for all of them; elements outside are zeros by predicated loads.
 * Tiles: a row of the grid has up to 32 such vectors of channels, whose weights, which lie by
 * channels, a block turns to taps by channels in shared memory once for all of its pixels.
 * Traffic: y once; x once, and what neighbours read again from caches; weights once a block.
 * Limits: f32, f16, bf16, y and the residual of those or f32; sums are f32, in one order; the
 * bias is f32.
 */
#define CONV_TRANSPOSED	0
#include "kernels/gpu/conv.h"

enum {
	TAPS = CONV_TAPS, STRIDE = CONV_STRIDE, PER = CONV_PIXELS, VEC = CONV_CHANNELS,
	COLS = TAPS ? (PER - 1) * STRIDE + TAPS : 1,
};

typedef real sums[PER][VEC];
struct alignas(VEC * sizeof(mem)) vec { mem v[VEC]; };
typedef struct conv_run<VEC> out_vec;

static DEV inline void add_tap(real (&sum)[VEC], const vec &x, const real (&w)[VEC])
{
#pragma unroll
	for (int e = 0; e < VEC; e++)
		sum[e] += w[e] * elem::get(x.v[e]);
}

static DEV inline void weights_at(real (&w)[VEC], const mem *p)
{
	vec v = *(const vec *)p;

#pragma unroll
	for (int e = 0; e < VEC; e++)
		w[e] = elem::get(v.v[e]);
}

/* One row of inputs, @at of which is tap 0's, against a row of taps, @wide elements apart. */
static DEV inline void add_row(sums &sum, const struct rlx_k_conv_nd &a, const mem *row,
			       const mem *w, int wide, int at)
{
	const int64_t step = (int64_t)a.ic * (TAPS ? 1 : (int64_t)a.d[2]);
	const unsigned int n = (unsigned int)a.in[2];

	if constexpr (TAPS > 0) {
		real tap[TAPS ? TAPS : 1][VEC];
		vec v[COLS];

#pragma unroll
		for (int i = 0; i < COLS; i++)
			v[i] = load_or((const vec *)(row + i * step), (unsigned int)(at + i) < n,
				       0);
#pragma unroll
		for (int t = 0; t < TAPS; t++)
			weights_at(tap[t], w + t * wide);
#pragma unroll
		for (int i = 0; i < COLS; i++)
#pragma unroll
			for (int p = 0; p < PER; p++)
				if (i >= p * STRIDE && i < p * STRIDE + TAPS)
					add_tap(sum[p], v[i], tap[i - p * STRIDE]);
		return;
	}
#pragma unroll 2
	for (int t = 0; t < (int)a.k[2]; t++) {
		real tap[VEC];
		vec v = load_or((const vec *)row, (unsigned int)at < n, 0);

		weights_at(tap, w + t * wide);
		add_tap(sum[0], v, tap);
		row += step;
		at += (int)a.d[2];
	}
}

/* Sums of a run of pixels: @x of the image and channel, @q: the first one's coordinates. */
static DEV inline void sum_run(sums &sum, const struct rlx_k_conv_nd &a, const mem *x,
			       const mem *w, int wide, const int *q)
{
	int at = q[2] * (int)a.s[2] - (int)a.p[2];

	for (int j = 0; j < (int)a.k[0]; j++) {
		int z = q[0] * (int)a.s[0] - (int)a.p[0] + j * (int)a.d[0];

		if ((unsigned int)z >= (unsigned int)a.in[0])
			continue;
		for (int k = 0; k < (int)a.k[1]; k++) {
			int y = q[1] * (int)a.s[1] - (int)a.p[1] + k * (int)a.d[1];

			if ((unsigned int)y >= (unsigned int)a.in[1])
				continue;
			add_row(sum, a, x + ((int64_t)(z * (int)a.in[1] + y) * (int)a.in[2] + at) *
					    (int64_t)a.ic,
				w + (j * (int)a.k[1] + k) * (int)a.k[2] * wide, wide, at);
		}
	}
}

/* The ends of a pixel's sums, at element @i. */
static DEV inline void end_pixel(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
				 const real (&bias)[VEC], const real (&sum)[VEC], int64_t i)
{
	out_vec v = {};

	if (o.res)
		v = *(const out_vec *)(o.res + i);
#pragma unroll
	for (int e = 0; e < VEC; e++) {
		real x = sum[e] + bias[e];

		if (o.res)
			x += out_elem::get(v.v[e]);
		v.v[e] = out_elem::put(act_of(CONV_ACT, (real)a.act_a, (real)a.act_b, x));
	}
	*(out_vec *)(o.y + i) = v;
}

/* Run @i of the pixels of all images; @w: of the thread's first channel. */
static DEV inline void one_run(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
			       const mem *x, const mem *w, const real (&bias)[VEC], int64_t i)
{
	const int wide = (int)rlx_g_conv_split((int64_t)a.ic / VEC, gridDim.y) * VEC;
	int64_t rest, r[3], pixel;
	sums sum = {};
	int q[3];

	rest = divide(i, ((int64_t)a.out[2] + PER - 1) / PER, &r[2]);
	rest = divide(rest, (int64_t)a.out[1], &r[1]);
	rest = divide(rest, (int64_t)a.out[0], &r[0]);
	r[2] *= PER;
	for (int d = 0; d < 3; d++)
		q[d] = (int)r[d];
	pixel = ((rest * (int64_t)a.out[0] + r[0]) * (int64_t)a.out[1] + r[1]) *
		(int64_t)a.out[2] + r[2];
	sum_run(sum, a, x + rest * (int64_t)a.x_n, w, wide, q);
#pragma unroll
	for (int p = 0; p < PER; p++)
		if (q[2] + p < (int)a.out[2])
			end_pixel(a, o, bias, sum[p], (pixel + p) * (int64_t)a.oc);
}

RLX_G_KERNEL(conv_depthwise_channels_last, struct rlx_k_conv_nd, 256)
{
	SHARED_DYNAMIC(shared);
	mem *turned = (mem *)shared;
	const int vecs = (int)rlx_g_conv_split((int64_t)a.ic / VEC, gridDim.y), wide = vecs * VEC;
	const int taps = (int)(a.k[0] * a.k[1] * a.k[2]), runs = 256 / vecs;
	const int first = (int)blockIdx.y * wide, lane = (int)threadIdx.x % vecs;
	const int have = (int)a.ic - first < wide ? (int)a.ic - first : wide;
	const int64_t n = (int64_t)(a.n * a.out[0] * a.out[1]) *
			  rlx_g_conv_split((int64_t)a.out[2], PER);
	const mem *w = RLX_G_PTR(const mem, a.w) + (int64_t)first * taps;
	const float *bias = RLX_G_PTR(const float, a.bias);
	struct conv_ends o = conv_ends_of(a, env, false, 0);
	const int channel = first + lane * VEC;
	real add[VEC];

	for (int i = (int)threadIdx.x; i < have * taps; i += 256)
		turned[i % taps * wide + i / taps] = w[i];
	__syncthreads();
	if ((int)threadIdx.x >= runs * vecs || lane * VEC >= have)
		return;
	for (int e = 0; e < VEC; e++)
		add[e] = bias ? (real)bias[channel + e] : 0;
	o.y += channel;
	o.res += o.res ? channel : 0;
	for (int64_t i = (int64_t)blockIdx.x * runs + threadIdx.x / vecs; i < n;
	     i += (int64_t)gridDim.x * runs)
		one_run(a, o, RLX_G_PTR(const mem, a.x) + channel, turned + lane * VEC, add, i);
}
