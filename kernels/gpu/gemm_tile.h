/* SPDX-License-Identifier: MIT */
/*
 * Sizes of GEMM tiles, for the kernels and for their launch on the host: shared memory, threads
 * and stages are worked out here for both sides and so cannot come to differ.
 *
 * A tile's rows and columns are parameters of the module (GEMM_TILE_M, GEMM_TILE_N); the launch
 * chooses one of a few by a model of the time they take (launch_gemm.h). By MMA (GEMM_MMA_TILE)
 * lines of k in shared memory have 64 bytes and lie 80 apart, or, if k runs down the rows, are
 * padded by 16 (of f32 32): so the eight lines that ldmatrix reads at once lie in different banks.
 * By wgmma they have 128 bytes, swizzled by TMA, in as many stages as 225 KiB hold, 8 at most;
 * a GEMM's small tiles leave room for a second block.
 * Macros alone: this is read by C, by NVRTC and hipcc, and by the emulator.
 */
#ifndef RLX_G_GEMM_TILE_H
#define RLX_G_GEMM_TILE_H

/*
 * By warps (gemm_mma_tile.h): of an operand with elements of @size bytes, 64 bytes of k by
 * @edge rows or columns are in a stage; bytes from one line of them to the next, and all.
 */
#define GEMM_MMA_TILE_STAGES	3
/* Tiles by their edge: 128 x 128, 64 x 64, 32 x 32, and of 16 16 x 64; threads of a block. */
#define GEMM_MMA_TILE_M(edge)	(edge)
#define GEMM_MMA_TILE_N(edge)	((edge) == 16 ? 64 : (edge))
#define GEMM_MMA_TILE_THREADS(edge)	((edge) == 128 ? 256 : (edge) == 64 ? 128 : 64)
#define GEMM_MMA_TILE_DEPTH(size)	(64 / (int)(size))
#define GEMM_MMA_TILE_LINE(size, edge, trans)				\
	((trans) ? (edge) * (int)(size) + ((size) == 4 ? 32 : 16) : 80)
#define GEMM_MMA_TILE_BYTES(size, edge, trans)				\
	(GEMM_MMA_TILE_LINE(size, edge, trans) * ((trans) ? GEMM_MMA_TILE_DEPTH(size) : (edge)))

/* GEMV by columns (gemv.h): lanes of a column, each with @per of its @k at a time. */
#define GEMV_LANES(k, per)	((k) > 16 * (per) ? 32 : (k) > 8 * (per) ? 16 : 8)
/* By rows: lines of b of which a thread has @by elements each under way, for @rows of a. */
#define GEMV_AHEAD(rows, by)	((rows) * (by) > 32 ? 2 : (rows) > 2 ? 4 : 8)

/*
 * In registers (gemm_direct.h): k of a step; steps that a warp has under way, by columns of a block
 * and bytes that a load takes of k and of n, whose halves apart take twice the registers.
 */
#define GEMM_DIRECT_K		32
#define GEMM_DIRECT_AHEAD(cols, by_k, by_n)				\
	((cols) > 32 || ((cols) > 16 && ((by_n) ? (by_n) : (by_k)) == 2) ? 1 : (cols) > 8 ? 2 : 4)

/* Of enum rlx_dtype f32 and the first type of fp8, for #if, which knows no enum. */
#define GEMM_F32	2
#define GEMM_F8		5

/*
 * Few rows of f32 (gemm_small_m_f32.h), by rows and columns of a block: columns of a lane, of 8
 * rows; of k what a warp takes at a time.
 */
#define GEMM_SMALL_M_F32_LANE(n)	((n) > 16 ? 8 : 4)
#define GEMM_SMALL_M_F32_STEP(m, n)	(4 * 32 * 8 * GEMM_SMALL_M_F32_LANE(n) / ((m) * (n)))

/*
 * Tiles of f32 (gemm_tiled.h), by rows, a multiple of 64, columns, of 32, and teams that share
 * out k: threads of a team; bytes of shared memory, for the stages and then for the sums.
 */
#define GEMM_TILED_TEAM(m, n)	((m) / 64 * ((n) / 32) * 32)
#define GEMM_TILED_K		8	/* of a stage, of which there are two */
#define GEMM_TILED_LD		40	/* of half of 64 x 32 sums */
#define GEMM_TILED_LOADED(m, n, teams)	((teams) * 2 * GEMM_TILED_K * 4 * ((m) + (n) + 8))
#define GEMM_TILED_SUMS(m, n, teams)	((teams) * GEMM_TILED_TEAM(m, n) * GEMM_TILED_LD * 4)

/* Of strict sums, whose @parts one block makes: earlier ones beside the stages. */
#define GEMM_ORDERED_MET(m, n, parts)	((parts) > 1 ? (m) * (n) * 4 : 0)

/* Strict dot products (gemm_dots.cu): rows and columns of a block, by those of a thread. */
#define GEMM_DOTS_M(tm, down)	((tm) * (down))
#define GEMM_DOTS_N(tn, down)	((tn) * (16 / (down)))

/* By wgmma (gemm_wgmma.cu), by rows and columns, multiples of 64; 64 rows a warpgroup. */
#define GEMM_TILE_WARPGROUPS(m)	((m) / 64)
#define GEMM_TILE_THREADS(m)	((GEMM_TILE_WARPGROUPS(m) + 1) * 128)
#define GEMM_TILE_DEPTH		64	/* of k, 128 bytes of f16 or bf16 */
#define GEMM_TILE_STAGE(m, n)	(((m) + (n)) * 128)
/* Of a multiprocessor, at a time: small tiles end beside another's products. */
#define GEMM_TILE_BLOCKS(m, n)	((m) * (n) <= 64 * 128 ? 2 : 1)
/* As many as shared memory holds for @blocks, beside the barriers and what aligns the tiles. */
#define GEMM_TILE_FIT(m, n, blocks)	((225 << 10) / (blocks) / GEMM_TILE_STAGE(m, n))
#define GEMM_TILE_STAGES(m, n, blocks)					\
	(GEMM_TILE_FIT(m, n, blocks) < 8 ? GEMM_TILE_FIT(m, n, blocks) : 8)
#define GEMM_TILE_SHARED(m, n, blocks)	(GEMM_TILE_STAGES(m, n, blocks) * GEMM_TILE_STAGE(m, n))
/* Registers of a thread: what a block begins with, of one that loads, of one that multiplies. */
#define GEMM_TILE_REGS_BEGIN(m, blocks)	(65536 / (GEMM_TILE_THREADS(m) * (blocks)) / 8 * 8)
#define GEMM_TILE_REGS_LOAD	40
#define GEMM_TILE_REGS_LEFT(m, blocks)					\
	((GEMM_TILE_REGS_BEGIN(m, blocks) * (GEMM_TILE_WARPGROUPS(m) + 1) - GEMM_TILE_REGS_LOAD) / \
	 GEMM_TILE_WARPGROUPS(m) / 8 * 8)
#define GEMM_TILE_REGS(m, blocks)					\
	(GEMM_TILE_REGS_LEFT(m, blocks) < 232 ? GEMM_TILE_REGS_LEFT(m, blocks) : 232)

#endif
