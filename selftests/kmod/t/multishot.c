// SPDX-License-Identifier: MIT
/* Multishot FETCH: tags as they come, in provided buffers, and each of its ends. */
/* rig: timeout=120 also */
#include <errno.h>
#include <liburing.h>
#include <linux/rlx.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/chan.h"

#define DEPTH	64
#define GROUP	3
#define BUFS	16	/* of so many tags each */
#define TAGS	16

/* <liburing.h> may be older than the kernel. */
#define CMD_MULTISHOT	(1u << 1)

static const unsigned int kinds[] = {
	0, IORING_SETUP_SQE128 | IORING_SETUP_CQE32, IORING_SETUP_COOP_TASKRUN,
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, IORING_SETUP_SQPOLL,
};
#define NR_KINDS	(sizeof(kinds) / sizeof(*kinds))

struct scene {
	struct k_scene k;
	struct io_uring ring;
	unsigned int flags;
	uint32_t buf[BUFS][TAGS];
	struct io_uring_buf_ring *br;
};

static bool supported(int session)
{
	return k_features(session) & RLX_FEAT_URING_MSHOT;
}

static void need_support(void)
{
	int s = k_open();

	if (!supported(s))
		rlx_test_skip("this kernel's commands are not multishot");
	close(s);
}

/* A ring of @entries completions, by @br with a ring of buffers, else without any yet. */
static void ring_new(struct scene *s, unsigned int flags, uint32_t entries, bool br)
{
	struct io_uring_params p = {
		.flags = flags | IORING_SETUP_CQSIZE, .cq_entries = entries,
		.sq_thread_idle = 50,
	};
	struct io_uring_buf_reg reg = { .ring_entries = BUFS, .bgid = GROUP };
	int err = io_uring_queue_init_params(4, &s->ring, &p);

	CHECKF(!err, "io_uring with flags %#x: %d", flags, err);
	s->flags = flags;
	s->br = NULL;
	if (!br)
		return;
	s->br = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(s->br != MAP_FAILED);
	reg.ring_addr = (uintptr_t)s->br;
	CHECK(!io_uring_register_buf_ring(&s->ring, &reg, 0));
	io_uring_buf_ring_init(s->br);
}

static void give(struct scene *s, unsigned int bid, unsigned int bytes)
{
	memset(s->buf[bid], 0xee, sizeof(s->buf[bid]));
	io_uring_buf_ring_add(s->br, s->buf[bid], bytes, bid, BUFS - 1, 0);
	io_uring_buf_ring_advance(s->br, 1);
}

static void give_all(struct scene *s)
{
	for (unsigned int i = 0; i < BUFS; i++)
		give(s, i, sizeof(s->buf[i]));
}

static void scene_new(struct scene *s, unsigned int flags, uint32_t entries)
{
	memset(s, 0, sizeof(*s));
	s->k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH });
	ring_new(s, flags, entries, true);
	give_all(s);
}

static void ring_free(struct scene *s)
{
	io_uring_queue_exit(&s->ring);
	if (s->br)
		munmap(s->br, 4096);
}

static void scene_free(struct scene *s)
{
	ring_free(s);
	k_scene_free(&s->k);
}

static struct io_uring_sqe *prep(struct scene *s, uint32_t op, const void *arg,
				 uint32_t flags)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);
	struct rlx_uring_cmd *p;

	CHECK(sqe);
	memset(sqe, 0, s->flags & IORING_SETUP_SQE128 ? 128 : 64);
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = s->k.ex;
	sqe->cmd_op = op;
	sqe->user_data = 7;
	p = (struct rlx_uring_cmd *)sqe->cmd;
	p->addr = (uintptr_t)arg;
	p->flags = flags;
	return sqe;
}

static struct rlx_ioc_fetch *any(uint32_t max)
{
	static struct rlx_ioc_fetch f;

	f = (struct rlx_ioc_fetch){ .max = max, .timeout_ns = K_EVER };
	return &f;
}

static void submit(struct scene *s)
{
	CHECK_EQ(io_uring_submit(&s->ring), 1);
	while (io_uring_sq_ready(&s->ring))	/* SQPOLL has not got to it */
		usleep(1000);
}

static void arm_with(struct scene *s, const struct rlx_ioc_fetch *f)
{
	struct io_uring_sqe *sqe = prep(s, RLX_IOC_FETCH, f, RLX_URING_MULTISHOT);

	sqe->rw_flags = CMD_MULTISHOT;
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	submit(s);
}

static void arm(struct scene *s)
{
	arm_with(s, any(1024));
}

struct shot {
	int res;
	uint32_t flags, bid;
	uint64_t data;
};

static struct shot next(struct scene *s)
{
	struct __kernel_timespec ts = { .tv_sec = 60 };
	struct io_uring_cqe *cqe;
	int err = io_uring_wait_cqe_timeout(&s->ring, &cqe, &ts);
	struct shot shot;

	CHECKF(!err, "no CQE: %d", err);
	shot = (struct shot){ cqe->res, cqe->flags, cqe->flags >> IORING_CQE_BUFFER_SHIFT,
			      cqe->user_data };
	io_uring_cqe_seen(&s->ring, cqe);
	return shot;
}

static bool quiet(struct scene *s)
{
	struct io_uring_cqe *cqe;

	io_uring_get_events(&s->ring);
	return io_uring_peek_cqe(&s->ring, &cqe) != 0;
}

/* The next CQE brings tags, and there are more to come; how many. */
static int tags(struct scene *s, uint32_t *to)
{
	struct shot shot = next(s);

	CHECKF(shot.res > 0 && shot.res % 4 == 0, "a CQE of %d", shot.res);
	CHECK(shot.flags & IORING_CQE_F_MORE);
	CHECK(shot.flags & IORING_CQE_F_BUFFER);
	CHECK(shot.bid < BUFS && shot.res <= (int)sizeof(s->buf[0]));
	memcpy(to, s->buf[shot.bid], shot.res);
	/* Nothing behind what it said. */
	if (shot.res < (int)sizeof(s->buf[0]))
		CHECK_EQ(s->buf[shot.bid][shot.res / 4], 0xeeeeeeee);
	give(s, shot.bid, sizeof(s->buf[0]));
	return shot.res / 4;
}

/* The last CQE of the command. */
static void ends(struct scene *s, int want)
{
	struct shot shot = next(s);

	CHECKF(shot.res == want, "the end is %d, not %d", shot.res, want);
	CHECK(!(shot.flags & (IORING_CQE_F_MORE | IORING_CQE_F_BUFFER)));
	CHECK_EQ(shot.data, 7);
}

static void ask(struct scene *s, uint32_t n)
{
	struct rlx_rq rq[DEPTH];

	for (uint32_t i = 0; i < n; i++)
		rq[i] = k_rq(i, i);
	CHECK_EQ(k_submit(s->k.ch, rq, n, NULL), n);
}

static void answer(struct scene *s, const uint32_t *tag, uint32_t n)
{
	struct rlx_cqe cqe[DEPTH];

	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(k_commit1(s->k.ex, s->k.desc, tag[i], 1, 0), 1);
	CHECK_EQ(k_reap(s->k.ch, cqe, n, n, K_EVER), n);
}

/* ---- what it does ---- */

TEST(refused)
{
	struct scene s;
	struct rlx_ioc_fetch f = *any(8);
	struct rlx_ioc_commit c = { 0 };
	struct io_uring_sqe *sqe;
	int how = 0;

	memset(&s, 0, sizeof(s));
	s.k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH });
	if (!supported(s.k.session)) {
		ring_new(&s, 0, 64, false);
		prep(&s, RLX_IOC_FETCH, &f, RLX_URING_MULTISHOT);
		submit(&s);
		CHECK_EQ(next(&s).res, -EOPNOTSUPP);
		scene_free(&s);
		return;
	}
	ring_new(&s, 0, 64, true);
	give_all(&s);
	/* One of the two flags without the other; io_uring asks for buffers itself. */
	prep(&s, RLX_IOC_FETCH, &f, RLX_URING_MULTISHOT);
	submit(&s);
	CHECK_EQ(next(&s).res, -EINVAL);
	for (int i = 0; i < 2; i++) {
		sqe = prep(&s, i ? RLX_IOC_COMMIT : RLX_IOC_FETCH, i ? (void *)&c : &f,
			   i ? RLX_URING_MULTISHOT : 0);
		sqe->rw_flags = CMD_MULTISHOT;
		sqe->flags = IOSQE_BUFFER_SELECT;
		sqe->buf_group = GROUP;
		submit(&s);
		CHECK_EQ(next(&s).res, -EINVAL);
	}
	for (how = 0; how < 7; how++) {
		f = *any(8);
		switch (how) {
		case 0: f.tags = (uintptr_t)s.buf; break;
		case 1: f.min = 2; break;
		case 2: f.flags = RLX_FETCH_NOWAIT; break;
		case 3: f.timeout_ns = 1; break;
		case 4: f.max = 0; break;
		case 5: f.queue = 1; break;
		case 6: f.flags = 8; break;
		}
		arm_with(&s, &f);
		CHECK_EQ(next(&s).res, -EINVAL);
	}
	scene_free(&s);
	/* A ring has its tags already. */
	memset(&s, 0, sizeof(s));
	s.k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH, .exec = RLX_EXEC_RING });
	ring_new(&s, 0, 64, true);
	give_all(&s);
	arm(&s);
	ends(&s, -EINVAL);
	scene_free(&s);
}

/* Before it, one by one, many at once; and each exactly once. */
TEST(as_they_come)
{
	need_support();
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		uint32_t tag[DEPTH], n;
		struct scene s;

		scene_new(&s, kinds[k], 64);
		ask(&s, 3);
		arm(&s);
		CHECK_EQ(tags(&s, tag), 3);
		answer(&s, tag, 3);
		for (int i = 0; i < 50; i++) {
			CHECK(quiet(&s));
			ask(&s, 1);
			CHECK_EQ(tags(&s, tag), 1);
			answer(&s, tag, 1);
		}
		for (int i = 0; i < 10; i++) {
			uint64_t seen = 0;

			ask(&s, DEPTH);
			for (n = 0; n < DEPTH;)
				n += tags(&s, tag + n);
			CHECK_EQ(n, DEPTH);
			for (n = 0; n < DEPTH; n++)
				seen |= 1ull << tag[n];
			CHECK_EQ(seen, ~0ull);
			answer(&s, tag, DEPTH);
		}
		CHECK(quiet(&s));
		k_scene_kill_executor(&s.k);
		ends(&s, -EPIPE);
		scene_free(&s);
	}
}

TEST(max_of_a_shot)
{
	need_support();
	uint32_t tag[DEPTH];
	struct scene s;

	scene_new(&s, 0, 64);
	arm_with(&s, any(2));
	ask(&s, 5);
	CHECK_EQ(tags(&s, tag), 2);
	CHECK_EQ(tags(&s, tag + 2), 2);
	CHECK_EQ(tags(&s, tag + 4), 1);
	answer(&s, tag, 5);
	scene_free(&s);
}

/* From a worker it comes back to the task. */
TEST(from_a_worker)
{
	need_support();
	uint32_t tag[DEPTH];
	struct io_uring_sqe *sqe;
	struct scene s;

	scene_new(&s, 0, 64);
	sqe = prep(&s, RLX_IOC_FETCH, any(8), RLX_URING_MULTISHOT);
	sqe->rw_flags = CMD_MULTISHOT;
	sqe->flags = IOSQE_BUFFER_SELECT | IOSQE_ASYNC;
	sqe->buf_group = GROUP;
	submit(&s);
	for (int i = 0; i < 5; i++) {
		ask(&s, 2);
		CHECK_EQ(tags(&s, tag), 2);
		answer(&s, tag, 2);
	}
	scene_free(&s);
}

struct client {
	struct scene *s;
	int rounds;
};

static void *ask_on(void *arg)
{
	struct client *c = arg;
	struct rlx_cqe cqe;

	for (int i = 0; i < c->rounds; i++) {
		struct rlx_rq rq = k_rq(1, 1);

		CHECK_EQ(k_submit(c->s->k.ch, &rq, 1, NULL), 1);
		CHECK_EQ(k_reap(c->s->k.ch, &cqe, 1, 1, K_SOON), 1);
		CHECK_EQ(cqe.result, 1);
	}
	return NULL;
}

/* Asked from another thread, so that each wakes it as it parks. */
TEST(racing)
{
	need_support();
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		struct scene s;
		struct client c = { &s, 2000 };
		uint32_t tag[DEPTH];
		pthread_t t;

		scene_new(&s, kinds[k], 64);
		arm(&s);
		pthread_create(&t, NULL, ask_on, &c);
		for (int i = 0; i < c.rounds; i++) {
			CHECK_EQ(tags(&s, tag), 1);
			CHECK_EQ(k_commit1(s.k.ex, s.k.desc, tag[0], 1, 0), 1);
		}
		pthread_join(t, NULL);
		scene_free(&s);
	}
}

/* ---- its ends ---- */

TEST(no_buffer_left)
{
	need_support();
	uint32_t tag[DEPTH];
	struct shot shot;
	struct scene s;

	memset(&s, 0, sizeof(s));
	s.k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH });
	ring_new(&s, 0, 64, true);
	give(&s, 2, 12);
	arm(&s);
	ask(&s, 5);
	shot = next(&s);
	CHECK(shot.res == 12 && shot.bid == 2 && shot.flags & IORING_CQE_F_MORE);
	memcpy(tag, s.buf[2], 12);
	ends(&s, -ENOBUFS);
	/* The two that found none are there for the next. */
	CHECK_EQ(k_info(s.k.ex).ready, 2);
	CHECK_EQ(k_info(s.k.ex).delivered, 3);
	/* Three bytes are no tag; that buffer is there still. */
	give(&s, 3, 3);
	arm(&s);
	ends(&s, -ENOBUFS);
	CHECK_EQ(k_fetch(s.k.ex, tag + 3, 8, 2, K_SOON), 2);
	answer(&s, tag, 5);
	ring_free(&s);
	/* Nobody made such a group. */
	ring_new(&s, 0, 64, false);
	ask(&s, 1);
	arm(&s);
	ends(&s, -ENOBUFS);
	answer(&s, (uint32_t[]){ k_fetch1(s.k.ex) }, 1);
	scene_free(&s);
}

TEST(buffer_that_is_none)
{
	need_support();
	uint32_t tag[DEPTH];
	struct scene s;

	memset(&s, 0, sizeof(s));
	s.k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH });
	ring_new(&s, 0, 64, true);
	io_uring_buf_ring_add(s.br, (void *)0x1000, 64, 5, BUFS - 1, 0);
	io_uring_buf_ring_advance(s.br, 1);
	arm(&s);
	ask(&s, 2);
	ends(&s, -EFAULT);
	CHECK_EQ(k_info(s.k.ex).ready, 2);
	CHECK_EQ(k_fetch(s.k.ex, tag, 8, 2, K_SOON), 2);
	answer(&s, tag, 2);
	scene_free(&s);
}

/* No room for a CQE: nothing is lost, and it can be asked for again. */
TEST(completions_overflow)
{
	need_support();
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		uint32_t tag[DEPTH], n = 0;
		struct shot shot;
		struct scene s;

		scene_new(&s, kinds[k], 4);
		arm_with(&s, any(1));
		ask(&s, 10);
		/* Each in a CQE of its own: four fit. */
		for (;;) {
			for (int i = 0; i < 20 && quiet(&s); i++)
				usleep(1000);
			shot = next(&s);
			if (!(shot.flags & IORING_CQE_F_MORE))
				break;
			CHECK_EQ(shot.res, 4);
			tag[n++] = s.buf[shot.bid][0];
			CHECK(n <= 10);
			if (n == 10)
				break;
		}
		CHECKF(n >= 4 && n < 10 && shot.res == -ENOSPC, "%u told, then %d", n,
		       shot.res);
		CHECK_EQ(k_info(s.k.ex).delivered, n);
		CHECK_EQ(k_info(s.k.ex).ready, 10 - n);
		CHECK_EQ(k_fetch(s.k.ex, tag + n, 10, 10 - n, K_SOON), 10 - n);
		answer(&s, tag, 10);
		scene_free(&s);
	}
}

TEST(async_cancel_does_not_reach)
{
	need_support();
	uint32_t tag[DEPTH];
	struct io_uring_sqe *sqe;
	struct shot shot;
	struct scene s;

	scene_new(&s, 0, 64);
	arm(&s);
	sqe = prep(&s, 0, NULL, 0);
	sqe->opcode = IORING_OP_ASYNC_CANCEL;
	sqe->fd = -1;
	sqe->cmd_op = 0;
	sqe->addr = 7;
	sqe->user_data = 8;
	submit(&s);
	shot = next(&s);
	CHECK(shot.data == 8 && shot.res == -ENOENT);
	ask(&s, 1);
	CHECK_EQ(tags(&s, tag), 1);
	answer(&s, tag, 1);
	scene_free(&s);
}

/* The ring goes with it parked, and with requests that nobody looked at yet. */
TEST(ring_closed)
{
	need_support();
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		uint32_t tag[DEPTH];
		struct scene s;

		scene_new(&s, kinds[k], 64);
		arm(&s);
		ring_free(&s);
		ask(&s, 3);
		CHECK_EQ(k_fetch(s.k.ex, tag, 8, 3, K_SOON), 3);
		answer(&s, tag, 3);
		ring_new(&s, kinds[k], 64, true);
		give_all(&s);
		arm(&s);
		ask(&s, 3);
		ring_free(&s);
		/* Those that were told of in the ring went with it: the executor lives. */
		for (int i = 0; i < 60000 && k_info(s.k.ex).ready +
						 k_info(s.k.ex).delivered != 3; i++)
			usleep(1000);
		CHECK_EQ(k_info(s.k.ex).ready + k_info(s.k.ex).delivered, 3);
		k_scene_free(&s.k);
	}
}

TEST(executor_closed)
{
	need_support();
	for (unsigned int k = 0; k < NR_KINDS; k++) {
		struct scene s;

		scene_new(&s, kinds[k], 64);
		arm(&s);
		k_scene_kill_executor(&s.k);
		ends(&s, -EPIPE);
		scene_free(&s);
	}
}

/* A channel's end is told like a request. */
TEST(client_gone)
{
	need_support();
	uint32_t tag[DEPTH], id;
	struct rlx_event ev;
	struct scene s;

	scene_new(&s, 0, 64);
	arm(&s);
	id = s.k.id;
	k_scene_kill_client(&s.k);
	CHECK_EQ(tags(&s, tag), 1);
	CHECK_EQ(tag[0], RLX_TAG_EVENT | id);
	CHECK_EQ(k_events(s.k.ex, id, &ev, 1), 1);
	CHECK_EQ(ev.type, RLX_EVENT_GONE);
	scene_free(&s);
}

/* Its process is killed, parked or in the midst of many: its service goes on. */
TEST(killed)
{
	need_support();
	for (int round = 0; round < 10; round++) {
		int s = k_open(), svc = k_service(s, 1, DEPTH, RLX_SERVICE_REQUEUE), ready[2];
		uint32_t tag[DEPTH], id, n = 0;
		struct rlx_rq rq[DEPTH];
		int ch, ex;
		pid_t pid;
		char c;

		CHECK(!pipe(ready));
		pid = fork();
		if (!pid) {
			struct scene mine;

			memset(&mine, 0, sizeof(mine));
			mine.k.ex = k_executor(svc, 0);
			ring_new(&mine, kinds[round % NR_KINDS], 64, true);
			give_all(&mine);
			arm(&mine);
			CHECK_EQ(write(ready[1], "x", 1), 1);
			for (;;)
				tags(&mine, tag);
		}
		CHECK_EQ(read(ready[0], &c, 1), 1);
		ch = k_channel(s, svc, DEPTH, 0, &id);
		for (uint32_t i = 0; i < 20; i++)
			rq[i] = k_rq(i, i);
		if (round & 1)
			CHECK_EQ(k_submit(ch, rq, 20, NULL), 20);
		usleep(round * 300);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, NULL, 0) == pid);
		/* What it had been told of goes to the next. */
		ex = k_next_executor(svc, 0);
		if (round & 1)
			for (n = 0; n < 20;) {
				long got = k_fetch(ex, tag + n, 20 - n, 1, K_SOON);

				CHECK(got > 0);
				n += got;
			}
		close(ch);
		close(ex);
		close(svc);
		close(s);
		close(ready[0]);
		close(ready[1]);
		CHECK(k_stat_becomes("nr_services", 0));
	}
}

TEST_MAIN()
