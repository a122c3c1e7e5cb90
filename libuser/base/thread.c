// SPDX-License-Identifier: MIT
/* Starting threads that leave signals to the program, and waits with deadlines. */
#include <errno.h>
#include <signal.h>
#include <time.h>

#include "base/thread.h"

int rlx_thread_new(pthread_t *out, void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	int e;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);	/* blocked, they would end the program past its handler */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	e = pthread_create(out, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return e;
}

void rlx_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

struct timespec rlx_deadline(int64_t ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	if (ns > 0) {
		t.tv_sec += ns / 1000000000;
		t.tv_nsec += ns % 1000000000;
		t.tv_sec += t.tv_nsec / 1000000000;
		t.tv_nsec %= 1000000000;
	}
	return t;
}

int rlx_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t timeout_ns,
		  const struct timespec *deadline)
{
	if (!timeout_ns)
		return ETIMEDOUT;
	return timeout_ns < 0 ? pthread_cond_wait(c, lock) :
	       pthread_cond_timedwait(c, lock, deadline);
}
