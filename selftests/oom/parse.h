/* SPDX-License-Identifier: MIT */
/* Every allocation of parsing a graph's text fails once. */
#ifndef RLX_TEST_OOM_PARSE_H
#define RLX_TEST_OOM_PARSE_H

#include <stdio.h>

#include "rlx/graph.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

struct oom_text {
	char	*p;
	size_t	 len;
};

static inline enum rlx_status oom_parse(void *ctx)
{
	const struct oom_text *t = ctx;
	struct rlx_graph *g = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_graph_parse(t->p, t->len, &g, &err);

	CHECKF(st == err.status, "status %d, its message %d", st, err.status);
	CHECKF(!st == !!g, "status %d and %s graph", st, g ? "a" : "no");
	rlx_graph_put(g);
	return st;
}

/* Of the text of @g, which goes. Return: how many allocations there are. */
static inline uint64_t oom_parse_sweep(struct rlx_graph *g)
{
	struct oom_text t = { 0 };
	FILE *f = open_memstream(&t.p, &t.len);
	uint64_t n;

	CHECKF(!rlx_graph_error(g)->status, "%s", rlx_graph_error(g)->text);
	CHECK_EQ(rlx_graph_print(g, f, false), 0);
	fclose(f);
	rlx_graph_put(g);
	n = rlx_oom_sweep(oom_parse, &t);
	free(t.p);
	return n;
}

#endif
