// SPDX-License-Identifier: MIT
/* Loading normalizers, pre-tokenizers, post-processors and decoders. */
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"

/* How GPT-2 and its heirs split when ByteLevel says no pattern of its own. */
static const char gpt2_pattern[] =
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
	"\\s+(?!\\S)|\\s+";

/* What a part is called in the file, what it becomes, and who reads its members. */
struct part {
	const char	*name;
	int		 kind;
	enum rlx_status	(*load)(struct tk_load *l, uint32_t i, void *op);
};

#define PARTS(a)	a, sizeof(a) / sizeof(*(a))

/* NULL: @st says why. */
static const struct part *part_find(struct tk_load *l, uint32_t i, const char *what,
				    const struct part *parts, size_t n,
				    enum rlx_status *st)
{
	const char *type = tk_type(l, i, what);
	size_t k;

	*st = RLX_EPARSE;
	if (!type)
		return NULL;
	for (k = 0; k < n; k++)
		if (!strcmp(type, parts[k].name))
			return &parts[k];
	*st = tk_no_such(l, rlx_json_get(l->j, i, "type"), what);
	return NULL;
}

static enum rlx_status part_load(struct tk_load *l, uint32_t i,
				 const struct part *part, void *op)
{
	return part->load ? part->load(l, i, op) : RLX_OK;
}

static struct tk_norm *norm_add(struct rlx_tokenizer *t)
{
	if (!rlx_grow(&t->norm, &t->cap_norm, t->n_norm + 1, sizeof(*t->norm)))
		return NULL;
	t->norm[t->n_norm] = (struct tk_norm){ 0 };
	return &t->norm[t->n_norm++];
}

static enum rlx_status load_bert_norm(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_norm *op = part;
	enum rlx_status st;

	st = tk_get_bool(l, i, "clean_text", true, &op->clean);
	if (!st)
		st = tk_get_bool(l, i, "handle_chinese_chars", true, &op->cjk);
	if (!st)
		st = tk_get_bool(l, i, "lowercase", true, &op->lower);
	if (!st)	/* null: as lowercase */
		st = tk_get_bool(l, i, "strip_accents", op->lower, &op->accents);
	return st;
}

static enum rlx_status get_replace(struct tk_load *l, uint32_t i,
				   struct tk_pattern *pat, struct tk_str *by)
{
	enum rlx_status st = tk_get_pattern(l, i, "pattern", pat);

	return st ? st : tk_get_text(l, i, "content", NULL, by);
}

static enum rlx_status load_replace(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_norm *op = part;

	return get_replace(l, i, &op->pat, &op->text);
}

static enum rlx_status load_strip(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_norm *op = part;
	enum rlx_status st;

	st = tk_get_bool(l, i, "strip_left", true, &op->left);
	return st ? st : tk_get_bool(l, i, "strip_right", true, &op->right);
}

static enum rlx_status load_prepend(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_norm *op = part;

	return tk_get_text(l, i, "prepend", NULL, &op->text);
}

enum rlx_status tk_load_norm(struct tk_load *l, uint32_t i)
{
	static const struct part parts[] = {
		{ "NFC", TK_NORM_NFC }, { "NFD", TK_NORM_NFD },
		{ "NFKC", TK_NORM_NFKC }, { "NFKD", TK_NORM_NFKD },
		{ "Lowercase", TK_NORM_LOWER }, { "StripAccents", TK_NORM_ACCENTS },
		{ "BertNormalizer", TK_NORM_BERT, load_bert_norm },
		{ "Replace", TK_NORM_REPLACE, load_replace },
		{ "Strip", TK_NORM_STRIP, load_strip },
		{ "Prepend", TK_NORM_PREPEND, load_prepend },
		{ "Precompiled", TK_NORM_CHARSMAP, tk_load_charsmap },
	};
	const struct part *part;
	struct tk_norm *op;
	enum rlx_status st;

	part = part_find(l, i, "normalizer", PARTS(parts), &st);
	if (!part)
		return st;
	if (l->t->n_norm == TK_PARTS_MAX)
		return tk_no_such(l, i, "over 64 normalizers are not supported");
	op = norm_add(l->t);
	if (!op)
		return tk_nomem(l);
	op->kind = (enum tk_norm_kind)part->kind;
	return part_load(l, i, part, op);
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

static enum rlx_status load_split(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_pre *op = part;
	enum rlx_status st;

	st = tk_get_pattern(l, i, "pattern", &op->pat);
	if (!st)
		st = load_behavior(l, i, &op->behavior);
	return st ? st : tk_get_bool(l, i, "invert", false, &op->invert);
}

static enum rlx_status load_bytes(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_pre *op = part;
	enum rlx_status st;

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

static enum rlx_status load_meta(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_pre *op = part;
	enum rlx_status st;

	op->behavior = TK_MERGE_NEXT;
	st = get_char(l, i, "replacement", NULL, &op->pat.lit, &op->cp);
	if (!st)
		st = load_scheme(l, i, &op->scheme);
	return st ? st : tk_get_bool(l, i, "split", true, &op->split);
}

static enum rlx_status load_digits(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_pre *op = part;
	enum rlx_status st;
	bool each;

	st = tk_get_bool(l, i, "individual_digits", false, &each);
	op->behavior = each ? TK_ISOLATED : TK_CONTIGUOUS;
	return st;
}

static enum rlx_status load_fixed(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_pre *op = part;
	enum rlx_status st;

	st = tk_get_u32(l, i, "length", 5, &op->length);
	return st || op->length ? st : tk_bad(l, i, "\"length\" must not be 0");
}

static enum rlx_status load_punctuation(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_pre *op = part;

	return load_behavior(l, i, &op->behavior);
}

static enum rlx_status load_delimiter(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_pre *op = part;
	struct tk_str one;

	return get_char(l, i, "delimiter", NULL, &one, &op->cp);
}

enum rlx_status tk_load_pre(struct tk_load *l, uint32_t i)
{
	static const struct part parts[] = {
		{ "BertPreTokenizer", TK_PRE_BERT }, { "Whitespace", TK_PRE_WORDS },
		{ "WhitespaceSplit", TK_PRE_SPACES },
		{ "ByteLevel", TK_PRE_BYTES, load_bytes },
		{ "Split", TK_PRE_SPLIT, load_split },
		{ "Metaspace", TK_PRE_META, load_meta },
		{ "Digits", TK_PRE_DIGITS, load_digits },
		{ "FixedLength", TK_PRE_FIXED, load_fixed },
		{ "Punctuation", TK_PRE_PUNCT, load_punctuation },
		{ "CharDelimiterSplit", TK_PRE_CHAR, load_delimiter },
	};
	const struct part *part;
	struct tk_pre *op;
	enum rlx_status st;

	part = part_find(l, i, "pre-tokenizer", PARTS(parts), &st);
	if (!part)
		return st;
	if (l->t->n_pre == TK_PARTS_MAX)
		return tk_no_such(l, i, "over 64 pre-tokenizers are not supported");
	op = pre_add(l->t);
	if (!op)
		return tk_nomem(l);
	op->kind = (enum tk_pre_kind)part->kind;
	return part_load(l, i, part, op);
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

/* How offsets are cut to the text without its spaces. */
static enum rlx_status load_trim(struct tk_load *l, uint32_t i, void *part)
{
	struct rlx_tokenizer *t = l->t;
	enum rlx_status st = tk_get_bool(l, i, "trim_offsets", true, &t->trim);

	return st ? st : tk_get_bool(l, i, "add_prefix_space", true, &t->trim_prefix);
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

static enum rlx_status load_templates(struct tk_load *l, uint32_t i, void *part)
{
	struct rlx_tokenizer *t = l->t;
	enum rlx_status st = load_template(l, i, "single", &t->single);

	if (!st)
		st = check_template(l, i, &t->single, 0);
	if (!st)
		st = load_template(l, i, "pair", &t->pair);
	return st ? st : check_template(l, i, &t->pair, 1);
}

static enum rlx_status load_bert_post(struct tk_load *l, uint32_t i, void *part)
{
	return load_cls_sep(l, i, false);
}

static enum rlx_status load_roberta_post(struct tk_load *l, uint32_t i, void *part)
{
	enum rlx_status st = load_trim(l, i, part);

	return st ? st : load_cls_sep(l, i, true);
}

enum rlx_status tk_load_post(struct tk_load *l, uint32_t i)
{
	static const struct part parts[] = {
		{ "TemplateProcessing", 0, load_templates },
		{ "BertProcessing", 0, load_bert_post },
		{ "RobertaProcessing", 0, load_roberta_post },
		{ "ByteLevel", 0, load_trim },
	};
	const struct part *part;
	enum rlx_status st;

	part = part_find(l, i, "post-processor", PARTS(parts), &st);
	return part ? part_load(l, i, part, NULL) : st;
}

static struct tk_dec *dec_add(struct rlx_tokenizer *t)
{
	if (!rlx_grow(&t->dec, &t->cap_dec, t->n_dec + 1, sizeof(*t->dec)))
		return NULL;
	t->dec[t->n_dec] = (struct tk_dec){ 0 };
	return &t->dec[t->n_dec++];
}

static enum rlx_status load_strip_dec(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_dec *op = part;
	enum rlx_status st;
	uint32_t cp;

	st = get_char(l, i, "content", " ", &op->text, &cp);
	if (!st)
		st = tk_get_u32(l, i, "start", 0, &op->start);
	return st ? st : tk_get_u32(l, i, "stop", 0, &op->stop);
}

static enum rlx_status load_wordpiece(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_dec *op = part;
	enum rlx_status st = tk_get_text(l, i, "prefix", "##", &op->text);

	return st ? st : tk_get_bool(l, i, "cleanup", true, &op->cleanup);
}

static enum rlx_status load_meta_dec(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_dec *op = part;
	enum rlx_status st;
	uint32_t cp;

	st = get_char(l, i, "replacement", NULL, &op->text, &cp);
	return st ? st : load_scheme(l, i, &op->scheme);
}

static enum rlx_status load_replace_dec(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_dec *op = part;

	return get_replace(l, i, &op->pat, &op->text);
}

static enum rlx_status load_bpe_dec(struct tk_load *l, uint32_t i, void *part)
{
	struct tk_dec *op = part;

	return tk_get_text(l, i, "suffix", "</w>", &op->text);
}

enum rlx_status tk_load_dec(struct tk_load *l, uint32_t i)
{
	static const struct part parts[] = {
		{ "ByteLevel", TK_DEC_BYTES }, { "Fuse", TK_DEC_FUSE },
		{ "ByteFallback", TK_DEC_FALLBACK },
		{ "WordPiece", TK_DEC_WORDPIECE, load_wordpiece },
		{ "Metaspace", TK_DEC_META, load_meta_dec },
		{ "Replace", TK_DEC_REPLACE, load_replace_dec },
		{ "Strip", TK_DEC_STRIP, load_strip_dec },
		{ "BPEDecoder", TK_DEC_BPE, load_bpe_dec },
	};
	const struct part *part;
	struct tk_dec *op;
	enum rlx_status st;

	part = part_find(l, i, "decoder", PARTS(parts), &st);
	if (!part)
		return st;
	if (l->t->n_dec == TK_PARTS_MAX)
		return tk_no_such(l, i, "over 64 decoders are not supported");
	op = dec_add(l->t);
	if (!op)
		return tk_nomem(l);
	op->kind = (enum tk_dec_kind)part->kind;
	return part_load(l, i, part, op);
}
