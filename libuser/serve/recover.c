// SPDX-License-Identifier: MIT
/* The end of an executor: what becomes of its requests, and finding the next. */
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "serve/channel.h"
#include "serve/check.h"

enum { LOOK_NS = 5000000 };	/* while lost, rlx_channel_fd() ticks */

static bool recovers(const struct rlx_channel *ch)
{
	return ch->opts.flags & (RLX_CHANNEL_RECOVER | RLX_CHANNEL_RECOVER_ALL);
}

bool rlx_channel_orphaned(const struct rlx_channel *ch, uint32_t tag)
{
	return ch->ops->finish && recovers(ch) &&
	       ch->tag[tag].result == -EOWNERDEAD;
}

void rlx_channel_over(struct rlx_channel *ch, uint32_t i, int32_t result,
		      uint32_t flags)
{
	struct rlx_tag *t = &ch->tag[i];

	t->state = RLX_TAG_OVER;
	t->result = result;
	t->flags = flags;
	ch->over[(ch->over_head + ch->nr_over++) & (ch->depth - 1)] =
		(uint16_t)i;
}

/*
 * The descriptor is ready: while up when the bell rings, while lost every few
 * milliseconds, so that its owner comes to look, when down for ever.
 */
void rlx_channel_watch(struct rlx_channel *ch)
{
	struct epoll_event ev = { EPOLLIN, { 0 } };
	struct itimerspec t = { 0 };

	if (ch->epfd < 0)
		return;
	if (ch->state == RLX_CHANNEL_UP) {
		epoll_ctl(ch->epfd, EPOLL_CTL_ADD, ch->ops->pollable(ch), &ev);
		if (ch->ops->finish)
			epoll_ctl(ch->epfd, EPOLL_CTL_ADD, ch->sock, &ev);
	} else {
		t.it_value.tv_nsec = 1;
		t.it_interval.tv_nsec = ch->state == RLX_CHANNEL_LOST ?
					LOOK_NS : 0;
	}
	timerfd_settime(ch->timer, 0, &t, NULL);
}

/* What the executor still answered, and what nobody will answer any more. */
static void settle(struct rlx_channel *ch, bool keep)
{
	uint32_t i, open = 0;

	for (i = 0; ch->tag && i < ch->depth; i++)
		open += ch->tag[i].state == RLX_TAG_SENT;
	if (ch->ops->finish && open)
		ch->ops->finish(ch, open);
	while (ch->ops->next(ch, &i) == 1) {
		if (keep && rlx_channel_orphaned(ch, i))
			ch->tag[i].state = RLX_TAG_DEAD;
		else
			rlx_channel_over(ch, i, ch->tag[i].result,
					 ch->tag[i].flags);
	}
	for (i = 0; i < ch->depth; i++) {
		struct rlx_tag *t = &ch->tag[i];
		bool fresh;

		if (t->state != RLX_TAG_SENT && t->state != RLX_TAG_DEAD)
			continue;
		fresh = t->state == RLX_TAG_SENT && ch->ops->withdraw(ch, i);
		t->flags = fresh ? RLX_REPLY_UNDELIVERED : 0;
		if (keep && (fresh || ch->opts.flags & RLX_CHANNEL_RECOVER_ALL))
			t->state = RLX_TAG_KEPT;
		else
			rlx_channel_over(ch, i, -EOWNERDEAD, t->flags);
	}
}

static void give_up(struct rlx_channel *ch)
{
	uint32_t i;

	for (i = 0; i < ch->depth; i++)
		if (ch->tag[i].state == RLX_TAG_KEPT)
			rlx_channel_over(ch, i, -EOWNERDEAD, ch->tag[i].flags);
	ch->state = RLX_CHANNEL_DOWN;
	rlx_channel_watch(ch);
}

void rlx_channel_ruin(struct rlx_channel *ch, enum rlx_status st,
		      const char *why)
{
	rlx_fail(&ch->err, st, "%s", why);
	settle(ch, false);
	rlx_channel_disconnect(ch);
	give_up(ch);
}

void rlx_channel_hear(struct rlx_channel *ch)
{
	struct pollfd p = { ch->sock, POLLIN, 0 };

	if (!ch->ops || !ch->ops->finish || ch->state != RLX_CHANNEL_UP)
		return;
	if (!ch->dismissed && poll(&p, 1, 0) > 0) {
		rlx_channel_last_words(ch);
		ch->dismissed = true;
		if (ch->epfd >= 0)
			epoll_ctl(ch->epfd, EPOLL_CTL_DEL, ch->sock, NULL);
	}
	if (ch->dismissed && ch->nr_free == ch->depth && recovers(ch))
		rlx_channel_lost(ch);
	else if (ch->dismissed && ch->nr_free == ch->depth)
		rlx_channel_ruin(ch, RLX_EPIPE, "the service let us go");
}

void rlx_channel_lost(struct rlx_channel *ch)
{
	rlx_channel_last_words(ch);
	/* Thrown out for a reason: the next one would do the same. */
	if (!recovers(ch) || ch->err.status == RLX_EPROTO) {
		rlx_channel_ruin(ch, RLX_EPIPE, "the executor is gone");
		return;
	}
	ch->err = (struct rlx_error){ 0 };
	ch->dismissed = false;
	settle(ch, true);
	rlx_channel_disconnect(ch);
	ch->state = RLX_CHANNEL_LOST;
	ch->lost_until = rlx_deadline_in(ch->opts.recover_ns);
	rlx_channel_watch(ch);
}

/* A request was checked against what another executor takes. */
static int32_t still_taken(const struct rlx_channel *ch, const struct rlx_request *r)
{
	return rlx_check_head(r->opcode, r->flags, r->nr_slices, r->inline_len, ch->slices_max);
}

/* What the next executor does not take, now or for good, ends undelivered: who asked may again. */
static void send_again(struct rlx_channel *ch)
{
	uint32_t i, best, refused;
	int why = RLX_OK, st;

	for (;;) {	/* the oldest first */
		best = ch->depth;
		for (i = 0; i < ch->depth; i++)
			if (ch->tag[i].state == RLX_TAG_KEPT &&
			    (best == ch->depth ||
			     ch->tag[i].order < ch->tag[best].order))
				best = i;
		if (best == ch->depth)
			break;
		st = still_taken(ch, &ch->tag[best].req);
		if (st) {
			rlx_channel_over(ch, best, st, RLX_REPLY_UNDELIVERED);
			continue;
		}
		ch->tag[best].state = RLX_TAG_SENT;
		ch->tag[best].again = true;
		/* The ring is new and as large as the table: there is room. */
		ch->ops->send(ch, best, &ch->tag[best].req);
	}
	refused = ch->ops->push(ch, &why);
	if (why == RLX_EPIPE)
		rlx_channel_lost(ch);
	for (i = 0; refused && i < ch->depth; i++)
		if (ch->tag[i].state == RLX_TAG_KEPT)
			rlx_channel_over(ch, i, why, RLX_REPLY_UNDELIVERED);
}

void rlx_channel_retry(struct rlx_channel *ch, uint64_t deadline_ns)
{
	struct rlx_error err = { 0 };
	uint64_t until = ch->lost_until;

	if (until > deadline_ns)
		until = deadline_ns;
	if (!rlx_channel_connect(ch, until, &err)) {
		ch->recoveries++;
		send_again(ch);
	} else if (rlx_now() >= ch->lost_until) {
		rlx_fail(&ch->err, RLX_EPIPE,
			 "the executor is gone, and no other came: %.300s",
			 err.text);
		give_up(ch);
	}
}
