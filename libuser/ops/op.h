/* SPDX-License-Identifier: MIT */
/*
 * What an op file includes. RLX_OP is nothing to the compiler: the build reads
 * it (ops.awk). The helpers below are those that many ops share.
 *
 *	RLX_OP(softmax, "exp(x - max) / sum along one axis",
 *		IN(x)
 *		ATTR(i32, axis),
 *		RLX_T_REDUCTION)
 *	...
 *	const struct rlx_op_impl rlx_op_softmax_impl = { .infer = softmax_infer, ... };
 *	RLX_SAMPLES(softmax, softmax_sample)
 */
#ifndef RLX_OPS_OP_H
#define RLX_OPS_OP_H

#include <math.h>
#include <string.h>

#include "base/shape.h"
#include "ir/opdef.h"
#include "ir/element.h"

#define RLX_OP(...)

/* One per op, made by table.c's list; declared here so that files need not. */
#define DECLARE_IMPL(name) extern const struct rlx_op_impl rlx_op_##name##_impl
#undef RLX_OP
#define RLX_OP(name, doc, fields, traits) DECLARE_IMPL(name);
#include "rlx/ops.list.h"
#undef RLX_OP
#define RLX_OP(...)

/*
 * The op's test cases. They stand apart from its impl, for nothing of the library refers to them:
 * the linker leaves them out of librlx.so (ops/samples.c).
 */
#define RLX_SAMPLES(name, fn) rlx_sample_fn *const rlx_op_##name##_samples = fn;

/* Fail with the op's name in front: return op_fail(q, RLX_ESHAPE, "axis %d ..."). */
#define op_fail(q, st, fmt, ...) \
	rlx_fail((q)->err, (st), "%s: " fmt, (q)->def->name, ##__VA_ARGS__)

/* Normalise a possibly negative axis; false if outside [-rank, rank). */
bool op_axis(int64_t axis, uint32_t rank, uint32_t *out_axis);
/* The same with a message. */
enum rlx_status op_infer_axis(struct rlx_infer *q, int64_t axis, uint32_t rank,
			      uint32_t *out_axis);
/* Set of axes as a bit mask; empty list = all if @all. Duplicates are refused. */
enum rlx_status op_infer_axes(struct rlx_infer *q, struct rlx_ints axes,
			      uint32_t rank, bool all, uint32_t *out_mask);
/* RLX_ETYPE unless input @k has a float dtype (f64 f32 f16 bf16; f8 too if @f8). */
enum rlx_status op_need_float(struct rlx_infer *q, uint32_t k, bool f8);
/* RLX_ETYPE unless input @k is i32, i64 or u32. */
enum rlx_status op_need_index(struct rlx_infer *q, uint32_t k);
/* Out type = input 0's type. */
enum rlx_status op_infer_same(struct rlx_infer *q);
/* Output 0 is input 0's bytes (RLX_T_VIEW). */
enum rlx_status op_eval_view(struct rlx_eval *q);
/* numpy broadcast of two shapes into @out's rank and dims; false if they do not fit. */
bool op_broadcast(const struct rlx_type *a, const struct rlx_type *b,
		  struct rlx_type *out);
/* @x within [lo, hi]; NaN stays, as max and min let it pass. */
static inline double op_clamp(double x, double lo, double hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

/*
 * Walk all index tuples of @shape in row-major order keeping offsets for up to
 * three stride sets: for (op_walk_begin(&w, &shape); !w.done; op_walk_next(&w)).
 */
struct op_walk {
	const struct rlx_type	*shape;
	int64_t			 idx[RLX_MAX_RANK];
	const int64_t		*stride[3];
	int64_t			 off[3];
	int64_t			 i;	/* linear index */
	bool			 done;
};
void op_walk_begin(struct op_walk *w, const struct rlx_type *shape,
		   const int64_t *s0, const int64_t *s1, const int64_t *s2);
void op_walk_next(struct op_walk *w);

/*
 * Each element of a matrix product of inputs 0 and 1, whose leading dimensions broadcast: where
 * its row of the one and its column of the other begin, and where it goes, in elements.
 */
void op_matmul_each(struct rlx_eval *q,
		    void (*element)(struct rlx_eval *q, int64_t ai, int64_t bi, int64_t out));

/*
 * Gradient helpers. op_unbroadcast() sums @d down to the shape of @like;
 * op_const_like() is a constant scalar in @v's dtype; op_zeros_like() expands 0.
 */
rlx_value op_unbroadcast(struct rlx_graph *g, rlx_value d, rlx_value like);
rlx_value op_const_like(struct rlx_graph *g, rlx_value v, double x);
rlx_value op_zeros_like(struct rlx_graph *g, rlx_value v);
rlx_value op_reshape_like(struct rlx_graph *g, rlx_value x, rlx_value like);

/*
 * A sample's lists must outlive what makes it: these copy them into @s.
 *	a->axes = op_keep(s, RLX_INTS(0, 2));
 */
struct rlx_ints op_keep(struct rlx_sample *s, struct rlx_ints l);
struct rlx_floats op_keep_floats(struct rlx_sample *s, struct rlx_floats l);
/* A sub-graph: finished here, handed over to @s, whose caller drops it. */
struct rlx_graph *op_keep_graph(struct rlx_sample *s, struct rlx_graph *g);

#endif
