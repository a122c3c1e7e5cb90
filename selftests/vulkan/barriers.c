// SPDX-License-Identifier: MIT
/*
 * Barriers between command buffers. A step of the host's parts a run into several, which go to
 * the queue together once the step is left out; a processor has them one after the other in any
 * case, so what is looked at is what the driver was told.
 */
#include <stdlib.h>
#include <string.h>

#include "selftests/vulkan/line.h"

enum { SIDE = 16, MOST_BUFFERS = 32, MOST_EVENTS = 64 };

/* What a command buffer has: 'd', a dispatch, or 'b', a barrier from kernels to kernels */
struct recorded {
	VkCommandBuffer	c;
	char		event[MOST_EVENTS];
	unsigned int	n;
};

static struct vk_device_api real;
static struct recorded recorded[MOST_BUFFERS];
static unsigned int dispatches, bare;	/* of a run; without a barrier before them */
static bool behind;			/* a dispatch, and no barrier since */

static struct recorded *of(VkCommandBuffer c)
{
	unsigned int i;

	for (i = 0; i < MOST_BUFFERS - 1 && recorded[i].c && recorded[i].c != c; i++)
		;
	recorded[i].c = c;
	return &recorded[i];
}

static void note(VkCommandBuffer c, char event)
{
	struct recorded *r = of(c);

	CHECK(r->n < MOST_EVENTS);
	r->event[r->n++] = event;
}

static VKAPI_ATTR VkResult VKAPI_CALL begin(VkCommandBuffer c, const VkCommandBufferBeginInfo *i)
{
	of(c)->n = 0;
	return real.BeginCommandBuffer(c, i);
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer c, uint32_t x, uint32_t y, uint32_t z)
{
	note(c, 'd');
	real.CmdDispatch(c, x, y, z);
}

/* Vulkan's, not ours */
#define BARRIER_PARAMS							\
	(VkCommandBuffer c, VkPipelineStageFlags from, VkPipelineStageFlags to,	\
	 VkDependencyFlags flags, uint32_t n, const VkMemoryBarrier *m, uint32_t nb, \
	 const VkBufferMemoryBarrier *b, uint32_t ni, const VkImageMemoryBarrier *i)

static VKAPI_ATTR void VKAPI_CALL barrier BARRIER_PARAMS
{
	if (n && from & to & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT &&
	    m->srcAccessMask & VK_ACCESS_SHADER_WRITE_BIT &&
	    m->dstAccessMask & VK_ACCESS_SHADER_READ_BIT)
		note(c, 'b');
	real.CmdPipelineBarrier(c, from, to, flags, n, m, nb, b, ni, i);
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue q, uint32_t n, const VkSubmitInfo *info,
					     VkFence f)
{
	uint32_t k, e;

	for (k = 0; k < info->commandBufferCount; k++) {
		const struct recorded *r = of(info->pCommandBuffers[k]);

		for (e = 0; e < r->n; e++) {
			bare += r->event[e] == 'd' && behind;
			dispatches += r->event[e] == 'd';
			behind = r->event[e] == 'd';
		}
	}
	return real.QueueSubmit(q, n, info, f);
}

static void intercept(struct vk_device *d)
{
	real = d->api;
	d->api.BeginCommandBuffer = begin;
	d->api.CmdDispatch = dispatch;
	d->api.CmdPipelineBarrier = barrier;
	d->api.QueueSubmit = submit;
}

/* s = x x by a kernel, h = running sums of a param by the host, once, y = s h by a kernel */
static struct rlx_session *around_what_stays(void)
{
	const struct rlx_type t = rlx_type(RLX_F64, SIDE, SIDE);
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "vulkan" };
	struct rlx_graph *g = rlx_graph_new("barriers");
	rlx_value x = rlx_input(g, "x", t), s = rlx_emit(g, matmul, .a = x, .b = x), h;
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;
	struct rlx_session *ss;

	h = rlx_emit(g, cumsum, .x = rlx_param(g, "w", t), .axis = 0);
	rlx_output(g, "y", rlx_emit(g, matmul, .a = s, .b = h));
	CHECK_EQ(rlx_graph_finish(g), RLX_OK);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	ss = session(p);
	rlx_program_put(p);
	return ss;
}

static void check_runs(const char *discrete)
{
	const struct rlx_type t = rlx_type(RLX_F64, SIDE, SIDE);
	double v[SIDE * SIDE] = { 1 };
	struct rlx_session *s;
	int run;

	setenv("RLX_VK_DISCRETE", discrete, 1);
	memset(recorded, 0, sizeof(recorded));
	behind = false;
	s = around_what_stays();
	intercept(device_of(s));
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", t, v), RLX_OK);
	for (run = 1; run <= 3; run++) {
		dispatches = bare = 0;
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, v), RLX_OK);
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECK_EQ(dispatches, 2);
		CHECKF(!bare, "run %d: %u dispatches without a barrier before them", run, bare);
	}
	CHECK(((struct vk_exec *)s->exec)->base.skip);	/* the host's step */
	device_of(s)->api = real;
	rlx_session_free(s);
}

TEST(of_shared_memory) { check_runs("0"); }
TEST(of_own_memory) { check_runs("1"); }

TEST_MAIN()
