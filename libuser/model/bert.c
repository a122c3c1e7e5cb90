// SPDX-License-Identifier: MIT
/* BERT encoders built from config.json and model.safetensors. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "io/formats/file.h"
#include "ir/graph.h"
#include "model/mapped.h"
#include "rlx/bert.h"
#include "rlx/blocks.h"
#include "rlx/safetensors.h"

/* The mapped file; every blob of it holds a reference. */
struct weights {
	atomic_uint		refs;
	struct rlx_safetensors	*file;
};

struct rlx_bert {
	atomic_uint		refs;
	struct rlx_bert_info	info;
	double			eps;
	enum rlx_act		act;
	const char		*prefix;	/* of all names: "" or "bert." */
	struct weights		*w;
	struct rlx_blob		**blob;		/* by place in the file; NULL: not used */
	uint32_t		n_blob;
	/* Guards @places: positions with token type 0 added, as many as were asked for. */
	pthread_mutex_t		lock;
	struct rlx_blob		*places;
};

/* Building: where, and the message of what a name lookup met. */
struct build {
	struct rlx_bert		*b;
	struct rlx_graph	*g;
	struct rlx_error	*err;
	int64_t			 batch, seq;
};

static void weights_put(void *ctx)
{
	struct weights *w = ctx;

	if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1)
		return;
	rlx_safetensors_close(w->file);
	rlx_free(w);
}

/* A blob over the first @bytes of tensor @t. */
static struct rlx_blob *blob_over(struct weights *w, const struct rlx_safetensor *t,
				  size_t bytes)
{
	struct rlx_blob *blob;

	atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
	blob = rlx_blob_new(t->data, bytes, weights_put, w);
	if (!blob)
		weights_put(w);
	rlx_blob_set_source(blob, rlx_safetensors_source(w->file), t->offset);
	return blob;
}

static bool int_at(const struct rlx_json *j, const char *key, int64_t lo, int64_t *out)
{
	uint32_t i = rlx_json_get(j, 0, key);

	return i && rlx_json_int(j, i, out) && *out >= lo && *out <= INT32_MAX;
}

static enum rlx_status config_sizes(struct rlx_bert *b, const struct rlx_json *j,
				    struct rlx_error *err)
{
	struct rlx_bert_info *f = &b->info;
	const struct {
		const char	*key;
		int64_t		*to;
	} sizes[] = {
		{ "hidden_size", &f->hidden }, { "num_hidden_layers", &f->layers },
		{ "num_attention_heads", &f->heads }, { "intermediate_size", &f->inner },
		{ "vocab_size", &f->vocab }, { "max_position_embeddings", &f->max_seq },
		{ "type_vocab_size", &f->types },
	};
	unsigned int i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (!int_at(j, sizes[i].key, 1, sizes[i].to))
			return rlx_fail(err, RLX_EPARSE, "%s: %s is not a number from 1 on",
					j->name, sizes[i].key);
	if (f->hidden % f->heads)
		return rlx_fail(err, RLX_ESHAPE,
				"%s: hidden_size %lld is not a multiple of %lld heads", j->name,
				(long long)f->hidden, (long long)f->heads);
	return RLX_OK;
}

static enum rlx_status config_kind(struct rlx_bert *b, const struct rlx_json *j,
				   struct rlx_error *err)
{
	static const struct {
		const char	*name;
		enum rlx_act	 act;
	} acts[] = {
		{ "gelu", RLX_ACT_GELU }, { "gelu_new", RLX_ACT_GELU_TANH },
		{ "gelu_pytorch_tanh", RLX_ACT_GELU_TANH }, { "relu", RLX_ACT_RELU },
	};
	uint32_t type = rlx_json_get(j, 0, "model_type");
	uint32_t act = rlx_json_get(j, 0, "hidden_act");
	uint32_t pos = rlx_json_get(j, 0, "position_embedding_type");
	uint32_t eps = rlx_json_get(j, 0, "layer_norm_eps");
	unsigned int i;

	if (!type || !rlx_json_str_is(j, type, "bert"))
		return rlx_fail(err, RLX_ENOSUP, "%s: model_type is not \"bert\"", j->name);
	if (pos && !rlx_json_str_is(j, pos, "absolute"))
		return rlx_fail(err, RLX_ENOSUP,
				"%s: position_embedding_type is not \"absolute\"", j->name);
	for (i = 0; act && i < sizeof(acts) / sizeof(acts[0]); i++)
		if (rlx_json_str_is(j, act, acts[i].name))
			break;
	if (!act || i == sizeof(acts) / sizeof(acts[0]))
		return rlx_fail(err, RLX_ENOSUP,
				"%s: hidden_act is none of gelu, gelu_new, gelu_pytorch_tanh, relu",
				j->name);
	b->act = acts[i].act;
	b->eps = 1e-12;
	if (eps && (!rlx_json_double(j, eps, &b->eps) || !(b->eps >= 0 && b->eps < 1)))
		return rlx_fail(err, RLX_EPARSE, "%s: layer_norm_eps is not in [0, 1)", j->name);
	return RLX_OK;
}

static enum rlx_status read_config(struct rlx_bert *b, const char *path,
				   struct rlx_error *err)
{
	struct rlx_json j = { 0 };
	struct rlx_file f;
	enum rlx_status st = rlx_file_map(&f, path, err);

	if (st)
		return st;
	st = rlx_json_parse(&j, (const char *)f.p, f.n, NULL, path, err);
	if (!st)
		st = config_kind(b, &j, err);
	if (!st)
		st = config_sizes(b, &j, err);
	rlx_json_fini(&j);
	rlx_file_unmap(&f);
	return st;
}

static const struct rlx_safetensor *find(const struct rlx_bert *b, const char *name,
					 uint32_t *out_i)
{
	char full[160];
	const struct rlx_safetensor *t;

	snprintf(full, sizeof(full), "%s%s", b->prefix, name);
	t = rlx_safetensors_find(b->w->file, full);
	*out_i = t ? (uint32_t)(t - rlx_safetensors_at(b->w->file, 0)) : b->n_blob;
	return t;
}

/* Take note of a tensor; its shape is [d0] or [d0, d1]. */
static enum rlx_status need(struct rlx_bert *b, const char *name, int64_t d0, int64_t d1,
			    struct rlx_error *err)
{
	struct rlx_type want = d1 ? rlx_type(RLX_F32, d0, d1) : rlx_type(RLX_F32, d0);
	const struct rlx_safetensor *t;
	char have[96], text[96];
	uint32_t i;

	t = find(b, name, &i);
	if (!t)
		return rlx_fail(err, RLX_ENOENT, "bert: the weights have no tensor '%s%s'",
				b->prefix, name);
	want.dtype = t->type.dtype;
	rlx_type_print(&t->type, have, sizeof(have));
	rlx_type_print(&want, text, sizeof(text));
	if (!rlx_type_equal(&want, &t->type))
		return rlx_fail(err, RLX_ESHAPE,
				"bert: '%s' is %s; config.json makes it %s", t->name, have, text);
	if (!rlx_dtype_is_float(t->type.dtype))
		return rlx_fail(err, RLX_ETYPE, "bert: '%s' is %s, not a float", t->name, have);
	if (!b->blob[i])
		b->blob[i] = blob_over(b->w, t, (size_t)rlx_type_bytes(&t->type));
	if (!b->blob[i])
		return rlx_fail(err, RLX_ENOMEM, "bert: out of memory");
	b->info.weight_bytes += rlx_blob_bytes(b->blob[i]);
	return RLX_OK;
}

/* The weight and bias behind @name, of a linear layer (@in > 0) or a norm. */
static enum rlx_status need_pair(struct rlx_bert *b, const char *name, int64_t out,
				 int64_t in, struct rlx_error *err)
{
	char full[128];
	enum rlx_status st;

	snprintf(full, sizeof(full), "%s.weight", name);
	st = need(b, full, out, in, err);
	snprintf(full, sizeof(full), "%s.bias", name);
	return st ? st : need(b, full, out, 0, err);
}

static const char *layer_name(char buf[96], int64_t layer, const char *part)
{
	snprintf(buf, 96, "encoder.layer.%lld.%s", (long long)layer, part);
	return buf;
}

static enum rlx_status need_all(struct rlx_bert *b, struct rlx_error *err)
{
	int64_t h = b->info.hidden, m = b->info.inner, l;
	const struct {
		const char	*name;
		int64_t		 out, in;
	} parts[] = {
		{ "attention.self.query", h, h }, { "attention.self.key", h, h },
		{ "attention.self.value", h, h }, { "attention.output.dense", h, h },
		{ "attention.output.LayerNorm", h, 0 }, { "intermediate.dense", m, h },
		{ "output.dense", h, m }, { "output.LayerNorm", h, 0 },
	};
	enum rlx_status st;
	char name[96];
	unsigned int i;

	st = need(b, "embeddings.word_embeddings.weight", b->info.vocab, h, err);
	if (!st)
		st = need(b, "embeddings.position_embeddings.weight", b->info.max_seq, h, err);
	if (!st)
		st = need(b, "embeddings.token_type_embeddings.weight", b->info.types, h, err);
	if (!st)
		st = need_pair(b, "embeddings.LayerNorm", h, 0, err);
	for (l = 0; !st && l < b->info.layers; l++)
		for (i = 0; !st && i < sizeof(parts) / sizeof(parts[0]); i++)
			st = need_pair(b, layer_name(name, l, parts[i].name), parts[i].out,
				       parts[i].in, err);
	return st;
}

static enum rlx_status map_weights(struct rlx_bert *b, const char *path,
				   struct rlx_error *err)
{
	enum rlx_status st;

	b->w = rlx_calloc(1, sizeof(*b->w));
	if (!b->w)
		return rlx_fail(err, RLX_ENOMEM, "bert: out of memory");
	atomic_init(&b->w->refs, 1);
	st = rlx_safetensors_open(path, &b->w->file, err);
	if (st)
		return st;
	b->n_blob = rlx_safetensors_count(b->w->file);
	b->blob = rlx_calloc((size_t)b->n_blob + 1, sizeof(struct rlx_blob *));
	if (!b->blob)
		return rlx_fail(err, RLX_ENOMEM, "bert: out of memory");
	b->prefix = rlx_safetensors_find(b->w->file, "bert.embeddings.LayerNorm.weight") ?
		    "bert." : "";
	return need_all(b, err);
}

enum rlx_status rlx_bert_open(const char *dir, struct rlx_bert **out,
			      struct rlx_error *err)
{
	static const char config[] = "config.json", weights[] = "model.safetensors";
	struct rlx_bert *b;
	enum rlx_status st = RLX_ENOMEM;
	char *path;
	size_t n;

	if (!dir || !out)
		return rlx_fail(err, RLX_EINVAL, "bert: a folder and a place for it are needed");
	*out = NULL;
	n = strlen(dir) + 1 + sizeof(weights);
	b = rlx_calloc(1, sizeof(*b));
	path = rlx_malloc(n);
	if (!b || !path) {
		rlx_fail(err, RLX_ENOMEM, "%s: out of memory", dir);
		goto out_put;
	}
	atomic_init(&b->refs, 1);
	pthread_mutex_init(&b->lock, NULL);
	snprintf(path, n, "%s/%s", dir, config);
	st = read_config(b, path, err);
	if (st)
		goto out_put;
	snprintf(path, n, "%s/%s", dir, weights);
	st = map_weights(b, path, err);
	if (st)
		goto out_put;
	*out = b;
	b = NULL;
out_put:
	rlx_free(path);
	if (b) {
		atomic_store(&b->refs, 1);
		rlx_bert_put(b);
	}
	return st;
}

const struct rlx_file *rlx_bert_mapped(const struct rlx_bert *b, unsigned int i)
{
	return i ? NULL : rlx_safetensors_mapped(b->w->file);
}

const struct rlx_safetensors *rlx_bert_weights(const struct rlx_bert *b)
{
	return b ? b->w->file : NULL;
}

struct rlx_bert *rlx_bert_get(struct rlx_bert *b)
{
	if (b)
		atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	return b;
}

void rlx_bert_put(struct rlx_bert *b)
{
	uint32_t i;

	if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (i = 0; b->blob && i < b->n_blob; i++)
		rlx_blob_put(b->blob[i]);
	rlx_free(b->blob);
	rlx_blob_put(b->places);
	if (b->w)
		weights_put(b->w);
	pthread_mutex_destroy(&b->lock);
	rlx_free(b);
}

void rlx_bert_info(const struct rlx_bert *b, struct rlx_bert_info *out)
{
	if (out)
		*out = b ? b->info : (struct rlx_bert_info){ 0 };
}

static rlx_value as_f32(struct build *q, rlx_value v, enum rlx_dtype dt)
{
	return dt == RLX_F32 ? v : rlx_emit(q->g, cast, .x = v, .to = RLX_F32);
}

/* A whole tensor of the file as a constant. */
static rlx_value weight(struct build *q, const char *name, const char *leaf)
{
	const struct rlx_safetensor *t;
	char full[128];
	uint32_t i;

	snprintf(full, sizeof(full), "%s.%s", name, leaf);
	t = find(q->b, full, &i);	/* there: need_all() has found it */
	return as_f32(q, rlx_constant_blob(q->g, t->type, q->b->blob[i]), t->type.dtype);
}

/* The first @rows rows of a table: a shorter look at the same bytes. */
static rlx_value first_rows(struct build *q, const char *name, int64_t rows)
{
	const struct rlx_safetensor *t;
	struct rlx_blob *blob;
	struct rlx_type type;
	rlx_value v;
	uint32_t i;

	t = find(q->b, name, &i);
	type = rlx_type(t->type.dtype, rows, t->type.dim[1]);
	blob = blob_over(q->b->w, t, (size_t)rlx_type_bytes(&type));
	if (!blob) {
		rlx_fail(q->err, RLX_ENOMEM, "bert: out of memory");
		return RLX_NONE;
	}
	v = rlx_constant_blob(q->g, type, blob);
	rlx_blob_put(blob);
	return as_f32(q, v, type.dtype);
}

/* Rows of two tables, the second one's first added to each. NULL: no memory. */
static struct rlx_blob *add_rows(const float *p, const float *t, size_t rows, size_t width)
{
	size_t n = rows * width, i;
	float *sum = rlx_aligned(64, n * sizeof(*sum));	/* no more than the file has */
	struct rlx_blob *blob;

	if (!sum)
		return NULL;
	for (i = 0; i < n; i++)
		sum[i] = p[i] + t[i % width];
	blob = rlx_blob_new(sum, n * sizeof(*sum), rlx_free, sum);
	if (!blob)
		rlx_free(sum);
	return blob;
}

/*
 * The first @bytes of what each place in a text adds, where token types are not told:
 * one sum for all graphs, of which each would fold it by itself, unless a longer one is
 * asked for later. NULL: no memory.
 */
static struct rlx_blob *places_over(struct rlx_bert *b, const float *p, const float *t,
				    size_t bytes)
{
	size_t width = (size_t)b->info.hidden;
	struct rlx_blob *sum, *blob;

	pthread_mutex_lock(&b->lock);
	if (rlx_blob_bytes(b->places) < bytes) {
		rlx_blob_put(b->places);
		b->places = add_rows(p, t, bytes / sizeof(*p) / width, width);
	}
	sum = rlx_blob_get(b->places);
	pthread_mutex_unlock(&b->lock);
	blob = sum ? rlx_blob_part(sum, 0, bytes) : NULL;
	rlx_blob_put(sum);
	return blob;
}

/* What is added to the words of texts of q->seq places. */
static rlx_value places(struct build *q)
{
	static const char positions[] = "embeddings.position_embeddings.weight";
	static const char kinds[] = "embeddings.token_type_embeddings.weight";
	struct rlx_type type = rlx_type(RLX_F32, q->seq, q->b->info.hidden);
	const struct rlx_safetensor *p, *t;
	struct rlx_blob *blob;
	rlx_value v;
	uint32_t i;

	p = find(q->b, positions, &i);
	t = find(q->b, kinds, &i);
	if (p->type.dtype != RLX_F32 || t->type.dtype != RLX_F32 ||
	    (uintptr_t)p->data % sizeof(float) || (uintptr_t)t->data % sizeof(float))
		return rlx_emit(q->g, add,	/* two constants make one */
				.a = first_rows(q, positions, q->seq),
				.b = first_rows(q, kinds, 1));
	blob = places_over(q->b, p->data, t->data, (size_t)rlx_type_bytes(&type));
	if (!blob) {
		rlx_fail(q->err, RLX_ENOMEM, "bert: out of memory");
		return RLX_NONE;
	}
	v = rlx_constant_blob(q->g, type, blob);
	rlx_blob_put(blob);
	return v;
}

/* The file holds W as [out, in]. */
static struct rlx_linear linear(struct build *q, const char *name)
{
	return (struct rlx_linear){ .w = weight(q, name, "weight"),
				    .bias = weight(q, name, "bias") };
}

static struct rlx_norm norm(struct build *q, const char *name)
{
	return (struct rlx_norm){ .gamma = weight(q, name, "weight"),
				  .beta = weight(q, name, "bias"), .eps = (float)q->b->eps };
}

static rlx_value layer(struct build *q, rlx_value x, rlx_value lengths, int64_t l)
{
	char n[96];
	struct rlx_attention_block a = {
		.size = sizeof(a), .q = linear(q, layer_name(n, l, "attention.self.query")),
		.k = linear(q, layer_name(n, l, "attention.self.key")),
		.v = linear(q, layer_name(n, l, "attention.self.value")),
		.out = linear(q, layer_name(n, l, "attention.output.dense")),
		.heads = (int32_t)q->b->info.heads, .lens = lengths,
	};
	struct rlx_ffn_block f = {
		.size = sizeof(f), .up = linear(q, layer_name(n, l, "intermediate.dense")),
		.down = linear(q, layer_name(n, l, "output.dense")),
	};
	struct rlx_layer_block all = {
		.size = sizeof(all), .attention = &a, .ffn = &f, .post_norm = true,
		.norm1 = norm(q, layer_name(n, l, "attention.output.LayerNorm")),
		.norm2 = norm(q, layer_name(n, l, "output.LayerNorm")),
	};

	f.up.act = (int32_t)q->b->act;
	return rlx_block_layer(q->g, x, &all);
}

static rlx_value embed(struct build *q, rlx_value ids, rlx_value types)
{
	static const char name[] = "embeddings.LayerNorm";
	struct rlx_graph *g = q->g;
	rlx_value x = rlx_emit(g, gather,
			       .x = weight(q, "embeddings.word_embeddings", "weight"),
			       .indices = ids);
	rlx_value pos = types.id ?
		first_rows(q, "embeddings.position_embeddings.weight", q->seq) : places(q);

	if (types.id)
		x = rlx_emit(g, add, .a = x, .b = rlx_emit(g, gather,
			.x = weight(q, "embeddings.token_type_embeddings", "weight"),
			.indices = types));
	return rlx_emit(g, fused_residual_norm, .x = x, .residual = pos,
			.gamma = weight(q, name, "weight"), .beta = weight(q, name, "bias"),
			.kind = RLX_NORM_LAYER, .eps = (float)q->b->eps);
}

/* The mean over the first lengths[b] rows of each x[b]: all keys weigh the same. */
static rlx_value mean(struct build *q, rlx_value x, rlx_value lengths)
{
	rlx_value zero = rlx_emit(q->g, expand, .x = rlx_scalar_const(q->g, RLX_F32, 0),
				  .shape = RLX_INTS(q->batch, 1, q->b->info.hidden));

	x = rlx_emit(q->g, attention, .q = zero, .k = x, .v = x, .lens = lengths,
		     .heads = (int32_t)q->b->info.heads);
	return rlx_emit(q->g, reshape, .x = x, .shape = RLX_INTS(q->batch, q->b->info.hidden));
}

static rlx_value first_token(struct build *q, rlx_value x)
{
	x = rlx_emit(q->g, slice, .x = x, .starts = RLX_INTS(0), .ends = RLX_INTS(1),
		     .axes = RLX_INTS(1));
	return rlx_emit(q->g, reshape, .x = x,
			.shape = RLX_INTS(q->batch, q->b->info.hidden));
}

/* x by the root of its squares' sum, which is their mean times the width. */
static rlx_value unit_length(struct build *q, rlx_value x)
{
	double width = (double)q->b->info.hidden;
	rlx_value by = rlx_emit(q->g, expand, .x = rlx_scalar_const(q->g, RLX_F32, 1 / sqrt(width)),
				.shape = RLX_INTS(q->b->info.hidden));

	return rlx_emit(q->g, rms_norm, .x = x, .gamma = by, .axis = -1,
			.eps = (float)(1e-24 / width));
}

static enum rlx_status check_opts(const struct rlx_bert *b, const struct rlx_bert_opts *o,
				  struct rlx_error *err)
{
	if (o->batch < 1 || (unsigned int)o->pool > RLX_BERT_CLS)
		return rlx_fail(err, RLX_EINVAL, "bert: batch is %lld, pool %d",
				(long long)o->batch, (int)o->pool);
	if (o->seq < 1 || o->seq > b->info.max_seq)
		return rlx_fail(err, RLX_ERANGE, "bert: seq is %lld; the model takes 1 to %lld",
				(long long)o->seq, (long long)b->info.max_seq);
	return RLX_OK;
}

enum rlx_status rlx_bert_graph(struct rlx_bert *b, const struct rlx_bert_opts *opts,
			       struct rlx_graph **out_g, struct rlx_error *err)
{
	struct rlx_bert_opts o = { 0 };
	struct rlx_error own = { 0 };
	struct build q = { .b = b };
	rlx_value ids, lengths, types = RLX_NONE, x;
	enum rlx_status st;
	int64_t l;

	q.err = err ? err : &own;
	if (!b || !opts || !opts->size || !out_g)
		return rlx_fail(q.err, RLX_EINVAL, "bert graph: an argument is missing");
	memcpy(&o, opts, opts->size < sizeof(o) ? opts->size : sizeof(o));
	*out_g = NULL;
	st = check_opts(b, &o, q.err);
	if (st)
		return st;
	q.batch = o.batch;
	q.seq = o.seq;
	q.g = rlx_graph_new("bert");
	ids = rlx_input(q.g, "input_ids", rlx_type(RLX_I64, o.batch, o.seq));
	lengths = rlx_input(q.g, "lengths", rlx_type(RLX_I64, o.batch));
	if (o.type_ids)
		types = rlx_input(q.g, "token_type_ids", rlx_type(RLX_I64, o.batch, o.seq));
	x = embed(&q, ids, types);
	for (l = 0; l < b->info.layers; l++)
		x = layer(&q, x, lengths, l);
	if (o.pool != RLX_BERT_TOKENS)
		x = o.pool == RLX_BERT_MEAN ? mean(&q, x, lengths) : first_token(&q, x);
	if (o.normalise)
		x = unit_length(&q, x);
	rlx_output(q.g, o.pool == RLX_BERT_TOKENS ? "last_hidden_state" : "embedding", x);
	st = rlx_graph_finish(q.g);
	if (st || q.err->status) {
		if (!q.err->status)
			*q.err = *rlx_graph_error(q.g);
		rlx_graph_put(q.g);
		return q.err->status;
	}
	*out_g = q.g;
	return RLX_OK;
}
