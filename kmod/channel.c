// SPDX-License-Identifier: GPL-2.0-only
/* Channels: connect, reap, cancel, and the end of a client. */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "channel.h"
#include "compat.h"
#include "device.h"
#include "fs.h"
#include "ioctl.h"
#include "session.h"
#include "testing.h"
#include "trace.h"
#include "uring.h"
#include "words.h"

#define RLX_CHANNEL_ID_MAX	(RLX_TAG_EVENT - 1)
#define RLX_CHANNEL_QUANTUM	8	/* requests it may have fetched a turn */
#define RLX_CHANNEL_REAP	8	/* results under one lock */

/* ---- the table of a service ---- */

static void rlx_channel_release_ref(struct kref *ref)
{
	struct rlx_channel *ch = container_of(ref, struct rlx_channel, ref);

	rlx_service_put(ch->svc);
	kfree_rcu(ch, rcu);
}

void rlx_channel_put(struct rlx_channel *ch)
{
	kref_put(&ch->ref, rlx_channel_release_ref);
}

struct rlx_channel *rlx_channel_find(struct rlx_service *svc, u32 id)
{
	struct rlx_channel *ch;

	rcu_read_lock();
	ch = xa_load(&svc->channels, id);
	if (ch && !kref_get_unless_zero(&ch->ref))
		ch = NULL;
	rcu_read_unlock();
	return ch;
}

void rlx_channel_erase(struct rlx_channel *ch)
{
	struct rlx_service *svc = ch->svc;
	struct rlx_queue *q = ch->q;
	unsigned long flags;
	bool erased;

	lockdep_assert_held(&svc->lock);
	/*
	 * Taken off the list of events, and kept off it, in one go: until xa_erase()
	 * a fetch that failed may still find it there and put it back.
	 */
	spin_lock_irqsave(&q->slots.lock, flags);
	erased = ch->erased;
	ch->erased = true;
	rlx_channel_forget_news(ch);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	if (erased)
		return;
	xa_erase(&svc->channels, ch->id);
	WRITE_ONCE(svc->nr_channels, svc->nr_channels - 1);
	rlx_channel_put(ch);
}

void rlx_channel_news(struct rlx_channel *ch, struct rlx_todo *todo)
{
	struct rlx_queue *q = ch->q;

	lockdep_assert_held(&q->slots.lock);
	if (ch->erased)
		return;
	if (list_empty(&ch->event)) {
		list_add_tail(&ch->event, &q->events);
		q->nr_events++;
	}
	rlx_queue_kick(q, todo);
}

/* ---- the end ---- */

/* File and requests are gone; rlx_channel_put_use() asked for this. */
static void rlx_channel_drained(struct work_struct *work)
{
	struct rlx_channel *ch = container_of(work, struct rlx_channel, drained);
	struct rlx_session *session = ch->session;
	struct rlx_service *svc = ch->svc;
	struct rlx_queue *q = ch->q;
	struct rlx_todo todo = {};
	unsigned long flags;

	rlx_channel_drop_attachments(ch);
	if (ch->ring) {
		rlx_ringbuf_fini(ch->ring);
		kfree(ch->ring);
	}
	rlx_stat_add(RLX_STAT_SLOTS, -(s64)ch->depth);
	rlx_stat_dec(RLX_STAT_CHANNELS);

	/* The executor may know it: by a tag, a descriptor, an arena. */
	mutex_lock(&svc->lock);
	if (svc->exec) {
		rcu_read_lock();
		spin_lock_irqsave(&q->slots.lock, flags);
		ch->gone = true;
		rlx_channel_news(ch, &todo);
		spin_unlock_irqrestore(&q->slots.lock, flags);
		rlx_queue_act(q, NULL, 0, &todo);
		rcu_read_unlock();
	} else {
		rlx_channel_erase(ch);
	}
	mutex_unlock(&svc->lock);
	rlx_session_put(session);
	rlx_channel_put(ch);
}

static void rlx_channel_release_use(struct kref *ref)
{
	struct rlx_channel *ch = container_of(ref, struct rlx_channel, use);

	queue_work(rlx_dev.wq, &ch->drained);
}

void rlx_channel_put_use(struct rlx_channel *ch)
{
	kref_put(&ch->use, rlx_channel_release_use);
}

static int rlx_channel_release(struct inode *inode, struct file *file)
{
	struct rlx_channel *ch = file->private_data;
	struct rlx_slot_out out[RLX_CHUNK];
	enum rlx_lane_end end;
	struct rlx_queue *q;
	unsigned long flags;
	u32 n, i;

	if (!ch)
		return 0;	/* connect failed after it had made the file */
	q = ch->q;
	trace_rlx_death(ch->id, 0, 0);
	ch->died = jiffies;
	do {
		struct rlx_todo todo = {};

		rcu_read_lock();
		spin_lock_irqsave(&q->slots.lock, flags);
		end = rlx_lane_close(&ch->lane, out, RLX_CHUNK, &n);
		for (i = 0; i < n; i++)
			if (q->slots.slot[out[i].tag].state == RLX_SLOT_ORPHAN)
				rlx_queue_unwanted(q, out[i].tag);
		rlx_queue_settle(q, out, n, &todo);
		spin_unlock_irqrestore(&q->slots.lock, flags);
		rlx_queue_act(q, out, n, &todo);
		rcu_read_unlock();
		cond_resched();
	} while (end == RLX_LANE_MORE);
	if (end == RLX_LANE_DRAINED)
		rlx_channel_put_use(ch);	/* the lane's */
	else
		rlx_service_mourn(ch->svc);
	rlx_channel_put_use(ch);		/* the file's */
	return 0;
}

/* ---- the beginning ---- */

static void rlx_channel_free_new(struct rlx_channel *ch)
{
	if (ch->ring) {
		rlx_ringbuf_fini(ch->ring);
		kfree(ch->ring);
	}
	kvfree(ch->att);
	rlx_service_put(ch->svc);
	kfree(ch);
}

static struct rlx_channel *rlx_channel_new(struct rlx_service *svc,
					   struct rlx_session *session,
					   const struct rlx_ioc_connect *c)
{
	struct rlx_channel *ch = kzalloc(sizeof(*ch), GFP_KERNEL_ACCOUNT);
	int err = -ENOMEM;

	if (!ch)
		return ERR_PTR(-ENOMEM);
	ch->svc = rlx_service_get(svc);
	ch->session = session;
	ch->uid = rlx_session_uid(session);
	ch->depth = c->depth;
	ch->flags = c->flags;
	ch->user_tag = c->user_tag;
	init_waitqueue_head(&ch->wait);
	mutex_init(&ch->lock);
	mutex_init(&ch->reap_lock);
	INIT_LIST_HEAD(&ch->event);
	INIT_WORK(&ch->drained, rlx_channel_drained);
	kref_init(&ch->ref);		/* what holds use */
	kref_init(&ch->use);		/* the file */
	ch->att = kvcalloc(RLX_LANE_ARENAS, sizeof(*ch->att), GFP_KERNEL_ACCOUNT);
	if (!ch->att)
		goto out_free;
	if (c->flags & RLX_CHANNEL_RING) {
		ch->ring = kzalloc(sizeof(*ch->ring), GFP_KERNEL_ACCOUNT);
		if (!ch->ring)
			goto out_free;
		err = rlx_ringbuf_init(ch->ring, session, c->depth,
				       sizeof(struct rlx_cqe));
		if (err) {
			kfree(ch->ring);
			ch->ring = NULL;
			goto out_free;
		}
	}
	return ch;

out_free:
	rlx_channel_free_new(ch);
	return ERR_PTR(err);
}

/* The queue asked for, or the one with most room. */
static struct rlx_queue *rlx_channel_choose(struct rlx_service *svc, u32 index)
{
	struct rlx_queue *best = &svc->queue[0];
	u32 i;

	if (index != RLX_QUEUE_ANY)
		return rlx_service_queue(svc, index);
	for (i = 1; i < svc->nr_queues; i++)
		if (READ_ONCE(svc->queue[i].slots.nr_pool) >
		    READ_ONCE(best->slots.nr_pool))
			best = &svc->queue[i];
	return best;
}

/* ---- shares: what one user may have of what all share ---- */

/*
 * Of @left that nobody has, @more for a user who has @held: up to @cap, or, where that
 * is 0, as long as no less is left to others than the user has then. So one user gets
 * half, the next a quarter of all, and whoever comes later still finds something. A
 * first one is never refused while there is one.
 */
static bool rlx_share_has(u32 cap, u32 held, u32 more, u32 left)
{
	if (more > left)
		return false;
	if (cap)
		return held + more <= cap;
	return held + more <= max(left - more, 1U);
}

/* The service's own user may do with it as he likes, and connects in others' names. */
static bool rlx_channel_shares(const struct rlx_channel *ch)
{
	return !uid_eq(ch->uid, rlx_session_uid(ch->svc->session));
}

/* A place in the table. svc->lock held. */
static bool rlx_channel_has_place(const struct rlx_channel *ch)
{
	struct rlx_service *svc = ch->svc;
	struct rlx_channel *other;
	unsigned long id;
	u32 held = 0;

	if (!rlx_channel_shares(ch))
		return svc->nr_channels < RLX_SERVICE_CHANNELS_MAX;
	xa_for_each(&svc->channels, id, other)
		held += uid_eq(other->uid, ch->uid);
	return rlx_share_has(svc->user_channels, held, 1,
			     RLX_SERVICE_CHANNELS_MAX - svc->nr_channels);
}

/* Slots of the queue: those that its user's channels have, dead ones too. Lock held. */
static bool rlx_channel_has_slots(const struct rlx_channel *ch)
{
	const struct rlx_slots *slots = &ch->q->slots;
	struct rlx_lane *lane;
	u32 held = 0;

	lockdep_assert_held(&slots->lock);
	if (!rlx_channel_shares(ch))
		return true;
	list_for_each_entry(lane, &slots->lanes, all)
		if (uid_eq(rlx_lane_channel(lane)->uid, ch->uid))
			held += lane->depth;
	return rlx_share_has(ch->svc->user_slots, held, ch->depth, slots->nr_pool);
}

/* The lane; svc->lock held. */
static int rlx_channel_open_lane(struct rlx_channel *ch)
{
	struct rlx_queue *q = ch->q;
	unsigned long flags;
	int err;

	spin_lock_irqsave(&q->slots.lock, flags);
	if (q->slots.gone)
		err = -EPIPE;
	else if (!rlx_channel_has_slots(ch))
		err = -ENOSPC;
	else
		err = rlx_lane_open(&q->slots, &ch->lane, ch->depth,
				    RLX_CHANNEL_QUANTUM);
	if (!err)
		ch->lane.ring = ch->ring != NULL;
	spin_unlock_irqrestore(&q->slots.lock, flags);
	return err;
}

/* The last step that can fail: the lane, and the place in the table. */
static int rlx_channel_enter(struct rlx_channel *ch)
{
	struct rlx_service *svc = ch->svc;
	int err;

	if (mutex_lock_killable(&svc->lock))
		return -EINTR;
	err = -ENOSPC;
	if (!rlx_channel_has_place(ch))
		goto out_unlock;
	/*
	 * A place for it, empty while the rest may still fail. Ids are used again as
	 * late as can be: one that an executor still thinks of is long gone.
	 */
	err = xa_alloc_cyclic(&svc->channels, &ch->id, NULL,
			      XA_LIMIT(1, RLX_CHANNEL_ID_MAX), &svc->next_channel,
			      GFP_KERNEL_ACCOUNT);
	if (err < 0)
		goto out_unlock;
	err = rlx_channel_open_lane(ch);
	if (err) {
		xa_release(&svc->channels, ch->id);
		goto out_unlock;
	}
	kref_get(&ch->use);		/* the lane's */
	kref_get(&ch->ref);		/* the table's */
	xa_store(&svc->channels, ch->id, ch, GFP_KERNEL_ACCOUNT);
	WRITE_ONCE(svc->nr_channels, svc->nr_channels + 1);
out_unlock:
	mutex_unlock(&svc->lock);
	return err;
}

static long rlx_channel_connect_to(struct rlx_service *svc, struct rlx_call *call)
{
	struct rlx_ioc_connect *c = call->arg;
	struct rlx_channel *ch;
	struct file *file;
	int err;

	if ((svc->flags & RLX_SERVICE_SINGLE_USER) &&
	    !uid_eq(current_euid(), svc->owner))
		return -EPERM;
	if (!is_power_of_2(c->depth) || c->depth > svc->depth)
		return -EINVAL;
	ch = rlx_channel_new(svc, call->priv, c);
	if (IS_ERR(ch))
		return PTR_ERR(ch);
	err = -EINVAL;
	ch->q = rlx_channel_choose(svc, c->queue);
	if (!ch->q)
		goto out_free;
	file = rlx_file_new("rlx-channel", &rlx_channel_fops, ch, O_RDWR);
	if (IS_ERR(file)) {
		err = PTR_ERR(file);
		goto out_free;
	}
	err = rlx_channel_enter(ch);
	if (err) {
		/* Its release must not find a channel. */
		file->private_data = NULL;
		fput(file);
		goto out_free;
	}
	rlx_session_get(ch->session);
	rlx_stat_inc(RLX_STAT_CHANNELS);
	rlx_stat_add(RLX_STAT_SLOTS, ch->depth);
	c->queue = ch->q->index;
	c->channel = ch->id;
	call->newfile = file;
	return 0;

out_free:
	rlx_channel_free_new(ch);
	return err;
}

long rlx_channel_connect(struct rlx_call *call)
{
	const struct rlx_ioc_connect *c = call->arg;
	struct rlx_service *svc;
	long ret;

	if (c->flags & ~RLX_CHANNEL_RING || c->pad || !RLX_IS_ZERO(c->reserved))
		return -EINVAL;
	svc = rlx_service_get_fd(c->service);
	if (IS_ERR(svc))
		return PTR_ERR(svc);
	ret = rlx_channel_connect_to(svc, call);
	rlx_service_put(svc);
	return ret;
}

/* ---- reap ---- */

/* Nothing to take, and nobody left who could give anything. */
static bool rlx_channel_hopeless(struct rlx_channel *ch)
{
	const struct rlx_slots *slots = ch->lane.q;

	if (slots->live || ch->lane.nr[RLX_SLOT_FREE] != ch->lane.depth)
		return false;
	return slots->gone || (slots->gen && !slots->requeue);
}

/* Results that wait, -EPIPE where none will ever, -EPROTO. */
static int rlx_channel_results(struct rlx_channel *ch)
{
	struct rlx_queue *q = ch->q;
	unsigned long flags;
	int n;

	spin_lock_irqsave(&q->slots.lock, flags);
	n = ch->ring ? rlx_ringbuf_used(ch->ring) : (int)rlx_lane_done(&ch->lane);
	if (!n && rlx_channel_hopeless(ch))
		n = -EPIPE;
	spin_unlock_irqrestore(&q->slots.lock, flags);
	return n;
}

/*
 * What cannot be copied stays for the next one who asks: -EFAULT, of *@tried results,
 * also where the memory is only not there yet.
 */
static int rlx_channel_reap_chunk(struct rlx_channel *ch, struct rlx_cqe __user *to,
				  u32 max, u32 *tried)
	__must_hold(&ch->reap_lock)
{
	struct rlx_slot_result res[RLX_CHANNEL_REAP] RLX_UNINIT;
	struct rlx_cqe cqe[RLX_CHANNEL_REAP] RLX_UNINIT;
	struct rlx_queue *q = ch->q;
	unsigned long flags;
	u32 i, n;
	int fault;

	if (!rlx_lane_done(&ch->lane))
		return 0;
	spin_lock_irqsave(&q->slots.lock, flags);
	n = rlx_lane_peek(&ch->lane, res, min_t(u32, max, RLX_CHANNEL_REAP));
	spin_unlock_irqrestore(&q->slots.lock, flags);
	/* Nor is nothing copied: to no memory, that would be a fault, and never less of one. */
	if (!n)
		return 0;
	*tried = n;
	for (i = 0; i < n; i++) {
		cqe[i].user_data = res[i].user_data;
		cqe[i].seq = res[i].seq;
		cqe[i].aux = res[i].aux;
		cqe[i].tag = res[i].tag;
		cqe[i].result = res[i].result;
	}
	/* A fault would wait for whoever serves it, and all who reap here for that. */
	pagefault_disable();
	fault = rlx_words_to_user(to, cqe, n * (sizeof(*cqe) / sizeof(u64)));
	pagefault_enable();
	if (fault)
		return -EFAULT;
	spin_lock_irqsave(&q->slots.lock, flags);
	rlx_lane_reap(&ch->lane, res, n);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	return (int)n;
}

/*
 * The same with memory that has to be faulted in, by a user's pager perhaps: that is
 * waited for with nothing held. Another may take the page away again, and for ever.
 */
static int rlx_channel_reap_some(struct rlx_channel *ch, struct rlx_cqe __user *to,
				 u32 max)
{
	u32 tried;
	int n;

	for (;;) {
		if (mutex_lock_killable(&ch->reap_lock))
			return -EINTR;
		n = rlx_channel_reap_chunk(ch, to, max, &tried);
		mutex_unlock(&ch->reap_lock);
		if (n != -EFAULT)
			return n;
		if (fault_in_safe_writeable((char __user *)to, tried * sizeof(*to)))
			return -EFAULT;
		if (rlx_killed())
			return -EINTR;
	}
}

static long rlx_channel_take(struct rlx_channel *ch, const struct rlx_ioc_reap *r)
{
	struct rlx_cqe __user *to = u64_to_user_ptr(r->entries);
	u32 got = 0;
	int n;

	if (ch->ring)
		return rlx_channel_results(ch);
	if (!rlx_lane_done(&ch->lane))
		return 0;
	do {
		n = rlx_channel_reap_some(ch, to + got, r->max - got);
		got += n < 0 ? 0 : n;
	} while (n == RLX_CHANNEL_REAP && got < r->max && !rlx_killed());
	if (n < 0 && !got)
		return n;
	/* Somebody may wait for the room. */
	if (got && wq_has_sleeper(&ch->wait))
		wake_up_poll(&ch->wait, EPOLLOUT);
	return got;
}

struct rlx_channel_wait {
	struct rlx_channel *ch;
	u32 min;
};

static bool rlx_channel_may_take(void *arg)
{
	struct rlx_channel_wait *w = arg;
	int n = rlx_channel_results(w->ch);

	return n < 0 || (u32)n >= w->min;
}

static long rlx_channel_reap(struct rlx_call *call)
{
	struct rlx_ioc_reap *r = call->arg;
	struct rlx_channel *ch = call->priv;
	struct rlx_channel_wait w = { ch, r->min };
	bool ever = r->timeout_ns == ~0ULL;
	ktime_t due = 0;
	long ret;
	int err;

	if (r->flags || r->pad || r->min > r->max || r->max > INT_MAX ||
	    (ch->ring && r->entries))
		return -EINVAL;
	if (r->min && !rlx_channel_may_take(&w)) {
		due = rlx_time_due(r->timeout_ns);
		err = rlx_sleep(&ch->wait, false, ever ? NULL : &due,
				rlx_channel_may_take, &w);
	} else {
		err = r->min ? 0 : -EAGAIN;
	}
	ret = rlx_channel_take(ch, r);
	if (ret)
		return ret;
	if (!err)
		err = rlx_channel_results(ch);	/* why there is nothing */
	if (err == -ERESTARTNOHAND)
		r->timeout_ns = rlx_time_left(due);
	return err < 0 ? err : -EAGAIN;
}

/* ---- cancel ---- */

static long rlx_channel_cancel(struct rlx_call *call)
{
	const struct rlx_ioc_cancel *c = call->arg;
	struct rlx_channel *ch = call->priv;
	struct rlx_queue *q = ch->q;
	struct rlx_todo todo = {};
	struct rlx_slot_out out;
	unsigned long flags;
	int err;

	if (c->flags)
		return -EINVAL;
	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	err = rlx_slot_cancel(&ch->lane, c->tag, c->seq, &out);
	if (!err)
		q->cancelled++;
	if (out.acts & RLX_ACT_HINT)
		rlx_queue_unwanted(q, out.tag);
	rlx_queue_settle(q, &out, 1, &todo);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	trace_rlx_cancel(ch->id, c->tag, c->seq, err);
	rlx_queue_act(q, &out, 1, &todo);
	rcu_read_unlock();
	return err == -EALREADY ? -EBUSY : err;
}

/* ---- file ---- */

static long rlx_channel_info(struct rlx_call *call)
{
	struct rlx_channel *ch = call->priv;

	return rlx_service_fill_info(ch->svc, call->arg);
}

static const struct rlx_ioctl rlx_channel_ioctls[] = {
	RLX_IOCTL_ROW(RLX_IOC_SUBMIT, 0, rlx_channel_submit),
	RLX_IOCTL_ROW(RLX_IOC_REAP, RLX_IOCTL_LEFT, rlx_channel_reap),
	RLX_IOCTL_ROW(RLX_IOC_CANCEL, 0, rlx_channel_cancel),
	{ .cmd = RLX_IOC_ATTACH, .min = sizeof(struct rlx_ioc_attach),
	  .flags = RLX_IOCTL_OUT, .fn = rlx_channel_attach,
	  .undo = rlx_channel_attach_undo },
	RLX_IOCTL_ROW(RLX_IOC_DETACH, 0, rlx_channel_detach),
	RLX_IOCTL_ROW(RLX_IOC_SERVICE_INFO, RLX_IOCTL_OUT, rlx_channel_info),
};

static long rlx_channel_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return rlx_ioctl_dispatch(file, cmd, arg, rlx_channel_ioctls,
				  ARRAY_SIZE(rlx_channel_ioctls));
}

/* In one look: of a first executor that comes the generation is there before it is live. */
static bool rlx_channel_hung_up(struct rlx_channel *ch)
{
	struct rlx_slots *slots = &ch->q->slots;
	unsigned long flags;
	bool dead;

	spin_lock_irqsave(&slots->lock, flags);
	dead = slots->gone || (slots->gen && !slots->live && !slots->requeue);
	spin_unlock_irqrestore(&slots->lock, flags);
	return dead;
}

static __poll_t rlx_channel_poll(struct file *file, poll_table *wait)
{
	struct rlx_channel *ch = file->private_data;
	__poll_t mask = 0;
	int n;

	poll_wait(file, &ch->wait, wait);
	n = rlx_channel_results(ch);
	if (n > 0)
		mask |= EPOLLIN;
	if (n == -EPROTO)
		mask |= EPOLLERR;
	if (rlx_lane_space(&ch->lane))
		mask |= EPOLLOUT;
	if (rlx_channel_hung_up(ch))
		mask |= EPOLLHUP;
	return mask;
}

static int rlx_channel_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct rlx_channel *ch = file->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;

	if (!ch->ring)
		return -EINVAL;
	if (offset == RLX_MAP_OFFSET(RLX_MAP_RING, 0))
		return rlx_area_map(&ch->ring->ro, vma, false);
	if (offset == RLX_MAP_OFFSET(RLX_MAP_USER, 0))
		return rlx_area_map(&ch->ring->rw, vma, true);
	return -EINVAL;
}

static void rlx_channel_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct rlx_channel *ch = file->private_data;

	rlx_stats_fdinfo(m, "channel", ch->id);
	seq_printf(m, "rlx-service:\t%llu\n", ch->svc->id);
	seq_printf(m, "rlx-queue:\t%u\n", ch->q->index);
	seq_printf(m, "rlx-depth:\t%u\n", ch->depth);
	seq_printf(m, "rlx-ready:\t%u\n", READ_ONCE(ch->lane.nr[RLX_SLOT_READY]));
	seq_printf(m, "rlx-delivered:\t%u\n",
		   READ_ONCE(ch->lane.nr[RLX_SLOT_DELIVERED]));
	seq_printf(m, "rlx-done:\t%u\n", rlx_lane_done(&ch->lane));
	seq_printf(m, "rlx-tag:\t%llu\n", ch->user_tag);
}

const struct file_operations rlx_channel_fops = {
	.owner		= THIS_MODULE,
	.release	= rlx_channel_release,
	.unlocked_ioctl	= rlx_channel_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.uring_cmd	= rlx_channel_uring_cmd,
	.mmap		= rlx_channel_mmap,
	.poll		= rlx_channel_poll,
	.show_fdinfo	= rlx_channel_show_fdinfo,
	.llseek		= noop_llseek,
};
