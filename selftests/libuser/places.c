// SPDX-License-Identifier: MIT
/* Where values lie, as callers are told: apart while both live, as printed, or nowhere. */
#include <stdlib.h>

#include "plan/place.h"
#include "rlx/run.h"
#include "selftests/lib/rlx_test.h"

static const char *const devices[] = { "cpu", "ref" };

static struct rlx_program *compile(struct rlx_graph *g, const char *device, uint32_t flags)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device, .flags = flags };
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	return p;
}

static struct rlx_value_place place(const struct rlx_program *p, uint32_t v)
{
	struct rlx_value_place t = { .size = sizeof(t) };

	CHECK_EQ(rlx_program_place(p, (rlx_value){ v }, &t), RLX_OK);
	return t;
}

/* The one step of that op. */
static struct rlx_program_step step_of(const struct rlx_program *p, const char *op)
{
	struct rlx_program_step t = { .size = sizeof(t) }, found = { 0 };
	unsigned int i;

	for (i = 0; !rlx_program_step(p, i, &t); i++)
		if (!strcmp(t.op, op)) {
			CHECKF(!found.op, "two steps are %s", op);
			found = t;
		}
	CHECKF(found.op, "no step is %s", op);
	return found;
}

/* Values of one type and of another, of any of the last 30; some are outputs. */
static struct rlx_graph *drawn(uint64_t *seed, int n)
{
	struct rlx_graph *g = rlx_graph_new("drawn");
	rlx_value v[200], a, b;
	char name[16];
	int i, from;

	v[0] = rlx_input(g, "x", rlx_type(RLX_F32, 8, 8));
	v[1] = rlx_param(g, "w", rlx_type(RLX_F32, 8, 8));
	v[2] = rlx_state(g, "s", rlx_type(RLX_F32, 8, 8));
	for (i = 3; i < n; i++) {
		from = i > 30 ? i - 30 : 0;
		a = v[from + (int)(rlx_test_rand(seed) % (uint64_t)(i - from))];
		b = v[from + (int)(rlx_test_rand(seed) % (uint64_t)(i - from))];
		switch (rlx_test_rand(seed) % 6) {
		case 0: v[i] = rlx_emit(g, matmul, .a = a, .b = b); break;
		case 1: v[i] = rlx_emit(g, tanh, .x = a); break;
		case 2: v[i] = rlx_emit(g, softmax, .x = a, .axis = -1); break;
		case 3: v[i] = rlx_emit(g, transpose, .x = a); break;
		case 4:
			a = rlx_emit(g, reshape, .x = a, .shape = RLX_INTS(64));
			v[i] = rlx_emit(g, reshape, .x = rlx_emit(g, sin, .x = a),
					.shape = RLX_INTS(8, 8));
			break;
		default: v[i] = rlx_emit(g, add, .a = a, .b = b); break;
		}
	}
	rlx_state_next(g, v[2], v[n - 2]);
	for (i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "y%d", i);
		rlx_output(g, name, v[n - 1 - 7 * i]);
	}
	return g;
}

/* How many values there are; each of @t is one's, [0] unused. The caller's to free. */
static uint32_t all_places(const struct rlx_program *p, struct rlx_value_place **t)
{
	struct rlx_value_place one = { .size = sizeof(one) };
	uint32_t n, v;

	for (n = 1; !rlx_program_place(p, (rlx_value){ n }, &one); n++)
		;
	*t = calloc(n, sizeof(**t));
	CHECK(*t && n > 1);
	for (v = 1; v < n; v++)
		(*t)[v] = place(p, v);
	return n;
}

static bool overlap(const struct rlx_value_place *x, const struct rlx_value_place *y)
{
	return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

static unsigned int apart(const struct rlx_program *p, uint32_t flags)
{
	struct rlx_program_info info;
	const struct rlx_type *type;
	struct rlx_value_place *t;
	uint32_t n = all_places(p, &t), a, b;
	unsigned int work = 0;

	rlx_program_info(p, &info);
	for (a = 1; a < n; a++) {
		CHECK(t[a].shares.id && t[a].shares.id < n);
		CHECK(t[t[a].shares.id].kind == t[a].kind);
		CHECK(t[t[a].shares.id].index == t[a].index);
		type = rlx_type_of(rlx_program_graph(p), (rlx_value){ a });
		CHECK(!type || t[a].bytes == (t[a].kind == RLX_PLACE_NONE ? 0 :
					      (uint64_t)rlx_type_bytes(type)));
		if (t[a].kind != RLX_PLACE_WORK) {
			CHECK(!t[a].offset);
			continue;
		}
		work++;
		CHECK(t[a].first <= t[a].last && t[a].last <= info.steps);
		CHECK(t[a].offset % 64 == 0 && t[a].bytes);
		CHECK(t[a].offset + t[a].bytes <= info.work_bytes);
		for (b = 1; b < a; b++)
			if (t[b].kind == RLX_PLACE_WORK && t[b].shares.id != t[a].shares.id &&
			    t[b].first <= t[a].last && t[a].first <= t[b].last)
				CHECKF(!overlap(&t[a], &t[b]), "flags %u: values %u, steps %u to %u, "
				       "and %u, %u to %u, share bytes", flags, a, t[a].first,
				       t[a].last, b, t[b].first, t[b].last);
	}
	free(t);
	return work;
}

TEST(r148_live_values_are_apart)
{
	static const uint32_t flags[] = { 0, RLX_COMPILE_NO_FUSE,
					  RLX_COMPILE_NO_FUSE | RLX_COMPILE_NO_SIMPLIFY };
	uint64_t seed = rlx_test_seed();
	unsigned int i, d, work = 0;

	for (i = 0; i < 12; i++)
		for (d = 0; d < 2; d++) {
			struct rlx_program *p = compile(drawn(&seed, 120), devices[d], flags[i % 3]);

			work += apart(p, flags[i % 3]);
			rlx_program_put(p);
		}
	CHECKF(work > 200, "%u values in workspaces", work);
}

/* ---- as it is printed ---- */

static void put_value(const struct rlx_program *p, uint32_t v, FILE *f)
{
	static const char *const names[] = { "-", "const", "input", "param", "output", "work+",
					     "state" };
	struct rlx_value_place t = { .size = sizeof(t) };

	if (!v) {
		fprintf(f, " -");
		return;
	}
	t = place(p, v);
	fprintf(f, " %%%u@%s%llu", v, names[t.kind],
		t.kind == RLX_PLACE_WORK ? (unsigned long long)t.offset : t.index);
}

static void put_steps(const struct rlx_program *p, FILE *f)
{
	struct rlx_program_step st = { .size = sizeof(st) };
	unsigned int s, i;

	for (s = 0; !rlx_program_step(p, s, &st); s++) {
		fprintf(f, "%5u%c%-20s", s, st.once ? '*' : ' ', st.op);
		for (i = 0; i < st.n_out; i++)
			put_value(p, st.out[i], f);
		fprintf(f, " <-");
		for (i = 0; i < st.n_in; i++)
			put_value(p, st.in[i], f);
		fprintf(f, "\n");
	}
}

/* What rlx_program_print() gives without its first line, and without types. */
static char *printed(const struct rlx_program *p)
{
	char *text = NULL, *to, *s;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	CHECK(f && !rlx_program_print(p, f));
	fclose(f);
	s = strchr(text, '\n') + 1;
	for (to = text; *s; s++) {
		if (*s == ':')
			s += strcspn(s, "@");
		*to++ = *s;
	}
	*to = '\0';
	return text;
}

TEST(r148_as_it_is_printed)
{
	uint64_t seed = rlx_test_seed();
	unsigned int i, work = 0, param = 0, state = 0;

	for (i = 0; i < 12; i++) {
		struct rlx_program *p = compile(drawn(&seed, 80), devices[i % 2],
						i & 2 ? RLX_COMPILE_NO_FUSE : 0);
		char *want = printed(p), *got = NULL;
		size_t n;
		FILE *f = open_memstream(&got, &n);

		CHECK(f);
		put_steps(p, f);
		fclose(f);
		CHECK_STR(got, want);
		work += !!strstr(got, "@work+");
		param += !!strstr(got, "@param0");
		state += !!strstr(got, "@state0");
		free(want);
		free(got);
		rlx_program_put(p);
	}
	CHECKF(work && param && state, "%u %u %u", work, param, state);
}

/* ---- what is known of small graphs ---- */

/* A chain over the storage of its output; a state's next value in the state's. */
TEST(r148_known_places)
{
	struct rlx_graph *g = rlx_graph_new("known");
	struct rlx_type t = rlx_type(RLX_F32, 4, 4);
	rlx_value x, s, w, m, e;
	struct rlx_value_place a, b;
	struct rlx_program_step st;
	struct rlx_program *p;

	rlx_input(g, "unused", t);
	s = rlx_state(g, "s", t);
	x = rlx_input(g, "x", t);
	w = rlx_param(g, "w", t);
	m = rlx_emit(g, matmul, .a = rlx_emit(g, exp, .x = x), .b = w);
	e = rlx_emit(g, sin, .x = rlx_emit(g, reshape, .x = m, .shape = RLX_INTS(16)));
	rlx_output(g, "y", rlx_emit(g, softmax, .x = e, .axis = 0));
	rlx_state_next(g, s, rlx_emit(g, add, .a = s, .b = rlx_constant(g, t, ((float[16]){ 1 }))));
	p = compile(g, "cpu", RLX_COMPILE_NO_FUSE | RLX_COMPILE_NO_SIMPLIFY);
	st = step_of(p, "exp");
	CHECKF(st.file && strstr(st.file, "places.c") && st.line, "no place in the source");
	CHECK(st.n_in == 1 && st.n_out == 1 && !st.once);
	CHECK_EQ(st.in[0], rlx_graph_io_find(rlx_program_graph(p), RLX_IO_INPUT, "x").id);
	a = place(p, st.in[0]);
	CHECK(a.kind == RLX_PLACE_INPUT && a.index == 1 && a.bytes == 64);	/* without states */
	CHECK_EQ(a.shares.id, st.in[0]);
	a = place(p, st.out[0]);
	CHECK(a.kind == RLX_PLACE_WORK && a.shares.id == st.out[0] && a.last == a.first + 1);
	st = step_of(p, "matmul");
	CHECK_EQ(st.in[0], step_of(p, "exp").out[0]);
	CHECK(place(p, st.in[1]).kind == RLX_PLACE_PARAM && !place(p, st.in[1]).index);
	a = place(p, st.out[0]);
	CHECK(a.kind == RLX_PLACE_OUTPUT && !a.index && a.shares.id == st.out[0]);
	b = place(p, step_of(p, "sin").out[0]);		/* through a reshape, over what it reads */
	CHECK(b.kind == RLX_PLACE_OUTPUT && b.shares.id == st.out[0]);
	CHECK_EQ(b.first, a.first + 1);
	b = place(p, step_of(p, "softmax").out[0]);
	CHECK(b.kind == RLX_PLACE_OUTPUT && b.shares.id == st.out[0] && b.first == a.first + 2);
	st = step_of(p, "add");
	a = place(p, st.in[0]);
	b = place(p, st.out[0]);
	CHECK(a.kind == RLX_PLACE_STATE && b.kind == RLX_PLACE_STATE && !a.index && !b.index);
	CHECK(place(p, st.in[1]).kind == RLX_PLACE_CONST);
	rlx_program_put(p);
}

/* What nobody needs is computed by no step, and lies nowhere; here before passes drop it. */
TEST(r149_what_nobody_needs)
{
	struct rlx_graph *g = rlx_graph_new("needless");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4)), dead = rlx_emit(g, exp, .x = x);
	rlx_value y = rlx_emit(g, sin, .x = x);
	struct rlx_error err = { 0 };
	struct rlx_value_place t;
	struct rlx_plan *p = NULL;

	rlx_output(g, "y", y);
	CHECK(!rlx_graph_finish(g) && !rlx_plan_new(g, &p, &err));
	CHECK(!rlx_plan_place_steps(p, &err));
	t = rlx_plan_told(p, dead.id);
	CHECK(t.kind == RLX_PLACE_NONE && !t.bytes && !t.offset);
	t = rlx_plan_told(p, y.id);
	CHECK(t.kind == RLX_PLACE_OUTPUT && t.bytes == 16);
	rlx_plan_free(p);
	rlx_graph_put(g);
}

/* An output that nobody reads: kernels leave it out, the reference evaluator does not. */
TEST(r149_outputs_that_nobody_reads)
{
	struct rlx_type t = rlx_type(RLX_F32, 4, 16);
	unsigned int d;

	for (d = 0; d < 2; d++) {
		struct rlx_graph *g = rlx_graph_new("unread");
		rlx_value x = rlx_input(g, "x", t), r = rlx_input(g, "r", t);
		struct rlx_program_step st;
		struct rlx_program *p;

		x = rlx_emit(g, fused_residual_norm, .x = x, .residual = r, .eps = 1e-5f,
			     .gamma = rlx_param(g, "gamma", rlx_type(RLX_F32, 16)),
			     .kind = RLX_NORM_RMS);
		rlx_output(g, "y", x);
		p = compile(g, devices[d], 0);
		st = step_of(p, "fused_residual_norm");
		CHECK_EQ(st.n_out, 2);
		CHECK(place(p, st.out[0]).kind == RLX_PLACE_OUTPUT);
		CHECK_EQ(place(p, st.out[1]).kind, d ? RLX_PLACE_WORK : RLX_PLACE_NONE);
		CHECK_EQ(place(p, st.out[1]).bytes, d ? 256 : 0);
		rlx_program_put(p);
	}
}

/* Of a chain that one step computes there is nothing in between: it is inside the region. */
TEST(r149_what_is_fused)
{
	struct rlx_graph *g = rlx_graph_new("fused");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 64));
	struct rlx_program_step st = { .size = sizeof(st) };
	struct rlx_value_place t = { .size = sizeof(t) };
	struct rlx_program *p;
	uint32_t v;

	x = rlx_emit(g, exp, .x = rlx_emit(g, sin, .x = rlx_emit(g, tanh, .x = x)));
	rlx_output(g, "y", x);
	p = compile(g, "cpu", 0);
	CHECK_EQ(rlx_program_step(p, 0, &st), 0);
	CHECK_STR(st.op, "region");
	CHECK_EQ(rlx_program_step(p, 1, &st), RLX_ERANGE);
	for (v = 1; !rlx_program_place(p, (rlx_value){ v }, &t); v++)
		CHECK(v == st.in[0] ? t.kind == RLX_PLACE_INPUT :
		      v == st.out[0] && t.kind == RLX_PLACE_OUTPUT);
	CHECK_EQ(v, 3);
	rlx_program_put(p);
}

/* What lies beyond the size that a caller knows is not written. */
TEST(bad_input)
{
	struct rlx_graph *g = rlx_graph_new("bad");
	struct { struct rlx_value_place t; char beyond[8]; } v = { .t.size = sizeof(v.t) };
	struct rlx_program_step st = { .size = sizeof(st) };
	struct rlx_program *p;

	rlx_output(g, "y", rlx_emit(g, sin, .x = rlx_input(g, "x", rlx_type(RLX_F32, 4))));
	p = compile(g, "ref", 0);
	CHECK_EQ(rlx_program_place(NULL, (rlx_value){ 1 }, &v.t), RLX_EINVAL);
	CHECK_EQ(rlx_program_place(p, (rlx_value){ 1 }, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_program_place(p, RLX_NONE, &v.t), RLX_ERANGE);
	CHECK_EQ(rlx_program_place(p, (rlx_value){ 3 }, &v.t), RLX_ERANGE);
	CHECK_EQ(rlx_program_place(p, (rlx_value){ UINT32_MAX }, &v.t), RLX_ERANGE);
	memset(&v, 0xa5, sizeof(v));
	v.t.size = 0;
	CHECK_EQ(rlx_program_place(p, (rlx_value){ 1 }, &v.t), RLX_EINVAL);
	v.t.size = offsetof(struct rlx_value_place, index);
	CHECK_EQ(rlx_program_place(p, (rlx_value){ 1 }, &v.t), RLX_OK);
	CHECK(v.t.kind == RLX_PLACE_INPUT && v.t.index == 0xa5a5a5a5);
	v.t.size = sizeof(v);
	CHECK_EQ(rlx_program_place(p, (rlx_value){ 2 }, &v.t), RLX_OK);
	CHECK(v.t.kind == RLX_PLACE_OUTPUT && v.beyond[0] == (char)0xa5 &&
	      v.t.size == sizeof(v));
	CHECK_EQ(rlx_program_step(NULL, 0, &st), RLX_EINVAL);
	CHECK_EQ(rlx_program_step(p, 0, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_program_step(p, UINT32_MAX, &st), RLX_ERANGE);
	st.size = 0;
	CHECK_EQ(rlx_program_step(p, 0, &st), RLX_EINVAL);
	rlx_program_put(p);
}

TEST_MAIN()
