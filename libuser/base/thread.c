// SPDX-License-Identifier: MIT
/* Starting threads that leave signals to the program. */
#include <signal.h>

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
