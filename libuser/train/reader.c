// SPDX-License-Identifier: MIT
/* Transfers: what is done again after a short one, and how many are in flight. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "train/fileops.h"
#include "train/reader_impl.h"

enum rlx_status reader_new(const struct reader_opts *o, struct reader **out,
			   struct rlx_error *err)
{
	struct reader *r = rlx_calloc(1, sizeof(*r));
	const char *what = "not asked for";
	int e = ECANCELED;

	*out = NULL;
	if (!r)
		return rlx_fail(err, RLX_ENOMEM, "reader: no memory");
	r->depth = o->depth < READER_DEPTH_MAX ? o->depth : READER_DEPTH_MAX;
	r->last = &r->first;
	r->memory = o->memory;
	r->bytes = o->bytes;
	if (!o->no_ring)
		e = ring_open(r, &what);
	if (!e) {
		r->is_ring = true;
		snprintf(r->text, sizeof(r->text), "io_uring, %s", r->ring.registered ?
			 "registered memory" : what);
		*out = r;
		return RLX_OK;
	}
	e = pool_open(r);
	if (e) {
		rlx_free(r);
		return rlx_fail(err, RLX_ENOMEM, "reader: no threads: %s", strerror(e));
	}
	snprintf(r->text, sizeof(r->text), "%u threads (io_uring: %s)", r->pool.threads, what);
	*out = r;
	return RLX_OK;
}

void reader_free(struct reader *r)
{
	if (!r)
		return;
	if (r->is_ring)
		ring_close(r);
	else
		pool_close(r);
	rlx_free(r);
}

static struct file_call call_of(const struct reader_req *q)
{
	return (struct file_call){
		.op = q->write ? FILE_WRITE : FILE_READ, .fd = q->fd,
		.data = (char *)q->data + q->done, .offset = q->offset + q->done,
		.bytes = q->bytes - q->done,
	};
}

/* Hand over what there is room for; what a hook refuses comes back as failed. */
static struct reader_req *start(struct reader *r)
{
	struct reader_req *q, *refused = NULL;
	struct file_call c;

	while (r->first && r->in_flight < r->depth) {
		q = r->first;
		r->first = q->next;
		if (!r->first)
			r->last = &r->first;
		c = call_of(q);
		q->error = file_before(&c);
		if (q->error) {
			file_after(&c, -q->error);
			q->next = refused;
			refused = q;
			continue;
		}
		r->in_flight++;
		if (r->is_ring)
			ring_start(r, q);
		else
			pool_start(r, q);
	}
	return refused;
}

void reader_submit(struct reader *r, struct reader_req *q)
{
	q->next = NULL;
	q->done = 0;
	q->error = 0;
	*r->last = q;
	r->last = &q->next;
}

/* True if @q, of which the call gave q->error, is done with; else it goes on. */
static bool settled(struct reader_req *q)
{
	struct file_call c = call_of(q);
	int got = q->error;

	file_after(&c, got);
	if (got == -EINTR || got == -EAGAIN)
		return false;
	if (got < 0) {
		/* what is left of a direct read that was cut at an odd byte: the file's end */
		q->error = got == -EINVAL && q->done && !q->write ? ENODATA : -got;
		return true;
	}
	q->done += (uint32_t)got;
	q->error = 0;
	if (q->done >= q->need)
		return true;
	if (!got)	/* a file that ends, a disk that takes no more */
		q->error = q->write ? ENOSPC : ENODATA;
	return !got;
}

struct reader_req *reader_wait(struct reader *r)
{
	struct reader_req *done = start(r), *q, *next;
	bool woken = false;

	while (!done && !woken) {
		q = r->is_ring ? ring_reap(r, &woken) : pool_reap(r, &woken);
		for (; q; q = next) {
			next = q->next;
			r->in_flight--;
			if (settled(q)) {
				q->next = done;
				done = q;
			} else {	/* to the front: it was there before the others */
				q->next = r->first;
				if (!r->first)
					r->last = &q->next;
				r->first = q;
			}
		}
		q = start(r);
		for (; q; q = next) {
			next = q->next;
			q->next = done;
			done = q;
		}
	}
	return done;
}

void reader_wake(struct reader *r)
{
	if (r->is_ring)
		ring_wake(r);
	else
		pool_wake(r);
}

unsigned int reader_in_flight(const struct reader *r)
{
	const struct reader_req *q;
	unsigned int n = r->in_flight;

	for (q = r->first; q; q = q->next)
		n++;
	return n;
}

const char *reader_text(const struct reader *r)
{
	return r->text;
}

bool reader_is_registered(const struct reader *r)
{
	return r->is_ring && r->ring.registered;
}
