// SPDX-License-Identifier: MIT
/* GGUF files of decoders as models: one graph for each batch and length. */
#include <string.h>

#include "base/alloc.h"
#include "base/bump.h"
#include "io/formats/gguf.h"
#include "model/format.h"
#include "model/llama.h"
#include "model/model.h"

static const char input_name[] = "input_ids", output_name[] = "logits";

static bool probe(const struct rlx_probe *p)
{
	return !p->folder && p->bytes >= 4 && !memcmp(p->first, "GGUF", 4);
}

static bool describe(struct rlx_model *m, const struct llama *f)
{
	const struct rlx_gguf *w = llama_gguf(f);
	uint32_t n = rlx_gguf_count(w), i;

	m->io[0] = rlx_bump_new(m->bump, 1, sizeof(*m->io[0]));
	m->io[1] = rlx_bump_new(m->bump, 1, sizeof(*m->io[1]));
	m->tensor = rlx_bump_new(m->bump, (size_t)n + 1, sizeof(*m->tensor));
	if (!m->io[0] || !m->io[1] || !m->tensor)
		return false;
	m->io[0][0] = (struct rlx_model_io){
		.name = input_name, .dtype = RLX_I64, .rank = 2, .dim = { -1, -1 },
		.dim_name = { "batch", "sequence" },
	};
	m->io[1][0] = (struct rlx_model_io){
		.name = output_name, .dtype = RLX_F32, .rank = 3,
		.dim = { -1, -1, llama_vocab(f) }, .dim_name = { "batch", "sequence", "" },
	};
	m->n_io[0] = m->n_io[1] = 1;
	for (i = 0; i < n; i++) {
		const struct rlx_gguf_tensor *t = rlx_gguf_at(w, i);

		m->tensor[i] = (struct rlx_named_tensor){ .name = t->name };
		if (t->type.dtype == RLX_NODTYPE)
			continue;
		m->tensor[i].type = t->type;
		m->tensor[i].data = t->data;
	}
	m->n_tensor = n;
	return true;
}

static enum rlx_status open_file(struct rlx_model *m, const char *path, struct rlx_error *err)
{
	struct llama *f;
	enum rlx_status st = llama_open(path, &f, err);

	if (st)
		return st;
	m->file = f;
	return describe(m, f) ? RLX_OK : rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
}

static void close_file(struct rlx_model *m)
{
	llama_put(m->file);
}

static const struct rlx_file *mapped(const struct rlx_model *m, unsigned int i)
{
	return i ? NULL : gguf_file(llama_gguf(m->file));
}

static enum rlx_status build(struct rlx_model *m, const struct rlx_instance *want,
			     struct rlx_segment *seg, struct rlx_error *err)
{
	const struct rlx_spec *in = want->n_spec == 1 ? &want->spec[0] : NULL;
	enum rlx_status st;

	*seg = (struct rlx_segment){ .need = RLX_NEED_NOTHING };
	if (!in || strcmp(in->name, input_name))
		return rlx_fail(err, RLX_ENOENT, "gguf: the one input is input_ids");
	if (in->kind != RLX_SPEC_TENSOR || in->type.dtype != RLX_I64 || in->type.rank != 2)
		return rlx_fail(err, RLX_ETYPE, "gguf: input_ids must be i64 of [batch, sequence]");
	seg->mem = rlx_calloc(1, sizeof(*seg->mem));
	seg->out = seg->mem ? rlx_bump_new(seg->mem, 1, sizeof(*seg->out)) : NULL;
	st = seg->out ? llama_graph(m->file, in->type.dim[0], in->type.dim[1], &seg->g, err) :
	     rlx_fail(err, RLX_ENOMEM, "gguf: out of memory");
	if (st) {
		rlx_segment_fini(seg);
		return st;
	}
	seg->n_out = 1;
	*seg->out = (struct rlx_spec){
		.kind = RLX_SPEC_TENSOR, .name = output_name,
		.type = rlx_type(RLX_F32, in->type.dim[0], in->type.dim[1],
				 llama_vocab(m->file)),
	};
	return RLX_OK;
}

const struct rlx_model_format rlx_format_gguf = {
	.name = "GGUF",
	.looks = "a file that begins with GGUF, of a llama, qwen2, qwen3, qwen3moe or gpt2",
	.probe = probe, .open = open_file, .close = close_file, .mapped = mapped, .build = build,
};
