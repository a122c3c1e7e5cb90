// SPDX-License-Identifier: MIT
/*
 * Reading .gguf: "GGUF", a version, two counts, pairs of key and value, names and shapes of
 * tensors, and from the next multiple of the alignment on their data. All numbers are
 * little-endian, and nothing is believed before it was held against the bytes there are.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/bump.h"
#include "base/map.h"
#include "io/formats/file.h"
#include "io/formats/gguf.h"
#include "io/tokenizer/utf8.h"

enum { TEXT_MAX = 65535 };

struct rlx_gguf {
	struct rlx_file		 file;
	struct rlx_bump		 bump;		/* keys and names */
	struct rlx_map		 by_key, by_name;
	struct rlx_gguf_pair	*kv;
	struct rlx_gguf_tensor	*v;
	uint32_t		 n_kv, n;
};

/* Where reading is; after a failure it has no bytes left. */
struct cursor {
	struct rlx_gguf		*f;
	const char		*name;		/* of the file */
	const uint8_t		*at, *end;
	struct rlx_error	*err;
	enum rlx_status		 st;
};

static const struct gguf_format formats[] = {
	{ 0, 1, 4, RLX_F32, "F32" }, { 1, 1, 2, RLX_F16, "F16" },
	{ 2, 32, 18, RLX_NODTYPE, "Q4_0" }, { 3, 32, 20, RLX_NODTYPE, "Q4_1" },
	{ 6, 32, 22, RLX_NODTYPE, "Q5_0" }, { 7, 32, 24, RLX_NODTYPE, "Q5_1" },
	{ 8, 32, 34, RLX_NODTYPE, "Q8_0" },
	{ 10, 256, 84, RLX_NODTYPE, "Q2_K" }, { 11, 256, 110, RLX_NODTYPE, "Q3_K" },
	{ 12, 256, 144, RLX_NODTYPE, "Q4_K" }, { 13, 256, 176, RLX_NODTYPE, "Q5_K" },
	{ 14, 256, 210, RLX_NODTYPE, "Q6_K" }, { 15, 256, 292, RLX_NODTYPE, "Q8_K" },
	{ 16, 256, 66, RLX_NODTYPE, "IQ2_XXS" }, { 17, 256, 74, RLX_NODTYPE, "IQ2_XS" },
	{ 18, 256, 98, RLX_NODTYPE, "IQ3_XXS" }, { 19, 256, 50, RLX_NODTYPE, "IQ1_S" },
	{ 20, 32, 18, RLX_NODTYPE, "IQ4_NL" }, { 21, 256, 110, RLX_NODTYPE, "IQ3_S" },
	{ 22, 256, 82, RLX_NODTYPE, "IQ2_S" }, { 23, 256, 136, RLX_NODTYPE, "IQ4_XS" },
	{ 24, 1, 1, RLX_I8, "I8" }, { 25, 1, 2, RLX_I16, "I16" }, { 26, 1, 4, RLX_I32, "I32" },
	{ 27, 1, 8, RLX_I64, "I64" }, { 28, 1, 8, RLX_F64, "F64" },
	{ 29, 256, 56, RLX_NODTYPE, "IQ1_M" }, { 30, 1, 2, RLX_BF16, "BF16" },
	{ 34, 256, 54, RLX_NODTYPE, "TQ1_0" }, { 35, 256, 66, RLX_NODTYPE, "TQ2_0" },
	{ 39, 32, 17, RLX_NODTYPE, "MXFP4" }, { 40, 64, 36, RLX_NODTYPE, "NVFP4" },
};

const struct gguf_format *gguf_format_of(uint32_t number)
{
	size_t i;

	for (i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (formats[i].number == number)
			return &formats[i];
	return NULL;
}

uint32_t gguf_scalar_bytes(uint32_t type)
{
	static const uint8_t bytes[] = {
		[RLX_GGUF_U8] = 1, [RLX_GGUF_I8] = 1, [RLX_GGUF_U16] = 2, [RLX_GGUF_I16] = 2,
		[RLX_GGUF_U32] = 4, [RLX_GGUF_I32] = 4, [RLX_GGUF_F32] = 4, [RLX_GGUF_BOOL] = 1,
		[RLX_GGUF_U64] = 8, [RLX_GGUF_I64] = 8, [RLX_GGUF_F64] = 8,
	};

	return type < sizeof(bytes) ? bytes[type] : 0;
}

/* ---- bytes ---- */

/* The failure of all that follows; @what with the byte where it is. */
static void bad(struct cursor *c, enum rlx_status st, const char *what, const char *of)
{
	if (c->st)
		return;
	c->st = rlx_fail(c->err, st, "%s: byte %zu: %s%s%.80s%s", c->name,
			 (size_t)(c->at - c->f->file.p), what, of ? " \"" : "", of ? of : "",
			 of ? "\"" : "");
	c->at = c->end;
}

/* @n bytes further on; NULL if the file has not so many. */
static const uint8_t *take(struct cursor *c, uint64_t n)
{
	const uint8_t *p = c->at;

	if (c->st || n > (uint64_t)(c->end - c->at)) {
		bad(c, RLX_EPARSE, "the file ends in the middle of it", NULL);
		return NULL;
	}
	c->at += n;
	return p;
}

static uint64_t number(const uint8_t *p, uint32_t bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | p[bytes];
	return v;
}

static uint64_t take_number(struct cursor *c, uint32_t bytes)
{
	const uint8_t *p = take(c, bytes);

	return p ? number(p, bytes) : 0;
}

/* A key or name: kept 0-ended; NULL on failure. */
static const char *take_text(struct cursor *c, const char *what)
{
	uint64_t n = take_number(c, 8);
	const uint8_t *p;
	char *s;

	if (n > TEXT_MAX) {
		bad(c, RLX_EPARSE, "over 65,535 bytes of", what);
		return NULL;
	}
	p = take(c, n);
	if (!p)
		return NULL;
	if (!n || memchr(p, 0, (size_t)n) || rlx_utf8_check(p, (size_t)n) != n) {
		bad(c, RLX_EPARSE, "empty, not UTF-8, or with a zero byte is a", what);
		return NULL;
	}
	s = rlx_bump_new(&c->f->bump, (size_t)n + 1, 1);
	if (!s) {
		bad(c, RLX_ENOMEM, "no memory", NULL);
		return NULL;
	}
	memcpy(s, p, (size_t)n);
	s[n] = 0;
	return s;
}

/* ---- values ---- */

static void scalar(struct rlx_gguf_value *v, const uint8_t *p)
{
	uint32_t bytes = gguf_scalar_bytes(v->type);
	uint64_t u = number(p, bytes);
	uint32_t word = (uint32_t)u;
	float f;

	switch (v->type) {
	case RLX_GGUF_I8:	v->i = (int8_t)u;	break;
	case RLX_GGUF_I16:	v->i = (int16_t)u;	break;
	case RLX_GGUF_I32:	v->i = (int32_t)u;	break;
	case RLX_GGUF_F32:
		memcpy(&f, &word, sizeof(f));
		v->f = (double)f;
		break;
	case RLX_GGUF_F64:
		memcpy(&v->f, &u, sizeof(u));
		break;
	default:
		v->u = u;
	}
}

static void check_bools(struct cursor *c, const uint8_t *p, uint64_t n)
{
	for (; p && n; n--, p++)
		if (*p > 1) {
			bad(c, RLX_EPARSE, "a bool that is neither 0 nor 1", NULL);
			return;
		}
}

static void take_array(struct cursor *c, struct rlx_gguf_value *v)
{
	uint32_t bytes;
	uint64_t i;

	v->of = (enum rlx_gguf_type)take_number(c, 4);
	v->n = take_number(c, 8);
	v->data = c->at;
	bytes = gguf_scalar_bytes(v->of);
	if (bytes && v->n > (uint64_t)(c->end - c->at) / bytes)
		bad(c, RLX_EPARSE, "an array is longer than the file", NULL);
	else if (bytes)
		take(c, v->n * bytes);
	else if (v->of == RLX_GGUF_STRING)
		for (i = 0; i < v->n && !c->st; i++)
			take(c, take_number(c, 8));
	else if (!c->st)
		bad(c, v->of == RLX_GGUF_ARRAY ? RLX_ENOSUP : RLX_EPARSE,
		    v->of == RLX_GGUF_ARRAY ? "an array of arrays" : "no such type of elements",
		    NULL);
	if (!c->st && v->of == RLX_GGUF_BOOL)
		check_bools(c, v->data, v->n);
}

static void take_value(struct cursor *c, struct rlx_gguf_value *v)
{
	uint32_t type = (uint32_t)take_number(c, 4);
	const uint8_t *p;

	*v = (struct rlx_gguf_value){ .type = (enum rlx_gguf_type)type };
	if (type == RLX_GGUF_STRING) {
		v->n = take_number(c, 8);
		v->data = take(c, v->n);
	} else if (type == RLX_GGUF_ARRAY) {
		take_array(c, v);
	} else if (gguf_scalar_bytes(type)) {
		p = take(c, gguf_scalar_bytes(type));
		if (p)
			scalar(v, p);
		if (type == RLX_GGUF_BOOL)
			check_bools(c, p, 1);
	} else {
		bad(c, RLX_EPARSE, "no such type of value", NULL);
	}
}

static void take_pairs(struct cursor *c)
{
	struct rlx_gguf *f = c->f;
	uint64_t seen;

	while (f->n_kv && !c->st) {
		struct rlx_gguf_pair *p = &f->kv[f->by_key.n];

		if (f->by_key.n == f->n_kv)
			return;
		p->key = take_text(c, "key");
		if (!c->st && rlx_map_get(&f->by_key, p->key, strlen(p->key), &seen))
			bad(c, RLX_EPARSE, "comes twice: key", p->key);
		if (!c->st)
			take_value(c, &p->value);
		if (!c->st && !rlx_map_put(&f->by_key, p->key, strlen(p->key), f->by_key.n))
			bad(c, RLX_ENOMEM, "no memory", NULL);
	}
}

/* ---- tensors ---- */

/* The file has the innermost dimension first. */
static void take_shape(struct cursor *c, struct rlx_gguf_tensor *t)
{
	uint64_t n = take_number(c, 4), d;
	uint32_t i;

	if (n > GGUF_MAX_DIMS) {
		bad(c, RLX_ENOSUP, "over 4 dimensions of tensor", t->name);
		return;
	}
	t->type.rank = (uint32_t)n;
	for (i = 0; i < n; i++) {
		d = take_number(c, 8);
		if (d > INT64_MAX)
			bad(c, RLX_EPARSE, "a dimension over 2^63 of tensor", t->name);
		t->type.dim[n - 1 - i] = (int64_t)d;
	}
}

/* How many bytes it takes; false if they are too many to count, or blocks are not whole. */
static bool size_of(struct rlx_gguf_tensor *t, const struct gguf_format *how)
{
	struct rlx_type bytes = t->type;
	int64_t n, last = t->type.rank ? t->type.dim[t->type.rank - 1] : 1;

	bytes.dtype = RLX_F64;		/* 8 bytes an element: no format has more */
	n = rlx_type_bytes(&bytes) / 8;
	if (rlx_type_bytes(&bytes) < 0 || last % how->block)
		return false;
	t->bytes = (uint64_t)n / how->block * how->bytes;
	return true;
}

static void take_tensor(struct cursor *c, struct rlx_gguf_tensor *t)
{
	const struct gguf_format *how;
	uint64_t seen;

	t->name = take_text(c, "name");
	if (!c->st && rlx_map_get(&c->f->by_name, t->name, strlen(t->name), &seen))
		bad(c, RLX_EPARSE, "comes twice: tensor", t->name);
	if (c->st)
		return;
	take_shape(c, t);
	t->format = (uint32_t)take_number(c, 4);
	t->offset = take_number(c, 8);
	how = gguf_format_of(t->format);
	if (!c->st && !how)
		bad(c, RLX_ENOSUP, "elements of a format that is not known has tensor", t->name);
	else if (!c->st && !size_of(t, how))
		bad(c, RLX_EPARSE, "too large, or with blocks that are not whole, is tensor",
		    t->name);
	if (!c->st)
		t->type.dtype = (enum rlx_dtype)how->dtype;
	if (!c->st && !rlx_map_put(&c->f->by_name, t->name, strlen(t->name), c->f->n))
		bad(c, RLX_ENOMEM, "no memory", NULL);
	c->f->n += !c->st;
}

/* Each behind the one before, at the next multiple of the alignment. */
static void place_data(struct cursor *c, uint64_t align)
{
	const uint8_t *begin = c->f->file.p;
	uint64_t at = (uint64_t)(c->at - begin), room, used = 0;
	uint32_t i;

	at += (align - at % align) % align;
	room = at < c->f->file.n ? c->f->file.n - at : 0;
	if (c->st)
		return;
	for (i = 0; i < c->f->n; i++) {
		struct rlx_gguf_tensor *t = &c->f->v[i];

		used += (align - used % align) % align;
		if (t->offset != used)
			bad(c, RLX_EPARSE, "not where the one before it ends lies tensor", t->name);
		else if (used > room || t->bytes > room - used)
			bad(c, RLX_EPARSE, "the file ends before the data of tensor", t->name);
		if (c->st)
			return;
		used += t->bytes;
		t->offset += at;
		t->data = begin + t->offset;
	}
}

static uint64_t alignment(struct cursor *c)
{
	struct rlx_gguf_value v;

	if (c->st || !rlx_gguf_get(c->f, "general.alignment", &v))
		return GGUF_ALIGN;
	if (v.type == RLX_GGUF_U32 && v.u && !(v.u & (v.u - 1)))
		return v.u;
	bad(c, RLX_EPARSE, "no power of two as u32 is", "general.alignment");
	return GGUF_ALIGN;
}

/* ---- the file ---- */

/* How many there can be: each takes @least bytes. */
static uint32_t take_count(struct cursor *c, uint64_t least, const char *what)
{
	uint64_t n = take_number(c, 8);

	if (n > (uint64_t)(c->end - c->at) / least || n > UINT32_MAX / 2) {
		bad(c, RLX_EPARSE, "the file is too short for so many", what);
		return 0;
	}
	return (uint32_t)n;
}

static void load(struct cursor *c)
{
	struct rlx_gguf *f = c->f;
	uint64_t version, n;

	if (f->file.n < 4 || memcmp(f->file.p, "GGUF", 4)) {
		bad(c, RLX_EPARSE, "it does not begin with GGUF", NULL);
		return;
	}
	take(c, 4);
	version = take_number(c, 4);
	if (!c->st && version != 2 && version != 3)
		bad(c, RLX_ENOSUP, version && !(version & 0xffff) ?
		    "the order of its bytes is big-endian" : "a version other than 2 and 3", NULL);
	n = take_count(c, 24, "tensors");
	f->n_kv = take_count(c, 13, "keys");
	f->kv = rlx_calloc(f->n_kv + 1ul, sizeof(*f->kv));
	f->v = rlx_calloc((size_t)n + 1, sizeof(*f->v));
	if (!c->st && (!f->kv || !f->v))
		bad(c, RLX_ENOMEM, "no memory", NULL);
	if (!c->st)
		take_pairs(c);
	while (!c->st && f->n < n)
		take_tensor(c, &f->v[f->n]);
	place_data(c, alignment(c));
}

static enum rlx_status open_file(struct rlx_file *file, const char *name, struct rlx_gguf **out_f,
				 struct rlx_error *err)
{
	struct rlx_gguf *f = rlx_calloc(1, sizeof(*f));
	struct cursor c = { .f = f, .name = name, .err = err };

	if (!f) {
		rlx_file_unmap(file);
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory", name);
	}
	f->file = *file;
	c.at = f->file.p;
	c.end = f->file.p + f->file.n;
	load(&c);
	if (c.st)
		rlx_gguf_close(f);
	else
		*out_f = f;
	return c.st;
}

enum rlx_status rlx_gguf_open(const char *path, struct rlx_gguf **out_f, struct rlx_error *err)
{
	struct rlx_file file;
	enum rlx_status st;

	if (!out_f)
		return rlx_fail(err, RLX_EINVAL, "gguf: out_f is NULL");
	*out_f = NULL;
	st = rlx_file_map(&file, path, err);
	return st ? st : open_file(&file, path, out_f, err);
}

enum rlx_status rlx_gguf_open_mem(const void *p, size_t len, struct rlx_gguf **out_f,
				  struct rlx_error *err)
{
	struct rlx_file file = { .p = p ? p : (const void *)"", .n = len };

	if (!out_f || (!p && len))
		return rlx_fail(err, RLX_EINVAL, "gguf: out_f is NULL, or no memory is given");
	*out_f = NULL;
	return open_file(&file, "gguf in memory", out_f, err);
}

void rlx_gguf_close(struct rlx_gguf *f)
{
	if (!f)
		return;
	rlx_map_fini(&f->by_key);
	rlx_map_fini(&f->by_name);
	rlx_bump_fini(&f->bump);
	rlx_free(f->kv);
	rlx_free(f->v);
	rlx_file_unmap(&f->file);
	rlx_free(f);
}

const struct rlx_file *gguf_file(const struct rlx_gguf *f)
{
	return &f->file;
}

uint32_t rlx_gguf_count(const struct rlx_gguf *f)
{
	return f ? f->n : 0;
}

const struct rlx_gguf_tensor *rlx_gguf_at(const struct rlx_gguf *f, uint32_t i)
{
	return f && i < f->n ? &f->v[i] : NULL;
}

const struct rlx_gguf_tensor *rlx_gguf_find(const struct rlx_gguf *f, const char *name)
{
	uint64_t i;

	return f && name && rlx_map_get(&f->by_name, name, strlen(name), &i) ? &f->v[i] : NULL;
}

const char *rlx_gguf_key(const struct rlx_gguf *f, uint32_t i)
{
	return f && i < f->n_kv ? f->kv[i].key : NULL;
}

bool rlx_gguf_get(const struct rlx_gguf *f, const char *key, struct rlx_gguf_value *out)
{
	uint64_t i;

	if (!f || !key || !rlx_map_get(&f->by_key, key, strlen(key), &i))
		return false;
	*out = f->kv[i].value;
	return true;
}

bool rlx_gguf_next(struct rlx_gguf_value *array, struct rlx_gguf_value *out)
{
	const uint8_t *p = array ? array->data : NULL;
	uint32_t bytes;

	if (!p || array->type != RLX_GGUF_ARRAY || !array->n)
		return false;
	*out = (struct rlx_gguf_value){ .type = array->of };
	bytes = gguf_scalar_bytes(array->of);
	if (bytes) {
		scalar(out, p);
		p += bytes;
	} else {
		out->n = number(p, 8);
		out->data = p + 8;
		p += 8 + out->n;
	}
	array->data = p;
	array->n--;
	return true;
}
