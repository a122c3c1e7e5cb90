/* SPDX-License-Identifier: MIT */
/*
 * What a level's registers hold of sums, for gemm_tile.h: rows of a tile of two vectors. Who
 * has tiles of another width defines GT_MR and GT_FLAT_MR before, who is built for another
 * level than base, v3 and v4 GD_ISA.
 */
#ifdef GD_ISA
#elif defined(RLX_V512)
#define GD_ISA		RLX_ISA_V4
#elif defined(RLX_V256)
#define GD_ISA		RLX_ISA_V3
#else
#define GD_ISA		RLX_ISA_BASE
#endif

#ifndef GT_MR
#if defined(RLX_V512)
#define GT_MR		14
#define GT_FLAT_MR	6
#elif defined(RLX_V256)
#define GT_MR		6
#else
#define GT_MR		4
#define GT_FLAT_MR	1
#endif
#endif
