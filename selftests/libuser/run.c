// SPDX-License-Identifier: MIT
/* Compile and run small graphs on each backend through sessions. */
#include <stdlib.h>
#include <time.h>

#include "rlx/grad.h"
#include "rlx/run.h"
#include "selftests/lib/comma.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static const char *const devices[] = { "cpu", "ref" };

/* y = gelu(x w + b), z = 2 y + x0 */
static struct rlx_graph *small_graph(void)
{
	struct rlx_graph *g = rlx_graph_new("small");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4, 3));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 3, 5));
	rlx_value b = rlx_constant(g, rlx_type(RLX_F32, 5), ((float[]){ 1, 2, 3, 4, 5 }));
	rlx_value h = rlx_emit(g, add, .a = rlx_emit(g, matmul, .a = x, .b = w), .b = b);
	rlx_value y = rlx_emit(g, gelu, .x = h);

	rlx_output(g, "y", y);
	rlx_output(g, "z", rlx_emit(g, mul, .a = y, .b = rlx_scalar_const(g, RLX_F32, 2)));
	rlx_output(g, "same", x);
	return g;
}

static struct rlx_session *small_session(const char *device)
{
	return rig_session(small_graph(), &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = device });
}

static void fill_and_check(struct rlx_session *s)
{
	uint64_t seed = rlx_test_seed();
	float x[12], w[15], y[20], z[20], same[12];
	int i, j, k;

	for (i = 0; i < 12; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < 15; i++)
		w[i] = (float)rlx_test_uniform(&seed, -1, 1);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 4, 3), x), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", rlx_type(RLX_F32, 3, 5), w), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 4, 5), y), 0);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "z", rlx_type(RLX_F32, 4, 5), z), 0);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "same", rlx_type(RLX_F32, 4, 3), same), 0);
	for (i = 0; i < 4; i++)
		for (j = 0; j < 5; j++) {
			double h = j + 1, t;

			for (k = 0; k < 3; k++)
				h += (double)x[3 * i + k] * (double)w[5 * k + j];
			t = h * 0.5 * (1 + erf(h * M_SQRT1_2));
			CHECKF(fabs((double)y[5 * i + j] - t) < 1e-5, "y is %g, not %g",
			       (double)y[5 * i + j], t);
			CHECKF(fabs((double)z[5 * i + j] - 2 * t) < 2e-5, "z is %g, not %g",
			       (double)z[5 * i + j], 2 * t);
		}
	CHECK(!memcmp(x, same, sizeof(x)));
}

TEST(runs_on_every_backend)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct rlx_session *s = small_session(devices[i]);

		fill_and_check(s);
		fill_and_check(s);
		rlx_session_free(s);
	}
}

TEST(sessions_share_a_workspace)
{
	struct rlx_session *first = small_session("cpu"), *s[2];
	struct rlx_program *p = rlx_session_program(first);
	struct rlx_session_opts o = { .size = sizeof(o) };
	struct rlx_error err = { 0 };
	struct rlx_program_info info;
	struct rlx_arena *a;
	int i;

	rlx_program_info(p, &info);
	CHECK(info.work_bytes >= 64);
	CHECK(!rlx_arena_new(&(struct rlx_arena_opts){ .size = info.work_bytes + 64 }, &a, &err));
	o.work = (struct rlx_buf){ a, 32, info.work_bytes };
	CHECK_EQ(rlx_session_new(p, &o, &s[0], &err), RLX_ERANGE);
	o.work = (struct rlx_buf){ a, 0, info.work_bytes - 1 };
	CHECK_EQ(rlx_session_new(p, &o, &s[0], &err), RLX_ERANGE);
	o.work = (struct rlx_buf){ a, rlx_arena_size(a) - 64, info.work_bytes };
	CHECK_EQ(rlx_session_new(p, &o, &s[0], &err), RLX_ERANGE);
	o.work = rlx_buf_whole(a);
	memset(rlx_buf_ptr(o.work), 0x7f, o.work.bytes);
	for (i = 0; i < 2; i++)
		CHECKF(!rlx_session_new(p, &o, &s[i], &err), "%s", err.text);
	for (i = 0; i < 6; i++)
		fill_and_check(s[i % 2]);
	rlx_session_free(s[0]);
	rlx_arena_put(a);	/* the other holds it */
	fill_and_check(s[1]);
	rlx_session_free(s[1]);
	CHECK(!rlx_arena_new(&(struct rlx_arena_opts){ .size = info.work_bytes,
			     .provider = "memfd" }, &a, &err));
	CHECK(!rlx_arena_seal(a, RLX_SEAL_WRITE, &err));
	o.work = rlx_buf_whole(a);
	CHECK_EQ(rlx_session_new(p, &o, &s[0], &err), RLX_EACCES);
	rlx_arena_put(a);
	rlx_session_free(first);
}

TEST(clone_shares_params_and_nothing_else)
{
	struct rlx_session *s = small_session("cpu"), *c = NULL;
	struct rlx_error err = { 0 };
	float y[20], x[12] = { 1, 2, 3 }, first[20];

	fill_and_check(s);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 4, 5), first), 0);
	CHECKF(!rlx_session_clone(s, &c, &err), "%s", err.text);
	CHECK_EQ(rlx_session_run(c), RLX_EINVAL);
	CHECK(strstr(rlx_session_error(c)->text, "'x'"));
	CHECK_EQ(rlx_session_set(c, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 4, 3), x), 0);
	CHECKF(!rlx_session_run(c), "%s", rlx_session_error(c)->text);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 4, 5), y), 0);
	CHECK(!memcmp(first, y, sizeof(y)));
	rlx_session_free(s);
	CHECKF(!rlx_session_run(c), "%s", rlx_session_error(c)->text);
	rlx_session_free(c);
}

/* Whoever made the memory of params: it goes with the last session that has it. */
TEST(params_outlive_the_session_in_a_given_arena)
{
	struct rlx_session_opts o = { .size = sizeof(o) };
	struct rlx_session *first = small_session("cpu"), *s, *c = NULL, *d = NULL;
	struct rlx_error err = { 0 };
	struct rlx_program_info info;
	struct rlx_buf *rest;
	float y[20], want[20];
	unsigned int n, i;

	rlx_program_info(rlx_session_program(first), &info);
	CHECK(!rlx_arena_new(&(struct rlx_arena_opts){ .size = 4 * info.session_bytes + 65536 },
			     &o.arena, &err));
	CHECKF(!rlx_session_new(rlx_session_program(first), &o, &s, &err), "%s", err.text);
	fill_and_check(s);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 4, 5), want), 0);
	CHECKF(!rlx_session_clone_with(s, RLX_CLONE_STATES, &c, &err), "%s", err.text);
	CHECKF(!rlx_session_clone(c, &d, &err), "%s", err.text);
	CHECK_EQ(rlx_session_set(d, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 4, 3),
				 rlx_buf_ptr(rlx_session_bound(s, RLX_IO_INPUT, "x"))), 0);
	rlx_session_free(s);
	rlx_session_free(c);
	rest = calloc(rlx_arena_size(o.arena) / 64 + 1, sizeof(*rest));
	CHECK(rest);
	for (n = 0; !rlx_buf_new(o.arena, 64, 0, &rest[n], NULL); n++)
		memset(rlx_buf_ptr(rest[n]), 0x7f, 64);
	CHECKF(!rlx_session_run(d), "%s", rlx_session_error(d)->text);
	CHECK_EQ(rlx_session_get(d, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 4, 5), y), 0);
	CHECK(!memcmp(y, want, sizeof(y)));
	rlx_session_free(d);
	for (i = 0; i < n; i++)
		CHECK_EQ(rlx_buf_free(rest[i], NULL), 0);
	CHECK_EQ(rlx_buf_new(o.arena, rlx_arena_size(o.arena), 0, &rest[0], &err), 0);
	rlx_arena_put(o.arena);		/* all of it is free again */
	free(rest);
	rlx_session_free(first);
}

/* Is the last row of "y" as it was? */
static bool last_row_is_left(struct rlx_session *s, const float *x)
{
	float *y = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "y"));
	struct rlx_type t = rlx_type(RLX_F32, 512, 16);

	CHECK(y);
	memset(y, 0xa5, 512 * 16 * sizeof(*y));
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, x), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK(y[0] == 0);
	return *(unsigned char *)(y + 511 * 16) == 0xa5;
}

TEST(r005_clone_with_an_extent)
{
	struct rlx_graph *g = rlx_graph_new("rows");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 512, 16));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 16, 16));
	static const float zero[512 * 16];
	struct rlx_session *s, *c = NULL, *d = NULL;
	struct rlx_error err = { 0 };

	rlx_output(g, "y", rlx_emit(g, matmul, .a = x, .b = w));
	s = rig_session(g, &(struct rlx_compile_opts){ .size = sizeof(struct rlx_compile_opts),
						       .device = "cpu" });
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", rlx_type(RLX_F32, 16, 16), zero), 0);
	CHECK_EQ(rlx_session_extent(s, 1, 512), 0);
	CHECKF(!rlx_session_clone_with(s, RLX_CLONE_EXTENT, &c, &err), "%s", err.text);
	CHECKF(!rlx_session_clone_with(s, RLX_CLONE_FEEDS | RLX_CLONE_WANT | RLX_CLONE_STATES, &d,
				       &err), "%s", err.text);
	CHECK(last_row_is_left(s, zero) && last_row_is_left(c, zero));
	CHECK(!last_row_is_left(d, zero));
	CHECK_EQ(rlx_session_extent(c, 0, 512), 0);
	CHECK(!last_row_is_left(c, zero) && last_row_is_left(s, zero));
	rlx_session_free(s);
	rlx_session_free(c);
	c = (void *)1;
	CHECK_EQ(rlx_session_clone_with(d, 1u << 4, &c, &err), RLX_EINVAL);
	CHECK(strstr(err.text, "rlx_clone_flags") && c == (void *)1);
	rlx_session_free(d);
}

TEST(r005_no_clone_of_a_session_that_runs)
{
	struct rlx_session *s = small_session("cpu"), *c;
	struct rlx_error err = { 0 };
	enum rlx_status st = RLX_OK;
	uint64_t point;
	int i;

	fill_and_check(s);
	for (i = 0; i < 2000 && !st; i++) {
		c = NULL;
		CHECKF(!rlx_session_submit(s, &point), "%s", rlx_session_error(s)->text);
		st = rlx_session_clone_with(s, RLX_CLONE_WANT, &c, &err);
		CHECK(!c == !!st);
		rlx_session_free(c);
		CHECK_EQ(rlx_session_wait(s, point, -1), 0);
	}
	CHECKF(st == RLX_EBUSY && strstr(err.text, "is under way"), "%d: %s", st, err.text);
	rlx_session_free(s);
}

TEST(submit_and_wait)
{
	struct rlx_session *s = small_session("cpu");
	uint64_t point = 0;
	int i;

	fill_and_check(s);
	for (i = 0; i < 50; i++) {
		CHECKF(!rlx_session_submit(s, &point), "%s", rlx_session_error(s)->text);
		CHECK_EQ(rlx_session_wait(s, point, -1), 0);
	}
	CHECK_EQ(rlx_session_wait(s, point + 1, 0), RLX_EINVAL);
	rlx_session_free(s);
}

TEST(bad_names_types_and_sizes_are_named)
{
	struct rlx_session *s = small_session("cpu");
	struct rlx_buf b = rlx_session_buf(s, RLX_IO_INPUT, "x");
	float x[12] = { 0 };

	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "nope", rlx_type(RLX_F32, 4, 3), x), RLX_ENOENT);
	CHECK(strstr(rlx_session_error(s)->text, "'nope'"));
	CHECK(strstr(rlx_session_error(s)->text, "there is x"));
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 4, 4), x), RLX_ESHAPE);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_I32, 4, 3), x), RLX_ETYPE);
	CHECK_EQ(rlx_session_set(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 4, 5), x), RLX_EINVAL);
	b.bytes = 4;
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", b), RLX_ERANGE);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", (struct rlx_buf){ 0 }), RLX_EINVAL);
	CHECK_EQ(rlx_session_run(s), RLX_EINVAL);
	CHECK(strstr(rlx_session_error(s)->text, "'w'"));
	CHECK_EQ(rlx_session_rows(s, "y", 0, 5, x, sizeof(x)), RLX_EINVAL);
	CHECK_EQ(rlx_session_extent(s, 5, 4), RLX_ERANGE);
	CHECK_EQ(rlx_session_feed(s, "y", "x"), RLX_ESHAPE);
	rlx_session_free(s);
}

/* To look is not to give a value, nor memory; to ask for memory to write into is both. */
TEST(a_look_has_no_effect)
{
	struct rlx_session *s = small_session("cpu");
	struct rlx_stats before, after;
	struct rlx_buf b, own;
	float w[15] = { 1 };

	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", rlx_type(RLX_F32, 3, 5), w), 0);
	rlx_stats_read(&before);
	b = rlx_session_bound(s, RLX_IO_INPUT, "x");
	CHECK(!b.arena && !b.bytes && !rlx_session_error(s)->status);
	b = rlx_session_bound_at(s, RLX_IO_OUTPUT, 0);
	CHECK(!b.arena && !rlx_session_error(s)->status);
	CHECK_EQ(rlx_session_run(s), RLX_EINVAL);
	CHECK(strstr(rlx_session_error(s)->text, "'x' has no value"));
	rlx_stats_read(&after);
	CHECK_EQ(after.arenas_made, before.arenas_made);
	own = rlx_session_buf(s, RLX_IO_INPUT, "x");
	memset(rlx_buf_ptr(own), 0, own.bytes);
	b = rlx_session_bound(s, RLX_IO_INPUT, "x");
	CHECK(b.arena == own.arena && b.offset == own.offset && b.bytes == own.bytes);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	b = rlx_session_bound(s, RLX_IO_OUTPUT, "y");
	CHECK(fabsf(((float *)rlx_buf_ptr(b))[0] - 0.8413447f) < 1e-5f);
	CHECK(!rlx_session_bound(s, RLX_IO_OUTPUT, "nope").arena);
	CHECK_EQ(rlx_session_error(s)->status, RLX_ENOENT);
	CHECK(!rlx_session_bound(NULL, RLX_IO_OUTPUT, "y").arena);
	rlx_session_free(s);
}

static uint32_t where(struct rlx_session *s, enum rlx_io io, const char *name)
{
	uint32_t at = ~0u;

	CHECKF(!rlx_session_where(s, io, name, &at), "%s", rlx_session_error(s)->text);
	return at;
}

/* On devices that use the host's memory: all is there, and what was written is seen. */
static void where_and_touch_on(const char *device)
{
	struct rlx_session *s = small_session(device);
	float w[15] = { 1 }, x[12] = { 1, 2, 3 }, same[12];
	struct rlx_arena *a = NULL;
	struct rlx_buf b;
	uint32_t at;

	CHECK_EQ(rlx_arena_new(&(struct rlx_arena_opts){ .size = 4096 }, &a, NULL), 0);
	b = (struct rlx_buf){ a, 0, sizeof(x) };
	CHECK_EQ(where(s, RLX_IO_INPUT, "x") | where(s, RLX_IO_PARAM, "w"), 0);
	CHECK_EQ(rlx_session_touch(s, RLX_IO_INPUT, "x"), RLX_EINVAL);
	CHECK(strstr(rlx_session_error(s)->text, "'x' has no value"));
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", rlx_type(RLX_F32, 3, 5), w), 0);
	CHECK_EQ(rlx_session_bind_stable(s, RLX_IO_INPUT, "x", b), 0);
	memcpy(rlx_buf_ptr(b), x, sizeof(x));
	CHECK_EQ(where(s, RLX_IO_INPUT, "x"), RLX_WHERE_HOST);
	CHECK_EQ(where(s, RLX_IO_OUTPUT, "y"), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK_EQ(where(s, RLX_IO_OUTPUT, "y"), RLX_WHERE_HOST);
	CHECK_EQ(where(s, RLX_IO_PARAM, "w"), RLX_WHERE_HOST);
	CHECK_EQ(rlx_session_where_at(s, RLX_IO_INPUT, 0, &at), 0);
	CHECK_EQ(at, RLX_WHERE_HOST);
	x[11] = 7;
	memcpy(rlx_buf_ptr(b), x, sizeof(x));
	CHECK_EQ(rlx_session_touch_at(s, RLX_IO_INPUT, 0), 0);
	CHECK_EQ(rlx_session_touch(s, RLX_IO_PARAM, "w"), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "same", rlx_type(RLX_F32, 4, 3), same), 0);
	CHECK(!memcmp(x, same, sizeof(x)));
	CHECK_EQ(rlx_session_unbind(s), 0);
	CHECK_EQ(where(s, RLX_IO_INPUT, "x"), 0);
	rlx_session_free(s);
	rlx_arena_put(a);
}

/* What cannot be: each with a message, and nothing is changed. */
static void where_and_touch_refuse(void)
{
	struct rlx_session *s = small_session("cpu");
	struct rlx_buf small = { 0 };
	struct rlx_arena *a = NULL;
	uint32_t at = 77;

	CHECK_EQ(rlx_arena_new(&(struct rlx_arena_opts){ .size = 4096 }, &a, NULL), 0);
	CHECK_EQ(rlx_session_where(NULL, RLX_IO_INPUT, "x", &at), RLX_EINVAL);
	CHECK_EQ(rlx_session_where(s, RLX_IO_INPUT, "nope", &at), RLX_ENOENT);
	CHECK_EQ(rlx_session_where(s, (enum rlx_io)9, "x", &at), RLX_EINVAL);
	CHECK_EQ(rlx_session_where(s, RLX_IO_INPUT, NULL, &at), RLX_EINVAL);
	CHECK_EQ(rlx_session_where_at(s, RLX_IO_INPUT, 5, &at), RLX_ENOENT);
	CHECK_EQ(at, 77);
	CHECK_EQ(rlx_session_where(s, RLX_IO_INPUT, "x", NULL), RLX_EINVAL);
	CHECK(strstr(rlx_session_error(s)->text, "'x'"));
	CHECK_EQ(rlx_session_touch(NULL, RLX_IO_INPUT, "x"), RLX_EINVAL);
	CHECK_EQ(rlx_session_touch(s, RLX_IO_INPUT, "nope"), RLX_ENOENT);
	CHECK_EQ(rlx_session_touch(s, RLX_IO_OUTPUT, "y"), RLX_EINVAL);
	CHECK(strstr(rlx_session_error(s)->text, "output 'y' is what runs write"));
	CHECK_EQ(rlx_session_touch_at(s, RLX_IO_PARAM, 9), RLX_ENOENT);
	CHECK_EQ(rlx_session_bind_stable(NULL, RLX_IO_INPUT, "x", small), RLX_EINVAL);
	CHECK_EQ(rlx_session_bind_stable(s, RLX_IO_INPUT, "x", small), RLX_EINVAL);
	small = (struct rlx_buf){ a, 0, 8 };
	CHECK_EQ(rlx_session_bind_stable(s, RLX_IO_INPUT, "x", small), RLX_ERANGE);
	small.bytes = 4096;
	CHECK_EQ(rlx_session_bind_stable(s, RLX_IO_OUTPUT, "y", small), RLX_EINVAL);
	CHECK(strstr(rlx_session_error(s)->text, "cannot be stable: runs write to it"));
	CHECK_EQ(rlx_session_feed(s, "same", "x"), 0);
	CHECK_EQ(rlx_session_bind_stable_at(s, RLX_IO_INPUT, 0, small), RLX_EINVAL);
	CHECK(strstr(rlx_session_error(s)->text, "it is fed"));
	CHECK_EQ(rlx_session_feed(s, NULL, "x"), 0);
	CHECK_EQ(rlx_session_bind_stable_at(s, RLX_IO_INPUT, 0, small), 0);
	CHECK_EQ(rlx_session_bind_stable(s, RLX_IO_PARAM, "w", small), 0);
	rlx_session_free(s);
	rlx_arena_put(a);
}

TEST(where_and_touch)
{
	where_and_touch_on("cpu");
	where_and_touch_on("ref");
	where_and_touch_refuse();
}

/* What the calls by name do, by the index that the program enumerates. */
TEST(by_index)
{
	struct rlx_session *s = small_session("cpu");
	struct rlx_program *p = rlx_session_program(s);
	float x[12] = { 1 }, w[15] = { 1 }, y[20];
	struct rlx_buf buf, none;
	struct rlx_arena *a;
	int z = rlx_program_io_find(p, RLX_IO_OUTPUT, "z");

	CHECK_EQ(rlx_arena_new(&(struct rlx_arena_opts){ .size = 4096 }, &a, NULL), 0);
	CHECK_EQ(rlx_buf_new(a, sizeof(y), 64, &buf, NULL), 0);
	CHECK_EQ(z, 1);
	CHECK(rlx_type_equal(rlx_program_io_type(p, RLX_IO_OUTPUT, 1),
			     &(struct rlx_type){ RLX_F32, 2, { 4, 5 } }));
	CHECK_EQ(rlx_session_set_at(s, RLX_IO_INPUT, 0, rlx_type(RLX_F32, 4, 3), x), 0);
	CHECK_EQ(rlx_session_set_at(s, RLX_IO_PARAM, 0, rlx_type(RLX_F32, 3, 5), w), 0);
	CHECK_EQ(rlx_session_bind_at(s, RLX_IO_OUTPUT, 1, buf), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_get_at(s, RLX_IO_OUTPUT, 0, rlx_type(RLX_F32, 4, 5), y), 0);
	CHECK(fabsf(y[0] - 1.9544997f) < 1e-5f);	/* gelu(2) */
	CHECK_EQ(((float *)rlx_buf_ptr(buf))[0], 2 * y[0]);
	CHECK_EQ(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "z")), rlx_buf_ptr(buf));
	CHECK_EQ(rlx_buf_ptr(rlx_session_buf_at(s, RLX_IO_INPUT, 0)),
		 rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x")));
	CHECK_EQ(rlx_session_bind_at(s, RLX_IO_INPUT, 1, buf), RLX_ENOENT);
	CHECK(strstr(rlx_session_error(s)->text, "no input of index 1; there is 1"));
	CHECK_EQ(rlx_session_set_at(s, RLX_IO_PARAM, 9, rlx_type(RLX_F32, 3, 5), w), RLX_ENOENT);
	CHECK_EQ(rlx_session_get_at(s, RLX_IO_OUTPUT, 3, rlx_type(RLX_F32, 4, 5), y), RLX_ENOENT);
	CHECK(strstr(rlx_session_error(s)->text, "no output of index 3; there are 3"));
	CHECK_EQ(rlx_session_bind_at(s, (enum rlx_io)7, 0, buf), RLX_EINVAL);
	none = rlx_session_buf_at(s, RLX_IO_INPUT, 1);
	CHECK(!none.arena && rlx_session_error(s)->status == RLX_ENOENT);
	none = rlx_session_bound_at(s, RLX_IO_PARAM, 1);
	CHECK(!none.arena && rlx_session_error(s)->status == RLX_ENOENT);
	CHECK_EQ(rlx_session_bind_at(NULL, RLX_IO_INPUT, 0, buf), RLX_EINVAL);
	rlx_session_free(s);
	rlx_arena_put(a);
}

/* What was bound is let go, whatever the session had there before. */
TEST(unbind_keeps_nothing_of_the_caller)
{
	struct rlx_arena_opts o = { .size = 4096 };
	struct rlx_session *s = small_session("cpu");
	struct rlx_arena *mine = NULL;
	struct rlx_stats before, after;
	struct rlx_buf x, y, own;
	float w[15] = { 1 }, *v;

	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", rlx_type(RLX_F32, 3, 5), w), 0);
	own = rlx_session_buf(s, RLX_IO_OUTPUT, "y");
	rlx_stats_read(&before);
	CHECK_EQ(rlx_arena_new(&o, &mine, NULL), 0);
	CHECK_EQ(rlx_buf_new(mine, 48, 64, &x, NULL), 0);
	CHECK_EQ(rlx_buf_new(mine, 80, 64, &y, NULL), 0);
	v = rlx_buf_ptr(x);
	v[0] = 3;
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", x), 0);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", y), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK(fabsf(((float *)rlx_buf_ptr(y))[0] - 4) < 1e-3f);
	CHECK_EQ(rlx_session_unbind(s), 0);
	rlx_arena_put(mine);
	rlx_stats_read(&after);
	CHECK_EQ(after.arenas, before.arenas);
	/* The output has its own memory again, the input never had any. */
	CHECK_EQ(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "y")), rlx_buf_ptr(own));
	CHECK_EQ(rlx_session_run(s), RLX_EINVAL);
	CHECK(strstr(rlx_session_error(s)->text, "'x'"));
	v = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x"));
	memset(v, 0, 48);
	v[0] = 4;
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK(fabsf(((float *)rlx_buf_ptr(own))[0] - 5) < 1e-3f);
	CHECK_EQ(rlx_session_unbind(s), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	rlx_session_free(s);
}

/* x and its own doubling in one buffer: the program must read x first. */
TEST(an_output_may_be_an_input)
{
	struct rlx_graph *g = rlx_graph_new("alias");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 64));
	rlx_value e = rlx_emit(g, add, .a = x, .b = x);
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	struct rlx_buf b;
	float *v;
	int i;

	rlx_output(g, "y", rlx_emit(g, add, .a = e, .b = x));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECK_EQ(rlx_compile(g, NULL, &p, &err), 0);
	CHECK_EQ(rlx_session_new(p, NULL, &s, &err), 0);
	b = rlx_session_buf(s, RLX_IO_INPUT, "x");
	v = rlx_buf_ptr(b);
	for (i = 0; i < 64; i++)
		v[i] = (float)i;
	CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", b), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	for (i = 0; i < 64; i++)
		CHECK_EQ(v[i], 3 * i);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

TEST(feed_makes_an_output_the_next_input)
{
	struct rlx_graph *g = rlx_graph_new("count");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2));
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	float v[2] = { 0, 10 };
	int i;

	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = rlx_scalar_const(g, RLX_F32, 1)));
	rlx_output(g, "one", rlx_emit(g, reduce, .x = x, .kind = RLX_REDUCE_SUM));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECK_EQ(rlx_compile(g, NULL, &p, &err), 0);
	CHECK_EQ(rlx_session_new(p, NULL, &s, &err), 0);
	CHECK_EQ(rlx_session_feed(s, "y", "x"), 0);
	/* what fails leaves it as it is */
	CHECK_EQ(rlx_session_feed(s, "nothing", "x"), RLX_ENOENT);
	CHECK_EQ(rlx_session_feed(s, "one", "x"), RLX_ESHAPE);
	CHECK_EQ(rlx_session_feed(s, "y", "nothing"), RLX_ENOENT);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 2), v), 0);
	for (i = 0; i < 7; i++)
		CHECK_EQ(rlx_session_run(s), 0);
	CHECK_EQ(rlx_session_get(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 2), v), 0);
	CHECK_EQ(v[0], 7);
	CHECK_EQ(v[1], 17);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

/* y0 = x0 + w0, and so on. */
static struct rlx_session *wide_session(unsigned int n)
{
	struct rlx_graph *g = rlx_graph_new("wide");
	char name[16];
	unsigned int i;

	for (i = 0; i < n; i++) {
		rlx_value x, w;

		snprintf(name, sizeof(name), "x%u", i);
		x = rlx_input(g, name, rlx_type(RLX_F32, 16));
		snprintf(name, sizeof(name), "w%u", i);
		w = rlx_param(g, name, rlx_type(RLX_F32, 16));
		snprintf(name, sizeof(name), "y%u", i);
		rlx_output(g, name, rlx_emit(g, add, .a = x, .b = w));
	}
	return rig_session(g, &(struct rlx_compile_opts){ .size = sizeof(struct rlx_compile_opts),
							  .device = "cpu" });
}

/* The least clocks of runs after a binding of one input. */
static clock_t bind_and_run(unsigned int n)
{
	static const float zero[16];
	struct rlx_session *s = wide_session(n);
	clock_t begun, least = 0;
	struct rlx_arena *a;
	unsigned int i;
	int io;

	CHECK(!rlx_arena_new(&(struct rlx_arena_opts){ .size = 64 }, &a, NULL));
	for (io = RLX_IO_INPUT; io <= RLX_IO_PARAM; io++)
		for (i = 0; i < n; i++)
			CHECK_EQ(rlx_session_set_at(s, io, i, rlx_type(RLX_F32, 16), zero), 0);
	for (i = 0; i < 3; i++) {
		CHECK_EQ(rlx_session_bind_at(s, RLX_IO_INPUT, 0, rlx_buf_whole(a)), 0);
		begun = clock();
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		begun = clock() - begun;
		least = i && least < begun ? least : begun;
	}
	rlx_session_free(s);
	rlx_arena_put(a);
	return least;
}

/* Do 64 bytes at @a have some of those at @b, but not all? */
static bool in_part(uint64_t a, uint64_t b)
{
	return a != b && (a < b ? b - a : a - b) < 64;
}

/* Bound anywhere: what overlaps is refused, but for an input that is all of an output. */
TEST(overlaps_anywhere)
{
	enum { N = 5, ROUNDS = 20000 };
	struct rlx_session *s = wide_session(N);
	uint64_t seed = rlx_test_seed(), at[3][N];
	unsigned int round, i, k, bad, ran = 0;
	struct rlx_arena *a;
	int io;

	CHECK(!rlx_arena_new(&(struct rlx_arena_opts){ .size = 16384 }, &a, NULL));
	memset(rlx_arena_base(a), 0, 16384);
	for (round = 0; round < ROUNDS; round++) {
		for (io = 0; io < 3; io++)
			for (i = 0; i < N; i++) {
				at[io][i] = rlx_test_rand(&seed) % 250 * 64 +
					    (rlx_test_rand(&seed) % 4 ? 0 : 16);
				CHECK_EQ(rlx_session_bind_at(s, io, i, (struct rlx_buf){ a,
							     at[io][i], 64 }), 0);
			}
		for (i = bad = 0; i < N; i++)
			for (k = 0; k < N; k++) {
				uint64_t o = at[RLX_IO_OUTPUT][i];

				bad += k != i && (o == at[RLX_IO_OUTPUT][k] ||
						  in_part(o, at[RLX_IO_OUTPUT][k]));
				bad += o == at[RLX_IO_PARAM][k] || in_part(o, at[RLX_IO_PARAM][k]);
				bad += in_part(o, at[RLX_IO_INPUT][k]);
			}
		CHECKF(rlx_session_run(s) == (bad ? RLX_EINVAL : RLX_OK), "%u overlap, and: %s",
		       bad, rlx_session_error(s)->text);
		ran += !bad;
	}
	CHECKF(ran > ROUNDS / 10 && ran < ROUNDS / 10 * 9, "%u of %u ran", ran, round);
	rlx_session_free(s);
	rlx_arena_put(a);
}

TEST(run_after_a_bind_is_not_quadratic)
{
	clock_t few = bind_and_run(500), many = bind_and_run(8000);

	CHECKF(many < 64 * few + CLOCKS_PER_SEC / 50, "%ld and %ld clocks", (long)few, (long)many);
}

/* What an output becomes is written to in the run after. */
TEST(feed_and_an_arena_that_is_read_only)
{
	struct rlx_arena_opts o = { .size = 4096 };
	struct rlx_graph *g = rlx_graph_new("count");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2));
	struct rlx_arena *a, *readonly;
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	struct rlx_buf b;

	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = rlx_scalar_const(g, RLX_F32, 1)));
	s = rig_session(g, NULL);
	CHECK_EQ(rlx_arena_new(&o, &a, &err), 0);
	CHECKF(!rlx_arena_open_fd(rlx_arena_fd(a), RLX_ARENA_RDONLY, &readonly, &err), "%s",
	       err.text);
	b = (struct rlx_buf){ readonly, 0, 4096 };
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", b), 0);
	CHECK_EQ(rlx_session_feed(s, "y", "x"), RLX_EACCES);
	CHECK_EQ(rlx_session_unbind(s), 0);
	CHECK_EQ(rlx_session_feed(s, "y", "x"), 0);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", b), RLX_EACCES);
	CHECK_EQ(rlx_session_feed(s, NULL, "x"), 0);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", b), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	rlx_session_free(s);
	rlx_arena_put(readonly);
	rlx_arena_put(a);
}

TEST(only_wanted_outputs_are_computed)
{
	struct rlx_session *s = small_session("cpu");
	const char *y[] = { "y" }, *bad[] = { "y", "nope" };
	float z[20], poison[20];
	int i;

	fill_and_check(s);
	for (i = 0; i < 20; i++)
		poison[i] = -77;
	memcpy(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "z")), poison, sizeof(poison));
	memcpy(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "y")), poison, sizeof(poison));
	CHECK_EQ(rlx_session_want(s, bad, 2), RLX_ENOENT);
	CHECK_EQ(rlx_session_want(s, y, 1), 0);
	CHECK_EQ(rlx_session_run(s), 0);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "z", rlx_type(RLX_F32, 4, 5), z), 0);
	CHECK(!memcmp(z, poison, sizeof(z)));
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 4, 5), z), 0);
	CHECK(memcmp(z, poison, sizeof(z)));
	rlx_session_free(s);
}

/* The second step writes over what the first one made, and the output is a view of that. */
TEST(a_wanted_view_of_what_is_written_in_place_is_computed)
{
	struct rlx_graph *g = rlx_graph_new("view");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	rlx_value w = rlx_constant(g, rlx_type(RLX_F32, 3, 2), ((float[]){ 1, 2, 3, 4, 5, 6 }));
	rlx_value y = rlx_emit(g, softmax, .x = rlx_emit(g, matmul, .a = x, .b = w), .axis = -1);
	const float in[] = { 0, 0, 0, 0, 0, 0 };
	const char *want[] = { "y" };
	struct rlx_session *s;
	float out[4];
	int i, d;

	rlx_output(g, "y", rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(4)));
	rlx_output(g, "z", rlx_emit(g, exp, .x = x));
	for (d = 0; d < 2; d++) {
		s = rig_session(rlx_graph_get(g), &(struct rlx_compile_opts){
			.size = sizeof(struct rlx_compile_opts), .device = devices[d] });
		CHECK_EQ(rlx_session_want(s, want, 1), 0);
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 2, 3), in), 0);
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 4), out), 0);
		for (i = 0; i < 4; i++)
			CHECKF(fabsf(out[i] - 0.5f) < 1e-6f, "%s: y[%d] is %g", devices[d], i,
			       (double)out[i]);
		rlx_session_free(s);
	}
	rlx_graph_put(g);
}

TEST(text_form_round_trips)
{
	struct rlx_graph *g = small_graph(), *back = NULL;
	struct rlx_error err = { 0 };
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECK_EQ(rlx_graph_print(g, f, false), 0);
	fclose(f);
	CHECKF(!rlx_graph_parse(text, len, &back, &err), "%s in\n%s", err.text, text);
	CHECK(rlx_graph_hash(g) == rlx_graph_hash(back));
	rlx_graph_put(back);
	text[strcspn(text, "%")] = '!';
	CHECK_EQ(rlx_graph_parse(text, len, &back, &err), RLX_EPARSE);
	CHECK(strstr(err.text, "line 2"));
	free(text);
	rlx_graph_put(g);
}

static char *text_of(const struct rlx_graph *g, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	CHECK_EQ(rlx_graph_print(g, f, false), 0);
	fclose(f);
	return text;
}

/* z = sqrt(sqrt(softcap(x, 2.5))), and dz/dx, whose rules have numbers in them */
static struct rlx_graph *numbers_graph(void)
{
	struct rlx_graph *g = rlx_graph_new("numbers"), *grad = NULL;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1)), root;
	struct rlx_error err = { 0 };

	root = rlx_emit(g, pow, .a = rlx_emit(g, softcap, .x = x, .cap = 2.5f),
			.b = rlx_scalar_const(g, RLX_F32, 0.5));
	rlx_output(g, "z", rlx_emit(g, sqrt, .x = root));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECKF(!rlx_graph_grad(g, &x, 1, &grad, &err), "%s", err.text);
	rlx_graph_put(g);
	return grad;
}

static float gradient_of(struct rlx_graph *g)
{
	struct rlx_session *s = rig_session(rlx_graph_get(g), &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = "ref" });
	float x = 1.25f, d;

	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 1), &x), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_get_at(s, RLX_IO_OUTPUT, 1, rlx_type(RLX_F32, 1), &d), 0);
	rlx_session_free(s);
	return d;
}

TEST(decimal_comma)
{
	char dir[] = "/tmp/rlx-run-XXXXXX", *want, *have;
	struct rlx_graph *g = numbers_graph(), *g2, *back = NULL;
	struct rlx_error err = { 0 };
	size_t n, n2;
	float d = gradient_of(g);

	want = text_of(g, &n);
	CHECK(strstr(want, "2.5"));
	comma_begin(dir);
	g2 = numbers_graph();
	have = text_of(g2, &n2);
	CHECKF(n == n2 && !memcmp(want, have, n), "%s is not\n%s", have, want);
	CHECKF(!rlx_graph_parse(have, n2, &back, &err), "%s in\n%s", err.text, have);
	CHECK(rlx_graph_hash(g) == rlx_graph_hash(back));
	CHECK(gradient_of(back) == d && d > 0.1f && d < 1);
	comma_end(dir);
	rlx_graph_put(back);
	rlx_graph_put(g2);
	rlx_graph_put(g);
	free(want);
	free(have);
}

TEST_MAIN()
