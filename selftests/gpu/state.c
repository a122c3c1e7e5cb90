// SPDX-License-Identifier: MIT
/* States on a GPU: see selftests/lib/state_cases.h. They stay there from run to run. */
#include "backends/gpu/gpu.h"
#include "rt/session.h"
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

TEST(wanted_alone)
{
	state_case_wanted_alone(op_case_gpu());
}

TEST(wanted_next)
{
	state_case_wanted_next(op_case_gpu());
}

TEST(passed_on)
{
	state_case_passed_on(op_case_gpu());
}

TEST(r005_clone)
{
	state_case_clone(op_case_gpu());
}

/* With output @want alone state "s" of type @t stays, which it is replaced with by all runs. */
static void stays(struct state_rig *r, struct rlx_type t, const char *want)
{
	static float zero[8 * 64], some[8 * 64], got[8 * 64];
	unsigned int i;

	for (i = 0; i < 8 * 64; i++)
		some[i] = (float)(i % 7) - 3;
	state_open(r, op_case_gpu(), NULL);
	for (i = 0; i < rlx_program_io_count(r->p, RLX_IO_INPUT); i++)
		CHECK(!rlx_session_set_at(r->s, RLX_IO_INPUT, i,
					  *rlx_program_io_type(r->p, RLX_IO_INPUT, i), some));
	CHECK(!rlx_session_set(r->s, RLX_IO_STATE, "s", t, zero));
	CHECK(!rlx_session_want(r->s, &want, 1));
	state_run(r);
	CHECK(!rlx_session_get(r->s, RLX_IO_STATE, "s", t, got));
	CHECKF(!memcmp(got, zero, (size_t)rlx_type_bytes(&t)), "it is replaced with %s", want);
	CHECK(!rlx_session_want(r->s, NULL, 0));
	state_run(r);
	CHECK(!rlx_session_get(r->s, RLX_IO_STATE, "s", t, got));
	CHECKF(memcmp(got, zero, (size_t)rlx_type_bytes(&t)), "it stays beside %s", want);
	state_end(r);
}

/* What is added to a norm's gradient, and a norm's rows cast, is not made with the sums. */
TEST(rows_beside_sums)
{
	struct rlx_type t = rlx_type(RLX_F32, 8, 64), half = rlx_type(RLX_F16, 8, 64);
	struct rlx_type row = rlx_type(RLX_F32, 64), stat = rlx_type(RLX_F32, 8, 1);
	struct state_rig r;
	rlx_value s, d;

	state_begin(&r);
	d = rlx_emit(r.g, layer_norm_grad, .x = rlx_input(r.g, "x", t),
		     .dy = rlx_input(r.g, "dy", t), .gamma = rlx_input(r.g, "gamma", row),
		     .mean = rlx_input(r.g, "mean", stat), .inv = rlx_input(r.g, "inv", stat),
		     .axis = 1);
	rlx_output(r.g, "dgamma", rlx_out(r.g, d, 1));
	s = rlx_state(r.g, "s", t);
	rlx_state_next(r.g, s, rlx_emit(r.g, add, .a = s, .b = d));
	stays(&r, t, "dgamma");
	state_begin(&r);
	d = rlx_emit(r.g, layer_norm, .x = rlx_input(r.g, "x", t), .axis = 1, .eps = 1e-5f,
		     .stats = true);
	rlx_output(r.g, "mean", rlx_out(r.g, d, 1));
	rlx_state_next(r.g, rlx_state(r.g, "s", half),
		       rlx_emit(r.g, cast, .x = d, .to = RLX_F16));
	stays(&r, half, "mean");
}

/* Products of one operand, which may be one launch, the norm that makes that and a product. */
TEST(products_beside_others)
{
	static const enum rlx_dtype types[] = { RLX_F32, RLX_F16 };
	static unsigned char weights[64 * 64 * 4];
	unsigned int i;

	for (i = 0; i < sizeof(weights); i++)
		weights[i] = i % 2 ? 0x3c : 0;
	for (i = 0; i < 4; i++) {
		struct rlx_type t = rlx_type(types[i % 2], 8, 64), row = rlx_type(RLX_F32, 64);
		struct rlx_type w = rlx_type(types[i % 2], 64, 64);
		struct state_rig r;
		rlx_value x, y;

		state_begin(&r);
		x = rlx_input(r.g, "x", t);
		x = rlx_emit(r.g, add, .a = x, .b = rlx_emit(r.g, mul, .a = x, .b = x));
		if (i / 2)
			y = x = rlx_emit(r.g, layer_norm, .x = x, .axis = 1, .eps = 1e-5f,
					 .gamma = rlx_constant(r.g, row, weights),
					 .beta = rlx_constant(r.g, row, weights));
		else
			y = rlx_emit(r.g, matmul, .a = x, .b = rlx_constant(r.g, w, weights));
		rlx_output(r.g, "y", i / 2 ? rlx_emit(r.g, softmax, .x = y, .axis = 1) : y);
		weights[0]++;		/* or they would be one */
		rlx_state_next(r.g, rlx_state(r.g, "s", t),
			       rlx_emit(r.g, matmul, .a = x,
					.b = rlx_constant(r.g, w, weights)));
		stays(&r, t, "y");
	}
}

/* Updates that are one launch, but on Vulkan, which has no such launches. */
TEST(subsets)
{
	const struct gpu_code *c;
	struct state_rig r;
	uint32_t i, joined = 0;

	state_wanted_open(&r, op_case_gpu());
	c = (const struct gpu_code *)r.p->code;
	for (i = 0; strcmp(c->base.dev->be->name, "vulkan") && i < c->calls.n_call; i++)
		joined += gpu_calls(c)[i].n_joined;
	CHECK_EQ(joined, strcmp(c->base.dev->be->name, "vulkan") ? STATE_WANTED : 0);
	state_end(&r);
	state_case_subsets(op_case_gpu());
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
