// SPDX-License-Identifier: MIT
/*
 * A gradient of attention asks for attention once more, with the logarithms of its sums: the
 * program has one that makes both. The parts of a split value's gradient are joined, not added.
 */
#include <time.h>

#include "ir/graph.h"
#include "pass/pass.h"
#include "rlx/grad.h"
#include "rlx/run.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { B = 2, T = 5, D = 8 };

rlx_pass_fn rlx_pass_cse;

/* Gradients of the squares of attention, whose q, k and v are thirds of x along @axis's parts. */
static struct rlx_program *program(unsigned int layers, bool overlap)
{
	struct rlx_graph *g = rlx_graph_new("merge");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, B, T, 3 * D)), p[3], y, d;
	struct rlx_error err = { 0 };
	struct rlx_program *out;
	unsigned int l, k;

	y = x;
	for (l = 0; l < layers; l++) {
		for (k = 0; k < 3; k++)
			p[k] = rlx_emit(g, slice, .x = y, .axes = RLX_INTS(2),
					.starts = RLX_INTS(k && overlap ? k * D - 1 : k * D),
					.ends = RLX_INTS(k && overlap ? (k + 1) * D - 1 :
							 (k + 1) * D));
		y = rlx_emit(g, attention, .q = p[0], .k = p[1], .v = p[2], .heads = 2,
			     .mask = RLX_MASK_CAUSAL);
		y = rlx_emit(g, concat, .axis = 2, .xs = RLX_VALUES(y, y, y));
	}
	y = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = y, .b = y));
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &y, 1 },
				     .wrt = { &x, 1 } }, &d);
	rlx_output(g, "y", y);
	rlx_output(g, "d", d);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, NULL, &out, &err), "%s", err.text);
	rlx_graph_put(g);
	return out;
}

TEST(attention_once)
{
	struct rlx_program *p = program(3, false);

	CHECK_EQ(rig_count(rlx_program_graph(p), RLX_OP_attention), 3);
	rlx_program_put(p);
}

/* Clocks that merging takes of @n norms of one value that tell their sums, and @n that do not. */
static clock_t merge_norms(unsigned int n)
{
	struct rlx_graph *g = rlx_graph_new("norms"), *out = NULL;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 4)), y;
	struct rlx_error err = { 0 };
	struct rlx_pass_ctx c = { .err = &err };
	char name[16];
	clock_t begun;
	unsigned int i;

	for (i = 0; i < 2 * n; i++) {
		y = rlx_emit(g, layer_norm, .x = x, .axis = -1, .stats = i >= n,
			     .eps = (float)(i % n + (i >= n && i % n)) * 1e-6f + 1e-6f);
		snprintf(name, sizeof(name), "y%u", i);
		rlx_output(g, name, y);
	}
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	begun = clock();
	CHECKF(!rlx_pass_cse(&c, g, &out), "%s", err.text);
	begun = clock() - begun;
	CHECK(rig_count(out, RLX_OP_layer_norm) < 2 * n);	/* the first of both, and more */
	rlx_graph_put(out);
	rlx_graph_put(g);
	return begun;
}

TEST(many_of_one_value)
{
	clock_t few = merge_norms(500), many = merge_norms(8000);

	CHECKF(many < 64 * few + CLOCKS_PER_SEC / 50, "%ld and %ld clocks", (long)few, (long)many);
}

/* Words that rlx_hash_bytes() takes for each other, where its state is 0, and what it is then. */
static const uint64_t alike[2] = { 0x0d05f0817da5c1fd, 0x55fca58e2d27afcb };
static const uint64_t behind = 0x56c91a713212fddd;

/* Clocks that merging takes of constants that differ, by whatever hash or by one for all. */
static clock_t merge_constants(bool one_hash)
{
	enum { WORDS = 13, N = 1 << WORDS };
	struct rlx_graph *g = rlx_graph_new("constants"), *out = NULL;
	struct rlx_error err = { 0 };
	struct rlx_pass_ctx c = { .err = &err };
	uint64_t word[WORDS], h, want = 0;
	struct rlx_blob *b;
	char name[16];
	clock_t begun;
	unsigned int i, k;

	for (i = 0; i < N; i++) {
		h = 0x9e3779b97f4a7c15;
		for (k = 0; k < WORDS; k++, h = behind)
			word[k] = one_hash ? h ^ alike[i >> k & 1] : k ? k : i;
		b = rlx_blob_copy(word, sizeof(word));
		want = i ? want : rlx_blob_hash(b);
		CHECK(!i || one_hash == (rlx_blob_hash(b) == want));
		snprintf(name, sizeof(name), "y%u", i);
		rlx_output(g, name, rlx_constant_blob(g, rlx_type(RLX_U64, WORDS), b));
		rlx_blob_put(b);
	}
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	begun = clock();
	CHECKF(!rlx_pass_cse(&c, g, &out), "%s", err.text);
	begun = clock() - begun;
	rlx_graph_put(out);
	rlx_graph_put(g);
	return begun;
}

TEST(constants_of_one_hash)
{
	clock_t any = merge_constants(false), one = merge_constants(true);

	CHECKF(one < 10 * any + CLOCKS_PER_SEC / 50, "%ld and %ld clocks", (long)any, (long)one);
}

TEST(parts_joined)
{
	struct rlx_program *p = program(1, false), *q = program(1, true);

	CHECK_EQ(rig_count(rlx_program_graph(p), RLX_OP_pad), 0);
	CHECK_EQ(rig_count(rlx_program_graph(q), RLX_OP_pad), 3);	/* not if they overlap */
	rlx_program_put(p);
	rlx_program_put(q);
}

/* As many parts as an unrolled recurrence takes, read in any order. */
EVERYWHERE(many_parts)
{
	enum { PARTS = 150 };
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 2, 3 * PARTS), -1, 1), y = RLX_NONE, p, d;
	unsigned int k, i;

	for (k = 0; k < PARTS; k++) {
		int64_t at = k * 7 % PARTS;

		p = rlx_emit(r->g, slice, .x = x, .axes = RLX_INTS(1), .starts = RLX_INTS(3 * at),
			     .ends = RLX_INTS(3 * at + 3));
		p = rlx_emit(r->g, reduce, .x = rlx_emit(r->g, mul, .a = p, .b = p));
		p = rlx_emit(r->g, mul, .a = p,
			     .b = rlx_scalar_const(r->g, RLX_F32, 0.5 * (double)(at + 1)));
		y = k ? rlx_emit(r->g, add, .a = y, .b = p) : p;
	}
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &y, 1 },
					.wrt = { &x, 1 } }, &d);
	CHECK_EQ(rlx_node_of(r->g, d.id)->def->index, RLX_OP_concat);
	rig_output(r, d);
	rig_run(r);
	for (i = 0; i < 2 * 3 * PARTS; i++)
		rig_want(r, 0, i, (i / 3 % PARTS + 1) * rig_in(r, 0, i), 1e-5);
}

/* What reads one gradient of attention in 16 bits takes no digits of the others. */
EVERYWHERE(gradients_rounded_apart)
{
	struct rlx_type x = rlx_type(RLX_BF16, 1, 2, 40, 32);
	rlx_value q = rig_random(r, x, -1, 1), k = rig_random(r, x, -1, 1);
	rlx_value v = rig_random(r, x, -1, 1), y = rig_random(r, x, -1, 1);
	rlx_value dy = rig_random(r, x, -1, 1), d;
	unsigned int j, coarse = 0;
	uint32_t bits;
	int64_t i;

	d = rlx_emit(r->g, attention_grad, .q = q, .k = k, .v = v, .y = y, .dy = dy,
		     .lse = rig_random(r, rlx_type(RLX_F32, 1, 2, 40), 3, 4), .heads = 2,
		     .layout = RLX_BHSD, .out_dtype = RLX_F32);
	rig_output(r, rlx_emit(r->g, cast, .x = d, .to = RLX_BF16));
	rig_output(r, rlx_out(r->g, d, 1));
	rig_output(r, rlx_out(r->g, d, 2));
	rig_run(r);
	for (j = 1; j < 3; j++)
		for (i = 0; i < 2 * 40 * 32; i++) {
			memcpy(&bits, (float *)r->out[j].data + i, sizeof(bits));
			coarse += !(bits & 0xffff);
		}
	CHECKF(coarse < 20, "%u elements are of 16 bits", coarse);
}

TEST_MAIN()
