// SPDX-License-Identifier: MIT
/*
 * Steps of which each rank updates a part (ZeRO-1): the bits of steps that all take whole, states
 * of so many ranks a part each, and what is told when a rank dies.
 */
#include "selftests/lib/comm_rig.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/train_rig.h"
#include "train/zero.h"

enum { MOST = 4, ROWS = 4, STEPS = 6 };

struct recipe {
	uint64_t	seed;
	int		optimizer;
	unsigned int	runs;		/* of a step */
	bool		idle;		/* all but the last of them without sums */
	bool		wide;		/* in f64 */
	bool		odd;		/* with variables that no run divides, small, narrow, many */
	bool		ema, clip, scale;
	int		bad_step;	/* whose loss is infinite at rank 0 */
	int64_t		in, mid, out;
	unsigned int	threads;
};

static rlx_value mean_of(struct train_rig *r, const char *name, struct rlx_type t,
			 enum rlx_dtype dt)
{
	rlx_value v = rlx_var(r->g, r->v, name, t, RLX_NORMAL(0.1), 0);

	v = rlx_emit(r->g, cast, .x = v, .to = dt);
	return rlx_emit(r->g, reduce, .x = rlx_emit(r->g, mul, .a = v, .b = v),
			.kind = RLX_REDUCE_MEAN);
}

/* @x times what comes of variables of all sorts. */
static rlx_value add_odd(struct train_rig *r, rlx_value x, enum rlx_dtype dt)
{
	static const enum rlx_dtype of[] = { RLX_F32, RLX_BF16, RLX_F16, RLX_F64 };
	static const int64_t sizes[] = { 65537, 67591, 1023, 1024, 70001, 0, 1, 3 };
	rlx_value sum = rlx_scalar_const(r->g, dt, 1);
	int i;

	for (i = 0; i < 80; i++)
		sum = rlx_emit(r->g, add, .a = sum, .b = mean_of(r, rlx_name("odd%d", i),
			       rlx_type(of[i % 4], i < 20 ? sizes[i / 4] + i % 4 :
						    1000 + i * 13 % 97), dt));
	for (i = 5; i < 8; i++)
		sum = rlx_emit(r->g, add, .a = sum, .b = rlx_emit(r->g, reduce, .x =
			       rlx_emit(r->g, cast, .to = dt, .x = rlx_var(r->g, r->v,
			       rlx_name("few%d", i), rlx_type(of[i % 4], sizes[i]),
			       RLX_NORMAL(0.1), 0))));
	return rlx_emit(r->g, mul, .a = x, .b = sum);
}

static void build_graph(struct train_rig *r, const struct recipe *how, unsigned int ranks,
			bool zero)
{
	struct rlx_train_opts o = { .size = sizeof(o), .clip_norm = how->clip ? 0.05 : 0,
				    .ema = how->ema ? 0.9 : 0, .accumulate = how->runs,
				    .ranks = ranks, .zero = zero };
	struct rlx_optimizer opt = { .size = sizeof(opt), .kind = how->optimizer, .decay = 0.01,
				     .momentum = 0.9 };
	enum rlx_dtype dt = how->wide ? RLX_F64 : RLX_F32;
	rlx_value x, loss;

	if (how->scale) {
		o.scaling = RLX_SCALE_LOSS_DYNAMIC;
		o.scale0 = 512;
	}
	train_begin(r);
	x = rlx_input(r->g, "x", rlx_type(dt, ROWS, how->in));
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "w",
		     rlx_type(dt, how->in, how->mid), RLX_KAIMING((double)how->in),
		     RLX_VAR_MATRIX));
	x = rlx_emit(r->g, relu, .x = x);
	x = how->odd ? add_odd(r, x, dt) : x;
	x = rlx_batch_norm(r->g, r->v, x, true, NULL);
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "u",
		     rlx_type(dt, how->mid, how->out), RLX_KAIMING((double)how->mid), 0));
	x = rlx_emit(r->g, add, .a = x, .b = rlx_var(r->g, r->v, "b", rlx_type(dt, how->out),
						     RLX_ZEROS, RLX_VAR_NO_DECAY));
	loss = rlx_loss_ce(r->g, x, rlx_input(r->g, "labels", rlx_type(RLX_I32, ROWS)), NULL);
	loss = rlx_emit(r->g, mul, .a = loss, .b = rlx_input(r->g, "factor", rlx_scalar(dt)));
	rlx_vars_lr(r->v, "u", 0.5);
	rlx_train_step(r->g, r->v, loss, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), &o, &opt);
}

static void put(struct train_rig *r, const char *name, const struct recipe *how, int64_t i,
		double v)
{
	void *p = train_at(r, RLX_IO_INPUT, name);

	if (how->wide)
		((double *)p)[i] = v;
	else
		((float *)p)[i] = (float)v;
}

static void feed(struct train_rig *r, const struct recipe *how, int step, unsigned int part)
{
	uint64_t s = how->seed + (uint64_t)step * 1000 + part;
	int32_t *l = train_at(r, RLX_IO_INPUT, "labels");
	int64_t i;

	for (i = 0; i < ROWS * how->in; i++)
		put(r, "x", how, i, rlx_test_uniform(&s, -1, 1));
	for (i = 0; i < ROWS; i++)
		l[i] = (int32_t)(rlx_test_rand(&s) % (uint64_t)how->out);
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 0.01f;
	put(r, "factor", how, 0, step == how->bad_step && !part ? (double)INFINITY : 1);
}

static const void *state_at(struct train_rig *r, const char *name, size_t *bytes)
{
	int i = rlx_program_io_find(r->p, RLX_IO_STATE, name);

	*bytes = 0;
	if (i < 0)
		return NULL;
	*bytes = (size_t)rlx_type_bytes(rlx_program_io_type(r->p, RLX_IO_STATE, (unsigned int)i));
	return rlx_buf_ptr(rlx_session_bound_at(r->s, RLX_IO_STATE, (unsigned int)i));
}

/* Each state of @zero is that of @whole, or this rank's part of it. */
static void check_states(struct train_rig *zero, struct train_rig *whole, struct rlx_comm *c,
			 bool taken)
{
	unsigned int i, n = rlx_program_io_count(zero->p, RLX_IO_STATE), parts = 0;

	CHECK_EQ(n, rlx_program_io_count(whole->p, RLX_IO_STATE));
	for (i = 0; i < n; i++) {
		const char *name = rlx_program_io_name(zero->p, RLX_IO_STATE, i);
		bool part = !strncmp(name, ZERO_PREFIX, strlen(ZERO_PREFIX));
		size_t have, want, at;
		const char *a = state_at(zero, name, &have);
		const char *b = state_at(whole, part ? name + strlen(ZERO_PREFIX) : name, &want);

		CHECKF(a && b, "no state %s", name);
		parts += part;
		at = part ? have * rlx_comm_rank(c) : 0;
		if (part && !taken)	/* averages begin at the first step */
			continue;
		for (; at < want && have; at++, have--)
			CHECKF(*a++ == b[at], "rank %u: %s: byte %zu of %zu", rlx_comm_rank(c),
			       name, at, want);
		for (; part && have; have--)
			CHECKF(!*a++, "%s is not filled up with zeros", name);
	}
	CHECK(parts);
}

static void run(struct train_rig *r, const struct recipe *how, struct rlx_comm *c, int step)
{
	unsigned int k;

	for (k = 0; k < how->runs; k++) {
		CHECK(!rlx_session_collective(r->s, how->idle && k + 1 < how->runs ?
			rlx_comm_idle(c) : rlx_comm_collective(c)));
		feed(r, how, step, k * rlx_comm_ranks(c) + rlx_comm_rank(c));
		train_run(r);
	}
}

static void both(struct rlx_comm *c, void *arg)
{
	static const char *const outputs[] = { "norm", "ok", "scale" };
	const struct recipe *how = arg;
	struct train_rig zero, whole;
	unsigned int i;
	int step;

	build_graph(&zero, how, rlx_comm_ranks(c), true);
	train_open(&zero, "cpu", how->threads, NULL, how->seed);
	CHECK(!rlx_comm_agree(c, "graph", rlx_graph_hash(zero.g)));
	build_graph(&whole, how, rlx_comm_ranks(c), false);
	train_open(&whole, "cpu", how->threads, NULL, how->seed);
	for (step = 0; step < STEPS; step++) {
		run(&zero, how, c, step);
		run(&whole, how, c, step);
		CHECK_EQ(train_loss(&zero) == train_loss(&whole) || step == how->bad_step, 1);
		for (i = 0; i < (how->scale ? 3u : 2u); i++)
			CHECKF(!memcmp(train_at(&zero, RLX_IO_OUTPUT, outputs[i]),
				       train_at(&whole, RLX_IO_OUTPUT, outputs[i]), 4) ||
			       step == how->bad_step, "step %d: %s: %a, not %a", step, outputs[i],
			       (double)*(float *)train_at(&zero, RLX_IO_OUTPUT, outputs[i]),
			       (double)*(float *)train_at(&whole, RLX_IO_OUTPUT, outputs[i]));
		CHECK_EQ(*(int32_t *)train_at(&zero, RLX_IO_OUTPUT, "ok"), step != how->bad_step);
		check_states(&zero, &whole, c, step || how->bad_step);
	}
	CHECK(!rlx_comm_barrier(c));
	train_end(&zero);
	train_end(&whole);
}

TEST(steps_are_those_that_all_take_whole_bit_for_bit)
{
	uint64_t seed = rlx_test_seed();
	unsigned int n, k;

	for (n = 2; n <= MOST; n++)
		for (k = RLX_SGD; k <= RLX_LION; k++) {
			struct recipe how = {
				.seed = seed + k, .optimizer = (int)k, .runs = 1, .in = 256,
				.mid = 300, .out = 40, .bad_step = k == 1 ? 0 : 3, .clip = true,
				.scale = true, .ema = n != 3, .threads = 1 + n % 2,
			};

			run_ranks(n, both, &how);
		}
}

TEST(so_they_are_of_any_shapes_and_options)
{
	uint64_t s = rlx_test_seed();
	unsigned int i;

	for (i = 0; i < 12; i++) {
		struct recipe how = {
			.seed = s, .optimizer = (int)(rlx_test_rand(&s) % 3),
			.runs = 1 + (unsigned int)(rlx_test_rand(&s) % 3),
			.in = 1 + (int64_t)(rlx_test_rand(&s) % 400),
			.mid = 1 + (int64_t)(rlx_test_rand(&s) % 500),
			.out = 1 + (int64_t)(rlx_test_rand(&s) % 90),
			.bad_step = (int)(rlx_test_rand(&s) % STEPS), .wide = i % 4 == 1,
			.idle = i & 1, .clip = i & 2, .ema = i % 3, .scale = i % 4 == 2,
			.threads = 1 + (i & 1),
		};

		how.mid += how.in * how.mid < ZERO_LEAST ? ZERO_LEAST : 0;
		run_ranks(2 + i % 3, both, &how);
	}
}

TEST(variables_may_be_odd_small_narrow_and_many)
{
	struct recipe how = { .seed = rlx_test_seed(), .optimizer = RLX_ADAMW, .runs = 1, .in = 60,
			      .mid = 20, .out = 3, .bad_step = 2, .odd = true, .clip = true,
			      .ema = true, .threads = 1 };

	run_ranks(3, both, &how);
	how.runs = 2;
	how.idle = true;
	how.optimizer = RLX_LION;
	run_ranks(4, both, &how);
}

/* ---- memory ---- */

static size_t optimizer_bytes(const struct train_rig *r)
{
	unsigned int i;
	size_t n = 0;

	for (i = 0; i < rlx_program_io_count(r->p, RLX_IO_STATE); i++) {
		const char *name = rlx_program_io_name(r->p, RLX_IO_STATE, i);

		if (rlx_train_keeps(name) || !strncmp(name, "ema.", 4))
			n += (size_t)rlx_type_bytes(rlx_program_io_type(r->p, RLX_IO_STATE, i));
	}
	return n;
}

TEST(states_of_a_rank_are_a_part_as_large)
{
	struct recipe how = { .seed = 1, .optimizer = RLX_ADAMW, .runs = 1, .in = 700, .mid = 500,
			      .out = 120, .ema = true, .bad_step = -1 };
	struct train_rig r;
	unsigned int ranks;
	size_t whole, part;

	build_graph(&r, &how, 8, false);
	train_open(&r, "cpu", 1, NULL, 1);
	whole = optimizer_bytes(&r);
	train_end(&r);
	CHECK(whole > 3 * 4 * (700 * 500 + 500 * 120));
	for (ranks = 1; ranks <= 8; ranks++) {
		build_graph(&r, &how, ranks, true);
		train_open(&r, "cpu", 1, NULL, 1);
		part = optimizer_bytes(&r);
		printf("# %u ranks: %zu of %zu bytes of states a rank, %.4f\n", ranks, part, whole,
		       (double)part / (double)whole);
		CHECK((double)part < 1.04 * (double)whole / ranks);
		train_end(&r);
	}
}

TEST(parts_cover_what_they_are_of)
{
	uint64_t s = rlx_test_seed();
	int64_t n, part, i;

	for (i = 0; i < 20000; i++) {
		unsigned int ranks = 1 + (unsigned int)(rlx_test_rand(&s) % RLX_MOST_RANKS);

		n = (int64_t)(rlx_test_rand(&s) % (i % 2 ? 3000 : 1 << 24));
		part = zero_part(n, ranks);
		CHECK(n < ZERO_LEAST ? !part : part * ranks >= n && part > 0);
		CHECKF(n < ZERO_LEAST || part * (int64_t)ranks < n + 1024 * (int64_t)ranks,
		       "%lld in %u parts of %lld", (long long)n, ranks, (long long)part);
	}
}

/* ---- what is refused, and faults ---- */

TEST(optimizers_of_whole_tensors_are_refused_by_name)
{
	struct recipe how = { .seed = 1, .optimizer = RLX_MUON, .runs = 1, .in = 60, .mid = 20,
			      .out = 3 };
	struct train_rig r;

	build_graph(&r, &how, 2, true);
	CHECKF(rlx_graph_error(r.g)->status == RLX_ENOSUP &&
	       strstr(rlx_graph_error(r.g)->text, "muon needs whole tensors"), "%s",
	       rlx_graph_error(r.g)->text);
	train_end(&r);
	how.optimizer = RLX_ADAFACTOR;
	build_graph(&r, &how, 2, true);
	CHECKF(strstr(rlx_graph_error(r.g)->text, "adafactor needs whole tensors"), "%s",
	       rlx_graph_error(r.g)->text);
	train_end(&r);
	build_graph(&r, &how, 1, true);		/* nobody to share with */
	CHECKF(!rlx_graph_finish(r.g), "%s", rlx_graph_error(r.g)->text);
	train_end(&r);
}

static void trains_until_told(struct rlx_comm *c, void *arg)
{
	struct recipe how = { .seed = 3, .optimizer = RLX_ADAMW, .runs = 1, .in = 256, .mid = 300,
			      .out = 40, .bad_step = -1, .odd = true };
	enum rlx_status st = RLX_OK;
	struct train_rig r;
	int step;

	build_graph(&r, &how, rlx_comm_ranks(c), true);
	train_open(&r, "cpu", 1, NULL, 1);
	CHECK(!rlx_session_collective(r.s, rlx_comm_collective(c)));
	for (step = 0; !st; step++) {
		feed(&r, &how, step, rlx_comm_rank(c));
		st = rlx_session_run(r.s);
	}
	check_told(arg, st, rlx_session_error(r.s));
	CHECK_EQ(rlx_session_run(r.s), st);	/* it stays so */
	train_end(&r);
}

TEST(a_rank_that_is_killed_is_named_to_the_others)
{
	uint64_t s = rlx_test_seed();
	unsigned int i;

	for (i = 0; i < 10; i++)
		kill_one(2 + i % 3, trains_until_told, &s, 300000);
}

static enum rlx_status build_two(void *ctx)
{
	struct recipe how = { .optimizer = RLX_SGD, .runs = 2, .in = 256, .mid = 300, .out = 4,
			      .ema = true };
	struct rlx_error err = { 0 };
	struct train_rig r;
	enum rlx_status st;

	(void)ctx;
	build_graph(&r, &how, 2, true);
	st = rlx_graph_finish(r.g);
	if (!st)
		st = rlx_compile(r.g, NULL, &r.p, &err);
	train_end(&r);
	return st;
}

TEST(every_allocation_may_fail)
{
	build_two(NULL);	/* what is made once */
	CHECK(rlx_oom_sweep(build_two, NULL) > 300);
}

TEST_MAIN()
