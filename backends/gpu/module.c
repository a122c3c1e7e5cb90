// SPDX-License-Identifier: MIT
/*
 * Kernels as functions of the device: loaded once per device and shared by all
 * programs. Where their code comes from is in kernel_binary.c; it is looked for while a context
 * may still be in the making, and loaded later.
 */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu.h"
#include "backends/gpu/kernel_binary.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

/* Where an image is from: what the driver refuses may be had from one behind it. */
enum origin { PREBUILT, CACHED, MADE };

struct gpu_module {
	struct gpu_module	*next, *next_job;
	char			*key, *source;
	char			 name[64];	/* of the kernel */
	const char		*params;	/* their names, static */
	bool			 ordered;	/* as in struct gpu_kernel */
	union rlx_g_param	 param;
	void			*image;		/* until it has been loaded */
	enum origin		 from;		/* the image is */
	bool			 compiling;	/* or going to be */
	uint64_t		 compile_ns;	/* of compiling, until a program has been told */
	struct rlx_error	 why;		/* there is none, when that is over */
	void			*module, *fn;	/* NULL until then */
	uint32_t		 shared;	/* most that launches may ask for by now */
};

static void module_free(struct gpu_module *m)
{
	if (!m)
		return;
	rlx_free(m->key);
	rlx_free(m->source);
	rlx_free(m->image);
	rlx_free(m);
}

static struct gpu_module *module_new(const struct gpu_job *j, const struct gpu_kernel *k)
{
	struct gpu_module *m = rlx_calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->key = rlx_strdup(j->key);
	m->source = rlx_strdup(k->source);
	snprintf(m->name, sizeof(m->name), "%s", k->name);
	m->params = k->params;
	m->ordered = k->ordered;
	if (*k->params)
		m->param = *k->param;
	if (m->key && m->source)
		return m;
	module_free(m);
	return NULL;
}

static struct gpu_kernel kernel_of(const struct gpu_module *m)
{
	return (struct gpu_kernel){ m->name, m->source, m->params, &m->param, 0, m->ordered };
}

/* ---- compiling ---- */

/* The first of what is to be compiled. The lock is held, but not meanwhile. */
static void compile_next(struct gpu_device *d)
{
	struct gpu_module *m = d->to_compile;
	const struct gpu_kernel k = kernel_of(m);
	struct rlx_error why = { 0 };
	void *image = NULL;
	struct gpu_job j;
	uint64_t begin;

	d->to_compile = m->next_job;
	pthread_mutex_unlock(&d->lock);
	begin = rlx_now();
	gpu_job_init(&j, d, &k);
	gpu_image_compile(d, &j, &image, &why);
	pthread_mutex_lock(&d->lock);
	m->image = image;
	m->from = MADE;
	m->why = why;
	m->compile_ns += rlx_now() - begin;
	m->compiling = false;
	pthread_cond_broadcast(&d->compiled);
}

static void *compiler_main(void *arg)
{
	struct gpu_compiler *c = arg;

	if (c->d->v->compiles_here)	/* gpu_compile() has entered it */
		c->d->api->context_set(c->d->ctx);
	pthread_mutex_lock(&c->d->lock);
	while (c->d->to_compile)
		compile_next(c->d);
	c->ended = true;
	pthread_mutex_unlock(&c->d->lock);
	return NULL;
}

static void join(struct gpu_compiler *c)
{
	if (c->begun)
		pthread_join(c->thread, NULL);
	c->begun = false;
	c->ended = false;
}

/*
 * Kernels take a compiler a good part of a second each. Where there is no thread to be
 * had, whoever waits does it. The lock is held.
 */
static void compile_aside(struct gpu_device *d, struct gpu_module *m)
{
	struct gpu_compiler *c;
	unsigned int i;

	m->compiling = true;
	m->next_job = d->to_compile;
	d->to_compile = m;
	for (i = 0; i < d->compilers; i++) {
		c = &d->compiler[i];
		if (c->begun && !c->ended)
			continue;
		join(c);
		c->d = d;
		c->begun = !rlx_thread_new(&c->thread, compiler_main, c);
		break;
	}
}

/* The lock is held. */
static void wait_compiled(struct gpu_device *d, const struct gpu_module *m)
{
	while (m->compiling) {
		if (d->to_compile)
			compile_next(d);
		else
			pthread_cond_wait(&d->compiled, &d->lock);
	}
}

/* ---- finding and loading ---- */

/* The lock is held. */
static enum rlx_status fetch(struct gpu_device *d, struct gpu_module *m,
			     const struct gpu_job *j, struct rlx_error *err)
{
	const struct gpu_kernel k = kernel_of(m);
	enum rlx_status st;

	m->from = PREBUILT;
	if (!gpu_image_prebuilt(d, &k, &m->image))
		return RLX_OK;
	m->from = CACHED;
	if (!gpu_image_cached(d, j, &m->image))
		return RLX_OK;
	m->from = MADE;
	st = gpu_image_text(d, &k, j, &m->image, err);
	if (st != RLX_ENOENT)
		return st;
	compile_aside(d, m);
	return RLX_OK;
}

static enum rlx_status load(struct gpu_device *d, struct gpu_module *m, struct rlx_error *err)
{
	char symbol[80];
	enum rlx_status st;

	snprintf(symbol, sizeof(symbol), "rlx_g_%s", m->name);
	st = gpu_check(d, d->api->module_load(&m->module, m->image), "loading a kernel", err);
	if (st)
		return st;
	st = gpu_check(d, d->api->module_function(&m->fn, m->module, symbol),
		       "finding a kernel", err);
	if (st) {
		d->api->module_unload(m->module);
		m->fn = NULL;
	}
	return st;
}

/* An image from behind where the one is from that the driver refused. The lock is held. */
static enum rlx_status take_other(struct gpu_device *d, struct gpu_module *m,
				  struct rlx_error *err)
{
	const struct gpu_kernel k = kernel_of(m);
	enum rlx_status st = RLX_ENOENT;
	struct gpu_job j;
	void *image;

	gpu_job_init(&j, d, &k);
	if (m->from == PREBUILT)
		st = gpu_image_cached(d, &j, &image);
	m->from = st ? MADE : CACHED;
	if (st)
		st = gpu_image_text(d, &k, &j, &image, err);
	if (st == RLX_ENOENT)
		st = gpu_image_compile(d, &j, &image, err);
	if (st)
		return st;
	rlx_free(m->image);
	m->image = image;
	return RLX_OK;
}

/*
 * What was built for a like chip may not fit this one, and what was kept not what the driver has
 * become: a file that is refused is replaced. The lock is held.
 */
static enum rlx_status load_any(struct gpu_device *d, struct gpu_module *m,
				struct rlx_error *err)
{
	struct rlx_error why = { 0 };
	enum rlx_status st = load(d, m, &why);

	while (st == RLX_EIO && m->from != MADE) {
		why = (struct rlx_error){ 0 };
		st = take_other(d, m, &why);
		if (!st)
			st = load(d, m, &why);
	}
	return st ? rlx_error_set(err, st, why.file, why.line, "%s", why.text) : RLX_OK;
}

/*
 * What this launch needs and no more: a kernel's own variables count against the same
 * limit. Never less than others asked for, whose launches go on. The lock is held.
 */
static enum rlx_status allow_shared(struct gpu_device *d, struct gpu_module *m,
				    uint32_t bytes, struct rlx_error *err)
{
	enum rlx_status st;

	if (bytes <= m->shared || d->v->function_shared < 0)
		return RLX_OK;
	st = gpu_check(d, d->api->function_set(m->fn, d->v->function_shared, (int)bytes),
		       "asking for shared memory", err);
	if (!st)
		m->shared = bytes;
	return st;
}

enum rlx_status gpu_module_get(struct gpu_device *d, const struct gpu_kernel *k,
			       struct gpu_module **out, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	struct gpu_module *m;
	struct gpu_job j;

	gpu_job_init(&j, d, k);
	pthread_mutex_lock(&d->lock);
	for (m = d->modules; m && strcmp(m->key, j.key); m = m->next)
		;
	if (m) {
		if (!m->compiling && !m->fn && !m->image)	/* that failed */
			st = fetch(d, m, &j, err);
	} else {
		m = module_new(&j, k);
		st = m ? fetch(d, m, &j, err) :
		     rlx_fail(err, RLX_ENOMEM, "%s: out of memory", j.label);
		if (st) {
			module_free(m);
		} else {
			m->next = d->modules;
			d->modules = m;
		}
	}
	if (!st)
		*out = m;
	pthread_mutex_unlock(&d->lock);
	return st;
}

enum rlx_status gpu_module_load(struct gpu_device *d, struct gpu_module *m, uint32_t shared,
				void **out, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;

	pthread_mutex_lock(&d->lock);
	wait_compiled(d, m);
	if (!m->fn && !m->image)
		st = rlx_error_set(err, m->why.status, m->why.file, m->why.line, "%s",
				   m->why.text);
	if (!m->fn && !st) {
		st = load_any(d, m, err);
		if (!st) {
			rlx_free(m->image);
			rlx_free(m->source);
			m->image = NULL;
			m->source = NULL;
		}
	}
	if (!st)
		st = allow_shared(d, m, shared, err);
	if (!st)
		*out = m->fn;
	pthread_mutex_unlock(&d->lock);
	return st;
}

uint64_t gpu_module_compile_ns(struct gpu_device *d, struct gpu_module *m)
{
	uint64_t ns;

	pthread_mutex_lock(&d->lock);
	ns = m->compile_ns;
	m->compile_ns = 0;
	pthread_mutex_unlock(&d->lock);
	return ns;
}

enum rlx_status gpu_function_get(struct gpu_device *d, const struct gpu_kernel *k,
				 void **out, struct rlx_error *err)
{
	struct gpu_module *m;
	enum rlx_status st = gpu_module_get(d, k, &m, err);

	return st ? st : gpu_module_load(d, m, k->shared, out, err);
}

void gpu_modules_free(struct gpu_device *d)
{
	struct gpu_module *m, *next;
	unsigned int i;

	pthread_mutex_lock(&d->lock);
	d->to_compile = NULL;
	pthread_mutex_unlock(&d->lock);
	for (i = 0; i < GPU_MOST_COMPILERS; i++)
		join(&d->compiler[i]);
	for (m = d->modules; m; m = next) {
		next = m->next;
		if (m->fn)
			d->api->module_unload(m->module);
		module_free(m);
	}
	d->modules = NULL;
}
