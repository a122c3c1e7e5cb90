// SPDX-License-Identifier: MIT
/* rlx dump: a graph before and after any pass, its plan, and the report. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "io/formats/file.h"
#include "rlx/graph.h"
#include "tools/rlx/subject.h"

enum { FORMAT_TEXT, FORMAT_DOT, FORMAT_SVG };
enum { PLAN_NONE, PLAN_TEXT, PLAN_SVG };

struct dump_args {
	struct subject_args	m;
	const char		*pass, *output;
	int			format, plan;
	bool			report, whole, list;
};

struct dump {
	const struct dump_args	*a;
	FILE			*f;
	char			seen[400];	/* passes that ran, for messages */
	size_t			n_seen;
	unsigned int		found;
	enum rlx_status		st;
};

static enum rlx_status put_graph(const struct dump *d, const struct rlx_graph *g)
{
	switch (d->a->format) {
	case FORMAT_DOT:
		return rlx_graph_dot(g, d->f);
	case FORMAT_SVG:
		return rlx_graph_svg(g, d->f);
	default:
		return rlx_graph_print(g, d->f, !d->a->whole);
	}
}

static void note(struct dump *d, const char *pass)
{
	size_t room = sizeof(d->seen) - d->n_seen;
	int k = 0;

	if (!strstr(d->seen, pass))
		k = snprintf(d->seen + d->n_seen, room, "%s%s", d->n_seen ? ", " : "", pass);
	d->n_seen += k > 0 && (size_t)k < room ? (size_t)k : 0;
}

/* Called after each pass, and as "none" before the first. */
static void on_pass(void *ctx, const char *pass, const struct rlx_graph *g)
{
	struct dump *d = ctx;
	bool all = d->a->pass && !strcmp(d->a->pass, "all");

	note(d, pass);
	if (d->st || !d->a->pass || (!all && strcmp(d->a->pass, pass)))
		return;
	d->found++;
	if (all && d->a->format == FORMAT_TEXT)
		fprintf(d->f, "# %s %s: %u nodes\n", strcmp(pass, "none") ? "after" : "before",
			strcmp(pass, "none") ? pass : "all passes", rlx_graph_size(g));
	d->st = put_graph(d, g);
}

/* What fails because of the file is told when that is closed. */
static int told(const struct dump *d, const struct subject *s, enum rlx_status st)
{
	if (ferror(d->f))
		return TOOL_OK;
	return tool_fail("dump", TOOL_FAILED, "%s: %s", s->path, rlx_status_name(st));
}

/* What is made of the finished program. */
static int put_program(struct dump *d, struct subject *s)
{
	struct rlx_program *p = s->session ? rlx_session_program(s->session) : NULL;
	const struct dump_args *a = d->a;
	enum rlx_status st = RLX_OK;

	if (!p)
		return tool_fail("dump", TOOL_FAILED,
				 "%s: a size depends on computed data, so there are several "
				 "programs; --pass all shows the graph of each", s->path);
	if (a->plan)
		st = a->plan == PLAN_SVG ? rlx_program_svg(p, d->f) :
		     rlx_program_print(p, d->f);
	if (!st && a->report)
		st = rlx_program_report(p, d->f);
	if (!st && !a->plan && !a->report)
		st = put_graph(d, rlx_program_graph(p));
	return st ? told(d, s, st) : TOOL_OK;
}

static int dump(struct dump *d, struct subject *s)
{
	const struct dump_args *a = d->a;
	struct rlx_compile_opts o = { .dump = on_pass, .dump_ctx = d };
	int rc = subject_compile(s, &a->m, o);

	if (rc)
		return rc;
	if (a->list) {
		fprintf(d->f, "%s\n", d->seen);
		return TOOL_OK;
	}
	if (d->st)
		return told(d, s, d->st);
	if (a->pass && !d->found)
		return tool_fail("dump", TOOL_USAGE,
				 "no pass '%s' ran; %s%s", a->pass,
				 s->plan ? "what is in a plan file has been through the passes" :
				 "there are: all, ", d->seen);
	return a->pass && !a->plan && !a->report ? TOOL_OK : put_program(d, s);
}

static int check(const struct dump_args *a)
{
	bool images = a->format != FORMAT_TEXT;

	if (images && a->pass && !strcmp(a->pass, "all"))
		return tool_fail("dump", TOOL_USAGE,
				 "--pass all is many graphs: as text only, or name one pass");
	if ((images && (a->plan || a->report)) || (a->plan == PLAN_SVG && a->report))
		return tool_fail("dump", TOOL_USAGE, "an image goes into a file of its own: "
				 "ask for one thing at a time");
	return TOOL_OK;
}

/* What was in the file before stays until all of the new is there. */
static int open_output(struct dump *d, struct rlx_file_writer *w)
{
	struct rlx_error err = { 0 };

	if (!d->a->output)
		return TOOL_OK;
	if (rlx_file_write_begin(w, d->a->output, &err))
		return tool_fail("dump", TOOL_FAILED, "%s", err.text);
	d->f = w->f;
	return TOOL_OK;
}

static int close_output(struct dump *d, struct rlx_file_writer *w, int rc)
{
	bool bad = fflush(d->f) || ferror(d->f);
	const char *what = d->a->output ? d->a->output : "standard output";
	struct rlx_error err = { 0 };

	if (bad && !rc)
		rc = tool_fail("dump", TOOL_FAILED, "cannot write to %s: %s", what,
			       strerror(errno));
	if (d->a->output && rlx_file_write_end(w, rc ? RLX_EIO : RLX_OK, &err) && !rc)
		rc = tool_fail("dump", TOOL_FAILED, "%s", err.text);
	return rc;
}

int cmd_dump(int argc, char **argv)
{
	struct dump_args a = { .m = { .seed = 1 } };
	struct arg_list rest = { 0 };
	const struct arg arg[] = {
		{ "pass", ARG_STR, &a.pass, "NAME",
		  "the graph after that pass; none: as read; all: after each\n"
		  "(without it: as it is compiled)" },
		{ "passes", ARG_FLAG, &a.list, NULL, "only list the passes that ran" },
		{ "format", ARG_WORD, &a.format, "text|dot|svg", "of the graph (text)" },
		{ "whole", ARG_FLAG, &a.whole, NULL,
		  "with the contents of all constants, to be read back" },
		{ "plan", ARG_WORD, &a.plan, "none|text|svg",
		  "the plan: its steps, or memory over time" },
		{ "report", ARG_FLAG, &a.report, NULL, "what was fused, and who runs each op" },
		{ "output", ARG_STR, &a.output, "FILE", "write there" },
		SUBJECT_ARGS(&a.m),
		{ "threads", ARG_UINT, &a.m.threads, "N", "0: all allowed (default)" },
	};
	const struct args args = {
		"dump", "MODEL [OPTION ...]",
		"Prints the graph of a model, the plan of its program, or what the compiler\n"
		"did. Shapes are needed as for rlx run; the model is run once.",
		arg, N_ELEM(arg), SUBJECT_MORE, &rest, 1, 1,
	};
	struct dump d = { .a = &a, .f = stdout };
	struct subject s = { .cmd = "dump" };
	struct rlx_file_writer w;
	int rc;

	if (!args_parse(&args, argc, argv, &rc))
		goto out_free;
	rc = check(&a);
	rc = rc ? rc : subject_open(&s, "dump", rest.v[0]);
	rc = rc ? rc : subject_inputs(&s, &a.m);
	rc = rc ? rc : open_output(&d, &w);
	if (!rc)
		rc = close_output(&d, &w, dump(&d, &s));
out_free:
	subject_close(&s);
	subject_args_free(&a.m);
	arg_list_free(&rest);
	return rc;
}
