// SPDX-License-Identifier: GPL-2.0-only
/*
 * The slot state machine: two tables say what a state holds and what an event does,
 * rlx_slot_step() carries a transition out, and the rest finds the slots.
 */
#include "slot.h"
#include "testing.h"

/* What a slot may hold in a state; what it loses on leaving comes to the caller. */
enum {
	HOLDS_CMD	= 1 << 0,	/* S3: only where a result is still to come */
	HOLDS_WAIT	= 1 << 1,
	HOLDS_LEASE	= 1 << 2,	/* S2: until no executor can touch the arenas */
	HOLDS_DUE	= 1 << 3,	/* its deadline may still end it */
};

static const struct {
	u8	holds;
	u8	acts;	/* on entering */
} rlx_slot_is[RLX_SLOT_STATES] = {
	[RLX_SLOT_FREE]		= { 0, RLX_ACT_SPACE },
	[RLX_SLOT_TAKEN]	= { 0, 0 },
	[RLX_SLOT_WAITING]	= { HOLDS_CMD | HOLDS_LEASE | HOLDS_DUE | HOLDS_WAIT, 0 },
	[RLX_SLOT_READY]	= { HOLDS_CMD | HOLDS_LEASE | HOLDS_DUE, RLX_ACT_FETCH },
	[RLX_SLOT_DELIVERED]	= { HOLDS_CMD | HOLDS_LEASE, 0 },
	[RLX_SLOT_ORPHAN]	= { HOLDS_LEASE, 0 },
	[RLX_SLOT_DONE]		= { 0, RLX_ACT_REAP },
};

/* How a cell of the table moves; a cell left out refuses with -ESTALE. */
enum {
	MOVE	= 1,	/* to .next */
	HEAD,		/* to .next, at the head of its list */
	STAY,		/* nothing happens, and that is right */
	DENY,		/* nothing happens, .value is the error, .next the acts */
};

#define GIVEN	1	/* as .value: the result is the caller's */

struct rlx_slot_move {
	u8	how;
	u8	next;
	s16	value;	/* the request's result */
};

/*
 * From each state, by each event. A request that ends (DONE) with a command parked
 * answers through it and is FREE at once: a command needs no reaping. So is one of a
 * lane with a ring, whose result leaves with the record.
 */
static const struct rlx_slot_move rlx_slot_moves[RLX_SLOT_STATES][RLX_SLOT_EVENTS] = {
	[RLX_SLOT_FREE] = {
		[RLX_EV_TAKE]			= { MOVE, RLX_SLOT_TAKEN },
		[RLX_EV_CLIENT_GONE]		= { STAY },
		[RLX_EV_EXEC_GONE_REQUEUE]	= { STAY },
		[RLX_EV_EXEC_GONE_FAIL]		= { STAY },
		[RLX_EV_SERVICE_GONE]		= { STAY },
	},
	/* Its submitter is at work and will submit or drop: nobody else touches it. */
	[RLX_SLOT_TAKEN] = {
		[RLX_EV_DROP]			= { MOVE, RLX_SLOT_FREE },
		[RLX_EV_SUBMIT]			= { MOVE, RLX_SLOT_READY },
		[RLX_EV_SUBMIT_WAIT]		= { MOVE, RLX_SLOT_WAITING },
		[RLX_EV_CLIENT_GONE]		= { STAY },
		[RLX_EV_EXEC_GONE_REQUEUE]	= { STAY },
		[RLX_EV_EXEC_GONE_FAIL]		= { STAY },
		[RLX_EV_SERVICE_GONE]		= { STAY },
	},
	[RLX_SLOT_WAITING] = {
		[RLX_EV_POINTS_MET]		= { MOVE, RLX_SLOT_READY },
		[RLX_EV_POINTS_FAIL]		= { MOVE, RLX_SLOT_DONE, GIVEN },
		[RLX_EV_CANCEL]			= { MOVE, RLX_SLOT_DONE, -ECANCELED },
		[RLX_EV_ABANDON]		= { MOVE, RLX_SLOT_FREE, -ECANCELED },
		[RLX_EV_DEADLINE]		= { MOVE, RLX_SLOT_DONE, -ETIME },
		[RLX_EV_CLIENT_GONE]		= { MOVE, RLX_SLOT_FREE, -ECANCELED },
		/* Nothing of it was lost; the next generation may run it. */
		[RLX_EV_EXEC_GONE_REQUEUE]	= { STAY },
		[RLX_EV_EXEC_GONE_FAIL]		= { STAY },
		[RLX_EV_SERVICE_GONE]		= { MOVE, RLX_SLOT_DONE, -EOWNERDEAD },
	},
	[RLX_SLOT_READY] = {
		[RLX_EV_FETCH]			= { MOVE, RLX_SLOT_DELIVERED },
		[RLX_EV_CANCEL]			= { MOVE, RLX_SLOT_DONE, -ECANCELED },
		[RLX_EV_ABANDON]		= { MOVE, RLX_SLOT_FREE, -ECANCELED },
		[RLX_EV_DEADLINE]		= { MOVE, RLX_SLOT_DONE, -ETIME },
		[RLX_EV_CLIENT_GONE]		= { MOVE, RLX_SLOT_FREE, -ECANCELED },
		[RLX_EV_EXEC_GONE_REQUEUE]	= { STAY },
		[RLX_EV_EXEC_GONE_FAIL]		= { MOVE, RLX_SLOT_DONE, -EOWNERDEAD },
		[RLX_EV_SERVICE_GONE]		= { MOVE, RLX_SLOT_DONE, -EOWNERDEAD },
	},
	/* The executor may be writing the client's memory: only it can end this. */
	[RLX_SLOT_DELIVERED] = {
		[RLX_EV_UNDELIVER]		= { HEAD, RLX_SLOT_READY },
		[RLX_EV_COMMIT]			= { MOVE, RLX_SLOT_DONE, GIVEN },
		[RLX_EV_CANCEL]			= { DENY, RLX_ACT_HINT, -EALREADY },
		[RLX_EV_ABANDON]		= { MOVE, RLX_SLOT_ORPHAN, -ECANCELED },
		[RLX_EV_CLIENT_GONE]		= { MOVE, RLX_SLOT_ORPHAN, -ECANCELED },
		[RLX_EV_EXEC_GONE_REQUEUE]	= { HEAD, RLX_SLOT_READY },
		[RLX_EV_EXEC_GONE_FAIL]		= { MOVE, RLX_SLOT_DONE, -EOWNERDEAD },
		[RLX_EV_SERVICE_GONE]		= { MOVE, RLX_SLOT_DONE, -EOWNERDEAD },
	},
	[RLX_SLOT_ORPHAN] = {
		[RLX_EV_UNDELIVER]		= { MOVE, RLX_SLOT_FREE },
		[RLX_EV_COMMIT]			= { MOVE, RLX_SLOT_FREE },
		[RLX_EV_CLIENT_GONE]		= { STAY },
		[RLX_EV_EXEC_GONE_REQUEUE]	= { MOVE, RLX_SLOT_FREE },
		[RLX_EV_EXEC_GONE_FAIL]		= { MOVE, RLX_SLOT_FREE },
		[RLX_EV_SERVICE_GONE]		= { MOVE, RLX_SLOT_FREE },
	},
	[RLX_SLOT_DONE] = {
		[RLX_EV_REAP]			= { MOVE, RLX_SLOT_FREE },
		[RLX_EV_CLIENT_GONE]		= { MOVE, RLX_SLOT_FREE },
		[RLX_EV_EXEC_GONE_REQUEUE]	= { STAY },
		[RLX_EV_EXEC_GONE_FAIL]		= { STAY },
		[RLX_EV_SERVICE_GONE]		= { STAY },
	},
};

/* ---- deadlines: a binary heap of tags, no memory beyond the array given ---- */

static void rlx_heap_put(struct rlx_slots *q, u32 at, u32 tag)
{
	q->heap[at] = tag;
	q->slot[tag].heap = at + 1;
}

static u64 rlx_heap_key(const struct rlx_slots *q, u32 at)
{
	return q->slot[q->heap[at]].deadline;
}

/* Moves @tag, whose place is the hole @at, up or down to where it belongs. */
static void rlx_heap_sift(struct rlx_slots *q, u32 at, u32 tag)
{
	u64 key = q->slot[tag].deadline;
	u32 kid;

	while (at && rlx_heap_key(q, (at - 1) / 2) > key) {
		rlx_heap_put(q, at, q->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	while ((kid = 2 * at + 1) < q->nr_heap) {
		if (kid + 1 < q->nr_heap &&
		    rlx_heap_key(q, kid + 1) < rlx_heap_key(q, kid))
			kid++;
		if (rlx_heap_key(q, kid) >= key)
			break;
		rlx_heap_put(q, at, q->heap[kid]);
		at = kid;
	}
	rlx_heap_put(q, at, tag);
}

static void rlx_heap_remove(struct rlx_slots *q, struct rlx_slot *s)
{
	u32 at = s->heap - 1, last = q->heap[--q->nr_heap];

	s->heap = 0;
	if (last != s->tag)
		rlx_heap_sift(q, at, last);
}

/* ---- one transition ---- */

void *rlx_slot_claim_cmd(struct rlx_slot *s)
{
	void *cmd = s->cmd;

	s->cmd = NULL;
	return cmd;
}

static void rlx_slot_lease(struct rlx_slot *s, int by)
{
	unsigned long words, w;

	for (words = s->lease.words; words; words &= words - 1) {
		u32 at = __ffs(words), *count = &s->lane->leases[at * BITS_PER_LONG];

		for (w = s->lease.word[at]; w; w &= w - 1)
			WRITE_ONCE(count[__ffs(w)], count[__ffs(w)] + by);
	}
}

static void rlx_lane_count(struct rlx_lane *lane, unsigned int state, int by)
{
	struct rlx_slots *q = lane->q;

	WRITE_ONCE(lane->nr[state], lane->nr[state] + by);
	if (state == RLX_SLOT_READY)
		WRITE_ONCE(q->nr_ready, q->nr_ready + by);
}

/*
 * list_move() and list_move_tail(). A slot changes its list five times a request,
 * and kernels that check what the list functions are given would spend a fifth of
 * the request on that; these lists nobody else sees, and rlx_slots_check() does.
 */
static __always_inline void rlx_slot_link(struct rlx_slot *s, struct list_head *list,
					  bool head)
{
	struct list_head *prev = s->node.prev, *next = s->node.next;

	next->prev = prev;
	prev->next = next;
	prev = head ? list : list->prev;
	next = head ? list->next : list;
	s->node.prev = prev;
	s->node.next = next;
	prev->next = &s->node;
	next->prev = &s->node;
}

/* A FREE slot of a lane that takes no more requests goes home. */
static u32 rlx_slot_return(struct rlx_slots *q, struct rlx_slot *s)
{
	struct rlx_lane *lane = s->lane;

	list_move(&s->node, &q->pool);
	WRITE_ONCE(q->nr_pool, q->nr_pool + 1);
	rlx_lane_count(lane, RLX_SLOT_FREE, -1);
	if (--lane->depth)
		return 0;
	list_del_init(&lane->all);
	lane->drained = true;
	return RLX_ACT_DRAINED;
}

/* Puts the slot on the list of @next; counts; keeps the lane's turn. */
static __always_inline u32 rlx_slot_enter(struct rlx_slots *q, struct rlx_slot *s,
					  unsigned int from, unsigned int next,
					  bool head)
{
	struct rlx_lane *lane = s->lane;

	rlx_lane_count(lane, from, -1);
	rlx_lane_count(lane, next, 1);
	if (from == RLX_SLOT_READY && !lane->nr[RLX_SLOT_READY])
		list_del_init(&lane->turn);
	s->state = next;
	/* The slot freed last is the one whose lines are still in the cache. */
	rlx_slot_link(s, &lane->list[next], head || next == RLX_SLOT_FREE);
	if (next == RLX_SLOT_READY && list_empty(&lane->turn)) {
		list_add_tail(&lane->turn, &q->turns);
		lane->left = lane->quantum;
	}
	if (next == RLX_SLOT_FREE && unlikely(lane->shut))
		return rlx_slot_return(q, s);
	return 0;
}

/* Each wake once a lane and call. */
static u32 rlx_lane_tell(struct rlx_lane *lane, u32 acts)
{
	struct rlx_slots *q = lane->q;

	if (lane->call != q->call) {
		lane->call = q->call;
		lane->told = 0;
	}
	acts &= ~lane->told;
	lane->told |= acts;
	return acts;
}

static int rlx_slot_refuse(const struct rlx_slot *s, const struct rlx_slot_move *m,
			   struct rlx_slot_out *out)
{
	memset(out, 0, sizeof(*out));
	out->seq = s->seq;
	out->tag = s->tag;
	if (m->how == STAY)
		return 0;
	out->err = m->how == DENY ? m->value : -ESTALE;
	out->acts = m->how == DENY ? m->next : 0;
	return out->err;
}

/* From one state to another: what the next does not hold leaves by @out. */
static __always_inline void rlx_slot_pass(struct rlx_slots *q, struct rlx_slot *s,
					  unsigned int from, unsigned int next,
					  bool head, struct rlx_slot_out *out)
{
	const unsigned int lost = rlx_slot_is[from].holds & ~rlx_slot_is[next].holds;
	const unsigned int gained = rlx_slot_is[next].holds & ~rlx_slot_is[from].holds;
	u32 acts = out->acts | rlx_slot_is[next].acts;

	if (lost & HOLDS_CMD)
		out->cmd = rlx_slot_claim_cmd(s);
	if (lost & HOLDS_WAIT) {
		out->wait = s->wait;
		s->wait = NULL;
	}
	if ((lost & HOLDS_LEASE) && s->lease.words)
		rlx_slot_lease(s, -1);
	if ((lost & HOLDS_LEASE) && unlikely(s->copy)) {
		out->copy = s->copy;
		s->copy = NULL;
	}
	if ((gained & HOLDS_LEASE) && s->lease.words)
		rlx_slot_lease(s, 1);
	if ((lost & HOLDS_DUE) && s->heap)
		rlx_heap_remove(q, s);
	if ((gained & HOLDS_DUE) && s->deadline) {
		rlx_heap_sift(q, q->nr_heap++, s->tag);
		if (s->heap == 1)
			acts |= RLX_ACT_TIMER;
	}
	acts |= rlx_slot_enter(q, s, from, next, head);
	if (acts & RLX_ACT_DRAINED)
		acts &= ~RLX_ACT_SPACE;
	out->acts = acts ? rlx_lane_tell(out->lane, acts) : 0;
	if (out->cmd)
		out->acts |= RLX_ACT_CMD;
	if (out->wait)
		out->acts |= RLX_ACT_WAIT;
	if (out->copy)
		out->acts |= RLX_ACT_COPY;
}

/*
 * Event @ev happens to @s, which is in state @from; @result is the caller's where
 * the table says GIVEN. Where @from and @ev are constants the compiler looks both
 * tables up, and little is left of this: the path of a request goes so.
 */
static __always_inline int rlx_slot_step(struct rlx_slots *q, struct rlx_slot *s,
					 unsigned int from, enum rlx_slot_event ev,
					 s32 result, struct rlx_slot_out *out)
{
	const struct rlx_slot_move *m = &rlx_slot_moves[from][ev];

	rlx_seen(from, ev);
	if (m->how != MOVE && m->how != HEAD)
		return rlx_slot_refuse(s, m, out);
	if (from == RLX_SLOT_FREE)
		s->seq++;	/* who kept the old one holds nothing now */
	/* One by one: a string instruction would cost more than all the rest. */
	out->cmd = NULL;
	out->wait = NULL;
	out->copy = NULL;
	out->lane = s->lane;
	out->seq = s->seq;
	out->aux = 0;
	out->tag = s->tag;
	out->result = m->value == GIVEN ? result : m->value;
	out->acts = 0;
	out->err = 0;
	if (m->next != RLX_SLOT_DONE) {
		rlx_slot_pass(q, s, from, m->next, m->how == HEAD, out);
	} else if (s->cmd) {
		rlx_slot_pass(q, s, from, RLX_SLOT_FREE, false, out);
	} else if (out->lane->ring && !out->lane->shut) {
		out->acts = RLX_ACT_REAP;
		rlx_slot_pass(q, s, from, RLX_SLOT_FREE, false, out);
		out->acts |= RLX_ACT_RESULT;
	} else {
		s->result = out->result;
		rlx_slot_pass(q, s, from, RLX_SLOT_DONE, false, out);
	}
	return 0;
}

/* The same in any state. */
static int rlx_slot_apply(struct rlx_slots *q, struct rlx_slot *s,
			  enum rlx_slot_event ev, s32 result, struct rlx_slot_out *out)
{
	return rlx_slot_step(q, s, s->state, ev, result, out);
}

/* The slot that (tag, seq) names, or NULL. @tag may be anything. */
static struct rlx_slot *rlx_slot_find(struct rlx_slots *q, u32 tag, u64 seq)
{
	struct rlx_slot *s;

	if (tag >= q->depth)
		return NULL;
	s = &q->slot[array_index_nospec(tag, q->depth)];
	return s->seq == seq ? s : NULL;
}

static int rlx_slot_stale(u32 tag, u64 seq, struct rlx_slot_out *out)
{
	memset(out, 0, sizeof(*out));
	out->tag = tag;
	out->seq = seq;
	out->err = -ESTALE;
	return -ESTALE;
}

/* ---- one request ---- */

/* Whether a request may enter now. */
static int rlx_lane_accepts(const struct rlx_lane *lane)
{
	const struct rlx_slots *q = lane->q;

	if (lane->shut || q->gone)
		return -EPIPE;
	if (!q->gen)
		return -ENOTCONN;
	return q->live || q->requeue ? 0 : -EPIPE;
}

int rlx_lane_take(struct rlx_lane *lane, struct rlx_slot **slot, u32 max)
{
	struct list_head *free = &lane->list[RLX_SLOT_FREE];
	struct rlx_slot_out out RLX_UNINIT;
	int err = rlx_lane_accepts(lane);
	u32 n;

	lockdep_assert_held(&lane->q->lock);
	if (err)
		return err;
	for (n = 0; n < max && !list_empty(free); n++) {
		slot[n] = list_first_entry(free, struct rlx_slot, node);
		rlx_slot_step(lane->q, slot[n], RLX_SLOT_FREE, RLX_EV_TAKE, 0, &out);
	}
	return n ? (int)n : -EAGAIN;
}

void rlx_slot_drop(struct rlx_slots *q, struct rlx_slot *s, struct rlx_slot_out *out)
{
	lockdep_assert_held(&q->lock);
	q->call++;
	s->cmd = NULL;
	s->wait = NULL;
	s->copy = NULL;
	WARN_ON_ONCE(rlx_slot_apply(q, s, RLX_EV_DROP, 0, out));
}

int rlx_slots_submit(struct rlx_lane *lane, struct rlx_slot *const *slot, u32 n,
		     struct rlx_slot_out *out)
{
	/* The second never leaves here: of it only the acts are ever written. */
	struct rlx_slot_out waits RLX_UNINIT, one RLX_UNINIT;
	int err = rlx_lane_accepts(lane);
	struct rlx_slots *q = lane->q;
	u32 i;

	lockdep_assert_held(&q->lock);
	memset(out, 0, sizeof(*out));
	if (err)
		return err;
	q->call++;
	out->lane = lane;
	for (i = 0; i < n; i++) {
		struct rlx_slot *s = slot[i];

		if (WARN_ON_ONCE(s->state != RLX_SLOT_TAKEN || s->lane != lane))
			continue;
		s->aux = 0;
		if (s->wait) {
			rlx_slot_apply(q, s, RLX_EV_SUBMIT_WAIT, 0, &waits);
			out->acts |= waits.acts;
		} else {
			rlx_slot_step(q, s, RLX_SLOT_TAKEN, RLX_EV_SUBMIT, 0, &one);
			out->acts |= one.acts;
		}
	}
	return 0;
}

int rlx_slot_points(struct rlx_slots *q, u32 tag, u64 seq, int err,
		    struct rlx_slot_out *out)
{
	struct rlx_slot *s = rlx_slot_find(q, tag, seq);

	lockdep_assert_held(&q->lock);
	if (!s)
		return rlx_slot_stale(tag, seq, out);
	/* Nobody would fetch it, and without RECOVER_REQUEUE nobody shall. */
	if (!err && (q->gone || (!q->live && !q->requeue)))
		err = -EOWNERDEAD;
	q->call++;
	return rlx_slot_apply(q, s, err ? RLX_EV_POINTS_FAIL : RLX_EV_POINTS_MET,
			      err, out);
}

int rlx_slot_cancel(struct rlx_lane *lane, u32 tag, u64 seq, struct rlx_slot_out *out)
{
	struct rlx_slots *q = lane->q;
	struct rlx_slot *s = rlx_slot_find(q, tag, seq);

	lockdep_assert_held(&q->lock);
	if (!s || s->lane != lane)
		return rlx_slot_stale(tag, seq, out);
	q->call++;
	return rlx_slot_apply(q, s, RLX_EV_CANCEL, 0, out);
}

int rlx_slot_abandon(struct rlx_slots *q, u32 tag, u64 seq, void *cmd,
		     struct rlx_slot_out *out)
{
	struct rlx_slot *s = rlx_slot_find(q, tag, seq);

	lockdep_assert_held(&q->lock);
	if (!s || !cmd || s->cmd != cmd)
		return rlx_slot_stale(tag, seq, out);
	q->call++;
	return rlx_slot_apply(q, s, RLX_EV_ABANDON, 0, out);
}

/* ---- a channel's share ---- */

int rlx_lane_open(struct rlx_slots *q, struct rlx_lane *lane, u32 depth, u32 quantum)
{
	struct rlx_slot *s;
	u32 i;

	lockdep_assert_held(&q->lock);
	if (!depth || !quantum)
		return -EINVAL;
	if (depth > q->nr_pool)
		return -ENOSPC;
	memset(lane, 0, sizeof(*lane));
	lane->q = q;
	lane->depth = depth;
	lane->quantum = quantum;
	INIT_LIST_HEAD(&lane->turn);
	for (i = 0; i < RLX_SLOT_STATES; i++)
		INIT_LIST_HEAD(&lane->list[i]);
	list_add_tail(&lane->all, &q->lanes);
	for (i = 0; i < depth; i++) {
		s = list_first_entry(&q->pool, struct rlx_slot, node);
		s->lane = lane;
		list_move_tail(&s->node, &lane->list[RLX_SLOT_FREE]);
	}
	WRITE_ONCE(q->nr_pool, q->nr_pool - depth);
	rlx_lane_count(lane, RLX_SLOT_FREE, (int)depth);
	return 0;
}

enum rlx_lane_end rlx_lane_close(struct rlx_lane *lane, struct rlx_slot_out *out,
				 u32 max, u32 *n)
{
	static const u8 order[] = {
		RLX_SLOT_WAITING, RLX_SLOT_READY, RLX_SLOT_DELIVERED, RLX_SLOT_DONE,
		RLX_SLOT_FREE,
	};
	struct rlx_slots *q = lane->q;
	unsigned int i, work = 0;
	struct rlx_slot *s;

	lockdep_assert_held(&q->lock);
	*n = 0;
	/* Drained between two calls, by somebody who was told so. */
	if (lane->drained)
		return RLX_LANE_LATER;
	q->call++;
	lane->shut = true;
	for (i = 0; i < ARRAY_SIZE(order); i++) {
		while (!list_empty(&lane->list[order[i]])) {
			if (work++ == max)
				return RLX_LANE_MORE;
			s = list_first_entry(&lane->list[order[i]], struct rlx_slot,
					     node);
			if (order[i] == RLX_SLOT_FREE) {
				rlx_slot_return(q, s);
				continue;
			}
			rlx_slot_apply(q, s, RLX_EV_CLIENT_GONE, 0, &out[*n]);
			out[(*n)++].acts &= ~RLX_ACT_DRAINED;
		}
	}
	return lane->drained ? RLX_LANE_DRAINED : RLX_LANE_LATER;
}

static void rlx_slot_tell(const struct rlx_slot *s, struct rlx_slot_result *res)
{
	res->seq = s->seq;
	res->tag = s->tag;
	res->result = s->result;
	res->aux = s->aux;
	res->user_data = s->user_data;
}

u32 rlx_lane_peek(struct rlx_lane *lane, struct rlx_slot_result *res, u32 max)
{
	struct rlx_slot *s;
	u32 n = 0;

	lockdep_assert_held(&lane->q->lock);
	if (lane->shut)
		return 0;
	list_for_each_entry(s, &lane->list[RLX_SLOT_DONE], node) {
		if (n == max)
			break;
		rlx_slot_tell(s, &res[n++]);
	}
	return n;
}

u32 rlx_lane_reap(struct rlx_lane *lane, struct rlx_slot_result *res, u32 max)
{
	struct list_head *done = &lane->list[RLX_SLOT_DONE];
	struct rlx_slot_out out RLX_UNINIT;
	struct rlx_slot *s;
	u32 n;

	lockdep_assert_held(&lane->q->lock);
	/* What is left of a closed lane is for its close to free, and to report. */
	if (lane->shut)
		return 0;
	for (n = 0; n < max && !list_empty(done); n++) {
		s = list_first_entry(done, struct rlx_slot, node);
		rlx_slot_tell(s, &res[n]);
		rlx_slot_step(lane->q, s, RLX_SLOT_DONE, RLX_EV_REAP, 0, &out);
	}
	return n;
}

/* ---- the queue ---- */

int rlx_slots_init(struct rlx_slots *q, struct rlx_slot *slot, u32 *heap,
		   u32 depth, bool requeue)
{
	u32 i;

	if (!depth || depth > RLX_SLOTS_DEPTH_MAX)
		return -EINVAL;
	memset(q, 0, sizeof(*q));
	spin_lock_init(&q->lock);
	q->slot = slot;
	q->heap = heap;
	q->depth = depth;
	q->nr_pool = depth;
	q->requeue = requeue;
	INIT_LIST_HEAD(&q->pool);
	INIT_LIST_HEAD(&q->lanes);
	INIT_LIST_HEAD(&q->turns);
	for (i = 0; i < depth; i++) {
		slot[i].tag = i;
		list_add_tail(&slot[i].node, &q->pool);
	}
	return 0;
}

static enum rlx_slot_event rlx_slots_death(const struct rlx_slots *q)
{
	if (q->gone)
		return RLX_EV_SERVICE_GONE;
	return q->requeue ? RLX_EV_EXEC_GONE_REQUEUE : RLX_EV_EXEC_GONE_FAIL;
}

/* The states in which the death of the executor may matter, in the order told. */
static const u8 rlx_slots_told[] = {
	RLX_SLOT_DELIVERED, RLX_SLOT_ORPHAN, RLX_SLOT_READY, RLX_SLOT_WAITING,
};

u32 rlx_slots_count(const struct rlx_slots *q, enum rlx_slot_state state)
{
	const struct rlx_lane *lane;
	u32 n = 0;

	lockdep_assert_held(&q->lock);
	list_for_each_entry(lane, &q->lanes, all)
		n += lane->nr[state];
	return n;
}

/* Whether some request has yet to learn that its executor died. */
static bool rlx_slots_settled(const struct rlx_slots *q)
{
	enum rlx_slot_event ev = rlx_slots_death(q);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rlx_slots_told); i++) {
		u8 state = rlx_slots_told[i];

		if (rlx_slot_moves[state][ev].how != STAY &&
		    rlx_slots_count(q, state))
			return false;
	}
	return true;
}

int rlx_slots_attach(struct rlx_slots *q, u32 gen)
{
	lockdep_assert_held(&q->lock);
	if (q->gone)
		return -EPIPE;
	if (gen <= q->gen)
		return -EINVAL;
	if (q->live || !rlx_slots_settled(q))
		return -EBUSY;
	WRITE_ONCE(q->gen, gen);
	WRITE_ONCE(q->live, true);
	return 0;
}

void rlx_slots_detach(struct rlx_slots *q, bool gone)
{
	lockdep_assert_held(&q->lock);
	WRITE_ONCE(q->live, false);
	q->gone |= gone;
}

/* Tells the requests of one lane; false if @out was too small. */
static bool rlx_lane_bury(struct rlx_lane *lane, struct rlx_slot_out *out, u32 max,
			  u32 *n)
{
	enum rlx_slot_event ev = rlx_slots_death(lane->q);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rlx_slots_told); i++) {
		u8 state = rlx_slots_told[i];

		if (rlx_slot_moves[state][ev].how == STAY)
			continue;
		while (lane->nr[state]) {
			struct rlx_slot *s;

			if (*n == max)
				return false;
			/* Last first, for each one goes to the head of READY. */
			if (rlx_slot_moves[state][ev].how == HEAD)
				s = list_last_entry(&lane->list[state],
						    struct rlx_slot, node);
			else
				s = list_first_entry(&lane->list[state],
						     struct rlx_slot, node);
			rlx_slot_apply(lane->q, s, ev, 0, &out[(*n)++]);
		}
	}
	return true;
}

bool rlx_slots_bury(struct rlx_slots *q, struct rlx_slot_out *out, u32 max, u32 *n)
{
	struct list_head *at, *next;

	lockdep_assert_held(&q->lock);
	*n = 0;
	if (q->live || rlx_slots_settled(q))
		return false;
	q->call++;
	for (at = q->lanes.next; at != &q->lanes; at = next) {
		next = at->next;	/* a lane that drains leaves the list */
		if (!rlx_lane_bury(list_entry(at, struct rlx_lane, all), out, max, n))
			return true;
	}
	return false;
}

int rlx_slots_fetch(struct rlx_slots *q, u32 gen, struct rlx_slot_ref *ref, u32 max)
{
	struct rlx_slot_out out RLX_UNINIT;
	u32 n;

	lockdep_assert_held(&q->lock);
	if (!q->live || gen != q->gen)
		return -EPIPE;
	for (n = 0; n < max && !list_empty(&q->turns); n++) {
		struct rlx_lane *lane = list_first_entry(&q->turns, struct rlx_lane,
							 turn);
		struct rlx_slot *s = list_first_entry(&lane->list[RLX_SLOT_READY],
						      struct rlx_slot, node);

		rlx_slot_step(q, s, RLX_SLOT_READY, RLX_EV_FETCH, 0, &out);
		s->gen = gen;
		ref[n].seq = s->seq;
		ref[n].tag = out.tag;
		if (!list_empty(&lane->turn) && !--lane->left) {
			lane->left = lane->quantum;
			list_move_tail(&lane->turn, &q->turns);
		}
	}
	return (int)n;
}

void rlx_slots_undeliver(struct rlx_slots *q, u32 gen, const struct rlx_slot_ref *ref,
			 u32 n, struct rlx_slot_out *out)
{
	struct rlx_slot *s;

	lockdep_assert_held(&q->lock);
	q->call++;
	while (n--) {	/* last first, for each one goes to the head of READY */
		s = rlx_slot_find(q, ref[n].tag, ref[n].seq);
		if (!s || !q->live || gen != q->gen)
			rlx_slot_stale(ref[n].tag, ref[n].seq, &out[n]);
		else
			rlx_slot_apply(q, s, RLX_EV_UNDELIVER, 0, &out[n]);
	}
}

int rlx_slots_commit(struct rlx_slots *q, u32 gen, const struct rlx_slot_commit *in,
		     u32 n, struct rlx_slot_out *out)
{
	u32 i, done = 0;

	lockdep_assert_held(&q->lock);
	if (!q->live || gen != q->gen)
		return -EPIPE;
	for (i = 0; i < n; i++) {
		struct rlx_slot *s = rlx_slot_find(q, in[i].tag, in[i].seq);

		if (!s) {
			rlx_slot_stale(in[i].tag, in[i].seq, &out[i]);
			continue;
		}
		if (likely(s->state == RLX_SLOT_DELIVERED))
			rlx_slot_step(q, s, RLX_SLOT_DELIVERED, RLX_EV_COMMIT,
				      in[i].result, &out[i]);
		else if (rlx_slot_apply(q, s, RLX_EV_COMMIT, 0, &out[i]))
			continue;
		s->aux = in[i].aux;
		out[i].aux = in[i].aux;
		done++;
	}
	return (int)done;
}

u64 rlx_slots_next_deadline(const struct rlx_slots *q)
{
	lockdep_assert_held(&q->lock);
	return q->nr_heap ? rlx_heap_key(q, 0) : U64_MAX;
}

u32 rlx_slots_expire(struct rlx_slots *q, u64 now, struct rlx_slot_out *out, u32 max)
{
	u32 n;

	lockdep_assert_held(&q->lock);
	q->call++;
	for (n = 0; n < max && rlx_slots_next_deadline(q) <= now; n++)
		rlx_slot_apply(q, &q->slot[q->heap[0]], RLX_EV_DEADLINE, 0, &out[n]);
	return n;
}
