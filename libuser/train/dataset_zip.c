// SPDX-License-Identifier: MIT
/*
 * .npz: a zip archive of .npy files. Its directory stands at the end (APPNOTE 6.3.10, with
 * the 64-bit fields that numpy writes); members are stored or deflated.
 */
#include <string.h>

#include "base/alloc.h"
#include "train/dataset.h"
#include "train/inflate.h"

enum { END_BYTES = 22, ENTRY_BYTES = 46, LOCAL_BYTES = 30, COMMENT_MAX = 65535,
       END64_BYTES = 56, LOCATOR_BYTES = 20, HEAD_MAX = (1 << 20) + 16 };

struct entry {
	uint64_t	packed, bytes, local;
	uint16_t	method, name_bytes;
	const uint8_t	*name;
};

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t get32(const uint8_t *p)
{
	return get16(p) | (uint32_t)get16(p + 2) << 16;
}

static uint64_t get64(const uint8_t *p)
{
	return get32(p) | (uint64_t)get32(p + 4) << 32;
}

static enum rlx_status bad(const struct dataset_source *s, uint64_t at, const char *what)
{
	return rlx_fail(s->err, RLX_EPARSE, "%s: byte %llu: %s", s->path, (unsigned long long)at,
			what);
}

static enum rlx_status find_directory(const struct dataset_source *s, uint64_t *at,
				      uint64_t *end, uint64_t *n)
{
	uint64_t i,
		least = s->size > END_BYTES + COMMENT_MAX ? s->size - END_BYTES - COMMENT_MAX : 0;
	const uint8_t *p, *q;
	uint64_t e64;

	if (s->size < END_BYTES)
		return bad(s, 0, "too short for an archive");
	for (i = s->size - END_BYTES; memcmp(s->map + i, "PK\5\6", 4); i--)
		if (i == least)
			return bad(s, s->size, "an archive without its directory: it was cut short");
	p = s->map + i;
	*n = get16(p + 10);
	*at = get32(p + 16);
	*end = *at + get32(p + 12);
	q = i >= LOCATOR_BYTES ? p - LOCATOR_BYTES : p;
	if ((*n == 0xffff || *at == UINT32_MAX) && !memcmp(q, "PK\6\7", 4)) {
		e64 = get64(q + 8);
		if (e64 > s->size || s->size - e64 < END64_BYTES ||
		    memcmp(s->map + e64, "PK\6\6", 4))
			return bad(s, i - LOCATOR_BYTES + 8, "its 64-bit directory is not there");
		*n = get64(s->map + e64 + 32);
		*at = get64(s->map + e64 + 48);
		if (__builtin_add_overflow(*at, get64(s->map + e64 + 40), end))
			return bad(s, e64 + 40, "a directory longer than files can be");
	}
	return *at > *end || *end > s->size ? bad(s, i, "its directory lies outside the file") :
	       RLX_OK;
}

/* Sizes that do not fit into 32 bits stand in an extra field, those alone, in order. */
static void take_extra(struct entry *e, const uint8_t *p, uint64_t n)
{
	uint64_t *field[3] = { &e->bytes, &e->packed, &e->local }, at, len;
	unsigned int i;

	for (at = 0; at + 4 <= n; at += 4 + len) {
		len = get16(p + at + 2);
		if (get16(p + at) != 1 || len > n - at - 4)
			continue;
		p += at + 4;
		for (i = 0; i < 3; i++)
			if (*field[i] == UINT32_MAX && len >= 8) {
				*field[i] = get64(p);
				p += 8;
				len -= 8;
			}
		return;
	}
}

static enum rlx_status take_entry(const struct dataset_source *s, uint64_t *at, uint64_t end,
				  struct entry *e)
{
	const uint8_t *p = s->map + *at;
	uint64_t n;

	if (end - *at < ENTRY_BYTES || memcmp(p, "PK\1\2", 4))
		return bad(s, *at, "no entry where the directory should have one");
	n = (uint64_t)ENTRY_BYTES + get16(p + 28) + get16(p + 30) + get16(p + 32);
	if (n > end - *at)
		return bad(s, *at, "an entry that runs over the directory's end");
	*e = (struct entry){
		.method = get16(p + 10), .packed = get32(p + 20), .bytes = get32(p + 24),
		.local = get32(p + 42), .name_bytes = get16(p + 28), .name = p + ENTRY_BYTES,
	};
	take_extra(e, e->name + e->name_bytes, get16(p + 30));
	if (get16(p + 8) & 1)
		return bad(s, *at + 8, "an encrypted member");
	*at += n;
	return RLX_OK;
}

/* The member's bytes: behind a local header, which repeats its name. */
static enum rlx_status locate(const struct dataset_source *s, const struct entry *e,
			      uint64_t *at)
{
	const uint8_t *p = s->map + e->local;

	if (e->local > s->size || s->size - e->local < LOCAL_BYTES || memcmp(p, "PK\3\4", 4))
		return bad(s, e->local, "no member where the directory says");
	*at = e->local + LOCAL_BYTES + get16(p + 26) + get16(p + 28);
	if (*at > s->size || e->packed > s->size - *at)
		return bad(s, *at, "a member that runs over the file's end");
	return RLX_OK;
}

static enum rlx_status deflated(const struct dataset_source *s, const struct entry *e,
				struct dataset_array *a)
{
	uint64_t room = e->bytes < HEAD_MAX ? e->bytes : HEAD_MAX;
	uint8_t *head = rlx_malloc(room ? room : 1);
	struct inflate_result r;
	enum rlx_status st;

	if (!head)
		return rlx_fail(s->err, RLX_ENOMEM, "%s: no memory", s->path);
	r = inflate_raw(s->map + a->packed, a->packed_bytes, head, room, true);
	st = r.error ? bad(s, a->packed + r.in, r.error) :
	     dataset_array_head(s, head, r.out, e->bytes, a);
	rlx_free(head);
	return st;
}

static enum rlx_status member(const struct dataset_source *s, const struct entry *e)
{
	struct dataset_array a = { 0 };
	char name[RLX_FIELD_NAME + 8];
	enum rlx_status st;
	size_t n = e->name_bytes;

	if (n < 4 || n >= sizeof(name) || memcmp(e->name + n - 4, ".npy", 4))
		return rlx_fail(s->err, RLX_ENOSUP,
				"%s: member \"%.*s\" is no .npy with a name of 1 "
				"to %d bytes",
				s->path, (int)(n < 60 ? n : 60), e->name, RLX_FIELD_NAME - 1);
	memcpy(name, e->name, n - 4);
	name[n - 4] = 0;
	a.name = name;
	st = locate(s, e, &a.packed);
	if (st)
		return st;
	a.packed_bytes = e->packed;
	if (e->method == 8) {
		a.codec = DATASET_DEFLATE;
		st = deflated(s, e, &a);
	} else if (e->method || e->packed != e->bytes) {
		st = rlx_fail(s->err, RLX_ENOSUP, "%s: member \"%s\": compression %u: only stored "
			      "and deflated are read", s->path, name, e->method);
	} else {
		st = dataset_array_head(s, s->map + a.packed, e->bytes, e->bytes, &a);
		a.offset += a.packed;
	}
	return st ? st : dataset_add_array(s, &a);
}

enum rlx_status dataset_zip(const struct dataset_source *s)
{
	uint64_t at = 0, end = 0, n = 0, i;
	struct entry e;
	enum rlx_status st = find_directory(s, &at, &end, &n);

	if (!st && s->name && n != 1)
		st = rlx_fail(s->err, RLX_EINVAL, "%s: \"%s\" cannot name all of its %llu arrays",
			      s->path, s->name, (unsigned long long)n);
	if (!st && !n)
		st = bad(s, at, "no arrays");
	for (i = 0; i < n && !st; i++) {
		st = take_entry(s, &at, end, &e);
		if (!st)
			st = member(s, &e);
	}
	return st;
}
