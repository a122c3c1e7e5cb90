/* SPDX-License-Identifier: MIT */
/* Threads that the library starts in somebody's program, and waits that end in time. */
#ifndef RLX_BASE_THREAD_H
#define RLX_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/*
 * pthread_create() of a thread that takes no signals: they are the program's business, not
 * its libraries', but for those that a thread brings upon itself. 0 or an errno value.
 */
int rlx_thread_new(pthread_t *out, void *(*fn)(void *), void *arg);

/*
 * For loops that spin: the other thread of the core, and the bus, have a moment. On ARM by ISB,
 * which takes about as long as PAUSE; YIELD does nothing where there are no such threads.
 */
static inline void rlx_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

/* A condition whose deadlines are of the clock of rlx_now(). */
void rlx_cond_init(pthread_cond_t *c);
/* @ns from now; now if that is below 0. */
struct timespec rlx_deadline(int64_t ns);
/*
 * Wait on such a one, with @lock held, until it is woken (0) or @deadline, which is
 * rlx_deadline(@timeout_ns), has passed (an errno value). Below 0 it does not pass, 0 polls.
 */
int rlx_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t timeout_ns,
		  const struct timespec *deadline);

#endif
