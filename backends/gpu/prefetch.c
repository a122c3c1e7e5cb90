// SPDX-License-Identifier: MIT
/*
 * Inputs that are brought ahead. While a run reads one place, a stream of its own fills a second
 * one from what the input will be bound to; the run that finds it bound to that waits for the
 * stream and reads there, and the place before is the one to fill next.
 */
#include "backends/gpu/gpu.h"

/* Streams and places are made by the first prefetch; without memory there is none. */
static bool make_places(struct gpu_exec *x, struct gpu_slot *s, uint64_t bytes)
{
	const struct rlx_gpu_api *api = gpu_exec_device(x)->api;

	if (!x->upload && api->stream_new(&x->upload, GPU_STREAM_APART))
		x->upload = NULL;
	if (x->upload && !s->arrived && api->event_new(&s->arrived, GPU_EVENT_PLAIN))
		s->arrived = NULL;
	return s->arrived && (s->ahead || !gpu_mem_new(gpu_exec_device(x), bytes, &s->ahead,
						       &(struct rlx_error){ 0 }));
}

/* In none of the other ways to have an input: in place, replaced by an output, or kept. */
static bool is_copied(const struct gpu_exec *x, uint32_t i)
{
	const struct gpu_io *io = &gpu_exec_code(x)->io[i];

	return io->on_device && io->bytes > GPU_MOST_MAPPED && !gpu_is_pair(gpu_exec_code(x), i) &&
	       !x->slot[i].persistent;
}

enum rlx_status gpu_prefetch(struct rlx_exec *exec, unsigned int i, struct rlx_arena *a,
			     const void *p)
{
	struct gpu_exec *x = (struct gpu_exec *)exec;
	const struct gpu_io *io = &gpu_exec_code(x)->io[i];
	struct gpu_device *d = gpu_exec_device(x);
	struct gpu_slot *s = &x->slot[i];
	struct gpu_range *was = s->coming_from;
	enum rlx_status st;
	int rc;

	s->coming = NULL;
	if (!p || !is_copied(x, i))
		return RLX_OK;
	st = gpu_enter(d, exec->err);
	if (st)
		return st;
	s->coming_from = gpu_range_get(d, a);
	gpu_range_put(d, was);	/* after, so that it may be the same */
	if (!gpu_range_at(s->coming_from, p) || !make_places(x, s, io->bytes))
		return RLX_OK;
	rc = d->api->copy_in(s->in_ahead ? x->stage + io->at : s->ahead, p, io->bytes, x->upload);
	rc = rc ? rc : d->api->event_record(s->arrived, x->upload);
	s->coming = rc ? NULL : p;
	return gpu_check(d, rc, "copying an input ahead", exec->err);
}

void gpu_prefetch_take(struct gpu_exec *x, uint32_t i)
{
	const struct gpu_io *io = &gpu_exec_code(x)->io[i];
	struct gpu_slot *s = &x->slot[i];

	s->came = s->coming && s->coming == x->base.ptr[io->io][io->index] && !s->at;
	s->coming = NULL;
	s->in_ahead ^= s->came;
}

int gpu_prefetch_wait(struct gpu_exec *x, uint32_t i)
{
	struct gpu_slot *s = &x->slot[i];

	s->came = false;
	return gpu_exec_device(x)->api->stream_after(x->stream, s->arrived, 0);
}

void gpu_prefetch_fini(struct gpu_exec *x)
{
	struct gpu_device *d = gpu_exec_device(x);
	uint32_t i;

	if (x->upload)
		d->api->stream_wait(x->upload);
	for (i = 0; x->slot && i < gpu_exec_code(x)->first_io[RLX_IO_PARAM]; i++) {
		gpu_range_put(d, x->slot[i].coming_from);
		gpu_mem_free(d, x->slot[i].ahead);
		if (x->slot[i].arrived)
			d->api->event_free(x->slot[i].arrived);
	}
	if (x->upload)
		d->api->stream_free(x->upload);
	x->upload = NULL;
}
