// SPDX-License-Identifier: MIT
/*
 * A device whose memory is its own, or one that acts so: weights larger than what they are
 * brought through, buffers that the driver does not import around a step of the host's, and
 * what fails on the way. What is moved, and kept there, is selftests/gpu/session.c's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "selftests/vulkan/line.h"

static struct rlx_session *compiled(struct rlx_graph *g)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "vulkan" };
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;
	struct rlx_session *s;

	setenv("RLX_VK_DISCRETE", "1", 1);
	CHECK_EQ(rlx_graph_finish(g), RLX_OK);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	s = session(p);
	rlx_program_put(p);
	CHECK(device_of(s)->discrete);
	return s;
}

/* More than what is brought at once, and no multiple of it. */
TEST(large_weights)
{
	enum { LARGE = (36 << 18) + 3 };
	const struct rlx_type t = rlx_type(RLX_F32, LARGE);
	struct rlx_graph *g = rlx_graph_new("large");
	float *c = malloc(LARGE * sizeof(*c)), *w = malloc(LARGE * sizeof(*w));
	float *y = malloc(LARGE * sizeof(*y));
	struct rlx_session *s;
	int i, run;

	for (i = 0; i < LARGE; i++)
		c[i] = (float)i;
	rlx_output(g, "y", rlx_emit(g, add, .a = rlx_constant(g, t, c), .b = rlx_param(g, "w", t)));
	s = compiled(g);
	for (run = 0; run < 2; run++) {
		for (i = 0; i < LARGE; i++)
			w[i] = (float)(i % 1000 * (run + 1));
		CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", t, w), RLX_OK);
		CHECK_EQ(rlx_session_run(s), RLX_OK);
		CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y), RLX_OK);
		for (i = 0; i < LARGE; i++)
			CHECK_EQ(y[i], c[i] + w[i]);
	}
	CHECK_EQ(rlx_session_transfers(s).in, 2);
	CHECK_EQ(rlx_session_transfers(s).in_bytes, 2ull * LARGE * 4);
	rlx_session_free(s);
	free(c);
	free(w);
	free(y);
}

/* b = 2 a by a kernel, m = b mod 3 by the host, y = m + a by a kernel; all are outputs. */
static struct rlx_session *around_the_host(void)
{
	const struct rlx_type t = rlx_type(RLX_F64, N);
	struct rlx_graph *g = rlx_graph_new("around");
	const double three = 3;
	rlx_value a = rlx_input(g, "a", t), b = rlx_emit(g, add, .a = a, .b = a), m;

	m = rlx_emit(g, mod, .a = b, .b = rlx_constant(g, rlx_scalar(RLX_F64), &three));
	rlx_output(g, "b", b);
	rlx_output(g, "m", m);
	rlx_output(g, "y", rlx_emit(g, add, .a = m, .b = a));
	return compiled(g);
}

TEST(staged_around_the_host)
{
	enum { BYTES = N * 8 };
	struct rlx_session *s = around_the_host();
	char *mem = aligned_alloc(4096, 5 * BYTES);
	struct rlx_arena_user user = { .base = mem + 64, .size = 4 * BYTES };
	double *a = (double *)(mem + 64), *b = a + N, *m = b + N, *y = m + N;
	struct rlx_error err = { 0 };
	struct rlx_arena *arena = NULL;
	struct rlx_stats before, after;
	struct rlx_transfers t;
	int i, run;

	CHECKF(!rlx_arena_wrap(&user, &arena, &err), "%s", err.text);
	bind(s, RLX_IO_INPUT, "a", arena, 0, BYTES);
	bind(s, RLX_IO_OUTPUT, "b", arena, BYTES, BYTES);
	bind(s, RLX_IO_OUTPUT, "m", arena, 2 * BYTES, BYTES);
	bind(s, RLX_IO_OUTPUT, "y", arena, 3 * BYTES, BYTES);
	rlx_stats_read(&before);
	for (run = 0; run < 3; run++) {
		for (i = 0; i < N; i++)
			a[i] = i * (run + 1);
		memset(b, 0xff, 3 * BYTES);
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		for (i = 0; i < N; i++) {
			CHECK_EQ(b[i], 2 * a[i]);
			CHECK_EQ(m[i], fmod(2 * a[i], 3));
			CHECK_EQ(y[i], m[i] + a[i]);
		}
	}
	rlx_stats_read(&after);
	t = rlx_session_transfers(s);
	CHECK_EQ(t.in, 6);		/* a, and m, which the host made */
	CHECK_EQ(t.out, 9);		/* b for the host; b and y in the end */
	CHECK_EQ(after.bytes_copied - before.bytes_copied, t.in_bytes + t.out_bytes);
	rlx_session_free(s);
	rlx_arena_put(arena);
	free(mem);
}

/* ---- what fails ---- */

static VkResult failing;
static unsigned int works;	/* so many calls do before */
static PFN_vkQueueSubmit real_submit;

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue q, uint32_t n, const VkSubmitInfo *i,
					     VkFence f)
{
	return works-- ? real_submit(q, n, i, f) : failing;
}

static enum rlx_status set_a(struct rlx_session *s)
{
	static double a[N];

	return rlx_session_set(s, RLX_IO_INPUT, "a", rlx_type(RLX_F64, N), a);
}

/* At each submission of a run: all before the step of the host's, and all behind. */
TEST(lost_at_each_submission)
{
	unsigned int n, failed = 0;

	for (n = 0; n < 8; n++) {
		struct rlx_session *s = around_the_host();
		struct vk_device *d = device_of(s);
		enum rlx_status st;

		CHECK_EQ(set_a(s), RLX_OK);
		failing = VK_ERROR_DEVICE_LOST;
		works = n;
		real_submit = d->api.QueueSubmit;
		d->api.QueueSubmit = submit;
		st = rlx_session_run(s);
		CHECKF(!st || st == RLX_ELOST, "%u: %d", n, st);
		CHECK(!st || strstr(rlx_session_error(s)->text, "the device failed"));
		failed += st == RLX_ELOST;
		works = UINT32_MAX;
		rlx_session_free(s);
		if (!st)
			break;
	}
	CHECK_EQ(failed, 2);
}

/* Every allocation of the host's fails once, from the session to the run. */
TEST(no_host_memory)
{
	struct rlx_session *keep = around_the_host(), *s;
	int64_t live = rlx_alloc_live();
	struct rlx_error err;
	enum rlx_status st;
	uint64_t n;

	for (n = 1; n < 4000; n++) {
		s = NULL;
		err = (struct rlx_error){ 0 };
		rlx_alloc_fail_nth(n);
		st = rlx_session_new(keep->p, NULL, &s, &err);
		if (!st)
			st = set_a(s);
		if (!st)
			st = rlx_session_run(s);
		rlx_alloc_fail_nth(0);
		CHECKF(!st || st == RLX_ENOMEM, "allocation %llu: %d", (unsigned long long)n, st);
		rlx_session_free(s);
		CHECKF(rlx_alloc_live() == live, "allocation %llu: %lld blocks left",
		       (unsigned long long)n, (long long)(rlx_alloc_live() - live));
		if (!st)
			break;
	}
	CHECKF(!st && n > 10, "%llu allocations", (unsigned long long)n);
	rlx_session_free(keep);
}

TEST_MAIN()
