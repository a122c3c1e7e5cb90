// SPDX-License-Identifier: MIT
/*
 * One session's device memory, what a run brings there and fetches, and when it is done.
 */
#include <string.h>

#include "backends/gpu/gpu.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "kernels/gpu/gemm_result.h"
#include "rlx/arena.h"

_Static_assert(GPU_MOST_MAPPED == RLX_G_MOST_MAPPED, "GEMMs know which results are mapped");

/* ---- what one session needs ---- */

/* Launches side by side become one part, unless something else stands between. */
static enum rlx_status make_parts(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	uint32_t i;

	x->part = rlx_calloc(c->calls.n_call + 1, sizeof(*x->part));
	if (!x->part)
		return rlx_fail(x->base.err, RLX_ENOMEM, "%s: out of memory",
				c->base.dev->be->name);
	for (i = 0; i < c->calls.n_call; i++) {
		struct gpu_part *last = x->n_part ? &x->part[x->n_part - 1] : NULL;

		if (last && gpu_calls(c)[i].kind == GPU_KERNEL_CALL && !gpu_calls(c)[i].joins &&
		    gpu_calls(c)[last->first].kind == GPU_KERNEL_CALL)
			last->end = i + 1;
		else
			x->part[x->n_part++] = (struct gpu_part){ .first = i, .end = i + 1 };
		last = &x->part[x->n_part - 1];
		if (gpu_calls(c)[i].on_stream >= last->n_stream)
			last->n_stream = gpu_calls(c)[i].on_stream + 1u;
	}
	return RLX_OK;
}

static enum rlx_status make_image(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);

	x->image = rlx_calls_image(&c->calls);
	x->slot = rlx_calloc(c->n_io + 1, sizeof(*x->slot));
	x->tensors = rlx_calloc(c->most_tensors, sizeof(*x->tensors));
	x->extent.leads = rlx_calloc(c->base.plan->n_val, 1);
	x->captured_skip = rlx_calloc((size_t)c->base.plan->n_step + 1, 1);
	if (!x->image || !x->slot || !x->tensors || !x->extent.leads || !x->captured_skip)
		return rlx_fail(x->base.err, RLX_ENOMEM, "%s: out of memory",
				c->base.dev->be->name);
	rlx_calls_bind(&c->calls, x->image, rlx_slot_work(c->base.plan), x->work);
	rlx_calls_bind(&c->calls, x->image, rlx_slot_status(c->base.plan), x->bad);
	return RLX_OK;
}

static void drop_graphs(struct gpu_exec *x)
{
	uint32_t i, on;

	for (i = 0; i < x->n_part; i++) {
		for (on = 0; on < 2; on++) {
			if (x->part[i].graph[on])
				gpu_exec_device(x)->api->graph_exec_free(x->part[i].graph[on]);
			x->part[i].graph[on] = NULL;
		}
	}
}

/* Params seldom move: launches have their addresses and need not look them up. */
static void place_params(struct gpu_exec *x, const uint64_t *table)
{
	const struct gpu_code *c = gpu_exec_code(x);
	uint32_t i;

	for (i = c->first_io[RLX_IO_PARAM]; i < c->first_io[RLX_IO_OUTPUT]; i++)
		rlx_calls_bind(&c->calls, x->image, i, table[i]);
	x->mapped = false;
	drop_graphs(x);
}

/* Where that fails, the next run does it. */
static enum rlx_status clear_bad(struct gpu_exec *x)
{
	uint64_t bytes = (uint64_t)gpu_exec_code(x)->n_bad * sizeof(int32_t);
	struct gpu_device *d = gpu_exec_device(x);
	enum rlx_status st = RLX_OK;

	if (bytes)
		memset(gpu_bad_words(x), 0, bytes);
	if (bytes && !x->bad_mapped)
		st = gpu_check(d, d->api->fill8(x->bad, 0, bytes, x->stream), "clearing",
			       x->base.err);
	x->bad_cleared = !st;
	return st;
}

/*
 * Host memory that runs rely on from one to the next: the table that launches were told
 * of, and status words, which are cleared when they were set. It is the session's alone.
 * base.work is not: sessions may share it, and between runs it is anybody's. Whole pages,
 * as the driver takes them.
 */
static enum rlx_status make_places(struct gpu_exec *x)
{
	enum { PAGE = 4096 };
	const struct gpu_code *c = gpu_exec_code(x);
	struct rlx_arena_user u = {
		.size = (rlx_align64(gpu_table_bytes(c)) +
			 ((uint64_t)c->n_bad + c->most_experts) * 4 + PAGE) / PAGE * PAGE,
	};
	enum rlx_status st;

	u.base = x->places = rlx_aligned(PAGE, u.size);
	if (!x->places)
		return rlx_fail(x->base.err, RLX_ENOMEM, "%s: out of memory",
				c->base.dev->be->name);
	memset(x->places, 0, u.size);
	st = rlx_arena_wrap(&u, &x->places_arena, x->base.err);
	if (!st)	/* not vital: else the driver copies by itself, and status words are */
		x->places_range = gpu_range_get(gpu_exec_device(x), x->places_arena);
	return st;
}

static enum rlx_status make_memory(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	struct gpu_device *d = gpu_exec_device(x);
	struct rlx_error *err = x->base.err;
	enum rlx_status st = make_places(x);

	if (!st)
		st = gpu_workspace_get(d, x->base.work_kept ? NULL : x->base.work,
				       rlx_align64(c->base.plan->work_bytes), &x->workspace, err);
	if (!st)
		x->work = gpu_workspace_at(x->workspace);
	if (!st)
		st = gpu_mem_new(d, c->stage_bytes, &x->stage, err);
	if (!st)
		st = gpu_mem_new(d, gpu_table_bytes(c), &x->table, err);
	if (!st)
		st = gpu_mem_new(d, c->n_stream * RLX_G_ZEROS * 4, &x->zeros, err);
	if (!st)
		st = gpu_check(d, d->api->fill8(x->zeros, 0, c->n_stream * RLX_G_ZEROS * 4,
						x->stream), "clearing", err);
	if (st)
		return st;
	if (c->base.host)	/* not vital: what crosses over is copied faster */
		x->work_range = gpu_range_get(d, x->base.work_arena);
	x->bad = gpu_range_at(x->places_range, gpu_bad_words(x));
	x->bad_mapped = x->bad;
	if (!x->bad_mapped)
		st = gpu_mem_new(d, (uint64_t)c->n_bad * 4, &x->bad, err);
	return st;
}

enum rlx_status gpu_init(struct rlx_exec *exec)
{
	struct gpu_exec *x = (struct gpu_exec *)exec;
	struct gpu_device *d = gpu_exec_device(x);
	enum rlx_status st = gpu_enter(d, exec->err);

	if (!st)
		st = gpu_check(d, d->api->stream_new(&x->stream, GPU_STREAM_APART),
			       "making a stream", exec->err);
	if (!st)
		st = make_memory(x);
	if (!st)
		st = make_image(x);
	if (!st)
		st = make_parts(x);
	if (!st)
		st = gpu_experts_init(x);
	if (st)
		gpu_fini(exec);
	x->changed = true;
	return st;
}

static void drop_slot(struct gpu_exec *x, struct gpu_slot *s)
{
	gpu_range_put(gpu_exec_device(x), s->range);
	gpu_weight_put(gpu_exec_device(x), s->weight);
	s->range = NULL;
	s->weight = NULL;
}

void gpu_fini(struct rlx_exec *exec)
{
	struct gpu_exec *x = (struct gpu_exec *)exec;
	struct gpu_device *d = gpu_exec_device(x);
	uint32_t i;

	d->api->context_set(d->ctx);
	drop_graphs(x);
	gpu_timed_free(x);
	gpu_experts_fini(x);
	gpu_prefetch_fini(x);
	for (i = 0; x->slot && i < gpu_exec_code(x)->n_io; i++) {
		drop_slot(x, &x->slot[i]);
		gpu_mem_free(d, x->slot[i].apart);
	}
	gpu_range_put(d, x->work_range);
	gpu_range_put(d, x->places_range);
	rlx_arena_put(x->places_arena);
	gpu_workspace_put(d, x->workspace);
	gpu_mem_free(d, x->stage);
	gpu_mem_free(d, x->table);
	gpu_mem_free(d, x->zeros);
	if (!x->bad_mapped)
		gpu_mem_free(d, x->bad);
	gpu_side_free(x);
	if (x->stream)
		d->api->stream_free(x->stream);
	rlx_free(x->part);
	rlx_free(x->image);
	rlx_free(x->places);
	rlx_free(x->slot);
	rlx_free(x->tensors);
	rlx_free(x->extent.leads);
	rlx_free(x->captured_skip);
}

/*
 * Looked after at the next run, when every buffer is there. But what a param had before goes now: a
 * session that nobody runs again would keep it in the device.
 */
void gpu_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	struct gpu_exec *x = (struct gpu_exec *)exec;
	struct gpu_slot *s = &x->slot[gpu_exec_code(x)->first_io[io] + i];

	if (s->weight && s->host != exec->ptr[io][i]) {
		gpu_exec_device(x)->api->context_set(gpu_exec_device(x)->ctx);
		gpu_weight_put(gpu_exec_device(x), s->weight);
		s->weight = NULL;
	}
	s->changed = true;
	s->fresh = true;
	x->changed = true;
}

/* ---- rows that carry data ---- */

/* All of them if one of the call's outputs needs it. */
static int64_t live_rows(const struct gpu_exec *x, const struct gpu_call *call)
{
	const struct rlx_plan_step *st = &gpu_exec_code(x)->base.plan->step[call->base.step];
	uint64_t rows, most = 0;
	uint32_t k;

	for (k = 0; k < st->n_out; k++) {
		rows = rlx_extent_of(&x->base, x->extent.leads, st->out[k],
				     (uint64_t)call->base.rows);
		most = rows > most ? rows : most;
	}
	return (int64_t)most;
}

/* For kernels that look there: see struct rlx_g_env. */
static void put_live(const struct gpu_exec *x, struct gpu_live *live)
{
	const struct gpu_code *c = gpu_exec_code(x);
	const struct gpu_call *call = gpu_calls(c), *end = call + c->calls.n_call;

	for (; x->base.extent && call < end; call++, live++) {
		if (call->base.rows)
			live->rows = live_rows(x, call);
		if (call->base.checked.n)
			live->checked = rlx_extent_checked(&x->base, x->extent.leads,
							   &call->base.checked);
	}
}

/* ---- buffers ---- */

/* Where kernels find it, if it is not in place. */
static uint64_t place_of(const struct gpu_exec *x, uint32_t i)
{
	const struct gpu_slot *s = &x->slot[i];

	if (s->in_ahead)
		return s->ahead;
	return s->apart && !s->persistent ? s->apart : x->stage + gpu_exec_code(x)->io[i].at;
}

/* Does an output take the place of input @i in each run? */
static bool is_replaced(const struct gpu_exec *x, uint32_t i)
{
	return gpu_is_pair(gpu_exec_code(x), i) && !x->slot[i].persistent && !x->slot[i].apart;
}

/* Is what input @i holds on the device, and known to be the same? */
static bool is_here(const struct gpu_exec *x, uint32_t i)
{
	uint64_t v = rlx_input_version(&x->base, i);

	return v && x->slot[i].version == v;
}

static enum rlx_status take_param(struct gpu_exec *x, const struct gpu_io *io,
				  struct gpu_slot *s, uint64_t *out_at, bool *moved)
{
	struct gpu_device *d = gpu_exec_device(x);
	bool same = s->weight && s->host == x->base.ptr[RLX_IO_PARAM][io->index];
	enum rlx_status st;

	if (same) {
		st = gpu_weight_renew(d, s->weight, x->base.err);
	} else {
		gpu_weight_put(d, s->weight);
		s->weight = NULL;
		st = gpu_weight_get(d, x->base.ptr[RLX_IO_PARAM][io->index], io->bytes, NULL,
				    &s->weight, x->base.err);
		if (!st)
			st = gpu_weights_load(d, &s->weight, 1, x->base.err);
		if (st) {	/* or the next run takes it for one that launches know */
			gpu_weight_put(d, s->weight);
			s->weight = NULL;
		}
	}
	if (!st && !gpu_weight_is_resident(s->weight))
		gpu_count_in(x, io->bytes);
	if (!st)
		*out_at = gpu_weight_at(s->weight);
	*moved = *moved || !same;
	return st;
}

/*
 * Small and registered: in place, or copied by the first launch. Else staged, by DMA
 * where it is registered.
 */
static uint64_t take_buffer(struct gpu_exec *x, const struct gpu_io *io, struct gpu_slot *s,
			    struct rlx_g_piece *piece)
{
	struct rlx_arena *a = x->base.arena[io->io][io->index];
	struct gpu_range *old = s->range;
	uint64_t at;

	s->range = s->at ? NULL : gpu_range_get(gpu_exec_device(x), a);
	gpu_range_put(gpu_exec_device(x), old);	/* after, so that it may be the same */
	at = gpu_range_at(s->range, x->base.ptr[io->io][io->index]);
	/* an output that kernels read back stays what was written */
	s->mapped = at && io->bytes <= GPU_MOST_MAPPED &&
		    !(io->io == RLX_IO_OUTPUT && io->readers) &&
		    !gpu_is_pair(gpu_exec_code(x), (uint32_t)(s - x->slot));
	s->taken = s->mapped && piece;
	if (piece)
		*piece = (struct rlx_g_piece){ s->taken ? at : 0, x->stage + io->at, io->bytes };
	/* in place only where tiles can be read from */
	s->mapped = s->mapped && !s->taken && at % 16 == 0;
	if (s->direct)
		return s->at;
	return s->mapped ? at : place_of(x, (uint32_t)(s - x->slot));
}

/* Maps of buffers that a run binds, and at first of all others, behind @table. */
static enum rlx_status make_maps(struct gpu_exec *x, const uint64_t *table)
{
	const struct gpu_code *c = gpu_exec_code(x);
	unsigned char *map = (unsigned char *)table + gpu_tensor_maps_at(c);
	enum rlx_status st = RLX_OK;
	uint32_t i, j;

	for (i = 0; i < c->calls.n_call && !st; i++)
		for (j = 0; j < gpu_calls(c)[i].launch.n_map && !st;
		     j++, map += RLX_G_TENSOR_MAP_BYTES) {
			const struct gpu_call *call = &gpu_calls(c)[i];
			const struct rlx_g_tensor_map *m = &call->launch.map[j];
			uint64_t at = x->work + call->scratch_at + m->field;

			if (!m->in_scratch)
				memcpy(&at, x->image + call->base.args + m->field, sizeof(at));
			if (!m->in_scratch && at & RLX_G_INDIRECT)
				at = gpu_looked_up(table, at);
			else if (x->mapped)
				continue;
			st = gpu_tensor_map_make(gpu_exec_device(x), m, at, map, x->base.err);
		}
	x->mapped = !st;
	return st;
}

static enum rlx_status upload_table(struct gpu_exec *x)
{
	uint64_t bytes = gpu_table_bytes(gpu_exec_code(x));
	struct gpu_device *d = gpu_exec_device(x);

	return !bytes ? RLX_OK :
	       gpu_check(d, d->api->copy_in(x->table, x->places, bytes, x->stream),
			 "copying addresses in", x->base.err);
}

static enum rlx_status take_changes(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	uint64_t *table = x->places;
	struct rlx_g_piece *piece = (void *)(table + c->n_io);
	enum rlx_status st = RLX_OK;
	bool moved = false, bound = !x->mapped;
	uint32_t i;

	if (!x->changed)
		return RLX_OK;
	gpu_take_buffers(x);
	for (i = 0; i < c->n_io && !st; i++) {
		const struct gpu_io *io = &c->io[i];
		struct gpu_slot *s = &x->slot[i];

		if (!s->changed || !io->on_device)
			continue;
		bound = true;
		gpu_prefetch_take(x, i);
		if (io->io == RLX_IO_PARAM)
			st = take_param(x, io, s, &table[i], &moved);
		else
			table[i] = take_buffer(
				x, io, s,
				c->gathers_inputs && io->io == RLX_IO_INPUT ? &piece[i] : NULL);
		s->host = x->base.ptr[io->io][io->index];
		s->changed = st;
	}
	if (moved)
		place_params(x, table);
	put_live(x, (void *)((char *)table + gpu_live_at(c)));
	if (!st && bound)
		st = make_maps(x, table);
	if (!st)
		st = upload_table(x);
	x->changed = st;
	return st;
}

/*
 * An input that stays, by promise or as the last run had the same, is not to be replaced by an
 * output: it gets memory of its own. Without any left, each run brings it.
 */
static void set_apart(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	uint32_t i;

	for (i = 0; i < c->first_io[RLX_IO_PARAM]; i++) {
		uint64_t v = rlx_input_version(&x->base, i);
		struct gpu_slot *s = &x->slot[i];

		if (!v || !(x->base.content[i].promised || s->uploaded == v) ||
		    !is_replaced(x, i) || c->io[i].one || c->io[c->io[i].donated - 1].one ||
		    gpu_mem_new(gpu_exec_device(x), c->io[i].bytes, &s->apart,
				&(struct rlx_error){ 0 }))
			continue;
		s->changed = true;
		x->changed = true;
	}
}

/* The first launch brings what is not there: it reads so in the table, graphs stay. */
static void choose_pieces(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	struct rlx_g_piece *piece = (void *)(x->places + c->n_io);
	uint32_t i;

	for (i = 0; i < c->first_io[RLX_IO_PARAM]; i++) {
		const struct gpu_slot *s = &x->slot[i];
		uint64_t from;

		if (!s->taken || s->changed)	/* which is uploaded */
			continue;
		from = is_here(x, i) ? 0 : gpu_range_at(s->range, s->host);
		x->changed = x->changed || piece[i].from != from;
		piece[i].from = from;
	}
}

static void count_copy(struct gpu_exec *x, const struct gpu_slot *s, uint64_t bytes)
{
	if (!s->range)		/* pageable: the driver moves it by a CPU */
		x->base.copied += bytes;
}

static enum rlx_status stage_inputs(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	struct gpu_device *d = gpu_exec_device(x);
	uint32_t i;
	int rc = 0;

	for (i = 0; i < c->first_io[RLX_IO_PARAM] && !rc; i++) {
		const struct gpu_io *io = &c->io[i];
		struct gpu_slot *s = &x->slot[i];

		if (s->at)
			rc = gpu_stage_buffer(x, i, place_of(x, i));
		if (s->at || !io->on_device || s->mapped || !io->bytes ||
		    (s->persistent ? !s->fresh : is_here(x, i)))
			continue;
		if (s->came) {
			rc = gpu_prefetch_wait(x, i);
		} else if (!s->taken) {	/* else by the first launch */
			rc = d->api->copy_in(place_of(x, i), s->host, io->bytes, x->stream);
			count_copy(x, s, io->bytes);
			s->fresh = rc;
		}
		gpu_count_in(x, io->bytes);
		s->uploaded = rlx_input_version(&x->base, i);
		s->version = s->persistent || is_replaced(x, i) ? 0 : s->uploaded;
	}
	return gpu_check(d, rc, "copying inputs in", x->base.err);
}

static uint32_t val_of(const struct gpu_exec *x, uint32_t i)
{
	const struct gpu_io *io = &gpu_exec_code(x)->io[i];

	return x->base.code->plan->io[io->io][io->index].val;
}

static enum rlx_status fetch_outputs(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	struct gpu_device *d = gpu_exec_device(x);
	uint64_t bytes;
	uint32_t i;
	int rc = 0;

	for (i = c->first_io[RLX_IO_OUTPUT]; i < c->n_io && !rc; i++) {
		const struct gpu_io *io = &c->io[i];

		if (!io->bytes || gpu_skips(x, io->writer) || x->slot[i].persistent)
			continue;
		/* rows that carry none are left as they are */
		bytes = rlx_extent_of(&x->base, x->extent.leads, val_of(x, i), io->bytes);
		if (x->slot[i].at)
			rc = gpu_settle_buffer(x, i, bytes);
		if (x->slot[i].at || !io->out || x->slot[i].mapped)
			continue;
		rc = d->api->copy_out(x->slot[i].host, x->stage + io->at, bytes, x->stream);
		count_copy(x, &x->slot[i], bytes);
		gpu_count_out(x, bytes);
	}
	return gpu_check(d, rc, "copying outputs out", x->base.err);
}

/* ---- outputs that stay as the inputs they replace ---- */

bool gpu_keep(struct rlx_exec *exec, unsigned int i, bool on)
{
	struct gpu_exec *x = (struct gpu_exec *)exec;
	const struct gpu_code *c = gpu_exec_code(x);
	uint32_t out = c->first_io[RLX_IO_OUTPUT] + i, in = c->io[out].donated - 1;

	/* what the host makes or reads must be where it looks */
	if (!gpu_is_pair(c, out) || !c->io[out].out || c->io[in].on_host)
		return false;
	x->slot[out].persistent = x->slot[in].persistent = on;
	x->slot[in].fresh = true;
	x->slot[in].version = 0;
	if (x->slot[in].apart) {	/* kernels find it elsewhere from now on */
		x->slot[in].changed = true;
		x->changed = true;
	}
	return on;
}

enum rlx_status gpu_fetch(struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	struct gpu_exec *x = (struct gpu_exec *)exec;
	const struct gpu_code *c = gpu_exec_code(x);
	uint32_t at = c->first_io[io] + i, in = io == RLX_IO_INPUT ? at : c->io[at].donated - 1;
	struct gpu_device *d = gpu_exec_device(x);
	enum rlx_status st = RLX_OK;

	if (x->slot[in].fresh)		/* the host has what the next run begins with */
		return RLX_OK;
	st = gpu_enter(d, exec->err);
	if (!st)
		st = gpu_check(d, d->api->copy_out(exec->ptr[io][i], x->stage + c->io[at].at,
						   c->io[at].bytes, x->stream),
			       "copying a kept output out", exec->err);
	if (!st)
		gpu_count_out(x, c->io[at].bytes);
	return st ? st : gpu_check(d, d->api->stream_wait(x->stream),
				   "copying a kept output out", exec->err);
}

static bool has_param(struct gpu_exec *x, const struct gpu_slot *s, const void *p, uint64_t bytes)
{
	struct gpu_device *d = gpu_exec_device(x);

	if (s->weight && !s->changed)
		return gpu_weight_is_here(d, s->weight);
	return gpu_is_resident(d, p, bytes);
}

bool gpu_has(const struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	struct gpu_exec *x = (struct gpu_exec *)(uintptr_t)exec;
	const struct gpu_code *c = gpu_exec_code(x);
	const uint32_t at = c->first_io[io] + i;
	const struct gpu_slot *s = &x->slot[at];

	if (!c->io[at].on_device)
		return false;
	if (io == RLX_IO_PARAM)
		return has_param(x, s, exec->ptr[io][i], c->io[at].bytes);
	if (s->persistent)
		return !x->slot[io == RLX_IO_INPUT ? at : c->io[at].donated - 1].fresh;
	return io == RLX_IO_INPUT && is_here(x, at);
}

/* Status words that kernels set when they met bad data. */
static enum rlx_status check_bad(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	const int32_t *bad = gpu_bad_words(x);
	const struct gpu_call *call, *met = NULL;
	enum rlx_status st;
	bool any = false;

	for (call = gpu_calls(c); call < gpu_calls(c) + c->calls.n_call && !met; call++) {
		if (!gpu_is_launch(call) || !call->bad || !bad[call->bad - 1])
			continue;
		any = true;	/* by a launch of several steps, of which this one is left out */
		if (!gpu_skips(x, call->base.step))
			met = call;
	}
	st = any ? clear_bad(x) : RLX_OK;
	return st || !met ? st : rlx_lower_bad_data(&c->base.plan->step[met->base.step],
						    x->base.err);
}

/* Graphs leave out what the runs did that they were captured in. */
static void follow_skip(struct gpu_exec *x)
{
	const uint32_t n = gpu_exec_code(x)->base.plan->n_step;
	const uint8_t *skip = x->base.skip;

	if (x->skipping == (skip != NULL) && (!skip || !memcmp(x->captured_skip, skip, n)))
		return;
	drop_graphs(x);
	x->skipping = skip;
	if (skip)
		memcpy(x->captured_skip, skip, n);
}

/* Bring what changed since the last run to the device. */
static enum rlx_status prepare(struct gpu_exec *x)
{
	enum rlx_status st = RLX_OK;

	follow_skip(x);
	if (rlx_extent_changes(&x->base, &x->extent))
		x->changed = true;
	if (!x->bad_cleared)
		st = clear_bad(x);
	if (st)
		return st;
	set_apart(x);
	choose_pieces(x);
	st = take_changes(x);
	return st ? st : gpu_experts_prepare(x);
}

static enum rlx_status begin(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	struct gpu_device *d = gpu_exec_device(x);
	enum rlx_status st = stage_inputs(x);

	if (!st)
		st = gpu_run_parts(x);
	if (!st)
		st = fetch_outputs(x);
	if (!st && c->n_bad && !x->bad_mapped)
		st = gpu_check(d, d->api->copy_out(gpu_bad_words(x), x->bad,
						   (uint64_t)c->n_bad * 4, x->stream),
			       "copying status out", x->base.err);
	return st;
}

/* For faults of kernels that nobody waited for one by one. */
static const char running[] = "running (RLX_DEBUG=run names the op)";

/* Also after a failure @st: nothing may be under way in the caller's buffers. */
static enum rlx_status end(struct gpu_exec *x, enum rlx_status st)
{
	struct gpu_device *d = gpu_exec_device(x);
	enum rlx_status ran = gpu_check(d, d->api->stream_wait(x->stream), running,
					st ? &(struct rlx_error){ 0 } : x->base.err);
	uint32_t i;

	st = st ? st : ran;
	if (st) {		/* the next run is not told of this one's data */
		gpu_experts_settle(x);
		clear_bad(x);
	}
	for (i = 0; st && i < gpu_exec_code(x)->first_io[RLX_IO_PARAM]; i++)
		x->slot[i].version = 0;		/* nor relies on what was not all uploaded */
	return st || !gpu_exec_code(x)->n_bad ? st : check_bad(x);
}

/*
 * Would a run be waited for before it is done: by a step of the host's, or by the driver,
 * which moves what is not registered by itself?
 */
static bool is_waited_for(const struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	uint32_t i;

	if (x->n_part > 1 || (x->n_part && gpu_calls(c)[0].kind != GPU_KERNEL_CALL) ||
	    !x->places_range || x->base.step_ns || rlx_debug_on(RLX_DEBUG_RUN))
		return true;
	for (i = 0; i < c->n_io; i++)
		if (c->io[i].io != RLX_IO_PARAM && c->io[i].on_device && c->io[i].bytes &&
		    !x->slot[i].range && !x->slot[i].at)
			return true;
	return false;
}

enum rlx_status gpu_submit(struct rlx_exec *exec, bool away, uint64_t *out_point)
{
	struct gpu_exec *x = (struct gpu_exec *)exec;
	enum rlx_status st = gpu_enter(gpu_exec_device(x), exec->err);

	*out_point = 0;
	if (st)
		return st;
	st = prepare(x);
	if (!st && away && is_waited_for(x))
		return RLX_OK;
	if (!st)
		st = begin(x);
	if (st)
		return end(x, st);
	*out_point = ++x->point;
	return RLX_OK;
}

enum { NOT_READY = 600, SPIN_NS = 100000 };

/* Asks all the time at first, as most runs are short, then ever more seldom. */
static bool goes_on(struct gpu_exec *x, uint64_t timeout)
{
	uint64_t from = rlx_now(), spent, nap;

	while (gpu_exec_device(x)->api->stream_query(x->stream) == NOT_READY) {
		spent = rlx_now() - from;
		if (spent >= timeout)
			return true;
		nap = spent / 8 < timeout - spent ? spent / 8 : timeout - spent;
		if (spent > SPIN_NS)
			nanosleep(&(struct timespec){ .tv_sec = (time_t)(nap / 1000000000),
						      .tv_nsec = (long)(nap % 1000000000) },
				  NULL);
	}
	return false;
}

enum rlx_status gpu_wait(struct rlx_exec *exec, uint64_t point, int64_t timeout_ns)
{
	struct gpu_exec *x = (struct gpu_exec *)exec;
	struct gpu_device *d = gpu_exec_device(x);
	/* whatever call is the first to tell of a fault */
	enum rlx_status st = gpu_check(d, d->api->context_set(d->ctx), running, exec->err);

	(void)point;		/* the stream has one run at a time */
	if (!st && timeout_ns >= 0 && goes_on(x, (uint64_t)timeout_ns))
		return RLX_ETIME;
	return end(x, st);
}
