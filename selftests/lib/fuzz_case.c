// SPDX-License-Identifier: MIT
/* Cases of the differential fuzzer: their types, data, graph and text. */
#include "selftests/lib/fuzz_case.h"
#include "ir/element.h"
#include "pass/rewrite.h"
#include "selftests/lib/rlx_test.h"

/* Larger ones teach nothing more and take the evaluator long. */
enum { MOST_ELEMENTS = 1 << 13, MOST_FLOPS = 1 << 21 };

void fuzz_bind(struct fuzz_node *n)
{
	uint32_t i;

	for (i = 0; i < n->def->n_field; i++) {
		const struct rlx_field *f = &n->def->field[i];
		void *p = n->args + f->offset;

		if (f->role != RLX_FIELD_ATTR)
			continue;
		if (f->kind == RLX_K_ints)
			((struct rlx_ints *)p)->v = n->list[i].i;
		else if (f->kind == RLX_K_floats)
			((struct rlx_floats *)p)->v = n->list[i].f;
	}
}

void fuzz_copy(struct fuzz_case *to, const struct fuzz_case *from)
{
	uint32_t i;

	memcpy(to, from, offsetof(struct fuzz_case, leaf));
	memcpy(to->leaf, from->leaf, from->n_leaf * sizeof(from->leaf[0]));
	memcpy(to->node, from->node, from->n_node * sizeof(from->node[0]));
	for (i = 0; i < to->n_node; i++)
		fuzz_bind(&to->node[i]);
}

const struct rlx_type *fuzz_type(const struct fuzz_case *c, fuzz_ref r)
{
	if (r < 0)
		return NULL;
	if (r < FUZZ_LEAVES)
		return &c->leaf[r].type;
	r -= FUZZ_LEAVES;
	return &c->node[r / FUZZ_OUT].out[r % FUZZ_OUT];
}

static bool is_small(const struct rlx_type *t)
{
	return rlx_type_bytes(t) >= 0 && rlx_type_count(t) <= MOST_ELEMENTS;
}

static bool infer_node(struct fuzz_case *c, struct fuzz_node *n)
{
	const struct rlx_type *in[RLX_SAMPLE_IN];
	struct rlx_error err = { 0 };
	struct rlx_infer q = { .err = &err, .def = n->def, .args = n->args, .n_in = n->n_in,
			       .in = in };
	struct rlx_cost cost = { 0 };
	uint32_t k;

	for (k = 0; k < n->n_in; k++) {
		in[k] = fuzz_type(c, n->in[k]);
		if (in[k] && !is_small(in[k]))
			return false;
	}
	if (rlx_op_infer(&q) || q.n_out > FUZZ_OUT)
		return false;
	for (k = 0; k < q.n_out; k++) {
		if (!is_small(&q.out[k]))
			return false;
		n->out[k] = q.out[k];
	}
	n->n_out = q.n_out;
	if (n->def->impl->cost)
		n->def->impl->cost(&q, &cost);
	if (n->def->impl->scratch && n->def->impl->scratch(&q) > 1u << 24)
		return false;
	return cost.flops <= MOST_FLOPS;
}

bool fuzz_infer(struct fuzz_case *c)
{
	uint32_t i;

	for (i = 0; i < c->n_node; i++)
		if (!infer_node(c, &c->node[i]))
			return false;
	return true;
}

bool fuzz_is_read(const struct fuzz_case *c, uint32_t n, uint32_t o)
{
	fuzz_ref r = (fuzz_ref)(FUZZ_LEAVES + FUZZ_OUT * n + o);
	uint32_t i, k;

	for (i = n + 1; i < c->n_node; i++)
		for (k = 0; k < c->node[i].n_in; k++)
			if (c->node[i].in[k] == r)
				return true;
	return false;
}

/* Put every reference to @from, and those behind it, @by places further. */
static void move_refs(struct fuzz_case *c, fuzz_ref from, fuzz_ref end, int by)
{
	uint32_t i, k;

	for (i = 0; i < c->n_node; i++)
		for (k = 0; k < c->node[i].n_in; k++)
			if (c->node[i].in[k] >= from && c->node[i].in[k] < end)
				c->node[i].in[k] += by;
}

static void drop_node(struct fuzz_case *c, uint32_t n)
{
	uint32_t low = (1u << n) - 1, i;

	move_refs(c, (fuzz_ref)(FUZZ_LEAVES + FUZZ_OUT * (n + 1)), INT32_MAX, -FUZZ_OUT);
	memmove(&c->node[n], &c->node[n + 1], (c->n_node - n - 1) * sizeof(c->node[0]));
	c->n_node--;
	for (i = n; i < c->n_node; i++)
		fuzz_bind(&c->node[i]);
	c->keep = (c->keep & low) | ((c->keep >> 1) & ~low);
}

void fuzz_prune(struct fuzz_case *c)
{
	uint32_t n, k, i;
	bool read;

	for (n = c->n_node; n-- > 0;) {
		read = n + 1 == c->n_node || (c->keep & 1u << n);
		for (k = 0; k < c->node[n].n_out; k++)
			read = read || fuzz_is_read(c, n, k);
		if (!read)
			drop_node(c, n);
	}
	for (k = c->n_leaf; k-- > 0;) {
		for (read = false, n = 0; n < c->n_node; n++)
			for (i = 0; i < c->node[n].n_in; i++)
				read = read || c->node[n].in[i] == (fuzz_ref)k;
		if (read)
			continue;
		move_refs(c, (fuzz_ref)k + 1, FUZZ_LEAVES, -1);
		memmove(&c->leaf[k], &c->leaf[k + 1], (c->n_leaf - k - 1) * sizeof(c->leaf[0]));
		c->n_leaf--;
	}
}

bool fuzz_is_optional(const struct rlx_op_def *d, uint32_t k)
{
	uint32_t i, at = 0;

	for (i = 0; i < d->n_field; i++)
		if (d->field[i].role == RLX_FIELD_IN || d->field[i].role == RLX_FIELD_OPT)
			if (at++ == k)
				return d->field[i].role == RLX_FIELD_OPT;
	return false;
}

static double odd_value(enum rlx_dtype dt, double lo, double hi, uint64_t *seed)
{
	static const double any[] = { NAN, INFINITY, -INFINITY, -0.0, 0, 0x1p-140, -0x1p-24 };
	uint64_t k = rlx_test_rand(seed) % 9;

	if (k >= 7)
		return k == 7 ? lo : hi;
	/* what does not fit is stored as what it then is */
	return dt == RLX_F8E4M3 && isinf(any[k]) ? 448 : any[k];
}

static void fill_element(const struct rlx_tensor *t, int64_t i, const struct fuzz_leaf *l,
			 uint64_t *seed)
{
	bool ints = el_is_int(t->type.dtype), plain = l->lo == 0 && l->hi == 0;
	double lo = plain && !ints ? -2 : l->lo, hi = plain ? ints ? 1 : 2 : l->hi;
	double x = rlx_test_uniform(seed, lo, hi);

	if (ints) {
		x = floor(rlx_test_uniform(seed, ceil(lo), floor(hi) + 1));
		if (l->draw == FUZZ_BITS)
			el_seti(t, i, (int64_t)(rlx_test_rand(seed) >> (rlx_test_rand(seed) & 63)));
		else
			el_seti(t, i, (int64_t)x);
		return;
	}
	if (l->draw == FUZZ_COARSE)
		x = fmin(fmax(rint(x * 4) / 4, lo), hi);
	if (l->draw == FUZZ_ODD && rlx_test_rand(seed) % 8 == 0)
		x = odd_value(t->type.dtype, lo, hi, seed);
	el_set(t, i, x);
}

void *fuzz_data(const struct fuzz_case *c, uint32_t k)
{
	const struct fuzz_leaf *l = &c->leaf[k];
	uint64_t seed = c->seed ^ (l->id + 1) * UINT64_C(0x9e3779b97f4a7c15), one = seed;
	struct rlx_tensor t = { l->type, NULL };
	int64_t n = rlx_type_count(&l->type), i;

	CHECK(!posix_memalign(&t.data, 64, (size_t)rlx_type_bytes(&l->type) + 64));
	if (l->type.dtype == RLX_C64) {	/* both halves */
		t.type.dtype = RLX_F32;
		n *= 2;
	}
	for (i = 0; i < n; i++) {
		if (l->draw == FUZZ_ALIKE)
			seed = one;
		fill_element(&t, i, l, &seed);
	}
	return t.data;
}

static rlx_value emit_node(struct rlx_graph *g, const struct fuzz_node *n, const rlx_value *in,
			   enum rlx_dtype from)
{
	_Alignas(16) unsigned char args[FUZZ_ARGS];
	struct rlx_op_ref ref = { n->def };
	uint32_t i, k = 0;

	memcpy(args, n->args, sizeof(args));
	for (i = 0; i < n->def->n_field; i++) {
		const struct rlx_field *f = &n->def->field[i];
		void *p = args + f->offset;

		if (f->role == RLX_FIELD_IN || f->role == RLX_FIELD_OPT)
			*(rlx_value *)p = in[k++];
		else if (f->role == RLX_FIELD_ATTR && f->kind == RLX_K_dtype && from &&
			 *(int32_t *)p == (int32_t)from)
			/* what a product rounds its operands to is no dtype of theirs: in f64
			 * nothing is rounded */
			*(int32_t *)p = strcmp(f->name, "compute") ? RLX_F64 : RLX_NODTYPE;
	}
	for (i = 0; i < n->def->n_field; i++)
		if (n->def->field[i].role == RLX_FIELD_INS)
			*(struct rlx_values *)(void *)(args + n->def->field[i].offset) =
				(struct rlx_values){ in + k, n->n_in - k };
	return rlx_emit_raw(g, &ref, args, n->def->args_size, __FILE__, __LINE__);
}

static void name_outputs(struct rlx_graph *g, const struct fuzz_case *c, const rlx_value *v)
{
	unsigned int count = 0;
	char name[16];
	uint32_t n, k;

	for (n = 0; n < c->n_node; n++)
		for (k = 0; k < c->node[n].n_out && count < FUZZ_OUTPUTS; k++) {
			if (fuzz_is_read(c, n, k) && !(c->keep & 1u << n))
				continue;
			snprintf(name, sizeof(name), "o%u", count++);
			rlx_output(g, name, rlx_out(g, v[n], k));
		}
}

static bool mixes(const struct rlx_op_def *d)
{
	return !(d->traits & (RLX_T_ELEMENTWISE | RLX_T_MOVE | RLX_T_SELECT));
}

bool fuzz_mixes(const struct fuzz_node *n)
{
	return n->tol > 0 && mixes(n->def);
}

/* Magnitudes of f64 @x, 0 for those that are not finite. */
static rlx_value finite_sizes(struct rlx_graph *g, rlx_value x)
{
	const struct rlx_type one = { .dtype = RLX_F64 };
	double inf = INFINITY, zero = 0;

	x = rlx_emit(g, abs, .x = x);
	return rlx_emit(g, where, .a = x, .b = rlx_constant(g, one, &zero),
			.cond = rlx_emit(g, lt, .a = x, .b = rlx_constant(g, one, &inf)));
}

/* Of f64 @x the largest finite magnitude, times @by. */
static rlx_value largest_times(struct rlx_graph *g, rlx_value x, rlx_value by)
{
	return rlx_emit(g, mul, .b = by, .a = rlx_emit(g, reduce, .x = finite_sizes(g, x),
						       .kind = RLX_REDUCE_MAX));
}

/*
 * Matrices @v off by what factoring them leaves: a stable algorithm's result is that of a matrix
 * which is off by p(n) eps of the norm, not by a rounding of each element (LAPACK Users' Guide,
 * 4.1.1), of f32's eps. The noise of elements has a norm of 4 sqrt(n / 3) eps of the matrix'.
 */
static rlx_value noisy_by_norm(struct rlx_graph *g, rlx_value v, double noise, uint64_t *seed)
{
	const struct rlx_type *of = rlx_type_of(g, v);
	double *by;
	enum rlx_dtype dt = of ? of->dtype : RLX_NODTYPE;
	struct rlx_type t;
	rlx_value x, norm;
	int64_t i;

	if (!rlx_dtype_is_float(dt) || noise == 0 || of->rank < 2 || !rlx_type_count(of))
		return v;
	t = *of;
	t.dtype = RLX_F64;
	by = malloc((size_t)rlx_type_count(&t) * sizeof(*by));
	CHECK(by);
	for (i = 0; i < rlx_type_count(&t); i++)
		by[i] = 4 * fmin(noise, 0x1p-23) / sqrt((double)t.dim[t.rank - 1]) *
			rlx_test_uniform(seed, -1, 1);
	x = rlx_emit(g, cast, .x = v, .to = RLX_F64);
	norm = finite_sizes(g, x);
	norm = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = norm, .b = norm),
			.kind = RLX_REDUCE_SUM, .axes = RLX_INTS(-2, -1), .keep_dims = true);
	norm = rlx_emit(g, mul, .a = rlx_emit(g, sqrt, .x = norm), .b = rlx_constant(g, t, by));
	x = rlx_emit(g, add, .a = x, .b = norm);
	free(by);
	return rlx_emit(g, cast, .x = x, .to = dt);
}

/*
 * @v times something near 1, another number for each element; of an op that mixes what it is
 * given (@mixed), the largest times something near 0 is added. Floats that stay as they are (made
 * of c64, or told by an attribute) are off as well, or a step behind them looks exact. @all: what
 * each is multiplied by besides.
 */
static rlx_value noisy(struct rlx_graph *g, bool mixed, rlx_value v, double noise, double all,
		       uint64_t *seed)
{
	const struct rlx_type *of = rlx_type_of(g, v);
	enum rlx_dtype dt = of ? of->dtype : RLX_NODTYPE;
	struct rlx_type t;
	rlx_value x;
	double *by;
	int64_t i;

	if (!rlx_dtype_is_float(dt) || noise == 0)
		return v;
	t = *of;
	t.dtype = RLX_F64;
	by = malloc((size_t)(rlx_type_count(&t) + 1) * sizeof(*by));
	CHECK(by);
	for (i = 0; i < rlx_type_count(&t); i++)
		by[i] = all * (1 + noise * rlx_test_uniform(seed, -1, 1));
	x = rlx_emit(g, cast, .x = v, .to = RLX_F64);
	v = rlx_emit(g, mul, .a = x, .b = rlx_constant(g, t, by));
	if (mixed && rlx_type_count(&t)) {
		for (i = 0; i < rlx_type_count(&t); i++)	/* sums are in f32 */
			by[i] = fmin(noise, 0x1p-23) * rlx_test_uniform(seed, -1, 1);
		v = rlx_emit(g, add, .a = v, .b = largest_times(g, x, rlx_constant(g, t, by)));
	}
	free(by);
	return rlx_emit(g, cast, .x = v, .to = dt);
}

/* Sums of equal terms are all off to one side, and by more than one rounding: hence @all. */
struct rlx_graph *fuzz_shaken(struct rlx_graph *g, double noise, uint64_t seed)
{
	enum { SUMS = 4 };	/* roundings of some hundred terms, in a vector's lanes */
	struct rlx_graph *next = NULL;
	struct rlx_rewrite rw;
	struct rlx_error err;
	uint32_t n, o;
	double all;

	if (rlx_graph_error(g)->status || rlx_rewrite_begin(&rw, g, &err))
		return g;
	for (n = 0; n < g->n_node && !rw.g->err.status; n++) {
		const struct rlx_node *of = &g->node[n];

		if (!rlx_rewrite_live(&rw, n))
			continue;
		rlx_rewrite_copy(&rw, n);
		for (o = 0; of->n_in && mixes(of->def) && o < of->n_out; o++) {
			all = 1 + SUMS * noise * rlx_test_uniform(&seed, -1, 1);
			rlx_rewrite_set(&rw, of->out + o,
					noisy(rw.g, true, rlx_rewrite_value(&rw, of->out + o),
					      noise, all, &seed));
		}
	}
	if (rlx_rewrite_end(&rw, &next) || !next)
		return g;
	rlx_graph_put(g);
	return next;
}

struct rlx_graph *fuzz_graph(const struct fuzz_case *c, void *const *data, enum rlx_dtype from,
			     double noise, uint64_t seed)
{
	struct rlx_graph *g = rlx_graph_new("fuzz");
	rlx_value leaf[FUZZ_LEAVES], node[FUZZ_NODES], in[RLX_SAMPLE_IN];
	uint32_t i, k;
	char name[16];

	for (k = 0; k < c->n_leaf; k++) {
		struct rlx_type t = c->leaf[k].type;

		if (from && t.dtype == from)
			t.dtype = RLX_F64;
		snprintf(name, sizeof(name), "i%u", k);
		leaf[k] = c->leaf[k].fixed ? rlx_constant(g, t, data[k]) : rlx_input(g, name, t);
	}
	for (i = 0; i < c->n_node; i++) {
		for (k = 0; k < c->node[i].n_in; k++) {
			fuzz_ref r = c->node[i].in[k];
			uint32_t by = (uint32_t)(r < FUZZ_LEAVES ? 0 : r - FUZZ_LEAVES) / FUZZ_OUT;

			in[k] = r < 0 ? RLX_NONE : r < FUZZ_LEAVES ? leaf[r] :
				noisy(g, fuzz_mixes(&c->node[by]),
				      rlx_out(g, node[by], (unsigned int)(r - FUZZ_LEAVES) %
							   FUZZ_OUT), noise, 1, &seed);
		}
		if (c->node[i].def->traits & RLX_T_FACTORS)
			in[0] = noisy_by_norm(g, in[0], noise, &seed);
		node[i] = emit_node(g, &c->node[i], in, from);
	}
	name_outputs(g, c, node);
	if (rlx_graph_finish(g)) {	/* the caller reads the graph's error */
	}
	return g;
}

void fuzz_print(const struct fuzz_case *c, FILE *f)
{
	static const char *const draws[] = { "even", "coarse", "alike", "odd", "bits" };
	void *data[FUZZ_LEAVES] = { NULL };
	struct rlx_graph *g;
	uint32_t k;

	for (k = 0; k < c->n_leaf; k++) {
		data[k] = fuzz_data(c, k);
		fprintf(f, "; i%u: %s, %g to %g%s\n", k, draws[c->leaf[k].draw], c->leaf[k].lo,
			c->leaf[k].hi, c->leaf[k].fixed ? ", constant" : "");
	}
	g = fuzz_graph(c, data, RLX_NODTYPE, 0, 0);
	fprintf(f, "; flags %u, threads %u\n", c->flags, c->threads);
	if (rlx_graph_print(g, f, false))
		fprintf(f, "; %s\n", rlx_graph_error(g)->text);
	rlx_graph_put(g);
	for (k = 0; k < c->n_leaf; k++)
		free(data[k]);
}
