// SPDX-License-Identifier: MIT
/*
 * Every op's samples on a Vulkan device, against the evaluation in double; once with memory
 * that ends where a tensor does, so that a kernel that reads or writes beyond ends the
 * process. RLX_TEST_OP names one op to be checked alone.
 */
#include <stdlib.h>
#include <string.h>

#include "selftests/lib/op_case.h"
#include "selftests/vulkan/line.h"

static bool wants(const struct rlx_op_def *def)
{
	const char *only = getenv("RLX_TEST_OP");

	return !only || !strcmp(def->name, only);
}

static void check(enum rlx_dtype dt, bool fixed)
{
	op_case_some("vulkan", dt, fixed, wants);
}

TEST(f32) { check(RLX_F32, false); }
TEST(f32_with_constants) { check(RLX_F32, true); }
TEST(f16) { check(RLX_F16, false); }
TEST(bf16) { check(RLX_BF16, false); }

TEST(guarded_ends)
{
	guards_need_a_processor();
	vk_guard = VK_GUARD_END;
	check(RLX_F32, false);
}

TEST(guarded_starts)
{
	guards_need_a_processor();
	vk_guard = VK_GUARD_START;
	check(RLX_F32, true);
}

TEST_MAIN()
