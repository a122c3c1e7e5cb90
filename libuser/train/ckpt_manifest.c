// SPDX-License-Identifier: MIT
/*
 * manifest.json: what a checkpoint's files are, and crcs of them. It is written last, and ends
 * with a crc of its own text, eight digits that count as zeros in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json_write.h"
#include "train/ckpt.h"
#include "train/crc32c.h"
#include "train/fileops.h"

static const char crc_key[] = "\"crc32c\": \"";
static const char zero_digits[] = "00000000";

static void put_file(struct rlx_json_writer *w, const char *name, const struct ckpt_image *m)
{
	unsigned int i;

	rlx_json_put_key(w, name);
	rlx_json_put_begin(w, '{');
	rlx_json_put_key(w, "bytes");
	rlx_json_put_int(w, (int64_t)m->bytes);
	rlx_json_put_key(w, "whole");
	rlx_json_put_int(w, m->crc);
	rlx_json_put_key(w, "blocks");
	rlx_json_put_begin(w, '[');
	for (i = 0; i < m->blocks; i++)
		rlx_json_put_int(w, m->block_crc[i]);
	rlx_json_put_end(w);
	rlx_json_put_end(w);
}

static void put_blob(struct rlx_json_writer *w, const struct ckpt_blob *b)
{
	static const char digits[] = "0123456789abcdef";
	char *hex = rlx_malloc(2 * b->bytes + 1);
	size_t i;

	rlx_json_put_key(w, b->key);
	for (i = 0; hex && i < b->bytes; i++) {
		hex[2 * i] = digits[b->data[i] >> 4];
		hex[2 * i + 1] = digits[b->data[i] & 15];
	}
	if (hex)
		rlx_json_put_strn(w, hex, 2 * b->bytes);
	else
		w->bad = true;
	rlx_free(hex);
}

static void put_all(struct rlx_json_writer *w, const struct ckpt_slot *s)
{
	char hash[20], name[40];
	unsigned int i;

	rlx_json_put_begin(w, '{');
	rlx_json_put_key(w, "version");
	rlx_json_put_int(w, 1);
	rlx_json_put_key(w, "step");
	rlx_json_put_int(w, (int64_t)s->step);
	rlx_json_put_key(w, "library");
	rlx_json_put_str(w, RLX_VERSION);
	rlx_json_put_key(w, "graph");
	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)s->graph_hash);
	rlx_json_put_str(w, hash);
	if (s->has_metric) {
		rlx_json_put_key(w, "metric");
		rlx_json_put_double(w, s->metric);
	}
	rlx_json_put_key(w, "files");
	rlx_json_put_begin(w, '{');
	for (i = 0; i < CKPT_FILES; i++)
		put_file(w, ckpt_file_name(name, i, 0), &s->image[i]);
	for (i = 0; i < s->n_all; i++)
		put_file(w, ckpt_file_name(name, CKPT_FILES + i, s->n_all), &s->all[i]);
	rlx_json_put_end(w);
	if (s->n_all) {
		rlx_json_put_key(w, "ranks");
		rlx_json_put_int(w, s->n_all);
	}
	rlx_json_put_key(w, "blobs");
	rlx_json_put_begin(w, '{');
	for (i = 0; i < s->n_blob; i++)
		put_blob(w, &s->blob[i]);
	rlx_json_put_end(w);
	rlx_json_put_key(w, "crc32c");
	rlx_json_put_str(w, zero_digits);
	rlx_json_put_end(w);
}

/* The eight digits of the text's own crc, within @len; NULL if they are not there. */
static char *crc_digits(char *text, size_t len)
{
	size_t at = len;

	while (at-- > sizeof(crc_key) - 1)
		if (!memcmp(text + at - (sizeof(crc_key) - 1), crc_key, sizeof(crc_key) - 1))
			return len - at >= 9 ? text + at : NULL;
	return NULL;
}

char *ckpt_manifest_text(const struct ckpt_slot *s, size_t *len)
{
	struct rlx_json_writer w;
	char *text = NULL, digits[9], *at;
	FILE *f = open_memstream(&text, len);
	bool ok;

	if (!f)
		return NULL;
	rlx_json_writer_begin(&w, f, true);
	put_all(&w, s);
	ok = rlx_json_writer_end(&w);
	ok = !fclose(f) && ok;
	at = ok ? crc_digits(text, *len) : NULL;
	if (!at) {
		free(text);	/* open_memstream's */
		return NULL;
	}
	snprintf(digits, sizeof(digits), "%08x", crc32c(0, text, *len));
	memcpy(at, digits, 8);
	return text;
}

static bool get_u64(const struct rlx_json *j, uint32_t obj, const char *key, uint64_t *out)
{
	uint32_t i = rlx_json_get(j, obj, key);
	int64_t v;

	if (!i || !rlx_json_int(j, i, &v) || v < 0)
		return false;
	*out = (uint64_t)v;
	return true;
}

static bool get_file(struct ckpt_manifest *m, uint32_t files, unsigned int f)
{
	char name[40];
	uint32_t i = rlx_json_get(&m->json, files, ckpt_file_name(name, f, m->ranks));
	uint64_t crc;

	m->blocks[f] = i ? rlx_json_get(&m->json, i, "blocks") : 0;
	if (!m->blocks[f] || rlx_json_kind(&m->json, m->blocks[f]) != RLX_JSON_ARR ||
	    !get_u64(&m->json, i, "bytes", &m->bytes[f]) ||
	    !get_u64(&m->json, i, "whole", &crc) || crc > UINT32_MAX ||
	    m->bytes[f] > (uint64_t)INT64_MAX / 2)
		return false;
	m->crc[f] = (uint32_t)crc;
	return m->json.node[m->blocks[f]].len == (m->bytes[f] + CKPT_BLOCK - 1) / CKPT_BLOCK;
}

static bool get_all(struct ckpt_manifest *m)
{
	uint32_t files = rlx_json_get(&m->json, 0, "files"), i;
	uint64_t version, ranks = 0;

	m->blobs = rlx_json_get(&m->json, 0, "blobs");
	i = rlx_json_get(&m->json, 0, "graph");
	if (!files || !m->blobs || !i || rlx_json_kind(&m->json, i) != RLX_JSON_STR ||
	    !get_u64(&m->json, 0, "version", &version) || version != 1 ||
	    !get_u64(&m->json, 0, "step", &m->step))
		return false;
	m->graph_hash = strtoull(rlx_json_text(&m->json, i), NULL, 16);
	i = rlx_json_get(&m->json, 0, "metric");
	m->has_metric = i && rlx_json_double(&m->json, i, &m->metric);
	if (rlx_json_get(&m->json, 0, "ranks") && (!get_u64(&m->json, 0, "ranks", &ranks) ||
						   ranks < 2 || ranks > CKPT_PARTS_MAX))
		return false;
	m->ranks = (unsigned int)ranks;
	for (i = 0; i < CKPT_FILES + m->ranks; i++)
		if (!get_file(m, files, i))
			return false;
	return true;
}

/* False: they are no eight digits. The text ends where it does: no strtoul(), which reads on. */
static bool crc_of(const char *digits, uint32_t *out)
{
	static const char known[] = "0123456789abcdef";
	const char *d;
	int i;

	*out = 0;
	for (i = 0; i < 8; i++) {
		d = memchr(known, digits[i], 16);
		if (!d)
			return false;
		*out = *out << 4 | (uint32_t)(d - known);
	}
	return digits[8] == '"';
}

enum rlx_status ckpt_manifest_parse(struct ckpt_manifest *m, char *text, size_t len,
				    const char *path, struct rlx_error *err)
{
	char *digits = crc_digits(text, len);
	enum rlx_status st;
	uint32_t crc;

	*m = (struct ckpt_manifest){ 0 };
	if (!digits || !crc_of(digits, &crc))
		return rlx_fail(err, RLX_EPARSE, "%s: byte %zu: it does not end with its crc", path,
				len);
	memcpy(digits, zero_digits, 8);
	if (crc32c(0, text, len) != crc)
		return rlx_fail(err, RLX_EPARSE,
				"%s: byte %zu: its crc does not fit: it is damaged", path,
				(size_t)(digits - text));
	st = rlx_json_parse(&m->json, text, len, NULL, path, err);
	if (!st && !get_all(m))
		st = rlx_fail(err, RLX_EPARSE, "%s: no manifest of version 1", path);
	if (st)
		rlx_json_fini(&m->json);
	return st;
}

enum rlx_status ckpt_manifest_read(const struct rlx_ckpt *ck, uint64_t step,
				   struct ckpt_manifest *m, struct rlx_error *err)
{
	char path[PATH_MAX], *text = NULL;
	enum rlx_status st;
	struct stat id;
	int64_t e, fd;

	ckpt_path(path, ck, "step-", step, "manifest.json");
	fd = e = file_open(path, O_RDONLY, 0);
	if (fd >= 0)
		e = file_fstat((int)fd, &id);
	if (e >= 0 && (!S_ISREG(id.st_mode) || id.st_size > CKPT_MANIFEST_MAX))
		e = -EFBIG;
	if (e >= 0) {
		text = rlx_malloc((size_t)id.st_size + 1);
		e = text ? file_read((int)fd, text, (uint64_t)id.st_size, 0) : -ENOMEM;
	}
	if (fd >= 0)
		close((int)fd);
	if (e < 0)
		st = rlx_fail(err, file_status(e), "%s: %s", path, strerror((int)-e));
	else
		st = ckpt_manifest_parse(m, text, (size_t)e, path, err);
	rlx_free(text);
	m->json.name = NULL;
	return st;
}

static unsigned int nibble(char c)
{
	return (unsigned int)(c <= '9' ? c - '0' : c - 'a' + 10) & 15;
}

enum rlx_status ckpt_manifest_blob(const struct ckpt_manifest *m, const struct rlx_ckpt_blob *b,
				   bool copy, struct rlx_error *err)
{
	uint32_t i = rlx_json_get(&m->json, m->blobs, b->key);
	const char *hex;
	size_t k;

	if (!i || rlx_json_kind(&m->json, i) != RLX_JSON_STR)
		return rlx_fail(err, RLX_ESHAPE,
				"checkpoint of step %llu: blob \"%s\": have none, want "
				"%zu bytes",
				(unsigned long long)m->step, b->key, b->bytes);
	if (rlx_json_len(&m->json, i) != 2 * b->bytes)
		return rlx_fail(err, RLX_ESHAPE,
				"checkpoint of step %llu: blob \"%s\": have %u bytes, "
				"want %zu",
				(unsigned long long)m->step, b->key, rlx_json_len(&m->json, i) / 2,
				b->bytes);
	hex = rlx_json_text(&m->json, i);
	for (k = 0; copy && k < b->bytes; k++)
		((uint8_t *)b->data)[k] =
			(uint8_t)(nibble(hex[2 * k]) << 4 | nibble(hex[2 * k + 1]));
	return RLX_OK;
}
