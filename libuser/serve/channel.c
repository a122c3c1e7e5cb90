// SPDX-License-Identifier: MIT
/* The client's calls: submitting, reaping, waiting, cancelling. */
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/thread.h"
#include "serve/channel.h"
#include "serve/check.h"

enum {
	ALIVE_NS	= 1000000,	/* between looks whether the peer lives */
	RETRY_NS	= 2000000,	/* between looks for a new executor */
};

static uint32_t in_flight(const struct rlx_channel *ch)
{
	return ch->depth - ch->nr_free;
}

/* ---- submitting -------------------------------------------------------- */

static struct rlx_attached *find_att(struct rlx_channel *ch, uint32_t handle)
{
	uint32_t i = (handle & (2 * RLX_CHANNEL_ARENAS_MAX - 1)) - 1;

	if (!handle)
		return NULL;
	if (i < RLX_CHANNEL_ARENAS_MAX && ch->att[i].handle == handle)
		return ch->att[i].arena ? &ch->att[i] : NULL;
	for (i = 0; i < RLX_CHANNEL_ARENAS_MAX; i++)
		if (ch->att[i].handle == handle && ch->att[i].arena)
			return &ch->att[i];
	return NULL;
}

static int32_t check_slices(struct rlx_channel *ch,
			    const struct rlx_request_slice *s, uint32_t n,
			    uint16_t *att)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct rlx_attached *a = find_att(ch, s[i].arena);
		int32_t st = a ? rlx_check_slice(&s[i], a->size, a->access) :
			     -ENOENT;

		if (st)
			return st;
		if (att)
			att[i] = (uint16_t)(a - ch->att);
	}
	return 0;
}

/* As the executor will: see rlx_job_resolve() and rlx_job_indirect(). */
static int32_t check_request(struct rlx_channel *ch,
			     const struct rlx_request *r, uint16_t *att)
{
	struct rlx_request_slice list[RLX_REQUEST_SLICES_MAX];
	int32_t st;

	st = rlx_check_head(r->opcode, r->flags, r->nr_slices, r->inline_len,
			    ch->slices_max);
	if (st)
		return st;
	if (r->reserved[0] || r->reserved[1])
		return -EINVAL;
	if (!(r->flags & RLX_REQUEST_INDIRECT))
		return check_slices(ch, r->slice, r->nr_slices, att);
	st = check_slices(ch, r->slice, 1, att);
	if (st)
		return st;
	if (!(r->slice[0].access & RLX_ACCESS_READ))
		return -EACCES;
	if (r->slice[0].length < r->nr_slices * sizeof(list[0]))
		return -ERANGE;
	memcpy(list, (char *)rlx_arena_base(ch->att[att[0]].arena) +
	       r->slice[0].offset, r->nr_slices * sizeof(list[0]));
	return check_slices(ch, list, r->nr_slices, NULL);
}

static void tag_take(struct rlx_channel *ch, uint32_t i,
		     const struct rlx_request *r, const uint16_t *att)
{
	struct rlx_tag *t = &ch->tag[i];
	uint32_t k;

	t->user_data = r->user_data;
	t->deadline_ns = r->deadline_ns;
	t->aux = 0;
	t->flags = RLX_REPLY_UNDELIVERED;
	t->order = ch->submitted;
	t->indirect = r->flags & RLX_REQUEST_INDIRECT;
	t->nr_att = t->indirect ? 1 : r->nr_slices;
	for (k = 0; k < t->nr_att; k++) {
		t->att[k] = att[k];
		ch->att[att[k]].used++;
	}
	ch->nr_indirect += t->indirect;
	/* With the module the kernel looks after that. */
	if (r->deadline_ns && r->deadline_ns < ch->next_deadline &&
	    !(ch->ops && ch->ops->finish))
		ch->next_deadline = r->deadline_ns;
	if (ch->opts.flags)
		t->req = *r;
}

static void tag_free(struct rlx_channel *ch, uint32_t i)
{
	struct rlx_tag *t = &ch->tag[i];
	uint32_t k;

	for (k = 0; k < t->nr_att; k++)
		ch->att[t->att[k]].used--;
	ch->nr_indirect -= t->indirect;
	t->nr_att = 0;
	t->indirect = t->again = false;
	t->state = RLX_TAG_FREE;
	if (!++t->gen)		/* 0 is what no request has */
		t->gen = 1;
	ch->free[ch->nr_free++] = (uint16_t)i;
}

void rlx_channel_unsend(struct rlx_channel *ch, uint32_t tag)
{
	if (ch->tag[tag].again) {
		ch->tag[tag].state = RLX_TAG_KEPT;
		return;
	}
	ch->submitted--;
	tag_free(ch, tag);
}

static int submit_one(struct rlx_channel *ch, const struct rlx_request *r,
		      uint64_t *id)
{
	uint16_t att[RLX_REQUEST_SLICES];
	uint32_t i;
	int st;

	st = check_request(ch, r, att);
	if (st)
		return st;
	if (!ch->nr_free)
		return RLX_EAGAIN;
	i = ch->free[ch->nr_free - 1];
	if (ch->state == RLX_CHANNEL_UP) {
		if (!ch->ops->send(ch, i, r))
			return RLX_EAGAIN;
		ch->tag[i].state = RLX_TAG_SENT;
	} else {
		ch->tag[i].state = RLX_TAG_KEPT;
	}
	ch->nr_free--;
	tag_take(ch, i, r, att);
	ch->submitted++;
	if (id)
		*id = (uint64_t)ch->tag[i].gen << 32 | i;
	return RLX_OK;
}

int rlx_channel_submit(struct rlx_channel *ch, const struct rlx_request *req,
		       unsigned int n, uint64_t *ids)
{
	unsigned int i;
	int st = RLX_OK;

	if (!ch || (n && !req) || n > INT32_MAX)
		return RLX_EINVAL;
	if (ch->state == RLX_CHANNEL_LOST)
		rlx_channel_retry(ch, rlx_deadline_in(ch->opts.timeout_ns));
	if (ch->dismissed)
		rlx_channel_hear(ch);
	if (ch->state != RLX_CHANNEL_DOWN && ch->dismissed && ch->opts.flags)
		return RLX_EAGAIN;	/* once these are answered, to the next */
	if (ch->state == RLX_CHANNEL_DOWN || ch->dismissed)
		return ch->err.status ? ch->err.status : RLX_EPIPE;
	for (i = 0; i < n; i++) {
		st = submit_one(ch, &req[i], ids ? &ids[i] : NULL);
		if (st)
			break;
	}
	if (i && ch->state == RLX_CHANNEL_UP)
		i -= ch->ops->push(ch, &st);
	if (st == RLX_EPIPE)
		rlx_channel_lost(ch);
	return i ? (int)i : st;
}

/* ---- reaping ----------------------------------------------------------- */

static void fill_reply(struct rlx_channel *ch, uint32_t i, struct rlx_reply *out)
{
	const struct rlx_tag *t = &ch->tag[i];

	*out = (struct rlx_reply){
		.user_data = t->user_data,
		.id = (uint64_t)t->gen << 32 | i,
		.aux = t->aux, .result = t->result, .flags = t->flags,
	};
	tag_free(ch, i);
	ch->replied++;
}

/* Requests whose time is over and that no executor has. */
static void expire(struct rlx_channel *ch)
{
	uint64_t now = rlx_now(), next = RLX_NO_DEADLINE;
	uint32_t i;

	if (now < ch->next_deadline)
		return;
	for (i = 0; i < ch->depth; i++) {
		struct rlx_tag *t = &ch->tag[i];

		if (!t->deadline_ns || (t->state != RLX_TAG_SENT &&
					t->state != RLX_TAG_KEPT))
			continue;
		if (t->deadline_ns > now)
			next = next < t->deadline_ns ? next : t->deadline_ns;
		else if (t->state == RLX_TAG_KEPT)
			rlx_channel_over(ch, i, -ETIME, t->flags);
		else if (ch->ops->withdraw(ch, i))
			rlx_channel_over(ch, i, -ETIME, RLX_REPLY_UNDELIVERED);
	}
	ch->next_deadline = next;
}

/* How many, or why there will be none. */
static int take(struct rlx_channel *ch, struct rlx_reply *out, unsigned int max)
{
	unsigned int n = 0;
	uint32_t i;
	int rc = 1;

	if (ch->next_deadline != RLX_NO_DEADLINE)
		expire(ch);
	while (n < max && rc > 0) {
		if (ch->nr_over) {
			i = ch->over[ch->over_head];
			ch->over_head = (ch->over_head + 1) & (ch->depth - 1);
			ch->nr_over--;
			fill_reply(ch, i, &out[n++]);
			continue;
		}
		rc = ch->state == RLX_CHANNEL_UP ? ch->ops->next(ch, &i) : 0;
		if (rc > 0 && rlx_channel_orphaned(ch, i)) {
			ch->tag[i].state = RLX_TAG_DEAD;
			rlx_channel_lost(ch);
		} else if (rc > 0) {
			fill_reply(ch, i, &out[n++]);
		}
		if (rc < 0) {
			rlx_channel_ruin(ch, RLX_EPROTO,
					 "the executor answered what was not asked");
			rc = 1;
		}
	}
	if (!n && ch->state == RLX_CHANNEL_DOWN && !in_flight(ch))
		return ch->err.status;
	return (int)n;
}

static void disarm(struct rlx_channel *ch)
{
	if (ch->armed && ch->state == RLX_CHANNEL_UP)
		ch->ops->arm(ch, false);
	ch->armed = false;
}

int rlx_channel_reap(struct rlx_channel *ch, struct rlx_reply *out,
		     unsigned int max)
{
	if (!ch || (max && !out) || max > INT32_MAX)
		return RLX_EINVAL;
	disarm(ch);
	return max ? take(ch, out, max) : 0;
}

/* Sleep until something happens to @ch, or @until. */
static void doze(struct rlx_channel *ch, uint64_t until)
{
	struct pollfd p[2] = { { .events = POLLIN }, { .events = POLLIN } };
	struct timespec ts;

	if (ch->state == RLX_CHANNEL_LOST) {
		uint64_t next = rlx_deadline_in(RETRY_NS);

		rlx_channel_retry(ch, until);
		if (ch->state == RLX_CHANNEL_LOST)
			ppoll(NULL, 0, rlx_poll_ts(next < until ? next : until,
						   &ts), NULL);
		return;
	}
	if (ch->state == RLX_CHANNEL_DOWN)
		return;
	ch->ops->arm(ch, true);
	if (!ch->ops->some(ch) && until == RLX_NO_DEADLINE && ch->ops->sleep) {
		ch->sleeps++;
		if (!ch->ops->sleep(ch)) {
			rlx_channel_lost(ch);
			return;
		}
	} else if (!ch->ops->some(ch)) {
		ch->sleeps++;
		p[0].fd = ch->ops->pollable(ch);
		p[1].fd = ch->ops->finish && !ch->dismissed ? ch->sock : -1;
		if (ppoll(p, 2, rlx_poll_ts(until, &ts), NULL) > 0 &&
		    p[0].revents && !ch->ops->drain(ch)) {
			rlx_channel_lost(ch);
			return;
		}
		if (p[1].revents)
			rlx_channel_hear(ch);
	}
	if (ch->state != RLX_CHANNEL_UP)
		return;
	ch->ops->arm(ch, false);
}

/* True once there is something; false at @until. */
static bool spin(struct rlx_channel *ch, uint64_t until)
{
	uint64_t now = rlx_now(), alive = now + ALIVE_NS;
	int i;

	while (now < until && ch->state == RLX_CHANNEL_UP) {
		for (i = 0; i < RLX_SPIN_BATCH; i++) {
			if (ch->ops->some(ch))
				return true;
			rlx_cpu_relax();
		}
		now = rlx_now();
		if (now < alive)
			continue;
		alive = now + ALIVE_NS;
		if (!ch->ops->drain(ch))
			rlx_channel_lost(ch);
	}
	return false;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int wait_more(struct rlx_channel *ch, struct rlx_reply *out,
		     unsigned int min, unsigned int max, uint64_t deadline_ns)
{
	uint64_t start = rlx_now(), ns = rlx_spin_for(&ch->spin);
	uint64_t spin_until = ns > RLX_NO_DEADLINE - start ? RLX_NO_DEADLINE :
			      start + ns;
	unsigned int n = 0;
	int rc;

	for (;;) {
		uint64_t until = earlier(deadline_ns, ch->next_deadline);

		if (!spin(ch, earlier(spin_until, until)))
			if (rlx_now() < until)
				doze(ch, until);
		rc = take(ch, out + n, max - n);
		if (rc < 0)
			return n ? (int)n : rc;
		n += (unsigned int)rc;
		if (n >= min || (n && !in_flight(ch)))
			break;
		if (rlx_now() >= deadline_ns)
			break;
	}
	rlx_spin_learn(&ch->spin, rlx_now() - start);
	return (int)n;
}

int rlx_channel_wait(struct rlx_channel *ch, struct rlx_reply *out,
		     unsigned int min, unsigned int max, uint64_t deadline_ns)
{
	int n, more;

	if (!ch || !out || !max || min > max || max > INT32_MAX)
		return RLX_EINVAL;
	disarm(ch);
	n = take(ch, out, max);
	if (!n && !in_flight(ch)) {	/* nothing to wait for; or is it the end? */
		if (ch->state == RLX_CHANNEL_UP && !ch->ops->drain(ch))
			rlx_channel_lost(ch);
		rlx_channel_hear(ch);
		if (ch->state == RLX_CHANNEL_DOWN)
			return ch->err.status;
	}
	if (n < 0 || (unsigned int)n >= min || !deadline_ns)
		return n;
	if (!in_flight(ch))
		return n ? n : RLX_EINVAL;
	more = wait_more(ch, out + n, min - (unsigned int)n,
			 max - (unsigned int)n, deadline_ns);
	return more > 0 ? n + more : n ? n : more;
}

enum rlx_status rlx_channel_call(struct rlx_channel *ch,
				 const struct rlx_request *req,
				 struct rlx_reply *reply, uint64_t deadline_ns)
{
	int n;

	if (!ch || !req || !reply)
		return RLX_EINVAL;
	if (in_flight(ch))
		return RLX_EBUSY;
	n = rlx_channel_submit(ch, req, 1, NULL);
	if (n < 0)
		return (enum rlx_status)n;
	n = rlx_channel_wait(ch, reply, 1, 1, deadline_ns);
	if (n < 0)
		return (enum rlx_status)n;
	return n ? RLX_OK : RLX_ETIME;
}

enum rlx_status rlx_channel_cancel(struct rlx_channel *ch, uint64_t id)
{
	uint32_t i = (uint32_t)id;
	struct rlx_tag *t;

	if (!ch)
		return RLX_EINVAL;
	if (i >= ch->depth || ch->tag[i].gen != (uint32_t)(id >> 32))
		return RLX_ESTALE;
	t = &ch->tag[i];
	if (t->state == RLX_TAG_KEPT) {
		rlx_channel_over(ch, i, -ECANCELED, t->flags);
		return RLX_OK;
	}
	if (t->state != RLX_TAG_SENT)
		return RLX_ESTALE;
	if (ch->ops->withdraw(ch, i))
		rlx_channel_over(ch, i, -ECANCELED, RLX_REPLY_UNDELIVERED);
	else
		ch->ops->hint(ch, i);
	return RLX_OK;
}

int rlx_channel_arm(struct rlx_channel *ch)
{
	if (!ch)
		return RLX_EINVAL;
	if (ch->next_deadline != RLX_NO_DEADLINE)
		expire(ch);
	if (ch->state == RLX_CHANNEL_UP && !ch->ops->drain(ch))
		rlx_channel_lost(ch);
	rlx_channel_hear(ch);
	if (ch->state == RLX_CHANNEL_LOST) {
		rlx_channel_retry(ch, rlx_deadline_in(ch->opts.timeout_ns));
		rlx_channel_watch(ch);	/* the next tick */
	}
	if (ch->state == RLX_CHANNEL_UP) {
		ch->ops->arm(ch, true);
		ch->armed = true;
	}
	if (ch->state == RLX_CHANNEL_DOWN && !in_flight(ch))
		return ch->err.status;
	return (int)ch->nr_over +
	       (ch->state == RLX_CHANNEL_UP && ch->ops->some(ch));
}

enum rlx_status rlx_channel_prep_wait(struct rlx_channel *ch,
				      struct io_uring_sqe *sqe)
{
	int fd;

	if (!ch || !sqe)
		return RLX_EINVAL;
	fd = rlx_channel_fd(ch);
	if (fd < 0)
		return (enum rlx_status)fd;
	io_uring_prep_poll_add(sqe, fd, POLLIN);
	return RLX_OK;
}

enum rlx_status rlx_channel_prep_request(struct rlx_channel *ch,
					 struct io_uring_sqe *sqe,
					 const struct rlx_request *req)
{
	uint16_t att[RLX_REQUEST_SLICES];
	int32_t st;

	if (!ch || !sqe || !req)
		return RLX_EINVAL;
	if (ch->state != RLX_CHANNEL_UP)
		return ch->err.status ? ch->err.status : RLX_EPIPE;
	if (!ch->ops->prep)
		return RLX_ENOSUP;
	st = check_request(ch, req, att);
	return st ? (enum rlx_status)st : ch->ops->prep(ch, sqe, req);
}

enum rlx_status rlx_channel_slice(struct rlx_channel *ch, struct rlx_buf buf,
				  uint32_t access, struct rlx_request_slice *out)
{
	uint32_t i;

	if (!ch || !out || !buf.arena)
		return RLX_EINVAL;
	for (i = 0; i < RLX_CHANNEL_ARENAS_MAX; i++) {
		const struct rlx_attached *a = &ch->att[i];
		struct rlx_request_slice s = { a->handle, access, buf.offset,
					       buf.bytes };
		int32_t st;

		if (a->arena != buf.arena)
			continue;
		if (!buf.bytes)
			return RLX_ERANGE;
		st = rlx_check_slice(&s, a->size, a->access);
		if (!st)
			*out = s;
		return (enum rlx_status)st;
	}
	return RLX_ENOENT;
}

void rlx_channel_info(struct rlx_channel *ch, struct rlx_channel_info *out)
{
	if (!out)
		return;
	*out = !ch ? (struct rlx_channel_info){ .transport = "none" } : (struct rlx_channel_info){
		.transport = ch->ops ? ch->ops->name : "none",
		.depth = ch->depth, .queue = ch->queue,
		.in_flight = in_flight(ch), .pid = ch->cred.pid,
		.uid = ch->cred.uid, .alive = ch->state == RLX_CHANNEL_UP,
		.recoveries = ch->recoveries, .submitted = ch->submitted,
		.replied = ch->replied, .sleeps = ch->sleeps, .bells = ch->bells,
	};
}

const struct rlx_error *rlx_channel_error(const struct rlx_channel *ch)
{
	return ch ? &ch->err : &rlx_error_null;
}
