// SPDX-License-Identifier: MIT
/* Changing fields of protocol buffers; see proto_mutate.h. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "selftests/lib/proto_mutate.h"
#include "selftests/lib/rlx_test.h"

enum { DEPTH = 24, FIELD_MOST = 64 };

struct in {
	const uint8_t	*p, *end;
};

/* What is written, and which place of it is to be another: places are counted as they come. */
struct walk {
	uint8_t		*to;
	size_t		 n, cap;
	uint64_t	 nr, at;
	uint64_t	*seed;
	bool		 full;
};

static bool get_varint(struct in *in, uint64_t *out)
{
	unsigned int shift;

	for (*out = 0, shift = 0; in->p < in->end && shift < 64; shift += 7) {
		uint8_t b = *in->p++;

		*out |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return true;
	}
	return false;
}

static void put(struct walk *w, const void *p, size_t n)
{
	w->full = w->full || n > w->cap - w->n;
	if (w->full)
		return;
	memcpy(w->to + w->n, p, n);
	w->n += n;
}

static void put_varint(struct walk *w, uint64_t v)
{
	uint8_t b;

	for (; v >= 0x80; v >>= 7) {
		b = (uint8_t)v | 0x80;
		put(w, &b, 1);
	}
	b = (uint8_t)v;
	put(w, &b, 1);
}

/* The next field: its key, and what it is; false: there is none, or this is no message. */
static bool next_field(struct in *in, uint64_t *key, uint64_t *v, struct in *body)
{
	size_t n;

	if (in->p >= in->end || !get_varint(in, key) || !(*key >> 3) || *key >> 3 > FIELD_MOST)
		return false;
	*v = 0;
	switch (*key & 7) {
	case 0:
		return get_varint(in, v);
	case 1: n = 8; break;
	case 5: n = 4; break;
	case 2:
		if (!get_varint(in, v) || *v > (size_t)(in->end - in->p))
			return false;
		n = *v;
		break;
	default:
		return false;
	}
	if (n > (size_t)(in->end - in->p))
		return false;
	*body = (struct in){ in->p, in->p + n };
	in->p += n;
	return true;
}

/* Text and numbers seldom look so. */
static bool is_message(struct in in)
{
	struct in body;
	uint64_t key, v;

	if (in.p == in.end)
		return false;
	while (in.p < in.end)
		if (!next_field(&in, &key, &v, &body))
			return false;
	return true;
}

static uint64_t other_number(uint64_t v, uint64_t *seed)
{
	static const int64_t edge[] = {
		0, 1, 2, 3, 5, 7, 8, -1, -2, -3, -5, -8, 16, 127, 128, 255, 256, 65536, 1 << 20,
		INT32_MAX, INT32_MIN, 1LL << 32, 1LL << 40, 1LL << 62, INT64_MAX, INT64_MIN,
		INT64_MIN + 1, -(1LL << 32),
	};
	uint64_t r = rlx_test_rand(seed);

	switch (r % 8) {
	case 0: return v + 1;
	case 1: return v - 1;
	case 2: return -v;
	case 3: return v * 2;
	case 4: return (r >> 8) % 24;
	case 5: return -((r >> 8) % 12);
	default:
		return (uint64_t)edge[(r >> 8) % (sizeof(edge) / sizeof(*edge))];
	}
}

/* Some of @n bytes at @p, by the width of what they may be. */
static void change_bytes(uint8_t *p, size_t n, uint64_t *seed)
{
	static const float odd[] = { 0, -0.0f, 1, -1, NAN, INFINITY, -INFINITY, 3e38f, 1e-42f,
				     1e10f, -1e10f, 0.5f, 2.5f };
	uint64_t r = rlx_test_rand(seed), v;
	size_t width = (const size_t[]){ 1, 4, 8, 4 }[r % 4], at;
	float f = odd[(r >> 8) % (sizeof(odd) / sizeof(*odd))];

	if (!n)
		return;
	width = width > n ? 1 : width;
	at = (r >> 16) % (n / width) * width;
	v = 0;
	memcpy(&v, p + at, width);
	v = other_number(v, seed);
	memcpy(p + at, r % 4 == 3 && width == 4 ? (const void *)&f : (const void *)&v, width);
}

/* Bytes that are no message: some of them others, fewer, more, or none. */
static void put_bytes(struct walk *w, struct in body, bool here)
{
	size_t n = (size_t)(body.end - body.p), was = n, begin;
	uint64_t r = here ? rlx_test_rand(w->seed) : 7;

	if (r % 8 == 0)
		n = (r >> 8) % (n + 1);
	else if (r % 8 == 1)
		n += 1 + (r >> 8) % 16;
	put_varint(w, n);
	begin = w->n;
	put(w, body.p, n < was ? n : was);
	for (; was < n; was++)
		put(w, "\0", 1);
	if (here && !w->full)
		change_bytes(w->to + begin, n, w->seed);
}

static void copy(struct walk *w, struct in in, unsigned int depth);

/* A message within: what it takes is known behind it. */
static void put_within(struct walk *w, struct in body, unsigned int depth)
{
	struct walk part = *w;

	part.to = malloc(w->cap);
	part.n = 0;
	CHECK(part.to);
	copy(&part, body, depth + 1);
	w->nr = part.nr;
	w->full = w->full || part.full;
	put_varint(w, part.n);
	put(w, part.to, part.n);
	free(part.to);
}

static void put_field(struct walk *w, uint64_t key, uint64_t v, struct in body, unsigned int depth)
{
	bool here = w->nr++ == w->at;
	size_t begin;

	put_varint(w, key);
	begin = w->n;
	switch (key & 7) {
	case 0:
		put_varint(w, here ? other_number(v, w->seed) : v);
		break;
	case 2:
		if (!here && depth < DEPTH && is_message(body))
			put_within(w, body, depth);
		else
			put_bytes(w, body, here && !is_message(body));
		break;
	default:
		put(w, body.p, (size_t)(body.end - body.p));
		if (here && !w->full)
			change_bytes(w->to + begin, w->n - begin, w->seed);
	}
}

static void copy(struct walk *w, struct in in, unsigned int depth)
{
	struct in body = { 0 };
	uint64_t key, v, times;

	while (next_field(&in, &key, &v, &body)) {
		/* The place of the field as a whole, before those within it. */
		times = w->nr++ == w->at ? rlx_test_rand(w->seed) % 3 : 1;
		for (; times; times--)
			put_field(w, key, v, body, depth);
	}
}

size_t proto_mutate(const uint8_t *p, size_t n, uint8_t *to, size_t cap, uint64_t *seed)
{
	uint64_t times = 1 + rlx_test_rand(seed) % 3;
	uint8_t *from = malloc(cap);

	CHECK(from && n <= cap);
	memcpy(to, p, n);
	for (; times; times--) {
		struct walk w = { .to = to, .cap = cap, .at = UINT64_MAX, .seed = seed };
		struct in in = { from, from + n };

		memcpy(from, to, n);
		copy(&w, in, 0);
		w = (struct walk){ .to = to, .cap = cap, .seed = seed,
				   .at = rlx_test_rand(seed) % (w.nr ? w.nr : 1) };
		copy(&w, in, 0);
		if (w.full) {
			memcpy(to, from, n);
			break;
		}
		n = w.n;
	}
	free(from);
	return n;
}
