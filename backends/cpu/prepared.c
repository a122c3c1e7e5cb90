// SPDX-License-Identifier: MIT
/*
 * Weights packed once per process: entries by (blob, kind, parameters), counted.
 * An entry keeps its blob alive, so that a blob's address identifies it. The
 * lock guards the list and the counts and is held at compile time only.
 */
#include <pthread.h>
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
};

enum { BUCKETS = 1024 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct cpu_prepared *bucket[BUCKETS];

static struct cpu_prepared **bucket_of(const struct rlx_blob *blob)
{
	return &bucket[((uintptr_t)blob >> 6) % BUCKETS];
}

/* Large blocks start at a huge page and ask for huge pages. */
static void *take(size_t bytes)
{
	size_t huge = 2u << 20;
	void *p = rlx_aligned(bytes >= huge ? huge : 64, bytes + 64);

	if (p && bytes >= huge)
		madvise(p, bytes, MADV_HUGEPAGE);
	return p;
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
	p->data = take(bytes);
	if (!p->data) {
		rlx_free(p);
		p = NULL;
		goto out_unlock;
	}
	p->blob = rlx_blob_get(blob);
	p->kind = kind;
	memcpy(p->param, param, sizeof(p->param));
	p->bytes = bytes;
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
	pthread_mutex_unlock(&lock);
	rlx_blob_put(p->blob);
	rlx_free(p->data);
	rlx_free(p);
}
