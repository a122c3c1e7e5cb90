// SPDX-License-Identifier: MIT
/* BPE: a word's characters or bytes, merged pair by pair in order of rank. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"

typedef struct rlx_tokenizer_scratch scratch;

enum { NO_SYM = -1, SHORT_WORD = 48 };
static const uint32_t none = UINT32_MAX;

static const struct tk_merge *merge_find(const struct rlx_tokenizer *t,
					 uint32_t a, uint32_t b)
{
	uint32_t i = tk_merge_slot(a, b) & (t->merges - 1), n = 0;

	for (; t->merge[i].id != UINT32_MAX && n <= TK_PROBES_MAX;
	     n++, i = (i + 1) & (t->merges - 1))
		if (t->merge[i].a == a && t->merge[i].b == b)
			return &t->merge[i];
	return NULL;
}

static bool sym_add(scratch *s, uint32_t *n, uint32_t id, uint32_t begin,
		    uint32_t end)
{
	if (!rlx_grow(&s->sym, &s->cap_sym, *n + 1, sizeof(*s->sym)))
		return false;
	s->sym[*n] = (struct tk_sym){ .id = id, .begin = begin, .end = end };
	++*n;
	return true;
}

/* An unknown character; with fuse_unk the one before it grows instead. */
static bool unk_add(scratch *s, uint32_t *n, uint32_t begin, uint32_t end)
{
	const struct rlx_tokenizer *t = s->t;

	if (t->unk < 0)
		return true;	/* no token for it: it is dropped */
	if (t->fuse_unk && *n && s->sym[*n - 1].id == (uint32_t)t->unk &&
	    s->sym[*n - 1].end == begin) {
		s->sym[*n - 1].end = end;
		return true;
	}
	return sym_add(s, n, (uint32_t)t->unk, begin, end);
}

static bool fallback_add(scratch *s, uint32_t *n, uint32_t begin, uint32_t end)
{
	const struct rlx_tokenizer *t = s->t;
	uint32_t i;

	for (i = begin; i < end; i++)
		if (!t->byte_fallback || t->byte_id[s->text.b[i]] < 0)
			return unk_add(s, n, begin, end);
	for (i = begin; i < end; i++)
		if (!sym_add(s, n, (uint32_t)t->byte_id[s->text.b[i]], i, i + 1))
			return false;
	return true;
}

/* The symbol of a character with the prefix or suffix its place asks for. */
static int64_t char_id(const struct rlx_tokenizer *t, const uint8_t *p,
		       uint32_t n, bool first, bool last)
{
	const struct tk_vocab *v = t->byte_level ? &t->raw : &t->vocab;
	uint32_t pre = first ? 0 : t->prefix.len, suf = last ? t->suffix.len : 0;
	uint8_t key[TK_AFFIX_MAX * 2 + 4];

	if (!pre && !suf)
		return t->byte_level ? t->byte_id[*p] : tk_vocab_get(v, p, n);
	memcpy(key, tk_text(t, t->prefix), pre);
	memcpy(key + pre, p, n);
	memcpy(key + pre + n, tk_text(t, t->suffix), suf);
	return tk_vocab_get(v, key, pre + n + suf);
}

static bool split_chars(scratch *s, uint32_t begin, uint32_t end, uint32_t *out_n)
{
	const struct rlx_tokenizer *t = s->t;
	uint32_t i, k, n = 0;
	int64_t id;

	for (i = begin; i < end; i += k) {
		k = t->byte_level ? 1 : rlx_utf8_len(s->text.b[i]);
		id = char_id(t, s->text.b + i, k, i == begin, i + k == end);
		if (!(id >= 0 ? sym_add(s, &n, (uint32_t)id, i, i + k) :
				fallback_add(s, &n, i, i + k)))
			return false;
	}
	*out_n = n;
	return true;
}

/* Look up the pair that begins with symbol @i. */
static void rank_pair(scratch *s, uint32_t i)
{
	struct tk_sym *a = &s->sym[i];
	const struct tk_merge *m;

	a->rank = none;
	if (a->next == none)
		return;
	m = merge_find(s->t, a->id, s->sym[a->next].id);
	if (m) {
		a->rank = m->rank;
		a->into = m->id;
	}
}

/* Merge symbol @i with the one behind it; the pairs around it change. */
static void merge_at(scratch *s, uint32_t i)
{
	struct tk_sym *a = &s->sym[i], *b = &s->sym[a->next];

	a->id = a->into;
	a->end = b->end;
	b->rank = none;
	b->id = none;
	a->next = b->next;
	if (a->next != none)
		s->sym[a->next].prev = i;
	rank_pair(s, i);
	if (a->prev != none)
		rank_pair(s, a->prev);
}

/* Short words: look for the least rank each time. Also what leftmost means. */
static void merge_short(scratch *s)
{
	uint32_t i, best, rank;

	for (;;) {
		best = none;
		rank = none;
		for (i = 0; i != none; i = s->sym[i].next)
			if (s->sym[i].rank < rank) {
				rank = s->sym[i].rank;
				best = i;
			}
		if (best == none)
			return;
		merge_at(s, best);
	}
}

static bool heap_less(struct tk_heap_item a, struct tk_heap_item b)
{
	return a.rank < b.rank || (a.rank == b.rank && a.pos < b.pos);
}

static bool heap_push(scratch *s, uint32_t pos)
{
	struct tk_heap_item x = { s->sym[pos].rank, pos };
	uint32_t i = s->n_heap, up;

	if (x.rank == none)
		return true;
	if (!rlx_grow(&s->heap, &s->cap_heap, s->n_heap + 1, sizeof(*s->heap)))
		return false;
	s->n_heap++;
	for (; i; i = up) {
		up = (i - 1) / 2;
		if (!heap_less(x, s->heap[up]))
			break;
		s->heap[i] = s->heap[up];
	}
	s->heap[i] = x;
	return true;
}

static struct tk_heap_item heap_pop(scratch *s)
{
	struct tk_heap_item top = s->heap[0], x = s->heap[--s->n_heap];
	uint32_t i = 0, k;

	for (; (k = 2 * i + 1) < s->n_heap; i = k) {
		if (k + 1 < s->n_heap && heap_less(s->heap[k + 1], s->heap[k]))
			k++;
		if (!heap_less(s->heap[k], x))
			break;
		s->heap[i] = s->heap[k];
	}
	s->heap[i] = x;
	return top;
}

/* Long words: a heap; entries whose pair has changed since are skipped. */
static bool merge_long(scratch *s, uint32_t n)
{
	struct tk_heap_item x;
	uint32_t i;

	s->n_heap = 0;
	for (i = 0; i < n; i++)
		if (!heap_push(s, i))
			return false;
	while (s->n_heap) {
		x = heap_pop(s);
		if (s->sym[x.pos].rank != x.rank)
			continue;
		merge_at(s, x.pos);
		if (!heap_push(s, x.pos) ||
		    (s->sym[x.pos].prev != none &&
		     !heap_push(s, s->sym[x.pos].prev)))
			return false;
	}
	return true;
}

static struct tk_cached *cache_slot(scratch *s, const uint8_t *p, uint32_t n)
{
	uint64_t h = tk_hash(TK_HASH0, p, n);

	return &s->cache[tk_hash_end(h) % TK_CACHE_SLOTS];
}

/* 1: done from the cache, 0: not there, -1: out of memory. */
static int cache_use(scratch *s, const struct tk_cached *c, uint32_t begin,
		     uint32_t n)
{
	uint32_t from = 0, i;

	if (c->key_len != n || memcmp(c->key, s->text.b + begin, n))
		return 0;
	for (i = 0; i < c->n; i++) {
		if (!tk_token_add(&s->tokens, c->id[i],
				  tk_span(&s->text, begin + from,
					  begin + c->end[i])))
			return -1;
		from = c->end[i];
	}
	return 1;
}

/* Keep a word whose symbols follow each other without a gap. */
static void cache_keep(scratch *s, struct tk_cached *c, uint32_t begin,
		       uint32_t n)
{
	uint32_t i, k = 0, at = begin;

	for (i = 0; i != none; i = s->sym[i].next) {
		if (k == TK_CACHE_IDS || s->sym[i].begin != at)
			return;
		at = s->sym[i].end;
		k++;
	}
	c->key_len = (uint8_t)n;
	c->n = (uint8_t)k;
	memcpy(c->key, s->text.b + begin, n);
	for (i = 0, k = 0; i != none; i = s->sym[i].next, k++) {
		c->id[k] = s->sym[i].id;
		c->end[k] = (uint8_t)(s->sym[i].end - begin);
	}
}

static bool merge_word(scratch *s, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		s->sym[i].prev = i ? i - 1 : none;
		s->sym[i].next = i + 1 < n ? i + 1 : none;
	}
	for (i = 0; i < n; i++)
		rank_pair(s, i);
	if (n > SHORT_WORD)
		return merge_long(s, n);
	merge_short(s);
	return true;
}

enum rlx_status tk_bpe(struct rlx_tokenizer_scratch *s, uint32_t begin,
		       uint32_t end)
{
	const struct rlx_tokenizer *t = s->t;
	const uint8_t *word = s->text.b + begin;
	uint32_t n, i, len = end - begin;
	struct tk_cached *c = NULL;
	int64_t id;
	int hit;

	if (t->ignore_merges) {
		id = tk_vocab_get(t->byte_level ? &t->raw : &t->vocab, word, len);
		if (id >= 0)
			return tk_token_add(&s->tokens, (uint32_t)id,
					    tk_span(&s->text, begin, end)) ?
			       RLX_OK : RLX_ENOMEM;
	}
	if (len <= TK_CACHE_KEY) {
		c = cache_slot(s, word, len);
		hit = cache_use(s, c, begin, len);
		if (hit)
			return hit > 0 ? RLX_OK : RLX_ENOMEM;
	}
	if (!split_chars(s, begin, end, &n))
		return RLX_ENOMEM;
	if (!n)
		return RLX_OK;
	if (!merge_word(s, n))
		return RLX_ENOMEM;
	if (c)
		cache_keep(s, c, begin, len);
	for (i = 0; i != none; i = s->sym[i].next)
		if (!tk_token_add(&s->tokens, s->sym[i].id,
				  tk_span(&s->text, s->sym[i].begin,
					  s->sym[i].end)))
			return RLX_ENOMEM;
	return RLX_OK;
}

/*
 * Byte-level spellings. Bytes that are printable in Latin-1 stand for
 * themselves, the others for characters from U+0100 on, in order.
 */
static bool byte_prints(uint32_t b)
{
	return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
}

bool tk_unbyte(const uint8_t *s, size_t n, uint8_t *out, size_t *out_n)
{
	const uint8_t *end = s + n;
	uint8_t odd[68];
	uint32_t b, k = 0, cp;

	for (b = 0; b < 256; b++)
		if (!byte_prints(b))
			odd[k++] = (uint8_t)b;
	for (*out_n = 0; s < end; ++*out_n) {
		s += rlx_utf8_next(s, &cp);
		if (cp < 0x100 && byte_prints(cp))
			out[*out_n] = (uint8_t)cp;
		else if (cp >= 0x100 && cp < 0x100 + k)
			out[*out_n] = odd[cp - 0x100];
		else
			return false;
	}
	return true;
}
