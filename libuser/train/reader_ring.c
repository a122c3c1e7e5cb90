// SPDX-License-Identifier: MIT
/* A ring of io_uring, by its system calls: set up, mapped, entered. */
#include <errno.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "train/reader_impl.h"

/* The kernel registers at most 1 GiB as one buffer. */
static const uint64_t buffer_bytes = 1ull << 30;

static unsigned int load(const unsigned int *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void store(unsigned int *p, unsigned int v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static int map_rings(struct ring *g, const struct io_uring_params *p)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
	char *sq, *cq;

	g->sq_bytes = p->sq_off.array + p->sq_entries * sizeof(unsigned int);
	g->cq_bytes = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
	g->sqe_bytes = p->sq_entries * sizeof(struct io_uring_sqe);
	g->sq_map = mmap(NULL, g->sq_bytes, prot, flags, g->fd, IORING_OFF_SQ_RING);
	g->cq_map = mmap(NULL, g->cq_bytes, prot, flags, g->fd, IORING_OFF_CQ_RING);
	g->sqe = mmap(NULL, g->sqe_bytes, prot, flags, g->fd, IORING_OFF_SQES);
	if (g->sq_map == MAP_FAILED || g->cq_map == MAP_FAILED || g->sqe == MAP_FAILED)
		return errno;
	sq = g->sq_map;
	cq = g->cq_map;
	g->sq_head = (unsigned int *)(sq + p->sq_off.head);
	g->sq_tail = (unsigned int *)(sq + p->sq_off.tail);
	g->sq_mask = (unsigned int *)(sq + p->sq_off.ring_mask);
	g->sq_array = (unsigned int *)(sq + p->sq_off.array);
	g->cq_head = (unsigned int *)(cq + p->cq_off.head);
	g->cq_tail = (unsigned int *)(cq + p->cq_off.tail);
	g->cq_mask = (unsigned int *)(cq + p->cq_off.ring_mask);
	g->cqe = (struct io_uring_cqe *)(cq + p->cq_off.cqes);
	g->entries = p->sq_entries;
	return 0;
}

/* Once pinned and mapped for the kernel, instead of at each transfer. */
static int register_memory(struct reader *r)
{
	struct iovec v[RING_BUFFERS_MAX];
	unsigned int n = 0;
	uint64_t at;

	if (!r->bytes || r->bytes > buffer_bytes * RING_BUFFERS_MAX)
		return EFBIG;
	for (at = 0; at < r->bytes; at += buffer_bytes, n++)
		v[n] = (struct iovec){
			r->memory + at,
			r->bytes - at < buffer_bytes ? r->bytes - at : buffer_bytes,
		};
	return syscall(SYS_io_uring_register, r->ring.fd, IORING_REGISTER_BUFFERS, v, n) < 0 ?
	       errno : 0;
}

int ring_open(struct reader *r, const char **what)
{
	struct io_uring_params p = { 0 };
	struct ring *g = &r->ring;
	int e;

	g->sq_map = g->cq_map = MAP_FAILED;
	g->sqe = MAP_FAILED;
	g->wake = -1;
	/* one more for the eventfd */
	g->fd = (int)syscall(SYS_io_uring_setup, r->depth + 1, &p);
	if (g->fd < 0) {
		*what = strerror(errno);
		return errno;
	}
	e = map_rings(g, &p);
	if (!e) {
		g->wake = eventfd(0, EFD_CLOEXEC);
		e = g->wake < 0 ? errno : 0;
	}
	if (e) {
		ring_close(r);
		*what = strerror(e);
		return e;
	}
	e = register_memory(r);
	g->registered = !e;
	*what = e == ENOMEM ? "memory not registered (RLIMIT_MEMLOCK)" : "memory not registered";
	return 0;
}

void ring_close(struct reader *r)
{
	struct ring *g = &r->ring;

	if (g->waits_for_wake) {	/* its read is into our memory: let it end */
		bool woken = false;

		ring_wake(r);
		while (!woken)
			ring_reap(r, &woken);
	}
	if (g->sq_map != MAP_FAILED)
		munmap(g->sq_map, g->sq_bytes);
	if (g->cq_map != MAP_FAILED)
		munmap(g->cq_map, g->cq_bytes);
	if (g->sqe != MAP_FAILED)
		munmap(g->sqe, g->sqe_bytes);
	close(g->fd);
	if (g->wake >= 0)
		close(g->wake);
}

/* There is room: no more than depth + 1 are ever in flight. */
static struct io_uring_sqe *next_sqe(struct ring *g)
{
	unsigned int tail = *g->sq_tail, i = tail & *g->sq_mask;

	memset(&g->sqe[i], 0, sizeof(g->sqe[i]));
	g->sq_array[i] = i;
	return &g->sqe[i];
}

static void push(struct ring *g)
{
	store(g->sq_tail, *g->sq_tail + 1);
	g->to_submit++;
}

void ring_start(struct reader *r, struct reader_req *q)
{
	struct io_uring_sqe *s = next_sqe(&r->ring);
	char *p = (char *)q->data + q->done;
	uint64_t at = (uint64_t)(p - r->memory);
	uint32_t n = q->bytes - q->done;

	/* one that straddles two registered buffers goes without */
	bool fixed = r->ring.registered && at / buffer_bytes == (at + n - 1) / buffer_bytes;

	s->opcode = fixed ? (q->write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED)
			  : (q->write ? IORING_OP_WRITE : IORING_OP_READ);
	s->fd = q->fd;
	s->off = q->offset + q->done;
	s->addr = (uintptr_t)p;
	s->len = n;
	s->buf_index = fixed ? (uint16_t)(at / buffer_bytes) : 0;
	s->user_data = (uintptr_t)q;
	push(&r->ring);
}

static void arm_wake(struct ring *g)
{
	struct io_uring_sqe *s;

	if (g->waits_for_wake)
		return;
	s = next_sqe(g);
	s->opcode = IORING_OP_READ;
	s->fd = g->wake;
	s->addr = (uintptr_t)&g->woken;
	s->len = sizeof(g->woken);
	push(g);
	g->waits_for_wake = true;
}

/* Submit all and wait for one, unless one is there. */
static void enter(struct ring *g)
{
	bool some = load(g->cq_tail) != *g->cq_head;
	int n;

	do {
		n = (int)syscall(SYS_io_uring_enter, g->fd, g->to_submit, !some,
				 some ? 0 : IORING_ENTER_GETEVENTS, NULL, 0);
		if (n > 0)
			g->to_submit -= (unsigned int)n;
		/* EBUSY, EAGAIN: the kernel wants completions taken, or memory, first */
		if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EBUSY)
			break;
		some = load(g->cq_tail) != *g->cq_head;
	} while (n < 0 && !some);
}

struct reader_req *ring_reap(struct reader *r, bool *woken)
{
	struct ring *g = &r->ring;
	struct reader_req *done = NULL, *q;
	unsigned int head;

	arm_wake(g);
	enter(g);
	for (head = *g->cq_head; head != load(g->cq_tail); head++) {
		struct io_uring_cqe *c = &g->cqe[head & *g->cq_mask];

		q = (struct reader_req *)(uintptr_t)c->user_data;
		if (!q) {
			g->waits_for_wake = false;
			*woken = true;
			continue;
		}
		q->error = c->res;
		q->next = done;
		done = q;
	}
	store(g->cq_head, head);
	return done;
}

void ring_wake(struct reader *r)
{
	uint64_t one = 1;
	ssize_t n;

	do
		n = write(r->ring.wake, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
}
