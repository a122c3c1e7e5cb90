/* SPDX-License-Identifier: MIT */
/* Runs the rlx command of the same build and looks at what it says. */
#ifndef RLX_SELFTESTS_CLI_H
#define RLX_SELFTESTS_CLI_H

#include <dirent.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "selftests/lib/rlx_test.h"

struct said {
	int	status;
	char	out[1 << 18], err[1 << 14];	/* 0-ended */
	size_t	n_out, n_err;
};

/* A folder of the test's own, the working folder of what it runs. */
static char cli_dir[] = "/tmp/rlx-cli-XXXXXX";

static inline void cli_rm(void)
{
	DIR *d = opendir(cli_dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(cli_dir);
}

static inline void cli_begin(void)
{
	CHECK(mkdtemp(cli_dir));
	atexit(cli_rm);
	CHECK(!chdir(cli_dir));
}

/* The rlx beside this program: BUILD/test/cli/x -> BUILD/bin/rlx. */
static inline const char *cli_program(void)
{
	static char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	int up;

	CHECK(n > 0);
	path[n] = 0;
	for (up = 0; up < 3; up++) {
		CHECK(strrchr(path, '/'));
		*strrchr(path, '/') = 0;
	}
	return strcat(path, "/bin/rlx");
}

static inline size_t cli_read(const char *path, char *to, size_t size)
{
	FILE *f = fopen(path, "rb");
	size_t n;

	CHECKF(f, "%s: cannot be opened", path);
	n = fread(to, 1, size - 1, f);
	fclose(f);
	to[n] = 0;
	return n;
}

static inline void cli_write(const char *path, const char *text)
{
	FILE *f = fopen(path, "wb");

	CHECK(f);
	CHECK(fputs(text, f) >= 0);
	CHECK(!fclose(f));
}

/* Where standard output goes instead of being looked at; "": it is closed. */
static const char *cli_out;

static inline bool cli_redirect(void)
{
	bool ok = cli_out && !*cli_out ? !close(STDOUT_FILENO) :
		  freopen(cli_out ? cli_out : "out", "wb", stdout) != NULL;

	return ok && freopen("err", "wb", stderr);
}

/* Arguments up to NULL. */
static inline struct said *rlx_cmd(const char *first, ...)
{
	static struct said s;
	const char *argv[32] = { cli_program(), first };
	int n = 1, status;
	va_list ap;
	pid_t pid;

	va_start(ap, first);
	while (argv[n] && n < 31)
		argv[++n] = va_arg(ap, const char *);
	va_end(ap);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		if (!cli_redirect())
			_exit(126);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECKF(WIFEXITED(status), "rlx %s ended by signal %d", first, WTERMSIG(status));
	s.status = WEXITSTATUS(status);
	s.n_out = cli_out ? 0 : cli_read("out", s.out, sizeof(s.out));
	s.out[s.n_out] = 0;
	s.n_err = cli_read("err", s.err, sizeof(s.err));
	return &s;
}

#define RLX(...) rlx_cmd(__VA_ARGS__, NULL)

/* It ended so, and said @text in @part ("" for whatever). */
#define ENDS(s, code, part, text)						\
	do {									\
		const struct said *said_ = (s);	/* runs it, once */		\
										\
		CHECKF(said_->status == (code), "exit %d, not %d: %s", said_->status, \
		       (code), said_->err);					\
		CHECKF(strstr(said_->part, (text)), "\"%s\" is not in: %.400s", (text), \
		       said_->part);						\
	} while (0)

/* All that was printed is one JSON value; gives it for looking into. */
static inline struct rlx_json *cli_json(const struct said *s)
{
	static struct rlx_json j;
	struct rlx_error err = { 0 };

	rlx_json_fini(&j);
	CHECKF(!s->status, "exit %d: %s", s->status, s->err);
	CHECKF(!rlx_json_parse(&j, s->out, s->n_out, NULL, "output", &err), "%s", err.text);
	return &j;
}

#endif
