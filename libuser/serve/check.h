/* SPDX-License-Identifier: MIT */
/* What a request must be, asked by the client before and the executor after. */
#ifndef RLX_SERVE_CHECK_H
#define RLX_SERVE_CHECK_H

#include <errno.h>

#include "rlx/serve.h"

/* 0 or the status of a bad one. @max: slices of a request with INDIRECT. */
static inline int32_t rlx_check_head(uint32_t opcode, uint32_t flags,
				     uint32_t nr_slices, uint32_t inline_len,
				     uint32_t max)
{
	if (opcode >> 31 ||
	    flags & ~(uint32_t)(RLX_REQUEST_INDIRECT | RLX_REQUEST_USER) ||
	    inline_len > RLX_REQUEST_INLINE)
		return -EINVAL;
	if (!(flags & RLX_REQUEST_INDIRECT))
		return nr_slices > RLX_REQUEST_SLICES ? -EINVAL : 0;
	if (max <= RLX_REQUEST_SLICES)
		return -EOPNOTSUPP;
	return !nr_slices || nr_slices > max ? -EINVAL : 0;
}

/* Against an attachment of @size bytes that allows @allowed. */
static inline int32_t rlx_check_slice(const struct rlx_request_slice *s,
				      uint64_t size, uint32_t allowed)
{
	const uint32_t known = RLX_ACCESS_READ | RLX_ACCESS_WRITE;

	if (!s->access || s->access & ~known || !s->length)
		return -EINVAL;
	if (s->access & ~allowed)
		return -EACCES;
	if (s->offset > size || s->length > size - s->offset)
		return -ERANGE;
	return 0;
}

#endif
