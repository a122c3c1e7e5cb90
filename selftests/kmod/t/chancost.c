// SPDX-License-Identifier: MIT
/* What a request costs, as ratios to io_uring's NOP and to other ways to talk. */
/* rig: kernels=6.1,6.12 timeout=240 */
#include <errno.h>
#include <liburing.h>
#include <linux/rlx.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/chan.h"

#define DEPTH	64
/*
 * Short samples of all measurements in turn, the least of each counts: where the
 * guest's processors share those of a busy machine, only in some samples both ran.
 */
#define ROUNDS	400
#define SINGLES	30	/* requests of a sample, one by one */
#define BATCHES	2	/* batches of a sample */
#define NAPS	40	/* samples of what sleeps: it is slow, and steadier */

static void on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

struct scene {
	int session, svc, ex, ch;
	const struct rlx_desc *desc;
	struct k_ring rq, done;
	struct io_uring ring;		/* of the client */
};

static struct scene scene_new(uint32_t exec, uint32_t chan)
{
	struct scene s = { .session = k_open() };

	s.svc = k_service(s.session, 1, DEPTH, 0);
	s.ex = k_executor(s.svc, exec);
	s.ch = k_channel(s.session, s.svc, DEPTH, chan, NULL);
	s.desc = k_desc(s.ex, DEPTH);
	if (exec)
		s.rq = k_map_ring(s.ex, k_exec_entries(DEPTH), 4);
	if (chan)
		s.done = k_map_ring(s.ch, DEPTH, sizeof(struct rlx_cqe));
	return s;
}

static void scene_free(struct scene *s)
{
	if (s->rq.ring)
		k_unmap_ring(&s->rq);
	if (s->done.ring)
		k_unmap_ring(&s->done);
	k_undesc(s->desc, DEPTH);
	close(s->ch);
	close(s->ex);
	close(s->svc);
	close(s->session);
}

static void ring_new(struct io_uring *ring)
{
	struct io_uring_params p = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
	};

	CHECK_EQ(io_uring_queue_init_params(2 * DEPTH, ring, &p), 0);
}

/* ---- the other end: takes all there is, commits it, until it has done @left ---- */

static atomic_bool stop;

static void *poll_ring(void *arg)
{
	struct scene *s = arg;
	struct rlx_complete c[DEPTH];

	on_cpu(1);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		const uint32_t *e;
		uint32_t n = 0;

		while (n < DEPTH && (e = k_ring_next(&s->rq)))
			c[n++] = (struct rlx_complete){
				.seq = s->desc[*e].seq, .tag = *e, .result = 1,
			};
		if (n)
			k_commit(s->ex, c, n, NULL);
	}
	return NULL;
}

/* The same, sleeping in COMMIT_AND_FETCH. */
static void *sleep_fetch(void *arg)
{
	struct scene *s = arg;
	struct rlx_complete c[DEPTH];
	uint32_t tag[DEPTH];
	struct rlx_ioc_commit_fetch cf = {
		.commit = { .entries = (uintptr_t)c },
		.fetch = { .tags = (uintptr_t)tag, .max = DEPTH,
			   .timeout_ns = 100 * K_MS },
	};

	on_cpu(1);
	while (!atomic_load(&stop)) {
		long n = k_ioctl(s->ex, RLX_IOC_COMMIT_AND_FETCH, &cf);

		cf.commit.nr = n > 0 ? n : 0;
		for (uint32_t i = 0; i < cf.commit.nr; i++)
			c[i] = (struct rlx_complete){
				.seq = s->desc[tag[i]].seq, .tag = tag[i],
			};
	}
	return NULL;
}

static void *echo_fd(void *arg)
{
	int *fd = arg;
	uint64_t v;

	on_cpu(1);
	while (read(fd[0], &v, 8) == 8 && v != 1u << 20)
		if (write(fd[1], &v, 8) != 8)
			break;
	return NULL;
}

/* ---- one sample each: ns for one request ---- */

static double nops(struct io_uring *ring, uint32_t batch, uint32_t times)
{
	uint64_t t0 = k_now();

	for (uint32_t t = 0; t < times; t++) {
		for (uint32_t i = 0; i < batch; i++)
			io_uring_prep_nop(io_uring_get_sqe(ring));
		CHECK_EQ(io_uring_submit_and_wait(ring, batch), batch);
		io_uring_cq_advance(ring, batch);
	}
	return (double)(k_now() - t0) / times / batch;
}

static double rings(struct scene *s, uint32_t batch, uint32_t times)
{
	struct rlx_rq rq[DEPTH];
	uint64_t t0;

	for (uint32_t i = 0; i < batch; i++)
		rq[i] = k_rq(1, i);
	t0 = k_now();
	for (uint32_t t = 0; t < times; t++) {
		CHECK_EQ(k_submit(s->ch, rq, batch, NULL), batch);
		for (uint32_t i = 0; i < batch; i++)
			k_ring_wait(&s->done);
	}
	return (double)(k_now() - t0) / times / batch;
}

/* Both ends by one thread: the work alone. */
static double alone(struct scene *s, uint32_t batch, uint32_t times)
{
	struct rlx_complete c[DEPTH];
	struct rlx_rq rq[DEPTH];
	uint64_t t0;

	for (uint32_t i = 0; i < batch; i++)
		rq[i] = k_rq(1, i);
	t0 = k_now();
	for (uint32_t t = 0; t < times; t++) {
		CHECK_EQ(k_submit(s->ch, rq, batch, NULL), batch);
		for (uint32_t i = 0; i < batch; i++) {
			const uint32_t *e = k_ring_next(&s->rq);

			c[i] = (struct rlx_complete){
				.seq = s->desc[*e].seq, .tag = *e, .result = 1,
			};
		}
		CHECK_EQ(k_commit(s->ex, c, batch, NULL), batch);
		for (uint32_t i = 0; i < batch; i++)
			CHECK(k_ring_next(&s->done));
	}
	return (double)(k_now() - t0) / times / batch;
}

/* By io_uring: parked, or (@post) answered at once and completed in the ring. */
static double uring(struct scene *s, uint32_t batch, uint32_t times, bool post)
{
	struct rlx_rq rq[DEPTH];
	uint64_t t0;

	for (uint32_t i = 0; i < batch; i++)
		rq[i] = k_rq(1, i);
	t0 = k_now();
	for (uint32_t t = 0; t < times; t++) {
		for (uint32_t i = 0; i < batch; i++) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);
			struct rlx_uring_cmd *p = (struct rlx_uring_cmd *)sqe->cmd;

			CHECK(sqe);
			memset(sqe, 0, sizeof(*sqe));
			sqe->opcode = IORING_OP_URING_CMD;
			sqe->fd = s->ch;
			sqe->cmd_op = RLX_IOC_SUBMIT;
			p->addr = (uintptr_t)&rq[i];
			p->flags = post ? RLX_URING_POST : 0;
		}
		if (post) {
			CHECK_EQ(io_uring_submit(&s->ring), batch);
			for (uint32_t i = 0; i < batch; i++)
				k_ring_wait(&s->done);
		} else {
			CHECK_EQ(io_uring_submit(&s->ring), batch);
			while (io_uring_cq_ready(&s->ring) < batch)
				io_uring_get_events(&s->ring);
		}
		io_uring_cq_advance(&s->ring, batch);
	}
	return (double)(k_now() - t0) / times / batch;
}

static double sleeping(struct scene *s, uint32_t times)
{
	struct rlx_rq rq = k_rq(1, 1);
	struct rlx_cqe cqe;
	uint64_t t0 = k_now();

	for (uint32_t t = 0; t < times; t++) {
		CHECK_EQ(k_submit(s->ch, &rq, 1, NULL), 1);
		CHECK_EQ(k_reap(s->ch, &cqe, 1, 1, K_EVER), 1);
	}
	return (double)(k_now() - t0) / times;
}

static double echoes(int *fd, uint32_t times)
{
	uint64_t t0 = k_now(), v = 1;

	for (uint32_t t = 0; t < times; t++) {
		CHECK_EQ(write(fd[1], &v, 8), 8);
		CHECK_EQ(read(fd[0], &v, 8), 8);
	}
	return (double)(k_now() - t0) / times;
}

static void least(double *best, double now)
{
	if (!*best || now < *best)
		*best = now;
}

/* ---- figures ---- */

TEST(one_thread)
{
	struct scene s = scene_new(RLX_EXEC_RING, RLX_CHANNEL_RING);
	double nop1 = 0, nop64 = 0, one = 0, many = 0;

	on_cpu(0);
	ring_new(&s.ring);
	for (int i = 0; i < ROUNDS; i++) {
		least(&nop1, nops(&s.ring, 1, SINGLES));
		least(&one, alone(&s, 1, SINGLES));
		least(&nop64, nops(&s.ring, 64, BATCHES));
		least(&many, alone(&s, 64, BATCHES));
	}
	io_uring_queue_exit(&s.ring);
	scene_free(&s);
	printf("# both ends by one thread: NOP %.0f ns, request %.0f ns (%.2f); by 64: "
	       "NOP %.0f ns, request %.0f ns (%.2f)\n", nop1, one, one / nop1, nop64, many,
	       many / nop64);
}

TEST(polling)
{
	struct scene s = scene_new(RLX_EXEC_RING, RLX_CHANNEL_RING);
	double nop1 = 0, nop64 = 0, one = 0, many = 0, post1 = 0, post64 = 0;
	pthread_t t;

	on_cpu(0);
	ring_new(&s.ring);
	stop = false;
	pthread_create(&t, NULL, poll_ring, &s);
	for (int i = 0; i < ROUNDS; i++) {
		least(&nop1, nops(&s.ring, 1, SINGLES));
		least(&one, rings(&s, 1, SINGLES));
		least(&post1, uring(&s, 1, SINGLES, true));
		least(&nop64, nops(&s.ring, 64, BATCHES));
		least(&many, rings(&s, 64, BATCHES));
		least(&post64, uring(&s, 64, BATCHES, true));
	}
	stop = true;
	pthread_join(t, NULL);
	io_uring_queue_exit(&s.ring);
	scene_free(&s);
	printf("# one by one: NOP %.0f ns, request by ioctl %.0f ns (%.2f), "
	       "by io_uring %.0f ns (%.2f)\n", nop1, one, one / nop1, post1, post1 / nop1);
	printf("# by 64: NOP %.0f ns, request by ioctl %.0f ns (%.2f), "
	       "by io_uring %.0f ns (%.2f)\n", nop64, many, many / nop64, post64,
	       post64 / nop64);
	CHECKF(one <= 4 * nop1, "%.2f of a NOP", one / nop1);
}

/* The same by 64: the module's lists and copies against a loop over NOPs. */
TEST(batches)
{
	struct scene s = scene_new(RLX_EXEC_RING, RLX_CHANNEL_RING);
	double nop = 0, many = 0;
	pthread_t t;

	on_cpu(0);
	ring_new(&s.ring);
	stop = false;
	pthread_create(&t, NULL, poll_ring, &s);
	for (int i = 0; i < ROUNDS; i++) {
		least(&nop, nops(&s.ring, 64, BATCHES));
		least(&many, rings(&s, 64, BATCHES));
	}
	stop = true;
	pthread_join(t, NULL);
	io_uring_queue_exit(&s.ring);
	scene_free(&s);
	CHECKF(many <= 2.5 * nop, "%.2f of a NOP", many / nop);
}

TEST(parked)
{
	struct scene s = scene_new(RLX_EXEC_RING, 0);
	struct rlx_ioc_query q = { 0 };
	double nop1 = 0, nop64 = 0, one = 0, many = 0;
	pthread_t t;

	CHECK_EQ(k_ioctl(s.session, RLX_IOC_QUERY, &q), 0);
	if (!(q.features & RLX_FEAT_URING_ASYNC))
		rlx_test_skip("this kernel cannot cancel parked commands");
	on_cpu(0);
	ring_new(&s.ring);
	stop = false;
	pthread_create(&t, NULL, poll_ring, &s);
	for (int i = 0; i < ROUNDS; i++) {
		least(&nop1, nops(&s.ring, 1, SINGLES));
		least(&one, uring(&s, 1, SINGLES, false));
		least(&nop64, nops(&s.ring, 64, BATCHES));
		least(&many, uring(&s, 64, BATCHES, false));
	}
	stop = true;
	pthread_join(t, NULL);
	io_uring_queue_exit(&s.ring);
	scene_free(&s);
	printf("# parked, one by one: NOP %.0f ns, request %.0f ns (%.2f)\n", nop1, one,
	       one / nop1);
	printf("# parked, by 64: NOP %.0f ns, request %.0f ns (%.2f)\n", nop64, many,
	       many / nop64);
}

TEST(sleeping_peers)
{
	struct scene s = scene_new(0, 0);
	double ours = 0, ev = 0, un = 0;
	int a = eventfd(0, EFD_CLOEXEC), b = eventfd(0, EFD_CLOEXEC), sock[2];
	int there[2] = { a, b }, back[2] = { b, a }, mine[2], his[2];
	uint64_t end = 1u << 20;
	pthread_t t[3];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	mine[0] = mine[1] = sock[0];
	his[0] = his[1] = sock[1];
	on_cpu(0);
	stop = false;
	pthread_create(&t[0], NULL, sleep_fetch, &s);
	pthread_create(&t[1], NULL, echo_fd, there);
	pthread_create(&t[2], NULL, echo_fd, his);
	for (int i = 0; i < NAPS; i++) {
		least(&ours, sleeping(&s, SINGLES));
		least(&ev, echoes(back, SINGLES));
		least(&un, echoes(mine, SINGLES));
	}
	stop = true;
	CHECK_EQ(write(a, &end, 8), 8);
	CHECK_EQ(write(sock[0], &end, 8), 8);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	close(a);
	close(b);
	close(sock[0]);
	close(sock[1]);
	scene_free(&s);
	printf("# asleep: request and answer %.1f us; eventfds %.1f us (%.2f), "
	       "unix socket %.1f us (%.2f)\n", ours / 1e3, ev / 1e3, ours / ev, un / 1e3,
	       ours / un);
}

TEST_MAIN()
