// SPDX-License-Identifier: MIT
/* Gradients of blocked convolutions in their weights: kernels/conv_wgrad_c.h. */
#include <string.h>

#include "kernels/conv_wgrad_c.h"
#include "kernels/cpu/conv_plan.h"
#include "kernels/simd/transpose.h"

rlx_k_fn RLX_K(conv_wgrad_c);
rlx_k_fn RLX_K(conv_wgrad_c_sum);

#define L	RLX_VL

/* Of pixels of dy, rows and columns; and the first of x and of dy, with steps in floats. */
struct span {
	const float	*x, *dy;
	size_t		rows, cols;
	size_t		x_row, x_step, dy_row;
	size_t		dy_block, sums_block;	/* to the other block of a pair */
};

/* sums[nc][L], @nb times, += over pixels x[nc] dy[L]: so many sums are in registers. */
RLX_INLINE void tile(const struct span *s, float *sums, const int nc, const int nb)
{
	const float *x = s->x, *dy = s->dy;
	vf acc[2][L], v[2];
	size_t r, i;
	int c, b;

	RLX_UNROLL
	for (c = 0; c < nc; c++)
		acc[0][c] = acc[1][c] = vf_zero();
	for (r = 0; r < s->rows; r++, x += s->x_row, dy += s->dy_row) {
		const float *px = x, *pdy = dy;

		for (i = 0; i < s->cols; i++, px += s->x_step, pdy += L) {
			RLX_UNROLL
			for (b = 0; b < nb; b++)
				v[b] = vf_loadu(pdy + (size_t)b * s->dy_block);
			RLX_UNROLL
			for (c = 0; c < nc; c++) {
				const vf at = vf_set1(px[c]);

				RLX_UNROLL
				for (b = 0; b < nb; b++)
					acc[b][c] = vf_fma(at, v[b], acc[b][c]);
			}
		}
	}
	RLX_UNROLL
	for (b = 0; b < nb; b++, sums += s->sums_block) {
		RLX_UNROLL
		for (c = 0; c < nc; c++)
			vf_storeu(sums + c * L, vf_loadu(sums + c * L) + acc[b][c]);
	}
}

/* A tap's sums. Of a pair by halves of x's block: as many registers as one has by all of it. */
static void tap_run(struct span *s, float *sums, bool pair)
{
	const float *x = s->x;
	int c;

	if (!pair) {
		tile(s, sums, L, 1);
		return;
	}
	for (c = 0; c < L; c += L / 2) {
		s->x = x + c;
		tile(s, sums + c * L, L / 2, 2);
	}
}

/*
 * Cut [at[0], at[1]) of dy to where a tap @off from the first one reads x, of @in rows or columns
 * at @stride, @pad ahead.
 */
static void cut(size_t at[2], size_t in, size_t stride, size_t off, size_t pad)
{
	const size_t first = off < pad ? ceil_div(pad - off, stride) : 0;
	const size_t end = in + pad > off ? ceil_div(in + pad - off, stride) : 0;

	at[0] = at[0] < first ? first : at[0];
	at[1] = at[1] < end ? at[1] : end;
}

/* A piece: an image, rows and columns of dy; and the blocks that a unit has of it. */
struct piece {
	size_t	n, y[2], z[2];
	size_t	xblock, pair;
};

/* All taps of a piece. */
static void piece_run(const struct rlx_k_conv_wgrad_c *a, const struct piece *p, float *sums)
{
	const float *x = a->x + (p->n * a->xblocks + p->xblock) * a->ih * a->iw * L;
	const float *dy = a->dy + (p->n * a->dyblocks + 2 * p->pair) * a->oh * a->ow * L;
	struct span s = {
		.x_row = a->sh * a->iw * L, .x_step = a->sw * L, .dy_row = a->ow * L,
		.dy_block = a->oh * a->ow * L, .sums_block = rlx_conv_wgrad_c_square(a),
	};
	size_t ky, kx;

	for (ky = 0; ky < a->kh; ky++)
		for (kx = 0; kx < a->kw; kx++, sums += L * L) {
			size_t r[2] = { p->y[0], p->y[1] }, c[2] = { p->z[0], p->z[1] };

			cut(r, a->ih, a->sh, ky * a->dh, a->pt);
			cut(c, a->iw, a->sw, kx * a->dw, a->pl);
			if (r[0] >= r[1] || c[0] >= c[1])
				continue;
			s.rows = r[1] - r[0];
			s.cols = c[1] - c[0];
			s.dy = dy + (r[0] * a->ow + c[0]) * L;
			s.x = x + ((r[0] * a->sh + ky * a->dh - a->pt) * a->iw +
				   c[0] * a->sw + kx * a->dw - a->pl) * L;
			tap_run(&s, sums, 2 * p->pair + 1 < a->dyblocks);
		}
}

static void unit_run(const struct rlx_k_conv_wgrad_c *a, size_t i)
{
	struct piece p = { .pair = i % a->dypairs, .xblock = i / a->dypairs % a->xblocks };
	const size_t part = i / a->dypairs / a->xblocks, square = rlx_conv_wgrad_c_square(a);
	const size_t all = a->n * a->nrows * a->ncols;
	const size_t end = min_sz(all, (part + 1) * a->part);
	float *sums = a->sums + ((part * a->xblocks + p.xblock) * a->dyblocks + 2 * p.pair) *
				square;
	size_t at;

	memset(sums, 0, min_sz(2, a->dyblocks - 2 * p.pair) * square * sizeof(*sums));
	for (at = part * a->part; at < end; at++) {
		p.n = at / a->ncols / a->nrows;
		p.y[0] = at / a->ncols % a->nrows * a->rows;
		p.y[1] = min_sz(a->oh, p.y[0] + a->rows);
		p.z[0] = at % a->ncols * a->cols;
		p.z[1] = min_sz(a->ow, p.z[0] + a->cols);
		piece_run(a, &p, sums);
	}
}

void RLX_K(conv_wgrad_c)(const void *args, size_t begin, size_t end, void *scratch)
{
	(void)scratch;
	for (; begin < end; begin++)
		unit_run(args, begin);
}

/* Channel @c of x by a block of dy, whose parts' sums of tap 0 are at @sums, to y. */
static void channel_sum(const struct rlx_k_conv_wgrad_c *a, const float *sums, size_t c,
			size_t block, float *scratch)
{
	const size_t taps = a->kh * a->kw, pitch = (taps + L - 1) / L * L;
	const size_t part = rlx_conv_wgrad_c_sum_units(a) * rlx_conv_wgrad_c_square(a);
	const size_t real = min_sz(L, a->co - block * L);
	float *turned = scratch + pitch * L;
	size_t t, p, o;

	for (t = 0; t < taps; t++, sums += L * L) {
		vf s = vf_loadu(sums);

		for (p = 1; p < a->parts; p++)
			s += vf_loadu(sums + p * part);
		vf_storeu(scratch + t * L, s);
	}
	vi_transpose_block((const char *)scratch, L * 4, (char *)turned, pitch * 4, taps, L);
	for (o = 0; o < real; o++)
		memcpy(a->y + ((block * L + o) * a->ci + c) * taps, turned + o * pitch,
		       taps * sizeof(*turned));
}

void RLX_K(conv_wgrad_c_sum)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_wgrad_c *a = args;
	size_t c;

	for (; begin < end; begin++) {
		const float *sums = a->sums + begin * rlx_conv_wgrad_c_square(a);
		const size_t first = begin / a->dyblocks * L;

		for (c = 0; c < L && first + c < a->ci; c++)
			channel_sum(a, sums + c * L, first + c, begin % a->dyblocks, scratch);
	}
}
