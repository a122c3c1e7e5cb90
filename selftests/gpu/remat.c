// SPDX-License-Identifier: MIT
/* Backward passes that compute some of the forward one twice on a GPU: less memory, same bits. */
#include "backends/gpu/gpu.h"
#include "rt/rt.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/remat_case.h"

static void compare(struct remat_case c)
{
	struct train_rig plain, r;
	struct remat_case less = c;
	uint64_t work, now;

	c.memory = 0;
	c.marks = REMAT_NONE;
	remat_open(&plain, &c);
	remat_open(&r, &less);
	work = plain.p->code->plan->work_bytes;	/* of the device's memory */
	now = r.p->code->plan->work_bytes;
	printf("# workspace %llu, then %llu\n", (unsigned long long)work, (unsigned long long)now);
	CHECK(now < work - work / 8);
	remat_compare(&plain, &r, &c.size, 2);
	train_end(&plain);
	train_end(&r);
}

TEST(less_memory_and_the_same_bits)
{
	struct remat_case c = { .size = { 4, 32, 2, 32, 2 }, .device = op_case_gpu() };

	c.memory = 250000;
	compare(c);
	c.precision = RLX_PRECISION_BF16;
	c.dropout = true;
	compare(c);
	c.memory = 0;
	c.marks = REMAT_NESTED;
	c.precision = RLX_PRECISION_MIXED_BF16;
	compare(c);
}

TEST_MAIN()
