// SPDX-License-Identifier: MIT
/* Adapters for an encoder whose weights stay: loss, retrieval, adapters and merged weights. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/formats/file.h"
#include "tools/rlx/train_encoder.h"

enum { PATH = 4096 };
static const char tail[] = ".weight";

/* ---- the encoder ---- */

/* Does "a,b" have @name, or the end of it behind a dot? */
static bool wanted(const char *targets, const char *name, size_t len)
{
	const char *s = targets, *end;
	size_t n;

	for (; *s; s = *end ? end + 1 : end) {
		end = s + strcspn(s, ",");
		n = (size_t)(end - s);
		if (n && n <= len && !strncmp(name + len - n, s, n) &&
		    (n == len || name[len - n - 1] == '.'))
			return true;
	}
	return false;
}

/* The length of the module's name in front of ".weight"; 0: it has none. */
static size_t module_of(const char *name)
{
	size_t n = strlen(name);

	return n > strlen(tail) && !strcmp(name + n - strlen(tail), tail) ? n - strlen(tail) : 0;
}

bool train_encoder_open(struct train_encoder *e, const struct train_config *c,
			struct rlx_error *err)
{
	const char *targets = c->targets ? c->targets : "query,value";
	const struct rlx_safetensors *f;
	struct rlx_bert_info info;
	uint32_t i, n;

	if (rlx_bert_open(c->base, &e->bert, err))
		return false;
	rlx_bert_info(e->bert, &info);
	e->width = info.hidden;
	if ((int64_t)c->context > info.max_seq) {
		rlx_fail(err, RLX_ERANGE, "[model] context is %llu; %s takes %lld tokens at most",
			 (unsigned long long)c->context, c->base, (long long)info.max_seq);
		return false;
	}
	f = rlx_bert_weights(e->bert);
	n = rlx_safetensors_count(f);
	e->weight = rlx_calloc(n + 1ul, sizeof(*e->weight));
	for (i = 0; e->weight && i < n; i++) {
		const struct rlx_safetensor *t = rlx_safetensors_at(f, i);
		size_t len = module_of(t->name);

		/* what a file has beside the blocks, no embedding uses */
		if (len && t->type.rank == 2 && strstr(t->name, "encoder.layer.") &&
		    wanted(targets, t->name, len))
			e->weight[e->n++] = (struct rlx_lora_weight){ t->name, t->data };
	}
	if (e->n)
		return true;
	rlx_fail(err, e->weight ? RLX_ENOENT : RLX_ENOMEM, e->weight ?
		 "[model] targets: no matrix in the blocks of %s is called %s" : "out of memory",
		 c->base, targets);
	return false;
}

void train_encoder_close(struct train_encoder *e)
{
	rlx_bert_put(e->bert);
	rlx_free(e->weight);
	rlx_free(e->row);
}

/* ---- loss ---- */

/* An i32 field, whose two leading dimensions become one, as i64. */
static rlx_value flat(struct rlx_graph *g, rlx_value x, int64_t context)
{
	const struct rlx_type *t = rlx_type_of(g, x);
	int64_t n = t && t->rank ? 2 * t->dim[0] : 2;

	x = rlx_emit(g, cast, .x = x, .to = RLX_I64);
	return context ? rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(n, context)) :
	       rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(n));
}

/* The encoder for 2 texts of each of the batch's pairs, with adapters; NULL: @g has failed. */
static struct rlx_graph *with_adapters(struct rlx_graph *g, const struct train_config *c,
				       const struct train_encoder *e)
{
	struct rlx_bert_opts o = {
		.size = sizeof(o), .batch = 2 * (int64_t)c->batch, .seq = (int64_t)c->context,
		.pool = RLX_BERT_MEAN, .normalise = true,
	};
	struct rlx_lora how = {
		.size = sizeof(how), .weight = e->weight, .n = e->n,
		.rank = (unsigned int)c->rank, .alpha = c->alpha,
	};
	struct rlx_graph *bert = NULL, *with = NULL;
	struct rlx_error err = { 0 };

	if (rlx_bert_graph(e->bert, &o, &bert, &err) || rlx_graph_lora(bert, &how, &with, &err))
		rlx_graph_fail(g, err.status, "%s", err.text);
	rlx_graph_put(bert);
	return with;
}

void train_encoder_loss(struct rlx_graph *g, struct rlx_vars *v, const struct rlx_loader *ld,
			const struct train_config *c, const struct train_encoder *e,
			struct train_out *out)
{
	static const char *const name[] = { "input_ids", "lengths" };
	rlx_value in[2] = { flat(g, rlx_loader_input(ld, g, "ids"), (int64_t)c->context),
			    flat(g, rlx_loader_input(ld, g, "lengths"), 0) };
	struct rlx_inline how = { .size = sizeof(how), .name = name, .value = in, .n = 2 };
	struct rlx_graph *with = with_adapters(g, c, e);
	int64_t n = (int64_t)c->batch;
	rlx_value x = RLX_NONE, half[2];
	int i;

	if (with)
		rlx_lora_inline(g, v, with, &how, &x);
	rlx_graph_put(with);
	out->right = RLX_NONE;
	out->logits = x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(n, 2, e->width));
	for (i = 0; i < 2; i++) {
		half[i] = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(1), .starts = RLX_INTS(i),
				   .ends = RLX_INTS(i + 1));
		half[i] = rlx_emit(g, reshape, .x = half[i], .shape = RLX_INTS(n, e->width));
	}
	out->loss = rlx_loss_info_nce(g, half[0], half[1], c->temperature);
}

/* ---- retrieval ---- */

bool train_encoder_keep(struct train_encoder *e, const float *rows, uint64_t n, uint64_t at)
{
	uint64_t one = 2 * (uint64_t)e->width;
	float *room;

	if (at + n > e->most) {
		room = rlx_realloc(e->row, (size_t)((at + n) * 2 * one) * sizeof(*room));
		if (!room)
			return false;
		e->row = room;
		e->most = 2 * (at + n);
	}
	memcpy(e->row + at * one, rows, (size_t)(n * one) * sizeof(*rows));
	e->n_row = at + n;
	return true;
}

static double dot(const float *a, const float *b, int64_t n)
{
	double sum = 0;
	int64_t i;

	for (i = 0; i < n; i++)
		sum += (double)a[i] * (double)b[i];
	return sum;
}

double train_encoder_right(const struct train_encoder *e)
{
	int64_t w = e->width;
	uint64_t right = 0, i, k;

	for (i = 0; i < e->n_row; i++) {
		const float *a = e->row + i * 2 * (uint64_t)w;
		double own = dot(a, a + w, w);

		for (k = 0; k < e->n_row; k++)
			if (k != i && dot(a, e->row + (2 * k + 1) * (uint64_t)w, w) >= own)
				break;
		right += k == e->n_row;
	}
	return e->n_row ? (double)right / (double)e->n_row : 0;
}

/* ---- what is written ---- */

/* A file beside the weights, if the base has it. */
static bool copy_file(const char *base, const char *to, const char *name, struct rlx_error *err)
{
	struct rlx_file_writer w;
	struct rlx_file f;
	enum rlx_status st;
	char path[PATH + 64];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	if (access(path, F_OK))
		return true;
	if (rlx_file_map(&f, path, err))
		return false;
	snprintf(path, sizeof(path), "%s/%s", to, name);
	st = rlx_file_write_begin(&w, path, err);
	if (!st)
		st = rlx_file_write_end(&w, rlx_file_put(&w, f.p, f.n, err), err);
	rlx_file_unmap(&f);
	return !st;
}

static bool write_merged(const struct train_encoder *e, const struct train_config *c,
			 const struct rlx_safetensor *half, struct rlx_error *err)
{
	static const char *const beside[] = { "config.json", "tokenizer.json", "vocab.txt",
					      "tokenizer_config.json" };
	const struct rlx_safetensors *f = rlx_bert_weights(e->bert);
	uint32_t n = rlx_safetensors_count(f), i, k;
	struct rlx_safetensor *t = rlx_calloc(n + 1ul, sizeof(*t));
	char to[PATH], path[PATH + 32];
	bool ok = t;

	if (!t)
		rlx_fail(err, RLX_ENOMEM, "out of memory for the merged weights");
	snprintf(to, sizeof(to), "%s/merged", c->folder);
	if (ok && mkdir(to, 0777) && errno != EEXIST) {
		rlx_fail(err, RLX_EACCES, "folder %s cannot be made: %s", to, strerror(errno));
		ok = false;
	}
	for (i = 0; ok && i < n; i++) {
		struct rlx_lora_merge m = { .size = sizeof(m), .w = rlx_safetensors_at(f, i),
					    .scale = c->alpha / (double)c->rank };

		t[i] = *m.w;
		for (k = 0; k < e->n && e->weight[k].data != m.w->data; k++)
			;
		if (k == e->n)
			continue;
		m.a = &half[2 * k];
		m.b = &half[2 * k + 1];
		t[i].data = rlx_malloc((size_t)rlx_type_bytes(&t[i].type));
		if (!t[i].data)
			rlx_fail(err, RLX_ENOMEM, "out of memory for the merged weights");
		ok = t[i].data && !rlx_lora_merge(&m, (void *)(uintptr_t)t[i].data, err);
	}
	snprintf(path, sizeof(path), "%s/model.safetensors", to);
	ok = ok && !rlx_safetensors_write(path, t, n,
					  (const char *const[]){ "format", "pt", NULL }, err);
	for (i = 0; ok && i < sizeof(beside) / sizeof(beside[0]); i++)
		ok = copy_file(c->base, to, beside[i], err);
	for (i = 0; t && i < n; i++)
		if (t[i].data != rlx_safetensors_at(f, i)->data)
			rlx_free((void *)(uintptr_t)t[i].data);
	rlx_free(t);
	return ok;
}

bool train_encoder_write(const struct train_encoder *e, const struct train_config *c,
			 const struct train_states *from, struct rlx_error *err)
{
	struct rlx_safetensor *half = rlx_calloc(2 * (size_t)e->n, sizeof(*half));
	char (*name)[256] = rlx_calloc(2 * (size_t)e->n, sizeof(*name)), path[PATH];
	struct rlx_lora_file f = {
		.size = sizeof(f), .tensor = half, .n = 2 * e->n, .rank = (unsigned int)c->rank,
		.alpha = c->alpha, .base = c->base,
	};
	bool ok = half && name;
	unsigned int i;

	if (!ok)
		rlx_fail(err, RLX_ENOMEM, "out of memory for the adapters");
	for (i = 0; ok && i < f.n; i++) {
		snprintf(name[i], sizeof(name[i]), "%.*s.lora_%c.weight",
			 (int)module_of(e->weight[i / 2].name), e->weight[i / 2].name,
			 i % 2 ? 'B' : 'A');
		half[i].name = name[i];
		half[i].data = from->get(from->ctx, name[i], &half[i].type);
		ok = half[i].data;
		if (!ok)
			rlx_fail(err, RLX_ENOENT, "state %s is not to be had", name[i]);
	}
	snprintf(path, sizeof(path), "%s/adapter", c->folder);
	ok = ok && !rlx_lora_write(path, &f, err) && write_merged(e, c, half, err);
	rlx_free(half);
	rlx_free(name);
	return ok;
}
