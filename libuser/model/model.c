// SPDX-License-Identifier: MIT
/* An opened model of whatever format: what it declares, and its graph for given inputs. */
#include <string.h>

#include "base/alloc.h"
#include "base/bump.h"
#include "ir/dims.h"
#include "model/format.h"
#include "model/mapped.h"
#include "model/model.h"

struct rlx_model *rlx_model_alloc(void)
{
	struct rlx_model *m = rlx_calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	atomic_init(&m->refs, 1);
	m->bump = rlx_calloc(1, sizeof(*m->bump));
	if (m->bump)
		return m;
	rlx_model_put(m);
	return NULL;
}

/* The name of a size that is known later: what rlx_graph_print() writes. */
static const char *dim_text(const struct rlx_model *m, const struct rlx_graph *g, int64_t x)
{
	char text[RLX_DIM_TEXT];

	if (!rlx_is_dim(x))
		return "";
	rlx_dim_print(g, x, text, sizeof(text));
	return rlx_bump_str(m->bump, text, strlen(text));
}

static bool describe_side(struct rlx_model *m, const struct rlx_graph *g, int k, enum rlx_io side)
{
	unsigned int i, d;

	m->n_io[k] = rlx_graph_io_count(g, side);
	m->io[k] = rlx_bump_new(m->bump, m->n_io[k] + 1u, sizeof(*m->io[k]));
	for (i = 0; m->io[k] && i < m->n_io[k]; i++) {
		const struct rlx_type *t = rlx_type_of(g, rlx_graph_io_value(g, side, i));
		struct rlx_model_io *io = &m->io[k][i];

		*io = (struct rlx_model_io){ .name = rlx_graph_io_name(g, side, i),
					     .dtype = t->dtype, .rank = (int)t->rank };
		for (d = 0; d < t->rank; d++) {
			io->dim[d] = rlx_is_dim(t->dim[d]) ? -1 : t->dim[d];
			io->dim_name[d] = dim_text(m, g, t->dim[d]);
			if (!io->dim_name[d])
				return false;
		}
	}
	return m->io[k];
}

bool rlx_model_describe(struct rlx_model *m, const struct rlx_graph *g)
{
	return describe_side(m, g, 0, RLX_IO_INPUT) && describe_side(m, g, 1, RLX_IO_OUTPUT);
}

enum rlx_status rlx_segment_of_graph(const struct rlx_model *m, struct rlx_segment *seg,
				     struct rlx_error *err)
{
	unsigned int i;

	seg->mem = rlx_calloc(1, sizeof(*seg->mem));
	seg->out = seg->mem ? rlx_bump_new(seg->mem, m->n_io[1] + 1u, sizeof(*seg->out)) : NULL;
	if (!seg->out) {
		rlx_segment_fini(seg);
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", m->format->name);
	}
	seg->n_out = m->n_io[1];
	for (i = 0; i < seg->n_out; i++)
		seg->out[i] = (struct rlx_spec){
			.kind = RLX_SPEC_TENSOR, .name = m->io[1][i].name,
			.type = *rlx_type_of(seg->g, rlx_graph_io_value(seg->g, RLX_IO_OUTPUT, i)),
		};
	return RLX_OK;
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
	m = rlx_model_alloc();
	if (!m)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	m->format = rlx_format_find(path, err);
	st = m->format ? m->format->open(m, path, err) :
	     err->status ? err->status : RLX_ENOMEM;
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
	return m->format->mapped(m, i);
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
	if (m->file)
		m->format->close(m);
	if (m->bump)
		rlx_bump_fini(m->bump);
	rlx_free(m->bump);
	rlx_free(m);
}

enum rlx_status rlx_model_verify(const struct rlx_model *m, struct rlx_error *err)
{
	if (!m)
		return rlx_fail(err, RLX_EINVAL, "model verify: there is no model");
	return m->format->verify ? m->format->verify(m, err) : RLX_OK;
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

unsigned int rlx_model_tensor_count(const struct rlx_model *m)
{
	return m ? m->n_tensor : 0;
}

bool rlx_model_tensor_at(const struct rlx_model *m, unsigned int i, struct rlx_named_tensor *out)
{
	if (i >= rlx_model_tensor_count(m))
		return false;
	*out = m->tensor[i];
	return true;
}

enum rlx_status rlx_contents_are_there(const struct rlx_spec *in, unsigned int n, uint64_t asked,
				       struct rlx_error *err)
{
	unsigned int i;

	for (i = 0; i < n && i < 64; i++)
		if (asked >> i & 1 && in[i].kind == RLX_SPEC_TENSOR && !in[i].data)
			return rlx_fail(err, RLX_EINVAL, "the graph depends on the contents of "
					"input '%s': give its data", in[i].name);
	return RLX_OK;
}

/* So that another order of the caller's is no other key. */
static void put_in_order(const struct rlx_model *m, struct rlx_spec *s, unsigned int n)
{
	unsigned int i, k;

	for (k = 0; k < m->n_io[0] && k < n; k++)
		for (i = k; i < n; i++)
			if (!strcmp(s[i].name, m->io[0][k].name)) {
				struct rlx_spec t = s[k];

				s[k] = s[i];
				s[i] = t;
				break;
			}
}

enum rlx_status rlx_model_specs(const struct rlx_model *m, const struct rlx_named_tensor *in,
				unsigned int n, struct rlx_spec **out, struct rlx_error *err)
{
	struct rlx_spec *s;
	unsigned int i;

	for (i = 0; i < n; i++)
		if (rlx_type_count(&in[i].type) < 0)
			return rlx_fail(err, RLX_EINVAL, "input '%.80s': its type has over %d "
					"dimensions, one below 0, or over 2^63 elements",
					in[i].name ? in[i].name : "(null)", RLX_MAX_RANK);
	s = rlx_calloc(n + 1ul, sizeof(*s));
	if (!s)
		return rlx_fail(err, RLX_ENOMEM, "model: out of memory");
	for (i = 0; i < n; i++)
		s[i] = (struct rlx_spec){ .kind = RLX_SPEC_TENSOR,
					  .name = in[i].name ? in[i].name : "",
					  .type = in[i].type, .data = in[i].data };
	put_in_order(m, s, n);
	*out = s;
	return RLX_OK;
}

/* The one segment that the model is for these inputs: rlx_segment_fini() ends it. */
static enum rlx_status only_segment(struct rlx_model *m, const struct rlx_named_tensor *in,
				    unsigned int n_in, struct rlx_segment *seg,
				    struct rlx_error *err)
{
	struct rlx_instance want = { .n_spec = n_in };
	struct rlx_spec *specs;
	enum rlx_status st = rlx_model_specs(m, in, n_in, &specs, err);

	if (st)
		return st;
	want.spec = specs;
	st = m->format->build(m, &want, seg, err);
	if (!st && (seg->need != RLX_NEED_NOTHING || !seg->g)) {
		st = rlx_contents_are_there(specs, n_in, seg->inputs, err);
		if (!st)
			st = rlx_fail(err, RLX_ENOSUP, "a shape in this model depends on "
				      "computed data: run it with rlx_runner_run()");
		rlx_segment_fini(seg);
	}
	rlx_free(specs);
	return st;
}

enum rlx_status rlx_model_graph(struct rlx_model *m, const struct rlx_named_tensor *in,
				unsigned int n_in, struct rlx_graph **out_g,
				struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct rlx_segment seg;
	enum rlx_status st;

	err = err ? err : &own;
	if (!m || !out_g || (n_in && !in))
		return rlx_fail(err, RLX_EINVAL, "model graph: an argument is missing");
	*out_g = NULL;
	st = only_segment(m, in, n_in, &seg, err);
	if (st)
		return st;
	*out_g = rlx_graph_get(seg.g);
	rlx_segment_fini(&seg);
	return RLX_OK;
}

enum rlx_status rlx_segment_program(struct rlx_model *m, const struct rlx_segment *seg,
				    const struct rlx_compile_opts *o, struct rlx_program **out,
				    struct rlx_error *err)
{
	if (m->format->program)
		return m->format->program(m, seg, o, out, err);
	return rlx_compile(seg->g, o, out, err);
}

enum rlx_status rlx_model_program(struct rlx_model *m, const struct rlx_named_tensor *in,
				  unsigned int n_in, const struct rlx_compile_opts *o,
				  struct rlx_program **out, struct rlx_error *err)
{
	struct rlx_segment seg;
	enum rlx_status st = only_segment(m, in, n_in, &seg, err);

	if (st)
		return st;
	st = rlx_segment_program(m, &seg, o, out, err);
	rlx_segment_fini(&seg);
	return st;
}
