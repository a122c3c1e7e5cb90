// SPDX-License-Identifier: MIT
/*
 * Fuzzes the reading of HTTP: the same bytes whole and in two pieces must be
 * understood, or refused, alike.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/rlxd/http.h"
#include "tools/rlxd/origin.h"

struct seen {
	struct http_head head;
	char		 body[4096];
	size_t		 n;
	int		 status;
	bool		 end;
};

static const struct conf_server some = {
	.hosts = { { "rlxd.example", "b" }, 2 }, .cors_origins = { { "null", "x" }, 2 },
};

static bool put(void *ctx, const char *p, size_t n)
{
	struct seen *s = ctx;

	if (n > sizeof(s->body) - s->n)
		return false;
	memcpy(s->body + s->n, p, n);
	s->n += n;
	return true;
}

static void inside(struct slice s, const uint8_t *data, size_t size)
{
	if (s.n && ((const uint8_t *)s.p < data || (const uint8_t *)s.p + s.n > data + size))
		__builtin_trap();
}

/* Returns false if no head is whole. @cut: where the body is split. */
static bool read_all(const uint8_t *data, size_t size, size_t cut, struct seen *out)
{
	struct http h = { .put = put, .ctx = out, .max_body = sizeof(out->body) };
	size_t from = 0, used, at, n;

	memset(out, 0, sizeof(*out));
	at = http_head_length((const char *)data, size, &from);
	if (!at)
		return false;
	if (!http_head(&h, (const char *)data, at, &out->head)) {
		out->status = h.err.status;
		return true;
	}
	inside(out->head.path, data, at);
	inside(out->head.query, data, at);
	inside(out->head.authorization, data, at);
	inside(out->head.request_id, data, at);
	inside(out->head.infer_length, data, at);
	inside(out->head.host, data, at);
	inside(out->head.origin, data, at);
	inside(out->head.content_type, data, at);
	/* Whatever they hold, they are read without a fault. */
	origin_host_is_ours(out->head.host, &some.hosts);
	origin_is_allowed(out->head.origin, out->head.host, &some);
	origin_type_is_json(out->head.content_type);
	if (!out->head.path.n ||
	    (*out->head.path.p != '/' && !(slice_is(out->head.path, "*") &&
					   out->head.method == METHOD_OPTIONS)))
		__builtin_trap();
	while (out->head.chunked && at < size && !h.end) {
		n = at < cut && cut < size ? cut - at : size - at;
		if (!http_chunks(&h, (const char *)data + at, n, &used)) {
			out->status = h.err.status;
			return true;
		}
		if (used > n)
			__builtin_trap();
		at += used;
	}
	out->end = h.end;
	return true;
}

/* Called by libFuzzer. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct seen a, b;
	struct http_head part = { 0 };
	size_t from, k, whole;
	struct http h = { 0 };

	if (size < 2)
		return 0;
	/* What there is of a head that is refused, whole or not. */
	http_refused(&h, (const char *)data, size, &part);
	inside(part.path, data, size);
	inside(part.host, data, size);
	/* Looking for the end of the head piece by piece finds the same end. */
	from = 0;
	whole = http_head_length((const char *)data, size, &from);
	for (from = 0, k = 1; k < size; k += 1 + k / 8)
		if (http_head_length((const char *)data, k, &from) && whole > k)
			__builtin_trap();
	if (!read_all(data, size, size, &a) || !read_all(data, size, data[0] * size / 256, &b))
		return 0;
	if (a.status != b.status || a.end != b.end || a.n != b.n || memcmp(a.body, b.body, a.n))
		__builtin_trap();
	return 0;
}
