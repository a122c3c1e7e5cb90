/* SPDX-License-Identifier: MIT */
/* Processes that a test starts as ranks. */
#ifndef RLX_SELFTESTS_RANKS_H
#define RLX_SELFTESTS_RANKS_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"

static pid_t pids[8];

/* True in the process that is rank @r, which ends by ranks_exit(). */
static inline bool ranks_fork(unsigned int r)
{
	fflush(NULL);
	pids[r] = fork();
	CHECK(pids[r] >= 0);
	return !pids[r];
}

static inline _Noreturn void ranks_exit(void)
{
	fflush(NULL);
	_exit(0);
}

/* All @n end well, but for @killed. */
static inline void ranks_end(unsigned int n, int killed)
{
	unsigned int r;
	int status;

	for (r = 0; r < n; r++) {
		CHECK(waitpid(pids[r], &status, 0) == pids[r]);
		CHECKF((int)r == killed || (WIFEXITED(status) && !WEXITSTATUS(status)),
		       "rank %u: status %#x", r, status);
	}
}

#endif
