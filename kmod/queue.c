// SPDX-License-Identifier: GPL-2.0-only
/*
 * A queue between channels and executor: who is told when something is ready or
 * done, deadlines, and the end of an executor.
 */
#include <linux/poll.h>
#include <linux/slab.h>

#include "channel.h"
#include "device.h"
#include "uring.h"

/* ---- the ready side: rings, parked commands, sleepers ---- */

/* The executor wrote nonsense: it is as good as dead. Lock held. */
static void rlx_queue_break(struct rlx_queue *q)
{
	if (!q->slots.live)
		return;
	rlx_slots_detach(&q->slots, false);
	rlx_service_get(q->svc);
	if (!queue_work(rlx_dev.wq, &q->svc->bury))
		rlx_service_put(q->svc);
}

int rlx_queue_pop(struct rlx_queue *q, u32 gen, struct rlx_slot_ref *ref, u32 min,
		  u32 max)
{
	struct rlx_channel *ch;
	u32 n = 0;
	int ret;

	lockdep_assert_held(&q->slots.lock);
	if (!q->slots.live || q->slots.gen != gen)
		return -EPIPE;
	if (rlx_slots_ready(&q->slots) + q->nr_events < min)
		return 0;
	while (n < max && q->nr_events) {
		ch = list_first_entry(&q->events, struct rlx_channel, event);
		list_del_init(&ch->event);
		q->nr_events--;
		ref[n].seq = 0;
		ref[n++].tag = RLX_TAG_EVENT | ch->id;
	}
	ret = rlx_slots_fetch(&q->slots, gen, ref + n, max - n);
	return ret < 0 ? ret : ret + (int)n;
}

/* Entries put into a ring under one hold of the lock, which keeps interrupts off. */
#define RLX_QUEUE_PUSH	256

/*
 * Moves what is ready into the ring, as far as there is room; how much lies there
 * now, -EPROTO. Where that is much, a work item does the rest. Lock held.
 */
static int rlx_queue_push(struct rlx_queue *q)
{
	struct rlx_ringbuf *ring = q->ring;
	int used = rlx_ringbuf_used(ring), i, n;
	struct rlx_slot_ref ref[RLX_CHUNK] RLX_UNINIT;
	u32 tail = ring->tail, room;

	if (used < 0) {
		rlx_queue_break(q);
		return used;
	}
	room = ring->mask + 1 - used;
	while (room && (rlx_slots_ready(&q->slots) || q->nr_events)) {
		if (ring->tail - tail >= RLX_QUEUE_PUSH) {
			queue_work(rlx_dev.wq, &q->push);
			break;
		}
		n = rlx_queue_pop(q, q->slots.gen, ref, 1, min_t(u32, room, RLX_CHUNK));
		if (n <= 0)
			break;
		for (i = 0; i < n; i++)
			rlx_ringbuf_put_tag(ring, ref[i].tag);
		room -= n;
	}
	if (ring->tail != tail)
		rlx_ringbuf_publish(ring);
	return ring->mask + 1 - room;
}

static u32 rlx_queue_ready_locked(struct rlx_queue *q)
{
	int used;

	if (!q->ring)
		return rlx_slots_ready(&q->slots) + q->nr_events;
	used = rlx_ringbuf_used(q->ring);
	return used < 0 ? U32_MAX : used;	/* an error is worth waking for */
}

bool rlx_queue_has(struct rlx_queue *q, u32 min)
{
	lockdep_assert_held(&q->slots.lock);
	return rlx_queue_ready_locked(q) >= min;
}

u32 rlx_queue_ready(struct rlx_queue *q)
{
	unsigned long flags;
	u32 ready;

	spin_lock_irqsave(&q->slots.lock, flags);
	ready = rlx_queue_ready_locked(q);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	return ready;
}

void rlx_queue_count(struct rlx_queue *q, struct rlx_queue_counts *c)
{
	unsigned long flags;

	spin_lock_irqsave(&q->slots.lock, flags);
	c->ready = rlx_slots_ready(&q->slots);
	c->delivered = rlx_slots_count(&q->slots, RLX_SLOT_DELIVERED) +
		       rlx_slots_count(&q->slots, RLX_SLOT_ORPHAN);
	c->parked = q->nr_fetchers;
	c->submitted = q->submitted;
	c->committed = q->committed;
	c->cancelled = q->cancelled;
	spin_unlock_irqrestore(&q->slots.lock, flags);
}

void rlx_queue_kick(struct rlx_queue *q, struct rlx_todo *todo)
{
	struct rlx_fetcher *f;
	u32 ready;

	lockdep_assert_held(&q->slots.lock);
	if (q->ring)
		ready = rlx_queue_push(q);	/* an error is worth waking for */
	else
		ready = rlx_slots_ready(&q->slots) + q->nr_events;
	if (!ready)
		return;
	/* In ring mode the consumer says whether it needs to be told. */
	if (!q->ring || q->ring->error || rlx_ringbuf_asleep(q->ring))
		todo->wake = true;
	if (todo->fetcher)
		return;
	list_for_each_entry(f, &q->fetchers, node) {
		if (f->req.min <= ready) {
			rlx_fetcher_claim(f);
			todo->fetcher = f;
			return;
		}
	}
}

void rlx_queue_pass_on(struct rlx_queue *q)
{
	struct rlx_todo todo = {};
	unsigned long flags;

	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	rlx_queue_kick(q, &todo);
	spin_unlock_irqrestore(&q->slots.lock, flags);
	rlx_queue_act(q, NULL, 0, &todo);
	rcu_read_unlock();
}

/* Some more for the ring, and again for what is left. */
static void rlx_queue_push_more(struct work_struct *work)
{
	rlx_queue_pass_on(container_of(work, struct rlx_queue, push));
}

/* ---- deadlines ---- */

/*
 * Queues the timer for the earliest deadline. Lock held, which who finds the deadline
 * keeps until the timer knows it: what somebody else found before, an hour ahead,
 * would else come after it and be what counts. Not inline: most requests have none.
 */
static noinline void rlx_queue_arm(struct rlx_queue *q)
{
	u64 due = rlx_slots_next_deadline(&q->slots), now = ktime_get_ns();
	unsigned long ticks = 0;

	if (due == U64_MAX)
		return;
	if (due > now)
		ticks = nsecs_to_jiffies(min_t(u64, due - now, NSEC_PER_SEC * 3600)) + 1;
	mod_delayed_work(rlx_dev.wq, &q->timer, ticks);
}

/* ---- the done side ---- */

/*
 * There is room: submit counts what is under way and what was not consumed, and where
 * a consumer lies about that it overwrites its own entries.
 */
void rlx_queue_put_results(struct rlx_queue *q, struct rlx_slot_out *out, u32 n)
{
	lockdep_assert_held(&q->slots.lock);
	for (; n; n--, out++) {
		struct rlx_cqe *cqe;

		if (!(out->acts & RLX_ACT_RESULT))
			continue;
		out->acts &= ~RLX_ACT_RESULT;
		cqe = rlx_ringbuf_next_cqe(rlx_lane_channel(out->lane)->ring);
		cqe->user_data = q->slots.slot[out->tag].user_data;
		cqe->seq = out->seq;
		cqe->aux = out->aux;
		cqe->tag = out->tag;
		cqe->result = out->result;
	}
}

/*
 * The consumers of rings that got results; those that do not sleep need no wake, and
 * whoever consumes makes room too, and knows of it.
 */
static void rlx_queue_publish(struct rlx_slot_out *out, u32 n)
{
	for (; n; n--, out++) {
		struct rlx_channel *ch;

		if (!(out->acts & RLX_ACT_REAP))
			continue;
		ch = rlx_lane_channel(out->lane);
		if (!ch->ring)
			continue;
		rlx_ringbuf_publish(ch->ring);
		out->acts &= rlx_ringbuf_asleep(ch->ring) ? ~RLX_ACT_SPACE :
			     ~(RLX_ACT_REAP | RLX_ACT_SPACE);
	}
}

void rlx_queue_settle(struct rlx_queue *q, struct rlx_slot_out *out, u32 n,
		      struct rlx_todo *todo)
{
	u32 acts = 0, i;

	rlx_queue_put_results(q, out, n);
	for (i = 0; i < n; i++)
		acts |= out[i].acts;
	if (acts & RLX_ACT_REAP)
		rlx_queue_publish(out, n);
	if (unlikely(acts & RLX_ACT_TIMER))
		rlx_queue_arm(q);
	if (acts & RLX_ACT_FETCH)
		rlx_queue_kick(q, todo);
}

static void rlx_channel_tell(struct rlx_channel *ch, u32 acts)
{
	__poll_t what = 0;

	if (!wq_has_sleeper(&ch->wait))
		return;
	if (acts & RLX_ACT_REAP)
		what |= EPOLLIN;
	if (acts & RLX_ACT_SPACE)
		what |= EPOLLOUT;
	wake_up_poll(&ch->wait, what);
}

void rlx_queue_act(struct rlx_queue *q, struct rlx_slot_out *out, u32 n,
		   const struct rlx_todo *todo)
{
	u32 i;

	for (i = 0; i < n; i++) {
		u32 acts = out[i].acts;

		if (acts & RLX_ACT_CMD)
			rlx_uring_answer(out[i].cmd, out[i].result, out[i].aux);
		if (acts & RLX_ACT_WAIT)
			rlx_wait_end(out[i].wait);
		if (acts & RLX_ACT_COPY)
			kfree(out[i].copy);
		if (acts & (RLX_ACT_REAP | RLX_ACT_SPACE))
			rlx_channel_tell(rlx_lane_channel(out[i].lane), acts);
		if (acts & RLX_ACT_DRAINED)
			rlx_channel_put_use(rlx_lane_channel(out[i].lane));
	}
	if (todo->fetcher)
		rlx_uring_wake(todo->fetcher);
	if (todo->wake && wq_has_sleeper(&q->wait))
		wake_up_poll(&q->wait, EPOLLIN);
}

void rlx_queue_unwanted(struct rlx_queue *q, u32 tag)
{
	struct rlx_desc *desc = &q->desc[tag];

	lockdep_assert_held(&q->slots.lock);
	WRITE_ONCE(desc->flags, desc->flags | RLX_RQ_UNWANTED);
}

/* ---- when a deadline is over ---- */

static void rlx_queue_timer(struct work_struct *work)
{
	struct rlx_queue *q = container_of(to_delayed_work(work), struct rlx_queue,
					   timer);
	struct rlx_slot_out out[RLX_CHUNK] RLX_UNINIT;
	unsigned long flags;
	u32 n;

	do {
		struct rlx_todo todo = {};

		rcu_read_lock();
		spin_lock_irqsave(&q->slots.lock, flags);
		n = rlx_slots_expire(&q->slots, ktime_get_ns(), out, RLX_CHUNK);
		q->cancelled += n;
		rlx_queue_settle(q, out, n, &todo);
		if (n < RLX_CHUNK)
			rlx_queue_arm(q);
		spin_unlock_irqrestore(&q->slots.lock, flags);
		rlx_queue_act(q, out, n, &todo);
		rcu_read_unlock();
		cond_resched();
	} while (n == RLX_CHUNK);
}

/* ---- the end of an executor, the beginning and end of a queue ---- */

void rlx_queue_bury(struct rlx_queue *q)
{
	struct rlx_slot_out out[RLX_CHUNK] RLX_UNINIT;
	unsigned long flags;
	bool more;
	u32 n;

	do {
		struct rlx_todo todo = {};

		rcu_read_lock();
		spin_lock_irqsave(&q->slots.lock, flags);
		more = rlx_slots_bury(&q->slots, out, RLX_CHUNK, &n);
		rlx_queue_settle(q, out, n, &todo);
		spin_unlock_irqrestore(&q->slots.lock, flags);
		rlx_queue_act(q, out, n, &todo);
		rcu_read_unlock();
		cond_resched();
	} while (more);
}

int rlx_queue_init(struct rlx_queue *q, struct rlx_service *svc, u32 index)
{
	struct rlx_slot *slot;
	int err = -ENOMEM;
	u32 *heap;

	q->svc = svc;
	q->index = index;
	INIT_LIST_HEAD(&q->fetchers);
	INIT_LIST_HEAD(&q->events);
	init_waitqueue_head(&q->wait);
	INIT_DELAYED_WORK(&q->timer, rlx_queue_timer);
	INIT_WORK(&q->push, rlx_queue_push_more);
	slot = kvcalloc(svc->depth, sizeof(*slot), GFP_KERNEL_ACCOUNT);
	heap = kvcalloc(svc->depth, sizeof(*heap), GFP_KERNEL_ACCOUNT);
	if (!slot || !heap)
		goto out_free;
	err = rlx_area_init(&q->area, svc->session,
			    (size_t)svc->depth * sizeof(struct rlx_desc));
	if (err)
		goto out_free;
	q->desc = q->area.addr;
	err = rlx_slots_init(&q->slots, slot, heap, svc->depth,
			     svc->flags & RLX_SERVICE_REQUEUE);
	if (err)
		goto out_fini_area;
	return 0;

out_fini_area:
	rlx_area_fini(&q->area);
out_free:
	kvfree(heap);
	kvfree(slot);
	return err;
}

void rlx_queue_fini(struct rlx_queue *q)
{
	cancel_delayed_work_sync(&q->timer);
	cancel_work_sync(&q->push);
	WARN_ON_ONCE(q->nr_fetchers || q->nr_events);
	rlx_area_fini(&q->area);
	kvfree(q->slots.heap);
	kvfree(q->slots.slot);
}

/* ---- sleeping ---- */

int rlx_sleep(wait_queue_head_t *wq, bool exclusive, const ktime_t *deadline,
	      bool (*done)(void *arg), void *arg)
{
	DEFINE_WAIT(wait);
	int err = 0;

	for (;;) {
		ktime_t at = deadline ? *deadline : 0;

		if (exclusive)
			prepare_to_wait_exclusive(wq, &wait, TASK_INTERRUPTIBLE);
		else
			prepare_to_wait(wq, &wait, TASK_INTERRUPTIBLE);
		if (done(arg) || err)
			break;
		if (signal_pending(current)) {
			/* io_uring's task work signals, too: nobody is to hear of that */
			err = deadline ? -ERESTARTNOHAND : -ERESTARTSYS;
			break;
		}
		if (!deadline)
			schedule();
		else if (!schedule_hrtimeout(&at, HRTIMER_MODE_ABS))
			err = -ETIME;	/* and look once more */
	}
	finish_wait(wq, &wait);
	return done(arg) ? 0 : err;
}
