// SPDX-License-Identifier: MIT
/* Loading a tokenizer.json or vocab.txt: the frame, and helpers for its parts. */
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"

enum { CLIP = 80 };	/* of a string quoted in an error */

enum rlx_status tk_bad(struct tk_load *l, uint32_t i, const char *what)
{
	return rlx_fail(l->err, RLX_EPARSE, "%s: byte %u: %s", l->j->name,
			l->j->node[i].src, what);
}

enum rlx_status tk_nomem(struct tk_load *l)
{
	return rlx_fail(l->err, RLX_ENOMEM, "%s: no memory", l->j->name);
}

enum rlx_status tk_no_room(struct tk_load *l, uint32_t i, enum rlx_status st)
{
	if (st != RLX_ENOSUP)
		return tk_nomem(l);
	return rlx_fail(l->err, st, "%s: byte %u: with this, too many tokens have one hash",
			l->j->name, l->j->node[i].src);
}

enum rlx_status tk_no_such(struct tk_load *l, uint32_t i, const char *what)
{
	if (rlx_json_kind(l->j, i) != RLX_JSON_STR)
		return rlx_fail(l->err, RLX_ENOSUP, "%s: byte %u: %s",
				l->j->name, l->j->node[i].src, what);
	return rlx_fail(l->err, RLX_ENOSUP, "%s: byte %u: %s \"%.*s\" is not supported",
			l->j->name, l->j->node[i].src, what, CLIP,
			rlx_json_text(l->j, i));
}

const char *tk_type(struct tk_load *l, uint32_t i, const char *what)
{
	uint32_t k = rlx_json_get(l->j, i, "type");

	if (k && rlx_json_kind(l->j, k) == RLX_JSON_STR)
		return rlx_json_text(l->j, k);
	rlx_fail(l->err, RLX_EPARSE, "%s: byte %u: %s without a \"type\"",
		 l->j->name, l->j->node[i].src, what);
	return NULL;
}

static enum rlx_status bad_member(struct tk_load *l, uint32_t i, const char *key,
				  const char *want)
{
	return rlx_fail(l->err, RLX_EPARSE, "%s: byte %u: \"%s\" must be %s",
			l->j->name, l->j->node[i].src, key, want);
}

static bool is_null(const struct rlx_json *j, uint32_t i)
{
	return !i || rlx_json_kind(j, i) == RLX_JSON_NULL;
}

enum rlx_status tk_get_bool(struct tk_load *l, uint32_t i, const char *key,
			    bool dflt, bool *out)
{
	uint32_t k = rlx_json_get(l->j, i, key);

	*out = dflt;
	if (is_null(l->j, k))
		return RLX_OK;
	if (rlx_json_kind(l->j, k) != RLX_JSON_BOOL)
		return bad_member(l, k, key, "true or false");
	*out = l->j->node[k].truth;
	return RLX_OK;
}

enum rlx_status tk_get_u32(struct tk_load *l, uint32_t i, const char *key,
			   uint32_t dflt, uint32_t *out)
{
	uint32_t k = rlx_json_get(l->j, i, key);
	int64_t v;

	*out = dflt;
	if (is_null(l->j, k))
		return RLX_OK;
	if (!rlx_json_int(l->j, k, &v) || v < 0)
		return bad_member(l, k, key, "an integer, not negative");
	/* some files say "no limit" with a number beyond all bounds */
	*out = v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
	return RLX_OK;
}

enum rlx_status tk_get_text(struct tk_load *l, uint32_t i, const char *key,
			    const char *dflt, struct tk_str *out)
{
	uint32_t k = rlx_json_get(l->j, i, key), len;
	const char *s;

	if (is_null(l->j, k)) {
		if (!dflt)
			return bad_member(l, i, key, "there");
		s = dflt;
		len = (uint32_t)strlen(dflt);
	} else if (rlx_json_kind(l->j, k) != RLX_JSON_STR) {
		return bad_member(l, k, key, "a string");
	} else {
		s = rlx_json_text(l->j, k);
		len = rlx_json_len(l->j, k);
	}
	return tk_pool_add(&l->t->text, s, len, out) ? RLX_OK : tk_nomem(l);
}

enum rlx_status tk_get_pattern(struct tk_load *l, uint32_t i, const char *key,
			       struct tk_pattern *out)
{
	uint32_t k = rlx_json_get(l->j, i, key), re;

	if (!k || rlx_json_kind(l->j, k) != RLX_JSON_OBJ)
		return bad_member(l, k ? k : i, key, "a pattern");
	re = rlx_json_get(l->j, k, "Regex");
	if (!re)
		return tk_get_text(l, k, "String", NULL, &out->lit);
	if (rlx_json_kind(l->j, re) != RLX_JSON_STR)
		return bad_member(l, re, "Regex", "a string");
	return tk_regex_new(rlx_json_text(l->j, re), rlx_json_len(l->j, re),
			    l->j->name, &out->re, l->err);
}

enum rlx_status tk_each(struct tk_load *l, uint32_t i, const char *key,
			enum rlx_status (*one)(struct tk_load *l, uint32_t i))
{
	uint32_t type = rlx_json_get(l->j, i, "type"), list;
	enum rlx_status st = RLX_OK;
	struct rlx_json_iter it;

	if (is_null(l->j, i))
		return RLX_OK;
	if (!type || !rlx_json_str_is(l->j, type, "Sequence"))
		return one(l, i);
	list = rlx_json_get(l->j, i, key);
	if (!list || rlx_json_kind(l->j, list) != RLX_JSON_ARR)
		return bad_member(l, i, key, "a list");
	/* the depth of the JSON bounds this recursion */
	for (it = rlx_json_iter(l->j, list); !st && rlx_json_next(&it);)
		st = tk_each(l, it.val, key, one);
	return st;
}

enum rlx_status tk_add_template(struct rlx_tokenizer *t, struct tk_template *m,
				int32_t id, uint32_t type)
{
	if (!rlx_grow(&m->v, &m->cap, m->n + 1, sizeof(*m->v)))
		return RLX_ENOMEM;
	m->v[m->n++] = (struct tk_item){ id, type };
	m->special += id >= 0;
	if (id >= 0 && (uint32_t)id >= t->ids)
		t->ids = (uint32_t)id + 1;
	return RLX_OK;
}

/* One entry of "added_tokens". */
static enum rlx_status load_added(struct tk_load *l, uint32_t i)
{
	struct rlx_tokenizer *t = l->t;
	struct tk_added a = { 0 };
	enum rlx_status st;
	int64_t known;
	uint32_t id;

	if (!rlx_json_get(l->j, i, "id"))
		return tk_bad(l, i, "added token without an \"id\"");
	st = tk_get_u32(l, i, "id", 0, &id);
	if (!st)
		st = tk_get_text(l, i, "content", NULL, &a.text);
	if (!st)
		st = tk_get_bool(l, i, "special", false, &a.special);
	if (!st)
		st = tk_get_bool(l, i, "single_word", false, &a.single_word);
	if (!st)
		st = tk_get_bool(l, i, "lstrip", false, &a.lstrip);
	if (!st)
		st = tk_get_bool(l, i, "rstrip", false, &a.rstrip);
	if (!st)
		st = tk_get_bool(l, i, "normalized", !a.special, &a.normalized);
	if (st)
		return st;
	if (id >= TK_VOCAB_MAX)
		return tk_bad(l, i, "added token with too large an id");
	if (!a.text.len)
		return RLX_OK;		/* the reference passes over it, too */
	if (a.text.len > TK_SOUGHT_MAX)
		return tk_no_such(l, i, "an added token of over 1024 bytes is not supported");
	known = tk_vocab_get(&t->vocab, tk_text(t, a.text), a.text.len);
	a.id = known >= 0 ? (int32_t)known : (int32_t)id;
	if (!rlx_grow(&t->added, &t->cap_added, t->n_added + 1,
		      sizeof(*t->added)))
		return tk_nomem(l);
	t->added[t->n_added++] = a;
	if ((uint32_t)a.id >= t->ids)
		t->ids = (uint32_t)a.id + 1;
	return RLX_OK;
}

/* Put an added token where its text is looked for: as is, or normalized. */
static enum rlx_status index_added(struct tk_load *l,
				   struct rlx_tokenizer_scratch *s, uint32_t k)
{
	struct rlx_tokenizer *t = l->t;
	const struct tk_added *a = &t->added[k];
	enum rlx_status st;

	t->by_id[(uint32_t)a->id - t->id_from] = k + 1;
	if (!a->normalized) {
		st = tk_trie_put(&t->added_raw, tk_text(t, a->text), a->text.len,
				 (int32_t)k);
		return st ? tk_no_room(l, 0, st) : RLX_OK;
	}
	s->seg.n = 0;
	tk_bound_growth(s, a->text.len);
	if (!tk_buf_put(&s->seg, tk_text(t, a->text), a->text.len,
			(struct rlx_token_span){ 0 }))
		return tk_nomem(l);
	st = tk_normalize(s);
	if (st == RLX_ENOMEM && tk_grew_over(s))
		return rlx_fail(l->err, RLX_ENOSUP, "%s: added token %d: normalizing makes over "
				"%d times its bytes of it", l->j->name, a->id, TK_GROWTH);
	if (st == RLX_ENOMEM)
		return tk_nomem(l);
	if (st)
		return rlx_fail(l->err, st, "%s: added token %d: normalizing takes too many steps",
				l->j->name, a->id);
	if (s->seg.n > TK_SOUGHT_MAX)
		return rlx_fail(l->err, RLX_ENOSUP, "%s: added token %d: %u bytes once it is "
				"normalized, at most %d", l->j->name, a->id, s->seg.n, TK_SOUGHT_MAX);
	if (s->seg.n)
		st = tk_trie_put(&t->added_norm, s->seg.b, s->seg.n, (int32_t)k);
	return st ? tk_no_room(l, 0, st) : RLX_OK;
}

static enum rlx_status index_all_added(struct tk_load *l)
{
	struct rlx_tokenizer *t = l->t;
	struct rlx_tokenizer_scratch *s;
	enum rlx_status st;
	int32_t first = INT32_MAX, last = 0;
	uint64_t bytes = 0;
	uint32_t k;

	if (!t->n_added)
		return RLX_OK;
	for (k = 0; k < t->n_added; k++) {
		first = t->added[k].id < first ? t->added[k].id : first;
		last = t->added[k].id > last ? t->added[k].id : last;
		bytes += t->added[k].text.len;
	}
	t->id_from = (uint32_t)first;
	t->id_span = (uint32_t)(last - first) + 1;
	t->by_id = rlx_calloc(t->id_span, sizeof(*t->by_id));
	if (!t->by_id) {
		t->id_span = 0;
		return tk_nomem(l);
	}
	st = rlx_tokenizer_scratch_new(t, &s, l->err);
	if (!st)
		s->steps = tk_steps(bytes);
	for (k = 0; k < t->n_added && !st; k++)
		st = index_added(l, s, k);
	rlx_tokenizer_scratch_free(s);
	return st;
}

static enum rlx_status load_truncation(struct tk_load *l, uint32_t i)
{
	if (is_null(l->j, i))
		return RLX_OK;
	return tk_get_u32(l, i, "max_length", 0, &l->t->max_tokens);
}

static void find_pad(struct rlx_tokenizer *t)
{
	static const char *const names[] = { "[PAD]", "<pad>", "<|pad|>",
					     "<PAD>" };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names) && t->pad < 0; i++)
		t->pad = rlx_tokenizer_id(t, names[i], strlen(names[i]));
}

static enum rlx_status load_padding(struct tk_load *l, uint32_t i)
{
	enum rlx_status st;
	uint32_t k, id;

	find_pad(l->t);
	if (is_null(l->j, i))
		return RLX_OK;
	if (rlx_json_get(l->j, i, "pad_id")) {
		st = tk_get_u32(l, i, "pad_id", 0, &id);
		if (st)
			return st;
		l->t->pad = id;
	}
	k = rlx_json_get(l->j, i, "strategy");
	return k && rlx_json_kind(l->j, k) == RLX_JSON_OBJ ?
	       tk_get_u32(l, k, "Fixed", 0, &l->t->pad_to) : RLX_OK;
}

/* Without a post-processor texts stand as they are. */
static enum rlx_status default_templates(struct tk_load *l)
{
	struct rlx_tokenizer *t = l->t;

	if (!t->single.n && tk_add_template(t, &t->single, TK_ITEM_A, 0))
		return tk_nomem(l);
	if (!t->pair.n && (tk_add_template(t, &t->pair, TK_ITEM_A, 0) ||
			   tk_add_template(t, &t->pair, TK_ITEM_B, 1)))
		return tk_nomem(l);
	return RLX_OK;
}

static enum rlx_status load_parts(struct tk_load *l)
{
	const struct rlx_json *j = l->j;
	uint32_t model = rlx_json_get(j, 0, "model"), added, dec;
	enum rlx_status st;
	struct rlx_json_iter it;

	if (!model || rlx_json_kind(j, model) != RLX_JSON_OBJ)
		return rlx_fail(l->err, RLX_EPARSE, "%s: no \"model\": not a tokenizer.json",
				j->name);
	st = tk_each(l, rlx_json_get(j, 0, "normalizer"), "normalizers",
		     tk_load_norm);
	if (!st)
		st = tk_each(l, rlx_json_get(j, 0, "pre_tokenizer"),
			     "pretokenizers", tk_load_pre);
	if (!st)
		st = tk_load_model(l, model);
	if (!st)
		st = tk_each(l, rlx_json_get(j, 0, "post_processor"),
			     "processors", tk_load_post);
	dec = rlx_json_get(j, 0, "decoder");
	l->t->no_decoder = is_null(j, dec);
	if (!st)
		st = tk_each(l, dec, "decoders", tk_load_dec);
	added = rlx_json_get(j, 0, "added_tokens");
	if (added)
		for (it = rlx_json_iter(j, added); !st && rlx_json_next(&it);)
			st = load_added(l, it.val);
	if (!st)
		st = default_templates(l);
	if (!st)
		st = index_all_added(l);
	if (!st)
		st = tk_load_merges(l, model);
	if (!st)
		st = load_truncation(l, rlx_json_get(j, 0, "truncation"));
	if (!st)
		st = load_padding(l, rlx_json_get(j, 0, "padding"));
	return st;
}

enum rlx_status tk_load_json(struct rlx_tokenizer *t, const char *text,
			     size_t len, const char *name,
			     struct rlx_error *err)
{
	struct rlx_json j;
	struct tk_load l = { .t = t, .j = &j, .err = err };
	enum rlx_status st;

	st = rlx_json_parse(&j, text, len, NULL, name, err);
	if (st)
		return st;
	st = load_parts(&l);
	rlx_json_fini(&j);
	return st;
}

/* What goes with a vocab.txt, which has nothing but tokens. */
static const char vocab_frame[] =
	"{\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":%LOWER%},"
	"\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
	"\"decoder\":{\"type\":\"WordPiece\"},"
	"\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{}}}";

static enum rlx_status add_special(struct tk_load *l, const char *content)
{
	struct rlx_tokenizer *t = l->t;
	struct tk_added a = { .special = true };
	int64_t id = tk_vocab_get(&t->vocab, content, strlen(content));

	if (id < 0)
		return RLX_OK;
	a.id = (int32_t)id;
	if (!tk_pool_add(&t->text, content, strlen(content), &a.text) ||
	    !rlx_grow(&t->added, &t->cap_added, t->n_added + 1,
		      sizeof(*t->added)))
		return tk_nomem(l);
	t->added[t->n_added++] = a;
	return RLX_OK;
}

static enum rlx_status vocab_lines(struct rlx_tokenizer *t, const char *text,
				   size_t len, const char *name,
				   struct rlx_error *err)
{
	const char *p = text, *end = text + len, *nl;
	enum rlx_status st;
	uint32_t id;
	size_t n;

	for (id = 0; p < end; id++, p = nl < end ? nl + 1 : end) {
		nl = memchr(p, '\n', (size_t)(end - p));
		nl = nl ? nl : end;
		n = (size_t)(nl - p);
		n -= n && p[n - 1] == '\r';
		if (rlx_utf8_check((const uint8_t *)p, n) < n)
			return rlx_fail(err, RLX_EPARSE, "%s: line %u is not UTF-8",
					name, id + 1);
		st = tk_vocab_add(&t->vocab, p, n, id);
		if (st == RLX_EEXIST)	/* the first of its spelling counts */
			continue;
		if (st)
			return rlx_fail(err, st, "%s: line %u: %s", name, id + 1,
					st == RLX_ENOMEM ? "no memory" :
					st == RLX_ENOSUP ? "with it too many tokens have one hash" :
					"too many tokens");
	}
	t->ids = id;
	return RLX_OK;
}

static enum rlx_status bert_template(struct rlx_tokenizer *t)
{
	int64_t cls = tk_vocab_get(&t->vocab, "[CLS]", 5);
	int64_t sep = tk_vocab_get(&t->vocab, "[SEP]", 5);
	const int32_t c = (int32_t)cls, s = (int32_t)sep;

	if (cls < 0 || sep < 0)
		return RLX_OK;
	if (tk_add_template(t, &t->single, c, 0) ||
	    tk_add_template(t, &t->single, TK_ITEM_A, 0) ||
	    tk_add_template(t, &t->single, s, 0) ||
	    tk_add_template(t, &t->pair, c, 0) ||
	    tk_add_template(t, &t->pair, TK_ITEM_A, 0) ||
	    tk_add_template(t, &t->pair, s, 0) ||
	    tk_add_template(t, &t->pair, TK_ITEM_B, 1) ||
	    tk_add_template(t, &t->pair, s, 1))
		return RLX_ENOMEM;
	return RLX_OK;
}

static enum rlx_status vocab_frame_load(struct tk_load *l)
{
	static const char *const special[] = { "[PAD]", "[UNK]", "[CLS]",
					       "[SEP]", "[MASK]" };
	const struct rlx_json *j = l->j;
	enum rlx_status st;
	size_t i;

	st = tk_load_norm(l, rlx_json_get(j, 0, "normalizer"));
	if (!st)
		st = tk_load_pre(l, rlx_json_get(j, 0, "pre_tokenizer"));
	if (!st)
		st = tk_load_dec(l, rlx_json_get(j, 0, "decoder"));
	if (!st)
		st = tk_load_model(l, rlx_json_get(j, 0, "model"));
	for (i = 0; i < sizeof(special) / sizeof(*special) && !st; i++)
		st = add_special(l, special[i]);
	if (!st && bert_template(l->t))
		st = tk_nomem(l);
	if (!st)
		st = default_templates(l);
	if (!st)
		st = index_all_added(l);
	find_pad(l->t);
	return st;
}

enum rlx_status tk_load_vocab_txt(struct rlx_tokenizer *t, const char *text,
				  size_t len, const char *name,
				  const struct rlx_tokenizer_opts *opts,
				  struct rlx_error *err)
{
	static const char hole[] = "%LOWER%";
	const char *word = opts->cased ? "false" : "true";
	char frame[sizeof(vocab_frame)];
	struct rlx_json j;
	struct tk_load l = { .t = t, .j = &j, .err = err };
	enum rlx_status st;
	size_t at;

	if (!len)
		return rlx_fail(err, RLX_EPARSE, "%s: empty", name);
	if (!tk_vocab_init(&t->vocab, (uint32_t)(len / 8)))
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory", name);
	st = vocab_lines(t, text, len, name, err);
	if (st)
		return st;
	if (tk_vocab_get(&t->vocab, "[UNK]", 5) < 0)
		return rlx_fail(err, RLX_EPARSE,
				"%s: neither JSON nor a vocabulary with a line [UNK]",
				name);
	at = (size_t)(strstr(vocab_frame, hole) - vocab_frame);
	memcpy(frame, vocab_frame, at);
	strcpy(frame + at, word);
	strcat(frame, vocab_frame + at + sizeof(hole) - 1);
	st = rlx_json_parse(&j, frame, strlen(frame), NULL, name, err);
	if (st)
		return st;
	st = vocab_frame_load(&l);
	rlx_json_fini(&j);
	return st;
}
