// SPDX-License-Identifier: MIT
/*
 * Convolutions whose groups have few output channels, depthwise ones above all: there is nothing
 * to multiply by tiles, as a group's input serves no more than its few channels.
 *
 * Algorithm: a thread has 4 outputs side by side (f16, bf16: 8; fewer if rows are no multiple; one
 * if transposed), in CONV_ROWS rows where it has fewer, so that what it works out and waits for is
 * shared by as many. Where the taps of the innermost dimension are known (7 at most, stride 4 at
 * most, no dilation), it reads each input of a row once, into registers, for all of them.
 * Traffic: y once; x about once for each row of taps and each output channel of the group, mostly
 * from caches after the first time. Limits: sums are f32 (of f64 f64), in one order.
 */
#define RLX_G_BLOCKS	3	/* so many hide the time that memory takes */
#include "kernels/gpu/conv.h"

/*
 * A thread sums CONV_PIXELS of each of CONV_ROWS rows; CONV_TAPS: of the innermost dimension, which
 * lie side by side, CONV_STRIDE: its stride; no CONV_TAPS: any taps.
 */
enum {
	TAPS = CONV_TAPS, STRIDE = CONV_STRIDE, PER = CONV_PIXELS, ROWS = CONV_ROWS,
	/* rows of taps whose loads are under way at a time */
	DOWN = TAPS > 3 ? 3 : TAPS ? TAPS : 1,
};

static DEV inline real inside(const mem *row, int at, int n)
{
	return elem::get(load_if(row + at, (unsigned int)at < (unsigned int)n));
}

/*
 * One row of inputs against one row of taps; @at: where tap 0 of pixel 0 is. NULL for @w: of known
 * taps there are none.
 */
static DEV inline void add_row(real *sum, const mem *row, const mem *w, int n, int at,
			       const struct conv_dim &d)
{
	if constexpr (TAPS) {
		real v[(PER - 1) * STRIDE + (TAPS ? TAPS : 1)];

#pragma unroll
		for (int i = 0; i < (PER - 1) * STRIDE + TAPS; i++)
			v[i] = inside(row, at + i, n);
#pragma unroll
		for (int t = 0; t < TAPS; t++) {
			real by = elem::get(load_if(w + t, w != (const mem *)0));

#pragma unroll
			for (int p = 0; p < PER; p++)
				sum[p] += by * v[p * STRIDE + t];
		}
		return;
	}
	for (int t = 0; t < d.taps; t++)
#pragma unroll
		for (int p = 0; p < PER; p++)
			sum[p] += elem::get(w[t * d.dtap]) *
				  inside(row, at + p * d.s + t * d.d, n);
}

/* A plane of x and its taps; where in the image tap 0 of pixel 0 is, and what the image has. */
struct plane {
	const mem	*x, *w;
	int		at[3], in[3];
};

/* Tap @k of those down, against a plane's rows that meet it. */
static DEV inline void add_rows(real (&sum)[ROWS][PER], const struct rlx_k_conv_nd &a,
				const struct conv &c, const struct plane &p, int k)
{
	int y = p.at[1] + k * c.dim[1].d, ty = c.dim[1].tap + k * c.dim[1].dtap;
	const mem *row = p.x + (int64_t)y * p.in[2], *w = p.w + (int64_t)ty * (int)a.k[2];
	bool any = k < c.dim[1].taps;

	if (ROWS == 1)
		any = any && (unsigned int)y < (unsigned int)p.in[1];
	if (DOWN == 1 && !any)
		return;
	/* a row beyond the image has no elements */
#pragma unroll
	for (int r = 0; r < ROWS; r++, y += c.dim[1].s)
		add_row(sum[r], row + (int64_t)r * c.dim[1].s * p.in[2], any ? w : (const mem *)0,
			any && (unsigned int)y < (unsigned int)p.in[1] ? p.in[2] : 0, p.at[2],
			c.dim[2]);
}

static DEV inline void sum_run(real (&sum)[ROWS][PER], const struct rlx_k_conv_nd &a,
			       const struct conv &c, const mem *x, const mem *w, const int64_t *q)
{
	int channels = (int)(a.ic / a.groups);
	int64_t kernel = (int64_t)(a.k[0] * a.k[1] * a.k[2]);
	struct plane p;

	for (int i = 0; i < 3; i++) {
		p.in[i] = (int)a.in[i];
		p.at[i] = (int)q[i] * c.dim[i].s + c.dim[i].at;
	}
	for (int ch = 0; ch < channels; ch++) {
		const mem *wc = w + ch * kernel * (CONV_TRANSPOSED ? c.rows : 1);

		for (int j = 0; j < c.dim[0].taps; j++) {
			int z = p.at[0] + j * c.dim[0].d, tz = c.dim[0].tap + j * c.dim[0].dtap;

			if ((unsigned int)z >= (unsigned int)p.in[0])
				continue;
			p.w = wc + (int64_t)tz * (int)a.k[1] * (int)a.k[2] + c.dim[2].tap;
			p.x = x + ((int64_t)ch * p.in[0] + z) * p.in[1] * p.in[2];
			for (int first = 0; first < c.dim[1].taps; first += DOWN)
#pragma unroll
				for (int k = first; k < first + DOWN; k++)
					add_rows(sum, a, c, p, k);
		}
	}
}

static DEV inline void one_run(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
			       const struct conv &c, int64_t i)
{
	int64_t rest, q[3], channel, image, group, row, in = (int64_t)(a.ic / a.groups);
	int64_t pixel = 0, at[PER];
	real sum[ROWS][PER] = {};

	rest = divide(i, (c.dim[2].n + PER - 1) / PER, &q[2]);
	rest = divide(rest, (c.dim[1].n + ROWS - 1) / ROWS, &q[1]);
	rest = divide(rest, c.dim[0].n, &q[0]);
	image = divide(rest, (int64_t)a.oc, &channel);
	group = divide(channel, c.rows, &row);
	q[2] *= PER;
	q[1] *= ROWS;
	sum_run(sum, a, c, c.x + image * (int64_t)a.x_n +
			group * in * (int64_t)(a.in[0] * a.in[1] * a.in[2]),
		c.w + group * in * c.rows * (int64_t)(a.k[0] * a.k[1] * a.k[2]) +
			row * c.row_step, q);
	for (int d = 0; d < 3; d++)
		pixel = pixel * (int64_t)a.out[d] + c.dim[d].first + q[d] * c.dim[d].step;
#pragma unroll
	for (int r = 0; r < ROWS; r++) {
#pragma unroll
		for (int p = 0; p < PER; p++)
			at[p] = image * (int64_t)a.y_n + pixel + p;
		if (ROWS == 1 || q[1] + r < c.dim[1].n)
			conv_end<PER>(a, o, channel, at, sum[r]);
		pixel += (int64_t)a.out[2];
	}
}

RLX_G_KERNEL(conv_depthwise, struct rlx_k_conv_nd, 256)
{
	int64_t phases = rlx_g_conv_phases(&a, 0) * rlx_g_conv_phases(&a, 1) *
			 rlx_g_conv_phases(&a, 2);
	struct conv_ends o = conv_ends_of(a, env, false, 0);

	for (int64_t f = blockIdx.y; f < phases; f += gridDim.y) {
		struct conv c = conv_at(a, env, f, 0);
		int64_t n = (int64_t)(a.n * a.oc) * c.dim[0].n *
			    ((c.dim[1].n + ROWS - 1) / ROWS) * ((c.dim[2].n + PER - 1) / PER);

		for (int64_t i = line_first(); i < n; i += line_step())
			one_run(a, o, c, i);
	}
}
