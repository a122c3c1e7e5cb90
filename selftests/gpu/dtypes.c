// SPDX-License-Identifier: MIT
/* Every op on a GPU in the floats that ops.c leaves out. */
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

TEST(bf16) { op_case_all(op_case_gpu(), RLX_BF16, false); }
TEST(bf16_with_constants) { op_case_all(op_case_gpu(), RLX_BF16, true); }
TEST(f16) { op_case_all(op_case_gpu(), RLX_F16, false); }
TEST(f64) { op_case_all(op_case_gpu(), RLX_F64, false); }

TEST_MAIN()
