// SPDX-License-Identifier: MIT
/* rlx run: one model on given or generated inputs, its outputs checked. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/element.h"
#include "rlx/inspect.h"
#include "tools/rlx/subject.h"

struct run_args {
	struct subject_args	m;
	struct arg_list		output, expect;
	double			rtol, atol;
	uint64_t		repeat, values, at;
	bool			json, nan;
};

/* What a glance at a tensor tells. */
struct summary {
	double	lo, hi, mean;
	int64_t	bad;	/* NaN or infinite */
};

static struct summary summarise(const struct rlx_named_tensor *v)
{
	struct rlx_tensor t = { v->type, (void *)(uintptr_t)v->data };
	struct summary s = { INFINITY, -INFINITY, 0, 0 };
	int64_t n = rlx_type_count(&t.type), i;
	double x;

	for (i = 0; i < n; i++) {
		x = el_get(&t, i);
		s.bad += !isfinite(x);
		if (!isfinite(x))
			continue;
		s.lo = x < s.lo ? x : s.lo;
		s.hi = x > s.hi ? x : s.hi;
		s.mean += x;
	}
	s.mean = n > s.bad ? s.mean / (double)(n - s.bad) : NAN;
	return s;
}

static void print_tensor(struct out *o, const struct rlx_named_tensor *v)
{
	struct summary s = summarise(v);
	bool none = isnan(s.mean);
	char type[96], text[256];

	rlx_type_print(&v->type, type, sizeof(type));
	if (o->json) {
		out_section(o, v->name);
		out_str(o, "type", type);
		out_num(o, "min", none ? NAN : s.lo, 6, "");
		out_num(o, "max", none ? NAN : s.hi, 6, "");
		out_num(o, "mean", s.mean, 6, "");
		out_int(o, "not_finite", s.bad);
		out_section_end(o);
		return;
	}
	if (none)
		snprintf(text, sizeof(text), "%-20s %s", type,
			 s.bad ? "nothing finite" : "empty");
	else
		snprintf(text, sizeof(text), "%-20s min %.6g  max %.6g  mean %.6g%s", type,
			 s.lo, s.hi, s.mean, s.bad ? "  (some not finite)" : "");
	out_named(o, v->name, text);
}

static bool find_output(const struct subject *s, const char *text,
			struct rlx_named_tensor *out, const char **value)
{
	unsigned int i;

	for (i = 0; i < subject_outputs(s); i++)
		if (subject_output(s, i, out)) {
			*value = value_of(text, out->name);
			if (*value)
				return true;
		}
	return false;
}

static int no_output(const struct subject *s, const char *option, const char *text)
{
	struct rlx_named_tensor v;
	char names[300] = "";
	unsigned int i;
	size_t n = 0;

	for (i = 0; i < subject_outputs(s); i++)
		if (subject_output(s, i, &v) && n < sizeof(names))
			n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
					      n ? ", " : "", v.name);
	return tool_fail("run", TOOL_USAGE, "--%s %s: no such output; there are: %s",
			 option, text, names);
}

static int write_outputs(const struct subject *s, const struct arg_list *l)
{
	struct rlx_error err = { 0 };
	struct rlx_named_tensor v;
	const char *path;
	unsigned int i;

	for (i = 0; i < l->n; i++) {
		if (!find_output(s, l->v[i], &v, &path))
			return no_output(s, "output", l->v[i]);
		if (rlx_npy_write(path, &v.type, v.data, &err))
			return tool_fail("run", TOOL_FAILED, "%s", err.text);
	}
	return TOOL_OK;
}

/* The worst element of a comparison; @bad of them are outside the tolerance. */
struct worst {
	int64_t	at, bad;
	double	have, want, over;	/* over: error by what is allowed */
};

static struct worst compare(const struct rlx_tensor *a, const struct rlx_tensor *b,
			    double rtol, double atol)
{
	struct worst w = { .over = -1 };
	int64_t n = rlx_type_count(&a->type), i;

	for (i = 0; i < n; i++) {
		double x = el_get(a, i), y = el_get(b, i), over;
		double room = atol + rtol * fabs(y);

		if (x == y || (isnan(x) && isnan(y)))
			over = 0;
		else if (!isfinite(x) || !isfinite(y))
			over = INFINITY;
		else
			over = room > 0 ? fabs(x - y) / room : INFINITY;
		w.bad += over > 1;
		if (over > w.over)
			w = (struct worst){ i, w.bad, x, y, over };
	}
	return w;
}

static int check_one(const struct rlx_named_tensor *v, const struct rlx_npy *f,
		     const struct run_args *a, struct out *o)
{
	struct rlx_tensor have = { v->type, (void *)(uintptr_t)v->data };
	struct rlx_tensor want = { *rlx_npy_type(f),
				   (void *)(uintptr_t)rlx_npy_data(f) };
	struct rlx_type as = want.type;
	char x[96], y[96], text[300];
	struct worst w;

	as.dtype = have.type.dtype;	/* an f16 result against f32 truth is fine */
	rlx_type_print(&have.type, x, sizeof(x));
	rlx_type_print(&want.type, y, sizeof(y));
	if (!rlx_type_equal(&as, &have.type)) {
		snprintf(text, sizeof(text), "is %s, expected %s", x, y);
		out_named(o, v->name, text);
		return TOOL_MISMATCH;
	}
	w = compare(&have, &want, a->rtol, a->atol);
	if (w.bad)
		snprintf(text, sizeof(text),
			 "%lld elements differ; the worst is %lld: %.9g, expected %.9g",
			 (long long)w.bad, (long long)w.at, w.have, w.want);
	else
		snprintf(text, sizeof(text), "as expected (at most %.3g of what is allowed)",
			 w.over > 0 ? w.over : 0.0);
	out_named(o, v->name, text);
	return w.bad ? TOOL_MISMATCH : TOOL_OK;
}

static int check_outputs(const struct subject *s, const struct run_args *a,
			 struct out *o)
{
	struct rlx_error err = { 0 };
	struct rlx_named_tensor v;
	struct rlx_npy *f;
	const char *path;
	int rc = TOOL_OK, one;
	unsigned int i;

	for (i = 0; i < a->expect.n; i++) {
		if (!find_output(s, a->expect.v[i], &v, &path))
			return no_output(s, "expect", a->expect.v[i]);
		if (rlx_npy_open(path, &f, &err))
			return tool_fail("run", TOOL_FAILED, "%s", err.text);
		one = check_one(&v, f, a, o);
		rlx_npy_close(f);
		rc = one ? one : rc;
	}
	return rc;
}

static void print_program(const struct subject *s, struct out *o, double ms)
{
	struct rlx_program_info p;

	out_section(o, "program");
	if (s->session) {
		rlx_program_info(rlx_session_program(s->session), &p);
		out_str(o, "device", p.device);
		out_str(o, "isa", p.isa);
		out_int(o, "threads", p.threads);
		out_int(o, "steps", p.steps);
		out_int(o, "steps_on_host", p.host);
		out_bytes(o, "workspace", p.work_bytes);
		out_num(o, "compile_ms", (double)p.compile_ns * 1e-6, 1, "");
	} else {
		out_str(o, "stages", "several: a size depends on computed data");
	}
	out_num(o, "best_run_ms", ms, 3, "");
	out_section_end(o);
}

static void value_text(const struct rlx_inspected *v, char *text, size_t size)
{
	char type[96], file[160] = "";

	rlx_type_print(&v->type, type, sizeof(type));
	if (v->line)
		snprintf(file, sizeof(file), ", %s:%u", v->file, v->line);
	snprintf(text, size, "%s%s%s %s  absmax %.6g  nonzero %lld/%lld%s", v->op,
		 v->name ? " " : "", v->name ? v->name : "", type, v->absmax,
		 (long long)v->nonzero, (long long)v->count, file);
}

static bool is_bad(const struct rlx_inspected *v, uint32_t flags)
{
	return v->nan || (flags & RLX_INSPECT_INF && v->inf);
}

/* Element @at, and how often there is its like. */
static void put_bad(struct out *o, const char *key, int64_t n, int64_t at)
{
	char text[96];

	if (!n)
		return;
	snprintf(text, sizeof(text), "%lld, the first is element %lld", (long long)n,
		 (long long)at);
	out_named(o, key, text);
}

static void put_value(struct out *o, const struct rlx_inspected *v)
{
	char key[16], text[400];

	snprintf(key, sizeof(key), "%%%u", v->id);
	value_text(v, text, sizeof(text));
	out_named(o, key, text);
}

/* The first values of all, and element @at of each that has so many. */
static void put_values(struct out *o, const struct rlx_inspection *all, const struct run_args *a)
{
	const struct rlx_inspected *v;
	char key[32], text[64];
	unsigned int i;

	out_section(o, "values");
	for (i = 0; i < a->values && (v = rlx_inspection_at(all, i)); i++) {
		struct rlx_tensor t = { v->type, (void *)(uintptr_t)v->data };

		put_value(o, v);
		if (!v->data || a->at >= (uint64_t)v->count)
			continue;
		snprintf(key, sizeof(key), "%%%u[%llu]", v->id, (unsigned long long)a->at);
		snprintf(text, sizeof(text), "%.9g", el_get(&t, (int64_t)a->at));
		out_named(o, key, text);
	}
	out_section_end(o);
}

/* Bad values computed of bad ones, behind the first, which is @v. A few are told. */
static void put_heirs(struct out *o, const struct rlx_inspection *all,
		      const struct rlx_inspected *v, uint32_t flags)
{
	enum { MOST = 3 };
	const struct rlx_inspected *w;
	unsigned int i, k;
	int64_t n = 0;

	out_section(o, "passed_on_to");
	for (i = v->id; (w = rlx_inspection_at(all, i)); i++) {
		for (k = 0; k < w->n_in && !(w->in[k] && is_bad(w->in[k], flags)); k++)
			;
		if (k < w->n_in && is_bad(w, flags) && n++ < MOST)
			put_value(o, w);
	}
	out_int(o, "values", n);
	out_section_end(o);
}

/* A bad value in section @name; of a body, in which of its calls. */
static void put_bad_value(struct out *o, const char *name, const struct rlx_inspected *v,
			  int64_t iteration)
{
	out_section(o, name);
	put_value(o, v);
	put_bad(o, "nan", v->nan, v->first_nan);
	put_bad(o, "inf", v->inf, v->first_inf);
	if (iteration >= 0)
		out_int(o, "iteration", iteration);
	out_section_end(o);
}

/*
 * The first value that is NaN or infinite, where that comes from in bodies of control flow, and
 * what its op took.
 */
static int put_first_bad(struct out *o, struct rlx_inspection *all)
{
	const struct rlx_inspected *v = rlx_inspection_first_bad(all, 0), *in;
	uint32_t flags = v ? 0 : RLX_INSPECT_INF;
	struct rlx_error err = { 0 };
	unsigned int depth, i, k;
	int64_t iteration;
	char name[24];

	v = v ? v : rlx_inspection_first_bad(all, flags);
	if (!v) {
		out_section(o, "first_bad");
		out_str(o, "none", "all values are finite");
		out_section_end(o);
		return TOOL_OK;
	}
	put_bad_value(o, "first_bad", v, -1);
	put_heirs(o, all, v, flags);
	for (depth = 1;; depth++, v = in) {
		if (rlx_inspection_inside(all, v, flags, &in, &iteration, &err))
			return tool_fail("run", TOOL_FAILED, "%s", err.text);
		if (!in)
			break;
		snprintf(name, sizeof(name), "inside_%u", depth);
		put_bad_value(o, name, in, iteration);
	}
	out_section(o, "computed_of");
	for (k = 0; k < v->n_in; k++) {
		for (i = 0; i < k && (!v->in[i] || !v->in[k] || v->in[i]->id != v->in[k]->id); i++)
			;
		if (v->in[k] && i == k)		/* each once, as names in JSON are */
			put_value(o, v->in[k]);
	}
	out_section_end(o);
	return TOOL_MISMATCH;
}

static int inspect(const struct subject *s, const struct run_args *a, struct out *o)
{
	struct rlx_inspection *all;
	struct rlx_error err = { 0 };
	int rc = TOOL_OK;

	if (!a->nan && !a->values)
		return TOOL_OK;
	if (!s->session)
		return tool_fail("run", TOOL_FAILED, "%s: a size depends on computed data, so "
				 "there are several programs; --nan and --values take one",
				 s->path);
	if (rlx_session_inspect(s->session, &all, &err))
		return tool_fail("run", TOOL_FAILED, "%s", err.text);
	if (a->values)
		put_values(o, all, a);
	if (a->nan)
		rc = put_first_bad(o, all);
	rlx_inspection_free(all);
	return rc;
}

static int run(struct subject *s, const struct run_args *a)
{
	struct rlx_error err = { 0 };
	struct rlx_named_tensor v;
	double best = INFINITY, t;
	struct out o;
	uint64_t k;
	unsigned int i;
	int rc, bad;

	for (k = 0; k < a->repeat; k++) {
		t = now();
		if (subject_run(s, &err))
			return tool_fail("run", TOOL_FAILED, "%s", err.text);
		t = now() - t;
		best = t < best ? t : best;
	}
	out_begin(&o, a->json);
	print_program(s, &o, best * 1e3);
	out_section(&o, "inputs");
	for (i = 0; i < s->n_in; i++)
		print_tensor(&o, &s->in[i]);
	out_section_end(&o);
	out_section(&o, "outputs");
	for (i = 0; i < subject_outputs(s); i++)
		if (subject_output(s, i, &v))
			print_tensor(&o, &v);
	out_section_end(&o);
	bad = inspect(s, a, &o);
	rc = write_outputs(s, &a->output);
	if (!rc && a->expect.n) {
		out_section(&o, "expected");
		rc = check_outputs(s, a, &o);
		out_section_end(&o);
	}
	if (!out_end(&o))
		return tool_fail("run", TOOL_FAILED, "cannot write to standard output");
	return rc ? rc : bad;
}

int cmd_run(int argc, char **argv)
{
	struct run_args a = { .m = { .seed = 1 }, .rtol = 1e-4, .atol = 1e-5, .repeat = 1,
			      .at = UINT64_MAX };
	struct arg_list rest = { 0 };
	const struct arg arg[] = {
		SUBJECT_ARGS(&a.m),
		{ "threads", ARG_UINT, &a.m.threads, "N", "0: all allowed (default)" },
		{ "output", ARG_LIST, &a.output, "NAME=FILE", "write an output as .npy" },
		{ "expect", ARG_LIST, &a.expect, "NAME=FILE", "compare an output with a .npy" },
		{ "rtol", ARG_NUM, &a.rtol, "X", "allowed: atol + rtol |expected| (1e-4)" },
		{ "atol", ARG_NUM, &a.atol, "X", "(1e-5)" },
		{ "nan", ARG_FLAG, &a.nan, NULL,
		  "the first value with NaN, or else infinity: its op and inputs, in bodies too" },
		{ "values", ARG_UINT, &a.values, "N", "tell of the first N values (rlx dump)" },
		{ "at", ARG_UINT, &a.at, "I", "and element I of each, by their order in memory" },
		{ "repeat", ARG_UINT, &a.repeat, "N", "runs; the best time is told (1)" },
		{ "json", ARG_FLAG, &a.json, NULL, "print JSON" },
	};
	const struct args args = {
		"run", "MODEL [OPTION ...]",
		"Runs a model on given or generated inputs and tells what came out.",
		arg, N_ELEM(arg), SUBJECT_MORE, &rest, 1, 1,
		.mismatch = "--expect or --nan found something",
	};
	struct subject s = { .cmd = "run" };
	int rc;

	if (!args_parse(&args, argc, argv, &rc))
		goto out_free;
	if (!a.repeat)
		rc = tool_fail("run", TOOL_USAGE, "--repeat must be at least 1");
	if (a.at != UINT64_MAX && !a.values)
		rc = tool_fail("run", TOOL_USAGE, "--at is an element of the values that --values "
			       "N tells of: give both");
	if (a.rtol < 0 || a.atol < 0)
		rc = tool_fail("run", TOOL_USAGE, "--rtol and --atol are 0 or more");
	rc = rc ? rc : subject_open(&s, "run", rest.v[0]);
	rc = rc ? rc : subject_inputs(&s, &a.m);
	rc = rc ? rc : subject_compile(&s, &a.m, (struct rlx_compile_opts){ 0 });
	rc = rc ? rc : run(&s, &a);
out_free:
	subject_close(&s);
	arg_list_free(&rest);
	subject_args_free(&a.m);
	arg_list_free(&a.output);
	arg_list_free(&a.expect);
	return rc;
}
