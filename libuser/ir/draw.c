// SPDX-License-Identifier: MIT
/*
 * Graphs as images: DOT for Graphviz, and SVG drawn here. Constants are not
 * drawn as nodes of their own; they stand in the text of who reads them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/dims.h"

enum { CHAR_W = 7, PAD = 8, ROW_H = 84, BOX_H = 38, GAP = 18, MARGIN = 20, SWEEPS = 6 };

/* A node's place: row is the longest way from a leaf. */
struct spot {
	uint32_t	node, row;
	double		x, want;
	int		width;
};

struct drawing {
	const struct rlx_graph	*g;
	struct spot		*spot;		/* by place, ordered by row and then x */
	uint32_t		*of_node;	/* node -> place; UINT32_MAX: not drawn */
	uint32_t		 n, rows;
};

static bool is_constant(const struct rlx_node *n)
{
	return n->def->traits & RLX_T_LEAF && !strcmp(n->def->name, "constant");
}

static const char *colour(const struct rlx_node *n)
{
	uint32_t t = n->def->traits;

	if (t & RLX_T_LEAF)
		return "#e8e8e8";
	if (t & RLX_T_COMPUTE)
		return "#ffd9b3";
	if (t & RLX_T_REDUCTION)
		return "#d5ccf0";
	if (t & (RLX_T_MOVE | RLX_T_VIEW))
		return "#cfe8f7";
	return t & RLX_T_SUBGRAPH ? "#f7c6cf" : "#d6efcc";
}

/* The name of a leaf, if it has one. */
static const char *leaf_name(const struct rlx_graph *g, const struct rlx_node *n)
{
	uint32_t i;
	int io;

	for (io = RLX_IO_INPUT; n->def->traits & RLX_T_LEAF && io <= RLX_IO_PARAM; io++)
		for (i = 0; i < g->io[io].n; i++)
			if (g->io[io].e[i].v.id == n->out)
				return g->io[io].e[i].name;
	return NULL;
}

/* First and second line of a node's text. */
static void text_of(const struct rlx_graph *g, const struct rlx_node *n, char *a,
		    char *b, size_t size)
{
	const char *name = leaf_name(g, n);
	uint32_t constants = 0, i;

	for (i = 0; i < n->n_in; i++)
		constants += n->in[i] && is_constant(rlx_node_of(g, n->in[i]));
	if (name)
		snprintf(a, size, "%s", name);
	else if (constants)
		snprintf(a, size, "%s +%u const", n->def->name, constants);
	else
		snprintf(a, size, "%s", n->def->name);
	b[0] = 0;
	if (n->n_out)
		rlx_graph_type_print(g, &g->val[n->out].type, b, size);
}

static void put_escaped(FILE *f, const char *s, bool xml)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (!xml && (c == '"' || c == '\\'))
			fprintf(f, "\\%c", c);
		else if (xml && (c == '<' || c == '>' || c == '&' || c == '"'))
			fprintf(f, "&#%u;", c);
		else
			fputc(c < 0x20 ? '?' : c, f);
	}
}

static void dot_node(const struct rlx_graph *g, uint32_t i, FILE *f)
{
	const struct rlx_node *n = &g->node[i];
	char a[96], b[96];
	uint32_t k;

	text_of(g, n, a, b, sizeof(a));
	fprintf(f, "  n%u [label=\"", i);
	put_escaped(f, a, false);
	fputs("\\n", f);
	put_escaped(f, b, false);
	fprintf(f, "\", fillcolor=\"%s\"%s];\n", colour(n),
		n->def->traits & RLX_T_LEAF ? ", shape=ellipse" : "");
	for (k = 0; k < n->n_in; k++)
		if (n->in[k] && !is_constant(rlx_node_of(g, n->in[k])))
			fprintf(f, "  n%u -> n%u;\n", g->val[n->in[k]].node, i);
}

enum rlx_status rlx_graph_dot(const struct rlx_graph *g, FILE *f)
{
	uint32_t i;

	if (!g || !f)
		return RLX_EINVAL;
	fputs("digraph \"", f);
	put_escaped(f, g->name, false);
	fputs("\" {\n  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\"];\n", f);
	for (i = 0; i < g->n_node; i++)
		if (!is_constant(&g->node[i]))
			dot_node(g, i, f);
	for (i = 0; i < g->io[RLX_IO_OUTPUT].n; i++) {
		fprintf(f, "  o%u [shape=ellipse, fillcolor=\"#e8e8e8\", label=\"", i);
		put_escaped(f, g->io[RLX_IO_OUTPUT].e[i].name, false);
		fprintf(f, "\"];\n  n%u -> o%u;\n", g->val[g->io[RLX_IO_OUTPUT].e[i].v.id].node,
			i);
	}
	fputs("}\n", f);
	return ferror(f) ? RLX_EIO : RLX_OK;
}

static int by_row(const void *pa, const void *pb)
{
	const struct spot *a = pa, *b = pb;

	if (a->row != b->row)
		return a->row < b->row ? -1 : 1;
	if (a->want != b->want)
		return a->want < b->want ? -1 : 1;
	return a->node < b->node ? -1 : a->node > b->node;
}

static void index_spots(struct drawing *d)
{
	uint32_t i;

	for (i = 0; i < d->n; i++)
		d->of_node[d->spot[i].node] = i;
}

/* Boxes of a row side by side, the row centred on zero. */
static void place_rows(struct drawing *d)
{
	uint32_t i, j, k;

	for (i = 0; i < d->n; i = j) {
		double sum = -GAP, at;

		for (j = i; j < d->n && d->spot[j].row == d->spot[i].row; j++)
			sum += d->spot[j].width + GAP;
		at = -sum / 2;
		for (k = i; k < j; k++) {
			d->spot[k].x = at;
			at += d->spot[k].width + GAP;
		}
	}
}

static double centre(const struct spot *s)
{
	return s->x + s->width / 2.0;
}

/* Where each node would like to be: the mean of those it reads, or that read it. */
static void wishes(struct drawing *d, bool readers, double *sum, uint32_t *count)
{
	uint32_t i, k, from, to;

	memset(sum, 0, d->n * sizeof(*sum));
	memset(count, 0, d->n * sizeof(*count));
	for (i = 0; i < d->n; i++) {
		const struct rlx_node *n = &d->g->node[d->spot[i].node];

		for (k = 0; k < n->n_in; k++) {
			from = n->in[k] ? d->of_node[d->g->val[n->in[k]].node] : UINT32_MAX;
			if (from == UINT32_MAX)
				continue;
			to = readers ? from : i;
			sum[to] += centre(&d->spot[readers ? i : from]);
			count[to]++;
		}
	}
	for (i = 0; i < d->n; i++)
		d->spot[i].want = count[i] ? sum[i] / count[i] : centre(&d->spot[i]);
}

/* Rows by the longest way; a leaf stands just above its first reader. */
static void find_rows(struct drawing *d)
{
	const struct rlx_graph *g = d->g;
	uint32_t i, k, from;

	for (i = 0; i < g->n_node; i++) {
		const struct rlx_node *n = &g->node[i];
		struct spot *s = &d->spot[d->n];
		char a[96], b[96];
		size_t w;

		d->of_node[i] = UINT32_MAX;
		if (is_constant(n))
			continue;
		text_of(g, n, a, b, sizeof(a));
		w = strlen(a) > strlen(b) ? strlen(a) : strlen(b);
		*s = (struct spot){ .node = i, .width = (int)w * CHAR_W + 2 * PAD };
		for (k = 0; k < n->n_in; k++) {
			from = n->in[k] ? d->of_node[g->val[n->in[k]].node] : UINT32_MAX;
			if (from != UINT32_MAX && d->spot[from].row + 1 > s->row)
				s->row = d->spot[from].row + 1;
		}
		d->rows = s->row + 1 > d->rows ? s->row + 1 : d->rows;
		d->of_node[i] = d->n++;
	}
}

static enum rlx_status lay_out(struct drawing *d)
{
	uint32_t n = d->g->n_node + 1, *count;
	double *sum;
	int i;

	d->spot = rlx_calloc(n, sizeof(*d->spot));
	d->of_node = rlx_calloc(n, sizeof(*d->of_node));
	sum = rlx_calloc(n, sizeof(*sum));
	count = rlx_calloc(n, sizeof(*count));
	if (d->spot && d->of_node && sum && count) {
		find_rows(d);
		for (i = 0; i < SWEEPS; i++) {
			qsort(d->spot, d->n, sizeof(*d->spot), by_row);
			index_spots(d);
			place_rows(d);
			wishes(d, i & 1, sum, count);
		}
		qsort(d->spot, d->n, sizeof(*d->spot), by_row);
		index_spots(d);
		place_rows(d);
	}
	rlx_free(sum);
	rlx_free(count);
	return d->spot && d->of_node && sum && count ? RLX_OK : RLX_ENOMEM;
}

static void svg_edges(const struct drawing *d, uint32_t i, double left, FILE *f)
{
	const struct rlx_node *n = &d->g->node[d->spot[i].node];
	uint32_t k, from;

	for (k = 0; k < n->n_in; k++) {
		double x1, y1, x2, y2;

		from = n->in[k] ? d->of_node[d->g->val[n->in[k]].node] : UINT32_MAX;
		if (from == UINT32_MAX)
			continue;
		x1 = centre(&d->spot[from]) - left;
		y1 = MARGIN + (double)d->spot[from].row * ROW_H + BOX_H;
		x2 = centre(&d->spot[i]) - left;
		y2 = MARGIN + (double)d->spot[i].row * ROW_H;
		fprintf(f, "<path d=\"M%.0f %.0f C%.0f %.0f %.0f %.0f %.0f %.0f\"/>\n", x1, y1,
			x1, y1 + ROW_H / 2.0, x2, y2 - ROW_H / 2.0, x2, y2);
	}
}

static void svg_box(const struct drawing *d, uint32_t i, double left, FILE *f)
{
	const struct spot *s = &d->spot[i];
	const struct rlx_node *n = &d->g->node[s->node];
	double x = s->x - left, y = MARGIN + (double)s->row * ROW_H;
	char a[96], b[96];

	text_of(d->g, n, a, b, sizeof(a));
	fprintf(f, "<g><title>%%%u %s</title><rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" "
		"height=\"%d\" rx=\"5\" fill=\"%s\"/>\n<text x=\"%.0f\" y=\"%.0f\">", n->out,
		n->def->name, x, y, s->width, BOX_H, colour(n), x + s->width / 2.0, y + 16);
	put_escaped(f, a, true);
	fprintf(f, "</text><text x=\"%.0f\" y=\"%.0f\" class=\"t\">", x + s->width / 2.0,
		y + 31);
	put_escaped(f, b, true);
	fputs("</text></g>\n", f);
}

enum rlx_status rlx_graph_svg(const struct rlx_graph *g, FILE *f)
{
	struct drawing d = { .g = g };
	double left = 0, right = 0;
	enum rlx_status st;
	uint32_t i;

	if (!g || !f)
		return RLX_EINVAL;
	st = lay_out(&d);
	for (i = 0; !st && i < d.n; i++) {
		left = d.spot[i].x < left ? d.spot[i].x : left;
		right = d.spot[i].x + d.spot[i].width > right ?
			d.spot[i].x + d.spot[i].width : right;
	}
	left -= MARGIN;
	if (!st) {
		fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
			"height=\"%.0f\">\n<style>text{font:12px monospace;text-anchor:middle}"
			".t{fill:#555}rect{stroke:#888}path{fill:none;stroke:#999}</style>\n"
			"<rect width=\"100%%\" height=\"100%%\" fill=\"white\" "
			"style=\"stroke:none\"/>\n",
			right - left + MARGIN, 2.0 * MARGIN + (double)d.rows * ROW_H);
		for (i = 0; i < d.n; i++)
			svg_edges(&d, i, left, f);
		for (i = 0; i < d.n; i++)
			svg_box(&d, i, left, f);
		fputs("</svg>\n", f);
		st = ferror(f) ? RLX_EIO : RLX_OK;
	}
	rlx_free(d.spot);
	rlx_free(d.of_node);
	return st;
}
