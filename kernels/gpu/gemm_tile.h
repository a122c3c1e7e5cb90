/* SPDX-License-Identifier: MIT */
/*
 * Sizes of GEMM tiles, for the kernels and for their launch on the host: shared memory, threads
 * and stages are worked out here for both sides and so cannot come to differ.
 *
 * A tile is one number of the key, for which the module is compiled; the launch chooses one of a
 * few by a model of the time they take (launch_gemm.h). By MMA (GEMM_MMA_TILE) lines of k in
 * shared memory have 64 bytes and lie 80 apart, or, if k runs down the rows, are padded by 16 (of
 * f32 32): so the eight lines that ldmatrix reads at once lie in different banks. By wgmma
 * (GEMM_TILE) they have 128 bytes, swizzled by TMA, in as many stages as 225 KiB hold, 8 at most.
 * Macros alone: this is read by C, by NVRTC and hipcc, and by the emulator.
 */
#ifndef RLX_G_GEMM_TILE_H
#define RLX_G_GEMM_TILE_H

/*
 * By warps (gemm_mma_tile.h): of an operand with elements of @size bytes, 64 bytes of k by
 * @edge rows or columns are in a stage; bytes from one line of them to the next, and all.
 */
#define GEMM_MMA_TILE_STAGES	3
#define GEMM_MMA_TILE_DEPTH(size)	(64 / (int)(size))
#define GEMM_MMA_TILE_LINE(size, edge, trans)				\
	((trans) ? (edge) * (int)(size) + ((size) == 4 ? 32 : 16) : 80)
#define GEMM_MMA_TILE_BYTES(size, edge, trans)				\
	(GEMM_MMA_TILE_LINE(size, edge, trans) * ((trans) ? GEMM_MMA_TILE_DEPTH(size) : (edge)))

#define GEMM_TF32	64	/* in RLX_K0 of f32: their products are of TF32 */
#define GEMM_BY_SCALE	128	/* in RLX_K0: the product has scales */
#define GEMM_F8		3	/* as a type in RLX_K0: f8e4m3, or with these f8e5m2 */
#define GEMM_A_E5M2	256	/* (of c both) */
#define GEMM_B_E5M2	512

/* Few rows of f32 (gemm_small_m_f32.h): rows and columns of a block, as one number. */
#define GEMM_SMALL_M_F32(rows, cols)	((rows) << 8 | (cols))
#define GEMM_SMALL_M_F32_ROWS(t)	((t) >> 8)
#define GEMM_SMALL_M_F32_COLS(t)	((t) & 255)
/* Columns of a lane, of 8 rows; of k what a warp takes at a time. */
#define GEMM_SMALL_M_F32_LANE(t)	(GEMM_SMALL_M_F32_COLS(t) > 16 ? 8 : 4)
#define GEMM_SMALL_M_F32_STEP(t)	(4 * 32 * 8 * GEMM_SMALL_M_F32_LANE(t) /		\
				 (GEMM_SMALL_M_F32_ROWS(t) * GEMM_SMALL_M_F32_COLS(t)))

/*
 * Tiles of f32 (gemm_tiled.h), as one number: rows / 64, columns / 32, teams that share
 * out k; threads of a team; bytes of shared memory, for the stages and then for the sums.
 */
#define GEMM_TILED(rows, cols, teams)	((rows) / 64 | (cols) / 32 << 2 | (teams) << 5)
#define GEMM_TILED_ROWS(t)	(((t) & 3) * 64)
#define GEMM_TILED_COLS(t)	(((t) >> 2 & 7) * 32)
#define GEMM_TILED_TEAMS(t)	((t) >> 5)
#define GEMM_TILED_TEAM(t)	(((t) & 3) * ((t) >> 2 & 7) * 32)
#define GEMM_TILED_K		8	/* of a stage, of which there are two */
#define GEMM_TILED_LD		40	/* of half of 64 x 32 sums */
#define GEMM_TILED_LOADED(t)	(GEMM_TILED_TEAMS(t) * 2 * GEMM_TILED_K * 4 * \
				 (GEMM_TILED_ROWS(t) + GEMM_TILED_COLS(t) + 8))
#define GEMM_TILED_SUMS(t)	(GEMM_TILED_TEAMS(t) * GEMM_TILED_TEAM(t) * GEMM_TILED_LD * 4)

/*
 * By groups (gemm_wgmma.h), as one number: groups of 64 rows, columns / 64, enum
 * rlx_act.
 */

#define GEMM_TILE(groups, cols, act)	((groups) | (cols) / 64 << 2 | (int)(act) << 5)

#define GEMM_TILE_WARPGROUPS(t)	((t) & 3)
#define GEMM_TILE_ROWS(t)	(GEMM_TILE_WARPGROUPS(t) * 64)
#define GEMM_TILE_COLS(t)	(((t) >> 2 & 7) * 64)
#define GEMM_TILE_ACT(t)	((t) >> 5 & 15)
#define GEMM_TILE_THREADS(t)	((GEMM_TILE_WARPGROUPS(t) + 1) * 128)
#define GEMM_TILE_DEPTH		64	/* of k, 128 bytes of f16 or bf16 */
#define GEMM_TILE_STAGE(t)	((GEMM_TILE_ROWS(t) + GEMM_TILE_COLS(t)) * 128)
/* As many as shared memory holds, beside the barriers and what aligns the tiles. */
#define GEMM_TILE_FIT(t)	((225 << 10) / GEMM_TILE_STAGE(t))
#define GEMM_TILE_STAGES(t)	(GEMM_TILE_FIT(t) < 8 ? GEMM_TILE_FIT(t) : 8)

#endif
