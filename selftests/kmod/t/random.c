// SPDX-License-Identifier: MIT
/*
 * Random programs over the whole of /dev/rlx, alone and racing.
 *
 * "random --seed S [--ops N] [--threads T]" runs one program by itself and tells every
 * call; the seed is in what a failed run prints. Which operations a thread does, and
 * from which dice each draws, follows from the seed alone. The tests end after less
 * than a minute each, or after half of RLX_KMOD_FUZZ_OPS operations if the environment
 * of run-qemu.sh says so. What the programs reach is told, and has to be enough.
 */
/* rig: own kernels=debug,kcsan timeout=900 memory=2560 */
/* rig: params=max_user_bytes=50331648+max_sessions=24 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
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
#define SOME_OPS	30000u	/* in which what is usual has to come up */
#define MANY_OPS	100000u	/* and in which the rest has */
#define MOST_OPS	400000u	/* and even what is rare */
#define THREADS		3
#define RUNS		2	/* programs at a time */
#define LAP		16	/* of them, then nothing may be left */
#define KILL_NS		4000000000ull
#define HANG_NS		120000000000ull	/* of a machine with nothing else to do */
#define NORMAL_NS	45000000000ull

/* ---- one program ---- */

struct job {
	struct rnd_world *w;
	pthread_barrier_t *barrier;
	uint64_t seed;
	uint32_t thread;
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
	struct rnd r = { .seed = j->seed, .dice = j->seed, .w = j->w,
			 .thread = j->thread };

	/* Aligned, so that huge pages are mapped whole. */
	r.window = blank((RND_SLOTS + 1) * RND_SLOT);
	r.window = (char *)(((uintptr_t)r.window + RND_SLOT - 1) & ~(RND_SLOT - 1));
	r.buf = cliff();
	r.keep = cliff();
	CHECK(r.window && r.buf && r.keep);
	rnd_ring_new(&r);
	rnd_fault_open(&r);
	pthread_barrier_wait(j->barrier);
	disturb();
	rnd_begin(&r);
	while (j->ops-- && !j->w->tally->broken[0])
		rnd_step(&r);
	__atomic_fetch_xor(&j->w->tally->digest, r.digest, __ATOMIC_RELAXED);
	return NULL;
}

/*
 * A fault outside of the module would be another's: a signal that cannot be delivered, for
 * one, kills the program.
 */
static bool faults_filtered(void)
{
	static int is = -1;

	if (is < 0) {
		k_fail_prepare();
		is = k_fail_within("rlx");
	}
	return is;
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
	w->faults = faults_filtered();
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
	w.seed = seed;
	w.verbose = verbose;
	rnd_catch_faults();
	humble(seed);
	pthread_barrier_init(&barrier, NULL, threads);
	for (uint32_t i = 0; i < threads; i++) {
		job[i] = (struct job){
			.w = &w, .barrier = &barrier, .ops = ops / threads,
			.seed = seed + i * 0x9e3779b97f4a7c15ull, .thread = i,
		};
		if (i)
			CHECK(!pthread_create(&id[i], NULL, run_thread, &job[i]));
	}
	run_thread(&job[0]);
	for (uint32_t i = 1; i < threads; i++)
		pthread_join(id[i], NULL);
}

/* ---- many ---- */

static struct rnd_tally *tally_new(void)
{
	struct rnd_tally *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(t != MAP_FAILED);
	return t;
}

/* Operations, or seconds if nobody said how many. */
static bool enough(const struct rnd_tally *t, uint64_t from)
{
	const char *s = getenv("RLX_KMOD_FUZZ_OPS");

	if (s)
		return t->ops >= strtoul(s, NULL, 0) / 2;	/* of two tests */
	return k_now() - from > NORMAL_NS;
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

/* From when on a program has hung. */
static uint64_t hung_at(uint64_t now)
{
	return now + k_patience(HANG_NS);
}

/* A program that runs. */
struct run {
	pid_t pid;		/* 0: none */
	int fd;			/* readable when it ended */
	uint64_t seed;
	uint64_t until;		/* it is killed then, or has hung */
	bool to_kill, killed;
};

static void run_start(struct run *r, struct rnd_tally *tally, uint64_t *dice,
		      uint32_t threads)
{
	r->seed = rlx_test_rand(dice) >> 16;
	/* One in four does not come to its own end. */
	r->to_kill = rlx_test_rand(dice) % 4 == 0;
	r->killed = false;
	r->until = r->to_kill ? k_now() + rlx_test_rand(dice) % KILL_NS : hung_at(k_now());
	fflush(stdout);
	r->pid = fork();
	CHECK(r->pid >= 0);
	if (!r->pid) {
		run_program(tally, r->seed, PROGRAM_OPS, threads, false);
		fflush(stdout);
		_exit(0);
	}
	r->fd = (int)syscall(SYS_pidfd_open, r->pid, 0);
	CHECK(r->fd >= 0);
}

/* Whether it ended; the test fails if that was not as it should be. */
static bool run_ended(struct run *r)
{
	int status = -1;

	if (!waitpid(r->pid, &status, WNOHANG)) {
		if (k_now() < r->until)
			return false;
		if (r->to_kill) {
			kill(r->pid, SIGKILL);
			r->to_kill = false;
			r->killed = true;
			r->until = hung_at(k_now());
			return false;
		}
		tell_stacks(r->pid);
	}
	close(r->fd);
	r->pid = 0;
	CHECKF(!status || (r->killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
	       "--seed %llu: status %#x", (unsigned long long)r->seed, status);
	return true;
}

static void run_wait(const struct run *run)
{
	struct pollfd p[RUNS];
	uint64_t now = k_now(), until = hung_at(now);

	for (int i = 0; i < RUNS; i++) {
		p[i].fd = run[i].pid ? run[i].fd : -1;
		p[i].events = POLLIN;
		if (run[i].pid && run[i].until < until)
			until = run[i].until;
	}
	poll(p, RUNS, until > now ? (int)((until - now) / 1000000) + 1 : 0);
}

/* Nothing is left of any program. */
static bool all_gone(void)
{
	static const char *const names[] = {
		"nr_sessions", "nr_arenas", "nr_leases", "nr_dmabufs", "nr_buffers",
		"nr_timelines", "nr_waiters", "nr_services", "nr_executors", "nr_channels",
		"nr_slots", "bytes", "huge_bytes",
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
	printf("# %u operations, %u of their calls wild, %u with a fault injected\n", t->ops,
	       t->wild, t->faults);
	for (int c = 0; c < RND_CALLS; c++) {
		printf("# %-24s %u", rnd_calls[c].name, t->n[c][0]);
		for (int e = 1; e < RND_ERRNOS; e++)
			if (t->n[c][e])
				printf(" %s %u", strerrorname_np(e), t->n[c][e]);
		printf("\n");
	}
}

/*
 * What has to come up of the slot machine by SOME_OPS, by MANY_OPS, and by MOST_OPS:
 * states by letter, FREE TAKEN WAITING READY DELIVERED ORPHAN DONE. Left out are
 * WAITING slots that meet ABANDON.
 */
static const char state_letter[] = "FTWRDOX";
static const struct {
	const char *name, *some, *many, *most;
} events[] = {
	{ "TAKE", "F", "", "" },	{ "DROP", "T", "", "" },
	{ "SUBMIT", "T", "", "" },	{ "SUBMIT_WAIT", "T", "", "" },
	{ "POINTS_MET", "", "W", "" },	{ "POINTS_FAIL", "", "", "W" },
	{ "FETCH", "R", "", "" },	{ "UNDELIVER", "", "D", "" },
	{ "COMMIT", "DO", "", "" },	{ "CANCEL", "RD", "", "W" },
	{ "ABANDON", "", "D", "R" },	{ "DEADLINE", "R", "W", "" },
	{ "CLIENT_GONE", "RDX", "W", "" }, { "EXEC_GONE_REQUEUE", "", "DO", "" },
	{ "EXEC_GONE_FAIL", "", "DO", "R" }, { "SERVICE_GONE", "O", "RD", "W" },
	{ "REAP", "X", "", "" },
};
#define EVENTS	(sizeof(events) / sizeof(*events))
#define SEEN	"/sys/module/rlx/parameters/seen"

static void see_slots(void)
{
	FILE *f = fopen(SEEN, "w");

	CHECK(f && fputs("1", f) >= 0 && !fclose(f));
}

/* Tells what came up, and whether that is what @ops operations should reach. */
static bool saw_slots(uint32_t ops)
{
	unsigned long nr[EVENTS][sizeof(state_letter) - 1] = { 0 }, n;
	FILE *f = fopen(SEEN, "r");
	unsigned int ev, state;
	bool full = true;

	CHECK(f);
	while (fscanf(f, "%u %u %lu", &ev, &state, &n) == 3)
		if (ev < EVENTS && state < sizeof(state_letter) - 1)
			nr[ev][state] = n;
	fclose(f);
	for (ev = 0; ev < EVENTS; ev++) {
		printf("# %s", events[ev].name);
		for (state = 0; state < sizeof(state_letter) - 1; state++) {
			bool must = (ops >= SOME_OPS &&
				     strchr(events[ev].some, state_letter[state])) ||
				    (ops >= MANY_OPS &&
				     strchr(events[ev].many, state_letter[state])) ||
				    (ops >= MOST_OPS &&
				     strchr(events[ev].most, state_letter[state]));

			if (nr[ev][state] || must)
				printf(" %c %lu%s", state_letter[state], nr[ev][state],
				       nr[ev][state] ? "" : " (never)");
			full = full && (nr[ev][state] || !must);
		}
		printf("\n");
	}
	return full;
}

static uint64_t features(void)
{
	struct rlx_ioc_query q = { 0 };
	int s = k_open();

	CHECK_EQ(k_ioctl(s, RLX_IOC_QUERY, &q), 0);
	close(s);
	return q.features;
}

/* Else the generator would not be what it says. */
static void check_coverage(const struct rnd_tally *t)
{
	bool full = saw_slots(t->ops);

	if (t->ops >= SOME_OPS && !t->faults && faults_filtered()) {
		printf("# never a fault injected\n");
		full = false;
	}
	for (int c = 0; t->ops >= SOME_OPS && c < RND_CALLS; c++) {
		if (!t->n[c][0] && !(rnd_calls[c].feature & ~features())) {
			printf("# %s: never a success\n", rnd_calls[c].name);
			full = false;
		}
		for (const short *e = rnd_calls[c].must; *e && t->ops >= MANY_OPS; e++)
			if (!t->n[c][*e]) {
				printf("# %s: never %s\n", rnd_calls[c].name,
				       strerrorname_np(*e));
				full = false;
			}
	}
	CHECKF(full, "the programs do not reach what they should");
}

/* Some programs, as many at a time as there are processors; then nothing may be left. */
static void run_lap(struct rnd_tally *t, uint64_t *dice, uint32_t threads, uint64_t from)
{
	struct run run[RUNS] = { 0 };
	uint32_t started = 0, running = 0;
	uint64_t lap = *dice;

	do {
		for (int i = 0; i < RUNS; i++) {
			if (run[i].pid && run_ended(&run[i]))
				running--;
			if (run[i].pid || started >= LAP || (started && enough(t, from)))
				continue;
			run_start(&run[i], t, dice, threads);
			started++;
			running++;
		}
		if (running)
			run_wait(run);
	} while (running);
	CHECKF(!t->broken[0], "%s", t->broken);
	CHECKF(all_gone(), "one of the %u programs from %llu on left something", started,
	       (unsigned long long)lap);
}

static void run_many(uint32_t threads)
{
	struct rnd_tally *t = tally_new();
	uint64_t dice = rlx_test_seed(), from = k_now();

	printf("# seed %llu\n", (unsigned long long)dice);
	see_slots();
	faults_filtered();		/* here, that no program asks again */
	while (!enough(t, from))
		run_lap(t, &dice, threads, from);
	tell(t);
	printf("# %.0f a second\n", t->ops * 1e9 / (double)(k_now() - from));
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

static uint64_t digest_of(uint64_t seed)
{
	struct rnd_tally *t = tally_new();
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (!pid) {
		run_program(t, seed, 400, THREADS, false);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	return t->digest;
}

/* What a program does follows from its seed, whatever it is answered. */
TEST(seed_is_program)
{
	uint64_t dice = rlx_test_seed(), seed = rlx_test_rand(&dice), digest = digest_of(seed);

	CHECK(digest);
	CHECK_EQ(digest_of(seed), digest);
	CHECK(digest_of(seed + 1) != digest);
}

static int replay(int argc, char **argv)
{
	struct rnd_tally *t = tally_new();
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
	run_program(t, seed, ops, threads, true);
	tell(t);
	printf("# program %016llx\n", (unsigned long long)t->digest);
	printf("%s 1 replay%s\n1..1\n", t->broken[0] ? "not ok" : "ok", t->broken);
	return t->broken[0] != 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && !strncmp(argv[1], "--", 2))
		return replay(argc, argv);
	/* Of a run of given length run-qemu.sh has the limit. */
	setenv("RLX_TEST_TIMEOUT", getenv("RLX_KMOD_FUZZ_OPS") ? "1000000" : "3000", 1);
	return rlx_test_main(argc, argv);
}
