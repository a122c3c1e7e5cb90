// SPDX-License-Identifier: MIT
/* What was measured of problems on a chip, in memory and in its file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/tune.h"
#include "base/alloc.h"
#include "base/disk_cache.h"
#include "base/log.h"
#include "base/map.h"
#include "base/number.h"

/* Bytes of a file that is written; the oldest go first. */
enum { MOST_BYTES = 1 << 20 };

/* One line: problem, tab, kernel, tab, ns. */
struct gpu_tuned {
	char	*problem, *what;
	double	 ns;
};

/* A file's key: it is of this chip, this driver, and these kernels. */
static void key_of(const struct gpu_device *d, char *buf, size_t size)
{
	const char *const *names, *const *texts;
	unsigned int n = gpu_headers(&names, &texts), i;
	const char *text;
	uint64_t h = 1;

	for (i = 0; i < n; i++)
		h = rlx_hash_bytes(texts[i], strlen(texts[i]), h);
	for (i = 1; i < RLX_G_VARIANTS; i++) {
		text = gpu_source(gpu_variants[i].file);
		h = rlx_hash_bytes(text, strlen(text), h);
	}
	snprintf(buf, size, "rlx tune 1; %s; %s; %d; driver %d; kernels %016llx", d->v->name,
		 d->name, d->attr[GPU_ATTR_SM_COUNT], d->d->version, (unsigned long long)h);
}

static struct gpu_tuned *find(const struct gpu_device *d, const char *problem)
{
	uint32_t i;

	for (i = 0; i < d->n_tuned; i++)
		if (!strcmp(d->tuned[i].problem, problem))
			return &d->tuned[i];
	return NULL;
}

/* The lock is held. */
static bool put(struct gpu_device *d, const char *problem, const char *what, double ns)
{
	struct gpu_tuned *t = find(d, problem), new = { .ns = ns };

	if (!t && !rlx_grow(&d->tuned, &d->cap_tuned, d->n_tuned + 1, sizeof(*d->tuned)))
		return false;
	new.problem = rlx_strdup(problem);
	new.what = rlx_strdup(what);
	if (!new.problem || !new.what) {
		rlx_free(new.problem);
		rlx_free(new.what);
		return false;
	}
	if (t) {
		rlx_free(t->problem);
		rlx_free(t->what);
	} else {
		t = &d->tuned[d->n_tuned++];
	}
	*t = new;
	return true;
}

/* Lines of @text, which is changed; those of problems that are known already are left out. */
static bool take_lines(struct gpu_device *d, char *text)
{
	char *line, *what, *ns, *end;
	double v;

	for (line = text; *line; line = end + 1) {
		end = strchr(line, '\n');
		what = end ? memchr(line, '\t', (size_t)(end - line)) : NULL;
		ns = what ? memchr(what + 1, '\t', (size_t)(end - what - 1)) : NULL;
		if (!ns)
			return false;
		*what++ = *ns++ = *end = 0;
		v = rlx_strtod(ns, NULL);
		if (!(v > 0 && v < 1e12) || !*line || !*what)
			return false;
		if (!find(d, line) && !put(d, line, what, v))
			return false;
	}
	return true;
}

/* What the file has, as text; NULL: there is none, or none that can be believed. */
static char *read_file(const struct gpu_device *d, const char *dir, const char *key)
{
	enum rlx_status st;
	void *data = NULL;
	size_t n = 0;
	char *text;

	st = rlx_disk_cache_load(dir, key, &data, &n);
	if (st == RLX_EPARSE || st == RLX_EACCES)
		rlx_log(RLX_LOG_WARN, "%s:%u: the file of tuned kernels in %s is %s: ignored",
			d->v->name, d->base.ordinal, dir,
			st == RLX_EPARSE ? "damaged" : "one that others may write");
	if (st)
		return NULL;
	text = rlx_malloc(n + 1);
	if (text) {
		memcpy(text, data, n);
		text[n] = 0;
	}
	rlx_free(data);
	return text;
}

/* Whatever is there, once; again before it is written. The lock is held. */
static void merge_file(struct gpu_device *d)
{
	char dir[4096], key[256], *text;

	if (!rlx_disk_cache_dir("tune", dir, sizeof(dir)))
		return;
	key_of(d, key, sizeof(key));
	text = read_file(d, dir, key);
	if (text && !take_lines(d, text))
		rlx_log(RLX_LOG_WARN, "%s:%u: the file of tuned kernels in %s has a line that is "
			"none: what follows is ignored", d->v->name, d->base.ordinal, dir);
	rlx_free(text);
	d->tune_read = true;
}

bool gpu_tune_find(struct gpu_device *d, const char *problem, char *what, size_t size)
{
	const struct gpu_tuned *t;

	pthread_mutex_lock(&d->lock);
	if (!d->tune_read)
		merge_file(d);
	t = find(d, problem);
	if (t)
		snprintf(what, size, "%s", t->what);
	pthread_mutex_unlock(&d->lock);
	return t;
}

bool gpu_tune_put(struct gpu_device *d, const char *problem, const char *what, double ns)
{
	bool ok;

	pthread_mutex_lock(&d->lock);
	ok = put(d, problem, what, ns);
	d->tune_new = d->tune_new || ok;
	pthread_mutex_unlock(&d->lock);
	return ok;
}

/* All of it, or the newest that fit. */
static char *text_of(const struct gpu_device *d)
{
	uint32_t first = d->n_tuned, i;
	size_t bytes = 1, at = 0, n;
	locale_t before;
	char *text;

	while (first) {
		const struct gpu_tuned *t = &d->tuned[first - 1];

		n = strlen(t->problem) + strlen(t->what) + 32;
		if (bytes + n > MOST_BYTES)
			break;
		bytes += n;
		first--;
	}
	text = rlx_malloc(bytes);
	if (text)
		*text = 0;
	before = rlx_point_begin();
	for (i = first; text && i < d->n_tuned; i++)
		at += (size_t)snprintf(text + at, bytes - at, "%s\t%s\t%.1f\n",
				       d->tuned[i].problem, d->tuned[i].what, d->tuned[i].ns);
	rlx_point_end(before);
	return text;
}

void gpu_tune_save(struct gpu_device *d)
{
	char dir[4096], key[256], *text;

	pthread_mutex_lock(&d->lock);
	if (d->tune_new && rlx_disk_cache_dir("tune", dir, sizeof(dir))) {
		merge_file(d);
		key_of(d, key, sizeof(key));
		text = text_of(d);
		if (!text || rlx_disk_cache_store(dir, key, text, strlen(text)))
			rlx_log(RLX_LOG_WARN, "%s:%u: what was measured cannot be kept in %s",
				d->v->name, d->base.ordinal, dir);
		rlx_free(text);
	}
	d->tune_new = false;
	pthread_mutex_unlock(&d->lock);
}

void gpu_tune_free(struct gpu_device *d)
{
	while (d->n_tuned) {
		d->n_tuned--;
		rlx_free(d->tuned[d->n_tuned].problem);
		rlx_free(d->tuned[d->n_tuned].what);
	}
	rlx_free(d->tuned);
	d->tuned = NULL;
	d->cap_tuned = 0;
	d->tune_read = d->tune_new = false;
}
