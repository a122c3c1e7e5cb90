// SPDX-License-Identifier: MIT
// Matrix products of f32 or f64 without tensor cores: tiles in shared memory.
#include "kernels/gpu/gemv.h"

/* RLX_K0: 0 f32, 1 f64; RLX_K1: 0 a large tile, 1 a small one, 2 few rows of f32 */
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

/* A matrix: element (i, k) at p[i * ld + k], or p[k * ld + i] if trans. */
struct side {
	const real	*p;
	size_t		ld, n, depth;
	bool		trans;
};

/* Its rows [first, first + EDGE), k [at, at + DEPTH); zeros beyond the edges. */
static DEV inline void load(real (*to)[EDGE + 4], const struct side &s, size_t first, size_t at)
{
	for (int e = (int)threadIdx.x; e < EDGE * DEPTH; e += 256) {
		int i = s.trans ? e % EDGE : e / DEPTH, k = s.trans ? e / EDGE : e % DEPTH;
		bool in = first + i < s.n && at + k < s.depth;

		to[k][i] = !in ? 0 : s.trans ? s.p[(at + k) * s.ld + first + i] :
					       s.p[(first + i) * s.ld + at + k];
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
	struct side left = { o.a, a.lda, a.m, a.k, a.trans_a };
	struct side right = { o.b, a.ldb, a.n, a.k, a.b_form == RLX_B_ROWS };
	real sum[PER][PER] = {};

	gemm_tile(t % (down * across), down, across, &row, &col);
	row *= EDGE;
	col *= EDGE;
	for (size_t at = 0; at < a.k; at += DEPTH) {
		load(as, left, (size_t)row, at);
		load(bs, right, (size_t)col, at);
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

#if RLX_K1 == 2
RLX_G_KERNEL(gemm_f32, struct rlx_k_gemm, 256)
{
	SHARED(float, room, [GEMV_ROOM(sizeof(float))]);

	gemv<float, gemm_operands<float, float, float, float>>(a, env, room, same, same, same);
}
#else
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
#endif
