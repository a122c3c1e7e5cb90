/* SPDX-License-Identifier: MIT */
/* A small program, sessions and arenas, for tests of the Vulkan device itself. */
#ifndef SELFTESTS_VULKAN_LINE_H
#define SELFTESTS_VULKAN_LINE_H

#include "backends/vulkan/vk.h"
#include "rlx/arena.h"
#include "rlx/ops.h"
#include "rt/session.h"
#include "selftests/lib/rlx_test.h"

enum { N = 4096 };

/* Guard pages are the host's: what else than a processor faults there is lost. */
static inline void guards_need_a_processor(void)
{
	const struct vk_driver *d = vk_driver_get(NULL);

	if (d && d->device[0].props.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU)
		rlx_test_skip("guard pages need a device that is a processor");
}

/* y = 2 x + 1 over @n elements. */
static inline struct rlx_program *program(int64_t n, const char *device, struct rlx_error *err)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_graph *g = rlx_graph_new("line");
	struct rlx_program *p = NULL;
	const float two = 2, one = 1;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, n));
	rlx_value y = rlx_emit(g, mul, .a = x, .b = rlx_constant(g, rlx_scalar(RLX_F32), &two));

	y = rlx_emit(g, add, .a = y, .b = rlx_constant(g, rlx_scalar(RLX_F32), &one));
	rlx_output(g, "y", y);
	if (!rlx_graph_finish(g))
		(void)!rlx_compile(g, &o, &p, err);
	rlx_graph_put(g);
	return p;
}

static inline struct rlx_session *session(struct rlx_program *p)
{
	struct rlx_error err = { 0 };
	struct rlx_session *s = NULL;

	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	return s;
}

static inline struct rlx_program *must_compile(int64_t n)
{
	struct rlx_error err = { 0 };
	struct rlx_program *p = program(n, "vulkan", &err);

	CHECKF(p, "%s", err.text);
	return p;
}

static inline struct rlx_arena *arena(uint64_t bytes, uint32_t flags)
{
	struct rlx_arena_opts o = { .size = bytes, .flags = flags, .provider = "memfd" };
	struct rlx_error err = { 0 };
	struct rlx_arena *a = NULL;

	CHECKF(!rlx_arena_new(&o, &a, &err), "%s", err.text);
	return a;
}

static inline void bind(struct rlx_session *s, enum rlx_io io, const char *name,
			struct rlx_arena *a, uint64_t at, uint64_t bytes)
{
	CHECK_EQ(rlx_session_bind(s, io, name, (struct rlx_buf){ a, at, bytes }), RLX_OK);
}

static inline struct vk_device *device_of(struct rlx_session *s)
{
	return (struct vk_device *)s->p->dev;
}

#endif
