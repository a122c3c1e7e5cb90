// SPDX-License-Identifier: MIT
/*
 * Convolutions of f32 with strict bits: each sum has the CPU's terms in the CPU's order, whatever
 * the layout here: conv_nd.c's, conv_c.c's or conv_dw.c's (enum rlx_conv_order).
 *
 * Algorithm: implicit GEMM. conv_ordered: of a step of 16 terms a table says once for all columns
 * where they lie; weights and inputs go to shared memory, and 256 threads have 4 x 4 sums each of
 * 64 channels x 64 pixels. Sums of a pass begin at 0, the first one's at the bias where the order
 * has it so, and are added to those of the passes before. Padding is 0 as on the CPU; where the
 * CPU leaves taps out, a mark stands for the input, which makes a multiply-add none. Behind a
 * pass's last term -0 x 0 leaves sums as they are, be they -0.
 * conv_ordered_each: a thread for each output, for groups of few channels.
 *
 * Traffic: x is read ceil(channels / 64) times for each tap, mostly from caches, weights
 * ceil(pixels / 64) times, y once. Of conv_c's order weights are read taps apart.
 * Limits: 1 to 3 dimensions, groups, dilation, transposed; positions below 2^30. One stage: loads
 * and products do not overlap but between blocks.
 */
#define ELEM_TYPE	2	/* RLX_F32 */
#ifdef RLX_KERNEL_conv_ordered
#define RLX_G_BLOCKS	3
#endif
#include "kernels/gpu/conv.h"
#include "kernels/simd/act.h"

enum { EDGE = 64, PER = 4, DEPTH = 16, ORDER = CONV_ORDER };

/* Bits of an input that is left out: a NaN that no other input may be. */
#define LEFT_OUT	0xffc0de5cu

/* The order of the terms of a group's sums in one phase. */
struct terms {
	int	lanes, full, tail, kw;	/* of conv_c: full terms of a tap, channels of the last */
	int	full_terms, all;	/* (lanes, tap)s with all lanes, and all */
	int	pass, at_once;

	DEV terms(const struct rlx_k_conv_ordered &a, const struct conv &c)
		: lanes((int)a.lanes), full(0), tail(0), kw(c.dim[2].taps), full_terms(0), all(0),
		  pass((int)a.pass), at_once(0)
	{
		if (ORDER == RLX_CONV_ORDER_ND) {
			at_once = (int)rlx_conv_nd_at_once((size_t)c.taps, a.most,
							   (size_t)c.channels);
			return;
		}
		full = c.channels / lanes;
		tail = c.channels - full * lanes;
		full_terms = full * c.taps;
		all = full_terms + (tail ? c.taps : 0);
	}

	/* Where pass @i ends, which begins at term @first. */
	DEV int end(const struct conv &c, int i, int first) const
	{
		if (ORDER == RLX_CONV_ORDER_ND) {
			int some = at_once * c.taps, begin = some ? first / some * some : 0;
			int n = c.depth - begin < some ? c.depth - begin : some;
			int to = first - begin + (int)rlx_conv_nd_pass((size_t)n);

			return begin + (to < n ? to : n);
		}
		i = (i + 1) * pass < all ? (i + 1) * pass : all;
		return i <= full_terms ? i * lanes : full_terms * lanes + (i - full_terms) * tail;
	}

	/* Term @k: rows of taps, then channels, @lanes of them together, taps of a row. */
	DEV struct conv_term at(const struct conv &c, int k) const
	{
		int n = lanes, some = full, first = 0, b;
		struct conv_term t = { 0, { 0, 0, 0 } };

		if (ORDER == RLX_CONV_ORDER_ND)
			return conv_term_at(c, k);
		if (k >= full_terms * lanes) {
			k -= full_terms * lanes;
			first = full * lanes;
			some = 1;
			n = tail;
		}
		t.j[1] = k / (some * kw * n);
		k -= t.j[1] * (some * kw * n);
		b = k / (kw * n);
		k -= b * (kw * n);
		t.j[2] = k / n;
		t.channel = first + b * n + k % n;
		return t;
	}
};

/* Where a group's channel lies, from its channel 0 on, in planes of @plane pixels. */
static DEV inline int64_t channel_at(int channel, int64_t plane, size_t block)
{
	int b = (int)block;

	return b ? (int64_t)(channel / b) * plane * b + channel % b : channel * plane;
}

/* A term as a column meets it: how far it lies from the column's begin, by pixels beyond. */
struct met {
	int	off, by[3], weight;

	DEV void set(const struct rlx_k_conv_ordered &a, const struct conv &c, struct conv_term t)
	{
		int at = 0;

		weight = conv_weight(a.c, c, t);
		for (int d = 0; d < 3; d++) {
			by[d] = t.j[d] * c.dim[d].d;
			at = at * (int)a.c.in[d] + by[d];
		}
		off = (int)channel_at(t.channel, (int64_t)(a.c.in[0] * a.c.in[1] * a.c.in[2]),
				      a.x_block) + at * (int)(a.x_block ? a.x_block : 1);
	}
};

/* What a column reads. */
struct source {
	const float	*x;
	int		at[3];

	DEV void set(const struct rlx_k_conv_ordered &a, const struct conv &c,
		     const struct conv_col &col)
	{
		int64_t begin = 0, plane = (int64_t)(a.c.in[0] * a.c.in[1] * a.c.in[2]);

		for (int d = 0; d < 3; d++) {
			begin = begin * (int64_t)a.c.in[d] + col.at[d];
			at[d] = col.at[d];
		}
		/* c.x is the group's where it is plain */
		x = c.x + channel_at((int)c.group * c.channels, plane, a.x_block) -
		    c.group * c.channels * plane + col.image * (int64_t)a.c.x_n +
		    begin * (int64_t)(a.x_block ? a.x_block : 1);
	}

	/* 0 beyond the input, or LEFT_OUT */
	DEV uint32_t get(const struct rlx_k_conv_ordered &a, const struct met &m) const
	{
		bool in = conv_inside(a.c, at, m.by);
		bool row = (unsigned int)(at[1] + m.by[1]) < (unsigned int)a.c.in[1];
		uint32_t v = f32_bits(load_if(x + m.off, in));

		if (ORDER == RLX_CONV_ORDER_ND)
			return v;
		v = v == LEFT_OUT ? 0x7fc00000u : v;
		return in || (ORDER == RLX_CONV_ORDER_C && row) ? v : LEFT_OUT;
	}
};

static DEV inline float step(float sum, float w, float x)
{
	if (ORDER != RLX_CONV_ORDER_ND && f32_bits(x) == LEFT_OUT)
		return sum;
	return fmaf(w, x, sum);
}

/* What the sum of a channel begins with. */
static DEV inline float begin_at(const struct conv_ends &o, int64_t channel)
{
	return ORDER != RLX_CONV_ORDER_ND && o.bias ? ((const float *)o.bias)[channel] : 0;
}

/* Where a channel's pixel of y is. */
static DEV inline int64_t place_of(const struct rlx_k_conv_ordered &a, int64_t image, int64_t pixel,
				   int64_t channel, int64_t plane)
{
	return image * (int64_t)a.c.y_n + channel_at((int)channel, plane, a.y_block) +
	       pixel * (int64_t)(a.y_block ? a.y_block : 1);
}

/* A pass's sum meets those before it, as conv_c's residual does behind the first. */
static DEV inline float meet(const struct conv_ends &o, int64_t place, int pass, float before,
			     float sum)
{
	if (ORDER == RLX_CONV_ORDER_ND)
		return pass ? before + sum : sum;
	if (pass)
		return sum + before;
	return o.res ? sum + o.res[place] : sum;
}

/* All passes done: the sum's end. */
static DEV inline void end(const struct rlx_k_conv_ordered &a, const struct conv_ends &o,
			   int64_t channel, int64_t place, float sum)
{
	if (ORDER == RLX_CONV_ORDER_ND) {
		sum += o.bias ? ((const float *)o.bias)[channel] : 0;
		if (o.res)
			sum += o.res[place];
	}
	o.y[place] = vf_act(sum, (int)a.c.act, a.c.act_a, a.c.act_b);
}

#ifdef RLX_KERNEL_conv_ordered
struct tiles {
	float		a[DEPTH][EDGE + 4], b[DEPTH][EDGE + 4];
	struct met	met[DEPTH];
};

/* A block's tile, and what a thread reads for it. */
struct job {
	struct conv_tile	t;
	struct terms		order;
	struct source		from;

	DEV job(const struct rlx_k_conv_ordered &a, const struct rlx_g_env &env, int64_t tile)
		: t(conv_tile_at(a.c, env, tile, EDGE, EDGE)), order(a, t.c)
	{
		int64_t col = t.col + threadIdx.x % EDGE;

		from.set(a, t.c, conv_col_at(a.c, t.c, col < t.c.cols ? col : 0));
	}
};

/* Terms [@k, @k + DEPTH), of which those below @last are of the pass, in shared memory. */
static DEV inline void fetch(const struct rlx_k_conv_ordered &a, const struct job &j,
			     struct tiles *s, int k, int last)
{
	const struct conv_tile &t = j.t;
	int id = (int)threadIdx.x, term = id % DEPTH;

	__syncthreads();
	if (id < DEPTH && k + id < last)
		s->met[id].set(a, t.c, j.order.at(t.c, k + id));
	__syncthreads();
	for (int row = id / DEPTH; row < EDGE; row += 256 / DEPTH) {
		bool in = k + term < last && t.row + row < t.c.rows;
		const float *w = t.c.w + (t.row + row) * t.c.row_step;

		s->a[term][row] = !in ? -0.0f : w[s->met[term].weight];
	}
	for (int i = id / EDGE; i < DEPTH; i += 256 / EDGE)
		s->b[i][id % EDGE] = k + i < last ? bits_f32(j.from.get(a, s->met[i])) : 0;
	__syncthreads();
}

static DEV inline void multiply(float (*sum)[PER], const struct tiles *s)
{
	int x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16;

#pragma unroll
	for (int k = 0; k < DEPTH; k++)
#pragma unroll
		for (int j = 0; j < PER; j++) {
			float b = s->b[k][x + 16 * j];

#pragma unroll
			for (int i = 0; i < PER; i++)
				sum[i][j] = step(sum[i][j], s->a[k][y * PER + i], b);
		}
}

/* The block's tile @i. */
static DEV inline void product(const struct rlx_k_conv_ordered &a, const struct rlx_g_env &env,
			       struct tiles *s, int64_t i)
{
	const struct conv_ends o = conv_ends_of(a.c, env, false, 0);
	const struct job j(a, env, i);
	const struct conv_tile &t = j.t;
	int x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16, first = 0, pass = 0;
	float before[PER][PER];

	do {
		int last = j.order.end(t.c, pass, first);
		float sum[PER][PER];

#pragma unroll
		for (int e = 0; e < PER * PER; e++) {
			int64_t row = t.row + y * PER + e / PER;

			sum[e / PER][e % PER] = pass || row >= t.c.rows ? 0 :
						begin_at(o, t.c.group * t.c.rows + row);
		}
		for (; first < last; first += DEPTH) {
			fetch(a, j, s, first, last);
			multiply(sum, s);
		}
		first = last;
#pragma unroll
		for (int e = 0; e < PER * PER; e++) {
			int64_t row = t.row + y * PER + e / PER, at = t.col + x + e % PER * 16;
			int64_t channel = t.c.group * t.c.rows + row, place;
			float *v = &before[e / PER][e % PER];
			struct conv_col c;

			if (row >= t.c.rows || at >= t.c.cols)
				continue;
			c = conv_col_at(a.c, t.c, at);
			place = place_of(a, c.image, c.pixel, channel, o.plane);
			*v = meet(o, place, pass, *v, sum[e / PER][e % PER]);
			if (first == t.c.depth)
				end(a, o, channel, place, *v);
		}
		pass++;
	} while (first < t.c.depth);
	__syncthreads();
}

RLX_G_KERNEL(conv_ordered, struct rlx_k_conv_ordered, 256)
{
	SHARED(struct tiles, s, [1]);
	int64_t tiles = rlx_g_conv_tiles(&a.c, EDGE, EDGE);

	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x)
		product(a, env, s, t);
}
#else
/* The phase of output pixel @q, which becomes the pixel's place in it. */
static DEV inline int64_t phase_of(const struct rlx_k_conv_nd &a, int64_t *q)
{
	int64_t phase = 0;

	for (int i = 0; i < 3; i++) {
		int64_t n = rlx_g_conv_phases(&a, i), rest;

		q[i] = divide(q[i], n, &rest);
		phase = phase * n + rest;
	}
	return phase;
}

/* Channel @channel's pixel of an image. */
static DEV inline void one(const struct rlx_k_conv_ordered &a, const struct rlx_g_env &env,
			   int64_t image, int64_t channel, int64_t pixel)
{
	const struct conv_ends o = conv_ends_of(a.c, env, false, 0);
	int64_t row, group = divide(channel, (int64_t)(a.c.oc / a.c.groups), &row), q[3], rest;
	int64_t place = place_of(a, image, pixel, channel, o.plane);
	float before = 0;
	int first = 0, pass = 0;
	struct conv_col col;
	struct source from;

	rest = divide(pixel, (int64_t)a.c.out[2], &q[2]);
	q[0] = divide(rest, (int64_t)a.c.out[1], &q[1]);
	rest = phase_of(a.c, q);
	const struct conv c = conv_at(a.c, env, rest, group);
	const struct terms terms(a, c);

	col.image = image;
	for (int i = 0; i < 3; i++)
		col.at[i] = (int)q[i] * c.dim[i].s + c.dim[i].at;
	from.set(a, c, col);
	do {
		int last = terms.end(c, pass, first);
		float sum = pass ? 0 : begin_at(o, channel);

		for (; first < last; first++) {
			struct met m;

			m.set(a, c, terms.at(c, first));
			sum = step(sum, c.w[row * c.row_step + m.weight],
				   bits_f32(from.get(a, m)));
		}
		before = meet(o, place, pass++, before, sum);
	} while (first < c.depth);
	end(a, o, channel, place, before);
}

/* Outputs as y has them, side by side. */
RLX_G_KERNEL(conv_ordered_each, struct rlx_k_conv_ordered, 256)
{
	int64_t lanes = a.y_block ? (int64_t)a.y_block : 1, plane = conv_plane(a.c);
	int64_t blocks = ((int64_t)a.c.oc + lanes - 1) / lanes;
	int64_t n = (int64_t)a.c.n * blocks * plane * lanes;

	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t lane, pixel, block, image;

		image = divide(divide(divide(i, lanes, &lane), plane, &pixel), blocks, &block);
		if (block * lanes + lane < (int64_t)a.c.oc)
			one(a, env, image, block * lanes + lane, pixel);
	}
}
#endif
