// SPDX-License-Identifier: MIT
/* Texts to vectors, through buckets of sequence lengths in one arena. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/rlx/encoder.h"

static const int64_t lengths[ENCODER_BUCKETS] = { 16, 32, 48, 64, 96, 128, 192, 256 };

enum rlx_status encoder_tokenizer(const char *dir, const char *path, struct rlx_tokenizer **tok,
				  struct rlx_tokenizer_scratch **scratch, struct rlx_error *err)
{
	char text[4096];
	enum rlx_status st;

	if (!path && !dir)
		return rlx_fail(err, RLX_EINVAL,
				"an ONNX file needs --tokenizer, a tokenizer.json or vocab.txt");
	if (!path) {
		snprintf(text, sizeof(text), "%s/tokenizer.json", dir);
		if (access(text, F_OK))
			snprintf(text, sizeof(text), "%s/vocab.txt", dir);
		path = text;
	}
	st = rlx_tokenizer_new_file(path, NULL, tok, err);
	return st ? st : rlx_tokenizer_scratch_new(*tok, scratch, err);
}

/* A model with fewer positions than the longest bucket: cut there. */
static void fit_model(struct encoder *e)
{
	struct rlx_bert_info info;
	unsigned int i;

	rlx_bert_info(e->bert, &info);
	if (info.max_seq < e->max_tokens)
		e->max_tokens = (uint32_t)info.max_seq;
	for (i = 0; i < ENCODER_BUCKETS; i++)
		if (e->bucket[i].seq > info.max_seq)
			e->bucket[i].seq = info.max_seq;
}

enum rlx_status encoder_open(struct encoder *e, const char *model, const char *tokenizer,
			     const struct rlx_compile_opts *opts, uint32_t max_tokens,
			     struct rlx_error *err)
{
	struct stat sb;
	bool dir = !stat(model, &sb) && S_ISDIR(sb.st_mode);
	enum rlx_status st;
	unsigned int i;

	*e = (struct encoder){ .opts = *opts, .max_tokens = max_tokens };
	for (i = 0; i < ENCODER_BUCKETS; i++)
		e->bucket[i].seq = lengths[i];
	st = dir ? rlx_bert_open(model, &e->bert, err) :
	     rlx_model_open(model, &e->model, err);
	if (!st && dir)
		fit_model(e);
	else if (!st)
		st = rlx_runner_new(e->model, opts, &e->runner, err);
	return st ? st : encoder_tokenizer(dir ? model : NULL, tokenizer, &e->tok, &e->scratch,
					   err);
}

static struct encoder_bucket *bucket_of(struct encoder *e, uint32_t tokens)
{
	unsigned int i;

	for (i = 0; i + 1 < ENCODER_BUCKETS && e->bucket[i].seq < tokens; i++)
		;
	return &e->bucket[i];
}

enum rlx_status encoder_count(struct encoder *e, const char *text, size_t len,
			      uint32_t *out_tokens, struct rlx_error *err)
{
	struct rlx_encode_opts o = { .max_tokens = e->max_tokens };
	struct rlx_encoding enc = { 0 };
	enum rlx_status st = rlx_tokenizer_encode(e->scratch, text, len, &o, &enc, err);

	if (st)
		return st;
	*out_tokens = enc.n;
	bucket_of(e, enc.n)->wanted = true;
	return RLX_OK;
}

static enum rlx_status compile_bert(struct encoder *e, struct encoder_bucket *b,
				    struct rlx_error *err)
{
	struct rlx_bert_opts o = {
		.size = sizeof(o), .batch = 1, .seq = b->seq,
		.pool = RLX_BERT_MEAN, .normalise = true,
	};
	struct rlx_graph *g;
	enum rlx_status st = rlx_bert_graph(e->bert, &o, &g, err);

	if (st)
		return st;
	st = rlx_compile(g, &e->opts, &b->program, err);
	rlx_graph_put(g);
	return st;
}

/* A model file's program is compiled by the runner, for inputs of this length. */
static enum rlx_status compile_onnx(struct encoder *e, struct encoder_bucket *b,
				    struct rlx_error *err)
{
	unsigned int n = rlx_model_io_count(e->model, RLX_IO_INPUT), i;
	struct rlx_named_tensor in[3];
	int64_t zeros[512] = { 0 };
	struct rlx_session *s;
	struct rlx_model_io io;

	if (n > 3)
		return rlx_fail(err, RLX_ENOSUP,
				"the model has %u inputs; known are input_ids, "
				"attention_mask and token_type_ids", n);
	for (i = 0; i < n; i++) {
		rlx_model_io_at(e->model, RLX_IO_INPUT, i, &io);
		if (io.dtype != RLX_I64 || (strcmp(io.name, "input_ids") &&
		    strcmp(io.name, "attention_mask") && strcmp(io.name, "token_type_ids")))
			return rlx_fail(err, RLX_ENOSUP,
					"the model's input '%s' is not i64 input_ids, "
					"attention_mask or token_type_ids", io.name);
		in[i] = (struct rlx_named_tensor){ io.name, rlx_type(RLX_I64, 1, b->seq), zeros };
	}
	s = rlx_runner_session(e->runner, in, n, err);
	if (!s)
		return err->status;
	b->program = rlx_program_get(rlx_session_program(s));
	return RLX_OK;
}

/* The one output that a vector can be made of. */
static enum rlx_status find_output(struct encoder *e, struct encoder_bucket *b,
				   struct rlx_error *err)
{
	const struct rlx_type *t = rlx_program_io_type(b->program, RLX_IO_OUTPUT, 0);

	if (!t || t->dtype != RLX_F32 || t->rank < 2 || t->rank > 3 || t->dim[0] != 1 ||
	    (t->rank == 3 && t->dim[1] != b->seq))
		return rlx_fail(err, RLX_ENOSUP,
				"the model's first output is neither f32[1, tokens, width] "
				"nor f32[1, width]");
	b->out_type = *t;
	b->out_name = rlx_program_io_name(b->program, RLX_IO_OUTPUT, 0);
	if (e->width && e->width != t->dim[t->rank - 1])
		return rlx_fail(err, RLX_ESHAPE, "the width of the model's output changes");
	e->width = t->dim[t->rank - 1];
	return RLX_OK;
}

static int64_t *input(struct encoder_bucket *b, const char *name)
{
	struct rlx_buf buf;

	if (rlx_program_io_find(b->program, RLX_IO_INPUT, name) < 0)
		return NULL;
	buf = rlx_session_buf(b->session, RLX_IO_INPUT, name);
	return rlx_buf_ptr(buf);
}

static enum rlx_status open_session(struct encoder *e, struct encoder_bucket *b,
				    struct rlx_error *err)
{
	struct rlx_session_opts o = { .size = sizeof(o), .arena = e->arena };
	enum rlx_status st = rlx_session_new(b->program, &o, &b->session, err);

	if (st)
		return st;
	b->ids = input(b, "input_ids");
	b->types = input(b, "token_type_ids");
	b->mask = input(b, "attention_mask");
	b->length = input(b, "lengths");
	if (!b->ids)
		return rlx_fail(err, RLX_ENOMEM, "no memory for the inputs of %lld tokens",
				(long long)b->seq);
	return RLX_OK;
}

enum rlx_status encoder_load(struct encoder *e, uint64_t n_rows, struct rlx_error *err)
{
	struct rlx_arena_opts o = { .name = "embed" };
	struct rlx_program_info info;
	enum rlx_status st = RLX_OK;
	unsigned int i;

	for (i = 0; !st && i < ENCODER_BUCKETS; i++) {
		struct encoder_bucket *b = &e->bucket[i];

		if (!b->wanted)
			continue;
		st = e->bert ? compile_bert(e, b, err) : compile_onnx(e, b, err);
		if (!st)
			st = find_output(e, b, err);
		if (st)
			break;
		rlx_program_info(b->program, &info);
		e->compile_ns += info.compile_ns;
		e->pack_ns += info.pack_ns;
		o.size += info.session_bytes;
	}
	if (st)
		return st;
	e->n_rows = n_rows;
	e->row_bytes = rlx_align64((uint64_t)e->width * sizeof(float));
	if (n_rows > (UINT64_MAX >> 1) / (e->row_bytes + 1))
		return rlx_fail(err, RLX_ERANGE, "too many vectors");
	o.size += n_rows * e->row_bytes + 4096;
	st = rlx_arena_new(&o, &e->arena, err);
	if (!st)
		st = rlx_buf_new(e->arena, n_rows * e->row_bytes, 64, &e->rows, err);
	for (i = 0; !st && i < ENCODER_BUCKETS; i++)
		if (e->bucket[i].wanted)
			st = open_session(e, &e->bucket[i], err);
	return st;
}

/* The mean over the tokens that count, as the graph of a folder's model does. */
static void pool(const struct encoder_bucket *b, uint32_t tokens, float *row)
{
	const float *x = rlx_buf_ptr(rlx_session_buf(b->session, RLX_IO_OUTPUT, b->out_name));
	int64_t width = b->out_type.dim[b->out_type.rank - 1], t, k;
	int64_t n = b->out_type.rank == 3 ? tokens : 1;
	double sum, len = 0;

	for (k = 0; k < width; k++) {
		for (sum = 0, t = 0; t < n; t++)
			sum += (double)x[t * width + k];
		row[k] = (float)(sum / (double)n);
		len += sum / (double)n * (sum / (double)n);
	}
	len = len > 0 ? 1 / sqrt(len) : 0;
	for (k = 0; k < width; k++)
		row[k] = (float)((double)row[k] * len);
}

static void fill_inputs(struct encoder_bucket *b, uint32_t tokens)
{
	int64_t k;

	for (k = 0; k < b->seq; k++) {
		if (k >= tokens)
			b->ids[k] = 0;	/* any id that exists: nothing looks at it */
		if (b->types)
			b->types[k] = 0;
		if (b->mask)
			b->mask[k] = k < tokens;
	}
	if (b->length)
		*b->length = tokens;
}

enum rlx_status encoder_run(struct encoder *e, const char *text, size_t len,
			    uint32_t tokens, uint64_t row, struct rlx_error *err)
{
	struct rlx_encode_opts o = { .max_tokens = e->max_tokens };
	struct encoder_bucket *b = bucket_of(e, tokens);
	struct rlx_encoding enc = { .ids = b->ids, .capacity = (uint32_t)b->seq };
	struct rlx_buf to;
	enum rlx_status st = rlx_tokenizer_encode(e->scratch, text, len, &o, &enc, err);

	if (st)
		return st;
	fill_inputs(b, enc.n);
	st = rlx_buf_slice(e->rows, row * e->row_bytes, e->row_bytes, &to, err);
	if (!st && e->bert && rlx_session_bind(b->session, RLX_IO_OUTPUT, b->out_name, to))
		return rlx_fail(err, rlx_session_error(b->session)->status, "%s",
				rlx_session_error(b->session)->text);
	if (st)
		return st;
	st = rlx_session_run(b->session);
	if (st)
		return rlx_fail(err, st, "%s", rlx_session_error(b->session)->text);
	if (e->model)
		pool(b, enc.n, rlx_buf_ptr(to));
	return RLX_OK;
}

const float *encoder_row(const struct encoder *e, uint64_t row)
{
	return (const float *)((const char *)rlx_buf_ptr(e->rows) + row * e->row_bytes);
}

void encoder_close(struct encoder *e)
{
	unsigned int i;

	for (i = 0; i < ENCODER_BUCKETS; i++) {
		rlx_session_free(e->bucket[i].session);
		rlx_program_put(e->bucket[i].program);
	}
	if (e->rows.arena)
		rlx_buf_free(e->rows, NULL);
	rlx_arena_put(e->arena);
	rlx_tokenizer_scratch_free(e->scratch);
	rlx_tokenizer_free(e->tok);
	rlx_runner_free(e->runner);
	rlx_model_put(e->model);
	rlx_bert_put(e->bert);
	*e = (struct encoder){ 0 };
}
