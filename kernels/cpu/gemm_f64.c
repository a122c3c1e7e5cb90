// SPDX-License-Identifier: MIT
/* GEMM in f64: the same walk, activations through libm. */
#include "kernels/gemm.h"
#include "kernels/simd/math.h"

#define GT_A		double
#define GT_T		double
#define GT_V		vd
#define GT_L		RLX_VLD
#define GT_NV		4
#define GT_BV		sizeof(vd)
#define GT_STEP(c, a, b) vd_fma(a, b, c)
#define GT_BCAST(x)	vd_set1(x)
#define GT_LOAD(p)	vd_loadu(p)
#define GT_LOADB(p)	vd_loadu(p)
#define GT_STORE(p, v)	vd_storeu(p, v)
#define GT_FLAT_MR	1
#define GT_NARROW
#if defined(RLX_V512)
#define GT_MR		6
#define GD_DOT_ROWS	4
#else
#define GT_MR		3
#define GD_DOT_ROWS	2
#endif
#include "kernels/simd/gemm_level.h"
#include "kernels/simd/gemm_tile.h"

#define GD_K(k)		(k)
#define GD_AGROUP	sizeof(double)
#define GD_BROW		(GT_NV * sizeof(vd))
#define GD_OWN_FINISH

static inline size_t gd_a_size(const struct rlx_k_gemm *g)
{
	return sizeof(double);
}

static inline size_t gd_b_size(const struct rlx_k_gemm *g)
{
	return sizeof(double);
}

static inline size_t gd_c_size(const struct rlx_k_gemm *g)
{
	return sizeof(double);
}

static inline bool gd_starts_at_bias(const struct rlx_k_gemm *g)
{
	return g->alpha == 1;
}

static inline bool gd_plain(const struct rlx_k_gemm *g)
{
	return g->alpha == 1 && g->act == RLX_ACT_NONE && !g->residual &&
	       !g->row_bias;
}

static inline bool gd_direct_a(const struct rlx_k_gemm *g, size_t rows)
{
	return !g->trans_a;
}

static inline bool gd_direct_b(const struct rlx_k_gemm *g, size_t rows)
{
	return g->b_form == RLX_B_ROWS && rows <= 2 * GT_MR;
}

/* dst[j][i] = src[i][j] in blocks that stay in the first-level cache */
static void transpose_f64(const double *restrict src, size_t lds,
			  double *restrict dst, size_t ldd, size_t ni,
			  size_t nj)
{
	enum { STEP = 16 };
	size_t i, j, y, x;

	for (i = 0; i < ni; i += STEP)
		for (j = 0; j < nj; j += STEP)
			for (y = j; y < j + STEP && y < nj; y++)
				for (x = i; x < i + STEP && x < ni; x++)
					dst[y * ldd + x] = src[x * lds + y];
}

static void gd_stage_a(const struct rlx_k_gemm *g, const char *a, char *dst,
		       size_t ld, size_t rows)
{
	transpose_f64((const double *)a, g->lda, (double *)dst,
		      ld / sizeof(double), g->k, rows);
}

static void pack_panel(const struct rlx_k_gemm_pack *p, size_t panel, char *to)
{
	size_t col = panel * GD_NR, k;
	size_t cols = p->n - col < GD_NR ? p->n - col : GD_NR;
	const double *b = (const double *)p->b + col * (p->trans ? p->ldb : 1);
	double *dst = (double *)to;

	for (k = 0; cols < GD_NR && k < p->k; k++)
		memset(dst + k * GD_NR + cols, 0, (GD_NR - cols) * sizeof(*dst));
	if (p->trans)
		transpose_f64(b, p->ldb, dst, GD_NR, cols, p->k);
	else
		for (k = 0; k < p->k; k++)
			memcpy(dst + k * GD_NR, b + k * p->ldb,
			       cols * sizeof(*dst));
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

#define GD_DOT		RLX_VLD
#define GD_DOT_SUMS	vd_hsum4

static inline bool gd_can_dot(const struct rlx_k_gemm *g)
{
	return true;
}

RLX_INLINE vd gd_dot_a(const char *a, size_t k, size_t n)
{
	return n < RLX_VLD ? vd_loadn(a + k * 8, n) : vd_loadu(a + k * 8);
}

RLX_INLINE vd gd_dot_b(const char *b, size_t k, size_t n)
{
	return gd_dot_a(b, k, n);
}

#include "kernels/simd/gemm_drive.h"

/* Where the other factor is 0 in any case: -inf times it would be no number. */
static double above(double x)
{
	return x < -1e300 ? -1e300 : x;
}

static double act_f64(double x, const struct rlx_k_gemm *g)
{
	double t;

	switch (g->act) {
	case RLX_ACT_RELU:
		return x < 0 ? 0 : x;
	case RLX_ACT_GELU:
		return above(x) * 0.5 * erfc(x * -M_SQRT1_2);
	case RLX_ACT_GELU_TANH:
		t = 2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x);
		return above(x) / (1 + exp(-t));
	case RLX_ACT_SILU:
		return above(x) / (1 + exp(-x));
	case RLX_ACT_SIGMOID:
		return 1 / (1 + exp(-x));
	case RLX_ACT_TANH:
		return tanh(x);
	case RLX_ACT_HARD_SWISH:
		t = x / 6 + 0.5;
		return above(x) * (t < 0 ? 0 : t > 1 ? 1 : t);
	case RLX_ACT_HARD_SIGMOID:
		t = g->lo * x + g->hi;
		return t < 0 ? 0 : t > 1 ? 1 : t;
	case RLX_ACT_CLIP:
		x = x < g->lo ? g->lo : x;
		return x > g->hi ? g->hi : x;
	default:
		return x;
	}
}

static void gd_finish(const struct gd *d, size_t i, size_t mr, size_t col,
		      size_t cols)
{
	const struct rlx_k_gemm *g = d->g;
	const double *bias = d->bias ? (const double *)d->bias + col : NULL;
	const double *row_bias = g->row_bias;
	size_t r, j;

	for (r = 0; r < mr; r++) {
		size_t row = d->row + i + r;
		double *c = (double *)d->c + row * g->ldc + col;
		const double *res = d->r ? (const double *)d->r +
				    row * g->ldr + col : NULL;

		for (j = 0; j < cols; j++) {
			double x = d->tile[r * d->ldt + j] * g->alpha;

			x += bias ? bias[j] : 0;
			x += row_bias ? row_bias[row] : 0;
			x += res ? g->beta * res[j] : 0;
			c[j] = act_f64(x, g);
		}
	}
}

GD_KERNEL(gemm_f64)
GD_PACK_KERNEL(gemm_f64_pack, rlx_k_gemm_pack)
