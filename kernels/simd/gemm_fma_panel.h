/* SPDX-License-Identifier: MIT */
/*
 * Panels whose groups are one float: K rows of two vectors. The includer defines
 *	GF_NUM		the format that B is kept in: RLX_NUM_F32, BF16 or F16
 *	GF_VEC		so many elements of it as a vector of f32 has
 */
#include "kernels/simd/vec.h"

#define GT_L		RLX_VL
#define GT_NV		2
#define GD_K(k)		(k)
#define GD_BROW		(GT_NV * sizeof(GF_VEC))
#define GD_TAIL		0
#include "kernels/simd/gemm_epi.h"
#include "kernels/simd/gemm_pack.h"
#include "kernels/simd/transpose.h"

static void pack_rows(const struct rlx_k_gemm_pack *p, const char *b,
		      size_t cols, char *dst)
{
	size_t es = ge_size(p->num), vs = RLX_VL * ge_size(GF_NUM), k, j;

	for (k = 0; k < p->k; k++, b += p->ldb * es, dst += GD_BROW)
		for (j = 0; j < GT_NV; j++) {
			size_t at = j * RLX_VL;
			size_t n = cols > at ? cols - at : 0;

			ge_store(dst + j * vs, n ? ge_load(b + at * es, p->num,
				 n) : vf_zero(), GF_NUM, RLX_VL);
		}
}

/* By columns: squares of a vector's width through registers. */
static void pack_cols(const struct rlx_k_gemm_pack *p, const char *b,
		      size_t cols, char *dst)
{
	size_t es = ge_size(p->num), k, j, i;

	for (j = 0; j < GD_NR; j += RLX_VL)
		for (k = 0; k < p->k; k += RLX_VL) {
			size_t n = p->k - k;
			vi r[RLX_VL];

			for (i = 0; i < RLX_VL; i++)
				r[i] = j + i < cols ?
				       (vi)ge_load(b + ((j + i) * p->ldb + k) *
						   es, p->num, n) : vi_zero();
			vi_transpose(r);
			for (i = 0; i < RLX_VL && i < n; i++)
				ge_store(dst + (k + i) * GD_BROW +
					 j * ge_size(GF_NUM), (vf)r[i], GF_NUM,
					 RLX_VL);
		}
}

#include "kernels/simd/gemm_panel.h"
