// SPDX-License-Identifier: MIT
/* Every op on a GPU, or on the emulated one; dtypes.c has the other floats. */
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

TEST(f32) { op_case_all(op_case_gpu(), RLX_F32, false); }
TEST(f32_with_constants) { op_case_all(op_case_gpu(), RLX_F32, true); }

TEST_MAIN()
