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
#define ROUNDS	400	/* at least, */
#define ROUNDS_NS	(2000 * K_MS)	/* and as long */
#define SINGLES	10	/* requests of a sample, one by one */
#define BATCHES	2	/* batches of a sample */
#define NAPS	40	/* samples of what sleeps: it is slow, and steadier; */
#define NAPS_NS	(8000 * K_MS)	/* fewer where others keep the machine busy */

static void on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

struct scene {
	struct k_scene k;
	struct io_uring ring;		/* of the client */
};

static struct scene scene_new(uint32_t exec, uint32_t chan)
{
	return (struct scene){
		.k = k_scene_new(&(struct k_scene_opts){
			.depth = DEPTH, .exec = exec, .chan = chan }),
	};
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

/* What lies in the executor's ring now; how many. */
static uint32_t serve_ring(struct scene *s)
{
	struct rlx_complete c[DEPTH];
	uint32_t tag[DEPTH], n = k_ring_take(&s->k.rq, tag, DEPTH);

	for (uint32_t i = 0; i < n; i++)
		c[i] = (struct rlx_complete){
			.seq = s->k.desc[tag[i]].seq, .tag = tag[i], .result = 1,
		};
	if (n)
		CHECK_EQ(k_commit(s->k.ex, c, n, NULL), n);
	return n;
}

static void *poll_ring(void *arg)
{
	struct scene *s = arg;

	on_cpu(1);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		serve_ring(s);
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
		long n = k_ioctl(s->k.ex, RLX_IOC_COMMIT_AND_FETCH, &cf);

		cf.commit.nr = n > 0 ? n : 0;
		for (uint32_t i = 0; i < cf.commit.nr; i++)
			c[i] = (struct rlx_complete){
				.seq = s->k.desc[tag[i]].seq, .tag = tag[i],
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

/* ---- one sample each, of some batches: ns for one request ---- */

static uint32_t times_of(uint32_t batch)
{
	return batch == 1 ? SINGLES : BATCHES;
}

static double per_request(uint64_t t0, uint32_t batch)
{
	return (double)(k_now() - t0) / times_of(batch) / batch;
}

static double nops(struct scene *s, uint32_t batch)
{
	uint64_t t0 = k_now();

	for (uint32_t t = 0; t < times_of(batch); t++) {
		for (uint32_t i = 0; i < batch; i++)
			io_uring_prep_nop(io_uring_get_sqe(&s->ring));
		CHECK_EQ(io_uring_submit_and_wait(&s->ring, batch), batch);
		io_uring_cq_advance(&s->ring, batch);
	}
	return per_request(t0, batch);
}

/* By SUBMIT, completed in the ring; @serve: this thread is the other end too. */
static double requests(struct scene *s, uint32_t batch, bool serve)
{
	struct rlx_rq rq[DEPTH];
	struct rlx_cqe cqe[DEPTH];
	uint64_t t0;

	for (uint32_t i = 0; i < batch; i++)
		rq[i] = k_rq(1, i);
	t0 = k_now();
	for (uint32_t t = 0; t < times_of(batch); t++) {
		CHECK_EQ(k_submit(s->k.ch, rq, batch, NULL), batch);
		if (serve)
			CHECK_EQ(serve_ring(s), batch);
		k_ring_fill(&s->k.done, cqe, batch);
	}
	return per_request(t0, batch);
}

static double polled(struct scene *s, uint32_t batch)
{
	return requests(s, batch, false);
}

static double alone(struct scene *s, uint32_t batch)
{
	return requests(s, batch, true);
}

/* By io_uring: parked, or (@post) answered at once and completed in the ring. */
static double uring_cmds(struct scene *s, uint32_t batch, bool post)
{
	struct rlx_rq rq[DEPTH];
	struct rlx_cqe cqe[DEPTH];
	uint64_t t0;

	for (uint32_t i = 0; i < batch; i++)
		rq[i] = k_rq(1, i);
	t0 = k_now();
	for (uint32_t t = 0; t < times_of(batch); t++) {
		for (uint32_t i = 0; i < batch; i++) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);
			struct rlx_uring_cmd *p = (void *)sqe->cmd;

			CHECK(sqe);
			memset(sqe, 0, sizeof(*sqe));
			sqe->opcode = IORING_OP_URING_CMD;
			sqe->fd = s->k.ch;
			sqe->cmd_op = RLX_IOC_SUBMIT;
			p->addr = (uintptr_t)&rq[i];
			p->flags = post ? RLX_URING_POST : 0;
		}
		CHECK_EQ(io_uring_submit(&s->ring), batch);
		if (post)
			k_ring_fill(&s->k.done, cqe, batch);
		while (io_uring_cq_ready(&s->ring) < batch)
			io_uring_get_events(&s->ring);
		io_uring_cq_advance(&s->ring, batch);
	}
	return per_request(t0, batch);
}

static double posted(struct scene *s, uint32_t batch)
{
	return uring_cmds(s, batch, true);
}

static double parked(struct scene *s, uint32_t batch)
{
	return uring_cmds(s, batch, false);
}

static double sleeping(struct scene *s, uint32_t times)
{
	struct rlx_rq rq = k_rq(1, 1);
	struct rlx_cqe cqe;
	uint64_t t0 = k_now();

	for (uint32_t t = 0; t < times; t++) {
		CHECK_EQ(k_submit(s->k.ch, &rq, 1, NULL), 1);
		CHECK_EQ(k_reap(s->k.ch, &cqe, 1, 1, K_EVER), 1);
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

static struct scene bench_new(uint32_t chan)
{
	struct scene s = scene_new(RLX_EXEC_RING, chan);

	on_cpu(0);
	ring_new(&s.ring);
	return s;
}

static void bench_free(struct scene *s)
{
	io_uring_queue_exit(&s->ring);
	k_scene_free(&s->k);
}

/* What a request costs by @sample, in NOPs of batches as large. */
static double in_nops(struct scene *s, uint32_t batch, const char *how,
		      double (*sample)(struct scene *s, uint32_t batch))
{
	uint64_t from = k_now();
	double nop = 0, ours = 0;

	for (int i = 0; i < ROUNDS || k_now() < from + ROUNDS_NS; i++) {
		least(&nop, nops(s, batch));
		least(&ours, sample(s, batch));
	}
	printf("# %s, by %u: NOP %.0f ns, request %.0f ns (%.2f)\n", how, batch, nop,
	       ours, ours / nop);
	return ours / nop;
}

/*
 * The same with an executor that polls on the other processor; @goal: or 0. It is told
 * and not demanded: emulated processors take by turns of minutes half as long again to
 * hand a request from one to the other, whatever the module does.
 */
static void polled_in_nops(uint32_t chan, uint32_t batch, const char *how, double goal,
			   double (*sample)(struct scene *s, uint32_t batch))
{
	struct scene s = bench_new(chan);
	pthread_t t;
	double ratio;

	stop = false;
	pthread_create(&t, NULL, poll_ring, &s);
	ratio = in_nops(&s, batch, how, sample);
	if (goal)
		printf("# goal: %.1f, %s\n", goal, ratio <= goal ? "met" : "MISSED");
	stop = true;
	pthread_join(t, NULL);
	bench_free(&s);
}

/* What the module takes of a processor: the least of many, so nobody else is in it. */
TEST(one_thread)
{
	struct scene s = bench_new(RLX_CHANNEL_RING);
	double one = in_nops(&s, 1, "both ends by one thread", alone);
	double of_batch = in_nops(&s, DEPTH, "both ends by one thread", alone);

	bench_free(&s);
	CHECKF(one <= 6, "%.2f of a NOP", one);
	CHECKF(of_batch <= 3.5, "%.2f of a NOP", of_batch);
}

TEST(polling)
{
	polled_in_nops(RLX_CHANNEL_RING, 1, "by ioctl", 4, polled);
	polled_in_nops(RLX_CHANNEL_RING, DEPTH, "by ioctl", 2.5, polled);
}

/* By io_uring each request is a command, and there is nothing to share. */
TEST(commands)
{
	struct rlx_ioc_query q = { 0 };
	int session = k_open();

	CHECK_EQ(k_ioctl(session, RLX_IOC_QUERY, &q), 0);
	close(session);
	polled_in_nops(RLX_CHANNEL_RING, 1, "posted", 0, posted);
	polled_in_nops(RLX_CHANNEL_RING, DEPTH, "posted", 0, posted);
	if (!(q.features & RLX_FEAT_URING_ASYNC))
		rlx_test_skip("this kernel cannot cancel parked commands");
	polled_in_nops(0, 1, "parked", 0, parked);
	polled_in_nops(0, DEPTH, "parked", 0, parked);
}

TEST(sleeping_peers)
{
	struct scene s = scene_new(0, 0);
	double ours = 0, ev = 0, un = 0;
	int a = eventfd(0, EFD_CLOEXEC), b = eventfd(0, EFD_CLOEXEC), sock[2];
	int there[2] = { a, b }, back[2] = { b, a }, mine[2], his[2];
	uint64_t end = 1u << 20, limit;
	pthread_t t[3];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	mine[0] = mine[1] = sock[0];
	his[0] = his[1] = sock[1];
	on_cpu(0);
	stop = false;
	pthread_create(&t[0], NULL, sleep_fetch, &s);
	pthread_create(&t[1], NULL, echo_fd, there);
	pthread_create(&t[2], NULL, echo_fd, his);
	limit = k_now() + NAPS_NS;
	for (int i = 0; i < NAPS && (!i || k_now() < limit); i++) {
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
	k_scene_free(&s.k);
	printf("# asleep: request and answer %.1f us; eventfds %.1f us (%.2f), "
	       "unix socket %.1f us (%.2f)\n", ours / 1e3, ev / 1e3, ours / ev, un / 1e3,
	       ours / un);
}

TEST_MAIN()
