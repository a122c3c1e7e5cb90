// SPDX-License-Identifier: GPL-2.0-only
/*
 * The invariants of the slot state machine, checked from the outside: for tests and
 * for debug builds, not on any path that counts.
 */
#include "slot.h"

/* Which states may hold what is said here a second time, not read from slot.c. */
static bool rlx_state_in(unsigned int state, unsigned int set)
{
	return (1U << state) & set;
}

#define PENDING	(1U << RLX_SLOT_WAITING | 1U << RLX_SLOT_READY)
#define OUT	(1U << RLX_SLOT_DELIVERED | 1U << RLX_SLOT_ORPHAN)
#define LEASED	(PENDING | OUT)

static const char *rlx_slot_check(const struct rlx_slots *q, const struct rlx_slot *s)
{
	bool due = rlx_state_in(s->state, PENDING) && s->deadline;

	if (s->cmd && !rlx_state_in(s->state, PENDING | 1U << RLX_SLOT_DELIVERED))
		return "S3: a parked command in a state that never answers it";
	if (s->wait && s->state != RLX_SLOT_WAITING)
		return "a wait object outside WAITING";
	if (!s->wait && s->state == RLX_SLOT_WAITING)
		return "WAITING for nothing";
	if (rlx_state_in(s->state, OUT) && s->gen != q->gen)
		return "S2: delivered to another generation";
	if (s->state != RLX_SLOT_FREE && !s->seq)
		return "in use without a generation";
	if (due != !!s->heap)
		return "deadline: not in the heap when it should, or is";
	if (s->heap && (s->heap > q->nr_heap || q->heap[s->heap - 1] != rlx_slot_tag(q, s)))
		return "deadline: the heap does not point back";
	return NULL;
}

static u32 rlx_slot_names(const struct rlx_slot *s)
{
	u32 n = 0, i;
	unsigned long w;

	for (i = 0; i < ARRAY_SIZE(s->lease.word); i++)
		for (w = s->lease.words & BIT(i) ? s->lease.word[i] : 0; w; w &= w - 1)
			n++;
	return n;
}

static const char *rlx_lane_check(const struct rlx_lane *lane)
{
	const struct rlx_slots *q = lane->q;
	u32 state, i, n, total = 0, leased = 0;
	const struct rlx_slot *s;
	const char *bad;

	for (state = 0; state < RLX_SLOT_STATES; state++) {
		n = 0;
		list_for_each_entry(s, &lane->list[state], node) {
			if (s->lane != lane)
				return "a slot on a strange lane's list";
			if (s->state != state)
				return "a slot on another state's list";
			if (++n > q->depth)
				return "a list without end";
			bad = rlx_slot_check(q, s);
			if (bad)
				return bad;
			if (rlx_state_in(state, LEASED))
				leased += rlx_slot_names(s);
		}
		if (n != lane->nr[state])
			return "S1: a list and its count differ";
		total += n;
	}
	if (total != lane->depth)
		return "S1: the states do not sum up to the depth";
	if (lane->ring && lane->nr[RLX_SLOT_DONE] && !lane->shut)
		return "a result waits beside the ring";
	if (lane->drained || !lane->depth)
		return "an empty lane is still listed";
	if (lane->shut && !total)
		return "a shut lane that did not drain";
	for (i = 0; i < RLX_LANE_ARENAS; i++)
		leased -= lane->leases[i];
	if (leased)
		return "S2: leases counted are not leases held";
	if (list_empty(&lane->turn) != !lane->nr[RLX_SLOT_READY])
		return "a lane's turn and its READY requests differ";
	if (!list_empty(&lane->turn) && (!lane->left || lane->left > lane->quantum))
		return "a turn of no length";
	return NULL;
}

static const char *rlx_heap_check(const struct rlx_slots *q)
{
	u32 i;

	if (q->nr_heap > q->depth)
		return "deadline: more than there are slots";
	for (i = 1; i < q->nr_heap; i++)
		if (q->slot[q->heap[(i - 1) / 2]].deadline > q->slot[q->heap[i]].deadline)
			return "deadline: the heap is unordered";
	return NULL;
}

const char *rlx_slots_check(const struct rlx_slots *q)
{
	u32 held = 0, turns = 0, busy = 0, ready = 0, n = 0;
	const struct rlx_lane *lane;
	const struct rlx_slot *s;
	const char *bad;

	lockdep_assert_held(&q->lock);
	list_for_each_entry(lane, &q->lanes, all) {
		bad = rlx_lane_check(lane);
		if (bad)
			return bad;
		held += lane->depth;
		busy += lane->nr[RLX_SLOT_READY] != 0;
		ready += lane->nr[RLX_SLOT_READY];
	}
	if (ready != q->nr_ready)
		return "S1: the lanes do not sum up";
	list_for_each_entry(s, &q->pool, node) {
		if (++n > q->depth)
			return "a pool without end";
		if (s->state != RLX_SLOT_FREE || s->cmd || s->heap)
			return "a slot in the pool is in use";
	}
	if (n != q->nr_pool)
		return "S1: the pool and its count differ";
	if (held + n != q->depth)
		return "S1: a slot is lost";
	list_for_each_entry(lane, &q->turns, turn)
		if (++turns > q->depth)
			return "turns without end";
	if (turns != busy)
		return "lanes with READY requests have no turn";
	return rlx_heap_check(q);
}
