// SPDX-License-Identifier: MIT
/* Unigram: the most likely cut of a word; and its normalizer, a charsmap. */
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"

typedef struct rlx_tokenizer_scratch scratch;

static const uint32_t none = UINT32_MAX;
static const double unk_penalty = 10;

static void offer(struct tk_best *b, double score, uint32_t from, int64_t id)
{
	if (b->from != none && score <= b->score)
		return;
	*b = (struct tk_best){ score, from, (int32_t)id };
}

/* Fill s->best: for each byte of the word the best way to get there. */
static void best_paths(scratch *s, const uint8_t *w, uint32_t n)
{
	const struct rlx_tokenizer *t = s->t;
	uint32_t i, k, len, node;
	bool single;

	for (i = 0; i <= n; i++)
		s->best[i] = (struct tk_best){ .from = none, .id = TK_NONE };
	for (i = 0; i < n; i += len) {
		double here = s->best[i].score;

		len = rlx_utf8_len(w[i]);
		single = false;
		node = 0;
		for (k = i; k < n; k++) {
			int32_t id;

			node = tk_trie_child(&t->trie, node, w[k]);
			if (!node)
				break;
			id = t->trie.val[node];
			if (id == TK_NONE)
				continue;
			offer(&s->best[k + 1], here + t->score[id], i, id);
			single |= k + 1 - i == len;
		}
		if (!single)
			offer(&s->best[i + len],
			      here + t->min_score - unk_penalty, i, t->unk);
	}
}

static bool put_unknown(scratch *s, uint32_t begin, uint32_t end)
{
	struct rlx_token_span span = tk_span(&s->text, begin, end);
	const struct rlx_tokenizer *t = s->t;
	uint32_t i;

	for (i = begin; i < end && t->byte_fallback; i++)
		if (t->byte_id[s->text.b[i]] < 0)
			break;
	if (!t->byte_fallback || i < end)
		return t->unk < 0 ||
		       tk_token_add(&s->tokens, (uint32_t)t->unk, span);
	for (i = begin; i < end; i++)
		if (!tk_token_add(&s->tokens,
				  (uint32_t)t->byte_id[s->text.b[i]], span))
			return false;
	return true;
}

/* Turn the links backwards into links forwards: .from becomes where to go. */
static void reverse_path(scratch *s, uint32_t n)
{
	uint32_t at = n, from, next = none;
	int32_t id = TK_NONE, swap;

	while (at) {
		from = s->best[at].from;
		swap = s->best[at].id;
		s->best[at].from = next;
		s->best[at].id = id;
		id = swap;
		next = at;
		at = from;
	}
	s->best[0].from = next;
	s->best[0].id = id;
}

enum rlx_status tk_unigram(struct rlx_tokenizer_scratch *s, uint32_t begin,
			   uint32_t end)
{
	uint32_t n = end - begin, i, next, unk = none;
	const struct rlx_tokenizer *t = s->t;
	bool ok = true;
	int64_t id;

	if (!rlx_grow(&s->best, &s->cap_best, n + 1, sizeof(*s->best)))
		return RLX_ENOMEM;
	best_paths(s, s->text.b + begin, n);
	reverse_path(s, n);
	for (i = 0; i < n && ok; i = next) {
		next = s->best[i].from;
		id = s->best[i].id;
		if (id == t->unk || id == TK_NONE) {
			/* unknown characters in a row are one token */
			unk = unk == none ? i : unk;
			continue;
		}
		ok = (unk == none || put_unknown(s, begin + unk, begin + i)) &&
		     tk_token_add(&s->tokens, (uint32_t)id,
				  tk_span(&s->text, begin + i, begin + next));
		unk = none;
	}
	ok = ok && (unk == none || put_unknown(s, begin + unk, end));
	return ok ? RLX_OK : RLX_ENOMEM;
}

/*
 * A charsmap: a little-endian count of bytes, a double-array trie of that size,
 * and 0-ended replacements. A unit of the trie has its label in bits 0..7 and 31,
 * a leaf flag in bit 8, and an offset from bit 10 on, scaled by bit 9.
 */
static uint32_t le32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

static int base64_digit(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 :
	       c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 :
	       c == '/' ? 63 : -1;
}

/* In place; -1 if malformed. */
static int64_t base64_decode(uint8_t *p, uint32_t n)
{
	uint32_t i, bits = 0, have = 0, out = 0;
	int d;

	while (n && p[n - 1] == '=')
		n--;
	for (i = 0; i < n; i++) {
		d = base64_digit(p[i]);
		if (d < 0)
			return -1;
		bits = bits << 6 | (uint32_t)d;
		have += 6;
		if (have >= 8) {
			have -= 8;
			p[out++] = (uint8_t)(bits >> have);
		}
	}
	return out;
}

enum rlx_status tk_load_charsmap(struct tk_load *l, uint32_t i, void *part)
{
	struct rlx_tokenizer *t = l->t;
	struct tk_norm *op = part;
	const uint8_t *texts, *last;
	enum rlx_status st;
	uint32_t trie;
	size_t bytes;
	int64_t n;

	st = tk_get_text(l, i, "precompiled_charsmap", "", &op->text);
	if (st || !op->text.len)
		return st;
	n = base64_decode(t->text.b + op->text.off, op->text.len);
	if (n < 4)
		return tk_bad(l, i, "\"precompiled_charsmap\" is not base64");
	op->text.len = (uint32_t)n;
	trie = le32(tk_text(t, op->text));
	if (trie > op->text.len - 4 || trie % 4 || !trie)
		return tk_bad(l, i, "\"precompiled_charsmap\" has no whole trie");
	/* Known here, it need not be found out for each character: all have an end. */
	texts = tk_text(t, op->text) + 4 + trie;
	bytes = op->text.len - 4 - trie;
	if (rlx_utf8_check(texts, bytes) < bytes)
		return tk_bad(l, i, "\"precompiled_charsmap\" has replacements that are not UTF-8");
	last = memrchr(texts, 0, bytes);
	op->text.len = 4 + trie + (last ? (uint32_t)(last - texts) + 1 : 0);
	return RLX_OK;
}

/* The replacement for the shortest beginning of [p, p + n) that has one. */
static bool map_find(const uint8_t *map, uint32_t size, const uint8_t *p,
		     uint32_t n, struct tk_str *out)
{
	uint32_t units = le32(map) / 4, at = 0, unit, k, off;
	const uint8_t *trie = map + 4, *text, *zero;

	for (k = 0, unit = le32(trie); k < n; k++) {
		at ^= (unit >> 10) << ((unit & 512) >> 6);
		at ^= p[k];
		if (at >= units)
			return false;
		unit = le32(trie + 4 * (size_t)at);
		if ((unit & 0x800000ffu) != p[k])
			return false;
		if (unit & 256)
			break;
	}
	if (k == n)
		return false;
	at ^= (unit >> 10) << ((unit & 512) >> 6);
	if (at >= units)
		return false;
	off = le32(trie + 4 * (size_t)at) & 0x7fffffffu;
	if (off >= size - 4 - units * 4)
		return false;
	text = trie + 4 * (size_t)units + off;
	if ((*text & 0xc0) == 0x80)		/* within a character */
		return false;
	zero = memchr(text, 0, (size_t)(map + size - text));
	*out = (struct tk_str){ (uint32_t)(text - map), (uint32_t)(zero - text) };
	return true;
}

/* Does @b belong to the character the reader sees that @a ends? */
static bool joins(uint32_t a, uint32_t b)
{
	if (b < 0x300)
		return a == '\r' && b == '\n';
	if (rlx_uc_is(b, RLX_UC_M) || b == 0x200d)
		return a != '\r' && a != '\n';
	/* conjoining Hangul letters */
	if (b >= 0x1160 && b < 0x11a8)
		return (a >= 0x1100 && a < 0x11a8) ||
		       (a >= 0xac00 && a < 0xd7a4 && !((a - 0xac00) % 28));
	return b >= 0x11a8 && b < 0x1200 &&
	       ((a >= 0x1160 && a < 0x1200) || (a >= 0xac00 && a < 0xd7a4));
}

/* Put a replacement: its k-th character stands for the k-th it replaces. */
static bool put_mapped(scratch *s, struct tk_buf *out, const uint8_t *text,
		       uint32_t n, uint32_t begin, uint32_t end)
{
	const struct tk_buf *in = &s->seg;
	uint32_t i, k, at = begin, next;

	for (i = 0; i < n; i += k) {
		k = rlx_utf8_len(text[i]);
		if (!tk_buf_put(out, text + i, k, in->map[at]))
			return false;
		next = at + rlx_utf8_len(in->b[at]);
		at = next < end ? next : at;
	}
	return true;
}

bool tk_charsmap(struct rlx_tokenizer_scratch *s, const struct tk_norm *op,
		 struct tk_buf *out)
{
	const uint8_t *map = tk_text(s->t, op->text);
	const struct tk_buf *in = &s->seg;
	uint32_t i, k, end, a, b;
	struct tk_str to;

	if (!op->text.len)
		return tk_buf_copy(out, in, 0, in->n);
	for (i = 0; i < in->n; i = end) {
		end = i + rlx_utf8_next(in->b + i, &a);
		for (; end < in->n; end += k, a = b) {
			k = rlx_utf8_next(in->b + end, &b);
			if (!joins(a, b))
				break;
		}
		if (end - i < 6 &&
		    map_find(map, op->text.len, in->b + i, end - i, &to)) {
			if (!put_mapped(s, out, map + to.off, to.len, i, end))
				return false;
			continue;
		}
		for (k = i; k < end; k += rlx_utf8_len(in->b[k])) {
			uint32_t n = rlx_utf8_len(in->b[k]);

			if (map_find(map, op->text.len, in->b + k, n, &to) ?
			    !put_mapped(s, out, map + to.off, to.len, k, k + n) :
			    !tk_buf_copy(out, in, k, k + n))
				return false;
		}
	}
	return true;
}
