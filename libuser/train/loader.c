// SPDX-License-Identifier: MIT
/* The loader: opened, asked for batches, told where it stands, closed. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/thread.h"
#include "train/loader.h"

enum { BATCH_MAX = 1 << 20, DEPTH_MAX = 64, WORKERS_MAX = 64, READS = 64 };

static enum rlx_status check_opts(struct rlx_loader *ld, const struct rlx_loader_opts *opts,
				  struct rlx_error *err)
{
	struct rlx_loader_opts *o = &ld->o;
	const uint32_t flags = RLX_LOADER_SKIP | RLX_LOADER_DENSE | RLX_LOADER_NO_RING |
			       RLX_LOADER_BUFFERED | RLX_LOADER_GUARD;
	const char *what = NULL;

	if (!opts || opts->size < sizeof(opts->size) || opts->size > sizeof(*o))
		return rlx_fail(err, RLX_EINVAL, "loader: no options, or their size is none");
	memcpy(o, opts, opts->size);
	o->world = o->world ? o->world : 1;
	o->depth = o->depth ? o->depth : 4;
	o->workers = o->workers ? o->workers : 1;
	o->step = o->step ? o->step : o->sample;
	o->resident = o->resident ? o->resident : 256ull << 20;
	if (!o->batch || o->batch > BATCH_MAX)
		what = "batch is 0 or over 2^20";
	else if (o->rank >= o->world || o->world > 1 << 20)
		what = "rank is not below world";
	else if (o->depth > DEPTH_MAX || o->workers > WORKERS_MAX)
		what = "depth and workers are at most 64";
	else if (o->verify > RLX_VERIFY_NONE || o->layout > RLX_LAYOUT_ROWS)
		what = "no such verify or layout";
	else if (o->flags & ~flags)
		what = "an unknown flag";
	else if (!!o->decode != !!o->n_decoded || o->n_decoded > RLX_FIELDS_MAX ||
		 (o->n_decoded && !o->decoded))
		what = "decode and decoded go together, 1 to 16 fields";
	else if (o->augment && (o->augment->size != sizeof(*o->augment) || !o->augment->field))
		what = "augment has another size, or no field";
	else if (o->decode && o->flags & RLX_LOADER_DENSE)
		what = "decode gives dense fields already";
	else if (o->flags & RLX_LOADER_GUARD && (o->verify != RLX_VERIFY_NONE || o->augment ||
		 o->decode || o->flags & (RLX_LOADER_DENSE | RLX_LOADER_NO_RING | RLX_LOADER_SKIP)))
		what = "RLX_LOADER_GUARD goes with a ring, RLX_VERIFY_NONE and no decode, augment, "
		       "SKIP or DENSE";
	return what ? rlx_fail(err, RLX_EINVAL, "loader: %s", what) : RLX_OK;
}

static enum rlx_status choose_fields(struct rlx_loader *ld, struct rlx_error *err)
{
	const char *what;
	unsigned int i;

	ld->dense = ld->o.decode || ld->o.flags & RLX_LOADER_DENSE;
	if (ld->o.decode) {
		what = record_bad_field(ld->o.decoded, ld->o.n_decoded, 0);
		if (what)
			return rlx_fail(err, RLX_EINVAL, "loader: decoded: %s", what);
		ld->fields = ld->o.n_decoded;
		memcpy(ld->public_field, ld->o.decoded, ld->fields * sizeof(*ld->public_field));
	} else {
		ld->fields = ld->d.fields;
		for (i = 0; i < ld->fields; i++)
			ld->public_field[i] = ld->d.field[i].field;
	}
	if (!ld->o.augment)
		return RLX_OK;
	ld->augment = *ld->o.augment;
	for (i = 0; i < ld->fields; i++)
		if (!strcmp(ld->public_field[i].name, ld->augment.field))
			return augment_check(&ld->augment, &ld->public_field[i].type, err);
	return rlx_fail(err, RLX_ENOENT, "loader: augment: no field \"%s\"", ld->augment.field);
}

static enum rlx_status choose_layout(struct rlx_loader *ld, struct rlx_error *err)
{
	bool codec = false, large = false, in_place = ld->o.augment && !ld->dense;
	const char *path = ld->d.part[0].path;
	uint64_t bytes = 0;
	unsigned int p;

	for (p = 0; p < ld->d.parts; p++) {
		codec = codec || ld->d.part[p].codec;
		large = large || ld->d.part[p].stride >= RECORD_LARGE;
		/* as a header tells them: what wraps is more than there is */
		if (!rlx_add(bytes, ld->d.part[p].end - ld->d.part[p].base, &bytes))
			bytes = UINT64_MAX;
	}
	ld->layout = ld->o.layout;
	if (!ld->layout)
		ld->layout = codec || (bytes <= ld->o.resident && !in_place) ? RLX_LAYOUT_RESIDENT :
			     ld->d.stream || large ? RLX_LAYOUT_ROWS : RLX_LAYOUT_CHUNKS;
	if (codec && ld->layout != RLX_LAYOUT_RESIDENT)
		return rlx_fail(
			err, RLX_ENOSUP,
			"%s: what is compressed as a whole can only be kept "
			"whole (RESIDENT); rlx data convert makes a file that can be read in "
			"parts",
			path);
	if (codec && bytes > ld->o.resident)
		return rlx_fail(err, RLX_ENOSUP,
				"%s: %llu bytes when decoded, resident allows %llu; "
				"allow more, or convert it",
				path, (unsigned long long)bytes,
				(unsigned long long)ld->o.resident);
	if (in_place && ld->layout == RLX_LAYOUT_RESIDENT)
		return rlx_fail(err, RLX_EINVAL, "%s: augment would change data that is kept: take "
				"RLX_LOADER_DENSE, or augment in the program", path);
	if (ld->d.stream && ld->layout == RLX_LAYOUT_CHUNKS)
		return rlx_fail(err, RLX_ENOSUP, "%s: rows of a stream cross chunks: take ROWS",
				path);
	if (ld->o.flags & RLX_LOADER_GUARD && ld->layout == RLX_LAYOUT_RESIDENT)
		return rlx_fail(err, RLX_EINVAL, "%s: RLX_LOADER_GUARD is for CHUNKS and ROWS",
				path);
	return RLX_OK;
}

static enum rlx_status count_epoch(struct rlx_loader *ld, struct rlx_error *err)
{
	uint64_t global = (uint64_t)ld->o.batch * ld->o.world, n = ld->d.records;

	ld->epoch_batches = (n + (ld->o.keep_last ? global - 1 : 0)) / global;
	ld->epoch_rows = ld->epoch_batches * global;
	if (!ld->epoch_batches)
		return rlx_fail(err, RLX_ESHAPE,
				"%s: %llu records, fewer than a global batch of %llu; "
				"take a smaller one, or keep_last",
				ld->d.part[0].path, (unsigned long long)n,
				(unsigned long long)global);
	ld->info.records = n;
	ld->info.epoch_batches = ld->epoch_batches;
	ld->info.layout = ld->layout;
	return RLX_OK;
}

static enum rlx_status window_alloc(struct rlx_loader *ld, struct loader_window *w,
				    uint64_t chunks, uint64_t reqs)
{
	w->chunk = rlx_calloc(chunks + 1, sizeof(*w->chunk));
	w->first = rlx_calloc(chunks + 1, sizeof(*w->first));
	w->bad = rlx_calloc(chunks + 1, sizeof(*w->bad));
	w->req = rlx_calloc(reqs + 1, sizeof(*w->req));
	return w->chunk && w->first && w->bad && w->req ? RLX_OK : RLX_ENOMEM;
}

static enum rlx_status allocate(struct rlx_loader *ld, struct rlx_error *err)
{
	uint64_t pieces = 0, chunks = ld->window_chunks, i;
	enum rlx_status st = RLX_OK;

	for (i = 0; i < ld->d.parts; i++)
		pieces += ld->part[i].pieces;
	if (ld->layout == RLX_LAYOUT_RESIDENT)
		chunks = ld->d.file ? ld->d.chunks : ld->d.parts;
	if (ld->layout != RLX_LAYOUT_ROWS)
		for (i = 0; i < 2 && !st; i++) {
			ld->window[i].half = (unsigned int)i;
			st = window_alloc(ld, &ld->window[i], chunks,
					  ld->layout == RLX_LAYOUT_RESIDENT ? pieces :
					  chunks * pieces);
		}
	for (i = 0; i < 2 && !st; i++) {
		ld->plan[i].first = rlx_calloc(ld->windows + 1, sizeof(*ld->plan[i].first));
		st = ld->plan[i].first ? RLX_OK : RLX_ENOMEM;
	}
	ld->slot = st ? NULL : rlx_calloc(ld->o.depth, sizeof(*ld->slot));
	ld->thread = rlx_calloc(ld->o.workers, sizeof(*ld->thread));
	if (!ld->slot || !ld->thread)
		st = RLX_ENOMEM;
	for (i = 0; i < ld->o.depth && !st; i++) {
		struct loader_slot *s = &ld->slot[i];

		s->at = ld->slots_at + i * ld->slot_bytes;
		s->bad = rlx_calloc(ld->o.batch, sizeof(*s->bad));
		s->req = ld->layout != RLX_LAYOUT_ROWS ? NULL :
			 rlx_calloc(ld->o.batch * pieces, sizeof(*s->req));
		if (!s->bad || (ld->layout == RLX_LAYOUT_ROWS && !s->req))
			st = RLX_ENOMEM;
	}
	return st ? rlx_fail(err, RLX_ENOMEM, "%s: no memory for its batches",
			     ld->d.part[0].path) : RLX_OK;
}

static void stop(struct rlx_loader *ld)
{
	unsigned int i;

	if (!ld->running)
		return;
	pthread_mutex_lock(&ld->lock);
	ld->stop = true;
	pthread_cond_broadcast(&ld->work);
	pthread_mutex_unlock(&ld->lock);
	reader_wake(ld->reader);
	pthread_join(ld->thread_io, NULL);
	for (i = 0; i < ld->threads; i++)
		pthread_join(ld->thread[i], NULL);
	ld->threads = 0;
	ld->running = false;
}

/* Begin at batch @n, with nothing read; what is resident stays. */
static enum rlx_status start(struct rlx_loader *ld, uint64_t n, struct rlx_error *err)
{
	bool kept = ld->layout == RLX_LAYOUT_RESIDENT && ld->window[0].state == WINDOW_READY;
	uint64_t b;
	unsigned int i;
	int e;

	ld->stop = ld->failed = false;
	ld->begin = ld->filled = ld->built = ld->out = ld->done = n;
	for (i = 0; i < 2; i++) {
		if (!kept)
			ld->window[i].state = WINDOW_FREE;
		ld->plan[i].epoch = UINT64_MAX;
	}
	for (i = 0; i < ld->o.depth; i++)
		ld->slot[i].state = SLOT_FREE;
	if (ld->layout == RLX_LAYOUT_CHUNKS) {
		loader_plan_epoch(ld, n / ld->epoch_batches);
		loader_windows_of(ld, n, &ld->next_window, &b);
	}
	e = rlx_thread_new(&ld->thread_io, loader_io, ld);
	if (e)
		return rlx_fail(err, RLX_ENOMEM, "loader: no thread: %s", strerror(e));
	ld->running = true;
	for (i = 0; i < ld->o.workers && !e; i++) {
		e = rlx_thread_new(&ld->thread[i], loader_worker, ld);
		ld->threads += !e;
	}
	if (!e)
		return RLX_OK;
	stop(ld);
	return rlx_fail(err, RLX_ENOMEM, "loader: no threads: %s", strerror(e));
}

static void describe_direct(struct rlx_loader *ld)
{
	unsigned int p;

	strcpy(ld->info.direct, "direct");
	for (p = 0; p < ld->d.parts; p++)
		if (ld->d.part[p].codec) {
			snprintf(ld->info.direct, sizeof(ld->info.direct),
				 "%.120s is compressed: read and decoded once, by a CPU",
				 ld->d.part[p].path);
		} else if (!ld->d.part[p].direct) {
			snprintf(ld->info.direct, sizeof(ld->info.direct), "%.120s: %s",
				 ld->d.part[p].path, ld->o.flags & RLX_LOADER_BUFFERED ?
				 "through the page cache, as asked for" :
				 "its file system or its alignment has no direct I/O: through the "
				 "page cache");
			break;
		}
}

static enum rlx_status set_up(struct rlx_loader *ld, struct rlx_error *err)
{
	struct reader_opts ro = { .depth = READS, .no_ring = ld->o.flags & RLX_LOADER_NO_RING };
	enum rlx_status st;

	st = dataset_open(&ld->d, ld->o.path, ld->o.flags & RLX_LOADER_BUFFERED, err);
	if (!st && ld->o.sample)
		st = dataset_cut(&ld->d, ld->o.sample, ld->o.step, err);
	else if (!st && ld->d.stream)
		st = rlx_fail(err, RLX_EINVAL, "%s: a stream: say how many elements a row has "
			      "(sample)", ld->o.path);
	if (!st)
		st = choose_fields(ld, err);
	if (!st)
		st = choose_layout(ld, err);
	if (!st)
		st = count_epoch(ld, err);
	if (!st && ld->d.file && ld->o.verify == RLX_VERIFY_OPEN)
		st = rlx_record_verify(ld->d.file, err);
	if (!st)
		st = loader_place(ld, err);
	if (!st)
		st = allocate(ld, err);
	if (st)
		return st;
	ro.memory = ld->base;
	ro.bytes = ld->memory.bytes;
	st = reader_new(&ro, &ld->reader, err);
	if (st)
		return st;
	snprintf(ld->info.reader, sizeof(ld->info.reader), "%s", reader_text(ld->reader));
	describe_direct(ld);
	if (ld->o.flags & RLX_LOADER_GUARD && !reader_is_registered(ld->reader))
		return rlx_fail(err, RLX_ENOSUP,
				"%s: RLX_LOADER_GUARD wants registered memory; the "
				"reader is: %s",
				ld->o.path, ld->info.reader);
	return start(ld, 0, err);
}

enum rlx_status rlx_loader_open(const struct rlx_loader_opts *opts, struct rlx_loader **out,
				struct rlx_error *err)
{
	struct rlx_loader *ld;
	enum rlx_status st;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "loader: out is NULL");
	*out = NULL;
	ld = rlx_calloc(1, sizeof(*ld));
	if (!ld)
		return rlx_fail(err, RLX_ENOMEM, "loader: no memory");
	pthread_mutex_init(&ld->lock, NULL);
	pthread_cond_init(&ld->work, NULL);
	rlx_cond_init(&ld->ready);
	st = check_opts(ld, opts, err);
	if (!st)
		st = set_up(ld, err);
	if (st)
		rlx_loader_close(ld);
	else
		*out = ld;
	return st;
}

void rlx_loader_close(struct rlx_loader *ld)
{
	unsigned int i;

	if (!ld)
		return;
	stop(ld);
	reader_free(ld->reader);
	for (i = 0; i < 2; i++) {
		if (ld->window[i].state != WINDOW_FREE)
			loader_guard_window(ld, &ld->window[i], false);
		rlx_free(ld->window[i].chunk);
		rlx_free(ld->window[i].first);
		rlx_free(ld->window[i].bad);
		rlx_free(ld->window[i].req);
		rlx_free(ld->plan[i].first);
	}
	for (i = 0; ld->slot && i < ld->o.depth; i++) {
		if (ld->slot[i].bad)
			loader_guard_slot(ld, &ld->slot[i], false);
		rlx_free(ld->slot[i].bad);
		rlx_free(ld->slot[i].req);
	}
	rlx_free(ld->slot);
	rlx_free(ld->thread);
	if (ld->memory.arena)
		rlx_buf_free(ld->memory, NULL);
	rlx_arena_put(ld->arena);
	dataset_close(&ld->d);
	pthread_cond_destroy(&ld->ready);
	pthread_cond_destroy(&ld->work);
	pthread_mutex_destroy(&ld->lock);
	rlx_free(ld);
}

const struct rlx_error *rlx_loader_error(const struct rlx_loader *ld)
{
	return ld ? &ld->err : &rlx_error_null;
}

const struct rlx_field *rlx_loader_field(const struct rlx_loader *ld, unsigned int i)
{
	return ld && i < ld->fields ? &ld->public_field[i] : NULL;
}

/* The batch's memory becomes the CPU's to touch again. */
static void hand_out(struct rlx_loader *ld, struct loader_slot *s, struct rlx_batch *out)
{
	struct loader_pick pick;
	unsigned int i;

	loader_guard_slot(ld, s, false);
	loader_pick_begin(ld, s->number, &pick);
	for (i = 0; i < 2; i++)
		if (pick.window[i])
			loader_guard_window(ld, pick.window[i], false);
	*out = (struct rlx_batch){
		.sequence = s->number - ld->begin, .epoch = pick.epoch, .sample = pick.sample,
		.rows = pick.rows,
	};
	loader_describe(ld, out, s);
	ld->out++;
}

enum rlx_status rlx_loader_next(struct rlx_loader *ld, struct rlx_batch *out,
				int64_t timeout_ns)
{
	struct timespec until = rlx_deadline(timeout_ns);
	struct loader_slot *s;
	enum rlx_status st = RLX_OK;
	bool waited = false, late = false;

	if (!ld)
		return RLX_EINVAL;
	ld->err = (struct rlx_error){ 0 };
	pthread_mutex_lock(&ld->lock);
	s = &ld->slot[ld->out % ld->o.depth];
	if (ld->out - ld->done >= ld->o.depth) {
		pthread_mutex_unlock(&ld->lock);
		return rlx_fail(&ld->err, RLX_EAGAIN,
				"loader: all %u batches are out: give one back", ld->o.depth);
	}
	while (!(s->number == ld->out && (s->state == SLOT_READY || s->state == SLOT_BAD)) &&
	       !late) {
		waited = true;
		late = rlx_cond_wait(&ld->ready, &ld->lock, timeout_ns, &until);
	}
	ld->info.waits += waited;
	if (s->number != ld->out || (s->state != SLOT_READY && s->state != SLOT_BAD))
		st = rlx_fail(&ld->err, RLX_ETIME, "loader: batch %llu is not there yet",
			      (unsigned long long)(ld->out - ld->begin));
	else if (s->state == SLOT_BAD)
		st = rlx_fail(&ld->err, s->err.status, "%s", s->err.text);
	else
		hand_out(ld, s, out);
	pthread_mutex_unlock(&ld->lock);
	return st;
}

void rlx_loader_done(struct rlx_loader *ld, const struct rlx_batch *batch)
{
	uint64_t was = 0, is = 0, b;
	bool reads = false;

	if (!ld || !batch)
		return;
	pthread_mutex_lock(&ld->lock);
	if (ld->done < ld->out && batch->sequence == ld->done - ld->begin) {
		if (ld->layout == RLX_LAYOUT_CHUNKS)
			loader_windows_of(ld, ld->done, &was, &b);
		ld->slot[ld->done % ld->o.depth].state = SLOT_FREE;
		ld->done++;
		if (ld->layout == RLX_LAYOUT_CHUNKS)
			loader_windows_of(ld, ld->done, &is, &b);
		/* a wake costs as much as a small batch: only if there is something to read */
		reads = ld->layout == RLX_LAYOUT_ROWS || was != is;
		pthread_cond_signal(&ld->work);
	}
	pthread_mutex_unlock(&ld->lock);
	if (reads)
		reader_wake(ld->reader);
}

void loader_give_back(struct rlx_loader *ld)
{
	if (!ld->is_ahead)
		return;
	pthread_mutex_lock(&ld->lock);
	ld->out--;
	pthread_mutex_unlock(&ld->lock);
	ld->is_ahead = false;
	ld->stale = true;
}

static void tell(const struct rlx_loader *ld, uint64_t more, struct rlx_loader_pos *out)
{
	struct rlx_loader *l = (struct rlx_loader *)ld;
	uint64_t n;

	pthread_mutex_lock(&l->lock);
	n = l->done + more;
	pthread_mutex_unlock(&l->lock);
	*out = (struct rlx_loader_pos){
		.magic = RLX_LOADER_POS, .fingerprint = ld->d.fingerprint, .seed = ld->o.seed,
		.samples = ld->d.records, .epoch = n / ld->epoch_batches,
		.position = n % ld->epoch_batches * ld->o.batch * ld->o.world,
	};
}

void rlx_loader_tell(const struct rlx_loader *ld, struct rlx_loader_pos *out)
{
	if (ld && out)
		tell(ld, 0, out);
	else if (out)
		*out = (struct rlx_loader_pos){ 0 };
}

void loader_tell_fed(const struct rlx_loader *ld, struct rlx_loader_pos *out)
{
	tell(ld, ld->is_fed, out);
}

enum rlx_status rlx_loader_seek(struct rlx_loader *ld, const struct rlx_loader_pos *pos)
{
	struct rlx_error *err = &ld->err;
	enum rlx_status st;
	uint64_t global;

	if (!ld)
		return RLX_EINVAL;
	global = (uint64_t)ld->o.batch * ld->o.world;
	*err = (struct rlx_error){ 0 };
	if (!pos || pos->magic != RLX_LOADER_POS)
		return rlx_fail(err, RLX_EINVAL, "loader: this is no position of a loader");
	if (pos->samples != ld->d.records || pos->fingerprint != ld->d.fingerprint)
		return rlx_fail(err, RLX_ESTALE,
				"%s: the data set changed: it has %llu samples and "
				"fingerprint %016llx, the position is of %llu and %016llx",
				ld->d.part[0].path, (unsigned long long)ld->d.records,
				(unsigned long long)ld->d.fingerprint,
				(unsigned long long)pos->samples,
				(unsigned long long)pos->fingerprint);
	if (pos->position % global || pos->position >= ld->epoch_rows ||
	    pos->epoch > UINT64_MAX / 2 / ld->epoch_batches)
		return rlx_fail(err, RLX_EINVAL,
				"loader: position %llu is not the begin of a global "
				"batch of %u x %u (batch x world), of %llu samples; take "
				"those that it was told with, or such that divide it",
				(unsigned long long)pos->position, ld->o.batch, ld->o.world,
				(unsigned long long)ld->epoch_rows);
	loader_give_back(ld);
	if (ld->is_fed) {	/* what a session has is given back with its next batch */
		rlx_loader_done(ld, &ld->fed);
		ld->is_fed = false;
	}
	if (ld->out != ld->done)
		return rlx_fail(err, RLX_EBUSY, "loader: %llu batches are out",
				(unsigned long long)(ld->out - ld->done));
	st = dataset_unchanged(&ld->d, err);
	if (st)
		return st;
	stop(ld);
	ld->o.seed = pos->seed;
	return start(ld, pos->epoch * ld->epoch_batches + pos->position / global, err);
}

void rlx_loader_info(const struct rlx_loader *ld, struct rlx_loader_info *out)
{
	struct rlx_loader *l = (struct rlx_loader *)ld;

	if (!l || !out) {
		if (out)
			*out = (struct rlx_loader_info){ 0 };
		return;
	}
	pthread_mutex_lock(&l->lock);
	*out = l->info;
	pthread_mutex_unlock(&l->lock);
}
