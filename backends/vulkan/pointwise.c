// SPDX-License-Identifier: MIT
/*
 * Pointwise steps as SPIR-V, written when they are compiled: calls of the functions that
 * kernels/vulkan/ew.comp has for each row of elementwise.def, cast, load and store. The code
 * knows dtypes and which operands lie as the result does, but no sizes, so that steps of
 * other sizes share it. On GPUs a thread takes four elements at once, that it has bytes enough
 * under way: all are loaded, then computed, then stored.
 */
#include <stdio.h>
#include <string.h>

#include "backends/common/parts.h"
#include "backends/vulkan/spv.h"
#include "backends/vulkan/vk.h"
#include "base/alloc.h"
#include "base/shape.h"
#include "ir/graph.h"
#include "kernels/vulkan/pointwise.h"

enum {
	MOST_VALUES = 512, MOST_QUADS = 2,
	MOST_TURNS = 65,	/* of a loop in a row's function: the bits of an exponent */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct spv_library library;	/* .w NULL: not read yet; does not change once it is */
static struct vk_kernel text;

/* Once; whoever comes behind one that ran out of memory tries again. */
static bool read_library(void)
{
	bool is_read;

	pthread_mutex_lock(&lock);
	if (!library.w && (!vk_kernel_find("ew", &text) ||
			   !spv_library_init(&library, text.code, text.words)))
		library.w = NULL;
	is_read = library.w;
	pthread_mutex_unlock(&lock);
	return is_read;
}

/* A value: its id in the module. */
struct operand {
	uint32_t	id;
	enum rlx_dtype	type;
};

/*
 * How an input is walked: as the result, not at all, or by strides; by quads as well where four
 * elements in a row are so, or the same.
 */
enum walk { WALK_ALONG, WALK_ONE, WALK_STRIDES, WALK_QUADS, WALK_SAME };

struct writer {
	struct rlx_lower	*lo;
	struct rlx_k_vk_ew	*a;
	struct spv_module	 m;
	enum walk		 walk[RLX_VK_EW_IN];
	uint32_t		 i;		/* the id of the index */
	uint32_t		 quads, wide;	/* as in ew.comp */
	double			 turns;		/* of loops, for an element */
	bool			 ok;
};

/* What the step computes, of elements of its inputs */
typedef void put_fn(struct writer *w, const struct operand *in, struct operand *out);

static const char *type_name(enum rlx_dtype dt)
{
	return rlx_dtype_name(dt);
}

static bool supports_dtype(enum rlx_dtype dt)
{
	return dt > RLX_NODTYPE && dt <= RLX_BOOL;
}

/* What an element of this dtype is in the code: a letter of ew.comp's names. */
static char class_of(enum rlx_dtype dt)
{
	return dt == RLX_F64 ? 'd' : rlx_dtype_is_float(dt) ? 'f' : dt == RLX_U64 ? 'u' : 'i';
}

static uint32_t call(struct writer *w, const char *name, const uint32_t *arg, uint32_t n)
{
	return spv_call(&w->m, name, arg, n);
}

/* @v as @to: what casts round, wrap or clamp to, in the class of @to */
static uint32_t cast(struct writer *w, struct operand v, enum rlx_dtype to)
{
	char name[48];

	snprintf(name, sizeof(name), "ew_to_%s_%c", type_name(to), class_of(v.type));
	return call(w, name, &v.id, 1);
}

/* ---- operands ---- */

/* What divides by the dimensions; see struct rlx_k_vk_ew. */
static void take_magic(struct rlx_k_vk_ew *a)
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

static enum walk walk_of(const struct rlx_k_vk_ew *a, const int64_t *stride,
			 const int64_t *dense)
{
	const int last = a->rank - 1;
	bool along = true, one = true, whole = a->dim[last] % 4 == 0;
	int d;

	for (d = 0; d <= last; d++) {
		along = along && stride[d] == dense[d];
		one = one && !stride[d];
		whole = whole && (d == last || stride[last] == 0 || stride[d] % 4 == 0);
	}
	return one ? WALK_ONE : along ? WALK_ALONG :
	       whole && stride[last] == 1 ? WALK_QUADS :
	       whole && stride[last] == 0 ? WALK_SAME : WALK_STRIDES;
}

/* @shape is the result's; dimensions that all operands walk as one are merged. */
static void take_operands(struct writer *w, const struct rlx_type *shape)
{
	struct rlx_lower *lo = w->lo;
	struct rlx_k_vk_ew *a = w->a;
	int64_t stride[RLX_VK_EW_IN + 1][RLX_K_DIMS];
	uint32_t n = lo->st->n_in, k;

	a->n = rlx_type_count(shape);
	memcpy(a->dim, shape->dim, sizeof(a->dim));
	for (k = 0; k < n; k++)
		shape_broadcast(rlx_lower_in(lo, k), shape, stride[k]);
	shape_dense(shape, stride[n]);
	a->rank = rlx_k_collapse((int)shape->rank, a->dim, (int)n + 1, stride);
	for (k = 0; k < n; k++) {
		memcpy(&a->stride[k * RLX_K_DIMS], stride[k], (size_t)a->rank * sizeof(int64_t));
		w->walk[k] = walk_of(a, stride[k], stride[n]);
		if (w->walk[k] == WALK_ALONG || w->walk[k] == WALK_QUADS)
			w->wide |= 1u << k;
		rlx_lower_ref_in(lo, &a->in[k], k, 0);
	}
	take_magic(a);
	for (k = 0; k < lo->st->n_out; k++) {
		w->wide |= 1u << (16 + k);
		rlx_lower_ref_out(lo, &a->out[k], k, 0);
	}
}

static uint32_t number(struct writer *w, uint32_t n)
{
	return spv_constant(&w->m, SPV_U32, n);
}

/* The function of @prefix for the dtype, of input @k's address and index @i */
static uint32_t reach(struct writer *w, const char *prefix, enum rlx_dtype dt, uint32_t k,
		      uint32_t i)
{
	uint32_t arg[2] = { number(w, k), i };
	char name[32];

	arg[0] = call(w, "ew_in", arg, 1);
	snprintf(name, sizeof(name), "%s_%s", prefix, type_name(dt));
	return call(w, name, arg, 2);
}

static uint32_t at(struct writer *w, uint32_t k, uint32_t i)
{
	const uint32_t arg[2] = { number(w, k), i };

	return call(w, "ew_at", arg, 2);
}

/* What input @k has for element @i of the result */
static struct operand load(struct writer *w, uint32_t k, uint32_t i)
{
	const enum rlx_dtype dt = rlx_lower_in(w->lo, k)->dtype;
	const enum walk walk = w->walk[k];

	i = walk == WALK_ONE ? spv_constant(&w->m, SPV_I64, 0) :
	    walk == WALK_ALONG ? i : at(w, k, i);
	return (struct operand){ reach(w, "ew_load", dt, k, i), dt };
}

static void store(struct writer *w, uint32_t k, struct operand v)
{
	uint32_t which = number(w, k), arg[3];
	char name[32];

	arg[0] = call(w, "ew_out", &which, 1);
	arg[1] = w->i;
	arg[2] = v.id;
	snprintf(name, sizeof(name), "ew_store_%s", type_name(v.type));
	call(w, name, arg, 3);
}

/* The same for four elements from @i on: of element e @in[e * RLX_VK_EW_IN]. */
static void load_quad(struct writer *w, uint32_t k, uint32_t i, struct operand *in)
{
	const enum rlx_dtype dt = rlx_lower_in(w->lo, k)->dtype;
	const enum walk walk = w->walk[k];
	uint32_t quad = 0, arg[2], e;
	struct operand v = { 0, dt };
	char part[16];

	if (walk == WALK_ALONG || walk == WALK_QUADS)
		quad = reach(w, "ew_quad", dt, k, walk == WALK_ALONG ? i : at(w, k, i));
	else if (walk != WALK_STRIDES)
		v = load(w, k, i);
	snprintf(part, sizeof(part), "ew_part_%c", class_of(dt));
	for (e = 0; e < 4; e++) {
		arg[0] = quad ? quad : i;
		arg[1] = number(w, e);
		if (quad)
			v.id = call(w, part, arg, 2);
		else if (walk == WALK_STRIDES)
			v = load(w, k, call(w, "ew_next", arg, 2));
		in[e * RLX_VK_EW_IN] = v;
	}
}

static void store_quad(struct writer *w, uint32_t k, uint32_t i, const struct operand *out)
{
	uint32_t which = number(w, k), arg[6], e;
	char name[32];

	arg[0] = call(w, "ew_out", &which, 1);
	arg[1] = i;
	for (e = 0; e < 4; e++)
		arg[2 + e] = out[e * RLX_VK_EW_OUT].id;
	snprintf(name, sizeof(name), "ew_put_%s", type_name(out->type));
	call(w, name, arg, 6);
}

/* ---- ops ---- */

static enum rlx_dtype compute_type(const struct operand *in, uint32_t n)
{
	return n == 1 ? in[0].type : rlx_dtype_promote(in[n - 2].type, in[n - 1].type);
}

/* A function takes operands of the dtype that it computes in, and its result is cast. */
static struct operand put_row(struct writer *w, const struct rlx_op_def *def,
			      enum rlx_dtype result, const struct operand *in, uint32_t n)
{
	enum rlx_dtype dt = compute_type(in, n), of;
	struct operand r = { 0 };
	uint32_t arg[3], k;
	char name[64];

	of = rlx_dtype_is_float(dt) && dt != RLX_F64 ? RLX_F32 : dt;
	for (k = 0; k < n; k++)
		arg[k] = cast(w, in[k], of);
	if (def->index == RLX_OP_pow || def->index == RLX_OP_mod || def->index == RLX_OP_fmod)
		w->turns += MOST_TURNS;
	snprintf(name, sizeof(name), "ew%c_%s", class_of(dt), def->name);
	r.id = call(w, name, arg, n);
	/* a comparison is 1 or 0 in the class of its operands */
	r.type = of;
	if (result == RLX_BOOL && dt != RLX_BOOL)
		return (struct operand){ cast(w, r, RLX_BOOL), RLX_BOOL };
	/* 16-bit floats are rounded where they are stored, or read by a cast */
	if (result == RLX_BF16 || result == RLX_F16)
		return (struct operand){ cast(w, r, RLX_F32), result };
	return (struct operand){ cast(w, r, result), result };
}

static struct operand put_op(struct writer *w, const struct rlx_op_def *def,
			     enum rlx_dtype result, const struct operand *in, uint32_t n)
{
	if (def->index == RLX_OP_cast)
		return (struct operand){ cast(w, in[0], result), result };
	if (n <= 3)
		return put_row(w, def, result, in, n);
	w->ok = false;
	return (struct operand){ 0 };
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
	return lo->st->n_in <= RLX_VK_EW_IN && lo->st->n_out <= RLX_VK_EW_OUT;
}

static void put_elements(struct writer *w, put_fn *put)
{
	struct operand in[RLX_VK_EW_IN], out[RLX_VK_EW_OUT] = { { 0 } };
	uint32_t k;

	w->i = spv_stub(&w->m, "ew_one");
	for (k = 0; k < w->lo->st->n_in; k++)
		in[k] = load(w, k, w->i);
	put(w, in, out);
	for (k = 0; k < w->lo->st->n_out && w->ok; k++)
		store(w, k, out[k]);
}

static void put_block(struct writer *w, put_fn *put)
{
	struct operand in[MOST_QUADS * 4][RLX_VK_EW_IN];
	struct operand out[MOST_QUADS * 4][RLX_VK_EW_OUT] = { { { 0 } } };
	uint32_t at[MOST_QUADS], arg[2], q, k;

	arg[0] = spv_stub(&w->m, "ew_block");
	for (q = 0; q < w->quads; q++) {
		arg[1] = number(w, q);
		at[q] = call(w, "ew_quad_at", arg, 2);
		for (k = 0; k < w->lo->st->n_in; k++)
			load_quad(w, k, at[q], &in[q * 4][k]);
	}
	for (k = 0; k < w->quads * 4 && w->ok; k++)
		put(w, in[k], out[k]);
	for (q = 0; q < w->quads; q++)
		for (k = 0; k < w->lo->st->n_out && w->ok; k++)
			store_quad(w, k, at[q], &out[q * 4][k]);
}

/*
 * Quads for a thread of a GPU: two where none has 16 bytes. Drivers for processors make vectors
 * of their own, and take longer to compile.
 */
static uint32_t quads_of(const struct writer *w)
{
	const struct vk_device *d = vk_device_of(w->lo->code);
	size_t most = 0, size;
	uint32_t k;

	if (!d->discrete && d->is->props.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU)
		return 0;
	for (k = 0; k < w->lo->st->n_in; k++) {
		size = rlx_dtype_size(rlx_lower_in(w->lo, k)->dtype);
		most = w->wide >> k & 1 && size > most ? size : most;
	}
	return most < 4 ? MOST_QUADS : 1;
}

static enum rlx_status launch(struct writer *w)
{
	const uint32_t threads = w->quads ? 128 : 64, block = w->quads * 4 * threads;
	const uint64_t n = (uint64_t)w->a->n, rest = block ? n % block : n;
	struct vk_kernel k = text;
	uint32_t *code = NULL;
	enum rlx_status st;

	if (!spv_write(&w->m, &code, &k.words))
		return rlx_lower_out_of_memory(w->lo);
	k.code = code;
	k.name = w->lo->st->def->name;
	k.spec[0] = threads;
	k.spec[1] = (uint32_t)w->a->rank;
	k.spec[2] = n < (uint64_t)1 << 31;
	k.spec[3] = w->quads;
	k.spec[4] = w->wide;
	k.n_spec = 5;
	k.turns = w->turns + (k.spec[2] ? 0 : (double)w->lo->st->n_in * (w->a->rank + 1));
	st = vk_call_kernel(w->lo, &k, (block ? n / block : 0) + (rest + threads - 1) / threads);
	rlx_free(code);
	return st;
}

static enum rlx_status lower(struct rlx_lower *lo, put_fn *put)
{
	struct writer w = { .lo = lo, .ok = true };
	enum rlx_status st;

	if (!supports_all(lo))
		return rlx_lower_unsupported(lo, "no kernel for this dtype or so many operands");
	if (!read_library() || !spv_begin(&w.m, &library)) {
		spv_end(&w.m);
		return rlx_lower_out_of_memory(lo);
	}
	w.a = rlx_lower_args(lo, sizeof(*w.a));
	take_operands(&w, rlx_lower_out(lo, 0));
	w.quads = quads_of(&w);
	put_elements(&w, put);
	put_block(&w, put);
	if (!w.ok || w.m.missing)
		st = rlx_lower_unsupported(lo, "no function for it, as of 64-bit floats");
	else
		st = launch(&w);
	spv_end(&w.m);
	return st;
}

static void put_step(struct writer *w, const struct operand *in, struct operand *out)
{
	struct rlx_lower *lo = w->lo;

	out[0] = put_op(w, lo->st->def, rlx_lower_out(lo, 0)->dtype, in, lo->st->n_in);
}

static enum rlx_status lower_one(struct rlx_lower *lo)
{
	return lower(lo, put_step);
}

enum rlx_status vk_lower_cast(struct rlx_lower *lo)
{
	return lower_one(lo);
}

/* ---- regions ---- */

/* A constant of one element */
static struct operand put_constant(struct writer *w, const struct rlx_node *v)
{
	const struct rlx_op_constant *c = v->args;
	struct rlx_tensor one = { c->type, (void *)(uintptr_t)rlx_blob_data(c->data) };
	enum rlx_dtype dt = c->type.dtype;
	bool real = rlx_dtype_is_float(dt);
	double f = 0;
	int64_t i = 0;
	struct rlx_tensor d = { rlx_scalar(RLX_F64), &f }, di = { rlx_scalar(RLX_I64), &i };
	struct rlx_op_cast to = { .to = real ? RLX_F64 : RLX_I64 };
	uint64_t bits = 0;
	float narrow;

	one.type.rank = 0;
	if (rlx_type_count(&c->type) != 1 || !supports_dtype(dt) ||
	    rlx_op_eval(&(struct rlx_eval){ .def = rlx_op_cast.def, .args = &to, .n_in = 1,
					    .in = &one, .n_out = 1, .out = real ? &d : &di })) {
		w->ok = false;
		return (struct operand){ 0 };
	}
	narrow = (float)f;
	if (dt == RLX_F64)
		memcpy(&bits, &f, sizeof(f));
	else if (real)
		memcpy(&bits, &narrow, sizeof(narrow));
	else
		bits = (uint64_t)i;
	return (struct operand){ spv_constant(&w->m, dt == RLX_F64 ? SPV_F64 : real ? SPV_F32 :
					      dt == RLX_U64 ? SPV_U64 : SPV_I64, bits), dt };
}

static struct operand put_node(struct writer *w, const struct rlx_graph *b,
			       const struct rlx_node *v, const struct operand *value)
{
	struct operand in[3];
	uint32_t k;

	for (k = 0; k < v->n_in; k++)
		in[k] = value[v->in[k]];
	if (v->def->index == RLX_OP_expand)	/* of an input, whose strides say so */
		return in[0];
	return put_op(w, v->def, b->val[v->out].type.dtype, in, v->n_in);
}

static void put_region(struct writer *w, const struct operand *in, struct operand *out)
{
	const struct rlx_op_region *args = w->lo->args;
	const struct rlx_graph *b = args->body;
	struct operand value[MOST_VALUES] = { { 0 } };
	uint32_t n, k;

	for (k = 0; k < w->lo->st->n_in; k++)
		value[b->io[RLX_IO_INPUT].e[k].v.id] = in[k];
	for (n = 0; n < b->n_node && w->ok; n++)
		if (b->node[n].def->index == RLX_OP_constant)
			value[b->node[n].out] = put_constant(w, &b->node[n]);
		else if (b->node[n].def->index != RLX_OP_input)
			value[b->node[n].out] = put_node(w, b, &b->node[n], value);
	for (k = 0; k < w->lo->st->n_out; k++)
		out[k] = value[b->io[RLX_IO_OUTPUT].e[k].v.id];
}

enum rlx_status vk_lower_region(struct rlx_lower *lo)
{
	const struct rlx_op_region *args = lo->args;

	if (args->body->n_val > MOST_VALUES)
		return rlx_lower_unsupported(lo, "the region is too large");
	if (rlx_lower_joins_parts(args->body))
		return rlx_lower_unsupported(lo, "no kernel joins parts");
	return lower(lo, put_region);
}

#define EW(n)								\
	enum rlx_status vk_lower_##n(struct rlx_lower *lo) { return lower_one(lo); }
#define EW1(n, ...) EW(n)
#define EW2(n, ...) EW(n)
#define EW3(n, ...) EW(n)
#include "ops/elementwise.def"
