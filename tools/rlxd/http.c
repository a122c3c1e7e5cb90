// SPDX-License-Identifier: MIT
/* Heads and chunked bodies through llhttp, with what it is lenient about refused. */
#include <string.h>
#include <strings.h>

#include "tools/rlxd/http.h"

bool slice_u64(struct slice s, uint64_t *out)
{
	uint64_t v = 0;
	size_t i;

	if (!s.n || s.n > 18)
		return false;
	for (i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(s.p[i] - '0');
	}
	*out = v;
	return true;
}

size_t http_head_length(const char *p, size_t n, size_t *from)
{
	size_t at = *from > 3 ? *from - 3 : 0;
	const char *lf;

	while (at < n && (lf = memchr(p + at, '\n', n - at))) {
		at = (size_t)(lf - p) + 1;
		if (at >= 4 && !memcmp(p + at - 4, "\r\n\r\n", 4))
			return at;
	}
	*from = n;
	return 0;
}

static bool fail(struct http *h, int status, const char *why)
{
	if (!h->err.status)
		h->err = (struct http_error){ status, why };
	return false;
}

static bool is_token(unsigned char c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Each line ends in CR LF, each name is a token with its colon next to it. */
static bool check_lines(struct http *h, const char *p, size_t n)
{
	const char *end = p + n - 2, *line, *colon, *q;
	bool first = true;

	for (line = p; line < end; line = q + 2, first = false) {
		q = memchr(line, '\r', (size_t)(end - line) + 1);
		if (!q || q[1] != '\n')
			return fail(h, 400, "a line of the head does not end in CR LF");
		if (memchr(line, '\n', (size_t)(q - line)) || memchr(line, 0, (size_t)(q - line)))
			return fail(h, 400, "a bare line feed or a zero byte in the head");
		if (first)
			continue;
		if (*line == ' ' || *line == '\t')
			return fail(h, 400, "a folded header line");
		for (colon = line; colon < q && is_token((unsigned char)*colon); colon++)
			;
		if (colon == line || colon == q || *colon != ':')
			return fail(h, 400, "a header line is not NAME: VALUE");
	}
	return true;
}

static int extend(struct slice *s, const char *p, size_t n)
{
	if (s->p && s->p + s->n == p)
		s->n += n;
	else
		*s = (struct slice){ p, n };
	return 0;
}

static int on_url(llhttp_t *l, const char *p, size_t n)
{
	struct http *h = l->data;

	return extend(&h->url, p, n);
}

static int on_name(llhttp_t *l, const char *p, size_t n)
{
	struct http *h = l->data;

	return h->in_head ? extend(&h->name, p, n) : 0;
}

static int on_value(llhttp_t *l, const char *p, size_t n)
{
	struct http *h = l->data;

	return h->in_head ? extend(&h->value, p, n) : 0;
}

static bool name_is(struct slice s, const char *name)
{
	return s.n == strlen(name) && !strncasecmp(s.p, name, s.n);
}

static bool value_is(struct slice s, const char *v)
{
	return s.n == strlen(v) && !strncasecmp(s.p, v, s.n);
}

static int once(struct http *h, bool *have, const char *why)
{
	if (*have) {
		fail(h, 400, why);
		return -1;
	}
	*have = true;
	return 0;
}

/* One header is whole. What decides where a message ends may come but once. */
static int take_header(struct http *h, struct slice n, struct slice v)
{
	struct http_head *o = h->head;

	if (name_is(n, "host")) {
		o->host = v;
		return once(h, &h->have_host, "two Host headers");
	}
	if (name_is(n, "origin")) {
		o->origin = v;
		return once(h, &h->have_origin, "two Origin headers");
	}
	if (name_is(n, "content-type")) {
		o->content_type = v;
		return once(h, &h->have_type, "two Content-Type headers");
	}
	if (name_is(n, "content-length"))
		return once(h, &h->have_length, "two Content-Length headers");
	if (name_is(n, "transfer-encoding")) {
		if (!value_is(v, "chunked")) {
			fail(h, 501, "a transfer encoding other than chunked");
			return -1;
		}
		return once(h, &h->have_encoding, "two Transfer-Encoding headers");
	}
	if (name_is(n, "expect")) {
		/* There is no interim reply in HTTP/1.0 (RFC 9110, 10.1.1). */
		if (!h->parser.http_minor)
			return 0;
		if (!value_is(v, "100-continue")) {
			fail(h, 417, "an expectation other than 100-continue");
			return -1;
		}
		o->expect = true;
	} else if (name_is(n, "authorization")) {
		o->authorization = v;
	} else if (name_is(n, "api-key") || name_is(n, "x-api-key")) {
		o->api_key = v;
	} else if (name_is(n, "content-encoding") && !value_is(v, "identity")) {
		o->content_encoding = v;
	} else if (name_is(n, "x-request-id")) {
		o->request_id = v;
	} else if (name_is(n, "traceparent")) {
		o->traceparent = v;
	} else if (name_is(n, "inference-header-content-length")) {
		o->infer_length = v;
	}
	return 0;
}

static int on_header_end(llhttp_t *l)
{
	struct http *h = l->data;
	struct slice n = h->name, v = h->value;

	h->name = h->value = (struct slice){ NULL, 0 };
	if (!h->in_head)
		return 0;
	if (++h->n_header > HTTP_HEADERS_MAX) {
		fail(h, 431, "too many headers");
		return -1;
	}
	return take_header(h, n, v);
}

static int on_headers_end(llhttp_t *l)
{
	struct http *h = l->data;
	struct http_head *o = h->head;

	o->keep_alive = llhttp_should_keep_alive(l);
	o->chunked = h->have_encoding;
	o->length = h->have_length ? l->content_length : 0;
	h->in_head = false;
	return HPE_PAUSED;
}

static const char too_large[] = "the body is larger than max_body or max_memory";

static int on_chunk_header(llhttp_t *l)
{
	struct http *h = l->data;

	if (!h->max_body || l->content_length <= h->max_body - h->announced) {
		h->announced += l->content_length;
		return 0;
	}
	fail(h, 413, too_large);
	return -1;
}

static int on_body(llhttp_t *l, const char *p, size_t n)
{
	struct http *h = l->data;

	if (h->put(h->ctx, p, n))
		return 0;
	fail(h, 503, "too many bytes of requests are held (max_memory); try again later");
	return -1;
}

static int on_end(llhttp_t *l)
{
	struct http *h = l->data;

	h->end = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_url			  = on_url,
	.on_header_field	  = on_name,
	.on_header_value	  = on_value,
	.on_header_value_complete = on_header_end,
	.on_headers_complete	  = on_headers_end,
	.on_chunk_header	  = on_chunk_header,
	.on_body		  = on_body,
	.on_message_complete	  = on_end,
};

static enum http_method method_of(uint8_t m)
{
	switch (m) {
	case 1:	return METHOD_GET;
	case 2:	return METHOD_HEAD;
	case 3:	return METHOD_POST;
	case 6:	return METHOD_OPTIONS;
	default: return METHOD_OTHER;
	}
}

/*
 * The absolute form, as proxies are asked with: its host counts, whatever Host says
 * (RFC 9112, 3.2.2). The rest of it goes to @u; false: it has another form.
 */
static bool take_authority(struct http *h, struct slice *u)
{
	const char *at = u->p + (u->n > 7 && !strncasecmp(u->p, "http://", 7) ? 7 :
				 u->n > 8 && !strncasecmp(u->p, "https://", 8) ? 8 : 0);
	const char *end = u->p + u->n, *p = at;

	while (p < end && *p != '/' && *p != '?')
		p++;
	if (at == u->p || p == at || memchr(at, '@', (size_t)(p - at)))
		return false;
	h->head->host = (struct slice){ at, (size_t)(p - at) };
	*u = (struct slice){ p, (size_t)(end - p) };
	/* Without a path it is "/", such as the one before the host. */
	if (p == end || *p == '?') {
		if (p < end)
			h->head->query = (struct slice){ p + 1, u->n - 1 };
		*u = (struct slice){ at - 1, 1 };
	}
	return true;
}

/* A path, perhaps a query; with a host before it; or "*", where that has a meaning. */
static bool split_url(struct http *h)
{
	struct slice u = h->url;
	const char *q;
	size_t i;

	if (u.n == 1 && *u.p == '*' && h->head->method == METHOD_OPTIONS) {
		h->head->path = u;
		return true;
	}
	if (!u.n || (*u.p != '/' && !take_authority(h, &u)))
		return fail(h, 400, "the request target is neither a path that begins with '/' nor "
			    "http://HOST/PATH");
	q = memchr(u.p, '?', u.n);
	h->head->path = (struct slice){ u.p, q ? (size_t)(q - u.p) : u.n };
	if (q)
		h->head->query = (struct slice){ q + 1, u.n - (size_t)(q - u.p) - 1 };
	/* Refused with its path known: the reply is in the form of that API. */
	for (i = 0; i < h->url.n; i++)
		if ((unsigned char)h->url.p[i] <= ' ' || (unsigned char)h->url.p[i] >= 0x7f)
			return fail(h, 400, "the request target holds a byte that must be escaped");
	return true;
}

void http_refused(struct http *h, const char *p, size_t n, struct http_head *out)
{
	static const char *const names[] = { "GET", "HEAD", "POST", "OPTIONS" };
	const char *line = memchr(p, '\n', n), *end = line ? line : p + n;
	const char *at = memchr(p, ' ', (size_t)(end - p)), *to;
	enum http_method m = METHOD_GET;

	h->head = out;
	out->method = METHOD_OTHER;
	if (!at)
		return;
	for (; m < METHOD_OTHER; m++)
		if (slice_is((struct slice){ p, (size_t)(at - p) }, names[m]))
			out->method = m;
	at++;
	for (to = at; to < end && *to != ' ' && *to != '\r'; to++)
		;
	h->url = (struct slice){ at, (size_t)(to - at) };
	(void)split_url(h);
}

static bool read_head(struct http *h, const char *p, size_t n)
{
	llhttp_errno_t rc;

	if (!check_lines(h, p, n))
		return false;
	llhttp_init(&h->parser, HTTP_REQUEST, &settings);
	h->parser.data = h;
	rc = llhttp_execute(&h->parser, p, n);
	if (h->err.status)
		return false;
	if (rc == HPE_INVALID_METHOD)
		return fail(h, 501, "an unknown method");
	if (rc == HPE_INVALID_VERSION)
		return fail(h, 505, "not HTTP/1.1 or HTTP/1.0");
	if (rc != HPE_PAUSED || h->in_head)
		return fail(h, 400, rc ? llhttp_get_error_reason(&h->parser) : "no HTTP request");
	if (h->parser.http_major != 1 || h->parser.http_minor > 1)
		return fail(h, 505, "not HTTP/1.1 or HTTP/1.0");
	if (h->parser.http_minor && !h->have_host)
		return fail(h, 400, "no Host header");
	if (h->have_length && h->have_encoding)
		return fail(h, 400, "both Content-Length and Transfer-Encoding");
	if (h->have_encoding && !h->parser.http_minor)
		return fail(h, 400, "Transfer-Encoding in HTTP/1.0");
	/* Asking to upgrade may be ignored, but llhttp ends such a message here. */
	if (h->parser.upgrade && h->have_encoding)
		return fail(h, 501, "a chunked request to upgrade the protocol");
	return true;
}

bool http_head(struct http *h, const char *p, size_t n, struct http_head *out)
{
	bool ok;

	*out = (struct http_head){ 0 };
	*h = (struct http){ .head = out, .in_head = true, .put = h->put, .ctx = h->ctx,
			    .max_body = h->max_body };
	ok = read_head(h, p, n);
	if (!ok) {
		http_refused(h, p, n, out);
		return false;
	}
	out->method = method_of(h->parser.method);
	return split_url(h);
}

bool http_chunks(struct http *h, const char *p, size_t n, size_t *out_used)
{
	llhttp_errno_t rc;

	llhttp_resume(&h->parser);
	rc = llhttp_execute(&h->parser, p, n);
	*out_used = n;
	if (h->err.status)
		return false;
	if (rc == HPE_PAUSED && h->end) {
		*out_used = (size_t)(llhttp_get_error_pos(&h->parser) - p);
		return true;
	}
	/* The only thing wrong with the size of a chunk that is made of digits alone. */
	if (rc == HPE_INVALID_CHUNK_SIZE &&
	    !strcmp(llhttp_get_error_reason(&h->parser), "Chunk size overflow"))
		return fail(h, 413, too_large);
	if (rc)
		return fail(h, 400, "the chunked body is malformed");
	return true;
}

const char *http_reason(int status)
{
	switch (status) {
	case 100: return "Continue";
	case 200: return "OK";
	case 204: return "No Content";
	case 400: return "Bad Request";
	case 401: return "Unauthorized";
	case 403: return "Forbidden";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 408: return "Request Timeout";
	case 409: return "Conflict";
	case 413: return "Content Too Large";
	case 415: return "Unsupported Media Type";
	case 417: return "Expectation Failed";
	case 422: return "Unprocessable Content";
	case 429: return "Too Many Requests";
	case 431: return "Request Header Fields Too Large";
	case 499: return "Client Closed Request";
	case 500: return "Internal Server Error";
	case 501: return "Not Implemented";
	case 503: return "Service Unavailable";
	case 504: return "Gateway Timeout";
	case 505: return "HTTP Version Not Supported";
	default: return "Error";
	}
}
