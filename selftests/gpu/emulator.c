// SPDX-License-Identifier: MIT
/* The emulated GPU itself: it finds what it says it finds, and keeps order. */
#include "selftests/gpu/kernel_run.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

struct bug {
	int	*p;
	int	n;
};

#define HEAD								\
	"#include \"kernels/gpu/wgmma.h\"\n"				\
	"struct bug { int *p; int n; };\n"				\
	"RLX_G_KERNEL(bug, struct bug, 256)\n{\n"

/* Nothing here is to be tried on a real device. */
static void start(void)
{
	gpu_start();
	CHECK(dlsym(gpu->d->lib, "emu_shared"));
}

static void *compiled(const char *body)
{
	char source[4096];

	start();
	snprintf(source, sizeof(source), HEAD "%s\n}\n", body);
	return gpu_own_function(source, "bug", 0);
}

static int launch(void *fn, struct bug a, uint32_t blocks, uint32_t threads, uint32_t shared)
{
	struct rlx_g_launch l = { .grid = { blocks, 1, 1 }, .block = { threads, 1, 1 },
				  .shared = shared };
	struct rlx_g_env env = { 0 };

	if (shared > 48 << 10)
		CHECK_CU(CU(cuFuncSetAttribute, void *, int, int)(fn, 8, (int)shared));
	return gpu_launch(fn, &l, &a, &env);
}

static int sync_all(void)
{
	return CU(cuStreamSynchronize, void *)(NULL);
}

/* What a run of @body ends with, on @p. */
static int outcome(const char *body, int *p, int n)
{
	CHECK_CU(launch(compiled(body), (struct bug){ p, n }, 3, 128, 1024));
	return sync_all();
}

TEST(writes_beyond)
{
	int *d = dev_new(100 * 4);

	CHECK_EQ(outcome("if (threadIdx.x < a.n) a.p[threadIdx.x] = 1;", d, 100), 0);
	CHECK_EQ(outcome("if (threadIdx.x < a.n) a.p[threadIdx.x] = 1;", d, 101), 700);
	/* nothing works any more */
	CHECK_EQ(CU(cuMemAlloc_v2, uint64_t *, size_t)(&(uint64_t){ 0 }, 4), 700);
}

TEST(reads_what_is_free)
{
	int *d = dev_new(400), *e = dev_new(400);

	dev_free(d);
	CHECK_EQ(outcome("if (a.p[threadIdx.x % 100] == a.n) a.p[0] = 1;", e, 3), 0);
	CHECK_EQ(outcome("if (a.p[threadIdx.x % 100] == a.n) a.p[0] = 1;", d, 3), 700);
}

TEST(host_memory)
{
	int *h = calloc(64, 4), sum = 0;

	start();
	CHECK_CU(CU(cuMemHostRegister_v2, void *, size_t, unsigned int)(h, 256, 2));
	CHECK_EQ(CU(cuMemHostRegister_v2, void *, size_t, unsigned int)(h, 8, 2), 712);
	CHECK_EQ(outcome("if (threadIdx.x < 64) a.p[threadIdx.x] = a.n;", h, 5), 0);
	for (int i = 0; i < 64; i++)
		sum += h[i];
	CHECK_EQ(sum, 5 * 64);
	CHECK_CU(CU(cuMemHostUnregister, void *)(h));
	CHECK_EQ(CU(cuMemHostUnregister, void *)(h), 713);
	CHECK_EQ(outcome("if (threadIdx.x < 64) a.p[threadIdx.x] = a.n;", h, 5), 700);
}

TEST(host_keeps_off_device_memory)
{
	int *d = dev_new(64), status;
	pid_t pid = fork();

	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		*(volatile int *)d = 1;
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status));
}

TEST(misaligned)
{
	char *d = dev_new(64);

	CHECK_EQ(outcome("a.p[0] = 1;", (int *)(void *)(d + 4), 0), 0);
	CHECK_EQ(outcome("a.p[0] = 1;", (int *)(void *)(d + 2), 0), 700);
}

#define NEIGHBOUR(between)						\
	"SHARED(int, s, [256]); s[threadIdx.x] = (int)threadIdx.x;" between \
	"a.p[threadIdx.x] = s[(threadIdx.x + a.n) % 128];"

TEST(race_over_warps)
{
	int *d = dev_new(128 * 4);

	CHECK_EQ(outcome(NEIGHBOUR("__syncthreads();"), d, 70), 0);
	CHECK_EQ(outcome(NEIGHBOUR("warp_sync();"), d, 70), 700);
}

TEST(race_in_warp)
{
	static const char in_warp[] = "SHARED(int, s, [256]); s[threadIdx.x] = 1;"
		"%s a.p[threadIdx.x] = s[threadIdx.x ^ 1];";
	char body[256];
	int *d = dev_new(128 * 4);

	snprintf(body, sizeof(body), in_warp, "warp_sync();");
	CHECK_EQ(outcome(body, d, 0), 0);
	snprintf(body, sizeof(body), in_warp, "");
	CHECK_EQ(outcome(body, d, 0), 700);
}

TEST(race_of_a_late_reader)
{
	int *d = dev_new(128 * 4);

	/* a reader of the last round is still there when the next one writes */
	CHECK_EQ(outcome("SHARED(int, s, [128]); int v = 0; for (int i = 0; i < 3; i++) {"
			 "s[threadIdx.x] = i; __syncthreads(); v += s[127 - threadIdx.x];"
			 "__syncthreads(); } a.p[threadIdx.x] = v;", d, 0), 0);
	CHECK_EQ(outcome("SHARED(int, s, [128]); int v = 0; for (int i = 0; i < 3; i++) {"
			 "s[threadIdx.x] = i; __syncthreads(); v += s[127 - threadIdx.x];"
			 "} a.p[threadIdx.x] = v;", d, 0), 700);
}

TEST(beyond_shared)
{
	int *d = dev_new(4);

	CHECK_EQ(outcome("SHARED_DYNAMIC(s); ((int *)s)[threadIdx.x + a.n] = 1;", d, 128), 0);
	CHECK_EQ(outcome("SHARED_DYNAMIC(s); ((int *)s)[threadIdx.x + a.n] = 1;", d, 129), 700);
}

TEST(some_leave_before_a_barrier)
{
	int *d = dev_new(4);

	CHECK_EQ(outcome("if (threadIdx.x < 64) return; __syncthreads();", d, 0), 719);
}

TEST(two_barriers)
{
	int *d = dev_new(4);

	CHECK_EQ(outcome("if (threadIdx.x < 64)\n __syncthreads();\n else\n __syncthreads();",
			 d, 0), 719);
}

TEST(diverging_warp)
{
	int *d = dev_new(4);

	CHECK_EQ(outcome("if (lane_id() < 7) a.p[0] = shuffle(1, 0);", d, 0), 719);
}

TEST(shuffle_from_nowhere)
{
	int *d = dev_new(4);

	CHECK_EQ(outcome("if (shuffle((int)threadIdx.x, WARP - 1) == 9999) a.p[0] = 0;", d, 0), 0);
	CHECK_EQ(outcome("a.p[0] = shuffle(1, WARP);", d, 0), 719);
}

TEST(copies_that_nobody_waits_for)
{
	int *d = dev_new(128 * 4);

	CHECK_EQ(outcome("SHARED(int, s, [128]); copy_async(&s[threadIdx.x], a.p + threadIdx.x,"
			 "4, 4); copy_commit(); copy_wait<0>(); __syncthreads();"
			 "a.p[threadIdx.x] = s[127 - threadIdx.x];", d, 0), 0);
	/* read before the wait: the bytes are not there */
	CHECK_CU(CU(cuMemsetD8Async, uint64_t, unsigned char, size_t, void *)(
		(uint64_t)(uintptr_t)d, 0, 512, NULL));
	CHECK_EQ(outcome("SHARED(int, s, [128]); int v; copy_async(&s[threadIdx.x],"
			 "a.p + threadIdx.x, 4, 4); copy_commit(); v = s[threadIdx.x];"
			 "copy_wait<0>(); a.p[threadIdx.x] = v;", d, 0), 0);
	{
		int got[128];

		dev_read(got, d, sizeof(got));
		CHECK_EQ(got[5], -1);
	}
	CHECK_EQ(outcome("SHARED(int, s, [128]); copy_async(&s[threadIdx.x], a.p, 4, 4);", d, 0),
		 700);
}

/* Barriers that count, and what is under way for them. */
#define BAR	"SHARED(uint64_t, bar, [2]); if (!threadIdx.x) bar_init(bar, 2);"	\
		"__syncthreads();"

TEST(phases)
{
	int *d = dev_new(128 * 4);

	CHECK_EQ(outcome(BAR "if (threadIdx.x % 64 == 0) bar_arrive(bar); bar_wait(bar, 0);"
			 "a.p[threadIdx.x] = 1;", d, 0), 0);
	CHECK_EQ(outcome(BAR "if (!threadIdx.x) bar_arrive(bar); bar_wait(bar, 0);", d, 0), 719);
}

TEST(arrivals_too_many)
{
	CHECK_EQ(outcome(BAR "if (!threadIdx.x) bar_expect(bar, 64); __syncthreads();"
			 "bar_arrive(bar);", dev_new(4), 0), 700);
}

TEST(products_that_nobody_waits_for)
{
	CHECK_EQ(outcome("SHARED_DYNAMIC(s); float v[32]; tile_at t = tile_from(s, 0);"
			 "wgmma<64, true, false, false>(v, t, t, false); wgmma_commit();",
			 dev_new(4), 0), 700);
}

/* The compiler may take such sums ahead of the wait. */
#define SUMS(more)							\
	"SHARED_DYNAMIC(s); float v[32]; tile_at t = tile_from(s, 0);"	\
	"wgmma<64, true, false, false>(v, t, t, false); wgmma_commit(); wgmma_wait<0>();" more

TEST(sums_that_nobody_settles)
{
	static const char again[] = SUMS("wgmma<64, true, false, false>(v, t, t, true);"
					 "wgmma_commit(); wgmma_wait<0>(); wgmma_settle(v);");

	CHECK_EQ(outcome(SUMS("wgmma_settle(v);"), dev_new(4), 0), 0);
	CHECK_EQ(outcome(again, dev_new(4), 0), 0);
	CHECK_EQ(outcome(SUMS(), dev_new(4), 0), 700);
}

TEST(products_over_sums_that_nobody_settled)
{
	CHECK_EQ(outcome(SUMS("wgmma<64, true, false, false>(v, t, t, false);"
			      "wgmma_commit(); wgmma_wait<0>(); wgmma_settle(v);"),
			 dev_new(4), 0), 700);
}

TEST(tiles_by_no_map)
{
	CHECK_EQ(outcome(BAR "SHARED_DYNAMIC(s); int at[4] = {};"
			 "if (!threadIdx.x) tma_load(s, a.p, bar, at);", dev_new(128), 0), 700);
}

/* What a launch that brings a box of images by a map has at @p. */
struct box {
	_Alignas(64) unsigned char map[RLX_G_TENSOR_MAP_BYTES];
	int		at[4], off[2];
	uint16_t	got[512];
};

static int box_load(const struct rlx_g_tensor_map *m, const void *images, struct box *b)
{
	static const char body[] = "SHARED(uint64_t, bar, [1]); SHARED_DYNAMIC(s);"
		"if (!threadIdx.x) bar_init(bar, 1); __syncthreads();"
		"if (!threadIdx.x) { bar_expect(bar, 1024);"
		"  tma_load_im2col(s, a.p, bar, a.p + 32, a.p[36], a.p[37]); }"
		"bar_wait(bar, 0); if (blockIdx.x) return;"
		"for (int i = (int)threadIdx.x; i < 256; i += 128) {"
		"  int at = i * 4 ^ (i * 4 >> 7 & a.n) << 4;"
		"  a.p[38 + i] = *(int *)(s + at); }";
	struct rlx_error err;
	void *d;
	int rc;

	CHECKF(!gpu_tensor_map_make(gpu, m, (uint64_t)(uintptr_t)images, b->map, &err), "%s",
	       err.text);
	d = dev_of(b, sizeof(*b));
	rc = outcome(body, d, (int)m->box[0] / 8 - 1);
	if (rc)		/* the device is lost */
		return rc;
	dev_read(b, d, sizeof(*b));
	dev_free(d);
	return 0;
}

/* Pixels that meet a tap, in order: those outside of the image are zeros, as are channels. */
TEST(im2col)
{
	enum { C = 40, W = 7, H = 5, N = 3 };
	static const struct rlx_g_tensor_map m = {
		.dim = { C, W, H, N }, .step = { 2 * C, 2 * C * W, 2 * C * W * H },
		.im2col = true, .lower = { -1, -2 }, .upper = { -1, 0 }, .stride = { 2, 3 },
	};
	static uint16_t x[N][H][W][C];
	struct rlx_g_tensor_map t = m;
	void *d;

	start();
	for (int i = 0; i < N * H * W * C; i++)
		((uint16_t *)x)[i] = (uint16_t)(i + 1);
	d = dev_of(x, sizeof(x));
	for (uint32_t box = 16; box <= 64; box *= 2) {
		/* where first taps are: by strides from the lower corner to the upper */
		static const int across[] = { -1, 1, 3, 5 }, down[] = { -2, 1, 4 };
		struct box b = { .at = { 16, 3, 1, 0 }, .off = { 2, 1 } };

		t.box[0] = box;
		t.box[1] = 512 / box;
		CHECK_EQ(box_load(&t, d, &b), 0);
		for (uint32_t i = 0; i < 512; i++) {
			uint32_t p = i / box + 4 + 2, c = i % box + 16;
			int w = across[p % 4] + 2, h = down[p / 4 % 3] + 1, n = (int)p / 12;
			bool in = c < C && w < W && h >= 0 && h < H && n < N;

			CHECKF(b.got[i] == (in ? x[n][h][w][c] : 0), "box %u: [%u] is %u", box, i,
			       b.got[i]);
		}
	}
	t.box[0] = 64;
	t.box[1] = 8;
	/* no pixel's first tap is there */
	CHECK_EQ(box_load(&t, d, &(struct box){ .at = { 0, 6, 1, 0 } }), 700);
}

/* Without the attribute that large shared memory wants. */
static int launch_on(void *fn, struct bug a, uint32_t shared, void *stream)
{
	struct rlx_g_env env = { 0 };
	void *params[2] = { &a, &env };

	return CU(cuLaunchKernel, void *, unsigned int, unsigned int, unsigned int,
		  unsigned int, unsigned int, unsigned int, unsigned int, void *, void **,
		  void **)(fn, 1, 1, 1, 32, 1, 1, shared, stream, params, NULL);
}

TEST(launch_limits)
{
	void *fn = compiled("a.p[0] = 1;");
	struct bug a = { dev_new(4), 0 };

	CHECK_EQ(launch(fn, a, 1, 1025, 0), 1);
	CHECK_EQ(launch(fn, a, 0, 32, 0), 1);
	CHECK_EQ(launch(fn, a, 1, 512, 0), 701);	/* over its launch bounds */
	CHECK_EQ(launch_on(fn, a, (48 << 10) + 4, NULL), 1);
	CHECK_EQ(CU(cuFuncSetAttribute, void *, int, int)(fn, 8, (227 << 10) + 4), 1);
	CHECK_CU(CU(cuFuncSetAttribute, void *, int, int)(fn, 8, 227 << 10));
	CHECK_CU(launch(fn, a, 1, 32, 227 << 10));
	CHECK_CU(sync_all());
}

/* Static and dynamic shared memory come out of the same. */
static const char four_kib[] = "SHARED(int, s, [1024]);\n"
			       "s[threadIdx.x] = a.n; a.p[threadIdx.x] = s[threadIdx.x];";

TEST(static_beside_dynamic)
{
	struct bug a = { dev_new(256 * 4), 0 };
	void *fn = compiled(four_kib);

	CHECK_CU(launch_on(fn, a, 44 << 10, NULL));
	CHECK_CU(sync_all());
	CHECK_CU(launch(fn, a, 1, 256, 223 << 10));
	CHECK_CU(sync_all());
	CHECK_CU(launch(fn, a, 1, 256, (223 << 10) + 16));
	CHECK_EQ(sync_all(), 700);
}

TEST(dynamic_beside_static)
{
	struct bug a = { dev_new(256 * 4), 0 };

	CHECK_CU(launch_on(compiled(four_kib), a, (44 << 10) + 16, NULL));
	CHECK_EQ(sync_all(), 700);
}

TEST(memory_limit)
{
	uint64_t p = 0, q;
	size_t left, all;

	setenv("RLX_EMU_MEM", "2", 1);
	start();
	CHECK_EQ(CU(cuMemAlloc_v2, uint64_t *, size_t)(&p, (2 << 20) + 1), 2);
	CHECK_CU(CU(cuMemAlloc_v2, uint64_t *, size_t)(&p, 1 << 20));
	CHECK_EQ(CU(cuMemAlloc_v2, uint64_t *, size_t)(&q, (1 << 20) + 1), 2);
	CHECK_CU(CU(cuMemGetInfo_v2, size_t *, size_t *)(&left, &all));
	CHECK_EQ(left, 1 << 20);
	dev_free((void *)(uintptr_t)p);
	CHECK_CU(CU(cuMemAlloc_v2, uint64_t *, size_t)(&p, 2 << 20));
	CHECK_EQ(CU(cuMemFree_v2, uint64_t)(p + 16), 1);
}

TEST(faults_on_request)
{
	uint64_t p;

	setenv("RLX_EMU_FAIL", "cuMemAlloc:2:2,cuStreamSynchronize:1:999!", 1);
	start();
	CHECK_CU(CU(cuMemAlloc_v2, uint64_t *, size_t)(&p, 8));
	CHECK_EQ(CU(cuMemAlloc_v2, uint64_t *, size_t)(&p, 8), 2);
	CHECK_CU(CU(cuMemAlloc_v2, uint64_t *, size_t)(&p, 8));
	CHECK_EQ(sync_all(), 999);
	CHECK_EQ(CU(cuMemAlloc_v2, uint64_t *, size_t)(&p, 8), 999);
}

/* x = 2 x + n on one thread: the order of runs shows in the result. */
#define STEP	"if (threadIdx.x == 0 && blockIdx.x == 0) a.p[0] = 2 * a.p[0] + a.n;"

TEST(streams_keep_order)
{
	void *fn = compiled(STEP), *s[2], *event;
	int *d = dev_new(4), got;

	for (int i = 0; i < 2; i++)
		CHECK_CU(CU(cuStreamCreate, void **, unsigned int)(&s[i], 1));
	CHECK_CU(CU(cuEventCreate, void **, unsigned int)(&event, 2));
	CHECK_CU(CU(cuMemsetD8Async, uint64_t, unsigned char, size_t, void *)(
		(uint64_t)(uintptr_t)d, 0, 4, s[0]));
	for (int i = 1; i < 10; i++) {
		void *here = s[i % 2], *there = s[1 - i % 2];

		CHECK_CU(CU(cuEventRecord, void *, void *)(event, there));
		CHECK_CU(CU(cuStreamWaitEvent, void *, void *, unsigned int)(here, event, 0));
		CHECK_CU(launch_on(fn, (struct bug){ d, i }, 0, here));
	}
	CHECK_CU(CU(cuStreamSynchronize, void *)(s[1]));
	dev_read(&got, d, 4);
	CHECK_EQ(got, 1013);	/* 2 (2 (... 1) + 2) ... + 9 */
}

TEST(graphs_replay)
{
	void *fn = compiled(STEP), *s[2], *fork_event, *join, *graph, *exec;
	int *d = dev_new(4), *e = dev_new(4), got[2];

	for (int i = 0; i < 2; i++)
		CHECK_CU(CU(cuStreamCreate, void **, unsigned int)(&s[i], 1));
	CHECK_CU(CU(cuEventCreate, void **, unsigned int)(&fork_event, 2));
	CHECK_CU(CU(cuEventCreate, void **, unsigned int)(&join, 2));
	CHECK_CU(CU(cuMemsetD8Async, uint64_t, unsigned char, size_t, void *)(
		(uint64_t)(uintptr_t)d, 0, 4, s[0]));
	CHECK_CU(CU(cuStreamBeginCapture_v2, void *, int)(s[0], 2));
	CHECK_CU(launch_on(fn, (struct bug){ d, 1 }, 0, s[0]));
	CHECK_CU(CU(cuEventRecord, void *, void *)(fork_event, s[0]));
	CHECK_CU(CU(cuStreamWaitEvent, void *, void *, unsigned int)(s[1], fork_event, 0));
	CHECK_CU(CU(cuMemcpyDtoDAsync_v2, uint64_t, uint64_t, size_t, void *)(
		(uint64_t)(uintptr_t)e, (uint64_t)(uintptr_t)d, 4, s[1]));
	CHECK_CU(CU(cuEventRecord, void *, void *)(join, s[1]));
	CHECK_CU(CU(cuStreamWaitEvent, void *, void *, unsigned int)(s[0], join, 0));
	CHECK_CU(launch_on(fn, (struct bug){ d, 5 }, 0, s[0]));
	/* nothing has run, and a capturing stream cannot be waited for */
	CHECK_EQ(CU(cuStreamSynchronize, void *)(s[0]), 900);
	CHECK_CU(CU(cuStreamEndCapture, void *, void **)(s[0], &graph));
	CHECK_CU(CU(cuGraphInstantiateWithFlags, void **, void *, unsigned long long)(
		&exec, graph, 0));
	CHECK_CU(CU(cuGraphDestroy, void *)(graph));
	for (int i = 0; i < 3; i++)
		CHECK_CU(CU(cuGraphLaunch, void *, void *)(exec, s[0]));
	CHECK_CU(CU(cuStreamSynchronize, void *)(s[0]));
	CHECK_CU(CU(cuGraphExecDestroy, void *)(exec));
	dev_read(&got[0], d, 4);
	dev_read(&got[1], e, 4);
	/* d: 0 -> 1 -> 7 -> 15 -> 35 -> 71 -> 147; e: what it was between */
	CHECK_EQ(got[0], 147);
	CHECK_EQ(got[1], 71);
}

/* What another stream was given in a capture must be waited for before that ends. */
TEST(captures_are_joined)
{
	void *fn = compiled(STEP), *s[2], *event, *graph;
	int *d = dev_new(8);

	for (int i = 0; i < 2; i++)
		CHECK_CU(CU(cuStreamCreate, void **, unsigned int)(&s[i], 1));
	CHECK_CU(CU(cuEventCreate, void **, unsigned int)(&event, 2));
	for (int joined = 0; joined < 2; joined++) {
		CHECK_CU(CU(cuStreamBeginCapture_v2, void *, int)(s[0], 1));
		CHECK_CU(CU(cuEventRecord, void *, void *)(event, s[0]));
		CHECK_CU(CU(cuStreamWaitEvent, void *, void *, unsigned int)(s[1], event, 0));
		CHECK_CU(launch_on(fn, (struct bug){ d, 1 }, 0, s[0]));
		CHECK_CU(launch_on(fn, (struct bug){ d + 1, 1 }, 0, s[1]));
		if (joined) {
			CHECK_CU(CU(cuEventRecord, void *, void *)(event, s[1]));
			CHECK_CU(CU(cuStreamWaitEvent, void *, void *, unsigned int)(s[0],
											event, 0));
		}
		CHECK_EQ(CU(cuStreamEndCapture, void *, void **)(s[0], &graph),
			 joined ? 0 : 904);
		CHECK(joined ? graph != NULL : !graph);
	}
	CHECK_CU(CU(cuGraphDestroy, void *)(graph));
}

/* What one compiler made and is kept is not another's, and is still the first one's. */
static void images_are_of_a_compiler(const struct rlx_gpu_rtc *rtc)
{
	static const char *const cxx[] = { "g++", "false", "g++" };
	char dir[] = "/tmp/rlx-images-XXXXXX", cmd[64];
	void *prog;
	int k;

	CHECK(mkdtemp(dir));
	setenv("RLX_EMU_CACHE", dir, 1);
	for (k = 0; k < 3; k++) {
		setenv("RLX_EMU_CXX", cxx[k], 1);
		CHECK_CU(rtc->new(&prog, "int x;", "x", 0, NULL, NULL));
		CHECK_EQ(rtc->compile(prog, 0, NULL), k == 1 ? 6 : 0);
		CHECK_CU(rtc->free(&prog));
	}
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	CHECK(!system(cmd));
}

TEST(options_and_images)
{
	const struct rlx_gpu_rtc *rtc;
	const char *opt = "--no-such-option";
	void *prog, *module;

	start();
	rtc = gpu_rtc_get(gpu->v, NULL);
	CHECK(rtc);
	CHECK_CU(rtc->new(&prog, "int x;", "x", 0, NULL, NULL));
	CHECK_EQ(rtc->compile(prog, 1, &opt), 5);
	CHECK_CU(rtc->free(&prog));
	images_are_of_a_compiler(rtc);
	CHECK_EQ(CU(cuModuleLoadData, void **, const void *)(&module,
			"something that is no image at all"), 200);
}

TEST_MAIN()
