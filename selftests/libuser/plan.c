// SPDX-License-Identifier: MIT
/* The plan: places that never collide, in-place rules, and near-linear time. */
#include <time.h>

#include "selftests/bench/cpu_time.h"
#include "base/alloc.h"
#include "plan/place.h"
#include "rlx/graph.h"
#include "selftests/lib/rlx_test.h"

static struct rlx_plan *plan(struct rlx_graph *g)
{
	struct rlx_plan *p = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_plan_new(g, &p, &err), "%s", err.text);
	CHECKF(!rlx_plan_place_steps(p, &err), "%s", err.text);
	return p;
}

static bool takes_work(const struct rlx_plan *p, uint32_t v)
{
	return v && p->val[v].root == v && p->val[v].place.kind == RLX_PLACE_WORK;
}

/* Every pair of storages that live at one step lies apart, inside the workspace. */
static void check_own_threads(const struct rlx_plan *p)
{
	uint32_t a, b;

	for (a = 1; a < p->n_val; a++) {
		const struct rlx_plan_val *x = &p->val[a];

		if (!takes_work(p, a))
			continue;
		CHECK(x->place.offset % RLX_PLAN_ALIGN == 0);
		CHECK(x->place.offset + rlx_plan_bytes(p, a) <= p->work_bytes);
		for (b = a + 1; b < p->n_val; b++) {
			const struct rlx_plan_val *y = &p->val[b];

			if (!takes_work(p, b) || x->last < y->first || y->last < x->first ||
			    x->place.offset + rlx_plan_bytes(p, a) <= y->place.offset ||
			    y->place.offset + rlx_plan_bytes(p, b) <= x->place.offset)
				continue;
			CHECKF(false, "values %u and %u share bytes at steps %u to %u and %u to %u",
			       a, b, x->first, x->last, y->first, y->last);
		}
	}
}

static bool overlap(const struct rlx_plan *p, uint32_t a, uint32_t b)
{
	const struct rlx_place *x = &p->val[a].place, *y = &p->val[b].place;

	return x->kind == y->kind && x->index == y->index &&
	       x->offset < y->offset + rlx_plan_bytes(p, b) &&
	       y->offset < x->offset + rlx_plan_bytes(p, a);
}

/*
 * By the steps alone, as they would run: no step writes over its own input unless
 * it may, and what a step reads was written by the step that makes it, nothing
 * else having written there since.
 */
static void check_steps(const struct rlx_plan *p)
{
	uint32_t s, t, i, k;

	for (s = 0; s < p->n_step; s++) {
		const struct rlx_plan_step *st = &p->step[s];

		for (i = 0; i < st->n_out; i++)
			for (k = 0; k < st->n_in; k++) {
				if (!st->in[k] || !overlap(p, st->out[i], st->in[k]))
					continue;
				CHECK(st->def && st->def->traits & RLX_T_INPLACE);
				CHECK(rlx_type_equal(&p->val[st->in[k]].type,
						     &p->val[st->out[i]].type));
				CHECK_EQ(p->val[st->in[k]].place.offset,
					 p->val[st->out[i]].place.offset);
			}
		for (i = 0; i < st->n_out; i++)	/* who reads it later, and what lies between */
			for (t = s + 1; t < p->n_step; t++) {
				bool reads_later = false, writes = false;
				uint32_t u;

				for (k = 0; k < p->step[t].n_out; k++)
					writes |= overlap(p, p->step[t].out[k], st->out[i]);
				for (u = t + 1; writes && u < p->n_step; u++)
					for (k = 0; k < p->step[u].n_in; k++)
						reads_later |= p->step[u].in[k] == st->out[i];
				CHECKF(!reads_later, "value %u is written over by step %u and read later",
				       st->out[i], t);
			}
	}
}

/* A storage's life is from the step that writes it to the last one that uses it. */
static void check_lives(const struct rlx_plan *p)
{
	uint32_t v, s, k, root, first, last;

	for (v = 1; v < p->n_val; v++) {
		if (!takes_work(p, v))
			continue;
		first = UINT32_MAX;
		last = 0;
		for (s = 0; s < p->n_step; s++) {
			const struct rlx_plan_step *st = &p->step[s];

			for (k = 0; k < st->n_in + st->n_out; k++) {
				root = k < st->n_in ? st->in[k] : st->out[k - st->n_in];
				while (p->val[root].root != root)
					root = p->val[root].root;
				if (root != v)
					continue;
				first = s < first ? s : first;
				last = s;
			}
		}
		CHECKF(p->val[v].first == first && p->val[v].last == last,
		       "value %u lives from %u to %u, but is used from %u to %u", v,
		       p->val[v].first, p->val[v].last, first, last);
	}
}

/* Any of the last 40 values; all have 64 or 4096 elements, by shape. */
static struct rlx_graph *random_dag(uint64_t *seed, int n)
{
	struct rlx_graph *g = rlx_graph_new("dag");
	rlx_value v[600];
	int i, from;
	char name[16];

	v[0] = rlx_input(g, "x", rlx_type(RLX_F32, 8, 8));
	for (i = 1; i < n; i++) {
		rlx_value a, b;
		struct rlx_type t;

		from = i > 40 ? i - 40 : 0;
		a = v[from + (int)(rlx_test_rand(seed) % (uint64_t)(i - from))];
		b = v[from + (int)(rlx_test_rand(seed) % (uint64_t)(i - from))];
		t = *rlx_type_of(g, a);
		switch (rlx_test_rand(seed) % 7) {
		case 0: v[i] = rlx_emit(g, matmul, .a = a, .b = a); break;
		case 1: v[i] = rlx_emit(g, tanh, .x = a); break;
		case 2: v[i] = rlx_emit(g, softmax, .x = a, .axis = -1); break;
		case 3: v[i] = rlx_emit(g, transpose, .x = a); break;
		case 4: v[i] = rlx_emit(g, reshape, .x = a, .shape = RLX_INTS(-1, t.dim[1])); break;
		case 5:
			if (t.dim[0] == 8)
				v[i] = rlx_emit(g, tile, .x = a, .repeats = RLX_INTS(8, 8));
			else
				v[i] = rlx_emit(g, slice, .x = a, .axes = RLX_INTS(0, 1),
						.starts = RLX_INTS(0, 0),
						.ends = RLX_INTS(8, 8));
			break;
		default:
			v[i] = rlx_type_equal(&t, rlx_type_of(g, b)) ?
			       rlx_emit(g, add, .a = a, .b = b) :
			       rlx_emit(g, mul, .a = a, .b = a);
			break;
		}
		CHECKF(v[i].id, "%s", rlx_graph_error(g)->text);
	}
	for (i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "y%d", i);
		rlx_output(g, name, v[n - 1 - 7 * i]);
	}
	return g;
}

TEST(no_two_live_values_share_bytes)
{
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < 10; i++) {
		struct rlx_graph *g = random_dag(&seed, 500);
		struct rlx_plan *p = plan(g);

		CHECK(p->n_step > 20);
		CHECK(p->work_bytes && p->work_bytes <= p->naive_bytes);
		check_own_threads(p);
		check_steps(p);
		check_lives(p);
		rlx_plan_free(p);
		rlx_graph_put(g);
	}
}

/* What each step uses. */
static void use_steps(const struct rlx_plan *p, struct rlx_uses *u)
{
	uint32_t s, k;

	for (s = 0; s < p->n_step; s++) {
		for (k = 0; k < p->step[s].n_in; k++)
			CHECK(rlx_uses_add(u, s, p->step[s].in[k]));
		for (k = 0; k < p->step[s].n_out; k++)
			CHECK(rlx_uses_add(u, s, p->step[s].out[k]));
	}
}

/* Whatever is moved onto what is in use at the same time is found. */
TEST(places_are_verified)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_graph *g = random_dag(&seed, 300);
	struct rlx_plan *p = plan(g);
	struct rlx_uses u = { 0 };
	struct rlx_error err = { 0 };
	uint32_t a, b, found = 0, moved = 0;

	use_steps(p, &u);
	CHECK_EQ(rlx_plan_check(p, &u, NULL, &err), 0);
	for (a = 1; a < p->n_val; a++)
		for (b = a + 1; b < p->n_val && moved < 2000; b++) {
			struct rlx_plan_val *x = &p->val[a], *y = &p->val[b];
			uint64_t was = y->place.offset;
			enum rlx_status st;

			if (!takes_work(p, a) || !takes_work(p, b) || !rlx_plan_bytes(p, a) ||
			    !rlx_plan_bytes(p, b) || x->last < y->first || y->last < x->first)
				continue;
			moved++;
			y->place.offset = x->place.offset;
			st = rlx_plan_check(p, &u, NULL, &(struct rlx_error){ 0 });
			CHECK(st == RLX_EBUG);
			y->place.offset = was;
			found += st == RLX_EBUG;
		}
	CHECKF(found > 20 && found == moved, "%u of %u found", found, moved);
	CHECK_EQ(rlx_plan_check(p, &u, NULL, &err), 0);
	rlx_free(u.use);
	rlx_plan_free(p);
	rlx_graph_put(g);
}

/*
 * Steps in streams drawn at random, where a step waits for what its operands need and for
 * nothing else: what may run beside something shares no bytes with it.
 */
TEST(side_by_side)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_graph *g = random_dag(&seed, 300);
	struct rlx_plan *p = plan(g);
	uint64_t in_turn = p->work_bytes;
	struct rlx_order o = { 0 };
	struct rlx_uses u = { 0 };
	struct rlx_error err = { 0 };
	uint32_t s, t, q, *last = calloc(p->n_val, sizeof(*last)), i;

	o.stream = calloc(p->n_step, sizeof(*o.stream));
	o.section = calloc(p->n_step, sizeof(*o.section));
	o.ended = calloc(p->n_step, sizeof(*o.ended));
	CHECK(o.stream && o.section && o.ended && last);
	use_steps(p, &u);
	for (s = 0, i = 0; s < p->n_step; s++) {
		o.stream[s] = (uint8_t)(rlx_test_rand(&seed) % RLX_STREAMS);
		for (t = s; t-- > 0;)	/* what is ahead in its stream */
			if (o.stream[t] == o.stream[s])
				break;
		for (q = 0; t != UINT32_MAX && q < RLX_STREAMS; q++)
			o.ended[s][q] = o.ended[t][q];
		for (; i < u.n && u.use[i].at == s; i++) {	/* who used this before */
			uint32_t *by = &last[p->val[u.use[i].val].root];

			for (q = 0; *by && q < RLX_STREAMS; q++)
				if (o.ended[*by - 1][q] > o.ended[s][q] && *by - 1 != s)
					o.ended[s][q] = o.ended[*by - 1][q];
			*by = s + 1;
		}
		o.ended[s][o.stream[s]] = s + 1;
	}
	CHECKF(!rlx_plan_place(p, &u, &o, &err), "%s", err.text);
	CHECKF(!rlx_plan_check(p, &u, &o, &err), "%s", err.text);
	CHECK(p->work_bytes >= in_turn / 2 && p->work_bytes <= p->naive_bytes);
	/* in turn they would share more, which these streams do not allow */
	CHECK_EQ(rlx_plan_place(p, &u, NULL, &(struct rlx_error){ 0 }), 0);
	CHECK_EQ(p->work_bytes, in_turn);
	CHECK_EQ(rlx_plan_check(p, &u, &o, &(struct rlx_error){ 0 }), RLX_EBUG);
	free(o.stream);
	free(o.section);
	free(o.ended);
	free(last);
	rlx_free(u.use);
	rlx_plan_free(p);
	rlx_graph_put(g);
}

/* No bytes of @v are another's, whenever that is used. */
static void check_alone(const struct rlx_plan *p, uint32_t v)
{
	uint32_t u;

	for (u = 1; u < p->n_val; u++)
		CHECKF(u == v || !takes_work(p, u) || !overlap(p, u, v),
		       "value %u, which is kept, shares bytes with %u", v, u);
}

/* Drawn at random, by either way of placing; and what lies on it is found. */
TEST(what_is_kept_shares_with_nothing)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_graph *g = random_dag(&seed, 300);
	struct rlx_plan *p = plan(g);
	struct rlx_order o = { 0 };
	struct rlx_uses u = { 0 };
	uint32_t way, v, a, s;

	o.stream = calloc(p->n_step, sizeof(*o.stream));
	o.section = calloc(p->n_step, sizeof(*o.section));
	o.ended = calloc(p->n_step, sizeof(*o.ended));
	CHECK(o.stream && o.section && o.ended);
	for (s = 0; s < p->n_step; s++)
		o.ended[s][0] = s + 1;
	use_steps(p, &u);
	for (v = 1, a = 0; v < p->n_val; v++) {
		p->val[v].persistent = takes_work(p, v) && rlx_plan_bytes(p, v) &&
				 rlx_test_rand(&seed) % 5 == 0;
		a = p->val[v].persistent ? v : a;
	}
	CHECK(a);
	for (way = 0; way < 2; way++) {
		const struct rlx_order *order = way ? &o : NULL;

		CHECK(!rlx_plan_place(p, &u, order, &(struct rlx_error){ 0 }));
		CHECK(!rlx_plan_check(p, &u, order, &(struct rlx_error){ 0 }));
		for (v = 1; v < p->n_val; v++)
			if (p->val[v].persistent)
				check_alone(p, v);
		for (v = 1; v < p->n_val; v++) {
			uint64_t was = p->val[v].place.offset;

			if (v == a || !takes_work(p, v) || !rlx_plan_bytes(p, v))
				continue;
			p->val[v].place.offset = p->val[a].place.offset;
			CHECK_EQ(rlx_plan_check(p, &u, order, &(struct rlx_error){ 0 }), RLX_EBUG);
			p->val[v].place.offset = was;
		}
	}
	free(o.stream);
	free(o.section);
	free(o.ended);
	rlx_free(u.use);
	rlx_plan_free(p);
	rlx_graph_put(g);
}

/* A chain of in-place ops needs one block, or none if it ends in the output. */
TEST(a_chain_works_in_place)
{
	struct rlx_graph *g = rlx_graph_new("chain");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1000)), y = x;
	struct rlx_plan *p;
	uint32_t s;
	int i;

	for (i = 0; i < 10; i++)
		y = rlx_emit(g, tanh, .x = y);
	rlx_output(g, "y", y);
	p = plan(g);
	CHECK_EQ(p->n_step, 10);
	CHECK_EQ(p->work_bytes, 0);
	for (s = 0; s < p->n_step; s++)
		CHECK_EQ(p->val[p->step[s].out[0]].place.kind, RLX_PLACE_OUTPUT);
	rlx_plan_free(p);
	rlx_graph_put(g);
}

/* Inputs and params are the caller's; a value read again must stay. */
TEST(what_is_needed_later_is_not_overwritten)
{
	struct rlx_graph *g = rlx_graph_new("keep");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 64, 64));
	rlx_value a = rlx_emit(g, tanh, .x = x);
	rlx_value view = rlx_emit(g, reshape, .x = a, .shape = RLX_INTS(4096));
	rlx_value b = rlx_emit(g, exp, .x = a);		/* a's bytes are read below */
	rlx_value c = rlx_emit(g, neg, .x = view);
	struct rlx_plan *p;

	rlx_output(g, "b", rlx_emit(g, matmul, .a = b, .b = b));
	rlx_output(g, "c", rlx_emit(g, matmul, .a = b, .b =
			rlx_emit(g, reshape, .x = c, .shape = RLX_INTS(64, 64))));
	p = plan(g);
	CHECK(p->val[a.id].place.kind == RLX_PLACE_WORK);
	CHECK(!overlap(p, a.id, b.id));
	CHECK(overlap(p, view.id, a.id));
	check_own_threads(p);
	check_steps(p);
	rlx_plan_free(p);
	rlx_graph_put(g);
}

/* An input that is an output, one value under two names, a constant: copies. */
TEST(outputs_that_are_not_computed_are_copied)
{
	struct rlx_graph *g = rlx_graph_new("copies");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4));
	rlx_value y = rlx_emit(g, neg, .x = x);
	struct rlx_plan *p;
	uint32_t s, copies = 0;

	rlx_output(g, "same", x);
	rlx_output(g, "y", y);
	rlx_output(g, "again", y);
	rlx_output(g, "const", rlx_scalar_const(g, RLX_F32, 3));
	p = plan(g);
	for (s = 0; s < p->n_step; s++)
		copies += !p->step[s].def;
	CHECK_EQ(copies, 3);
	CHECK_EQ(p->n_step, 4);
	check_steps(p);
	rlx_plan_free(p);
	rlx_graph_put(g);
}

static struct rlx_graph *chain(int n)
{
	struct rlx_graph *g = rlx_graph_new("chain");
	rlx_value y = rlx_input(g, "x", rlx_type(RLX_F32, 4, 4));
	int i;

	for (i = 0; i < n; i++)
		y = i & 1 ? rlx_emit(g, tanh, .x = y) : rlx_emit(g, matmul, .a = y, .b = y);
	rlx_output(g, "y", y);
	return g;
}

/* All of the first half live until the second half reads them, last one first. */
static struct rlx_graph *wide(int n)
{
	struct rlx_graph *g = rlx_graph_new("wide");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4, 4)), y = x;
	rlx_value *v = calloc((size_t)n, sizeof(*v));
	int i;

	CHECK(v);
	for (i = 0; i < n / 2; i++)
		v[i] = i & 1 ? rlx_emit(g, matmul, .a = x, .b = x) :
		       rlx_emit(g, tile, .x = x, .repeats = RLX_INTS(1, 1 + i % 5));
	for (i = 0; i < n / 2; i += 2)	/* odd ones stay: many small holes */
		y = rlx_emit(g, matmul, .a = y, .b = rlx_emit(g, slice, .x = v[i],
				.axes = RLX_INTS(1), .starts = RLX_INTS(0),
				.ends = RLX_INTS(4)));
	for (i = n / 2 - 1; i > 0; i--)
		if (i & 1)
			y = rlx_emit(g, matmul, .a = y, .b = v[i]);
	free(v);
	rlx_output(g, "y", y);
	return g;
}

/* States that are added to, and outputs of the sums. */
static struct rlx_graph *states(int n)
{
	struct rlx_graph *g = rlx_graph_new("states");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4)), s, y;
	char name[16];
	int i;

	for (i = 0; i < n / 2; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		s = rlx_state(g, name, rlx_type(RLX_F32, 4));
		y = rlx_emit(g, add, .a = s, .b = x);
		rlx_state_next(g, s, y);
		rlx_output(g, name, rlx_emit(g, cumsum, .x = y, .axis = 0));
	}
	return g;
}

/* Normalized over and over: one with more outputs would do for one with fewer. */
static struct rlx_graph *norms(int n)
{
	struct rlx_graph *g = rlx_graph_new("norms");
	rlx_value w = rlx_input(g, "w", rlx_type(RLX_F32, 4));
	rlx_value y = rlx_input(g, "x", rlx_type(RLX_F32, 2, 4));
	int i;

	for (i = 0; i < 3 * n; i++)
		y = rlx_emit(g, layer_norm, .x = y, .gamma = w, .beta = w, .axis = -1,
			     .eps = 1e-5f);
	rlx_output(g, "y", y);
	return g;
}

static double best_ms(struct rlx_graph *(*make)(int n), int n)
{
	struct rlx_graph *g = make(n);
	double best = 1e9, ms;
	int i;

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	for (i = 0; i < 7; i++) {
		struct rlx_plan *p;

		ms = cpu_time();
		p = plan(g);
		ms = 1e3 * (cpu_time() - ms);
		if (!i && n <= 2000) {
			check_own_threads(p);
		}
		rlx_plan_free(p);
		best = ms < best ? ms : best;
	}
	rlx_graph_put(g);
	return best;
}

static void check_scaling(const char *what, struct rlx_graph *(*make)(int n))
{
	double small, large;

	setenv("RLX_DEBUG", "", 1);	/* verifying takes longer than what it verifies */
	small = best_ms(make, 2000);
	large = best_ms(make, 8000);

	printf("# %s: 2000 nodes in %.2f ms, 8000 in %.2f ms\n", what, small, large);
	CHECKF(large < 8 * small + 0.5, "%s: %.2f ms for 2000 nodes, %.2f for 8000", what,
	       small, large);
}

TEST(a_chain_plans_in_linear_time)
{
	check_scaling("chain", chain);
}

TEST(a_wide_graph_plans_in_linear_time)
{
	check_scaling("wide", wide);
}

static double compile_ms(struct rlx_graph *(*make)(int n), int n)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 1 };
	double best = 1e9, ms;
	int i;

	for (i = 0; i < 3; i++) {
		struct rlx_graph *g = make(n);
		struct rlx_program *p = NULL;
		struct rlx_error err = { 0 };

		CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
		ms = cpu_time();
		CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
		ms = 1e3 * (cpu_time() - ms);
		rlx_program_put(p);
		rlx_graph_put(g);
		best = ms < best ? ms : best;
	}
	return best;
}

static void check_compile(const char *what, struct rlx_graph *(*make)(int n))
{
	double small, large;

	setenv("RLX_DEBUG", "", 1);
	small = compile_ms(make, 2000);
	large = compile_ms(make, 8000);
	printf("# %s: 2000 compiled in %.2f ms, 8000 in %.2f ms\n", what, small, large);
	CHECKF(large < 8 * small + 0.5, "%s: %.2f ms for 2000, %.2f for 8000", what, small, large);
}

TEST(many_states_compile_in_linear_time)
{
	check_compile("states", states);
}

TEST(many_norms_compile_in_linear_time)
{
	check_compile("norms", norms);
}

TEST_MAIN()
