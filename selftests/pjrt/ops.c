// SPDX-License-Identifier: MIT
/*
 * Every op's samples on the device of a PJRT plugin, $RLX_PJRT_PLUGIN, against the evaluation in
 * double; and what came of which ops. RLX_TEST_OPS names those to be checked alone.
 */
#include <stdlib.h>

#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

static void check(enum rlx_dtype dt, bool fixed)
{
	/* the plugin has threads: it is opened by each of the processes that work */
	if (!getenv("RLX_PJRT_PLUGIN"))
		rlx_test_skip("no RLX_PJRT_PLUGIN");
	op_case_all("pjrt", dt, fixed);
}

TEST(f32) { check(RLX_F32, false); }
TEST(f32_with_constants) { check(RLX_F32, true); }
TEST(f64) { check(RLX_F64, false); }
TEST(f16) { check(RLX_F16, false); }
TEST(bf16) { check(RLX_BF16, false); }

TEST_MAIN()
