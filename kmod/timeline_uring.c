// SPDX-License-Identifier: GPL-2.0-only
/*
 * TIMELINE_WAIT_ONE by io_uring. Where commands can be cancelled it parks: the
 * waiter's place in the timeline is what wake, deadline and cancel compete for,
 * and whoever takes it off completes the command. Elsewhere a worker of
 * io_uring's sleeps.
 */
#include <linux/hrtimer.h>
#include <linux/rlx.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "timeline.h"
#include "timeline_wait.h"

/* From ->uring_cmd, -EAGAIN asks for a thread that may block. */
static int rlx_timeline_answer(struct io_uring_cmd *cmd, int ret,
			       unsigned int flags)
{
	if (ret != -EAGAIN)
		return ret;
	rlx_cmd_done(cmd, ret, flags);
	return -EIOCBQUEUED;
}

/* The SQE is in memory the user can write: each word of it is read once. */
static int rlx_timeline_payload(struct io_uring_cmd *cmd,
				struct rlx_ioc_timeline_wait_one *w)
{
	const struct rlx_uring_cmd *from =
		rlx_cmd_payload(cmd, struct rlx_uring_cmd);
	u64 addr = READ_ONCE(from->addr);

	if (READ_ONCE(from->flags) || READ_ONCE(from->pad))
		return -EINVAL;
	return copy_from_user(w, u64_to_user_ptr(addr), sizeof(*w)) ? -EFAULT :
								      0;
}

#ifdef RLX_HAVE_CMD_CANCELABLE

/*
 * Freed by whoever completes the command, afterwards: until then a cancel may
 * look at it. The command holds the file, and that the timeline.
 */
struct rlx_timeline_park {
	struct rlx_timeline_waiter waiter;
	struct rlx_timeline *tl;
	struct io_uring_cmd *cmd;
	struct hrtimer deadline;
	int result;		/* set by who took the waiter off */
};

static void rlx_timeline_park_end(struct rlx_timeline_park *park, int ret,
				  unsigned int flags)
{
	hrtimer_cancel(&park->deadline);
	rlx_cmd_done(park->cmd, ret, flags);
	kfree(park);
}

static struct rlx_timeline_park **rlx_timeline_parked(struct io_uring_cmd *cmd)
{
	return rlx_cmd_pdu(cmd, struct rlx_timeline_park *);
}

static void rlx_timeline_unpark(struct io_uring_cmd *cmd, unsigned int flags,
				bool dead)
{
	struct rlx_timeline_park *park = *rlx_timeline_parked(cmd);

	rlx_timeline_park_end(park, park->result, flags);
}
RLX_DEFINE_TW(rlx_timeline_unpark_tw, rlx_timeline_unpark)

static void rlx_timeline_park_wake(struct rlx_timeline_waiter *w, int error)
{
	struct rlx_timeline_park *park =
		container_of(w, struct rlx_timeline_park, waiter);

	park->result = error;
	io_uring_cmd_complete_in_task(park->cmd, rlx_timeline_unpark_tw);
}

static enum hrtimer_restart rlx_timeline_park_late(struct hrtimer *timer)
{
	struct rlx_timeline_park *park =
		container_of(timer, struct rlx_timeline_park, deadline);

	int ret;

	if (!rlx_timeline_wait_del(park->tl, &park->waiter))
		return HRTIMER_NORESTART;
	/* It may be reached already, its turn to be woken being still to come. */
	ret = rlx_timeline_look(park->tl, park->waiter.value);
	rlx_timeline_park_wake(&park->waiter, ret ? min(ret, 0) : -ETIME);
	return HRTIMER_NORESTART;
}

static int rlx_timeline_cancel(struct io_uring_cmd *cmd, unsigned int flags)
{
	struct rlx_timeline_park *park = *rlx_timeline_parked(cmd);

	/* Else its task work is on its way, and will complete it. */
	if (rlx_timeline_wait_del(park->tl, &park->waiter))
		rlx_timeline_park_end(park, -ECANCELED, flags);
	return 0;
}

/*
 * In the task that owns the ring, with uring_lock held: neither task work nor a
 * cancel runs before this has returned.
 */
static int rlx_timeline_park(struct io_uring_cmd *cmd, struct rlx_timeline *tl,
			     const struct rlx_ioc_timeline_wait_one *w,
			     unsigned int flags)
{
	struct rlx_timeline_park *park;
	int ret;

	park = kzalloc(sizeof(*park), GFP_KERNEL_ACCOUNT);
	if (!park)
		return -ENOMEM;
	park->tl = tl;
	park->cmd = cmd;
	park->waiter.value = w->value;
	park->waiter.wake = rlx_timeline_park_wake;
	rlx_hrtimer_setup(&park->deadline, rlx_timeline_park_late,
			  CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	*rlx_timeline_parked(cmd) = park;
	rlx_cmd_mark_cancelable(cmd, flags);
	ret = rlx_timeline_wait_add(tl, &park->waiter);
	if (ret) {
		/* Marked, it can only end by being completed. */
		rlx_timeline_park_end(park, min(ret, 0), flags);
		return -EIOCBQUEUED;
	}
	if (w->deadline_ns != U64_MAX)
		hrtimer_start(&park->deadline,
			      ns_to_ktime(min_t(u64, w->deadline_ns, KTIME_MAX)),
			      HRTIMER_MODE_ABS_SOFT);
	return -EIOCBQUEUED;
}

static int rlx_timeline_issue(struct io_uring_cmd *cmd, unsigned int flags)
{
	struct rlx_timeline *tl = rlx_timeline_of_file(cmd->file);
	struct rlx_ioc_timeline_wait_one w;
	int ret;

	ret = rlx_timeline_payload(cmd, &w);
	if (ret)
		return ret;
	ret = rlx_timeline_wait_one(tl, w.value, 0);
	if (ret == -EAGAIN && w.deadline_ns)
		return rlx_timeline_park(cmd, tl, &w, flags);
	return rlx_timeline_answer(cmd, ret, flags);
}

static void rlx_timeline_reissue(struct io_uring_cmd *cmd, unsigned int flags,
				 bool dead)
{
	int ret = dead ? -ECANCELED : rlx_timeline_issue(cmd, flags);

	if (ret != -EIOCBQUEUED)
		rlx_cmd_done(cmd, ret, flags);
}
RLX_DEFINE_TW(rlx_timeline_reissue_tw, rlx_timeline_reissue)

int rlx_timeline_uring_cmd(struct io_uring_cmd *cmd, unsigned int flags)
{
	if (flags & RLX_CMD_CANCEL)
		return rlx_timeline_cancel(cmd, flags);
	if (cmd->cmd_op != RLX_IOC_TIMELINE_WAIT_ONE)
		return -EOPNOTSUPP;
	/* From a worker it goes back to the task, where nothing interferes. */
	if (flags & IO_URING_F_UNLOCKED) {
		io_uring_cmd_complete_in_task(cmd, rlx_timeline_reissue_tw);
		return -EIOCBQUEUED;
	}
	return rlx_timeline_issue(cmd, flags);
}

#else /* nothing parks */

int rlx_timeline_uring_cmd(struct io_uring_cmd *cmd, unsigned int flags)
{
	struct rlx_timeline *tl = rlx_timeline_of_file(cmd->file);
	struct rlx_ioc_timeline_wait_one w;
	int ret;

	if (cmd->cmd_op != RLX_IOC_TIMELINE_WAIT_ONE)
		return -EOPNOTSUPP;
	ret = rlx_timeline_payload(cmd, &w);
	if (ret)
		return ret;
	ret = rlx_timeline_wait_one(tl, w.value, 0);
	if (ret == -EAGAIN && w.deadline_ns) {
		/* Again from a worker of io_uring's, which may sleep. */
		if (flags & IO_URING_F_NONBLOCK)
			return -EAGAIN;
		ret = rlx_timeline_wait_one(tl, w.value, w.deadline_ns);
		if (ret == -ERESTARTSYS)
			ret = -ECANCELED;
	}
	return rlx_timeline_answer(cmd, ret, flags);
}

#endif
