// SPDX-License-Identifier: MIT
/*
 * .npy files: a magic, a version, and the length of a header that is a Python
 * dict of descr, fortran_order and shape; then the elements.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/shape.h"
#include "base/strided.h"
#include "io/formats/file.h"
#include "rlx/npy.h"

enum { HEADER_MAX = 1 << 20, ALIGN = 64 };

struct rlx_npy {
	struct rlx_file	 file;
	struct rlx_type	 type;
	const void	*data;
	void		*own;	/* converted elements, or NULL */
};

struct parser {
	const char		*name;
	const uint8_t		*begin, *p, *end;	/* begin: of the file */
	struct rlx_error	*err;
	struct rlx_npy		*f;
	bool			 fortran, swap;
	bool			 have_descr, have_order, have_shape;
};

/* What numpy calls each dtype, without the byte order. */
static const struct {
	const char	*name;
	enum rlx_dtype	 dtype;
} descrs[] = {
	{ "f8", RLX_F64 }, { "f4", RLX_F32 }, { "f2", RLX_F16 },
	{ "i8", RLX_I64 }, { "i4", RLX_I32 }, { "i2", RLX_I16 },
	{ "i1", RLX_I8 }, { "u8", RLX_U64 }, { "u4", RLX_U32 },
	{ "u2", RLX_U16 }, { "u1", RLX_U8 }, { "b1", RLX_BOOL },
	{ "c8", RLX_C64 },
};

static enum rlx_status bad(struct parser *q, enum rlx_status st,
			   const char *what)
{
	return rlx_fail(q->err, st, "%s: byte %zu: %s", q->name,
			(size_t)(q->p - q->begin), what);
}

static void skip_space(struct parser *q)
{
	while (q->p < q->end && (*q->p == ' ' || *q->p == '\n' || *q->p == '\t'))
		q->p++;
}

/* Take @c if it is next, spaces around it too. */
static bool take(struct parser *q, char c)
{
	skip_space(q);
	if (q->p == q->end || *q->p != (uint8_t)c)
		return false;
	q->p++;
	skip_space(q);
	return true;
}

/* A string without escapes; *@out is NULL if there is none. */
static void take_string(struct parser *q, const uint8_t **out, size_t *out_n)
{
	const uint8_t *close;
	uint8_t quote;

	*out = NULL;
	if (q->p == q->end || (*q->p != '\'' && *q->p != '"'))
		return;
	quote = *q->p;
	close = memchr(q->p + 1, quote, (size_t)(q->end - q->p - 1));
	if (!close || memchr(q->p, '\\', (size_t)(close - q->p)))
		return;
	*out = q->p + 1;
	*out_n = (size_t)(close - *out);
	q->p = close + 1;
}

static bool is(const uint8_t *s, size_t n, const char *word)
{
	return strlen(word) == n && !memcmp(s, word, n);
}

static enum rlx_status parse_descr(struct parser *q)
{
	const uint8_t *at = q->p, *s;
	size_t n, i;

	take_string(q, &s, &n);
	if (!s)		/* a list: fields of a structure */
		return bad(q, RLX_ENOSUP, "descr is not a plain dtype");
	for (i = 0; i < sizeof(descrs) / sizeof(*descrs) && n == 3; i++)
		if (!memcmp(s + 1, descrs[i].name, 2))
			break;
	if (n != 3 || i == sizeof(descrs) / sizeof(*descrs) ||
	    !strchr("<>=|", s[0]) || !s[0]) {
		q->p = at;
		return rlx_fail(q->err, RLX_ENOSUP,
				"%s: byte %zu: dtype '%.*s' is not supported",
				q->name, (size_t)(at - q->begin),
				n > 40 ? 40 : (int)n, s);
	}
	q->f->type.dtype = descrs[i].dtype;
	q->swap = s[0] == '>' && rlx_dtype_size(descrs[i].dtype) > 1;
	q->have_descr = true;
	return RLX_OK;
}

static enum rlx_status parse_order(struct parser *q)
{
	size_t left = (size_t)(q->end - q->p);

	if (left >= 4 && !memcmp(q->p, "True", 4)) {
		q->fortran = true;
		q->p += 4;
	} else if (left >= 5 && !memcmp(q->p, "False", 5)) {
		q->p += 5;
	} else {
		return bad(q, RLX_EPARSE, "fortran_order is neither True nor False");
	}
	q->have_order = true;
	return RLX_OK;
}

static enum rlx_status parse_shape(struct parser *q)
{
	struct rlx_type *t = &q->f->type;
	bool comma = true;

	if (!take(q, '('))
		return bad(q, RLX_EPARSE, "shape is no tuple");
	while (!take(q, ')')) {
		const uint8_t *digits = q->p;
		int64_t v = 0;

		if (!comma)
			return bad(q, RLX_EPARSE, "',' or ')' expected");
		for (; q->p < q->end && *q->p >= '0' && *q->p <= '9'; q->p++)
			if (__builtin_mul_overflow(v, 10, &v) ||
			    __builtin_add_overflow(v, *q->p - '0', &v))
				return bad(q, RLX_ERANGE, "dimension too large");
		if (q->p == digits)
			return bad(q, RLX_EPARSE, "dimension expected");
		if (q->p < q->end && *q->p == 'L')	/* from Python 2 */
			q->p++;
		if (t->rank == RLX_MAX_RANK)
			return bad(q, RLX_ENOSUP, "more than 8 dimensions");
		t->dim[t->rank++] = v;
		comma = take(q, ',');
	}
	/* "(3)" is a number in parentheses, not a tuple */
	if (t->rank == 1 && !comma)
		return bad(q, RLX_EPARSE, "shape is no tuple");
	q->have_shape = true;
	return RLX_OK;
}

static enum rlx_status parse_dict(struct parser *q)
{
	enum rlx_status st = RLX_OK;
	const uint8_t *key;
	bool comma = true;
	size_t n;

	if (!take(q, '{'))
		return bad(q, RLX_EPARSE, "'{' expected");
	while (!st && !take(q, '}')) {
		if (!comma)
			return bad(q, RLX_EPARSE, "',' or '}' expected");
		take_string(q, &key, &n);
		if (!key || !take(q, ':'))
			return bad(q, RLX_EPARSE, "key and ':' expected");
		if (is(key, n, "descr") && !q->have_descr)
			st = parse_descr(q);
		else if (is(key, n, "fortran_order") && !q->have_order)
			st = parse_order(q);
		else if (is(key, n, "shape") && !q->have_shape)
			st = parse_shape(q);
		else
			return bad(q, RLX_EPARSE, "unknown or repeated key");
		comma = !st && take(q, ',');
	}
	if (st)
		return st;
	if (q->p < q->end)
		return bad(q, RLX_EPARSE, "text behind the header");
	if (!q->have_descr || !q->have_order || !q->have_shape)
		return bad(q, RLX_EPARSE, "header lacks descr, fortran_order or shape");
	return RLX_OK;
}

/* Magic, version and length; leaves q->end at the end of the header. */
static enum rlx_status parse_preamble(struct parser *q)
{
	size_t n = (size_t)(q->end - q->p), len, head;

	if (n < 10 || memcmp(q->p, "\x93NUMPY", 6))
		return bad(q, RLX_EPARSE, "not a .npy file");
	if (q->p[6] < 1 || q->p[6] > 3 || q->p[7])
		return rlx_fail(q->err, RLX_ENOSUP,
				"%s: byte 6: format version %u.%u is not supported",
				q->name, q->p[6], q->p[7]);
	head = q->p[6] == 1 ? 10 : 12;
	if (n < head)
		return bad(q, RLX_EPARSE, "file ends in its preamble");
	len = q->p[8] | (size_t)q->p[9] << 8;
	if (head == 12)
		len |= (size_t)q->p[10] << 16 | (size_t)q->p[11] << 24;
	if (len > HEADER_MAX)
		return bad(q, RLX_ERANGE, "header of more than 1 MiB");
	if (len > n - head)
		return bad(q, RLX_EPARSE, "file ends in its header");
	q->p += head;
	q->end = q->p + len;
	return RLX_OK;
}

static void swap_bytes(uint8_t *p, size_t n, size_t size)
{
	size_t i, k;

	for (i = 0; i < n; i += size)
		for (k = 0; k < size / 2; k++) {
			uint8_t t = p[i + k];

			p[i + k] = p[i + size - 1 - k];
			p[i + size - 1 - k] = t;
		}
}

/* Row-major from column-major. */
static void transpose(uint8_t *to, const uint8_t *from, const struct rlx_type *t)
{
	int64_t rows[RLX_MAX_RANK], columns[RLX_MAX_RANK];
	uint32_t d;

	shape_dense(t, rows);
	for (d = 0; d < t->rank; d++)
		columns[d] = d ? columns[d - 1] * t->dim[d - 1] : 1;
	rlx_strided_copy(t, to, rows, from, columns);
}

static enum rlx_status convert(struct parser *q, const uint8_t *data,
			       size_t bytes)
{
	size_t size = rlx_dtype_size(q->f->type.dtype), i;
	/* a complex number is two of its parts */
	size_t part = q->f->type.dtype == RLX_C64 ? size / 2 : size;
	bool transposed = q->fortran && q->f->type.rank > 1 && bytes;

	for (i = 0; i < bytes && q->f->type.dtype == RLX_BOOL; i++)
		if (data[i] > 1)
			return rlx_fail(q->err, RLX_EPARSE,
					"%s: byte %zu: bool that is neither 0 nor 1",
					q->name, (size_t)(data - q->begin) + i);
	q->f->data = data;
	if (!bytes || (!transposed && !q->swap && !((uintptr_t)data % part)))
		return RLX_OK;
	q->f->own = rlx_aligned(ALIGN, bytes);
	if (!q->f->own)
		return rlx_fail(q->err, RLX_ENOMEM, "%s: no memory for %zu bytes",
				q->name, bytes);
	if (transposed)
		transpose(q->f->own, data, &q->f->type);
	else
		memcpy(q->f->own, data, bytes);
	if (q->swap)
		swap_bytes(q->f->own, bytes, part);
	q->f->data = q->f->own;
	return RLX_OK;
}

/* Up to the elements, where q->end then is. */
static enum rlx_status parse_header(struct parser *q)
{
	enum rlx_status st = parse_preamble(q);

	if (!st)
		st = parse_dict(q);
	if (!st && rlx_type_bytes(&q->f->type) < 0)
		st = bad(q, RLX_ERANGE, "shape larger than memory can be");
	return st;
}

static enum rlx_status parse(struct rlx_npy *f, const char *name,
			     struct rlx_error *err)
{
	struct parser q = {
		.name = name, .begin = f->file.p, .p = f->file.p,
		.end = f->file.p + f->file.n, .err = err, .f = f,
	};
	const uint8_t *end = q.end;
	enum rlx_status st;
	int64_t bytes;

	st = parse_header(&q);
	if (st)
		return st;
	bytes = rlx_type_bytes(&f->type);
	if (end - q.end != bytes)
		return rlx_fail(err, RLX_EPARSE,
				"%s: byte %zu: %zu bytes of elements, the shape needs %lld",
				name, (size_t)(q.end - q.begin),
				(size_t)(end - q.end), (long long)bytes);
	return convert(&q, q.end, (size_t)bytes);
}

static enum rlx_status open_file(struct rlx_file *file, const char *name,
				 struct rlx_npy **out_f, struct rlx_error *err)
{
	struct rlx_npy *f = rlx_calloc(1, sizeof(*f));
	enum rlx_status st;

	if (!f) {
		rlx_file_unmap(file);
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory", name);
	}
	f->file = *file;
	st = parse(f, name, err);
	if (st)
		rlx_npy_close(f);
	else
		*out_f = f;
	return st;
}

enum rlx_status rlx_npy_open(const char *path, struct rlx_npy **out_f,
			     struct rlx_error *err)
{
	struct rlx_file file;
	enum rlx_status st;

	if (!out_f)
		return rlx_fail(err, RLX_EINVAL, "npy: out_f is NULL");
	*out_f = NULL;
	st = rlx_file_map(&file, path, err);
	return st ? st : open_file(&file, path, out_f, err);
}

enum rlx_status rlx_npy_open_mem(const void *p, size_t len,
				 struct rlx_npy **out_f, struct rlx_error *err)
{
	struct rlx_file file = { .p = p ? p : (const void *)"", .n = len };

	if (!out_f)
		return rlx_fail(err, RLX_EINVAL, "npy: out_f is NULL");
	*out_f = NULL;
	if (!p && len)
		return rlx_fail(err, RLX_EINVAL, "npy: no memory given");
	return open_file(&file, "npy in memory", out_f, err);
}

enum rlx_status rlx_npy_header(const void *p, size_t len, const char *name,
			       struct rlx_npy_header *out, struct rlx_error *err)
{
	struct rlx_npy f = { .file = { .p = p, .n = len } };
	struct parser q = {
		.name = name, .begin = p, .p = p, .end = (const uint8_t *)p + len, .err = err,
		.f = &f,
	};
	enum rlx_status st = parse_header(&q);

	if (!st)
		*out = (struct rlx_npy_header){
			.type = f.type, .offset = (uint64_t)(q.end - q.begin),
			.fortran = q.fortran && f.type.rank > 1, .swapped = q.swap,
		};
	return st;
}

void rlx_npy_close(struct rlx_npy *f)
{
	if (!f)
		return;
	rlx_file_unmap(&f->file);
	rlx_free(f->own);
	rlx_free(f);
}

const struct rlx_type *rlx_npy_type(const struct rlx_npy *f)
{
	return &f->type;
}

const void *rlx_npy_data(const struct rlx_npy *f)
{
	return f ? f->data : NULL;
}

/* The whole header into @buf; returns its length, a multiple of 64. */
static size_t header(char *buf, size_t size, const struct rlx_type *t,
		     const char *descr)
{
	size_t n = 10, pad;
	uint32_t d;

	memcpy(buf, "\x93NUMPY\x01\x00", 8);
	n += (size_t)snprintf(buf + n, size - n,
			      "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
			      rlx_dtype_size(t->dtype) > 1 ? '<' : '|', descr);
	for (d = 0; d < t->rank; d++)
		n += (size_t)snprintf(buf + n, size - n, "%lld%s",
				      (long long)t->dim[d],
				      t->rank == 1 ? "," :
				      d + 1 < t->rank ? ", " : "");
	n += (size_t)snprintf(buf + n, size - n, "), }");
	pad = ALIGN - (n + 1) % ALIGN;
	memset(buf + n, ' ', pad);
	n += pad;
	buf[n++] = '\n';
	buf[8] = (char)((n - 10) & 255);
	buf[9] = (char)((n - 10) >> 8);
	return n;
}

enum rlx_status rlx_npy_write(const char *path, const struct rlx_type *type,
			      const void *data, struct rlx_error *err)
{
	char buf[512];		/* eight dimensions of 19 digits, and slack */
	struct rlx_file_writer w;
	enum rlx_status st;
	int64_t bytes;
	size_t i, n;

	bytes = type ? rlx_type_bytes(type) : -1;
	if (bytes < 0 || (bytes && !data))
		return rlx_fail(err, RLX_EINVAL, "%s: malformed type or no data",
				path ? path : "npy");
	for (i = 0; i < sizeof(descrs) / sizeof(*descrs); i++)
		if (descrs[i].dtype == type->dtype)
			break;
	if (i == sizeof(descrs) / sizeof(*descrs))
		return rlx_fail(err, RLX_ENOSUP,
				"%s: numpy has no %s: convert to f32 first",
				path ? path : "npy", rlx_dtype_name(type->dtype));
	n = header(buf, sizeof(buf), type, descrs[i].name);
	st = rlx_file_write_begin(&w, path, err);
	if (st)
		return st;
	st = rlx_file_put(&w, buf, n, err);
	if (!st)
		st = rlx_file_put(&w, data, (size_t)bytes, err);
	return rlx_file_write_end(&w, st, err);
}
