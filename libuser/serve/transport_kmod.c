// SPDX-License-Identifier: MIT
/*
 * Both sides of the kmod transport. The service process makes a kernel service per
 * queue, is its executor, and connects each client's channel itself: so it knows
 * which process a channel belongs to. The client gets the channel's descriptor over
 * the socket, and needs no right to the device.
 *
 * Submitting and committing are one ioctl a batch; requests and replies are read
 * from shared rings, so that two sides that spin wait without system calls. A ring
 * of io_uring in between would add to that, not save: it is offered to callers who
 * have one anyway (rlx_channel_prep_request()).
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "serve/channel.h"
#include "serve/service.h"
#include "uapi/linux/rlx.h"

#define NODE	"/dev/rlx"

_Static_assert(sizeof(struct rlx_request) == sizeof(struct rlx_rq) &&
	       offsetof(struct rlx_request, user_data) ==
	       offsetof(struct rlx_rq, user_data) &&
	       offsetof(struct rlx_request, nr_slices) ==
	       offsetof(struct rlx_rq, nr_slices) &&
	       offsetof(struct rlx_request, slice) ==
	       offsetof(struct rlx_rq, slice) &&
	       offsetof(struct rlx_request, inline_data) ==
	       offsetof(struct rlx_rq, inline_data), "handed on as it is");
_Static_assert(sizeof(struct rlx_request_slice) == sizeof(struct rlx_slice),
	       "handed on as it is");

/* A ring of the kernel's, and our side of it. */
struct ring {
	const struct rlx_ring	*ring;
	struct rlx_ring_user	*user;
	size_t			 bytes;
	uint32_t		 head, mask, entry_bytes;
};

static uint32_t load32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void ring_unmap(struct ring *r)
{
	if (!r->ring)
		return;
	munmap((void *)r->ring, r->bytes);
	munmap(r->user, (size_t)sysconf(_SC_PAGESIZE));
	r->ring = NULL;
}

static bool ring_map(struct ring *r, int fd, uint32_t entries,
		     uint32_t entry_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p, *u;

	r->bytes = 64 + (size_t)entries * entry_bytes;
	p = mmap(NULL, r->bytes, PROT_READ, MAP_SHARED, fd,
		 (off_t)RLX_MAP_OFFSET(RLX_MAP_RING, 0));
	if (p == MAP_FAILED)
		return false;
	u = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 (off_t)RLX_MAP_OFFSET(RLX_MAP_USER, 0));
	if (u == MAP_FAILED) {
		munmap(p, r->bytes);
		return false;
	}
	r->ring = p;
	r->user = u;
	r->mask = entries - 1;
	r->entry_bytes = entry_bytes;
	r->head = 0;
	/* What reaches no further than the mapping is our size, not the ring's word. */
	if (r->ring->mask == r->mask && r->ring->entry_bytes == entry_bytes)
		return true;
	ring_unmap(r);
	errno = EPROTO;
	return false;
}

static bool ring_some(const struct ring *r)
{
	return load32(&r->ring->tail) != r->head;
}

/* The next entry; it is given back by ring_taken(). */
static const void *ring_next(const struct ring *r)
{
	const char *entry = (const char *)r->ring + 64;

	return entry + (size_t)(r->head & r->mask) * r->entry_bytes;
}

static void ring_taken(struct ring *r)
{
	r->head++;
	__atomic_store_n(&r->user->head, r->head, __ATOMIC_RELEASE);
}

static void ring_arm(struct ring *r, bool on)
{
	__atomic_store_n(&r->user->need_wakeup, on, __ATOMIC_RELAXED);
	if (on)
		rlx_shm_fence();
}

static enum rlx_status fail_errno(struct rlx_error *err, const char *what)
{
	int e = errno;
	enum rlx_status st = e == EMFILE || e == ENFILE || e == ENOMEM ||
			     e == ENOSPC ? RLX_ENOMEM :
			     e == EACCES || e == EPERM ? RLX_EACCES :
			     e == ENOENT || e == ENXIO || e == ENODEV ?
			     RLX_ENODEV : e == EPIPE ? RLX_EPIPE :
			     e == EBUSY ? RLX_EBUSY :
			     e == EPROTO ? RLX_EPROTO : RLX_ENOSUP;

	return rlx_fail(err, st, NODE ": %s: %s", what, strerror(e));
}

/* ---- the executor's side ------------------------------------------------ */

enum { BATCH = 64, HASH = 256, SLOTS_MAX = 4096 };

/* Guarded by the queue's lock, but for the descriptors, which do not change. */
struct rlx_kmod_queue {
	int			 session, svc, exec;
	uint64_t		 features;
	uint32_t		 slots;
	const struct rlx_desc	*desc;
	struct ring		 ring;
	struct rlx_complete	 batch[BATCH];	/* answers to be handed over */
	uint32_t		 nr_batch;
	struct rlx_client	*client[HASH];	/* by channel */
};

/* Several clients' worth of the deepest channel: depth is lent from these. */
static uint32_t slots_for(uint32_t depth_max)
{
	uint64_t want = depth_max * 8ull;

	return want > SLOTS_MAX ? SLOTS_MAX : (uint32_t)want;
}

static enum rlx_status kernel_service(struct rlx_kmod_queue *k,
				      const struct rlx_service_opts *o,
				      struct rlx_error *err)
{
	struct rlx_ioc_service_create c = {
		.queues = 1, .depth = k->slots, .max_slices = o->slices_max,
	};
	struct rlx_ioc_executor_attach a = { .flags = RLX_EXEC_RING };
	struct rlx_ioc_query q = { 0 };

	k->session = open(NODE, O_RDWR | O_CLOEXEC);
	if (k->session < 0)
		return fail_errno(err, "open");
	if (ioctl(k->session, RLX_IOC_QUERY, &q))
		return fail_errno(err, "query");
	if (q.abi != RLX_ABI)
		return rlx_fail(err, RLX_ENOSUP, NODE ": the module speaks ABI %u, "
				"this library %u", q.abi, RLX_ABI);
	k->features = q.features;
	k->svc = ioctl(k->session, RLX_IOC_SERVICE_CREATE, &c);
	if (k->svc < 0)
		return fail_errno(err, "service");
	k->exec = ioctl(k->svc, RLX_IOC_EXECUTOR_ATTACH, &a);
	if (k->exec < 0)
		return fail_errno(err, "executor");
	return RLX_OK;
}

/* Entries the ring has are the kernel's to say: they stand in its first page. */
static bool map_queue(struct rlx_kmod_queue *k)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const struct rlx_ring *head;
	uint32_t entries;
	void *p;

	p = mmap(NULL, page, PROT_READ, MAP_SHARED, k->exec,
		 (off_t)RLX_MAP_OFFSET(RLX_MAP_RING, 0));
	if (p == MAP_FAILED)
		return false;
	head = p;
	entries = head->mask + 1;
	munmap(p, page);
	p = mmap(NULL, k->slots * sizeof(struct rlx_desc), PROT_READ, MAP_SHARED,
		 k->exec, (off_t)RLX_MAP_OFFSET(RLX_MAP_DESC, 0));
	if (p == MAP_FAILED)
		return false;
	k->desc = p;
	return ring_map(&k->ring, k->exec, entries, sizeof(uint32_t));
}

enum rlx_status rlx_kmod_queue_new(struct rlx_queue *q, struct rlx_error *err)
{
	struct epoll_event ev = { EPOLLIN, { .u64 = RLX_QUEUE_KMOD } };
	struct rlx_kmod_queue *k = rlx_calloc(1, sizeof(*k));
	enum rlx_status st;

	if (!k)
		return rlx_fail(err, RLX_ENOMEM, "service: no memory");
	q->kmod = k;
	k->session = k->svc = k->exec = -1;
	k->slots = slots_for(q->svc->opts.depth_max);
	st = kernel_service(k, &q->svc->opts, err);
	if (!st && !map_queue(k))
		st = fail_errno(err, "mmap");
	if (!st && epoll_ctl(q->epfd, EPOLL_CTL_ADD, k->exec, &ev))
		st = fail_errno(err, "epoll");
	if (st)
		rlx_kmod_queue_free(q);
	return st;
}

void rlx_kmod_queue_free(struct rlx_queue *q)
{
	struct rlx_kmod_queue *k = q->kmod;

	if (!k)
		return;
	ring_unmap(&k->ring);
	if (k->desc)
		munmap((void *)k->desc, k->slots * sizeof(struct rlx_desc));
	if (k->exec >= 0)
		close(k->exec);
	if (k->svc >= 0)
		close(k->svc);
	if (k->session >= 0)
		close(k->session);
	rlx_free(k);
	q->kmod = NULL;
}

static struct rlx_client **hash_of(struct rlx_kmod_queue *k, uint32_t channel)
{
	return &k->client[channel % HASH];
}

static struct rlx_client *find_client(struct rlx_kmod_queue *k, uint32_t channel)
{
	struct rlx_client *cl = *hash_of(k, channel);

	while (cl && cl->channel != channel)
		cl = cl->same;
	return cl;
}

/* Hand the answers over. Stale ones are the kernel's to have dropped already. */
static void flush(struct rlx_kmod_queue *k)
{
	struct rlx_ioc_commit c = { .entries = (uintptr_t)k->batch,
				    .nr = k->nr_batch };

	if (k->nr_batch)
		ioctl(k->exec, RLX_IOC_COMMIT, &c);
	k->nr_batch = 0;
}

static void answer(struct rlx_kmod_queue *k, uint32_t tag, uint64_t seq,
		   int32_t result, uint64_t aux)
{
	k->batch[k->nr_batch++] = (struct rlx_complete){
		.seq = seq, .aux = aux, .tag = tag, .result = result,
	};
	if (k->nr_batch == BATCH)
		flush(k);
}

/* Nobody works on these any more. */
static void drop_line(struct rlx_client *cl)
{
	struct rlx_kmod_queue *k = cl->q->kmod;

	while (cl->nr_line) {
		const struct rlx_desc *d = &k->desc[cl->line[cl->line_head]];

		answer(k, d->tag, d->seq, -EPIPE, 0);
		cl->line_head = (cl->line_head + 1) & (cl->depth - 1);
		cl->nr_line--;
	}
	flush(k);
}

void rlx_kmod_gone(struct rlx_client *cl)
{
	struct rlx_client **p;

	if (!cl->channel)
		return;
	drop_line(cl);
	for (p = hash_of(cl->q->kmod, cl->channel); *p; p = &(*p)->same) {
		if (*p != cl)
			continue;
		*p = cl->same;
		break;
	}
	cl->channel = 0;
}

static void kmod_reply(struct rlx_client *cl, const struct rlx_job *job,
		       int32_t result, uint32_t flags)
{
	answer(cl->q->kmod, job->tag, job->seq, result, job->pub.aux);
	cl->touched = true;
}

/* All that is answered goes at once, with the first client to be rung for. */
static void kmod_ring(struct rlx_client *cl)
{
	flush(cl->q->kmod);
}

static bool kmod_cancelled(const struct rlx_job *job)
{
	const struct rlx_desc *d = &job->cl->q->kmod->desc[job->tag];

	return __atomic_load_n(&d->flags, __ATOMIC_RELAXED) & RLX_RQ_UNWANTED;
}

/* Slices of an indirect request are the kernel's copy, to be asked for. */
static int32_t resolve(struct rlx_kmod_queue *k, struct rlx_client *cl,
		       struct rlx_job *job, const struct rlx_desc *d)
{
	struct rlx_request_slice slice[RLX_RQ_SLICES_MAX];
	struct rlx_ioc_exec_slices es = {
		.seq = job->seq, .tag = job->tag, .max = RLX_RQ_SLICES_MAX,
		.slices = (uintptr_t)slice,
	};
	uint32_t nr = d->nr_slices;

	if (!(d->flags & RLX_RQ_INDIRECT))
		memcpy(slice, d->slice, sizeof(d->slice));
	else if (ioctl(k->exec, RLX_IOC_EXEC_SLICES, &es) != (int)nr)
		return -ESTALE;
	return rlx_job_resolve(cl, job, slice, nr);
}

/* The descriptor is the kernel's, checked, and stays until it is answered. */
static int32_t fill_job(struct rlx_kmod_queue *k, struct rlx_client *cl,
			struct rlx_job *job, const struct rlx_desc *d)
{
	struct rlx_work *w = &job->pub;

	job->tag = d->tag;
	job->seq = d->seq;
	w->kind = RLX_WORK_REQUEST;
	w->opcode = d->opcode;
	w->flags = d->flags & (RLX_RQ_INDIRECT | RLX_RQ_USER_FLAGS);
	w->user_data = d->user_data;
	w->deadline_ns = d->deadline_ns;
	w->nr_slices = d->nr_slices;
	w->inline_len = d->inline_len;
	w->aux = 0;
	w->priv = NULL;
	job->nr_leases = 0;
	memcpy(job->inline_data, d->inline_data, sizeof(job->inline_data));
	/* It may have lain in the ring since the kernel looked. */
	if (w->deadline_ns && rlx_now() >= w->deadline_ns)
		return -ETIME;
	return resolve(k, cl, job, d);
}

/* Detached arenas were unmapped when the client asked; a channel's end is told. */
static void read_events(struct rlx_kmod_queue *k, uint32_t channel)
{
	struct rlx_event ev[8];
	struct rlx_ioc_exec_events e = { .channel = channel, .max = 8,
					 .events = (uintptr_t)ev };

	while (ioctl(k->exec, RLX_IOC_EXEC_EVENTS, &e) == 8)
		;
}

/* What has come goes to its client's line, for the clients take turns. */
static void put_in_line(struct rlx_queue *q, uint32_t tag)
{
	struct rlx_kmod_queue *k = q->kmod;
	const struct rlx_desc *d = &k->desc[tag];
	struct rlx_client *cl = find_client(k, d->channel);

	if (!cl || atomic_load_explicit(&cl->dead, memory_order_relaxed) ||
	    cl->nr_line == cl->depth) {
		answer(k, tag, d->seq, -EPIPE, 0);	/* thrown out, or closed */
		return;
	}
	cl->line[(cl->line_head + cl->nr_line++) & (cl->depth - 1)] =
		(uint16_t)tag;
}

void rlx_kmod_collect(struct rlx_queue *q)
{
	struct rlx_kmod_queue *k = q->kmod;
	uint32_t n;

	/* No more than there can be at a time: whom we answer here may ask again at once. */
	for (n = 0; n < k->slots && ring_some(&k->ring); n++) {
		uint32_t tag = *(const uint32_t *)ring_next(&k->ring);

		ring_taken(&k->ring);
		if (tag & RLX_TAG_EVENT)
			read_events(k, tag & ~RLX_TAG_EVENT);
		else if (tag < k->slots)
			put_in_line(q, tag);
	}
	flush(k);
}

/*
 * As soon as it lies in the ring the kernel takes a request for delivered, and only
 * marks it when its client wants it back: that is made good here.
 */
static int kmod_take(struct rlx_client *cl, struct rlx_job *job)
{
	struct rlx_kmod_queue *k = cl->q->kmod;
	const struct rlx_desc *d;

	if (!cl->nr_line)
		return 0;
	d = &k->desc[cl->line[cl->line_head]];
	cl->line_head = (cl->line_head + 1) & (cl->depth - 1);
	cl->nr_line--;
	job->pub.result = fill_job(k, cl, job, d);
	if (kmod_cancelled(job)) {
		rlx_job_unlease(cl, job);
		job->pub.result = -ECANCELED;
	}
	return 1;
}

static bool kmod_some_of(struct rlx_client *cl)
{
	return cl->nr_line;
}

static void kmod_taken(struct rlx_client *cl)
{
}

bool rlx_kmod_some(const struct rlx_queue *q)
{
	return ring_some(&q->kmod->ring);
}

void rlx_kmod_sleepers(struct rlx_queue *q, uint32_t n)
{
	__atomic_store_n(&q->kmod->ring.user->need_wakeup, n != 0,
			 __ATOMIC_RELAXED);
}

static enum rlx_status kmod_open(struct rlx_client *cl, struct rlx_wire_msg *m,
				 int *fds, unsigned int *nr,
				 struct rlx_error *err)
{
	struct rlx_kmod_queue *k = cl->q->kmod;
	struct rlx_ioc_connect c = { .service = k->svc, .depth = cl->depth,
				     .flags = RLX_CHANNEL_RING,
				     .user_tag = cl->peer.tag };
	int fd = ioctl(k->session, RLX_IOC_CONNECT, &c);
	struct rlx_client **head;

	if (fd < 0)
		return fail_errno(err, "channel");
	cl->line = rlx_calloc(cl->depth, sizeof(*cl->line));
	if (!cl->line) {
		close(fd);
		return rlx_fail(err, RLX_ENOMEM, "channel: no memory");
	}
	rlx_queue_lock(cl->q);
	cl->channel = c.channel;
	head = hash_of(k, c.channel);
	cl->same = *head;
	*head = cl;
	pthread_mutex_unlock(&cl->q->lock);
	m->access = k->features & RLX_FEAT_URING_ASYNC ? RLX_WIRE_URING : 0;
	fds[0] = fd;
	*nr = 1;
	return RLX_OK;
}

static void kmod_sent(struct rlx_client *cl, int *fds)
{
	close(fds[0]);
}

static void kmod_close(struct rlx_client *cl)
{
	rlx_queue_lock(cl->q);
	rlx_kmod_gone(cl);
	pthread_mutex_unlock(&cl->q->lock);
	rlx_free(cl->line);
	cl->line = NULL;
}

/* The client attached it to its channel; the kernel knows which and with what. */
static bool kmod_arena(struct rlx_client *cl, struct rlx_wire_msg *m, int *fd,
		       const char **why)
{
	struct rlx_ioc_exec_arena ea = { .channel = cl->channel,
					 .arena = m->handle };

	*fd = ioctl(cl->q->kmod->exec, RLX_IOC_EXEC_ARENA, &ea);
	if (*fd < 0) {
		*why = strerror(errno);
		return false;
	}
	m->access = ea.access;
	m->bytes = 0;		/* asked of the arena itself */
	return true;
}

const struct rlx_service_ops rlx_service_kmod = {
	.name	   = "kmod",
	.wire	   = RLX_WIRE_KMOD,
	.kernel	   = true,
	.take	   = kmod_take,
	.some	   = kmod_some_of,
	.taken	   = kmod_taken,
	.reply	   = kmod_reply,
	.ring	   = kmod_ring,
	.cancelled = kmod_cancelled,
	.open	   = kmod_open,
	.arena	   = kmod_arena,
	.close	   = kmod_close,
	.sent	   = kmod_sent,
};

/* ---- the client's side --------------------------------------------------- */

enum {
	CHAIN_END	= 0xffff,
	LIST_BYTES	= RLX_REQUEST_SLICES_MAX * sizeof(struct rlx_request_slice),
};

struct rlx_kmod_channel {
	int			 fd;
	struct ring		 ring;
	uint16_t		*chain;		/* 2 * depth heads: ours, by the kernel's */
	uint16_t		*next;		/* by ours */
	struct rlx_rq		*rq;		/* put up, not yet sent; depth */
	struct rlx_rq_id	*id;
	uint16_t		*pending;	/* their tags */
	uint32_t		 nr_pending;
	uint32_t		*kernel_tag;	/* by ours; the seq is in pos */
	struct rlx_arena	*lists;		/* of INDIRECT requests, with RECOVER */
	uint32_t		 lists_handle;
};

static void kmod_down(struct rlx_channel *ch)
{
	struct rlx_kmod_channel *k = ch->kmod;

	if (!k)
		return;
	ring_unmap(&k->ring);
	if (k->fd >= 0)
		close(k->fd);
	rlx_free(k->chain);
	rlx_free(k->next);
	rlx_free(k->rq);
	rlx_free(k->id);
	rlx_free(k->pending);
	rlx_free(k->kernel_tag);
	rlx_arena_put(k->lists);
	rlx_free(k);
	ch->kmod = NULL;
}

/*
 * Who recovers calls an arena the same in every channel; the kernel does not. In the
 * lists of INDIRECT requests, which are the client's, that is made good in a copy.
 */
static enum rlx_status make_lists(struct rlx_channel *ch, struct rlx_error *err)
{
	struct rlx_arena_opts o = {
		.size = ch->depth * LIST_BYTES, .name = "rlx-lists",
		.provider = "kmod",
	};
	struct rlx_ioc_attach a = { .access = RLX_ACCESS_READ };
	enum rlx_status st;

	if (!ch->opts.flags || ch->slices_max <= RLX_REQUEST_SLICES)
		return RLX_OK;
	st = rlx_arena_new(&o, &ch->kmod->lists, err);
	if (st)
		return st;
	a.fd = rlx_arena_fd(ch->kmod->lists);
	if (ioctl(ch->kmod->fd, RLX_IOC_ATTACH, &a))
		return fail_errno(err, "attach");
	ch->kmod->lists_handle = a.handle;
	return RLX_OK;
}

static enum rlx_status kmod_up(struct rlx_channel *ch, int *fds,
			       unsigned int nr, struct rlx_error *err)
{
	struct rlx_kmod_channel *k = rlx_calloc(1, sizeof(*k));
	enum rlx_status st = RLX_ENOMEM;

	if (!k || nr != 1) {
		if (nr)
			close(fds[0]);
		rlx_free(k);
		return rlx_fail(err, st, "channel: no memory, or no descriptor "
				"left for the kernel's");
	}
	ch->kmod = k;
	k->fd = fds[0];
	k->chain = rlx_malloc(2 * ch->depth * sizeof(*k->chain));
	k->next = rlx_calloc(ch->depth, sizeof(*k->next));
	k->rq = rlx_calloc(ch->depth, sizeof(*k->rq));
	k->id = rlx_calloc(ch->depth, sizeof(*k->id));
	k->pending = rlx_calloc(ch->depth, sizeof(*k->pending));
	k->kernel_tag = rlx_calloc(ch->depth, sizeof(*k->kernel_tag));
	if (!k->chain || !k->next || !k->rq || !k->id || !k->pending || !k->kernel_tag)
		rlx_fail(err, st, "channel: no memory");
	else if (!rlx_fd_is_kmod(k->fd, "channel"))
		/* A file of its own could be cut short, and our next look at it would kill us. */
		st = errno == EPROTO || errno == ENOENT ?
		     rlx_fail(err, RLX_EPROTO, "the service's descriptor is no channel of " NODE
			      ", or there is no /proc to tell") :
		     fail_errno(err, "what the service's descriptor is");
	else if (!ring_map(&k->ring, k->fd, ch->depth, sizeof(struct rlx_cqe)))
		st = fail_errno(err, "mmap of a channel");
	else
		st = make_lists(ch, err);
	if (st)
		kmod_down(ch);
	else
		memset(k->chain, 0xff, 2 * ch->depth * sizeof(*k->chain));
	return st;
}

/*
 * A slot of the kernel's is lent again as soon as its reply lies in the ring, so a
 * kernel's tag may stand for several of ours: with its seq it is one.
 */
static uint16_t *chain_of(struct rlx_channel *ch, uint32_t kernel_tag,
			  uint64_t seq)
{
	uint64_t h = kernel_tag + seq * 31;

	return &ch->kmod->chain[h & (2 * ch->depth - 1)];
}

static void chain_add(struct rlx_channel *ch, uint32_t tag,
		      const struct rlx_rq_id *id)
{
	uint16_t *head = chain_of(ch, id->tag, id->seq);

	ch->tag[tag].pos = id->seq;
	ch->kmod->kernel_tag[tag] = id->tag;
	ch->kmod->next[tag] = *head;
	*head = (uint16_t)tag;
}

/* Ours, no longer in its chain; CHAIN_END: none. */
static uint32_t chain_take(struct rlx_channel *ch, uint32_t kernel_tag,
			   uint64_t seq)
{
	struct rlx_kmod_channel *k = ch->kmod;
	uint16_t *p = chain_of(ch, kernel_tag, seq);

	while (*p != CHAIN_END) {
		uint32_t tag = *p;

		if (ch->tag[tag].pos == seq && k->kernel_tag[tag] == kernel_tag) {
			*p = k->next[tag];
			return tag;
		}
		p = &k->next[tag];
	}
	return CHAIN_END;
}

static bool kmod_send(struct rlx_channel *ch, uint32_t tag,
		      const struct rlx_request *req)
{
	struct rlx_kmod_channel *k = ch->kmod;

	memcpy(&k->rq[k->nr_pending], req, sizeof(*req));
	k->pending[k->nr_pending++] = (uint16_t)tag;
	return true;
}

static uint32_t wire_handle(const struct rlx_channel *ch, uint32_t handle)
{
	uint32_t i;

	/* All of ours: an earlier executor may have granted more. */
	for (i = 0; i < RLX_CHANNEL_ARENAS_MAX; i++)
		if (ch->att[i].handle == handle)
			return ch->att[i].wire;
	return 0;
}

/* @rq, put up under @tag, in the names of this executor. */
static void translate(struct rlx_channel *ch, struct rlx_rq *rq, uint32_t tag)
{
	struct rlx_kmod_channel *k = ch->kmod;
	struct rlx_slice *s = rq->slice;
	uint32_t i, n = rq->nr_slices;

	if (rq->flags & RLX_REQUEST_INDIRECT) {
		s = (struct rlx_slice *)((char *)rlx_arena_base(k->lists) +
					 tag * LIST_BYTES);
		memcpy(s, (char *)rlx_arena_base(ch->att[ch->tag[tag].att[0]].arena) +
		       rq->slice[0].offset, n * sizeof(*s));
		rq->slice[0].arena = k->lists_handle;
		rq->slice[0].offset = tag * LIST_BYTES;
	}
	for (i = 0; i < n; i++)
		s[i].arena = wire_handle(ch, s[i].arena);
}

static unsigned int kmod_push(struct rlx_channel *ch, int *why)
{
	struct rlx_kmod_channel *k = ch->kmod;
	struct rlx_ioc_submit s = { .entries = (uintptr_t)k->rq,
				    .ids = (uintptr_t)k->id,
				    .nr = k->nr_pending };
	uint32_t i, took, refused;
	bool keep;
	int n;

	for (i = 0; ch->opts.flags && i < k->nr_pending; i++)
		translate(ch, &k->rq[i], k->pending[i]);
	n = ioctl(k->fd, RLX_IOC_SUBMIT, &s);
	*why = n < 0 ? -errno : RLX_EAGAIN;
	took = n > 0 ? (uint32_t)n : 0;
	for (i = 0; i < took; i++)
		chain_add(ch, k->pending[i], &k->id[i]);
	/* The executor is gone: then they are for the next one, if any. */
	keep = *why == RLX_EPIPE && ch->opts.flags;
	for (i = k->nr_pending; i > took; i--)
		if (keep)
			ch->tag[k->pending[i - 1]].state = RLX_TAG_KEPT;
		else
			rlx_channel_unsend(ch, k->pending[i - 1]);
	refused = keep ? 0 : k->nr_pending - took;
	k->nr_pending = 0;
	return refused;
}

static bool kmod_some(struct rlx_channel *ch)
{
	return ring_some(&ch->kmod->ring);
}

static int kmod_next(struct rlx_channel *ch, uint32_t *tag)
{
	struct rlx_kmod_channel *k = ch->kmod;
	const struct rlx_cqe *c;
	struct rlx_tag *t;

	if (!ring_some(&k->ring))
		return 0;
	c = ring_next(&k->ring);
	*tag = chain_take(ch, c->tag, c->seq);
	if (*tag == CHAIN_END)
		return -1;
	t = &ch->tag[*tag];
	t->result = c->result;
	t->aux = c->aux;
	t->flags = 0;
	ring_taken(&k->ring);
	return 1;
}

/* If it can still be had back, that comes as a reply. */
static bool kmod_withdraw(struct rlx_channel *ch, uint32_t tag)
{
	struct rlx_ioc_cancel c = { .seq = ch->tag[tag].pos,
				    .tag = ch->kmod->kernel_tag[tag] };

	ioctl(ch->kmod->fd, RLX_IOC_CANCEL, &c);
	return false;
}

/* The kernel told the executor when it was asked. */
static void kmod_hint(struct rlx_channel *ch, uint32_t tag)
{
}

static void kmod_arm(struct rlx_channel *ch, bool on)
{
	ring_arm(&ch->kmod->ring, on);
}

static int kmod_pollable(struct rlx_channel *ch)
{
	return ch->kmod->fd;
}

static bool kmod_drain(struct rlx_channel *ch)
{
	struct pollfd p = { ch->kmod->fd, POLLIN, 0 };

	return poll(&p, 1, 0) <= 0 || !(p.revents & (POLLHUP | POLLERR));
}

/* Its end is told from a work queue: all will be answered, in a moment. */
static void kmod_finish(struct rlx_channel *ch, uint32_t n)
{
	struct rlx_ioc_reap r = { .max = ch->depth, .min = n,
				  .timeout_ns = 2000000000 };

	ioctl(ch->kmod->fd, RLX_IOC_REAP, &r);
}

/*
 * The module takes its own arenas. Of another one's memfd it makes one where it
 * can pin a memfd: the pages stay the same.
 */
static int pin_memfd(struct rlx_arena *arena, uint32_t access)
{
	struct rlx_ioc_arena_create c = {
		.size = rlx_arena_size(arena), .kind = RLX_KIND_MEMFD,
		.flags = access & RLX_ACCESS_WRITE ? 0 : RLX_AF_RDONLY,
		.numa_node = -1, .memfd = rlx_arena_fd(arena),
	};
	int session = open(NODE, O_RDWR | O_CLOEXEC), fd, e;

	if (session < 0)
		return -1;
	fd = ioctl(session, RLX_IOC_ARENA_CREATE, &c);
	e = errno;
	close(session);
	errno = e;
	return fd;
}

static enum rlx_status kmod_attach(struct rlx_channel *ch,
				   struct rlx_attached *att,
				   struct rlx_error *err)
{
	/* Whoever may write memory reads it: the module has no RLX_W alone. */
	struct rlx_ioc_attach a = { .fd = rlx_arena_fd(att->arena),
				    .access = att->access | RLX_ACCESS_READ };
	int fd = -1, rc = ioctl(ch->kmod->fd, RLX_IOC_ATTACH, &a);

	if (rc && errno == EINVAL) {	/* none of the module's */
		fd = pin_memfd(att->arena, att->access);
		if (fd < 0)
			return rlx_fail(err, RLX_ENOSUP,
					"attach: transport kmod takes arenas of "
					NODE ", and this one's memfd it cannot "
					"pin: %s; make it with provider \"kmod\", "
					"or open the channel with transport "
					"\"shm\"", strerror(errno));
		a.fd = fd;
		rc = ioctl(ch->kmod->fd, RLX_IOC_ATTACH, &a);
	}
	if (rc)
		fail_errno(err, "attach");
	if (fd >= 0)
		close(fd);
	att->wire = a.handle;
	return rc ? err ? err->status : RLX_ENOMEM : RLX_OK;
}

static void kmod_detach(struct rlx_channel *ch, uint32_t handle)
{
	struct rlx_ioc_detach d = { .handle = handle };

	ioctl(ch->kmod->fd, RLX_IOC_DETACH, &d);
}

static enum rlx_status kmod_prep(struct rlx_channel *ch,
				 struct io_uring_sqe *sqe,
				 const struct rlx_request *req)
{
	struct rlx_uring_cmd cmd = { .addr = (uintptr_t)req };

	/* What is the kernel's alone cannot be given to another executor. */
	if (!(ch->may_park & RLX_WIRE_URING) || ch->opts.flags)
		return RLX_ENOSUP;
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = ch->kmod->fd;
	sqe->cmd_op = (uint32_t)RLX_IOC_SUBMIT;
	memcpy((char *)sqe + offsetof(struct io_uring_sqe, cmd), &cmd,
	       sizeof(cmd));
	return RLX_OK;
}

const struct rlx_channel_ops rlx_channel_kmod = {
	.name	  = "kmod",
	.wire	  = RLX_WIRE_KMOD,
	.up	  = kmod_up,
	.down	  = kmod_down,
	.send	  = kmod_send,
	.push	  = kmod_push,
	.next	  = kmod_next,
	.some	  = kmod_some,
	.withdraw = kmod_withdraw,
	.hint	  = kmod_hint,
	.arm	  = kmod_arm,
	.pollable = kmod_pollable,
	.drain	  = kmod_drain,
	.attach	  = kmod_attach,
	.detach	  = kmod_detach,
	.finish	  = kmod_finish,
	.prep	  = kmod_prep,
};
