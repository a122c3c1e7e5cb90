// SPDX-License-Identifier: MIT
/* A GPU as a device: finding, opening, its context, and what went wrong. */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu.h"
#include "backends/gpu/tune.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/thread.h"
#include "kernels/gpu/gemm_horizontal.h"

static void describe(const struct rlx_gpu_vendor *v, const struct gpu_driver *d,
		     unsigned int i, struct rlx_dev_info *info)
{
	int dev, major = 0, minor = 0, units = 0;
	size_t bytes = 0;

	*info = (struct rlx_dev_info){ .backend = "" };
	snprintf(info->backend, sizeof(info->backend), i ? "%.8s:%u" : "%.8s", v->name, i);
	if (d->api.device_get(&dev, (int)i))
		return;
	d->api.device_name(info->name, sizeof(info->name), dev);
	d->api.device_attribute(&major, v->attr[GPU_ATTR_MAJOR], dev);
	d->api.device_attribute(&minor, v->attr[GPU_ATTR_MINOR], dev);
	d->api.device_attribute(&units, v->attr[GPU_ATTR_SM_COUNT], dev);
	d->api.device_memory(&bytes, dev);
	d->api.device_pci(info->pci, sizeof(info->pci), dev);
	snprintf(info->isa, sizeof(info->isa), "%d.%d", major, minor);
	info->threads = (unsigned int)units;
	info->memory = bytes;
	info->driver = d->version;
}

unsigned int gpu_probe(const struct rlx_gpu_vendor *v, struct rlx_dev_info *info,
		       unsigned int first, unsigned int max)
{
	const struct gpu_driver *d = gpu_driver_get(v, NULL);
	unsigned int n = d ? (unsigned int)d->devices : 0, i;

	for (i = 0; i < max && first + i < n; i++)
		describe(v, d, first + i, &info[i]);
	return n;
}

const char *gpu_why(const struct rlx_gpu_vendor *v)
{
	const char *why;

	gpu_driver_get(v, &why);
	return why;
}

/* Is the context of no more use ("sticky")? HIP numbers its errors as CUDA does. */
static bool is_lost(int rc)
{
	switch (rc) {
	case 4:			/* DEINITIALIZED */
	case 46:		/* DEVICE_UNAVAILABLE */
	case 201:		/* INVALID_CONTEXT */
	case 214:		/* ECC_UNCORRECTABLE */
	case 220:		/* NVLINK_UNCORRECTABLE */
	case 226:		/* CONTAINED: an error of the memory */
	case 700:		/* ILLEGAL_ADDRESS */
	case 702:		/* LAUNCH_TIMEOUT */
	case 709:		/* CONTEXT_IS_DESTROYED */
	case 710:		/* ASSERT */
	case 714 ... 719:	/* hardware stack, instruction, address; LAUNCH_FAILED */
	case 721:		/* TENSOR_MEMORY_LEAK */
	case 810:		/* MPS_CLIENT_TERMINATED */
	case 911:		/* EXTERNAL_DEVICE */
	case 999:		/* UNKNOWN */
		return true;
	}
	return false;
}

enum rlx_status gpu_check(struct gpu_device *d, int rc, const char *what,
			  struct rlx_error *err)
{
	char text[120];

	if (!rc)
		return RLX_OK;
	gpu_error_text(d->v, d->d, rc, text, sizeof(text));
	if (rc == GPU_OUT_OF_MEMORY)
		return rlx_fail(err, RLX_ENOMEM, "%s:%u: %s: out of device memory: %s",
				d->v->name, d->base.ordinal, what, text);
	if (!is_lost(rc))
		return rlx_fail(err, RLX_EIO, "%s:%u: %s: %s", d->v->name,
				d->base.ordinal, what, text);
	if (!atomic_exchange(&d->lost, true))
		rlx_log(RLX_LOG_WARN, "%s:%u failed while %s: %s", d->v->name,
			d->base.ordinal, what, text);
	return rlx_fail(err, RLX_ELOST, "%s:%u: %s: the device failed: %s", d->v->name,
			d->base.ordinal, what, text);
}

/* ---- the context ---- */

/* 1: not in step with the application's default stream */
static int make_context(struct gpu_device *d)
{
	int rc = gpu_context_get(d->v, d->dev, &d->ctx);

	if (rc)
		return rc;
	rc = d->api->context_set(d->ctx);
	if (!rc)
		rc = d->api->stream_new(&d->stream, 1);
	if (rc)
		d->api->context_release(d->dev);
	return rc;
}

static void *maker_main(void *arg)
{
	struct gpu_device *d = arg;

	d->made = make_context(d);
	return NULL;
}

/* What is under way ends; else it is done now. The lock is held, or nobody else has the device. */
static void end_context(struct gpu_device *d)
{
	if (d->making)
		pthread_join(d->maker, NULL);
	else
		d->made = make_context(d);
	d->making = false;
	atomic_store_explicit(&d->ready, !d->made, memory_order_release);
}

/* One that could not be made is tried again by whoever asks next. */
static enum rlx_status wait_for_context(struct gpu_device *d, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;

	pthread_mutex_lock(&d->lock);
	if (!atomic_load_explicit(&d->ready, memory_order_relaxed)) {
		end_context(d);
		st = gpu_check(d, d->made, "making a context", err);
	}
	pthread_mutex_unlock(&d->lock);
	return st;
}

enum rlx_status gpu_alive(struct gpu_device *d, struct rlx_error *err)
{
	if (atomic_load_explicit(&d->lost, memory_order_relaxed))
		return rlx_fail(err, RLX_ELOST, "%s:%u failed before, and is lost to this "
				"process; a new one can use it", d->v->name, d->base.ordinal);
	return RLX_OK;
}

enum rlx_status gpu_enter(struct gpu_device *d, struct rlx_error *err)
{
	enum rlx_status st = gpu_alive(d, err);

	if (!st && !atomic_load_explicit(&d->ready, memory_order_acquire))
		st = wait_for_context(d, err);
	return st ? st : gpu_check(d, d->api->context_set(d->ctx), "entering its context", err);
}

/* ---- opening ---- */

static enum rlx_status read_attributes(struct gpu_device *d, struct rlx_error *err)
{
	int i, rc = 0;

	for (i = 0; i < GPU_ATTR_COUNT && !rc; i++)
		rc = d->api->device_attribute(&d->attr[i], d->v->attr[i], d->dev);
	d->v->arch(d->arch, sizeof(d->arch), d->attr[GPU_ATTR_MAJOR],
		   d->attr[GPU_ATTR_MINOR]);
	if (!rc)
		rc = d->api->device_name(d->name, sizeof(d->name), d->dev);
	return gpu_check(d, rc, "reading its attributes", err);
}

enum rlx_status gpu_open(const struct rlx_gpu_vendor *v, struct rlx_device *dev,
			 struct rlx_error *err)
{
	struct gpu_device *d = (struct gpu_device *)dev;
	enum rlx_status st;
	const char *why;

	d->v = v;
	d->d = gpu_driver_get(v, &why);
	if (!d->d)
		return rlx_fail(err, RLX_ENODEV, "%s: %s", v->name, why);
	if (dev->ordinal >= (unsigned int)d->d->devices)
		return rlx_fail(err, RLX_ENODEV, "%s:%u: there are %d", v->name,
				dev->ordinal, d->d->devices);
	d->api = &d->d->api;
	st = gpu_check(d, d->api->device_get(&d->dev, (int)dev->ordinal), "opening", err);
	if (!st)
		st = read_attributes(d, err);
	if (st)
		return st;
	gpu_chip_describe(d);
	dev->threads = (unsigned int)d->attr[GPU_ATTR_SM_COUNT];
	d->compilers = rlx_cpu_allowed();
	if (d->compilers > GPU_MOST_COMPILERS)
		d->compilers = GPU_MOST_COMPILERS;
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->calibrating, NULL);
	pthread_cond_init(&d->compiled, NULL);
	/*
	 * A driver takes a tenth of a second for it, and as long again goes by until a
	 * program has been compiled so far that it needs one.
	 */
	d->making = !rlx_thread_new(&d->maker, maker_main, d);
	return RLX_OK;
}

/* After a loss the driver's objects went with the context; ours are freed here. */
void gpu_close(struct rlx_device *dev)
{
	struct gpu_device *d = (struct gpu_device *)dev;

	if (d->making)
		end_context(d);
	if (atomic_load_explicit(&d->ready, memory_order_relaxed))
		d->api->context_set(d->ctx);
	gpu_modules_free(d);
	gpu_tune_free(d);
	if (atomic_load_explicit(&d->ready, memory_order_relaxed)) {
		d->api->stream_free(d->stream);
		d->api->context_release(d->dev);
	}
	pthread_cond_destroy(&d->compiled);
	pthread_mutex_destroy(&d->calibrating);
	pthread_mutex_destroy(&d->lock);
}

void gpu_target(const struct rlx_device *dev, struct rlx_target *t)
{
	t->fuse = true;
	t->bf16 = true;
	t->f16 = true;
	t->mma16 = true;
	t->widen_aside = true;
	t->channels = RLX_CHANNELS_LAST;
	/*
	 * t->repeats stays zero: on an H100 110 chains of f32 and f16, rows of 4 to 8,192, repeated
	 * by element, by piece and whole, in caches and not, took 0.10 to 0.69 of two steps.
	 */
}
