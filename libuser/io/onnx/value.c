// SPDX-License-Identifier: MIT
/*
 * Values of an import and the graphs they live in. A value made by one graph
 * and used in another becomes an input there; a known one becomes a constant.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/onnx/imp.h"
#include "ir/graph.h"

/*
 * Ops on constants up to this size are evaluated while importing: shapes always,
 * larger ones until a hostile model has had its share of time and memory.
 */
#define FOLD_BYTES	(64 << 10)
#define FOLD_SHAPE	1024
#define FOLD_TOTAL	(64ull << 20)

enum rlx_status onnx_nomem(struct onnx_build *b)
{
	return rlx_fail(b->err, RLX_ENOMEM, "onnx: %s: out of memory",
			onnx_file_name(b->file));
}

struct onnx_val *onnx_val_new(struct onnx_build *b, enum rlx_spec_kind kind)
{
	struct onnx_val *v = rlx_bump_new(&b->mem, 1, sizeof(*v));

	if (!v) {
		onnx_nomem(b);
		return NULL;
	}
	v->kind = kind;
	v->id = b->n_val++;
	v->next = b->vals;
	b->vals = v;
	return v;
}

static const struct rlx_op_constant *constant_of(const struct rlx_graph *g,
						 rlx_value v)
{
	const struct rlx_node *n;

	if (!v.id || v.id >= g->n_val)
		return NULL;
	n = rlx_node_of(g, v.id);
	return n->def == rlx_op_constant.def ? n->args : NULL;
}

const void *onnx_const(struct onnx_build *b, rlx_value v)
{
	const struct rlx_op_constant *c = constant_of(b->ctx->g, v);

	return c ? rlx_blob_data(c->data) : NULL;
}

static uint64_t roots_get(const struct onnx_ctx *c, rlx_value v)
{
	return v.id < c->cap_roots ? c->roots[v.id] : 0;
}

static void roots_set(struct onnx_build *b, rlx_value v, uint64_t roots)
{
	struct onnx_ctx *c = b->ctx;
	uint32_t old = c->cap_roots;

	if (!v.id || !roots)
		return;
	if (!rlx_grow(&c->roots, &c->cap_roots, v.id + 1, sizeof(*c->roots))) {
		onnx_nomem(b);
		return;
	}
	if (c->cap_roots > old)
		memset(c->roots + old, 0,
		       (c->cap_roots - old) * sizeof(*c->roots));
	c->roots[v.id] = roots;
}

struct onnx_val *onnx_val_of(struct onnx_build *b, rlx_value v)
{
	const struct rlx_type *t = rlx_type_of(b->ctx->g, v);
	const struct rlx_op_constant *c;
	struct onnx_val *val;

	if (!t)
		return NULL;
	val = onnx_val_new(b, RLX_SPEC_TENSOR);
	if (!val)
		return NULL;
	val->ctx = b->ctx->serial;
	val->v = v;
	val->type = *t;
	val->roots = roots_get(b->ctx, v);
	c = constant_of(b->ctx->g, v);
	if (c)
		val->blob = rlx_blob_get(c->data);
	return val;
}

enum rlx_dtype onnx_dtype_to_rlx(int64_t dtype)
{
	static const uint8_t map[] = {
		[ONNX_FLOAT] = RLX_F32,	     [ONNX_UINT8] = RLX_U8,
		[ONNX_INT8] = RLX_I8,	     [ONNX_UINT16] = RLX_U16,
		[ONNX_INT16] = RLX_I16,	     [ONNX_INT32] = RLX_I32,
		[ONNX_INT64] = RLX_I64,	     [ONNX_BOOL] = RLX_BOOL,
		[ONNX_FLOAT16] = RLX_F16,    [ONNX_DOUBLE] = RLX_F64,
		[ONNX_UINT32] = RLX_U32,     [ONNX_UINT64] = RLX_U64,
		[ONNX_COMPLEX64] = RLX_C64,  [ONNX_BFLOAT16] = RLX_BF16,
		[ONNX_F8E4M3FN] = RLX_F8E4M3, [ONNX_F8E5M2] = RLX_F8E5M2,
		/* Packed integers are unpacked to bytes. */
		[ONNX_UINT4] = RLX_U8,	     [ONNX_INT4] = RLX_I8,
		[ONNX_UINT2] = RLX_U8,	     [ONNX_INT2] = RLX_I8,
	};

	if (dtype < 0 || dtype >= (int64_t)sizeof(map))
		return RLX_NODTYPE;
	return map[dtype];
}

struct onnx_val *onnx_val_tensor(struct onnx_build *b,
				 const struct onnx_tensor *t)
{
	enum rlx_dtype dt = onnx_dtype_to_rlx(t->dtype);
	struct onnx_val *v;

	if (t->dtype != ONNX_STRING && !dt) {
		rlx_fail(b->err, RLX_ENOSUP,
			 "onnx: tensor '%.*s': element type %s is not supported",
			 ONNX_STR(t->name), onnx_dtype_name(t->dtype));
		return NULL;
	}
	if (t->ndims > RLX_MAX_RANK) {
		rlx_fail(b->err, RLX_ENOSUP,
			 "onnx: tensor '%.*s': rank %zu is over %d",
			 ONNX_STR(t->name), t->ndims, RLX_MAX_RANK);
		return NULL;
	}
	v = onnx_val_new(b, t->dtype == ONNX_STRING ? RLX_SPEC_STRINGS :
			 RLX_SPEC_TENSOR);
	if (!v)
		return NULL;
	v->type.dtype = dt;
	v->elem = t->dtype;
	v->type.rank = (uint32_t)t->ndims;
	if (t->ndims)
		memcpy(v->type.dim, t->dims, t->ndims * sizeof(*t->dims));
	if (t->dtype == ONNX_STRING) {
		v->str = t->strings;
		return v;
	}
	v->blob = onnx_tensor_blob(b->file, t);
	if (!v->blob) {
		onnx_nomem(b);
		return NULL;
	}
	return v;
}

struct onnx_val *onnx_val_list(struct onnx_build *b,
			       struct onnx_val *const *item, uint32_t n)
{
	struct onnx_val *v = onnx_val_new(b, RLX_SPEC_LIST);

	if (!v)
		return NULL;
	v->item = rlx_bump_new(&b->mem, n, sizeof(*v->item));
	if (!v->item) {
		onnx_nomem(b);
		return NULL;
	}
	if (n)
		memcpy(v->item, item, n * sizeof(*item));
	v->n_item = n;
	return v;
}

struct onnx_ctx *onnx_ctx_begin(struct onnx_build *b, bool body)
{
	struct onnx_ctx *c = rlx_calloc(1, sizeof(*c));

	if (c)
		c->g = rlx_graph_new(NULL);
	if (!c || !c->g) {
		rlx_free(c);
		onnx_nomem(b);
		return NULL;
	}
	c->parent = body ? b->ctx : NULL;
	c->serial = ++b->n_serial;
	b->ctx = c;
	b->body += body;
	return c;
}

void onnx_ctx_end(struct onnx_build *b)
{
	b->ctx = b->ctx->parent;
	b->body--;
}

void onnx_ctx_free(struct onnx_ctx *c)
{
	if (!c)
		return;
	rlx_graph_put(c->g);
	rlx_map_fini(&c->imports);
	rlx_free(c->capture);
	rlx_free(c->roots);
	rlx_free(c);
}

/* A name for @val that every segment of every replay agrees on. */
static void import_name(const struct onnx_val *val, char *buf, size_t size)
{
	if (val->input)
		snprintf(buf, size, "%s", val->input);
	else
		snprintf(buf, size, "%%cut.%u", val->id);
}

static rlx_value import(struct onnx_build *b, struct onnx_val *val)
{
	struct onnx_ctx *c = b->ctx;
	char name[256];
	rlx_value v;

	if (!c->parent) {
		import_name(val, name, sizeof(name));
		v = rlx_input(c->g, name, val->type);
	} else {
		snprintf(name, sizeof(name), "c%u", c->n_capture);
		v = rlx_input(c->g, name, val->type);
		if (!rlx_grow(&c->capture, &c->cap_capture, c->n_capture + 1,
			      sizeof(*c->capture))) {
			onnx_nomem(b);
			return RLX_NONE;
		}
		c->capture[c->n_capture++] = val;
	}
	roots_set(b, v, val->roots);
	return v;
}

rlx_value onnx_use(struct onnx_build *b, struct onnx_val *val)
{
	struct onnx_ctx *c = b->ctx;
	uint64_t id;
	rlx_value v;

	if (val->kind != RLX_SPEC_TENSOR) {
		rlx_fail(b->err, RLX_ETYPE, "onnx: %s where a tensor of "
			 "numbers is needed", val->kind == RLX_SPEC_LIST ?
			 "a sequence" : val->kind == RLX_SPEC_STRINGS ?
			 "a tensor of strings" : "an empty optional");
		return RLX_NONE;
	}
	if (val->ctx == c->serial)
		return val->v;
	if (rlx_map_get(&c->imports, &val, sizeof(val), &id))
		return (rlx_value){ (uint32_t)id };
	if (val->blob)
		v = rlx_constant_blob(c->g, val->type, val->blob);
	else
		v = import(b, val);
	if (v.id && !rlx_map_put(&c->imports, &val, sizeof(val), v.id)) {
		onnx_nomem(b);
		return RLX_NONE;
	}
	return v;
}

/* The inputs of an argument struct, declared ones first; @in has room for 64. */
struct operands {
	uint32_t		n;
	const rlx_value		*v[64];
	bool			too_many, missing;
};

static void operands(const struct rlx_op_def *def, const void *args,
		     struct operands *o)
{
	const struct rlx_values *list;
	uint32_t i, k;

	o->n = 0;
	o->too_many = o->missing = false;
	for (i = 0; i < def->n_field; i++) {
		const struct rlx_field *f = &def->field[i];
		const void *p = rlx_field_ptr(f, args);

		if (f->role == RLX_FIELD_ATTR)
			continue;
		list = p;
		if (f->role != RLX_FIELD_INS) {
			o->v[o->n] = p;
			if (f->role == RLX_FIELD_IN && !o->v[o->n]->id)
				o->missing = true;
			o->n++;
			continue;
		}
		for (k = 0; k < list->n && o->n < 64; k++) {
			o->missing |= !list->v[k].id;
			o->v[o->n++] = &list->v[k];
		}
		o->too_many = k < list->n;
	}
}

#define NEVER_FOLD	(RLX_T_LEAF | RLX_T_IMPURE | RLX_T_SUBGRAPH)

/* Evaluate now if all is known and small; none if that is not so. */
static rlx_value fold(struct onnx_build *b, const struct rlx_op_def *def,
		      const void *args, const struct operands *o)
{
	const struct rlx_type *type[64] = { NULL };
	struct rlx_tensor in[64], out;
	struct rlx_error err = { 0 };
	struct rlx_infer q = {
		.err = &err, .def = def, .args = args, .n_in = o->n,
		.in = type, .n_out = 1,
	};
	int64_t bytes = 0, limit = FOLD_BYTES;
	rlx_value v = RLX_NONE;
	enum rlx_status st;
	uint32_t i;

	/* GEMMs cost more than their bytes. */
	if (def->traits & RLX_T_COMPUTE || b->folded > FOLD_TOTAL)
		limit = FOLD_SHAPE;
	for (i = 0; i < o->n; i++) {
		in[i] = (struct rlx_tensor){ 0 };
		if (!o->v[i]->id)
			continue;
		in[i].data = (void *)(uintptr_t)onnx_const(b, *o->v[i]);
		type[i] = rlx_type_of(b->ctx->g, *o->v[i]);
		if (!in[i].data || !type[i])
			return RLX_NONE;
		in[i].type = *type[i];
		bytes += rlx_type_bytes(type[i]);
		if (bytes > limit)
			return RLX_NONE;
	}
	if (rlx_op_infer(&q) || q.n_out != 1)
		return RLX_NONE;
	out.type = q.out[0];
	b->folded += (uint64_t)bytes;
	bytes = rlx_type_bytes(&out.type);
	if (bytes < 0 || bytes > limit)
		return RLX_NONE;
	b->folded += (uint64_t)bytes;
	out.data = rlx_aligned(64, bytes ? (size_t)bytes : 1);
	if (!out.data) {
		onnx_nomem(b);
		return RLX_NONE;
	}
	st = rlx_op_eval(&(struct rlx_eval){
			.err = &err, .def = def, .args = args, .n_in = o->n,
			.in = in, .n_out = 1, .out = &out });
	if (!st)
		v = rlx_constant(b->ctx->g, out.type, out.data);
	else if (st == RLX_ENOMEM)
		onnx_nomem(b);	/* not merely unknown: it would be a cut */
	rlx_free(out.data);
	return v;
}

rlx_value onnx_emit(struct onnx_build *b, const struct rlx_op_ref *op, void *args,
		    size_t size)
{
	const struct rlx_op_def *def = op->def;
	rlx_value v = RLX_NONE, out;
	struct operands o;
	uint64_t roots = 0;
	uint32_t i, n;

	if (rlx_graph_error(b->ctx->g)->status || b->err->status)
		return v;
	operands(def, args, &o);
	/* what is quantized stays so, for products of integers (pass/qdq.c) */
	if (!(def->traits & NEVER_FOLD) && def != rlx_op_dequantize.def && !o.too_many &&
	    !o.missing && !rlx_args_resolve(def, args, &(struct rlx_error){ 0 }))
		v = fold(b, def, args, &o);
	if (v.id)
		return v;
	for (i = 0; i < o.n; i++)
		roots |= roots_get(b->ctx, *o.v[i]);
	if (def->traits & RLX_T_IMPURE || o.too_many)
		roots |= ONNX_ROOT_OPAQUE;
	v = rlx_emit_raw(b->ctx->g, op, args, size, __FILE__, __LINE__);
	if (!v.id)
		return v;
	n = rlx_node_of(b->ctx->g, v.id)->n_out;
	for (i = 0; i < n; i++) {
		out = rlx_out(b->ctx->g, v, i);
		roots_set(b, out, roots);
	}
	return v;
}

enum rlx_status onnx_op_fail(struct onnx_op *q, enum rlx_status st,
			     const char *file, unsigned int line,
			     const char *fmt, ...)
{
	const struct rlx_error *e = rlx_graph_error(q->b->ctx->g);
	struct rlx_str name = q->n->name;
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!name.n && q->n->noutputs)
		name = q->n->outputs[0];
	if (e->status)
		st = e->status;
	return rlx_error_set(q->b->err, st, file, line,
			     "onnx: %.*s (opset %lld, node '%.*s'): %s",
			     ONNX_STR(q->n->op_type), (long long)q->opset,
			     ONNX_STR(name), e->status ? e->text : text);
}

enum rlx_status onnx_graph_status(struct onnx_op *q)
{
	const struct rlx_error *e = rlx_graph_error(q->b->ctx->g);

	if (q->b->err->status)
		return q->b->err->status;
	if (e->status)
		return op_err(q, e->status, "%s", e->text);
	return RLX_OK;
}
