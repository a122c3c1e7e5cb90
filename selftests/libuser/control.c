// SPDX-License-Identifier: MIT
/*
 * Control flow on the CPU: compiled bodies, drawn by chance and nested, against the
 * reference; what a run takes of memory, what a program tells of its bodies, and errors in
 * them.
 */
#include <math.h>
#include <pthread.h>

#include "base/alloc.h"
#include "rlx/store.h"
#include "rt/rt.h"
#include "selftests/lib/host_op.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

/* Every graph here has these inputs, the first three of which it gives back. */
enum { I, X, V, W, N_STATE = 3, N_IN };

struct draw {
	uint64_t	seed;
	int64_t		cols;
	bool		host;	/* what has no kernel, too */
};

static int64_t pick(struct draw *d, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(&d->seed) % (uint64_t)(hi - lo + 1));
}

static void inputs(struct rlx_graph *g, int64_t rows, int64_t cols, rlx_value v[N_IN])
{
	v[I] = rlx_input(g, "i", rlx_scalar(RLX_I64));
	v[X] = rlx_input(g, "x", rlx_type(RLX_F32, rows, cols));
	v[V] = rlx_input(g, "v", rlx_type(RLX_F32, cols));
	v[W] = rlx_input(g, "w", rlx_type(RLX_F32, cols, cols));
}

static void outputs(struct rlx_graph *g, const rlx_value v[N_IN])
{
	rlx_output(g, "i", v[I]);
	rlx_output(g, "x", v[X]);
	rlx_output(g, "v", v[V]);
}

static void finish(struct rlx_graph *g)
{
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
}

static rlx_value i64(struct rlx_graph *g, int64_t n)
{
	return rlx_constant(g, rlx_scalar(RLX_I64), &n);
}

static void some_steps(struct rlx_graph *g, struct draw *d, int64_t rows, unsigned int depth,
		       rlx_value v[N_IN]);

static struct rlx_graph *body(struct draw *d, int64_t rows, unsigned int depth)
{
	struct rlx_graph *g = rlx_graph_new("body");
	rlx_value v[N_IN];

	inputs(g, rows, d->cols, v);
	some_steps(g, d, rows, depth, v);
	outputs(g, v);
	finish(g);
	return g;
}

static void emit_if(struct rlx_graph *g, struct draw *d, int64_t rows, unsigned int depth,
		    rlx_value v[N_IN])
{
	struct rlx_graph *yes = body(d, rows, depth), *no = body(d, rows, depth);
	rlx_value pred = rlx_emit(g, lt, .a = v[I], .b = i64(g, pick(d, 0, 6)));
	rlx_value y = rlx_emit(g, if, .pred = pred, .then_g = yes, .else_g = no,
			       .xs = { v, N_IN });
	unsigned int k;

	for (k = 0; k < N_STATE; k++)
		v[k] = rlx_out(g, y, k);
	rlx_graph_put(yes);
	rlx_graph_put(no);
}

/* Counts from the state's i up to a limit that is an input, none at times. */
static void emit_while(struct rlx_graph *g, struct draw *d, int64_t rows, unsigned int depth,
		       rlx_value v[N_IN])
{
	rlx_value in[N_IN + 1], go[N_IN + 1], next[N_IN + 1], y;
	struct rlx_graph *c = rlx_graph_new("cond"), *b = rlx_graph_new("body");
	unsigned int k;

	memcpy(in, v, N_IN * sizeof(*v));
	in[N_IN] = rlx_emit(g, add, .a = v[I], .b = i64(g, pick(d, 0, 4)));
	inputs(c, rows, d->cols, go);
	go[N_IN] = rlx_input(c, "end", rlx_scalar(RLX_I64));
	rlx_output(c, "go", rlx_emit(c, lt, .a = go[I], .b = go[N_IN]));
	finish(c);
	inputs(b, rows, d->cols, next);
	next[N_IN] = rlx_input(b, "end", rlx_scalar(RLX_I64));
	some_steps(b, d, rows, depth, next);
	next[I] = rlx_emit(b, add, .a = next[I], .b = i64(b, 1));
	outputs(b, next);
	finish(b);
	y = rlx_emit(g, while, .cond_g = c, .body_g = b, .n_carry = N_STATE,
		     .max_trip = pick(d, 0, 3), .xs = { in, N_IN + 1 });
	for (k = 0; k < N_STATE; k++)
		v[k] = rlx_out(g, y, k);
	rlx_graph_put(c);
	rlx_graph_put(b);
}

/* Over the rows of x: i and v are carried, each row becomes another one. */
static void emit_scan(struct rlx_graph *g, struct draw *d, int64_t rows, unsigned int depth,
		      rlx_value v[N_IN])
{
	struct rlx_graph *b = rlx_graph_new("body");
	const int64_t back[2] = { pick(d, 0, 1), pick(d, 0, 1) };
	rlx_value s[N_IN], y;

	s[I] = rlx_input(b, "i", rlx_scalar(RLX_I64));
	s[V] = rlx_input(b, "v", rlx_type(RLX_F32, d->cols));
	s[X] = rlx_input(b, "x", rlx_type(RLX_F32, d->cols));
	s[W] = rlx_input(b, "w", rlx_type(RLX_F32, d->cols, d->cols));
	s[X] = rlx_emit(b, reshape, .x = s[X], .shape = RLX_INTS(1, d->cols));
	some_steps(b, d, 1, depth, s);
	rlx_output(b, "i", s[I]);
	rlx_output(b, "v", s[V]);
	rlx_output(b, "y", rlx_emit(b, reshape, .x = s[X], .shape = RLX_INTS(d->cols)));
	finish(b);
	y = rlx_emit(g, scan, .body_g = b, .n_carry = 2, .n_xs = 1, .length = rows,
		     .reverse_xs = { back, 1 }, .reverse_ys = { back + 1, 1 },
		     .xs = RLX_VALUES(v[I], v[V], v[X], v[W]));
	v[I] = y;
	v[V] = rlx_out(g, y, 1);
	v[X] = rlx_out(g, y, 2);
	rlx_graph_put(b);
}

static rlx_value scaled(struct rlx_graph *g, rlx_value x, double by)
{
	return rlx_emit(g, mul, .a = x, .b = rlx_scalar_const(g, RLX_F32, by));
}

/*
 * No step makes the largest difference of two states larger, w's columns summing up to a half
 * at most: so what loops round is told from what is wrong.
 */
static void one_step(struct rlx_graph *g, struct draw *d, int64_t rows, unsigned int depth,
		     rlx_value v[N_IN])
{
	rlx_value half = scaled(g, v[V], 0.5), x;

	switch (pick(d, 0, depth ? 9 : 6)) {
	case 0:
	case 1:
		x = rlx_emit(g, matmul, .a = v[X], .b = v[W]);
		v[X] = rlx_emit(g, tanh, .x = rlx_emit(g, add, .a = x, .b = half));
		return;
	case 2:
		x = scaled(g, rlx_emit(g, mul, .a = v[X], .b = v[V]), 0.25);
		v[X] = rlx_emit(g, add, .a = x, .b = half);
		return;
	case 3:
		x = rlx_emit(g, reduce, .x = v[X], .axes = RLX_INTS(0));
		x = scaled(g, x, 0.5 / (double)rows);
		v[V] = rlx_emit(g, tanh, .x = rlx_emit(g, add, .a = x, .b = half));
		return;
	case 4:
		v[I] = rlx_emit(g, add, .a = v[I], .b = i64(g, 1));
		return;
	case 5:
		v[X] = rlx_emit(g, softmax, .x = v[X], .axis = -1);
		return;
	case 6:
		if (d->host)
			v[V] = rlx_emit(g, add, .a = half, .b =
					rlx_emit(g, reduce, .x = host_op(g, v[W]),
						 .axes = RLX_INTS(0)));
		return;
	case 7:
		emit_if(g, d, rows, depth - 1, v);
		return;
	case 8:
		emit_while(g, d, rows, depth - 1, v);
		return;
	default:
		emit_scan(g, d, rows, depth - 1, v);
	}
}

static void some_steps(struct rlx_graph *g, struct draw *d, int64_t rows, unsigned int depth,
		       rlx_value v[N_IN])
{
	int64_t n = pick(d, 0, 3);

	for (; n > 0; n--)
		one_step(g, d, rows, depth, v);
}

/* One of each at the top; w is a constant or an input. */
static struct rlx_graph *draw_graph(uint64_t seed, bool host, unsigned int depth)
{
	struct draw d = { .seed = seed, .cols = 2, .host = host };
	struct rlx_graph *g = rlx_graph_new("control");
	int64_t rows = pick(&d, 1, 40), n;
	rlx_value v[N_IN];

	d.cols = pick(&d, 2, 40);
	inputs(g, rows, d.cols, v);
	if (pick(&d, 0, 1)) {
		float *w = malloc((size_t)(d.cols * d.cols) * sizeof(*w));

		for (n = 0; n < d.cols * d.cols; n++)
			w[n] = (float)(rlx_test_uniform(&d.seed, -0.5, 0.5) / (double)d.cols);
		v[W] = rlx_constant(g, rlx_type(RLX_F32, d.cols, d.cols), w);
		free(w);
	}
	emit_if(g, &d, rows, depth, v);
	emit_while(g, &d, rows, depth, v);
	emit_scan(g, &d, rows, depth, v);
	outputs(g, v);
	return g;
}

static void fill(struct rlx_session *s, uint64_t seed)
{
	struct rlx_program *p = rlx_session_program(s);
	unsigned int i;
	double most;
	int64_t k;

	for (i = 0; i < rlx_program_io_count(p, RLX_IO_INPUT); i++) {
		const struct rlx_type *t = rlx_program_io_type(p, RLX_IO_INPUT, i);
		void *at = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT,
				       rlx_program_io_name(p, RLX_IO_INPUT, i)));

		CHECK(at);
		most = *rlx_program_io_name(p, RLX_IO_INPUT, i) == 'w' ?
		       0.5 / (double)t->dim[0] : 1;
		for (k = 0; k < rlx_type_count(t); k++)
			if (t->dtype == RLX_I64)
				((int64_t *)at)[k] = (int64_t)(rlx_test_rand(&seed) % 6);
			else
				((float *)at)[k] = (float)rlx_test_uniform(&seed, -most, most);
	}
}

static void run(struct rlx_session *s)
{
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
}

static const void *output(struct rlx_session *s, const char *name)
{
	return rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, name));
}

/* Empty, or what differs: i exactly, the others up to @tol. */
static const char *differs(struct rlx_session *a, struct rlx_session *b, double tol)
{
	static const char *const names[] = { "x", "v" };
	struct rlx_program *p = rlx_session_program(a);
	unsigned int o;
	int64_t k, n;

	if (*(const int64_t *)output(a, "i") != *(const int64_t *)output(b, "i"))
		return "i";
	for (o = 0; o < 2; o++) {
		const float *x = output(a, names[o]), *y = output(b, names[o]);

		n = rlx_type_count(rlx_program_io_type(p, RLX_IO_OUTPUT, o + 1));
		for (k = 0; k < n; k++)
			if (!(fabs((double)x[k] - (double)y[k]) <= tol * (1 + fabs((double)y[k]))))
				return names[o];
	}
	return "";
}

static struct rlx_session *session(struct rlx_graph *g, const char *device, unsigned int threads,
				   uint32_t flags, enum rlx_precision precision)
{
	return rig_session(rlx_graph_get(g), &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = device,
		.threads = threads, .flags = flags, .precision = precision });
}

static void check(uint64_t seed, bool host, unsigned int threads, uint32_t flags,
		  enum rlx_precision precision, double tol)
{
	struct rlx_graph *g = draw_graph(seed, host, 2);
	struct rlx_session *cpu, *ref;
	struct rlx_program_info info;
	unsigned int n;

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	cpu = session(g, "cpu", threads, flags, precision);
	ref = session(g, "ref", 1, 0, RLX_PRECISION_AS_WRITTEN);
	rlx_program_info(rlx_session_program(cpu), &info);
	CHECK_EQ(info.native + info.host, info.steps);
	if (!host)
		CHECK_EQ(info.host, 0);
	for (n = 0; n < 3; n++) {	/* from other states each, in the same memory */
		fill(cpu, seed + n);
		fill(ref, seed + n);
		run(cpu);
		run(ref);
		CHECKF(!*differs(cpu, ref, tol), "seed %#llx, run %u: %s",
		       (unsigned long long)seed, n, differs(cpu, ref, tol));
	}
	rlx_session_free(cpu);
	rlx_session_free(ref);
	rlx_graph_put(g);
}

TEST(drawn_bodies_give_what_the_reference_gives)
{
	uint64_t seed = rlx_test_seed();
	unsigned int n;

	for (n = 0; n < 60; n++)
		check(rlx_test_rand(&seed), false, 1, RLX_COMPILE_NATIVE, 0, 1e-5);
}

TEST(with_threads_and_without_passes)
{
	uint64_t seed = rlx_test_seed();
	unsigned int n;

	for (n = 0; n < 20; n++) {
		check(rlx_test_rand(&seed), false, 3, 0, 0, 1e-5);
		check(rlx_test_rand(&seed), true, 1,
		      RLX_COMPILE_NO_FUSE | RLX_COMPILE_NO_SIMPLIFY, 0, 1e-5);
	}
}

TEST(with_steps_of_the_evaluator_in_bodies)
{
	uint64_t seed = rlx_test_seed();
	unsigned int n;

	for (n = 0; n < 20; n++)
		check(rlx_test_rand(&seed), true, 1, 0, 0, 1e-5);
}

/* Bodies are computed in the precision that is asked for, and keep their dtypes. */
TEST(in_other_precisions)
{
	uint64_t seed = rlx_test_seed();
	unsigned int n;

	for (n = 0; n < 10; n++) {
		check(rlx_test_rand(&seed), false, 1, 0, RLX_PRECISION_BF16, 0.005);
		check(rlx_test_rand(&seed), false, 1, 0, RLX_PRECISION_MIXED_F16, 0.005);
	}
}

TEST(a_run_of_nested_loops_allocates_nothing)
{
	uint64_t seed = rlx_test_seed(), before;
	struct rlx_session *s;
	struct rlx_graph *g;
	unsigned int n, k;

	for (n = 0; n < 10; n++) {
		g = draw_graph(rlx_test_rand(&seed), false, 2);
		CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
		s = session(g, "cpu", 1, RLX_COMPILE_NATIVE, 0);
		fill(s, seed);
		run(s);
		before = rlx_alloc_count();
		for (k = 0; k < 5; k++)
			run(s);
		CHECK_EQ(rlx_alloc_count(), before);
		rlx_session_free(s);
		rlx_graph_put(g);
	}
}

struct worker {
	struct rlx_session	*s, *truth;
	uint64_t		 seed;
	const char		*wrong;
};

static void *work(void *ctx)
{
	struct worker *w = ctx;
	unsigned int n;

	w->wrong = "";
	for (n = 0; n < 20 && !*w->wrong; n++) {
		fill(w->s, w->seed);
		if (rlx_session_run(w->s))
			w->wrong = rlx_session_error(w->s)->text;
		else
			w->wrong = differs(w->s, w->truth, 1e-5);
	}
	return NULL;
}

/* Sessions and clones of one program at once, each with other data. */
TEST(sessions_of_one_program_at_once)
{
	enum { WORKERS = 4 };
	uint64_t seed = rlx_test_seed();
	struct rlx_graph *g = draw_graph(seed, true, 2);
	struct worker w[WORKERS];
	pthread_t t[WORKERS];
	unsigned int i;

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	for (i = 0; i < WORKERS; i++) {
		w[i].seed = seed + i;
		if (i)
			CHECK_EQ(rlx_session_clone(w[0].s, &w[i].s, NULL), 0);
		else
			w[0].s = session(g, "cpu", 2, 0, 0);
		w[i].truth = session(g, "ref", 1, 0, 0);
		fill(w[i].truth, w[i].seed);
		run(w[i].truth);
	}
	for (i = 0; i < WORKERS; i++)
		CHECK(!pthread_create(&t[i], NULL, work, &w[i]));
	for (i = 0; i < WORKERS; i++) {
		pthread_join(t[i], NULL);
		CHECKF(!*w[i].wrong, "session %u, seed %#llx: %s", i,
		       (unsigned long long)seed, w[i].wrong);
		rlx_session_free(w[i].s);
		rlx_session_free(w[i].truth);
	}
	rlx_graph_put(g);
}

/* y[t] = table[at[t]], with what @what makes of a row */
static struct rlx_graph *lookup(bool unsupported)
{
	struct rlx_graph *g = rlx_graph_new("lookup"), *b = rlx_graph_new("body");
	rlx_value at = rlx_input(b, "at", rlx_scalar(RLX_I64));
	rlx_value table = rlx_input(b, "table", rlx_type(RLX_F32, 5, 2, 2)), y;

	y = rlx_emit(b, gather, .x = table, .indices = at);
	rlx_output(b, "y", unsupported ? host_op(b, y) : y);
	finish(b);
	at = rlx_input(g, "at", rlx_type(RLX_I64, 4));
	table = rlx_input(g, "table", rlx_type(RLX_F32, 5, 2, 2));
	rlx_output(g, "y", rlx_emit(g, scan, .body_g = b, .n_xs = 1, .length = 4,
				    .xs = RLX_VALUES(at, table)));
	finish(g);
	rlx_graph_put(b);
	return g;
}

/* The message names the op in the body; the next run is none the worse for it. */
TEST(an_index_outside_in_a_body)
{
	struct rlx_graph *g = lookup(false);
	struct rlx_session *s = session(g, "cpu", 1, RLX_COMPILE_NATIVE, 0);
	const struct rlx_error *e = rlx_session_error(s);
	int64_t at[4] = { 4, 0, 7, 1 };
	float table[20], y[16];
	unsigned int i;

	for (i = 0; i < 20; i++)
		table[i] = (float)i;
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "table", rlx_type(RLX_F32, 5, 2, 2), table), 0);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "at", rlx_type(RLX_I64, 4), at), 0);
	CHECK_EQ(rlx_session_run(s), RLX_ERANGE);
	CHECKF(strstr(e->text, "gather: an index is outside"), "%s", e->text);
	CHECKF(e->file && strstr(e->file, "control.c") && e->line, "%s:%u",
	       e->file ? e->file : "?", e->line);
	at[2] = 2;
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "at", rlx_type(RLX_I64, 4), at), 0);
	run(s);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 4, 2, 2), y), 0);
	for (i = 0; i < 16; i++)
		CHECK_EQ((int64_t)y[i], at[i / 4] * 4 + i % 4);
	rlx_session_free(s);
	rlx_graph_put(g);
}

TEST(a_body_without_a_kernel_is_told_of)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu",
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_graph *g = lookup(true);
	struct rlx_session *s = session(g, "cpu", 1, 0, 0);
	struct rlx_program *p = rlx_session_program(s), *none = NULL;
	struct rlx_program_info info;
	struct rlx_error err = { 0 };

	rlx_program_info(p, &info);
	CHECK_EQ(info.host, 1);
	CHECK_EQ(info.steps, 3);	/* scan, gather, and that */
	CHECK_STR(p->code->on_host, "on_host of f32");
	CHECK_EQ(rlx_compile(g, &o, &none, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "no kernel here for on_host of f32"), "%s", err.text);
	rlx_session_free(s);
	rlx_graph_put(g);
}

/* Of each product 2 n^3 flops, and one more; views have none. */
static struct rlx_graph *square(const char *name, int64_t n, unsigned int products)
{
	struct rlx_graph *g = rlx_graph_new(name);
	rlx_value i = rlx_input(g, "i", rlx_scalar(RLX_I64));
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, n, n));

	x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(n * n));
	x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(n, n));
	for (; products; products--)
		x = rlx_emit(g, matmul, .a = x, .b = x);
	rlx_output(g, "i", rlx_emit(g, add, .a = i, .b = i64(g, 1)));
	rlx_output(g, "x", x);
	finish(g);
	return g;
}

enum which { IF, WHILE, SCAN };

static double flops_of(enum which which, int64_t n, int64_t length)
{
	struct rlx_graph *g = rlx_graph_new("g"), *b = square("b", n, 3), *few = square("f", n, 1);
	struct rlx_graph *c = rlx_graph_new("cond");
	rlx_value i = rlx_input(g, "i", rlx_scalar(RLX_I64)), y = { 0 };
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, n, n));
	struct rlx_program_info info;
	struct rlx_session *s;

	if (which == IF)
		y = rlx_emit(g, if, .pred = rlx_input(g, "p", rlx_scalar(RLX_BOOL)),
			     .then_g = few, .else_g = b, .xs = RLX_VALUES(i, x));
	if (which == SCAN)
		y = rlx_emit(g, scan, .body_g = b, .n_carry = 2, .length = length,
			     .xs = RLX_VALUES(i, x));
	rlx_output(c, "go", rlx_emit(c, lt, .a = rlx_input(c, "i", rlx_scalar(RLX_I64)),
				     .b = i64(c, length)));
	rlx_input(c, "x", rlx_type(RLX_F32, n, n));
	finish(c);
	if (which == WHILE)
		y = rlx_emit(g, while, .cond_g = c, .body_g = b, .n_carry = 2,
			     .xs = RLX_VALUES(i, x));
	rlx_output(g, "x", rlx_out(g, y, 1));
	finish(g);
	s = session(g, "cpu", 1, 0, 0);
	rlx_program_info(rlx_session_program(s), &info);
	rlx_session_free(s);
	rlx_graph_put(few);
	rlx_graph_put(b);
	rlx_graph_put(c);
	rlx_graph_put(g);
	return info.flops;
}

/* Those of its bodies: products and one addition; a while's comparison as well. */
TEST(flops_of_control_flow)
{
	const double n = 8, turn = 3 * 2 * n * n * n + 1;

	CHECK_EQ((int64_t)flops_of(IF, (int64_t)n, 0), (int64_t)turn);
	CHECK_EQ((int64_t)flops_of(SCAN, (int64_t)n, 5), (int64_t)(5 * turn));
	CHECK_EQ((int64_t)flops_of(WHILE, (int64_t)n, 5), (int64_t)turn + 1);
}

enum { SIDE = 64 };

/* y = x w if p, else exp(x w), with @w as a constant of a file, say. */
static struct rlx_graph *weighed(struct rlx_blob *w)
{
	struct rlx_graph *b[2], *g = rlx_graph_new("g");
	rlx_value c, x;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		b[i] = rlx_graph_new("branch");
		x = rlx_input(b[i], "x", rlx_type(RLX_F32, SIDE, SIDE));
		c = rlx_input(b[i], "w", rlx_type(RLX_F32, SIDE, SIDE));
		x = rlx_emit(b[i], matmul, .a = x, .b = c);
		rlx_output(b[i], "y", i ? rlx_emit(b[i], exp, .x = x) : x);
		finish(b[i]);
	}
	c = rlx_constant_blob(g, rlx_type(RLX_F32, SIDE, SIDE), w);
	x = rlx_input(g, "x", rlx_type(RLX_F32, SIDE, SIDE));
	rlx_output(g, "y", rlx_emit(g, if, .pred = rlx_input(g, "p", rlx_scalar(RLX_BOOL)),
				    .then_g = b[0], .else_g = b[1], .xs = RLX_VALUES(x, c)));
	finish(g);
	rlx_graph_put(b[0]);
	rlx_graph_put(b[1]);
	return g;
}

static struct rlx_blob *random_weights(void)
{
	float w[SIDE * SIDE];
	uint64_t seed = rlx_test_seed();
	unsigned int i;

	for (i = 0; i < SIDE * SIDE; i++)
		w[i] = (float)rlx_test_uniform(&seed, -0.1, 0.1);
	return rlx_blob_copy(w, sizeof(w));
}

/* Both ways that the predicate may be, against the reference. */
static void check_both(struct rlx_session *s, struct rlx_graph *g)
{
	struct rlx_session *ref = session(g, "ref", 1, 0, 0);
	struct rlx_session *const both[2] = { s, ref };
	uint64_t seed = rlx_test_seed();
	const float *y[2];
	float x[SIDE * SIDE];
	bool p;
	unsigned int i, k;

	for (i = 0; i < SIDE * SIDE; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (k = 0; k < 4; k++) {
		p = k & 1;
		for (i = 0; i < 2; i++) {
			CHECK_EQ(rlx_session_set(both[i], RLX_IO_INPUT, "x",
						 rlx_type(RLX_F32, SIDE, SIDE), x), 0);
			CHECK_EQ(rlx_session_set(both[i], RLX_IO_INPUT, "p",
						 rlx_scalar(RLX_BOOL), &p), 0);
			run(both[i]);
			y[i] = output(both[i], "y");
		}
		for (i = 0; i < SIDE * SIDE; i++)
			CHECK(fabs((double)y[0][i] - (double)y[1][i]) <=
			      1e-5 * (1 + fabs((double)y[1][i])));
	}
	rlx_session_free(ref);
}

/* What bodies capture of constants is packed by the compile: once for both of them. */
TEST(captured_weights_are_packed)
{
	struct rlx_blob *w = random_weights();
	struct rlx_graph *g = weighed(w);
	struct rlx_program_info info;
	struct rlx_session *s = session(g, "cpu", 1, RLX_COMPILE_NATIVE, 0);

	rlx_program_info(rlx_session_program(s), &info);
	CHECK(info.packed_bytes >= sizeof(float) * SIDE * SIDE);
	CHECK(info.packed_bytes < 2 * sizeof(float) * SIDE * SIDE);
	check_both(s, g);
	rlx_session_free(s);
	rlx_graph_put(g);
	rlx_blob_put(w);
}

/* The store gets them packed, and as they are only where a body reads them so. */
TEST(captured_weights_in_a_store)
{
	static const uint32_t flags[2] = { 0, RLX_COMPILE_NO_SIMPLIFY };
	struct rlx_arena_opts ao = { .size = 1 << 20, .provider = "memfd",
				     .flags = RLX_ARENA_LAZY | RLX_ARENA_NOLOCK };
	struct rlx_blob *w = random_weights();
	struct rlx_graph *g;
	struct rlx_store_info info;
	struct rlx_session *s;
	struct rlx_store *store;
	struct rlx_arena *a;
	unsigned int k;

	rlx_blob_set_source(w, rlx_test_seed() | 1, 4096);
	g = weighed(w);
	for (k = 0; k < 2; k++) {
		CHECK_EQ(rlx_arena_new(&ao, &a, NULL), 0);
		CHECK_EQ(rlx_store_new(a, "cpu", &store, NULL), 0);
		s = rig_session(rlx_graph_get(g), &(struct rlx_compile_opts){
			.size = sizeof(struct rlx_compile_opts), .device = "cpu", .threads = 1,
			.flags = flags[k], .store = store });
		rlx_store_info(store, &info);
		CHECK_EQ(info.entries, 1);
		check_both(s, g);
		rlx_session_free(s);
		rlx_store_put(store);
		rlx_arena_put(a);
	}
	rlx_graph_put(g);
	rlx_blob_put(w);
}

TEST_MAIN()
