// SPDX-License-Identifier: MIT
/*
 * A decoder of bytes as .gguf: it is what ggml's tools call gpt2, with a vocabulary of the 256
 * bytes, each spelled as GPT-2 spells it, and no merges.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "rlx/gguf.h"
#include "tools/rlx/train.h"

enum { BYTES = 256, NAME = 64, PATH = 4096, FIXED = 5, OF_BLOCK = 12 };

/* Ours and theirs; theirs are [out, in] where ours are [in, out]. */
struct row {
	const char	*ours, *theirs;
	bool		 turned;
};
static const struct row fixed[FIXED] = {
	{ "tok", "token_embd.weight", false }, { "pos", "position_embd.weight", false },
	{ "ln.weight", "output_norm.weight", false }, { "ln.bias", "output_norm.bias", false },
	{ "head", "output.weight", true },
};
static const struct row of_block[OF_BLOCK] = {
	{ "ln1.weight", "attn_norm.weight", false }, { "ln1.bias", "attn_norm.bias", false },
	{ "qkv.weight", "attn_qkv.weight", true }, { "qkv.bias", "attn_qkv.bias", false },
	{ "proj.weight", "attn_output.weight", true }, { "proj.bias", "attn_output.bias", false },
	{ "ln2.weight", "ffn_norm.weight", false }, { "ln2.bias", "ffn_norm.bias", false },
	{ "fc.weight", "ffn_up.weight", true }, { "fc.bias", "ffn_up.bias", false },
	{ "out.weight", "ffn_down.weight", true }, { "out.bias", "ffn_down.bias", false },
};

/* What is written: tensors with their names, and transposed copies. */
struct decoder_file {
	const struct train_config	*c;
	const struct train_states	*from;
	struct rlx_gguf_tensor		*v;
	char				(*name)[NAME];
	float				**own;
	uint32_t			 n;
};

/* [a, b] as [b, a]; NULL: no memory. */
static float *transposed(const float *x, int64_t a, int64_t b)
{
	float *y = rlx_malloc((size_t)(a * b) * sizeof(*y));
	int64_t i, k;

	for (i = 0; y && i < a; i++)
		for (k = 0; k < b; k++)
			y[k * a + i] = x[i * b + k];
	return y;
}

static bool add(struct decoder_file *q, const struct row *r, int64_t block, struct rlx_error *err)
{
	static const uint8_t format[] = { RLX_GGUF_AS_F32, RLX_GGUF_AS_F16, RLX_GGUF_AS_BF16,
					  RLX_GGUF_AS_Q8_0 };
	struct rlx_gguf_tensor *t = &q->v[q->n];
	struct rlx_type from;
	char ours[NAME];

	if (block < 0) {
		snprintf(ours, sizeof(ours), "%s", r->ours);
		snprintf(q->name[q->n], NAME, "%s", r->theirs);
	} else {
		snprintf(ours, sizeof(ours), "blocks.%lld.%s", (long long)block, r->ours);
		snprintf(q->name[q->n], NAME, "blk.%lld.%s", (long long)block, r->theirs);
	}
	t->name = q->name[q->n];
	t->data = q->from->get(q->from->ctx, ours, &from);
	if (!t->data) {
		rlx_fail(err, RLX_ENOENT, "state %s is not to be had", ours);
		return false;
	}
	t->type = from;
	t->format = from.rank == 2 ? format[q->c->gguf] : RLX_GGUF_AS_F32;
	if (r->turned) {
		t->type.dim[0] = from.dim[1];
		t->type.dim[1] = from.dim[0];
		q->own[q->n] = transposed(t->data, from.dim[0], from.dim[1]);
		t->data = q->own[q->n];
	}
	q->n++;
	if (!t->data)
		rlx_fail(err, RLX_ENOMEM, "out of memory for the .gguf");
	return t->data;
}

/* As GPT-2 spells bytes: those that print as themselves, the others from U+0100 on. */
static void spell(char to[BYTES][4])
{
	unsigned int b, next = 256, cp;

	for (b = 0; b < BYTES; b++) {
		bool prints = (b > 32 && b < 127) || (b > 160 && b != 173);

		cp = prints ? b : next++;
		if (cp < 128)
			snprintf(to[b], 4, "%c", (char)cp);
		else
			snprintf(to[b], 4, "%c%c", (char)(0xc0 | cp >> 6), (char)(0x80 | (cp & 63)));
	}
}

static struct rlx_gguf_pair text(const char *key, const char *s)
{
	return (struct rlx_gguf_pair){ key, { .type = RLX_GGUF_STRING, .n = strlen(s),
					      .data = s } };
}

static struct rlx_gguf_pair count(const char *key, uint64_t n)
{
	return (struct rlx_gguf_pair){ key, { .type = RLX_GGUF_U32, .u = n } };
}

static struct rlx_gguf_pair list(const char *key, enum rlx_gguf_type of, const void *data,
				 uint64_t n)
{
	return (struct rlx_gguf_pair){ key, { .type = RLX_GGUF_ARRAY, .of = of, .n = n,
					      .data = data } };
}

static bool write_file(const struct decoder_file *q, struct rlx_error *err)
{
	static const uint8_t file_type[] = { 0, 1, 32, 7 };	/* ggml's, by the key gguf */
	const struct train_config *c = q->c;
	char token[BYTES][4], path[PATH];
	const char *tokens[BYTES];
	int32_t kind[BYTES];
	unsigned int i;

	spell(token);
	for (i = 0; i < BYTES; i++) {
		tokens[i] = token[i];
		kind[i] = 1;		/* a normal token */
	}
	const struct rlx_gguf_pair kv[] = {
		text("general.architecture", "gpt2"), text("general.name", "decoder of bytes"),
		count("general.file_type", file_type[c->gguf]),
		count("gpt2.context_length", c->context), count("gpt2.embedding_length", c->dim),
		count("gpt2.block_count", c->layers), count("gpt2.feed_forward_length", 4 * c->dim),
		count("gpt2.attention.head_count", c->heads),
		{ "gpt2.attention.layer_norm_epsilon", { .type = RLX_GGUF_F32, .f = 1e-5 } },
		text("tokenizer.ggml.model", "gpt2"), text("tokenizer.ggml.pre", "gpt-2"),
		list("tokenizer.ggml.tokens", RLX_GGUF_STRING, tokens, BYTES),
		list("tokenizer.ggml.token_type", RLX_GGUF_I32, kind, BYTES),
		list("tokenizer.ggml.merges", RLX_GGUF_STRING, NULL, 0),
		count("tokenizer.ggml.bos_token_id", 0), count("tokenizer.ggml.eos_token_id", 0),
		{ "tokenizer.ggml.add_bos_token", { .type = RLX_GGUF_BOOL } },
	};

	snprintf(path, sizeof(path), "%s/model.gguf", c->folder);
	return !rlx_gguf_write(path, kv, sizeof(kv) / sizeof(kv[0]), q->v, q->n, err);
}

bool train_gguf(const struct train_config *c, const struct train_states *from,
		struct rlx_error *err)
{
	struct decoder_file q = { .c = c, .from = from };
	size_t most = FIXED + OF_BLOCK * (size_t)c->layers;
	int64_t l;
	bool ok;
	uint32_t i;

	q.v = rlx_calloc(most, sizeof(*q.v));
	q.name = rlx_calloc(most, sizeof(*q.name));
	q.own = rlx_calloc(most, sizeof(*q.own));
	ok = q.v && q.name && q.own;
	if (!ok)
		rlx_fail(err, RLX_ENOMEM, "out of memory for the .gguf");
	for (i = 0; ok && i < FIXED; i++)
		ok = add(&q, &fixed[i], -1, err);
	for (l = 0; ok && l < (int64_t)c->layers; l++)
		for (i = 0; ok && i < OF_BLOCK; i++)
			ok = add(&q, &of_block[i], l, err);
	ok = ok && write_file(&q, err);
	for (i = 0; q.own && i < q.n; i++)
		rlx_free(q.own[i]);
	rlx_free(q.own);
	rlx_free(q.name);
	rlx_free(q.v);
	return ok;
}
