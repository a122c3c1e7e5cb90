// SPDX-License-Identifier: MIT
/*
 * Convolutions of 3 x 3 taps by Winograd's minimal filtering, F(2 x 2, 3 x 3) or F(4 x 4, 3 x 3),
 * with strict bits: where the CPU does so (kernels/cpu/conv_wino.c), in its order. Blocked x and y.
 *
 * Algorithm: launches one after the other: weights to planes, in doubles; then of some images at a
 * time tiles of input to planes; the products of each plane, channel by channel in passes of
 * @pass eights that are added up; sums back to pixels, with bias, residual and activation. A tile
 * whose sums are beyond f32 is done by a sum for each pixel: see tile_direct() there.
 *
 * Tiles: of products 64 channels x 64 tiles by 16, 4 x 4 sums a thread of 256.
 * Traffic: (m + 2)^2 / m^2 floats for each input and each output, written and read once or, inputs,
 * ceil(channels / 64) times; weights as many as planes.
 * Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
 * Limits: stride, dilation and groups 1; f32. One stage: loads and products do not overlap.
 */
#define ELEM_TYPE	2	/* RLX_F32 */
#define CONV_TRANSPOSED	0
#define RLX_G_BLOCKS	2
#include "kernels/gpu/conv.h"
#include "kernels/simd/act.h"
#include "kernels/simd/wino_lines.h"

enum { M = WINO_M, SIDE = M + 2, POS = SIDE * SIDE, EDGE = 64, PER = 4, DEPTH = 16 };

/* What lies in scratch: planes of weights, of inputs and of sums; the images at hand. */
struct planes {
	float	*w, *x, *sum;
	const float *from, *given;	/* x and w as they are */
	struct conv_ends ends;
	int64_t	ic, oc, across, each, first, images, tiles;

	DEV planes(const struct rlx_k_conv_ordered &a, const struct rlx_g_env &env)
		: from(RLX_G_PTR(const float, a.c.x)), given(RLX_G_PTR(const float, a.c.w)),
		  ends(conv_ends_of(a.c, env, false, 0)), ic((int64_t)a.c.ic), oc((int64_t)a.c.oc),
		  across(((int64_t)a.c.out[2] + M - 1) / M),
		  each(across * (((int64_t)a.c.out[1] + M - 1) / M)),
		  first(env.pass ? (env.pass - 1) / 3 * (int64_t)a.images : 0),
		  images((int64_t)a.c.n - first < (int64_t)a.images ? (int64_t)a.c.n - first :
								      (int64_t)a.images),
		  tiles(images * each)
	{
		w = (float *)env.scratch;
		x = w + POS * ic * oc;
		sum = x + POS * ic * (int64_t)a.images * each;
	}
};

/* Element @channel of pixel 0 of an image's blocks. */
static DEV inline int64_t lane_of(int64_t channel, int64_t plane, size_t block)
{
	int64_t lane, b = divide(channel, (int64_t)block, &lane);

	return b * plane * (int64_t)block + lane;
}

/* The planes of each filter: [position][input channel][output channel]. */
static DEV inline void weights(const struct planes &p)
{
	for (int64_t e = line_first(); e < p.ic * p.oc; e += line_step()) {
		int64_t o, i = divide(e, p.oc, &o);
		double g[9], t[3 * SIDE], out[SIDE];

		for (int k = 0; k < 9; k++)
			g[k] = p.given[(o * p.ic + i) * 9 + k];
		for (int k = 0; k < 3; k++)
			weight_line(g + k, 3, t + k, 3, M);
		for (int y = 0; y < SIDE; y++) {
			weight_line(t + y * 3, 1, out, 1, M);
			for (int x = 0; x < SIDE; x++)
				p.w[(y * SIDE + x) * p.ic * p.oc + e] = (float)out[x];
		}
	}
}

/* An image's pixel (@y, @x) of a channel, 0 beyond it. @from: the channel's first */
static DEV inline float pixel(const struct rlx_k_conv_ordered &a, const float *from, int64_t y,
			      int64_t x)
{
	bool in = (uint64_t)y < a.c.in[1] && (uint64_t)x < a.c.in[2];

	return load_if(from + (y * (int64_t)a.c.in[2] + x) * (int64_t)a.x_block, in);
}

/* Where a tile begins in the output, and its image. */
struct tile {
	int64_t	image, y, x;

	DEV tile(const struct planes &p, int64_t t)
	{
		int64_t at;

		image = p.first + divide(t, p.each, &at);
		y = divide(at, p.across, &x) * M;
		x *= M;
	}
};

/* [position][input channel][tile] */
static DEV inline void inputs(const struct rlx_k_conv_ordered &a, const struct planes &p)
{
	int64_t plane = (int64_t)(a.c.in[1] * a.c.in[2]), n = p.ic * p.tiles;

	for (int64_t e = line_first(); e < n; e += line_step()) {
		int64_t at, i = divide(e, p.tiles, &at);
		const struct tile t(p, at);
		const float *x = p.from + t.image * (int64_t)a.c.x_n + lane_of(i, plane, a.x_block);
		float d[POS], u[POS];

#pragma unroll
		for (int k = 0; k < POS; k++)
			d[k] = pixel(a, x, t.y + k / SIDE - (int64_t)a.c.p[1],
				     t.x + k % SIDE - (int64_t)a.c.p[2]);
#pragma unroll
		for (int k = 0; k < SIDE; k++)
			in_line(d + k, u + k, SIDE, M);
#pragma unroll
		for (int k = 0; k < SIDE; k++)
			in_line(u + k * SIDE, d + k * SIDE, 1, M);
#pragma unroll
		for (int k = 0; k < POS; k++)
			p.x[k * n + e] = d[k];
	}
}

struct staged {
	float	a[DEPTH][EDGE + 4], b[DEPTH][EDGE + 4];
};

/* Of a plane the sums of 64 channels from @row on by 64 tiles from @col on. */
static DEV inline void product(const struct planes &p, struct staged *s, int64_t pos, int64_t row,
			       int64_t col, int64_t pass)
{
	const float *w = p.w + pos * p.ic * p.oc + row, *x = p.x + pos * p.ic * p.tiles + col;
	int id = (int)threadIdx.x, tx = id % 16, ty = id / 16;
	float before[PER][PER];

	for (int64_t first = 0; first < p.ic; first += pass) {
		int64_t last = first + pass < p.ic ? first + pass : p.ic;
		float sum[PER][PER] = {};

		for (int64_t k = first; k < last; k += DEPTH) {
			__syncthreads();
			for (int e = id; e < DEPTH * EDGE; e += 256) {
				int64_t at = k + e / EDGE, i = e % EDGE;

				s->a[e / EDGE][i] = at >= last || row + i >= p.oc ? -0.0f :
						    w[at * p.oc + i];
				s->b[e / EDGE][i] = at >= last || col + i >= p.tiles ? 0 :
						    x[at * p.tiles + i];
			}
			__syncthreads();
#pragma unroll
			for (int e = 0; e < DEPTH * PER * PER; e++) {
				int i = e / PER % PER, j = e % PER, at = e / PER / PER;

				sum[i][j] = fmaf(s->b[at][tx + 16 * j], s->a[at][ty * PER + i],
						 sum[i][j]);
			}
		}
#pragma unroll
		for (int e = 0; e < PER * PER; e++)
			before[e / PER][e % PER] = !first ? sum[e / PER][e % PER] :
				sum[e / PER][e % PER] + before[e / PER][e % PER];
	}
#pragma unroll
	for (int e = 0; e < PER * PER; e++) {
		int64_t r = row + ty * PER + e / PER, c = col + tx + e % PER * 16;

		if (r < p.oc && c < p.tiles)
			p.sum[(pos * p.oc + r) * p.tiles + c] = before[e / PER][e % PER];
	}
}

static DEV inline void products(const struct rlx_k_conv_ordered &a, const struct planes &p,
				struct staged *s)
{
	int64_t down = (p.oc + EDGE - 1) / EDGE, across = (p.tiles + EDGE - 1) / EDGE;

	for (int64_t t = blockIdx.x; t < POS * down * across; t += gridDim.x) {
		int64_t col, row, pos = divide(divide(t, down, &row), across, &col);

		product(p, s, pos, row * EDGE, col * EDGE, (int64_t)(a.pass * a.lanes));
	}
}

/* The weights of an input channel from their planes: see weights_back() on the CPU. */
static DEV inline void weights_back(const struct planes &p, int64_t i, int64_t o, float *g)
{
	const float first = M == 2 ? 1 : PA2 * PB2, odd = M == 2 ? 1 : PA * (PA2 - PB2);
	const int at[4] = { 0, 1, 2, SIDE - 1 };
	float t[4][3];

	for (int y = 0; y < 4; y++) {
		float q[4];

		for (int x = 0; x < 4; x++)
			q[x] = p.w[((at[y] * SIDE + at[x]) * p.ic + i) * p.oc + o];
		t[y][0] = q[0] * first;
		t[y][1] = (q[1] - q[2]) * odd;
		t[y][2] = q[3];
	}
	for (int x = 0; x < 3; x++) {
		g[x] = t[0][x] * first;
		g[3 + x] = (t[1][x] - t[2][x]) * odd;
		g[6 + x] = t[3][x];
	}
}

/* Pixel (@y, @x) of the output by a sum of its own. */
static DEV_OUTLINE float direct(const struct rlx_k_conv_ordered &a, const struct planes &p,
				const struct tile &t, int64_t o, int64_t y, int64_t x)
{
	const float *from = p.from + t.image * (int64_t)a.c.x_n;
	int64_t plane = (int64_t)(a.c.in[1] * a.c.in[2]);
	float sum = 0, g[9];

	for (int64_t i = 0; i < p.ic; i++) {
		weights_back(p, i, o, g);
		for (int k = 0; k < 9; k++)
			sum = fmaf(pixel(a, from + lane_of(i, plane, a.x_block),
					 y + k / 3 - (int64_t)a.c.p[1],
					 x + k % 3 - (int64_t)a.c.p[2]), g[k], sum);
	}
	return sum;
}

/* The tile's pixels of channel @o. */
static DEV inline void end(const struct rlx_k_conv_ordered &a, const struct planes &p,
			   const struct tile &t, int64_t o, const float *q)
{
	const struct conv_ends &ends = p.ends;
	int64_t place = t.image * (int64_t)a.c.y_n + lane_of(o, ends.plane, a.y_block);
	float d[POS], u[M * SIDE], line[M], squares = 0;
	float bias = ends.bias ? ((const float *)ends.bias)[o] : 0;

#pragma unroll
	for (int k = 0; k < POS; k++)
		d[k] = q[k * p.oc * p.tiles];
#pragma unroll
	for (int k = 0; k < SIDE; k++)
		out_line(d + k, SIDE, u + k, SIDE, M);
#pragma unroll
	for (int k = 0; k < M * SIDE; k++)
		squares = fmaf(u[k], u[k], squares);
#pragma unroll
	for (int k = 0; k < M * M; k++) {
		int64_t y = t.y + k / M, x = t.x + k % M;
		int64_t at = place + (y * (int64_t)a.c.out[2] + x) * (int64_t)a.y_block;
		float v;

		if (k % M == 0)
			out_line(u + k / M * SIDE, 1, line, 1, M);
		if (y >= (int64_t)a.c.out[1] || x >= (int64_t)a.c.out[2])
			continue;
		v = squares < INFINITY ? line[k % M] : direct(a, p, t, o, y, x);
		v += bias;
		if (ends.res)
			v += ends.res[at];
		ends.y[at] = vf_act(v, (int)a.c.act, a.c.act_a, a.c.act_b);
	}
}

RLX_G_KERNEL(conv_winograd, struct rlx_k_conv_ordered, 256)
{
	SHARED(struct staged, s, [1]);
	const struct planes p(a, env);

	if (!env.pass) {
		weights(p);
	} else if (env.pass % 3 == 1) {
		inputs(a, p);
	} else if (env.pass % 3 == 2) {
		products(a, p, s);
	} else {
		for (int64_t e = line_first(); e < p.oc * p.tiles; e += line_step()) {
			int64_t at, o = divide(e, p.tiles, &at);

			end(a, p, tile(p, at), o, p.sum + e);
		}
	}
}
