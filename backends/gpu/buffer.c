// SPDX-License-Identifier: MIT
/*
 * Buffers in the device's memory (rlx/device_buffer.h), and what sessions do with inputs and
 * outputs that are bound to some: kernels use them where they are, unless an output would be
 * written over an input that is still read, or a step wants two in one place that are bound
 * apart. Then the device copies.
 */
#include "backends/gpu/gpu.h"

enum rlx_status gpu_buffer_new(struct rlx_device *dev, uint64_t bytes, uint64_t *out_at,
			       struct rlx_error *err)
{
	struct gpu_device *d = (struct gpu_device *)dev;
	enum rlx_status st = gpu_enter(d, err);
	int rc;

	if (!st)
		st = gpu_mem_new(d, bytes, out_at, err);
	if (st)
		return st;
	pthread_mutex_lock(&d->lock);	/* it also guards the stream */
	rc = d->api->fill8(*out_at, 0, bytes, d->stream);
	if (!rc)
		rc = d->api->stream_wait(d->stream);
	pthread_mutex_unlock(&d->lock);
	st = gpu_check(d, rc, "clearing a buffer", err);
	if (st)
		gpu_mem_free(d, *out_at);
	return st;
}

void gpu_buffer_free(struct rlx_device *dev, uint64_t at)
{
	struct gpu_device *d = (struct gpu_device *)dev;

	d->api->context_set(d->ctx);
	gpu_mem_free(d, at);
}

enum rlx_status gpu_buffer_copy(struct rlx_device *dev, uint64_t at, void *host, uint64_t bytes,
				bool in, struct rlx_error *err)
{
	struct gpu_device *d = (struct gpu_device *)dev;
	enum rlx_status st = gpu_enter(d, err);
	int rc, waited;

	if (st || !bytes)
		return st;
	pthread_mutex_lock(&d->lock);
	rc = in ? d->api->copy_in(at, host, bytes, d->stream) :
	     d->api->copy_out(host, at, bytes, d->stream);
	waited = d->api->stream_wait(d->stream);
	pthread_mutex_unlock(&d->lock);
	return gpu_check(d, rc ? rc : waited, in ? "copying a buffer in" : "copying a buffer out",
			 err);
}

/* ---- sessions ---- */

static bool overlap(const struct gpu_exec *x, uint32_t i, uint32_t o)
{
	const struct gpu_io *io = gpu_exec_code(x)->io;
	uint64_t a = x->slot[i].at, b = x->slot[o].at;

	return b && a < b + io[o].bytes && b < a + io[i].bytes;
}

/* May kernels use it where it is? */
static bool is_direct(const struct gpu_exec *x, uint32_t i)
{
	const struct gpu_code *c = gpu_exec_code(x);
	bool pair = gpu_is_pair(c, i);
	uint32_t other = c->io[i].donated - 1, o;

	if (!x->slot[i].at || (pair && (c->io[i].one || c->io[other].one) &&
			       x->slot[i].at != x->slot[other].at))
		return false;
	for (o = c->first_io[RLX_IO_OUTPUT]; c->io[i].io == RLX_IO_INPUT && o < c->n_io; o++)
		if (overlap(x, i, o) && !(pair && o == other))
			return false;
	return true;
}

void gpu_take_buffers(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	bool any = false, direct;
	uint32_t i;

	for (i = 0; i < c->n_io; i++) {
		uint64_t at = x->base.at[c->io[i].io][c->io[i].index];

		any = any || at || x->slot[i].at;
		x->slot[i].at = at;
	}
	for (i = 0; any && i < c->n_io; i++) {
		direct = is_direct(x, i);
		x->slot[i].changed = x->slot[i].changed || direct != x->slot[i].direct;
		x->slot[i].direct = direct;
	}
}

int gpu_stage_buffer(struct gpu_exec *x, uint32_t i, uint64_t place)
{
	const struct gpu_io *io = &gpu_exec_code(x)->io[i];
	const struct rlx_gpu_api *api = gpu_exec_device(x)->api;
	const struct gpu_slot *s = &x->slot[i];
	int rc = 0;

	if (!io->bytes)
		return 0;
	if (io->on_device && !s->direct)
		rc = api->copy(place, s->at, io->bytes, x->stream);
	if (!rc && io->on_host) {
		rc = api->copy_out(x->base.ptr[io->io][io->index], s->at, io->bytes, x->stream);
		gpu_count_out(x, io->bytes);
	}
	return rc;
}

int gpu_settle_buffer(struct gpu_exec *x, uint32_t i, uint64_t bytes)
{
	const struct gpu_io *io = &gpu_exec_code(x)->io[i];
	const struct rlx_gpu_api *api = gpu_exec_device(x)->api;
	const struct gpu_slot *s = &x->slot[i];

	if (io->out)
		return s->direct ? 0 : api->copy(s->at, x->stage + io->at, bytes, x->stream);
	gpu_count_in(x, bytes);
	return api->copy_in(s->at, x->base.ptr[io->io][io->index], bytes, x->stream);
}
