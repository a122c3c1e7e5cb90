/* SPDX-License-Identifier: MIT */
/* Free blocks of a workspace that grows at its end: best fit in O(log n). */
#ifndef RLX_PLAN_HOLES_H
#define RLX_PLAN_HOLES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A free block stands in two treaps of one array: by (offset, bytes), to join
 * neighbours, and by (bytes, offset), to find the smallest that is large enough.
 */
struct rlx_hole {
	uint64_t	key[2];
	uint32_t	kid[2];		/* [0] is none */
	uint32_t	rank;		/* random; a parent's is no less */
};

/* Zero-initialise. */
struct rlx_holes {
	struct rlx_hole	*v;
	uint32_t	 n, cap, spare;	/* spare: list of unused ones by kid[0] */
	uint32_t	 by_off, by_bytes;
	uint64_t	 end;		/* the workspace so far */
};

/* Take @bytes from the best hole, or from the end. False: over 2^64 bytes. */
bool rlx_holes_take(struct rlx_holes *h, uint64_t bytes, uint64_t *out_off);
/* Give a block back. False: out of memory. */
bool rlx_holes_give(struct rlx_holes *h, uint64_t off, uint64_t bytes);
void rlx_holes_fini(struct rlx_holes *h);

#endif
