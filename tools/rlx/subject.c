// SPDX-License-Identifier: MIT
/* A model or graph file: opened, compiled, run, its outputs. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/format.h"
#include "model/model.h"
#include "rlx/aot.h"
#include "tools/rlx/subject.h"

static int told(const struct subject *s, enum rlx_status st, const struct rlx_error *err)
{
	/* the library's message of a file begins with its path */
	if (err->status && !strncmp(err->text, s->path, strlen(s->path)))
		return tool_fail(s->cmd, TOOL_FAILED, "%s", err->text);
	return tool_fail(s->cmd, TOOL_FAILED, "%s: %s", s->path,
			 err->status ? err->text : rlx_status_name(st));
}

/* The graph tells what there is to fill in; the program comes with the options. */
static enum rlx_status open_plan(struct subject *s, struct rlx_error *err)
{
	struct rlx_load_opts o = { .size = sizeof(o), .threads = 1 };
	struct rlx_program *p;
	enum rlx_status st = rlx_program_load(s->path, &o, &p, err);

	if (st)
		return st;
	s->graph = rlx_graph_get((struct rlx_graph *)(uintptr_t)rlx_program_graph(p));
	s->plan = true;
	rlx_program_put(p);
	return RLX_OK;
}

/* Of a graph as it was written params and states are filled in, too, as a model's are not. */
int subject_open(struct subject *s, const char *cmd, const char *path)
{
	const struct rlx_model_format *format;
	struct rlx_error err = { 0 };
	enum rlx_status st;

	*s = (struct subject){ .cmd = cmd, .path = path };
	format = rlx_format_find(path, &err);
	if (!format)
		st = err.status;
	else if (format == &rlx_format_plan)
		st = open_plan(s, &err);
	else if (format == &rlx_format_text)
		st = rlx_text_file_graph(path, &s->graph, &err);
	else
		st = rlx_model_open(path, &s->model, &err);
	return st ? told(s, st, &err) : TOOL_OK;
}

/* What was decided when a plan file was written cannot be asked for any more. */
static enum rlx_status load_plan(const struct subject *s, const struct rlx_compile_opts *o,
				 struct rlx_program **out, struct rlx_error *err)
{
	struct rlx_load_opts l = { .size = sizeof(l), .device = o->device, .threads = o->threads };

	if (o->precision || o->flags)
		return rlx_fail(err, RLX_EINVAL, "a plan file is compiled already: give precision, "
				"passes and the like to rlx compile, and a model file to what weighs "
				"kernels");
	return rlx_program_load(s->path, &l, out, err);
}

static enum rlx_status compile_graph(struct subject *s,
				     const struct rlx_compile_opts *o,
				     struct rlx_error *err)
{
	unsigned int n = rlx_graph_io_count(s->graph, RLX_IO_INPUT), i;
	struct rlx_program *p;
	enum rlx_status st = s->plan ? load_plan(s, o, &p, err) : rlx_compile(s->graph, o, &p, err);

	if (st)
		return st;
	st = rlx_session_new(p, NULL, &s->session, err);
	rlx_program_put(p);
	s->own_session = !st;
	for (i = 0; !st && i < s->n_in; i++) {
		st = rlx_session_set(s->session, i < n ? RLX_IO_INPUT : RLX_IO_PARAM,
				     s->in[i].name, s->in[i].type, s->in[i].data);
		if (st)
			*err = *rlx_session_error(s->session);
	}
	return st;
}

void subject_options(struct rlx_compile_opts *o, const struct subject_args *a)
{
	o->size = sizeof(*o);
	o->device = a->device;
	o->threads = a->threads > UINT32_MAX ? UINT32_MAX : (unsigned int)a->threads;
	o->precision = (enum rlx_precision)a->precision;
	o->flags |= (a->no_fuse ? RLX_COMPILE_NO_FUSE : 0) |
		    (a->no_simplify ? RLX_COMPILE_NO_SIMPLIFY : 0) |
		    (a->native ? RLX_COMPILE_NATIVE : 0) |
		    (a->strict_bits ? RLX_COMPILE_STRICT_BITS : 0);
}

int subject_program(struct subject *s, const struct subject_args *a,
		    struct rlx_compile_opts o)
{
	struct rlx_error err = { 0 };
	enum rlx_status st;

	subject_options(&o, a);
	if (s->graph) {
		st = compile_graph(s, &o, &err);
		return st ? told(s, st, &err) : TOOL_OK;
	}
	st = rlx_runner_new(s->model, &o, &s->runner, &err);
	if (st)
		return told(s, st, &err);
	s->session = rlx_runner_session(s->runner, s->in, s->n_in, &err);
	return s->session ? TOOL_OK : told(s, err.status, &err);
}

int subject_compile(struct subject *s, const struct subject_args *a,
		    struct rlx_compile_opts o)
{
	struct rlx_error err = { 0 };
	enum rlx_status st;

	subject_options(&o, a);
	if (s->graph) {
		st = compile_graph(s, &o, &err);
		if (!st)
			st = subject_run(s, &err);
		return st ? told(s, st, &err) : TOOL_OK;
	}
	st = rlx_runner_new(s->model, &o, &s->runner, &err);
	if (!st)
		st = rlx_runner_run(s->runner, s->in, s->n_in, &err);
	if (st)
		return told(s, st, &err);
	/* none: it takes several stages, and the runner runs them */
	s->session = rlx_runner_session(s->runner, s->in, s->n_in, NULL);
	return TOOL_OK;
}

void subject_drop(struct subject *s)
{
	if (s->own_session)
		rlx_session_free(s->session);
	s->session = NULL;
	s->own_session = false;
	rlx_runner_free(s->runner);
	s->runner = NULL;
}

void subject_close(struct subject *s)
{
	unsigned int i;

	subject_drop(s);
	for (i = 0; i < s->n_in; i++) {
		if (s->npy)
			rlx_npy_close(s->npy[i]);
		if (s->own)
			rlx_free(s->own[i]);
	}
	rlx_free(s->npy);
	rlx_free(s->own);
	rlx_free(s->in);
	rlx_model_put(s->model);
	rlx_graph_put(s->graph);
	*s = (struct subject){ .cmd = s->cmd, .path = s->path };
}

enum rlx_status subject_run(struct subject *s, struct rlx_error *err)
{
	enum rlx_status st;

	if (!s->session)
		return rlx_runner_run(s->runner, s->in, s->n_in, err);
	st = rlx_session_run(s->session);
	if (st)
		*err = *rlx_session_error(s->session);
	return st;
}

unsigned int subject_outputs(const struct subject *s)
{
	return s->own_session ?
	       rlx_program_io_count(rlx_session_program(s->session), RLX_IO_OUTPUT) :
	       rlx_runner_output_count(s->runner);
}

bool subject_output(const struct subject *s, unsigned int i,
		    struct rlx_named_tensor *out)
{
	struct rlx_program *p;

	if (!s->own_session)
		return rlx_runner_output(s->runner, i, out);
	p = rlx_session_program(s->session);
	if (i >= subject_outputs(s))
		return false;
	out->name = rlx_program_io_name(p, RLX_IO_OUTPUT, i);
	out->type = *rlx_program_io_type(p, RLX_IO_OUTPUT, i);
	out->data = rlx_buf_ptr(rlx_session_buf(s->session, RLX_IO_OUTPUT, out->name));
	return true;
}
