// SPDX-License-Identifier: MIT
/* Plan files as models: what one declares is what its program takes and gives, of one size. */
#include <string.h>

#include "base/alloc.h"
#include "base/bump.h"
#include "model/format.h"
#include "model/model.h"
#include "model/plan_file.h"

struct plan_model {
	struct rlx_plan_file	*file;
	struct plan_graphs	 graphs;
	char			*path;
};

static bool probe(const struct rlx_probe *p)
{
	return !p->folder && p->bytes >= sizeof(PLAN_MAGIC) - 1 &&
	       !memcmp(p->first, PLAN_MAGIC, sizeof(PLAN_MAGIC) - 1);
}

/* Its own values are a session's, of which whoever asks a model knows nothing. */
static enum rlx_status refuse_state(const struct rlx_graph *g, const char *path,
				    struct rlx_error *err)
{
	static const enum rlx_io kind[2] = { RLX_IO_PARAM, RLX_IO_STATE };
	int k;

	for (k = 0; k < 2; k++)
		if (rlx_graph_io_count(g, kind[k]))
			return rlx_fail(err, RLX_ENOSUP, "%s: its program has %s '%s', which "
					"a model cannot have: use rlx_program_load()", path,
					k ? "a state," : "a param,",
					rlx_graph_io_name(g, kind[k], 0));
	return RLX_OK;
}

static enum rlx_status open_file(struct rlx_model *m, const char *path, struct rlx_error *err)
{
	struct plan_model *p = rlx_bump_new(m->bump, 1, sizeof(*p));
	enum rlx_status st;

	if (!p)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	m->file = p;
	p->path = rlx_bump_str(m->bump, path, strlen(path));
	if (!p->path)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	st = rlx_plan_file_open(path, &p->file, err);
	if (!st)
		st = rlx_plan_file_fits(p->file, path, NULL, err);
	if (!st)
		st = rlx_plan_file_graphs(p->file, &p->graphs, err);
	if (!st)
		st = refuse_state(p->graphs.g[0], path, err);
	if (!st && !rlx_model_describe(m, p->graphs.g[0]))
		st = rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	return st;
}

static void close_file(struct rlx_model *m)
{
	struct plan_model *p = m->file;

	plan_graphs_fini(&p->graphs);
	rlx_plan_file_put(p->file);
}

static const struct rlx_file *mapped(const struct rlx_model *m, unsigned int i)
{
	const struct plan_model *p = m->file;

	return i ? NULL : &p->file->file;
}

static bool has_input(const struct rlx_graph *g, const char *name)
{
	unsigned int i, n = rlx_graph_io_count(g, RLX_IO_INPUT);

	for (i = 0; i < n; i++)
		if (!strcmp(rlx_graph_io_name(g, RLX_IO_INPUT, i), name))
			return true;
	return false;
}

/* All inputs, of the types that it was compiled for. */
static enum rlx_status check_inputs(const struct rlx_graph *g, const struct rlx_instance *want,
				    struct rlx_error *err)
{
	unsigned int n = rlx_graph_io_count(g, RLX_IO_INPUT), i, k;
	char have[96], need[96];

	for (i = 0; i < n; i++) {
		const char *name = rlx_graph_io_name(g, RLX_IO_INPUT, i);
		const struct rlx_type *t = rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_INPUT, i));

		for (k = 0; k < want->n_spec && strcmp(want->spec[k].name, name); k++)
			;
		if (k == want->n_spec)
			return rlx_fail(err, RLX_ENOENT, "plan file: input '%s' is missing", name);
		if (want->spec[k].kind == RLX_SPEC_TENSOR &&
		    rlx_type_equal(&want->spec[k].type, t))
			continue;
		rlx_type_print(&want->spec[k].type, have, sizeof(have));
		rlx_type_print(t, need, sizeof(need));
		return rlx_fail(err, RLX_ESHAPE, "plan file: input '%s' is %s, and was compiled "
				"for %s alone", name, have, need);
	}
	for (k = 0; k < want->n_spec; k++)
		if (!has_input(g, want->spec[k].name))
			return rlx_fail(err, RLX_ENOENT, "plan file: there is no input '%s'",
					want->spec[k].name);
	return RLX_OK;
}

static enum rlx_status build(struct rlx_model *m, const struct rlx_instance *want,
			     struct rlx_segment *seg, struct rlx_error *err)
{
	struct plan_model *p = m->file;
	enum rlx_status st;

	*seg = (struct rlx_segment){ .need = RLX_NEED_NOTHING };
	st = check_inputs(p->graphs.g[0], want, err);
	if (st)
		return st;
	seg->g = rlx_graph_get(p->graphs.g[0]);
	return rlx_segment_of_graph(m, seg, err);
}

static enum rlx_status program(struct rlx_model *m, const struct rlx_segment *seg,
			       const struct rlx_compile_opts *o, struct rlx_program **out,
			       struct rlx_error *err)
{
	struct plan_model *p = m->file;
	struct rlx_load_opts l = { .size = sizeof(l), .device = o->device, .threads = o->threads };

	(void)seg;	/* there is one */
	if (o->precision || o->flags)
		return rlx_fail(err, RLX_EINVAL, "%s: a plan file is compiled already: give "
				"precision and flags when it is made", p->path);
	return rlx_plan_file_program(p->file, p->path, &l, out, err);
}

static enum rlx_status verify(const struct rlx_model *m, struct rlx_error *err)
{
	const struct plan_model *p = m->file;

	return rlx_plan_file_verify(p->file, p->path, err);
}

const struct rlx_model_format rlx_format_plan = {
	.name = "plan file", .looks = "a file that rlx compile wrote",
	.probe = probe, .open = open_file, .close = close_file, .mapped = mapped, .build = build,
	.program = program, .verify = verify,
};
