// SPDX-License-Identifier: MIT
/* Random programs: commands over io_uring. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "lib/abi.h"
#include "rand/rand.h"

/*
 * user_data says what to make of the answer: which call, whose tags, where.
 *	0..7 enum rnd_call   8..15 executor   16..23 queue   24..47 offset in r->keep
 */
#define TAG_SHIFT	24
#define GROUP		1	/* of provided buffers */
#define CMD_MULTISHOT	(1u << 1)	/* IORING_URING_CMD_MULTISHOT */
#define BUFFERS		4	/* places in the ring's table */

static const unsigned int kinds[] = {
	0, IORING_SETUP_SQE128 | IORING_SETUP_CQE32, IORING_SETUP_COOP_TASKRUN,
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
};
#define KINDS	(sizeof(kinds) / sizeof(*kinds))

/*
 * The first rings of a program's threads are of different kinds, so that a few programs
 * have all. Where locks are checked no later one is of the last kind: op_uring_close()
 * leaves it, and in the end each thread would have one.
 */
static unsigned int ring_kind(struct rnd *r)
{
	if (!r->step)
		return kinds[((r->w->seed >> 8) + r->thread) % KINDS];
	return kinds[rnd_below(r, r->w->lockdep ? KINDS - 1 : KINDS)];
}

void rnd_ring_new(struct rnd *r)
{
	struct io_uring_params p = { 0 };

	r->ring_flags = ring_kind(r);
	p.flags = r->ring_flags;
	r->has_ring = !io_uring_queue_init_params(32, &r->ring, &p);
	if (r->has_ring)
		io_uring_register_buffers_sparse(&r->ring, BUFFERS);
}

static struct io_uring_sqe *rnd_sqe(struct rnd *r, enum rnd_call call, int fd,
				    unsigned long op)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	if (!sqe)
		return NULL;
	memset(sqe, 0, r->ring_flags & IORING_SETUP_SQE128 ? 128 : 64);
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = rnd_u32(r, (uint32_t)op);
	sqe->user_data = call;
	if (rnd_one_in(r, 32))
		sqe->flags |= IOSQE_ASYNC;
	if (rnd_one_in(r, 24))
		sqe->flags |= IOSQE_IO_LINK;
	return sqe;
}

static void rnd_payload(struct rnd *r, struct io_uring_sqe *sqe, void *arg, uint32_t flags)
{
	struct rlx_uring_cmd *p = (struct rlx_uring_cmd *)sqe->cmd;

	p->addr = rnd_ptr(r, arg);
	p->flags = rnd_u32(r, flags);
	p->pad = rnd_u32(r, 0);
}

/* ---- channels ---- */

static void rnd_cmd_submit(struct rnd *r)
{
	struct rnd_thing *ch = rnd_pick(r, RND_CHANNEL);
	struct rlx_rq *rq = rnd_keep(r, sizeof(*rq));
	bool post = rnd_one_in(r, 3);
	struct io_uring_sqe *sqe;

	if (!ch)
		return;
	sqe = rnd_sqe(r, post ? RND_UR_POST : RND_UR_SUBMIT, rnd_fd(r, ch), RLX_IOC_SUBMIT);
	if (sqe)
		rnd_payload(r, sqe, rnd_request(r, ch, rq), post ? RLX_URING_POST : 0);
}

static void rnd_cmd_embedded(struct rnd *r)
{
	struct rnd_thing *ch = rnd_pick(r, RND_CHANNEL);
	struct io_uring_sqe *sqe;
	struct rlx_uring_rq *rq;

	if (!ch)
		return;
	sqe = rnd_sqe(r, RND_UR_EMBEDDED, rnd_fd(r, ch), RLX_IOC_SUBMIT);
	if (!sqe)
		return;
	rq = (struct rlx_uring_rq *)sqe->cmd;
	if (!(r->ring_flags & IORING_SETUP_SQE128)) {
		/* There is no room for it: it is to be refused. */
		rnd_payload(r, sqe, NULL, RLX_URING_EMBEDDED);
		return;
	}
	rq->uflags = RLX_URING_EMBEDDED | (rnd_one_in(r, 2) ? RLX_URING_POST : 0);
	rq->opcode = 1;
	rq->flags = rnd_u32(r, 0);
	if (ch->handle[0].size >= 4096 && rnd_one_in(r, 2)) {
		rq->nr_slices = rnd_u32(r, 1);
		rq->slice[0] = (struct rlx_slice){
			.arena = ch->handle[0].handle, .access = RLX_R,
			.length = rnd_u64(r, 100),
		};
	}
}

/* ---- executors ---- */

static void rnd_fetch_of(struct rnd *r, const struct rnd_thing *ex, struct rlx_ioc_fetch *f,
			 uint32_t *tags)
{
	f->max = rnd_u32(r, 1 + rnd_below(r, 8));
	f->min = rnd_u32(r, rnd_one_in(r, 6) && f->max <= 8 ? rnd_below(r, f->max + 1) : 0);
	f->queue = rnd_u32(r, rnd_below(r, ex->queues ? ex->queues : 1));
	f->timeout_ns = rnd_u64(r, UINT64_MAX);
	f->flags = rnd_u32(r, rnd_one_in(r, 3) ? 0 : RLX_FETCH_NOWAIT);
	if (!(ex->flags & RLX_EXEC_RING) || rnd_one_in(r, 64))
		f->tags = rnd_ptr(r, f->max > 8 ? r->keep : (char *)tags);
}

static uint64_t rnd_fetch_data(const struct rnd *r, const struct rnd_thing *ex,
			       const struct rlx_ioc_fetch *f, const uint32_t *tags)
{
	uint64_t at = (uint64_t)((const char *)tags - r->keep);

	if (f->tags != (uintptr_t)tags || f->queue >= RND_QUEUES)
		at = 0xffffff;
	return (uint64_t)(ex - r->w->thing[RND_EXECUTOR]) << 8 |
	       (uint64_t)(f->queue & 0xff) << 16 | at << TAG_SHIFT;
}

static void rnd_cmd_fetch(struct rnd *r)
{
	struct rnd_thing *ex = rnd_pick(r, RND_EXECUTOR);
	struct rlx_ioc_fetch *f = rnd_keep(r, sizeof(*f));
	uint32_t *tags = rnd_keep(r, 8 * sizeof(*tags));
	struct io_uring_sqe *sqe;

	if (!ex)
		return;
	sqe = rnd_sqe(r, RND_UR_FETCH, rnd_fd(r, ex), RLX_IOC_FETCH);
	if (!sqe)
		return;
	rnd_fetch_of(r, ex, f, tags);
	rnd_payload(r, sqe, f, 0);
	sqe->user_data |= rnd_fetch_data(r, ex, f, tags);
}

/* Stays until something is the matter with it, mostly for want of buffers. */
static void rnd_cmd_multishot(struct rnd *r)
{
	struct rnd_thing *ex = rnd_pick(r, RND_EXECUTOR);
	struct rlx_ioc_fetch *f = rnd_keep(r, sizeof(*f));
	struct io_uring_sqe *sqe;

	if (!ex)
		return;
	sqe = rnd_sqe(r, RND_UR_MULTISHOT, rnd_fd(r, ex), RLX_IOC_FETCH);
	if (!sqe)
		return;
	f->max = rnd_u32(r, 1 + rnd_below(r, 8));
	f->queue = rnd_u32(r, rnd_below(r, ex->queues ? ex->queues : 1));
	f->timeout_ns = rnd_u64(r, UINT64_MAX);
	rnd_payload(r, sqe, f, RLX_URING_MULTISHOT);
	if (!rnd_one_in(r, 32))
		sqe->rw_flags = CMD_MULTISHOT;
	sqe->flags |= rnd_one_in(r, 32) ? 0 : IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	/* Drawn as something else by both words, it is answered as any FETCH is. */
	if (!(((struct rlx_uring_cmd *)sqe->cmd)->flags & RLX_URING_MULTISHOT))
		sqe->user_data = RND_UR_FETCH | (uint64_t)0xffffff << TAG_SHIFT;
	else
		sqe->user_data |= rnd_fetch_data(r, ex, f, NULL);
}

static void rnd_cmd_provide(struct rnd *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	if (!sqe)
		return;
	memset(sqe, 0, r->ring_flags & IORING_SETUP_SQE128 ? 128 : 64);
	io_uring_prep_provide_buffers(sqe, r->shot, sizeof(r->shot[0]), RND_SHOTS, GROUP, 0);
	sqe->user_data = RND_CALLS;
}

static void rnd_commit_of(struct rnd *r, struct rnd_thing *ex, struct rlx_ioc_commit *cm)
{
	struct rlx_complete *c = rnd_keep(r, 8 * sizeof(*c));
	uint32_t queue = rnd_below(r, ex->queues ? ex->queues : 1);

	cm->nr = rnd_results(r, ex, queue, c, 8);
	cm->entries = rnd_ptr(r, c);
	cm->queue = rnd_u32(r, queue);
}

static void rnd_cmd_commit(struct rnd *r)
{
	struct rnd_thing *ex = rnd_pick(r, RND_EXECUTOR);
	struct rlx_ioc_commit *cm = rnd_keep(r, sizeof(*cm));
	struct io_uring_sqe *sqe;

	if (!ex)
		return;
	sqe = rnd_sqe(r, RND_UR_COMMIT, rnd_fd(r, ex), RLX_IOC_COMMIT);
	if (!sqe)
		return;
	rnd_commit_of(r, ex, cm);
	rnd_payload(r, sqe, cm, 0);
}

static void rnd_cmd_both(struct rnd *r)
{
	struct rnd_thing *ex = rnd_pick(r, RND_EXECUTOR);
	struct rlx_ioc_commit_fetch *cf = rnd_keep(r, sizeof(*cf));
	uint32_t *tags = rnd_keep(r, 8 * sizeof(*tags));
	struct io_uring_sqe *sqe;

	if (!ex)
		return;
	sqe = rnd_sqe(r, RND_UR_COMMIT_AND_FETCH, rnd_fd(r, ex), RLX_IOC_COMMIT_AND_FETCH);
	if (!sqe)
		return;
	rnd_commit_of(r, ex, &cf->commit);
	rnd_fetch_of(r, ex, &cf->fetch, tags);
	rnd_payload(r, sqe, cf, 0);
	sqe->user_data |= rnd_fetch_data(r, ex, &cf->fetch, tags);
}

/* ---- timelines, and io_uring's own ---- */

static void rnd_cmd_wait(struct rnd *r)
{
	struct rlx_ioc_timeline_wait_one *w = rnd_keep(r, sizeof(*w));
	struct rnd_thing *t = rnd_pick(r, RND_TIMELINE);
	struct io_uring_sqe *sqe;

	if (!t)
		return;
	sqe = rnd_sqe(r, RND_UR_WAIT_ONE, rnd_fd(r, t), RLX_IOC_TIMELINE_WAIT_ONE);
	if (!sqe)
		return;
	w->value = rnd_u64(r, t->size + rnd_below(r, 4));
	w->deadline_ns = rnd_one_in(r, 4) ? k_now() + rnd_below(r, 5000000) : UINT64_MAX;
	rnd_payload(r, sqe, w, 0);
}

/* ---- fixed buffers ---- */

static void rnd_cmd_buffer(struct rnd *r)
{
	struct rlx_ioc_buffer_register *b = rnd_keep(r, sizeof(*b));
	struct rnd_thing *a = rnd_pick(r, RND_ARENA);
	struct io_uring_sqe *sqe;
	uint32_t pages;

	if (!a)
		return;
	sqe = rnd_sqe(r, RND_UR_BUFFER, rnd_fd(r, a), RLX_IOC_BUFFER_REGISTER);
	if (!sqe)
		return;
	pages = a->size >> 12 && a->size >> 12 < 4096 ? a->size >> 12 : 1;
	b->offset = rnd_u64(r, rnd_below(r, pages) * 4096ull + rnd_below(r, 4096));
	b->length = rnd_u64(r, 1 + rnd_below(r, pages * 4096));
	b->access = rnd_u32(r, 1 + rnd_below(r, 3));
	b->index = rnd_u32(r, rnd_below(r, BUFFERS));
	rnd_payload(r, sqe, b, 0);
}

static void rnd_cmd_unbuffer(struct rnd *r)
{
	struct rlx_ioc_buffer_unregister *b = rnd_keep(r, sizeof(*b));
	struct rnd_thing *a = rnd_pick(r, RND_ARENA);
	struct io_uring_sqe *sqe;

	if (!a)
		return;
	sqe = rnd_sqe(r, RND_UR_UNBUFFER, rnd_fd(r, a), RLX_IOC_BUFFER_UNREGISTER);
	if (!sqe)
		return;
	b->index = rnd_u32(r, rnd_below(r, BUFFERS));
	rnd_payload(r, sqe, b, 0);
}

/* io_uring's own, to and from the scratch file: wherever there is a buffer. */
static void rnd_cmd_fixed(struct rnd *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);
	bool in = rnd_one_in(r, 2);

	if (!sqe)
		return;
	memset(sqe, 0, r->ring_flags & IORING_SETUP_SQE128 ? 128 : 64);
	sqe->opcode = in ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
	sqe->fd = r->w->scratch;
	sqe->addr = rnd_u64(r, rnd_below(r, 4096));
	sqe->len = 1 + rnd_below(r, 64);
	sqe->buf_index = rnd_below(r, BUFFERS + 1);
	sqe->user_data = RND_CALLS;
}

static void rnd_cmd_cancel(struct rnd *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	if (!sqe)
		return;
	memset(sqe, 0, r->ring_flags & IORING_SETUP_SQE128 ? 128 : 64);
	sqe->opcode = IORING_OP_ASYNC_CANCEL;
	sqe->fd = -1;
	sqe->cancel_flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
	sqe->user_data = RND_CALLS;
}

static void rnd_answer(struct rnd *r, uint64_t data, int res, uint32_t flags)
{
	enum rnd_call call = data & 0xff;
	uint64_t at = data >> TAG_SHIFT;

	if (call >= RND_CALLS)
		return;
	/* A result of the executor may look like any error: it is none of ours. */
	if ((call == RND_UR_SUBMIT || call == RND_UR_EMBEDDED) && (res > 0 || res < -133))
		res = 0;
	rnd_count(r, call, res);
	if ((call == RND_UR_FETCH || call == RND_UR_COMMIT_AND_FETCH) && res > 0 &&
	    at < (64u << 10))
		rnd_fetched(r, &r->w->thing[RND_EXECUTOR][(data >> 8 & 0xff) % RND_THINGS],
			    (data >> 16 & 0xff) % RND_QUEUES,
			    (uint32_t *)(r->keep + at), res > 8 ? 8 : res);
	if (call != RND_UR_MULTISHOT)
		return;
	if ((res > 0) != !!(flags & IORING_CQE_F_BUFFER) ||
	    (res > 0) != !!(flags & IORING_CQE_F_MORE))
		rnd_broken(r, "a multishot FETCH tells %d with flags %#x", res, flags);
	else if (res > 0)
		rnd_fetched(r, &r->w->thing[RND_EXECUTOR][(data >> 8 & 0xff) % RND_THINGS],
			    (data >> 16 & 0xff) % RND_QUEUES,
			    r->shot[(flags >> IORING_CQE_BUFFER_SHIFT) % RND_SHOTS], res / 4);
}

static void rnd_reap_ring(struct rnd *r)
{
	struct io_uring_cqe *cqe;

	for (int i = 0; i < 16 && !io_uring_peek_cqe(&r->ring, &cqe); i++) {
		uint64_t data = cqe->user_data;
		uint32_t flags = cqe->flags;
		int res = cqe->res;

		io_uring_cqe_seen(&r->ring, cqe);
		rnd_answer(r, data, res, flags);
	}
}

static void op_uring(struct rnd *r)
{
	static void (*const cmd[])(struct rnd *) = {
		rnd_cmd_submit, rnd_cmd_submit, rnd_cmd_embedded, rnd_cmd_fetch,
		rnd_cmd_fetch, rnd_cmd_commit, rnd_cmd_commit, rnd_cmd_both, rnd_cmd_wait,
		rnd_cmd_buffer, rnd_cmd_unbuffer, rnd_cmd_fixed, rnd_cmd_multishot,
		rnd_cmd_provide,
	};
	uint32_t nr = 1 + rnd_below(r, 4);

	if (!r->has_ring) {
		if (!r->w->race)
			rnd_ring_new(r);
		return;
	}
	while (nr--)
		cmd[rnd_below(r, sizeof(cmd) / sizeof(*cmd))](r);
	if (rnd_one_in(r, 100))
		rnd_cmd_cancel(r);
	io_uring_submit(&r->ring);
	if (r->ring_flags & IORING_SETUP_DEFER_TASKRUN)
		io_uring_get_events(&r->ring);
	rnd_reap_ring(r);
}

/*
 * Not one of DEFER_TASKRUN where locks are checked: 6.12 completes what was parked
 * there in a worker, and complains of itself. It goes with its program.
 */
static void op_uring_close(struct rnd *r)
{
	if (!r->has_ring || r->w->race ||
	    (r->w->lockdep && r->ring_flags & IORING_SETUP_DEFER_TASKRUN))
		return;
	io_uring_queue_exit(&r->ring);
	r->has_ring = false;
}

const struct rnd_op rnd_ops_uring[] = {
	{ op_uring, 60 },	{ op_uring_close, 2 },
	{ NULL, 0 },
};
