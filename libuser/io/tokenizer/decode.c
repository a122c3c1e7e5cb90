// SPDX-License-Identifier: MIT
/* Ids back to text: each decoder rewrites a list of token strings. */
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"

typedef struct rlx_tokenizer_scratch scratch;

static const struct rlx_token_span nowhere;

static bool out(scratch *s, const void *p, size_t n)
{
	return tk_buf_put(&s->tmp, p, (uint32_t)n, nowhere);
}

/* Everything since @begin in the new text is the next string. */
static bool end_string(scratch *s, uint32_t begin)
{
	return tk_piece_add(&s->pieces2, begin, s->tmp.n, TK_NONE);
}

static bool gather(scratch *s, const struct rlx_decoding *d)
{
	const struct tk_added *a;
	const char *text;
	uint32_t begin;
	size_t i, n;

	s->text.n = 0;
	s->pieces.n = 0;
	for (i = 0; i < d->n; i++) {
		text = rlx_tokenizer_token(s->t, d->ids[i], &n);
		if (!text)
			continue;
		a = d->skip_special ? tk_added_by_id(s->t, d->ids[i]) : NULL;
		if (a && a->special)
			continue;
		begin = s->text.n;
		if (!tk_buf_put(&s->text, text, (uint32_t)n, nowhere) ||
		    !tk_piece_add(&s->pieces, begin, s->text.n, TK_NONE))
			return false;
	}
	return true;
}

/* Invalid bytes become U+FFFD, one for each longest beginning of a character. */
static bool put_lossy(scratch *s, const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n;
	unsigned int k, want;
	uint8_t lo, hi;
	uint32_t cp;

	while (p < end) {
		k = rlx_utf8_get(p, end, &cp);
		if (k) {
			if (!out(s, p, k))
				return false;
			p += k;
			continue;
		}
		want = *p >= 0xc2 && *p <= 0xf4 ? rlx_utf8_len(*p) : 1;
		lo = *p == 0xe0 ? 0xa0 : *p == 0xf0 ? 0x90 : 0x80;
		hi = *p == 0xed ? 0x9f : *p == 0xf4 ? 0x8f : 0xbf;
		for (k = 1; k < want && p + k < end && p[k] >= lo && p[k] <= hi;
		     k++) {
			lo = 0x80;
			hi = 0xbf;
		}
		p += k;
		if (!out(s, "\xef\xbf\xbd", 3))
			return false;
	}
	return true;
}

/* All strings as bytes, then one string of text. */
static bool dec_bytes(scratch *s)
{
	uint32_t i, all;
	uint8_t *raw;
	size_t n, len = 0;

	/* bytes are never more than what spells them: decode into tmp first */
	s->tmp.n = 0;
	if (!tk_buf_reserve(&s->tmp, s->text.n + 1))
		return false;
	raw = s->tmp.b;
	for (i = 0; i < s->pieces.n; i++) {
		struct tk_piece p = s->pieces.v[i];

		if (!tk_unbyte(s->text.b + p.begin, p.end - p.begin, raw + len,
			       &n)) {
			n = p.end - p.begin;
			memcpy(raw + len, s->text.b + p.begin, n);
		}
		len += n;
	}
	all = (uint32_t)len;
	if (!tk_buf_reserve(&s->text, 1))
		return false;
	memcpy(s->text.b, raw, all);
	s->tmp.n = 0;
	return put_lossy(s, s->text.b, all) && end_string(s, 0);
}

static bool replace_all(scratch *s, const uint8_t *p, uint32_t n,
			struct tk_str what, const void *by, uint32_t by_len)
{
	const uint8_t *w = tk_text(s->t, what), *end = p + n, *m;

	while (what.len && (m = memmem(p, (size_t)(end - p), w, what.len))) {
		if (!out(s, p, (size_t)(m - p)) || !out(s, by, by_len))
			return false;
		p = m + what.len;
	}
	return out(s, p, (size_t)(end - p));
}

/* Undo the space before punctuation and contractions in s->tmp from @begin. */
static void cleanup(scratch *s, uint32_t begin)
{
	static const char *const rules[][2] = {
		{ " .", "." }, { " ?", "?" }, { " !", "!" }, { " ,", "," },
		{ " ' ", "'" }, { " n't", "n't" }, { " 'm", "'m" },
		{ " do not", " don't" }, { " 's", "'s" }, { " 've", "'ve" },
		{ " 're", "'re" },
	};
	uint8_t *b = s->tmp.b, *from, *to, *end, *m;
	size_t i, fl, tl;

	for (i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
		fl = strlen(rules[i][0]);
		tl = strlen(rules[i][1]);	/* never longer */
		from = to = b + begin;
		end = b + s->tmp.n;
		while ((m = memmem(from, (size_t)(end - from), rules[i][0], fl))) {
			memmove(to, from, (size_t)(m - from));
			to += m - from;
			memcpy(to, rules[i][1], tl);
			to += tl;
			from = m + fl;
		}
		memmove(to, from, (size_t)(end - from));
		s->tmp.n = (uint32_t)(to + (end - from) - b);
	}
}

static bool dec_wordpiece(scratch *s, const struct tk_dec *op, uint32_t i)
{
	struct tk_piece p = s->pieces.v[i];
	uint32_t begin = s->tmp.n;

	if (i && p.end - p.begin >= op->text.len &&
	    !memcmp(s->text.b + p.begin, tk_text(s->t, op->text), op->text.len))
		p.begin += op->text.len;
	else if (i && !out(s, " ", 1))
		return false;
	if (!out(s, s->text.b + p.begin, p.end - p.begin))
		return false;
	if (op->cleanup)
		cleanup(s, begin);
	return true;
}

static bool dec_strip(scratch *s, const struct tk_dec *op, uint32_t i)
{
	const uint8_t *mark = tk_text(s->t, op->text);
	uint32_t n = op->text.len, k;
	struct tk_piece p = s->pieces.v[i];

	for (k = 0; k < op->start && p.end - p.begin >= n &&
	     !memcmp(s->text.b + p.begin, mark, n); k++)
		p.begin += n;
	for (k = 0; k < op->stop && p.end - p.begin >= n &&
	     !memcmp(s->text.b + p.end - n, mark, n); k++)
		p.end -= n;
	return out(s, s->text.b + p.begin, p.end - p.begin);
}

/* Strings by pattern: as literals, or as expressions. */
static enum rlx_status dec_replace(scratch *s, const struct tk_dec *op,
				   struct tk_piece p)
{
	struct tk_subject x = { s->text.b + p.begin, p.end - p.begin, s->steps };
	struct rlx_token_span m;
	enum tk_found found;
	uint32_t i = 0;

	for (;; i = m.end) {
		found = tk_pattern_find(s->t, &op->pat, &x, i, &m);
		if (found == TK_TOO_HARD)
			return RLX_ENOSUP;
		if (found == TK_NOT_FOUND)
			break;
		if (!out(s, x.s + i, m.begin - i) ||
		    !out(s, tk_text(s->t, op->text), op->text.len))
			return RLX_ENOMEM;
	}
	s->steps = x.steps;
	return out(s, x.s + i, x.n - i) ? RLX_OK : RLX_ENOMEM;
}

static int hex_digit(uint8_t c)
{
	return c >= '0' && c <= '9' ? c - '0' :
	       c >= 'A' && c <= 'F' ? c - 'A' + 10 :
	       c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that <0xNN> stands for, -1 if the string is none. */
static int byte_of(const uint8_t *p, uint32_t n)
{
	if (n != 6 || memcmp(p, "<0x", 3) || p[5] != '>' ||
	    hex_digit(p[3]) < 0 || hex_digit(p[4]) < 0)
		return -1;
	return hex_digit(p[3]) << 4 | hex_digit(p[4]);
}

/*
 * Bytes since @begin of s->tmp become one string if they are UTF-8, else one
 * U+FFFD for each byte. They are in s->heap's place no longer than that.
 */
static bool end_bytes(scratch *s, uint32_t begin)
{
	uint32_t n = s->tmp.n - begin, at;

	if (!n)
		return true;
	if (rlx_utf8_check(s->tmp.b + begin, n) == n)
		return end_string(s, begin);
	for (s->tmp.n = begin; n--;) {
		at = s->tmp.n;
		if (!out(s, "\xef\xbf\xbd", 3) || !end_string(s, at))
			return false;
	}
	return true;
}

static bool dec_fallback(scratch *s)
{
	uint32_t i, bytes = 0;
	uint8_t b;
	int v;

	for (i = 0; i < s->pieces.n; i++) {
		struct tk_piece p = s->pieces.v[i];

		v = byte_of(s->text.b + p.begin, p.end - p.begin);
		if (v >= 0) {
			b = (uint8_t)v;
			if (!out(s, &b, 1))
				return false;
			continue;
		}
		if (!end_bytes(s, bytes))
			return false;
		bytes = s->tmp.n;
		if (!out(s, s->text.b + p.begin, p.end - p.begin) ||
		    !end_string(s, bytes))
			return false;
		bytes = s->tmp.n;
	}
	return end_bytes(s, bytes);
}

static enum rlx_status dec_string(scratch *s, const struct tk_dec *op, uint32_t i)
{
	struct tk_piece p = s->pieces.v[i];
	const uint8_t *b = s->text.b + p.begin;
	uint32_t n = p.end - p.begin;
	bool ok = true, last = i + 1 == s->pieces.n;

	switch (op->kind) {
	case TK_DEC_WORDPIECE:
		ok = dec_wordpiece(s, op, i);
		break;
	case TK_DEC_META:
		ok = replace_all(s, b, n, op->text, " ",
				 i || op->scheme == TK_NEVER);
		break;
	case TK_DEC_BPE:
		ok = replace_all(s, b, n, op->text, " ", !last);
		break;
	case TK_DEC_STRIP:
		ok = dec_strip(s, op, i);
		break;
	case TK_DEC_REPLACE:
		return dec_replace(s, op, p);
	default:
		break;
	}
	return ok ? RLX_OK : RLX_ENOMEM;
}

static enum rlx_status dec_one(scratch *s, const struct tk_dec *op)
{
	enum rlx_status st;
	uint32_t i, begin;

	if (op->kind == TK_DEC_BYTES)
		return dec_bytes(s) ? RLX_OK : RLX_ENOMEM;
	if (op->kind == TK_DEC_FALLBACK)
		return dec_fallback(s) ? RLX_OK : RLX_ENOMEM;
	if (op->kind == TK_DEC_FUSE)
		return out(s, s->text.b, s->text.n) && end_string(s, 0) ?
		       RLX_OK : RLX_ENOMEM;
	for (i = 0; i < s->pieces.n; i++) {
		begin = s->tmp.n;
		st = dec_string(s, op, i);
		if (st)
			return st;
		if (!end_string(s, begin))
			return RLX_ENOMEM;
	}
	return RLX_OK;
}

static enum rlx_status dec_all(scratch *s)
{
	enum rlx_status st;
	struct tk_pieces p;
	struct tk_buf b;
	uint32_t i;

	for (i = 0; i < s->t->n_dec; i++) {
		s->tmp.n = 0;
		s->pieces2.n = 0;
		st = dec_one(s, &s->t->dec[i]);
		if (st)
			return st;
		b = s->text;
		s->text = s->tmp;
		s->tmp = b;
		p = s->pieces;
		s->pieces = s->pieces2;
		s->pieces2 = p;
	}
	return RLX_OK;
}

/* No decoder: tokens with spaces between. */
static bool join(scratch *s)
{
	struct tk_buf b;
	uint32_t i;

	s->tmp.n = 0;
	for (i = 0; i < s->pieces.n; i++) {
		struct tk_piece p = s->pieces.v[i];

		if ((i && !out(s, " ", 1)) ||
		    !out(s, s->text.b + p.begin, p.end - p.begin))
			return false;
	}
	b = s->text;
	s->text = s->tmp;
	s->tmp = b;
	return true;
}

enum rlx_status rlx_tokenizer_decode(struct rlx_tokenizer_scratch *s,
				     struct rlx_decoding *d,
				     struct rlx_error *err)
{
	enum rlx_status st;

	if (!s || !d || (d->n && !d->ids) || (d->capacity && !d->text))
		return rlx_fail(err, RLX_EINVAL, "tokenizer: decode without scratch, ids or text");
	d->len = 0;
	tk_bound_growth(s, UINT32_MAX);
	st = gather(s, d) ? RLX_OK : RLX_ENOMEM;
	tk_bound_growth(s, s->text.n);
	s->steps = tk_steps(s->text.n);
	if (!st)
		st = s->t->no_decoder ? (join(s) ? RLX_OK : RLX_ENOMEM) :
					dec_all(s);
	if (st == RLX_ENOMEM && tk_grew_over(s))
		return rlx_fail(err, RLX_ENOSUP, "tokenizer: a decoder makes over %d times its "
				"bytes of a text", TK_GROWTH);
	if (st == RLX_ENOMEM)
		return rlx_fail(err, st, "tokenizer: no memory to decode %zu ids",
				d->n);
	if (st)
		return rlx_fail(err, st,
				"tokenizer: a decoder's pattern takes too many steps");
	d->len = s->text.n;
	if (d->len > d->capacity)
		return rlx_fail(err, RLX_ERANGE,
				"tokenizer: %zu bytes of text, room for %zu",
				d->len, d->capacity);
	if (d->len)
		memcpy(d->text, s->text.b, d->len);
	return RLX_OK;
}
