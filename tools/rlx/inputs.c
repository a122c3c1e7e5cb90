// SPDX-License-Identifier: MIT
/* Inputs as the command line describes them: shapes first, then contents. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/proc.h"
#include "ir/element.h"
#include "rlx/dims.h"
#include "tools/rlx/subject.h"

/* A growing line for messages that list things. */
struct line {
	char	text[400];
	size_t	n;
};

static void line_add(struct line *l, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void line_add(struct line *l, const char *fmt, ...)
{
	va_list ap;
	int k;

	va_start(ap, fmt);
	k = vsnprintf(l->text + l->n, sizeof(l->text) - l->n, fmt, ap);
	va_end(ap);
	if (k > 0)
		l->n += (size_t)k < sizeof(l->text) - l->n ? (size_t)k :
			sizeof(l->text) - l->n - 1;
}

const char *value_of(const char *text, const char *name)
{
	size_t n = strlen(name);

	return !strncmp(text, name, n) && text[n] == '=' ? text + n + 1 : NULL;
}

/* The last value given for @name: later options win. */
static const char *find(const struct arg_list *l, const char *name)
{
	const char *v = NULL, *s;
	unsigned int i;

	for (i = 0; i < l->n; i++) {
		s = value_of(l->v[i], name);
		v = s ? s : v;
	}
	return v;
}

/* Input @i as declared; a graph's are inputs, then params, all of fixed shape. */
static void declared(const struct subject *s, unsigned int i, struct rlx_model_io *io)
{
	unsigned int n, d;
	enum rlx_io kind = RLX_IO_INPUT;
	const struct rlx_type *t;

	if (s->model) {
		rlx_model_io_at(s->model, RLX_IO_INPUT, i, io);
		return;
	}
	n = rlx_graph_io_count(s->graph, RLX_IO_INPUT);
	if (i >= n) {
		kind = RLX_IO_PARAM;
		i -= n;
	}
	t = rlx_type_of(s->graph, rlx_graph_io_value(s->graph, kind, i));
	*io = (struct rlx_model_io){
		.name = rlx_graph_io_name(s->graph, kind, i),
		.dtype = t->dtype, .rank = (int)t->rank,
	};
	for (d = 0; d < t->rank; d++) {
		io->dim[d] = t->dim[d];
		io->dim_name[d] = "";
	}
}

static const char *list_inputs(const struct subject *s, struct line *l)
{
	struct rlx_model_io io;
	unsigned int i;

	for (i = 0; i < s->n_in; i++) {
		declared(s, i, &io);
		line_add(l, "%s%s", i ? ", " : "", io.name);
	}
	return s->n_in ? l->text : "none";
}

/* Every NAME= of --input and --shape must be an input. */
static int check_names(const struct subject *s, const struct arg_list *l,
		       const char *option)
{
	struct rlx_model_io io;
	struct line names = { "", 0 };
	unsigned int i, k;

	for (i = 0; i < l->n; i++) {
		for (k = 0; k < s->n_in; k++) {
			declared(s, k, &io);
			if (value_of(l->v[i], io.name))
				break;
		}
		if (k == s->n_in)
			return tool_fail(s->cmd, TOOL_USAGE,
					 "--%s %s: no such input; there are: %s", option,
					 l->v[i], list_inputs(s, &names));
	}
	return TOOL_OK;
}

static int check_dims(const struct subject *s, const struct arg_list *l)
{
	struct rlx_model_io io;
	struct line names = { "", 0 };
	unsigned int i, k;
	uint64_t v;
	int d;

	for (i = 0; i < l->n; i++) {
		bool known = false;

		for (k = 0; k < s->n_in; k++) {
			declared(s, k, &io);
			for (d = 0; d < io.rank; d++) {
				const char *text = *io.dim_name[d] ?
					value_of(l->v[i], io.dim_name[d]) : NULL;

				if (!i && *io.dim_name[d] &&
				    !strstr(names.text, io.dim_name[d]))
					line_add(&names, "%s%s", names.n ? ", " : "",
						 io.dim_name[d]);
				if (text && !parse_u64(text, INT64_MAX, &v))
					return tool_fail(s->cmd, TOOL_USAGE,
							 "--dim %s: want a whole number",
							 l->v[i]);
				known = known || text;
			}
		}
		if (!known)
			return tool_fail(s->cmd, TOOL_USAGE,
					 "--dim %s: no such dimension; there are: %s",
					 l->v[i], names.n ? names.text : "none");
	}
	return TOOL_OK;
}

static bool is_file(const char *spec)
{
	return spec && strcmp(spec, "random") && strcmp(spec, "zeros") &&
	       strncmp(spec, "random:", 7) && strncmp(spec, "const:", 6);
}

static int open_files(struct subject *s, const struct subject_args *a)
{
	struct rlx_error err = { 0 };
	struct rlx_model_io io;
	const char *spec;
	unsigned int i;

	for (i = 0; i < s->n_in; i++) {
		declared(s, i, &io);
		spec = find(&a->input, io.name);
		if (is_file(spec) && rlx_npy_open(spec, &s->npy[i], &err))
			return tool_fail(s->cmd, TOOL_FAILED, "input '%s': %s", io.name,
					 err.text);
	}
	return TOOL_OK;
}

/* A dimension's size by --dim, else by a file whose input has that dimension. */
static bool named_dim(const struct subject *s, const struct subject_args *a,
		      const char *name, int64_t *out)
{
	const char *text = *name ? find(&a->dim, name) : NULL;
	struct rlx_model_io io;
	unsigned int i;
	uint64_t v;
	int d;

	if (text && parse_u64(text, INT64_MAX, &v)) {
		*out = (int64_t)v;
		return true;
	}
	for (i = 0; *name && i < s->n_in; i++) {
		declared(s, i, &io);
		for (d = 0; s->npy[i] && d < io.rank; d++)
			if (!strcmp(io.dim_name[d], name) &&
			    (uint32_t)d < rlx_npy_type(s->npy[i])->rank) {
				*out = rlx_npy_type(s->npy[i])->dim[d];
				return true;
			}
	}
	return false;
}

static bool parse_shape(const char *text, struct rlx_type *t)
{
	char num[32];
	uint64_t v;
	size_t n;

	for (t->rank = 0; *text; t->rank++) {
		n = strcspn(text, ",");
		if (t->rank == RLX_MAX_RANK || n >= sizeof(num))
			return false;
		memcpy(num, text, n);
		num[n] = 0;
		if (!parse_u64(num, INT64_MAX, &v))
			return false;
		t->dim[t->rank] = (int64_t)v;
		text += n;
		if (*text && !*++text)
			return false;
	}
	return true;
}

/* The type of input @i; what is left open is added to @open. */
static int type_of(struct subject *s, const struct subject_args *a, unsigned int i,
		   struct line *open)
{
	struct rlx_type *t = &s->in[i].type;
	struct rlx_model_io io;
	const char *shape;
	char how[160];
	int d;

	declared(s, i, &io);
	s->in[i].name = io.name;
	if (s->npy[i]) {
		*t = *rlx_npy_type(s->npy[i]);
		return TOOL_OK;
	}
	*t = (struct rlx_type){ .dtype = io.dtype };
	if (io.dtype == RLX_NODTYPE)
		return tool_fail(s->cmd, TOOL_FAILED,
				 "%s: input '%s' is no tensor of numbers; this command gives only those",
				 s->path, io.name);
	shape = find(&a->shape, io.name);
	if (shape && !parse_shape(shape, t))
		return tool_fail(s->cmd, TOOL_USAGE,
				 "--shape %s=%s: want up to %d sizes with commas between",
				 io.name, shape, RLX_MAX_RANK);
	if (shape)
		return TOOL_OK;
	if (io.rank < 0)
		line_add(open, "%s%s (--shape %s=D,...)", open->n ? ", " : "", io.name,
			 io.name);
	for (d = 0; d < io.rank; d++) {
		t->dim[d] = io.dim[d];
		if (io.dim[d] >= 0 || named_dim(s, a, io.dim_name[d], &t->dim[d]))
			continue;
		snprintf(how, sizeof(how), *io.dim_name[d] ? "(--dim %s=N)" :
			 "(--shape %s=D,...)", *io.dim_name[d] ? io.dim_name[d] : io.name);
		if (!strstr(open->text, how))	/* once, if inputs share it */
			line_add(open, "%s%s[%d] %s", open->n ? ", " : "", io.name, d, how);
	}
	t->rank = io.rank < 0 ? 0 : (uint32_t)io.rank;
	return TOOL_OK;
}

static uint64_t next_random(uint64_t *s)
{
	uint64_t z = (*s += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* As it was written. A double has few of the integers of 64 bits, whose bits are apart for that. */
struct number {
	char	text[64];
	double	real;
	int64_t	bits;
	bool	whole;		/* @bits say it, of a negative one in two's complement */
};

static bool number_of(const char *text, size_t n, struct number *out)
{
	char *end;

	if (n >= sizeof(out->text))
		return false;
	memcpy(out->text, text, n);
	out->text[n] = 0;
	if (!parse_num(out->text, &out->real))
		return false;
	errno = 0;
	out->bits = out->real < 0 ? strtoll(out->text, &end, 10) :
		    (int64_t)strtoull(out->text, &end, 10);
	out->whole = !errno && !*end;
	if (*end && out->real == floor(out->real) && out->real >= -0x1p63 && out->real < 0x1p64) {
		out->bits = out->real < 0 ? (int64_t)out->real :
			    (int64_t)(uint64_t)out->real;	/* 1e3, say */
		out->whole = true;
	}
	return true;
}

/* "LO:HI" */
static bool range_of(const char *text, struct number *lo, struct number *hi)
{
	size_t n = strcspn(text, ":");

	return text[n] && number_of(text, n, lo) &&
	       number_of(text + n + 1, strlen(text + n + 1), hi) &&
	       (lo->real < hi->real ||
		(lo->real == hi->real && (uint64_t)lo->bits <= (uint64_t)hi->bits));
}

static void put(const struct rlx_tensor *t, int64_t i, const struct number *v)
{
	if (el_is_int(t->type.dtype))
		el_seti(t, i, v->bits);
	else
		el_set(t, i, v->real);
}

/* Uniform in [lo, hi]; integers take both ends. */
static void fill_random(const struct rlx_tensor *t, const struct number *lo,
			const struct number *hi, uint64_t seed)
{
	unsigned __int128 many = (unsigned __int128)((uint64_t)hi->bits - (uint64_t)lo->bits) + 1;
	int64_t n = rlx_type_count(&t->type), i;

	for (i = 0; i < n; i++) {
		uint64_t r = next_random(&seed);

		if (el_is_int(t->type.dtype))
			el_seti(t, i, (int64_t)((uint64_t)lo->bits + (uint64_t)(r * many >> 64)));
		else
			el_set(t, i, lo->real +
			       (double)(r >> 11) * 0x1p-53 * (hi->real - lo->real));
	}
}

/* Has @dt the number @v: as it is among integers, rounded among floats? */
static bool has_number(enum rlx_dtype dt, const struct number *v)
{
	uint64_t room[2] = { 0 };
	struct rlx_tensor t = { rlx_scalar(dt), room };

	put(&t, 0, v);
	if (!el_is_int(dt))
		return isfinite(el_get(&t, 0));
	return v->whole && el_geti(&t, 0) == v->bits &&
	       (dt == RLX_U64 ? v->real >= 0 : (v->bits < 0) == (v->real < 0));
}

/* What @spec says of the numbers of an input: from @lo to @hi. */
static int numbers_of(const struct subject *s, unsigned int i, const char *spec,
		      struct number *lo, struct number *hi)
{
	const char *name = s->in[i].name;
	enum rlx_dtype dt = s->in[i].type.dtype;
	bool constant = !strncmp(spec, "const:", 6);

	if (constant && !number_of(spec + 6, strlen(spec + 6), lo))
		return tool_fail(s->cmd, TOOL_USAGE, "--input %s=%s: want const:NUMBER", name,
				 spec);
	if (constant)
		*hi = *lo;
	else if (spec[6] && !range_of(spec + 7, lo, hi))
		return tool_fail(s->cmd, TOOL_USAGE,
				 "--input %s=%s: want random:LO:HI with LO not above HI", name,
				 spec);
	if (!has_number(dt, lo) || !has_number(dt, hi))
		return tool_fail(s->cmd, TOOL_USAGE, "--input %s=%s: %s has no %s", name, spec,
				 rlx_dtype_name(dt), has_number(dt, lo) ? hi->text : lo->text);
	return TOOL_OK;
}

static int fill(struct subject *s, const struct subject_args *a, unsigned int i)
{
	const char *name = s->in[i].name, *spec = find(&a->input, name);
	struct rlx_tensor t = { s->in[i].type, NULL };
	int64_t bytes = rlx_type_bytes(&t.type), k, n;
	struct number lo = { "0", 0, 0, true }, hi = { "1", 1, 1, true };
	char type[96];
	int rc;

	rlx_type_print(&t.type, type, sizeof(type));
	/* filling more than there is would end in the OOM killer's hands */
	if (bytes < 0 || (uint64_t)bytes > rlx_mem_available() / 2)
		return tool_fail(s->cmd, TOOL_FAILED,
				 "input '%s' as %s is too large for this machine's memory", name,
				 type);
	t.data = s->own[i] = rlx_aligned(64, ((size_t)bytes + 127) / 64 * 64);
	if (!t.data)
		return tool_fail(s->cmd, TOOL_FAILED, "input '%s': no memory for %s", name,
				 type);
	memset(t.data, 0, (size_t)bytes);
	s->in[i].data = t.data;
	if (spec && !strcmp(spec, "zeros"))
		return TOOL_OK;
	if (!el_is_int(t.type.dtype))
		lo.real = -1;
	rc = spec ? numbers_of(s, i, spec, &lo, &hi) : TOOL_OK;
	if (rc)
		return rc;
	n = rlx_type_count(&t.type);
	if (spec && !strncmp(spec, "const:", 6))
		for (k = 0; k < n; k++)
			put(&t, k, &lo);
	else
		fill_random(&t, &lo, &hi, a->seed + i * 0x100000001b3u);
	return TOOL_OK;
}

/* Every NAME= of --dim must be a name of the graph. */
static int check_graph_dims(const struct subject *s, const struct arg_list *l)
{
	struct line names = { "", 0 };
	struct rlx_dim_info d;
	unsigned int i, k;

	for (k = 0; rlx_graph_dim_at(s->graph, k, &d); k++)
		line_add(&names, "%s%s", k ? ", " : "", d.name);
	for (i = 0; i < l->n; i++) {
		for (k = 0; rlx_graph_dim_at(s->graph, k, &d) && !value_of(l->v[i], d.name); k++)
			;
		if (k == rlx_graph_dim_count(s->graph))
			return tool_fail(s->cmd, TOOL_USAGE,
					 "--dim %s: no such dimension; there are: %s", l->v[i],
					 names.text);
	}
	return TOOL_OK;
}

/* A graph's names get the sizes that --dim says, last ones for each; @bound: it had some. */
static int bind_dims(struct subject *s, const struct subject_args *a, bool *bound)
{
	unsigned int n = rlx_graph_dim_count(s->graph), i;
	struct rlx_binding *b = rlx_calloc(n + 1, sizeof(*b));
	struct line open = { "", 0 };
	struct rlx_error err = { 0 };
	struct rlx_graph *g;
	struct rlx_dim_info d;
	uint64_t v;

	*bound = n != 0;
	if (!b)
		return tool_fail(s->cmd, TOOL_FAILED, "out of memory");
	if (n && check_graph_dims(s, &a->dim)) {
		rlx_free(b);
		return TOOL_USAGE;
	}
	for (i = 0; i < n && rlx_graph_dim_at(s->graph, i, &d); i++) {
		const char *text = find(&a->dim, d.name);

		if (!text)
			line_add(&open, "%s(--dim %s=N)", open.n ? ", " : "", d.name);
		else if (parse_u64(text, INT64_MAX, &v))
			b[i] = (struct rlx_binding){ d.name, (int64_t)v };
		else
			line_add(&open, "%s%s=%s is no whole number", open.n ? ", " : "", d.name,
				 text);
	}
	if (open.n) {
		rlx_free(b);
		return tool_fail(s->cmd, TOOL_USAGE, "%s: sizes are missing: %s", s->path,
				 open.text);
	}
	if (n && !rlx_graph_bind(s->graph, b, n, &g, &err)) {
		rlx_graph_put(s->graph);
		s->graph = g;
	}
	rlx_free(b);
	return err.status ? tool_fail(s->cmd, TOOL_FAILED, "%s: %s", s->path, err.text) : TOOL_OK;
}

int subject_inputs(struct subject *s, const struct subject_args *a)
{
	struct line open = { "", 0 };
	bool bound;
	unsigned int i;
	int rc = bind_dims(s, a, &bound);

	if (rc)
		return rc;
	s->n_in = s->model ? rlx_model_io_count(s->model, RLX_IO_INPUT) :
		  rlx_graph_io_count(s->graph, RLX_IO_INPUT) +
		  rlx_graph_io_count(s->graph, RLX_IO_PARAM);
	s->in = rlx_calloc(s->n_in + 1, sizeof(*s->in));
	s->own = rlx_calloc(s->n_in + 1, sizeof(*s->own));
	s->npy = rlx_calloc(s->n_in + 1, sizeof(struct rlx_npy *));
	if (!s->in || !s->own || !s->npy)
		return tool_fail(s->cmd, TOOL_FAILED, "out of memory");
	rc = check_names(s, &a->input, "input");
	rc = rc ? rc : check_names(s, &a->shape, "shape");
	rc = rc || bound ? rc : check_dims(s, &a->dim);
	rc = rc ? rc : open_files(s, a);
	for (i = 0; !rc && i < s->n_in; i++)
		rc = type_of(s, a, i, &open);
	if (!rc && open.n)
		return tool_fail(s->cmd, TOOL_USAGE, "%s: sizes are missing: %s", s->path,
				 open.text);
	for (i = 0; !rc && i < s->n_in; i++) {
		if (s->npy[i])
			s->in[i].data = rlx_npy_data(s->npy[i]);
		else
			rc = fill(s, a, i);
	}
	return rc;
}

void subject_args_free(struct subject_args *a)
{
	arg_list_free(&a->input);
	arg_list_free(&a->dim);
	arg_list_free(&a->shape);
}
