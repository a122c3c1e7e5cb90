/* SPDX-License-Identifier: GPL-2.0-only */
/* Timelines: 64-bit counters that only grow, with waiters in atomic context. */
#ifndef RLX_TIMELINE_H
#define RLX_TIMELINE_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct file;
struct page;
struct rlx_call;
struct rlx_timeline_page;

/* A timeline's waits, eventfds and imports together: ENOSPC beyond. */
#define RLX_TIMELINE_WAITERS	4096

/**
 * struct rlx_timeline_waiter - a place in the queue of a timeline.
 * @node:  in rlx_timeline.waiters; empty while the timeline does not know it
 * @value: what is waited for; set by the caller before rlx_timeline_wait_add()
 * @wake:  called once, when the value is reached (@error 0) or the timeline is
 *         poisoned below it (@error the negative errno)
 *
 * @wake runs under the timeline's lock with interrupts off, perhaps in an
 * interrupt, perhaps below the lock of a foreign dma_fence: it may take
 * irq-safe spinlocks, wake, queue work and io_uring task work; it may not
 * sleep, allocate other than GFP_NOWAIT, drop references whose last put
 * sleeps, nor call rlx_timeline_*(). The waiter belongs to @wake from then on:
 * it may free it.
 */
struct rlx_timeline_waiter {
	struct rb_node node;
	u64 value;
	void (*wake)(struct rlx_timeline_waiter *w, int error);
};

struct rlx_timeline {
	struct kref ref;
	u64 id;				/* set once */
	struct rcu_head rcu;
	/*
	 * Protects everything below. Taken with interrupts off, below the lock
	 * of a dma_fence, above the locks that wake callbacks take.
	 */
	spinlock_t lock;
	u64 value;
	int error;			/* negative errno once poisoned */
	unsigned int signallers;	/* files that may write, and imports */
	unsigned int nr_waiters;	/* in @waiters and @imports */
	struct rb_root_cached waiters;	/* by value */
	struct work_struct finish;	/* wakes those that were too many at once */
	struct list_head imports;	/* struct rlx_import */
	struct page *page;		/* set once; what mmap() shows */
	struct rlx_timeline_page *shared; /* its address */
	wait_queue_head_t poll;		/* has its own lock */
};

/**
 * rlx_timeline_get_fd() - look a timeline up.
 * @fd:   of the caller
 * @mode: FMODE_READ, FMODE_WRITE: what the fd must allow
 *
 * Returns a reference for rlx_timeline_put(), or ERR_PTR: -EBADF not open,
 * -EINVAL something else than a timeline, -EACCES. The reference keeps the
 * object, not its signallers: a timeline whose last writable fd is closed is
 * poisoned with -EOWNERDEAD whoever still refers to it.
 */
struct rlx_timeline *rlx_timeline_get_fd(int fd, fmode_t mode);

/* The same for an open file. */
struct rlx_timeline *rlx_timeline_get_file(struct file *file, fmode_t mode);

/* Of a file of ours, which the caller holds. */
struct rlx_timeline *rlx_timeline_of_file(struct file *file);

/* Context: process; the last put may sleep. NULL is nothing. */
void rlx_timeline_put(struct rlx_timeline *tl);

static inline struct rlx_timeline *rlx_timeline_get(struct rlx_timeline *tl)
{
	kref_get(&tl->ref);
	return tl;
}

/**
 * rlx_timeline_look() - whether @value is reached now.
 *
 * Nobody can tell by the timeline that somebody looked.
 * Context: any, as for rlx_timeline_wait_add().
 * Returns 1: reached, also on a poisoned timeline; 0: not yet; a negative errno:
 * poisoned below the value.
 */
int rlx_timeline_look(struct rlx_timeline *tl, u64 value);

/**
 * rlx_timeline_wait_add() - have w->wake called when w->value is reached.
 * @tl: with a reference that lasts until @wake was called or the waiter taken
 *      back
 * @w:  with @value and @wake set
 *
 * Context: any, but not under a lock that a wake callback takes.
 * Returns 0: @wake will be called, or is being called right now; 1: reached
 * already, also on a poisoned timeline; a negative errno: poisoned below the
 * value, or -ENOSPC. @wake is not called unless 0 is returned.
 */
int rlx_timeline_wait_add(struct rlx_timeline *tl,
			  struct rlx_timeline_waiter *w);

/**
 * rlx_timeline_wait_del() - take a waiter back.
 *
 * For a waiter that was added and has not been freed by its @wake.
 * Context: any, but not under a lock that a wake callback takes.
 * Returns true: taken back, @wake will not be called, and what it would have said
 * is for rlx_timeline_look() to say; false: @wake was called
 * and has returned. Exactly one of the two parties gets the waiter, so this
 * is the claim: no further flag is needed.
 */
bool rlx_timeline_wait_del(struct rlx_timeline *tl,
			   struct rlx_timeline_waiter *w);

/**
 * rlx_timeline_raise() - as SIGNAL does.
 *
 * When it returns everybody who waited for it has been woken, some at a time.
 * Context: process, no locks held.
 * Returns 0, -EINVAL if @value is not larger, -EOVERFLOW for U64_MAX, or the
 * error of a poisoned timeline.
 */
int rlx_timeline_raise(struct rlx_timeline *tl, u64 value);

/* RLX_IOC_TIMELINE_CREATE, on a session. */
long rlx_timeline_ioctl_create(struct rlx_call *call);

/* Imports of fences (fence.c): undone with the last reference. */
int rlx_fence_import(struct rlx_timeline *tl, int sync_file, u64 value);
void rlx_fence_drain(struct rlx_timeline *tl);

/* For fence.c: one import's end, with tl->lock held. */
void rlx_timeline_import_done(struct rlx_timeline *tl, u64 value, int error);

#endif
