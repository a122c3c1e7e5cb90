// SPDX-License-Identifier: MIT
/* rlx tune: measure the kernels that a model could be given; later runs take the fastest. */
#include <stdio.h>
#include <string.h>

#include "rt/session.h"
#include "tools/rlx/subject.h"

struct tune_args {
	struct subject_args	m;
	bool			json;
	double			seconds;
};

/* Launches for which there was a choice; measured ones; those in which the model was wrong. */
struct tally {
	uint32_t	choices, tuned, other;
};

static void count_call(const struct rlx_choice *c, uint32_t n, struct tally *t)
{
	const struct rlx_choice *chosen = NULL;
	bool nearer = false;
	uint32_t i, ways = 0;

	for (i = 0; i < n; i++) {
		ways += !c[i].why_not;
		chosen = c[i].chosen ? &c[i] : chosen;
	}
	for (i = 0; i < n && chosen; i++)
		nearer = nearer || (!c[i].why_not && c[i].ns < 0.95 * chosen->ns);
	t->choices += ways > 1;
	t->tuned += chosen && chosen->tuned;
	t->other += chosen && chosen->tuned && nearer;
}

static struct tally count(const struct rlx_code *code)
{
	struct tally t = { 0 };
	uint32_t i, end;

	for (i = 0; i < code->n_choice; i = end) {
		end = i + 1;
		while (end < code->n_choice && code->choice[end].call == code->choice[i].call)
			end++;
		count_call(&code->choice[i], end - i, &t);
	}
	return t;
}

/* A compilation measures for some seconds: again, until there is nothing new or time is up. */
static int tune(struct subject *s, const struct tune_args *a, struct tally *out)
{
	struct rlx_compile_opts o = { .flags = RLX_COMPILE_EXPLAIN | RLX_COMPILE_TUNE };
	double end = now() + a->seconds;
	uint32_t before;
	int rc;

	do {
		before = out->tuned;
		subject_drop(s);
		rc = subject_program(s, &a->m, o);
		if (rc)
			return rc;
		if (!s->session->p->code->n_choice)
			return tool_fail("tune", TOOL_FAILED, "%s: device %s has no kernels to "
					 "choose from: --device names a GPU (rlx info lists them)",
					 s->path, a->m.device ? a->m.device : "cpu");
		*out = count(s->session->p->code);
	} while (out->tuned > before && now() < end);
	return TOOL_OK;
}

static bool print(const struct subject *s, const struct tally *t, bool json)
{
	const char *chip = s->session->p->code->planned_for;
	struct out o;

	out_begin(&o, json);
	out_str(&o, "chip", chip);
	out_int(&o, "launches_with_a_choice", t->choices);
	out_int(&o, "measured", t->tuned);
	out_int(&o, "other_than_predicted", t->other);
	return out_end(&o);
}

int cmd_tune(int argc, char **argv)
{
	struct tune_args a = { .m = { .seed = 1 }, .seconds = 60 };
	struct arg_list rest = { 0 };
	const struct arg arg[] = {
		{ "seconds", ARG_NUM, &a.seconds, "S",
		  "begin nothing after so many (60); what is left stays predicted" },
		{ "json", ARG_FLAG, &a.json, NULL, "for programs" },
		SUBJECT_ARGS(&a.m),
		{ "threads", ARG_UINT, &a.m.threads, "N", "0: all allowed (default)" },
	};
	const struct args args = {
		"tune", "MODEL [OPTION ...]",
		"Measures on a GPU the kernels that the launches of a model's program could be\n"
		"given, where the cost model sees them within half as long again as the best, and\n"
		"keeps which were fastest beside the folder of compiled kernels: every program of\n"
		"this user on such a chip, with this driver and this library, takes them from\n"
		"then on. Shapes are needed as for rlx run; RLX_TUNE=1 does the same in any\n"
		"program.",
		arg, N_ELEM(arg), SUBJECT_MORE, &rest, 1, 1,
	};
	struct subject s = { .cmd = "tune" };
	struct tally t = { 0 };
	int rc;

	if (!args_parse(&args, argc, argv, &rc))
		goto out_free;
	rc = a.seconds >= 0 && a.seconds <= 86400 ? TOOL_OK :
	     tool_fail("tune", TOOL_USAGE, "--seconds is from 0 to 86400");
	rc = rc ? rc : subject_open(&s, "tune", rest.v[0]);
	rc = rc ? rc : subject_inputs(&s, &a.m);
	rc = rc ? rc : tune(&s, &a, &t);
	if (!rc && !print(&s, &t, a.json))
		rc = tool_fail("tune", TOOL_FAILED, "cannot write to standard output");
out_free:
	subject_close(&s);
	subject_args_free(&a.m);
	arg_list_free(&rest);
	return rc;
}
