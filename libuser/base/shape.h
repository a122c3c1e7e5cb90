/* SPDX-License-Identifier: MIT */
/* Strides and products of shapes. */
#ifndef RLX_BASE_SHAPE_H
#define RLX_BASE_SHAPE_H

#include "rlx/type.h"

/* Dense row-major element strides. */
static inline void shape_dense(const struct rlx_type *t, int64_t *stride)
{
	int64_t s = 1;

	for (uint32_t i = t->rank; i-- > 0; s *= t->dim[i])
		stride[i] = s;
}

/* Strides of @t walked as @out, to which it must broadcast: 0 where it repeats. */
static inline void shape_broadcast(const struct rlx_type *t,
				   const struct rlx_type *out, int64_t *stride)
{
	int64_t own[RLX_MAX_RANK];
	uint32_t pad = out->rank - t->rank;

	shape_dense(t, own);
	for (uint32_t i = 0; i < out->rank; i++)
		stride[i] = i < pad || t->dim[i - pad] == 1 ? 0 : own[i - pad];
}

/* Product of dimensions [@from, @to). */
static inline int64_t shape_span(const struct rlx_type *t, uint32_t from, uint32_t to)
{
	int64_t n = 1;

	for (; from < to; from++)
		n *= t->dim[from];
	return n;
}

/* By dimensions, not by how many elements: any two empty shapes have as many. */
static inline bool shape_same(const struct rlx_type *a, const struct rlx_type *b)
{
	uint32_t i = 0;

	while (i < a->rank && a->rank == b->rank && a->dim[i] == b->dim[i])
		i++;
	return i == a->rank && a->rank == b->rank;
}

/* A verified axis, made non-negative. */
static inline uint32_t shape_axis(int64_t axis, uint32_t rank)
{
	return (uint32_t)(axis < 0 ? axis + rank : axis);
}

#endif
