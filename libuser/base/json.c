// SPDX-License-Identifier: MIT
/* The JSON reader of json.h. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/map.h"
#include "base/number.h"
#include "base/utf8.h"

enum {
	DEFAULT_DEPTH	= 64,
	DEFAULT_NODES	= 64 << 20,
	BYTES_MAX	= 1 << 30,
};

/* What may come next. */
enum want { VALUE, FIRST_VALUE, KEY, FIRST_KEY, COMMA, END };

struct parser {
	const uint8_t	*begin, *p, *end;
	struct rlx_json	*j;
	struct rlx_error *err;
	char		*out;		/* where the next text goes */
	const struct rlx_json_limits *lim;
	int64_t		 taken;		/* of what lim->take() allows */
	uint32_t	 nodes_max, depth_max, depth;
	uint32_t	 open[RLX_JSON_DEPTH_MAX];	/* containers around us */
};

static enum rlx_status fail_at(struct parser *q, const uint8_t *at,
			       enum rlx_status st, const char *what)
{
	unsigned long line = 1;
	const uint8_t *p;

	for (p = q->begin; p < at; p++)
		line += *p == '\n';
	return rlx_fail(q->err, st, "%s: byte %zu, line %lu: %s",
			q->j->name, (size_t)(at - q->begin), line, what);
}

static bool take(struct parser *q, int64_t bytes)
{
	if (q->lim->take && !q->lim->take(q->lim->ctx, bytes))
		return false;
	q->taken += bytes;
	return true;
}

/* Room for one more node; as rlx_grow() grows. */
static bool reserve_node(struct parser *q)
{
	struct rlx_json *j = q->j;
	int64_t more = (int64_t)sizeof(*j->node) * (j->cap ? j->cap : 8);

	if (j->n < j->cap)
		return true;
	if (!take(q, more))
		return false;
	if (rlx_grow(&j->node, &j->cap, j->n + 1, sizeof(*j->node)))
		return true;
	take(q, -more);
	return false;
}

static enum rlx_status node_add(struct parser *q, enum rlx_json_kind kind,
				const uint8_t *at, uint32_t *out)
{
	struct rlx_json *j = q->j;

	if (j->n == q->nodes_max)
		return fail_at(q, at, RLX_ERANGE, "too many values");
	if (!reserve_node(q))
		return rlx_fail(q->err, RLX_ENOMEM, "%s: no memory for %u values",
				j->name, j->n);
	*out = j->n++;
	j->node[*out] = (struct rlx_json_node){
		.kind = (uint8_t)kind,
		.src = (uint32_t)(at - q->begin),
		.end = j->n,
	};
	return RLX_OK;
}

static int hex4(const uint8_t *p, const uint8_t *end, uint32_t *out)
{
	uint32_t v = 0;
	int i;

	if (end - p < 4)
		return -1;
	for (i = 0; i < 4; i++) {
		uint8_t c = p[i] | 32;

		if (p[i] >= '0' && p[i] <= '9')
			v = v << 4 | (uint32_t)(p[i] - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (uint32_t)(c - 'a' + 10);
		else
			return -1;
	}
	*out = v;
	return 0;
}

/* q->p is behind \u. */
static enum rlx_status parse_u(struct parser *q)
{
	const uint8_t *at = q->p - 2;
	uint32_t cp, low;

	if (hex4(q->p, q->end, &cp))
		return fail_at(q, at, RLX_EPARSE, "\\u needs four hex digits");
	q->p += 4;
	if (cp >= 0xdc00 && cp < 0xe000)
		return fail_at(q, at, RLX_EPARSE, "lone low surrogate");
	if (cp >= 0xd800 && cp < 0xdc00) {
		if (q->end - q->p < 6 || q->p[0] != '\\' || q->p[1] != 'u' ||
		    hex4(q->p + 2, q->end, &low) || low < 0xdc00 ||
		    low >= 0xe000)
			return fail_at(q, at, RLX_EPARSE, "lone high surrogate");
		q->p += 6;
		cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
	}
	/* at most 4 bytes from 6 or 12: the text never outgrows the source */
	q->out += rlx_utf8_put((uint8_t *)q->out, cp);
	return RLX_OK;
}

static enum rlx_status parse_escape(struct parser *q)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *f;

	if (q->end - q->p < 2)
		return fail_at(q, q->p, RLX_EPARSE, "text ends in an escape");
	q->p += 2;
	if (q->p[-1] == 'u')
		return parse_u(q);
	f = q->p[-1] ? strchr(from, q->p[-1]) : NULL;
	if (!f)
		return fail_at(q, q->p - 2, RLX_EPARSE, "unknown escape");
	*q->out++ = to[f - from];
	return RLX_OK;
}

/* q->p is at the opening quote. */
static enum rlx_status parse_string(struct parser *q, uint32_t *out)
{
	const uint8_t *at = q->p;
	char *text = q->out;
	enum rlx_status st;
	unsigned int k;
	uint32_t cp;

	st = node_add(q, RLX_JSON_STR, at, out);
	if (st)
		return st;
	q->p++;
	for (;;) {
		if (q->p == q->end)
			return fail_at(q, at, RLX_EPARSE, "string without end");
		if (*q->p == '"')
			break;
		if (*q->p == '\\') {
			st = parse_escape(q);
			if (st)
				return st;
			continue;
		}
		if (*q->p < 0x20)
			return fail_at(q, q->p, RLX_EPARSE,
				       "control character in a string");
		k = rlx_utf8_get(q->p, q->end, &cp);
		if (!k)
			return fail_at(q, q->p, RLX_EPARSE, "not UTF-8");
		memcpy(q->out, q->p, k);
		q->out += k;
		q->p += k;
	}
	q->p++;
	q->j->node[*out].off = (uint32_t)(text - q->j->text);
	q->j->node[*out].len = (uint32_t)(q->out - text);
	*q->out++ = 0;
	return RLX_OK;
}

static const uint8_t *skip_digits(const uint8_t *p, const uint8_t *end)
{
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

static enum rlx_status parse_number(struct parser *q, uint32_t *out)
{
	const uint8_t *at = q->p, *p = at, *d;
	enum rlx_status st;

	st = node_add(q, RLX_JSON_NUM, at, out);
	if (st)
		return st;
	p += *p == '-';
	d = p;
	p = skip_digits(p, q->end);
	if (p == d || (*d == '0' && p - d > 1))
		return fail_at(q, at, RLX_EPARSE, p == d ? "value expected" :
			       "number with a leading zero");
	if (p < q->end && *p == '.') {
		d = ++p;
		p = skip_digits(p, q->end);
		if (p == d)
			return fail_at(q, at, RLX_EPARSE, "no digit after the point");
	}
	if (p < q->end && (*p | 32) == 'e') {
		p++;
		if (p < q->end && (*p == '+' || *p == '-'))
			p++;
		d = p;
		p = skip_digits(p, q->end);
		if (p == d)
			return fail_at(q, at, RLX_EPARSE, "no digit in the exponent");
	}
	q->j->node[*out].off = (uint32_t)(q->out - q->j->text);
	q->j->node[*out].len = (uint32_t)(p - at);
	memcpy(q->out, at, (size_t)(p - at));
	q->out += p - at;
	*q->out++ = 0;
	q->p = p;
	return RLX_OK;
}

static enum rlx_status parse_word(struct parser *q, uint32_t *out)
{
	static const struct {
		const char	*word;
		uint8_t		 len, kind, truth;
	} words[] = {
		{ "null", 4, RLX_JSON_NULL, 0 },
		{ "true", 4, RLX_JSON_BOOL, 1 },
		{ "false", 5, RLX_JSON_BOOL, 0 },
	};
	enum rlx_status st;
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (q->end - q->p >= words[i].len &&
		    !memcmp(q->p, words[i].word, words[i].len)) {
			st = node_add(q, words[i].kind, q->p, out);
			if (st)
				return st;
			q->j->node[*out].truth = words[i].truth;
			q->p += words[i].len;
			return RLX_OK;
		}
	return fail_at(q, q->p, RLX_EPARSE, "value expected");
}

static enum rlx_status open_container(struct parser *q, enum want *want)
{
	bool obj = *q->p == '{';
	enum rlx_status st;
	uint32_t i;

	if (q->depth == q->depth_max)
		return fail_at(q, q->p, RLX_ERANGE, "nested too deeply");
	st = node_add(q, obj ? RLX_JSON_OBJ : RLX_JSON_ARR, q->p, &i);
	if (st)
		return st;
	q->open[q->depth++] = i;
	q->p++;
	*want = obj ? FIRST_KEY : FIRST_VALUE;
	return RLX_OK;
}

static enum rlx_status parse_value(struct parser *q, enum want *want)
{
	enum rlx_status st;
	uint32_t i;

	if (q->depth && *want != KEY &&
	    q->j->node[q->open[q->depth - 1]].len == UINT32_MAX)
		return fail_at(q, q->p, RLX_ERANGE, "too many items");
	if (q->depth)
		q->j->node[q->open[q->depth - 1]].len++;
	if (*q->p == '{' || *q->p == '[')
		return open_container(q, want);
	if (*q->p == '"')
		st = parse_string(q, &i);
	else if (*q->p == '-' || (*q->p >= '0' && *q->p <= '9'))
		st = parse_number(q, &i);
	else
		st = parse_word(q, &i);
	*want = q->depth ? COMMA : END;
	return st;
}

static const uint8_t *skip_space(const uint8_t *p, const uint8_t *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
		p++;
	return p;
}

/* q->p is at a key's quote: take it and the colon. */
static enum rlx_status parse_key(struct parser *q)
{
	enum rlx_status st;
	uint32_t i;

	if (*q->p != '"')
		return fail_at(q, q->p, RLX_EPARSE, "key expected");
	st = parse_string(q, &i);
	if (st)
		return st;
	q->p = skip_space(q->p, q->end);
	if (q->p == q->end || *q->p != ':')
		return fail_at(q, q->p, RLX_EPARSE, "':' expected");
	q->p++;
	return RLX_OK;
}

/* Close the innermost container if *q->p does; *@want then follows. */
static bool close_container(struct parser *q, enum want *want)
{
	struct rlx_json_node *n;

	if (!q->depth)
		return false;
	n = &q->j->node[q->open[q->depth - 1]];
	if (*q->p != (n->kind == RLX_JSON_OBJ ? '}' : ']'))
		return false;
	n->end = q->j->n;
	q->p++;
	q->depth--;
	*want = q->depth ? COMMA : END;
	return true;
}

static enum rlx_status parse_all(struct parser *q)
{
	enum want want = VALUE;
	enum rlx_status st = RLX_OK;

	while (!st) {
		q->p = skip_space(q->p, q->end);
		if (want == END)
			return q->p == q->end ? RLX_OK :
			       fail_at(q, q->p, RLX_EPARSE, "text behind the value");
		if (q->p == q->end)
			return fail_at(q, q->p, RLX_EPARSE, "text ends early");
		switch (want) {
		case FIRST_KEY:
		case FIRST_VALUE:
			if (close_container(q, &want))
				break;
			want = want == FIRST_KEY ? KEY : VALUE;
			break;
		case KEY:
			st = parse_key(q);
			want = VALUE;
			break;
		case COMMA:
			if (close_container(q, &want))
				break;
			if (*q->p != ',')
				return fail_at(q, q->p, RLX_EPARSE,
					       "',' or the end expected");
			q->p++;
			want = q->j->node[q->open[q->depth - 1]].kind ==
			       RLX_JSON_OBJ ? KEY : VALUE;
			break;
		default:
			st = parse_value(q, &want);
		}
	}
	return st;
}

struct key_slot {
	uint32_t	obj, key;	/* nodes; 0 in key: empty */
};

/*
 * One table for the keys of all objects keeps this linear. The seed differs
 * between processes, so that a file cannot be made to collide.
 */
static bool unique_keys(struct parser *q, struct key_slot *slot, uint32_t mask,
			uint32_t obj)
{
	struct rlx_json_iter it = rlx_json_iter(q->j, obj);
	uint64_t seed = (uintptr_t)q ^ (uintptr_t)slot ^ obj;

	while (rlx_json_next(&it)) {
		const char *text = rlx_json_text(q->j, it.key);
		uint32_t len = rlx_json_len(q->j, it.key);
		uint32_t i = (uint32_t)rlx_hash_bytes(text, len, seed) & mask;

		for (; slot[i].key; i = (i + 1) & mask)
			if (slot[i].obj == obj &&
			    rlx_json_len(q->j, slot[i].key) == len &&
			    !memcmp(rlx_json_text(q->j, slot[i].key), text, len)) {
				q->p = q->begin + q->j->node[it.key].src;
				return false;
			}
		slot[i] = (struct key_slot){ obj, it.key };
	}
	return true;
}

static enum rlx_status check_keys(struct parser *q)
{
	enum rlx_status st = RLX_OK;
	struct key_slot *slot;
	uint64_t keys = 0, size = 16;
	uint32_t i;

	for (i = 0; i < q->j->n; i++)
		if (q->j->node[i].kind == RLX_JSON_OBJ)
			keys += q->j->node[i].len;
	if (!keys)
		return RLX_OK;
	while (size < 2 * keys)
		size *= 2;
	slot = take(q, (int64_t)(size * sizeof(*slot))) ? rlx_calloc(size, sizeof(*slot)) : NULL;
	if (!slot)
		return rlx_fail(q->err, RLX_ENOMEM, "%s: no memory for %llu keys",
				q->j->name, (unsigned long long)keys);
	for (i = 0; i < q->j->n; i++)
		if (q->j->node[i].kind == RLX_JSON_OBJ &&
		    !unique_keys(q, slot, (uint32_t)(size - 1), i)) {
			st = fail_at(q, q->p, RLX_EPARSE,
				     "this key came before in its object");
			break;
		}
	rlx_free(slot);
	take(q, -(int64_t)(size * sizeof(*slot)));
	return st;
}

enum rlx_status rlx_json_parse(struct rlx_json *out, const char *text,
			       size_t len, const struct rlx_json_limits *lim,
			       const char *name, struct rlx_error *err)
{
	static const struct rlx_json_limits none;
	const uint8_t *src = (const uint8_t *)(text ? text : "");
	struct parser q = {
		.begin = src, .p = src, .end = src + len, .j = out, .err = err,
	};
	enum rlx_status st;
	size_t most;

	lim = lim ? lim : &none;
	q.lim = lim;
	most = lim->bytes && lim->bytes < BYTES_MAX ? lim->bytes : BYTES_MAX;
	q.nodes_max = lim->nodes ? lim->nodes : DEFAULT_NODES;
	q.depth_max = lim->depth ? lim->depth : DEFAULT_DEPTH;
	if (q.depth_max > RLX_JSON_DEPTH_MAX)
		q.depth_max = RLX_JSON_DEPTH_MAX;
	*out = (struct rlx_json){ .name = name };
	if (len > most)
		return rlx_fail(err, RLX_ERANGE, "%s: %zu bytes of JSON, at most %zu",
				name, len, most);
	/*
	 * Each text with its end fits in what the source spends on it: quotes,
	 * or a number and the byte behind it; the last number has one more.
	 */
	out->text = take(&q, (int64_t)len + 1) ? rlx_malloc(len + 1) : NULL;
	q.out = out->text;
	if (!out->text)
		st = rlx_fail(err, RLX_ENOMEM, "%s: no memory for %zu bytes",
			      name, len);
	else
		st = parse_all(&q);
	if (!st)
		st = check_keys(&q);
	if (st) {
		rlx_json_fini(out);
		take(&q, -q.taken);
	}
	return st;
}

void rlx_json_fini(struct rlx_json *j)
{
	rlx_free(j->node);
	rlx_free(j->text);
	*j = (struct rlx_json){ 0 };
}

bool rlx_json_str_is(const struct rlx_json *j, uint32_t i, const char *s)
{
	return j->node[i].kind == RLX_JSON_STR && j->node[i].len == strlen(s) &&
	       !memcmp(rlx_json_text(j, i), s, j->node[i].len);
}

struct rlx_json_iter rlx_json_iter(const struct rlx_json *j, uint32_t i)
{
	struct rlx_json_iter it = { .j = j, .next = i + 1, .end = i + 1 };

	if (j->node[i].kind == RLX_JSON_OBJ || j->node[i].kind == RLX_JSON_ARR)
		it.end = j->node[i].end;
	it.obj = j->node[i].kind == RLX_JSON_OBJ;
	return it;
}

bool rlx_json_next(struct rlx_json_iter *it)
{
	if (it->next >= it->end)
		return false;
	it->key = it->obj ? it->next : 0;
	it->val = it->next + it->obj;
	it->next = it->j->node[it->val].end;
	return true;
}

uint32_t rlx_json_get(const struct rlx_json *j, uint32_t obj, const char *key)
{
	struct rlx_json_iter it = rlx_json_iter(j, obj);

	while (it.obj && rlx_json_next(&it))
		if (rlx_json_str_is(j, it.key, key))
			return it.val;
	return 0;
}

bool rlx_json_int(const struct rlx_json *j, uint32_t i, int64_t *out)
{
	const char *s = rlx_json_text(j, i);
	uint64_t v = 0;
	bool neg;

	if (j->node[i].kind != RLX_JSON_NUM)
		return false;
	neg = *s == '-';
	for (s += neg; *s; s++) {
		if (*s < '0' || *s > '9' ||
		    __builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return false;
	}
	if (v > (uint64_t)INT64_MAX + neg)
		return false;
	*out = neg ? (int64_t)(0 - v) : (int64_t)v;
	return true;
}

bool rlx_json_double(const struct rlx_json *j, uint32_t i, double *out)
{
	if (j->node[i].kind != RLX_JSON_NUM)
		return false;
	*out = rlx_strtod(rlx_json_text(j, i), NULL);
	return true;
}
