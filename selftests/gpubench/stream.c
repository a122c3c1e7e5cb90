// SPDX-License-Identifier: MIT
/*
 * 1 GiB of input from a memfd arena to a GPU, as a run brings it there that gathers a
 * few of its rows, in turns with a plain copy of memory that the driver itself has
 * pinned. No byte is moved by a CPU.
 *
 *	build/test/gpubench/stream
 */
#include <dlfcn.h>

#include "base/clock.h"
#include "rlx/run.h"
#include "selftests/lib/rlx_test.h"

enum { TURNS = 9, WIDTH = 1024, PICKED = 16 };
#define BYTES ((uint64_t)1 << 30)
#define ROWS ((int64_t)(BYTES / (WIDTH * sizeof(float))))

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "stream: %s\n", what);
		exit(1);
	}
}

/* The driver's own pinned memory, and a copy of it. */
struct peer {
	void		*host;
	uint64_t	 at;
	int		(*copy)(uint64_t to, const void *from, size_t n);
};

static struct peer peer_open(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int (*host_new)(void **, size_t, unsigned int);
	int (*mem_new)(uint64_t *, size_t);
	struct peer p = { NULL };

	must(lib, "no libcuda.so.1");
	*(void **)&host_new = dlsym(lib, "cuMemHostAlloc");
	*(void **)&mem_new = dlsym(lib, "cuMemAlloc_v2");
	*(void **)&p.copy = dlsym(lib, "cuMemcpyHtoD_v2");
	must(host_new && mem_new && p.copy, "the driver lacks a call");
	must(!host_new(&p.host, BYTES, 0) && !mem_new(&p.at, BYTES), "no memory to copy");
	return p;
}

static struct rlx_session *open_session(struct rlx_arena *arena)
{
	struct rlx_compile_opts c = { .size = sizeof(c), .device = "cuda",
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_session_opts so = { .size = sizeof(so), .strict = true, .arena = arena };
	struct rlx_graph *g = rlx_graph_new("stream");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, WIDTH));
	rlx_value ids = rlx_input(g, "ids", rlx_type(RLX_I64, PICKED));
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	struct rlx_program *p;

	rlx_output(g, "rows", rlx_emit(g, gather, .x = x, .indices = ids));
	must(!rlx_graph_finish(g), "the graph is wrong");
	must(!rlx_compile(g, &c, &p, &err), err.text);
	must(!rlx_session_new(p, &so, &s, &err), err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

static void fill(float *x)
{
	uint64_t seed = 1, i;

	for (i = 0; i < BYTES / sizeof(*x); i++)
		x[i] = (float)(rlx_test_rand(&seed) >> 40) * 0x1p-24f;
}

/* Other rows each time, and another number in each of them. */
static void run(struct rlx_session *s, float *x, uint64_t *seed, double *ms)
{
	int64_t *ids = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "ids"));
	float *y = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "rows"));
	double t0;
	int i;

	must(ids && y, "a buffer is missing");
	for (i = 0; i < PICKED; i++) {
		ids[i] = (int64_t)(rlx_test_rand(seed) % (uint64_t)ROWS);
		x[ids[i] * WIDTH + i] = (float)(*seed >> 40);
	}
	memset(y, 0xff, PICKED * WIDTH * sizeof(*y));
	t0 = (double)rlx_now();
	must(!rlx_session_run(s), rlx_session_error(s)->text);
	*ms = ((double)rlx_now() - t0) * 1e-6;
	for (i = 0; i < PICKED; i++)
		must(!memcmp(y + i * WIDTH, x + ids[i] * WIDTH, WIDTH * sizeof(*y)),
		     "a row is another");
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	struct rlx_arena_opts o = { .size = BYTES + (1 << 20), .provider = "memfd" };
	double own[TURNS], other[TURNS], t0;
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	struct rlx_arena *arena;
	struct rlx_stats before, after;
	uint64_t copied;
	uint64_t seed = 2;
	struct peer p;
	float *x;
	int i;

	must(!rlx_arena_new(&o, &arena, &err), err.text);
	s = open_session(arena);
	x = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x"));
	must(x, "no input");
	fill(x);
	run(s, x, &seed, own);
	p = peer_open();
	memcpy(p.host, x, BYTES);
	rlx_stats_read(&before);
	for (i = 0; i < TURNS; i++) {
		run(s, x, &seed, &own[i]);
		t0 = (double)rlx_now();
		must(!p.copy(p.at, p.host, BYTES), "the copy failed");
		other[i] = ((double)rlx_now() - t0) * 1e-6;
	}
	rlx_stats_read(&after);
	copied = after.bytes_copied - before.bytes_copied;
	qsort(own, TURNS, sizeof(*own), by_value);
	qsort(other, TURNS, sizeof(*other), by_value);
	printf("1 GiB from a memfd arena, some of its rows back: %.2f ms = %.1f GB/s; plain copy "
	       "of pinned memory %.2f ms = %.1f GB/s: %.1f %%; bytes copied by a CPU: %llu\n",
	       own[TURNS / 2], (double)BYTES / own[TURNS / 2] * 1e-6, other[TURNS / 2],
	       (double)BYTES / other[TURNS / 2] * 1e-6, 100 * other[TURNS / 2] / own[TURNS / 2],
	       (unsigned long long)copied);
	rlx_session_free(s);
	rlx_arena_put(arena);
	return copied != 0;
}
