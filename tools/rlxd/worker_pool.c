// SPDX-License-Identifier: MIT
/* Queues of tasks and the threads that do them, each in order. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/rlxd/worker_pool.h"
#include "tools/rlxd/region.h"

enum { THREADS_MAX = 1024 };

/* What a thread is at. */
enum kind { RUN, READ, NOTHING };

struct worker_pool {
	/* Guards all that follows. */
	pthread_mutex_t	 lock;
	pthread_cond_t	 more;
	struct task	*head, **tail;		/* runs, in the order in which they came */
	struct read_queue reads;
	unsigned int	 reading[READ_SIZES];	/* threads that are at one of these */
	bool		 stop;
	unsigned int	 n;
	pthread_t	 thread[THREADS_MAX];
};

/* All threads but one that may read at long requests: no other such one is begun. */
static bool only_short(const struct worker_pool *c)
{
	return c->reading[READ_LONG] >= WORKER_POOL_READERS - 1;
}

static enum kind next_kind(const struct worker_pool *c)
{
	if (c->head)
		return RUN;
	if (c->reading[READ_SHORT] + c->reading[READ_LONG] < WORKER_POOL_READERS &&
	    read_queue_has(&c->reads, only_short(c)))
		return READ;
	return NOTHING;
}

static struct task *take(struct worker_pool *c, enum kind k)
{
	struct task *t = c->head;

	if (k == READ) {
		t = read_queue_take(&c->reads, only_short(c));
		c->reading[t->size]++;
		return t;
	}
	c->head = t->next;
	if (!c->head)
		c->tail = &c->head;
	return t;
}

static void *worker_pool_main(void *ctx)
{
	struct worker_pool *c = ctx;
	enum read_size size;
	struct task *t;
	enum kind k;

	region_thread_signals();
	pthread_mutex_lock(&c->lock);
	for (;;) {
		/* Who reads on at the end does what others may not begin now. */
		while ((k = next_kind(c)) == NOTHING && !c->stop)
			pthread_cond_wait(&c->more, &c->lock);
		if (k == NOTHING)
			break;
		t = take(c, k);
		/* Of what is read there may be no more when it was. */
		size = t->size;
		/* What is left may be begun by another, since this one is at a task. */
		if (next_kind(c) != NOTHING)
			pthread_cond_signal(&c->more);
		pthread_mutex_unlock(&c->lock);
		t->fn(t);
		pthread_mutex_lock(&c->lock);
		if (k == READ)
			c->reading[size]--;
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

enum rlx_status worker_pool_grow(struct worker_pool *c, unsigned int threads, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	int rc;

	pthread_mutex_lock(&c->lock);
	while (!st && c->n < threads) {
		if (c->n == THREADS_MAX) {
			st = rlx_fail(err, RLX_ERANGE, "more than %d threads: fewer replicas",
				      THREADS_MAX);
			break;
		}
		rc = pthread_create(&c->thread[c->n], NULL, worker_pool_main, c);
		if (rc) {
			st = rlx_fail(err, RLX_ENOMEM, "cannot start a thread: %s", strerror(rc));
			break;
		}
		pthread_setname_np(c->thread[c->n++], "rlxd-worker");
	}
	pthread_mutex_unlock(&c->lock);
	return st;
}

enum rlx_status worker_pool_open(unsigned int threads, struct worker_pool **out,
				 struct rlx_error *err)
{
	struct worker_pool *c = rlx_calloc(1, sizeof(*c));
	enum rlx_status st;

	*out = NULL;
	if (!c)
		return rlx_fail(err, RLX_ENOMEM, "out of memory for the worker threads");
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->more, NULL);
	c->tail = &c->head;
	st = worker_pool_grow(c, threads, err);
	if (st) {
		worker_pool_close(c);
		return st;
	}
	*out = c;
	return RLX_OK;
}

void worker_pool_post(struct worker_pool *c, struct task *t)
{
	pthread_mutex_lock(&c->lock);
	t->next = NULL;
	*c->tail = t;
	c->tail = &t->next;
	pthread_cond_signal(&c->more);
	pthread_mutex_unlock(&c->lock);
}

void worker_pool_post_read(struct worker_pool *c, struct task *t, size_t bytes)
{
	pthread_mutex_lock(&c->lock);
	read_queue_put(&c->reads, t, bytes);
	pthread_cond_signal(&c->more);
	pthread_mutex_unlock(&c->lock);
}

void worker_pool_post_rest(struct worker_pool *c, struct task *t)
{
	pthread_mutex_lock(&c->lock);
	read_queue_put_back(&c->reads, t);
	pthread_cond_signal(&c->more);
	pthread_mutex_unlock(&c->lock);
}

void worker_pool_close(struct worker_pool *c)
{
	unsigned int i;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->more);
	pthread_mutex_unlock(&c->lock);
	for (i = 0; i < c->n; i++)
		pthread_join(c->thread[i], NULL);
	pthread_cond_destroy(&c->more);
	pthread_mutex_destroy(&c->lock);
	rlx_free(c);
}
