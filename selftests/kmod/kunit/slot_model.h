/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random programs over the slot machine, compared step by step with a slow model
 * that is written from the rules, not from the code: no lists, no heap, no table.
 * Needs kmod/slot.c included before it; runs in user space, as a fuzzer, in KUnit.
 */
#ifndef RLX_KUNIT_SLOT_MODEL_H
#define RLX_KUNIT_SLOT_MODEL_H

#define M_LANES		3
#define M_DEPTH		10
#define M_REFS		16
#define M_CMDS		4096	/* also the most submits of one run */
#define M_OUT		4
#define M_SPREAD	8	/* from one attachment that is named to the next */

enum { M_POOL = RLX_SLOT_STATES };	/* a state of the model only */

struct m_slot {
	u8	state;
	u8	lane;
	u32	cmd;		/* number of its parked command, 0 none */
	u32	wait;		/* likewise of its points */
	u32	copy;		/* likewise of what it names elsewhere */
	u32	gen;
	u32	lease;		/* attachments 0..31 times M_SPREAD */
	s32	result;
	s64	order;		/* within its lane and state */
	u64	seq, deadline, aux, user_data;
};

struct m_lane {
	bool	open;		/* known to the queue: has slots */
	bool	ring, shut, told_drained;
	u32	opened;		/* lanes are buried in the order they were opened */
	u32	quantum, left;
	u32	told;
};

struct model {
	/* where choices come from: a generator, or the fuzzer's bytes */
	u64			state;
	const u8		*data;
	size_t			left;
	bool			from_data;

	struct rlx_slots	q;
	struct rlx_slot		slot[M_DEPTH];
	u32			heap[M_DEPTH];
	struct rlx_lane		lane[M_LANES];

	struct m_slot		m[M_DEPTH];
	struct m_lane		ml[M_LANES];
	u8			turn[M_LANES];	/* lanes with READY slots, next first */
	u32			nr_turn;
	s64			back, front;
	u32			gen, opened;
	bool			live, gone, requeue;
	u64			now;
	struct rlx_slot_ref	ref[M_REFS];	/* seen at fetches, stale ones too */
	u32			nr_ref;
	u8			cmd_left[M_CMDS + 1]; /* times each may yet be completed */
	u32			nr_cmd;
	u64			moves;
	struct rlx_slot_out	out[M_OUT], want[M_OUT];
	char			bad[160];	/* what differed; "" while all is well */
};

static u32 m_below(struct model *w, u32 n)
{
	if (w->from_data) {
		if (!w->left)
			return 0;
		w->left--;
		return *w->data++ % n;
	}
	w->state ^= w->state << 13;
	w->state ^= w->state >> 7;
	w->state ^= w->state << 17;
	return (u32)(w->state >> 32) % n;
}

#define M_BAD(w, ...)							\
	do {								\
		if (!(w)->bad[0])					\
			snprintf((w)->bad, sizeof((w)->bad), __VA_ARGS__); \
	} while (0)

static void *m_ptr(u32 number)
{
	return number ? (void *)(uintptr_t)number : NULL;
}

/* ---- the rules ---- */

static u32 m_count(const struct model *w, unsigned int lane, unsigned int state)
{
	u32 i, n = 0;

	for (i = 0; i < M_DEPTH; i++)
		n += w->m[i].state == state && w->m[i].lane == lane;
	return n;
}

/* The first (or last) slot of @lane in @state by order; -1 if there is none. */
static int m_first(const struct model *w, unsigned int lane, unsigned int state,
		   bool last)
{
	int best = -1, i;

	for (i = 0; i < M_DEPTH; i++) {
		if (w->m[i].state != state || w->m[i].lane != lane)
			continue;
		if (best < 0 || (w->m[i].order < w->m[best].order) != last)
			best = i;
	}
	return best;
}

static bool m_may_expire(const struct m_slot *m)
{
	return m->deadline &&
	       (m->state == RLX_SLOT_WAITING || m->state == RLX_SLOT_READY);
}

static u64 m_next_deadline(const struct model *w)
{
	u64 next = U64_MAX;
	u32 i;

	for (i = 0; i < M_DEPTH; i++)
		if (m_may_expire(&w->m[i]) && w->m[i].deadline < next)
			next = w->m[i].deadline;
	return next;
}

static void m_turn_drop(struct model *w, unsigned int lane)
{
	u32 i, n = 0;

	for (i = 0; i < w->nr_turn; i++)
		if (w->turn[i] != lane)
			w->turn[n++] = w->turn[i];
	w->nr_turn = n;
}

static u32 m_tell(struct model *w, unsigned int lane, u32 acts)
{
	acts &= ~w->ml[lane].told;
	w->ml[lane].told |= acts;
	return acts;
}

static void m_call(struct model *w)
{
	u32 i;

	for (i = 0; i < M_LANES; i++)
		w->ml[i].told = 0;
}

static u32 m_left_lane(struct model *w, unsigned int lane)
{
	u32 i;

	for (i = 0; i < M_DEPTH; i++)
		if (w->m[i].state != M_POOL && w->m[i].lane == lane)
			return 0;
	w->ml[lane].open = false;
	w->ml[lane].told_drained = true;
	return RLX_ACT_DRAINED;
}

/* Slot @i goes to @next with @result; @want is what must be told about it. */
static void m_move(struct model *w, int i, unsigned int next, s32 result, bool head,
		   struct rlx_slot_out *want)
{
	struct m_slot *m = &w->m[i];
	struct m_lane *l = &w->ml[m->lane];
	bool was_pending = m->state == RLX_SLOT_WAITING || m->state == RLX_SLOT_READY;
	bool first_due = m->deadline < m_next_deadline(w), into_ring;
	u32 acts = 0;

	memset(want, 0, sizeof(*want));
	want->tag = (u32)i;
	want->seq = m->seq;
	want->lane = &w->lane[m->lane];
	want->result = result;
	if (m->state == RLX_SLOT_WAITING)
		want->wait = m_ptr(m->wait);
	into_ring = next == RLX_SLOT_DONE && !m->cmd && l->ring && !l->shut;
	if (into_ring || (next == RLX_SLOT_DONE && m->cmd))
		next = RLX_SLOT_FREE;
	if (next == RLX_SLOT_FREE || next == RLX_SLOT_ORPHAN) {
		want->cmd = m_ptr(m->cmd);
		m->cmd = 0;
	}
	if (next == RLX_SLOT_FREE || next == RLX_SLOT_DONE) {
		want->copy = m_ptr(m->copy);
		m->copy = 0;
	}
	m->state = (u8)next;
	m->order = head ? --w->front : ++w->back;
	m->result = result;
	if (next == RLX_SLOT_READY) {
		acts |= RLX_ACT_FETCH;
		if (m_count(w, m->lane, RLX_SLOT_READY) == 1) {
			w->turn[w->nr_turn++] = m->lane;
			l->left = l->quantum;
		}
	} else if (!m_count(w, m->lane, RLX_SLOT_READY)) {
		m_turn_drop(w, m->lane);
	}
	if (m_may_expire(m) && !was_pending && first_due)
		acts |= RLX_ACT_TIMER;
	if (next == RLX_SLOT_DONE || into_ring)
		acts |= RLX_ACT_REAP;
	if (next == RLX_SLOT_FREE)
		acts |= RLX_ACT_SPACE;
	if (next == RLX_SLOT_FREE && l->shut) {
		m->state = M_POOL;
		if (m_left_lane(w, m->lane))
			acts = RLX_ACT_DRAINED;
	}
	want->acts = m_tell(w, m->lane, acts);
	want->acts |= want->cmd ? RLX_ACT_CMD : 0;
	want->acts |= want->wait ? RLX_ACT_WAIT : 0;
	want->acts |= want->copy ? RLX_ACT_COPY : 0;
	want->acts |= into_ring ? RLX_ACT_RESULT : 0;
	w->moves++;
}

static void m_stale(u32 tag, u64 seq, int err, struct rlx_slot_out *want)
{
	memset(want, 0, sizeof(*want));
	want->tag = tag;
	want->seq = seq;
	want->err = err;
	want->acts = err == -EALREADY ? RLX_ACT_HINT : 0;
}

static int m_accepts(const struct model *w, unsigned int lane)
{
	if (w->ml[lane].shut || w->gone)
		return -EPIPE;
	if (!w->gen)
		return -ENOTCONN;
	return !w->live && !w->requeue ? -EPIPE : 0;
}

/* ---- comparing ---- */

/* A completed command was parked, and is completed for the first time. */
static void m_completed(struct model *w, const void *cmd)
{
	uintptr_t number = (uintptr_t)cmd;

	if (!number)
		return;
	if (number > w->nr_cmd || !w->cmd_left[number]--)
		M_BAD(w, "command %u completed twice", (u32)number);
}

static void m_same_out(struct model *w, u32 n, const char *op)
{
	u32 i;

	for (i = 0; i < n && !w->bad[0]; i++) {
		const struct rlx_slot_out *a = &w->out[i], *b = &w->want[i];

		m_completed(w, a->cmd);
		if (a->err != b->err || a->tag != b->tag || a->seq != b->seq)
			M_BAD(w, "%s %u: tag %u err %d, wanted %u, %d", op, i, a->tag,
			      a->err, b->tag, b->err);
		else if (a->acts != b->acts)
			M_BAD(w, "%s %u: acts %x, wanted %x", op, i, a->acts, b->acts);
		else if (a->cmd != b->cmd || a->wait != b->wait ||
			 a->copy != b->copy || a->lane != b->lane)
			M_BAD(w, "%s %u: cmd, wait, copy or lane differ", op, i);
		else if (a->acts & RLX_ACT_RESULT &&
			 w->slot[a->tag].user_data != w->m[a->tag].user_data)
			M_BAD(w, "%s %u: the result is of another request", op, i);
		else if (a->acts & (RLX_ACT_CMD | RLX_ACT_REAP | RLX_ACT_RESULT) &&
			 (a->result != b->result || a->aux != b->aux))
			M_BAD(w, "%s %u: result %d, wanted %d", op, i, a->result,
			      b->result);
	}
}

static void m_same_slot(struct model *w, int i, const char *op)
{
	const struct rlx_slot *s = &w->slot[i];
	const struct m_slot *m = &w->m[i];

	if (s->seq != m->seq || s->cmd != m_ptr(m->cmd))
		M_BAD(w, "%s: slot %d has another seq or command", op, i);
	else if (s->state != (m->state == M_POOL ? RLX_SLOT_FREE : m->state))
		M_BAD(w, "%s: slot %d is in state %u, not %u", op, i, s->state,
		      m->state);
	else if (m->state != M_POOL && s->lane != &w->lane[m->lane])
		M_BAD(w, "%s: slot %d left its lane", op, i);
	else if (!!s->heap != m_may_expire(m))
		M_BAD(w, "%s: slot %d and its deadline", op, i);
}

static void m_same_lane(struct model *w, unsigned int lane, const char *op)
{
	const struct rlx_lane *l = &w->lane[lane];
	u32 state, i, n, leases[32] = { 0 };
	const struct rlx_slot *s;
	s64 last;

	for (state = 0; state < RLX_SLOT_STATES; state++) {
		last = -(1LL << 62);
		n = 0;
		list_for_each_entry(s, &l->list[state], node) {
			const struct m_slot *m = &w->m[s - w->slot];

			n++;
			if (state != RLX_SLOT_FREE && m->order <= last)
				M_BAD(w, "%s: lane %u, state %u out of order", op, lane,
				      state);
			last = m->order;
		}
		if (n != m_count(w, lane, state) || n != l->nr[state])
			M_BAD(w, "%s: lane %u, %u slots in state %u", op, lane, n,
			      state);
	}
	for (i = 0; i < M_DEPTH; i++) {
		const struct m_slot *m = &w->m[i];

		if (m->lane != lane || m->state < RLX_SLOT_WAITING ||
		    m->state > RLX_SLOT_ORPHAN)
			continue;
		for (n = 0; n < 32; n++)
			leases[n] += m->lease >> n & 1;
	}
	for (n = 0; n < RLX_LANE_ARENAS; n++)
		if (rlx_lane_leases(l, n) != (n % M_SPREAD ? 0 : leases[n / M_SPREAD]))
			M_BAD(w, "%s: lane %u, attachment %u leased %u times", op,
			      lane, n, rlx_lane_leases(l, n));
}

static void m_same(struct model *w, const char *op)
{
	const struct rlx_lane *l;
	const char *bad = rlx_slots_check(&w->q);
	u32 i = 0;

	if (bad)
		M_BAD(w, "%s: %s", op, bad);
	for (i = 0; i < M_DEPTH && !w->bad[0]; i++)
		m_same_slot(w, (int)i, op);
	for (i = 0; i < M_LANES && !w->bad[0]; i++)
		if (w->ml[i].open)
			m_same_lane(w, i, op);
	i = 0;
	list_for_each_entry(l, &w->q.turns, turn) {
		if (i >= w->nr_turn || l != &w->lane[w->turn[i]] ||
		    l->left != w->ml[w->turn[i]].left)
			M_BAD(w, "%s: turn %u is another's", op, i);
		i++;
	}
	if (i != w->nr_turn)
		M_BAD(w, "%s: a lane has lost its turn", op);
	if (rlx_slots_next_deadline(&w->q) != m_next_deadline(w))
		M_BAD(w, "%s: the next deadline is another", op);
}

/* ---- the operations ---- */

/* Some slot in @state, -1 if there is none. */
static int m_any(struct model *w, unsigned int state)
{
	u32 at = m_below(w, M_DEPTH), i;

	for (i = 0; i < M_DEPTH; i++, at = (at + 1) % M_DEPTH)
		if (w->m[at].state == state)
			return (int)at;
	return -1;
}

/* A lane, mostly an open one. */
static u32 m_lane(struct model *w)
{
	u32 lane = m_below(w, M_LANES), i;

	for (i = 0; i < M_LANES && !w->ml[lane].open; i++)
		lane = (lane + 1) % M_LANES;
	return lane;
}

/* A tag, mostly one in @state, now and then of no slot at all. */
static u32 m_pick(struct model *w, unsigned int state)
{
	int tag = m_below(w, 4) ? m_any(w, state) : -1;

	return tag >= 0 ? (u32)tag : m_below(w, M_DEPTH + 1);
}

static void m_open(struct model *w)
{
	u32 lane = m_below(w, M_LANES), depth = m_below(w, 8), quantum = m_below(w, 4);
	const struct rlx_slot *s;
	u32 i, pool = 0;
	int err, want;

	if (w->ml[lane].open)
		return;
	for (i = 0; i < M_DEPTH; i++)
		pool += w->m[i].state == M_POOL;
	want = !depth || !quantum ? -EINVAL : depth > pool ? -ENOSPC : 0;
	err = rlx_lane_open(&w->q, &w->lane[lane], depth, quantum);
	if (err != want)
		M_BAD(w, "open: %d, wanted %d", err, want);
	if (err)
		return;
	memset(&w->ml[lane], 0, sizeof(w->ml[lane]));
	w->ml[lane].open = true;
	w->ml[lane].ring = w->lane[lane].ring = m_below(w, 2);
	w->ml[lane].quantum = quantum;
	w->ml[lane].opened = ++w->opened;
	/* Which slots it got is the machine's choice; that they were free is not. */
	list_for_each_entry(s, &w->lane[lane].list[RLX_SLOT_FREE], node) {
		struct m_slot *m = &w->m[s - w->slot];

		if (m->state != M_POOL || !depth--)
			M_BAD(w, "open: slot %u was not in the pool", rlx_slot_tag(&w->q, s));
		m->state = RLX_SLOT_FREE;
		m->lane = (u8)lane;
	}
	if (depth)
		M_BAD(w, "open: %u slots too few", depth);
}

/* Closing gives FREE slots back in an order of the machine's choice. */
static void m_adopt_pool(struct model *w, unsigned int lane, u32 given)
{
	const struct rlx_slot *s;

	list_for_each_entry(s, &w->q.pool, node) {
		struct m_slot *m = &w->m[s - w->slot];

		if (m->state == M_POOL)
			continue;
		if (m->state != RLX_SLOT_FREE || m->lane != lane || !given--)
			M_BAD(w, "close: slot %u is in the pool", (u32)(s - w->slot));
		m->state = M_POOL;
	}
}

static void m_close(struct model *w)
{
	static const u8 order[] = { RLX_SLOT_WAITING, RLX_SLOT_READY,
				    RLX_SLOT_DELIVERED, RLX_SLOT_DONE };
	u32 lane = m_lane(w), max = 1 + m_below(w, M_OUT), n, k, i;
	u32 work = 0, given, got = 0;
	enum rlx_lane_end end, want;
	int s;

	if (!w->ml[lane].open)
		return;
	m_call(w);
	end = rlx_lane_close(&w->lane[lane], w->out, max, &got);
	w->ml[lane].shut = true;
	for (n = 0, i = 0; i < ARRAY_SIZE(order); i++) {
		while (work < max && (s = m_first(w, lane, order[i], false)) >= 0) {
			m_move(w, s, order[i] == RLX_SLOT_DELIVERED ? RLX_SLOT_ORPHAN :
			       RLX_SLOT_FREE, -ECANCELED, false, &w->want[n]);
			w->want[n++].acts &= ~(u32)RLX_ACT_DRAINED;
			work++;
		}
	}
	k = m_count(w, lane, RLX_SLOT_FREE);
	given = min(k, max - work);
	if (w->ml[lane].open) {
		m_adopt_pool(w, lane, given);
		if (given == k)
			m_left_lane(w, lane);
	}
	for (k = 0, i = 0; i < RLX_SLOT_STATES; i++)
		if (i != RLX_SLOT_TAKEN && i != RLX_SLOT_ORPHAN && w->ml[lane].open)
			k += m_count(w, lane, i);
	want = k ? RLX_LANE_MORE :
	       w->ml[lane].open ? RLX_LANE_LATER : RLX_LANE_DRAINED;
	if (end != want || got != n)
		M_BAD(w, "close: says %d with %u records, wanted %d, %u", end, got,
		      want, n);
	m_same_out(w, n, "close");
}

static void m_take(struct model *w)
{
	u32 lane = m_lane(w), max = 1 + m_below(w, 3), i;
	struct rlx_slot *s[3];
	int got, want;

	if (!w->ml[lane].open)
		return;
	want = m_accepts(w, lane);
	if (!want)
		want = (int)min(max, m_count(w, lane, RLX_SLOT_FREE)) ?: -EAGAIN;
	got = rlx_lane_take(&w->lane[lane], s, max);
	if (got != want)
		M_BAD(w, "take: %d, wanted %d", got, want);
	for (i = 0; (int)i < got && !w->bad[0]; i++) {
		struct m_slot *m = &w->m[s[i] - w->slot];

		if (m->state != RLX_SLOT_FREE || m->lane != lane)
			M_BAD(w, "take: slot %u is not this lane's", s[i]->tag);
		m->state = RLX_SLOT_TAKEN;
		m->order = ++w->back;
		m->seq++;
	}
}

/* What a request holds, in the model and in the slot. */
static void m_fill(struct model *w, int i)
{
	struct rlx_slot *s = &w->slot[i];
	struct m_slot *m = &w->m[i];
	u32 how = m_below(w, 16), at;

	w->cmd_left[++w->nr_cmd] = 1;
	m->cmd = how & 1 ? w->nr_cmd : 0;
	m->wait = how & 2 ? 0x10000 + w->nr_cmd : 0;
	m->copy = how & 8 ? 0x20000 + w->nr_cmd : 0;
	m->deadline = how & 4 ? w->now + 1 + m_below(w, 12) : 0;
	m->lease = m_below(w, 256) | (m_below(w, 256) << 24);
	m->user_data = ++w->back;
	m->aux = 0;
	s->cmd = m_ptr(m->cmd);
	s->wait = m_ptr(m->wait);
	if (m->copy)	/* else it is NULL, as take left it */
		s->copy = m_ptr(m->copy);
	s->deadline = m->deadline;
	s->user_data = m->user_data;
	s->lease.words = 0;
	for (at = 0; at < 32; at++)
		if (m->lease >> at & 1)
			rlx_leases_add(&s->lease, at * M_SPREAD);
}

static void m_drop(struct model *w, int i)
{
	m_call(w);
	w->m[i].cmd = 0;
	w->m[i].copy = 0;
	rlx_slot_drop(&w->q, &w->slot[i], w->out);
	m_move(w, i, RLX_SLOT_FREE, 0, false, w->want);
	m_same_out(w, 1, "drop");
}

/* Up to three of one lane at once. */
static void m_submit(struct model *w)
{
	int i = m_any(w, RLX_SLOT_TAKEN), at[3], err, want;
	struct rlx_slot *s[3];
	struct rlx_slot_out all;
	u32 n = 0, k, lane;

	if (i < 0 || w->nr_cmd + ARRAY_SIZE(at) > M_CMDS)
		return;
	if (!m_below(w, 16)) {
		m_drop(w, i);
		return;
	}
	lane = w->m[i].lane;
	for (; n < ARRAY_SIZE(at) && i < M_DEPTH; i++) {
		if (w->m[i].state != RLX_SLOT_TAKEN || w->m[i].lane != lane)
			continue;
		m_fill(w, i);
		s[n] = &w->slot[i];
		at[n++] = i;
	}
	m_call(w);
	want = m_accepts(w, lane);
	err = rlx_slots_submit(&w->lane[lane], s, n, w->out);
	if (err != want)
		M_BAD(w, "submit: %d, wanted %d", err, want);
	if (want) {
		for (k = 0; k < n; k++)
			m_drop(w, at[k]);
		return;
	}
	memset(&all, 0, sizeof(all));
	all.lane = &w->lane[lane];
	for (k = 0; k < n; k++) {
		bool waits = w->m[at[k]].wait != 0;

		m_move(w, at[k], waits ? RLX_SLOT_WAITING : RLX_SLOT_READY, 0, false,
		       w->want);
		all.acts |= w->want->acts;
	}
	w->want[0] = all;
	m_same_out(w, 1, "submit");
}

static u64 m_seq(struct model *w, u32 tag)
{
	u64 seq = tag < M_DEPTH ? w->m[tag].seq : 1;

	return m_below(w, 8) ? seq : seq - 1 + 2 * m_below(w, 2);
}

static void m_points(struct model *w)
{
	u32 tag = m_pick(w, RLX_SLOT_WAITING);
	u64 seq = m_seq(w, tag);
	int given = m_below(w, 3) ? 0 : -EIO, err;
	const struct m_slot *m = &w->m[tag < M_DEPTH ? tag : 0];

	m_call(w);
	err = rlx_slot_points(&w->q, tag, seq, given, w->out);
	if (tag >= M_DEPTH || m->seq != seq || m->state != RLX_SLOT_WAITING) {
		m_stale(tag, seq, -ESTALE, w->want);
	} else {
		if (!given && (w->gone || (!w->live && !w->requeue)))
			given = -EOWNERDEAD;
		m_move(w, (int)tag, given ? RLX_SLOT_DONE : RLX_SLOT_READY, given,
		       false, w->want);
	}
	if (err != w->want->err)
		M_BAD(w, "points: %d, wanted %d", err, w->want->err);
	m_same_out(w, 1, "points");
}

static u32 m_gen(struct model *w)
{
	return m_below(w, 8) ? w->gen : w->gen - 1 + 2 * m_below(w, 2);
}

static void m_fetch(struct model *w)
{
	u32 gen = m_gen(w), max = m_below(w, M_OUT + 1), i;
	struct rlx_slot_ref ref[M_OUT];
	int n = rlx_slots_fetch(&w->q, gen, ref, max), s;

	if (!w->live || gen != w->gen) {
		if (n != -EPIPE)
			M_BAD(w, "fetch by a dead generation: %d", n);
		return;
	}
	for (i = 0; i < max && w->nr_turn && !w->bad[0]; i++) {
		unsigned int lane = w->turn[0];

		s = m_first(w, lane, RLX_SLOT_READY, false);
		if ((int)i >= n || ref[i].tag != (u32)s || ref[i].seq != w->m[s].seq) {
			M_BAD(w, "fetch %u: not slot %d", i, s);
			return;
		}
		m_move(w, s, RLX_SLOT_DELIVERED, 0, false, w->want);
		w->m[s].gen = gen;
		if (m_count(w, lane, RLX_SLOT_READY) && !--w->ml[lane].left) {
			m_turn_drop(w, lane);
			w->turn[w->nr_turn++] = (u8)lane;
			w->ml[lane].left = w->ml[lane].quantum;
		}
		w->ref[w->nr_ref++ % M_REFS] = ref[i];
	}
	if (n != (int)i)
		M_BAD(w, "fetch: %d, wanted %u", n, i);
}

static bool m_holds(const struct model *w, u32 gen, u32 tag, u64 seq)
{
	const struct m_slot *m = &w->m[tag < M_DEPTH ? tag : 0];

	return tag < M_DEPTH && w->live && gen == w->gen && m->seq == seq &&
	       m->gen == gen && (m->state == RLX_SLOT_DELIVERED ||
				 m->state == RLX_SLOT_ORPHAN);
}

static void m_undeliver(struct model *w)
{
	u32 n = m_below(w, M_OUT + 1), gen = m_gen(w), i;
	struct rlx_slot_ref ref[M_OUT] = { 0 };

	for (i = 0; i < n; i++)
		ref[i] = w->ref[m_below(w, M_REFS)];
	m_call(w);
	rlx_slots_undeliver(&w->q, gen, ref, n, w->out);
	for (i = n; i--; ) {
		u32 tag = ref[i].tag;

		if (!m_holds(w, gen, tag, ref[i].seq))
			m_stale(tag, ref[i].seq, -ESTALE, &w->want[i]);
		else if (w->m[tag].state == RLX_SLOT_ORPHAN)
			m_move(w, (int)tag, RLX_SLOT_FREE, 0, false, &w->want[i]);
		else
			m_move(w, (int)tag, RLX_SLOT_READY, 0, true, &w->want[i]);
	}
	m_same_out(w, n, "undeliver");
}

static void m_commit(struct model *w)
{
	u32 n = m_below(w, M_OUT + 1), gen = m_gen(w), i, ok = 0;
	struct rlx_slot_commit in[M_OUT] = { 0 };
	int got;

	for (i = 0; i < n; i++) {
		const struct rlx_slot_ref *ref = &w->ref[m_below(w, M_REFS)];
		bool old = !m_below(w, 3);

		in[i].tag = old ? ref->tag : m_pick(w, RLX_SLOT_DELIVERED);
		in[i].seq = old ? ref->seq : m_seq(w, in[i].tag);
		in[i].result = (s32)m_below(w, 200) - 100;
		in[i].aux = ++w->back;
	}
	m_call(w);
	rlx_slots_begin(&w->q);
	got = rlx_slots_commit(&w->q, gen, in, n, w->out);
	if (!w->live || gen != w->gen) {
		if (got != -EPIPE)
			M_BAD(w, "S6: commit by a dead generation: %d", got);
		return;
	}
	for (i = 0; i < n; i++) {
		u32 tag = in[i].tag;

		if (!m_holds(w, gen, tag, in[i].seq)) {
			m_stale(tag, in[i].seq, -ESTALE, &w->want[i]);
			continue;
		}
		m_move(w, (int)tag, w->m[tag].state == RLX_SLOT_ORPHAN ?
		       RLX_SLOT_FREE : RLX_SLOT_DONE, in[i].result, false, &w->want[i]);
		w->m[tag].aux = w->want[i].aux = in[i].aux;
		ok++;
	}
	if (got != (int)ok)
		M_BAD(w, "commit: %d, wanted %u", got, ok);
	m_same_out(w, n, "commit");
}

static void m_cancel(struct model *w)
{
	u32 tag = m_below(w, M_DEPTH + 1), lane = m_below(w, M_LANES);
	const struct m_slot *m = &w->m[tag < M_DEPTH ? tag : 0];
	u64 seq = m_seq(w, tag);
	int err;

	if (m_below(w, 8) && tag < M_DEPTH && m->lane < M_LANES)
		lane = m->lane;
	if (!w->ml[lane].open)
		return;
	m_call(w);
	err = rlx_slot_cancel(&w->lane[lane], tag, seq, w->out);
	if (tag >= M_DEPTH || m->seq != seq || m->lane != lane ||
	    m->state < RLX_SLOT_WAITING || m->state > RLX_SLOT_DELIVERED)
		m_stale(tag, seq, -ESTALE, w->want);
	else if (m->state == RLX_SLOT_DELIVERED)
		m_stale(tag, seq, -EALREADY, w->want);
	else
		m_move(w, (int)tag, RLX_SLOT_DONE, -ECANCELED, false, w->want);
	if (err != w->want->err)
		M_BAD(w, "cancel: %d, wanted %d", err, w->want->err);
	m_same_out(w, 1, "cancel");
}

static void m_abandon(struct model *w)
{
	u32 tag = m_below(w, M_DEPTH + 1);
	const struct m_slot *m = &w->m[tag < M_DEPTH ? tag : 0];
	u64 seq = m_seq(w, tag);
	void *cmd = m_ptr(m_below(w, 8) || !w->nr_cmd ? m->cmd :
			  1 + m_below(w, w->nr_cmd));
	int err;

	m_call(w);
	err = rlx_slot_abandon(&w->q, tag, seq, cmd, w->out);
	if (tag >= M_DEPTH || m->seq != seq || !cmd || m_ptr(m->cmd) != cmd)
		m_stale(tag, seq, -ESTALE, w->want);
	else
		m_move(w, (int)tag, m->state == RLX_SLOT_DELIVERED ?
		       RLX_SLOT_ORPHAN : RLX_SLOT_FREE, -ECANCELED, false, w->want);
	if (err != w->want->err)
		M_BAD(w, "abandon: %d, wanted %d", err, w->want->err);
	m_same_out(w, 1, "abandon");
}

static void m_expire(struct model *w)
{
	u32 max = m_below(w, M_OUT + 1), i, n;

	w->now += m_below(w, 6);
	m_call(w);
	n = rlx_slots_expire(&w->q, w->now, w->out, max);
	for (i = 0; i < n && !w->bad[0]; i++) {
		u32 tag = w->out[i].tag;

		/* Of equal ones any may go first. */
		if (tag >= M_DEPTH || !m_may_expire(&w->m[tag]) ||
		    w->m[tag].deadline != m_next_deadline(w) ||
		    w->m[tag].deadline > w->now) {
			M_BAD(w, "expire: slot %u was not due next", tag);
			return;
		}
		m_move(w, (int)tag, RLX_SLOT_DONE, -ETIME, false, &w->want[i]);
	}
	if (n < max && m_next_deadline(w) <= w->now)
		M_BAD(w, "expire: some were left");
	m_same_out(w, n, "expire");
}

/* Buries at most one slot of @lane; false if it has none to bury. */
static bool m_bury_one(struct model *w, unsigned int lane, struct rlx_slot_out *want)
{
	int s = m_first(w, lane, RLX_SLOT_DELIVERED, w->requeue && !w->gone);

	if (s >= 0 && w->requeue && !w->gone) {
		m_move(w, s, RLX_SLOT_READY, 0, true, want);
		return true;
	}
	if (s < 0) {
		s = m_first(w, lane, RLX_SLOT_ORPHAN, false);
		if (s >= 0) {
			m_move(w, s, RLX_SLOT_FREE, -EOWNERDEAD, false, want);
			return true;
		}
	}
	if (s < 0 && (w->gone || !w->requeue))
		s = m_first(w, lane, RLX_SLOT_READY, false);
	if (s < 0 && w->gone)
		s = m_first(w, lane, RLX_SLOT_WAITING, false);
	if (s < 0)
		return false;
	m_move(w, s, RLX_SLOT_DONE, -EOWNERDEAD, false, want);
	return true;
}

/* The open lane that was opened first after @after; -1 if none. */
static int m_lane_after(const struct model *w, u32 after)
{
	int best = -1, i;

	for (i = 0; i < M_LANES; i++)
		if (w->ml[i].open && w->ml[i].opened > after &&
		    (best < 0 || w->ml[i].opened < w->ml[best].opened))
			best = i;
	return best;
}

static bool m_unburied(struct model *w)
{
	u32 i;

	for (i = 0; i < M_DEPTH && !w->live; i++) {
		u8 st = w->m[i].state;

		if (st == RLX_SLOT_DELIVERED || st == RLX_SLOT_ORPHAN ||
		    (st == RLX_SLOT_READY && (w->gone || !w->requeue)) ||
		    (st == RLX_SLOT_WAITING && w->gone))
			return true;
	}
	return false;
}

static void m_bury(struct model *w)
{
	u32 max = m_below(w, M_OUT + 1), got = 0, n = 0, after = 0;
	bool more;
	int lane;

	m_call(w);
	more = rlx_slots_bury(&w->q, w->out, max, &got);
	while (!w->live && (lane = m_lane_after(w, after)) >= 0) {
		after = w->ml[lane].opened;
		while (n < max && m_bury_one(w, (unsigned int)lane, &w->want[n]))
			n++;
	}
	if (got != n || more != m_unburied(w))
		M_BAD(w, "bury: %u records, more %d; wanted %u, %d", got, more, n,
		      m_unburied(w));
	m_same_out(w, n, "bury");
}

static void m_generation(struct model *w)
{
	u32 gen = w->gen + m_below(w, 4);
	int err, want;

	if (w->live && !m_below(w, 8)) {
		w->gone |= !m_below(w, 32);
		rlx_slots_detach(&w->q, w->gone);
		w->live = false;
		return;
	}
	want = w->gone ? -EPIPE : gen <= w->gen ? -EINVAL :
	       w->live || m_unburied(w) ? -EBUSY : 0;
	err = rlx_slots_attach(&w->q, gen);
	if (err != want)
		M_BAD(w, "attach: %d, wanted %d", err, want);
	if (!err) {
		w->live = true;
		w->gen = gen;
	}
}

static void m_reap(struct model *w)
{
	u32 lane = m_lane(w), max = m_below(w, M_OUT + 1), n, i;
	struct rlx_slot_result res[M_OUT];

	if (!w->ml[lane].open)
		return;
	n = rlx_lane_reap(&w->lane[lane], res, max);
	for (i = 0; i < max && !w->ml[lane].shut; i++) {
		int s = m_first(w, lane, RLX_SLOT_DONE, false);
		const struct m_slot *m = &w->m[s < 0 ? 0 : s];

		if (s < 0)
			break;
		if (i >= n || res[i].tag != (u32)s || res[i].seq != m->seq ||
		    res[i].result != m->result || res[i].aux != m->aux ||
		    res[i].user_data != m->user_data) {
			M_BAD(w, "reap %u: not slot %d", i, s);
			return;
		}
		m_move(w, s, RLX_SLOT_FREE, 0, false, w->want);
	}
	if (n != i)
		M_BAD(w, "reap: %u results, wanted %u", n, i);
}

static void m_step(struct model *w)
{
	static const struct {
		void		(*fn)(struct model *w);
		const char	*name;
		u32		weight;
	} op[] = {
		{ m_take, "take", 36 }, { m_submit, "submit", 40 },
		{ m_points, "points", 30 }, { m_fetch, "fetch", 24 },
		{ m_commit, "commit", 30 }, { m_undeliver, "undeliver", 6 },
		{ m_cancel, "cancel", 8 }, { m_abandon, "abandon", 8 },
		{ m_expire, "expire", 6 }, { m_reap, "reap", 16 },
		{ m_bury, "bury", 12 }, { m_generation, "attach", 12 },
		{ m_open, "open", 12 }, { m_close, "close", 2 },
	};
	u32 i, at, sum = 0;

	for (i = 0; i < ARRAY_SIZE(op); i++)
		sum += op[i].weight;
	at = m_below(w, sum);
	for (i = 0; at >= op[i].weight; i++)
		at -= op[i].weight;
	op[i].fn(w);
	if (!w->bad[0])
		m_same(w, op[i].name);
}

/*
 * Runs @steps operations; "" or what went wrong. @w is zeroed memory; set .state to
 * a seed, or .from_data, .data and .left, before.
 */
static const char *m_run(struct model *w, u32 steps)
{
	u32 i;

	w->requeue = m_below(w, 2);
	rlx_slots_init(&w->q, w->slot, w->heap, M_DEPTH, w->requeue);
	for (i = 0; i < M_DEPTH; i++) {
		w->m[i].state = M_POOL;
		w->m[i].lane = M_LANES;
	}
	for (i = 0; i < M_REFS; i++)
		w->ref[i].tag = i;
	spin_lock(&w->q.lock);
	if (m_below(w, 8)) {	/* else the first comes in the middle */
		w->live = !rlx_slots_attach(&w->q, 1);
		w->gen = 1;
	}
	for (i = 0; i < steps && !w->bad[0] && (!w->from_data || w->left); i++)
		m_step(w);
	spin_unlock(&w->q.lock);
	return w->bad;
}

#endif
