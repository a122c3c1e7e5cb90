// SPDX-License-Identifier: MIT
/* rlx explain: for each launch of a program what there was to choose from, and why it was so. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "rt/session.h"
#include "tools/rlx/subject.h"

struct explain_args {
	struct subject_args	m;
	bool			json, measure, all;
	double			seconds;
};

/* Mean time of each step of the plan in ns, NULL if it was not asked for. */
static int measure(struct subject *s, const struct explain_args *a, double **out)
{
	const struct rlx_plan *p = s->session->p->plan;
	uint64_t *ns = rlx_calloc(p->n_step + 1u, sizeof(*ns)), runs = 0;
	struct rlx_error err = { 0 };
	double end;
	uint32_t i;

	*out = rlx_calloc(p->n_step + 1u, sizeof(**out));
	if (!ns || !*out) {
		rlx_free(ns);
		return tool_fail("explain", TOOL_FAILED, "out of memory");
	}
	if (!subject_run(s, &err)) {
		s->session->exec->step_ns = ns;
		end = now() + a->seconds;
		do
			runs++;
		while (!subject_run(s, &err) && now() < end);
		s->session->exec->step_ns = NULL;
	}
	for (i = 0; i < p->n_step && runs; i++)
		(*out)[i] = (double)ns[i] / (double)runs;
	rlx_free(ns);
	return err.status ? tool_fail("explain", TOOL_FAILED, "%s", err.text) : TOOL_OK;
}

/* "layer_norm, fused_matmul": the ops of a launch's steps. */
static void ops_text(const struct rlx_plan *p, const struct rlx_choice *c, char *buf, size_t size)
{
	uint32_t i;
	size_t n = 0;

	*buf = 0;
	for (i = 0; i < c->n_step && n < size; i++) {
		const struct rlx_op_def *def = p->step[c->step + i].def;

		n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? ", " : "",
				      def ? def->name : "copy");
	}
}

/* Of all the steps of a launch; nan if nobody measured. */
static double measured(const struct rlx_choice *c, const double *ns)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; ns && i < c->n_step; i++)
		sum += ns[c->step + i];
	return ns ? sum : NAN;
}

static int by_cost(const struct rlx_choice *a, const struct rlx_choice *b)
{
	if (!a->why_not != !b->why_not)
		return a->why_not ? 1 : -1;
	return (a->ns > b->ns) - (a->ns < b->ns);
}

/* Choices [*first, result) are of one call; the chosen one comes first, then by cost. */
static uint32_t sort_call(struct rlx_choice *c, uint32_t n, uint32_t first)
{
	uint32_t end = first, i, k;

	while (end < n && c[end].call == c[first].call)
		end++;
	for (i = first + 1; i < end; i++)
		for (k = i; k > first && (c[k].chosen || (!c[k - 1].chosen &&
							  by_cost(&c[k], &c[k - 1]) < 0)); k--) {
			struct rlx_choice t = c[k];

			c[k] = c[k - 1];
			c[k - 1] = t;
		}
	return end;
}

/* Others that take a little longer, unless all are asked for. */
enum { FEW_OTHERS = 3 };

static void print_text(const struct subject *s, const struct explain_args *a, const double *ns)
{
	struct rlx_code *code = s->session->p->code;
	char ops[200];
	uint32_t i, k, end;

	printf("%s\n", code->planned_for);
	if (code->kernels_compiled)
		printf("%u kernels were compiled, which took %.0f ms of compilers' threads\n",
		       code->kernels_compiled, (double)code->kernels_ns * 1e-6);
	for (i = 0; i < code->n_choice; i = end) {
		const struct rlx_choice *c = &code->choice[i];

		end = sort_call(code->choice, code->n_choice, i);
		ops_text(code->plan, c, ops, sizeof(ops));
		printf("%4u  %-28s %9.2f us%s", c->step, ops, c->ns * 1e-3,
		       c->tuned ? " (tuned)" : "");
		if (ns)
			printf(" %9.2f us measured", measured(c, ns) * 1e-3);
		printf("  %s\n", c->what);
		if (c->problem)
			printf("        of %s\n", c->problem);
		for (k = i + 1; k < end; k++) {
			const struct rlx_choice *o = &code->choice[k];

			if (o->why_not)
				printf("        not %s: %s\n", o->what, o->why_not);
			else if (a->all || k <= i + FEW_OTHERS)
				printf("        next %9.2f us  %s\n", o->ns * 1e-3, o->what);
		}
	}
}

static void put_choice(struct rlx_json_writer *w, const struct rlx_choice *c)
{
	rlx_json_put_begin(w, '{');
	rlx_json_put_key(w, "kernel");
	rlx_json_put_str(w, c->what);
	rlx_json_put_key(w, "chosen");
	rlx_json_put_bool(w, c->chosen);
	if (c->why_not) {
		rlx_json_put_key(w, "why_not");
		rlx_json_put_str(w, c->why_not);
	} else {
		rlx_json_put_key(w, "predicted_ns");
		rlx_json_put_double(w, c->ns);
	}
	rlx_json_put_end(w);
}

static bool print_json(const struct subject *s, const double *ns)
{
	struct rlx_code *code = s->session->p->code;
	struct rlx_json_writer w;
	uint32_t i, k, end;
	char ops[200];

	rlx_json_writer_begin(&w, stdout, true);
	rlx_json_put_begin(&w, '{');
	rlx_json_put_key(&w, "chip");
	rlx_json_put_str(&w, code->planned_for);
	rlx_json_put_key(&w, "kernels_compiled");
	rlx_json_put_int(&w, code->kernels_compiled);
	rlx_json_put_key(&w, "kernels_ns");
	rlx_json_put_int(&w, (int64_t)code->kernels_ns);
	rlx_json_put_key(&w, "launches");
	rlx_json_put_begin(&w, '[');
	for (i = 0; i < code->n_choice; i = end) {
		const struct rlx_choice *c = &code->choice[i];

		end = sort_call(code->choice, code->n_choice, i);
		ops_text(code->plan, c, ops, sizeof(ops));
		rlx_json_put_begin(&w, '{');
		rlx_json_put_key(&w, "step");
		rlx_json_put_int(&w, c->step);
		rlx_json_put_key(&w, "steps");
		rlx_json_put_int(&w, c->n_step);
		rlx_json_put_key(&w, "ops");
		rlx_json_put_str(&w, ops);
		rlx_json_put_key(&w, "problem");
		rlx_json_put_str(&w, c->problem ? c->problem : "");
		rlx_json_put_key(&w, "tuned");
		rlx_json_put_bool(&w, c->tuned);
		if (ns) {
			rlx_json_put_key(&w, "measured_ns");
			rlx_json_put_double(&w, measured(c, ns));
		}
		rlx_json_put_key(&w, "candidates");
		rlx_json_put_begin(&w, '[');
		for (k = i; k < end; k++)
			put_choice(&w, &code->choice[k]);
		rlx_json_put_end(&w);
		rlx_json_put_end(&w);
	}
	rlx_json_put_end(&w);
	rlx_json_put_end(&w);
	return rlx_json_writer_end(&w);
}

static int explain(struct subject *s, const struct explain_args *a)
{
	struct rlx_compile_opts o = { .flags = RLX_COMPILE_EXPLAIN };
	double *ns = NULL;
	bool ok = true;
	int rc = a->measure ? subject_compile(s, &a->m, o) : subject_program(s, &a->m, o);

	if (rc)
		return rc;
	if (!s->session)
		return tool_fail("explain", TOOL_FAILED, "%s: a size depends on computed data, so "
				 "there are several programs: leave out --measure", s->path);
	if (!s->session->p->code->n_choice)
		return tool_fail("explain", TOOL_FAILED, "%s: device %s has no kernels to choose "
				 "from: --device names a GPU (rlx info lists them)", s->path,
				 a->m.device ? a->m.device : "cpu");
	if (a->measure)
		rc = measure(s, a, &ns);
	if (!rc && a->json)
		ok = print_json(s, ns);
	else if (!rc)
		print_text(s, a, ns);
	rlx_free(ns);
	if (!rc && (!ok || fflush(stdout) || ferror(stdout)))
		rc = tool_fail("explain", TOOL_FAILED, "cannot write to standard output");
	return rc;
}

int cmd_explain(int argc, char **argv)
{
	struct explain_args a = { .m = { .seed = 1 }, .seconds = 1 };
	struct arg_list rest = { 0 };
	const struct arg arg[] = {
		{ "measure", ARG_FLAG, &a.measure, NULL,
		  "run it, and tell what each launch took" },
		{ "seconds", ARG_NUM, &a.seconds, "S", "of measuring (1)" },
		{ "all", ARG_FLAG, &a.all, NULL,
		  "all that could have been taken, not the nearest three" },
		{ "json", ARG_FLAG, &a.json, NULL, "for programs, with all of them" },
		SUBJECT_ARGS(&a.m),
		{ "threads", ARG_UINT, &a.m.threads, "N", "0: all allowed (default)" },
	};
	const struct args args = {
		"explain", "MODEL [OPTION ...]",
		"Prints the launches of a model's program on a GPU: for each the time that the\n"
		"cost model predicts, kernel and parameters, which others there were, and why\n"
		"some cannot do it. Nothing is run without --measure; a launch's measured time\n"
		"includes what the clock at each takes. Shapes are needed as for rlx run.",
		arg, N_ELEM(arg), SUBJECT_MORE, &rest, 1, 1,
	};
	struct subject s = { .cmd = "explain" };
	int rc;

	if (!args_parse(&args, argc, argv, &rc))
		goto out_free;
	rc = a.seconds >= 0 && a.seconds <= 3600 ? TOOL_OK :
	     tool_fail("explain", TOOL_USAGE, "--seconds is from 0 to 3600");
	rc = rc ? rc : subject_open(&s, "explain", rest.v[0]);
	rc = rc ? rc : subject_inputs(&s, &a.m);
	rc = rc ? rc : explain(&s, &a);
out_free:
	subject_close(&s);
	subject_args_free(&a.m);
	arg_list_free(&rest);
	return rc;
}
