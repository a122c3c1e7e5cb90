// SPDX-License-Identifier: MIT
/* Many clients and several executor threads at once; for the thread sanitizer. */
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "selftests/lib/serve_test.h"
#include "serve/sock.h"

#define RW (RLX_ACCESS_READ | RLX_ACCESS_WRITE)

struct user {
	const char	*address;
	uint64_t	 seed, calls;
	unsigned int	 rounds;
	pthread_t	 thread;
};

static void check_reply(struct rlx_channel *ch, const struct rlx_reply *r,
			uint64_t *open)
{
	CHECKF((!r->result && r->aux == r->user_data) ||
	       r->result == -ECANCELED || r->result == -ETIME,
	       "result %d: %s", r->result, rlx_channel_error(ch)->text);
	(*open)--;
}

/* Opens, attaches, asks, cancels, waits in every way, closes; over and over. */
static void *use(void *arg)
{
	struct user *u = arg;
	struct rlx_arena *a = client_arena(4096);
	unsigned int round;

	for (round = 0; round < u->rounds; round++) {
		struct rlx_channel_opts o = {
			.depth = 1u << rlx_test_rand(&u->seed) % 7,
			.spin_ns = rlx_test_rand(&u->seed) % 2 ? RLX_SPIN_NEVER :
				   RLX_SPIN_AUTO };
		struct rlx_channel *ch = client_open(u->address, o);
		uint32_t h = client_attach(ch, a, RW);
		uint64_t open = 0, ids[8];
		struct rlx_reply reply[32];
		int i, k, n;

		for (i = 0; i < 200; i++) {
			struct rlx_request r[8] = { { 0 } };
			uint64_t x = rlx_test_rand(&u->seed);
			unsigned int batch = 1 + x % 8;

			for (k = 0; k < (int)batch; k++) {
				r[k].user_data = u->calls + (uint64_t)k;
				r[k].nr_slices = x >> 60 & 1;
				r[k].slice[0] = (struct rlx_request_slice){
					h, RW, x % 4096, 1 };
				if ((x >> 50 & 15) == 0)
					r[k].deadline_ns = rlx_deadline_in(x >> 40 & 0xffff);
			}
			n = rlx_channel_submit(ch, r, batch, ids);
			CHECKF(n > 0 || n == RLX_EAGAIN, "%d", n);
			if (n > 0) {
				open += (uint64_t)n;
				u->calls += (uint64_t)n;
				if ((x >> 30 & 7) == 0)
					CHECK_EQ(rlx_channel_cancel(ch, ids[0]), RLX_OK);
			}
			if (!open)
				continue;
			n = rlx_channel_wait(ch, reply, x >> 20 & 1, 32,
					     SOON);
			CHECKF(n >= 0, "%d", n);
			for (k = 0; k < n; k++)
				check_reply(ch, &reply[k], &open);
		}
		while (round % 3 && open) {	/* else leave with some open */
			n = rlx_channel_wait(ch, reply, 1, 32, SOON);
			CHECKF(n > 0, "%d with %llu open", n,
			       (unsigned long long)open);
			for (k = 0; k < n; k++)
				check_reply(ch, &reply[k], &open);
		}
		if (!open && round % 2)
			CHECK_EQ(rlx_channel_detach(ch, h, NULL), RLX_OK);
		rlx_channel_close(ch);
	}
	rlx_arena_put(a);
	return NULL;
}

static void run(struct rlx_service_opts o, unsigned int executors,
		unsigned int users, unsigned int rounds)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_service_stats st;
	struct user u[32];
	struct server s;
	unsigned int i;

	if (RLX_TEST_TSAN || RLX_TEST_ASAN)
		rounds = rounds / 4 + 1;
	server_start(&s, o, executors);
	for (i = 0; i < users; i++) {
		u[i] = (struct user){ s.address, rlx_test_rand(&seed), 0, rounds };
		CHECK(!pthread_create(&u[i].thread, NULL, use, &u[i]));
	}
	for (i = 0; i < users; i++)
		pthread_join(u[i].thread, NULL);
	server_drained(&s);
	rlx_service_stats(s.svc, &st);
	CHECK_EQ(st.clients_ever, users * rounds);
	CHECK_EQ(st.cut, 0);
	CHECK_EQ(st.rejected, 0);
	CHECK_EQ(s.order_errors, 0);
	server_stop(&s);
}

TEST(one_queue_shared_by_three_executors)
{
	run((struct rlx_service_opts){ .queues = 1 }, 3, 4, 12);
}

TEST(queues_of_their_own)
{
	run((struct rlx_service_opts){ .queues = 3 }, 3, 6, 8);
}

TEST(executors_that_never_spin)
{
	run((struct rlx_service_opts){ .queues = 2, .spin_ns = RLX_SPIN_NEVER },
	    4, 4, 8);
}

TEST(with_events)
{
	run((struct rlx_service_opts){ .queues = 2,
				       .flags = RLX_SERVICE_EVENTS }, 3, 4, 8);
}

TEST(many_clients)
{
	run((struct rlx_service_opts){ .queues = 2 }, 2, 32, 3);
}

/* More channels than a thread could look after by turns, all with work. */
TEST(hundreds_of_channels)
{
	enum { N = 300 };
	static struct rlx_channel *ch[N];
	struct rlx_request r = { .opcode = OP_NOP };
	struct rlimit lim;
	struct server s;
	int i, round;

	CHECK(!getrlimit(RLIMIT_NOFILE, &lim));
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
	if (lim.rlim_cur < 3 * N + 64)
		rlx_test_skip("too few descriptors for hundreds of channels");
	server_start(&s, (struct rlx_service_opts){ .queues = 2 }, 2);
	for (i = 0; i < N; i++)
		ch[i] = client_open(s.address, (struct rlx_channel_opts){
				    .depth = 4 });
	for (round = 0; round < 5; round++) {
		for (i = 0; i < N; i++) {
			r.user_data = (uint64_t)(i + round * N);
			CHECK_EQ(rlx_channel_submit(ch[i], &r, 1, NULL), 1);
		}
		for (i = N - 1; i >= 0; i--) {
			struct rlx_reply reply;

			CHECK_EQ(rlx_channel_wait(ch[i], &reply, 1, 1,
						  SOON), 1);
			CHECK_EQ(reply.aux, i + round * N);
		}
	}
	for (i = 0; i < N; i++)
		rlx_channel_close(ch[i]);
	server_drained(&s);
	server_stop(&s);
}

/* Thrown out by one thread while others fetch, commit and ask. */
struct cutter {
	struct server	*s;
	_Atomic bool	 stop;
};

static void *cut(void *arg)
{
	struct cutter *c = arg;
	uint64_t id;

	for (id = 1; !atomic_load(&c->stop); usleep(200))
		if (!rlx_service_cut(c->s->svc, id, "its turn is over"))
			id++;
	return NULL;
}

TEST(cut_while_busy)
{
	struct rlx_channel_opts o = { .size = sizeof(o) };
	struct cutter c = { 0 };
	struct server s;
	pthread_t t;
	int i, ended = 0;

	server_start(&s, (struct rlx_service_opts){ .queues = 1,
		     .flags = RLX_SERVICE_EVENTS }, 2);
	c.s = &s;
	o.address = s.address;
	o.transport = serve_transport();
	CHECK(!pthread_create(&t, NULL, cut, &c));
	for (i = 0; i < 100; i++) {
		struct rlx_request r[4] = { { 0 } };
		struct rlx_error err = { 0 };
		struct rlx_reply reply[32];
		struct rlx_channel *ch;
		int n, open = 0;

		if (rlx_channel_open(&o, &ch, &err)) {
			CHECKF(err.status == RLX_EPROTO, "%s", err.text);
			continue;
		}
		do {
			n = rlx_channel_submit(ch, r, 4, NULL);
			open += n > 0 ? n : 0;
			n = rlx_channel_wait(ch, reply, 1, 32, SOON);
			open -= n > 0 ? n : 0;
		} while (n > 0);
		CHECKF(n == RLX_EPROTO && !open, "%d, %d open", n, open);
		CHECK(strstr(rlx_channel_error(ch)->text, "its turn is over"));
		ended++;
		rlx_channel_close(ch);
	}
	CHECK(ended > 10);
	atomic_store(&c.stop, true);
	pthread_join(t, NULL);
	server_drained(&s);
	CHECK_EQ(s.order_errors, 0);
	server_stop(&s);
}

struct leaver {
	_Atomic int	sock;
	_Atomic bool	stop;
};

/* Says goodbye on each socket it is handed, and closes it at once. */
static void *leave(void *arg)
{
	struct leaver *l = arg;

	while (!atomic_load(&l->stop)) {
		struct rlx_wire_msg m = { .type = RLX_WIRE_BYE };
		int fd = atomic_exchange(&l->sock, -1);

		if (fd < 0) {
			sched_yield();
			continue;
		}
		CHECK(rlx_sock_send(fd, &m, NULL, 0));
		close(fd);
	}
	return NULL;
}

/* The kernel tells of the end before the last message a few times in 100,000. */
TEST(last_words_come_before_the_end)
{
	uint64_t until = rlx_deadline_in(3000000000);
	struct leaver l = { .sock = -1 };
	pthread_t t;
	int i;

	CHECK(!pthread_create(&t, NULL, leave, &l));
	for (i = 0; i < 100000 && rlx_deadline_in(0) < until; i++) {
		struct rlx_wire_msg m;
		unsigned int nr;
		int s[2], rc;

		CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s));
		atomic_store(&l.sock, s[1]);
		while (!(rc = rlx_sock_recv(s[0], &m, NULL, 0, &nr)))
			sched_yield();
		CHECKF(rc == 1 && m.type == RLX_WIRE_BYE, "try %d: %d", i, rc);
		CHECK(rlx_sock_recv(s[0], &m, NULL, 0, &nr) != 1);
		close(s[0]);
	}
	atomic_store(&l.stop, true);
	pthread_join(t, NULL);
}

/* No message of the protocol is empty; what one carries is closed. */
TEST(empty_messages_end_it)
{
	_Alignas(struct cmsghdr) char ctl[CMSG_SPACE(sizeof(int))] = { 0 };
	struct msghdr mh = { .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
	int i;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	for (i = 0; i < 2; i++) {
		struct rlx_wire_msg m;
		unsigned int nr = 77;
		int s[2], p[2], got[1] = { -1 };

		CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s) && !pipe(p));
		memcpy(CMSG_DATA(c), &p[1], sizeof(p[1]));
		if (i)
			CHECK(!sendmsg(s[1], &mh, 0));
		else
			CHECK(!send(s[1], "", 0, 0));
		CHECK_EQ(rlx_sock_recv(s[0], &m, got, 1, &nr), -1);
		CHECK_EQ(nr, 0);
		close(p[1]);
		/* An end: nobody holds the other end of the pipe any more. */
		CHECK(!fcntl(p[0], F_SETFL, O_NONBLOCK) && !read(p[0], &m, 1));
		close(p[0]);
		close(s[0]);
		close(s[1]);
	}
}

TEST_MAIN()
