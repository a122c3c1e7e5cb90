// SPDX-License-Identifier: MIT
/* Open addressing with linear probing; the table is at most half full. */
#include <string.h>
#include <sys/auxv.h>

#include "base/alloc.h"
#include "base/map.h"

/* A wyhash-style multiply-and-fold over 8-byte words. */
static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 m = (unsigned __int128)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

uint64_t rlx_hash_bytes(const void *p, size_t n, uint64_t seed)
{
	const unsigned char *s = p;
	uint64_t h = seed ^ 0x9e3779b97f4a7c15u, w;
	size_t left = n;

	for (; left >= 8; left -= 8, s += 8) {
		memcpy(&w, s, 8);
		h = fold(h ^ w, 0xa0761d6478bd642fu);
	}
	w = 0;
	if (left)
		memcpy(&w, s, left);
	h = fold(h ^ w, 0xe7037ed1a0b428dbu);
	return fold(h ^ n, 0x8ebc6af09c88c6e3u);
}

/*
 * Other in each process: keys are names of files, and whoever knows the hash can make
 * as many as he likes that have the same one.
 */
uint64_t rlx_hash_secret(void)
{
	const void *random = (const void *)(uintptr_t)getauxval(AT_RANDOM);
	uint64_t seed = 0;

	if (random)
		memcpy(&seed, random, sizeof(seed));
	return seed;
}

static uint64_t hash_key(const void *key, size_t len)
{
	return rlx_hash_bytes(key, len, rlx_hash_secret());
}

static struct rlx_map_slot *probe(struct rlx_map_slot *slot, uint32_t cap,
				  const void *key, size_t len, uint64_t hash)
{
	uint32_t i = (uint32_t)hash & (cap - 1);

	while (slot[i].key && (slot[i].hash != hash || slot[i].len != len ||
			       memcmp(slot[i].key, key, len)))
		i = (i + 1) & (cap - 1);
	return &slot[i];
}

static bool rehash(struct rlx_map *m)
{
	uint32_t cap = m->cap ? m->cap * 2 : 16, i;
	struct rlx_map_slot *slot = rlx_calloc(cap, sizeof(*slot));

	if (!slot)
		return false;
	for (i = 0; i < m->cap; i++) {
		struct rlx_map_slot *s = &m->slot[i];

		if (s->key)
			*probe(slot, cap, s->key, s->len, s->hash) = *s;
	}
	rlx_free(m->slot);
	m->slot = slot;
	m->cap = cap;
	return true;
}

bool rlx_map_put(struct rlx_map *m, const void *key, size_t len, uint64_t val)
{
	uint64_t hash = hash_key(key, len);
	struct rlx_map_slot *s = m->cap ? probe(m->slot, m->cap, key, len, hash) : NULL;

	if (s && s->key) {
		s->val = val;
		return true;
	}
	if (m->n * 2 >= m->cap && !rehash(m))
		return false;
	s = probe(m->slot, m->cap, key, len, hash);
	if (!s->key) {
		s->key = rlx_memdup(key, len);
		if (!s->key)
			return false;
		s->len = len;
		s->hash = hash;
		m->n++;
	}
	s->val = val;
	return true;
}

bool rlx_map_get(const struct rlx_map *m, const void *key, size_t len,
		 uint64_t *out_val)
{
	struct rlx_map_slot *s;

	if (!m->cap)
		return false;
	s = probe(m->slot, m->cap, key, len, hash_key(key, len));
	if (!s->key)
		return false;
	*out_val = s->val;
	return true;
}

void rlx_map_fini(struct rlx_map *m)
{
	uint32_t i;

	for (i = 0; i < m->cap; i++)
		rlx_free(m->slot[i].key);
	rlx_free(m->slot);
	*m = (struct rlx_map){ 0 };
}
