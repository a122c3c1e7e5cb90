/* SPDX-License-Identifier: MIT */
/* A bump allocator for what lives exactly as long as one parsed model. */
#ifndef RLX_IO_ONNX_ARENA_H
#define RLX_IO_ONNX_ARENA_H

#include <stddef.h>

struct onnx_arena_block;

/* Zero-initialise before use. */
struct onnx_arena {
	struct onnx_arena_block	*head;
	size_t			 total;	/* bytes handed out */
};

/* Zeroed, 16-byte aligned; NULL when memory ran out or n * size overflows. */
void *onnx_arena_alloc(struct onnx_arena *a, size_t n, size_t size);
void onnx_arena_fini(struct onnx_arena *a);

#endif
