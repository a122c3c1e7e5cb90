// SPDX-License-Identifier: MIT
/* A queue of tasks and the threads that do them, in order. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/rlxd/crew.h"
#include "tools/rlxd/region.h"

enum { THREADS_MAX = 1024 };

struct crew {
	/* Guards all that follows. */
	pthread_mutex_t	 lock;
	pthread_cond_t	 more;
	struct task	*head, **tail;
	bool		 stop;
	unsigned int	 n;
	pthread_t	 thread[THREADS_MAX];
};

static void *crew_main(void *ctx)
{
	struct crew *c = ctx;
	struct task *t;

	region_thread_signals();
	pthread_mutex_lock(&c->lock);
	for (;;) {
		while (!c->head && !c->stop)
			pthread_cond_wait(&c->more, &c->lock);
		t = c->head;
		if (!t)
			break;
		c->head = t->next;
		if (!c->head)
			c->tail = &c->head;
		pthread_mutex_unlock(&c->lock);
		t->fn(t);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

enum rlx_status crew_grow(struct crew *c, unsigned int threads, struct rlx_error *err)
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
		rc = pthread_create(&c->thread[c->n], NULL, crew_main, c);
		if (rc) {
			st = rlx_fail(err, RLX_ENOMEM, "cannot start a thread: %s", strerror(rc));
			break;
		}
		pthread_setname_np(c->thread[c->n++], "rlxd-crew");
	}
	pthread_mutex_unlock(&c->lock);
	return st;
}

enum rlx_status crew_open(unsigned int threads, struct crew **out, struct rlx_error *err)
{
	struct crew *c = rlx_calloc(1, sizeof(*c));
	enum rlx_status st;

	*out = NULL;
	if (!c)
		return rlx_fail(err, RLX_ENOMEM, "out of memory for the worker threads");
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->more, NULL);
	c->tail = &c->head;
	st = crew_grow(c, threads, err);
	if (st) {
		crew_close(c);
		return st;
	}
	*out = c;
	return RLX_OK;
}

void crew_post(struct crew *c, struct task *t)
{
	pthread_mutex_lock(&c->lock);
	t->next = NULL;
	*c->tail = t;
	c->tail = &t->next;
	pthread_cond_signal(&c->more);
	pthread_mutex_unlock(&c->lock);
}

void crew_close(struct crew *c)
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
