/* SPDX-License-Identifier: MIT */
/* A communicator's own struct, and what ranks of a host have in common. */
#ifndef RLX_TRAIN_COMM_H
#define RLX_TRAIN_COMM_H

#include <pthread.h>
#include <stdatomic.h>

#include "rlx/comm.h"

enum {
	COMM_WORD = 128,		/* bytes that a rank tells the others when they meet */
	COMM_WHY = 200,
	COMM_SLOT = 4 << 20,		/* bytes of a tensor that are summed at once */
	COMM_MOST = 256,		/* ranks of a host */
};

enum comm_rank_state { COMM_ABSENT, COMM_HERE, COMM_LEFT };

/* What a rank is about to do; the same on all. */
struct comm_tag {
	uint32_t	what, dtype;
	uint64_t	count;
};
enum { COMM_BARRIER, COMM_SUM, COMM_SCATTER, COMM_GATHER, COMM_BROADCAST, COMM_AGREE, COMM_JOIN };

/* In shared memory. A rank writes its own; [2]: the next meeting must not overwrite this one's. */
struct comm_seat {
	_Atomic uint32_t	state;		/* enum comm_rank_state */
	uint32_t		pid;
	uint64_t		pid_space;	/* a number of pid is another's elsewhere */
	_Atomic uint32_t	met;		/* meetings that it came to */
	_Atomic uint64_t	sums;		/* that it began on a device */
	struct comm_tag		tag[2];
	char			word[2][COMM_WORD];
};

struct comm_shared {
	uint64_t		magic;
	uint32_t		ranks, slot;
	_Atomic uint32_t	arrived;
	_Atomic uint32_t	meeting;	/* a futex: how many there were */
	_Atomic uint32_t	failing, failed;	/* who writes why; it is written */
	int32_t			status;
	char			why[COMM_WHY];
	struct comm_seat	seat[];
};

struct nccl;
struct rlx_comm {
	struct rlx_collective	 collective, idle;
	int			 kind;
	uint64_t		 timeout;
	struct rlx_arena	*arena;
	struct comm_shared	*sh;
	char			*slots;		/* of each rank, then of the sum */
	int			 pidfd[COMM_MOST];
	uint32_t		 meetings;
	struct rlx_error	 err;
	struct nccl		*nccl;		/* comm_nccl.c */
};

/* ---- comm_find.c ---- */

/* What the environment says: rank 0 of 1 if no launcher does. */
enum rlx_status comm_launched(unsigned int *rank, unsigned int *ranks, struct rlx_error *err);
/* Which rank of how many by @o or the environment; get the arena where they meet, and sit down. */
enum rlx_status comm_find(struct rlx_comm *c, const struct rlx_comm_opts *o,
			  struct rlx_error *err);

/* ---- comm_shared.c ---- */

uint64_t comm_shared_bytes(unsigned int ranks);
void comm_shared_init(void *base, unsigned int ranks);
/* Look at the arena and take this rank's seat. */
enum rlx_status comm_sit_down(struct rlx_comm *c, struct rlx_error *err);
void comm_stand_up(struct rlx_comm *c);
/* Wait for all, each of which has the same @tag. NULL @word: none. */
enum rlx_status comm_meet(struct rlx_comm *c, struct comm_tag tag, const void *word,
			  size_t bytes);
/* What rank @r told at the last meeting. */
const void *comm_word(const struct rlx_comm *c, unsigned int r);
/* Has a rank died, left or failed? Then c->err says so, here and to the others. */
enum rlx_status comm_look(struct rlx_comm *c);
/* Open the pidfds of all, while those pids can be no others'. */
void comm_watch(struct rlx_comm *c);
/*
 * Of the time between two looks, what does not count as waiting: a process that was stopped
 * itself (SIGSTOP, a suspended machine) knows nothing of the others.
 */
static inline uint64_t comm_stopped(uint64_t was, uint64_t now)
{
	return now - was > 1000000000 ? now - was : 0;
}

/* It fails with who is not here. */
enum rlx_status comm_too_late(struct rlx_comm *c);
/* The first failure is kept, and the others are told. */
enum rlx_status comm_failed(struct rlx_comm *c, enum rlx_status st, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* In host memory. Of the latter two @count is that of each rank's part. */
enum rlx_status comm_sum(struct rlx_comm *c, const void *src, void *dst, uint64_t count,
			 enum rlx_dtype dtype);
enum rlx_status comm_scatter(struct rlx_comm *c, const void *src, void *dst, uint64_t count,
			     enum rlx_dtype dtype);
enum rlx_status comm_gather(struct rlx_comm *c, const void *src, void *dst, uint64_t bytes);

/* ---- comm_nccl.c ---- */

enum rlx_status comm_nccl_open(struct rlx_comm *c, struct rlx_error *err);
/* Once all are there: rank 0's id to all. */
enum rlx_status comm_nccl_begin(struct rlx_comm *c);
/* @what: COMM_SUM, COMM_SCATTER or COMM_GATHER. */
enum rlx_status comm_nccl_run(struct rlx_comm *c, int what, const struct rlx_reduction *r);
enum rlx_status comm_nccl_ended(struct rlx_comm *c);
void comm_nccl_close(struct rlx_comm *c);

#endif
