// SPDX-License-Identifier: MIT
/*
 * Weights packed once per process: entries by (blob, kind, parameters), counted.
 * An entry keeps its blob alive, so that a blob's address identifies it. Weights
 * lie side by side in slabs of huge pages: a model's are streamed through in each
 * run, and 4 KiB pages would cost a TLB miss every few cache lines. The lock guards
 * lists, counts and slabs and is held at compile time only.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/cpu/cpu.h"
#include "base/alloc.h"

struct cpu_prepared {
	struct cpu_prepared	*next;
	struct rlx_blob		*blob;
	const char		*kind;	/* static string */
	int64_t			 param[4];
	size_t			 bytes;
	unsigned int		 refs;
	bool			 ready;		/* filled */
	void			*data;
	struct slab		*slab;		/* NULL: data is a block of its own */
};

struct slab {
	char		*base;
	size_t		 bytes, used;
	unsigned int	 refs;
};

enum { BUCKETS = 1024 };
static const size_t SLAB_BYTES = 8u << 20, HUGE_BYTES = 2u << 20;
/* Less than this does not stream: it may lie anywhere. */
static const size_t SMALL_BYTES = 64u << 10;
static struct slab *current;	/* has room; NULL: none */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct cpu_prepared *bucket[BUCKETS];

static struct cpu_prepared **bucket_of(const struct rlx_blob *blob)
{
	return &bucket[((uintptr_t)blob >> 6) % BUCKETS];
}

static struct slab *slab_new(size_t bytes)
{
	struct slab *sl = rlx_calloc(1, sizeof(*sl));

	bytes = bytes < SLAB_BYTES ? SLAB_BYTES :
		(bytes + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
	if (sl)
		sl->base = rlx_aligned(HUGE_BYTES, bytes);
	if (!sl || !sl->base) {
		rlx_free(sl);
		return NULL;
	}
	madvise(sl->base, bytes, MADV_HUGEPAGE);
	sl->bytes = bytes;
	return sl;
}

/* What packing leaves alone, as behind the last panel, is 0: plan files hold it. */
static void clear(struct cpu_prepared *p, size_t bytes)
{
	size_t tail = p->bytes < SMALL_BYTES ? bytes : bytes - p->bytes + 64;

	memset((char *)p->data + bytes - tail, 0, tail);
}

/* Memory for @p; false: out of memory. The lock is held. */
static bool take(struct cpu_prepared *p)
{
	size_t bytes = (p->bytes + 127) & ~(size_t)63;	/* a vector may be read beyond */
	struct slab *sl = current;

	if (p->bytes < SMALL_BYTES) {
		p->data = rlx_aligned(64, bytes);
		if (p->data)
			clear(p, bytes);
		return p->data;
	}
	if (!sl || sl->bytes - sl->used < bytes) {
		sl = slab_new(bytes);
		if (!sl)
			return false;
		/* the old one lives on with its weights; keep the one with more room */
		if (!current || current->bytes - current->used < sl->bytes - bytes)
			current = sl;
	}
	p->slab = sl;
	p->data = sl->base + sl->used;
	sl->used += bytes;
	sl->refs++;
	clear(p, bytes);
	return true;
}

static void give_back(struct cpu_prepared *p)
{
	struct slab *sl = p->slab;

	if (!sl) {
		rlx_free(p->data);
		return;
	}
	if (--sl->refs)
		return;
	if (sl == current)
		current = NULL;
	rlx_free(sl->base);
	rlx_free(sl);
}

struct cpu_prepared *cpu_prepared_get(struct rlx_blob *blob, const char *kind,
				      const int64_t param[4], size_t bytes,
				      bool *out_new)
{
	struct cpu_prepared **head = bucket_of(blob), *p;

	*out_new = false;
	pthread_mutex_lock(&lock);
	for (p = *head; p; p = p->next)
		if (p->blob == blob && p->bytes == bytes && !strcmp(p->kind, kind) &&
		    !memcmp(p->param, param, sizeof(p->param))) {
			p->refs++;
			while (!p->ready)	/* another thread packs it */
				pthread_cond_wait(&filled, &lock);
			goto out_unlock;
		}
	p = rlx_calloc(1, sizeof(*p));
	if (!p)
		goto out_unlock;
	p->bytes = bytes;
	if (!take(p)) {
		rlx_free(p);
		p = NULL;
		goto out_unlock;
	}
	p->blob = rlx_blob_get(blob);
	p->kind = kind;
	memcpy(p->param, param, sizeof(p->param));
	p->refs = 1;
	p->next = *head;
	*head = p;
	*out_new = true;
out_unlock:
	pthread_mutex_unlock(&lock);
	return p;
}

void cpu_prepared_ready(struct cpu_prepared *p)
{
	pthread_mutex_lock(&lock);
	p->ready = true;
	pthread_cond_broadcast(&filled);
	pthread_mutex_unlock(&lock);
}

void *cpu_prepared_data(struct cpu_prepared *p)
{
	return p->data;
}

void cpu_prepared_put(struct cpu_prepared *p)
{
	struct cpu_prepared **at;

	pthread_mutex_lock(&lock);
	if (--p->refs) {
		pthread_mutex_unlock(&lock);
		return;
	}
	for (at = bucket_of(p->blob); *at != p; at = &(*at)->next)
		;
	*at = p->next;
	give_back(p);
	pthread_mutex_unlock(&lock);
	rlx_blob_put(p->blob);
	rlx_free(p);
}

bool cpu_packed_add(struct cpu_code *c, const struct cpu_code *body)
{
	uint32_t n = c->n_packed + body->n_packed;

	if (!body->n_packed)
		return true;
	if (!rlx_grow(&c->packed, &c->cap_packed, n, sizeof(*c->packed)))
		return false;
	memcpy(c->packed + c->n_packed, body->packed, body->n_packed * sizeof(*c->packed));
	c->n_packed = n;
	return true;
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct cpu_packed *)a)->data;
	uintptr_t y = (uintptr_t)((const struct cpu_packed *)b)->data;

	return (x > y) - (x < y);
}

uint64_t cpu_packed_count(struct cpu_code *c)
{
	uint64_t bytes = 0;
	uint32_t n = 0, i;

	if (c->n_packed)
		qsort(c->packed, c->n_packed, sizeof(*c->packed), by_address);
	for (i = 0; i < c->n_packed; i++) {
		if (n && c->packed[n - 1].data == c->packed[i].data)
			continue;
		c->packed[n++] = c->packed[i];
		bytes += c->packed[i].bytes;
	}
	c->n_packed = n;
	return bytes;
}
