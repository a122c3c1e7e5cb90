/* SPDX-License-Identifier: MIT */
/*
 * Requests that workers are to read, in fair order: of what waits, first what would be through
 * first if all clients, and all connections of each, were read at once. So a short one waits for
 * few others, and a long one for no more than its share. Guarded by its owner.
 */
#ifndef RLXD_READ_QUEUE_H
#define RLXD_READ_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct task;

/* Of two sizes, so that long ones need not take every thread. */
enum read_size { READ_SHORT, READ_LONG, READ_SIZES };

/* A client's share; zero at first. It lives for as long as a task of it waits. */
struct read_share {
	struct read_share	*next;
	struct task	*heap[READ_SIZES];
	unsigned int	 n;		/* tasks in them */
	uint64_t	 tag;		/* bytes that were read for it */
	uint64_t	 now;		/* what each of its connections had, if read at once */
};

struct read_queue {
	struct read_share *shares;	/* those with tasks */
	unsigned int	 n[READ_SIZES];
	uint64_t	 now;		/* likewise for clients; where one that comes begins */
};

/* @t, of t->share and new to the queue: it takes as long as so many bytes. */
void read_queue_put(struct read_queue *q, struct task *t, uint64_t bytes);
/* It was taken, and goes on where it stopped. */
void read_queue_put_back(struct read_queue *q, struct task *t);
bool read_queue_has(const struct read_queue *q, bool only_short);
/* The next one. There is one. */
struct task *read_queue_take(struct read_queue *q, bool only_short);

#endif
