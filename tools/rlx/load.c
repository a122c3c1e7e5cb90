// SPDX-License-Identifier: MIT
/* rlx load: asks a server at a given rate and tells how long replies took. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/formats/file.h"
#include "rlx/serve.h"
#include "tools/rlx/address.h"
#include "tools/rlx/load_run.h"
#include "tools/rlx/tool.h"

struct load_args {
	const char	*to, *path, *body, *data, *model, *ca;
	struct arg_list	 header, size;
	uint64_t	 connections;
	double		 rate, seconds, warm_up;
	bool		 same, raw, json, spin, insecure;
};

/* The address in "channel:ADDRESS"; NULL if it is of another kind. */
static const char *value_of_channel(const char *to)
{
	return !strncmp(to, "channel:", 8) ? to + 8 : NULL;
}

/* The request as it goes over the wire, the same each time. */
static int make_request(const struct load_args *a, struct load_plan *p, char **out)
{
	size_t body_n = a->data ? strlen(a->data) : 0, n = 1024, at;
	const char *body = a->data;
	struct rlx_error err = { 0 };
	struct rlx_file f = { 0 };
	unsigned int i;
	char *q;

	if (a->body && rlx_file_map(&f, a->body, &err))
		return tool_fail("load", TOOL_FAILED, "%s", err.text);
	if (a->body) {
		body = (const char *)f.p;
		body_n = f.n;
	}
	for (i = 0; i < a->header.n; i++)
		n += strlen(a->header.v[i]) + 2;
	n += strlen(a->path) + body_n;
	q = *out = rlx_malloc(n);
	if (!q) {
		rlx_file_unmap(&f);
		return tool_fail("load", TOOL_FAILED, "out of memory");
	}
	at = 0;
	if (!a->raw) {
		at = (size_t)snprintf(q, n, "%s %s HTTP/1.1\r\nHost: %s\r\n",
				      body ? "POST" : "GET", a->path,
				      p->tls ? load_tls_host(p->tls) : a->to);
		for (i = 0; i < a->header.n; i++)
			at += (size_t)snprintf(q + at, n - at, "%s\r\n", a->header.v[i]);
		if (body)
			at += (size_t)snprintf(q + at, n - at, "Content-Length: %zu\r\n", body_n);
		at += (size_t)snprintf(q + at, n - at, "\r\n");
	}
	if (body_n)
		memcpy(q + at, body, body_n);
	p->request = q;
	p->request_n = at + body_n;
	rlx_file_unmap(&f);
	return TOOL_OK;
}

static void print_times(struct out *o, const char *name, const struct hist *h)
{
	static const struct { const char *key; double q; } at[] = {
		{ "p50_us", 0.5 }, { "p90_us", 0.9 }, { "p99_us", 0.99 }, { "p99_9_us", 0.999 },
		{ "max_us", 1 },
	};
	unsigned int i;

	out_section(o, name);
	out_num(o, "mean_us", h->n ? h->sum / (double)h->n * 1e-3 : 0, 1, "");
	for (i = 0; i < N_ELEM(at); i++)
		out_num(o, at[i].key, hist_quantile(h, at[i].q) * 1e-3, 1, "");
	out_section_end(o);
}

static int report(const struct load_args *a, const struct load_result *r)
{
	uint64_t bad = r->bad_status + r->differ + r->broken + r->late;
	struct out o;

	out_begin(&o, a->json);
	out_section(&o, "requests");
	out_int(&o, "ok", (int64_t)r->ok);
	out_int(&o, "bad_status", (int64_t)r->bad_status);
	out_int(&o, "differing", (int64_t)r->differ);
	out_int(&o, "broken", (int64_t)r->broken);
	out_int(&o, "never_begun", (int64_t)r->late);
	if (r->bad_status) {
		out_int(&o, "status", r->status);
		out_str(&o, "reply", r->text);
	}
	out_num(&o, "per_second", (double)r->ok / r->seconds, 1, "");
	out_num(&o, "mib_per_second", (double)r->bytes_in / r->seconds / 1048576, 2, "");
	out_section_end(&o);
	print_times(&o, "from_when_due", &r->time);
	print_times(&o, "from_when_sent", &r->service);
	if (!out_end(&o))
		return tool_fail("load", TOOL_FAILED, "cannot write to standard output");
	return bad || !r->ok ? TOOL_MISMATCH : TOOL_OK;
}

/* What a channel is asked for; nothing of HTTP. */
static int check_channel(const struct load_args *a, struct load_plan *p)
{
	unsigned int i;
	uint64_t size;

	p->channel = value_of_channel(a->to);
	p->model = a->model;
	p->spin = a->spin;
	if (!p->channel)
		return a->model || a->size.n || a->spin ?
		       tool_fail("load", TOOL_USAGE, "--model, --size and --spin are for --to "
				 "channel:ADDRESS") : TOOL_OK;
	if (!a->model || strlen(a->model) > RLXD_NAME)
		return tool_fail("load", TOOL_USAGE, "a channel wants --model NAME");
	if (a->body || a->data || a->raw || a->header.n)
		return tool_fail("load", TOOL_USAGE, "--data, --body, --header and --raw are "
				 "for HTTP");
	if (a->connections > RLX_CHANNEL_DEPTH_MAX || a->size.n > RLXD_SIZES)
		return tool_fail("load", TOOL_USAGE, "over a channel at most %d --connections "
				 "and %d --size", RLX_CHANNEL_DEPTH_MAX, RLXD_SIZES);
	for (i = 0; i < a->size.n; i++) {
		if (!parse_u64(a->size.v[i], 999999999, &size) || !size)
			return tool_fail("load", TOOL_USAGE, "--size is '%s', want 1 to 999999999",
					 a->size.v[i]);
		p->size[i] = (uint32_t)size;
	}
	return TOOL_OK;
}

/* Where requests go to, over HTTP. */
static int check_address(const struct load_args *a, struct load_plan *p)
{
	struct rlx_error err = { 0 };
	enum rlx_status st;

	if (strncmp(a->to, "https://", 8)) {
		if (a->ca || a->insecure)
			return tool_fail("load", TOOL_USAGE, "--ca and --insecure are for --to "
					 "https://NAME:PORT");
		return value_of_channel(a->to) || address_parse(a->to, &p->to, &p->to_len) ?
		       TOOL_OK : tool_fail("load", TOOL_USAGE, "--to wants ADDRESS:PORT, "
					   "https://NAME:PORT, unix:/PATH or channel:/PATH");
	}
	if (a->ca && a->insecure)
		return tool_fail("load", TOOL_USAGE, "--ca and --insecure exclude each other");
	st = load_tls_open(a->to, a->ca, a->insecure, &p->tls, &err);
	if (st)
		return tool_fail("load", st == RLX_EINVAL ? TOOL_USAGE : TOOL_FAILED, "%s",
				 err.text);
	p->to = *load_tls_address(p->tls, &p->to_len);
	return TOOL_OK;
}

static int check(const struct load_args *a, struct load_plan *p)
{
	unsigned int i;
	int rc;

	if (!a->connections || a->connections > 10000)
		return tool_fail("load", TOOL_USAGE, "--connections must be 1 to 10000");
	if (!(a->rate >= 0 && a->rate <= 1e7))
		return tool_fail("load", TOOL_USAGE, "--rate must be 0 to 10000000 a second");
	if (!(a->seconds > 0 && a->seconds <= 86400))
		return tool_fail("load", TOOL_USAGE, "--seconds must be above 0, to 86400");
	if (!(a->warm_up >= 0 && a->warm_up <= 3600))
		return tool_fail("load", TOOL_USAGE, "--warm-up must be 0 to 3600 seconds");
	if (a->body && a->data)
		return tool_fail("load", TOOL_USAGE, "--body and --data exclude each other");
	if (*a->path != '/' || strpbrk(a->path, " \t\r\n"))
		return tool_fail("load", TOOL_USAGE, "--path begins with / and has no blanks or "
				 "ends of lines");
	if (a->raw && !a->body && !a->data)
		return tool_fail("load", TOOL_USAGE, "--raw needs --body or --data");
	for (i = 0; i < a->header.n; i++)
		if (strpbrk(a->header.v[i], "\r\n") || !strchr(a->header.v[i], ':'))
			return tool_fail("load", TOOL_USAGE, "--header wants 'NAME: VALUE'");
	p->connections = (unsigned int)a->connections;
	p->rate = a->rate;
	p->seconds = a->seconds;
	p->warm_up = a->warm_up;
	p->same = a->same;
	p->raw = a->raw;
	rc = check_channel(a, p);
	return rc ? rc : check_address(a, p);
}

int cmd_load(int argc, char **argv)
{
	struct load_args a = {
		.to = "127.0.0.1:8000", .path = "/v1/embeddings", .connections = 1,
		.seconds = 10, .warm_up = 1,
	};
	const struct arg arg[] = {
		{ "to", ARG_STR, &a.to, "ADDRESS", "127.0.0.1:PORT (8000), unix:/PATH,\n"
		  "https://NAME:PORT; or channel:/PATH or\nchannel:@NAME of rlxd" },
		{ "ca", ARG_STR, &a.ca, "FILE", "whose signature the server's certificate, of\n"
		  "NAME, must have (one that the system trusts)" },
		{ "insecure", ARG_FLAG, &a.insecure, NULL, "take any certificate, of whomever" },
		{ "path", ARG_STR, &a.path, "PATH", "(/v1/embeddings)" },
		{ "data", ARG_STR, &a.data, "TEXT", "the body; without one it is a GET" },
		{ "body", ARG_STR, &a.body, "FILE", "the body out of a file" },
		{ "header", ARG_LIST, &a.header, "LINE", "'NAME: VALUE', one each time" },
		{ "model", ARG_STR, &a.model, "NAME", "what a channel is asked for" },
		{ "size", ARG_LIST, &a.size, "N", "its inputs' free sizes, one each time (1)" },
		{ "spin", ARG_FLAG, &a.spin, NULL, "on a channel: wait without sleeping" },
		{ "connections", ARG_UINT, &a.connections, "N",
		  "(1); over a channel, requests under way" },
		{ "rate", ARG_NUM, &a.rate, "N",
		  "requests a second; 0: on each connection one\n"
		  "behind the other (0)" },
		{ "seconds", ARG_NUM, &a.seconds, "N", "to measure (10)" },
		{ "warm-up", ARG_NUM, &a.warm_up, "N", "seconds before that (1)" },
		{ "same", ARG_FLAG, &a.same, NULL, "bodies of replies must all be alike" },
		{ "raw", ARG_FLAG, &a.raw, NULL, "no HTTP: the body goes out, as many bytes\n"
		  "come back; to compare with an echo" },
		{ "json", ARG_FLAG, &a.json, NULL, "print JSON" },
	};
	const struct args args = {
		"load", "[--to ADDRESS] --data TEXT [OPTION ...]",
		"Asks a server again and again, and tells how long replies took. With --rate\n"
		"requests begin by the clock, and a reply's time counts from when its request\n"
		"was due: what a stall held up shows. Those for which no connection was free in\n"
		"time begin up to ten seconds late. Failed is a request with another status\n"
		"than 200, with --same another body, on a connection that broke, or that was\n"
		"never begun.",
		arg, N_ELEM(arg), .mismatch = "a request failed or none was answered",
	};
	struct load_result *r = rlx_calloc(1, sizeof(*r));
	struct load_plan p = { .rate = 0 };
	struct rlx_error err = { 0 };
	char *request = NULL;
	int rc = TOOL_OK;

	if (!r)
		return tool_fail("load", TOOL_FAILED, "out of memory");
	if (args_parse(&args, argc, argv, &rc)) {
		rc = check(&a, &p);
		rc = rc || p.channel ? rc : make_request(&a, &p, &request);
		if (!rc && (p.channel ? load_run_channel : load_run)(&p, r, &err))
			rc = tool_fail("load", TOOL_FAILED, "%s%s%s", p.channel ? "" : a.to,
				       p.channel ? "" : ": ", err.text);
		rc = rc ? rc : report(&a, r);
	}
	load_tls_close(p.tls);
	rlx_free(request);
	rlx_free(r);
	arg_list_free(&a.header);
	arg_list_free(&a.size);
	return rc;
}
