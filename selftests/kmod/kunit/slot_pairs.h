/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walks every (state, event) pair of the slot machine against a table of its own.
 * Needs kmod/slot.c included before it; runs in user space and in KUnit alike.
 */
#ifndef RLX_KUNIT_SLOT_PAIRS_H
#define RLX_KUNIT_SLOT_PAIRS_H

/*
 * What must become of a slot: the letter of the next state (X is DONE), '.' for
 * nothing and no error, '-' for -ESTALE, '!' for -EALREADY.
 */
static const struct {
	enum rlx_slot_event	ev;
	const char		next[RLX_SLOT_STATES + 1];
	int			result;	/* 1: what the caller gives */
} pair_want[RLX_SLOT_EVENTS] = {
	/*			    FTWRDOX */
	{ RLX_EV_TAKE,		   "T------", 0 },
	{ RLX_EV_DROP,		   "-F-----", 0 },
	{ RLX_EV_SUBMIT,	   "-R-----", 0 },
	{ RLX_EV_SUBMIT_WAIT,	   "-W-----", 0 },
	{ RLX_EV_POINTS_MET,	   "--R----", 0 },
	{ RLX_EV_POINTS_FAIL,	   "--X----", 1 },
	{ RLX_EV_FETCH,		   "---D---", 0 },
	{ RLX_EV_UNDELIVER,	   "----RF-", 0 },
	{ RLX_EV_COMMIT,	   "----XF-", 1 },
	{ RLX_EV_CANCEL,	   "--XX!--", -ECANCELED },
	{ RLX_EV_ABANDON,	   "--FFO--", -ECANCELED },
	{ RLX_EV_DEADLINE,	   "--XX---", -ETIME },
	{ RLX_EV_CLIENT_GONE,	   "..FFO.F", -ECANCELED },
	{ RLX_EV_EXEC_GONE_REQUEUE, "....RF.", 0 },
	{ RLX_EV_EXEC_GONE_FAIL,   "...XXF.", -EOWNERDEAD },
	{ RLX_EV_SERVICE_GONE,	   "..XXXF.", -EOWNERDEAD },
	{ RLX_EV_REAP,		   "------F", 0 },
};

static const char pair_letter[RLX_SLOT_STATES + 1] = "FTWRDOX";

#define PAIR_VARIANTS	32
enum { PAIR_CMD = 1, PAIR_DUE = 2, PAIR_SHUT = 4, PAIR_OTHERS = 8, PAIR_RING = 16 };

struct pair_rig {
	struct rlx_slots	q;
	struct rlx_lane		lane;
	struct rlx_slot		slot[4];
	u32			heap[4];
	struct rlx_slot		*s;	/* the one under test */
	int			cmd, wait, other; /* stand for a command, points */
};

static int pair_state_of(char letter)
{
	int i;

	for (i = 0; i < RLX_SLOT_STATES; i++)
		if (pair_letter[i] == letter)
			return i;
	return -1;
}

/* Takes the lock. Brings a fresh slot to @state by the events that lead there; 0 if it came. */
static int pair_reach(struct pair_rig *r, int state, int variant)
{
	static const u8 path[RLX_SLOT_STATES][5] = {
		[RLX_SLOT_TAKEN]	= { 0 },
		[RLX_SLOT_WAITING]	= { RLX_EV_SUBMIT_WAIT },
		[RLX_SLOT_READY]	= { RLX_EV_SUBMIT },
		[RLX_SLOT_DELIVERED]	= { RLX_EV_SUBMIT, RLX_EV_FETCH },
		[RLX_SLOT_ORPHAN]	= { RLX_EV_SUBMIT, RLX_EV_FETCH,
					    RLX_EV_CLIENT_GONE },
		[RLX_SLOT_DONE]		= { RLX_EV_SUBMIT, RLX_EV_FETCH, RLX_EV_COMMIT },
	};
	bool holds = state == RLX_SLOT_WAITING || state == RLX_SLOT_READY ||
		     state == RLX_SLOT_DELIVERED;
	struct rlx_slot_out out;
	struct rlx_slot *o;
	int i;

	memset(r, 0, sizeof(*r));
	if (rlx_slots_init(&r->q, r->slot, r->heap, 4, false))
		return -1;
	spin_lock(&r->q.lock);
	if (rlx_slots_attach(&r->q, 7) ||
	    rlx_lane_open(&r->q, &r->lane, variant & PAIR_OTHERS ? 3 : 1, 1))
		return -1;
	if (variant & PAIR_OTHERS) {
		for (i = 0; i < 2; i++) {
			if (rlx_lane_take(&r->lane, &o, 1) != 1)
				return -1;
			o->deadline = 50;
			o->wait = &r->other;
			if (rlx_slots_submit(&r->lane, &o, 1, &out))
				return -1;
		}
	}
	r->s = list_first_entry(&r->lane.list[RLX_SLOT_FREE], struct rlx_slot, node);
	if (state != RLX_SLOT_FREE && rlx_lane_take(&r->lane, &o, 1) != 1)
		return -1;
	rlx_leases_add(&r->s->lease, 0);
	rlx_leases_add(&r->s->lease, 2);
	rlx_leases_add(&r->s->lease, RLX_LANE_ARENAS - 1);
	r->s->deadline = variant & PAIR_DUE ? 40 : 0;
	r->s->cmd = holds && variant & PAIR_CMD ? &r->cmd : NULL;
	r->s->wait = state == RLX_SLOT_WAITING ? &r->wait : NULL;
	for (i = 0; path[state][i]; i++) {
		r->s->gen = 7;
		if (rlx_slot_apply(&r->q, r->s, path[state][i], 0, &out))
			return -1;
	}
	r->lane.shut = !!(variant & PAIR_SHUT);
	if (r->lane.shut && r->s->state == RLX_SLOT_FREE)
		r->lane.shut = false;	/* it would have been given back */
	/* There no result waits, but where it was closed. */
	r->lane.ring = variant & PAIR_RING && (state != RLX_SLOT_DONE || r->lane.shut);
	r->q.call++;
	return r->s->state != state;
}

/* The acts of a move, told by what it is for the client and the executor. */
static u32 pair_acts(const struct pair_rig *r, int from, int to, int variant, int ev)
{
	bool cmd = from != RLX_SLOT_FREE && from != RLX_SLOT_TAKEN &&
		   from != RLX_SLOT_DONE && from != RLX_SLOT_ORPHAN &&
		   variant & PAIR_CMD;
	bool was_due = from == RLX_SLOT_WAITING || from == RLX_SLOT_READY;
	bool is_due = to == RLX_SLOT_WAITING || to == RLX_SLOT_READY;
	u32 acts = 0;

	if (cmd && (to == RLX_SLOT_FREE || to == RLX_SLOT_ORPHAN))
		acts |= RLX_ACT_CMD;
	if (from == RLX_SLOT_WAITING)
		acts |= RLX_ACT_WAIT;
	if (to == RLX_SLOT_DONE)
		acts |= RLX_ACT_REAP;
	if (to == RLX_SLOT_READY)
		acts |= RLX_ACT_FETCH;
	if (is_due && !was_due && variant & PAIR_DUE)
		acts |= RLX_ACT_TIMER;
	if (to == RLX_SLOT_FREE && r->lane.shut && !(variant & PAIR_OTHERS))
		acts |= RLX_ACT_DRAINED;
	else if (to == RLX_SLOT_FREE)
		acts |= RLX_ACT_SPACE;
	return acts;
}

/* NULL, or what was wrong about event @ev in state @from. Leaves the lock held. */
static const char *pair_check(struct pair_rig *r, int from, int ev, int variant)
{
	const char letter = pair_want[ev].next[from];
	struct rlx_slot_out out;
	int to, err, result, given = 77;
	u32 acts, rings = 0;

	if ((int)pair_want[ev].ev != ev)
		return "the test's own table is out of order";
	if (pair_reach(r, from, variant))
		return "the state could not be reached";
	if (ev == RLX_EV_SUBMIT_WAIT && from == RLX_SLOT_TAKEN)
		r->s->wait = &r->wait;
	err = rlx_slot_apply(&r->q, r->s, ev, given, &out);
	if (err != out.err || out.tag != rlx_slot_tag(&r->q, r->s))
		return "the record is of another slot, or tells another error";
	if (letter == '-' || letter == '!' || letter == '.') {
		if (err != (letter == '-' ? -ESTALE : letter == '!' ? -EALREADY : 0))
			return "the error is wrong";
		if (out.acts != (letter == '!' ? (u32)RLX_ACT_HINT : 0))
			return "acts although nothing happened";
		if (r->s->state != from || out.cmd || out.wait)
			return "something happened";
		return rlx_slots_check(&r->q);
	}
	to = pair_state_of(letter);
	if (to == RLX_SLOT_DONE && variant & PAIR_CMD) {
		to = RLX_SLOT_FREE;
	} else if (to == RLX_SLOT_DONE && r->lane.ring && !r->lane.shut) {
		to = RLX_SLOT_FREE;
		rings = RLX_ACT_REAP | RLX_ACT_RESULT;
	}
	acts = pair_acts(r, from, to, variant, ev) | rings;
	result = pair_want[ev].result == 1 ? given : pair_want[ev].result;
	if (err || r->s->state != to)
		return "the next state is wrong";
	if (out.acts != acts)
		return "the acts are wrong";
	if (out.cmd != (acts & RLX_ACT_CMD ? &r->cmd : NULL) ||
	    out.wait != (acts & RLX_ACT_WAIT ? &r->wait : NULL))
		return "another command or wait object came out";
	if ((acts & (RLX_ACT_CMD | RLX_ACT_REAP)) && out.result != result)
		return "the result is wrong";
	if (to == RLX_SLOT_DONE && r->s->result != result)
		return "the result to reap is wrong";
	if (r->lane.drained != !!(acts & RLX_ACT_DRAINED))
		return "drained, and not told, or told, and not drained";
	r->s->gen = 7;
	return rlx_slots_check(&r->q);
}

#endif
