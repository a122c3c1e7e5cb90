// SPDX-License-Identifier: MIT
/*
 * Kernels as functions of the device: loaded once per device and shared by all
 * programs. Where their code comes from is in image.c.
 */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu.h"
#include "backends/gpu/image.h"
#include "base/alloc.h"

struct gpu_module {
	struct gpu_module	*next;
	char			*key;
	void			*module, *fn;
	uint32_t		 shared;	/* most that launches may ask for by now */
};

static enum rlx_status load(struct gpu_device *d, const struct gpu_job *j, const void *image,
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

enum rlx_status gpu_function_get(struct gpu_device *d, const struct gpu_kernel *k,
				 void **out, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	struct gpu_module *m;
	struct gpu_job j;
	void *image;

	gpu_job_init(&j, d, k);
	pthread_mutex_lock(&d->lock);	/* held while compiling: nobody does it twice */
	for (m = d->modules; m && strcmp(m->key, j.key); m = m->next)
		;
	if (!m) {
		/* what was built for a like chip may not fit this one */
		st = gpu_image_prebuilt(d, k, &image);
		if (!st)
			st = load(d, &j, image, &m, NULL);
		if (st) {
			rlx_free(image);
			st = gpu_image_get(d, k, &j, &image, err);
			if (!st)
				st = load(d, &j, image, &m, err);
		}
		rlx_free(image);
		if (!st) {
			m->next = d->modules;
			d->modules = m;
		}
	}
	if (!st)
		st = allow_shared(d, m, k->shared, err);
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
