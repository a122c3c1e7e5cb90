// SPDX-License-Identifier: MIT
/* Clients and executors that die at any point; addresses; recovery. */
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/serve_test.h"

#define RW (RLX_ACCESS_READ | RLX_ACCESS_WRITE)

static int raw_socket(const char *address, int type, bool listening)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	socklen_t len = (socklen_t)(sizeof(sa_family_t) + strlen(address));
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	memcpy(sun.sun_path, address, strlen(address));
	sun.sun_path[0] = 0;
	if (listening) {
		CHECK(!bind(fd, (struct sockaddr *)&sun, len));
		CHECK(!listen(fd, 8));
	} else {
		CHECK(!connect(fd, (struct sockaddr *)&sun, len));
	}
	return fd;
}

static void reap_child(pid_t pid, int sig)
{
	int st;

	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECKF(WIFSIGNALED(st) && WTERMSIG(st) == sig, "status 0x%x", st);
}

/* ---- clients that die --------------------------------------------------- */

enum point {
	CONNECTED, OPENED, ATTACHED, QUEUED, CANCELLED, ARMED, HELD, SLEEPING,
	REPLIED, POINTS
};

/* In a child: go up to @p, and stay there until killed. */
static void die_at(const char *address, enum point p)
{
	struct rlx_arena *a = client_arena(1 << 16);
	struct rlx_request r = { .opcode = OP_HOLD, .nr_slices = 1 };
	struct rlx_channel *ch;
	struct rlx_reply reply;
	uint64_t id;

	if (p == CONNECTED) {
		raw_socket(address, SOCK_SEQPACKET, false);
		raise(SIGKILL);
	}
	ch = client_open(address, (struct rlx_channel_opts){ 0 });
	if (p == OPENED)
		raise(SIGKILL);
	r.slice[0] = (struct rlx_request_slice){ client_attach(ch, a, RW), RW,
						 0, 1 << 16 };
	if (p == ATTACHED)
		raise(SIGKILL);
	if (p == REPLIED)
		r.opcode = OP_NOP;
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, &id), 1);
	if (p == QUEUED)
		raise(SIGKILL);
	if (p == CANCELLED) {
		rlx_channel_cancel(ch, id);
		raise(SIGKILL);
	}
	if (p == ARMED) {
		rlx_channel_arm(ch);
		raise(SIGKILL);
	}
	if (p == SLEEPING)
		rlx_channel_wait(ch, &reply, 1, 1, RLX_NO_DEADLINE);
	for (;;)
		pause();
}

static void one_death(struct server *s, struct rlx_channel *ch, enum point p)
{
	struct rlx_request nop = { .opcode = OP_NOP, .user_data = 42 };
	struct rlx_service_stats before, st;
	pid_t pid;
	int i;

	rlx_service_stats(s->svc, &before);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		die_at(s->address, p);
	for (i = 0; p >= HELD && i < 5000; i++) {
		rlx_service_stats(s->svc, &st);
		if (st.fetched > before.fetched)
			break;
		usleep(1000);
	}
	if (p >= HELD) {
		CHECK_EQ(st.fetched, before.fetched + 1);
		usleep(p == SLEEPING ? 20000 : 2000);
		kill(pid, SIGKILL);
	}
	reap_child(pid, SIGKILL);
	CHECK_EQ(client_call(ch, nop).aux, 42);
	for (i = 0; i < 5000; i++) {	/* until its end was noticed */
		rlx_service_stats(s->svc, &st);
		if (st.clients == 1 || server_held(s))
			break;
		usleep(1000);
	}
	if (server_held(s)) {
		/* Its pages are still there for whoever works on them. */
		if (p != HELD && p != SLEEPING)
			usleep(20000);
		memset(s->held[0]->slice[0].ptr, 0x5a, 1 << 16);
		for (i = 0; i < 5000 && !rlx_work_cancelled(s->held[0]); i++)
			usleep(1000);
		CHECK(rlx_work_cancelled(s->held[0]));
		server_release(s);
	}
	CHECK_EQ(client_call(ch, nop).aux, 42);
}

TEST(clients_killed_at_every_point)
{
	struct rlx_service_stats st;
	struct rlx_channel *ch;
	struct server s;
	int i, p;

	server_start(&s, (struct rlx_service_opts){ .flags = RLX_SERVICE_EVENTS }, 2);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	for (i = 0; i < 3; i++)
		for (p = 0; p < POINTS; p++)
			one_death(&s, ch, (enum point)p);
	rlx_channel_close(ch);
	server_drained(&s);
	rlx_service_stats(s.svc, &st);
	CHECK_EQ(st.clients_ever, 3 * POINTS + 1);
	CHECK_EQ(st.cut, 0);
	CHECK_EQ(s.order_errors, 0);
	CHECK_EQ(s.events[RLX_WORK_OPEN], s.events[RLX_WORK_GONE]);
	server_stop(&s);
}

/* Nothing fetches while clients die with requests in the ring. */
TEST(clients_killed_while_nobody_fetches)
{
	struct rlx_service_stats st;
	struct rlx_work *w[64];
	struct server s;
	int i, n;

	server_start(&s, (struct rlx_service_opts){ 0 }, 0);
	for (i = 0; i < 10; i++) {
		pid_t pid = fork();

		if (!pid)
			die_at(s.address, QUEUED);
		reap_child(pid, SIGKILL);
		/* Sometimes its request is fetched before its end is known. */
		n = rlx_service_fetch(s.svc, 0, w, 0, 64, 0);
		CHECK(n >= 0);
		if (i % 2)
			usleep(5000);
		CHECK_EQ(rlx_service_commit(s.svc, w, (unsigned int)n), RLX_OK);
	}
	server_drained(&s);
	rlx_service_stats(s.svc, &st);
	CHECK_EQ(st.clients_ever, 10);
	server_stop(&s);
}

static void busy_client(const char *address, uint64_t seed)
{
	struct rlx_arena *a = client_arena(4096);
	struct rlx_channel *ch = client_open(address,
					     (struct rlx_channel_opts){ 0 });
	uint32_t h = client_attach(ch, a, RW);
	struct rlx_reply reply[64];

	for (;;) {
		struct rlx_request r = { .opcode = OP_SUM, .nr_slices = 1 };
		uint64_t x = rlx_test_rand(&seed);

		r.slice[0] = (struct rlx_request_slice){ h, RW, x % 64, 64 };
		rlx_channel_submit(ch, &r, 1, NULL);
		if (x >> 60 == 0) {
			struct rlx_error err = { 0 };
			uint32_t h2;

			if (!rlx_channel_attach(ch, a, RW, &h2, &err))
				(void)rlx_channel_detach(ch, h2, NULL);
		}
		if (x >> 62)
			rlx_channel_wait(ch, reply, 1, 64, in_ms(100));
	}
}

TEST(clients_killed_at_random)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_channel *ch;
	struct server s;
	int i, k;

	server_start(&s, (struct rlx_service_opts){ .queues = 2 }, 2);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	for (i = 0; i < 15; i++) {
		pid_t pid[3];

		for (k = 0; k < 3; k++) {
			uint64_t child = rlx_test_rand(&seed);

			pid[k] = fork();
			if (!pid[k])
				busy_client(s.address, child);
		}
		for (k = 0; k < 3; k++) {
			struct rlx_request r = { .opcode = OP_ADD,
						 .inline_len = 3,
						 .inline_data = { 1, 2, 3 } };

			usleep((useconds_t)(rlx_test_rand(&seed) % 20000));
			kill(pid[k], SIGKILL);
			CHECK_EQ(client_call(ch, r).result, 6);
		}
		for (k = 0; k < 3; k++)
			reap_child(pid[k], SIGKILL);
	}
	rlx_channel_close(ch);
	server_drained(&s);
	server_stop(&s);
}

/* ---- executors that die ------------------------------------------------- */

static void end_server(pid_t pid)
{
	kill(pid, SIGKILL);
	reap_child(pid, SIGKILL);
}

/* The signal takes its time: what it stops may go on serving until then. */
static void stop_server(pid_t pid)
{
	int status;

	kill(pid, SIGSTOP);
	CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
	CHECK(WIFSTOPPED(status));
}

static void expect(struct rlx_channel *ch, int32_t result, int flags)
{
	struct rlx_reply reply;

	CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, SOON), 1);
	CHECK_EQ(reply.result, result);
	if (flags >= 0 && !strcmp(serve_transport(), "shm"))
		CHECK_EQ(reply.flags, flags);
}

static void expect_end(struct rlx_channel *ch)
{
	struct rlx_request r = { .opcode = OP_NOP };
	struct rlx_error err = { 0 };
	struct rlx_arena *a = client_arena(4096);
	struct rlx_reply reply;
	uint32_t h;

	CHECK_EQ(rlx_channel_wait(ch, &reply, 0, 1, 0), RLX_EPIPE);
	CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, SOON), RLX_EPIPE);
	CHECK_EQ(rlx_channel_reap(ch, &reply, 1), RLX_EPIPE);
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), RLX_EPIPE);
	CHECK_EQ(rlx_channel_attach(ch, a, RW, &h, &err), RLX_EPIPE);
	CHECK_EQ(rlx_channel_arm(ch), RLX_EPIPE);
	rlx_arena_put(a);
	rlx_channel_close(ch);
}

TEST(executor_killed_with_requests_in_every_state)
{
	struct rlx_request hold = { .opcode = OP_HOLD }, nop = { 0 };
	uint64_t spins[] = { RLX_SPIN_NEVER, RLX_SPIN_AUTO, 2000000000 };
	struct rlx_channel_opts o = { 0 };
	struct rlx_channel *ch;
	unsigned int i, k;
	char address[64];
	pid_t pid;

	for (i = 0; i < 3; i++) {
		o.spin_ns = spins[i];
		/* Delivered. */
		serve_address(address, sizeof(address));
		pid = server_fork(address, (struct rlx_service_opts){ 0 }, 1);
		ch = client_open(address, o);
		CHECK_EQ(rlx_channel_submit(ch, &hold, 1, NULL), 1);
		/* Answered, and not reaped; the first was taken before it. */
		CHECK_EQ(rlx_channel_submit(ch, &nop, 1, NULL), 1);
		for (k = 0; k < 10000 && !rlx_channel_arm(ch); k++)
			usleep(1000);
		end_server(pid);
		expect(ch, 0, 0);
		expect(ch, -EOWNERDEAD, 0);
		expect_end(ch);
		/* Never fetched. */
		pid = server_fork(address, (struct rlx_service_opts){ 0 }, 0);
		ch = client_open(address, o);
		CHECK_EQ(rlx_channel_submit(ch, &nop, 1, NULL), 1);
		end_server(pid);
		expect(ch, -EOWNERDEAD, RLX_REPLY_UNDELIVERED);
		expect_end(ch);
		/* While it works on one, and the client waits. */
		pid = server_fork(address, (struct rlx_service_opts){ 0 }, 1);
		ch = client_open(address, o);
		CHECK_EQ(rlx_channel_submit(ch, &(struct rlx_request){
					    .opcode = OP_DIE }, 1, NULL), 1);
		expect(ch, -EOWNERDEAD, 0);
		reap_child(pid, SIGKILL);
		expect_end(ch);
		/* Idle. */
		pid = server_fork(address, (struct rlx_service_opts){ 0 }, 1);
		ch = client_open(address, o);
		CHECK_EQ(client_call(ch, nop).result, 0);
		end_server(pid);
		/* The kernel knows at once; in a ring of ours it goes up. */
		if (rlx_channel_submit(ch, &nop, 1, NULL) == 1)
			expect(ch, -EOWNERDEAD, RLX_REPLY_UNDELIVERED);
		expect_end(ch);
	}
}

TEST(executor_killed_is_seen_in_the_callers_loop)
{
	struct rlx_request hold = { .opcode = OP_HOLD };
	struct rlx_channel *ch;
	struct rlx_reply reply;
	struct pollfd p;
	char address[64];
	pid_t pid;

	serve_address(address, sizeof(address));
	pid = server_fork(address, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(address, (struct rlx_channel_opts){ 0 });
	p = (struct pollfd){ rlx_channel_fd(ch), POLLIN, 0 };
	CHECK_EQ(rlx_channel_submit(ch, &hold, 1, NULL), 1);
	CHECK_EQ(rlx_channel_arm(ch), 0);
	CHECK_EQ(poll(&p, 1, 20), 0);
	end_server(pid);
	CHECK_EQ(poll(&p, 1, 5000), 1);
	CHECK_EQ(rlx_channel_arm(ch), 1);
	CHECK_EQ(rlx_channel_reap(ch, &reply, 1), 1);
	CHECK_EQ(reply.result, -EOWNERDEAD);
	expect_end(ch);
}

/* Every request has one answer, and it is true. */
TEST(executor_killed_at_random)
{
	uint64_t seed = rlx_test_seed(), lost = 0;
	char address[64];
	int i;

	serve_address(address, sizeof(address));
	for (i = 0; i < 15; i++) {
		useconds_t us = (useconds_t)(rlx_test_rand(&seed) % 30000);
		uint64_t sent = 0, got = 0;
		struct rlx_reply reply[64];
		struct rlx_channel *ch;
		pid_t pid, killer;
		bool dead = false;
		int n, k;

		pid = server_fork(address, (struct rlx_service_opts){ 0 }, 2);
		ch = client_open(address, (struct rlx_channel_opts){ 0 });
		killer = fork();
		if (!killer) {
			usleep(us);
			kill(pid, SIGKILL);
			_exit(0);
		}
		for (;;) {
			struct rlx_request r = { .opcode = OP_NOP,
						 .user_data = sent };

			n = dead ? 0 : rlx_channel_submit(ch, &r, 1, NULL);
			sent += n == 1;
			if (n < 0 && n != RLX_EAGAIN) {
				CHECK_EQ(n, RLX_EPIPE);
				dead = true;
			}
			n = rlx_channel_wait(ch, reply, 0, 64, 0);
			if (n == 0 && (dead || sent - got > 32))
				n = rlx_channel_wait(ch, reply, 1, 64,
						     SOON);
			for (k = 0; k < n; k++) {
				lost += reply[k].result == -EOWNERDEAD;
				CHECK(reply[k].result == -EOWNERDEAD ||
				      (!reply[k].result && reply[k].aux ==
				       reply[k].user_data));
			}
			got += n > 0 ? (uint64_t)n : 0;
			if (n < 0)
				break;
		}
		CHECK_EQ(n, RLX_EPIPE);
		CHECK_EQ(got, sent);
		rlx_channel_close(ch);
		waitpid(killer, NULL, 0);
		reap_child(pid, SIGKILL);
	}
	printf("# %llu requests met the end\n", (unsigned long long)lost);
}

/* ---- recovery ----------------------------------------------------------- */

TEST(recovery_gives_requests_to_the_next_executor)
{
	struct rlx_channel_opts o = { .flags = RLX_CHANNEL_RECOVER,
				      .recover_ns = 60000000000 };
	struct rlx_request r = { .opcode = OP_SUM, .nr_slices = 1 };
	bool kmod = !strcmp(serve_transport(), "kmod");
	struct rlx_arena *a = client_arena(4096);
	struct rlx_channel_info info;
	struct rlx_channel *ch;
	struct rlx_reply reply;
	char address[64];
	pid_t pid;
	int i, all;

	memset(rlx_arena_base(a), 1, 4096);
	for (all = 0; all < 2; all++) {
		if (all)
			o.flags = RLX_CHANNEL_RECOVER_ALL;
		serve_address(address, sizeof(address));
		pid = server_fork(address, (struct rlx_service_opts){ 0 }, 1);
		ch = client_open(address, o);
		r.slice[0] = (struct rlx_request_slice){
			client_attach(ch, a, RW), RW, 0, 100 };
		CHECK_EQ(client_call(ch, r).aux, 100);
		/* One delivered, then its executor is stopped: the rest not. */
		CHECK_EQ(rlx_channel_submit(ch, &(struct rlx_request){
					    .opcode = OP_HOLD, .user_data = 1 },
					    1, NULL), 1);
		CHECK_EQ(rlx_channel_submit(ch, &(struct rlx_request){ 0 }, 1,
					    NULL), 1);
		expect(ch, 0, 0);
		stop_server(pid);
		for (i = 0; i < 10; i++) {
			r.user_data = 10u + (unsigned int)i;
			r.slice[0].length = 100 + (unsigned int)i;
			CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
		}
		end_server(pid);
		if (!all)
			expect(ch, -EOWNERDEAD, 0);
		/* The module does not know that they were not taken. */
		for (i = 0; i < 10 && !all && kmod; i++)
			expect(ch, -EOWNERDEAD, 0);
		pid = server_fork(address, (struct rlx_service_opts){ 0 }, 1);
		for (i = 0; i < 10 && !all && kmod; i++) {
			r.user_data = 10u + (unsigned int)i;
			r.slice[0].length = 100 + (unsigned int)i;
			CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
		}
		for (i = 0; i < 10; i++) {
			CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1,
						  SOON), 1);
			CHECK_EQ(reply.user_data, 10 + i);
			CHECK_EQ(reply.result, 0);
			CHECK_EQ(reply.aux, 100 + i);
		}
		rlx_channel_info(ch, &info);
		CHECK_EQ(info.recoveries, 1);
		CHECK_EQ(info.in_flight, all);
		CHECK_EQ(info.pid, pid);
		rlx_channel_close(ch);
		end_server(pid);
	}
	rlx_arena_put(a);
}

TEST(recovery_gives_up)
{
	struct rlx_channel_opts o = { .flags = RLX_CHANNEL_RECOVER,
				      .recover_ns = 1000000000 };
	struct rlx_request r = { .opcode = OP_NOP };
	struct rlx_channel *ch;
	struct rlx_reply reply;
	struct pollfd p;
	char address[64];
	pid_t pid;
	int i, n;

	serve_address(address, sizeof(address));
	for (i = 0; i < 2; i++) {
		pid = server_fork(address, (struct rlx_service_opts){ 0 }, 0);
		ch = client_open(address, o);
		p = (struct pollfd){ rlx_channel_fd(ch), POLLIN, 0 };
		CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
		end_server(pid);
		if (!strcmp(serve_transport(), "kmod")) {
			/* Whether it was taken is not known there. */
			expect(ch, -EOWNERDEAD, 0);
			CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
		}
		if (i) {	/* the caller's loop is called to look */
			do {
				CHECK_EQ(poll(&p, 1, 5000), 1);
				n = rlx_channel_arm(ch);
			} while (!n);
			CHECK_EQ(n, 1);
		} else {
			/* Accepted while lost: for whoever comes. */
			CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, in_ms(20)), 0);
			CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
			expect(ch, -EOWNERDEAD, RLX_REPLY_UNDELIVERED);
		}
		expect(ch, -EOWNERDEAD, RLX_REPLY_UNDELIVERED);
		CHECK(strstr(rlx_channel_error(ch)->text, "no other came"));
		expect_end(ch);
	}
}

/* What a client calls its arenas holds with every executor, in lists of slices too. */
TEST(recovery_keeps_the_names_of_arenas)
{
	struct rlx_channel_opts o = { .flags = RLX_CHANNEL_RECOVER_ALL,
				      .recover_ns = 60000000000 };
	struct rlx_service_opts so = { .slices_max = 64 };
	struct rlx_arena *a[3] = { client_arena(4096), client_arena(4096),
				   client_arena(4096) };
	struct rlx_request r = { .opcode = OP_SUM, .nr_slices = 8,
				 .flags = RLX_REQUEST_INDIRECT };
	struct rlx_request_slice list[8];
	struct rlx_channel_info info;
	struct rlx_channel *ch;
	uint32_t h[3], i, round;
	char address[64];
	pid_t pid;

	serve_address(address, sizeof(address));
	pid = server_fork(address, so, 1);
	ch = client_open(address, o);
	for (i = 0; i < 3; i++) {
		memset(rlx_arena_base(a[i]), (int)i + 1, 4096);
		h[i] = client_attach(ch, a[i], RW);
	}
	/* So that names are not what the first of a new channel would be. */
	CHECK_EQ(rlx_channel_detach(ch, h[0], NULL), 0);
	h[0] = client_attach(ch, a[0], RW);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 8; i++)
			list[i] = (struct rlx_request_slice){
				h[i % 2], RLX_ACCESS_READ, 0, 100 + i };
		memcpy(rlx_arena_base(a[2]), list, sizeof(list));
		r.slice[0] = (struct rlx_request_slice){
			h[2], RLX_ACCESS_READ, 0, sizeof(list) };
		CHECK_EQ(client_call(ch, r).aux, 412 + 2 * 416);
		CHECK_EQ(client_call(ch, (struct rlx_request){
			.opcode = OP_SUM, .nr_slices = 2, .slice = {
				{ h[1], RW, 4000, 96 }, { h[0], RW, 0, 10 },
			} }).aux, 2 * 96 + 10);
		rlx_channel_info(ch, &info);
		CHECK_EQ(info.recoveries, round);
		end_server(pid);
		pid = server_fork(address, so, 1);
	}
	rlx_channel_close(ch);
	end_server(pid);
	for (i = 0; i < 3; i++)
		rlx_arena_put(a[i]);
}

/* Under load, killed again and again: nothing is lost, nothing is twice. */
TEST(recovery_under_load)
{
	struct rlx_channel_opts o = { .flags = RLX_CHANNEL_RECOVER_ALL,
				      .recover_ns = 60000000000 };
	enum { TOTAL = 30000 };
	struct rlx_arena *a = client_arena(4096);
	uint8_t *seen = calloc(TOTAL, 1);
	uint64_t sent = 0, got = 0;
	struct rlx_channel_info info;
	struct rlx_reply reply[64];
	struct rlx_channel *ch;
	char path[] = "/tmp/rlx-serve-test-XXXXXX", address[64], lock[80];
	pid_t pid, holder;
	useconds_t life;
	uint32_t h;
	int n, k;

	memset(rlx_arena_base(a), 3, 4096);
	CHECK(mkdtemp(path));
	snprintf(address, sizeof(address), "%s/sock", path);
	holder = fork();
	if (!holder) {
		/* One service after the other, each a tenth longer: so all comes to its
		 * end by some dozens, however slow their beginnings are. */
		for (life = 15000;; life += life / 10) {
			pid = server_fork(address, (struct rlx_service_opts){ 0 }, 1);
			usleep(life);
			end_server(pid);
		}
	}
	for (k = 0; k < 5000 && access(address, F_OK); k++)
		usleep(1000);
	for (k = 0; k < 5000; k++) {	/* it may die before it answers */
		struct rlx_error err = { 0 };

		o.size = sizeof(o);
		o.address = address;
		o.transport = serve_transport();
		if (rlx_channel_open(&o, &ch, &err))
			continue;	/* by and by one lives long enough */
		if (!rlx_channel_attach(ch, a, RW, &h, &err))
			break;
		rlx_channel_close(ch);
	}
	CHECK(k < 5000);
	while (got < TOTAL) {
		struct rlx_request r = { .opcode = OP_SUM, .nr_slices = 1,
					 .user_data = sent };

		r.slice[0] = (struct rlx_request_slice){ h, RW, 0,
							 1 + sent % 4000 };
		if (sent < TOTAL) {
			n = rlx_channel_submit(ch, &r, 1, NULL);
			CHECKF(n == 1 || n == RLX_EAGAIN, "%d: %s", n,
			       rlx_channel_error(ch)->text);
			sent += n == 1;
			if (n == 1 && sent % 16)
				continue;
		}
		n = rlx_channel_wait(ch, reply, 1, 64, SOON);
		CHECKF(n > 0, "%d: %s", n, rlx_channel_error(ch)->text);
		for (k = 0; k < n; k++) {
			uint64_t u = reply[k].user_data;

			CHECK(u < sent && !seen[u]);
			seen[u] = 1;
			CHECK_EQ(reply[k].result, 0);
			CHECK_EQ(reply[k].aux, 3 * (1 + u % 4000));
		}
		got += (uint64_t)n;
	}
	rlx_channel_info(ch, &info);
	printf("# %llu executors died\n", (unsigned long long)info.recoveries);
	CHECK_EQ(info.in_flight, 0);
	rlx_channel_close(ch);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	usleep(100000);		/* the last server ends by its alarm() at worst */
	snprintf(lock, sizeof(lock), "%s.lock", address);
	unlink(address);
	unlink(lock);
	rmdir(path);
	free(seen);
	rlx_arena_put(a);
}

/* ---- addresses ---------------------------------------------------------- */

static void no_open(const char *address, enum rlx_status want, uint64_t ms)
{
	struct rlx_channel_opts o = { .size = sizeof(o), .address = address,
				      .transport = serve_transport(),
				      .timeout_ns = ms * 1000000 };
	struct rlx_channel *ch = (void *)1;
	struct rlx_error err = { 0 };
	unsigned int fds = rlx_oom_fds();
	enum rlx_status st = rlx_channel_open(&o, &ch, &err);

	CHECKF(st == want, "%s: %s, not %s: %s", address, rlx_status_name(st),
	       rlx_status_name(want), err.text);
	CHECK(!ch && err.text[0]);
	/* A service of ours may close some, and closes ours in its own time. */
	for (int i = 0; i < 1000 && rlx_oom_fds() > fds; i++)
		usleep(1000);
	CHECK(rlx_oom_fds() <= fds);
}

TEST(addresses_where_no_service_is)
{
	char address[64], longer[200], heard[512];
	int fd, c;

	no_open("", RLX_EINVAL, 100);
	no_open("@", RLX_EINVAL, 100);
	no_open("relative", RLX_EINVAL, 100);
	no_open(NULL, RLX_EINVAL, 100);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[0] = '/';
	longer[199] = 0;
	no_open(longer, RLX_EINVAL, 100);
	no_open("/nonexistent/socket", RLX_ENOTCONN, 100);
	no_open("/dev/null", RLX_ENOTCONN, 100);
	no_open("@rlx-test-nobody", RLX_ENOTCONN, 100);
	serve_address(address, sizeof(address));
	fd = raw_socket(address, SOCK_STREAM, true);
	no_open(address, RLX_ENOTCONN, 100);
	close(fd);
	/* Listens, and says nothing; or says nonsense. */
	fd = raw_socket(address, SOCK_SEQPACKET, true);
	no_open(address, RLX_ETIME, 50);
	close(accept(fd, NULL, NULL));
	if (!fork()) {
		c = accept(fd, NULL, NULL);
		CHECK_EQ(write(c, "hello", 5), 5);
		while (read(c, heard, sizeof(heard)) > 0)
			;
		_exit(0);
	}
	no_open(address, RLX_EPROTO, 5000);
	close(fd);
	wait(NULL);
}

TEST(one_service_at_an_address)
{
	char path[] = "/tmp/rlx-serve-test-XXXXXX", address[64], lock[80];
	struct rlx_service_opts o = { .size = sizeof(o), .address = address,
				      .transport = serve_transport(),
				      .mode = 0640 };
	struct rlx_service *a, *b = (void *)1;
	struct rlx_error err = { 0 };
	struct stat st;
	pid_t pid;

	CHECK(mkdtemp(path));
	snprintf(address, sizeof(address), "%s/sock", path);
	snprintf(lock, sizeof(lock), "%s.lock", address);
	CHECK_EQ(rlx_service_new(&o, &a, NULL), RLX_OK);
	CHECK(!stat(address, &st) && (st.st_mode & 0777) == 0640);
	CHECK_EQ(rlx_service_new(&o, &b, &err), RLX_EBUSY);
	CHECK(!b && strstr(err.text, "another service"));
	rlx_service_free(a);
	CHECK(stat(address, &st));
	/* Killed: the file stays, and the next one takes its place. */
	pid = server_fork(address, (struct rlx_service_opts){ 0 }, 0);
	end_server(pid);
	CHECK(!stat(address, &st));
	no_open(address, RLX_ENOTCONN, 100);
	CHECK_EQ(rlx_service_new(&o, &a, NULL), RLX_OK);
	rlx_service_free(a);
	unlink(lock);
	/* What is no socket is left alone. */
	CHECK(!mkdir(address, 0700));
	CHECK_EQ(rlx_service_new(&o, &a, NULL), RLX_EBUSY);
	rmdir(address);
	unlink(lock);
	rmdir(path);
	o.address = "/nonexistent/socket";
	CHECK_EQ(rlx_service_new(&o, &a, NULL), RLX_ENOENT);
	o.address = "@";
	CHECK_EQ(rlx_service_new(&o, &a, NULL), RLX_EINVAL);
}

TEST(a_listening_socket_of_somebody_else)
{
	struct rlx_service_opts o = { .flags = RLX_SERVICE_LISTEN_FD };
	struct rlx_service *svc;
	struct rlx_channel *ch;
	struct server s;
	char address[64];
	int fd;

	serve_address(address, sizeof(address));
	fd = raw_socket(address, SOCK_SEQPACKET, true);
	o.address = address;
	o.listen_fd = fd;
	server_start(&s, o, 1);
	ch = client_open(address, (struct rlx_channel_opts){ 0 });
	CHECK_EQ(client_call(ch, (struct rlx_request){ 0 }).result, 0);
	server_stop(&s);
	rlx_channel_close(ch);
	/* The socket outlives the service: who connects now waits for the next. */
	o.size = sizeof(o);
	o.transport = serve_transport();
	o.listen_fd = 0;
	CHECK_EQ(rlx_service_new(&o, &svc, NULL), RLX_EBADFD);
	o.listen_fd = -1;
	CHECK_EQ(rlx_service_new(&o, &svc, NULL), RLX_EBADFD);
	o.listen_fd = fd;
	server_start(&s, o, 1);
	ch = client_open(address, (struct rlx_channel_opts){ 0 });
	CHECK_EQ(client_call(ch, (struct rlx_request){ 0 }).result, 0);
	rlx_channel_close(ch);
	server_stop(&s);
	close(fd);
}

/* How opening a channel ends for another user. */
static enum rlx_status open_as(uint32_t uid, const char *address)
{
	struct rlx_channel_opts o = { .size = sizeof(o), .address = address,
				      .transport = serve_transport() };
	struct rlx_channel *ch;
	enum rlx_status rc = RLX_OK;
	int way[2];
	pid_t pid;

	CHECK(!pipe(way));
	pid = fork();
	if (!pid) {
		if (setresuid(uid, uid, uid))
			_exit(1);
		rc = rlx_channel_open(&o, &ch, NULL);
		_exit(write(way[1], &rc, sizeof(rc)) != sizeof(rc));
	}
	close(way[1]);
	CHECK_EQ(read(way[0], &rc, sizeof(rc)), sizeof(rc));
	close(way[0]);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	return rc;
}

TEST(users)
{
	uint32_t allowed[] = { 1234, 65534 };
	struct rlx_service_stats st;
	struct server s;

	if (geteuid())
		rlx_test_skip("only root can become somebody else");
	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	CHECK_EQ(open_as(65534, s.address), RLX_EACCES);
	CHECK_EQ(open_as(0, s.address), RLX_OK);
	rlx_service_stats(s.svc, &st);
	CHECK_EQ(st.refused, 1);
	server_drained(&s);
	server_stop(&s);
	server_start(&s, (struct rlx_service_opts){ .uids = allowed,
						    .nr_uids = 2 }, 1);
	CHECK_EQ(open_as(65534, s.address), RLX_OK);
	CHECK_EQ(open_as(65533, s.address), RLX_EACCES);
	server_stop(&s);
	server_start(&s, (struct rlx_service_opts){
		     .flags = RLX_SERVICE_ANY_USER }, 1);
	CHECK_EQ(open_as(65533, s.address), RLX_OK);
	server_stop(&s);
}

TEST(room_for_so_many_clients)
{
	struct rlx_channel *ch[4];
	struct server s;
	int i;

	server_start(&s, (struct rlx_service_opts){ .clients_max = 4,
						    .user_clients_max = 3 }, 1);
	for (i = 0; i < 3; i++)
		ch[i] = client_open(s.address, (struct rlx_channel_opts){ 0 });
	no_open(s.address, RLX_EAGAIN, 1000);
	CHECK_EQ(client_call(ch[1], (struct rlx_request){ 0 }).result, 0);
	rlx_channel_close(ch[1]);
	for (i = 0; i < 5000; i++) {
		struct rlx_service_stats st;

		rlx_service_stats(s.svc, &st);
		if (st.clients == 2)
			break;
		usleep(1000);
	}
	ch[1] = client_open(s.address, (struct rlx_channel_opts){ 0 });
	for (i = 0; i < 3; i++)
		rlx_channel_close(ch[i]);
	server_drained(&s);
	server_stop(&s);
}

/* ---- descriptors run out ------------------------------------------------ */

static void limit_fds(unsigned int more)
{
	struct rlimit r;

	CHECK(!getrlimit(RLIMIT_NOFILE, &r));
	/* That count has ".", ".." and its own descriptor in it. */
	r.rlim_cur = rlx_oom_fds() - 3 + more;
	CHECK(!setrlimit(RLIMIT_NOFILE, &r));
}

/* A child of a forked server cannot be asked, so the client is the child. */
TEST(clients_that_run_out_of_descriptors)
{
	struct rlx_channel_opts o = { .size = sizeof(o) };
	struct server s;
	unsigned int more;
	bool done = false;
	int st;

	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	o.address = s.address;
	o.transport = serve_transport();
	for (more = 0; more < 16 && !done; more++) {
		pid_t pid = fork();

		if (!pid) {
			struct rlx_arena *a = client_arena(4096);
			struct rlx_channel *ch;
			uint32_t h;
			enum rlx_status rc;
			unsigned int fds;

			limit_fds(more);
			fds = rlx_oom_fds();
			rc = rlx_channel_open(&o, &ch, NULL);
			if (!rc) {
				rc = rlx_channel_attach(ch, a, RLX_ACCESS_READ,
							&h, NULL);
				if (!rc && rlx_channel_fd(ch) < 0)
					rc = RLX_ENOMEM;
				if (!rc)
					rc = client_call(ch, (struct rlx_request)
							 { 0 }).result;
				rlx_channel_close(ch);
			}
			CHECKF(!rc || rc == RLX_ENOMEM, "%u more: %s", more,
			       rlx_status_name(rc));
			CHECK_EQ(rlx_oom_fds(), fds);
			_exit(rc ? 9 : 0);
		}
		waitpid(pid, &st, 0);
		CHECKF(WIFEXITED(st) && (WEXITSTATUS(st) == 9 || !WEXITSTATUS(st)),
		       "status 0x%x", st);
		done = !WEXITSTATUS(st);
	}
	CHECK(done && more > 3);
	server_drained(&s);
	server_stop(&s);
}

TEST(a_service_that_runs_out_of_descriptors)
{
	struct rlx_channel_opts o = { .size = sizeof(o) };
	struct rlx_channel *ch[16];
	unsigned int i, n = 0, refused = 0;
	struct server s;
	pid_t pid;

	serve_address(s.address, sizeof(s.address));
	pid = fork();
	if (!pid) {
		char address[64];

		snprintf(address, sizeof(address), "%s", s.address);
		alarm(60);
		server_start(&s, (struct rlx_service_opts){
			     .address = address }, 1);
		limit_fds(12);
		for (;;)
			pause();
	}
	o.address = s.address;
	o.transport = serve_transport();
	for (i = 0; i < 16; i++) {
		struct rlx_error err = { 0 };
		enum rlx_status st;
		int tries = 0;

		do {
			err = (struct rlx_error){ 0 };
			st = rlx_channel_open(&o, &ch[n], &err);
			usleep(1000);
		} while (st == RLX_ENOTCONN && ++tries < 5000);
		CHECKF(!st || st == RLX_EAGAIN || st == RLX_ENOMEM, "%s: %s",
		       rlx_status_name(st), err.text);
		n += !st;
		refused += !!st;
	}
	printf("# %u let in, %u refused\n", n, refused);
	CHECK(n && refused);
	/* Those who are in do not suffer; who leaves makes room. */
	for (i = 0; i < n; i++)
		CHECK_EQ(client_call(ch[i], (struct rlx_request){ 0 }).result, 0);
	for (i = 0; i < n; i++)
		rlx_channel_close(ch[i]);
	for (i = 0; i < 5000 && rlx_channel_open(&o, &ch[0], NULL); i++)
		usleep(1000);
	CHECK(i < 5000);
	CHECK_EQ(client_call(ch[0], (struct rlx_request){ 0 }).result, 0);
	rlx_channel_close(ch[0]);
	end_server(pid);
}

TEST_MAIN()
