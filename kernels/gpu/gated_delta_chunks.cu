// SPDX-License-Identifier: MIT
/*
 * The gated delta rule by chunks, from what gated_delta_prepare.cu made of each: the state from
 * chunk to chunk, and the results.
 *
 * Algorithm: a block goes over all chunks of a head with DELTA_COLS values' columns of its state S:
 * new = u - w S, y = scale e^G q S + p new, S = e^Gend S + k' e^(Gend - G) new. Warps are
 * specialized, by teams that have all rows: DELTA_GROUPS of these, which share the columns, have S,
 * f32, in registers and make new and the next S; as many make y; one copies the next chunk's
 * operands, if DELTA_STAGES is 2. S as 16-bit numbers, for the products, and new are in shared
 * memory; barriers part what reads S from what reads new.
 * Bound: what a chunk takes, two products one after the other with a barrier between, while heads
 * and columns are few; else what the L2 gives, as blocks of a head read w, q, k and p each.
 * Source: Yang, Kautz and Hatamizadeh 2025 (Gated Delta Networks).
 * Limits: f16 and bf16, sums f32; rows of 16 bytes' multiples; keys up to 256.
 */
#include "kernels/gpu/gated_delta.h"

enum {
	GROUPS = DELTA_GROUPS, THREADS = (2 * GROUPS + 1) * TEAM,
	COLS = DELTA_COLS, COLS_LD = COLS + PIECE, STAGES = DELTA_STAGES,
	N = COLS / MMA_N / GROUPS,		/* tiles of columns that a warp has */
	KEY_TILES = KEYS / MMA_M / WARPS,	/* of the state, that a warp has */
};

/* What a team does. */
enum role { STATE, RESULTS, COPIES };

/* A chunk's operands, in shared memory. */
struct stage {
	mem	*w, *q, *k, *p, *u;
	float	*rates;
};

enum { STAGE_BYTES = (3 * CHUNK * KEYS_LD + CHUNK * CHUNK_LD + CHUNK * COLS_LD) * 2 +
		     3 * CHUNK * 4 };

static DEV inline stage stage_of(unsigned char *s, int64_t i)
{
	mem *w = (mem *)(s + i % STAGES * STAGE_BYTES), *q = w + CHUNK * KEYS_LD;
	mem *k = q + CHUNK * KEYS_LD, *p = k + CHUNK * KEYS_LD, *u = p + CHUNK * CHUNK_LD;

	return { w, q, k, p, u, (float *)(u + CHUNK * COLS_LD) };
}

/* A block's head and columns. */
struct work {
	const mem	*q, *k;		/* of the head, from the entry's first step on */
	mem		*y;
	int64_t		line, col, have, ld;	/* columns that are there; from y to the next */
};

static DEV inline void bring(const stage &s, const struct rlx_k_gated_delta &a,
			     const struct rlx_g_env &env, const work &w, int64_t i)
{
	const struct prepared from = prepared_of(a, env, w.line * a.count + i);
	const int64_t step = (a.first + i) * CHUNK, ld = a.hk * a.dk;
	const int rows = (int)(a.steps - step < CHUNK ? a.steps - step : CHUNK);

	bring_rows<KEYS, TEAM>(s.w, KEYS_LD, from.w, KEYS, CHUNK, KEYS);
	bring_rows<COLS, TEAM>(s.u, COLS_LD, from.u + w.col, a.dv, CHUNK, w.have);
	bring_rows<KEYS, TEAM>(s.q, KEYS_LD, w.q + step * ld, ld, rows, a.dk);
	bring_rows<KEYS, TEAM>(s.k, KEYS_LD, w.k + step * ld, ld, rows, a.dk);
	bring_rows<CHUNK, TEAM>(s.p, CHUNK_LD, from.p, CHUNK, CHUNK, CHUNK);
	for (int e = (int)threadIdx.x % TEAM; e < 3 * CHUNK / 4; e += TEAM)
		copy_async(s.rates + 4 * e, from.rates + 4 * e, 16, 16);
}

static DEV inline int own_col(void)
{
	return first_col(COLS, GROUPS);
}

/* S of a warp, and its copy for products. */
struct state {
	float	sum[KEY_TILES][N][MMA_C];
	mem	*half;
};

static DEV inline int key_of(int tile)
{
	return (row_warp() * KEY_TILES + tile) * MMA_M;
}

static DEV inline void share(const state &s)
{
#pragma unroll
	for (int t = 0; t < KEY_TILES; t++)
#pragma unroll
		for (int n = 0; n < N; n++)
			put_sums(s.half + key_of(t) * COLS_LD + own_col() + n * MMA_N, COLS_LD,
				 s.sum[t][n]);
}

/*
 * Each number of S: from the program's, or from f32 that an earlier call left behind, or the same
 * the other way.
 */
template <bool LOAD>
static DEV inline void carry(state &s, const struct rlx_k_gated_delta &a, const work &w,
			     mem *own, float *f32)
{
	const int64_t at = w.line * a.dk * a.dv + w.col;

#pragma unroll
	for (int t = 0; t < KEY_TILES; t++)
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int c = 0; c < MMA_C; c++) {
				const int key = key_of(t) + mma_c_row(c);
				const int col = own_col() + n * MMA_N + mma_c_col(c);
				const int64_t i = at + key * a.dv + col;
				const bool in = key < a.dk && col < w.have;

				if (LOAD)
					s.sum[t][n][c] = !in ? 0 : own ? to_f32(own[i]) :
							 f32 ? f32[i] : 0;
				else if (in && own)
					own[i] = from_f32<mem>(s.sum[t][n][c]);
				else if (in)
					f32[i] = s.sum[t][n][c];
			}
}

/* @x, a row tile's sums: rows of w or q times S as it was. */
static DEV inline void times_state(float (*x)[MMA_C], const mem *rows, const mem *half)
{
#pragma unroll
	for (int n = 0; n < N; n++)
#pragma unroll
		for (int c = 0; c < MMA_C; c++)
			x[n][c] = 0;
#pragma unroll
	for (int k = 0; k < KEYS; k += MMA_K) {
		uint32_t a[MMA_A];

		mma_load_a<mem>(a, rows + k, KEYS_LD, false);
		mma_row<N>(x, a, half + k * COLS_LD + own_col(), COLS_LD, true);
	}
}

/* What is written into S by this chunk, and that as the chunk's end has it. */
static DEV inline void write(const stage &g, const mem *half, mem *fresh, mem *late)
{
#pragma unroll
	for (int r = 0; r < ROW_TILES; r++) {
		const int row = (row_warp() + r * WARPS) * MMA_M;
		float x[N][MMA_C];

		times_state(x, g.w + row * KEYS_LD, half);
#pragma unroll
		for (int n = 0; n < N; n++) {
			const int at = row * COLS_LD + own_col() + n * MMA_N;
			float end[MMA_C];

#pragma unroll
			for (int c = 0; c < MMA_C; c++) {
				const int i = mma_c_row(c), e = at + i * COLS_LD + mma_c_col(c);

				x[n][c] = to_f32(g.u[e]) - x[n][c];
				end[c] = x[n][c] * g.rates[CHUNK + row + i];
			}
			put_sums(fresh + at, COLS_LD, x[n]);
			put_sums(late + at, COLS_LD, end);
		}
	}
}

/* y of S as it was. */
static DEV inline void begin_results(float (*y)[N][MMA_C], const stage &g, const mem *half)
{
#pragma unroll
	for (int r = 0; r < ROW_TILES; r++) {
		const int row = (row_warp() + r * WARPS) * MMA_M;

		times_state(y[r], g.q + row * KEYS_LD, half);
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int c = 0; c < MMA_C; c++)
				y[r][n][c] *= g.rates[row + mma_c_row(c)];
	}
}

/* And of what is written, to memory: @rows are there from step @first on. */
static DEV inline void end_results(float (*y)[N][MMA_C], const stage &g, const mem *fresh,
				   const work &w, int64_t first, int rows)
{
	mem *to = w.y + first * w.ld + own_col();
	const int64_t ld = w.ld, have = w.have - own_col();

#pragma unroll
	for (int r = 0; r < ROW_TILES; r++) {
		const int row = (row_warp() + r * WARPS) * MMA_M;

		for (int k = 0; k <= row; k += MMA_K) {
			uint32_t a[MMA_A];

			mma_load_a<mem>(a, g.p + row * CHUNK_LD + k, CHUNK_LD, false);
			mma_row<N>(y[r], a, fresh + k * COLS_LD + own_col(), COLS_LD, true);
		}
#pragma unroll
		for (int n = 0; n < N; n++)
			if (row + MMA_M <= rows && n * MMA_N < have)
				put_sums(to + row * ld + n * MMA_N, ld, y[r][n]);
			else
				for (int c = 0; c < MMA_C; c++)
					if (row + mma_c_row(c) < rows && n * MMA_N < have)
						to[(row + mma_c_row(c)) * ld + n * MMA_N +
						   mma_c_col(c)] = from_f32<mem>(y[r][n][c]);
	}
}

static DEV inline void advance(state &s, const stage &g, const mem *late)
{
	const float decay = g.rates[2 * CHUNK];

#pragma unroll
	for (int t = 0; t < KEY_TILES; t++) {
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int c = 0; c < MMA_C; c++)
				s.sum[t][n][c] *= decay;
#pragma unroll
		for (int k = 0; k < CHUNK; k += MMA_K) {
			uint32_t a[MMA_A];

			mma_load_a<mem>(a, g.k + k * KEYS_LD + key_of(t), KEYS_LD, true);
			mma_row<N>(s.sum[t], a, late + k * COLS_LD + own_col(), COLS_LD, true);
		}
	}
}

/* The team that copies, at the beginning of a chunk: operands of the next, in the other stage. */
static DEV inline void copy_next(unsigned char *shared, const struct rlx_k_gated_delta &a,
				 const struct rlx_g_env &env, const work &w, int64_t i)
{
	if (i < a.count)
		bring(stage_of(shared, i), a, env, w, i);
	copy_commit();
}

RLX_G_KERNEL(gated_delta_chunks, struct rlx_k_gated_delta, THREADS)
{
	SHARED_DYNAMIC(shared);
	const int64_t slices = (a.dv + COLS - 1) / COLS, line = blockIdx.x / slices;
	const int64_t col = blockIdx.x % slices * COLS, head = line % a.hv, entry = line / a.hv;
	const int64_t keys = (entry * a.steps * a.hk + head / (a.hv / a.hk)) * a.dk;
	const work w = { RLX_G_PTR(const mem, a.q) + keys, RLX_G_PTR(const mem, a.k) + keys,
			 RLX_G_PTR(mem, a.y) + (entry * a.steps * a.hv + head) * a.dv + col,
			 line, col, a.dv - col, a.hv * a.dv };
	mem *fresh = (mem *)(shared + STAGES * STAGE_BYTES), *late = fresh + CHUNK * COLS_LD;
	float *f32 = RLX_G_PTR(float, a.carry), y[ROW_TILES][N][MMA_C];
	const bool whole = (a.first + a.count) * CHUNK >= a.steps;
	const int team = (int)threadIdx.x / TEAM;
	const enum role role = team < GROUPS ? STATE : team < 2 * GROUPS ? RESULTS : COPIES;
	state s;

	s.half = late + CHUNK * COLS_LD;
	if (role == COPIES)
		copy_next(shared, a, env, w, 0);
	if (role == STATE) {
		carry<true>(s, a, w, a.first ? NULL : RLX_G_PTR(mem, a.state),
			    a.first ? f32 : NULL);
		share(s);
	}
	for (int64_t i = 0; i < a.count; i++) {
		const int64_t step = (a.first + i) * CHUNK;
		const stage g = stage_of(shared, i);

		copy_wait<0>();
		__syncthreads();	/* the operands and S are there */
		if (role == COPIES && STAGES == 2)
			copy_next(shared, a, env, w, i + 1);
		if (role == STATE)
			write(g, s.half, fresh, late);
		if (role == RESULTS)
			begin_results(y, g, s.half);
		__syncthreads();	/* what is written is, and S has been read */
		if (role == STATE) {
			advance(s, g, late);
			share(s);
		}
		if (role == RESULTS)
			end_results(y, g, fresh, w, step,
				    (int)(a.steps - step < CHUNK ? a.steps - step : CHUNK));
		if (STAGES == 1) {
			__syncthreads();
			if (role == COPIES)
				copy_next(shared, a, env, w, i + 1);
		}
	}
	if (role == STATE)
		carry<false>(s, a, w, whole ? RLX_G_PTR(mem, a.last) : NULL, f32);
}
