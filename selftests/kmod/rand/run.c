// SPDX-License-Identifier: MIT
/* Random programs: the table of calls, the beginning, and one step. */
#include <errno.h>
#include <string.h>

#include "selftests/lib/rlx_test.h"
#include "rand/rand.h"

#define IOC(n, ...)	{ #n, RLX_IOC_##n, { __VA_ARGS__ } }

/* The errors are those that a hundred thousand operations meet surely. */
const struct rnd_call_name rnd_calls[RND_CALLS] = {
	[RND_QUERY] = IOC(QUERY, 0),
	[RND_ARENA_CREATE] = IOC(ARENA_CREATE, ENOTTY, EINVAL, EFAULT),
	[RND_TIMELINE_CREATE] = IOC(TIMELINE_CREATE, 0),
	[RND_TIMELINE_WAIT] = IOC(TIMELINE_WAIT, EBADF, EINVAL, EFAULT, EAGAIN, ETIME,
				  EOWNERDEAD),
	[RND_SERVICE_CREATE] = IOC(SERVICE_CREATE, 0),
	[RND_CONNECT] = IOC(CONNECT, EINVAL, ENOSPC),
	[RND_ARENA_INFO] = IOC(ARENA_INFO, ENOTTY),
	[RND_ARENA_EXPORT] = IOC(ARENA_EXPORT, EINVAL, EACCES, EPERM),
	[RND_ARENA_DUP] = IOC(ARENA_DUP, EINVAL, EACCES),
	[RND_ARENA_SEAL] = IOC(ARENA_SEAL, EACCES, EBUSY),
	[RND_ARENA_SYNC] = IOC(ARENA_SYNC, EINVAL, EACCES),
	[RND_TIMELINE_QUERY] = IOC(TIMELINE_QUERY, ENOTTY, EBADF),
	[RND_TIMELINE_SIGNAL] = IOC(TIMELINE_SIGNAL, EINVAL, EACCES, ENOTTY),
	[RND_TIMELINE_DUP] = IOC(TIMELINE_DUP, EACCES),
	[RND_TIMELINE_EVENTFD] = IOC(TIMELINE_EVENTFD, EINVAL, EOWNERDEAD),
	[RND_TIMELINE_IMPORT] = IOC(TIMELINE_IMPORT, EACCES, EBADF),
	[RND_TIMELINE_WAIT_ONE] = IOC(TIMELINE_WAIT_ONE, EAGAIN, ETIME),
	[RND_SERVICE_INFO] = IOC(SERVICE_INFO, EBADF),
	[RND_SERVICE_DUP] = IOC(SERVICE_DUP, 0),
	[RND_EXECUTOR_ATTACH] = IOC(EXECUTOR_ATTACH, EBUSY, EACCES),
	[RND_FETCH] = IOC(FETCH, EINVAL, EFAULT, EAGAIN, ETIME, ENOTTY),
	[RND_COMMIT] = IOC(COMMIT, EINVAL, EFAULT, ESTALE, ENOTTY),
	[RND_COMMIT_AND_FETCH] = IOC(COMMIT_AND_FETCH, EINVAL, EFAULT),
	[RND_EXEC_ARENA] = IOC(EXEC_ARENA, ENOENT),
	[RND_EXEC_SLICES] = IOC(EXEC_SLICES, EINVAL),
	[RND_EXEC_EVENTS] = IOC(EXEC_EVENTS, ENOENT),
	[RND_ATTACH] = IOC(ATTACH, EINVAL, EPERM),
	[RND_DETACH] = IOC(DETACH, ENOENT),
	[RND_SUBMIT] = IOC(SUBMIT, EINVAL, EFAULT, EAGAIN, EPIPE, ENOTCONN, ENOTTY),
	[RND_REAP] = IOC(REAP, EINVAL, EFAULT, EAGAIN, ETIME),
	[RND_CANCEL] = IOC(CANCEL, ESTALE, EBUSY),
	[RND_UR_SUBMIT] = { "uring SUBMIT", 0, { EINVAL, ECANCELED, EAGAIN, ENOTCONN } },
	[RND_UR_POST] = { "uring SUBMIT, posted", 0, { EINVAL, EAGAIN } },
	[RND_UR_EMBEDDED] = { "uring SUBMIT, embedded", 0, { EINVAL, EAGAIN } },
	[RND_UR_FETCH] = { "uring FETCH", 0, { EINVAL, EAGAIN, ECANCELED } },
	[RND_UR_COMMIT] = { "uring COMMIT", 0, { EINVAL } },
	[RND_UR_COMMIT_AND_FETCH] = { "uring COMMIT_AND_FETCH", 0, { EINVAL } },
	[RND_UR_WAIT_ONE] = { "uring TIMELINE_WAIT_ONE", 0, { 0 } },
	[RND_UR_BUFFER] = { "uring BUFFER_REGISTER", 0, { 0 }, RLX_FEAT_URING_BUFFERS },
	[RND_UR_UNBUFFER] = { "uring BUFFER_UNREGISTER", 0, { 0 },
			      RLX_FEAT_URING_BUFFERS },
	[RND_UR_MULTISHOT] = { "uring FETCH, multishot", 0, { 0 }, RLX_FEAT_URING_MSHOT },
	[RND_OPEN] = { "open", 0, { 0 } },
	[RND_MMAP_ARENA] = { "mmap of an arena", 0, { EINVAL, EPERM, EACCES, ENODEV } },
	[RND_MMAP_DMABUF] = { "mmap of a dma-buf", 0, { EINVAL, EACCES } },
	[RND_MMAP_TIMELINE] = { "mmap of a timeline", 0, { EINVAL, EACCES } },
	[RND_MMAP_RING] = { "mmap of a ring", 0, { EACCES } },
	[RND_MEMORY] = { "memory", 0, { 0 } },
	[RND_FILE] = { "files", 0, { 0 } },
	[RND_POLL] = { "poll", 0, { 0 } },
	[RND_PASS] = { "SCM_RIGHTS", 0, { 0 } },
	[RND_DMABUF_IOCTL] = { "dma-buf's ioctls", 0, { 0 } },
};

static const struct {
	const struct rnd_op *ops;
	uint32_t weight;
} groups[] = {
	{ rnd_ops_arena, 5 }, { rnd_ops_timeline, 25 }, { rnd_ops_chan, 60 },
	{ rnd_ops_memory, 4 }, { rnd_ops_uring, 10 },
};
#define NR_GROUPS	(sizeof(groups) / sizeof(*groups))

static void rnd_one_of(struct rnd *r, const struct rnd_op *ops)
{
	const struct rnd_op *op = ops;
	uint32_t sum = 0, at;

	for (const struct rnd_op *o = ops; o->fn; o++)
		sum += o->weight;
	at = rnd_below(r, sum);
	while (at >= op->weight)
		at -= (op++)->weight;
	r->digest = (r->digest ^ (uint64_t)(op - ops + 1)) * 0x100000001b3;
	op->fn(r);
}

void rnd_step(struct rnd *r)
{
	uint64_t from = r->seed + r->step++;
	uint32_t sum = 0, at, i = 0, calls = r->calls;

	r->dice = rlx_test_rand(&from);
	for (uint32_t g = 0; g < NR_GROUPS; g++)
		sum += groups[g].weight;
	at = rnd_below(r, sum);
	while (at >= groups[i].weight)
		at -= groups[i++].weight;
	r->wild = false;
	r->digest = (r->digest ^ i) * 0x100000001b3;
	rnd_fault_arm(r);
	rnd_one_of(r, groups[i].ops);
	rnd_fault_disarm(r);
	/* Some find nothing to work on. */
	if (r->calls != calls)
		__atomic_fetch_add(&r->w->tally->ops, 1, __ATOMIC_RELAXED);
}

/* One of each, in the order they need each other; nothing of it has to succeed. */
void rnd_begin(struct rnd *r)
{
	static const struct rnd_op *const first[] = {
		rnd_ops_timeline, rnd_ops_arena, rnd_ops_chan,
	};

	/* The ops that stand first in their tables make what the others are done to. */
	for (int i = 0; i < 3; i++)
		first[i]->fn(r);
	for (int i = 0; i < 4; i++)
		rnd_step(r);
}
