/* SPDX-License-Identifier: MIT */
/*
 * Panels whose groups are one float: K rows of two vectors. The includer defines
 *	GF_TYPE		the format that B is kept in: RLX_F32, BF16 or F16
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
	size_t es = ge_size(p->type), vs = RLX_VL * ge_size(GF_TYPE), k, j;

	for (k = 0; k < p->k; k++, b += p->ldb * es, dst += GD_BROW)
		for (j = 0; j < GT_NV; j++) {
			size_t at = j * RLX_VL;
			size_t n = cols > at ? cols - at : 0;

			ge_store(dst + j * vs, n ? ge_load(b + at * es, p->type,
				 n) : vf_zero(), GF_TYPE, RLX_VL);
		}
}

/* A whole square of columns of @type, @ldb bytes apart, as rows. */
RLX_INLINE void pack_whole(const char *b, size_t ldb, const enum rlx_dtype type, char *dst)
{
	vi r[RLX_VL];
	int i;

	RLX_UNROLL
	for (i = 0; i < RLX_VL; i++)
		r[i] = (vi)ge_load(b + (size_t)i * ldb, type, RLX_VL);
	vi_transpose(r);
	RLX_UNROLL
	for (i = 0; i < RLX_VL; i++)
		ge_store(dst + (size_t)i * GD_BROW, (vf)r[i], GF_TYPE, RLX_VL);
}

/* @k by @n elements of columns. */
RLX_INLINE void pack_square(const char *b, size_t ldb, enum rlx_dtype type, size_t k, size_t n,
			    char *dst)
{
	vi r[RLX_VL];
	size_t i;

	if (k >= RLX_VL && n >= RLX_VL && type == GF_TYPE) {
		pack_whole(b, ldb, GF_TYPE, dst);
		return;
	}
	if (k >= RLX_VL && n >= RLX_VL && type == RLX_F16) {
		pack_whole(b, ldb, RLX_F16, dst);
		return;
	}
	for (i = 0; i < RLX_VL; i++)
		r[i] = i < n ? (vi)ge_load(b + i * ldb, type, k) : vi_zero();
	if (n)
		vi_transpose(r);
	for (i = 0; i < RLX_VL && i < k; i++)
		ge_store(dst + i * GD_BROW, (vf)r[i], GF_TYPE, RLX_VL);
}

/* By columns: squares of a vector's width through registers. */
static void pack_cols(const struct rlx_k_gemm_pack *p, const char *b,
		      size_t cols, char *dst)
{
	size_t es = ge_size(p->type), k, j;

	for (j = 0; j < GD_NR; j += RLX_VL)
		for (k = 0; k < p->k; k += RLX_VL)
			pack_square(b + (j * p->ldb + k) * es, p->ldb * es, p->type, p->k - k,
				    cols > j ? cols - j : 0,
				    dst + k * GD_BROW + j * ge_size(GF_TYPE));
}

#include "kernels/simd/gemm_panel.h"
