// SPDX-License-Identifier: MIT
/*
 * Tensors of a file as blobs. All imports of one file share the blob of a
 * tensor, so that what backends prepare from weights is prepared once. The file
 * knows its blobs without holding them: a blob holds the file.
 */
#include <pthread.h>

#include "base/alloc.h"
#include "io/onnx/imp.h"
#include "ir/graph.h"

/*
 * Up to this many bytes an unaligned tensor is copied, so that its elements are
 * aligned. Larger ones stay in the file whatever their place there: they are
 * packed or read by rows.
 */
#define COPY_BYTES	(256 << 10)
/* Smaller ones are not worth remembering. */
#define SHARE_BYTES	1024

struct slot;

/* What one blob needs when it goes. */
struct owner {
	struct onnx_file	*file;
	struct slot		*slot;	/* NULL: not shared */
	void			*copy;
};

struct slot {
	struct rlx_blob		*blob;	/* not counted */
	struct owner		*owner;
};

/* @lock guards the map, the slots, and going from a slot to a counted blob. */
struct onnx_blobs {
	pthread_mutex_t		lock;
	struct rlx_map		slots;	/* struct onnx_tensor * -> struct slot * */
};

struct onnx_blobs *onnx_blobs_new(void)
{
	struct onnx_blobs *s = rlx_calloc(1, sizeof(*s));

	if (s)
		pthread_mutex_init(&s->lock, NULL);
	return s;
}

void onnx_blobs_free(struct onnx_blobs *s)
{
	uint32_t i;

	if (!s)
		return;
	for (i = 0; i < s->slots.cap; i++)
		if (s->slots.slot[i].key)
			rlx_free((void *)(uintptr_t)s->slots.slot[i].val);
	rlx_map_fini(&s->slots);
	pthread_mutex_destroy(&s->lock);
	rlx_free(s);
}

static void owner_free(void *ctx)
{
	struct owner *o = ctx;
	struct onnx_blobs *s = onnx_file_blobs(o->file);

	if (o->slot) {
		pthread_mutex_lock(&s->lock);
		/* Another blob may have taken the slot since the count fell. */
		if (o->slot->owner == o)
			*o->slot = (struct slot){ 0 };
		pthread_mutex_unlock(&s->lock);
	}
	rlx_free(o->copy);
	onnx_put(o->file);
	rlx_free(o);
}

/* 4- and 2-bit elements, the first in the low bits, as one byte each. */
static void unpack(const struct onnx_tensor *t, uint8_t *p)
{
	unsigned int bits = onnx_dtype_bits(t->dtype), per = 8 / bits;
	bool sign = t->dtype == ONNX_INT4 || t->dtype == ONNX_INT2;
	const uint8_t *s = t->data;
	uint64_t i;

	for (i = 0; i < t->count; i++) {
		unsigned int v = (unsigned int)s[i / per] >> i % per * bits;

		v &= (1u << bits) - 1;
		if (sign && v >> (bits - 1))
			v |= ~0u << bits;
		p[i] = (uint8_t)v;
	}
}

static bool in_place(const struct onnx_tensor *t)
{
	unsigned int bits = onnx_dtype_bits(t->dtype);

	if (bits < 8 || t->dtype == ONNX_BOOL)
		return false;
	return t->nbytes > COPY_BYTES || !((uintptr_t)t->data % (bits / 8));
}

/* The bytes as the rest of the library has them, if the file's will not do. */
static void *copy_of(const struct onnx_tensor *t)
{
	bool narrow = onnx_dtype_bits(t->dtype) < 8;
	uint64_t n = narrow ? t->count : t->nbytes, i;
	uint8_t *p = n < SIZE_MAX ? rlx_aligned(64, (size_t)n + 1) : NULL;

	if (!p)
		return NULL;
	if (narrow)
		unpack(t, p);
	else if (n)
		memcpy(p, t->data, (size_t)n);
	/* Bools are 0 or 1 everywhere else; a file may hold any byte. */
	for (i = 0; t->dtype == ONNX_BOOL && i < n; i++)
		p[i] = p[i] != 0;
	return p;
}

static struct rlx_blob *blob_new(struct onnx_file *f,
				 const struct onnx_tensor *t, struct slot *slot)
{
	bool narrow = onnx_dtype_bits(t->dtype) < 8;
	uint64_t n = narrow ? t->count : t->nbytes;
	struct owner *o = rlx_calloc(1, sizeof(*o));
	struct rlx_blob *b = NULL;
	uint64_t source, offset;

	if (!o)
		return NULL;
	o->slot = slot;
	if (!n || !in_place(t)) {
		o->copy = copy_of(t);
		if (!o->copy)
			goto out_free;
	}
	b = rlx_blob_new(o->copy ? o->copy : t->data, (size_t)n, owner_free, o);
	if (!b)
		goto out_free;
	o->file = onnx_get(f);
	if (onnx_file_place(f, t->data, &source, &offset))
		rlx_blob_set_source(b, source, offset);
	if (slot)
		*slot = (struct slot){ b, o };
	return b;
out_free:
	rlx_free(o->copy);
	rlx_free(o);
	return NULL;
}

/* The tensor's slot, made if need be; the lock is held. */
static struct slot *slot_of(struct onnx_blobs *s, const struct onnx_tensor *t)
{
	struct slot *slot;
	uint64_t p;

	if (rlx_map_get(&s->slots, &t, sizeof(t), &p))
		return (struct slot *)(uintptr_t)p;
	slot = rlx_calloc(1, sizeof(*slot));
	if (slot && !rlx_map_put(&s->slots, &t, sizeof(t), (uintptr_t)slot)) {
		rlx_free(slot);
		return NULL;
	}
	return slot;
}

struct rlx_blob *onnx_tensor_blob(struct onnx_file *f,
				  const struct onnx_tensor *t)
{
	struct onnx_blobs *s = onnx_file_blobs(f);
	struct rlx_blob *b = NULL;
	struct slot *slot;

	if (t->nbytes < SHARE_BYTES)
		return blob_new(f, t, NULL);
	pthread_mutex_lock(&s->lock);
	slot = slot_of(s, t);
	if (slot) {
		b = rlx_blob_get_alive(slot->blob);
		if (!b)
			b = blob_new(f, t, slot);
	}
	pthread_mutex_unlock(&s->lock);
	return b;
}
