// SPDX-License-Identifier: MIT
/*
 * GEMM of f32 as dot products along k with strict bits: what the CPU sums so, in its order
 * (kernels/simd/gemm_dot.h). B by columns that is no weight, and products of few columns.
 *
 * Algorithm: a sum has sixteen lanes, of which each takes every sixteenth term, one fused
 * multiply-add after the other; in parts of rlx_k_gemm_dot_part() terms, at whose ends halves of
 * the lanes are added to each other. Sixteen threads are the lanes of DOTS_M x DOTS_N sums, whose
 * rows and columns they read side by side; what other threads of the block read too comes from
 * the L1, whose width is the bound: DOTS_M + DOTS_N loads for DOTS_M * DOTS_N multiply-adds.
 * Sums of several parts may go by a block each (split-K), and another launch adds them up.
 *
 * Tiles: 256 threads, DOTS_DOWN of 16 teams of lanes one above the other.
 * Traffic: A is read ceil(N / columns of a block) times, B ceil(M / rows) times, C written once;
 * split sums cost 4 bytes each way for each part.
 * Limits: any shape, stride and alignment, as elements are read one by one.
 */
#define GEMM_ORDERED	1
#define RLX_G_BLOCKS	2
#include "kernels/gpu/gemm.h"
#include "kernels/gpu/gemm_tile.h"

enum {
	LANES = RLX_K_GEMM_LANES, SUMS = DOTS_M * DOTS_N,
	KEPT = SUMS > LANES ? SUMS / LANES : 1,		/* sums of a thread, once they are folded */
	BM = GEMM_DOTS_M(DOTS_M, DOTS_DOWN), BN = GEMM_DOTS_N(DOTS_N, DOTS_DOWN),
};

typedef gemm_operands<float, float, float, float> operands;

static DEV inline float same(float x)
{
	return x;
}

/* Where a thread's rows and columns are; behind the last, the last. */
struct lines {
	const float	*a[DOTS_M], *b[DOTS_N];
	int64_t		next_a, next_b;		/* from term to term */

	DEV lines(const struct rlx_k_gemm &g, const operands &o, int64_t row, int64_t col)
		: next_a(g.trans_a ? (int64_t)g.lda : 1),
		  next_b(g.b_form == RLX_B_COLS ? 1 : (int64_t)g.ldb)
	{
#pragma unroll
		for (int i = 0; i < DOTS_M; i++) {
			int64_t at = row + i < (int64_t)g.m ? row + i : (int64_t)g.m - 1;

			a[i] = o.a + at * (g.trans_a ? 1 : (int64_t)g.lda);
		}
#pragma unroll
		for (int j = 0; j < DOTS_N; j++) {
			int64_t at = col + j < (int64_t)g.n ? col + j : (int64_t)g.n - 1;

			b[j] = o.b + at * (g.b_form == RLX_B_COLS ? (int64_t)g.ldb : 1);
		}
	}
};

/* The lane's sums of the terms [@k, @end). */
static DEV inline void part_sum(const struct lines &l, int64_t k, int64_t end, float *sum)
{
	for (k += threadIdx.x % LANES; k - (int)(threadIdx.x % LANES) < end; k += LANES) {
		float a[DOTS_M], b[DOTS_N];

#pragma unroll
		for (int i = 0; i < DOTS_M; i++)
			a[i] = load_if(l.a[i] + k * l.next_a, k < end);
#pragma unroll
		for (int j = 0; j < DOTS_N; j++)
			b[j] = load_if(l.b[j] + k * l.next_b, k < end);
#pragma unroll
		for (int i = 0; i < DOTS_M; i++)
#pragma unroll
			for (int j = 0; j < DOTS_N; j++)
				sum[i * DOTS_N + j] = fmaf(a[i], b[j], sum[i * DOTS_N + j]);
	}
}

/* All parts from @k on up to @end, folded, into KEPT of @total; which: see sum_over_lanes(). */
static DEV inline int parts_sum(const struct rlx_k_gemm &g, const struct lines &l, int64_t k,
				int64_t end, float *total)
{
	const int64_t part = (int64_t)rlx_k_gemm_dot_part(g.k);
	int first = 0;

	do {	/* of no terms too */
		float sum[SUMS] = {};

		part_sum(l, k, end - k < part ? end : k + part, sum);
		first = sum_over_lanes<LANES, SUMS, KEPT, true>(sum);
#pragma unroll
		for (int i = 0; i < KEPT; i++)
			total[i] += sum[i];
		k += part;
	} while (k < end);
	return first;
}

/* Number @i of the results of all batches: what is in @part for them is added up. */
static DEV inline void add_up(const struct rlx_k_gemm &g, const struct rlx_g_env &env, int64_t i,
			      int64_t n)
{
	int64_t rest, col, batch = divide(i, (int64_t)(g.m * g.n), &rest);
	int64_t row = divide(rest, (int64_t)g.n, &col);
	const float *part = (const float *)env.scratch + i;
	float sum = 0;

	for (unsigned int p = 0; p < gridDim.y; p++)
		sum += part[(int64_t)p * n];
	operands(g, env, batch).finish(g, (size_t)row, (size_t)col, sum, same, same);
}

static DEV inline void tile(const struct rlx_k_gemm &g, const struct rlx_g_env &env, int64_t t,
			    int64_t n)
{
	const int64_t down = ((int64_t)g.m + BM - 1) / BM, across = ((int64_t)g.n + BN - 1) / BN;
	const int64_t part = (int64_t)rlx_k_gemm_dot_part(g.k);
	const int64_t from = gridDim.y > 1 ? blockIdx.y * part : 0;
	int64_t at, batch = divide(t, down * across, &at), row, col;
	const operands o(g, env, batch);
	float total[KEPT] = {};
	int team = (int)threadIdx.x / LANES, first, copies;

	gemm_tile(at, down, across, &row, &col);
	row = row * BM + team % DOTS_DOWN * DOTS_M;
	col = col * BN + team / DOTS_DOWN * DOTS_N;
	first = parts_sum(g, lines(g, o, row, col), from,
			  gridDim.y > 1 && from + part < (int64_t)g.k ? from + part : (int64_t)g.k,
			  total);
	/* of sums that several lanes have the first one tells */
	copies = SUMS < LANES ? LANES / SUMS : 1;
	if (threadIdx.x % (unsigned int)copies)
		return;
#pragma unroll
	for (int i = 0; i < KEPT; i++) {
		int64_t r = row + (first + i) / DOTS_N, c = col + (first + i) % DOTS_N;

		if (r >= (int64_t)g.m || c >= (int64_t)g.n)
			continue;
		if (gridDim.y > 1)
			((float *)env.scratch)[blockIdx.y * n + (batch * (int64_t)g.m + r) *
							     (int64_t)g.n + c] = total[i];
		else
			o.finish(g, (size_t)r, (size_t)c, total[i], same, same);
	}
}

RLX_G_KERNEL(gemm_dots, struct rlx_k_gemm, 256)
{
	const int64_t batches = (int64_t)rlx_k_gemm_batches(&a);
	const int64_t down = ((int64_t)a.m + BM - 1) / BM, across = ((int64_t)a.n + BN - 1) / BN;
	const int64_t n = (int64_t)(a.m * a.n) * batches;

	if (env.pass) {
		const int64_t block = (int64_t)blockIdx.y * gridDim.x + blockIdx.x;

		for (int64_t i = block * 256 + threadIdx.x; i < n;
		     i += (int64_t)gridDim.x * gridDim.y * 256)
			add_up(a, env, i, n);
		return;
	}
	for (int64_t t = blockIdx.x; t < down * across * batches; t += gridDim.x)
		tile(a, env, t, n);
}
