// SPDX-License-Identifier: MIT
/*
 * Running cases of the differential fuzzer and judging what comes out.
 *
 * The truth is the evaluation of the same inputs in f64. How far a result may be off
 * follows from the op's own tolerance, from the width of its dtype, and from two things
 * that say how much the graph multiplies errors: the evaluation in the dtypes as they are
 * written, and some in f64 of inputs that are off by a rounding. Two of these tell of most
 * cases; what seems wrong is judged again by more of them, as two may both happen to move an
 * element little, or to fall to the same side of a step. Of these some are in f32, of the simpler
 * ops that the graph's stand for: what an op makes of terms that cancel (the gradient of a norm
 * over one element) moves little with its inputs, and is off by roundings of those terms.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/half.h"
#include "ir/element.h"
#include "ir/eval.h"
#include "ir/graph.h"
#include "ops/op.h"
#include "pass/rewrite.h"
#include "selftests/lib/fuzz_case.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

enum { TRUTH = 0, WRITTEN = 1, BENT = 2, FEW = 2, MANY = 16, JITTERED = BENT + MANY, EXPANDED,
       EVERY, FACTORS, WAYS, SECONDS = 60 };

struct outputs {
	enum rlx_status	status;
	bool		built;		/* its types fit: what it refuses is data */
	unsigned int	n;
	struct rlx_tensor t[FUZZ_OUTPUTS];
};

struct sides {
	const struct fuzz_case	*c;
	enum rlx_dtype		 real;		/* the float that is widened */
	double			 unit;		/* a rounding of it, or of what it is computed in */
	void			*data[FUZZ_LEAVES];
	struct outputs		 way[WAYS];
	unsigned int		 n_way;		/* of which there are so many */
	bool			 wide;		/* the truth is in f64 */
	struct rlx_error	 err, refused;	/* of the last run; of what is as written */
	double			 tol;
	bool			 exact;
	bool			 tail;		/* of x Phi(x) and its like: see is_tail() */
	bool			 overflows;	/* see overflows() */
	bool			 products;	/* see vanishes() */
	signed char		 sums_overflow;	/* -1: not asked for yet */
	bool			 jitter;		/* see is_singular_by_roundings() */
	bool			 expand;	/* the next evaluation is of expanded ops */
	bool			 factors;	/* ... of those factors that are below 1 */
};

static void *poisoned(const struct rlx_type *t)
{
	size_t n = (size_t)rlx_type_bytes(t) + 64;
	void *p = NULL;

	CHECK(!posix_memalign(&p, 64, n));
	memset(p, 0xa5, n);
	return p;
}

static void outputs_free(struct outputs *o)
{
	unsigned int i;

	for (i = 0; i < o->n; i++)
		free(o->t[i].data);
	o->n = 0;
}

/* Does it work in @dt because an attribute says so, as a GEMM of f32 in bf16? */
static bool works_in(const struct fuzz_node *n, enum rlx_dtype dt)
{
	uint32_t i;

	for (i = 0; i < n->def->n_field; i++) {
		const struct rlx_field *f = &n->def->field[i];

		if (f->role == RLX_FIELD_ATTR && f->kind == RLX_K_dtype &&
		    *(const int32_t *)rlx_field_ptr(f, n->args) == (int32_t)dt)
			return true;
	}
	return false;
}

static bool has_dtype(const struct fuzz_case *c, enum rlx_dtype dt)
{
	uint32_t i, k;

	for (k = 0; k < c->n_leaf; k++)
		if (c->leaf[k].type.dtype == dt)
			return true;
	for (i = 0; i < c->n_node; i++) {
		if (works_in(&c->node[i], dt))
			return true;
		for (k = 0; k < c->node[i].n_out; k++)
			if (c->node[i].out[k].dtype == dt)
				return true;
	}
	return false;
}

/*
 * The narrowest float that goes in or is made on the way: a region rounds what it keeps to
 * itself or does not.
 */
static enum rlx_dtype real_of(const struct fuzz_case *c)
{
	static const uint8_t order[] = { RLX_F8E4M3, RLX_F8E5M2, RLX_BF16, RLX_F16, RLX_F32 };
	uint32_t i;

	for (i = 0; i < sizeof(order); i++)
		if (has_dtype(c, order[i]))
			return order[i];
	return RLX_NODTYPE;
}

static double unit_of(enum rlx_dtype dt)
{
	switch (dt) {
	case RLX_F8E4M3: return 0x1p-3;
	case RLX_F8E5M2: return 0x1p-2;
	case RLX_BF16: return 0x1p-8;
	case RLX_F16: return 0x1p-11;
	case RLX_F64: return 0x1p-53;
	default: return 0x1p-24;
	}
}

static const double UNIT_TF32 = 0x1p-11;

/* Products that say so round their operands to tf32 where the device has that. */
static bool may_round_to_tf32(const struct fuzz_case *c, const char *device)
{
	uint32_t i, k;

	for (i = 0; i < c->n_node && strcmp(device, "cpu") && strcmp(device, "ref"); i++)
		for (k = 0; k < c->node[i].def->n_field; k++) {
			const struct rlx_field *f = &c->node[i].def->field[k];

			if (f->role == RLX_FIELD_ATTR && !strcmp(f->name, "tf32") &&
			    *(const bool *)rlx_field_ptr(f, c->node[i].args))
				return true;
		}
	return false;
}

/* Is element @i on the diagonal of a square matrix of its last two dimensions? */
static bool is_diagonal(const struct rlx_type *t, int64_t i)
{
	int64_t n = t->rank < 2 ? 0 : t->dim[t->rank - 1];

	return n && t->dim[t->rank - 2] == n && i % n == i / n % n;
}

/*
 * Leaf @k with floats of dtype @from as f64, each off by up to @off of itself; with jitter
 * diagonals by all of it, and the rest not.
 */
static void *widened(const struct sides *s, uint32_t k, enum rlx_dtype from, double off,
		     uint64_t *seed)
{
	const struct rlx_type *was = &s->c->leaf[k].type;
	struct rlx_tensor x = { *was, s->data[k] }, y = { *was, NULL };
	int64_t i;

	if (from && was->dtype == from)
		y.type.dtype = RLX_F64;
	y.data = poisoned(&y.type);
	if (!rlx_dtype_is_float(was->dtype)) {
		memcpy(y.data, x.data, (size_t)rlx_type_bytes(was));
		return y.data;
	}
	for (i = 0; i < rlx_type_count(was); i++) {
		double v = el_get(&x, i), by = rlx_test_uniform(seed, -1, 1);

		if (s->jitter)
			by = is_diagonal(was, i);
		if (s->factors)
			v = fabs(v) < 1 ? fabs(v) : 1;
		/* what has no room for an error has none */
		el_set(&y, i, off > 0 && (y.type.dtype == RLX_F64 || !from) ?
		       v * (1 + off * by) : v);
	}
	return y.data;
}

static bool has_expansion(void *ctx, const struct rlx_node *n)
{
	(void)ctx;
	return n->def->impl->expand && !(n->def->traits & RLX_T_SUBGRAPH);
}

/* @g, which is put, of the ops that its own stand for, or as it is where that is refused. */
static struct rlx_graph *expanded(struct rlx_graph *g)
{
	enum { DEEP = 8 };	/* of ops that stand for such */
	struct rlx_graph *next;
	struct rlx_error err;
	int i;

	for (i = 0; i < DEEP && !rlx_graph_error(g)->status; i++) {
		next = NULL;
		if (rlx_expand_once(g, has_expansion, NULL, &next, &err) || !next)
			break;
		rlx_graph_put(g);
		g = next;
	}
	return g;
}

static void evaluate(struct sides *s, struct outputs *o, enum rlx_dtype from, double off)
{
	struct rlx_tensor in[FUZZ_LEAVES];
	void *data[FUZZ_LEAVES];
	uint64_t seed = s->c->seed ^ (uint64_t)(o - s->way), inside = seed;
	uint32_t k, n = 0;
	struct rlx_graph *g;

	for (k = 0; k < s->c->n_leaf; k++)
		data[k] = widened(s, k, from, off, &seed);
	g = fuzz_graph(s->c, data, from, off, inside);
	if (s->expand)
		g = fuzz_shaken(expanded(g), off, inside);
	o->status = rlx_graph_error(g)->status;
	o->built = !o->status;
	s->err = *rlx_graph_error(g);
	for (k = 0; k < s->c->n_leaf; k++)
		if (!s->c->leaf[k].fixed) {
			in[n].type = *rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_INPUT, n));
			in[n++].data = data[k];
		}
	o->n = o->status ? 0 : rlx_graph_io_count(g, RLX_IO_OUTPUT);
	for (k = 0; k < o->n; k++) {
		o->t[k].type = *rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_OUTPUT, k));
		o->t[k].data = poisoned(&o->t[k].type);
	}
	if (!o->status)
		o->status = rlx_graph_eval(g, in, o->t, &s->err);
	if (o->status)
		outputs_free(o);
	for (k = 0; k < s->c->n_leaf; k++)
		free(data[k]);
	rlx_graph_put(g);
}

static bool multiplies(const struct fuzz_node *n)
{
	switch (n->def->index) {
	case RLX_OP_reduce:
		return ((const struct rlx_op_reduce *)(const void *)n->args)->kind ==
		       RLX_REDUCE_PROD;
	case RLX_OP_scatter_elements:
		return ((const struct rlx_op_scatter_elements *)(const void *)n->args)->reduction ==
		       RLX_SCATTER_MUL;
	case RLX_OP_scatter_nd:
		return ((const struct rlx_op_scatter_nd *)(const void *)n->args)->reduction ==
		       RLX_SCATTER_MUL;
	default:
		return n->def->index == RLX_OP_cumprod;
	}
}

static void tolerances(struct sides *s)
{
	uint32_t i;

	s->exact = true;
	for (i = 0; i < s->c->n_node; i++) {
		s->tol += s->c->node[i].tol;
		s->exact = s->exact && s->c->node[i].tol == 0;
		s->tail = s->tail || s->c->node[i].def->traits & RLX_T_TAPERS;
		s->products = multiplies(&s->c->node[i]) && s->c->n_node == 1;
	}
	if (!s->exact)
		s->tol += 4 * s->unit * s->c->n_node;
}

/* Is way @k in f32, of simpler ops? They say what roundings do, and nothing else. */
static bool is_expanded(const struct sides *s, unsigned int k)
{
	return s->real == RLX_F32 && k >= BENT + FEW && k < JITTERED && k % 2;
}

/* Have @n evaluations of inputs that are off by a rounding. */
static void bend(struct sides *s, unsigned int n)
{
	unsigned int k;

	for (; s->n_way < BENT + n; s->n_way++) {
		k = s->n_way;
		s->expand = is_expanded(s, k);
		evaluate(s, &s->way[k], s->expand ? RLX_NODTYPE : s->wide ? s->real : RLX_F32,
			 2 * s->unit);
		/* the same ops with the roundings of f64 */
		if (s->expand && s->way[EXPANDED].n == 0)
			evaluate(s, &s->way[EXPANDED], s->wide ? s->real : RLX_NODTYPE, 0);
	}
	s->expand = false;
}

/* All that a result is held against. */
static void sides_init(struct sides *s, const struct fuzz_case *c, const char *device)
{
	uint32_t k;

	memset(s, 0, sizeof(*s));
	s->c = c;
	s->sums_overflow = -1;
	s->real = real_of(c);
	s->unit = unit_of(s->real);
	if (s->unit < UNIT_TF32 && may_round_to_tf32(c, device))
		s->unit = UNIT_TF32;
	for (k = 0; k < c->n_leaf; k++)
		s->data[k] = fuzz_data(c, k);
	tolerances(s);
	s->n_way = BENT;
	evaluate(s, &s->way[WRITTEN], RLX_NODTYPE, 0);
	s->refused = s->err;
	if (s->exact)
		return;
	evaluate(s, &s->way[TRUTH], s->real, 0);
	s->wide = s->way[TRUTH].built;
	if (s->way[WRITTEN].status)
		return;
	s->wide = !s->way[TRUTH].status && s->way[TRUTH].n == s->way[WRITTEN].n;
	if (!s->wide) {		/* some ops and attributes fix a dtype */
		outputs_free(&s->way[TRUTH]);
		evaluate(s, &s->way[TRUTH], RLX_NODTYPE, 0);
	}
	bend(s, FEW);
}

static void sides_fini(struct sides *s)
{
	uint32_t k;

	for (k = 0; k < s->c->n_leaf; k++)
		free(s->data[k]);
	for (k = 0; k < s->n_way; k++)
		outputs_free(&s->way[k]);
	outputs_free(&s->way[EXPANDED]);
	outputs_free(&s->way[FACTORS]);
}

static enum rlx_status run_session(struct sides *s, struct rlx_session *ss, struct outputs *o)
{
	struct rlx_program *p = rlx_session_program(ss);
	enum rlx_status st = RLX_OK;
	uint32_t n_out = rlx_program_io_count(p, RLX_IO_OUTPUT), k, n = 0;

	for (k = 0; k < s->c->n_leaf && !st; k++)
		if (!s->c->leaf[k].fixed)
			st = rlx_session_set(ss, RLX_IO_INPUT,
					     rlx_program_io_name(p, RLX_IO_INPUT, n++),
					     s->c->leaf[k].type, s->data[k]);
	for (k = 0; k < n_out && !st; k++) {
		struct rlx_buf b = rlx_session_buf(ss, RLX_IO_OUTPUT,
						   rlx_program_io_name(p, RLX_IO_OUTPUT, k));

		CHECK(rlx_buf_ptr(b));
		memset(rlx_buf_ptr(b), 0xa5, b.bytes);
	}
	if (!st)
		st = rlx_session_run(ss);
	for (k = 0; k < n_out && !st; k++) {
		o->t[k].type = *rlx_program_io_type(p, RLX_IO_OUTPUT, k);
		o->t[k].data = poisoned(&o->t[k].type);
		o->n = k + 1;
		st = rlx_session_get(ss, RLX_IO_OUTPUT, rlx_program_io_name(p, RLX_IO_OUTPUT, k),
				     o->t[k].type, o->t[k].data);
	}
	return st;
}

static void run_device(struct sides *s, const char *device, struct outputs *o)
{
	struct rlx_compile_opts opts = { .size = sizeof(opts), .device = device,
					 .threads = s->c->threads, .flags = s->c->flags };
	struct rlx_graph *g = fuzz_graph(s->c, s->data, RLX_NODTYPE, 0, 0);
	struct rlx_program *p = NULL;
	struct rlx_session *ss = NULL;

	*o = (struct outputs){ 0 };
	s->err = (struct rlx_error){ 0 };
	op_case_host_is_fine();
	o->status = rlx_compile(g, &opts, &p, &s->err);
	rlx_graph_put(g);
	if (!o->status)
		o->status = rlx_session_new(p, NULL, &ss, &s->err);
	if (!o->status)
		o->status = run_session(s, ss, o);
	if (o->status && ss && rlx_session_error(ss)->status)
		s->err = *rlx_session_error(ss);
	rlx_session_free(ss);
	rlx_program_put(p);
}

/* ---- judging ---- */

static double largest(enum rlx_dtype dt)
{
	switch (dt) {
	case RLX_F8E4M3: return 448;
	case RLX_F8E5M2: return 57344;
	case RLX_F16: return 65504;
	case RLX_F64: return 1.7976931348623157e308;
	default: return 3.4028234663852886e38;
	}
}

/* Elements of c64 are taken apart. */
static struct rlx_tensor plain(struct rlx_tensor t)
{
	if (t.type.dtype == RLX_C64) {
		t.type.dtype = RLX_F32;
		if (t.type.rank == RLX_MAX_RANK)
			t.type.dim[0] *= 2;
		else
			t.type.dim[t.type.rank++] = 2;
	}
	return t;
}

/*
 * The largest of an output. What several ops in turn make small by cancelling is not held
 * against that, but against what they started from; one op's sums cancel too.
 */
static double scale_of(const struct sides *s, const struct rlx_tensor *t)
{
	int64_t n = rlx_type_count(&t->type), i;
	double most = s->c->n_node > 1 ? 1 : 0x1p-4, v;

	for (i = 0; i < n; i++) {
		v = fabs(el_get(t, i));
		most = isfinite(v) && v > most ? v : most;
	}
	return most;
}

/* One element by value, NaN like NaN. */
static bool same(const struct rlx_tensor *a, const struct rlx_tensor *b, int64_t i)
{
	double x, y;

	if (el_is_int(a->type.dtype))
		return el_geti(a, i) == el_geti(b, i);
	x = el_get(a, i);
	y = el_get(b, i);
	return x == y || (isnan(x) && isnan(y));
}

/* How far roundings of what goes in move the elements around @i of output @k. */
static double unrest(const struct sides *s, unsigned int k, int64_t i)
{
	struct rlx_tensor t = plain(s->way[TRUTH].t[k]);
	int64_t n = rlx_type_count(&t.type), from = i < 4 ? 0 : i - 4, j;
	double most = 0, d;
	int way;

	for (way = BENT; way < BENT + FEW; way++) {
		struct rlx_tensor x = plain(s->way[way].t[k]);

		for (j = from; j < n && j < from + 9; j++) {
			d = fabs(el_get(&x, j) - el_get(&t, j));
			most = d > most ? d : most;
		}
	}
	return isfinite(most) ? most : 0;
}

struct hope {
	enum rlx_dtype	dt;
	double		bound;
	bool		tail;
	bool		overflows;	/* of these outputs some do not fit their dtype */
	bool		vanishes;	/* see vanishes() */
};

/*
 * Is a finite result larger than its dtype holds? What an op carries from one step to its next
 * (a state of gru, the sum of cumsum) need not come back from there, as it does in f64.
 */
static bool overflows(const struct sides *s)
{
	bool carries = false;
	unsigned int k;
	int64_t i;

	for (k = 0; k < s->c->n_node; k++)
		carries = carries || s->c->node[k].def->traits & RLX_T_CARRIES;
	for (k = 0; carries && !s->exact && k < s->way[TRUTH].n; k++) {
		struct rlx_tensor t = plain(s->way[TRUTH].t[k]);
		double top = largest(s->way[WRITTEN].t[k].type.dtype), v;

		for (i = 0; i < rlx_type_count(&t.type); i++) {
			v = el_is_int(t.type.dtype) ? 0 : fabs(el_get(&t, i));
			if (v > top && isfinite(v))
				return true;
		}
	}
	return false;
}

/*
 * Does a node on the way make more than f32 holds of what it mixes? inf - inf or a number may come
 * of it, by the order of its sums, and anything behind it.
 */
static bool sums_overflow(struct sides *s)
{
	struct outputs *o = &s->way[EVERY];
	const struct fuzz_case *c = s->c;
	struct fuzz_case *all;
	unsigned int n, k, at = 0;
	int64_t i;

	if (s->sums_overflow >= 0)
		return s->sums_overflow;
	all = malloc(sizeof(*all));
	CHECK(all);
	fuzz_copy(all, c);
	all->keep = UINT32_MAX;
	s->c = all;
	evaluate(s, o, s->wide ? s->real : RLX_NODTYPE, 0);
	s->c = c;
	free(all);
	s->sums_overflow = 0;
	for (n = 0; n < c->n_node; n++)
		for (k = 0; k < c->node[n].n_out && at < o->n; k++, at++) {
			struct rlx_tensor t = plain(o->t[at]);

			if (!fuzz_mixes(&c->node[n]) || !rlx_dtype_is_float(t.type.dtype))
				continue;
			for (i = 0; i < rlx_type_count(&t.type); i++)
				s->sums_overflow |= isfinite(el_get(&t, i)) &&
						    fabs(el_get(&t, i)) > largest(RLX_F32) / 8;
		}
	outputs_free(o);
	return s->sums_overflow;
}

/* May @got stand where the @n others of @v stand? */
static bool is_near(const struct hope *h, double got, const double v[WAYS], unsigned int n)
{
	double t = v[TRUTH], bound = h->bound, top = largest(h->dt);
	enum rlx_dtype dt = h->dt;
	bool steady = true;
	unsigned int k;

	/* the unit of what is stored, and less than its smallest */
	bound += unit_of(dt) * fabs(t) + (dt == RLX_F64 ? 0x1p-1000 : dt == RLX_F16 ? 0x1p-23 :
		 dt == RLX_F8E4M3 ? 0x1p-9 : dt == RLX_F8E5M2 ? 0x1p-16 : 0x1p-120);
	for (k = 0; k < n; k++) {
		steady = steady && isfinite(v[k]) == isfinite(t) && isnan(v[k]) == isnan(t);
		bound += (k >= BENT ? 64.0 / (n - BENT) : k == WRITTEN ? 8 : 0) * fabs(v[k] - t);
	}
	if (!steady || (isnan(t) && isnan(got)) || got == t)
		return true;
	if (isnan(t) && h->tail)
		return fabs(got) <= 1e-6;
	if (isinf(t) && isnan(got) && h->vanishes)
		return true;
	if (isnan(t) || isinf(t))
		return isinf(t) && fabs(got) > top / 8 && (got > 0) == (t > 0) && dt != RLX_F64;
	/* a state or a running sum that went over: inf - inf or inf * 0 comes after it */
	if (!isfinite(got) && h->overflows)
		return true;
	if (!isfinite(got))
		return dt != RLX_F8E4M3 && dt != RLX_F8E5M2 && fabs(t) > top / 8;
	return fabs(got - t) <= bound;
}

/*
 * How far way @way, of simpler ops, is from those in f64, not from the truth: were what an op is
 * written out to wrong, a device that runs it is to be found. 0: they say nothing.
 */
static double rounding(const struct sides *s, unsigned int way, unsigned int k, int64_t i)
{
	const struct outputs *o = &s->way[way], *of = &s->way[EXPANDED];
	struct rlx_tensor x, y;
	double d;

	if (k >= o->n || k >= of->n || o->t[k].type.rank != of->t[k].type.rank ||
	    rlx_type_count(&o->t[k].type) != rlx_type_count(&of->t[k].type))
		return 0;
	x = plain(o->t[k]);
	y = plain(of->t[k]);
	d = el_get(&x, i) - el_get(&y, i);
	return isfinite(d) ? d : 0;
}

/*
 * Is element @i of output @k a product whose factors in some order come to 0 in f32, which f64 has
 * room for? Before an infinite one that is NaN. All those below 1, and no other, say so.
 */
static bool vanishes(struct sides *s, unsigned int k, int64_t i)
{
	struct outputs *o = &s->way[FACTORS];
	struct rlx_tensor x;

	if (!s->products || !s->wide || s->way[WRITTEN].t[k].type.dtype == RLX_F64)
		return false;
	if (!o->n) {
		s->factors = true;
		evaluate(s, o, s->real, 0);
		s->factors = false;
	}
	if (k >= o->n)
		return false;
	x = plain(o->t[k]);
	return el_get(&x, i) < 0x1p-126;
}

/* Element @i of output @k in @got: good enough? */
static bool is_good(struct sides *s, const struct outputs *got, unsigned int k, int64_t i,
		    double scale)
{
	struct rlx_tensor g = plain(got->t[k]), w = plain(s->way[WRITTEN].t[k]), x;
	double v[WAYS];
	unsigned int way;

	if (s->exact || same(&g, &w, i))
		return same(&g, &w, i);
	for (way = 0; way < s->n_way; way++) {
		if (is_expanded(s, way)) {
			v[way] = v[TRUTH] + rounding(s, way, k, i);
			continue;
		}
		x = plain(s->way[way].t[k]);
		v[way] = el_get(&x, i);
	}
	if (!el_is_int(g.type.dtype))
		return is_near(&(struct hope){ g.type.dtype, s->tol * scale + 8 * unrest(s, k, i),
					       s->tail, s->overflows, vanishes(s, k, i) },
			       el_get(&g, i), v, s->n_way);
	/* an integer that hangs on a float: it may fall to either side */
	for (way = 0; way < s->n_way; way++) {
		if (is_expanded(s, way))
			continue;
		x = plain(s->way[way].t[k]);
		if (!same(&x, &w, i))
			return true;
	}
	return false;
}

/* A lane behind the last channel of a blocked result holds anything (kernels/conv.h). */
static bool is_pad_lane(const struct sides *s, unsigned int k, int64_t i)
{
	const struct fuzz_node *n = &s->c->node[s->c->n_node - 1];
	const struct rlx_op_fused_conv *a = (const void *)n->args;
	const struct rlx_type *y = &n->out[0];

	if (s->c->n_node > 1 || k || n->def->index != RLX_OP_fused_conv || !a->block || a->plain_y)
		return false;
	i = i / shape_span(y, 2, 5) % y->dim[1] * y->dim[4] + i % y->dim[4];
	return i >= fuzz_type(s->c, n->in[1])->dim[0];
}

/* Is the status of some evaluation that of @got? Then a rounding decides between them. */
static bool is_some_status(const struct sides *s, enum rlx_status got)
{
	unsigned int k;

	for (k = WRITTEN; k < s->n_way; k++)
		if (!is_expanded(s, k) && s->way[k].status == got)
			return true;
	return false;
}

/* Is element @i right, by few evaluations or by many? */
static bool is_right(struct sides *s, const struct outputs *got, unsigned int k, int64_t i,
		     double scale)
{
	if (is_pad_lane(s, k, i) || is_good(s, got, k, i, scale))
		return true;
	if (s->exact)
		return false;
	bend(s, MANY);
	return is_some_status(s, RLX_ERANGE) || is_good(s, got, k, i, scale) || sums_overflow(s);
}

static bool compare(struct sides *s, const char *device, const struct outputs *got,
		    char text[FUZZ_TEXT])
{
	unsigned int k;
	int64_t i;

	if (is_some_status(s, RLX_ERANGE))	/* there is nothing to hold the results against */
		return true;
	for (k = 0; k < got->n; k++) {
		struct rlx_tensor g = plain(got->t[k]), w = plain(s->way[WRITTEN].t[k]);
		struct rlx_tensor t = plain(s->exact ? w : s->way[TRUTH].t[k]);
		double scale = scale_of(s, &t);

		if (!rlx_type_equal(&g.type, &w.type)) {
			snprintf(text, FUZZ_TEXT, "%s: output %u is of another type", device, k);
			return false;
		}
		for (i = 0; i < rlx_type_count(&g.type); i++) {
			if (is_right(s, got, k, i, scale))
				continue;
			snprintf(text, FUZZ_TEXT,
				 "%s: output %u, element %lld is %.9g, not %.9g (as written %.9g; "
				 "the largest is %g)", device, k, (long long)i, el_get(&g, i),
				 el_get(&t, i), el_get(&w, i), scale);
			return false;
		}
	}
	return true;
}

static bool factors(const struct sides *s)
{
	bool yes = false;
	uint32_t i;

	for (i = 0; i < s->c->n_node; i++)
		yes = yes || s->c->node[i].def->traits & RLX_T_FACTORS;
	return yes;
}

/*
 * The other way round: pivots of a batch, each by itself, fall to the side that is refused in f64,
 * and none in f32. Bent at random, hardly ever do all of them fall to the other side at once; with
 * some roundings added to diagonals (jitter) they do.
 */
static bool is_singular_by_roundings(struct sides *s, enum rlx_status got)
{
	struct outputs *o = &s->way[JITTERED];
	bool ok;

	if (!factors(s) || s->way[WRITTEN].status != RLX_ERANGE || got)
		return false;
	s->jitter = true;
	evaluate(s, o, s->real, 32 * s->unit);
	s->jitter = false;
	ok = !o->status;
	outputs_free(o);
	return ok;
}

/*
 * Whether a pivot is 0 or nearly so is decided by the order of roundings. A device that works in
 * f32 finds it to be 0 where f64 has one that is small, and large results.
 */
static bool is_nearly_singular(const struct sides *s, enum rlx_status got)
{
	const struct outputs *w = &s->way[WRITTEN];
	uint32_t i;
	int64_t k;

	if (!factors(s) || w->status || got != RLX_ERANGE)
		return false;
	for (i = 0; i < w->n; i++)
		for (k = 0; k < rlx_type_count(&w->t[i].type); k++)
			if (!(fabs(el_get(&w->t[i], k)) < 1e6))
				return true;
	return false;
}

/*
 * Has @got nothing of what was refused? A pass may find that a node is not needed before it looks
 * at its data: then the results are right whatever it gives.
 */
static bool is_of_nothing_refused(const struct sides *s, const char *device,
				  const struct outputs *got)
{
	struct fuzz_case *c = malloc(sizeof(*c));
	struct sides *other = malloc(sizeof(*other));
	char text[FUZZ_TEXT];
	bool ok = s->way[WRITTEN].status == RLX_ERANGE && !got->status;
	uint32_t id;

	CHECK(c && other);
	for (id = 2000; ok && id < 4000; id += 1000) {
		fuzz_copy(c, s->c);
		ok = fuzz_replace_refusing(c, id);
		if (!ok)
			break;
		sides_init(other, c, device);
		other->overflows = overflows(other);
		ok = !other->way[WRITTEN].status && other->way[WRITTEN].n == got->n &&
		     compare(other, device, got, text);
		sides_fini(other);
	}
	free(other);
	free(c);
	return ok;
}

/*
 * Where several nodes refuse, which of them is told hangs on what is looked at first: a sum over
 * ranks that has nobody to ask before all data. Does some node, with what it reads, refuse so?
 */
static bool is_another_refusal(const struct sides *s, const char *device, enum rlx_status got)
{
	struct fuzz_case *c = malloc(sizeof(*c));
	struct sides *other = malloc(sizeof(*other));
	bool found = false;
	uint32_t n;

	CHECK(c && other);
	for (n = 0; got && s->way[WRITTEN].status && !found && n < s->c->n_node; n++) {
		fuzz_copy(c, s->c);
		c->n_node = n + 1;
		c->keep = 0;
		fuzz_prune(c);
		sides_init(other, c, device);
		found = other->way[WRITTEN].status == got;
		sides_fini(other);
	}
	free(other);
	free(c);
	return found;
}

/* May it end as @got has, which is not how it ends as it is written? */
static bool is_other_end(struct sides *s, const char *device, const struct outputs *got)
{
	if (is_nearly_singular(s, got->status) || is_singular_by_roundings(s, got->status) ||
	    is_of_nothing_refused(s, device, got) || is_another_refusal(s, device, got->status))
		return true;
	if (s->exact)
		return false;
	bend(s, MANY);
	return is_some_status(s, got->status);
}

bool fuzz_check_spoiled(const struct fuzz_case *c, const char *device, fuzz_spoil_fn *spoil,
			void *ctx, char text[FUZZ_TEXT])
{
	struct sides *s = malloc(sizeof(*s));
	struct outputs got = { 0 };
	enum rlx_status want;
	bool ok = true;

	CHECK(s);
	sides_init(s, c, device);
	want = s->way[WRITTEN].status;
	run_device(s, device, &got);
	if (spoil && !got.status)
		spoil(ctx, got.t, got.n);
	if (got.status != want) {
		snprintf(text, FUZZ_TEXT, "%s: status %s, not %s: %.300s", device,
			 rlx_status_name(got.status), rlx_status_name(want),
			 got.status ? s->err.text : s->refused.text);
		ok = is_other_end(s, device, &got);
	} else if (!want) {
		s->overflows = overflows(s);
		ok = compare(s, device, &got, text);
	}
	outputs_free(&got);
	sides_fini(s);
	free(s);
	return ok;
}

bool fuzz_check(const struct fuzz_case *c, const char *device, char text[FUZZ_TEXT])
{
	return fuzz_check_spoiled(c, device, NULL, NULL, text);
}

bool fuzz_check_apart(const struct fuzz_case *c, const char *device, char text[FUZZ_TEXT])
{
	char *shared = mmap(NULL, FUZZ_TEXT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);
	pid_t pid;
	int st;

	CHECK(shared != MAP_FAILED);
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		alarm(SECONDS);
		_exit(!fuzz_check(c, device, shared));
	}
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	if (WIFSIGNALED(st))
		snprintf(text, FUZZ_TEXT, "%s: %s", device, WTERMSIG(st) == SIGALRM ?
			 "no end within a minute" : strsignal(WTERMSIG(st)));
	else
		memcpy(text, shared, FUZZ_TEXT);
	munmap(shared, FUZZ_TEXT);
	return WIFEXITED(st) && !WEXITSTATUS(st);
}
