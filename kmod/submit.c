// SPDX-License-Identifier: GPL-2.0-only
/*
 * Submitting: take slots, fill their descriptors from user memory, check, publish.
 *
 * A descriptor is filled while its slot is TAKEN: it belongs to the submitter, and
 * that the executor can watch does no harm, for it knows the request by a seq that
 * is not there yet. User memory is copied once; all checks are on the copy.
 */
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "channel.h"
#include "compat.h"
#include "device.h"
#include "testing.h"
#include "timeline.h"
#include "ioctl.h"
#include "trace.h"
#include "uring.h"
#include "words.h"

/*
 * The first four words of a request are four words of its descriptor, and so are the
 * slices and the inline data; between them stand two that only the kernel needs.
 */
#define RLX_RQ_WORDS	(offsetof(struct rlx_rq, wait) / sizeof(u64))
#define RLX_SAME_PLACE(field)	\
	static_assert(offsetof(struct rlx_desc, field) - \
		      offsetof(struct rlx_desc, opcode) == \
		      offsetof(struct rlx_rq, field))

RLX_SAME_PLACE(flags);
RLX_SAME_PLACE(user_data);
RLX_SAME_PLACE(deadline_ns);
RLX_SAME_PLACE(nr_slices);
RLX_SAME_PLACE(inline_len);
static_assert(RLX_RQ_WORDS == 4 && offsetof(struct rlx_rq, wait_value) == 40);
static_assert(sizeof(struct rlx_desc) == 256 && sizeof(struct rlx_rq) == 256);
static_assert(sizeof(struct rlx_slice) % sizeof(u64) == 0);

struct rlx_wait {
	struct rlx_timeline_waiter waiter;
	struct rlx_timeline *timeline;	/* holds a reference */
	struct rlx_queue *q;
	u64 seq;
	u32 tag;
	int error;			/* (q) with @fired */
	bool fired;			/* (q) before the request could hear of it */
	struct work_struct free;
};

/* A request between its copying and its publication. */
struct rlx_draft {
	struct rlx_slot *slot;
	struct rlx_slice *slices;	/* indirect ones */
	struct rlx_wait *wait;
	u64 wait_handle;		/* with rlx_rq.pad, which is 0 */
	u64 wait_value;
	u64 seq;			/* with @late */
	int error;			/* with @late */
	bool late;			/* its point came before it was there */
};

#define RLX_DRAFTS	16	/* under one lock, and on the stack */

/* ---- waiting for a timeline ---- */

static void rlx_wait_free(struct work_struct *work)
{
	struct rlx_wait *w = container_of(work, struct rlx_wait, free);

	rlx_timeline_put(w->timeline);
	kfree(w);
}

/* Any context: the timeline's last reference is not for an atomic one. */
static void rlx_wait_free_later(struct rlx_wait *w)
{
	INIT_WORK(&w->free, rlx_wait_free);
	queue_work(rlx_dev.wq, &w->free);
}

void rlx_wait_end(struct rlx_wait *w)
{
	rlx_timeline_wait_del(w->timeline, &w->waiter);
	rlx_wait_free_later(w);
}

/*
 * Under the timeline's lock, interrupts off. Either the request is WAITING, and
 * then @w comes back with the record; or it is not yet, or no more: then @w belongs
 * to its submitter or to whoever ended it, who waits in rlx_timeline_wait_del().
 */
static void rlx_wait_wake(struct rlx_timeline_waiter *waiter, int error)
{
	struct rlx_wait *w = container_of(waiter, struct rlx_wait, waiter);
	struct rlx_queue *q = w->q;
	struct rlx_todo todo = {};
	struct rlx_slot_out out;
	unsigned long flags;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	if (rlx_slot_points(&q->slots, w->tag, w->seq, error, &out)) {
		w->fired = true;
		w->error = error;
		spin_unlock_irqrestore(&q->slots.lock, flags);
		rcu_read_unlock();
		return;
	}
	out.acts &= ~RLX_ACT_WAIT;
	rlx_queue_settle(q, &out, 1, &todo);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	trace_rlx_ready(0, out.tag, out.seq, error);
	rlx_queue_act(q, &out, 1, &todo);
	rcu_read_unlock();
	rlx_wait_free_later(w);
}

/* 0 with @d->wait set, or NULL where the point is reached already. */
static int rlx_wait_begin(struct rlx_channel *ch, struct rlx_draft *d)
{
	struct rlx_timeline *tl = rlx_channel_timeline(ch, (u32)d->wait_handle);
	struct rlx_wait *w;
	int ret;

	if (IS_ERR(tl))
		return PTR_ERR(tl);
	ret = -ENOMEM;
	w = kzalloc(sizeof(*w), GFP_KERNEL_ACCOUNT);
	if (!w)
		goto out_put;
	w->timeline = tl;
	w->q = ch->q;
	w->tag = rlx_slot_tag(&ch->q->slots, d->slot);
	w->seq = d->slot->seq;
	w->waiter.value = d->wait_value;
	w->waiter.wake = rlx_wait_wake;
	ret = rlx_timeline_wait_add(tl, &w->waiter);
	if (ret)
		goto out_free;
	d->wait = w;
	return 0;

out_free:
	kfree(w);
out_put:
	rlx_timeline_put(tl);
	return ret < 0 ? ret : 0;
}

/* ---- a draft ---- */

static struct rlx_desc *rlx_draft_desc(struct rlx_channel *ch, const struct rlx_draft *d)
{
	return &ch->q->desc[rlx_slot_tag(&ch->q->slots, d->slot)];
}

/*
 * The heads of @n requests into their descriptors, each word once; how many could be
 * read. One access to user space for all of them.
 */
static u32 rlx_drafts_read(struct rlx_channel *ch, struct rlx_draft *d,
			   const struct rlx_rq __user *urq, u32 n)
{
	u32 i = 0;

	if (!user_read_access_begin(urq, n * sizeof(*urq)))
		return 0;
	for (; i < n; i++, d++, urq++) {
		u64 *to = (u64 *)&rlx_draft_desc(ch, d)->opcode;
		const u64 __user *from = (const u64 __user *)urq;

		unsafe_get_user(to[0], &from[0], out_fault);
		unsafe_get_user(to[1], &from[1], out_fault);
		unsafe_get_user(to[2], &from[2], out_fault);
		unsafe_get_user(to[3], &from[3], out_fault);
		unsafe_get_user(d->wait_handle, &from[4], out_fault);
		unsafe_get_user(d->wait_value, &from[5], out_fault);
	}
out_fault:
	user_read_access_end();
	return i;
}

/* The same of one request from a copy of the kernel's, which has only slices. */
static void rlx_draft_copy(struct rlx_channel *ch, struct rlx_draft *d,
			   const struct rlx_rq *rq)
{
	struct rlx_desc *desc = rlx_draft_desc(ch, d);

	desc->opcode = rq->opcode;
	desc->flags = rq->flags;
	desc->user_data = rq->user_data;
	desc->deadline_ns = rq->deadline_ns;
	desc->nr_slices = rq->nr_slices;
	desc->inline_len = rq->inline_len;
	memcpy(desc->slice, rq->slice, sizeof(desc->slice));
	d->wait_handle = 0;
	d->wait_value = 0;
}

static int rlx_draft_check(struct rlx_channel *ch, const struct rlx_draft *d,
			   const struct rlx_desc *desc)
{
	u32 most = desc->flags & RLX_RQ_INDIRECT ? RLX_RQ_SLICES_MAX : RLX_RQ_SLICES;

	if (desc->flags & ~(RLX_RQ_FLAGS | RLX_RQ_USER_FLAGS) || d->wait_handle >> 32 ||
	    desc->inline_len > RLX_RQ_INLINE ||
	    desc->nr_slices > min(most, ch->svc->max_slices))
		return -EINVAL;
	if (!(desc->flags & RLX_RQ_WAIT) && (d->wait_handle || d->wait_value))
		return -EINVAL;
	if ((desc->flags & RLX_RQ_INDIRECT) && !desc->nr_slices)
		return -EINVAL;
	return 0;
}

/* Of slices and inline data what counts. */
static int rlx_draft_read_body(struct rlx_desc *desc, const struct rlx_rq __user *urq)
{
	u32 slices = desc->flags & RLX_RQ_INDIRECT ? 1 : desc->nr_slices;
	u32 words = slices * (sizeof(struct rlx_slice) / sizeof(u64));

	if (words && rlx_words_from_user(desc->slice, urq->slice, words))
		return -EFAULT;
	words = DIV_ROUND_UP(desc->inline_len, sizeof(u64));
	if (words && rlx_words_from_user(desc->inline_data, urq->inline_data, words))
		return -EFAULT;
	return 0;
}

static int rlx_draft_read_slices(struct rlx_channel *ch, struct rlx_draft *d,
				 const struct rlx_desc *desc)
{
	int err;

	d->slices = kmalloc_array(desc->nr_slices, sizeof(*d->slices),
				  GFP_KERNEL_ACCOUNT);
	if (!d->slices)
		return -ENOMEM;
	err = rlx_channel_copy_slices(ch, &desc->slice[0], d->slices, desc->nr_slices);
	if (err) {
		kfree(d->slices);
		d->slices = NULL;
	}
	return err;
}

/* The head is there; the rest. What it leaves in @d, rlx_draft_clear() undoes. */
static int rlx_draft_fill(struct rlx_channel *ch, struct rlx_draft *d,
			  const struct rlx_rq __user *urq,
			  struct rlx_rq_id __user *uid)
{
	struct rlx_desc *desc = rlx_draft_desc(ch, d);
	int err;

	err = rlx_draft_check(ch, d, desc);
	if (!err && urq)
		err = rlx_draft_read_body(desc, urq);
	if (err)
		return err;
	if (desc->flags & RLX_RQ_INDIRECT) {
		err = rlx_draft_read_slices(ch, d, desc);
		if (err)
			return err;
	}
	if (uid) {
		struct rlx_rq_id id = {
			.seq = d->slot->seq,
			.tag = rlx_slot_tag(&ch->q->slots, d->slot),
		};

		if (rlx_words_to_user(uid, &id, sizeof(id) / sizeof(u64)))
			return -EFAULT;
	}
	return desc->flags & RLX_RQ_WAIT ? rlx_wait_begin(ch, d) : 0;
}

/* Every slice; what the request names as leases. Lock held. */
static int rlx_draft_check_slices(struct rlx_channel *ch, const struct rlx_draft *d,
				  const struct rlx_desc *desc, unsigned long *lease)
{
	const struct rlx_slice *s = d->slices ?: desc->slice;
	u32 i;
	int err;

	for (i = 0; i < desc->nr_slices; i++) {
		err = rlx_channel_check_slice(ch, &s[i]);
		if (err)
			return err;
		__set_bit(RLX_ATTACH_INDEX(s[i].arena), lease);
	}
	if (desc->flags & RLX_RQ_WAIT)
		__set_bit(RLX_ATTACH_INDEX((u32)d->wait_handle), lease);
	if (!d->slices)
		return 0;
	/* The range they came from, once more: detached in between? */
	err = rlx_channel_check_slice(ch, &desc->slice[0]);
	__set_bit(RLX_ATTACH_INDEX(desc->slice[0].arena), lease);
	return err;
}

/* The request becomes one. Lock held; on error the slot is free again. */
static int rlx_draft_publish(struct rlx_channel *ch, struct rlx_draft *d,
			     struct io_uring_cmd *cmd, struct rlx_slot_out *out)
{
	struct rlx_queue *q = ch->q;
	u32 tag = rlx_slot_tag(&q->slots, d->slot);
	struct rlx_desc *desc = &q->desc[tag];
	struct rlx_slot_req req RLX_UNINIT;
	int err;

	memset(req.lease, 0, sizeof(req.lease));
	err = rlx_draft_check_slices(ch, d, desc, req.lease);
	if (err) {
		rlx_slot_drop(&q->slots, d->slot, out);
		return err;
	}
	desc->channel = ch->id;
	desc->tag = tag;
	smp_store_release(&desc->seq, d->slot->seq);
	if (d->slices)
		swap(q->slices[tag], d->slices);
	if (cmd)
		rlx_uring_parked(cmd, tag, d->slot->seq);
	req.cmd = cmd;
	req.wait = d->wait;
	req.user_data = desc->user_data;
	req.deadline = desc->deadline_ns;
	err = rlx_slot_submit(&q->slots, d->slot, &req, out);
	if (err)
		return err;
	q->submitted++;
	if (d->wait && d->wait->fired) {
		d->late = true;
		d->error = d->wait->error;
		d->seq = d->slot->seq;
	}
	d->wait = NULL;			/* the request's now */
	return 0;
}

/*
 * The point was reached or poisoned before the request was there to be told. No lock
 * held: it may have ended meanwhile, and then whoever ended it freed its wait.
 */
static void rlx_draft_point(struct rlx_channel *ch, const struct rlx_draft *d)
{
	struct rlx_queue *q = ch->q;
	struct rlx_todo todo = {};
	struct rlx_slot_out out;
	unsigned long flags;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	rlx_slot_points(&q->slots, rlx_slot_tag(&q->slots, d->slot), d->seq, d->error,
			&out);
	rlx_queue_settle(q, &out, 1, &todo);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	rlx_queue_act(q, &out, 1, &todo);
	rcu_read_unlock();
}

/* What publication did not take. No lock held. */
static void rlx_draft_clear(struct rlx_draft *d)
{
	kfree(d->slices);
	if (d->wait)
		rlx_wait_end(d->wait);
}

/* ---- a batch ---- */

/* Slots to fill, at most @max; how many, or why none. */
static int rlx_drafts_take(struct rlx_channel *ch, struct rlx_draft *d, u32 max)
{
	struct rlx_queue *q = ch->q;
	u32 room = max, n = 0;
	unsigned long flags;
	int err = -EAGAIN;

	spin_lock_irqsave(&q->slots.lock, flags);
	if (ch->ring) {
		/* Results not consumed yet have no slot, but need their entry. */
		int used = rlx_ringbuf_used(ch->ring);
		int left = (int)ch->lane.nr[RLX_SLOT_FREE] - used;

		if (used < 0)
			err = used;
		room = used < 0 || left < 0 ? 0 : min_t(u32, room, left);
	}
	while (n < room) {
		err = rlx_lane_take(&ch->lane, &d[n].slot);
		if (err)
			break;
		n++;
	}
	spin_unlock_irqrestore(&q->slots.lock, flags);
	return n ? (int)n : err;
}

/*
 * Publishes the first @n of @nr drafts, in order, up to the first that is refused;
 * the slots of the rest go back. How many; @err is why not all.
 */
static u32 rlx_drafts_publish(struct rlx_channel *ch, struct rlx_draft *d, u32 n,
			      u32 nr, struct io_uring_cmd *cmd, int *err)
{
	/* All these records are of one lane, and have nothing but wakes. */
	struct rlx_slot_out out RLX_UNINIT;
	struct rlx_slot_out all = { .lane = &ch->lane };
	struct rlx_queue *q = ch->q;
	struct rlx_todo todo = {};
	unsigned long flags;
	u32 done = 0, i;
	int ret;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	for (; done < n; done++) {
		ret = rlx_draft_publish(ch, &d[done], cmd, &out);
		all.acts |= out.acts;
		if (unlikely(ret)) {
			*err = ret;
			break;
		}
	}
	/* The one refused has given its slot back already. */
	for (i = done < n ? done + 1 : done; i < nr; i++) {
		rlx_slot_drop(&q->slots, d[i].slot, &out);
		all.acts |= out.acts;
	}
	rlx_queue_settle(q, &all, 1, &todo);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	rlx_queue_act(q, &all, 1, &todo);
	rcu_read_unlock();
	return done;
}

/* Where requests come from, and who wants to know of them. */
struct rlx_source {
	const struct rlx_rq __user *urq;
	const struct rlx_rq *rq;	/* instead, if not NULL; of one request */
	struct rlx_rq_id __user *uid;	/* may be NULL */
	struct io_uring_cmd *cmd;	/* may be NULL; of one request */
};

/* Fills at most @nr drafts from @at on; how many. @err is why not all. */
static u32 rlx_drafts_fill(struct rlx_channel *ch, struct rlx_draft *d,
			   const struct rlx_source *from, u32 at, u32 nr, int *err)
{
	u32 readable = 1, n, i;

	for (i = 0; i < nr; i++) {
		d[i].slices = NULL;
		d[i].wait = NULL;
		d[i].late = false;
	}
	if (from->rq)
		rlx_draft_copy(ch, d, from->rq);
	else
		readable = rlx_drafts_read(ch, d, from->urq + at, nr);
	for (n = 0; n < readable; n++) {
		int ret = rlx_draft_fill(ch, &d[n],
					 from->rq ? NULL : from->urq + at + n,
					 from->uid ? from->uid + at + n : NULL);

		if (ret) {
			*err = ret;
			return n;
		}
	}
	if (n < nr)
		*err = -EFAULT;
	return n;
}

/* How many were submitted, from @at on; less than @max means @err. */
static u32 rlx_channel_submit_chunk(struct rlx_channel *ch,
				    const struct rlx_source *from, u32 at,
				    u32 max, int *err)
{
	struct rlx_draft d[RLX_DRAFTS] RLX_UNINIT;
	int got = rlx_drafts_take(ch, d, min_t(u32, max, RLX_DRAFTS));
	u32 nr, n, i, done;

	if (got < 0) {
		*err = got;
		return 0;
	}
	nr = got;
	*err = nr < max ? -EAGAIN : 0;
	n = rlx_drafts_fill(ch, d, from, at, nr, err);
	rlx_stall("submit");
	done = rlx_drafts_publish(ch, d, n, nr, from->cmd, err);
	for (i = 0; i < nr; i++) {
		if (i < done)
			trace_rlx_submit(ch->id, rlx_slot_tag(&ch->q->slots, d[i].slot),
					 d[i].slot->seq, 0);
		if (unlikely(d[i].late))
			rlx_draft_point(ch, &d[i]);
		if (unlikely(d[i].slices || d[i].wait))
			rlx_draft_clear(&d[i]);
	}
	return done;
}

int rlx_channel_submit_one(struct rlx_channel *ch, const struct rlx_rq __user *urq,
			   const struct rlx_rq *rq, struct io_uring_cmd *cmd)
{
	const struct rlx_source from = { .urq = urq, .rq = rq, .cmd = cmd };
	int err;

	return rlx_channel_submit_chunk(ch, &from, 0, 1, &err) ? 0 : err;
}

long rlx_channel_submit(struct rlx_call *call)
{
	const struct rlx_ioc_submit *s = call->arg;
	const struct rlx_source from = {
		.urq = u64_to_user_ptr(s->entries),
		.uid = u64_to_user_ptr(s->ids),
	};
	u32 done = 0, n;
	int err = 0;

	if (s->flags || s->reserved || s->nr > INT_MAX)
		return -EINVAL;
	while (done < s->nr) {
		u32 max = min_t(u32, s->nr - done, RLX_DRAFTS);

		n = rlx_channel_submit_chunk(call->priv, &from, done, max, &err);
		done += n;
		if (n < max)
			break;
		cond_resched();
	}
	return done ? (long)done : err;
}

/* ---- what the executor sees of indirect slices ---- */

long rlx_executor_slices(struct rlx_call *call)
{
	const struct rlx_ioc_exec_slices *es = call->arg;
	struct rlx_executor *ex = call->priv;
	struct rlx_slice *copy;
	struct rlx_slot *slot;
	struct rlx_queue *q;
	unsigned long flags;
	u32 nr = 0, tag;
	long ret;

	if (es->pad || es->queue >= ex->svc->nr_queues || es->max > INT_MAX)
		return -EINVAL;
	q = &ex->svc->queue[array_index_nospec(es->queue, ex->svc->nr_queues)];
	if (es->tag >= q->slots.depth)
		return -ESTALE;
	tag = array_index_nospec(es->tag, q->slots.depth);
	copy = kmalloc_array(RLX_RQ_SLICES_MAX, sizeof(*copy), GFP_KERNEL_ACCOUNT);
	if (!copy)
		return -ENOMEM;
	ret = -ESTALE;
	spin_lock_irqsave(&q->slots.lock, flags);
	slot = &q->slots.slot[tag];
	if (slot->seq == es->seq && slot->gen == ex->gen && q->slots.live &&
	    (slot->state == RLX_SLOT_DELIVERED || slot->state == RLX_SLOT_ORPHAN)) {
		ret = -EINVAL;
		if (q->desc[tag].flags & RLX_RQ_INDIRECT) {
			nr = min(q->desc[tag].nr_slices, es->max);
			memcpy(copy, q->slices[tag], nr * sizeof(*copy));
			ret = nr;
		}
	}
	spin_unlock_irqrestore(&q->slots.lock, flags);
	if (nr && copy_to_user(u64_to_user_ptr(es->slices), copy, nr * sizeof(*copy)))
		ret = -EFAULT;
	kfree(copy);
	return ret;
}
