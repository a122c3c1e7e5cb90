// SPDX-License-Identifier: MIT
/* RLX_TRACE: a file that is JSON after every run, and what happens where it cannot be. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "rlx/log.h"
#include "rt/session.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

static char path[] = "/tmp/rlx-trace-XXXXXX";

static void trace_into_file(void)
{
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	close(fd);
	setenv("RLX_TRACE", path, 1);
}

static struct rlx_session *session(void)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	struct rlx_session *s = rig_session(small_net(SMALL_NET_ALL, 1), &o);

	CHECK_EQ(small_net_fill(s, 1), 0);
	return s;
}

/* What is in the file: events of each kind, and that steps lie within their runs. */
struct seen {
	unsigned int	compiles, runs, steps;
};

static struct seen read_back(void)
{
	struct seen n = { 0 };
	struct rlx_json_iter it;
	struct rlx_error err;
	double ts, dur, end = 0, at = 0;
	struct rlx_json j;
	struct stat st;
	char *text;
	FILE *f = fopen(path, "r");

	CHECK(f && !fstat(fileno(f), &st));
	text = malloc((size_t)st.st_size + 1);
	CHECK(text && fread(text, 1, (size_t)st.st_size, f) == (size_t)st.st_size);
	fclose(f);
	CHECKF(!rlx_json_parse(&j, text, (size_t)st.st_size, NULL, path, &err), "%s", err.text);
	for (it = rlx_json_iter(&j, 0); rlx_json_next(&it);) {
		const char *name = rlx_json_text(&j, rlx_json_get(&j, it.val, "name"));

		CHECK(rlx_json_str_is(&j, rlx_json_get(&j, it.val, "ph"), "X"));
		CHECK(rlx_json_double(&j, rlx_json_get(&j, it.val, "ts"), &ts));
		CHECK(rlx_json_double(&j, rlx_json_get(&j, it.val, "dur"), &dur));
		CHECK(dur >= 0);
		if (rlx_json_str_is(&j, rlx_json_get(&j, it.val, "cat"), "step")) {
			n.steps++;
			CHECKF(ts >= at - 0.01 && ts + dur <= end + 0.01,
			       "%s: %f for %f, run until %f", name, ts, dur, end);
			at = ts + dur;
			continue;
		}
		CHECK(rlx_json_str_is(&j, rlx_json_get(&j, it.val, "cat"), "cpu"));
		if (!strncmp(name, "compile ", 8)) {
			n.compiles++;
			continue;
		}
		n.runs++;
		at = ts;
		end = ts + dur;
	}
	rlx_json_fini(&j);
	free(text);
	return n;
}

TEST(every_run_is_there)
{
	struct rlx_session *s;
	unsigned int i, steps;
	struct seen n;

	trace_into_file();
	s = session();
	steps = s->p->plan->n_step;
	CHECK(steps > 10);
	for (i = 0; i < 3; i++) {
		CHECK_EQ(rlx_session_run(s), 0);
		n = read_back();
		CHECK_EQ(n.compiles, 1);
		CHECK_EQ(n.runs, i + 1);
		CHECK_EQ(n.steps, steps * (i + 1));
	}
	CHECK_EQ(rlx_session_want(s, (const char *[]){ "ew" }, 1), 0);
	CHECK_EQ(rlx_session_run(s), 0);
	CHECK(read_back().steps < 4 * steps);	/* what was not asked for did not run */
	rlx_session_free(s);
	unlink(path);
}

/* A child has its parent's file open, and must not write into it. */
TEST(children_do_not_write)
{
	struct rlx_session *s;
	pid_t pid;
	int st;

	trace_into_file();
	s = session();
	CHECK_EQ(rlx_session_run(s), 0);
	pid = fork();
	if (!pid)
		_exit(rlx_session_run(s) != RLX_OK);
	CHECK(waitpid(pid, &st, 0) == pid && !st);
	CHECK_EQ(rlx_session_run(s), 0);
	CHECK_EQ(read_back().runs, 2);
	rlx_session_free(s);
	unlink(path);
}

static unsigned int warnings;

static void count(void *ctx, enum rlx_log_level level, const char *line)
{
	warnings += strstr(line, ctx) && level == RLX_LOG_WARN;
}

/* Runs go on, and somebody is told once. */
static void without(const char *where, unsigned int told)
{
	struct rlx_session *s;

	setenv("RLX_TRACE", where, 1);
	rlx_log_set(count, "RLX_TRACE");
	s = session();
	CHECK_EQ(rlx_session_run(s), 0);
	CHECK_EQ(rlx_session_run(s), 0);
	CHECK_EQ(warnings, told);
	rlx_session_free(s);
}

/* Its reader may never come, and one that is there would get half of the first run. */
static void without_fifo(bool reader)
{
	trace_into_file();
	CHECK(!unlink(path) && !mkfifo(path, 0600));
	CHECK(!reader || open(path, O_RDONLY | O_NONBLOCK) >= 0);
	alarm(30);
	without(path, 1);
	unlink(path);
}

TEST(fifo) { without_fifo(false); }
TEST(fifo_with_reader) { without_fifo(true); }

TEST(no_such_folder) { without("/nonesuch/file", 1); }
TEST(no_room) { without("/dev/full", 0); }
TEST(nothing_named) { without("", 0); }

TEST_MAIN()
