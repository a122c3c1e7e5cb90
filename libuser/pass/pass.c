// SPDX-License-Identifier: MIT
/* The pass driver: order, verification, debug output. */
#include <stdlib.h>

#include "base/log.h"
#include "pass/pass.h"

#define PASS(name, needs) rlx_pass_fn rlx_pass_##name;
#include "pass/passes.def"
#undef PASS

enum needs { ALWAYS, SIMPLIFY, FUSE };

static const struct {
	const char	*name;
	rlx_pass_fn	*fn;
	enum needs	 needs;
} passes[] = {
#define PASS(name, needs) { #name, rlx_pass_##name, needs },
#include "pass/passes.def"
#undef PASS
};

static bool wanted(const struct rlx_pass_ctx *c, enum needs needs)
{
	if (needs == SIMPLIFY)
		return !(c->flags & RLX_COMPILE_NO_SIMPLIFY);
	if (needs == FUSE)
		return c->target.fuse && !(c->flags & RLX_COMPILE_NO_FUSE);
	return true;
}

/* RLX_DEBUG=roundtrip: print, parse, and compare. */
static enum rlx_status roundtrip(struct rlx_pass_ctx *c, const char *pass,
				 const struct rlx_graph *g)
{
	struct rlx_graph *back = NULL;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	enum rlx_status st = f ? rlx_graph_print(g, f, false) : RLX_ENOMEM;

	if (f)
		fclose(f);
	if (!st)
		st = rlx_graph_parse(text, len, &back, c->err);
	if (!st && rlx_graph_hash(back) != rlx_graph_hash(g))
		st = rlx_fail(c->err, RLX_EBUG,
			      "pass %s: the printed graph parses to another one", pass);
	rlx_graph_put(back);
	free(text);		/* open_memstream's own */
	return st;
}

static enum rlx_status after(struct rlx_pass_ctx *c, const char *pass,
			     const struct rlx_graph *g)
{
	enum rlx_status st = rlx_graph_verify(g, c->err);

	if (!st && rlx_debug_on(RLX_DEBUG_ROUNDTRIP))
		st = roundtrip(c, pass, g);
	if (rlx_debug_on(RLX_DEBUG_PASS))
		rlx_log(RLX_LOG_DEBUG, "pass %s: %u nodes", pass, g->n_node);
	if (rlx_debug_on(RLX_DEBUG_PRINT)) {
		rlx_log(RLX_LOG_DEBUG, "after %s", pass);
		rlx_graph_print(g, stderr, true);
	}
	return st;
}

enum rlx_status rlx_passes_run(struct rlx_pass_ctx *c,
			       const struct rlx_compile_opts *opts,
			       struct rlx_graph *g, struct rlx_graph **out)
{
	struct rlx_graph *cur = rlx_graph_get(g), *next;
	enum rlx_status st = RLX_OK;
	unsigned int i;

	if (opts->dump)
		opts->dump(opts->dump_ctx, "none", g);
	for (i = 0; !st && i < sizeof(passes) / sizeof(passes[0]); i++) {
		if (!wanted(c, passes[i].needs))
			continue;
		next = NULL;
		st = passes[i].fn(c, cur, &next);
		if (!st && c->no_memory) {
			rlx_graph_put(next);
			st = rlx_fail(c->err, RLX_ENOMEM, "pass %s: out of memory",
				      passes[i].name);
		}
		if (!st && next) {
			rlx_graph_put(cur);
			cur = next;
			st = after(c, passes[i].name, cur);
		}
		if (!st && opts->dump)
			opts->dump(opts->dump_ctx, passes[i].name, cur);
	}
	if (st)
		rlx_graph_put(cur);
	else
		*out = cur;
	return st;
}
