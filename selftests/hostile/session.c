// SPDX-License-Identifier: MIT
/* Bad bindings, names and data at run time: told by name, and the session lives. */
#include <math.h>
#include <unistd.h>

#include "selftests/lib/changing.h"
#include "selftests/lib/host_op.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

static const char *const devices[] = { "cpu", "ref" };

static struct rlx_session *session(struct rlx_graph *g, const char *device)
{
	return rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = device });
}

static struct rlx_arena *arena(uint64_t bytes)
{
	struct rlx_arena_opts o = { .size = bytes };
	struct rlx_arena *a = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_arena_new(&o, &a, &err), "%s", err.text);
	return a;
}

/* y = -x and z = x + x over 64 floats */
static struct rlx_graph *two_outputs(void)
{
	struct rlx_graph *g = rlx_graph_new("two");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 64));

	rlx_output(g, "y", rlx_emit(g, neg, .x = x));
	rlx_output(g, "z", rlx_emit(g, add, .a = x, .b = x));
	return g;
}

static struct rlx_buf part(struct rlx_arena *a, uint64_t at, uint64_t bytes)
{
	return (struct rlx_buf){ a, at, bytes };
}

static void failed(struct rlx_session *s, enum rlx_status got, enum rlx_status want,
		   const char *word)
{
	const struct rlx_error *e = rlx_session_error(s);

	CHECKF(got == want && e->status == want, "%s, not %s: %s", rlx_status_name(got),
	       rlx_status_name(want), e->text);
	CHECKF(strstr(e->text, word), "'%s' is not in: %s", word, e->text);
}

TEST(overlaps_in_part_are_refused)
{
	unsigned int d;

	for (d = 0; d < 2; d++) {
		struct rlx_session *s = session(two_outputs(), devices[d]);
		struct rlx_arena *a = arena(4096);
		float *x = rlx_arena_base(a);
		int i;

		for (i = 0; i < 64; i++)
			x[i] = (float)i;
		CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", part(a, 0, 256)), 0);
		CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", part(a, 64, 256)), 0);
		failed(s, rlx_session_run(s), RLX_EINVAL, "'x' and output 'y'");
		CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", part(a, 512, 256)), 0);
		CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "z", part(a, 576, 256)), 0);
		failed(s, rlx_session_run(s), RLX_EINVAL, "'y' and output 'z'");
		/* the whole of it is fine, and the input is then read first */
		CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", part(a, 0, 256)), 0);
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		for (i = 0; i < 64; i++) {
			CHECK_EQ(x[i], -i);
			CHECK_EQ(x[144 + i], 2 * i);
		}
		rlx_session_free(s);
		rlx_arena_put(a);
	}
}

TEST(an_output_over_a_param_is_refused)
{
	struct rlx_graph *g = rlx_graph_new("param");
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 64));
	struct rlx_arena *a = arena(4096);
	struct rlx_session *s;

	rlx_output(g, "y", rlx_emit(g, neg, .x = w));
	s = session(g, "cpu");
	CHECK_EQ(rlx_session_bind(s, RLX_IO_PARAM, "w", part(a, 0, 256)), 0);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", part(a, 0, 256)), 0);
	failed(s, rlx_session_run(s), RLX_EINVAL, "param 'w' and output 'y'");
	CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", part(a, 128, 256)), 0);
	failed(s, rlx_session_run(s), RLX_EINVAL, "param 'w' and output 'y'");
	CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", part(a, 256, 256)), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	rlx_session_free(s);
	rlx_arena_put(a);
}

TEST(buffers_that_cannot_be)
{
	struct rlx_session *s = session(two_outputs(), "cpu");
	struct rlx_arena *a = arena(4096), *ro = NULL;
	struct rlx_error err = { 0 };
	int fd = -1;

	CHECK_EQ(rlx_arena_dup_readonly(a, &fd, &err), 0);
	CHECKF(!rlx_arena_open_fd(fd, RLX_ARENA_RDONLY | RLX_ARENA_UNSEALED, &ro, &err),
	       "%s", err.text);
	close(fd);
	failed(s, rlx_session_bind(s, RLX_IO_OUTPUT, "y", part(ro, 0, 256)), RLX_EACCES, "'y'");
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", part(ro, 0, 256)), 0);
	failed(s, rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 64), &fd),
	       RLX_EACCES, "'x'");
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	failed(s, rlx_session_bind(s, RLX_IO_INPUT, "x", part(a, 4000, 256)), RLX_EINVAL, "'x'");
	failed(s, rlx_session_bind(s, RLX_IO_INPUT, "x", part(a, UINT64_MAX - 63, 256)),
	       RLX_EINVAL, "'x'");
	failed(s, rlx_session_bind(s, RLX_IO_INPUT, "x", part(a, 0, UINT64_MAX)),
	       RLX_EINVAL, "'x'");
	failed(s, rlx_session_bind(s, RLX_IO_INPUT, "x", part(a, 0, 255)), RLX_ERANGE, "'x'");
	failed(s, rlx_session_bind(s, RLX_IO_INPUT, "x", part(a, 2, 256)), RLX_ERANGE,
	       "'x': the buffer begins 2 past a 4-byte boundary");
	failed(s, rlx_session_bind(s, (enum rlx_io)7, "x", part(a, 0, 256)), RLX_EINVAL, "io");
	failed(s, rlx_session_bind(s, RLX_IO_INPUT, NULL, part(a, 0, 256)), RLX_EINVAL, "name");
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	rlx_session_free(s);
	rlx_arena_put(ro);
	rlx_arena_put(a);
}

TEST(names_rows_and_waits)
{
	struct rlx_session *s = session(two_outputs(), "cpu");
	const char *const none[] = { NULL };
	float v[64] = { 0 };
	uint64_t point;

	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 64), v), 0);
	CHECK_EQ(rlx_session_run(s), 0);
	failed(s, rlx_session_rows(s, "y", INT64_MAX, 1, v, 4), RLX_ERANGE, "'y'");
	failed(s, rlx_session_rows(s, "y", -1, 1, v, 4), RLX_ERANGE, "'y'");
	failed(s, rlx_session_rows(s, "y", 0, INT64_MAX, v, 4), RLX_ERANGE, "'y'");
	failed(s, rlx_session_rows(s, "y", 1, INT64_MIN, v, 4), RLX_ERANGE, "'y'");
	failed(s, rlx_session_rows(s, "y", 0, 2, v, 4), RLX_ERANGE, "room");
	failed(s, rlx_session_rows(s, "x", 0, 1, v, 4), RLX_ENOENT, "'x'");
	failed(s, rlx_session_want(s, none, 1), RLX_EINVAL, "name");
	failed(s, rlx_session_feed(s, "x", "x"), RLX_ENOENT, "'x'");
	failed(s, rlx_session_feed(s, "y", NULL), RLX_EINVAL, "name");
	failed(s, rlx_session_set(s, RLX_IO_INPUT, "x", (struct rlx_type){ RLX_F32, 200 }, v),
	       RLX_ESHAPE, "'x'");
	failed(s, rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 64), NULL),
	       RLX_EINVAL, "'x'");
	failed(s, rlx_session_wait(s, 0, -1), RLX_EINVAL, "no point 0, nothing was submitted");
	failed(s, rlx_session_wait(s, 99, -1), RLX_EINVAL, "no point 99, nothing was submitted");
	failed(s, rlx_session_submit(s, NULL), RLX_EINVAL, "point");
	CHECK_EQ(rlx_session_submit(s, &point), 0);
	CHECK_EQ(rlx_session_wait(s, point, INT64_MAX), 0);
	failed(s, rlx_session_wait(s, point + 1, -1), RLX_EINVAL,
	       "no point 2, the last run submitted is 1; wait for");
	failed(s, rlx_session_wait(s, 0, -1), RLX_EINVAL, "no point 0, the last");
	CHECK_EQ(rlx_session_wait(s, point, -1), 0);	/* again: still the same */
	CHECK_EQ(rlx_session_error(s)->status, RLX_OK);
	rlx_session_free(s);
}

/* Bad indices are met in the run: the op, the caller's line, and the next run. */
TEST(indices_out_of_range)
{
	static const int64_t bad[] = { 5, -6, INT64_MAX, INT64_MIN };
	unsigned int d, k;

	for (d = 0; d < 2; d++) {
		struct rlx_graph *g = rlx_graph_new("pick");
		rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 5, 3));
		rlx_value i = rlx_input(g, "i", rlx_type(RLX_I64, 4));
		struct rlx_type ti = rlx_type(RLX_I64, 4), ty = rlx_type(RLX_F32, 4, 3);
		int64_t idx[4] = { 0, 4, -5, -1 };
		float table[15], y[12];
		unsigned int line = __LINE__ + 1, j;
		rlx_value y0 = rlx_emit(g, gather, .x = x, .indices = i, .axis = 0);
		struct rlx_session *s;

		rlx_output(g, "y", y0);
		s = session(g, devices[d]);
		for (j = 0; j < 15; j++)
			table[j] = (float)j;
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 5, 3), table), 0);
		for (k = 0; k < 4; k++) {
			const struct rlx_error *e = rlx_session_error(s);

			idx[2] = bad[k];
			CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "i", ti, idx), 0);
			failed(s, rlx_session_run(s), RLX_ERANGE, "gather");
			CHECKF(e->line == line && e->file && strstr(e->file, "session.c"),
			       "%s: %s:%u", devices[d], e->file ? e->file : "?", e->line);
			idx[2] = -5;
			CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "i", ti, idx), 0);
			CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
			CHECK_EQ(e->status, 0);
			CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", ty, y), 0);
			for (j = 0; j < 3; j++)
				CHECK(y[j] == (float)j && y[3 + j] == (float)(12 + j) &&
				      y[6 + j] == (float)j && y[9 + j] == (float)(12 + j));
		}
		rlx_session_free(s);
	}
}

TEST(indices_that_change_meanwhile)
{
	changing_indices("cpu", false, 1000);
	changing_indices("cpu", true, 1000);
}

TEST(a_strict_session_copies_nothing)
{
	struct rlx_graph *g = two_outputs();
	struct rlx_session_opts o = { .size = sizeof(o), .strict = true };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	struct rlx_stats before, after;
	struct rlx_arena *a = arena(4096);
	float v[64] = { 0 };

	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECK_EQ(rlx_compile(g, NULL, &p, &err), 0);
	CHECK_EQ(rlx_session_new(p, &(struct rlx_session_opts){ .strict = true }, &s, &err),
		 RLX_EINVAL);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_session_new(p, &o, &s, &err), 0);
	rlx_stats_read(&before);
	failed(s, rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 64), v),
	       RLX_EACCES, "strict");
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", part(a, 0, 256)), 0);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", part(a, 0, 256)), 0);
	failed(s, rlx_session_run(s), RLX_EACCES, "strict");
	CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", part(a, 256, 256)), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	failed(s, rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 64), v),
	       RLX_EACCES, "strict");
	failed(s, rlx_session_rows(s, "y", 0, 1, v, 4), RLX_EACCES, "strict");
	rlx_stats_read(&after);
	CHECK_EQ(after.bytes_copied, before.bytes_copied);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	rlx_arena_put(a);
}

/* Where the host's steps work on the device's memory, nothing crosses. */
TEST(a_strict_session_with_steps_of_the_host)
{
	static const char *const all[] = { "cpu", "ref", "null" };
	struct rlx_session_opts o = { .size = sizeof(o), .strict = true };
	struct rlx_graph *g = rlx_graph_new("host");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 64)), n;
	struct rlx_program_info info;
	struct rlx_program *p;
	struct rlx_session *s;
	struct rlx_error err = { 0 };
	unsigned int d, i;
	float *v;

	n = host_op(g, rlx_emit(g, exp, .x = x));
	n = rlx_emit(g, reduce, .x = n, .kind = RLX_REDUCE_MAX);
	rlx_output(g, "y", rlx_emit(g, mul, .a = n, .b = n));
	CHECK_EQ(rlx_graph_finish(g), 0);
	for (d = 0; d < 3; d++) {
		struct rlx_compile_opts co = { .size = sizeof(co), .device = all[d] };

		CHECKF(!rlx_compile(g, &co, &p, &err), "%s", err.text);
		rlx_program_info(p, &info);
		CHECKF(d || info.host, "%s: all native", all[d]);
		CHECKF(!rlx_session_new(p, &o, &s, &err), "%s", err.text);
		v = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x"));
		for (i = 0; i < 64; i++)
			v[i] = (float)(i % 7);
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECK_EQ(rlx_session_transfers(s).in + rlx_session_transfers(s).out, 0);
		if (d < 2)
			CHECK(fabsf(*(float *)rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "y")) -
				    expf(12)) < 1);
		rlx_session_free(s);
		rlx_program_put(p);
	}
	rlx_graph_put(g);
}

/* An arena for the session that is too small, read-only, or used up. */
TEST(session_arenas_that_do_not_do)
{
	struct rlx_graph *g = small_net(SMALL_NET_NATIVE, 8);
	struct rlx_session_opts o = { .size = sizeof(o) };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st;

	CHECK_EQ(rlx_compile(g, NULL, &p, &err), 0);
	o.arena = arena(4096);
	st = rlx_session_new(p, &o, &s, &err);
	CHECKF(st == RLX_ERANGE || st == RLX_ENOMEM, "%s", rlx_status_name(st));
	CHECK(!s && err.text[0]);
	rlx_arena_put(o.arena);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST_MAIN()
