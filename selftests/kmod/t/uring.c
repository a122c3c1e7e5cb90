// SPDX-License-Identifier: MIT
/* Channels by io_uring: parked and answered, in each kind of ring. */
/* rig: timeout=200 also */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/rlx.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/chan.h"

#define DEPTH	8
#define CANCEL_OP	(1u << 5)	/* IORING_ASYNC_CANCEL_OP, which liburing 2.3 lacks */

static const struct {
	const char *name;
	unsigned int flags;
} kinds[] = {
	{ "plain", 0 },
	{ "sqe128 cqe32", IORING_SETUP_SQE128 | IORING_SETUP_CQE32 },
	{ "defer", IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN },
	{ "coop", IORING_SETUP_COOP_TASKRUN },
	{ "sqpoll", IORING_SETUP_SQPOLL },
};
#define NR_KINDS	(sizeof(kinds) / sizeof(*kinds))

struct scene {
	struct k_scene k;
	struct io_uring ring;
	unsigned int flags;
	bool parks;
};

static bool parks(int session)
{
	uint64_t features = k_features(session);

	CHECK(features & RLX_FEAT_URING);
	return features & RLX_FEAT_URING_ASYNC;
}

/*
 * Closing a ring of DEFER_TASKRUN that has commands parked, by a living task, makes
 * 6.12 complete them in a worker, which its own lock checks then complain of
 * (io_lockdep_assert_cq_locked(); later kernels except rings that go). t/death.c does
 * it by dying, as is right everywhere.
 */
static bool may_close_parked(unsigned int flags)
{
	return !(flags & IORING_SETUP_DEFER_TASKRUN) || access("/proc/lockdep", F_OK);
}

static void need_parking(void)
{
	int session = k_open();

	if (!parks(session))
		rlx_test_skip("this kernel cannot cancel parked commands");
	close(session);
}

static void ring_new(struct scene *s, unsigned int flags)
{
	struct io_uring_params p = { .flags = flags, .sq_thread_idle = 50 };
	int err = io_uring_queue_init_params(64, &s->ring, &p);

	CHECKF(!err, "io_uring with flags %#x: %d", flags, err);
	s->flags = flags;
}

static struct scene scene_new(unsigned int ring, uint32_t service)
{
	struct scene s = {
		.k = k_scene_new(&(struct k_scene_opts){
			.depth = DEPTH, .service = service }),
	};

	s.parks = parks(s.k.session);
	ring_new(&s, ring);
	return s;
}

static void scene_free(struct scene *s)
{
	io_uring_queue_exit(&s->ring);
	k_scene_free(&s->k);
}

/* ---- commands ---- */

static struct io_uring_sqe *prep(struct scene *s, int fd, uint32_t op, const void *arg,
				 uint32_t flags, uint64_t data)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);
	struct rlx_uring_cmd *p;

	if (!sqe && s->flags & IORING_SETUP_SQPOLL) {
		io_uring_sqring_wait(&s->ring);	/* its thread has yet to take them */
		sqe = io_uring_get_sqe(&s->ring);
	}
	CHECK(sqe);
	memset(sqe, 0, s->flags & IORING_SETUP_SQE128 ? 128 : 64);
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = op;
	sqe->user_data = data;
	p = (struct rlx_uring_cmd *)sqe->cmd;
	p->addr = (uintptr_t)arg;
	p->flags = flags;
	return sqe;
}

static void push(struct scene *s)
{
	int n = io_uring_submit(&s->ring);

	CHECKF(n >= 0, "io_uring_submit: %d", n);
}

/* The next CQE within some seconds. */
static int result(struct scene *s, uint64_t *data, uint64_t *aux)
{
	struct __kernel_timespec ts = { .tv_sec = 60 };
	struct io_uring_cqe *cqe;
	int err = io_uring_wait_cqe_timeout(&s->ring, &cqe, &ts), res;

	CHECKF(!err, "no CQE: %d", err);
	res = cqe->res;
	if (data)
		*data = cqe->user_data;
	if (aux)
		*aux = s->flags & IORING_SETUP_CQE32 ? cqe->big_cqe[0] : 0;
	io_uring_cqe_seen(&s->ring, cqe);
	return res;
}

/* No CQE is there, nor comes by looking. */
static bool quiet(struct scene *s)
{
	struct io_uring_cqe *cqe;

	io_uring_get_events(&s->ring);
	return io_uring_peek_cqe(&s->ring, &cqe) != 0;
}

static int now(struct scene *s, int fd, uint32_t op, const void *arg, uint32_t flags)
{
	uint64_t data;
	int res;

	prep(s, fd, op, arg, flags, 4711);
	push(s);
	res = result(s, &data, NULL);
	CHECK_EQ(data, 4711);
	return res;
}

/* ---- answered at once: on every kernel ---- */

TEST(answered_at_once)
{
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		struct scene s = scene_new(kinds[k].flags, 0);
		struct rlx_rq rq = k_rq(3, 4);
		struct rlx_complete c = { .result = 12, .aux = 13 };
		struct rlx_cqe cqe;
		uint32_t tag = 99;
		struct rlx_ioc_fetch f = {
			.tags = (uintptr_t)&tag, .max = 1, .flags = RLX_FETCH_NOWAIT,
		};
		struct rlx_ioc_commit cm = { .entries = (uintptr_t)&c, .nr = 1 };
		struct rlx_ioc_commit_fetch cf = { cm, f };

		CHECK_EQ(now(&s, s.k.ex, RLX_IOC_FETCH, &f, 0), -EAGAIN);
		CHECK_EQ(now(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, RLX_URING_POST), 0);
		CHECK_EQ(now(&s, s.k.ex, RLX_IOC_FETCH, &f, 0), 1);
		CHECK_EQ(s.k.desc[tag].user_data, 4);
		c.seq = s.k.desc[tag].seq;
		c.tag = tag;
		CHECK_EQ(now(&s, s.k.ex, RLX_IOC_COMMIT, &cm, 0), 1);
		CHECK_EQ(now(&s, s.k.ex, RLX_IOC_COMMIT, &cm, 0), -ESTALE);
		CHECK_EQ(k_reap(s.k.ch, &cqe, 1, 1, K_EVER), 1);
		CHECK_EQ(cqe.result, 12);
		CHECK_EQ(cqe.aux, 13);
		CHECK_EQ(now(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, RLX_URING_POST), 0);
		CHECK_EQ(now(&s, s.k.ex, RLX_IOC_COMMIT_AND_FETCH, &cf, 0), 1);
		c.seq = s.k.desc[tag].seq;
		c.tag = tag;
		CHECK_EQ(now(&s, s.k.ex, RLX_IOC_COMMIT_AND_FETCH, &cf, 0), 0);
		CHECK_EQ(k_reap(s.k.ch, &cqe, 1, 1, K_EVER), 1);
		/* A full channel says so by its CQE. */
		for (int i = 0; i < DEPTH; i++)
			CHECK_EQ(now(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, RLX_URING_POST), 0);
		CHECK_EQ(now(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, RLX_URING_POST), -EAGAIN);
		scene_free(&s);
	}
}

/* What io_uring's own threads issue comes to the same. */
TEST(from_a_worker)
{
	struct scene s = scene_new(0, 0);
	struct rlx_rq rq = k_rq(3, 4);
	struct rlx_cqe cqe;
	uint32_t tag;
	struct rlx_ioc_fetch f = {
		.tags = (uintptr_t)&tag, .max = 1, .flags = RLX_FETCH_NOWAIT,
	};

	prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, RLX_URING_POST, 1)->flags = IOSQE_ASYNC;
	push(&s);
	CHECK_EQ(result(&s, NULL, NULL), 0);
	prep(&s, s.k.ex, RLX_IOC_FETCH, &f, 0, 1)->flags = IOSQE_ASYNC;
	push(&s);
	CHECK_EQ(result(&s, NULL, NULL), 1);
	CHECK_EQ(k_commit1(s.k.ex, s.k.desc, tag, 5, 0), 1);
	CHECK_EQ(k_reap(s.k.ch, &cqe, 1, 1, K_EVER), 1);
	prep(&s, s.k.ex, RLX_IOC_FETCH, &f, 0, 1)->flags = IOSQE_ASYNC;
	push(&s);
	CHECK_EQ(result(&s, NULL, NULL), -EAGAIN);
	if (s.parks) {
		f.flags = 0;
		f.timeout_ns = K_EVER;
		prep(&s, s.k.ex, RLX_IOC_FETCH, &f, 0, 1)->flags = IOSQE_ASYNC;
		prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, 0, 2)->flags = IOSQE_ASYNC;
		push(&s);
		CHECK_EQ(result(&s, NULL, NULL), 1);
		CHECK_EQ(k_commit1(s.k.ex, s.k.desc, tag, 6, 0), 1);
		CHECK_EQ(result(&s, NULL, NULL), 6);
	}
	scene_free(&s);
}

TEST(refused)
{
	struct scene s = scene_new(0, 0);
	struct rlx_rq rq = k_rq(3, 4);
	uint32_t tag;
	struct rlx_ioc_fetch f = {
		.tags = (uintptr_t)&tag, .max = 1, .timeout_ns = K_EVER,
	};
	bool mshot = k_features(s.k.session) & RLX_FEAT_URING_MSHOT;
	const struct {
		bool ex;
		uint32_t op, flags;
		int want;
	} rows[] = {
		{ false, RLX_IOC_REAP, 0, -EOPNOTSUPP },
		{ false, RLX_IOC_ATTACH, 0, -EOPNOTSUPP },
		{ false, RLX_IOC_FETCH, 0, -EOPNOTSUPP },
		{ false, 0, 0, -EOPNOTSUPP },
		{ false, RLX_IOC_SUBMIT, 8, -EINVAL },
		{ false, RLX_IOC_SUBMIT, RLX_URING_MULTISHOT, -EINVAL },
		{ false, RLX_IOC_SUBMIT, RLX_URING_EMBEDDED, -EINVAL },
		{ true, RLX_IOC_SUBMIT, 0, -EOPNOTSUPP },
		{ true, RLX_IOC_EXEC_EVENTS, 0, -EOPNOTSUPP },
		{ true, RLX_IOC_FETCH, 8, -EINVAL },
		{ true, RLX_IOC_FETCH, RLX_URING_POST, -EINVAL },
		/* Without io_uring's own flag; t/multishot.c has the rest. */
		{ true, RLX_IOC_FETCH, RLX_URING_MULTISHOT, mshot ? -EINVAL : -EOPNOTSUPP },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int fd = rows[i].ex ? s.k.ex : s.k.ch;
		const void *arg = rows[i].ex ? (void *)&f : (void *)&rq;
		int got = now(&s, fd, rows[i].op, arg, rows[i].flags);

		CHECKF(got == rows[i].want, "row %u: %d", i, got);
	}
	((struct rlx_uring_cmd *)prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, 0, 1)->cmd)->pad = 1;
	push(&s);
	CHECK_EQ(result(&s, NULL, NULL), -EINVAL);
	CHECK_EQ(now(&s, s.k.ch, RLX_IOC_SUBMIT, (void *)8, RLX_URING_POST), -EFAULT);
	CHECK_EQ(now(&s, s.k.ex, RLX_IOC_FETCH, (void *)8, 0), -EFAULT);
	CHECK_EQ(now(&s, s.k.ex, RLX_IOC_COMMIT, (void *)8, 0), -EFAULT);
	if (s.parks) {
		CHECK_EQ(now(&s, s.k.ch, RLX_IOC_SUBMIT, (void *)8, 0), -EFAULT);
		f.timeout_ns = 5;
		CHECK_EQ(now(&s, s.k.ex, RLX_IOC_FETCH, &f, 0), -EINVAL);
	} else {
		CHECK_EQ(now(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, 0), -EOPNOTSUPP);
		CHECK_EQ(now(&s, s.k.ex, RLX_IOC_FETCH, &f, 0), -EOPNOTSUPP);
	}
	f.queue = 1;
	CHECK_EQ(now(&s, s.k.ex, RLX_IOC_FETCH, &f, 0), -EINVAL);
	scene_free(&s);
}

/* ---- parked ---- */

TEST(round_trip)
{
	need_parking();
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		struct scene s = scene_new(kinds[k].flags, 0);
		struct rlx_rq rq[3] = { k_rq(1, 1), k_rq(2, 2), k_rq(3, 3) };
		struct rlx_cqe cqe;
		uint64_t data, aux;
		uint32_t tag[3];
		struct rlx_ioc_fetch f = {
			.tags = (uintptr_t)tag, .max = 3, .timeout_ns = K_EVER,
		};

		for (int round = 0; round < 30; round++) {
			/* The fetch parks first, or finds something. */
			if (round & 1) {
				prep(&s, s.k.ex, RLX_IOC_FETCH, &f, 0, 100);
				push(&s);
				CHECK(quiet(&s));
			}
			for (int i = 0; i < 3; i++)
				prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq[i], 0, i);
			push(&s);
			f.min = 0;
			int got = 0;

			if (round & 1) {
				got = result(&s, &data, NULL);
				CHECK_EQ(data, 100);
				CHECK(got >= 1);
			}
			while (got < 3) {
				long n = k_fetch(s.k.ex, tag + got, 3 - got, 1, K_EVER);

				CHECKF(n > 0, "%s, round %d: %ld", kinds[k].name, round, n);
				got += n;
			}
			CHECK(quiet(&s));
			for (int i = 0; i < 3; i++)
				CHECK_EQ(k_commit1(s.k.ex, s.k.desc, tag[2 - i], 10 + i, i), 1);
			for (int i = 0; i < 3; i++) {
				CHECK_EQ(result(&s, &data, &aux), 10 + i);
				CHECK_EQ(data, 2 - i);
				if (kinds[k].flags & IORING_SETUP_CQE32)
					CHECK_EQ(aux, i);
			}
			/* Nothing is left to reap, and no slot is held. */
			CHECK_EQ(k_reap(s.k.ch, &cqe, 1, 0, 0), -EAGAIN);
		}
		scene_free(&s);
	}
}

/* In a large SQE, nothing read from memory but the SQE. */
TEST(embedded)
{
	struct scene s = scene_new(IORING_SETUP_SQE128, 0);
	int arena = k_arena(s.k.session, 4096, 0);
	long h = k_attach(s.k.ch, arena, RLX_R);
	uint32_t flags = RLX_URING_EMBEDDED | (s.parks ? 0 : RLX_URING_POST);
	struct rlx_uring_rq *rq;
	uint32_t tag;

	for (int n = 0; n <= 3; n++) {
		struct io_uring_sqe *sqe = prep(&s, s.k.ch, RLX_IOC_SUBMIT, NULL, flags, 77);

		rq = (struct rlx_uring_rq *)sqe->cmd;
		rq->opcode = 5 + n;
		rq->flags = 0x70000;
		rq->nr_slices = n;
		for (int i = 0; i < 2; i++)
			rq->slice[i] = (struct rlx_slice){ h, RLX_R, i, 8 };
		push(&s);
		if (n == 3) {
			CHECK_EQ(result(&s, NULL, NULL), -EINVAL);
			break;
		}
		tag = k_fetch1(s.k.ex);
		CHECK_EQ(s.k.desc[tag].opcode, 5 + n);
		CHECK_EQ(s.k.desc[tag].flags, 0x70000);
		CHECK_EQ(s.k.desc[tag].user_data, 77);
		CHECK_EQ(s.k.desc[tag].nr_slices, n);
		CHECK_EQ(s.k.desc[tag].slice[1].offset, 1);
		CHECK_EQ(k_commit1(s.k.ex, s.k.desc, tag, 9, 0), 1);
		CHECK_EQ(result(&s, NULL, NULL), s.parks ? 9 : 0);
	}
	/* By way of a worker thread too. */
	struct io_uring_sqe *sqe = prep(&s, s.k.ch, RLX_IOC_SUBMIT, NULL, flags, 78);

	sqe->flags = IOSQE_ASYNC;
	push(&s);
	tag = k_fetch1(s.k.ex);
	CHECK_EQ(s.k.desc[tag].user_data, 78);
	CHECK_EQ(k_commit1(s.k.ex, s.k.desc, tag, 9, 0), 1);
	CHECK_EQ(result(&s, NULL, NULL), s.parks ? 9 : 0);
	sqe = prep(&s, s.k.ch, RLX_IOC_SUBMIT, NULL, flags, 77);
	((struct rlx_uring_rq *)sqe->cmd)->flags = RLX_RQ_INDIRECT;
	push(&s);
	CHECK_EQ(result(&s, NULL, NULL), -EINVAL);
	prep(&s, s.k.ch, RLX_IOC_SUBMIT, (void *)4096, flags, 77);
	push(&s);
	CHECK_EQ(result(&s, NULL, NULL), -EINVAL);
	close(arena);
	scene_free(&s);
}

TEST(cancel_and_deadline)
{
	need_parking();
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		struct scene s = scene_new(kinds[k].flags, 0);
		struct rlx_rq rq = k_rq(1, 1);
		uint32_t tag;

		rq.deadline_ns = k_now() + 30 * K_MS;
		prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, 0, 1);
		push(&s);
		CHECK_EQ(result(&s, NULL, NULL), -ETIME);
		rq.deadline_ns = 0;
		prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, 0, 1);
		push(&s);
		/* Nobody told its name: seek it among the slots. */
		int ended = 0;

		for (int i = 0; i < 20000 && !ended; i++) {
			for (tag = 0; tag < DEPTH && !ended; tag++)
				ended = k_cancel(s.k.ch, tag, s.k.desc[tag].seq) == 0;
			usleep(1000);
		}
		CHECK(ended);
		CHECK_EQ(result(&s, NULL, NULL), -ECANCELED);
		/* The executor goes with one ready and one delivered. */
		prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, 0, 1);
		push(&s);
		k_fetch1(s.k.ex);
		prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, 0, 2);
		push(&s);
		while (!k_info(s.k.ch).ready)
			usleep(1000);
		k_scene_kill_executor(&s.k);
		CHECK_EQ(result(&s, NULL, NULL), -EOWNERDEAD);
		CHECK_EQ(result(&s, NULL, NULL), -EOWNERDEAD);
		prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, 0, 2);
		push(&s);
		CHECK_EQ(result(&s, NULL, NULL), -EPIPE);
		scene_free(&s);
	}
}

/* A command that is parked with data 7, named in each way there is; then what becomes of it. */
static void cancel_by(struct scene *s, uint32_t flags, int want)
{
	struct io_uring_sync_cancel_reg reg = {
		.addr = 7, .fd = s->k.ch, .flags = flags, .timeout = { -1, -1 },
	};
	struct io_uring_sqe *sqe = prep(s, -1, 0, NULL, 0, 8);
	uint64_t data;

	sqe->opcode = IORING_OP_ASYNC_CANCEL;
	sqe->cmd_op = 0;
	sqe->addr = 7;
	sqe->cancel_flags = flags;
	if (flags & IORING_ASYNC_CANCEL_FD)
		sqe->fd = s->k.ch;
	if (flags & CANCEL_OP)
		sqe->len = IORING_OP_URING_CMD;
	push(s);
	CHECK_EQ(result(s, &data, NULL), want);
	CHECK_EQ(data, 8);
	/* Its struct has no opcode there. */
	if (!(flags & CANCEL_OP))
		CHECK_EQ(io_uring_register_sync_cancel(&s->ring, &reg), want);
	CHECK(quiet(s));
}

/* As many again, each with a timeout linked to it; those end, and tell that they did nothing. */
static void cancel_by_timeout(struct scene *s, const struct rlx_rq *rq)
{
	struct __kernel_timespec soon = { .tv_nsec = 1000000 };
	struct io_uring_sqe *sqe;
	uint64_t data;

	prep(s, s->k.ch, RLX_IOC_SUBMIT, rq, 0, 9)->flags |= IOSQE_IO_LINK;
	sqe = prep(s, -1, 0, NULL, 0, 10);
	sqe->opcode = IORING_OP_LINK_TIMEOUT;
	sqe->cmd_op = 0;
	sqe->addr = (uintptr_t)&soon;
	sqe->len = 1;
	push(s);
	CHECK_EQ(result(s, &data, NULL), -ENOENT);
	CHECK_EQ(data, 10);
	CHECK(quiet(s));
}

/*
 * io_uring looks for what ASYNC_CANCEL, its synchronous form and linked timeouts name among
 * its workers, polls, timeouts and waits, up to 7.3: our command stays parked and can still be
 * ended in every other way. Where one is found after all, rlx(4) has to say so.
 */
TEST(async_cancel_does_not_reach)
{
	need_parking();
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		struct scene s = scene_new(kinds[k].flags, 0);
		struct rlx_rq rq = k_rq(1, 1);
		unsigned int seen = 0;
		uint64_t data;

		prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, 0, 7);
		push(&s);
		while (!k_info(s.k.ch).ready)
			usleep(1000);
		cancel_by(&s, 0, -ENOENT);
		cancel_by(&s, IORING_ASYNC_CANCEL_FD, -ENOENT);
		cancel_by(&s, CANCEL_OP, -ENOENT);
		cancel_by(&s, IORING_ASYNC_CANCEL_ALL, 0);
		cancel_by(&s, IORING_ASYNC_CANCEL_ANY, 0);
		cancel_by_timeout(&s, &rq);
		k_scene_kill_executor(&s.k);
		for (int i = 0; i < 2; i++) {
			CHECK_EQ(result(&s, &data, NULL), -EOWNERDEAD);
			seen |= 1u << data;
		}
		CHECK_EQ(seen, 1u << 7 | 1u << 9);
		scene_free(&s);
	}
}

/* A ring closed with commands parked in every state. */
TEST(ring_closed)
{
	need_parking();
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		if (!may_close_parked(kinds[k].flags))
			continue;
		struct scene s = scene_new(kinds[k].flags, 0);
		int tl = k_timeline(s.k.session, 0);
		struct rlx_rq rq = k_rq(1, 1), waits = k_rq(2, 2);
		uint32_t tag, tag2;
		struct rlx_ioc_fetch f = {
			.tags = (uintptr_t)&tag2, .max = 1, .min = 1,
			.timeout_ns = K_EVER,
		};

		waits.flags = RLX_RQ_WAIT;
		waits.wait = k_attach(s.k.ch, tl, RLX_R);
		waits.wait_value = 1;
		prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, 0, 1);
		push(&s);
		tag = k_fetch1(s.k.ex);
		prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq, 0, 2);
		prep(&s, s.k.ch, RLX_IOC_SUBMIT, &waits, 0, 3);
		push(&s);
		while (!k_info(s.k.ch).ready)
			usleep(1000);
		io_uring_queue_exit(&s.ring);
		while (k_info(s.k.ch).ready)
			usleep(1000);
		/* The delivered one went on without its command. */
		while (!(((volatile struct rlx_desc *)s.k.desc)[tag].flags & RLX_RQ_UNWANTED))
			usleep(1000);
		CHECK_EQ(k_commit1(s.k.ex, s.k.desc, tag, 1, 0), 1);
		CHECK_EQ(k_signal(tl, 1), 0);
		CHECK_EQ(k_fetch(s.k.ex, &tag, 1, 0, 0), -EAGAIN);
		/* And a parked FETCH. */
		ring_new(&s, kinds[k].flags);
		prep(&s, s.k.ex, RLX_IOC_FETCH, &f, 0, 1);
		push(&s);
		CHECK(quiet(&s));
		io_uring_queue_exit(&s.ring);
		close(tl);
		k_scene_free(&s.k);
	}
}

/* The executor's last fd goes; a FETCH is told, however much it waits for. */
TEST(executor_closed)
{
	need_parking();
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		struct scene s = scene_new(kinds[k].flags, 0);
		struct rlx_rq rq = k_rq(1, 1);
		uint32_t tag[4];
		struct rlx_ioc_fetch f = {
			.tags = (uintptr_t)tag, .max = 4, .min = 4, .timeout_ns = K_EVER,
		};

		prep(&s, s.k.ex, RLX_IOC_FETCH, &f, 0, 1);
		push(&s);
		while (io_uring_sq_ready(&s.ring))	/* SQPOLL has not got to it */
			usleep(1000);
		CHECK_EQ(k_submit(s.k.ch, &rq, 1, NULL), 1);
		CHECK(quiet(&s));
		k_scene_kill_executor(&s.k);
		CHECK_EQ(result(&s, NULL, NULL), -EPIPE);
		scene_free(&s);
	}
}

/* COMMIT_AND_FETCH as the whole loop of an executor, against a client that waits. */
static void *echo(void *arg)
{
	struct scene *s = arg;
	struct rlx_complete c[4];
	uint32_t tag[4];
	struct rlx_ioc_commit_fetch cf = {
		.commit = { .entries = (uintptr_t)c },
		.fetch = { .tags = (uintptr_t)tag, .max = 4, .timeout_ns = K_EVER },
	};

	for (;;) {
		int n = now(s, s->k.ex, RLX_IOC_COMMIT_AND_FETCH, &cf, 0);

		CHECKF(n > 0, "COMMIT_AND_FETCH: %d", n);
		for (int i = 0; i < n; i++) {
			if (tag[i] & RLX_TAG_EVENT)
				return NULL;
			c[i] = (struct rlx_complete){
				.seq = s->k.desc[tag[i]].seq, .tag = tag[i],
				.result = s->k.desc[tag[i]].opcode + 1,
			};
		}
		cf.commit.nr = n;
	}
}

static void *echo_thread(void *arg)
{
	struct scene *s = arg, mine = *s;

	ring_new(&mine, s->flags);
	echo(&mine);
	io_uring_queue_exit(&mine.ring);
	return NULL;
}

TEST(two_threads)
{
	need_parking();
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		struct scene s = scene_new(kinds[k].flags, 0);
		struct rlx_rq rq[DEPTH];
		pthread_t t;

		pthread_create(&t, NULL, echo_thread, &s);
		for (int round = 0; round < 300; round++) {
			int n = 1 + round % DEPTH;
			uint64_t seen = 0;

			for (int i = 0; i < n; i++) {
				rq[i] = k_rq(100 + i, i);
				prep(&s, s.k.ch, RLX_IOC_SUBMIT, &rq[i], 0, i);
			}
			push(&s);
			for (int i = 0; i < n; i++) {
				uint64_t data;
				int res = result(&s, &data, NULL);

				CHECK_EQ(res, 101 + data);
				seen |= 1ull << data;
			}
			CHECK_EQ(seen, (1ull << n) - 1);
		}
		close(s.k.ch);
		s.k.ch = -1;
		pthread_join(t, NULL);
		scene_free(&s);
	}
}

/*
 * Told of four requests, of which two are gone when it looks, a FETCH of four parks
 * again: the two that are there are for who wants one.
 */
TEST(parked_again)
{
	need_parking();
	struct scene a = scene_new(kinds[2].flags, 0), b = a;
	struct rlx_rq rq[4] = { k_rq(1, 1), k_rq(1, 2), k_rq(1, 3), k_rq(1, 4) };
	uint32_t tag[8];
	struct rlx_ioc_fetch four = {
		.tags = (uintptr_t)tag, .max = 4, .min = 4, .timeout_ns = K_EVER,
	}, one = {
		.tags = (uintptr_t)&tag[4], .max = 1, .timeout_ns = K_EVER,
	};
	struct rlx_cqe cqe[8];

	CHECK(a.flags & IORING_SETUP_DEFER_TASKRUN);	/* looks when it is asked to */
	ring_new(&b, a.flags);
	prep(&a, a.k.ex, RLX_IOC_FETCH, &four, 0, 4);
	push(&a);
	CHECK(quiet(&a));
	prep(&b, b.k.ex, RLX_IOC_FETCH, &one, 0, 1);
	push(&b);
	CHECK(quiet(&b));
	CHECK_EQ(k_submit(a.k.ch, rq, 4, NULL), 4);
	CHECK_EQ(k_fetch(a.k.ex, &tag[5], 2, 0, 0), 2);
	CHECK(quiet(&a));
	CHECK(!quiet(&b));
	CHECK_EQ(result(&b, NULL, NULL), 1);
	/* The last, and three more. */
	CHECK_EQ(k_submit(a.k.ch, rq, 3, NULL), 3);
	CHECK_EQ(result(&a, NULL, NULL), 4);
	for (int i = 0; i < 7; i++)
		CHECK_EQ(k_commit1(a.k.ex, a.k.desc, tag[i], i, 0), 1);
	CHECK_EQ(k_reap(a.k.ch, cqe, 8, 7, K_EVER), 7);
	io_uring_queue_exit(&b.ring);
	scene_free(&a);
}

/* Many parked fetches, and requests one by one: each wakes one, none is lost. */
TEST(many_fetchers)
{
	need_parking();
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		if (!may_close_parked(kinds[k].flags))
			continue;
		struct scene s = scene_new(kinds[k].flags, 0);
		struct rlx_ioc_fetch f[16];
		struct rlx_rq rq = k_rq(1, 1);
		struct rlx_cqe cqe;
		uint32_t tag[16];
		uint64_t data;

		for (int i = 0; i < 16; i++) {
			tag[i] = ~0u;
			f[i] = (struct rlx_ioc_fetch){
				.tags = (uintptr_t)&tag[i], .max = 1,
				.timeout_ns = K_EVER,
			};
			prep(&s, s.k.ex, RLX_IOC_FETCH, &f[i], 0, i);
		}
		push(&s);
		for (int i = 0; i < 16; i++) {
			CHECK_EQ(k_submit(s.k.ch, &rq, 1, NULL), 1);
			CHECK_EQ(result(&s, &data, NULL), 1);
			CHECK(quiet(&s));
			CHECK_EQ(k_commit1(s.k.ex, s.k.desc, tag[data], 1, 0), 1);
			CHECK_EQ(k_reap(s.k.ch, &cqe, 1, 1, K_EVER), 1);
		}
		/* The table of parked ones ends somewhere. */
		int refused = 0;

		for (int i = 0; i < 300; i++) {
			prep(&s, s.k.ex, RLX_IOC_FETCH, &f[0], 0, 1);
			push(&s);
			if (!quiet(&s)) {
				CHECK_EQ(result(&s, NULL, NULL), -ENOSPC);
				refused++;
			} else if (kinds[k].flags & IORING_SETUP_SQPOLL) {
				usleep(1000);
			}
		}
		/* The ring's own thread may not have got to the last ones yet. */
		for (int i = 0; i < 6000 && refused < 44; i++) {
			usleep(10000);
			while (!quiet(&s)) {
				CHECK_EQ(result(&s, NULL, NULL), -ENOSPC);
				refused++;
			}
		}
		CHECK_EQ(refused, 44);
		scene_free(&s);
	}
}

TEST_MAIN()
