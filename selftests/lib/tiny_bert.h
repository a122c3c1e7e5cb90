/* SPDX-License-Identifier: MIT */
/*
 * A BERT with random weights, of toy size or of any, written as model hubs lay them
 * out.
 */
#ifndef RLX_SELFTESTS_TINY_BERT_H
#define RLX_SELFTESTS_TINY_BERT_H

#include <unistd.h>

#include "rlx/safetensors.h"
#include "selftests/lib/rlx_test.h"

enum { TB_H = 16, TB_LAYERS = 2, TB_HEADS = 2, TB_INNER = 24, TB_VOCAB = 40, TB_SEQ = 32,
       TB_TYPES = 2, TB_MAX = 256 };

struct tb_size {
	int	hidden, layers, heads, inner, vocab, seq, types;
};

static const struct tb_size tb_toy = { TB_H, TB_LAYERS, TB_HEADS, TB_INNER, TB_VOCAB, TB_SEQ,
				       TB_TYPES };

struct tiny_bert {
	struct tb_size		size;
	struct rlx_safetensor	t[TB_MAX];
	char			name[TB_MAX][96];
	unsigned int		n;
};

static inline void tb_add(struct tiny_bert *b, const char *name, int64_t d0, int64_t d1,
			  uint64_t *seed)
{
	struct rlx_safetensor *t = &b->t[b->n];
	bool norm = strstr(name, "LayerNorm.weight") != NULL;
	float *v;
	int64_t i;

	CHECK(b->n < TB_MAX);
	snprintf(b->name[b->n], sizeof(b->name[0]), "%s", name);
	t->name = b->name[b->n++];
	t->type = d1 ? rlx_type(RLX_F32, d0, d1) : rlx_type(RLX_F32, d0);
	v = malloc((size_t)rlx_type_bytes(&t->type));
	CHECK(v);
	for (i = 0; i < rlx_type_count(&t->type); i++)
		v[i] = (float)rlx_test_uniform(seed, norm ? 0.5 : -0.5, norm ? 1.5 : 0.5);
	t->data = v;
}

static inline void tb_pair(struct tiny_bert *b, const char *name, int64_t out, int64_t in,
			   uint64_t *seed)
{
	char full[96];

	snprintf(full, sizeof(full), "%s.weight", name);
	tb_add(b, full, out, in, seed);
	snprintf(full, sizeof(full), "%s.bias", name);
	tb_add(b, full, out, 0, seed);
}

static inline void tb_init_size(struct tiny_bert *b, const struct tb_size *size,
				uint64_t *seed)
{
	const int h = size->hidden, m = size->inner;
	const struct {
		const char	*name;
		int		 out, in;
	} part[] = {
		{ "attention.self.query", h, h }, { "attention.self.key", h, h },
		{ "attention.self.value", h, h }, { "attention.output.dense", h, h },
		{ "attention.output.LayerNorm", h, 0 }, { "intermediate.dense", m, h },
		{ "output.dense", h, m }, { "output.LayerNorm", h, 0 },
	};
	char name[80];
	unsigned int i;
	int l;

	b->n = 0;
	b->size = *size;
	tb_add(b, "embeddings.word_embeddings.weight", size->vocab, h, seed);
	tb_add(b, "embeddings.position_embeddings.weight", size->seq, h, seed);
	tb_add(b, "embeddings.token_type_embeddings.weight", size->types, h, seed);
	tb_pair(b, "embeddings.LayerNorm", h, 0, seed);
	for (l = 0; l < size->layers; l++)
		for (i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
			snprintf(name, sizeof(name), "encoder.layer.%d.%s", l, part[i].name);
			tb_pair(b, name, part[i].out, part[i].in, seed);
		}
}

static inline void tb_init(struct tiny_bert *b, uint64_t *seed)
{
	tb_init_size(b, &tb_toy, seed);
}

static inline void tb_fini(struct tiny_bert *b)
{
	while (b->n)
		free((void *)(uintptr_t)b->t[--b->n].data);
}

static inline const float *tb_get(const struct tiny_bert *b, const char *name)
{
	unsigned int i;

	for (i = 0; i < b->n && strcmp(b->name[i], name); i++)
		;
	CHECKF(i < b->n, "no %s", name);
	return b->t[i].data;
}

static inline void tb_text(const char *dir, const char *leaf, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, leaf);
	f = fopen(path, "wb");
	CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

/* config.json of @b into @buf. */
static inline const char *tb_config(const struct tb_size *z, char *buf, size_t size)
{
	int n = snprintf(buf, size, "{\"model_type\": \"bert\", \"hidden_size\": %d, "
			 "\"num_hidden_layers\": %d,\n \"num_attention_heads\": %d, "
			 "\"intermediate_size\": %d, \"vocab_size\": %d,\n "
			 "\"max_position_embeddings\": %d, \"type_vocab_size\": %d,\n "
			 "\"hidden_act\": \"gelu\", \"layer_norm_eps\": 1e-12}\n",
			 z->hidden, z->layers, z->heads, z->inner, z->vocab, z->seq, z->types);

	CHECK(n > 0 && (size_t)n < size);
	return buf;
}

/* config.json and model.safetensors into @dir. */
static inline void tb_write(const struct tiny_bert *b, const char *dir)
{
	struct rlx_error err = { 0 };
	char path[256], config[512];

	tb_text(dir, "config.json", tb_config(&b->size, config, sizeof(config)));
	snprintf(path, sizeof(path), "%s/model.safetensors", dir);
	CHECKF(!rlx_safetensors_write(path, b->t, b->n, NULL, &err), "%s", err.text);
}

/* What tb_write() made, and @dir. */
static inline void tb_remove(const char *dir)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/config.json", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/model.safetensors", dir);
	unlink(path);
	rmdir(dir);
}

#endif
