// SPDX-License-Identifier: MIT
/* The engine on io_uring: multishot accept and receive into provided buffers. */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/server.h"

enum { ENTRIES = 512, CQ_ENTRIES = 8192, GROUP = 1, OFFERED = 16 };

/*
 * What a completion is of: the low bits of its user data, above them whose. With
 * OP_ACCEPT that is the index of a listener, plus LISTENERS_MAX for a poll of it.
 */
enum op {
	OP_ACCEPT, OP_RECV, OP_FILL, OP_SEND, OP_WAKE, OP_IGNORE, OP_POLL_IN, OP_POLL_OUT,
	OP_MASK = 7,
};

struct uring {
	struct io_uring		 ring;
	struct io_uring_buf_ring *bufs;
	size_t			 bufs_bytes;
	/*
	 * The kernel takes chunks in the order they were offered in: were it all of them,
	 * all of their memory would be in use, by turns. As many are offered as once were
	 * needed; of the rest, those used last come first.
	 */
	unsigned int		 n_offered, may_offer;
	unsigned int		 n_idle;
	uint16_t		 idle[CHUNKS];
	const struct listener	*listener[LISTENERS_MAX];
	bool			 listening[LISTENERS_MAX];
	unsigned int		 n_listener;
	uint64_t		 wake_value;
	int64_t			 accept_at;	/* not before: descriptors ran out */
	int64_t			 look_at;	/* for missed connections */
	int64_t			 alone_at;	/* whoever served before us is gone */
	bool			 enabled, unlistened;
};

static struct io_uring_sqe *sqe_get(struct uring *u)
{
	struct io_uring_sqe *s = io_uring_get_sqe(&u->ring);

	while (!s) {
		io_uring_submit(&u->ring);
		s = io_uring_get_sqe(&u->ring);
	}
	return s;
}

static void sqe_tag(struct io_uring_sqe *s, const void *p, enum op op)
{
	s->user_data = (uint64_t)(uintptr_t)p | (uint64_t)op;
}

/* DEFER_TASKRUN came with 6.1; before it COOP_TASKRUN spares the interrupts. */
static int ring_init(struct uring *u)
{
	static const unsigned int flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_COOP_TASKRUN,
		0,
	};
	struct io_uring_params p;
	unsigned int i;
	int rc = -EINVAL;

	for (i = 0; i < 3 && rc == -EINVAL; i++) {
		memset(&p, 0, sizeof(p));
		p.flags = flags[i] | IORING_SETUP_CQSIZE | IORING_SETUP_R_DISABLED;
		p.cq_entries = CQ_ENTRIES;
		rc = io_uring_queue_init_params(ENTRIES, &u->ring, &p);
	}
	return rc;
}

static void offer(struct loop *l)
{
	struct uring *u = l->state;
	uint16_t id;

	for (; u->n_idle && u->n_offered < u->may_offer; u->n_offered++) {
		id = u->idle[--u->n_idle];
		io_uring_buf_ring_add(u->bufs, chunk_bytes(l, id), CHUNK_BYTES, id,
				      io_uring_buf_ring_mask(CHUNKS), 0);
		io_uring_buf_ring_advance(u->bufs, 1);
	}
}

static void give(struct loop *l, uint16_t id)
{
	struct uring *u = l->state;

	u->idle[u->n_idle++] = id;
	offer(l);
}

static void offer_more(struct loop *l)
{
	struct uring *u = l->state;

	u->may_offer += u->may_offer < CHUNKS;
	offer(l);
}

static uint16_t taken(struct loop *l, const struct io_uring_cqe *e)
{
	struct uring *u = l->state;

	u->n_offered--;
	offer(l);
	return (uint16_t)(e->flags >> IORING_CQE_BUFFER_SHIFT);
}

static int bufs_init(struct loop *l, struct uring *u)
{
	struct io_uring_buf_reg reg = { .ring_entries = CHUNKS, .bgid = GROUP };
	unsigned int i;
	void *p;
	int rc;

	u->bufs_bytes = CHUNKS * sizeof(struct io_uring_buf);
	p = mmap(NULL, u->bufs_bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	u->bufs = p;
	reg.ring_addr = (uint64_t)(uintptr_t)p;
	rc = io_uring_register_buf_ring(&u->ring, &reg, 0);
	if (rc)
		return rc;
	io_uring_buf_ring_init(u->bufs);
	u->may_offer = OFFERED;
	for (i = 0; i < CHUNKS; i++)
		give(l, (uint16_t)i);
	return 0;
}

static void uring_close(struct loop *l)
{
	struct uring *u = l->state;

	if (!u)
		return;
	io_uring_queue_exit(&u->ring);
	if (u->bufs)
		munmap(u->bufs, u->bufs_bytes);
	rlx_free(u);
	l->state = NULL;
}

/*
 * Sending without a copy came with 6.0, as did multishot receive, for which there
 * is no question to ask; provided buffer rings and multishot accept are older.
 */
static enum rlx_status uring_open(struct loop *l, struct rlx_error *err)
{
	struct uring *u = rlx_calloc(1, sizeof(*u));
	struct io_uring_probe *probe;
	int rc, ok;

	if (!u)
		return rlx_fail(err, RLX_ENOMEM, "io_uring: out of memory");
	rc = ring_init(u);
	if (rc) {
		rlx_free(u);
		return rlx_fail(err, RLX_ENOSUP, "io_uring: %s", strerror(-rc));
	}
	l->state = u;
	probe = io_uring_get_probe_ring(&u->ring);
	ok = probe && io_uring_opcode_supported(probe, IORING_OP_SENDMSG_ZC);
	io_uring_free_probe(probe);
	rc = ok ? bufs_init(l, u) : -EOPNOTSUPP;
	if (!rc)
		return RLX_OK;
	uring_close(l);
	return rlx_fail(err, RLX_ENOSUP, "io_uring: this kernel lacks %s: %s",
			ok ? "provided buffer rings" : "multishot receive", strerror(-rc));
}

static void arm_wake(struct loop *l)
{
	struct uring *u = l->state;
	struct io_uring_sqe *s = sqe_get(u);

	io_uring_prep_read(s, l->wake_fd, &u->wake_value, sizeof(u->wake_value), 0);
	sqe_tag(s, NULL, OP_WAKE);
}

static void arm_accept(struct uring *u, unsigned int i)
{
	struct io_uring_sqe *s = sqe_get(u);

	io_uring_prep_multishot_accept(s, u->listener[i]->fd, NULL, NULL, SOCK_CLOEXEC);
	s->user_data = (uint64_t)i << 3 | OP_ACCEPT;
	u->listening[i] = true;
}

static bool uring_listen(struct loop *l, const struct listener *ln)
{
	struct uring *u = l->state;

	if (u->n_listener == LISTENERS_MAX)
		return false;
	u->listener[u->n_listener++] = ln;
	return true;
}

static void disarm_accept(struct uring *u, unsigned int i)
{
	struct io_uring_sqe *s = sqe_get(u);

	io_uring_prep_cancel64(s, (uint64_t)i << 3 | OP_ACCEPT, 0);
	sqe_tag(s, NULL, OP_IGNORE);
}

static void uring_unlisten(struct loop *l)
{
	struct uring *u = l->state;
	unsigned int i;

	u->unlistened = true;
	for (i = 0; i < u->n_listener; i++)
		if (u->listening[i])
			disarm_accept(u, i);
}

static bool uring_listens(const struct loop *l)
{
	const struct uring *u = l->state;
	unsigned int i;

	for (i = 0; i < u->n_listener; i++)
		if (u->listening[i])
			return true;
	return false;
}

/*
 * The kernel tells one of those who accept of a connection, and everybody who polls. A
 * server before us which was killed may be told for as long as the kernel takes its
 * ring apart, and nobody else is: until then poll too.
 */
static void arm_look(struct uring *u, unsigned int i)
{
	struct io_uring_sqe *s = sqe_get(u);

	io_uring_prep_poll_add(s, u->listener[i]->fd, POLLIN);
	s->user_data = (uint64_t)(i + LISTENERS_MAX) << 3 | OP_ACCEPT;
}

static void on_look(struct loop *l, unsigned int i)
{
	struct uring *u = l->state;
	int fd;

	if (u->unlistened)
		return;
	while ((fd = accept4(u->listener[i]->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		conn_accepted(l, fd, u->listener[i]);
	/* Without descriptors it would be told of the same one again and again. */
	if (errno == EAGAIN && now_ns() < u->alone_at)
		arm_look(u, i);
}

/* Of a server beside us that was killed: look now and then, and accept anew. */
static void look_for_missed(struct uring *u)
{
	struct pollfd p = { .events = POLLIN };
	int64_t now = now_ns();
	unsigned int i;

	if (now < u->look_at)
		return;
	u->look_at = now + 250000000;
	for (i = 0; i < u->n_listener && !u->unlistened; i++) {
		p.fd = u->listener[i]->fd;
		if (u->listening[i] && poll(&p, 1, 0) == 1)
			disarm_accept(u, i);
	}
}

static void uring_want(struct conn *c)
{
	struct uring *u = c->loop->state;
	struct io_uring_sqe *s;

	if (c->armed || c->shut || c->starved)
		return;
	s = sqe_get(u);
	if (c->one_chunk)
		io_uring_prep_recv(s, c->fd, NULL, 0, 0);
	else
		io_uring_prep_recv_multishot(s, c->fd, NULL, 0, 0);
	c->one_chunk = false;
	s->flags |= IOSQE_BUFFER_SELECT;
	s->buf_group = GROUP;
	sqe_tag(s, c, OP_RECV);
	c->armed = true;
	c->ops++;
}

static void uring_stop(struct conn *c)
{
	struct uring *u = c->loop->state;
	struct io_uring_sqe *s;

	if (!c->armed || c->stopping)
		return;
	s = sqe_get(u);
	io_uring_prep_cancel64(s, (uint64_t)(uintptr_t)c | OP_RECV, 0);
	sqe_tag(s, NULL, OP_IGNORE);
	c->stopping = true;
}

static void uring_fill(struct conn *c, void *p, size_t n)
{
	struct uring *u = c->loop->state;
	struct io_uring_sqe *s = sqe_get(u);

	io_uring_prep_recv(s, c->fd, p, n, MSG_WAITALL);
	sqe_tag(s, c, OP_FILL);
	c->filling = true;
	c->ops++;
}

static void uring_send(struct conn *c)
{
	struct uring *u = c->loop->state;
	struct io_uring_sqe *s = sqe_get(u);

	/* TLS in the kernel knows no MSG_WAITALL: on_send() goes on where it stopped. */
	unsigned int flags = MSG_NOSIGNAL | (c->tls ? 0 : MSG_WAITALL);

	if (c->zerocopy)
		io_uring_prep_sendmsg_zc(s, c->fd, &c->msg, flags);
	else
		io_uring_prep_sendmsg(s, c->fd, &c->msg, flags);
	sqe_tag(s, c, OP_SEND);
	c->sending = true;
	c->ops++;
}

static void uring_poll(struct conn *c, unsigned int events)
{
	struct uring *u = c->loop->state;
	struct io_uring_sqe *s;

	events &= ~c->polled;
	c->polled |= events;
	for (; events; events &= events - 1) {
		s = sqe_get(u);
		io_uring_prep_poll_add(s, c->fd, events & -events);
		sqe_tag(s, c, events & -events & POLLIN ? OP_POLL_IN : OP_POLL_OUT);
		c->ops++;
	}
}

static void let_go(struct conn *c)
{
	if (!--c->ops && c->shut)
		conn_gone(c);
}

static void on_poll(struct conn *c, unsigned int event)
{
	c->polled &= ~event;
	if (!c->shut)
		conn_polled(c);
	let_go(c);
}

static void uring_shut(struct conn *c)
{
	c->shut = true;
	if (c->ops)
		shutdown(c->fd, SHUT_RDWR);
	else
		conn_gone(c);
}

static void uring_adopt(struct conn *c)
{
}

static void on_accept(struct loop *l, const struct io_uring_cqe *e)
{
	struct uring *u = l->state;
	unsigned int i = (unsigned int)(e->user_data >> 3);

	if (i >= LISTENERS_MAX) {
		on_look(l, i - LISTENERS_MAX);
		return;
	}
	if (e->res >= 0)
		conn_accepted(l, e->res, u->listener[i]);
	else if (e->res != -ECANCELED && log_allow())
		log_event(LOG_WARN, "accept failed", L_STR("address", u->listener[i]->name),
			  L_STR("error", strerror(-e->res)));
	/* wait() arms it again; a little later if descriptors ran out. */
	if (e->res < 0 && e->res != -ECANCELED)
		u->accept_at = now_ns() + 100000000;
	if (!(e->flags & IORING_CQE_F_MORE))
		u->listening[i] = false;
}

static void on_recv(struct conn *c, const struct io_uring_cqe *e)
{
	if (e->flags & IORING_CQE_F_BUFFER)
		conn_chunk(c, taken(c->loop, e), e->res > 0 ? (uint32_t)e->res : 0);
	if (e->flags & IORING_CQE_F_MORE) {
		conn_ready(c);
		return;
	}
	c->armed = c->stopping = false;
	if (e->res == -ENOBUFS)
		offer_more(c->loop);
	if (e->res == -ENOBUFS && !c->shut && !c->starved)
		conn_starve(c);
	else if (e->res <= 0 && e->res != -ECANCELED && e->res != -ENOBUFS)
		conn_eof(c, -e->res);
	conn_ready(c);
	let_go(c);
}

static void on_send(struct conn *c, const struct io_uring_cqe *e)
{
	ssize_t n = e->res;

	/* Without a copy: the bytes may be changed only after the notification. */
	if (e->flags & IORING_CQE_F_MORE) {
		c->uncopied = e->res;
		return;
	}
	if (e->flags & IORING_CQE_F_NOTIF)
		n = c->uncopied;
	c->sending = false;
	/* A kind of socket that cannot send without a copy says so before it sends any. */
	if (!c->shut && n == -EOPNOTSUPP && c->zerocopy) {
		c->zerocopy = false;
		uring_send(c);
		let_go(c);
		return;
	}
	if (!c->shut && n > 0 && !conn_advance(c, (size_t)n))
		uring_send(c);
	else if (!c->shut)
		conn_sent(c, n < 0 ? n : c->sent);
	let_go(c);
}

static void on_cqe(struct loop *l, const struct io_uring_cqe *e)
{
	struct conn *c = (struct conn *)(uintptr_t)(e->user_data & ~(uint64_t)OP_MASK);

	switch (e->user_data & OP_MASK) {
	case OP_ACCEPT:
		on_accept(l, e);
		break;
	case OP_RECV:
		on_recv(c, e);
		break;
	case OP_FILL:
		c->filling = false;
		if (!c->shut)
			conn_filled(c, e->res);
		let_go(c);
		break;
	case OP_SEND:
		on_send(c, e);
		break;
	case OP_POLL_IN:
		on_poll(c, POLLIN);
		break;
	case OP_POLL_OUT:
		on_poll(c, POLLOUT);
		break;
	case OP_WAKE:
		arm_wake(l);
		break;
	default:
		break;
	}
}

static bool uring_wait(struct loop *l, int64_t until)
{
	struct uring *u = l->state;
	int64_t left = until - now_ns();
	struct __kernel_timespec ts;
	struct io_uring_cqe *cqe, copy;
	unsigned int i;
	bool some = false;

	if (!u->enabled) {
		/* liburing 2.3 does not export io_uring_enable_rings(). */
		io_uring_register((unsigned int)u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS,
				  NULL, 0);
		u->enabled = true;
		u->alone_at = now_ns() + 5000000000;
		arm_wake(l);
		for (i = 0; i < u->n_listener; i++)
			arm_look(u, i);
	}
	for (i = 0; i < u->n_listener && !u->unlistened && now_ns() >= u->accept_at; i++)
		if (!u->listening[i])
			arm_accept(u, i);
	look_for_missed(u);
	if (left > 0) {
		ts = (struct __kernel_timespec){ left / 1000000000, left % 1000000000 };
		io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, &ts, NULL);
	} else {
		io_uring_submit_and_get_events(&u->ring);
	}
	while (!io_uring_peek_cqe(&u->ring, &cqe)) {
		copy = *cqe;
		io_uring_cqe_seen(&u->ring, cqe);
		on_cqe(l, &copy);
		some = true;
	}
	return some;
}

const struct engine engine_uring = {
	.name	  = "io_uring",
	.open	  = uring_open,
	.close	  = uring_close,
	.listen	  = uring_listen,
	.unlisten = uring_unlisten,
	.listens  = uring_listens,
	.adopt	  = uring_adopt,
	.io	  = {
		.want	= uring_want,
		.stop	= uring_stop,
		.fill	= uring_fill,
		.send	= uring_send,
		.direct	= DIRECT_BYTES,
	},
	.poll	  = uring_poll,
	.shut	  = uring_shut,
	.give	  = give,
	.wait	  = uring_wait,
};
