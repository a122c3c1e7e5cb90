// SPDX-License-Identifier: MIT
/* WordPiece and WordLevel: words to the longest pieces the vocabulary has. */
#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"

enum { WORD_HASHES = 512 };

static uint32_t chars_in(const uint8_t *p, uint32_t n)
{
	uint32_t i, c = 0;

	for (i = 0; i < n; i++)
		c += (p[i] & 0xc0) != 0x80;
	return c;
}

/*
 * The longest spelling that begins word[0..n), behind the prefix unless
 * @initial. Hashes of all beginnings come from one pass; the whole word, which
 * is what most words are, is asked for first.
 */
static int64_t longest(const struct rlx_tokenizer *t, const uint8_t *word,
		       uint32_t n, bool initial, uint32_t *out_len)
{
	const struct tk_str *pre = initial ? NULL : &t->prefix;
	uint64_t hash[WORD_HASHES], h = initial ? TK_HASH0 : t->prefix_hash;
	uint32_t most = t->vocab.longest, i;
	int64_t id;

	most -= initial || most < t->prefix.len ? 0 : t->prefix.len;
	most = most < n ? most : n;
	if (most > WORD_HASHES)
		most = WORD_HASHES;
	for (i = 0; i < most; i++) {
		h = tk_hash_byte(h, word[i]);
		hash[i] = h;
	}
	for (i = most; i > 0; i--) {
		if (i < n && (word[i] & 0xc0) == 0x80)
			continue;
		id = tk_vocab_find(&t->vocab, hash[i - 1], pre, word, i);
		if (id >= 0) {
			*out_len = i;
			return id;
		}
	}
	return -1;
}

static enum rlx_status put_unk(struct rlx_tokenizer_scratch *s, uint32_t begin,
			       uint32_t end)
{
	return tk_token_add(&s->tokens, (uint32_t)s->t->unk,
			    tk_span(&s->text, begin, end)) ? RLX_OK : RLX_ENOMEM;
}

enum rlx_status tk_wordpiece(struct rlx_tokenizer_scratch *s, uint32_t begin,
			     uint32_t end)
{
	const struct rlx_tokenizer *t = s->t;
	uint32_t first = s->tokens.n, i, len;
	const uint8_t *b = s->text.b;
	int64_t id;

	if (t->model == TK_WORDLEVEL) {
		id = tk_vocab_get(&t->vocab, b + begin, end - begin);
		id = id < 0 ? t->unk : id;
		return id < 0 || tk_token_add(&s->tokens, (uint32_t)id,
					      tk_span(&s->text, begin, end)) ?
		       RLX_OK : RLX_ENOMEM;
	}
	if (end - begin > t->max_chars &&
	    chars_in(b + begin, end - begin) > t->max_chars)
		return put_unk(s, begin, end);
	for (i = begin; i < end; i += len) {
		id = longest(t, b + i, end - i, i == begin, &len);
		if (id < 0) {
			s->tokens.n = first;
			return put_unk(s, begin, end);
		}
		if (!tk_token_add(&s->tokens, (uint32_t)id,
				  tk_span(&s->text, i, i + len)))
			return RLX_ENOMEM;
	}
	return RLX_OK;
}
