// SPDX-License-Identifier: MIT
/*
 * Backward passes that compute some of the forward one once more, by marks and by a budget:
 * gradients of the same bits, of less memory; and what is refused.
 */
#include "base/alloc.h"
#include "rlx/grad.h"
#include "selftests/lib/remat_case.h"

static const struct train_decoder small = { 6, 64, 4, 64, 4 };

/* The least that error @text names. */
static uint64_t least_of(const char *text)
{
	const char *at = strstr(text, " bytes of what was computed before it, ");

	CHECKF(at, "%s", text);
	return strtoull(strchr(at, ',') + 1, NULL, 10);
}

static uint64_t all_of(const char *text)
{
	return strtoull(strstr(text, "has ") + 4, NULL, 10);
}

/* What the passes of @c have, and can do with. */
static void ask(struct remat_case c, uint64_t *all, uint64_t *least)
{
	struct train_rig r;

	c.memory = 1;
	remat_build(&r, &c);
	CHECK_EQ(rlx_graph_error(r.g)->status, RLX_ERANGE);
	*all = all_of(rlx_graph_error(r.g)->text);
	*least = least_of(rlx_graph_error(r.g)->text);
	CHECK(*least > 1 && *least < *all);
	rlx_vars_free(r.v);
	rlx_graph_put(r.g);
}

static void check_budgets(struct remat_case c)
{
	uint64_t all, least, work, before = UINT64_MAX;
	struct train_rig plain, r;
	int i;

	ask(c, &all, &least);
	c.memory = 0;
	work = remat_open(&plain, &c);
	printf("# of %llu bytes %llu at least, workspace %llu", (unsigned long long)all,
	       (unsigned long long)least, (unsigned long long)work);
	for (i = 3; i >= 0; i--) {
		c.memory = least + (all - least) * (uint64_t)i / 4;
		before = remat_open(&r, &c);
		printf(", %llu of %llu", (unsigned long long)before, (unsigned long long)c.memory);
		CHECKF(before <= work, "%llu bytes", (unsigned long long)before);
		train_end(&plain);
		c.memory = 0;
		remat_open(&plain, &c);
		remat_compare(&plain, &r, &c.size, 2);
		train_end(&r);
	}
	printf("\n");
	CHECKF(before < work - work / 4, "%llu, not below three quarters of %llu",
	       (unsigned long long)before, (unsigned long long)work);
	train_end(&plain);
}

TEST(gradients_by_a_budget_have_the_bits_of_those_without)
{
	static const enum rlx_precision how[] = {
		RLX_PRECISION_AS_WRITTEN, RLX_PRECISION_BF16, RLX_PRECISION_MIXED_BF16,
	};
	struct remat_case c = { .size = small, .device = "cpu" };
	unsigned int i;

	for (i = 0; i < 3; i++) {
		c.precision = how[i];
		c.dropout = i % 2;
		check_budgets(c);
	}
}

static void check_marks(enum remat_marks marks, bool dropout)
{
	struct remat_case c = { .size = small, .device = "cpu", .dropout = dropout };
	struct train_rig plain, r;
	uint64_t work, less;

	work = remat_open(&plain, &c);
	c.marks = marks;
	less = remat_open(&r, &c);
	printf("# workspace %llu, marked %llu\n", (unsigned long long)work,
	       (unsigned long long)less);
	CHECKF(less < work - work / 4, "%llu", (unsigned long long)less);
	remat_compare(&plain, &r, &c.size, 2);
	train_end(&plain);
	train_end(&r);
}

TEST(scopes_keep_nothing_inside_and_nest)
{
	check_marks(REMAT_BLOCKS, false);
	check_marks(REMAT_NESTED, true);
}

TEST(a_budget_below_the_least_is_refused_and_the_least_is_met)
{
	struct remat_case c = { .size = small, .device = "cpu" };
	uint64_t all, least;
	struct train_rig r;

	ask(c, &all, &least);
	c.memory = least;
	remat_build(&r, &c);
	CHECKF(!rlx_graph_finish(r.g), "%s", rlx_graph_error(r.g)->text);
	rlx_vars_free(r.v);
	rlx_graph_put(r.g);
	c.memory = least - 1;
	remat_build(&r, &c);
	CHECK_EQ(rlx_graph_error(r.g)->status, RLX_ERANGE);
	CHECK_EQ(least_of(rlx_graph_error(r.g)->text), least);
	rlx_vars_free(r.v);
	rlx_graph_put(r.g);
}

/* ---- random graphs ---- */

enum { ROWS = 8, COLS = 16, VALUES = 60, WEIGHTS = 4 };

struct drawn {
	struct rlx_graph	*g;
	rlx_value		x, w[WEIGHTS], d[WEIGHTS + 1];
	rlx_value		v[VALUES];
	unsigned int		n, depth;
	bool			marks;
};

static rlx_value draw_op(struct drawn *r, uint64_t *s)
{
	/* mostly of late ones, so that there are chains and paths around them */
	unsigned int a = r->n - 1 - rlx_test_rand(s) % (r->n < 4 ? r->n : 4);
	rlx_value x = r->v[a], y = r->v[rlx_test_rand(s) % r->n];

	switch (rlx_test_rand(s) % 9) {
	case 0:
		return rlx_emit(r->g, add, .a = x, .b = y);
	case 1:
		return rlx_emit(r->g, mul, .a = x, .b = rlx_emit(r->g, tanh, .x = y));
	case 2:
		return rlx_emit(r->g, gelu, .x = x);
	case 3:
		return rlx_emit(r->g, softmax, .x = x, .axis = -1);
	case 4:
		return rlx_emit(r->g, sub, .a = x, .b = rlx_emit(r->g, sigmoid, .x = y));
	case 5:
		x = rlx_emit(r->g, reshape, .x = x, .shape = RLX_INTS(COLS, ROWS));
		return rlx_emit(r->g, transpose, .x = x, .perm = RLX_INTS(1, 0));
	case 6:
		x = rlx_emit(r->g, reduce, .x = x, .kind = RLX_REDUCE_MEAN, .axes = RLX_INTS(1),
			     .keep_dims = true);
		return rlx_emit(r->g, sub, .a = y, .b = x);
	default:
		x = rlx_emit(r->g, matmul, .a = x, .b = r->w[rlx_test_rand(s) % WEIGHTS]);
		return rlx_emit(r->g, tanh, .x = x);
	}
}

/* A loss and its gradients; the same of the same @seed, but for marks and @memory. */
static void draw(struct drawn *r, uint64_t seed, bool marks, uint64_t memory)
{
	struct rlx_ad a = { .size = sizeof(a), .memory = memory };
	unsigned int i, what;
	rlx_value wrt[WEIGHTS + 1], loss;
	uint64_t s = seed + 1;
	char name[16];

	*r = (struct drawn){ .g = rlx_graph_new("drawn"), .marks = marks };
	wrt[WEIGHTS] = r->v[r->n++] = rlx_input(r->g, "x", rlx_type(RLX_F32, ROWS, COLS));
	for (i = 0; i < WEIGHTS; i++) {
		snprintf(name, sizeof(name), "w%u", i);
		wrt[i] = r->w[i] = rlx_input(r->g, name, rlx_type(RLX_F32, COLS, COLS));
	}
	while (r->n < VALUES) {
		what = rlx_test_rand(&s) % 8;
		if (marks && what == 0 && r->depth < 3) {
			rlx_scope_begin(r->g, RLX_SCOPE_REMAT);
			r->depth++;
		} else if (marks && what == 1 && r->depth) {
			rlx_scope_end(r->g);
			r->depth--;
		}
		r->v[r->n] = draw_op(r, &s);
		r->n++;
	}
	while (r->depth--)
		rlx_scope_end(r->g);
	loss = rlx_emit(r->g, mul, .a = r->v[VALUES - 1], .b = r->v[VALUES - 2]);
	loss = rlx_emit(r->g, reduce, .x = loss, .kind = RLX_REDUCE_SUM, .axes = RLX_INTS(0, 1));
	a.of = (struct rlx_values){ &loss, 1 };
	a.wrt = (struct rlx_values){ wrt, WEIGHTS + 1 };
	rlx_vjp(r->g, &a, r->d);
	for (i = 0; i <= WEIGHTS && !rlx_graph_error(r->g)->status; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		rlx_output(r->g, name, r->d[i]);
	}
}

static void run_drawn(struct drawn *r, uint32_t flags, float *out)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .flags = flags };
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	unsigned int i, k, n;
	uint64_t seed = 5;
	float *at;

	CHECKF(!rlx_graph_finish(r->g), "%s", rlx_graph_error(r->g)->text);
	CHECKF(!rlx_compile(r->g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	for (i = 0; i <= WEIGHTS; i++) {
		n = i ? COLS * COLS : ROWS * COLS;
		at = rlx_buf_ptr(rlx_session_buf_at(s, RLX_IO_INPUT, i));
		for (k = 0; k < n; k++)
			at[k] = (float)rlx_test_uniform(&seed, -1, 1);
	}
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	for (i = 0; i <= WEIGHTS; i++) {
		struct rlx_buf b = rlx_session_bound_at(s, RLX_IO_OUTPUT, i);

		memcpy(out, rlx_buf_ptr(b), b.bytes);
		out += b.bytes / sizeof(*out);
	}
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(r->g);
}

TEST(random_graphs_have_the_bits_of_those_without)
{
	enum { FLOATS = WEIGHTS * COLS * COLS + ROWS * COLS };
	static float plain[FLOATS], other[FLOATS];
	const char *more = getenv("RLX_TEST_GRAPHS");
	unsigned int n = more ? (unsigned int)atoi(more) : 40, i, met = 0;
	uint32_t flags;
	uint64_t seed = rlx_test_seed(), all, least, memory;
	struct drawn r;

	for (i = 0; i < n; i++, seed++) {
		/* equal nodes of different scopes stay apart, and so they fuse otherwise */
		flags = i % 2 ? RLX_COMPILE_NO_FUSE : 0;
		draw(&r, seed, false, 0);
		run_drawn(&r, flags, plain);
		draw(&r, seed, i % 2, 1);
		CHECK_EQ(rlx_graph_error(r.g)->status, RLX_ERANGE);
		all = all_of(rlx_graph_error(r.g)->text);
		least = least_of(rlx_graph_error(r.g)->text);
		rlx_graph_put(r.g);
		met += least < all;
		memory = i % 8 == 7 ? 0 : least + (all - least) * (i / 2 % 4) / 4;
		draw(&r, seed, i % 2, memory);
		run_drawn(&r, flags, other);
		CHECKF(!memcmp(plain, other, sizeof(plain)), "seed %llu, of %llu bytes",
		       (unsigned long long)seed, (unsigned long long)memory);
	}
	printf("# %u of %u can do with less\n", met, n);
	CHECK(met > n / 2);
}

/* Each allocation fails once: the graph says so, and nothing is left. */
TEST(out_of_memory_is_told_at_each_allocation)
{
	uint64_t seed = 11, all, least, memory;
	bool met = false;
	unsigned int n;
	struct drawn r;
	int64_t live;

	draw(&r, seed, false, 1);
	all = all_of(rlx_graph_error(r.g)->text);
	least = least_of(rlx_graph_error(r.g)->text);
	rlx_graph_put(r.g);
	memory = least + (all - least) / 2;
	live = rlx_alloc_live();
	for (n = 1; !met; n++) {
		rlx_alloc_fail_nth(n);
		draw(&r, seed, true, memory);
		rlx_alloc_fail_nth(0);
		met = !rlx_graph_error(r.g)->status;
		CHECKF(met || rlx_graph_error(r.g)->status == RLX_ENOMEM, "allocation %u: %s", n,
		       rlx_graph_error(r.g)->text);
		rlx_graph_put(r.g);
		CHECKF(rlx_alloc_live() == live, "allocation %u leaves %lld", n,
		       (long long)(rlx_alloc_live() - live));
	}
	printf("# %u allocations\n", n);
}

/* A chain of elementwise ops is cut in pieces of its root. */
TEST(a_long_chain_takes_the_root_of_its_length)
{
	enum { LENGTH = 900, BYTES = 4096 };
	struct rlx_graph *g = rlx_graph_new("chain");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, BYTES / 4)), y = x, d;
	struct rlx_ad a = { .size = sizeof(a), .of = { &y, 1 }, .wrt = { &x, 1 },
			    .memory = 80 * BYTES };
	int i;

	for (i = 0; i < LENGTH; i++)
		y = rlx_emit(g, tanh, .x = y);
	y = rlx_emit(g, reduce, .x = y, .kind = RLX_REDUCE_SUM, .axes = RLX_INTS(0));
	rlx_vjp(g, &a, &d);
	CHECKF(!rlx_graph_error(g)->status, "%s", rlx_graph_error(g)->text);
	rlx_graph_put(g);
}

TEST_MAIN()
