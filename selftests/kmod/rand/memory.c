// SPDX-License-Identifier: MIT
/* Random programs: what is done to any mapping and to any descriptor. */
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rand/rand.h"

#define PAGE	4096u
#define TOUCH		(8 * PAGE)	/* at most, at once */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif

/* ---- memory ---- */

/* A piece of something mapped, or not. */
static char *rnd_span(struct rnd *r, size_t *length)
{
	uint32_t slot = rnd_below(r, RND_SLOTS);
	size_t pages = r->mapped[slot] / PAGE, at;

	for (int i = 0; !pages && i < 4; i++) {
		slot = rnd_below(r, RND_SLOTS);
		pages = r->mapped[slot] / PAGE;
	}
	if (!pages)
		pages = 4;
	at = rnd_below(r, (uint32_t)pages);
	*length = (1 + rnd_below(r, (uint32_t)(pages - at))) * (size_t)PAGE;
	if (rnd_one_in(r, 2)) {
		*length = pages * PAGE;
		at = 0;
	}
	return r->window + slot * RND_SLOT + at * PAGE;
}

/* Never a hole: another thread's memory might come to lie there. */
static void op_unmap(struct rnd *r)
{
	size_t length;
	char *p = rnd_span(r, &length);

	rnd_blank(p, length);
	rnd_count(r, RND_MEMORY, 0);
	r->mapped[(size_t)(p - r->window) / RND_SLOT] = 0;
}

static void op_protect(struct rnd *r)
{
	static const int prots[] = {
		PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE,
		PROT_READ | PROT_EXEC,
	};
	size_t length;
	char *p = rnd_span(r, &length);

	rnd_count(r, RND_MEMORY, mprotect(p, length, prots[rnd_below(r, 5)]) ? -errno : 0);
}

static void op_remap(struct rnd *r)
{
	uint32_t from = rnd_below(r, RND_SLOTS), to = rnd_below(r, RND_SLOTS);
	size_t length = r->mapped[from], more = length;
	char *p = r->window + from * RND_SLOT;
	void *q;

	if (from == to || !length)
		return;
	if (rnd_one_in(r, 4) && length > PAGE)
		more -= PAGE;
	if (rnd_one_in(r, 4) && length < RND_SLOT)
		more += PAGE;
	q = mremap(p, length, more, MREMAP_MAYMOVE | MREMAP_FIXED, r->window + to * RND_SLOT);
	rnd_count(r, RND_MEMORY, q == MAP_FAILED ? -errno : 0);
	if (q == MAP_FAILED)
		rnd_blank(r->window + to * RND_SLOT, more);
	rnd_blank(p, length);
	r->mapped[from] = 0;
	r->mapped[to] = q == MAP_FAILED ? 0 : more;
}

/* The same file again, at an offset that nobody checked when it was mapped. */
static void op_remap_file(struct rnd *r)
{
	size_t length;
	char *p = rnd_span(r, &length);
	uint64_t page = rnd_u64(r, rnd_below(r, 64));
	long ret = syscall(SYS_remap_file_pages, p, length, 0, page, 0);

	rnd_count(r, RND_MEMORY, ret ? -errno : 0);
	/* What was there may be gone. */
	if (ret)
		rnd_blank(p, length);
}

static void op_advise(struct rnd *r)
{
	static const int advice[] = {
		MADV_DONTNEED, MADV_WILLNEED, MADV_SEQUENTIAL, MADV_DONTFORK, MADV_DOFORK,
		MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLD, MADV_PAGEOUT, MADV_FREE,
		MADV_REMOVE, MADV_MERGEABLE, MADV_WIPEONFORK, MADV_DODUMP,
		MADV_POPULATE_READ, MADV_POPULATE_WRITE,
	};
	size_t length;
	char *p = rnd_span(r, &length);
	int a = advice[rnd_below(r, sizeof(advice) / sizeof(*advice))];

	rnd_count(r, RND_MEMORY, madvise(p, length, a) ? -errno : 0);
}

static void op_lock(struct rnd *r)
{
	unsigned char resident[1024];
	size_t length;
	char *p = rnd_span(r, &length);
	int ret;

	switch (rnd_below(r, 4)) {
	case 0:
		ret = mlock(p, length > 64 * PAGE ? 64 * PAGE : length);
		break;
	case 1:
		ret = munlock(p, length);
		break;
	case 2:
		ret = msync(p, length, rnd_one_in(r, 2) ? MS_SYNC : MS_ASYNC);
		break;
	default:
		ret = mincore(p, length, resident);
	}
	rnd_count(r, RND_MEMORY, ret ? -errno : 0);
}

static void op_touch(struct rnd *r)
{
	uint64_t word = 1;
	size_t length;
	char *p = rnd_span(r, &length);
	bool there = true;
	ssize_t n;

	switch (rnd_below(r, 4)) {
	case 0:		/* the kernel writes */
		n = pread(r->w->scratch, p, length > TOUCH ? TOUCH : length, 0);
		there = n >= 0;
		break;
	case 1:
		n = pwrite(r->w->scratch, p, length > TOUCH ? TOUCH : length, 0);
		there = n >= 0;
		break;
	default:
		for (size_t at = 0; there && at < length && at < TOUCH; at += PAGE)
			there = rnd_one_in(r, 2) ? rnd_copy(p + at, &word, 8) :
						   rnd_copy(&word, p + at, 8);
	}
	rnd_count(r, RND_MEMORY, there ? 0 : -EFAULT);
}

/* A child has the descriptors and some of the mappings; and goes, or is killed. */
static void op_fork(struct rnd *r)
{
	bool die = rnd_one_in(r, 4);
	pid_t pid = fork();

	if (!pid) {
		signal(SIGALRM, SIG_DFL);
		alarm(2);
		r->has_ring = false;
		r->seed = ~r->seed;	/* another program */
		for (int i = 0; i < 12; i++)
			rnd_step(r);
		if (die)
			kill(getpid(), SIGKILL);
		_exit(0);
	}
	rnd_count(r, RND_FILE, pid < 0 ? -errno : 0);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* ---- descriptors ---- */

static void op_close(struct rnd *r)
{
	enum rnd_kind kind = rnd_below(r, RND_KINDS);
	struct rnd_thing *t = rnd_pick(r, kind);

	/* A world without a session or service has little to offer. */
	if (!t || ((kind == RND_SESSION || kind == RND_SERVICE) && !rnd_one_in(r, 4)))
		return;
	rnd_drop(r, kind, t);
}

static void op_copy(struct rnd *r)
{
	enum rnd_kind kind = rnd_below(r, RND_KINDS);
	struct rnd_thing *t = rnd_pick(r, kind), was, *n;
	char *area;
	int fd;

	if (!t || kind == RND_EXECUTOR || kind == RND_CHANNEL)
		return;
	was = *t;
	fd = fcntl(was.fd, F_DUPFD_CLOEXEC, 3);
	rnd_count(r, RND_FILE, fd < 0 ? -errno : 0);
	if (fd < 0)
		return;
	n = rnd_place(r, kind, fd);
	area = n->area;
	was.fd = fd;
	was.area = area;
	*n = was;
}

/* Through a socket, where it stays for a while, and may be the last reference. */
static void op_pass(struct rnd *r)
{
	enum rnd_kind kind = rnd_below(r, RND_KINDS);
	struct rnd_thing *t = rnd_pick(r, kind);
	char data = 0, control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec io = { &data, 1 };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int fd;

	if (t && rnd_one_in(r, 2)) {
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &t->fd, sizeof(int));
		rnd_count(r, RND_PASS, sendmsg(r->w->pair[0], &m, MSG_DONTWAIT) < 0 ?
			  -errno : 0);
		if (rnd_one_in(r, 4))
			rnd_drop(r, kind, t);
		return;
	}
	if (recvmsg(r->w->pair[1], &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
		return;
	c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return;
	memcpy(&fd, CMSG_DATA(c), sizeof(int));
	/* Of which kind it is is forgotten: good for trying everything on it. */
	rnd_place(r, RND_OTHER, fd);
	rnd_count(r, RND_PASS, 0);
}

static void op_poll(struct rnd *r)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | (rnd_one_in(r, 2) ? EPOLLET : 0) };
	struct rnd_thing *e = rnd_pick(r, RND_OTHER), *t;
	struct pollfd p[4];
	int n;

	for (int i = 0; i < 4; i++) {
		t = rnd_pick(r, rnd_below(r, RND_KINDS));
		p[i].fd = t ? t->fd : -1;
		p[i].events = POLLIN | POLLOUT;
	}
	if (!e || rnd_one_in(r, 16)) {
		rnd_place(r, RND_OTHER, epoll_create1(EPOLL_CLOEXEC));
		return;
	}
	switch (rnd_below(r, 3)) {
	case 0:
		n = epoll_ctl(e->fd, rnd_one_in(r, 3) ? EPOLL_CTL_DEL : EPOLL_CTL_ADD,
			      p[0].fd, &ev);
		break;
	case 1:
		n = epoll_wait(e->fd, &ev, 1, 0);
		break;
	default:
		n = poll(p, 4, rnd_one_in(r, 16));
	}
	rnd_count(r, RND_POLL, n < 0 ? -errno : 0);
}

static void rnd_read_file(struct rnd *r, const char *path)
{
	char text[512];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	rnd_count(r, RND_FILE, read(fd, text, sizeof(text)) < 0 ? -errno : 0);
	close(fd);
}

/* What every file may be asked. */
static void op_file(struct rnd *r)
{
	struct rnd_thing *t = rnd_pick(r, rnd_below(r, RND_KINDS));
	char path[64], text[16] = "";
	long ret = 0;

	if (!t)
		return;
	switch (rnd_below(r, 9)) {
	case 0:
	case 1:
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", t->fd);
		rnd_read_file(r, path);
		return;
	case 2:
		rnd_read_file(r, rnd_one_in(r, 2) ? "/sys/class/misc/rlx/nr_arenas" :
						    "/sys/kernel/debug/dma_buf/bufinfo");
		return;
	case 3:
		ret = fcntl(t->fd, F_SETFL, O_NONBLOCK);
		ret = read(t->fd, text, 8);
		break;
	case 4:
		ret = fcntl(t->fd, F_SETFL, O_NONBLOCK);
		ret = write(t->fd, text, 8);
		break;
	case 5:
		ret = lseek(t->fd, (off_t)rnd_u64(r, 0), SEEK_SET);
		break;
	case 6:
		ret = ftruncate(t->fd, (off_t)rnd_u64(r, 32 * PAGE) & 0xfffff);
		break;
	case 7:
		ret = fsync(t->fd);
		break;
	case 8:
		snprintf(path, sizeof(path), "/proc/self/fd/%d", t->fd);
		ret = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
		if (ret > 2)
			rnd_place(r, RND_OTHER, (int)ret);
	}
	rnd_count(r, RND_FILE, ret < 0 ? -errno : 0);
}

const struct rnd_op rnd_ops_memory[] = {
	{ op_unmap, 32 },	{ op_protect, 40 },	{ op_remap, 20 },
	{ op_remap_file, 8 },	{ op_advise, 40 },	{ op_lock, 24 },	{ op_touch, 96 },
	{ op_fork, 1 },		{ op_close, 40 },	{ op_copy, 20 },
	{ op_pass, 24 },	{ op_poll, 56 },	{ op_file, 40 },
	{ NULL, 0 },
};
