// SPDX-License-Identifier: MIT
/* The text form of every sample's graph reads back to an equal graph. */
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

static char *print(const struct rlx_graph *g, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	CHECK(f);
	CHECK(!rlx_graph_print(g, f, false));
	fclose(f);
	return text;
}

static void check_case(const struct op_case *c, unsigned int i)
{
	struct rlx_graph *g = op_case_graph(c), *back = NULL;
	struct rlx_error err = { 0 };
	char *text, *again;
	size_t n, m;

	CHECKF(!rlx_graph_error(g)->status, "%s sample %u: %s", c->def->name, i,
	       rlx_graph_error(g)->text);
	text = print(g, &n);
	CHECKF(!rlx_graph_parse(text, n, &back, &err), "%s sample %u: %s in\n%s",
	       c->def->name, i, err.text, text);
	again = print(back, &m);
	CHECKF(n == m && !memcmp(text, again, n), "%s sample %u: printed\n%sthen\n%s",
	       c->def->name, i, text, again);
	CHECKF(rlx_graph_hash(g) == rlx_graph_hash(back), "%s sample %u: the hash moved",
	       c->def->name, i);
	free(again);
	free(text);
	rlx_graph_put(back);
	rlx_graph_put(g);
}

TEST(every_sample)
{
	uint64_t seed = rlx_test_seed();
	unsigned int d, i, n = 0;
	struct op_case c;

	for (d = 0; d < rlx_op_count; d++)
		for (i = 0; op_case_init(&c, rlx_op_defs[d], i, 0, &seed); i++, n++) {
			check_case(&c, i);
			op_case_fini(&c);
		}
	CHECKF(n > 500, "only %u samples", n);
}

TEST_MAIN()
