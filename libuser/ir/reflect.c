// SPDX-License-Identifier: MIT
/* The ops as data, and emitting by name. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "ir/custom.h"
#include "ir/graph.h"
#include "rlx/reflect.h"

/* Edit distance of two short names, at most @most + 1. */
static unsigned int distance(const char *a, const char *b, unsigned int most)
{
	unsigned int row[64], n = (unsigned int)strlen(b), i, j, left, up, least;

	if (n >= 64)
		return most + 1;
	for (j = 0; j <= n; j++)
		row[j] = j;
	for (i = 1; *a; a++, i++) {
		left = row[0];
		row[0] = least = i;
		for (j = 1; j <= n; j++) {
			up = row[j];
			row[j] = left + (*a != b[j - 1]);
			row[j] = row[j] < up + 1 ? row[j] : up + 1;
			row[j] = row[j] < row[j - 1] + 1 ? row[j] : row[j - 1] + 1;
			left = up;
			least = row[j] < least ? row[j] : least;
		}
		if (least > most)
			return most + 1;
	}
	return row[n];
}

/* The better of two guesses at @name; one edit in three letters is near. */
static void guess(const char *name, const char *have, const char **best, unsigned int *at)
{
	unsigned int most = (unsigned int)strlen(have) / 3 + 1, d;

	if (most > 3)
		most = 3;
	d = distance(name, have, most);
	if (d <= most && (!*best || d < *at)) {
		*best = have;
		*at = d;
	}
}

static enum rlx_status unknown_op(struct rlx_error *err, const char *name)
{
	const char *best = NULL;
	unsigned int at = 0, i;

	for (i = 0; i < rlx_op_count; i++)
		guess(name, rlx_op_defs[i]->name, &best, &at);
	return rlx_fail(err, RLX_ENOENT, "there is no op '%s'%s%s%s", name,
			best ? "; is it '" : "", best ? best : "", best ? "'" : "");
}

static enum rlx_status unknown_field(struct rlx_error *err, const struct rlx_op_def *def,
				     const char *name)
{
	const char *best = NULL;
	unsigned int at = 0, i;

	for (i = 0; i < def->n_field; i++)
		guess(name, def->field[i].name, &best, &at);
	return rlx_fail(err, RLX_ENOENT, "%s: there is no argument '%s'%s%s%s", def->name, name,
			best ? "; is it '" : "", best ? best : "", best ? "'" : "");
}

uint32_t rlx_ops_count(void)
{
	return rlx_op_count;
}

enum rlx_status rlx_ops_info(uint32_t i, struct rlx_op_info *out)
{
	const struct rlx_op_def *def = i < rlx_op_count ? rlx_op_defs[i] : NULL;
	struct rlx_op_info o;

	if (!out || out->size < sizeof(out->size))
		return RLX_EINVAL;
	if (!def)
		return RLX_ERANGE;
	o = (struct rlx_op_info){
		.size = out->size, .name = def->name, .doc = def->doc, .n_field = def->n_field,
		.gradient = !(def->traits & (RLX_T_NODIFF | RLX_T_LEAF)) &&
			    (def->impl->vjp || def->impl->expand || def->impl->grad_expand),
		.fused = def->traits & RLX_T_FUSED, .leaf = def->traits & RLX_T_LEAF,
	};
	memcpy(out, &o, o.size < sizeof(o) ? o.size : sizeof(o));
	return RLX_OK;
}

static const char *type_name(const struct rlx_field *f)
{
	static const char *const roles[] = { NULL, "input", "optional", "inputs" };
	static const char *const kinds[] = { "i32", "i64", "f32", "f64", "bool", "dtype", "str",
					     "ints", "floats", "type", "blob", "graph", "custom" };

	return f->role == RLX_FIELD_ATTR ? kinds[f->kind] : roles[f->role];
}

enum rlx_status rlx_ops_field(uint32_t i, uint32_t field, struct rlx_field_info *out)
{
	const struct rlx_field *f;
	struct rlx_field_info o;

	if (!out || out->size < sizeof(out->size))
		return RLX_EINVAL;
	if (i >= rlx_op_count || field >= rlx_op_defs[i]->n_field)
		return RLX_ERANGE;
	f = &rlx_op_defs[i]->field[field];
	o = (struct rlx_field_info){
		.size = out->size, .name = f->name, .type = type_name(f),
		.required = f->role == RLX_FIELD_IN ||
			    (f->role == RLX_FIELD_ATTR && f->absent == RLX_ABSENT_REQ),
		.zero_too = f->role == RLX_FIELD_ATTR && f->absent == RLX_ABSENT_NZ,
		.def = (double)f->def, .hint = f->hint,
	};
	memcpy(out, &o, o.size < sizeof(o) ? o.size : sizeof(o));
	return RLX_OK;
}

enum rlx_status rlx_ops_find(const char *name, uint32_t *out_i, struct rlx_error *err)
{
	const struct rlx_op_def *def = name ? rlx_op_find(name, strlen(name)) : NULL;

	if (!def)
		return unknown_op(err, name ? name : "");
	*out_i = def->index;
	return RLX_OK;
}

/* What is being made: the op's struct, and lists that came as text. */
struct named {
	const struct rlx_op_def	*def;
	struct rlx_error	*err;
	unsigned char		*args;
	void			*list[RLX_MAX_FIELDS];
	struct rlx_custom	*custom;	/* held until the node has it */
	uint32_t		 seen;		/* bit by field */
};

static enum rlx_status no_fit(struct named *q, const struct rlx_field *f, const char *text)
{
	return rlx_fail(q->err, RLX_EINVAL, "%s: '%s' is %s%s%s%s, which what was given is not",
			q->def->name, f->name, type_name(f), text ? " ('" : "",
			text ? text : "", text ? "')" : "");
}

static enum rlx_status set_int(struct named *q, const struct rlx_field *f, void *p, int64_t v)
{
	switch (f->kind) {
	case RLX_K_i64: *(int64_t *)p = v; break;
	case RLX_K_f32: *(float *)p = (float)v; break;
	case RLX_K_f64: *(double *)p = (double)v; break;
	case RLX_K_i32:
	case RLX_K_bool:
		if (v < (f->kind == RLX_K_bool ? 0 : INT32_MIN) ||
		    v > (f->kind == RLX_K_bool ? 1 : INT32_MAX))
			return rlx_fail(q->err, RLX_EINVAL, "%s: '%s' is %s, %lld is out of range",
					q->def->name, f->name, type_name(f), (long long)v);
		if (f->kind == RLX_K_bool)
			*(bool *)p = v;
		else
			*(int32_t *)p = (int32_t)v;
		break;
	default:
		return no_fit(q, f, NULL);
	}
	return RLX_OK;
}

static enum rlx_status set_real(struct named *q, const struct rlx_field *f, void *p, double v)
{
	if (f->kind == RLX_K_f32)
		*(float *)p = (float)v;
	else if (f->kind == RLX_K_f64)
		*(double *)p = v;
	else
		return no_fit(q, f, NULL);
	return RLX_OK;
}

/* "[1, 2]", with or without brackets, into memory that @q drops. */
static enum rlx_status set_list(struct named *q, const struct rlx_field *f, void *p,
				const char *text)
{
	size_t n = strlen(text) / 2 + 1, k = 0;
	bool real = f->kind == RLX_K_floats, open;
	int64_t *v = rlx_malloc(n * sizeof(*v));
	const char *s = text;
	char *end;

	q->list[f - q->def->field] = v;
	if (!v)
		return rlx_fail(q->err, RLX_ENOMEM, "out of memory");
	s += strspn(s, " ");
	open = *s == '[';
	s += open;
	s += strspn(s, " ");
	while (*s && *s != ']') {
		errno = 0;
		if (real)
			((double *)(void *)v)[k] = rlx_strtod(s, &end);
		else
			v[k] = strtoll(s, &end, 10);
		if (end == s || (errno && !real) || k++ >= n)
			return no_fit(q, f, text);
		s = end + strspn(end, " ");
		if (*s == ',' && s[1 + strspn(s + 1, " ")] != ']' && s[1])
			s++;
		else if (*s && *s != ']')
			return no_fit(q, f, text);
	}
	s += open && *s == ']';
	if (s[strspn(s, " ")] || (open && s[-1] != ']'))
		return no_fit(q, f, text);
	*(struct rlx_ints *)p = (struct rlx_ints){ v, (uint32_t)k };
	return RLX_OK;
}

static enum rlx_status set_text(struct named *q, const struct rlx_field *f, void *p,
				const char *text)
{
	char *end = NULL;
	int64_t v;
	double r;

	switch (f->kind) {
	case RLX_K_bool:
		if (strcmp(text, "true") && strcmp(text, "false"))
			return no_fit(q, f, text);
		*(bool *)p = *text == 't';
		return RLX_OK;
	case RLX_K_i32:
	case RLX_K_i64:
		errno = 0;
		v = strtoll(text, &end, 10);
		return end == text || *end || errno ? no_fit(q, f, text) : set_int(q, f, p, v);
	case RLX_K_f32:
	case RLX_K_f64:
		r = rlx_strtod(text, &end);
		return end == text || *end ? no_fit(q, f, text) : set_real(q, f, p, r);
	case RLX_K_dtype:
		*(enum rlx_dtype *)p = rlx_dtype_parse(text);
		return rlx_dtype_parse(text) ? RLX_OK : no_fit(q, f, text);
	case RLX_K_str:
		*(const char **)p = text;
		return RLX_OK;
	case RLX_K_ints:
	case RLX_K_floats:
		return set_list(q, f, p, text);
	case RLX_K_custom:
		rlx_custom_put(q->custom);
		q->custom = rlx_custom_find(text);
		*(struct rlx_custom **)p = q->custom;
		return q->custom ? RLX_OK : rlx_fail(q->err, RLX_ENOENT, RLX_CUSTOM_UNKNOWN, text);
	default:
		return no_fit(q, f, text);
	}
}

static enum rlx_status set_arg(struct named *q, const struct rlx_field *f,
			       const struct rlx_op_arg *a)
{
	void *p = rlx_field_ptr(f, q->args);
	int kind = f->role == RLX_FIELD_ATTR ? (int)f->kind : -1;

	if (a->kind == RLX_ARG_VALUE && (f->role == RLX_FIELD_IN || f->role == RLX_FIELD_OPT))
		*(rlx_value *)p = a->value;
	else if (a->kind == RLX_ARG_VALUES && f->role == RLX_FIELD_INS)
		*(struct rlx_values *)p = a->values;
	else if (a->kind == RLX_ARG_INT && kind >= 0)
		return set_int(q, f, p, a->i);
	else if (a->kind == RLX_ARG_REAL && kind >= 0)
		return set_real(q, f, p, a->f);
	else if (a->kind == RLX_ARG_TEXT && kind >= 0 && a->text)
		return set_text(q, f, p, a->text);
	else if (a->kind == RLX_ARG_INTS && kind == RLX_K_ints)
		*(struct rlx_ints *)p = a->ints;
	else if (a->kind == RLX_ARG_REALS && kind == RLX_K_floats)
		*(struct rlx_floats *)p = a->floats;
	else if (a->kind == RLX_ARG_TYPE && kind == RLX_K_type)
		*(struct rlx_type *)p = a->type;
	else if (a->kind == RLX_ARG_TYPE && kind == RLX_K_dtype)
		*(enum rlx_dtype *)p = a->type.dtype;
	else if (a->kind == RLX_ARG_BLOB && kind == RLX_K_blob)
		*(struct rlx_blob **)p = a->blob;
	else if (a->kind == RLX_ARG_GRAPH && kind == RLX_K_graph)
		*(struct rlx_graph **)p = a->graph;
	else
		return no_fit(q, f, NULL);
	return RLX_OK;
}

static enum rlx_status take(struct named *q, const struct rlx_op_arg *a)
{
	uint32_t i;

	for (i = 0; a->name && i < q->def->n_field; i++) {
		if (strcmp(q->def->field[i].name, a->name))
			continue;
		if (q->seen >> i & 1)
			return rlx_fail(q->err, RLX_EINVAL, "%s: '%s' is given twice",
					q->def->name, a->name);
		q->seen |= 1u << i;
		return set_arg(q, &q->def->field[i], a);
	}
	return unknown_field(q->err, q->def, a->name ? a->name : "");
}

rlx_value rlx_emit_named(struct rlx_graph *g, const char *op, const struct rlx_op_arg *args,
			 uint32_t n, const char *file, unsigned int line)
{
	struct rlx_error err = { 0 };
	struct named q = { .err = &err };
	struct rlx_op_ref ref;
	rlx_value v = RLX_NONE;
	uint32_t i;

	if (!g || rlx_graph_error(g)->status)
		return v;
	if (rlx_ops_find(op, &i, &err))
		goto out_report;
	ref.def = q.def = rlx_op_defs[i];
	q.args = rlx_calloc(1, q.def->args_size + 1u);
	if (!q.args) {
		rlx_fail(&err, RLX_ENOMEM, "out of memory");
		goto out_report;
	}
	if (q.def->traits & RLX_T_LEAF)
		rlx_fail(&err, RLX_EINVAL, "%s: made by rlx_input(), rlx_param(), rlx_constant()",
			 q.def->name);
	rlx_args_init(q.def, q.args);
	for (i = 0; i < n && !err.status; i++)
		take(&q, &args[i]);
	if (!err.status)
		v = rlx_emit_raw(g, &ref, q.args, q.def->args_size, file, line);
	for (i = 0; i < RLX_MAX_FIELDS; i++)
		rlx_free(q.list[i]);
	rlx_custom_put(q.custom);
	rlx_free(q.args);
out_report:
	if (err.status)
		rlx_error_set(&g->err, err.status, file, line, "%s", err.text);
	return v;
}
