// SPDX-License-Identifier: MIT
/*
 * Blobs that several graphs make alike: instances of one model for other shapes fold
 * the same weights. They are found by a key for as long as somebody has them, and so
 * is then what was packed of them, which goes by the blob. The table has no reference
 * of its own: the last one's end takes the entry out. The lock guards the table.
 */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "ir/graph.h"

struct shared {
	struct shared	*next;
	uint64_t	 hash;
	void		*key;
	size_t		 n_key;
	struct rlx_blob	*blob, *of[RLX_SHARED_OF];
	void		*data;
};

enum { BUCKETS = 1024 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared *bucket[BUCKETS];

struct rlx_blob *rlx_blob_get_alive(struct rlx_blob *b)
{
	unsigned int n = b ? atomic_load(&b->refs) : 0;

	while (n && !atomic_compare_exchange_weak(&b->refs, &n, n + 1))
		;
	return n ? b : NULL;
}

/* The lock is held. One whose last reference just went is about to leave the table. */
static struct rlx_blob *find(uint64_t hash, const void *key, size_t n)
{
	struct rlx_blob *b = NULL;
	struct shared *s;

	for (s = bucket[hash % BUCKETS]; s && !b; s = s->next)
		if (s->hash == hash && s->n_key == n && !memcmp(s->key, key, n))
			b = rlx_blob_get_alive(s->blob);
	return b;
}

struct rlx_blob *rlx_blob_shared(const void *key, size_t n)
{
	struct rlx_blob *b;

	pthread_mutex_lock(&lock);
	b = find(rlx_hash_bytes(key, n, 0), key, n);
	pthread_mutex_unlock(&lock);
	return b;
}

static void entry_free(struct shared *s)
{
	uint32_t i;

	for (i = 0; i < RLX_SHARED_OF; i++)
		rlx_blob_put(s->of[i]);
	rlx_free(s->data);
	rlx_free(s->key);
	rlx_free(s);
}

static void release(void *ctx)
{
	struct shared *s = ctx, **at;

	pthread_mutex_lock(&lock);
	for (at = &bucket[s->hash % BUCKETS]; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	pthread_mutex_unlock(&lock);
	entry_free(s);
}

struct rlx_blob *rlx_blob_new_shared(const void *key, size_t n, void *data, size_t bytes,
				     struct rlx_blob *const *of, uint32_t n_of)
{
	struct shared *s = rlx_calloc(1, sizeof(*s));
	struct rlx_blob *b = NULL, *other = NULL;
	uint32_t i;

	if (s) {
		s->key = rlx_memdup(key, n);
		s->hash = rlx_hash_bytes(key, n, 0);
		s->n_key = n;
		b = s->key ? rlx_blob_new(data, bytes, release, s) : NULL;
	}
	if (!b) {
		if (s)
			entry_free(s);
		return NULL;
	}
	s->blob = b;
	s->data = data;
	for (i = 0; i < n_of && i < RLX_SHARED_OF; i++)
		s->of[i] = rlx_blob_get(of[i]);
	pthread_mutex_lock(&lock);
	other = find(s->hash, key, n);	/* another thread was faster */
	if (!other) {
		s->next = bucket[s->hash % BUCKETS];
		bucket[s->hash % BUCKETS] = s;
	}
	pthread_mutex_unlock(&lock);
	if (!other)
		return b;
	rlx_free(b);		/* not in the table: as if it had never been */
	entry_free(s);
	return other;
}

struct rlx_blob *rlx_blob_new_alike(const char *who, void *data, size_t bytes)
{
	struct { char who[16]; uint64_t bytes, hash[2]; } key = { .bytes = bytes };
	struct rlx_blob *b;

	strncpy(key.who, who, sizeof(key.who) - 1);
	key.hash[0] = rlx_hash_bytes(data, bytes, 1);
	key.hash[1] = rlx_hash_bytes(data, bytes, 2);
	b = rlx_blob_shared(&key, sizeof(key));
	if (!b)
		b = rlx_blob_new_shared(&key, sizeof(key), data, bytes, NULL, 0);
	if (!b || b->data == data)
		return b;
	if (memcmp(b->data, data, bytes)) {	/* alike in their hashes alone */
		rlx_blob_put(b);
		return rlx_blob_new(data, bytes, rlx_free, data);
	}
	rlx_free(data);
	return b;
}
