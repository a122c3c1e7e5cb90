/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Channels: a client's end, with what it attached and its share of a queue.
 *
 * Locking order, outermost first. Nothing is taken from right to left.
 *
 *	ch->reap_lock		mutex	who takes results; user memory, without faults
 *	uring_lock (io_uring's, around ->uring_cmd and task work)
 *	  svc->lock		mutex	who is executor, the table of channels
 *	    ch->lock		mutex	attach against detach
 *	      tl->lock		irq	a timeline's, around the wake of a waiter
 *	        q->slots.lock	irq	slots, lanes, rings, events, parked commands
 *	          wait queue locks
 *
 * - One lock a queue: submit, fetch, commit, reap, cancel take it alone, and
 *   nothing else of ours, so there is no order between requests of two queues.
 * - Under q->slots.lock nothing sleeps, allocates, touches user memory, completes
 *   a command or calls a timeline. What is left to do then leaves in records
 *   (struct rlx_slot_out) and a struct rlx_todo, and is done by rlx_queue_act().
 * - A parked command belongs to whoever took it away under that lock: from the
 *   slot (rlx_slot_claim_cmd) or from q->fetchers (list_del_init). The owner posts
 *   task work, and only the task work completes the command; the cancel callback,
 *   being called with uring_lock held, completes what it could claim itself.
 * - Nobody waits for a peer: release marks, tells and goes; what must wait for
 *   others (requests still out, a grace period) goes on in rlx_dev.wq.
 *
 * Lifetimes. The file of a channel holds `use`, and so does its lane until the
 * last slot came back. When both are gone, a work item gives back attachments and
 * ring, and tells the executor (RLX_EVENT_GONE); the table keeps the channel until
 * the executor has read that, or died. `ref` keeps the struct, RCU what acts on a
 * record whose lane might just have drained.
 */
#ifndef RLX_CHANNEL_H
#define RLX_CHANNEL_H

#include "service.h"

struct rlx_arena;
struct rlx_timeline;

/* An attachment that requests can name; index = handle & 0xff. */
#define RLX_ATTACH_INDEX(handle)	((handle) & (RLX_LANE_ARENAS - 1))
#define RLX_ATTACH_GENERATIONS		(1U << 24)

enum rlx_attach_state {
	RLX_ATTACH_FREE,
	RLX_ATTACH_ARENA,
	RLX_ATTACH_TIMELINE,
	RLX_ATTACH_NEWS,	/* detached, and the executor has to hear of it */
};

struct rlx_attachment {
	u32 handle;		/* of the last use; its high bits count up */
	u8 state;		/* enum rlx_attach_state */
	u8 access;
	bool seen;		/* the executor has an fd of it */
	u64 size;
	union {
		struct rlx_arena *arena;
		struct rlx_timeline *timeline;
	};
};

struct rlx_channel {
	struct rlx_lane lane;		/* (q) */
	struct rlx_queue *q;
	struct rlx_service *svc;	/* holds a reference */
	struct rlx_ringbuf *ring;	/* with RLX_CHANNEL_RING; words under (q) */
	/*
	 * [RLX_LANE_ARENAS], NULL in the end. What can be named is written with both
	 * ch->lock and the queue's lock held, and read with one of them; .seen, and
	 * RLX_ATTACH_NEWS to FREE, need the queue's lock alone.
	 */
	struct rlx_attachment *att;
	wait_queue_head_t wait;		/* who reaps or waits for room */
	u32 id;
	u32 depth;
	u32 flags;
	kuid_t uid;			/* of the session: whose share it comes from */
	unsigned long died;		/* jiffies; set before the lane is shut */
	bool gone;			/* (q), svc->lock: no request of it is left */
	bool erased;			/* (q) out of the table: no news any more */
	struct list_head event;		/* (q) in q->events */
	u32 next_index;			/* ch->lock: where to look for a free one */
	struct mutex lock;		/* see att */
	/*
	 * Held between a look at results and the taking, over copying them to user
	 * memory that is there: page faults are off.
	 */
	struct mutex reap_lock;
	struct kref use;
	struct kref ref;
	u64 user_tag;
	struct rlx_session *session;	/* holds a reference until it is gone */
	struct work_struct drained;
	struct rcu_head rcu;
};

static inline struct rlx_channel *rlx_lane_channel(struct rlx_lane *lane)
{
	return container_of(lane, struct rlx_channel, lane);
}

/* ---- channel.c ---- */

long rlx_channel_connect(struct rlx_call *call);	/* on a session */
void rlx_channel_put(struct rlx_channel *ch);		/* any context */
void rlx_channel_put_use(struct rlx_channel *ch);	/* any context */
/* With a reference, or NULL. */
struct rlx_channel *rlx_channel_find(struct rlx_service *svc, u32 id);
/* The table forgets it, and what there was to tell of it; svc->lock held. */
void rlx_channel_erase(struct rlx_channel *ch);
/* Lock of the queue held: the executor shall look at it, unless it is erased. */
void rlx_channel_news(struct rlx_channel *ch, struct rlx_todo *todo);

extern const struct file_operations rlx_channel_fops;

/* ---- attach.c ---- */

long rlx_channel_attach(struct rlx_call *call);
void rlx_channel_attach_undo(struct rlx_call *call);
long rlx_channel_detach(struct rlx_call *call);
void rlx_channel_drop_attachments(struct rlx_channel *ch);
/* Either lock held: whether a request may name @s. */
int rlx_channel_check_slice(struct rlx_channel *ch, const struct rlx_slice *s);
/* @nr slices out of the range of an arena. */
int rlx_channel_copy_slices(struct rlx_channel *ch, const struct rlx_slice *range,
			    struct rlx_slice *to, u32 nr);
/* By handle, with a reference. */
struct rlx_timeline *rlx_channel_timeline(struct rlx_channel *ch, u32 handle);
/* Queue's lock held: the executor is gone, it needs no news. */
void rlx_channel_forget_news(struct rlx_channel *ch);
long rlx_executor_arena(struct rlx_call *call);
long rlx_executor_events(struct rlx_call *call);

/* ---- submit.c ---- */

/* A point that a WAITING request waits for. */
struct rlx_wait;

long rlx_channel_submit(struct rlx_call *call);
/*
 * One request, from user space or from @rq if that is not NULL; with @cmd it is
 * parked there. -errno, and then @cmd is still the caller's.
 */
int rlx_channel_submit_one(struct rlx_channel *ch, const struct rlx_rq __user *urq,
			   const struct rlx_rq *rq, struct io_uring_cmd *cmd);
/* What a record's .wait points to: taken back and freed. Not under any lock. */
void rlx_wait_end(struct rlx_wait *wait);
long rlx_executor_slices(struct rlx_call *call);

#endif
