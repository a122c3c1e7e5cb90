// SPDX-License-Identifier: MIT
/* Training steps on a GPU: the CPU's states after some steps, and nothing of them moved. */
#include "backends/gpu/gpu.h"
#include "rt/session.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/train_rig.h"

enum { ROWS = 6, STEPS = 4 };

static void build(struct train_rig *r, int kind)
{
	struct rlx_optimizer o = { .size = sizeof(o), .kind = kind, .momentum = 0.9,
				   .decay = 0.01 };
	struct rlx_train_opts opts = { .size = sizeof(opts), .clip_norm = 1, .ema = 0.9,
				       .scaling = RLX_SCALE_LOSS_DYNAMIC, .scale0 = 256 };
	rlx_value x, loss;

	train_begin(r);
	x = rlx_input(r->g, "x", rlx_type(RLX_F32, ROWS, 8));
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "w",
		     rlx_type(RLX_F32, 8, 12), RLX_KAIMING(8), RLX_VAR_MATRIX));
	x = rlx_batch_norm(r->g, r->v, x, true, NULL);
	x = rlx_emit(r->g, gelu, .x = x);
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "u",
		     rlx_type(RLX_F32, 12, 3), RLX_KAIMING(12), 0));
	loss = rlx_loss_ce(r->g, x, rlx_input(r->g, "labels", rlx_type(RLX_I32, ROWS)), NULL);
	loss = rlx_emit(r->g, mul, .a = loss, .b = rlx_input(r->g, "factor", rlx_scalar(RLX_F32)));
	rlx_train_step(r->g, r->v, loss, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), &opts, &o);
}

static void feed(struct train_rig *r, uint64_t seed, float factor)
{
	float *x = train_at(r, RLX_IO_INPUT, "x");
	int32_t *l = train_at(r, RLX_IO_INPUT, "labels");
	int i;

	for (i = 0; i < ROWS * 8; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < ROWS; i++)
		l[i] = (int32_t)(rlx_test_rand(&seed) % 3);
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 0.01f;
	*(float *)train_at(r, RLX_IO_INPUT, "factor") = factor;
}

static double at(const struct rlx_type *t, const void *p, int64_t i)
{
	return t->dtype == RLX_F32 ? (double)((const float *)p)[i] :
	       t->dtype == RLX_I64 ? (double)((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}

static void compare(struct train_rig *g, struct train_rig *c, int kind)
{
	unsigned int k;
	int64_t i;

	for (k = 0; k < rlx_program_io_count(g->p, RLX_IO_STATE); k++) {
		const char *name = rlx_program_io_name(g->p, RLX_IO_STATE, k);
		const struct rlx_type *t = rlx_program_io_type(g->p, RLX_IO_STATE, k);
		struct rlx_buf a = rlx_session_bound(g->s, RLX_IO_STATE, name);
		struct rlx_buf b = rlx_session_bound(c->s, RLX_IO_STATE, name);

		CHECKF(rlx_buf_ptr(a) && rlx_buf_ptr(b), "%s", name);
		for (i = 0; i < rlx_type_count(t); i++)
			CHECKF(fabs(at(t, rlx_buf_ptr(a), i) - at(t, rlx_buf_ptr(b), i)) < 2e-4,
			       "kind %d: %s[%lld] is %g, the CPU's %g", kind, name, (long long)i,
			       at(t, rlx_buf_ptr(a), i), at(t, rlx_buf_ptr(b), i));
	}
}

static void one_optimizer(int kind)
{
	struct rlx_transfers was, now;
	struct train_rig g, c;
	int k;

	build(&g, kind);
	build(&c, kind);
	train_open(&g, op_case_gpu(), 0, NULL, 5);
	train_open(&c, "cpu", 1, NULL, 5);
	for (k = 0; k < STEPS; k++) {
		feed(&g, (uint64_t)k + 1, k == 2 ? INFINITY : 1);
		feed(&c, (uint64_t)k + 1, k == 2 ? INFINITY : 1);
		was = rlx_session_transfers(g.s);
		train_run(&g);
		train_run(&c);
		now = rlx_session_transfers(g.s);
		CHECKF(k != 1 || now.in_bytes - was.in_bytes < 1024, "%llu bytes went in",
		       (unsigned long long)(now.in_bytes - was.in_bytes));
		CHECK_EQ(*(int32_t *)train_at(&g, RLX_IO_OUTPUT, "ok"), k != 2);
		CHECKF(k == 2 || fabs(train_loss(&g) - train_loss(&c)) < 1e-4, "loss %g and %g",
		       train_loss(&g), train_loss(&c));
	}
	compare(&g, &c, kind);
	train_end(&g);
	train_end(&c);
}

TEST(sgd)
{
	one_optimizer(RLX_SGD);
}

TEST(adamw)
{
	one_optimizer(RLX_ADAMW);
}

TEST(lion)
{
	one_optimizer(RLX_LION);
}

TEST(muon)
{
	one_optimizer(RLX_MUON);
}

TEST(adafactor)
{
	one_optimizer(RLX_ADAFACTOR);
}

enum { MANY = 60, LARGE = 2 };

/* Variables of many shapes, some of them large, every other one without decay. */
static void build_many(struct train_rig *r)
{
	struct rlx_optimizer o = { .size = sizeof(o), .kind = RLX_ADAMW, .decay = 0.01 };
	struct rlx_train_opts opts = { .size = sizeof(opts), .clip_norm = 1, .ema = 0.9 };
	rlx_value loss = RLX_NONE, x;
	int k;

	train_begin(r);
	for (k = 0; k < MANY; k++) {
		struct rlx_type t = k < LARGE ? rlx_type(RLX_F32, 257, 513) :
				    k % 3 ? rlx_type(RLX_F32, 3 + k % 5, 7) :
					    rlx_type(RLX_F32, 11 + k);

		x = rlx_var(r->g, r->v, rlx_name("v%d", k), t, RLX_NORMAL(1),
			    k % 2 ? RLX_VAR_NO_DECAY : 0);
		x = rlx_emit(r->g, sub, .a = x, .b = rlx_scalar_const(r->g, RLX_F32, 0.5));
		x = rlx_emit(r->g, mul, .a = x, .b = x);
		x = rlx_emit(r->g, reduce, .x = x, .kind = RLX_REDUCE_MEAN);
		loss = k ? rlx_emit(r->g, add, .a = loss, .b = x) : x;
	}
	rlx_train_step(r->g, r->v, loss, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), &opts, &o);
}

/* Steps that make next values of states: of one, or of several at once. */
static void count_updates(const struct rlx_plan *p, unsigned int *one, unsigned int *several)
{
	uint32_t s;

	*one = *several = 0;
	for (s = 0; s < p->n_step; s++) {
		const struct rlx_place *at = &p->val[p->val[p->step[s].out[0]].root].place;

		if (at->kind != RLX_PLACE_OUTPUT || !p->io[RLX_IO_OUTPUT][at->index].state)
			continue;
		*one += p->step[s].n_out == 1;
		*several += p->step[s].n_out > 1;
	}
}

/* Launches of such steps. */
static unsigned int update_launches(const struct gpu_code *c)
{
	const struct rlx_plan *p = c->base.plan;
	unsigned int n = 0, i;

	for (i = 0; i < c->calls.n_call; i++) {
		const struct gpu_call *call = &gpu_calls((struct gpu_code *)(uintptr_t)c)[i];
		const struct rlx_place *at;

		if (call->kind != GPU_KERNEL_CALL || call->base.step == GPU_NO_STEP)
			continue;
		at = &p->val[p->val[p->step[call->base.step].out[0]].root].place;
		n += at->kind == RLX_PLACE_OUTPUT && p->io[RLX_IO_OUTPUT][at->index].state;
	}
	return n;
}

/* All that a variable has is updated in one pass, and many variables by one launch. */
TEST(many_variables)
{
	unsigned int one, several;
	struct train_rig g, c;
	int k;

	build_many(&g);
	build_many(&c);
	train_open(&g, op_case_gpu(), 0, NULL, 5);
	train_open(&c, "cpu", 1, NULL, 5);
	count_updates(c.s->p->code->plan, &one, &several);
	CHECKF(several == MANY && one <= 2, "%u updates of several states, %u of one", several,
	       one);
	count_updates(g.s->p->code->plan, &one, &several);
	CHECKF(several == MANY, "%u updates of several states", several);
	k = (int)update_launches((const struct gpu_code *)g.s->p->code);
	CHECKF(k <= 8, "%d launches update %d variables", k, MANY);
	for (k = 0; k < STEPS; k++) {
		*(float *)train_at(&g, RLX_IO_INPUT, "lr") = 0.01f;
		*(float *)train_at(&c, RLX_IO_INPUT, "lr") = 0.01f;
		train_run(&g);
		train_run(&c);
		CHECKF(fabs(train_loss(&g) - train_loss(&c)) < 1e-4 * (1 + train_loss(&c)),
		       "loss %g and %g", train_loss(&g), train_loss(&c));
	}
	compare(&g, &c, RLX_ADAMW);
	train_end(&g);
	train_end(&c);
}

TEST_MAIN()
