// SPDX-License-Identifier: MIT
/*
 * Integer GEMM by VPDPBUSD, which takes A unsigned and B signed:
 * the others are moved by 128, and their zero points with them.
 */
#include "kernels/simd/vec.h"

/* four bytes where they lie */
typedef int32_t quad_a __attribute__((aligned(1), may_alias));

#define GT_A		quad_a
#define GT_T		int32_t
#define GT_V		vi
#define GT_L		RLX_VL
#define GT_NV		2
#define GT_BV		sizeof(vi)
#define GT_STEP(c, a, b)						\
	((vi)_mm512_dpbusd_epi32((__m512i)(c), (__m512i)(a), (__m512i)(b)))
#define GT_BCAST(x)	vi_set1(x)
#define GT_LOAD(p)	vi_loadu(p)
#define GT_LOADB(p)	vi_loadu(p)
#define GT_STORE(p, v)	vi_storeu(p, v)
#define GD_ISA		RLX_ISA_V4_VNNI
#include "kernels/simd/gemm_level.h"
#include "kernels/simd/gemm_tile.h"

typedef uint8_t gi_a;
#define GI_G		4
#define GI_BITS		8
/* Rows a multiple of 2 KiB apart compete for one or two first-level sets. */
#define GI_DIRECT(g, rows)	((rows) <= 6 || (g)->lda % 2048)
#define GI_A_OFF(q)	((q)->a_signed ? 128 : 0)
#define GI_B_OFF(q)	((q)->b_signed ? 0 : -128)
#include "kernels/simd/gemm_int.h"

GD_KERNEL(gemm_i8)
GD_PACK_KERNEL(gemm_i8_pack, rlx_k_gemm_i8_pack)
