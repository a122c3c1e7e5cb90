// SPDX-License-Identifier: MIT
/* Where the code of kernels comes from; see image.h. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/disk_cache.h"
#include "backends/gpu/kernel_binary.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"

struct image {
	void	*p;
	size_t	 n;
};

static void add_option(struct gpu_job *j, const char *fmt, long long v)
{
	snprintf(j->text[j->n], sizeof(j->text[0]), fmt, v);
	j->option[j->n] = j->text[j->n];
	j->n++;
}

static void add_define(struct gpu_job *j, const char *of, const char *what)
{
	snprintf(j->text[j->n], sizeof(j->text[0]), "-D%s%s", of, what);
	j->option[j->n] = j->text[j->n];
	j->n++;
}

static pthread_once_t hash_once = PTHREAD_ONCE_INIT;
static uint64_t headers;	/* of all headers, which are part of what was compiled */

static void hash_headers(void)
{
	const char *const *names, *const *texts;
	unsigned int n = gpu_headers(&names, &texts), i;

	headers = 1;
	for (i = 0; i < n; i++)
		headers = rlx_hash_bytes(texts[i], strlen(texts[i]), headers);
}

static int arch_of(int major, int minor)
{
	return major * 10 + minor;
}

/* @more: one more option of the compiler's, or NULL */
static void describe(struct gpu_job *j, const struct rlx_gpu_vendor *v, const struct gpu_chip *c,
		     const struct gpu_kernel *k, const char *more)
{
	char param[60];
	size_t n;
	int i;

	pthread_once(&hash_once, hash_headers);	/* a program asks once per call */
	*j = (struct gpu_job){ .label = k->name, .source = k->source };
	add_option(j, c->option, 0);
	add_option(j, v->option, 0);
	if (more)
		add_option(j, more, 0);
	if (k->ordered && v->ordered)
		add_option(j, v->ordered, 0);
	add_option(j, "-std=c++17", 0);
	add_option(j, "-DRLX_WARP=%lld", c->warp);
	add_option(j, "-DRLX_ARCH=%lld", arch_of(c->major, c->minor));
	add_define(j, "RLX_KERNEL_", k->name);
	for (i = 0; gpu_param_text(k, (unsigned int)i, param, sizeof(param)); i++)
		add_define(j, "", param);
	n = (size_t)snprintf(j->key, sizeof(j->key), "rlx %s; %s; %s; source %zu %016llx %016llx; "
			     "headers %016llx;", RLX_VERSION, v->name, j->label,
			     strlen(j->source),
			     (unsigned long long)rlx_hash_bytes(j->source, strlen(j->source), 1),
			     (unsigned long long)rlx_hash_bytes(j->source, strlen(j->source), 2),
			     (unsigned long long)headers);
	for (i = 0; i < j->n && n < sizeof(j->key); i++)
		n += (size_t)snprintf(j->key + n, sizeof(j->key) - n, " %s", j->option[i]);
}

void gpu_job_init(struct gpu_job *j, const struct gpu_device *d, const struct gpu_kernel *k)
{
	const struct gpu_chip c = {
		.option = d->arch, .major = d->attr[GPU_ATTR_MAJOR],
		.minor = d->attr[GPU_ATTR_MINOR], .warp = d->attr[GPU_ATTR_WARP],
	};

	describe(j, d->v, &c, k, NULL);
}

/* The compiler's first complaint, for the message. */
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

/* What came of compiling @prog: the chip's code, or text. */
static enum rlx_status take(const struct rlx_gpu_rtc *rtc, const struct gpu_job *j, void *prog,
			    bool text, struct image *out, struct rlx_error *err)
{
	int rc = text ? rtc->text_size(prog, &out->n) : rtc->code_size(prog, &out->n);

	if (!rc)
		out->p = rlx_malloc(out->n ? out->n : 1);
	if (!rc && out->p && !(text ? rtc->text(prog, out->p) : rtc->code(prog, out->p)))
		return RLX_OK;
	rlx_free(out->p);
	out->p = NULL;
	return rlx_fail(err, RLX_ENOMEM, "%s: no code came of compiling (%d)", j->label, rc);
}

/* Code, text, or both: what is not asked for is NULL. */
static enum rlx_status compile(const struct rlx_gpu_rtc *rtc, const struct gpu_job *j,
			       struct image *code, struct image *text, struct rlx_error *err)
{
	const char *const *names, *const *texts;
	int n = (int)gpu_headers(&names, &texts), rc;
	enum rlx_status st = RLX_OK;
	void *prog = NULL;
	char why[140];

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
	if (code)
		st = take(rtc, j, prog, false, code, err);
	if (!st && text)
		st = take(rtc, j, prog, true, text, err);
out_free:
	rtc->free(&prog);
	return st;
}

/* ---- prebuilt ---- */

static char folder[4096];	/* "": there is none; set once */

/* Beside the library that we are part of, or the program; else where it gets installed. */
static void find_folder(void)
{
	static const char *const where[] = { "/rlx/gpu", "/../lib/rlx/gpu" };
	const char *slash;
	Dl_info self;
	size_t i;

	if (dladdr(folder, &self) && self.dli_fname &&
	    (slash = strrchr(self.dli_fname, '/')))
		for (i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
			snprintf(folder, sizeof(folder), "%.*s%s",
				 (int)(slash - self.dli_fname), self.dli_fname, where[i]);
			if (!access(folder, X_OK))
				return;
		}
	snprintf(folder, sizeof(folder), "%s", RLX_LIBDIR "/rlx/gpu");
}

static bool fits(const struct gpu_chip *c, const struct gpu_device *d)
{
	int major = d->attr[GPU_ATTR_MAJOR], minor = d->attr[GPU_ATTR_MINOR];

	if (c->warp != d->attr[GPU_ATTR_WARP])
		return false;
	switch (c->serves) {
	case GPU_CHIP_ONLY:
		return c->major == major && c->minor == minor;
	case GPU_CHIP_MINORS:
		return c->major == major && c->minor <= minor;
	case GPU_CHIP_TEXT:
		break;
	}
	return arch_of(c->major, c->minor) <= arch_of(major, minor);
}

static enum rlx_status load_prebuilt(struct gpu_device *d, const struct gpu_kernel *k,
				     bool text, void **out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const struct gpu_chip *c;
	struct gpu_job j;
	size_t n;

	*out = NULL;
	pthread_once(&once, find_folder);
	for (c = d->v->chips; c->option; c++) {
		if ((c->serves == GPU_CHIP_TEXT) != text || !fits(c, d))
			continue;
		describe(&j, d->v, c, k, NULL);
		if (rlx_disk_cache_load(folder, j.key, out, &n))
			continue;
		if (c->major < GPU_PDL_MAJOR)
			atomic_store_explicit(&d->in_order, true, memory_order_relaxed);
		return RLX_OK;
	}
	return RLX_ENOENT;
}

enum rlx_status gpu_image_prebuilt(struct gpu_device *d, const struct gpu_kernel *k,
				   void **out)
{
	return load_prebuilt(d, k, false, out);
}

const struct gpu_chip *gpu_chip_text(const struct rlx_gpu_vendor *v, const struct gpu_chip *chip)
{
	const struct gpu_chip *c;

	for (c = v->chips; c->option && chip->serves != GPU_CHIP_TEXT; c++)
		if (c->serves == GPU_CHIP_TEXT && c->major == chip->major &&
		    c->minor == chip->minor && c->warp == chip->warp)
			return c;
	return NULL;
}

static enum rlx_status store(const char *dir, const struct gpu_job *j, const struct image *i,
			     struct rlx_error *err)
{
	return rlx_disk_cache_write(dir, j->key, i->p, i->n) ?
		rlx_fail(err, RLX_EIO, "%s: cannot be written", dir) : RLX_OK;
}

enum rlx_status gpu_image_build(const struct rlx_gpu_vendor *v, const struct gpu_target *t,
				const struct gpu_kernel *k, const char *dir,
				struct rlx_error *err)
{
	const char *why, *more = t->quick ? v->quick : NULL;
	const struct rlx_gpu_rtc *rtc = gpu_rtc_get(v, &why);
	bool is_text = t->chip->serves == GPU_CHIP_TEXT;
	struct image image[2] = { 0 };
	enum rlx_status st;
	struct gpu_job j;

	if (!rtc)
		return rlx_fail(err, RLX_ENODEV, "no compiler: %s", why);
	describe(&j, v, t->chip, k, more);
	st = is_text ? compile(rtc, &j, NULL, &image[0], err) :
		       compile(rtc, &j, &image[0], t->text ? &image[1] : NULL, err);
	if (!st)
		st = store(dir, &j, &image[0], err);
	if (!st && t->text) {
		describe(&j, v, t->text, k, more);
		st = store(dir, &j, &image[1], err);
	}
	rlx_free(image[0].p);
	rlx_free(image[1].p);
	return st;
}

/* ---- at run time ---- */

enum { CACHE_KEY = GPU_MOST_KEY + 160 };

static void cache_key(const struct gpu_device *d, const struct rlx_gpu_rtc *rtc,
		      const struct gpu_job *j, char key[CACHE_KEY])
{
	int major = 0, minor = 0;

	if (rtc)
		rtc->version(&major, &minor);
	snprintf(key, CACHE_KEY, "%.60s; compiler %d.%d; driver %d; %s", d->name, major, minor,
		 d->d->version, j->key);
}

enum rlx_status gpu_image_cached(struct gpu_device *d, const struct gpu_job *j, void **out)
{
	char dir[3072], key[CACHE_KEY];
	size_t n;

	*out = NULL;
	cache_key(d, gpu_rtc_get(d->v, NULL), j, key);
	if (!rlx_disk_cache_dir("gpu", dir, sizeof(dir)) ||
	    rlx_disk_cache_load(dir, key, out, &n))
		return RLX_ENOENT;
	return RLX_OK;
}

enum rlx_status gpu_image_text(struct gpu_device *d, const struct gpu_kernel *k,
			       const struct gpu_job *j, void **out, struct rlx_error *err)
{
	const char *why;

	*out = NULL;
	if (gpu_rtc_get(d->v, &why))
		return RLX_ENOENT;
	if (!load_prebuilt(d, k, true, out))
		return RLX_OK;
	/* not "unsupported", which would send every step to the host */
	return rlx_fail(err, RLX_ENODEV, "kernel %s is neither prebuilt nor in the cache, and "
			"cannot be compiled: %s", j->label, why);
}

enum rlx_status gpu_image_compile(struct gpu_device *d, const struct gpu_job *j, void **out,
				  struct rlx_error *err)
{
	const struct rlx_gpu_rtc *rtc = gpu_rtc_get(d->v, NULL);
	char dir[3072], key[CACHE_KEY];
	struct image code = { 0 };
	enum rlx_status st;

	st = compile(rtc, j, &code, NULL, err);
	*out = code.p;
	if (st || !rlx_disk_cache_dir("gpu", dir, sizeof(dir)))
		return st;
	cache_key(d, rtc, j, key);
	if (rlx_disk_cache_store(dir, key, code.p, code.n) && rlx_debug_on(RLX_DEBUG_RUN))
		rlx_log(RLX_LOG_DEBUG, "kernels are not kept: %s cannot be written", dir);
	return RLX_OK;
}
