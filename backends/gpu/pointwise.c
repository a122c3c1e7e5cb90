// SPDX-License-Identifier: MIT
/*
 * Pointwise steps as source text: a function of one element, written from the nodes
 * of a region or a single op, over the functions of kernels/gpu/pointwise.h, and a kernel that
 * calls it. A thread has a vector of up to 16 bytes of each operand: 2 bytes at a time keep too
 * little under way for the memory. The text knows dtypes, the vector's length and which
 * operands lie as the result does, but no sizes, so that programs of other sizes share the
 * kernel. Where there is no compiler the same is written as data for a prebuilt kernel, which
 * reads it (kernels/gpu/pointwise_interp.h).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/common/parts.h"
#include "backends/gpu/pointwise_text.h"
#include "base/alloc.h"
#include "base/number.h"

/* A value in the text, and in the data by the graph's number. */
struct operand {
	char		name[16];
	enum rlx_dtype	type;
	uint32_t	value;
};

/* ---- the same as data ---- */

/* The number of a value, new or not. */
static uint8_t any_value(struct writer *w, uint32_t value)
{
	uint32_t i;

	for (i = 0; i < w->n_value && w->value[i] != value; i++)
		;
	if (i == RLX_G_ANY_VALUES) {
		w->any_fits = false;
		return 0;
	}
	w->value[i] = value;
	w->n_value += i == w->n_value;
	return (uint8_t)i;
}

static uint8_t any_row(const struct rlx_op_def *def)
{
#define EW1(n, ...) if (def->index == RLX_OP_##n) return RLX_G_ANY_##n;
#define EW2 EW1
#define EW3 EW1
#include "ops/elementwise.def"
#undef EW1
#undef EW2
#undef EW3
	return RLX_G_ANY_CAST;
}

/* Whether it is of floats alone, as exponentials and their like are. */
static bool is_function(const struct rlx_op_def *def)
{
#define TAPERS
#define STEEP
#define STEPPED
#define EW1(n, types, ...) if (def->index == RLX_OP_##n) return !strcmp(types, "F");
#define EW2(n, ...)
#define EW3(n, ...)
#include "ops/elementwise.def"
#undef EW1
#undef EW2
#undef EW3
#undef TAPERS
#undef STEEP
#undef STEPPED
	return false;
}

/* @o: its op and dtypes */
static void any_op(struct writer *w, struct rlx_g_any_op o, const struct operand *r,
		   const struct operand *in, uint32_t n)
{
	struct rlx_g_any *a = w->any;
	uint32_t k;

	if (!a)
		return;
	if (a->n_op == RLX_G_ANY_OPS || n > 3) {
		w->any_fits = false;
		return;
	}
	o.n = (uint8_t)n;
	for (k = 0; k < n; k++) {
		o.in[k] = any_value(w, in[k].value);
		o.type[k] = (uint8_t)in[k].type;
	}
	o.out = any_value(w, r->value);
	a->op[a->n_op++] = o;
}

static void any_const(struct writer *w, uint32_t value, uint64_t bits)
{
	struct rlx_g_any *a = w->any;

	if (!a)
		return;
	if (a->n_const == RLX_G_ANY_CONSTS) {
		w->any_fits = false;
		return;
	}
	a->bits[a->n_const] = bits;
	a->const_value[a->n_const++] = any_value(w, value);
}

static void any_in(struct writer *w, uint32_t k, uint32_t value, enum rlx_dtype dt)
{
	if (w->any) {
		w->any->in_type[k] = (uint8_t)dt;
		w->any->in_value[k] = any_value(w, value);
		w->any->n_in = (uint8_t)(k + 1);
	}
}

static void any_out(struct writer *w, uint32_t k, uint32_t value, enum rlx_dtype dt)
{
	if (w->any) {
		w->any->out_type[k] = (uint8_t)dt;
		w->any->out_value[k] = any_value(w, value);
		w->any->n_out = (uint8_t)(k + 1);
	}
}

/* ---- the text ---- */

static enum rlx_dtype compute_type(const struct operand *in, uint32_t n)
{
	return n == 1 ? in[0].type : rlx_dtype_promote(in[n - 2].type, in[n - 1].type);
}

/* Whether pointwise.h has the row for results of 16 bits, too. */
static bool is_fast(const struct rlx_op_def *def, enum rlx_dtype result)
{
	return rlx_dtype_size(result) == 2 &&
	       (def->index == RLX_OP_sigmoid || def->index == RLX_OP_silu ||
		def->index == RLX_OP_gelu || def->index == RLX_OP_gelu_tanh);
}

/* Functions take operands of the dtype they compute in; an integer row takes three. */
static void put_op(struct writer *w, const struct rlx_op_def *def, const struct operand *r,
		   const struct operand *in, uint32_t n)
{
	enum rlx_dtype dt = compute_type(in, n), result = r->type;
	const char *out = r->name;
	bool real = rlx_dtype_is_float(dt);
	int of = real && dt != RLX_F64 ? RLX_F32 : (int)dt;
	int to = result == RLX_BF16 || result == RLX_F16 ? RLX_F32 : (int)result;
	uint32_t k;

	any_op(w, (struct rlx_g_any_op){ .op = any_row(def), .of = (uint8_t)of,
					 .to = (uint8_t)to }, r, in, n);
	if (result != RLX_BOOL || dt == RLX_BOOL)
		put(w, "const %s %s = ew_cast_to<%d>::of(", class_of(result), out, to);
	else	/* a comparison: 1 or 0 in the class of its operands */
		put(w, "const int64_t %s = (int64_t)ew_cast_to<%d>::of(", out, RLX_BOOL);
	if (real && is_fast(def, result))
		put(w, "ewh_%s(", def->name);
	else if (real)
		put(w, "ewf_%s<%s>(", def->name, class_of(dt));
	else
		put(w, "ew%c_%s(", dt == RLX_U64 ? 'u' : 'i', def->name);
	for (k = 0; k < (real ? n : 3); k++)
		if (k < n)
			put(w, "%s(%s)ew_cast_to<%d>::of(%s)", k ? ", " : "", class_of(dt), of,
			    in[k].name);
		else
			put(w, ", 0");
	put(w, "));\n");
}

static void put_cast(struct writer *w, const struct operand *r, const struct operand *in)
{
	any_op(w, (struct rlx_g_any_op){ .op = RLX_G_ANY_CAST, .to = (uint8_t)r->type }, r, in,
	       1);
	put(w, "const %s %s = ew_cast_to<%d>::of(%s);\n", class_of(r->type), r->name,
	    (int)r->type, in->name);
}

static void put_any(struct writer *w, const struct rlx_op_def *def, const struct operand *r,
		    const struct operand *in, uint32_t n)
{
	w->n_op++;
	w->n_function += is_function(def);
	if (def->index == RLX_OP_cast)
		put_cast(w, r, in);
	else
		put_op(w, def, r, in, n);
}

/* ---- operands ---- */

/* What divides by the dimensions; see struct rlx_g_ew. */
static void take_magic(struct rlx_g_ew *a)
{
	int d;

	for (d = 0; d < a->rank; d++) {
		uint64_t n = (uint64_t)a->dim[d];

		while (n <= UINT32_MAX && (uint64_t)1 << a->shift[d] < n)
			a->shift[d]++;
		if (n && n <= UINT32_MAX)
			a->magic[d] = (uint32_t)(((((uint64_t)1 << a->shift[d]) - n) << 32) / n + 1);
	}
}

/* @shape is the result's; dimensions that all operands walk as one are merged. */
static void begin(struct writer *w, struct rlx_lower *lo, const struct rlx_type *shape)
{
	bool compiler = gpu_rtc_get(gpu_of(lo)->v, NULL);
	struct rlx_g_any *any = rlx_lower_args(lo, compiler ? sizeof(any->ew) : sizeof(*any));
	struct rlx_g_ew *a = &any->ew;
	int64_t stride[RLX_G_EW_IN + 1][RLX_K_DIMS], dense[RLX_K_DIMS];
	uint32_t k, d;

	w->lo = lo;
	w->a = a;
	w->any = compiler ? NULL : any;
	w->any_fits = true;
	w->n_value = 0;
	w->ok = true;
	w->n = 0;
	w->n_op = 0;
	w->n_function = 0;
	w->n_in = lo->st->n_in;
	w->n_out = lo->st->n_out;
	w->strides = false;
	a->n = rlx_type_count(shape);
	memcpy(a->dim, shape->dim, sizeof(a->dim));
	for (k = 0; k < w->n_in; k++)
		shape_broadcast(rlx_lower_in(lo, k), shape, stride[k]);
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
		w->type[k] = rlx_lower_in(lo, k)->dtype;
		rlx_lower_ref_in(lo, &a->in[k], k, 0);
	}
	take_magic(a);
	for (k = 0; k < w->n_out; k++) {
		w->out_type[k] = rlx_lower_out(lo, k)->dtype;
		rlx_lower_ref_out(lo, &a->out[k], k, 0);
	}
}

/* Indices p<k> of the operands that are walked by strides, from flat index @at. */
static void put_indices(struct writer *w, const char *at)
{
	bool small = w->a->n < (int64_t)1 << 31;
	const char *type = small ? "uint32_t" : "int64_t";
	int d;
	uint32_t k;

	for (k = 0; k < w->n_in; k++)
		if (w->walk[k] == WALK_STRIDES)
			put(w, "int64_t p%u = 0;\n", k);
	put(w, "{ %s r = (%s)(%s), q, c;\n", type, type, at);
	for (d = w->a->rank; d-- > 0;) {
		if (d && small)
			put(w, "q = ew_div(r, a.magic[%d], a.shift[%d]);\n", d, d);
		else if (d)
			put(w, "q = r / a.dim[%d];\n", d);
		if (d)
			put(w, "c = r - q * (%s)a.dim[%d]; r = q;\n", type, d);
		else
			put(w, "c = r;\n");
		for (k = 0; k < w->n_in; k++)
			if (w->walk[k] == WALK_STRIDES && w->a->stride[k][d])
				put(w, "p%u += (int64_t)c * a.stride[%u][%d];\n", k, k, d);
	}
	put(w, "}\n");
}

void gpu_put_head(struct writer *w)
{
	uint32_t k;

	put(w, "#include \"kernels/gpu/dialect.h\"\n#include \"kernels/gpu/pointwise%s.h\"\n"
	    "static DEV inline void one(", gpu_is_ordered(w->lo) ? "_ordered" : "");
	for (k = 0; k < w->n_in; k++)
		put(w, "const %s i%u, ", class_of(w->type[k]), k);
	for (k = 0; k < w->n_out; k++)
		put(w, "%s%s &o%u", k ? ", " : "", class_of(w->out_type[k]), k);
	put(w, ")\n{\n");
}

/* Rows of what is walked by strides end where vectors of @v do: one index is enough. */
static bool rows_of_vectors(const struct writer *w, int64_t v)
{
	return w->strides && w->a->dim[w->a->rank - 1] % v == 0;
}

/* Is operand @k the same all along some dimension? */
static bool is_repeated(const struct rlx_g_ew *a, uint32_t k)
{
	int d = 0;

	while (d < a->rank && a->stride[k][d])
		d++;
	return d < a->rank;
}

/*
 * Elements of a thread: as many as the widest operand that is read side by side has in 16
 * bytes, fewer where many such operands or ops would fill the registers, or where there would be
 * too few threads to wait for functions in turns. What is the same for all of them has one place;
 * what many read again is in caches, where two accesses do no harm if rows are of whole vectors.
 */
static int64_t vector_of(const struct writer *w)
{
	const struct rlx_g_ew *a = w->a;
	size_t widest = 1, again = 1, size, each = 0, once = 0;
	int64_t v;
	uint32_t k;

	if (a->n < VECTORS_FROM)
		return 1;
	for (k = 0; k < w->n_out; k++) {
		widest = larger(widest, rlx_dtype_size(w->out_type[k]));
		each += rlx_dtype_size(w->out_type[k]);
	}
	for (k = 0; k < w->n_in; k++) {
		size = rlx_dtype_size(w->type[k]);
		if (w->walk[k] == WALK_ONE ||
		    (w->walk[k] == WALK_STRIDES && !a->stride[k][a->rank - 1])) {
			once += larger(size, 4);
			continue;
		}
		each += size;
		if (w->walk[k] != WALK_ALONG && a->stride[k][a->rank - 1] != 1)
			continue;
		if (is_repeated(a, k))
			again = larger(again, size);
		else
			widest = larger(widest, size);
	}
	v = VECTOR_BYTES / (int64_t)widest;
	v = v > MOST_VEC ? MOST_VEC : v;
	if (!rows_of_vectors(w, v) && v > VECTOR_BYTES / (int64_t)again)
		v = VECTOR_BYTES / (int64_t)again;
	while (v > 1 && ((size_t)v * each + once > VECTORS_BYTES || v * w->n_op > 96 ||
			 (w->n_function >= FUNCTIONS && a->n / v < VECTORS_FROM)))
		v /= 2;
	return v;
}

static void put_load(struct writer *w, uint32_t k)
{
	int64_t inner = w->a->rank ? w->a->stride[k][w->a->rank - 1] : 0;

	if (w->walk[k] == WALK_ONE)
		put(w, "i%u.repeat(x%u, 0);\n", k, k);
	else if (w->walk[k] == WALK_ALONG)
		put(w, "i%u.load(x%u, i, left);\n", k, k);
	else if (!inner)
		put(w, "i%u.repeat(x%u, p%u);\n", k, k, k);
	else if (inner == 1)
		put(w, "i%u.load(x%u, p%u, left);\n", k, k, k);
	else
		put(w, "i%u.strided(x%u, p%u, left, a.stride[%u][%d]);\n", k, k, k, k,
		    w->a->rank - 1);
}

/*
 * End the function, and the kernel that calls it for vectors of @v elements. Where they lie is
 * found before the launch ahead is waited for: of few elements that takes as long as the rest.
 */
static void put_kernel(struct writer *w, int v)
{
	uint32_t k;

	put(w, "}\nRLX_G_KERNEL_PDL(ew, struct rlx_g_ew, %d)\n{\n", THREADS);
	for (k = 0; k < w->n_in; k++)
		put(w, "const void *x%u = RLX_G_PTR(const void, a.in[%u]);\n"
		    "ew_vec<%d, %d> i%u;\n", k, k, (int)w->type[k], v, k);
	for (k = 0; k < w->n_out; k++)
		put(w, "void *y%u = RLX_G_PTR(void, a.out[%u]);\new_vec<%d, %d> o%u;\n", k, k,
		    (int)w->out_type[k], v, k);
	put(w, "const int64_t n = live_rows(env, a.n), step = (int64_t)gridDim.x * %d;\n"
	    "bool ahead = true;\n"
	    "for (int64_t i = ((int64_t)blockIdx.x * %d + threadIdx.x) * %d; ; i += step) {\n"
	    "const int64_t left = n - i;\n", THREADS * v, THREADS, v);
	if (rows_of_vectors(w, v))
		put_indices(w, "i");
	for (k = 0; k < w->n_in && rows_of_vectors(w, v); k++)
		if (w->walk[k] == WALK_STRIDES)
			put(w, "p%u = compute_anew(p%u);\n", k, k);
	put(w, "if (ahead)\npdl_wait();\nahead = false;\nif (left <= 0)\nbreak;\n");
	for (k = 0; k < w->n_in; k++)
		if (w->walk[k] != WALK_STRIDES || rows_of_vectors(w, v))
			put_load(w, k);
	put(w, "#pragma unroll\nfor (int j = 0; j < %d; j++) {\n", v);
	if (w->strides && !rows_of_vectors(w, v)) {
		put_indices(w, "i + (j < left ? j : left - 1)");
		for (k = 0; k < w->n_in; k++)
			if (w->walk[k] == WALK_STRIDES)
				put(w, "i%u.one(j, x%u, p%u);\n", k, k, k);
	}
	for (k = 0; k < w->n_out; k++)
		put(w, "%s r%u;\n", class_of(w->out_type[k]), k);
	put(w, "one(");
	for (k = 0; k < w->n_in; k++)
		put(w, "i%u.get(j), ", k);
	for (k = 0; k < w->n_out; k++)
		put(w, "%sr%u", k ? ", " : "", k);
	put(w, ");\n");
	for (k = 0; k < w->n_out; k++)
		put(w, "o%u.set(j, r%u);\n", k, k);
	put(w, "}\n");
	for (k = 0; k < w->n_out; k++)
		put(w, "o%u.store(y%u, i, left);\n", k, k);
	put(w, "}\n}\n");
}

enum rlx_status gpu_call_text(struct writer *w, int64_t blocks)
{
	struct rlx_lower *lo = w->lo;
	struct rlx_g_launch l = { .can = true, .grid = { (uint32_t)blocks, 1, 1 },
				  .block = { THREADS, 1, 1 } };
	struct gpu_call *call;

	if (gpu_call(lo, &l))
		return lo->status;
	call = &gpu_calls((struct gpu_code *)lo->code)[lo->calls->n_call - 1];
	call->interp = w->any;
	call->text = rlx_bump_str(&gpu_lower_of(lo)->texts, w->text, w->n);
	return call->text ? RLX_OK : rlx_lower_out_of_memory(lo);
}

/* What others may make of the call, the last one. */
static enum rlx_status keep_form(struct writer *w, uint32_t function, int vec)
{
	struct gpu_ew_form f = { .function = function, .n_in = (uint8_t)w->n_in,
				 .n_out = (uint8_t)w->n_out, .vec = (uint8_t)vec };
	struct rlx_lower *lo = w->lo;
	struct gpu_call *call;
	uint32_t k;

	if (w->strides || w->any)
		return lo->status;
	for (k = 0; k < w->n_in + w->n_out; k++)
		f.type[k] = (uint8_t)(k < w->n_in ? w->type[k] : w->out_type[k - w->n_in]);
	for (k = 0; k < w->n_in; k++)
		f.walk[k] = (uint8_t)w->walk[k];
	call = &gpu_calls((struct gpu_code *)lo->code)[lo->calls->n_call - 1];
	call->form = rlx_bump_dup(&gpu_lower_of(lo)->texts, &f, sizeof(f));
	return call->form ? lo->status : rlx_lower_out_of_memory(lo);
}

static enum rlx_status call_written(struct writer *w)
{
	struct rlx_lower *lo = w->lo;
	int64_t v = vector_of(w), blocks = (w->a->n + THREADS * v - 1) / (THREADS * v);
	uint32_t function = (uint32_t)w->n;

	put_kernel(w, (int)v);
	if (!w->ok)
		return rlx_lower_unsupported(lo, "the region is too large");
	if (w->any && !w->any_fits)
		w->any = NULL;
	if (!w->a->n)
		return lo->status;
	if (gpu_apply_relocations(lo))
		return lo->status;
	rlx_lower_extent(lo, w->a->n, NULL);
	if (gpu_call_text(w, blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS))
		return lo->status;
	return keep_form(w, function, (int)v);
}

static enum rlx_status drop(struct writer *w)
{
	enum rlx_status st = w->lo->status;

	rlx_free(w);
	return st;
}

static enum rlx_status finish(struct writer *w)
{
	enum rlx_status st = call_written(w);

	rlx_free(w);
	return st;
}

/* ---- steps ---- */

static bool supports_all(const struct rlx_lower *lo)
{
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (!rlx_lower_in(lo, k) || !supports_dtype(rlx_lower_in(lo, k)->dtype))
			return false;
	for (k = 0; k < lo->st->n_out; k++)
		if (!supports_dtype(rlx_lower_out(lo, k)->dtype))
			return false;
	return lo->st->n_in <= RLX_G_EW_IN && lo->st->n_out <= RLX_G_EW_OUT;
}

struct writer *gpu_writer_alloc(struct rlx_lower *lo)
{
	struct writer *w = rlx_malloc(sizeof(*w));

	if (!w)
		rlx_lower_out_of_memory(lo);
	return w;
}

static struct writer *writer_new(struct rlx_lower *lo)
{
	if (supports_all(lo))
		return gpu_writer_alloc(lo);
	rlx_lower_unsupported(lo, "no kernel for this dtype or so many operands");
	return NULL;
}

static enum rlx_status lower_one(struct rlx_lower *lo)
{
	struct operand in[3] = { { "i0", 0, 0 }, { "i1", 0, 1 }, { "i2", 0, 2 } };
	struct operand r = { "v", 0, 3 };
	struct writer *w = writer_new(lo);
	uint32_t k;

	if (!w)
		return lo->status;
	begin(w, lo, rlx_lower_out(lo, 0));
	gpu_put_head(w);
	if (gpu_is_ordered(lo))
		return gpu_put_ordered_one(w) ? drop(w) : finish(w);
	for (k = 0; k < w->n_in; k++) {
		in[k].type = rlx_lower_in(lo, k)->dtype;
		any_in(w, k, k, in[k].type);
	}
	r.type = rlx_lower_out(lo, 0)->dtype;
	put_any(w, lo->st->def, &r, in, w->n_in);
	any_out(w, 0, r.value, r.type);
	put(w, "o0 = v;\n");
	return finish(w);
}

enum rlx_status gpu_lower_cast(struct rlx_lower *lo)
{
	return lower_one(lo);
}

static uint64_t f64_bits(double x)
{
	uint64_t u;

	memcpy(&u, &x, sizeof(u));
	return u;
}

static uint64_t f32_bits(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof(u));
	return u;
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
	locale_t before;

	one.type.rank = 0;
	if (rlx_type_count(&c->type) != 1 || !supports_dtype(dt) ||
	    rlx_op_eval(&(struct rlx_eval){ .def = rlx_op_cast.def, .args = &to, .n_in = 1,
					    .in = &one, .n_out = 1, .out = real ? &d : &di })) {
		w->ok = false;
		return;
	}
	any_const(w, v->out, dt == RLX_F64 ? f64_bits(f) : real ? f32_bits((float)f) :
						     (uint64_t)i);
	before = rlx_point_begin();
	if (real && isfinite(f))
		put(w, "const %s v%u = %a;\n", class_of(dt), v->out, f);
	else if (real)
		put(w, "const %s v%u = %s%s;\n", class_of(dt), v->out, f < 0 ? "-" : "",
		    isnan(f) ? "NAN" : "INFINITY");
	else
		put(w, "const %s v%u = (%s)0x%" PRIx64 "ull;\n", class_of(dt), v->out,
		    class_of(dt), (uint64_t)i);
	rlx_point_end(before);
}

/* ---- complex numbers, by what they are made of ---- */

/* Begin with the parts of input 0, which lie side by side, as operands of @dt. */
static void begin_parts(struct writer *w, struct rlx_lower *lo, uint32_t parts,
			enum rlx_dtype dt)
{
	uint32_t k;

	begin(w, lo, rlx_lower_out(lo, 0));	/* all in one: a single dimension */
	for (k = 0; k < parts; k++) {
		w->walk[k] = parts == 1 ? WALK_ALONG : WALK_STRIDES;
		w->a->stride[k][0] = parts;
		w->type[k] = dt;
		any_in(w, k, k, dt);
		if (k)
			rlx_lower_ref_in(lo, &w->a->in[k], 0, k * rlx_dtype_size(dt));
	}
	w->n_in = parts;
	w->out_type[0] = dt;
	w->strides = parts > 1;
	gpu_put_head(w);
}

enum rlx_status gpu_lower_norm_sq(struct rlx_lower *lo)
{
	const struct operand re = { "i0", RLX_F32, 0 }, im = { "i1", RLX_F32, 1 };
	const struct operand sq[2] = { { "v0", RLX_F32, 2 }, { "v1", RLX_F32, 3 } };
	const struct operand sum = { "v2", RLX_F32, 4 };
	struct writer *w;

	if (lo->strict)
		return rlx_lower_unsupported(lo, "strict bits are those of f32 here");
	w = gpu_writer_alloc(lo);
	if (!w)
		return lo->status;
	begin_parts(w, lo, 2, RLX_F32);
	put_op(w, rlx_op_mul.def, &sq[0], (struct operand[2]){ re, re }, 2);
	put_op(w, rlx_op_mul.def, &sq[1], (struct operand[2]){ im, im }, 2);
	put_op(w, rlx_op_add.def, &sum, sq, 2);
	any_out(w, 0, sum.value, sum.type);
	put(w, "o0 = v2;\n");
	return finish(w);
}

/* As one word, whose top bit is the imaginary part's sign. */
enum rlx_status gpu_lower_conjugate(struct rlx_lower *lo)
{
	const struct operand in[2] = { { "i0", RLX_U64, 0 }, { "sign", RLX_U64, 1 } };
	const struct operand r = { "v", RLX_U64, 2 };
	struct writer *w = gpu_writer_alloc(lo);

	if (!w)
		return lo->status;
	begin_parts(w, lo, 1, RLX_U64);
	any_const(w, in[1].value, (uint64_t)1 << 63);
	put(w, "const uint64_t sign = (uint64_t)1 << 63;\n");
	put_op(w, rlx_op_bit_xor.def, &r, in, 2);
	any_out(w, 0, r.value, r.type);
	put(w, "o0 = v;\n");
	return finish(w);
}

/* ---- regions ---- */

/* The value that @v is: what only repeats another, as strides of inputs say it, is that. */
static uint32_t read_as(const struct rlx_graph *b, uint32_t v)
{
	while (rlx_node_of(b, v)->def->index == RLX_OP_expand)
		v = rlx_node_of(b, v)->in[0];
	return v;
}

static void put_node(struct writer *w, const struct rlx_graph *b, const struct rlx_node *v)
{
	struct operand in[3], r = { "", b->val[v->out].type.dtype, v->out };
	uint32_t k;

	for (k = 0; k < v->n_in; k++) {
		in[k].type = b->val[v->in[k]].type.dtype;
		in[k].value = read_as(b, v->in[k]);
		snprintf(in[k].name, sizeof(in[k].name), "v%u", in[k].value);
	}
	snprintf(r.name, sizeof(r.name), "v%u", v->out);
	put_any(w, v->def, &r, in, v->n_in);
}

/* Operand @k is value @v of the body. */
static void put_operand(struct writer *w, const struct rlx_graph *b, uint32_t k, uint32_t v)
{
	any_in(w, k, v, b->val[v].type.dtype);
	put(w, "const %s v%u = i%u;\n", class_of(b->val[v].type.dtype), v, k);
}

enum rlx_status gpu_put_body(struct writer *w, const struct rlx_graph *b, const uint32_t *value)
{
	uint32_t n, k, v;

	if (gpu_is_ordered(w->lo))
		return gpu_put_ordered_body(w, b, value);
	for (k = 0; k < w->n_in; k++)
		put_operand(w, b, k, value[k]);
	for (n = 0; n < b->n_node && w->ok; n++)
		if (b->node[n].def->index == RLX_OP_constant)
			put_constant(w, &b->node[n]);
		else if (b->node[n].def->traits & RLX_T_ELEMENTWISE)
			put_node(w, b, &b->node[n]);
	for (k = 0; k < w->n_out; k++) {
		v = read_as(b, b->io[RLX_IO_OUTPUT].e[k].v.id);
		any_out(w, k, v, b->val[v].type.dtype);
		put(w, "o%u = v%u;\n", k, v);
	}
	return w->lo->status;
}

enum rlx_status gpu_lower_region(struct rlx_lower *lo)
{
	const struct rlx_op_region *args = lo->args;
	const struct rlx_graph *b = args->body;
	uint32_t value[RLX_G_EW_IN], k;
	struct writer *w;

	if (rlx_lower_joins_parts(b))
		return gpu_lower_parts(lo);
	w = writer_new(lo);
	if (!w)
		return lo->status;
	begin(w, lo, rlx_lower_out(lo, 0));
	gpu_put_head(w);
	for (k = 0; k < w->n_in; k++)
		value[k] = b->io[RLX_IO_INPUT].e[k].v.id;
	return gpu_put_body(w, b, value) ? drop(w) : finish(w);
}

#define EW(n)								\
	enum rlx_status gpu_lower_##n(struct rlx_lower *lo) { return lower_one(lo); }
#define EW1(n, ...) EW(n)
#define EW2(n, ...) EW(n)
#define EW3(n, ...) EW(n)
#include "ops/elementwise.def"
