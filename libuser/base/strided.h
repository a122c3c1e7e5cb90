/* SPDX-License-Identifier: MIT */
/* Tensors whose elements do not lie densely: how far they reach, and copies of them. */
#ifndef RLX_BASE_STRIDED_H
#define RLX_BASE_STRIDED_H

#include <stdbool.h>

#include "rlx/type.h"

/* Strides are in elements, one for each dimension; those of dimensions of size 1 mean nothing. */

/* Row-major without gaps; so are tensors without elements. */
bool rlx_strided_dense(const struct rlx_type *t, const int64_t *stride);

/*
 * Bytes from the element whose indices are all 0 down to the lowest one, and up to the end of
 * the highest one; both 0 without elements. False where that overflows.
 */
bool rlx_strided_reach(const struct rlx_type *t, const int64_t *stride, uint64_t *down,
		       uint64_t *up);

/* No two elements share a place, as far as strides by size tell: none reaches into the next. */
bool rlx_strided_apart(const struct rlx_type *t, const int64_t *stride);

/*
 * Copy all elements of @t. @to, @from: the element whose indices are all 0; the tensors do not
 * overlap. Where neighbours of the one are not those of the other, by tiles that caches hold.
 */
void rlx_strided_copy(const struct rlx_type *t, void *to, const int64_t *to_stride,
		      const void *from, const int64_t *from_stride);

#endif
