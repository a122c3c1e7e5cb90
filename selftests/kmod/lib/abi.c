// SPDX-License-Identifier: MIT
/* Calling /dev/rlx as a test does: plain results, and the rules of every struct. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"

long k_ioctl(int fd, unsigned long cmd, void *arg)
{
	int ret = ioctl(fd, cmd, arg);

	return ret < 0 ? -errno : ret;
}

int k_open(void)
{
	int fd = open("/dev/rlx", O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)	/* in a guest that is no reason which is listed */
		rlx_test_skip("no /dev/rlx: modprobe rlx");
	CHECKF(fd >= 0, "/dev/rlx: %s", strerror(errno));
	return fd;
}

int k_arena(int session, uint64_t size, uint32_t flags)
{
	struct rlx_ioc_arena_create a = {
		.size = size, .kind = RLX_KIND_KERNEL, .flags = flags,
		.numa_node = -1, .memfd = -1,
	};
	long fd = k_ioctl(session, RLX_IOC_ARENA_CREATE, &a);

	CHECKF(fd >= 0, "an arena of %llu bytes: %s", (unsigned long long)size,
	       strerror(-(int)fd));
	return fd;
}

uint64_t k_features(int session)
{
	struct rlx_ioc_query q = { 0 };

	CHECK_EQ(k_ioctl(session, RLX_IOC_QUERY, &q), 0);
	return q.features;
}

uint32_t k_huge(int session)
{
	return k_features(session) & RLX_FEAT_HUGE ? RLX_AF_HUGE_REQUIRE : RLX_AF_HUGE_TRY;
}

void k_need_huge(int session)
{
	if (k_huge(session) != RLX_AF_HUGE_REQUIRE)
		rlx_test_skip("no huge pages in this kernel");
}

int k_timeline(int session, uint64_t initial)
{
	struct rlx_ioc_timeline_create t = { .initial = initial };
	long fd = k_ioctl(session, RLX_IOC_TIMELINE_CREATE, &t);

	CHECKF(fd >= 0, "a timeline: %s", strerror(-(int)fd));
	return fd;
}

long k_signal(int timeline, uint64_t value)
{
	struct rlx_ioc_timeline_signal s = { .value = value };

	return k_ioctl(timeline, RLX_IOC_TIMELINE_SIGNAL, &s);
}

uint64_t k_query(int timeline, int *error)
{
	struct rlx_ioc_timeline_query q = { 0 };

	CHECK_EQ(k_ioctl(timeline, RLX_IOC_TIMELINE_QUERY, &q), 0);
	if (error)
		*error = q.error;
	return q.value;
}

uint64_t k_patience(uint64_t ns)
{
	const char *slow = getenv("RIG_SLOW");	/* see init.c */

	return ns / 100 * (slow && atoi(slow) > 100 ? (uint64_t)atoi(slow) : 100);
}

uint64_t k_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* ---- the rules of structs ---------------------------------------------- */

static unsigned long cmd_resized(unsigned long cmd, int by)
{
	return _IOC(_IOC_DIR(cmd), _IOC_TYPE(cmd), _IOC_NR(cmd),
		    (_IOC_SIZE(cmd) + by));
}

/* How a call differs from a good one, and what it then returns. */
struct abi_try {
	int by;			/* bytes longer */
	unsigned char tail;	/* what these are */
	long want;
	const char *what;
};

static void abi_call(int fd, unsigned long cmd, const void *arg, const struct abi_try *t)
{
	size_t size = _IOC_SIZE(cmd);
	unsigned char buf[512];
	long ret;

	CHECK(size + 8 <= sizeof(buf));
	memset(buf, t->tail, sizeof(buf));
	memcpy(buf, arg, size);
	ret = k_ioctl(fd, cmd_resized(cmd, t->by), buf);
	if (ret > 2 && t->want == 0) {	/* a descriptor */
		close(ret);
		ret = 0;
	}
	CHECKF(ret == t->want, "command %#lx, %s: %ld, not %ld", cmd, t->what, ret,
	       t->want);
}

void k_abi_check(int fd, unsigned long cmd, const void *arg, long want,
		 const struct k_range *zero, size_t nr)
{
	const struct abi_try sizes[] = {
		{ 0, 0, want, "as it is" },
		{ -8, 0, -EINVAL, "8 bytes shorter" },
		{ 8, 0, want, "8 zeroes longer" },
		{ 8, 1, -E2BIG, "8 ones longer" },
	};
	size_t size = _IOC_SIZE(cmd), i, j;
	unsigned char buf[512];
	char what[64];

	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		abi_call(fd, cmd, arg, &sizes[i]);
	for (i = 0; i < nr; i++) {
		for (j = 0; j < zero[i].len * 8; j++) {
			memcpy(buf, arg, size);
			buf[zero[i].off + j / 8] ^= 1u << (j % 8);
			snprintf(what, sizeof(what), "bit %zu of byte %zu",
				 j % 8, zero[i].off + j / 8);
			abi_call(fd, cmd, buf, &(struct abi_try){
				.want = -EINVAL, .what = what });
		}
	}
	CHECK_EQ(k_ioctl(fd, cmd, NULL), -EFAULT);
	CHECK_EQ(k_ioctl(fd, cmd, (void *)(uintptr_t)0xfffff000u), -EFAULT);
}

void k_abi_foreign(int fd, const unsigned long *others, size_t nr)
{
	unsigned char buf[512];
	size_t i;

	for (i = 0; i < nr; i++) {
		memset(buf, 0, sizeof(buf));
		CHECKF(k_ioctl(fd, others[i], buf) == -ENOTTY,
		       "command %#lx is known here", others[i]);
	}
}

/* ---- faults ------------------------------------------------------------ */

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	close(fd);
	return n < 0 ? -1 : 0;
}

/*
 * All that take a fault of fail-nth: one left out would take it outside of the module, a
 * thread's last futex while it is killed for one, and tell the console so.
 */
static const char *const fault_dirs[] = {
	"failslab", "fail_page_alloc", "fail_usercopy", "fail_futex",
};

static int fault_set(const char *name, const char *text)
{
	char path[128];
	int err = 0;

	for (size_t i = 0; i < sizeof(fault_dirs) / sizeof(*fault_dirs); i++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", fault_dirs[i], name);
		if (write_file(path, text))
			err = -1;
	}
	return err;
}

void k_fail_prepare(void)
{
	fault_set("verbose", "0");
	fault_set("ignore-gfp-wait", "0");
	fault_set("ignore-gfp-highmem", "0");
	fault_set("min-order", "0");
}

bool k_fail_within(const char *module)
{
	unsigned long long size, base = 0;
	char line[512], name[64], text[32];
	FILE *f = fopen("/proc/modules", "r");

	while (f && !base && fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, "0x");

		if (sscanf(line, "%63s %llu", name, &size) == 2 && !strcmp(name, module) && at)
			base = strtoull(at, NULL, 16);
	}
	if (f)
		fclose(f);
	if (!base)
		return false;
	snprintf(text, sizeof(text), "%#llx", base);
	if (fault_set("require-start", text))
		return false;
	snprintf(text, sizeof(text), "%#llx", base + size);
	return !fault_set("require-end", text);
}

/* Whether the fault was injected: the file counts down to 0. */
static int fail_left(int fd)
{
	char buf[32] = "";

	/* Reading is a call too: a fault still left for it fails it. */
	if (pread(fd, buf, sizeof(buf) - 1, 0) < 0)
		return 1;
	return atoi(buf);
}

int k_fail_nth(const char *name, long (*fn)(void *arg), void *arg,
	       const int *errors)
{
	int fd = open("/proc/self/fail-nth", O_RDWR), n, i, left;
	char buf[32];
	long ret;

	if (fd < 0)
		return 0;
	k_fail_prepare();
	for (n = 1; n < 10000; n++) {
		snprintf(buf, sizeof(buf), "%d", n);
		CHECK(pwrite(fd, buf, strlen(buf), 0) > 0);
		ret = fn(arg);
		left = fail_left(fd);
		while (pwrite(fd, "0", 1, 0) < 0)	/* fails too */
			CHECK_EQ(errno, EFAULT);
		for (i = 0; errors && errors[i] && errors[i] != ret; i++)
			;
		CHECKF(ret == 0 || ret == -ENOMEM || (errors && errors[i]),
		       "%s with fault %d: %ld", name, n, ret);
		/* Not reached: the whole call went without a fault. */
		if (left) {
			CHECKF(ret == 0, "%s without a fault: %ld", name, ret);
			break;
		}
	}
	close(fd);
	CHECKF(n < 10000, "%s does not end", name);
	printf("# %s: %d faults\n", name, n - 1);
	return n - 1;
}

void k_no_fd(long (*fn)(void *arg), void *arg)
{
	struct rlimit old, lim;
	int fd = dup(0), i;

	CHECK(fd >= 0);
	close(fd);	/* the lowest free one; whatever is above stays open */
	for (i = fd + 1; i < 1024; i++)
		CHECK(fcntl(i, F_GETFD) < 0);
	CHECK(!getrlimit(RLIMIT_NOFILE, &old));
	lim = old;
	lim.rlim_cur = fd;
	CHECK(!setrlimit(RLIMIT_NOFILE, &lim));
	CHECK_EQ(fn(arg), -EMFILE);
	CHECK_EQ(fn(arg), -EMFILE);
	lim.rlim_cur = fd + 1;
	CHECK(!setrlimit(RLIMIT_NOFILE, &lim));
	CHECK_EQ(fn(arg), 0);
	CHECK(!setrlimit(RLIMIT_NOFILE, &old));
}

bool k_stall_at(const char *where)
{
	int fd = open("/sys/module/rlx/parameters/stall_at", O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = write(fd, where, strlen(where));
	close(fd);
	return n > 0;
}

void k_stalled_wait(void)
{
	for (int i = 0; i < 60000; i++) {
		if (k_file_number("/sys/module/rlx/parameters/stalled") > 0)
			return;
		usleep(1000);
	}
	CHECKF(false, "nobody stopped there");
}
