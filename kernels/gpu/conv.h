/* SPDX-License-Identifier: MIT */
/*
 * What the kernels of convolutions share. One is taken as a GEMM: a row for
 * each output channel of a group, a column for each output pixel of all images, and
 * a sum over input channels times taps. A transposed one falls into phases, pixels
 * that lie a stride apart and so meet the same taps: each is such a product.
 */
#ifndef RLX_G_CONV_H
#define RLX_G_CONV_H

#include "kernels/gpu/accumulate.h"
#include "kernels/gpu/act.h"
#define RLX_G_CONV_TRANSPOSED(a)	CONV_TRANSPOSED
#include "kernels/gpu/conv_plan.h"
#include "kernels/gpu/move.h"

typedef elem::acc real;

/* Of y and the residual: as x and w, unless who includes this has said otherwise. */
#ifndef CONV_OUT_TYPE
#define CONV_OUT_TYPE	ELEM_TYPE
#endif
typedef rlx_t<CONV_OUT_TYPE> out_elem;
typedef out_elem::mem out_mem;

/*
 * One dimension of a phase: output pixel first + q * step, for q < n, meets input
 * pixel q * s + at + j * d through tap tap + j * dtap, for j < taps.
 */
struct conv_dim {
	int	n, first, step, s, at, d, taps, tap, dtap;
};

struct conv {
	struct conv_dim	dim[3];
	int64_t		cols;		/* pixels of all images */
	int		taps, depth;	/* terms of a sum: channels times taps */
	int		rows, channels;	/* of the group: output and input channels */
	int64_t		group, row_step;	/* elements from a row's weights to the next's */
	const mem	*x, *w;		/* of the group */
};

/* From an output pixel to the next one, in x as the kernel reads it. */
#ifndef CONV_STEP
#define CONV_STEP(a, i)	(a).s[i]
#endif

/* Dimension @i of phase @f. */
static DEV inline struct conv_dim conv_dim_of(const struct rlx_k_conv_nd &a, int i, int f)
{
	int s = (int)CONV_STEP(a, i), d = (int)a.d[i], k = (int)a.k[i], p = (int)a.p[i];
	int out = (int)a.out[i], common = s, rest = d, first = 0, dtap;

	if (!CONV_TRANSPOSED)
		return conv_dim{ out, 0, 1, s, -p, d, k, 0, 1 };
	while (rest) {
		int r = common % rest;

		common = rest;
		rest = r;
	}
	dtap = s / common;
	while (first < k && first < dtap && (f + p - first * d) % s)
		first++;
	if (first == dtap || first > k)
		first = k;	/* no tap meets this phase */
	return conv_dim{ (out - f + s - 1) / s, f, s, 1, (f + p - first * d) / s,
			 -(dtap * d / s), (k - first + dtap - 1) / dtap, first, dtap };
}

static DEV inline struct conv conv_at(const struct rlx_k_conv_nd &a,
				      const struct rlx_g_env &env, int64_t phase, int64_t group)
{
	size_t in = (size_t)rlx_g_conv_group(&a, a.ic), out = (size_t)rlx_g_conv_group(&a, a.oc);
	struct conv c;

	c.cols = (int64_t)a.n;
	c.taps = 1;
	for (int i = 2; i >= 0; i--) {
		int n = (int)rlx_g_conv_phases(&a, i);
		int64_t own;

		phase = divide(phase, n, &own);
		c.dim[i] = conv_dim_of(a, i, (int)own);
		c.cols *= c.dim[i].n;
		c.taps *= c.dim[i].taps;
	}
	c.depth = (int)in * c.taps;
	c.rows = (int)out;
	c.channels = (int)in;
	c.group = group;
	c.row_step = (int64_t)(a.k[0] * a.k[1] * a.k[2]) * (CONV_TRANSPOSED ? 1 : (int64_t)in);
	c.x = RLX_G_PTR(const mem, a.x) + (size_t)group * in * a.in[0] * a.in[1] * a.in[2];
	c.w = RLX_G_PTR(const mem, a.w) +
	      (size_t)group * in * out * a.k[0] * a.k[1] * a.k[2];
	return c;
}

/* Which term of the sum: a channel, and a tap in each dimension. */
struct conv_term {
	int	channel, j[3];
};

static DEV inline struct conv_term conv_term_at(const struct conv &c, int k)
{
	struct conv_term t;

	t.channel = k / c.taps;
	k -= t.channel * c.taps;
	t.j[2] = k % c.dim[2].taps;
	k /= c.dim[2].taps;
	t.j[1] = k % c.dim[1].taps;
	t.j[0] = k / c.dim[1].taps;
	return t;
}

/* Elements from where a column begins to where it meets the term. */
static DEV inline int conv_offset(const struct rlx_k_conv_nd &a, const struct conv &c,
				  const struct conv_term &t)
{
	int at = 0;

	for (int i = 0; i < 3; i++)
		at = at * (int)a.in[i] + t.j[i] * c.dim[i].d;
	return t.channel * (int)(a.in[0] * a.in[1] * a.in[2]) + at;
}

/* Of the term's weight, from that of row 0 (transposed: rows lie all taps apart). */
static DEV inline int conv_weight(const struct rlx_k_conv_nd &a, const struct conv &c,
				  const struct conv_term &t)
{
	int at = 0;

	for (int i = 0; i < 3; i++)
		at = at * (int)a.k[i] + c.dim[i].tap + t.j[i] * c.dim[i].dtap;
	return t.channel * (CONV_TRANSPOSED ? c.rows : 1) *
	       (int)(a.k[0] * a.k[1] * a.k[2]) + at;
}

/* A column: where its tap 0 is in the image, and its pixel of the result. */
struct conv_col {
	int64_t	image, pixel;
	int	at[3];
};

static DEV inline struct conv_col conv_col_at(const struct rlx_k_conv_nd &a,
					      const struct conv &c, int64_t col)
{
	int64_t q[3];
	struct conv_col r;

	for (int i = 2; i >= 0; i--)
		col = divide(col, c.dim[i].n, &q[i]);
	r.image = col;
	r.pixel = 0;
	for (int i = 0; i < 3; i++) {
		r.at[i] = (int)q[i] * c.dim[i].s + c.dim[i].at;
		r.pixel = r.pixel * (int64_t)a.out[i] + c.dim[i].first +
			  q[i] * c.dim[i].step;
	}
	return r;
}

/* Are y and the residual channels last? */
static DEV inline bool conv_last(const struct rlx_k_conv_nd &a)
{
	return a.channels_last && !a.y_plain;
}

/* Of its pixel in y, for channel 0; channels last its number. */
static DEV inline int64_t conv_place(const struct rlx_k_conv_nd &a, const struct conv_col &p)
{
	if (conv_last(a))
		return p.image * (int64_t)(a.out[0] * a.out[1] * a.out[2]) + p.pixel;
	return p.image * (int64_t)a.y_n + p.pixel;
}

/* Elements from c.x to what tap 0 meets, which may lie beyond the image. */
static DEV inline int64_t conv_begin(const struct rlx_k_conv_nd &a, const struct conv_col &p)
{
	int64_t at = 0;

	for (int i = 0; i < 3; i++)
		at = at * (int64_t)a.in[i] + p.at[i];
	return p.image * (int64_t)a.x_n + at;
}

static DEV inline bool conv_inside(const struct rlx_k_conv_nd &a, const int *at, const int *by)
{
	return (unsigned int)(at[0] + by[0]) < (unsigned int)a.in[0] &&
	       (unsigned int)(at[1] + by[1]) < (unsigned int)a.in[1] &&
	       (unsigned int)(at[2] + by[2]) < (unsigned int)a.in[2];
}

/* ---- the epilogue ---- */

/*
 * Where sums end: at y, or (of a part of a sum) at scratch, each part with a place for
 * every output, which a second pass adds up. Outputs are counted as y is dense.
 */
struct conv_ends {
	const void	*bias;
	const out_mem	*res;
	out_mem		*y;
	real		*part;
	int64_t		plane;
};

static DEV inline int64_t conv_plane(const struct rlx_k_conv_nd &a)
{
	return (int64_t)(a.out[0] * a.out[1] * a.out[2]);
}

/* Sums are complete, or else the block's part of them, @skip bytes into scratch. */
static DEV inline struct conv_ends conv_ends_of(const struct rlx_k_conv_nd &a,
						const struct rlx_g_env &env, bool part,
						uint64_t skip)
{
	int64_t plane = conv_plane(a), all = (int64_t)(a.n * a.oc) * plane;

	return conv_ends{ RLX_G_PTR(const void, a.bias), RLX_G_PTR(const out_mem, a.res),
			  RLX_G_PTR(out_mem, a.y), !part ? (real *)0 :
			  (real *)((char *)env.scratch + skip) + blockIdx.y * all, plane };
}

static DEV inline real conv_bias(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
				 int64_t channel)
{
	return a.bias_type == RLX_F64 ? (real)((const double *)o.bias)[channel] :
					(real)load_float(o.bias, channel, a.bias_type);
}

/* N elements of y side by side. */
template <int N> struct alignas(N * sizeof(out_mem)) conv_run { out_mem v[N]; };

static DEV inline bool conv_aligned(const void *p, int n)
{
	return (uint64_t)p % ((uint64_t)n * sizeof(out_mem)) == 0;
}

/*
 * The ends of N sums of a channel, at rising places @at of y (of its channel 0); those
 * below 0 are no place. Neighbours are stored together.
 */
template <int N>
static DEV inline void conv_end(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
				int64_t channel, const int64_t *at, const real *sum)
{
	int64_t base = channel * o.plane;
	out_mem *y = o.y + base + at[0];
	bool whole = at[0] >= 0 && at[N - 1] == at[0] + N - 1 && conv_aligned(y, N);
	struct conv_run<N> v;
	real bias = 0;

	if (o.part) {
#pragma unroll
		for (int i = 0; i < N; i++)
			if (at[i] >= 0)
				o.part[base + at[i]] = sum[i];
		return;
	}
	if (o.bias)
		bias = conv_bias(a, o, channel);
#pragma unroll
	for (int i = 0; i < N; i++)
		v.v[i] = o.res ? load_if(o.res + base + at[i], at[i] >= 0) : out_mem();
#pragma unroll
	for (int i = 0; i < N; i++) {
		real x = sum[i] + bias;

		if (o.res)
			x += out_elem::get(v.v[i]);
		v.v[i] = out_elem::put(act_of((int)a.act, (real)a.act_a, (real)a.act_b, x));
	}
	if (whole)
		*(struct conv_run<N> *)y = v;
#pragma unroll
	for (int i = 0; i < N; i++)
		if (!whole && at[i] >= 0)
			o.y[base + at[i]] = v.v[i];
}

/* Channels last: the ends of N sums of a pixel, of which @n are there, from @channel on. */
template <int N>
static DEV inline void conv_end_last(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
				     int64_t channel, int n, int64_t pixel, const real *sum)
{
	int64_t at = pixel * (int64_t)a.oc + channel;
	bool whole = n >= N && conv_aligned(o.y + at, N);
	struct conv_run<N> v;

#pragma unroll
	for (int i = 0; i < N; i++) {
		real x = sum[i];

		if (o.part && i < n)
			o.part[at + i] = x;
		if (o.part || i >= n)
			continue;
		x += o.bias ? (real)((const float *)o.bias)[channel + i] : 0;
		x += o.res ? (real)out_elem::get(o.res[at + i]) : 0;
		v.v[i] = out_elem::put(act_of((int)a.act, (real)a.act_a, (real)a.act_b, x));
		if (!whole)
			o.y[at + i] = v.v[i];
	}
	if (whole && !o.part)
		*(struct conv_run<N> *)(o.y + at) = v;
}

static DEV inline void conv_add_up(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env,
				   uint64_t skip)
{
	struct conv_ends o = conv_ends_of(a, env, false, 0);
	int64_t n = (int64_t)(a.n * a.oc) * o.plane, step = line_step() * gridDim.y;
	const real *part = (const real *)((const char *)env.scratch + skip);

	for (int64_t i = line_first() + line_step() * blockIdx.y; i < n; i += step) {
		int64_t pixel, channel, at;
		real sum = 0;

		for (unsigned int k = 0; k < gridDim.y; k++)
			sum += part[k * n + i];
		if (conv_last(a)) {
			pixel = divide(i, (int64_t)a.oc, &channel);
			conv_end_last<1>(a, o, channel, 1, pixel, &sum);
			continue;
		}
		divide(divide(i, o.plane, &pixel), (int64_t)a.oc, &channel);
		at = i - channel * o.plane;
		conv_end<1>(a, o, channel, &at, &sum);
	}
}

/* ---- tiles ---- */

/* What a block works on: a phase and group, from a row and a column on. */
struct conv_tile {
	struct conv	c;
	int64_t		row, col;
};

/* Tiles that share input follow each other. */
static DEV inline struct conv_tile conv_tile_at(const struct rlx_k_conv_nd &a,
						const struct rlx_g_env &env, int64_t t, int bm,
						int bn)
{
	int64_t rows = rlx_g_conv_split(rlx_g_conv_group(&a, a.oc), bm);
	int64_t cols = rlx_g_conv_split(rlx_g_conv_cols(&a), bn), row, col, group;
	struct conv_tile r;

	t = divide(t, rows, &row);
	t = divide(t, cols, &col);
	t = divide(t, (int64_t)a.groups, &group);
	r.c = conv_at(a, env, t, group);
	r.row = row * bm;
	r.col = col * bn;
	return r;
}

/* Steps of @depth terms that this block's part of the sums takes. */
static DEV inline void conv_part(const struct conv &c, int depth, int *first, int *last)
{
	int steps = (c.depth + depth - 1) / depth;
	int each = (steps + (int)gridDim.y - 1) / (int)gridDim.y;

	*first = each * (int)blockIdx.y;
	*last = *first + each < steps ? *first + each : steps;
}

/*
 * Terms of some steps, worked out once for all columns: where they are, and whether a
 * column meets them: by a bit for each tap (CONV_MANY_TAPS: more than 32, so by
 * coordinates).
 */
#ifndef CONV_MANY_TAPS
#define CONV_MANY_TAPS	0
#endif

struct alignas(16) quad { int v[4]; };

template <int TERMS> struct conv_table {
	struct quad	off[TERMS / 4], tap[TERMS / 4];
	int		by[CONV_MANY_TAPS ? TERMS : 1][3];
	int		weight[CONV_TRANSPOSED ? TERMS : 1];

	/* term @k, as the table's @i-th */
	DEV void set(const struct rlx_k_conv_nd &a, const struct conv &c, int i, int k)
	{
		bool any = k < c.depth;
		struct conv_term t = conv_term_at(c, any ? k : 0);

		off[i / 4].v[i % 4] = any ? conv_offset(a, c, t) : 0;
		if (CONV_TRANSPOSED)
			weight[i] = any ? conv_weight(a, c, t) : -1;
		if (!CONV_MANY_TAPS)
			tap[i / 4].v[i % 4] = !any ? 0 :
				1 << ((t.j[0] * c.dim[1].taps + t.j[1]) * c.dim[2].taps + t.j[2]);
		for (int d = 0; CONV_MANY_TAPS && d < 3; d++)
			by[i][d] = any ? t.j[d] * c.dim[d].d : -(1 << 30);
	}
};

/* A column's inputs. */
struct conv_source {
	const mem	*p;
	int		meets;
	int		at[3];

	DEV void set(const struct rlx_k_conv_nd &a, const struct conv &c, bool any,
		     const struct conv_col &col)
	{
		int bit = 1, by[3];

		p = c.x + (any ? conv_begin(a, col) : 0);
		meets = 0;
		for (int d = 0; d < 3; d++)
			at[d] = any ? col.at[d] : -(1 << 30);
		if (CONV_MANY_TAPS || !any)
			return;
		for (int i = 0; i < c.dim[0].taps; i++)
			for (int j = 0; j < c.dim[1].taps; j++)
				for (int k = 0; k < c.dim[2].taps; k++, bit <<= 1) {
					by[0] = i * c.dim[0].d;
					by[1] = j * c.dim[1].d;
					by[2] = k * c.dim[2].d;
					meets |= conv_inside(a, at, by) ? bit : 0;
				}
	}

	/* N terms of the table, from @k on */
	template <int N, int TERMS>
	DEV void get(mem *to, const struct rlx_k_conv_nd &a, const conv_table<TERMS> &t,
		     int k) const
	{
#pragma unroll
		for (int i = 0; i < N; i += 4) {
			struct quad off = t.off[(k + i) / 4], tap = t.tap[(k + i) / 4];

#pragma unroll
			for (int j = 0; j < 4; j++) {
				bool in = CONV_MANY_TAPS ? conv_inside(a, at, t.by[k + i + j]) :
						      (meets & tap.v[j]) != 0;

				to[i + j] = load_if(p + off.v[j], in);
			}
		}
	}
};

#endif
