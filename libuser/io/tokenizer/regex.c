// SPDX-License-Identifier: MIT
/* The regular expressions that tokenizers split text with, matched by backtracking. */
#include <string.h>

#include "io/tokenizer/regex.h"
#include "io/tokenizer/utf8.h"

static bool set_has_slow(const struct tk_regex *re, const struct re_set *x,
			 uint32_t cp)
{
	const struct re_set *inner = x;
	bool in;
	uint32_t i;

	in = (x->gc && rlx_uc_is(cp, x->gc)) ||
	     (x->space && rlx_uc_is_space(cp)) ||
	     (x->not_space && !rlx_uc_is_space(cp)) ||
	     (x->word && rlx_uc_is_word(cp)) ||
	     (x->not_word && !rlx_uc_is_word(cp));
	for (i = 0; i < x->ranges && !in; i++)
		in = cp >= re->range[x->range + i].lo &&
		     cp <= re->range[x->range + i].hi;
	/* members of the list are plain: the outer set alone walks it */
	while (!in && inner->nested != NO_NODE) {
		struct re_set alone;

		inner = &re->set[inner->nested];
		alone = *inner;
		alone.nested = NO_NODE;
		in = set_has_slow(re, &alone, cp);
	}
	return in != x->negate;
}

static bool set_has(const struct tk_regex *re, uint32_t set, uint32_t cp)
{
	const struct re_set *x = &re->set[set];

	return cp < 128 ? x->ascii[cp] : set_has_slow(re, x, cp);
}

/* Which ASCII characters a match from @i on can begin with. */
static void first_of(const struct tk_regex *re, int32_t i, bool *first)
{
	uint32_t c;

	for (; i != NO_NODE; i = re->node[i].next) {
		const struct re_node *n = &re->node[i];

		switch (n->op) {
		case RE_SET:
		case RE_REP:
			for (c = 0; c < 128; c++)
				first[c] |= re->set[n->set].ascii[c];
			if (n->min)
				return;
			break;
		case RE_ALT:
			for (; i != NO_NODE; i = re->node[i].other)
				for (c = 0; c < 128; c++)
					first[c] |= re->node[i].first[c];
			return;
		case RE_ACCEPT:
			memset(first, 1, 128);
			return;
		default:
			break;
		}
	}
}

void tk_regex_prepare(struct tk_regex *re)
{
	uint32_t i, c;

	for (i = 0; i < re->sets; i++)
		for (c = 0; c < 128; c++)
			re->set[i].ascii[c] = set_has_slow(re, &re->set[i], c);
	/*
	 * A node's successors in the text of the pattern are younger, but for
	 * joins; an ALT's sub ends at an older join. Two sweeps from the back
	 * are not enough for deep nesting, so be sure: until nothing changes.
	 */
	for (bool more = true; more;) {
		more = false;
		for (i = re->nodes; i-- > 0;) {
			bool first[128] = { false };

			if (re->node[i].op != RE_ALT)
				continue;
			first_of(re, re->node[i].sub, first);
			if (memcmp(first, re->node[i].first, 128)) {
				memcpy(re->node[i].first, first, 128);
				more = true;
			}
		}
	}
	first_of(re, re->root, re->first);
}

/* Longest run of the set at @pos, at most n->max; *@count of them. */
static uint32_t run_of(const struct tk_regex *re, const struct re_node *n,
		       const struct tk_subject *x, uint32_t pos, uint32_t *count)
{
	const bool *ascii = re->set[n->set].ascii;
	uint32_t cp, k, c = 0;

	while (c < n->max && pos < x->n) {
		if (x->s[pos] < 128) {
			if (!ascii[x->s[pos]])
				break;
			pos++;
		} else {
			k = rlx_utf8_next(x->s + pos, &cp);
			if (!set_has(re, n->set, cp))
				break;
			pos += k;
		}
		c++;
	}
	*count = c;
	return pos;
}

static int64_t match(const struct tk_regex *re, struct tk_subject *x, int32_t i,
		     uint32_t pos);

/* Try what follows a run, giving back one character at a time. */
static int64_t match_run(const struct tk_regex *re, struct tk_subject *x,
			 const struct re_node *n, uint32_t pos)
{
	uint32_t count, end = run_of(re, n, x, pos, &count);
	int64_t got;

	x->steps -= count < x->steps ? count : x->steps;
	if (count < n->min)
		return -1;
	for (;;) {
		got = match(re, x, n->next, end);
		if (got >= 0 || count == n->min || n->possessive || !x->steps)
			return got;
		do {
			end--;
		} while ((x->s[end] & 0xc0) == 0x80);
		count--;
	}
}

/* The end of a match of node @i from @pos on, -1 if none. */
static int64_t match(const struct tk_regex *re, struct tk_subject *x, int32_t i,
		     uint32_t pos)
{
	const struct re_node *n;
	uint32_t cp, k;
	int64_t got;

	for (;; i = n->next) {
		n = &re->node[i];
		if (!x->steps)
			return -1;
		x->steps--;
		switch (n->op) {
		case RE_ACCEPT:
			return pos;
		case RE_JOIN:
			break;
		case RE_SET:
			if (pos == x->n)
				return -1;
			k = rlx_utf8_next(x->s + pos, &cp);
			if (!set_has(re, n->set, cp))
				return -1;
			pos += k;
			break;
		case RE_REP:
			return match_run(re, x, n, pos);
		case RE_LOOK:
			got = match(re, x, n->sub, pos);
			if ((got >= 0) == n->negate)
				return -1;
			break;
		case RE_ALT:
			for (; i != NO_NODE; i = n->other) {
				n = &re->node[i];
				if (pos < x->n && x->s[pos] < 128 &&
				    !n->first[x->s[pos]])
					continue;
				got = match(re, x, n->sub, pos);
				if (got >= 0 || !x->steps)
					return got;
			}
			return -1;
		}
	}
}

enum tk_found tk_regex_find(const struct tk_regex *re, struct tk_subject *x,
			    uint32_t from, struct rlx_token_span *out)
{
	int64_t end;

	for (; from < x->n; from += rlx_utf8_len(x->s[from])) {
		if (x->s[from] < 128 && !re->first[x->s[from]])
			continue;
		end = match(re, x, re->root, from);
		if (end > (int64_t)from) {
			*out = (struct rlx_token_span){ from, (uint32_t)end };
			return TK_FOUND;
		}
		if (!x->steps)
			return TK_TOO_HARD;
	}
	return TK_NOT_FOUND;
}

static enum tk_found literal_find(const uint8_t *lit, uint32_t len,
				  const struct tk_subject *x, uint32_t from,
				  struct rlx_token_span *out)
{
	const uint8_t *p;

	if (!len || from >= x->n)
		return TK_NOT_FOUND;
	p = memmem(x->s + from, x->n - from, lit, len);
	if (!p)
		return TK_NOT_FOUND;
	out->begin = (uint32_t)(p - x->s);
	out->end = out->begin + len;
	return TK_FOUND;
}

enum tk_found tk_pattern_find(const struct rlx_tokenizer *t,
			      const struct tk_pattern *pat,
			      struct tk_subject *x, uint32_t from,
			      struct rlx_token_span *out)
{
	if (pat->re)
		return tk_regex_find(pat->re, x, from, out);
	return literal_find(tk_text(t, pat->lit), pat->lit.len, x, from, out);
}
