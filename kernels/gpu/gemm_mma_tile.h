/* SPDX-License-Identifier: MIT */
/*
 * A tile of a GEMM by the tensor cores of a block's warps, of any elements that they take.
 *
 * Algorithm: a three-stage pipeline of asynchronous copies (cp.async) into shared memory;
 * ldmatrix to fragments, mma.sync; a block goes from tile to tile in the order of gemm_tile().
 * Tiles: 128 x 128 by 8 warps, 64 x 64 by 4, 32 x 32 or 16 x 64 by 2, 64 bytes of k. Traffic: A
 * ceil(N / BN) times, B ceil(M / BM) times by way of the L2, C once, through shared memory.
 * Limits: any shape; each operand by copies of 16 or 8 bytes, as its lines begin, else, if its
 * elements have 2 bytes and are what is multiplied, by pieces of 16 that are shifted into place,
 * else by copies of 4 bytes or by elements, several under way at a time.
 *
 * Who includes this has said
 *
 *	elem		what is multiplied; type_a, type_b: what lies in memory
 *	to_elem()	from either to it
 *	A_TRANS		k runs down the rows of a's tile; B_TRANS: of b's
 *	GEMM_EDGE	which tile: GEMM_MMA_TILE_M() and others of gemm_tile.h
 *
 * and calls product() with an END for each tile:
 *
 *	a, b		the operands of the batch index
 *	list		where the rows of a are, or NULL: one after the other
 *	take(fa, fb)	sees fragments before they are multiplied, and may change them
 *	sum_up(smem)	after the last of them; smem: WM + WN words of the warp
 *	end(row, col, at, sum, left)	what becomes of four sums of a row, of which @left have a
 *				place in it; at: row and column in the warp's part
 *	apart()			end() puts results where the sums were, for write(row, col, x)
 */
#ifndef RLX_G_GEMM_MMA_TILE_H
#define RLX_G_GEMM_MMA_TILE_H

#include "kernels/gpu/gemm.h"
#include "kernels/gpu/gemm_tile.h"
#include "kernels/gpu/mma.h"
#include "kernels/gpu/repack_lines.h"

typedef mma_kind<elem>::sum sum_type;

enum {
	BM = GEMM_MMA_TILE_M(GEMM_EDGE), BN = GEMM_MMA_TILE_N(GEMM_EDGE),
	THREADS = GEMM_MMA_TILE_THREADS(GEMM_EDGE),
	WARPS_M = BM == 16 || (BM < 128 && RLX_WARP == 64) ? 1 : 2,
};
enum {
	STAGES = GEMM_MMA_TILE_STAGES, DEPTH = GEMM_MMA_TILE_DEPTH(sizeof(elem)),
	WARPS_N = THREADS / RLX_WARP / WARPS_M,
	WM = BM / WARPS_M, WN = BN / WARPS_N,		/* a warp's part */
	TM = WM / MMA_M, TN = WN / MMA_N,		/* its products */
	STEP = 4 * MMA_WORDS / sizeof(elem),		/* k of a product */
	LDA = GEMM_MMA_TILE_LINE(sizeof(elem), BM, A_TRANS) / sizeof(elem),
	LDB = GEMM_MMA_TILE_LINE(sizeof(elem), BN, B_TRANS) / sizeof(elem),
	A_ELEMS = GEMM_MMA_TILE_BYTES(sizeof(elem), BM, A_TRANS) / sizeof(elem),
	STAGE = A_ELEMS + GEMM_MMA_TILE_BYTES(sizeof(elem), BN, B_TRANS) / sizeof(elem),
	LDR = WN + 4, SMEM = MMA_M * LDR + WM + WN,	/* words at a warp's end */
	PUT_LATE = BM < 128,	/* registers hold a step that comes, beside the sums */
};

template <class A, class B> struct same_type { enum { yes = 0 }; };
template <class A> struct same_type<A, A> { enum { yes = 1 }; };

/*
 * A matrix as it lies in memory; @by: bytes at a multiple of which all its rows begin, 16 at
 * most; @list: where rows are, or NULL.
 */
template <class T> struct area {
	const T		*p;
	int64_t		ld, rows, cols;
	int		by;
	const int	*list;

	DEV const T *at(int64_t row, int64_t col) const
	{
		return p + (list ? list[row] : row) * ld + col;
	}
};

/*
 * A tile of ROWS x COLS of it, rows LD apart, from row @r0 and column @c0; zeros beyond
 * the edges. By BYTES, behind the thread's back.
 */
template <int BYTES, int ROWS, int COLS, int LD, class T>
static DEV inline void copy_tile(elem *to, const area<T> &m, int64_t r0, int64_t c0)
{
	enum { PIECE = BYTES / sizeof(elem), ALL = ROWS * COLS / PIECE };
	int t = compute_anew((int)threadIdx.x);

#pragma unroll (BYTES == 16 ? ALL : 4)
	for (int e = 0; e < ALL; e += THREADS) {
		int i = e + t, r = i / (COLS / PIECE);
		int c = i % (COLS / PIECE) * PIECE;
		int64_t left = m.cols - c0 - c;
		int n = r0 + r >= m.rows || left <= 0 ? 0 : left < PIECE ? (int)left : PIECE;

		if (ALL % THREADS && i >= ALL)
			break;
		copy_async(to + r * LD + c, n ? m.at(r0 + r, c0 + c) : m.p, BYTES,
			   n * (int)sizeof(elem));
	}
}

/* The same by elements, of any type: some are under way at a time. */
template <int ROWS, int COLS, int LD, class T>
static DEV inline void convert_tile(elem *to, const area<T> &m, int64_t r0, int64_t c0)
{
	enum { AT_ONCE = 8, ALL = ROWS * COLS };

	for (int e = (int)threadIdx.x; e < ALL; e += AT_ONCE * THREADS) {
		elem v[AT_ONCE];

#pragma unroll
		for (int j = 0; j < AT_ONCE; j++) {
			int i = e + j * THREADS, r = i / COLS, c = i % COLS;
			bool in = i < ALL && r0 + r < m.rows && c0 + c < m.cols;

			v[j] = in ? to_elem(*m.at(r0 + r, c0 + c)) : elem();
		}
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++) {
			int i = e + j * THREADS;

			if (i < ALL)
				to[i / COLS * LD + i % COLS] = v[j];
		}
	}
}

/* The same of 16-bit elements that are what is multiplied, by pieces that begin at any of them. */
template <int ROWS, int COLS, int LD> struct shifted_tile {
	enum { ALL = ROWS * COLS / 8, N = (ALL + THREADS - 1) / THREADS };

	rp_pair	p[N];
	int	by[N], n[N];

	template <class T> DEV void fetch(const area<T> &m, int64_t r0, int64_t c0)
	{
		int t = compute_anew((int)threadIdx.x);
		const uint16_t *first = (const uint16_t *)m.p;
		const uint16_t *end = first + (m.rows - 1) * m.ld + m.cols;

#pragma unroll
		for (int j = 0; j < N; j++) {
			int i = t + j * THREADS, r = i / (COLS / 8);
			int c = i % (COLS / 8) * 8;
			int64_t left = m.cols - c0 - c;

			n[j] = i >= ALL || r0 + r >= m.rows || left <= 0 ? 0 :
			       left < 8 ? (int)left : 8;
			by[j] = n[j] ? p[j].load((const uint16_t *)m.at(r0 + r, c0 + c), n[j],
						 first, end) : 0;
		}
	}

	DEV void put(elem *to)
	{
		int t = compute_anew((int)threadIdx.x);

#pragma unroll
		for (int j = 0; j < N; j++) {
			int i = t + j * THREADS, r = i / (COLS / 8);

			if (ALL % THREADS && i >= ALL)
				break;
			p[j].shift(by[j]);
			p[j].cut(n[j]);
			*(rp_piece *)(to + r * LD + i % (COLS / 8) * 8) =
				rp_piece{ { p[j].w[0], p[j].w[1], p[j].w[2], p[j].w[3] } };
		}
	}
};

/* May a tile of @m be one of those? */
template <class T> static DEV inline bool is_shifted(const area<T> &m)
{
	return same_type<T, elem>::yes && sizeof(elem) == 2 && m.by < 8 && !m.list;
}

template <int ROWS, int COLS, int LD, class T>
static DEV inline void load_tile(elem *to, const area<T> &m, int64_t r0, int64_t c0)
{
	if constexpr (same_type<T, elem>::yes) {
		if (m.by == 16)
			copy_tile<16, ROWS, COLS, LD>(to, m, r0, c0);
		else if (m.by == 8)
			copy_tile<8, ROWS, COLS, LD>(to, m, r0, c0);
		else if (m.by == 4)
			copy_tile<4, ROWS, COLS, LD>(to, m, r0, c0);
		if (m.by >= 4)
			return;
	}
	convert_tile<ROWS, COLS, LD>(to, m, r0, c0);
}

/* Both matrices, and where in them the block works. */
struct work {
	area<type_a>	a;
	area<type_b>	b;
	int64_t		row, col;
};

/*
 * A step of k on its way to a stage. Lines that are copied come by themselves; those that are
 * shifted are waited for when they are put there.
 */
struct step_load {
	enum { ROWS_A = A_TRANS ? DEPTH : BM, COLS_A = A_TRANS ? BM : DEPTH,
	       ROWS_B = B_TRANS ? DEPTH : BN, COLS_B = B_TRANS ? BN : DEPTH };
	shifted_tile<ROWS_A, COLS_A, LDA>	a;
	shifted_tile<ROWS_B, COLS_B, LDB>	b;

	DEV void begin(elem *stage, const struct work &w, int64_t at)
	{
		int64_t ra = A_TRANS ? at : w.row, ca = A_TRANS ? w.row : at;
		int64_t rb = B_TRANS ? at : w.col, cb = B_TRANS ? w.col : at;

		if (is_shifted(w.a))
			a.fetch(w.a, ra, ca);
		else
			load_tile<ROWS_A, COLS_A, LDA>(stage, w.a, ra, ca);
		if (is_shifted(w.b))
			b.fetch(w.b, rb, cb);
		else
			load_tile<ROWS_B, COLS_B, LDB>(stage + A_ELEMS, w.b, rb, cb);
	}

	DEV void end(elem *stage, const struct work &w)
	{
		if (is_shifted(w.a))
			a.put(stage);
		if (is_shifted(w.b))
			b.put(stage + A_ELEMS);
	}
};

/* The warp's columns of b, from k on. */
static DEV inline void load_b(uint32_t (*fb)[MMA_B], const elem *bs, int k, int wn)
{
#pragma unroll
	for (int j = 0; j < TN; j++) {
		int n = wn + j * MMA_N;

		if constexpr (B_TRANS && mma_pairs<elem>::yes) {
			if (j % 2 == 0)
				mma_load_b_pair(fb + j, bs + k * LDB + n, LDB);
		} else {
			mma_load_b(fb[j], bs + (B_TRANS ? k * LDB + n : n * LDB + k), LDB,
				   B_TRANS);
		}
	}
}

template <class END>
static DEV inline void multiply(sum_type (*c)[TN][MMA_C], const elem *stage, END &end)
{
	const elem *as = stage, *bs = stage + A_ELEMS;
	int wm = warp_id() % WARPS_M * WM, wn = warp_id() / WARPS_M * WN;

#pragma unroll
	for (int k = 0; k < DEPTH; k += STEP) {
		uint32_t fa[TM][MMA_A], fb[TN][MMA_B];

#pragma unroll
		for (int i = 0; i < TM; i++) {
			int r = wm + i * MMA_M;

			mma_load_a(fa[i], as + (A_TRANS ? k * LDA + r : r * LDA + k), LDA,
				   A_TRANS);
		}
		load_b(fb, bs, k, wn);
		end.take(fa, fb);
#pragma unroll
		for (int i = 0; i < TM; i++)
#pragma unroll
			for (int j = 0; j < TN; j++)
				mma<elem>(c[i][j], fa[i], fb[j]);
	}
}

/*
 * 16 rows of the warp's part at a time go through shared memory @smem: the end of a
 * sum stands once in the code, not once for each register, and stores are in order.
 */
template <class END>
static DEV inline void finish_all(const struct rlx_k_gemm &a, END &end,
				  const sum_type (*c)[TN][MMA_C], sum_type *smem, int64_t row,
				  int64_t col)
{
	end.sum_up(smem + MMA_M * LDR);
#pragma unroll
	for (int i = 0; i < TM; i++) {
#pragma unroll
		for (int j = 0; j < TN; j++)
#pragma unroll
			for (int e = 0; e < MMA_C; e++)
				smem[mma_c_row(e) * LDR +
				     mma_col<elem>(j, mma_c_col(e), B_TRANS)] = c[i][j][e];
		warp_sync();
#pragma unroll 1
		for (int e = lane_id() * 4; e < MMA_M * WN; e += WARP * 4) {
			int at[2] = { i * MMA_M + e / WN, e % WN };
			int64_t left = (int64_t)a.n - col - at[1];

			if (row + at[0] < (int64_t)a.m && left > 0)
				end.end((size_t)(row + at[0]), (size_t)(col + at[1]), at,
					smem + e / WN * LDR + e % WN, left < 4 ? (int)left : 4);
		}
		warp_sync();
		if (!end.apart())
			continue;
#pragma unroll (TM == 1 ? 4 : 1)
		for (int e = lane_id(); e < MMA_M * WN; e += WARP) {
			int64_t r = row + i * MMA_M + e / WN, n = col + e % WN;

			if (r < (int64_t)a.m && n < (int64_t)a.n)
				end.write((size_t)r, (size_t)n, smem[e / WN * LDR + e % WN]);
		}
		warp_sync();
	}
}

/* Bytes at a multiple of which all rows begin: 16, 8, 4 or less. */
static DEV inline int begins_by(const void *p, size_t ld, size_t size)
{
	uint64_t odd = (uint64_t)p | ld * size;

	return odd % 16 == 0 ? 16 : odd % 8 == 0 ? 8 : odd % 4 == 0 ? 4 : 1;
}

/* Tiles of one batch index: rows of them, those of rows that carry data, and all. */
static DEV inline int64_t tiles_down(const struct rlx_k_gemm &a, const struct rlx_g_env &env)
{
	return (live_rows(env, (int64_t)a.m) + BM - 1) / BM;
}

static DEV inline int64_t tiles_of(const struct rlx_k_gemm &a, int64_t down)
{
	return down * (((int64_t)a.n + BN - 1) / BN);
}

/* Tile @t of them. */
template <class END>
static DEV inline void product(const struct rlx_k_gemm &a, elem *shared, int64_t down, int64_t t,
			       END end)
{
	int64_t m = (int64_t)a.m, n = (int64_t)a.n, k = (int64_t)a.k;
	struct work w = {
		{ end.a, (int64_t)a.lda, A_TRANS ? k : m, A_TRANS ? m : k,
		  begins_by(end.a, a.lda, sizeof(elem)), end.list },
		{ end.b, (int64_t)a.ldb, B_TRANS ? k : n, B_TRANS ? n : k,
		  begins_by(end.b, a.ldb, sizeof(elem)), 0 }, 0, 0 };
	int steps = (int)((k + DEPTH - 1) / DEPTH);
	int wm = warp_id() % WARPS_M * WM, wn = warp_id() / WARPS_M * WN;
	sum_type c[TM][TN][MMA_C] = {};

	gemm_tile(t, down, (n + BN - 1) / BN, &w.row, &w.col);
	w.row *= BM;
	w.col *= BN;
#pragma unroll 1
	for (int s = 1 - STAGES; s < steps; s++) {
		int next = s + STAGES - 1;

		if (s >= 0) {
			copy_wait<STAGES - 2>();
			__syncthreads();
		}
		/* into the stage that everybody has left behind at the barrier */
		elem *to = shared + next % STAGES * STAGE;
		struct step_load load;

		if (next < steps)
			load.begin(to, w, (int64_t)next * DEPTH);
		copy_commit();
		if (!PUT_LATE && next < steps)
			load.end(to, w);
		if (s >= 0)
			multiply(c, shared + s % STAGES * STAGE, end);
		if (PUT_LATE && next < steps)
			load.end(to, w);
	}
	copy_wait<0>();
	__syncthreads();
	finish_all(a, end, c, (sum_type *)shared + warp_id() * SMEM, w.row + wm, w.col + wn);
	__syncthreads();
}

#endif
