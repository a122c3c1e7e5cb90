// SPDX-License-Identifier: MIT
/*
 * Resizing of f64 and of integers, whose sums truncate: in double, in the order of the op's
 * definition; built without contraction, so that every level truncates the same.
 */
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/resize.h"
#include "kernels/simd/vec.h"
#include "kernels/type.h"

rlx_k_fn RLX_K(resize_wide);

#define C	RLX_VLD

struct run {
	const struct rlx_k_resize	*a;
	rlx_convert_fn			*load, *store;
	size_t				 x_size, size;
	double				*sum, *part;	/* of input rows */
	double				*rows;		/* as doubles, input row i at place i % RLX_RESIZE_ROWS */
	const char			*held[RLX_RESIZE_ROWS];	/* of which each is */
	bool				partial;	/* outputs of axis 2 lie outside */
};

static ptrdiff_t tap_index(const struct rlx_k_resize_axis *a, size_t o, size_t t)
{
	return a->index ? a->index[o * a->taps + t] : (ptrdiff_t)o;
}

/* d = w s, or d += w s */
static void add(double *restrict d, const double *restrict s, double w, size_t n, bool first)
{
	if (first)
		for (size_t i = 0; i < n; i++)
			d[i] = w * s[i];
	else
		for (size_t i = 0; i < n; i++)
			d[i] += w * s[i];
}

static const double *input_row(struct run *r, const char *x, size_t at)
{
	const size_t n = r->a->axis[2].in, place = at % RLX_RESIZE_ROWS;
	double *row = r->rows + place * n;

	x += at * n * r->x_size;
	if (r->a->x_type == RLX_F64)
		return (const double *)x;
	if (r->held[place] != x)
		r->load(row, x, n);
	r->held[place] = x;
	return row;
}

/* Along axis 0, for output @o of it and input @at of axis 1. */
static const double *sum_outer(struct run *r, const char *x, size_t o, size_t at)
{
	const struct rlx_k_resize_axis *p = &r->a->axis[0], *q = &r->a->axis[1];
	const size_t n = r->a->axis[2].in;
	bool first = true;

	if (!p->wide)
		return input_row(r, x, (size_t)tap_index(p, o, 0) * q->in + at);
	for (size_t t = 0; t < p->taps; t++) {
		double w = p->wide[o * p->taps + t];

		add(r->part, input_row(r, x, (size_t)tap_index(p, o, t) * q->in + at), w, n, first);
		first = false;
	}
	return r->part;
}

/* Then along axis 1. */
static const double *sum_rows(struct run *r, const char *x, const size_t o[2])
{
	const struct rlx_k_resize_axis *q = &r->a->axis[1];
	const size_t n = r->a->axis[2].in;
	bool first = true;

	if (!q->wide)
		return sum_outer(r, x, o[0], (size_t)tap_index(q, o[1], 0));
	for (size_t t = 0; t < q->taps; t++) {
		double w = q->wide[o[1] * q->taps + t];

		add(r->sum, sum_outer(r, x, o[0], (size_t)tap_index(q, o[1], t)), w, n, first);
		first = false;
	}
	return r->sum;
}

typedef double pair __attribute__((vector_size(16), aligned(8), may_alias));

/* 0 + w[0] x[at[0]] + ... of each of n outputs, none of which lies outside */
static __attribute__((noinline)) void sum_some(const struct rlx_k_resize_axis *a,
					       double *restrict v, const double *x, size_t o,
					       size_t n)
{
	const double *w = a->wide + o * a->taps;
	const int32_t *at = a->index + o * a->taps;
	size_t i, t;

	if (a->taps == 2) {
		for (i = 0; i < n; i++, w += 2, at += 2) {
			const pair p = *(const pair *)w * (pair){ x[at[0]], x[at[1]] };

			v[i] = 0.0 + p[0] + p[1];
		}
		return;
	}
	if (a->taps == 4) {
		for (i = 0; i < n; i++, w += 4, at += 4) {
			const pair p = *(const pair *)w * (pair){ x[at[0]], x[at[1]] };
			const pair q = *(const pair *)(w + 2) * (pair){ x[at[2]], x[at[3]] };

			v[i] = 0.0 + p[0] + p[1] + q[0] + q[1];
		}
		return;
	}
	for (i = 0; i < n; i++, w += a->taps, at += a->taps)
		for (t = 0, v[i] = 0; t < a->taps; t++)
			v[i] += w[t] * x[at[t]];
}

#if RLX_VB > 16
/* The first @n of a vector or all of it: by a mask where that is as fast, else ends alone. */
RLX_INLINE vd load_some(const double *p, size_t n)
{
	return RLX_VB == 64 || n < C ? vd_loadn(p, n) : vd_loadu(p);
}

/* sum_some() by blocks from output @o, which begins one: the same sums, in its order. */
static void sum_blocks(const struct rlx_k_resize_axis *a, double *v, const double *x, size_t o,
		       size_t n)
{
	const struct rlx_resize_block *b = a->block + o / C;
	const double *at = (const double *)a->lane + 4 * o;

	for (size_t i = 0; i < n; i += C, b++, at += 4 * C) {
		const size_t left = a->in - (size_t)b->from;
		const double *from = x + b->from;
		vd lo, hi, p, q;

		if (!b->span) {
			sum_some(a, v + i, x, o + i, n - i < C ? n - i : C);
			continue;
		}
		lo = load_some(from, left);
		if (b->span <= C) {
			p = vd_permute(lo, (vl)vd_loadu(at));
			q = vd_permute(lo, (vl)vd_loadu(at + C));
		} else {
			hi = load_some(from + C, left - C);
			p = vd_permute2(lo, hi, (vl)vd_loadu(at));
			q = vd_permute2(lo, hi, (vl)vd_loadu(at + C));
		}
		vd_storeu(v + i, 0.0 + vd_loadu(at + 2 * C) * p + vd_loadu(at + 3 * C) * q);
	}
}
#else
static void sum_blocks(const struct rlx_k_resize_axis *a, double *v, const double *x, size_t o,
		       size_t n) { }
#endif

/* sum_some() where some may lie outside. */
static void sum_inside(const struct rlx_k_resize_axis *a, double *v, const double *x, size_t o,
		       size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (tap_index(a, o + i, 0) >= 0)
			sum_some(a, v + i, x, o + i, 1);
		else
			v[i] = 0;
}

/* At last along axis 2. */
static void sum_line(const struct run *r, const double *x, char *y)
{
	const struct rlx_k_resize_axis *a = &r->a->axis[2];
	double v[256];

	if (!a->wide) {
		r->store(y, x, a->out);
		return;
	}
	for (size_t o = 0; o < a->out; o += 256) {
		size_t n = a->out - o < 256 ? a->out - o : 256;

		(r->partial ? sum_inside : a->block ? sum_blocks : sum_some)(a, v, x, o, n);
		r->store(y + o * r->size, v, n);
		for (size_t i = 0; i < n && r->partial; i++)
			if (tap_index(a, o + i, 0) < 0)
				memcpy(y + (o + i) * r->size, &r->a->fill, r->size);
	}
}

/* Elements as they are, whatever a double may hold of them. */
static void pick_line(const struct run *r, const char *x, char *y)
{
	const struct rlx_k_resize_axis *a = &r->a->axis[2];

	for (size_t o = 0; o < a->out; o++, y += r->size) {
		ptrdiff_t at = tap_index(a, o, 0);

		memcpy(y, at < 0 ? (const char *)&r->a->fill : x + (size_t)at * r->size, r->size);
	}
}

void RLX_K(resize_wide)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_resize *a = args;
	const struct rlx_k_resize_axis *p = &a->axis[0], *q = &a->axis[1], *l = &a->axis[2];
	struct run r = {
		.a = a, .load = RLX_K(loader)(RLX_EW_F64, a->x_type),
		.store = RLX_K(storer)(RLX_EW_F64, a->type),
		.x_size = rlx_k_type_size((enum rlx_dtype)a->x_type),
		.size = rlx_k_type_size((enum rlx_dtype)a->type), .sum = scratch,
	};

	r.part = r.sum + l->in;
	r.rows = r.part + l->in;
	for (size_t o = 0; o < l->out && !r.partial; o++)
		r.partial = tap_index(l, o, 0) < 0;
	for (size_t u = begin; u < end; u++) {
		size_t o[2] = { u / q->out % p->out, u % q->out };
		ptrdiff_t z = tap_index(p, o[0], 0), v = tap_index(q, o[1], 0);
		const char *x = (const char *)a->x +
				u / q->out / p->out * p->in * q->in * l->in * r.x_size;
		char *y = (char *)a->y + u * l->out * r.size;

		if (z < 0 || v < 0)
			for (size_t i = 0; i < l->out; i++)
				memcpy(y + i * r.size, &a->fill, r.size);
		else if (a->nearest)
			pick_line(&r, x + ((size_t)z * q->in + (size_t)v) * l->in * r.size, y);
		else
			sum_line(&r, sum_rows(&r, x, o), y);
	}
}
