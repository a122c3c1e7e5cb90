// SPDX-License-Identifier: MIT
/*
 * Writing record files: chunks go out as they fill, the index and the header last, and the
 * file takes its name when all of it is on the disk.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/replace.h"
#include "train/crc32c.h"
#include "train/fileops.h"
#include "train/record.h"

struct rlx_record_writer {
	struct record_disk_head	 h;
	struct rlx_field	 field[RLX_FIELDS_MAX];
	uint64_t		 stride;
	char			*path, *tmp;
	int			 fd;
	uint8_t			*buf;		/* a chunk */
	uint64_t		 used, in_chunk;	/* bytes, records in it */
	struct record_disk_chunk *chunk;
	struct record_disk_span	*span;
	uint32_t		*crc;
	uint32_t		 cap_chunk, cap_span, cap_crc;
	bool			 failed;
};

static enum rlx_status io_failed(struct rlx_record_writer *w, int64_t e, const char *what,
				 struct rlx_error *err)
{
	w->failed = true;
	return rlx_fail(err, file_status(e), "%s: %s: %s", w->path, what, strerror((int)-e));
}

static enum rlx_status no_memory(struct rlx_record_writer *w, struct rlx_error *err)
{
	w->failed = true;
	return rlx_fail(err, RLX_ENOMEM, "%s: no memory for its index", w->path);
}

/* The chunk that leaves least unused, the smallest of those that leave under 3 %. */
static uint64_t best_chunk(uint64_t stride)
{
	uint64_t size, best = RECORD_CHUNK_MAX;
	double waste, least = 2;

	for (size = 1 << 20; size <= RECORD_CHUNK_MAX; size *= 2) {
		if (size < stride)
			continue;
		waste = (double)(size % stride) / (double)size;
		if (waste < 0.03)
			return size;
		if (waste < least) {
			least = waste;
			best = size;
		}
	}
	return best;
}

static enum rlx_status plan(struct rlx_record_writer *w, const struct rlx_record_opts *o,
			    struct rlx_error *err)
{
	uint64_t offset[RLX_FIELDS_MAX], max = o->chunk_bytes ? o->chunk_bytes : RECORD_CHUNK_MAX;
	unsigned int i;

	if (!record_layout(w->field, w->h.fields, max, offset, &w->stride))
		return rlx_fail(err, RLX_ERANGE, "%s: a record takes over %llu bytes, more than a "
				"chunk has room for; split it", w->path, (unsigned long long)max);
	for (i = 0; i < w->h.fields; i++)
		w->h.field[i].offset = offset[i];
	if (o->flags & RLX_RECORD_STREAM)
		w->stride = (uint64_t)rlx_type_bytes(&w->field[0].type);
	else if (o->flags & RLX_RECORD_VARIABLE)
		w->stride = 0;
	else if (w->stride >= RECORD_LARGE)
		w->stride = (w->stride + RECORD_HEAD - 1) & ~(uint64_t)(RECORD_HEAD - 1);
	if (w->stride > max)
		return rlx_fail(err, RLX_ERANGE,
				"%s: a record takes %llu bytes with its padding, a "
				"chunk has %llu",
				w->path, (unsigned long long)w->stride, (unsigned long long)max);
	w->h.flags = o->flags | (w->stride >= RECORD_LARGE ? RLX_RECORD_CRC : 0);
	w->h.stride = (uint32_t)w->stride;
	w->h.chunk_bytes = o->chunk_bytes ? o->chunk_bytes :
			   w->stride ? best_chunk(w->stride) :
			   best_chunk((uint64_t)w->field[0].type.dim[0]);
	return RLX_OK;
}

static enum rlx_status create(struct rlx_record_writer *w, struct rlx_error *err)
{
	size_t n = strlen(w->path) + 24;
	int64_t e;

	w->buf = rlx_aligned(RECORD_HEAD, w->h.chunk_bytes);
	w->tmp = rlx_malloc(n);
	if (!w->buf || !w->tmp)
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory for a chunk", w->path);
	memset(w->buf, 0, w->h.chunk_bytes);
	snprintf(w->tmp, n, "%s.tmp-%d", w->path, (int)getpid());
	e = file_open(w->tmp, O_RDWR | O_CREAT | O_TRUNC, 0666);
	if (e < 0) {
		rlx_free(w->tmp);
		w->tmp = NULL;
		return io_failed(w, e, "creating a file beside it", err);
	}
	w->fd = (int)e;
	if (getrandom(w->h.uuid, sizeof(w->h.uuid), 0) != sizeof(w->h.uuid))
		return io_failed(w, -EIO, "no random numbers for its name", err);
	w->h.uuid[6] = (w->h.uuid[6] & 15) | 0x40;	/* a random one by RFC 4122 */
	w->h.uuid[8] = (w->h.uuid[8] & 63) | 0x80;
	return RLX_OK;
}

static void take_fields(struct rlx_record_writer *w, const struct rlx_field *field,
			unsigned int n)
{
	unsigned int i;

	w->h.fields = n;
	for (i = 0; i < n; i++) {
		struct record_disk_field *d = &w->h.field[i];

		w->field[i] = field[i];
		memcpy(d->name, field[i].name, strlen(field[i].name));
		d->dtype = field[i].type.dtype;
		d->rank = field[i].type.rank;
		memcpy(d->dim, field[i].type.dim, d->rank * sizeof(*d->dim));
	}
}

static void writer_free(struct rlx_record_writer *w)
{
	if (w->fd >= 0)
		close(w->fd);
	if (w->tmp)
		file_unlink(w->tmp);
	rlx_free(w->chunk);
	rlx_free(w->span);
	rlx_free(w->crc);
	rlx_free(w->buf);
	rlx_free(w->tmp);
	rlx_free(w->path);
	rlx_free(w);
}

enum rlx_status rlx_record_create(const char *path, const struct rlx_field *field,
				  unsigned int n, const struct rlx_record_opts *opts,
				  struct rlx_record_writer **out, struct rlx_error *err)
{
	struct rlx_record_opts o = { 0 };
	struct rlx_record_writer *w;
	enum rlx_status st;
	const char *what;

	if (!path || !field || !out)
		return rlx_fail(err, RLX_EINVAL, "record: path, field or out is NULL");
	*out = NULL;
	if (opts && (opts->size < sizeof(opts->size) || opts->size > sizeof(o)))
		return rlx_fail(err, RLX_EINVAL, "%s: rlx_record_opts.size is %zu", path,
				opts->size);
	if (opts)
		memcpy(&o, opts, opts->size);
	what = o.flags & RLX_RECORD_CRC ? "RLX_RECORD_CRC is only reported" :
	       record_bad_field(field, n, o.flags);
	if (!what && o.chunk_bytes && (o.chunk_bytes < RECORD_CHUNK_MIN ||
	    o.chunk_bytes > RECORD_CHUNK_MAX || o.chunk_bytes & (o.chunk_bytes - 1)))
		what = "chunk_bytes is no power of two from 64 KiB to 4 MiB";
	if (what)
		return rlx_fail(err, RLX_EINVAL, "%s: %s", path, what);
	w = rlx_calloc(1, sizeof(*w));
	if (!w)
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory", path);
	w->fd = -1;
	memcpy(w->h.magic, RECORD_MAGIC, sizeof(w->h.magic));
	w->h.version = RECORD_VERSION;
	w->h.data = RECORD_HEAD;
	take_fields(w, field, n);
	st = rlx_replace_target(path, &w->path, err);
	if (!st)
		st = plan(w, &o, err);
	if (!st)
		st = create(w, err);
	if (st)
		writer_free(w);
	else
		*out = w;
	return st;
}

static enum rlx_status flush(struct rlx_record_writer *w, struct rlx_error *err)
{
	int64_t e;

	if (!w->in_chunk)
		return RLX_OK;
	if (w->h.chunks >= UINT32_MAX - 1 ||
	    !rlx_grow(&w->chunk, &w->cap_chunk, (uint32_t)w->h.chunks + 1, sizeof(*w->chunk)))
		return no_memory(w, err);
	w->chunk[w->h.chunks] = (struct record_disk_chunk){
		w->h.records - w->in_chunk, (uint32_t)w->in_chunk,
		crc32c(0, w->buf, w->h.chunk_bytes),
	};
	e = file_write(w->fd, w->buf, w->h.chunk_bytes,
		       w->h.data + w->h.chunks * w->h.chunk_bytes);
	if (e < 0)
		return io_failed(w, e, "writing a chunk", err);
	w->h.chunks++;
	memset(w->buf, 0, w->h.chunk_bytes);
	w->used = w->in_chunk = 0;
	return RLX_OK;
}

static enum rlx_status add_stream(struct rlx_record_writer *w, const uint8_t *p,
				  uint64_t count, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;

	while (count && !st) {
		uint64_t n = (w->h.chunk_bytes - w->used) / w->stride;

		n = n < count ? n : count;
		memcpy(w->buf + w->used, p, n * w->stride);
		w->used += n * w->stride;
		w->in_chunk += n;
		w->h.records += n;
		p += n * w->stride;
		count -= n;
		if (w->used == w->h.chunk_bytes)
			st = flush(w, err);
	}
	return st;
}

static enum rlx_status add_variable(struct rlx_record_writer *w, const void *p, uint64_t n,
				    struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;

	if (n > (uint64_t)w->field[0].type.dim[0])
		return rlx_fail(err, RLX_ERANGE,
				"%s: record %llu has %llu bytes, at most %lld were "
				"announced",
				w->path, (unsigned long long)w->h.records, (unsigned long long)n,
				(long long)w->field[0].type.dim[0]);
	if (w->used + n > w->h.chunk_bytes)
		st = flush(w, err);
	if (st)
		return st;
	if (w->h.records >= UINT32_MAX - 1 ||
	    !rlx_grow(&w->span, &w->cap_span, (uint32_t)w->h.records + 1, sizeof(*w->span)))
		return no_memory(w, err);
	w->span[w->h.records++] = (struct record_disk_span){ (uint32_t)w->used, (uint32_t)n };
	w->in_chunk++;
	if (n)
		memcpy(w->buf + w->used, p, n);
	w->used = rlx_align64(w->used + n);
	return w->used < w->h.chunk_bytes ? RLX_OK : flush(w, err);
}

static enum rlx_status add_record(struct rlx_record_writer *w, const void *const *data,
				  struct rlx_error *err)
{
	uint8_t *to = w->buf + w->used;
	unsigned int i;

	for (i = 0; i < w->h.fields; i++)
		memcpy(to + w->h.field[i].offset, data[i],
		       (size_t)rlx_type_bytes(&w->field[i].type));
	if (w->h.flags & RLX_RECORD_CRC) {
		if (w->h.records >= UINT32_MAX - 1 ||
		    !rlx_grow(&w->crc, &w->cap_crc, (uint32_t)w->h.records + 1, sizeof(*w->crc)))
			return no_memory(w, err);
		w->crc[w->h.records] = crc32c(0, to, w->stride);
	}
	w->used += w->stride;
	w->in_chunk++;
	w->h.records++;
	return w->used + w->stride <= w->h.chunk_bytes ? RLX_OK : flush(w, err);
}

enum rlx_status rlx_record_add(struct rlx_record_writer *w, const void *const *data,
			       uint64_t count, struct rlx_error *err)
{
	if (!w || !data)
		return rlx_fail(err, RLX_EINVAL, "record: no writer, or nothing to add");
	if (w->failed)
		return rlx_fail(err, RLX_EIO, "%s: an earlier write failed: abort it", w->path);
	if (w->h.flags & RLX_RECORD_STREAM)
		return add_stream(w, data[0], count, err);
	if (w->h.flags & RLX_RECORD_VARIABLE)
		return add_variable(w, data[0], count, err);
	if (count != 1)
		return rlx_fail(err, RLX_EINVAL, "%s: one record at a time, not %llu", w->path,
				(unsigned long long)count);
	return add_record(w, data, err);
}

/* Pieces of the index, one behind the other, with their crc. */
struct index_out {
	uint64_t	at;
	uint32_t	crc;
	int64_t		e;
};

static void put(struct rlx_record_writer *w, struct index_out *o, const void *p, uint64_t n)
{
	if (!n || o->e < 0)
		return;
	o->e = file_write(w->fd, p, n, o->at);
	o->crc = crc32c(o->crc, p, n);
	o->at += n;
}

static enum rlx_status finish(struct rlx_record_writer *w, struct rlx_error *err)
{
	struct index_out o = { .at = w->h.data + w->h.chunks * w->h.chunk_bytes };
	uint8_t head[RECORD_HEAD] = { 0 };
	uint32_t crc;
	int64_t e;

	w->h.index = o.at;
	put(w, &o, w->chunk, w->h.chunks * sizeof(*w->chunk));
	if (w->span)
		put(w, &o, w->span, w->h.records * sizeof(*w->span));
	if (w->crc)
		put(w, &o, w->crc, w->h.records * sizeof(*w->crc));
	crc = o.crc;
	put(w, &o, &crc, sizeof(crc));
	if (o.e < 0)
		return io_failed(w, o.e, "writing the index", err);
	w->h.index_bytes = o.at - w->h.index;
	w->h.crc = crc32c(0, &w->h, __builtin_offsetof(struct record_disk_head, crc));
	memcpy(head, &w->h, sizeof(w->h));
	e = file_write(w->fd, head, sizeof(head), 0);
	if (e >= 0)
		e = file_sync(w->fd);
	return e < 0 ? io_failed(w, e, "writing the header", err) : RLX_OK;
}

/* The directory, so that the name is on the disk as well. */
static int64_t sync_parent(const char *path)
{
	char *slash, *dir = rlx_strdup(path);
	int64_t e;

	if (!dir)
		return -ENOMEM;
	slash = strrchr(dir, '/');
	if (slash)
		slash[slash == dir] = 0;
	e = file_sync_dir(slash ? dir : ".");
	rlx_free(dir);
	return e;
}

enum rlx_status rlx_record_commit(struct rlx_record_writer *w, struct rlx_error *err)
{
	enum rlx_status st;
	int64_t e;

	if (!w)
		return rlx_fail(err, RLX_EINVAL, "record: no writer");
	if (w->failed)
		st = rlx_fail(err, RLX_EIO, "%s: an earlier write failed", w->path);
	else if (!w->h.records)
		st = rlx_fail(err, RLX_EINVAL, "%s: no records were added", w->path);
	else
		st = flush(w, err);
	if (!st)
		st = finish(w, err);
	if (!st) {
		e = file_rename(w->tmp, w->path, FILE_RENAME_REPLACE);
		if (e < 0) {
			st = io_failed(w, e, "giving it its name", err);
		} else {
			rlx_free(w->tmp);
			w->tmp = NULL;
			e = sync_parent(w->path);
			if (e < 0)
				st = io_failed(w, e, "flushing its directory", err);
		}
	}
	writer_free(w);
	return st;
}

void rlx_record_abort(struct rlx_record_writer *w)
{
	if (w)
		writer_free(w);
}
