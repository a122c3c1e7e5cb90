// SPDX-License-Identifier: MIT
/* rlx embed: paragraphs of text files found again by meaning. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "mem/arena.h"
#include "tools/rlx/corpus.h"
#include "tools/rlx/encoder.h"
#include "tools/rlx/precision.h"
#include "tools/rlx/tool.h"

struct embed_args {
	const char	*model, *tokenizer, *device;
	struct arg_list	 corpus, query;
	uint64_t	 top, max_tokens, min_letters, threads;
	int		 precision;
	bool		 json;
};

struct hit {
	uint32_t	para;
	float		score;
};

struct embed {
	const struct embed_args	*a;
	struct corpus		 corpus;
	struct encoder		 enc;
	uint32_t		*query_tokens;
	float			*ms;		/* of each paragraph, then sorted */
	uint32_t		 n_bad;		/* paragraphs that are not UTF-8 */
	uint64_t		 tokens;
	double			 seconds, load_seconds;
	uint64_t		 copied;	/* bytes, after load */
};

static int told(const struct rlx_error *err)
{
	return tool_fail("embed", TOOL_FAILED, "%s",
			 *err->text ? err->text : rlx_status_name(err->status));
}

/* Count tokens of everything; what is not UTF-8 leaves the corpus here. */
static enum rlx_status count(struct embed *m, struct rlx_error *err)
{
	struct corpus *c = &m->corpus;
	struct rlx_error one;
	uint32_t i, n = 0;
	enum rlx_status st;

	for (i = 0; i < c->n_para; i++) {
		one = (struct rlx_error){ 0 };
		st = encoder_count(&m->enc, c->para[i].text, c->para[i].len,
				   &c->para[i].tokens, &one);
		if (st == RLX_EPARSE) {
			m->n_bad++;
			continue;
		}
		if (st) {
			*err = one;
			return st;
		}
		m->tokens += c->para[i].tokens;
		c->para[n++] = c->para[i];
	}
	c->n_para = n;
	for (i = 0; i < m->a->query.n; i++)
		if (encoder_count(&m->enc, m->a->query.v[i], strlen(m->a->query.v[i]),
				  &m->query_tokens[i], err))
			return err->status;
	return RLX_OK;
}

static enum rlx_status load(struct embed *m, struct rlx_error *err)
{
	const struct embed_args *a = m->a;
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = a->device,
		.threads = (unsigned int)a->threads,
		.precision = (enum rlx_precision)a->precision,
	};
	enum rlx_status st = RLX_OK;
	unsigned int i;

	for (i = 0; !st && i < a->corpus.n; i++)
		st = corpus_add(&m->corpus, a->corpus.v[i], err);
	if (!st)
		st = corpus_split(&m->corpus, (uint32_t)a->min_letters, err);
	if (!st && !m->corpus.n_para)
		st = rlx_fail(err, RLX_ENOENT,
			      "no paragraph under %s%s: %u text files, %u others, "
			      "%u paragraphs too short",
			      a->corpus.v[0], a->corpus.n > 1 ? " and the others" : "",
			      m->corpus.n_file, m->corpus.n_binary, m->corpus.n_short);
	if (!st)
		st = encoder_open(&m->enc, a->model, a->tokenizer, &o,
				  (uint32_t)a->max_tokens, err);
	m->query_tokens = rlx_calloc(a->query.n + 1u, sizeof(*m->query_tokens));
	m->ms = rlx_calloc(m->corpus.n_para + 1u, sizeof(*m->ms));
	if (!st && (!m->query_tokens || !m->ms))
		st = rlx_fail(err, RLX_ENOMEM, "out of memory");
	if (!st)
		st = count(m, err);
	return st ? st : encoder_load(&m->enc, (uint64_t)m->corpus.n_para + a->query.n, err);
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static enum rlx_status embed_all(struct embed *m, struct rlx_error *err)
{
	const struct corpus *c = &m->corpus;
	double begin = now(), at = begin, next;
	struct rlx_stats before, after;
	struct progress p;
	enum rlx_status st = RLX_OK;
	uint32_t i;

	rlx_stats_read(&before);
	progress_begin(&p, "embedding", c->n_para);
	for (i = 0; !st && i < c->n_para; i++) {
		st = encoder_run(&m->enc, c->para[i].text, c->para[i].len,
				 c->para[i].tokens, i, err);
		next = now();
		m->ms[i] = (float)((next - at) * 1e3);
		at = next;
		progress_at(&p, i + 1);
	}
	progress_end(&p);
	m->seconds = now() - begin;
	for (i = 0; !st && i < m->a->query.n; i++)
		st = encoder_run(&m->enc, m->a->query.v[i], strlen(m->a->query.v[i]),
				 m->query_tokens[i], c->n_para + i, err);
	rlx_stats_read(&after);
	m->copied = after.bytes_copied - before.bytes_copied;
	qsort(m->ms, c->n_para, sizeof(*m->ms), by_value);
	return st;
}

/* The best @top paragraphs for a query, best first; their number. */
static unsigned int search(const struct embed *m, unsigned int query, struct hit *hit)
{
	const float *q = encoder_row(&m->enc, m->corpus.n_para + query);
	unsigned int n = 0, k;
	uint32_t i;
	int64_t e;

	for (i = 0; i < m->corpus.n_para; i++) {
		const float *x = encoder_row(&m->enc, i);
		double dot = 0;

		for (e = 0; e < m->enc.width; e++)
			dot += (double)q[e] * (double)x[e];
		if (n == m->a->top && !((float)dot > hit[n - 1].score))
			continue;
		k = n < m->a->top ? n++ : n - 1;
		for (; k && hit[k - 1].score < (float)dot; k--)
			hit[k] = hit[k - 1];
		hit[k] = (struct hit){ i, (float)dot };
	}
	return n;
}

enum { INDENT = 9, LINE = 78, EXCERPT = 3 * LINE };

/* In lines cut between words; a word that is longer has a line of its own. */
static void print_wrapped(const char *s)
{
	while (*s) {
		size_t n = 0, k;

		for (;;) {
			k = strcspn(s + n, " ");
			if (n && n + k > LINE)
				break;
			n += k + (s[n + k] == ' ');
			if (!s[n])
				break;
		}
		printf("%*s%.*s\n", INDENT, "", (int)(n && s[n - 1] == ' ' ? n - 1 : n), s);
		s += n;
	}
}

/* The beginning of a paragraph on one line, cut between words if there are some. */
static void excerpt(const struct para *p, char *out, size_t size)
{
	size_t n = 0;
	uint32_t i;

	for (i = 0; i < p->len && n + 5 < size; i++) {
		char ch = p->text[i];

		if ((unsigned char)ch > 0x20)
			out[n++] = ch;
		else if (n && out[n - 1] != ' ')
			out[n++] = ' ';
	}
	out[n] = 0;
	if (i < p->len) {
		char *blank = strrchr(out, ' ');

		while (n && ((unsigned char)out[n - 1] & 0xc0) == 0x80)
			n--;
		if (n && (unsigned char)out[n - 1] >= 0xc0)
			n--;
		strcpy(blank ? blank : out + n, " ...");
	}
}

static void print_hit(const struct embed *m, struct out *o, const struct hit *h)
{
	const struct para *p = &m->corpus.para[h->para];
	const char *path = m->corpus.file[p->file].path;
	char text[EXCERPT];

	excerpt(p, text, sizeof(text));
	if (!o->json) {
		printf("  %.3f  %s:%u", (double)h->score, path, p->line);
		if (p->copies)
			printf(" (and %u more place%s)", p->copies, p->copies == 1 ? "" : "s");
		putchar('\n');
		print_wrapped(text);
		return;
	}
	rlx_json_put_begin(&o->w, '{');
	out_num(o, "score", (double)h->score, 4, "");
	out_str(o, "file", path);
	out_int(o, "line", p->line);
	out_int(o, "copies", p->copies);
	rlx_json_put_key(&o->w, "text");
	rlx_json_put_strn(&o->w, p->text, p->len);
	rlx_json_put_end(&o->w);
}

static bool print_hits(const struct embed *m, struct out *o)
{
	struct hit *hit = rlx_calloc(m->a->top + 1, sizeof(*hit));
	unsigned int i, k, n;

	if (o->json) {
		rlx_json_put_key(&o->w, "queries");
		rlx_json_put_begin(&o->w, '[');
	}
	for (i = 0; hit && i < m->a->query.n; i++) {
		n = search(m, i, hit);
		if (o->json) {
			rlx_json_put_begin(&o->w, '{');
			out_str(o, "query", m->a->query.v[i]);
			rlx_json_put_key(&o->w, "hits");
			rlx_json_put_begin(&o->w, '[');
		} else {
			printf("%s\n", m->a->query.v[i]);
		}
		for (k = 0; k < n; k++)
			print_hit(m, o, &hit[k]);
		if (o->json) {
			rlx_json_put_end(&o->w);
			rlx_json_put_end(&o->w);
		} else {
			putchar('\n');
		}
	}
	if (o->json)
		rlx_json_put_end(&o->w);
	rlx_free(hit);
	return hit;
}

static double percentile(const struct embed *m, double q)
{
	return (double)m->ms[(size_t)(q * (m->corpus.n_para - 1) + 0.5)];
}

static void print_run(const struct embed *m, struct out *o)
{
	const struct corpus *c = &m->corpus;
	unsigned int i;
	char text[160];
	size_t n = 0;

	out_section(o, "corpus");
	out_int(o, "files", c->n_file);
	out_int(o, "paragraphs", c->n_para);
	out_int(o, "left_out_short", c->n_short);
	out_int(o, "left_out_same_text", c->n_same);
	out_int(o, "left_out_not_utf8", m->n_bad);
	out_int(o, "left_out_binary_files", c->n_binary);
	out_int(o, "tokens", (int64_t)m->tokens);
	out_section_end(o);
	text[0] = 0;
	for (i = 0; i < ENCODER_BUCKETS; i++)
		if (m->enc.bucket[i].wanted)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%lld", n ? " " : "",
					      (long long)m->enc.bucket[i].seq);
	out_section(o, "time");
	out_num(o, "load_s", m->load_seconds, 2, "");
	out_num(o, "compile_ms", (double)m->enc.compile_ns * 1e-6, 1, "");
	out_num(o, "of_which_packing_ms", (double)m->enc.pack_ns * 1e-6, 1, "");
	out_str(o, "programs_for_tokens", text);
	out_num(o, "p50_ms", percentile(m, 0.5), 3, "per paragraph");
	out_num(o, "p99_ms", percentile(m, 0.99), 3, "per paragraph");
	out_num(o, "tokens_per_s", (double)m->tokens / m->seconds, 0, "");
	out_section_end(o);
}

static void print_machine(const struct embed *m, struct out *o)
{
	struct rlx_program_info info = { .device = "", .isa = "" };
	struct rlx_arena_info arena;
	struct rlx_stats stats;
	unsigned int i;

	for (i = 0; i < ENCODER_BUCKETS; i++)
		if (m->enc.bucket[i].program)
			rlx_program_info(m->enc.bucket[i].program, &info);
	rlx_arena_info(m->enc.arena, &arena);
	rlx_stats_read(&stats);
	out_section(o, "device");
	out_str(o, "name", info.device);
	out_str(o, "isa", info.isa);
	out_int(o, "threads", info.threads);
	out_section_end(o);
	out_section(o, "memory");
	out_str(o, "arena_provider", !o->json && !strcmp(arena.provider, "kmod") ?
		"kmod " RLX_KMOD_NODE : arena.provider);
	if (*arena.why_provider)
		out_str(o, "why_not_the_module", arena.why_provider);
	out_bytes(o, "arena", arena.bytes);
	out_bytes(o, "in_huge_pages", arena.bytes_huge);
	out_bytes(o, "pinned", stats.bytes_pinned);
	if (*arena.why_lock)
		out_str(o, "why_not_all_pinned", arena.why_lock);
	out_num(o, "copied_after_load", (double)m->copied, 0, "bytes");
	out_section_end(o);
}

static int embed(struct embed *m)
{
	struct rlx_error err = { 0 };
	double begin = now();
	struct out o;
	bool ok;

	if (load(m, &err))
		return told(&err);
	m->load_seconds = now() - begin;
	if (embed_all(m, &err))
		return told(&err);
	out_begin(&o, m->a->json);
	ok = print_hits(m, &o);
	print_machine(m, &o);
	print_run(m, &o);
	if (!out_end(&o) || !ok)
		return tool_fail("embed", TOOL_FAILED, "cannot write to standard output");
	return TOOL_OK;
}

static int check(const struct embed_args *a)
{
	if (!a->model)
		return tool_fail("embed", TOOL_USAGE, "--model is needed; see rlx embed --help");
	if (!a->corpus.n)
		return tool_fail("embed", TOOL_USAGE, "--corpus is needed: files or folders");
	if (!a->query.n)
		return tool_fail("embed", TOOL_USAGE, "--query is needed: what to look for");
	if (!a->top || a->top > 1000)
		return tool_fail("embed", TOOL_USAGE, "--top must be 1 to 1000");
	if (a->max_tokens < 3 || a->max_tokens > 256)
		return tool_fail("embed", TOOL_USAGE, "--max-tokens must be 3 to 256");
	if (a->min_letters > 100000 || a->threads > 4096)
		return tool_fail("embed", TOOL_USAGE, "--min-letters or --threads is too large");
	return TOOL_OK;
}

int cmd_embed(int argc, char **argv)
{
	struct embed_args a = { .top = 3, .max_tokens = 256, .min_letters = 24 };
	const struct arg arg[] = {
		{ "model", ARG_STR, &a.model, "MODEL",
		  "folder with config.json, model.safetensors and a\n"
		  "tokenizer, or an ONNX file" },
		{ "tokenizer", ARG_STR, &a.tokenizer, "FILE",
		  "tokenizer.json or vocab.txt; a folder has its own" },
		{ "corpus", ARG_MANY, &a.corpus, "PATH", "text files, or folders of them" },
		{ "query", ARG_MANY, &a.query, "TEXT", "what to look for" },
		{ "top", ARG_UINT, &a.top, "N", "hits for each query (3)" },
		{ "max-tokens", ARG_UINT, &a.max_tokens, "N",
		  "a longer paragraph is cut (256)" },
		{ "min-letters", ARG_UINT, &a.min_letters, "N",
		  "a paragraph with fewer is left out (24)" },
		{ "device", ARG_STR, &a.device, "NAME", DEVICE_WORDS },
		{ "threads", ARG_UINT, &a.threads, "N", "0: all allowed (default)" },
		{ "precision", ARG_WORD, &a.precision, PRECISION_WORDS,
		  "what GEMMs are computed in (f32)" },
		{ "json", ARG_FLAG, &a.json, NULL, "print JSON" },
	};
	const struct args args = {
		"embed", "--model MODEL --corpus PATH... --query TEXT... [OPTION ...]",
		"Embeds every paragraph of some texts and each query as a vector, and tells\n"
		"the paragraphs nearest to each query. Token ids are written where the model\n"
		"reads them, and vectors stay where it wrote them: nothing is copied.",
		arg, N_ELEM(arg),
	};
	struct embed m = { .a = &a };
	int rc;

	if (args_parse(&args, argc, argv, &rc)) {
		rc = check(&a);
		rc = rc ? rc : embed(&m);
	}
	encoder_close(&m.enc);
	corpus_fini(&m.corpus);
	rlx_free(m.query_tokens);
	rlx_free(m.ms);
	arg_list_free(&a.corpus);
	arg_list_free(&a.query);
	return rc;
}
