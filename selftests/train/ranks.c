// SPDX-License-Identifier: MIT
/*
 * Ranks over shared memory: sums in a fixed order, steps that are the bits of one process, and
 * what the others are told when a rank dies, leaves, fails, hangs or runs something else.
 */
#include <sys/mman.h>

#include "base/half.h"
#include "selftests/lib/comm_rig.h"
#include "selftests/lib/data_set.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/train_rig.h"

enum { MOST = 4, ROWS = 6, STEPS = 12, STATE_BYTES = 1 << 16 };

/* What ranks leave for the test to look at; shared with them. */
static struct {
	size_t		n[MOST];
	unsigned char	state[MOST][STATE_BYTES];
	double		loss[MOST][STEPS];
} *seen;

static void share_results(void)
{
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(seen != MAP_FAILED);
}

/* ---- sums ---- */

/* Element @i of what rank @r has: of any size, so that the order of a sum shows. */
static double drawn(uint64_t seed, unsigned int r, uint64_t i)
{
	uint64_t s = seed ^ (r + 1) * 0x9e3779b97f4a7c15u ^ i * 0xd1342543de82ef95u;

	return rlx_test_uniform(&s, -1, 1) * exp2(rlx_test_uniform(&s, -20, 20));
}

#define CHECK_SUM(T, DT, count)						\
	do {								\
		T *x = calloc((count) + 1, sizeof(T)), want;		\
		for (i = 0; i < (count); i++)				\
			x[i] = (T)drawn(seed, rank, i);			\
		CHECKF(!rlx_comm_all_reduce(c, x, (count), DT), "%s", rlx_comm_error(c)->text); \
		for (i = 0; i < (count); i++) {				\
			want = (T)drawn(seed, 0, i);			\
			for (r = 1; r < rlx_comm_ranks(c); r++)		\
				want += (T)drawn(seed, r, i);		\
			CHECKF(!memcmp(&want, &x[i], sizeof(T)), #T " %llu of %llu: %g, not %g", \
			       (unsigned long long)i, (unsigned long long)(count), (double)x[i], \
			       (double)want);				\
		}							\
		free(x);						\
	} while (0)

static void sums(struct rlx_comm *c, void *arg)
{
	uint64_t seed = *(uint64_t *)arg, i;
	unsigned int rank = rlx_comm_rank(c), r, k;
	static const uint64_t counts[] = { 0, 1, 3, 17, 1000, (1 << 20) - 1,
					   (1 << 20) + 1, 2500001 };

	for (k = 0; k < sizeof(counts) / sizeof(*counts); k++) {
		CHECK_SUM(float, RLX_F32, counts[k]);
		if (counts[k] > 100000 && k & 1)
			continue;
		CHECK_SUM(double, RLX_F64, counts[k]);
		CHECK_SUM(int32_t, RLX_I32, counts[k]);
		CHECK_SUM(int64_t, RLX_I64, counts[k]);
	}
}

TEST(sums_are_in_the_order_of_ranks)
{
	uint64_t seed = rlx_test_seed();
	unsigned int n;

	for (n = 1; n <= MOST; n++)
		run_ranks(n, sums, &seed);
}

static void tells(struct rlx_comm *c, void *arg)
{
	char text[1000];
	int i;

	(void)arg;
	memset(text, 'a' + (int)rlx_comm_rank(c), sizeof(text));
	for (i = 0; i < 100; i++) {
		text[999] = (char)('a' + (int)rlx_comm_rank(c) + i);
		CHECK(!rlx_comm_broadcast(c, text, sizeof(text)));
		CHECK(text[0] == 'a' && text[500] == 'a' && text[999] == (char)('a' + i));
		CHECK(!rlx_comm_agree(c, "round", (uint64_t)i));
		CHECK(!rlx_comm_barrier(c));
		text[999] = 'a';
	}
}

TEST(what_rank_0_has_comes_to_all)
{
	run_ranks(3, tells, NULL);
}

/* ---- steps ---- */

struct recipe {
	uint64_t	seed;
	unsigned int	ranks;
	int		optimizer;
	bool		norm;		/* with a batch norm */
	bool		wide;		/* in f64 */
	bool		odd;		/* with variables of other dtypes, of 0 and 1 elements, many */
	unsigned int	runs;		/* of a step; 0: 1 */
	bool		idle;		/* all but the last of them without sums */
	int		bad_step, bad_rank;	/* whose loss is infinite there */
};

/* @x times means of variables, more of them than one sum over ranks takes. */
static rlx_value add_odd(struct train_rig *r, rlx_value x, enum rlx_dtype dt)
{
	static const enum rlx_dtype of[] = { RLX_F32, RLX_BF16, RLX_F16, RLX_F64 };
	rlx_value v, sum = rlx_scalar_const(r->g, dt, 1);
	int i;

	for (i = 0; i < 70; i++) {
		v = rlx_var(r->g, r->v, rlx_name("odd%d", i), rlx_type(of[i % 4], i / 4 % 5),
			    RLX_NORMAL(0.1), 0);
		v = rlx_emit(r->g, reduce, .x = rlx_emit(r->g, cast, .x = v, .to = dt));
		v = rlx_emit(r->g, mul, .a = v, .b = rlx_scalar_const(r->g, dt, 1 / 64.0));
		sum = rlx_emit(r->g, add, .a = sum, .b = v);
	}
	return rlx_emit(r->g, mul, .a = x, .b = sum);
}

/* logits = relu(x w) u; @parts in one process, or one of @ranks. */
static void build_graph(struct train_rig *r, const struct recipe *how, unsigned int ranks,
			unsigned int parts)
{
	struct rlx_train_opts o = { .size = sizeof(o), .clip_norm = 0.5, .ema = 0.9,
				    .accumulate = parts, .ranks = ranks,
				    .scaling = RLX_SCALE_LOSS_DYNAMIC, .scale0 = 1024 };
	struct rlx_optimizer opt = { .size = sizeof(opt), .kind = how->optimizer, .decay = 0.01,
				     .momentum = 0.9 };
	enum rlx_dtype dt = how->wide ? RLX_F64 : RLX_F32;
	rlx_value x, loss;

	train_begin(r);
	x = rlx_input(r->g, "x", rlx_type(dt, ROWS, 12));
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "w", rlx_type(dt, 12, 16),
							RLX_KAIMING(12), RLX_VAR_MATRIX));
	if (how->norm)
		x = rlx_batch_norm(r->g, r->v, x, true, NULL);
	x = rlx_emit(r->g, relu, .x = x);
	x = how->odd ? add_odd(r, x, dt) : x;
	x = rlx_dropout(r->g, x, 0.25, rlx_train_count(r->g, r->v), 5);
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "u", rlx_type(dt, 16, 3),
							RLX_KAIMING(16), 0));
	x = rlx_emit(r->g, add, .a = x, .b = rlx_var(r->g, r->v, "b", rlx_type(dt, 3),
						     RLX_ZEROS, RLX_VAR_NO_DECAY));
	loss = rlx_loss_ce(r->g, x, rlx_input(r->g, "labels", rlx_type(RLX_I32, ROWS)), NULL);
	loss = rlx_emit(r->g, mul, .a = loss, .b = rlx_input(r->g, "factor", rlx_scalar(dt)));
	rlx_train_step(r->g, r->v, loss, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), &o, &opt);
}

static void set(void *p, enum rlx_dtype dt, int64_t i, double x)
{
	if (dt == RLX_F64)
		((double *)p)[i] = x;
	else if (dt == RLX_F32)
		((float *)p)[i] = (float)x;
	else
		((uint16_t *)p)[i] = dt == RLX_F16 ? rlx_f32_to_f16((float)x) :
						     rlx_f32_to_bf16((float)x);
}

/* rlx_states_init() fills none of bf16 and f16. */
static struct rlx_states *own_states(struct train_rig *r, uint64_t seed)
{
	struct rlx_states *states;
	unsigned int i;
	int64_t k;

	CHECKF(!rlx_graph_finish(r->g), "%s", rlx_graph_error(r->g)->text);
	CHECKF(!rlx_compile(r->g, NULL, &r->p, &r->err), "%s", r->err.text);
	CHECKF(!rlx_states_new(r->p, NULL, &states, &r->err), "%s", r->err.text);
	rlx_program_put(r->p);
	for (i = 0; i < rlx_states_count(states); i++) {
		const char *name = rlx_states_name(states, i);
		const struct rlx_type *t = rlx_states_type(states, i);
		void *p = rlx_buf_ptr(rlx_states_buf(states, i));

		if (!strcmp(name, "train.scale"))
			set(p, RLX_F32, 0, 1024);
		for (k = 0; !strchr(name, '.') && k < rlx_type_count(t); k++)
			set(p, t->dtype, k, rlx_test_uniform(&seed, -0.3, 0.3));
	}
	return states;
}

static void build(struct train_rig *r, const struct recipe *how, unsigned int ranks,
		  unsigned int parts)
{
	struct rlx_states *states = NULL;

	build_graph(r, how, ranks, parts);
	if (how->odd)
		states = own_states(r, how->seed);
	train_open(r, "cpu", 1, states, how->seed);
	rlx_states_put(states);
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

/* The rows of part @part of step @step. */
static void feed(struct train_rig *r, const struct recipe *how, int step, unsigned int part)
{
	uint64_t s = how->seed + (uint64_t)step * 1000 + part;
	int32_t *l = train_at(r, RLX_IO_INPUT, "labels");
	void *p = train_at(r, RLX_IO_INPUT, "x");
	int64_t i;
	double x;

	for (i = 0; i < (int64_t)ROWS * 12; i++)
		put(r, "x", how, i, rlx_test_uniform(&s, -1, 1));
	for (i = 0; i < ROWS; i++) {	/* of the half space that x is in */
		x = how->wide ? ((double *)p)[12 * i] : (double)((float *)p)[12 * i];
		l[i] = x > 0;
	}
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 0.05f;
	put(r, "factor", how, 0, step == how->bad_step && (int)part == how->bad_rank ?
	    (double)INFINITY : 1);
}

/* States in order of names' places, without those that only sums over runs have. */
static size_t states_of(struct train_rig *r, unsigned char *to)
{
	unsigned int i;
	size_t n = 0, bytes;

	for (i = 0; i < rlx_program_io_count(r->p, RLX_IO_STATE); i++) {
		const char *name = rlx_program_io_name(r->p, RLX_IO_STATE, i);
		struct rlx_buf b = rlx_session_bound_at(r->s, RLX_IO_STATE, i);

		if (!strncmp(name, "grad.", 5) || !strcmp(name, "train.micro"))
			continue;
		bytes = (size_t)rlx_type_bytes(rlx_program_io_type(r->p, RLX_IO_STATE, i));
		CHECK(n + bytes <= STATE_BYTES && rlx_buf_ptr(b));
		memcpy(to + n, rlx_buf_ptr(b), bytes);
		n += bytes;
	}
	return n;
}

static void train_rank(struct rlx_comm *c, void *arg)
{
	const struct recipe *how = arg;
	unsigned int rank = rlx_comm_rank(c), runs = how->runs ? how->runs : 1, k;
	struct train_rig r;
	int step;

	build(&r, how, how->ranks, runs);
	CHECK(!rlx_comm_agree(c, "graph", rlx_graph_hash(r.g)));
	for (step = 0; step < STEPS; step++) {
		for (k = 0; k < runs; k++) {
			CHECK(!rlx_session_collective(r.s, how->idle && k + 1 < runs ?
				rlx_comm_idle(c) : rlx_comm_collective(c)));
			feed(&r, how, step, k * how->ranks + rank);
			train_run(&r);
		}
		seen->loss[rank][step] = train_loss(&r);
		CHECK_EQ(*(int32_t *)train_at(&r, RLX_IO_OUTPUT, "ok"), step != how->bad_step);
	}
	seen->n[rank] = states_of(&r, seen->state[rank]);
	CHECK(!rlx_comm_barrier(c));
	train_end(&r);
}

/* One process that adds the parts in the order of ranks. */
static void train_alone(const struct recipe *how, unsigned char *state, size_t *n,
			double loss[STEPS])
{
	static unsigned char first[STATE_BYTES];
	struct train_rig r;
	unsigned int part;
	int step;

	build(&r, how, 1, how->ranks);
	*n = states_of(&r, first);
	for (step = 0; step < STEPS; step++)
		for (loss[step] = part = 0; part < how->ranks; part++) {
			feed(&r, how, step, part);
			train_run(&r);
			loss[step] += train_loss(&r) / how->ranks;
		}
	*n = states_of(&r, state);
	CHECK(memcmp(first, state, *n));	/* they were taken */
	train_end(&r);
}

static void check_equal_to_one(struct recipe how)
{
	static unsigned char state[STATE_BYTES];
	double loss[STEPS];
	unsigned int r, i;
	size_t n;

	run_ranks(how.ranks, train_rank, &how);
	train_alone(&how, state, &n, loss);
	for (r = 0; r < how.ranks; r++) {
		CHECK_EQ(seen->n[r], n);
		CHECKF(!memcmp(seen->state[r], state, n), "rank %u of %u, optimizer %d: states are "
		       "not those of one process", r, how.ranks, how.optimizer);
		for (i = 0; i < STEPS; i++)
			CHECKF(seen->loss[r][i] == seen->loss[0][i] &&
			       (!isfinite(loss[i]) || fabs(loss[i] - seen->loss[r][i]) < 1e-6 *
				fabs(loss[i])), "step %u: loss %g, not %g", i, seen->loss[r][i],
			       loss[i]);
	}
}

TEST(steps_are_those_of_one_process_bit_for_bit)
{
	uint64_t seed = rlx_test_seed();
	unsigned int n, k;

	share_results();
	for (n = 2; n <= MOST; n++)
		for (k = RLX_SGD; k <= RLX_MUON; k++)
			check_equal_to_one((struct recipe){
				.seed = seed + k, .ranks = n, .optimizer = (int)k,
				.wide = k == RLX_LION, .bad_step = 4, .bad_rank = (int)(n - 1) });
}

TEST(variables_may_be_empty_narrow_wide_and_many)
{
	struct recipe how = { .seed = rlx_test_seed(), .ranks = 3, .odd = true, .bad_step = 7,
			      .bad_rank = 1, .optimizer = RLX_ADAMW };

	share_results();
	check_equal_to_one(how);
	how.wide = true;
	check_equal_to_one(how);
}

TEST(statistics_of_a_batch_are_means_over_ranks)
{
	struct recipe how = { .seed = rlx_test_seed(), .ranks = 3, .norm = true, .bad_step = -1,
			      .optimizer = RLX_ADAMW };
	unsigned int r;

	share_results();
	run_ranks(how.ranks, train_rank, &how);
	for (r = 1; r < how.ranks; r++)
		CHECK(!memcmp(seen->state[r], seen->state[0], seen->n[0]) && seen->n[0]);
}

/* Sums that nobody uses make no difference, and the result is that of one process. */
TEST(runs_that_add_up_need_no_sums)
{
	struct recipe how = { .seed = rlx_test_seed(), .ranks = 2, .runs = 3, .bad_step = -1,
			      .norm = true, .optimizer = RLX_SGD };
	static unsigned char busy[STATE_BYTES], one[STATE_BYTES];
	double loss[STEPS];
	unsigned int r, k;
	size_t n, i;

	share_results();
	run_ranks(how.ranks, train_rank, &how);
	memcpy(busy, seen->state[0], seen->n[0]);
	how.idle = true;
	run_ranks(how.ranks, train_rank, &how);
	how.norm = false;	/* whose statistics one process has of other rows */
	for (r = 0; r < 2; r++)
		CHECK(!memcmp(busy, seen->state[r], seen->n[r]) || how.norm);
	run_ranks(how.ranks, train_rank, &how);
	how.ranks = 6;
	how.runs = 0;
	train_alone(&how, one, &n, loss);
	CHECK_EQ(n, seen->n[0]);
	for (k = 0; k < 2; k++)
		for (i = 0; i + 4 <= n; i += 4)
			CHECKF(fabsf(*(float *)(one + i) - *(float *)(seen->state[k] + i)) < 1e-4f,
			       "float %zu: %g, not %g", i / 4,
			       (double)*(float *)(seen->state[k] + i), (double)*(float *)(one + i));
}

TEST(without_a_communicator_nothing_is_summed)
{
	struct recipe how = { .seed = 1, .ranks = 2, .bad_step = -1 };
	struct rlx_error err = { 0 };
	struct rlx_arena *at;
	struct rlx_comm *c;
	struct train_rig r;

	build(&r, &how, 2, 1);
	feed(&r, &how, 0, 0);
	CHECK_EQ(rlx_session_run(r.s), RLX_EINVAL);
	CHECKF(strstr(rlx_session_error(r.s)->text, "no communicator"), "%s",
	       rlx_session_error(r.s)->text);
	CHECK(!rlx_comm_arena(1, &at, &err));
	c = join(at, 0, 1, 0);
	CHECK(!rlx_session_collective(r.s, rlx_comm_collective(c)));
	CHECK_EQ(rlx_session_run(r.s), RLX_EINVAL);
	CHECKF(strstr(rlx_session_error(r.s)->text, "the session's communicator has 1"), "%s",
	       rlx_session_error(r.s)->text);
	train_end(&r);
	rlx_comm_free(c);
	rlx_arena_put(at);
}

/* ---- data ---- */

enum { RECORDS = 1009, BATCH = 8 };

static void write_ids(const char *path)
{
	static const struct rlx_field f = { "id", { RLX_I64, 1, { 1 } } };
	struct rlx_record_writer *w;
	struct rlx_error err = { 0 };
	int64_t id;

	CHECKF(!rlx_record_create(path, &f, 1, NULL, &w, &err), "%s", err.text);
	for (id = 0; id < RECORDS; id++)
		CHECK(!rlx_record_add(w, (const void *[]){ &id }, 1, &err));
	CHECKF(!rlx_record_commit(w, &err), "%s", err.text);
}

/* Count the records that rank @rank of @n is given in an epoch. */
static void count_ids(const char *path, unsigned int rank, unsigned int n, int *times)
{
	struct rlx_loader_opts o = { .size = sizeof(o), .path = path, .batch = BATCH, .rank = rank,
				     .world = n, .shuffle = true, .seed = 3, .keep_last = true,
				     .layout = RLX_LAYOUT_ROWS };
	struct rlx_loader_info info;
	struct rlx_error err = { 0 };
	struct rlx_loader *ld;
	struct rlx_batch b;
	unsigned int row;
	uint64_t i;

	CHECKF(!rlx_loader_open(&o, &ld, &err), "%s", err.text);
	rlx_loader_info(ld, &info);
	for (i = 0; i < info.epoch_batches; i++) {
		CHECK(!rlx_loader_next(ld, &b, -1));
		for (row = 0; row < b.rows; row++)
			times[*(const int64_t *)rlx_batch_row(ld, &b, "id", row)]++;
		rlx_loader_done(ld, &b);
	}
	rlx_loader_close(ld);
}

TEST(ranks_read_every_record_once)
{
	const char *path = data_path("ids.rlxr");
	unsigned int n, rank;
	int i;

	write_ids(path);
	for (n = 1; n <= MOST; n++) {
		int times[RECORDS] = { 0 };

		for (rank = 0; rank < n; rank++)
			count_ids(path, rank, n, times);
		for (i = 0; i < RECORDS; i++)
			CHECKF(times[i] == 1, "%u ranks: record %d: %d times", n, i, times[i]);
	}
}

/* ---- faults ---- */

static enum rlx_status build_two(void *ctx)
{
	struct rlx_comm_opts o = { .size = sizeof(o), .ranks = 1 };
	struct recipe how = { .norm = true, .optimizer = RLX_SGD };
	struct rlx_error err = { 0 };
	struct rlx_comm *c = NULL;
	struct train_rig r;
	enum rlx_status st;

	(void)ctx;
	build_graph(&r, &how, 2, 1);
	st = rlx_graph_finish(r.g);
	if (!st)
		st = rlx_compile(r.g, NULL, &r.p, &err);
	if (!st)
		st = rlx_comm_new(&o, &c, &err);
	rlx_comm_free(c);
	train_end(&r);
	return st;
}

TEST(every_allocation_may_fail)
{
	build_two(NULL);	/* what is made once */
	CHECK(rlx_oom_sweep(build_two, NULL) > 300);
}

/* Sums until that fails, as it must. */
static void sums_until_told(struct rlx_comm *c, const struct fault *f)
{
	static float x[200000];
	enum rlx_status st = RLX_OK;

	while (!st)
		st = rlx_comm_all_reduce(c, x, 1 + (uint64_t)x[0] % 7 + sizeof(x) / 8, RLX_F32);
	check_told(f, st, rlx_comm_error(c));
	CHECK_EQ(rlx_comm_barrier(c), st);	/* it stays so */
}

static void sums_for_ever(struct rlx_comm *c, void *arg)
{
	sums_until_told(c, arg);
}

TEST(a_rank_that_is_killed_is_named_to_the_others)
{
	uint64_t s = rlx_test_seed();
	int i;

	for (i = 0; i < 20; i++)
		kill_one(3, sums_for_ever, &s, 60000);
}

static void trains_until_told(struct rlx_comm *c, void *arg)
{
	struct recipe how = { .seed = 3, .ranks = 3, .bad_step = -1, .optimizer = RLX_ADAMW };
	const struct fault *f = arg;
	enum rlx_status st = RLX_OK;
	struct train_rig r;
	int step;

	build(&r, &how, 3, 1);
	CHECK(!rlx_session_collective(r.s, rlx_comm_collective(c)));
	for (step = 0; !st; step++) {
		feed(&r, &how, step, rlx_comm_rank(c));
		st = rlx_session_run(r.s);
	}
	check_told(f, st, rlx_session_error(r.s));
	train_end(&r);
}

TEST(a_run_tells_of_a_rank_that_is_killed)
{
	uint64_t s = rlx_test_seed();
	int i;

	for (i = 0; i < 5; i++)
		kill_one(3, trains_until_told, &s, 200000);
}

static void leaves(struct rlx_comm *c, void *arg)
{
	float x = 1;

	CHECK(!rlx_comm_all_reduce(c, &x, 1, RLX_F32) && x == 3);
	if (rlx_comm_rank(c) != 1)
		sums_until_told(c, arg);
}

static void gives_up(struct rlx_comm *c, void *arg)
{
	if (rlx_comm_rank(c) == 1)
		rlx_comm_fail(c, "its disk is full");
	else
		sums_until_told(c, arg);
}

static void hangs(struct rlx_comm *c, void *arg)
{
	struct rlx_error err = { 0 };
	float x = 1;

	if (rlx_comm_rank(c) != 1) {
		sums_until_told(c, arg);
		return;
	}
	usleep(3000000);
	/* and is told that it came too late */
	CHECK_EQ(rlx_comm_collective(c)->all_reduce(rlx_comm_collective(c)->ctx,
		 &(struct rlx_reduction){ &x, &x, 1, RLX_F32, NULL, NULL }, &err), RLX_ETIME);
	CHECK(strstr(err.text, "rank 1"));
}

static void comes_later(struct rlx_comm *c, void *arg)
{
	int i;

	(void)arg;
	for (i = 0; rlx_comm_rank(c) == 1 && i < 20; i++)
		usleep(25000);		/* of one long sleep the stop would be a part */
	CHECKF(!rlx_comm_barrier(c), "%s", rlx_comm_error(c)->text);
}

/* As all are by ^Z in a shell: time in which nobody could come counts for nobody. */
TEST(ranks_that_are_all_stopped_go_on)
{
	unsigned int r;

	start_ranks(2, 2000000000, comes_later, NULL);
	usleep(250000);
	for (r = 0; r < 2; r++)
		CHECK(!kill(pids[r], SIGSTOP));
	usleep(3000000);
	for (r = 0; r < 2; r++)
		CHECK(!kill(pids[r], SIGCONT));
	ranks_end(2, -1);
}

static void sums_less(struct rlx_comm *c, void *arg)
{
	const struct fault *f = arg;
	double x[40] = { 0 };
	enum rlx_status st;

	st = rlx_comm_rank(c) == f->who ? rlx_comm_all_reduce(c, x, 20, RLX_F64) :
	     rlx_comm_all_reduce(c, x, 40, RLX_F32);
	CHECKF(st == RLX_EPROTO && strstr(rlx_comm_error(c)->text, "rank 2"), "%s",
	       rlx_comm_error(c)->text);
}

static void disagrees(struct rlx_comm *c, void *arg)
{
	const struct fault *f = arg;

	CHECK_EQ(rlx_comm_agree(c, "graph", 0x1234 + (rlx_comm_rank(c) == f->who)), RLX_EPROTO);
	CHECKF(strstr(rlx_comm_error(c)->text, "the graph of rank 2 is 0x1235, that of rank 0 "
		      "0x1234"), "%s", rlx_comm_error(c)->text);
}

TEST(a_rank_that_goes_another_way_is_named)
{
	struct fault left = { 1, RLX_EPIPE, "has left" };
	struct fault out = { 1, RLX_ECANCELED, "disk is full" };
	struct fault late = { 1, RLX_ETIME, "did not come within" }, other = { 2, RLX_EPROTO, "" };

	run_ranks(3, leaves, &left);
	run_ranks(3, gives_up, &out);
	start_ranks(3, 1000000000, hangs, &late);
	ranks_end(3, -1);
	run_ranks(3, sums_less, &other);
	run_ranks(3, disagrees, &other);
}

TEST_MAIN()
