/* SPDX-License-Identifier: MIT */
/*
 * GEMV and GEMM of up to 8 rows: kernels that read B once, at the speed of memory, and leave
 * tensor cores alone. Included by the .cu files of GEMM.
 *
 * Algorithm: B by columns: a warp for four columns at a time, or, if k is short, as many lanes as
 * a column gives 16 bytes to, 8 at least, for each; a reduction over them for all sums at once. So
 * all that a block reads first is under way at a time: memory is waited for once, not for each
 * column; weights, before the launch ahead has ended. B by rows: a block for 32 columns, whose
 * threads split k and add up through shared memory.
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
 * What a block does. O is of gemm_operands; AS converts an element to what is multiplied; @first:
 * its first column; @smem: GEMV_ROOM floats; @ahead: the preceding launch is not waited for yet,
 * for b is nobody's to write.
 */
template <class TA, class TB, class O, class AS, class GET, class PUT> struct gemv_block {
	enum { V = 16 / sizeof(TB) };
	const struct rlx_k_gemm	&a;
	const O			&o;
	int64_t			first;
	float			*smem;
	AS			as;
	GET			get;
	PUT			put;
	bool			ahead;

	/* Once. */
	DEV void wait(void)
	{
		if (ahead)
			pdl_wait();
		ahead = false;
	}

	/*
	 * b by columns (rows of N x K in memory): COL_LANES neighbours for a column, and C columns
	 * at a time, 256 / COL_LANES apart, from number @from on; beyond the last one they have
	 * nothing to do. R: rows that a may have. WIDE: all lines begin at 16 bytes, and k ends
	 * there.
	 */
	template <bool WIDE, int R, int C> DEV void cols(int from)
	{
		enum { APART = 256 / COL_LANES };
		int lane = (int)threadIdx.x % COL_LANES, m = (int)a.m, at;
		int64_t k = (int64_t)a.k, col = first + from + (int)threadIdx.x / COL_LANES;
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
			for (int c = 0; c < C; c++)
				x[c] = load<WIDE, V>(b + c * APART * (int64_t)a.ldb, i0,
						     c * APART < left);
			wait();
#pragma unroll
			for (int r = 0; r < R; r++)
				y[r] = load<WIDE, V>(o.a + r * a.lda, i0, r < m);
#pragma unroll
			for (int c = 0; c < C; c++)
#pragma unroll
				for (int r = 0; r < R; r++)
#pragma unroll
					for (int i = 0; i < V; i++)
						sum[c * R + r] += as(y[r].v[i]) * as(x[c].v[i]);
		}
		wait();
		at = sum_over_lanes<COL_LANES, C * R, 1>(sum);
		col += at / R * APART;
		if (lane < C * R && at % R < m && col < (int64_t)a.n)
			o.finish(a, (size_t)(at % R), (size_t)col, sum[0], get, put);
	}

	/* N elements of a line that is @there from number @at on; zeros beyond k. */
	template <bool WIDE, int N, class T>
	DEV gemv_pack<T, N> load(const T *line, int64_t at, bool there) const
	{
		int64_t k = (int64_t)a.k;

		if constexpr (WIDE)
			return gemv_load_if<T, N>(line + at, there && at < k);
		return gemv_load<T, N>(line, at, there ? k : 0, false);
	}

	DEV void all_cols(void)
	{
		enum { ALL = COL_LANES / 8 };
		bool wide = ((uint64_t)o.a | (uint64_t)o.b | a.lda * sizeof(TA) |
			     a.ldb * sizeof(TB) | a.k * sizeof(TB)) % 16 == 0;

		if (wide && a.m <= 4)
			cols<true, 4, ALL>(0);
		else if (wide)
			cols<true, 8, ALL>(0);
		for (int c = 0; !wide && c < GEMV_COLS; c += 256 / COL_LANES)
			cols<false, 8, 1>(c);
	}

	/* b by rows (K x N): the threads split k (split-K). */
	DEV void rows(void)
	{
		enum { ACROSS = GEMV_COLS / V, DOWN = 256 / ACROSS,
		       LEFT = GEMV_M * V * ACROSS / WARP };	/* sums of a lane, at last */
		int x = (int)threadIdx.x % ACROSS * V, y = (int)threadIdx.x / ACROSS, at;
		int64_t n = (int64_t)a.n, k = (int64_t)a.k, col;
		bool wide = ((uint64_t)o.b | (uint64_t)a.ldb * sizeof(TB)) % 16 == 0;
		float sum[GEMV_M * V] = {}, all = 0;

#pragma unroll 2
		for (int64_t i0 = y; i0 < k; i0 += DOWN) {
			gemv_pack<TB, V> w = gemv_load<TB, V>(o.b + i0 * (int64_t)a.ldb,
							      first + x, n, wide);
			TA v[GEMV_M];

			wait();
#pragma unroll
			for (int r = 0; r < GEMV_M; r++)
				v[r] = load_if(o.a + r * a.lda + i0, r < (int)a.m);
#pragma unroll
			for (int r = 0; r < GEMV_M; r++)
#pragma unroll
				for (int i = 0; i < V; i++)
					sum[r * V + i] += as(v[r]) * as(w.v[i]);
		}
		wait();
		/* a warp's shares by shuffles, then those of all warps */
		at = sum_over_lanes<WARP, GEMV_M * V, LEFT, false, ACROSS>(sum);
#pragma unroll
		for (int i = 0; i < LEFT; i++)
			smem[(warp_id() * GEMV_M + (at + i) / V) * GEMV_COLS + x + (at + i) % V] =
				sum[i];
		__syncthreads();
		/* a thread for each result */
		y = (int)threadIdx.x / GEMV_COLS;
		col = first + threadIdx.x % GEMV_COLS;
		for (int w = 0; w < 256 / WARP; w++)
			all += smem[w * GEMV_M * GEMV_COLS + (int)threadIdx.x];
		if (y < (int)a.m && col < n)
			o.finish(a, (size_t)y, (size_t)col, all, get, put);
	}
};

/* Floats of shared memory of a block: sums of its warps. */
#define GEMV_ROOM	(256 / WARP * GEMV_M * GEMV_COLS)

/* All of it, by blocks of 256 threads; GEMM_B_COLS: b lies by columns. */
template <class TA, class TB, class O, class AS, class GET, class PUT>
static DEV inline void gemv(const struct rlx_k_gemm &a, const struct rlx_g_env &env, float *smem,
			    AS as, GET get, PUT put)
{
	int64_t across = ((int64_t)a.n + GEMV_COLS - 1) / GEMV_COLS, block;
	int64_t batch = divide(blockIdx.x, across, &block);
	O o(a, env, batch);
	gemv_block<TA, TB, O, AS, GET, PUT> b = {
		a, o, block * GEMV_COLS, smem, as, get, put, true
	};

	if (!a.b_fixed)
		b.wait();
	if constexpr (GEMM_B_COLS)
		b.all_cols();
	else
		b.rows();
}

#endif
