// SPDX-License-Identifier: MIT
/*
 * What depends on params alone is worked out by the first run and kept, until a param is bound,
 * set or asked for to be written; what depends on inputs never is.
 */
#include "plan/plan.h"
#include "rt/session.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { ROWS = 3, IN = 17, WIDTH = 13, CHAIN = 4 };

/*
 * u = softmax(w), v = cumsum(u); y = x v and more that reuses memory; z = x u'. Of v and u, z
 * needs one, y the other: w is a param, or else an input.
 */
static struct rlx_graph *net(bool param)
{
	struct rlx_graph *g = rlx_graph_new("net");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, IN)), y, u, v;
	rlx_value w = param ? rlx_param(g, "w", rlx_type(RLX_F32, IN, WIDTH)) :
		      rlx_input(g, "w", rlx_type(RLX_F32, IN, WIDTH));
	int i;

	u = rlx_emit(g, softmax, .x = w, .axis = 0);
	v = rlx_emit(g, cumsum, .x = u, .axis = 1);
	y = rlx_emit(g, matmul, .a = x, .b = v);
	for (i = 0; i < CHAIN; i++)
		y = rlx_emit(g, cumsum, .x = rlx_emit(g, softmax, .x = y, .axis = -1), .axis = 1);
	rlx_output(g, "y", y);
	v = rlx_emit(g, cumsum, .x = u, .axis = 0);
	rlx_output(g, "z", rlx_emit(g, softmax, .x = rlx_emit(g, matmul, .a = x, .b = v),
				    .axis = -1));
	return g;
}

static struct rlx_session *session(struct rlx_graph *g, const char *device)
{
	return rig_session(g, &(struct rlx_compile_opts){ .size = sizeof(struct rlx_compile_opts),
							  .device = device });
}

struct data {
	float	x[ROWS * IN], w[IN * WIDTH];
};

static void draw(float *to, int n, uint64_t *seed)
{
	int i;

	for (i = 0; i < n; i++)
		to[i] = (float)rlx_test_uniform(seed, -2, 2);
}

static void set_x(struct rlx_session *s, struct data *d, uint64_t *seed)
{
	draw(d->x, ROWS * IN, seed);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, ROWS, IN), d->x));
}

static void set_w(struct rlx_session *s, struct data *d, uint64_t *seed)
{
	draw(d->w, IN * WIDTH, seed);
	CHECK(!rlx_session_set(s, RLX_IO_PARAM, "w", rlx_type(RLX_F32, IN, WIDTH), d->w));
}

static void get(struct rlx_session *s, const char *name, float *to)
{
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, name, rlx_type(RLX_F32, ROWS, WIDTH), to));
}

/* Output @name against what a session makes that never ran before. */
static void check(struct rlx_session *s, const struct data *d, const char *name)
{
	struct rlx_session *fresh = session(net(true), "ref");
	float got[ROWS * WIDTH], want[ROWS * WIDTH];
	int i;

	CHECK(!rlx_session_set(fresh, RLX_IO_INPUT, "x", rlx_type(RLX_F32, ROWS, IN), d->x));
	CHECK(!rlx_session_set(fresh, RLX_IO_PARAM, "w", rlx_type(RLX_F32, IN, WIDTH), d->w));
	CHECKF(!rlx_session_run(fresh), "%s", rlx_session_error(fresh)->text);
	get(s, name, got);
	get(fresh, name, want);
	for (i = 0; i < ROWS * WIDTH; i++)
		CHECKF(fabsf(got[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i])),
		       "%s[%d] is %g, not %g", name, i, (double)got[i], (double)want[i]);
	rlx_session_free(fresh);
}

static void run(struct rlx_session *s)
{
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
}

/* Steps that the last run left out. */
static unsigned int left_out(const struct rlx_session *s)
{
	unsigned int n = 0, i;

	for (i = 0; s->exec->skip && i < s->p->plan->n_step; i++)
		n += s->exec->skip[i];
	return n;
}

/* @f on each device. */
static void everywhere(void (*f)(const char *device, uint64_t seed))
{
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), i;

	for (i = 0; i < n; i++)
		if (device[i])
			f(device[i], rlx_test_seed() + i);
}

static void once(const char *device, uint64_t seed)
{
	struct rlx_session *s = session(net(true), device);
	struct data d;
	struct rlx_buf b;
	unsigned int i;

	CHECK_EQ(s->p->plan->n_persistent, 2);
	set_w(s, &d, &seed);
	for (i = 0; i < 4; i++) {
		set_x(s, &d, &seed);
		run(s);
		check(s, &d, "y");
		check(s, &d, "z");
		CHECKF(i ? left_out(s) == 3 : !left_out(s), "%s: %u steps left out", device,
		       left_out(s));
	}
	/* nobody has said that it is another */
	b = rlx_session_bound(s, RLX_IO_PARAM, "w");
	((float *)rlx_buf_ptr(b))[5] += 1;
	run(s);
	check(s, &d, "y");
	/* now somebody has */
	d.w[5] = ((float *)rlx_buf_ptr(b))[5];
	CHECK(!rlx_session_bind(s, RLX_IO_PARAM, "w", b));
	run(s);
	CHECK_EQ(left_out(s), 0);
	check(s, &d, "y");
	d.w[6] = ((float *)rlx_buf_ptr(rlx_session_buf(s, RLX_IO_PARAM, "w")))[6] = 3;
	run(s);
	check(s, &d, "y");
	set_w(s, &d, &seed);
	for (i = 0; i < 2; i++) {
		run(s);
		check(s, &d, "y");
		check(s, &d, "z");
	}
	CHECK_EQ(left_out(s), 3);
	rlx_session_free(s);
}

TEST(params_are_worked_on_once) { everywhere(once); }

/* Pointwise ops that passes join to one, as Mamba's -exp(a) is. */
static void joined(const char *device, uint64_t seed)
{
	struct rlx_graph *g = rlx_graph_new("joined");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, IN));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, IN, WIDTH));
	float got[ROWS * WIDTH];
	struct rlx_session *s;
	struct data d;
	int i, k, r;

	w = rlx_emit(g, neg, .x = rlx_emit(g, exp, .x = w));
	rlx_output(g, "y", rlx_emit(g, matmul, .a = x, .b = w));
	s = session(g, device);
	for (r = 0; r < 5; r++) {
		if (r % 3 == 0)
			set_w(s, &d, &seed);
		set_x(s, &d, &seed);
		run(s);
		CHECKF(left_out(s) == (r % 3 ? s->p->plan->n_step - 1 : 0), "%s: %u of %u steps "
		       "left out", device, left_out(s), s->p->plan->n_step);
		get(s, "y", got);
		for (i = 0; i < ROWS * WIDTH; i++) {
			double y = 0;

			for (k = 0; k < IN; k++)
				y -= (double)d.x[i / WIDTH * IN + k] *
				     exp((double)d.w[k * WIDTH + i % WIDTH]);
			CHECKF(fabs(got[i] - y) <= 1e-4 * (1 + fabs(y)), "%s: y[%d] is %g, not %g",
			       device, i, (double)got[i], y);
		}
	}
	rlx_session_free(s);
}

TEST(joined_ones_of_params_too) { everywhere(joined); }

/* Whose memory may be written at any time. */
static void each_run(const char *device, uint64_t seed)
{
	struct rlx_session *s = session(net(false), device);
	float *w = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "w"));
	struct data d;
	int i;

	CHECK_EQ(s->p->plan->n_persistent, 0);
	for (i = 0; i < 3; i++) {
		set_x(s, &d, &seed);
		draw(d.w, IN * WIDTH, &seed);
		memcpy(w, d.w, sizeof(d.w));
		run(s);
		CHECK_EQ(left_out(s), 0);
		check(s, &d, "y");
		check(s, &d, "z");
	}
	rlx_session_free(s);
}

TEST(inputs_are_read_by_each_run) { everywhere(each_run); }

/* What one output needed is not there for another that was not wanted then. */
static void wanted(const char *device, uint64_t seed)
{
	static const char *const y = "y", *const z = "z";
	struct rlx_session *s = session(net(true), device);
	struct data d;
	int i, k;

	for (i = 0; i < 24; i++) {
		k = (int)(rlx_test_rand(&seed) % 3);
		CHECK(!rlx_session_want(s, k == 2 ? NULL : k ? &z : &y, 1));
		if (i % 6 == 0)
			set_w(s, &d, &seed);
		set_x(s, &d, &seed);
		run(s);
		if (k != 1)
			check(s, &d, "y");
		if (k)
			check(s, &d, "z");
	}
	rlx_session_free(s);
}

TEST(wanted_outputs_have_what_they_need) { everywhere(wanted); }

/* A workspace of the caller's, in which nothing stays. */
static void shared(const char *device, uint64_t seed)
{
	struct rlx_session *first = session(net(true), device), *s[2];
	struct rlx_program *p = rlx_session_program(first);
	struct rlx_session_opts o = { .size = sizeof(o) };
	struct rlx_program_info info;
	struct rlx_arena *a;
	struct data d[2];
	int i;

	rlx_program_info(p, &info);
	CHECK(!rlx_arena_new(&(struct rlx_arena_opts){ .size = info.work_bytes + 64 }, &a, NULL));
	o.work = rlx_buf_whole(a);
	for (i = 0; i < 2; i++) {
		CHECK(!rlx_session_new(p, &o, &s[i], NULL));
		set_w(s[i], &d[i], &seed);
	}
	for (i = 0; i < 6; i++) {
		set_x(s[i % 2], &d[i % 2], &seed);
		run(s[i % 2]);
		memset(rlx_buf_ptr(o.work), 0x7f, o.work.bytes);
		check(s[i % 2], &d[i % 2], "y");
		check(s[i % 2], &d[i % 2], "z");
	}
	rlx_session_free(s[0]);
	rlx_session_free(s[1]);
	rlx_session_free(first);
	rlx_arena_put(a);
}

TEST(nothing_is_kept_in_memory_that_is_shared) { everywhere(shared); }

static void submitted(const char *device, uint64_t seed)
{
	struct rlx_session *s = session(net(true), device), *c = NULL;
	struct data d;
	uint64_t point;
	int i;

	set_w(s, &d, &seed);
	for (i = 0; i < 3; i++) {
		set_x(s, &d, &seed);
		CHECK(!rlx_session_submit(s, &point));
		CHECK(!rlx_session_wait(s, point, -1));
		check(s, &d, "y");
		CHECK(!left_out(s) == !i);
	}
	CHECK(!rlx_session_clone(s, &c, NULL));
	for (i = 0; i < 2; i++) {
		set_x(c, &d, &seed);
		run(c);
		check(c, &d, "y");
		check(c, &d, "z");
	}
	rlx_session_free(c);
	rlx_session_free(s);
}

TEST(runs_in_the_background_and_clones) { everywhere(submitted); }

/* A param that makes a run fail does so each time; an output of params is written each time. */
static void bad(const char *device, uint64_t seed)
{
	struct rlx_graph *g = rlx_graph_new("bad");
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 8, 4));
	rlx_value at = rlx_param(g, "at", rlx_type(RLX_I64, 3)), rows;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	int64_t index[3] = { 1, 8, 2 };
	struct rlx_session *s;
	float table[32], y[8], t[12], in[6] = { 1, 0, 0, 0, 0, 1 };
	int i, k;

	rows = rlx_emit(g, gather, .x = w, .indices = at, .axis = 0);
	rlx_output(g, "y", rlx_emit(g, matmul, .a = x, .b = rows));
	rlx_output(g, "t", rlx_emit(g, softmax, .x = rlx_emit(g, cumsum, .x = w, .axis = 0),
				    .axis = 0));
	s = session(g, device);
	draw(table, 32, &seed);
	CHECK(!rlx_session_set(s, RLX_IO_PARAM, "w", rlx_type(RLX_F32, 8, 4), table));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 2, 3), in));
	for (k = 0; k < 2; k++) {
		index[1] = 8;
		CHECK(!rlx_session_set(s, RLX_IO_PARAM, "at", rlx_type(RLX_I64, 3), index));
		for (i = 0; i < 2; i++)
			CHECK_EQ(rlx_session_run(s), RLX_ERANGE);
		index[1] = 3;
		CHECK(!rlx_session_set(s, RLX_IO_PARAM, "at", rlx_type(RLX_I64, 3), index));
		for (i = 0; i < 3; i++) {
			struct rlx_buf b = rlx_session_buf(s, RLX_IO_OUTPUT, "t");

			memset(rlx_buf_ptr(b), 0xff, b.bytes);
			run(s);
			CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 2, 4), y));
			CHECK(!memcmp(y, table + 4, 16) && !memcmp(y + 4, table + 8, 16));
			memcpy(t, rlx_buf_ptr(b), sizeof(t));
			CHECK(t[0] >= 0 && t[0] <= 1);
		}
	}
	rlx_session_free(s);
}

TEST(failures_are_not_kept) { everywhere(bad); }

/* What constants make, if it is too much for folding, is worked out once as well. */
static void of_constants(const char *device, uint64_t seed)
{
	enum { LARGE = 256 };
	struct rlx_type t = rlx_type(RLX_F32, LARGE, LARGE), row = rlx_type(RLX_F32, 1, LARGE);
	struct rlx_graph *g = rlx_graph_new("large");
	rlx_value x = rlx_input(g, "x", row), w = rlx_param(g, "w", t), c;
	static float k[LARGE * LARGE], first[LARGE], y[LARGE];
	struct rlx_session *s;
	int i, r;

	draw(k, LARGE * LARGE, &seed);
	c = rlx_constant(g, t, k);
	c = rlx_emit(g, mul, .a = rlx_emit(g, matmul, .a = c, .b = c), .b = w);
	rlx_output(g, "y", rlx_emit(g, matmul, .a = x, .b = c));
	s = session(g, device);
	CHECK(!rlx_session_set(s, RLX_IO_PARAM, "w", t, k));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", row, k));
	for (r = 0; r < 3; r++) {
		run(s);
		CHECKF(left_out(s) == (r ? 2 : 0), "%s: %u steps left out", device, left_out(s));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", row, r ? y : first));
		for (i = 0; r && i < LARGE; i++)
			CHECKF(fabsf(y[i] - first[i]) <= 1e-3f * (1 + fabsf(first[i])),
			       "%s: run %d makes y[%d] %g, the first made it %g", device, r, i,
			       (double)y[i], (double)first[i]);
	}
	rlx_session_free(s);
}

TEST(large_ones_of_constants_too) { everywhere(of_constants); }

/* ---- any graph ---- */

enum { SIDE = 9, PARAMS = 3, INPUTS = 2, NODES = 28, OUTPUTS = 3 };

static const char *const leaf[] = { "p0", "p1", "p2", "i0", "i1" };
static const char *const output[] = { "o0", "o1", "o2" };

static rlx_value node(struct rlx_graph *g, const rlx_value *v, uint32_t n, uint64_t *seed)
{
	rlx_value a = v[rlx_test_rand(seed) % n], b = v[rlx_test_rand(seed) % n];

	switch (rlx_test_rand(seed) % 6) {
	case 0: return rlx_emit(g, softmax, .x = rlx_emit(g, matmul, .a = a, .b = b), .axis = 1);
	case 1: return rlx_emit(g, softmax, .x = a, .axis = 0);
	case 2: return rlx_emit(g, transpose, .x = a, .perm = RLX_INTS(1, 0));
	case 3: return rlx_emit(g, tanh, .x = rlx_emit(g, cumsum, .x = a, .axis = 1));
	case 4: return rlx_emit(g, sub, .a = a, .b = b);
	default: return rlx_emit(g, mul, .a = a, .b = rlx_emit(g, sigmoid, .x = b));
	}
}

static struct rlx_graph *any(uint64_t seed)
{
	struct rlx_graph *g = rlx_graph_new("any");
	struct rlx_type t = rlx_type(RLX_F32, SIDE, SIDE);
	rlx_value v[PARAMS + INPUTS + NODES];
	uint32_t n = 0, i;

	for (i = 0; i < PARAMS + INPUTS; i++, n++)
		v[n] = i < PARAMS ? rlx_param(g, leaf[i], t) : rlx_input(g, leaf[i], t);
	for (i = 0; i < NODES; i++, n++)
		v[n] = node(g, v, n, &seed);
	for (i = 0; i < OUTPUTS; i++)
		rlx_output(g, output[i], v[n - 1 - i * 3]);
	/* all of them are read */
	for (i = 0; i < PARAMS + INPUTS; i++)
		v[0] = i ? rlx_emit(g, sub, .a = v[0], .b = v[i]) : v[0];
	rlx_output(g, "all", v[0]);
	return g;
}

static void compare(struct rlx_session *s, struct rlx_session *fresh, const char *name)
{
	struct rlx_type t = rlx_type(RLX_F32, SIDE, SIDE);
	float got[SIDE * SIDE], want[SIDE * SIDE];
	int i;

	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, name, t, got));
	CHECK(!rlx_session_get(fresh, RLX_IO_OUTPUT, name, t, want));
	for (i = 0; i < SIDE * SIDE; i++)
		CHECKF(fabsf(got[i] - want[i]) <= 1e-3f * (1 + fabsf(want[i])),
		       "%s[%d] is %g, not %g", name, i, (double)got[i], (double)want[i]);
}

/* @s with leaves drawn anew, of params now and then, against a session that never ran. */
static void one_run(struct rlx_session *s, uint64_t graph, float (*data)[SIDE * SIDE],
		    uint64_t *seed)
{
	struct rlx_type t = rlx_type(RLX_F32, SIDE, SIDE);
	struct rlx_session *fresh = session(any(graph), "ref");
	uint32_t only = (uint32_t)(rlx_test_rand(seed) % (2 * OUTPUTS)), i;

	for (i = 0; i < PARAMS + INPUTS; i++) {
		enum rlx_io io = i < PARAMS ? RLX_IO_PARAM : RLX_IO_INPUT;

		if (i >= PARAMS || isnan(data[i][0]) || rlx_test_rand(seed) % 6 == 0) {
			draw(data[i], SIDE * SIDE, seed);
			CHECK(!rlx_session_set(s, io, leaf[i], t, data[i]));
		}
		CHECK(!rlx_session_set(fresh, io, leaf[i], t, data[i]));
	}
	CHECK(!rlx_session_want(s, only < OUTPUTS ? &output[only] : NULL, 1));
	run(s);
	run(fresh);
	for (i = 0; i < OUTPUTS; i++)
		if (only >= OUTPUTS || only == i)
			compare(s, fresh, output[i]);
	rlx_session_free(fresh);
}

static void random_graphs(const char *device, uint64_t seed)
{
	float data[PARAMS + INPUTS][SIDE * SIDE];
	unsigned int kept = 0, i, k;

	for (i = 0; i < 40; i++) {
		struct rlx_session *s = session(any(seed + i), device);
		uint64_t draws = seed + i;

		kept += s->p->plan->n_persistent;
		for (k = 0; k < PARAMS + INPUTS; k++)
			data[k][0] = NAN;
		for (k = 0; k < 10; k++)
			one_run(s, seed + i, data, &draws);
		rlx_session_free(s);
	}
	CHECK(kept > 20);
}

TEST(any_graph_any_output) { everywhere(random_graphs); }

TEST_MAIN()
