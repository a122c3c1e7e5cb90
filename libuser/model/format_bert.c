// SPDX-License-Identifier: MIT
/* Folders of BERT encoders as models: one graph for each batch and length. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bump.h"
#include "model/format.h"
#include "model/mapped.h"
#include "model/model.h"
#include "rlx/bert.h"
#include "rlx/safetensors.h"

struct bert_file {
	struct rlx_bert		*bert;
	pthread_mutex_t		 lock;	/* graphs of one encoder are made one at a time */
};

enum { N_SPEC = 3 };

static const char *const input_name[N_SPEC] = { "input_ids", "lengths", "token_type_ids" };
static const char output_name[] = "last_hidden_state";

/* Whatever its configuration says: one of another architecture is told so by open(). */
static bool probe(const struct rlx_probe *p)
{
	char path[4096];
	int n = snprintf(path, sizeof(path), "%s/config.json", p->path);

	return p->folder && n > 0 && (size_t)n < sizeof(path) && !access(path, F_OK);
}

static struct rlx_model_io matrix_io(const char *name, enum rlx_dtype dtype, int rank)
{
	return (struct rlx_model_io){
		.name = name, .dtype = dtype, .rank = rank, .dim = { -1, -1, -1 },
		.dim_name = { "batch", rank > 1 ? "sequence" : "", "" },
	};
}

static enum rlx_status describe(struct rlx_model *m, const struct rlx_bert *b)
{
	const struct rlx_safetensors *w = rlx_bert_weights(b);
	uint32_t n = rlx_safetensors_count(w), i;
	struct rlx_bert_info info;

	rlx_bert_info(b, &info);
	m->io[0] = rlx_bump_new(m->bump, 2, sizeof(*m->io[0]));
	m->io[1] = rlx_bump_new(m->bump, 1, sizeof(*m->io[1]));
	m->tensor = rlx_bump_new(m->bump, (size_t)n + 1, sizeof(*m->tensor));
	if (!m->io[0] || !m->io[1] || !m->tensor)
		return RLX_ENOMEM;
	m->io[0][0] = matrix_io(input_name[0], RLX_I64, 2);
	m->io[0][1] = matrix_io(input_name[1], RLX_I64, 1);
	m->io[1][0] = matrix_io(output_name, RLX_F32, 3);
	m->io[1][0].dim[2] = info.hidden;
	m->n_io[0] = 2;
	m->n_io[1] = 1;
	for (i = 0; i < n; i++) {
		const struct rlx_safetensor *t = rlx_safetensors_at(w, i);

		m->tensor[i] = (struct rlx_named_tensor){ t->name, t->type, t->data };
	}
	m->n_tensor = n;
	return RLX_OK;
}

static enum rlx_status open_folder(struct rlx_model *m, const char *path, struct rlx_error *err)
{
	struct bert_file *f = rlx_calloc(1, sizeof(*f));
	enum rlx_status st;

	if (!f)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	pthread_mutex_init(&f->lock, NULL);
	m->file = f;
	st = rlx_bert_open(path, &f->bert, err);
	if (!st && describe(m, f->bert))
		st = rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	return st;
}

static void close_folder(struct rlx_model *m)
{
	struct bert_file *f = m->file;

	rlx_bert_put(f->bert);
	pthread_mutex_destroy(&f->lock);
	rlx_free(f);
}

static const struct rlx_file *mapped(const struct rlx_model *m, unsigned int i)
{
	const struct bert_file *f = m->file;

	return rlx_bert_mapped(f->bert, i);
}

/* By input_name; NULL: not given. */
static enum rlx_status find_inputs(const struct rlx_instance *want,
				   const struct rlx_spec *in[N_SPEC], struct rlx_error *err)
{
	uint32_t i, k;

	for (i = 0; i < want->n_spec; i++) {
		const struct rlx_spec *s = &want->spec[i];

		for (k = 0; k < N_SPEC && strcmp(s->name, input_name[k]); k++)
			;
		if (k == N_SPEC)
			return rlx_fail(err, RLX_ENOENT, "bert: there is no input '%s'; they are "
					"input_ids, lengths and, if wanted, token_type_ids",
					s->name);
		if (s->kind != RLX_SPEC_TENSOR || s->type.dtype != RLX_I64)
			return rlx_fail(err, RLX_ETYPE, "bert: input '%s' is no tensor of i64",
					s->name);
		if (s->type.rank != (k == 1 ? 1 : 2))
			return rlx_fail(err, RLX_ESHAPE, "bert: input '%s' has %u dimensions, not "
					"%d", s->name, s->type.rank, k == 1 ? 1 : 2);
		in[k] = s;
	}
	for (k = 0; k < 2; k++)
		if (!in[k])
			return rlx_fail(err, RLX_ENOENT, "bert: input '%s' is missing",
					input_name[k]);
	if (in[1]->type.dim[0] != in[0]->type.dim[0] ||
	    (in[2] && !rlx_type_equal(&in[2]->type, &in[0]->type)))
		return rlx_fail(err, RLX_ESHAPE, "bert: lengths must have one element for each of "
				"the %lld rows of input_ids, token_type_ids its shape",
				(long long)in[0]->type.dim[0]);
	return RLX_OK;
}

static enum rlx_status build(struct rlx_model *m, const struct rlx_instance *want,
			     struct rlx_segment *seg, struct rlx_error *err)
{
	struct rlx_bert_opts o = { .size = sizeof(o), .pool = RLX_BERT_TOKENS };
	const struct rlx_spec *in[N_SPEC] = { NULL };
	struct bert_file *f = m->file;
	enum rlx_status st;

	*seg = (struct rlx_segment){ .need = RLX_NEED_NOTHING };
	st = find_inputs(want, in, err);
	if (st)
		return st;
	o.batch = in[0]->type.dim[0];
	o.seq = in[0]->type.dim[1];
	o.type_ids = in[2];
	seg->mem = rlx_calloc(1, sizeof(*seg->mem));
	seg->out = seg->mem ? rlx_bump_new(seg->mem, 1, sizeof(*seg->out)) : NULL;
	if (!seg->out) {
		st = rlx_fail(err, RLX_ENOMEM, "bert: out of memory");
	} else {
		pthread_mutex_lock(&f->lock);
		st = rlx_bert_graph(f->bert, &o, &seg->g, err);
		pthread_mutex_unlock(&f->lock);
	}
	if (st) {
		rlx_segment_fini(seg);
		return st;
	}
	seg->n_out = 1;
	*seg->out = (struct rlx_spec){
		.kind = RLX_SPEC_TENSOR, .name = output_name,
		.type = rlx_type(RLX_F32, o.batch, o.seq, m->io[1][0].dim[2]),
	};
	return RLX_OK;
}

const struct rlx_model_format rlx_format_bert = {
	.name = "BERT", .looks = "a folder with config.json and model.safetensors",
	.probe = probe, .open = open_folder, .close = close_folder, .mapped = mapped,
	.build = build,
};
