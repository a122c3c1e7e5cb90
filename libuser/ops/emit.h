/* SPDX-License-Identifier: MIT */
/* Short forms for the graphs that .expand and .vjp write, and for .eval's checks. */
#ifndef RLX_OPS_EMIT_H
#define RLX_OPS_EMIT_H

#include "ops/op.h"

/* A copy of a value's type, which later emits do not move; zero for none. */
struct rlx_type op_type(const struct rlx_graph *g, rlx_value v);
/* The sticky status of @g: how .expand and .vjp end. */
enum rlx_status op_done(const struct rlx_graph *g);

/* Close a body, which may be NULL for want of memory; its failure becomes @g's. */
bool op_finish_body(struct rlx_graph *body, struct rlx_graph *g);

/* @x itself if it has the dtype or the shape already. */
rlx_value op_cast(struct rlx_graph *g, rlx_value x, enum rlx_dtype dt);
rlx_value op_reshape(struct rlx_graph *g, rlx_value x, const int64_t *dim,
		     uint32_t rank);
/* [pre, dim(axis), post]: what many ops along one axis are written on. */
rlx_value op_fold3(struct rlx_graph *g, rlx_value x, uint32_t axis);
rlx_value op_expand_to(struct rlx_graph *g, rlx_value x, const struct rlx_type *t);
/* A scalar @c of @t's dtype spread over @t's shape. */
rlx_value op_fill(struct rlx_graph *g, const struct rlx_type *t, double c);
/* x * c and x + c with a constant of x's dtype. */
rlx_value op_mul_const(struct rlx_graph *g, rlx_value x, double c);
rlx_value op_add_const(struct rlx_graph *g, rlx_value x, double c);
rlx_value op_swap_last(struct rlx_graph *g, rlx_value x);
/* Is that all a transpose of so many dimensions does? */
bool op_swaps_last(const struct rlx_op_transpose *a, uint32_t rank);
/* What @x is a transpose of, of its last two dimensions alone; none: it is not. */
rlx_value op_swapped(const struct rlx_graph *g, rlx_value x);
/* @x with those swapped: of a plain product, which nothing else need read, that of its operands. */
rlx_value op_swap_product(struct rlx_graph *g, rlx_value x);
rlx_value op_transpose(struct rlx_graph *g, rlx_value x, struct rlx_ints perm);
/* Sum or mean over axes [from, to), kept as 1. */
rlx_value op_reduce_span(struct rlx_graph *g, rlx_value x, int kind,
			 uint32_t from, uint32_t to);
/* numpy take()'s gradient: rows of @dy added into zeros of @x at @idx. */
rlx_value op_gather_grad(struct rlx_graph *g, rlx_value dy, rlx_value idx,
			 const struct rlx_type *x, uint32_t axis);
/*
 * The sum along one axis, kept as 1. Of zeros that elements were scattered to along that axis, and
 * added, it is the sum of those elements, which are fewer.
 */
rlx_value op_sum_scattered(struct rlx_graph *g, rlx_value x, int32_t axis);
rlx_value op_i64_const(struct rlx_graph *g, const int64_t *v, int64_t n);

/*
 * Is @name of a match a mean over trailing axes, kept as 1? *out_first: the first of them.
 */
struct rlx_match;
bool op_match_trailing_mean(const struct rlx_match *m, const char *name, uint32_t *out_first);

/* The dtype sums are kept in: f64 for f64, else f32. */
static inline enum rlx_dtype op_acc_type(enum rlx_dtype dt)
{
	return dt == RLX_F64 ? RLX_F64 : RLX_F32;
}

/* The input was given; zero-size tensors may have no data. */
static inline bool op_has(const struct rlx_tensor *t)
{
	return t->type.dtype != RLX_NODTYPE;
}

/* True if @t broadcasts to exactly @to's shape. */
bool op_fits(const struct rlx_type *t, const struct rlx_type *to);
/* RLX_EINVAL unless 0 <= @v < @count; @what names the attribute. */
enum rlx_status op_need_enum(struct rlx_infer *q, const char *what, int64_t v,
			     int64_t count);
/* Output 0 becomes @dt, an attribute out_dtype; nothing given, it stays as it is. */
enum rlx_status op_infer_out_dtype(struct rlx_infer *q, enum rlx_dtype dt);
/* RLX_ETYPE unless input @k is a float (no f8) or an integer. */
enum rlx_status op_need_number(struct rlx_infer *q, uint32_t k);
/* RLX_ESHAPE unless input @k has rank in [lo, hi]. */
enum rlx_status op_need_rank(struct rlx_infer *q, uint32_t k, uint32_t lo,
			     uint32_t hi);
/* RLX_EINVAL unless @v is finite and at least @lo. */
enum rlx_status op_need_real(struct rlx_infer *q, const char *what, double v,
			     double lo);

/* Wrap a negative index; RLX_ERANGE with a message if outside [-dim, dim). */
enum rlx_status op_index(const struct rlx_eval *q, int64_t i, int64_t dim,
			 int64_t *out);

/*
 * Order positions of a line of a tensor: element k is at base + k * stride. NaN
 * counts as the largest number; equal elements keep the order of their positions.
 */
struct op_line {
	const struct rlx_tensor	*t;
	int64_t			 base, stride;
	bool			 descending;
};
/* < 0, 0, > 0 by value alone, ascending. */
int op_compare(const struct rlx_tensor *t, int64_t i, int64_t j);
/* Sort idx[0..n), which holds positions on the line; takes no memory. */
void op_sort(const struct op_line *l, int64_t *idx, int64_t n);
/* The same by any strict total order. */
typedef bool op_before(const void *ctx, int64_t i, int64_t j);
void op_sort_by(op_before *before, const void *ctx, int64_t *idx, int64_t n);

/* Dimensions of @x from axis @ax on, as a shape of their own. */
struct rlx_type op_tail(const struct rlx_type *x, uint32_t ax);
/*
 * What layer and RMS norm ask of x, gamma and beta (inputs 0 to 2), axis and eps;
 * sets out[0] and *@out_ax.
 */
enum rlx_status op_infer_norm(struct rlx_infer *q, int32_t axis, float eps,
			      uint32_t *out_ax);

#endif
