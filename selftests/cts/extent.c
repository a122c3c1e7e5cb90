// SPDX-License-Identifier: MIT
/*
 * The active extent on cpu: the first rows are as in a full run though the other
 * rows of the inputs are NaN, and a later full run is full again.
 */
#include "selftests/lib/checked_rows.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

enum { UPPER = 8, POISON = 0xa5 };

static struct rlx_session *session(struct rlx_graph *g, unsigned int threads)
{
	return rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = "cpu",
		.threads = threads });
}

static size_t bytes_of(struct rlx_session *s, unsigned int i)
{
	return (size_t)rlx_type_bytes(rlx_program_io_type(rlx_session_program(s),
							  RLX_IO_OUTPUT, i));
}

static unsigned char *output(struct rlx_session *s, unsigned int i)
{
	const char *name = rlx_program_io_name(rlx_session_program(s), RLX_IO_OUTPUT, i);

	return rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, name));
}

static void run(struct rlx_session *s)
{
	unsigned int i, n = rlx_program_io_count(rlx_session_program(s), RLX_IO_OUTPUT);

	for (i = 0; i < n; i++)
		memset(output(s, i), POISON, bytes_of(s, i));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
}

/* Rows of the inputs from @first on hold no numbers. */
static void spoil(struct rlx_session *s, int64_t first)
{
	struct rlx_program *p = rlx_session_program(s);
	unsigned int i;

	for (i = 0; i < rlx_program_io_count(p, RLX_IO_INPUT); i++) {
		const char *name = rlx_program_io_name(p, RLX_IO_INPUT, i);
		struct rlx_buf b = rlx_session_buf(s, RLX_IO_INPUT, name);
		int64_t n = rlx_type_count(rlx_program_io_type(p, RLX_IO_INPUT, i)), k;
		float *x = rlx_buf_ptr(b);

		for (k = n / UPPER * first; k < n; k++)
			x[k] = NAN;
	}
}

/* @exact: rows beyond the extent must stay as they were. */
static void check(struct rlx_session *s, int64_t actual, bool exact)
{
	struct rlx_program *p = rlx_session_program(s);
	unsigned int i, n = rlx_program_io_count(p, RLX_IO_OUTPUT);
	unsigned char *full[8];
	size_t k, part;

	CHECK_EQ(rlx_session_extent(s, 0, UPPER), 0);
	CHECK_EQ(small_net_fill(s, 77), 0);
	run(s);
	for (i = 0; i < n; i++) {
		full[i] = malloc(bytes_of(s, i));
		CHECK(full[i]);
		memcpy(full[i], output(s, i), bytes_of(s, i));
	}
	spoil(s, actual);
	CHECK_EQ(rlx_session_extent(s, actual, UPPER), 0);
	run(s);
	for (i = 0; i < n; i++) {
		const unsigned char *got = output(s, i);

		part = bytes_of(s, i) / UPPER * (size_t)actual;
		CHECKF(!memcmp(got, full[i], part), "%s: the first %lld rows differ",
		       rlx_program_io_name(p, RLX_IO_OUTPUT, i), (long long)actual);
		for (k = part; exact && k < bytes_of(s, i); k++)
			CHECKF(got[k] == POISON, "%s: byte %zu was written",
			       rlx_program_io_name(p, RLX_IO_OUTPUT, i), k);
	}
	CHECK_EQ(rlx_session_extent(s, 0, UPPER), 0);
	CHECK_EQ(small_net_fill(s, 77), 0);
	run(s);
	for (i = 0; i < n; i++) {
		CHECK(!memcmp(output(s, i), full[i], bytes_of(s, i)));
		free(full[i]);
	}
}

static void check_part(unsigned int parts, bool exact)
{
	unsigned int threads;
	int64_t actual;

	for (threads = 1; threads <= 2; threads++) {
		struct rlx_session *s = session(small_net(parts, UPPER), threads);

		for (actual = 1; actual < UPPER; actual++)
			check(s, actual, exact);
		rlx_session_free(s);
	}
}

TEST(mlp)
{
	check_part(SMALL_NET_MLP, true);
}

TEST(attention)
{
	check_part(SMALL_NET_ATTN, true);
}

TEST(norm)
{
	check_part(SMALL_NET_NORM, true);
}

TEST(conv)
{
	check_part(SMALL_NET_CONV, false);
}

TEST(elementwise)
{
	check_part(SMALL_NET_EW, false);
}

/* Rows of parts that lie side by side, as one step; the last part is of one unit a row. */
TEST(joined_chains)
{
	struct rlx_graph *g = rlx_graph_new("joined");
	rlx_value v[3];
	struct rlx_session *s;
	char name[8];
	int i;

	for (i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "x%d", i);
		v[i] = rlx_input(g, name, rlx_type(RLX_F32, UPPER, 2, i < 2 ? 1500 : 300));
		v[i] = rlx_emit(g, sub, .a = v[i], .b = rlx_scalar_const(g, RLX_F32, 0.5));
		v[i] = rlx_emit(g, relu, .x = v[i]);
	}
	rlx_output(g, "y", rlx_emit(g, concat, .axis = 2, .xs = { v, 3 }));
	s = session(g, 2);
	CHECK_EQ(rig_count(rlx_program_graph(rlx_session_program(s)), RLX_OP_region), 1);
	check(s, 3, true);
	check(s, UPPER, true);
	rlx_session_free(s);
}

TEST(moves_are_computed_whole)
{
	check_part(SMALL_NET_MOVE, false);
}

/* A copy to an output and a step on the host are calls without rows. */
TEST(all_with_host_steps)
{
	check_part(SMALL_NET_ALL, false);
}

/*
 * Products of many sizes: fewer rows may be cut into taller blocks than all of
 * them, which needs more scratch than all of them do.
 */
TEST(products_of_many_sizes)
{
	static const int64_t sizes[][3] = {	/* rows of one item, k, n */
		{ 1, 8, 8 }, { 7, 64, 2048 }, { 13, 300, 1030 }, { 50, 40, 3000 },
	};
	unsigned int c;
	int64_t i;

	for (c = 0; c < sizeof(sizes) / sizeof(sizes[0]); c++) {
		int64_t m = sizes[c][0] * UPPER, k = sizes[c][1], n = sizes[c][2];
		struct rlx_graph *g = rlx_graph_new("product");
		rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, m, k));
		float *w = malloc((size_t)(k * n) * sizeof(*w));
		uint64_t seed = 5;
		struct rlx_session *s;

		CHECK(w);
		for (i = 0; i < k * n; i++)
			w[i] = (float)rlx_test_uniform(&seed, -1, 1);
		rlx_output(g, "y", rlx_emit(g, matmul, .a = x,
				.b = rlx_constant(g, rlx_type(RLX_F32, k, n), w)));
		free(w);
		s = session(g, 2);
		check(s, 7, true);
		check(s, 3, true);
		rlx_session_free(s);
	}
}

/* Rows of a weight are not rows of data, however many there are. */
TEST(weights_are_computed_whole)
{
	struct rlx_graph *g = rlx_graph_new("weights");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, UPPER, 6));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 2 * UPPER, 6));
	rlx_value t = rlx_emit(g, transpose, .x = x, .perm = RLX_INTS(1, 0));
	struct rlx_session *s;
	float full[2 * UPPER][UPPER], *y;
	int i, j;

	rlx_output(g, "y", rlx_emit(g, matmul, .a = rlx_emit(g, exp, .x = w), .b = t));
	s = session(g, 1);
	CHECK_EQ(small_net_fill(s, 3), 0);
	run(s);
	y = (float *)(void *)output(s, 0);
	memcpy(full, y, sizeof(full));
	spoil(s, 3);
	CHECK_EQ(rlx_session_extent(s, 3, UPPER), 0);
	run(s);
	for (i = 0; i < 2 * UPPER; i++)
		for (j = 0; j < 3; j++)
			CHECKF(y[i * UPPER + j] == full[i][j], "row %d, column %d", i, j);
	rlx_session_free(s);
}

TEST(bad_extents_are_refused)
{
	struct rlx_session *s = session(small_net(SMALL_NET_MLP, UPPER), 1);

	CHECK_EQ(rlx_session_extent(s, 9, UPPER), RLX_ERANGE);
	CHECK_EQ(rlx_session_extent(s, -1, UPPER), RLX_ERANGE);
	CHECK_EQ(rlx_session_extent(s, 0, 0), RLX_ERANGE);
	CHECK_EQ(rlx_session_extent(NULL, 1, 2), RLX_EINVAL);
	check(s, 3, true);
	rlx_session_free(s);
}

/* An extent that no input has rows for would be a full run: it is said, and nothing changes. */
TEST(an_extent_of_no_input_is_refused)
{
	struct rlx_graph *g = rlx_graph_new("rows");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, UPPER, 2)), k;
	float in[UPPER][2], eye[2][2] = { { 1, 0 }, { 0, 1 } };
	struct rlx_session *s;
	int i;

	k = rlx_input(g, "k", rlx_type(RLX_F32, 2, 2));
	rlx_output(g, "y", rlx_emit(g, matmul, .a = x, .b = k));
	s = session(g, 1);
	for (i = 0; i < UPPER; i++)
		in[i][0] = in[i][1] = (float)i;
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, UPPER, 2), in), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "k", rlx_type(RLX_F32, 2, 2), eye), 0);
	CHECK_EQ(rlx_session_extent(s, 3, UPPER), 0);
	for (i = 3; i <= 5; i += 2) {	/* all of the rows as well */
		CHECK_EQ(rlx_session_extent(s, i, 5), RLX_ESHAPE);
		CHECKF(strstr(rlx_session_error(s)->text, " of 5") &&
		       strstr(rlx_session_error(s)->text, "x f32[8,2], k f32[2,2]"), "%s",
		       rlx_session_error(s)->text);
	}
	CHECK_EQ(rlx_session_extent(s, 1, 2 * UPPER), RLX_ESHAPE);
	run(s);
	CHECK(!memcmp(output(s, 0), in, 3 * sizeof(in[0])));
	for (i = 3 * sizeof(in[0]); i < (int)sizeof(in); i++)
		CHECKF(output(s, 0)[i] == POISON, "byte %d was written", i);
	CHECK_EQ(rlx_session_extent(s, 0, 5), 0);	/* off */
	CHECK_EQ(rlx_session_extent(s, 1, 4), 0);	/* rows in multiples */
	rlx_session_free(s);
}

/* What rows without data hold is no fault, whatever op would look at it. */
TEST(steps_that_check_what_they_read)
{
	checked_rows("cpu");
	checked_rows("ref");
}

TEST_MAIN()
