// SPDX-License-Identifier: MIT
/*
 * .safetensors: eight bytes of length, a JSON header of that length, then the
 * data of all tensors without holes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/map.h"
#include "io/formats/file.h"
#include "rlx/safetensors.h"

enum { HEADER_MAX = 100 * 1000 * 1000, ALIGN = 64 };

struct rlx_safetensors {
	struct rlx_file		 file;
	struct rlx_json		 json;
	struct rlx_safetensor	*v;
	void			**own;	/* by tensor: its copy, or NULL */
	uint32_t		 n, meta;	/* meta: its node, 0 none */
	struct rlx_map		 by_name;
};

struct loader {
	struct rlx_safetensors	*f;
	const char		*name;
	struct rlx_error	*err;
	const uint8_t		*data;		/* behind the header */
	size_t			 bytes;		/* from there on */
};

static const struct {
	const char	*name;
	enum rlx_dtype	 dtype;
} dtypes[] = {
	{ "F64", RLX_F64 }, { "F32", RLX_F32 }, { "F16", RLX_F16 },
	{ "BF16", RLX_BF16 }, { "F8_E4M3", RLX_F8E4M3 },
	{ "F8_E5M2", RLX_F8E5M2 }, { "I64", RLX_I64 }, { "I32", RLX_I32 },
	{ "I16", RLX_I16 }, { "I8", RLX_I8 }, { "U64", RLX_U64 },
	{ "U32", RLX_U32 }, { "U16", RLX_U16 }, { "U8", RLX_U8 },
	{ "BOOL", RLX_BOOL }, { "C64", RLX_C64 },
};

static enum rlx_status bad(struct loader *l, const char *tensor,
			   enum rlx_status st, const char *what)
{
	return rlx_fail(l->err, st, "%s: tensor \"%.80s\": %s", l->name, tensor,
			what);
}

static enum rlx_status load_dtype(struct loader *l, uint32_t i,
				  struct rlx_safetensor *t)
{
	const struct rlx_json *j = &l->f->json;
	uint32_t k = rlx_json_get(j, i, "dtype");
	size_t d;

	if (!k || rlx_json_kind(j, k) != RLX_JSON_STR)
		return bad(l, t->name, RLX_EPARSE, "no \"dtype\" string");
	for (d = 0; d < sizeof(dtypes) / sizeof(*dtypes); d++)
		if (rlx_json_str_is(j, k, dtypes[d].name)) {
			t->type.dtype = dtypes[d].dtype;
			return RLX_OK;
		}
	return rlx_fail(l->err, RLX_ENOSUP,
			"%s: tensor \"%.80s\": dtype \"%.20s\" is not supported",
			l->name, t->name, rlx_json_text(j, k));
}

static enum rlx_status load_shape(struct loader *l, uint32_t i,
				  struct rlx_safetensor *t)
{
	const struct rlx_json *j = &l->f->json;
	uint32_t k = rlx_json_get(j, i, "shape");
	struct rlx_json_iter it;
	int64_t v;

	if (!k || rlx_json_kind(j, k) != RLX_JSON_ARR)
		return bad(l, t->name, RLX_EPARSE, "no \"shape\" list");
	for (it = rlx_json_iter(j, k); rlx_json_next(&it);) {
		if (!rlx_json_int(j, it.val, &v) || v < 0)
			return bad(l, t->name, RLX_EPARSE,
				   "dimension is no integer or negative");
		if (t->type.rank == RLX_MAX_RANK)
			return bad(l, t->name, RLX_ENOSUP,
				   "more than 8 dimensions");
		t->type.dim[t->type.rank++] = v;
	}
	return RLX_OK;
}

static enum rlx_status load_offsets(struct loader *l, uint32_t i,
				    struct rlx_safetensor *t)
{
	const struct rlx_json *j = &l->f->json;
	uint32_t k = rlx_json_get(j, i, "data_offsets");
	int64_t begin, end, bytes;

	if (!k || rlx_json_kind(j, k) != RLX_JSON_ARR || j->node[k].len != 2 ||
	    !rlx_json_int(j, k + 1, &begin) || begin < 0 ||
	    !rlx_json_int(j, j->node[k + 1].end, &end) || end < begin)
		return bad(l, t->name, RLX_EPARSE,
			   "\"data_offsets\" is not [begin, end]");
	if ((uint64_t)end > l->bytes)
		return rlx_fail(l->err, RLX_EPARSE,
				"%s: tensor \"%.80s\": ends at byte %lld of %zu: file too short",
				l->name, t->name, (long long)end, l->bytes);
	bytes = rlx_type_bytes(&t->type);
	if (bytes != end - begin)
		return rlx_fail(l->err, RLX_EPARSE,
				"%s: tensor \"%.80s\": %lld bytes, its shape needs %lld",
				l->name, t->name, (long long)(end - begin),
				(long long)bytes);
	t->offset = (uint64_t)begin;	/* from l->data on until all are sorted */
	return RLX_OK;
}

static enum rlx_status load_tensor(struct loader *l, uint32_t key, uint32_t i,
				   struct rlx_safetensor *t)
{
	const struct rlx_json *j = &l->f->json;
	struct rlx_json_iter it;
	enum rlx_status st;

	*t = (struct rlx_safetensor){ .name = rlx_json_text(j, key) };
	if (strlen(t->name) != rlx_json_len(j, key))
		return bad(l, t->name, RLX_EPARSE, "zero byte in its name");
	if (rlx_json_kind(j, i) != RLX_JSON_OBJ)
		return bad(l, t->name, RLX_EPARSE, "not an object");
	for (it = rlx_json_iter(j, i); rlx_json_next(&it);)
		if (!rlx_json_str_is(j, it.key, "dtype") &&
		    !rlx_json_str_is(j, it.key, "shape") &&
		    !rlx_json_str_is(j, it.key, "data_offsets"))
			return bad(l, t->name, RLX_EPARSE, "unknown member");
	st = load_dtype(l, i, t);
	if (!st)
		st = load_shape(l, i, t);
	return st ? st : load_offsets(l, i, t);
}

static enum rlx_status check_meta(struct loader *l, uint32_t i)
{
	const struct rlx_json *j = &l->f->json;
	struct rlx_json_iter it;

	if (rlx_json_kind(j, i) != RLX_JSON_OBJ)
		return bad(l, "__metadata__", RLX_EPARSE, "not an object");
	for (it = rlx_json_iter(j, i); rlx_json_next(&it);)
		if (rlx_json_kind(j, it.val) != RLX_JSON_STR)
			return bad(l, "__metadata__", RLX_EPARSE,
				   "value that is no string");
	l->f->meta = i;
	return RLX_OK;
}

static int by_offset(const void *a, const void *b)
{
	const struct rlx_safetensor *x = a, *y = b;
	int64_t m = rlx_type_bytes(&x->type), n = rlx_type_bytes(&y->type);

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	/* empty ones first, so that each begins where the last ended */
	if (m != n)
		return m < n ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Data in place, or a copy if an element would straddle its alignment. */
static enum rlx_status place(struct loader *l, uint32_t i)
{
	struct rlx_safetensor *t = &l->f->v[i];
	size_t bytes = (size_t)rlx_type_bytes(&t->type), k;
	size_t size = rlx_dtype_size(t->type.dtype);

	t->data = l->data + t->offset;
	t->offset += (size_t)(l->data - l->f->file.p);
	if (t->type.dtype == RLX_BOOL)
		for (k = 0; k < bytes; k++)
			if (((const uint8_t *)t->data)[k] > 1)
				return bad(l, t->name, RLX_EPARSE,
					   "bool that is neither 0 nor 1");
	if (!bytes || !((uintptr_t)t->data % size))
		return RLX_OK;
	l->f->own[i] = rlx_aligned(ALIGN, bytes);
	if (!l->f->own[i])
		return bad(l, t->name, RLX_ENOMEM, "no memory to align it");
	memcpy(l->f->own[i], t->data, bytes);
	t->data = l->f->own[i];
	return RLX_OK;
}

/* In order of data there is no overlap, no hole and nothing left over. */
static enum rlx_status check_order(struct loader *l)
{
	struct rlx_safetensors *f = l->f;
	enum rlx_status st;
	uint64_t at = 0;
	uint32_t i;

	if (f->n)
		qsort(f->v, f->n, sizeof(*f->v), by_offset);
	for (i = 0; i < f->n; i++) {
		if (f->v[i].offset != at)
			return rlx_fail(l->err, RLX_EPARSE,
					"%s: tensor \"%.80s\": begins at byte %llu, the one before ends at %llu",
					l->name, f->v[i].name,
					(unsigned long long)f->v[i].offset,
					(unsigned long long)at);
		at += (uint64_t)rlx_type_bytes(&f->v[i].type);
	}
	if (at != l->bytes)
		return rlx_fail(l->err, RLX_EPARSE,
				"%s: tensors end at byte %llu of data, the file at %zu",
				l->name, (unsigned long long)at, l->bytes);
	for (i = 0; i < f->n; i++) {
		st = place(l, i);
		if (st)
			return st;
		if (!rlx_map_put(&f->by_name, f->v[i].name,
				 strlen(f->v[i].name), i))
			return bad(l, f->v[i].name, RLX_ENOMEM, "no memory");
	}
	return RLX_OK;
}

static enum rlx_status load_header(struct loader *l)
{
	struct rlx_safetensors *f = l->f;
	struct rlx_json_iter it;
	enum rlx_status st;
	uint32_t n;

	if (rlx_json_kind(&f->json, 0) != RLX_JSON_OBJ)
		return rlx_fail(l->err, RLX_EPARSE, "%s: header is no object",
				l->name);
	n = f->json.node[0].len;
	f->v = rlx_calloc(n ? n : 1, sizeof(*f->v));
	f->own = rlx_calloc(n ? n : 1, sizeof(*f->own));
	if (!f->v || !f->own)
		return rlx_fail(l->err, RLX_ENOMEM, "%s: no memory for %u tensors",
				l->name, n);
	for (it = rlx_json_iter(&f->json, 0); rlx_json_next(&it);) {
		if (rlx_json_str_is(&f->json, it.key, "__metadata__")) {
			st = check_meta(l, it.val);
		} else {
			st = load_tensor(l, it.key, it.val, &f->v[f->n]);
			f->n += !st;
		}
		if (st)
			return st;
	}
	return check_order(l);
}

static enum rlx_status load(struct rlx_safetensors *f, const char *name,
			    struct rlx_error *err)
{
	struct rlx_json_limits lim = { .bytes = HEADER_MAX, .depth = 8 };
	struct loader l = { .f = f, .name = name, .err = err };
	enum rlx_status st;
	uint64_t len = 0;
	int i;

	if (f->file.n < 8)
		return rlx_fail(err, RLX_EPARSE, "%s: %zu bytes: not safetensors",
				name, f->file.n);
	for (i = 7; i >= 0; i--)
		len = len << 8 | f->file.p[i];
	if (len > HEADER_MAX)
		return rlx_fail(err, RLX_ERANGE,
				"%s: header of %llu bytes, at most %d: not safetensors?",
				name, (unsigned long long)len, HEADER_MAX);
	if (len > f->file.n - 8)
		return rlx_fail(err, RLX_EPARSE,
				"%s: header of %llu bytes, but the file has %zu",
				name, (unsigned long long)len, f->file.n);
	l.data = f->file.p + 8 + len;
	l.bytes = f->file.n - 8 - (size_t)len;
	st = rlx_json_parse(&f->json, (const char *)f->file.p + 8, (size_t)len,
			    &lim, name, err);
	if (!st)
		st = load_header(&l);
	f->json.name = NULL;	/* the caller's string */
	return st;
}

static enum rlx_status open_file(struct rlx_file *file, const char *name,
				 struct rlx_safetensors **out_f,
				 struct rlx_error *err)
{
	struct rlx_safetensors *f = rlx_calloc(1, sizeof(*f));
	enum rlx_status st;

	if (!f) {
		rlx_file_unmap(file);
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory", name);
	}
	f->file = *file;
	st = load(f, name, err);
	if (st)
		rlx_safetensors_close(f);
	else
		*out_f = f;
	return st;
}

enum rlx_status rlx_safetensors_open(const char *path,
				     struct rlx_safetensors **out_f,
				     struct rlx_error *err)
{
	struct rlx_file file;
	enum rlx_status st;

	if (!out_f)
		return rlx_fail(err, RLX_EINVAL, "safetensors: out_f is NULL");
	*out_f = NULL;
	st = rlx_file_map(&file, path, err);
	return st ? st : open_file(&file, path, out_f, err);
}

enum rlx_status rlx_safetensors_open_mem(const void *p, size_t len,
					 struct rlx_safetensors **out_f,
					 struct rlx_error *err)
{
	struct rlx_file file = { .p = p ? p : (const void *)"", .n = len };

	if (!out_f)
		return rlx_fail(err, RLX_EINVAL, "safetensors: out_f is NULL");
	*out_f = NULL;
	if (!p && len)
		return rlx_fail(err, RLX_EINVAL, "safetensors: no memory given");
	return open_file(&file, "safetensors in memory", out_f, err);
}

uint64_t rlx_safetensors_source(const struct rlx_safetensors *f)
{
	return f ? f->file.source : 0;
}

const struct rlx_file *rlx_safetensors_mapped(const struct rlx_safetensors *f)
{
	return &f->file;
}

void rlx_safetensors_close(struct rlx_safetensors *f)
{
	uint32_t i;

	if (!f)
		return;
	for (i = 0; f->own && i < f->n; i++)
		rlx_free(f->own[i]);
	rlx_free(f->own);
	rlx_free(f->v);
	rlx_map_fini(&f->by_name);
	rlx_json_fini(&f->json);
	rlx_file_unmap(&f->file);
	rlx_free(f);
}

uint32_t rlx_safetensors_count(const struct rlx_safetensors *f)
{
	return f ? f->n : 0;
}

const struct rlx_safetensor *rlx_safetensors_at(const struct rlx_safetensors *f,
						uint32_t i)
{
	return f && i < f->n ? &f->v[i] : NULL;
}

const struct rlx_safetensor *
rlx_safetensors_find(const struct rlx_safetensors *f, const char *name)
{
	uint64_t i;

	if (!f || !name || !rlx_map_get(&f->by_name, name, strlen(name), &i))
		return NULL;
	return &f->v[i];
}

bool rlx_safetensors_meta(const struct rlx_safetensors *f, uint32_t i,
			  const char **out_key, const char **out_value)
{
	uint32_t key;

	if (!f || !f->meta || i >= f->json.node[f->meta].len)
		return false;
	key = f->meta + 1 + 2 * i;	/* all members are two nodes, keys and strings */
	*out_key = rlx_json_text(&f->json, key);
	*out_value = rlx_json_text(&f->json, key + 1);
	return true;
}
