// SPDX-License-Identifier: MIT
/* rlx train on several ranks: starting them on this host, and being one of them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "tools/rlx/tool.h"
#include "tools/rlx/train_job.h"
#include "train/comm.h"

/* After one rank failed the others have so long to say so and end by themselves. */
enum { GRACE_S = 5 };

/* ---- starting them ---- */

struct group {
	pid_t		pid[COMM_MOST];	/* 0: it has ended */
	unsigned int	ranks, left;
	int		rc;		/* what the first one that failed ended with */
	uint64_t	kill_at;	/* 0: none has failed */
};

static bool set_number(const char *name, unsigned int v)
{
	char s[16];

	snprintf(s, sizeof(s), "%u", v);
	return !setenv(name, s, 1);
}

/* In the child: rank @r, which ends with its parent. */
static void become(unsigned int r, unsigned int ranks, int fd, pid_t parent, char **argv)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(TOOL_FAILED);
	if (set_number("RANK", r) && set_number("LOCAL_RANK", r) &&
	    set_number("WORLD_SIZE", ranks) && set_number("LOCAL_WORLD_SIZE", ranks) &&
	    set_number("RLX_COMM_FD", (unsigned int)fd))
		execv("/proc/self/exe", argv);
	fprintf(stderr, "rlx train: rank %u could not be started: %s\n", r, strerror(errno));
	_exit(TOOL_FAILED);
}

static void kill_all(struct group *g, int sig)
{
	unsigned int r;

	for (r = 0; r < g->ranks; r++)
		if (g->pid[r])
			kill(g->pid[r], sig);
}

/* One has ended: by @status. */
static void note_end(struct group *g, unsigned int r, int status)
{
	g->pid[r] = 0;
	g->left--;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return;
	if (g->kill_at)		/* it ends because another did */
		return;
	g->kill_at = rlx_now() + GRACE_S * UINT64_C(1000000000);
	if (WIFSIGNALED(status))
		g->rc = tool_fail("train", TOOL_FAILED, "rank %u was ended by signal %d (%s)", r,
				  WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		g->rc = tool_fail("train", WEXITSTATUS(status), "rank %u ended with status %d", r,
				  WEXITSTATUS(status));
}

/* Those that a signal ended come first: the others only tell of it. */
static void reap(struct group *g)
{
	bool by_signal = true;
	siginfo_t info;
	unsigned int r;
	int status;

	do {
		for (r = 0; r < g->ranks; r++) {
			info.si_pid = 0;
			if (!g->pid[r] || waitid(P_PID, (id_t)g->pid[r], &info,
						 WEXITED | WNOHANG | WNOWAIT) || !info.si_pid ||
			    (by_signal && info.si_code == CLD_EXITED))
				continue;
			if (waitpid(g->pid[r], &status, 0) == g->pid[r])
				note_end(g, r, status);
		}
		by_signal = !by_signal;
	} while (!by_signal);
}

static int wait_all(struct group *g, const sigset_t *set)
{
	const struct timespec nap = { .tv_nsec = 200000000 };
	bool killed = false;
	int sig;

	while (g->left) {
		sig = sigtimedwait(set, NULL, &nap);
		if (sig > 0 && sig != SIGCHLD)
			kill_all(g, sig);
		reap(g);
		if (g->kill_at && rlx_now() > g->kill_at && !killed) {
			kill_all(g, SIGKILL);
			killed = true;
		}
	}
	return g->rc;
}

int train_ranks_start(unsigned int ranks, const char *config)
{
	static const int sigs[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP };
	char number[16], *argv[] = { (char[]){ "rlx" }, (char[]){ "train" }, (char[]){ "--ranks" },
				     number, (char *)(uintptr_t)config, NULL };
	struct group g = { .ranks = ranks, .rc = TOOL_OK };
	struct rlx_error err = { 0 };
	struct rlx_arena *at;
	pid_t self = getpid();
	unsigned int i;
	sigset_t set;
	int fd;

	/* inherited as ignored it would have the kernel reap them */
	signal(SIGCHLD, SIG_DFL);
	if (ranks > COMM_MOST)
		return tool_fail("train", TOOL_USAGE, "%u ranks; there are %d at most", ranks,
				 COMM_MOST);
	if (rlx_comm_arena(ranks, &at, &err))
		return tool_fail("train", TOOL_FAILED, "%s", err.text);
	snprintf(number, sizeof(number), "%u", ranks);
	fd = fcntl(rlx_arena_fd(at), F_DUPFD, 3);	/* which they inherit */
	sigemptyset(&set);
	for (i = 0; i < N_ELEM(sigs); i++)
		sigaddset(&set, sigs[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fflush(NULL);
	for (i = 0; i < ranks && !g.kill_at && fd >= 0; i++) {
		g.pid[i] = fork();
		if (!g.pid[i])
			become(i, ranks, fd, self, argv);
		if (g.pid[i] > 0) {
			g.left++;
			continue;
		}
		g.rc = tool_fail("train", TOOL_FAILED, "rank %u could not be started: %s", i,
				 strerror(errno));
		g.pid[i] = 0;
		g.kill_at = 1;
	}
	if (fd < 0)
		g.rc = tool_fail("train", TOOL_FAILED, "no descriptor: %s", strerror(errno));
	else
		close(fd);
	wait_all(&g, &set);
	rlx_arena_put(at);
	return g.rc;
}

/* ---- being one ---- */

bool train_ranks_is_one(void)
{
	unsigned int rank, ranks;

	/* what is wrong there rlx_comm_new() tells; one that is alone may start others */
	return comm_launched(&rank, &ranks, NULL) || ranks > 1;
}

bool train_ranks_join(struct train_job *j)
{
	struct rlx_comm_opts o = { .size = sizeof(o),
				   .timeout_ns = (int64_t)j->c.timeout * 1000000000 };
	const char *dev = j->c.device ? j->c.device : getenv("RLX_DEVICE");
	char name[32];

	if (dev && !strncmp(dev, "cuda", 4))
		o.kind = RLX_COMM_NCCL;
	else if (dev && !strncmp(dev, "rocm", 4))
		o.kind = RLX_COMM_RCCL;
	if (rlx_comm_new(&o, &j->comm, &j->err))
		return false;
	j->rank = rlx_comm_rank(j->comm);
	j->ranks = rlx_comm_ranks(j->comm);
	if (j->c.ranks > 1 && j->c.ranks != j->ranks) {
		rlx_fail(&j->err, RLX_EINVAL, "%llu ranks are asked for, and the environment says "
			 "that there are %u", (unsigned long long)j->c.ranks, j->ranks);
		return false;
	}
	if (o.kind && (!strcmp(dev, "cuda") || !strcmp(dev, "rocm"))) {
		snprintf(name, sizeof(name), "%s:%u", dev, j->rank);
		if (!train_config_device(&j->c, name, &j->err))
			return false;
	}
	if (!j->c.threads && j->ranks > 1)
		j->c.threads = rlx_cpu_allowed() / j->ranks + (rlx_cpu_allowed() < j->ranks);
	/* what the others would print is the same */
	if (j->rank && !freopen("/dev/null", "w", stdout)) {
		rlx_fail(&j->err, RLX_EIO, "/dev/null: %s", strerror(errno));
		return false;
	}
	return true;
}

bool train_ranks_agree(struct train_job *j, const char *what, uint64_t value)
{
	return !j->comm || !rlx_comm_agree(j->comm, what, value) ||
	       train_job_failed(j, rlx_comm_error(j->comm));
}

bool train_ranks_wait(struct train_job *j)
{
	return !j->comm || !rlx_comm_barrier(j->comm) ||
	       train_job_failed(j, rlx_comm_error(j->comm));
}

bool train_ranks_tell(struct train_job *j, bool *what)
{
	return !j->comm || !rlx_comm_broadcast(j->comm, what, sizeof(*what)) ||
	       train_job_failed(j, rlx_comm_error(j->comm));
}
