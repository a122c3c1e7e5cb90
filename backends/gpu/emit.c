// SPDX-License-Identifier: MIT
/*
 * Pointwise steps as source text: a function of one element, written from the nodes
 * of a region or a single op, over the functions of kernels/gpu/ew.h. The text knows
 * dtypes and which operands lie as the result does, but no sizes, so that programs
 * of other sizes share the kernel.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu.h"
#include "base/alloc.h"
#include "ir/graph.h"
#include "kernels/gpu/ew.h"

enum { MOST_TEXT = 24576, THREADS = 256, MOST_BLOCKS = 1 << 20 };

/* How an operand is walked. */
enum walk { WALK_ALONG, WALK_ONE, WALK_STRIDES };

struct writer {
	struct rlx_lower *lo;
	struct rlx_g_ew	*a;
	uint32_t	 n_in, n_out;
	enum walk	 walk[RLX_G_EW_IN];
	bool		 strides;		/* some operand is walked so */
	size_t		 n;
	bool		 ok;
	char		 text[MOST_TEXT];
};

__attribute__((format(printf, 2, 3)))
static void put(struct writer *w, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(w->text + w->n, sizeof(w->text) - w->n, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(w->text) - w->n)
		w->ok = false;
	else
		w->n += (size_t)n;
}

/* What an element of this dtype is in the kernel. */
static const char *class_of(enum rlx_dtype dt)
{
	return dt == RLX_F64 ? "double" : rlx_dtype_is_float(dt) ? "F" :
	       dt == RLX_U64 ? "uint64_t" : "int64_t";
}

/* A value in the text. */
struct operand {
	char		name[16];
	enum rlx_dtype	type;
};

static enum rlx_dtype compute_type(const struct operand *in, uint32_t n)
{
	return n == 1 ? in[0].type : rlx_dtype_promote(in[n - 2].type, in[n - 1].type);
}

/* Functions take operands of the dtype they compute in; an integer row takes three. */
static void put_op(struct writer *w, const struct rlx_op_def *def, const struct operand *r,
		   const struct operand *in, uint32_t n)
{
	enum rlx_dtype dt = compute_type(in, n), result = r->type;
	const char *out = r->name;
	bool real = rlx_dtype_is_float(dt);
	uint32_t k;

	if (result != RLX_BOOL || dt == RLX_BOOL)
		put(w, "const %s %s = ew_cast_to<%d>::of(", class_of(result), out,
		    result == RLX_BF16 || result == RLX_F16 ? RLX_F32 : (int)result);
	else	/* a comparison: 1 or 0 in the class of its operands */
		put(w, "const int64_t %s = (int64_t)ew_cast_to<%d>::of(", out, RLX_BOOL);
	if (real)
		put(w, "ewf_%s<%s>(", def->name, class_of(dt));
	else
		put(w, "ew%c_%s(", dt == RLX_U64 ? 'u' : 'i', def->name);
	for (k = 0; k < (real ? n : 3); k++)
		if (k < n)
			put(w, "%s(%s)ew_cast_to<%d>::of(%s)", k ? ", " : "", class_of(dt),
			    real && dt != RLX_F64 ? RLX_F32 : (int)dt, in[k].name);
		else
			put(w, ", 0");
	put(w, "));\n");
}

static void put_cast(struct writer *w, const struct operand *r, const struct operand *in)
{
	put(w, "const %s %s = ew_cast_to<%d>::of(%s);\n", class_of(r->type), r->name,
	    (int)r->type, in->name);
}

static void put_any(struct writer *w, const struct rlx_op_def *def, const struct operand *r,
		    const struct operand *in, uint32_t n)
{
	if (def->index == RLX_OP_cast)
		put_cast(w, r, in);
	else
		put_op(w, def, r, in, n);
}

/* ---- operands ---- */

static bool takes_dtype(enum rlx_dtype dt)
{
	return dt > RLX_NODTYPE && dt <= RLX_BOOL;
}

/* @shape is the result's; dimensions that all operands walk as one are merged. */
static void begin(struct writer *w, struct rlx_lower *lo, const struct rlx_type *shape)
{
	struct rlx_g_ew *a = lower_args(lo, sizeof(*a));
	int64_t stride[RLX_G_EW_IN + 1][RLX_K_DIMS], dense[RLX_K_DIMS];
	uint32_t k, d;

	w->lo = lo;
	w->a = a;
	w->ok = true;
	w->n = 0;
	w->n_in = lo->st->n_in;
	w->n_out = lo->st->n_out;
	w->strides = false;
	a->n = rlx_type_count(shape);
	memcpy(a->dim, shape->dim, sizeof(a->dim));
	for (k = 0; k < w->n_in; k++)
		shape_broadcast(lower_in(lo, k), shape, stride[k]);
	shape_dense(shape, stride[w->n_in]);
	a->rank = rlx_k_collapse((int)shape->rank, a->dim, (int)w->n_in + 1, stride);
	memcpy(dense, stride[w->n_in], sizeof(dense));
	for (k = 0; k < w->n_in; k++) {
		bool along = true, one = true;

		for (d = 0; d < (uint32_t)a->rank; d++) {
			along = along && stride[k][d] == dense[d];
			one = one && !stride[k][d];
			a->stride[k][d] = stride[k][d];
		}
		w->walk[k] = one ? WALK_ONE : along ? WALK_ALONG : WALK_STRIDES;
		w->strides = w->strides || w->walk[k] == WALK_STRIDES;
		lower_ref_in(lo, &a->in[k], k, 0);
	}
	for (k = 0; k < w->n_out; k++)
		lower_ref_out(lo, &a->out[k], k, 0);
}

/* Indices of the operands that are walked by strides, from the flat one. */
static void put_indices(struct writer *w)
{
	const char *type = w->a->n < (int64_t)1 << 31 ? "uint32_t" : "int64_t";
	int d;
	uint32_t k;

	for (k = 0; k < w->n_in; k++)
		if (w->walk[k] == WALK_STRIDES)
			put(w, "int64_t p%u = 0;\n", k);
	put(w, "{ %s r = (%s)i, c;\n", type, type);
	for (d = w->a->rank; d-- > 0;) {
		if (d)
			put(w, "c = r %% (%s)a.dim[%d]; r /= (%s)a.dim[%d];\n", type, d, type, d);
		else
			put(w, "c = r;\n");
		for (k = 0; k < w->n_in; k++)
			if (w->walk[k] == WALK_STRIDES)
				put(w, "p%u += (int64_t)c * a.stride[%u][%d];\n", k, k, d);
	}
	put(w, "}\n");
}

static void put_head(struct writer *w)
{
	uint32_t k;

	put(w, "#include \"kernels/gpu/dialect.h\"\n#include \"kernels/gpu/ew.h\"\n"
	    "RLX_G_KERNEL(ew, struct rlx_g_ew, %d)\n{\n", THREADS);
	for (k = 0; k < w->n_in; k++)
		put(w, "const void *x%u = RLX_G_PTR(const void, a.in[%u]);\n", k, k);
	for (k = 0; k < w->n_out; k++)
		put(w, "void *y%u = RLX_G_PTR(void, a.out[%u]);\n", k, k);
	put(w, "const int64_t step = (int64_t)gridDim.x * %d;\n"
	    "for (int64_t i = (int64_t)blockIdx.x * %d + threadIdx.x; i < a.n; i += step) {\n",
	    THREADS, THREADS);
	if (w->strides)
		put_indices(w);
	for (k = 0; k < w->n_in; k++) {
		enum rlx_dtype dt = lower_in(w->lo, k)->dtype;

		put(w, "const %s i%u = ew_load<%d>(x%u, ", class_of(dt), k, (int)dt, k);
		put(w, w->walk[k] == WALK_STRIDES ? "p%u);\n" :
		    w->walk[k] == WALK_ONE ? "0);\n" : "i);\n", k);
	}
}

/* Compile what was written, and call it. */
static enum rlx_status call_written(struct writer *w)
{
	struct rlx_lower *lo = w->lo;
	struct rlx_g_launch l = { .can = true, .grid = { 1, 1, 1 },
				  .block = { THREADS, 1, 1 } };
	int64_t blocks = (w->a->n + THREADS - 1) / THREADS;
	enum rlx_status st;
	void *fn;

	put(w, "}\n}\n");
	if (!w->ok)
		return lower_no(lo, "the region is too large");
	if (gpu_lower_of(lo)->dry || !w->a->n)
		return lo->status;
	if (gpu_fill_holes(lo))
		return lo->status;
	l.grid[0] = (uint32_t)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
	st = gpu_function_get(gpu_of(lo), &(struct gpu_kernel){ "ew", w->text, l.key }, &fn,
			      lo->err);
	if (st)
		return lo->status = st;
	return gpu_call(lo, fn, &l);
}

static enum rlx_status finish(struct writer *w)
{
	enum rlx_status st = call_written(w);

	rlx_free(w);
	return st;
}

/* ---- steps ---- */

static bool takes_all(const struct rlx_lower *lo)
{
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (!lower_in(lo, k) || !takes_dtype(lower_in(lo, k)->dtype))
			return false;
	for (k = 0; k < lo->st->n_out; k++)
		if (!takes_dtype(lower_out(lo, k)->dtype))
			return false;
	return lo->st->n_in <= RLX_G_EW_IN && lo->st->n_out <= RLX_G_EW_OUT;
}

static struct writer *writer_new(struct rlx_lower *lo)
{
	struct writer *w;

	if (!takes_all(lo)) {
		lower_no(lo, "no kernel for this dtype or so many operands");
		return NULL;
	}
	w = rlx_malloc(sizeof(*w));
	if (!w)
		lower_no_memory(lo);
	return w;
}

static enum rlx_status lower_one(struct rlx_lower *lo)
{
	struct operand in[3] = { { "i0", 0 }, { "i1", 0 }, { "i2", 0 } }, r = { "v", 0 };
	struct writer *w = writer_new(lo);
	uint32_t k;

	if (!w)
		return lo->status;
	begin(w, lo, lower_out(lo, 0));
	put_head(w);
	for (k = 0; k < w->n_in; k++)
		in[k].type = lower_in(lo, k)->dtype;
	r.type = lower_out(lo, 0)->dtype;
	put_any(w, lo->st->def, &r, in, w->n_in);
	put(w, "ew_store<%d>(y0, i, v);\n", (int)r.type);
	return finish(w);
}

enum rlx_status gpu_lower_cast(struct rlx_lower *lo)
{
	return lower_one(lo);
}

/* A constant of one element, by its bits where it is a float. */
static void put_constant(struct writer *w, const struct rlx_node *v)
{
	const struct rlx_op_constant *c = v->args;
	struct rlx_tensor one = { c->type, (void *)(uintptr_t)rlx_blob_data(c->data) };
	enum rlx_dtype dt = c->type.dtype;
	double f = 0;
	int64_t i = 0;
	bool real = rlx_dtype_is_float(dt);
	struct rlx_tensor d = { rlx_scalar(RLX_F64), &f }, di = { rlx_scalar(RLX_I64), &i };
	struct rlx_op_cast to = { .to = real ? RLX_F64 : RLX_I64 };

	one.type.rank = 0;
	if (rlx_type_count(&c->type) != 1 || !takes_dtype(dt) ||
	    rlx_op_eval(&(struct rlx_eval){ .def = rlx_op_cast.def, .args = &to, .n_in = 1,
					    .in = &one, .n_out = 1, .out = real ? &d : &di })) {
		w->ok = false;
		return;
	}
	if (real && isfinite(f))
		put(w, "const %s v%u = %a;\n", class_of(dt), v->out, f);
	else if (real)
		put(w, "const %s v%u = %s%s;\n", class_of(dt), v->out, f < 0 ? "-" : "",
		    isnan(f) ? "NAN" : "INFINITY");
	else
		put(w, "const %s v%u = (%s)0x%" PRIx64 "ull;\n", class_of(dt), v->out,
		    class_of(dt), (uint64_t)i);
}

static void put_node(struct writer *w, const struct rlx_graph *b, const struct rlx_node *v)
{
	struct operand in[3], r = { "", b->val[v->out].type.dtype };
	uint32_t k;

	if (v->n_in > 3) {
		w->ok = false;
		return;
	}
	for (k = 0; k < v->n_in; k++) {
		in[k].type = b->val[v->in[k]].type.dtype;
		snprintf(in[k].name, sizeof(in[k].name), "v%u", v->in[k]);
	}
	snprintf(r.name, sizeof(r.name), "v%u", v->out);
	put_any(w, v->def, &r, in, v->n_in);
}

enum rlx_status gpu_lower_region(struct rlx_lower *lo)
{
	const struct rlx_op_region *args = lo->args;
	const struct rlx_graph *b = args->body;
	struct writer *w = writer_new(lo);
	uint32_t n, k, v;

	if (!w)
		return lo->status;
	begin(w, lo, lower_out(lo, 0));
	put_head(w);
	for (k = 0; k < w->n_in; k++) {
		v = b->io[RLX_IO_INPUT].e[k].v.id;
		put(w, "const %s v%u = i%u;\n", class_of(b->val[v].type.dtype), v, k);
	}
	for (n = 0; n < b->n_node && w->ok; n++)
		if (b->node[n].def->index == RLX_OP_constant)
			put_constant(w, &b->node[n]);
		else if (b->node[n].def->index != RLX_OP_input)
			put_node(w, b, &b->node[n]);
	for (k = 0; k < w->n_out; k++) {
		v = b->io[RLX_IO_OUTPUT].e[k].v.id;
		put(w, "ew_store<%d>(y%u, i, v%u);\n", (int)b->val[v].type.dtype, k, v);
	}
	return finish(w);
}

#define EW(n)								\
	enum rlx_status gpu_lower_##n(struct rlx_lower *lo) { return lower_one(lo); }
#define EW1(n, ...) EW(n)
#define EW2(n, ...) EW(n)
#define EW3(n, ...) EW(n)
#include "ops/elementwise.def"
