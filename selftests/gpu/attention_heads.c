// SPDX-License-Identifier: MIT
/* Heads that share keys are rows of one tile, where they lie so; what kernel is given is told. */
#include "rlx/compile.h"
#include "rt/rt.h"
#include "selftests/gpu/sessions.h"

enum { BATCH = 2, HEADS = 8, KV_HEADS = 2, KEYS = 70, WIDTH = 32 };

struct form {
	int64_t		queries;
	int32_t		layout, mask;
	bool		biased;
};

static struct rlx_type heads_of(const struct form *f, int64_t heads, int64_t len)
{
	return f->layout == RLX_BHSD ? rlx_type(RLX_F16, BATCH, heads, len, WIDTH) :
				       rlx_type(RLX_F16, BATCH, len, heads, WIDTH);
}

static struct rlx_graph *graph_of(const struct form *f)
{
	struct rlx_graph *g = rlx_graph_new("heads");
	rlx_value q = rlx_input(g, "q", heads_of(f, HEADS, f->queries));
	rlx_value k = rlx_input(g, "k", heads_of(f, KV_HEADS, KEYS));
	rlx_value v = rlx_input(g, "v", heads_of(f, KV_HEADS, KEYS)), bias = { 0 };

	if (f->biased)	/* the same for all heads, but not for all queries */
		bias = rlx_input(g, "bias", rlx_type(RLX_F32, 1, 1, f->queries, KEYS));
	rlx_output(g, "y", rlx_emit(g, attention, .q = q, .k = k, .v = v, .bias = bias,
				    .heads = HEADS, .kv_heads = KV_HEADS, .layout = f->layout,
				    .mask = f->mask));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

/* Does the kernel's problem begin so? */
static void expect(const struct form *f, const char *want)
{
	struct rlx_graph *g = graph_of(f);
	struct rlx_session *s = session_of(g, "cuda", RLX_COMPILE_EXPLAIN);
	const struct rlx_code *c = rlx_session_program(s)->code;
	uint32_t i, found = 0;

	for (i = 0; i < c->n_choice; i++)
		if (c->choice[i].chosen && c->choice[i].problem &&
		    !strncmp(c->choice[i].problem, "attention ", 10)) {
			CHECKF(!strncmp(c->choice[i].problem + 10, want, strlen(want)),
			       "%s, not %s", c->choice[i].problem, want);
			CHECK(!strstr(c->choice[i].problem, "causal") == (f->queries == 1 ||
									   !f->mask));
			found++;
		}
	CHECK_EQ(found, 1);
	rlx_session_free(s);
	rlx_graph_put(g);
}

TEST(rows_of_one_head)
{
	expect(&(struct form){ 5, RLX_BHSD }, "2x2/2x20x70 ");
	expect(&(struct form){ 1, RLX_BHSD }, "2x2/2x4x70 ");
	expect(&(struct form){ 1, RLX_BSHD }, "2x2/2x4x70 ");
	/* one query stands at the last key, and sees them all */
	expect(&(struct form){ 1, RLX_BSHD, RLX_MASK_CAUSAL }, "2x2/2x4x70 ");
	expect(&(struct form){ 1, RLX_BHSD, 0, true }, "2x2/2x4x70 ");
}

/* Heads between a head's queries, places that differ, biases that begin anew. */
TEST(heads_apart)
{
	expect(&(struct form){ 5, RLX_BSHD }, "2x8/2x5x70 ");
	expect(&(struct form){ 5, RLX_BHSD, RLX_MASK_CAUSAL }, "2x8/2x5x70 ");
	expect(&(struct form){ 5, RLX_BHSD, 0, true }, "2x8/2x5x70 ");
}

TEST_MAIN()
