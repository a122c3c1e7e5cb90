// SPDX-License-Identifier: MIT
/*
 * Programs with branches on a GPU, from a host arena to a host arena: launches side by
 * side, and the same ones in the same places one after the other. Results are compared
 * with the CPU's before anything is timed.
 *
 *	build/test/gpubench/streams
 */
#include "backends/gpu/gpu.h"
#include "base/clock.h"
#include "rt/session.h"
#include "selftests/lib/rlx_test.h"

enum { MOST_RUNS = 2000, NS = 200000000 };

static uint64_t seed = 1;

static void must(enum rlx_status st, const struct rlx_error *err)
{
	if (st) {
		fprintf(stderr, "streams: %s: %s\n", rlx_status_name(st), err->text);
		exit(1);
	}
}

static rlx_value weight(struct rlx_graph *g, struct rlx_type t, double most)
{
	int64_t n = rlx_type_count(&t), i;
	float *v = malloc((size_t)n * sizeof(*v));
	rlx_value c;

	for (i = 0; v && i < n; i++)
		v[i] = (float)rlx_test_uniform(&seed, -most, most);
	c = rlx_constant(g, t, v);
	free(v);
	return c;
}

/* @n chains of @length GEMMs of small M. */
static struct rlx_graph *chains(int n, int length)
{
	struct rlx_graph *g = rlx_graph_new("chains");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 16, 512)), y, sum = x;
	int i, k;

	for (i = 0; i < n; i++) {
		for (y = x, k = 0; k < length; k++)
			y = rlx_emit(g, tanh, .x = rlx_emit(g, matmul, .a = y,
				.b = weight(g, rlx_type(RLX_F32, 512, 512), 0.07)));
		sum = rlx_emit(g, add, .a = sum, .b = y);
	}
	rlx_output(g, "y", sum);
	return g;
}

static rlx_value conv(struct rlx_graph *g, rlx_value x, int64_t from, int64_t to, int64_t side)
{
	rlx_value w = weight(g, rlx_type(RLX_F32, to, from, side, side),
			     1.7 / sqrt((double)(from * side * side)));

	return rlx_emit(g, relu, .x = rlx_emit(g, conv, .x = x, .w = w,
			.stride = RLX_INTS(1, 1),
			.pad = RLX_INTS(side / 2, side / 2, side / 2, side / 2)));
}

/* Inception 3a, some times. */
static struct rlx_graph *inception(int n, int64_t batch)
{
	struct rlx_graph *g = rlx_graph_new("inception");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, batch, 192, 28, 28)), of[4];
	int64_t c = 192;

	for (; n > 0; n--, c = 256) {
		of[0] = conv(g, x, c, 64, 1);
		of[1] = conv(g, conv(g, x, c, 96, 1), 96, 128, 3);
		of[2] = conv(g, conv(g, x, c, 16, 1), 16, 32, 5);
		of[3] = conv(g, rlx_emit(g, pool, .x = x, .kind = RLX_POOL_MAX,
				.kernel = RLX_INTS(3, 3), .stride = RLX_INTS(1, 1),
				.pad = RLX_INTS(1, 1, 1, 1)), c, 32, 1);
		x = rlx_emit(g, concat, .axis = 1, .xs = RLX_VALUES(of[0], of[1], of[2], of[3]));
	}
	rlx_output(g, "y", x);
	return g;
}

/* Encoders of sequences that each go both ways, side by side. */
static struct rlx_graph *encoders(int n, int64_t steps)
{
	struct rlx_graph *g = rlx_graph_new("encoders");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, steps, 1, 128)), sum = { 0 }, y;
	int i;

	for (i = 0; i < n; i++) {
		y = rlx_emit(g, lstm, .x = x, .w = weight(g, rlx_type(RLX_F32, 2, 512, 128), 0.1),
			     .r = weight(g, rlx_type(RLX_F32, 2, 512, 128), 0.1), .direction = 2);
		sum = i ? rlx_emit(g, add, .a = sum, .b = y) : y;
	}
	rlx_output(g, "y", sum);
	return g;
}

static struct rlx_session *open_on(struct rlx_graph *g, const char *device,
				   enum rlx_precision precision)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = device, .precision = precision };
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	struct rlx_program *p;

	must(rlx_compile(g, &o, &p, &err), &err);
	must(rlx_session_new(p, NULL, &s, &err), &err);
	rlx_program_put(p);
	return s;
}

static float *buf(struct rlx_session *s, enum rlx_io io, const char *name)
{
	return rlx_buf_ptr(rlx_session_buf(s, io, name));
}

static void run(struct rlx_session *s)
{
	must(rlx_session_run(s), rlx_session_error(s));
}

static void fill(struct rlx_session *s, uint64_t from)
{
	int64_t n = rlx_type_count(rlx_program_io_type(s->p, RLX_IO_INPUT, 0)), i;
	float *x = buf(s, RLX_IO_INPUT, "x");

	for (i = 0; i < n; i++)
		x[i] = (float)rlx_test_uniform(&from, -1, 1);
}

/* Of @s to @c, of all elements together. */
static double error(struct rlx_session *s, struct rlx_session *c)
{
	int64_t n = rlx_type_count(rlx_program_io_type(s->p, RLX_IO_OUTPUT, 0)), i;
	const float *x = buf(s, RLX_IO_OUTPUT, "y"), *y = buf(c, RLX_IO_OUTPUT, "y");
	double d = 0, all = 0;

	run(s);
	for (i = 0; i < n; i++) {
		d += (double)(x[i] - y[i]) * (double)(x[i] - y[i]);
		all += (double)y[i] * (double)y[i];
	}
	return sqrt(d / all);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The median of a run, in us. */
static double measure(struct rlx_session *s)
{
	static uint64_t ns[MOST_RUNS];
	uint64_t from = rlx_now(), t;
	int n;

	for (n = 0; n < MOST_RUNS && rlx_now() - from < NS; n++) {
		t = rlx_now();
		run(s);
		ns[n] = rlx_now() - t;
	}
	qsort(ns, (size_t)n, sizeof(*ns), by_value);
	return (double)ns[n / 2] * 1e-3;
}

/* All in one stream from now on: for sessions that are made later. */
static void flatten(struct rlx_session *s)
{
	struct gpu_code *c = (struct gpu_code *)s->p->code;
	uint32_t i;

	for (i = 0; i < c->calls.n_call; i++) {
		gpu_calls(c)[i].on_stream = 0;
		gpu_calls(c)[i].n_wait = 0;
		gpu_calls(c)[i].awaited = false;
	}
}

static void bench(const char *name, struct rlx_graph *g, enum rlx_precision precision,
		  double tolerance)
{
	struct rlx_session *s, *c, *flat;
	double e, us, one;

	must(rlx_graph_finish(g), rlx_graph_error(g));
	s = open_on(g, "cuda", precision);
	c = open_on(g, "cpu", RLX_PRECISION_AS_WRITTEN);
	rlx_graph_put(g);
	fill(s, 7);
	fill(c, 7);
	run(c);
	e = error(s, c);
	us = measure(s);
	printf("%-28s %u streams: %8.1f us", name, ((struct gpu_code *)s->p->code)->n_stream, us);
	flatten(s);
	must(rlx_session_clone(s, &flat, NULL), rlx_session_error(s));
	fill(flat, 7);
	e = fmax(e, error(flat, c));
	one = measure(flat);
	printf(", one after the other %8.1f us: %.2f; error %.1g\n", one, one / us, e);
	if (!(e < tolerance)) {
		fprintf(stderr, "streams: %s: error %g > %g\n", name, e, tolerance);
		exit(1);
	}
	rlx_session_free(flat);
	rlx_session_free(s);
	rlx_session_free(c);
}

int main(void)
{
	bench("4 chains of 8 products, f16", chains(4, 8), RLX_PRECISION_MIXED_F16, 2e-2);
	bench("4 chains of 8 products, f32", chains(4, 8), RLX_PRECISION_AS_WRITTEN, 1e-4);
	bench("4 inception blocks, f32", inception(4, 1), RLX_PRECISION_AS_WRITTEN, 1e-4);
	bench("the same of 8 images", inception(4, 8), RLX_PRECISION_AS_WRITTEN, 1e-4);
	bench("4 LSTMs of 64 steps, f32", encoders(4, 64), RLX_PRECISION_AS_WRITTEN, 1e-4);
	return 0;
}
