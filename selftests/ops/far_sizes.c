// SPDX-License-Identifier: MIT
/*
 * Sizes far beyond what memory holds that are legal beside a dimension of 0 or 1, or that no memory
 * stands for: pads, strides. Loops over one end by the time limit of the test where they are wrong.
 */
#include "rlx/run.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

/* Scratch of as many scores as there are keys, which wraps to a few bytes, is no memory. */
EVERYWHERE(attention_to_keys_without_number)
{
	const int64_t keys = (int64_t)1 << 61;
	rlx_value q = rig_input(r, rlx_type(RLX_F32, 1, 1, 1, 0), NULL), v, y;

	v = rig_input(r, rlx_type(RLX_F32, 1, 1, keys, 0), NULL);
	y = rlx_emit(r->g, attention, .q = q, .k = v, .v = v, .heads = 1, .layout = RLX_BHSD,
		     .lse = true);
	rig_output(r, rlx_out(r->g, y, 1));
	CHECKF(rig_try(r) == RLX_ENOMEM, "%s", r->err.text);
}

TEST_MAIN()
