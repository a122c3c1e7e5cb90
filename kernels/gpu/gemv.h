/* SPDX-License-Identifier: MIT */
/*
 * GEMV and GEMM of up to 8 rows: kernels that read B once, at the speed of memory, and leave
 * tensor cores alone. Included by the .cu files of GEMM.
 *
 * Algorithm: B by columns: a warp for four columns at a time, or, if k is short, as many lanes as
 * a column gives 16 bytes to, 8 at least, for each; a reduction over them for all sums at once. So
 * all that a block reads first is under way at a time: memory is waited for once, not for each
 * column. B by rows: a block for 32 columns, whose threads split k and add up through shared
 * memory.
 *
 * Traffic: B once, which is the bound; A from the L2 once for each column (or 32 of them).
 * Limits: M <= 8; any type and alignment. gemv_stream.cu is the faster one for f16 and bf16
 * where B's lines begin at multiples of 16 bytes.
 */
#ifndef RLX_G_GEMV_H
#define RLX_G_GEMV_H

#include "kernels/gpu/gemm.h"
#include "kernels/gpu/gemm_tile.h"

#ifndef GEMM_LANES	/* of who takes no more than gemv_pack from here */
#define GEMM_LANES	0
#endif

/* Rows at most: RLX_G_GEMV_ROWS of the launch; columns of a block; lanes of a column. */
enum { GEMV_M = 8, GEMV_COLS = 32, COL_LANES = GEMM_LANES > 0 ? GEMM_LANES : 8 };

template <class T, int N> struct alignas(sizeof(T) * N) gemv_pack {
	T	v[N];
};

/* A row of b, or columns [at, at + N) of one: zeros beyond @n. */
template <class T, int N>
static DEV inline gemv_pack<T, N> gemv_load(const T *p, int64_t at, int64_t n, bool wide)
{
	gemv_pack<T, N> x = {};

	if (wide && at + N <= n)
		return *(const gemv_pack<T, N> *)(p + at);
#pragma unroll
	for (int i = 0; i < N; i++)
		x.v[i] = load_if(p + at + i, at + i < n);
	return x;
}

/* The same by predicated loads, all or nothing, of what begins at 16 bytes. */
template <class T, int N> static DEV inline gemv_pack<T, N> gemv_load_if(const T *p, bool in)
{
	enum { EACH = sizeof(T) * N > 16 ? 16 / sizeof(T) : N };
	gemv_pack<T, N> x;

#pragma unroll
	for (int i = 0; i < N; i += EACH) {
		gemv_pack<T, EACH> part = load_or((const gemv_pack<T, EACH> *)(p + i), in, 0);

		memcpy(&x.v[i], &part, sizeof(part));
	}
	return x;
}

/*
 * b by columns (rows of N x K in memory): COL_LANES neighbours for a column, and C columns at a time,
 * 256 / COL_LANES apart, from @first on; beyond the last one they have nothing to do. R: rows that a
 * may have. WIDE: all lines begin at 16 bytes, and k ends there. O is of gemm_operands; AS converts
 * an element to what is multiplied.
 */
template <bool WIDE, int R, int C, class TA, class TB, class O, class AS, class GET, class PUT>
static DEV inline void gemv_cols(const struct rlx_k_gemm &a, const O &o, int64_t first, AS as,
				 GET get, PUT put)
{
	enum { V = 16 / sizeof(TB), APART = 256 / COL_LANES };
	int lane = lane_id() % COL_LANES, m = (int)a.m, at;
	int64_t k = (int64_t)a.k;
	int64_t col = first + warp_id() * (WARP / COL_LANES) + lane_id() / COL_LANES;
	int64_t left = (int64_t)a.n - col;
	const TB *b = o.b + col * (int64_t)a.ldb;
	float sum[C * R] = {};

#pragma unroll (R > 4 ? 1 : 2)
	for (int64_t k0 = 0; k0 < k; k0 += COL_LANES * V) {
		int64_t i0 = k0 + lane * V;
		gemv_pack<TB, V> x[C];
		gemv_pack<TA, V> y[R];

		/* all under way before the first is waited for */
#pragma unroll
		for (int c = 0; c < C; c++) {
			const TB *from = b + c * APART * (int64_t)a.ldb;
			bool in = c * APART < left;

			x[c] = WIDE ? gemv_load_if<TB, V>(from + i0, in && i0 < k) :
				      gemv_load<TB, V>(from, i0, in ? k : 0, false);
		}
#pragma unroll
		for (int r = 0; r < R; r++)
			y[r] = WIDE ? gemv_load_if<TA, V>(o.a + r * a.lda + i0, r < m && i0 < k) :
				      gemv_load<TA, V>(o.a + r * a.lda, i0, r < m ? k : 0, false);
#pragma unroll
		for (int c = 0; c < C; c++)
#pragma unroll
			for (int r = 0; r < R; r++)
#pragma unroll
				for (int i = 0; i < V; i++)
					sum[c * R + r] += as(y[r].v[i]) * as(x[c].v[i]);
	}
	at = sum_over_lanes<COL_LANES, C * R, 1>(sum);
	col += at / R * APART;
	if (lane < C * R && at % R < m && col < (int64_t)a.n)
		o.finish(a, (size_t)(at % R), (size_t)col, sum[0], get, put);
}

/* All columns of a block. */
template <class TA, class TB, class O, class AS, class GET, class PUT>
static DEV inline void gemv_all_cols(const struct rlx_k_gemm &a, const O &o, int64_t first, AS as,
				     GET get, PUT put)
{
	bool wide = ((uint64_t)o.a | (uint64_t)o.b | a.lda * sizeof(TA) | a.ldb * sizeof(TB) |
		     a.k * sizeof(TB)) % 16 == 0;

	if (wide && a.m <= 4)
		gemv_cols<true, 4, COL_LANES / 8, TA, TB>(a, o, first, as, get, put);
	else if (wide)
		gemv_cols<true, 8, COL_LANES / 8, TA, TB>(a, o, first, as, get, put);
	for (int c = 0; !wide && c < GEMV_COLS; c += 256 / COL_LANES)
		gemv_cols<false, 8, 1, TA, TB>(a, o, first + c, as, get, put);
}

/* b by rows (K x N): a block for GEMV_COLS columns from @first on, its threads split k (split-K). */
template <class TA, class TB, class O, class AS, class GET, class PUT>
static DEV inline void gemv_rows(const struct rlx_k_gemm &a, const O &o, int64_t first,
				 float *smem, AS as, GET get, PUT put)
{
	enum { V = 16 / sizeof(TB), ACROSS = GEMV_COLS / V, DOWN = 256 / ACROSS,
	       LEFT = GEMV_M * V * ACROSS / WARP };	/* sums of a lane, at last */
	int x = (int)threadIdx.x % ACROSS * V, y = (int)threadIdx.x / ACROSS, at;
	int64_t n = (int64_t)a.n, k = (int64_t)a.k;
	bool wide = ((uint64_t)o.b | (uint64_t)a.ldb * sizeof(TB)) % 16 == 0;
	float sum[GEMV_M * V] = {}, all = 0;

#pragma unroll 2
	for (int64_t i0 = y; i0 < k; i0 += DOWN) {
		gemv_pack<TB, V> w = gemv_load<TB, V>(o.b + i0 * (int64_t)a.ldb, first + x, n,
						      wide);
		TA v[GEMV_M];

#pragma unroll
		for (int r = 0; r < GEMV_M; r++)
			v[r] = load_if(o.a + r * a.lda + i0, r < (int)a.m);
#pragma unroll
		for (int r = 0; r < GEMV_M; r++)
#pragma unroll
			for (int i = 0; i < V; i++)
				sum[r * V + i] += as(v[r]) * as(w.v[i]);
	}
	/* a warp's shares by shuffles, then those of all warps */
	at = sum_over_lanes<WARP, GEMV_M * V, LEFT, ACROSS>(sum);
#pragma unroll
	for (int i = 0; i < LEFT; i++)
		smem[(warp_id() * GEMV_M + (at + i) / V) * GEMV_COLS + x + (at + i) % V] = sum[i];
	__syncthreads();
	/* a thread for each result */
	y = (int)threadIdx.x / GEMV_COLS;
	first += threadIdx.x % GEMV_COLS;
	for (int w = 0; w < 256 / WARP; w++)
		all += smem[w * GEMV_M * GEMV_COLS + (int)threadIdx.x];
	if (y < (int)a.m && first < n)
		o.finish(a, (size_t)y, (size_t)first, all, get, put);
}

/* Floats of shared memory of a block: sums of its warps. */
#define GEMV_ROOM	(256 / WARP * GEMV_M * GEMV_COLS)

/* All of it, by blocks of 256 threads; GEMM_B_COLS: b lies by columns. */
template <class TA, class TB, class O, class AS, class GET, class PUT>
static DEV inline void gemv(const struct rlx_k_gemm &a, const struct rlx_g_env &env, float *smem,
			    AS as, GET get, PUT put)
{
	int64_t first, batch = divide(blockIdx.x, ((int64_t)a.n + GEMV_COLS - 1) / GEMV_COLS, &first);
	O o(a, env, batch);

	first *= GEMV_COLS;
	if constexpr (GEMM_B_COLS)
		gemv_all_cols<TA, TB>(a, o, first, as, get, put);
	else
		gemv_rows<TA, TB>(a, o, first, smem, as, get, put);
}

#endif
