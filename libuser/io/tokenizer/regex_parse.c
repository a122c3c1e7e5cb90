// SPDX-License-Identifier: MIT
/*
 * Patterns of the regular expressions that tokenizers split text with, into nodes.
 *
 * Understood: literals, sets with ranges, classes and nested sets, \s \d \w
 * \p{..} and their opposites, . | (..) (?:..) (?i:..) (?=..) (?!..), the
 * quantifiers ? * + {m,n} with possessive + on one character or set, and ? on a
 * group. Repeated groups are refused, so the node graph has no cycles and the
 * stack is bounded by the pattern, not by the text.
 */
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/regex.h"
#include "io/tokenizer/utf8.h"

enum { PATTERN_MAX = 2048, DEPTH_MAX = 24 };

struct re_parse {
	struct tk_regex		*re;
	const uint8_t		*begin, *p, *end;
	const char		*name;
	struct rlx_error	*err;
	enum rlx_status		 st;
	unsigned int		 depth;
	bool			 icase;
};

struct re_seq {
	int32_t	head, tail;
};

static bool parse_alt(struct re_parse *q, struct re_seq *out);

/* Record a failure and say false. */
static bool no(struct re_parse *q, enum rlx_status st, const char *what)
{
	if (!q->st)
		q->st = rlx_fail(q->err, st,
				 "%s: regular expression, byte %zu: %s in \"%.*s\"",
				 q->name, (size_t)(q->p - q->begin), what,
				 q->end - q->begin > 200 ? 200 :
				 (int)(q->end - q->begin), q->begin);
	return false;
}

static bool node_new(struct re_parse *q, enum re_op op, int32_t *out)
{
	struct tk_regex *re = q->re;

	if (!rlx_grow(&re->node, &re->cap_nodes, re->nodes + 1,
		      sizeof(*re->node)))
		return no(q, RLX_ENOMEM, "no memory");
	*out = (int32_t)re->nodes++;
	re->node[*out] = (struct re_node){
		.op = op, .next = NO_NODE, .sub = NO_NODE, .other = NO_NODE,
		.min = 1, .max = 1,
	};
	return true;
}

static bool set_new(struct re_parse *q, uint32_t *out)
{
	struct tk_regex *re = q->re;

	if (!rlx_grow(&re->set, &re->cap_sets, re->sets + 1, sizeof(*re->set)))
		return no(q, RLX_ENOMEM, "no memory");
	*out = re->sets++;
	re->set[*out] = (struct re_set){ .nested = NO_NODE,
					 .range = re->ranges };
	return true;
}

/* Ranges of one set stand together: sets are filled one at a time. */
static bool set_range(struct re_parse *q, uint32_t set, uint32_t lo, uint32_t hi)
{
	struct tk_regex *re = q->re;

	if (!rlx_grow(&re->range, &re->cap_ranges, re->ranges + 1,
		      sizeof(*re->range)))
		return no(q, RLX_ENOMEM, "no memory");
	re->range[re->ranges++] = (struct re_range){ lo, hi };
	re->set[set].ranges++;
	return true;
}

/* With (?i): the other case of ASCII letters, and what folds to them. */
static bool set_add(struct re_parse *q, uint32_t set, uint32_t lo, uint32_t hi)
{
	uint32_t a, b;

	if (!set_range(q, set, lo, hi))
		return false;
	if (!q->icase)
		return true;
	if (hi > 0x7f)
		return no(q, RLX_ENOSUP, "(?i) with other than ASCII");
	a = lo > 'A' ? lo : 'A';
	b = hi < 'Z' ? hi : 'Z';
	if (a <= b && !set_range(q, set, a | 32, b | 32))
		return false;
	a = lo > 'a' ? lo : 'a';
	b = hi < 'z' ? hi : 'z';
	if (a <= b && !set_range(q, set, a & ~32u, b & ~32u))
		return false;
	lo |= 32;
	hi |= 32;
	if (lo <= 's' && hi >= 's' && !set_range(q, set, 0x17f, 0x17f))
		return false;
	return !(lo <= 'k' && hi >= 'k') || set_range(q, set, 0x212a, 0x212a);
}

static const struct {
	const char	*name;
	uint32_t	 mask;
} classes[] = {
	{ "L", RLX_UC_L }, { "Letter", RLX_UC_L }, { "M", RLX_UC_M },
	{ "Mark", RLX_UC_M }, { "N", RLX_UC_NUM }, { "Number", RLX_UC_NUM },
	{ "P", RLX_UC_P }, { "Punctuation", RLX_UC_P }, { "S", RLX_UC_S },
	{ "Symbol", RLX_UC_S }, { "Z", RLX_UC_Z }, { "Separator", RLX_UC_Z },
	{ "C", RLX_UC_C }, { "Lu", 1u << RLX_UC_LU }, { "Ll", 1u << RLX_UC_LL },
	{ "Lt", 1u << RLX_UC_LT }, { "Lm", 1u << RLX_UC_LM },
	{ "Lo", 1u << RLX_UC_LO }, { "Mn", 1u << RLX_UC_MN },
	{ "Mc", 1u << RLX_UC_MC }, { "Me", 1u << RLX_UC_ME },
	{ "Nd", 1u << RLX_UC_ND }, { "Nl", 1u << RLX_UC_NL },
	{ "No", 1u << RLX_UC_NO }, { "Pc", 1u << RLX_UC_PC },
	{ "Pd", 1u << RLX_UC_PD }, { "Ps", 1u << RLX_UC_PS },
	{ "Pe", 1u << RLX_UC_PE }, { "Pi", 1u << RLX_UC_PI },
	{ "Pf", 1u << RLX_UC_PF }, { "Po", 1u << RLX_UC_PO },
	{ "Sm", 1u << RLX_UC_SM }, { "Sc", 1u << RLX_UC_SC },
	{ "Sk", 1u << RLX_UC_SK }, { "So", 1u << RLX_UC_SO },
	{ "Zs", 1u << RLX_UC_ZS }, { "Zl", 1u << RLX_UC_ZL },
	{ "Zp", 1u << RLX_UC_ZP }, { "Cc", 1u << RLX_UC_CC },
	{ "Cf", 1u << RLX_UC_CF }, { "Co", 1u << RLX_UC_CO },
	{ "Cn", 1u << RLX_UC_CN },
};

/* Script Han of Unicode 16. */
static const struct re_range han[] = {
	{ 0x2e80, 0x2e99 }, { 0x2e9b, 0x2ef3 }, { 0x2f00, 0x2fd5 },
	{ 0x3005, 0x3005 }, { 0x3007, 0x3007 }, { 0x3021, 0x3029 },
	{ 0x3038, 0x303b }, { 0x3400, 0x4dbf }, { 0x4e00, 0x9fff },
	{ 0xf900, 0xfa6d }, { 0xfa70, 0xfad9 }, { 0x16fe2, 0x16fe3 },
	{ 0x16ff0, 0x16ff1 }, { 0x20000, 0x2a6df }, { 0x2a700, 0x2b739 },
	{ 0x2b740, 0x2b81d }, { 0x2b820, 0x2cea1 }, { 0x2ceb0, 0x2ebe0 },
	{ 0x2ebf0, 0x2ee5d }, { 0x2f800, 0x2fa1d }, { 0x30000, 0x3134a },
	{ 0x31350, 0x323af },
};

/* q->p is behind \p or \P. */
static bool parse_property(struct re_parse *q, uint32_t set, bool negate)
{
	const uint8_t *name, *close;
	size_t i, n;

	close = q->p < q->end && *q->p == '{' ?
		memchr(q->p, '}', (size_t)(q->end - q->p)) : NULL;
	if (!close)
		return no(q, RLX_ENOSUP, "\\p without {name}");
	name = q->p + 1;
	if (name < close && *name == '^') {
		negate = !negate;
		name++;
	}
	n = (size_t)(close - name);
	if (n == 3 && !memcmp(name, "Han", 3) && !negate) {
		for (i = 0; i < sizeof(han) / sizeof(*han); i++)
			if (!set_range(q, set, han[i].lo, han[i].hi))
				return false;
		q->p = close + 1;
		return true;
	}
	for (i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (strlen(classes[i].name) == n &&
		    !memcmp(classes[i].name, name, n))
			break;
	if (i == sizeof(classes) / sizeof(*classes))
		return no(q, RLX_ENOSUP, "unknown property");
	q->re->set[set].gc |= negate ? ~classes[i].mask : classes[i].mask;
	q->p = close + 1;
	return true;
}

static bool parse_hex(struct re_parse *q, uint32_t *out)
{
	bool brace = q->p < q->end && *q->p == '{';
	uint32_t v = 0, digits = 0;

	q->p += brace;
	while (q->p < q->end && digits < (brace ? 6 : 2)) {
		uint8_t c = *q->p | 32;

		if (*q->p >= '0' && *q->p <= '9')
			v = v << 4 | (uint32_t)(*q->p - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (uint32_t)(c - 'a' + 10);
		else
			break;
		digits++;
		q->p++;
	}
	if (!digits || v > 0x10ffff ||
	    (brace && (q->p == q->end || *q->p++ != '}')))
		return no(q, RLX_EPARSE, "malformed \\x");
	*out = v;
	return true;
}

/*
 * q->p is behind a backslash. A class goes into @set and *@out_cp is UINT32_MAX;
 * else it is one character.
 */
static bool parse_escape(struct re_parse *q, uint32_t set, uint32_t *out_cp)
{
	struct re_set *x = &q->re->set[set];
	unsigned int k;

	*out_cp = UINT32_MAX;
	if (q->p == q->end)
		return no(q, RLX_EPARSE, "ends in a backslash");
	switch (*q->p++) {
	case 'p':
		return parse_property(q, set, false);
	case 'P':
		return parse_property(q, set, true);
	case 's':
		x->space = true;
		return true;
	case 'S':
		x->not_space = true;
		return true;
	case 'w':
		x->word = true;
		return true;
	case 'W':
		x->not_word = true;
		return true;
	case 'd':
		x->gc |= 1u << RLX_UC_ND;
		return true;
	case 'D':
		x->gc |= ~(1u << RLX_UC_ND);
		return true;
	case 'r':
		*out_cp = '\r';
		return true;
	case 'n':
		*out_cp = '\n';
		return true;
	case 't':
		*out_cp = '\t';
		return true;
	case 'f':
		*out_cp = '\f';
		return true;
	case 'v':
		*out_cp = '\v';
		return true;
	case 'x':
		return parse_hex(q, out_cp);
	}
	q->p--;
	k = rlx_utf8_get(q->p, q->end, out_cp);
	if (!k || (*out_cp < 0x80 && rlx_uc_is_word(*out_cp)))
		return no(q, RLX_ENOSUP, "this escape");
	q->p += k;
	return true;
}

/* One character or class of a set. */
static bool parse_member(struct re_parse *q, uint32_t set, uint32_t *out_cp)
{
	unsigned int k;

	if (*q->p == '\\') {
		q->p++;
		return parse_escape(q, set, out_cp);
	}
	if (q->end - q->p > 1 &&
	    ((q->p[0] == '&' && q->p[1] == '&') ||
	     (q->p[0] == '[' && q->p[1] == ':')))
		return no(q, RLX_ENOSUP, "intersection or POSIX class");
	k = rlx_utf8_get(q->p, q->end, out_cp);
	if (!k)
		return no(q, RLX_EPARSE, "not UTF-8");
	q->p += k;
	return true;
}

static bool parse_set(struct re_parse *q, uint32_t *out);

/*
 * A set inside a set unites with it. It is read after the outer one's own
 * members would be; a list through .nested keeps the ranges of each together.
 */
static bool parse_nested(struct re_parse *q, uint32_t set)
{
	uint32_t inner, last;

	if (++q->depth > DEPTH_MAX)
		return no(q, RLX_ENOSUP, "nested too deeply");
	if (!parse_set(q, &inner))
		return false;
	q->depth--;
	for (last = inner; q->re->set[last].nested != NO_NODE;)
		last = (uint32_t)q->re->set[last].nested;
	/* a negated inner set that has inner ones itself is not a plain list */
	if (last != inner)
		return no(q, RLX_ENOSUP, "sets nested twice");
	q->re->set[last].nested = q->re->set[set].nested;
	q->re->set[set].nested = (int32_t)inner;
	/* what follows goes into a set of its own, also united */
	return true;
}

/* q->p is at '['. */
static bool parse_set(struct re_parse *q, uint32_t *out)
{
	const uint8_t *first;
	uint32_t lo, hi, part;

	if (!set_new(q, out))
		return false;
	part = *out;
	q->p++;
	if (q->p < q->end && *q->p == '^') {
		q->re->set[*out].negate = true;
		q->p++;
	}
	for (first = q->p; q->p < q->end && (*q->p != ']' || q->p == first);) {
		if (*q->p == '[' && !(q->end - q->p > 1 && q->p[1] == ':')) {
			if (!parse_nested(q, *out) || !set_new(q, &part))
				return false;
			q->re->set[part].nested = q->re->set[*out].nested;
			q->re->set[*out].nested = (int32_t)part;
			continue;
		}
		if (!parse_member(q, part, &lo))
			return false;
		if (lo == UINT32_MAX)
			continue;
		hi = lo;
		if (q->end - q->p > 1 && q->p[0] == '-' && q->p[1] != ']') {
			q->p++;
			if (!parse_member(q, part, &hi))
				return false;
			if (hi == UINT32_MAX || hi < lo)
				return no(q, RLX_EPARSE, "malformed range");
		}
		if (!set_add(q, part, lo, hi))
			return false;
	}
	if (q->p == q->end)
		return no(q, RLX_EPARSE, "set without end");
	q->p++;
	return true;
}

/* Read "m", "m," or "m,n" up to '}'; q->p is behind '{'. */
static bool parse_counts(struct re_parse *q, uint32_t *min, uint32_t *max)
{
	uint32_t v[2] = { 0, 0 }, i = 0, digits[2] = { 0, 0 };

	for (; q->p < q->end && *q->p != '}'; q->p++) {
		if (*q->p == ',' && !i) {
			i = 1;
			continue;
		}
		if (*q->p < '0' || *q->p > '9' || v[i] > 100000)
			return no(q, RLX_EPARSE, "malformed {m,n}");
		v[i] = v[i] * 10 + (uint32_t)(*q->p - '0');
		digits[i]++;
	}
	if (q->p == q->end || !(digits[0] + digits[1]))
		return no(q, RLX_EPARSE, "malformed {m,n}");
	q->p++;
	*min = v[0];
	*max = !i ? v[0] : digits[1] ? v[1] : UINT32_MAX;
	return *min <= *max || no(q, RLX_EPARSE, "malformed {m,n}");
}

/* False in *@out_any if no quantifier stands at q->p. */
static bool parse_quant(struct re_parse *q, struct re_node *n, bool *out_any)
{
	*out_any = q->p < q->end && memchr("?*+{", *q->p, 4);
	if (!*out_any)
		return true;
	n->min = *q->p == '+';
	n->max = *q->p == '?' ? 1 : UINT32_MAX;
	if (*q->p++ == '{' && !parse_counts(q, &n->min, &n->max))
		return false;
	if (q->p < q->end && *q->p == '?')
		return no(q, RLX_ENOSUP, "a lazy quantifier");
	n->possessive = q->p < q->end && *q->p == '+';
	q->p += n->possessive;
	return true;
}

/* (...)? becomes (...|) ; more is refused. @g is an ALT. */
static bool quant_group(struct re_parse *q, struct re_seq g)
{
	struct re_node n = { 0 };
	int32_t last, empty;
	bool any;

	if (!parse_quant(q, &n, &any))
		return false;
	if (!any)
		return true;
	if (n.min || n.max != 1 || n.possessive ||
	    q->re->node[g.head].op != RE_ALT)
		return no(q, RLX_ENOSUP, "a repeated group");
	if (!node_new(q, RE_ALT, &empty))
		return false;
	for (last = g.head; q->re->node[last].other != NO_NODE;)
		last = q->re->node[last].other;
	q->re->node[last].other = empty;
	q->re->node[empty].sub = g.tail;
	return true;
}

/* q->p is at '('. */
static bool parse_group(struct re_parse *q, struct re_seq *out)
{
	bool icase = q->icase, look = false, negate = false, ok;
	struct re_seq body;
	int32_t end;

	q->p++;
	if (q->p < q->end && *q->p == '?') {
		size_t left = (size_t)(q->end - q->p);

		if (left > 2 && q->p[1] == 'i' && q->p[2] == ':') {
			q->icase = true;
			q->p += 3;
		} else if (left > 1 && q->p[1] == ':') {
			q->p += 2;
		} else if (left > 1 && (q->p[1] == '=' || q->p[1] == '!')) {
			look = true;
			negate = q->p[1] == '!';
			q->p += 2;
		} else {
			return no(q, RLX_ENOSUP, "this kind of group");
		}
	}
	if (++q->depth > DEPTH_MAX)
		return no(q, RLX_ENOSUP, "nested too deeply");
	ok = parse_alt(q, &body);
	q->depth--;
	q->icase = icase;
	if (!ok)
		return false;
	if (q->p == q->end || *q->p != ')')
		return no(q, RLX_EPARSE, "group without end");
	q->p++;
	if (!look) {
		*out = body;
		return quant_group(q, body);
	}
	if (!node_new(q, RE_ACCEPT, &end) || !node_new(q, RE_LOOK, &out->head))
		return false;
	q->re->node[body.tail].next = end;
	q->re->node[out->head].sub = body.head;
	q->re->node[out->head].negate = negate;
	out->tail = out->head;
	return true;
}

/* One character or set, with its quantifier. */
static bool parse_char(struct re_parse *q, struct re_seq *out)
{
	struct re_node *n;
	uint32_t set, cp;
	bool any;

	if (*q->p == '[') {
		if (!parse_set(q, &set))
			return false;
	} else {
		if (memchr("^$*+?{", *q->p, 6))
			return no(q, RLX_ENOSUP, "this character");
		if (!set_new(q, &set))
			return false;
		if (*q->p == '.') {
			q->re->set[set].negate = true;
			cp = '\n';
			q->p++;
		} else if (!parse_member(q, set, &cp)) {
			return false;
		}
		if (cp != UINT32_MAX && !set_add(q, set, cp, cp))
			return false;
	}
	if (!node_new(q, RE_SET, &out->head))
		return false;
	out->tail = out->head;
	n = &q->re->node[out->head];
	n->set = set;
	if (!parse_quant(q, n, &any))
		return false;
	if (any)
		n->op = RE_REP;
	return true;
}

/* What stands between bars; never empty: at least a JOIN. */
static bool parse_seq(struct re_parse *q, struct re_seq *out)
{
	struct re_seq atom;

	if (!node_new(q, RE_JOIN, &out->head))
		return false;
	out->tail = out->head;
	while (q->p < q->end && *q->p != '|' && *q->p != ')') {
		if (*q->p == '(' ? !parse_group(q, &atom) : !parse_char(q, &atom))
			return false;
		q->re->node[out->tail].next = atom.head;
		out->tail = atom.tail;
	}
	return true;
}

static bool parse_alt(struct re_parse *q, struct re_seq *out)
{
	int32_t alt, last = NO_NODE;
	struct re_seq seq;

	if (!node_new(q, RE_JOIN, &out->tail))
		return false;
	for (;;) {
		if (!node_new(q, RE_ALT, &alt) || !parse_seq(q, &seq))
			return false;
		q->re->node[alt].sub = seq.head;
		q->re->node[seq.tail].next = out->tail;
		if (last == NO_NODE)
			out->head = alt;
		else
			q->re->node[last].other = alt;
		last = alt;
		if (q->p == q->end || *q->p != '|')
			return true;
		q->p++;
	}
}

enum rlx_status tk_regex_new(const char *pat, size_t len, const char *name,
			     struct tk_regex **out, struct rlx_error *err)
{
	struct re_parse q = {
		.begin = (const uint8_t *)pat, .p = (const uint8_t *)pat,
		.end = (const uint8_t *)pat + len, .name = name, .err = err,
	};
	struct re_seq all;
	int32_t accept;

	*out = NULL;
	if (len > PATTERN_MAX)
		return rlx_fail(err, RLX_ERANGE,
				"%s: regular expression of %zu bytes, at most %d",
				name, len, PATTERN_MAX);
	q.re = rlx_calloc(1, sizeof(*q.re));
	if (!q.re)
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory", name);
	if (len > 4 && !memcmp(pat, "(?i)", 4)) {
		q.icase = true;
		q.p += 4;
	}
	if (!parse_alt(&q, &all) || !node_new(&q, RE_ACCEPT, &accept) ||
	    (q.p < q.end && !no(&q, RLX_EPARSE, "')' without '('"))) {
		tk_regex_free(q.re);
		return q.st;
	}
	q.re->node[all.tail].next = accept;
	q.re->root = all.head;
	tk_regex_prepare(q.re);
	*out = q.re;
	return RLX_OK;
}

void tk_regex_free(struct tk_regex *re)
{
	if (!re)
		return;
	rlx_free(re->node);
	rlx_free(re->set);
	rlx_free(re->range);
	rlx_free(re);
}
