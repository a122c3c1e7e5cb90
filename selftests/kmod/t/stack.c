// SPDX-License-Identifier: MIT
/*
 * The whole way at once: the library takes an arena of the module, a foreign driver
 * imports it, and the CPU backend works in place on what comes by that driver.
 */
/* rig: modules=vgem timeout=90 */
#include <linux/dma-buf.h>
#include <rlx/run.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/vgem.h"

#define ROWS	64
#define IN	48
#define OUT	32
#define SIZE	(4u << 20)

static struct rlx_error err;

#define OK(call)							\
	do {								\
		enum rlx_status st_ = (call);				\
		CHECKF(!st_, "%s: %s", rlx_status_name(st_), err.text);	\
	} while (0)

/* y = x w, with w an input too: everything lies in the arena. */
static struct rlx_session *build(void)
{
	struct rlx_graph *g = rlx_graph_new("stack");
	struct rlx_program *p;
	struct rlx_session *s;
	rlx_value x, w;

	x = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, IN));
	w = rlx_input(g, "w", rlx_type(RLX_F32, IN, OUT));
	rlx_output(g, "y", rlx_emit(g, matmul, .a = x, .b = w));
	if (rlx_graph_finish(g))
		err = *rlx_graph_error(g);
	OK(err.status);
	OK(rlx_compile(g, NULL, &p, &err));
	OK(rlx_session_new(p, NULL, &s, &err));
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

/* The same bytes, by the foreign driver's mapping. */
static float *foreign(const struct rlx_arena *a, char *import, struct rlx_buf b)
{
	return (float *)(import + ((char *)rlx_buf_ptr(b) -
				   (char *)rlx_arena_base(a)));
}

static void sync_buf(int dmabuf, uint64_t flags)
{
	struct dma_buf_sync s = { .flags = flags | DMA_BUF_SYNC_RW };

	CHECK_EQ(k_ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &s), 0);
}

static void check(const float *x, const float *w, const float *y)
{
	int i, j, k;

	for (i = 0; i < ROWS; i++) {
		for (j = 0; j < OUT; j++) {
			double sum = 0;

			for (k = 0; k < IN; k++)
				sum += (double)x[i * IN + k] * w[k * OUT + j];
			CHECKF(fabs(y[i * OUT + j] - sum) < 1e-4,
			       "y[%d][%d] is %g, not %g", i, j,
			       y[i * OUT + j], sum);
		}
	}
}

/* An export of all of the arena, imported by vgem and mapped there. */
static char *import_arena(const struct rlx_arena *a, int vgem, int *dmabuf)
{
	struct rlx_ioc_arena_export e = {
		.length = rlx_arena_size(a), .access = RLX_R | RLX_W,
	};
	uint32_t handle;
	char *p;

	*dmabuf = k_ioctl(rlx_arena_fd(a), RLX_IOC_ARENA_EXPORT, &e);
	CHECKF(*dmabuf >= 0, "export: %d", *dmabuf);
	CHECK_EQ(vgem_import(vgem, *dmabuf, &handle), 0);
	p = vgem_map(vgem, rlx_arena_size(a), PROT_READ | PROT_WRITE);
	CHECK(p && p != (char *)rlx_arena_base(a));
	return p;
}

TEST(foreign_memory_in_place)
{
	struct rlx_arena_opts opts = { .size = SIZE, .provider = "kmod",
				       .name = "stack" };
	struct rlx_buf x, w, y;
	struct rlx_arena_info info;
	struct rlx_session *s = build();
	struct rlx_arena *a;
	struct rlx_stats before, after;
	uint64_t seed = rlx_test_seed();
	int vgem = vgem_open(), dmabuf, run, i;
	float *fx, *fw, *fy;
	char *import;

	OK(rlx_arena_new(&opts, &a, &err));
	rlx_arena_info(a, &info);
	CHECK_STR(info.provider, "kmod");
	OK(rlx_buf_new(a, ROWS * IN * 4, 0, &x, &err));
	OK(rlx_buf_new(a, IN * OUT * 4, 0, &w, &err));
	OK(rlx_buf_new(a, ROWS * OUT * 4, 0, &y, &err));
	import = import_arena(a, vgem, &dmabuf);
	fx = foreign(a, import, x);
	fw = foreign(a, import, w);
	fy = foreign(a, import, y);
	OK(rlx_session_bind(s, RLX_IO_INPUT, "x", x));
	OK(rlx_session_bind(s, RLX_IO_INPUT, "w", w));
	OK(rlx_session_bind(s, RLX_IO_OUTPUT, "y", y));
	rlx_stats_read(&before);
	for (run = 0; run < 5; run++) {
		sync_buf(dmabuf, DMA_BUF_SYNC_START);
		for (i = 0; i < ROWS * IN; i++)
			fx[i] = rlx_test_uniform(&seed, -1, 1);
		for (i = 0; i < IN * OUT; i++)
			fw[i] = rlx_test_uniform(&seed, -1, 1);
		memset(fy, 0xff, ROWS * OUT * 4);
		sync_buf(dmabuf, DMA_BUF_SYNC_END);
		if (rlx_session_run(s))
			err = *rlx_session_error(s);
		OK(err.status);
		/* The result stands where the foreign driver reads. */
		check(fx, fw, fy);
		CHECK(!memcmp(fy, rlx_buf_ptr(y), ROWS * OUT * 4));
	}
	rlx_stats_read(&after);
	CHECK_EQ(after.bytes_copied - before.bytes_copied, 0);
	/* The library's end goes first; the importer keeps the pages. */
	rlx_session_free(s);
	rlx_arena_put(a);
	close(dmabuf);
	check(fx, fw, fy);
	munmap(import, SIZE);
}

TEST_MAIN()
