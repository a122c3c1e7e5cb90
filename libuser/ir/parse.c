// SPDX-License-Identifier: MIT
/* Reading the text form of print.c back. Input is hostile until proven otherwise. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/number.h"
#include "ir/custom.h"
#include "ir/dims.h"

enum { MAX_DEPTH = 16, MAX_NAME = 256 };

struct parser {
	const char	*p, *end, *start;
	struct rlx_error *err;
	int		 depth;
	enum rlx_status	 st;	/* first failure; then nothing is read */
	const struct rlx_blob_list *list;	/* NULL: bytes stand in the text */
};

/* The graph being read, and the values that its text's ids stand for, which may be any. */
struct scope {
	struct rlx_graph *g;
	struct rlx_map	  map;
};

static struct rlx_graph *parse_graph(struct parser *p);
static uint32_t value(struct parser *p, const struct scope *s);

static void __rlx_printf(3, 4) fail_at(struct parser *p, enum rlx_status st,
				       const char *fmt, ...)
{
	unsigned int line = 1, col = 1;
	char text[160];
	const char *s;
	va_list ap;

	if (p->st)
		return;
	for (s = p->start; s < p->p; s++, col++)
		if (*s == '\n') {
			line++;
			col = 0;
		}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	p->st = rlx_fail(p->err, st, "line %u, column %u: %s", line, col, text);
}

#define bad(p, ...) fail_at(p, RLX_EPARSE, __VA_ARGS__)

/* The text is well formed, but the builder refused it, or memory ran out. */
static void refused(struct parser *p, const struct rlx_graph *g)
{
	const struct rlx_error *e = rlx_graph_error(g);

	fail_at(p, e->status ? e->status : RLX_EPARSE, "%s", e->text);
}

static void space(struct parser *p)
{
	while (p->p < p->end && isspace((unsigned char)*p->p))
		p->p++;
}

static bool eat(struct parser *p, const char *s)
{
	size_t n = strlen(s);

	space(p);
	if (p->st || (size_t)(p->end - p->p) < n || memcmp(p->p, s, n))
		return false;
	p->p += n;
	return true;
}

static void need(struct parser *p, const char *s)
{
	if (!eat(p, s))
		bad(p, "'%s' expected", s);
}

/* A word of letters, digits and _ into @buf. */
static size_t word(struct parser *p, char *buf, size_t size)
{
	size_t n = 0;

	space(p);
	while (!p->st && p->p < p->end && (isalnum((unsigned char)*p->p) || *p->p == '_')) {
		if (n + 1 >= size) {
			bad(p, "word too long");
			break;
		}
		buf[n++] = *p->p++;
	}
	buf[n] = 0;
	if (!n)
		bad(p, "a word expected");
	return n;
}

/* The text of a number, terminated, for strto*. */
static bool number_text(struct parser *p, char *buf, size_t size)
{
	size_t n = 0;

	space(p);
	while (!p->st && p->p < p->end && n + 1 < size &&
	       (isalnum((unsigned char)*p->p) || (*p->p && strchr("+-.", *p->p))))
		buf[n++] = *p->p++;
	buf[n] = 0;
	return n;
}

static int64_t integer(struct parser *p)
{
	char buf[64], *end;
	long long v;

	errno = 0;
	number_text(p, buf, sizeof(buf));
	v = strtoll(buf, &end, 10);
	if (!*buf || *end || errno)
		bad(p, "'%s' is no 64-bit integer", buf);
	return v;
}

static double real(struct parser *p)
{
	char buf[64], *end;
	double v;

	number_text(p, buf, sizeof(buf));
	v = rlx_strtod(buf, &end);
	if (!*buf || *end)
		bad(p, "'%s' is no number", buf);
	return v;
}

static int hex_digit(int c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A quoted string; freed with rlx_free(). NULL: failed. */
static char *string(struct parser *p)
{
	const char *s, *stop;
	char *out;
	size_t n = 0;

	need(p, "\"");
	for (stop = p->p; stop < p->end && *stop != '"'; stop++)
		if (*stop == '\\')
			stop++;
	if (p->st || stop >= p->end) {
		bad(p, "a string is not closed");
		return NULL;
	}
	out = rlx_malloc((size_t)(stop - p->p) + 1);
	if (!out) {
		p->st = rlx_fail(p->err, RLX_ENOMEM, "parse: out of memory");
		return NULL;
	}
	for (s = p->p; s < stop; s++) {
		if (*s == '\\' && s[1] == 'x' && stop - s > 3 && hex_digit(s[2]) >= 0 &&
		    hex_digit(s[3]) >= 0) {
			out[n++] = (char)(hex_digit(s[2]) << 4 | hex_digit(s[3]));
			s += 3;
		} else {
			s += *s == '\\';
			out[n++] = *s;
		}
	}
	out[n] = 0;
	p->p = stop + 1;
	return out;
}

/* What value %n has along an axis: "%n[axis]". */
static int64_t size_of_value(struct parser *p, const struct scope *s)
{
	uint32_t v = value(p, s);
	const struct rlx_type *t = rlx_type_of(s->g, (rlx_value){ v });
	int64_t axis;

	need(p, "[");
	axis = p->st ? 0 : integer(p);
	need(p, "]");
	if (!p->st && (axis < 0 || axis >= t->rank))
		bad(p, "there is no axis %lld", (long long)axis);
	return p->st ? 0 : t->dim[axis];
}

/* In a template some numbers stand for sizes: the text has these as what they stand for. */
static int64_t plain_number(struct parser *p, const struct scope *s)
{
	int64_t x = integer(p);

	if (rlx_is_dim(x))	/* a dimension that follows would be what it stands for */
		bad(p, "%lld is no size and no number of a list", (long long)x);
	return x;
}

/* A number, or what print.c says of sizes that are known later. */
static int64_t size(struct parser *p, const struct scope *s, int depth)
{
	char name[RLX_DIM_NAME_MAX + 2];
	int64_t a, b, x;
	uint32_t at;
	char op;

	space(p);
	if (p->st || p->p == p->end)
		return plain_number(p, s);
	if (*p->p == '%')
		return size_of_value(p, s);
	if (isalpha((unsigned char)*p->p) || *p->p == '_') {
		word(p, name, sizeof(name));
		at = p->st ? UINT32_MAX : rlx_dim_find(s->g, name);
		if (at == UINT32_MAX)
			bad(p, "there is no dimension '%s'", name);
		return RLX_DIM_FIRST + at;
	}
	if (!eat(p, "("))
		return plain_number(p, s);
	if (depth == RLX_DIM_PARTS) {
		bad(p, "a size of over %d operands", RLX_DIM_PARTS);
		return 0;
	}
	a = size(p, s, depth + 1);
	op = eat(p, "+") ? '+' : eat(p, "*") ? '*' : '/';
	if (op == '/')
		need(p, "/");
	b = size(p, s, depth + 1);
	need(p, ")");
	if (p->st)
		return 0;
	x = op == '+' ? rlx_dim_add(s->g, a, b) : op == '*' ? rlx_dim_mul(s->g, a, b) :
							      rlx_dim_div(s->g, a, b);
	if (s->g->err.status)
		refused(p, s->g);
	return x;
}

/* The number of a name and its range: "b[1,64]". */
static void dimension(struct parser *p, const struct scope *s)
{
	char name[RLX_DIM_NAME_MAX + 2];
	int64_t min, max;

	if (p->list) {	/* of a plan file, whose graphs are laid out as they are */
		bad(p, "a graph of a plan file has no dimension without a size");
		return;
	}
	word(p, name, sizeof(name));
	need(p, "[");
	min = p->st ? 0 : integer(p);
	need(p, ",");
	max = p->st ? 0 : integer(p);
	need(p, "]");
	if (!p->st && rlx_dim(s->g, name, min, max) == -1)
		refused(p, s->g);
}

static struct rlx_type type(struct parser *p, const struct scope *s)
{
	struct rlx_type t = { 0 };
	char name[16];

	word(p, name, sizeof(name));
	t.dtype = rlx_dtype_parse(name);
	if (!t.dtype)
		bad(p, "'%s' is no dtype", name);
	need(p, "[");
	while (!p->st && !eat(p, "]")) {
		if (t.rank == RLX_MAX_RANK) {
			bad(p, "rank over %d", RLX_MAX_RANK);
			break;
		}
		t.dim[t.rank++] = size(p, s, 0);
		if (t.dim[t.rank - 1] < 0 && !(s->g->dims && rlx_is_dim(t.dim[t.rank - 1])))
			bad(p, "a dimension is negative");
		if (!eat(p, ",")) {
			need(p, "]");
			break;
		}
	}
	return t;
}

static struct rlx_blob *listed_blob(struct parser *p)
{
	int64_t i = integer(p);

	if (!p->st && (i < 0 || i >= p->list->n))
		bad(p, "there is no blob %lld, of %u", (long long)i, p->list->n);
	return p->st ? NULL : rlx_blob_get(p->list->blob[i]);
}

static struct rlx_blob *blob(struct parser *p)
{
	const char *s;
	unsigned char *bytes;
	struct rlx_blob *b;
	size_t n, i;

	if (p->list && eat(p, "blob "))
		return listed_blob(p);
	need(p, "hex\"");
	for (s = p->p; s < p->end && hex_digit(*s) >= 0; s++)
		;
	n = (size_t)(s - p->p) / 2;
	if (p->st || s >= p->end || *s != '"' || (size_t)(s - p->p) % 2) {
		bad(p, "hex data is cut or has an odd number of digits");
		return NULL;
	}
	bytes = rlx_malloc(n + 1);
	for (i = 0; bytes && i < n; i++)
		bytes[i] = (unsigned char)(hex_digit(p->p[2 * i]) << 4 |
					   hex_digit(p->p[2 * i + 1]));
	b = bytes ? rlx_blob_copy(bytes, n) : NULL;
	rlx_free(bytes);
	if (!b)
		p->st = rlx_fail(p->err, RLX_ENOMEM, "parse: out of memory");
	p->p = s + 1;
	return b;
}

/* By its name: whoever reads the text has registered it. */
static struct rlx_custom *custom(struct parser *p)
{
	char *name = string(p);
	struct rlx_custom *c = name ? rlx_custom_find(name) : NULL;

	if (name && !c)
		fail_at(p, RLX_ENOENT, RLX_CUSTOM_UNKNOWN, name);
	rlx_free(name);
	return c;
}

/* "[a, b]" of integers or reals as one 8-byte list in the graph's memory. */
static void list(struct parser *p, struct scope *s, bool reals, void *out)
{
	struct rlx_ints *l = out;
	int64_t *v = NULL;
	uint32_t n = 0, cap = 0;

	need(p, "[");
	while (!p->st && !eat(p, "]")) {
		if (!rlx_grow(&v, &cap, n + 1, sizeof(*v))) {
			p->st = rlx_fail(p->err, RLX_ENOMEM, "parse: out of memory");
			break;
		}
		if (reals)
			((double *)(void *)v)[n++] = real(p);
		else
			v[n++] = size(p, s, 0);
		if (!eat(p, ",")) {
			need(p, "]");
			break;
		}
	}
	l->v = rlx_bump_dup(&s->g->bump, v, n * sizeof(*v));
	l->n = l->v ? n : 0;
	rlx_free(v);
}

static uint32_t value(struct parser *p, const struct scope *s)
{
	uint64_t v = 0;
	int64_t id;

	need(p, "%");
	id = p->st ? 0 : integer(p);
	if (!p->st && !rlx_map_get(&s->map, &id, sizeof(id), &v))
		bad(p, "%%%lld is not made before", (long long)id);
	return p->st ? 0 : (uint32_t)v;
}

static bool define(struct parser *p, struct scope *s, int64_t id, uint32_t v)
{
	uint64_t old;

	if (id < 1 || id > 100000000)
		bad(p, "value id %lld is out of range", (long long)id);
	else if (rlx_map_get(&s->map, &id, sizeof(id), &old))
		bad(p, "%%%lld is made twice", (long long)id);
	else if (!rlx_map_put(&s->map, &id, sizeof(id), v))
		p->st = rlx_fail(p->err, RLX_ENOMEM, "parse: out of memory");
	return !p->st;
}

/* What one node's text gave, before the node is made. */
struct draft {
	const struct rlx_op_def	*def;
	void			*args;
	uint32_t		*in;
	uint32_t		 n_in, cap_in;
	char			*str[RLX_MAX_FIELDS];
};

static void attribute(struct parser *p, struct scope *s, struct draft *d,
		      unsigned int field)
{
	const struct rlx_field *f = &d->def->field[field];
	void *v = rlx_field_ptr(f, d->args);
	char name[16];
	int64_t x;

	switch (f->kind) {
	case RLX_K_i32:
		x = integer(p);
		if (x < INT32_MIN || x > INT32_MAX)
			bad(p, "%s is out of range", f->name);
		*(int32_t *)v = (int32_t)x;
		break;
	case RLX_K_i64: *(int64_t *)v = size(p, s, 0); break;
	case RLX_K_f32: *(float *)v = (float)real(p); break;
	case RLX_K_f64: *(double *)v = real(p); break;
	case RLX_K_bool:
		*(bool *)v = eat(p, "true");
		if (!*(bool *)v)
			need(p, "false");
		break;
	case RLX_K_dtype:
		word(p, name, sizeof(name));
		*(enum rlx_dtype *)v = rlx_dtype_parse(name);
		if (!rlx_dtype_parse(name))
			bad(p, "'%s' is no dtype", name);
		break;
	case RLX_K_str:
		rlx_free(d->str[field]);
		d->str[field] = string(p);
		*(const char **)v = d->str[field];
		break;
	case RLX_K_ints: list(p, s, false, v); break;
	case RLX_K_floats: list(p, s, true, v); break;
	case RLX_K_type: *(struct rlx_type *)v = type(p, s); break;
	case RLX_K_blob:
		rlx_blob_put(*(struct rlx_blob **)v);
		*(struct rlx_blob **)v = blob(p);
		break;
	case RLX_K_graph:
		rlx_graph_put(*(struct rlx_graph **)v);
		*(struct rlx_graph **)v = parse_graph(p);
		break;
	case RLX_K_custom:
		rlx_custom_put(*(struct rlx_custom **)v);
		*(struct rlx_custom **)v = custom(p);
		break;
	}
}

static void input_list(struct parser *p, struct scope *s, struct draft *d)
{
	need(p, "[");
	while (!p->st && !eat(p, "]")) {
		if (!rlx_grow(&d->in, &d->cap_in, d->n_in + 1, sizeof(*d->in))) {
			p->st = rlx_fail(p->err, RLX_ENOMEM, "parse: out of memory");
			return;
		}
		d->in[d->n_in++] = value(p, s);
		if (!eat(p, ",")) {
			need(p, "]");
			break;
		}
	}
}

/* name=value, by the op's field table. */
static void field(struct parser *p, struct scope *s, struct draft *d)
{
	char name[64];
	uint32_t i, k = 0;

	word(p, name, sizeof(name));
	need(p, "=");
	for (i = 0; !p->st && i < d->def->n_field; i++) {
		const struct rlx_field *f = &d->def->field[i];

		if (!strcmp(f->name, name)) {
			if (f->role == RLX_FIELD_INS)
				input_list(p, s, d);
			else if (f->role == RLX_FIELD_ATTR)
				attribute(p, s, d, i);
			else
				d->in[k] = value(p, s);
			return;
		}
		k += f->role == RLX_FIELD_IN || f->role == RLX_FIELD_OPT;
	}
	bad(p, "%s has no field '%s'", d->def->name, name);
}

static void draft_fini(struct draft *d)
{
	unsigned int i;

	for (i = 0; d->args && i < d->def->n_field && i < RLX_MAX_FIELDS; i++) {
		const struct rlx_field *f = &d->def->field[i];
		void *v = rlx_field_ptr(f, d->args);

		rlx_free(d->str[i]);
		if (f->role == RLX_FIELD_ATTR && f->kind == RLX_K_blob)
			rlx_blob_put(*(struct rlx_blob **)v);
		if (f->role == RLX_FIELD_ATTR && f->kind == RLX_K_graph)
			rlx_graph_put(*(struct rlx_graph **)v);
		if (f->role == RLX_FIELD_ATTR && f->kind == RLX_K_custom)
			rlx_custom_put(*(struct rlx_custom **)v);
	}
	rlx_free(d->args);
	rlx_free(d->in);
}

static bool draft_init(struct parser *p, struct draft *d)
{
	char name[64];
	size_t n = word(p, name, sizeof(name));

	*d = (struct draft){ .def = p->st ? NULL : rlx_op_find(name, n) };
	if (!d->def) {
		bad(p, "there is no op '%s'", name);
		return false;
	}
	d->args = rlx_calloc(1, d->def->args_size + 1u);
	if (d->args)
		rlx_args_init(d->def, d->args);
	if (!d->args || !rlx_grow(&d->in, &d->cap_in, d->def->n_fixed + 1u, sizeof(*d->in))) {
		p->st = rlx_fail(p->err, RLX_ENOMEM, "parse: out of memory");
		return false;
	}
	memset(d->in, 0, d->cap_in * sizeof(*d->in));
	d->n_in = d->def->n_fixed;
	return true;
}

static rlx_value make_node(struct parser *p, struct scope *s, struct draft *d)
{
	const struct rlx_op_input *leaf = d->args;	/* param begins with the same members */
	rlx_value v = RLX_NONE;
	uint32_t i, k = 0;

	if (d->def->index == RLX_OP_input)
		v = leaf->state ? rlx_state_at(s->g, leaf->name, leaf->type, NULL, 0) :
				  rlx_input_at(s->g, leaf->name, leaf->type, NULL, 0);
	else if (d->def->index == RLX_OP_param)
		v = rlx_param_at(s->g, leaf->name, leaf->type, NULL, 0);
	else {
		for (i = 0; i < d->def->n_field; i++) {
			const struct rlx_field *f = &d->def->field[i];

			if (f->role != RLX_FIELD_IN && f->role != RLX_FIELD_OPT)
				continue;
			if (!d->in[k++] && f->role == RLX_FIELD_IN)
				bad(p, "%s: input '%s' is missing", d->def->name, f->name);
		}
		if (!p->st)
			v = rlx_node_new(s->g, d->def, d->args, d->in, d->n_in, NULL);
	}
	if (!v.id && !p->st)
		refused(p, s->g);
	return v;
}

enum { MAX_OUTS = RLX_MAX_OUT };

static void check_types(struct parser *p, struct scope *s, rlx_value v, uint32_t n)
{
	char want[128], got[128];
	struct rlx_type t;
	uint32_t i;

	if (!eat(p, ":"))
		return;
	for (i = 0; i < n && !p->st; i++) {
		if (i)
			need(p, ",");
		t = type(p, s);
		if (p->st || rlx_type_equal(&t, rlx_type_of(s->g, rlx_out(s->g, v, i))))
			continue;
		rlx_graph_type_print(s->g, &t, want, sizeof(want));
		rlx_graph_type_print(s->g, rlx_type_of(s->g, rlx_out(s->g, v, i)), got,
				     sizeof(got));
		bad(p, "the text says %s, the op gives %s", want, got);
	}
}

static void node(struct parser *p, struct scope *s)
{
	int64_t ids[MAX_OUTS];
	uint32_t n = 0, i, have;
	struct draft d;
	rlx_value v;

	do {
		need(p, "%");
		if (n == MAX_OUTS) {
			bad(p, "over %d outputs", MAX_OUTS);
			return;
		}
		ids[n++] = p->st ? 0 : integer(p);
	} while (eat(p, ","));
	need(p, "=");
	if (p->st)
		return;
	if (!draft_init(p, &d)) {
		draft_fini(&d);
		return;
	}
	need(p, "(");
	while (!p->st && !eat(p, ")")) {
		field(p, s, &d);
		if (!eat(p, ",")) {
			need(p, ")");
			break;
		}
	}
	v = p->st ? RLX_NONE : make_node(p, s, &d);
	draft_fini(&d);
	if (!v.id)
		return;
	have = rlx_node_of(s->g, v.id)->n_out;
	if (have != n)
		bad(p, "the op has %u outputs, the text names %u", have, n);
	for (i = 0; i < n && !p->st; i++)
		define(p, s, ids[i], v.id + i);
	check_types(p, s, v, n);
}

static void outputs(struct parser *p, struct scope *s)
{
	char *name;
	uint32_t v;

	do {
		name = string(p);
		need(p, "=");
		v = value(p, s);
		if (!p->st)
			rlx_output_at(s->g, name, (rlx_value){ v }, NULL, 0);
		if (!p->st && rlx_graph_error(s->g)->status)
			refused(p, s->g);
		rlx_free(name);
	} while (!p->st && eat(p, ","));
}

static struct rlx_graph *parse_graph(struct parser *p)
{
	struct scope s = { 0 };
	char *name;

	if (p->depth == MAX_DEPTH) {
		bad(p, "sub-graphs nest over %d deep", MAX_DEPTH);
		return NULL;
	}
	need(p, "graph");
	name = string(p);
	s.g = p->st ? NULL : rlx_graph_new(name);
	rlx_free(name);
	if (!s.g) {
		if (!p->st)
			p->st = rlx_fail(p->err, RLX_ENOMEM, "parse: out of memory");
		return NULL;
	}
	p->depth++;
	need(p, "{");
	while (!p->st && !eat(p, "return")) {
		if (eat(p, "dim "))
			dimension(p, &s);
		else
			node(p, &s);
	}
	if (!p->st)
		outputs(p, &s);
	need(p, "}");
	p->depth--;
	if (!p->st && rlx_graph_finish(s.g))
		refused(p, s.g);
	rlx_map_fini(&s.map);
	if (p->st) {
		rlx_graph_put(s.g);
		return NULL;
	}
	return s.g;
}

enum rlx_status rlx_graph_parse_listed(const char *text, size_t len,
				       const struct rlx_blob_list *l, struct rlx_graph **out_g,
				       struct rlx_error *err)
{
	struct parser p = { .p = text, .start = text, .end = text + len, .err = err, .list = l };
	struct rlx_graph *g;

	*out_g = NULL;
	g = parse_graph(&p);
	space(&p);
	if (g && p.p != p.end)
		bad(&p, "text after the graph");
	if (p.st) {
		rlx_graph_put(g);
		return p.st;
	}
	*out_g = g;
	return RLX_OK;
}

enum rlx_status rlx_graph_parse(const char *text, size_t len,
				struct rlx_graph **out_g, struct rlx_error *err)
{
	if (!text || !out_g)
		return rlx_fail(err, RLX_EINVAL, "parse: no text, or no place for the graph");
	return rlx_graph_parse_listed(text, len, NULL, out_g, err);
}
