// SPDX-License-Identifier: MIT
/* Any ONNX file: a request at a time, compiled for the shapes that come. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/map.h"
#include "rlx/model.h"
#include "tools/rlxd/model.h"

struct onnx {
	struct rlx_model	*model;
};

struct onnx_replica {
	struct rlx_runner	*runner;
	uint64_t		*seen;		/* hashes of the shapes it holds programs for */
	unsigned int		 n_seen;
};

static bool describe(struct rlx_model *model, enum rlx_io io, unsigned int i,
		     struct tensor_desc *out)
{
	struct rlx_model_io d;
	int k;

	if (!rlx_model_io_at(model, io, i, &d) || d.dtype == RLX_NODTYPE)
		return false;
	*out = (struct tensor_desc){ d.name, d.dtype, d.rank < 0 ? 0 : (unsigned int)d.rank };
	for (k = 0; k < d.rank; k++)
		out->dim[k] = d.dim[k];
	return true;
}

static enum rlx_status onnx_open(struct model *m, struct rlx_error *err)
{
	struct onnx *o = rlx_calloc(1, sizeof(*o));
	enum rlx_status st;
	struct stat sb;
	unsigned int i;

	if (!o)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	m->state = o;
	st = rlx_model_open(m->conf.path, &o->model, err);
	if (st)
		return st;
	m->n_in = rlx_model_io_count(o->model, RLX_IO_INPUT);
	m->n_out = rlx_model_io_count(o->model, RLX_IO_OUTPUT);
	if (m->n_in > MODEL_IO_MAX || m->n_out > MODEL_IO_MAX || !m->n_out)
		return rlx_fail(err, RLX_ENOSUP, "%u inputs and %u outputs; served are models "
				"with at most %d of each", m->n_in, m->n_out, MODEL_IO_MAX);
	for (i = 0; i < m->n_in; i++)
		if (!describe(o->model, RLX_IO_INPUT, i, &m->in[i]))
			return rlx_fail(err, RLX_ENOSUP, "input %u is no tensor of numbers", i);
	for (i = 0; i < m->n_out; i++)
		if (!describe(o->model, RLX_IO_OUTPUT, i, &m->out[i]))
			return rlx_fail(err, RLX_ENOSUP, "output %u is no tensor of numbers", i);
	if (!stat(m->conf.path, &sb))
		m->weight_bytes = (uint64_t)sb.st_size;
	return RLX_OK;
}

static void onnx_close(struct model *m)
{
	struct onnx *o = m->state;

	rlx_model_put(o->model);
	rlx_free(o);
}

static enum rlx_status new_runner(struct replica *r, struct rlx_error *err)
{
	struct onnx *o = r->model->state;
	struct onnx_replica *or = r->state;
	struct rlx_compile_opts c = {
		.size = sizeof(c), .device = r->model->conf.device,
		.threads = (unsigned int)r->model->conf.threads,
		.precision = (enum rlx_precision)r->model->conf.precision,
	};

	rlx_runner_free(or->runner);
	or->runner = NULL;
	or->n_seen = 0;
	return rlx_runner_new(o->model, &c, &or->runner, err);
}

static void onnx_replica_close(struct replica *r)
{
	struct onnx_replica *or = r->state;

	rlx_runner_free(or->runner);
	rlx_free(or->seen);
	rlx_free(or);
	r->state = NULL;
}

/* With all dimensions known the program can be compiled before it is asked for. */
static void warm_up(struct replica *r)
{
	struct model *m = r->model;
	struct onnx_replica *or = r->state;
	struct rlx_named_tensor in[MODEL_IO_MAX];
	void *zeros[MODEL_IO_MAX] = { NULL };
	struct rlx_error err = { 0 };
	unsigned int i, k;
	bool fixed = true;

	for (i = 0; i < m->n_in && fixed; i++) {
		in[i] = (struct rlx_named_tensor){ .name = m->in[i].name };
		in[i].type.dtype = m->in[i].dtype;
		in[i].type.rank = m->in[i].rank;
		for (k = 0; k < m->in[i].rank; k++) {
			fixed &= m->in[i].dim[k] >= 0;
			in[i].type.dim[k] = m->in[i].dim[k];
		}
		if (fixed)
			zeros[i] = rlx_calloc((size_t)rlx_type_bytes(&in[i].type) + 64, 1);
		in[i].data = zeros[i];
		fixed &= zeros[i] != NULL;
	}
	/* Zeros may be no input that this model can take; then a request compiles. */
	if (fixed && rlx_runner_run(or->runner, in, m->n_in, &err))
		err.status = RLX_OK;
	for (i = 0; i < m->n_in; i++)
		rlx_free(zeros[i]);
}

static enum rlx_status onnx_replica_open(struct replica *r, struct rlx_error *err)
{
	struct onnx_replica *or = rlx_calloc(1, sizeof(*or));
	enum rlx_status st;

	if (!or)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	r->state = or;
	or->seen = rlx_calloc((size_t)r->model->conf.max_shapes, sizeof(*or->seen));
	if (!or->seen)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	st = new_runner(r, err);
	if (!st)
		warm_up(r);
	return st;
}

static bool onnx_fits(const struct model *m, const struct row *a, const struct row *b)
{
	return false;
}

/* Programs are cached by shape: whoever sends ever new shapes must not fill memory. */
static enum rlx_status note_shape(struct replica *r, const struct row *row,
				  struct rlx_error *err)
{
	struct onnx_replica *or = r->state;
	uint64_t h = 0;
	enum rlx_status st;
	unsigned int i;

	for (i = 0; i < row->n_in; i++)
		h = rlx_hash_bytes(row->in[i].type.dim,
				   row->in[i].type.rank * sizeof(row->in[i].type.dim[0]), h + i + 1);
	for (i = 0; i < or->n_seen; i++)
		if (or->seen[i] == h)
			return RLX_OK;
	if (or->n_seen == (unsigned int)r->model->conf.max_shapes || !or->runner) {
		st = new_runner(r, err);
		if (st)
			return st;
	}
	or->seen[or->n_seen++] = h;
	return RLX_OK;
}

/* The outputs, copied into memory of the request: the next run overwrites them. */
static enum rlx_status keep_outputs(struct replica *r, struct row *row,
				    struct rlx_error *err)
{
	struct onnx_replica *or = r->state;
	struct rlx_named_tensor t;
	unsigned int i;

	for (i = 0; i < r->model->n_out; i++) {
		struct tensor *to = &row->result[i];

		if (!rlx_runner_output(or->runner, i, &t))
			return rlx_fail(err, RLX_ENOSUP, "output %s is no tensor",
					r->model->out[i].name);
		to->name = r->model->out[i].name;
		to->type = t.type;
		to->bytes = (size_t)rlx_type_bytes(&t.type);
		to->data = rlx_memdup(t.data, to->bytes);
		if (!to->data)
			return rlx_fail(err, RLX_ENOMEM, "out of memory for the outputs");
	}
	return RLX_OK;
}

static enum rlx_status onnx_run(struct replica *r, struct rlx_error *err)
{
	struct onnx_replica *or = r->state;
	struct row *row = r->batch[0];
	struct rlx_named_tensor in[MODEL_IO_MAX];
	enum rlx_status st = note_shape(r, row, err);
	unsigned int i;

	if (st)
		return st;
	for (i = 0; i < row->n_in; i++)
		in[i] = (struct rlx_named_tensor){ row->in[i].name, row->in[i].type,
						   row->in[i].data };
	st = rlx_runner_run(or->runner, in, row->n_in, err);
	return st ? st : keep_outputs(r, row, err);
}

const struct model_kind model_onnx = {
	.name	       = "onnx",
	.open	       = onnx_open,
	.close	       = onnx_close,
	.replica_open  = onnx_replica_open,
	.replica_close = onnx_replica_close,
	.fits	       = onnx_fits,
	.run	       = onnx_run,
};
