// SPDX-License-Identifier: MIT
/*
 * Graphs as ONNX files. All but the tensors' bytes is put together first, so that the lengths
 * in front of messages are known; tensors then go to the file from where they are.
 */
#include <string.h>

#include "base/alloc.h"
#include "io/formats/file.h"
#include "io/onnx/proto.h"
#include "io/onnx/write.h"
#include "io/tokenizer/utf8.h"
#include "pass/rewrite.h"
#include "rlx/onnx.h"

enum { OPSET = 20, IR_VERSION = 9, MAX_ROUNDS = 16 };

/* ---- protobuf ---- */

static void put_bytes(struct onnx_buf *b, const void *p, size_t n)
{
	if (b->bad || n > INT32_MAX - b->n || !rlx_grow(&b->p, &b->cap, b->n + (uint32_t)n, 1)) {
		b->bad = true;
		return;
	}
	if (n)
		memcpy(b->p + b->n, p, n);
	b->n += (uint32_t)n;
}

static void put_varint(struct onnx_buf *b, uint64_t v)
{
	uint8_t byte[10];
	size_t n = 0;

	do {
		byte[n] = (uint8_t)(v & 127);
		v >>= 7;
		byte[n] |= v ? 128 : 0;
		n++;
	} while (v);
	put_bytes(b, byte, n);
}

static void put_int(struct onnx_buf *b, uint32_t field, int64_t v)
{
	put_varint(b, field << 3);
	put_varint(b, (uint64_t)v);
}

static void put_part(struct onnx_buf *b, uint32_t field, const void *p, size_t n)
{
	put_varint(b, field << 3 | 2);
	put_varint(b, n);
	put_bytes(b, p, n);
}

static void put_string(struct onnx_buf *b, uint32_t field, const char *s)
{
	put_part(b, field, s, strlen(s));
}

/* A message inside another; it is gone then. */
static void put_message(struct onnx_buf *b, uint32_t field, struct onnx_buf *part)
{
	b->bad = b->bad || part->bad;
	put_part(b, field, part->p, part->n);
	rlx_free(part->p);
	*part = (struct onnx_buf){ 0 };
}

/* ---- names and tensors ---- */

struct onnx_name onnxw_fresh(struct onnx_writer *w)
{
	struct onnx_name v = { .leaf = NULL };

	snprintf(v.s, sizeof(v.s), ".%u", w->g->n_val + w->fresh++);
	return v;
}

struct onnx_name onnxw_value(const struct onnx_writer *w, uint32_t id)
{
	struct onnx_name v = { .leaf = id ? w->name[id] : NULL };

	if (id)
		snprintf(v.s, sizeof(v.s), ".%u", id);
	return v;
}

static const char *text_of(const struct onnx_name *v)
{
	return v->leaf ? v->leaf : v->s;
}

int64_t onnx_dtype_of(enum rlx_dtype dt)
{
	static const uint8_t to[RLX_DTYPE_COUNT] = {
		[RLX_F64] = ONNX_DOUBLE, [RLX_F32] = ONNX_FLOAT, [RLX_F16] = ONNX_FLOAT16,
		[RLX_BF16] = ONNX_BFLOAT16, [RLX_F8E4M3] = ONNX_F8E4M3FN,
		[RLX_F8E5M2] = ONNX_F8E5M2, [RLX_I64] = ONNX_INT64, [RLX_I32] = ONNX_INT32,
		[RLX_I16] = ONNX_INT16, [RLX_I8] = ONNX_INT8, [RLX_U64] = ONNX_UINT64,
		[RLX_U32] = ONNX_UINT32, [RLX_U16] = ONNX_UINT16, [RLX_U8] = ONNX_UINT8,
		[RLX_BOOL] = ONNX_BOOL, [RLX_C64] = ONNX_COMPLEX64,
	};

	return dt > RLX_NODTYPE && dt < RLX_DTYPE_COUNT ? to[dt] : 0;
}

static struct onnx_init *add_tensor(struct onnx_writer *w, const char *name,
				    const struct rlx_type *t, const void *data)
{
	struct onnx_init *e;
	uint32_t d;

	if (w->st || !rlx_grow(&w->init, &w->cap_init, w->n_init + 1, sizeof(*w->init))) {
		w->st = w->st ? w->st : rlx_fail(w->err, RLX_ENOMEM, "onnx: out of memory");
		return NULL;
	}
	e = &w->init[w->n_init++];
	*e = (struct onnx_init){ .data = data, .bytes = (uint64_t)rlx_type_bytes(t) };
	for (d = 0; d < t->rank; d++)
		put_int(&e->head, 1, t->dim[d]);
	put_int(&e->head, 2, onnx_dtype_of(t->dtype));
	put_string(&e->head, 8, name);
	put_varint(&e->head, 9 << 3 | 2);	/* raw_data: the bytes follow */
	put_varint(&e->head, e->bytes);
	return e;
}

struct onnx_name onnxw_tensor_owned(struct onnx_writer *w, struct rlx_type t, void *data)
{
	struct onnx_name v = onnxw_fresh(w);
	struct onnx_init *e = data ? add_tensor(w, v.s, &t, data) : NULL;

	if (e)
		e->own = data;
	else
		rlx_free(data);
	if (!data && !w->st)
		w->st = rlx_fail(w->err, RLX_ENOMEM, "onnx: out of memory");
	return v;
}

struct onnx_name onnxw_list(struct onnx_writer *w, const int64_t *v, uint32_t n)
{
	int64_t *copy = rlx_malloc((n + 1ul) * sizeof(*copy));

	if (copy && n)
		memcpy(copy, v, n * sizeof(*copy));
	return onnxw_tensor_owned(w, rlx_type(RLX_I64, n), copy);
}

/* ---- nodes ---- */

struct onnx_put onnxw_begin(struct onnx_writer *w)
{
	return (struct onnx_put){ .w = w };
}

void onnxw_put_in(struct onnx_put *q, struct onnx_name v)
{
	put_string(&q->b, 1, text_of(&v));
}

void onnxw_put_out(struct onnx_put *q, struct onnx_name v)
{
	put_string(&q->b, 2, text_of(&v));
}

/* An attribute whose value is in @a already. */
static void put_attr(struct onnx_put *q, const char *name, int type, struct onnx_buf *a)
{
	put_string(a, 1, name);
	put_int(a, 20, type);
	put_message(&q->b, 5, a);
}

void onnxw_put_i(struct onnx_put *q, const char *attr, int64_t v)
{
	struct onnx_buf a = { 0 };

	put_int(&a, 3, v);
	put_attr(q, attr, ONNX_ATTR_INT, &a);
}

void onnxw_put_f(struct onnx_put *q, const char *attr, float v)
{
	struct onnx_buf a = { 0 };

	put_varint(&a, 2 << 3 | 5);
	put_bytes(&a, &v, sizeof(v));
	put_attr(q, attr, ONNX_ATTR_FLOAT, &a);
}

void onnxw_put_s(struct onnx_put *q, const char *attr, const char *v)
{
	struct onnx_buf a = { 0 };

	put_string(&a, 4, v);
	put_attr(q, attr, ONNX_ATTR_STRING, &a);
}

void onnxw_put_ints(struct onnx_put *q, const char *attr, const int64_t *v, uint32_t n)
{
	struct onnx_buf a = { 0 };

	for (; n; n--, v++)
		put_int(&a, 8, *v);
	put_attr(q, attr, ONNX_ATTR_INTS, &a);
}

void onnxw_end(struct onnx_put *q, const char *op)
{
	put_string(&q->b, 4, op);
	put_message(&q->w->nodes, 1, &q->b);
}

/* ---- the graph ---- */

/* ValueInfoProto: a name and its type. */
static void put_info(struct onnx_buf *to, uint32_t field, const char *name,
		     const struct rlx_type *t)
{
	struct onnx_buf info = { 0 }, type = { 0 }, tensor = { 0 }, shape = { 0 }, dim = { 0 };
	uint32_t d;

	for (d = 0; d < t->rank; d++) {
		put_int(&dim, 1, t->dim[d]);
		put_message(&shape, 1, &dim);
	}
	put_int(&tensor, 1, onnx_dtype_of(t->dtype));
	put_message(&tensor, 2, &shape);
	put_message(&type, 1, &tensor);
	put_string(&info, 1, name);
	put_message(&info, 2, &type);
	put_message(to, field, &info);
}

static bool usable(struct onnx_writer *w, const char *name)
{
	size_t n = strlen(name);

	if (rlx_utf8_check((const uint8_t *)name, n) == n && !(name[0] == '.' && name[1] >= '0' &&
							       name[1] <= '9'))
		return true;
	w->st = rlx_fail(w->err, RLX_EINVAL, "onnx: '%s' is no UTF-8, or called like a value in "
			 "between", name);
	return false;
}

static const struct rlx_named_tensor *given(const struct rlx_named_tensor *t, unsigned int n,
					    const char *name)
{
	for (; n; n--, t++)
		if (!strcmp(t->name, name))
			return t;
	return NULL;
}

/* A leaf with data is an initializer, else an input. */
static void write_leaf(struct onnx_writer *w, const struct rlx_node *n,
		       const struct rlx_named_tensor *t, unsigned int n_t)
{
	const struct rlx_op_input *a = n->args;		/* param begins with the same members */
	const struct rlx_named_tensor *has = given(t, n_t, a->name);
	char want[96], have[96];

	if (!usable(w, a->name))
		return;
	w->name[n->out] = a->name;
	if (!has) {
		put_info(&w->inputs, 11, a->name, &a->type);
		return;
	}
	if (rlx_type_equal(&has->type, &a->type) && (has->data || !rlx_type_bytes(&a->type))) {
		add_tensor(w, a->name, &a->type, has->data);
		return;
	}
	rlx_type_print(&a->type, want, sizeof(want));
	rlx_type_print(&has->type, have, sizeof(have));
	w->st = rlx_fail(w->err, RLX_ESHAPE, "onnx: '%s' is %s; the tensor that is given is %s%s",
			 a->name, want, have, has->data ? "" : " without data");
}

static void write_constant(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_op_constant *c = n->args;
	struct onnx_name v = onnxw_value(w, n->out);

	add_tensor(w, v.s, &c->type, rlx_blob_data(c->data));
}

/* Outputs have names of their own: a value may have several, or be a leaf. */
static void write_outputs(struct onnx_writer *w)
{
	const struct rlx_named_list *l = &w->g->io[RLX_IO_OUTPUT];
	uint64_t at;
	uint32_t i;

	for (i = 0; i < l->n && !w->st; i++) {
		struct onnx_name to = { .leaf = l->e[i].name };
		struct onnx_put q = onnxw_begin(w);

		if (l->e[i].state)
			continue;
		if (!usable(w, l->e[i].name))
			return;
		if (rlx_map_get(&w->g->names, l->e[i].name, strlen(l->e[i].name), &at)) {
			w->st = rlx_fail(w->err, RLX_EINVAL, "onnx: '%s' is an output and a leaf; "
					 "a model has each name once", l->e[i].name);
			return;
		}
		onnxw_put_in(&q, onnxw_value(w, l->e[i].v.id));
		onnxw_put_out(&q, to);
		onnxw_end(&q, "Identity");
		put_info(&w->outputs, 12, l->e[i].name, &w->g->val[l->e[i].v.id].type);
	}
}

static void check_given(struct onnx_writer *w, const struct rlx_named_tensor *t, unsigned int n)
{
	unsigned int i;
	uint64_t at;

	for (i = 0; i < n && !w->st; i++)
		if (!t[i].name || !rlx_map_get(&w->g->names, t[i].name, strlen(t[i].name), &at))
			w->st = rlx_fail(w->err, RLX_ENOENT, "onnx: graph '%s' has no leaf '%s'",
					 w->g->name, t[i].name ? t[i].name : "");
}

static void write_graph(struct onnx_writer *w, const struct rlx_named_tensor *t, unsigned int n)
{
	uint32_t i;

	check_given(w, t, n);
	for (i = 0; i < w->g->n_node && !w->st; i++) {
		const struct rlx_node *v = &w->g->node[i];

		if (v->def->index == RLX_OP_constant)
			write_constant(w, v);
		else if (v->def->traits & RLX_T_LEAF)
			write_leaf(w, v, t, n);
		else
			onnx_write_node(w, v);
	}
	if (!w->st)
		write_outputs(w);
}

/* ---- the file ---- */

/* The length of a part with its tag and its own length in front. */
static uint64_t framed(uint64_t n, uint32_t tag_bytes)
{
	uint64_t v = n, bytes = tag_bytes;

	do {
		bytes++;
		v >>= 7;
	} while (v);
	return n + bytes;
}

static void put_model_head(struct onnx_buf *b, uint64_t graph_bytes)
{
	struct onnx_buf opset = { 0 };

	put_int(b, 1, IR_VERSION);
	put_string(b, 2, "rlx");
	put_int(&opset, 2, OPSET);
	put_message(b, 8, &opset);
	put_varint(b, 7 << 3 | 2);
	put_varint(b, graph_bytes);
}

static enum rlx_status write_file(struct onnx_writer *w, const char *path)
{
	struct onnx_buf head = { 0 }, name = { 0 }, part = { 0 };
	struct rlx_file_writer f;
	uint64_t total;
	enum rlx_status st;
	uint32_t i;
	bool bad = w->nodes.bad || w->inputs.bad || w->outputs.bad;

	put_string(&name, 2, *w->g->name ? w->g->name : "graph");
	total = name.n + w->nodes.n + w->inputs.n + (uint64_t)w->outputs.n;
	for (i = 0; i < w->n_init; i++) {
		total += framed(w->init[i].head.n + w->init[i].bytes, 1);
		bad = bad || w->init[i].head.bad;
	}
	put_model_head(&head, total);
	if (bad || head.bad || name.bad)
		st = rlx_fail(w->err, RLX_ENOMEM, "%s: out of memory", path);
	else if (total > INT32_MAX - 4096)
		st = rlx_fail(w->err, RLX_ERANGE, "%s: %llu bytes; a model in one file has up to "
			      "2 GiB", path, (unsigned long long)total);
	else
		st = rlx_file_write_begin(&f, path, w->err);
	if (st)
		goto out_free;
	st = rlx_file_put(&f, head.p, head.n, w->err);
	st = st ? st : rlx_file_put(&f, name.p, name.n, w->err);
	st = st ? st : rlx_file_put(&f, w->nodes.p, w->nodes.n, w->err);
	for (i = 0; i < w->n_init && !st; i++) {
		part.n = 0;
		put_varint(&part, 5 << 3 | 2);
		put_varint(&part, w->init[i].head.n + w->init[i].bytes);
		st = part.bad ? rlx_fail(w->err, RLX_ENOMEM, "%s: out of memory", path) :
		     rlx_file_put(&f, part.p, part.n, w->err);
		st = st ? st : rlx_file_put(&f, w->init[i].head.p, w->init[i].head.n, w->err);
		st = st ? st : rlx_file_put(&f, w->init[i].data, (size_t)w->init[i].bytes, w->err);
	}
	st = st ? st : rlx_file_put(&f, w->inputs.p, w->inputs.n, w->err);
	st = st ? st : rlx_file_put(&f, w->outputs.p, w->outputs.n, w->err);
	st = rlx_file_write_end(&f, st, w->err);
out_free:
	rlx_free(part.p);
	rlx_free(head.p);
	rlx_free(name.p);
	return st;
}

static void writer_fini(struct onnx_writer *w)
{
	uint32_t i;

	for (i = 0; i < w->n_init; i++) {
		rlx_free(w->init[i].head.p);
		rlx_free(w->init[i].own);
	}
	rlx_free(w->init);
	rlx_free(w->nodes.p);
	rlx_free(w->inputs.p);
	rlx_free(w->outputs.p);
	rlx_free(w->name);
}

static bool must_expand(void *ctx, const struct rlx_node *n)
{
	return !onnx_can_write(ctx, n);
}

/* Ops that have no rule by what they stand for, and that by what it stands for. */
static enum rlx_status expand_all(const struct rlx_graph *g, struct rlx_graph **out,
				  struct rlx_error *err)
{
	struct rlx_graph *cur = NULL, *next;
	enum rlx_status st = RLX_OK;
	int i;

	for (i = 0; i < MAX_ROUNDS; i++) {
		next = NULL;
		st = rlx_expand_once(cur ? cur : g, must_expand, (void *)(uintptr_t)(cur ? cur : g),
				     &next, err);
		if (st || !next)
			break;
		rlx_graph_put(cur);
		cur = next;
	}
	if (st) {
		rlx_graph_put(cur);
		cur = NULL;
	}
	*out = cur;
	return st;
}

enum rlx_status rlx_onnx_write(const char *path, const struct rlx_graph *g,
			       const struct rlx_named_tensor *t, unsigned int n,
			       struct rlx_error *err)
{
	struct onnx_writer w = { .err = err };
	struct rlx_graph *made = NULL;

	if (!path || !g || !g->finished || (n && !t))
		return rlx_fail(err, RLX_EINVAL, "onnx: a path and a finished graph are needed");
	w.st = rlx_graph_is_bound(g, "onnx", err);
	if (!w.st)
		w.st = expand_all(g, &made, err);
	if (w.st)
		return w.st;
	w.g = made ? made : g;
	w.name = rlx_calloc(w.g->n_val + 1ul, sizeof(*w.name));
	if (!w.name)
		w.st = rlx_fail(err, RLX_ENOMEM, "onnx: out of memory");
	else
		write_graph(&w, t, n);
	if (!w.st)
		w.st = write_file(&w, path);
	writer_fini(&w);
	rlx_graph_put(made);
	return w.st;
}
