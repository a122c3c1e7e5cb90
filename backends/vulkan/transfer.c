// SPDX-License-Identifier: MIT
/*
 * Where the device has memory of its own: constants and params are uploaded once, inputs and
 * outputs copied around each run by commands of their own, from and to the arenas that the
 * driver imports, or memory of the driver's that the host copies them to.
 */
#include <string.h>

#include "backends/vulkan/vk.h"
#include "base/alloc.h"

/* ---- commands that copy ---- */

static void barrier(struct vk_device *d, VkCommandBuffer c, VkPipelineStageFlags from,
		    VkAccessFlags written, VkPipelineStageFlags to, VkAccessFlags used)
{
	const VkMemoryBarrier b = { VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = written, .dstAccessMask = used };

	d->api.CmdPipelineBarrier(c, from, to, 0, 1, &b, 0, NULL, 0, NULL);
}

/* Copies come after all that was submitted. */
static VkResult begin(struct vk_device *d, VkCommandPool pool, VkCommandBuffer *out)
{
	VkResult r = vk_commands_begin(d, pool, out);

	if (!r)
		barrier(d, *out, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT |
			VK_PIPELINE_STAGE_TRANSFER_BIT,
			VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
			VK_PIPELINE_STAGE_TRANSFER_BIT,
			VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
	return r;
}

/* And all that will be, and the host, behind them. */
static VkResult end(struct vk_device *d, VkCommandBuffer c)
{
	barrier(d, c, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
		VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT |
		VK_PIPELINE_STAGE_HOST_BIT,
		VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
		VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT |
		VK_ACCESS_HOST_READ_BIT);
	return d->api.EndCommandBuffer(c);
}

static void copy(struct vk_device *d, VkCommandBuffer c, const struct vk_region *from,
		 const struct vk_region *to, uint64_t bytes)
{
	const VkBufferCopy how = { from->off, to->off, bytes };

	if (bytes)
		d->api.CmdCopyBuffer(c, from->buf, to->buf, 1, &how);
}

/* ---- uploads ---- */

enum { STAGE_BYTES = 16 << 20 };

static enum rlx_status upload_begin(struct vk_device *d, struct rlx_error *err)
{
	struct vk_upload *u = &d->upload;
	enum rlx_status st = RLX_OK;
	VkResult r;

	if (u->commands)
		return RLX_OK;
	if (!u->line.timeline)
		st = vk_line_new(d, &u->line, err);
	if (!st && !u->stage.block)
		st = vk_span_new(d, VK_STAGING, STAGE_BYTES, &u->stage, err);
	if (st)
		return st;
	r = vk_pool_new(d, &u->pool);
	if (!r)
		r = begin(d, u->pool, &u->commands);
	u->used = 0;
	return vk_check(d, r, "recording an upload", err);
}

enum rlx_status vk_upload_end(struct vk_device *d, struct rlx_error *err)
{
	struct vk_upload *u = &d->upload;
	enum rlx_status st = RLX_OK;

	if (u->commands) {
		st = vk_check(d, end(d, u->commands), "recording an upload", err);
		if (!st)
			st = vk_line_submit(d, &u->line, &u->commands, 1, err);
		if (!st)
			st = vk_line_wait(d, &u->line, UINT64_MAX, err);
	}
	d->api.DestroyCommandPool(d->dev, u->pool, NULL);
	u->pool = VK_NULL_HANDLE;
	u->commands = NULL;
	return st;
}

enum rlx_status vk_upload_add(struct vk_device *d, const struct vk_span *to, const void *from,
			      uint64_t bytes, struct rlx_error *err)
{
	struct vk_upload *u = &d->upload;
	struct vk_region source, target = vk_span_region(to);
	const char *p = from;
	enum rlx_status st;
	uint64_t n;

	if (to->map) {
		if (bytes)
			memcpy(to->map, from, bytes);
		return RLX_OK;
	}
	for (; bytes; bytes -= n, p += n, target.off += n) {
		st = u->commands && u->used == STAGE_BYTES ? vk_upload_end(d, err) : RLX_OK;
		if (!st)
			st = upload_begin(d, err);
		if (st)
			return st;
		n = bytes < STAGE_BYTES - u->used ? bytes : STAGE_BYTES - u->used;
		memcpy(u->stage.map + u->used, p, n);
		source = vk_span_region(&u->stage);
		source.off += u->used;
		copy(d, u->commands, &source, &target, n);
		u->used = rlx_align64(u->used + n);
	}
	return RLX_OK;
}

enum rlx_status vk_upload(struct vk_device *d, const struct vk_span *to, const void *from,
			  uint64_t bytes, struct rlx_error *err)
{
	enum rlx_status st, ended;

	pthread_mutex_lock(&d->upload.lock);
	st = vk_upload_add(d, to, from, bytes, err);
	ended = vk_upload_end(d, st ? NULL : err);
	pthread_mutex_unlock(&d->upload.lock);
	return st ? st : ended;
}

void vk_upload_free(struct vk_device *d)
{
	vk_line_free(d, &d->upload.line);
	vk_span_free(d, &d->upload.stage);
}

/* ---- what a session has bound ---- */

static struct vk_device *device_of(const struct vk_exec *x)
{
	return vk_device_of(x->base.code);
}

static const struct vk_code *code_of(const struct vk_exec *x)
{
	return (const struct vk_code *)x->base.code;
}

static uint64_t bytes_of(const struct vk_exec *x, enum rlx_io io, uint32_t i)
{
	return rlx_plan_bytes(x->base.code->plan, x->base.code->plan->io[io][i].val);
}

static const struct vk_io *io_of(const struct vk_exec *x, enum rlx_io io, uint32_t i)
{
	return &code_of(x)->io[rlx_slot_of(x->base.code->plan, io, i)];
}

/* What kernels use of a buffer. An output and the input that it replaces are one there. */
static struct vk_span *local_of(struct vk_exec *x, enum rlx_io io, uint32_t i)
{
	uint32_t in = io == RLX_IO_OUTPUT ? x->base.code->plan->io[io][i].donated : 0;

	if (in && !x->slot[RLX_IO_INPUT][in - 1].apart &&
	    bytes_of(x, RLX_IO_INPUT, in - 1) == bytes_of(x, io, i))
		return &x->slot[RLX_IO_INPUT][in - 1].local;
	return &x->slot[io][i].local;
}

static enum rlx_status take_buffer(struct vk_exec *x, enum rlx_io io, uint32_t i)
{
	const bool discrete = device_of(x)->discrete;
	struct vk_span *local = local_of(x, io, i);
	const uint64_t bytes = bytes_of(x, io, i);
	struct vk_slot *s = &x->slot[io][i];
	enum rlx_status st;

	if (!io_of(x, io, i)->used || !x->base.ptr[io][i])
		return RLX_OK;		/* the host finds it where it is */
	st = vk_reach(x, s, x->base.arena[io][i], x->base.ptr[io][i], bytes, x->base.err);
	if (!st && discrete && !local->block)
		st = vk_span_new(device_of(x), VK_LOCAL, bytes, local, x->base.err);
	if (!st)
		vk_at_slot(x, rlx_slot_of(x->base.code->plan, io, i),
			   discrete ? local->at : s->host.at);
	return st;
}

/* All that were bound since, so that they are uploaded together. */
static enum rlx_status take_params(struct vk_exec *x)
{
	const struct rlx_plan *p = x->base.code->plan;
	struct vk_device *d = device_of(x);
	enum rlx_status st = RLX_OK;
	struct vk_weight *old;
	uint32_t i;

	for (i = 0; i < p->n_io[RLX_IO_PARAM] && !st; i++) {
		struct vk_slot *s = &x->slot[RLX_IO_PARAM][i];
		const void *at = x->base.ptr[RLX_IO_PARAM][i];

		x->params[i] = NULL;
		if (!s->changed || !at || !io_of(x, RLX_IO_PARAM, i)->used)
			continue;
		old = s->weight;
		s->weight = NULL;
		st = vk_weight_get(d, at, bytes_of(x, RLX_IO_PARAM, i), NULL, &s->weight,
				   x->base.err);
		vk_weight_put(d, old);
		x->params[i] = s->weight;
	}
	if (!st)
		st = vk_weights_load(d, x->params, p->n_io[RLX_IO_PARAM], x->base.err);
	for (i = 0; i < p->n_io[RLX_IO_PARAM] && !st; i++) {
		if (!x->params[i])
			continue;
		vk_at_slot(x, rlx_slot_of(p, RLX_IO_PARAM, i), vk_weight_at(x->params[i]));
		vk_count(&x->base.moved, true, bytes_of(x, RLX_IO_PARAM, i));
		x->base.copied += bytes_of(x, RLX_IO_PARAM, i);
	}
	return st;
}

static enum rlx_status take_slots(struct vk_exec *x)
{
	const struct rlx_plan *p = x->base.code->plan;
	const bool discrete = device_of(x)->discrete;
	enum rlx_status st = discrete ? take_params(x) : RLX_OK;
	uint32_t i;
	int io;

	x->staged = false;
	for (io = 0; io < 3; io++)
		for (i = 0; i < p->n_io[io] && !st; i++) {
			struct vk_slot *s = &x->slot[io][i];

			if (s->changed && (io != RLX_IO_PARAM || !discrete))
				st = take_buffer(x, io, i);
			x->staged = x->staged || s->stage.block;
		}
	for (io = 0; io < 3; io++)	/* after a failure all are looked at once more */
		for (i = 0; i < p->n_io[io] && !st; i++)
			x->slot[io][i].changed = false;
	x->changed = st;
	x->moves = false;
	return st;
}

void vk_stage(struct vk_exec *x, enum rlx_io io, uint32_t i, uint64_t at, uint64_t bytes, bool in)
{
	const struct vk_slot *s = &x->slot[io][i];
	char *host = (char *)x->base.ptr[io][i] + at;

	if (!s->stage.block || !bytes)
		return;
	if (in)
		memcpy(s->stage.map + at, host, bytes);
	else
		memcpy(host, s->stage.map + at, bytes);
	x->base.copied += bytes;
}

/* ---- what a run copies ---- */

/* 1 + the output that takes the place of input @i in each run, or 0. */
static uint32_t replacing(struct vk_exec *x, uint32_t i)
{
	const struct rlx_plan *p = x->base.code->plan;
	uint32_t o;

	for (o = 0; o < p->n_io[RLX_IO_OUTPUT]; o++)
		if (p->io[RLX_IO_OUTPUT][o].donated == i + 1 &&
		    !x->slot[RLX_IO_INPUT][i].persistent &&
		    local_of(x, RLX_IO_OUTPUT, o) == &x->slot[RLX_IO_INPUT][i].local)
			return o + 1;
	return 0;
}

/*
 * An input that stays, by promise or as the last run had the same, is not to be replaced: the
 * output gets memory of its own. Without any left, each run brings the input.
 */
static void set_apart(struct vk_exec *x)
{
	uint32_t i, n = x->base.code->plan->n_io[RLX_IO_INPUT], o;

	for (i = 0; i < n; i++) {
		uint64_t v = rlx_input_version(&x->base, i);
		struct vk_slot *s = &x->slot[RLX_IO_INPUT][i], *out;

		if (!v || !(x->base.content[i].promised || s->uploaded == v))
			continue;
		o = replacing(x, i);
		if (!o)
			continue;
		out = &x->slot[RLX_IO_OUTPUT][o - 1];
		if (!out->local.block &&
		    vk_span_new(device_of(x), VK_LOCAL, bytes_of(x, RLX_IO_OUTPUT, o - 1),
				&out->local, &(struct rlx_error){ 0 }))
			continue;
		s->apart = true;
		out->changed = true;
		x->changed = true;
	}
}

/* Is what input @i holds on the device, and known to be the same? */
static bool is_here(const struct vk_exec *x, uint32_t i)
{
	uint64_t v = rlx_input_version(&x->base, i);

	return v && x->slot[RLX_IO_INPUT][i].version == v;
}

/* Does a run bring input @i, or fetch output @i? Nothing is fetched that no kernel wrote. */
static bool is_moved(const struct vk_exec *x, enum rlx_io io, uint32_t i)
{
	const struct vk_io *is = io_of(x, io, i);
	const struct vk_slot *s = &x->slot[io][i];

	if (!is->used || !x->base.ptr[io][i] || !bytes_of(x, io, i))
		return false;
	if (io == RLX_IO_INPUT)
		return s->persistent ? s->fresh : !is_here(x, i);
	return is->writer && !vk_skips(x, is->writer - 1) && !s->persistent;
}

/* Rows that carry no data are left as they are. */
static uint64_t moved_bytes(const struct vk_exec *x, enum rlx_io io, uint32_t i)
{
	const uint32_t val = x->base.code->plan->io[io][i].val;
	const uint64_t all = bytes_of(x, io, i);

	return io == RLX_IO_INPUT ? all : rlx_extent_of(&x->base, x->extent.leads, val, all);
}

static VkResult record_around(struct vk_exec *x, enum rlx_io io, VkCommandBuffer *out)
{
	const struct rlx_plan *p = x->base.code->plan;
	struct vk_device *d = device_of(x);
	VkResult r = VK_SUCCESS;
	uint64_t bytes;
	uint32_t i;

	*out = NULL;
	for (i = 0; i < p->n_io[io] && !r; i++) {
		const struct vk_region *host = &x->slot[io][i].host;
		struct vk_region local;

		x->slot[io][i].moved = is_moved(x, io, i);
		if (!x->slot[io][i].moved)
			continue;
		if (!*out)
			r = begin(d, x->copies, out);
		if (r)
			break;
		local = vk_span_region(local_of(x, io, i));
		bytes = moved_bytes(x, io, i);
		copy(d, *out, io == RLX_IO_INPUT ? host : &local,
		     io == RLX_IO_INPUT ? &local : host, bytes);
		vk_count(&x->each, io == RLX_IO_INPUT, bytes);
	}
	return *out && !r ? end(d, *out) : r;
}

/* Both places of a value that crosses. */
static void places_of(struct vk_exec *x, uint32_t v, struct vk_region *host,
		      struct vk_region *local)
{
	const struct rlx_place *at = &x->base.code->plan->val[v].place;

	if (at->kind == RLX_PLACE_WORK) {
		*host = x->work.host;
		*local = vk_span_region(&x->work.local);
	} else {
		*host = x->slot[RLX_IO_OUTPUT][at->index].host;
		*local = vk_span_region(local_of(x, RLX_IO_OUTPUT, at->index));
	}
	host->off += at->offset;
	local->off += at->offset;
}

/* Values [from, from + n) of those that cross, to the host or from there. */
static VkResult record_transfers(struct vk_exec *x, uint32_t from, uint32_t n, bool to_host,
				 VkCommandBuffer *out)
{
	const struct vk_code *c = code_of(x);
	struct vk_device *d = device_of(x);
	struct vk_region host, local;
	VkResult r;
	uint32_t i;

	*out = NULL;
	if (!n)
		return VK_SUCCESS;
	r = begin(d, x->copies, out);
	for (i = from; i < from + n && !r; i++) {
		places_of(x, c->transfer[i], &host, &local);
		copy(d, *out, to_host ? &local : &host, to_host ? &host : &local,
		     rlx_plan_bytes(c->base.plan, c->transfer[i]));
	}
	return r ? r : end(d, *out);
}

static VkResult record_step(struct vk_exec *x, struct vk_segment *s)
{
	const struct vk_call *call = &vk_calls(code_of(x))[s->first];
	VkResult r;

	r = record_transfers(x, call->transfer, call->n_fetch, true, &s->commands);
	return r ? r : record_transfers(x, call->transfer + call->n_fetch, call->n_upload, false,
					&s->upload);
}

static enum rlx_status record_copies(struct vk_exec *x)
{
	struct vk_device *d = device_of(x);
	VkResult r;
	uint32_t i;

	d->api.DestroyCommandPool(d->dev, x->copies, NULL);
	x->each = (struct rlx_transfers){ 0 };
	r = vk_pool_new(d, &x->copies);
	if (!r)
		r = record_around(x, RLX_IO_INPUT, &x->in);
	if (!r)
		r = record_around(x, RLX_IO_OUTPUT, &x->out);
	for (i = 0; i < x->n_segment && !r; i++)
		if (vk_calls(code_of(x))[x->segment[i].first].kind == RLX_CALL_HOST)
			r = record_step(x, &x->segment[i]);
	x->moves = !r;
	return vk_check(d, r, "recording copies", x->base.err);
}

/* Does a run bring the same inputs as the one that it was recorded for? */
static bool uploads_others(const struct vk_exec *x)
{
	uint32_t i, n = x->base.code->plan->n_io[RLX_IO_INPUT];

	for (i = 0; i < n; i++)
		if (x->slot[RLX_IO_INPUT][i].moved != is_moved(x, RLX_IO_INPUT, i))
			return true;
	return false;
}

enum rlx_status vk_take_changes(struct vk_exec *x)
{
	enum rlx_status st;

	if (!device_of(x)->discrete)
		return x->changed ? take_slots(x) : RLX_OK;
	set_apart(x);
	st = x->changed ? take_slots(x) : RLX_OK;
	return st || (x->moves && !uploads_others(x)) ? st : record_copies(x);
}

void vk_took_inputs(struct vk_exec *x, bool all)
{
	uint32_t i, n = device_of(x)->discrete ? x->base.code->plan->n_io[RLX_IO_INPUT] : 0;

	for (i = 0; i < n; i++) {
		struct vk_slot *s = &x->slot[RLX_IO_INPUT][i];

		if (!all)
			s->version = 0;
		if (!all || !s->moved)
			continue;
		s->fresh = false;
		s->uploaded = rlx_input_version(&x->base, i);
		s->version = s->persistent || (s->uploaded && replacing(x, i)) ? 0 : s->uploaded;
	}
}

/* ---- outputs that stay as the inputs they replace ---- */

bool vk_keep(struct rlx_exec *exec, unsigned int i, bool on)
{
	struct vk_exec *x = (struct vk_exec *)exec;
	const uint32_t in = exec->code->plan->io[RLX_IO_OUTPUT][i].donated - 1;

	/* what the host reads or makes must be where it looks */
	if (!device_of(x)->discrete || !io_of(x, RLX_IO_OUTPUT, i)->writer ||
	    io_of(x, RLX_IO_INPUT, in)->on_host ||
	    bytes_of(x, RLX_IO_OUTPUT, i) != bytes_of(x, RLX_IO_INPUT, in))
		return false;
	if (x->slot[RLX_IO_INPUT][in].apart) {	/* they are one again */
		x->slot[RLX_IO_INPUT][in].apart = false;
		x->slot[RLX_IO_OUTPUT][i].changed = true;
		x->changed = true;
	}
	x->slot[RLX_IO_INPUT][in].version = 0;
	x->slot[RLX_IO_OUTPUT][i].persistent = x->slot[RLX_IO_INPUT][in].persistent = on;
	x->slot[RLX_IO_INPUT][in].fresh = true;
	x->moves = false;
	return on;
}

/* From the device to what is bound as @io @i, and waited for. */
static enum rlx_status fetch_now(struct vk_exec *x, enum rlx_io io, uint32_t i)
{
	struct vk_device *d = device_of(x);
	struct vk_region local = vk_span_region(local_of(x, io, i));
	VkCommandPool pool = VK_NULL_HANDLE;
	VkCommandBuffer c = NULL;
	VkResult r = vk_pool_new(d, &pool);
	enum rlx_status st;

	if (!r)
		r = begin(d, pool, &c);
	if (!r) {
		copy(d, c, &local, &x->slot[io][i].host, bytes_of(x, io, i));
		r = end(d, c);
	}
	st = vk_check(d, r, "recording copies", x->base.err);
	if (!st)
		st = vk_line_submit(d, &x->line, &c, 1, x->base.err);
	if (!st)
		st = vk_line_wait(d, &x->line, UINT64_MAX, x->base.err);
	d->api.DestroyCommandPool(d->dev, pool, NULL);
	return st;
}

enum rlx_status vk_fetch(struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	struct vk_exec *x = (struct vk_exec *)exec;
	uint32_t in = io == RLX_IO_INPUT ? i : exec->code->plan->io[io][i].donated - 1;
	enum rlx_status st = vk_alive(device_of(x), exec->err);

	if (x->slot[RLX_IO_INPUT][in].fresh)	/* the host has what the next run begins with */
		return RLX_OK;
	if (!st && x->slot[io][i].changed)
		st = take_buffer(x, io, i);
	if (!st)
		st = fetch_now(x, io, i);
	if (st)
		return st;
	vk_stage(x, io, i, 0, bytes_of(x, io, i), false);
	vk_count(&x->base.moved, false, bytes_of(x, io, i));
	return RLX_OK;
}

bool vk_has(const struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	const struct vk_exec *x = (const struct vk_exec *)exec;
	const struct vk_slot *s = &x->slot[io][i];

	if (!device_of(x)->discrete || !io_of(x, io, i)->used)
		return false;
	if (io == RLX_IO_PARAM)
		return s->weight && !s->changed && vk_weight_is_here(device_of(x), s->weight);
	if (io == RLX_IO_INPUT)
		return s->persistent ? !s->fresh : is_here(x, i);
	return s->persistent &&
	       !x->slot[RLX_IO_INPUT][exec->code->plan->io[io][i].donated - 1].fresh;
}

/* ---- what the host copies ---- */

void vk_stage_inputs(struct vk_exec *x)
{
	uint32_t i;

	for (i = 0; x->staged && i < x->base.code->plan->n_io[RLX_IO_INPUT]; i++)
		if (is_moved(x, RLX_IO_INPUT, i))
			vk_stage(x, RLX_IO_INPUT, i, 0, bytes_of(x, RLX_IO_INPUT, i), true);
}

void vk_stage_outputs(struct vk_exec *x)
{
	uint32_t i;

	for (i = 0; x->staged && i < x->base.code->plan->n_io[RLX_IO_OUTPUT]; i++)
		if (is_moved(x, RLX_IO_OUTPUT, i))
			vk_stage(x, RLX_IO_OUTPUT, i, 0, moved_bytes(x, RLX_IO_OUTPUT, i), false);
}

/* The host's part of a crossing: what it copies, and the counts. */
static void count_transfers(struct vk_exec *x, uint32_t from, uint32_t n, bool in)
{
	const struct rlx_plan *p = x->base.code->plan;
	uint64_t bytes;
	uint32_t i;

	for (i = from; i < from + n; i++) {
		const uint32_t v = code_of(x)->transfer[i];
		const struct rlx_place *at = &p->val[v].place;

		bytes = rlx_plan_bytes(p, v);
		if (at->kind == RLX_PLACE_OUTPUT)
			vk_stage(x, RLX_IO_OUTPUT, at->index, at->offset, bytes, in);
		vk_count(&x->base.moved, in, bytes);
	}
}

enum rlx_status vk_fetch_operands(struct vk_exec *x, const struct vk_segment *s)
{
	const struct vk_call *call = &vk_calls(code_of(x))[s->first];
	enum rlx_status st = vk_enqueue(x, s->commands);

	if (!st)	/* also copies of what the step before wrote: it may write there */
		st = vk_settle(x);
	if (!st)
		count_transfers(x, call->transfer, call->n_fetch, false);
	return st;
}

enum rlx_status vk_upload_results(struct vk_exec *x, const struct vk_segment *s)
{
	const struct vk_call *call = &vk_calls(code_of(x))[s->first];

	if (!s->upload)
		return RLX_OK;
	count_transfers(x, call->transfer + call->n_fetch, call->n_upload, true);
	return vk_enqueue(x, s->upload);
}
