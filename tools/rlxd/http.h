/* SPDX-License-Identifier: MIT */
/*
 * HTTP/1.1 requests out of bytes. The head must lie in one piece; llhttp reads it
 * after a check of its own that leaves no room for two readings of one head (bare
 * CR or LF, folded lines, blanks before a colon), as request smuggling needs them.
 */
#ifndef RLXD_HTTP_H
#define RLXD_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llhttp.h>

struct slice {
	const char	*p;
	size_t		 n;
};

enum { HTTP_HEADERS_MAX = 64 };

enum http_method { METHOD_GET, METHOD_HEAD, METHOD_POST, METHOD_OPTIONS, METHOD_OTHER };

/* Slices point into the head. */
struct http_head {
	enum http_method method;
	/* As sent; path begins with '/', or is "*" with METHOD_OPTIONS. */
	struct slice	 path, query;
	/* Host and port that it is for: the target's, if that names them, else Host's. */
	struct slice	 host;
	struct slice	 origin, content_type;
	struct slice	 authorization, api_key, content_encoding, request_id, traceparent;
	struct slice	 infer_length;		/* Inference-Header-Content-Length */
	bool		 keep_alive, chunked, expect;
	uint64_t	 length;		/* Content-Length, 0 if none */
};

/* What was wrong with a request: the reply's status and a text. */
struct http_error {
	int		 status;
	const char	*why;
};

struct http {
	llhttp_t	 parser;
	struct http_head *head;
	struct slice	 name, value, url;
	unsigned int	 n_header;
	bool		 have_host, have_origin, have_type, have_length, have_encoding;
	bool		 in_head, end;
	struct http_error err;
	/* Where the decoded body goes; false: it has no room. */
	bool		 (*put)(void *ctx, const char *p, size_t n);
	void		*ctx;
	uint64_t	 max_body;	/* of a chunked one, 0: any */
	uint64_t	 announced;	/* bytes of it so far, by the sizes of its chunks */
};

/*
 * The length of a head within @n bytes, its empty line included; 0: more is
 * needed. @from is where to go on looking, 0 at first.
 */
size_t http_head_length(const char *p, size_t n, size_t *from);

/*
 * Read a whole head; of @h only put, ctx and max_body are looked at. False: @h->err
 * says what to answer; then close. @out has what could be read of it, and http_refused().
 */
bool http_head(struct http *h, const char *p, size_t n, struct http_head *out);

/*
 * The method and the path of a head that is refused, whole or not, as far as its first line tells
 * them: whoever is told what was wrong is told so in the form of what was asked.
 */
void http_refused(struct http *h, const char *p, size_t n, struct http_head *out);

/*
 * Decode a chunked body behind a head; @out_used is how many of @n bytes belong to
 * it. When @h->end is set, the body was whole. A chunk that leads beyond max_body is
 * refused by its size, before a byte of it. False: as for http_head().
 */
bool http_chunks(struct http *h, const char *p, size_t n, size_t *out_used);

/* "OK" for 200 and so on. */
const char *http_reason(int status);

static inline bool slice_is(struct slice s, const char *text)
{
	size_t i;

	for (i = 0; i < s.n; i++)
		if (!text[i] || s.p[i] != text[i])
			return false;
	return !text[s.n];
}

/* All digits, no more than 18. */
bool slice_u64(struct slice s, uint64_t *out);

#endif
