// SPDX-License-Identifier: MIT
/* The library on the module: chosen by itself, with reasons where it is not. */
/* rig: timeout=120 modules=vgem */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "lib/vgem.h"
#include "rlx/run.h"
#include "selftests/lib/fds.h"
#include "selftests/lib/rlx_test.h"

#define TOTALS	"/sys/class/misc/rlx/"
#define PARAMS	"/sys/module/rlx/parameters/"
#define MIB	(1ull << 20)

enum { RENDER = 105, USER = 1000, OTHER = 1001 };

static uint64_t total(const char *name)
{
	char path[128];
	uint64_t v = ~0ull;

	snprintf(path, sizeof(path), TOTALS "%s", name);
	CHECK(rlx_proc_u64(path, &v));
	return v;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	CHECKF(fd >= 0, "%s: %s", path, strerror(errno));
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static struct rlx_arena *make(uint64_t size, const char *prov)
{
	struct rlx_arena_opts o = { .size = size, .provider = prov };
	struct rlx_error err = { 0 };
	struct rlx_arena *a;

	CHECKF(!rlx_arena_new(&o, &a, &err), "%s", err.text);
	return a;
}

/* What an arena nobody named a provider for got. */
static void gets(uint64_t size, const char *provider, const char *why)
{
	struct rlx_arena *a = make(size, NULL);
	struct rlx_arena_info i;

	rlx_arena_info(a, &i);
	CHECKF(!strcmp(i.provider, provider), "%s: %s", i.provider,
	       i.why_provider);
	CHECKF(*why ? !!strstr(i.why_provider, why) : !*i.why_provider,
	       "\"%s\" lacks \"%s\"", i.why_provider, why);
	rlx_arena_put(a);
}

TEST(the_module_is_chosen_and_counted)
{
	uint64_t pin0 = 0, pin = 0;
	struct rlx_stats s0, s;
	struct rlx_arena_info i;
	struct rlx_arena *a;

	CHECK(rlx_proc_key("/proc/self/status", "VmPin", &pin0));
	rlx_stats_read(&s0);
	a = make(16 * MIB, NULL);
	rlx_arena_info(a, &i);
	CHECK_STR(i.provider, "kmod");
	CHECK_STR(i.why_provider, "");
	CHECK_STR(i.why_lock, "");
	CHECK_EQ(i.bytes_locked, 16 * MIB);
	CHECK_EQ(i.bytes_there, 16 * MIB);
	CHECK_EQ(i.node, 0);
	rlx_stats_read(&s);
	CHECK_EQ(s.bytes_pinned - s0.bytes_pinned, 16 * MIB);
	CHECK_EQ(total("bytes"), 16 * MIB);
	CHECK_EQ(total("nr_arenas"), 1);
	CHECK_EQ(total("nr_sessions"), 0);
	CHECK(rlx_proc_key("/proc/self/status", "VmPin", &pin));
	CHECK_EQ(pin - pin0, 16 * MIB);
	rlx_arena_put(a);
	CHECK_EQ(total("bytes"), 0);
	rlx_stats_read(&s);
	CHECK_EQ(s.bytes_pinned, s0.bytes_pinned);
}

TEST(huge_pages_are_mapped_as_such)
{
	struct rlx_arena *a = make(16 * MIB, NULL);
	struct rlx_arena_info i;

	rlx_arena_info(a, &i);
	if (i.why_pages[0])
		rlx_test_skip("no huge pages: %s", i.why_pages);
	CHECK_EQ(i.bytes_huge, 16 * MIB);
	CHECK_EQ(total("huge_bytes"), 16 * MIB);
	rlx_arena_put(a);
}

static void become(unsigned int uid, bool render)
{
	gid_t g = RENDER;

	CHECK(!setgroups(render, &g));
	CHECK(!setgid(uid) && !setuid(uid));
}

TEST(who_is_not_in_the_group_is_told_which)
{
	become(OTHER, false);
	gets(MIB, "memfd", "for the group render: usermod -aG render");
}

TEST(who_is_in_the_group_gets_the_module)
{
	struct rlimit lim = { MIB, MIB };

	CHECK(!setrlimit(RLIMIT_MEMLOCK, &lim));
	become(USER, true);
	gets(MIB / 2, "kmod", "");
	gets(2 * MIB, "memfd", "RLIMIT_MEMLOCK is 1048576 bytes");
	gets(MIB / 2, "kmod", "");
}

TEST(who_may_lock_nothing_is_told)
{
	struct rlimit lim = { 0, 0 };

	CHECK(!setrlimit(RLIMIT_MEMLOCK, &lim));
	become(USER, true);
	gets(MIB, "memfd", "RLIMIT_MEMLOCK is 0");
}

TEST(caps_of_the_module_are_told)
{
	put(PARAMS "max_user_bytes", "4194304");
	gets(4 * MIB, "kmod", "");
	gets(8 * MIB, "memfd", "4194304 bytes a user");
	put(PARAMS "max_user_bytes", "0");
	put(PARAMS "max_arena_bytes", "1048576");
	gets(2 * MIB, "memfd", "over the module's limit of 1048576");
	put(PARAMS "max_arena_bytes", "68719476736");
}

TEST(memory_outlives_the_process_that_made_it)
{
	struct rlx_arena *a;
	int sock[2], st, fd;
	char path[64];
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	pid = fork();
	if (!pid) {
		a = make(4 * MIB, "kmod");
		strcpy((char *)rlx_arena_base(a) + 3 * MIB, "weights");
		CHECK(!rlx_arena_dup_readonly(a, &fd, NULL));
		rlx_test_send_fd(sock[1], fd);
		kill(getpid(), SIGKILL);
	}
	CHECK(waitpid(pid, &st, 0) == pid);
	CHECK(WIFSIGNALED(st));
	fd = rlx_test_recv_fd(sock[0]);
	CHECK_EQ(total("bytes"), 4 * MIB);
	CHECK(!rlx_arena_open_fd(fd, 0, &a, NULL));
	CHECK_STR((char *)rlx_arena_base(a) + 3 * MIB, "weights");
	CHECK(rlx_arena_flags(a) & RLX_ARENA_RDONLY);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	CHECK(open(path, O_RDWR) < 0);		/* no way back to writing */
	close(fd);
	rlx_arena_put(a);
	CHECK_EQ(total("bytes"), 0);
}

/* y = x * w + b on the CPU, x and y in @a, at the offsets given. */
static void compute(struct rlx_arena *a, uint64_t x, uint64_t y)
{
	static const float w[16] = { 2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 5, 0, 0, 0, 0, 7 };
	struct rlx_graph *g = rlx_graph_new("t");
	struct rlx_program *p;
	struct rlx_session *s;
	struct rlx_error err = { 0 };
	rlx_value v;

	v = rlx_emit(g, matmul, .a = rlx_input(g, "x", rlx_type(RLX_F32, 4, 4)),
		     .b = rlx_constant(g, rlx_type(RLX_F32, 4, 4), w));
	rlx_output(g, "y", v);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, NULL, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_session_bind(s, RLX_IO_INPUT, "x",
				(struct rlx_buf){ a, x, 64 }));
	CHECK(!rlx_session_bind(s, RLX_IO_OUTPUT, "y",
				(struct rlx_buf){ a, y, 64 }));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

/*
 * The whole way: a device's driver (vgem) imports the arena, the input is written
 * through the device's mapping, the CPU computes in place, and the device's
 * mapping shows the result. Nothing was copied.
 */
TEST(device_and_cpu_work_on_the_same_pages)
{
	static const float w[] = { 2, 3, 5, 7 };
	struct rlx_arena *a = make(2 * MIB, NULL);
	struct rlx_buf half = { a, MIB, MIB };
	struct rlx_stats s0, s1;
	uint32_t handle;
	float *dev;
	int vgem, fd, k;

	CHECK(!rlx_arena_export(half, 0, &fd, NULL));
	CHECK_EQ(lseek(fd, 0, SEEK_END), MIB);
	CHECK_EQ(total("nr_dmabufs"), 1);
	vgem = vgem_open();
	CHECK_EQ(vgem_import(vgem, fd, &handle), 0);
	close(fd);
	dev = vgem_map(vgem, MIB, PROT_READ | PROT_WRITE);
	CHECKF(dev, "map: %s", strerror(errno));
	rlx_stats_read(&s0);
	for (k = 0; k < 16; k++)
		dev[k] = (float)(k + 1);
	compute(a, MIB, MIB + 4096);
	for (k = 0; k < 16; k++)
		CHECKF(dev[1024 + k] == (float)(k + 1) * w[k % 4], "%d: %g", k,
		       (double)dev[1024 + k]);
	rlx_stats_read(&s1);
	CHECK_EQ(s1.bytes_copied, s0.bytes_copied);
	rlx_arena_put(a);			/* the device keeps the pages */
	CHECK(dev[1024] == 2);
	CHECK_EQ(total("bytes"), 2 * MIB);
	munmap(dev, MIB);
	vgem_close_handle(vgem, handle);
	close(vgem);
}

TEST(a_reader_is_given_no_writable_export)
{
	struct rlx_arena *a = make(MIB, "kmod"), *b;
	struct rlx_buf whole = rlx_buf_whole(a);
	struct rlx_error err = { 0 };
	int fd, x;

	CHECK(!rlx_arena_dup_readonly(a, &fd, NULL));
	CHECK(!rlx_arena_open_fd(fd, 0, &b, NULL));
	close(fd);
	CHECK_EQ(rlx_arena_export(rlx_buf_whole(b), 0, &x, NULL), RLX_EACCES);
	CHECK(!rlx_arena_export(rlx_buf_whole(b), RLX_ARENA_RDONLY, &x, &err));
	CHECK(mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, x, 0) ==
	      MAP_FAILED);
	close(x);
	rlx_arena_put(b);
	/* A writable export is a writer: it keeps the seal away. */
	CHECK(!rlx_arena_export(whole, 0, &x, NULL));
	CHECK_EQ(rlx_arena_seal(a, RLX_SEAL_WRITE, NULL), RLX_EBUSY);
	close(x);
	CHECK_EQ(rlx_arena_seal(a, RLX_SEAL_WRITE, &err), RLX_OK);
	CHECK_EQ(rlx_arena_export(whole, 0, &x, NULL), RLX_EACCES);
	rlx_arena_put(a);
}

/* Without the module udmabuf does it, where the kernel has that (6.12 here). */
TEST(a_memfd_is_exported_by_udmabuf)
{
	struct rlx_arena *a = make(MIB, "memfd");
	struct rlx_buf half = { a, MIB / 2, MIB / 2 };
	struct rlx_error err = { 0 };
	uint32_t handle;
	int vgem, fd;
	char *dev;

	if (access("/dev/udmabuf", F_OK)) {
		CHECK_EQ(rlx_arena_export(half, 0, &fd, &err), RLX_ENOSUP);
		CHECK(strstr(err.text, "/dev/udmabuf"));
		rlx_arena_put(a);
		return;
	}
	CHECKF(!rlx_arena_export(half, 0, &fd, &err), "%s", err.text);
	vgem = vgem_open();
	CHECK_EQ(vgem_import(vgem, fd, &handle), 0);
	dev = vgem_map(vgem, MIB / 2, PROT_READ | PROT_WRITE);
	CHECKF(dev, "map: %s", strerror(errno));
	strcpy((char *)rlx_arena_base(a) + MIB / 2, "from the CPU");
	CHECK_STR(dev, "from the CPU");
	munmap(dev, MIB / 2);
	close(fd);
	vgem_close_handle(vgem, handle);
	close(vgem);
	CHECK_EQ(rlx_arena_export(half, RLX_ARENA_RDONLY, &fd, &err), RLX_ENOSUP);
	rlx_arena_put(a);
}

TEST_MAIN()
