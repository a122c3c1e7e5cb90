/* SPDX-License-Identifier: MIT */
/*
 * Threads that do what would hold up a loop. Runs of models come first, and always find a
 * thread: two at most read requests, and one at most a large one.
 */
#ifndef RLXD_CREW_H
#define RLXD_CREW_H

#include <stddef.h>

#include "rlx/status.h"

struct crew;

enum { CREW_READERS = 2, CREW_SLICE_NS = 5000000 };

struct task {
	void		(*fn)(struct task *t);
	struct task	*next;
};

enum rlx_status __rlx_must_check crew_open(unsigned int threads, struct crew **out,
					   struct rlx_error *err);
/* So that there are at least @threads: CREW_READERS and one for each replica. */
enum rlx_status __rlx_must_check crew_grow(struct crew *c, unsigned int threads,
					   struct rlx_error *err);
void crew_post(struct crew *c, struct task *t);
/*
 * Likewise, of a request of @bytes, whose reading begins or goes on: a task that takes
 * long is to stop after CREW_SLICE_NS and post itself again, behind those that wait.
 */
void crew_post_read(struct crew *c, struct task *t, size_t bytes);
/* Does what is posted, then ends the threads. NULL is fine. */
void crew_close(struct crew *c);

#endif
