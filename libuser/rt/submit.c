// SPDX-License-Identifier: MIT
/*
 * Runs in the background: the device alone has them where it can, and somebody asks it
 * when the session is used next; else one thread per session that submits.
 */
#include <errno.h>
#include <time.h>

#include "base/thread.h"
#include "rt/session.h"
#include "rt/trace.h"

/* The device has the run: what came of it, or RLX_ETIME. */
static enum rlx_status collect(struct rlx_session *s, int64_t timeout_ns)
{
	struct rlx_runner *r = &s->runner;
	enum rlx_status st;

	s->exec->err = &r->err;		/* not the message of the call that asks */
	st = s->p->dev->be->wait(s->exec, r->point, timeout_ns);
	s->exec->err = &s->err;
	if (st == RLX_ETIME)
		return st;
	r->away = false;
	r->result = rlx_session_ended(s, st);
	atomic_store_explicit(&r->finished, r->asked, memory_order_release);
	return RLX_OK;
}

/*
 * Without the lock, as every run asks: only the session's own thread raises
 * asked, and finished reaches it after all that the run wrote.
 */
bool rlx_runner_busy(struct rlx_session *s)
{
	const struct rlx_runner *r = &s->runner;

	if (r->asked == atomic_load_explicit(&r->finished, memory_order_acquire))
		return false;
	return !r->away || collect(s, 0);
}

static void *runner_main(void *arg)
{
	struct rlx_session *s = arg;
	struct rlx_runner *r = &s->runner;
	enum rlx_status st;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (!r->stop && !r->todo)
			pthread_cond_wait(&r->work, &r->lock);
		if (!r->todo)
			break;
		r->todo = false;
		pthread_mutex_unlock(&r->lock);
		st = rlx_session_run_now(s);
		pthread_mutex_lock(&r->lock);
		s->exec->err = &s->err;
		r->result = st;
		r->finished = r->asked;
		pthread_cond_broadcast(&r->done);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* What the device need not wait for anybody in is launched here. */
static enum rlx_status give_away(struct rlx_session *s)
{
	const struct rlx_backend *be = s->p->dev->be;
	enum rlx_status st;

	s->runner.err = (struct rlx_error){ 0 };
	s->runner.point = 0;
	if (!be->wait || rlx_trace_on() || rlx_session_stages(s))
		return RLX_OK;
	rlx_skip_begin(s);
	st = be->submit(s->exec, true, &s->runner.point);
	s->runner.away = !st && s->runner.point;
	return st ? rlx_session_ended(s, st) : RLX_OK;
}

enum rlx_status rlx_session_submit(struct rlx_session *s, uint64_t *out_point)
{
	struct rlx_runner *r;
	enum rlx_status st;

	if (!s)
		return RLX_EINVAL;
	r = &s->runner;
	s->err = (struct rlx_error){ 0 };
	if (!out_point)
		return rlx_fail(&s->err, RLX_EINVAL, "submit: no place for the run's point given");
	if (rlx_runner_busy(s))
		return rlx_fail(&s->err, RLX_EBUSY, "submit: the run of point %llu is under way; "
				"wait for it first", (unsigned long long)r->asked);
	st = s->ready ? RLX_OK : rlx_slots_ready(s);
	if (!st)
		st = give_away(s);
	if (st)
		return st;
	if (!r->away && !r->started) {
		int e = pthread_create(&r->thread, NULL, runner_main, s);

		if (e)
			return rlx_fail(&s->err, RLX_ENOMEM,
					"submit: no thread could be started (error %d)", e);
		r->started = true;
	}
	pthread_mutex_lock(&r->lock);
	*out_point = ++r->asked;
	r->todo = !r->away;
	if (r->todo)	/* s->err is the caller's meanwhile */
		s->exec->err = &r->err;
	pthread_cond_signal(&r->work);
	pthread_mutex_unlock(&r->lock);
	return RLX_OK;
}

static enum rlx_status not_done(struct rlx_session *s, uint64_t point)
{
	return rlx_fail(&s->err, RLX_ETIME, "wait: the run of point %llu goes on; wait again",
			(unsigned long long)point);
}

static enum rlx_status bad_point(struct rlx_session *s, uint64_t point)
{
	if (!s->runner.asked)
		return rlx_fail(&s->err, RLX_EINVAL, "wait: there is no point %llu, nothing was "
				"submitted yet; rlx_session_submit() gives one",
				(unsigned long long)point);
	return rlx_fail(&s->err, RLX_EINVAL, "wait: there is no point %llu, the last run "
			"submitted is %llu; wait for a point that rlx_session_submit() gave for "
			"this session", (unsigned long long)point,
			(unsigned long long)s->runner.asked);
}

/* On the runner, whose lock is held. */
static void wait_done(struct rlx_runner *r, uint64_t point, int64_t timeout_ns)
{
	struct timespec until = rlx_deadline(timeout_ns);
	int e = 0;

	while (r->finished < point && e != ETIMEDOUT)
		e = rlx_cond_wait(&r->done, &r->lock, timeout_ns, &until);
}

enum rlx_status rlx_session_wait(struct rlx_session *s, uint64_t point,
				 int64_t timeout_ns)
{
	struct rlx_runner *r;
	enum rlx_status st;

	if (!s)
		return RLX_EINVAL;
	r = &s->runner;
	if (s->err.status)
		s->err = (struct rlx_error){ 0 };
	if (!point || point > r->asked)
		return bad_point(s, point);
	if (r->away && point == r->asked && collect(s, timeout_ns))
		return not_done(s, point);
	pthread_mutex_lock(&r->lock);
	wait_done(r, point, timeout_ns);
	if (r->finished < point) {
		st = not_done(s, point);
	} else {
		st = r->result;
		if (st && r->err.status == st)
			s->err = r->err;
	}
	pthread_mutex_unlock(&r->lock);
	return st;
}

void rlx_runner_fini(struct rlx_session *s)
{
	struct rlx_runner *r = &s->runner;

	if (r->away)
		collect(s, -1);
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
