// SPDX-License-Identifier: MIT
/*
 * Small-M GEMM of f16 or bf16 by weights in fp8, at the speed at which those come from
 * memory, and such weights as f16 or bf16, for GEMMs of larger M.
 *
 * As in gemv_stream.cu each warp has its own part of k and a ring of stages that asynchronous
 * copies fill ahead of it, and k is summed up in the order that b's bytes lie in: by columns
 * a lane has 16 of them side by side; by rows transposed loads turn pairs of bytes, so that
 * of 16 columns the even ones are one product's and the odd ones another's.
 *
 * Parameters are as those of gemv_stream.cu; STREAM_TYPE: of a, STREAM_E5M2: b is of f8e5m2.
 */
#include "kernels/gpu/gemm.h"
#include "kernels/gpu/mma.h"
#include "kernels/cast.h"
#include "kernels/gemv_stream_f8.h"

#define E5M2		(STREAM_E5M2 != 0)

struct alignas(16) words { uint32_t w[4]; };

#ifdef RLX_KERNEL_transpose_f8
/* A block for 64 x 64 bytes: a thread has 16 of a row, then of a column. */
RLX_G_KERNEL(transpose_f8, struct rlx_k_transpose_f8, 256)
{
	enum { EDGE = 64, PITCH = EDGE + 4 };
	SHARED(uint32_t, tile, [EDGE * PITCH / 4]);
	const uint8_t *src = RLX_G_PTR(const uint8_t, a.src), *from = (const uint8_t *)tile;
	uint8_t *dst = RLX_G_PTR(uint8_t, a.dst);
	int64_t across = (a.cols + EDGE - 1) / EDGE, down = (a.rows + EDGE - 1) / EDGE;
	int line = (int)threadIdx.x / 4, at = (int)threadIdx.x % 4 * 16;

	for (int64_t t = blockIdx.x; t < a.batch * across * down; t += gridDim.x) {
		int64_t row = t / across % down * EDGE, col = t % across * EDGE;
		int64_t base = t / across / down * a.rows * a.cols;

		if (row + line < a.rows && col + at < a.cols) {
			words w = *(const words *)(src + base + (row + line) * a.cols + col + at);

#pragma unroll
			for (int e = 0; e < 4; e++)
				tile[(line * PITCH + at) / 4 + e] = w.w[e];
		}
		__syncthreads();
		if (col + line < a.cols && row + at < a.rows) {
			words w = {};

#pragma unroll
			for (int e = 0; e < 16; e++)
				w.w[e / 4] |= (uint32_t)from[(at + e) * PITCH + line] << e % 4 * 8;
			*(words *)(dst + base + (col + line) * a.rows + row + at) = w;
		}
		__syncthreads();
	}
}
#elif defined(RLX_KERNEL_narrow_f8)
/* f32 as fp8, 16 by a thread. */
RLX_G_KERNEL(narrow_f8, struct rlx_k_cast, 256)
{
	const float *src = RLX_G_PTR(const float, a.src);
	uint8_t *dst = RLX_G_PTR(uint8_t, a.dst);
	int64_t step = (int64_t)gridDim.x * 256;

	for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i * 16 < a.n; i += step)
#pragma unroll
		for (int e = 0; e < 16; e += 2) {
			int64_t at = i * 16 + e;
			uint32_t w = pack_f8<E5M2>(at < a.n ? src[at] : 0,
						   at + 1 < a.n ? src[at + 1] : 0);

			if (at < a.n)
				dst[at] = (uint8_t)w;
			if (at + 1 < a.n)
				dst[at + 1] = (uint8_t)(w >> 8);
		}
}
#else
typedef rlx_t<STREAM_TYPE>::mem half;

/* Bytes @i and @j of @w as a word of two 16-bit floats. */
template <int I, int J> static DEV inline uint32_t widen(uint32_t w)
{
#if defined(RLX_EMU) || RLX_ARCH < 89
	uint8_t x = (uint8_t)(w >> 8 * I), y = (uint8_t)(w >> 8 * J);

	return E5M2 ? pack_halves<half>(to_f32(f8e5m2{ x }), to_f32(f8e5m2{ y })) :
		      pack_halves<half>(to_f32(f8e4m3{ x }), to_f32(f8e4m3{ y }));
#else
	uint32_t u;

	if (E5M2) {	/* the upper bytes of f16 */
		u = pick_bytes(w, 0, J << 12 | I << 4 | 0x404);
	} else {
		u = pick_bytes(w, 0, J << 4 | I | 0x4400);
		asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(u) : "h"((uint16_t)u));
	}
	if constexpr (!mma_kind<half>::bf)
		return u;
	return pack_halves<half>(f16_to_f32((uint16_t)u), f16_to_f32((uint16_t)(u >> 16)));
#endif
}

#ifdef RLX_KERNEL_widen_f8
/* All of an operand, 16 bytes by a thread. */
RLX_G_KERNEL(widen_f8, struct rlx_k_cast, 256)
{
	const uint8_t *src = RLX_G_PTR(const uint8_t, a.src);
	uint32_t *dst = RLX_G_PTR(uint32_t, a.dst);
	int64_t step = (int64_t)gridDim.x * 256;

	for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i * 16 < a.n; i += step) {
		int left = a.n - i * 16 < 16 ? (int)(a.n - i * 16) : 16;
		words x, y[2];

		if (left < 16 || (uint64_t)src % 16) {
			for (int e = 0; e < left; e++)
				((uint16_t *)dst)[i * 16 + e] =
					(uint16_t)widen<0, 0>(src[i * 16 + e]);
			continue;
		}
		x = ((const words *)src)[i];
#pragma unroll
		for (int e = 0; e < 4; e++) {
			y[e / 2].w[e % 2 * 2] = widen<0, 1>(x.w[e]);
			y[e / 2].w[e % 2 * 2 + 1] = widen<2, 3>(x.w[e]);
		}
		((words *)dst)[i * 2] = y[0];
		((words *)dst)[i * 2 + 1] = y[1];
	}
}
#else

typedef rlx_t<STREAM_TYPE_C>::mem type_c;
typedef gemm_operands<float, half, uint8_t, type_c> operands;

#define BOTH		(MMA_A == 4 && STREAM_16_ROWS)	/* rows 8 .. 15 too */
#define FIXED		(STREAM_B_FIXED != 0)
#define BY_ROWS		(STREAM_B_ROWS != 0)

enum {
	THREADS = STREAM_THREADS, WARPS = THREADS / RLX_WARP, STAGES = STREAM_STAGES,
	TILES = (STREAM_COLS + MMA_N - 1) / MMA_N, COLS = TILES * MMA_N,
	DEPTH = 64,				/* k of a stage */
	ROWS = 16,
	PITCH = COLS + (40 - COLS % 32) % 32,	/* of sums: lanes store to banks of their own */
	/* A stage is COLS columns of DEPTH k, or DEPTH rows: lines of some 16-byte pieces */
	PIECES = BY_ROWS ? COLS / 16 : DEPTH / 16, LINES = BY_ROWS ? DEPTH : COLS,
	ACROSS = RLX_WARP / PIECES,		/* lines of a copy of the whole warp */
	COPIES = (LINES + ACROSS - 1) / ACROSS,
	STAGE = COLS * DEPTH / 16,		/* pieces */
	/* k from a lane's part of a step to that of the next lane, and to its other half */
	SHARE = BY_ROWS ? 8 : 16, OTHER = BY_ROWS ? 32 : 8,
};

/* Which quarter of a step's k this lane has in fragments of either side. */
static DEV inline int quarter(void)
{
	return MMA_A == 4 ? lane_id() % 4 : lane_id() / 16;
}

/* Where a piece of a line is, in an order that keeps lanes to banks of their own. */
static DEV inline int place(int line, int at)
{
	int far = line >> 3 & 3;

	if (!BY_ROWS)
		return line * PIECES + at;
	if (PIECES == 2)
		return (line * 2 + at) ^ (far & 1) << 2 ^ far >> 1;
	return line * PIECES + (at ^ (PIECES == 8 ? (line & 1) | far << 1 : far));
}

/* Where this lane reads b next. */
struct source {
	const uint8_t	*p;
	int64_t		step, next;	/* bytes to the lane's next line, to the next stage */
	int		columns;	/* of COLS that are there */

	/* The next stage; @left: k that are left for the warp. */
	DEV void fetch(words *stage, int left)
	{
		int line = lane_id() / PIECES, at = lane_id() % PIECES;
		const uint8_t *q = p;

		if (left > 0)
#pragma unroll
			for (int i = 0; i < COPIES; i++, q += step) {
				int l = i * ACROSS + line;
				bool in = BY_ROWS ? l < left && at * 16 < columns :
					  at * 16 < left && l < columns;

				if (LINES % ACROSS == 0 || l < LINES)
					copy_async(stage + place(l, at), q, 16, in ? 16 : 0);
			}
		copy_commit();
		p += next;
	}
};

/* Two rows of a at one step. */
struct part {
	words	x[2][2];	/* [half of the step] */
};

struct rows {
	const half	*p[2];	/* where this lane reads next */
	bool		is[2];	/* beyond the last row there is nothing */

	/* The next step; @left: elements from the lane's own on. */
	DEV part load(int left)
	{
		part q = {};

#pragma unroll
		for (int h = 0; h < 2; h++) {
			load_words(q.x[0][h].w, p[0] + h * OTHER, is[0] && left > h * OTHER);
			if (BOTH)
				load_words(q.x[1][h].w, p[1] + h * OTHER,
					   is[1] && left > h * OTHER);
		}
		p[0] += WARPS * DEPTH;
		p[1] += WARPS * DEPTH;
		return q;
	}
};

/* Bytes of four columns' k where there is no instruction that turns them. */
static DEV inline void transpose_bytes(uint32_t *w, const words *stage, int h, int col)
{
	for (int p = 0; p < 4; p++) {
		int line = h * 32 + quarter() * 8 + p * 2;
		const uint8_t *u = (const uint8_t *)(stage + place(line, col / 16)) + col % 16;
		const uint8_t *v = (const uint8_t *)(stage + place(line + 1, col / 16)) + col % 16;

		w[p] = (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)v[0] << 16 |
		       (uint32_t)v[1] << 24;
	}
}

/* c += a b of half @h of a step: its words of k two at a time. */
static DEV inline void multiply_half(float (*c)[MMA_C], const words *stage, int h, const part &x)
{
#pragma unroll
	for (int j = 0; j < TILES; j += BY_ROWS ? 2 : 1) {
		uint32_t w[4], b[2][2][MMA_B];

		if constexpr (BY_ROWS) {
			int l = lane_id();

			if (MMA_LDMATRIX)
				ldmatrix(w, stage + place(h * 32 + l % 8 / 2 * 8 + l % 2 + l / 8 * 2,
							  j / 2), 4, true);
			else
				transpose_bytes(w, stage, h, j * MMA_N + mma_b_col(0) * 2);
#pragma unroll
			for (int p = 0; p < 4; p++) {
				b[0][p / 2][p % 2] = widen<0, 2>(w[p]);
				b[1][p / 2][p % 2] = widen<1, 3>(w[p]);
			}
		} else {
			const uint32_t *u = stage[place(j * MMA_N + mma_b_col(0), quarter())].w +
					    h * 2;

#pragma unroll
			for (int p = 0; p < 2; p++) {
				b[0][p][0] = widen<0, 1>(u[p]);
				b[0][p][1] = widen<2, 3>(u[p]);
			}
		}
#pragma unroll
		for (int p = 0; p < 4; p += 2) {
#if RLX_WARP == 32
			uint32_t a[4] = { x.x[0][h].w[p], x.x[1][h].w[p], x.x[0][h].w[p + 1],
					  x.x[1][h].w[p + 1] };
#else
			uint32_t a[2] = { x.x[0][h].w[p], x.x[0][h].w[p + 1] };
#endif

			mma<half>(c[j], a, b[0][p / 2]);
			if (BY_ROWS)
				mma<half>(c[j + 1], a, b[1][p / 2]);
		}
	}
}

static DEV inline float get(type_c x) { return to_f32(x); }
static DEV inline type_c put(float x) { return from_f32<type_c>(x); }

/* Column of element @e of product @j. */
static DEV inline int column(int j, int e)
{
	return BY_ROWS ? j / 2 * 2 * MMA_N + mma_c_col(e) * 2 + j % 2 : j * MMA_N + mma_c_col(e);
}

/* Sums of all warps, then the epilogue of each. @smem: WARPS x (ROWS x PITCH) */
static DEV inline void finish(const struct rlx_k_gemm &g, const operands &o, int row, int col,
			      const void *scales, const float *smem)
{
	for (int e = (int)threadIdx.x; e < ROWS * COLS; e += THREADS) {
		int r = e / COLS, c = e % COLS;
		float v = 0;

		if (row + r >= (int)g.m || col + c >= (int)g.n)
			continue;
#pragma unroll
		for (int i = 0; i < WARPS; i++)
			v += smem[(i * ROWS + r) * PITCH + c];
		if (scales)
			v *= load_float(scales, g.one_scale ? 0 : col + c, g.scale_type);
		o.finish(g, (size_t)(row + r), (size_t)(col + c), v, get, put);
	}
}

/* Blocks next to each other are of the same columns, which then come from memory once. */
RLX_G_KERNEL_PDL(gemv_stream_f8, struct rlx_k_gemv_stream_f8, THREADS)
{
	SHARED_DYNAMIC(shared);
	words *ring = (words *)shared + warp_id() * STAGES * STAGE;
	const struct rlx_k_gemm &g = a.g;
	int down = ((int)g.m + ROWS - 1) / ROWS;
	int first = (int)blockIdx.x / down * COLS, top = (int)blockIdx.x % down * ROWS;
	int k = (int)g.k, at = warp_id() * DEPTH, ahead = at, fill = 0, stage = 0;
	int line = lane_id() / PIECES, piece = lane_id() % PIECES * 16;
	int64_t ldb = (int64_t)g.ldb;
	struct source b = { RLX_G_PTR(const uint8_t, g.b), ACROSS * ldb,
			    WARPS * DEPTH * (BY_ROWS ? ldb : 1), (int)g.n - first };
	float c[TILES][MMA_C] = {};

	b.p += BY_ROWS ? (at + line) * ldb + first + piece : (first + line) * ldb + at + piece;
	if (!FIXED)	/* else nobody writes b: its first stages come while others end */
		pdl_wait();
	for (; fill < STAGES - 1; fill++, ahead += WARPS * DEPTH)
		b.fetch(ring + fill * STAGE, k - ahead);
	if (FIXED)
		pdl_wait();

	operands o(g, env, 0);
	int row = top + mma_a_row(0), mine = at + quarter() * SHARE;
	struct rows x = { { o.a + row * (int64_t)g.lda + mine,
			    o.a + (row + 8) * (int64_t)g.lda + mine },
			  { row < (int)g.m, row + 8 < (int)g.m } };
	part q = x.load(k - mine);

	for (; at < k; at += WARPS * DEPTH, ahead += WARPS * DEPTH) {
		part next;

		mine += WARPS * DEPTH;
		next = x.load(k - mine);
		copy_wait<STAGES - 2>();
		warp_sync();
		/* into the stage that the warp has left behind */
		b.fetch(ring + fill * STAGE, k - ahead);
#pragma unroll
		for (int h = 0; h < 2; h++)
			multiply_half(c, ring + stage * STAGE, h, q);
		fill = fill + 1 < STAGES ? fill + 1 : 0;
		stage = stage + 1 < STAGES ? stage + 1 : 0;
		q = next;
	}
	copy_wait<0>();
	__syncthreads();

	float *sums = (float *)shared + warp_id() * ROWS * PITCH;

#pragma unroll
	for (int j = 0; j < TILES; j++)
#pragma unroll
		for (int e = 0; e < MMA_C; e++)
			if (BOTH || MMA_A != 4 || e < 2)
				sums[mma_c_row(e) * PITCH + column(j, e)] = c[j][e];
	__syncthreads();
	finish(g, o, top, first, RLX_G_PTR(const void, g.scales), (const float *)shared);
}
#endif
#endif
