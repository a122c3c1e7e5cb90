// SPDX-License-Identifier: MIT
/*
 * Stores of prepared weights: entries side by side in an arena, behind a header and
 * before a table that sealing writes. The lock guards all of struct rlx_store; it
 * is held at compile time only, and not while an entry is filled.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "ir/graph.h"
#include "ir/store.h"
#include "mem/arena.h"
#include "rlx/backend.h"

enum { ALIGN = RLX_STORE_ALIGN };

struct rlx_store {
	atomic_uint		refs;
	struct rlx_arena	*arena;
	char			*base;
	uint64_t		size, used, taken;	/* taken: pages are there */
	char			layout[32];
	bool			sealed;
	pthread_mutex_t		lock;
	pthread_cond_t		changed;
	struct rlx_store_entry		*entry;
	uint32_t		n_entry, cap_entry;
	struct rlx_map		by_key;		/* index in @entry */
	uint32_t		*filling;	/* indices of entries not ready */
	uint32_t		n_filling, cap_filling;
	uint64_t		found, made, missed;
	struct rlx_store_memory	memory;		/* if there is no arena */
};

_Static_assert(RLX_STORE_ALIGN == 64, "rlx_align64()");

uint64_t rlx_store_hash(const struct rlx_store_header *h,
			const struct rlx_store_entry *table)
{
	uint64_t v = rlx_hash_bytes(h, offsetof(struct rlx_store_header, hash), RLX_STORE_FORMAT);

	return rlx_hash_bytes(table, h->n_entry * sizeof(*table), v);
}

/* A store of no memory yet; NULL: out of memory. */
static struct rlx_store *blank(const char *layout, struct rlx_error *err)
{
	struct rlx_store *s = rlx_calloc(1, sizeof(*s));

	if (!s) {
		rlx_fail(err, RLX_ENOMEM, "store: out of memory");
		return NULL;
	}
	memcpy(s->layout, layout, strnlen(layout, sizeof(s->layout) - 1));
	atomic_init(&s->refs, 1);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	return s;
}

/* A store that nothing is in yet; the arena is looked at by the caller. */
static enum rlx_status make(struct rlx_arena *arena, const char *layout,
			    struct rlx_store **out, struct rlx_error *err)
{
	struct rlx_store *s;

	*out = NULL;
	if (rlx_arena_size(arena) < sizeof(struct rlx_store_header))
		return rlx_fail(err, RLX_ERANGE, "store: %llu bytes have no room for a header",
				(unsigned long long)rlx_arena_size(arena));
	s = blank(layout, err);
	if (!s)
		return RLX_ENOMEM;
	s->arena = rlx_arena_get(arena);
	s->base = rlx_arena_base(arena);
	s->size = rlx_arena_size(arena);
	s->used = rlx_align64(sizeof(struct rlx_store_header));
	*out = s;
	return RLX_OK;
}

enum rlx_status rlx_store_create(struct rlx_arena *arena, const char *layout,
				 struct rlx_store **out, struct rlx_error *err)
{
	uint8_t build[RLX_BUILD_ID_BYTES];
	enum rlx_status st = make(arena, layout, out, err);

	if (st)
		return st;
	if (rlx_arena_flags(arena) & RLX_ARENA_RDONLY)
		st = rlx_fail(err, RLX_EACCES, "store: the arena is read-only");
	else if (!rlx_build_id(build))
		st = rlx_fail(err, RLX_ENOSUP, "store: this program has no build id, so that "
			      "another could not know its weights; link with -Wl,--build-id");
	else if (!rlx_place_extend(arena, &(*out)->taken, sizeof(struct rlx_store_header), false))
		st = rlx_fail(err, RLX_ENOMEM, "store: no memory for a header");
	if (st) {
		rlx_store_put(*out);
		*out = NULL;
		return st;
	}
	/* Until it is sealed nobody shall take it for whole. */
	memset((*out)->base, 0, sizeof(struct rlx_store_header));
	return RLX_OK;
}

static enum rlx_status check_header(const struct rlx_store *s, const struct rlx_store_header *h,
				    struct rlx_error *err)
{
	uint8_t build[RLX_BUILD_ID_BYTES];

	if (memcmp(h->magic, RLX_STORE_MAGIC, sizeof(h->magic)))
		return rlx_fail(err, RLX_EPARSE, "store: the arena holds no sealed store");
	if (h->format != RLX_STORE_FORMAT || h->entry_bytes != sizeof(struct rlx_store_entry))
		return rlx_fail(err, RLX_ENOSUP, "store: its format is %u, known here is %d",
				h->format, RLX_STORE_FORMAT);
	if (!rlx_build_id(build) || memcmp(build, h->build, sizeof(build)))
		return rlx_fail(err, RLX_ENOSUP, "store: it was made by another build of this "
				"program");
	if (memcmp(h->layout, s->layout, sizeof(h->layout)))
		return rlx_fail(err, RLX_ENOSUP, "store: it is for '%.31s', this is '%s'",
				h->layout, s->layout);
	if (h->used > s->size || h->table > s->size || h->table % ALIGN ||
	    h->n_entry > UINT32_MAX / 2 ||
	    h->n_entry * sizeof(struct rlx_store_entry) > s->size - h->table)
		return rlx_fail(err, RLX_EPARSE, "store: it is cut short: %llu bytes, a table of "
				"%llu entries at %llu", (unsigned long long)s->size,
				(unsigned long long)h->n_entry, (unsigned long long)h->table);
	return RLX_OK;
}

static enum rlx_status check_entry(const struct rlx_store *s, const struct rlx_store_entry *e,
				   uint32_t i, struct rlx_error *err)
{
	if (e->at % ALIGN || e->at > s->used || e->key.bytes > s->used - e->at ||
	    s->used - e->at - e->key.bytes < ALIGN)
		return rlx_fail(err, RLX_EPARSE,
				"store: entry %u has %llu bytes at %llu; %llu are in use", i,
				(unsigned long long)e->key.bytes, (unsigned long long)e->at,
				(unsigned long long)s->used);
	return RLX_OK;
}

/* Take a copy of a table, and check it. */
static enum rlx_status take_table(struct rlx_store *s, const struct rlx_store_entry *table,
				  uint32_t n, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	uint32_t i;

	s->entry = rlx_memdup(table, n * sizeof(*table) + !n);
	if (!s->entry)
		return rlx_fail(err, RLX_ENOMEM, "store: out of memory");
	s->n_entry = n;
	for (i = 0; i < n && !st; i++) {
		st = check_entry(s, &s->entry[i], i, err);
		if (!st &&
		    !rlx_map_put(&s->by_key, &s->entry[i].key, sizeof(struct rlx_store_key), i))
			st = rlx_fail(err, RLX_ENOMEM, "store: out of memory");
	}
	return st;
}

/* Sealed, so that what was checked stays as it was. */
static enum rlx_status read_table(struct rlx_store *s, struct rlx_error *err)
{
	struct rlx_store_header h;
	const struct rlx_store_entry *table;
	enum rlx_status st;

	memcpy(&h, s->base, sizeof(h));
	st = check_header(s, &h, err);
	if (st)
		return st;
	table = (const void *)(s->base + h.table);
	if (rlx_store_hash(&h, table) != h.hash)
		return rlx_fail(err, RLX_EPARSE, "store: header and table are damaged");
	s->used = h.used;
	return take_table(s, table, (uint32_t)h.n_entry, err);
}

enum rlx_status rlx_store_adopt(struct rlx_arena *arena, const char *layout,
				struct rlx_store **out, struct rlx_error *err)
{
	enum rlx_status st = make(arena, layout, out, err);

	if (st)
		return st;
	if (!arena->prov->seals || !(arena->prov->seals(arena) & RLX_SEAL_WRITE))
		st = rlx_fail(err, RLX_EACCES, "store: the arena is not sealed: whoever has it "
			      "could still change the weights");
	else
		st = read_table(*out, err);
	/* Mapping what is in use at once is cheaper than a fault for each part. */
	if (!st && !rlx_place_fill_range(arena, 0, (*out)->used, false))
		st = rlx_fail(err, RLX_ENOMEM, "store: no memory to map it");
	if (st) {
		rlx_store_put(*out);
		*out = NULL;
		return st;
	}
	(*out)->sealed = true;
	return RLX_OK;
}

enum rlx_status rlx_store_mapped(const struct rlx_store_memory *m, const char *layout,
				 const struct rlx_store_entry *entry, uint32_t n,
				 struct rlx_store **out, struct rlx_error *err)
{
	struct rlx_store *s = blank(layout, err);
	enum rlx_status st;

	*out = NULL;
	if (!s)
		return RLX_ENOMEM;
	s->base = (char *)(uintptr_t)m->base;	/* sealed: nobody writes */
	s->size = s->used = s->taken = m->size;
	s->sealed = true;
	st = take_table(s, entry, n, err);
	if (st) {
		rlx_store_put(s);
		return st;
	}
	s->memory = *m;
	*out = s;
	return RLX_OK;
}

/* With the lock held. */
static enum rlx_status write_table(struct rlx_store *s, struct rlx_error *err)
{
	uint64_t bytes = s->n_entry * sizeof(struct rlx_store_entry);
	struct rlx_store_header h = {
		.format = RLX_STORE_FORMAT, .entry_bytes = sizeof(struct rlx_store_entry),
		.used = s->used,
		.table = rlx_align64(s->used), .n_entry = s->n_entry,
	};

	if (h.table > s->size || bytes > s->size - h.table)
		return rlx_fail(err, RLX_ERANGE, "store: no room for the table of %u entries",
				s->n_entry);
	if (!rlx_place_extend(s->arena, &s->taken, h.table + bytes, false))
		return rlx_fail(err, RLX_ENOMEM, "store: no memory for the table");
	memcpy(h.magic, RLX_STORE_MAGIC, sizeof(h.magic));
	memcpy(h.layout, s->layout, sizeof(h.layout));
	rlx_build_id(h.build);
	if (bytes)
		memcpy(s->base + h.table, s->entry, bytes);
	h.hash = rlx_store_hash(&h, s->entry);
	memcpy(s->base, &h, sizeof(h));
	return RLX_OK;
}

enum rlx_status rlx_store_seal(struct rlx_store *s, struct rlx_error *err)
{
	enum rlx_status st;

	if (!s)
		return rlx_fail(err, RLX_EINVAL, "store seal: no store");
	pthread_mutex_lock(&s->lock);
	if (s->sealed)
		st = rlx_fail(err, RLX_EACCES, "store seal: it is sealed");
	else if (s->n_filling)
		st = rlx_fail(err, RLX_EBUSY, "store seal: a program is being compiled with it");
	else
		st = write_table(s, err);
	if (!st)
		st = rlx_arena_seal(s->arena, RLX_SEAL_WRITE, err);
	s->sealed |= !st;
	/* It is another mapping now; what is not there comes with a fault later. */
	if (!st)
		rlx_place_fill_range(s->arena, 0, s->used, false);
	pthread_mutex_unlock(&s->lock);
	return st;
}

struct rlx_store *rlx_store_get(struct rlx_store *s)
{
	if (s)
		atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void rlx_store_put(struct rlx_store *s)
{
	if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	rlx_map_fini(&s->by_key);
	rlx_free(s->entry);
	rlx_free(s->filling);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	rlx_arena_put(s->arena);
	if (s->memory.release)
		s->memory.release(s->memory.ctx);
	rlx_free(s);
}

struct rlx_arena *rlx_store_arena(const struct rlx_store *s)
{
	return s ? s->arena : NULL;
}

void rlx_store_info(struct rlx_store *s, struct rlx_store_info *out)
{
	if (!out)
		return;
	*out = (struct rlx_store_info){ 0 };
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	memcpy(out->layout, s->layout, sizeof(out->layout));
	out->sealed = s->sealed;
	out->entries = s->n_entry;
	out->bytes = s->used;
	out->found = s->found;
	out->made = s->made;
	out->missed = s->missed;
	pthread_mutex_unlock(&s->lock);
}

/* With the lock held: room for a new entry; NULL: there is none. */
static void *add(struct rlx_store *s, const struct rlx_store_key *k)
{
	uint64_t room = s->size > s->used ? s->size - s->used : 0, bytes;

	if (s->sealed || k->bytes > room)
		return NULL;
	bytes = rlx_align64(k->bytes) + ALIGN;	/* kernels may read a vector beyond */
	if (bytes > room ||
	    !rlx_grow(&s->entry, &s->cap_entry, s->n_entry + 1, sizeof(*s->entry)) ||
	    !rlx_grow(&s->filling, &s->cap_filling, s->n_filling + 1, sizeof(*s->filling)) ||
	    !rlx_place_extend(s->arena, &s->taken, s->used + bytes, false) ||
	    !rlx_map_put(&s->by_key, k, sizeof(*k), s->n_entry))
		return NULL;
	s->entry[s->n_entry] = (struct rlx_store_entry){ *k, s->used };
	s->filling[s->n_filling++] = s->n_entry;
	s->used += bytes;
	return s->base + s->entry[s->n_entry++].at;
}

static bool is_filling(const struct rlx_store *s, uint64_t i)
{
	uint32_t k;

	for (k = 0; k < s->n_filling; k++)
		if (s->filling[k] == i)
			return true;
	return false;
}

static enum rlx_took take_key(struct rlx_store *s, const struct rlx_store_key *k, void **out_data)
{
	enum rlx_took took = RLX_TOOK_FOUND;
	uint64_t i;

	pthread_mutex_lock(&s->lock);
	if (rlx_map_get(&s->by_key, k, sizeof(*k), &i)) {
		while (is_filling(s, i))
			pthread_cond_wait(&s->changed, &s->lock);
		*out_data = s->base + s->entry[i].at;
	} else {
		*out_data = add(s, k);
		took = *out_data ? RLX_TOOK_NEW : RLX_TOOK_NONE;
	}
	pthread_mutex_unlock(&s->lock);
	return took;
}

/*
 * The contents of @of, which no file has, as the store has them. A hash alone, which anybody can
 * compute, would take others for them: they are compared, and put there by whoever is the first.
 */
static enum rlx_took take_contents(struct rlx_store *s, struct rlx_blob *of, void **out_data)
{
	struct rlx_store_key k = { .bytes = of->bytes, .kind = "contents" };
	enum rlx_took took;

	for (k.offset = rlx_blob_hash(of);; k.offset++) {
		took = take_key(s, &k, out_data);
		if (took == RLX_TOOK_NEW) {
			if (of->bytes)
				memcpy(*out_data, of->data, of->bytes);
			rlx_store_ready(s, *out_data);
		}
		if (took != RLX_TOOK_FOUND || !of->bytes ||
		    !memcmp(*out_data, of->data, of->bytes))
			return took;
	}
}

static void count(struct rlx_store *s, enum rlx_took took)
{
	pthread_mutex_lock(&s->lock);
	s->found += took == RLX_TOOK_FOUND;
	s->made += took == RLX_TOOK_NEW;
	s->missed += took == RLX_TOOK_NONE;
	pthread_mutex_unlock(&s->lock);
}

const void *rlx_store_contents(struct rlx_store *s, struct rlx_blob *of)
{
	enum rlx_took took;
	void *p;

	if (!s)
		return NULL;
	took = take_contents(s, of, &p);
	count(s, took);
	return took == RLX_TOOK_NONE ? NULL : p;
}

enum rlx_took rlx_store_take(struct rlx_store *s, struct rlx_blob *of, const char *kind,
			     const int64_t param[4], size_t bytes, void **out_data)
{
	struct rlx_store_key k = { .bytes = bytes };
	enum rlx_took took = RLX_TOOK_FOUND;
	void *at;

	if (!s || strlen(kind) >= RLX_STORE_KIND_BYTES)
		return RLX_TOOK_NONE;
	k.source = of->source;
	k.offset = of->offset;
	memcpy(k.param, param, sizeof(k.param));
	memcpy(k.kind, kind, strlen(kind));
	if (!of->source) {	/* by where those are, which is like no others' */
		took = take_contents(s, of, &at);
		k.offset = took == RLX_TOOK_NONE ? 0 : (uint64_t)((char *)at - s->base);
	}
	if (took != RLX_TOOK_NONE)
		took = take_key(s, &k, out_data);
	count(s, took);
	return took;
}

void rlx_store_ready(struct rlx_store *s, const void *data)
{
	uint64_t at = (uint64_t)((const char *)data - s->base);
	uint32_t k;

	pthread_mutex_lock(&s->lock);
	for (k = 0; k < s->n_filling; k++)
		if (s->entry[s->filling[k]].at == at) {
			s->filling[k] = s->filling[--s->n_filling];
			break;
		}
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}
