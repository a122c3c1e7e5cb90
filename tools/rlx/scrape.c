// SPDX-License-Identifier: MIT
/* A plain HTTP GET, lines of "key value", quantiles out of differences. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/rlx/out.h"
#include "tools/rlx/scrape.h"

enum { TEXT_MAX = 16 << 20 };

/* The whole reply, 0-ended. */
static enum rlx_status get(int fd, const char *key, char **out, struct rlx_error *err)
{
	static const char form[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
				   "Connection: close\r\n%s%s%s\r\n";
	size_t n = 0, cap = 64 << 10;
	char *p = rlx_malloc(cap), *q;
	bool with = key && *key;
	ssize_t k, asks;

	*out = NULL;
	if (!p)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	asks = snprintf(p, cap, form, with ? "Authorization: Bearer " : "", with ? key : "",
			with ? "\r\n" : "");
	if (send(fd, p, (size_t)asks, MSG_NOSIGNAL) != asks)
		goto out_broken;
	while ((k = recv(fd, p + n, cap - 1 - n, 0)) > 0) {
		n += (size_t)k;
		if (cap - n > 4096)
			continue;
		q = cap < TEXT_MAX ? rlx_realloc(p, 2 * cap) : NULL;
		if (!q)
			goto out_broken;
		p = q;
		cap *= 2;
	}
	p[n] = 0;
	if (k < 0 || strncmp(p, "HTTP/1.1 200", 12))
		goto out_broken;
	*out = p;
	return RLX_OK;
out_broken:
	rlx_free(p);
	return rlx_fail(err, RLX_EIO, "no metrics came: is it rlxd, and of this version?");
}

static enum rlx_status parse(struct scrape *s, struct rlx_error *err)
{
	char *line = strstr(s->text, "\r\n\r\n"), *end, *space;

	for (; line && *line; line = end) {
		line += strspn(line, "\r\n");
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = 0;
		space = strrchr(line, ' ');
		if (*line == '#' || !space)
			continue;
		*space = 0;
		if (!rlx_grow(&s->s, &s->cap, s->n + 1, sizeof(*s->s)))
			return rlx_fail(err, RLX_ENOMEM, "out of memory");
		s->s[s->n++] = (struct sample){ line, strtod(space + 1, NULL) };
	}
	return RLX_OK;
}

enum rlx_status scrape_read(const struct sockaddr_storage *to, socklen_t to_len,
			    const char *key, struct scrape *out, struct rlx_error *err)
{
	struct timeval limit = { .tv_sec = 10 };
	enum rlx_status st;
	int fd;

	*out = (struct scrape){ .when = now() };
	fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)to, to_len)) {
		rlx_fail(err, RLX_EIO, "cannot connect: %m");
		if (fd >= 0)
			close(fd);
		return RLX_EIO;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	st = get(fd, key, &out->text, err);
	close(fd);
	if (!st)
		st = parse(out, err);
	if (st)
		scrape_fini(out);
	return st;
}

void scrape_fini(struct scrape *s)
{
	rlx_free(s->text);
	rlx_free(s->s);
	*s = (struct scrape){ NULL };
}

double scrape_get(const struct scrape *s, const char *key)
{
	uint32_t i;

	for (i = 0; i < s->n; i++)
		if (!strcmp(s->s[i].key, key))
			return s->s[i].value;
	return 0;
}

double scrape_rate(const struct scrape *before, const struct scrape *s, const char *key)
{
	double d = scrape_get(s, key) - scrape_get(before, key), t = s->when - before->when;

	/* Less than before: the server was started anew in between. */
	return d > 0 && before->n && t > 0 ? d / t : 0;
}

double scrape_quantile(const struct scrape *before, const struct scrape *s, const char *name,
		       const char *labels, double q)
{
	char key[256], prefix[200];
	double all, low = 0, got, got_low = 0, bound;
	uint32_t i;

	snprintf(key, sizeof(key), "%s_bucket{%sle=\"+Inf\"}", name, labels);
	all = scrape_get(s, key) - scrape_get(before, key);
	if (!(all > 0))
		return 0;
	snprintf(prefix, sizeof(prefix), "%s_bucket{%sle=\"", name, labels);
	for (i = 0; i < s->n; i++) {
		if (strncmp(s->s[i].key, prefix, strlen(prefix)))
			continue;
		bound = strtod(s->s[i].key + strlen(prefix), NULL);
		got = s->s[i].value - scrape_get(before, s->s[i].key);
		if (got >= q * all)	/* within the bucket as if spread evenly */
			return isinf(bound) || got <= got_low ? low :
			       low + (bound - low) * (q * all - got_low) / (got - got_low);
		low = bound;
		got_low = got;
	}
	return low;
}
