// SPDX-License-Identifier: MIT
/* Queues of tasks and the threads that do them, each in order. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/rlxd/worker_pool.h"
#include "tools/rlxd/region.h"

enum { THREADS_MAX = 1024, LARGE = 256 << 10 };

/* In the order in which they are looked at. */
enum kind { RUN, SMALL, LARGER, KINDS };

struct queue {
	struct task	*head, **tail;
	unsigned int	 doing;		/* threads that are at one of these */
};

struct worker_pool {
	/* Guards all that follows. */
	pthread_mutex_t	 lock;
	pthread_cond_t	 more;
	struct queue	 queue[KINDS];
	bool		 stop;
	unsigned int	 n;
	pthread_t	 thread[THREADS_MAX];
};

static bool may_begin(const struct worker_pool *c, enum kind k)
{
	if (!c->queue[k].head)
		return false;
	if (k == LARGER && c->queue[LARGER].doing >= WORKER_POOL_READERS - 1)
		return false;
	return k == RUN || c->queue[SMALL].doing + c->queue[LARGER].doing < WORKER_POOL_READERS;
}

/* KINDS: there is nothing to be done now. */
static enum kind next_kind(const struct worker_pool *c)
{
	unsigned int k = 0;

	while (k < KINDS && !may_begin(c, k))
		k++;
	return k;
}

static struct task *take(struct queue *q)
{
	struct task *t = q->head;

	q->head = t->next;
	if (!q->head)
		q->tail = &q->head;
	q->doing++;
	return t;
}

static void *worker_pool_main(void *ctx)
{
	struct worker_pool *c = ctx;
	struct task *t;
	enum kind k;

	region_thread_signals();
	pthread_mutex_lock(&c->lock);
	for (;;) {
		/* Who reads on at the end does what others may not begin now. */
		while ((k = next_kind(c)) == KINDS && !c->stop)
			pthread_cond_wait(&c->more, &c->lock);
		if (k == KINDS)
			break;
		t = take(&c->queue[k]);
		/* What is left may be begun by another, since this one is at a task. */
		if (next_kind(c) != KINDS)
			pthread_cond_signal(&c->more);
		pthread_mutex_unlock(&c->lock);
		t->fn(t);
		pthread_mutex_lock(&c->lock);
		c->queue[k].doing--;
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
	unsigned int k;

	*out = NULL;
	if (!c)
		return rlx_fail(err, RLX_ENOMEM, "out of memory for the worker threads");
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->more, NULL);
	for (k = 0; k < KINDS; k++)
		c->queue[k].tail = &c->queue[k].head;
	st = worker_pool_grow(c, threads, err);
	if (st) {
		worker_pool_close(c);
		return st;
	}
	*out = c;
	return RLX_OK;
}

static void post(struct worker_pool *c, struct task *t, enum kind k)
{
	struct queue *q = &c->queue[k];

	pthread_mutex_lock(&c->lock);
	t->next = NULL;
	*q->tail = t;
	q->tail = &t->next;
	pthread_cond_signal(&c->more);
	pthread_mutex_unlock(&c->lock);
}

void worker_pool_post(struct worker_pool *c, struct task *t)
{
	post(c, t, RUN);
}

void worker_pool_post_read(struct worker_pool *c, struct task *t, size_t bytes)
{
	post(c, t, bytes > LARGE ? LARGER : SMALL);
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
