/* SPDX-License-Identifier: MIT */
/*
 * GEMM by multiply-adds of f32: B is f32, or a format of 16 bits that widens on its way
 * into registers where the machine has no product of it; A and the sums are f32. The
 * includer defines GF_TYPE and GF_VEC (gemm_fma_panel.h), and
 *	GF_LOADU(p)	a vector of f32 from so many elements at p
 *	GF_LOADN(p, n)	the same from n elements, zeros behind
 * and includes gemm_drive.h behind it.
 */
#include "kernels/gemm.h"
#include "kernels/simd/gemm_fma_panel.h"
#include "kernels/simd/gemm_sizes.h"

#define GT_A		float
#define GT_T		float
#define GT_V		vf
#define GT_BV		sizeof(GF_VEC)
#define GT_STEP(c, a, b) vf_fma(a, b, c)
#define GT_BCAST(x)	vf_set1(x)
#define GT_LOAD(p)	vf_loadu(p)
#define GT_LOADB(p)	GF_LOADU(p)
#define GT_STORE(p, v)	vf_storeu(p, v)
#include "kernels/simd/gemm_level.h"
#include "kernels/simd/gemm_tile.h"

#define GD_AGROUP	sizeof(float)

/*
 * Rows a multiple of 2 KiB apart compete for one or two first-level sets, which tiles of many
 * panels meet again and again; a few do not repay a copy.
 */
static inline bool gd_direct_a(const struct rlx_k_gemm *g, size_t rows)
{
	return !g->trans_a && g->a_type == RLX_F32 &&
	       (rows <= 6 || g->lda * sizeof(float) % 2048 || g->n <= 8 * GD_NR);
}

/* Reading B's rows in place costs less than a copy that serves two tiles. */
static inline bool gd_direct_b(const struct rlx_k_gemm *g, size_t rows)
{
	return g->b_form == RLX_B_ROWS && g->b_type == GF_TYPE &&
	       rows <= 2 * GT_MR;
}

/* K x rows of 16 bits to rows x K, which is padded with zeros to a vector. */
static void stage_columns(const struct rlx_k_gemm *g, const char *a, char *dst, size_t ld,
			  size_t rows)
{
	size_t es = ge_size(g->a_type), i, k, y;

	for (i = 0; i < rows; i += RLX_VL)
		for (k = 0; k < g->k; k += RLX_VL) {
			vi r[RLX_VL];

			for (y = 0; y < RLX_VL; y++)
				r[y] = y < g->k - k ?
				       (vi)ge_load(a + ((k + y) * g->lda + i) * es, g->a_type,
						   rows - i) : vi_zero();
			vi_transpose(r);
			for (y = 0; y < RLX_VL && y < rows - i; y++)
				vi_storeu(dst + (i + y) * ld + k * 4, r[y]);
		}
}

static void gd_stage_a(const struct rlx_k_gemm *g, const char *a, char *dst,
		       size_t ld, size_t rows)
{
	size_t es = ge_size(g->a_type), i, k;

	if (g->trans_a && g->a_type == RLX_F32) {
		/* K x rows to rows x K; K is padded with zeros to a vector */
		vi_transpose_block(a, g->lda * 4, dst, ld, g->k, rows);
		return;
	}
	if (g->trans_a && rows > 1) {
		stage_columns(g, a, dst, ld, rows);
		return;
	}
	for (i = 0; i < rows; i++, dst += ld) {
		if (g->trans_a) {
			for (k = 0; k < g->k; k++)
				vf_storen(dst + k * 4, ge_load(a + k * g->lda * es, g->a_type, 1),
					  1);
			continue;
		}
		for (k = 0; k < g->k; k += RLX_VL)
			vf_storeu(dst + k * 4, ge_load(a + (i * g->lda + k) *
				  es, g->a_type, g->k - k));
	}
}

#define GD_DOT		RLX_VL
#define GD_DOT_SUMS	vf_hsum4

static inline bool gd_can_dot(const struct rlx_k_gemm *g)
{
	return g->b_type == GF_TYPE;
}

RLX_INLINE vf gd_dot_a(const char *a, size_t k, size_t n)
{
	return n < RLX_VL ? vf_loadn(a + k * 4, n) : vf_loadu(a + k * 4);
}

RLX_INLINE vf gd_dot_b(const char *b, size_t k, size_t n)
{
	b += k * (sizeof(GF_VEC) / RLX_VL);
	return n < RLX_VL ? GF_LOADN(b, n) : GF_LOADU(b);
}
