// SPDX-License-Identifier: MIT
/* Data sets: which files, of what format; where each record lies. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "rlx/safetensors.h"
#include "train/crc32c.h"
#include "train/dataset.h"
#include "train/fileops.h"
#include "train/inflate.h"
#include "train/order.h"

/* Headers of .npy may have 1 MiB; of what is compressed so much is decoded to see them. */
enum { HEAD_MAX = (1 << 20) + 16, SAMPLES = 64, SAMPLE_BYTES = 4096, CHUNK_AIM = 1 << 20 };

void dataset_close(struct dataset *d)
{
	unsigned int p;

	for (p = 0; p < d->parts; p++) {
		if (d->part[p].owns_fd && d->part[p].fd >= 0)
			close(d->part[p].fd);
		rlx_free(d->part[p].path);
	}
	rlx_record_close(d->file);
	*d = (struct dataset){ 0 };
}

/* Open the part's file again for its data; what cannot be direct is read through the cache. */
static enum rlx_status open_part(const struct dataset_source *s, struct dataset_part *p)
{
	uint32_t align = 0;
	int64_t e;

	p->path = rlx_strdup(s->path);
	if (!p->path)
		return rlx_fail(s->err, RLX_ENOMEM, "%s: no memory", s->path);
	e = file_open(s->path, O_RDONLY | (s->buffered ? 0 : O_DIRECT), 0);
	if (e >= 0 && !s->buffered)
		align = file_direct_align((int)e);
	if (!align) {		/* no direct I/O here, or none that helps */
		if (e >= 0)
			close((int)e);
		align = 0;
		e = file_open(s->path, O_RDONLY, 0);
	}
	p->owns_fd = true;
	p->fd = (int)e;
	if (e >= 0)
		e = file_fstat((int)e, &p->id);
	if (e < 0)
		return rlx_fail(s->err, file_status(e), "%s: %s", s->path, strerror((int)-e));
	p->direct = align;
	p->align = align ? align < 512 ? 512 : align : 512;
	return RLX_OK;
}

static enum rlx_status add_field(const struct dataset_source *s, const char *name,
				 const struct rlx_type *type, unsigned int part, uint64_t offset)
{
	struct dataset *d = s->d;
	struct dataset_field *f = &d->field[d->fields];
	size_t n = strlen(name);
	unsigned int i;

	if (d->fields == RLX_FIELDS_MAX)
		return rlx_fail(s->err, RLX_ERANGE, "%s: more than %d fields", s->path,
				RLX_FIELDS_MAX);
	if (!n || n >= RLX_FIELD_NAME)
		return rlx_fail(s->err, RLX_ENOSUP, "%s: field \"%.40s\": a name has 1 to %d bytes",
				s->path, name, RLX_FIELD_NAME - 1);
	for (i = 0; i < d->fields; i++)
		if (!strcmp(d->field[i].field.name, name))
			return rlx_fail(s->err, RLX_EEXIST, "%s: field \"%s\" comes twice: name "
					"them, NAME=FILE,NAME=FILE", s->path, name);
	memcpy(f->field.name, name, n + 1);
	f->field.type = *type;
	f->part = part;
	f->offset = offset;
	d->fields++;
	return RLX_OK;
}

static enum rlx_status same_records(const struct dataset_source *s, const char *name,
				    uint64_t n)
{
	if (s->d->parts && s->d->records != n)
		return rlx_fail(s->err, RLX_ESHAPE, "%s: field \"%s\" has %llu records, \"%s\" has "
				"%llu", s->path, name, (unsigned long long)n,
				s->d->field[0].field.name, (unsigned long long)s->d->records);
	s->d->records = n;
	return RLX_OK;
}

enum rlx_status dataset_add_array(const struct dataset_source *s, const struct dataset_array *a)
{
	struct dataset *d = s->d;
	struct dataset_part *p = &d->part[d->parts];
	struct rlx_type t = { .dtype = a->type.dtype };
	const char *name = s->name ? s->name : a->name;
	uint64_t size = rlx_dtype_size(t.dtype);
	enum rlx_status st;
	uint32_t i;

	if (!a->type.rank || rlx_type_bytes(&a->type) <= 0)
		return rlx_fail(s->err, RLX_ESHAPE, "%s: \"%s\" has no elements or no axis of "
				"records", s->path, name);
	if (d->parts == DATASET_PARTS_MAX)
		return rlx_fail(s->err, RLX_ERANGE, "%s: more than %d arrays", s->path,
				DATASET_PARTS_MAX);
	for (i = 1; i < a->type.rank; i++)
		t.dim[t.rank++] = a->type.dim[i];
	st = same_records(s, name, (uint64_t)a->type.dim[0]);
	if (!st)
		st = add_field(s, name, &t, d->parts, 0);
	if (st)
		return st;
	d->parts++;
	st = open_part(s, p);
	p->codec = a->codec;
	p->packed = a->packed;
	p->packed_bytes = a->packed_bytes;
	p->base = a->offset;
	p->stride = p->bytes = (uint64_t)rlx_type_bytes(&t);
	p->end = p->base + d->records * p->stride;
	/* a buffered read can put elements on their alignment, a direct one cannot */
	if (!st && (p->base % size || (!p->direct && !p->codec))) {
		if (p->direct) {
			close(p->fd);
			p->fd = (int)file_open(s->path, O_RDONLY, 0);
			p->direct = false;
			if (p->fd < 0)
				st = rlx_fail(s->err, RLX_EIO, "%s: cannot be opened again", s->path);
		}
		p->align = 1;
	}
	return st;
}

/* IDX: 0 0 type rank, then dimensions, big-endian. */
static enum rlx_status idx_head(const struct dataset_source *s, const uint8_t *p, uint64_t len,
				struct dataset_array *a)
{
	uint32_t i, n;

	if (p[2] != 8 && p[2] != 9)
		return rlx_fail(s->err, RLX_ENOSUP,
				"%s: byte 2: IDX of type %#x is big-endian: only "
				"bytes (8, 9) are read in place; rlx data convert takes others",
				s->path, p[2]);
	a->type.dtype = p[2] == 8 ? RLX_U8 : RLX_I8;
	a->type.rank = p[3];
	if (!p[3] || p[3] > RLX_MAX_RANK)
		return rlx_fail(s->err, RLX_ENOSUP, "%s: byte 3: rank %u", s->path, p[3]);
	a->offset = 4 + 4ull * p[3];
	if (len < a->offset)
		return rlx_fail(s->err, RLX_EPARSE, "%s: byte %llu: it ends in its header", s->path,
				(unsigned long long)len);
	for (i = 0; i < a->type.rank; i++) {
		memcpy(&n, p + 4 + 4 * i, 4);
		a->type.dim[i] = __builtin_bswap32(n);
	}
	return RLX_OK;
}

enum rlx_status dataset_array_head(const struct dataset_source *s, const uint8_t *p,
				   uint64_t len, uint64_t whole, struct dataset_array *a)
{
	struct rlx_npy_header h;
	enum rlx_status st;
	int64_t bytes;

	if (len >= 4 && !p[0] && !p[1] && p[2] >= 8 && p[2] <= 14) {
		st = idx_head(s, p, len, a);
	} else {
		st = rlx_npy_header(p, len, s->path, &h, s->err);
		if (!st && (h.fortran || h.swapped))
			st = rlx_fail(s->err, RLX_ENOSUP, "%s: \"%s\" is %s: it cannot be read in "
				      "place; rlx data convert takes it", s->path, a->name,
				      h.fortran ? "in Fortran order" : "of the other byte order");
		if (!st) {
			a->type = h.type;
			a->offset = h.offset;
		}
	}
	if (st)
		return st;
	bytes = rlx_type_bytes(&a->type);
	if (bytes < 0 || (whole != UINT64_MAX && (uint64_t)bytes != whole - a->offset))
		return rlx_fail(s->err, RLX_EPARSE, "%s: \"%s\": byte %llu: %llu bytes of elements "
				"follow, the shape needs %lld: it was cut short, or is another file",
				s->path, a->name, (unsigned long long)a->offset,
				(unsigned long long)(whole - a->offset), (long long)bytes);
	return RLX_OK;
}

static enum rlx_status open_gzip(const struct dataset_source *s)
{
	struct dataset_array a = {
		.name = "data", .codec = DATASET_GZIP, .packed_bytes = s->size,
	};
	uint8_t *head = rlx_malloc(HEAD_MAX);
	struct inflate_result r;
	enum rlx_status st;

	if (!head)
		return rlx_fail(s->err, RLX_ENOMEM, "%s: no memory", s->path);
	r = inflate_gzip(s->map, s->size, head, HEAD_MAX, true);
	if (!r.out)
		st = rlx_fail(s->err, RLX_EPARSE, "%s: byte %llu: gzip: %s", s->path,
			      (unsigned long long)r.in, r.error ? r.error : "empty");
	else
		st = dataset_array_head(s, head, r.out, r.out < HEAD_MAX ? r.out : UINT64_MAX, &a);
	rlx_free(head);
	return st ? st : dataset_add_array(s, &a);
}

static enum rlx_status open_safetensors(const struct dataset_source *s)
{
	struct rlx_safetensors *f;
	enum rlx_status st = rlx_safetensors_open(s->path, &f, s->err);
	uint32_t i;

	if (st)
		return st;
	for (i = 0; i < rlx_safetensors_count(f) && !st; i++) {
		const struct rlx_safetensor *t = rlx_safetensors_at(f, i);
		struct dataset_array a = { .name = t->name, .type = t->type, .offset = t->offset };

		st = dataset_add_array(s, &a);
	}
	if (!st && !i)
		st = rlx_fail(s->err, RLX_ESHAPE, "%s: no tensors", s->path);
	rlx_safetensors_close(f);
	return st;
}

/* A record file's header and index were read through the page cache: they need not stay. */
static void forget(const struct dataset *d)
{
	const struct dataset_part *p = &d->part[0];
	uint64_t end = p->end;

	posix_fadvise(p->fd, 0, RECORD_HEAD, POSIX_FADV_DONTNEED);
	posix_fadvise(p->fd, (off_t)end, 0, POSIX_FADV_DONTNEED);
}

static enum rlx_status open_record(const struct dataset_source *s)
{
	struct dataset *d = s->d;
	struct dataset_part *p = &d->part[0];
	const struct rlx_record_info *info;
	enum rlx_status st;
	unsigned int i;

	if (d->parts || s->name)
		return rlx_fail(s->err, RLX_EINVAL,
				"%s: a record file is a data set by itself, not "
				"one of several",
				s->path);
	st = rlx_record_open(s->path, &d->file, s->err);
	if (st)
		return st;
	info = &d->file->info;
	d->stream = info->flags & RLX_RECORD_STREAM;
	d->records = info->records;
	d->parts = 1;
	st = open_part(s, p);
	for (i = 0; i < info->fields && !st; i++)
		st = add_field(s, info->field[i].name, &info->field[i].type, 0, info->offset[i]);
	if (st)
		return st;
	p->base = info->data_offset;
	p->stride = info->stride;
	p->bytes = info->stride ? info->stride : (uint64_t)info->field[0].type.dim[0];
	p->end = p->base + info->chunks * info->chunk_bytes;
	d->per_chunk = d->file->per_chunk;
	d->chunks = info->chunks;
	d->fingerprint = info->fingerprint;
	return RLX_OK;
}

static enum rlx_status open_mapped(const struct dataset_source *s)
{
	struct dataset_array a = { .name = "data" };
	enum rlx_status st;

	if (s->size >= 8 && !memcmp(s->map, RECORD_MAGIC, 8))
		return open_record(s);
	if (s->size >= 4 && !memcmp(s->map, "PK\3\4", 4))
		return dataset_zip(s);
	if (s->size >= 2 && s->map[0] == 0x1f && s->map[1] == 0x8b)
		return open_gzip(s);
	if (s->size >= 9 && !s->map[4] && !s->map[5] && !s->map[6] && !s->map[7] &&
	    s->map[8] == '{')
		return open_safetensors(s);
	if (s->size < 4 || (s->map[0] != 0x93 && (s->map[0] || s->map[1])))
		return rlx_fail(s->err, RLX_EPARSE, "%s: byte 0: none of .rlxr, .npy, .npz, IDX, "
				".safetensors, gzip", s->path);
	st = dataset_array_head(s, s->map, s->size, s->size, &a);
	return st ? st : dataset_add_array(s, &a);
}

static enum rlx_status open_one(struct dataset_source *s)
{
	int64_t fd = file_open(s->path, O_RDONLY, 0), e = fd;
	enum rlx_status st;
	struct stat id;
	void *map;

	if (fd >= 0)
		e = file_fstat((int)fd, &id);
	if (e < 0 || !S_ISREG(id.st_mode) || !id.st_size) {
		if (fd >= 0)
			close((int)fd);
		return e < 0 ? rlx_fail(s->err, file_status(e), "%s: %s", s->path,
					strerror((int)-e)) :
			       rlx_fail(s->err, S_ISREG(id.st_mode) ? RLX_EPARSE : RLX_EBADFD,
					"%s: %s", s->path,
					S_ISREG(id.st_mode) ? "empty" : "no regular file");
	}
	s->size = (uint64_t)id.st_size;
	map = mmap(NULL, s->size, PROT_READ, MAP_SHARED, (int)fd, 0);
	if (map == MAP_FAILED) {
		close((int)fd);
		return rlx_fail(s->err, RLX_EIO, "%s: cannot be mapped: %s", s->path,
				strerror(errno));
	}
	madvise(map, s->size, MADV_RANDOM);	/* its headers alone */
	s->map = map;
	st = open_mapped(s);
	munmap(map, s->size);
	if (!st && s->d->file)
		forget(s->d);
	close((int)fd);
	return st;
}

/* Headers, sizes and samples of the data: what a file without a crc of its own is known by. */
static enum rlx_status fingerprint(struct dataset *d, struct rlx_error *err)
{
	uint8_t *buf = rlx_malloc(SAMPLE_BYTES);
	unsigned int p, i;
	int64_t got;

	if (!buf)
		return rlx_fail(err, RLX_ENOMEM, "no memory for a fingerprint");
	d->fingerprint = d->records;
	for (p = 0; p < d->parts; p++) {
		uint64_t size = (uint64_t)d->part[p].id.st_size, room = size > SAMPLE_BYTES ?
				size - SAMPLE_BYTES : 0, at, last = UINT64_MAX;
		int64_t fd = file_open(d->part[p].path, O_RDONLY, 0);
		uint32_t crc = 0;

		for (i = 0; i < SAMPLES && fd >= 0; i++) {
			at = room / (SAMPLES - 1) * i;
			if (at == last)
				continue;
			last = at;
			got = file_read((int)fd, buf, SAMPLE_BYTES, at);
			if (got > 0)
				crc = crc32c(crc, buf, (size_t)got);
			posix_fadvise((int)fd, (off_t)at, SAMPLE_BYTES, POSIX_FADV_DONTNEED);
		}
		if (fd >= 0)
			close((int)fd);
		d->fingerprint = order_mix(d->fingerprint ^ order_mix(size) ^ crc);
	}
	rlx_free(buf);
	return RLX_OK;
}

/* All parts alike, so that a window is the same records in each. */
static void choose_chunks(struct dataset *d)
{
	uint64_t widest = 1;
	unsigned int p;

	for (p = 0; p < d->parts; p++)
		if (d->part[p].stride > widest)
			widest = d->part[p].stride;
	d->per_chunk = widest < CHUNK_AIM ? CHUNK_AIM / widest : 1;
	if (d->per_chunk > d->records)
		d->per_chunk = d->records;
	d->chunks = (d->records + d->per_chunk - 1) / d->per_chunk;
}

/* NAME=FILE, or FILE: a '=' behind a '/' is of the file's name. */
static char *split_name(char *item, struct dataset_source *s)
{
	char *eq = strchr(item, '='), *slash = strchr(item, '/');

	s->name = NULL;
	if (!eq || (slash && slash < eq))
		return item;
	*eq = 0;
	s->name = item;
	return eq + 1;
}

enum rlx_status dataset_open(struct dataset *out, const char *path, bool buffered,
			     struct rlx_error *err)
{
	struct dataset_source s = { .d = out, .buffered = buffered, .err = err };
	enum rlx_status st = RLX_OK;
	char *list, *item, *rest;

	*out = (struct dataset){ 0 };
	if (!path || !*path)
		return rlx_fail(err, RLX_EINVAL, "data set: no path given");
	list = rlx_strdup(path);
	if (!list)
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory", path);
	if (!strchr(path, '=')) {	/* one file, whose name may hold a comma */
		s.path = path;
		st = open_one(&s);
	}
	for (rest = list; strchr(path, '=') && !st && (item = strsep(&rest, ","));) {
		s.path = split_name(item, &s);
		st = open_one(&s);
	}
	rlx_free(list);
	if (!st && !out->file)
		st = fingerprint(out, err);
	if (!st && !out->file)
		choose_chunks(out);
	if (st)
		dataset_close(out);
	return st;
}

enum rlx_status dataset_cut(struct dataset *d, unsigned int sample, unsigned int step,
			    struct rlx_error *err)
{
	struct rlx_type *t = &d->field[0].field.type;
	struct dataset_part *p = &d->part[0];
	uint64_t size = p->stride;

	if (d->parts != 1 || d->fields != 1 || t->rank || (d->file && !d->stream))
		return rlx_fail(err, RLX_EINVAL,
				"%s: sample is for streams and arrays of rank 1: it "
				"has records",
				p->path);
	if (d->records < sample)
		return rlx_fail(err, RLX_ESHAPE, "%s: %llu elements, fewer than a sample of %u",
				p->path, (unsigned long long)d->records, sample);
	d->stream = true;
	d->elements = d->records;
	d->records = (d->elements - sample) / step + 1;
	*t = rlx_type(t->dtype, sample);
	p->stride = step * size;
	p->bytes = sample * size;
	if (!d->file)		/* of a record file all of its last chunk stays */
		p->end = p->base + d->elements * size;
	return RLX_OK;
}

void dataset_at(const struct dataset *d, unsigned int part, uint64_t i, uint64_t *offset,
		uint64_t *bytes)
{
	const struct dataset_part *p = &d->part[part];
	uint64_t chunk;

	if (d->file && !d->stream) {
		record_at(d->file, i, offset, bytes, &chunk);
		return;
	}
	*offset = p->base + i * p->stride;
	*bytes = p->bytes;
}

void dataset_chunk(const struct dataset *d, unsigned int part, uint64_t c, uint64_t *offset,
		   uint64_t *bytes)
{
	const struct dataset_part *p = &d->part[part];
	uint64_t first, n;

	if (d->file) {
		*bytes = d->file->info.chunk_bytes;
		*offset = p->base + c * *bytes;
		return;
	}
	dataset_chunk_records(d, c, &first, &n);
	*offset = p->base + first * p->stride;
	*bytes = n * p->stride;
}

void dataset_chunk_records(const struct dataset *d, uint64_t c, uint64_t *first, uint64_t *n)
{
	if (d->file) {
		*first = d->file->chunk[c].first;
		*n = d->file->chunk[c].records;
		return;
	}
	*first = c * d->per_chunk;
	*n = d->records - *first < d->per_chunk ? d->records - *first : d->per_chunk;
}

enum rlx_status dataset_unchanged(const struct dataset *d, struct rlx_error *err)
{
	unsigned int p;
	struct stat now;
	int64_t e;

	for (p = 0; p < d->parts; p++) {
		const struct stat *was = &d->part[p].id;

		e = file_stat(d->part[p].path, &now);
		if (e < 0)
			return rlx_fail(err, RLX_ESTALE,
					"%s: it was there when it was opened, and is "
					"gone now (%s); put it back and seek",
					d->part[p].path, strerror((int)-e));
		if (now.st_dev != was->st_dev || now.st_ino != was->st_ino)
			return rlx_fail(err, RLX_ESTALE,
					"%s: another file has its name now; open the "
					"data set anew",
					d->part[p].path);
		if (now.st_size != was->st_size || now.st_mtim.tv_sec != was->st_mtim.tv_sec ||
		    now.st_mtim.tv_nsec != was->st_mtim.tv_nsec)
			return rlx_fail(err, RLX_ESTALE, "%s: it changed since it was opened (%lld "
					"bytes then, %lld now); open the data set anew",
					d->part[p].path, (long long)was->st_size,
					(long long)now.st_size);
	}
	return RLX_OK;
}

enum rlx_status dataset_unpack(const struct dataset *d, unsigned int part, uint8_t *to,
			       struct rlx_error *err)
{
	const struct dataset_part *p = &d->part[part];
	uint8_t *packed = rlx_malloc(p->packed_bytes ? p->packed_bytes : 1);
	struct inflate_result r = { .error = "it ends too early" };
	int64_t fd, got;

	if (!packed)
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory for its %llu compressed bytes",
				p->path, (unsigned long long)p->packed_bytes);
	fd = file_open(p->path, O_RDONLY, 0);
	got = fd < 0 ? fd : file_read((int)fd, packed, p->packed_bytes, p->packed);
	if (fd >= 0)
		close((int)fd);
	if (got == (int64_t)p->packed_bytes)
		r = p->codec == DATASET_GZIP ?
		    inflate_gzip(packed, p->packed_bytes, to, p->end, false) :
		    inflate_raw(packed, p->packed_bytes, to, p->end, false);
	rlx_free(packed);
	if (got < 0)
		return rlx_fail(err, RLX_EIO, "%s: %s", p->path, strerror((int)-got));
	if (r.error)
		return rlx_fail(err, RLX_EIO, "%s: byte %llu: %s", p->path,
				(unsigned long long)(p->packed + r.in), r.error);
	return RLX_OK;
}
