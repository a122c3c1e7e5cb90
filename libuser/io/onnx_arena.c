// SPDX-License-Identifier: MIT
/* Bump allocation in growing blocks; nothing is freed before the whole. */
#include <string.h>

#include "base/alloc.h"
#include "io/onnx_arena.h"

#define BLOCK_MIN	((size_t)16 << 10)
#define BLOCK_MAX	((size_t)1 << 20)
#define ALIGN		((size_t)16)

struct onnx_arena_block {
	struct onnx_arena_block	*next;
	size_t			 used, size;	/* of data[] */
	_Alignas(16) unsigned char data[];
};

static struct onnx_arena_block *block_new(struct onnx_arena *a, size_t need)
{
	size_t size = a->total < BLOCK_MIN ? BLOCK_MIN : a->total;
	struct onnx_arena_block *b;
	size_t bytes;

	if (size > BLOCK_MAX)
		size = BLOCK_MAX;
	if (size < need)
		size = need;
	if (!rlx_add(size, sizeof(*b), &bytes))
		return NULL;
	b = rlx_malloc(bytes);
	if (!b)
		return NULL;
	b->used = 0;
	b->size = size;
	/* A block made for one big item goes behind the one being filled. */
	if (a->head && size == need && size > BLOCK_MAX) {
		b->next = a->head->next;
		a->head->next = b;
	} else {
		b->next = a->head;
		a->head = b;
	}
	return b;
}

void *onnx_arena_alloc(struct onnx_arena *a, size_t n, size_t size)
{
	struct onnx_arena_block *b = a->head;
	size_t bytes;
	void *p;

	if (!rlx_mul(n, size, &bytes) || bytes > SIZE_MAX - ALIGN)
		return NULL;
	bytes = bytes ? (bytes + ALIGN - 1) & ~(ALIGN - 1) : ALIGN;
	if (!b || b->size - b->used < bytes) {
		b = block_new(a, bytes);
		if (!b)
			return NULL;
	}
	p = b->data + b->used;
	b->used += bytes;
	a->total += bytes;
	return memset(p, 0, bytes);
}

void onnx_arena_fini(struct onnx_arena *a)
{
	struct onnx_arena_block *b = a->head, *next;

	for (; b; b = next) {
		next = b->next;
		rlx_free(b);
	}
	*a = (struct onnx_arena){ 0 };
}
