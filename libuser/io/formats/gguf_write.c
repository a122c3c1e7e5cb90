// SPDX-License-Identifier: MIT
/* Writing .gguf, version 3. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/map.h"
#include "io/formats/file.h"
#include "io/formats/gguf.h"
#include "io/tokenizer/utf8.h"

enum { NAME_MAX_BYTES = 63, Q_BYTES = 2 + GGUF_Q_BLOCK, CHUNK = 64 * GGUF_Q_BLOCK };
static const char align_key[] = "general.alignment";

static bool utf8(const char *s)
{
	return s && *s && rlx_utf8_check((const uint8_t *)s, strlen(s)) == strlen(s);
}

/* ---- what is refused ---- */

static bool value_ok(const struct rlx_gguf_value *v)
{
	const char *const *s = v->data;
	uint64_t i;

	if (v->type == RLX_GGUF_STRING)
		return v->data || !v->n;
	if (v->type != RLX_GGUF_ARRAY)
		return gguf_scalar_bytes(v->type);
	if (v->of != RLX_GGUF_STRING)
		return gguf_scalar_bytes(v->of) && (v->data || !v->n);
	for (i = 0; i < v->n; i++)
		if (!s || !s[i])
			return false;
	return true;
}

/* A name for the first time? */
static enum rlx_status once(const char *path, struct rlx_map *seen, const char *name,
			    struct rlx_error *err)
{
	uint64_t at;

	if (rlx_map_get(seen, name, strlen(name), &at))
		return rlx_fail(err, RLX_EEXIST, "%s: \"%.80s\" comes twice", path, name);
	if (!rlx_map_put(seen, name, strlen(name), 0))
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory", path);
	return RLX_OK;
}

static enum rlx_status check_pairs(const char *path, const struct rlx_gguf_pair *kv, uint32_t n,
				   struct rlx_error *err)
{
	struct rlx_map seen = { 0 };
	enum rlx_status st = RLX_OK;
	uint32_t i;

	for (i = 0; i < n && !st; i++)
		if (!utf8(kv[i].key) || !strcmp(kv[i].key, align_key) || !value_ok(&kv[i].value))
			st = rlx_fail(err, RLX_EINVAL, "%s: pair %u (\"%.80s\"): no usable key, or "
				      "a malformed value", path, i, kv[i].key ? kv[i].key : "");
		else
			st = once(path, &seen, kv[i].key, err);
	rlx_map_fini(&seen);
	return st;
}

static enum rlx_status check_tensor(const char *path, const struct rlx_gguf_tensor *t,
				    struct rlx_error *err)
{
	const struct gguf_format *how = gguf_format_of(t->format);
	int64_t bytes = rlx_type_bytes(&t->type);

	if (!utf8(t->name) || strlen(t->name) > NAME_MAX_BYTES || bytes < 0 || (bytes && !t->data))
		return rlx_fail(err, RLX_EINVAL, "%s: tensor \"%.80s\": no name of up to %d bytes, "
				"a malformed type, or no data", path, t->name ? t->name : "",
				NAME_MAX_BYTES);
	if (t->type.rank > GGUF_MAX_DIMS)
		return rlx_fail(err, RLX_ESHAPE, "%s: tensor \"%.80s\" has %u dimensions; there "
				"are up to %d", path, t->name, t->type.rank, GGUF_MAX_DIMS);
	if (!how || (how->dtype != t->type.dtype &&
		     (t->type.dtype != RLX_F32 || (t->format != RLX_GGUF_AS_F16 &&
		      t->format != RLX_GGUF_AS_BF16 && t->format != RLX_GGUF_AS_Q8_0))))
		return rlx_fail(err, RLX_ENOSUP, "%s: tensor \"%.80s\": %s is not written as %s",
				path, t->name, rlx_dtype_name(t->type.dtype),
				how ? how->name : "a format that is not known");
	if (how->block > 1 && (!t->type.rank || t->type.dim[t->type.rank - 1] % how->block))
		return rlx_fail(err, RLX_ESHAPE, "%s: tensor \"%.80s\": the last dimension is no "
				"multiple of %d, the block of %s", path, t->name, how->block,
				how->name);
	return RLX_OK;
}

static enum rlx_status check(const char *path, const struct rlx_gguf_tensor *v, uint32_t n,
			     struct rlx_error *err)
{
	struct rlx_map seen = { 0 };
	enum rlx_status st = RLX_OK;
	uint32_t i;

	for (i = 0; i < n && !st; i++) {
		st = check_tensor(path, &v[i], err);
		if (!st)
			st = once(path, &seen, v[i].name, err);
	}
	rlx_map_fini(&seen);
	return st;
}

/* ---- what stands before the data ---- */

/* A file under way; the first failure stays. */
struct out {
	struct rlx_file_writer	 w;
	struct rlx_error	*err;
	enum rlx_status		 st;
	uint64_t		 at;
};

static void put(struct out *o, const void *p, uint64_t n)
{
	if (!o->st)
		o->st = rlx_file_put(&o->w, p, (size_t)n, o->err);
	o->at += n;
}

static void put_number(struct out *o, uint64_t v, uint32_t bytes)
{
	uint8_t b[8];
	uint32_t i;

	for (i = 0; i < bytes; i++)
		b[i] = (uint8_t)(v >> 8 * i);
	put(o, b, bytes);
}

static void put_text(struct out *o, const void *s, uint64_t n)
{
	put_number(o, n, 8);
	put(o, s, n);
}

static void put_value(struct out *o, const struct rlx_gguf_value *v)
{
	const char *const *s = v->data;
	uint32_t bytes = gguf_scalar_bytes(v->type);
	uint64_t word = v->u, i;
	uint32_t half;
	float f;

	put_number(o, v->type, 4);
	if (v->type == RLX_GGUF_STRING) {
		put_text(o, v->data, v->n);
	} else if (v->type == RLX_GGUF_ARRAY) {
		put_number(o, v->of, 4);
		put_number(o, v->n, 8);
		for (i = 0; v->of == RLX_GGUF_STRING && i < v->n; i++)
			put_text(o, s[i], strlen(s[i]));
		if (v->of != RLX_GGUF_STRING)	/* little-endian, as this machine is */
			put(o, v->data, v->n * gguf_scalar_bytes(v->of));
	} else if (v->type == RLX_GGUF_F32) {
		f = (float)v->f;
		memcpy(&half, &f, sizeof(half));
		put_number(o, half, bytes);
	} else {
		put_number(o, word, bytes);	/* of F64 its bits: they share the place */
	}
}

static uint64_t data_bytes(const struct rlx_gguf_tensor *t)
{
	const struct gguf_format *how = gguf_format_of(t->format);

	return (uint64_t)rlx_type_count(&t->type) / how->block * how->bytes;
}

static void put_head(struct out *o, const struct rlx_gguf_pair *kv, uint32_t n_kv,
		     const struct rlx_gguf_tensor *v, uint32_t n)
{
	uint64_t at = 0;
	uint32_t i, d;

	put(o, "GGUF", 4);
	put_number(o, 3, 4);
	put_number(o, n, 8);
	put_number(o, n_kv, 8);
	for (i = 0; i < n_kv; i++) {
		put_text(o, kv[i].key, strlen(kv[i].key));
		put_value(o, &kv[i].value);
	}
	for (i = 0; i < n; i++) {
		put_text(o, v[i].name, strlen(v[i].name));
		put_number(o, v[i].type.rank, 4);
		for (d = v[i].type.rank; d-- > 0;)
			put_number(o, (uint64_t)v[i].type.dim[d], 8);
		put_number(o, v[i].format, 4);
		at += (GGUF_ALIGN - at % GGUF_ALIGN) % GGUF_ALIGN;
		put_number(o, at, 8);
		at += data_bytes(&v[i]);
	}
}

/* ---- data ---- */

static void pad(struct out *o)
{
	static const uint8_t zeros[GGUF_ALIGN];

	put(o, zeros, (GGUF_ALIGN - o->at % GGUF_ALIGN) % GGUF_ALIGN);
}

/* One block: the scale that its largest element needs, and multiples of it. */
static bool quantize(const float *x, uint8_t *to)
{
	float most = 0, d, by;
	uint16_t scale;
	int i;

	for (i = 0; i < GGUF_Q_BLOCK; i++) {
		if (!isfinite(x[i]))
			return false;
		most = fmaxf(most, fabsf(x[i]));
	}
	d = most / 127;
	by = d != 0 ? 1 / d : 0;
	if (!isfinite(by))	/* what is so small is 0 as f16 */
		by = 0;
	scale = rlx_f32_to_f16(d);
	if ((scale & 0x7c00) == 0x7c00)
		return false;
	to[0] = (uint8_t)scale;
	to[1] = (uint8_t)(scale >> 8);
	for (i = 0; i < GGUF_Q_BLOCK; i++)
		to[2 + i] = (uint8_t)(int8_t)roundf(x[i] * by);
	return true;
}

/* @n elements to @buf in the tensor's format; false: one cannot be held. */
static bool convert(uint32_t format, const float *x, uint64_t n, uint8_t *buf)
{
	uint16_t h;
	uint64_t i;

	for (i = 0; format == RLX_GGUF_AS_Q8_0 && i < n; i += GGUF_Q_BLOCK)
		if (!quantize(x + i, buf + i / GGUF_Q_BLOCK * Q_BYTES))
			return false;
	for (i = 0; format != RLX_GGUF_AS_Q8_0 && i < n; i++) {
		h = format == RLX_GGUF_AS_F16 ? rlx_f32_to_f16(x[i]) : rlx_f32_to_bf16(x[i]);
		if (format == RLX_GGUF_AS_F16 && isfinite(x[i]) && (h & 0x7c00) == 0x7c00)
			return false;
		memcpy(buf + 2 * i, &h, sizeof(h));
	}
	return true;
}

static void put_data(struct out *o, const struct rlx_gguf_tensor *t)
{
	uint64_t n = (uint64_t)rlx_type_count(&t->type), i, part, bytes;
	const struct gguf_format *how = gguf_format_of(t->format);
	uint8_t buf[CHUNK * sizeof(uint16_t)];
	float x[CHUNK];

	pad(o);
	if (how->dtype == t->type.dtype) {
		put(o, t->data, (uint64_t)rlx_type_bytes(&t->type));
		return;
	}
	for (i = 0; i < n && !o->st; i += part) {
		part = n - i < CHUNK ? n - i : CHUNK;
		bytes = part / how->block * how->bytes;
		memcpy(x, (const char *)t->data + i * sizeof(*x), (size_t)part * sizeof(*x));
		if (convert(t->format, x, part, buf))
			put(o, buf, bytes);
		else
			o->st = rlx_fail(o->err, RLX_ERANGE, "%s: tensor \"%.80s\" has elements "
					 "near %llu that %s cannot hold", o->w.path, t->name,
					 (unsigned long long)i, how->name);
	}
}

enum rlx_status rlx_gguf_write(const char *path, const struct rlx_gguf_pair *kv, uint32_t n_kv,
			       const struct rlx_gguf_tensor *v, uint32_t n, struct rlx_error *err)
{
	struct out o = { .err = err };
	uint32_t i;

	if (!path || (n_kv && !kv) || (n && !v))
		return rlx_fail(err, RLX_EINVAL, "gguf: no path, pairs or tensors");
	o.st = check_pairs(path, kv, n_kv, err);
	if (!o.st)
		o.st = check(path, v, n, err);
	if (o.st)
		return o.st;
	o.st = rlx_file_write_begin(&o.w, path, err);
	if (o.st)
		return o.st;
	put_head(&o, kv, n_kv, v, n);
	for (i = 0; i < n && !o.st; i++)
		put_data(&o, &v[i]);
	pad(&o);
	return rlx_file_write_end(&o.w, o.st, err);
}
