// SPDX-License-Identifier: MIT
/* Matrix products in f32. */
#include "kernels/gemm.h"
#include "kernels/simd/gemm_epi.h"
#include "kernels/simd/transpose.h"

#define GT_A		float
#define GT_T		float
#define GT_V		vf
#define GT_L		RLX_VL
#define GT_NV		2
#define GT_BV		sizeof(vf)
#define GT_STEP(c, a, b) vf_fma(a, b, c)
#define GT_BCAST(x)	vf_set1(x)
#define GT_LOAD(p)	vf_loadu(p)
#define GT_LOADB(p)	vf_loadu(p)
#define GT_STORE(p, v)	vf_storeu(p, v)
#if defined(RLX_V512)
#define GT_MR		14
#define GD_ISA		RLX_ISA_V4
#elif defined(RLX_V256)
#define GT_MR		6
#define GD_ISA		RLX_ISA_V3
#else
#define GT_MR		4
#define GT_FLAT_MR	1
#define GD_ISA		RLX_ISA_BASE
#endif
#include "kernels/simd/gemm_tile.h"

#define GD_K(k)		(k)
#define GD_AGROUP	sizeof(float)
#define GD_BROW		(GT_NV * sizeof(vf))

static inline size_t gd_a_size(const struct rlx_k_gemm *g)
{
	return sizeof(float);
}

static inline size_t gd_b_size(const struct rlx_k_gemm *g)
{
	return sizeof(float);
}

/* Rows a multiple of 2 KiB apart compete for one or two first-level sets. */
static inline bool gd_direct_a(const struct rlx_k_gemm *g, size_t rows)
{
	return !g->trans_a && (rows <= 6 || g->lda * sizeof(float) % 2048);
}

/* Reading B's rows in place costs less than a copy that serves two tiles. */
static inline bool gd_direct_b(const struct rlx_k_gemm *g, size_t rows)
{
	return g->b_form == RLX_B_ROWS && rows <= 2 * GT_MR;
}

static void gd_stage_a(const struct rlx_k_gemm *g, const char *a, char *dst,
		       size_t ld, size_t rows)
{
	size_t i;

	if (g->trans_a) {
		/* K x rows to rows x K; K is padded with zeros to a vector */
		vi_transpose_block(a, g->lda * 4, dst, ld, g->k, rows);
		return;
	}
	for (i = 0; i < rows; i++)
		memcpy(dst + i * ld, a + i * g->lda * 4, g->k * 4);
}

static void pack_rows(const struct rlx_k_gemm_pack *p, const char *b,
		      size_t cols, char *dst)
{
	size_t es = ge_size(p->num), k, j;

	for (k = 0; k < p->k; k++, b += p->ldb * es, dst += GD_BROW)
		for (j = 0; j < GT_NV; j++) {
			size_t at = j * RLX_VL;
			size_t n = cols > at ? cols - at : 0;

			vf_store(dst + j * sizeof(vf), n ?
				 ge_load(b + at * es, p->num, n) : vf_zero());
		}
}

/* Narrow types by columns: a vector of K at a time through a small square. */
static void pack_cols_narrow(const struct rlx_k_gemm_pack *p, const char *b,
			     size_t cols, char *dst)
{
	size_t k, j;

	memset(dst, 0, p->k * GD_BROW);
	for (k = 0; k < p->k; k += RLX_VL) {
		size_t n = p->k - k < RLX_VL ? p->k - k : RLX_VL, i;
		float t[RLX_VL];

		for (j = 0; j < cols; j++) {
			vf_storeu(t, ge_load(b + (j * p->ldb + k) * 2, p->num,
					     n));
			for (i = 0; i < n; i++)
				memcpy(dst + (k + i) * GD_BROW + j * 4, t + i,
				       4);
		}
	}
}

static void pack_panel(const struct rlx_k_gemm_pack *p, size_t panel, char *dst)
{
	size_t col = panel * GD_NR;
	size_t cols = p->n - col < GD_NR ? p->n - col : GD_NR;
	const char *b = (const char *)p->b +
			col * (p->trans ? p->ldb : 1) * ge_size(p->num);
	size_t i;

	if (!p->trans) {
		pack_rows(p, b, cols, dst);
	} else if (p->num != RLX_NUM_F32) {
		pack_cols_narrow(p, b, cols, dst);
	} else {
		vi_transpose_block(b, p->ldb * 4, dst, GD_BROW, cols, p->k);
		for (i = (cols + RLX_VL - 1) / RLX_VL; i < GT_NV; i++) {
			size_t k;

			for (k = 0; k < p->k; k++)
				vf_store(dst + k * GD_BROW + i * sizeof(vf),
					 vf_zero());
		}
	}
}

static void gd_stage_b(const struct rlx_k_gemm *g, const char *b, char *dst,
		       size_t panel)
{
	const struct rlx_k_gemm_pack p = {
		.k = g->k, .n = g->n, .b = b, .ldb = g->ldb,
		.trans = g->b_form == RLX_B_COLS,
	};

	pack_panel(&p, panel, dst);
}

#include "kernels/simd/gemm_drive.h"

rlx_k_fn RLX_K(gemm_f32), RLX_K(gemm_f32_pack);

void RLX_K(gemm_f32)(const void *args, size_t begin, size_t end, void *scratch)
{
	gd_gemm(args, begin, end, scratch);
}

void RLX_K(gemm_f32_pack)(const void *args, size_t begin, size_t end,
			  void *scratch)
{
	const struct rlx_k_gemm_pack *p = args;

	for (; begin < end; begin++)
		pack_panel(p, begin, (char *)p->dst + begin * p->k * GD_BROW);
}
