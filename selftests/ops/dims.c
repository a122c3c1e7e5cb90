// SPDX-License-Identifier: MIT
/*
 * Drawn graphs with names for sizes of their inputs: bound to these sizes they are the graphs
 * that are built with them, to the bit, and bound to others those that are built with others.
 */
#include <time.h>

#include "ir/dims.h"
#include "selftests/lib/fuzz_case.h"
#include "selftests/lib/rlx_test.h"

enum { NAMES = 2 };

/* Sizes that get names, and what stands in their place: names, or other sizes. */
struct change {
	int64_t		from[NAMES], to[NAMES];
	unsigned int	n;
};

static int64_t changed(const struct change *c, int64_t x)
{
	unsigned int i;

	for (i = 0; i < c->n; i++)
		if (x == c->from[i])
			return c->to[i];
	return x;
}

/* Of inputs, and of shapes that are given: constants and all other numbers stay. */
static void change_args(const struct change *c, const struct rlx_node *n, void *args, int64_t *list)
{
	struct rlx_op_input *leaf = args;
	struct rlx_ints *l = NULL;
	uint32_t i;

	if (n->def->index == RLX_OP_input)
		for (i = 0; i < leaf->type.rank; i++)
			leaf->type.dim[i] = changed(c, leaf->type.dim[i]);
	if (n->def->index == RLX_OP_reshape)
		l = &((struct rlx_op_reshape *)args)->shape;
	if (n->def->index == RLX_OP_expand)
		l = &((struct rlx_op_expand *)args)->shape;
	for (i = 0; l && i < l->n; i++)
		list[i] = changed(c, l->v[i]);
	if (l)
		l->v = list;
}

/* @g node by node into @out, changed. */
static void emit_changed(const struct rlx_graph *g, const struct change *c, struct rlx_graph *out)
{
	_Alignas(16) unsigned char args[4096];
	int64_t list[64];
	uint32_t i;

	for (i = 0; i < g->n_node; i++) {
		const struct rlx_node *n = &g->node[i];

		CHECK(n->def->args_size <= sizeof(args));
		memcpy(args, n->args, n->def->args_size);
		change_args(c, n, args, list);
		if (n->def->index == RLX_OP_input)
			rlx_leaf_at(out, RLX_IO_INPUT, ((struct rlx_op_input *)n->args)->name,
				    ((struct rlx_op_input *)(void *)args)->type, n);
		else
			rlx_node_new(out, n->def, args, n->in, n->n_in, n);
	}
	for (i = 0; i < g->io[RLX_IO_OUTPUT].n; i++)
		rlx_output(out, g->io[RLX_IO_OUTPUT].e[i].name, g->io[RLX_IO_OUTPUT].e[i].v);
	if (rlx_graph_finish(out)) {	/* the caller reads the graph's error */
	}
}

static char *text_of(const struct rlx_graph *g)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	CHECK(f && !rlx_graph_print(g, f, false));
	fclose(f);
	return text;
}

/* What came of the cases. */
struct tally {
	unsigned int	cases, templates, bound, others, refused;
};

/* @t bound to @size is @want, or refused as what is built with them. */
static bool check_bound(const struct rlx_graph *t, const struct change *c, const int64_t *size,
			const struct rlx_graph *want, struct tally *tally, uint64_t seed)
{
	static const char *const name[NAMES] = { "d0", "d1" };
	struct rlx_binding b[NAMES];
	struct rlx_graph *got = NULL;
	struct rlx_error err = { 0 };
	char *x, *y, *z = text_of(t);
	enum rlx_status st;
	unsigned int i;

	for (i = 0; i < c->n; i++)
		b[i] = (struct rlx_binding){ name[i], size[i] };
	st = rlx_graph_bind(t, b, c->n, &got, &err);
	CHECKF(st != RLX_EBUG && st != RLX_ENOMEM && st == err.status, "seed %#llx: %s in\n%s",
	       (unsigned long long)seed, err.text, z);
	/* what the ranges do not say may be refused, of sizes that op's outputs are cut to */
	CHECKF(!st || want->err.status || strstr(err.text, "give its dimensions a range"),
	       "seed %#llx: %s in\n%s", (unsigned long long)seed, err.text, z);
	CHECKF(st || !want->err.status, "seed %#llx: bound, where %s: %s",
	       (unsigned long long)seed, want->err.text, z);
	tally->refused += st != 0;
	if (!st) {
		x = text_of(want);
		y = text_of(got);
		CHECKF(!strcmp(x, y), "seed %#llx: of\n%s\nbound\n%sis not\n%s",
		       (unsigned long long)seed, z, y, x);
		CHECK(rlx_graph_hash(want) == rlx_graph_hash(got));
		free(x);
		free(y);
	}
	free(z);
	rlx_graph_put(got);
	return !st;
}

static void check_text(const struct rlx_graph *t, uint64_t seed)
{
	char *text = text_of(t), *again;
	struct rlx_graph *back = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_graph_parse(text, strlen(text), &back, &err), "seed %#llx: %s in\n%s",
	       (unsigned long long)seed, err.text, text);
	again = text_of(back);
	CHECKF(!strcmp(text, again) && rlx_graph_hash(t) == rlx_graph_hash(back),
	       "seed %#llx:\n%sbecame\n%s", (unsigned long long)seed, text, again);
	free(again);
	free(text);
	rlx_graph_put(back);
}

/* Up to NAMES different sizes of @g's inputs, over 1. */
static void pick(const struct rlx_graph *g, struct change *c, uint64_t *seed)
{
	const struct rlx_named_list *l = &g->io[RLX_IO_INPUT];
	int turn;

	c->n = 0;
	for (turn = 0; l->n && turn < 12 && c->n < NAMES; turn++) {
		const struct rlx_type *t = &g->val[l->e[rlx_test_rand(seed) % l->n].v.id].type;
		int64_t d = t->rank ? t->dim[rlx_test_rand(seed) % t->rank] : 0;

		c->to[c->n] = d;
		if (d > 1 && changed(c, d) == d && !(c->n && c->from[0] == d))
			c->from[c->n++] = d;
	}
}

static void check_case(const struct fuzz_case *k, struct tally *tally)
{
	uint64_t seed = k->seed;
	void *data[FUZZ_LEAVES];
	struct change c, other;
	struct rlx_graph *g, *t, *h;
	unsigned int i;
	uint32_t j;

	for (j = 0; j < k->n_leaf; j++)
		data[j] = fuzz_data(k, j);
	g = fuzz_graph(k, data, RLX_NODTYPE, 0, 0);
	for (j = 0; j < k->n_leaf; j++)
		free(data[j]);
	if (g->err.status)
		goto out_put;
	tally->cases++;
	pick(g, &c, &seed);
	t = rlx_graph_new("fuzz");
	for (i = 0; i < c.n; i++)
		c.to[i] = rlx_dim(t, i ? "d1" : "d0", 1, c.from[i] + 20);
	emit_changed(g, &c, t);
	CHECKF(t->err.status != RLX_EBUG && t->err.status != RLX_ENOMEM, "seed %#llx: %s",
	       (unsigned long long)k->seed, t->err.text);
	if (c.n && !t->err.status) {
		tally->templates++;
		check_text(t, k->seed);
		tally->bound += check_bound(t, &c, c.from, g, tally, k->seed);
		other = c;
		for (i = 0; i < c.n; i++)
			other.to[i] = 1 + (int64_t)(rlx_test_rand(&seed) % 16);
		h = rlx_graph_new("fuzz");
		emit_changed(g, &other, h);
		tally->others += check_bound(t, &c, other.to, h, tally, k->seed);
		rlx_graph_put(h);
	}
	rlx_graph_put(t);
out_put:
	rlx_graph_put(g);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check_drawn(void (*draw)(struct fuzz_case *c, uint64_t seed))
{
	const char *n = getenv("RLX_FUZZ_CASES"), *one = getenv("RLX_FUZZ_CASE");
	uint64_t seed = rlx_test_seed();
	struct fuzz_case *c = malloc(sizeof(*c));
	unsigned long most = n ? strtoul(n, NULL, 0) : 20000, i;
	struct tally t = { 0 };
	double end = now() + 10;

	CHECK(c);
	for (i = 0; i < (one ? 1 : most) && (n || now() < end); i++) {
		draw(c, one ? strtoull(one, NULL, 0) : rlx_test_rand(&seed));
		check_case(c, &t);
	}
	printf("# of %u cases %u took names; bound %u times to the sizes they had, %u to others, "
	       "refused %u times\n", t.cases, t.templates, t.bound, t.others, t.refused);
	CHECK(one || (t.templates > t.cases / 20 && t.bound > t.templates / 2 &&
		      t.others > t.templates / 4));
	free(c);
}

TEST(drawn_graphs)
{
	check_drawn(fuzz_draw_graph);
}

TEST(drawn_ops)
{
	check_drawn(fuzz_draw_op);
}

/* Every sample of every op: what stands in the arguments is looked at in each. */
TEST(samples)
{
	struct fuzz_case *c = malloc(sizeof(*c));
	struct tally t = { 0 };
	uint64_t seed = rlx_test_seed();
	uint32_t d, i;

	CHECK(c);
	for (d = 0; d < rlx_op_count; d++)
		for (i = 0; i < 200 && fuzz_draw_sample(c, rlx_op_defs[d], i); i++) {
			c->seed = rlx_test_rand(&seed);
			check_case(c, &t);
		}
	printf("# of %u cases %u took names; bound %u times to the sizes they had, %u to others, "
	       "refused %u times\n", t.cases, t.templates, t.bound, t.others, t.refused);
	CHECK(t.templates > 100 && t.bound > t.templates / 2);
	free(c);
}

TEST_MAIN()
