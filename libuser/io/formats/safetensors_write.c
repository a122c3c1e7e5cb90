// SPDX-License-Identifier: MIT
/* Writing .safetensors files. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/map.h"
#include "io/formats/file.h"
#include "io/tokenizer/utf8.h"
#include "rlx/safetensors.h"

enum { HEADER_MAX = 100 * 1000 * 1000 };

/* How the format calls a dtype; NULL if it does not. */
static const char *dtype_name(enum rlx_dtype dt)
{
	static const char *const names[RLX_DTYPE_COUNT] = {
		[RLX_F64] = "F64", [RLX_F32] = "F32", [RLX_F16] = "F16",
		[RLX_BF16] = "BF16", [RLX_F8E4M3] = "F8_E4M3",
		[RLX_F8E5M2] = "F8_E5M2", [RLX_I64] = "I64", [RLX_I32] = "I32",
		[RLX_I16] = "I16", [RLX_I8] = "I8", [RLX_U64] = "U64",
		[RLX_U32] = "U32", [RLX_U16] = "U16", [RLX_U8] = "U8",
		[RLX_BOOL] = "BOOL", [RLX_C64] = "C64",
	};

	return dt > RLX_NODTYPE && dt < RLX_DTYPE_COUNT ? names[dt] : NULL;
}

static bool utf8(const char *s)
{
	return s && rlx_utf8_check((const uint8_t *)s, strlen(s)) == strlen(s);
}

static enum rlx_status check(const char *path, const struct rlx_safetensor *v,
			     uint32_t n, bool data, struct rlx_error *err)
{
	struct rlx_map names = { 0 };
	enum rlx_status st = RLX_OK;
	uint64_t seen;
	int64_t bytes;
	uint32_t i;

	for (i = 0; i < n && !st; i++) {
		bytes = rlx_type_bytes(&v[i].type);
		if (!utf8(v[i].name) || !strcmp(v[i].name, "__metadata__"))
			st = rlx_fail(err, RLX_EINVAL,
				      "%s: tensor %u: no name, or not a usable one",
				      path, i);
		else if (bytes < 0 || !dtype_name(v[i].type.dtype) ||
			 (data && bytes && !v[i].data))
			st = rlx_fail(err, RLX_EINVAL,
				      "%s: tensor \"%.80s\": malformed type or no data",
				      path, v[i].name);
		else if (rlx_map_get(&names, v[i].name, strlen(v[i].name), &seen))
			st = rlx_fail(err, RLX_EEXIST,
				      "%s: tensor \"%.80s\" comes twice", path,
				      v[i].name);
		else if (!rlx_map_put(&names, v[i].name, strlen(v[i].name), i))
			st = rlx_fail(err, RLX_ENOMEM, "%s: no memory", path);
	}
	rlx_map_fini(&names);
	return st;
}

static enum rlx_status check_meta(const char *path, const char *const *meta,
				  struct rlx_error *err)
{
	struct rlx_map keys = { 0 };
	enum rlx_status st = RLX_OK;
	uint64_t seen;

	for (; meta && *meta && !st; meta += 2) {
		if (!utf8(meta[0]) || !utf8(meta[1]))
			st = rlx_fail(err, RLX_EINVAL,
				      "%s: metadata that is not UTF-8, or a key without value",
				      path);
		else if (rlx_map_get(&keys, meta[0], strlen(meta[0]), &seen))
			st = rlx_fail(err, RLX_EEXIST,
				      "%s: metadata \"%.80s\" comes twice", path,
				      meta[0]);
		else if (!rlx_map_put(&keys, meta[0], strlen(meta[0]), 0))
			st = rlx_fail(err, RLX_ENOMEM, "%s: no memory", path);
	}
	rlx_map_fini(&keys);
	return st;
}

/* Indices in the order the data is written: larger elements first, stably. */
static void order(const struct rlx_safetensor *v, uint32_t n, uint32_t *out)
{
	uint32_t i, k = 0;
	size_t size;

	for (size = 8; size; size /= 2)
		for (i = 0; i < n; i++)
			if (rlx_dtype_size(v[i].type.dtype) == size)
				out[k++] = i;
}

static void put_header(FILE *f, const struct rlx_safetensor *v, uint32_t n,
		       const uint32_t *at, const char *const *meta)
{
	struct rlx_json_writer w;
	int64_t off = 0, bytes;
	uint32_t i, d;

	rlx_json_writer_begin(&w, f, false);
	rlx_json_put_begin(&w, '{');
	if (meta && *meta) {
		rlx_json_put_key(&w, "__metadata__");
		rlx_json_put_begin(&w, '{');
		for (; meta[0] && meta[1]; meta += 2) {
			rlx_json_put_key(&w, meta[0]);
			rlx_json_put_str(&w, meta[1]);
		}
		rlx_json_put_end(&w);
	}
	for (i = 0; i < n; i++) {
		const struct rlx_safetensor *t = &v[at[i]];

		bytes = rlx_type_bytes(&t->type);
		rlx_json_put_key(&w, t->name);
		rlx_json_put_begin(&w, '{');
		rlx_json_put_key(&w, "dtype");
		rlx_json_put_str(&w, dtype_name(t->type.dtype));
		rlx_json_put_key(&w, "shape");
		rlx_json_put_begin(&w, '[');
		for (d = 0; d < t->type.rank; d++)
			rlx_json_put_int(&w, t->type.dim[d]);
		rlx_json_put_end(&w);
		rlx_json_put_key(&w, "data_offsets");
		rlx_json_put_begin(&w, '[');
		rlx_json_put_int(&w, off);
		rlx_json_put_int(&w, off + bytes);
		rlx_json_put_end(&w);
		rlx_json_put_end(&w);
		off += bytes;
	}
	rlx_json_put_end(&w);
	rlx_json_writer_end(&w);	/* errors of the stream show at its end */
}

/* The header, its length first, padded so that data is aligned to 64. */
static enum rlx_status write_header(struct rlx_file_writer *w,
				    const struct rlx_safetensor *v, uint32_t n,
				    const uint32_t *at, const char *const *meta,
				    struct rlx_error *err)
{
	static const char blank[64] = "                                "
				      "                               ";
	uint8_t len[8] = { 0 };
	enum rlx_status st;
	long end, pad, size;
	int i;

	st = rlx_file_put(w, len, sizeof(len), err);
	if (st)
		return st;
	put_header(w->f, v, n, at, meta);
	end = ftell(w->f);
	if (end < 8)
		return rlx_fail(err, RLX_EIO, "%s: cannot tell the position",
				w->path);
	pad = (64 - end % 64) % 64;
	size = end + pad - 8;
	if (size > HEADER_MAX)
		return rlx_fail(err, RLX_ERANGE,
				"%s: header of %ld bytes, at most %d", w->path,
				size, HEADER_MAX);
	for (i = 0; i < 8; i++)
		len[i] = (uint8_t)((uint64_t)size >> 8 * i);
	st = rlx_file_put(w, blank, (size_t)pad, err);
	if (!st && (fseek(w->f, 0, SEEK_SET) ||
		    fwrite(len, 1, 8, w->f) != 8 || fseek(w->f, 0, SEEK_END)))
		st = rlx_fail(err, RLX_EIO, "%s: cannot write the length",
			      w->path);
	return st;
}

enum rlx_status rlx_safetensors_write(const char *path,
				      const struct rlx_safetensor *v, uint32_t n,
				      const char *const *meta,
				      struct rlx_error *err)
{
	struct rlx_file_writer w;
	enum rlx_status st;
	uint32_t *at, i;

	if (!path || (n && !v))
		return rlx_fail(err, RLX_EINVAL, "safetensors: no path or tensors");
	st = check(path, v, n, true, err);
	if (!st)
		st = check_meta(path, meta, err);
	if (st)
		return st;
	at = rlx_calloc(n ? n : 1, sizeof(*at));
	if (!at)
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory", path);
	order(v, n, at);
	st = rlx_file_write_begin(&w, path, err);
	if (st)
		goto out_free_order;
	st = write_header(&w, v, n, at, meta, err);
	for (i = 0; i < n && !st; i++)
		st = rlx_file_put(&w, v[at[i]].data,
				  (size_t)rlx_type_bytes(&v[at[i]].type), err);
	st = rlx_file_write_end(&w, st, err);
out_free_order:
	rlx_free(at);
	return st;
}

/* The header as text, without its length. */
static char *header_text(const struct rlx_safetensor *v, uint32_t n, const uint32_t *at,
			 const char *const *meta, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	if (!f)
		return NULL;
	put_header(f, v, n, at, meta);
	if (!fclose(f))
		return text;
	free(text);	/* open_memstream's */
	return NULL;
}

enum rlx_status rlx_safetensors_header(const struct rlx_safetensor *v, uint32_t n,
				       struct rlx_safetensors_head *h, struct rlx_error *err)
{
	uint64_t at, size;
	enum rlx_status st;
	uint32_t *order_of, i;
	size_t len = 0;
	char *text;

	if (!h || (n && !v) || h->align < 8 || h->align & (h->align - 1))
		return rlx_fail(err, RLX_EINVAL,
				"safetensors: no tensors, or align is no power of two");
	st = check("safetensors", v, n, false, err);
	if (!st)
		st = check_meta("safetensors", h->meta, err);
	if (st)
		return st;
	order_of = rlx_calloc(n ? n : 1, sizeof(*order_of));
	if (order_of)
		order(v, n, order_of);
	text = order_of ? header_text(v, n, order_of, h->meta, &len) : NULL;
	at = (8 + len + h->align - 1) & ~(h->align - 1);
	h->bytes = at;
	for (i = 0; i < n && text && h->offset; i++) {
		h->offset[order_of[i]] = at;
		at += (uint64_t)rlx_type_bytes(&v[order_of[i]].type);
	}
	rlx_free(order_of);
	size = h->bytes - 8;
	if (!text)
		st = rlx_fail(err, RLX_ENOMEM, "safetensors: no memory for a header");
	else if (size > HEADER_MAX || (h->buf && h->room < h->bytes))
		st = rlx_fail(err, RLX_ERANGE,
			      "safetensors: a header of %llu bytes; at most %d, and "
			      "there is room for %zu",
			      (unsigned long long)size, HEADER_MAX, h->room);
	if (!st && h->buf) {
		memcpy(h->buf, &size, 8);
		memcpy((char *)h->buf + 8, text, len);
		memset((char *)h->buf + 8 + len, ' ', h->bytes - 8 - len);
	}
	free(text);	/* open_memstream's */
	return st;
}
