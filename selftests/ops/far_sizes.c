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

/* m^2 doubles wrap: what "ref" would set aside for them was less than x and q. */
TEST(qr_of_a_long_column)
{
	static const int64_t rows[] = { 1518500249, INT32_MAX, (int64_t)1 << 32 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "ref" };
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *g;
	unsigned int i;
	rlx_value v;

	for (i = 0; i < 3; i++) {
		g = rlx_graph_new("qr");
		v = rlx_emit(g, qr, .x = rlx_input(g, "x", rlx_type(RLX_F32, rows[i], 1)));
		rlx_output(g, "r", rlx_out(g, v, 1));
		CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
		CHECKF(rlx_compile(g, &o, &p, &err) == RLX_ENOMEM, "%lld rows: %s",
		       (long long)rows[i], err.text);
		rlx_program_put(p);
		rlx_graph_put(g);
	}
}

/* Strides that nothing is a stride away at: pixels are few, what lies between them is not. */
EVERYWHERE(conv_transpose_by_far_strides)
{
	const int64_t s = 1 << 29;
	const float x = 3, w = 5;
	rlx_value a = rig_input(r, rlx_type(RLX_F32, 1, 1, 1, 1), &x);
	rlx_value b = rig_input(r, rlx_type(RLX_F32, 1, 1, 1, 1), &w);

	rig_output(r, rlx_emit(r->g, conv_transpose, .x = a, .w = b, .stride = RLX_INTS(s, s)));
	rig_output(r, rlx_emit(r->g, conv_transpose, .x = a, .w = b, .stride = RLX_INTS(3, 5)));
	rig_run(r);
	rig_want(r, 0, 0, 15, 0);
	rig_want(r, 1, 0, 15, 0);
}

TEST_MAIN()
