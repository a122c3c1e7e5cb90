// SPDX-License-Identifier: MIT
/*
 * What crosses between host and device where these have memories of their own: buffers that
 * kernels use, and what steps of the host read of kernels' results and kernels of theirs. The
 * host has a mirror of the workspace, so that a value has one place in each.
 */
#include "backends/vulkan/vk.h"
#include "base/alloc.h"

/* Are all of @b's bytes among @a's? */
static bool covers(const struct rlx_plan *p, uint32_t a, uint32_t b)
{
	const struct rlx_place *x = &p->val[a].place, *y = &p->val[b].place;

	return x->kind == y->kind && x->index == y->index && x->offset <= y->offset &&
	       x->offset + rlx_plan_bytes(p, a) >= y->offset + rlx_plan_bytes(p, b);
}

/* Has the value a place on both sides? Inputs and params stay as they are on both. */
static bool can_transfer(const struct vk_code *c, uint32_t v)
{
	const struct rlx_plan *p = c->base.plan;
	const struct rlx_place *at = &p->val[v].place;

	if (!v || !rlx_plan_bytes(p, v))
		return false;
	return at->kind == RLX_PLACE_WORK || (at->kind == RLX_PLACE_OUTPUT &&
		c->io[rlx_slot_of(p, RLX_IO_OUTPUT, at->index)].used);
}

/* How call @call accesses bytes of value @v; *@all: a write of it writes them all. */
static uint8_t access_of(const struct vk_code *c, const struct vk_call *call, uint32_t v, bool *all)
{
	const struct rlx_ref *r = &c->calls.ref[call->base.ref], *end = r + call->base.n_ref;
	uint8_t access = 0;

	*all = false;
	for (; r < end; r++) {
		if (r->kind != RLX_REF_VALUE || !vk_overlaps(c->base.plan, r->val, v))
			continue;
		access |= r->access;
		*all = *all || (r->access & RLX_WRITE && covers(c->base.plan, r->val, v));
	}
	return access;
}

/* Must step @at of the host's fetch its operand @v? Not if the host wrote it last. */
static bool is_fetched(const struct vk_code *c, uint32_t at, uint32_t v)
{
	const struct vk_call *call = vk_calls(c) + at;
	bool all;

	while (call-- > vk_calls(c))
		if (access_of(c, call, v, &all) & RLX_WRITE)
			return call->kind != RLX_CALL_HOST || !all;
	return true;
}

/* Does a later call find the host's value @v on the device, or fetch it from there? */
static bool is_uploaded(const struct vk_code *c, uint32_t at, uint32_t v)
{
	const struct rlx_plan *p = c->base.plan;
	const struct rlx_place *is = &p->val[v].place;
	uint32_t i, k;

	if (is->kind == RLX_PLACE_OUTPUT && c->io[rlx_slot_of(p, RLX_IO_OUTPUT, is->index)].writer)
		return true;	/* it is copied out as a whole */
	for (i = at + 1; i < c->calls.n_call; i++) {
		const struct vk_call *call = &vk_calls(c)[i];
		const struct rlx_ref *r = &c->calls.ref[call->base.ref];
		bool host = call->kind == RLX_CALL_HOST, all;
		uint8_t access = access_of(c, call, v, &all);

		for (k = 0; k < call->base.n_ref && host; k++)
			if (r[k].access & RLX_READ && vk_overlaps(p, r[k].val, v) &&
			    !covers(p, v, r[k].val))
				return true;
		if (!host && access && !(access == RLX_WRITE && all))
			return true;
		if (access & RLX_WRITE && all)
			return false;
	}
	return false;
}

static bool note(struct vk_code *c, uint32_t first, uint32_t v)
{
	uint32_t i;

	for (i = first; i < c->n_transfer; i++)
		if (c->transfer[i] == v)
			return true;
	if (!rlx_grow(&c->transfer, &c->cap_transfer, c->n_transfer + 1, sizeof(*c->transfer)))
		return false;
	c->transfer[c->n_transfer++] = v;
	return true;
}

/* What call @at, a step of the host's, fetches and brings. False: out of memory */
static bool find_step(struct vk_code *c, uint32_t at)
{
	struct vk_call *call = &vk_calls(c)[at];
	const struct rlx_plan_step *st = &c->base.plan->step[call->base.step];
	bool ok = true;
	uint32_t i;

	call->transfer = c->n_transfer;
	for (i = 0; i < st->n_in && ok; i++)
		if (can_transfer(c, st->in[i]) && is_fetched(c, at, st->in[i]))
			ok = note(c, call->transfer, st->in[i]);
	call->n_fetch = c->n_transfer - call->transfer;
	for (i = 0; i < st->n_out && ok; i++)
		if (can_transfer(c, st->out[i]) && is_uploaded(c, at, st->out[i]))
			ok = note(c, call->transfer + call->n_fetch, st->out[i]);
	call->n_upload = c->n_transfer - call->transfer - call->n_fetch;
	if (c->n_transfer > call->transfer && !c->base.crossing++)
		c->base.first_crossing = call->base.step;
	return ok;
}

static void find_used(struct vk_code *c)
{
	const struct rlx_plan *p = c->base.plan;
	const struct vk_call *call = vk_calls(c), *end = call + c->calls.n_call;
	uint32_t i, out;

	for (; call < end; call++)
		for (i = 0; i < call->base.n_ref; i++) {
			const struct rlx_ref *r = &c->calls.ref[call->base.ref + i];
			const struct rlx_place *at = &p->val[r->val].place;
			struct vk_io *io;

			if (r->kind != RLX_REF_VALUE || at->kind < RLX_PLACE_INPUT ||
			    at->kind > RLX_PLACE_OUTPUT)
				continue;
			io = &c->io[rlx_slot_of(p, at->kind - RLX_PLACE_INPUT + RLX_IO_INPUT,
						at->index)];
			if (call->kind == RLX_CALL_HOST)
				io->on_host = true;
			else
				io->used = true;
			if (call->kind == RLX_CALL_KERNEL && r->access & RLX_WRITE)
				io->writer = call->base.step + 1;
		}
	for (i = 0; i < p->n_io[RLX_IO_OUTPUT]; i++) {	/* what it replaces may show through */
		out = rlx_slot_of(p, RLX_IO_OUTPUT, i);
		if (p->io[RLX_IO_OUTPUT][i].donated && c->io[out].used)
			c->io[p->io[RLX_IO_OUTPUT][i].donated - 1].used = true;
	}
}

enum rlx_status vk_find_crossing(struct vk_code *c, struct rlx_error *err)
{
	bool ok;
	uint32_t i;

	c->io = rlx_calloc(rlx_slot_status(c->base.plan) + 1, sizeof(*c->io));
	ok = c->io;
	if (ok)
		find_used(c);
	for (i = 0; i < c->calls.n_call && ok && vk_device_of(&c->base)->discrete; i++)
		if (vk_calls(c)[i].kind == RLX_CALL_HOST)
			ok = find_step(c, i);
	return ok ? RLX_OK : rlx_fail(err, RLX_ENOMEM, "%s: out of memory", c->base.dev->name);
}
