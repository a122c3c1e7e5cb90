// SPDX-License-Identifier: MIT
/*
 * Drawing cases of the differential fuzzer. An op starts as one of its samples, which is
 * bent: a size becomes another one wherever it stands, dtypes, attributes, lists and ranks
 * change, as far as the op's own type rule follows.
 */
#include "selftests/lib/fuzz_case.h"
#include "ir/element.h"
#include "ir/eval.h"
#include "selftests/lib/rlx_test.h"

struct source {
	struct fuzz_case *c;
	uint64_t	  seed;
};

static uint32_t below(struct source *s, uint32_t n)
{
	return (uint32_t)(rlx_test_rand(&s->seed) % n);
}

static bool one_in(struct source *s, uint32_t n)
{
	return !below(s, n);
}

static int64_t draw_size(struct source *s)
{
	static const uint8_t sizes[] = {
		1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 8, 9, 12, 15, 16, 16, 17, 20, 24, 31, 32, 33,
		48, 63, 64, 65, 96, 100, 127, 128, 129, 255,
	};

	return one_in(s, 24) ? 0 : sizes[below(s, sizeof(sizes))];
}

/* ---- ops that are drawn ---- */

static bool has_kind(const struct rlx_op_def *d, enum rlx_attr_kind kind)
{
	uint32_t i;

	for (i = 0; i < d->n_field; i++)
		if (d->field[i].role == RLX_FIELD_ATTR && d->field[i].kind == kind)
			return true;
	return false;
}

/*
 * Sub-graphs and leaves are other tests' work, and images of splats, which a splat enters with
 * 1/255 of it: where that falls among the pixels is decided by roundings (selftests/ops/splat.c).
 */
static bool is_drawn(const struct rlx_op_def *d)
{
	const char *only = getenv("RLX_FUZZ_OP");

	if (only && strcmp(only, d->name))
		return false;
	if (d->index == RLX_OP_splat_blend || d->index == RLX_OP_splat_blend_grad ||
	    d->index == RLX_OP_splat_render)
		return false;
	return rlx_op_has_samples(d) && d->args_size <= FUZZ_ARGS && !has_kind(d, RLX_K_graph) &&
	       !has_kind(d, RLX_K_blob) && !has_kind(d, RLX_K_str);
}

bool fuzz_has_ops(void)
{
	uint32_t i;

	for (i = 0; i < RLX_OP_COUNT && !is_drawn(rlx_op_defs[i]); i++)
		;
	return i < RLX_OP_COUNT;
}

bool fuzz_is_stepped(const struct rlx_op_def *d)
{
	return d->traits & (RLX_T_STEPPED | RLX_T_NODIFF | RLX_T_FACTORS);
}

static const struct rlx_op_def *draw_def(struct source *s, bool pointwise)
{
	const struct rlx_op_def *d;

	do
		d = rlx_op_defs[below(s, rlx_op_count)];
	while (!is_drawn(d) || (pointwise && !(d->traits & RLX_T_ELEMENTWISE)));
	return d;
}

/* ---- from a sample ---- */

/* Take the lists of a sample over; they lie in memory of its own. */
static bool take_lists(struct fuzz_node *n)
{
	uint32_t i, k;

	for (i = 0; i < n->def->n_field; i++) {
		const struct rlx_field *f = &n->def->field[i];
		const struct rlx_ints *l = (const void *)(n->args + f->offset);
		const struct rlx_floats *x = (const void *)(n->args + f->offset);

		if (f->role != RLX_FIELD_ATTR)
			continue;
		if (f->kind == RLX_K_ints || f->kind == RLX_K_floats)
			if (l->n > FUZZ_LIST)
				return false;
		for (k = 0; f->kind == RLX_K_ints && k < l->n; k++)
			n->list[i].i[k] = l->v[k];
		for (k = 0; f->kind == RLX_K_floats && k < x->n; k++)
			n->list[i].f[k] = x->v[k];
	}
	fuzz_bind(n);
	return true;
}

static void add_leaf(struct fuzz_case *c, const struct rlx_sample *p, uint32_t k)
{
	c->leaf[c->n_leaf] = (struct fuzz_leaf){
		.type = p->in[k], .lo = p->lo[k], .hi = p->hi[k], .id = c->n_leaf,
	};
	c->n_leaf++;
}

/* Append sample @i of @d with leaves of its own; false if there is none, or no room. */
static bool add_sample(struct fuzz_case *c, const struct rlx_op_def *d, uint32_t i)
{
	struct fuzz_node *n = &c->node[c->n_node];
	struct rlx_sample *p = calloc(1, sizeof(*p));
	bool ok = p && c->n_node < FUZZ_NODES && c->n_leaf + RLX_SAMPLE_IN < FUZZ_LEAVES;
	uint32_t k;

	if (ok) {
		*n = (struct fuzz_node){ .def = d };
		p->def = d;
		p->args = n->args;
		ok = rlx_sample_get(i, p) && take_lists(n);
	}
	/* a sample may leave the last optional ones out */
	n->n_in = p && p->n_in > d->n_fixed ? p->n_in : d->n_fixed;
	for (k = 0; ok && k < n->n_in; k++) {
		n->in[k] = p->in[k].dtype ? (fuzz_ref)c->n_leaf : -1;
		if (p->in[k].dtype)
			add_leaf(c, p, k);
	}
	if (ok) {
		n->tol = p->tol;
		c->n_node++;
	}
	free(p);
	return ok;
}

bool fuzz_draw_sample(struct fuzz_case *c, const struct rlx_op_def *d, uint32_t i)
{
	memset(c, 0, offsetof(struct fuzz_case, leaf));
	return is_drawn(d) && add_sample(c, d, i) && fuzz_infer(c);
}

/* One of the samples of @d; all of them are counted on the way. */
static bool add_op(struct source *s, const struct rlx_op_def *d)
{
	static uint8_t count[RLX_OP_COUNT];
	struct rlx_sample *p;
	void *args;

	if (!count[d->index]) {
		p = calloc(1, sizeof(*p));
		args = calloc(1, FUZZ_ARGS);
		CHECK(p && args);
		do {
			memset(p, 0, sizeof(*p));
			memset(args, 0, FUZZ_ARGS);
			p->def = d;
			p->args = args;
		} while (rlx_sample_get(count[d->index], p) && ++count[d->index] < UINT8_MAX);
		free(args);
		free(p);
	}
	return count[d->index] && add_sample(s->c, d, below(s, count[d->index]));
}

/* ---- bending ---- */

/* The leaf behind input @k of @n, NULL if there is none. */
static struct fuzz_leaf *leaf_of(struct fuzz_case *c, const struct fuzz_node *n, uint32_t k)
{
	return n->in[k] >= 0 && n->in[k] < FUZZ_LEAVES ? &c->leaf[n->in[k]] : NULL;
}

static struct fuzz_leaf *some_leaf(struct source *s, const struct fuzz_node *n)
{
	return n->n_in ? leaf_of(s->c, n, below(s, n->n_in)) : NULL;
}

/* @v where it was @from, and where it was a multiple of that. */
static int64_t renamed(struct source *s, int64_t v, int64_t from, int64_t to)
{
	int64_t multiple;

	if (v == from)
		return to;
	if (from < 2 || v <= 0 || v % from || !one_in(s, 2) ||
	    __builtin_mul_overflow(v / from, to, &multiple))
		return v;
	return multiple;
}

static void rename_attributes(struct source *s, struct fuzz_node *n, int64_t from, int64_t to)
{
	uint32_t i, k;

	for (i = 0; i < n->def->n_field; i++) {
		const struct rlx_field *f = &n->def->field[i];
		void *p = n->args + f->offset;

		if (f->role != RLX_FIELD_ATTR || one_in(s, 3))
			continue;
		if (f->kind == RLX_K_i32 && *(int32_t *)p == from)
			*(int32_t *)p = (int32_t)to;
		if (f->kind == RLX_K_i64 && *(int64_t *)p == from)
			*(int64_t *)p = to;
		for (k = 0; f->kind == RLX_K_ints && k < ((struct rlx_ints *)p)->n; k++)
			n->list[i].i[k] = renamed(s, n->list[i].i[k], from, to);
	}
}

/* A size becomes another one wherever it stands. */
static void bend_size(struct source *s, struct fuzz_node *n)
{
	struct fuzz_leaf *l = some_leaf(s, n);
	int64_t from, to = draw_size(s);
	uint32_t k, i;

	if (!l || !l->type.rank)
		return;
	from = l->type.dim[below(s, l->type.rank)];
	for (k = 0; k < n->n_in; k++) {
		l = leaf_of(s->c, n, k);
		for (i = 0; l && i < l->type.rank; i++)
			l->type.dim[i] = renamed(s, l->type.dim[i], from, to);
		if (!l || !to)
			continue;
		/* ranges of indices follow */
		l->lo = l->lo == -(double)from ? -(double)to : l->lo;
		l->hi = l->hi == (double)(from - 1) ? (double)(to - 1) :
			l->hi == (double)from ? (double)to : l->hi;
	}
	rename_attributes(s, n, from, to);
}

static void bend_one_size(struct source *s, struct fuzz_node *n)
{
	struct fuzz_leaf *l = some_leaf(s, n);

	if (l && l->type.rank)
		l->type.dim[below(s, l->type.rank)] = draw_size(s);
}

static void bend_dtype(struct source *s, struct fuzz_node *n)
{
	static const uint8_t likely[] = { RLX_F16, RLX_BF16, RLX_F64, RLX_F32, RLX_I64, RLX_I32 };
	enum rlx_dtype from, to = one_in(s, 2) ? likely[below(s, sizeof(likely))] :
					     1 + below(s, RLX_DTYPE_COUNT - 1);
	struct fuzz_leaf *l = some_leaf(s, n);
	bool all = !one_in(s, 6);
	uint32_t k;

	if (!l)
		return;
	from = l->type.dtype;
	l->type.dtype = to;
	for (k = 0; all && k < n->n_in; k++) {
		l = leaf_of(s->c, n, k);
		if (l && l->type.dtype == from)
			l->type.dtype = to;
	}
}

/* Another dimension in front, or one less; of all inputs, or of one. */
static void bend_rank(struct source *s, struct fuzz_node *n)
{
	uint32_t only = one_in(s, 2) && n->n_in ? below(s, n->n_in) : UINT32_MAX, k;
	bool more = !one_in(s, 3);
	int64_t size = one_in(s, 2) ? 1 : draw_size(s);

	for (k = 0; k < n->n_in; k++) {
		struct fuzz_leaf *l = leaf_of(s->c, n, k);
		struct rlx_type *t = l ? &l->type : NULL;

		if (!t || (only != UINT32_MAX && only != k))
			continue;
		if (more && t->rank < RLX_MAX_RANK) {
			memmove(t->dim + 1, t->dim, t->rank * sizeof(t->dim[0]));
			t->dim[0] = size;
			t->rank++;
		} else if (!more && t->rank) {
			t->rank--;
			memmove(t->dim, t->dim + 1, t->rank * sizeof(t->dim[0]));
			t->dim[t->rank] = 0;
		}
	}
}

/* An optional input more (like another one), or one less. */
static void bend_optional(struct source *s, struct fuzz_node *n)
{
	struct fuzz_case *c = s->c;
	struct fuzz_leaf *l = some_leaf(s, n);
	uint32_t k = n->n_in ? below(s, n->n_in) : 0;

	if (!n->n_in || !fuzz_is_optional(n->def, k))
		return;
	if (n->in[k] >= 0) {
		n->in[k] = -1;
	} else if (l && c->n_leaf < FUZZ_LEAVES) {
		c->leaf[c->n_leaf] = *l;
		c->leaf[c->n_leaf].id = c->n_leaf;
		n->in[k] = (fuzz_ref)c->n_leaf++;
	}
}

static int64_t draw_number(struct source *s, const struct fuzz_node *n)
{
	static const int64_t far[] = {
		INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, 1ll << 40, -(1ll << 40), 1000, -1000,
	};
	struct fuzz_leaf *l = some_leaf(s, n);
	int64_t d;

	if (one_in(s, 16))
		return far[below(s, 8)];
	if (l && l->type.rank && one_in(s, 2)) {	/* about a size */
		d = l->type.dim[below(s, l->type.rank)] + below(s, 5) - 2;
		return one_in(s, 2) ? d : -d;
	}
	return (int64_t)below(s, 12) - 4;
}

static double draw_real(struct source *s)
{
	static const double v[] = { 0, 1, -1, 0.5, 2, -0.25, 1e-5, 3, 0.1, 8, 1e-3, 100, -7.5 };

	return v[below(s, 13)];
}

static void bend_list(struct source *s, struct fuzz_node *n, uint32_t i)
{
	struct rlx_ints *l = (void *)(n->args + n->def->field[i].offset);

	if (one_in(s, 8))
		l->n = 0;
	else if (one_in(s, 8) && l->n + 1 < FUZZ_LIST)
		n->list[i].i[l->n++] = draw_number(s, n);
	else if (one_in(s, 8) && l->n)
		l->n--;
	else if (l->n)
		n->list[i].i[below(s, l->n)] = draw_number(s, n);
}

static void bend_reals(struct source *s, struct fuzz_node *n, uint32_t i)
{
	struct rlx_floats *l = (void *)(n->args + n->def->field[i].offset);

	if (one_in(s, 8))
		l->n = 0;
	else if (one_in(s, 8) && l->n + 1 < FUZZ_LIST)
		n->list[i].f[l->n++] = draw_real(s);
	else if (l->n)
		n->list[i].f[below(s, l->n)] = draw_real(s);
}

/*
 * Nothing but eps keeps a variance of 0 from being divided by. 0 times a power of lrn is 0
 * or no number by whether f32 holds half of it: none is drawn that it does not. The lse that
 * attention_grad is given here is none of its scores: weights, exp(scale q k' - lse), grow with
 * scale, q and k beyond what f32 holds, where two of them differ by no number.
 */
static float draw_f32(struct source *s, const struct fuzz_node *n, const char *name)
{
	float v = (float)draw_real(s);

	if (!strcmp(name, "eps"))
		return 1e-3f;
	if (n->def->index == RLX_OP_attention_grad && !strcmp(name, "scale") && fabsf(v) > 1)
		return 1 / v;
	return n->def->index == RLX_OP_lrn && !strcmp(name, "beta") && fabsf(v) > 3 ? 3 : v;
}

static void bend_attribute(struct source *s, struct fuzz_node *n)
{
	uint32_t i = below(s, n->def->n_field ? n->def->n_field : 1);
	const struct rlx_field *f = &n->def->field[i];
	void *p = n->args + f->offset;

	if (!n->def->n_field || f->role != RLX_FIELD_ATTR)
		return;
	/* nobody else is there to sum with; whose error comes first is up to the device */
	if ((rlx_op_waits_for_ranks(n->def) || n->def->index == RLX_OP_own_part) &&
	    !strcmp(f->name, "ranks"))
		return;
	switch (f->kind) {
	case RLX_K_i32: *(int32_t *)p = (int32_t)draw_number(s, n); break;
	case RLX_K_i64: *(int64_t *)p = draw_number(s, n); break;
	case RLX_K_f32: *(float *)p = draw_f32(s, n, f->name); break;
	case RLX_K_f64: *(double *)p = draw_real(s); break;
	case RLX_K_bool: *(bool *)p = !*(bool *)p; break;
	case RLX_K_dtype: *(int32_t *)p = (int32_t)(1 + below(s, RLX_DTYPE_COUNT - 1)); break;
	case RLX_K_ints: bend_list(s, n, i); break;
	case RLX_K_floats: bend_reals(s, n, i); break;
	case RLX_K_type:
		((struct rlx_type *)p)->dtype = 1 + below(s, RLX_DTYPE_COUNT - 1);
		if (((struct rlx_type *)p)->rank)
			((struct rlx_type *)p)->dim[0] = draw_size(s);
		break;
	}
}

/* Bend the last node @times times, each time as far as its type rule follows. */
static void bend(struct source *s, uint32_t times)
{
	static void (*const how[])(struct source *s, struct fuzz_node *n) = {
		bend_size, bend_size, bend_size, bend_one_size, bend_dtype, bend_rank,
		bend_optional, bend_attribute, bend_attribute, bend_attribute, bend_attribute,
	};
	struct fuzz_case *c = s->c;
	struct fuzz_node *n = &c->node[c->n_node - 1], *was = malloc(sizeof(*was));
	struct fuzz_leaf leaf[FUZZ_LEAVES];
	uint32_t n_leaf;

	CHECK(was);
	for (; times; times--) {
		*was = *n;
		n_leaf = c->n_leaf;
		memcpy(leaf, c->leaf, sizeof(leaf));
		how[below(s, sizeof(how) / sizeof(how[0]))](s, n);
		if (fuzz_infer(c))
			continue;
		*n = *was;
		fuzz_bind(n);
		c->n_leaf = n_leaf;
		memcpy(c->leaf, leaf, sizeof(leaf));
	}
	free(was);
}

/*
 * From which input on all is finite. Infinities and NaNs have one way through what moves,
 * compares or computes elements one by one; elsewhere padding, taps and keys without weight
 * are multiplied by 0 by one and left out by another, sums and products overflow by their
 * order, and no integer is NaN.
 */
uint32_t fuzz_finite_from(const struct rlx_op_def *d)
{
	if (d->traits & RLX_T_NONFINITE_X)
		return 1;
	return d->traits & RLX_T_NONFINITE || (!(d->traits & RLX_T_TIES) &&
	       d->traits & (RLX_T_MOVE | RLX_T_ELEMENTWISE)) ? UINT32_MAX : 0;
}

/*
 * Data that leaves no more than the roundings of what comes before: a row of one value
 * less its mean, quotients half way between two integers, determinants of equal rows (of what
 * a view of such makes of any Gaussian), what factors have beyond a matrix's rank.
 */
static bool is_moot(const struct rlx_op_def *d, enum fuzz_draw draw)
{
	return d->traits & RLX_T_TIES && (draw == FUZZ_COARSE || draw == FUZZ_ALIKE);
}

static void within(struct fuzz_leaf *l, double lo, double hi)
{
	if (l) {
		l->lo = lo;
		l->hi = hi;
	}
}

/*
 * Recurrent weights whose matrix has a radius of at most 1, as uniform ones up to sqrt(3 / n)
 * do. What expands multiplies any rounding at each step: after some all results are noise,
 * and two bent inputs may both happen to bend them little. Nor may anything inside an op be
 * beyond f32 where its result is not, which the evaluator reckons in f64.
 */
static void contract(struct fuzz_case *c, const struct fuzz_node *n)
{
	const struct rlx_op_triangular_solve *t = (const void *)n->args;
	uint16_t op = n->def->index;
	struct fuzz_leaf *r = leaf_of(c, n, 2), *a = leaf_of(c, n, 0);

	if (op == RLX_OP_triangular_solve && t->unit && a) {
		double n_rows = (double)a->type.dim[a->type.rank - 1];

		within(a, -1 / (n_rows + 1), 1 / (n_rows + 1));
	}
	if (op == RLX_OP_gated_delta_net) {
		within(leaf_of(c, n, 1), -0.5, 0.5);	/* keys, decay, how much is taken */
		within(leaf_of(c, n, 3), -2, 0);
		within(leaf_of(c, n, 4), 0, 1);
	}
	if (op == RLX_OP_linear_scan)
		within(leaf_of(c, n, 0), -1, 1);
	if (op == RLX_OP_attention_grad) {		/* q and k: see draw_f32() */
		within(leaf_of(c, n, 0), -1, 1);
		within(leaf_of(c, n, 1), -1, 1);
	}
	if (op == RLX_OP_splat_project)		/* squares of e^45 and more are infinite in f32 */
		within(leaf_of(c, n, 1), -2, 2);
	if (op == RLX_OP_selective_scan) {
		within(leaf_of(c, n, 1), 0, 1);		/* steps, decay */
		within(leaf_of(c, n, 2), -2, 0);
	}
	if ((op != RLX_OP_rnn && op != RLX_OP_gru && op != RLX_OP_lstm) || !r)
		return;
	r->hi = sqrt(3.0 / (double)(r->type.dim[2] > 3 ? r->type.dim[2] : 3));
	r->lo = -r->hi;
}

/* How the data of leaves from @first on looks, and which of them are constants. */
static void dress(struct source *s, uint32_t first, uint32_t oddness)
{
	const struct fuzz_node *n = &s->c->node[s->c->n_node - 1];
	uint32_t k, all = below(s, 4);

	contract(s->c, n);
	for (k = first; k < s->c->n_leaf; k++) {
		struct fuzz_leaf *l = &s->c->leaf[k];

		l->fixed = all == 0 ? one_in(s, 2) : all == 1 ? k > first : false;
		l->draw = one_in(s, 6) ? FUZZ_COARSE : one_in(s, 12) ? FUZZ_ALIKE :
			  one_in(s, oddness) ? FUZZ_ODD : FUZZ_EVEN;
		if (is_moot(n->def, l->draw))
			l->draw = FUZZ_EVEN;
		if (l->draw == FUZZ_ODD && k - first >= fuzz_finite_from(n->def))
			l->draw = FUZZ_EVEN;
		if (el_is_int(l->type.dtype) && l->type.dtype != RLX_BOOL && one_in(s, 16))
			l->draw = FUZZ_BITS;
	}
}

static void begin(struct fuzz_case *c, struct source *s, uint64_t seed)
{
	*s = (struct source){ c, seed };
	memset(c, 0, offsetof(struct fuzz_case, leaf));
	c->seed = seed;
	c->flags = one_in(s, 8) ? RLX_COMPILE_NO_FUSE : one_in(s, 8) ? RLX_COMPILE_NO_SIMPLIFY : 0;
	c->threads = one_in(s, 8) ? 2 : 1;
}

/* Another op with leaves of its own, bent or not; false if there is no room. */
static bool next_op(struct source *s, const struct rlx_op_def *d, uint32_t most)
{
	struct fuzz_case *c = s->c;
	uint32_t first = c->n_leaf;

	if (!add_op(s, d))
		return false;
	if (!fuzz_infer(c)) {
		c->n_node--;
		c->n_leaf = first;
		return false;
	}
	bend(s, one_in(s, 8) ? 0 : below(s, most));
	return true;
}

void fuzz_draw_op(struct fuzz_case *c, uint64_t seed)
{
	struct source s;

	begin(c, &s, seed);
	while (!next_op(&s, draw_def(&s, false), 16))
		;
	fuzz_prune(c);
	dress(&s, 0, 6);
}

/* ---- graphs ---- */

/* Steep, or only kept from below as yet: see tame(). */
static bool is_wild(const struct fuzz_case *c, uint32_t k)
{
	const struct fuzz_node *n = &c->node[k];

	if (n->def->index == RLX_OP_max && n->in[0] >= FUZZ_LEAVES)
		n = &c->node[(n->in[0] - FUZZ_LEAVES) / FUZZ_OUT];
	return n->def->traits & RLX_T_STEEP;
}

/*
 * Some value of @dt that was made before node @n, or -1. Of the same shape if there is one.
 * What is steep has been tamed by other nodes, the last of which stands for it.
 */
static fuzz_ref some_value(struct source *s, const struct rlx_type *t, uint32_t n)
{
	uint32_t k, o, tries;
	fuzz_ref any = -1, r;

	for (tries = 0; n && tries < 8; tries++) {
		k = below(s, n);
		o = below(s, s->c->node[k].n_out);
		r = (fuzz_ref)(FUZZ_LEAVES + FUZZ_OUT * k + o);
		if (s->c->node[k].out[o].dtype != t->dtype || is_wild(s->c, k) ||
		    (o && s->c->node[k].def->traits & RLX_T_SENTINELS))
			continue;
		if (rlx_type_equal(&s->c->node[k].out[o], t))
			return r;
		any = r;
	}
	return any;
}

static struct fuzz_node *adapter(struct fuzz_case *c, const struct rlx_op_def *d, fuzz_ref x)
{
	struct fuzz_node *n = &c->node[c->n_node++];

	*n = (struct fuzz_node){ .def = d, .n_in = d->n_fixed, .in = { x, -1, -1 } };
	return n;
}

static void set_list(struct fuzz_node *n, const char *name, const int64_t *v, uint32_t len)
{
	uint32_t i;

	for (i = 0; i < n->def->n_field; i++)
		if (!strcmp(n->def->field[i].name, name)) {
			memcpy(n->list[i].i, v, len * sizeof(*v));
			((struct rlx_ints *)(void *)(n->args + n->def->field[i].offset))->n = len;
		}
	fuzz_bind(n);
}

static fuzz_ref last_value(const struct fuzz_case *c)
{
	return (fuzz_ref)(FUZZ_LEAVES + FUZZ_OUT * (c->n_node - 1));
}

/* @v cut, or repeated, and reshaped to @t. */
static fuzz_ref adapted(struct fuzz_case *c, fuzz_ref v, const struct rlx_type *t)
{
	int64_t have = rlx_type_count(fuzz_type(c, v)), want = rlx_type_count(t), zero = 0;
	struct fuzz_node *n;

	if (have != want) {
		n = adapter(c, rlx_op_defs[RLX_OP_reshape], v);
		set_list(n, "shape", &have, 1);
		if (have > want) {
			n = adapter(c, rlx_op_defs[RLX_OP_slice], last_value(c));
			set_list(n, "starts", &zero, 1);
			set_list(n, "ends", &want, 1);
		} else {
			n = adapter(c, rlx_op_defs[RLX_OP_pad], last_value(c));
			set_list(n, "pads", (int64_t[]){ 0, want - have }, 2);
			((struct rlx_op_pad *)(void *)n->args)->mode = RLX_PAD_WRAP;
		}
		v = last_value(c);
	}
	n = adapter(c, rlx_op_defs[RLX_OP_reshape], v);
	set_list(n, "shape", t->dim, t->rank);
	return last_value(c);
}

/* @v within the range that @l was to be drawn from. */
static fuzz_ref clipped(struct fuzz_case *c, fuzz_ref v, const struct fuzz_leaf *l)
{
	static const uint16_t op[2] = { RLX_OP_max, RLX_OP_min };
	struct fuzz_leaf x = *l;
	struct fuzz_node *n;
	uint32_t i;

	for (i = 0; i < 2 && (l->lo != 0 || l->hi != 0); i++) {
		x.lo = x.hi = i ? l->hi : l->lo;
		if (x.lo == 0)
			x.lo = x.hi = 0x1p-20;
		x.type = rlx_scalar(l->type.dtype);
		x.fixed = true;
		x.draw = FUZZ_EVEN;
		x.id = c->n_leaf;
		n = adapter(c, rlx_op_defs[op[i]], v);
		n->in[1] = (fuzz_ref)c->n_leaf;
		c->leaf[c->n_leaf++] = x;
		v = last_value(c);
	}
	return v;
}

/* Keep the last result between -8 and 8, if it is a float. */
static void tame(struct fuzz_case *c)
{
	struct fuzz_leaf l = { .type = c->node[c->n_node - 1].out[0], .lo = -8, .hi = 8 };

	if (!rlx_dtype_is_float(l.type.dtype))
		return;
	CHECK(c->n_node + 2 <= FUZZ_NODES && c->n_leaf + 2 <= FUZZ_LEAVES);
	clipped(c, last_value(c), &l);
}

/*
 * Put values in place of leaves of the last node. Values it needs are made by nodes behind
 * it, so that it has to change places with them: it is taken out and put back.
 */
static void connect(struct source *s)
{
	struct fuzz_case *c = s->c;
	struct fuzz_node *n = malloc(sizeof(*n));
	uint32_t k;

	CHECK(n);
	*n = c->node[--c->n_node];
	for (k = 0; k < n->n_in; k++) {
		struct fuzz_leaf *l = leaf_of(c, n, k);
		fuzz_ref v = l && rlx_dtype_is_float(l->type.dtype) && !one_in(s, 4) ?
			some_value(s, &l->type, c->n_node) : -1;

		/* five nodes and this one, and two that tame it */
		if (v < 0 || c->n_node + 8 > FUZZ_NODES || c->n_leaf + 4 > FUZZ_LEAVES)
			continue;
		if (!rlx_type_equal(fuzz_type(c, v), &l->type)) {
			if (!rlx_type_count(fuzz_type(c, v)) || !rlx_type_count(&l->type))
				continue;
			v = adapted(c, v, &l->type);
		}
		n->in[k] = clipped(c, v, l);
		CHECK(fuzz_infer(c));
	}
	c->node[c->n_node] = *n;
	fuzz_bind(&c->node[c->n_node++]);
	free(n);
}

/* Leaves of a pointwise op as large as some value, so that it joins a region. */
static void fit(struct source *s)
{
	struct fuzz_case *c = s->c;
	struct fuzz_node *n = &c->node[c->n_node - 1];
	const struct rlx_type *t;
	uint32_t k, i;

	if (c->n_node < 2)
		return;
	t = &c->node[below(s, c->n_node - 1)].out[0];
	for (k = 0; k < n->n_in; k++) {
		struct fuzz_leaf *l = leaf_of(c, n, k);
		enum rlx_dtype dt = l ? l->type.dtype : RLX_NODTYPE;

		if (!l)
			continue;
		l->type = *t;
		l->type.dtype = dt == RLX_F32 && rlx_dtype_is_float(t->dtype) ? t->dtype : dt;
		for (i = 0; i < t->rank && k && one_in(s, 3); i++)
			l->type.dim[i] = one_in(s, 2) ? 1 : t->dim[i];
	}
}

void fuzz_draw_graph(struct fuzz_case *c, uint64_t seed)
{
	uint32_t ops, i, first;
	struct source s;
	bool pointwise;

	begin(c, &s, seed);
	ops = 2 + below(&s, 6);
	for (i = 0; i < ops && c->n_node + 3 <= FUZZ_NODES &&
	     c->n_leaf + RLX_SAMPLE_IN + 2 < FUZZ_LEAVES; i++) {
		pointwise = i && one_in(&s, 2);
		first = c->n_leaf;
		if (!next_op(&s, draw_def(&s, pointwise), pointwise ? 1 : 6))
			continue;
		if (pointwise)
			fit(&s);
		if (!fuzz_infer(c)) {
			c->n_node--;
			c->n_leaf = first;
			continue;
		}
		dress(&s, first, UINT32_MAX);
		if (!fuzz_is_stepped(c->node[c->n_node - 1].def))
			connect(&s);
		if (c->node[c->n_node - 1].def->traits & RLX_T_STEEP)
			tame(c);
		if (one_in(&s, 6))
			c->keep |= 1u << (c->n_node - 1);
		CHECK(fuzz_infer(c));
	}
	if (!c->n_node)
		fuzz_draw_op(c, seed + 1);
	fuzz_cut_nonfinite(c);
	fuzz_prune(c);
}
