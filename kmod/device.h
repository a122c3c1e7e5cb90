/* SPDX-License-Identifier: GPL-2.0-only */
/* The module as a whole: the device, what lives in it, and its limits. */
#ifndef RLX_DEVICE_H
#define RLX_DEVICE_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/rlx.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "stats.h"

struct dentry;
struct workqueue_struct;

/* No arena is larger than this, whatever the parameter says. */
#define RLX_ARENA_BYTES_MAX	(1ULL << 47)

/**
 * struct rlx_device - the one instance.
 * @misc:     /dev/rlx
 * @wq:       what may sleep but is asked for where sleeping is forbidden
 * @end_wq:   ends of arenas, which may take long: no request is to wait behind them
 * @ids:      last id given out, of anything
 * @bytes:    charged to all users; against rlx_max_total_bytes
 * @stats:    by enum rlx_stat
 * @debugfs:  the directory, or an error pointer
 * @lock:     protects the lists, and struct rlx_user.refs and .sessions
 * @users:    struct rlx_user
 * @sessions: struct rlx_session
 * @arenas:   struct rlx_arena, published ones
 * @services: struct rlx_service, until their memory goes
 *
 * @end_lock: protects @ending and @end_seq; taken in any context, and nothing within
 * @ending:   struct rlx_arena_ending: whose end is left to @end_wq, as they came
 * @end_seq:  sequence number of the last of them
 * @ended:    for who waits until some are gone
 *
 * @lock is outermost but for a session's or arena's end; nothing of ours but
 * counters is taken under it, and no user memory is touched.
 */
struct rlx_device {
	struct miscdevice	misc;
	struct workqueue_struct	*wq;
	struct workqueue_struct	*end_wq;
	atomic64_t		ids;
	atomic64_t		bytes;
	atomic64_t		stats[RLX_STAT_NR];
	struct dentry		*debugfs;

	struct mutex		lock;
	struct list_head	users;
	struct list_head	sessions;
	struct list_head	arenas;
	struct list_head	services;

	spinlock_t		end_lock;
	struct list_head	ending;
	u64			end_seq;
	wait_queue_head_t	ended;
};

extern struct rlx_device rlx_dev;

/* Parameters of the module; may change at any time: read once. */
extern unsigned long rlx_max_arena_bytes;
extern unsigned long rlx_max_user_bytes;
extern unsigned long rlx_max_total_bytes;
extern unsigned int rlx_max_sessions;
extern unsigned int rlx_max_arenas;

/* RLX_FEAT_* of this build on this kernel. */
u64 rlx_features(void);

/*
 * Between two parts of work whose length user space gives: lets others run, and says
 * whether the task was killed meanwhile, and nobody wants the rest. Process context,
 * no spinlock held.
 */
static inline bool rlx_killed(void)
{
	cond_resched();
	return fatal_signal_pending(current);
}

/* A number that nothing else has until the module is unloaded. */
static inline u64 rlx_id_new(void)
{
	return atomic64_inc_return(&rlx_dev.ids);
}

#endif
