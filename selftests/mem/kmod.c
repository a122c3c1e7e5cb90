// SPDX-License-Identifier: MIT
/*
 * The library's side of /dev/rlx, against a stand-in: open, ioctl and fstatfs of
 * this program answer for the device, with memfds for arenas. What the module
 * itself does is tested in a virtual machine (selftests/kmod).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem/arena.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "uapi/linux/rlx.h"

enum { HUGE = 2 << 20, SEALS = 8 };

/* What the stand-in shall answer, and what it was asked. */
static struct {
	int		open_errno, query_errno, create_errno, export_errno;
	uint32_t	abi;
	uint64_t	nr_huge;
	int32_t		node;
	int		nodes;		/* online */
	struct rlx_ioc_arena_create create;
	struct rlx_ioc_arena_export export;
	ino_t		arena[SEALS];
	uint32_t	seals[SEALS];
	unsigned int	n;
} fake = { .abi = RLX_ABI, .nodes = 2 };

/* Sessions are descriptors of /dev/null, arenas are memfds we know. */
static int known(int fd)
{
	struct stat st;
	unsigned int i;

	if (fstat(fd, &st))
		return -1;
	for (i = 0; i < fake.n; i++)
		if (fake.arena[i] == st.st_ino)
			return (int)i;
	return -1;
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (!strcmp(path, "/dev/rlx")) {
		if (fake.open_errno) {
			errno = fake.open_errno;
			return -1;
		}
		path = "/dev/null";
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int fstatfs(int fd, struct statfs *s)
{
	if (syscall(SYS_fstatfs, fd, s))
		return -1;
	if (known(fd) >= 0)
		s->f_type = RLX_FS_MAGIC;
	return 0;
}

static int no(int e)
{
	errno = e;
	return -1;
}

static int fake_create(const struct rlx_ioc_arena_create *c)
{
	struct stat st;
	int fd;

	fake.create = *c;
	if (fake.create_errno)
		return no(fake.create_errno);
	if (c->numa_node >= fake.nodes || c->size % 4096 || c->reserved[0] ||
	    c->kind != RLX_KIND_KERNEL || c->memfd != -1 || c->addr)
		return no(EINVAL);
	fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	CHECK(!ftruncate(fd, (off_t)c->size));
	CHECK(!fstat(fd, &st));
	CHECK(fake.n < SEALS);
	fake.arena[fake.n++] = st.st_ino;
	return fd;
}

static int fake_info(int fd, int at, struct rlx_ioc_arena_info *i)
{
	struct stat st;

	CHECK(!fstat(fd, &st));
	*i = (struct rlx_ioc_arena_info){
		.size = (uint64_t)st.st_size, .seals = fake.seals[at],
		.access = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR ?
			  RLX_R | RLX_W : RLX_R,
		.nr_huge = fake.nr_huge, .numa_node = fake.node,
	};
	return 0;
}

static int fake_seal(int fd, int at, const struct rlx_ioc_arena_seal *s)
{
	int set = 0;

	if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
		return no(EACCES);
	if (fake.seals[at] & RLX_KSEAL_SEAL)
		return no(EPERM);
	if (s->seals & RLX_KSEAL_NO_WRITE)
		set |= F_SEAL_WRITE;
	if (s->seals & RLX_KSEAL_FUTURE_WRITE)
		set |= 16;	/* F_SEAL_FUTURE_WRITE */
	if (set && fcntl(fd, F_ADD_SEALS, set))
		return -1;
	fake.seals[at] |= s->seals;
	return 0;
}

static int fake_dup(int fd, const struct rlx_ioc_arena_dup *d)
{
	char path[64];

	CHECK_EQ(d->access, RLX_R);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

int ioctl(int fd, unsigned long cmd, ...)
{
	int at = known(fd);
	void *arg;
	va_list ap;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (cmd == RLX_IOC_QUERY && at < 0) {
		struct rlx_ioc_query *q = arg;

		if (fake.query_errno)
			return no(fake.query_errno);
		q->abi = fake.abi;
		q->features = RLX_FEAT_HUGE;
		q->limits[RLX_LIMIT_ARENA_BYTES] = 1ull << 36;
		q->limits[RLX_LIMIT_USER_BYTES] = 77 << 20;
		q->limits[RLX_LIMIT_HUGE_BYTES] = HUGE;
		return 0;
	}
	if (cmd == RLX_IOC_ARENA_CREATE && at < 0)
		return fake_create(arg);
	if (at < 0)
		return (int)syscall(SYS_ioctl, fd, cmd, arg);
	switch (cmd) {
	case RLX_IOC_ARENA_INFO:
		return fake_info(fd, at, arg);
	case RLX_IOC_ARENA_SEAL:
		return fake_seal(fd, at, arg);
	case RLX_IOC_ARENA_DUP:
		return fake_dup(fd, arg);
	case RLX_IOC_ARENA_EXPORT:
		fake.export = *(struct rlx_ioc_arena_export *)arg;
		return fake.export_errno ? no(fake.export_errno) : dup(fd);
	}
	return no(ENOTTY);
}

static struct rlx_arena *make(uint64_t size, uint32_t flags, uint32_t pages,
			      const char *prov)
{
	struct rlx_arena_opts o = {
		.size = size, .flags = flags, .pages = pages, .provider = prov,
	};
	struct rlx_error err = { 0 };
	struct rlx_arena *a;

	if (rlx_arena_new(&o, &a, &err))
		rlx_test_fail(__FILE__, __LINE__, "%s", err.text);
	return a;
}

/* The arena is a memfd, and the reason names what is to be done. */
static void falls_back(const struct rlx_arena_opts *o, const char *word)
{
	unsigned int fds = rlx_oom_fds();
	struct rlx_arena_info i;
	struct rlx_error err = { 0 };
	struct rlx_arena *a;

	CHECKF(!rlx_arena_new(o, &a, &err), "%s", err.text);
	rlx_arena_info(a, &i);
	CHECK_STR(i.provider, "memfd");
	CHECKF(strstr(i.why_provider, word), "\"%s\" lacks \"%s\"",
	       i.why_provider, word);
	rlx_arena_put(a);
	CHECK_EQ(rlx_oom_fds(), fds);
}

static void refuses(const char *prov, enum rlx_status want, const char *word)
{
	struct rlx_arena_opts o = { .size = 1 << 20, .provider = prov };
	struct rlx_error err = { 0 };
	struct rlx_arena *a;
	enum rlx_status st = rlx_arena_new(&o, &a, &err);

	CHECKF(st == want, "%s, not %s: %s", rlx_status_name(st),
	       rlx_status_name(want), err.text);
	CHECKF(strstr(err.text, word), "\"%s\" lacks \"%s\"", err.text, word);
	CHECK(!a);
}

TEST(the_module_is_preferred)
{
	struct rlx_arena_info i;
	struct rlx_stats s0, s1;
	struct rlx_arena *a;
	unsigned int fds = rlx_oom_fds();

	fake.nr_huge = 2;
	rlx_stats_read(&s0);
	a = make(4 << 20, 0, RLX_PAGES_AUTO, NULL);
	rlx_stats_read(&s1);
	rlx_arena_info(a, &i);
	CHECK_STR(i.provider, "kmod");
	CHECK_STR(i.why_provider, "");
	CHECK_STR(i.why_lock, "");
	CHECK_STR(i.why_node, "");
	CHECK_EQ(i.bytes_locked, 4 << 20);
	CHECK_EQ(i.bytes_there, 4 << 20);
	CHECK_EQ(s1.bytes_pinned - s0.bytes_pinned, 4 << 20);
	CHECK_EQ((uintptr_t)rlx_arena_base(a) % HUGE, 0);
	CHECK_EQ(fake.create.flags, RLX_AF_HUGE_TRY);
	CHECK_EQ(fake.create.numa_node, -1);
	CHECK_EQ(rlx_oom_fds(), fds + 1);	/* no session is kept */
	rlx_arena_put(a);
	rlx_stats_read(&s1);
	CHECK_EQ(s1.bytes_pinned, s0.bytes_pinned);
	CHECK_EQ(rlx_oom_fds(), fds);
	a = make(5, 0, RLX_PAGES_SMALL, NULL);
	CHECK_EQ(fake.create.flags, 0);
	CHECK_EQ(fake.create.size, 4096);
	rlx_arena_put(a);
}

TEST(each_reason_against_it_is_named)
{
	struct rlx_arena_opts o = { .size = 1 << 20 };
	struct rlimit lim = { 12345, 12345 }, none;

	fake.open_errno = ENOENT;
	falls_back(&o, "modprobe rlx");
	refuses("kmod", RLX_ENODEV, "rlx-dkms");
	fake.open_errno = ENXIO;
	falls_back(&o, "no module behind it");
	fake.open_errno = EACCES;
	falls_back(&o, "usermod -aG render");
	refuses("kmod", RLX_EACCES, "group");
	fake.open_errno = 0;
	fake.abi = RLX_ABI + 1;
	falls_back(&o, "ABI");
	refuses("kmod", RLX_ENOSUP, "one version");
	fake.query_errno = ENOTTY;
	falls_back(&o, "not a device of this module");
	refuses("kmod", RLX_ENOSUP, "one version");
	fake.query_errno = 0;
	fake.abi = RLX_ABI;
	fake.create_errno = EPERM;
	falls_back(&o, "seccomp");
	refuses("kmod", RLX_EACCES, "seccomp");
	CHECK(!getrlimit(RLIMIT_MEMLOCK, &none));
	none.rlim_cur = 0;
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &none));
	falls_back(&o, "RLIMIT_MEMLOCK is 0");
	refuses("kmod", RLX_EACCES, "LimitMEMLOCK");
	fake.create_errno = ENOSPC;
	falls_back(&o, "No space");
	fake.create_errno = ENOMEM;
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &lim));
	if (!geteuid()) {
		falls_back(&o, "80740352 bytes a user");
		if (setuid(65534))
			return;
	}
	falls_back(&o, "RLIMIT_MEMLOCK is 12345 bytes");
	refuses("kmod", RLX_ENOMEM, "RLIMIT_MEMLOCK is 12345 bytes");
}

TEST(what_the_module_has_no_equal_of_goes_to_memfd)
{
	struct rlx_arena_opts o = { .size = 1 << 20 };
	struct rlx_error err = { 0 };
	struct rlx_arena *a;

	o.flags = RLX_ARENA_LAZY;
	falls_back(&o, "lazy");
	o.flags = RLX_ARENA_NOLOCK;
	falls_back(&o, "unlocked");
	/* Named, it gives what it has: more than was asked for. */
	a = make(1 << 20, RLX_ARENA_LAZY | RLX_ARENA_NOLOCK, 0, "kmod");
	CHECK_EQ(fake.create.size, 1 << 20);
	rlx_arena_put(a);
	o.provider = "kmod";
	o.pages = RLX_PAGES_HUGETLB;
	CHECK_EQ(rlx_arena_new(&o, &a, &err), RLX_ENOSUP);
	CHECK(strstr(err.text, "memfd can"));
}

TEST(the_environment_names_a_provider)
{
	struct rlx_arena_info i;
	struct rlx_arena *a;

	CHECK(!setenv("RLX_ARENA_PROVIDER", "memfd", 1));
	a = make(4096, 0, 0, NULL);
	rlx_arena_info(a, &i);
	CHECK_STR(i.provider, "memfd");
	CHECK_STR(i.why_provider, "");
	rlx_arena_put(a);
	a = make(4096, 0, 0, "kmod");		/* who asks by name gets it */
	rlx_arena_info(a, &i);
	CHECK_STR(i.provider, "kmod");
	rlx_arena_put(a);
	CHECK(!setenv("RLX_ARENA_PROVIDER", "kmod", 1));
	fake.open_errno = ENOENT;
	refuses(NULL, RLX_ENODEV, "rlx-dkms");
	CHECK(!setenv("RLX_ARENA_PROVIDER", "moon", 1));
	refuses(NULL, RLX_ENOENT, "RLX_ARENA_PROVIDER said so");
}

TEST(pages_and_nodes_are_explained)
{
	struct rlx_arena_opts o = { .size = 8 << 20, .nodes = 2 };
	struct rlx_error err = { 0 };
	struct rlx_arena_info i;
	struct rlx_arena *a;

	fake.nr_huge = 3;
	fake.node = 1;
	CHECK(!rlx_arena_new(&o, &a, &err));
	CHECK_EQ(fake.create.numa_node, 1);
	rlx_arena_info(a, &i);
	CHECK(strstr(i.why_pages, "3 of 4 huge pages"));
	CHECK_STR(i.why_node, "");
	rlx_arena_put(a);
	fake.node = 0;
	CHECK(!rlx_arena_new(&o, &a, &err));
	rlx_arena_info(a, &i);
	CHECK(strstr(i.why_node, "began with node 0"));
	rlx_arena_put(a);
	o.nodes = 3;
	CHECK(!rlx_arena_new(&o, &a, &err));
	CHECK_EQ(fake.create.numa_node, 0);
	rlx_arena_info(a, &i);
	CHECK(strstr(i.why_node, "one node"));
	rlx_arena_put(a);
	o.nodes = 1ull << 40;
	CHECK(!rlx_arena_new(&o, &a, &err));
	CHECK_EQ(fake.create.numa_node, -1);
	rlx_arena_info(a, &i);
	CHECK(strstr(i.why_node, "no node 40"));
	rlx_arena_put(a);
	o.flags = RLX_ARENA_EXACT;
	o.provider = "kmod";
	CHECK_EQ(rlx_arena_new(&o, &a, &err), RLX_EACCES);
	CHECK(strstr(err.text, "no node 40"));
}

TEST(descriptors_are_shared_and_sealed)
{
	struct rlx_arena *a = make(1 << 20, 0, 0, "kmod"), *b;
	struct rlx_arena_info i;
	struct rlx_error err = { 0 };
	char *p = rlx_arena_base(a);
	int fd;

	strcpy(p, "seen");
	CHECK(!rlx_arena_dup_readonly(a, &fd, &err));
	CHECK(!rlx_arena_open_fd(fd, 0, &b, &err));
	close(fd);
	rlx_arena_info(b, &i);
	CHECK_STR(i.provider, "kmod");
	CHECK(i.flags & RLX_ARENA_RDONLY);
	CHECK_EQ(i.bytes_locked, 1 << 20);
	CHECK_STR(rlx_arena_base(b), "seen");
	CHECK_EQ(rlx_arena_seal(b, RLX_SEAL_WRITE, NULL), RLX_EACCES);
	rlx_arena_put(b);

	CHECK(!rlx_arena_open_fd(rlx_arena_fd(a), 0, &b, &err));
	CHECK_EQ(rlx_arena_seal(a, RLX_SEAL_WRITE, NULL), RLX_EBUSY);
	p[0] = 'S';
	CHECK_STR(rlx_arena_base(b), "Seen");
	rlx_arena_put(b);
	CHECK(!rlx_arena_seal(a, RLX_SEAL_WRITE | RLX_SEAL_SEAL, &err));
	rlx_arena_info(a, &i);
	CHECK_EQ(i.seals, RLX_SEAL_WRITE | RLX_SEAL_SEAL);
	CHECK_EQ(i.bytes_locked, 1 << 20);
	CHECK(i.flags & RLX_ARENA_RDONLY);
	CHECK_STR(p, "Seen");
	CHECK(mprotect(p, 4096, PROT_WRITE));
	CHECK_EQ(rlx_arena_seal(a, RLX_SEAL_FUTURE_WRITE, NULL), RLX_EACCES);
	rlx_arena_put(a);
}

TEST(future_write_seal_leaves_our_mapping)
{
	struct rlx_arena *a = make(8192, 0, 0, "kmod"), *b;
	char *p = rlx_arena_base(a);

	CHECK(!rlx_arena_seal(a, RLX_SEAL_FUTURE_WRITE, NULL));
	p[0] = 'w';
	CHECK(!rlx_arena_open_fd(rlx_arena_fd(a), 0, &b, NULL));
	CHECK(rlx_arena_flags(b) & RLX_ARENA_RDONLY);
	CHECK_EQ(*(char *)rlx_arena_base(b), 'w');
	rlx_arena_put(b);
	rlx_arena_put(a);
}

static void no_export(struct rlx_buf r, uint32_t flags, enum rlx_status want,
		      const char *word)
{
	struct rlx_error err = { 0 };
	int fd = 7;
	enum rlx_status st = rlx_arena_export(r, flags, &fd, &err);

	CHECKF(st == want, "%s, not %s: %s", rlx_status_name(st),
	       rlx_status_name(want), err.text);
	CHECKF(strstr(err.text, word), "\"%s\" lacks \"%s\"", err.text, word);
	CHECK_EQ(fd, -1);
}

TEST(ranges_are_exported_or_refused_with_a_reason)
{
	struct rlx_arena *a = make(1 << 20, 0, 0, "kmod");
	struct rlx_buf r = { a, 8192, 4096 }, x;
	int fd;

	CHECK(!rlx_arena_export(r, 0, &fd, NULL));
	close(fd);
	CHECK_EQ(fake.export.offset, 8192);
	CHECK_EQ(fake.export.length, 4096);
	CHECK_EQ(fake.export.access, RLX_R | RLX_W);
	CHECK(!rlx_arena_export(r, RLX_ARENA_RDONLY, &fd, NULL));
	close(fd);
	CHECK_EQ(fake.export.access, RLX_R);
	no_export((x = r, x.offset = 1, x), 0, RLX_EINVAL, "whole pages");
	no_export((x = r, x.bytes = 5, x), 0, RLX_EINVAL, "whole pages");
	no_export((x = r, x.bytes = 0, x), 0, RLX_EINVAL, "whole pages");
	no_export((x = r, x.bytes = 1 << 20, x), 0, RLX_ERANGE, "outside");
	no_export((x = r, x.offset = -4096ull, x), 0, RLX_ERANGE, "outside");
	no_export(r, RLX_ARENA_LAZY, RLX_EINVAL, "RDONLY");
	CHECK_EQ(rlx_arena_export((struct rlx_buf){ 0 }, 0, &fd, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_arena_export(r, 0, NULL, NULL), RLX_EINVAL);
	fake.export_errno = EPERM;
	no_export(r, 0, RLX_EACCES, "sealed");
	fake.export_errno = EOPNOTSUPP;
	no_export(r, 0, RLX_ENOSUP, "supported");
	fake.export_errno = EMFILE;
	no_export(r, 0, RLX_ENOMEM, "open files");
	fake.export_errno = 0;
	CHECK(!rlx_arena_seal(a, RLX_SEAL_WRITE, NULL));
	no_export(r, 0, RLX_EACCES, "read-only");
	CHECK(!rlx_arena_export(r, RLX_ARENA_RDONLY, &fd, NULL));
	close(fd);
	rlx_arena_put(a);
}

TEST(exports_over_4_gib_are_refused)
{
	struct rlx_arena *a = make(1ull << 33, RLX_ARENA_LAZY | RLX_ARENA_NOLOCK,
				   RLX_PAGES_SMALL, "memfd");
	struct rlx_buf r = { a, 0, 1ull << 32 };

	no_export(r, 0, RLX_ERANGE, "4 GiB");
	rlx_arena_put(a);
}

TEST(memfd_and_foreign_memory_say_what_they_lack)
{
	struct rlx_arena *a = make(1 << 20, 0, 0, "memfd");
	char mem[64];
	int fd;

	no_export(rlx_buf_whole(a), RLX_ARENA_RDONLY, RLX_ENOSUP, "/dev/rlx");
	if (access("/dev/udmabuf", R_OK | W_OK)) {
		no_export(rlx_buf_whole(a), 0, RLX_ENOSUP, "/dev/udmabuf");
	} else {
		CHECK(!rlx_arena_export(rlx_buf_whole(a), 0, &fd, NULL));
		CHECK_EQ(lseek(fd, 0, SEEK_END), 1 << 20);
		close(fd);
	}
	rlx_arena_put(a);
	CHECK(!rlx_arena_wrap(&(struct rlx_arena_user){
		.base = mem, .size = 64 }, &a, NULL));
	no_export(rlx_buf_whole(a), 0, RLX_ENOSUP, "dma-buf");
	rlx_arena_put(a);
}

static enum rlx_status use_all(void *ctx)
{
	struct rlx_arena_opts o = { .size = 1 << 20, .provider = "kmod" };
	struct rlx_arena *a, *b;
	enum rlx_status st;

	fake.n = 0;
	st = rlx_arena_new(&o, &a, NULL);
	if (st)
		return st;
	st = rlx_arena_open_fd(rlx_arena_fd(a), 0, &b, NULL);
	if (!st)
		rlx_arena_put(b);
	rlx_arena_put(a);
	return st;
}

TEST(every_failed_allocation_is_an_error_that_leaks_nothing)
{
	CHECK(rlx_oom_sweep(use_all, NULL) >= 2);
}

TEST_MAIN()
