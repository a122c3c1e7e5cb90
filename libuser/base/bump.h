/* SPDX-License-Identifier: MIT */
/* A bump allocator: many small blocks, freed together. */
#ifndef RLX_BASE_BUMP_H
#define RLX_BASE_BUMP_H

#include <stddef.h>

struct rlx_bump_block;

/* Zero-initialise before use. */
struct rlx_bump {
	struct rlx_bump_block	*head;
	size_t			 used, cap;
};

/* Zeroed, 16-byte aligned; NULL if memory runs out. Size 0 gives a valid pointer. */
void *rlx_bump_new(struct rlx_bump *b, size_t n, size_t size);
void *rlx_bump_dup(struct rlx_bump *b, const void *p, size_t size);
char *rlx_bump_str(struct rlx_bump *b, const char *s, size_t n);
void rlx_bump_fini(struct rlx_bump *b);

#endif
