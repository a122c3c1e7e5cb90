// SPDX-License-Identifier: MIT
/* Every op on the backends that need no device; selftests/gpu/ops.c has the others. */
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

TEST(cpu_f32) { op_case_all("cpu", RLX_F32, false); }
TEST(cpu_f32_with_constants) { op_case_all("cpu", RLX_F32, true); }
TEST(cpu_bf16_with_constants) { op_case_all("cpu", RLX_BF16, true); }
TEST(cpu_bf16) { op_case_all("cpu", RLX_BF16, false); }
TEST(cpu_f16) { op_case_all("cpu", RLX_F16, false); }
TEST(cpu_f64) { op_case_all("cpu", RLX_F64, false); }
TEST(ref_f32) { op_case_all("ref", RLX_F32, false); }

TEST_MAIN()
