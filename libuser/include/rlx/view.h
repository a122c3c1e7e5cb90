/* SPDX-License-Identifier: MIT */
/* Tensors whose elements do not lie densely: slices, transposed arrays, fields of records. */
#ifndef RLX_VIEW_H
#define RLX_VIEW_H

#include "rlx/arena.h"
#include "rlx/type.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct rlx_view - where a tensor's elements lie in a buffer
 * @buf:    holds all of them
 * @first:  bytes from its start to the element whose indices are all 0
 * @stride: for each dimension of the tensor, elements from an index to the next: as DLPack
 *          has them (NumPy's are in bytes). 0 repeats, negative ones walk down. Those of
 *          dimensions of size 1 mean nothing
 */
struct rlx_view {
	struct rlx_buf	buf;
	uint64_t	first;
	int64_t		stride[RLX_MAX_RANK];
};

#ifdef __cplusplus
}
#endif
#endif
