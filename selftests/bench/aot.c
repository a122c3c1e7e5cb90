// SPDX-License-Identifier: MIT
/*
 * Starts from a plan file that is in the page cache: rlx_program_load() and rlx_session_new() in a
 * process of their own, its first and its third, of many processes. By the wall's clock, and by
 * what the thread spent on a CPU, which is the same beside other work.
 *
 *	build/test/bench/aot [STARTS [PLAN]]
 *
 * PLAN: of rlx compile; else BERT-base of random weights, 1 x 128, is compiled.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "rlx/aot.h"
#include "rlx/bert.h"
#include "rlx/run.h"
#include "selftests/bench/cpu_time.h"
#include "selftests/lib/tiny_bert.h"

enum { EACH = 3, MOST = 1000 };

struct start {
	double	wall, cpu;	/* seconds */
};

static void must(enum rlx_status st, const struct rlx_error *err)
{
	CHECKF(!st, "%s", err->text);
}

static void make_plan(char *path)
{
	static const struct tb_size base = { 768, 12, 12, 3072, 30522, 512, 2 };
	struct rlx_bert_opts o = { .size = sizeof(o), .batch = 1, .seq = 128,
				   .pool = RLX_BERT_MEAN };
	struct rlx_compile_opts c = { .size = sizeof(c), .device = "cpu", .threads = 1 };
	char dir[] = "/tmp/rlx-aot-model.XXXXXX";
	struct rlx_error err = { 0 };
	uint64_t seed = 1;
	struct rlx_program *p;
	struct rlx_graph *g;
	struct tiny_bert b;
	struct rlx_bert *m;
	int fd = mkstemp(path);

	CHECK(fd >= 0 && mkdtemp(dir));
	close(fd);
	tb_init_size(&b, &base, &seed);
	tb_write(&b, dir);
	tb_fini(&b);
	must(rlx_bert_open(dir, &m, &err), &err);
	tb_remove(dir);
	must(rlx_bert_graph(m, &o, &g, &err), &err);
	must(rlx_compile(g, &c, &p, &err), &err);
	must(rlx_program_save(p, path, &err), &err);
	rlx_program_put(p);
	rlx_graph_put(g);
	rlx_bert_put(m);
}

/* In a process that has done nothing yet */
static int starts(const char *path)
{
	struct rlx_load_opts o = { .size = sizeof(o), .threads = 1 };
	struct rlx_error err = { 0 };

	for (int i = 0; i < EACH; i++) {
		struct start t = { 1e-9 * (double)rlx_now(), cpu_time() };
		struct rlx_program *p;
		struct rlx_session *s;

		must(rlx_program_load(path, &o, &p, &err), &err);
		must(rlx_session_new(p, NULL, &s, &err), &err);
		t.wall = 1e-9 * (double)rlx_now() - t.wall;
		t.cpu = cpu_time() - t.cpu;
		CHECK(write(STDOUT_FILENO, &t, sizeof(t)) == sizeof(t));
		rlx_session_free(s);
		rlx_program_put(p);
	}
	return 0;
}

static void start(const char *program, const char *path, struct start t[EACH])
{
	int fd[2], status;
	pid_t pid;

	CHECK(!pipe(fd));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		dup2(fd[1], STDOUT_FILENO);
		execl(program, program, "--start", path, (char *)NULL);
		_exit(127);
	}
	close(fd[1]);
	for (int i = 0; i < EACH; i++)
		CHECK(read(fd[0], &t[i], sizeof(t[i])) == sizeof(t[i]));
	close(fd[0]);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void row(const char *what, struct start (*t)[EACH], int n, int which, bool cpu)
{
	double ms[MOST];

	for (int i = 0; i < n; i++)
		ms[i] = 1e3 * (cpu ? t[i][which].cpu : t[i][which].wall);
	qsort(ms, (size_t)n, sizeof(*ms), by_value);
	printf("%-6s %-5s %8.2f %8.2f %8.2f\n", what, cpu ? "CPU" : "wall", ms[0], ms[n / 2],
	       ms[n * 9 / 10]);
}

int main(int argc, char **argv)
{
	char made[] = "/tmp/rlx-aot-plan.XXXXXX";
	const int n = argc > 1 ? atoi(argv[1]) : 50;
	static struct start t[MOST][EACH];

	if (argc == 3 && !strcmp(argv[1], "--start"))
		return starts(argv[2]);
	CHECK(n > 0 && n <= MOST);
	if (argc < 3)
		make_plan(made);
	for (int i = 0; i < n; i++)
		start(argv[0], argc < 3 ? made : argv[2], t[i]);
	printf("start  clock     best   median     90 %%   ms, of %d processes\n", n);
	for (int which = 0; which < EACH; which += 2)
		for (int cpu = 0; cpu < 2; cpu++)
			row(which ? "third" : "first", t, n, which, cpu);
	if (argc < 3)
		unlink(made);
	return 0;
}
