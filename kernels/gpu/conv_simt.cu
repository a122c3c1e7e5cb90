// SPDX-License-Identifier: MIT
/*
 * Convolutions of f32 or f64 without tensor cores: implicit GEMM by tiles in shared memory.
 *
 * Algorithm: no im2col matrix lies in memory. A table of the step's terms (channel, tap) is worked
 * out once for all columns: how far each lies from where a column begins, and a bit that says
 * whether the column meets it, or, with more than 32 taps, its coordinates. Two stages: a thread
 * brings the next step's elements to registers while simt_multiply() sums up this one.
 *
 * Tiles: 256 threads make 128 channels x 128 pixels by 8 terms (8 x 8 sums each) or 64 x 64 by 16
 * (4 x 4; f64 always). Few tiles: blocks split the terms (split-K), and another launch adds the
 * parts up in order.
 * Traffic: x is read ceil(channels / edge) times for each tap, neighbouring pixels side by side
 * and mostly from caches, weights ceil(pixels / edge) times, y written once with bias, residual
 * and activation. Split sums cost 4 (f64 8) bytes each way for each part.
 * Source: Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning" (2014).
 * Limits: 1 to 3 dimensions, groups, dilation, transposed; positions below 2^30 (launch_conv.h).
 */
/* so many blocks hide the time that memory takes */
#define RLX_G_BLOCKS	(CONV_TILE_M == 128 ? 2 : 3)
#include "kernels/gpu/conv.h"
#include "kernels/gpu/simt.h"

/* As many channels as pixels. */
#if CONV_TILE_M == 128
enum { EDGE = 128, PER = 8, DEPTH = 8 };
#else
enum { EDGE = 64, PER = 4, DEPTH = 16 };
#endif
enum { SIDE = 256 / EDGE, EACH = DEPTH / SIDE };	/* threads of a pixel; terms of one */

typedef conv_table<DEPTH> table;

struct tiles {
	real	a[2][DEPTH][EDGE + 4], b[2][DEPTH][EDGE + 4];
	table	tab[2];
	int64_t	place[EDGE];
};

/* What a thread brings from memory for a step. */
struct staged {
	mem	w[EACH], x[EACH];

	DEV void get(const struct rlx_k_conv_nd &a, const struct conv_tile &t,
		     const struct conv_source &from, const table &tab, int at)
	{
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			int e = (int)threadIdx.x + i * 256;

			w[i] = conv_weight_at(a, t.c, tab, t.row + e / DEPTH, at, e % DEPTH);
		}
		from.get<EACH>(x, a, tab, (int)threadIdx.x / EDGE * EACH);
	}

	DEV void put(real (*as)[EDGE + 4], real (*bs)[EDGE + 4]) const
	{
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			int e = (int)threadIdx.x + i * 256;

			as[e % DEPTH][e / DEPTH] = w[i];
			bs[(int)threadIdx.x / EDGE * EACH + i][(int)threadIdx.x % EDGE] = x[i];
		}
	}
};

/* By shared memory, to store neighbours side by side. */
static DEV inline void finish(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
			      const struct conv_tile &t, const real (*sum)[PER],
			      real (*smem)[EDGE + 4], const int64_t *place)
{
	int x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16;
	int col = (int)threadIdx.x * 4 % EDGE;

#pragma unroll 1
	for (int i = 0; i < PER; i++) {
		/* registers have no index: the epilogue stands once in the code */
#pragma unroll
		for (int k = 0; k < PER; k++)
#pragma unroll
			for (int j = 0; j < PER && k == i; j++)
				smem[y][x + 16 * j] = sum[k][j];
		__syncthreads();
#pragma unroll 1
		for (int r = (int)threadIdx.x * 4 / EDGE; r < 16; r += 1024 / EDGE)
			if (t.row + r * PER + i < t.c.rows)
				conv_end<4>(a, o, t.c.group * t.c.rows + t.row + r * PER + i,
					    place + col, smem[r] + col);
		__syncthreads();
	}
}

static DEV inline void product(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env,
			       struct tiles *s, int64_t tile)
{
	struct conv_tile t = conv_tile_at(a, env, tile, EDGE, EDGE);
	int64_t col = t.col + threadIdx.x % EDGE;
	bool any = col < t.c.cols;
	real sum[PER][PER] = {};
	struct conv_col at = conv_col_at(a, t.c, any ? col : 0);
	struct conv_source from;
	struct conv_walk walk;
	struct staged next;
	int first, last;

	from.set(a, t.c, any, at);
	if (threadIdx.x < EDGE)
		s->place[threadIdx.x] = any ? conv_place(a, at) : -1;
	conv_part(t.c, DEPTH, &first, &last);
	walk.begin(t.c, first * DEPTH + (int)threadIdx.x, DEPTH);
	for (int i = 0; i < 2; i++)
		s->tab[i].fill(a, t.c, &walk);
	__syncthreads();
	if (first < last) {
		next.get(a, t, from, s->tab[0], first * DEPTH);
		next.put(s->a[0], s->b[0]);
	}
	for (int k = first; k < last; k++) {
		int i = (k - first) % 2;

		__syncthreads();
		if (k + 1 < last)
			next.get(a, t, from, s->tab[1 - i], (k + 1) * DEPTH);
		/* everybody has left this table behind at the barrier */
		s->tab[i].fill(a, t.c, &walk);
		simt_multiply<DEPTH>(sum, s->a[i], s->b[i]);
		if (k + 1 < last)
			next.put(s->a[1 - i], s->b[1 - i]);
	}
	__syncthreads();
	finish(a, conv_ends_of(a, env, gridDim.y > 1, 0), t, sum, (real (*)[EDGE + 4])s->a,
	       s->place);
}

RLX_G_KERNEL(conv_simt, struct rlx_k_conv_nd, 256)
{
	SHARED(struct tiles, s, [1]);
	int64_t tiles = rlx_g_conv_tiles(&a, EDGE, EDGE);

	if (env.pass) {
		conv_add_up(a, env, 0);
		return;
	}
	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x)
		product(a, env, s, t);
}
