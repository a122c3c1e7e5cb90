// SPDX-License-Identifier: MIT
/* GEMM in bf16 with f32 sums: pairs along K, VDPBF16PS. */
#include "kernels/gemm.h"
#include "kernels/simd/gemm_epi.h"
#include "kernels/simd/transpose.h"

/* a pair where it lies, in rows of 16-bit elements */
typedef int32_t pair_a __attribute__((aligned(2), may_alias));

#define GT_A		pair_a
#define GT_T		float
#define GT_V		vf
#define GT_VB		vi
#define GT_L		RLX_VL
#define GT_NV		2
#define GT_BV		sizeof(vi)
#define GT_STEP(c, a, b)						\
	((vf)_mm512_dpbf16_ps((__m512)(c), (__m512bh)(a), (__m512bh)(b)))
#define GT_BCAST(x)	vi_set1(x)
#define GT_LOAD(p)	vf_loadu(p)
#define GT_LOADB(p)	vi_loadu(p)
#define GT_STORE(p, v)	vf_storeu(p, v)
#define GT_MR		14
#define GT_FLAT_MR	6
#include "kernels/simd/gemm_tile.h"

#define GD_ISA		RLX_ISA_V4X
#define GD_K(k)		((k) / 2 + (k) % 2)
#define GD_AGROUP	sizeof(pair_a)
#define GD_BROW		(GT_NV * sizeof(vi))

static inline size_t gd_a_size(const struct rlx_k_gemm *g)
{
	return ge_size(g->a_num);
}

static inline size_t gd_b_size(const struct rlx_k_gemm *g)
{
	return ge_size(g->b_num);
}

static inline size_t gd_c_size(const struct rlx_k_gemm *g)
{
	return ge_size(g->c_num);
}

/* The other half of a last odd pair would be the next row's first element. */
static inline bool gd_direct_a(const struct rlx_k_gemm *g, size_t rows)
{
	return !g->trans_a && g->a_num == RLX_NUM_BF16 && g->k % 2 == 0 &&
	       (rows <= 6 || g->lda * 2 % 2048);
}

static inline bool gd_direct_b(const struct rlx_k_gemm *g, size_t rows)
{
	return false;
}

/* Sixteen pairs out of @n <= 32 elements next to each other; the rest is 0. */
static inline vi pairs_along(const char *p, enum rlx_k_num num, size_t n)
{
	__mmask32 m = n < 32 ? (1u << n) - 1 : 0xffffffff;
	vf lo, hi;

	if (num == RLX_NUM_BF16)
		return (vi)_mm512_maskz_loadu_epi16(m, p);
	lo = ge_load(p, num, n < 16 ? n : 16);
	hi = n > 16 ? ge_load(p + 16 * ge_size(num), num, n - 16) : vf_zero();
	return (vi)_mm512_cvtne2ps_pbh((__m512)hi, (__m512)lo);
}

/* Sixteen pairs, each of an element and the one @ld bytes on (0 without). */
static inline vi pairs_across(const char *p, size_t ld, enum rlx_k_num num,
			      size_t n)
{
	vf lo, hi;

	if (num == RLX_NUM_BF16) {
		vi a = (vi)__builtin_convertvector(vu16h_loadn(p, n), vu);
		vi b = ld ? (vi)__builtin_convertvector(vu16h_loadn(p + ld, n),
							vu) : vi_zero();

		return a | (b << 16);
	}
	lo = ge_load(p, num, n);
	hi = ld ? ge_load(p + ld, num, n) : vf_zero();
	return (vi)_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)lo)) |
	       (vi)_mm512_slli_epi32(_mm512_cvtepu16_epi32(
			(__m256i)_mm512_cvtneps_pbh((__m512)hi)), 16);
}

static void gd_stage_a(const struct rlx_k_gemm *g, const char *a, char *dst,
		       size_t ld, size_t rows)
{
	size_t es = gd_a_size(g), lda = g->lda * es, i, k, y;

	if (!g->trans_a) {
		for (i = 0; i < rows; i++)
			for (k = 0; k < g->k; k += 32)
				vi_storeu(dst + i * ld + k * 2,
					  pairs_along(a + i * lda + k * es,
						      g->a_num, g->k - k));
		return;
	}
	for (i = 0; i < rows; i += RLX_VL)
		for (k = 0; k < g->k; k += 32) {
			vi r[RLX_VL];

			for (y = 0; y < RLX_VL; y++) {
				size_t at = k + 2 * y;

				r[y] = at < g->k ?
				       pairs_across(a + at * lda + i * es,
						    at + 1 < g->k ? lda : 0,
						    g->a_num, rows - i) :
				       vi_zero();
			}
			vi_transpose(r);
			for (y = 0; y < RLX_VL && y < rows - i; y++)
				vi_storeu(dst + (i + y) * ld + k * 2, r[y]);
		}
}

static void pack_rows(const struct rlx_k_gemm_pack *p, const char *b,
		      size_t cols, char *dst)
{
	size_t es = ge_size(p->num), ldb = p->ldb * es, k, j;

	for (k = 0; k < p->k; k += 2, dst += GD_BROW)
		for (j = 0; j < GT_NV; j++) {
			size_t at = j * RLX_VL;

			vi_storeu(dst + j * sizeof(vi), cols > at ?
				  pairs_across(b + k * ldb + at * es,
					       k + 1 < p->k ? ldb : 0, p->num,
					       cols - at) : vi_zero());
		}
}

static void pack_cols(const struct rlx_k_gemm_pack *p, const char *b,
		      size_t cols, char *dst)
{
	size_t es = ge_size(p->num), k, j, i;

	for (j = 0; j < GD_NR; j += RLX_VL)
		for (k = 0; k < p->k; k += 32) {
			size_t n = p->k - k, groups = n < 32 ? n / 2 + n % 2 : 16;
			vi r[RLX_VL];

			for (i = 0; i < RLX_VL; i++)
				r[i] = j + i < cols ?
				       pairs_along(b + ((j + i) * p->ldb + k) *
						   es, p->num, n) : vi_zero();
			vi_transpose(r);
			for (i = 0; i < groups; i++)
				vi_storeu(dst + (k / 2 + i) * GD_BROW + j * 4,
					  r[i]);
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

#define GD_DOT		32

static inline bool gd_can_dot(const struct rlx_k_gemm *g)
{
	return g->b_num == RLX_NUM_BF16;
}

RLX_INLINE vi gd_dot_a(const char *a, size_t k, size_t n)
{
	return pairs_along(a + k * 2, RLX_NUM_BF16, n);
}

RLX_INLINE vi gd_dot_b(const char *b, size_t k, size_t n)
{
	return pairs_along(b + k * 2, RLX_NUM_BF16, n);
}

#include "kernels/simd/gemm_drive.h"

rlx_k_fn RLX_K(gemm_bf16), RLX_K(gemm_bf16_pack);

void RLX_K(gemm_bf16)(const void *args, size_t begin, size_t end, void *scratch)
{
	gd_gemm(args, begin, end, scratch);
}

void RLX_K(gemm_bf16_pack)(const void *args, size_t begin, size_t end,
			   void *scratch)
{
	const struct rlx_k_gemm_pack *p = args;

	for (; begin < end; begin++)
		pack_panel(p, begin, (char *)p->dst +
			   begin * GD_K(p->k) * GD_BROW);
}
