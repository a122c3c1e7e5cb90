// SPDX-License-Identifier: MIT
/*
 * Inputs and outputs in the device's memory (rlx/device_buffer.h): passed from program to program
 * with nothing crossing, the same bits as from the host's memory whichever of them are there, by
 * DLPack from and to other libraries, and what is refused.
 */
#include <math.h>
#include <stdlib.h>

#include "rlx/device_buffer.h"
#include "rlx/inspect.h"
#include "selftests/gpu/sessions.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_oom.h"

static struct rlx_device_buffer *buffer(uint64_t bytes)
{
	struct rlx_device_buffer *b = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_device_buffer_new(op_case_gpu(), bytes, &b, &err), "%s", err.text);
	return b;
}

static void put_in(struct rlx_device_buffer *b, uint64_t at, const void *data, uint64_t bytes)
{
	struct rlx_error err = { 0 };

	CHECKF(!rlx_device_buffer_write(b, at, bytes, data, &err), "%s", err.text);
}

static void take_out(struct rlx_device_buffer *b, uint64_t at, void *data, uint64_t bytes)
{
	struct rlx_error err = { 0 };

	CHECKF(!rlx_device_buffer_read(b, at, bytes, data, &err), "%s", err.text);
}

static void bind(struct rlx_session *s, enum rlx_io io, const char *name,
		 struct rlx_device_buffer *b, uint64_t at)
{
	CHECKF(!rlx_session_bind_device(s, io, name, b, at), "%s", rlx_session_error(s)->text);
}

/* @want, and a message that has @text. */
static void refused(struct rlx_session *s, enum rlx_status st, enum rlx_status want,
		    const char *text)
{
	const char *said = rlx_session_error(s)->text;

	CHECKF(st == want, "%d, not %d: %s", st, want, said);
	CHECKF(strstr(said, text), "%s", said);
}

/* y = 2 x + 1 on @n elements, in two steps that cannot be one; z = sum of x if @more. */
static struct rlx_session *open_line(int64_t n, bool more)
{
	struct rlx_graph *g = rlx_graph_new("line");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, n));
	rlx_value two = rlx_scalar_const(g, RLX_F32, 2), one = rlx_scalar_const(g, RLX_F32, 1);

	rlx_output(g, "y", rlx_emit(g, add, .b = one, .a = rlx_emit(g, mul, .a = x, .b = two)));
	if (more)
		rlx_output(g, "z", rlx_emit(g, reduce, .x = x, .kind = RLX_REDUCE_SUM));
	return rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = op_case_gpu() });
}

static float *numbers(int64_t n, float from)
{
	float *x = malloc((size_t)n * sizeof(*x));

	for (int64_t i = 0; i < n; i++)
		x[i] = from + (float)(i % 1000);
	return x;
}

/* All of @b is as numbers() has it from @from on, @times times through 2 x + 1. */
static void check_line(struct rlx_device_buffer *b, int64_t n, float from, int times)
{
	float *y = calloc((size_t)n, sizeof(*y)), *x = numbers(n, from);

	take_out(b, 0, y, (uint64_t)n * 4);
	for (int64_t i = 0; i < n; i++) {
		for (int k = 0; k < times; k++)
			x[i] = 2 * x[i] + 1;
		CHECKF(y[i] == x[i], "%lld of %lld is %g, not %g", (long long)i, (long long)n,
		       (double)y[i], (double)x[i]);
	}
	free(x);
	free(y);
}

static void crosses_nothing(struct rlx_session *s)
{
	struct rlx_transfers t = rlx_session_transfers(s);

	CHECKF(!t.in && !t.in_bytes && !t.out && !t.out_bytes, "%llu bytes in, %llu out",
	       (unsigned long long)t.in_bytes, (unsigned long long)t.out_bytes);
}

/* Small ones, that kernels else use in host memory, and large ones, that take each other's place */
static const int64_t sizes[] = { 1, 1000, 16 << 10, (16 << 10) + 1, 100000 };
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

TEST(one_program_after_another)
{
	for (int k = 0; k < N_SIZES; k++) {
		int64_t n = sizes[k];
		uint64_t bytes = (uint64_t)n * 4;
		struct rlx_session *first = open_line(n, false), *second = open_line(n, false);
		struct rlx_device_buffer *in = buffer(bytes), *mid = buffer(bytes);
		struct rlx_device_buffer *out = buffer(bytes);

		bind(first, RLX_IO_INPUT, "x", in, 0);
		bind(first, RLX_IO_OUTPUT, "y", mid, 0);
		bind(second, RLX_IO_INPUT, "x", mid, 0);
		bind(second, RLX_IO_OUTPUT, "y", out, 0);
		for (int r = 0; r < 3; r++) {
			float *x = numbers(n, (float)r);

			put_in(in, 0, x, bytes);
			run(first);
			run(second);
			check_line(in, n, (float)r, 0);
			check_line(mid, n, (float)r, 1);
			check_line(out, n, (float)r, 2);
			free(x);
		}
		crosses_nothing(first);
		crosses_nothing(second);
		/* captured launches find new addresses: there and back in place */
		bind(second, RLX_IO_OUTPUT, "y", in, 0);
		run(second);
		check_line(in, n, 2, 2);
		bind(second, RLX_IO_INPUT, "x", in, 0);
		run(second);
		check_line(in, n, 2, 3);
		check_line(mid, n, 2, 1);
		crosses_nothing(second);
		rlx_device_buffer_put(in);
		rlx_device_buffer_put(mid);
		rlx_device_buffer_put(out);
		run(first);			/* sessions keep what they have */
		rlx_session_free(first);
		rlx_session_free(second);
	}
}

/* Submitted runs: of a GPU alone, as nothing is left for the host. */
TEST(submitted)
{
	const int64_t n = 50000;
	struct rlx_device_buffer *b = buffer(2 * 4 * n + 64);
	struct rlx_session *s = open_line(n, true);
	float *x = numbers(n, 0), sum = 0, want = 0;
	uint64_t point, at = 4 * n / 64 * 64 + 64;

	put_in(b, 0, x, 4 * n);
	bind(s, RLX_IO_INPUT, "x", b, 0);
	bind(s, RLX_IO_OUTPUT, "y", b, at);
	for (int i = 0; i < 3; i++) {
		CHECKF(!rlx_session_submit(s, &point), "%s", rlx_session_error(s)->text);
		CHECKF(!rlx_session_wait(s, point, -1), "%s", rlx_session_error(s)->text);
	}
	take_out(b, at, x, 4 * n);
	for (int64_t i = 0; i < n; i++) {
		CHECK(x[i] == 2 * (float)(i % 1000) + 1);
		want += (float)(i % 1000);
	}
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "z", (struct rlx_type){ .dtype = RLX_F32 }, &sum));
	CHECKF(sum > 0.999f * want && sum < 1.001f * want, "%g, not %g", (double)sum,
	       (double)want);
	CHECK_EQ(rlx_session_transfers(s).in_bytes, 0);
	CHECK(rlx_session_transfers(s).out_bytes <= 3 * 4);
	rlx_device_buffer_put(b);
	rlx_session_free(s);
	free(x);
}

/* ---- drawn graphs ---- */

enum { INPUTS = 3, OUTPUTS = 3, STEPS = 6, ROUNDS = 4, GAP = 64 };

struct draw {
	struct rlx_graph	*g;
	uint64_t		 seed, bytes;	/* of every value */
	struct rlx_type		 t;
	rlx_value		 v[INPUTS + STEPS];
	int			 n;
	bool			 host;		/* has steps that no GPU takes */
};

static int below(struct draw *d, int n)
{
	return (int)(rlx_test_rand(&d->seed) % (uint64_t)n);
}

static rlx_value step(struct draw *d)
{
	rlx_value x = d->v[below(d, d->n)], y = d->v[below(d, d->n)];
	struct rlx_graph *g = d->g;

	switch (below(d, 8)) {
	case 0:
		return rlx_emit(g, add, .a = x, .b = y);
	case 1:
		return rlx_emit(g, mul, .a = x, .b = y);
	case 2:
		return rlx_emit(g, tanh, .x = x);
	case 3:
		return rlx_emit(g, softmax, .x = x, .axis = below(d, 4));
	case 4:
		return rlx_emit(g, cumsum, .x = x, .axis = below(d, 4));
	case 5:
		d->host = true;
		return rlx_emit(g, unblock_channels, .channels = 8,
				.x = rlx_emit(g, block_channels, .x = x, .block = 8));
	case 6:
		y = rlx_emit(g, reduce, .x = y, .axes = RLX_INTS(1), .kind = RLX_REDUCE_MAX,
			     .keep_dims = true);
		return rlx_emit(g, sub, .a = x, .b = y);
	default:
		return rlx_emit(g, neg, .x = x);
	}
}

/* Outputs may be inputs as they are, or one value twice. */
static struct rlx_session *draw_session(struct draw *d)
{
	static const int64_t rows[] = { 1, 3, 64, 300 };
	char name[16];

	d->t = rlx_type(RLX_F32, rows[below(d, 4)], 8, 2 + below(d, 5), 9);
	d->bytes = (uint64_t)rlx_type_bytes(&d->t);
	d->g = rlx_graph_new("drawn");
	for (d->n = 0; d->n < INPUTS; d->n++) {
		snprintf(name, sizeof(name), "i%d", d->n);
		d->v[d->n] = rlx_input(d->g, name, d->t);
	}
	for (; d->n < INPUTS + STEPS; d->n++)
		d->v[d->n] = step(d);
	for (int i = 0; i < OUTPUTS; i++) {
		snprintf(name, sizeof(name), "o%d", i);
		rlx_output(d->g, name, d->v[i ? below(d, d->n) : d->n - 1]);
	}
	CHECKF(!rlx_graph_finish(d->g), "%s", rlx_graph_error(d->g)->text);
	return session_of(d->g, op_case_gpu(), 0);
}

/* Where all is in one buffer: @in, and behind them outputs, some of which are over an input. */
struct places {
	struct rlx_device_buffer *b;
	uint64_t	 step, bytes;
	int		 in[INPUTS], out[OUTPUTS];	/* which of the steps; -1: the host's */
	uint8_t		*was, *now;
};

static void place(struct draw *d, struct places *p)
{
	p->step = (d->bytes + GAP + 63) / 64 * 64;
	p->bytes = (INPUTS + OUTPUTS) * p->step;
	for (int i = 0; i < INPUTS; i++)	/* some are one */
		p->in[i] = below(d, 3) ? below(d, 5) ? i : below(d, INPUTS) : -1;
	for (int o = 0; o < OUTPUTS; o++)
		p->out[o] = below(d, 3) ? below(d, 3) ? INPUTS + o : o : -1;
}

static void bind_drawn(struct rlx_session *s, struct draw *d, struct places *p, float *data)
{
	for (unsigned int i = 0; i < INPUTS; i++)
		if (p->in[i] < 0)
			CHECK(!rlx_session_set_at(s, RLX_IO_INPUT, i, d->t,
						  data + i * d->bytes / 4));
		else
			CHECK(!rlx_session_bind_device_at(s, RLX_IO_INPUT, i, p->b,
							  (uint64_t)p->in[i] * p->step));
	for (unsigned int o = 0; o < OUTPUTS; o++) {
		struct rlx_buf host = rlx_session_buf_at(s, RLX_IO_OUTPUT, o);

		if (p->out[o] >= 0)
			CHECK(!rlx_session_bind_device_at(s, RLX_IO_OUTPUT, o, p->b,
							  (uint64_t)p->out[o] * p->step));
		else
			CHECKF(!rlx_session_bind_at(s, RLX_IO_OUTPUT, o, host), "%s",
			       rlx_session_error(s)->text);
	}
}

/* What of the buffer no output is in is as it was. */
static void check_rest(const struct draw *d, const struct places *p)
{
	for (int k = 0; k < INPUTS + OUTPUTS; k++) {
		uint64_t from = (uint64_t)k * p->step;

		for (int o = 0; o < OUTPUTS; o++)
			from += p->out[o] == k ? d->bytes : 0;
		CHECKF(!memcmp(p->was + from, p->now + from, (uint64_t)(k + 1) * p->step - from),
		       "place %d, %llu bytes", k, (unsigned long long)d->bytes);
	}
}

static void round_of(struct rlx_session *host, struct rlx_session *s, struct draw *d,
		     struct places *p, float *data, float *got)
{
	struct rlx_transfers before, after;
	bool all = !d->host;

	place(d, p);
	for (uint64_t k = 0; k < p->bytes; k++)
		p->was[k] = (uint8_t)rlx_test_rand(&d->seed);
	for (uint64_t k = 0; k < INPUTS * d->bytes / 4; k++)
		data[k] = (float)rlx_test_uniform(&d->seed, -1, 1);
	for (int i = 0; i < INPUTS; i++) {
		float *one = data + (uint64_t)i * d->bytes / 4;

		all = all && p->in[i] >= 0;
		for (int j = 0; j < i; j++)
			if (p->in[i] >= 0 && p->in[j] == p->in[i])
				memcpy(one, data + (uint64_t)j * d->bytes / 4, d->bytes);
		if (p->in[i] >= 0)
			memcpy(p->was + (uint64_t)p->in[i] * p->step, one, d->bytes);
		CHECK(!rlx_session_set_at(host, RLX_IO_INPUT, (unsigned int)i, d->t, one));
	}
	put_in(p->b, 0, p->was, p->bytes);
	bind_drawn(s, d, p, data);
	run(host);
	before = rlx_session_transfers(s);
	run(s);
	after = rlx_session_transfers(s);
	take_out(p->b, 0, p->now, p->bytes);
	check_rest(d, p);
	for (unsigned int o = 0; o < OUTPUTS; o++) {
		const void *is = p->now + (uint64_t)p->out[o] * p->step;

		all = all && p->out[o] >= 0;
		CHECK(!rlx_session_get_at(host, RLX_IO_OUTPUT, o, d->t, data));
		CHECK(!rlx_session_get_at(s, RLX_IO_OUTPUT, o, d->t, got));
		CHECKF(!memcmp(data, got, d->bytes), "output %u at %d", o, p->out[o]);
		if (p->out[o] >= 0)
			CHECK(!memcmp(is, got, d->bytes));
	}
	CHECKF(!all || !memcmp(&before, &after, sizeof(before)), "%llu bytes in, %llu out",
	       (unsigned long long)(after.in_bytes - before.in_bytes),
	       (unsigned long long)(after.out_bytes - before.out_bytes));
}

TEST(drawn_graphs)
{
	const char *more = getenv("RLX_TEST_GRAPHS");
	int graphs = more ? atoi(more) : 6;
	uint64_t seed = rlx_test_seed();

	for (int k = 0; k < graphs; k++) {
		struct draw d = { .seed = seed + (uint64_t)k * 7919 };
		struct rlx_session *host = draw_session(&d), *s = NULL;
		struct places p = { 0 };
		float *data, *got;

		CHECK(!rlx_session_new(rlx_session_program(host), NULL, &s, NULL));
		place(&d, &p);
		p.b = buffer(p.bytes);
		p.was = malloc(p.bytes);
		p.now = malloc(p.bytes);
		data = malloc(INPUTS * d.bytes);
		got = malloc(d.bytes);
		for (int r = 0; r < ROUNDS; r++)
			round_of(host, s, &d, &p, data, got);
		rlx_device_buffer_put(p.b);
		rlx_session_free(s);
		rlx_session_free(host);
		rlx_graph_put(d.g);
		free(p.was);
		free(p.now);
		free(data);
		free(got);
	}
}

/* ---- a cache that is updated in place ---- */

enum { ROWS = 16, HEADS = 2, WIDTH = 64 };

static struct rlx_session *open_cache(struct rlx_type cache, struct rlx_type x)
{
	struct rlx_graph *g = rlx_graph_new("cache");
	rlx_value y = rlx_emit(g, cached_attention, .cache = rlx_input(g, "cache", cache),
			       .x = rlx_input(g, "x", x), .heads = HEADS, .kv_heads = HEADS,
			       .pos = rlx_input(g, "pos", rlx_type(RLX_I64, 1)));

	rlx_output(g, "next", y);
	rlx_output(g, "y", rlx_out(g, y, 1));
	return rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = op_case_gpu() });
}

/* 0.125 to 1, and below zero. */
static void halves(uint16_t *x, size_t n, uint64_t *seed)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t v = rlx_test_rand(seed);

		x[i] = (uint16_t)((v & 0x8000) | (0x3000 + (v >> 20) % 0xc00));
	}
}

/* @way 0: one place; 1: two; 2: the old one is the host's; 3: the new one is */
static void cached(int way, uint64_t seed)
{
	struct rlx_type cache = rlx_type(RLX_F16, 2, 1, ROWS, HEADS, WIDTH);
	struct rlx_type x = rlx_type(RLX_F16, 1, 1, 3 * HEADS * WIDTH);
	struct rlx_type y = rlx_type(RLX_F16, 1, 1, HEADS * WIDTH);
	static uint16_t old[2 * ROWS * HEADS * WIDTH], want[2 * ROWS * HEADS * WIDTH];
	static uint16_t got[2 * ROWS * HEADS * WIDTH], in[3 * HEADS * WIDTH];
	uint16_t out[2][HEADS * WIDTH];
	struct rlx_session *host = open_cache(cache, x), *s = open_cache(cache, x);
	struct rlx_device_buffer *a = buffer(sizeof(old)), *b = buffer(sizeof(old));

	halves(old, sizeof(old) / 2, &seed);
	put_in(a, 0, old, sizeof(old));
	for (int64_t pos = 0; pos < 3; pos++) {
		struct rlx_session *each[] = { host, s };

		halves(in, sizeof(in) / 2, &seed);
		for (int k = 0; k < 2; k++) {
			CHECK(!rlx_session_set(each[k], RLX_IO_INPUT, "x", x, in));
			CHECK(!rlx_session_set(each[k], RLX_IO_INPUT, "pos",
					       rlx_type(RLX_I64, 1), &pos));
		}
		CHECK(!rlx_session_set(host, RLX_IO_INPUT, "cache", cache, old));
		if (way == 2)
			CHECK(!rlx_session_set(s, RLX_IO_INPUT, "cache", cache, old));
		else
			bind(s, RLX_IO_INPUT, "cache", a, 0);
		if (way != 3)
			bind(s, RLX_IO_OUTPUT, "next", way ? b : a, 0);
		run(host);
		run(s);
		CHECK(!rlx_session_get(host, RLX_IO_OUTPUT, "next", cache, want));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "next", cache, got));
		CHECKF(!memcmp(want, got, sizeof(got)), "way %d, row %d: the cache", way, (int)pos);
		CHECK(!rlx_session_get(host, RLX_IO_OUTPUT, "y", y, out[0]));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", y, out[1]));
		CHECKF(!memcmp(out[0], out[1], sizeof(out[0])), "way %d, row %d: y", way, (int)pos);
		if (way != 3)
			take_out(way ? b : a, 0, got, sizeof(got));
		CHECK(!memcmp(want, got, sizeof(got)));
		take_out(a, 0, got, sizeof(got));	/* written by way 0 alone */
		CHECK(way == 2 || !memcmp(way ? old : want, got, sizeof(got)));
		memcpy(old, want, sizeof(old));
		put_in(a, 0, old, sizeof(old));
	}
	rlx_device_buffer_put(a);
	rlx_device_buffer_put(b);
	rlx_session_free(host);
	rlx_session_free(s);
}

TEST(cache_in_place_and_apart)
{
	for (int way = 0; way < 4; way++)
		cached(way, rlx_test_seed() + (uint64_t)way);
}

/* ---- what a session says and takes ---- */

static uint32_t where(struct rlx_session *s, enum rlx_io io, const char *name)
{
	uint32_t at = ~0u;

	CHECKF(!rlx_session_where(s, io, name, &at), "%s", rlx_session_error(s)->text);
	return at;
}

/* The last word on where an input is counts. */
TEST(host_and_device_in_turns)
{
	enum { N = 30000 };
	struct rlx_type t = rlx_type(RLX_F32, N);
	struct rlx_session *s = open_line(N, false);
	struct rlx_device_buffer *x = buffer(4 * N), *y = buffer(4 * N);
	float *one = numbers(N, 1), *five = numbers(N, 5), *got = numbers(N, 0);
	struct rlx_buf own;

	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, five));
	run(s);
	put_in(x, 0, one, 4 * N);
	bind(s, RLX_IO_INPUT, "x", x, 0);	/* over what was set */
	bind(s, RLX_IO_OUTPUT, "y", y, 0);
	CHECK_EQ(where(s, RLX_IO_INPUT, "x"), RLX_WHERE_DEVICE);
	CHECK_EQ(where(s, RLX_IO_OUTPUT, "y"), 0);
	run(s);
	CHECK_EQ(where(s, RLX_IO_OUTPUT, "y"), RLX_WHERE_DEVICE);
	check_line(y, N, 1, 1);
	CHECK(!rlx_session_get(s, RLX_IO_INPUT, "x", t, got));
	CHECK(!memcmp(got, one, 4 * N));
	CHECK(!rlx_session_rows(s, "y", 7, 2, got, 8));
	CHECK(got[0] == 17 && got[1] == 19);
	CHECK(((float *)rlx_buf_ptr(rlx_session_bound(s, RLX_IO_OUTPUT, "y")))[7] == 17);
	/* the buffer to write to has what was there, and the device's is not read any more */
	own = rlx_session_buf(s, RLX_IO_INPUT, "x");
	CHECK(!memcmp(rlx_buf_ptr(own), one, 4 * N));
	CHECK_EQ(where(s, RLX_IO_INPUT, "x"), RLX_WHERE_HOST);
	memcpy(rlx_buf_ptr(own), five, 4 * N);
	run(s);
	check_line(y, N, 5, 1);
	check_line(x, N, 1, 0);
	bind(s, RLX_IO_INPUT, "x", x, 0);
	run(s);
	check_line(y, N, 1, 1);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, five));
	run(s);
	check_line(y, N, 5, 1);
	check_line(x, N, 1, 0);
	/* without it an input has no value, and outputs are the session's */
	bind(s, RLX_IO_INPUT, "x", x, 0);
	CHECK(!rlx_session_unbind(s));
	refused(s, rlx_session_run(s), RLX_EINVAL, "input 'x' has no value");
	bind(s, RLX_IO_INPUT, "x", x, 0);
	CHECK(!rlx_session_bind(s, RLX_IO_INPUT, "x",
				rlx_session_bound(s, RLX_IO_OUTPUT, "y")));
	CHECK(!rlx_session_unbind(s));
	refused(s, rlx_session_run(s), RLX_EINVAL, "input 'x' has no value");
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, one));
	put_in(y, 0, five, 4 * N);
	run(s);
	check_line(y, N, 5, 0);
	CHECK(((float *)rlx_buf_ptr(rlx_session_bound(s, RLX_IO_OUTPUT, "y")))[7] == 17);
	rlx_device_buffer_put(x);
	rlx_device_buffer_put(y);
	rlx_session_free(s);
	free(one);
	free(five);
	free(got);
}

/* A strict session copies nothing, and what the device does of its own is none of its copies. */
TEST(strict)
{
	enum { N = 30000 };
	struct rlx_session *like = open_line(N, false), *s = NULL;
	struct rlx_session_opts o = { .size = sizeof(o), .strict = true };
	struct rlx_device_buffer *b = buffer(4 * N);
	struct rlx_type t = rlx_type(RLX_F32, N);
	float *x = numbers(N, 2);

	CHECK(!rlx_session_new(rlx_session_program(like), &o, &s, NULL));
	put_in(b, 0, x, 4 * N);
	bind(s, RLX_IO_INPUT, "x", b, 0);
	bind(s, RLX_IO_OUTPUT, "y", b, 0);
	run(s);
	check_line(b, N, 2, 1);
	refused(s, rlx_session_get(s, RLX_IO_OUTPUT, "y", t, x), RLX_EACCES, "strict");
	refused(s, rlx_session_set(s, RLX_IO_INPUT, "x", t, x), RLX_EACCES, "strict");
	run(s);					/* which is bound as before */
	check_line(b, N, 2, 2);
	crosses_nothing(s);
	rlx_device_buffer_put(b);
	rlx_session_free(s);
	rlx_session_free(like);
	free(x);
}

/* What an inspection reads of inputs is what they are on the device. */
TEST(inspected)
{
	enum { N = 1000 };
	struct rlx_session *s = open_line(N, false);
	struct rlx_device_buffer *b = buffer(4 * N);
	const struct rlx_inspected *v = NULL;
	struct rlx_inspection *a = NULL;
	struct rlx_error err = { 0 };
	float *x = numbers(N, 0);

	x[700] = NAN;
	put_in(b, 0, x, 4 * N);
	bind(s, RLX_IO_INPUT, "x", b, 0);
	CHECKF(!rlx_session_inspect(s, &a, &err), "%s", err.text);
	v = rlx_inspection_first_bad(a, 0);
	CHECK(v && !strcmp(v->name, "x"));
	rlx_inspection_free(a);
	rlx_device_buffer_put(b);
	rlx_session_free(s);
	free(x);
}

/* Rows that carry no data are left alone, and outputs that nobody wants. */
TEST(rows_and_wanted)
{
	enum { R = 64, C = 512 };
	struct rlx_graph *g = rlx_graph_new("rows");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, R, C));
	struct rlx_device_buffer *b[3];
	static float in[R * C], got[R * C];
	const char *const want = "a";
	struct rlx_session *s;

	rlx_output(g, "a", rlx_emit(g, neg, .x = x));
	rlx_output(g, "b", rlx_emit(g, tanh, .x = x));
	s = rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = op_case_gpu() });
	for (int i = 0; i < R * C; i++)
		in[i] = (float)(i % 100);
	for (int i = 0; i < 3; i++) {
		b[i] = buffer(sizeof(in));
		put_in(b[i], 0, in, sizeof(in));
	}
	bind(s, RLX_IO_INPUT, "x", b[0], 0);
	bind(s, RLX_IO_OUTPUT, "a", b[1], 0);
	bind(s, RLX_IO_OUTPUT, "b", b[2], 0);
	CHECK(!rlx_session_extent(s, 5, R));
	CHECK(!rlx_session_want(s, &want, 1));
	run(s);
	take_out(b[1], 0, got, sizeof(got));
	for (int i = 0; i < 5 * C; i++)
		CHECK(got[i] == -in[i]);
	CHECK(!memcmp(got + 5 * C, in + 5 * C, sizeof(in) - 5 * C * 4));
	take_out(b[2], 0, got, sizeof(got));
	CHECK(!memcmp(got, in, sizeof(in)));
	crosses_nothing(s);
	rlx_session_free(s);
	for (int i = 0; i < 3; i++)
		rlx_device_buffer_put(b[i]);
}

TEST(refusals)
{
	enum { N = 1000 };
	struct rlx_type t = rlx_type(RLX_F32, N);
	struct rlx_graph *g = rlx_graph_new("sum");
	rlx_value x = rlx_input(g, "x", t);
	struct rlx_device_buffer *b = buffer(4 * N + 64), *cpu = NULL, *none = b;
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	float v = 0;

	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = rlx_param(g, "w", t)));
	rlx_output(g, "z", rlx_emit(g, neg, .x = x));
	s = rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = op_case_gpu() });
	CHECK_EQ(rlx_device_buffer_new("cpu", 4 * N, &cpu, NULL), 0);
	refused(s, rlx_session_bind_device(s, RLX_IO_INPUT, "q", b, 0), RLX_ENOENT, "'q'");
	refused(s, rlx_session_bind_device_at(s, RLX_IO_OUTPUT, 2, b, 0), RLX_ENOENT, "index 2");
	refused(s, rlx_session_bind_device(s, RLX_IO_INPUT, "x", NULL, 0), RLX_EINVAL, "none");
	refused(s, rlx_session_bind_device(s, RLX_IO_PARAM, "w", b, 0), RLX_EINVAL, "param 'w'");
	refused(s, rlx_session_bind_device(s, RLX_IO_INPUT, "x", b, 128), RLX_ERANGE,
		"4000 bytes at offset 128 of 4064");
	refused(s, rlx_session_bind_device(s, RLX_IO_INPUT, "x", b, 1ull << 60), RLX_ERANGE,
		"offset");
	/* bound to the host's memory, it has no value of its own after a refusal either */
	CHECK(!rlx_session_bind(s, RLX_IO_INPUT, "x", rlx_session_buf(s, RLX_IO_OUTPUT, "y")));
	refused(s, rlx_session_bind_device(s, RLX_IO_INPUT, "x", b, 16), RLX_ERANGE, "boundary");
	CHECK(!rlx_session_unbind(s));
	refused(s, rlx_session_run(s), RLX_EINVAL, "input 'x' has no value");
	refused(s, rlx_session_bind_device(s, RLX_IO_INPUT, "x", cpu, 0), RLX_EINVAL, "'cpu'");
	/* in part over an input, and over another output */
	CHECK(!rlx_session_set(s, RLX_IO_PARAM, "w", t, (float[N]){ 0 }));
	bind(s, RLX_IO_INPUT, "x", b, 0);
	bind(s, RLX_IO_OUTPUT, "y", b, 64);
	refused(s, rlx_session_run(s), RLX_EINVAL, "overlap in part");
	bind(s, RLX_IO_OUTPUT, "y", b, 0);
	bind(s, RLX_IO_OUTPUT, "z", b, 0);
	refused(s, rlx_session_run(s), RLX_EINVAL, "overlap");
	/* what is fed changes places, and has none of these */
	refused(s, rlx_session_feed(s, "y", "x"), RLX_EINVAL, "device buffer");
	CHECK(!rlx_session_unbind(s));
	CHECK(!rlx_session_feed(s, "y", "x"));
	refused(s, rlx_session_bind_device(s, RLX_IO_INPUT, "x", b, 0), RLX_EINVAL, "fed");
	refused(s, rlx_session_bind_device(s, RLX_IO_OUTPUT, "y", b, 0), RLX_EINVAL, "fed");
	rlx_session_free(s);
	CHECK_EQ(rlx_device_buffer_read(b, 4 * N, 65, &v, &err), RLX_ERANGE);
	CHECK_EQ(rlx_device_buffer_read(b, 4 * N + 65, 0, &v, &err), RLX_ERANGE);
	CHECK_EQ(rlx_device_buffer_read(b, 0, ~0ull, &v, &err), RLX_ERANGE);
	CHECK_EQ(rlx_device_buffer_write(b, 0, 4, NULL, &err), RLX_EINVAL);
	CHECK_EQ(rlx_device_buffer_write(NULL, 0, 4, &v, &err), RLX_EINVAL);
	CHECK_EQ(rlx_device_buffer_write(b, 4 * N + 64, 0, NULL, &err), RLX_OK);
	CHECK_EQ(rlx_device_buffer_new(op_case_gpu(), 0, &none, &err), RLX_EINVAL);
	CHECK(!none);
	CHECK_EQ(rlx_device_buffer_new(op_case_gpu(), 1ull << 50, &none, &err), RLX_ENOMEM);
	CHECK(!none);
	CHECK_EQ(rlx_device_buffer_new("nowhere", 4, &none, &err), RLX_ENODEV);
	rlx_device_buffer_put(b);
	rlx_device_buffer_put(cpu);
	rlx_device_buffer_put(NULL);
}

/* ---- DLPack ---- */

static int deleted;

static void on_delete(struct rlx_dl_managed *dl)
{
	deleted++;
}

static void on_delete_versioned(struct rlx_dl_versioned *dl)
{
	deleted++;
}

TEST(dlpack_there_and_back)
{
	enum { R = 40, C = 500 };
	struct rlx_type t = rlx_type(RLX_F32, R, C), got = { 0 };
	struct rlx_device_buffer *b = buffer(64 + 4 * R * C), *again = NULL;
	struct rlx_session *s = open_line(R * C, false);
	struct rlx_device_buffer_info a, i;
	struct rlx_dl_managed *dl = NULL;
	struct rlx_error err = { 0 };
	float *x = numbers(R * C, 3);

	put_in(b, 64, x, 4 * R * C);
	CHECKF(!rlx_dl_export_device(b, 64, &t, &dl, &err), "%s", err.text);
	rlx_device_buffer_info(b, &a);
	rlx_device_buffer_put(b);		/* the tensor keeps it */
	CHECK_EQ(dl->tensor.device.device_type, a.device[0] == 'r' ? RLX_DL_ROCM : RLX_DL_CUDA);
	CHECK_EQ(dl->tensor.device.device_id, strchr(a.device, ':') ?
		 atoi(strchr(a.device, ':') + 1) : 0);
	CHECK_EQ((uintptr_t)dl->tensor.data, a.at + 64);
	CHECK(dl->tensor.shape[1] == C && dl->tensor.strides[0] == C && a.bytes == 64 + 4 * R * C);
	CHECK_EQ(rlx_dl_import(dl, &got, &(struct rlx_buf){ 0 }, NULL), RLX_ENOSUP);
	CHECKF(!rlx_dl_import_device(dl, &got, &again, &err), "%s", err.text);
	CHECK(rlx_type_equal(&got, &t));
	rlx_device_buffer_info(again, &i);
	CHECK(i.at == a.at + 64 && i.bytes == 4 * R * C && !i.rdonly);
	CHECK_STR(i.device, a.device);
	bind(s, RLX_IO_INPUT, "x", again, 0);
	bind(s, RLX_IO_OUTPUT, "y", again, 0);
	run(s);
	check_line(again, R * C, 3, 1);
	rlx_device_buffer_put(again);
	rlx_session_free(s);			/* which has it until now */
	free(x);
}

TEST(dlpack_refusals)
{
	struct rlx_device_buffer *b = buffer(4096), *out = b;
	int64_t shape[2] = { 4, 8 }, strides[2] = { 16, 1 };
	struct rlx_device_buffer_info i;
	struct rlx_type t, big = rlx_type(RLX_F32, 1025);
	struct rlx_dl_managed dl = {
		.tensor = { .device = { RLX_DL_CUDA, 0 }, .ndim = 2, .shape = shape,
			    .dtype = { RLX_DL_FLOAT, 32, 1 }, .strides = strides },
		.deleter = on_delete,
	}, *lent = &dl;
	struct rlx_dl_versioned v = {
		.version = { 1, 0 }, .flags = RLX_DL_READ_ONLY, .deleter = on_delete_versioned,
	}, *vl = &v;
	struct rlx_session *s = open_line(16, false);
	struct rlx_error err = { 0 };

	rlx_device_buffer_info(b, &i);
	dl.tensor.data = (void *)(uintptr_t)i.at;
	if (i.device[0] == 'r')
		dl.tensor.device.device_type = RLX_DL_ROCM;
	CHECK_EQ(rlx_dl_import_device(&dl, &t, &out, &err), RLX_ENOSUP);
	CHECK(!out && strstr(err.text, "contiguous"));
	strides[0] = 8;
	dl.tensor.device.device_id = 99;
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_dl_import_device(&dl, &t, &out, &err), RLX_ENODEV);
	CHECKF(strstr(err.text, ":99"), "%s", err.text);
	dl.tensor.device = (struct rlx_dl_device){ 7, 0 };	/* kDLVulkan */
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_dl_import_device(&dl, &t, &out, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "type 7"), "%s", err.text);
	CHECK_EQ(rlx_dl_import_device(NULL, &t, &out, &err), RLX_EINVAL);
	CHECK_EQ(rlx_dl_export_device(b, 0, &big, &lent, &err), RLX_ERANGE);
	CHECK_EQ(rlx_dl_export_device(b, 4097, &big, &lent, &err), RLX_ERANGE);
	CHECK_EQ(rlx_dl_export_device_versioned(NULL, 0, &big, &vl, &err), RLX_EINVAL);
	CHECK_EQ(deleted, 0);
	/* one that must not be written to, 16 past a boundary */
	v.tensor = dl.tensor;
	v.tensor.device = (struct rlx_dl_device){ i.device[0] == 'r' ? RLX_DL_ROCM : RLX_DL_CUDA,
						  strchr(i.device, ':') ?
						  atoi(strchr(i.device, ':') + 1) : 0 };
	v.tensor.byte_offset = 16;
	err = (struct rlx_error){ 0 };
	CHECKF(!rlx_dl_import_device_versioned(&v, &t, &out, &err), "%s", err.text);
	CHECK_EQ(rlx_device_buffer_write(out, 0, 4, &t, &err), RLX_EACCES);
	refused(s, rlx_session_bind_device(s, RLX_IO_INPUT, "x", out, 0), RLX_ERANGE,
		"begins 16 past a 64-byte boundary");
	bind(s, RLX_IO_INPUT, "x", out, 48);
	refused(s, rlx_session_bind_device(s, RLX_IO_OUTPUT, "y", out, 48), RLX_EACCES,
		"read-only");
	t = rlx_type(RLX_F32, 16);
	CHECK_EQ(rlx_dl_export_device(out, 0, &t, &lent, &err), RLX_EACCES);
	CHECK(!rlx_dl_export_device_versioned(out, 0, &t, &vl, &err));
	CHECK_EQ(vl->flags, RLX_DL_READ_ONLY);
	rlx_device_buffer_put(out);
	rlx_session_free(s);
	CHECK_EQ(deleted, 0);
	vl->deleter(vl);
	CHECK_EQ(deleted, 1);
	rlx_device_buffer_put(b);
}

/* ---- memory that runs out ---- */

static enum rlx_status take_and_run(void *ctx)
{
	struct rlx_program *p = ctx;
	struct rlx_type t = rlx_type(RLX_F32, 20000);
	struct rlx_device_buffer *b = NULL;
	struct rlx_dl_managed *dl = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_device_buffer_new(op_case_gpu(), 80000, &b, &err);

	if (!st)
		st = rlx_session_new(p, NULL, &s, &err);
	if (!st)
		st = rlx_session_bind_device(s, RLX_IO_INPUT, "x", b, 0);
	if (!st)
		st = rlx_session_bind_device(s, RLX_IO_OUTPUT, "y", b, 0);
	if (!st)
		st = rlx_session_run(s);
	if (!st)
		st = rlx_dl_export_device(b, 0, &t, &dl, &err);
	if (dl) {
		rlx_device_buffer_put(b);
		b = NULL;
		st = rlx_dl_import_device(dl, &t, &b, &err);
		if (st)
			dl->deleter(dl);
	}
	rlx_device_buffer_put(b);
	rlx_session_free(s);
	return st;
}

TEST(allocations_that_fail)
{
	struct rlx_session *s = open_line(20000, false);

	CHECK(!take_and_run(rlx_session_program(s)));
	CHECK(rlx_oom_sweep(take_and_run, rlx_session_program(s)) > 0);
	rlx_session_free(s);
}

TEST_MAIN()
