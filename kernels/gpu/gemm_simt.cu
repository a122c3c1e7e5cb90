// SPDX-License-Identifier: MIT
/*
 * GEMM of f32 and f64 without tensor cores. Few rows of f32 go by gemv.h and
 * gemm_small_m_f32.h, many by gemm_tiled.h; here are f64 and grouped GEMM of either type.
 *
 * Algorithm: 256 threads make a tile of C; of each step of k the tiles of A and B go to shared
 * memory with k down the rows (zeros beyond the edges), then simt_multiply() takes rank-1
 * updates. One stage: loads and products do not overlap. The epilogue goes by way of shared
 * memory, so that a warp's stores lie side by side.
 *
 * Tiles: 64 x 64 by 16 of k, 4 x 4 sums a thread; grouped f32 of many rows an expert 128 x 128
 * by 8, 8 x 8 sums. Blocks take tiles in the order of gemm_tile().
 * Traffic: A is read ceil(N / 64) times and B ceil(M / 64) times, mostly from the L2; C once.
 * Limits: any shape, stride and alignment, as elements are read one by one. Sums are of the
 * operands' type, in the order of k.
 */
#ifdef RLX_KERNEL_gemm_tiled	/* registers for 512 threads of a multiprocessor at least */
#define RLX_G_BLOCKS	(512 / (GEMM_TILED_TEAM(GEMM_TILE_M, GEMM_TILE_N) * GEMM_TEAMS))
#endif
#ifdef RLX_KERNEL_gemm_ordered	/* gemm_tiled.h in the CPU's order */
#define GEMM_ORDERED	1
#define GEMM_TEAMS	1
#define RLX_G_BLOCKS	(512 / GEMM_TILED_TEAM(GEMM_TILE_M, GEMM_TILE_N))
#endif
#ifdef RLX_KERNEL_gemv_f32	/* loads of one block under way while another adds up */
#define RLX_G_BLOCKS	2
#endif
#include "kernels/gpu/gemm.h"
#ifdef GEMM_B_COLS
#include "kernels/gpu/gemv.h"
#endif
#include "kernels/gpu/expert_rows.h"
#include "kernels/gpu/simt.h"

#if defined(RLX_KERNEL_gemm_f64) || GEMM_F64
typedef double real;
#else
typedef float real;
#endif
#if GEMM_EDGE == 128
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

typedef gemm_operands<real, real, real, real> operands;

/*
 * A matrix: element (i, k) at p[i * ld + k], or p[k * ld + i] if trans; row list[i], if
 * there is a list.
 */
struct side {
	const real	*p;
	size_t		ld, n, depth;
	bool		trans;
	const int	*list;
};

/* Its rows [first, first + EDGE), k [at, at + DEPTH); zeros beyond the edges. */
static DEV inline void load(real (*to)[EDGE + 4], const struct side &s, size_t first, size_t at)
{
	for (int e = (int)threadIdx.x; e < EDGE * DEPTH; e += 256) {
		int i = s.trans ? e % EDGE : e / DEPTH, k = s.trans ? e / EDGE : e % DEPTH;
		bool in = first + i < s.n && at + k < s.depth;

		size_t row = !in ? 0 : s.list ? (size_t)s.list[first + i] : first + i;

		to[k][i] = !in ? 0 : s.trans ? s.p[(at + k) * s.ld + row] :
					       s.p[row * s.ld + at + k];
	}
}

/* Where tiles of operands lie, and some rows of sums. */
struct smem {
	real	a[DEPTH][EDGE + 4], b[DEPTH][EDGE + 4], out[16][EDGE + 1];
};

/*
 * Tile @t of those of one batch index, @down of them from top to bottom; @list: where rows
 * of a and c are, or NULL.
 */
static DEV inline void product(const struct rlx_k_gemm &a, const operands &o, struct smem *at,
			       int64_t down, int64_t t, const int *list)
{
	int64_t across = ((int64_t)a.n + EDGE - 1) / EDGE, row, col;
	int x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16;
	struct side left = { o.a, a.lda, a.m, a.k, a.trans_a, list };
	struct side right = { o.b, a.ldb, a.n, a.k, a.b_form == RLX_B_ROWS, 0 };
	real sum[PER][PER] = {};

	gemm_tile(t, down, across, &row, &col);
	row *= EDGE;
	col *= EDGE;
	for (size_t k = 0; k < a.k; k += DEPTH) {
		load(at->a, left, (size_t)row, k);
		load(at->b, right, (size_t)col, k);
		__syncthreads();
		simt_multiply<DEPTH>(sum, at->a, at->b);
		__syncthreads();
	}
	/* through shared memory: each end of a sum is written once in the code, and
	 * a warp's stores lie side by side */
#pragma unroll
	for (int i = 0; i < PER; i++) {
#pragma unroll
		for (int j = 0; j < PER; j++)
			at->out[y][x + 16 * j] = sum[i][j];
		__syncthreads();
#pragma unroll 1
		for (int e = (int)threadIdx.x; e < 16 * EDGE; e += 256) {
			size_t r = (size_t)row + e / EDGE * PER + i;
			size_t c = (size_t)col + e % EDGE;

			if (r < a.m && c < a.n)
				o.finish(a, list ? (size_t)list[r] : r, c,
					 at->out[e / EDGE][e % EDGE], same, same);
		}
		__syncthreads();
	}
}

#ifdef RLX_KERNEL_gemv_f32
RLX_G_KERNEL_PDL(gemv_f32, struct rlx_k_gemm, 256)
{
	SHARED(float, smem, [GEMV_ROOM]);

	gemv<float, float, operands>(a, env, smem, same, same, same);
}
#elif defined(RLX_KERNEL_gemm_small_m_f32)
#define PROLOGUE_NORM	0
#include "kernels/gpu/gemm_small_m_f32.h"

RLX_G_KERNEL_PDL(gemm_small_m_f32, struct rlx_k_gemm, 384)
{
	SHARED_DYNAMIC(shared);

	small_f32(a, env, (float *)shared, blockIdx.x, 0, false);
}
#elif defined(RLX_KERNEL_gemm_horizontal_f32)
#include "kernels/gpu/gemm_small_m_f32.h"

RLX_G_KERNEL_PDL(gemm_horizontal_f32, struct rlx_g_horizontal, 384)
{
	SHARED_DYNAMIC(shared);
	bool first;
	struct rlx_k_gemm g;
	uint32_t block = horizontal_member(a, PROLOGUE_NORM, &g, &first);

	small_f32(g, env, (float *)shared, block, &a, first);
}
#elif defined(RLX_KERNEL_gemm_tiled) || GEMM_ORDERED
#include "kernels/gpu/gemm_tiled.h"
#elif defined(RLX_KERNEL_gemm_grouped_simt)
RLX_G_KERNEL(gemm_grouped_simt, struct rlx_g_grouped, 256)
{
	SHARED(struct smem, smem, [1]);
	SHARED(uint64_t, sums, [256 / WARP]);
	expert_rows<EDGE, 256> r(a, env);
	int64_t across = ((int64_t)a.g.n + EDGE - 1) / EDGE;
	struct rlx_k_gemm g = a.g;

	if (env.pass == 0) {
		if (blockIdx.x == 0)
			r.sort(env, sums);
		return;
	}
	for (int64_t t = blockIdx.x; t < *r.tiles * across; t += gridDim.x) {
		const int *list;
		int group = r.take(t / across, &list, &g.m);

		if (r.find(group, &g))
			product(g, operands(g, env, group), smem, 1, t % across, list);
	}
}
#else
RLX_G_KERNEL(gemm_f64, struct rlx_k_gemm, 256)
{
	SHARED(struct smem, smem, [1]);
	int64_t down = (live_rows(env, (int64_t)a.m) + EDGE - 1) / EDGE;
	int64_t each = down * (((int64_t)a.n + EDGE - 1) / EDGE);
	int64_t tiles = each * (int64_t)rlx_k_gemm_batches(&a);

	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x)
		product(a, operands(a, env, t / each), smem, down, t % each, 0);
}
#endif
