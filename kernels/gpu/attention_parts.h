/* SPDX-License-Identifier: MIT */
/*
 * Split-KV: what blocks came to that share out the keys of the same queries, in scratch, and how it
 * becomes the result.
 *
 * A part is, for each row, the largest score, the sum of weights, and the sums of weighted values.
 * A second pass merges parts in their order, so that results do not depend on timing.
 */
#ifndef RLX_G_ATTENTION_PARTS_H
#define RLX_G_ATTENTION_PARTS_H

#include "kernels/gpu/attention.h"

enum { PART_COLUMNS = 4 };	/* that a thread merges at a time, so that few loads wait */

/*
 * Columns column + j * step of a row, below @dim, out of parts: the largest score, sums of weights
 * and of weighted values.
 */
struct whole {
	float	max, sum, v[PART_COLUMNS];
	int	column, step, dim;

	DEV whole(int c, int by, int width)
		: max(-INFINITY), sum(0), v(), column(c), step(by), dim(width) {}

	/* A part with the largest score @of and the sums @s and, of columns, @from. */
	DEV void add(float of, float s, const float *from)
	{
		float by = of == -INFINITY ? 0 : fast_exp2((of - max) * 1.44269504f);

		sum += by * s;
#pragma unroll
		for (int j = 0; j < PART_COLUMNS; j++)
			if (column + j * step < dim)
				v[j] += by * from[column + j * step];
	}
};

/* Threads of a row of @dim columns. */
static DEV inline int part_threads(int dim)
{
	return (dim + PART_COLUMNS - 1) / PART_COLUMNS;
}

/* Floats of a row of a part: the largest score, the sum of weights, values. */
static DEV inline int part_row(const struct rlx_k_attention &a)
{
	return (int)a.v_dim + 2;
}

/* As a part's row, at @to. */
static DEV inline void leave_row(float *to, const struct whole &x)
{
	if (!x.column) {
		to[0] = x.max;
		to[1] = x.sum;
	}
#pragma unroll
	for (int j = 0; j < PART_COLUMNS; j++)
		if (x.column + j * x.step < x.dim)
			to[2 + x.column + j * x.step] = x.v[j];
}

/* A row that stands at @p in the first of @n parts, @each floats apart. */
static DEV inline void merge_row(struct whole *x, const float *p, int64_t each, int n)
{
#pragma unroll 8
	for (int s = 0; s < n; s++)
		x->max = fmaxf(x->max, p[s * each]);
#pragma unroll 4
	for (int s = 0; s < n; s++)
		x->add(p[s * each], p[s * each + 1], p + s * each + 2);
}

/* To the query of row, head and number @at. */
static DEV inline void store_whole(const struct rlx_k_attention &a, const struct rlx_g_env &env,
				   const int64_t (&at)[3], const struct whole &x)
{
	int64_t to = at[0] * a.out_stride[0] + at[1] * a.out_stride[1] + at[2] * a.out_stride[2];
	float *lse = RLX_G_PTR(float, a.lse), by = x.sum != 0 ? 1 / x.sum : 0;

#pragma unroll
	for (int j = 0; j < PART_COLUMNS; j++)
		if (x.column + j * x.step < x.dim)
			store_float(RLX_G_PTR(void, a.out), to + x.column + j * x.step,
				    a.out_type, x.v[j] * by);
	if (lse && !x.column)
		lse[(at[0] * a.heads + at[1]) * a.q_len + at[2]] = x.sum != 0 ?
			x.max + logf(x.sum) : -INFINITY;
}

#endif
