// SPDX-License-Identifier: MIT
/*
 * GEMM of f16, bf16 or fp8 by Hopper's wgmma: persistent, warp-specialised blocks.
 *
 * Algorithm: one producer warpgroup of which a single thread asks TMA for tiles of A and B,
 * 1 or 2 consumer warpgroups that multiply what has arrived (gemm_wgmma_tile.h). A block goes
 * from one tile of the result to the next in the order of gemm_tile(), so that blocks which
 * run together share panels of A and B in the L2.
 *
 * With few tiles and a long k several blocks sum parts of each tile's k (split-K): sums go to
 * memory as f32, and whose warp comes last for 16 rows of a tile adds them up, in one order.
 * GEMMs of one A and weights of equal sizes are batch indices of one launch, which has a map of
 * each one's B (horizontal fusion).
 * Operands whose lines do not begin at 16 bytes are read from scratch, where a pass ahead has
 * put them (GEMM_REPACK).
 *
 * Traffic: A is read ceil(N / BN) times and B ceil(M / BM) times by way of the L2; C once.
 * B of weights that nobody writes is asked for before the preceding launch has ended (PDL).
 *
 * Source: PTX ISA, wgmma.mma_async and cp.async.bulk.tensor; the producer and consumer split
 * is that of CUTLASS's warp-specialised persistent kernels.
 *
 * Limits: sm_90a alone; A and B of one type.
 */
#include "kernels/gpu/gemm_tile.h"

#ifdef RLX_KERNEL_gemm_wgmma_horizontal	/* a batch index is a GEMM of its own b, bias and c */
#define HORIZONTAL	1
#define GEMM_SPLIT_K	0
#define GEMM_REPACK	0
#define GEMM_SCALED	0
#else
#define HORIZONTAL	0
#endif
#define RLX_G_BLOCKS	GEMM_TILE_BLOCKS(GEMM_TILE_M, GEMM_TILE_N)
#define STORE_SHIFTED	(GEMM_REPACK != 0)
#include "kernels/gpu/gemm_wgmma_tile.h"
#include "kernels/gpu/gemm_horizontal.h"
#include "kernels/gpu/repack_lines.h"

/* Steps of k. */
static DEV inline int steps_of(const struct rlx_k_gemm &a)
{
	int k = F8 ? (int)a.k / 2 : (int)a.k;

	return (k + DEPTH - 1) / DEPTH;
}

/* Blocks of one tile. */
static DEV inline uint32_t parts_of(const struct rlx_k_gemm &a)
{
	uint32_t tiles = ((uint32_t)a.m + BM - 1) / BM * (((uint32_t)a.n + BN - 1) / BN) *
			 (uint32_t)rlx_k_gemm_batches(&a);

	return GEMM_SPLIT_K ? gridDim.x / tiles : 1;
}

/* A tile of the result, and a block's steps of its k. */
struct spot {
	int		batch, row, col, first, end;
	uint32_t	tile, part, parts;

	DEV spot(const struct rlx_k_gemm &a, uint32_t down, uint32_t i)
	{
		uint32_t across = ((uint32_t)a.n + BN - 1) / BN, r, c, t;

		parts = parts_of(a);
		tile = t = GEMM_SPLIT_K ? i / parts : i;
		part = GEMM_SPLIT_K ? i % parts : 0;
		first = (int)((uint32_t)steps_of(a) * part / parts);
		end = (int)((uint32_t)steps_of(a) * (part + 1) / parts);
		batch = (int)(t / (down * across));
		gemm_tile(t % (down * across), down, across, &r, &c);
		row = (int)r * BM;
		col = (int)c * BN;
	}
};

static DEV inline uint32_t spots_down(const struct rlx_k_gemm &a, const struct rlx_g_env &env)
{
	return ((uint32_t)live_rows(env, (int64_t)a.m) + BM - 1) / BM;
}

static DEV inline uint32_t spots(const struct rlx_k_gemm &a, uint32_t down)
{
	return down * (((uint32_t)a.n + BN - 1) / BN) * (uint32_t)rlx_k_gemm_batches(&a) *
	       parts_of(a);
}

/* ---- the warp that loads ---- */

/* An operand whose tiles are asked for: its map, and where in it. */
template <bool TRANS> struct source {
	const void	*map;
	int		at[4];

	DEV source(const void *m, const size_t *step, int batch, size_t inner)
		: map(m), at{}
	{
		at[2] = step[1] ? batch % (int)inner : 0;
		at[3] = step[0] ? batch / (int)inner : 0;
	}

	/* The tile of rows (or columns) from @first on whose k begins at @k. */
	DEV void load(unsigned char *to, uint64_t *full, int first, int k)
	{
		at[0] = TRANS ? first : k;
		at[1] = TRANS ? k : first;
		tma_load(to, map, full, at);
	}
};

static DEV inline void load_b(unsigned char *stage, uint64_t *full, source<B_TRANS> &b, int col,
			      int step)
{
	for (int j = 0; j < (B_TRANS ? BN / 64 : 1); j++)
		b.load(stage + A_BYTES + j * BOX, full, col + j * 64, step * DEPTH);
}

/* The map of b, A's being the first one. */
static DEV inline const unsigned char *map_of_b(const struct rlx_g_env &env, int batch)
{
	return (const unsigned char *)env.maps +
	       (1 + (HORIZONTAL ? batch : 0)) * RLX_G_TENSOR_MAP_BYTES;
}

/* Weights, which nobody writes, before the preceding launch has ended. */
static DEV inline void load_all(const struct rlx_k_gemm &a, const struct rlx_g_env &env,
				unsigned char *shared, struct stages *st)
{
	const unsigned char *maps = (const unsigned char *)env.maps;
	size_t inner = a.batch[1] ? a.batch[1] : 1;
	uint32_t down = spots_down(a, env);
	pipeline_state<STAGES> t = {};
	int ahead = 0;

	tensor_map_acquire(maps);
	for (int i = 0; i < (HORIZONTAL ? (int)a.batch[0] : 1); i++)
		tensor_map_acquire(map_of_b(env, i));
	if (a.b_fixed && !(GEMM_REPACK & RLX_G_REPACK_B) && blockIdx.x < spots(a, down)) {
		spot p(a, down, blockIdx.x);
		source<B_TRANS> sb(map_of_b(env, p.batch), a.b_step, p.batch, inner);

		for (; p.first + ahead < p.end && ahead < STAGES; ahead++) {
			bar_expect(&st->full[ahead], STAGE);
			load_b(shared + ahead * STAGE, &st->full[ahead], sb, p.col,
			       p.first + ahead);
		}
	}
	pdl_wait();
	for (uint32_t i = blockIdx.x; i < spots(a, down); i += gridDim.x) {
		spot p(a, down, i);
		source<A_TRANS> sa(maps, a.a_step, p.batch, inner);
		source<B_TRANS> sb(map_of_b(env, p.batch), a.b_step, p.batch, inner);

		for (int s = p.first; s < p.end; s++, t.next()) {
			unsigned char *to = shared + t.stage * STAGE;
			uint64_t *full = &st->full[t.stage];

			if (ahead) {	/* b is under way */
				ahead--;
			} else {
				bar_wait(&st->empty[t.stage], t.phase ^ 1);
				bar_expect(full, STAGE);
				load_b(to, full, sb, p.col, s);
			}
			for (int j = 0; j < (A_TRANS ? BM / 64 : 1); j++)
				sa.load(to + j * BOX, full, p.row + j * 64, s * DEPTH);
		}
	}
}

/* ---- several blocks for a tile ---- */

struct alignas(16) four_sums {
	float	v[4];
};

/*
 * A warp's sums of a part to memory, a thread's by 16 bytes beside those of others; true: all
 * parts were there, and @d is their sum, which is made in one order, whoever comes last.
 */
static DEV inline bool add_parts(float (&d)[SUMS], const struct rlx_k_gemm &a,
				 const struct rlx_g_env &env, const spot &p)
{
	enum { WARPS = GROUPS * GROUP / WARP, EACH = WARP * SUMS / 4 };	/* by 16 bytes */
	four_sums *all = (four_sums *)((char *)env.scratch + rlx_g_repack_bytes(&a, GEMM_REPACK)) +
			 ((int64_t)p.tile * p.parts * WARPS + warp_id()) * EACH + lane_id();
	uint32_t *count = env.zeros + p.tile * WARPS + warp_id(), before = 0;

#pragma unroll
	for (int i = 0; i < SUMS; i += 4)
		all[(int64_t)p.part * WARPS * EACH + i / 4 * WARP] =
			four_sums{ { d[i], d[i + 1], d[i + 2], d[i + 3] } };
	memory_fence();
	warp_sync();
	if (lane_id() == 0)
		before = atomic_add(count, 1u);
	if (shuffle(before, 0) != p.parts - 1)
		return false;
	memory_fence();
	if (lane_id() == 0)
		*count = 0;
#pragma unroll
	for (int i = 0; i < SUMS; i++)
		d[i] = 0;
#pragma unroll 1
	for (uint32_t s = 0; s < p.parts; s++, all += WARPS * EACH)
#pragma unroll
		for (int i = 0; i < SUMS; i += 4) {
			four_sums v;

			load_new((uint32_t *)v.v, all + i / 4 * WARP);
#pragma unroll
			for (int j = 0; j < 4; j++)
				d[i + j] += v.v[j];
		}
	return true;
}

/* ---- the groups that multiply ---- */

static DEV inline void multiply_all(const struct rlx_k_gemm &a, const struct rlx_g_member *of,
				    const struct rlx_g_env &env, const unsigned char *shared,
				    struct stages *st)
{
	int group = (int)threadIdx.x / GROUP;
	uint32_t down = spots_down(a, env);
	pipeline_state<STAGES> t = {};

	for (uint32_t i = blockIdx.x; i < spots(a, down); i += gridDim.x) {
		spot p(a, down, i);
		operands o(a, env, p.batch);
		float d[SUMS];

		if (HORIZONTAL) {
			o.c = RLX_G_PTR(type_c, of[p.batch].c);
			o.bias = RLX_G_PTR(const float, of[p.batch].bias);
		}

		multiply(d, p.end - p.first, shared, st, &t);
		if (GEMM_SPLIT_K && !add_parts(d, a, env, p))
			continue;
		end_sums(d, a, o, p.row + group * 64, p.col);
	}
}

static DEV inline void gemm(const struct rlx_k_gemm &a, const struct rlx_g_member *of,
			    const struct rlx_g_env &env, unsigned char *shared, struct stages *st)
{
	stages_init(st);
	if ((int)threadIdx.x < GROUPS * GROUP) {
		regs_more<GEMM_TILE_REGS(BM, RLX_G_BLOCKS)>();
		pdl_wait();
		multiply_all(a, of, env, shared, st);
	} else {
		regs_fewer<GEMM_TILE_REGS_LOAD>();
		if (warp_id() == GROUPS * 4 && lane_id() == 0)
			load_all(a, env, shared, st);
	}
}

#if HORIZONTAL
RLX_G_KERNEL_PDL(gemm_wgmma_horizontal, struct rlx_g_horizontal_tiled, THREADS)
{
	SHARED(struct stages, st, [1]);
	SHARED_DYNAMIC(shared);

	gemm(a.g, a.of, env, shared, st);
}
#else
RLX_G_KERNEL_PDL(gemm_wgmma, struct rlx_k_gemm, THREADS)
{
	SHARED(struct stages, st, [1]);
	SHARED_DYNAMIC(shared);

	if (GEMM_REPACK && env.pass == 0) {
		pdl_wait();
		repack(a, env, GEMM_REPACK);
		return;
	}
	gemm(a, 0, env, shared, st);
}
#endif
