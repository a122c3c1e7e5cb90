// SPDX-License-Identifier: MIT
/* The text form of graphs in files: read, it is a model as a graph built in C is. */
#include <string.h>

#include "model/format.h"
#include "model/model.h"

/* As the parser reads it: space of any kind, or none, is before the name. */
static bool probe(const struct rlx_probe *p)
{
	return !p->folder && !memcmp(p->word, "graph", 5) && p->word[5] &&
	       strchr("\" \t\r\n", p->word[5]);
}

enum rlx_status rlx_text_file_graph(const char *path, struct rlx_graph **out,
				    struct rlx_error *err)
{
	struct rlx_error where = { 0 };
	struct rlx_file f;
	enum rlx_status st = rlx_file_map(&f, path, err);

	if (st)
		return st;
	st = rlx_graph_parse((const char *)f.p, f.n, out, &where);
	rlx_file_unmap(&f);
	return st ? rlx_fail(err, st, "%s: %s", path, where.text) : RLX_OK;
}

static enum rlx_status open_file(struct rlx_model *m, const char *path, struct rlx_error *err)
{
	struct rlx_error why = { 0 };
	struct rlx_graph *g;
	enum rlx_status st = rlx_text_file_graph(path, &g, err);

	if (st)
		return st;
	st = rlx_model_take_graph(m, g, &why);
	rlx_graph_put(g);
	return st ? rlx_fail(err, st, "%s: %s", path, why.text) : RLX_OK;
}

const struct rlx_model_format rlx_format_text = {
	.name = "text form", .looks = "a text that begins with the word graph",
	.probe = probe, .open = open_file,
};
