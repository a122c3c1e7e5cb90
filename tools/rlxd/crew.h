/* SPDX-License-Identifier: MIT */
/* Threads that do what would hold up a loop. */
#ifndef RLXD_CREW_H
#define RLXD_CREW_H

#include "rlx/status.h"

struct crew;

struct task {
	void		(*fn)(struct task *t);
	struct task	*next;
};

enum rlx_status __rlx_must_check crew_open(unsigned int threads, struct crew **out,
					   struct rlx_error *err);
/* So that there are at least @threads. */
enum rlx_status __rlx_must_check crew_grow(struct crew *c, unsigned int threads,
					   struct rlx_error *err);
void crew_post(struct crew *c, struct task *t);
/* Does what is posted, then ends the threads. NULL is fine. */
void crew_close(struct crew *c);

#endif
