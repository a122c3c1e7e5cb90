// SPDX-License-Identifier: MIT
/* Loading the "model" of a tokenizer.json: vocabulary, merges, scores. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"

static enum rlx_status add_token(struct tk_load *l, uint32_t key, int64_t id)
{
	enum rlx_status st;

	st = tk_vocab_add(&l->t->vocab, rlx_json_text(l->j, key),
			  rlx_json_len(l->j, key), id);
	if (st == RLX_ENOMEM || st == RLX_ENOSUP)
		return tk_no_room(l, key, st);
	if (st == RLX_EEXIST)
		return tk_bad(l, key, "this token or its id came before");
	if (st)
		return tk_bad(l, key, "token with an id that is negative or too large");
	return RLX_OK;
}

/* {"token": id, ...} */
static enum rlx_status load_vocab(struct tk_load *l, uint32_t i)
{
	uint32_t vocab = rlx_json_get(l->j, i, "vocab");
	enum rlx_status st = RLX_OK;
	struct rlx_json_iter it;
	int64_t id;

	if (!vocab || rlx_json_kind(l->j, vocab) != RLX_JSON_OBJ)
		return tk_bad(l, i, "model without a \"vocab\" object");
	if (!l->t->vocab.slots &&
	    !tk_vocab_init(&l->t->vocab, l->j->node[vocab].len))
		return tk_nomem(l);
	for (it = rlx_json_iter(l->j, vocab); !st && rlx_json_next(&it);) {
		if (!rlx_json_int(l->j, it.val, &id))
			return tk_bad(l, it.val, "token whose id is no integer");
		st = add_token(l, it.key, id);
	}
	return st;
}

/* [["token", score], ...] */
static enum rlx_status load_scores(struct tk_load *l, uint32_t i)
{
	uint32_t vocab = rlx_json_get(l->j, i, "vocab"), n, k, key;
	struct rlx_tokenizer *t = l->t;
	struct rlx_json_iter it;
	enum rlx_status st;
	double x;

	if (!vocab || rlx_json_kind(l->j, vocab) != RLX_JSON_ARR)
		return tk_bad(l, i, "Unigram without a \"vocab\" list");
	n = l->j->node[vocab].len;
	if (!n)
		return tk_bad(l, vocab, "empty vocabulary");
	t->score = rlx_calloc(n, sizeof(*t->score));
	if (!t->score || !tk_vocab_init(&t->vocab, n))
		return tk_nomem(l);
	it = rlx_json_iter(l->j, vocab);
	for (k = 0; rlx_json_next(&it); k++) {
		key = it.val + 1;
		if (rlx_json_kind(l->j, it.val) != RLX_JSON_ARR ||
		    l->j->node[it.val].len != 2 ||
		    rlx_json_kind(l->j, key) != RLX_JSON_STR ||
		    !rlx_json_double(l->j, key + 1, &x) || !isfinite(x))
			return tk_bad(l, it.val, "entry is not [\"token\", score]");
		if (rlx_json_len(l->j, key) > TK_SOUGHT_MAX)
			return tk_no_such(l, it.val,
					  "a Unigram token of over 1024 bytes is not supported");
		st = add_token(l, key, k);
		if (st)
			return st;
		t->score[k] = x;
		t->min_score = !k || x < t->min_score ? x : t->min_score;
		if (rlx_json_len(l->j, key))
			st = tk_trie_put(&t->trie, (const uint8_t *)rlx_json_text(l->j, key),
					 rlx_json_len(l->j, key), (int32_t)k);
		if (st)
			return tk_no_room(l, it.val, st);
	}
	return RLX_OK;
}

static enum rlx_status load_unk(struct tk_load *l, uint32_t i, bool must)
{
	uint32_t k = rlx_json_get(l->j, i, "unk_token"), a;
	struct rlx_json_iter it;

	if (!k || rlx_json_kind(l->j, k) == RLX_JSON_NULL)
		return must ? tk_bad(l, i, "model without an \"unk_token\"") :
			      RLX_OK;
	if (rlx_json_kind(l->j, k) != RLX_JSON_STR)
		return tk_bad(l, k, "\"unk_token\" must be a string");
	l->t->unk = tk_vocab_get(&l->t->vocab, rlx_json_text(l->j, k),
				 rlx_json_len(l->j, k));
	if (l->t->unk >= 0)
		return RLX_OK;
	/* it may be an added token only */
	a = rlx_json_get(l->j, 0, "added_tokens");
	if (a)
		for (it = rlx_json_iter(l->j, a); rlx_json_next(&it);) {
			uint32_t c = rlx_json_get(l->j, it.val, "content");
			uint32_t id = rlx_json_get(l->j, it.val, "id");
			int64_t v;

			if (c && id && rlx_json_int(l->j, id, &v) && v >= 0 &&
			    v < TK_VOCAB_MAX &&
			    rlx_json_str_is(l->j, c, rlx_json_text(l->j, k))) {
				l->t->unk = v;
				return RLX_OK;
			}
		}
	return tk_bad(l, k, "\"unk_token\" is not in the vocabulary");
}

static enum rlx_status load_wordpiece(struct tk_load *l, uint32_t i)
{
	struct rlx_tokenizer *t = l->t;
	enum rlx_status st;
	struct tk_str pre;

	t->model = TK_WORDPIECE;
	st = load_vocab(l, i);
	if (!st)
		st = load_unk(l, i, true);
	if (!st)
		st = tk_get_u32(l, i, "max_input_chars_per_word", 100,
				&t->max_chars);
	if (!st)
		st = tk_get_text(l, i, "continuing_subword_prefix", "##", &pre);
	if (st)
		return st;
	/* in the pool of the vocabulary, where spellings are compared */
	if (!tk_pool_add(&t->vocab.pool, tk_text(t, pre), pre.len, &t->prefix))
		return tk_nomem(l);
	t->prefix_hash = tk_hash(TK_HASH0, tk_text(t, pre), pre.len);
	return RLX_OK;
}

static enum rlx_status load_bpe(struct tk_load *l, uint32_t i)
{
	struct rlx_tokenizer *t = l->t;
	uint32_t k = rlx_json_get(l->j, i, "dropout");
	enum rlx_status st;
	double x;

	t->model = TK_BPE;
	if (k && rlx_json_kind(l->j, k) != RLX_JSON_NULL &&
	    (!rlx_json_double(l->j, k, &x) || x != 0))
		return tk_no_such(l, k, "BPE with dropout is not supported");
	st = load_vocab(l, i);
	if (!st)
		st = load_unk(l, i, false);
	if (!st)
		st = tk_get_text(l, i, "continuing_subword_prefix", "",
				 &t->prefix);
	if (!st)
		st = tk_get_text(l, i, "end_of_word_suffix", "", &t->suffix);
	if (!st)
		st = tk_get_bool(l, i, "fuse_unk", false, &t->fuse_unk);
	if (!st)
		st = tk_get_bool(l, i, "byte_fallback", false, &t->byte_fallback);
	if (!st)
		st = tk_get_bool(l, i, "ignore_merges", false, &t->ignore_merges);
	if (!st && (t->prefix.len > TK_AFFIX_MAX || t->suffix.len > TK_AFFIX_MAX))
		return tk_bad(l, i, "BPE prefix or suffix longer than 64 bytes");
	return st;
}

static enum rlx_status load_unigram(struct tk_load *l, uint32_t i)
{
	struct rlx_tokenizer *t = l->t;
	enum rlx_status st;
	uint32_t unk;

	t->model = TK_UNIGRAM;
	st = load_scores(l, i);
	if (!st)
		st = tk_get_u32(l, i, "unk_id", UINT32_MAX, &unk);
	if (!st)
		st = tk_get_bool(l, i, "byte_fallback", false, &t->byte_fallback);
	if (st || unk == UINT32_MAX)
		return st;
	if (unk >= t->vocab.n)
		return tk_bad(l, i, "\"unk_id\" is not in the vocabulary");
	t->unk = unk;
	return RLX_OK;
}

/* Old files do not say what they are. */
static const char *guess_type(const struct rlx_json *j, uint32_t i)
{
	uint32_t vocab = rlx_json_get(j, i, "vocab");

	if (rlx_json_get(j, i, "merges"))
		return "BPE";
	if (rlx_json_get(j, i, "max_input_chars_per_word"))
		return "WordPiece";
	return vocab && rlx_json_kind(j, vocab) == RLX_JSON_ARR ? "Unigram" :
								  "WordLevel";
}

static void find_byte_tokens(struct rlx_tokenizer *t)
{
	char name[8];
	int b;

	for (b = 0; b < 256; b++) {
		snprintf(name, sizeof(name), "<0x%02X>", b);
		t->byte_id[b] = (int32_t)tk_vocab_get(&t->vocab, name, 6);
	}
}

enum rlx_status tk_load_model(struct tk_load *l, uint32_t i)
{
	uint32_t k = rlx_json_get(l->j, i, "type");
	struct rlx_tokenizer *t = l->t;
	enum rlx_status st;
	const char *type;

	type = k && rlx_json_kind(l->j, k) == RLX_JSON_STR ?
	       rlx_json_text(l->j, k) : guess_type(l->j, i);
	if (!strcmp(type, "WordPiece")) {
		st = load_wordpiece(l, i);
	} else if (!strcmp(type, "BPE")) {
		st = load_bpe(l, i);
	} else if (!strcmp(type, "Unigram")) {
		st = load_unigram(l, i);
	} else if (!strcmp(type, "WordLevel")) {
		t->model = TK_WORDLEVEL;
		st = load_vocab(l, i);
		if (!st)
			st = load_unk(l, i, false);
	} else {
		return tk_no_such(l, k, "model");
	}
	if (!st && t->vocab.n > t->ids)
		t->ids = t->vocab.n;
	if (!st && t->byte_fallback)
		find_byte_tokens(t);
	return st;
}

/* Spellings of a byte-level vocabulary as the bytes they stand for. */
static enum rlx_status load_raw(struct tk_load *l)
{
	struct rlx_tokenizer *t = l->t;
	uint8_t *bytes, b;
	enum rlx_status st = RLX_OK;
	uint32_t id;
	size_t n;
	int k;

	if (!tk_vocab_init(&t->raw, t->vocab.n))
		return tk_nomem(l);
	bytes = rlx_malloc(t->vocab.longest + 1);
	if (!bytes)
		return tk_nomem(l);
	for (id = 0; id < t->vocab.n && !st; id++) {
		struct tk_str s = t->vocab.tok[id];

		/* one with other characters cannot come from text */
		if (s.off == UINT32_MAX ||
		    !tk_unbyte(t->vocab.pool.b + s.off, s.len, bytes, &n))
			continue;
		st = tk_vocab_add(&t->raw, bytes, n, id);
		if (st)
			st = tk_no_room(l, 0, st);
	}
	rlx_free(bytes);
	for (k = 0; k < 256; k++) {
		b = (uint8_t)k;
		t->byte_id[k] = (int32_t)tk_vocab_get(&t->raw, &b, 1);
	}
	return st;
}

/* The two sides of a merge: "a b" or ["a", "b"]. */
static bool merge_sides(const struct rlx_json *j, uint32_t i, struct tk_str out[2])
{
	const char *text, *space;
	uint32_t len;

	if (rlx_json_kind(j, i) == RLX_JSON_ARR) {
		if (j->node[i].len != 2 ||
		    rlx_json_kind(j, i + 1) != RLX_JSON_STR ||
		    rlx_json_kind(j, i + 2) != RLX_JSON_STR)
			return false;
		out[0] = (struct tk_str){ j->node[i + 1].off, j->node[i + 1].len };
		out[1] = (struct tk_str){ j->node[i + 2].off, j->node[i + 2].len };
		return true;
	}
	if (rlx_json_kind(j, i) != RLX_JSON_STR)
		return false;
	text = rlx_json_text(j, i);
	len = rlx_json_len(j, i);
	space = memchr(text, ' ', len);
	if (!space || memchr(space + 1, ' ', len - (size_t)(space + 1 - text)))
		return false;
	out[0] = (struct tk_str){ j->node[i].off, (uint32_t)(space - text) };
	out[1] = (struct tk_str){ j->node[i].off + out[0].len + 1,
				  len - out[0].len - 1 };
	return true;
}

static bool merge_put(struct rlx_tokenizer *t, struct tk_merge m)
{
	uint32_t i = tk_merge_slot(m.a, m.b) & (t->merges - 1), n;

	for (n = 0; t->merge[i].id != UINT32_MAX &&
	     (t->merge[i].a != m.a || t->merge[i].b != m.b); n++) {
		if (n == TK_PROBES_MAX)
			return false;
		i = (i + 1) & (t->merges - 1);
	}
	t->merge[i] = m;	/* of equal ones the last counts */
	return true;
}

static enum rlx_status load_merge(struct tk_load *l, uint32_t i, uint32_t rank)
{
	struct rlx_tokenizer *t = l->t;
	const char *text = l->j->text;
	int64_t a, b, both;
	struct tk_str side[2];
	uint64_t hash;
	uint32_t skip;

	if (!merge_sides(l->j, i, side))
		return tk_bad(l, i, "merge is neither \"a b\" nor [\"a\", \"b\"]");
	a = tk_vocab_get(&t->vocab, text + side[0].off, side[0].len);
	b = tk_vocab_get(&t->vocab, text + side[1].off, side[1].len);
	if (a < 0 || b < 0)
		return tk_bad(l, i, "merge of a token that the vocabulary lacks");
	skip = t->prefix.len < side[1].len ? t->prefix.len : side[1].len;
	hash = tk_hash(TK_HASH0, (const uint8_t *)text + side[0].off, side[0].len);
	hash = tk_hash(hash, (const uint8_t *)text + side[1].off + skip,
		       side[1].len - skip);
	both = tk_vocab_find(&t->vocab, hash, &t->vocab.tok[a],
			     (const uint8_t *)text + side[1].off + skip,
			     side[1].len - skip);
	if (both < 0)
		return tk_bad(l, i, "merge into a token that the vocabulary lacks");
	if (!merge_put(t, (struct tk_merge){ (uint32_t)a, (uint32_t)b, rank,
					     (uint32_t)both }))
		return tk_no_room(l, i, RLX_ENOSUP);
	return RLX_OK;
}

static enum rlx_status check_byte_level(struct tk_load *l, uint32_t model)
{
	struct rlx_tokenizer *t = l->t;
	uint32_t i;

	for (i = 0; i < t->n_pre; i++) {
		if (t->pre[i].kind != TK_PRE_BYTES)
			continue;
		if (t->model != TK_BPE)
			return tk_no_such(l, model,
					  "ByteLevel with a model other than BPE is not supported");
		if (i + 1 < t->n_pre)
			return tk_no_such(l, model,
					  "a pre-tokenizer behind ByteLevel is not supported");
		t->byte_level = true;
	}
	return t->byte_level ? load_raw(l) : RLX_OK;
}

enum rlx_status tk_load_merges(struct tk_load *l, uint32_t model)
{
	uint32_t list = rlx_json_get(l->j, model, "merges"), slots = 16, i, rank;
	struct rlx_tokenizer *t = l->t;
	enum rlx_status st = check_byte_level(l, model);
	struct rlx_json_iter it;

	if (st || t->model != TK_BPE)
		return st;
	if (!list || rlx_json_kind(l->j, list) != RLX_JSON_ARR)
		return tk_bad(l, model, "BPE without a \"merges\" list");
	while (slots < 2 * (uint64_t)l->j->node[list].len)
		slots *= 2;
	t->merge = rlx_calloc(slots, sizeof(*t->merge));
	if (!t->merge)
		return tk_nomem(l);
	t->merges = slots;
	for (i = 0; i < slots; i++)
		t->merge[i].id = UINT32_MAX;
	it = rlx_json_iter(l->j, list);
	for (rank = 0; !st && rlx_json_next(&it); rank++)
		st = load_merge(l, it.val, rank);
	return st;
}
