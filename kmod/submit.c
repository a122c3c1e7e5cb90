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

/* What stands before the slices; they and the inline data go to the descriptor. */
#define RLX_RQ_HEAD	offsetof(struct rlx_rq, slice)

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

/* The first part of struct rlx_rq. */
struct rlx_rq_head {
	u32 opcode;
	u32 flags;
	u64 user_data;
	u64 deadline_ns;
	u32 nr_slices;
	u32 inline_len;
	u32 wait;
	u32 pad;
	u64 wait_value;
};

static_assert(sizeof(struct rlx_rq_head) == RLX_RQ_HEAD);
static_assert(offsetof(struct rlx_rq_head, nr_slices) ==
	      offsetof(struct rlx_rq, nr_slices));
static_assert(offsetof(struct rlx_rq_head, wait_value) ==
	      offsetof(struct rlx_rq, wait_value));

/* A request between its copying and its publication. */
struct rlx_draft {
	struct rlx_slot *slot;
	struct rlx_slice *slices;	/* indirect ones */
	struct rlx_wait *wait;
	struct rlx_rq_head head;
};

#define RLX_DRAFTS	8	/* under one lock, and on the stack */

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

/* 0 with *@wait set, or NULL where the point is reached already. */
static int rlx_wait_begin(struct rlx_channel *ch, const struct rlx_rq_head *head,
			  const struct rlx_slot *slot, struct rlx_wait **wait)
{
	struct rlx_timeline *tl = rlx_channel_timeline(ch, head->wait);
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
	w->tag = rlx_slot_tag(&ch->q->slots, slot);
	w->seq = slot->seq;
	w->waiter.value = head->wait_value;
	w->waiter.wake = rlx_wait_wake;
	ret = rlx_timeline_wait_add(tl, &w->waiter);
	if (ret)
		goto out_free;
	*wait = w;
	return 0;

out_free:
	kfree(w);
out_put:
	rlx_timeline_put(tl);
	return ret < 0 ? ret : 0;
}

/* ---- a draft ---- */

static int rlx_draft_check_head(struct rlx_channel *ch, const struct rlx_rq_head *head)
{
	u32 most = head->flags & RLX_RQ_INDIRECT ? RLX_RQ_SLICES_MAX : RLX_RQ_SLICES;

	if (head->flags & ~(RLX_RQ_FLAGS | RLX_RQ_USER_FLAGS) || head->pad ||
	    head->inline_len > RLX_RQ_INLINE ||
	    head->nr_slices > min(most, ch->svc->max_slices))
		return -EINVAL;
	if (!(head->flags & RLX_RQ_WAIT) && (head->wait || head->wait_value))
		return -EINVAL;
	if ((head->flags & RLX_RQ_INDIRECT) && !head->nr_slices)
		return -EINVAL;
	return 0;
}

static int rlx_draft_fill_slices(struct rlx_channel *ch, struct rlx_draft *d,
				 const struct rlx_desc *desc)
{
	u32 nr = d->head.nr_slices;
	int err;

	d->slices = kmalloc_array(nr, sizeof(*d->slices), GFP_KERNEL_ACCOUNT);
	if (!d->slices)
		return -ENOMEM;
	err = rlx_channel_copy_slices(ch, &desc->slice[0], d->slices, nr);
	if (err) {
		kfree(d->slices);
		d->slices = NULL;
	}
	return err;
}

/* The first part, and of slices and inline data what counts; each word once. */
static int rlx_draft_copy(struct rlx_channel *ch, struct rlx_draft *d,
			  const struct rlx_rq __user *urq, struct rlx_desc *desc)
{
	u32 slices;
	int err;

	if (rlx_words_from_user(&d->head, urq, RLX_RQ_HEAD / sizeof(u64)))
		return -EFAULT;
	err = rlx_draft_check_head(ch, &d->head);
	if (err)
		return err;
	slices = d->head.flags & RLX_RQ_INDIRECT ? 1 : d->head.nr_slices;
	if (slices &&
	    rlx_words_from_user(desc->slice, urq->slice,
				slices * (sizeof(struct rlx_slice) / sizeof(u64))))
		return -EFAULT;
	if (d->head.inline_len &&
	    rlx_words_from_user(desc->inline_data, urq->inline_data,
				DIV_ROUND_UP(d->head.inline_len, sizeof(u64))))
		return -EFAULT;
	return 0;
}

/* The same from a copy of the kernel's, which has no more than slices. */
static int rlx_draft_take_copy(struct rlx_channel *ch, struct rlx_draft *d,
			       const struct rlx_rq *rq, struct rlx_desc *desc)
{
	int err;

	memcpy(&d->head, rq, RLX_RQ_HEAD);
	err = rlx_draft_check_head(ch, &d->head);
	if (!err)
		memcpy(desc->slice, rq->slice, sizeof(desc->slice));
	return err;
}

/* Sleeps and copies; what it leaves in @d is undone by rlx_draft_clear(). */
static int rlx_draft_fill(struct rlx_channel *ch, struct rlx_draft *d,
			  const struct rlx_rq __user *urq, const struct rlx_rq *rq,
			  struct rlx_rq_id __user *uid)
{
	u32 tag = rlx_slot_tag(&ch->q->slots, d->slot);
	struct rlx_desc *desc = &ch->q->desc[tag];
	int err;

	if (rq)
		err = rlx_draft_take_copy(ch, d, rq, desc);
	else
		err = rlx_draft_copy(ch, d, urq, desc);
	if (err)
		return err;
	if (d->head.flags & RLX_RQ_INDIRECT) {
		err = rlx_draft_fill_slices(ch, d, desc);
		if (err)
			return err;
	}
	if (uid) {
		struct rlx_rq_id id = { .seq = d->slot->seq, .tag = tag };

		if (copy_to_user(uid, &id, sizeof(id)))
			return -EFAULT;
	}
	if (d->head.flags & RLX_RQ_WAIT)
		return rlx_wait_begin(ch, &d->head, d->slot, &d->wait);
	return 0;
}

/* Every slice; what the request names as leases. Lock held. */
static int rlx_draft_check_slices(struct rlx_channel *ch, const struct rlx_draft *d,
				  const struct rlx_desc *desc, unsigned long *lease)
{
	const struct rlx_slice *s = d->slices ?: desc->slice;
	u32 i;
	int err;

	for (i = 0; i < d->head.nr_slices; i++) {
		err = rlx_channel_check_slice(ch, &s[i]);
		if (err)
			return err;
		__set_bit(RLX_ATTACH_INDEX(s[i].arena), lease);
	}
	if (d->head.flags & RLX_RQ_WAIT)
		__set_bit(RLX_ATTACH_INDEX(d->head.wait), lease);
	if (!d->slices)
		return 0;
	/* The range they came from, once more: detached in between? */
	err = rlx_channel_check_slice(ch, &desc->slice[0]);
	__set_bit(RLX_ATTACH_INDEX(desc->slice[0].arena), lease);
	return err;
}

static void rlx_draft_write(struct rlx_channel *ch, const struct rlx_draft *d,
			    struct rlx_desc *desc, u32 tag)
{
	desc->channel = ch->id;
	desc->tag = tag;
	desc->opcode = d->head.opcode;
	desc->flags = d->head.flags;
	desc->user_data = d->head.user_data;
	desc->deadline_ns = d->head.deadline_ns;
	desc->nr_slices = d->head.nr_slices;
	desc->inline_len = d->head.inline_len;
	smp_store_release(&desc->seq, d->slot->seq);
}

/*
 * The request becomes one. Lock held; on error the slot is free again. @out is to be
 * acted on in both cases.
 */
static int rlx_draft_publish(struct rlx_channel *ch, struct rlx_draft *d,
			     struct io_uring_cmd *cmd, struct rlx_slot_out *out,
			     struct rlx_todo *todo)
{
	struct rlx_queue *q = ch->q;
	u32 tag = rlx_slot_tag(&q->slots, d->slot);
	struct rlx_slot_req req = {
		.cmd = cmd,
		.wait = d->wait,
		.user_data = d->head.user_data,
		.deadline = d->head.deadline_ns,
	};
	int err;

	err = rlx_draft_check_slices(ch, d, &q->desc[tag], req.lease);
	if (err) {
		rlx_slot_drop(&q->slots, d->slot, out);
		return err;
	}
	rlx_draft_write(ch, d, &q->desc[tag], tag);
	if (d->slices)
		swap(q->slices[tag], d->slices);
	if (cmd)
		rlx_uring_parked(cmd, tag, d->slot->seq);
	err = rlx_slot_submit(&q->slots, d->slot, &req, out);
	if (err)
		return err;
	q->submitted++;
	if (d->wait && d->wait->fired) {
		/* Reached or poisoned before the request was there to be told. */
		rlx_queue_settle(q, out, 1, todo);
		if (!rlx_slot_points(&q->slots, tag, d->slot->seq, d->wait->error, out))
			out->acts &= ~RLX_ACT_WAIT;
	} else {
		d->wait = NULL;		/* the request's now */
	}
	rlx_queue_settle(q, out, 1, todo);
	return 0;
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
	struct rlx_slot_out out[RLX_DRAFTS];
	struct rlx_queue *q = ch->q;
	struct rlx_todo todo = {};
	unsigned long flags;
	u32 done = 0, i;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	for (i = 0; i < nr; i++) {
		if (i < n && done == i) {
			int ret = rlx_draft_publish(ch, &d[i], cmd, &out[i], &todo);

			if (ret)
				*err = ret;
			else
				done++;
		} else {
			rlx_slot_drop(&q->slots, d[i].slot, &out[i]);
		}
	}
	spin_unlock_irqrestore(&q->slots.lock, flags);
	rlx_queue_act(q, out, nr, &todo);
	rcu_read_unlock();
	return done;
}

/* Where requests come from, and who wants to know of them. */
struct rlx_source {
	const struct rlx_rq __user *urq;
	const struct rlx_rq *rq;	/* instead, if not NULL */
	struct rlx_rq_id __user *uid;	/* may be NULL */
	struct io_uring_cmd *cmd;	/* may be NULL; for one request */
};

/* How many were submitted, from @at on; less than @max means @err. */
static u32 rlx_channel_submit_chunk(struct rlx_channel *ch,
				    const struct rlx_source *from, u32 at,
				    u32 max, int *err)
{
	struct rlx_draft d[RLX_DRAFTS];
	int got = rlx_drafts_take(ch, d, min_t(u32, max, RLX_DRAFTS));
	u32 nr, n, i, done;

	if (got < 0) {
		*err = got;
		return 0;
	}
	nr = got;
	*err = nr < max ? -EAGAIN : 0;
	for (i = 0; i < nr; i++) {
		d[i].slices = NULL;
		d[i].wait = NULL;
	}
	for (n = 0; n < nr; n++) {
		int ret = rlx_draft_fill(ch, &d[n], from->urq + at + n, from->rq,
					 from->uid ? from->uid + at + n : NULL);

		if (ret) {
			*err = ret;
			break;
		}
	}
	rlx_stall("submit");
	done = rlx_drafts_publish(ch, d, n, nr, from->cmd, err);
	for (i = 0; i < nr; i++) {
		if (i < done)
			trace_rlx_submit(ch->id, rlx_slot_tag(&ch->q->slots, d[i].slot),
					 d[i].slot->seq, 0);
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
