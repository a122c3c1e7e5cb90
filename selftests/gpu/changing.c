// SPDX-License-Identifier: MIT
/* Small buffers are used by kernels where they lie, which others may write meanwhile. */
#include "selftests/lib/changing.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

TEST(indices_of_experts)
{
	changing_indices(op_case_gpu(), false, 300);
}

TEST(chosen_experts_that_are_an_output)
{
	changing_indices(op_case_gpu(), true, 300);
}

TEST_MAIN()
