// SPDX-License-Identifier: MIT
/* rlx pick: which device a policy takes for a model, and what is in the others' way. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "rlx/devices.h"
#include "tools/rlx/subject.h"

struct pick_args {
	struct subject_args	m;
	const char		*policy;
	uint64_t		 measure;
	int			 format;
};

/* Of the inputs' types alone: what they hold changes from run to run. */
static enum rlx_status model_graph(struct subject *s, struct rlx_graph **out,
				   struct rlx_error *err)
{
	struct rlx_named_tensor *in = rlx_calloc(s->n_in + 1, sizeof(*in));
	enum rlx_status st;
	unsigned int i;

	if (!in)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	for (i = 0; i < s->n_in; i++) {
		in[i] = s->in[i];
		in[i].data = NULL;
	}
	st = rlx_model_graph(s->model, in, s->n_in, out, err);
	rlx_free(in);
	return st;
}

static int make_devices(struct subject *s, const struct pick_args *a, struct rlx_devices **out)
{
	struct rlx_compile_opts o = { .flags = 0 };
	struct rlx_policy *policy = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *g = NULL;
	enum rlx_status st;

	subject_options(&o, &a->m);
	if (!s->model)
		g = rlx_graph_get(s->graph);
	st = s->model ? model_graph(s, &g, &err) : RLX_OK;
	if (!st)
		st = a->policy ? rlx_policy_new(a->policy, &policy, &err)
			       : rlx_policy_env(NULL, &policy, &err);
	if (!st)
		st = rlx_devices_new(g, policy, &o, out, &err);
	rlx_policy_put(policy);
	rlx_graph_put(g);
	return st ? tool_fail("pick", st == RLX_EINVAL ? TOOL_USAGE : TOOL_FAILED, "%s", err.text)
		  : TOOL_OK;
}

/* A graph's params stand behind its inputs. */
static int give_params(struct subject *s, struct rlx_devices *ds, unsigned int n_in)
{
	struct rlx_error err = { 0 };
	unsigned int i;

	for (i = n_in; i < s->n_in; i++)
		if (rlx_devices_set(ds, s->in[i].name, s->in[i].type, s->in[i].data, &err))
			return tool_fail("pick", TOOL_FAILED, "%s", err.text);
	return TOOL_OK;
}

static void add_row(struct table *t, const struct rlx_device_fit *f)
{
	const struct table_cell cells[] = {
		{ .text = f->device },
		{ .text = f->chosen ? "chosen" : f->runs ? "runs" : f->allowed ? "cannot" :
			  f->present ? "barred" : "absent" },
		{ .num = f->runs ? f->native : NAN }, { .num = f->runs ? f->host : NAN },
		{ .num = f->cost_ns > 0 ? f->cost_ns * 1e-6 : NAN },
		{ .num = f->measured_ns > 0 ? f->measured_ns * 1e-6 : NAN },
		{ .num = f->compile_ns > 0 ? f->compile_ns * 1e-6 : NAN },
		{ .text = f->why.text },
	};

	table_row(t, cells);
}

static int print_fit(struct rlx_devices *ds, const struct pick_args *a)
{
	static const struct table_col col[] = {
		{ "device", -1 }, { "state", -1 }, { "native", 0 }, { "host", 0 },
		{ "cost_ms", 3 }, { "measured_ms", 3 }, { "compile_ms", 1 }, { "why", -1 },
	};
	enum { MOST = 64 };
	struct rlx_device_fit *f = rlx_calloc(MOST, sizeof(*f));
	struct table t = { .col = col, .n_col = N_ELEM(col) };
	struct rlx_error err = { 0 };
	bool chosen = false, ok;
	char device[24];
	unsigned int n, i;

	if (!f)
		return tool_fail("pick", TOOL_FAILED, "out of memory");
	n = rlx_devices_fit(ds, f, MOST);
	for (i = 0; i < n && i < MOST; i++) {
		add_row(&t, &f[i]);
		chosen |= f[i].chosen;
	}
	ok = table_print(&t, (enum table_format)a->format);
	table_fini(&t);
	rlx_free(f);
	if (!ok)
		return tool_fail("pick", TOOL_FAILED, "cannot write to standard output");
	if (chosen || !rlx_devices_pick(ds, NULL, NULL, 0, device, &err))
		return TOOL_OK;
	return tool_fail("pick", TOOL_MISMATCH, "%s", err.text);
}

static int pick(struct subject *s, const struct pick_args *a)
{
	struct rlx_devices *ds = NULL;
	unsigned int n_in;
	int rc = make_devices(s, a, &ds);

	if (rc)
		return rc;
	n_in = s->model ? s->n_in : rlx_graph_io_count(s->graph, RLX_IO_INPUT);
	rc = give_params(s, ds, n_in);
	if (!rc && a->measure)
		rlx_devices_bench(ds, n_in ? s->in : NULL, n_in, (unsigned int)a->measure, NULL, 0);
	rc = rc ? rc : print_fit(ds, a);
	rlx_devices_free(ds);
	return rc;
}

int cmd_pick(int argc, char **argv)
{
	struct pick_args a = { .m = { .seed = 1 } };
	struct arg_list rest = { 0 };
	const struct arg arg[] = {
		SUBJECT_ARGS(&a.m),
		{ "threads", ARG_UINT, &a.m.threads, "N", "of the CPU; 0: all allowed (default)" },
		{ "policy", ARG_STR, &a.policy, "TEXT",
		  "\"allow=cuda,cpu prefer=cuda:1 pick=order\", say; without it\n"
		  "what RLX_DEVICE and the like have (rlx/devices.h)" },
		{ "measure", ARG_UINT, &a.measure, "N", "time N runs of each that can, by turns" },
		{ "format", ARG_WORD, &a.format, TABLE_WORDS, "(table)" },
	};
	const struct args args = {
		"pick", "MODEL [OPTION ...]",
		"Tells which device a policy takes for a model, and what is in the way\n"
		"of the others.",
		arg, N_ELEM(arg),
		SUBJECT_MORE, &rest, 1, 1, .mismatch = "no device is chosen",
	};
	struct subject s = { .cmd = "pick" };
	int rc;

	if (!args_parse(&args, argc, argv, &rc))
		goto out_free;
	if (a.m.device)
		rc = tool_fail("pick", TOOL_USAGE, "--device is the policy's: --policy device=%s",
			       a.m.device);
	else if (a.measure > 100000)
		rc = tool_fail("pick", TOOL_USAGE, "--measure is 100000 at most");
	rc = rc ? rc : subject_open(&s, "pick", rest.v[0]);
	rc = rc ? rc : subject_inputs(&s, &a.m);
	rc = rc ? rc : pick(&s, &a);
out_free:
	subject_close(&s);
	arg_list_free(&rest);
	subject_args_free(&a.m);
	return rc;
}
