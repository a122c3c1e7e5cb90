// SPDX-License-Identifier: MIT
/* The client's side of the shm transport. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "serve/channel.h"

static struct rlx_shm_desc *desc_of(struct rlx_channel *ch, uint64_t pos)
{
	return &ch->shm.a->desc[pos & (ch->depth - 1)];
}

/*
 * The slot is free when the service has read the round before. As replies imply
 * that, the shared word is looked at only after requests were taken back.
 */
static bool room(struct rlx_channel *ch)
{
	struct rlx_shm_channel *s = &ch->shm;
	uint64_t head;

	if (s->pos - s->head < ch->depth)
		return true;
	head = atomic_load_explicit(&s->b->head, memory_order_acquire);
	if (head > s->head && head <= s->pos)
		s->head = head;
	return s->pos - s->head < ch->depth;
}

static bool is_withdrawn(struct rlx_channel *ch, uint64_t pos)
{
	return atomic_load_explicit(&desc_of(ch, pos)->w[RLX_DW_SEQ],
				    memory_order_relaxed) ==
	       rlx_shm_seq(pos, RLX_SHM_WITHDRAWN);
}

/* Remember @pos, which we took back; at most depth slots can be in that state. */
static void remember(struct rlx_channel *ch, uint64_t pos)
{
	struct rlx_shm_channel *s = &ch->shm;
	uint32_t i, n = 0;

	if (s->nr_withdrawn == ch->depth) {
		for (i = 0; i < s->nr_withdrawn; i++)
			if (is_withdrawn(ch, s->withdrawn[i]))
				s->withdrawn[n++] = s->withdrawn[i];
		s->nr_withdrawn = n;
	}
	s->withdrawn[s->nr_withdrawn++] = pos;
}

static void write_desc(struct rlx_channel *ch, uint64_t pos, uint32_t tag,
		       const struct rlx_request *req)
{
	struct rlx_shm_desc *d = desc_of(ch, pos);
	uint32_t i, n;

	rlx_shm_set(&d->w[RLX_DW_TAG], rlx_shm_pair(tag, ch->tag[tag].gen));
	rlx_shm_set(&d->w[RLX_DW_OP], rlx_shm_pair(req->opcode, req->flags));
	rlx_shm_set(&d->w[RLX_DW_USER], req->user_data);
	rlx_shm_set(&d->w[RLX_DW_DEADLINE], req->deadline_ns);
	rlx_shm_set(&d->w[RLX_DW_COUNT],
		    rlx_shm_pair(req->nr_slices, req->inline_len));
	n = req->flags & RLX_REQUEST_INDIRECT ? 1 : req->nr_slices;
	for (i = 0; i < n; i++) {
		const struct rlx_request_slice *s = &req->slice[i];
		_Atomic uint64_t *w = &d->w[RLX_DW_SLICE + 3 * i];

		rlx_shm_set(&w[0], rlx_shm_pair(s->arena, s->access));
		rlx_shm_set(&w[1], s->offset);
		rlx_shm_set(&w[2], s->length);
	}
	for (i = 0; i < req->inline_len; i += 8) {
		uint64_t v;

		memcpy(&v, req->inline_data + i, sizeof(v));
		rlx_shm_set(&d->w[RLX_DW_INLINE + i / 8], v);
	}
}

/*
 * No room at the end of the stream: put the request where another was taken
 * back, if the executor has not come by yet. The same word decides that.
 */
static bool send_instead(struct rlx_channel *ch, uint32_t tag,
			 const struct rlx_request *req)
{
	struct rlx_shm_channel *s = &ch->shm;

	while (s->nr_withdrawn) {
		uint64_t pos = s->withdrawn[--s->nr_withdrawn];
		uint64_t was = rlx_shm_seq(pos, RLX_SHM_WITHDRAWN);

		if (!is_withdrawn(ch, pos))
			continue;	/* the slot may hold a later one */
		write_desc(ch, pos, tag, req);
		if (!atomic_compare_exchange_strong_explicit(
			    &desc_of(ch, pos)->w[RLX_DW_SEQ], &was,
			    rlx_shm_seq(pos, RLX_SHM_QUEUED),
			    memory_order_acq_rel, memory_order_relaxed))
			continue;
		ch->tag[tag].pos = pos;
		return true;
	}
	return false;
}

static bool shm_send(struct rlx_channel *ch, uint32_t tag,
		     const struct rlx_request *req)
{
	uint64_t pos = ch->shm.pos;

	if (!room(ch))
		return send_instead(ch, tag, req);
	write_desc(ch, pos, tag, req);
	ch->tag[tag].pos = pos;
	ch->shm.pos++;
	atomic_store_explicit(&desc_of(ch, pos)->w[RLX_DW_SEQ],
			      rlx_shm_seq(pos, RLX_SHM_QUEUED),
			      memory_order_release);
	return true;
}

static unsigned int shm_push(struct rlx_channel *ch, int *why)
{
	/* Pairs with the executor: it raises the flag, then looks for work. */
	rlx_shm_fence();
	if (!atomic_load_explicit(&ch->shm.q->sleepers, memory_order_relaxed))
		return 0;
	ch->bells++;
	rlx_bell_ring(ch->shm.bell);
	return 0;
}

static bool shm_some(struct rlx_channel *ch)
{
	const struct rlx_shm_reply *r =
		&ch->shm.b->reply[ch->shm.replies & (ch->depth - 1)];

	return atomic_load_explicit(&r->w[RLX_RW_SEQ], memory_order_relaxed) ==
	       ch->shm.replies + 1;
}

static int shm_next(struct rlx_channel *ch, uint32_t *tag)
{
	const struct rlx_shm_reply *r =
		&ch->shm.b->reply[ch->shm.replies & (ch->depth - 1)];
	struct rlx_tag *t;
	uint64_t v;

	if (atomic_load_explicit(&r->w[RLX_RW_SEQ], memory_order_acquire) !=
	    ch->shm.replies + 1)
		return 0;
	ch->shm.replies++;
	v = rlx_shm_get(&r->w[RLX_RW_TAG]);
	*tag = (uint32_t)v;
	if (*tag >= ch->depth)
		return -1;
	t = &ch->tag[*tag];
	if (t->state != RLX_TAG_SENT || t->gen != (uint32_t)(v >> 32))
		return -1;
	v = rlx_shm_get(&r->w[RLX_RW_RESULT]);
	t->result = (int32_t)(uint32_t)v;
	t->flags = (uint32_t)(v >> 32);
	t->aux = rlx_shm_get(&r->w[RLX_RW_AUX]);
	/* Requests are read in order: all up to this one have been. */
	if (t->pos >= ch->shm.head)
		ch->shm.head = t->pos + 1;
	return 1;
}

static bool shm_withdraw(struct rlx_channel *ch, uint32_t tag)
{
	const struct rlx_tag *t = &ch->tag[tag];
	uint64_t want = rlx_shm_seq(t->pos, RLX_SHM_QUEUED);

	if (!atomic_compare_exchange_strong_explicit(
		    &desc_of(ch, t->pos)->w[RLX_DW_SEQ], &want,
		    rlx_shm_seq(t->pos, RLX_SHM_WITHDRAWN),
		    memory_order_acq_rel, memory_order_relaxed))
		return false;
	remember(ch, t->pos);
	return true;
}

static void shm_hint(struct rlx_channel *ch, uint32_t tag)
{
	atomic_store_explicit(rlx_shm_cancel(ch->shm.a, ch->depth, tag),
			      ch->tag[tag].gen, memory_order_relaxed);
}

static void shm_arm(struct rlx_channel *ch, bool on)
{
	atomic_store_explicit(&ch->shm.a->need_wakeup, on,
			      memory_order_relaxed);
	if (on)		/* pairs with the executor: it replies, then looks */
		rlx_shm_fence();
}

static int shm_pollable(struct rlx_channel *ch)
{
	return ch->shm.bell;
}

static bool shm_drain(struct rlx_channel *ch)
{
	return rlx_bell_drain(ch->shm.bell);
}

static bool shm_sleep(struct rlx_channel *ch)
{
	return rlx_bell_wait(ch->shm.bell);
}

static void shm_down(struct rlx_channel *ch)
{
	struct rlx_shm_channel *s = &ch->shm;

	rlx_free(s->withdrawn);
	rlx_region_fini(&s->client);
	rlx_region_fini(&s->service);
	rlx_region_fini(&s->queue);
	if (s->bell >= 0)
		close(s->bell);
	*s = (struct rlx_shm_channel){ .bell = -1 };
}

static enum rlx_status shm_up(struct rlx_channel *ch, int *fds, unsigned int nr,
			      struct rlx_error *err)
{
	struct rlx_shm_channel *s = &ch->shm;
	enum rlx_status st = RLX_ENOMEM;
	unsigned int i;

	*s = (struct rlx_shm_channel){ .bell = -1 };
	if (nr != RLX_WIRE_FDS) {
		rlx_fail(err, st, "%u of the service's %u descriptors came: this "
			 "process has too few left", nr, RLX_WIRE_FDS);
		goto out_close;
	}
	s->bell = fds[RLX_FD_BELL];
	st = rlx_region_open(&s->client, fds[RLX_FD_CLIENT],
			     rlx_shm_client_bytes(ch->depth), true, err);
	if (!st)
		st = rlx_region_open(&s->service, fds[RLX_FD_SERVICE],
				     rlx_shm_service_bytes(ch->depth), false,
				     err);
	if (!st)
		st = rlx_region_open(&s->queue, fds[RLX_FD_QUEUE],
				     sizeof(struct rlx_shm_queue), false, err);
	s->withdrawn = rlx_calloc(ch->depth, sizeof(*s->withdrawn));
	if (!st && !s->withdrawn)
		st = rlx_fail(err, RLX_ENOMEM, "channel: no memory");
	nr = RLX_FD_BELL;	/* those were only to be mapped */
	s->a = s->client.base;
	s->b = s->service.base;
	s->q = s->queue.base;
	if (st)
		shm_down(ch);
out_close:
	for (i = 0; i < nr; i++)
		close(fds[i]);
	return st;
}

const struct rlx_channel_ops rlx_channel_shm = {
	.name	  = "shm",
	.wire	  = RLX_WIRE_SHM,
	.up	  = shm_up,
	.down	  = shm_down,
	.send	  = shm_send,
	.push	  = shm_push,
	.next	  = shm_next,
	.some	  = shm_some,
	.withdraw = shm_withdraw,
	.hint	  = shm_hint,
	.arm	  = shm_arm,
	.pollable = shm_pollable,
	.drain	  = shm_drain,
	.sleep	  = shm_sleep,
};
