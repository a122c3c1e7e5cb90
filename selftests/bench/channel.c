// SPDX-License-Identifier: MIT
/*
 * Round trips between two processes of one machine, in turns so that all suffer
 * the same neighbours: a request that does nothing through a channel, spinning
 * and sleeping, against what else there is: a word in shared memory, an eventfd,
 * a unix socket. Channels of the module too, where it is. For each the distribution
 * of the best of its rounds.
 *
 *	bench/channel [ROUNDS [TRIPS]]
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "rlx/serve.h"

enum { DEPTH = 64, BATCH = 64, SPIN = 1000000000, ROUND_NS = 2000000000 };

/* A test that runs this as one writes its lines as comments. */
static const char *margin = "";

struct way {
	const char	*name;
	/*
	 * Make what both processes share; then each side, for @n trips, or as many
	 * as there is time for: how many.
	 */
	void		 (*setup)(struct way *w);
	int		 (*client)(struct way *w, uint32_t *ns, int n);
	void		 (*server)(struct way *w);
	uint64_t	 spin_ns;
	int		 batch;
	const char	*transport;
	/* of the run under way */
	int		 fd[4];
	_Atomic uint64_t *word;
	struct rlx_service *svc;
	char		 address[64];
	/* best round */
	double		 p50, p99, p999;
};

static uint64_t stop_at;		/* of the round under way */

static bool in_time(int done)
{
	return done < 20 || rlx_now() < stop_at;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned int)cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);	/* one CPU: as it may be */
}

/* ---- a word in shared memory ------------------------------------------- */

static void word_setup(struct way *w)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	w->word = p;
}

static int word_client(struct way *w, uint32_t *ns, int n)
{
	int i;

	for (i = 0; i < n && in_time(i); i++) {
		uint64_t t = rlx_now(), v = (uint64_t)i * 2 + 1;

		atomic_store_explicit(&w->word[0], v, memory_order_release);
		while (atomic_load_explicit(&w->word[16], memory_order_acquire) != v)
			rlx_cpu_relax();
		ns[i] = (uint32_t)(rlx_now() - t);
	}
	munmap(w->word, 4096);
	return i;
}

static void word_server(struct way *w)
{
	uint64_t seen = 0, v;

	for (;;) {
		while ((v = atomic_load_explicit(&w->word[0],
						 memory_order_acquire)) == seen)
			rlx_cpu_relax();
		seen = v;
		atomic_store_explicit(&w->word[16], v, memory_order_release);
	}
}

/* ---- descriptors -------------------------------------------------------- */

static void event_setup(struct way *w)
{
	w->fd[0] = w->fd[2] = eventfd(0, EFD_CLOEXEC);
	w->fd[1] = w->fd[3] = eventfd(0, EFD_CLOEXEC);
	if (w->fd[0] < 0 || w->fd[1] < 0)
		die("eventfd");
}

/* fd[0], fd[1]: the client writes and reads; fd[2], fd[3]: the server does. */
static void socket_setup(struct way *w)
{
	int s[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s))
		die("socketpair");
	w->fd[0] = w->fd[1] = s[0];
	w->fd[2] = w->fd[3] = s[1];
}

static int fd_client(struct way *w, uint32_t *ns, int n)
{
	uint64_t v = 1;
	int i;

	for (i = 0; i < n && in_time(i); i++) {
		uint64_t t = rlx_now();

		v = 1;
		if (write(w->fd[0], &v, 8) != 8 || read(w->fd[1], &v, 8) != 8)
			die("round trip");
		ns[i] = (uint32_t)(rlx_now() - t);
	}
	close(w->fd[0]);
	close(w->fd[1]);
	close(w->fd[2]);
	close(w->fd[3]);
	return i;
}

static void event_server(struct way *w)
{
	uint64_t v;

	while (read(w->fd[0], &v, 8) == 8 && write(w->fd[1], &v, 8) == 8)
		;
}

static void socket_server(struct way *w)
{
	uint64_t v;

	while (read(w->fd[2], &v, 8) == 8 && write(w->fd[3], &v, 8) == 8)
		;
}

/* ---- channels ----------------------------------------------------------- */

static void channel_setup(struct way *w)
{
	static int count;

	snprintf(w->address, sizeof(w->address), "@rlx-bench-%d-%d",
		 (int)getpid(), count++);
}

static int channel_client(struct way *w, uint32_t *ns, int n)
{
	struct rlx_channel_opts o = { .size = sizeof(o), .address = w->address,
				      .depth = DEPTH, .spin_ns = w->spin_ns,
				      .transport = w->transport };
	struct rlx_request r[BATCH] = { { 0 } };
	struct rlx_reply reply[BATCH];
	struct rlx_error err = { 0 };
	struct rlx_channel *ch;
	int i, k;

	for (i = 0; rlx_channel_open(&o, &ch, NULL) && i < 5000; i++)
		usleep(1000);
	if (i == 5000 && rlx_channel_open(&o, &ch, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	for (i = 0; i < n && in_time(i); i++) {
		uint64_t t = rlx_now();

		if (rlx_channel_submit(ch, r, (unsigned int)w->batch, NULL) !=
		    w->batch)
			die("submit");
		for (k = 0; k < w->batch;) {
			int got = rlx_channel_wait(ch, reply, 1, BATCH,
						   RLX_NO_DEADLINE);

			if (got <= 0)
				die("wait");
			k += got;
		}
		ns[i] = (uint32_t)((rlx_now() - t) / (uint64_t)w->batch);
	}
	rlx_channel_close(ch);
	return i;
}

static void channel_server(struct way *w)
{
	struct rlx_service_opts o = { .size = sizeof(o), .address = w->address,
				      .quantum = BATCH, .spin_ns = w->spin_ns,
				      .transport = w->transport };
	struct rlx_error err = { 0 };
	struct rlx_work *work[BATCH];
	int n;

	if (rlx_service_new(&o, &w->svc, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	while ((n = rlx_service_fetch(w->svc, 0, work, 1, BATCH,
				      RLX_NO_DEADLINE)) > 0)
		if (rlx_service_commit(w->svc, work, (unsigned int)n))
			break;
}

static struct way ways[] = {
	{ "word in shared memory, spinning", word_setup, word_client,
	  word_server },
	{ "channel, spinning", channel_setup, channel_client, channel_server,
	  SPIN, 1, "shm" },
	{ "channel, spinning, 64 at once (each)", channel_setup, channel_client,
	  channel_server, SPIN, BATCH, "shm" },
	{ "channel, adaptive", channel_setup, channel_client, channel_server,
	  RLX_SPIN_AUTO, 1, "shm" },
	{ "channel, sleeping", channel_setup, channel_client, channel_server,
	  RLX_SPIN_NEVER, 1, "shm" },
	{ "channel of the module, spinning", channel_setup, channel_client,
	  channel_server, SPIN, 1, "kmod" },
	{ "channel of the module, 64 at once", channel_setup, channel_client,
	  channel_server, SPIN, BATCH, "kmod" },
	{ "channel of the module, sleeping", channel_setup, channel_client,
	  channel_server, RLX_SPIN_NEVER, 1, "kmod" },
	{ "eventfd", event_setup, fd_client, event_server },
	{ "unix socket", socket_setup, fd_client, socket_server },
};

static bool possible(const struct way *w)
{
	return !w->transport || strcmp(w->transport, "kmod") ||
	       !access("/dev/rlx", R_OK | W_OK);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void run(struct way *w, uint32_t *ns, int n)
{
	double p50, p99, p999;
	pid_t pid;

	w->setup(w);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(1);
		w->server(w);
		_exit(0);
	}
	pin(0);
	stop_at = rlx_now() + ROUND_NS;
	n = w->client(w, ns, n);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	qsort(ns, (size_t)n, sizeof(*ns), by_value);
	p50 = ns[n / 2];
	p99 = ns[n - 1 - n / 100];
	p999 = ns[n - 1 - n / 1000];
	w->p50 = !w->p50 || p50 < w->p50 ? p50 : w->p50;
	w->p99 = !w->p99 || p99 < w->p99 ? p99 : w->p99;
	w->p999 = !w->p999 || p999 < w->p999 ? p999 : w->p999;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 7;
	int n = argc > 2 ? atoi(argv[2]) : 20000, i;
	uint32_t *ns = n > 0 ? malloc((size_t)n * sizeof(*ns)) : NULL;
	unsigned int k;

	if (!ns || rounds < 1) {
		fprintf(stderr, "usage: channel [ROUNDS [TRIPS]]\n");
		return 2;
	}
	for (i = 0; i < rounds; i++)
		for (k = 0; k < sizeof(ways) / sizeof(ways[0]); k++)
			if (possible(&ways[k]))
				run(&ways[k], ns, n);
	printf("%s%-38s %10s %10s %10s   (ns, best of %d rounds of up to %d)\n",
	       margin, "round trip", "p50", "p99", "p99.9", rounds, n);
	for (k = 0; k < sizeof(ways) / sizeof(ways[0]); k++)
		if (possible(&ways[k]))
			printf("%s%-38s %10.0f %10.0f %10.0f\n", margin,
			       ways[k].name, ways[k].p50, ways[k].p99,
			       ways[k].p999);
	free(ns);
	return 0;
}
