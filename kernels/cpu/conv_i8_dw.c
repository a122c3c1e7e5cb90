// SPDX-License-Identifier: MIT
/* 8-bit convolution of few channels a group: a stream of floats for each tap. */
#include "kernels/conv_i8_dw.h"
#include "kernels/cpu/conv_i8_store.h"

rlx_k_fn RLX_K(conv_i8_dw);

#define C	RLX_VL

#ifdef __clang__
#define UNROLL	_Pragma("clang loop unroll(full)")
#else
#define UNROLL	_Pragma("GCC unroll 4")
#endif

struct dw {
	const struct rlx_k_conv_i8 *a;
	struct rlx_conv_i8_dw cut;
	int32_t		x_zero;
	size_t		off[RLX_K_I8_DW_TERMS];		/* of each term in the floats */
	float		w[RLX_K_I8_DW_TERMS];
	bool		used[RLX_K_I8_DW_STRIDE * RLX_K_I8_DW_STRIDE];	/* phases */
	float		*x, *y;
	int32_t		*row;
};

/* What a unit is of: image, group, first output row and column, and how many of them. */
struct part {
	size_t		n, g, y0, x0, rows, cols;
};

static struct part part_of(const struct dw *r, size_t u)
{
	const struct rlx_k_conv_nd *s = &r->a->shape;
	struct part p;

	p.x0 = u % r->cut.across * r->cut.cols;
	u /= r->cut.across;
	p.y0 = u % r->cut.down * r->cut.rows;
	u /= r->cut.down;
	p.g = u % s->groups;
	p.n = u / s->groups;
	p.rows = s->out[1] - p.y0 < r->cut.rows ? s->out[1] - p.y0 : r->cut.rows;
	p.cols = s->out[2] - p.x0 < r->cut.cols ? s->out[2] - p.x0 : r->cut.cols;
	return p;
}

/* Where each term's floats of output row and column 0 lie. */
static void offsets(struct dw *r)
{
	const struct rlx_k_conv_nd *s = &r->a->shape;
	size_t t = 0, c, ky, kx, phase;

	for (c = 0; c < s->ic / s->groups; c++)
		for (ky = 0; ky < s->k[1]; ky++)
			for (kx = 0; kx < s->k[2]; kx++) {
				phase = ky * s->d[1] % s->s[1] * s->s[2] +
					kx * s->d[2] % s->s[2];
				r->used[phase] = true;
				r->off[t++] = c * r->cut.plane +
					(phase * r->cut.lines + ky * s->d[1] / s->s[1]) *
					r->cut.pitch + kx * s->d[2] / s->s[2];
			}
}

static void weights(struct dw *r, size_t oc)
{
	const struct rlx_k_conv_i8 *a = r->a;
	const int32_t zero = a->w_zero ? a->w_zero[oc] : 0;
	const size_t n = r->cut.terms;
	size_t t;

	if (a->w_signed)
		for (t = 0; t < n; t++)
			r->w[t] = (float)(((const int8_t *)a->w)[oc * n + t] - zero);
	else
		for (t = 0; t < n; t++)
			r->w[t] = (float)(((const uint8_t *)a->w)[oc * n + t] - zero);
}

/* Bytes @step apart as floats without @zero: @n of them, the last at the end of what is there. */
static void floats_of(float *y, const uint8_t *x, size_t n, size_t step, int32_t zero,
		      const bool is_signed)
{
	const vi z = vi_set1(zero);
	size_t i = 0;

	if (step == 1)
		for (; i + C <= n; i += C)
			vf_storeu(y + i, vf_from_vi((is_signed ? vi_loadu_i8(x + i) :
						     vi_loadu_u8(x + i)) - z));
	else if (step == 2)
		for (; i + C < n; i += C) {	/* the last pair may end behind what is there */
			const vi v = vi_loadu_i16(x + 2 * i);

			vf_storeu(y + i, vf_from_vi((is_signed ? v << 24 >> 24 : v & 255) - z));
		}
	for (; i < n; i++)
		y[i] = (float)((is_signed ? (int32_t)(int8_t)x[i * step] : x[i * step]) - zero);
}

/* A line of a phase: input row @row of a plane, NULL: padding, from column @at on, signed. */
static void line(const struct dw *r, float *y, const uint8_t *row, ptrdiff_t at)
{
	const struct rlx_k_conv_nd *s = &r->a->shape;
	const size_t step = s->s[2], n = r->cut.pitch;
	size_t lo = at < 0 ? ((size_t)-at + step - 1) / step : 0, hi, i;
	const ptrdiff_t left = (ptrdiff_t)s->in[2] - at;

	hi = left > 0 ? ((size_t)left + step - 1) / step : 0;
	lo = row && lo < n ? lo : n;
	hi = hi < lo ? lo : hi < n ? hi : n;
	for (i = 0; i < lo; i++)
		y[i] = 0;
	if (hi > lo) {
		row += at + (ptrdiff_t)(lo * step);
		if (r->a->x_signed)
			floats_of(y + lo, row, hi - lo, step, r->x_zero, true);
		else
			floats_of(y + lo, row, hi - lo, step, r->x_zero, false);
	}
	for (i = hi; i < n; i++)
		y[i] = 0;
}

/* The phases of input channel @c of the unit's group. */
static void phases(const struct dw *r, const struct part *p, size_t c)
{
	const struct rlx_k_conv_nd *s = &r->a->shape;
	const size_t icg = s->ic / s->groups;
	const uint8_t *plane = (const uint8_t *)r->a->x + p->n * s->x_n +
			       (p->g * icg + c) * s->in[1] * s->in[2];
	float *y = r->x + c * r->cut.plane;
	size_t py, px, l;

	for (py = 0; py < s->s[1]; py++)
		for (px = 0; px < s->s[2]; px++) {
			if (!r->used[py * s->s[2] + px]) {
				y += r->cut.lines * r->cut.pitch;
				continue;
			}
			for (l = 0; l < r->cut.lines; l++, y += r->cut.pitch) {
				const ptrdiff_t iy = (ptrdiff_t)((p->y0 + l) * s->s[1] + py) -
						     (ptrdiff_t)s->p[1];
				const ptrdiff_t ix = (ptrdiff_t)(p->x0 * s->s[2] + px) -
						     (ptrdiff_t)s->p[2];

				line(r, y, iy >= 0 && iy < (ptrdiff_t)s->in[1] ?
				     plane + (size_t)iy * s->in[2] : NULL, ix);
			}
		}
}

RLX_INLINE void stream(const struct dw *r, size_t i, const int K)
{
	vf acc[4];

	UNROLL
	for (int k = 0; k < K; k++)
		acc[k] = vf_zero();
	for (size_t t = 0; t < r->cut.terms; t++) {
		const float *x = r->x + r->off[t] + i;
		const vf w = vf_set1(r->w[t]);

		UNROLL
		for (int k = 0; k < K; k++)
			acc[k] = vf_fma(vf_loadu(x + k * C), w, acc[k]);
	}
	UNROLL
	for (int k = 0; k < K; k++)
		vf_storeu(r->y + i + k * C, acc[k]);
}

/* Sums of @n outputs, those between rows among them. */
static void sums_of(const struct dw *r, size_t n)
{
	size_t i = 0;

	for (; i + 2 * C < n; i += 4 * C)
		stream(r, i, 4);
	if (i + C < n)
		stream(r, i, 2);
	else if (i < n)
		stream(r, i, 1);
}

static void store(const struct dw *r, const struct part *p, size_t oc)
{
	const struct rlx_k_conv_i8 *a = r->a;
	const struct rlx_k_conv_nd *s = &a->shape;
	const struct finish f = { .add = a->bias ? (uint32_t)a->bias[oc] : 0,
				  .scale = a->out != RLX_CONV_I32 ? a->scale[oc] : 0 };
	const struct sums sums = { .s = r->row, .panel = PANEL, .pixels = p->cols };
	const struct bounds q = bounds_of(a);

	for (size_t l = 0; l < p->rows; l++) {
		const size_t to = p->n * s->y_n + (oc * s->out[1] + p->y0 + l) * s->out[2] + p->x0;

		for (size_t i = 0; i < p->cols; i += C)
			vi_store(r->row + i, vi_trunc(vf_loadu(r->y + l * r->cut.pitch + i)));
		if (a->out == RLX_CONV_I32)
			store_ints(&sums, &f, (int32_t *)a->y + to);
		else
			store_bytes(&sums, &f, &q, (uint8_t *)a->y + to, false);
	}
}

void RLX_K(conv_i8_dw)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_i8 *a = args;
	const struct rlx_k_conv_nd *s = &a->shape;
	const size_t icg = s->ic / s->groups, ocg = s->oc / s->groups;
	struct dw r = { .a = a, .cut = rlx_conv_i8_dw_cut(s), .x_zero = zero_point(a) };
	const size_t floats = icg * r.cut.plane;

	r.row = scratch;
	r.y = (float *)scratch + r.cut.cols + RLX_K_I8_DW_SLACK;
	r.x = r.y + r.cut.rows * r.cut.pitch + RLX_K_I8_DW_SLACK;
	memset(r.x + floats, 0, RLX_K_I8_DW_SLACK * sizeof(float));
	offsets(&r);
	for (size_t u = begin; u < end; u++) {
		const struct part p = part_of(&r, u);

		for (size_t c = 0; c < icg; c++)
			phases(&r, &p, c);
		for (size_t j = 0; j < ocg; j++) {
			weights(&r, p.g * ocg + j);
			sums_of(&r, (p.rows - 1) * r.cut.pitch + p.cols);
			store(&r, &p, p.g * ocg + j);
		}
	}
}
