/* SPDX-License-Identifier: MIT */
/*
 * What kernels know of element types, and the shape helper they share. Bool is one byte,
 * 0 or 1; any nonzero byte reads as true.
 */
#ifndef RLX_K_TYPE_H
#define RLX_K_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rlx/dtype.h"

/* A switch, as C++ has no array members by name: GPU kernels read this too. */
static inline size_t rlx_k_type_size(enum rlx_dtype t)
{
	switch (t) {
	case RLX_F64:
	case RLX_I64:
	case RLX_U64:
		return 8;
	case RLX_F32:
	case RLX_I32:
	case RLX_U32:
		return 4;
	case RLX_F16:
	case RLX_BF16:
	case RLX_I16:
	case RLX_U16:
		return 2;
	case RLX_F8E4M3:
	case RLX_F8E5M2:
	case RLX_I8:
	case RLX_U8:
	case RLX_BOOL:
		return 1;
	default:
		return 0;
	}
}

static inline bool rlx_k_type_float(enum rlx_dtype t)
{
	return t >= RLX_F64 && t <= RLX_F8E5M2;
}

#define RLX_K_DIMS	8	/* the most dimensions a kernel walks */

/*
 * Merge neighbouring dimensions that every operand walks as one, and drop
 * those of size 1. @dim is outermost first, stride[op][d] in any one unit.
 * Writes @dim and @stride in place; returns the new rank, at least 1.
 */
static inline int rlx_k_collapse(int rank, int64_t *dim, int n_ops,
				 int64_t (*stride)[RLX_K_DIMS])
{
	int n = 0;

	for (int d = 0; d < rank; d++) {
		int to = n ? n - 1 : 0;	/* -1 is no index, even where none is used */
		bool merge = n > 0;

		if (dim[d] == 1)
			continue;
		for (int o = 0; o < n_ops && merge; o++)
			merge = stride[o][to] == stride[o][d] * dim[d];
		if (!merge)
			to = n;
		dim[to] = merge ? dim[to] * dim[d] : dim[d];
		for (int o = 0; o < n_ops; o++)
			stride[o][to] = stride[o][d];
		n = to + 1;
	}
	if (n == 0) {
		dim[0] = 1;
		for (int o = 0; o < n_ops; o++)
			stride[o][0] = 0;
		n = 1;
	}
	return n;
}

#endif
