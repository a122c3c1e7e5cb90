// SPDX-License-Identifier: MIT
/* A bump allocator over a list of blocks that double in size. */
#include <string.h>

#include "base/alloc.h"
#include "base/bump.h"

struct rlx_bump_block {
	struct rlx_bump_block	*next;
	size_t			 pad;
	unsigned char		 data[];
};

enum { FIRST_BLOCK = 4096, LAST_BLOCK = 1 << 20, ALIGN = 16 };

static bool grow(struct rlx_bump *b, size_t need)
{
	size_t cap = b->cap ? b->cap * 2 : FIRST_BLOCK, total;
	struct rlx_bump_block *blk;

	if (cap > LAST_BLOCK)
		cap = LAST_BLOCK;
	if (cap < need)
		cap = need;
	if (!rlx_add(cap, sizeof(*blk), &total))
		return false;
	blk = rlx_malloc(total);
	if (!blk)
		return false;
	blk->next = b->head;
	b->head = blk;
	b->cap = cap;
	b->used = 0;
	return true;
}

void *rlx_bump_new(struct rlx_bump *b, size_t n, size_t size)
{
	size_t bytes;
	void *p;

	if (!rlx_mul(n, size, &bytes) || !rlx_add(bytes, ALIGN - 1, &bytes))
		return NULL;
	bytes &= ~(size_t)(ALIGN - 1);
	if ((!b->head || b->cap - b->used < bytes) && !grow(b, bytes))
		return NULL;
	p = b->head->data + b->used;
	b->used += bytes;
	memset(p, 0, bytes);
	return p;
}

void *rlx_bump_dup(struct rlx_bump *b, const void *p, size_t size)
{
	void *d = rlx_bump_new(b, 1, size);

	if (d && size)
		memcpy(d, p, size);
	return d;
}

char *rlx_bump_str(struct rlx_bump *b, const char *s, size_t n)
{
	char *d = n < (size_t)-1 ? rlx_bump_new(b, 1, n + 1) : NULL;

	if (d)
		memcpy(d, s, n);
	return d;
}

void rlx_bump_fini(struct rlx_bump *b)
{
	struct rlx_bump_block *blk, *next;

	for (blk = b->head; blk; blk = next) {
		next = blk->next;
		rlx_free(blk);
	}
	*b = (struct rlx_bump){ 0 };
}
