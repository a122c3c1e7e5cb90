// SPDX-License-Identifier: MIT
/*
 * The Vulkan device itself: memory in place, staged, beyond 4 GiB; a device that is lost or out
 * of memory; a cache that somebody spoilt; threads; guard pages that find what they are for.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/disk_cache.h"
#include "kernels/vulkan/pointwise.h"
#include "rlx/device.h"
#include "rt/rt.h"
#include "selftests/vulkan/line.h"

enum { Y_AT = 65536 };

/* x and y apart in @a. */
static void bind_line(struct rlx_session *s, struct rlx_arena *a)
{
	bind(s, RLX_IO_INPUT, "x", a, 0, N * 4);
	bind(s, RLX_IO_OUTPUT, "y", a, Y_AT, N * 4);
}

/* What the host writes behind the bind is read, what is written is there, and no CPU copies it. */
static void run_in_place(struct rlx_session *s, struct rlx_arena *a, int run)
{
	float *x = rlx_arena_base(a), *y = x + Y_AT / 4;
	struct rlx_stats before, after;
	int i;

	for (i = 0; i < N; i++)
		x[i] = (float)(i * run);
	memset(y, 0xff, N * 4);
	rlx_stats_read(&before);
	CHECK_EQ(rlx_session_run(s), RLX_OK);
	rlx_stats_read(&after);
	CHECK_EQ(after.bytes_copied, before.bytes_copied);
	for (i = 0; i < N; i++)
		CHECK_EQ(y[i], (float)(2 * i * run + 1));
}

/* Bytes that @runs move each way, an input or output of @bytes each: none where it is in place. */
static void check_moved(struct rlx_session *s, uint64_t runs, uint64_t bytes)
{
	struct rlx_transfers t = rlx_session_transfers(s);
	uint64_t n = device_of(s)->discrete ? runs : 0;

	CHECK_EQ(t.in, n);
	CHECK_EQ(t.out, n);
	CHECK_EQ(t.in_bytes, n * bytes);
	CHECK_EQ(t.out_bytes, n * bytes);
}

/* Nobody copies it, unless the memory is the device's. */
TEST(in_place)
{
	struct rlx_program *p = must_compile(N);
	struct rlx_session *s = session(p);
	struct rlx_arena *a = arena(1 << 20, 0);
	int run;

	bind_line(s, a);
	for (run = 1; run <= 3; run++)
		run_in_place(s, a, run);
	check_moved(s, 3, N * 4);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_arena_put(a);
}

/* What is let go of is nobody's any more, before another run. */
TEST(unbound)
{
	struct rlx_program *p = must_compile(N);
	struct rlx_session *s = session(p);
	struct rlx_stats before, after;
	struct rlx_arena *a;
	float x[N] = { 1 };

	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, N), x), RLX_OK);
	CHECK_EQ(rlx_session_run(s), RLX_OK);	/* it has memory of its own */
	rlx_stats_read(&before);
	a = arena(1 << 20, 0);
	bind_line(s, a);
	run_in_place(s, a, 1);
	CHECK_EQ(rlx_session_unbind(s), RLX_OK);
	rlx_arena_put(a);
	rlx_stats_read(&after);
	CHECK_EQ(after.arenas, before.arenas);
	rlx_session_free(s);
	rlx_program_put(p);
}

/* An arena of 9 GiB, sparse, slices around what cuts it into pieces. */
TEST(beyond_four_gib)
{
	static const uint64_t cuts[] = { 1ull << 30, 1ull << 32, 5ull << 30, 9ull << 30 };
	struct rlx_arena *a = arena(9ull << 30, RLX_ARENA_LAZY | RLX_ARENA_NOLOCK);
	struct rlx_program *p = must_compile(N);
	struct rlx_session *s = session(p);
	char *base = rlx_arena_base(a);
	uint64_t in, out;
	size_t k;
	int i;

	for (k = 0; k < 4; k++) {
		in = cuts[k] - (cuts[k] == 9ull << 30 ? N * 4 : 64);
		out = cuts[k] - 65536;
		for (i = 0; i < N; i++)
			((float *)(base + in))[i] = (float)(i - (int)k);
		bind(s, RLX_IO_INPUT, "x", a, in, N * 4);
		bind(s, RLX_IO_OUTPUT, "y", a, out, N * 4);
		CHECK_EQ(rlx_session_run(s), RLX_OK);
		for (i = 0; i < N; i++)
			CHECK_EQ(((float *)(base + out))[i], (float)(2 * (i - (int)k) + 1));
	}
	check_moved(s, 4, N * 4);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_arena_put(a);
}

/* Memory that is no whole page is staged: right, and counted. */
TEST(staged)
{
	struct rlx_program *p = must_compile(N);
	struct rlx_session *s = session(p);
	char *m = aligned_alloc(4096, 1 << 16);
	struct rlx_arena_user user = { .base = m + 64, .size = 2 * N * 4 };
	struct rlx_error err = { 0 };
	struct rlx_stats before, after;
	struct rlx_arena *a = NULL;
	float *x = (float *)(m + 64), *y = x + N;
	int i;

	CHECKF(!rlx_arena_wrap(&user, &a, &err), "%s", err.text);
	bind(s, RLX_IO_INPUT, "x", a, 0, N * 4);
	bind(s, RLX_IO_OUTPUT, "y", a, N * 4, N * 4);
	for (i = 0; i < N; i++)
		x[i] = (float)i;
	rlx_stats_read(&before);
	CHECK_EQ(rlx_session_run(s), RLX_OK);
	rlx_stats_read(&after);
	for (i = 0; i < N; i++)
		CHECK_EQ(y[i], (float)(2 * i + 1));
	CHECK(after.bytes_copied >= before.bytes_copied + 2 * N * 4);
	CHECK_EQ(rlx_session_transfers(s).in_bytes >= N * 4, true);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_arena_put(a);
	free(m);
}

static VkResult failing;

static VKAPI_ATTR VkResult VKAPI_CALL fail_allocate(VkDevice d, const VkMemoryAllocateInfo *i,
						    const VkAllocationCallbacks *c,
						    VkDeviceMemory *out);

/* Two ask for bytes of one window: each is told its own reason, whoever came last. */
TEST(reasons_are_of_who_asks)
{
	char late[VK_WHY] = "", refused[VK_WHY] = "";
	struct rlx_arena *a = arena(1 << 20, 0);
	struct rlx_error err = { 0 };
	struct rlx_device *dev = NULL;
	struct vk_window *w;
	struct vk_device *d;
	PFN_vkAllocateMemory real;
	char *base = rlx_arena_base(a);

	CHECKF(!rlx_device_get("vulkan", 0, &dev, &err), "%s", err.text);
	d = (struct vk_device *)dev;
	w = vk_window_get(d, a);
	CHECK(w);
	real = d->api.AllocateMemory;
	d->api.AllocateMemory = fail_allocate;
	failing = VK_ERROR_OUT_OF_DEVICE_MEMORY;
	CHECK(!vk_window_at(d, w, base, 64, refused).at);
	d->api.AllocateMemory = real;
	CHECK(!vk_window_at(d, w, base + (1 << 20) - 64, 128, late).at);
	CHECKF(strstr(refused, "the driver refused"), "%s", refused);
	CHECKF(strstr(late, "beyond the arena"), "%s", late);
	CHECK(vk_window_at(d, w, base, 64, late).at);
	vk_window_put(d, w);
	rlx_device_put(dev);
	rlx_arena_put(a);
}

/* ---- failures of the driver ---- */

static VKAPI_ATTR VkResult VKAPI_CALL fail_submit(VkQueue q, uint32_t n, const VkSubmitInfo *i,
						  VkFence f)
{
	return failing;
}

static VKAPI_ATTR VkResult VKAPI_CALL fail_allocate(VkDevice d, const VkMemoryAllocateInfo *i,
						    const VkAllocationCallbacks *c,
						    VkDeviceMemory *out)
{
	return failing;
}

static PFN_vkAllocateMemory real_allocate;

static VKAPI_ATTR VkResult VKAPI_CALL allocate_little(VkDevice d, const VkMemoryAllocateInfo *i,
						      const VkAllocationCallbacks *c,
						      VkDeviceMemory *out)
{
	return i->allocationSize > 32768 ? failing : real_allocate(d, i, c, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL fail_pipelines(VkDevice d, VkPipelineCache cache, uint32_t n,
						     const VkComputePipelineCreateInfo *i,
						     const VkAllocationCallbacks *c,
						     VkPipeline *out)
{
	return failing;
}

TEST(lost)
{
	struct rlx_program *p = must_compile(N), *q;
	struct rlx_session *s = session(p);
	struct rlx_error err = { 0 };
	float x[N] = { 1 };

	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, N), x), RLX_OK);
	CHECK_EQ(rlx_session_run(s), RLX_OK);
	failing = VK_ERROR_DEVICE_LOST;
	device_of(s)->api.QueueSubmit = fail_submit;
	CHECK_EQ(rlx_session_run(s), RLX_ELOST);
	CHECK(strstr(rlx_session_error(s)->text, "vulkan: submitting: the device failed"));
	CHECK_EQ(rlx_session_run(s), RLX_ELOST);	/* and stays so */
	CHECK(!program(N, "vulkan", &err));
	CHECK_EQ(err.status, RLX_ELOST);
	CHECK(strstr(err.text, "failed before"));
	rlx_session_free(s);
	rlx_program_put(p);
	q = must_compile(N);		/* the device was closed, and is a new one */
	s = session(q);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, N), x), RLX_OK);
	CHECK_EQ(rlx_session_run(s), RLX_OK);
	rlx_session_free(s);
	rlx_program_put(q);
}

TEST(no_device_memory)
{
	struct rlx_program *p = must_compile(N);
	struct rlx_session *s = session(p), *t = NULL;
	struct vk_device *d = device_of(s);
	struct rlx_error err = { 0 };
	PFN_vkAllocateMemory allocate = d->api.AllocateMemory;
	PFN_vkCreateComputePipelines create = d->api.CreateComputePipelines;
	struct rlx_program *q = NULL;
	struct vk_span span;

	failing = VK_ERROR_OUT_OF_DEVICE_MEMORY;
	d->api.AllocateMemory = fail_allocate;
	CHECK_EQ(vk_span_new(d, VK_SHARED, 64 << 20, &span, &err), RLX_ENOMEM);
	CHECK(strstr(err.text, "VK_ERROR_OUT_OF_DEVICE_MEMORY"));
	d->api.AllocateMemory = allocate;
	err = (struct rlx_error){ 0 };
	CHECK_EQ(vk_span_new(d, VK_SHARED, UINT64_MAX / 2, &span, &err), RLX_ENOMEM);
	CHECK(strstr(err.text, "largest buffer"));
	err = (struct rlx_error){ 0 };
	d->api.CreateComputePipelines = fail_pipelines;
	q = program(N + 1, "vulkan", &err);
	CHECK(q);	/* of another size the kernel is the same */
	rlx_program_put(q);
	vk_pipelines_free(d);
	q = program(N, "vulkan", &err);
	CHECK(!q);
	CHECK_EQ(err.status, RLX_ENOMEM);
	CHECK(strstr(err.text, "compiling kernel"));
	d->api.CreateComputePipelines = create;
	rlx_session_free(t);
	rlx_session_free(s);
	rlx_program_put(p);
}

/* A driver that does not take all of an arena may take what is bound of it. */
TEST(part_of_an_arena)
{
	struct rlx_program *p = must_compile(N);
	struct rlx_session *s = session(p);
	struct rlx_arena *a = arena(1 << 20, 0);

	failing = VK_ERROR_OUT_OF_DEVICE_MEMORY;
	real_allocate = device_of(s)->api.AllocateMemory;
	device_of(s)->api.AllocateMemory = allocate_little;
	bind_line(s, a);
	run_in_place(s, a, 1);
	device_of(s)->api.AllocateMemory = real_allocate;
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_arena_put(a);
}

/* Every allocation of the host's fails once, from compiling to the run. */
TEST(no_host_memory)
{
	struct rlx_program *keep = must_compile(N), *p;	/* the device stays open */
	int64_t live = rlx_alloc_live();
	struct rlx_session *s;
	struct rlx_error err;
	float x[N] = { 1 };
	uint64_t n;
	bool done = false;

	for (n = 1; n < 4000 && !done; n++) {
		err = (struct rlx_error){ 0 };
		s = NULL;
		rlx_alloc_fail_nth(n);
		p = program(N, "vulkan", &err);
		if (p && !rlx_session_new(p, NULL, &s, &err) &&
		    !rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, N), x) &&
		    !rlx_session_run(s))
			done = true;
		rlx_alloc_fail_nth(0);
		if (!done && err.status)
			CHECKF(err.status == RLX_ENOMEM, "allocation %llu: %s",
			       (unsigned long long)n, err.text);
		rlx_session_free(s);
		rlx_program_put(p);
		CHECKF(rlx_alloc_live() == live, "allocation %llu: %lld blocks left",
		       (unsigned long long)n, (long long)(rlx_alloc_live() - live));
	}
	CHECKF(done && n > 20, "%llu allocations", (unsigned long long)n);
	rlx_program_put(keep);
}

/* What is read once for all programs is read anew where there was no memory for it. */
TEST(no_host_memory_at_first)
{
	struct rlx_device *d = NULL;
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;
	uint64_t n;

	CHECKF(!rlx_device_get("vulkan", 0, &d, &err), "%s", err.text);
	for (n = 1; n < 4000 && !p; n++) {
		err = (struct rlx_error){ 0 };
		rlx_alloc_fail_nth(n);
		p = program(N, "vulkan", &err);
		rlx_alloc_fail_nth(0);
	}
	CHECKF(p && n > 20, "%llu allocations", (unsigned long long)n);
	rlx_program_put(p);
	rlx_device_put(d);
}

/* ---- subgroups ---- */

static PFN_vkGetPhysicalDeviceFeatures2 real_features;
static PFN_vkCreateComputePipelines real_pipelines;
static unsigned int whole, parts;	/* pipelines that ask for whole subgroups, and others */

static VKAPI_ATTR void VKAPI_CALL no_full_subgroups(VkPhysicalDevice pd,
						    VkPhysicalDeviceFeatures2 *f)
{
	VkBaseOutStructure *s = (VkBaseOutStructure *)f;

	real_features(pd, f);
	for (; s; s = s->pNext)
		if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES)
			((VkPhysicalDeviceSubgroupSizeControlFeatures *)s)->computeFullSubgroups =
				VK_FALSE;
}

/* The extension alone is no promise: its features are asked for. */
TEST(features_of_subgroups)
{
	struct vk_driver d = *vk_driver_get(NULL);
	struct vk_physical p = d.device[0];
	const bool has = p.has.subgroup_size;

	vk_subgroup_size_find(&d, &p);
	CHECK_EQ(p.has.subgroup_size, has);
	real_features = d.api.GetPhysicalDeviceFeatures2;
	d.api.GetPhysicalDeviceFeatures2 = no_full_subgroups;
	p.has.subgroup_size = true;
	vk_subgroup_size_find(&d, &p);
	CHECK(!p.has.subgroup_size);
}

static VKAPI_ATTR VkResult VKAPI_CALL count_pipelines(
	VkDevice d, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *how,
	const VkAllocationCallbacks *c, VkPipeline *out)
{
	if (how->stage.flags & VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT)
		whole++;
	else
		parts++;
	return real_pipelines(d, cache, n, how, c, out);
}

/* Groups that are subgroups are whole ones. */
TEST(whole_subgroups)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "vulkan" };
	struct rlx_graph *g = rlx_graph_new("rows");
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	struct rlx_device *dev = NULL;
	struct vk_device *d;

	CHECKF(!rlx_device_get("vulkan", 0, &dev, &err), "%s", err.text);
	d = (struct vk_device *)dev;
	if (!d->is->has.subgroup_size)
		rlx_test_skip("the device does not control the size of subgroups");
	real_pipelines = d->api.CreateComputePipelines;
	d->api.CreateComputePipelines = count_pipelines;
	rlx_output(g, "y", rlx_emit(g, softmax, .x = rlx_input(g, "x", rlx_type(RLX_F32, 8, 512)),
				    .axis = 1));
	CHECK(!rlx_graph_finish(g));
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(whole && !parts, "%u pipelines with whole subgroups, %u others", whole, parts);
	rlx_program_put(p);
	rlx_graph_put(g);
	rlx_device_put(dev);
}

/* ---- the driver's cache on disk ---- */

static uint64_t cached_bytes(void)
{
	struct rlx_error err = { 0 };
	struct rlx_device *d = NULL;
	uint64_t n;

	CHECKF(!rlx_device_get("vulkan", 0, &d, &err), "%s", err.text);
	n = ((struct vk_device *)d)->cached;
	rlx_device_put(d);
	return n;
}

/* The only file there, whole (base/disk_cache.c: magic, two lengths, two sums, key, data). */
static char *only_file(const char *dir, size_t *n)
{
	char cmd[300], path[300] = "", *data = malloc(1 << 20);
	FILE *f;

	snprintf(cmd, sizeof(cmd), "ls %s/*.bin", dir);
	f = popen(cmd, "r");
	CHECK(f && fgets(path, sizeof(path), f));
	pclose(f);
	path[strcspn(path, "\n")] = 0;
	f = fopen(path, "r");
	CHECK(f);
	*n = fread(data, 1, 1 << 20, f);
	fclose(f);
	return data;
}

TEST(hostile_cache)
{
	enum { HEAD = 40 };
	char top[] = "/tmp/rlx-vk-XXXXXX", dir[64], *file, *key;
	uint64_t key_bytes, good;
	size_t n, at, i;
	char *data;

	CHECK(mkdtemp(top));
	setenv("XDG_CACHE_HOME", top, 1);
	snprintf(dir, sizeof(dir), "%s/rlx/vulkan", top);
	CHECK_EQ(cached_bytes(), 0);		/* there is none, and now it is stored */
	good = cached_bytes();
	CHECK(good >= sizeof(VkPipelineCacheHeaderVersionOne));
	file = only_file(dir, &n);
	memcpy(&key_bytes, file + 8, 8);
	CHECK(HEAD + key_bytes + good == n);
	key = strndup(file + HEAD, key_bytes);
	at = HEAD + key_bytes;
	data = malloc(good + 64);
	for (i = 0; i < 32; i++) {		/* each byte of what drivers are told to check */
		memcpy(data, file + at, good);
		data[i] ^= 1;
		CHECK_EQ(rlx_disk_cache_store(dir, key, data, good), RLX_OK);
		CHECKF(!cached_bytes(), "byte %zu of the header was believed", i);
	}
	CHECK_EQ(rlx_disk_cache_store(dir, key, file + at, 31), RLX_OK);
	CHECK_EQ(cached_bytes(), 0);		/* too short */
	CHECK_EQ(rlx_disk_cache_store(dir, key, file + at, good), RLX_OK);
	CHECK_EQ(cached_bytes(), good);
	free(data);
	free(key);
	free(file);
	snprintf(dir, sizeof(dir), "rm -r %s", top);
	CHECK_EQ(system(dir), 0);
}

/* ---- threads ---- */

static void *runner(void *arg)
{
	struct rlx_session *s = session(arg);
	float x[N], y[N];
	int run, i;

	for (run = 0; run < 20; run++) {
		for (i = 0; i < N; i++)
			x[i] = (float)(i + run);
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, N), x), RLX_OK);
		CHECK_EQ(rlx_session_run(s), RLX_OK);
		CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, N), y), RLX_OK);
		for (i = 0; i < N; i++)
			CHECK_EQ(y[i], (float)(2 * (i + run) + 1));
	}
	rlx_session_free(s);
	return NULL;
}

TEST(threads)
{
	struct rlx_program *p = must_compile(N);
	pthread_t t[4];
	int i;

	for (i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, runner, p));
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	rlx_program_put(p);
}

/* ---- the test of the test ---- */

/* A kernel that is told of one element too many ends its process. */
TEST(guards_find)
{
	int st;
	pid_t pid;

	guards_need_a_processor();
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		struct rlx_program *p;
		struct rlx_session *s;
		struct vk_exec *x;
		float in[N] = { 0 };
		int64_t n = N + 1;

		vk_guard = VK_GUARD_END;
		p = must_compile(N);
		s = session(p);
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, N), in), RLX_OK);
		CHECK_EQ(rlx_session_run(s), RLX_OK);
		x = (struct vk_exec *)s->exec;
		memcpy(x->image.map + offsetof(struct rlx_k_vk_ew, n), &n, sizeof(n));
		signal(SIGSEGV, SIG_DFL);
		(void)!rlx_session_run(s);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECKF(WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV, "status %d", st);
}

TEST(names)
{
	struct rlx_dev_info info[16];
	unsigned int n = rlx_device_list(info, 16), i, met = 0;
	struct rlx_error err = { 0 };

	for (i = 0; i < n && i < 16; i++)
		met += !strncmp(info[i].backend, "vulkan", 6);
	CHECK(met);
	CHECK_STR(rlx_device_why("vulkan"), "");
	CHECK(!program(N, "vulkan:77", &err));
	CHECK_EQ(err.status, RLX_ENODEV);
	CHECK(strstr(err.text, "vulkan has"));
}

TEST_MAIN()
