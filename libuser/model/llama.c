// SPDX-License-Identifier: MIT
/*
 * Decoders of the llama family out of .gguf files: RMS norms, rotary positions, attention with
 * grouped heads, a gated feed-forward network or experts that are such. And gpt2, with layer norms,
 * a table of positions, and a network without gate. Weights stay mapped, those in blocks packed.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/formats/file.h"
#include "io/formats/gguf.h"
#include "model/llama.h"
#include "rlx/blocks.h"

enum family { ANY_FAMILY, LLAMA, GPT2 };

/* What differs between architectures; a bias or a norm of heads is used where the file has it. */
static const struct arch {
	const char	*name;
	uint8_t		 style;		/* enum rlx_rope_style */
	bool		 experts;	/* there always are */
	uint8_t		 family;
} archs[] = {
	{ "llama", RLX_ROPE_GPTJ, false, LLAMA }, { "qwen2", RLX_ROPE_NEOX, false, LLAMA },
	{ "qwen3", RLX_ROPE_NEOX, false, LLAMA }, { "qwen3moe", RLX_ROPE_NEOX, true, LLAMA },
	{ "gpt2", RLX_ROPE_NEOX, false, GPT2 },
};

enum { N_ARCH = sizeof(archs) / sizeof(archs[0]), NAME = 96, MOST = 1 << 24 };

struct llama {
	atomic_uint		 refs;
	struct rlx_gguf		*file;
	const char		*path;
	const struct arch	*arch;
	int64_t			 layers, width, inner, heads, kv_heads, key, value, n_rot;
	int64_t			 context, vocab;
	int64_t			 experts, chosen;	/* of each layer, and by each token; or 0 */
	double			 eps, base, scale;
	const float		*factors;	/* of n_rot / 2 frequencies, or NULL */
	uint32_t		 used;		/* tensors looked for and found */
	char			 text[256];	/* the path, for messages */
};

/* ---- keys ---- */

static bool key_at(const struct llama *m, const char *leaf, struct rlx_gguf_value *v)
{
	char key[NAME];

	snprintf(key, sizeof(key), "%s.%s", m->arch->name, leaf);
	return rlx_gguf_get(m->file, key, v);
}

/* A count from @lo on; @absent, unless negative, if there is no such key. */
static enum rlx_status count_at(const struct llama *m, const char *leaf, int64_t lo,
				int64_t absent, int64_t *out, struct rlx_error *err)
{
	struct rlx_gguf_value v;
	uint64_t u;

	if (!key_at(m, leaf, &v)) {
		*out = absent;
		return absent >= 0 ? RLX_OK : rlx_fail(err, RLX_ENOENT, "%s: key %s.%s is missing",
						       m->path, m->arch->name, leaf);
	}
	if (v.type == RLX_GGUF_ARRAY)
		return rlx_fail(err, RLX_ENOSUP, "%s: key %s.%s differs from layer to layer, which "
				"is not supported", m->path, m->arch->name, leaf);
	u = v.type == RLX_GGUF_I32 && v.i >= 0 ? (uint64_t)v.i : v.u;
	if ((v.type != RLX_GGUF_U32 && v.type != RLX_GGUF_I32 && v.type != RLX_GGUF_U64) ||
	    u < (uint64_t)lo || u > MOST)
		return rlx_fail(err, RLX_ERANGE, "%s: key %s.%s is no number from %lld to %d",
				m->path, m->arch->name, leaf, (long long)lo, MOST);
	*out = (int64_t)u;
	return RLX_OK;
}

/* A finite number above 0; @absent, unless 0, if there is no such key. */
static enum rlx_status real_at(const struct llama *m, const char *leaf, double absent, double *out,
			       struct rlx_error *err)
{
	struct rlx_gguf_value v;

	*out = absent;
	if (!key_at(m, leaf, &v))
		return absent > 0 ? RLX_OK : rlx_fail(err, RLX_ENOENT, "%s: key %s.%s is missing",
						      m->path, m->arch->name, leaf);
	if (v.type != RLX_GGUF_F32 || !(v.f > 0) || !isfinite(v.f))
		return rlx_fail(err, RLX_ERANGE, "%s: key %s.%s is no f32 above 0", m->path,
				m->arch->name, leaf);
	*out = v.f;
	return RLX_OK;
}

static enum rlx_status find_arch(struct llama *m, struct rlx_error *err)
{
	struct rlx_gguf_value v;
	unsigned int i;

	if (!rlx_gguf_get(m->file, "general.architecture", &v) || v.type != RLX_GGUF_STRING)
		return rlx_fail(err, RLX_ENOENT, "%s: key general.architecture is missing, or no "
				"string", m->path);
	for (i = 0; i < N_ARCH; i++)
		if (strlen(archs[i].name) == v.n && !memcmp(archs[i].name, v.data, v.n))
			m->arch = &archs[i];
	return m->arch ? RLX_OK : rlx_fail(err, RLX_ENOSUP, "%s: architecture \"%.*s\" is not "
					   "supported; llama, qwen2, qwen3, qwen3moe and gpt2 are", m->path,
					   (int)(v.n < 40 ? v.n : 40), (const char *)v.data);
}

/* By how much positions are divided; other stretchings are not built. */
static enum rlx_status read_scaling(struct llama *m, struct rlx_error *err)
{
	double factor = 1;
	struct rlx_gguf_value v;
	enum rlx_status st = RLX_OK;
	bool linear = false;

	if (key_at(m, "rope.scaling.type", &v)) {
		linear = v.type == RLX_GGUF_STRING && v.n == 6 && !memcmp(v.data, "linear", 6);
		if (!linear && (v.type != RLX_GGUF_STRING || v.n != 4 || memcmp(v.data, "none", 4)))
			return rlx_fail(err, RLX_ENOSUP, "%s: key %s.rope.scaling.type is neither "
					"none nor linear", m->path, m->arch->name);
		if (linear)
			st = real_at(m, "rope.scaling.factor", 0, &factor, err);
	} else if (key_at(m, "rope.scale_linear", &v)) {
		st = real_at(m, "rope.scale_linear", 0, &factor, err);
	}
	m->scale = 1 / factor;
	return st;
}

/* Keys of what is not built. */
static enum rlx_status refuse(const struct llama *m, struct rlx_error *err)
{
	enum { CAUSAL };	/* of all others 0 is what is built */
	static const char *const keys[] = {
		[CAUSAL] = "attention.causal", "expert_shared_count", "expert_group_count",
		"expert_weights_scale", "leading_dense_block_count", "interleave_moe_layer_step",
		"attention.sliding_window", "rope.scaling.attn_factor",
		"attention.clamp_kqv", "attention.max_alibi_bias", "logit_scale",
		"residual_scale", "embedding_scale", "attention.scale",
	};
	struct rlx_gguf_value v;
	unsigned int i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (key_at(m, keys[i], &v) &&
		    (v.type == RLX_GGUF_F32 ? v.f != 0 : v.u != 0) != (i == CAUSAL))
			return rlx_fail(err, RLX_ENOSUP, "%s: key %s.%s is not supported", m->path,
					m->arch->name, keys[i]);
	if ((key_at(m, "expert_gating_func", &v) && v.u > 1) ||
	    (key_at(m, "expert_weights_norm", &v) && !v.u))
		return rlx_fail(err, RLX_ENOSUP, "%s: experts that are not weighed by a softmax "
				"over those chosen are not supported", m->path);
	return RLX_OK;
}

/* How many experts there are, and how wide: an architecture of experts has them side by side. */
static enum rlx_status read_experts(struct llama *m, struct rlx_error *err)
{
	bool must = m->arch->experts;
	enum rlx_status st = count_at(m, "expert_count", must, must ? -1 : 0, &m->experts, err);
	int64_t inner = 0;

	if (st || !m->experts)
		return st ? st : count_at(m, "feed_forward_length", 1, -1, &m->inner, err);
	st = count_at(m, "expert_used_count", 1, -1, &m->chosen, err);
	st = st ? st : count_at(m, "feed_forward_length", 0, 0, &inner, err);
	if (st)
		return st;
	inner = must ? inner / m->chosen : inner;
	if (m->chosen > m->experts)
		return rlx_fail(err, RLX_ERANGE, "%s: key %s.expert_used_count is %lld, of %lld "
				"experts", m->path, m->arch->name, (long long)m->chosen,
				(long long)m->experts);
	return count_at(m, "expert_feed_forward_length", 1, inner ? inner : -1, &m->inner, err);
}

static enum rlx_status read_keys(struct llama *m, struct rlx_error *err)
{
	enum rlx_status st = find_arch(m, err);
	int64_t d;

	st = st ? st : refuse(m, err);
	st = st ? st : count_at(m, "block_count", 1, -1, &m->layers, err);
	st = st ? st : count_at(m, "embedding_length", 1, -1, &m->width, err);
	st = st ? st : read_experts(m, err);
	st = st ? st : count_at(m, "context_length", 1, -1, &m->context, err);
	st = st ? st : count_at(m, "attention.head_count", 1, -1, &m->heads, err);
	st = st ? st : count_at(m, "attention.head_count_kv", 1, m->heads, &m->kv_heads, err);
	d = st ? 0 : m->width / m->heads;
	st = st ? st : count_at(m, "attention.key_length", 1, d, &m->key, err);
	st = st ? st : count_at(m, "attention.value_length", 1, d, &m->value, err);
	st = st ? st : real_at(m, m->arch->family == GPT2 ? "attention.layer_norm_epsilon" :
			       "attention.layer_norm_rms_epsilon", 0, &m->eps, err);
	if (!st && m->arch->family == LLAMA) {
		st = count_at(m, "rope.dimension_count", 2, m->key, &m->n_rot, err);
		st = st ? st : real_at(m, "rope.freq_base", 10000, &m->base, err);
		st = st ? st : read_scaling(m, err);
	}
	if (st)
		return st;
	if (m->heads % m->kv_heads || m->n_rot % 2 || m->n_rot > m->key || !m->key || !m->value)
		return rlx_fail(err, RLX_ESHAPE, "%s: %lld heads of %lld and %lld elements share "
				"%lld, %lld of them rotated: these do not fit", m->path,
				(long long)m->heads, (long long)m->key, (long long)m->value,
				(long long)m->kv_heads, (long long)m->n_rot);
	return RLX_OK;
}

/* ---- tensors ---- */

static const char *in_layer(char name[NAME], int64_t l, const char *leaf)
{
	snprintf(name, NAME, "blk.%lld.%s", (long long)l, leaf);
	return name;
}

static bool is_plain(const struct rlx_gguf_tensor *t)
{
	return t->type.dtype == RLX_F32 || t->type.dtype == RLX_F16 || t->type.dtype == RLX_BF16;
}

/* Tensor @name is of @dim, stack, rows and columns, without what is 0, and can be read. */
static enum rlx_status need_stack(struct llama *m, const char *name, const int64_t dim[3],
				  bool optional, struct rlx_error *err)
{
	const struct rlx_gguf_tensor *t = rlx_gguf_find(m->file, name);
	int64_t stack = dim[0], rows = dim[1], cols = dim[2];
	uint32_t rank = stack ? 3 : rows ? 2 : 1;
	char first[24] = "";

	if (!t)
		return optional ? RLX_OK : rlx_fail(err, RLX_ENOENT, "%s: tensor %s is missing",
						    m->path, name);
	m->used++;
	if (stack)
		snprintf(first, sizeof(first), "%lld, ", (long long)stack);
	if (t->type.rank != rank || t->type.dim[rank - 1] != cols ||
	    (rows && t->type.dim[rank - 2] != rows) || (stack && t->type.dim[0] != stack))
		return rlx_fail(err, RLX_ESHAPE, "%s: tensor %s is not [%s%lld, %lld]", m->path,
				name, first, (long long)(rows ? rows : 1), (long long)cols);
	if (!is_plain(t) && (!rows || rlx_gguf_scheme(t->format) < 0))
		return rlx_fail(err, RLX_ENOSUP, "%s: tensor %s is stored as %s, which is not "
				"supported here", m->path, name, gguf_format_of(t->format)->name);
	if (is_plain(t) && (uintptr_t)t->data % rlx_dtype_size(t->type.dtype))
		return rlx_fail(err, RLX_ENOSUP, "%s: the data of tensor %s is not aligned to its "
				"elements", m->path, name);
	return RLX_OK;
}

/* What there is of each layer: [rows, cols], or [cols]; of experts a stack of it. */
enum extent { NO_ROWS, WIDTH, INNER, QUERY, KEY, VALUE, QKV, HEADS, HEAD, EXPERTS, VOCAB, CONTEXT,
	      FREQUENCIES, N_EXTENT };
enum feed { ANY, ONE, ROUTER, STACK };		/* which layers have it; ONE: without experts */

static const struct part {
	const char	*leaf;
	uint8_t		 rows, cols;	/* of enum extent */
	bool		 optional;
	uint8_t		 feed, family;
} parts[] = {
	{ "attn_norm.weight", NO_ROWS, WIDTH, false }, { "ffn_norm.weight", NO_ROWS, WIDTH, false },
	{ "attn_norm.bias", NO_ROWS, WIDTH, false, ANY, GPT2 },
	{ "ffn_norm.bias", NO_ROWS, WIDTH, false, ANY, GPT2 },
	{ "attn_qkv.weight", QKV, WIDTH, false, ANY, GPT2 },
	{ "attn_qkv.bias", NO_ROWS, QKV, true, ANY, GPT2 },
	{ "attn_q.weight", QUERY, WIDTH, false, ANY, LLAMA },
	{ "attn_k.weight", KEY, WIDTH, false, ANY, LLAMA },
	{ "attn_v.weight", VALUE, WIDTH, false, ANY, LLAMA },
	{ "attn_output.weight", WIDTH, HEADS, false },
	{ "ffn_gate.weight", INNER, WIDTH, false, ONE, LLAMA },
	{ "ffn_up.weight", INNER, WIDTH, false, ONE },
	{ "ffn_down.weight", WIDTH, INNER, false, ONE },
	{ "ffn_gate_inp.weight", EXPERTS, WIDTH, false, ROUTER, LLAMA },
	{ "ffn_gate_exps.weight", INNER, WIDTH, false, STACK, LLAMA },
	{ "ffn_up_exps.weight", INNER, WIDTH, false, STACK, LLAMA },
	{ "ffn_down_exps.weight", WIDTH, INNER, false, STACK, LLAMA },
	{ "attn_q.bias", NO_ROWS, QUERY, true, ANY, LLAMA },
	{ "attn_k.bias", NO_ROWS, KEY, true, ANY, LLAMA },
	{ "attn_v.bias", NO_ROWS, VALUE, true, ANY, LLAMA },
	{ "attn_output.bias", NO_ROWS, WIDTH, true },
	{ "ffn_gate.bias", NO_ROWS, INNER, true, ONE, LLAMA },
	{ "ffn_up.bias", NO_ROWS, INNER, true, ONE },
	{ "ffn_down.bias", NO_ROWS, WIDTH, true, ONE },
	{ "attn_q_norm.weight", NO_ROWS, HEAD, true },
	{ "attn_k_norm.weight", NO_ROWS, HEAD, true },
};

/* And of all layers together */
static const struct part shared[] = {
	{ "token_embd.weight", VOCAB, WIDTH, false }, { "output.weight", VOCAB, WIDTH, true },
	{ "output_norm.weight", NO_ROWS, WIDTH, false },
	{ "output_norm.bias", NO_ROWS, WIDTH, false, ANY, GPT2 },
	{ "position_embd.weight", CONTEXT, WIDTH, false, ANY, GPT2 },
	{ "rope_freqs.weight", NO_ROWS, FREQUENCIES, true, ANY, LLAMA },
};

enum { N_PART = sizeof(parts) / sizeof(parts[0]), N_SHARED = sizeof(shared) / sizeof(shared[0]) };

static bool has_part(const struct llama *m, const struct part *p)
{
	return (p->feed == ANY || (p->feed == ONE) == !m->experts) &&
	       (p->family == ANY_FAMILY || p->family == m->arch->family);
}

/* Those of layer @l, or what is @shared if that is -1 */
static enum rlx_status need_parts(struct llama *m, int64_t l, struct rlx_error *err)
{
	const int64_t extent[N_EXTENT] = {
		[WIDTH] = m->width, [INNER] = m->inner, [QUERY] = m->heads * m->key,
		[KEY] = m->kv_heads * m->key, [VALUE] = m->kv_heads * m->value,
		[QKV] = m->heads * m->key + m->kv_heads * (m->key + m->value),
		[HEADS] = m->heads * m->value, [HEAD] = m->key, [EXPERTS] = m->experts,
		[VOCAB] = m->vocab, [CONTEXT] = m->context, [FREQUENCIES] = m->n_rot / 2,
	};
	enum rlx_status st = RLX_OK;
	char name[NAME];
	size_t i;

	for (i = 0; i < (l < 0 ? N_SHARED : N_PART) && !st; i++) {
		const struct part *p = l < 0 ? &shared[i] : &parts[i];
		const int64_t dim[3] = { p->feed == STACK ? m->experts : 0, extent[p->rows],
					 extent[p->cols] };

		if (has_part(m, p))
			st = need_stack(m, l < 0 ? p->leaf : in_layer(name, l, p->leaf), dim,
					p->optional, err);
	}
	return st;
}

static enum rlx_status read_factors(struct llama *m, struct rlx_error *err)
{
	const struct rlx_gguf_tensor *t = rlx_gguf_find(m->file, "rope_freqs.weight");
	int64_t i;

	if (!t)
		return RLX_OK;
	if (t->type.dtype != RLX_F32)
		return rlx_fail(err, RLX_ENOSUP, "%s: tensor rope_freqs.weight is not F32",
				m->path);
	m->factors = t->data;
	/* frequencies are divided by them: else all logits would be NaN, and nothing say why */
	for (i = 0; i < m->n_rot / 2; i++)
		if (!(m->factors[i] > 0) || !isfinite(m->factors[i]))
			return rlx_fail(err, RLX_ERANGE, "%s: element %lld of tensor "
					"rope_freqs.weight is no number above 0", m->path,
					(long long)i);
	return RLX_OK;
}

/* Is the name one that need_all() looked for? */
static bool is_known(const struct llama *m, const char *name)
{
	const struct part *p = parts;
	long long l;
	int at = 0;
	size_t n = N_PART, i;

	if (sscanf(name, "blk.%lld.%n", &l, &at) != 1 || !at || l < 0 || l >= m->layers) {
		p = shared;
		n = N_SHARED;
		at = 0;
	}
	for (i = 0; i < n; i++)
		if (has_part(m, &p[i]) && !strcmp(name + at, p[i].leaf))
			return true;
	return false;
}

/* What is not used might be what the model needs: it is not left out in silence. */
static enum rlx_status all_used(const struct llama *m, struct rlx_error *err)
{
	uint32_t n = rlx_gguf_count(m->file), i;

	if (m->used == n)
		return RLX_OK;
	for (i = 0; i < n && is_known(m, rlx_gguf_at(m->file, i)->name); i++)
		;
	return rlx_fail(err, RLX_ENOSUP, "%s: tensor %s has no place in a model of %lld layers of "
			"architecture %s", m->path,
			i < n ? rlx_gguf_at(m->file, i)->name : "with a name of its own",
			(long long)m->layers, m->arch->name);
}

static enum rlx_status need_all(struct llama *m, struct rlx_error *err)
{
	const struct rlx_gguf_tensor *t = rlx_gguf_find(m->file, "token_embd.weight");
	enum rlx_status st;
	int64_t l;

	m->vocab = t && t->type.rank == 2 ? t->type.dim[0] : 1;
	if (m->vocab < 1)
		return rlx_fail(err, RLX_ESHAPE, "%s: token_embd.weight has no rows", m->path);
	for (st = RLX_OK, l = -1; l < m->layers && !st; l++)
		st = need_parts(m, l, err);
	st = st ? st : read_factors(m, err);
	return st ? st : all_used(m, err);
}

/* ---- the model ---- */

enum rlx_status llama_open(const char *path, struct llama **out, struct rlx_error *err)
{
	struct llama *m = rlx_calloc(1, sizeof(*m));
	enum rlx_status st;

	if (!m)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	atomic_init(&m->refs, 1);
	snprintf(m->text, sizeof(m->text), "%s", path);
	m->path = m->text;
	st = rlx_gguf_open(path, &m->file, err);
	st = st ? st : read_keys(m, err);
	st = st ? st : need_all(m, err);
	if (st)
		llama_put(m);
	else
		*out = m;
	return st;
}

static void put(void *ctx)
{
	struct llama *m = ctx;

	if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
		return;
	rlx_gguf_close(m->file);
	rlx_free(m);
}

void llama_put(struct llama *m)
{
	put(m);
}

const struct rlx_gguf *llama_gguf(const struct llama *m)
{
	return m->file;
}

int64_t llama_vocab(const struct llama *m)
{
	return m->vocab;
}

/* ---- graphs ---- */

struct build {
	struct llama		*m;
	struct rlx_graph	*g;
	struct rlx_error	*err;
	int64_t			 batch, seq;
	rlx_value		 cos, sin;
};

/* Tensor @t as a constant of @type over its bytes. */
static rlx_value constant(struct build *q, const struct rlx_gguf_tensor *t, struct rlx_type type)
{
	struct rlx_blob *blob;
	rlx_value v;

	atomic_fetch_add_explicit(&q->m->refs, 1, memory_order_relaxed);
	blob = rlx_blob_new(t->data, (size_t)t->bytes, put, q->m);
	if (!blob) {
		put(q->m);
		rlx_fail(q->err, RLX_ENOMEM, "gguf: out of memory");
		return RLX_NONE;
	}
	rlx_blob_set_source(blob, gguf_file(q->m->file)->source, t->offset);
	v = rlx_constant_blob(q->g, type, blob);
	rlx_blob_put(blob);
	return v;
}

static rlx_value as_f32(struct build *q, rlx_value v, enum rlx_dtype dt)
{
	return dt == RLX_F32 ? v : rlx_emit(q->g, cast, .x = v, .to = RLX_F32);
}

/* The vector @name, which ends in "weight", or its "bias"; none if the file has none. */
static rlx_value vector(struct build *q, const char *name, const char *what)
{
	const struct rlx_gguf_tensor *t;
	char leaf[NAME];

	snprintf(leaf, sizeof(leaf), "%.*s%s", (int)(strlen(name) - strlen("weight")), name, what);
	t = rlx_gguf_find(q->m->file, leaf);
	return t ? as_f32(q, constant(q, t, t->type), t->type.dtype) : RLX_NONE;
}

/* Blocks as bytes, [.., bytes of a row]. */
static rlx_value packed(struct build *q, const struct rlx_gguf_tensor *t)
{
	struct rlx_type type = t->type;
	int64_t *cols = &type.dim[type.rank - 1];

	*cols = (int64_t)t->bytes / (rlx_type_count(&type) / *cols);
	type.dtype = RLX_U8;
	return constant(q, t, type);
}

/* Weights @name, and a bias of the same name if there is one. */
static struct rlx_linear linear(struct build *q, const char *name)
{
	const struct rlx_gguf_tensor *t = rlx_gguf_find(q->m->file, name);
	struct rlx_linear w = { .w = RLX_NONE };

	if (!t)
		return w;
	w.bias = vector(q, name, "bias");
	w.scheme = rlx_gguf_scheme(t->format);
	w.w = w.scheme < 0 ? as_f32(q, constant(q, t, t->type), t->type.dtype) : packed(q, t);
	return w;
}

static struct rlx_linear layer_linear(struct build *q, int64_t l, const char *leaf)
{
	char name[NAME];

	return linear(q, in_layer(name, l, leaf));
}

static struct rlx_norm norm(struct build *q, const char *name)
{
	return (struct rlx_norm){ .gamma = vector(q, name, "weight"),
				  .beta = vector(q, name, "bias"), .eps = (float)q->m->eps,
				  .kind = q->m->arch->family == GPT2 ? RLX_NORM_LAYER :
					  RLX_NORM_RMS };
}

static struct rlx_norm layer_norm(struct build *q, int64_t l, const char *leaf)
{
	char name[NAME];

	return norm(q, in_layer(name, l, leaf));
}

/* Rows of table @name, by @indices or from the first to the last of the sequence */
static rlx_value rows_of(struct build *q, const char *name, rlx_value indices)
{
	const struct rlx_gguf_tensor *t = rlx_gguf_find(q->m->file, name);
	int scheme = rlx_gguf_scheme(t->format);
	rlx_value v = scheme < 0 ? constant(q, t, t->type) : packed(q, t);

	v = indices.id ? rlx_emit(q->g, gather, .x = v, .indices = indices) :
	    rlx_emit(q->g, slice, .x = v, .axes = RLX_INTS(0), .starts = RLX_INTS(0),
		     .ends = RLX_INTS(q->seq));
	return scheme < 0 ? as_f32(q, v, t->type.dtype) :
	       rlx_emit(q->g, dequantize_packed, .x = v, .scheme = scheme);
}

/* What stands for tokens, and where they stand: added to them, or tables for layers to rotate by */
static rlx_value embed(struct build *q, rlx_value ids)
{
	struct rlx_rope_tables t = { .size = sizeof(t), .positions = q->seq, .n_rot = q->m->n_rot,
				     .base = q->m->base, .scale = q->m->scale,
				     .factors = q->m->factors };
	rlx_value x = rows_of(q, "token_embd.weight", ids);

	if (q->m->arch->family == GPT2)
		return rlx_emit(q->g, add, .a = x, .b = rows_of(q, "position_embd.weight",
								RLX_NONE));
	rlx_block_rope_tables(q->g, &t, &q->cos, &q->sin);
	return x;
}

/* "ffn_gate_exps.weight", out of "gate" and what follows. */
static struct rlx_linear feed_linear(struct build *q, int64_t l, const char *what, const char *of)
{
	char leaf[48];

	snprintf(leaf, sizeof(leaf), "ffn_%s%s", what, of);
	return layer_linear(q, l, leaf);
}

static rlx_value layer(struct build *q, rlx_value x, int64_t l)
{
	const struct llama *m = q->m;
	const bool gpt2 = m->arch->family == GPT2;
	const char *of = m->experts ? "_exps.weight" : ".weight";
	struct rlx_attention_block a = {
		.size = sizeof(a),
		.q = layer_linear(q, l, gpt2 ? "attn_qkv.weight" : "attn_q.weight"),
		.k = layer_linear(q, l, "attn_k.weight"), .v = layer_linear(q, l, "attn_v.weight"),
		.out = layer_linear(q, l, "attn_output.weight"),
		.q_norm = layer_norm(q, l, "attn_q_norm.weight"),
		.k_norm = layer_norm(q, l, "attn_k_norm.weight"),
		.heads = (int32_t)m->heads, .kv_heads = (int32_t)m->kv_heads,
		.mask = RLX_MASK_CAUSAL, .cos = q->cos, .sin = q->sin, .n_rot = (int32_t)m->n_rot,
		.style = (int32_t)m->arch->style,
	};
	struct rlx_moe_block moe = {
		.size = sizeof(moe), .router = layer_linear(q, l, "ffn_gate_inp.weight"),
		.chosen = m->chosen, .experts = {
			.size = sizeof(moe.experts), .gate = feed_linear(q, l, "gate", of),
			.up = feed_linear(q, l, "up", of), .down = feed_linear(q, l, "down", of),
		},
	};
	struct rlx_layer_block all = {
		.size = sizeof(all), .attention = &a, .norm1 = layer_norm(q, l, "attn_norm.weight"),
		.norm2 = layer_norm(q, l, "ffn_norm.weight"),
		.ffn = m->experts ? NULL : &moe.experts, .moe = m->experts ? &moe : NULL,
	};

	if (gpt2)
		moe.experts.up.act = RLX_ACT_GELU_TANH;
	else
		moe.experts.gate.act = RLX_ACT_SILU;
	return rlx_block_layer(q->g, x, &all);
}

enum rlx_status llama_graph(struct llama *m, int64_t batch, int64_t seq, struct rlx_graph **out,
			    struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct build q = { .m = m, .err = err ? err : &own, .batch = batch, .seq = seq };
	struct rlx_linear head;
	struct rlx_norm last;
	rlx_value x;
	int64_t l;

	if (batch < 1 || seq < 1 || seq > m->context)
		return rlx_fail(q.err, RLX_ERANGE, "gguf: %lld texts of %lld tokens: at least one "
				"is needed, of 1 to %lld", (long long)batch, (long long)seq,
				(long long)m->context);
	q.g = rlx_graph_new(m->arch->name);
	x = embed(&q, rlx_input(q.g, "input_ids", rlx_type(RLX_I64, batch, seq)));
	for (l = 0; l < m->layers; l++)
		x = layer(&q, x, l);
	last = norm(&q, "output_norm.weight");
	x = rlx_block_norm(q.g, x, &last, RLX_NONE);
	head = linear(&q, rlx_gguf_find(m->file, "output.weight") ? "output.weight" :
		      "token_embd.weight");
	x = rlx_block_linear(q.g, x, &head, RLX_NONE);
	rlx_output(q.g, "logits", x);
	if (rlx_graph_finish(q.g) || q.err->status) {
		if (!q.err->status)
			*q.err = *rlx_graph_error(q.g);
		rlx_graph_put(q.g);
		return q.err->status;
	}
	*out = q.g;
	return RLX_OK;
}
