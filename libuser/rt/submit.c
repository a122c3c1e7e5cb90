// SPDX-License-Identifier: MIT
/* Runs in the background: one thread per session that submits. */
#include <errno.h>
#include <time.h>

#include "rt/session.h"

/*
 * Without the lock, as every run asks: only the session's own thread raises
 * asked, and finished reaches it after all that the run wrote.
 */
bool rlx_runner_busy(struct rlx_session *s)
{
	return s->runner.asked !=
	       atomic_load_explicit(&s->runner.finished, memory_order_acquire);
}

static void *runner_main(void *arg)
{
	struct rlx_session *s = arg;
	struct rlx_runner *r = &s->runner;
	enum rlx_status st;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (!r->stop && r->asked == r->finished)
			pthread_cond_wait(&r->work, &r->lock);
		if (r->asked == r->finished)
			break;
		pthread_mutex_unlock(&r->lock);
		st = rlx_session_run_now(s);
		pthread_mutex_lock(&r->lock);
		r->result = st;
		r->finished = r->asked;
		pthread_cond_broadcast(&r->done);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

enum rlx_status rlx_session_submit(struct rlx_session *s, uint64_t *out_point)
{
	struct rlx_runner *r;
	enum rlx_status st;

	if (!s || !out_point)
		return RLX_EINVAL;
	r = &s->runner;
	if (rlx_runner_busy(s))
		return RLX_EBUSY;
	s->err = (struct rlx_error){ 0 };
	st = s->ready ? RLX_OK : rlx_slots_ready(s);
	if (st)
		return st;
	if (!r->started) {
		int e = pthread_create(&r->thread, NULL, runner_main, s);

		if (e)
			return rlx_fail(&s->err, RLX_ENOMEM,
					"submit: no thread could be started (error %d)", e);
		r->started = true;
	}
	pthread_mutex_lock(&r->lock);
	*out_point = ++r->asked;
	pthread_cond_signal(&r->work);
	pthread_mutex_unlock(&r->lock);
	return RLX_OK;
}

enum rlx_status rlx_session_wait(struct rlx_session *s, uint64_t point,
				 int64_t timeout_ns)
{
	struct rlx_runner *r;
	struct timespec until;
	enum rlx_status st;
	int e = 0;

	if (!s)
		return RLX_EINVAL;
	r = &s->runner;
	clock_gettime(CLOCK_MONOTONIC, &until);
	if (timeout_ns > 0) {
		until.tv_sec += timeout_ns / 1000000000;
		until.tv_nsec += timeout_ns % 1000000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
	}
	pthread_mutex_lock(&r->lock);
	if (point > r->asked || !point)
		st = RLX_EINVAL;
	else {
		while (r->finished < point && e != ETIMEDOUT && timeout_ns)
			e = timeout_ns < 0 ?
			    pthread_cond_wait(&r->done, &r->lock) :
			    pthread_cond_timedwait(&r->done, &r->lock, &until);
		st = r->finished < point ? RLX_ETIME : r->result;
	}
	pthread_mutex_unlock(&r->lock);
	return st;
}

void rlx_runner_fini(struct rlx_session *s)
{
	struct rlx_runner *r = &s->runner;

	if (r->started) {
		pthread_mutex_lock(&r->lock);
		r->stop = true;
		pthread_cond_signal(&r->work);
		pthread_mutex_unlock(&r->lock);
		pthread_join(r->thread, NULL);
	}
	pthread_cond_destroy(&r->work);
	pthread_cond_destroy(&r->done);
	pthread_mutex_destroy(&r->lock);
}
