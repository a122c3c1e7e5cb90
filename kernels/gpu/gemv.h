/* SPDX-License-Identifier: MIT */
/*
 * GEMV and GEMM of up to 8 rows: kernels that read B once, at the speed of memory, and leave
 * tensor cores alone. Included by the .cu files of GEMM.
 *
 * Algorithm: B by columns: a warp for each column, or, if k is short, as many lanes as that
 * gives 16 bytes to, 8 at least; a reduction over them for each row. B by rows: a block for 32
 * columns, whose threads split k and add up through shared memory.
 *
 * Traffic: B once, which is the bound; A from the L2 once for each column (or 32 of them).
 * Limits: M <= 8; any type and alignment. gemv_stream.cu is the faster one for f16 and bf16
 * where B's lines begin at multiples of 16 bytes.
 */
#ifndef RLX_G_GEMV_H
#define RLX_G_GEMV_H

#include "kernels/gpu/gemm.h"
#include "kernels/gpu/gemm_tile.h"

/* Rows at most: RLX_G_GEMV_ROWS of the launch; columns of a block. */
enum { GEMV_M = 8, GEMV_COLS = 32 };

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

/* Lanes for a column of @k elements by 16 bytes of T: as many at least as there may be rows. */
template <class T> static DEV inline int gemv_lanes(int64_t k)
{
	return GEMV_LANES(k, (int)(16 / sizeof(T)), WARP);
}

/*
 * b by columns (rows of N x K in memory): lanes that are side by side for each from @first on;
 * beyond the last one they have nothing to do. O is of gemm_operands; AS converts an element to
 * what is multiplied.
 */
template <class TA, class TB, class O, class AS, class GET, class PUT>
static DEV inline void gemv_cols(const struct rlx_k_gemm &a, const O &o, int64_t first, AS as,
				 GET get, PUT put)
{
	enum { V = 16 / sizeof(TB) };
	typedef gemv_pack<TA, V> pack_a;
	int lanes = gemv_lanes<TB>((int64_t)a.k), lane = lane_id() % lanes;
	int64_t col = first + lane_id() / lanes;
	bool there = col < (int64_t)a.n;
	const TB *b = o.b + (there ? col : 0) * (int64_t)a.ldb;
	int64_t k = there ? (int64_t)a.k : 0;
	bool wide = (uint64_t)b % 16 == 0;
	bool wide_a = ((uint64_t)o.a | a.lda * sizeof(TA)) % sizeof(pack_a) == 0;
	float sum[GEMV_M] = {}, mine = 0;

#pragma unroll 2
	for (int64_t at = lane * V; at < k; at += lanes * V) {
		gemv_pack<TB, V> x = gemv_load<TB, V>(b, at, k, wide);
		pack_a y[GEMV_M] = {};

		/* all under way before the first is waited for */
#pragma unroll
		for (int r = 0; r < GEMV_M; r++)
			if (r < (int)a.m)
				y[r] = gemv_load<TA, V>(o.a + r * a.lda, at, k, wide_a);
#pragma unroll
		for (int r = 0; r < GEMV_M; r++)
#pragma unroll
			for (int i = 0; i < V; i++)
				sum[r] += as(y[r].v[i]) * as(x.v[i]);
	}
	/* lane r ends row r: the epilogue stands once in the code */
#pragma unroll
	for (int r = 0; r < GEMV_M; r++) {
		float s = sum[r];

		if (r >= (int)a.m)
			break;
		for (int m = lanes / 2; m; m /= 2)
			s += warp_xor(s, m);
		mine = lane == r ? s : mine;
	}
	if (lane < (int)a.m && there)
		o.finish(a, (size_t)lane, (size_t)col, mine, get, put);
}

/* b by rows (K x N): a block for GEMV_COLS columns, its threads split k (split-K). */
template <class TA, class TB, class O, class AS, class GET, class PUT>
static DEV inline void gemv_rows(const struct rlx_k_gemm &a, const O &o, float *smem, AS as,
				 GET get, PUT put)
{
	enum { V = 16 / sizeof(TB), ACROSS = GEMV_COLS / V, DOWN = 256 / ACROSS };
	int x = (int)threadIdx.x % ACROSS * V, y = (int)threadIdx.x / ACROSS;
	int64_t n = (int64_t)a.n, k = (int64_t)a.k;
	int64_t first = blockIdx.x % ((n + GEMV_COLS - 1) / GEMV_COLS) * GEMV_COLS;
	bool wide = ((uint64_t)o.b | (uint64_t)a.ldb * sizeof(TB)) % 16 == 0;
	float sum[GEMV_M][V] = {}, all = 0;

#pragma unroll 2
	for (int64_t at = y; at < k; at += DOWN) {
		gemv_pack<TB, V> w = gemv_load<TB, V>(o.b + at * (int64_t)a.ldb, first + x, n,
						      wide);
		TA v[GEMV_M];

#pragma unroll
		for (int r = 0; r < GEMV_M; r++)
			v[r] = load_if(o.a + r * a.lda + at, r < (int)a.m);
#pragma unroll
		for (int r = 0; r < GEMV_M; r++)
#pragma unroll
			for (int i = 0; i < V; i++)
				sum[r][i] += as(v[r]) * as(w.v[i]);
	}
	/* a warp's shares by shuffles, then those of all warps */
#pragma unroll
	for (int r = 0; r < GEMV_M; r++)
#pragma unroll
		for (int i = 0; i < V; i++) {
			float s = sum[r][i];

			for (int m = WARP / 2; m >= ACROSS; m /= 2)
				s += warp_xor(s, m);
			if (lane_id() < ACROSS)
				smem[(warp_id() * GEMV_M + r) * GEMV_COLS + x + i] = s;
		}
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
	int64_t per = ((int64_t)a.n + GEMV_COLS - 1) / GEMV_COLS;
	O o(a, env, blockIdx.x / per);

	if constexpr (!GEMM_B_COLS) {
		gemv_rows<TA, TB>(a, o, smem, as, get, put);
		return;
	}
	int lanes = gemv_lanes<TB>((int64_t)a.k);

	for (int64_t c = warp_id() * (WARP / lanes); c < GEMV_COLS; c += 256 / lanes)
		gemv_cols<TA, TB>(a, o, blockIdx.x % per * GEMV_COLS + c, as, get, put);
}

#endif
