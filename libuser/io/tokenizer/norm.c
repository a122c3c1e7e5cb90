// SPDX-License-Identifier: MIT
/* Normalizers: rewrite a segment of text, keeping where each byte came from. */
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"

typedef struct rlx_tokenizer_scratch scratch;

static bool cp_add(scratch *s, uint32_t cp, struct rlx_token_span span)
{
	if (!rlx_grow(&s->cps, &s->cap_cps, s->n_cps + 1, sizeof(*s->cps)))
		return false;
	s->cps[s->n_cps++] = (struct tk_cp){ cp, rlx_uc_ccc(cp), 0, span };
	return true;
}

/*
 * Put the marks [begin, end) in order of combining class, stably; counting, so
 * that a text of nothing but marks is linear too.
 */
static bool reorder_run(scratch *s, uint32_t begin, uint32_t end)
{
	uint32_t n = end - begin, at[257] = { 0 }, i;
	struct tk_cp *v = s->cps + begin;

	for (i = 1; i < n && v[i - 1].ccc <= v[i].ccc; i++)
		;
	if (i >= n)
		return true;
	if (!rlx_grow(&s->cps2, &s->cap_cps2, n, sizeof(*s->cps2)))
		return false;
	memcpy(s->cps2, v, n * sizeof(*v));
	for (i = 0; i < n; i++)
		at[v[i].ccc + 1]++;
	for (i = 1; i < 257; i++)
		at[i] += at[i - 1];
	for (i = 0; i < n; i++)
		v[at[s->cps2[i].ccc]++] = s->cps2[i];
	return true;
}

static bool reorder(scratch *s)
{
	uint32_t i, k;

	for (i = 0; i < s->n_cps; i = k + 1) {
		for (k = i; k < s->n_cps && s->cps[k].ccc; k++)
			;
		if (k > i + 1 && !reorder_run(s, i, k))
			return false;
	}
	return true;
}

/* Canonical composition in place, on decomposed and ordered s->cps. */
static void compose(scratch *s)
{
	uint32_t starter = UINT32_MAX, last_ccc = 0, n = 0, i, c;

	for (i = 0; i < s->n_cps; i++) {
		struct tk_cp x = s->cps[i];

		if (starter != UINT32_MAX &&
		    (last_ccc < x.ccc || (!last_ccc && starter + 1 == n))) {
			c = rlx_uc_compose(s->cps[starter].cp, x.cp);
			if (c) {
				s->cps[starter].cp = c;
				s->cps[starter].more += x.more - 1;
				continue;
			}
		}
		if (!x.ccc)
			starter = n;
		last_ccc = x.ccc;
		s->cps[n++] = x;
	}
	s->n_cps = n;
}

/* Decompose bytes [begin, end) of s->seg into s->cps. */
static bool decompose(scratch *s, uint32_t begin, uint32_t end, bool compat)
{
	uint32_t out[RLX_UC_DECOMP_MAX], cp, k;
	const struct tk_buf *in = &s->seg;
	unsigned int n, i;

	s->n_cps = 0;
	for (; begin < end; begin += k) {
		k = rlx_utf8_next(in->b + begin, &cp);
		n = rlx_uc_decompose(cp, compat, out);
		for (i = 0; i < n; i++) {
			if (!cp_add(s, out[i], in->map[begin]))
				return false;
			s->cps[s->n_cps - 1].more = i > 0;
		}
	}
	return reorder(s);
}

/*
 * Put s->cps. Where they came from is told as the reference tells it: one that
 * adds to the text has the span of the one before, any other that of the next
 * one not yet consumed, of which it takes 1 - more; so marks that changed places
 * have spans in order.
 */
static bool put_cps(scratch *s, struct tk_buf *out, uint32_t begin, uint32_t end)
{
	struct rlx_token_span span = { 0 };
	const struct tk_buf *in = &s->seg;
	uint32_t i;
	int32_t n;

	for (i = 0; i < s->n_cps; i++) {
		const struct tk_cp *c = &s->cps[i];
		struct rlx_token_span mine = span;

		for (n = c->more; n <= 0 && begin < end; n++) {
			span = in->map[begin];
			if (n == c->more)
				mine = span;
			begin += rlx_utf8_len(in->b[begin]);
		}
		if (!tk_buf_put_cp(out, c->cp, mine))
			return false;
	}
	return true;
}

/* NFC, NFD, NFKC, NFKD. ASCII before ASCII is its own normal form in all. */
static bool normal_form(scratch *s, enum tk_norm_kind kind, struct tk_buf *out)
{
	bool compat = kind == TK_NORM_NFKC || kind == TK_NORM_NFKD;
	bool comp = kind == TK_NORM_NFC || kind == TK_NORM_NFKC;
	const struct tk_buf *in = &s->seg;
	uint32_t i = 0, k;

	while (i < in->n) {
		for (k = i; k < in->n && in->b[k] < 0x80; k++)
			;
		/* the last one may compose with what follows */
		if (k < in->n && k > i)
			k--;
		if (!tk_buf_copy(out, in, i, k))
			return false;
		for (i = k; k < in->n && (k == i || in->b[k] >= 0x80); k++)
			;
		if (k == i)
			break;
		if (!decompose(s, i, k, compat))
			return false;
		if (comp)
			compose(s);
		if (!put_cps(s, out, i, k))
			return false;
		i = k;
	}
	return true;
}

static bool put_lower(struct tk_buf *out, uint32_t cp, struct rlx_token_span span)
{
	uint32_t low[2];
	unsigned int n = rlx_uc_lower(cp, low), i;

	for (i = 0; i < n; i++)
		if (!tk_buf_put_cp(out, low[i], span))
			return false;
	return true;
}

static bool lowercase(scratch *s, struct tk_buf *out)
{
	const struct tk_buf *in = &s->seg;
	uint32_t i, k, cp;

	for (i = 0; i < in->n; i += k) {
		k = rlx_utf8_next(in->b + i, &cp);
		if (!put_lower(out, cp, in->map[i]))
			return false;
	}
	return true;
}

static bool strip_marks(scratch *s, struct tk_buf *out)
{
	const struct tk_buf *in = &s->seg;
	uint32_t i, k, cp;

	for (i = 0; i < in->n; i += k) {
		k = rlx_utf8_next(in->b + i, &cp);
		if (!rlx_uc_old_mark(cp) &&
		    !tk_buf_copy(out, in, i, i + k))
			return false;
	}
	return true;
}

static bool strip_ends(scratch *s, const struct tk_norm *op, struct tk_buf *out)
{
	const struct tk_buf *in = &s->seg;
	uint32_t begin = 0, end = in->n, k, cp;

	while (op->left && begin < end) {
		k = rlx_utf8_next(in->b + begin, &cp);
		if (!rlx_uc_is_space(cp))
			break;
		begin += k;
	}
	while (op->right && begin < end) {
		for (k = end - 1; (in->b[k] & 0xc0) == 0x80; k--)
			;
		rlx_utf8_next(in->b + k, &cp);
		if (!rlx_uc_is_space(cp))
			break;
		end = k;
	}
	return tk_buf_copy(out, in, begin, end);
}

static enum rlx_status replace(scratch *s, const struct tk_norm *op,
			       struct tk_buf *out)
{
	struct tk_subject x = { s->seg.b, s->seg.n, s->steps };
	const struct tk_buf *in = &s->seg;
	struct rlx_token_span m;
	enum tk_found found;
	uint32_t i = 0;

	for (;;) {
		found = tk_pattern_find(s->t, &op->pat, &x, i, &m);
		if (found == TK_TOO_HARD)
			return RLX_ENOSUP;
		if (found == TK_NOT_FOUND)
			break;
		if (!tk_buf_copy(out, in, i, m.begin) ||
		    !tk_buf_put(out, tk_text(s->t, op->text), op->text.len,
				in->map[m.end - 1]))
			return RLX_ENOMEM;
		i = m.end;
	}
	s->steps = x.steps;
	return tk_buf_copy(out, in, i, in->n) ? RLX_OK : RLX_ENOMEM;
}

static bool prepend(scratch *s, const struct tk_norm *op, struct tk_buf *out)
{
	const struct tk_buf *in = &s->seg;

	if (in->n && !tk_buf_put(out, tk_text(s->t, op->text), op->text.len,
				 in->map[0]))
		return false;
	return tk_buf_copy(out, in, 0, in->n);
}

/* What BERT's clean step makes of a character: 0 if it goes away. */
static uint32_t bert_clean(uint32_t cp)
{
	if (cp == '\t' || cp == '\n' || cp == '\r')
		return ' ';
	if (!cp || cp == 0xfffd || rlx_uc_bert_control(cp))
		return 0;
	return rlx_uc_is_space(cp) ? ' ' : cp;
}

static bool bert_put(const struct tk_norm *op, struct tk_buf *out, uint32_t cp,
		     struct rlx_token_span span)
{
	return op->lower ? put_lower(out, cp, span) :
			   tk_buf_put_cp(out, cp, span);
}

static bool bert_one(scratch *s, const struct tk_norm *op, struct tk_buf *out,
		     uint32_t cp, struct rlx_token_span span)
{
	uint32_t parts[RLX_UC_DECOMP_MAX];
	unsigned int n, i;

	if (op->clean) {
		cp = bert_clean(cp);
		if (!cp)
			return true;
	}
	if (op->cjk && rlx_uc_is_cjk(cp)) {
		if (!cp_add(s, ' ', span))
			return false;
		n = op->accents ? rlx_uc_decompose(cp, false, parts) : 1;
		if (!op->accents)
			parts[0] = cp;
		for (i = 0; i < n; i++)
			if (!cp_add(s, parts[i], span))
				return false;
		return cp_add(s, ' ', span);
	}
	if (!op->accents)
		return cp_add(s, cp, span);
	n = rlx_uc_decompose(cp, false, parts);
	for (i = 0; i < n; i++)
		if (!cp_add(s, parts[i], span))
			return false;
	return true;
}

/* A stretch without ASCII goes through code points. */
static bool bert_wide(scratch *s, const struct tk_norm *op, struct tk_buf *out,
		      uint32_t begin, uint32_t end)
{
	const struct tk_buf *in = &s->seg;
	uint32_t i, k, cp;

	s->n_cps = 0;
	for (i = begin; i < end; i += k) {
		k = rlx_utf8_next(in->b + i, &cp);
		if (!bert_one(s, op, out, cp, in->map[i]))
			return false;
	}
	if (op->accents && !reorder(s))
		return false;
	for (i = 0; i < s->n_cps; i++) {
		const struct tk_cp *c = &s->cps[i];

		if (op->accents && rlx_uc_bert_accent(c->cp))
			continue;
		if (!bert_put(op, out, c->cp, c->span))
			return false;
	}
	return true;
}

static bool bert(scratch *s, const struct tk_norm *op, struct tk_buf *out)
{
	const struct tk_buf *in = &s->seg;
	uint8_t ascii[128];	/* what becomes of each; 0xff: goes away */
	uint32_t i, k;

	for (i = 0; i < 128; i++) {
		uint32_t c = op->clean ? bert_clean(i) : i;

		ascii[i] = op->clean && !c ? 0xff :
			   op->lower && c >= 'A' && c <= 'Z' ?
			   (uint8_t)(c | 32) : (uint8_t)c;
	}
	if (!tk_buf_reserve(out, in->n))
		return false;
	for (i = 0; i < in->n;) {
		if (in->b[i] < 0x80) {
			if (ascii[in->b[i]] != 0xff) {
				if (out->n == out->cap && !tk_buf_reserve(out, 1))
					return false;
				out->b[out->n] = ascii[in->b[i]];
				out->map[out->n++] = in->map[i];
			}
			i++;
			continue;
		}
		for (k = i; k < in->n && in->b[k] >= 0x80; k++)
			;
		if (!bert_wide(s, op, out, i, k))
			return false;
		i = k;
	}
	return true;
}

static enum rlx_status norm_one(scratch *s, const struct tk_norm *op,
				struct tk_buf *out)
{
	bool ok = false;

	switch (op->kind) {
	case TK_NORM_BERT:
		ok = bert(s, op, out);
		break;
	case TK_NORM_NFC:
	case TK_NORM_NFD:
	case TK_NORM_NFKC:
	case TK_NORM_NFKD:
		ok = normal_form(s, op->kind, out);
		break;
	case TK_NORM_LOWER:
		ok = lowercase(s, out);
		break;
	case TK_NORM_ACCENTS:
		ok = strip_marks(s, out);
		break;
	case TK_NORM_STRIP:
		ok = strip_ends(s, op, out);
		break;
	case TK_NORM_REPLACE:
		return replace(s, op, out);
	case TK_NORM_PREPEND:
		ok = prepend(s, op, out);
		break;
	case TK_NORM_CHARSMAP:
		ok = tk_charsmap(s, op, out);
		break;
	}
	return ok ? RLX_OK : RLX_ENOMEM;
}

enum rlx_status tk_normalize(struct rlx_tokenizer_scratch *s)
{
	enum rlx_status st;
	struct tk_buf swap;
	uint32_t i;

	for (i = 0; i < s->t->n_norm; i++) {
		s->tmp.n = 0;
		st = norm_one(s, &s->t->norm[i], &s->tmp);
		if (st)
			return st;
		/* A text of many segments may make much of each, and throw it away again. */
		if (s->tmp.n > s->steps)
			return RLX_ENOSUP;
		s->steps -= s->tmp.n;
		swap = s->seg;
		s->seg = s->tmp;
		s->tmp = swap;
	}
	return RLX_OK;
}
