// SPDX-License-Identifier: MIT
/* Record files: opening, with all that a hostile one may hold; reading and verifying. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "train/crc32c.h"
#include "train/fileops.h"
#include "train/order.h"
#include "train/record.h"

_Static_assert(sizeof(struct record_disk_head) < RECORD_HEAD, "the header is one page");
_Static_assert(__builtin_offsetof(struct record_disk_head, crc) == 1884, "as documented");

static bool bad_name(const char *s)
{
	size_t n = strnlen(s, RLX_FIELD_NAME);

	return !n || n == RLX_FIELD_NAME ||
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != n;
}

const char *record_bad_field(const struct rlx_field *field, unsigned int n, uint32_t flags)
{
	unsigned int i, k;

	if (!n || n > RLX_FIELDS_MAX)
		return "a record has 1 to 16 fields";
	if (flags & ~(uint32_t)(RLX_RECORD_STREAM | RLX_RECORD_CRC | RLX_RECORD_VARIABLE))
		return "an unknown flag";
	for (i = 0; i < n; i++) {
		if (bad_name(field[i].name))
			return "a field's name is 1 to 23 letters, digits and _ - .";
		if (rlx_type_bytes(&field[i].type) <= 0)
			return "a field's type is malformed or has no elements";
		for (k = 0; k < i; k++)
			if (!strcmp(field[i].name, field[k].name))
				return "two fields have one name";
	}
	if (flags & RLX_RECORD_STREAM && flags & RLX_RECORD_VARIABLE)
		return "a stream has no variable records";
	if (flags & RLX_RECORD_STREAM && (n != 1 || field->type.rank))
		return "a stream has one field, a scalar";
	if (flags & RLX_RECORD_VARIABLE &&
	    (n != 1 || field->type.rank != 1 || field->type.dtype != RLX_U8))
		return "variable records have one field, u8[longest]";
	return NULL;
}

bool record_layout(const struct rlx_field *field, unsigned int n, uint64_t max,
		   uint64_t *offset, uint64_t *out_stride)
{
	uint64_t at = 0;
	unsigned int i;

	for (i = 0; i < n; i++) {
		uint64_t bytes = (uint64_t)rlx_type_bytes(&field[i].type);

		offset[i] = at;
		if (bytes > max || at > max)
			return false;
		at += rlx_align64(bytes);
	}
	*out_stride = at;
	return at <= max;
}

/* One file being opened. */
struct opening {
	struct rlx_record	*r;
	struct rlx_error	*err;
	struct record_disk_head	 h;
	uint64_t		 size;
};

#define AT(m)	((unsigned long long)__builtin_offsetof(struct record_disk_head, m))

static enum rlx_status bad(struct opening *o, unsigned long long at, const char *what)
{
	return rlx_fail(o->err, RLX_EPARSE, "%s: byte %llu: %s", o->r->path, at, what);
}

static enum rlx_status fetch(const struct rlx_record *r, void *to, uint64_t bytes,
			     uint64_t offset, struct rlx_error *err)
{
	int64_t got;

	if (r->fd < 0) {
		memcpy(to, r->mem + offset, bytes);
		return RLX_OK;
	}
	got = file_read(r->fd, to, bytes, offset);
	if (got < 0)
		return rlx_fail(err, RLX_EIO, "%s: reading %llu bytes at %llu: %s", r->path,
				(unsigned long long)bytes, (unsigned long long)offset,
				strerror((int)-got));
	if ((uint64_t)got < bytes)
		return rlx_fail(err, RLX_EIO, "%s: ends at byte %llu, while it is read",
				r->path, (unsigned long long)(offset + (uint64_t)got));
	return RLX_OK;
}

static enum rlx_status check_head(struct opening *o)
{
	const struct record_disk_head *h = &o->h;

	if (memcmp(h->magic, RECORD_MAGIC, sizeof(h->magic)))
		return bad(o, 0, "no record file: it begins otherwise");
	if (h->version != RECORD_VERSION)
		return rlx_fail(o->err, RLX_ENOSUP, "%s: byte %llu: version %u, this library "
				"reads version %d", o->r->path, AT(version), h->version,
				RECORD_VERSION);
	if (crc32c(0, h, __builtin_offsetof(struct record_disk_head, crc)) != h->crc)
		return bad(o, AT(crc), "the header's crc does not fit: it is damaged");
	if (h->flags & ~(uint32_t)(RLX_RECORD_STREAM | RLX_RECORD_CRC | RLX_RECORD_VARIABLE))
		return rlx_fail(o->err, RLX_ENOSUP, "%s: byte %llu: unknown flags %#x",
				o->r->path, AT(flags), h->flags);
	if (!h->records)
		return bad(o, AT(records), "no records");
	if (h->data != RECORD_HEAD)
		return bad(o, AT(data), "chunks do not begin at byte 4096");
	if (h->chunk_bytes < RECORD_CHUNK_MIN || h->chunk_bytes > RECORD_CHUNK_MAX ||
	    h->chunk_bytes & (h->chunk_bytes - 1))
		return bad(o, AT(chunk_bytes), "chunks are no power of two from 64 KiB to 4 MiB");
	if (!h->chunks || h->chunks > (INT64_MAX - RECORD_HEAD) / h->chunk_bytes)
		return bad(o, AT(chunks), "so many chunks no file holds");
	if (h->index != h->data + h->chunks * h->chunk_bytes)
		return bad(o, AT(index), "the index does not begin where the chunks end");
	if (h->index > o->size || h->index_bytes > o->size - h->index)
		return rlx_fail(o->err, RLX_EPARSE, "%s: byte %llu: the file ends here, its "
				"index at %llu: it was cut short", o->r->path,
				(unsigned long long)o->size,
				(unsigned long long)h->index + h->index_bytes);
	if (h->index_bytes != o->size - h->index)
		return bad(o, h->index + h->index_bytes, "bytes behind the index");
	return RLX_OK;
}

static enum rlx_status take_fields(struct opening *o)
{
	struct rlx_record_info *info = &o->r->info;
	uint64_t offset[RLX_FIELDS_MAX], stride, max = o->h.chunk_bytes;
	bool variable = o->h.flags & RLX_RECORD_VARIABLE;
	const char *what;
	unsigned int i;

	if (!o->h.fields || o->h.fields > RLX_FIELDS_MAX)
		return bad(o, AT(fields), "a record has 1 to 16 fields");
	for (i = 0; i < o->h.fields; i++) {
		const struct record_disk_field *f = &o->h.field[i];

		if (f->rank > RLX_MAX_RANK || f->codec || !rlx_dtype_size(f->dtype))
			return rlx_fail(o->err, RLX_ENOSUP, "%s: byte %llu: field %u has dtype %u, "
					"rank %u, codec %u: not known here", o->r->path,
					AT(field) + i * sizeof(*f), i, f->dtype, f->rank, f->codec);
		memcpy(info->field[i].name, f->name, RLX_FIELD_NAME);
		info->field[i].type.dtype = f->dtype;
		info->field[i].type.rank = f->rank;
		memcpy(info->field[i].type.dim, f->dim, f->rank * sizeof(*f->dim));
		info->offset[i] = f->offset;
	}
	what = record_bad_field(info->field, o->h.fields, o->h.flags);
	if (what)
		return bad(o, AT(field), what);
	if (!record_layout(info->field, o->h.fields, max, offset, &stride) ||
	    memcmp(offset, info->offset, o->h.fields * sizeof(*offset)))
		return bad(o, AT(field), "fields do not lie where they belong");
	if (o->h.flags & RLX_RECORD_STREAM)
		stride = (uint64_t)rlx_type_bytes(&info->field[0].type);
	if (variable)
		stride = 0;
	else if (stride >= RECORD_LARGE)
		stride = (stride + RECORD_HEAD - 1) & ~(uint64_t)(RECORD_HEAD - 1);
	if (o->h.stride != stride || stride > max)
		return bad(o, AT(stride), "the stride is not what the fields take");
	return RLX_OK;
}

/* A record is inside its chunk, and begins behind the one before it. */
static enum rlx_status check_spans(struct opening *o)
{
	const struct rlx_record *r = o->r;
	uint64_t c, i, end, longest = (uint64_t)r->info.field[0].type.dim[0];

	for (c = 0; c < o->h.chunks; c++)
		for (i = r->chunk[c].first, end = 0;
		     i < r->chunk[c].first + r->chunk[c].records; i++) {
			const struct record_disk_span *s = &r->span[i];

			if (s->offset % RECORD_ALIGN || s->offset < end || s->bytes > longest ||
			    (uint64_t)s->offset + s->bytes > o->h.chunk_bytes)
				return rlx_fail(o->err, RLX_EPARSE, "%s: byte %llu: record %llu lies "
						"at %u, %u bytes of chunk %llu: not inside it",
						r->path, (unsigned long long)(o->h.index +
						(uint64_t)((const char *)s - (char *)r->index)),
						(unsigned long long)i, s->offset, s->bytes,
						(unsigned long long)c);
			end = rlx_align64((uint64_t)s->offset + s->bytes);
		}
	return RLX_OK;
}

static enum rlx_status check_chunks(struct opening *o)
{
	const struct rlx_record *r = o->r;
	uint64_t c, first = 0, want;

	for (c = 0; c < o->h.chunks; c++) {
		uint64_t left = o->h.records - first;

		want = !r->per_chunk ? r->chunk[c].records :
		       left < r->per_chunk ? left : r->per_chunk;
		if (r->chunk[c].first != first || r->chunk[c].records != want || !want ||
		    want > left)
			return rlx_fail(o->err, RLX_EPARSE, "%s: byte %llu: chunk %llu has records "
					"%llu and %u on, not %llu and %llu on", r->path,
					(unsigned long long)(o->h.index + c * sizeof(*r->chunk)),
					(unsigned long long)c,
					(unsigned long long)r->chunk[c].first, r->chunk[c].records,
					(unsigned long long)first, (unsigned long long)want);
		first += want;
	}
	if (first != o->h.records)
		return bad(o, AT(records), "more records than the chunks hold");
	return r->span ? check_spans(o) : RLX_OK;
}

static enum rlx_status take_index(struct opening *o)
{
	uint64_t bytes = o->h.chunks * sizeof(struct record_disk_chunk) + sizeof(uint32_t);
	uint32_t each = (o->h.flags & RLX_RECORD_VARIABLE ? sizeof(struct record_disk_span) : 0) +
			(o->h.flags & RLX_RECORD_CRC ? sizeof(uint32_t) : 0);
	struct rlx_record *r = o->r;
	enum rlx_status st;
	uint32_t crc;
	char *p;

	if (o->h.records > INT64_MAX / 16 ||
	    o->h.index_bytes != bytes + (each ? o->h.records * each : 0))
		return bad(o, AT(index_bytes),
			   "the index is not as long as chunks and records say");
	bytes = o->h.index_bytes;
	p = r->index = rlx_malloc(bytes);
	if (!p)
		return rlx_fail(o->err, RLX_ENOMEM, "%s: no memory for an index of %llu bytes",
				r->path, (unsigned long long)bytes);
	st = fetch(r, p, bytes, o->h.index, o->err);
	if (st)
		return st;
	memcpy(&crc, p + bytes - sizeof(crc), sizeof(crc));
	if (crc32c(0, p, bytes - sizeof(crc)) != crc)
		return bad(o, o->h.index + bytes - sizeof(crc),
			   "the index's crc does not fit: it is damaged");
	r->chunk = (const void *)p;
	p += o->h.chunks * sizeof(*r->chunk);
	if (o->h.flags & RLX_RECORD_VARIABLE) {
		r->span = (const void *)p;
		p += o->h.records * sizeof(*r->span);
	}
	if (o->h.flags & RLX_RECORD_CRC)
		r->record_crc = (const void *)p;
	r->per_chunk = o->h.stride ? o->h.chunk_bytes / o->h.stride : 0;
	r->info.fingerprint = order_mix(crc ^ order_mix(o->h.records ^ order_mix(o->h.crc)));
	return check_chunks(o);
}

static enum rlx_status parse(struct opening *o)
{
	struct rlx_record_info *info = &o->r->info;
	enum rlx_status st;

	if (o->size < RECORD_HEAD)
		return bad(o, o->size, "the file ends in its header: no record file");
	st = fetch(o->r, &o->h, sizeof(o->h), 0, o->err);
	if (!st)
		st = check_head(o);
	if (!st)
		st = take_fields(o);
	if (st)
		return st;
	info->records = o->h.records;
	info->chunks = o->h.chunks;
	info->chunk_bytes = o->h.chunk_bytes;
	info->stride = o->h.stride;
	info->data_offset = o->h.data;
	info->bytes = o->size;
	info->flags = o->h.flags;
	info->fields = o->h.fields;
	memcpy(info->uuid, o->h.uuid, sizeof(info->uuid));
	return take_index(o);
}

static enum rlx_status open_any(struct opening *o, struct rlx_record **out)
{
	enum rlx_status st = parse(o);

	if (st)
		rlx_record_close(o->r);
	else
		*out = o->r;
	return st;
}

static struct rlx_record *record_new(const char *path, struct rlx_error *err)
{
	struct rlx_record *r = rlx_calloc(1, sizeof(*r));

	if (r) {
		r->fd = -1;
		r->path = rlx_strdup(path);
	}
	if (!r || !r->path) {
		rlx_free(r);
		rlx_fail(err, RLX_ENOMEM, "%s: no memory", path);
		return NULL;
	}
	return r;
}

enum rlx_status rlx_record_open(const char *path, struct rlx_record **out,
				struct rlx_error *err)
{
	struct opening o = { .err = err };
	struct stat st;
	int64_t e;

	if (!path || !out)
		return rlx_fail(err, RLX_EINVAL, "record: path or out is NULL");
	*out = NULL;
	o.r = record_new(path, err);
	if (!o.r)
		return RLX_ENOMEM;
	e = file_open(path, O_RDONLY, 0);
	if (e >= 0) {
		o.r->fd = (int)e;
		e = file_fstat(o.r->fd, &st);
	}
	if (e < 0 || !S_ISREG(st.st_mode)) {
		rlx_record_close(o.r);
		return e < 0 ? rlx_fail(err, file_status(e), "%s: %s", path, strerror((int)-e))
			     : rlx_fail(err, RLX_EBADFD, "%s: no regular file", path);
	}
	posix_fadvise(o.r->fd, 0, 0, POSIX_FADV_RANDOM);	/* header and index, no more */
	o.size = (uint64_t)st.st_size;
	return open_any(&o, out);
}

enum rlx_status rlx_record_open_mem(const void *p, size_t len, struct rlx_record **out,
				    struct rlx_error *err)
{
	struct opening o = { .err = err, .size = len };

	if (!out || (!p && len))
		return rlx_fail(err, RLX_EINVAL, "record: no memory given, or out is NULL");
	*out = NULL;
	o.r = record_new("record file in memory", err);
	if (!o.r)
		return RLX_ENOMEM;
	o.r->mem = p;
	return open_any(&o, out);
}

void rlx_record_close(struct rlx_record *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	rlx_free(r->index);
	rlx_free(r->path);
	rlx_free(r);
}

void rlx_record_info(const struct rlx_record *r, struct rlx_record_info *out)
{
	if (out)
		*out = r ? r->info : (struct rlx_record_info){ 0 };
}

void record_at(const struct rlx_record *r, uint64_t i, uint64_t *offset, uint64_t *bytes,
	       uint64_t *chunk)
{
	uint64_t lo = 0, hi = r->info.chunks, mid;

	if (r->per_chunk) {
		*chunk = i / r->per_chunk;
		*offset = i % r->per_chunk * r->info.stride;
		*bytes = r->info.stride;
	} else {
		while (hi - lo > 1) {
			mid = lo + (hi - lo) / 2;
			if (r->chunk[mid].first <= i)
				lo = mid;
			else
				hi = mid;
		}
		*chunk = lo;
		*offset = r->span[i].offset;
		*bytes = r->span[i].bytes;
	}
	*offset += r->info.data_offset + *chunk * r->info.chunk_bytes;
}

enum rlx_status rlx_record_read(const struct rlx_record *r, uint64_t i, void *data,
				size_t room, uint64_t *out_bytes, struct rlx_error *err)
{
	uint64_t offset, bytes, chunk;

	if (!r)
		return rlx_fail(err, RLX_EINVAL, "record: no file is open");
	if (i >= r->info.records)
		return rlx_fail(err, RLX_ERANGE, "%s: record %llu of %llu", r->path,
				(unsigned long long)i, (unsigned long long)r->info.records);
	record_at(r, i, &offset, &bytes, &chunk);
	if (bytes > room)
		return rlx_fail(err, RLX_ERANGE, "%s: record %llu has %llu bytes, there is room "
				"for %zu", r->path, (unsigned long long)i,
				(unsigned long long)bytes, room);
	if (out_bytes)
		*out_bytes = bytes;
	return fetch(r, data, bytes, offset, err);
}

enum rlx_status rlx_record_verify(const struct rlx_record *r, struct rlx_error *err)
{
	uint64_t c, i, offset, bytes, chunk;
	enum rlx_status st = RLX_OK;
	uint8_t *buf;

	if (!r)
		return rlx_fail(err, RLX_EINVAL, "record: no file is open");
	buf = rlx_malloc(r->info.chunk_bytes);
	if (!buf)
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory for a chunk", r->path);
	for (c = 0; c < r->info.chunks && !st; c++) {
		uint64_t first = r->chunk[c].first, n = r->chunk[c].records;

		st = fetch(r, buf, r->info.chunk_bytes,
			   r->info.data_offset + c * r->info.chunk_bytes, err);
		if (!st && crc32c(0, buf, r->info.chunk_bytes) != r->chunk[c].crc)
			st = rlx_fail(err, RLX_EIO, "%s: chunk %llu (records %llu to %llu): its crc "
				      "does not fit: it is damaged", r->path, (unsigned long long)c,
				      (unsigned long long)first, (unsigned long long)(first + n - 1));
		for (i = first; r->record_crc && !st && i < first + n; i++) {
			record_at(r, i, &offset, &bytes, &chunk);
			offset -= r->info.data_offset + c * r->info.chunk_bytes;
			if (crc32c(0, buf + offset, bytes) != r->record_crc[i])
				st = rlx_fail(err, RLX_EIO, "%s: record %llu: its crc does not fit: it "
					      "is damaged", r->path, (unsigned long long)i);
		}
	}
	rlx_free(buf);
	return st;
}
