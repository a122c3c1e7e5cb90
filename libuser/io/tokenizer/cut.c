// SPDX-License-Identifier: MIT
/*
 * Where a text can be cut so that its parts give the tokens of the whole: a long one is
 * then read a window at a time, and no further than its tokens are wanted.
 *
 * That depends on what the tokenizer is made of. What rewrites a character by itself, or
 * by those beside it that combine with it, does the same on both sides of plain ASCII. A
 * pre-tokenizer that begins a word at a cut makes the model see the same words. Where
 * anything else is at work nothing is known, and the text is not cut.
 */
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"

enum {
	CUT_SPACE = 1,	/* before a space between ASCII that is none */
	CUT_BLANK = 2,	/* likewise a tab or the end of a line */
	CUT_PUNCT = 4,	/* before ASCII punctuation between such */
	CUT_CJK	  = 8,	/* before an ideograph */
	CUT_RUN	  = 16,	/* between any two of these spaces, tabs, ends of lines */
};

static bool is_graph(uint8_t b)
{
	return b > 0x20 && b < 0x7f;
}

static bool is_blank(uint8_t b)
{
	return b == ' ' || b == '\t' || b == '\n' || b == '\r';
}

static bool all_graph(const struct rlx_tokenizer *t, struct tk_str s)
{
	uint32_t i;

	for (i = 0; i < s.len; i++)
		if (!is_graph(tk_text(t, s)[i]))
			return false;
	return true;
}

/* False: a normalizer looks further. *@out_plain: nothing spans punctuation either. */
static bool norms_are_local(const struct rlx_tokenizer *t, bool *out_plain)
{
	uint32_t i;

	for (i = 0; i < t->n_norm; i++) {
		const struct tk_norm *op = &t->norm[i];

		switch (op->kind) {
		case TK_NORM_STRIP:
		case TK_NORM_PREPEND:
			return false;
		case TK_NORM_REPLACE:
			if (op->pat.re || !all_graph(t, op->pat.lit))
				return false;
			*out_plain = false;
			break;
		case TK_NORM_CHARSMAP:
			*out_plain = false;
			break;
		default:
			break;
		}
	}
	return true;
}

/* Added tokens that are looked for in normalized text; others are found before. */
static bool added_are_local(const struct rlx_tokenizer *t, bool *out_plain)
{
	uint32_t i;

	for (i = 0; i < t->n_added; i++) {
		const struct tk_added *a = &t->added[i];

		if (!a->normalized)
			continue;
		if (a->rstrip || !all_graph(t, a->text))
			return false;
		*out_plain = false;
	}
	return true;
}

unsigned int tk_cuts(const struct rlx_tokenizer *t)
{
	bool plain = true, cjk;
	uint32_t i;

	if (!norms_are_local(t, &plain) || !added_are_local(t, &plain))
		return 0;
	cjk = plain && t->n_norm == 1 && t->norm[0].kind == TK_NORM_BERT && t->norm[0].cjk;
	for (i = 0; i < t->n_pre; i++) {
		const struct tk_pre *op = &t->pre[i];

		switch (op->kind) {
		case TK_PRE_BERT:
			return CUT_SPACE | CUT_BLANK | (plain ? CUT_PUNCT | CUT_RUN : 0) |
			       (cjk ? CUT_CJK : 0);
		case TK_PRE_WORDS:
		case TK_PRE_SPACES:
			return CUT_SPACE | CUT_BLANK | (plain ? CUT_RUN : 0);
		case TK_PRE_BYTES:
		case TK_PRE_META:
			if (op->split)
				return CUT_SPACE;
			if (op->kind == TK_PRE_META)
				return 0;
			break;
		case TK_PRE_PUNCT:
		case TK_PRE_DIGITS:
			break;
		default:
			return 0;
		}
	}
	return 0;
}

/* May the text go apart before b[p]? There are bytes on both sides. */
static bool may_cut(unsigned int cuts, const uint8_t *b, uint32_t p, uint32_t end)
{
	uint32_t cp;

	if ((b[p] & 0xc0) == 0x80)
		return false;
	if (b[p] >= 0x80) {
		if (!(cuts & CUT_CJK))
			return false;
		rlx_utf8_next(b + p, &cp);
		return rlx_uc_is_cjk(cp);
	}
	if (cuts & CUT_RUN && is_blank(b[p]) && is_blank(b[p - 1]))
		return true;
	if (!is_graph(b[p - 1]) || p + 1 == end || !is_graph(b[p + 1]))
		return false;
	if (is_blank(b[p]))
		return cuts & (b[p] == ' ' ? CUT_SPACE : CUT_BLANK);
	return cuts & CUT_PUNCT && rlx_uc_bert_punct(b[p]);
}

uint32_t tk_cut(const struct rlx_tokenizer_scratch *s, const uint8_t *b, uint32_t begin,
		uint32_t end)
{
	unsigned int cuts = s->t->cuts;
	uint32_t p;

	if (!cuts)
		return end - begin <= s->whole_max ? end : 0;
	if (end - begin <= s->window)
		return end;
	for (p = begin + s->window; p > begin; p--)
		if (may_cut(cuts, b, p, end))
			return p;
	for (p = begin + s->window; p < end && p - begin <= s->window_max; p++)
		if (may_cut(cuts, b, p, end))
			return p;
	return p == end ? end : 0;
}
