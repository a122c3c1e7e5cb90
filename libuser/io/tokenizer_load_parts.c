// SPDX-License-Identifier: MIT
/* Loading normalizers, pre-tokenizers, post-processors and decoders. */
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer_impl.h"
#include "io/utf8.h"

/* How GPT-2 and its heirs split when ByteLevel says no pattern of its own. */
static const char gpt2_pattern[] =
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
	"\\s+(?!\\S)|\\s+";

static struct tk_norm *norm_add(struct rlx_tokenizer *t)
{
	if (!rlx_grow(&t->norm, &t->cap_norm, t->n_norm + 1, sizeof(*t->norm)))
		return NULL;
	t->norm[t->n_norm] = (struct tk_norm){ 0 };
	return &t->norm[t->n_norm++];
}

static enum rlx_status load_bert_norm(struct tk_load *l, uint32_t i,
				      struct tk_norm *op)
{
	enum rlx_status st;

	op->kind = TK_NORM_BERT;
	st = tk_get_bool(l, i, "clean_text", true, &op->clean);
	if (!st)
		st = tk_get_bool(l, i, "handle_chinese_chars", true, &op->cjk);
	if (!st)
		st = tk_get_bool(l, i, "lowercase", true, &op->lower);
	if (!st)	/* null: as lowercase */
		st = tk_get_bool(l, i, "strip_accents", op->lower, &op->accents);
	return st;
}

static enum rlx_status load_replace(struct tk_load *l, uint32_t i,
				    struct tk_norm *op)
{
	enum rlx_status st;

	op->kind = TK_NORM_REPLACE;
	st = tk_get_pattern(l, i, "pattern", &op->pat);
	return st ? st : tk_get_text(l, i, "content", NULL, &op->text);
}

static enum rlx_status load_strip(struct tk_load *l, uint32_t i,
				  struct tk_norm *op)
{
	enum rlx_status st;

	op->kind = TK_NORM_STRIP;
	st = tk_get_bool(l, i, "strip_left", true, &op->left);
	return st ? st : tk_get_bool(l, i, "strip_right", true, &op->right);
}

enum rlx_status tk_load_norm(struct tk_load *l, uint32_t i)
{
	static const struct {
		const char		*name;
		enum tk_norm_kind	 kind;
	} plain[] = {
		{ "NFC", TK_NORM_NFC }, { "NFD", TK_NORM_NFD },
		{ "NFKC", TK_NORM_NFKC }, { "NFKD", TK_NORM_NFKD },
		{ "Lowercase", TK_NORM_LOWER },
		{ "StripAccents", TK_NORM_ACCENTS },
	};
	const char *type = tk_type(l, i, "normalizer");
	struct tk_norm *op;
	size_t k;

	if (!type)
		return RLX_EPARSE;
	op = norm_add(l->t);
	if (!op)
		return tk_nomem(l);
	for (k = 0; k < sizeof(plain) / sizeof(*plain); k++)
		if (!strcmp(type, plain[k].name)) {
			op->kind = plain[k].kind;
			return RLX_OK;
		}
	if (!strcmp(type, "BertNormalizer"))
		return load_bert_norm(l, i, op);
	if (!strcmp(type, "Replace"))
		return load_replace(l, i, op);
	if (!strcmp(type, "Strip"))
		return load_strip(l, i, op);
	if (!strcmp(type, "Prepend")) {
		op->kind = TK_NORM_PREPEND;
		return tk_get_text(l, i, "prepend", NULL, &op->text);
	}
	if (!strcmp(type, "Precompiled"))
		return tk_load_charsmap(l, i, op);
	return tk_no_such(l, rlx_json_get(l->j, i, "type"), "normalizer");
}

static struct tk_pre *pre_add(struct rlx_tokenizer *t)
{
	if (!rlx_grow(&t->pre, &t->cap_pre, t->n_pre + 1, sizeof(*t->pre)))
		return NULL;
	t->pre[t->n_pre] = (struct tk_pre){ .split = true,
					    .behavior = TK_ISOLATED };
	return &t->pre[t->n_pre++];
}

static enum rlx_status load_behavior(struct tk_load *l, uint32_t i,
				     enum tk_behavior *out)
{
	static const struct {
		const char		*name;
		enum tk_behavior	 behavior;
	} names[] = {
		{ "Removed", TK_REMOVED }, { "Isolated", TK_ISOLATED },
		{ "MergedWithPrevious", TK_MERGE_PREV },
		{ "MergedWithNext", TK_MERGE_NEXT },
		{ "Contiguous", TK_CONTIGUOUS },
	};
	uint32_t b = rlx_json_get(l->j, i, "behavior");
	size_t k;

	if (!b)
		return RLX_OK;
	for (k = 0; k < sizeof(names) / sizeof(*names); k++)
		if (rlx_json_str_is(l->j, b, names[k].name)) {
			*out = names[k].behavior;
			return RLX_OK;
		}
	return tk_no_such(l, b, "behavior");
}

static enum rlx_status load_split(struct tk_load *l, uint32_t i,
				  struct tk_pre *op)
{
	enum rlx_status st;

	op->kind = TK_PRE_SPLIT;
	st = tk_get_pattern(l, i, "pattern", &op->pat);
	if (!st)
		st = load_behavior(l, i, &op->behavior);
	return st ? st : tk_get_bool(l, i, "invert", false, &op->invert);
}

static enum rlx_status load_bytes(struct tk_load *l, uint32_t i,
				  struct tk_pre *op)
{
	enum rlx_status st;

	op->kind = TK_PRE_BYTES;
	st = tk_get_bool(l, i, "add_prefix_space", true, &op->prefix);
	if (!st)
		st = tk_get_bool(l, i, "use_regex", true, &op->split);
	if (st || !op->split)
		return st;
	return tk_regex_new(gpt2_pattern, sizeof(gpt2_pattern) - 1, l->j->name,
			    &op->pat.re, l->err);
}

/* A member that is one character. */
static enum rlx_status get_char(struct tk_load *l, uint32_t i, const char *key,
				const char *dflt, struct tk_str *out,
				uint32_t *out_cp)
{
	enum rlx_status st = tk_get_text(l, i, key, dflt, out);

	if (st)
		return st;
	if (!out->len ||
	    rlx_utf8_next(tk_text(l->t, *out), out_cp) != out->len)
		return rlx_fail(l->err, RLX_EPARSE,
				"%s: byte %u: \"%s\" must be one character",
				l->j->name, l->j->node[i].src, key);
	return RLX_OK;
}

static enum rlx_status load_scheme(struct tk_load *l, uint32_t i,
				   enum tk_scheme *out)
{
	uint32_t k = rlx_json_get(l->j, i, "prepend_scheme");
	enum rlx_status st;
	bool add;

	st = tk_get_bool(l, i, "add_prefix_space", true, &add);
	*out = add ? TK_ALWAYS : TK_NEVER;
	if (st || !k)
		return st;
	if (rlx_json_str_is(l->j, k, "always"))
		*out = TK_ALWAYS;
	else if (rlx_json_str_is(l->j, k, "first"))
		*out = TK_FIRST;
	else if (rlx_json_str_is(l->j, k, "never"))
		*out = TK_NEVER;
	else
		return tk_no_such(l, k, "prepend_scheme");
	return RLX_OK;
}

static enum rlx_status load_meta(struct tk_load *l, uint32_t i,
				 struct tk_pre *op)
{
	enum rlx_status st;

	op->kind = TK_PRE_META;
	op->behavior = TK_MERGE_NEXT;
	st = get_char(l, i, "replacement", NULL, &op->pat.lit, &op->cp);
	if (!st)
		st = load_scheme(l, i, &op->scheme);
	return st ? st : tk_get_bool(l, i, "split", true, &op->split);
}

static enum rlx_status load_digits(struct tk_load *l, uint32_t i,
				   struct tk_pre *op)
{
	enum rlx_status st;
	bool each;

	op->kind = TK_PRE_DIGITS;
	st = tk_get_bool(l, i, "individual_digits", false, &each);
	op->behavior = each ? TK_ISOLATED : TK_CONTIGUOUS;
	return st;
}

static enum rlx_status load_fixed(struct tk_load *l, uint32_t i,
				  struct tk_pre *op)
{
	enum rlx_status st;

	op->kind = TK_PRE_FIXED;
	st = tk_get_u32(l, i, "length", 5, &op->length);
	return st || op->length ? st : tk_bad(l, i, "\"length\" must not be 0");
}

enum rlx_status tk_load_pre(struct tk_load *l, uint32_t i)
{
	static const struct {
		const char		*name;
		enum tk_pre_kind	 kind;
	} plain[] = {
		{ "BertPreTokenizer", TK_PRE_BERT },
		{ "Whitespace", TK_PRE_WORDS },
		{ "WhitespaceSplit", TK_PRE_SPACES },
	};
	const char *type = tk_type(l, i, "pre-tokenizer");
	struct tk_str one;
	struct tk_pre *op;
	size_t k;

	if (!type)
		return RLX_EPARSE;
	op = pre_add(l->t);
	if (!op)
		return tk_nomem(l);
	for (k = 0; k < sizeof(plain) / sizeof(*plain); k++)
		if (!strcmp(type, plain[k].name)) {
			op->kind = plain[k].kind;
			return RLX_OK;
		}
	if (!strcmp(type, "ByteLevel"))
		return load_bytes(l, i, op);
	if (!strcmp(type, "Split"))
		return load_split(l, i, op);
	if (!strcmp(type, "Metaspace"))
		return load_meta(l, i, op);
	if (!strcmp(type, "Digits"))
		return load_digits(l, i, op);
	if (!strcmp(type, "FixedLength"))
		return load_fixed(l, i, op);
	if (!strcmp(type, "Punctuation")) {
		op->kind = TK_PRE_PUNCT;
		return load_behavior(l, i, &op->behavior);
	}
	if (!strcmp(type, "CharDelimiterSplit")) {
		op->kind = TK_PRE_CHAR;
		return get_char(l, i, "delimiter", NULL, &one, &op->cp);
	}
	return tk_no_such(l, rlx_json_get(l->j, i, "type"), "pre-tokenizer");
}

/* The ids that the template's special token @name stands for. */
static enum rlx_status template_special(struct tk_load *l, uint32_t post,
					uint32_t item, struct tk_template *m,
					uint32_t type)
{
	uint32_t name = rlx_json_get(l->j, item, "id"), all, one, ids;
	struct rlx_json_iter it;
	int64_t id;

	all = rlx_json_get(l->j, post, "special_tokens");
	if (!name || rlx_json_kind(l->j, name) != RLX_JSON_STR || !all)
		return tk_bad(l, item, "special token without \"id\", or no \"special_tokens\"");
	one = rlx_json_get(l->j, all, rlx_json_text(l->j, name));
	ids = one ? rlx_json_get(l->j, one, "ids") : 0;
	if (!ids || rlx_json_kind(l->j, ids) != RLX_JSON_ARR)
		return tk_bad(l, name, "not in \"special_tokens\" with its \"ids\"");
	for (it = rlx_json_iter(l->j, ids); rlx_json_next(&it);) {
		if (!rlx_json_int(l->j, it.val, &id) || id < 0 ||
		    id >= TK_VOCAB_MAX)
			return tk_bad(l, it.val, "not an id");
		if (tk_add_template(l->t, m, (int32_t)id, type))
			return tk_nomem(l);
	}
	return RLX_OK;
}

static enum rlx_status load_template(struct tk_load *l, uint32_t post,
				     const char *key, struct tk_template *m)
{
	uint32_t list = rlx_json_get(l->j, post, key), body, k, type;
	enum rlx_status st = RLX_OK;
	struct rlx_json_iter it;

	if (!list || rlx_json_kind(l->j, list) != RLX_JSON_ARR)
		return tk_bad(l, post, "template without its list of pieces");
	m->n = m->special = 0;
	for (it = rlx_json_iter(l->j, list); !st && rlx_json_next(&it);) {
		body = rlx_json_get(l->j, it.val, "SpecialToken");
		if (body) {
			st = tk_get_u32(l, body, "type_id", 0, &type);
			if (!st)
				st = template_special(l, post, body, m, type);
			continue;
		}
		body = rlx_json_get(l->j, it.val, "Sequence");
		k = body ? rlx_json_get(l->j, body, "id") : 0;
		if (!k || !(rlx_json_str_is(l->j, k, "A") ||
			    rlx_json_str_is(l->j, k, "B")))
			return tk_bad(l, it.val,
				      "template piece is no special token nor sequence A or B");
		st = tk_get_u32(l, body, "type_id", 0, &type);
		if (!st && tk_add_template(l->t, m,
					   rlx_json_str_is(l->j, k, "A") ?
					   TK_ITEM_A : TK_ITEM_B, type))
			st = tk_nomem(l);
	}
	return st;
}

/* Each text must be there once, or truncation would not know what to cut. */
static enum rlx_status check_template(struct tk_load *l, uint32_t i,
				      const struct tk_template *m, uint32_t b)
{
	uint32_t seen[2] = { 0, 0 }, k;

	for (k = 0; k < m->n; k++)
		if (m->v[k].id < 0)
			seen[m->v[k].id == TK_ITEM_B]++;
	if (seen[0] != 1 || seen[1] != b)
		return tk_no_such(l, i, "a template that uses a text not once is not supported");
	return RLX_OK;
}

/* ["[SEP]", 102] */
static enum rlx_status get_pair_id(struct tk_load *l, uint32_t i,
				   const char *key, int32_t *out)
{
	uint32_t k = rlx_json_get(l->j, i, key);
	int64_t id;

	if (!k || rlx_json_kind(l->j, k) != RLX_JSON_ARR ||
	    l->j->node[k].len != 2 ||
	    !rlx_json_int(l->j, l->j->node[k + 1].end, &id) || id < 0 ||
	    id >= TK_VOCAB_MAX)
		return tk_bad(l, k ? k : i, "\"sep\" and \"cls\" must be [\"token\", id]");
	*out = (int32_t)id;
	return RLX_OK;
}

/* cls A sep, and cls A sep B sep; Roberta has sep twice between, no types. */
static enum rlx_status load_cls_sep(struct tk_load *l, uint32_t i, bool roberta)
{
	struct rlx_tokenizer *t = l->t;
	enum rlx_status st;
	int32_t cls, sep;
	bool ok;

	st = get_pair_id(l, i, "cls", &cls);
	if (!st)
		st = get_pair_id(l, i, "sep", &sep);
	if (!st && roberta)
		st = tk_get_bool(l, i, "trim_offsets", true, &t->trim);
	if (!st && roberta)
		st = tk_get_bool(l, i, "add_prefix_space", true, &t->trim_prefix);
	if (st)
		return st;
	t->type_zero = roberta;
	t->single.n = t->single.special = t->pair.n = t->pair.special = 0;
	ok = !tk_add_template(t, &t->single, cls, 0) &&
	     !tk_add_template(t, &t->single, TK_ITEM_A, 0) &&
	     !tk_add_template(t, &t->single, sep, 0) &&
	     !tk_add_template(t, &t->pair, cls, 0) &&
	     !tk_add_template(t, &t->pair, TK_ITEM_A, 0) &&
	     !tk_add_template(t, &t->pair, sep, 0) &&
	     (!roberta || !tk_add_template(t, &t->pair, sep, 0)) &&
	     !tk_add_template(t, &t->pair, TK_ITEM_B, 1) &&
	     !tk_add_template(t, &t->pair, sep, 1);
	return ok ? RLX_OK : tk_nomem(l);
}

enum rlx_status tk_load_post(struct tk_load *l, uint32_t i)
{
	const char *type = tk_type(l, i, "post-processor");
	struct rlx_tokenizer *t = l->t;
	enum rlx_status st;

	if (!type)
		return RLX_EPARSE;
	if (!strcmp(type, "TemplateProcessing")) {
		st = load_template(l, i, "single", &t->single);
		if (!st)
			st = check_template(l, i, &t->single, 0);
		if (!st)
			st = load_template(l, i, "pair", &t->pair);
		return st ? st : check_template(l, i, &t->pair, 1);
	}
	if (!strcmp(type, "BertProcessing"))
		return load_cls_sep(l, i, false);
	if (!strcmp(type, "RobertaProcessing"))
		return load_cls_sep(l, i, true);
	if (!strcmp(type, "ByteLevel")) {
		st = tk_get_bool(l, i, "trim_offsets", true, &t->trim);
		return st ? st : tk_get_bool(l, i, "add_prefix_space", true,
					     &t->trim_prefix);
	}
	return tk_no_such(l, rlx_json_get(l->j, i, "type"), "post-processor");
}

static struct tk_dec *dec_add(struct rlx_tokenizer *t)
{
	if (!rlx_grow(&t->dec, &t->cap_dec, t->n_dec + 1, sizeof(*t->dec)))
		return NULL;
	t->dec[t->n_dec] = (struct tk_dec){ 0 };
	return &t->dec[t->n_dec++];
}

static enum rlx_status load_strip_dec(struct tk_load *l, uint32_t i,
				      struct tk_dec *op)
{
	enum rlx_status st;
	uint32_t cp;

	op->kind = TK_DEC_STRIP;
	st = get_char(l, i, "content", " ", &op->text, &cp);
	if (!st)
		st = tk_get_u32(l, i, "start", 0, &op->start);
	return st ? st : tk_get_u32(l, i, "stop", 0, &op->stop);
}

static enum rlx_status load_other_dec(struct tk_load *l, uint32_t i,
				      const char *type, struct tk_dec *op)
{
	enum rlx_status st;
	uint32_t cp;

	if (!strcmp(type, "WordPiece")) {
		op->kind = TK_DEC_WORDPIECE;
		st = tk_get_text(l, i, "prefix", "##", &op->text);
		return st ? st : tk_get_bool(l, i, "cleanup", true, &op->cleanup);
	}
	if (!strcmp(type, "Metaspace")) {
		op->kind = TK_DEC_META;
		st = get_char(l, i, "replacement", NULL, &op->text, &cp);
		return st ? st : load_scheme(l, i, &op->scheme);
	}
	if (!strcmp(type, "Replace")) {
		op->kind = TK_DEC_REPLACE;
		st = tk_get_pattern(l, i, "pattern", &op->pat);
		return st ? st : tk_get_text(l, i, "content", NULL, &op->text);
	}
	if (!strcmp(type, "Strip"))
		return load_strip_dec(l, i, op);
	if (!strcmp(type, "BPEDecoder")) {
		op->kind = TK_DEC_BPE;
		return tk_get_text(l, i, "suffix", "</w>", &op->text);
	}
	return tk_no_such(l, rlx_json_get(l->j, i, "type"), "decoder");
}

enum rlx_status tk_load_dec(struct tk_load *l, uint32_t i)
{
	static const struct {
		const char		*name;
		enum tk_dec_kind	 kind;
	} plain[] = {
		{ "ByteLevel", TK_DEC_BYTES }, { "Fuse", TK_DEC_FUSE },
		{ "ByteFallback", TK_DEC_FALLBACK },
	};
	const char *type = tk_type(l, i, "decoder");
	struct tk_dec *op;
	size_t k;

	if (!type)
		return RLX_EPARSE;
	op = dec_add(l->t);
	if (!op)
		return tk_nomem(l);
	for (k = 0; k < sizeof(plain) / sizeof(*plain); k++)
		if (!strcmp(type, plain[k].name)) {
			op->kind = plain[k].kind;
			return RLX_OK;
		}
	return load_other_dec(l, i, type, op);
}
