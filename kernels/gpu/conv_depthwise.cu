// SPDX-License-Identifier: MIT
/*
 * Convolutions whose groups have few output channels, depthwise ones above all: there is nothing
 * to multiply by tiles, as a group's input serves no more than its few channels.
 *
 * Algorithm: a thread has a place in a plane of the result, CONV_PIXELS wide (f16, bf16: 2 where
 * rows are of pairs; f32 4 of many taps) and CONV_ROWS high, and goes with it through the planes
 * of all channels and images: so what there is to divide is divided once. Neighbours have
 * neighbouring pixels. Small planes are several of a block's at a time. Where the taps of a plane
 * are known (7 at most each way, stride 4 at most, no dilation), a thread reads each input once,
 * into registers, for all of its rows; a row of known taps, of a kernel that is higher, for all of
 * its pixels.
 * Traffic: y once; x about once for each row of taps that registers do not share, and each output
 * channel of the group, mostly from the L1 after the first time. Limits: sums are f32 (of f64
 * f64), in one order.
 */
/* so many hide the time that memory takes, and have registers for what is under way */
#define RLX_G_BLOCKS	(CONV_TAPS * CONV_TAPS_DOWN > 9 || CONV_PIXELS * CONV_ROWS > 4 ? 2 : 3)
#include "kernels/gpu/conv.h"

/*
 * CONV_TAPS, CONV_STRIDE: of the innermost dimension, known ones, which lie side by side; no
 * CONV_TAPS: any. CONV_TAPS_DOWN: rows of taps that are taken together, all that there are or 1;
 * CONV_STRIDE_DOWN: that of rows, where there are CONV_ROWS.
 */
enum {
	TAPS = CONV_TAPS, STRIDE = CONV_STRIDE, DOWN = CONV_TAPS_DOWN, STEP = CONV_STRIDE_DOWN,
	PER = CONV_PIXELS, ROWS = CONV_ROWS,
	WIDE = (PER - 1) * STRIDE + TAPS, HIGH = (ROWS - 1) * STEP + DOWN,	/* inputs */
	/* channels of a group whose loads are under way at a time */
	CHANNELS = !TAPS ? 1 : TAPS * DOWN < 4 ? 4 : TAPS * DOWN < 10 ? 2 : 1,
};

/* A plane of x and its taps, from where tap 0 of the thread's first pixel is. */
struct plane {
	const mem	*x, *w;
	int		at[2], in[2];	/* row and column of that; of the image */

	DEV mem input(int row, int col) const
	{
		return load_if(x + row * in[1] + col,
			       (unsigned int)(at[0] + row) < (unsigned int)in[0] &&
			       (unsigned int)(at[1] + col) < (unsigned int)in[1]);
	}
};

/* Known taps, DOWN rows of them from @w on, against the inputs from row @first on. */
static DEV inline void add_known(real (&sum)[ROWS][PER], const struct plane &p, const mem *w,
				 int first)
{
	real by[DOWN ? DOWN : 1][TAPS ? TAPS : 1];

#pragma unroll
	for (int k = 0; k < DOWN; k++)
#pragma unroll
		for (int t = 0; t < TAPS; t++)
			by[k][t] = elem::get(w[k * TAPS + t]);
#pragma unroll
	for (int i = 0; i < HIGH; i++) {
		real v[WIDE > 0 ? WIDE : 1];

#pragma unroll
		for (int e = 0; e < WIDE; e++)
			v[e] = elem::get(p.input(first + i, e));
#pragma unroll
		for (int r = 0; r < ROWS; r++)
#pragma unroll
			for (int e = 0; e < PER * TAPS; e++)
				if (i >= r * STEP && i < r * STEP + DOWN)
					sum[r][e / TAPS] += by[i - r * STEP][e % TAPS] *
							    v[e / TAPS * STRIDE + e % TAPS];
	}
}

/* Any taps, of one row of pixels. */
static DEV inline void add_any(real (&sum)[ROWS][PER], const struct rlx_k_conv_nd &a,
			       const struct conv &c, const struct plane &p)
{
	for (int k = 0; k < c.dim[1].taps; k++) {
		const mem *w = p.w + (c.dim[1].tap + k * c.dim[1].dtap) * (int)a.k[2] +
			       c.dim[2].tap;

		for (int t = 0; t < c.dim[2].taps; t++) {
			real by = elem::get(w[t * c.dim[2].dtap]);

#pragma unroll
			for (int e = 0; e < PER; e++)
				sum[0][e] += by * elem::get(p.input(k * c.dim[1].d,
						e * c.dim[2].s + t * c.dim[2].d));
		}
	}
}

static DEV inline void add_plane(real (&sum)[ROWS][PER], const struct rlx_k_conv_nd &a,
				 const struct conv &c, const struct plane &p)
{
	if constexpr (TAPS == 0) {
		add_any(sum, a, c, p);
	} else if (DOWN > 1) {
		add_known(sum, p, p.w, 0);
	} else {
		for (int k = 0; k < c.dim[1].taps; k++)
			add_known(sum, p, p.w + k * TAPS, k * c.dim[1].d);
	}
}

/* All channels and planes that pixels of plane @z of the result meet; @p: of the first. */
static DEV inline void sum_planes(real (&sum)[ROWS][PER], const struct rlx_k_conv_nd &a,
				  const struct conv &c, const struct plane &p, int z)
{
	const int taps = (int)(a.k[1] * a.k[2]), pixels = p.in[0] * p.in[1];
	const int wide = (int)a.k[0] * taps * (CONV_TRANSPOSED ? c.rows : 1);
	const int high = (int)a.in[0] * pixels;

	for (int j = 0; j < c.dim[0].taps; j++) {
		int at = z * c.dim[0].s + c.dim[0].at + j * c.dim[0].d;
		struct plane q = p;

		if ((unsigned int)at >= (unsigned int)a.in[0])
			continue;
		q.x += at * pixels;
		q.w += (c.dim[0].tap + j * c.dim[0].dtap) * taps;
#pragma unroll CHANNELS
		for (int ch = 0; ch < c.channels; ch++, q.x += high, q.w += wide)
			add_plane(sum, a, c, q);
	}
}

/* A thread's tile of a plane of the result, of a phase: its first row and column. */
struct thread_tile {
	int	row, col;
	int64_t	pixel;		/* of the first row, in plane 0 */

	DEV thread_tile(const struct rlx_k_conv_nd &a, const struct conv &c, unsigned int unit)
	{
		const unsigned int wide = (unsigned int)(c.dim[2].n + PER - 1) / PER;

		row = (int)(unit / wide) * ROWS;
		col = (int)(unit % wide) * PER;
		pixel = (int64_t)(c.dim[1].first + row * c.dim[1].step) * (int64_t)a.out[2] +
			c.dim[2].first + col * c.dim[2].step;
	}
};

/* Where sums go: a channel, a place in y for its channel 0, and how many rows there are. */
struct target {
	int64_t	channel, at;
	int	rows;
};

/* A channel's bias: without a branch, at whose end it would be waited for. */
static DEV inline real bias_of(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
			       int64_t channel)
{
	const bool any = o.bias != (const void *)0, wide = a.bias_type == RLX_F32;

	if constexpr (sizeof(real) == 8)
		return load_if((const double *)o.bias + channel, any);
	const float w = load_if((const float *)o.bias + channel, any && wide);
	const uint16_t h = load_if((const uint16_t *)o.bias + channel, any && !wide);

	return (real)(wide ? w : a.bias_type == RLX_F16 ? f16_to_f32(h) :
				 bits_f32((uint32_t)h << 16));
}

/*
 * What is added to the sums of the pixels from @at of y on, asked for ahead of them, for behind a
 * store nothing is.
 */
static DEV inline void add_ends(real (&add)[ROWS][PER], const struct rlx_k_conv_nd &a,
				const struct conv_ends &o, const struct target &to)
{
	const real bias = bias_of(a, o, to.channel);
	int64_t at = to.channel * o.plane + to.at;

#pragma unroll
	for (int r = 0; r < ROWS; r++, at += (int64_t)a.out[2])
#pragma unroll
		for (int e = 0; e < PER; e++)
			add[r][e] = bias + (o.res ? (real)out_elem::get(load_if(
						    o.res + at + e, r < to.rows)) : 0);
}

/* The epilogue of the thread's sums. */
static DEV inline void epilogue(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
				real (&sum)[ROWS][PER], const real (&add)[ROWS][PER],
				const struct target &to)
{
	const struct conv_ends bare = { (const void *)0, (const out_mem *)0, o.y, (real *)0,
					o.plane };
	int64_t at = to.at;

#pragma unroll
	for (int r = 0; r < ROWS; r++, at += (int64_t)a.out[2]) {
		int64_t places[PER];

#pragma unroll
		for (int e = 0; e < PER; e++) {
			places[e] = at + e;
			sum[r][e] += add[r][e];
		}
		if (r < to.rows)
			conv_end<PER>(a, bare, to.channel, places, sum[r]);
	}
}

/* Plane @i of the result: of an image, a channel, and the outermost dimension. */
static DEV inline void one_plane(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
				 const struct conv &c, const struct thread_tile &s, int64_t i)
{
	int64_t z = 0, channel, image, group, row = 0;
	real sum[ROWS][PER] = {}, add[ROWS][PER];
	struct target to;
	struct plane p;

	if (c.dim[0].n > 1)
		i = divide(i, c.dim[0].n, &z);
	image = divide(i, (int64_t)a.oc, &channel);
	group = channel;
	if (c.rows > 1)
		group = divide(channel, c.rows, &row);
	for (int d = 0; d < 2; d++)
		p.in[d] = (int)a.in[d + 1];
	p.at[0] = s.row * c.dim[1].s + c.dim[1].at;
	p.at[1] = s.col * c.dim[2].s + c.dim[2].at;
	p.x = c.x + image * (int64_t)a.x_n +
	      group * c.channels * (int64_t)(a.in[0] * a.in[1] * a.in[2]) +
	      p.at[0] * p.in[1] + p.at[1];
	p.w = c.w + group * c.channels * c.rows * (int64_t)(a.k[0] * a.k[1] * a.k[2]) +
	      row * c.row_step;
	to.channel = channel;
	to.at = image * (int64_t)a.y_n + s.pixel +
		(int64_t)(c.dim[0].first + z * c.dim[0].step) * (int64_t)(a.out[1] * a.out[2]);
	to.rows = c.dim[1].n - s.row;
	add_ends(add, a, o, to);
	sum_planes(sum, a, c, p, (int)z);
	epilogue(a, o, sum, add, to);
}

RLX_G_KERNEL(conv_depthwise, struct rlx_k_conv_nd, 256)
{
	int64_t phases = rlx_g_conv_phases(&a, 0) * rlx_g_conv_phases(&a, 1) *
			 rlx_g_conv_phases(&a, 2);
	struct conv_ends o = conv_ends_of(a, env, false, 0);

	for (int64_t f = blockIdx.z; f < phases; f += gridDim.z) {
		struct conv c = conv_at(a, env, f, 0);
		const unsigned int units = (unsigned int)((c.dim[1].n + ROWS - 1) / ROWS) *
					   (unsigned int)((c.dim[2].n + PER - 1) / PER);
		const unsigned int each = units < 256 ? 256 / (units ? units : 1) : 1;
		const int64_t planes = (int64_t)(a.n * a.oc) * c.dim[0].n;
		const unsigned int own = each > 1 ? threadIdx.x / units : 0;
		unsigned int unit = blockIdx.x * 256 + threadIdx.x - own * units;

		for (; unit < units && own < each; unit += gridDim.x * 256) {
			struct thread_tile s(a, c, unit);

			for (int64_t i = (int64_t)blockIdx.y * each + own; i < planes;
			     i += (int64_t)gridDim.y * each)
				one_plane(a, o, c, s, i);
		}
	}
}
