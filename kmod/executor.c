// SPDX-License-Identifier: GPL-2.0-only
/* Executors: fetch, commit, and the files and events of channels. */
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "channel.h"
#include "compat.h"
#include "device.h"
#include "fs.h"
#include "ioctl.h"
#include "testing.h"
#include "trace.h"
#include "uring.h"
#include "words.h"

static_assert(sizeof(struct rlx_slot_commit) == sizeof(struct rlx_complete));
static_assert(offsetof(struct rlx_slot_commit, seq) ==
	      offsetof(struct rlx_complete, seq));
static_assert(offsetof(struct rlx_slot_commit, aux) ==
	      offsetof(struct rlx_complete, aux));
static_assert(offsetof(struct rlx_slot_commit, tag) ==
	      offsetof(struct rlx_complete, tag));
static_assert(offsetof(struct rlx_slot_commit, result) ==
	      offsetof(struct rlx_complete, result));

/* Why nothing of this generation is taken any more. */
static int rlx_executor_why(struct rlx_executor *ex, struct rlx_queue *q)
{
	return ex->ring && READ_ONCE(ex->ring[q->index].error) ? -EPROTO : -EPIPE;
}

/* ---- fetch ---- */

int rlx_executor_check_fetch(struct rlx_executor *ex, const struct rlx_ioc_fetch *req)
{
	if (req->flags & ~RLX_FETCH_NOWAIT || !rlx_service_queue(ex->svc, req->queue) ||
	    !req->max || req->max > INT_MAX || req->min > req->max ||
	    (ex->ring && req->tags))
		return -EINVAL;
	return 0;
}

void rlx_executor_return(struct rlx_executor *ex, struct rlx_queue *q,
			 const struct rlx_slot_ref *ref, u32 n)
{
	struct rlx_slot_out out[RLX_CHUNK] RLX_UNINIT;
	struct rlx_todo todo = {};
	unsigned long flags;
	u32 events = 0;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	while (events < n && (ref[events].tag & RLX_TAG_EVENT)) {
		u32 id = ref[events++].tag & ~RLX_TAG_EVENT;
		struct rlx_channel *ch = xa_load(&ex->svc->channels, id);

		/* The id may be another's by now, who has another queue. */
		if (ch && ch->q == q && q->slots.live && q->slots.gen == ex->gen)
			rlx_channel_news(ch, &todo);
	}
	ref += events;
	n -= events;
	rlx_slots_undeliver(&q->slots, ex->gen, ref, n, out);
	rlx_queue_settle(q, out, n, &todo);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	rlx_queue_act(q, out, n, &todo);
	rcu_read_unlock();
}

int rlx_executor_take_chunk(struct rlx_executor *ex, struct rlx_queue *q,
			    u32 __user *tags, u32 min, u32 max,
			    struct rlx_slot_ref *ref)
{
	u32 tag[RLX_CHUNK] RLX_UNINIT;
	unsigned long flags;
	int i, n;

	spin_lock_irqsave(&q->slots.lock, flags);
	n = rlx_queue_pop(q, ex->gen, ref, min, min_t(u32, max, RLX_CHUNK));
	spin_unlock_irqrestore(&q->slots.lock, flags);
	if (n < 0)
		return rlx_executor_why(ex, q);
	for (i = 0; i < n; i++)
		tag[i] = ref[i].tag;
	for (i = 0; trace_rlx_fetch_enabled() && i < n; i++)
		trace_rlx_fetch(0, ref[i].tag, ref[i].seq, 0);
	rlx_stall("fetched");
	if (copy_to_user(tags, tag, n * sizeof(*tag))) {
		rlx_executor_return(ex, q, ref, n);
		return -EFAULT;
	}
	return n;
}

/* What lies in the ring, once some of what is ready was put there; -EPIPE, -EPROTO. */
static int rlx_executor_fill(struct rlx_executor *ex, struct rlx_queue *q)
{
	struct rlx_todo todo = {};
	unsigned long flags;
	int used = -EPIPE;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	if (q->slots.live && q->slots.gen == ex->gen) {
		rlx_queue_kick(q, &todo);	/* there may be room now */
		used = rlx_ringbuf_used(&ex->ring[q->index]);
	}
	spin_unlock_irqrestore(&q->slots.lock, flags);
	rlx_queue_act(q, NULL, 0, &todo);
	rcu_read_unlock();
	return used;
}

/* In ring mode: how much lies in the ring, and no less than there could be of @min. */
static long rlx_executor_look(struct rlx_executor *ex, struct rlx_queue *q, u32 min)
{
	int before, used = -1;

	do {
		before = used;
		used = rlx_executor_fill(ex, q);
	} while (used > before && (u32)used < min && !rlx_killed());
	if (used == -EPIPE)
		return rlx_executor_why(ex, q);
	return used >= 0 && (u32)used < min ? -EAGAIN : used;
}

static long rlx_executor_take_min(struct rlx_executor *ex,
				  const struct rlx_ioc_fetch *req, u32 min)
{
	struct rlx_queue *q = rlx_service_queue(ex->svc, req->queue);
	struct rlx_slot_ref ref[RLX_CHUNK] RLX_UNINIT;
	u32 __user *tags = u64_to_user_ptr(req->tags);
	u32 got = 0;
	int n;

	min = max_t(u32, min, 1);
	if (ex->ring)
		return rlx_executor_look(ex, q, min);
	do {
		n = rlx_executor_take_chunk(ex, q, tags + got, got ? 1 : min,
					    req->max - got, ref);
		if (n < 0)
			return got ? (long)got : n;
		got += n;
	} while (n == RLX_CHUNK && got < req->max && !rlx_killed());
	return got ? (long)got : -EAGAIN;
}

long rlx_executor_take(struct rlx_executor *ex, const struct rlx_ioc_fetch *req)
{
	return rlx_executor_take_min(ex, req, req->min);
}

struct rlx_executor_wait {
	struct rlx_executor *ex;
	struct rlx_queue *q;
	u32 min;
};

static bool rlx_executor_may_take(void *arg)
{
	struct rlx_executor_wait *w = arg;

	/* Dead, for another generation or a broken ring: go and be told so. */
	if (!READ_ONCE(w->q->slots.live) || READ_ONCE(w->q->slots.gen) != w->ex->gen)
		return true;
	return rlx_queue_ready(w->q) >= w->min;
}

/* Where a signal ends it, @req has the time that is left. */
static long rlx_executor_fetch_wait(struct rlx_executor *ex, struct rlx_ioc_fetch *req)
{
	struct rlx_executor_wait w = {
		.ex = ex,
		.q = rlx_service_queue(ex->svc, req->queue),
		.min = max_t(u32, req->min, 1),
	};
	bool ever = req->timeout_ns == ~0ULL;
	ktime_t due;
	long ret;

	ret = rlx_executor_take(ex, req);
	if (ret != -EAGAIN || (req->flags & RLX_FETCH_NOWAIT))
		return ret;
	due = rlx_time_due(req->timeout_ns);
	do {
		int err = rlx_sleep(&w.q->wait, w.min == 1, ever ? NULL : &due,
				    rlx_executor_may_take, &w);

		/* At the end of its time even less than asked for is welcome. */
		ret = rlx_executor_take_min(ex, req, err ? 1 : req->min);
		if (err && ret == -EAGAIN)
			ret = err;
	} while (ret == -EAGAIN && !rlx_killed());
	if (ret == -ERESTARTNOHAND)
		req->timeout_ns = rlx_time_left(due);
	/* We may have been woken in somebody's place, and not taken all. */
	if (wq_has_sleeper(&w.q->wait) && rlx_queue_ready(w.q))
		wake_up_poll(&w.q->wait, EPOLLIN);
	return ret;
}

static long rlx_executor_fetch(struct rlx_call *call)
{
	struct rlx_executor *ex = call->priv;
	int err = rlx_executor_check_fetch(ex, call->arg);

	return err ?: rlx_executor_fetch_wait(ex, call->arg);
}

/* ---- commit ---- */

#define RLX_COMMITS	32	/* read from user space at a time */

/* What records ask for that has to wait for the end of the lock. */
#define RLX_ACTS_LATER	(RLX_ACT_CMD | RLX_ACT_COPY | RLX_ACT_REAP | RLX_ACT_SPACE | \
			 RLX_ACT_DRAINED)

/*
 * Commits from *@at on, in @error what became of each; how many succeeded. Under one
 * lock as many as leave no more to do afterwards than @out can hold: results for rings
 * leave nothing.
 */
static int rlx_executor_commit_chunk(struct rlx_executor *ex, struct rlx_queue *q,
				     const struct rlx_slot_commit *in, u32 n, u32 *at,
				     s32 *error)
{
	struct rlx_slot_out out[RLX_CHUNK] RLX_UNINIT;
	u32 kept = 0, from = *at, some, i;
	struct rlx_todo todo = {};
	unsigned long flags;
	int ret, done = 0;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	rlx_slots_begin(&q->slots);
	do {
		struct rlx_slot_out *now = out + kept;

		some = min_t(u32, n - *at, RLX_CHUNK - kept);
		ret = rlx_slots_commit(&q->slots, ex->gen, in + *at, some, now);
		if (ret < 0)
			break;
		done += ret;
		rlx_queue_put_results(q, now, some);
		for (i = 0; i < some; i++) {
			error[(*at)++] = now[i].err;
			if (now[i].acts & RLX_ACTS_LATER)
				out[kept++] = now[i];
		}
	} while (*at < n && kept < RLX_CHUNK);
	q->committed += done;
	rlx_queue_settle(q, out, kept, &todo);
	/* There may be room now for what found none. */
	if (q->ring && (rlx_slots_ready(&q->slots) || q->nr_events))
		rlx_queue_kick(q, &todo);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	rlx_queue_act(q, out, kept, &todo);
	rcu_read_unlock();
	for (i = from; trace_rlx_commit_enabled() && i < *at; i++)
		trace_rlx_commit(0, in[i].tag, in[i].seq, in[i].result);
	return ret < 0 ? ret : done;
}

long rlx_executor_commit(struct rlx_executor *ex, const struct rlx_ioc_commit *c)
{
	const struct rlx_complete __user *entries = u64_to_user_ptr(c->entries);
	s32 __user *errors = u64_to_user_ptr(c->errors);
	struct rlx_slot_commit in[RLX_COMMITS] RLX_UNINIT;
	s32 error[RLX_COMMITS] RLX_UNINIT;
	struct rlx_queue *q = rlx_service_queue(ex->svc, c->queue);
	u32 at, n, nr, done = 0;
	int ret;

	/* More than the largest queue has cannot be held: most of it would be stale. */
	if (!q || c->nr > RLX_SLOTS_DEPTH_MAX)
		return -EINVAL;
	for (at = 0; at < c->nr; at += nr) {
		if (at && rlx_killed())
			return done ? (long)done : -EINTR;
		nr = min_t(u32, c->nr - at, RLX_COMMITS);
		if (rlx_words_from_user(in, entries + at,
					nr * (sizeof(*in) / sizeof(u64))))
			return done ? (long)done : -EFAULT;
		rlx_stall("commit");
		for (n = 0; n < nr; done += ret) {
			ret = rlx_executor_commit_chunk(ex, q, in, nr, &n, error);
			if (ret < 0)
				return done ? (long)done : rlx_executor_why(ex, q);
		}
		if (errors && copy_to_user(errors + at, error, nr * sizeof(*error)))
			return -EFAULT;
	}
	return done || !c->nr ? (long)done : -ESTALE;
}

static long rlx_executor_commit_ioctl(struct rlx_call *call)
{
	return rlx_executor_commit(call->priv, call->arg);
}

static long rlx_executor_commit_fetch(struct rlx_call *call)
{
	struct rlx_ioc_commit_fetch *cf = call->arg;
	struct rlx_executor *ex = call->priv;
	long ret = rlx_executor_check_fetch(ex, &cf->fetch);

	if (!ret)
		ret = rlx_executor_commit(ex, &cf->commit);
	if (ret < 0 && ret != -ESTALE)
		return ret;
	ret = rlx_executor_fetch_wait(ex, &cf->fetch);
	/* What was committed is not to be committed again. */
	if (ret == -EAGAIN || ret == -ETIME || ret == -ERESTARTNOHAND || ret == -ERESTARTSYS)
		return 0;
	return ret;
}

/* ---- lifetime ---- */

static void rlx_executor_free(struct rlx_executor *ex)
{
	u32 i;

	for (i = 0; ex->ring && i < ex->svc->nr_queues; i++)
		rlx_ringbuf_fini(&ex->ring[i]);
	kvfree(ex->ring);
	put_pid(ex->owner);
	rlx_service_put(ex->svc);
	kfree(ex);
	rlx_stat_dec(RLX_STAT_EXECUTORS);
}

static struct rlx_executor *rlx_executor_new(struct rlx_service *svc, u32 flags)
{
	struct rlx_executor *ex = kzalloc(sizeof(*ex), GFP_KERNEL_ACCOUNT);
	u32 i, entries;
	int err;

	if (!ex)
		return ERR_PTR(-ENOMEM);
	ex->flags = flags;
	ex->owner = get_pid(task_tgid(current));
	ex->svc = rlx_service_get(svc);
	rlx_stat_inc(RLX_STAT_EXECUTORS);
	if (!(flags & RLX_EXEC_RING))
		return ex;

	err = -ENOMEM;
	ex->ring = kvcalloc(svc->nr_queues, sizeof(*ex->ring), GFP_KERNEL_ACCOUNT);
	if (!ex->ring)
		goto out_free;
	/* Every slot, and an event of every channel. */
	entries = roundup_pow_of_two(svc->depth + RLX_SERVICE_CHANNELS_MAX);
	for (i = 0; i < svc->nr_queues; i++) {
		err = rlx_ringbuf_init(&ex->ring[i], svc->session, entries,
				       sizeof(u32));
		if (err)
			goto out_free;
	}
	return ex;

out_free:
	rlx_executor_free(ex);
	return ERR_PTR(err);
}

/* One queue gets to know its executor; svc->lock held. */
static int rlx_executor_enter(struct rlx_executor *ex, struct rlx_queue *q)
{
	struct rlx_todo todo = {};
	unsigned long flags;
	int err;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	err = rlx_slots_attach(&q->slots, ex->gen);
	if (!err) {
		q->ring = ex->ring ? &ex->ring[q->index] : NULL;
		rlx_queue_kick(q, &todo);
	}
	spin_unlock_irqrestore(&q->slots.lock, flags);
	rlx_queue_act(q, NULL, 0, &todo);
	rcu_read_unlock();
	return err;
}

static int rlx_executor_become(struct rlx_executor *ex)
{
	struct rlx_service *svc = ex->svc;
	struct rlx_channel *ch;
	unsigned long id;
	int err;
	u32 i;

	/* What the last one left is told now, or by the time this returns. */
	flush_work(&svc->bury);
	if (mutex_lock_killable(&svc->lock))
		return -EINTR;
	err = -EBUSY;
	if (svc->exec)
		goto out_unlock;
	err = -ENOSPC;
	if (svc->generation == U32_MAX)
		goto out_unlock;
	ex->gen = svc->generation + 1;
	for (i = 0; i < svc->nr_queues; i++) {
		err = rlx_executor_enter(ex, &svc->queue[i]);
		if (err)
			goto out_lose;
	}
	WRITE_ONCE(svc->exec, ex);
	rlx_stall("becoming");
	/* Pairs with the acquire of rlx_service_state(). */
	smp_store_release(&svc->generation, ex->gen);
	wake_up_all(&svc->wait);
	xa_for_each(&svc->channels, id, ch)
		wake_up_all(&ch->wait);
	mutex_unlock(&svc->lock);
	return 0;

out_lose:
	if (i) {
		smp_store_release(&svc->generation, ex->gen);
		rlx_service_lose(svc, false);
	}
out_unlock:
	mutex_unlock(&svc->lock);
	return err;
}

long rlx_executor_attach(struct rlx_call *call)
{
	struct rlx_ioc_executor_attach *a = call->arg;
	struct rlx_executor *ex;
	struct file *file;
	int err;

	if (a->flags & ~RLX_EXEC_RING || a->pad || !RLX_IS_ZERO(a->reserved))
		return -EINVAL;
	if (!(call->file->f_mode & FMODE_WRITE))
		return -EACCES;
	ex = rlx_executor_new(call->priv, a->flags);
	if (IS_ERR(ex))
		return PTR_ERR(ex);
	file = rlx_file_new("rlx-executor", &rlx_executor_fops, ex, O_RDWR);
	if (IS_ERR(file)) {
		rlx_executor_free(ex);
		return PTR_ERR(file);
	}
	/* From here the file owns it. */
	err = rlx_executor_become(ex);
	if (err) {
		fput(file);
		return err;
	}
	a->generation = ex->gen;
	call->newfile = file;
	return 0;
}

/* News nobody will read, of channels that nobody else knows. svc->lock held. */
static void rlx_executor_drop_news(struct rlx_service *svc)
{
	struct rlx_channel *ch;
	unsigned long id, flags;

	xa_for_each(&svc->channels, id, ch) {
		if (ch->gone) {
			rlx_channel_erase(ch);
			continue;
		}
		spin_lock_irqsave(&ch->q->slots.lock, flags);
		rlx_channel_forget_news(ch);
		spin_unlock_irqrestore(&ch->q->slots.lock, flags);
	}
}

void rlx_executor_retire(struct rlx_service *svc)
{
	struct rlx_executor *ex = svc->exec;
	u32 i;

	lockdep_assert_held(&svc->lock);
	if (!ex)
		return;
	trace_rlx_death(svc->id, ex->gen, 0);
	WRITE_ONCE(svc->exec, NULL);
	rlx_service_lose(svc, !svc->writers);
	rlx_executor_drop_news(svc);
	/* If it lives nevertheless it is told, wherever it waits. */
	for (i = 0; i < svc->nr_queues; i++)
		wake_up_all(&svc->queue[i].wait);
	rlx_uring_muster(ex);
}

/* The end of @ex, in office or not. */
static void rlx_executor_leave(struct rlx_executor *ex)
{
	mutex_lock(&ex->svc->lock);
	if (ex->svc->exec == ex)
		rlx_executor_retire(ex->svc);
	mutex_unlock(&ex->svc->lock);
}

static int rlx_executor_release(struct inode *inode, struct file *file)
{
	struct rlx_executor *ex = file->private_data;

	rlx_executor_leave(ex);
	rlx_executor_free(ex);
	return 0;
}

/*
 * Called at each close of an fd, and at exit. Parked commands hold the file too, but
 * alone they are no executor: where nothing else is left, with this fd, nobody can
 * commit any more (a command's file cannot become an fd again), and nobody will
 * complete them while a ring shared with a living process keeps them.
 */
static int rlx_executor_flush(struct file *file, fl_owner_t id)
{
	struct rlx_executor *ex = file->private_data;
	int parked = atomic_read(&ex->nr_holding);

	if (parked && file_count(file) == 1 + parked)
		rlx_executor_leave(ex);
	else if (!(current->flags & PF_EXITING))
		return 0;
	rlx_uring_muster(ex);
	return 0;
}

/* ---- file ---- */

static long rlx_executor_info(struct rlx_call *call)
{
	struct rlx_executor *ex = call->priv;

	return rlx_service_fill_info(ex->svc, call->arg);
}

static const struct rlx_ioctl rlx_executor_ioctls[] = {
	RLX_IOCTL_ROW(RLX_IOC_COMMIT_AND_FETCH, 0, rlx_executor_commit_fetch),
	RLX_IOCTL_ROW(RLX_IOC_COMMIT, 0, rlx_executor_commit_ioctl),
	RLX_IOCTL_ROW(RLX_IOC_FETCH, RLX_IOCTL_LEFT, rlx_executor_fetch),
	RLX_IOCTL_ROW(RLX_IOC_EXEC_ARENA, RLX_IOCTL_FD | RLX_IOCTL_OUT,
		      rlx_executor_arena),
	RLX_IOCTL_ROW(RLX_IOC_EXEC_SLICES, 0, rlx_executor_slices),
	RLX_IOCTL_ROW(RLX_IOC_EXEC_EVENTS, 0, rlx_executor_events),
	RLX_IOCTL_ROW(RLX_IOC_SERVICE_INFO, RLX_IOCTL_OUT, rlx_executor_info),
};

static long rlx_executor_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return rlx_ioctl_dispatch(file, cmd, arg, rlx_executor_ioctls,
				  ARRAY_SIZE(rlx_executor_ioctls));
}

static __poll_t rlx_executor_poll(struct file *file, poll_table *wait)
{
	struct rlx_executor *ex = file->private_data;
	__poll_t mask = 0;
	u32 i;

	for (i = 0; i < ex->svc->nr_queues; i++) {
		struct rlx_queue *q = &ex->svc->queue[i];

		poll_wait(file, &q->wait, wait);
		if (!READ_ONCE(q->slots.live))
			mask |= EPOLLERR;
		else if (rlx_queue_ready(q))
			mask |= EPOLLIN;
	}
	return mask;
}

static int rlx_executor_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct rlx_executor *ex = file->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	struct rlx_queue *q = rlx_service_queue(ex->svc, (offset >> 28) & 0xff);
	u32 index;

	if (!q)
		return -EINVAL;
	index = q->index;
	if (offset == RLX_MAP_OFFSET(RLX_MAP_DESC, index))
		return rlx_area_map(&q->area, vma, false);
	if (!ex->ring)
		return -EINVAL;
	if (offset == RLX_MAP_OFFSET(RLX_MAP_RING, index))
		return rlx_area_map(&ex->ring[index].ro, vma, false);
	if (offset == RLX_MAP_OFFSET(RLX_MAP_USER, index))
		return rlx_area_map(&ex->ring[index].rw, vma, true);
	return -EINVAL;
}

static void rlx_executor_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct rlx_executor *ex = file->private_data;
	u32 i;

	rlx_stats_fdinfo(m, "executor", ex->svc->id);
	seq_printf(m, "rlx-generation:\t%u\n", ex->gen);
	for (i = 0; i < ex->svc->nr_queues; i++) {
		struct rlx_queue_counts c;

		rlx_queue_count(&ex->svc->queue[i], &c);
		seq_printf(m, "rlx-queue-%u:\tready %u delivered %u parked %u\n", i,
			   c.ready, c.delivered, c.parked);
	}
}

const struct file_operations rlx_executor_fops = {
	.owner		= THIS_MODULE,
	.flush		= rlx_executor_flush,
	.release	= rlx_executor_release,
	.unlocked_ioctl	= rlx_executor_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.uring_cmd	= rlx_executor_uring_cmd,
	.mmap		= rlx_executor_mmap,
	.poll		= rlx_executor_poll,
	.show_fdinfo	= rlx_executor_show_fdinfo,
	.llseek		= noop_llseek,
};
