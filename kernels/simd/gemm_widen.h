/* SPDX-License-Identifier: MIT */
/*
 * Laying out operands whose group is one f32: gemm_f32 and gemm_f16 on every
 * level, and gemm_bf16 where there is no bf16 product. The includer has
 * gemm_tile.h and defines GW_B, the type panels are kept in, and GD_BROW, the
 * bytes of a packed row.
 */
#include "kernels/simd/gemm_epi.h"
#include "kernels/simd/transpose.h"

static void gd_stage_a(const struct rlx_k_gemm *g, const char *a, char *dst,
		       size_t ld, size_t rows)
{
	size_t es = ge_size(g->a_num), i, k;

	if (g->trans_a && g->a_num == RLX_NUM_F32) {
		/* K x rows to rows x K; K is padded with zeros to a vector */
		vi_transpose_block(a, g->lda * 4, dst, ld, g->k, rows);
		return;
	}
	for (i = 0; i < rows; i++, dst += ld) {
		if (g->trans_a) {
			for (k = 0; k < g->k; k++)
				vf_storen(dst + k * 4, ge_load(a + i * es +
					  k * g->lda * es, g->a_num, 1), 1);
			continue;
		}
		for (k = 0; k < g->k; k += RLX_VL)
			vf_storeu(dst + k * 4, ge_load(a + (i * g->lda + k) *
				  es, g->a_num, g->k - k));
	}
}

static void pack_rows(const struct rlx_k_gemm_pack *p, const char *b,
		      size_t cols, char *dst)
{
	size_t es = ge_size(p->num), vs = RLX_VL * ge_size(GW_B), k, j;

	for (k = 0; k < p->k; k++, b += p->ldb * es, dst += GD_BROW)
		for (j = 0; j < GT_NV; j++) {
			size_t at = j * RLX_VL;
			size_t n = cols > at ? cols - at : 0;

			ge_store(dst + j * vs, n ? ge_load(b + at * es, p->num,
				 n) : vf_zero(), GW_B, RLX_VL);
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
					 j * ge_size(GW_B), (vf)r[i], GW_B,
					 RLX_VL);
		}
}

static void pack_panel(const struct rlx_k_gemm_pack *p, size_t panel, char *dst)
{
	size_t col = panel * GD_NR;
	size_t cols = p->n - col < GD_NR ? p->n - col : GD_NR;
	const char *b = (const char *)p->b +
			col * (p->trans ? p->ldb : 1) * ge_size(p->num);

	if (p->trans)
		pack_cols(p, b, cols, dst);
	else
		pack_rows(p, b, cols, dst);
}

static void gd_stage_b(const struct rlx_k_gemm *g, const char *b, char *dst,
		       size_t panel)
{
	const struct rlx_k_gemm_pack p = {
		.k = g->k, .n = g->n, .b = b, .ldb = g->ldb, .num = g->b_num,
		.trans = g->b_form == RLX_B_COLS,
	};

	pack_panel(&p, panel, dst);
}
