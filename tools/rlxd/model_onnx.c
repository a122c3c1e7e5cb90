// SPDX-License-Identifier: MIT
/* Files that are compiled for the shapes that come; independent rows in batches. Plan files. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "model/compiled.h"
#include "model/format.h"
#include "model/mapped.h"
#include "model/model.h"
#include "rlx/model.h"
#include "tools/rlxd/model.h"
#include "tools/rlxd/rows.h"

struct onnx {
	struct rlx_model	*model;
};

/* What programs are found by, whole: clients can choose sizes that have the same hash. */
struct shape {
	unsigned int		 n_in;
	struct {
		const char	*name;		/* the model's: told apart by address */
		struct rlx_type	 type;
	} in[];
};

/* One program for max_batch rows of a shape, or for buffers of clients. */
struct fixed {
	struct shape		*shape;
	bool			 placed;
	struct rlx_session	*session;	/* NULL: it cannot be made */
};

struct onnx_replica {
	struct rlx_runner	*runner;
	struct shape		**seen;		/* that it holds programs for */
	unsigned int		 n_seen;
	struct fixed		*fixed;
	unsigned int		 n_fixed;
	uint64_t		 fixed_bytes;	/* of their sessions */
	bool			 refused;	/* by admit() */
};

/* An input's rank must be known: requests are held to it. The runs tell an output's. */
static enum rlx_status describe(struct rlx_model *model, enum rlx_io io, unsigned int i,
				struct tensor_desc *out, struct rlx_error *err)
{
	const char *what = io == RLX_IO_INPUT ? "input" : "output";
	struct rlx_model_io d;
	int k;

	if (!rlx_model_io_at(model, io, i, &d) || d.dtype == RLX_NODTYPE)
		return rlx_fail(err, RLX_ENOSUP, "%s %u is no tensor of numbers", what, i);
	if (io == RLX_IO_INPUT && d.rank < 0)
		return rlx_fail(err, RLX_ENOSUP, "the model does not say how many dimensions input "
				"%s has, or it has more than %d; write its shape into the file, "
				"with names for dimensions of any size", d.name, RLX_MAX_RANK);
	*out = (struct tensor_desc){ d.name, d.dtype, d.rank < 0 ? 0 : (unsigned int)d.rank };
	for (k = 0; k < d.rank; k++)
		out->dim[k] = d.dim[k];
	return RLX_OK;
}

/* Rows can be put together where every tensor has a free first dimension for them. */
static enum rlx_status check_batch(const struct model *m, struct rlx_error *err)
{
	unsigned int i;

	for (i = 0; i < m->n_in + m->n_out; i++) {
		const struct tensor_desc *d = i < m->n_in ? &m->in[i] : &m->out[i - m->n_in];

		if (!d->rank || d->dim[0] >= 0)
			return rlx_fail(err, RLX_EINVAL, "batch = yes, but the first dimension "
					"of %s is not free", d->name);
	}
	return RLX_OK;
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
	if (!st)
		st = rlx_model_verify(o->model, err);
	if (st)
		return st;
	if (o->model->format == &rlx_format_gguf)
		m->platform = "rlx_gguf";
	if (o->model->graph && rlx_graph_io_count(o->model->graph, RLX_IO_PARAM))
		return rlx_fail(err, RLX_ENOSUP, "the graph has the param '%s', which nobody sets "
				"here; make it a constant or an input",
				rlx_graph_io_name(o->model->graph, RLX_IO_PARAM, 0));
	if (o->model->graph)
		m->platform = "rlx_graph";
	m->n_in = rlx_model_io_count(o->model, RLX_IO_INPUT);
	m->n_out = rlx_model_io_count(o->model, RLX_IO_OUTPUT);
	if (m->n_in > MODEL_IO_MAX || m->n_out > MODEL_IO_MAX || !m->n_out)
		return rlx_fail(err, RLX_ENOSUP, "%u inputs and %u outputs; served are models "
				"with at most %d of each", m->n_in, m->n_out, MODEL_IO_MAX);
	for (i = 0; !st && i < m->n_in; i++)
		st = describe(o->model, RLX_IO_INPUT, i, &m->in[i], err);
	for (i = 0; !st && i < m->n_out; i++)
		st = describe(o->model, RLX_IO_OUTPUT, i, &m->out[i], err);
	if (!stat(m->conf.path, &sb))
		m->weight_bytes = (uint64_t)sb.st_size;
	return !st && m->conf.batch ? check_batch(m, err) : st;
}

static void onnx_close(struct model *m)
{
	struct onnx *o = m->state;

	rlx_model_put(o->model);
	rlx_free(o);
}

static const struct rlx_file *onnx_mapped(const struct model *m, unsigned int i)
{
	const struct onnx *o = m->state;

	return rlx_model_mapped(o->model, i);
}

static struct rlx_compile_opts compile_opts(const struct model *m)
{
	return (struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = m->conf.device,
		.threads = (unsigned int)m->conf.threads,
		.precision = (enum rlx_precision)m->conf.precision, .store = m->store,
		.flags = m->conf.strict_bits ? RLX_COMPILE_STRICT_BITS : 0,
	};
}

/* Whether a plan file is for this device and these options is known before anybody asks. */
static enum rlx_status plan_open(struct model *m, struct rlx_error *err)
{
	struct rlx_compile_opts c = compile_opts(m);
	struct rlx_named_tensor in[MODEL_IO_MAX];
	enum rlx_status st = onnx_open(m, err);
	struct onnx *o = m->state;
	struct rlx_program *p;
	unsigned int i, k;

	for (i = 0; !st && i < m->n_in; i++) {
		in[i] = (struct rlx_named_tensor){ .name = m->in[i].name };
		in[i].type.dtype = m->in[i].dtype;
		in[i].type.rank = m->in[i].rank;
		for (k = 0; k < m->in[i].rank; k++)
			in[i].type.dim[k] = m->in[i].dim[k];
	}
	if (!st)
		st = rlx_model_program(o->model, in, m->n_in, &c, &p, err);
	if (!st)
		rlx_program_put(p);
	return st;
}

/* Sizes may follow from what inputs hold: what a run takes is known before it alone. */
static enum rlx_status admit(void *ctx, uint64_t bytes, struct rlx_error *err)
{
	struct replica *r = ctx;
	struct onnx_replica *rep = r->state;
	int64_t max = r->model->conf.max_run_memory;

	rep->refused = bytes > (uint64_t)max;
	return !rep->refused ? RLX_OK :
	       rlx_fail(err, RLX_ERANGE, "a run for these inputs takes %llu bytes; model %s may "
			"take %lld (max_run_memory)", (unsigned long long)bytes,
			r->model->name, (long long)max);
}

static void drop_seen(struct onnx_replica *rep)
{
	while (rep->n_seen)
		rlx_free(rep->seen[--rep->n_seen]);
}

static enum rlx_status new_runner(struct replica *r, struct rlx_error *err)
{
	struct onnx *o = r->model->state;
	struct onnx_replica *rep = r->state;
	struct rlx_compile_opts c = compile_opts(r->model);
	enum rlx_status st;

	rlx_runner_free(rep->runner);
	rep->runner = NULL;
	drop_seen(rep);
	st = rlx_runner_new(o->model, &c, &rep->runner, err);
	if (!st) {
		rep->runner->admit = admit;
		rep->runner->admit_ctx = r;
	}
	return st;
}

static void drop_fixed(struct onnx_replica *rep)
{
	while (rep->n_fixed) {
		rlx_session_free(rep->fixed[--rep->n_fixed].session);
		rlx_free(rep->fixed[rep->n_fixed].shape);
	}
	rep->fixed_bytes = 0;
}

static void onnx_replica_close(struct replica *r)
{
	struct onnx_replica *rep = r->state;

	drop_fixed(rep);
	drop_seen(rep);
	rlx_runner_free(rep->runner);
	rlx_free(rep->fixed);
	rlx_free(rep->seen);
	rlx_free(rep);
	r->state = NULL;
}

/* With all dimensions known the program can be compiled before it is asked for. */
static enum rlx_status warm_up(struct replica *r, struct rlx_error *err)
{
	struct model *m = r->model;
	struct onnx_replica *rep = r->state;
	struct rlx_named_tensor in[MODEL_IO_MAX];
	void *zeros[MODEL_IO_MAX] = { NULL };
	struct rlx_error own = { 0 };
	enum rlx_status st = RLX_OK;
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
	if (fixed && rlx_runner_run(rep->runner, in, m->n_in, &own) && rep->refused)
		st = rlx_fail(err, own.status, "%s", own.text);
	for (i = 0; i < m->n_in; i++)
		rlx_free(zeros[i]);
	return st;
}

static enum rlx_status onnx_replica_open(struct replica *r, struct rlx_error *err)
{
	struct onnx_replica *rep = rlx_calloc(1, sizeof(*rep));
	enum rlx_status st;

	if (!rep)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	r->state = rep;
	rep->seen = rlx_calloc((size_t)r->model->conf.max_shapes, sizeof(*rep->seen));
	rep->fixed = rlx_calloc((size_t)r->model->conf.max_shapes, sizeof(*rep->fixed));
	if (!rep->seen || !rep->fixed)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	st = new_runner(r, err);
	return st ? st : warm_up(r, err);
}

/* Rows that are alike but for what they hold. */
static bool onnx_fits(const struct model *m, const struct row *a, const struct row *b)
{
	struct rlx_type x, y;
	unsigned int i;

	(void)m;
	if (a->at == ROW_WHOLE || b->at == ROW_WHOLE || a->n_in != b->n_in)
		return false;
	for (i = 0; i < a->n_in; i++) {
		x = row_type(a, i);
		y = row_type(b, i);
		if (a->in[i].name != b->in[i].name || !rlx_type_equal(&x, &y))
			return false;
	}
	return true;
}

/* By the power of two of its elements: sizes that are free may make any difference. */
static unsigned int onnx_class(const struct model *m, const struct row *row)
{
	uint64_t n = 0;
	unsigned int i;

	for (i = 0; i < row->n_in; i++) {
		struct rlx_type t = row_type(row, i);

		n += (uint64_t)rlx_type_count(&t);
	}
	n /= (uint64_t)model_rows_of(m, row);
	i = n ? 63 - (unsigned int)__builtin_clzll(n) : 0;
	return i < MODEL_CLASSES ? i : MODEL_CLASSES - 1;
}

static bool is_of_shape(const struct row *row, const struct shape *s)
{
	unsigned int i;

	if (row->n_in != s->n_in)
		return false;
	for (i = 0; i < s->n_in; i++) {
		struct rlx_type t = row_type(row, i);

		if (row->in[i].name != s->in[i].name || !rlx_type_equal(&t, &s->in[i].type))
			return false;
	}
	return true;
}

static struct shape *shape_of(const struct row *row)
{
	struct shape *s = rlx_calloc(1, sizeof(*s) + row->n_in * sizeof(s->in[0]));
	unsigned int i;

	for (i = 0; s && i < row->n_in; i++) {
		s->in[i].name = row->in[i].name;
		s->in[i].type = row_type(row, i);
	}
	if (s)
		s->n_in = row->n_in;
	return s;
}

/* Programs are cached by shape: whoever sends ever new shapes must not fill memory. */
static enum rlx_status note_shape(struct replica *r, const struct row *row,
				  struct rlx_error *err)
{
	struct onnx_replica *rep = r->state;
	struct shape *shape;
	enum rlx_status st;
	unsigned int i;

	for (i = 0; i < rep->n_seen; i++)
		if (is_of_shape(row, rep->seen[i]))
			return RLX_OK;
	if (rep->n_seen == (unsigned int)r->model->conf.max_shapes || !rep->runner) {
		st = new_runner(r, err);
		if (st)
			return st;
	}
	shape = shape_of(row);
	if (!shape)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	rep->seen[rep->n_seen++] = shape;
	return RLX_OK;
}

/* The outputs, copied into memory of the request: the next run overwrites them. */
static enum rlx_status keep_outputs(struct replica *r, struct row *row,
				    struct rlx_error *err)
{
	struct onnx_replica *rep = r->state;
	struct rlx_type type[MODEL_IO_MAX];
	const void *data[MODEL_IO_MAX];
	struct rlx_named_tensor t;
	enum rlx_status st;
	unsigned int k;

	for (k = 0; k < r->model->n_out; k++) {
		if (!rlx_runner_output(rep->runner, k, &t))
			return rlx_fail(err, RLX_ENOSUP, "output %s is no tensor",
					r->model->out[k].name);
		type[k] = t.type;
		data[k] = t.data;
	}
	st = rows_open(&row, 1, type, err);
	for (k = 0; !st && k < r->model->n_out; k++)
		row_keep(row, k, &type[k], data[k]);
	return st;
}

static enum rlx_status run_one(struct replica *r, struct row *row, struct rlx_error *err)
{
	struct onnx_replica *rep = r->state;
	struct rlx_named_tensor in[MODEL_IO_MAX];
	enum rlx_status st = note_shape(r, row, err);
	const void *p;
	unsigned int i;
	size_t bytes;

	if (st)
		return st;
	for (i = 0; i < row->n_in; i++) {
		p = row_input(row, i, &bytes);
		in[i] = (struct rlx_named_tensor){ row->in[i].name, row_type(row, i), p };
	}
	rep->refused = false;
	st = rlx_runner_run(rep->runner, in, row->n_in, err);
	if (st && rep->refused)
		atomic_store(&row->job->too_large, true);
	return st ? st : keep_outputs(r, row, err);
}

/* Do all outputs come in rows of the batch? */
static bool outputs_batched(const struct model *m, const struct rlx_program *p)
{
	const struct rlx_type *t;
	unsigned int i;
	int k;

	for (i = 0; i < m->n_out; i++) {
		k = rlx_program_io_find(p, RLX_IO_OUTPUT, m->out[i].name);
		t = k < 0 ? NULL : rlx_program_io_type(p, RLX_IO_OUTPUT, (unsigned int)k);
		if (!t || !t->rank || t->dim[0] != m->max_batch)
			return false;
	}
	return true;
}

/*
 * Strict for buffers used in place: what makes a copy of them is refused. Steps on the host
 * that exchange values with the device copy none of them, so such a program is served too.
 */
static enum rlx_status open_fixed(struct rlx_program *p, bool placed, struct rlx_session **out,
				  struct rlx_error *err)
{
	struct rlx_session_opts so = { .size = sizeof(so), .strict = placed };
	struct rlx_error own = { 0 };
	enum rlx_status st = rlx_session_new(p, &so, out, &own);

	if (st == RLX_EACCES) {
		so.strict = false;
		return rlx_session_new(p, &so, out, err);
	}
	return st ? rlx_error_set(err, st, own.file, own.line, "%s", own.text) : RLX_OK;
}

/* Together the sessions take no more than one run may: all others give way. */
static enum rlx_status admit_fixed(struct replica *r, const struct rlx_program *p,
				   struct rlx_error *err)
{
	struct onnx_replica *rep = r->state;
	uint64_t bytes = rlx_compiled_bytes(p);
	enum rlx_status st = admit(r, bytes, err);

	if (!st && admit(r, rep->fixed_bytes + bytes, NULL))
		drop_fixed(rep);
	return st;
}

/*
 * One program for inputs like those of @row: for max_batch of them, or for it alone
 * if its buffers are to be used in place. It cannot be made where a size depends on
 * data.
 */
static enum rlx_status compile_one(struct replica *r, const struct row *row,
				   struct rlx_session **out, struct rlx_error *err)
{
	struct model *m = r->model;
	struct onnx *o = m->state;
	struct rlx_compile_opts c = compile_opts(m);
	struct rlx_named_tensor in[MODEL_IO_MAX];
	struct rlx_program *p = NULL;
	enum rlx_status st;
	unsigned int i;

	for (i = 0; i < row->n_in; i++) {
		in[i] = (struct rlx_named_tensor){ row->in[i].name, row->in[i].type };
		if (!row->place)
			in[i].type.dim[0] = m->max_batch;
	}
	st = rlx_model_program(o->model, in, row->n_in, &c, &p, err);
	if (!st)
		model_count_kernels(m, p);
	if (!st && !row->place && !outputs_batched(m, p))
		st = rlx_fail(err, RLX_ENOSUP, "an output does not come in rows");
	if (!st)
		st = admit_fixed(r, p, err);
	if (!st)
		st = open_fixed(p, row->place != NULL, out, err);
	rlx_program_put(p);
	return st;
}

/* NULL: there is none, @err tells why. That memory ran out is not remembered. */
static struct rlx_session *session_for(struct replica *r, const struct row *row,
				       struct rlx_error *err)
{
	struct onnx_replica *rep = r->state;
	struct rlx_session *s = NULL;
	struct shape *shape;
	enum rlx_status st;
	unsigned int i;

	for (i = 0; i < rep->n_fixed; i++) {
		struct fixed *f = &rep->fixed[i];

		if (f->placed != !!row->place || !is_of_shape(row, f->shape))
			continue;
		if (!f->session)
			rlx_fail(err, RLX_ENOSUP, "model %s cannot be one program with inputs of "
				 "these shapes", r->model->name);
		return f->session;
	}
	if (rep->n_fixed == (unsigned int)r->model->conf.max_shapes)
		drop_fixed(rep);
	shape = shape_of(row);
	st = shape ? compile_one(r, row, &s, err) : rlx_fail(err, RLX_ENOMEM, "out of memory");
	if (st == RLX_ENOMEM) {
		rlx_free(shape);
		return NULL;
	}
	rep->fixed_bytes += st ? 0 : rlx_compiled_bytes(rlx_session_program(s));
	rep->fixed[rep->n_fixed++] = (struct fixed){ shape, row->place != NULL, st ? NULL : s };
	return st ? NULL : s;
}

/* What the client has is used where it lies; nothing is kept of it. */
static enum rlx_status run_placed(struct replica *r, const struct row *row,
				  struct rlx_error *err)
{
	const struct model *m = r->model;
	struct rlx_session *s = session_for(r, row, err);
	enum rlx_status st = RLX_OK;
	unsigned int i;

	if (!s)
		return err->status;
	for (i = 0; !st && i < row->n_in; i++)
		/* The program has no input that it does not need. */
		if (rlx_program_io_find(rlx_session_program(s), RLX_IO_INPUT, m->in[i].name) >= 0)
			st = rlx_session_bind(s, RLX_IO_INPUT, m->in[i].name, row->place[i]);
	for (i = 0; !st && i < m->n_out; i++)
		st = rlx_session_bind(s, RLX_IO_OUTPUT, m->out[i].name, row->place[row->n_in + i]);
	if (!st)
		st = rlx_session_run(s);
	if (st)
		rlx_fail(err, st, "model %s: %s", m->name, rlx_session_error(s)->text);
	rlx_session_unbind(s);
	return st;
}

static enum rlx_status keep_rows(struct replica *r, struct rlx_session *s, struct rlx_error *err)
{
	struct rlx_program *p = rlx_session_program(s);
	struct rlx_type t[MODEL_IO_MAX];
	const char *from[MODEL_IO_MAX];
	enum rlx_status st;
	unsigned int i, k;

	for (k = 0; k < r->model->n_out; k++) {
		const char *name = r->model->out[k].name;
		int at = rlx_program_io_find(p, RLX_IO_OUTPUT, name);

		t[k] = *rlx_program_io_type(p, RLX_IO_OUTPUT, (unsigned int)at);
		t[k].dim[0] = 1;
		from[k] = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, name));
	}
	st = rows_open(r->batch, r->n, t, err);
	for (i = 0; !st && i < r->n; i++)
		for (k = 0; k < r->model->n_out; k++)
			row_keep(r->batch[i], k, &t[k],
				 from[k] + i * (size_t)rlx_type_bytes(&t[k]));
	return st;
}

/* The rows of input @k, one behind the other. */
static void put_rows(struct replica *r, struct rlx_session *s, unsigned int k)
{
	char *to = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, r->batch[0]->in[k].name));
	const void *p;
	unsigned int i;
	size_t bytes;

	/* The program has no input that it does not need. */
	for (i = 0; to && i < r->n; i++) {
		p = row_input(r->batch[i], k, &bytes);
		if (bytes)
			memcpy(to + i * bytes, p, bytes);
	}
}

static enum rlx_status run_batch(struct replica *r, struct rlx_session *s, struct rlx_error *err)
{
	const struct row *first = r->batch[0];
	enum rlx_status st = RLX_OK;
	unsigned int k;

	for (k = 0; k < first->n_in; k++)
		put_rows(r, s, k);
	if (first->n_in && r->model->max_batch > 1)	/* else none is left out */
		st = rlx_session_extent(s, r->n, r->model->max_batch);
	if (!st)
		st = rlx_session_run(s);
	if (st)
		return rlx_fail(err, st, "model %s: %s", r->model->name,
				rlx_session_error(s)->text);
	return keep_rows(r, s, err);
}

static enum rlx_status onnx_run(struct replica *r, struct rlx_error *err)
{
	struct rlx_error why = { 0 };
	enum rlx_status st = RLX_OK;
	struct rlx_session *s;
	unsigned int i;

	if (r->batch[0]->place)
		return run_placed(r, r->batch[0], err);
	/* Rows that cannot be one batch are run one by one. */
	s = r->n > 1 ? session_for(r, r->batch[0], &why) : NULL;
	if (s)
		return run_batch(r, s, err);
	for (i = 0; !st && i < r->n; i++)
		st = run_one(r, r->batch[i], err);
	return st;
}

/* A plan file: the same, of one shape, and with nothing to compile. */
const struct model_kind model_plan = {
	.name	       = "plan",
	.platform      = "rlx_plan",
	.open	       = plan_open,
	.close	       = onnx_close,
	.mapped	       = onnx_mapped,
	.replica_open  = onnx_replica_open,
	.replica_close = onnx_replica_close,
	.class_of      = onnx_class,
	.fits	       = onnx_fits,
	.run	       = onnx_run,
};

const struct model_kind model_onnx = {
	.name	       = "onnx",
	.platform      = "onnx_rlx",
	.open	       = onnx_open,
	.close	       = onnx_close,
	.mapped	       = onnx_mapped,
	.replica_open  = onnx_replica_open,
	.replica_close = onnx_replica_close,
	.class_of      = onnx_class,
	.fits	       = onnx_fits,
	.run	       = onnx_run,
};
