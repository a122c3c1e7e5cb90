// SPDX-License-Identifier: MIT
/* States on a GPU: see selftests/lib/state_cases.h. They stay there from run to run. */
#include "selftests/lib/op_case.h"
#include "selftests/lib/state_cases.h"

TEST(update)
{
	state_case_update(op_case_gpu());
}

TEST(cycle)
{
	state_case_cycle(op_case_gpu());
}

TEST(read_after)
{
	state_case_read_after(op_case_gpu());
}

TEST(order)
{
	state_case_order(op_case_gpu());
}

TEST(product)
{
	state_case_product(op_case_gpu());
}

/* Nothing of a state crosses the bus but at first and when it is asked for. */
TEST(resident)
{
	struct rlx_transfers before, after;
	struct state_rig r;
	rlx_value w;
	int i;

	state_begin(&r);
	w = rlx_state(r.g, "w", r.t);
	rlx_state_next(r.g, w, rlx_emit(r.g, add, .a = w, .b = rlx_scalar_const(r.g, RLX_F32, 1)));
	state_open(&r, op_case_gpu(), NULL);
	state_set(&r, RLX_IO_STATE, "w", 1);
	state_run(&r);
	before = rlx_session_transfers(r.s);
	for (i = 0; i < 3; i++)
		state_run(&r);
	after = rlx_session_transfers(r.s);
	CHECK_EQ(after.in_bytes, before.in_bytes);
	CHECK_EQ(after.out_bytes, before.out_bytes);
	state_is(&r, RLX_IO_STATE, "w", 5, 1);
	state_end(&r);
}

/* Two sessions cannot have one set of states in the device's memory. */
TEST(one_session)
{
	struct rlx_session_opts so = { .size = sizeof(so) };
	struct rlx_session *s = NULL;
	struct state_rig r;
	rlx_value w;
	float *p;
	int i;

	state_begin(&r);
	w = rlx_state(r.g, "w", r.t);
	rlx_state_next(r.g, w, rlx_emit(r.g, add, .a = w, .b = rlx_scalar_const(r.g, RLX_F32, 1)));
	state_open(&r, op_case_gpu(), NULL);
	rlx_session_free(r.s);
	CHECKF(!rlx_states_new(r.p, NULL, &so.states, &r.err), "%s", r.err.text);
	CHECKF(!rlx_session_new(r.p, &so, &r.s, &r.err), "%s", r.err.text);
	CHECK_EQ(rlx_session_new(r.p, &so, &s, &r.err), RLX_ENOSUP);
	p = rlx_buf_ptr(rlx_states_buf(so.states, 0));
	for (i = 0; i < STATE_N; i++)
		p[i] = 1 + (float)i;
	state_run(&r);
	state_is(&r, RLX_IO_STATE, "w", 2, 1);
	rlx_session_free(r.s);
	/* and in turns */
	CHECKF(!rlx_session_new(r.p, &so, &r.s, &r.err), "%s", r.err.text);
	rlx_states_put(so.states);
	state_run(&r);
	state_end(&r);
}

TEST_MAIN()
