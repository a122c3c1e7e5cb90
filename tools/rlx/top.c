// SPDX-License-Identifier: MIT
/* rlx top: what a server does now, from its metrics. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/rlx/address.h"
#include "tools/rlx/scrape.h"
#include "tools/rlx/terminal.h"
#include "tools/rlx/tool.h"

struct top_args {
	const char	*to, *key_file;
	double		 every;
	uint64_t	 count;
};

/* Keys that begin with @name and label @label get a row each. */
static const char *label_of(const char *key, const char *name, const char *label, char *out,
			    size_t size)
{
	size_t n = strlen(name);
	const char *p, *end;
	char want[64];

	snprintf(want, sizeof(want), "%s=\"", label);
	if (strncmp(key, name, n) || key[n] != '{')
		return NULL;
	p = strstr(key + n, want);
	end = p ? strchr(p + strlen(want), '"') : NULL;
	if (!end)
		return NULL;
	p += strlen(want);
	snprintf(out, size, "%.*s", (int)(end - p), p);
	return out;
}

static bool print_routes(const struct scrape *a, const struct scrape *b)
{
	static const struct table_col col[] = {
		{ "route", -1 }, { "status", -1 }, { "per_second", 1 }, { "all", 0 },
	};
	struct table t = { .col = col, .n_col = N_ELEM(col) };
	char route[64], code[16];
	bool ok;
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		const char *key = b->s[i].key;

		if (!label_of(key, "rlxd_requests_total", "route", route, sizeof(route)) ||
		    !label_of(key, "rlxd_requests_total", "code", code, sizeof(code)))
			continue;
		table_row(&t, (struct table_cell[]){ { route, NAN }, { code, NAN },
			  { NULL, scrape_rate(a, b, key) }, { NULL, b->s[i].value } });
	}
	ok = table_print(&t, TABLE_TEXT);
	table_fini(&t);
	return ok;
}

static double model_rate(const struct scrape *a, const struct scrape *b, const char *name,
			 const char *model, const char *more)
{
	char key[200];

	snprintf(key, sizeof(key), "%s{model=\"%s\"%s}", name, model, more);
	return scrape_rate(a, b, key);
}

static bool print_models(const struct scrape *a, const struct scrape *b)
{
	static const struct table_col col[] = {
		{ "model", -1 }, { "rows_s", 1 }, { "failed_s", 1 }, { "rows_batch", 1 },
		{ "waiting", 0 }, { "queue_p50_ms", 2 }, { "queue_p99_ms", 2 },
		{ "run_p50_ms", 2 }, { "run_p99_ms", 2 }, { "padding_%", 0 },
	};
	static const char queue[] = "rlxd_model_queue_seconds", run[] = "rlxd_model_run_seconds";
	struct table t = { .col = col, .n_col = N_ELEM(col) };
	char model[64], sel[80], key[160];
	uint32_t i;
	bool ok;

	for (i = 0; i < b->n; i++) {
		double rows, batches, tokens, pad;

		if (!label_of(b->s[i].key, "rlxd_model_queue_rows", "model", model, sizeof(model)))
			continue;
		snprintf(sel, sizeof(sel), "model=\"%s\",", model);
		snprintf(key, sizeof(key), "rlxd_model_queue_rows{model=\"%s\"}", model);
		rows = model_rate(a, b, "rlxd_model_rows_total", model, ",result=\"ok\"");
		batches = model_rate(a, b, "rlxd_model_batches_total", model, "");
		tokens = model_rate(a, b, "rlxd_model_tokens_total", model, ",kind=\"token\"");
		pad = model_rate(a, b, "rlxd_model_tokens_total", model, ",kind=\"padding\"");
		table_row(&t, (struct table_cell[]){ { model, NAN }, { NULL, rows },
			  { NULL, model_rate(a, b, "rlxd_model_rows_total", model,
					     ",result=\"failed\"") },
			  { NULL, batches > 0 ? rows / batches : NAN },
			  { NULL, scrape_get(b, key) },
			  { NULL, 1e3 * scrape_quantile(a, b, queue, sel, 0.5) },
			  { NULL, 1e3 * scrape_quantile(a, b, queue, sel, 0.99) },
			  { NULL, 1e3 * scrape_quantile(a, b, run, sel, 0.5) },
			  { NULL, 1e3 * scrape_quantile(a, b, run, sel, 0.99) },
			  { NULL, tokens + pad > 0 ? 100 * pad / (tokens + pad) : NAN } });
	}
	ok = table_print(&t, TABLE_TEXT);
	table_fini(&t);
	return ok;
}

static bool print(const struct top_args *a, const struct scrape *x, const struct scrape *y)
{
	char arenas[SIZE_TEXT], pinned[SIZE_TEXT], rss[SIZE_TEXT];
	bool ok;

	if (isatty(STDOUT_FILENO))
		terminal_put(stdout, "\033[H\033[2J");
	printf("%s  %s  %.0f connections  requests p50 %.2f ms  p99 %.2f ms\n", a->to,
	       scrape_get(y, "rlxd_ready") > 0 ? "ready" : "not ready",
	       scrape_get(y, "rlxd_connections"),
	       scrape_quantile(x, y, "rlxd_request_duration_seconds", "", 0.5) * 1e3,
	       scrape_quantile(x, y, "rlxd_request_duration_seconds", "", 0.99) * 1e3);
	printf("%.0f arenas  %s, pinned %s  resident %s  in %.2f MiB/s  out %.2f MiB/s\n\n",
	       scrape_get(y, "rlxd_arenas"),
	       size_text((uint64_t)scrape_get(y, "rlxd_arena_bytes"), arenas),
	       size_text((uint64_t)scrape_get(y, "rlxd_arena_pinned_bytes"), pinned),
	       size_text((uint64_t)scrape_get(y, "process_resident_memory_bytes"), rss),
	       scrape_rate(x, y, "rlxd_received_bytes_total") / 1048576,
	       scrape_rate(x, y, "rlxd_sent_bytes_total") / 1048576);
	ok = print_models(x, y);
	putchar('\n');
	ok = print_routes(x, y) && ok;
	return !fflush(stdout) && ok;
}

/* The first line of a file, without its end; false if it is empty or has no room. */
static bool read_key(const char *path, char *out, size_t max)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(out, (int)max, f) && (strlen(out) < max - 1 || feof(f));

	if (f)
		fclose(f);
	if (ok)
		out[strcspn(out, "\r\n")] = 0;
	return ok && *out;
}

static int watch(const struct top_args *a)
{
	struct scrape before = { 0 }, s = { 0 };
	struct sockaddr_storage to;
	struct rlx_error err = { 0 };
	struct timespec ts = { (time_t)a->every, (long)((a->every - floor(a->every)) * 1e9) };
	char key[256] = "";
	socklen_t n;
	uint64_t i;
	int rc = TOOL_OK;

	if (!address_parse(a->to, &to, &n))
		return tool_fail("top", TOOL_USAGE, "--to wants ADDRESS:PORT or unix:/PATH");
	if (a->key_file && !read_key(a->key_file, key, sizeof(key)))
		return tool_fail("top", TOOL_FAILED, "%s: no key of 1 to %zu bytes can be "
				 "read there", a->key_file, sizeof(key) - 2);
	/* One reading more than is shown: rates need two. */
	for (i = 0; !rc && (!a->count || i <= a->count); i++) {
		if (i)
			nanosleep(&ts, NULL);
		if (scrape_read(&to, n, key, &s, &err))
			rc = tool_fail("top", TOOL_FAILED, "%s: %s", a->to, err.text);
		else if (i && !print(a, &before, &s))
			rc = tool_fail("top", TOOL_FAILED, "cannot write to standard output");
		scrape_fini(&before);
		before = s;
		s = (struct scrape){ NULL };
	}
	scrape_fini(&before);
	return rc;
}

int cmd_top(int argc, char **argv)
{
	struct top_args a = { .to = "127.0.0.1:8000", .every = 1 };
	const struct arg arg[] = {
		{ "to", ARG_STR, &a.to, "ADDRESS", "127.0.0.1:PORT (8000) or unix:/PATH" },
		{ "key-file", ARG_STR, &a.key_file, "FILE",
		  "its first line is a key; without one a server\n"
		  "that has keys tells of no model" },
		{ "every", ARG_NUM, &a.every, "SECONDS", "between two readings (1)" },
		{ "count", ARG_UINT, &a.count, "N", "readings to show; 0: until interrupted (0)" },
	};
	const struct args args = {
		"top", "[--to ADDRESS] [OPTION ...]",
		"Shows what a server does: rows a second, batches, how long they wait and run,\n"
		"requests by route and status, connections, memory. Read from its metrics.",
		arg, N_ELEM(arg),
	};
	int rc;

	if (!args_parse(&args, argc, argv, &rc))
		return rc;
	if (!(a.every >= 0.05) || a.every > 3600)
		return tool_fail("top", TOOL_USAGE, "--every must be 0.05 to 3600");
	return watch(&a);
}
