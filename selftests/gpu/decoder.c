// SPDX-License-Identifier: MIT
/*
 * Steps of a small decoder in bf16 on a GPU and, in f32 with the same weights, on the
 * CPU; the caches stay on the device.
 */
#include "rlx/run.h"
#include "selftests/lib/decoder.h"
#include "selftests/lib/op_case.h"

enum { STEPS = 24 };

static const struct decoder_size size = { 2, 64, 8, 2, 16, 136, 120, 32 };

static struct rlx_session *open_session(const struct decoder_size *z, const char *device,
					enum rlx_dtype dt)
{
	struct rlx_graph *g = decoder_graph(z, dt);
	struct rlx_compile_opts c = { .size = sizeof(c), .device = device,
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;

	CHECKF(!rlx_compile(g, &c, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

static void set(struct rlx_session *s, enum rlx_io io, const char *name, struct rlx_type t,
		const void *data)
{
	CHECKF(!rlx_session_set(s, io, name, t, data), "%s", rlx_session_error(s)->text);
}

static void get(struct rlx_session *s, enum rlx_io io, const char *name, struct rlx_type t,
		void *data)
{
	CHECKF(!rlx_session_get(s, io, name, t, data), "%s", rlx_session_error(s)->text);
}

static void run(struct rlx_session *s)
{
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
}

/* Numbers that bf16 has, the same in both sessions. */
static void fill(struct rlx_session *s[2], enum rlx_io io, uint64_t *seed)
{
	const struct rlx_program *p = rlx_session_program(s[0]);
	unsigned int i;
	int64_t k, n;

	for (i = 0; i < rlx_program_io_count(p, io); i++) {
		const char *name = rlx_program_io_name(p, io, i);
		struct rlx_type t = *rlx_program_io_type(p, io, i);
		bool one = !strncmp(name, "norm", 4);
		float *v;

		if (t.dtype != RLX_BF16)
			continue;
		n = rlx_type_count(&t);
		v = malloc((size_t)n * sizeof(*v));
		CHECK(v);
		for (k = 0; k < n; k++)
			v[k] = (float)(rlx_test_rand(seed) % 257) / 512 - 0.25f + (float)one;
		t.dtype = RLX_F32;
		set(s[0], io, name, t, v);
		set(s[1], io, name, t, v);
		free(v);
	}
}

static double distance(const float *a, const float *b, int64_t n)
{
	double d = 0, all = 0;
	int64_t i;

	for (i = 0; i < n; i++) {
		d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
		all += (double)b[i] * (double)b[i];
	}
	return sqrt(d / all);
}

/*
 * What bf16 rounds away is about a hundredth of what comes out, by steps more and less:
 * none may be far off, nor all of them a little, which end() looks at.
 */
static double squares;
static int compared;

static void same(struct rlx_session *s[2], enum rlx_io io, const char *name)
{
	struct rlx_type t = *rlx_program_io_type(rlx_session_program(s[1]), io,
		(unsigned int)rlx_program_io_find(rlx_session_program(s[1]), io, name));
	int64_t n = rlx_type_count(&t);
	float *a = malloc((size_t)n * 2 * sizeof(*a));
	double d;

	CHECK(a);
	get(s[0], io, name, t, a);
	get(s[1], io, name, t, a + n);
	d = distance(a, a + n, n);
	CHECKF(d < 0.06, "%s is %g off", name, d);
	squares += d * d;
	compared++;
	free(a);
}

static void step(struct rlx_session *s[2], int64_t token, int64_t pos)
{
	struct rlx_type one = rlx_type(RLX_I64, 1);
	int64_t next, i, best = 0;
	float logits[256];
	int k;

	for (k = 0; k < 2; k++) {
		set(s[k], RLX_IO_INPUT, "token", one, &token);
		set(s[k], RLX_IO_INPUT, "pos", one, &pos);
		run(s[k]);
	}
	same(s, RLX_IO_OUTPUT, "logits");
	get(s[0], RLX_IO_OUTPUT, "next", one, &next);
	get(s[0], RLX_IO_OUTPUT, "logits", rlx_type(RLX_F32, 1, size.vocab), logits);
	for (i = 1; i < size.vocab; i++)
		if (logits[i] > logits[best])
			best = i;
	CHECK_EQ(next, best);
}

static void feed(struct rlx_session *s, bool on)
{
	char from[48], to[48];
	int64_t l;

	for (l = 0; l < size.layers; l++) {
		snprintf(from, sizeof(from), "%s", decoder_name("cached", l));
		snprintf(to, sizeof(to), "%s", decoder_name("cache", l));
		CHECKF(!rlx_session_feed(s, on ? from : NULL, to), "%s",
		       rlx_session_error(s)->text);
	}
}

static void begin(struct rlx_session *s[2], uint64_t *seed)
{
	s[0] = open_session(&size, op_case_gpu(), RLX_BF16);
	s[1] = open_session(&size, "cpu", RLX_F32);
	fill(s, RLX_IO_PARAM, seed);
	fill(s, RLX_IO_INPUT, seed);
	feed(s[0], true);
	feed(s[1], true);
}

static void end(struct rlx_session *s[2])
{
	CHECKF(sqrt(squares / compared) < 0.02, "%g off all in all", sqrt(squares / compared));
	rlx_session_free(s[0]);
	rlx_session_free(s[1]);
}

/* Any tokens at places [first, end). */
static void steps(struct rlx_session *s[2], uint64_t *seed, int64_t first, int64_t end)
{
	for (; first < end; first++)
		step(s, (int64_t)(rlx_test_rand(seed) % (uint64_t)size.vocab), first);
}

TEST(steps_are_the_cpus)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_session *s[2];

	begin(s, &seed);
	steps(s, &seed, 0, STEPS);
	/* the state by either name, and by its rows, as it is by now */
	same(s, RLX_IO_OUTPUT, "logits");
	same(s, RLX_IO_INPUT, "cache.0");
	same(s, RLX_IO_INPUT, "cache.1");
	steps(s, &seed, STEPS, size.rows);
	end(s);
}

TEST(a_state_is_changed_by_hand)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_session *s[2];

	begin(s, &seed);
	steps(s, &seed, 0, 3);
	fill(s, RLX_IO_INPUT, &seed);
	steps(s, &seed, 9, 12);
	end(s);
}

/* Without feeding, every step begins with the same caches; fed again, with the last. */
TEST(feeding_ends_and_begins)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_session *s[2];

	begin(s, &seed);
	steps(s, &seed, 0, 3);
	feed(s[0], false);
	feed(s[1], false);
	steps(s, &seed, 5, 8);
	same(s, RLX_IO_INPUT, "cache.1");
	same(s, RLX_IO_OUTPUT, "cached.1");
	feed(s[0], true);
	feed(s[1], true);
	steps(s, &seed, 3, 6);
	end(s);
}

TEST(a_position_out_of_range)
{
	struct rlx_type one = rlx_type(RLX_I64, 1);
	uint64_t seed = rlx_test_seed();
	int64_t token = 1, pos = size.rows;
	struct rlx_session *s[2];

	begin(s, &seed);
	step(s, 3, 0);
	set(s[0], RLX_IO_INPUT, "token", one, &token);
	set(s[0], RLX_IO_INPUT, "pos", one, &pos);
	CHECK_EQ(rlx_session_run(s[0]), RLX_ERANGE);
	step(s, 4, 1);
	end(s);
}

TEST_MAIN()
