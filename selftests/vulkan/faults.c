// SPDX-License-Identifier: MIT
/*
 * Every call of the driver's that may run out of memory does so once, from a session's first
 * bytes to its last run, on a device that shares the host's memory and on one that does not:
 * each failure is told, leaves nothing behind, and the same session then runs as if it had
 * never been.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "selftests/vulkan/line.h"

/* Calls that may fail; what makes an object, and what ends one. */
#define CALLS								\
	CALL(CreateBuffer, 1, (VkDevice d, const VkBufferCreateInfo *i,	\
	     const VkAllocationCallbacks *c, VkBuffer *out), (d, i, c, out)) \
	CALL(AllocateMemory, 1, (VkDevice d, const VkMemoryAllocateInfo *i, \
	     const VkAllocationCallbacks *c, VkDeviceMemory *out), (d, i, c, out)) \
	CALL(BindBufferMemory, 0, (VkDevice d, VkBuffer b, VkDeviceMemory m, VkDeviceSize at), \
	     (d, b, m, at))						\
	CALL(MapMemory, 0, (VkDevice d, VkDeviceMemory m, VkDeviceSize at, VkDeviceSize n, \
	     VkMemoryMapFlags f, void **out), (d, m, at, n, f, out))	\
	CALL(CreateSemaphore, 1, (VkDevice d, const VkSemaphoreCreateInfo *i, \
	     const VkAllocationCallbacks *c, VkSemaphore *out), (d, i, c, out)) \
	CALL(CreateCommandPool, 1, (VkDevice d, const VkCommandPoolCreateInfo *i, \
	     const VkAllocationCallbacks *c, VkCommandPool *out), (d, i, c, out)) \
	CALL(AllocateCommandBuffers, 0, (VkDevice d, const VkCommandBufferAllocateInfo *i, \
	     VkCommandBuffer *out), (d, i, out))			\
	CALL(BeginCommandBuffer, 0, (VkCommandBuffer c, const VkCommandBufferBeginInfo *i), \
	     (c, i))							\
	CALL(EndCommandBuffer, 0, (VkCommandBuffer c), (c))		\
	CALL(QueueSubmit, 0, (VkQueue q, uint32_t n, const VkSubmitInfo *i, VkFence f), \
	     (q, n, i, f))						\
	CALL(WaitSemaphores, 0, (VkDevice d, const VkSemaphoreWaitInfo *i, uint64_t ns), \
	     (d, i, ns))

#define ENDS								\
	END(DestroyBuffer, VkBuffer)					\
	END(FreeMemory, VkDeviceMemory)					\
	END(DestroySemaphore, VkSemaphore)				\
	END(DestroyCommandPool, VkCommandPool)

static struct vk_device_api real;
static uint64_t left;		/* calls until the one that fails; 0: none does */
static bool lasts;		/* those behind it fail as well */
static const char *failed;	/* the first one */
static int64_t objects;

static bool fails(const char *name)
{
	if (!left || --left)
		return false;
	left = lasts;
	failed = failed ? failed : name;
	return true;
}

#define CALL(name, makes, params, args)					\
	static VKAPI_ATTR VkResult VKAPI_CALL fail_##name params	\
	{								\
		VkResult r = fails(#name) ? VK_ERROR_OUT_OF_HOST_MEMORY : \
			     real.name args;				\
									\
		objects += makes && !r;					\
		return r;						\
	}
CALLS
#undef CALL

#define END(name, type)							\
	static VKAPI_ATTR void VKAPI_CALL count_##name(VkDevice d, type o, \
						       const VkAllocationCallbacks *c) \
	{								\
		objects -= o != VK_NULL_HANDLE;				\
		real.name(d, o, c);					\
	}
ENDS
#undef END

static void intercept(struct vk_device *d)
{
	real = d->api;
#define CALL(name, makes, params, args)	d->api.name = fail_##name;
	CALLS
#undef CALL
#define END(name, type)			d->api.name = count_##name;
	ENDS
#undef END
}

/* That buffers are staged meanwhile. */
static void ignore(void *ctx, enum rlx_log_level level, const char *text)
{
	(void)ctx;
	(void)level;
	(void)text;
}

/* p = 2 w of params alone; b = x + p, c = b summed up by the host, y = c + x. */
static struct rlx_program *some_by_the_host(void)
{
	const struct rlx_type t = rlx_type(RLX_F64, N);
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "vulkan" };
	struct rlx_graph *g = rlx_graph_new("faults");
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;
	rlx_value x = rlx_input(g, "x", t), w = rlx_param(g, "w", t), c;

	c = rlx_emit(g, add, .a = x, .b = rlx_emit(g, add, .a = w, .b = w));
	c = rlx_emit(g, cumsum, .x = c, .axis = 0);
	rlx_output(g, "c", c);
	rlx_output(g, "y", rlx_emit(g, add, .a = c, .b = x));
	CHECK_EQ(rlx_graph_finish(g), RLX_OK);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	return p;
}

struct rig {
	struct rlx_program	*p;
	struct rlx_arena	*a, *odd;	/* imported; staged, as it is not aligned */
	struct rlx_session	*s;
};

/* Values by @run. */
static enum rlx_status run(struct rig *c, int run)
{
	double *x = rlx_arena_base(c->a), w[N];
	enum rlx_status st;
	int i;

	for (i = 0; i < N; i++) {
		x[i] = i % 7 + run;
		w[i] = run;
	}
	st = rlx_session_set(c->s, RLX_IO_PARAM, "w", rlx_type(RLX_F64, N), w);
	return st ? st : rlx_session_run(c->s);
}

static void check_run(struct rig *c, int run, uint64_t n)
{
	const double *y = (double *)rlx_arena_base(c->odd) + N;
	double sum = 0;
	int i;

	for (i = 0; i < N; i++) {
		sum += i % 7 + 3 * run;
		CHECKF(y[i] == sum + i % 7 + run, "call %llu, %s, run %d: y[%d] is %g, not %g",
		       (unsigned long long)n, failed ? failed : "", run, i, y[i],
		       sum + i % 7 + run);
	}
}

static enum rlx_status begin(struct rig *c)
{
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_session_new(c->p, NULL, &c->s, &err);

	if (st) {
		CHECK(err.text[0]);
		return st;
	}
	bind(c->s, RLX_IO_INPUT, "x", c->a, 0, N * 8);
	bind(c->s, RLX_IO_OUTPUT, "c", c->odd, 0, N * 8);
	bind(c->s, RLX_IO_OUTPUT, "y", c->odd, N * 8, N * 8);
	return RLX_OK;
}

/* The @n-th call fails. False: there are fewer. */
static bool fail_at(struct rig *c, uint64_t n)
{
	enum rlx_status st;
	int k;

	failed = NULL;
	left = n;
	st = begin(c);
	for (k = 1; k <= 2 && !st; k++) {
		st = run(c, k);
		if (!st)
			check_run(c, k, n);
	}
	left = 0;
	CHECKF(!st || (failed && st == RLX_ENOMEM), "call %llu, %s: %d", (unsigned long long)n,
	       failed ? failed : "none", st);
	if (!c->s)
		CHECK_EQ(begin(c), RLX_OK);
	else if (st)
		CHECKF(strstr(rlx_session_error(c->s)->text, "out of memory"), "%s: %s", failed,
		       rlx_session_error(c->s)->text);
	st = run(c, 5);
	CHECKF(!st, "call %llu, behind a failed %s: %s", (unsigned long long)n,
	       failed ? failed : "", rlx_session_error(c->s)->text);
	check_run(c, 5, n);
	rlx_session_free(c->s);
	c->s = NULL;
	return failed;
}

static void each_call(const char *discrete, bool and_those_behind)
{
	char *mem = aligned_alloc(4096, 1 << 17);
	struct rlx_arena_user user = { .base = mem + 64, .size = 2 * N * 8 };
	struct rlx_error err = { 0 };
	struct rig c = { 0 };
	int64_t live, there;
	uint64_t n;

	rlx_log_set(ignore, NULL);
	setenv("RLX_VK_DISCRETE", discrete, 1);
	c.p = some_by_the_host();
	c.a = arena(1 << 20, 0);
	CHECKF(!rlx_arena_wrap(&user, &c.odd, &err), "%s", err.text);
	intercept((struct vk_device *)c.p->dev);
	lasts = and_those_behind;
	fail_at(&c, UINT64_MAX);	/* what is kept from the first session on is there */
	live = rlx_alloc_live();
	there = objects;
	for (n = 1; fail_at(&c, n); n++) {
		CHECKF(rlx_alloc_live() == live, "%s: %lld blocks left", failed,
		       (long long)(rlx_alloc_live() - live));
		CHECKF(objects == there, "%s: %lld objects left", failed,
		       (long long)(objects - there));
	}
	CHECKF(n > 20, "%llu calls", (unsigned long long)n);
	((struct vk_device *)c.p->dev)->api = real;
	rlx_program_put(c.p);
	rlx_arena_put(c.a);
	rlx_arena_put(c.odd);
	free(mem);
	rlx_log_set(NULL, NULL);
}

static void needs_shared_memory(void)
{
	const struct vk_driver *d = vk_driver_get(NULL);

	if (d && d->device[0].props.deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU)
		rlx_test_skip("the device has memory of its own");
}

TEST(one_of_shared_memory)
{
	needs_shared_memory();
	each_call("0", false);
}

TEST(all_of_shared_memory)
{
	needs_shared_memory();
	each_call("0", true);
}

TEST(one_of_own_memory) { each_call("1", false); }
TEST(all_of_own_memory) { each_call("1", true); }

/* Buffers that take memory of their own, while there is none; and then there is. */
static void large_buffers(const char *discrete)
{
	enum { LARGE = 5 << 20 };
	const struct rlx_type t = rlx_type(RLX_F32, LARGE);
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "vulkan" };
	struct rlx_graph *g = rlx_graph_new("large");
	float *v = malloc(LARGE * sizeof(*v));
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;
	struct rlx_session *s;
	int i;

	setenv("RLX_VK_DISCRETE", discrete, 1);
	for (i = 0; i < LARGE; i++)
		v[i] = (float)(i % 1000);
	rlx_output(g, "y", rlx_emit(g, mul, .a = rlx_input(g, "x", t), .b = rlx_param(g, "w", t)));
	CHECK_EQ(rlx_graph_finish(g), RLX_OK);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	s = session(p);
	intercept(device_of(s));
	left = lasts = true;
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", t, v), RLX_OK);
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", t, v), RLX_OK);
	for (i = 0; i < 2; i++) {
		CHECK_EQ(rlx_session_run(s), RLX_ENOMEM);
		CHECK(strstr(rlx_session_error(s)->text, "VK_ERROR_OUT_OF_HOST_MEMORY"));
	}
	left = 0;
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", t, v), RLX_OK);
	for (i = 0; i < LARGE; i++)
		CHECK_EQ(v[i], (float)(i % 1000 * (i % 1000)));
	device_of(s)->api = real;
	rlx_session_free(s);
	rlx_program_put(p);
	free(v);
}

TEST(large_of_shared_memory)
{
	needs_shared_memory();
	large_buffers("0");
}

TEST(large_of_own_memory) { large_buffers("1"); }

TEST_MAIN()
