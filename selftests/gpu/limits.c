// SPDX-License-Identifier: MIT
/*
 * What goes wrong on a device, real or emulated, without anybody being asked to make
 * it fail: too much memory, launches over the limits, a kernel that faults, and
 * processes that compile the same kernels into the same folder.
 */
#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/gpu/kernel_run.h"
#include "selftests/lib/small_net.h"

/* What a small program gives; the message of what went wrong in @err. */
static enum rlx_status run_small(const char *device, float *out, struct rlx_error *err)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_graph *g = small_net(SMALL_NET_NORM | SMALL_NET_MOVE, 1);
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	enum rlx_status st;

	*err = (struct rlx_error){ 0 };
	st = rlx_compile(g, &o, &p, err);
	if (!st)
		st = rlx_session_new(p, NULL, &s, err);
	if (!st)
		st = small_net_fill(s, 3);
	if (!st && (st = rlx_session_run(s)))
		*err = *rlx_session_error(s);
	if (!st)
		*out = *(float *)rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "norm"));
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	return st;
}

/* It still works, and gives what it gave. */
static void works(float want)
{
	struct rlx_error err;
	float got = want + 1;

	CHECKF(!run_small("cuda", &got, &err), "%s", err.text);
	CHECKF(got == want, "%g, not %g", (double)got, (double)want);
}

static float first_result(void)
{
	struct rlx_error err;
	float y = 0;

	CHECKF(!run_small("cuda", &y, &err), "%s", err.text);
	return y;
}

TEST(more_memory_than_there_is)
{
	float y = first_result();
	struct rlx_error err = { 0 };
	struct gpu_weight *w = NULL;
	uint64_t at = 1;

	gpu_start();
	CHECK_EQ(gpu_mem_new(gpu, (uint64_t)1 << 46, &at, &err), RLX_ENOMEM);
	CHECK_EQ(at, 0);
	CHECKF(strstr(err.text, "out of device memory"), "%s", err.text);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(gpu_weight_get(gpu, &y, (uint64_t)1 << 46, NULL, &w, &err), RLX_OK);
	CHECK_EQ(gpu_weights_load(gpu, &w, 1, &err), RLX_ENOMEM);
	gpu_weight_put(gpu, w);
	CHECKF(strstr(err.text, "out of device memory"), "%s", err.text);
	works(y);
}

/* What a blob keeps stays as it is; else the address may be another's by now. */
TEST(weights_that_nobody_keeps)
{
	int host[4] = { 1, 2, 3, 4 }, got[4];
	struct rlx_blob *b = rlx_blob_new(host, sizeof(host), NULL, NULL);
	struct gpu_weight *w[3];
	struct rlx_error err;
	int i;

	gpu_start();
	for (i = 0; i < 3; i++) {
		host[0] = 10 + i;
		CHECKF(!gpu_weight_get(gpu, host, sizeof(host), i ? b : NULL, &w[i], &err), "%s",
		       err.text);
		CHECK(w[i] == w[0]);
		CHECKF(!gpu_weights_load(gpu, &w[i], 1, &err), "%s", err.text);
		dev_read(got, (void *)(uintptr_t)gpu_weight_at(w[i]), sizeof(got));
		CHECK_EQ(got[0], i ? 11 : 10);
	}
	for (i = 0; i < 3; i++)
		gpu_weight_put(gpu, w[i]);
	rlx_blob_put(b);
}

#define KERNEL								\
	"#include \"kernels/gpu/dialect.h\"\n"				\
	"struct place { int *p; };\n"					\
	"RLX_G_KERNEL(place, struct place, 128)\n{\n*a.p = 1;\n}\n"

/* A kernel that writes to @p, launched as @l says. */
static enum rlx_status write_at(void *p, struct rlx_g_launch l, struct rlx_error *err)
{
	struct rlx_g_env env = { 0 };
	void *fn = gpu_own_function(KERNEL, "place", 0);
	int rc = gpu_launch(fn, &l, &p, &env);

	*err = (struct rlx_error){ 0 };
	return gpu_check(gpu, rc ? rc : gpu->api->stream_wait(NULL), "writing", err);
}

/* The launch fails with a message, and the device goes on. */
TEST(launches_over_the_limits)
{
	static const struct rlx_g_launch wrong[] = {
		{ .grid = { 1, 1, 1 }, .block = { 1025, 1, 1 } },
		{ .grid = { 1, 1, 1 }, .block = { 256, 1, 1 } },	/* over its bounds */
		{ .grid = { 1, 1, 1 }, .block = { 1, 1, 65 } },
		{ .grid = { 1, 1, 1 }, .block = { 0, 1, 1 } },
		{ .grid = { 1, 65536, 1 }, .block = { 1, 1, 1 } },
		{ .grid = { 1, 1, 65536 }, .block = { 1, 1, 1 } },
		{ .grid = { 1u << 31, 1, 1 }, .block = { 1, 1, 1 } },
		{ .grid = { 1, 1, 1 }, .block = { 1, 1, 1 }, .shared = (48 << 10) + 4 },
	};
	struct rlx_g_launch right = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
	float y = first_result();
	struct rlx_error err;
	int got = 0, *p;
	size_t i;

	gpu_start();
	p = dev_of(&got, sizeof(got));
	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		CHECKF(write_at(p, wrong[i], &err) == RLX_EIO, "launch %zu: %s", i, err.text);
		CHECKF(strstr(err.text, "writing"), "%s", err.text);
	}
	CHECK_EQ(write_at(p, right, &err), RLX_OK);
	dev_read(&got, p, sizeof(got));
	CHECK_EQ(got, 1);
	works(y);
}

/* Each block has its own part of the work, and there is no block for all of it. */
TEST(more_parts_than_blocks)
{
	struct rlx_k_kv_cache a = { .batch = (int64_t)1 << 27, .heads = 8, .kv_heads = 8, .rows = 1,
				  .dim = 16, .type = RLX_BF16 };
	struct rlx_g_launch l = { 0 }, larger = { 0 };

	rlx_g_kv_cache_launch(&a, &l);
	CHECK(l.can && l.grid[0] == 1 << 30);
	a.batch++;
	rlx_g_kv_cache_launch(&a, &larger);
	CHECK(!larger.can);
}

TEST(more_shared_memory_than_a_block_has)
{
	const struct gpu_kernel k = { "place", KERNEL, "", NULL, (uint32_t)-1 >> 1 };
	struct rlx_error err = { 0 };
	void *fn;

	gpu_start();
	CHECK_EQ(gpu_function_get(gpu, &k, &fn, &err), RLX_EIO);
	CHECKF(strstr(err.text, "shared memory"), "%s", err.text);
	works(first_result());
}

/* A process that begins now, and looks at the device when something is written to it. */
static pid_t start_heir(int *to)
{
	int p[2];
	pid_t pid;
	float y;

	CHECK(!pipe(p));
	pid = fork();
	CHECK(pid >= 0);
	if (pid) {
		close(p[0]);
		*to = p[1];
		return pid;
	}
	close(p[1]);
	CHECK(read(p[0], &y, sizeof(y)) == sizeof(y));
	works(y);
	_exit(0);
}

/*
 * A kernel writes where nothing is. All that this process asks of the device fails with
 * a status from then on (the driver does not come back); the CPU and others go on.
 */
TEST(a_kernel_that_faults)
{
	struct rlx_g_launch l = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
	struct rlx_error err;
	float y, z = 0;
	int to, st;
	pid_t heir = start_heir(&to);

	y = first_result();
	gpu_start();
	CHECK_EQ(write_at((void *)(uintptr_t)64, l, &err), RLX_ELOST);
	CHECKF(strstr(err.text, "the device failed"), "%s", err.text);
	CHECK_EQ(run_small("cuda", &z, &err), RLX_ELOST);
	CHECKF(strstr(err.text, "failed before"), "%s", err.text);
	CHECKF(!run_small("cpu", &z, &err), "%s", err.text);
	rlx_device_put(&gpu->base);
	CHECK_EQ(run_small("cuda", &z, &err), RLX_ELOST);
	CHECKF(strstr(err.text, "the device failed"), "%s", err.text);
	CHECK(write(to, &y, sizeof(y)) == sizeof(y));
	CHECK_EQ(waitpid(heir, &st, 0), heir);
	CHECK_EQ(st, 0);
}

/* ---- one folder for several processes ---- */

enum { PROCESSES = 6 };

/* Each compiles what it needs, or takes what another has just put there. */
static void all_at_once(float want)
{
	pid_t pid[PROCESSES];
	int i, st;

	for (i = 0; i < PROCESSES; i++) {
		pid[i] = fork();
		if (pid[i])
			continue;
		works(want);
		_exit(0);
	}
	for (i = 0; i < PROCESSES; i++) {
		CHECK_EQ(waitpid(pid[i], &st, 0), pid[i]);
		CHECK_EQ(st, 0);
	}
}

static size_t files(const char *dir, glob_t *g)
{
	char pattern[128];

	snprintf(pattern, sizeof(pattern), "%s/rlx/gpu/*", dir);
	return glob(pattern, 0, NULL, g) ? 0 : g->gl_pathc;
}

/* Halve every second file, and change a byte of the others. */
static void damage(const glob_t *g)
{
	size_t i;

	for (i = 0; i < g->gl_pathc; i++) {
		int fd = open(g->gl_pathv[i], O_RDWR);
		off_t half = lseek(fd, 0, SEEK_END) / 2;
		char c;

		CHECK(pread(fd, &c, 1, half) == 1);
		c ^= 1;
		CHECK(pwrite(fd, &c, 1, half) == 1);
		if (i % 2)
			CHECK(!ftruncate(fd, half));
		close(fd);
	}
}

TEST(processes_race_for_the_cache)
{
	float *y = mmap(NULL, sizeof(*y), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	char dir[] = "/tmp/rlx-limits-XXXXXX", cmd[64];
	size_t n, i;
	glob_t g;
	pid_t pid;
	int st;

	CHECK(y != MAP_FAILED && mkdtemp(dir));
	setenv("XDG_CACHE_HOME", dir, 1);
	pid = fork();	/* this process must not open what its children are to open */
	if (!pid) {
		*y = first_result();
		_exit(0);
	}
	CHECK(waitpid(pid, &st, 0) == pid && !st);
	n = files(dir, &g);
	CHECK(n > 3);
	for (i = 0; i < n; i++)
		CHECK(!unlink(g.gl_pathv[i]));
	all_at_once(*y);
	CHECK_EQ(files(dir, &g), n);
	damage(&g);
	all_at_once(*y);
	CHECK_EQ(files(dir, &g), n);	/* whole again, and nothing beside them */
	for (i = 0; i < n; i++)
		CHECK(strstr(g.gl_pathv[i], ".bin"));
	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	CHECK(!system(cmd));
}

/* In a process of its own; kernels that were compiled for two programs of one graph. */
static void count_compiled(unsigned int got[2])
{
	pid_t pid = fork();
	int st, i;

	for (i = 0; i < 2 && !pid; i++) {
		struct rlx_compile_opts o = { .size = sizeof(o), .device = "cuda" };
		struct rlx_graph *g = rlx_graph_new("counted");
		rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 64, 48));
		struct rlx_program_info info;
		struct rlx_error err = { 0 };
		struct rlx_program *p;

		x = rlx_emit(g, softmax, .x = rlx_emit(g, exp, .x = x), .axis = -1);
		rlx_output(g, "y", x);
		CHECK(!rlx_graph_finish(g));
		CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
		rlx_program_info(p, &info);
		CHECK_EQ(!info.kernels_compiled, !info.kernels_ns);
		got[i] = info.kernels_compiled;
		rlx_program_put(p);
		rlx_graph_put(g);
		if (i)
			_exit(0);
	}
	CHECK(waitpid(pid, &st, 0) == pid && !st);
}

/* For the first program that needs them; of a second process none. */
TEST(kernels_that_were_compiled_are_counted)
{
	unsigned int *got = mmap(NULL, 4 * sizeof(*got), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char dir[] = "/tmp/rlx-limits-XXXXXX", cmd[64];
	glob_t g;

	CHECK(got != MAP_FAILED && mkdtemp(dir));
	setenv("XDG_CACHE_HOME", dir, 1);
	count_compiled(got);
	CHECKF(got[0] > 1 && got[0] == files(dir, &g), "%u of %zu", got[0], files(dir, &g));
	CHECK_EQ(got[1], 0);
	count_compiled(got + 2);
	CHECK_EQ(got[2] + got[3], 0);
	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	CHECK(!system(cmd));
}

TEST_MAIN()
