// SPDX-License-Identifier: MIT
/* The formats of model files, and which one a path is of. */
#include <ctype.h>
#include <string.h>
#include <sys/stat.h>

#include "model/format.h"

static const struct rlx_model_format *const formats[] = {
	&rlx_format_plan, &rlx_format_gguf, &rlx_format_onnx, &rlx_format_bert,
	&rlx_format_text,
};

enum { N_FORMAT = sizeof(formats) / sizeof(formats[0]) };

static enum rlx_status look(struct rlx_probe *p, const char *path, struct rlx_error *err)
{
	struct rlx_file f;
	enum rlx_status st;
	struct stat sb;
	size_t at = 0;

	*p = (struct rlx_probe){ .path = path };
	if (!stat(path, &sb) && S_ISDIR(sb.st_mode)) {
		p->folder = true;
		return RLX_OK;
	}
	st = rlx_file_map(&f, path, err);
	if (st)
		return st;
	p->bytes = f.n;
	memcpy(p->first, f.p, f.n < sizeof(p->first) ? f.n : sizeof(p->first));
	while (at < f.n && isspace(f.p[at]))
		at++;
	memcpy(p->word, f.p + at, f.n - at < sizeof(p->word) ? f.n - at : sizeof(p->word));
	rlx_file_unmap(&f);
	return RLX_OK;
}

/* The bytes as numbers and, where they are letters, as text. */
static void print_first(const struct rlx_probe *p, char *out, size_t size)
{
	size_t n = p->bytes < RLX_PROBE_BYTES ? (size_t)p->bytes : RLX_PROBE_BYTES, at = 0, i;

	for (i = 0; i < n; i++)
		at += (size_t)snprintf(out + at, size - at, "%s%02x", i ? " " : "it begins with ",
				       p->first[i]);
	at += (size_t)snprintf(out + at, size - at, " (\"");
	for (i = 0; i < n; i++)
		out[at++] = p->first[i] >= ' ' && p->first[i] <= '~' ? (char)p->first[i] : '.';
	snprintf(out + at, size - at, "\")");
}

static void unknown(const struct rlx_probe *p, struct rlx_error *err)
{
	char begins[160] = "it is empty", known[448] = "";
	size_t at = 0;
	int i;

	if (p->folder)
		snprintf(begins, sizeof(begins), "it is a folder without what they have");
	else if (p->bytes)
		print_first(p, begins, sizeof(begins));
	for (i = 0; i < N_FORMAT && at < sizeof(known); i++)
		at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s (%s)", i ? ", " : "",
				       formats[i]->name, formats[i]->looks);
	rlx_fail(err, RLX_EPARSE, "%s: no model of a known format, which are %s; %s", p->path,
		 known, begins);
}

const struct rlx_model_format *rlx_format_find(const char *path, struct rlx_error *err)
{
	struct rlx_probe p;
	int i;

	if (look(&p, path, err))
		return NULL;
	for (i = 0; i < N_FORMAT; i++)
		if (formats[i]->probe(&p))
			return formats[i];
	unknown(&p, err);
	return NULL;
}
