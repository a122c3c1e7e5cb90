/* SPDX-License-Identifier: MIT */
/* A BERT of toy size with random weights, written as model hubs lay them out. */
#ifndef RLX_SELFTESTS_TINY_BERT_H
#define RLX_SELFTESTS_TINY_BERT_H

#include "rlx/safetensors.h"
#include "selftests/lib/rlx_test.h"

enum { TB_H = 16, TB_LAYERS = 2, TB_HEADS = 2, TB_INNER = 24, TB_VOCAB = 40, TB_SEQ = 32,
       TB_TYPES = 2, TB_MAX = 48 };

struct tiny_bert {
	struct rlx_safetensor	t[TB_MAX];
	char			name[TB_MAX][96];
	unsigned int		n;
};

static const char tiny_config[] =
	"{\"model_type\": \"bert\", \"hidden_size\": 16, \"num_hidden_layers\": 2,\n"
	" \"num_attention_heads\": 2, \"intermediate_size\": 24, \"vocab_size\": 40,\n"
	" \"max_position_embeddings\": 32, \"type_vocab_size\": 2,\n"
	" \"hidden_act\": \"gelu\", \"layer_norm_eps\": 1e-12}\n";

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

static inline void tb_init(struct tiny_bert *b, uint64_t *seed)
{
	static const struct {
		const char	*name;
		int		 out, in;
	} part[] = {
		{ "attention.self.query", TB_H, TB_H }, { "attention.self.key", TB_H, TB_H },
		{ "attention.self.value", TB_H, TB_H },
		{ "attention.output.dense", TB_H, TB_H },
		{ "attention.output.LayerNorm", TB_H, 0 },
		{ "intermediate.dense", TB_INNER, TB_H }, { "output.dense", TB_H, TB_INNER },
		{ "output.LayerNorm", TB_H, 0 },
	};
	char name[80];
	unsigned int i;
	int l;

	b->n = 0;
	tb_add(b, "embeddings.word_embeddings.weight", TB_VOCAB, TB_H, seed);
	tb_add(b, "embeddings.position_embeddings.weight", TB_SEQ, TB_H, seed);
	tb_add(b, "embeddings.token_type_embeddings.weight", TB_TYPES, TB_H, seed);
	tb_pair(b, "embeddings.LayerNorm", TB_H, 0, seed);
	for (l = 0; l < TB_LAYERS; l++)
		for (i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
			snprintf(name, sizeof(name), "encoder.layer.%d.%s", l, part[i].name);
			tb_pair(b, name, part[i].out, part[i].in, seed);
		}
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

/* config.json and model.safetensors into @dir. */
static inline void tb_write(const struct tiny_bert *b, const char *dir)
{
	struct rlx_error err = { 0 };
	char path[256];

	tb_text(dir, "config.json", tiny_config);
	snprintf(path, sizeof(path), "%s/model.safetensors", dir);
	CHECKF(!rlx_safetensors_write(path, b->t, b->n, NULL, &err), "%s", err.text);
}

#endif
