/* SPDX-License-Identifier: MIT */
/* What both kernels of matrix products and their launches know of tiles. */
#ifndef RLX_G_GEMM_TILE_H
#define RLX_G_GEMM_TILE_H

/*
 * By waves (gemm_waves.h): of an operand with elements of @size bytes, 64 bytes of k by
 * @edge rows or columns are in a stage; bytes from one line of them to the next, and all.
 */
#define GEMM_WAVES_STAGES	3
#define GEMM_WAVES_DEPTH(size)	(64 / (int)(size))
#define GEMM_WAVES_LINE(size, edge, trans)				\
	((trans) ? (edge) * (int)(size) + ((size) == 4 ? 32 : 16) : 80)
#define GEMM_WAVES_BYTES(size, edge, trans)				\
	(GEMM_WAVES_LINE(size, edge, trans) * ((trans) ? GEMM_WAVES_DEPTH(size) : (edge)))

#define GEMM_TF32	64	/* in RLX_K0 of f32: their products are of TF32 */
#define GEMM_BY_SCALE	128	/* in RLX_K0: the product has scales */
#define GEMM_F8		3	/* as a type in RLX_K0: f8e4m3, or with these f8e5m2 */
#define GEMM_A_E5M2	256	/* (of c both) */
#define GEMM_B_E5M2	512

/*
 * By groups (gemm_group.h), as one number: groups of 64 rows, columns / 64, enum
 * rlx_k_act.
 */

#define GEMM_TILE(groups, cols, act)	((groups) | (cols) / 64 << 2 | (int)(act) << 5)

#define GEMM_TILE_GROUPS(t)	((t) & 3)
#define GEMM_TILE_ROWS(t)	(GEMM_TILE_GROUPS(t) * 64)
#define GEMM_TILE_COLS(t)	(((t) >> 2 & 7) * 64)
#define GEMM_TILE_ACT(t)	((t) >> 5 & 15)
#define GEMM_TILE_THREADS(t)	((GEMM_TILE_GROUPS(t) + 1) * 128)
#define GEMM_TILE_DEPTH		64	/* of k, 128 bytes of halves */
#define GEMM_TILE_STAGE(t)	((GEMM_TILE_ROWS(t) + GEMM_TILE_COLS(t)) * 128)
/* As many as shared memory holds, beside the barriers and what aligns the tiles. */
#define GEMM_TILE_FIT(t)	((225 << 10) / GEMM_TILE_STAGE(t))
#define GEMM_TILE_STAGES(t)	(GEMM_TILE_FIT(t) < 8 ? GEMM_TILE_FIT(t) : 8)

#endif
