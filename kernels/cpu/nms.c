// SPDX-License-Identifier: MIT
/* Suppression of boxes, a class at a time, as the evaluator computes it, in double. */
#include "kernels/cpu/convert.h"
#include "kernels/nms.h"

rlx_k_fn RLX_K(nms);

/* Corners, the smaller first, and what lies between. */
struct corners {
	double	y0, x0, y1, x1, area;
};

/* fmin() and fmax(): of a number and a NaN the number */
static double least(double a, double b)
{
	return a < b || b != b ? a : b;
}

static double most(double a, double b)
{
	return a > b || b != b ? a : b;
}

static struct corners corners_of(const struct rlx_k_nms *a, int64_t batch, int64_t box)
{
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->box_type);
	struct corners c;
	double v[4];

	RLX_K(loader)(RLX_EW_F64, a->box_type)(v, (const char *)a->boxes +
					       (size_t)(batch * a->n + box) * 4 * size, 4);
	if (a->center)
		c = (struct corners){ v[0] - v[2] / 2, v[1] - v[3] / 2,
				      v[0] + v[2] / 2, v[1] + v[3] / 2, 0 };
	else
		c = (struct corners){ least(v[0], v[2]), least(v[1], v[3]),
				      most(v[0], v[2]), most(v[1], v[3]), 0 };
	c.area = (c.y1 - c.y0) * (c.x1 - c.x0);
	return c;
}

static bool overlap(const struct corners *p, const struct corners *r, double iou)
{
	double h = least(p->y1, r->y1) - most(p->y0, r->y0);
	double w = least(p->x1, r->x1) - most(p->x0, r->x0), both, all;

	if (!(h > 0) || !(w > 0))
		return false;
	both = h * w;
	all = p->area + r->area - both;
	return all > 0 && both / all > iou;
}

static double score_of(const struct rlx_k_nms *a, int64_t at)
{
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->score_type);
	double v;

	RLX_K(loader)(RLX_EW_F64, a->score_type)(&v, (const char *)a->scores + (size_t)at * size,
						 1);
	return v;
}

/* The kept ones of a class, in front of its order; their number. */
static int64_t keep(const struct rlx_k_nms *a, int64_t line, struct corners *c)
{
	int64_t *order = a->order + line * a->n, kept = 0, j;

	for (int64_t i = 0; i < a->n && kept < a->most; i++) {
		int64_t box = order[i];

		if (a->use_score && !(score_of(a, line * a->n + box) > a->score))
			continue;
		c[kept] = corners_of(a, line / a->classes, box);
		for (j = 0; j < kept && !overlap(&c[j], &c[kept], a->iou); j++)
			;
		if (j == kept)
			order[kept++] = box;
	}
	return kept;
}

static void write_kept(const struct rlx_k_nms *a)
{
	const int64_t lines = a->batch * a->classes;
	int64_t all = 0, *out = a->out;

	for (int64_t l = 0; l < lines; l++)
		all += a->kept[l];
	if (a->only_count) {
		*out = all;
		return;
	}
	if (all != a->count) {
		__atomic_store_n(a->bad, 1, __ATOMIC_RELAXED);
		return;
	}
	for (int64_t l = 0; l < lines; l++)
		for (int64_t i = 0; i < a->kept[l]; i++, out += 3) {
			out[0] = l / a->classes;
			out[1] = l % a->classes;
			out[2] = a->order[l * a->n + i];
		}
}

void RLX_K(nms)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_nms *a = args;

	for (size_t u = begin; u < end; u++)
		if (a->out)
			write_kept(a);
		else
			a->kept[u] = keep(a, (int64_t)u, scratch);
}
