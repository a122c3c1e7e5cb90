// SPDX-License-Identifier: MIT
/*
 * Convolutions of f16 or bf16 by tensor cores. A first pass repacks input and weights to
 * channels innermost, filled up to whole chunks of 8 with zeros; then terms of a sum
 * come by the chunk, in the order of taps, then channels, and asynchronous copies
 * bring them. What comes channels last is read as it is, but for a plain x.
 *
 * Tiles: 128 channels x 128 pixels by 256 threads, 64 x 128 or 64 x 64 by 128; 32 terms a step,
 * three stages. Traffic: the first pass reads and writes x and the weights once, 2 bytes an
 * element; then x is read ceil(channels / BM) times for each tap and weights ceil(pixels / BN)
 * times, mostly from the L2; y once. With few tiles blocks split the terms (split-K) and a third
 * pass adds f32 parts up in order.
 * Source: implicit GEMM, Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning" (2014).
 * Limits: f16, bf16, y and the residual of that or f32, sums f32; scratch for x and the weights
 * (conv_plan.h).
 */
/* so many blocks hide the time that memory takes */
#define RLX_G_BLOCKS	(CONV_TILE_M == 128 ? 2 : 3)
#define CONV_STEP(a, i)	rlx_g_conv_step(&(a), i)
#include "kernels/gpu/conv.h"
#include "kernels/gpu/conv_repack.h"
#include "kernels/gpu/mma.h"

/* Channels by pixels: 128 x 128, 64 x 128 or 64 x 64. */
enum {
	BM = CONV_TILE_M, BN = CONV_TILE_N, THREADS = BM == 128 ? 256 : 128,
	WARPS_M = BM == 64 && RLX_WARP == 64 ? 1 : 2,
	CHUNKS = 4, DEPTH = 8 * CHUNKS,			/* of a step */
	LD = DEPTH + 8,		/* rows start at 16 bytes in different banks */
	STAGES = RLX_G_CONV_STAGES,
	WARPS_N = THREADS / RLX_WARP / WARPS_M,
	WM = BM / WARPS_M, WN = BN / WARPS_N,		/* a warp's part */
	TM = WM / MMA_M, TN = WN / MMA_N,		/* its products */
	ROWS_A = BM * CHUNKS / THREADS,			/* a chunk of each is a thread's */
	ROWS_B = BN * CHUNKS / THREADS,
	STAGE = (BM + BN) * LD,
};

/* ---- channels innermost ---- */

struct alignas(16) chunk { mem v[8]; };

/* Sizes of the repacked forms: x is [image][pixel][group][wide], w [row][tap][wide]. */
struct repacked {
	int64_t	pixels, wide, taps;
	mem	*x, *w;
};

static DEV inline struct repacked repacked_of(const struct rlx_k_conv_nd &a,
					      const struct rlx_g_env &env)
{
	char *p = (char *)env.scratch;

	return repacked{ rlx_g_conv_repacked_pixels(&a), rlx_g_conv_wide(&a),
		       (int64_t)(a.k[0] * a.k[1] * a.k[2]),
		       a.channels_last && !a.x_plain ? (mem *)RLX_G_PTR(const mem, a.x) : (mem *)p,
		       a.channels_last ? (mem *)RLX_G_PTR(const mem, a.w) :
					 (mem *)(p + rlx_g_conv_x_bytes(&a)) };
}

/* Chunk @i of the repacked weights. */
static DEV inline void repack_w(const struct rlx_k_conv_nd &a, const mem *w,
				const struct repacked &t, int64_t i)
{
	int64_t channels = rlx_g_conv_group(&a, a.ic), rows = rlx_g_conv_group(&a, a.oc);
	int64_t row, tap, c, group, at = i, from, step;
	struct chunk v;

	i = divide(i, t.wide / 8, &c);
	row = divide(i, t.taps, &tap);
	group = divide(row, rows, &row);
	from = CONV_TRANSPOSED ? (group * channels * rows + row) * t.taps :
			      (group * rows + row) * channels * t.taps;
	step = CONV_TRANSPOSED ? rows * t.taps : t.taps;
	for (int k = 0; k < 8; k++)
		v.v[k] = load_if(w + from + (c * 8 + k) * step + tap, c * 8 + k < channels);
	((struct chunk *)t.w)[at] = v;
}

static DEV inline void repack(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env,
			      conv_repack_line *smem)
{
	struct repacked t = repacked_of(a, env);
	int64_t block = blockIdx.x + (int64_t)gridDim.x * blockIdx.y;
	int64_t blocks = (int64_t)gridDim.x * gridDim.y;
	int64_t chunks = (int64_t)a.oc * t.taps * (t.wide / 8);
	const uint16_t *x = (const uint16_t *)RLX_G_PTR(const mem, a.x);

	if (a.skips)
		conv_repack<THREADS, true>(a, x, (uint16_t *)t.x, smem, (int64_t)a.n);
	else
		conv_repack<THREADS, false>(a, x, (uint16_t *)t.x, smem, (int64_t)a.n);
	for (int64_t i = block * THREADS + threadIdx.x; i < chunks && !a.channels_last;
	     i += blocks * THREADS)
		repack_w(a, RLX_G_PTR(const mem, a.w), t, i);
}

/* ---- MMA ---- */

/* Which chunk of terms: digits of its number, the tap's before the channels'. */
struct spot {
	int	j[3], c;

	DEV void set(const struct conv &f, int wide, int i)
	{
		c = i % wide;
		i /= wide;
		j[2] = i % f.dim[2].taps;
		i /= f.dim[2].taps;
		j[1] = i % f.dim[1].taps;
		j[0] = i / f.dim[1].taps;
	}
	DEV void add(const struct conv &f, int wide, const struct spot &by)
	{
		bool over = c + by.c >= wide;

		c += by.c - (over ? wide : 0);
#pragma unroll
		for (int d = 2; d >= 0; d--) {
			j[d] += by.j[d] + over;
			over = d && j[d] >= f.dim[d].taps;
			j[d] -= over ? f.dim[d].taps : 0;
		}
	}
};

/* The chunks a thread brings: one of some rows of weights, one of some pixels. */
struct bringer {
	const mem	*w[ROWS_A], *x[ROWS_B];	/* of the first tap */
	int		at[ROWS_B][3];
	struct spot	now, by;

	DEV void begin(const struct rlx_k_conv_nd &a, const struct repacked &t,
		       const struct conv_tile &tile, int step)
	{
		int lane = (int)threadIdx.x / CHUNKS, wide = (int)t.wide / 8;

#pragma unroll
		for (int i = 0; i < ROWS_A; i++) {
			int64_t row = tile.row + lane + i * (THREADS / CHUNKS);

			w[i] = row < tile.c.rows ? t.w + (tile.c.group * tile.c.rows + row) *
				t.taps * t.wide : (const mem *)0;
		}
#pragma unroll
		for (int i = 0; i < ROWS_B; i++) {
			int64_t col = tile.col + lane + i * (THREADS / CHUNKS), p = 0;
			struct conv_col c = conv_col_at(a, tile.c, col < tile.c.cols ? col : 0);

			for (int d = 0; d < 3; d++) {
				at[i][d] = c.at[d];
				p = p * (int64_t)rlx_g_conv_repacked_dim(&a, d) + c.at[d];
			}
			if (col >= tile.c.cols)
				at[i][0] = -(1 << 30);
			x[i] = t.x + ((c.image * t.pixels + p) * (int64_t)a.groups +
				      tile.c.group) * t.wide;
		}
		if (!tile.c.depth)
			return;
		now.set(tile.c, wide, step * CHUNKS + (int)threadIdx.x % CHUNKS);
		by.set(tile.c, wide, CHUNKS);
	}

	/* the step's chunks to @stage; on to the next step */
	DEV void bring(const struct rlx_k_conv_nd &a, const struct repacked &t,
		       const struct conv &f, mem *stage)
	{
		int tap[3], off[3], k = (int)threadIdx.x % CHUNKS * 8, wt = 0, xt = 0;
		bool any = now.j[0] < f.dim[0].taps;

#pragma unroll
		for (int d = 0; d < 3; d++) {
			off[d] = now.j[d] * f.dim[d].d;
			tap[d] = f.dim[d].tap + now.j[d] * f.dim[d].dtap;
			wt = wt * (int)a.k[d] + tap[d];
			xt = xt * (int)a.in[d] + off[d];
		}
		wt = wt * (int)t.wide + now.c * 8;
		xt = xt * (int)(a.groups * t.wide) + now.c * 8;
		stage += (int)threadIdx.x / CHUNKS * LD + k;
#pragma unroll
		for (int i = 0; i < ROWS_A; i++) {
			bool in = any && w[i];

			copy_async(stage + i * (THREADS / CHUNKS) * LD, in ? w[i] + wt : t.w, 16,
				   in ? 16 : 0);
		}
#pragma unroll
		for (int i = 0; i < ROWS_B; i++) {
			bool in = any && conv_inside(a, at[i], off);

			copy_async(stage + (BM + i * (THREADS / CHUNKS)) * LD,
				   in ? x[i] + xt : t.x, 16, in ? 16 : 0);
		}
		now.add(f, (int)t.wide / 8, by);
	}
};

static DEV inline void multiply(float (*c)[TN][MMA_C], const mem *as, const mem *bs)
{
	as += warp_id() % WARPS_M * WM * LD;
	bs += warp_id() / WARPS_M * WN * LD;
#pragma unroll
	for (int k = 0; k < DEPTH; k += MMA_K) {
		uint32_t fa[TM][MMA_A], fb[TN][MMA_B];

#pragma unroll
		for (int i = 0; i < TM; i++)
			mma_load_a(fa[i], as + i * MMA_M * LD + k, LD, false);
#pragma unroll
		for (int j = 0; j < TN; j++)
			mma_load_b(fb[j], bs + j * MMA_N * LD + k, LD, false);
#pragma unroll
		for (int i = 0; i < TM; i++)
#pragma unroll
			for (int j = 0; j < TN; j++)
				mma<mem>(c[i][j], fa[i], fb[j]);
	}
}

/* Of MMA_M rows by WN pixels the ends, a pixel's channels side by side. */
static DEV inline void finish_last(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
				   const struct conv_tile &t, const float *smem,
				   const int64_t *place, int64_t row)
{
	int r = lane_id() % (MMA_M / 4) * 4, n = (int)(t.c.rows - row) - r;
	const int64_t channel = t.c.group * t.c.rows + row + r;

#pragma unroll 1
	for (int p = lane_id() / (MMA_M / 4); p < WN; p += WARP / (MMA_M / 4)) {
		float v[4];

#pragma unroll
		for (int i = 0; i < 4; i++)
			v[i] = smem[(r + i) * (WN + 4) + p];
		if (place[p] >= 0)
			conv_end_last<4>(a, o, channel, n, place[p], v);
	}
}

/* 16 rows of a warp at a time by shared memory, to store neighbours side by side. */
static DEV inline void finish(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
			      const struct conv_tile &t, const float (*c)[TN][MMA_C],
			      float *smem, const int64_t *place)
{
	int64_t row = t.row + warp_id() % WARPS_M * WM, at[4];
	int col = lane_id() * 4 % WN;

	smem += warp_id() * MMA_M * (WN + 4);
#pragma unroll
	for (int i = 0; i < 4; i++)
		at[i] = place[warp_id() / WARPS_M * WN + col + i];
#pragma unroll 1
	for (int i = 0; i < TM; i++, row += MMA_M) {
		/* registers have no index: the epilogue stands once in the code */
#pragma unroll
		for (int k = 0; k < TM; k++)
#pragma unroll
			for (int e = 0; e < TN * MMA_C && k == i; e++)
				smem[mma_c_row(e % MMA_C) * (WN + 4) + e / MMA_C * MMA_N +
				     mma_c_col(e % MMA_C)] = c[k][e / MMA_C][e % MMA_C];
		warp_sync();
		if (conv_last(a))
			finish_last(a, o, t, smem, place + warp_id() / WARPS_M * WN, row);
#pragma unroll 1
		for (int r = lane_id() * 4 / WN; r < MMA_M && !conv_last(a);
		     r += WARP * 4 / WN)
			if (row + r < t.c.rows)
				conv_end<4>(a, o, t.c.group * t.c.rows + row + r, at,
					    smem + r * (WN + 4) + col);
		warp_sync();
	}
}

static DEV inline void product(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env,
			       mem *shared, int64_t *place, int64_t tile)
{
	struct conv_tile t = conv_tile_at(a, env, tile, BM, BN);
	struct repacked from = repacked_of(a, env);
	float c[TM][TN][MMA_C] = {};
	struct bringer b;
	int first, last;

	if (threadIdx.x < BN) {
		int64_t col = t.col + threadIdx.x;

		place[threadIdx.x] = col < t.c.cols ?
			conv_place(a, conv_col_at(a, t.c, col)) : -1;
	}
	t.c.depth = t.c.taps * (int)from.wide;
	conv_part(t.c, DEPTH, &first, &last);
	b.begin(a, from, t, first);
	for (int s = 0; s < STAGES - 1; s++) {
		if (first + s < last)
			b.bring(a, from, t.c, shared + s * STAGE);
		copy_commit();
	}
	for (int s = first, i = 0; s < last; s++, i = i + 1 == STAGES ? 0 : i + 1) {
		copy_wait<STAGES - 2>();
		__syncthreads();
		/* into the stage that everybody has left behind at the barrier */
		if (s + STAGES - 1 < last)
			b.bring(a, from, t.c, shared + (i ? i - 1 : STAGES - 1) * STAGE);
		copy_commit();
		multiply(c, shared + i * STAGE, shared + i * STAGE + BM * LD);
	}
	copy_wait<0>();
	__syncthreads();
	finish(a, conv_ends_of(a, env, gridDim.y > 1, rlx_g_conv_repacked(&a)), t, c,
	       (float *)shared, place);
	__syncthreads();
}

RLX_G_KERNEL(conv_mma, struct rlx_k_conv_nd, THREADS)
{
	SHARED_DYNAMIC(shared);
	SHARED(int64_t, place, [BN]);
	int64_t tiles = rlx_g_conv_tiles(&a, BM, BN);

	/* nothing is repacked where nothing has to be */
	int pass = (int)env.pass + !rlx_g_conv_repacked(&a);

	if (pass == 0)
		repack(a, env, (conv_repack_line *)shared);
	else if (pass == 2)
		conv_add_up(a, env, rlx_g_conv_repacked(&a));
	for (int64_t t = blockIdx.x; pass == 1 && t < tiles; t += gridDim.x)
		product(a, env, (mem *)shared, place, t);
}
