// SPDX-License-Identifier: MIT
/*
 * Sums of which each rank gets a part, and parts that all get: by calls and by ops of a program,
 * the bits of a sum that all get; what is told when ranks die or do not do the same.
 */
#include "rlx/grad.h"
#include "selftests/lib/comm_rig.h"
#include "selftests/lib/rlx_test.h"

enum { MOST = 4 };

/* Element @i of what rank @r has: of any size, so that the order of a sum shows. */
static double drawn(uint64_t seed, unsigned int r, uint64_t i)
{
	uint64_t s = seed ^ (r + 1) * 0x9e3779b97f4a7c15u ^ i * 0xd1342543de82ef95u;

	return rlx_test_uniform(&s, -1, 1) * exp2(rlx_test_uniform(&s, -20, 20));
}

static void put(void *p, enum rlx_dtype dt, uint64_t i, double x)
{
	switch (dt) {
	case RLX_F32: ((float *)p)[i] = (float)x; break;
	case RLX_F64: ((double *)p)[i] = x; break;
	case RLX_I32: ((int32_t *)p)[i] = (int32_t)x; break;
	default: ((int64_t *)p)[i] = (int64_t)x;
	}
}

/* Parts of @count elements: summed as all get the sum, and brought together again. */
static void check_parts(struct rlx_comm *c, uint64_t seed, uint64_t count, enum rlx_dtype dt)
{
	unsigned int rank = rlx_comm_rank(c), n = rlx_comm_ranks(c);
	size_t bytes = count * rlx_dtype_size(dt);
	char *x = malloc(n * bytes + 1), *own = malloc(bytes + 1), *all = malloc(n * bytes + 1);
	uint64_t i;

	memset(x, 0, n * bytes + 1);
	for (i = 0; i < n * count; i++)
		put(x, dt, i, drawn(seed, rank, i));
	own[bytes] = all[n * bytes] = 77;
	CHECKF(!rlx_comm_reduce_scatter(c, x, own, count, dt), "%s", rlx_comm_error(c)->text);
	CHECKF(!rlx_comm_all_gather(c, own, all, bytes), "%s", rlx_comm_error(c)->text);
	CHECKF(!rlx_comm_all_reduce(c, x, n * count, dt), "%s", rlx_comm_error(c)->text);
	CHECKF(!memcmp(x + rank * bytes, own, bytes), "%llu of %s: rank %u has another part",
	       (unsigned long long)count, rlx_dtype_name(dt), rank);
	CHECKF(!memcmp(x, all, n * bytes), "%llu of %s: parts are not the whole",
	       (unsigned long long)count, rlx_dtype_name(dt));
	CHECK(own[bytes] == 77 && all[n * bytes] == 77);
	free(x);
	free(own);
	free(all);
}

static void parts(struct rlx_comm *c, void *arg)
{
	static const enum rlx_dtype of[] = { RLX_F32, RLX_F64, RLX_I32, RLX_I64 };
	static const uint64_t counts[] = { 0, 1, 3, 17, 1000, (1 << 18) - 1, (1 << 18) + 1,
					   (1 << 20) + 1 };
	uint64_t s = *(uint64_t *)arg;
	unsigned int i, k;

	for (i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		for (k = 0; k < 4; k++)
			check_parts(c, s, counts[i], of[k]);
	for (i = 0; i < 40; i++) {	/* the same draws on all */
		uint64_t count = rlx_test_rand(&s) % 5000;

		check_parts(c, s, count, of[rlx_test_rand(&s) % 4]);
	}
}

TEST(parts_are_those_of_the_sum_that_all_get)
{
	uint64_t seed = rlx_test_seed();
	unsigned int n;

	for (n = 1; n <= MOST; n++)
		run_ranks(n, parts, &seed);
}

/* ---- by a program ---- */

enum { COLS = 3 };

struct shape {
	uint64_t	seed;
	int64_t		rows;		/* of a part */
	enum rlx_dtype	dtype;
};

static struct rlx_session *program(const struct shape *how, unsigned int ranks)
{
	struct rlx_graph *g = rlx_graph_new("parts");
	struct rlx_program *p;
	struct rlx_session *s;
	struct rlx_error err = { 0 };
	int32_t n = (int32_t)ranks;
	rlx_value x, y;

	x = rlx_input(g, "x", rlx_type(how->dtype, how->rows * n, COLS));
	y = rlx_emit(g, reduce_scatter, .x = x, .ranks = n);
	rlx_output(g, "part", y);
	rlx_output(g, "whole", rlx_emit(g, all_gather, .x = y, .ranks = n));
	x = rlx_emit(g, all_reduce, .x = x, .ranks = n);
	rlx_output(g, "sum", x);
	rlx_output(g, "own", rlx_emit(g, own_part, .x = x, .ranks = n));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, NULL, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

static const void *result(struct rlx_session *s, const char *name)
{
	return rlx_buf_ptr(rlx_session_bound(s, RLX_IO_OUTPUT, name));
}

static void runs(struct rlx_comm *c, void *arg)
{
	const struct shape *how = arg;
	uint64_t n = (uint64_t)how->rows * rlx_comm_ranks(c) * COLS, i;
	size_t part = n / rlx_comm_ranks(c) * rlx_dtype_size(how->dtype);
	struct rlx_session *s = program(how, rlx_comm_ranks(c));
	void *x = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x"));

	for (i = 0; i < n; i++)
		put(x, how->dtype, i, drawn(how->seed, rlx_comm_rank(c), i));
	CHECK(!rlx_session_collective(s, rlx_comm_collective(c)));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK(!memcmp(result(s, "whole"), result(s, "sum"), part * rlx_comm_ranks(c)));
	CHECK(!memcmp(result(s, "own"), (const char *)result(s, "sum") + rlx_comm_rank(c) * part,
		      part));
	CHECK(!memcmp(result(s, "part"), result(s, "own"), part));
	/* without others it is of no use, but ends */
	CHECK(!rlx_session_collective(s, rlx_comm_idle(c)));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK(!rlx_comm_barrier(c));
	rlx_session_free(s);
}

TEST(steps_of_programs_are_those_calls)
{
	uint64_t s = rlx_test_seed();
	unsigned int n, i;

	for (n = 2; n <= MOST; n++)
		for (i = 0; i < 6; i++) {
			struct shape how = {
				.seed = s + i, .rows = 1 + (int64_t)(rlx_test_rand(&s) % 400),
				.dtype = (enum rlx_dtype[]){ RLX_F32, RLX_F64, RLX_I32,
							     RLX_I64 }[i % 4],
			};

			run_ranks(n, runs, &how);
		}
}

/* Derivatives: of what all have by what was gathered, and the other way round. */
TEST(they_derive_each_other)
{
	struct rlx_graph *g = rlx_graph_new("derive");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4, COLS)), y, d;
	struct rlx_ad a = { .size = sizeof(a), .wrt = { &x, 1 } };

	y = rlx_emit(g, all_gather, .x = x, .ranks = 3);
	y = rlx_emit(g, reduce_scatter, .x = rlx_emit(g, mul, .a = y, .b = y), .ranks = 3);
	y = rlx_emit(g, reduce, .x = y);
	a.of = (struct rlx_values){ &y, 1 };
	rlx_vjp(g, &a, &d);
	rlx_output(g, "d", d);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECK(rlx_type_equal(rlx_type_of(g, d), rlx_type_of(g, x)));
	rlx_graph_put(g);
}

static void check_refused(rlx_value (*emit)(struct rlx_graph *g), enum rlx_status st,
			  const char *text)
{
	struct rlx_graph *g = rlx_graph_new("refused");

	emit(g);
	CHECKF(rlx_graph_error(g)->status == st && strstr(rlx_graph_error(g)->text, text), "%s",
	       rlx_graph_error(g)->text);
	rlx_graph_put(g);
}

static rlx_value uneven(struct rlx_graph *g)
{
	return rlx_emit(g, reduce_scatter, .ranks = 4,
			.x = rlx_input(g, "x", rlx_type(RLX_F32, 6, 4)));
}

static rlx_value uneven_part(struct rlx_graph *g)
{
	return rlx_emit(g, own_part, .ranks = 4, .x = rlx_input(g, "x", rlx_type(RLX_F32, 6)));
}

static rlx_value scalar(struct rlx_graph *g)
{
	return rlx_emit(g, all_gather, .ranks = 2, .x = rlx_input(g, "x", rlx_scalar(RLX_F32)));
}

static rlx_value nobody(struct rlx_graph *g)
{
	return rlx_emit(g, all_gather, .ranks = -1, .x = rlx_input(g, "x", rlx_type(RLX_F32, 2)));
}

static rlx_value narrow(struct rlx_graph *g)
{
	return rlx_emit(g, reduce_scatter, .ranks = 2, .x = rlx_input(g, "x",
			rlx_type(RLX_BF16, 2)));
}

static rlx_value endless(struct rlx_graph *g)
{
	return rlx_emit(g, all_gather, .ranks = INT32_MAX, .x = rlx_input(g, "x",
			rlx_type(RLX_U8, INT64_C(1) << 40)));
}

TEST(what_ranks_cannot_share_is_refused)
{
	check_refused(uneven, RLX_ESHAPE, "no axis 0 that 4 ranks share evenly");
	check_refused(uneven_part, RLX_ESHAPE, "no axis 0 that 4 ranks share evenly");
	check_refused(scalar, RLX_ESHAPE, "no axis 0");
	check_refused(nobody, RLX_EINVAL, "there is one at least");
	check_refused(narrow, RLX_ETYPE, "cast it");
	check_refused(endless, RLX_ESHAPE, "no axis 0");
}

static enum rlx_status only_sums(void *ctx, const struct rlx_reduction *r, struct rlx_error *err)
{
	(void)ctx;
	(void)r;
	(void)err;
	return RLX_OK;
}

TEST(a_communicator_that_does_none_is_told_of)
{
	const struct rlx_collective c = { .rank = 1, .ranks = 2, .all_reduce = only_sums };
	const struct shape how = { .rows = 2, .dtype = RLX_F32 };
	struct rlx_session *s = program(&how, 2);

	CHECK(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x")));
	CHECK_EQ(rlx_session_run(s), RLX_EINVAL);
	CHECKF(strstr(rlx_session_error(s)->text, "no communicator"), "%s",
	       rlx_session_error(s)->text);
	CHECK(!rlx_session_collective(s, &c));
	CHECK_EQ(rlx_session_run(s), RLX_ENOSUP);
	CHECKF(strstr(rlx_session_error(s)->text, "reduce_scatter: the session's communicator"),
	       "%s", rlx_session_error(s)->text);
	rlx_session_free(s);
	s = program(&how, 3);		/* of another number of ranks */
	CHECK(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x")));
	CHECK(!rlx_session_collective(s, &c));
	CHECK_EQ(rlx_session_run(s), RLX_EINVAL);
	CHECKF(strstr(rlx_session_error(s)->text, "it is over 3 ranks, the session's communicator "
		      "has 2"), "%s", rlx_session_error(s)->text);
	rlx_session_free(s);
}

/* ---- faults ---- */

static void goes_on_until_told(struct rlx_comm *c, void *arg)
{
	static float x[120000], y[120000];
	enum rlx_status st = RLX_OK;
	uint64_t s = 5;

	while (!st) {
		uint64_t n = 1 + rlx_test_rand(&s) % 30000;

		st = rlx_comm_reduce_scatter(c, x, y, n, RLX_F32);
		if (!st)
			st = rlx_comm_all_gather(c, y, x, n * 4);
	}
	check_told(arg, st, rlx_comm_error(c));
	CHECK_EQ(rlx_comm_all_gather(c, x, y, 4), st);	/* it stays so */
	CHECK_EQ(rlx_comm_reduce_scatter(c, x, y, 1, RLX_F32), st);
}

TEST(a_rank_that_is_killed_is_named_to_the_others)
{
	uint64_t s = rlx_test_seed();
	int i;

	for (i = 0; i < 12; i++)
		kill_one(2 + (unsigned int)i % 3, goes_on_until_told, &s, 40000);
}

static void does_other(struct rlx_comm *c, void *arg)
{
	static float x[40], y[120];
	enum rlx_status st;

	if (rlx_comm_rank(c) == ((struct fault *)arg)->who)
		st = rlx_comm_all_gather(c, x, y, sizeof(x));
	else
		st = rlx_comm_reduce_scatter(c, y, x, 40, RLX_F32);
	check_told(arg, st, rlx_comm_error(c));
}

static void has_other_size(struct rlx_comm *c, void *arg)
{
	static float x[40], y[120];
	bool other = rlx_comm_rank(c) == ((struct fault *)arg)->who;

	check_told(arg, rlx_comm_reduce_scatter(c, y, x, other ? 20 : 40, RLX_F32),
		   rlx_comm_error(c));
}

TEST(a_rank_that_goes_another_way_is_named)
{
	struct fault other = { 1, RLX_EPROTO, "do not run the same program" };

	run_ranks(3, does_other, &other);
	run_ranks(3, has_other_size, &other);
}

TEST(arguments_are_looked_at)
{
	float x = 1, y = 0;
	struct rlx_error err = { 0 };
	struct rlx_arena *at;
	struct rlx_comm *c;

	CHECK_EQ(rlx_comm_reduce_scatter(NULL, &x, &y, 1, RLX_F32), RLX_EINVAL);
	CHECK_EQ(rlx_comm_all_gather(NULL, &x, &y, 4), RLX_EINVAL);
	CHECKF(!rlx_comm_arena(1, &at, &err), "%s", err.text);
	c = join(at, 0, 1, 0);
	CHECK_EQ(rlx_comm_reduce_scatter(c, NULL, &y, 1, RLX_F32), RLX_EINVAL);
	CHECK_EQ(rlx_comm_all_gather(c, &x, NULL, 4), RLX_EINVAL);
	CHECK(!rlx_comm_all_gather(c, NULL, NULL, 0));
	CHECK(!rlx_comm_reduce_scatter(c, &x, &y, 1, RLX_F32) && y == 1);
	CHECK_EQ(rlx_comm_reduce_scatter(c, &x, &y, 1, RLX_BF16), RLX_ETYPE);
	rlx_comm_free(c);
	rlx_arena_put(at);
}

TEST_MAIN()
