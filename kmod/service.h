/* SPDX-License-Identifier: GPL-2.0-only */
/* Services, their queues, and executors. The locking order stands in channel.h. */
#ifndef RLX_SERVICE_H
#define RLX_SERVICE_H

#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/rlx.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "ring.h"
#include "slot.h"

struct file;
struct io_uring_cmd;
struct rlx_call;
struct rlx_executor;
struct rlx_service;

#define RLX_SERVICE_QUEUES_MAX		64
#define RLX_SERVICE_CHANNELS_MAX	1024
#define RLX_QUEUE_PARKED_MAX		256	/* FETCH commands of one queue */

/* Requests handled in one go under the lock; what it needs stays on the stack. */
#define RLX_CHUNK	8

/*
 * A parked FETCH or COMMIT_AND_FETCH. On q->fetchers it is everybody's to claim,
 * under the queue's lock; whoever did sees to it that the command is completed and
 * this freed, or parks it again.
 */
struct rlx_fetcher {
	struct list_head node;
	struct rlx_executor *ex;
	struct rlx_queue *q;
	struct io_uring_cmd *cmd;
	struct rlx_ioc_fetch req;
	bool claimed;			/* (q) not on the list */
	bool holds;			/* counted in ex->nr_holding */
	bool mshot;			/* tags as they come, in buffers of @buf_group */
	u16 buf_group;
};

/* Lock of the queue held, and @f on its list. */
static inline void rlx_fetcher_claim(struct rlx_fetcher *f)
{
	f->claimed = true;
	list_del_init(&f->node);
}

/**
 * struct rlx_queue - a queue of a service.
 * @slots: slots.lock protects all of @slots, and here what says (q)
 */
struct rlx_queue {
	struct rlx_slots slots;
	struct rlx_desc *desc;		/* set once; [depth], see rlx_slot.TAKEN */
	struct rlx_ringbuf *ring;	/* (q) of the executor, if it has one */
	struct list_head fetchers;	/* (q) */
	u32 nr_fetchers;		/* (q) parked, on the list or claimed */
	u32 nr_events;			/* (q) length of @events */
	struct list_head events;	/* (q) channels with news */
	u64 submitted, committed, cancelled; /* (q) */
	wait_queue_head_t wait;		/* who fetches; has its own lock */
	struct rlx_service *svc;	/* set once */
	u32 index;			/* set once */
	struct delayed_work timer;	/* for the earliest deadline */
	struct work_struct push;	/* what was too much for the ring at once */
	struct rlx_area area;		/* of @desc */
} ____cacheline_aligned_in_smp;

/**
 * struct rlx_service - what clients connect to.
 *
 * References: each fd, the executor, each channel. Its memory goes a grace period
 * after the last, so records may be acted on under rcu_read_lock() alone.
 */
struct rlx_service {
	struct kref ref;
	struct rcu_work free;
	struct list_head node;		/* in rlx_dev.services; rlx_dev.lock */
	u64 id;
	u64 user_tag;
	kuid_t owner;
	u32 flags;
	u32 max_slices;
	u32 user_slots;			/* of a queue, user_channels of all: 0 by rule */
	u32 user_channels;
	u32 orphan_ms;			/* how long requests of the dead may be held */
	u32 nr_queues;
	u32 depth;
	struct rlx_session *session;
	struct work_struct bury;	/* tells requests that their executor died */
	struct delayed_work orphans;	/* looks whether it hangs, see orphan_ms */
	wait_queue_head_t wait;		/* poll: changes of state */

	/*
	 * Protects what follows, and who is in @channels. Taken before a channel's
	 * and before a queue's lock; no user memory is touched under it.
	 */
	struct mutex lock;
	struct rlx_executor *exec;	/* also read without: state for poll */
	u32 generation;
	u32 writers;			/* fds that may make an executor */
	u32 next_channel;		/* where to look for a free id */
	u32 nr_channels;
	struct xarray channels;		/* by id; looked up under RCU */

	struct rlx_queue queue[];
};

/**
 * struct rlx_executor - who fetches and commits, for one generation.
 *
 * The struct lives as long as its file: fds, mappings and parked commands hold that.
 * In office it is (svc->exec) no longer than fds and mappings are there.
 */
struct rlx_executor {
	struct rlx_service *svc;
	struct pid *owner;		/* who attached it; for the reader of lists */
	u32 gen;
	u32 flags;
	atomic_t nr_holding;		/* parked commands with a reference to the file */
	struct rlx_ringbuf *ring;	/* [nr_queues] with RLX_EXEC_RING */
};

/*
 * The queue of that index, or NULL. Every index of user space comes this way: a
 * mispredicted check must not pass either.
 */
static inline struct rlx_queue *rlx_service_queue(struct rlx_service *svc, u32 index)
{
	if (index >= svc->nr_queues)
		return NULL;
	return &svc->queue[array_index_nospec(index, svc->nr_queues)];
}

/* ---- service.c ---- */

long rlx_service_create(struct rlx_call *call);		/* on a session */
u32 rlx_service_state(struct rlx_service *svc);		/* RLX_SERVICE_* */
long rlx_service_fill_info(struct rlx_service *svc, struct rlx_ioc_service_info *info);

struct rlx_service *rlx_service_get(struct rlx_service *svc);
void rlx_service_put(struct rlx_service *svc);		/* any context */
/* By fd, with a reference; -EBADF, -EINVAL. */
struct rlx_service *rlx_service_get_fd(int fd);
/* A channel died with requests out: their executor has orphan_ms to commit them. */
void rlx_service_mourn(struct rlx_service *svc);
/* No executor is there (@gone: nor will be): requests are told. svc->lock held. */
void rlx_service_lose(struct rlx_service *svc, bool gone);

/* ---- queue.c ---- */

/* What a section under the queue's lock leaves for afterwards. Zero it first. */
struct rlx_todo {
	struct rlx_fetcher *fetcher;	/* claimed: wake it */
	bool wake;			/* sleeping fetchers have reason to look */
};

int rlx_queue_init(struct rlx_queue *q, struct rlx_service *svc, u32 index);
void rlx_queue_fini(struct rlx_queue *q);

/*
 * Lock held: takes at most @max events and requests for generation @gen; how many,
 * none where there are less than @min. Events have RLX_TAG_EVENT in .tag, and .seq
 * 0. -EPIPE, before anything is counted.
 */
int rlx_queue_pop(struct rlx_queue *q, u32 gen, struct rlx_slot_ref *ref, u32 min,
		  u32 max);
/* Lock held: hands what is ready to the ring or to somebody who waits for it. */
void rlx_queue_kick(struct rlx_queue *q, struct rlx_todo *todo);
/* The same without the lock: the next one may want what one left, or could not take. */
void rlx_queue_pass_on(struct rlx_queue *q);
/* Lock held: results go into rings; a part of rlx_queue_settle() that may come first. */
void rlx_queue_put_results(struct rlx_queue *q, struct rlx_slot_out *out, u32 n);
/* Lock held: what records ask for that must happen under it. */
void rlx_queue_settle(struct rlx_queue *q, struct rlx_slot_out *out, u32 n,
		      struct rlx_todo *todo);
/*
 * No lock: the rest of it. The rcu_read_lock() under which this runs was taken
 * before the lock was.
 */
void rlx_queue_act(struct rlx_queue *q, struct rlx_slot_out *out, u32 n,
		   const struct rlx_todo *todo);
/* Lock held: tells the executor that nobody waits for the result. */
void rlx_queue_unwanted(struct rlx_queue *q, u32 tag);
/* Lock held: whether a fetch of @min would find them, or an error to tell. */
bool rlx_queue_has(struct rlx_queue *q, u32 min);
/* Requests and events that a fetch would find now. Any context. */
u32 rlx_queue_ready(struct rlx_queue *q);

/* What a queue can be asked about. */
struct rlx_queue_counts {
	u32 ready, delivered, parked;	/* requests, requests, fetchers */
	u64 submitted, committed, cancelled;
};
void rlx_queue_count(struct rlx_queue *q, struct rlx_queue_counts *c);
/* Tells all requests that the executor died; process context. */
void rlx_queue_bury(struct rlx_queue *q);

/*
 * Until @done(@arg), a signal or *@deadline (-ETIME; NULL: none). @done may be called more
 * than once, and may not sleep. The signal is -ERESTARTSYS without a deadline: the call is
 * made again, but for a handler without SA_RESTART (-EINTR); with one, -ERESTARTNOHAND: it
 * is made again where no handler ran, and else -EINTR. For that the caller leaves
 * rlx_time_left() in the command's struct, whose row has RLX_IOCTL_LEFT.
 */
int rlx_sleep(wait_queue_head_t *wq, bool exclusive, const ktime_t *deadline,
	      bool (*done)(void *arg), void *arg);

/* When a timeout of @ns from now is over, and what is left of it until then. */
static inline ktime_t rlx_time_due(u64 ns)
{
	return ktime_add_safe(ktime_get(), min_t(u64, ns, KTIME_MAX));
}

static inline u64 rlx_time_left(ktime_t due)
{
	return max_t(s64, ktime_to_ns(ktime_sub(due, ktime_get())), 0);
}

/* ---- executor.c ---- */

/*
 * The executor, if there is one, is as good as dead: it fetches and commits no more,
 * its requests are told, the next one may come. svc->lock held.
 */
void rlx_executor_retire(struct rlx_service *svc);

long rlx_executor_attach(struct rlx_call *call);	/* on a service */
/*
 * The parts uring.c uses. Commit: how many, or -errno. Fetch without waiting:
 * tags copied, -EAGAIN where less than @req->min are there, -errno.
 */
long rlx_executor_commit(struct rlx_executor *ex, const struct rlx_ioc_commit *c);
int rlx_executor_check_fetch(struct rlx_executor *ex, const struct rlx_ioc_fetch *req);
long rlx_executor_take(struct rlx_executor *ex, const struct rlx_ioc_fetch *req);
/*
 * The tags of at most @max, and of no more than RLX_CHUNK, to user space, what they name
 * into @ref[RLX_CHUNK]; how many, 0 where less than @min are there, -errno.
 */
int rlx_executor_take_chunk(struct rlx_executor *ex, struct rlx_queue *q,
			    u32 __user *tags, u32 min, u32 max,
			    struct rlx_slot_ref *ref);
/* Tags that could not be told go back to where they came from. */
void rlx_executor_return(struct rlx_executor *ex, struct rlx_queue *q,
			 const struct rlx_slot_ref *ref, u32 n);

extern const struct file_operations rlx_executor_fops;

#endif
