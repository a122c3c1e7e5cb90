// SPDX-License-Identifier: MIT
/*
 * Kernels as functions of the device: compiled at run time, or read from the cache,
 * then loaded once per device and shared by all programs.
 */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/cache.h"
#include "backends/gpu/gpu.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"

struct gpu_module {
	struct gpu_module	*next;
	char			*key;
	void			*module, *fn;
};

enum { MOST_OPTIONS = 10, MOST_KEY = 640 };

/* A compilation: what decides its result. */
struct job {
	const char	*label, *source;
	char		 text[MOST_OPTIONS][64];
	const char	*option[MOST_OPTIONS];
	int		 n;
	char		 key[MOST_KEY];
};

static void add_option(struct job *j, const char *fmt, long long v)
{
	snprintf(j->text[j->n], sizeof(j->text[0]), fmt, v);
	j->option[j->n] = j->text[j->n];
	j->n++;
}

/* All headers are part of what was compiled. */
static uint64_t hash_headers(void)
{
	const char *const *names, *const *texts;
	unsigned int n = gpu_headers(&names, &texts), i;
	uint64_t h = 1;

	for (i = 0; i < n; i++)
		h = rlx_hash_bytes(texts[i], strlen(texts[i]), h);
	return h;
}

static void make_key(const struct gpu_device *d, const struct rlx_gpu_rtc *rtc,
		     struct job *j)
{
	int major = 0, minor = 0, i;
	size_t n;

	if (rtc)
		rtc->version(&major, &minor);
	n = (size_t)snprintf(j->key, sizeof(j->key), "rlx %s; %s %.60s; compiler %d.%d; driver %d; "
			     "%s; source %zu %016llx %016llx; headers %016llx;", RLX_VERSION,
			     d->v->name, d->name, major, minor, d->d->version, j->label,
			     strlen(j->source),
			     (unsigned long long)rlx_hash_bytes(j->source, strlen(j->source), 1),
			     (unsigned long long)rlx_hash_bytes(j->source, strlen(j->source), 2),
			     (unsigned long long)hash_headers());
	for (i = 0; i < j->n && n < sizeof(j->key); i++)
		n += (size_t)snprintf(j->key + n, sizeof(j->key) - n, " %s", j->option[i]);
}

/* The compiler's first complaint, for the story. */
static void first_error(const struct rlx_gpu_rtc *rtc, void *prog, char *buf, size_t size)
{
	size_t n = 0, at = 0;
	char *log, *p;

	snprintf(buf, size, "no message");
	if (rtc->log_size(prog, &n) || n < 2)
		return;
	log = rlx_calloc(1, n + 1);
	if (log && !rtc->log(prog, log)) {
		if (rlx_debug_on(RLX_DEBUG_RUN))
			rlx_log(RLX_LOG_DEBUG, "%.900s", log);
		p = strstr(log, "error");
		at = p ? (size_t)(p - log) : 0;
		while (at && log[at - 1] != '\n')
			at--;
		log[at + strcspn(log + at, "\n")] = 0;
		snprintf(buf, size, "%s", log + at);
	}
	rlx_free(log);
}

static enum rlx_status compile(const struct rlx_gpu_rtc *rtc, const struct job *j,
			       void **out, size_t *out_bytes, struct rlx_error *err)
{
	const char *const *names, *const *texts;
	int n = (int)gpu_headers(&names, &texts), rc;
	enum rlx_status st = RLX_OK;
	void *prog = NULL;
	char why[140];

	*out = NULL;
	*out_bytes = 0;
	rc = rtc->new(&prog, j->source, j->label, n, texts, names);
	if (rc)
		return rlx_fail(err, RLX_ENOMEM, "%s: the compiler does not start (%d)",
				j->label, rc);
	rc = rtc->compile(prog, j->n, j->option);
	if (rc) {
		first_error(rtc, prog, why, sizeof(why));
		st = rlx_fail(err, RLX_EBUG, "%s does not compile (%d): %s", j->label, rc, why);
		goto out_free;
	}
	rc = rtc->code_size(prog, out_bytes);
	if (!rc)
		*out = rlx_malloc(*out_bytes ? *out_bytes : 1);
	if (rc || !*out || rtc->code(prog, *out)) {
		rlx_free(*out);
		*out = NULL;
		st = rlx_fail(err, RLX_ENOMEM, "%s: no code came of compiling (%d)",
			      j->label, rc);
	}
out_free:
	rtc->free(&prog);
	return st;
}

/* The image of a module: of the cache, or compiled and then kept there. */
static enum rlx_status get_image(const struct rlx_gpu_rtc *rtc, const char *why,
				 const struct job *j, void **out, struct rlx_error *err)
{
	char dir[3072];
	bool cached = gpu_cache_dir(dir, sizeof(dir));
	enum rlx_status st;
	size_t n;

	if (cached && !gpu_cache_load(dir, j->key, out, &n))
		return RLX_OK;
	if (!rtc)	/* not "unsupported", which would send every step to the host */
		return rlx_fail(err, RLX_ENODEV, "kernel %s is not in the cache and cannot be "
				"compiled: %s", j->label, why);
	st = compile(rtc, j, out, &n, err);
	if (!st && cached && gpu_cache_store(dir, j->key, *out, n))
		if (rlx_debug_on(RLX_DEBUG_RUN))
			rlx_log(RLX_LOG_DEBUG, "kernels are not kept: %s cannot be written", dir);
	return st;
}

static enum rlx_status load(struct gpu_device *d, const struct job *j, const void *image,
			    struct gpu_module **out, struct rlx_error *err)
{
	struct gpu_module *m = rlx_calloc(1, sizeof(*m));
	enum rlx_status st = RLX_ENOMEM;
	char symbol[80];

	if (!m || !(m->key = rlx_strdup(j->key))) {
		rlx_fail(err, RLX_ENOMEM, "%s: out of memory", j->label);
		goto out_free;
	}
	snprintf(symbol, sizeof(symbol), "rlx_g_%s", j->label);
	st = gpu_check(d, d->api->module_load(&m->module, image), "loading a kernel", err);
	if (st)
		goto out_free;
	st = gpu_check(d, d->api->module_function(&m->fn, m->module, symbol),
		       "finding a kernel", err);
	if (!st && d->v->function_shared >= 0 && d->attr[GPU_ATTR_SHARED] > 48 << 10)
		st = gpu_check(d, d->api->function_set(m->fn, d->v->function_shared,
						       d->attr[GPU_ATTR_SHARED] - (1 << 10)),
			       "asking for shared memory", err);
	if (st) {
		d->api->module_unload(m->module);
		goto out_free;
	}
	*out = m;
	return RLX_OK;
out_free:
	if (m)
		rlx_free(m->key);
	rlx_free(m);
	return st;
}

enum rlx_status gpu_function_get(struct gpu_device *d, const struct gpu_kernel *k,
				 void **out, struct rlx_error *err)
{
	const char *why;
	const struct rlx_gpu_rtc *rtc = gpu_rtc_get(d->v, &why);
	struct job j = { .label = k->name, .source = k->source };
	enum rlx_status st = RLX_OK;
	struct gpu_module *m;
	void *image = NULL;
	int i;

	add_option(&j, d->arch, 0);
	add_option(&j, d->v->option, 0);
	add_option(&j, "-std=c++17", 0);
	add_option(&j, "-DRLX_WAVE=%lld", d->attr[GPU_ATTR_WAVE]);
	add_option(&j, "-DRLX_ARCH=%lld",
		   d->attr[GPU_ATTR_MAJOR] * 10 + d->attr[GPU_ATTR_MINOR]);
	for (i = 0; i < 4; i++) {
		snprintf(j.text[j.n], sizeof(j.text[0]), "-DRLX_K%d=%d", i, (int)k->key[i]);
		j.option[j.n] = j.text[j.n];
		j.n++;
	}
	make_key(d, rtc, &j);
	pthread_mutex_lock(&d->lock);	/* held while compiling: nobody does it twice */
	for (m = d->modules; m && strcmp(m->key, j.key); m = m->next)
		;
	if (!m) {
		st = get_image(rtc, why, &j, &image, err);
		if (!st)
			st = load(d, &j, image, &m, err);
		rlx_free(image);
		if (!st) {
			m->next = d->modules;
			d->modules = m;
		}
	}
	if (!st)
		*out = m->fn;
	pthread_mutex_unlock(&d->lock);
	return st;
}

void gpu_modules_free(struct gpu_device *d)
{
	struct gpu_module *m, *next;

	for (m = d->modules; m; m = next) {
		next = m->next;
		d->api->module_unload(m->module);
		rlx_free(m->key);
		rlx_free(m);
	}
	d->modules = NULL;
}
