// SPDX-License-Identifier: MIT
/* The control thread: letting clients in, mapping what they attach, freeing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "serve/service.h"

enum {
	EVENTS_AT_ONCE	= 32,
	ACCEPTS_AT_ONCE	= 16,
	HELLO_MS	= 5000,	/* to say who one is */
	LOOK_MS		= 200,	/* how often that is checked */
};

void rlx_control_ack(struct rlx_client *cl)
{
	struct rlx_service *svc = cl->svc;
	uint64_t one = 1;
	bool first;
	ssize_t n;

	pthread_mutex_lock(&svc->lock);
	first = !svc->acks;
	if (!cl->acked) {
		cl->acked = true;
		cl->next = svc->acks;
		svc->acks = cl;
	}
	pthread_mutex_unlock(&svc->lock);
	if (!first)
		return;
	n = write(svc->ctl, &one, sizeof(one));
	(void)n;
}

static void tell(struct rlx_client *cl, enum rlx_wire_type type, uint32_t serial,
		 int32_t status, const char *text)
{
	struct rlx_wire_msg m = { .type = type, .serial = serial,
				  .status = status };

	snprintf(m.text, sizeof(m.text), "%.127s", text);
	rlx_sock_send(cl->sock, &m, NULL, 0);
}

static void count(struct rlx_service *svc, uint64_t *what, int64_t n)
{
	pthread_mutex_lock(&svc->lock);
	*what += (uint64_t)n;
	pthread_mutex_unlock(&svc->lock);
}

/* Read the socket of @cl, or only learn of its end. */
static void listen_to(struct rlx_client *cl, bool on)
{
	struct epoll_event ev = { on ? EPOLLIN : 0, { .ptr = cl } };

	epoll_ctl(cl->svc->epfd, EPOLL_CTL_MOD, cl->sock, &ev);
}

static void drop_sock(struct rlx_client *cl)
{
	if (cl->sock < 0)
		return;
	epoll_ctl(cl->svc->epfd, EPOLL_CTL_DEL, cl->sock, NULL);
	close(cl->sock);
	cl->sock = -1;
}

static void doom(struct rlx_client *cl)
{
	drop_sock(cl);
	cl->doomed = true;
}

static void att_drop(struct rlx_client *cl, struct rlx_att *att)
{
	struct rlx_service *svc = cl->svc;
	struct rlx_arena *arena = att->arena;

	cl->bytes -= att->size;
	pthread_mutex_lock(&svc->lock);
	svc->st.arenas--;
	svc->st.arena_bytes -= att->size;
	pthread_mutex_unlock(&svc->lock);
	rlx_queue_lock(cl->q);
	*att = (struct rlx_att){ 0 };
	pthread_mutex_unlock(&cl->q->lock);
	rlx_arena_put(arena);
}

static void client_free(struct rlx_client *cl)
{
	struct rlx_service *svc = cl->svc;
	uint32_t i;

	for (i = 0; cl->att && i < svc->opts.arenas_max; i++)
		if (cl->att[i].arena)
			att_drop(cl, &cl->att[i]);
	if (cl->sock >= 0)
		close(cl->sock);
	if (cl->ops)
		cl->ops->close(cl);
	rlx_free(cl->jobs);
	rlx_free(cl->att);
	rlx_free(cl->event.slice);
	rlx_free(cl);
}

/* Hand the executor an event about @cl, whose answer comes as an ack. */
static void post_event(struct rlx_client *cl, enum rlx_work_kind kind,
		       const struct rlx_att *att)
{
	struct rlx_job *ev = &cl->event;
	struct rlx_queue *q = cl->q;

	ev->cl = cl;
	ev->next = NULL;
	ev->pub = (struct rlx_work){
		.kind = kind, .peer = &cl->peer, .slice = ev->slice,
		.nr_slices = !!att, .inline_data = ev->inline_data,
	};
	if (att)
		ev->slice[0] = (struct rlx_work_slice){
			att->base, 0, att->size, att->arena, att->access,
			att->handle,
		};
	rlx_queue_lock(q);
	cl->busy = true;
	*q->events_end = ev;
	q->events_end = &ev->next;
	pthread_mutex_unlock(&q->lock);
	rlx_queue_kick(q);
}

/* Nothing of @cl is out any more: tell the executor, then free. */
static void leave(struct rlx_client *cl)
{
	if (cl->opened && cl->svc->opts.flags & RLX_SERVICE_EVENTS) {
		cl->state = RLX_CLIENT_LEAVING;
		post_event(cl, RLX_WORK_GONE, NULL);
	} else {
		doom(cl);
	}
}

/* @cl went away or is thrown out; jobs of it may still be out. */
static void client_end(struct rlx_client *cl)
{
	struct rlx_queue *q = cl->q;
	bool wait;

	drop_sock(cl);
	if (!q) {
		doom(cl);
		return;
	}
	rlx_queue_lock(q);
	atomic_store(&cl->dead, true);
	rlx_kmod_gone(cl);
	if (cl->ready) {
		if (cl->bell >= 0)
			epoll_ctl(q->epfd, EPOLL_CTL_DEL, cl->bell, NULL);
		q->slot[cl->slot] = NULL;
		while (q->high && !q->slot[q->high - 1])
			q->high--;
		cl->ready = false;
	}
	wait = cl->busy || cl->out;
	pthread_mutex_unlock(&q->lock);
	if (cl->state == RLX_CLIENT_LIVE)
		cl->state = RLX_CLIENT_DRAINING;
	if (!wait)
		leave(cl);
}

static void refuse(struct rlx_client *cl, enum rlx_status st, const char *text)
{
	tell(cl, RLX_WIRE_BYE, 0, st, text);
	count(cl->svc, &cl->svc->st.refused, 1);
	client_end(cl);
}

/* Let executor threads see @cl. */
static void publish(struct rlx_client *cl)
{
	struct rlx_queue *q = cl->q;
	struct epoll_event ev = { EPOLLIN | EPOLLET, { 0 } };
	uint32_t i;

	rlx_queue_lock(q);
	for (i = 0; q->slot[i]; i++)	/* clients_max of them: one is free */
		;
	q->slot[i] = cl;
	if (i >= q->high)
		q->high = i + 1;
	cl->slot = i;
	cl->ready = true;
	ev.data.u64 = i;
	if (cl->bell >= 0)
		epoll_ctl(q->epfd, EPOLL_CTL_ADD, cl->bell, &ev);
	pthread_mutex_unlock(&q->lock);
}

static void go_live(struct rlx_client *cl)
{
	struct rlx_service *svc = cl->svc;
	struct rlx_wire_msg m = { .type = RLX_WIRE_WELCOME, .serial = cl->serial,
				  .depth = cl->depth,
				  .queue = cl->peer.queue + 1,
				  .arenas_max = svc->opts.arenas_max,
				  .slices_max = svc->opts.slices_max,
				  .bytes = svc->opts.client_bytes };
	struct rlx_error err = { 0 };
	int fds[RLX_WIRE_FDS];
	enum rlx_status st;
	unsigned int nr;
	bool sent;

	st = cl->ops->open(cl, &m, fds, &nr, &err);
	if (st && cl->or_shm) {	/* the kernel's tables are full, say */
		cl->ops = &rlx_service_shm;
		st = cl->ops->open(cl, &m, fds, &nr, &err);
	}
	m.transports = cl->ops->wire;
	if (st) {
		refuse(cl, st, err.text);
		return;
	}
	cl->state = RLX_CLIENT_LIVE;
	publish(cl);
	sent = rlx_sock_send(cl->sock, &m, fds, nr);
	cl->ops->sent(cl, fds);
	if (!sent) {
		client_end(cl);
		return;
	}
	listen_to(cl, true);
}

static bool make_jobs(struct rlx_client *cl)
{
	struct rlx_service *svc = cl->svc;
	uint32_t max = svc->opts.slices_max, i;

	cl->jobs = rlx_calloc(cl->depth, svc->job_bytes);
	cl->att = rlx_calloc(svc->opts.arenas_max, sizeof(*cl->att));
	cl->event.slice = rlx_calloc(1, sizeof(*cl->event.slice));
	if (!cl->jobs || !cl->att || !cl->event.slice)
		return false;
	for (i = cl->depth; i-- > 0;) {
		struct rlx_job *job = (void *)(cl->jobs + i * svc->job_bytes);

		job->slice = (void *)(job + 1);
		job->lease = (void *)(job->slice + max);
		job->cl = cl;
		job->pub.peer = &cl->peer;
		job->pub.slice = job->slice;
		job->pub.inline_data = job->inline_data;
		job->next = cl->free;
		cl->free = job;
	}
	return true;
}

static uint32_t pick_queue(const struct rlx_service *svc)
{
	uint32_t n[64] = { 0 }, i, best = 0;

	for (i = 0; i < svc->nr_clients; i++)
		if (svc->client[i]->q)
			n[svc->client[i]->q->index]++;
	for (i = 1; i < svc->opts.queues; i++)
		if (n[i] < n[best])
			best = i;
	return best;
}

static void hello(struct rlx_client *cl, const struct rlx_wire_msg *m)
{
	struct rlx_service *svc = cl->svc;
	uint32_t queue;

	if (m->version != RLX_WIRE_VERSION) {
		refuse(cl, RLX_ENOSUP, "this service speaks another version");
		return;
	}
	if (!(m->transports & svc->wire)) {
		refuse(cl, RLX_ENOSUP, svc->wire == RLX_WIRE_SHM ?
		       "this service has only transport \"shm\"" :
		       "this service has only transport \"kmod\"");
		return;
	}
	if (!m->depth || m->depth & (m->depth - 1) ||
	    m->depth > RLX_CHANNEL_DEPTH_MAX || m->queue > svc->opts.queues) {
		refuse(cl, RLX_EINVAL, "depth is no power of two, or there is no "
		       "such queue");
		return;
	}
	cl->depth = m->depth < svc->opts.depth_max ? m->depth :
		    svc->opts.depth_max;
	cl->serial = m->serial;
	cl->peer.tag = m->tag;
	if (!make_jobs(cl)) {
		refuse(cl, RLX_ENOMEM, "the service is out of memory");
		return;
	}
	cl->ops = m->transports & svc->wire & RLX_WIRE_KMOD ?
		  &rlx_service_kmod : &rlx_service_shm;
	cl->or_shm = m->transports & svc->wire & RLX_WIRE_SHM;
	queue = m->queue ? m->queue - 1 : pick_queue(svc);
	cl->q = &svc->queue[queue];
	cl->peer.queue = queue;
	cl->state = RLX_CLIENT_OPENING;
	if (!(svc->opts.flags & RLX_SERVICE_EVENTS)) {
		go_live(cl);
		return;
	}
	cl->opened = true;
	listen_to(cl, false);
	post_event(cl, RLX_WORK_OPEN, NULL);
}

/* All pages are there, so mapping them now takes no memory. */
static bool no_holes(int fd)
{
	struct stat s;

	return !fstat(fd, &s) && (uint64_t)s.st_blocks >= (uint64_t)s.st_size / 512;
}

static enum rlx_status too_much(const struct rlx_client *cl, uint64_t bytes,
				struct rlx_error *err)
{
	return rlx_fail(err, RLX_ERANGE,
			"attach: %llu bytes, a client may attach %llu",
			(unsigned long long)bytes,
			(unsigned long long)cl->svc->opts.client_bytes);
}

static enum rlx_status map_fd(struct rlx_client *cl,
			      const struct rlx_wire_msg *m, int fd,
			      struct rlx_att *att, struct rlx_error *err)
{
	uint64_t cap = cl->svc->opts.client_bytes;
	uint32_t flags = RLX_ARENA_NOLOCK;
	enum rlx_status st;

	if (m->bytes > cap - cl->bytes)
		return too_much(cl, m->bytes, err);
	if (!(m->access & RLX_ACCESS_WRITE))
		flags |= RLX_ARENA_RDONLY;
	if (m->bytes && !no_holes(fd))
		flags |= RLX_ARENA_LAZY;
	st = rlx_arena_open_fd(fd, flags, &att->arena, err);
	if (st)
		return st;
	if (m->access & RLX_ACCESS_WRITE &&
	    rlx_arena_flags(att->arena) & RLX_ARENA_RDONLY)
		st = rlx_fail(err, RLX_EACCES,
			      "attach: it is read-only, writing was asked for");
	if (rlx_arena_size(att->arena) > cap - cl->bytes)
		st = too_much(cl, rlx_arena_size(att->arena), err);
	if (st) {
		rlx_arena_put(att->arena);
		return st;
	}
	att->base = rlx_arena_base(att->arena);
	att->size = rlx_arena_size(att->arena);
	att->handle = m->handle;
	att->access = m->access;
	return RLX_OK;
}

static enum rlx_status map_arena(struct rlx_client *cl, struct rlx_wire_msg *m,
				 int came, struct rlx_att *att,
				 struct rlx_error *err)
{
	const char *why = NULL;
	enum rlx_status st;
	int fd = came;

	if (!cl->ops->arena(cl, m, &fd, &why))
		return rlx_fail(err, RLX_EACCES, "attach: %s", why);
	st = map_fd(cl, m, fd, att, err);
	if (fd != came)
		close(fd);
	return st;
}

/* The event is over, or there is none: the attachment may be used. */
static void attached(struct rlx_client *cl)
{
	rlx_queue_lock(cl->q);
	cl->pending->closing = false;
	pthread_mutex_unlock(&cl->q->lock);
	cl->pending = NULL;
	cl->state = RLX_CLIENT_LIVE;
	tell(cl, RLX_WIRE_DONE, cl->serial, RLX_OK, "");
	listen_to(cl, true);
}

/* Where an attachment of this handle goes; NULL: it is taken, or out of range. */
static struct rlx_att *place_for(struct rlx_client *cl, uint32_t handle)
{
	uint32_t i = handle & ((1u << RLX_HANDLE_BITS) - 1);
	uint32_t max = cl->svc->opts.arenas_max;

	if (cl->ops->wire == RLX_WIRE_SHM)
		return i && i <= max && !cl->att[i - 1].handle ?
		       &cl->att[i - 1] : NULL;
	for (i = 0; i < max && cl->att[i].handle; i++)
		if (cl->att[i].handle == handle)
			return NULL;
	return handle && i < max ? &cl->att[i] : NULL;
}

static void attach(struct rlx_client *cl, struct rlx_wire_msg *m, int fd)
{
	const uint32_t known = RLX_ACCESS_READ | RLX_ACCESS_WRITE;
	struct rlx_att *att = place_for(cl, m->handle);
	struct rlx_att new = { .closing = true };
	struct rlx_service *svc = cl->svc;
	struct rlx_error err = { 0 };
	enum rlx_status st;

	cl->serial = m->serial;
	if (!att || !m->access || m->access & ~known) {
		tell(cl, RLX_WIRE_DONE, m->serial, RLX_EINVAL,
		     "attach: bad handle or access");
		return;
	}
	st = map_arena(cl, m, fd, &new, &err);
	if (st) {
		tell(cl, RLX_WIRE_DONE, m->serial, st, err.text);
		return;
	}
	rlx_queue_lock(cl->q);
	*att = new;
	pthread_mutex_unlock(&cl->q->lock);
	cl->bytes += att->size;
	pthread_mutex_lock(&svc->lock);
	svc->st.arenas++;
	svc->st.arena_bytes += att->size;
	pthread_mutex_unlock(&svc->lock);
	cl->pending = att;
	if (!(svc->opts.flags & RLX_SERVICE_EVENTS)) {
		attached(cl);
		return;
	}
	cl->state = RLX_CLIENT_ATTACHING;
	listen_to(cl, false);
	post_event(cl, RLX_WORK_ATTACH, att);
}

static void detached(struct rlx_client *cl)
{
	att_drop(cl, cl->pending);
	cl->pending = NULL;
	cl->state = RLX_CLIENT_LIVE;
	tell(cl, RLX_WIRE_DONE, cl->serial, RLX_OK, "");
	listen_to(cl, true);
}

static void detach(struct rlx_client *cl, const struct rlx_wire_msg *m)
{
	struct rlx_att *att;
	int32_t st = RLX_OK;

	rlx_queue_lock(cl->q);
	att = rlx_client_att(cl, m->handle);
	if (!att)
		st = RLX_ENOENT;
	else if (att->leases)
		st = RLX_EBUSY;
	else
		att->closing = true;
	pthread_mutex_unlock(&cl->q->lock);
	cl->serial = m->serial;
	if (st) {
		tell(cl, RLX_WIRE_DONE, m->serial, st, st == RLX_EBUSY ?
		     "detach: a request that names it is under way" :
		     "detach: no such handle");
		return;
	}
	cl->pending = att;
	if (!(cl->svc->opts.flags & RLX_SERVICE_EVENTS)) {
		detached(cl);
		return;
	}
	cl->state = RLX_CLIENT_DETACHING;
	listen_to(cl, false);
	post_event(cl, RLX_WORK_DETACH, att);
}

/* A client that does not keep to the protocol, found out here. */
static void throw_out(struct rlx_client *cl, const char *why)
{
	if (!cl->q) {
		refuse(cl, RLX_EPROTO, why);
		return;
	}
	rlx_queue_lock(cl->q);
	rlx_client_cut(cl, "%s", why);
	pthread_mutex_unlock(&cl->q->lock);
}

static void on_message(struct rlx_client *cl, struct rlx_wire_msg *m,
		       const int *fds, unsigned int nr)
{
	unsigned int due = cl->ops && cl->ops->wire == RLX_WIRE_SHM;

	if (m->type == RLX_WIRE_HELLO && cl->state == RLX_CLIENT_NEW && !nr)
		hello(cl, m);
	else if (m->type == RLX_WIRE_ATTACH && cl->state == RLX_CLIENT_LIVE &&
		 nr == due)
		attach(cl, m, nr ? fds[0] : -1);
	else if (m->type == RLX_WIRE_DETACH && cl->state == RLX_CLIENT_LIVE &&
		 !nr)
		detach(cl, m);
	else
		throw_out(cl, "a message that no client sends then");
}

static void on_client(struct rlx_client *cl, uint32_t events)
{
	struct rlx_wire_msg m;
	int fds[1], rc;
	unsigned int nr;

	if (cl->sock < 0 || cl->doomed)
		return;
	if (cl->state != RLX_CLIENT_NEW && cl->state != RLX_CLIENT_LIVE) {
		if (events & (EPOLLHUP | EPOLLERR))
			client_end(cl);
		return;
	}
	rc = rlx_sock_recv(cl->sock, &m, fds, 1, &nr);
	if (rc == 1)
		on_message(cl, &m, fds, nr);
	else if (rc == -1)
		client_end(cl);
	else if (rc == -2)
		throw_out(cl, "not a message of this protocol");
	if (rc == 1 && nr)
		close(fds[0]);
}

/* An event was committed, the last job came back, or it is to be cut. */
static void on_ack(struct rlx_client *cl)
{
	bool cut, busy, dead;
	uint32_t out;

	rlx_queue_lock(cl->q);
	cut = cl->cut;
	cl->cut = false;
	busy = cl->busy;
	out = cl->out;
	dead = atomic_load(&cl->dead);
	pthread_mutex_unlock(&cl->q->lock);
	if (cl->doomed)
		return;
	if (cut && cl->sock >= 0) {
		tell(cl, RLX_WIRE_BYE, 0, RLX_EPROTO, cl->reason);
		client_end(cl);
		return;
	}
	if (busy)
		return;
	if (cl->state == RLX_CLIENT_LEAVING) {
		doom(cl);
	} else if (dead) {
		if (!out)
			leave(cl);
		else
			cl->state = RLX_CLIENT_DRAINING;
	} else if (cl->state == RLX_CLIENT_OPENING) {
		go_live(cl);
	} else if (cl->state == RLX_CLIENT_ATTACHING) {
		attached(cl);
	} else if (cl->state == RLX_CLIENT_DETACHING) {
		detached(cl);
	}
}

static bool may_connect(const struct rlx_service *svc, int fd, uint32_t uid)
{
	uint32_t i;

	if (svc->opts.flags & RLX_SERVICE_ANY_USER || !uid || uid == svc->uid)
		return true;
	for (i = 0; i < svc->opts.nr_uids; i++)
		if (svc->uids[i] == uid)
			return true;
	return svc->opts.nr_gids &&
	       rlx_sock_in_group(fd, svc->gids, svc->opts.nr_gids);
}

static uint32_t clients_of(const struct rlx_service *svc, uint32_t uid)
{
	uint32_t i, n = 0;

	for (i = 0; i < svc->nr_clients; i++)
		n += svc->client[i]->peer.uid == uid;
	return n;
}

/* Say no on a socket that is no client's yet. */
static void turn_away(struct rlx_service *svc, int fd, enum rlx_status st,
		      const char *text)
{
	struct rlx_client cl = { .sock = fd };

	tell(&cl, RLX_WIRE_BYE, 0, st, text);
	close(fd);
	count(svc, &svc->st.refused, 1);
}

static void let_in(struct rlx_service *svc, int fd)
{
	struct epoll_event ev = { EPOLLIN, { 0 } };
	struct rlx_client *cl;
	struct rlx_cred cred;

	if (!rlx_sock_cred(fd, &cred) || !may_connect(svc, fd, cred.uid)) {
		turn_away(svc, fd, RLX_EACCES, "this user may not connect");
		return;
	}
	if (svc->opts.user_clients_max &&
	    clients_of(svc, cred.uid) >= svc->opts.user_clients_max) {
		turn_away(svc, fd, RLX_EAGAIN, "this user has as many clients as one may");
		return;
	}
	if (svc->nr_clients == svc->opts.clients_max) {
		turn_away(svc, fd, RLX_EAGAIN, "the service has no room for "
			  "another client");
		return;
	}
	cl = rlx_calloc(1, sizeof(*cl));
	ev.data.ptr = cl;
	if (!cl || epoll_ctl(svc->epfd, EPOLL_CTL_ADD, fd, &ev)) {
		rlx_free(cl);
		turn_away(svc, fd, RLX_ENOMEM, "the service is out of memory");
		return;
	}
	cl->svc = svc;
	cl->sock = fd;
	cl->bell = -1;
	cl->mem_client.fd = cl->mem_service.fd = -1;
	cl->hello_by = rlx_now() + HELLO_MS * 1000000ull;
	cl->peer = (struct rlx_peer){ .id = ++svc->last_id, .pid = cred.pid,
				      .uid = cred.uid, .gid = cred.gid };
	svc->client[svc->nr_clients++] = cl;
	pthread_mutex_lock(&svc->lock);
	svc->st.clients++;
	svc->st.clients_ever++;
	pthread_mutex_unlock(&svc->lock);
}

/*
 * Out of descriptors the socket would stay readable for ever: one kept in
 * reserve lets us take the caller off the list and tell him.
 */
static void refuse_one(struct rlx_service *svc)
{
	int fd;

	close(svc->spare);
	fd = accept4(svc->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		turn_away(svc, fd, RLX_EAGAIN,
			  "the service has no descriptor for another client");
	svc->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_listen(struct rlx_service *svc)
{
	int i, fd;

	for (i = 0; i < ACCEPTS_AT_ONCE; i++) {
		fd = accept4(svc->listen_fd, NULL, NULL,
			     SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			let_in(svc, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE)
			refuse_one(svc);
		return;
	}
}

static void run_acks(struct rlx_service *svc)
{
	struct rlx_client *cl;
	uint64_t value;
	ssize_t n;

	n = read(svc->ctl, &value, sizeof(value));
	(void)n;
	for (;;) {
		pthread_mutex_lock(&svc->lock);
		cl = svc->acks;
		if (cl) {
			svc->acks = cl->next;
			cl->acked = false;
		}
		pthread_mutex_unlock(&svc->lock);
		if (!cl)
			return;
		on_ack(cl);
	}
}

static bool acked(struct rlx_client *cl)
{
	bool is;

	pthread_mutex_lock(&cl->svc->lock);
	is = cl->acked;
	pthread_mutex_unlock(&cl->svc->lock);
	return is;
}

/* Nothing of his waits to be read: a service may be late itself. */
static bool is_silent(const struct rlx_client *cl)
{
	char c;

	return recv(cl->sock, &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void bury(struct rlx_service *svc)
{
	uint64_t now = 0;
	uint32_t i, n = 0;

	for (i = 0; i < svc->nr_clients; i++) {
		struct rlx_client *cl = svc->client[i];

		if (cl->state == RLX_CLIENT_NEW && !cl->doomed) {
			now = now ? now : rlx_now();
			if (now >= cl->hello_by && is_silent(cl))
				refuse(cl, RLX_ETIME, "said nothing for too long");
		}
		if (!cl->doomed || acked(cl)) {
			svc->client[n++] = cl;
			continue;
		}
		client_free(cl);
		count(svc, &svc->st.clients, -1);
	}
	svc->nr_clients = n;
}

static bool any_new(const struct rlx_service *svc)
{
	uint32_t i;

	for (i = 0; i < svc->nr_clients; i++)
		if (svc->client[i]->state == RLX_CLIENT_NEW)
			return true;
	return false;
}

void rlx_control_step(struct rlx_service *svc, int ms)
{
	struct epoll_event ev[EVENTS_AT_ONCE];
	int i, n;

	if ((ms < 0 || ms > LOOK_MS) && any_new(svc))
		ms = LOOK_MS;
	n = epoll_wait(svc->epfd, ev, EVENTS_AT_ONCE, ms);
	for (i = 0; i < n; i++) {
		void *p = ev[i].data.ptr;

		if (p == &svc->ctl)
			continue;	/* run_acks() below */
		if (p == &svc->listen_fd)
			on_listen(svc);
		else
			on_client(p, ev[i].events);
	}
	run_acks(svc);
	bury(svc);
	if (atomic_load(&svc->stopping) && svc->listen_fd >= 0) {
		epoll_ctl(svc->epfd, EPOLL_CTL_DEL, svc->listen_fd, NULL);
		rlx_sock_unlisten(svc->address, svc->listen_fd, svc->lock_fd);
		svc->listen_fd = svc->lock_fd = -1;
	}
}

void *rlx_control_main(void *arg)
{
	struct rlx_service *svc = arg;

	while (!atomic_load(&svc->quit))
		rlx_control_step(svc, -1);
	return NULL;
}

void rlx_control_fini(struct rlx_service *svc)
{
	uint32_t i;

	for (i = 0; i < svc->nr_clients; i++) {
		struct rlx_client *cl = svc->client[i];

		if (cl->sock >= 0)
			tell(cl, RLX_WIRE_BYE, 0, RLX_EPIPE,
			     "the service ended");
		client_free(cl);
	}
	svc->nr_clients = 0;
}
