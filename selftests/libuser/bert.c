// SPDX-License-Identifier: MIT
/* BERT encoders from a folder against a plain one in double; bad folders. */
#include <unistd.h>

#include "base/alloc.h"
#include "rlx/bert.h"
#include "rlx/model.h"
#include "rlx/run.h"
#include "selftests/lib/tiny_bert.h"

enum { B = 2, S = 9 };
static char dir[] = "/tmp/rlx-bert-XXXXXX";

static void remove_dir(void)
{
	tb_remove(dir);
}

static void begin(struct tiny_bert *b, uint64_t *seed)
{
	CHECK(mkdtemp(dir));
	atexit(remove_dir);
	tb_init(b, seed);
	tb_write(b, dir);
}

/* y[n_out] = w x + bias, of one token. */
static void linear(const struct tiny_bert *b, const char *name, const double *x, int in,
		   double *y, int out)
{
	char full[192];
	const float *w, *bias;
	int o, i;

	snprintf(full, sizeof(full), "%s.weight", name);
	w = tb_get(b, full);
	snprintf(full, sizeof(full), "%s.bias", name);
	bias = tb_get(b, full);
	for (o = 0; o < out; o++)
		for (y[o] = (double)bias[o], i = 0; i < in; i++)
			y[o] += (double)w[o * in + i] * x[i];
}

static void norm(const struct tiny_bert *b, const char *name, double *x)
{
	char full[192];
	const float *w, *bias;
	double mean = 0, var = 0;
	int i;

	snprintf(full, sizeof(full), "%s.weight", name);
	w = tb_get(b, full);
	snprintf(full, sizeof(full), "%s.bias", name);
	bias = tb_get(b, full);
	for (i = 0; i < TB_H; i++)
		mean += x[i] / TB_H;
	for (i = 0; i < TB_H; i++)
		var += (x[i] - mean) * (x[i] - mean) / TB_H;
	for (i = 0; i < TB_H; i++)
		x[i] = (x[i] - mean) / sqrt(var + 1e-12) * (double)w[i] + (double)bias[i];
}

static void attend(const struct tiny_bert *b, const char *at, double x[][TB_H], int n,
		   double y[][TB_H])
{
	static double q[S][TB_H], k[S][TB_H], v[S][TB_H];
	char name[160];
	int i, j, h, d, w = TB_H / TB_HEADS;

	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s.self.query", at);
		linear(b, name, x[i], TB_H, q[i], TB_H);
		snprintf(name, sizeof(name), "%s.self.key", at);
		linear(b, name, x[i], TB_H, k[i], TB_H);
		snprintf(name, sizeof(name), "%s.self.value", at);
		linear(b, name, x[i], TB_H, v[i], TB_H);
	}
	for (i = 0; i < n; i++)
		for (h = 0; h < TB_HEADS; h++) {
			double p[S], sum = 0;

			for (j = 0; j < n; j++) {
				for (p[j] = 0, d = h * w; d < (h + 1) * w; d++)
					p[j] += q[i][d] * k[j][d] / sqrt(w);
				p[j] = exp(p[j]);
				sum += p[j];
			}
			for (d = h * w; d < (h + 1) * w; d++)
				for (y[i][d] = 0, j = 0; j < n; j++)
					y[i][d] += p[j] / sum * v[j][d];
		}
}

/* The last hidden state of one row with @n tokens. */
static void truth(const struct tiny_bert *b, const int64_t *ids, const int64_t *types, int n,
		  double x[][TB_H])
{
	static double y[S][TB_H], z[TB_H], m[TB_INNER];
	char at[32], name[96];
	int i, k, l;

	for (i = 0; i < n; i++) {
		for (k = 0; k < TB_H; k++)
			x[i][k] = (double)tb_get(b, "embeddings.word_embeddings.weight")
					[ids[i] * TB_H + k] +
				  (double)tb_get(b, "embeddings.position_embeddings.weight")
					[i * TB_H + k] +
				  (double)tb_get(b, "embeddings.token_type_embeddings.weight")
					[types[i] * TB_H + k];
		norm(b, "embeddings.LayerNorm", x[i]);
	}
	for (l = 0; l < TB_LAYERS; l++) {
		snprintf(at, sizeof(at), "encoder.layer.%d", l);
		snprintf(name, sizeof(name), "%s.attention", at);
		attend(b, name, x, n, y);
		for (i = 0; i < n; i++) {
			snprintf(name, sizeof(name), "%s.attention.output.dense", at);
			linear(b, name, y[i], TB_H, z, TB_H);
			for (k = 0; k < TB_H; k++)
				x[i][k] += z[k];
			snprintf(name, sizeof(name), "%s.attention.output.LayerNorm", at);
			norm(b, name, x[i]);
			snprintf(name, sizeof(name), "%s.intermediate.dense", at);
			linear(b, name, x[i], TB_H, m, TB_INNER);
			for (k = 0; k < TB_INNER; k++)
				m[k] = 0.5 * m[k] * (1 + erf(m[k] / sqrt(2)));
			snprintf(name, sizeof(name), "%s.output.dense", at);
			linear(b, name, m, TB_INNER, z, TB_H);
			for (k = 0; k < TB_H; k++)
				x[i][k] += z[k];
			snprintf(name, sizeof(name), "%s.output.LayerNorm", at);
			norm(b, name, x[i]);
		}
	}
}

/* What the pooled outputs are to be. */
static void pooled(double x[][TB_H], int n, enum rlx_bert_pool pool, bool unit, double *y)
{
	double len = 0;
	int i, k;

	for (k = 0; k < TB_H; k++) {
		for (y[k] = 0, i = 0; i < n; i++)
			y[k] += pool == RLX_BERT_MEAN ? x[i][k] / n : i ? 0 : x[0][k];
		len += y[k] * y[k];
	}
	for (k = 0; unit && k < TB_H; k++)
		y[k] /= sqrt(len);
}

static void fill(struct rlx_session *s, const char *name, const int64_t *v, size_t n)
{
	void *p = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, name));

	CHECKF(p, "no input %s", name);
	memcpy(p, v, n * sizeof(*v));
}

static void check(struct rlx_bert *m, const struct tiny_bert *b, struct rlx_bert_opts o,
		  uint64_t *seed)
{
	struct rlx_session_opts so = { .size = sizeof(so), .strict = true };
	struct rlx_compile_opts native = {
		.size = sizeof(native), .flags = RLX_COMPILE_NATIVE,
	};
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	struct rlx_program *p;
	struct rlx_graph *g;
	static double x[S][TB_H], y[TB_H];
	int64_t ids[B * S], types[B * S] = { 0 }, len[B] = { 4, S };
	const float *out;
	int i, r, k;

	o.size = sizeof(o);
	o.batch = B;
	o.seq = S;
	for (i = 0; i < B * S; i++) {
		ids[i] = (int64_t)rlx_test_uniform(seed, 0, TB_VOCAB);
		types[i] = o.type_ids ? (int64_t)rlx_test_uniform(seed, 0, TB_TYPES) : 0;
	}
	CHECKF(!rlx_bert_graph(m, &o, &g, &err), "%s", err.text);
	CHECKF(!rlx_compile(g, &native, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	CHECKF(!rlx_session_new(p, &so, &s, &err), "%s", err.text);
	fill(s, "input_ids", ids, B * S);
	fill(s, "lengths", len, B);
	if (o.type_ids)
		fill(s, "token_type_ids", types, B * S);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	out = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, o.pool == RLX_BERT_TOKENS ?
					  "last_hidden_state" : "embedding"));
	CHECK(out);
	for (r = 0; r < B; r++) {
		truth(b, ids + r * S, types + r * S, (int)len[r], x);
		if (o.pool != RLX_BERT_TOKENS)
			pooled(x, (int)len[r], o.pool, o.normalise, y);
		for (i = 0; i < (o.pool == RLX_BERT_TOKENS ? len[r] : 1); i++)
			for (k = 0; k < TB_H; k++) {
				double want = o.pool == RLX_BERT_TOKENS ? x[i][k] : y[k];
				float got = o.pool == RLX_BERT_TOKENS ?
					out[(r * S + i) * TB_H + k] : out[r * TB_H + k];

				CHECKF(fabs(want - (double)got) < 2e-5,
				       "pool %d, row %d, token %d, %d: %g, not %g", (int)o.pool,
				       r, i, k, (double)got, want);
			}
	}
	rlx_session_free(s);
	rlx_program_put(p);
}

TEST(equals_a_plain_encoder)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	static struct tiny_bert b;
	struct rlx_bert_info info;
	struct rlx_bert *m;

	begin(&b, &seed);
	CHECKF(!rlx_bert_open(dir, &m, &err), "%s", err.text);
	rlx_bert_info(m, &info);
	CHECK(info.hidden == TB_H && info.layers == TB_LAYERS && info.max_seq == TB_SEQ);
	check(m, &b, (struct rlx_bert_opts){ .pool = RLX_BERT_TOKENS }, &seed);
	check(m, &b, (struct rlx_bert_opts){ .pool = RLX_BERT_TOKENS, .type_ids = true }, &seed);
	check(m, &b, (struct rlx_bert_opts){ .pool = RLX_BERT_MEAN }, &seed);
	check(m, &b, (struct rlx_bert_opts){ .pool = RLX_BERT_MEAN, .normalise = true }, &seed);
	check(m, &b, (struct rlx_bert_opts){ .pool = RLX_BERT_CLS, .normalise = true }, &seed);
	rlx_bert_put(m);
	tb_fini(&b);
}

TEST(a_graph_keeps_the_weights)
{
	struct rlx_bert_opts o = { .size = sizeof(o), .batch = 1, .seq = 5 };
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	static struct tiny_bert b;
	struct rlx_program *p;
	struct rlx_graph *g;
	struct rlx_bert *m;

	begin(&b, &seed);
	CHECK(!rlx_bert_open(dir, &m, &err));
	CHECK(!rlx_bert_graph(m, &o, &g, &err));
	rlx_bert_put(m);
	CHECKF(!rlx_compile(g, NULL, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	rlx_program_put(p);
	tb_fini(&b);
}

static void refused(enum rlx_status st, const char *word)
{
	struct rlx_error err = { 0 };
	struct rlx_bert *m = NULL;

	CHECK_EQ(rlx_bert_open(dir, &m, &err), st);
	CHECK(!m);
	CHECKF(strstr(err.text, word), "\"%s\" is not in: %s", word, err.text);
}

static void config_with(const char *from, const char *to)
{
	char config[512], text[1024], *at;

	snprintf(text, sizeof(text), "%s", tb_config(&tb_toy, config, sizeof(config)));
	at = strstr(text, from);
	CHECK(at);
	snprintf(at, sizeof(text) - (size_t)(at - text), "%s%s", to,
		 strstr(config, from) + strlen(from));
	tb_text(dir, "config.json", text);
}

TEST(bad_folders)
{
	uint64_t seed = rlx_test_seed();
	static struct tiny_bert b;
	struct rlx_error err = { 0 };
	struct rlx_bert *m;

	begin(&b, &seed);
	CHECK_EQ(rlx_bert_open("/nowhere/at/all", &m, &err), RLX_ENOENT);
	config_with("\"bert\"", "\"t5\"");
	refused(RLX_ENOSUP, "model_type");
	config_with("\"gelu\"", "\"swish\"");
	refused(RLX_ENOSUP, "hidden_act");
	config_with("\"num_attention_heads\": 2", "\"num_attention_heads\": 3");
	refused(RLX_ESHAPE, "multiple of 3 heads");
	config_with("\"hidden_size\": 16", "\"hidden_size\": -16");
	refused(RLX_EPARSE, "hidden_size");
	config_with("\"hidden_size\": 16", "\"hidden_size\": 32");
	refused(RLX_ESHAPE, "word_embeddings");
	config_with("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
	refused(RLX_ENOENT, "encoder.layer.2.attention.self.query");
	config_with("{", "[");
	refused(RLX_EPARSE, "config.json");
	config_with("{", "{");
	tb_text(dir, "model.safetensors", "rubbish");
	refused(RLX_EPARSE, "model.safetensors");
	tb_fini(&b);
}

/* All tensors of a layer, of one element each. */
static unsigned int name_layer(char (*name)[64], unsigned int layer)
{
	static const char *const part[] = {
		"attention.self.query", "attention.self.key", "attention.self.value",
		"attention.output.dense", "attention.output.LayerNorm", "intermediate.dense",
		"output.dense", "output.LayerNorm",
	};
	unsigned int i;

	for (i = 0; i < 16; i++)
		snprintf(name[i], sizeof(name[i]), "encoder.layer.%u.%s.%s", layer, part[i / 2],
			 i & 1 ? "bias" : "weight");
	return i;
}

/* A folder of many small tensors is opened in about the time it takes to read their names. */
TEST(many_layers)
{
	enum { LAYERS = 5000, N = LAYERS * 16 + 5 };
	static const char *const first[] = {
		"embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight",
		"embeddings.token_type_embeddings.weight", "embeddings.LayerNorm.weight",
		"embeddings.LayerNorm.bias",
	};
	const struct tb_size size = { 1, LAYERS, 1, 1, 1, 1, 1 };
	struct rlx_safetensor *t = calloc(N, sizeof(*t));
	char (*name)[64] = calloc(N, sizeof(*name)), path[256], config[512];
	double begun, weights, all;
	struct rlx_safetensors *f;
	struct rlx_error err = { 0 };
	struct rlx_bert *m;
	unsigned int i, n;
	float one = 1;

	CHECK(mkdtemp(dir));
	atexit(remove_dir);
	for (n = 0; n < 5; n++)
		snprintf(name[n], sizeof(name[n]), "%s", first[n]);
	for (i = 0; i < LAYERS; i++)
		n += name_layer(name + n, i);
	for (i = 0; i < n; i++) {
		bool flat = strstr(name[i], "bias") || strstr(name[i], "LayerNorm");

		t[i] = (struct rlx_safetensor){ .name = name[i], .data = &one };
		t[i].type = flat ? rlx_type(RLX_F32, 1) : rlx_type(RLX_F32, 1, 1);
	}
	tb_text(dir, "config.json", tb_config(&size, config, sizeof(config)));
	snprintf(path, sizeof(path), "%s/model.safetensors", dir);
	CHECKF(!rlx_safetensors_write(path, t, n, NULL, &err), "%s", err.text);
	begun = rlx_test_cpu();
	CHECKF(!rlx_safetensors_open(path, &f, &err), "%s", err.text);
	weights = rlx_test_cpu() - begun;
	begun = rlx_test_cpu();
	CHECKF(!rlx_bert_open(dir, &m, &err), "%s", err.text);
	all = rlx_test_cpu() - begun;
	CHECKF(all < 5 * weights + 0.5, "%g s, %g s for the weights", all, weights);
	rlx_bert_put(m);
	rlx_safetensors_close(f);
	free(name);
	free(t);
}

TEST(bad_shapes)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_bert_opts o = { .size = sizeof(o), .batch = 1, .seq = TB_SEQ + 1 };
	static struct tiny_bert b;
	struct rlx_error err = { 0 };
	struct rlx_graph *g = NULL;
	struct rlx_bert *m;

	begin(&b, &seed);
	CHECK(!rlx_bert_open(dir, &m, &err));
	CHECK_EQ(rlx_bert_graph(m, &o, &g, &err), RLX_ERANGE);
	o.seq = 0;
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_bert_graph(m, &o, &g, &err), RLX_ERANGE);
	o.seq = 1;
	o.batch = 0;
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_bert_graph(m, &o, &g, &err), RLX_EINVAL);
	CHECK(!g);
	rlx_bert_put(m);
	tb_fini(&b);
}

/* A run by the model interface, against the plain encoder. */
static void model_run(struct rlx_runner *r, const struct tiny_bert *b, int64_t seq, bool typed,
		      uint64_t *seed)
{
	int64_t ids[B * S], types[B * S] = { 0 }, len[B] = { 1 + seq / 2, seq };
	struct rlx_named_tensor in[] = {
		{ "lengths", rlx_type(RLX_I64, B), len },
		{ "input_ids", rlx_type(RLX_I64, B, seq), ids },
		{ "token_type_ids", rlx_type(RLX_I64, B, seq), types },
	}, y;
	static double x[S][TB_H];
	struct rlx_error err = { 0 };
	struct rlx_type want = rlx_type(RLX_F32, B, seq, TB_H);
	int i, k, row;

	for (i = 0; i < B * seq; i++) {
		ids[i] = (int64_t)rlx_test_uniform(seed, 0, TB_VOCAB);
		types[i] = typed ? (int64_t)rlx_test_uniform(seed, 0, TB_TYPES) : 0;
	}
	CHECKF(!rlx_runner_run(r, in, typed ? 3 : 2, &err), "%s", err.text);
	CHECK_EQ(rlx_runner_output_count(r), 1);
	CHECK(rlx_runner_output(r, 0, &y) && !strcmp(y.name, "last_hidden_state"));
	CHECK(rlx_type_equal(&y.type, &want));
	for (row = 0; row < B; row++) {
		truth(b, ids + row * seq, types + row * seq, (int)len[row], x);
		for (i = 0; i < len[row]; i++)
			for (k = 0; k < TB_H; k++) {
				float got = ((const float *)y.data)[(row * seq + i) * TB_H + k];

				CHECKF(fabs(x[i][k] - (double)got) < 2e-5, "%d %d %d: %g, not %g",
				       row, i, k, (double)got, x[i][k]);
			}
	}
}

static void model_refuses(struct rlx_model *m, struct rlx_named_tensor *in, unsigned int n,
			  enum rlx_status st, const char *word)
{
	struct rlx_error err = { 0 };
	struct rlx_graph *g = NULL;

	CHECK_EQ(rlx_model_graph(m, in, n, &g, &err), st);
	CHECKF(!g && strstr(err.text, word), "\"%s\" is not in: %s", word, err.text);
}

static void model_refuses_inputs(struct rlx_model *m)
{
	struct rlx_named_tensor ids = { "input_ids", rlx_type(RLX_I64, 2, 5), NULL };
	struct rlx_named_tensor len = { "lengths", rlx_type(RLX_I64, 2), NULL };
	struct rlx_named_tensor in[3] = { ids, len, { "mask", ids.type, NULL } };

	model_refuses(m, in, 3, RLX_ENOENT, "'mask'");
	model_refuses(m, in, 1, RLX_ENOENT, "'lengths' is missing");
	model_refuses(m, in + 1, 1, RLX_ENOENT, "'input_ids' is missing");
	in[0].type.dtype = RLX_I32;
	model_refuses(m, in, 2, RLX_ETYPE, "i64");
	in[0].type = rlx_type(RLX_I64, 2);
	model_refuses(m, in, 2, RLX_ESHAPE, "dimensions");
	in[0].type = rlx_type(RLX_I64, 3, 5);
	model_refuses(m, in, 2, RLX_ESHAPE, "lengths");
	in[0].type = rlx_type(RLX_I64, 2, TB_SEQ + 1);
	model_refuses(m, in, 2, RLX_ERANGE, "seq");
	in[0] = ids;
	in[2] = (struct rlx_named_tensor){ "token_type_ids", rlx_type(RLX_I64, 2, 4), NULL };
	model_refuses(m, in, 3, RLX_ESHAPE, "token_type_ids");
}

/* The folder by rlx_model_open(), as any other model. */
TEST(as_a_model)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 1 };
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	static struct tiny_bert b;
	struct rlx_named_tensor t;
	struct rlx_model_io io;
	struct rlx_runner *r;
	struct rlx_model *m;
	unsigned int i;

	begin(&b, &seed);
	CHECKF(!rlx_model_open(dir, &m, &err), "%s", err.text);
	CHECK_EQ(rlx_model_io_count(m, RLX_IO_INPUT), 2);
	CHECK_EQ(rlx_model_io_count(m, RLX_IO_OUTPUT), 1);
	CHECK(rlx_model_io_at(m, RLX_IO_INPUT, 0, &io) && !strcmp(io.name, "input_ids"));
	CHECK(io.rank == 2 && io.dtype == RLX_I64 && io.dim[1] == -1);
	CHECK(rlx_model_io_at(m, RLX_IO_OUTPUT, 0, &io) && io.rank == 3 && io.dim[2] == TB_H);
	CHECK(rlx_model_tensor_count(m) > 16 * TB_LAYERS);
	for (i = 0; rlx_model_tensor_at(m, i, &t); i++)
		CHECKF(!memcmp(t.data, tb_get(&b, t.name), (size_t)rlx_type_bytes(&t.type)), "%s",
		       t.name);
	CHECK_EQ(i, rlx_model_tensor_count(m));
	model_refuses_inputs(m);
	CHECK(!rlx_runner_new(m, &o, &r, NULL));
	rlx_model_put(m);
	for (i = 0; i < 4; i++)
		model_run(r, &b, i & 1 ? S : 4, i & 2, &seed);
	rlx_runner_free(r);
	tb_fini(&b);
}

/* True: it ran; else what was wrong was told. */
static bool runs_or_is_refused(void)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 1 };
	static const int64_t ids[2 * 5] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 39 }, len[2] = { 5, 3 };
	struct rlx_named_tensor in[2] = { { "input_ids", rlx_type(RLX_I64, 2, 5), ids },
					  { "lengths", rlx_type(RLX_I64, 2), len } };
	struct rlx_error err = { 0 };
	struct rlx_runner *r = NULL;
	struct rlx_model *m = NULL;
	enum rlx_status st = rlx_model_open(dir, &m, &err);

	st = st ? st : rlx_runner_new(m, &o, &r, &err);
	st = st ? st : rlx_runner_run(r, in, 2, &err);
	CHECK(!st || err.text[0]);
	rlx_runner_free(r);
	rlx_model_put(m);
	return !st;
}

/* Sizes that are others than those of the tensors, and tensors of other shapes and dtypes. */
TEST(sizes_that_do_not_fit)
{
	static const int edge[] = { 0, 1, 2, 3, 4, 8, 16, 24, 31, 40, 1000, 1 << 20, -1,
				    INT32_MAX };
	uint64_t seed = rlx_test_seed(), k;
	struct rlx_safetensor was, *t;
	static struct tiny_bert b;
	unsigned int ran = 0, i;

	begin(&b, &seed);
	for (i = 0; i < 400; i++) {
		k = rlx_test_rand(&seed);
		b.size = tb_toy;
		if (k % 3)
			(&b.size.hidden)[(k >> 8) % 7] = edge[(k >> 16) % 14];
		t = &b.t[(k >> 24) % b.n];
		was = *t;
		if (k % 3 != 1 && k & 1 << 5)
			t->type.dtype = k & 1 << 6 ? RLX_I32 : RLX_U32;
		if (k % 3 != 1 && k & 1 << 7)
			t->type = rlx_type(t->type.dtype, t->type.dim[t->type.rank - 1],
					   t->type.rank > 1 ? t->type.dim[0] : 1);
		tb_write(&b, dir);
		ran += runs_or_is_refused();
		*t = was;
	}
	printf("# %u of %u ran\n", ran, i);
	CHECK(ran > 10);
	tb_fini(&b);
}

/* Whichever of its files is cut, wherever: told, and nothing is left behind. */
TEST(truncated_folders)
{
	static const char *const leaf[] = { "config.json", "model.safetensors" };
	uint64_t seed = rlx_test_seed();
	static struct tiny_bert b;
	int64_t live;
	char path[160];
	unsigned int i;
	long n, at;
	FILE *f;

	begin(&b, &seed);
	live = rlx_alloc_live();
	for (i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, leaf[i]);
		f = fopen(path, "rb");
		CHECK(f && !fseek(f, 0, SEEK_END));
		n = ftell(f);
		fclose(f);
		/* to the closing brace: blanks may follow */
		for (at = n - 2; at > 0; at -= 1 + at / 64) {
			struct rlx_model *m = NULL;
			struct rlx_error err = { 0 };
			enum rlx_status st;

			CHECK(!truncate(path, at));
			st = rlx_model_open(dir, &m, &err);
			CHECKF((st == RLX_EPARSE || st == RLX_EIO) && !m, "%s cut to %ld: %s",
			       leaf[i], at, rlx_status_name(st));
			CHECKF(strstr(err.text, leaf[i]), "%s", err.text);
			CHECK_EQ(rlx_alloc_live(), live);
		}
		tb_write(&b, dir);
	}
	tb_fini(&b);
}

/* Every allocation of opening and building fails in turn; nothing leaks. */
TEST(no_memory_anywhere)
{
	struct rlx_bert_opts o = {
		.size = sizeof(o), .batch = 1, .seq = 4, .pool = RLX_BERT_MEAN,
		.normalise = true,
	};
	uint64_t seed = rlx_test_seed(), n;
	static struct tiny_bert b;
	enum rlx_status st = RLX_ENOMEM;
	int64_t live;

	begin(&b, &seed);
	live = rlx_alloc_live();
	for (n = 1; st; n++) {
		struct rlx_error err = { 0 };
		struct rlx_graph *g = NULL;
		struct rlx_bert *m = NULL;

		rlx_alloc_fail_nth(n);
		st = rlx_bert_open(dir, &m, &err);
		if (!st)
			st = rlx_bert_graph(m, &o, &g, &err);
		rlx_alloc_fail_nth(0);
		CHECKF(!st || st == RLX_ENOMEM, "allocation %llu: %s",
		       (unsigned long long)n, err.text);
		rlx_graph_put(g);
		rlx_bert_put(m);
		CHECK_EQ(rlx_alloc_live(), live);
		CHECK(n < 100000);
	}
	CHECK(n > 100);
	for (st = RLX_ENOMEM, n = 1; st; n++) {		/* as a model */
		struct rlx_named_tensor in[] = {
			{ "input_ids", rlx_type(RLX_I64, 1, 4), NULL },
			{ "lengths", rlx_type(RLX_I64, 1), NULL },
		};
		struct rlx_error err = { 0 };
		struct rlx_graph *g = NULL;
		struct rlx_model *m = NULL;

		rlx_alloc_fail_nth(n);
		st = rlx_model_open(dir, &m, &err);
		if (!st)
			st = rlx_model_graph(m, in, 2, &g, &err);
		rlx_alloc_fail_nth(0);
		CHECKF(st == err.status && (!st || st == RLX_ENOMEM), "allocation %llu: %s",
		       (unsigned long long)n, err.text);
		rlx_graph_put(g);
		rlx_model_put(m);
		CHECK_EQ(rlx_alloc_live(), live);
		CHECK(n < 100000);
	}
	CHECK(n > 100);
	tb_fini(&b);
}

TEST_MAIN()
