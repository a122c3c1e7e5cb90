/* SPDX-License-Identifier: MIT */
/* What ops of linear algebra share: matrices are the last two dimensions. */
#ifndef RLX_OPS_LINALG_H
#define RLX_OPS_LINALG_H

#include "ops/emit.h"

/* Input @k is a float [.., m, n]; square if @square. */
enum rlx_status op_need_matrix(struct rlx_infer *q, uint32_t k, bool square);
/*
 * a[.., n, n] and b[.., n, k], or b[.., n] with @vector: leading dimensions alike, or one has
 * none; sets output 0, the solution.
 */
enum rlx_status op_infer_solve(struct rlx_infer *q, bool vector);
/* Matrices of a tensor, and elements of one. */
static inline int64_t op_matrices(const struct rlx_type *t, uint32_t dims)
{
	return shape_span(t, 0, t->rank - dims);
}

/* Graphs: transposed, the product, the unit matrix of n as a constant expression */
#define op_turned(g, x)	op_swap_last(g, x)
rlx_value op_product(struct rlx_graph *g, rlx_value a, rlx_value b);
rlx_value op_unit_matrix(struct rlx_graph *g, enum rlx_dtype dt, int64_t n);
/* (x + x') / 2 */
rlx_value op_symmetric(struct rlx_graph *g, rlx_value x);
/* v[.., n] as a row of each matrix, or as a column */
rlx_value op_as_row(struct rlx_graph *g, rlx_value v);
rlx_value op_as_column(struct rlx_graph *g, rlx_value v);
/* 1 / (v_j - v_i) for i, j of [.., n], 0 on the diagonal */
rlx_value op_gaps(struct rlx_graph *g, rlx_value v);

/*
 * Divides n numbers by 2^*out_exponent, so that the largest is of [1/2, 1) and no square is beyond
 * doubles, or lost. False if one is not finite: factors of their matrix are NaN.
 */
bool op_scale(double *m, int64_t n, int *out_exponent);
/* All elements of output @k that are of matrix @c, [rows][columns], become NaN. */
void op_set_nan(struct rlx_eval *q, uint32_t k, int64_t c, int64_t rows, int64_t columns);
/* Plain elimination in double: m[n][n] becomes L and U, row[i] says which row is there. */
bool op_lu(double *m, int64_t n, int64_t *row, int *out_sign);
/*
 * Eigenvalues, ascending, of the symmetric m[n][n], and vectors v[n][n] in columns; m is lost.
 * Jacobi's rotations, in double.
 */
void op_jacobi(double *m, int64_t n, double *w, double *v);

#endif
