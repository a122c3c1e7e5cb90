// SPDX-License-Identifier: MIT
/* Lists of rotations, applied to rows a strip of columns at a time. */
#include "kernels/cpu/linalg_mat.h"

#ifndef RLX_V512
enum { STRIP = RLX_K_LINALG_STRIP, VECTORS = 8, WIDE = VECTORS * RLX_VLD };

struct shared {
	const struct strips	*s;
	const struct rotation	*list;
	int64_t			n;
	struct mat		q;
	const int64_t		*order;
	const double		*by;
};

/* To WIDE columns: the row that the next rotation wants again stays in registers. */
static void rotate(double *z, const struct rotation *list, int64_t n)
{
	vd held[VECTORS];
	double *p;

	p = z + (int64_t)list[0].stored * STRIP;
	RLX_UNROLL
	for (int i = 0; i < VECTORS; i++)
		held[i] = vd_loadu(p + i * RLX_VLD);
	for (int64_t l = 0; l < n; l++) {
		const struct rotation *r = list + l;
		double *to = z + (int64_t)r->stored * STRIP;
		const double *from = z + (int64_t)r->held * STRIP;
		const vd c = vd_set1(r->c), s = vd_set1(r->s);

		if (l && r[-1].held != r->stored) {
			p = z + (int64_t)r[-1].held * STRIP;
			RLX_UNROLL
			for (int i = 0; i < VECTORS; i++)
				vd_storeu(p + i * RLX_VLD, held[i]);
			RLX_UNROLL
			for (int i = 0; i < VECTORS; i++)
				held[i] = vd_loadu(to + i * RLX_VLD);
		}
		RLX_UNROLL
		for (int i = 0; i < VECTORS; i++) {
			vd x = vd_loadu(from + i * RLX_VLD);

			vd_storeu(to + i * RLX_VLD, c * held[i] + s * x);
			held[i] = c * x - s * held[i];
		}
	}
	p = z + (int64_t)list[n - 1].held * STRIP;
	RLX_UNROLL
	for (int i = 0; i < VECTORS; i++)
		vd_storeu(p + i * RLX_VLD, held[i]);
}

static void rotate_strips(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	const struct shared *h = ctx;

	(void)worker;
	for (; begin < end; begin++)
		for (int64_t i = 0; i < STRIP; i += WIDE)
			if ((int64_t)begin * STRIP + i < h->s->columns)
				rotate(h->s->p + (int64_t)begin * h->s->n * STRIP + i, h->list,
				       h->n);
}

void RLX_K(rotations_flush)(struct rotations *r, const struct strips *s,
			    const struct rlx_k_team *team)
{
	struct shared h = { .s = s, .list = r->list, .n = r->n };

	if (r->n)
		mat_share(team, rotate_strips, &h, (uint64_t)strips_count(s));
	r->n = 0;
}

static void from_rows(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	const struct shared *h = ctx;

	(void)worker;
	for (; begin < end; begin++) {
		int64_t at = (int64_t)begin * STRIP, rows = h->s->columns - at;
		struct mat z = { h->s->p + at * h->s->n, STRIP };

		if (rows < STRIP)
			memset(z.p, 0, (size_t)(h->s->n * STRIP) * sizeof(double));
		RLX_K(mat_transpose)(z, mat_at(h->q, at, 0), rows < STRIP ? rows : STRIP, h->s->n);
	}
}

void RLX_K(strips_from)(const struct strips *s, struct mat q, const struct rlx_k_team *team)
{
	struct shared h = { .s = s, .q = q };

	mat_share(team, from_rows, &h, (uint64_t)strips_count(s));
}

static void to_rows(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	const struct shared *h = ctx;

	(void)worker;
	for (; begin < end; begin++) {
		int64_t at = (int64_t)begin * STRIP, rows = h->s->columns - at;
		const double *z = h->s->p + at * h->s->n;

		for (int64_t r = 0; r < rows && r < STRIP; r++)
			for (int64_t i = 0; i < h->s->n; i++)
				h->q.p[(at + r) * h->q.ld + i] =
					h->by[i] * z[h->order[i] * STRIP + r];
	}
}

void RLX_K(strips_to)(const struct strips *s, struct mat out, const int64_t *order,
		      const double *by, const struct rlx_k_team *team)
{
	struct shared h = { .s = s, .q = out, .order = order, .by = by };

	mat_share(team, to_rows, &h, (uint64_t)strips_count(s));
}
#endif
