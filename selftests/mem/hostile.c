// SPDX-License-Identifier: MIT
/* Rubbish, wrong descriptors, absurd sizes and want of memory for arenas. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "base/proc.h"
#include "mem/arena.h"
#include "rlx/dlpack.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/mem/provider.h"

static void refuse_fd(int fd, uint32_t flags, enum rlx_status want,
		      const char *word)
{
	struct rlx_arena *a = (void *)1;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_arena_open_fd(fd, flags, &a, &err);

	CHECKF(st == want, "fd %d: %s, not %s: %s", fd, rlx_status_name(st),
	       rlx_status_name(want), err.text);
	CHECKF(strstr(err.text, word), "\"%s\" lacks \"%s\"", err.text, word);
	CHECK(!a);
}

TEST(descriptors_of_the_wrong_kind_are_refused)
{
	unsigned int before = rlx_oom_fds();
	char path[] = "/var/tmp/rlx-test-XXXXXX";
	int p[2], fd, closed;

	CHECK(!pipe(p));
	refuse_fd(p[0], 0, RLX_EBADFD, "not memory");
	refuse_fd(p[1], 0, RLX_EBADFD, "not memory");
	close(p[0]);
	close(p[1]);
	closed = p[0];
	refuse_fd(closed, 0, RLX_EBADFD, "not memory");
	refuse_fd(-1, 0, RLX_EBADFD, "not memory");
	refuse_fd(INT32_MAX, 0, RLX_EBADFD, "not memory");
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	refuse_fd(p[0], 0, RLX_EBADFD, "not memory");
	close(p[0]);
	close(p[1]);
	fd = open("/", O_RDONLY | O_DIRECTORY);
	refuse_fd(fd, 0, RLX_EBADFD, "not memory");
	close(fd);
	fd = open("/dev/shm", O_RDONLY | O_DIRECTORY);
	refuse_fd(fd, 0, RLX_EBADFD, "not memory");
	close(fd);
	fd = open("/dev/null", O_RDWR);
	refuse_fd(fd, 0, RLX_EBADFD, "not memory");
	close(fd);
	fd = open("/proc/self/maps", O_RDONLY);
	refuse_fd(fd, 0, RLX_EBADFD, "not memory");
	close(fd);
	fd = eventfd(0, 0);
	refuse_fd(fd, 0, RLX_EBADFD, "not memory");
	close(fd);
	fd = epoll_create1(0);
	refuse_fd(fd, 0, RLX_EBADFD, "not memory");
	close(fd);
	fd = mkstemp(path);
	if (fd >= 0) {		/* a guest has no disk for it */
		unlink(path);
		CHECK(!ftruncate(fd, 8192));
		refuse_fd(fd, 0, RLX_EBADFD, "not memory");
		close(fd);
	}
	CHECK_EQ(rlx_oom_fds(), before);
}

static int reopen(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags);
}

TEST(files_that_could_still_shrink_are_refused)
{
	char path[] = "/dev/shm/rlx-test-XXXXXX";
	struct rlx_arena *a;
	int fd, ro;

	fd = memfd_create("unsealable", 0);	/* born with F_SEAL_SEAL */
	CHECK(!ftruncate(fd, 8192));
	refuse_fd(fd, 0, RLX_EACCES, "shrink");
	CHECK(!rlx_arena_open_fd(fd, RLX_ARENA_UNSEALED, &a, NULL));
	rlx_arena_put(a);
	close(fd);
	fd = mkstemp(path);
	CHECK(fd >= 0);
	unlink(path);
	CHECK(!ftruncate(fd, 8192));
	refuse_fd(fd, 0, RLX_EACCES, "shrink");
	CHECK(!rlx_arena_open_fd(fd, RLX_ARENA_UNSEALED, &a, NULL));
	rlx_arena_put(a);
	close(fd);
	/* We cannot seal through a read-only descriptor. */
	fd = memfd_create("ro", MFD_ALLOW_SEALING);
	CHECK(!ftruncate(fd, 8192));
	ro = reopen(fd, O_RDONLY);
	refuse_fd(ro, 0, RLX_EACCES, "shrink");
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	CHECK(!rlx_arena_open_fd(ro, 0, &a, NULL));
	CHECK(rlx_arena_flags(a) & RLX_ARENA_RDONLY);
	rlx_arena_put(a);
	close(ro);
	ro = reopen(fd, O_WRONLY);
	refuse_fd(ro, 0, RLX_EACCES, "writing only");
	close(ro);
	ro = reopen(fd, O_PATH);
	refuse_fd(ro, 0, RLX_EBADFD, "not memory");
	close(ro);
	close(fd);
}

TEST(empty_files_and_unknown_flags_are_refused)
{
	int fd = memfd_create("empty", MFD_ALLOW_SEALING);

	refuse_fd(fd, 0, RLX_ERANGE, "empty");
	refuse_fd(fd, 1u << 30, RLX_EINVAL, "flags");
	refuse_fd(fd, RLX_ARENA_EXACT, RLX_EINVAL, "flags");
	CHECK_EQ(rlx_arena_open_fd(fd, 0, NULL, NULL), RLX_EINVAL);
	close(fd);
}

TEST(a_huge_sparse_file_is_an_error_not_the_oom_killer)
{
	int fd = memfd_create("vast", MFD_ALLOW_SEALING);
	struct rlx_arena *a;
	struct rlx_error err = { 0 };
	/* The thread sanitizer keeps most addresses for itself. */
	uint64_t size = 1ull << (RLX_TEST_TSAN ? 37 : 45);

	CHECK(!ftruncate(fd, (off_t)size));
	CHECK_EQ(rlx_arena_open_fd(fd, 0, &a, &err), RLX_ENOMEM);
	CHECK(strstr(err.text, "available"));
	/* Not filled it is only addresses; here the lock must not fill it. */
	CHECK(!rlx_arena_open_fd(fd, RLX_ARENA_LAZY | RLX_ARENA_NOLOCK, &a,
				 &err));
	CHECK_EQ(rlx_arena_size(a), size);
	((char *)rlx_arena_base(a))[size - 1] = 1;
	rlx_arena_put(a);
	close(fd);
}

static void refuse_opts(const struct rlx_arena_opts *o, enum rlx_status want,
			const char *word)
{
	struct rlx_arena *a = (void *)1;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_arena_new(o, &a, &err);

	CHECKF(st == want, "%s, not %s: %s", rlx_status_name(st),
	       rlx_status_name(want), err.text);
	CHECKF(strstr(err.text, word), "\"%s\" lacks \"%s\"", err.text, word);
	CHECK(!a);
}

TEST(absurd_options_are_refused)
{
	struct rlx_arena_opts good = { .size = 4096 }, o;
	char name[300];
	uint64_t s;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	refuse_opts(NULL, RLX_EINVAL, "NULL");
	CHECK_EQ(rlx_arena_new(&good, NULL, NULL), RLX_EINVAL);
	refuse_opts((o = good, o.size = 0, &o), RLX_EINVAL, "size 0");
	for (s = 1; s < 5000; s = s * 3 + 1) {
		o = good;
		o.size = UINT64_MAX - s + 1;
		refuse_opts(&o, RLX_ERANGE, "bytes");
		o.size = (uint64_t)INT64_MAX - s + 1;
		refuse_opts(&o, RLX_ERANGE, "bytes");
		o.flags = RLX_ARENA_LAZY;
		refuse_opts(&o, RLX_ERANGE, "bytes");
	}
	refuse_opts((o = good, o.size = 1ull << 46, &o), RLX_ENOMEM, "available");
	/* More than an address space: there is nothing to be lazy about. */
	o.size = 1ull << 60;
	o.flags = RLX_ARENA_LAZY | RLX_ARENA_NOLOCK;
	refuse_opts(&o, RLX_ENOMEM, on_kmod() ? "limit" : "mmap");
	refuse_opts((o = good, o.flags = RLX_ARENA_RDONLY, &o), RLX_EINVAL, "flags");
	refuse_opts((o = good, o.flags = 1u << 31, &o), RLX_EINVAL, "flags");
	refuse_opts((o = good, o.pages = 77, &o), RLX_EINVAL, "77");
	refuse_opts((o = good, o.reserved[3] = 1, &o), RLX_EINVAL, "reserved[3]");
	refuse_opts((o = good, o.name = name, &o), RLX_EINVAL, "200");
	refuse_opts((o = good, o.provider = "moon", &o), RLX_ENOENT, "moon");
	refuse_opts((o = good, o.provider = "user", &o), RLX_ENOENT, "user");
}

TEST(names_of_any_kind_make_an_arena)
{
	static const char *const names[] = { "", "a/b", "%s%n", "\n\t", "\xff" };
	char longest[201];
	struct rlx_arena *a;
	unsigned int i;

	memset(longest, 'n', 200);
	longest[200] = 0;
	for (i = 0; i <= 5; i++) {
		struct rlx_arena_opts o = {
			.size = 1, .name = i < 5 ? names[i] : longest,
		};

		CHECK(!rlx_arena_new(&o, &a, NULL));
		rlx_arena_put(a);
	}
}

TEST(wrap_checks_its_range)
{
	struct rlx_arena_user u = { .base = (void *)4096, .size = 0 };
	struct rlx_arena *a;

	CHECK_EQ(rlx_arena_wrap(NULL, &a, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_arena_wrap(&u, &a, NULL), RLX_EINVAL);
	u.size = UINT64_MAX;
	CHECK_EQ(rlx_arena_wrap(&u, &a, NULL), RLX_ERANGE);
	u.base = (void *)(UINTPTR_MAX - 10);
	u.size = 100;
	CHECK_EQ(rlx_arena_wrap(&u, &a, NULL), RLX_ERANGE);
	u.base = NULL;
	CHECK_EQ(rlx_arena_wrap(&u, &a, NULL), RLX_EINVAL);
	u = (struct rlx_arena_user){ &u, 1, NULL, NULL, RLX_ARENA_LAZY };
	CHECK_EQ(rlx_arena_wrap(&u, &a, NULL), RLX_EINVAL);
	CHECK(!a);
}

TEST(null_and_rubbish_buffers_are_refused)
{
	struct rlx_arena_opts o = { .size = 8192 };
	struct rlx_arena_info info;
	struct rlx_buf b, bad = { 0 };
	struct rlx_arena *a;
	int fd;

	CHECK_EQ(rlx_arena_size(NULL), 0);
	CHECK(!rlx_arena_base(NULL));
	CHECK_EQ(rlx_arena_fd(NULL), -1);
	CHECK_EQ(rlx_arena_flags(NULL), 0);
	rlx_arena_info(NULL, &info);
	CHECK_EQ(info.bytes, 0);
	CHECK_EQ(rlx_arena_seal(NULL, 1, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_arena_dup_readonly(NULL, &fd, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_buf_new(NULL, 1, 0, &b, NULL), RLX_EINVAL);
	CHECK(!rlx_buf_ptr(bad));
	CHECK(!rlx_buf_free(bad, NULL));

	CHECK(!rlx_arena_new(&o, &a, NULL));
	CHECK_EQ(rlx_arena_seal(a, 0, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_arena_seal(a, 1u << 9, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_arena_dup_readonly(a, NULL, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_buf_new(a, 1, 0, NULL, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_buf_new(a, 1, 48, &b, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_buf_new(a, 1, 1ull << 40, &b, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_buf_new(a, UINT64_MAX, 0, &b, NULL), RLX_ENOMEM);
	CHECK_EQ(rlx_buf_new(a, 8193, 0, &b, NULL), RLX_ENOMEM);
	CHECK(!rlx_buf_new(a, 0, 0, &b, NULL));
	CHECK_EQ(b.bytes, 0);
	CHECK(!rlx_buf_free(b, NULL));
	CHECK(!rlx_buf_new(a, 4096, 0, &b, NULL));
	bad = b;
	bad.offset += 64;
	CHECK_EQ(rlx_buf_free(bad, NULL), RLX_ENOENT);
	bad = b;
	bad.bytes = 10;
	CHECK_EQ(rlx_buf_free(bad, NULL), RLX_ENOENT);
	bad.bytes = UINT64_MAX;
	CHECK_EQ(rlx_buf_free(bad, NULL), RLX_ENOENT);
	CHECK(!rlx_buf_free(b, NULL));
	CHECK_EQ(rlx_buf_free(b, NULL), RLX_ENOENT);
	rlx_arena_put(a);
}

TEST(want_of_descriptors_is_an_error)
{
	struct rlx_arena_opts o = { .size = 8192 };
	struct rlimit lim;
	struct rlx_arena *a, *b;
	int fd;

	CHECK(!getrlimit(RLIMIT_NOFILE, &lim));
	lim.rlim_cur = 3;
	CHECK(!rlx_arena_new(&o, &a, NULL));
	CHECK(!setrlimit(RLIMIT_NOFILE, &lim));
	CHECK_EQ(rlx_arena_new(&o, &b, NULL), RLX_ENOMEM);
	CHECK_EQ(rlx_arena_open_fd(rlx_arena_fd(a), 0, &b, NULL), RLX_ENOMEM);
	CHECK_EQ(rlx_arena_dup_readonly(a, &fd, NULL), RLX_ENOMEM);
	CHECK_EQ(fd, -1);
	CHECK(rlx_arena_seal(a, RLX_SEAL_WRITE, NULL));
	*(char *)rlx_arena_base(a) = 1;		/* still ours */
	lim.rlim_cur = lim.rlim_max;
	CHECK(!setrlimit(RLIMIT_NOFILE, &lim));
	rlx_arena_put(a);
}

TEST(want_of_address_space_is_an_error)
{
	struct rlx_arena_opts o = { .size = 64 << 20 };
	struct rlimit lim = { 32 << 20, 32 << 20 };
	unsigned int fds = rlx_oom_fds();
	struct rlx_error err = { 0 };
	struct rlx_arena *a;

	if (RLX_TEST_ASAN || RLX_TEST_TSAN)
		rlx_test_skip("the sanitizer needs the address space");
	CHECK(!setrlimit(RLIMIT_AS, &lim));
	CHECK_EQ(rlx_arena_new(&o, &a, &err), RLX_ENOMEM);
	CHECK(strstr(err.text, "mmap"));
	CHECK_EQ(rlx_oom_fds(), fds);
}

static enum rlx_status use_all(void *ctx)
{
	struct rlx_arena_opts o = { .size = 1 << 20, .pages = RLX_PAGES_SMALL };
	struct rlx_type t = rlx_type(RLX_F32, 16), u;
	struct rlx_arena *a, *b = NULL;
	struct rlx_dl_managed *dl;
	struct rlx_buf x[40], y;
	enum rlx_status st;
	int i, n = 0;

	st = rlx_arena_new(&o, &a, NULL);
	if (st)
		return st;
	st = rlx_arena_open_fd(rlx_arena_fd(a), 0, &b, NULL);
	for (; !st && n < 40; n++)
		st = rlx_buf_new(a, 1000, 0, &x[n], NULL);
	if (!st)
		st = rlx_dl_export(x[0], &t, &dl, NULL);
	if (!st) {
		st = rlx_dl_import(dl, &u, &y, NULL);
		if (st)
			dl->deleter(dl);
		else
			rlx_arena_put(y.arena);
	}
	for (i = 0; i < n; i++)
		rlx_buf_free(x[i], NULL);
	rlx_arena_put(b);
	rlx_arena_put(a);
	return st;
}

TEST(every_failed_allocation_is_an_error_that_leaks_nothing)
{
	uint64_t n = rlx_oom_sweep(use_all, NULL);

	printf("# %llu allocations failed in turn\n", (unsigned long long)n);
	CHECK(n >= 5);
}

static enum rlx_status use_pool(void *ctx)
{
	struct rlx_pool *p;
	enum rlx_status st = rlx_pool_new(3, &p, NULL);

	rlx_pool_free(p);
	return st;
}

TEST(a_pool_leaks_nothing)
{
	CHECK_EQ(rlx_oom_sweep(use_pool, NULL), 1);
}

static void *open_and_seal(void *arg)
{
	struct rlx_arena *a = arg, *b;
	struct rlx_arena_info info;
	enum rlx_status st;
	int i, fd;

	for (i = 0; i < 50; i++) {
		if (!rlx_arena_open_fd(rlx_arena_fd(a), 0, &b, NULL)) {
			rlx_arena_info(b, &info);
			rlx_arena_put(b);
		}
		if (!rlx_arena_dup_readonly(a, &fd, NULL))
			close(fd);
		if (i % 8 == 7) {	/* refused while one has it open */
			st = rlx_arena_seal(a, RLX_SEAL_WRITE, NULL);
			CHECK(!st || st == RLX_EBUSY);
		}
		rlx_arena_info(a, &info);
		/* Reading while it is sealed is fine; the sanitizer takes the
		 * new mapping of the same pages for a write. */
		if (!RLX_TEST_TSAN)
			CHECK_EQ(*(volatile char *)rlx_arena_base(a), 0x5a);
	}
	return NULL;
}

TEST(threads_open_seal_and_look_at_once)
{
	struct rlx_arena_opts o = { .size = 1 << 18, .pages = RLX_PAGES_SMALL };
	unsigned int fds = rlx_oom_fds();
	struct rlx_stats s0, s1;
	struct rlx_arena *a;
	pthread_t t[4];
	int i;

	rlx_stats_read(&s0);
	CHECK(!rlx_arena_new(&o, &a, NULL));
	memset(rlx_arena_base(a), 0x5a, 1 << 18);
	for (i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, open_and_seal, a));
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	rlx_arena_put(a);
	rlx_stats_read(&s1);
	CHECK_EQ(s1.arenas, s0.arenas);
	CHECK_EQ(s1.bytes_mapped, s0.bytes_mapped);
	CHECK_EQ(s1.bytes_pinned, s0.bytes_pinned);
	CHECK_EQ(rlx_oom_fds(), fds);
}

TEST(files_of_proc_are_read_whole_and_long_lines_cut)
{
	char path[] = "/tmp/rlx-test-XXXXXX", big[9000];
	struct rlx_lines l;
	int fd = mkstemp(path), n = 0;
	uint64_t v;
	char *s;

	memset(big, 'x', sizeof(big));
	CHECK_EQ(write(fd, "Key:   12 kB\nOther 7\n", 21), 21);
	CHECK_EQ(write(fd, big, sizeof(big)), sizeof(big));
	CHECK_EQ(write(fd, "\nlast", 5), 5);
	CHECK(rlx_lines_open(&l, path));
	while ((s = rlx_lines_next(&l)) && strcmp(s, "last"))
		n++;
	CHECK(s && n >= 4);
	CHECK(!rlx_lines_next(&l));
	rlx_lines_close(&l);
	CHECK(rlx_proc_key(path, "Key", &v));
	CHECK_EQ(v, 12 * 1024);
	CHECK(rlx_proc_key(path, "Other", &v));
	CHECK_EQ(v, 7);
	CHECK(!rlx_proc_key(path, "Oth", &v));
	unlink(path);
	CHECK(!rlx_proc_key(path, "Key", &v));
	CHECK(rlx_mem_available() > 0);
	CHECK(rlx_cpu_allowed() >= 1);
}

TEST_MAIN()
