// SPDX-License-Identifier: MIT
/*
 * rlx ops: the operators and who can run them, by dtype. Nothing is listed by hand: every
 * op's own test samples are compiled for the device, and its program is asked.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/graph.h"
#include "rlx/compile.h"
#include "rlx/log.h"
#include "rlx/reflect.h"
#include "tools/rlx/tool.h"

enum { MAX_SAMPLES = 400 };

/* What the samples' floats become. */
static const enum rlx_dtype reals[] = { RLX_F32, RLX_F64, RLX_F16, RLX_BF16 };

struct tally {
	unsigned int	samples, by[RLX_SUPPORT_NATIVE + 1];
	struct rlx_error why;		/* the first on the host, asked to be native */
};

static void sample_fini(struct rlx_sample *s)
{
	uint32_t i;

	for (i = 0; i < s->n_graphs; i++)
		rlx_graph_put(s->graphs[i]);
}

/* A constant of zeros: a valid index, and a weight like any other. */
static rlx_value zeros(struct rlx_graph *g, struct rlx_type type)
{
	int64_t n = rlx_type_bytes(&type);
	void *data = n < 0 ? NULL : rlx_calloc((size_t)n + 1, 1);
	rlx_value v = data ? rlx_constant(g, type, data) : RLX_NONE;

	rlx_free(data);
	return v;
}

/* The sample as a graph; inputs but the first are constants if @fixed. */
static struct rlx_graph *graph_of(const struct rlx_op_def *def, const struct rlx_sample *s,
				  bool fixed)
{
	struct rlx_graph *g = rlx_graph_new(def->name);
	uint32_t in[RLX_SAMPLE_IN] = { 0 }, i;
	rlx_value v;
	char name[16];

	for (i = 0; i < s->n_in; i++) {
		snprintf(name, sizeof(name), "%u", i);
		if (!s->in[i].dtype)
			continue;
		v = i && fixed ? zeros(g, s->in[i]) : rlx_input(g, name, s->in[i]);
		in[i] = v.id;
	}
	v = rlx_node_new(g, def, s->args, in, s->n_in > def->n_fixed ? s->n_in : def->n_fixed,
			 NULL);
	for (i = 0; rlx_out(g, v, i).id; i++) {
		snprintf(name, sizeof(name), "%u", i);
		rlx_output(g, name, rlx_out(g, v, i));
	}
	return g;
}

/* @why is set if the op is the host's and nobody told why before. */
static enum rlx_support ask(struct rlx_graph *g, const char *device, struct rlx_error *why)
{
	enum rlx_support by = RLX_SUPPORT_NONE;
	struct rlx_error e = { 0 };

	if (rlx_graph_finish(g) ||
	    rlx_node_support(g, rlx_graph_io_value(g, RLX_IO_OUTPUT, 0), device, &by, &e))
		return RLX_SUPPORT_NONE;
	if (by == RLX_SUPPORT_HOST && !why->status)
		*why = e;
	return by;
}

/* With f32 as @real; false: there is nothing to exchange. */
static bool exchange(struct rlx_sample *s, enum rlx_dtype real)
{
	bool any = real == RLX_F32;
	uint32_t k;

	for (k = 0; k < s->n_in && !(s->f32_only && real != RLX_F32); k++)
		if (s->in[k].dtype == RLX_F32) {
			s->in[k].dtype = real;
			any = true;
		}
	return any;
}

/* The sample as who runs it, its weights as inputs or as constants. */
static enum rlx_support try_one(const struct rlx_op_def *def, const struct rlx_sample *s,
				const char *device, struct rlx_error *why)
{
	struct rlx_graph *g = graph_of(def, s, false);
	enum rlx_support a = ask(g, device, why), b;

	rlx_graph_put(g);
	if (a == RLX_SUPPORT_NATIVE)
		return a;
	/* some take their weights only if they are known */
	g = graph_of(def, s, true);
	b = ask(g, device, why);
	rlx_graph_put(g);
	return b > a ? b : a;
}

static struct tally try_samples(const struct rlx_op_def *def, const char *device,
				enum rlx_dtype real)
{
	struct tally t = { 0 };
	struct rlx_sample *s = rlx_calloc(1, sizeof(*s));
	void *args = rlx_calloc(1, def->args_size + 1u);
	enum rlx_support by;
	unsigned int i;

	for (i = 0; s && args && i < MAX_SAMPLES; i++) {
		memset(s, 0, sizeof(*s));
		memset(args, 0, def->args_size);
		s->def = def;
		s->args = args;
		if (!rlx_sample_get(i, s)) {
			sample_fini(s);
			break;
		}
		if (exchange(s, real)) {
			by = try_one(def, s, device, &t.why);
			t.by[by]++;
			/* another dtype than f32 may be none of the op's */
			t.samples += by != RLX_SUPPORT_NONE || real == RLX_F32;
		}
		sample_fini(s);
	}
	rlx_free(s);
	rlx_free(args);
	return t;
}

static const char *verdict(const struct rlx_op_def *def, const struct tally *t, char buf[32])
{
	unsigned int here = t->by[RLX_SUPPORT_NATIVE] + t->by[RLX_SUPPORT_WIDENED] +
			    t->by[RLX_SUPPORT_EXPANDED];

	if (def->traits & RLX_T_LEAF)
		return "leaf";
	if (!t->samples)
		return rlx_op_has_samples(def) ? "" : "no samples";
	if (t->by[RLX_SUPPORT_NATIVE] == t->samples)
		return "native";
	if (t->by[RLX_SUPPORT_WIDENED] && here == t->samples)
		return "widened";
	if (here == t->samples)
		return "expanded";
	if (t->by[RLX_SUPPORT_HOST] == t->samples)
		return "host";
	if (t->by[RLX_SUPPORT_NONE] == t->samples)
		return "no";
	snprintf(buf, 32, "%u of %u", here, t->samples);
	return buf;
}

static const char *gradient(const struct rlx_op_def *def)
{
	if (def->impl->vjp)
		return "own";
	if (def->traits & (RLX_T_NODIFF | RLX_T_LEAF))
		return "none";
	return def->impl->expand || def->impl->grad_expand ? "expanded" : "missing";
}

static const struct table_col columns[] = {
	{ "op", -1 }, { "device", -1 }, { "f64", -1 }, { "f16", -1 }, { "bf16", -1 },
	{ "reference", -1 }, { "gradient", -1 }, { "doc", -1 },
	{ "samples", 0, true }, { "native", 0, true }, { "widened", 0, true },
	{ "expanded", 0, true }, { "host", 0, true }, { "refused", 0, true }, { "fused", 0, true },
	{ "why", -1, true },
};

static void add_op(struct table *t, const struct rlx_op_def *def, const char *device)
{
	char buf[N_ELEM(reals)][32];
	const char *by[N_ELEM(reals)];
	struct tally n, other;
	unsigned int i;

	n = try_samples(def, device, reals[0]);
	by[0] = verdict(def, &n, buf[0]);
	for (i = 1; i < N_ELEM(reals); i++) {
		other = try_samples(def, device, reals[i]);
		by[i] = verdict(def, &other, buf[i]);
		if (!n.why.status)
			n.why = other.why;
	}
	table_row(t, (struct table_cell[N_ELEM(columns)]){
		{ def->name }, { by[0] }, { by[1] }, { by[2] }, { by[3] },
		{ def->impl->eval ? "own" : def->impl->expand ? "expanded" : "none" },
		{ gradient(def) }, { def->doc },
		{ NULL, n.samples }, { NULL, n.by[RLX_SUPPORT_NATIVE] },
		{ NULL, n.by[RLX_SUPPORT_WIDENED] }, { NULL, n.by[RLX_SUPPORT_EXPANDED] },
		{ NULL, n.by[RLX_SUPPORT_HOST] },
		{ NULL, n.by[RLX_SUPPORT_NONE] }, { NULL, !!(def->traits & RLX_T_FUSED) },
		{ n.why.status ? n.why.text : "" },
	});
}

/* The table's end for people: how many of each. */
static void print_sums(const struct table *t, const char *device)
{
	unsigned int native = 0, expanded = 0, host = 0, part = 0, leaf = 0, i;

	for (i = 0; i < t->n_row; i++) {
		const char *v = t->cell[i * t->n_col + 1].text;

		native += !strcmp(v, "native");
		expanded += !strcmp(v, "expanded");
		host += !strcmp(v, "host");
		leaf += !strcmp(v, "leaf");
		part += strstr(v, " of ") != NULL;
	}
	printf("\n%u ops on %s in f32: %u native, %u expanded into native ones, %u in part, "
	       "%u on the host, %u leaves\n", t->n_row, device, native, expanded, part, host,
	       leaf);
}

/* Why the host runs some samples of an op. */
static void print_why(const struct table *t)
{
	unsigned int i;

	putchar('\n');
	for (i = 0; i < t->n_row; i++) {
		const struct table_cell *row = &t->cell[i * t->n_col];

		if (*row[t->n_col - 1].text)
			printf("%-20s %s\n", row[0].text, row[t->n_col - 1].text);
	}
}

static const struct table_col fields[] = {
	{ "op", -1 }, { "field", -1 }, { "type", -1 }, { "not given", -1 },
};

static const char *absent(const struct rlx_field_info *f, char buf[160])
{
	if (f->required)
		snprintf(buf, 160, "refused%s%s", f->hint ? ": write " : "",
			 f->hint ? f->hint : "");
	else if (!strcmp(f->type, "i32") || !strcmp(f->type, "i64") ||
		 !strcmp(f->type, "f32") || !strcmp(f->type, "f64"))
		snprintf(buf, 160, "%g%s", f->def, f->zero_too ? ", and for 0" : "");
	else if (!strcmp(f->type, "bool"))
		return "false";
	else if (!strcmp(f->type, "ints") || !strcmp(f->type, "floats"))
		return "empty";
	else
		return "none";
	return buf;
}

/* What an op takes, and what an attribute is that is not given. */
static void add_fields(struct table *t, uint32_t op)
{
	struct rlx_op_info o = { .size = sizeof(o) };
	struct rlx_field_info f = { .size = sizeof(f) };
	char buf[160];
	uint32_t i;

	for (i = 0; !rlx_ops_info(op, &o) && !rlx_ops_field(op, i, &f); i++)
		table_row(t, (struct table_cell[N_ELEM(fields)]){
			{ o.name }, { f.name }, { f.type }, { absent(&f, buf) } });
}

static int print_fields(const struct arg_list *ops, enum table_format format)
{
	struct table t = { .col = fields, .n_col = N_ELEM(fields) };
	uint32_t i, at;
	int rc = 0;

	for (i = 0; i < (ops->n ? ops->n : rlx_ops_count()); i++) {
		at = i;
		if (!ops->n || !rlx_ops_find(ops->v[i], &at, NULL))
			add_fields(&t, at);
	}
	if (!table_print(&t, format) || fflush(stdout))
		rc = tool_fail("ops", TOOL_FAILED, "cannot write to standard output");
	table_fini(&t);
	return rc;
}

/* What runs on the host is what is asked here: no warning of each. */
static void drop_line(void *ctx, enum rlx_log_level level, const char *line)
{
	(void)ctx;
	(void)level;
	(void)line;
}

int cmd_ops(int argc, char **argv)
{
	struct table t = { .col = columns, .n_col = N_ELEM(columns) };
	const char *device = "cpu";
	struct arg_list rest = { 0 };
	bool json = false, takes = false, ok;
	struct rlx_error err = { 0 };
	int format = TABLE_TEXT, rc;
	const struct arg arg[] = {
		{ "device", ARG_STR, &device, "NAME", "whose kernels are asked for (cpu)" },
		{ "fields", ARG_FLAG, &takes, NULL, "what they take, and its defaults" },
		{ "format", ARG_WORD, &format, TABLE_WORDS, "(table)" },
		{ "json", ARG_FLAG, &json, NULL, "the same as --format json" },
	};
	const struct args args = {
		"ops", "[OP ...] [OPTION ...]",
		"Lists the operators. Who runs one is found by compiling its test samples:\n"
		"native means by a kernel, widened by one for wider floats between conversions,\n"
		"expanded by kernels for simpler ops, host by the reference evaluator; device\n"
		"is about f32, the columns beside it about the other floats. A gradient or a\n"
		"reference of its own stands in the op's file; expanded comes from what the op\n"
		"stands for.",
		arg, N_ELEM(arg), NULL, &rest, 0, 1000,
	};
	struct progress p;
	unsigned int i;
	uint32_t at;

	if (!args_parse(&args, argc, argv, &rc))
		goto out_free;
	for (i = 0; !rc && i < rest.n; i++)
		if (rlx_ops_find(rest.v[i], &at, &err))
			rc = tool_fail("ops", TOOL_FAILED, "%s; rlx ops lists them", err.text);
	if (!rc && takes) {
		rc = print_fields(&rest, json ? TABLE_JSON : (enum table_format)format);
		goto out_free;
	}
	rlx_log_set(drop_line, NULL);
	progress_begin(&p, "compiling samples", rest.n ? rest.n : rlx_op_count);
	for (i = 0; !rc && i < (rest.n ? rest.n : rlx_op_count); i++) {
		add_op(&t, rest.n ? rlx_op_find(rest.v[i], strlen(rest.v[i])) : rlx_op_defs[i],
		       device);
		progress_at(&p, i);
	}
	progress_end(&p);
	if (!rc) {
		ok = table_print(&t, json ? TABLE_JSON : (enum table_format)format);
		if (ok && !json && format == TABLE_TEXT && !rest.n)
			print_sums(&t, device);
		if (ok && !json && format == TABLE_TEXT)
			print_why(&t);
		if (!ok || fflush(stdout))
			rc = tool_fail("ops", TOOL_FAILED, "cannot write to standard output");
	}
	table_fini(&t);
out_free:
	arg_list_free(&rest);
	return rc;
}
