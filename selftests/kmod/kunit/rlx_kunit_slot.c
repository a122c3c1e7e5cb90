// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit suite of the slot machine: the walks that also run in user space, here as
 * the kernel compiles them, under its list debugging, KASAN and lockdep.
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/random.h>

#include "../../../kmod/slot.c"
#include "../../../kmod/slot_check.c"
#include "slot_model.h"
#include "slot_pairs.h"

#define RUNS	150	/* of 400 steps; two seconds without KVM */

static void rlx_slot_kunit_pairs(struct kunit *test)
{
	struct pair_rig *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	int state, ev, variant;
	const char *bad;

	KUNIT_ASSERT_NOT_NULL(test, r);
	for (state = 0; state < RLX_SLOT_STATES; state++) {
		for (ev = 0; ev < RLX_SLOT_EVENTS; ev++) {
			for (variant = 0; variant < PAIR_VARIANTS; variant++) {
				bad = pair_check(r, state, ev, variant);
				spin_unlock(&r->q.lock);
				if (bad)
					KUNIT_FAIL(test, "state %c, event %d, variant %d: %s",
						   pair_letter[state], ev, variant, bad);
			}
		}
	}
}

static void rlx_slot_kunit_random(struct kunit *test)
{
	struct model *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	u64 moves = 0, seed;
	const char *bad;
	int run;

	KUNIT_ASSERT_NOT_NULL(test, w);
	for (run = 0; run < RUNS; run++) {
		memset(w, 0, sizeof(*w));
		get_random_bytes(&seed, sizeof(seed));
		w->state = seed |= 1;
		bad = m_run(w, 400);
		if (*bad) {
			KUNIT_FAIL(test, "seed %llx: %s", seed, bad);
			break;
		}
		moves += w->moves;
		cond_resched();
	}
	KUNIT_EXPECT_GT(test, moves, (u64)RUNS * 20);
}

static struct kunit_case rlx_slot_kunit_cases[] = {
	KUNIT_CASE(rlx_slot_kunit_pairs),
	KUNIT_CASE(rlx_slot_kunit_random),
	{}
};

static struct kunit_suite rlx_slot_kunit_suite = {
	.name = "rlx_slot",
	.test_cases = rlx_slot_kunit_cases,
};
kunit_test_suite(rlx_slot_kunit_suite);

MODULE_DESCRIPTION("KUnit suite of the slots of rlx");
MODULE_LICENSE("GPL");
