// SPDX-License-Identifier: MIT
/* Integer GEMM by AMX tiles, which take any signs: TDPBSSD and its like. */
#include "kernels/gemm.h"

#define GT_T		int32_t
#define GX_KINDS	4
#define GX_DP(kind, c, a, b)						\
	do {								\
		if ((kind) == 0)					\
			TILE_DP_UU8(c, a, b);				\
		else if ((kind) == 1)					\
			TILE_DP_US8(c, a, b);				\
		else if ((kind) == 2)					\
			TILE_DP_SU8(c, a, b);				\
		else							\
			TILE_DP_SS8(c, a, b);				\
	} while (0)

static inline int gx_kind(const struct rlx_k_gemm *g)
{
	const struct rlx_k_gemm_i8 *q = (const struct rlx_k_gemm_i8 *)g;

	return q->a_signed * 2 + q->b_signed;
}

#include "kernels/simd/gemm_amx.h"

typedef uint8_t gi_a;
#define GI_G		4
#define GI_PAD		TILE_COLSB
#define GI_BITS		8
/* Each line of a tile of A is read once a panel: none need stay. */
#define GI_DIRECT(g, rows)	true
#define GI_A_OFF(q)	((void)(q), 0)
#define GI_B_OFF(q)	((void)(q), 0)
#include "kernels/simd/gemm_int.h"
#include "kernels/simd/gemm_amx_panels.h"

GD_KERNEL(gemm_i8)
GD_PACK_KERNEL(gemm_i8_pack, rlx_k_gemm_i8_pack)
