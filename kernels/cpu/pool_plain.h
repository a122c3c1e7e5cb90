/* SPDX-License-Identifier: MIT */
/*
 * Pooling in the plain layout: lanes are columns of the output.
 *
 * A window's rows are folded down into one row, a vector of columns at a time, between columns
 * of padding that stay; then its taps are folded along that. With a stride the row's columns
 * are first deinterleaved into its phases, which puts the same tap of
 * neighbouring outputs side by side.
 *
 * The includer defines PT, the type of elements, PT_LANE, an integer as wide, and of PT:
 * PT_MAX(a, b), PT_ABS(x) and PT_SQRT(x) of vectors; where it is an integer, which has maxima
 * alone, only PT_LEAST, its least value.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/pool_taps.h"
#include "kernels/pool_layout.h"
#include "kernels/simd/vec.h"

#ifdef PT_LEAST
#define PT_NAN(x)	false
#define PT_KIND(a)	RLX_K_POOL_MAX
#define PT_MAX(a, b)	pv_greater(a, b)
#else
#define PT_FLOAT	1
#define PT_LEAST	(-INFINITY)
#define PT_NAN(x)	((x) != (x))
#define PT_KIND(a)	((a)->kind)
#endif

enum { PT_LANES = RLX_VB / sizeof(PT), GROUP = 4 };

typedef PT pv __attribute__((vector_size(RLX_VB)));
typedef PT_LANE pt_lanes __attribute__((vector_size(RLX_VB)));
typedef PT pv_u __attribute__((vector_size(RLX_VB), aligned(sizeof(PT)), may_alias));

RLX_INLINE pv pv_loadu(const PT *p) { return *(const pv_u *)p; }
RLX_INLINE void pv_storeu(PT *p, pv x) { *(pv_u *)p = x; }
#ifndef PT_FLOAT
RLX_INLINE pv pv_greater(pv a, pv b)
{
	pv first = (pv)(a > b);

	return (a & first) | (b & ~first);
}
#endif

/* One output row: the window's outer taps, and where the row lies. */
struct row {
	const struct rlx_k_pool *a;
	const PT	*x;		/* the plane */
	PT		*y;
	ptrdiff_t	at[2];		/* window start in depth and height */
	size_t		span[2][2];	/* taps inside, likewise */
	size_t		counted[2];	/* their number as the average counts */
	PT		*down, *polyphase;	/* where it is folded: see struct fold */
};

/* A call: the memory it folds in, and the taps along a row as places there. */
struct fold {
	const struct rlx_k_pool *a;
	struct rlx_k_pool_layout l;
	size_t		*off;		/* of each tap from the first */
	PT		*down;		/* of each row the window's in one, with its padding */
	PT		*polyphase;	/* their columns by phase; @down where the stride is 1 */
	PT		*rows;		/* with indices: the window's rows, by phase, @step apart */
	size_t		step;
	PT		*counts;	/* columns' taps as the average counts them */
	PT		*of, *by;	/* the taps of windows whose rows are @counted, and 1 by them */
	size_t		counted;
	size_t		first, n;	/* the columns of @down that are the input's */
	const PT	*x_end;		/* nothing is read from here on */
	PT		*y_end;		/* nothing is written from here on */
	pt_lanes	edge;		/* the lanes of a row's last vector, if it is not full */
};

RLX_INLINE pv fold_two(pv a, pv b, const bool max)
{
	return max ? PT_MAX(a, b) : a + b;
}

/* Stores what of @v lies before @end. */
RLX_INLINE void store_upto(PT *y, pv v, const PT *end)
{
	if (y + PT_LANES <= end)
		pv_storeu(y, v);
	else if (y < end)
		memcpy(y, &v, (size_t)(end - y) * sizeof(PT));
}

#ifdef PT_FLOAT
/*
 * v / c by @by, 1 / c, with the quotient's rounding put right unless that is infinite or NaN:
 * of numbers that are, or of the largest, which a quotient rounded up gives back as more. That
 * takes a product that is not rounded.
 */
RLX_INLINE pv mean_of(pv v, pv c, pv by)
{
#ifndef RLX_HAS_FMA
	(void)by;
	return v / c;
#else
	pv q = v * by, rest = PT_FNMA(q, c, v), y = PT_FMA(rest, by, q);
	__typeof__(q == q) good = rest - rest == (pv){ 0 };

	return (pv)(((__typeof__(good))y & good) | ((__typeof__(good))q & ~good));
#endif
}
#endif

/* What the sum of a window comes to; a maximum is none. */
enum finish { MAXIMUM, AS_IT_IS, MEAN, ROOT };

RLX_INLINE pv finish(pv v, const PT *c, const PT *by, const enum finish how)
{
#ifdef PT_FLOAT
	if (how == MEAN)
		return mean_of(v, pv_loadu(c), pv_loadu(by));
	if (how == ROOT)
		return PT_SQRT(v);
#endif
	(void)c, (void)by, (void)how;
	return v;
}

#ifdef PT_FLOAT
/* A norm below @least may lack squares that were lost; of elements below @tiny all are. */
static const PT least = sizeof(PT) == 8 ? (PT)0x1p-400 : (PT)0x1p-40;
static const PT tiny = sizeof(PT) == 8 ? (PT)0x1p-500 : (PT)0x1p-60;

/* Of numbers from 0 on the bits are in their order, and so are those of infinity and NaN. */
RLX_INLINE pt_lanes bits_of(PT x)
{
	return (pt_lanes)((pv){ 0 } + x);
}

/* Negative where @v is below @low */
RLX_INLINE pt_lanes below(pv v, PT low)
{
	return (pt_lanes)v - bits_of(low);
}

/* Negative where @v is infinite or NaN, whose difference from itself is a NaN of either sign */
RLX_INLINE pt_lanes beyond(pv v)
{
	return (pt_lanes)(v - v) << 1;
}

RLX_INLINE bool any_negative(pt_lanes v)
{
	uint64_t part[RLX_VB / 8], all = 0;
	size_t i;

	memcpy(part, &v, sizeof(v));
	for (i = 0; i < RLX_VB / 8; i++)
		all |= part[i];
	return all & (sizeof(PT) == 8 ? 0x8000000000000000 : 0x8000000080000000);
}
#endif

/*
 * @n vectors from column @i on. Of roots lanes of @lossy become negative where a sum may lack
 * squares or be beyond PT: seen here, where it is in a register.
 */
RLX_INLINE void fold_vectors(const struct fold *f, const struct row *r, size_t i, const size_t n,
			     const enum finish how, pt_lanes *lossy)
{
	pv acc[GROUP];
	size_t t, j;

	RLX_UNROLL
	for (j = 0; j < n; j++)
		acc[j] = pv_loadu(r->polyphase + i + j * PT_LANES);
	for (t = 1; t < f->a->k[2]; t++) {
		const PT *from = r->polyphase + i + f->off[t];

		RLX_UNROLL
		for (j = 0; j < n; j++)
			acc[j] = fold_two(acc[j], pv_loadu(from + j * PT_LANES), how == MAXIMUM);
	}
#ifdef PT_FLOAT
	RLX_UNROLL
	for (j = 0; how == ROOT && j < n; j++) {
		pt_lanes bad = below(acc[j], least * least) | beyond(acc[j]);

		*lossy |= i + (j + 1) * PT_LANES <= f->a->out[2] ? bad : bad & f->edge;
	}
#endif
	RLX_UNROLL
	for (j = 0; j < n; j++)
		store_upto(r->y + i + j * PT_LANES,
			   finish(acc[j], f->of + i + j * PT_LANES, f->by + i + j * PT_LANES,
				  how), f->y_end);
}

/* A row of the output; what follows it is overwritten, if it is before the end. */
RLX_INLINE pt_lanes fold_row(const struct fold *f, const struct row *r, const enum finish how)
{
	size_t i = 0, n = f->a->out[2];
	pt_lanes lossy = { 0 };

	/* roots by two: they have a check each, and more at once is more code than it gains */
	for (; how != ROOT && i + GROUP * PT_LANES <= n; i += GROUP * PT_LANES)
		fold_vectors(f, r, i, GROUP, how, &lossy);
	for (; i + PT_LANES < n; i += 2 * PT_LANES)
		fold_vectors(f, r, i, 2, how, &lossy);
	if (i < n)
		fold_vectors(f, r, i, 1, how, &lossy);
	return lossy;
}

/* What an element adds: itself, or for the 1- and the 2-norm. */
RLX_INLINE pv term(pv x, const unsigned int lp)
{
#ifdef PT_FLOAT
	return lp == 1 ? PT_ABS(x) : lp ? x * x : x;
#else
	(void)lp;
	return x;
#endif
}

/* The vector at @x; with @end what of it lies behind that is 0. */
RLX_INLINE pv column(const PT *x, const PT *end)
{
	pv v = { 0 };

	if (!end || x + PT_LANES <= end)
		return pv_loadu(x);
	memcpy(&v, x, (size_t)(end - x) * sizeof(*x));
	return v;
}

/* How columns are folded: terms, and max or sum. With @end a vector may lie over that. */
struct fold_by {
	const PT	*end;
	unsigned int	lp;
	bool		max;
};

/* A box of input rows: how many in depth and height, and how far apart. */
struct rows {
	const PT	*x;
	size_t		n[2], step[2];
};

/*
 * @n vectors of columns of @r from column @i on, folded into @y. None begins behind column
 * @last: those that would lie over it.
 */
RLX_INLINE void fold_columns(const struct rows *r, PT *y, size_t i, size_t last, const size_t n,
			     const struct fold_by by)
{
	size_t at[GROUP], z, v, j;
	pv acc[GROUP];

	RLX_UNROLL
	for (j = 0; j < n; j++) {
		at[j] = i + j * PT_LANES < last ? i + j * PT_LANES : last;
		acc[j] = term(column(r->x + at[j], by.end), by.lp);
	}
	for (z = 0; z < r->n[0]; z++)
		for (v = z ? 0 : 1; v < r->n[1]; v++) {
			const PT *x = r->x + z * r->step[0] + v * r->step[1];

			RLX_UNROLL
			for (j = 0; j < n; j++)
				acc[j] = fold_two(acc[j], term(column(x + at[j], by.end), by.lp),
						  by.max);
		}
	RLX_UNROLL
	for (j = 0; j < n; j++)
		pv_storeu(y + at[j], acc[j]);
}

/* y[0, n) of all rows; fewer than a vector's columns are read and written beyond them. */
RLX_INLINE void fold_rows(const struct fold *f, const struct rows *r, PT *y, size_t n,
			  const struct fold_by by)
{
	size_t i, last = n - PT_LANES;

	if (n <= PT_LANES) {
		fold_columns(r, y, 0, 0, 1, (struct fold_by){ f->x_end, by.lp, by.max });
		return;
	}
	for (i = 0; i + 2 * PT_LANES < n; i += GROUP * PT_LANES)
		fold_columns(r, y, i, last, GROUP, by);
	if (i < n)
		fold_columns(r, y, i, last, 2, by);
}

static void fill(PT *y, size_t n, PT v)
{
	for (size_t i = 0; i < n; i++)
		y[i] = v;
}

/* What a tap in the padding is. */
RLX_INLINE PT nothing(const struct fold *f)
{
	return PT_KIND(f->a) == RLX_K_POOL_MAX ? PT_LEAST : 0;
}

/* The window's rows folded into one. */
static void fold_down(const struct fold *f, const struct row *r)
{
	const struct rlx_k_pool *a = f->a;
	struct rows rows = {
		.n = { r->span[0][1] - r->span[0][0], r->span[1][1] - r->span[1][0] },
		.step = { a->d[0] * a->in[1] * a->in[2], a->d[1] * a->in[2] },
	};
	PT *y = r->down + f->first;

	if (!f->n)
		return;
	if (!rows.n[0] || !rows.n[1]) {
		fill(y, f->n, nothing(f));
		return;
	}
	rows.x = r->x + (((size_t)r->at[0] + r->span[0][0] * a->d[0]) * a->in[1] +
			 (size_t)r->at[1] + r->span[1][0] * a->d[1]) * a->in[2] +
		 f->first - a->p[2];
	if (PT_KIND(a) == RLX_K_POOL_MAX)
		fold_rows(f, &rows, y, f->n, (struct fold_by){ NULL, 0, true });
	else if (PT_KIND(a) == RLX_K_POOL_AVG)
		fold_rows(f, &rows, y, f->n, (struct fold_by){ NULL, 0, false });
	else if (a->lp == 1)
		fold_rows(f, &rows, y, f->n, (struct fold_by){ NULL, 1, false });
	else
		fold_rows(f, &rows, y, f->n, (struct fold_by){ NULL, 2, false });
	if (f->n < PT_LANES)
		fill(y + f->n, f->l.width - f->first - f->n, nothing(f));
}

/* @n pairs of columns. */
RLX_INLINE void deinterleave_two(PT *restrict even, PT *restrict odd, const PT *restrict x,
				 size_t n)
{
	for (size_t i = 0; i < n; i++) {
		even[i] = x[2 * i];
		odd[i] = x[2 * i + 1];
	}
}

static void deinterleave(const struct fold *f, const PT *restrict x, PT *restrict y)
{
	size_t s = f->l.phases, n = f->l.width, group = f->l.group, i, k;

	if (s == 2) {
		deinterleave_two(y, y + group, x, (n + 1) / 2);
		return;
	}
	for (i = k = 0; k + s <= n; i++, k += s)
		for (size_t c = 0; c < s; c++)
			y[c * group + i] = x[k + c];
	for (size_t c = 0; k + c < n; c++)
		y[c * group + i] = x[k + c];
}

/* Columns' taps as the average counts them; a window of padding alone has 1, of zeros. */
static void count_columns(const struct fold *f)
{
	const struct rlx_k_pool *a = f->a;
	size_t i, span[2], n;

	for (i = 0; i < a->out[2]; i++) {
		taps_inside((ptrdiff_t)(i * a->s[2]) - (ptrdiff_t)a->p[2], a->k[2], a->d[2],
			    a->in[2] + (a->include_pad ? a->p_end[2] : 0), span);
		n = a->include_pad ? span[1] : span[1] - span[0];
		f->counts[i] = (PT)(n ? n : 1);
	}
	fill(f->counts + i, RLX_K_POOL_SLACK, 1);
}

/* What a row's windows are divided by; most rows have the count of the row before. */
static void count_row(struct fold *f, size_t n)
{
	size_t i;

	n = n ? n : 1;
	if (f->counted == n)
		return;
	f->counted = n;
	for (i = 0; i < f->a->out[2] + RLX_K_POOL_SLACK; i++) {
		f->of[i] = f->counts[i] * (PT)n;
		f->by[i] = 1 / f->of[i];
	}
}

/* The plane's element @at, as the caller counts them. */
static int64_t index_of(const struct rlx_k_pool *a, int64_t at)
{
	const int64_t h = (int64_t)a->in[1], w = (int64_t)a->in[2], line = at / w;

	return a->column_major ? (at % w * h + line % h) * (int64_t)a->in[0] + line / h : at;
}

/* What comes of a tap of one output: @x, the plane's element @at. */
typedef void tap_fn(void *of, size_t at, PT x);

/* Which of the plane's rows tap @z, @v of the window reads. */
RLX_INLINE size_t line_of(const struct row *r, size_t z, size_t v)
{
	return ((size_t)r->at[0] + z * r->a->d[0]) * r->a->in[1] +
	       (size_t)r->at[1] + v * r->a->d[1];
}

RLX_INLINE void each_tap(const struct row *r, size_t i, tap_fn *fn, void *of)
{
	const struct rlx_k_pool *a = r->a;
	ptrdiff_t from = (ptrdiff_t)(i * a->s[2]) - (ptrdiff_t)a->p[2];
	size_t z, v, t, line, at, span[2];

	taps_inside(from, a->k[2], a->d[2], a->in[2], span);
	for (z = r->span[0][0]; z < r->span[0][1]; z++)
		for (v = r->span[1][0]; v < r->span[1][1]; v++) {
			line = line_of(r, z, v) * a->in[2];
			for (t = span[0]; t < span[1]; t++) {
				at = line + (size_t)(from + (ptrdiff_t)(t * a->d[2]));
				fn(of, at, r->x[at]);
			}
		}
}

#include "kernels/cpu/pool_argmax.h"

#ifdef PT_FLOAT
struct norm {
	double	lp, top, sum;
};

RLX_INLINE void tap_top(void *of, size_t at, PT x)
{
	struct norm *n = of;
	double v = fabs((double)x);

	(void)at;
	n->top = v > n->top || v != v ? v : n->top;
}

RLX_INLINE void tap_power(void *of, size_t at, PT x)
{
	struct norm *n = of;

	(void)at;
	n->sum += pow(fabs((double)x) / n->top, n->lp);
}

/* By the largest magnitude: powers may be beyond what floats have where their root is not. */
static PT norm_of(const struct row *r, size_t i)
{
	struct norm n = { r->a->lp, 0, 0 };

	each_tap(r, i, tap_top, &n);
	if (!(n.top > 0) || n.top == INFINITY)
		return (PT)n.top;
	each_tap(r, i, tap_power, &n);
	return (PT)(n.top * pow(n.sum, 1.0 / n.lp));
}

/* Norms above the second, pixel by pixel. */
static void row_norm(const struct row *r)
{
	size_t i;

	for (i = 0; i < r->a->out[2]; i++)
		r->y[i] = norm_of(r, i);
}

/* Is any of @n numbers below @low, but for 0, or with @large infinite or NaN? */
static __attribute__((noinline)) bool any_odd(const PT *x, size_t n, PT low, bool large)
{
	pt_lanes any = { 0 };
	size_t i;

	for (i = 0; i < n; i += PT_LANES) {
		pv v = { 0 };

		if (n < PT_LANES)
			memcpy(&v, x, n * sizeof(*x));
		else	/* the last one over what lies before it */
			v = pv_loadu(x + (n - i < PT_LANES ? n - PT_LANES : i));
		v = PT_ABS(v);
		any |= (below(v, low) & -(pt_lanes)v) | (beyond(v) & -(PT_LANE)large);
	}
	return any_negative(any);
}

/*
 * Folded norms again, of whose squares some may have been beyond PT, or lost below it. Where
 * nothing is so small but 0, so is what is of norm 0.
 */
static void mend_norms(const struct row *r)
{
	bool small = false;
	size_t z, v, i;

	for (z = r->span[0][0]; z < r->span[0][1]; z++)
		for (v = r->span[1][0]; v < r->span[1][1]; v++)
			small |= any_odd(r->x + line_of(r, z, v) * r->a->in[2], r->a->in[2], tiny,
					 false);
	if (!small && !any_odd(r->y, r->a->out[2], least, true))
		return;
	for (i = 0; i < r->a->out[2]; i++)
		if ((r->y[i] < least && (small || r->y[i] != 0)) || r->y[i] == INFINITY)
			r->y[i] = norm_of(r, i);
}
#endif

static void fold_along(struct fold *f, const struct row *r)
{
	if (PT_KIND(f->a) == RLX_K_POOL_AVG)
		count_row(f, r->counted[0] * r->counted[1]);
	if (PT_KIND(f->a) == RLX_K_POOL_MAX)
		fold_row(f, r, MAXIMUM);
	else if (PT_KIND(f->a) == RLX_K_POOL_AVG)
		fold_row(f, r, MEAN);
	else if (f->a->lp == 1)
		fold_row(f, r, AS_IT_IS);
#ifdef PT_FLOAT
	else if (any_negative(fold_row(f, r, ROOT)))
		mend_norms(r);
#endif
}

/* Along depth (@j 0) or height: which of the window's taps output @o has. */
static void outer_taps(struct row *r, size_t j, size_t o)
{
	const struct rlx_k_pool *a = r->a;
	size_t pad[2];

	r->at[j] = (ptrdiff_t)(o * a->s[j]) - (ptrdiff_t)a->p[j];
	taps_inside(r->at[j], a->k[j], a->d[j], a->in[j], r->span[j]);
	r->counted[j] = r->span[j][1] - r->span[j][0];
	if (PT_KIND(a) != RLX_K_POOL_AVG || !a->include_pad)
		return;
	taps_inside(r->at[j], a->k[j], a->d[j], a->in[j] + a->p_end[j], pad);
	r->counted[j] = pad[1];
}

/* Rows that are not folded; false: they are. */
static bool row_alone(const struct fold *f, const struct row *r)
{
	const struct rlx_k_pool *a = r->a;

	if (a->index && PT_KIND(a) == RLX_K_POOL_MAX) {
		row_index(f, r, a->index + (r->y - (PT *)a->y), r->x - (const PT *)a->x);
		return true;
	}
#ifdef PT_FLOAT
	if (PT_KIND(a) == RLX_K_POOL_LP && a->lp > 2) {
		row_norm(r);
		return true;
	}
#endif
	return false;
}

/* Each step of all rows in turn: a load waits long for parts of two stores just made. */
static void rows_run(struct fold *f, struct row *r, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		fold_down(f, r + i);
	for (i = 0; f->l.phases > 1 && i < n; i++)
		deinterleave(f, r[i].down, r[i].polyphase);
	for (i = 0; i < n; i++)
		fold_along(f, r + i);
}

/* Where the call folds, in @scratch, and what of that stays as it is. */
static void fold_init(struct fold *f, void *scratch)
{
	const struct rlx_k_pool *a = f->a;
	const struct rlx_k_pool_layout l = f->l = rlx_k_pool_layout(a);
	size_t t, x;

	f->off = scratch;
	f->down = (PT *)(f->off + a->k[2]);
	f->polyphase = l.phases > 1 ? f->down + l.rows * l.down_step : f->down;
	f->counts = f->down + l.rows * (l.down_step + l.polyphase_step);
	f->of = f->counts + a->out[2] + RLX_K_POOL_SLACK;
	f->by = f->of + a->out[2] + RLX_K_POOL_SLACK;
	f->rows = (PT *)((char *)scratch + rlx_k_pool_fold_bytes(a, sizeof(PT)));
	f->step = rlx_k_pool_row_step(a);
	for (t = 0; t < a->k[2]; t++) {
		x = t * a->d[2];
		f->off[t] = x % l.phases * l.group + x / l.phases;
	}
	memset(&f->edge, 0xff, a->out[2] % PT_LANES * sizeof(PT));
	f->first = a->p[2] < l.width ? a->p[2] : l.width;
	f->n = l.width - f->first < a->in[2] ? l.width - f->first : a->in[2];
	fill(f->down, l.rows * l.down_step, nothing(f));
	if (PT_KIND(a) == RLX_K_POOL_AVG)
		count_columns(f);
}

static void pool_plain(const struct rlx_k_pool *a, size_t begin, size_t end, void *scratch)
{
	size_t rows = a->out[0] * a->out[1], plane = a->in[0] * a->in[1] * a->in[2], u, n;
	size_t o[2] = { begin % rows / a->out[1], begin % a->out[1] };
	const PT *x = (const PT *)a->x + begin / rows * plane;
	struct fold f = {
		.a = a, .x_end = (const PT *)a->x + a->planes * plane,
		.y_end = (PT *)a->y + end * a->out[2],
	};
	struct row r[RLX_K_POOL_ROWS];

	fold_init(&f, scratch);
	for (u = begin, n = 0; u < end; u++) {
		r[n].a = a;
		r[n].x = x;
		r[n].y = (PT *)a->y + u * a->out[2];
		r[n].down = f.down + n * f.l.down_step;
		r[n].polyphase = f.polyphase + n * f.l.polyphase_step;
		outer_taps(&r[n], 0, o[0]);
		outer_taps(&r[n], 1, o[1]);
		if (!row_alone(&f, &r[n]) && ++n == f.l.rows) {
			rows_run(&f, r, n);
			n = 0;
		}
		if (++o[1] < a->out[1])
			continue;
		o[1] = 0;
		if (++o[0] < a->out[0])
			continue;
		o[0] = 0;
		x += plane;
	}
	rows_run(&f, r, n);
}
