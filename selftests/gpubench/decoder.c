// SPDX-License-Identifier: MIT
/*
 * Decoders of the shapes of llama's 1B and 8B with random bf16 weights: tokens a second
 * at batch 1, from a token on the host to the next one, and the share of what reading
 * the weights once at the bandwidth of a copy would allow.
 *
 *	build/test/gpubench/decoder [1b | 8b | products | steps ...]
 */
#include <pthread.h>

#include "backends/gpu/gpu.h"
#include "base/clock.h"
#include "rt/session.h"
#include "selftests/lib/decoder.h"

enum { THREADS = 16, FROM = 512, TOKENS = 256, ROWS = 1024, MOST_RUNS = 200 };

static const struct shape {
	const char		*name;
	struct decoder_size	z;
} shapes[] = {
	{ "1b", { 16, 2048, 32, 8, 64, 8192, 128256, ROWS } },
	{ "8b", { 32, 4096, 32, 8, 128, 14336, 128256, ROWS } },
};

static double copy_rate;	/* bytes read and written a second */

static void must(enum rlx_status st, const struct rlx_error *err)
{
	if (st) {
		fprintf(stderr, "decoder: %s: %s\n", rlx_status_name(st), err->text);
		exit(1);
	}
}

/* From one place of the device's memory to another, by the driver. */
static void measure_copy(struct gpu_device *d)
{
	enum { COPIES = 10 };
	const uint64_t bytes = (uint64_t)2 << 30;
	struct rlx_error err = { 0 };
	uint64_t from, to, t0 = 0;
	int i;

	must(gpu_enter(d, &err), &err);
	must(gpu_mem_new(d, bytes, &from, &err), &err);
	must(gpu_mem_new(d, bytes, &to, &err), &err);
	must(gpu_check(d, d->api->fill8(from, 0x5a, bytes, d->stream), "filling", &err), &err);
	for (i = -2; i < COPIES; i++) {
		if (!i) {
			must(gpu_check(d, d->api->stream_wait(d->stream), "copying", &err), &err);
			t0 = rlx_now();
		}
		must(gpu_check(d, d->api->copy(to, from, bytes, d->stream), "copying", &err), &err);
	}
	must(gpu_check(d, d->api->stream_wait(d->stream), "copying", &err), &err);
	copy_rate = 2.0 * (double)bytes * COPIES / ((double)(rlx_now() - t0) * 1e-9);
	printf("copy: %.2f TB/s, read and written\n", copy_rate * 1e-12);
	gpu_mem_free(d, from);
	gpu_mem_free(d, to);
}

static struct rlx_session *open_session(struct rlx_graph *g)
{
	struct rlx_compile_opts c = { .size = sizeof(c), .device = "cuda",
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	uint64_t t0 = rlx_now();

	must(rlx_compile(g, &c, &p, &err), &err);
	must(rlx_session_new(p, NULL, &s, &err), &err);
	if (copy_rate == 0)
		measure_copy((struct gpu_device *)p->dev);
	printf("# %u steps, compiled in %.0f ms\n", p->plan->n_step,
	       (double)(rlx_now() - t0) * 1e-6);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

static void run(struct rlx_session *s)
{
	must(rlx_session_run(s), rlx_session_error(s));
}

/* ---- random bf16 ---- */

struct part {
	pthread_t	thread;
	uint16_t	*p;
	int64_t		n;
	uint64_t	seed;
	float		scale;
	float		plus;
};

static void *fill_part(void *arg)
{
	struct part *q = arg;
	uint64_t x = q->seed * 0x9e3779b97f4a7c15u + 1;
	uint32_t u;
	int64_t i;
	float f;

	for (i = 0; i < q->n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		f = q->plus + (float)(int32_t)x * 0x1p-31f * q->scale;
		memcpy(&u, &f, sizeof(u));
		q->p[i] = (uint16_t)(u >> 16);
	}
	return NULL;
}

static void fill(uint16_t *p, int64_t n, float scale, float plus)
{
	static uint64_t seed;
	struct part part[THREADS];
	int t;

	for (t = 0; t < THREADS; t++) {
		int64_t from = n / THREADS * t, to = t + 1 < THREADS ? n / THREADS * (t + 1) : n;

		part[t] = (struct part){ .p = p + from, .n = to - from, .seed = ++seed,
					 .scale = scale, .plus = plus };
		if (pthread_create(&part[t].thread, NULL, fill_part, &part[t]))
			exit(1);
	}
	for (t = 0; t < THREADS; t++)
		pthread_join(part[t].thread, NULL);
}

/* All inputs and params of bf16; sums of products stay about as large as what went in. */
static int64_t fill_all(struct rlx_session *s, enum rlx_io io)
{
	struct rlx_program *p = rlx_session_program(s);
	int64_t bytes = 0, n;
	unsigned int i;

	for (i = 0; i < rlx_program_io_count(p, io); i++) {
		const char *name = rlx_program_io_name(p, io, i);
		const struct rlx_type *t = rlx_program_io_type(p, io, i);
		void *at = rlx_buf_ptr(rlx_session_buf(s, io, name));

		if (!at)
			must(RLX_ENOMEM, rlx_session_error(s));
		if (t->dtype != RLX_BF16)
			continue;
		n = rlx_type_count(t);
		if (!strncmp(name, "norm", 4))
			fill(at, n, 0.2f, 1);
		else
			fill(at, n, io == RLX_IO_INPUT ? 1 :
			     sqrtf(3.0f / (float)t->dim[t->rank - 1]), 0);
		bytes += strcmp(name, "words") ? n * 2 : 0;
	}
	return bytes;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_run(struct rlx_session *s, int n)
{
	static double t[MOST_RUNS];
	uint64_t t0;
	int i;

	for (i = 0; i < 3; i++)
		run(s);
	for (i = 0; i < n; i++) {
		t0 = rlx_now();
		run(s);
		t[i] = (double)(rlx_now() - t0) * 1e-9;
	}
	qsort(t, (size_t)n, sizeof(*t), by_value);
	return t[n / 2];
}

/* ---- products ---- */

/*
 * One after the other, each with weights of its own, together many times the device's
 * cache; each adds what the one before it gave, so that none is left out.
 */
static void product(int64_t m, int64_t n, int64_t k, bool trans)
{
	struct rlx_graph *g = rlx_graph_new("products");
	int64_t each = n * k * 2, count = ((int64_t)2 << 30) / each, i;
	rlx_value x = rlx_param(g, "x", rlx_type(RLX_BF16, m, k)), y = RLX_NONE, w;
	struct rlx_session *s;
	double t, rate;

	for (i = 0; i < count; i++) {
		w = rlx_param(g, decoder_name("w", i), trans ? rlx_type(RLX_BF16, n, k) :
			      rlx_type(RLX_BF16, k, n));
		y = rlx_emit(g, fused_matmul, .a = x, .b = w, .trans_b = trans, .residual = y);
	}
	y = rlx_emit(g, reduce, .x = y, .kind = RLX_REDUCE_MAX);
	rlx_output(g, "y", y);
	must(rlx_graph_finish(g), rlx_graph_error(g));
	s = open_session(g);
	fill_all(s, RLX_IO_PARAM);
	t = median_run(s, 20) / (double)count;
	rate = (double)each / t;
	printf("product m%lld n%lld k%lld%s: %.2f us, %.2f TB/s, %.1f %% of the copy's\n",
	       (long long)m, (long long)n, (long long)k, trans ? " transposed" : "", t * 1e6,
	       rate * 1e-12, 100 * rate / copy_rate);
	rlx_session_free(s);
}

static void products(void)
{
	static const int64_t rows[] = { 1, 8, 16 };
	int i, trans;

	for (trans = 1; trans >= 0; trans--)
		for (i = 0; i < 3; i++) {
			product(rows[i], 4096, 14336, trans);
			product(rows[i], 14336, 4096, trans);
		}
}

/* ---- decoders ---- */

/* By kind of step: its time when each runs alone. */
static void tell_steps(struct rlx_session *s)
{
	const struct rlx_plan *p = s->p->plan;
	uint64_t *ns = calloc(p->n_step, sizeof(*ns));
	char type[96];
	uint32_t i;
	int k;

	if (!ns)
		exit(1);
	s->exec->step_ns = ns;
	for (k = 0; k < 20; k++)
		run(s);
	s->exec->step_ns = NULL;
	for (i = 0; i < p->n_step; i++) {
		rlx_type_print(&p->val[p->step[i].out[0]].type, type, sizeof(type));
		if (i < 14 || i + 8 > p->n_step)
			printf("#  %3u %-20s %-24s %8.2f us\n", i, p->step[i].def ?
			       p->step[i].def->name : "copy", type, (double)ns[i] * 5e-5);
	}
	free(ns);
}

static void decode(const struct shape *q, bool steps)
{
	struct rlx_session *s = open_session(decoder_graph(&q->z, RLX_BF16));
	int64_t *token = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "token"));
	int64_t *pos = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "pos"));
	const int64_t *next;
	char from[48];
	int64_t bytes = fill_all(s, RLX_IO_PARAM), l, i;
	uint64_t t0 = 0;
	double rate, most;

	fill_all(s, RLX_IO_INPUT);
	for (l = 0; l < q->z.layers; l++) {
		snprintf(from, sizeof(from), "%s", decoder_name("cached", l));
		must(rlx_session_feed(s, from, decoder_name("cache", l)), rlx_session_error(s));
	}
	next = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "next"));
	must(rlx_session_want(s, (const char *const[]){ "next" }, 1), rlx_session_error(s));
	*token = 1;
	for (i = -8; i < TOKENS; i++) {
		if (!i)
			t0 = rlx_now();
		*pos = FROM + i;
		run(s);
		*token = *next;
	}
	rate = TOKENS / ((double)(rlx_now() - t0) * 1e-9);
	most = copy_rate / (double)bytes;
	printf("%s: %.1f tokens/s at context %d to %d; at the copy's bandwidth %.1f: %.1f %%\n",
	       q->name, rate, FROM, FROM + TOKENS, most, 100 * rate / most);
	if (steps)
		tell_steps(s);
	rlx_session_free(s);
}

int main(int argc, char **argv)
{
	bool steps = false, any = false;
	size_t k;
	int i;

	for (i = 1; i < argc; i++) {
		steps = steps || !strcmp(argv[i], "steps");
		any = any || strcmp(argv[i], "steps");
		if (!strcmp(argv[i], "products"))
			products();
	}
	if (!any)
		products();
	for (k = 0; k < sizeof(shapes) / sizeof(*shapes); k++) {
		bool wanted = !any;

		for (i = 1; i < argc; i++)
			wanted = wanted || !strcmp(argv[i], shapes[k].name);
		if (wanted)
			decode(&shapes[k], steps);
	}
	return 0;
}
