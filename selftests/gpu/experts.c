// SPDX-License-Identifier: MIT
/* Experts of which a session says where they lie: what a device's memory holds, what is moved. */
#include "rlx/run.h"
#include "selftests/gpu/memory_left.h"
#include "selftests/lib/expert_net.h"
#include "selftests/lib/op_case.h"

enum { EXPERTS = 8, WIDTH = 2048, ROWS = 4 };	/* an expert is several of a driver's pages */

static int64_t between(struct rlx_transfers *before, struct rlx_session *s)
{
	struct rlx_transfers now = rlx_session_transfers(s);
	int64_t in = (int64_t)(now.in_bytes - before->in_bytes);

	*before = now;
	return in;
}

/*
 * Slots of those that are placed, two buffers where some are not, and less than an expert for the
 * rest, by the pages that drivers give; and what is brought is what rows chose and what was placed
 * anew.
 */
static void hold(struct expert_net *m)
{
	static const int placed[] = { 0, 3, EXPERTS, 5, 0 };
	const int32_t routes[ROWS] = { 7, 0, 0, 4 };
	static float x[ROWS * WIDTH], y[ROWS * WIDTH], first[ROWS * WIDTH];
	struct rlx_transfers was = { 0 };
	const int64_t bytes = m->width * m->width * 4;	/* of an expert */
	const int64_t small = ROWS * m->width * 4 + 4096;
	int64_t before, took, in;
	struct rlx_session *s;
	int had = 0, i, k;

	for (i = 0; i < ROWS * m->width; i++)
		x[i] = (float)(i % 7) / 8;
	s = expert_net_session(m, op_case_gpu());	/* what a device takes once, and keeps */
	expert_net_run(s, m, x, routes, y);
	rlx_session_free(s);
	before = (int64_t)memory_left();
	s = expert_net_session(m, op_case_gpu());
	for (k = 0; k < 5; k++) {
		bool resident[EXPERTS] = { false };
		struct rlx_moe_stats t;

		for (i = 0; i < placed[k]; i++)
			resident[i] = true;
		CHECKF(!rlx_moe_place(s, 0, resident, EXPERTS), "%s", rlx_session_error(s)->text);
		expert_net_run(s, m, x, routes, k ? y : first);
		CHECK(!k || !memcmp(y, first, ROWS * m->width * 4));
		CHECK(!rlx_moe_stats(s, 0, &t));
		took = before - (int64_t)memory_left() - bytes * (placed[k] + 2);
		CHECKF(took > -bytes && took < bytes, "%d placed: %lld bytes beside them",
		       placed[k], (long long)took);
		in = between(&was, s);
		i = placed[k] > had ? placed[k] - had : 0;
		CHECKF(in >= bytes * (i + (int)t.streamed) &&
		       in <= bytes * (i + (int)t.streamed) + small, "%d placed: %lld bytes brought",
		       placed[k], (long long)in);
		CHECK_EQ(t.streamed, 3 - (placed[k] > 0) - (placed[k] > 4) - (placed[k] > 7));
		had = placed[k];
	}
	rlx_session_free(s);
}

TEST(memory_is_of_those_that_are_placed)
{
	struct expert_net m = { .layers = 1, .rows = ROWS, .width = WIDTH, .experts = EXPERTS,
				.real = RLX_F32, .flags = RLX_COMPILE_PLACE };
	uint64_t seed = rlx_test_seed();

	if (memory_is_emulated())
		m.width /= 4;
	expert_net_draw(&m, &seed);
	hold(&m);
	m.constant = true;
	hold(&m);
	free(m.w);
}

/* A run that a thread of the session's does, beside another session's of the same program. */
TEST(submitted_beside_another)
{
	struct expert_net m = { .layers = 2, .rows = ROWS, .width = 64, .experts = EXPERTS,
				.real = RLX_F16, .flags = RLX_COMPILE_PLACE };
	struct rlx_session *s[2];
	int32_t routes[2 * ROWS];
	float x[ROWS * 64], y[ROWS * 64], want[ROWS * 64];
	uint64_t seed = rlx_test_seed(), point[2];
	struct rlx_type t = rlx_type(RLX_F32, ROWS, 64);
	int i, k, run;

	expert_net_draw(&m, &seed);
	s[0] = expert_net_session(&m, op_case_gpu());
	CHECK(!rlx_session_clone(s[0], &s[1], NULL));
	for (run = 0; run < 8; run++) {
		for (i = 0; i < ROWS * 64; i++)
			x[i] = (float)((int)(rlx_test_rand(&seed) % 65) - 32) / 32;
		for (i = 0; i < 2 * ROWS; i++)
			routes[i] = (int32_t)(rlx_test_rand(&seed) % EXPERTS);
		CHECK(!rlx_moe_place(s[1], -1, NULL, 0));
		expert_net_run(s[1], &m, x, routes, want);
		for (k = 0; k < 2; k++) {
			bool resident[EXPERTS];

			for (i = 0; i < EXPERTS; i++)
				resident[i] = rlx_test_rand(&seed) % 2;
			CHECK(!rlx_moe_place(s[k], -1, resident, EXPERTS));
			expert_net_run(s[k], &m, x, routes, y);
		}
		for (k = 0; k < 2; k++)
			CHECK(!rlx_session_submit(s[k], &point[k]));
		if (rlx_session_wait(s[0], point[0], 0) == RLX_ETIME)
			CHECK_EQ(rlx_moe_place(s[0], -1, NULL, 0), RLX_EBUSY);
		for (k = 0; k < 2; k++) {
			CHECK(!rlx_session_wait(s[k], point[k], -1));
			CHECK(!rlx_session_get(s[k], RLX_IO_OUTPUT, "y", t, y));
			CHECK(!memcmp(y, want, sizeof(y)));
		}
	}
	rlx_session_free(s[0]);
	rlx_session_free(s[1]);
	free(m.w);
}

TEST_MAIN()
