// SPDX-License-Identifier: MIT
/* The JSON writer of json_write.h. */
#include <math.h>
#include <string.h>

#include "base/json_write.h"
#include "base/utf8.h"

void rlx_json_writer_begin(struct rlx_json_writer *w, FILE *f, bool pretty)
{
	*w = (struct rlx_json_writer){ .f = f, .pretty = pretty };
}

bool rlx_json_writer_end(struct rlx_json_writer *w)
{
	if (w->pretty)
		fputc('\n', w->f);
	return w->done && !w->bad && !fflush(w->f) && !ferror(w->f);
}

static void new_line(struct rlx_json_writer *w)
{
	uint32_t i;

	if (!w->pretty)
		return;
	fputc('\n', w->f);
	for (i = 0; i < w->depth; i++)
		fputs("  ", w->f);
}

static void separate(struct rlx_json_writer *w)
{
	if (w->some[w->depth - 1])
		fputc(',', w->f);
	w->some[w->depth - 1] = true;
	new_line(w);
}

/* Write what stands before a value; false if none may stand here. */
static bool value(struct rlx_json_writer *w)
{
	if (w->bad || w->done ||
	    (w->depth && w->kind[w->depth - 1] == '{' && !w->key_pending)) {
		w->bad = true;
		return false;
	}
	if (w->depth && !w->key_pending)
		separate(w);
	w->key_pending = false;
	w->done = !w->depth;
	return true;
}

void rlx_json_put_begin(struct rlx_json_writer *w, char kind)
{
	if ((kind != '[' && kind != '{') || w->depth == RLX_JSON_DEPTH_MAX)
		w->bad = true;
	if (!value(w))
		return;
	w->done = false;
	fputc(kind, w->f);
	w->some[w->depth] = false;
	w->kind[w->depth++] = (uint8_t)kind;
}

void rlx_json_put_end(struct rlx_json_writer *w)
{
	if (w->bad || !w->depth || w->key_pending) {
		w->bad = true;
		return;
	}
	w->depth--;
	if (w->some[w->depth])
		new_line(w);
	fputc(w->kind[w->depth] == '{' ? '}' : ']', w->f);
	w->done = !w->depth;
}

static void quoted(struct rlx_json_writer *w, const char *s, size_t n)
{
	const uint8_t *p = (const uint8_t *)s, *end = p + n;
	unsigned int k;
	uint32_t cp;

	fputc('"', w->f);
	for (; p < end; p += k ? k : 1) {
		k = rlx_utf8_get(p, end, &cp);
		if (!k)
			fputs("\xef\xbf\xbd", w->f);
		else if (cp == '"' || cp == '\\')
			fprintf(w->f, "\\%c", (char)cp);
		else if (cp == '\n')
			fputs("\\n", w->f);
		else if (cp < 0x20 || cp == 0x7f)
			fprintf(w->f, "\\u%04x", (unsigned int)cp);
		else
			fwrite(p, 1, k, w->f);
	}
	fputc('"', w->f);
}

void rlx_json_put_key(struct rlx_json_writer *w, const char *key)
{
	if (w->bad || w->key_pending || !w->depth ||
	    w->kind[w->depth - 1] != '{') {
		w->bad = true;
		return;
	}
	separate(w);
	quoted(w, key, strlen(key));
	fputs(w->pretty ? ": " : ":", w->f);
	w->key_pending = true;
}

void rlx_json_put_strn(struct rlx_json_writer *w, const char *s, size_t n)
{
	if (value(w))
		quoted(w, s, n);
}

void rlx_json_put_str(struct rlx_json_writer *w, const char *s)
{
	rlx_json_put_strn(w, s, strlen(s));
}

void rlx_json_put_int(struct rlx_json_writer *w, int64_t v)
{
	if (value(w))
		fprintf(w->f, "%lld", (long long)v);
}

void rlx_json_put_double(struct rlx_json_writer *w, double v)
{
	char buf[40], *comma;
	int digits;

	if (!value(w))
		return;
	if (!isfinite(v)) {
		fputs("null", w->f);
		return;
	}
	/* the shortest that reads back the same */
	for (digits = 15; digits <= 17; digits++) {
		double back;

		snprintf(buf, sizeof(buf), "%.*g", digits, v);
		if (sscanf(buf, "%lf", &back) == 1 && back == v)
			break;
	}
	comma = strchr(buf, ',');	/* the locale's decimal point */
	if (comma)
		*comma = '.';
	fputs(buf, w->f);
}

void rlx_json_put_bool(struct rlx_json_writer *w, bool v)
{
	if (value(w))
		fputs(v ? "true" : "false", w->f);
}

void rlx_json_put_null(struct rlx_json_writer *w)
{
	if (value(w))
		fputs("null", w->f);
}
