// SPDX-License-Identifier: MIT
/* Children that say when they have come to a point. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/child.h"

static int mouth = -1;

void k_child_say(char c)
{
	CHECK_EQ(write(mouth, &c, 1), 1);
}

char k_child_said(struct k_child *c, int ms)
{
	struct pollfd p = { .fd = c->said, .events = POLLIN };
	char said = 0;

	if (poll(&p, 1, ms) == 1 && read(c->said, &said, 1) == 1)
		return said;
	return 0;
}

struct start {
	void (*fn)(void *arg);
	void *arg;
	int pipe[2];
};

static int run(void *arg)
{
	struct start s = *(struct start *)arg;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(s.pipe[0]);
	mouth = s.pipe[1];
	s.fn(s.arg);
	while (pause())
		;
	return 0;
}

static struct k_child started(struct start *s, pid_t pid)
{
	struct k_child c = { .pid = pid, .said = s->pipe[0] };

	CHECK(pid >= 0);
	close(s->pipe[1]);
	return c;
}

struct k_child k_child_new(void (*fn)(void *arg), void *arg)
{
	struct start s = { .fn = fn, .arg = arg };
	pid_t pid;

	CHECK_EQ(pipe2(s.pipe, O_CLOEXEC), 0);
	pid = fork();
	if (!pid)
		run(&s);
	return started(&s, pid);
}

struct k_child k_child_inside(void (*fn)(void *arg), void *arg)
{
	static _Alignas(16) char stack[256 << 10];
	static struct start s;	/* for as long as it may look */

	s = (struct start){ .fn = fn, .arg = arg };
	CHECK_EQ(pipe2(s.pipe, O_CLOEXEC), 0);
	return started(&s, clone(run, stack + sizeof(stack), CLONE_VM | SIGCHLD, &s));
}

uint64_t k_child_kill(struct k_child *c)
{
	uint64_t t0 = k_now(), took;
	int status;

	CHECK_EQ(kill(c->pid, SIGKILL), 0);
	CHECK_EQ(waitpid(c->pid, &status, 0), c->pid);
	took = k_now() - t0;
	/* Who had ended before was not killed: a check of its own failed. */
	CHECKF(WIFSIGNALED(status), "the child ended by itself: %#x", status);
	close(c->said);
	return took;
}
