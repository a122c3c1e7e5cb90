// SPDX-License-Identifier: MIT
/* Bytes shared by reference count. */
#include "base/alloc.h"
#include "ir/graph.h"

struct rlx_blob *rlx_blob_new(const void *data, size_t bytes,
			      void (*release)(void *ctx), void *ctx)
{
	struct rlx_blob *b = rlx_calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	atomic_init(&b->refs, 1);
	b->data = data;
	b->bytes = bytes;
	b->release = release;
	b->ctx = ctx;
	return b;
}

struct rlx_blob *rlx_blob_copy(const void *data, size_t bytes)
{
	void *copy = data || !bytes ? rlx_aligned(64, bytes ? bytes : 1) : NULL;
	struct rlx_blob *b;

	if (!copy)
		return NULL;
	if (bytes)
		__builtin_memcpy(copy, data, bytes);
	b = rlx_blob_new(copy, bytes, rlx_free, copy);
	if (!b)
		rlx_free(copy);
	return b;
}

static void put_whole(void *ctx)
{
	rlx_blob_put(ctx);
}

struct rlx_blob *rlx_blob_part(struct rlx_blob *whole, size_t from, size_t bytes)
{
	const char *data = whole->data;
	struct rlx_blob *b = rlx_blob_new(data + from, bytes, put_whole, whole);

	if (!b)
		return NULL;
	rlx_blob_get(whole);
	b->absent = whole->absent;
	if (whole->source)
		rlx_blob_set_source(b, whole->source, whole->offset + from);
	return b;
}

struct rlx_blob *rlx_blob_get(struct rlx_blob *b)
{
	if (b)
		atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	return b;
}

void rlx_blob_put(struct rlx_blob *b)
{
	if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (b->release)
		b->release(b->ctx);
	rlx_free(b);
}

const void *rlx_blob_data(const struct rlx_blob *b)
{
	return b ? b->data : NULL;
}

size_t rlx_blob_bytes(const struct rlx_blob *b)
{
	return b ? b->bytes : 0;
}

void rlx_blob_set_source(struct rlx_blob *b, uint64_t source, uint64_t offset)
{
	if (!b)
		return;
	b->source = source;
	b->offset = offset;
}

static bool node_lacks_contents(const struct rlx_node *n)
{
	uint32_t i;

	for (i = 0; i < n->def->n_field; i++) {
		const struct rlx_field *f = &n->def->field[i];
		const void *v = rlx_field_ptr(f, n->args);
		struct rlx_blob *b;

		if (f->role != RLX_FIELD_ATTR)
			continue;
		if (f->kind == RLX_K_graph &&
		    rlx_graph_lacks_contents(*(struct rlx_graph *const *)v))
			return true;
		if (f->kind != RLX_K_blob)
			continue;
		b = *(struct rlx_blob *const *)v;
		if (b && b->absent)
			return true;
	}
	return false;
}

bool rlx_graph_lacks_contents(const struct rlx_graph *g)
{
	uint32_t n;

	for (n = 0; g && n < g->n_node; n++)
		if (node_lacks_contents(&g->node[n]))
			return true;
	return false;
}

uint64_t rlx_blob_hash(struct rlx_blob *b)
{
	uint64_t h = __atomic_load_n(&b->hash, __ATOMIC_RELAXED);

	if (!h) {
		/* racing threads store the same value */
		h = rlx_hash_bytes(b->data, b->bytes, 0) | 1;
		__atomic_store_n(&b->hash, h, __ATOMIC_RELAXED);
	}
	return h;
}
