/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The life of requests: a queue's slots, lent to channels, and the table of what
 * each event does to each state. Pure: no allocation, no user memory, no sleep, no
 * file; what must happen outside the lock comes back as a record.
 *
 * A queue (struct rlx_slots) owns an array of `depth` slots; the index is the tag
 * the executor sees. A channel (struct rlx_lane) borrows a fixed number of slots
 * while it is open, so no client can take another's place nor see its traffic in
 * its own tags. Executors fetch from lanes in turn, `quantum` requests a turn.
 *
 * Locking: one spinlock a queue, q->lock, irqsave, because fence callbacks enter.
 * It protects the queue, its slots and every lane opened on it; there is no lock
 * per channel. A lock for each channel would make things worse: fetch and commit
 * walk tags of many channels, so they would take the queue's lock and then one for
 * each channel, where here a batch of 64 takes one lock once; and submit and reap
 * would still need the queue's lock to make a request visible or to return a slot.
 * Every critical section is short and bounded: the `max` of a call bounds it, the
 * heap adds log2(depth) steps. A service that needs more parallelism has more
 * queues. Every function here is called with q->lock held unless it says other-
 * wise, and none of them calls out.
 *
 * Nothing may be done with a record but after unlocking, except to take a reference
 * on what record.lane is part of (a lane may drain as soon as the lock is dropped).
 */
#ifndef RLX_SLOT_H
#define RLX_SLOT_H

#include "pure.h"

#define RLX_SLOTS_DEPTH_MAX	4096	/* slots of one queue */
#define RLX_LANE_ARENAS		256	/* attachments of one channel */

enum rlx_slot_state {
	RLX_SLOT_FREE,		/* nobody's; on its lane's, or the pool's, list */
	RLX_SLOT_TAKEN,		/* its submitter fills the descriptor */
	RLX_SLOT_WAITING,	/* points not reached yet */
	RLX_SLOT_READY,		/* may be fetched */
	RLX_SLOT_DELIVERED,	/* the executor of generation slot->gen has it */
	RLX_SLOT_ORPHAN,	/* the same, but nobody wants the result */
	RLX_SLOT_DONE,		/* result waits to be reaped */
	RLX_SLOT_STATES
};

enum rlx_slot_event {
	RLX_EV_TAKE,		/* a submitter wants a slot */
	RLX_EV_DROP,		/* it failed to fill it, or the queue refused */
	RLX_EV_SUBMIT,		/* filled, nothing to wait for */
	RLX_EV_SUBMIT_WAIT,	/* filled, points to wait for */
	RLX_EV_POINTS_MET,
	RLX_EV_POINTS_FAIL,	/* a timeline was poisoned, a fence failed */
	RLX_EV_FETCH,
	RLX_EV_UNDELIVER,	/* fetched, but the executor could not be told */
	RLX_EV_COMMIT,
	RLX_EV_CANCEL,		/* the client asked */
	RLX_EV_ABANDON,		/* the parked command must go: its ring dies */
	RLX_EV_DEADLINE,
	RLX_EV_CLIENT_GONE,
	RLX_EV_EXEC_GONE_REQUEUE, /* executor died, RECOVER_REQUEUE */
	RLX_EV_EXEC_GONE_FAIL,	/* executor died, RECOVER_FAIL */
	RLX_EV_SERVICE_GONE,	/* and no other will ever come */
	RLX_EV_REAP,
	RLX_SLOT_EVENTS
};

/* What the caller does with a record after unlocking. */
enum rlx_slot_act {
	RLX_ACT_CMD	= 1 << 0, /* complete .cmd with .result and .aux: it is yours */
	RLX_ACT_WAIT	= 1 << 1, /* .wait is yours: detach it where still attached, free */
	RLX_ACT_REAP	= 1 << 2, /* a result waits: wake reapers of .lane */
	RLX_ACT_FETCH	= 1 << 3, /* a request is ready: wake a fetcher of the queue */
	RLX_ACT_SPACE	= 1 << 4, /* .lane has a free slot again: wake submitters */
	RLX_ACT_HINT	= 1 << 5, /* tell the executor (desc.flags) it is not wanted */
	RLX_ACT_TIMER	= 1 << 6, /* rlx_slots_next_deadline() became earlier */
	RLX_ACT_DRAINED	= 1 << 7, /* .lane gave its last slot back, once in its life */
	RLX_ACT_COPY	= 1 << 9, /* .copy is yours: free it */
	RLX_ACT_RESULT	= 1 << 8, /* .result is for the ring of .lane; before unlocking */
};

/* A set of attachments. Of .word only those are written that .words names. */
struct rlx_leases {
	unsigned long		word[BITS_TO_LONGS(RLX_LANE_ARENAS)];
	u32			words;	/* a bit each; 0: the empty set */
};

static inline void rlx_leases_add(struct rlx_leases *l, u32 index)
{
	u32 at = index / BITS_PER_LONG, bit = 1U << at;

	if (!(l->words & bit)) {
		l->words |= bit;
		l->word[at] = 0;
	}
	l->word[at] |= 1UL << index % BITS_PER_LONG;
}

struct rlx_lane;
struct rlx_slots;

/*
 * Of a parked command and a request's wait object only the address is known here.
 * The first half is what every event needs: one line of the cache.
 */
struct rlx_slot {
	struct list_head	node;	/* lane->list[state], or the pool */
	struct rlx_lane		*lane;	/* whose it is; stale while in the pool */
	void			*cmd;	/* parked command to complete, NULL: a result
					   is to be reaped; taken by claim only */
	void			*wait;	/* points; set while WAITING; leaves in a record */
	u64			seq;	/* generation: +1 at each TAKE */
	u16			tag;	/* its index, set once */
	u16			heap;	/* 1 + index in q->heap, 0 if not there */
	u32			gen;	/* delivered to; q->gen while it is, see attach */
	s32			result;
	u8			state;	/* enum rlx_slot_state */

	u64			deadline; /* absolute ns, 0 none */
	u64			user_data;
	u64			aux;	/* of the result */
	void			*copy;	/* what else it names; leaves with the leases */
	struct rlx_leases	lease;	/* attachments named */
};

/* A channel's share of a queue. Embedded in the channel; see rlx_lane_open(). */
struct rlx_lane {
	struct rlx_slots	*q;
	struct list_head	all;	/* q->lanes */
	struct list_head	turn;	/* q->turns while it has READY slots */
	struct list_head	list[RLX_SLOT_STATES];
	u32			nr[RLX_SLOT_STATES];
	u32			depth;	/* slots it holds: the sum of nr[] */
	u32			quantum; /* requests fetched a turn */
	u32			left;	/* of this turn */
	bool			ring;	/* of who opened it: ends give RLX_ACT_RESULT */
	bool			shut;	/* takes no more requests */
	bool			drained;
	u64			call;	/* q->call when .told was written */
	u32			told;	/* wakes asked for in that call */
	u32			leases[RLX_LANE_ARENAS]; /* requests naming each */
};

struct rlx_slots {
	spinlock_t		lock;	/* all below, the slots, and the lanes */
	struct rlx_slot		*slot;
	u32			*heap;	/* tags, earliest deadline first */
	u32			nr_heap;
	u32			depth;
	struct list_head	pool;	/* slots no lane holds */
	u32			nr_pool;
	struct list_head	lanes;
	struct list_head	turns;	/* lanes with READY slots, next first */
	u32			nr_ready; /* of all lanes */
	u32			gen;	/* service generation, 0 before the first */
	bool			live;	/* an executor of that generation is there */
	bool			requeue; /* RECOVER_REQUEUE */
	bool			gone;	/* no executor will ever come again */
	u64			call;	/* number of the call under way */
};

/*
 * What one transition leaves to do. Wakes (REAP, FETCH, SPACE) stand at most once a
 * lane and call, however many records the call writes.
 */
struct rlx_slot_out {
	void		*cmd;
	void		*wait;
	void		*copy;
	struct rlx_lane	*lane;	/* NULL where err */
	u64		seq;
	u64		aux;
	u32		tag;
	s32		result;
	u32		acts;	/* enum rlx_slot_act */
	int		err;	/* 0, or why nothing happened; see the table */
};

/* One element of a commit; the layout is that of the uapi's rlx_complete. */
struct rlx_slot_commit {
	u64	seq;
	u64	aux;
	u32	tag;
	s32	result;
};

/* A delivered request. */
struct rlx_slot_ref {
	u64	seq;
	u32	tag;
};

struct rlx_slot_result {
	u64	seq;
	u32	tag;
	s32	result;
	u64	aux;
	u64	user_data;
};

/* ---- the queue ---- */

/*
 * @slot, @heap: arrays of @depth (1..RLX_SLOTS_DEPTH_MAX) elements, zeroed, the
 * caller's, alive as long as @q. Called before anybody else knows @q. -EINVAL.
 */
int rlx_slots_init(struct rlx_slots *q, struct rlx_slot *slot, u32 *heap,
		   u32 depth, bool requeue);

/*
 * An executor is there. @gen must be greater than any before (-EINVAL). -EBUSY
 * while one is there, or rlx_slots_bury() has work; -EPIPE after detach(gone).
 * The caller wakes fetchers if rlx_slots_ready().
 */
int rlx_slots_attach(struct rlx_slots *q, u32 gen);

/*
 * The executor died: from now on its generation fetches and commits nothing. Then
 * rlx_slots_bury() until it returns false. @gone: no other will come, everything
 * outstanding fails; without it WAITING requests stay, and in RECOVER_REQUEUE the
 * READY and DELIVERED ones become READY again in the order they were submitted.
 */
void rlx_slots_detach(struct rlx_slots *q, bool gone);
/* At most @max transitions into @out, *@n of them; true: unlock, act, call again. */
bool rlx_slots_bury(struct rlx_slots *q, struct rlx_slot_out *out, u32 max, u32 *n);

static inline u32 rlx_slots_ready(const struct rlx_slots *q)
{
	return READ_ONCE(q->nr_ready);	/* the lock is not needed */
}

/* Slots of all lanes in @state; O(lanes). */
u32 rlx_slots_count(const struct rlx_slots *q, enum rlx_slot_state state);

/*
 * Delivers at most @max READY requests to generation @gen, lanes in turn; returns
 * how many were written. -EPIPE if @gen is not the live one.
 */
int rlx_slots_fetch(struct rlx_slots *q, u32 gen, struct rlx_slot_ref *ref, u32 max);

/*
 * Takes back what was fetched but could not be told to the executor: each request
 * goes to the head of its lane, their order kept. Those committed meanwhile, or of
 * a dead generation, are let be. @n records: err is 0 or -ESTALE.
 */
void rlx_slots_undeliver(struct rlx_slots *q, u32 gen, const struct rlx_slot_ref *ref,
			 u32 n, struct rlx_slot_out *out);

/*
 * Wakes stand once a lane in all that rlx_slots_commit() writes from here on. What
 * else writes records begins a call of its own.
 */
static inline void rlx_slots_begin(struct rlx_slots *q)
{
	q->call++;
}

/*
 * Commits @n elements, each on its own: out[i].err is 0, or -ESTALE for what
 * generation @gen does not hold. Returns how many succeeded; -EPIPE, with nothing
 * written, if @gen is not the live one. Tags may come from user space unchecked.
 */
int rlx_slots_commit(struct rlx_slots *q, u32 gen, const struct rlx_slot_commit *in,
		     u32 n, struct rlx_slot_out *out);

/* The earliest deadline of a request not yet delivered; U64_MAX if there is none. */
u64 rlx_slots_next_deadline(const struct rlx_slots *q);
/* Ends at most @max requests whose deadline is <= @now; returns how many. */
u32 rlx_slots_expire(struct rlx_slots *q, u64 now, struct rlx_slot_out *out, u32 max);

/* NULL, or which invariant of S1..S3 (or of the lists) is broken. O(depth), debug. */
const char *rlx_slots_check(const struct rlx_slots *q);

/* ---- a channel's share ---- */

/*
 * Borrows @depth (>= 1) slots. -ENOSPC if the pool has fewer; @quantum >= 1. Where
 * lane->ring is set afterwards, results are not reaped: each leaves in the record of
 * its end, with RLX_ACT_RESULT, and until unlocking the slot has its user_data.
 */
int rlx_lane_open(struct rlx_slots *q, struct rlx_lane *lane, u32 depth, u32 quantum);

/*
 * The client died. At most @max transitions into @out, *@n of them. The caller
 * unlocks, acts, and calls again while it says MORE.
 */
enum rlx_lane_end {
	RLX_LANE_MORE,
	RLX_LANE_LATER,		/* requests still out: RLX_ACT_DRAINED will come */
	RLX_LANE_DRAINED,	/* nothing refers to the lane; no ACT_DRAINED comes */
};
enum rlx_lane_end rlx_lane_close(struct rlx_lane *lane, struct rlx_slot_out *out,
				 u32 max, u32 *n);

/*
 * Takes at most @max (>= 1) slots to fill; how many. Their tags and seqs are set, so
 * the caller may write the descriptors, under the lock or outside. He writes each
 * slot's .user_data, .deadline and .lease, and .cmd, .wait and .copy, which are NULL,
 * where there is one. -EPIPE (lane shut, executor gone without RECOVER_REQUEUE), -ENOTCONN
 * (never was one), -EAGAIN (no slot is free). Each ends with rlx_slots_submit() or
 * rlx_slot_drop().
 */
int rlx_lane_take(struct rlx_lane *lane, struct rlx_slot **slot, u32 max);

/* Results in the order they came; returns how many. peek() leaves them. */
u32 rlx_lane_peek(struct rlx_lane *lane, struct rlx_slot_result *res, u32 max);
u32 rlx_lane_reap(struct rlx_lane *lane, struct rlx_slot_result *res, u32 max);

static inline u32 rlx_lane_done(const struct rlx_lane *lane)
{
	return READ_ONCE(lane->nr[RLX_SLOT_DONE]);	/* the lock is not needed */
}

/* May a take() succeed now? The lock is not needed. */
static inline bool rlx_lane_space(const struct rlx_lane *lane)
{
	return READ_ONCE(lane->nr[RLX_SLOT_FREE]) != 0;
}

/* Requests, from TAKEN+submit to their end, that name attachment @index. */
static inline u32 rlx_lane_leases(const struct rlx_lane *lane, u32 index)
{
	return index < RLX_LANE_ARENAS ? READ_ONCE(lane->leases[index]) : 0;
}

/* ---- one request ---- */

static inline u32 rlx_slot_tag(const struct rlx_slots *q, const struct rlx_slot *s)
{
	return s->tag;
}

/*
 * Of TAKEN slots of @lane, filled by who took them: each WAITING or READY, in order.
 * 0, or those of take but -EAGAIN, and then nothing happened: drop them. @out: for all
 * of them .acts, which are only wakes, and .lane.
 * The descriptors are published (their seqs stored with release) before.
 */
int rlx_slots_submit(struct rlx_lane *lane, struct rlx_slot *const *slot, u32 n,
		     struct rlx_slot_out *out);
/* TAKEN -> FREE. Its .cmd, .wait and .copy stay the caller's. */
void rlx_slot_drop(struct rlx_slots *q, struct rlx_slot *s, struct rlx_slot_out *out);

/*
 * The points were met (@err 0) or never will be (@err < 0). out->wait comes back to
 * the caller here too. -ESTALE if the request is not waiting any more.
 */
int rlx_slot_points(struct rlx_slots *q, u32 tag, u64 seq, int err,
		    struct rlx_slot_out *out);

/*
 * The client's wish. 0: it ends with -ECANCELED. -EALREADY: delivered, it will end
 * by its executor (record: RLX_ACT_HINT). -ESTALE: not a running request of @lane.
 */
int rlx_slot_cancel(struct rlx_lane *lane, u32 tag, u64 seq, struct rlx_slot_out *out);

/*
 * The parked command must go now, whatever its request does. 0: the caller has it
 * (RLX_ACT_CMD, -ECANCELED). -ESTALE: somebody else claimed @cmd and completes it.
 */
int rlx_slot_abandon(struct rlx_slots *q, u32 tag, u64 seq, void *cmd,
		     struct rlx_slot_out *out);

/* Whoever gets non-NULL completes the command, nobody else does. */
void *rlx_slot_claim_cmd(struct rlx_slot *s);

#endif
