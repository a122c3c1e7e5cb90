/* SPDX-License-Identifier: MIT */
/* What the kernels of linear algebra share: products, reflections and rotations in double. */
#ifndef RLX_CPU_LINALG_MAT_H
#define RLX_CPU_LINALG_MAT_H

#include "kernels/cpu/convert.h"
#include "kernels/linalg.h"
#include "kernels/simd/vec.h"

/* Some matrix in memory, row by row. */
struct mat {
	double	*p;
	int64_t	ld;
};

static inline struct mat mat_at(struct mat m, int64_t i, int64_t j)
{
	return (struct mat){ m.p + i * m.ld + j, m.ld };
}

typedef void mat_part_fn(void *ctx, uint64_t begin, uint64_t end, unsigned int worker);

/* Units of @fn by the team, or in place. */
static inline void mat_share(const struct rlx_k_team *team, mat_part_fn *fn, void *ctx,
			     uint64_t units)
{
	if (team && units > 1)
		team->run(team->pool, fn, ctx, units);
	else if (units)
		fn(ctx, 0, units, 0);
}

/* c[m][n] -= a[m][k] b[k][n] */
void RLX_K(mat_minus)(struct mat c, struct mat a, struct mat b, int64_t m, int64_t n, int64_t k);
/* y[n][m] = x[m][n]' */
void RLX_K(mat_transpose)(struct mat y, struct mat x, int64_t m, int64_t n);
/* Multiply @n numbers by @f. */
void RLX_K(mat_scale)(double *x, double f, size_t n);
/*
 * What brings the largest of @n numbers near 1 where squares of them would leave the range of
 * doubles, else 1; a power of 2. 0: one of them is no number, or infinite.
 */
double RLX_K(mat_scale_of)(const double *x, size_t n);

/*
 * Householder's reflections H_j = I - tau_j v_j v_j', j < k, of rows [j, m), where v_j is 1 at
 * row j, in blocks of 32 columns, which RLX_K(reflect_block) gives.
 */
struct reflections {
	double	*v, *tau, *transposed, *t;
	int64_t	m, k;
};

/* In memory of rlx_k_linalg_reflections() doubles */
static inline struct reflections reflections_at(double *p, int64_t m, int64_t k)
{
	const int64_t b = RLX_K_LINALG_BLOCK;
	struct reflections r = { .v = p, .m = m, .k = k };

	r.transposed = p + (k + b - 1) / b * m * b;
	r.tau = r.transposed + m * b;
	r.t = r.tau + k;
	return r;
}

/* Rows [j, m) of the block that begins at column j */
static inline struct mat reflect_block(const struct reflections *r, int64_t j)
{
	const int64_t b = RLX_K_LINALG_BLOCK;

	return (struct mat){ r->v + j / b * r->m * b, b };
}

/* Row j of reflection @j, and others of it 32 behind each other */
static inline double *reflect_column(const struct reflections *r, int64_t j)
{
	const int64_t b = RLX_K_LINALG_BLOCK;

	return reflect_block(r, j).p + j % b * (b + 1);
}

/* For who fills in columns from their first rows on */
static inline void reflections_clear(const struct reflections *r)
{
	memset(r->v, 0, (size_t)(r->transposed - r->v) * sizeof(double));
}

/* Of less than this squares have lost digits: what has it counts as 0, beside what is near 1. */
#define MAT_LEAST	0x1p-450

/*
 * H = I - tau v v', v_0 = 1, of H x = beta e_0, where x begins with @first and @rest is the sum of
 * the squares of the others: they times @by are v's. Return: tau, 0 where nothing is left to do.
 */
static inline double reflect_make(double first, double rest, double *beta, double *by)
{
	double norm = sqrt(first * first + rest);

	*beta = first;
	*by = 0;
	if (rest < MAT_LEAST * MAT_LEAST)
		return 0;
	*beta = first < 0 ? norm : -norm;
	*by = 1 / (first - *beta);
	return (*beta - first) / *beta;
}

/*
 * c[m - j][n], which begins at row j, times the block at column j of r: by H_j H_j+1 .. or
 * @transposed, by .. H_j+1 H_j.
 */
void RLX_K(reflect_by)(const struct reflections *r, int64_t j, bool transposed, struct mat c,
		       int64_t n, const struct rlx_k_team *team);
/* q[m][n] = H_0 H_1 .. H_k-1, the first n columns, n <= m */
void RLX_K(reflect_form)(const struct reflections *r, struct mat q, int64_t n,
			 const struct rlx_k_team *team);

/* Rows in strips of 32 columns: row i of strip s begins at p + (s n + i) 32. */
struct strips {
	double	*p;
	int64_t	n, columns;
};

static inline int64_t strips_count(const struct strips *s)
{
	return (s->columns + RLX_K_LINALG_STRIP - 1) / RLX_K_LINALG_STRIP;
}

/* by[n] = 1, or -1 where that makes a column of what strips_to() gives positive, see linalg.h */
static inline void strips_signs(const struct strips *s, double *by)
{
	for (int64_t i = 0; i < s->n; i++) {
		double most = 0;

		for (int64_t c = 0; c < s->columns; c++)
			most = rlx_k_linalg_largest(most, s->p[(c / RLX_K_LINALG_STRIP * s->n + i) *
							       RLX_K_LINALG_STRIP +
							       c % RLX_K_LINALG_STRIP]);
		by[i] = most < 0 ? -1 : 1;
	}
}

/* s = q[columns][n]' and back to out[columns][n]: column i is row order[i] of s times by[i] */
void RLX_K(strips_from)(const struct strips *s, struct mat q, const struct rlx_k_team *team);
void RLX_K(strips_to)(const struct strips *s, struct mat out, const int64_t *order,
		      const double *by, const struct rlx_k_team *team);

/* Of two rows: stored = c stored + s held, held = c held - s stored; the next one begins there. */
struct rotation {
	int32_t	stored, held;
	double	c, s;
};

struct rotations {
	struct rotation	*list;
	int64_t		n, room;
};

static inline void rotations_add(struct rotations *r, int64_t stored, int64_t held, double c,
				 double s)
{
	r->list[r->n++] = (struct rotation){ (int32_t)stored, (int32_t)held, c, s };
}

/* Apply them to rows and forget them. */
void RLX_K(rotations_flush)(struct rotations *r, const struct strips *s,
			    const struct rlx_k_team *team);

/* The numbers of input @u of @a, and of outputs: elements of its type and doubles. */
void RLX_K(linalg_load)(const struct rlx_k_linalg *a, const void *from, size_t at, double *to,
			size_t n);
void RLX_K(linalg_store)(const struct rlx_k_linalg *a, void *to, size_t at, const double *from,
			 size_t n);

/* One matrix of @args after the other; false: it is bad. */
typedef bool linalg_one_fn(const struct rlx_k_linalg *a, size_t u, double *work);

static inline void linalg_each(const struct rlx_k_linalg *a, size_t begin, size_t end,
			       void *scratch, linalg_one_fn *one)
{
	if (a->team) {		/* one unit is all */
		begin = 0;
		end = (size_t)a->batch;
		scratch = a->work;
	}
	for (; begin < end; begin++)
		if (!one(a, begin, scratch))
			__atomic_store_n(a->bad, 1, __ATOMIC_RELAXED);
}

#endif
