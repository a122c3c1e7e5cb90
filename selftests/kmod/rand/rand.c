// SPDX-License-Identifier: MIT
/* Random programs: dice, things, and the counting of calls. */
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "rand/rand.h"

#define PAGE	4096u
#define WILD	48u	/* one argument in that many */

/* ---- dice ---- */

uint32_t rnd_below(struct rnd *r, uint32_t n)
{
	return (uint32_t)((rlx_test_rand(&r->dice) >> 32) * n >> 32);
}

bool rnd_one_in(struct rnd *r, uint32_t n)
{
	return !rnd_below(r, n);
}

uint64_t rnd_u64(struct rnd *r, uint64_t good)
{
	static const uint64_t edge[] = {
		0, 1, 2, 3, 7, 63, 64, 65, 255, PAGE - 1, PAGE, PAGE + 1, 1u << 20,
		INT32_MAX, 1ull << 31, UINT32_MAX, 1ull << 32, 1ull << 47,
		(1ull << 47) - PAGE, 1ull << 63, INT64_MAX, UINT64_MAX - PAGE + 1,
		UINT64_MAX - 1, UINT64_MAX,
	};
	uint32_t n = sizeof(edge) / sizeof(*edge), which;

	if (!rnd_one_in(r, WILD))
		return good;
	r->wild = true;
	which = rnd_below(r, n + 4);
	switch (which - n) {
	case 0:
		return good + 1;
	case 1:
		return good - 1;
	case 2:
		return good ^ 1ull << rnd_below(r, 64);
	case 3:
		return rlx_test_rand(&r->dice);
	}
	return edge[which];
}

uint32_t rnd_u32(struct rnd *r, uint32_t good)
{
	return (uint32_t)rnd_u64(r, good);
}

uint64_t rnd_ptr(struct rnd *r, void *good)
{
	if (!rnd_one_in(r, WILD))
		return (uintptr_t)good;
	r->wild = true;
	switch (rnd_below(r, 4)) {
	case 0:
		return rnd_u64(r, 8);
	case 1:		/* the end of what is mapped comes soon */
		return (uintptr_t)r->keep + (64u << 10) - 8 * (1 + rnd_below(r, 16));
	case 2:		/* read-only */
		return (uintptr_t)rnd_calls;
	}
	return (uintptr_t)r->window + rnd_below(r, RND_SLOTS * RND_SLOT / 8) * 8ull;
}

static void *rnd_from(char *base, size_t *at, size_t bytes)
{
	bytes = (bytes + 63) & ~(size_t)63;
	if (*at + bytes > 64u << 10)
		*at = 0;
	*at += bytes;
	return memset(base + *at - bytes, 0, bytes);
}

void *rnd_piece(struct rnd *r, size_t bytes)
{
	return rnd_from(r->buf, &r->at, bytes);
}

void *rnd_keep(struct rnd *r, size_t bytes)
{
	return rnd_from(r->keep, &r->keep_at, bytes);
}

/* ---- things ---- */

struct rnd_thing *rnd_pick(struct rnd *r, enum rnd_kind kind)
{
	uint32_t first = rnd_below(r, RND_THINGS);

	for (uint32_t i = 0; i < RND_THINGS; i++) {
		struct rnd_thing *t = &r->w->thing[kind][(first + i) % RND_THINGS];

		if (t->fd >= 0)
			return t;
	}
	return NULL;
}

int rnd_fd(struct rnd *r, const struct rnd_thing *t)
{
	struct rnd_thing *other;

	if (!rnd_one_in(r, WILD))
		return t ? t->fd : -1;
	r->wild = true;
	if (rnd_one_in(r, 4))
		return (int)rnd_u32(r, 9999);
	other = rnd_pick(r, rnd_below(r, RND_KINDS));
	return other ? other->fd : -1;
}

void rnd_drop(struct rnd *r, enum rnd_kind kind, struct rnd_thing *t)
{
	int fd = __atomic_exchange_n(&t->fd, -1, __ATOMIC_RELAXED);

	if (fd >= 0)
		rnd_count(r, RND_FILE, close(fd) ? -errno : 0);
	/* Its areas keep it alive: sometimes they do. */
	if (t->area && !rnd_one_in(r, 8))
		rnd_blank(t->area, RND_AREAS * (size_t)RND_AREA);
	(void)kind;
}

struct rnd_thing *rnd_place(struct rnd *r, enum rnd_kind kind, int fd)
{
	struct rnd_thing *t = NULL, *all = r->w->thing[kind];
	char *area;

	for (int i = 0; i < RND_THINGS && !t; i++)
		if (all[i].fd < 0)
			t = &all[i];
	if (!t)
		t = &all[rnd_below(r, RND_THINGS)];
	rnd_drop(r, kind, t);
	area = t->area;
	memset(t, 0, sizeof(*t));
	t->area = area;
	__atomic_store_n(&t->fd, fd, __ATOMIC_RELAXED);
	return t;
}

/* ---- calls ---- */

void rnd_broken(struct rnd *r, const char *fmt, ...)
{
	struct rnd_tally *tally = r->w->tally;
	char text[sizeof(tally->broken)];
	va_list ap;
	int n;

	n = snprintf(text, sizeof(text), "--seed %llu: ", (unsigned long long)r->w->seed);
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	va_end(ap);
	if (!tally->broken[0])
		memcpy(tally->broken, text, sizeof(text));
}

long rnd_count(struct rnd *r, enum rnd_call call, long ret)
{
	uint32_t err = ret < 0 ? (uint32_t)-ret : 0;

	if (err >= RND_ERRNOS) {
		rnd_broken(r, "%s: %ld is no error of user space", rnd_calls[call].name, ret);
		err = RND_ERRNOS - 1;
	}
	__atomic_fetch_add(&r->w->tally->n[call][err], 1, __ATOMIC_RELAXED);
	r->calls++;
	if (r->w->verbose)
		printf("# %s%s: %ld\n", rnd_calls[call].name, r->wild ? " (wild)" : "", ret);
	return ret;
}

/* The struct as it is, or spoilt: a bit of it, its size, its place. */
static unsigned long rnd_spoil(struct rnd *r, unsigned long cmd, void **arg)
{
	size_t size = _IOC_SIZE(cmd);
	int by = 0;

	if (!rnd_one_in(r, WILD))
		return cmd;
	r->wild = true;
	switch (rnd_below(r, 5)) {
	case 0:
	case 1:
		((unsigned char *)*arg)[rnd_below(r, size)] ^= 1u << rnd_below(r, 8);
		return cmd;
	case 2:
		*arg = (void *)(uintptr_t)rnd_u64(r, 1ull << rnd_below(r, 64));
		return cmd;
	case 3:
		*arg = r->buf + (64u << 10) - size + 8 * (1 + rnd_below(r, 2));
		return cmd;
	}
	by = rnd_one_in(r, 2) ? 8 : -8;
	if (rnd_one_in(r, 2) && by > 0)
		((unsigned char *)*arg)[size + rnd_below(r, 8)] = 1;
	return _IOC(_IOC_DIR(cmd), _IOC_TYPE(cmd), _IOC_NR(cmd), size + by);
}

long rnd_ioctl(struct rnd *r, enum rnd_call call, int fd, void *arg, bool good)
{
	unsigned long cmd = rnd_spoil(r, rnd_calls[call].cmd, &arg);
	long ret;

	if (rnd_one_in(r, 200)) {
		r->wild = true;
		cmd = rnd_calls[rnd_below(r, RND_IOCTLS)].cmd;
		if (r->w->verbose)
			printf("# instead %#lx\n", cmd);
	}
	ret = k_ioctl(fd, cmd, arg);
	rnd_count(r, call, ret);
	if (r->wild) {
		__atomic_fetch_add(&r->w->tally->wild, 1, __ATOMIC_RELAXED);
		/* What the caller would take for its own kind may be another. */
		if (ret > 2 && cmd != rnd_calls[call].cmd)
			ret = 0;
	} else if (!r->w->race && !r->failing && (ret == -ENOTTY || (ret == -EINVAL && good))) {
		rnd_broken(r, "a good %s: %ld", rnd_calls[call].name, ret);
	}
	return ret;
}

bool rnd_made(struct rnd *r, long fd)
{
	if (fd > 2 && r->wild)
		close((int)fd);
	return fd > 2 && !r->wild;
}

void rnd_dup(struct rnd *r, enum rnd_call call, enum rnd_kind kind, size_t bytes)
{
	struct { uint32_t access, flags; } *d = rnd_piece(r, bytes + 8);
	struct rnd_thing *t = rnd_pick(r, kind), *n;
	uint64_t size = t ? t->size : 0;
	long fd;

	d->access = rnd_u32(r, rnd_one_in(r, 2) ? RLX_R : RLX_R | RLX_W);
	d->flags = rnd_u32(r, 0);
	fd = rnd_ioctl(r, call, rnd_fd(r, t), d, true);
	if (rnd_made(r, fd)) {
		n = rnd_place(r, kind, fd);
		n->size = size;
		n->access = d->access;
	}
}

/* ---- fault injection ---- */

#define FAULT_STEPS	16u	/* one step in that many */
#define FAULT_DEPTH	12u	/* most calls of the module allocate less often */

void rnd_fault_open(struct rnd *r)
{
	/* Not for those that gave up root: proc's files of theirs are root's. */
	r->fail_nth = r->w->faults ? open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC) : -1;
}

void rnd_fault_arm(struct rnd *r)
{
	bool arm = rnd_one_in(r, FAULT_STEPS);
	uint32_t nth = 1 + rnd_below(r, 1 + rnd_below(r, FAULT_DEPTH));
	char text[16];
	int n = snprintf(text, sizeof(text), "%u", nth);

	if (r->fail_nth < 0 || !arm)
		return;
	r->failing = pwrite(r->fail_nth, text, (size_t)n, 0) == n;
	if (r->failing && r->w->verbose)
		printf("# fault %u\n", nth);
}

void rnd_fault_disarm(struct rnd *r)
{
	char left[16] = "";

	if (!r->failing)
		return;
	r->failing = false;
	/* Reading is a call too, and meets what was left for it. */
	if (pread(r->fail_nth, left, sizeof(left) - 1, 0) > 0 && left[0] == '0')
		__atomic_fetch_add(&r->w->tally->faults, 1, __ATOMIC_RELAXED);
	while (pwrite(r->fail_nth, "0", 1, 0) < 0 && errno == EFAULT)
		;
}

/* ---- memory that may not be there ---- */

void rnd_blank(void *at, size_t bytes)
{
	mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
	     -1, 0);
}

long rnd_mmap(void *at, size_t bytes, int prot, int flags, int fd, uint64_t offset)
{
	void *p = mmap(at, bytes, prot, flags | MAP_FIXED, fd, (off_t)offset);
	long ret = -errno;

	if (p != MAP_FAILED)
		return 0;
	rnd_blank(at, bytes);
	return ret;
}

static _Thread_local sigjmp_buf rnd_back;
static _Thread_local volatile sig_atomic_t rnd_catching;

static void rnd_fault(int sig)
{
	if (rnd_catching) {
		rnd_catching = 0;
		siglongjmp(rnd_back, 1);
	}
	signal(sig, SIG_DFL);
}

void rnd_catch_faults(void)
{
	struct sigaction sa = { .sa_handler = rnd_fault, .sa_flags = SA_NODEFER };

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
}

static __attribute__((noinline)) void rnd_copy_bytes(void *dst, const void *src, size_t n)
{
	const volatile unsigned char *from = src;
	volatile unsigned char *to = dst;

	while (n--)
		*to++ = *from++;
}

bool rnd_copy(void *dst, const void *src, size_t n)
{
	if (sigsetjmp(rnd_back, 0))
		return false;
	rnd_catching = 1;
	rnd_copy_bytes(dst, src, n);
	rnd_catching = 0;
	return true;
}
