/* SPDX-License-Identifier: MIT */
/*
 * The integer product around gemm_tile.h: operands as groups of GI_G elements
 * of type gi_a, sums corrected for zero points, results. The includer has
 * gemm_tile.h and defines GI_G, gi_a, GD_ISA, and
 *	GI_A_OFF(q)	what is added to A as given, so that it fits gi_a
 *	GI_B_OFF(q)	what is added to B
 *	GI_BITS		bits of an element in a group
 *	GI_DIRECT(g, rows)	A can be read in place where GI_A_OFF is 0
 *	GI_PAD		elements to a multiple of which K is padded with 0, if not
 *			GI_G
 *
 * With a' = a + GI_A_OFF and so on, the wanted sum of (a - za) (b - zb) is
 *	sum a' b' - za' sum b' - zb' (sum a' - K za').
 * Sums of a' lie at the end of each staged row, those of b' behind each panel.
 */
#include "kernels/gemm.h"
#include "kernels/simd/gemm_epi.h"

#ifndef GI_PAD
#define GI_PAD		GI_G
#endif
#define GD_K(k)		(((k) / GI_PAD + !!((k) % GI_PAD)) * (GI_PAD / GI_G))
#define GD_AGROUP	sizeof(int32_t)
#ifndef GD_BROW
#define GD_BROW		(GT_NV * sizeof(vi))
#endif
#define GD_TAIL		(GD_NR * sizeof(int32_t))
#define GD_OWN_FINISH
#define GD_EXACT	true
#define GD_THIN(g)	false

static inline const struct rlx_k_gemm_i8 *gi_of(const struct rlx_k_gemm *g)
{
	return (const struct rlx_k_gemm_i8 *)g;
}

static inline size_t gd_a_size(const struct rlx_k_gemm *g)
{
	return 1;
}

static inline size_t gd_b_size(const struct rlx_k_gemm *g)
{
	return 1;
}

static inline size_t gd_c_size(const struct rlx_k_gemm *g)
{
	return gi_of(g)->out < RLX_I8_OUT_U8 ? 4 : 1;
}

static inline bool gd_starts_at_bias(const struct rlx_k_gemm *g)
{
	return false;
}

static inline bool gd_plain(const struct rlx_k_gemm *g)
{
	return false;
}

/* Are sums of A's rows of no use? */
static inline bool gi_symmetric(const struct rlx_k_gemm_i8 *q)
{
	return !q->b_zeros && q->b_zero + GI_B_OFF(q) == 0;
}

static inline bool gd_direct_a(const struct rlx_k_gemm *g, size_t rows)
{
	const struct rlx_k_gemm_i8 *q = gi_of(g);

	return GI_DIRECT(g, rows) && !g->trans_a && GI_A_OFF(q) == 0 &&
	       g->k % GI_PAD == 0 && gi_symmetric(q);
}

static inline bool gd_direct_b(const struct rlx_k_gemm *g, size_t rows)
{
	return false;
}

#define GI_STAGE_ROW(name, type)					\
static int32_t name(const type *restrict a, size_t step, size_t k,	\
		    int32_t off, gi_a *restrict dst)			\
{									\
	int32_t sum = 0;						\
	size_t i;							\
									\
	if (step == 1)							\
		for (i = 0; i < k; i++) {				\
			dst[i] = (gi_a)(a[i] + off);			\
			sum += a[i];					\
		}							\
	else								\
		for (i = 0; i < k; i++) {				\
			dst[i] = (gi_a)(a[i * step] + off);		\
			sum += a[i * step];				\
		}							\
	for (; i % GI_PAD; i++)						\
		dst[i] = 0;						\
	return sum + (int32_t)((uint32_t)off * (uint32_t)k);		\
}
GI_STAGE_ROW(gi_row_u8, uint8_t)
GI_STAGE_ROW(gi_row_i8, int8_t)

static void gd_stage_a(const struct rlx_k_gemm *g, const char *a, char *dst,
		       size_t ld, size_t rows)
{
	const struct rlx_k_gemm_i8 *q = gi_of(g);
	size_t step = g->trans_a ? g->lda : 1, next = g->trans_a ? 1 : g->lda;
	int32_t sum;

	for (; rows; rows--, a += next, dst += ld) {
		if (q->a_signed)
			sum = gi_row_i8((const int8_t *)a, step, g->k,
					GI_A_OFF(q), (gi_a *)dst);
		else
			sum = gi_row_u8((const uint8_t *)a, step, g->k,
					GI_A_OFF(q), (gi_a *)dst);
		memcpy(dst + ld - sizeof(sum), &sum, sizeof(sum));
	}
}

/* Row k of RLX_VL columns from b on, n of them there, as 32-bit lanes. */
static inline vi gi_load_b(const struct rlx_k_gemm_i8_pack *p, const char *b,
			   size_t k, size_t n)
{
	int32_t t[RLX_VL] = { 0 };
	vi v;
	size_t i;

	if (!p->trans) {
		b += k * p->ldb;
		v = p->b_signed ? vi_loadn_i8(b, n) : vi_loadn_u8(b, n);
	} else {
		b += k;
		for (i = 0; i < n && i < RLX_VL; i++)
			t[i] = p->b_signed ? (int8_t)b[i * p->ldb] :
			       (uint8_t)b[i * p->ldb];
		v = vi_loadu(t);
	}
	return vi_sel(vm_first(n), v + GI_B_OFF(p), vi_zero());
}

static void pack_panel(const struct rlx_k_gemm_i8_pack *p, size_t panel,
		       char *dst)
{
	size_t col = panel * GD_NR, groups = GD_K(p->k), j, k, e;

	for (j = 0; j < GD_NR; j += RLX_VL) {
		size_t at = col + j, n = p->n > at ? p->n - at : 0;
		const char *b = (const char *)p->b + (n ? at : 0) *
				(p->trans ? p->ldb : 1);
		vi sum = vi_zero();

		for (k = 0; k < groups; k++) {
			vi group = vi_zero();

			for (e = 0; e < GI_G && k * GI_G + e < p->k; e++) {
				vi v = gi_load_b(p, b, k * GI_G + e, n);

				sum += v;
				group |= (v & ((1 << GI_BITS) - 1)) <<
					 (int)(e * GI_BITS);
			}
			vi_storeu(dst + k * GD_BROW + j * 4, group);
		}
		vi_storeu(dst + groups * GD_BROW + j * 4, sum);
	}
}

static void gd_stage_b(const struct rlx_k_gemm *g, const char *b, char *dst,
		       size_t panel)
{
	const struct rlx_k_gemm_i8_pack p = {
		.k = g->k, .n = g->n, .b = b, .ldb = g->ldb,
		.trans = g->b_form == RLX_B_COLS,
		.b_signed = gi_of(g)->b_signed,
	};

	pack_panel(&p, panel, dst);
}

#include "kernels/simd/gemm_drive.h"

#define GI_ACT(name, act)						\
static vf gi_##name(vf x, vf lo, vf hi) { return vf_act(x, act, lo, hi); }
GI_ACT(none, RLX_ACT_NONE)
GI_ACT(relu, RLX_ACT_RELU)
GI_ACT(gelu_erf, RLX_ACT_GELU)
GI_ACT(gelu_tanh, RLX_ACT_GELU_TANH)
GI_ACT(silu, RLX_ACT_SILU)
GI_ACT(sigmoid, RLX_ACT_SIGMOID)
GI_ACT(tanh, RLX_ACT_TANH)
GI_ACT(hard_swish, RLX_ACT_HARD_SWISH)
GI_ACT(hard_sigmoid, RLX_ACT_HARD_SIGMOID)
GI_ACT(clip, RLX_ACT_CLIP)
#undef GI_ACT

/* by enum rlx_act */
static vf (*const gi_acts[])(vf x, vf lo, vf hi) = {
	gi_none, gi_relu, gi_gelu_erf, gi_gelu_tanh, gi_silu, gi_sigmoid,
	gi_tanh, gi_hard_swish, gi_hard_sigmoid, gi_clip,
};

/* What one vector of columns shares, over rows. */
struct gi_cols {
	vi	fixed, colsum, zero;	/* fixed: what is the same for all rows */
	vf	scale, bias;
	size_t	col, n;
};

static void gi_cols_init(struct gi_cols *c, const struct gd *d, size_t col,
			 size_t j)
{
	const struct rlx_k_gemm_i8 *q = gi_of(d->g);
	const char *sums = d->tail + j / GD_NR * d->skip;
	uint32_t za = (uint32_t)q->a_zero + GI_A_OFF(q);

	c->col = col + j;
	c->n = d->g->n - c->col;
	c->zero = vi_set1(q->b_zero);
	if (q->b_zeros)
		c->zero = vi_loadn(q->b_zeros + c->col, c->n);
	c->zero += GI_B_OFF(q);
	c->colsum = vi_loadu(sums + j % GD_NR * 4);
	c->fixed = q->ibias ? vi_loadn(q->ibias + c->col, c->n) : vi_zero();
	if (!q->a_zeros)
		c->fixed = (vi)((vu)c->fixed - (vu)c->colsum * za);
	c->scale = vf_set1((float)d->g->alpha);
	if (q->scales)
		c->scale *= vf_loadn(q->scales + c->col, c->n);
	c->bias = d->g->bias ? vf_loadn((const float *)d->g->bias + c->col,
					c->n) : vf_zero();
}

/* Takes off what zero points add in a row of C (and of the block: @i). */
RLX_INLINE vi gi_sum(const struct gi_cols *c, const struct gd *d, size_t i,
			vi acc, bool symmetric)
{
	const struct rlx_k_gemm_i8 *q = gi_of(d->g);
	vu sum = (vu)acc + (vu)c->fixed;
	uint32_t za = (uint32_t)q->a_zero;
	int32_t rowsum;

	if (q->a_zeros)
		za = (uint32_t)q->a_zeros[d->row + i];
	za += GI_A_OFF(q);
	if (q->a_zeros)
		sum -= (vu)c->colsum * za;
	if (!symmetric) {
		memcpy(&rowsum, d->a + (i + 1) * d->lda - 4, 4);
		sum -= (vu)c->zero * ((uint32_t)rowsum -
				      (uint32_t)d->g->k * za);
	}
	return (vi)sum;
}

RLX_INLINE vf gi_real(const struct gi_cols *c, const struct gd *d,
			 size_t row, vi sum)
{
	const struct rlx_k_gemm_i8 *q = gi_of(d->g);
	const struct rlx_k_gemm *g = d->g;
	vf x, b = c->bias, scale = c->scale;

	if (q->row_scales)
		scale *= q->row_scales[row];
	if (g->row_bias)
		b += ((const float *)g->row_bias)[row];
	x = vf_fma(vf_from_vi(sum), scale, b);
	if (d->r)
		x = vf_fma(vf_loadn((const float *)d->r + row * g->ldr +
				    c->col, c->n), vf_set1((float)g->beta), x);
	/* the common one without a call */
	if (g->act == RLX_ACT_RELU)
		return vf_max(vf_zero(), x);
	if (g->act)
		x = gi_acts[g->act](x, vf_set1((float)g->lo),
				    vf_set1((float)g->hi));
	return x;
}

/* Rows [i, last) of the block from sums at @t, a panel or two apart. */
RLX_INLINE void gi_rows(const struct gi_cols *cols, const struct gd *dp,
			size_t i, size_t last, const int32_t *t, const int out)
{
	/* copies, which stores to C cannot change behind the compiler's back */
	const struct gi_cols cc = *cols, *c = &cc;
	const struct gd dd = *dp, *d = &dd;
	const struct rlx_k_gemm_i8 *q = gi_of(d->g);
	const vf end = vf_set1(0x1p20f), requant = vf_set1(q->requant);
	bool symmetric = gi_symmetric(q);
	size_t n = c->n;

	for (; i < last; i++, t += d->ldt) {
		size_t row = d->row + i, at = row * d->g->ldc + c->col;
		vi sum = gi_sum(c, d, i, vi_loadu(t), symmetric);
		vf x;

		if (out == RLX_I8_OUT_I32) {
			vi_storen(d->c + at * 4, sum, n);
			continue;
		}
		x = gi_real(c, d, row, sum);
		if (out == RLX_I8_OUT_F32) {
			vf_storen(d->c + at * 4, x, n);
			continue;
		}
		/* beyond +-end all saturate, and rounding stays defined */
		sum = vi_round(vf_clamp(x * requant, -end, end)) + q->c_zero;
		if (out == RLX_I8_OUT_U8 && n >= RLX_VL)
			vi_storeu_u8(d->c + at, sum);
		else if (out == RLX_I8_OUT_U8)
			vi_storen_u8(d->c + at, sum, n);
		else if (n >= RLX_VL)
			vi_storeu_i8(d->c + at, sum);
		else
			vi_storen_i8(d->c + at, sum, n);
	}
}

static void gd_finish(const struct gd *d, size_t i, size_t mr, size_t col,
		      size_t cols)
{
	struct gi_cols c;
	size_t j;

	for (j = 0; j < cols; j += RLX_VL) {
		const int32_t *t = d->tile + j;

		gi_cols_init(&c, d, col, j);
		switch (gi_of(d->g)->out) {
		case RLX_I8_OUT_I32:
			gi_rows(&c, d, i, i + mr, t, RLX_I8_OUT_I32);
			break;
		case RLX_I8_OUT_F32:
			gi_rows(&c, d, i, i + mr, t, RLX_I8_OUT_F32);
			break;
		case RLX_I8_OUT_U8:
			gi_rows(&c, d, i, i + mr, t, RLX_I8_OUT_U8);
			break;
		default:
			gi_rows(&c, d, i, i + mr, t, RLX_I8_OUT_I8);
		}
	}
}
