// SPDX-License-Identifier: MIT
/* Random programs: services, executors, channels, and requests through them. */
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/abi.h"
#include "rand/rand.h"

#define PAGE	4096u
#define TAGS	12
#define RESULTS	16

static uint64_t rnd_timeout(struct rnd *r)
{
	if (rnd_one_in(r, 400))
		return UINT64_MAX;
	return rnd_one_in(r, 6) ? rnd_below(r, 200000) : 0;
}

static char *rnd_area(const struct rnd_thing *t, uint32_t queue, int what)
{
	return t->area + (size_t)(queue * 3 + what) * RND_AREA;
}

static void rnd_map_area(struct rnd *r, struct rnd_thing *t, uint32_t queue, int what)
{
	static const uint32_t kinds[] = { RLX_MAP_DESC, RLX_MAP_RING, RLX_MAP_USER };
	uint64_t offset = RLX_MAP_OFFSET(kinds[what], queue);
	int prot = what == RND_AREA_USER ? PROT_READ | PROT_WRITE : PROT_READ;
	size_t bytes = PAGE;

	if (what == RND_AREA_DESC)
		bytes = t->depth * sizeof(struct rlx_desc);
	if (rnd_one_in(r, 24))
		bytes += PAGE * rnd_below(r, 4);
	if (rnd_one_in(r, 24))
		prot ^= PROT_WRITE;
	if (rnd_one_in(r, 24))
		offset = rnd_u64(r, offset) & ~(uint64_t)(PAGE - 1);
	rnd_count(r, RND_MMAP_RING,
		  rnd_mmap(rnd_area(t, queue, what), bytes ? bytes : PAGE, prot,
			   rnd_one_in(r, 24) ? MAP_PRIVATE : MAP_SHARED, t->fd, offset));
}

/* ---- services ---- */

static void rnd_executor(struct rnd *r, const struct rnd_thing *s)
{
	struct rlx_ioc_executor_attach *a = rnd_piece(r, sizeof(*a) + 8);
	struct rnd_thing *t;
	uint32_t queues = s ? s->queues : 0, depth = s ? s->depth : 0;
	long fd;

	a->flags = rnd_u32(r, rnd_one_in(r, 3) ? RLX_EXEC_RING : 0);
	a->pad = rnd_u32(r, 0);
	fd = rnd_ioctl(r, RND_EXECUTOR_ATTACH, rnd_fd(r, s), a, true);
	if (!rnd_made(r, fd))
		return;
	t = rnd_place(r, RND_EXECUTOR, fd);
	t->queues = queues;
	t->depth = depth;
	t->flags = a->flags;
	for (uint32_t q = 0; q < queues && q < RND_QUEUES && depth <= 64; q++)
		for (int i = 0; i < (t->flags & RLX_EXEC_RING ? 3 : 1); i++)
			rnd_map_area(r, t, q, i);
}

static void op_service(struct rnd *r)
{
	struct rlx_ioc_service_create *c = rnd_piece(r, sizeof(*c) + 8);
	struct rnd_thing *t;
	long fd;

	c->queues = rnd_u32(r, 1 + rnd_below(r, RND_QUEUES));
	c->depth = rnd_u32(r, 4u << rnd_below(r, 4));
	c->flags = rnd_u32(r, rnd_below(r, 4));
	c->max_slices = rnd_u32(r, rnd_one_in(r, 4) ? 0 : RLX_RQ_SLICES_MAX);
	c->user_slots = rnd_u32(r, rnd_one_in(r, 4) ? rnd_below(r, 5) : 0);
	c->user_channels = rnd_u32(r, rnd_one_in(r, 4) ? rnd_below(r, 5) : 0);
	/* Short: executors that forget a request are put out of office now and then. */
	c->orphan_ms = rnd_u32(r, rnd_one_in(r, 4) ? 1 + rnd_below(r, 200) : 0);
	fd = rnd_ioctl(r, RND_SERVICE_CREATE, rnd_fd(r, rnd_pick(r, RND_SESSION)), c, true);
	/* A wild one may take fewer slices than good requests have. */
	if (rnd_made(r, fd)) {
		t = rnd_place(r, RND_SERVICE, fd);
		t->queues = c->queues;
		t->depth = c->depth;
		t->access = RLX_R | RLX_W;
		if (!rnd_one_in(r, 4))
			rnd_executor(r, t);
	}
}

static void op_service_dup(struct rnd *r)
{
	struct rlx_ioc_service_dup *d = rnd_piece(r, sizeof(*d) + 8);
	struct rnd_thing *t = rnd_pick(r, RND_SERVICE), *n;
	uint32_t queues = t ? t->queues : 0, depth = t ? t->depth : 0;
	long fd;

	d->access = rnd_u32(r, rnd_one_in(r, 2) ? RLX_R : RLX_R | RLX_W);
	fd = rnd_ioctl(r, RND_SERVICE_DUP, rnd_fd(r, t), d, true);
	if (rnd_made(r, fd)) {
		n = rnd_place(r, RND_SERVICE, fd);
		n->queues = queues;
		n->depth = depth;
		n->access = d->access;
	}
}

static void op_service_info(struct rnd *r)
{
	struct rlx_ioc_service_info *i = rnd_piece(r, sizeof(*i) + 8);

	rnd_ioctl(r, RND_SERVICE_INFO, rnd_fd(r, rnd_pick(r, RND_SERVICE +
							  rnd_below(r, 3))), i, true);
}

static void op_executor(struct rnd *r)
{
	struct rnd_thing *s = rnd_pick(r, RND_SERVICE);

	/* One that may have an executor, mostly. */
	if (s && !(s->access & RLX_W))
		s = rnd_pick(r, RND_SERVICE);
	rnd_executor(r, s);
}

/* ---- fetch and commit ---- */

static void rnd_events(struct rnd *r, struct rnd_thing *ex, uint32_t id)
{
	struct rlx_ioc_exec_events *e = rnd_piece(r, sizeof(*e) + 8);
	struct rlx_event *ev = rnd_piece(r, 8 * sizeof(*ev));

	e->channel = rnd_u32(r, id);
	e->max = rnd_u32(r, rnd_below(r, 9));
	e->events = rnd_ptr(r, ev);
	rnd_ioctl(r, RND_EXEC_EVENTS, rnd_fd(r, ex), e, true);
}

static void op_events(struct rnd *r)
{
	struct rnd_thing *ex = rnd_pick(r, RND_EXECUTOR), *ch = rnd_pick(r, RND_CHANNEL);

	if (ex && ch)
		rnd_events(r, ex, ch->id);
}

static void rnd_exec_arena(struct rnd *r, struct rnd_thing *ex, uint32_t channel,
			   uint32_t handle)
{
	struct rlx_ioc_exec_arena *a = rnd_piece(r, sizeof(*a) + 8);
	struct rnd_thing *t;
	long fd;

	a->channel = rnd_u32(r, channel);
	a->arena = rnd_u32(r, handle);
	a->pad = rnd_u32(r, 0);
	fd = rnd_ioctl(r, RND_EXEC_ARENA, rnd_fd(r, ex), a, false);
	if (fd > 2) {
		t = rnd_place(r, RND_ARENA, fd);
		t->size = a->size;
		t->access = a->access;
	}
}

static void op_exec_arena(struct rnd *r)
{
	struct rnd_thing *ex = rnd_pick(r, RND_EXECUTOR), *ch = rnd_pick(r, RND_CHANNEL);

	if (ex && ch)
		rnd_exec_arena(r, ex, ch->id, ch->handle[rnd_below(r, RND_HANDLES)].handle);
}

static void rnd_exec_slices(struct rnd *r, struct rnd_thing *ex, const struct rnd_tag *tag)
{
	struct rlx_ioc_exec_slices *s = rnd_piece(r, sizeof(*s) + 8);

	s->seq = rnd_u64(r, tag->seq);
	s->tag = rnd_u32(r, tag->tag);
	s->queue = rnd_u32(r, tag->queue);
	s->max = rnd_u32(r, rnd_below(r, RLX_RQ_SLICES_MAX));
	s->slices = rnd_ptr(r, rnd_piece(r, RLX_RQ_SLICES_MAX * sizeof(struct rlx_slice)));
	rnd_ioctl(r, RND_EXEC_SLICES, rnd_fd(r, ex), s, false);
}

static void rnd_remember(struct rnd *r, struct rnd_thing *ex, struct rnd_tag t)
{
	uint32_t i = 0;

	while (i < RND_GOT && ex->got[i].seq)
		i++;
	ex->got[i < RND_GOT ? i : rnd_below(r, RND_GOT)] = t;
}

void rnd_fetched(struct rnd *r, struct rnd_thing *ex, uint32_t queue,
		 const uint32_t *tags, long n)
{
	const struct rlx_desc *desc = (void *)rnd_area(ex, queue, RND_AREA_DESC);
	struct rlx_desc d;

	for (long i = 0; i < n; i++) {
		struct rnd_tag t = { .queue = queue, .tag = tags[i] };

		if (t.tag & RLX_TAG_EVENT) {
			rnd_events(r, ex, t.tag & ~RLX_TAG_EVENT);
			continue;
		}
		if (t.tag >= 64 || !rnd_copy(&d, &desc[t.tag], offsetof(struct rlx_desc, slice) +
					     sizeof(struct rlx_slice)))
			continue;
		t.seq = d.seq;
		rnd_remember(r, ex, t);
		if (d.nr_slices && rnd_one_in(r, 4))
			rnd_exec_arena(r, ex, d.channel, d.slice[0].arena);
		if (rnd_one_in(r, d.flags & RLX_RQ_INDIRECT ? 1 : 16))
			rnd_exec_slices(r, ex, &t);
	}
}

static uint32_t *rnd_fetch_arg(struct rnd *r, const struct rnd_thing *ex,
			       struct rlx_ioc_fetch *f)
{
	uint32_t *tags = rnd_piece(r, TAGS * sizeof(*tags));

	f->max = rnd_u32(r, 1 + rnd_below(r, TAGS));
	f->min = rnd_u32(r, rnd_one_in(r, 3) ? rnd_below(r, f->max < TAGS ? f->max : TAGS) : 0);
	f->timeout_ns = rnd_timeout(r);
	f->queue = rnd_u32(r, rnd_below(r, ex->queues ? ex->queues : 1));
	f->flags = rnd_u32(r, rnd_one_in(r, 4) ? 0 : RLX_FETCH_NOWAIT);
	if (!(ex->flags & RLX_EXEC_RING) || rnd_one_in(r, 64))
		f->tags = rnd_ptr(r, tags);
	/* So many tags might be written. */
	if (f->max > TAGS)
		f->tags = rnd_ptr(r, r->keep);
	return (uint32_t *)(uintptr_t)f->tags == tags ? tags : NULL;
}

static void op_fetch(struct rnd *r)
{
	struct rlx_ioc_fetch *f = rnd_piece(r, sizeof(*f) + 8);
	struct rnd_thing *ex = rnd_pick(r, RND_EXECUTOR);
	uint32_t *tags;
	long n;

	if (!ex)
		return;
	tags = rnd_fetch_arg(r, ex, f);
	n = rnd_ioctl(r, RND_FETCH, rnd_fd(r, ex), f,
		      !(ex->flags & RLX_EXEC_RING) || !f->tags);
	if (n > 0 && tags && f->queue < RND_QUEUES)
		rnd_fetched(r, ex, f->queue, tags, n < TAGS ? n : TAGS);
}

/* What lies in an executor's or channel's ring; or nonsense into its words. */
static void op_ring(struct rnd *r)
{
	bool exec = rnd_one_in(r, 2);
	struct rnd_thing *t = rnd_pick(r, exec ? RND_EXECUTOR : RND_CHANNEL);
	uint32_t tail, head, tag, queue, words[2];

	if (!t || !(t->flags & 1))
		return;
	queue = exec ? rnd_below(r, t->queues) % RND_QUEUES : 0;
	if (!rnd_copy(&tail, rnd_area(t, queue, RND_AREA_RING), 4) ||
	    !rnd_copy(&head, rnd_area(t, queue, RND_AREA_USER), 4))
		return;
	if (rnd_one_in(r, 100)) {
		words[0] = rnd_below(r, UINT32_MAX);
		words[1] = rnd_below(r, UINT32_MAX);
		rnd_copy(rnd_area(t, queue, RND_AREA_USER), words, sizeof(words));
		return;
	}
	for (int i = 0; exec && i < 8 && head != tail; i++, head++) {
		if (!rnd_copy(&tag, rnd_area(t, queue, RND_AREA_RING) + 64 +
			      (head & 1023) * 4, 4))
			break;
		rnd_fetched(r, t, queue, &tag, 1);
	}
	words[0] = exec ? head : tail;
	words[1] = rnd_below(r, 2);
	rnd_copy(rnd_area(t, queue, RND_AREA_USER), words, sizeof(words));
}

uint32_t rnd_results(struct rnd *r, struct rnd_thing *ex, uint32_t queue,
		     struct rlx_complete *c, uint32_t max)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < RND_GOT && n < max; i++) {
		struct rnd_tag t = ex->got[i];

		if (!t.seq || t.queue != queue)
			continue;
		c[n].seq = rnd_u64(r, t.seq);
		c[n].tag = rnd_u32(r, t.tag);
		c[n].result = (int)rnd_u32(r, rnd_below(r, 100));
		c[n++].aux = rnd_u64(r, 5);
		/* Now and then it is committed once more. */
		if (!rnd_one_in(r, 16))
			ex->got[i].seq = 0;
	}
	return n;
}

static void rnd_commit_arg(struct rnd *r, struct rnd_thing *ex, struct rlx_ioc_commit *cm)
{
	struct rlx_complete *c = rnd_piece(r, RESULTS * sizeof(*c));
	int32_t *errors = rnd_piece(r, RESULTS * sizeof(*errors));
	uint32_t queue = rnd_below(r, ex->queues ? ex->queues : 1);

	cm->nr = rnd_results(r, ex, queue, c, 1 + rnd_below(r, RESULTS));
	if (!cm->nr && rnd_one_in(r, 4))
		cm->nr = 1;
	cm->entries = rnd_ptr(r, c);
	cm->errors = rnd_one_in(r, 2) ? rnd_ptr(r, errors) : 0;
	cm->queue = rnd_u32(r, queue);
	if (rnd_one_in(r, 200))
		cm->nr = rnd_u32(r, cm->nr + 1);
}

static void op_commit(struct rnd *r)
{
	struct rlx_ioc_commit *cm = rnd_piece(r, sizeof(*cm) + 8);
	struct rnd_thing *ex = rnd_pick(r, RND_EXECUTOR);

	if (!ex)
		return;
	rnd_commit_arg(r, ex, cm);
	rnd_ioctl(r, RND_COMMIT, rnd_fd(r, ex), cm, true);
}

static void op_commit_fetch(struct rnd *r)
{
	struct rlx_ioc_commit_fetch *cf = rnd_piece(r, sizeof(*cf) + 8);
	struct rnd_thing *ex = rnd_pick(r, RND_EXECUTOR);
	uint32_t *tags;
	long n;

	if (!ex)
		return;
	rnd_commit_arg(r, ex, &cf->commit);
	tags = rnd_fetch_arg(r, ex, &cf->fetch);
	n = rnd_ioctl(r, RND_COMMIT_AND_FETCH, rnd_fd(r, ex), cf,
		      !(ex->flags & RLX_EXEC_RING) || !cf->fetch.tags);
	if (n > 0 && tags && cf->fetch.queue < RND_QUEUES)
		rnd_fetched(r, ex, cf->fetch.queue, tags, n < TAGS ? n : TAGS);
}

/* ---- channels ---- */

static void op_connect(struct rnd *r)
{
	struct rlx_ioc_connect *c = rnd_piece(r, sizeof(*c) + 8);
	struct rnd_thing *s = rnd_pick(r, RND_SERVICE), *t;
	uint32_t depth = s ? s->depth : 4;
	long fd;

	c->service = rnd_fd(r, s);
	c->queue = rnd_u32(r, rnd_one_in(r, 2) || !s ? RLX_QUEUE_ANY :
			   rnd_below(r, s->queues));
	c->depth = rnd_u32(r, 1u << rnd_below(r, 4));
	if (c->depth > depth)
		c->depth = depth;
	c->flags = rnd_u32(r, rnd_one_in(r, 3) ? RLX_CHANNEL_RING : 0);
	fd = rnd_ioctl(r, RND_CONNECT, rnd_fd(r, rnd_pick(r, RND_SESSION)), c, s != NULL);
	if (fd <= 2)
		return;
	t = rnd_place(r, RND_CHANNEL, fd);
	t->id = c->channel;
	t->depth = c->depth;
	t->flags = c->flags;
	for (int i = RND_AREA_RING; t->flags & RLX_CHANNEL_RING && i <= RND_AREA_USER; i++)
		rnd_map_area(r, t, 0, i);
}

/* Slices of the arena itself into its first page, to be named indirectly. */
static void rnd_write_slices(struct rnd *r, const struct rnd_thing *arena, uint32_t handle)
{
	struct rlx_slice s = { .arena = handle, .access = RLX_R, .length = 64 };
	char *p = r->window;

	r->mapped[0] = 0;
	if (rnd_mmap(p, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd, 0))
		return;
	for (int i = 0; i < RLX_RQ_SLICES_MAX; i++)
		rnd_copy(p + (size_t)i * sizeof(s), &s, sizeof(s));
	rnd_blank(p, PAGE);
}

static void op_attach(struct rnd *r)
{
	struct rlx_ioc_attach *a = rnd_piece(r, sizeof(*a) + 8);
	struct rnd_thing *ch = rnd_pick(r, RND_CHANNEL);
	bool timeline = rnd_one_in(r, 3);
	struct rnd_thing *t = rnd_pick(r, timeline ? RND_TIMELINE : RND_ARENA);
	struct rnd_handle h;

	if (!ch || !t)
		return;
	h.size = timeline ? 0 : t->size;
	h.from = (uint32_t)(t - r->w->thing[timeline ? RND_TIMELINE : RND_ARENA]);
	h.access = rnd_one_in(r, 3) || timeline ? RLX_R : t->access;
	a->fd = rnd_fd(r, t);
	a->access = rnd_u32(r, h.access);
	a->flags = rnd_u32(r, 0);
	if (rnd_ioctl(r, RND_ATTACH, rnd_fd(r, ch), a, true) || r->wild)
		return;
	h.handle = a->handle;
	ch->handle[rnd_below(r, RND_HANDLES)] = h;
	if (!timeline && rnd_one_in(r, 3))
		rnd_write_slices(r, t, h.handle);
}

static void op_detach(struct rnd *r)
{
	struct rlx_ioc_detach *d = rnd_piece(r, sizeof(*d) + 8);
	struct rnd_thing *ch = rnd_pick(r, RND_CHANNEL);
	struct rnd_handle *h;

	if (!ch)
		return;
	h = &ch->handle[rnd_below(r, RND_HANDLES)];
	d->handle = rnd_u32(r, h->handle);
	d->flags = rnd_u32(r, 0);
	if (!rnd_ioctl(r, RND_DETACH, rnd_fd(r, ch), d, true) && !rnd_one_in(r, 8))
		memset(h, 0, sizeof(*h));
}

/* For a timeline that is attached, not far from where that is. */
static void rnd_request_wait(struct rnd *r, const struct rnd_thing *ch, struct rlx_rq *rq)
{
	for (uint32_t i = 0; i < RND_HANDLES; i++) {
		struct rnd_handle h = ch->handle[i];

		if (!h.handle || h.size)
			continue;
		rq->flags |= RLX_RQ_WAIT;
		rq->wait = rnd_u32(r, h.handle);
		rq->wait_value = rnd_u64(r, r->w->thing[RND_TIMELINE][h.from].size +
					    rnd_below(r, 4));
		return;
	}
}

struct rlx_rq *rnd_request(struct rnd *r, struct rnd_thing *ch, struct rlx_rq *rq)
{
	uint32_t want = rnd_one_in(r, 3) ? rnd_below(r, RLX_RQ_SLICES) : rnd_below(r, 2);

	rq->opcode = rnd_below(r, 10);
	rq->user_data = rnd_below(r, 1000);
	if (rnd_one_in(r, 4))
		rq->deadline_ns = k_now() + rnd_below(r, 5000000);
	if (rnd_one_in(r, 4))
		rnd_request_wait(r, ch, rq);
	for (uint32_t i = 0; i < RND_HANDLES && rq->nr_slices < want; i++) {
		struct rnd_handle h = ch->handle[i];
		struct rlx_slice *s = &rq->slice[rq->nr_slices];

		if (!h.handle || h.size < PAGE)
			continue;
		s->arena = rnd_u32(r, h.handle);
		s->access = rnd_u32(r, rnd_one_in(r, 2) ? RLX_R : h.access);
		s->offset = rnd_u64(r, rnd_below(r, 4) * 8);
		s->length = rnd_u64(r, 1 + rnd_below(r, 2048));
		rq->nr_slices++;
	}
	if (rq->nr_slices && rnd_one_in(r, 4)) {
		rq->flags |= RLX_RQ_INDIRECT;
		rq->slice[0].length = 2048;
		rq->slice[0].offset = 0;
		rq->nr_slices = rnd_u32(r, 1 + rnd_below(r, RLX_RQ_SLICES_MAX));
	}
	rq->flags |= rnd_u32(r, 0);
	rq->inline_len = rnd_u32(r, rnd_below(r, RLX_RQ_INLINE + 1));
	rq->nr_slices = rnd_u32(r, rq->nr_slices);
	rq->pad = rnd_u32(r, 0);
	return rq;
}

static void rnd_reap(struct rnd *r, struct rnd_thing *ch)
{
	struct rlx_ioc_reap *p = rnd_piece(r, sizeof(*p) + 8);
	struct rlx_cqe *cqe = rnd_piece(r, 16 * sizeof(*cqe));

	p->max = rnd_u32(r, 1 + rnd_below(r, 16));
	p->min = rnd_u32(r, rnd_one_in(r, 3) ? rnd_below(r, p->max < 16 ? p->max : 16) : 0);
	p->timeout_ns = rnd_timeout(r);
	if (!(ch->flags & RLX_CHANNEL_RING) || rnd_one_in(r, 64))
		p->entries = rnd_ptr(r, p->max > 16 ? (void *)r->keep : (void *)cqe);
	p->flags = rnd_u32(r, 0);
	rnd_ioctl(r, RND_REAP, rnd_fd(r, ch), p,
		  !(ch->flags & RLX_CHANNEL_RING) || !p->entries);
}

static void op_reap(struct rnd *r)
{
	struct rnd_thing *ch = rnd_pick(r, RND_CHANNEL);

	if (ch)
		rnd_reap(r, ch);
}

static void rnd_cancel(struct rnd *r, const struct rnd_thing *ch, struct rlx_rq_id id)
{
	struct rlx_ioc_cancel *c = rnd_piece(r, sizeof(*c) + 8);

	c->seq = rnd_u64(r, id.seq);
	c->tag = rnd_u32(r, id.tag);
	c->flags = rnd_u32(r, 0);
	rnd_ioctl(r, RND_CANCEL, rnd_fd(r, ch), c, true);
}

static void op_submit(struct rnd *r)
{
	struct rlx_ioc_submit *s = rnd_piece(r, sizeof(*s) + 8);
	uint32_t nr = 1 + (rnd_one_in(r, 3) ? rnd_below(r, 10) : 0);
	struct rlx_rq *rq = rnd_piece(r, nr * sizeof(*rq));
	struct rlx_rq_id *ids = rnd_piece(r, nr * sizeof(*ids));
	struct rnd_thing *ch = rnd_pick(r, RND_CHANNEL);
	bool good = true;
	long n;

	if (!ch)
		return;
	for (uint32_t i = 0; i < nr; i++) {
		rnd_request(r, ch, &rq[i]);
		good = good && !(rq[i].flags & RLX_RQ_INDIRECT);
	}
	s->entries = rnd_ptr(r, rq);
	s->ids = rnd_one_in(r, 4) ? 0 : rnd_ptr(r, ids);
	s->nr = rnd_u32(r, nr);
	s->flags = rnd_u32(r, 0);
	n = rnd_ioctl(r, RND_SUBMIT, rnd_fd(r, ch), s, good);
	for (long i = 0; i < n && i < nr; i++)
		ch->rq[rnd_below(r, RND_HANDLES)] = ids[i];
	if (n > 0 && s->ids && rnd_one_in(r, 8))
		rnd_cancel(r, ch, ids[0]);
	/* Full of results, or of requests that nobody takes. */
	if (n == -EAGAIN && rnd_one_in(r, 4))
		rnd_drop(r, RND_CHANNEL, ch);
	else if (n == -EAGAIN)
		rnd_reap(r, ch);
}

static void op_cancel(struct rnd *r)
{
	struct rnd_thing *ch = rnd_pick(r, RND_CHANNEL);

	if (ch)
		rnd_cancel(r, ch, ch->rq[rnd_below(r, RND_HANDLES)]);
}

const struct rnd_op rnd_ops_chan[] = {
	{ op_service, 1 },	{ op_service_dup, 2 },	{ op_service_info, 6 },
	{ op_executor, 6 },	{ op_events, 4 },	{ op_exec_arena, 6 },
	{ op_fetch, 50 },	{ op_commit, 40 },	{ op_commit_fetch, 20 },
	{ op_ring, 40 },	{ op_connect, 12 },	{ op_attach, 24 },
	{ op_detach, 6 },	{ op_submit, 70 },	{ op_reap, 50 },
	{ op_cancel, 20 },
	{ NULL, 0 },
};
