/* SPDX-License-Identifier: MIT */
/*
 * Laying out operands whose group is a pair of bf16 along K: gemm_bf16 where the
 * machine multiplies them, by vectors or by tiles. The includer defines GT_NV and
 * GD_NR as gemm_tile.h does, GD_BROW, and GD_K(k): groups in k elements, of which
 * those past the last element are 0.
 */
#include "kernels/gemm.h"
#include "kernels/simd/gemm_sizes.h"
#include "kernels/simd/transpose.h"

enum { PAIRS_ALONG = 2 * RLX_VL };	/* elements of a vector of pairs */

#if defined(RLX_V512)
/* @n <= PAIRS_ALONG elements from @p on; the rest is 0. */
RLX_INLINE vi pairs_load(const char *p, size_t n)
{
	return (vi)_mm512_maskz_loadu_epi16(n < 32 ? (1u << n) - 1 : 0xffffffff, p);
}

/* The elements of @lo, then those of @hi, next to each other. */
RLX_INLINE vi pairs_join(vf lo, vf hi)
{
	return (vi)_mm512_cvtne2ps_pbh((__m512)hi, (__m512)lo);
}

/* In the lower half of each lane. */
RLX_INLINE vi pairs_low(vf x)
{
	return (vi)_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)x));
}

/* Lanes of @c plus the products of both halves. */
RLX_INLINE vf pairs_step(vf c, vi a, vi b)
{
	return (vf)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
}
#else
RLX_INLINE vi pairs_load(const char *p, size_t n)
{
	uint16_t t[PAIRS_ALONG] = { 0 };

	memcpy(t, p, (n < PAIRS_ALONG ? n : PAIRS_ALONG) * sizeof(*t));
	return vi_loadu(t);
}

RLX_INLINE vi pairs_join(vf lo, vf hi)
{
	uint16_t t[PAIRS_ALONG];

	vf_storeu_bf16(t, lo);
	vf_storeu_bf16(t + RLX_VL, hi);
	return vi_loadu(t);
}

RLX_INLINE vi pairs_low(vf x)
{
	return (vi)__builtin_convertvector(vf_to_bf16(x), vu);
}

RLX_INLINE vf pairs_step(vf c, vi a, vi b)
{
	const int32_t top = INT32_MIN >> 15;

	c = vf_fma((vf)(a & top), (vf)(b & top), c);
	return vf_fma((vf)(a << 16), (vf)(b << 16), c);
}
#endif

/* A vector of pairs out of @n elements next to each other; the rest is 0. */
static inline vi pairs_along(const char *p, enum rlx_dtype type, size_t n)
{
	vf lo, hi;

	if (type == RLX_BF16)
		return pairs_load(p, n);
	lo = ge_load(p, type, n < RLX_VL ? n : RLX_VL);
	hi = n > RLX_VL ? ge_load(p + RLX_VL * ge_size(type), type, n - RLX_VL) : vf_zero();
	return pairs_join(lo, hi);
}

/* A vector of pairs, each of an element and the one @ld bytes on (0 without). */
static inline vi pairs_across(const char *p, size_t ld, enum rlx_dtype type,
			      size_t n)
{
	vf lo, hi;

	if (type == RLX_BF16) {
		vi a = (vi)__builtin_convertvector(vu16h_loadn(p, n), vu);
		vi b = ld ? (vi)__builtin_convertvector(vu16h_loadn(p + ld, n),
							vu) : vi_zero();

		return a | (b << 16);
	}
	lo = ge_load(p, type, n);
	hi = ld ? ge_load(p + ld, type, n) : vf_zero();
	return pairs_low(lo) | (pairs_low(hi) << 16);
}

/* Elements from @k on of @n; 0 where groups are padded. */
static inline size_t pairs_left(size_t n, size_t k)
{
	return k < n ? n - k : 0;
}

static void gd_stage_a(const struct rlx_k_gemm *g, const char *a, char *dst,
		       size_t ld, size_t rows)
{
	size_t es = gd_a_size(g), lda = g->lda * es, all = GD_K(g->k) * 2, i, k, y;

	if (!g->trans_a) {
		for (i = 0; i < rows; i++)
			for (k = 0; k < all; k += PAIRS_ALONG)
				vi_storeu(dst + i * ld + k * 2,
					  pairs_along(a + i * lda + k * es, g->a_type,
						      pairs_left(g->k, k)));
		return;
	}
	for (i = 0; i < rows; i += RLX_VL)
		for (k = 0; k < all; k += PAIRS_ALONG) {
			vi r[RLX_VL];

			for (y = 0; y < RLX_VL; y++) {
				size_t at = k + 2 * y;

				r[y] = at < g->k ?
				       pairs_across(a + at * lda + i * es,
						    at + 1 < g->k ? lda : 0,
						    g->a_type, rows - i) :
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
	size_t es = ge_size(p->type), ldb = p->ldb * es, all = GD_K(p->k) * 2, k, j;

	for (k = 0; k < all; k += 2, dst += GD_BROW)
		for (j = 0; j < GT_NV; j++) {
			size_t at = j * RLX_VL;

			vi_storeu(dst + j * sizeof(vi), cols > at && k < p->k ?
				  pairs_across(b + k * ldb + at * es,
					       k + 1 < p->k ? ldb : 0, p->type,
					       cols - at) : vi_zero());
		}
}

static void pack_cols(const struct rlx_k_gemm_pack *p, const char *b,
		      size_t cols, char *dst)
{
	size_t es = ge_size(p->type), all = GD_K(p->k), k, j, i;

	for (j = 0; j < GD_NR; j += RLX_VL)
		for (k = 0; k < all; k += RLX_VL) {
			size_t n = pairs_left(p->k, 2 * k);
			vi r[RLX_VL];

			for (i = 0; i < RLX_VL; i++)
				r[i] = j + i < cols ?
				       pairs_along(b + ((j + i) * p->ldb + 2 * k) *
						   es, p->type, n) : vi_zero();
			vi_transpose(r);
			for (i = 0; i < RLX_VL && k + i < all; i++)
				vi_storeu(dst + (k + i) * GD_BROW + j * 4, r[i]);
		}
}

#include "kernels/simd/gemm_panel.h"

static inline bool gd_direct_b(const struct rlx_k_gemm *g, size_t rows)
{
	return false;
}

#define GD_DOT		PAIRS_ALONG
#define GD_DOT_SUMS	vf_hsum4

static inline bool gd_can_dot(const struct rlx_k_gemm *g)
{
	return g->b_type == RLX_BF16;
}

RLX_INLINE vi gd_dot_a(const char *a, size_t k, size_t n)
{
	return pairs_load(a + k * 2, n);
}

RLX_INLINE vi gd_dot_b(const char *b, size_t k, size_t n)
{
	return pairs_load(b + k * 2, n);
}
