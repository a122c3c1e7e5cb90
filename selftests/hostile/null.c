// SPDX-License-Identifier: MIT
/* NULL as first argument of each public function that takes a pointer there: nothing ends. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rlx/status.h"
#include "selftests/lib/rlx_test.h"

enum { GIVEN_BYTES = 1 << 16, SECONDS = 20 };

static FILE *nowhere;

/* Zeroes that may be written, behind which nothing is mapped: a fresh piece each time. */
static void *given(void)
{
	char *p = mmap(NULL, 2 * GIVEN_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED && !mprotect(p, GIVEN_BYTES, PROT_READ | PROT_WRITE));
	return p;
}

static bool told(const struct rlx_error *e)
{
	return e && e->status && e->text[0];
}

#define NULL_CALL(name, bare, full)					\
	static bool null_##name(bool all)				\
	{								\
		if (all)						\
			(void)full;					\
		else							\
			(void)bare;					\
		return true;						\
	}
#define NULL_ERROR(name, bare, full)					\
	static bool null_##name(bool all)				\
	{								\
		return told(all ? full : bare);				\
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-zero-length"
#pragma GCC diagnostic ignored "-Wunused-result"
#include "selftests/null_calls.h"
#pragma GCC diagnostic pop

#undef NULL_CALL
#undef NULL_ERROR
#define NULL_CALL(name, bare, full)	{ #name, null_##name },
#define NULL_ERROR	NULL_CALL
static const struct {
	const char	*name;
	bool		(*call)(bool all);
} calls[] = {
#include "selftests/null_calls.h"
};

/* How the call ends in a child: 0 is well, else a line says it. */
static int ends(unsigned int i, bool all)
{
	int st = -1, fd;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		fd = open("/dev/null", O_RDWR);
		dup2(fd, 1);
		dup2(fd, 2);
		nowhere = fdopen(fd, "w");
		alarm(SECONDS);
		_exit(!calls[i].call(all));
	}
	CHECK(pid > 0 && waitpid(pid, &st, 0) == pid);
	if (st)
		printf("# %s(NULL%s): %s %d\n", calls[i].name, all ? ", ..." : "",
		       WIFSIGNALED(st) ? "signal" : "told nothing, exit",
		       WIFSIGNALED(st) ? WTERMSIG(st) : WEXITSTATUS(st));
	return st;
}

static void each(bool all)
{
	unsigned int i, bad = 0;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		bad += ends(i, all) != 0;
	CHECK(i >= 300);	/* there is a list */
	CHECKF(!bad, "%u of %u functions end the process or say nothing", bad, i);
}

TEST(nothing_else)
{
	each(false);
}

TEST(others_given)
{
	each(true);
}

TEST_MAIN()
