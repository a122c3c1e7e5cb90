// SPDX-License-Identifier: MIT
/*
 * The slot machine of the kernel module, compiled here: every (state, event) pair,
 * random programs against a model, and what the model is too small to show.
 */
#include "kmod/slot.c"
#include "kmod/slot_check.c"
#include "selftests/lib/rlx_test.h"
#include "selftests/kmod/kunit/slot_model.h"
#include "selftests/kmod/kunit/slot_pairs.h"

unsigned int rlx_shim_warned;

TEST(pairs)
{
	static struct pair_rig r;
	int state, ev, variant;
	const char *bad;

	for (state = 0; state < RLX_SLOT_STATES; state++) {
		for (ev = 0; ev < RLX_SLOT_EVENTS; ev++) {
			for (variant = 0; variant < PAIR_VARIANTS; variant++) {
				bad = pair_check(&r, state, ev, variant);
				spin_unlock(&r.q.lock);
				CHECKF(!bad, "state %c, event %d, variant %d: %s",
				       pair_letter[state], ev, variant, bad);
			}
		}
	}
	CHECK_EQ(rlx_shim_warned, 0);
}

TEST(random_programs)
{
	static struct model w;
	uint64_t seed = rlx_test_seed(), moves = 0;
	const char *bad;
	int run;

	for (run = 0; run < 4000; run++) {
		memset(&w, 0, sizeof(w));
		w.state = rlx_test_rand(&seed) | 1;
		bad = m_run(&w, 400);
		CHECKF(!*bad, "run %d: %s", run, bad);
		moves += w.moves;
	}
	CHECKF(moves > 100000, "only %llu moves", (unsigned long long)moves);
	CHECK_EQ(rlx_shim_warned, 0);
}

/* ---- a queue of full size ---- */

#define DEPTH	RLX_SLOTS_DEPTH_MAX

static struct rlx_slots q;
static struct rlx_slot slot[DEPTH];
static u32 heap[DEPTH];
static struct rlx_slot_out out[DEPTH];

static void begin(u32 depth, bool requeue)
{
	memset(slot, 0, sizeof(slot));
	CHECK_EQ(rlx_slots_init(&q, slot, heap, depth, requeue), 0);
	spin_lock(&q.lock);
	CHECK_EQ(rlx_slots_attach(&q, 1), 0);
}

static void end(void)
{
	const char *bad = rlx_slots_check(&q);

	CHECKF(!bad, "%s", bad);
	spin_unlock(&q.lock);
	CHECK_EQ(rlx_shim_warned, 0);
}

static struct rlx_slot *submit(struct rlx_lane *lane, u64 user_data, u64 deadline)
{
	struct rlx_slot *s;

	CHECK_EQ(rlx_lane_take(lane, &s, 1), 1);
	s->user_data = user_data;
	s->deadline = deadline;
	s->lease.words = 0;
	CHECK_EQ(rlx_slots_submit(lane, &s, 1, out), 0);
	return s;
}

TEST(limits)
{
	struct rlx_lane lane;

	CHECK_EQ(rlx_slots_init(&q, slot, heap, 0, false), -EINVAL);
	CHECK_EQ(rlx_slots_init(&q, slot, heap, DEPTH + 1, false), -EINVAL);
	begin(DEPTH, false);
	CHECK_EQ(rlx_lane_open(&q, &lane, DEPTH + 1, 1), -ENOSPC);
	CHECK_EQ(rlx_lane_open(&q, &lane, U32_MAX, 1), -ENOSPC);
	CHECK_EQ(rlx_lane_open(&q, &lane, DEPTH, 1), 0);
	CHECK_EQ(rlx_lane_leases(&lane, RLX_LANE_ARENAS), 0);
	CHECK_EQ(rlx_lane_leases(&lane, U32_MAX), 0);
	end();
}

/* A client that floods its lane delays another by one turn at most. */
TEST(fair_turns)
{
	static struct rlx_lane hog, poor;
	struct rlx_slot_ref ref[16];
	u32 quantum, i, at;
	int n;

	for (quantum = 1; quantum <= 3; quantum++) {
		begin(1024, false);
		CHECK_EQ(rlx_lane_open(&q, &hog, 1000, quantum), 0);
		CHECK_EQ(rlx_lane_open(&q, &poor, 24, 1), 0);
		for (i = 0; i < 1000; i++)
			submit(&hog, i, 0);
		for (i = 0; i < 24; i++) {
			struct rlx_slot *s = submit(&poor, i, 0);

			n = rlx_slots_fetch(&q, 1, ref, quantum + 1);
			CHECK_EQ(n, quantum + 1);
			for (at = 0; ref[at].tag != rlx_slot_tag(&q, s); at++)
				CHECK(at < quantum);
		}
		end();
	}
}

/* Deadlines come in order, whatever the order they were set and removed in. */
TEST(deadlines)
{
	static struct rlx_lane lane;
	uint64_t seed = rlx_test_seed();
	u64 last = 0, next;
	u32 i, gone = 0, n;

	begin(DEPTH, false);
	CHECK_EQ(rlx_lane_open(&q, &lane, DEPTH, 1), 0);
	CHECK(rlx_slots_next_deadline(&q) == U64_MAX);
	for (i = 0; i < DEPTH; i++)
		submit(&lane, i, i % 7 ? 1 + rlx_test_rand(&seed) % 5000 : 0);
	for (i = 0; i < DEPTH; i += 3) {
		gone += slot[i].deadline != 0;
		CHECK_EQ(rlx_slot_cancel(&lane, i, slot[i].seq, out), 0);
	}
	while ((next = rlx_slots_next_deadline(&q)) != U64_MAX) {
		CHECK_EQ(rlx_slots_expire(&q, next - 1, out, 8), 0);
		n = rlx_slots_expire(&q, next, out, 8);
		CHECK(n >= 1 && n <= 8 && next >= last);
		while (n--) {
			CHECK_EQ(slot[out[n].tag].deadline, next);
			CHECK_EQ(out[n].result, -ETIME);
			gone++;
		}
		last = next;
	}
	CHECK_EQ(gone, DEPTH - (DEPTH + 6) / 7);
	end();
}

/* RECOVER_REQUEUE: the next generation gets them in the order of submission. */
TEST(requeue_order)
{
	static struct rlx_lane lane[2];
	struct rlx_slot_ref ref[64];
	struct rlx_slot_commit c;
	u64 seen[2] = { 0, 0 };
	u32 i, n, left = 0;
	int got;

	begin(256, true);
	for (i = 0; i < 2; i++)
		CHECK_EQ(rlx_lane_open(&q, &lane[i], 128, 2), 0);
	for (i = 0; i < 200; i++)
		submit(&lane[i % 2], 1 + i / 2, 0);
	for (i = 0; i < 3; i++)
		CHECK_EQ(rlx_slots_fetch(&q, 1, ref, 40), 40);
	/* Some of the last batch were finished in time. */
	for (i = 0; i < 40; i += 5) {
		c = (struct rlx_slot_commit){ .tag = ref[i].tag, .seq = ref[i].seq };
		CHECK_EQ(rlx_slots_commit(&q, 1, &c, 1, out), 1);
		left++;
	}
	rlx_slots_detach(&q, false);
	CHECK_EQ(rlx_slots_attach(&q, 2), -EBUSY);
	c = (struct rlx_slot_commit){ .tag = ref[1].tag, .seq = ref[1].seq };
	CHECK_EQ(rlx_slots_commit(&q, 1, &c, 1, out), -EPIPE);
	while (rlx_slots_bury(&q, out, 7, &n))
		CHECK_EQ(n, 7);
	CHECK_EQ(rlx_slots_ready(&q), 200 - left);
	submit(&lane[0], 101, 0);	/* requests still enter */
	CHECK_EQ(rlx_slots_attach(&q, 2), 0);
	CHECK_EQ(rlx_slots_commit(&q, 1, &c, 1, out), -EPIPE);
	for (i = 0; (got = rlx_slots_fetch(&q, 2, ref, 64)) > 0; i += (u32)got) {
		for (n = 0; n < (u32)got; n++) {
			const struct rlx_slot *s = &slot[ref[n].tag];
			u64 *last = &seen[s->lane - lane];

			CHECK(s->user_data > *last);
			*last = s->user_data;
		}
	}
	CHECK_EQ(i, 201 - left);
	/* The stale copy of generation 1 is refused even where 2 holds the same. */
	CHECK_EQ(rlx_slots_commit(&q, 2, &c, 1, out), 1);
	CHECK_EQ(rlx_slots_commit(&q, 2, &c, 1, out), 0);
	CHECK_EQ(out[0].err, -ESTALE);
	end();
}

/* However small the steps in which a lane closes, it ends, and is told once. */
TEST(close_in_steps)
{
	static struct rlx_lane lane;
	struct rlx_slot_ref ref[64];
	struct rlx_slot_commit c;
	enum rlx_lane_end way;
	u32 i, n, calls = 0, told = 0;

	begin(64, false);
	CHECK_EQ(rlx_lane_open(&q, &lane, 64, 1), 0);
	for (i = 0; i < 48; i++)
		submit(&lane, i, 0);
	CHECK_EQ(rlx_slots_fetch(&q, 1, ref, 32), 32);
	while ((way = rlx_lane_close(&lane, out, 5, &n)) == RLX_LANE_MORE) {
		CHECK(n <= 5);
		calls++;
	}
	CHECK_EQ(way, RLX_LANE_LATER);
	CHECK_EQ(calls, 64 / 5);
	for (i = 0; i < 32; i++) {
		c = (struct rlx_slot_commit){ .tag = ref[i].tag, .seq = ref[i].seq };
		CHECK_EQ(rlx_slots_commit(&q, 1, &c, 1, out), 1);
		told += !!(out[0].acts & RLX_ACT_DRAINED);
		CHECK_EQ(lane.drained, i == 31);
	}
	CHECK_EQ(told, 1);
	CHECK_EQ(rlx_lane_close(&lane, out, 5, &n), RLX_LANE_LATER);
	CHECK_EQ(q.nr_pool, 64);
	end();
}

/* Calling without the lock is noticed, as lockdep would. */
TEST(lock_is_asserted)
{
	begin(4, false);
	end();
	rlx_slots_next_deadline(&q);
	CHECK_EQ(rlx_shim_warned, 1);
}

TEST_MAIN()
