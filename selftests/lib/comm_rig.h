/* SPDX-License-Identifier: MIT */
/* Ranks that meet over shared memory, each with a communicator. */
#ifndef RLX_SELFTESTS_COMM_RIG_H
#define RLX_SELFTESTS_COMM_RIG_H

#include "base/clock.h"
#include "rlx/comm.h"
#include "selftests/lib/ranks.h"

typedef void rank_fn(struct rlx_comm *c, void *arg);

static inline struct rlx_comm *join(struct rlx_arena *at, unsigned int rank, unsigned int n,
				    int64_t timeout_ns)
{
	struct rlx_comm_opts o = { .size = sizeof(o), .arena = at, .rank = rank, .ranks = n,
				   .timeout_ns = timeout_ns };
	struct rlx_error err = { 0 };
	struct rlx_comm *c;

	CHECKF(!rlx_comm_new(&o, &c, &err), "rank %u: %s", rank, err.text);
	return c;
}

static inline void start_ranks(unsigned int n, int64_t timeout_ns, rank_fn *fn, void *arg)
{
	struct rlx_error err = { 0 };
	struct rlx_arena *at;
	struct rlx_comm *c;
	unsigned int r;

	CHECKF(!rlx_comm_arena(n, &at, &err), "%s", err.text);
	for (r = 0; r < n; r++) {
		if (!ranks_fork(r))
			continue;
		c = join(at, r, n, timeout_ns);
		fn(c, arg);
		rlx_comm_free(c);
		ranks_exit();
	}
	rlx_arena_put(at);
}

static inline void run_ranks(unsigned int n, rank_fn *fn, void *arg)
{
	start_ranks(n, 0, fn, arg);
	ranks_end(n, -1);
}

/* Who is killed or goes another way, and what the others are told. */
struct fault {
	unsigned int	who;
	enum rlx_status	want;
	const char	*text;
};

/* One of @n that do @fn is killed after a while; within 5 seconds the others know. */
static inline void kill_one(unsigned int n, rank_fn *fn, uint64_t *seed, unsigned int after_us)
{
	struct fault f = { (unsigned int)(rlx_test_rand(seed) % n), RLX_EOWNERDEAD, "died" };
	uint64_t from;

	start_ranks(n, 0, fn, &f);
	usleep(after_us + (unsigned int)(rlx_test_rand(seed) % after_us));
	from = rlx_now();
	CHECK(!kill(pids[f.who], SIGKILL));
	ranks_end(n, (int)f.who);
	CHECKF(rlx_test_within(from, 5), "%.3g s", (double)(rlx_now() - from) * 1e-9);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0);	/* nobody is left */
}

static inline void check_told(const struct fault *f, enum rlx_status st,
			      const struct rlx_error *e)
{
	char name[16];

	snprintf(name, sizeof(name), "rank %u", f->who);
	CHECKF(st == f->want && strstr(e->text, name) && strstr(e->text, f->text), "%d: %s", st,
	       e->text);
}

#endif
