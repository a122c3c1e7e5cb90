// SPDX-License-Identifier: MIT
/* Gaussian splats blended into an image: a row of a tile in vectors, splat after splat. */
#include "kernels/kernel.h"
#include "kernels/simd/math.h"
#include "kernels/splat.h"

rlx_k_fn RLX_K(splat_blend), RLX_K(splat_blend_grad);

enum { TILE = RLX_K_SPLAT_TILE, FIELDS = RLX_K_SPLAT_FIELDS, PIXELS = TILE * TILE };

/* An image's splats, and those that touch a strip and a tile of it. */
struct scene {
	const float	*splats, *boxes;
	int64_t		n, width;
	int64_t		*strip, *tile;
	int64_t		strips, tiles;	/* how many those are */
	int64_t		at;		/* the strip that is listed; -1: none yet */
};

static void list_nothing(struct scene *s, void *scratch)
{
	s->strip = scratch;
	s->tile = s->strip + s->n;
	s->at = -1;
}

/* List what touches tile @tx of strip @ty; false: nothing does. */
static bool list_tile(struct scene *s, int64_t ty, int64_t tx)
{
	const float y0 = (float)(ty * TILE), x0 = (float)(tx * TILE);

	if (s->at != ty) {
		s->at = ty;
		s->strips = 0;
		for (int64_t i = 0; i < s->n; i++) {
			s->strip[s->strips] = i;
			s->strips += s->boxes[4 * i + 3] > y0 && s->boxes[4 * i + 1] < y0 + TILE;
		}
	}
	s->tiles = 0;
	for (int64_t k = 0; k < s->strips; k++) {
		const float *box = s->boxes + 4 * s->strip[k];

		s->tile[s->tiles] = s->strip[k];
		s->tiles += box[2] > x0 && box[0] < x0 + TILE;
	}
	return s->tiles;
}

/* One splat on a row of pixels. */
struct on_row {
	const float	*p, *box;
	vf		dx, e, alpha;	/* of each pixel: exp(-q / 2), and how far it is covered */
	float		dy;
};

/* Which of the pixels at @x are covered. */
RLX_INLINE vm cover(struct on_row *s, vf x)
{
	const float *p = s->p;
	vf q;
	vm in;

	s->dx = x - p[0];
	q = s->dx * (p[2] * s->dx + 2 * p[3] * s->dy) + p[4] * s->dy * s->dy;
	s->e = vf_exp(q * -0.5f);
	s->alpha = vf_min(vf_set1(RLX_K_SPLAT_CAP), s->e * p[5]);	/* NaN stays */
	in = vm_and(vf_ge(x, vf_set1(s->box[0])), vf_le(x, vf_set1(s->box[2])));
	in = vm_and(in, vf_ge(q, vf_zero()));
	return vm_and(in, vf_ge(s->alpha, vf_set1(RLX_K_SPLAT_CUT)));
}

/* x of the pixel centres from column @c on. */
RLX_INLINE vf centres(int64_t c)
{
	float x[RLX_VL];

	for (int i = 0; i < RLX_VL; i++)
		x[i] = (float)(c + i) + 0.5f;
	return vf_loadu(x);
}

/* Rows of the tile that a box covers: [*from, return). */
static int rows_of(const float *box, int64_t ty, int rows, int *from)
{
	int r = 0, to = rows;

	while (r < rows && !((float)(ty * TILE + r) + 0.5f >= box[1]))
		r++;
	while (to > r && !((float)(ty * TILE + to - 1) + 0.5f <= box[3]))
		to--;
	*from = r;
	return to;
}

/* What shines through to each pixel of a tile so far; negative: it is done, with what is left. */
struct light {
	float	t[PIXELS];
	float	sum[3][PIXELS];
};

RLX_INLINE vm passes(vf t, vf alpha, vm in, vf *next, vm *stops)
{
	*next = t * (1 - alpha);
	in = vm_and(in, vf_gt(t, vf_zero()));
	*stops = vm_and(in, vf_lt(*next, vf_set1(RLX_K_SPLAT_STOP)));
	return vm_and(in, vf_ge(*next, vf_set1(RLX_K_SPLAT_STOP)));
}

static bool blend_row(struct light *l, struct on_row *s, int64_t x0, int r)
{
	vm open = vf_lt(vf_zero(), vf_zero());

	for (int i = r * TILE; i < (r + 1) * TILE; i += RLX_VL) {
		vf t = vf_load(l->t + i), next, w;
		vm in = cover(s, centres(x0 + i - r * TILE)), stops;

		in = passes(t, s->alpha, in, &next, &stops);
		w = vf_sel(in, t * s->alpha, vf_zero());
		for (int c = 0; c < 3; c++) {
			vf sum = vf_load(l->sum[c] + i);

			vf_store(l->sum[c] + i, vf_sel(in, sum + w * s->p[6 + c], sum));
		}
		t = vf_sel(in, next, vf_sel(stops, -t, t));
		vf_store(l->t + i, t);
		open = vm_or(open, vf_gt(t, vf_zero()));
	}
	return vm_any(open);
}

/* Is there a pixel in which something behind would show? */
static bool any_open(const float *t, int rows)
{
	for (int i = 0; i < rows * TILE; i++)
		if (t[i] > 0)
			return true;
	return false;
}

/* Light for the pixels that are in the image. */
static void open_tile(float *t, int rows, int64_t cols)
{
	for (int i = 0; i < PIXELS; i++)
		t[i] = i % TILE >= cols || i / TILE >= rows ? 0 : 1;
}

static void blend_tile(const struct scene *s, struct light *l, int64_t ty, int64_t tx, int rows)
{
	open_tile(l->t, rows, s->width - tx * TILE);
	memset(l->sum, 0, sizeof(l->sum));
	for (int64_t k = 0; k < s->tiles; k++) {
		struct on_row on = { .p = s->splats + FIELDS * s->tile[k],
				     .box = s->boxes + 4 * s->tile[k] };
		int r, to = rows_of(on.box, ty, rows, &r);
		bool open = r == to;

		for (; r < to; r++) {
			on.dy = (float)(ty * TILE + r) + 0.5f - on.p[1];
			open |= blend_row(l, &on, tx * TILE, r);
		}
		if (!open && !any_open(l->t, rows))
			return;
	}
}

void RLX_K(splat_blend)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_splat_blend *a = args;
	struct light l __attribute__((aligned(64)));
	struct scene s = { a->splats, a->boxes, .n = a->n, .width = a->width };

	list_nothing(&s, scratch);
	for (size_t u = begin; u < end; u++) {
		const int64_t ty = (int64_t)u, left = a->height - ty * TILE;
		const int rows = left < TILE ? (int)left : TILE;

		for (int64_t x = 0; x < a->width; x += TILE) {
			list_tile(&s, ty, x / TILE);
			blend_tile(&s, &l, ty, x / TILE, rows);
			for (int i = 0; i < rows * TILE; i++) {
				float *y = a->y + 4 * ((ty * TILE + i / TILE) * a->width + x +
						       i % TILE);
				float t = l.t[i] < 0 ? -l.t[i] : l.t[i];

				if (x + i % TILE >= a->width)
					continue;
				for (int c = 0; c < 3; c++)
					y[c] = l.sum[c][i] + t * a->background[c];
				y[3] = 1 - t;
			}
		}
	}
}

/* ---- derivatives ---- */

/*
 * A tile on its way back: of each pixel the gradient by colours, by what shines through to the
 * end, and sums of weight times (colour . gradient), of all splats and of those so far.
 */
struct back {
	float	t[PIXELS];
	float		dc[3][PIXELS], dt[PIXELS];
	float		all[PIXELS], sum[PIXELS], end[PIXELS];
};

static void begin_back(const struct rlx_k_splat_blend_grad *a, struct back *b, int64_t ty,
		       int64_t x, int rows)
{
	memset(b, 0, sizeof(*b));
	open_tile(b->t, rows, a->width - x);
	for (int i = 0; i < rows * TILE; i++) {
		const float *dy = a->dy + 4 * ((ty * TILE + i / TILE) * a->width + x + i % TILE);

		if (x + i % TILE >= a->width)
			continue;
		b->dt[i] = -dy[3];
		for (int c = 0; c < 3; c++) {
			b->dc[c][i] = dy[c];
			b->dt[i] += a->background[c] * dy[c];
		}
	}
}

/* Colour times gradient. */
RLX_INLINE vf shade(const struct back *b, const float *p, int i)
{
	return vf_load(b->dc[0] + i) * p[6] + vf_load(b->dc[1] + i) * p[7] +
	       vf_load(b->dc[2] + i) * p[8];
}

/* A splat's share of a row is added to @d, if that is given; else only sums go on. */
static void back_row(struct back *b, struct on_row *s, int64_t x0, int r, vf *d)
{
	for (int i = r * TILE; i < (r + 1) * TILE; i += RLX_VL) {
		vf t = vf_load(b->t + i), next, w, g = shade(b, s->p, i), sum = vf_load(b->sum + i);
		vm in = cover(s, centres(x0 + i - r * TILE)), stops;
		vf da, dq;

		in = passes(t, s->alpha, in, &next, &stops);
		w = t * s->alpha;
		sum = vf_sel(in, sum + w * g, sum);
		vf_store(b->sum + i, sum);
		vf_store(b->t + i, vf_sel(in, next, vf_sel(stops, -t, t)));
		if (!d || !vm_any(in))
			continue;
		da = t * g - (vf_load(b->all + i) - sum + vf_load(b->end + i) *
			      vf_load(b->dt + i)) / (1 - s->alpha);
		/* beside it what is not finite would make a NaN of its 0: exp of a q far below 0 */
		w = vf_sel(in, w, vf_zero());
		s->e = vf_sel(in, s->e, vf_zero());
		s->dx = vf_sel(in, s->dx, vf_zero());
		for (int c = 0; c < 3; c++)
			d[6 + c] += vf_sel(in, w * vf_load(b->dc[c] + i), vf_zero());
		/* at the cap nothing moves it */
		in = vm_and(in, vf_lt(s->e * s->p[5], vf_set1(RLX_K_SPLAT_CAP)));
		da = vf_sel(in, da, vf_zero());
		dq = da * s->alpha * -0.5f;
		d[0] -= dq * 2 * (s->p[2] * s->dx + s->p[3] * s->dy);
		d[1] -= dq * 2 * (s->p[3] * s->dx + s->p[4] * s->dy);
		d[2] += dq * s->dx * s->dx;
		d[3] += dq * 2 * s->dx * s->dy;
		d[4] += dq * s->dy * s->dy;
		d[5] += da * s->e;
	}
}

/* All splats of a tile; with @d their derivatives. */
static void back_tile(const struct scene *s, struct back *b, int64_t ty, int64_t tx, int rows,
		      float *d)
{
	for (int64_t k = 0; k < s->tiles; k++) {
		struct on_row on = { .p = s->splats + FIELDS * s->tile[k],
				     .box = s->boxes + 4 * s->tile[k] };
		int r, to = rows_of(on.box, ty, rows, &r);
		vf share[FIELDS] = { 0 };

		for (; r < to; r++) {
			on.dy = (float)(ty * TILE + r) + 0.5f - on.p[1];
			back_row(b, &on, tx * TILE, r, d ? share : NULL);
		}
		for (int c = 0; d && c < FIELDS; c++)
			d[FIELDS * s->tile[k] + c] += vf_hsum(share[c]);
		if (k % 32 == 31 && !any_open(b->t, rows))
			return;
	}
}

void RLX_K(splat_blend_grad)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_splat_blend_grad *a = args;
	const int64_t across = rlx_k_splat_tiles_of(a->width);
	const int64_t tiles = across * rlx_k_splat_tiles_of(a->height);
	struct back b __attribute__((aligned(64)));
	struct scene s = { a->splats, a->boxes, .n = a->n, .width = a->width };

	list_nothing(&s, scratch);
	for (size_t u = begin; u < end; u++) {
		const int64_t part = (int64_t)u;
		float *d = a->d + part * a->n * FIELDS;

		memset(d, 0, (size_t)a->n * FIELDS * sizeof(*d));
		for (int64_t i = part * tiles / a->parts; i < (part + 1) * tiles / a->parts; i++) {
			const int64_t ty = i / across, left = a->height - ty * TILE;
			const int rows = left < TILE ? (int)left : TILE;

			if (!list_tile(&s, ty, i % across))
				continue;
			begin_back(a, &b, ty, i % across * TILE, rows);
			back_tile(&s, &b, ty, i % across, rows, NULL);
			memcpy(b.all, b.sum, sizeof(b.all));
			memset(b.sum, 0, sizeof(b.sum));
			for (int k = 0; k < PIXELS; k++)
				b.end[k] = b.t[k] < 0 ? -b.t[k] : b.t[k];
			open_tile(b.t, rows, a->width - i % across * TILE);
			back_tile(&s, &b, ty, i % across, rows, d);
		}
	}
}
