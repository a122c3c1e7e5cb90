// SPDX-License-Identifier: MIT
/* The TAP harness of rlx_test.h. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"

enum { EXIT_TEST_FAIL = 1, EXIT_TEST_SKIP = 4 };

static struct rlx_test *first, **last = &first;
static uint64_t seed;

void rlx_test_add(struct rlx_test *t)
{
	*last = t;
	last = &t->next;
}

void rlx_test_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	printf("# %s:%d: ", file, line);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	if (seed)
		printf(" [RLX_TEST_SEED=%llu]", (unsigned long long)seed);
	printf("\n");
	fflush(stdout);
	_exit(EXIT_TEST_FAIL);
}

void rlx_test_skip(const char *fmt, ...)
{
	va_list ap;

	printf("# SKIP ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	_exit(EXIT_TEST_SKIP);
}

uint64_t rlx_test_seed(void)
{
	const char *s = getenv("RLX_TEST_SEED");
	struct timespec ts;

	if (seed)
		return seed;
	clock_gettime(CLOCK_REALTIME, &ts);
	seed = s ? strtoull(s, NULL, 0)
		 : (uint64_t)ts.tv_nsec * 2654435761u ^ (uint64_t)getpid();
	if (!seed)
		seed = 1;
	return seed;
}

/* splitmix64 */
uint64_t rlx_test_rand(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

double rlx_test_uniform(uint64_t *state, double lo, double hi)
{
	return lo + (hi - lo) * (double)(rlx_test_rand(state) >> 11) * 0x1p-53;
}

static double clock_now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

double rlx_test_cpu(void)
{
	return clock_now(CLOCK_PROCESS_CPUTIME_ID);
}

/* By how much longer a computation takes for what others take of the processors. */
static double slowness(void)
{
	double begin = clock_now(CLOCK_MONOTONIC), cpu = clock_now(CLOCK_THREAD_CPUTIME_ID), used;

	do
		used = clock_now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	while (used < 0.1);
	begin = clock_now(CLOCK_MONOTONIC) - begin;
	return begin > used ? begin / used : 1;
}

bool rlx_test_within(uint64_t from, double seconds)
{
	double gone = clock_now(CLOCK_MONOTONIC) - 1e-9 * (double)from;

	return gone < seconds || gone < seconds * slowness();
}

static void on_alarm(int sig)
{
	(void)sig;	/* what it interrupts looks at the time */
}

/*
 * How @pid ended. It has @timeout seconds, and longer by as much as this machine is slow
 * when they are over; then it is killed.
 */
static int wait_for(pid_t pid, unsigned int timeout, bool *out_late)
{
	/* Again every second: one that comes before the wait begins interrupts nothing. */
	struct itimerval it = { { 1, 0 }, { timeout, 0 } };
	double begin = clock_now(CLOCK_MONOTONIC);
	int st;

	*out_late = false;
	setitimer(ITIMER_REAL, &it, NULL);
	while (waitpid(pid, &st, 0) < 0 && errno == EINTR) {
		double gone = clock_now(CLOCK_MONOTONIC) - begin;

		if (*out_late || gone < timeout || gone < timeout * slowness())
			continue;
		*out_late = true;
		kill(pid, SIGKILL);
	}
	it = (struct itimerval){ 0 };
	setitimer(ITIMER_REAL, &it, NULL);
	return st;
}

static int run_one(const struct rlx_test *t, unsigned int timeout)
{
	bool late;
	int st;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		printf("# fork: %s\n", strerror(errno));
		return EXIT_TEST_FAIL;
	}
	if (!pid) {
		signal(SIGALRM, SIG_DFL);
		t->fn();
		fflush(NULL);
		exit(0);	/* not _exit: leak checkers report at exit */
	}
	st = wait_for(pid, timeout, &late);
	if (WIFSIGNALED(st)) {
		printf("# %s\n", late ? "timed out" : strsignal(WTERMSIG(st)));
		return EXIT_TEST_FAIL;
	}
	return WEXITSTATUS(st);
}

bool rlx_test_wanted(const char *name, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc < 2;
}

/* How many ran, failed, were skipped. */
struct counts {
	unsigned int n, bad, skipped;
};

static struct counts run_all(int argc, char **argv)
{
	const char *limit = getenv("RLX_TEST_TIMEOUT");
	unsigned int timeout = limit ? (unsigned int)atoi(limit) : 120;
	struct counts c = { 0 };
	const struct rlx_test *t;

	/* Without SA_RESTART, so that it ends the wait. */
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_alarm }, NULL);
	setenv("RLX_DEBUG", "plan", 0);		/* no two live values share bytes */
	for (t = first; t; t = t->next) {
		int rc;

		if (!rlx_test_wanted(t->name, argc, argv))
			continue;
		rc = run_one(t, timeout);
		c.n++;
		if (rc == EXIT_TEST_SKIP) {
			printf("ok %u %s # SKIP\n", c.n, t->name);
			c.skipped++;
			continue;
		}
		printf("%sok %u %s\n", rc ? "not " : "", c.n, t->name);
		c.bad += !!rc;
	}
	return c;
}

int rlx_test_main(int argc, char **argv)
{
	struct counts c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	c = run_all(argc, argv);
	printf("1..%u\n", c.n);
	return c.bad || !c.n;
}

int rlx_test_ktap(int argc, char **argv)
{
	const struct rlx_test *t;
	unsigned int n = 0;
	struct counts c;

	for (t = first; t; t = t->next)
		n += rlx_test_wanted(t->name, argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("KTAP version 1\n1..%u\n", n);
	c = run_all(argc, argv);
	return c.bad || !c.n ? 1 : c.skipped == c.n ? 4 : 0;
}
