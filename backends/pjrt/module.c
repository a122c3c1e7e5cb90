// SPDX-License-Identifier: MIT
/* A module: steps as one function of StableHLO, what it takes and gives, and its compilation. */
#include <stdio.h>
#include <string.h>

#include "backends/pjrt/pjrt.h"
#include "base/alloc.h"
#include "ir/element.h"

enum { INLINE_ELEMENTS = 16 };	/* constants of so many are part of the text */

/*
 * @now: by roots of storage, what is there; none: what was there before. @wrote: 1 + the step
 * that wrote it
 */
struct writer {
	struct hlo_emit		 e;
	struct pjrt_code	*c;
	const struct rlx_plan	*p;
	struct pjrt_module	*m;
	struct hlo		*now;
	uint32_t		*wrote;
	uint32_t		*arg;		/* ids of the module's inputs */
	struct hlo		*check;		/* two for each of the module's */
	uint32_t		 cap_arg, cap_check;
	struct rlx_error	*err;
};

static enum rlx_status out_of_memory(struct rlx_error *err)
{
	return rlx_fail(err, RLX_ENOMEM, "pjrt: out of memory compiling");
}

/* ---- what comes in ---- */

static struct hlo inlined(struct writer *w, const struct rlx_plan_val *v)
{
	const struct rlx_tensor x = { v->type, (char *)(uintptr_t)rlx_host_contents(
			&w->c->base, w->p->constant[v->place.index]) + v->place.offset };
	struct hlo_type t = hlo_type(&v->type);
	double f[INLINE_ELEMENTS];
	int64_t n = hlo_count(&t), i, k[INLINE_ELEMENTS];
	struct hlo y;

	if (n == 1)
		return el_is_int(t.dtype) ? hlo_integer(&w->e, &t, el_geti(&x, 0)) :
		       hlo_number(&w->e, &t, el_get(&x, 0));
	for (i = 0; i < n; i++) {
		f[i] = el_get(&x, i);
		k[i] = el_is_int(t.dtype) ? el_geti(&x, i) : 0;
	}
	y = el_is_int(t.dtype) ? hlo_convert(&w->e, hlo_indices(&w->e, k, n), t.dtype) :
	    hlo_vector(&w->e, t.dtype, f, n);
	return hlo_reshape(&w->e, y, &t);
}

static bool is_inlined(const struct rlx_plan_val *v)
{
	int64_t n = rlx_type_count(&v->type);

	return v->place.kind == RLX_PLACE_CONST && n && n <= INLINE_ELEMENTS &&
	       v->type.dtype != RLX_C64 && v->type.dtype != RLX_BOOL &&
	       (!rlx_dtype_is_float(v->type.dtype) || rlx_dtype_size(v->type.dtype) > 1);
}

static struct hlo argument(struct writer *w, uint32_t v)
{
	struct pjrt_module *m = w->m;
	struct hlo x = { ++w->e.last, hlo_type(&w->p->val[v].type) };

	if (!rlx_grow(&m->in, &m->cap_in, m->n_in + 1, sizeof(*m->in)) ||
	    !rlx_grow(&w->arg, &w->cap_arg, m->n_in + 1, sizeof(*w->arg))) {
		w->e.text.failed = true;
		return x;
	}
	w->arg[m->n_in] = x.id;
	m->in[m->n_in++] = v;
	return x;
}

/*
 * Value @v, which may be a view of what is in its storage. What comes in has the type of that, for
 * params and constants have one buffer for all modules.
 */
static struct hlo read_value(struct writer *w, uint32_t v)
{
	const struct rlx_plan_val *is = &w->p->val[v];
	struct hlo *now = &w->now[is->root];
	struct hlo_type t = hlo_type(&is->type);

	if (!v)
		return (struct hlo){ 0 };
	if (!now->id)
		*now = is_inlined(is) ? inlined(w, is) : argument(w, is->root);
	return hlo_view(&w->e, *now, &t);
}

/* ---- steps ---- */

static bool add_check(struct writer *w, uint32_t step)
{
	struct pjrt_module *m = w->m;

	if (!w->e.bad.id)
		return true;
	if (!rlx_grow(&m->check, &m->cap_check, m->n_check + 1, sizeof(*m->check)) ||
	    !rlx_grow(&w->check, &w->cap_check, 2 * m->n_check + 2, sizeof(*w->check)))
		return false;
	w->check[2 * m->n_check] = w->e.bad;
	w->check[2 * m->n_check + 1] = w->e.each_bad;
	m->check[m->n_check++] = (struct pjrt_check){ step, w->e.each_bad.t.dim[0] };
	return true;
}

static enum rlx_status write_step(struct writer *w, uint32_t s)
{
	const struct rlx_plan_step *st = &w->p->step[s];
	struct hlo_emit *e = &w->e;
	uint32_t k;

	e->def = st->def;
	e->args = st->args;
	e->n_in = st->n_in;
	e->n_out = st->n_out;
	e->why = NULL;
	for (k = 0; k < st->n_in; k++)
		e->in[k] = read_value(w, st->in[k]);
	for (k = 0; k < st->n_out; k++)
		e->type[k] = w->p->val[st->out[k]].type;
	if (!st->def) {		/* a copy of bytes */
		struct hlo_type t = hlo_type(&e->type[0]);

		e->out[0] = hlo_view(e, e->in[0], &t);
	} else if (!hlo_step(e)) {
		return rlx_error_set(w->err, RLX_EBUG, st->file, st->line, "pjrt: %s: %s",
				     st->def->name, e->why);
	} else if (!add_check(w, s)) {
		return out_of_memory(w->err);
	}
	for (k = 0; k < st->n_out; k++) {
		w->now[w->p->val[st->out[k]].root] = e->out[k];
		w->wrote[w->p->val[st->out[k]].root] = s + 1;
	}
	return e->text.failed ? out_of_memory(w->err) : RLX_OK;
}

/* ---- what goes out ---- */

/*
 * Does anybody else read what is in storage @root behind the module? Of the steps from its first
 * to its last, those that run as often as it are all its own.
 */
static bool is_wanted(const struct writer *w, uint32_t root)
{
	const struct rlx_plan *p = w->p;
	const uint32_t first = w->m->step[0], last = w->m->step[w->m->n_step - 1];
	const bool once = p->step[first].once;

	if (p->val[root].place.kind != RLX_PLACE_WORK)
		return p->val[root].place.kind != RLX_PLACE_NONE;
	return p->val[root].persistent || w->c->reader[once][root] > last + 1 ||
	       w->c->reader[!once][root] > first;
}

static enum rlx_status list_results(struct writer *w)
{
	struct pjrt_module *m = w->m;
	uint32_t i, k, n;

	for (i = 0; i < m->n_step; i++) {
		const struct rlx_plan_step *st = &w->p->step[m->step[i]];

		for (k = 0; k < st->n_out; k++) {
			uint32_t root = w->p->val[st->out[k]].root;

			if (w->wrote[root] != m->step[i] + 1 || !is_wanted(w, root))
				continue;
			n = m->n_out + 1;
			if (!rlx_grow(&m->out, &m->cap_out, n, sizeof(*m->out)) ||
			    !rlx_grow(&m->writer, &m->cap_writer, n, sizeof(*m->writer)))
				return out_of_memory(w->err);
			m->out[m->n_out] = st->out[k];
			m->writer[m->n_out++] = m->step[i];
			w->wrote[root] = 0;
		}
	}
	return RLX_OK;
}

static struct hlo result(const struct writer *w, uint32_t i)
{
	return i < w->m->n_out ? w->now[w->p->val[w->m->out[i]].root] :
	       w->check[i - w->m->n_out];
}

/* The function around what was written */
static char *put_together(struct writer *w)
{
	const uint32_t n = w->m->n_out + 2 * w->m->n_check;
	struct hlo_text t = { 0 };
	uint32_t i;

	hlo_put(&t, "module @rlx {\nfunc.func public @main(");
	for (i = 0; i < w->m->n_in; i++) {
		struct hlo_type in = hlo_type(&w->p->val[w->m->in[i]].type);

		hlo_put(&t, "%s%%%u: ", i ? ", " : "", w->arg[i]);
		hlo_put_type(&t, &in);
	}
	hlo_put(&t, ") -> (");
	for (i = 0; i < n; i++) {
		struct hlo r = result(w, i);

		hlo_put(&t, "%s", i ? ", " : "");
		hlo_put_type(&t, &r.t);
	}
	hlo_put(&t, ") {\n");
	hlo_put_text(&t, &w->e.text);
	hlo_put(&t, "  return ");
	for (i = 0; i < n; i++)
		hlo_put(&t, "%s%%%u", i ? ", " : "", result(w, i).id);
	hlo_put(&t, "%s", n ? " : " : "");
	for (i = 0; i < n; i++) {
		struct hlo r = result(w, i);

		hlo_put(&t, "%s", i ? ", " : "");
		hlo_put_type(&t, &r.t);
	}
	hlo_put(&t, "\n}\n}\n");
	if (t.failed) {
		rlx_free(t.p);
		return NULL;
	}
	return t.p;
}

enum rlx_status pjrt_module_text(struct pjrt_code *c, struct pjrt_module *m, char **out,
				 struct rlx_error *err)
{
	struct writer *w = rlx_calloc(1, sizeof(*w));
	enum rlx_status st = RLX_OK;
	uint32_t i;

	*out = NULL;
	if (!w)
		return out_of_memory(err);
	w->c = c;
	w->m = m;
	w->p = c->base.plan;
	w->err = err;
	w->now = rlx_calloc(w->p->n_val, sizeof(*w->now));
	w->wrote = rlx_calloc(w->p->n_val, sizeof(*w->wrote));
	if (!w->now || !w->wrote)
		st = out_of_memory(err);
	for (i = 0; i < m->n_step && !st; i++)
		st = write_step(w, m->step[i]);
	if (!st)
		st = list_results(w);
	if (!st)
		*out = put_together(w);
	if (!st && !*out)
		st = out_of_memory(err);
	rlx_free(w->e.text.p);
	rlx_free(w->now);
	rlx_free(w->wrote);
	rlx_free(w->arg);
	rlx_free(w->check);
	rlx_free(w);
	return st;
}

/* ---- compiling ---- */

/* CompileOptionsProto: executable_build_options: one replica, one partition, any device */
static const unsigned char options[] = {
	0x1a, 0x0f, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
	0x20, 0x01, 0x28, 0x01,
};

/* Of a module of one step its op and node */
static void name_module(const struct rlx_plan *p, const struct pjrt_module *m, char *out,
			size_t size)
{
	const struct rlx_plan_step *st = &p->step[m->step[0]];

	if (m->n_step == 1)
		snprintf(out, size, "compiling %s (node %u)", st->def ? st->def->name : "a copy",
			 st->node);
	else
		snprintf(out, size, "compiling %u steps from %s (node %u) on", m->n_step,
			 st->def ? st->def->name : "a copy", st->node);
}

static enum rlx_status compile_text(struct pjrt_code *c, struct pjrt_module *m, const char *text,
				    struct rlx_error *err)
{
	const struct pjrt_plugin *p = pjrt_plugin_of(&c->base);
	struct pjrt_program program = {
		.head = PJRT_HEAD(program, format_size), .code = text, .code_size = strlen(text),
		.format = "mlir", .format_size = 4,
	};
	struct pjrt_compile a = {
		.head = PJRT_HEAD(a, out), .client = p->client, .program = &program,
		.options = (const char *)options, .options_size = sizeof(options),
	};
	const struct rlx_plan_step *at = &c->base.plan->step[m->step[0]];
	char what[128];
	enum rlx_status st;

	name_module(c->base.plan, m, what, sizeof(what));
	st = pjrt_call(p, PJRT_CLIENT_COMPILE, &a, what, err);
	if (st && err && at->file) {
		err->file = at->file;
		err->line = at->line;
		err->node = at->node;
	}
	m->program = a.out;
	return st;
}

/* The one step that the plugin does not take, if it is one, has its name in @err. */
static void find_culprit(struct pjrt_code *c, const struct pjrt_module *m, struct rlx_error *err)
{
	struct rlx_error why = { 0 };
	uint32_t i;

	for (i = 0; i < m->n_step && m->n_step > 1 && !why.status; i++) {
		struct pjrt_module one = { .step = &m->step[i], .n_step = 1 };

		if (pjrt_module_compile(c, &one, &why))
			*err = why;
		one.step = NULL;
		pjrt_module_free(c, &one);
	}
}

enum rlx_status pjrt_module_compile(struct pjrt_code *c, struct pjrt_module *m,
				    struct rlx_error *err)
{
	char *text;
	enum rlx_status st = pjrt_module_text(c, m, &text, err);

	if (!st && m->n_out)
		st = compile_text(c, m, text, err);
	rlx_free(text);
	if (st && st != RLX_ENOMEM)
		find_culprit(c, m, err);
	return st;
}

void pjrt_module_free(struct pjrt_code *c, struct pjrt_module *m)
{
	pjrt_destroy(pjrt_plugin_of(&c->base), PJRT_LOADED_DESTROY, m->program);
	rlx_free(m->step);
	rlx_free(m->in);
	rlx_free(m->out);
	rlx_free(m->writer);
	rlx_free(m->check);
}
