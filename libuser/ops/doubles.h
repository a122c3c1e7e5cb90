/* SPDX-License-Identifier: MIT */
/* How much scratch evaluation takes that computes in double. */
#ifndef RLX_OPS_DOUBLES_H
#define RLX_OPS_DOUBLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

/* The sum of two counts of bytes, of which none is known to be counted. */
static inline size_t op_bytes_add(size_t a, size_t b)
{
	return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

/*
 * Bytes of a * b + c doubles. SIZE_MAX, which nobody can allocate, if that cannot be counted: where
 * another dimension is 0 or 1, a legal one may be so long that sums and squares of it wrap.
 */
static inline size_t op_doubles(int64_t a, int64_t b, int64_t c)
{
	return rlx_times(op_bytes_add(rlx_times((uint64_t)a, (uint64_t)b), (size_t)c),
			 sizeof(double));
}

#endif
