// SPDX-License-Identifier: MIT
/* Clients and executors that mean harm: to each other, to the kernel, to its time. */
/* rig: timeout=240 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <liburing.h>
#include <linux/rlx.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/chan.h"
#include "lib/child.h"

#define DEPTH	8

/* ---- two threads of one executor, over a channel that goes ---- */

/* One fetches where nothing can be written, the other hears that @id is gone. */
struct race {
	pthread_barrier_t begin, end;
	int ex;
	uint32_t id;
	atomic_uint there;
	atomic_bool heard, over;
	unsigned int spin;		/* how long it waits before it hears */
	long events;
	struct rlx_event ev[4];
};

static void race_meet(struct race *r)
{
	atomic_fetch_add(&r->there, 1);
	while (atomic_load(&r->there) < 2)
		;
}

static void race_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *race_fetch(void *arg)
{
	struct race *r = arg;

	race_pin(0);
	for (;;) {
		pthread_barrier_wait(&r->begin);
		if (atomic_load(&r->over))
			return NULL;
		race_meet(r);
		for (int i = 0; i < 40 && !atomic_load(&r->heard); i++)
			k_fetch(r->ex, (uint32_t *)8, 1, 0, 0);
		pthread_barrier_wait(&r->end);
	}
}

static void *race_hear(void *arg)
{
	struct race *r = arg;

	race_pin(1);
	for (;;) {
		pthread_barrier_wait(&r->begin);
		if (atomic_load(&r->over))
			return NULL;
		race_meet(r);
		for (volatile unsigned int i = 0; i < r->spin; i++)
			;
		r->events = k_events(r->ex, r->id, r->ev, 4);
		atomic_store(&r->heard, true);
		pthread_barrier_wait(&r->end);
	}
}

/* A channel that comes and goes; what the executor heard of it is all there is. */
static void race_round(struct race *r, struct k_scene *s, unsigned int spin)
{
	int ch = k_channel(s->session, s->svc, 1, 0, &r->id);
	struct pollfd p = { .fd = s->ex, .events = POLLIN };
	uint32_t tags[8];

	close(ch);
	CHECK_EQ(poll(&p, 1, 60000), 1);
	r->spin = spin;
	atomic_store(&r->there, 0);
	atomic_store(&r->heard, false);
	pthread_barrier_wait(&r->begin);
	pthread_barrier_wait(&r->end);
	if (r->events < 1) {
		/* Before it was put back: hear of it now. */
		while (k_fetch(s->ex, tags, 8, 0, 0) > 0)
			;
		r->events = k_events(s->ex, r->id, r->ev, 4);
	}
	CHECK(r->events >= 1);
	CHECK_EQ(r->ev[r->events - 1].type, RLX_EVENT_GONE);
	CHECKF(!poll(&p, 1, 0), "the executor is told again of a channel it saw go");
}

/* Its struct is freed then; a queue that still knows it hands out freed memory. */
TEST(gone_is_told_once)
{
	struct k_scene s = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH,
							       .channel = 1 });
	struct race r = { .ex = s.ex };
	uint64_t until = k_now() + 10 * 1000 * K_MS;
	unsigned int seed = 1, n;
	pthread_t a, b;

	CHECK_EQ(pthread_barrier_init(&r.begin, NULL, 3), 0);
	CHECK_EQ(pthread_barrier_init(&r.end, NULL, 3), 0);
	CHECK_EQ(pthread_create(&a, NULL, race_fetch, &r), 0);
	CHECK_EQ(pthread_create(&b, NULL, race_hear, &r), 0);
	for (n = 0; n < 20000 && k_now() < until; n++) {
		seed = seed * 1103515245 + 12345;
		race_round(&r, &s, (seed >> 16) % 3000);
	}
	printf("# %u channels\n", n);
	atomic_store(&r.over, true);
	pthread_barrier_wait(&r.begin);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	k_scene_free(&s);
}

/* ---- memory that never comes ---- */

/* A page whose first touch nobody serves, and what tells of that touch. */
static void *absent_page(int *uffd)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	CHECK(p != MAP_FAILED);
	*uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	CHECKF(*uffd >= 0, "userfaultfd: %d", errno);
	CHECK_EQ(ioctl(*uffd, UFFDIO_API, &api), 0);
	reg.range.start = (uintptr_t)p;
	reg.range.len = 4096;
	CHECK_EQ(ioctl(*uffd, UFFDIO_REGISTER, &reg), 0);
	return p;
}

static void *reap_to(void *arg)
{
	void **to = arg;

	k_reap(*(int *)to[0], to[1], 1, 1, K_EVER);
	return NULL;
}

/* Reaps to where nothing is, and says when it hangs there. */
static void reaper_that_hangs(void *arg)
{
	struct k_scene *s = arg;
	int uffd;
	void *page = absent_page(&uffd), *to[] = { &s->ch, page };
	struct pollfd p = { .fd = uffd, .events = POLLIN };
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, reap_to, to), 0);
	CHECK_EQ(poll(&p, 1, -1), 1);
	k_child_say('h');
}

static void reaper(void *arg)
{
	struct k_scene *s = arg;
	struct rlx_cqe cqe;

	k_child_say(k_reap(s->ch, &cqe, 1, 1, K_EVER) == 1 ? 'y' : 'n');
}

/* One who reaps into memory that never comes holds up nobody else of the channel. */
TEST(a_reaper_that_hangs_hangs_alone)
{
	struct k_scene s = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH });
	struct rlx_rq rq[2] = { k_rq(1, 1), k_rq(1, 2) };
	struct k_child hung, other;
	struct rlx_cqe cqe;

	CHECK_EQ(k_submit(s.ch, rq, 2, NULL), 2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(k_commit1(s.ex, s.desc, k_fetch1(s.ex), i, 0), 1);
	hung = k_child_new(reaper_that_hangs, &s);
	CHECK_EQ(k_child_said(&hung, 20000), 'h');
	other = k_child_new(reaper, &s);
	CHECK_EQ(k_child_said(&other, 20000), 'y');
	k_child_kill(&other);
	/* It may be killed there, and took nothing. */
	k_child_kill(&hung);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, 0), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 0, 0), -EAGAIN);
	k_scene_free(&s);
}

static void *write_from(void *arg)
{
	void **from = arg;

	return (void *)write(*(int *)from[0], from[1], 4096);
}

/* Holds the lock of the memfd's inode, and says so. */
static void writer_that_hangs(void *arg)
{
	int uffd;
	void *page = absent_page(&uffd), *from[] = { arg, page };
	struct pollfd p = { .fd = uffd, .events = POLLIN };
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, write_from, from), 0);
	CHECK_EQ(poll(&p, 1, -1), 1);
	k_child_say('h');
}

static void pinner(void *arg)
{
	struct rlx_ioc_arena_create c = {
		.size = 4096, .kind = RLX_KIND_MEMFD, .numa_node = -1,
		.memfd = *(int *)arg,
	};
	int s = k_open();

	k_child_say('p');
	k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
	k_child_say('d');
}

/* Who waits for a memfd that another writes, from memory that never comes, dies. */
TEST(pins_of_a_memfd_under_a_writer_that_hangs)
{
	int memfd = memfd_create("abuse", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct k_child hung, other;

	CHECK(memfd >= 0 && !ftruncate(memfd, 8192));
	CHECK_EQ(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	hung = k_child_new(writer_that_hangs, &memfd);
	CHECK_EQ(k_child_said(&hung, 20000), 'h');
	other = k_child_new(pinner, &memfd);
	CHECK_EQ(k_child_said(&other, 20000), 'p');
	k_child_said(&other, 200);	/* not, but where memfds are not pinned at all */
	CHECK_EQ(kill(other.pid, SIGKILL), 0);
	for (int i = 0; i < 2000 && !waitpid(other.pid, NULL, WNOHANG); i++)
		usleep(10000);
	CHECKF(kill(other.pid, 0) < 0, "SIGKILL does not end a pin that waits");
	close(other.said);
	k_child_kill(&hung);
	close(memfd);
}

/* ---- lengths that user space gives ---- */

/* The last few of a batch no queue can have are refused, not looked at. */
TEST(commits_of_more_than_a_queue_has)
{
	struct k_scene s = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH });
	struct rlx_complete *c = calloc(4097, sizeof(*c));
	struct rlx_ioc_commit_fetch cf = {
		.commit = { .entries = (uintptr_t)c, .nr = 4097 },
		.fetch = { .flags = RLX_FETCH_NOWAIT, .max = 1 },
	};

	CHECK(c);
	CHECK_EQ(k_commit(s.ex, c, 4096, NULL), -ESTALE);
	CHECK_EQ(k_commit(s.ex, c, 4097, NULL), -EINVAL);
	CHECK_EQ(k_commit(s.ex, c, INT32_MAX, NULL), -EINVAL);
	CHECK_EQ(k_ioctl(s.ex, RLX_IOC_COMMIT_AND_FETCH, &cf), -EINVAL);
	free(c);
	k_scene_free(&s);
}

static void crowd_add(int tl, int ev, unsigned int nr, uint64_t value)
{
	struct rlx_ioc_timeline_eventfd e = { .eventfd = ev, .value = value };

	for (unsigned int i = 0; i < nr; i++)
		CHECK_EQ(k_ioctl(tl, RLX_IOC_TIMELINE_EVENTFD, &e), 0);
}

/* All of a crowd are woken when SIGNAL returns, when the last signaller goes too. */
TEST(a_crowd_is_woken)
{
	int s = k_open(), tl = k_timeline(s, 0), ev = eventfd(0, EFD_NONBLOCK);
	uint64_t n;

	crowd_add(tl, ev, 4095, 1);
	crowd_add(tl, ev, 1, 2);
	CHECK_EQ(k_signal(tl, 1), 0);
	CHECK_EQ(read(ev, &n, 8), 8);
	CHECK_EQ(n, 4095);
	crowd_add(tl, ev, 4095, 3);
	close(tl);
	CHECK_EQ(read(ev, &n, 8), 8);
	CHECK_EQ(n, 4096);
	close(ev);
	close(s);
}

/* A ring gets what was left for its executor, though that is much, in its order. */
TEST(a_ring_is_filled)
{
	struct k_scene s = k_scene_new(&(struct k_scene_opts){
		.depth = 4096, .service = RLX_SERVICE_REQUEUE });
	uint32_t tag[16], got = 0, n;
	struct rlx_rq rq[64];
	struct k_ring r;

	for (int i = 0; i < 64; i++)
		rq[i] = k_rq(1, i);
	k_scene_kill_executor(&s);
	for (int i = 0; i < 64; i++) {
		for (int k = 0; k < 64; k++)
			rq[k].user_data = i * 64 + k;
		CHECK_EQ(k_submit(s.ch, rq, 64, NULL), 64);
	}
	s.ex = k_next_executor(s.svc, RLX_EXEC_RING);
	s.desc = k_desc(s.ex, 4096);
	r = k_map_ring(s.ex, k_exec_entries(4096), 4);
	/* Whoever asks for all of them gets them. */
	CHECK_EQ(k_fetch(s.ex, NULL, 4096, 4096, K_SOON), 4096);
	while ((n = k_ring_take(&r, tag, 16)))
		for (uint32_t i = 0; i < n; i++)
			CHECK_EQ(s.desc[tag[i]].user_data, got++);
	CHECK_EQ(got, 4096);
	k_unmap_ring(&r);
	k_scene_free(&s);
}

/* ---- shares ---- */

/* A session of another user: whoever uses it afterwards. */
static int session_of(uid_t uid)
{
	gid_t render = 105;
	int s;

	CHECK_EQ(setgroups(1, &render), 0);
	CHECK_EQ(setresuid(uid, uid, 0), 0);
	s = k_open();
	CHECK_EQ(setresuid(0, 0, 0), 0);
	return s;
}

static long try_channel(int session, int svc, uint32_t depth)
{
	struct rlx_ioc_connect c = { .service = svc, .depth = depth };

	return k_ioctl(session, RLX_IOC_CONNECT, &c);
}

/* Waits while what was given back is still on its way. */
static int channel_in_the_end(int session, int svc, uint32_t depth)
{
	long fd = -ENOSPC;

	for (int i = 0; i < 20000 && fd == -ENOSPC; i++) {
		fd = try_channel(session, svc, depth);
		if (fd == -ENOSPC)
			usleep(1000);
	}
	CHECKF(fd >= 0, "CONNECT: %ld", fd);
	return fd;
}

/* One user of many takes half of a queue, the next half of what is left, and so on. */
TEST(slots_are_shared_by_users)
{
	int a = session_of(1000), b = session_of(1001), c = session_of(1002);
	int s = k_open(), svc = k_service(s, 1, 64, 0), ex = k_executor(svc, 0), fd[4];

	CHECK_EQ(try_channel(a, svc, 64), -ENOSPC);
	fd[0] = try_channel(a, svc, 32);
	CHECK(fd[0] >= 0);
	CHECK_EQ(try_channel(a, svc, 1), -ENOSPC);
	CHECK_EQ(try_channel(b, svc, 32), -ENOSPC);
	fd[1] = try_channel(b, svc, 16);
	CHECK(fd[1] >= 0);
	/* The service's own user is asked nothing. */
	fd[2] = try_channel(s, svc, 16);
	CHECK(fd[2] >= 0);
	CHECK_EQ(try_channel(c, svc, 1), -ENOSPC);
	close(fd[2]);
	fd[2] = channel_in_the_end(c, svc, 8);
	/* Whoever gives back may take again. */
	close(fd[0]);
	fd[0] = channel_in_the_end(a, svc, 16);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	close(ex);
	close(svc);
	close(s);
	close(a);
	close(b);
	close(c);
}

/* What its maker says instead; requests of the dead count until they are committed. */
TEST(a_service_may_say_how_much)
{
	struct rlx_ioc_service_create c = { .queues = 1, .depth = 16, .user_slots = 17,
					    .user_channels = 2 };
	int a = session_of(1000), s = k_open(), svc, ex, ch[2];
	const struct rlx_desc *desc;
	struct rlx_rq rq = k_rq(1, 1);
	struct rlx_event ev;
	uint32_t tag, id[2];

	CHECK_EQ(k_ioctl(s, RLX_IOC_SERVICE_CREATE, &c), -EINVAL);
	c.user_slots = 4;
	c.user_channels = 1025;
	CHECK_EQ(k_ioctl(s, RLX_IOC_SERVICE_CREATE, &c), -EINVAL);
	c.user_channels = 2;
	svc = k_ioctl(s, RLX_IOC_SERVICE_CREATE, &c);
	CHECK(svc >= 0);
	ex = k_executor(svc, 0);
	desc = k_desc(ex, 16);
	CHECK_EQ(try_channel(a, svc, 8), -ENOSPC);
	ch[0] = k_channel(a, svc, 2, 0, &id[0]);
	CHECK_EQ(try_channel(a, svc, 4), -ENOSPC);
	ch[1] = k_channel(a, svc, 1, 0, &id[1]);
	CHECK_EQ(try_channel(a, svc, 1), -ENOSPC);
	CHECK_EQ(k_submit(ch[0], &rq, 1, NULL), 1);
	tag = k_fetch1(ex);
	close(ch[0]);
	CHECK_EQ(try_channel(a, svc, 1), -ENOSPC);
	CHECK_EQ(k_commit1(ex, desc, tag, 0, 0), 1);
	/* The channel is its own until the executor has heard of its end. */
	CHECK_EQ(k_fetch1(ex), RLX_TAG_EVENT | id[0]);
	CHECK_EQ(try_channel(a, svc, 1), -ENOSPC);
	CHECK_EQ(k_events(ex, id[0], &ev, 1), 1);
	CHECK_EQ(ev.type, RLX_EVENT_GONE);
	ch[0] = k_channel(a, svc, 2, 0, NULL);
	close(ch[0]);
	close(ch[1]);
	k_undesc(desc, 16);
	close(ex);
	close(svc);
	close(s);
	close(a);
}

TEST(channels_are_shared_by_users)
{
	struct rlimit files = { 4096, 4096 };
	int a = session_of(1000), b = session_of(1001), s = k_open(), n, fd[1024];
	int svc = k_service(s, 1, 4096, 0);

	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	for (n = 0; n < 1024; n++) {
		fd[n] = try_channel(a, svc, 1);
		if (fd[n] < 0)
			break;
	}
	CHECK_EQ(fd[n], -ENOSPC);
	CHECK_EQ(n, 512);
	fd[n] = try_channel(b, svc, 1);
	CHECK(fd[n] >= 0);
	for (; n >= 0; n--)
		close(fd[n]);
	close(svc);
	close(s);
	close(a);
	close(b);
}

static void first_channel(const char *id)
{
	int fd = open("/sys/module/rlx/parameters/first_channel", O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, id, strlen(id)), (ssize_t)strlen(id));
	close(fd);
}

/* Ids end; then those that nobody has any more come round. */
TEST(ids_come_round)
{
	static const uint32_t want[] = { 0x7ffffffe, 0x7fffffff, 1, 2 };
	int s = k_open(), svc, ex, ch[4];
	struct rlx_event ev[4];
	uint32_t id;

	first_channel("2147483646");
	svc = k_service(s, 1, 16, 0);
	first_channel("1");
	ex = k_executor(svc, 0);
	for (int i = 0; i < 4; i++) {
		ch[i] = k_channel(s, svc, 1, 0, &id);
		CHECK_EQ(id, want[i]);
	}
	close(ch[1]);
	CHECK_EQ(k_fetch1(ex), RLX_TAG_EVENT | want[1]);
	CHECK_EQ(k_events(ex, want[1], ev, 4), 1);
	CHECK_EQ(k_events(ex, want[1], ev, 4), -ENOENT);
	close(ch[2]);
	CHECK_EQ(k_fetch1(ex), RLX_TAG_EVENT | want[2]);
	CHECK_EQ(k_events(ex, want[2], ev, 4), 1);
	/* As late as can be. */
	ch[1] = k_channel(s, svc, 1, 0, &id);
	CHECK_EQ(id, 3);
	close(ch[0]);
	close(ch[1]);
	close(ch[3]);
	close(ex);
	close(svc);
	close(s);
}

/* ---- an executor that hangs ---- */

struct hang {
	int s, svc, ex, ch, arena;
	const struct rlx_desc *desc;
	uint32_t tag;
};

/* It has a request of a client, whose arena it never asked for. */
static struct hang hang_new(uint32_t ms, uint32_t flags)
{
	struct rlx_ioc_service_create c = { .queues = 1, .depth = DEPTH, .flags = flags,
					    .orphan_ms = ms };
	struct hang h = { .s = k_open() };
	struct rlx_rq rq = k_rq(1, 1);

	h.svc = k_ioctl(h.s, RLX_IOC_SERVICE_CREATE, &c);
	CHECK(h.svc >= 0);
	h.ex = k_executor(h.svc, 0);
	h.desc = k_desc(h.ex, DEPTH);
	h.ch = k_channel(h.s, h.svc, 4, 0, NULL);
	h.arena = k_arena(h.s, 1 << 20, 0);
	rq.nr_slices = 1;
	rq.slice[0] = (struct rlx_slice){ k_attach(h.ch, h.arena, RLX_R | RLX_W),
					  RLX_R, 0, 8 };
	close(h.arena);
	CHECK_EQ(k_submit(h.ch, &rq, 1, NULL), 1);
	h.tag = k_fetch1(h.ex);
	return h;
}

static void hang_free(struct hang *h)
{
	k_undesc(h->desc, DEPTH);
	close(h->ex);
	close(h->svc);
	close(h->s);
	CHECK(k_stat_becomes("nr_services", 0));
	CHECK(k_stat_becomes("nr_arenas", 0));
}

TEST(memory_of_the_dead_does_not_stay)
{
	struct hang h = hang_new(200, 0);
	struct pollfd p = { .fd = h.ex };
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	struct rlx_event ev;
	uint32_t tag;
	int ex;
	struct rlx_ioc_fetch f = { .tags = (uintptr_t)&tag, .max = 1,
				   .timeout_ns = K_EVER };
	bool parks = false;

	CHECK_EQ(io_uring_queue_init(4, &ring, 0), 0);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	CHECK(sqe);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = h.ex;
	sqe->cmd_op = RLX_IOC_FETCH;
	((struct rlx_uring_cmd *)sqe->cmd)->addr = (uintptr_t)&f;
	CHECK_EQ(io_uring_submit(&ring), 1);
	if (!io_uring_peek_cqe(&ring, &cqe))
		io_uring_cqe_seen(&ring, cqe);	/* before 6.7 */
	else
		parks = true;
	close(h.ch);
	/* Whoever sleeps in it, or is parked, hears of it. */
	CHECK_EQ(k_fetch(h.ex, &tag, 1, 0, K_SOON), -EPIPE);
	if (parks) {
		CHECK_EQ(io_uring_wait_cqe(&ring, &cqe), 0);
		CHECK_EQ(cqe->res, -EPIPE);
	}
	CHECK(k_stat_becomes("nr_arenas", 0));
	CHECK(k_stat_becomes("nr_slots", 0));
	CHECK_EQ(poll(&p, 1, 0), 1);
	CHECK(p.revents & POLLERR);
	CHECK_EQ(k_commit1(h.ex, h.desc, h.tag, 0, 0), -EPIPE);
	/* The next one comes though it is still there, and it takes nothing with it. */
	ex = k_next_executor(h.svc, 0);
	CHECK_EQ(k_commit1(h.ex, h.desc, h.tag, 0, 0), -EPIPE);
	CHECK_EQ(k_exec_arena(h.ex, 0, 1, NULL), -EPIPE);
	CHECK_EQ(k_events(h.ex, 0, &ev, 1), -EPIPE);
	io_uring_queue_exit(&ring);
	close(h.ex);
	CHECK_EQ(k_info(h.svc).state, RLX_SERVICE_LIVE);
	h.ex = ex;
	hang_free(&h);
}

/* One that commits in time is let be, however often; and so is one without a limit. */
TEST(who_commits_in_time_stays)
{
	struct hang h = hang_new(1000, 0), ever = hang_new(0, 0);
	struct rlx_event ev;
	uint32_t tag;

	close(ever.ch);
	close(h.ch);
	CHECK_EQ(k_commit1(h.ex, h.desc, h.tag, 0, 0), 1);
	tag = k_fetch1(h.ex);
	CHECK(tag & RLX_TAG_EVENT);
	CHECK_EQ(k_events(h.ex, tag & ~RLX_TAG_EVENT, &ev, 1), 1);
	CHECK_EQ(k_fetch(h.ex, &tag, 1, 0, 2000 * K_MS), -ETIME);
	CHECK_EQ(k_info(h.svc).state, RLX_SERVICE_LIVE);
	CHECK_EQ(k_info(ever.svc).state, RLX_SERVICE_LIVE);
	CHECK_EQ(k_commit1(ever.ex, ever.desc, ever.tag, 0, 0), 1);
	close(ever.ex);
	k_undesc(ever.desc, DEPTH);
	close(ever.svc);
	close(ever.s);
	hang_free(&h);
}

TEST_MAIN()
