/* SPDX-License-Identifier: MIT */
/*
 * GEMV and GEMM of up to 8 rows: kernels that read B once, at the speed of memory, and leave
 * tensor cores alone. Included by the .cu files of GEMM.
 *
 * Algorithm: B by columns: a warp for four columns at a time, or, if k is short, as many lanes as
 * a column gives loads to, 8 at least, for each; a reduction over them for all sums at once. So
 * all that a block reads first is under way at a time: memory is waited for once, not for each
 * column; weights, before the launch ahead has ended. B by rows: neighbours have columns side by
 * side and their teams split k, so that k short or long gives as many loads to each thread; sums
 * meet by shuffles and in shared memory.
 *
 * Built for 1, 2, 4 or 8 rows (GEMM_ROWS), of which there may be fewer, and loads of GEMM_BY
 * elements, by which lines begin and end: those of a column, of A too.
 *
 * Traffic: B once, which is the bound; A from the L2 once for each block's columns.
 * Limits: M <= 8; any type and alignment. gemv_stream.cu is the faster one for f16 and bf16
 * where B's lines begin at multiples of 16 bytes and there is no batch.
 */
#ifndef RLX_G_GEMV_H
#define RLX_G_GEMV_H

#include "kernels/gpu/gemm.h"
#include "kernels/gpu/gemm_tile.h"

#ifndef GEMM_LANES	/* of who takes no more than gemv_pack from here */
#define GEMM_LANES	8
#define GEMM_ROWS	1
#define GEMM_BY		1
#endif

/*
 * Columns of a block of b by columns; of b by rows, whose threads side by side have GEMV_ACROSS:
 * k of each, and teams whose sums meet in shared memory.
 */
enum {
	GEMV_M = GEMM_ROWS, GEMV_V = GEMM_BY, GEMV_SIDE = GEMM_LANES, GEMV_COLS = 32,
	GEMV_ACROSS = GEMV_SIDE * GEMV_V, GEMV_DOWN = 256 / GEMV_SIDE,
	GEMV_TEAMS = GEMV_SIDE < WARP ? 256 / WARP : GEMV_DOWN,
};

template <class T, int N> struct alignas(sizeof(T) * N) gemv_pack {
	T	v[N];
};

/*
 * N elements by predicated loads, all or nothing, of what begins at as many bytes or at 16: zeros
 * where there are none.
 */
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
	enum { V = GEMV_V, R = GEMV_M, LANES = GEMV_SIDE };
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
	 * b by columns (rows of N x K in memory): LANES neighbours for a column, and C columns at a
	 * time, 256 / LANES apart; beyond the last one they have nothing to do.
	 */
	DEV void cols(void)
	{
		enum { C = LANES / 8, APART = 256 / LANES, AHEAD = R > 4 ? 1 : C * V > 8 ? 2 : 4 };
		int lane = (int)threadIdx.x % LANES, m = (int)a.m, at;
		int64_t k = (int64_t)a.k, col = first + (int)threadIdx.x / LANES;
		int64_t left = (int64_t)a.n - col;
		const TB *b = o.b + col * (int64_t)a.ldb;
		float sum[C * R] = {};

#pragma unroll AHEAD
		for (int64_t k0 = 0; k0 < k; k0 += LANES * V) {
			int64_t i0 = k0 + lane * V;
			gemv_pack<TB, V> x[C];
			gemv_pack<TA, V> y[R];

			/* all under way before the first is waited for */
#pragma unroll
			for (int c = 0; c < C; c++)
				x[c] = gemv_load_if<TB, V>(b + c * APART * (int64_t)a.ldb + i0,
							   c * APART < left && i0 < k);
			wait();
#pragma unroll
			for (int r = 0; r < R; r++)
				y[r] = gemv_load_if<TA, V>(o.a + r * a.lda + i0, r < m && i0 < k);
#pragma unroll
			for (int c = 0; c < C; c++)
#pragma unroll
				for (int r = 0; r < R; r++)
#pragma unroll
					for (int i = 0; i < V; i++)
						sum[c * R + r] += as(y[r].v[i]) * as(x[c].v[i]);
		}
		wait();
		at = sum_over_lanes<LANES, C * R, 1>(sum);
		col += at / R * APART;
		if (lane < C * R && at % R < m && col < (int64_t)a.n)
			o.finish(a, (size_t)(at % R), (size_t)col, sum[0], get, put);
	}

	/* What the thread's columns, from @col on, have of the products of its share of k. */
	DEV void add_rows(float *sum, int64_t col)
	{
		enum { AHEAD = GEMV_AHEAD(R, V) };
		int64_t k = (int64_t)a.k, n = (int64_t)a.n;

#pragma unroll 1
		for (int64_t i0 = (int)threadIdx.x / LANES; i0 < k; i0 += GEMV_DOWN * AHEAD) {
			gemv_pack<TB, V> x[AHEAD];
			TA y[AHEAD][R];

#pragma unroll
			for (int u = 0; u < AHEAD; u++) {
				int64_t i = i0 + u * GEMV_DOWN;

				x[u] = gemv_load_if<TB, V>(o.b + i * (int64_t)a.ldb + col,
							   i < k && col < n);
			}
			wait();
#pragma unroll
			for (int u = 0; u < AHEAD; u++)
#pragma unroll
				for (int r = 0; r < R; r++)
					y[u][r] = load_if(o.a + r * a.lda + i0 + u * GEMV_DOWN,
							  r < (int)a.m && i0 + u * GEMV_DOWN < k);
#pragma unroll
			for (int u = 0; u < AHEAD; u++)
#pragma unroll
				for (int r = 0; r < R; r++)
#pragma unroll
					for (int i = 0; i < V; i++)
						sum[r * V + i] += as(y[u][r]) * as(x[u].v[i]);
		}
		wait();
	}

	/*
	 * b by rows (K x N): LANES neighbours for V columns each, teams of them for shares of k
	 * (split-K), which meet by shuffles within a warp, then in shared memory.
	 */
	DEV void rows(void)
	{
		enum { ROUND = LANES < WARP ? LANES : WARP, KEPT = R * V * ROUND / WARP,
		       LEFT = KEPT ? KEPT : 1, OWN = R * V / LEFT * ROUND, ALL = R * GEMV_ACROSS };
		int x = (int)threadIdx.x % LANES * V, at, team;
		float sum[R * V] = {};

		add_rows(sum, first + x);
		at = sum_over_lanes<WARP, R * V, LEFT, false, ROUND>(sum);
		team = LANES < WARP ? warp_id() : (int)threadIdx.x / LANES;
		if (lane_id() < OWN)	/* others have the same */
#pragma unroll
			for (int i = 0; i < LEFT; i++)
				smem[(team * R + (at + i) / V) * GEMV_ACROSS + x + (at + i) % V] =
					sum[i];
		__syncthreads();
#pragma unroll 1
		for (int e = (int)threadIdx.x; e < ALL; e += 256) {
			int64_t col = first + e % GEMV_ACROSS;
			float all = 0;

#pragma unroll
			for (int w = 0; w < GEMV_TEAMS; w++)
				all += smem[w * ALL + e];
			if (e / GEMV_ACROSS < (int)a.m && col < (int64_t)a.n)
				o.finish(a, (size_t)(e / GEMV_ACROSS), (size_t)col, all, get, put);
		}
	}
};

/* Floats of shared memory of a block: sums of its teams. */
#define GEMV_ROOM	(GEMM_B_COLS ? 1 : GEMV_TEAMS * GEMV_M * GEMV_ACROSS)

/* All of it, by blocks of 256 threads; GEMM_B_COLS: b lies by columns. */
template <class TA, class TB, class O, class AS, class GET, class PUT>
static DEV inline void gemv(const struct rlx_k_gemm &a, const struct rlx_g_env &env, float *smem,
			    AS as, GET get, PUT put)
{
	enum { COLS = GEMM_B_COLS ? GEMV_COLS : GEMV_ACROSS };
	int64_t across = ((int64_t)a.n + COLS - 1) / COLS, block;
	int64_t batch = divide(blockIdx.x, across, &block);
	O o(a, env, batch);
	gemv_block<TA, TB, O, AS, GET, PUT> b = {
		a, o, block * COLS, smem, as, get, put, true
	};

	if (!a.b_fixed)
		b.wait();
	if constexpr (GEMM_B_COLS)
		b.cols();
	else
		b.rows();
}

#endif
