// SPDX-License-Identifier: GPL-2.0-only
/* What a channel's requests may name, and what its executor gets to see of it. */
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "arena.h"
#include "channel.h"
#include "device.h"
#include "ioctl.h"
#include "timeline.h"
#include "trace.h"

/* ---- client ---- */

/* A free place, whose generation is not used up; ch->lock held. */
static struct rlx_attachment *rlx_attach_find_free(struct rlx_channel *ch)
{
	u32 i;

	lockdep_assert_held(&ch->lock);
	for (i = 0; i < RLX_LANE_ARENAS; i++) {
		u32 at = (ch->next_index + i) % RLX_LANE_ARENAS;
		struct rlx_attachment *att = &ch->att[at];

		if (READ_ONCE(att->state) != RLX_ATTACH_FREE ||
		    att->handle / RLX_LANE_ARENAS == RLX_ATTACH_GENERATIONS - 1)
			continue;
		ch->next_index = at + 1;
		return att;
	}
	return NULL;
}

/* Fills a place in the table; what @now holds moves into it. */
static int rlx_attach_add(struct rlx_channel *ch, struct rlx_attachment *now)
{
	struct rlx_attachment *att;
	unsigned long flags;
	int err = -ENOSPC;

	mutex_lock(&ch->lock);
	att = rlx_attach_find_free(ch);
	if (att) {
		u32 generation = att->handle / RLX_LANE_ARENAS + 1;

		now->handle = generation * RLX_LANE_ARENAS + (u32)(att - ch->att);
		spin_lock_irqsave(&ch->q->slots.lock, flags);
		*att = *now;
		spin_unlock_irqrestore(&ch->q->slots.lock, flags);
		err = 0;
	}
	mutex_unlock(&ch->lock);
	return err;
}

static void rlx_attach_put(const struct rlx_attachment *att)
{
	if (att->state == RLX_ATTACH_ARENA)
		rlx_arena_attach_put(att->arena, att->access);
	else if (att->state == RLX_ATTACH_TIMELINE)
		rlx_timeline_put(att->timeline);
}

/* What @fd is decides. */
static int rlx_attach_get(int fd, u32 access, struct rlx_attachment *att)
{
	struct rlx_arena *arena = rlx_arena_attach_get(fd, access);
	struct rlx_timeline *tl;

	att->access = access;
	if (!IS_ERR(arena)) {
		att->state = RLX_ATTACH_ARENA;
		att->arena = arena;
		att->size = arena->size;
		return 0;
	}
	if (PTR_ERR(arena) != -EINVAL)
		return PTR_ERR(arena);
	tl = rlx_timeline_get_fd(fd, FMODE_READ);
	if (IS_ERR(tl))
		return PTR_ERR(tl);
	if (access != RLX_R) {
		rlx_timeline_put(tl);
		return -EINVAL;
	}
	att->state = RLX_ATTACH_TIMELINE;
	att->timeline = tl;
	return 0;
}

long rlx_channel_attach(struct rlx_call *call)
{
	struct rlx_ioc_attach *a = call->arg;
	struct rlx_channel *ch = call->priv;
	struct rlx_attachment att = {};
	u64 id;
	int err;

	/* The executor's fd reads, whatever else it may: there is no RLX_W alone. */
	if (a->flags || a->reserved || !(a->access & RLX_R) ||
	    a->access & ~(RLX_R | RLX_W))
		return -EINVAL;
	err = rlx_attach_get(a->fd, a->access, &att);
	if (err)
		return err;
	id = att.state == RLX_ATTACH_ARENA ? att.arena->id : 0;
	err = rlx_attach_add(ch, &att);
	if (err) {
		rlx_attach_put(&att);
		return err;
	}
	trace_rlx_attach(id, ch->id, att.handle, a->access);
	a->handle = att.handle;
	return 0;
}

/*
 * One lock of the two held: the attachment @handle names now, or NULL. With ch->lock
 * alone the state may go from NEWS to FREE meanwhile, and is neither of the two that count.
 */
static struct rlx_attachment *rlx_attach_find(struct rlx_channel *ch, u32 handle)
{
	struct rlx_attachment *att = &ch->att[RLX_ATTACH_INDEX(handle)];
	u8 state = READ_ONCE(att->state);

	if (att->handle != handle || (state != RLX_ATTACH_ARENA &&
				      state != RLX_ATTACH_TIMELINE))
		return NULL;
	return att;
}

static int rlx_channel_take_back(struct rlx_channel *ch, u32 handle)
{
	struct rlx_attachment old, *att;
	struct rlx_queue *q = ch->q;
	struct rlx_todo todo = {};
	unsigned long flags;
	int err;

	mutex_lock(&ch->lock);
	rcu_read_lock();
	spin_lock_irqsave(&q->slots.lock, flags);
	err = -ENOENT;
	att = rlx_attach_find(ch, handle);
	if (!att)
		goto out_unlock;
	err = -EBUSY;
	if (rlx_lane_leases(&ch->lane, RLX_ATTACH_INDEX(handle)))
		goto out_unlock;
	old = *att;
	att->state = att->seen ? RLX_ATTACH_NEWS : RLX_ATTACH_FREE;
	if (att->seen)
		rlx_channel_news(ch, &todo);
	err = 0;
out_unlock:
	spin_unlock_irqrestore(&q->slots.lock, flags);
	rlx_queue_act(q, NULL, 0, &todo);
	rcu_read_unlock();
	mutex_unlock(&ch->lock);
	if (!err)
		rlx_attach_put(&old);
	return err;
}

long rlx_channel_detach(struct rlx_call *call)
{
	const struct rlx_ioc_detach *d = call->arg;

	if (d->flags)
		return -EINVAL;
	return rlx_channel_take_back(call->priv, d->handle);
}

void rlx_channel_attach_undo(struct rlx_call *call)
{
	const struct rlx_ioc_attach *a = call->arg;

	rlx_channel_take_back(call->priv, a->handle);
}

void rlx_channel_drop_attachments(struct rlx_channel *ch)
{
	struct rlx_attachment *att;
	unsigned long flags;
	u32 i;

	mutex_lock(&ch->lock);
	spin_lock_irqsave(&ch->q->slots.lock, flags);
	att = ch->att;
	ch->att = NULL;
	spin_unlock_irqrestore(&ch->q->slots.lock, flags);
	mutex_unlock(&ch->lock);
	for (i = 0; i < RLX_LANE_ARENAS; i++)
		rlx_attach_put(&att[i]);
	kvfree(att);
}

void rlx_channel_forget_news(struct rlx_channel *ch)
{
	u32 i;

	lockdep_assert_held(&ch->q->slots.lock);
	if (!list_empty(&ch->event)) {
		list_del_init(&ch->event);
		ch->q->nr_events--;
	}
	for (i = 0; ch->att && i < RLX_LANE_ARENAS; i++) {
		ch->att[i].seen = false;
		if (ch->att[i].state == RLX_ATTACH_NEWS)
			WRITE_ONCE(ch->att[i].state, RLX_ATTACH_FREE);
	}
}

/* ---- checking what a request names ---- */

int rlx_channel_check_slice(struct rlx_channel *ch, const struct rlx_slice *s)
{
	struct rlx_attachment *att = rlx_attach_find(ch, s->arena);
	u64 end;

	if (!s->access || s->access & ~(RLX_R | RLX_W) || !s->length)
		return -EINVAL;
	if (!att)
		return -ENOENT;
	if (att->state != RLX_ATTACH_ARENA)
		return -EINVAL;
	if (s->access & ~(u32)att->access)
		return -EACCES;
	if (check_add_overflow(s->offset, s->length, &end))
		return -EOVERFLOW;
	return end > att->size ? -EINVAL : 0;
}

int rlx_channel_copy_slices(struct rlx_channel *ch, const struct rlx_slice *range,
			    struct rlx_slice *to, u32 nr)
{
	size_t bytes = nr * sizeof(*to);
	int err;

	mutex_lock(&ch->lock);
	err = rlx_channel_check_slice(ch, range);
	if (!err && !(range->access & RLX_R))
		err = -EACCES;
	if (!err && range->length < bytes)
		err = -EINVAL;
	if (!err)
		err = rlx_arena_read(ch->att[RLX_ATTACH_INDEX(range->arena)].arena,
				     range->offset, to, bytes);
	mutex_unlock(&ch->lock);
	return err;
}

struct rlx_timeline *rlx_channel_timeline(struct rlx_channel *ch, u32 handle)
{
	struct rlx_timeline *tl = ERR_PTR(-ENOENT);
	struct rlx_attachment *att;

	mutex_lock(&ch->lock);
	att = rlx_attach_find(ch, handle);
	if (att)
		tl = att->state == RLX_ATTACH_TIMELINE ?
		     rlx_timeline_get(att->timeline) : ERR_PTR(-EINVAL);
	mutex_unlock(&ch->lock);
	return tl;
}

/* ---- executor ---- */

/* With ch->lock held and @att an arena. */
static struct file *rlx_attach_show(struct rlx_channel *ch, struct rlx_attachment *att,
				    struct rlx_ioc_exec_arena *ea)
{
	struct file *file = rlx_arena_file_new(att->arena, att->access);
	unsigned long flags;

	if (IS_ERR(file))
		return file;
	spin_lock_irqsave(&ch->q->slots.lock, flags);
	att->seen = true;
	spin_unlock_irqrestore(&ch->q->slots.lock, flags);
	ea->id = att->arena->id;
	ea->size = att->size;
	ea->access = att->access;
	return file;
}

long rlx_executor_arena(struct rlx_call *call)
{
	struct rlx_ioc_exec_arena *ea = call->arg;
	struct rlx_executor *ex = call->priv;
	struct file *file = ERR_PTR(-ENOENT);
	struct rlx_attachment *att = NULL;
	struct rlx_channel *ch;

	if (ea->pad || ea->reserved)
		return -EINVAL;
	if (READ_ONCE(ex->svc->exec) != ex)
		return -EPIPE;
	ch = rlx_channel_find(ex->svc, ea->channel);
	if (!ch)
		return -ENOENT;
	mutex_lock(&ch->lock);
	if (ch->att)
		att = rlx_attach_find(ch, ea->arena);
	if (att)
		file = att->state == RLX_ATTACH_ARENA ?
		       rlx_attach_show(ch, att, ea) : ERR_PTR(-EINVAL);
	mutex_unlock(&ch->lock);
	rlx_channel_put(ch);
	if (IS_ERR(file))
		return PTR_ERR(file);
	call->newfile = file;
	return 0;
}

/* At most @max events; what they are about stays as it is. */
static u32 rlx_events_look(struct rlx_channel *ch, struct rlx_event *ev, u32 max,
			   u32 *from)
{
	unsigned long flags;
	u32 n = 0;

	spin_lock_irqsave(&ch->q->slots.lock, flags);
	for (; ch->att && n < max && *from < RLX_LANE_ARENAS; (*from)++) {
		if (ch->att[*from].state != RLX_ATTACH_NEWS)
			continue;
		ev[n].type = RLX_EVENT_DETACH;
		ev[n++].handle = ch->att[*from].handle;
	}
	if (ch->gone && n < max) {
		ev[n].type = RLX_EVENT_GONE;
		ev[n++].handle = 0;
	}
	spin_unlock_irqrestore(&ch->q->slots.lock, flags);
	return n;
}

/* They were told: the places are free again. Handles are never used twice. */
static void rlx_events_done(struct rlx_channel *ch, const struct rlx_event *ev, u32 n)
{
	struct rlx_attachment *att;
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&ch->q->slots.lock, flags);
	for (i = 0; ch->att && i < n; i++) {
		att = &ch->att[RLX_ATTACH_INDEX(ev[i].handle)];
		if (ev[i].type == RLX_EVENT_DETACH && att->handle == ev[i].handle &&
		    att->state == RLX_ATTACH_NEWS)
			WRITE_ONCE(att->state, RLX_ATTACH_FREE);
	}
	spin_unlock_irqrestore(&ch->q->slots.lock, flags);
}

/* The executor knows that @ch is gone: nobody refers to it any more. */
static void rlx_events_bye(struct rlx_executor *ex, struct rlx_channel *ch)
{
	mutex_lock(&ex->svc->lock);
	/* Retired meanwhile? Then the next one is to hear of it. */
	if (ex->svc->exec == ex)
		rlx_channel_erase(ch);
	mutex_unlock(&ex->svc->lock);
}

static long rlx_events_read(struct rlx_executor *ex, struct rlx_channel *ch,
			    struct rlx_event __user *to, u32 max)
{
	struct rlx_event ev[RLX_CHUNK];
	u32 got = 0, from = 0, n;

	do {
		n = rlx_events_look(ch, ev, min_t(u32, max - got, RLX_CHUNK), &from);
		if (copy_to_user(to + got, ev, n * sizeof(*ev)))
			return got ? (long)got : -EFAULT;
		rlx_events_done(ch, ev, n);
		got += n;
		if (n && ev[n - 1].type == RLX_EVENT_GONE) {
			rlx_events_bye(ex, ch);
			break;
		}
	} while (n == RLX_CHUNK && got < max);
	return got;
}

long rlx_executor_events(struct rlx_call *call)
{
	const struct rlx_ioc_exec_events *e = call->arg;
	struct rlx_executor *ex = call->priv;
	struct rlx_channel *ch;
	long ret;

	if (e->max > INT_MAX)
		return -EINVAL;
	if (READ_ONCE(ex->svc->exec) != ex)
		return -EPIPE;
	ch = rlx_channel_find(ex->svc, e->channel);
	if (!ch)
		return -ENOENT;
	ret = rlx_events_read(ex, ch, u64_to_user_ptr(e->events), e->max);
	rlx_channel_put(ch);
	return ret;
}
