// SPDX-License-Identifier: MIT
/* Threads that read by preadv2(), where there is no ring to be had. */
#include <errno.h>
#include <sys/uio.h>

#include "base/thread.h"
#include "train/reader_impl.h"

static void transfer(struct reader_req *q)
{
	struct iovec v = { (char *)q->data + q->done, q->bytes - q->done };
	off_t at = (off_t)(q->offset + q->done);
	ssize_t n = q->write ? pwritev2(q->fd, &v, 1, at, 0) : preadv2(q->fd, &v, 1, at, 0);

	q->error = n < 0 ? -errno : (int)n;
}

static void *serve(void *arg)
{
	struct pool *p = arg;
	struct reader_req *q;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (!p->first && !p->stop)
			pthread_cond_wait(&p->work, &p->lock);
		q = p->first;
		if (!q)
			break;
		p->first = q->next;
		if (!p->first)
			p->last = &p->first;
		pthread_mutex_unlock(&p->lock);
		transfer(q);
		pthread_mutex_lock(&p->lock);
		q->next = p->finished;
		p->finished = q;
		pthread_cond_signal(&p->done);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int pool_open(struct reader *r)
{
	struct pool *p = &r->pool;
	unsigned int want = r->depth < POOL_THREADS_MAX ? r->depth : POOL_THREADS_MAX;
	int e = 0;

	p->last = &p->first;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->done, NULL);
	for (; p->threads < want && !e; p->threads += !e)
		e = rlx_thread_new(&p->thread[p->threads], serve, p);
	if (p->threads)		/* fewer than wanted will do */
		return 0;
	pool_close(r);
	return e;
}

void pool_close(struct reader *r)
{
	struct pool *p = &r->pool;

	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	while (p->threads)
		pthread_join(p->thread[--p->threads], NULL);
	pthread_cond_destroy(&p->done);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
}

void pool_start(struct reader *r, struct reader_req *q)
{
	struct pool *p = &r->pool;

	q->next = NULL;
	pthread_mutex_lock(&p->lock);
	*p->last = q;
	p->last = &q->next;
	pthread_cond_signal(&p->work);
	pthread_mutex_unlock(&p->lock);
}

struct reader_req *pool_reap(struct reader *r, bool *woken)
{
	struct pool *p = &r->pool;
	struct reader_req *q;

	pthread_mutex_lock(&p->lock);
	while (!p->finished && !p->woken)
		pthread_cond_wait(&p->done, &p->lock);
	q = p->finished;
	p->finished = NULL;
	*woken = p->woken;
	p->woken = false;
	pthread_mutex_unlock(&p->lock);
	return q;
}

void pool_wake(struct reader *r)
{
	struct pool *p = &r->pool;

	pthread_mutex_lock(&p->lock);
	p->woken = true;
	pthread_cond_signal(&p->done);
	pthread_mutex_unlock(&p->lock);
}
