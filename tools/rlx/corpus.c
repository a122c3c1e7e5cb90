// SPDX-License-Identifier: MIT
/* Finding text files and splitting them at blank lines. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/map.h"
#include "tools/rlx/corpus.h"

/* A folder inside itself by bind mounts would never end. */
enum { MAX_DEPTH = 64, PROBE = 4096 };

static enum rlx_status add_file(struct corpus *c, const char *path, struct rlx_error *err)
{
	struct corpus_file f;
	enum rlx_status st = rlx_file_map(&f.map, path, err);

	if (st)
		return st;
	if (f.map.n > UINT32_MAX / 2) {
		rlx_file_unmap(&f.map);
		return rlx_fail(err, RLX_ERANGE, "%s: over 2 GiB in one file; split it", path);
	}
	if (memchr(f.map.p, 0, f.map.n < PROBE ? f.map.n : PROBE)) {
		c->n_binary++;
		rlx_file_unmap(&f.map);
		return RLX_OK;
	}
	f.path = rlx_strdup(path);
	if (!f.path || !rlx_grow(&c->file, &c->cap_file, c->n_file + 1, sizeof(*c->file))) {
		rlx_free(f.path);
		rlx_file_unmap(&f.map);
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	}
	c->file[c->n_file++] = f;
	return RLX_OK;
}

static enum rlx_status add_path(struct corpus *c, const char *path, int depth,
				struct rlx_error *err);

static enum rlx_status add_folder(struct corpus *c, const char *path, int depth,
				  struct rlx_error *err)
{
	struct dirent **e;
	enum rlx_status st = RLX_OK;
	int n = scandir(path, &e, NULL, alphasort), i;

	if (n < 0)
		return rlx_fail(err, errno == EACCES ? RLX_EACCES : RLX_EIO, "%s: %s", path,
				strerror(errno));
	for (i = 0; i < n; i++) {
		size_t len = strlen(path) + strlen(e[i]->d_name) + 2;
		char *full = NULL;

		if (!st && strcmp(e[i]->d_name, ".") && strcmp(e[i]->d_name, "..")) {
			full = rlx_malloc(len);
			if (full)
				snprintf(full, len, "%s/%s", path, e[i]->d_name);
			st = full ? add_path(c, full, depth + 1, err) :
			     rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
		}
		rlx_free(full);
		free(e[i]);	/* scandir's own */
	}
	free(e);
	return st;
}

static enum rlx_status add_path(struct corpus *c, const char *path, int depth,
				struct rlx_error *err)
{
	struct stat sb;

	if (depth ? lstat(path, &sb) : stat(path, &sb))
		return rlx_fail(err, errno == ENOENT ? RLX_ENOENT : RLX_EIO, "%s: %s", path,
				strerror(errno));
	if (S_ISDIR(sb.st_mode) && depth < MAX_DEPTH)
		return add_folder(c, path, depth, err);
	if (S_ISREG(sb.st_mode) && sb.st_size)
		return add_file(c, path, err);
	return RLX_OK;
}

enum rlx_status corpus_add(struct corpus *c, const char *path, struct rlx_error *err)
{
	return add_path(c, path, 0, err);
}

static bool is_blank(char ch)
{
	return ch == ' ' || ch == '\t' || ch == '\r' || ch == '\f' || ch == '\v';
}

/* Letters of any script: ASCII ones, and what begins a longer sequence. */
static uint32_t letters(const char *s, uint32_t n)
{
	uint32_t k = 0, i;

	for (i = 0; i < n; i++)
		k += (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
		     (unsigned char)s[i] >= 0xc2;
	return k;
}

/* The words with one blank between them into @out, which holds @n bytes. */
static uint32_t squeeze(const char *s, uint32_t n, char *out)
{
	uint32_t k = 0, i;

	for (i = 0; i < n; i++) {
		bool gap = is_blank(s[i]) || s[i] == '\n';

		if (!gap)
			out[k++] = s[i];
		else if (k && out[k - 1] != ' ')
			out[k++] = ' ';
	}
	return k && out[k - 1] == ' ' ? k - 1 : k;
}

static bool add_para(struct corpus *c, struct rlx_map *seen, const struct para *p)
{
	char *words = rlx_malloc(p->len);
	uint64_t at = 0;
	uint32_t n;
	bool known, ok = false;

	if (!words)
		return false;
	n = squeeze(p->text, p->len, words);
	known = rlx_map_get(seen, words, n, &at);
	if (known) {
		c->para[at].copies++;
		c->n_same++;
		ok = true;
	} else if (rlx_map_put(seen, words, n, c->n_para) &&
		   rlx_grow(&c->para, &c->cap_para, c->n_para + 1, sizeof(*c->para))) {
		c->para[c->n_para++] = *p;
		ok = true;
	}
	rlx_free(words);
	return ok;
}

static bool split_file(struct corpus *c, struct rlx_map *seen, uint32_t file,
		       uint32_t min_letters)
{
	const char *s = (const char *)c->file[file].map.p, *end = s + c->file[file].map.n;
	struct para p = { .file = file };
	uint32_t line = 1;

	for (; s <= end; line++) {
		const char *stop = s < end ? memchr(s, '\n', (size_t)(end - s)) : NULL;
		const char *word = s;

		stop = stop ? stop : end;
		while (word < stop && is_blank(*word))
			word++;
		if (word < stop) {
			if (!p.text) {
				p.text = word;
				p.line = line;
			}
			p.len = (uint32_t)(stop - p.text);
		}
		if (p.text && (word == stop || stop == end)) {
			if (letters(p.text, p.len) < min_letters)
				c->n_short++;
			else if (!add_para(c, seen, &p))
				return false;
			p = (struct para){ .file = file };
		}
		s = stop + 1;
	}
	return true;
}

enum rlx_status corpus_split(struct corpus *c, uint32_t min_letters, struct rlx_error *err)
{
	struct rlx_map seen = { 0 };
	bool ok = true;
	uint32_t i;

	for (i = 0; ok && i < c->n_file; i++)
		ok = split_file(c, &seen, i, min_letters);
	rlx_map_fini(&seen);
	return ok ? RLX_OK : rlx_fail(err, RLX_ENOMEM, "corpus: out of memory");
}

void corpus_fini(struct corpus *c)
{
	uint32_t i;

	for (i = 0; i < c->n_file; i++) {
		rlx_file_unmap(&c->file[i].map);
		rlx_free(c->file[i].path);
	}
	rlx_free(c->file);
	rlx_free(c->para);
	*c = (struct corpus){ 0 };
}
