// SPDX-License-Identifier: MIT
/*
 * Ranks of a host in shared memory: seats, meetings (barriers), sums in a fixed order. Whoever
 * waits looks whether the others live, by their pidfds: a process that ends in whatever way is
 * seen at once, and one that takes its pid is not taken for it.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "train/comm.h"

static const uint64_t magic = UINT64_C(0x314d4d4f43584c52);	/* "RLXCOMM1" */

/* How long a wait goes on until it looks after the others, and then how often. */
enum { LOOK_NS = 50000000 };

uint64_t comm_shared_bytes(unsigned int ranks)
{
	return rlx_align64(sizeof(struct comm_shared) + ranks * sizeof(struct comm_seat)) +
	       (ranks + 1ull) * COMM_SLOT;
}

void comm_shared_init(void *base, unsigned int ranks)
{
	struct comm_shared *sh = base;

	sh->ranks = ranks;
	sh->slot = COMM_SLOT;
	sh->magic = magic;
}

static struct comm_seat *own_seat(struct rlx_comm *c)
{
	return &c->sh->seat[c->collective.rank];
}

static uint64_t pid_space(void)
{
	struct stat s;

	return stat("/proc/self/ns/pid", &s) ? 0 : s.st_ino;
}

enum rlx_status comm_sit_down(struct rlx_comm *c, struct rlx_error *err)
{
	unsigned int ranks = c->collective.ranks, rank = c->collective.rank;
	struct comm_shared *sh = rlx_arena_base(c->arena);
	uint32_t absent = COMM_ABSENT;

	if (rlx_arena_size(c->arena) < sizeof(*sh) || sh->magic != magic ||
	    sh->slot != COMM_SLOT || rlx_arena_size(c->arena) < comm_shared_bytes(sh->ranks))
		return rlx_fail(err, RLX_EPROTO, "communicator: the memory to meet at is none of "
				"this build's rlx_comm_arena()");
	c->sh = sh;
	if (sh->ranks != ranks)
		comm_failed(c, RLX_EPROTO, "rank %u is of %u ranks, the others of %u", rank, ranks,
			    sh->ranks);
	else if (!atomic_compare_exchange_strong(&sh->seat[rank].state, &absent, COMM_HERE))
		comm_failed(c, RLX_EEXIST, "two processes are rank %u, or one was before", rank);
	if (c->err.status) {
		c->sh = NULL;		/* the seat is another's */
		return rlx_fail(err, c->err.status, "communicator: %s", c->err.text);
	}
	c->slots = (char *)sh + rlx_align64(sizeof(*sh) + ranks * sizeof(struct comm_seat));
	own_seat(c)->pid_space = pid_space();
	__atomic_store_n(&own_seat(c)->pid, (uint32_t)getpid(), __ATOMIC_RELEASE);
	return RLX_OK;
}

static void wake(struct comm_shared *sh)
{
	syscall(SYS_futex, &sh->meeting, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void comm_stand_up(struct rlx_comm *c)
{
	if (!c->sh)
		return;
	atomic_store(&own_seat(c)->state, COMM_LEFT);
	wake(c->sh);
}

/* ---- failures ---- */

static enum rlx_status take_over(struct rlx_comm *c)
{
	if (!c->err.status)
		rlx_fail(&c->err, c->sh->status, "%.*s", COMM_WHY, c->sh->why);
	return c->err.status;
}

enum rlx_status comm_failed(struct rlx_comm *c, enum rlx_status st, const char *fmt, ...)
{
	char text[COMM_WHY];
	uint32_t nobody = 0;
	va_list ap;

	if (c->err.status)
		return c->err.status;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (atomic_compare_exchange_strong(&c->sh->failing, &nobody, 1)) {
		snprintf(c->sh->why, sizeof(c->sh->why), "%s", text);
		c->sh->status = st;
		atomic_store(&c->sh->failed, 1);
		wake(c->sh);
	}
	return rlx_fail(&c->err, st, "%s", text);
}

void rlx_comm_fail(struct rlx_comm *c, const char *why)
{
	uint32_t nobody = 0;

	if (!c || !atomic_compare_exchange_strong(&c->sh->failing, &nobody, 1))
		return;
	snprintf(c->sh->why, sizeof(c->sh->why), "rank %u failed: %s", c->collective.rank,
		 why ? why : "it does not say why");
	c->sh->status = RLX_ECANCELED;
	atomic_store(&c->sh->failed, 1);
	wake(c->sh);
}

/* Has the process of seat @r ended? What cannot be known is taken to live. */
static bool is_dead(struct rlx_comm *c, unsigned int r)
{
	struct comm_seat *seat = &c->sh->seat[r];
	uint32_t pid = __atomic_load_n(&seat->pid, __ATOMIC_ACQUIRE);
	struct pollfd p = { .events = POLLIN };

	if (!pid || seat->pid_space != own_seat(c)->pid_space)
		return false;
	if (c->pidfd[r] < 0) {
		c->pidfd[r] = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
		if (c->pidfd[r] < 0)
			return errno == ESRCH;
	}
	p.fd = c->pidfd[r];
	return poll(&p, 1, 0) > 0;
}

void comm_watch(struct rlx_comm *c)
{
	unsigned int r;

	for (r = 0; r < c->sh->ranks; r++)
		if (r != c->collective.rank)
			is_dead(c, r);
}

enum rlx_status comm_look(struct rlx_comm *c)
{
	struct comm_shared *sh = c->sh;
	unsigned int r;

	if (c->err.status)
		return c->err.status;
	if (atomic_load(&sh->failed))
		return take_over(c);
	for (r = 0; r < sh->ranks; r++) {
		uint32_t state = atomic_load(&sh->seat[r].state);

		if (r == c->collective.rank || state == COMM_ABSENT)
			continue;
		/* who left after this meeting, or sum, came to it first */
		if (state == COMM_LEFT &&
		    (atomic_load(&sh->seat[r].met) < c->meetings ||
		     atomic_load(&sh->seat[r].sums) < atomic_load(&own_seat(c)->sums)))
			return comm_failed(c, RLX_EPIPE, "rank %u (pid %u) has left, and rank %u "
					   "waits for it", r, sh->seat[r].pid, c->collective.rank);
		if (state == COMM_HERE && is_dead(c, r) &&
		    atomic_load(&sh->seat[r].state) == COMM_HERE)
			return comm_failed(c, RLX_EOWNERDEAD, "rank %u (pid %u) died", r,
					   sh->seat[r].pid);
	}
	return RLX_OK;
}

/* By number: who never came, or not to this meeting. */
enum rlx_status comm_too_late(struct rlx_comm *c)
{
	unsigned int r, n = 0;
	char list[80] = "";
	size_t at = 0;

	for (r = 0; r < c->sh->ranks; r++)
		if ((atomic_load(&c->sh->seat[r].state) == COMM_ABSENT ||
		     atomic_load(&c->sh->seat[r].met) < c->meetings) && ++n &&
		    at < sizeof(list) - 8)
			at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%u",
					       at ? ", " : "", r);
	return comm_failed(c, RLX_ETIME, "%s %s did not come within %.3g s", n == 1 ? "rank" :
			   "ranks", list, (double)c->timeout * 1e-9);
}

/* ---- meetings ---- */

static enum rlx_status wait_for(struct rlx_comm *c, uint32_t meeting)
{
	const struct timespec nap = { .tv_nsec = LOOK_NS };
	uint64_t now = rlx_now(), until = now + c->timeout, was;
	enum rlx_status st = RLX_OK;

	while (!st && atomic_load(&c->sh->meeting) == meeting) {
		if (atomic_load(&c->sh->failed))
			return take_over(c);
		if (syscall(SYS_futex, &c->sh->meeting, FUTEX_WAIT, meeting, &nap, NULL, 0) &&
		    errno == ETIMEDOUT)
			st = comm_look(c);
		was = now;
		now = rlx_now();
		until += comm_stopped(was, now);
		if (!st && atomic_load(&c->sh->meeting) == meeting && now > until)
			st = comm_too_late(c);
	}
	/* it took place, whatever came after */
	return st;
}

static const char *what_of(uint32_t what)
{
	static const char *const names[] = {
		[COMM_BARRIER] = "waits for all", [COMM_SUM] = "sums",
		[COMM_SCATTER] = "sums parts", [COMM_GATHER] = "gathers",
		[COMM_BROADCAST] = "broadcasts", [COMM_AGREE] = "compares", [COMM_JOIN] = "begins",
	};

	return what <= COMM_JOIN ? names[what] : "?";
}

static enum rlx_status check_tags(struct rlx_comm *c, uint32_t half)
{
	const struct comm_tag *a = &c->sh->seat[0].tag[half], *b;
	unsigned int r;

	for (r = 1; r < c->sh->ranks; r++) {
		b = &c->sh->seat[r].tag[half];
		if (!memcmp(a, b, sizeof(*a)))
			continue;
		if (a->what == COMM_JOIN && b->what == COMM_JOIN)
			return comm_failed(c, RLX_EPROTO, "rank %u has another kind of communicator "
					   "than rank 0", r);
		return comm_failed(c, RLX_EPROTO, "rank %u %s (%llu of dtype %u) where rank 0 %s "
				   "(%llu of dtype %u): ranks do not run the same program", r,
				   what_of(b->what), (unsigned long long)b->count, b->dtype,
				   what_of(a->what), (unsigned long long)a->count, a->dtype);
	}
	return RLX_OK;
}

enum rlx_status comm_meet(struct rlx_comm *c, struct comm_tag tag, const void *word,
			  size_t bytes)
{
	struct comm_seat *seat = own_seat(c);
	uint32_t meeting = c->meetings, half = meeting & 1;
	enum rlx_status st = RLX_OK;

	if (c->err.status || atomic_load(&c->sh->failed))
		return take_over(c);
	seat->tag[half] = tag;
	if (word)
		memcpy(seat->word[half], word, bytes);
	c->meetings++;
	atomic_store(&seat->met, c->meetings);
	if (atomic_fetch_add(&c->sh->arrived, 1) + 1 == c->sh->ranks) {
		atomic_store(&c->sh->arrived, 0);
		atomic_store(&c->sh->meeting, meeting + 1);
		wake(c->sh);
	} else {
		st = wait_for(c, meeting);
	}
	return st ? st : check_tags(c, half);
}

const void *comm_word(const struct rlx_comm *c, unsigned int r)
{
	return c->sh->seat[r].word[(c->meetings - 1) & 1];
}

/* ---- sums ---- */

/* Of @n elements at @at of all slots, in the order of ranks. */
#define SUM(T)								\
	do {								\
		T *to = sum;						\
		uint64_t i;						\
		memcpy(to, (const T *)c->slots + at, n * sizeof(T));	\
		for (r = 1; r < c->sh->ranks; r++) {			\
			const T *x = (const T *)(c->slots + (size_t)r * COMM_SLOT) + at; \
			for (i = 0; i < n; i++)				\
				to[i] += x[i];				\
		}							\
	} while (0)

static void sum_part(struct rlx_comm *c, void *sum, uint64_t at, uint64_t n,
		     enum rlx_dtype dtype)
{
	unsigned int r;

	switch (dtype) {
	case RLX_F32:
		SUM(float);
		break;
	case RLX_F64:
		SUM(double);
		break;
	case RLX_I32:		/* wraps */
		SUM(uint32_t);
		break;
	default:
		SUM(uint64_t);
	}
}

static void *slot_of(const struct rlx_comm *c, unsigned int rank)
{
	return c->slots + (size_t)rank * COMM_SLOT;
}

static enum rlx_status check_dtype(struct rlx_comm *c, enum rlx_dtype dtype)
{
	if (dtype == RLX_F32 || dtype == RLX_F64 || dtype == RLX_I32 || dtype == RLX_I64)
		return RLX_OK;
	return comm_failed(c, RLX_ETYPE, "sums are of f64, f32, i64 and i32, not %s",
			   rlx_dtype_name(dtype));
}

/* As many elements as a slot has. */
static enum rlx_status sum_piece(struct rlx_comm *c, const void *src, void *dst, uint64_t n,
				 enum rlx_dtype dtype)
{
	struct comm_tag tag = { COMM_SUM, (uint32_t)dtype, n };
	unsigned int ranks = c->sh->ranks, rank = c->collective.rank;
	size_t each = rlx_dtype_size(dtype);
	char *sum = slot_of(c, ranks);
	/* parts begin at cache lines */
	uint64_t part = ((n + ranks - 1) / ranks + 15) / 16 * 16, at = part * rank;
	enum rlx_status st;

	memcpy(slot_of(c, rank), src, n * each);
	st = comm_meet(c, tag, NULL, 0);
	if (st)
		return st;
	if (at < n)
		sum_part(c, sum + at * each, at, n - at < part ? n - at : part, dtype);
	st = comm_meet(c, tag, NULL, 0);
	if (!st)	/* nobody writes there until all have come again */
		memcpy(dst, sum, n * each);
	return st;
}

enum rlx_status comm_sum(struct rlx_comm *c, const void *src, void *dst, uint64_t count,
			 enum rlx_dtype dtype)
{
	enum rlx_status st = check_dtype(c, dtype);
	size_t each = rlx_dtype_size(dtype);
	uint64_t at, n;

	for (at = 0; at < count && !st; at += n) {
		n = COMM_SLOT / each;
		n = count - at < n ? count - at : n;
		st = sum_piece(c, (const char *)src + at * each, (char *)dst + at * each, n, dtype);
	}
	return st;
}

/* @n elements from @at on of each rank's part of @src, as many as a slot has. */
static enum rlx_status scatter_piece(struct rlx_comm *c, const struct rlx_reduction *r,
				     uint64_t at, uint64_t n)
{
	struct comm_tag tag = { COMM_SCATTER, (uint32_t)r->dtype, n };
	size_t each = rlx_dtype_size(r->dtype);
	char *own = slot_of(c, c->collective.rank);
	enum rlx_status st;
	unsigned int i;

	for (i = 0; i < c->sh->ranks; i++)
		memcpy(own + i * n * each, (const char *)r->src + (i * r->count + at) * each,
		       n * each);
	st = comm_meet(c, tag, NULL, 0);
	if (st)
		return st;
	sum_part(c, (char *)r->dst + at * each, c->collective.rank * n, n, r->dtype);
	return comm_meet(c, tag, NULL, 0);	/* slots may be written again */
}

enum rlx_status comm_scatter(struct rlx_comm *c, const void *src, void *dst, uint64_t count,
			     enum rlx_dtype dtype)
{
	const struct rlx_reduction r = { .src = src, .dst = dst, .count = count, .dtype = dtype };
	enum rlx_status st = check_dtype(c, dtype);
	uint64_t at, n;

	for (at = 0; at < count && !st; at += n) {
		n = COMM_SLOT / rlx_dtype_size(dtype) / c->sh->ranks;
		n = count - at < n ? count - at : n;
		st = scatter_piece(c, &r, at, n);
	}
	return st;
}

enum rlx_status comm_gather(struct rlx_comm *c, const void *src, void *dst, uint64_t bytes)
{
	struct comm_tag tag = { .what = COMM_GATHER };
	enum rlx_status st = RLX_OK;
	uint64_t at, n;
	unsigned int i;

	for (at = 0; at < bytes && !st; at += n) {
		tag.count = n = bytes - at < COMM_SLOT ? bytes - at : COMM_SLOT;
		memcpy(slot_of(c, c->collective.rank), (const char *)src + at, n);
		st = comm_meet(c, tag, NULL, 0);
		for (i = 0; i < c->sh->ranks && !st; i++)
			memcpy((char *)dst + i * bytes + at, slot_of(c, i), n);
		if (!st)	/* slots may be written again */
			st = comm_meet(c, tag, NULL, 0);
	}
	return st;
}
