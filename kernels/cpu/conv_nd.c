// SPDX-License-Identifier: MIT
/*
 * Plain convolution of any shape, forwards and transposed. The roles of the
 * register tile are changed: its vectors are output pixels and it broadcasts
 * weights, so that few channels (groups) still fill it.
 *
 * A plane of pixels is computed as one row, at the pitch of what is read: then a
 * tap reads all of them at one distance, in vectors, and what falls between the
 * rows is not stored. For that the input is read in place, or is padded before
 * and sorted by phases modulo the stride (conv_nd_pad).
 *
 * A transposed convolution falls apart into one convolution of stride 1 for each
 * phase of the output modulo the stride, with those taps that hit the phase. A unit
 * has all phases of its rows, which then are stored as they lie in memory; those that
 * read the same pixels are channels of one tile, side by side.
 */
#include <string.h>

#include "kernels/cpu/conv_tile.h"
#include "kernels/simd/evens.h"
#include "kernels/simd/zip.h"

rlx_k_fn RLX_K(conv_nd);
rlx_k_fn RLX_K(conv_nd_pad);
rlx_k_fn RLX_K(conv_nd_pack);

#define C	RLX_VL
#define PANEL	(TILE_K * C)	/* pixels of a tile */
#define KC	((size_t)RLX_CONV_ND_KC)
#define ROWS	(TILE_R > 6 ? 12 : 6)	/* most channels of a tile, as planned */
#define MAX_PIXELS	RLX_CONV_ND_PIXELS
#define ACROSS		RLX_CONV_ND_ACROSS

#ifdef __clang__
#define UNROLL	_Pragma("clang loop unroll(full)")
#else
#define UNROLL	_Pragma("GCC unroll 16")
#endif

/* Neighbouring output pixels of one row, within a panel; of all phases of a unit. */
struct seg {
	uint32_t	at, len;	/* in the panel */
	size_t		out;		/* output element of the first */
};

/* The taps of one phase. */
struct taps {
	size_t		hits;			/* their number */
	size_t		skip;			/* taps of the phases before it */
	size_t		at_once;		/* channels whose taps @offs has */
	ptrdiff_t	*offs;			/* channel by channel, tap by tap */
};

struct unit {
	size_t		n, g, z;		/* z: plane of the phase */
	size_t		tile, tiles, row, rows;	/* output channels of the group */
	size_t		phase[3], dims[3];	/* pixels of the phase */
	size_t		pixel, pixels;		/* of the plane as one row */
};

struct run {
	const struct rlx_k_conv_nd *a;
	size_t		icg, ocg, taps;		/* per group */
	size_t		plane;			/* of a channel of what is read */
	size_t		passes;			/* phases of a unit that are no rows of a tile */
	struct taps	of[ACROSS];		/* those */
	float		*sums;
	struct conv_act	act;
	struct conv_fuse fuse;
	bool		fused;
	struct seg	segs[MAX_PIXELS];
	size_t		first[MAX_PIXELS / PANEL + 1];	/* of each panel, and the end */
};

/* The phase of the output that tap @k along @j hits. */
static size_t phase_of(const struct rlx_k_conv_nd *a, size_t j, size_t k)
{
	size_t s = a->s[j];

	return a->transposed ? (k * a->d[j] % s + s - a->p[j] % s) % s : 0;
}

/* Taps along @j that hit phase @phase, and those that hit one before it. */
static size_t hits_of(const struct rlx_k_conv_nd *a, size_t j, size_t phase, size_t *before)
{
	size_t k, n = 0;

	*before = 0;
	for (k = 0; k < a->k[j]; k++) {
		n += phase_of(a, j, k) == phase;
		*before += phase_of(a, j, k) < phase;
	}
	return n;
}

/* Where tap @k reads along @j for pixel 0 of phase @phase; @of: which phase of the input. */
static size_t tap_at(const struct rlx_k_conv_nd *a, size_t j, size_t k, size_t phase, size_t *of)
{
	size_t s = a->s[j], far = k * a->d[j];

	*of = a->transposed ? 0 : k % a->phases[j];
	/* exact, since the tap hits the phase; not below 0 by what is before */
	return a->transposed ? (a->before[j] * s + phase + a->p[j] - far) / s : far / s;
}

/* The next tap from @tap on that hits the phase, the first of a->fold; false at the end. */
static bool tap_next(const struct rlx_k_conv_nd *a, const size_t phase[3], size_t *tap,
		     ptrdiff_t *off)
{
	size_t all = a->k[0] * a->k[1] * a->k[2], j, k, at, of, in, on;

	for (; *tap < all; *tap += a->fold) {
		size_t left = *tap, div = all;

		at = of = 0;
		for (j = 0; j < 3; j++) {
			div /= a->k[j];
			k = left / div;
			left %= div;
			if (phase_of(a, j, k) != phase[j])
				break;
			on = tap_at(a, j, k, phase[j], &in);
			at = at * a->size[j] + on;
			of = of * a->phases[j] + in;
		}
		if (j < 3)
			continue;
		*off = (ptrdiff_t)(of * a->size[0] * a->size[1] * a->size[2] + at);
		return true;
	}
	return false;
}

/* False when the phase has fewer pixels than the largest one. */
static bool unit_get(const struct run *r, size_t i, struct unit *u)
{
	const struct rlx_k_conv_nd *a = r->a;
	size_t j, all, planes = 1;

	for (j = 3; j-- > 0;) {
		size_t s = a->transposed ? a->s[j] : 1, here = j == 2 ? s / a->across : s;

		u->phase[j] = i % here;
		i /= here;
		u->dims[j] = a->out[j] > u->phase[j] ? (a->out[j] - u->phase[j] - 1) / s + 1 : 0;
		if (!j)
			planes = (a->out[0] - 1) / s + 1;
	}
	u->pixel = i % a->blocks * a->pixels;
	i /= a->blocks;
	u->z = i % planes;
	i /= planes;
	u->tile = i % a->chunks * a->chunk;
	i /= a->chunks;
	u->g = i % a->groups;
	u->n = i / a->groups;
	if (u->z >= u->dims[0] || !u->dims[1] || !u->dims[2])
		return false;
	all = (u->dims[1] - 1) * a->size[2] + u->dims[2];
	if (u->pixel >= all)
		return false;
	u->pixels = all - u->pixel < a->pixels ? all - u->pixel : a->pixels;
	u->tiles = a->tiles - u->tile < a->chunk ? a->tiles - u->tile : a->chunk;
	u->row = conv_tile_first(a, u->tile);
	u->rows = conv_tile_first(a, u->tile + u->tiles) - u->row;
	return true;
}

/* How far panel @p is moved back, so that it ends where the plane does. */
static size_t moved(const struct run *r, const struct unit *u, size_t p)
{
	return !r->a->copy && (p + 1) * PANEL > u->pixels ? (p + 1) * PANEL - u->pixels : 0;
}

/* @len pixels from @at of a panel on, the first of which is element @x of the row at @row. */
static struct seg seg_get(const struct rlx_k_conv_nd *a, size_t at, size_t len, size_t row,
			  size_t x)
{
	size_t n = len * a->across;

	/* of the last pixel a row may have some phases alone */
	if (a->across > 1 && a->out[2] - x < n)
		n = a->out[2] - x;
	return (struct seg){ (uint32_t)(at * a->across), (uint32_t)n, row + x };
}

/* Cut the panels where a row of the output begins or ends. */
static void segs_get(struct run *r, const struct unit *u)
{
	const struct rlx_k_conv_nd *a = r->a;
	size_t pitch = a->size[2], y = u->pixel / pitch, x = u->pixel % pitch, n = 0, p, at, len;
	size_t s[3] = { 1, 1, 1 };
	bool gapless = !a->transposed && pitch == a->out[2];

	if (a->transposed)
		memcpy(s, a->s, sizeof(s));
	for (p = 0; p * PANEL < u->pixels; p++) {
		size_t left = u->pixels - p * PANEL, back = moved(r, u, p);
		size_t count = left < PANEL ? left : PANEL;

		r->first[p] = n;
		for (at = 0; at < count; at += len) {
			size_t z = u->z * s[0] + u->phase[0], row = y * s[1] + u->phase[1];

			len = x < u->dims[2] ? u->dims[2] - x : pitch - x;
			/* rows without anything between them are one */
			len = gapless || len > count - at ? count - at : len;
			if (x < u->dims[2])
				r->segs[n++] = seg_get(a, at + back, len,
						       (z * a->out[1] + row) * a->out[2],
						       x * s[2] + u->phase[2]);
			for (x += len; x >= pitch; x -= pitch)
				y++;
		}
	}
	r->first[p] = n;
}

/* The taps of a phase, for as many channels as are summed at once. */
static void taps_get(const struct run *r, const size_t phase[3], struct taps *t)
{
	const struct rlx_k_conv_nd *a = r->a;
	const size_t k = a->k[2] / a->fold;	/* taps that all of those hit are one */
	size_t h[3], b[3], tap = 0, n = 0, i, j;

	for (j = 0; j < 3; j++)
		h[j] = hits_of(a, j, phase[j], &b[j]);
	t->skip = b[0] * a->k[1] * k + h[0] * (b[1] * k + h[1] * b[2]);
	for (; tap_next(a, phase, &tap, &t->offs[n]); tap += a->fold)
		n++;
	t->hits = n;
	t->at_once = rlx_conv_nd_at_once(n, rlx_conv_nd_most(a), r->icg);
	for (i = n; i < t->at_once * n; i++)
		t->offs[i] = t->offs[i - n] + (ptrdiff_t)r->plane;
}

/* Those of a unit's phases. */
static void taps_of_unit(struct run *r, const struct unit *u)
{
	size_t phase[3] = { u->phase[0], u->phase[1], u->phase[2] };

	for (size_t i = 0; i < r->passes; i++, phase[2]++)
		taps_get(r, phase, &r->of[i]);
}

/* One call of a tile: @n terms of some channels, for the vectors of its pixels. */
struct tile {
	const float	*x, *w;		/* pixel 0; weights, channels of a term together */
	const ptrdiff_t	*offs;
	size_t		n;
	float		*y;		/* vector by vector, channel by channel */
	size_t		next;		/* from one panel of @y to the next */
	bool		add;
	size_t		row, rows;	/* output channels of the group */
};

/* @K panels of @R channels. */
RLX_INLINE void tile_run(const struct tile *t, const int R, const int K)
{
	const ptrdiff_t *o = t->offs, *end = o + t->n;
	const float *w = t->w;
	vf acc[12][8], b[12];

	UNROLL
	for (int k = 0; k < TILE_K * K; k++) {
		UNROLL
		for (int i = 0; i < R; i++)
			acc[i][k] = vf_zero();
	}
	for (; o < end; o++, w += R) {
		const float *x = t->x + *o;

		if (K > 1) {
			UNROLL
			for (int i = 0; i < R; i++)
				b[i] = vf_set1(w[i]);
			UNROLL
			for (int k = 0; k < TILE_K * K; k++) {
				vf v = vf_loadu(x + k * C);

				UNROLL
				for (int i = 0; i < R; i++)
					acc[i][k] = vf_fma(b[i], v, acc[i][k]);
			}
		} else {
			vf v[TILE_K];

			UNROLL
			for (int k = 0; k < TILE_K; k++)
				v[k] = vf_loadu(x + k * C);
			UNROLL
			for (int i = 0; i < R; i++) {
				b[0] = vf_set1(w[i]);
				UNROLL
				for (int k = 0; k < TILE_K; k++)
					acc[i][k] = vf_fma(b[0], v[k], acc[i][k]);
			}
		}
	}
	UNROLL
	for (int k = 0; k < TILE_K * K; k++) {
		float *y = t->y + (size_t)(k / TILE_K) * t->next + k % TILE_K * R * C;

		UNROLL
		for (int i = 0; i < R; i++)
			vf_storeu(y + i * C, t->add ? vf_loadu(y + i * C) + acc[i][k] :
						      acc[i][k]);
	}
}

typedef void tile_fn(const struct tile *t);

#define TILE(R)								\
static void tile_##R(const struct tile *t)				\
{									\
	tile_run(t, R, 1);						\
}
/* Few channels leave too few sums to hide the latency of a multiply-add. */
#define FEW(R, K)							\
static void few_##R(const struct tile *t)				\
{									\
	tile_run(t, R, K);						\
}
TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#if TILE_R > 6
TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12)
enum { FEW_1 = 4, FEW_2 = 4, FEW_3 = 4 };
#else
enum { FEW_1 = 4, FEW_2 = 2, FEW_3 = 2 };
#endif
FEW(1, FEW_1) FEW(2, FEW_2) FEW(3, FEW_3)

static tile_fn *const tiles[ROWS] = {
	tile_1, tile_2, tile_3, tile_4, tile_5, tile_6,
#if TILE_R > 6
	tile_7, tile_8, tile_9, tile_10, tile_11, tile_12,
#endif
};
/* By channels; panels that each takes. */
static tile_fn *const few[] = { few_1, few_2, few_3 };
static const uint8_t few_panels[] = { FEW_1, FEW_2, FEW_3 };

/* @n floats; of less than a vector more may be read. */
RLX_INLINE void seg_store(float *d, const float *v, size_t n)
{
	size_t i;

	if (n < C) {
		vf_storen(d, vf_loadu(v), n);
		return;
	}
	/* the last vector overlaps the one before */
	for (i = 0; i + C < n; i += C)
		vf_storeu(d + i, vf_loadu(v + i));
	vf_storeu(d + n - C, vf_loadu(v + n - C));
}

/* A row whose pixels are all beside one another, by an activation that is done in registers. */
RLX_INLINE void row_store_whole(const struct run *r, const float *sums, size_t apart, vf bias,
				float *y, const float *res)
{
	for (size_t i = 0; i < TILE_K; i++) {
		vf x = vf_loadu(sums + i * apart) + bias;

		if (res)
			x += vf_loadu(res + i * C);
		vf_storeu(y + i * C, conv_fuse_run(&r->fuse, x));
	}
}

/* Lanes of @a and @b in turns. */
RLX_INLINE void zip_store(float *v, vf a, vf b)
{
	vf_store(v, __builtin_shufflevector(a, b, RLX_ZIP_32(LO)));
	vf_store(v + C, __builtin_shufflevector(a, b, RLX_ZIP_32(HI)));
}

/* Lanes of @n vectors in turns. */
RLX_INLINE void turns_store(float *v, const vf *x, size_t n)
{
	size_t q, l;

	switch (n) {
	case 1:
		vf_store(v, x[0]);
		return;
	case 2:
		zip_store(v, x[0], x[1]);
		return;
	case 4:
		zip_store(v, __builtin_shufflevector(x[0], x[2], RLX_ZIP_32(LO)),
			  __builtin_shufflevector(x[1], x[3], RLX_ZIP_32(LO)));
		zip_store(v + 2 * C, __builtin_shufflevector(x[0], x[2], RLX_ZIP_32(HI)),
			  __builtin_shufflevector(x[1], x[3], RLX_ZIP_32(HI)));
		return;
	default:
		for (q = 0; q < n; q++)
			for (l = 0; l < C; l++)
				v[l * n + q] = x[q][l];
	}
}

/* Where the sums of a channel are: of its vectors, and of its phases. */
struct sums {
	const float	*at;
	size_t		apart, phase;
};

/* One channel of one panel: bias, residual, activation, and out. */
static void row_store(const struct run *r, const struct unit *u, const struct sums *sums,
		      size_t panel, size_t ch)
{
	const struct rlx_k_conv_nd *a = r->a;
	const size_t plane = a->out[0] * a->out[1] * a->out[2], across = a->across;
	const size_t step = a->transposed && across == 1 ? a->s[2] : 1;
	const struct seg *s = r->segs + r->first[panel], *end = r->segs + r->first[panel + 1];
	const vf bias = vf_set1(a->bias ? a->bias[ch] : 0);
	float *y = a->y + u->n * a->y_n + ch * plane;
	const float *res = a->res ? a->res + u->n * a->res_n + ch * plane : NULL;
	/* a vector is read from any of the first */
	_Alignas(64) float v[PANEL * ACROSS + C];
	size_t i, j;

	if (r->fused && step == 1 && across == 1 && s < end && s->len == PANEL) {
		row_store_whole(r, sums->at, sums->apart, bias, y + s->out,
				res ? res + s->out : NULL);
		return;
	}
	for (i = 0; i < TILE_K; i++) {
		vf x[ACROSS];

		for (j = 0; j < across; j++) {
			x[j] = vf_loadu(sums->at + i * sums->apart + j * sums->phase) + bias;
			if (r->fused && !res)
				x[j] = conv_fuse_run(&r->fuse, x[j]);
		}
		turns_store(v + i * C * across, x, across);
	}
	for (const struct seg *q = s; res && q < end; q++)
		for (j = 0; j < q->len; j++)
			v[q->at + j] += res[q->out + j * step];
	if (!r->fused)
		RLX_K(conv_act_run)(&r->act, v, PANEL * across);
	else if (res)
		for (i = 0; i < PANEL * across; i += C)
			vf_store(v + i, conv_fuse_run(&r->fuse, vf_load(v + i)));
	vf_store(v + PANEL * across, vf_zero());
	for (; step == 1 && s < end; s++)
		seg_store(y + s->out, v + s->at, s->len);
	for (; s < end; s++) {
		float *d = y + s->out;

		for (j = 0; j < s->len; j++)
			d[j * step] = v[s->at + j];
	}
}

/* Some panels of one tile of channels, from @p on: their number. */
static size_t panels_run(const struct run *r, const struct unit *u, struct tile *t, size_t rows,
			 size_t p, const float *x)
{
	size_t n = rows <= sizeof(few_panels) ? few_panels[rows - 1] : 1;

	if ((p + n) * PANEL > u->pixels)
		n = 1;
	t->x = x + p * PANEL - moved(r, u, p);
	if (n > 1)
		few[rows - 1](t);
	else
		tiles[rows - 1](t);
	return n;
}

/* The terms of one pass: @n from @term of a phase on. */
struct pass {
	const ptrdiff_t	*offs;		/* where they are, from @x */
	const float	*x;
	size_t		term, n, skip;
	float		*sums;		/* of the phase */
	bool		last;
};

/* The channels of a tile, whose sums are complete, of @n panels from @p on. */
static void tile_store(const struct run *r, const struct unit *u, const struct tile *t,
		       size_t p, size_t n)
{
	const struct rlx_k_conv_nd *a = r->a;
	struct sums sums = { .apart = t->rows * a->fold * C,
			     .phase = a->fold > 1 ? C : a->pixels * a->rows };
	size_t q, j;

	for (q = 0; q < n; q++)
		for (j = 0; j < t->rows; j++) {
			/* those of the first phase */
			sums.at = t->y - (r->passes - 1) * sums.phase + q * t->next +
				  j * a->fold * C;
			row_store(r, u, &sums, p + q, u->g * r->ocg + t->row + j);
		}
}

static void pass_run(const struct run *r, const struct unit *u, const struct pass *s)
{
	const size_t terms = r->icg * r->taps, fold = r->a->fold;
	const float *w = r->a->w + u->g * r->ocg * terms;
	struct tile t = { .offs = s->offs, .n = s->n, .next = u->rows * fold * PANEL,
			  .add = s->term > 0 };
	size_t i, p, k;

	for (i = 0; i < u->tiles; i++) {
		t.row = conv_tile_first(r->a, u->tile + i);
		t.rows = conv_tile_first(r->a, u->tile + i + 1) - t.row;
		t.w = w + t.row * terms + (s->skip * r->icg + s->term) * t.rows * fold;
		for (p = 0; p * PANEL < u->pixels; p += k) {
			t.y = s->sums + p * t.next + (t.row - u->row) * fold * PANEL;
			k = panels_run(r, u, &t, t.rows * fold, p, s->x);
			if (s->last)
				tile_store(r, u, &t, p, k);
		}
	}
}

/* Those of one phase; results are stored with the @last of them. */
static void phase_run(const struct run *r, const struct unit *u, const struct taps *t,
		      float *sums, bool last)
{
	const struct rlx_k_conv_nd *a = r->a;
	size_t x_n = a->copy ? a->ic * r->plane : a->x_n, c, e, all, part;
	struct pass s = { .x = a->x + u->n * x_n + u->g * r->icg * r->plane +
			       u->z * a->size[1] * a->size[2] + u->pixel,
			  .skip = t->skip, .sums = sums };
	bool more = true;

	for (c = 0; more; c += t->at_once, s.x += t->at_once * r->plane) {
		/* a phase that no tap hits has one pass of no terms */
		more = t->hits && c + t->at_once < r->icg;
		all = (more ? t->at_once : r->icg - c) * t->hits;
		part = rlx_conv_nd_pass(all);
		e = 0;
		do {
			s.offs = t->offs + e;
			s.n = all - e < part ? all - e : part;
			e += s.n;
			s.last = last && !more && e == all;
			pass_run(r, u, &s);
			s.term += s.n;
		} while (e < all);
	}
}

static void unit_run(const struct run *r, const struct unit *u)
{
	size_t each = r->a->pixels * r->a->rows, i;

	for (i = 0; i < r->passes; i++)
		phase_run(r, u, &r->of[i], r->sums + i * each, i + 1 == r->passes);
}

void RLX_K(conv_nd)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_nd *a = args;
	size_t phase[3] = { SIZE_MAX, 0, 0 }, each, i;
	struct run r;
	struct unit u;

	r.a = a;
	r.icg = a->ic / a->groups;
	r.ocg = a->oc / a->groups;
	r.taps = a->k[0] * a->k[1] * a->k[2];
	r.plane = a->phases[0] * a->phases[1] * a->phases[2] * a->size[0] * a->size[1] *
		  a->size[2];
	r.act = (struct conv_act){ a->act, a->act_a, a->act_b };
	r.fused = RLX_K(conv_act_fuse)(&r.act, &r.fuse);
	r.passes = a->across / a->fold;
	each = r.taps > KC ? r.taps : KC;
	for (i = 0; i < r.passes; i++)
		r.of[i].offs = (ptrdiff_t *)scratch + i * each;
	r.sums = (float *)((ptrdiff_t *)scratch + a->across * each);
	for (i = begin; i < end; i++) {
		if (!unit_get(&r, i, &u))
			continue;
		if (memcmp(phase, u.phase, sizeof(phase)))
			taps_of_unit(&r, &u);
		memcpy(phase, u.phase, sizeof(phase));
		segs_get(&r, &u);
		unit_run(&r, &u);
	}
}

/* Pixels @at, @at + step ... of row @x, @n of them; those outside are 0. */
static void row_pad(float *dst, const float *x, ptrdiff_t at, ptrdiff_t step, ptrdiff_t w,
		    ptrdiff_t n)
{
	ptrdiff_t lo = at < 0 ? (-at + step - 1) / step : 0, hi, i;

	hi = at < w ? (w - at + step - 1) / step : 0;
	lo = lo < n ? lo : n;
	hi = hi < n ? hi : n;
	hi = hi > lo ? hi : lo;
	for (i = 0; i < lo; i++)
		dst[i] = 0;
	if (step == 1)
		memcpy(dst + lo, x + at + lo, (size_t)(hi - lo) * sizeof(*dst));
	for (; step == 2 && at + 2 * (i + RLX_VL) <= w && i + RLX_VL <= hi; i += RLX_VL)
		vi_storeu(dst + i, vi_evens(x + at + 2 * i));
	for (; step > 1 && i < hi; i++)
		dst[i] = x[at + i * step];
	for (i = hi; i < n; i++)
		dst[i] = 0;
}

/* One phase of a channel. */
static void phase_pad(const struct rlx_k_conv_nd *a, float *dst, const float *x,
		      const size_t phase[3])
{
	ptrdiff_t at[3], s[3], in[3], z, y;
	size_t i, j;

	for (j = 0; j < 3; j++) {
		s[j] = a->transposed ? 1 : (ptrdiff_t)a->s[j];
		at[j] = (ptrdiff_t)(phase[j] * a->d[j]) % s[j] - (ptrdiff_t)a->before[j];
		in[j] = (ptrdiff_t)a->in[j];
	}
	for (i = 0; i < a->size[0] * a->size[1]; i++, dst += a->size[2]) {
		z = at[0] + (ptrdiff_t)(i / a->size[1]) * s[0];
		y = at[1] + (ptrdiff_t)(i % a->size[1]) * s[1];
		if (z < 0 || z >= in[0] || y < 0 || y >= in[1])
			memset(dst, 0, a->size[2] * sizeof(*dst));
		else
			row_pad(dst, x + (z * in[1] + y) * in[2], at[2], s[2], in[2],
				(ptrdiff_t)a->size[2]);
	}
}

void RLX_K(conv_nd_pad)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_nd *a = args;
	size_t size = a->size[0] * a->size[1] * a->size[2], p[3], i;

	(void)scratch;
	for (i = begin; i < end; i++) {
		const float *x = a->x + i / a->ic * a->x_n +
				 i % a->ic * a->in[0] * a->in[1] * a->in[2];
		float *dst = a->y + i * a->phases[0] * a->phases[1] * a->phases[2] * size;

		for (p[0] = 0; p[0] < a->phases[0]; p[0]++)
			for (p[1] = 0; p[1] < a->phases[1]; p[1]++)
				for (p[2] = 0; p[2] < a->phases[2]; p[2]++, dst += size)
					phase_pad(a, dst, x, p);
	}
}

/* Weights of @tile of group @g in one phase, channel by channel, tap by tap. */
static float *phase_pack(const struct rlx_k_conv_nd_pack *pk, float *d, size_t g, size_t tile,
			 const size_t phase[3])
{
	const struct rlx_k_conv_nd *a = pk->conv;
	size_t icg = a->ic / a->groups, ocg = a->oc / a->groups, ci, o, tap, q;
	size_t taps = a->k[0] * a->k[1] * a->k[2], stop = conv_tile_first(a, tile + 1);
	ptrdiff_t off;

	for (ci = 0; ci < icg; ci++)
		for (tap = 0; tap_next(a, phase, &tap, &off); tap += a->fold)
			for (o = conv_tile_first(a, tile); o < stop; o++)
				for (q = 0; q < a->fold; q++)
					*d++ = pk->src[(a->transposed ? (g * icg + ci) * ocg + o :
							(g * ocg + o) * icg + ci) * taps + tap + q];
	return d;
}

void RLX_K(conv_nd_pack)(const void *args, size_t begin, size_t end,
			 void *scratch)
{
	const struct rlx_k_conv_nd_pack *pk = args;
	const struct rlx_k_conv_nd *a = pk->conv;
	const size_t one[3] = { 1, 1, 1 }, *s = a->transposed ? a->s : one;
	size_t each = a->oc / a->groups * (a->ic / a->groups) * a->k[0] * a->k[1] * a->k[2];
	size_t g, i, p[3];

	(void)scratch;
	for (g = begin; g < end; g++) {
		float *d = pk->dst + g * each;

		for (i = 0; i < a->tiles; i++)
			for (p[0] = 0; p[0] < s[0]; p[0]++)
				for (p[1] = 0; p[1] < s[1]; p[1]++)
					for (p[2] = 0; p[2] < s[2]; p[2] += a->fold)
						d = phase_pack(pk, d, g, i, p);
	}
}
