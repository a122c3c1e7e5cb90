/* SPDX-License-Identifier: MIT */
/* How plain convolutions walk over output pixels, channels and taps. */
#ifndef RLX_CPU_CONV_ND_H
#define RLX_CPU_CONV_ND_H

#include "kernels/conv.h"
#include "kernels/cpu/conv_tile.h"

#define PANEL	(TILE_K * RLX_VL)	/* pixels gathered side by side */
#define PANELS	RLX_CONV_ND_PANELS	/* of a unit */
#define KC	((size_t)RLX_CONV_ND_KC)

/* Neighbouring output pixels of one row, within a panel. */
struct seg {
	size_t		at, len;	/* in the panel */
	ptrdiff_t	in[3];		/* input coordinate of the first, tap 0 */
	size_t		out;		/* output element of the first */
};

/* The shape, and per group: input and output channels, and taps. */
struct walk {
	const struct rlx_k_conv_nd *a;
	size_t		icg, ocg, taps;
};

struct unit {
	size_t		n, g, tile, tiles;	/* first tile, count */
	size_t		row, rows;		/* output channels in the group */
	size_t		phase[3], dims[3];	/* pixels of the phase */
	size_t		pixel, pixels;
	ptrdiff_t	step[3];		/* input from pixel to pixel */
};

static inline struct walk walk_of(const struct rlx_k_conv_nd *a)
{
	return (struct walk){ a, a->ic / a->groups, a->oc / a->groups,
			      a->k[0] * a->k[1] * a->k[2] };
}

/* Tiles of output channels differ by one channel at most. */
static inline size_t tile_first(const struct walk *r, size_t tile)
{
	size_t q = r->ocg / r->a->tiles, m = r->ocg % r->a->tiles;

	return tile * q + (tile < m ? tile : m);
}

/* False when the phase has fewer blocks than the largest one. */
static inline bool unit_get(const struct walk *r, size_t i, struct unit *u)
{
	const struct rlx_k_conv_nd *a = r->a;
	size_t j, all = 1;

	/* phases first: they read the same input */
	for (j = 3; j-- > 0;) {
		size_t s = a->transposed ? a->s[j] : 1;

		u->phase[j] = i % s;
		i /= s;
		u->dims[j] = a->out[j] > u->phase[j] ?
			     (a->out[j] - u->phase[j] + s - 1) / s : 0;
		u->step[j] = a->transposed ? 1 : (ptrdiff_t)a->s[j];
		all *= u->dims[j];
	}
	u->pixel = i % a->blocks * a->pixels;
	i /= a->blocks;
	u->tile = i % a->chunks * a->chunk;
	i /= a->chunks;
	u->g = i % a->groups;
	u->n = i / a->groups;
	if (u->pixel >= all)
		return false;
	u->pixels = all - u->pixel < a->pixels ? all - u->pixel : a->pixels;
	u->tiles = a->tiles - u->tile < a->chunk ? a->tiles - u->tile : a->chunk;
	u->row = tile_first(r, u->tile);
	u->rows = tile_first(r, u->tile + u->tiles) - u->row;
	return true;
}

/* Cut pixels [first, first + count) of the phase where a row ends. */
static inline size_t segs_get(const struct walk *r, const struct unit *u, size_t first,
		       size_t count, struct seg *s)
{
	const struct rlx_k_conv_nd *a = r->a;
	size_t n = 0, at = 0;

	while (at < count) {
		size_t p = first + at, t[3], o[3], j;

		t[2] = p % u->dims[2];
		t[1] = p / u->dims[2] % u->dims[1];
		t[0] = p / u->dims[2] / u->dims[1];
		for (j = 0; j < 3; j++) {
			o[j] = a->transposed ? t[j] * a->s[j] + u->phase[j] :
					       t[j];
			s[n].in[j] = (ptrdiff_t)t[j] * u->step[j];
		}
		s[n].at = at;
		s[n].len = u->dims[2] - t[2] < count - at ?
			   u->dims[2] - t[2] : count - at;
		s[n].out = (o[0] * a->out[1] + o[1]) * a->out[2] + o[2];
		at += s[n++].len;
	}
	return n;
}

/* The segments of a unit, panel by panel. */
struct unit_segs {
	struct seg	s[PANELS * PANEL];
	size_t		first[PANELS + 1];	/* of each panel, and the end */
	size_t		panels;
};

static inline void unit_segs_get(const struct walk *r, const struct unit *u,
				 struct unit_segs *q)
{
	size_t p, left;

	q->first[0] = 0;
	for (p = 0; p * PANEL < u->pixels; p++) {
		left = u->pixels - p * PANEL;
		q->first[p + 1] = q->first[p] +
			segs_get(r, u, u->pixel + p * PANEL,
				 left < PANEL ? left : PANEL,
				 q->s + q->first[p]);
	}
	q->panels = p;
}

/*
 * The next tap from @tap on that reaches the phase, and where it reads
 * relative to a segment's coordinates; false at the end.
 */
static inline bool tap_next(const struct walk *r, const struct unit *u, size_t *tap,
		     ptrdiff_t off[3])
{
	const struct rlx_k_conv_nd *a = r->a;

	for (; *tap < r->taps; ++*tap) {
		size_t k = *tap, j;

		for (j = 3; j-- > 0; k /= a->k[j]) {
			ptrdiff_t at = (ptrdiff_t)(k % a->k[j] * a->d[j]) -
				       (ptrdiff_t)a->p[j];

			off[j] = at;
			if (!a->transposed)
				continue;
			at = (ptrdiff_t)u->phase[j] - at;
			if (at % (ptrdiff_t)a->s[j])
				break;
			off[j] = at / (ptrdiff_t)a->s[j];
		}
		if (j == (size_t)-1)
			return true;
	}
	return false;
}

/* Terms: every channel of a tap, tap after tap; this is the next one. */
struct terms {
	size_t		tap, ci;
	ptrdiff_t	off[3];
	bool		more;
};

static inline void terms_begin(struct terms *t, const struct walk *r,
			       const struct unit *u)
{
	*t = (struct terms){ 0 };
	t->more = tap_next(r, u, &t->tap, t->off);
}

/* Channels [ci, ci + n) of one tap. */
struct alike {
	size_t		tap, ci, n;
	ptrdiff_t	off[3];
};

/* The terms of one pass, at most KC, in runs of the same tap. */
struct pass {
	struct alike	runs[RLX_CONV_ND_KC];
	size_t		nrun, n;
};

static inline void pass_get(struct pass *p, struct terms *t,
			    const struct walk *r, const struct unit *u)
{
	p->n = p->nrun = 0;
	while (t->more && p->n < KC) {
		struct alike *a = &p->runs[p->nrun++];

		*a = (struct alike){ t->tap, t->ci, KC - p->n,
				     { t->off[0], t->off[1], t->off[2] } };
		a->n = r->icg - t->ci < a->n ? r->icg - t->ci : a->n;
		p->n += a->n;
		t->ci += a->n;
		if (t->ci < r->icg)
			break;
		t->ci = 0;
		t->tap++;
		t->more = tap_next(r, u, &t->tap, t->off);
	}
}

/*
 * What a tap reads of a segment: elements [i0, i1) are in the input, the first
 * of them at element @from of a channel's plane; the rest is padding.
 */
struct cut {
	size_t		at, i0, i1, len, from;
};

static inline void cuts_get(const struct walk *r, const struct unit *u,
			    const struct seg *s, size_t n,
			    const ptrdiff_t off[3], struct cut *c)
{
	const struct rlx_k_conv_nd *a = r->a;
	ptrdiff_t step = u->step[2], w = (ptrdiff_t)a->in[2];

	for (; n--; s++, c++) {
		ptrdiff_t z = s->in[0] + off[0], y = s->in[1] + off[1];
		ptrdiff_t x = s->in[2] + off[2], len = (ptrdiff_t)s->len;
		ptrdiff_t i0 = x < 0 ? (-x + step - 1) / step : 0;
		ptrdiff_t i1 = x < w ? (w - x + step - 1) / step : 0;

		*c = (struct cut){ .at = s->at, .len = s->len };
		if (z < 0 || z >= (ptrdiff_t)a->in[0] || y < 0 ||
		    y >= (ptrdiff_t)a->in[1] || i0 >= len || i1 <= i0)
			continue;
		c->i0 = (size_t)i0;
		c->i1 = (size_t)(i1 < len ? i1 : len);
		c->from = (size_t)((z * (ptrdiff_t)a->in[1] + y) * w + x +
				   i0 * step);
	}
}

#endif
