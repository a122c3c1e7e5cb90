// SPDX-License-Identifier: MIT
/* rlx bench --profile: the time of each kind of step of a program. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "rt/session.h"
#include "tools/rlx/subject.h"

/* Steps of one op with equal types are one kind. */
struct kind {
	char		what[48], types[160];
	double		ms, flops;
	unsigned int	steps;
};

static void describe(const struct rlx_plan *p, const struct rlx_plan_step *st,
		     struct kind *k)
{
	size_t n = 0;
	uint32_t i;
	char type[96];

	*k = (struct kind){ .steps = 1 };
	snprintf(k->what, sizeof(k->what), "%s", st->def ? st->def->name : "copy");
	for (i = 0; i < st->n_in && i < 2; i++) {
		if (!st->in[i])
			continue;
		rlx_type_print(&p->val[st->in[i]].type, type, sizeof(type));
		n += (size_t)snprintf(k->types + n, sizeof(k->types) - n, "%s ", type);
	}
	if (st->n_out && st->out[0] && n < sizeof(k->types)) {
		rlx_type_print(&p->val[st->out[0]].type, type, sizeof(type));
		snprintf(k->types + n, sizeof(k->types) - n, "-> %s", type);
	}
}

/* By the op's own cost function; 0 if it has none. */
static double flops_of(const struct rlx_plan *p, const struct rlx_plan_step *st)
{
	return st->def && st->def->impl->cost ? rlx_plan_cost(p, st).flops : 0;
}

static int by_time(const void *a, const void *b)
{
	double x = ((const struct kind *)a)->ms, y = ((const struct kind *)b)->ms;

	return (x < y) - (x > y);
}

/* Kinds into @kind, which has room for all steps; their number. */
static uint32_t collect(const struct rlx_plan *p, const uint64_t *ns, uint64_t runs,
			struct kind *kind)
{
	uint32_t n = 0, i, j;
	struct kind k;

	for (i = 0; i < p->n_step; i++) {
		describe(p, &p->step[i], &k);
		k.ms = (double)ns[i] * 1e-6 / (double)runs;
		k.flops = flops_of(p, &p->step[i]);
		for (j = 0; j < n; j++)
			if (!strcmp(k.what, kind[j].what) && !strcmp(k.types, kind[j].types))
				break;
		if (j == n) {
			kind[n++] = k;
			continue;
		}
		kind[j].ms += k.ms;
		kind[j].flops += k.flops;
		kind[j].steps++;
	}
	qsort(kind, n, sizeof(*kind), by_time);
	return n;
}

static const struct table_col columns[] = {
	{ "ms", 4 }, { "pct", 1 }, { "steps", 0 }, { "gflops", 1 }, { "op", -1 },
	{ "types", -1 },
};

static bool print(const struct kind *kind, uint32_t n, enum table_format how)
{
	struct table t = { .col = columns, .n_col = N_ELEM(columns) };
	double sum = 0;
	uint32_t i;
	bool ok;

	for (i = 0; i < n; i++)
		sum += kind[i].ms;
	for (i = 0; i < n; i++)
		table_row(&t, (struct table_cell[N_ELEM(columns)]){
			{ NULL, kind[i].ms }, { NULL, sum > 0 ? 100 * kind[i].ms / sum : NAN },
			{ NULL, kind[i].steps },
			{ NULL, kind[i].flops && kind[i].ms > 0 ?
				kind[i].flops / kind[i].ms * 1e-6 : NAN },
			{ kind[i].what }, { kind[i].types },
		});
	ok = table_print(&t, how);
	if (how == TABLE_TEXT)
		printf("%.4f ms a run\n", sum);
	table_fini(&t);
	return ok;
}

int profile(struct subject *s, double seconds, enum table_format how)
{
	const struct rlx_plan *p = s->session ? s->session->p->plan : NULL;
	double end = now() + seconds;
	struct rlx_error err = { 0 };
	struct kind *kind;
	uint64_t *ns, runs = 0;
	int rc = TOOL_OK;

	if (!p)
		return tool_fail(s->cmd, TOOL_FAILED,
				 "%s: a size depends on computed data, so there are several "
				 "programs and no profile of one", s->path);
	ns = rlx_calloc(p->n_step + 1u, sizeof(*ns));
	kind = rlx_calloc(p->n_step + 1u, sizeof(*kind));
	if (!ns || !kind || subject_run(s, &err)) {
		rc = tool_fail(s->cmd, TOOL_FAILED, "%s",
			       err.status ? err.text : "out of memory");
		goto out_free;
	}
	s->session->exec->step_ns = ns;
	do
		runs++;
	while (!subject_run(s, &err) && now() < end);
	s->session->exec->step_ns = NULL;
	if (err.status)
		rc = tool_fail(s->cmd, TOOL_FAILED, "%s", err.text);
	else if (!print(kind, collect(p, ns, runs, kind), how))
		rc = tool_fail(s->cmd, TOOL_FAILED, "cannot write to standard output");
out_free:
	rlx_free(ns);
	rlx_free(kind);
	return rc;
}
