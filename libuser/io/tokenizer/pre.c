// SPDX-License-Identifier: MIT
/* Pre-tokenizers: cut normalized text into the pieces a model sees. */
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"

typedef struct rlx_tokenizer_scratch scratch;

/* What a matcher found or passed over, in order; covers the whole piece. */
struct part {
	uint32_t	begin, end;
	bool		match;
};

struct splitter {
	scratch			*s;
	const struct tk_pre	*op;
	enum tk_behavior	 behavior;
	bool			 have;	/* a part waits to be merged with */
	bool			 prev_match;
	struct part		 wait;
};

static bool flush(struct splitter *w)
{
	bool ok = !w->have || w->wait.begin == w->wait.end ||
		  tk_piece_add(&w->s->pieces2, w->wait.begin, w->wait.end,
			       TK_NONE);

	w->have = false;
	return ok;
}

/* Take the next part, in order, as the behavior wants. */
static bool take(struct splitter *w, uint32_t begin, uint32_t end, bool match)
{
	bool merge = false;

	if (begin == end)
		return true;
	switch (w->behavior) {
	case TK_REMOVED:
		if (match)
			return true;
		break;
	case TK_ISOLATED:
		break;
	case TK_CONTIGUOUS:
		merge = w->have && w->wait.match == match;
		break;
	case TK_MERGE_PREV:
		merge = match && w->have && !w->prev_match;
		break;
	case TK_MERGE_NEXT:
		/* a match waits for what follows it, unless that matches too */
		merge = w->have && w->wait.match && !match;
		break;
	}
	w->prev_match = match;
	if (merge) {
		w->wait.end = end;
		w->wait.match = match;
		return true;
	}
	if (!flush(w))
		return false;
	w->wait = (struct part){ begin, end, match };
	w->have = true;
	return true;
}

/* Split by a pattern; @invert swaps what is a match and what is not. */
static enum rlx_status by_pattern(scratch *s, const struct tk_pre *op,
				  struct tk_piece p)
{
	struct splitter w = { .s = s, .op = op, .behavior = op->behavior };
	struct tk_subject x = { s->text.b + p.begin, p.end - p.begin, s->steps };
	struct rlx_token_span m;
	enum tk_found found;
	uint32_t i = 0;
	bool ok = true;

	while (ok) {
		found = tk_pattern_find(s->t, &op->pat, &x, i, &m);
		if (found == TK_TOO_HARD)
			return RLX_ENOSUP;
		if (found == TK_NOT_FOUND)
			break;
		ok = take(&w, p.begin + i, p.begin + m.begin, op->invert) &&
		     take(&w, p.begin + m.begin, p.begin + m.end, !op->invert);
		i = m.end;
	}
	s->steps = x.steps;
	ok = ok && take(&w, p.begin + i, p.end, op->invert) && flush(&w);
	return ok ? RLX_OK : RLX_ENOMEM;
}

/* Classes of characters for the hand-written ones. */
enum char_class { C_OTHER, C_SPACE, C_PUNCT, C_WORD };

static enum char_class class_of(const struct tk_pre *op, uint32_t cp)
{
	switch (op->kind) {
	case TK_PRE_BERT:
		return rlx_uc_is_space(cp) ? C_SPACE :
		       rlx_uc_bert_punct(cp) ? C_PUNCT : C_OTHER;
	case TK_PRE_SPACES:
		return rlx_uc_is_space(cp) ? C_SPACE : C_OTHER;
	case TK_PRE_WORDS:
		/* what this one calls a word includes the joiners */
		return rlx_uc_is_space(cp) ? C_SPACE :
		       rlx_uc_is_word(cp) || cp == 0x200c || cp == 0x200d ?
		       C_WORD : C_OTHER;
	case TK_PRE_PUNCT:
		return rlx_uc_bert_punct(cp) ? C_PUNCT : C_OTHER;
	case TK_PRE_DIGITS:
		return rlx_uc_is(cp, RLX_UC_NUM) ? C_PUNCT : C_OTHER;
	case TK_PRE_CHAR:
		return cp == op->cp ? C_SPACE : C_OTHER;
	default:
		return C_OTHER;
	}
}

/*
 * Runs of one class become pieces; space goes away, punctuation stands alone.
 * For BERT, Whitespace, WhitespaceSplit and CharDelimiterSplit.
 */
static bool by_class(scratch *s, const struct tk_pre *op, struct tk_piece p)
{
	enum char_class was = C_SPACE, is;
	uint32_t begin = p.begin, i, k, cp;
	uint8_t ascii[128];

	for (i = 0; i < 128; i++)
		ascii[i] = class_of(op, i);
	for (i = p.begin; i < p.end; i += k) {
		if (s->text.b[i] < 0x80) {
			k = 1;
			is = ascii[s->text.b[i]];
		} else {
			k = rlx_utf8_next(s->text.b + i, &cp);
			is = class_of(op, cp);
		}
		if (is == was && is != C_PUNCT)
			continue;
		if (was != C_SPACE &&
		    !tk_piece_add(&s->pieces2, begin, i, TK_NONE))
			return false;
		begin = i;
		was = is;
	}
	return was == C_SPACE ||
	       tk_piece_add(&s->pieces2, begin, p.end, TK_NONE);
}

/* Punctuation and Digits: each character of the class is a match. */
static bool by_char(scratch *s, const struct tk_pre *op, struct tk_piece p)
{
	struct splitter w = { .s = s, .op = op, .behavior = op->behavior };
	uint32_t begin = p.begin, i, k, cp;
	bool ok = true;

	for (i = p.begin; i < p.end && ok; i += k) {
		k = rlx_utf8_next(s->text.b + i, &cp);
		if (class_of(op, cp) != C_PUNCT)
			continue;
		ok = take(&w, begin, i, false) && take(&w, i, i + k, true);
		begin = i + k;
	}
	return ok && take(&w, begin, p.end, false) && flush(&w);
}

static bool by_length(scratch *s, const struct tk_pre *op, struct tk_piece p)
{
	uint32_t begin = p.begin, i, n = 0;

	for (i = p.begin; i < p.end; i += rlx_utf8_len(s->text.b[i])) {
		if (n++ < op->length)
			continue;
		if (!tk_piece_add(&s->pieces2, begin, i, TK_NONE))
			return false;
		begin = i;
		n = 1;
	}
	return begin == p.end ||
	       tk_piece_add(&s->pieces2, begin, p.end, TK_NONE);
}

/* Cut each piece of text in s->pieces into s->pieces2. */
static enum rlx_status cut_one(scratch *s, const struct tk_pre *op,
			       struct tk_piece p)
{
	bool ok;

	switch (op->kind) {
	case TK_PRE_SPLIT:
	case TK_PRE_BYTES:
	case TK_PRE_META:
		return by_pattern(s, op, p);
	case TK_PRE_PUNCT:
	case TK_PRE_DIGITS:
		ok = by_char(s, op, p);
		break;
	case TK_PRE_FIXED:
		ok = by_length(s, op, p);
		break;
	default:
		ok = by_class(s, op, p);
	}
	return ok ? RLX_OK : RLX_ENOMEM;
}

/* Whether a piece begins with the @n bytes @s. */
static bool begins(const struct tk_buf *b, struct tk_piece p, const void *s,
		   uint32_t n)
{
	return p.end - p.begin >= n && !memcmp(b->b + p.begin, s, n);
}

/*
 * Copy the text to s->tmp with a prefix before each piece that lacks it, and,
 * for Metaspace, each space replaced. Pieces keep their order.
 */
static bool rewrite(scratch *s, const struct tk_pre *op, const uint8_t *mark,
		    uint32_t mark_len)
{
	uint32_t i, k;

	s->tmp.n = 0;
	for (i = 0; i < s->pieces.n; i++) {
		struct tk_piece p = s->pieces.v[i];
		uint32_t begin = s->tmp.n;
		bool want = op->prefix;

		if (p.id != TK_NONE) {
			if (!tk_piece_add(&s->pieces2, begin, begin, p.id) ||
			    !tk_buf_copy(&s->tmp, &s->text, p.begin, p.end))
				return false;
			s->pieces2.v[s->pieces2.n - 1].end = s->tmp.n;
			continue;
		}
		if (op->kind == TK_PRE_META)
			want = (op->scheme == TK_ALWAYS ||
				(op->scheme == TK_FIRST &&
				 !s->text.map[p.begin].begin)) &&
			       s->text.b[p.begin] != ' ';
		if (want && !begins(&s->text, p, mark, mark_len) &&
		    !tk_buf_put(&s->tmp, mark, mark_len, s->text.map[p.begin]))
			return false;
		for (k = p.begin; k < p.end; k++) {
			uint32_t from = k;

			while (k < p.end && (op->kind != TK_PRE_META ||
					     s->text.b[k] != ' '))
				k++;
			if (!tk_buf_copy(&s->tmp, &s->text, from, k))
				return false;
			if (k < p.end && !tk_buf_put(&s->tmp, mark, mark_len,
						     s->text.map[k]))
				return false;
		}
		if (!tk_piece_add(&s->pieces2, begin, s->tmp.n, TK_NONE))
			return false;
	}
	return true;
}

static void swap_pieces(scratch *s)
{
	struct tk_pieces p = s->pieces;

	s->pieces = s->pieces2;
	s->pieces2 = p;
}

static enum rlx_status cut_all(scratch *s, const struct tk_pre *op)
{
	enum rlx_status st = RLX_OK;
	uint32_t i;

	s->pieces2.n = 0;
	for (i = 0; i < s->pieces.n && !st; i++) {
		struct tk_piece p = s->pieces.v[i];

		if (p.id == TK_NONE)
			st = cut_one(s, op, p);
		else if (!tk_piece_add(&s->pieces2, p.begin, p.end, p.id))
			st = RLX_ENOMEM;
	}
	swap_pieces(s);
	return st;
}

static enum rlx_status rewrite_all(scratch *s, const struct tk_pre *op)
{
	uint32_t len = 1;
	struct tk_buf b;
	uint8_t mark[4];

	if (op->kind == TK_PRE_META)
		len = rlx_utf8_put(mark, op->cp);
	else
		mark[0] = ' ';
	s->pieces2.n = 0;
	if (!rewrite(s, op, mark, len))
		return RLX_ENOMEM;
	swap_pieces(s);
	b = s->text;
	s->text = s->tmp;
	s->tmp = b;
	return RLX_OK;
}

enum rlx_status tk_pretokenize(struct rlx_tokenizer_scratch *s)
{
	enum rlx_status st = RLX_OK;
	uint32_t i;

	for (i = 0; i < s->t->n_pre && !st; i++) {
		const struct tk_pre *op = &s->t->pre[i];

		if (op->kind == TK_PRE_META ||
		    (op->kind == TK_PRE_BYTES && op->prefix))
			st = rewrite_all(s, op);
		if (!st && op->split)
			st = cut_all(s, op);
	}
	return st;
}
