/* SPDX-License-Identifier: MIT */
/* How conv_i8 walks over output pixels, channels and taps, gathering panels of pixels. */
#ifndef RLX_CPU_CONV_PANEL_H
#define RLX_CPU_CONV_PANEL_H

#include "kernels/conv.h"
#include "kernels/cpu/conv_tile.h"

#ifndef PANEL
#define PANEL	(TILE_K * RLX_VL)	/* pixels gathered side by side */
#endif
#define PANELS	RLX_CONV_ND_PANELS	/* of a unit */
#define KC	((size_t)RLX_CONV_ND_KC)

/* Neighbouring output pixels of one row, within a panel. */
struct seg {
	size_t		at, len;	/* in the panel */
	size_t		in;		/* input element of the first, tap 0 */
};

/* The shape, and per group: input and output channels, and taps. */
struct walk {
	const struct rlx_k_conv_nd *a;
	size_t		icg, ocg, taps;
};

struct unit {
	size_t		n, g, tile, tiles;	/* first tile, count */
	size_t		row, rows;		/* output channels in the group */
	size_t		pixel, pixels;
};

static inline struct walk walk_of(const struct rlx_k_conv_nd *a)
{
	return (struct walk){ a, a->ic / a->groups, a->oc / a->groups,
			      a->k[0] * a->k[1] * a->k[2] };
}

static inline void unit_get(const struct walk *r, size_t i, struct unit *u)
{
	const struct rlx_k_conv_nd *a = r->a;
	size_t all = a->out[0] * a->out[1] * a->out[2];

	u->pixel = i % a->blocks * a->pixels;
	i /= a->blocks;
	u->tile = i % a->chunks * a->chunk;
	i /= a->chunks;
	u->g = i % a->groups;
	u->n = i / a->groups;
	u->pixels = all - u->pixel < a->pixels ? all - u->pixel : a->pixels;
	u->tiles = a->tiles - u->tile < a->chunk ? a->tiles - u->tile : a->chunk;
	u->row = conv_tile_first(a, u->tile);
	u->rows = conv_tile_first(a, u->tile + u->tiles) - u->row;
}

/* Cut pixels [first, first + count) where a row ends. */
static inline size_t segs_get(const struct walk *r, size_t first, size_t count, struct seg *s)
{
	const struct rlx_k_conv_nd *a = r->a;
	size_t n = 0, at = 0;

	while (at < count) {
		size_t p = first + at, o[3];

		o[2] = p % a->out[2];
		o[1] = p / a->out[2] % a->out[1];
		o[0] = p / a->out[2] / a->out[1];
		s[n].in = (o[0] * a->s[0] * a->in[1] + o[1] * a->s[1]) * a->in[2] +
			  o[2] * a->s[2];
		s[n].at = at;
		s[n].len = a->out[2] - o[2] < count - at ? a->out[2] - o[2] : count - at;
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
			segs_get(r, u->pixel + p * PANEL, left < PANEL ? left : PANEL,
				 q->s + q->first[p]);
	}
	q->panels = p;
}

/* Where tap @tap reads, relative to a segment's first; nothing is padded here. */
static inline size_t tap_get(const struct walk *r, size_t tap)
{
	const struct rlx_k_conv_nd *a = r->a;
	size_t x = tap % a->k[2], y = tap / a->k[2] % a->k[1], z = tap / a->k[2] / a->k[1];

	return (z * a->d[0] * a->in[1] + y * a->d[1]) * a->in[2] + x * a->d[2];
}

/* Terms: every channel of a tap, tap after tap; this is the next one. */
struct terms {
	size_t		tap, ci;
};

/* Channels [ci, ci + n) of one tap, and where it reads. */
struct alike {
	size_t		tap, ci, n, off;
};

/* The terms of one pass, in runs of the same tap. */
struct pass {
	struct alike	runs[RLX_CONV_ND_KC];
	size_t		nrun, n;
};

/* @most terms, of KC taps. */
static inline void pass_get(struct pass *p, struct terms *t, const struct walk *r, size_t most)
{
	p->n = p->nrun = 0;
	while (t->tap < r->taps && p->n < most && p->nrun < KC) {
		struct alike *a = &p->runs[p->nrun++];

		*a = (struct alike){ t->tap, t->ci, most - p->n, tap_get(r, t->tap) };
		a->n = r->icg - t->ci < a->n ? r->icg - t->ci : a->n;
		p->n += a->n;
		t->ci += a->n;
		if (t->ci < r->icg)
			break;
		t->ci = 0;
		t->tap++;
	}
}

#endif
