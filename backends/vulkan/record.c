// SPDX-License-Identifier: MIT
/*
 * A program as command buffers: one for each run of dispatches between steps of the host. A
 * barrier splits all before it from all behind, so it stands only before a dispatch that
 * needs, by the bytes that steps read and write, what was dispatched since the last one.
 */
#include <string.h>

#include "backends/vulkan/vk.h"
#include "base/alloc.h"

bool vk_overlaps(const struct rlx_plan *p, uint32_t a, uint32_t b)
{
	const struct rlx_place *x = &p->val[a].place, *y = &p->val[b].place;

	if (x->kind == RLX_PLACE_INPUT && y->kind == RLX_PLACE_OUTPUT)
		return p->io[RLX_IO_OUTPUT][y->index].donated == x->index + 1;
	if (x->kind == RLX_PLACE_OUTPUT && y->kind == RLX_PLACE_INPUT)
		return vk_overlaps(p, b, a);
	if (x->kind != y->kind || x->index != y->index)
		return false;
	return x->offset < y->offset + rlx_plan_bytes(p, b) &&
	       y->offset < x->offset + rlx_plan_bytes(p, a);
}

/* Must call @b wait for call @a? */
static bool depends(const struct vk_code *c, const struct vk_call *a, const struct vk_call *b)
{
	const struct rlx_ref *x = &c->calls.ref[a->base.ref], *y = &c->calls.ref[b->base.ref];
	uint32_t i, j;

	for (i = 0; i < a->base.n_ref; i++)
		for (j = 0; j < b->base.n_ref; j++)
			if (x[i].kind == RLX_REF_VALUE && y[j].kind == RLX_REF_VALUE &&
			    (x[i].access | y[j].access) & RLX_WRITE &&
			    vk_overlaps(c->base.plan, x[i].val, y[j].val))
				return true;
	return false;
}

void vk_find_dependences(struct vk_code *c)
{
	struct vk_call *call = vk_calls(c);
	uint32_t i, j;

	for (i = 0; i < c->calls.n_call; i++)	/* steps of the host part submissions */
		for (j = i; call[i].kind == RLX_CALL_KERNEL && !call[i].after && j-- > 0 &&
			    call[j].kind == RLX_CALL_KERNEL;)
			if (depends(c, &call[j], &call[i]))
				call[i].after = j + 1;
}

static void barrier(struct vk_device *d, VkCommandBuffer cmd, VkPipelineStageFlags to,
		    VkAccessFlags access)
{
	const VkMemoryBarrier b = { VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT, .dstAccessMask = access };

	d->api.CmdPipelineBarrier(cmd, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, to, 0, 1, &b, 0,
				  NULL, 0, NULL);
}

/* Dispatches [s->first, s->end). */
static VkResult record_segment(struct vk_exec *x, struct vk_segment *s)
{
	struct vk_code *c = (struct vk_code *)x->base.code;
	struct vk_device *d = vk_device_of(&c->base);
	VkPipeline bound = VK_NULL_HANDLE;
	uint32_t since = s->first, i;
	VkResult r = vk_commands_begin(d, x->pool, &s->commands);

	for (i = s->first; i < s->end && !r; i++) {
		const struct vk_call *call = &vk_calls(c)[i];
		const uint64_t args = x->image.at + call->base.args;

		if (vk_skips(x, call->base.step))
			continue;
		if (call->after > since) {
			barrier(d, s->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
				VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
			since = i;
		}
		if (call->pipeline != bound)
			d->api.CmdBindPipeline(s->commands, VK_PIPELINE_BIND_POINT_COMPUTE,
					       call->pipeline);
		bound = call->pipeline;
		d->api.CmdPushConstants(s->commands, d->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
					sizeof(args), &args);
		d->api.CmdDispatch(s->commands, call->groups, 1, 1);
	}
	if (r)
		return r;
	/* for kernels of later command buffers, and of later runs, as well */
	barrier(d, s->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_HOST_BIT,
		VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
	return d->api.EndCommandBuffer(s->commands);
}

/* Who wants the time of each step gets each call by itself. */
static void cut(struct vk_exec *x, bool each)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;
	uint32_t i;

	x->n_segment = 0;
	for (i = 0; i < c->calls.n_call; i++) {
		struct vk_segment *last = &x->segment[x->n_segment - !!x->n_segment];

		if (!each && x->n_segment && vk_calls(c)[i].kind == RLX_CALL_KERNEL &&
		    vk_calls(c)[last->first].kind == RLX_CALL_KERNEL)
			last->end = i + 1;
		else
			x->segment[x->n_segment++] = (struct vk_segment){ i, i + 1 };
	}
}

enum rlx_status vk_record(struct vk_exec *x)
{
	struct vk_code *c = (struct vk_code *)x->base.code;
	struct vk_device *d = vk_device_of(&c->base);
	VkResult r;
	uint32_t i;

	x->recorded = false;
	x->moves = false;	/* what is skipped is not moved */
	d->api.DestroyCommandPool(d->dev, x->pool, NULL);
	r = vk_pool_new(d, &x->pool);
	cut(x, x->base.step_ns);
	for (i = 0; i < x->n_segment && !r; i++)
		if (vk_calls(c)[x->segment[i].first].kind == RLX_CALL_KERNEL)
			r = record_segment(x, &x->segment[i]);
	if (r)
		return vk_check(d, r, "recording commands", x->base.err);
	for (i = 0; i < c->base.plan->n_step; i++)
		x->skip[i] = vk_skips(x, i);
	x->timed = x->base.step_ns;
	x->recorded = true;
	return RLX_OK;
}
