// SPDX-License-Identifier: MIT
/*
 * The text form of a graph, one node a line, made from the field tables:
 *
 *	graph "block" {
 *	  %1 = input(name="x", type=f32[2,64])
 *	  %2 = softmax(x=%1, axis=-1) : f32[2,64]
 *	  return "y"=%2
 *	}
 *
 * Attributes that are what their absence means are left out. Of a template (rlx/dims.h) the names
 * and their ranges stand first, as "dim b[1,64]"; sizes then are "b", "(b*4)", or "%2[1]", what
 * %2 has along its axis 1.
 */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "ir/custom.h"
#include "ir/dims.h"

enum { ELIDE_OVER = 64 };

struct printer {
	FILE	*f;
	const struct rlx_graph *g;	/* the innermost one */
	bool	 elide;
	int	 depth;
	struct rlx_blob_list *list;	/* NULL: bytes stand in the text */
	bool	 failed;
};

static void print_graph(struct printer *p, const struct rlx_graph *g);

static void print_string(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			fprintf(f, "\\x%02x", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}

static void print_blob(struct printer *p, struct rlx_blob *b)
{
	const unsigned char *d = b->data;
	uint32_t number;
	size_t i;

	if (p->list) {
		if (rlx_blob_list_add(p->list, b, &number))
			fprintf(p->f, "blob %u", number);
		else
			p->failed = true;
		return;
	}
	if (b->absent || (p->elide && b->bytes > ELIDE_OVER)) {
		fprintf(p->f, "<%zu bytes>", b->bytes);
		return;
	}
	fputs("hex\"", p->f);
	for (i = 0; i < b->bytes; i++)
		fprintf(p->f, "%02x", d[i]);
	fputc('"', p->f);
}

static void print_size(struct printer *p, int64_t x)
{
	char text[RLX_DIM_TEXT];

	rlx_dim_print(p->g, x, text, sizeof(text));
	fputs(text, p->f);
}

static void print_type(struct printer *p, const struct rlx_type *t)
{
	uint32_t i;

	fprintf(p->f, "%s[", rlx_dtype_name(t->dtype));
	for (i = 0; i < t->rank; i++) {
		fputs(i ? "," : "", p->f);
		print_size(p, t->dim[i]);
	}
	fputc(']', p->f);
}

static void print_attr(struct printer *p, const struct rlx_field *f, const void *v)
{
	const struct rlx_ints *l = v;
	const struct rlx_floats *fl = v;
	uint32_t i;

	switch (f->kind) {
	case RLX_K_i32: fprintf(p->f, "%d", *(const int32_t *)v); break;
	case RLX_K_i64: print_size(p, *(const int64_t *)v); break;
	case RLX_K_f32: fprintf(p->f, "%.9g", (double)*(const float *)v); break;
	case RLX_K_f64: fprintf(p->f, "%.17g", *(const double *)v); break;
	case RLX_K_bool: fputs("true", p->f); break;
	case RLX_K_dtype:
		fputs(rlx_dtype_name(*(const enum rlx_dtype *)v), p->f);
		break;
	case RLX_K_str: print_string(p->f, *(const char *const *)v); break;
	case RLX_K_ints:
		for (i = 0; i < l->n; i++) {
			fputs(i ? "," : "[", p->f);
			print_size(p, l->v[i]);
		}
		fputc(']', p->f);
		break;
	case RLX_K_floats:
		for (i = 0; i < fl->n; i++)
			fprintf(p->f, "%s%.17g", i ? "," : "[", fl->v[i]);
		fputc(']', p->f);
		break;
	case RLX_K_type: print_type(p, v); break;
	case RLX_K_blob: print_blob(p, *(struct rlx_blob *const *)v); break;
	case RLX_K_graph:
		p->depth++;
		print_graph(p, *(struct rlx_graph *const *)v);
		p->depth--;
		break;
	case RLX_K_custom:
		print_string(p->f, (*(struct rlx_custom *const *)v)->op.name);
		break;
	}
}

static void print_fields(struct printer *p, const struct rlx_node *n)
{
	const char *sep = "";
	uint32_t k = 0, i, j;

	for (i = 0; i < n->def->n_field; i++) {
		const struct rlx_field *f = &n->def->field[i];
		const void *v = rlx_field_ptr(f, n->args);

		if (f->role == RLX_FIELD_INS) {
			fprintf(p->f, "%s%s=[", sep, f->name);
			for (j = n->def->n_fixed; j < n->n_in; j++)
				fprintf(p->f, "%s%%%u", j > n->def->n_fixed ? "," : "", n->in[j]);
			fputs("]", p->f);
		} else if (f->role != RLX_FIELD_ATTR) {
			if (!n->in[k++])
				continue;
			fprintf(p->f, "%s%s=%%%u", sep, f->name, n->in[k - 1]);
		} else if (rlx_attr_is_default(f, v)) {
			continue;
		} else {
			fprintf(p->f, "%s%s=", sep, f->name);
			print_attr(p, f, v);
		}
		sep = ", ";
	}
}

static void indent(const struct printer *p, int more)
{
	fprintf(p->f, "%*s", 2 * (p->depth + more), "");
}

static void print_node(struct printer *p, const struct rlx_graph *g,
		       const struct rlx_node *n)
{
	uint32_t i;

	indent(p, 1);
	for (i = 0; i < n->n_out; i++)
		fprintf(p->f, "%s%%%u", i ? ", " : "", n->out + i);
	fprintf(p->f, "%s%s(", n->n_out ? " = " : "", n->def->name);
	print_fields(p, n);
	fputc(')', p->f);
	for (i = 0; !(n->def->traits & RLX_T_LEAF) && i < n->n_out; i++) {
		fputs(i ? ", " : " : ", p->f);
		print_type(p, &g->val[n->out + i].type);
	}
	fputc('\n', p->f);
}

static void print_dims(struct printer *p, const struct rlx_graph *g)
{
	struct rlx_dim_info d;
	unsigned int i;

	for (i = 0; rlx_graph_dim_at(g, i, &d); i++) {
		indent(p, 1);
		fprintf(p->f, "dim %s[%lld,%lld]\n", d.name, (long long)d.min, (long long)d.max);
	}
}

static void print_graph(struct printer *p, const struct rlx_graph *g)
{
	const struct rlx_graph *outer = p->g;
	uint32_t i;

	p->g = g;
	fputs("graph ", p->f);
	print_string(p->f, g->name);
	fputs(" {\n", p->f);
	print_dims(p, g);
	for (i = 0; i < g->n_node; i++)
		print_node(p, g, &g->node[i]);
	indent(p, 1);
	fputs("return", p->f);
	for (i = 0; i < g->io[RLX_IO_OUTPUT].n; i++) {
		fputs(i ? ", " : " ", p->f);
		print_string(p->f, g->io[RLX_IO_OUTPUT].e[i].name);
		fprintf(p->f, "=%%%u", g->io[RLX_IO_OUTPUT].e[i].v.id);
	}
	fputc('\n', p->f);
	indent(p, 0);
	fputc('}', p->f);
	p->g = outer;
}

static enum rlx_status print_text(struct printer *p, const struct rlx_graph *g)
{
	locale_t before = rlx_point_begin();

	print_graph(p, g);
	fputc('\n', p->f);
	rlx_point_end(before);
	return p->failed ? RLX_ENOMEM : ferror(p->f) ? RLX_EIO : RLX_OK;
}

enum rlx_status rlx_graph_print(const struct rlx_graph *g, FILE *f, bool elide)
{
	struct printer p = { .f = f, .elide = elide };

	return g && f ? print_text(&p, g) : RLX_EINVAL;
}

enum rlx_status rlx_graph_print_listed(const struct rlx_graph *g, FILE *f,
				       struct rlx_blob_list *l)
{
	struct printer p = { .f = f, .list = l };

	return print_text(&p, g);
}

bool rlx_blob_list_add(struct rlx_blob_list *l, struct rlx_blob *b, uint32_t *out_number)
{
	uint64_t at;

	if (rlx_map_get(&l->number, &b, sizeof(b), &at)) {
		*out_number = (uint32_t)at;
		return true;
	}
	if (!rlx_grow(&l->blob, &l->cap, l->n + 1, sizeof(*l->blob)) ||
	    !rlx_map_put(&l->number, &b, sizeof(b), l->n))
		return false;
	*out_number = l->n;
	l->blob[l->n++] = b;
	return true;
}

void rlx_blob_list_fini(struct rlx_blob_list *l)
{
	rlx_free(l->blob);
	rlx_map_fini(&l->number);
	*l = (struct rlx_blob_list){ 0 };
}
