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

/* What makes a request more than its descriptor. */
#define RLX_RQ_MORE	(RLX_RQ_INDIRECT | RLX_RQ_WAIT)

#define RLX_BATCH	64	/* slots taken, filled and published in one go */

/* Where requests come from, and who wants to know of them. */
struct rlx_source {
	const struct rlx_rq __user *urq;
	const struct rlx_rq *rq;	/* instead, if not NULL; of one request */
	struct rlx_rq_id __user *uid;	/* may be NULL */
	struct io_uring_cmd *cmd;	/* may be NULL; of one request */
};

/* Requests between the taking of their slots and their publication. */
struct rlx_batch {
	struct rlx_channel *ch;
	struct rlx_slot *slot[RLX_BATCH];
	u32 nr;				/* slots taken */
	u32 done;			/* of these, published */
	u32 end;			/* behind the last that is filled */
	int err;			/* why the rest will not be */

	/* Of the one that is filled last: nothing follows what has RLX_RQ_MORE. */
	u32 more;			/* those of its flags */
	u64 wait_handle;		/* with rlx_rq.pad, which is 0 */
	u64 wait_value;
	struct rlx_slice *slices;	/* indirect ones */
	struct rlx_wait *wait;
	u64 seq;			/* with @late */
	int error;			/* with @late */
	bool late;			/* its point came before it was there */
};

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

/* Of the last request; 0 with @b->wait set, or NULL where its point is reached. */
static int rlx_wait_begin(struct rlx_batch *b)
{
	struct rlx_timeline *tl = rlx_channel_timeline(b->ch, (u32)b->wait_handle);
	const struct rlx_slot *slot = b->slot[b->end - 1];
	struct rlx_wait *w;
	int ret;

	if (IS_ERR(tl))
		return PTR_ERR(tl);
	ret = -ENOMEM;
	w = kzalloc(sizeof(*w), GFP_KERNEL_ACCOUNT);
	if (!w)
		goto out_put;
	w->timeline = tl;
	w->q = b->ch->q;
	w->tag = rlx_slot_tag(&w->q->slots, slot);
	w->seq = slot->seq;
	w->waiter.value = b->wait_value;
	w->waiter.wake = rlx_wait_wake;
	ret = rlx_timeline_wait_add(tl, &w->waiter);
	if (ret)
		goto out_free;
	b->wait = w;
	return 0;

out_free:
	kfree(w);
out_put:
	rlx_timeline_put(tl);
	return ret < 0 ? ret : 0;
}

/* ---- filling descriptors ---- */

static __always_inline struct rlx_desc *
rlx_batch_desc(const struct rlx_batch *b, const struct rlx_slot *slot)
{
	const struct rlx_queue *q = b->ch->q;

	return &q->desc[rlx_slot_tag(&q->slots, slot)];
}

static __always_inline bool rlx_batch_good(const struct rlx_desc *desc, u32 most,
					   u64 wait_handle, u64 wait_value)
{
	if (!(desc->flags & RLX_RQ_INDIRECT))
		most = min_t(u32, most, RLX_RQ_SLICES);
	else if (!desc->nr_slices)
		return false;
	if (!(desc->flags & RLX_RQ_WAIT) && (wait_handle || wait_value))
		return false;
	return !(desc->flags & ~(RLX_RQ_FLAGS | RLX_RQ_USER_FLAGS)) &&
	       !(wait_handle >> 32) && desc->inline_len <= RLX_RQ_INLINE &&
	       desc->nr_slices <= most;
}

/*
 * Requests into their descriptors, of each what counts, each word once: up to one
 * that has more, or is not good. One access to user space for all of them.
 */
static void rlx_batch_read(struct rlx_batch *b, const struct rlx_rq __user *urq)
{
	const u32 most = b->ch->svc->max_slices;
	u64 *to, wait_handle = 0, wait_value = 0;
	/* No index: its check would be a call with user space open. */
	struct rlx_slot **slot = b->slot + b->end;
	u32 end = b->end, more = 0, k;
	const u64 __user *from;
	struct rlx_desc *desc;

	b->err = -EFAULT;
	if (!user_read_access_begin(urq, (b->nr - end) * sizeof(*urq)))
		return;
	for (; end < b->nr && !more; end++, urq++) {
		desc = rlx_batch_desc(b, *slot++);
		from = (const u64 __user *)urq;
		to = (u64 *)&desc->opcode;
		unsafe_get_user(to[0], &from[0], out_end);
		unsafe_get_user(to[1], &from[1], out_end);
		unsafe_get_user(to[2], &from[2], out_end);
		unsafe_get_user(to[3], &from[3], out_end);
		unsafe_get_user(wait_handle, &from[4], out_end);
		unsafe_get_user(wait_value, &from[5], out_end);
		if (!rlx_batch_good(desc, most, wait_handle, wait_value)) {
			b->err = -EINVAL;
			goto out_end;
		}
		from = (const u64 __user *)urq->slice;
		to = (u64 *)desc->slice;
		k = desc->flags & RLX_RQ_INDIRECT ? 1 : desc->nr_slices;
		for (k *= sizeof(struct rlx_slice) / sizeof(u64); k; k--)
			unsafe_get_user(*to++, from++, out_end);
		from = (const u64 __user *)urq->inline_data;
		to = (u64 *)desc->inline_data;
		for (k = DIV_ROUND_UP(desc->inline_len, sizeof(u64)); k; k--)
			unsafe_get_user(*to++, from++, out_end);
		more = desc->flags & RLX_RQ_MORE;
	}
	b->err = 0;
	b->more = more;
	b->wait_handle = wait_handle;
	b->wait_value = wait_value;
out_end:
	user_read_access_end();
	b->end = end;
}

/* The same of one request from a copy of the kernel's, which has only slices. */
static void rlx_batch_copy(struct rlx_batch *b, const struct rlx_rq *rq)
{
	struct rlx_desc *desc = rlx_batch_desc(b, b->slot[b->end]);

	desc->opcode = rq->opcode;
	desc->flags = rq->flags;
	desc->user_data = rq->user_data;
	desc->deadline_ns = rq->deadline_ns;
	desc->nr_slices = rq->nr_slices;
	desc->inline_len = rq->inline_len;
	memcpy(desc->slice, rq->slice, sizeof(desc->slice));
	if (rlx_batch_good(desc, b->ch->svc->max_slices, 0, 0))
		b->end++;
	else
		b->err = -EINVAL;
}

static int rlx_batch_read_slices(struct rlx_batch *b)
{
	const struct rlx_desc *desc = rlx_batch_desc(b, b->slot[b->end - 1]);
	int err;

	b->slices = kmalloc_array(desc->nr_slices, sizeof(*b->slices),
				  GFP_KERNEL_ACCOUNT);
	if (!b->slices)
		return -ENOMEM;
	err = rlx_channel_copy_slices(b->ch, &desc->slice[0], b->slices,
				      desc->nr_slices);
	if (err) {
		kfree(b->slices);
		b->slices = NULL;
	}
	return err;
}

/* Who the requests will be, for whoever submits them. */
static void rlx_batch_tell(struct rlx_batch *b, struct rlx_rq_id __user *uid)
{
	u32 i;

	for (i = b->done; i < b->end; i++) {
		struct rlx_rq_id id = {
			.seq = b->slot[i]->seq,
			.tag = rlx_slot_tag(&b->ch->q->slots, b->slot[i]),
		};

		if (rlx_words_to_user(uid + i, &id, sizeof(id) / sizeof(u64))) {
			b->err = -EFAULT;
			b->end = i;
			b->more = 0;
		}
	}
}

/* Fills some more, the first of them of @from's number @at + @b->done. */
static void rlx_batch_fill(struct rlx_batch *b, const struct rlx_source *from, u32 at)
{
	int err = 0;

	b->end = b->done;
	b->err = 0;
	b->more = 0;
	b->slices = NULL;
	b->wait = NULL;
	b->late = false;
	if (from->rq)
		rlx_batch_copy(b, from->rq);
	else
		rlx_batch_read(b, from->urq + at + b->done);
	if (from->uid)
		rlx_batch_tell(b, from->uid + at);
	if (b->more & RLX_RQ_INDIRECT)
		err = rlx_batch_read_slices(b);
	if (!err && (b->more & RLX_RQ_WAIT))
		err = rlx_wait_begin(b);
	if (err) {
		b->err = err;
		b->end--;
	}
}

/* ---- publishing them ---- */

/* Every slice of a request; what it names as leases. Lock held. */
static int rlx_batch_check(const struct rlx_batch *b, const struct rlx_desc *desc,
			   struct rlx_leases *lease)
{
	bool indirect = desc->flags & RLX_RQ_INDIRECT;
	const struct rlx_slice *s = indirect ? b->slices : desc->slice;
	u32 i;
	int err;

	for (i = 0; i < desc->nr_slices; i++) {
		err = rlx_channel_check_slice(b->ch, &s[i]);
		if (err)
			return err;
		rlx_leases_add(lease, RLX_ATTACH_INDEX(s[i].arena));
	}
	if (desc->flags & RLX_RQ_WAIT)
		rlx_leases_add(lease, RLX_ATTACH_INDEX((u32)b->wait_handle));
	if (!indirect)
		return 0;
	/* The range they came from, once more: detached in between? */
	err = rlx_channel_check_slice(b->ch, &desc->slice[0]);
	rlx_leases_add(lease, RLX_ATTACH_INDEX(desc->slice[0].arena));
	return err;
}

/*
 * What is filled goes from descriptors into slots, up to what is refused: the end of
 * it. Lock held.
 */
static u32 rlx_batch_ready(struct rlx_batch *b)
{
	u32 i;

	for (i = b->done; i < b->end; i++) {
		struct rlx_desc *desc = rlx_batch_desc(b, b->slot[i]);
		struct rlx_slot *slot = b->slot[i];

		slot->lease.words = 0;
		if (desc->nr_slices || (desc->flags & RLX_RQ_WAIT)) {
			b->err = rlx_batch_check(b, desc, &slot->lease);
			if (unlikely(b->err))
				break;
		}
		slot->user_data = desc->user_data;
		slot->deadline = desc->deadline_ns;
		desc->channel = b->ch->id;
		desc->tag = slot->tag;
		smp_store_release(&desc->seq, slot->seq);
	}
	return i;
}

/* What the last one has more, in its slot; until it is a request, @b has it too. */
static void rlx_batch_bind(struct rlx_batch *b, struct rlx_slot *slot,
			   struct io_uring_cmd *cmd)
{
	if (cmd) {
		rlx_uring_parked(cmd, slot->tag, slot->seq);
		slot->cmd = cmd;
	}
	slot->copy = b->slices;
	slot->wait = b->wait;
}

/*
 * It is one: its copy of slices and its wait are its own. Its point may have come
 * before it did.
 */
static void rlx_batch_bound(struct rlx_batch *b)
{
	b->slices = NULL;
	if (!b->wait)
		return;
	b->late = b->wait->fired;
	b->error = b->wait->error;
	b->seq = b->slot[b->done - 1]->seq;
	b->wait = NULL;
}

/* Publishes what is filled, in order. With @b->err the other slots go back. */
static void rlx_batch_publish(struct rlx_batch *b, struct io_uring_cmd *cmd)
{
	struct rlx_slot_out out RLX_UNINIT, all RLX_UNINIT;
	struct rlx_queue *q = b->ch->q;
	struct rlx_todo todo = {};
	u32 from = b->done, end, i;
	unsigned long flags;
	int err;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	end = rlx_batch_ready(b);
	if (end == b->end && end > from)
		rlx_batch_bind(b, b->slot[end - 1], cmd);
	err = rlx_slots_submit(&b->ch->lane, b->slot + from, end - from, &all);
	if (unlikely(err)) {
		b->err = err;
	} else {
		b->done = end;
		q->submitted += end - from;
		if (end == b->end && end > from)
			rlx_batch_bound(b);
	}
	/* All these records are of one lane, and have nothing but wakes. */
	all.lane = &b->ch->lane;
	for (i = b->done; b->err && i < b->nr; i++) {
		rlx_slot_drop(&q->slots, b->slot[i], &out);
		all.acts |= out.acts;
	}
	rlx_queue_settle(q, &all, 1, &todo);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	rlx_queue_act(q, &all, 1, &todo);
	rcu_read_unlock();
	for (i = from; trace_rlx_submit_enabled() && i < b->done; i++)
		trace_rlx_submit(b->ch->id, rlx_slot_tag(&q->slots, b->slot[i]),
				 b->slot[i]->seq, 0);
}

/*
 * The last one's point was reached or poisoned before the request was there to be
 * told. It may have ended meanwhile, and then whoever ended it freed its wait.
 */
static void rlx_batch_point(const struct rlx_batch *b)
{
	struct rlx_queue *q = b->ch->q;
	struct rlx_todo todo = {};
	struct rlx_slot_out out;
	unsigned long flags;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	rlx_slot_points(&q->slots, rlx_slot_tag(&q->slots, b->slot[b->done - 1]), b->seq,
			b->error, &out);
	rlx_queue_settle(q, &out, 1, &todo);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	rlx_queue_act(q, &out, 1, &todo);
	rcu_read_unlock();
}

/* ---- a batch ---- */

/* At most @max slots to fill; 0 or why there are none. */
static int rlx_batch_take(struct rlx_batch *b, struct rlx_channel *ch, u32 max)
{
	struct rlx_queue *q = ch->q;
	unsigned long flags;
	int err = -EAGAIN;

	b->ch = ch;
	b->done = 0;
	spin_lock_irqsave(&q->slots.lock, flags);
	if (ch->ring) {
		/* Results not consumed yet have no slot, but need their entry. */
		int used = rlx_ringbuf_used(ch->ring);
		int left = (int)ch->lane.nr[RLX_SLOT_FREE] - used;

		if (used < 0)
			err = used;
		max = used < 0 || left < 0 ? 0 : min_t(u32, max, left);
	}
	if (max)
		err = rlx_lane_take(&ch->lane, b->slot, max);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	if (err < 0)
		return err;
	b->nr = err;
	return 0;
}

/* How many were submitted, from @at on; less than @max means @err. */
static u32 rlx_channel_submit_chunk(struct rlx_channel *ch,
				    const struct rlx_source *from, u32 at,
				    u32 max, int *err)
{
	struct rlx_batch b RLX_UNINIT;

	*err = rlx_batch_take(&b, ch, min_t(u32, max, RLX_BATCH));
	if (*err)
		return 0;
	do {
		rlx_batch_fill(&b, from, at);
		rlx_stall("submit");
		rlx_batch_publish(&b, from->cmd);
		if (b.more) {
			if (b.late)
				rlx_batch_point(&b);
			kfree(b.slices);
			if (b.wait)
				rlx_wait_end(b.wait);
		}
	} while (!b.err && b.done < b.nr);
	*err = !b.err && b.nr < max ? -EAGAIN : b.err;
	return b.done;
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
		u32 max = min_t(u32, s->nr - done, RLX_BATCH);

		n = rlx_channel_submit_chunk(call->priv, &from, done, max, &err);
		done += n;
		if (n < max || rlx_killed())
			break;
	}
	return done ? (long)done : err;
}

/* ---- what the executor sees of indirect slices ---- */

long rlx_executor_slices(struct rlx_call *call)
{
	const struct rlx_ioc_exec_slices *es = call->arg;
	struct rlx_executor *ex = call->priv;
	struct rlx_queue *q = rlx_service_queue(ex->svc, es->queue);
	struct rlx_slice *copy;
	struct rlx_slot *slot;
	unsigned long flags;
	u32 nr = 0, tag;
	long ret;

	if (es->pad || !q || es->max > INT_MAX)
		return -EINVAL;
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
			memcpy(copy, slot->copy, nr * sizeof(*copy));
			ret = nr;
		}
	}
	spin_unlock_irqrestore(&q->slots.lock, flags);
	if (nr && copy_to_user(u64_to_user_ptr(es->slices), copy, nr * sizeof(*copy)))
		ret = -EFAULT;
	kfree(copy);
	return ret;
}
