// SPDX-License-Identifier: MIT
/* From tokens to the arrays a model takes: truncation, template, padding. */
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"

typedef struct rlx_tokenizer_scratch scratch;

/* How many of each text's tokens stay. */
struct cut {
	uint32_t	a, b;
};

/* Room for @max tokens in both: the longer one gives way first. */
static struct cut cut_longest(uint32_t a, uint32_t b, uint32_t max)
{
	uint32_t low = a < b ? a : b, high;

	if ((uint64_t)a + b <= max)
		return (struct cut){ a, b };
	high = low > max ? low : low > max - low ? low : max - low;
	if ((uint64_t)low + high > max) {
		low = max / 2;
		high = max - low;
	}
	return a <= b ? (struct cut){ low, high } : (struct cut){ high, low };
}

static bool is_space_char(uint32_t cp)
{
	return cp == 0x120 || rlx_uc_is_space(cp);	/* 0x120 spells a space */
}

/* Count the spaces a token's spelling begins and ends with. */
static void count_spaces(const uint8_t *p, size_t n, uint32_t *lead,
			 uint32_t *trail)
{
	bool only = true;
	uint32_t cp, k;
	size_t i;

	*lead = *trail = 0;
	for (i = 0; i < n; i += k) {
		k = rlx_utf8_next(p + i, &cp);
		if (is_space_char(cp)) {
			*lead += only;
			++*trail;
		} else {
			only = false;
			*trail = 0;
		}
	}
}

/* Byte-level tokens hold the space before a word; spans need not. */
static void trim_spans(const struct rlx_tokenizer *t, struct tk_tokens *v,
		       const char *text)
{
	uint32_t i, lead, trail;
	const uint8_t *p;
	size_t n;

	for (i = 0; i < v->n; i++) {
		struct rlx_token_span *sp = &v->v[i].span;

		p = (const uint8_t *)rlx_tokenizer_token(t, v->v[i].id, &n);
		if (!p)
			continue;
		if (tk_added_by_id(t, v->v[i].id)) {
			/* it may have taken spaces along */
			p = (const uint8_t *)text + sp->begin;
			n = sp->end - sp->begin;
		}
		count_spaces(p, n, &lead, &trail);
		/* a single one at the beginning is what we added */
		if (lead == 1 && t->trim_prefix && (!i || !sp->begin))
			lead = 0;
		for (; lead && sp->begin < sp->end; lead--)
			sp->begin += rlx_utf8_len((uint8_t)text[sp->begin]);
		for (; trail && sp->end > sp->begin; trail--)
			while (((uint8_t)text[--sp->end] & 0xc0) == 0x80)
				;
	}
}

struct emit {
	struct rlx_encoding	*enc;
	uint32_t		 n;
	bool			 type_zero;
};

static void put(struct emit *e, int64_t id, uint32_t type, int64_t mask,
		struct rlx_token_span span)
{
	struct rlx_encoding *enc = e->enc;

	if (enc->ids)
		enc->ids[e->n] = id;
	if (enc->type_ids)
		enc->type_ids[e->n] = e->type_zero ? 0 : type;
	if (enc->mask)
		enc->mask[e->n] = mask;
	if (enc->spans)
		enc->spans[e->n] = span;
	e->n++;
}

static void put_text(struct emit *e, const struct tk_tokens *v, uint32_t keep,
		     uint32_t type, bool left)
{
	uint32_t i = left ? v->n - keep : 0;

	for (; keep--; i++)
		put(e, v->v[i].id, type, 1, v->v[i].span);
}

static void put_all(scratch *s, const struct rlx_encode_opts *o, struct cut keep,
		    struct emit *e)
{
	const struct tk_template *m = o->pair ? &s->t->pair : &s->t->single;
	static const struct rlx_token_span empty;
	/* with a pair s->tokens holds the second text */
	const struct tk_tokens *a = o->pair ? &s->pair : &s->tokens;
	uint32_t i;

	for (i = 0; i < m->n; i++) {
		if (m->v[i].id == TK_ITEM_A)
			put_text(e, a, keep.a, m->v[i].type, o->truncate_left);
		else if (m->v[i].id == TK_ITEM_B)
			put_text(e, &s->tokens, keep.b, m->v[i].type,
				 o->truncate_left);
		else if (!o->no_special)
			put(e, m->v[i].id, m->v[i].type, 1, empty);
	}
}

static void put_pads(scratch *s, uint32_t n, struct emit *e)
{
	static const struct rlx_token_span empty;

	while (n--)
		put(e, s->t->pad, 0, 0, empty);
}

static enum rlx_status finish(scratch *s, const struct rlx_encode_opts *o,
			      struct rlx_encoding *enc, struct rlx_error *err)
{
	const struct tk_template *m = o->pair ? &s->t->pair : &s->t->single;
	uint32_t na = o->pair ? s->pair.n : s->tokens.n;
	uint32_t nb = o->pair ? s->tokens.n : 0;
	uint32_t special = o->no_special ? 0 : m->special;
	struct emit e = { .enc = enc, .type_zero = s->t->type_zero };
	struct cut keep = { na, nb };
	uint64_t n, total;

	if (o->max_tokens) {
		if (o->max_tokens < special)
			return rlx_fail(err, RLX_EINVAL,
					"tokenizer: max_tokens %u has no room for %u special tokens",
					o->max_tokens, special);
		keep = cut_longest(na, nb, o->max_tokens - special);
	}
	n = (uint64_t)keep.a + keep.b + special;
	total = n > o->pad_to ? n : o->pad_to;
	if (o->pad_multiple && total % o->pad_multiple)
		total += o->pad_multiple - total % o->pad_multiple;
	if (total > n && s->t->pad < 0)
		return rlx_fail(err, RLX_EINVAL,
				"tokenizer: padding is asked for, but it has no pad token");
	if (total > UINT32_MAX)
		return rlx_fail(err, RLX_ERANGE, "tokenizer: %llu tokens",
				(unsigned long long)total);
	enc->n = (uint32_t)total;
	enc->cut = na + nb - keep.a - keep.b;
	if (!enc->ids && !enc->type_ids && !enc->mask && !enc->spans)
		return RLX_OK;
	if (enc->n > enc->capacity)
		return rlx_fail(err, RLX_ERANGE,
				"tokenizer: %u tokens, but arrays of %u", enc->n,
				enc->capacity);
	if (o->pad_left)
		put_pads(s, (uint32_t)(total - n), &e);
	put_all(s, o, keep, &e);
	if (!o->pad_left)
		put_pads(s, (uint32_t)(total - n), &e);
	return RLX_OK;
}

enum rlx_status rlx_tokenizer_encode(struct rlx_tokenizer_scratch *s,
				     const char *text, size_t len,
				     const struct rlx_encode_opts *opts,
				     struct rlx_encoding *enc,
				     struct rlx_error *err)
{
	static const struct rlx_encode_opts none;
	const struct rlx_encode_opts *o = opts ? opts : &none;
	struct tk_tokens swap;
	enum rlx_status st;

	if (!s || !enc)
		return rlx_fail(err, RLX_EINVAL, "tokenizer: no scratch or encoding");
	enc->n = enc->cut = 0;
	if (o->stop && (!o->max_tokens || o->pair || o->truncate_left))
		return rlx_fail(err, RLX_EINVAL,
				"tokenizer: to stop needs max_tokens, one text, and its end cut");
	st = tk_tokenize(s, text, len, o->stop ? o->max_tokens : 0, err);
	if (st)
		return st;
	if (s->t->trim)
		trim_spans(s->t, &s->tokens, text);
	if (o->pair) {
		swap = s->pair;
		s->pair = s->tokens;
		s->tokens = swap;
		st = tk_tokenize(s, o->pair, o->pair_len, 0, err);
		if (st)
			return st;
		if (s->t->trim)
			trim_spans(s->t, &s->tokens, o->pair);
	}
	return finish(s, o, enc, err);
}
