// SPDX-License-Identifier: MIT
/* The executor's calls: fetching in turns, sleeping, committing. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/thread.h"
#include "serve/service.h"

enum { EVENTS_AT_ONCE = 16 };

static void lock_queue(struct rlx_queue *q)
{
	/* A thread that spins must not keep the control thread out for ever. */
	while (atomic_load_explicit(&q->wanted, memory_order_relaxed))
		rlx_cpu_relax();
	pthread_mutex_lock(&q->lock);
}

void rlx_queue_lock(struct rlx_queue *q)
{
	atomic_fetch_add_explicit(&q->wanted, 1, memory_order_relaxed);
	pthread_mutex_lock(&q->lock);
	atomic_fetch_sub_explicit(&q->wanted, 1, memory_order_relaxed);
}

static void ring(struct rlx_client *cl)
{
	if (!cl->touched)
		return;
	cl->touched = false;
	cl->ops->ring(cl);
}

/* A job of @cl is over, answered or not. */
static void job_done(struct rlx_client *cl, struct rlx_job *job)
{
	rlx_job_unlease(cl, job);
	job->next = cl->free;
	cl->free = job;
}

static struct rlx_job *next_event(struct rlx_queue *q)
{
	struct rlx_job *job = q->events;

	if (!job)
		return NULL;
	q->events = job->next;
	if (!q->events)
		q->events_end = &q->events;
	atomic_store(&job->out, true);
	return job;
}

/* Up to @max requests of one client; what it did wrong is answered at once. */
static unsigned int take_some(struct rlx_client *cl, struct rlx_work **out,
			      unsigned int max)
{
	const struct rlx_service_ops *ops = cl->ops;
	struct rlx_queue *q = cl->q;
	unsigned int n = 0, looked = 0;
	struct rlx_job *job;
	bool any = false;

	while (n < max && (job = cl->free) && looked++ < cl->depth) {
		int rc = ops->take(cl, job);

		if (rc <= 0)
			break;
		any = true;
		if (job->pub.result) {		/* refused */
			q->st.rejected += job->pub.result != -ETIME &&
					  job->pub.result != -ECANCELED;
			q->st.expired += job->pub.result == -ETIME;
			ops->reply(cl, job, job->pub.result,
				   RLX_REPLY_UNDELIVERED);
			rlx_job_unlease(cl, job);
			continue;
		}
		cl->free = job->next;
		cl->out++;
		atomic_store_explicit(&job->out, true, memory_order_relaxed);
		out[n++] = &job->pub;
	}
	q->st.fetched += n;
	if (any)
		ops->taken(cl);
	ring(cl);
	return n;
}

void rlx_queue_kick(struct rlx_queue *q)
{
	uint64_t one = 1;
	ssize_t n = write(q->kick, &one, sizeof(one));

	(void)n;	/* full: then it is readable, which is all */
}

/* Once stopped it stays readable, for every thread there is. */
static void unkick(struct rlx_queue *q)
{
	uint64_t value;

	if (read(q->kick, &value, sizeof(value)) > 0 &&
	    atomic_load(&q->svc->stopping))
		rlx_queue_kick(q);
}

/* The clients take turns until nobody has anything. */
static unsigned int scan_clients(struct rlx_queue *q, struct rlx_work **out,
				 unsigned int max)
{
	unsigned int n = 0, i, idle = 0, quantum = q->svc->opts.quantum;

	for (i = q->turn; n < max && idle < q->high; i++) {
		struct rlx_client *cl;
		unsigned int got = 0, room = max - n;

		if (i >= q->high)
			i = 0;
		cl = q->slot[i];
		if (cl && !atomic_load_explicit(&cl->dead, memory_order_relaxed))
			got = take_some(cl, out + n,
					room < quantum ? room : quantum);
		n += got;
		idle = got ? 0 : idle + 1;
		q->turn = i + 1;
	}
	return n;
}

static unsigned int scan(struct rlx_queue *q, struct rlx_work **out,
			 unsigned int max)
{
	unsigned int n = 0;
	struct rlx_job *ev;

	while (n < max && (ev = next_event(q)))
		out[n++] = &ev->pub;
	if (q->kmod)
		rlx_kmod_collect(q);
	n += scan_clients(q, out + n, max - n);
	if (n == max && q->sleeping)	/* the sleeper's bell may have been ours */
		rlx_queue_kick(q);
	return n;
}

static bool some(struct rlx_queue *q)
{
	uint32_t i;

	if (q->events || (q->kmod && rlx_kmod_some(q)))
		return true;
	for (i = 0; i < q->high; i++) {
		struct rlx_client *cl = q->slot[i];

		if (cl && cl->free &&
		    !atomic_load_explicit(&cl->dead, memory_order_relaxed) &&
		    cl->ops->some(cl))
			return true;
	}
	return false;
}

/* Say where clients and the kernel look how many threads sleep. */
static void tell_sleepers(struct rlx_queue *q)
{
	struct rlx_shm_queue *page = q->page.base;
	uint32_t n = q->sleeping + q->armed;

	atomic_store_explicit(&page->sleepers, n, memory_order_relaxed);
	if (q->kmod)
		rlx_kmod_sleepers(q, n);
}

/* Wait for a bell, and take back what rang. */
static void sleep_once(struct rlx_queue *q, uint64_t deadline_ns)
{
	struct epoll_event ev[EVENTS_AT_ONCE];
	struct timespec ts;
	int i, n;

	/* To the nanosecond: who batches waits for tens of microseconds. */
	n = epoll_pwait2(q->epfd, ev, EVENTS_AT_ONCE,
			 rlx_poll_ts(deadline_ns, &ts), NULL);
	if (n < 0 && errno == ENOSYS)		/* before 5.11 */
		n = epoll_wait(q->epfd, ev, EVENTS_AT_ONCE,
			       rlx_poll_ms(deadline_ns));
	pthread_mutex_lock(&q->lock);
	for (i = 0; i < n; i++) {
		uint64_t at = ev[i].data.u64;

		if (at == RLX_QUEUE_KICK)
			unkick(q);
		else if (at != RLX_QUEUE_KMOD && q->slot[at] &&
			 q->slot[at]->bell >= 0)
			rlx_bell_drain(q->slot[at]->bell);
	}
	pthread_mutex_unlock(&q->lock);
}

/* Sleep unless there is work, which is then taken; the flag goes up first. */
static unsigned int doze(struct rlx_queue *q, struct rlx_work **out,
			 unsigned int max, uint64_t deadline_ns)
{
	unsigned int n;

	lock_queue(q);
	q->sleeping++;
	tell_sleepers(q);
	/* Pairs with the client: it stores a request, then looks at the flag. */
	rlx_shm_fence();
	n = scan(q, out, max);
	/* A scan leaves what it has answered so much of that the others are due. */
	if (!n && !atomic_load(&q->svc->stopping) && !(q->kmod && rlx_kmod_some(q))) {
		q->st.sleeps++;
		pthread_mutex_unlock(&q->lock);
		sleep_once(q, deadline_ns);
		lock_queue(q);
	}
	q->sleeping--;
	tell_sleepers(q);
	pthread_mutex_unlock(&q->lock);
	return n;
}

static unsigned int look(struct rlx_queue *q, struct rlx_work **out,
			 unsigned int max)
{
	unsigned int n;

	lock_queue(q);
	n = scan(q, out, max);
	pthread_mutex_unlock(&q->lock);
	return n;
}

static int fetch_wait(struct rlx_queue *q, struct rlx_work **out,
		      unsigned int min, unsigned int max, uint64_t deadline_ns)
{
	uint64_t start = rlx_now(), now = start, until, spin;
	unsigned int n = 0, i = 0;

	lock_queue(q);
	spin = rlx_spin_for(&q->spin);
	pthread_mutex_unlock(&q->lock);
	until = spin > RLX_NO_DEADLINE - start ? RLX_NO_DEADLINE : start + spin;
	if (until > deadline_ns)
		until = deadline_ns;
	while (n < min) {
		if (atomic_load_explicit(&q->svc->stopping, memory_order_relaxed)) {
			n += look(q, out + n, max - n);
			return n ? (int)n : RLX_EPIPE;
		}
		if (now < until) {
			n += look(q, out + n, max - n);
			rlx_cpu_relax();
			if (++i % RLX_SPIN_BATCH == 0)
				now = rlx_now();
			continue;
		}
		if (now >= deadline_ns)
			break;
		n += doze(q, out + n, max - n, deadline_ns);
		now = rlx_now();
	}
	lock_queue(q);
	rlx_spin_learn(&q->spin, rlx_now() - start);
	pthread_mutex_unlock(&q->lock);
	return (int)n;
}

int rlx_service_fetch(struct rlx_service *svc, unsigned int queue,
		      struct rlx_work **out, unsigned int min,
		      unsigned int max, uint64_t deadline_ns)
{
	struct rlx_queue *q;
	unsigned int n;
	bool armed;

	if (!svc || !out || queue >= svc->opts.queues || min > max || !max ||
	    max > INT32_MAX)
		return RLX_EINVAL;
	q = &svc->queue[queue];
	lock_queue(q);
	armed = q->armed;
	q->armed = false;
	if (armed)
		tell_sleepers(q);
	n = scan(q, out, max);
	pthread_mutex_unlock(&q->lock);
	if (armed)		/* or the caller's poll() sees old bells again */
		sleep_once(q, 0);
	if (n && n >= min)
		return (int)n;
	if (!n && atomic_load(&svc->stopping))
		return RLX_EPIPE;
	if (n >= min || !deadline_ns)
		return (int)n;
	if (n) {
		int m = fetch_wait(q, out + n, min - n, max - n, deadline_ns);

		return m > 0 ? (int)n + m : (int)n;
	}
	return fetch_wait(q, out, min, max, deadline_ns);
}

int rlx_service_arm(struct rlx_service *svc, unsigned int queue)
{
	struct rlx_queue *q;
	bool there;

	if (!svc || queue >= svc->opts.queues)
		return RLX_EINVAL;
	q = &svc->queue[queue];
	lock_queue(q);
	q->armed = true;
	tell_sleepers(q);
	rlx_shm_fence();
	there = atomic_load(&svc->stopping) || some(q);
	pthread_mutex_unlock(&q->lock);
	return there;
}

int rlx_service_fd(struct rlx_service *svc, unsigned int queue)
{
	return svc && queue < svc->opts.queues ? svc->queue[queue].epfd :
	       RLX_EINVAL;
}

/* Under the lock. The last job of a client that is gone lets it go. */
static void commit_one(struct rlx_queue *q, struct rlx_job *job)
{
	struct rlx_client *cl = job->cl;

	if (job->pub.kind != RLX_WORK_REQUEST) {
		cl->busy = false;
		rlx_control_ack(cl);
		return;
	}
	q->st.committed++;
	if (atomic_load_explicit(&cl->dead, memory_order_relaxed))
		q->st.orphaned++;
	/* A slot of the kernel's must have its answer, whoever may be there. */
	if (cl->ops->kernel ||
	    !atomic_load_explicit(&cl->dead, memory_order_relaxed))
		cl->ops->reply(cl, job, job->pub.result, 0);
	cl->out--;
	job_done(cl, job);
	if (!cl->out && atomic_load_explicit(&cl->dead, memory_order_relaxed))
		rlx_control_ack(cl);
}

enum rlx_status rlx_service_commit(struct rlx_service *svc,
				   struct rlx_work *const *work, unsigned int n)
{
	enum rlx_status st = RLX_OK;
	struct rlx_queue *q = NULL;
	unsigned int i, first = 0;

	if (!svc || (n && !work))
		return RLX_EINVAL;
	for (i = 0; i < n; i++)
		if (!work[i])
			return RLX_EINVAL;
	for (i = 0; i <= n; i++) {
		struct rlx_job *job = i < n ? (struct rlx_job *)work[i] : NULL;
		struct rlx_queue *of = job ? job->cl->q : NULL;

		if (of != q && q) {	/* ring for what was answered so far */
			for (; first < i; first++)
				ring(((struct rlx_job *)work[first])->cl);
			pthread_mutex_unlock(&q->lock);
		}
		if (i == n)
			break;
		if (of != q) {
			first = i;
			q = of;
			lock_queue(q);
		}
		if (!atomic_exchange_explicit(&job->out, false,
					      memory_order_relaxed)) {
			st = RLX_ESTALE;
			continue;
		}
		commit_one(q, job);
	}
	return st;
}

bool rlx_work_cancelled(const struct rlx_work *work)
{
	const struct rlx_job *job = (const struct rlx_job *)work;

	return work && work->kind == RLX_WORK_REQUEST &&
	       (atomic_load_explicit(&job->cl->dead, memory_order_acquire) ||
		job->cl->ops->cancelled(job));
}

void rlx_client_cut(struct rlx_client *cl, const char *fmt, ...)
{
	va_list ap;

	if (atomic_exchange(&cl->dead, true))
		return;
	va_start(ap, fmt);
	vsnprintf(cl->reason, sizeof(cl->reason), fmt, ap);
	va_end(ap);
	cl->cut = true;
	cl->q->st.cut++;
	rlx_control_ack(cl);
}

enum rlx_status rlx_service_cut(struct rlx_service *svc, uint64_t peer,
				const char *reason)
{
	uint32_t i, k;

	if (!svc || !reason)
		return RLX_EINVAL;
	for (i = 0; i < svc->opts.queues; i++) {
		struct rlx_queue *q = &svc->queue[i];
		bool found = false;

		lock_queue(q);
		for (k = 0; k < q->high && !found; k++) {
			struct rlx_client *cl = q->slot[k];

			if (!cl || cl->peer.id != peer ||
			    atomic_load(&cl->dead))
				continue;
			rlx_client_cut(cl, "%.100s", reason);
			found = true;
		}
		pthread_mutex_unlock(&q->lock);
		if (found)
			return RLX_OK;
	}
	return RLX_ENOENT;
}

void rlx_service_stop(struct rlx_service *svc)
{
	uint64_t one = 1;
	ssize_t n;
	uint32_t i;

	if (!svc)
		return;
	atomic_store(&svc->stopping, true);
	for (i = 0; i < svc->opts.queues; i++)
		rlx_queue_kick(&svc->queue[i]);
	n = write(svc->ctl, &one, sizeof(one));
	(void)n;
}

void rlx_service_stats(struct rlx_service *svc, struct rlx_service_stats *out)
{
	uint32_t i;

	if (!svc || !out) {
		if (out)
			*out = (struct rlx_service_stats){ 0 };
		return;
	}
	pthread_mutex_lock(&svc->lock);
	*out = svc->st;
	pthread_mutex_unlock(&svc->lock);
	for (i = 0; i < svc->opts.queues; i++) {
		struct rlx_queue *q = &svc->queue[i];

		lock_queue(q);
		out->cut += q->st.cut;
		out->fetched += q->st.fetched;
		out->committed += q->st.committed;
		out->orphaned += q->st.orphaned;
		out->rejected += q->st.rejected;
		out->expired += q->st.expired;
		out->sleeps += q->st.sleeps;
		out->bells += q->st.bells;
		pthread_mutex_unlock(&q->lock);
	}
	out->under_way = out->fetched - out->committed;
}

const char *rlx_service_transport(const struct rlx_service *svc)
{
	return !svc ? "none" : svc->wire & RLX_WIRE_KMOD ? "kmod" : "shm";
}
