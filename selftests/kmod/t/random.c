// SPDX-License-Identifier: MIT
/*
 * Random programs over the whole of /dev/rlx, alone and racing.
 *
 * "random --seed S [--ops N] [--threads T]" runs one program by itself and tells every
 * call; the seed is in what a failed run prints. What one thread does follows from its
 * seed, as far as the kernel's answers do. Each test ends after some minutes, or after
 * RLX_KMOD_FUZZ_OPS operations if the environment of run-qemu.sh says so.
 */
/* rig: own kernels=debug timeout=900 memory=2560 params=max_user_bytes=50331648+max_sessions=24 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/chan.h"
#include "rand/rand.h"
#include "lib/vgem.h"

#define PROGRAM_OPS	4000u	/* of one process */
#define MANY_OPS	100000u	/* in which all has to come up */
#define THREADS		3
#define HANG_SECONDS	120
#define NORMAL_OPS	500000u
#define NORMAL_SECONDS	110u

/* ---- one program ---- */

struct job {
	struct rnd_world *w;
	pthread_barrier_t *barrier;
	uint64_t seed;
	uint32_t ops;
};

static char *blank(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* 64 KiB, and behind them nothing. */
static char *cliff(void)
{
	char *p = blank(128u << 10);

	if (p)
		mprotect(p, 64u << 10, PROT_READ | PROT_WRITE);
	return p;
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* Signals now and then, so that nothing sleeps for ever. */
static void disturb(void)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct itimerspec every = { .it_value.tv_nsec = 30000000,
				    .it_interval.tv_nsec = 30000000 };
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };
	timer_t timer;

	ev._sigev_un._tid = (int)syscall(SYS_gettid);
	sigaction(SIGALRM, &sa, NULL);
	if (!timer_create(CLOCK_MONOTONIC, &ev, &timer))
		timer_settime(timer, 0, &every, NULL);
}

static void *run_thread(void *arg)
{
	struct job *j = arg;
	struct rnd r = { .dice = j->seed, .w = j->w };

	/* Aligned, so that huge pages are mapped whole. */
	r.window = blank((RND_SLOTS + 1) * RND_SLOT);
	r.window = (char *)(((uintptr_t)r.window + RND_SLOT - 1) & ~(RND_SLOT - 1));
	r.buf = cliff();
	r.keep = cliff();
	CHECK(r.window && r.buf && r.keep);
	rnd_ring_new(&r);
	pthread_barrier_wait(j->barrier);
	disturb();
	rnd_begin(&r);
	while (j->ops-- && !j->w->tally->broken[0])
		rnd_step(&r);
	return NULL;
}

static void world_init(struct rnd_world *w, struct rnd_tally *tally, bool race)
{
	struct rlx_ioc_query q = { 0 };
	int fd = k_open();

	memset(w, 0, sizeof(*w));
	for (int k = 0; k < RND_KINDS; k++)
		for (int i = 0; i < RND_THINGS; i++)
			w->thing[k][i].fd = -1;
	for (int i = 0; i < RND_THINGS; i++) {
		w->thing[RND_EXECUTOR][i].area = blank(RND_AREAS * (size_t)RND_AREA);
		w->thing[RND_CHANNEL][i].area = blank(RND_AREAS * (size_t)RND_AREA);
	}
	w->tally = tally;
	w->race = race;
	w->lockdep = !access("/proc/lockdep", F_OK);
	CHECK_EQ(k_ioctl(fd, RLX_IOC_QUERY, &q), 0);
	w->parks = q.features & RLX_FEAT_URING_ASYNC;
	w->thing[RND_SESSION][0].fd = fd;
	w->thing[RND_SW_SYNC][0].fd = sw_sync_open();
	w->thing[RND_OTHER][0].fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	w->scratch = memfd_create("scratch", MFD_CLOEXEC);
	CHECK(w->scratch >= 0 && !ftruncate(w->scratch, 8 << 20));
	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, w->pair));
}

/* Some programs are nobody in particular, some have few descriptors. */
static void humble(uint64_t seed)
{
	static const gid_t render = 105;
	struct rlimit lim = { 48, 48 };

	if (seed % 8 == 1)
		setrlimit(RLIMIT_NOFILE, &lim);
	if (seed % 3)
		return;
	lim.rlim_cur = 4u << 20;
	lim.rlim_max = 4u << 20;
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &lim));
	CHECK(!setgroups(1, &render) && !setresgid(1000, 1000, 1000) &&
	      !setresuid(1000, 1000, 1000));
}

static void run_program(struct rnd_tally *tally, uint64_t seed, uint32_t ops,
			uint32_t threads, bool verbose)
{
	static struct rnd_world w;
	static struct job job[THREADS];
	pthread_barrier_t barrier;
	pthread_t id[THREADS];

	world_init(&w, tally, threads > 1);
	w.verbose = verbose;
	rnd_catch_faults();
	humble(seed);
	pthread_barrier_init(&barrier, NULL, threads);
	for (uint32_t i = 0; i < threads; i++) {
		job[i] = (struct job){
			.w = &w, .barrier = &barrier, .ops = ops / threads,
			.seed = seed + i * 0x9e3779b97f4a7c15ull,
		};
		if (i)
			CHECK(!pthread_create(&id[i], NULL, run_thread, &job[i]));
	}
	run_thread(&job[0]);
	for (uint32_t i = 1; i < threads; i++)
		pthread_join(id[i], NULL);
}

/* ---- many ---- */

/* Operations, or seconds if nobody said how many. */
static bool enough(const struct rnd_tally *t, uint64_t from)
{
	const char *s = getenv("RLX_KMOD_FUZZ_OPS");

	if (s)
		return t->ops >= strtoul(s, NULL, 0);
	return t->ops >= NORMAL_OPS || k_now() - from > NORMAL_SECONDS * 1000000000ull;
}

/* Where each thread of a program that does not end is. */
static void tell_stacks(pid_t pid)
{
	char command[128];

	snprintf(command, sizeof(command),
		 "for t in /proc/%d/task/*; do cat $t/comm $t/stack $t/syscall; done | "
		 "sed 's/^/# /'", pid);
	if (system(command))
		printf("# no stacks\n");
}

static pid_t start(struct rnd_tally *tally, uint64_t seed, uint32_t threads)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	run_program(tally, seed, PROGRAM_OPS, threads, false);
	fflush(stdout);
	_exit(0);
}

static int finish(pid_t pid, uint64_t deadline)
{
	int status;

	while (!waitpid(pid, &status, WNOHANG)) {
		if (k_now() > deadline) {
			tell_stacks(pid);
			return -1;
		}
		usleep(2000);
	}
	return status;
}

/* Nothing is left of any program. */
static bool all_gone(void)
{
	static const char *const names[] = {
		"nr_sessions", "nr_arenas", "nr_leases", "nr_dmabufs", "nr_timelines",
		"nr_waiters", "nr_services", "nr_executors", "nr_channels", "nr_slots",
		"bytes", "huge_bytes",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!k_stat_becomes(names[i], 0)) {
			printf("# %s is not 0 again\n", names[i]);
			return false;
		}
	return true;
}

static void tell(const struct rnd_tally *t)
{
	printf("# %u operations, %u of their calls wild\n", t->ops, t->wild);
	for (int c = 0; c < RND_CALLS; c++) {
		printf("# %-24s %u", rnd_calls[c].name, t->n[c][0]);
		for (int e = 1; e < RND_ERRNOS; e++)
			if (t->n[c][e])
				printf(" %s %u", strerrorname_np(e), t->n[c][e]);
		printf("\n");
	}
}

/* Else the generator would not be what it says. */
static void check_coverage(const struct rnd_tally *t)
{
	bool full = true;

	if (t->ops < MANY_OPS)
		return;
	for (int c = 0; c < RND_CALLS; c++) {
		if (!t->n[c][0]) {
			printf("# %s: never a success\n", rnd_calls[c].name);
			full = false;
		}
		for (const short *e = rnd_calls[c].must; *e; e++)
			if (!t->n[c][*e]) {
				printf("# %s: never %s\n", rnd_calls[c].name,
				       strerrorname_np(*e));
				full = false;
			}
	}
	CHECKF(full, "the programs do not reach what they should");
}

/* Two at a time, for two processors; one in four is killed on its way. */
static void run_many(uint32_t threads)
{
	struct rnd_tally *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t dice = rlx_test_seed(), seed[2], from = k_now();
	pid_t pid[2];

	CHECK(t != MAP_FAILED);
	for (uint32_t round = 0; !enough(t, from); round++) {
		for (int i = 0; i < 2; i++) {
			seed[i] = rlx_test_rand(&dice) >> 16;
			pid[i] = start(t, seed[i], threads);
		}
		if (round % 4 == 3) {
			usleep((useconds_t)(rlx_test_rand(&dice) % 300000));
			kill(pid[0], SIGKILL);
		}
		for (int i = 0; i < 2; i++) {
			int status = finish(pid[i], k_now() + HANG_SECONDS * 1000000000ull);

			CHECKF(!status || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
					   !i),
			       "--seed %llu: status %#x", (unsigned long long)seed[i], status);
		}
		CHECKF(!t->broken[0], "--seed %llu or %llu: %s", (unsigned long long)seed[0],
		       (unsigned long long)seed[1], t->broken);
		CHECKF(all_gone(), "--seed %llu or %llu left something",
		       (unsigned long long)seed[0], (unsigned long long)seed[1]);
	}
	tell(t);
	printf("# %.1f us each\n", (double)(k_now() - from) / 1000 / t->ops);
	check_coverage(t);
}

TEST(alone)
{
	run_many(1);
}

TEST(racing)
{
	run_many(THREADS);
}

static int replay(int argc, char **argv)
{
	struct rnd_tally *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t ops = PROGRAM_OPS, threads = 1;
	uint64_t seed = 1;

	for (int i = 1; i + 1 < argc; i += 2) {
		uint64_t v = strtoull(argv[i + 1], NULL, 0);

		if (!strcmp(argv[i], "--seed"))
			seed = v;
		else if (!strcmp(argv[i], "--ops"))
			ops = (uint32_t)v;
		else if (!strcmp(argv[i], "--threads") && v >= 1 && v <= THREADS)
			threads = (uint32_t)v;
	}
	if (t == MAP_FAILED)
		return 1;
	run_program(t, seed, ops, threads, true);
	tell(t);
	printf("%s 1 replay%s\n1..1\n", t->broken[0] ? "not ok" : "ok", t->broken);
	return t->broken[0] != 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && !strncmp(argv[1], "--", 2))
		return replay(argc, argv);
	setenv("RLX_TEST_TIMEOUT", "3000", 1);
	return rlx_test_main(argc, argv);
}
