// SPDX-License-Identifier: MIT
/* ONNX files as models: what they declare, and the segments of io/onnx/build.h. */
#include "base/bump.h"
#include "base/map.h"
#include "io/onnx/build.h"
#include "model/format.h"
#include "model/model.h"

static char *copy_str(struct rlx_model *m, struct rlx_str s)
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

/* The inputs that no initializer is a default of. */
static bool describe_inputs(struct rlx_model *m, const struct onnx_graph *g)
{
	struct rlx_map defaults = { 0 };
	bool ok = true;
	uint64_t v;
	size_t i;

	for (i = 0; ok && i < g->ninitializers; i++) {
		struct rlx_str s = g->initializers[i].name;

		ok = rlx_map_put(&defaults, s.n ? s.p : "", s.n, 1);
	}
	for (i = 0; ok && i < g->ninputs; i++) {
		struct rlx_str s = g->inputs[i].name;

		if (!rlx_map_get(&defaults, s.n ? s.p : "", s.n, &v))
			ok = describe(m, &g->inputs[i], &m->io[0][m->n_io[0]++]);
	}
	rlx_map_fini(&defaults);
	return ok;
}

static bool describe_io(struct rlx_model *m, const struct onnx_graph *g)
{
	size_t i;

	m->io[0] = rlx_bump_new(m->bump, g->ninputs + 1, sizeof(*m->io[0]));
	m->io[1] = rlx_bump_new(m->bump, g->noutputs + 1, sizeof(*m->io[1]));
	if (!m->io[0] || !m->io[1] || !describe_inputs(m, g))
		return false;
	for (i = 0; i < g->noutputs; i++)
		if (!describe(m, &g->outputs[i], &m->io[1][m->n_io[1]++]))
			return false;
	return true;
}

/* The bytes of what has no counterpart here (strings, more dimensions) are not shown. */
static bool describe_tensors(struct rlx_model *m, const struct onnx_graph *g)
{
	size_t i, d;

	m->tensor = rlx_bump_new(m->bump, g->ninitializers + 1, sizeof(*m->tensor));
	for (i = 0; m->tensor && i < g->ninitializers; i++) {
		const struct onnx_tensor *t = &g->initializers[i];
		struct rlx_named_tensor *to = &m->tensor[m->n_tensor++];

		*to = (struct rlx_named_tensor){ .name = copy_str(m, t->name) };
		if (!to->name)
			return false;
		if (t->ndims > RLX_MAX_RANK || !onnx_dtype_to_rlx(t->dtype))
			continue;
		to->type.dtype = onnx_dtype_to_rlx(t->dtype);
		to->type.rank = (unsigned int)t->ndims;
		for (d = 0; d < t->ndims; d++)
			to->type.dim[d] = t->dims[d];
		to->data = t->data;
	}
	return m->tensor;
}

/*
 * Protobuf has no magic number. A ModelProto begins with the tag of one of its fields, of
 * the wire type that the field has: by number 1 to 8 and 14, in two bytes 20, 25 and 26.
 */
static bool probe(const struct rlx_probe *p)
{
	static const uint8_t tags[] = {
		0x08, 0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72,
	};
	unsigned int i;

	if (p->folder || !p->bytes)
		return false;
	for (i = 0; i < sizeof(tags); i++)
		if (p->first[0] == tags[i])
			return true;
	return p->first[1] == 1 && (p->first[0] == 0xa2 || p->first[0] == 0xca ||
				    p->first[0] == 0xd2);
}

static enum rlx_status open_file(struct rlx_model *m, const char *path, struct rlx_error *err)
{
	const struct onnx_graph *g;
	struct onnx_file *f;
	enum rlx_status st = onnx_open(path, ONNX_ROOT_MODEL, &f, err);

	if (st)
		return st;
	m->file = f;
	g = onnx_file_model(f)->graph;
	if (!describe_io(m, g) || !describe_tensors(m, g))
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	return RLX_OK;
}

static void close_file(struct rlx_model *m)
{
	onnx_put(m->file);
}

static const struct rlx_file *mapped(const struct rlx_model *m, unsigned int i)
{
	return onnx_file_mapped(m->file, i);
}

static enum rlx_status build(struct rlx_model *m, const struct rlx_instance *want,
			     struct rlx_segment *seg, struct rlx_error *err)
{
	return onnx_build(m->file, want, seg, err);
}

static enum rlx_status verify(const struct rlx_model *m, struct rlx_error *err)
{
	struct rlx_segment none;

	return onnx_build(m->file, NULL, &none, err);
}

const struct rlx_model_format rlx_format_onnx = {
	.name = "ONNX", .looks = "a file that begins as a protobuf ModelProto",
	.probe = probe, .open = open_file, .close = close_file, .mapped = mapped, .build = build,
	.verify = verify,
};
