// SPDX-License-Identifier: MIT
/*
 * One named test for each wrong result that was found here, by fuzzing or by use: the
 * same bodies run in the reference evaluator and on every device.
 */
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

/* A start in front of the axis is its first element, backwards too. */
EVERYWHERE(slice_backwards_from_in_front)
{
	static const int64_t start[] = { -4, -9, INT64_MIN, -3, 2, 9, INT64_MAX };
	static const int64_t first[] = { 0, 0, 0, 0, 2, 2, 2 };
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 3, 4), -1, 1), y;
	unsigned int k;
	int64_t i;

	for (k = 0; k < 7; k++) {
		y = rlx_emit(r->g, slice, .x = x, .axes = RLX_INTS(0),
			     .starts = RLX_INTS(start[k]), .ends = RLX_INTS(INT64_MIN),
			     .steps = RLX_INTS(-1));
		CHECK_EQ(rlx_type_of(r->g, y)->dim[0], first[k] + 1);
		rig_output(r, y);
	}
	rig_run(r);
	for (k = 0; k < 7; k++)
		for (i = 0; i < 4 * (first[k] + 1); i++)
			rig_want(r, k, i, rig_in(r, 0, (first[k] - i / 4) * 4 + i % 4), 0);
}

TEST_MAIN()
