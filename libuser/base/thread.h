/* SPDX-License-Identifier: MIT */
/* Threads that the library starts in somebody's program. */
#ifndef RLX_BASE_THREAD_H
#define RLX_BASE_THREAD_H

#include <pthread.h>

/*
 * pthread_create() of a thread that takes no signals: they are the program's business, not
 * its libraries', but for those that a thread brings upon itself. 0 or an errno value.
 */
int rlx_thread_new(pthread_t *out, void *(*fn)(void *), void *arg);

#endif
