// SPDX-License-Identifier: MIT
/* Children that say when they have come to a point. */
#include <fcntl.h>
#include <poll.h>
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

struct k_child k_child_new(void (*fn)(void *arg), void *arg)
{
	struct k_child c;
	int p[2];

	CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
	c.pid = fork();
	CHECK(c.pid >= 0);
	if (!c.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(p[0]);
		mouth = p[1];
		fn(arg);
		for (;;)
			pause();
	}
	close(p[1]);
	c.said = p[0];
	return c;
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
