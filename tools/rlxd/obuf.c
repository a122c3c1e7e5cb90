// SPDX-License-Identifier: MIT
/* Text, numbers, JSON strings and base64 into a growing buffer. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/rlxd/budget.h"
#include "tools/rlxd/json_char.h"
#include "tools/rlxd/obuf.h"

enum { FORCED = 4096 /* an error has to be told */, LARGE = 1 << 20 };

static bool charge(struct obuf *o, size_t cap)
{
	if (!o->account)
		return true;
	if (cap > FORCED)
		return account_take(o->account, cap - o->cap);
	account_force(o->account, cap - o->cap);
	return true;
}

/* Room for @n more bytes, at the end; NULL when there is none. Then add to n. */
static char *obuf_reserve(struct obuf *o, size_t n)
{
	size_t need, cap;
	char *p;

	if (o->failed || !rlx_add(o->n, n, &need)) {
		o->failed = true;
		return NULL;
	}
	if (need <= o->cap)
		return o->p + o->n;
	/* Large ones move by their page tables: no need to grow by much. */
	cap = o->cap ? o->cap : 512;
	while (cap < need)
		if (!rlx_add(cap, cap < LARGE ? cap : cap / 4, &cap))
			cap = need;
	if (!charge(o, cap)) {
		o->failed = true;
		return NULL;
	}
	p = rlx_realloc(o->p, cap);
	if (!p) {
		if (o->account)
			account_give(o->account, cap - o->cap);
		o->failed = true;
		return NULL;
	}
	o->p = p;
	o->cap = cap;
	return o->p + o->n;
}

void obuf_put(struct obuf *o, const void *p, size_t n)
{
	char *to = obuf_reserve(o, n);

	if (!to || !n)
		return;
	memcpy(to, p, n);
	o->n += n;
}

void obuf_str(struct obuf *o, const char *s)
{
	obuf_put(o, s, strlen(s));
}

void obuf_fmt(struct obuf *o, const char *fmt, ...)
{
	va_list ap, again;
	char *to;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	to = n < 0 ? NULL : obuf_reserve(o, (size_t)n + 1);
	if (to) {
		vsnprintf(to, (size_t)n + 1, fmt, again);
		o->n += (size_t)n;
	}
	va_end(again);
	va_end(ap);
}

void obuf_u64(struct obuf *o, uint64_t v)
{
	char text[20];
	size_t at = sizeof(text);

	do
		text[--at] = (char)('0' + v % 10);
	while (v /= 10);
	obuf_put(o, text + at, sizeof(text) - at);
}

void obuf_int(struct obuf *o, int64_t v)
{
	if (v < 0)
		obuf_put(o, "-", 1);
	obuf_u64(o, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* The last @n digits of @v, two at a time, for each pair depends on a division alone. */
static void put_digits(char *to, uint32_t v, unsigned int n)
{
	static const char pair[] = "00010203040506070809101112131415161718192021222324"
		"25262728293031323334353637383940414243444546474849"
		"50515253545556575859606162636465666768697071727374"
		"75767778798081828384858687888990919293949596979899";

	for (; n > 1; n -= 2, v /= 100)
		memcpy(to + n - 2, pair + 2 * (v % 100), 2);
	if (n)
		*to = (char)('0' + v % 10);
}

/*
 * Most values of tensors lie between 1e-4 and 1e6: nine significant digits of
 * those come from one multiplication in double, which is exact enough to read
 * back as the same float, and no printf. No float so near below a power of ten is
 * rounded up to it: neighbours differ by more than the ninth digit there.
 */
static bool plain_float(struct obuf *o, double v)
{
	static const double power[] = {
		1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13,
	};
	enum { DIGITS = 9, ZEROS = 4 };
	char text[DIGITS + ZEROS + 4], digits[DIGITS], *p = text;
	double a = fabs(v);
	int before = 0, n = DIGITS;

	if (!(a >= 1e-4 && a < 1e6))
		return false;
	/* Digits before the point; below 0.1 there are as many zeros behind it. */
	while (a >= power[before])
		before++;
	while (a < 1 && a * power[1 - before] < 1)
		before--;
	put_digits(digits, (uint32_t)(a * power[DIGITS - before] + 0.5), DIGITS);
	while (n > 1 && n > before + 1 && digits[n - 1] == '0')
		n--;
	*p = '-';
	p += v < 0;
	if (before <= 0) {
		memcpy(p, "0.0000", 2 + ZEROS);
		p += 2 - before;
		before = 0;
	} else {
		memcpy(p, digits, DIGITS);
		p += before;
		*p++ = '.';
	}
	memcpy(p, digits + before, (size_t)(n - before));
	obuf_put(o, text, (size_t)(p + n - before - text));
	return true;
}

void obuf_float(struct obuf *o, float v)
{
	char text[40];
	int digits;

	if (!isfinite(v)) {
		obuf_str(o, "null");
		return;
	}
	if (v == 0) {
		obuf_str(o, signbit(v) ? "-0.0" : "0.0");
		return;
	}
	if (plain_float(o, (double)v))
		return;
	for (digits = 6; digits < 9; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, (double)v);
		if (strtof(text, NULL) == v)
			break;
	}
	obuf_fmt(o, "%.*g", digits, (double)v);
}

void obuf_double(struct obuf *o, double v)
{
	char text[40];
	int digits;

	if (!isfinite(v)) {
		obuf_str(o, "null");
		return;
	}
	for (digits = 15; digits < 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	obuf_fmt(o, "%.*g", digits, v);
}

void obuf_json(struct obuf *o, const char *s, size_t n)
{
	struct json_char c;
	size_t at;

	obuf_put(o, "\"", 1);
	for (at = 0; at < n; at += c.used) {
		c = json_char(s + at, n - at);
		obuf_put(o, c.p, c.n);
	}
	obuf_put(o, "\"", 1);
}

void obuf_base64(struct obuf *o, const void *p, size_t n)
{
	static const char set[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *s = p;
	uint32_t v;
	char *to;

	if (n > SIZE_MAX / 2) {
		o->failed = true;
		return;
	}
	to = obuf_reserve(o, (n + 2) / 3 * 4);
	if (!to)
		return;
	for (; n >= 3; n -= 3, s += 3) {
		v = (uint32_t)s[0] << 16 | (uint32_t)s[1] << 8 | s[2];
		*to++ = set[v >> 18];
		*to++ = set[v >> 12 & 63];
		*to++ = set[v >> 6 & 63];
		*to++ = set[v & 63];
	}
	if (n) {
		v = (uint32_t)s[0] << 16 | (n > 1 ? (uint32_t)s[1] << 8 : 0);
		*to++ = set[v >> 18];
		*to++ = set[v >> 12 & 63];
		*to++ = n > 1 ? set[v >> 6 & 63] : '=';
		*to++ = '=';
	}
	o->n = (size_t)(to - o->p);
}

void obuf_fini(struct obuf *o)
{
	if (o->account)
		account_give(o->account, o->cap);
	rlx_free(o->p);
	*o = (struct obuf){ .account = o->account };
}
