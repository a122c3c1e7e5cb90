// SPDX-License-Identifier: MIT
/* Decoders as .gguf files: what they give on the CPU and by doubles, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rlx/gguf.h"
#include "rlx/model.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

enum { WIDTH = 64, HEADS = 4, KV = 2, KEY = 16, INNER = 96, VOCAB = 37, CONTEXT = 24, SEQ = 7,
       EXPERTS = 4, CHOSEN = 2 };

/* A file of one layer; what is left out, or otherwise than it should be. */
struct file {
	char			path[64];
	struct rlx_gguf_pair	kv[32];
	struct rlx_gguf_tensor	v[24];
	char			keys[32][48];
	uint32_t		n_kv, n;
	float			data[24 * WIDTH * 128];
	size_t			used;
	uint64_t		seed;
};

static void key_u32(struct file *f, const char *key, uint64_t v)
{
	f->kv[f->n_kv++] = (struct rlx_gguf_pair){ key, { .type = RLX_GGUF_U32, .u = v } };
}

static void key_f32(struct file *f, const char *key, double v)
{
	f->kv[f->n_kv++] = (struct rlx_gguf_pair){ key, { .type = RLX_GGUF_F32, .f = v } };
}

static void key_text(struct file *f, const char *key, const char *v)
{
	f->kv[f->n_kv++] = (struct rlx_gguf_pair){
		key, { .type = RLX_GGUF_STRING, .n = strlen(v), .data = v } };
}

static void tensor(struct file *f, const char *name, int64_t rows, int64_t cols)
{
	float *x = f->data + f->used;
	int64_t n = (rows ? rows : 1) * cols, i;

	for (i = 0; i < n; i++)
		x[i] = (float)((double)(rlx_test_rand(&f->seed) >> 40) / (1 << 23) - 1) *
		       (rows ? 0.2f : 0.1f) + (rows ? 0 : 1);
	f->used += (size_t)n;
	f->v[f->n++] = (struct rlx_gguf_tensor){
		.name = name, .data = x,
		.type = rows ? rlx_type(RLX_F32, rows, cols) : rlx_type(RLX_F32, cols),
		.format = rows ? RLX_GGUF_AS_Q8_0 : RLX_GGUF_AS_F32,
	};
}

static void fill(struct file *f)
{
	memset(f, 0, sizeof(*f));
	f->seed = rlx_test_seed();
	snprintf(f->path, sizeof(f->path), "/tmp/rlx-gguf-model-%d.gguf", (int)getpid());
	key_text(f, "general.architecture", "llama");
	key_u32(f, "llama.block_count", 1);
	key_u32(f, "llama.embedding_length", WIDTH);
	key_u32(f, "llama.feed_forward_length", INNER);
	key_u32(f, "llama.context_length", CONTEXT);
	key_u32(f, "llama.attention.head_count", HEADS);
	key_u32(f, "llama.attention.head_count_kv", KV);
	key_f32(f, "llama.attention.layer_norm_rms_epsilon", 1e-5);
	tensor(f, "token_embd.weight", VOCAB, WIDTH);
	tensor(f, "output_norm.weight", 0, WIDTH);
	tensor(f, "blk.0.attn_norm.weight", 0, WIDTH);
	tensor(f, "blk.0.ffn_norm.weight", 0, WIDTH);
	tensor(f, "blk.0.attn_q.weight", HEADS * KEY, WIDTH);
	tensor(f, "blk.0.attn_k.weight", KV * KEY, WIDTH);
	tensor(f, "blk.0.attn_v.weight", KV * KEY, WIDTH);
	tensor(f, "blk.0.attn_output.weight", WIDTH, HEADS * KEY);
	tensor(f, "blk.0.ffn_gate.weight", INNER, WIDTH);
	tensor(f, "blk.0.ffn_up.weight", INNER, WIDTH);
	tensor(f, "blk.0.ffn_down.weight", WIDTH, INNER);
}

static void save(const struct file *f)
{
	struct rlx_error err = { 0 };

	CHECKF(!rlx_gguf_write(f->path, f->kv, f->n_kv, f->v, f->n, &err), "%s", err.text);
}

static int64_t ids[2 * SEQ];

static struct rlx_named_tensor input(struct file *f, int64_t batch, int64_t seq)
{
	int i;

	for (i = 0; i < 2 * SEQ; i++)
		ids[i] = (int64_t)(rlx_test_rand(&f->seed) >> 32) % VOCAB;
	return (struct rlx_named_tensor){ "input_ids", rlx_type(RLX_I64, batch, seq), ids };
}

static void run(struct file *f, const char *device, const struct rlx_named_tensor *in, float *y)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_error err = { 0 };
	struct rlx_named_tensor out;
	struct rlx_runner *r = NULL;
	struct rlx_model *m = NULL;

	CHECKF(!rlx_model_open(f->path, &m, &err), "%s", err.text);
	CHECKF(!rlx_runner_new(m, &o, &r, &err), "%s", err.text);
	CHECKF(!rlx_runner_run(r, in, 1, &err), "%s", err.text);
	CHECK(rlx_runner_output(r, 0, &out));
	CHECK_EQ(out.type.dim[2], VOCAB);
	memcpy(y, out.data, (size_t)rlx_type_bytes(&out.type));
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* Two texts by the evaluator into @want, and by the CPU into @y, which are alike. The largest. */
static double run_as_ref(struct file *f, struct rlx_named_tensor *in, float *want, float *y)
{
	double off = 0, top = 0;
	int i;

	run(f, "ref", in, want);
	run(f, "cpu", in, y);
	for (i = 0; i < 2 * SEQ * VOCAB; i++) {
		off = fmax(off, fabs((double)y[i] - (double)want[i]));
		top = fmax(top, fabs((double)want[i]));
	}
	CHECKF(off <= 1e-5 * top, "off by %g of %g", off, top);
	return top;
}

TEST(two_texts_at_once)
{
	static float want[2 * SEQ * VOCAB], y[2 * SEQ * VOCAB], one[SEQ * VOCAB];
	static struct file f;
	struct rlx_named_tensor in;
	double top;
	int i;

	fill(&f);
	save(&f);
	in = input(&f, 2, SEQ);
	top = run_as_ref(&f, &in, want, y);
	/* what comes later changes nothing: one text, cut */
	in.type = rlx_type(RLX_I64, 1, 3);
	run(&f, "cpu", &in, one);
	for (i = 0; i < 3 * VOCAB; i++)
		CHECK(fabs((double)one[i] - (double)want[i]) <= 1e-5 * top);
	remove(f.path);
}

/* The file as it is now is refused with @st, and a message that has @what. */
static void set_arch(struct file *f, const char *arch)
{
	uint32_t i;

	for (i = 1; i < f->n_kv; i++) {
		snprintf(f->keys[i], sizeof(f->keys[i]), "%s%s", arch, strchr(f->kv[i].key, '.'));
		f->kv[i].key = f->keys[i];
	}
	f->kv[0].value.data = arch;
	f->kv[0].value.n = strlen(arch);
}

/* Tensor @i as the first @alike of a stack of experts, whose others are drawn. */
static void stack(struct file *f, uint32_t i, const char *name, int alike, int format)
{
	struct rlx_gguf_tensor *t = &f->v[i];
	int64_t n = rlx_type_count(&t->type), e, j;
	const float *from = t->data;
	float *to = f->data + f->used;

	t->name = name;
	t->data = to;
	t->format = format;
	t->type = rlx_type(RLX_F32, EXPERTS, t->type.dim[0], t->type.dim[1]);
	for (e = 0; e < EXPERTS; e++)
		for (j = 0; j < n; j++)
			*to++ = e < alike ? from[j] : (float)rlx_test_uniform(&f->seed, -1, 1);
	f->used += (size_t)(EXPERTS * n);
}

/* Its network as experts; a router of zeros chooses the first ones. */
static void into_experts(struct file *f, int alike, int format)
{
	float *router;
	int i;

	key_u32(f, "llama.expert_count", EXPERTS);
	key_u32(f, "llama.expert_used_count", CHOSEN);
	stack(f, 8, "blk.0.ffn_gate_exps.weight", alike, format);
	stack(f, 9, "blk.0.ffn_up_exps.weight", alike, format);
	stack(f, 10, "blk.0.ffn_down_exps.weight", alike, format);
	router = f->data + f->used;
	tensor(f, "blk.0.ffn_gate_inp.weight", EXPERTS, WIDTH);
	f->v[f->n - 1].format = RLX_GGUF_AS_F32;
	for (i = 0; i < EXPERTS * WIDTH && alike < EXPERTS; i++)
		router[i] = 0;
}

/* Experts that are all the dense network, or those chosen are, give what it gives. */
TEST(r198_experts_that_are_alike)
{
	static const struct {
		const char	*dense, *experts;
		int		 alike, format;
	} cases[] = {
		{ "llama", "llama", EXPERTS, RLX_GGUF_AS_Q8_0 },
		{ "llama", "llama", CHOSEN, RLX_GGUF_AS_Q8_0 },
		{ "qwen3", "qwen3moe", CHOSEN, RLX_GGUF_AS_Q8_0 },
		{ "qwen3", "qwen3moe", EXPERTS, RLX_GGUF_AS_F32 },
		{ "llama", "llama", EXPERTS - 1, RLX_GGUF_AS_F32 },
	};
	static float want[2 * SEQ * VOCAB], y[2 * SEQ * VOCAB], ref[2 * SEQ * VOCAB];
	static struct file f, g;
	struct rlx_named_tensor in;
	double off, top;
	size_t c;
	int i;

	for (c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		fill(&f);
		for (i = 8; i < 11; i++)
			f.v[i].format = cases[c].format;
		g = f;
		into_experts(&g, cases[c].alike, cases[c].format);
		g.kv[3].value.u = strcmp(cases[c].experts, "llama") ? INNER * CHOSEN : INNER;
		set_arch(&f, cases[c].dense);
		set_arch(&g, cases[c].experts);
		in = input(&f, 2, SEQ);
		save(&f);
		run(&f, "cpu", &in, want);
		save(&g);
		run(&g, "cpu", &in, y);
		run(&g, "ref", &in, ref);
		remove(f.path);
		for (i = 0, off = top = 0; i < 2 * SEQ * VOCAB; i++) {
			off = fmax(off, fabs((double)y[i] - (double)want[i]));
			off = fmax(off, fabs((double)y[i] - (double)ref[i]));
			top = fmax(top, fabs((double)want[i]));
		}
		CHECKF(off <= 1e-5 * top, "case %d: off by %g of %g", (int)c, off, top);
	}
}

/* y = w x of tensor @i. */
static void times(const struct file *f, uint32_t i, const double *x, double *y)
{
	const struct rlx_gguf_tensor *t = &f->v[i];
	const float *w = t->data;
	int64_t r, c;

	for (r = 0; r < t->type.dim[0]; r++)
		for (y[r] = 0, c = 0; c < t->type.dim[1]; c++)
			y[r] += (double)*w++ * x[c];
}

static void normed(const struct file *f, uint32_t i, const double *x, double *y)
{
	double sum = 0;
	int c;

	for (c = 0; c < WIDTH; c++)
		sum += x[c] * x[c] / WIDTH;
	for (c = 0; c < WIDTH; c++)
		y[c] = x[c] / sqrt(sum + 1e-5) * (double)((const float *)f->v[i].data)[c];
}

static void turn(double *x, int heads, int at)
{
	int h, i;

	for (h = 0; h < heads; h++, x += KEY)
		for (i = 0; i < KEY; i += 2) {
			double a = at * pow(10000, -(double)i / KEY), u = x[i];

			x[i] = u * cos(a) - x[i + 1] * sin(a);
			x[i + 1] = x[i + 1] * cos(a) + u * sin(a);
		}
}

/* The router's scores of one text's tokens, layer 0, in double. */
static void scores(const struct file *f, const int64_t *text, double score[SEQ][EXPERTS])
{
	static double k[SEQ][KV * KEY], v[SEQ][KV * KEY];
	double x[WIDTH], h[WIDTH], q[HEADS * KEY], o[HEADS * KEY], p[SEQ], sum;
	int s, t, i, a;

	for (s = 0; s < SEQ; s++) {
		for (i = 0; i < WIDTH; i++)
			x[i] = (double)((const float *)f->v[0].data)[text[s] * WIDTH + i];
		normed(f, 2, x, h);
		times(f, 4, h, q);
		times(f, 5, h, k[s]);
		times(f, 6, h, v[s]);
		turn(q, HEADS, s);
		turn(k[s], KV, s);
		for (a = 0; a < HEADS; a++) {
			int g = a / (HEADS / KV) * KEY;

			for (sum = 0, t = 0; t <= s; t++) {
				for (p[t] = 0, i = 0; i < KEY; i++)
					p[t] += q[a * KEY + i] * k[t][g + i] / sqrt(KEY);
				p[t] = exp(p[t]);
				sum += p[t];
			}
			for (i = 0; i < KEY; i++)
				for (o[a * KEY + i] = 0, t = 0; t <= s; t++)
					o[a * KEY + i] += p[t] / sum * v[t][g + i];
		}
		times(f, 7, o, h);
		for (i = 0; i < WIDTH; i++)
			x[i] += h[i];
		normed(f, 3, x, h);
		times(f, f->n - 1, h, score[s]);
	}
}

/* What each token of a file's model chose is what plain code chooses of the file's numbers. */
TEST(r013_r014_experts_of_a_file)
{
	static struct file f;
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, c, t;
	struct rlx_named_tensor in;
	double score[SEQ][EXPERTS];
	uint32_t i;

	fill(&f);
	into_experts(&f, EXPERTS, RLX_GGUF_AS_F32);
	for (i = 0; i < f.n; i++)
		f.v[i].format = RLX_GGUF_AS_F32;
	save(&f);
	in = input(&f, 2, SEQ);
	for (d = 1; d < n; d++) {
		struct rlx_compile_opts o = { .size = sizeof(o), .device = device[d],
					      .flags = RLX_COMPILE_EXPERTS };
		int64_t ids_of[2][SEQ][CHOSEN];
		struct rlx_error err = { 0 };
		struct rlx_runner *r = NULL;
		struct rlx_session *s;
		struct rlx_model *m = NULL;

		CHECKF(!rlx_model_open(f.path, &m, &err), "%s", err.text);
		CHECKF(!rlx_runner_new(m, &o, &r, &err), "%s", err.text);
		CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
		CHECK_EQ(rlx_runner_output_count(r), 1);	/* as without */
		s = rlx_runner_session(r, &in, 1, &err);
		CHECKF(s && !rlx_session_get(s, RLX_IO_OUTPUT, "experts.0",
					     rlx_type(RLX_I64, 2, SEQ, CHOSEN), ids_of), "%s",
		       s ? rlx_session_error(s)->text : err.text);
		for (t = 0; t < 2; t++) {
			scores(&f, ids + t * SEQ, score);
			for (i = 0; i < SEQ; i++)
				for (c = 0; c < CHOSEN; c++) {
					double *at = score[i], own = at[ids_of[t][i][c]];
					int e;

					for (e = 0; e < EXPERTS; e++)	/* none left is above it */
						CHECKF(at[e] <= own + 1e-5, "%s: text %u, token "
						       "%u: %g, not %g", device[d], t, i, own, at[e]);
					at[ids_of[t][i][c]] = -INFINITY;
				}
		}
		rlx_runner_free(r);
		rlx_model_put(m);
	}
	remove(f.path);
}

static void refused(const struct file *f, enum rlx_status st, const char *what)
{
	struct rlx_error err = { 0 };
	struct rlx_model *m = NULL;

	save(f);
	CHECK_EQ(rlx_model_open(f->path, &m, &err), st);
	CHECKF(strstr(err.text, what), "\"%s\" without \"%s\"", err.text, what);
	rlx_model_put(m);
	remove(f->path);
}

TEST(what_is_refused)
{
	static const float bad[] = { 0, -1, INFINITY, NAN };
	static struct file f, g;
	size_t i;

	fill(&f);
#define BUT(change, st, what) do { g = f; change; refused(&g, st, what); } while (0)
	BUT(g.kv[0].value.data = "gpt2!", RLX_ENOSUP, "gpt2!");
	BUT(g.kv[2].key = "llama.other", RLX_ENOENT, "llama.embedding_length");
	BUT(g.kv[2].value.u = 0, RLX_ERANGE, "llama.embedding_length");
	BUT(g.kv[5].value.u = 3, RLX_ESHAPE, "heads");
	BUT(g.kv[1].value.u = 2, RLX_ENOENT, "blk.1.attn_norm.weight");
	BUT(key_u32(&g, "llama.expert_count", 8), RLX_ENOENT, "llama.expert_used_count");
	BUT(key_text(&g, "llama.rope.scaling.type", "yarn"), RLX_ENOSUP, "rope.scaling.type");
	BUT(g.v[4].name = "blk.0.attn_qkv.weight", RLX_ENOENT, "blk.0.attn_q.weight");
	BUT(g.v[4].type.dim[0] = 32, RLX_ESHAPE, "blk.0.attn_q.weight");
	BUT(tensor(&g, "blk.0.attn_sinks.weight", 0, HEADS), RLX_ENOSUP, "attn_sinks");
	BUT(g.kv[7].value.f = NAN, RLX_ERANGE, "layer_norm_rms_epsilon");
#undef BUT
	tensor(&f, "rope_freqs.weight", 0, KEY / 2);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		f.data[f.used - KEY / 2 + 1] = bad[i];
		refused(&f, RLX_ERANGE, "element 1 of tensor rope_freqs.weight");
	}
}

TEST(experts_refused)
{
	static struct file f, g;
	uint32_t kv;

	fill(&f);
	kv = f.n_kv;
	into_experts(&f, EXPERTS, RLX_GGUF_AS_Q8_0);
#define BUT(change, st, what) do { g = f; change; refused(&g, st, what); } while (0)
	BUT(g.kv[kv].value.u = EXPERTS + 1, RLX_ESHAPE, "blk.0.ffn_gate_inp.weight");
	BUT(g.kv[kv].value.u = 0, RLX_ENOENT, "blk.0.ffn_gate.weight");
	BUT(g.kv[kv + 1].key = "llama.other", RLX_ENOENT, "llama.expert_used_count");
	BUT(g.kv[kv + 1].value.u = EXPERTS + 1, RLX_ERANGE, "llama.expert_used_count");
	BUT(g.v[9].name = "blk.0.ffn_up.weight", RLX_ENOENT, "blk.0.ffn_up_exps.weight");
	BUT(g.v[9].type.dim[0]--, RLX_ESHAPE, "blk.0.ffn_up_exps.weight is not [4, 96, 64]");
	BUT(tensor(&g, "blk.0.ffn_up.weight", INNER, WIDTH), RLX_ENOSUP, "blk.0.ffn_up.weight");
	BUT(key_u32(&g, "llama.expert_gating_func", 2), RLX_ENOSUP, "softmax");
	BUT(key_u32(&g, "llama.expert_shared_count", 1), RLX_ENOSUP, "expert_shared_count");
	BUT(key_u32(&g, "llama.expert_feed_forward_length", 32), RLX_ESHAPE, "ffn_gate_exps");
#undef BUT
	set_arch(&f, "qwen3moe");
	f.kv[kv].value.u = 0;
	refused(&f, RLX_ERANGE, "qwen3moe.expert_count");
}

/* As rlx train writes it: layer norms, a table of positions, q, k and v in one tensor, no gate. */
static void fill_gpt2(struct file *f)
{
	static const char *const of_layer[][2] = {
		{ "blk.0.attn_norm.weight", "blk.0.attn_norm.bias" },
		{ "blk.0.ffn_norm.weight", "blk.0.ffn_norm.bias" },
		{ "output_norm.weight", "output_norm.bias" },
		{ "blk.0.attn_output.bias", "blk.0.ffn_down.bias" },
	};
	int i;

	memset(f, 0, sizeof(*f));
	f->seed = rlx_test_seed();
	snprintf(f->path, sizeof(f->path), "/tmp/rlx-gguf-model-%d.gguf", (int)getpid());
	key_text(f, "general.architecture", "gpt2");
	key_u32(f, "gpt2.block_count", 1);
	key_u32(f, "gpt2.embedding_length", WIDTH);
	key_u32(f, "gpt2.feed_forward_length", INNER);
	key_u32(f, "gpt2.context_length", CONTEXT);
	key_u32(f, "gpt2.attention.head_count", HEADS);
	key_f32(f, "gpt2.attention.layer_norm_epsilon", 1e-5);
	tensor(f, "token_embd.weight", VOCAB, WIDTH);
	tensor(f, "position_embd.weight", CONTEXT, WIDTH);
	tensor(f, "blk.0.attn_qkv.weight", 3 * WIDTH, WIDTH);
	tensor(f, "blk.0.attn_qkv.bias", 0, 3 * WIDTH);
	tensor(f, "blk.0.attn_output.weight", WIDTH, WIDTH);
	tensor(f, "blk.0.ffn_up.weight", INNER, WIDTH);
	tensor(f, "blk.0.ffn_up.bias", 0, INNER);
	tensor(f, "blk.0.ffn_down.weight", WIDTH, INNER);
	for (i = 0; i < 8; i++)
		tensor(f, of_layer[i / 2][i % 2], 0, WIDTH);
}

TEST(gpt2)
{
	static float want[2 * SEQ * VOCAB], y[2 * SEQ * VOCAB];
	static struct file f, g;
	struct rlx_named_tensor in;
	int i;

	fill_gpt2(&f);
	save(&f);
	in = input(&f, 2, SEQ);
	run_as_ref(&f, &in, want, y);
	for (i = 1; i < (int)f.n; i++) {
		g = f;			/* only biases of products may be left out */
		g.v[i] = g.v[--g.n];
		if (!strstr(f.v[i].name, ".bias") || strstr(f.v[i].name, "norm"))
			refused(&g, RLX_ENOENT, f.v[i].name);
	}
#define BUT(change, st, what) do { g = f; change; refused(&g, st, what); } while (0)
	BUT(g.v[1].type.dim[0]--, RLX_ESHAPE, "position_embd.weight");
	BUT(g.v[2].type.dim[0]--, RLX_ESHAPE, "blk.0.attn_qkv.weight is not [192, 64]");
	BUT(tensor(&g, "blk.0.attn_q.weight", WIDTH, WIDTH), RLX_ENOSUP, "blk.0.attn_q.weight");
	BUT(tensor(&g, "rope_freqs.weight", 0, 8), RLX_ENOSUP, "rope_freqs.weight");
	BUT(g.kv[6].key = "gpt2.other", RLX_ENOENT, "layer_norm_epsilon");
	BUT(key_u32(&g, "gpt2.attention.causal", 0), RLX_ENOSUP, "attention.causal");
	BUT(key_u32(&g, "gpt2.expert_count", 2), RLX_ENOENT, "expert_used_count");
#undef BUT
	remove(f.path);
}

TEST(lengths_and_inputs_refused)
{
	static struct file f;
	struct rlx_named_tensor in;
	struct rlx_error err = { 0 };
	struct rlx_graph *g = NULL;
	struct rlx_model *m = NULL;

	fill(&f);
	save(&f);
	in = input(&f, 1, CONTEXT + 1);
	CHECKF(!rlx_model_open(f.path, &m, &err), "%s", err.text);
	CHECK_EQ(rlx_model_graph(m, &in, 1, &g, &err), RLX_ERANGE);
	in.type = rlx_type(RLX_I32, 1, 3);
	CHECK_EQ(rlx_model_graph(m, &in, 1, &g, &err), RLX_ETYPE);
	in.name = "ids";
	CHECK_EQ(rlx_model_graph(m, &in, 1, &g, &err), RLX_ENOENT);
	rlx_model_put(m);
	remove(f.path);
}

static enum rlx_status opened(void *ctx)
{
	struct file *f = ctx;
	struct rlx_named_tensor in = { "input_ids", rlx_type(RLX_I64, 1, 3), ids };
	struct rlx_error err = { 0 };
	struct rlx_graph *g = NULL;
	struct rlx_model *m = NULL;
	enum rlx_status st = rlx_model_open(f->path, &m, &err);

	st = st ? st : rlx_model_graph(m, &in, 1, &g, &err);
	rlx_graph_put(g);
	rlx_model_put(m);
	return st;
}

TEST(no_memory_anywhere)
{
	static struct file f;

	fill(&f);
	save(&f);
	CHECK(rlx_oom_sweep(opened, &f) > 50);
	remove(f.path);
}

/* What could be opened is run, or refused with a message. True: it ran. */
static bool run_or_refused(const struct file *f)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 1 };
	struct rlx_named_tensor in = { "input_ids", rlx_type(RLX_I64, 1, 3), ids }, out;
	struct rlx_error err = { 0 };
	struct rlx_runner *r = NULL;
	struct rlx_model *m = NULL;
	enum rlx_status st = rlx_model_open(f->path, &m, &err);

	st = st ? st : rlx_runner_new(m, &o, &r, &err);
	st = st ? st : rlx_runner_run(r, &in, 1, &err);
	CHECK(!st || err.text[0]);
	CHECK(st || rlx_runner_output(r, 0, &out));
	rlx_runner_free(r);
	rlx_model_put(m);
	return !st;
}

/* Numbers, of which one to three are others, behind which all still fits. */
TEST(other_numbers)
{
	static const uint64_t edge[] = { 0, 1, 2, 3, 5, 7, 16, 17, 64, 128, 255, 256, 1 << 20,
					 INT32_MAX, UINT32_MAX };
	static struct file f, g;
	uint64_t seed = rlx_test_seed(), v;
	unsigned int ran = 0, times;
	int i;

	fill(&f);
	for (i = 0; i < 400; i++) {
		g = f;
		for (times = 1 + (unsigned int)(rlx_test_rand(&seed) % 3); times; times--) {
			struct rlx_gguf_pair *kv = &g.kv[1 + rlx_test_rand(&seed) % (g.n_kv - 1)];

			v = edge[rlx_test_rand(&seed) % (sizeof(edge) / sizeof(*edge))];
			if (kv->value.type == RLX_GGUF_F32)
				kv->value.f = (double)v - 1;
			else
				kv->value.u = v;
		}
		save(&g);
		ran += run_or_refused(&g);
	}
	printf("# %u of %d ran\n", ran, i);
	CHECK(ran > 10);
	remove(f.path);
}

/* Heads with some bytes that are others: opened or refused, with a message, and never more. */
TEST(mutated_heads)
{
	static struct file f;
	static char bytes[1 << 19];
	uint64_t seed = rlx_test_seed();
	size_t n, at, head = 2048;
	FILE *file;
	int i, k;

	fill(&f);
	save(&f);
	file = fopen(f.path, "rb");
	n = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	CHECK(n > head && n < sizeof(bytes));
	for (i = 0; i < 300; i++) {
		char was[4];
		size_t places[4];

		for (k = 0; k < 4; k++) {
			at = places[k] = (size_t)(rlx_test_rand(&seed) >> 20) % head;
			was[k] = bytes[at];
			bytes[at] = (char)(rlx_test_rand(&seed) >> 30);
		}
		file = fopen(f.path, "wb");
		CHECK_EQ(fwrite(bytes, 1, n, file), n);
		fclose(file);
		if (!opened(&f))
			run_or_refused(&f);
		for (k = 4; k--;)
			bytes[places[k]] = was[k];
	}
	remove(f.path);
}

TEST_MAIN()
