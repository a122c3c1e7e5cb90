// SPDX-License-Identifier: MIT
/* The reader's thread: what to read next, as memory becomes free, and what came of it. */
#include <string.h>
#include <sys/mman.h>

#include "train/loader.h"

/* How often ROWS asks whether its files are still the same, in batches. */
enum { ASK_EVERY = 64 };

static void protect(const struct rlx_loader *ld, uint64_t at, uint64_t bytes, bool closed)
{
	if (bytes)
		mprotect(ld->base + at, bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE);
}

void loader_guard_slot(const struct rlx_loader *ld, const struct loader_slot *s, bool closed)
{
	if (ld->o.flags & RLX_LOADER_GUARD && ld->base)
		protect(ld, s->at, ld->guarded, closed);
}

void loader_guard_window(const struct rlx_loader *ld, const struct loader_window *w, bool closed)
{
	unsigned int p;

	if (!(ld->o.flags & RLX_LOADER_GUARD) || !ld->base)
		return;
	for (p = 0; p < ld->d.parts; p++) {
		uint64_t half = ld->window_chunks * ld->part[p].pitch;

		protect(ld, ld->part[p].region + w->half * half, half, closed);
	}
}

/* Cut a read into pieces and queue them; gives back how many. */
static unsigned int read_span(struct rlx_loader *ld, struct reader_req *q, unsigned int part,
			      uint64_t to, const uint64_t span[2], uint64_t need)
{
	uint64_t at, n;
	unsigned int k = 0;

	for (at = 0; at < span[1]; at += n, k++) {
		n = span[1] - at < READER_PIECE ? span[1] - at : READER_PIECE;
		q[k].data = ld->base + to + at;
		q[k].offset = span[0] + at;
		q[k].bytes = (uint32_t)n;
		q[k].need = (uint32_t)(need <= at ? 0 : need - at < n ? need - at : n);
		q[k].fd = ld->d.part[part].fd;
		q[k].write = false;
		reader_submit(ld->reader, &q[k]);
	}
	return k;
}

static void label(struct reader_req *q, unsigned int n, void *owner, unsigned int tag)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		q[i].owner = owner;
		q[i].tag = tag;
	}
}

static void begin_resident(struct rlx_loader *ld)
{
	struct loader_window *w = &ld->window[0];
	struct reader_req *q = w->req;
	unsigned int p, n;
	uint64_t c;

	w->chunks = ld->d.file ? (unsigned int)ld->d.chunks : ld->d.parts;
	w->reading = w->checked = w->checking = 0;
	for (c = 0; c < w->chunks; c++) {
		w->chunk[c] = c;
		w->bad[c] = false;
	}
	w->err = (struct rlx_error){ 0 };
	w->state = WINDOW_READING;
	for (p = 0; p < ld->d.parts; p++) {
		const struct dataset_part *d = &ld->d.part[p];
		uint64_t span[2] = { ld->part[p].lead };

		if (d->codec)
			continue;
		span[1] = loader_span(d, d->base, d->end - d->base, &span[0]);
		n = read_span(ld, q, p, ld->part[p].region, span, d->end - span[0]);
		label(q, n, w, p);
		q += n;
		w->reading += n;
	}
	if (!w->reading) {
		w->state = loader_window_needs_work(ld) ? WINDOW_READ : WINDOW_READY;
		pthread_cond_broadcast(&ld->work);
	}
}

static void fail_window(struct rlx_loader *ld, struct loader_window *w,
			const struct rlx_error *err)
{
	w->err = *err;
	w->state = WINDOW_BAD;
	ld->failed = true;
	pthread_cond_broadcast(&ld->work);
}

static void read_window(struct rlx_loader *ld, struct loader_window *w)
{
	struct reader_req *q = w->req;
	unsigned int i, p, n;

	w->reading = w->checked = w->checking = 0;
	w->state = WINDOW_READING;
	loader_guard_window(ld, w, true);
	for (i = 0; i < w->chunks; i++)
		for (p = 0; p < ld->d.parts; p++) {
			uint64_t offset, bytes, span[2];

			dataset_chunk(&ld->d, p, w->chunk[i], &offset, &bytes);
			span[1] = loader_span(&ld->d.part[p], offset, bytes, &span[0]);
			n = read_span(ld, q, p, ld->part[p].region + ld->part[p].pitch *
				      (w->half * ld->window_chunks + i), span,
				      offset + bytes - span[0]);
			label(q, n, w, i * ld->d.parts + p);
			q += n;
			w->reading += n;
		}
}

/* Windows before it are read by nobody any more. */
static uint64_t least_needed(const struct rlx_loader *ld)
{
	uint64_t a, b;

	loader_windows_of(ld, ld->done, &a, &b);
	return a;
}

/* The next window, if its half is free: true, and its reads are queued. */
static bool begin_window(struct rlx_loader *ld)
{
	struct loader_window *w = &ld->window[ld->next_half];
	struct rlx_error err = { 0 };
	uint64_t epoch;

	if (w->state == WINDOW_READING || w->state == WINDOW_READ ||
	    (w->state != WINDOW_FREE && w->number >= least_needed(ld)))
		return false;
	w->state = WINDOW_FREE;
	epoch = ld->next_window / ld->windows;
	loader_plan_epoch(ld, epoch);
	/* what a full epoch leaves over no batch reads */
	if (ld->plan[epoch & 1].first[ld->next_window % ld->windows] >= ld->epoch_rows) {
		ld->next_window = (epoch + 1) * ld->windows;
		return true;
	}
	w->err = (struct rlx_error){ 0 };
	loader_fill_window(ld, w, ld->next_window);
	ld->next_window++;
	ld->next_half ^= 1;
	if (dataset_unchanged(&ld->d, &err))
		fail_window(ld, w, &err);
	else
		read_window(ld, w);
	return true;
}

static void fail_slot(struct rlx_loader *ld, struct loader_slot *s, const struct rlx_error *err)
{
	s->err = *err;
	s->state = SLOT_BAD;
	ld->failed = true;
	pthread_cond_broadcast(&ld->ready);
}

static void read_rows(struct rlx_loader *ld, struct loader_slot *s)
{
	struct reader_req *q = s->req;
	struct loader_window *w;
	struct loader_pick pick;
	unsigned int row, p, n, chunk;

	loader_pick_begin(ld, s->number, &pick);
	loader_guard_slot(ld, s, true);
	s->reading = 0;
	s->state = SLOT_READING;
	memset(s->bad, 0, ld->o.batch * sizeof(*s->bad));
	for (row = 0; row < ld->o.batch; row++) {
		uint64_t i = loader_pick_at(ld, &pick, row, &w, &chunk);

		for (p = 0; p < ld->d.parts; p++) {
			uint64_t offset, bytes, span[2];

			dataset_at(&ld->d, p, i, &offset, &bytes);
			span[1] = loader_span(&ld->d.part[p], offset, bytes, &span[0]);
			n = read_span(ld, q, p, s->at + ld->part[p].data + row * ld->part[p].pitch,
				      span, offset + bytes - span[0]);
			label(q, n, s, row * ld->d.parts + p);
			q += n;
			s->reading += n;
		}
	}
}

static bool begin_rows(struct rlx_loader *ld)
{
	struct loader_slot *s = &ld->slot[ld->filled % ld->o.depth];
	struct rlx_error err = { 0 };

	if (ld->filled >= ld->done + ld->o.depth || s->state != SLOT_FREE)
		return false;
	s->number = ld->filled++;
	s->err = (struct rlx_error){ 0 };
	if ((s->number == ld->begin || s->number % ASK_EVERY == 0 ||
	     s->number % ld->epoch_batches == 0) && dataset_unchanged(&ld->d, &err)) {
		fail_slot(ld, s, &err);
		return true;
	}
	read_rows(ld, s);
	return true;
}

static bool begin(struct rlx_loader *ld)
{
	if (ld->failed)
		return false;
	if (ld->layout == RLX_LAYOUT_CHUNKS)
		return begin_window(ld);
	if (ld->layout == RLX_LAYOUT_ROWS)
		return begin_rows(ld);
	if (ld->window[0].state != WINDOW_FREE)
		return false;
	begin_resident(ld);
	return true;
}

/* What the records that @q was for are called. */
static void explain(struct rlx_loader *ld, const struct reader_req *q, struct rlx_error *err)
{
	const struct dataset_part *p = &ld->d.part[q->tag % ld->d.parts];
	unsigned int i = q->tag / ld->d.parts, chunk = 0;
	const char *what = q->error == ENODATA ? "it ends there: it was cut short" :
			   strerror(q->error);
	uint64_t first = 0, n = ld->d.records, c = 0;
	struct loader_window *w;
	struct loader_pick pick;

	if (ld->layout == RLX_LAYOUT_ROWS) {
		loader_pick_begin(ld, ((struct loader_slot *)q->owner)->number, &pick);
		first = loader_pick_at(ld, &pick, i, &w, &chunk);
		c = ld->d.per_chunk ? first / ld->d.per_chunk : 0;
		n = 1;
	} else if (ld->layout == RLX_LAYOUT_CHUNKS) {
		c = ((struct loader_window *)q->owner)->chunk[i];
		dataset_chunk_records(&ld->d, c, &first, &n);
	}
	rlx_fail(err, RLX_EIO, "%s: chunk %llu, records %llu to %llu: reading %u bytes at %llu: %s",
		 p->path, (unsigned long long)c, (unsigned long long)first,
		 (unsigned long long)(first + n - 1), q->bytes,
		 (unsigned long long)(q->offset + q->done), what);
}

static void take_failure(struct rlx_loader *ld, struct reader_req *q)
{
	unsigned int i = q->tag / ld->d.parts;
	struct rlx_error why = { 0 }, err = { 0 };
	struct loader_window *w = q->owner;
	struct loader_slot *s = q->owner;
	uint64_t first, n;

	explain(ld, q, &why);
	if (ld->layout == RLX_LAYOUT_ROWS) {
		if (s->bad[i])
			return;
		s->bad[i] = true;
		if (loader_skip(ld, 1, &why, &err) && !s->err.status)
			s->err = err;
	} else if (ld->layout == RLX_LAYOUT_CHUNKS) {
		if (w->bad[i])
			return;
		w->bad[i] = true;
		dataset_chunk_records(&ld->d, w->chunk[i], &first, &n);
		if (loader_skip(ld, n, &why, &err) && !w->err.status)
			w->err = err;
	} else if (!w->err.status) {
		w->err = why;
	}
}

static void take_slot(struct rlx_loader *ld, struct loader_slot *s)
{
	if (--s->reading)
		return;
	if (s->err.status) {
		fail_slot(ld, s, &s->err);
	} else if (loader_slot_needs_work(ld)) {
		s->state = SLOT_READ;
		pthread_cond_broadcast(&ld->work);
	} else {
		s->state = SLOT_READY;
		ld->info.batches++;
		pthread_cond_broadcast(&ld->ready);
	}
}

static void take_window(struct rlx_loader *ld, struct loader_window *w)
{
	if (--w->reading)
		return;
	if (w->err.status) {
		fail_window(ld, w, &w->err);
		return;
	}
	w->state = loader_window_needs_work(ld) ? WINDOW_READ : WINDOW_READY;
	pthread_cond_broadcast(&ld->work);
}

static void take(struct rlx_loader *ld, struct reader_req *list)
{
	struct reader_req *q, *next;

	for (q = list; q; q = next) {
		next = q->next;
		if (ld->d.part[q->tag % ld->d.parts].direct)
			ld->info.bytes_direct += q->done;
		else
			ld->info.bytes_buffered += q->done;
		if (q->error)
			take_failure(ld, q);
		if (ld->layout == RLX_LAYOUT_ROWS)
			take_slot(ld, q->owner);
		else
			take_window(ld, q->owner);
	}
}

void *loader_io(void *arg)
{
	struct rlx_loader *ld = arg;
	struct reader_req *list;

	pthread_mutex_lock(&ld->lock);
	while (!ld->stop || reader_in_flight(ld->reader)) {
		while (!ld->stop && begin(ld))
			;
		pthread_mutex_unlock(&ld->lock);
		list = reader_wait(ld->reader);
		pthread_mutex_lock(&ld->lock);
		take(ld, list);
	}
	pthread_mutex_unlock(&ld->lock);
	return NULL;
}
