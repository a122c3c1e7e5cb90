// SPDX-License-Identifier: MIT
// Matrix products of f32 or f64 without tensor cores: tiles in shared memory.
#include "kernels/gpu/gemm.h"

/* RLX_K0: 0 f32, 1 f64; RLX_K1: 0 a large tile, 1 a small one */
#if RLX_K0 == 0
typedef float real;
#else
typedef double real;
#endif
#if RLX_K1 == 0
#define EDGE	128	/* rows and columns of a tile */
#define PER	8	/* of a thread */
#define DEPTH	8
#else
#define EDGE	64
#define PER	4
#define DEPTH	16
#endif

static DEV inline real same(real x)
{
	return x;
}

/*
 * Rows or columns [first, first + EDGE) and k [at, at + DEPTH) of a matrix: element
 * (i, k) at p[i * ld + k], or p[k * ld + i] if @trans. Beyond the edges: zeros.
 */
static DEV inline void load(real (*to)[EDGE + 4], const real *p, size_t ld, bool trans,
			    size_t first, size_t n, size_t at, size_t depth)
{
	for (int e = (int)threadIdx.x; e < EDGE * DEPTH; e += 256) {
		int i = trans ? e % EDGE : e / DEPTH, k = trans ? e / EDGE : e % DEPTH;
		bool in = first + i < n && at + k < depth;

		to[k][i] = !in ? 0 : trans ? p[(at + k) * ld + first + i] :
					     p[(first + i) * ld + at + k];
	}
}

static DEV inline void product(const struct rlx_k_gemm &a, const struct rlx_g_env &env,
			       real (*as)[EDGE + 4], real (*bs)[EDGE + 4],
			       real (*out)[EDGE + 1], int64_t t)
{
	int64_t down = ((int64_t)a.m + EDGE - 1) / EDGE;
	int64_t across = ((int64_t)a.n + EDGE - 1) / EDGE, row, col;
	gemm_operands<real, real, real, real> o(a, env, t / (down * across));
	int x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16;
	real sum[PER][PER] = {};

	gemm_tile(t % (down * across), down, across, &row, &col);
	row *= EDGE;
	col *= EDGE;
	for (size_t at = 0; at < a.k; at += DEPTH) {
		load(as, o.a, a.lda, a.trans_a, (size_t)row, a.m, at, a.k);
		load(bs, o.b, a.ldb, a.b_form == RLX_B_ROWS, (size_t)col, a.n, at, a.k);
		__syncthreads();
#pragma unroll
		for (int k = 0; k < DEPTH; k++)
#pragma unroll
			for (int i = 0; i < PER; i++)
#pragma unroll
				for (int j = 0; j < PER; j++)
					sum[i][j] += as[k][y * PER + i] * bs[k][x + 16 * j];
		__syncthreads();
	}
	/* through shared memory: each end of a sum is written once in the code, and
	 * a wave's stores lie side by side */
#pragma unroll
	for (int i = 0; i < PER; i++) {
#pragma unroll
		for (int j = 0; j < PER; j++)
			out[y][x + 16 * j] = sum[i][j];
		__syncthreads();
#pragma unroll 1
		for (int e = (int)threadIdx.x; e < 16 * EDGE; e += 256) {
			size_t r = (size_t)row + e / EDGE * PER + i;
			size_t c = (size_t)col + e % EDGE;

			if (r < a.m && c < a.n)
				o.finish(a, r, c, out[e / EDGE][e % EDGE], same, same);
		}
		__syncthreads();
	}
}

#if RLX_K0 == 0
RLX_G_KERNEL(gemm_f32, struct rlx_k_gemm, 256)
#else
RLX_G_KERNEL(gemm_f64, struct rlx_k_gemm, 256)
#endif
{
	SHARED(real, as, [DEPTH][EDGE + 4]);
	SHARED(real, bs, [DEPTH][EDGE + 4]);
	SHARED(real, out, [16][EDGE + 1]);
	int64_t tiles = (((int64_t)a.m + EDGE - 1) / EDGE) * (((int64_t)a.n + EDGE - 1) / EDGE);

	tiles *= (int64_t)rlx_k_gemm_batches(&a);
	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x)
		product(a, env, as, bs, out, t);
}
