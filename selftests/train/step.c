// SPDX-License-Identifier: MIT
/*
 * What a step does beside its optimizer: loss scales and infinite gradients, sums over runs,
 * buffers, frozen variables, names shared by programs; the same bits from one thread and two,
 * no allocation in a run, and every allocation failing while it is built; where sums over ranks
 * come.
 */
#include "base/alloc.h"
#include "plan/plan.h"
#include "rt/rt.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/train_rig.h"

static const struct rlx_optimizer adamw = {
	.size = sizeof(adamw), .kind = RLX_ADAMW, .decay = 0.01,
};

/* logits = relu(bn(x w)) u, dropped out; the loss has a factor that a run may make infinite. */
static void net(struct train_rig *r, const struct rlx_train_opts *o, int64_t rows)
{
	rlx_value x, loss;

	train_begin(r);
	x = rlx_input(r->g, "x", rlx_type(RLX_F32, rows, 12));
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "w",
		     rlx_type(RLX_F32, 12, 16), RLX_KAIMING(12), RLX_VAR_MATRIX));
	rlx_vars_enter(r->v, rlx_name("bn.%d", 0));
	x = rlx_batch_norm(r->g, r->v, x, true, NULL);
	rlx_vars_leave(r->v);
	x = rlx_emit(r->g, relu, .x = x);
	x = rlx_dropout(r->g, x, 0.25, rlx_train_count(r->g, r->v), 5);
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "u",
		     rlx_type(RLX_F32, 16, 3), RLX_KAIMING(16), 0));
	x = rlx_emit(r->g, add, .a = x, .b = rlx_var(r->g, r->v, "b", rlx_type(RLX_F32, 3),
						     RLX_ONES, RLX_VAR_FROZEN));
	loss = rlx_loss_ce(r->g, x, rlx_input(r->g, "labels", rlx_type(RLX_I32, rows)), NULL);
	loss = rlx_emit(r->g, mul, .a = loss, .b = rlx_input(r->g, "factor", rlx_scalar(RLX_F32)));
	rlx_train_step(r->g, r->v, loss, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), o, &adamw);
}

static void feed(struct train_rig *r, int64_t rows, uint64_t *seed, float factor)
{
	float *x = train_at(r, RLX_IO_INPUT, "x");
	int32_t *l = train_at(r, RLX_IO_INPUT, "labels");
	int64_t i;

	for (i = 0; i < rows * 12; i++)
		x[i] = (float)rlx_test_uniform(seed, -1, 1);
	for (i = 0; i < rows; i++)
		l[i] = (int32_t)(rlx_test_rand(seed) % 3);
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 0.01f;
	*(float *)train_at(r, RLX_IO_INPUT, "factor") = factor;
}

/* All bytes of all states but @but, one behind the other. */
static size_t snapshot(struct train_rig *r, unsigned char *to, size_t room, const char *but)
{
	unsigned int i;
	size_t n = 0;

	for (i = 0; i < rlx_program_io_count(r->p, RLX_IO_STATE); i++) {
		struct rlx_buf b = rlx_session_bound_at(r->s, RLX_IO_STATE, i);

		if (but && strstr(but, rlx_program_io_name(r->p, RLX_IO_STATE, i)))
			continue;
		CHECK(n + b.bytes <= room);
		memcpy(to + n, rlx_buf_ptr(b), b.bytes);
		n += b.bytes;
	}
	return n;
}

static unsigned char before[1 << 16], after[1 << 16];

TEST(infinite_gradients)
{
	struct rlx_train_opts o = { .size = sizeof(o), .scaling = RLX_SCALE_LOSS_DYNAMIC,
				    .scale0 = 1024, .ema = 0.9, .clip_norm = 1 };
	uint64_t seed = rlx_test_seed();
	struct train_rig r;
	double norm = 0;
	size_t n;
	int k;

	net(&r, &o, 8);
	train_open(&r, "cpu", 1, NULL, 3);
	for (k = 0; k < 9; k++) {
		bool bad = k == 2 || k == 3 || k == 6;
		float scale = *(float *)train_at(&r, RLX_IO_STATE, "train.scale");

		feed(&r, 8, &seed, k == 6 ? NAN : bad ? 1e38f : 1);
		n = snapshot(&r, before, sizeof(before), "train.scale train.good");
		train_run(&r);
		CHECK_EQ(snapshot(&r, after, sizeof(after), "train.scale train.good"), n);
		CHECK_EQ(*(int32_t *)train_at(&r, RLX_IO_OUTPUT, "ok"), !bad);
		CHECKF(bad == !memcmp(before, after, n), "step %d: states %s", k,
		       bad ? "changed" : "stayed");
		CHECKF(*(float *)train_at(&r, RLX_IO_OUTPUT, "scale") == scale,
		       "scale of step %d", k);
		CHECKF(*(float *)train_at(&r, RLX_IO_STATE, "train.scale") ==
		       (bad ? scale / 2 : scale), "scale after step %d", k);
		norm = (double)*(float *)train_at(&r, RLX_IO_OUTPUT, "norm");
		CHECKF(bad == !isfinite(norm), "norm %g", norm);
		/* gradients of a scaled loss are those of the loss */
		CHECKF(bad || (norm > 1e-3 && norm < 100), "norm %g", norm);
	}
	CHECK_EQ(*(int64_t *)train_at(&r, RLX_IO_STATE, "train.step"), 6);
	CHECK_EQ(*(int32_t *)train_at(&r, RLX_IO_STATE, "train.good"), 2);
	CHECK(*(float *)train_at(&r, RLX_IO_STATE, "b") == 1);	/* frozen */
	/* after 2,000 good steps the scale doubles */
	*(int32_t *)train_at(&r, RLX_IO_STATE, "train.good") = 1999;
	feed(&r, 8, &seed, 1);
	train_run(&r);
	CHECK(*(float *)train_at(&r, RLX_IO_STATE, "train.scale") == 256);
	CHECK_EQ(*(int32_t *)train_at(&r, RLX_IO_STATE, "train.good"), 0);
	train_end(&r);
}

/* w x, whose gradient is x. */
static void product(struct train_rig *r, int scaling, double scale0)
{
	struct rlx_train_opts o = { .size = sizeof(o), .scaling = scaling, .scale0 = scale0 };
	rlx_value w;

	train_begin(r);
	w = rlx_var(r->g, r->v, "w", rlx_scalar(RLX_F32), RLX_ONES, 0);
	w = rlx_emit(r->g, mul, .a = w, .b = rlx_input(r->g, "x", rlx_scalar(RLX_F32)));
	rlx_train_step(r->g, r->v, w, rlx_scalar_const(r->g, RLX_F32, 0.1), &o, &adamw);
}

/* Gradients of 0 let a scale double for ever: beyond f32's range no step would count again. */
TEST(scales_stay_numbers)
{
	static const double bad[] = { 1e39, INFINITY, NAN, -1, 1e-39, 1e-60, 1e-300 };
	struct train_rig r;
	float *scale;
	size_t i;

	product(&r, RLX_SCALE_LOSS_DYNAMIC, 0x1p126);
	train_open(&r, "cpu", 1, NULL, 1);
	scale = train_at(&r, RLX_IO_STATE, "train.scale");
	for (i = 0; i < 3; i++) {
		*(float *)train_at(&r, RLX_IO_INPUT, "x") = 0;
		*(int32_t *)train_at(&r, RLX_IO_STATE, "train.good") = 1999;
		train_run(&r);
		CHECK_EQ(*(int32_t *)train_at(&r, RLX_IO_OUTPUT, "ok"), 1);
		CHECKF(*scale == 0x1p127f, "scale %g", (double)*scale);
		CHECK_EQ(*(int32_t *)train_at(&r, RLX_IO_STATE, "train.good"), 0);
	}
	train_end(&r);
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		product(&r, i % 2 ? RLX_SCALE_LOSS_STATIC : RLX_SCALE_LOSS_DYNAMIC, bad[i]);
		CHECKF(rlx_graph_error(r.g)->status == RLX_EINVAL, "scale0 %g: '%s'", bad[i],
		       rlx_graph_error(r.g)->text);
		CHECK(strstr(rlx_graph_error(r.g)->text, "scale0"));
		train_end(&r);
	}
}

/* A label that is out of range ends a run before any state is replaced. */
TEST(bad_labels)
{
	uint64_t seed = 1;
	struct train_rig r;
	size_t n;

	net(&r, NULL, 8);
	train_open(&r, "cpu", 1, NULL, 3);
	feed(&r, 8, &seed, 1);
	train_run(&r);
	n = snapshot(&r, before, sizeof(before), NULL);
	((int32_t *)train_at(&r, RLX_IO_INPUT, "labels"))[3] = 17;
	CHECK_EQ(rlx_session_run(r.s), RLX_ERANGE);
	CHECK_EQ(snapshot(&r, after, sizeof(after), NULL), n);
	CHECK(!memcmp(before, after, n));
	train_end(&r);
}

/* One linear layer, so that gradients of parts add up: 3 runs of 4 rows are one of 12. */
static void linear(struct train_rig *r, unsigned int accumulate, int64_t rows)
{
	struct rlx_train_opts o = { .size = sizeof(o), .accumulate = accumulate, .clip_norm = 0.1 };
	rlx_value x, y;

	train_begin(r);
	x = rlx_input(r->g, "x", rlx_type(RLX_F64, rows, 5));
	y = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "w",
		     rlx_type(RLX_F64, 5, 2), RLX_NORMAL(1), 0));
	rlx_train_step(r->g, r->v, rlx_loss_mse(r->g, y, rlx_input(r->g, "y",
		       rlx_type(RLX_F64, rows, 2))), rlx_scalar_const(r->g, RLX_F32, 0.05), &o,
		       &adamw);
	train_open(r, "cpu", 1, NULL, 11);
}

TEST(accumulated)
{
	double x[60], y[24], *w[2], was[10];
	uint64_t seed = rlx_test_seed();
	struct train_rig one, three;
	int step, part, i;

	linear(&one, 0, 12);
	linear(&three, 3, 4);
	w[0] = train_at(&one, RLX_IO_STATE, "w");
	w[1] = train_at(&three, RLX_IO_STATE, "w");
	CHECK(!memcmp(w[0], w[1], 80));
	for (step = 0; step < 5; step++) {
		for (i = 0; i < 60; i++)
			x[i] = rlx_test_uniform(&seed, -1, 1);
		for (i = 0; i < 24; i++)
			y[i] = rlx_test_uniform(&seed, -1, 1);
		memcpy(train_at(&one, RLX_IO_INPUT, "x"), x, sizeof(x));
		memcpy(train_at(&one, RLX_IO_INPUT, "y"), y, sizeof(y));
		train_run(&one);
		for (part = 0; part < 3; part++) {
			memcpy(was, w[1], 80);
			memcpy(train_at(&three, RLX_IO_INPUT, "x"), x + 20 * part, 160);
			memcpy(train_at(&three, RLX_IO_INPUT, "y"), y + 8 * part, 64);
			train_run(&three);
			CHECKF((part < 2) == !memcmp(was, w[1], 80), "step %d part %d", step, part);
		}
		for (i = 0; i < 10; i++)
			CHECKF(fabs(w[0][i] - w[1][i]) < 1e-12, "step %d: w[%d] %.15g and %.15g",
			       step, i, w[0][i], w[1][i]);
	}
	train_end(&one);
	train_end(&three);
}

TEST(threads_and_allocations)
{
	struct rlx_train_opts o = { .size = sizeof(o), .clip_norm = 1, .ema = 0.99 };
	struct train_rig r[2];
	uint64_t seed, count;
	size_t n;
	int k, i;

	for (i = 0; i < 2; i++) {
		net(&r[i], &o, 512);
		train_open(&r[i], "cpu", (unsigned int)i + 1, NULL, 9);
		seed = 4;
		for (k = 0; k < 20; k++) {
			feed(&r[i], 512, &seed, 1);
			count = rlx_alloc_count();
			train_run(&r[i]);
			CHECKF(!k || rlx_alloc_count() == count, "run %d allocates", k);
		}
	}
	n = snapshot(&r[0], before, sizeof(before), NULL);
	CHECK_EQ(snapshot(&r[1], after, sizeof(after), NULL), n);
	CHECK(!memcmp(before, after, n));
	train_end(&r[0]);
	train_end(&r[1]);
}

/* What a step trains another program reads: running statistics as well. */
TEST(evaluated)
{
	struct train_rig r, e;
	uint64_t seed = rlx_test_seed();
	float *mean, w;
	rlx_value x;
	int k;

	net(&r, NULL, 8);
	train_open(&r, "cpu", 1, NULL, 2);
	e = (struct train_rig){ .g = rlx_graph_new("eval"), .v = r.v };
	rlx_vars_enter(e.v, "bn.0");
	x = rlx_batch_norm(e.g, e.v, rlx_input(e.g, "x", rlx_type(RLX_F32, 2, 16)), false, NULL);
	rlx_vars_leave(e.v);
	rlx_output(e.g, "y", x);
	train_open(&e, "cpu", 1, r.states, 0);
	CHECK_EQ(rlx_program_io_count(e.p, RLX_IO_STATE), 4);
	for (k = 0; k < 5; k++) {
		feed(&r, 8, &seed, 1);
		train_run(&r);
	}
	mean = train_at(&r, RLX_IO_STATE, "bn.0.running_mean");
	w = ((float *)train_at(&r, RLX_IO_STATE, "bn.0.weight"))[3];
	memset(train_at(&e, RLX_IO_INPUT, "x"), 0, 2 * 16 * 4);
	train_run(&e);
	CHECK(mean[3] != 0);
	CHECKF(fabs((double)((float *)train_at(&e, RLX_IO_OUTPUT, "y"))[3] -
		    (double)(-mean[3] / sqrtf(((float *)train_at(&r, RLX_IO_STATE,
		    "bn.0.running_var"))[3] + 1e-5f) * w + ((float *)train_at(&r, RLX_IO_STATE,
		    "bn.0.bias"))[3])) < 1e-5, "running statistics");
	e.v = NULL;
	train_end(&e);
	train_end(&r);
}

/* p of the elements are 0, the others larger; the next step drops others. */
TEST(dropped)
{
	struct train_rig r;
	int64_t i, zeros, same = 0;
	float *y, was[4096];
	int k;

	train_begin(&r);
	rlx_output(r.g, "y", rlx_dropout(r.g, rlx_emit(r.g, rng, .type = rlx_type(RLX_F32, 4096),
		   .a = 1, .b = 2), 0.3, rlx_input(r.g, "call", rlx_scalar(RLX_I64)), 1));
	train_open(&r, "cpu", 1, NULL, 0);
	for (k = 0; k < 2; k++) {
		*(int64_t *)train_at(&r, RLX_IO_INPUT, "call") = k;
		train_run(&r);
		y = train_at(&r, RLX_IO_OUTPUT, "y");
		for (i = 0, zeros = 0; i < 4096; i++) {
			zeros += y[i] == 0;
			same += k && (y[i] == 0) == (was[i] == 0);
			CHECKF(y[i] == 0 || (y[i] >= 1 / 0.7f - 1e-6f && y[i] < 2.86f), "%g",
			       (double)y[i]);
			was[i] = y[i];
		}
		CHECKF(zeros > 4096 * 0.26 && zeros < 4096 * 0.34, "%lld zeros", (long long)zeros);
	}
	CHECKF(same < 4096 * 0.64, "%lld alike", (long long)same);
	train_end(&r);
}

TEST(schedules)
{
	struct rlx_schedule s = { .kind = RLX_COSINE, .lr = 2, .floor = 0.1, .warmup = 4,
				  .steps = 104 };

	CHECK(rlx_schedule_at(&s, 0) == 0.5 && rlx_schedule_at(&s, 3) == 2);
	CHECK(rlx_schedule_at(&s, 4) == 2 && fabs(rlx_schedule_at(&s, 54) - 1.1) < 1e-12);
	CHECK(rlx_schedule_at(&s, 104) == 0.2 && rlx_schedule_at(&s, 9999) == 0.2);
	s.kind = RLX_LINEAR;
	CHECK(fabs(rlx_schedule_at(&s, 29) - 1.55) < 1e-12);
	s.kind = RLX_WSD;
	s.decay = 20;
	CHECK(rlx_schedule_at(&s, 83) == 2 && fabs(rlx_schedule_at(&s, 94) - 1.1) < 1e-12);
	s.kind = RLX_RSQRT;
	CHECK(rlx_schedule_at(&s, 16) == 1);
	s.kind = RLX_CONSTANT;
	CHECK(rlx_schedule_at(&s, 1 << 20) == 2);
}

TEST(refusals)
{
	struct train_rig r;
	rlx_value w;

	train_begin(&r);
	w = rlx_var(r.g, r.v, "w", rlx_type(RLX_F32, 3), RLX_ZEROS, 0);
	CHECK(w.id && rlx_var(r.g, r.v, "w", rlx_type(RLX_F32, 3), RLX_ZEROS, 0).id == w.id);
	rlx_var(r.g, r.v, "w", rlx_type(RLX_F32, 4), RLX_ZEROS, 0);
	CHECK_EQ(rlx_graph_error(r.g)->status, RLX_ESHAPE);
	CHECK(strstr(rlx_graph_error(r.g)->text, "variable 'w' is f32[3], not f32[4]"));
	train_end(&r);
	train_begin(&r);
	rlx_var(r.g, r.v, "i", rlx_type(RLX_I32, 3), RLX_ZEROS, 0);
	CHECK_EQ(rlx_graph_error(r.g)->status, RLX_ETYPE);
	train_end(&r);
	train_begin(&r);
	w = rlx_input(r.g, "x", rlx_scalar(RLX_F32));
	rlx_train_step(r.g, r.v, w, w, NULL, &adamw);
	CHECKF(strstr(rlx_graph_error(r.g)->text, "no variable to train"), "%s",
	       rlx_graph_error(r.g)->text);
	train_end(&r);
	train_begin(&r);
	w = rlx_input(r.g, "x", rlx_type(RLX_F32, 4, 3));
	rlx_loss_ce(r.g, w, w, NULL);
	CHECK_EQ(rlx_graph_error(r.g)->status, RLX_EINVAL);
	train_end(&r);
	train_begin(&r);
	w = rlx_loss_bce(r.g, rlx_input(r.g, "x", rlx_type(RLX_F32, 4, 1)),
			 rlx_input(r.g, "t", rlx_type(RLX_F32, 4)));
	CHECKF(!w.id && rlx_graph_error(r.g)->status == RLX_ESHAPE, "a mean over [4, 4]");
	CHECKF(strstr(rlx_graph_error(r.g)->text, "f32[4] of logits f32[4,1]"), "%s",
	       rlx_graph_error(r.g)->text);
	train_end(&r);
	train_begin(&r);
	w = rlx_input(r.g, "x", rlx_type(RLX_F32, 4));
	rlx_loss_huber(r.g, w, rlx_scalar_const(r.g, RLX_F32, 0), INFINITY);
	CHECKF(rlx_graph_error(r.g)->status == RLX_EINVAL, "a slope without an end");
	train_end(&r);
	train_begin(&r);
	rlx_split(r.g, rlx_input(r.g, "x", rlx_type(RLX_F32, 4, 3)), 0, 3, &w);
	CHECK_EQ(rlx_graph_error(r.g)->status, RLX_ESHAPE);
	train_end(&r);
	rlx_train_step(NULL, NULL, w, w, NULL, NULL);
	CHECK(!rlx_var(NULL, NULL, "w", rlx_scalar(RLX_F32), RLX_ZEROS, 0).id);
}

/* Names that rlx_name() has no room for are none: cut, two of them were one variable. */
TEST(long_names)
{
	struct train_rig r;
	char fits[160], big[200];

	memset(fits, 'a', sizeof(fits));
	fits[sizeof(fits) - 1] = 0;
	memset(big, 'b', sizeof(big));
	big[sizeof(big) - 1] = 0;
	CHECK(!strcmp(rlx_name("%s", fits), fits));
	CHECK(!rlx_name("%s.%d", fits, 1));
	train_begin(&r);
	rlx_var(r.g, r.v, big, rlx_type(RLX_F32, 3), RLX_ZEROS, 0);	/* of any length */
	CHECKF(!rlx_graph_error(r.g)->status, "%s", rlx_graph_error(r.g)->text);
	rlx_var(r.g, r.v, rlx_name("%s.%d", big, 1), rlx_type(RLX_F32, 3), RLX_ZEROS, 0);
	CHECK_EQ(rlx_graph_error(r.g)->status, RLX_EINVAL);
	CHECKF(strstr(rlx_graph_error(r.g)->text, "159"), "%s", rlx_graph_error(r.g)->text);
	train_end(&r);
	train_begin(&r);
	rlx_vars_enter(r.v, rlx_name("%s.%d", big, 1));
	rlx_vars_leave(r.v);
	rlx_var(r.g, r.v, "w", rlx_type(RLX_F32, 3), RLX_ZEROS, 0);
	CHECK_EQ(rlx_graph_error(r.g)->status, RLX_EINVAL);
	CHECKF(strstr(rlx_graph_error(r.g)->text, "159"), "%s", rlx_graph_error(r.g)->text);
	train_end(&r);
}

/* Variables of 16 bits begin as those of 32 do, rounded, and are trained. */
TEST(narrow_variables)
{
	static const struct {
		enum rlx_dtype dt;
		double rounding;
	} t[] = { { RLX_F32, 0 }, { RLX_F16, 0x1p-11 }, { RLX_BF16, 0x1p-8 } };
	uint64_t seed = rlx_test_seed();
	float first[64], now[64];
	struct train_rig r;
	unsigned int i, k;
	rlx_value x;

	for (i = 0; i < 3; i++) {
		train_begin(&r);
		x = rlx_var(r.g, r.v, "w", rlx_type(t[i].dt, 64), RLX_NORMAL(0.5), 0);
		x = rlx_emit(r.g, cast, .x = x, .to = RLX_F32);
		rlx_output(r.g, "was", x);
		rlx_train_step(r.g, r.v, rlx_loss_mse(r.g, x, rlx_scalar_const(r.g, RLX_F32, 0)),
			       rlx_scalar_const(r.g, RLX_F32, 0.01), NULL, &adamw);
		train_open(&r, "cpu", 1, NULL, seed);
		train_run(&r);
		memcpy(i ? now : first, train_at(&r, RLX_IO_OUTPUT, "was"), sizeof(now));
		for (k = 0; i && k < 64; k++)
			CHECKF(fabs((double)now[k] - (double)first[k]) <=
			       t[i].rounding * fabs((double)first[k]) + 0x1p-24,
			       "%s: w[%u] is %g, not %g", rlx_dtype_name(t[i].dt), k,
			       (double)now[k], (double)first[k]);
		for (k = 0; k < 300; k++)
			train_run(&r);
		CHECKF(train_loss(&r) < 0.01, "%s: loss %g", rlx_dtype_name(t[i].dt),
		       train_loss(&r));
		train_end(&r);
	}
}

/* An average moves by less than 16 bits can tell, and begins at the weight all the same. */
TEST(averages_of_narrow_variables)
{
	struct rlx_train_opts o = { .size = sizeof(o), .ema = 0.999 };
	uint64_t seed = rlx_test_seed();
	struct train_rig r;
	double want[16];
	const float *e, *w;
	unsigned int i, k;
	rlx_value x;

	train_begin(&r);
	x = rlx_emit(r.g, cast, .x = rlx_var(r.g, r.v, "w", rlx_type(RLX_BF16, 16), RLX_NORMAL(1),
					     0), .to = RLX_F32);
	rlx_output(r.g, "was", x);
	rlx_train_step(r.g, r.v, rlx_loss_mse(r.g, x, rlx_scalar_const(r.g, RLX_F32, 0)),
		       rlx_scalar_const(r.g, RLX_F32, 0.02), &o, &adamw);
	CHECKF(rlx_type_of(r.g, rlx_graph_io_find(r.g, RLX_IO_STATE, "ema.w"))->dtype == RLX_F32,
	       "the average has 16 bits");
	train_open(&r, "cpu", 1, NULL, seed);
	e = train_at(&r, RLX_IO_STATE, "ema.w");
	for (i = 0; i < 16; i++)
		want[i] = (double)e[i];
	for (k = 0; k < 200; k++) {
		train_run(&r);
		w = train_at(&r, RLX_IO_OUTPUT, "was");	/* what the step before left */
		for (i = 0; i < 16; i++) {
			CHECKF(k || w[i] == e[i] || fabsf(w[i] - e[i]) < 1e-3f, "begins elsewhere");
			want[i] += k ? 0.001 * ((double)w[i] - want[i]) : 0;
		}
	}
	train_run(&r);
	w = train_at(&r, RLX_IO_OUTPUT, "was");
	for (i = 0; i < 16; i++)
		CHECKF(fabs((double)e[i] - want[i]) < 0.005 * fabs((double)w[i] - want[i]) + 1e-5,
		       "ema.w[%u] is %g, not %g", i, (double)e[i], want[i]);
	train_end(&r);
}

/* A state that the set of variables does not have is named. */
TEST(unknown_states)
{
	struct rlx_vars *other = rlx_vars_new();
	struct train_rig r;

	net(&r, NULL, 8);
	train_open(&r, "cpu", 1, NULL, 2);
	CHECK_EQ(rlx_states_init(r.states, other, 1, &r.err), RLX_ENOENT);
	CHECKF(strstr(r.err.text, "state 'w' is no variable"), "%s", r.err.text);
	rlx_vars_free(other);
	train_end(&r);
}

/* A net with a batch norm, whose loss is the mean square of what comes out. */
static rlx_value normed(struct rlx_graph *g, struct rlx_vars *v, bool train)
{
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 8, 2));

	x = rlx_emit(g, matmul, .a = x, .b = rlx_var(g, v, "w", rlx_type(RLX_F32, 2, 2),
						     RLX_NORMAL(1), 0));
	return rlx_loss_mse(g, rlx_batch_norm(g, v, x, train, NULL), rlx_scalar_const(g, RLX_F32,
			    0));
}

/* Next values of buffers are a graph's own, whatever others are built before its step. */
TEST(graphs_built_side_by_side)
{
	struct rlx_graph *eval = rlx_graph_new("eval"), *left = rlx_graph_new("left");
	struct train_rig r;
	rlx_value loss;
	float *mean;
	int i;

	train_begin(&r);
	rlx_output(left, "y", normed(left, r.v, true));	/* no step follows */
	loss = normed(r.g, r.v, true);
	rlx_output(eval, "y", normed(eval, r.v, false));
	rlx_train_step(r.g, r.v, loss, rlx_scalar_const(r.g, RLX_F32, 0), NULL, &adamw);
	CHECKF(!rlx_graph_finish(eval), "%s", rlx_graph_error(eval)->text);
	CHECKF(!rlx_graph_finish(left), "%s", rlx_graph_error(left)->text);
	train_open(&r, "cpu", 1, NULL, rlx_test_seed());
	for (i = 0; i < 16; i++)
		((float *)train_at(&r, RLX_IO_INPUT, "x"))[i] = 1;
	train_run(&r);
	mean = train_at(&r, RLX_IO_STATE, "running_mean");
	CHECKF(mean[0] != 0 && mean[1] != 0, "running means %g and %g", (double)mean[0],
	       (double)mean[1]);
	rlx_graph_put(eval);
	rlx_graph_put(left);
	train_end(&r);
	/* a graph that has none of the buffers takes its step without them */
	left = rlx_graph_new("left");
	train_begin(&r);
	rlx_output(left, "y", normed(left, r.v, true));
	loss = rlx_var(r.g, r.v, "w", rlx_type(RLX_F32, 2, 2), RLX_ZEROS, 0);
	rlx_train_step(r.g, r.v, rlx_loss_mse(r.g, loss, rlx_scalar_const(r.g, RLX_F32, 1)),
		       rlx_scalar_const(r.g, RLX_F32, 0), NULL, &adamw);
	CHECKF(!rlx_graph_finish(r.g), "%s", rlx_graph_error(r.g)->text);
	rlx_graph_put(left);
	train_end(&r);
}

static enum rlx_status build(void *ctx)
{
	struct rlx_train_opts o = { .size = sizeof(o), .scaling = RLX_SCALE_LOSS_DYNAMIC,
				    .ema = 0.9, .accumulate = 2 };
	struct train_rig r;
	enum rlx_status st;

	net(&r, &o, 4);
	st = rlx_graph_finish(r.g);
	if (!st)
		st = rlx_compile(r.g, NULL, &r.p, NULL);
	if (!st)
		st = rlx_states_new(r.p, NULL, &r.states, NULL);
	if (!st)
		st = rlx_states_init(r.states, r.v, 1, NULL);
	train_end(&r);
	return st;
}

TEST(no_memory)
{
	CHECK(rlx_oom_sweep(build, NULL) > 500);
}

/* Products that no sum needs come behind it, so that a device does them meanwhile. */
TEST(sums_come_before_what_they_do_not_need)
{
	struct rlx_train_opts o = { .size = sizeof(o), .ranks = 2 };
	struct rlx_optimizer sgd = { .size = sizeof(sgd), .kind = RLX_SGD };
	const struct rlx_plan *p;
	unsigned int sums = 0, behind = 0, i;
	struct train_rig r;
	rlx_value x;

	train_begin(&r);
	x = rlx_input(r.g, "x", rlx_type(RLX_F32, 4, 600));
	for (i = 0; i < 3; i++)
		x = rlx_emit(r.g, matmul, .a = x, .b = rlx_var(r.g, r.v, rlx_name("w%u", i),
			     rlx_type(RLX_F32, 600, 600), RLX_KAIMING(600), 0));
	x = rlx_loss_mse(r.g, x, rlx_input(r.g, "y", rlx_type(RLX_F32, 4, 600)));
	rlx_train_step(r.g, r.v, x, rlx_input(r.g, "lr", rlx_scalar(RLX_F32)), &o, &sgd);
	train_open(&r, "cpu", 1, NULL, 1);
	p = r.p->plan;
	for (i = 0; i < p->n_step; i++) {
		if (p->step[i].def && p->step[i].def->index == RLX_OP_all_reduce)
			sums++;
		else if (p->step[i].def && p->step[i].def->index == RLX_OP_fused_matmul)
			behind += sums > 0;
	}
	CHECK_EQ(sums, 4);
	/* of three layers' gradients by weights and two by inputs, all but the last layer's */
	CHECKF(behind >= 3, "%u products behind a sum", behind);
	train_end(&r);
}

TEST_MAIN()
