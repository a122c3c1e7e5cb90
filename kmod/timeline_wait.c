// SPDX-License-Identifier: GPL-2.0-only
/* Sleeping until points of timelines are reached. */
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <linux/rlx.h>

#include "ioctl.h"
#include "timeline.h"
#include "timeline_wait.h"

struct rlx_wait;

struct rlx_wait_point {
	struct rlx_timeline_waiter waiter;
	struct rlx_timeline *tl;	/* with a reference */
	struct rlx_wait *wait;
	bool added;
};

struct rlx_wait {
	/*
	 * Protects pending, done, index, error; below the locks of the
	 * timelines. The task is alive: it takes its waiters back, and so
	 * each timeline's lock, before it goes.
	 */
	spinlock_t lock;
	struct task_struct *task;
	bool all;
	bool done;
	u32 pending;
	u32 index;
	int error;
	u32 nr;
	struct rlx_wait_point point[];
};

/* One point came to its end. */
static void rlx_wait_hit(struct rlx_wait *wait, u32 index, int error)
{
	unsigned long flags;

	spin_lock_irqsave(&wait->lock, flags);
	wait->pending--;
	if (!wait->done && (error || !wait->all || !wait->pending)) {
		wait->index = index;
		wait->error = error;
		/* Pairs with the acquire in rlx_wait_sleep(). */
		smp_store_release(&wait->done, true);
		wake_up_process(wait->task);
	}
	spin_unlock_irqrestore(&wait->lock, flags);
}

static void rlx_wait_wake(struct rlx_timeline_waiter *w, int error)
{
	struct rlx_wait_point *p =
		container_of(w, struct rlx_wait_point, waiter);

	rlx_wait_hit(p->wait, p - p->wait->point, error);
}

/*
 * Queues at every timeline, or looks at it, where nobody will sleep: that is no
 * wait under way, and has its answer of a timeline that has no room for one. For
 * ANY a point that is reached counts more than one that is poisoned, wherever it
 * stands.
 */
static void rlx_wait_begin(struct rlx_wait *wait, bool queue)
{
	int ret, error = 0;
	u32 i, bad = 0;

	wait->pending = wait->nr;
	for (i = 0; i < wait->nr; i++) {
		struct rlx_wait_point *p = &wait->point[i];

		ret = queue ? rlx_timeline_wait_add(p->tl, &p->waiter) :
			      rlx_timeline_look(p->tl, p->waiter.value);
		p->added = queue && !ret;
		if (ret > 0)
			rlx_wait_hit(wait, i, 0);
		if (ret < 0 && !error) {
			error = ret;
			bad = i;
		}
		if (smp_load_acquire(&wait->done) || (error && wait->all))
			break;
	}
	if (error)
		rlx_wait_hit(wait, bad, error);
}

/* What was reached or poisoned counts, though its turn to be woken was still to come. */
static void rlx_wait_end(struct rlx_wait *wait)
{
	int ret;
	u32 i;

	for (i = 0; i < wait->nr; i++) {
		struct rlx_wait_point *p = &wait->point[i];

		if (!p->added || !rlx_timeline_wait_del(p->tl, &p->waiter))
			continue;
		ret = rlx_timeline_look(p->tl, p->waiter.value);
		if (ret)
			rlx_wait_hit(wait, i, min(ret, 0));
	}
}

static int rlx_wait_sleep(struct rlx_wait *wait, u64 deadline_ns)
{
	ktime_t until = ns_to_ktime(min_t(u64, deadline_ns, KTIME_MAX));
	ktime_t *expires = deadline_ns == U64_MAX ? NULL : &until;
	int ret = 0;

	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (smp_load_acquire(&wait->done))
			break;
		if (!deadline_ns) {
			ret = -EAGAIN;
			break;
		}
		if (signal_pending(current)) {
			/* The deadline is absolute: starting again is right. */
			ret = -ERESTARTSYS;
			break;
		}
		if (!schedule_hrtimeout_range(expires, 0, HRTIMER_MODE_ABS)) {
			ret = -ETIME;
			break;
		}
	}
	__set_current_state(TASK_RUNNING);
	return ret;
}

/* Afterwards nobody else knows @wait. */
static int rlx_wait_run(struct rlx_wait *wait, u64 deadline_ns, u32 *index)
{
	int ret;

	rlx_wait_begin(wait, deadline_ns);
	ret = rlx_wait_sleep(wait, deadline_ns);
	rlx_wait_end(wait);
	/* What came between the timeout and the end counts. */
	if (wait->done) {
		*index = wait->index;
		ret = wait->error;
	}
	return ret;
}

static struct rlx_wait *rlx_wait_new(u32 nr, bool all)
{
	struct rlx_wait *wait;
	u32 i;

	wait = kzalloc(struct_size(wait, point, nr), GFP_KERNEL_ACCOUNT);
	if (!wait)
		return NULL;
	spin_lock_init(&wait->lock);
	wait->task = current;
	wait->all = all;
	wait->nr = nr;
	for (i = 0; i < nr; i++) {
		wait->point[i].wait = wait;
		wait->point[i].waiter.wake = rlx_wait_wake;
	}
	return wait;
}

static void rlx_wait_free(struct rlx_wait *wait)
{
	u32 i;

	for (i = 0; i < wait->nr; i++)
		rlx_timeline_put(wait->point[i].tl);
	kfree(wait);
}

int rlx_timeline_wait_one(struct rlx_timeline *tl, u64 value, u64 deadline_ns)
{
	struct rlx_wait *wait = rlx_wait_new(1, true);
	u32 index;
	int ret;

	if (!wait)
		return -ENOMEM;
	wait->point[0].tl = rlx_timeline_get(tl);
	wait->point[0].waiter.value = value;
	ret = rlx_wait_run(wait, deadline_ns, &index);
	rlx_wait_free(wait);
	return ret;
}

static int rlx_wait_look_up(struct rlx_wait *wait,
			    const struct rlx_point *points)
{
	struct rlx_timeline *tl;
	u32 i;

	for (i = 0; i < wait->nr; i++) {
		if (points[i].pad)
			return -EINVAL;
		tl = rlx_timeline_get_fd(points[i].fd, FMODE_READ);
		if (IS_ERR(tl))
			return PTR_ERR(tl);
		wait->point[i].tl = tl;
		wait->point[i].waiter.value = points[i].value;
	}
	return 0;
}

/* On a session. */
long rlx_timeline_ioctl_wait(struct rlx_call *call)
{
	struct rlx_ioc_timeline_wait *arg = call->arg;
	struct rlx_point points[RLX_WAIT_MAX];
	struct rlx_wait *wait;
	int ret;

	if (!arg->nr || arg->nr > RLX_WAIT_MAX ||
	    (arg->flags & ~RLX_WAIT_ALL) || arg->index || arg->pad ||
	    !RLX_IS_ZERO(arg->reserved))
		return -EINVAL;
	if (copy_from_user(points, u64_to_user_ptr(arg->points),
			   arg->nr * sizeof(points[0])))
		return -EFAULT;
	wait = rlx_wait_new(arg->nr, arg->flags & RLX_WAIT_ALL);
	if (!wait)
		return -ENOMEM;
	ret = rlx_wait_look_up(wait, points);
	if (!ret)
		ret = rlx_wait_run(wait, arg->deadline_ns, &arg->index);
	rlx_wait_free(wait);
	return ret;
}
