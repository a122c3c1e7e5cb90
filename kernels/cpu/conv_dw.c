// SPDX-License-Identifier: MIT
/* Blocked depthwise convolution: lanes are channels, each with its filter. */
#include "kernels/cpu/conv_tile.h"

rlx_k_fn RLX_K(dw_c);
rlx_k_fn RLX_K(dw_c_pack);

#define C	RLX_VL

#ifdef __clang__
#define UNROLL	_Pragma("clang loop unroll(full)")
#else
#define UNROLL	_Pragma("GCC unroll 32")
#endif

#if defined(RLX_V512)
#define WIDE	8	/* output pixels of the inner tiles */
#else
#define WIDE	4
#endif

/* One row of output pixels: the taps that lie inside the input. */
struct dw_row {
	const struct rlx_k_dw_c *a;
	const float	*x;		/* the block's plane */
	const float	*w;
	float		*y;		/* the output row */
	const float	*res;
	vf		bias;
	struct conv_fuse fuse;
	ptrdiff_t	iy;		/* input row of tap row 0 */
	size_t		y0, y1;		/* tap rows inside */
};

RLX_INLINE void put(const struct dw_row *r, size_t ox, vf v)
{
	if (r->res)
		v += vf_loadu(r->res + ox * C);
	vf_storeu(r->y + ox * C, conv_fuse_run(&r->fuse, v));
}

/* Any pixel: taps are checked one by one. */
static void pixel(const struct dw_row *r, size_t ox)
{
	const struct rlx_k_dw_c *a = r->a;
	ptrdiff_t ix = (ptrdiff_t)(ox * a->sw) - (ptrdiff_t)a->pl;
	vf s = r->bias;

	for (size_t ky = r->y0; ky < r->y1; ky++) {
		const float *row = r->x + ((size_t)(r->iy +
				   (ptrdiff_t)(ky * a->dh))) * a->iw * C;

		for (size_t kx = 0; kx < a->kw; kx++) {
			ptrdiff_t at = ix + (ptrdiff_t)(kx * a->dw);

			if (at < 0 || at >= (ptrdiff_t)a->iw)
				continue;
			s = vf_fma(vf_loadu(row + at * C),
				   vf_load(r->w + (ky * a->kw + kx) * C), s);
		}
	}
	put(r, ox, s);
}

/* WIDE pixels from @ox, all taps of a row inside; kernel width and stride fixed. */
RLX_INLINE void wide(const struct dw_row *r, size_t ox, const int KW,
		     const int S)
{
	const struct rlx_k_dw_c *a = r->a;
	vf acc[8];

	UNROLL
	for (int i = 0; i < WIDE; i++)
		acc[i] = r->bias;
	for (size_t ky = r->y0; ky < r->y1; ky++) {
		const float *x = r->x + (((size_t)(r->iy +
				 (ptrdiff_t)(ky * a->dh))) * a->iw +
				 ox * a->sw - a->pl) * C;
		const float *w = r->w + ky * a->kw * C;

		UNROLL
		for (int p = 0; p < (WIDE - 1) * S + KW; p++) {
			vf v = vf_loadu(x + p * C);

			UNROLL
			for (int k = 0; k < KW; k++)
				if ((p - k) % S == 0 && p >= k &&
				    (p - k) / S < WIDE)
					acc[(p - k) / S] =
						vf_fma(v, vf_load(w + k * C),
						       acc[(p - k) / S]);
		}
	}
	UNROLL
	for (int i = 0; i < WIDE; i++)
		put(r, ox + (size_t)i, acc[i]);
}

/* WIDE pixels, any kernel width, stride and dilation. */
static void wide_any(const struct dw_row *r, size_t ox)
{
	const struct rlx_k_dw_c *a = r->a;
	vf acc[8];

	UNROLL
	for (int i = 0; i < WIDE; i++)
		acc[i] = r->bias;
	for (size_t ky = r->y0; ky < r->y1; ky++) {
		const float *x = r->x + (((size_t)(r->iy +
				 (ptrdiff_t)(ky * a->dh))) * a->iw +
				 ox * a->sw - a->pl) * C;
		const float *w = r->w + ky * a->kw * C;

		for (size_t k = 0; k < a->kw; k++, x += a->dw * C, w += C) {
			vf wv = vf_load(w);

			UNROLL
			for (size_t i = 0; i < WIDE; i++)
				acc[i] = vf_fma(vf_loadu(x + i * a->sw * C),
						wv, acc[i]);
		}
	}
	UNROLL
	for (int i = 0; i < WIDE; i++)
		put(r, ox + (size_t)i, acc[i]);
}

#define DEFINE(k, s)							\
static void wide_##k##_##s(const struct dw_row *r, size_t ox)		\
{									\
	wide(r, ox, k, s);						\
}
DEFINE(3, 1)
DEFINE(3, 2)
DEFINE(5, 1)
DEFINE(5, 2)

typedef void wide_fn(const struct dw_row *r, size_t ox);

static wide_fn *wide_pick(const struct rlx_k_dw_c *a)
{
	if (a->dw != 1 || a->sw > 2)
		return wide_any;
	if (a->kw == 3)
		return a->sw == 1 ? wide_3_1 : wide_3_2;
	if (a->kw == 5)
		return a->sw == 1 ? wide_5_1 : wide_5_2;
	return wide_any;
}

/* Output columns [*x0, *x1) have every tap column inside the input. */
static void inner(const struct rlx_k_dw_c *a, size_t *x0, size_t *x1)
{
	size_t span = (a->kw - 1) * a->dw + 1, n;

	*x0 = (a->pl + a->sw - 1) / a->sw;
	n = a->iw + a->pl >= span ? (a->iw + a->pl - span) / a->sw + 1 : 0;
	*x1 = n < a->ow ? n : a->ow;
	if (*x0 > a->ow)
		*x0 = a->ow;
	if (*x1 < *x0)
		*x1 = *x0;
}

static void row_run(const struct dw_row *r, wide_fn *fn, size_t x0, size_t x1)
{
	size_t ox = 0;

	for (; ox < x0; ox++)
		pixel(r, ox);
	for (; ox + WIDE <= x1; ox += WIDE)
		fn(r, ox);
	/* the last ones again rather than one by one; not onto a residual */
	if (ox < x1 && x1 - x0 >= WIDE && r->res != r->y) {
		fn(r, x1 - WIDE);
		ox = x1;
	}
	for (; ox < r->a->ow; ox++)
		pixel(r, ox);
}

static void row_set(struct dw_row *r, size_t oy)
{
	const struct rlx_k_dw_c *a = r->a;
	ptrdiff_t d = (ptrdiff_t)a->dh, h = (ptrdiff_t)a->ih, n;

	r->iy = (ptrdiff_t)(oy * a->sh) - (ptrdiff_t)a->pt;
	r->y0 = r->iy < 0 ? (size_t)((-r->iy + d - 1) / d) : 0;
	n = r->iy < h ? (h - r->iy + d - 1) / d : 0;
	r->y1 = n < (ptrdiff_t)a->kh ? (size_t)n : a->kh;
}

void RLX_K(dw_c)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_dw_c *a = args;
	const struct conv_act act = { a->act, a->act_a, a->act_b };
	size_t blocks = (a->channels + C - 1) / C, x0, x1;
	wide_fn *fn = wide_pick(a);
	struct dw_row r = { .a = a };
	bool fused = RLX_K(conv_act_fuse)(&act, &r.fuse);

	(void)scratch;
	inner(a, &x0, &x1);
	for (size_t u = begin; u < end; u++) {
		size_t b = u / a->nrows % blocks, n = u / a->nrows / blocks;
		size_t oy = u % a->nrows * a->rows, stop = oy + a->rows;
		size_t real = a->channels - b * C;

		stop = stop < a->oh ? stop : a->oh;
		r.x = a->x + n * a->x_n + b * a->ih * a->iw * C;
		r.w = a->w + b * a->kh * a->kw * C;
		r.bias = a->bias ? vf_loadn(a->bias + b * C, real) : vf_zero();
		for (; oy < stop; oy++) {
			size_t at = (b * a->oh + oy) * a->ow * C;

			row_set(&r, oy);
			r.y = a->y + n * a->y_n + at;
			r.res = a->res ? a->res + n * a->res_n + at : NULL;
			row_run(&r, fn, x0, x1);
			if (!fused)
				RLX_K(conv_act_run)(&act, r.y, a->ow * C);
		}
	}
}

void RLX_K(dw_c_pack)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_dw_pack *pk = args;
	const struct rlx_k_dw_c *a = pk->conv;
	size_t taps = a->kh * a->kw;

	(void)scratch;
	for (size_t b = begin; b < end; b++)
		for (size_t t = 0; t < taps; t++)
			for (size_t i = 0; i < C; i++) {
				size_t ch = b * C + i;

				pk->dst[(b * taps + t) * C + i] =
					ch < a->channels ?
					pk->src[ch * taps + t] : 0;
			}
}
