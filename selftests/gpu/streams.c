// SPDX-License-Identifier: MIT
/*
 * Programs with branches, whose launches run side by side: results are the CPU's in
 * whatever order a graph's nodes run (the emulator takes another one each time), with
 * workspace that is used again, memory that lives as long as a step, host steps between.
 */
#include "backends/gpu/gpu.h"
#include "ir/graph.h"
#include "rt/session.h"
#include "selftests/gpu/sessions.h"
#include "selftests/lib/op_case.h"

enum { ROWS = 8, WIDTH = 32, RUNS = 6 };

static const struct gpu_code *code_of(const struct rlx_session *s)
{
	return (const struct gpu_code *)s->p->code;
}

/* Calls of other streams than the first, and how many wait for another stream. */
static uint32_t apart(const struct rlx_session *s, uint32_t *waits)
{
	const struct gpu_code *c = code_of(s);
	uint32_t i, n = 0;

	for (i = 0, *waits = 0; i < c->calls.n_call; i++) {
		n += gpu_calls(c)[i].on_stream > 0;
		*waits += gpu_calls(c)[i].n_wait > 0;
	}
	return n;
}

static rlx_value numbers(struct rlx_graph *g, struct rlx_type t, uint64_t *seed)
{
	int64_t n = rlx_type_count(&t), i;
	float *v = malloc((size_t)n * sizeof(*v));
	rlx_value c;

	for (i = 0; i < n; i++)
		v[i] = (float)rlx_test_uniform(seed, -0.5, 0.5);
	c = rlx_constant(g, t, v);
	free(v);
	return c;
}

static void fill(struct rlx_session *s, uint64_t seed)
{
	unsigned int i, n = rlx_program_io_count(s->p, RLX_IO_INPUT);
	int64_t k;

	for (i = 0; i < n; i++) {
		const struct rlx_type *t = rlx_program_io_type(s->p, RLX_IO_INPUT, i);
		float *v = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT,
				       rlx_program_io_name(s->p, RLX_IO_INPUT, i)));

		for (k = 0; k < rlx_type_count(t); k++)
			v[k] = (float)rlx_test_uniform(&seed, -1, 1);
	}
}

/* Captured, then replayed on new data. */
static void check_runs(struct rlx_session *g, struct rlx_session *c)
{
	uint64_t seed;

	for (seed = 1; seed <= RUNS; seed++) {
		fill(g, seed);
		fill(c, seed);
		compare(g, c);
	}
}

static struct rlx_session *checked(struct rlx_graph *g)
{
	struct rlx_session *s, *c;

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	s = session_of(g, op_case_gpu(), 0);
	c = session_of(g, "cpu", 0);
	check_runs(s, c);
	rlx_session_free(c);
	rlx_graph_put(g);
	return s;
}

static rlx_value linear(struct rlx_graph *g, rlx_value x, uint64_t *seed)
{
	return rlx_emit(g, matmul, .a = x, .b = numbers(g, rlx_type(RLX_F32, WIDTH, WIDTH), seed));
}

/* @n launches that follow each other. */
static rlx_value chain(struct rlx_graph *g, rlx_value x, int n, uint64_t *seed)
{
	for (; n > 0; n--)
		x = n % 2 ? rlx_emit(g, softmax, .x = x, .axis = -1) : linear(g, x, seed);
	return x;
}

/* Blocks of branches, each of which begins where all of the last block's ended. */
static struct rlx_graph *blocks(int n, int branches, int length)
{
	struct rlx_graph *g = rlx_graph_new("blocks");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, WIDTH)), y, sum;
	uint64_t seed = 3;
	int i, k;

	for (i = 0; i < n; i++) {
		sum = rlx_emit(g, layer_norm, .x = x, .axis = -1, .eps = 1e-5f);
		x = sum;
		for (k = 0; k < branches; k++) {
			y = chain(g, x, length, &seed);
			sum = rlx_emit(g, add, .a = sum, .b = y);
		}
		x = sum;
	}
	rlx_output(g, "y", x);
	return g;
}

TEST(branches_have_lanes)
{
	struct rlx_session *s = checked(blocks(3, 4, 8));
	uint32_t waits, n = apart(s, &waits), calls = code_of(s)->calls.n_call;

	CHECK_EQ(code_of(s)->n_stream, 4);
	CHECKF(n > calls / 2 && n < calls * 4 / 5, "%u of %u calls", n, calls);
	CHECKF(waits >= 9 && waits <= calls / 2, "%u of %u calls wait", waits, calls);
	/* the blocks share memory, branches do not */
	CHECKF(code_of(s)->base.plan->work_bytes <= 4 * code_of(s)->base.plan->naive_bytes / 3,
	       "%llu bytes", (unsigned long long)code_of(s)->base.plan->work_bytes);
	rlx_session_free(s);
}

/* Where there is nothing to win all is as it were without streams. */
TEST(chains_stay_as_they_are)
{
	struct rlx_session *s = checked(blocks(2, 1, 8));
	uint32_t waits;

	CHECK_EQ(code_of(s)->n_stream, 1);
	CHECK_EQ(apart(s, &waits), 0);
	CHECK(!waits);
	rlx_session_free(s);
}

/* Two of one shape, both for results and for what is read again much later. */
static rlx_value mixed(struct rlx_graph *g, rlx_value a, rlx_value b, unsigned int op,
		       uint64_t *seed)
{
	static const int64_t rows[ROWS] = { 7, 0, 3, 3, 1, 6, 2, 5 };
	rlx_value y;

	switch (op) {
	case 0:
		return rlx_emit(g, add, .a = a, .b = b);
	case 1:
		return rlx_emit(g, softmax, .x = a, .axis = -1);
	case 2:
		return rlx_emit(g, cumsum, .x = rlx_emit(g, tanh, .x = a), .axis = 0);
	case 3:
		return rlx_emit(g, layer_norm, .x = a, .axis = -1, .eps = 1e-5f);
	case 4:
		y = rlx_emit(g, concat, .axis = 1, .xs = RLX_VALUES(a, b));
		return rlx_emit(g, matmul, .a = y,
				.b = numbers(g, rlx_type(RLX_F32, 2 * WIDTH, WIDTH), seed));
	case 5:
		return rlx_emit(g, gather, .x = a, .axis = 0,
				.indices = rlx_constant(g, rlx_type(RLX_I64, ROWS), rows));
	case 6:
		y = rlx_emit(g, reduce, .x = a, .axes = RLX_INTS(0, 1), .keep_dims = true,
			     .kind = RLX_REDUCE_MEAN);
		return rlx_emit(g, sub, .a = b, .b = y);
	default:
		return rlx_emit(g, tanh, .x = linear(g, a, seed));
	}
}

/* An LSTM's products are apart from what follows in time: their sums live for a step. */
static rlx_value lstm(struct rlx_graph *g, rlx_value x, uint64_t *seed)
{
	rlx_value in = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(ROWS, 1, WIDTH));
	rlx_value w = numbers(g, rlx_type(RLX_F32, 2, 2 * WIDTH, WIDTH), seed);
	rlx_value r = numbers(g, rlx_type(RLX_F32, 2, 2 * WIDTH, WIDTH / 2), seed);
	rlx_value y = rlx_emit(g, lstm, .x = in, .w = w, .r = r, .direction = 2);

	return rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(ROWS, WIDTH));
}

static struct rlx_graph *random_net(uint64_t seed, bool host)
{
	struct rlx_graph *g = rlx_graph_new("random");
	rlx_value v[48], all;
	int n = 2, i;

	v[0] = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, WIDTH));
	v[1] = rlx_input(g, "y", rlx_type(RLX_F32, ROWS, WIDTH));
	for (; n < 40; n++) {
		/* most go on with what is new, some with what is not */
		int from = n > 8 && rlx_test_rand(&seed) % 4 ? n - 8 : 0;
		rlx_value a = v[from + (int)(rlx_test_rand(&seed) % (uint64_t)(n - from))];
		rlx_value b = v[from + (int)(rlx_test_rand(&seed) % (uint64_t)(n - from))];
		unsigned int op = (unsigned int)(rlx_test_rand(&seed) % 11);

		v[n] = op == 10 ? lstm(g, a, &seed) : mixed(g, a, b, op, &seed);
		if (host && n % 13 == 12)	/* no kernel has it */
			v[n] = rlx_emit(g, add, .a = v[n], .b = rlx_emit(g, cast,
				.x = rlx_emit(g, unique_count, .x = v[n]), .to = RLX_F32));
	}
	for (all = v[2], i = 3; i < n; i++)
		all = rlx_emit(g, add, .a = all, .b = v[i]);
	rlx_output(g, "all", all);
	rlx_output(g, "last", v[n - 1]);
	rlx_output(g, "middle", v[n / 2]);
	rlx_output(g, "early", v[4]);
	return g;
}

TEST(random_programs)
{
	unsigned int with = 0, n = 9;
	uint64_t seed;

	for (seed = 1; seed <= n; seed++) {
		struct rlx_session *s = checked(random_net(seed, seed % 3 == 0));

		with += code_of(s)->n_stream > 1;
		rlx_session_free(s);
	}
	CHECKF(with > n / 2, "%u of %u have streams", with, n);
}

/* Launches that are left out are waited for all the same. */
TEST(chosen_outputs)
{
	struct rlx_graph *g = random_net(5, false);
	struct rlx_session *s, *c;
	static const char *const want[] = { "all", "last", "middle", "early" };
	unsigned int i;

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	s = session_of(g, op_case_gpu(), 0);
	c = session_of(g, "cpu", 0);
	rlx_graph_put(g);
	CHECK(code_of(s)->n_stream > 1);
	for (i = 0; i < 4; i++) {
		CHECK_EQ(rlx_session_want(s, want + i, 1), 0);
		CHECK_EQ(rlx_session_want(c, want + i, 1), 0);
		for (uint64_t seed = 1; seed < 4; seed++) {
			struct rlx_buf a = rlx_session_buf(s, RLX_IO_OUTPUT, want[i]);
			struct rlx_buf b = rlx_session_buf(c, RLX_IO_OUTPUT, want[i]);

			fill(s, seed);
			fill(c, seed);
			poison(s);
			run(s);
			run(c);
			for (int k = 0; k < ROWS * WIDTH; k++) {
				float got = ((float *)rlx_buf_ptr(a))[k];
				float is = ((float *)rlx_buf_ptr(b))[k];

				CHECKF(fabsf(got - is) <= 1e-4f * (1 + fabsf(is)),
				       "%s[%d] is %g, not %g", want[i], k, (double)got,
				       (double)is);
			}
		}
	}
	rlx_session_free(s);
	rlx_session_free(c);
}

/* Values that lowering added to the graph's and to copies of outputs. */
static uint32_t temporaries(const struct rlx_session *s)
{
	const struct rlx_plan *p = code_of(s)->base.plan;
	uint32_t n = p->n_val - p->g->n_val, i;

	for (i = 0; i < p->n_step; i++)
		n -= !p->step[i].def;
	return n;
}

/* What launches need between their passes, or for as long as a step: nobody else's bytes. */
TEST(memory_of_a_step)
{
	enum { LONG = 20000 };	/* more than a block sorts in shared memory */
	struct rlx_graph *g = rlx_graph_new("sorts");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, LONG)), sum = x, y;
	struct rlx_session *s;
	uint64_t seed = 4;
	int i;

	for (i = 0; i < 3; i++) {
		y = rlx_emit(g, mul, .a = x, .b = numbers(g, rlx_type(RLX_F32, LONG), &seed));
		y = rlx_emit(g, topk, .x = y, .k = LONG, .axis = 0);
		sum = rlx_emit(g, add, .a = sum, .b = rlx_emit(g, softmax, .x = y, .axis = 0));
	}
	rlx_output(g, "y", sum);
	s = checked(g);
	CHECK(code_of(s)->n_stream > 2 && temporaries(s) > 2);
	rlx_session_free(s);
	g = rlx_graph_new("lstms");
	x = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, WIDTH));
	for (sum = x, i = 0; i < 3; i++)
		sum = rlx_emit(g, add, .a = sum, .b = lstm(g, x, &seed));
	rlx_output(g, "y", sum);
	s = checked(g);
	CHECK(code_of(s)->n_stream > 2 && temporaries(s) > 2);
	rlx_session_free(s);
}

/* An extent leaves streams as they are. */
TEST(the_first_rows)
{
	struct rlx_graph *g = blocks(2, 3, 6);
	struct rlx_session *s, *c;
	int64_t rows, k;

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	s = session_of(g, op_case_gpu(), 0);
	c = session_of(g, "cpu", 0);
	rlx_graph_put(g);
	CHECK_EQ(code_of(s)->n_stream, 3);
	for (rows = 1; rows <= ROWS; rows += 2) {
		const float *got = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "y"));
		const float *is = rlx_buf_ptr(rlx_session_buf(c, RLX_IO_OUTPUT, "y"));

		fill(s, (uint64_t)rows);
		fill(c, (uint64_t)rows);
		CHECK_EQ(rlx_session_extent(s, rows, ROWS), 0);
		poison(s);
		run(s);
		run(c);
		for (k = 0; k < rows * WIDTH; k++)
			CHECKF(fabsf(got[k] - is[k]) <= 1e-4f * (1 + fabsf(is[k])),
			       "%lld rows: [%lld] is %g, not %g", (long long)rows, (long long)k,
			       (double)got[k], (double)is[k]);
	}
	rlx_session_free(s);
	rlx_session_free(c);
}

/* Bad data in one stream: the run fails with its message, and the next one does not. */
TEST(bad_data_in_a_lane)
{
	struct rlx_graph *g = rlx_graph_new("bad");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, WIDTH)), sum = x, y;
	struct rlx_session *s;
	uint64_t seed = 6;
	char name[8];
	int64_t *idx[3];
	int i, k;

	for (i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "i%d", i);
		y = rlx_emit(g, gather, .x = chain(g, x, 3, &seed), .axis = 0,
			     .indices = rlx_input(g, name, rlx_type(RLX_I64, ROWS)));
		sum = rlx_emit(g, add, .a = sum, .b = chain(g, y, 3, &seed));
	}
	rlx_output(g, "y", sum);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	s = session_of(g, op_case_gpu(), 0);
	rlx_graph_put(g);
	CHECK_EQ(code_of(s)->n_stream, 3);
	for (i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "i%d", i);
		idx[i] = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, name));
		for (k = 0; k < ROWS; k++)
			idx[i][k] = k;
	}
	memset(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x")), 0,
	       ROWS * WIDTH * sizeof(float));
	run(s);
	for (i = 0; i < 3; i++) {
		idx[i][2] = ROWS;
		CHECK_EQ(rlx_session_run(s), RLX_ERANGE);
		CHECKF(strstr(rlx_session_error(s)->text, "gather"), "%s",
		       rlx_session_error(s)->text);
		idx[i][2] = 2;
		run(s);
	}
	rlx_session_free(s);
}

TEST_MAIN()
