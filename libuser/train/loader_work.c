// SPDX-License-Identifier: MIT
/* The workers: crcs of what was read, batches of what is there. */
#include <string.h>

#include "train/crc32c.h"
#include "train/loader.h"

static bool checks_file(const struct rlx_loader *ld)
{
	return ld->d.file && ld->o.verify != RLX_VERIFY_NONE;
}

bool loader_window_needs_work(const struct rlx_loader *ld)
{
	unsigned int p;

	for (p = 0; p < ld->d.parts; p++)
		if (ld->d.part[p].codec)
			return true;
	return checks_file(ld);
}

bool loader_slot_needs_work(const struct rlx_loader *ld)
{
	unsigned int p;

	for (p = 0; p < ld->d.parts; p++)
		if (!ld->part[p].fixed)
			return true;
	return ld->dense || ld->o.augment || ld->o.flags & RLX_LOADER_SKIP ||
	       (checks_file(ld) && ld->d.file->record_crc);
}

enum rlx_status loader_skip(struct rlx_loader *ld, uint64_t n, const struct rlx_error *why,
			    struct rlx_error *err)
{
	uint64_t most = ld->d.records / 1000;

	if (!(ld->o.flags & RLX_LOADER_SKIP))
		return rlx_fail(err, why->status, "%s", why->text);
	ld->info.skipped += n;
	most = (most ? most : 1) *
	       (ld->out / ld->epoch_batches - ld->begin / ld->epoch_batches + 1);
	if (ld->info.skipped > most)
		return rlx_fail(err, why->status, "%.300s; %llu records were skipped, more than a "
				"thousandth", why->text, (unsigned long long)ld->info.skipped);
	return RLX_OK;
}

uint64_t loader_where(const struct rlx_loader *ld, const struct loader_place *at,
		      unsigned int part)
{
	const struct dataset_part *p = &ld->d.part[part];
	const struct loader_part *lp = &ld->part[part];
	uint64_t offset, bytes, begin, chunk;

	dataset_at(&ld->d, part, at->record, &offset, &bytes);
	if (ld->layout == RLX_LAYOUT_RESIDENT)
		return lp->region + offset - lp->lead;
	if (ld->layout == RLX_LAYOUT_ROWS) {
		loader_span(p, offset, bytes, &begin);
		return at->slot->at + lp->data + at->row * lp->pitch + offset - begin;
	}
	dataset_chunk(&ld->d, part, at->window->chunk[at->chunk], &chunk, &bytes);
	loader_span(p, chunk, bytes, &begin);
	return lp->region + lp->pitch * (at->window->half * ld->window_chunks + at->chunk) +
	       offset - begin;
}

/* ---- windows ---- */

static enum rlx_status check_chunk(struct rlx_loader *ld, const struct loader_window *w,
				   unsigned int i, struct rlx_error *err)
{
	const struct rlx_record *r = ld->d.file;
	uint64_t at = ld->part[0].region, first, n, c = w->chunk[i];

	if (!r)		/* RESIDENT: part i */
		return ld->d.part[i].codec ? dataset_unpack(&ld->d, i, ld->base +
							    ld->part[i].region, err) : RLX_OK;
	if (ld->layout == RLX_LAYOUT_RESIDENT)
		at += ld->d.part[0].base + c * r->info.chunk_bytes - ld->part[0].lead;
	else
		at += ld->part[0].pitch * (w->half * ld->window_chunks + i);
	if (w->bad[i] || crc32c(0, ld->base + at, r->info.chunk_bytes) == r->chunk[c].crc)
		return RLX_OK;
	dataset_chunk_records(&ld->d, c, &first, &n);
	return rlx_fail(err, RLX_EIO, "%s: chunk %llu, records %llu to %llu: its crc does not fit: "
			"it is damaged", ld->d.part[0].path, (unsigned long long)c,
			(unsigned long long)first, (unsigned long long)(first + n - 1));
}

/* Called with the lock, which is let go meanwhile. */
static void work_window(struct rlx_loader *ld, struct loader_window *w)
{
	struct rlx_error why = { 0 }, err = { 0 };
	unsigned int i = w->checking++;
	enum rlx_status st;
	uint64_t first, n;

	pthread_mutex_unlock(&ld->lock);
	st = check_chunk(ld, w, i, &why);
	pthread_mutex_lock(&ld->lock);
	if (!st && !ld->d.file && ld->d.part[i].codec) {
		ld->info.bytes_buffered += ld->d.part[i].packed_bytes;
		ld->info.bytes_decoded += ld->d.part[i].end;
	}
	if (st && !ld->d.file) {
		err = why;
	} else if (st) {
		w->bad[i] = true;
		dataset_chunk_records(&ld->d, w->chunk[i], &first, &n);
		st = loader_skip(ld, n, &why, &err);
	}
	if (st && !w->err.status)
		w->err = err;
	if (++w->checked < w->chunks)
		return;
	w->state = w->err.status ? WINDOW_BAD : WINDOW_READY;
	ld->failed = ld->failed || w->err.status;
	pthread_cond_broadcast(&ld->work);
}

/* ---- batches ---- */

/* One batch being built. */
struct build {
	struct rlx_loader	*ld;
	struct loader_slot	*s;
	struct loader_pick	 pick;
	uint64_t		 decoded, copied, skipped;	/* to be added to the counts */
	struct rlx_error	 why;		/* of the first bad row */
};

static struct loader_place place_of(const struct build *b, unsigned int row)
{
	struct loader_place at = { .slot = b->s, .row = row };
	struct loader_window *w;

	at.record = loader_pick_at(b->ld, &b->pick, row, &w, &at.chunk);
	at.window = w;
	return at;
}

static uint8_t *dense_row(const struct build *b, unsigned int field, unsigned int row)
{
	const struct rlx_loader *ld = b->ld;

	return ld->base + b->s->at + ld->dense_at[field] +
	       row * (uint64_t)rlx_type_bytes(&ld->public_field[field].type);
}

static bool was_bad(const struct build *b, const struct loader_place *at)
{
	if (b->ld->layout == RLX_LAYOUT_CHUNKS)
		return at->window->bad[at->chunk];
	if (b->ld->layout == RLX_LAYOUT_RESIDENT && b->ld->d.file) {
		uint64_t size = b->ld->d.file->info.chunk_bytes, c, end, bytes;

		dataset_at(&b->ld->d, 0, at->record, &c,
			   &bytes); /* rows of a stream cross chunks */
		c -= b->ld->d.part[0].base;
		for (end = (c + (bytes ? bytes - 1 : 0)) / size, c /= size; c <= end; c++)
			if (b->ld->window[0].bad[c])
				return true;
		return false;
	}
	return b->s->bad[at->row];
}

static void make_dense(struct build *b, const struct loader_place *at)
{
	struct rlx_sample in = {
		.record = at->record, .sample = b->pick.sample + at->row, .seed = b->ld->o.seed,
		.n = b->ld->d.fields,
	};
	struct rlx_loader *ld = b->ld;
	void *out[RLX_FIELDS_MAX];
	unsigned int i;
	uint64_t offset;

	for (i = 0; i < in.n; i++) {
		const struct dataset_field *f = &ld->d.field[i];

		in.data[i] = ld->base + loader_where(ld, at, f->part) + f->offset;
		in.bytes[i] = (uint64_t)rlx_type_bytes(&f->field.type);
		if (!ld->d.part[f->part].stride)
			dataset_at(&ld->d, f->part, at->record, &offset, &in.bytes[i]);
	}
	for (i = 0; i < ld->fields; i++) {
		out[i] = dense_row(b, i, at->row);
		if (!ld->o.decode) {
			memcpy(out[i], in.data[i], in.bytes[i]);
			b->copied += in.bytes[i];
		}
	}
	if (!ld->o.decode)
		return;
	if (ld->o.decode(ld->o.ctx, &in, out, &b->why)) {
		b->s->bad[at->row] = true;
		rlx_fail(&b->why, RLX_EIO, "%s: record %llu: the decode function refuses it",
			 ld->d.part[0].path, (unsigned long long)at->record);
		return;
	}
	for (i = 0; i < ld->fields; i++)
		b->decoded += (uint64_t)rlx_type_bytes(&ld->public_field[i].type);
}

static void change(struct build *b, const struct loader_place *at)
{
	struct rlx_loader *ld = b->ld;
	const struct rlx_type *t;
	unsigned int i = 0;
	uint8_t *p;

	while (strcmp(ld->public_field[i].name, ld->augment.field))
		i++;
	t = &ld->public_field[i].type;
	p = ld->dense ? dense_row(b, i, at->row) :
	    ld->base + loader_where(ld, at, ld->d.field[i].part) + ld->d.field[i].offset;
	augment_apply(&ld->augment, t, p, ld->o.seed, b->pick.sample + at->row);
	b->decoded += (uint64_t)rlx_type_bytes(t);
}

static void check_record(struct build *b, const struct loader_place *at)
{
	const struct rlx_record *r = b->ld->d.file;

	if (b->ld->layout != RLX_LAYOUT_ROWS || !checks_file(b->ld) || !r->record_crc ||
	    b->ld->d.stream)
		return;
	if (crc32c(0, b->ld->base + loader_where(b->ld, at, 0), r->info.stride) ==
	    r->record_crc[at->record])
		return;
	b->s->bad[at->row] = true;
	rlx_fail(&b->why, RLX_EIO,
		 "%s: chunk %llu, record %llu: its crc does not fit: it is damaged",
		 b->ld->d.part[0].path, (unsigned long long)(at->record / r->per_chunk),
		 (unsigned long long)at->record);
}

/* Records lie anywhere: what a later row copies begins to come while this one is copied. */
static void prefetch_row(const struct build *b, unsigned int row)
{
	struct loader_place at = place_of(b, row);
	unsigned int i;
	uint64_t k;

	for (i = 0; i < b->ld->d.fields; i++) {
		const struct dataset_field *f = &b->ld->d.field[i];
		const uint8_t *p = b->ld->base + loader_where(b->ld, &at, f->part) + f->offset;
		uint64_t n = (uint64_t)rlx_type_bytes(&f->field.type);

		for (k = 0; k < n && k < 1024; k += 64)
			__builtin_prefetch(p + k);
	}
}

static void build_row(struct build *b, unsigned int row)
{
	struct rlx_loader *ld = b->ld;
	struct loader_place at = place_of(b, row);
	bool counted = was_bad(b, &at);
	unsigned int p;

	b->s->bad[row] = counted;
	if (!counted)
		check_record(b, &at);
	if (!b->s->bad[row] && ld->dense)
		make_dense(b, &at);
	b->skipped += b->s->bad[row] && !counted;
	if (!b->s->bad[row] && ld->o.augment && row < b->pick.rows)
		change(b, &at);
	for (p = 0; p < ld->d.parts && !ld->dense; p++) {
		const struct loader_part *lp = &ld->part[p];
		int64_t *rows = (int64_t *)(ld->base + b->s->at + lp->rows);
		uint64_t from = ld->layout == RLX_LAYOUT_ROWS ? b->s->at + lp->data :
				lp->region + lp->origin;

		if (!lp->fixed)
			rows[row] = (int64_t)((loader_where(ld, &at, p) - from) / lp->unit);
	}
}

/* Row @row becomes what @from is. */
static void replace_row(struct build *b, unsigned int row, unsigned int from)
{
	struct rlx_loader *ld = b->ld;
	uint64_t bytes;
	unsigned int i;

	for (i = 0; i < ld->fields && ld->dense; i++) {
		bytes = (uint64_t)rlx_type_bytes(&ld->public_field[i].type);
		memcpy(dense_row(b, i, row), dense_row(b, i, from), bytes);
		b->copied += bytes;
	}
	for (i = 0; i < ld->d.parts && !ld->dense; i++) {
		const struct loader_part *lp = &ld->part[i];
		int64_t *rows = (int64_t *)(ld->base + b->s->at + lp->rows);
		uint8_t *data = ld->base + b->s->at + lp->data;

		if (!lp->fixed) {
			rows[row] = rows[from];
			continue;
		}
		memcpy(data + row * lp->pitch, data + from * lp->pitch, ld->d.part[i].bytes);
		b->copied += ld->d.part[i].bytes;
	}
}

static enum rlx_status replace_bad(struct build *b, struct rlx_error *err)
{
	unsigned int row, i, n = b->ld->o.batch;

	for (row = 0; row < n; row++) {
		if (!b->s->bad[row])
			continue;
		for (i = 1; i < n && b->s->bad[(row + i) % n]; i++)
			;
		if (i == n)
			return rlx_fail(err, RLX_EIO, "%s: all records of a batch are damaged",
					b->ld->d.part[0].path);
		replace_row(b, row, (row + i) % n);
	}
	return RLX_OK;
}

/* Called with the lock, which is let go meanwhile. */
static void work_slot(struct rlx_loader *ld, struct loader_slot *s)
{
	struct build b = { .ld = ld, .s = s };
	struct rlx_error err = { 0 };
	enum rlx_status st = RLX_OK;
	unsigned int row;

	s->state = SLOT_BUILDING;
	loader_pick_begin(ld, s->number, &b.pick);
	pthread_mutex_unlock(&ld->lock);
	for (row = 0; row < ld->o.batch; row++) {
		if (ld->o.flags & RLX_LOADER_DENSE && row + 2 < ld->o.batch)
			prefetch_row(&b, row + 2);
		build_row(&b, row);
	}
	pthread_mutex_lock(&ld->lock);
	if (b.skipped)
		st = loader_skip(ld, b.skipped, &b.why, &err);
	pthread_mutex_unlock(&ld->lock);
	if (!st)
		st = replace_bad(&b, &err);
	pthread_mutex_lock(&ld->lock);
	ld->info.bytes_decoded += b.decoded;
	ld->info.bytes_copied += b.copied;
	ld->info.batches += !st;
	s->err = err;
	s->state = st ? SLOT_BAD : SLOT_READY;
	ld->failed = ld->failed || st;
	pthread_cond_broadcast(&ld->ready);
}

static struct loader_window *window_to_check(struct rlx_loader *ld)
{
	unsigned int i;

	for (i = 0; i < 2 && ld->layout != RLX_LAYOUT_ROWS; i++)
		if (ld->window[i].state == WINDOW_READ &&
		    ld->window[i].checking < ld->window[i].chunks)
			return &ld->window[i];
	return NULL;
}

/* ROWS: the oldest that was read. */
static struct loader_slot *slot_that_was_read(struct rlx_loader *ld)
{
	uint64_t n;

	for (n = ld->out; n < ld->filled; n++)
		if (ld->slot[n % ld->o.depth].state == SLOT_READ)
			return &ld->slot[n % ld->o.depth];
	return NULL;
}

/* A window that failed, for batches that need it to say so. */
static const struct loader_window *failed_window(struct rlx_loader *ld, uint64_t a, uint64_t b,
						 bool *all_ready)
{
	const struct loader_window *w[2] = { &ld->window[0], &ld->window[0] };
	unsigned int i;

	*all_ready = true;
	if (ld->layout == RLX_LAYOUT_CHUNKS) {
		w[0] = loader_window_find(ld, a);
		w[1] = loader_window_find(ld, b);
	}
	for (i = 0; i < 2; i++) {
		*all_ready = *all_ready && w[i] && w[i]->state == WINDOW_READY;
		if (w[i] && w[i]->state == WINDOW_BAD)
			return w[i];
	}
	return NULL;
}

/* CHUNKS and RESIDENT: the next batch, if its records are there and a slot is. */
static struct loader_slot *slot_to_build(struct rlx_loader *ld)
{
	struct loader_slot *s = &ld->slot[ld->built % ld->o.depth];
	const struct loader_window *bad;
	uint64_t a = 0, b = 0;
	bool ready;

	if (ld->built >= ld->done + ld->o.depth || s->state != SLOT_FREE)
		return NULL;
	if (ld->layout == RLX_LAYOUT_CHUNKS && !loader_windows_of(ld, ld->built, &a, &b))
		return NULL;
	bad = failed_window(ld, a, b, &ready);
	if (!bad && !ready)
		return NULL;
	s->number = ld->built++;
	s->err = (struct rlx_error){ 0 };
	memset(s->bad, 0, ld->o.batch * sizeof(*s->bad));
	if (!bad)
		return s;
	s->err = bad->err;
	s->state = SLOT_BAD;
	pthread_cond_broadcast(&ld->ready);
	return NULL;
}

void *loader_worker(void *arg)
{
	struct rlx_loader *ld = arg;

	pthread_mutex_lock(&ld->lock);
	while (!ld->stop) {
		struct loader_window *w = window_to_check(ld);
		struct loader_slot *s;

		if (w) {
			work_window(ld, w);
			continue;
		}
		s = ld->layout == RLX_LAYOUT_ROWS ? slot_that_was_read(ld) : slot_to_build(ld);
		if (s)
			work_slot(ld, s);
		else
			pthread_cond_wait(&ld->work, &ld->lock);
	}
	pthread_mutex_unlock(&ld->lock);
	return NULL;
}
