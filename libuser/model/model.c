// SPDX-License-Identifier: MIT
/* An opened model file: what it declares, and its graph for given inputs. */
#include <string.h>

#include "base/alloc.h"
#include "base/bump.h"
#include "model/mapped.h"
#include "model/model.h"

static char *copy_str(struct rlx_model *m, struct onnx_str s)
{
	return rlx_bump_str(m->bump, s.n ? s.p : "", s.n);
}

static bool describe(struct rlx_model *m, const struct onnx_value_info *v,
		     struct rlx_model_io *io)
{
	const struct onnx_tensor_type *t = v->type ? v->type->tensor : NULL;
	size_t d;

	*io = (struct rlx_model_io){ .name = copy_str(m, v->name), .rank = -1 };
	if (!io->name)
		return false;
	if (!t)
		return true;
	io->dtype = onnx_dtype_to_rlx(t->elem);
	if (!t->shape || t->shape->ndims > RLX_MAX_RANK)
		return true;
	io->rank = (int)t->shape->ndims;
	for (d = 0; d < t->shape->ndims; d++) {
		const struct onnx_dim *dim = &t->shape->dims[d];

		io->dim[d] = dim->has & ONNX_DIM_VALUE && dim->value >= 0 ? dim->value : -1;
		io->dim_name[d] = dim->has & ONNX_DIM_PARAM ? copy_str(m, dim->param) : "";
		if (!io->dim_name[d])
			return false;
	}
	return true;
}

static bool has_default(const struct onnx_graph *g, struct onnx_str name)
{
	size_t i;

	for (i = 0; i < g->ninitializers; i++)
		if (onnx_str_eq(g->initializers[i].name, name))
			return true;
	return false;
}

static bool describe_all(struct rlx_model *m, const struct onnx_graph *g)
{
	size_t i;

	m->io[0] = rlx_bump_new(m->bump, g->ninputs + 1, sizeof(*m->io[0]));
	m->io[1] = rlx_bump_new(m->bump, g->noutputs + 1, sizeof(*m->io[1]));
	if (!m->io[0] || !m->io[1])
		return false;
	for (i = 0; i < g->ninputs; i++)
		if (!has_default(g, g->inputs[i].name) &&
		    !describe(m, &g->inputs[i], &m->io[0][m->n_io[0]++]))
			return false;
	for (i = 0; i < g->noutputs; i++)
		if (!describe(m, &g->outputs[i], &m->io[1][m->n_io[1]++]))
			return false;
	return true;
}

enum rlx_status rlx_model_open(const char *path, struct rlx_model **out,
			       struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct rlx_model *m;
	enum rlx_status st;

	err = err ? err : &own;
	if (!path || !out)
		return rlx_fail(err, RLX_EINVAL, "model: a path and a place for it are needed");
	*out = NULL;
	m = rlx_calloc(1, sizeof(*m));
	if (!m)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	atomic_init(&m->refs, 1);
	m->bump = rlx_calloc(1, sizeof(*m->bump));
	st = m->bump ? onnx_open(path, ONNX_ROOT_MODEL, &m->file, err) : RLX_ENOMEM;
	if (!st && !describe_all(m, onnx_file_model(m->file)->graph))
		st = RLX_ENOMEM;
	if (st) {
		rlx_fail(err, st, "%s: out of memory", path);
		rlx_model_put(m);
		return st;
	}
	*out = m;
	return RLX_OK;
}

const struct rlx_file *rlx_model_mapped(const struct rlx_model *m, unsigned int i)
{
	return onnx_file_mapped(m->file, i);
}

struct rlx_model *rlx_model_get(struct rlx_model *m)
{
	if (m)
		atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
	return m;
}

void rlx_model_put(struct rlx_model *m)
{
	if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
		return;
	onnx_put(m->file);
	if (m->bump)
		rlx_bump_fini(m->bump);
	rlx_free(m->bump);
	rlx_free(m);
}

static int side(enum rlx_io io)
{
	return io == RLX_IO_INPUT ? 0 : io == RLX_IO_OUTPUT ? 1 : -1;
}

unsigned int rlx_model_io_count(const struct rlx_model *m, enum rlx_io io)
{
	return m && side(io) >= 0 ? m->n_io[side(io)] : 0;
}

bool rlx_model_io_at(const struct rlx_model *m, enum rlx_io io, unsigned int i,
		     struct rlx_model_io *out)
{
	if (i >= rlx_model_io_count(m, io))
		return false;
	*out = m->io[side(io)][i];
	return true;
}

static enum rlx_status explain(const struct onnx_segment *seg,
			       const struct rlx_named_tensor *in, unsigned int n_in,
			       struct rlx_error *err)
{
	unsigned int i;

	for (i = 0; seg->need == ONNX_NEED_INPUTS && i < n_in && i < 64; i++)
		if (seg->inputs >> i & 1)
			return rlx_fail(err, RLX_EINVAL,
					"the graph depends on the contents of input '%s': give its data",
					in[i].name);
	return rlx_fail(err, RLX_ENOSUP,
			"a shape in this model depends on computed data: "
			"run it with rlx_runner_run()");
}

enum rlx_status rlx_model_graph(struct rlx_model *m, const struct rlx_named_tensor *in,
				unsigned int n_in, struct rlx_graph **out_g,
				struct rlx_error *err)
{
	struct onnx_instance want = { .n_spec = n_in };
	struct rlx_error own = { 0 };
	struct onnx_segment seg;
	struct onnx_spec *specs;
	enum rlx_status st;
	unsigned int i;

	err = err ? err : &own;
	if (!m || !out_g || (n_in && !in))
		return rlx_fail(err, RLX_EINVAL, "model graph: an argument is missing");
	*out_g = NULL;
	specs = rlx_calloc(n_in + 1, sizeof(*specs));
	if (!specs)
		return rlx_fail(err, RLX_ENOMEM, "model graph: out of memory");
	for (i = 0; i < n_in; i++)
		specs[i] = (struct onnx_spec){
			.kind = ONNX_TENSOR, .name = in[i].name ? in[i].name : "",
			.type = in[i].type, .data = in[i].data,
		};
	want.spec = specs;
	st = onnx_build(m->file, &want, &seg, err);
	rlx_free(specs);
	if (st)
		return st;
	if (seg.need == ONNX_NEED_NOTHING && seg.g)
		*out_g = rlx_graph_get(seg.g);
	else
		st = explain(&seg, in, n_in, err);
	onnx_segment_fini(&seg);
	return st;
}
