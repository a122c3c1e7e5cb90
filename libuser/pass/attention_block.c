// SPDX-License-Identifier: MIT
/*
 * Attention blocks (projections, attention, projection) and the layers around them, which the
 * report counts. A block whose queries, keys and values are columns of one projection has them
 * copied out of it: with constant weights it gets three products, each of which writes what
 * attention reads, in one launch where a device has that.
 */
#include "base/alloc.h"
#include "ops/slice_axis.h"
#include "pass/pass.h"

rlx_pass_fn rlx_pass_attention_block;

/* A node that reads a value, and the next one that does; 0: none. */
struct reader {
	uint32_t	node, next;
};

struct find {
	const struct rlx_graph	*g;
	struct rlx_rewrite	*rw;
	struct reader		*reader;
	uint32_t		*first;		/* per value: of its readers; 0: none */
	bool			*split;		/* per value: of a projection that is taken apart */
	unsigned int		 blocks, pre, post, n_split;
};

static bool is_gemm(const struct rlx_node *n)
{
	unsigned int op = n->def->index;

	return op == RLX_OP_matmul || op == RLX_OP_fused_matmul || op == RLX_OP_lora_matmul ||
	       op == RLX_OP_fused_norm_matmul || op == RLX_OP_dequant_matmul;
}

static bool is_norm(const struct rlx_node *n)
{
	return n->def->index == RLX_OP_layer_norm || n->def->index == RLX_OP_rms_norm;
}

/* Elements in another order or dtype. */
static bool moves(const struct rlx_node *n)
{
	unsigned int op = n->def->index;

	return op == RLX_OP_reshape || op == RLX_OP_transpose || op == RLX_OP_cast;
}

/* The product that queries, keys or values @v are of; NULL: none. A slice before it: *@part. */
static const struct rlx_node *projection(const struct find *f, uint32_t v,
					 const struct rlx_node **part)
{
	const struct rlx_node *n = rlx_node_of(f->g, v);

	*part = NULL;
	while (moves(n) || n->def->index == RLX_OP_rope || n->def->index == RLX_OP_rms_norm ||
	       n->def->index == RLX_OP_add || n->def->index == RLX_OP_slice) {
		if (n->def->index == RLX_OP_add && f->g->val[n->in[1]].type.rank > 1)
			return NULL;	/* no bias */
		*part = n->def->index == RLX_OP_slice ? n : NULL;
		n = rlx_node_of(f->g, n->in[0]);
	}
	return is_gemm(n) ? n : NULL;
}

/* False: out of memory. */
static bool find_readers(struct find *f)
{
	const struct rlx_graph *g = f->g;
	uint32_t i, k, n = 0;

	for (i = 0; i < g->n_node; i++)
		n += g->node[i].n_in;
	f->first = rlx_calloc(g->n_val, sizeof(*f->first));
	f->reader = rlx_calloc((size_t)n + 1, sizeof(*f->reader));
	if (!f->first || !f->reader)
		return false;
	for (n = 0, i = g->n_node; i-- > 0;)
		for (k = 0; f->rw->live[i] && k < g->node[i].n_in; k++) {
			uint32_t *first = &f->first[g->node[i].in[k]];

			f->reader[++n] = (struct reader){ i, *first };
			*first = n;
		}
	return true;
}

/* The one node that reads @v; NULL: none, or several. */
static const struct rlx_node *sole_reader(const struct find *f, uint32_t v)
{
	uint32_t r = f->first[v];

	return f->rw->uses[v] == 1 && r ? &f->g->node[f->reader[r].node] : NULL;
}

/* The product that reads @v alone, behind what is pointwise (@deep) or moves it; NULL: none. */
static const struct rlx_node *next_gemm(const struct find *f, uint32_t v, bool deep)
{
	const struct rlx_node *n = sole_reader(f, v);
	unsigned int i;

	for (i = 0; n && i < 6 && !is_gemm(n); i++) {
		if (!moves(n) && !(deep && (n->def->traits & RLX_T_ELEMENTWISE ||
					    n->def->index == RLX_OP_fused_swiglu)))
			return NULL;
		v = n->out;
		n = sole_reader(f, v);
	}
	return n && is_gemm(n) && n->in[0] == v ? n : NULL;
}

/* What a product's result and a residual make, and the norm of it, if one reads it. */
struct sum {
	uint32_t	residual, sum, norm;
};

static struct sum sum_of(const struct find *f, const struct rlx_node *gemm)
{
	struct sum s = { .sum = gemm->out };
	const struct rlx_node *n = sole_reader(f, gemm->out);
	uint32_t r;

	if (n && n->def->index == RLX_OP_add && f->g->val[n->in[1]].type.rank == 1) {
		s.sum = n->out;		/* a bias */
		n = sole_reader(f, n->out);
	}
	if (gemm->def->index == RLX_OP_fused_matmul && gemm->in[3]) {
		s.residual = gemm->in[3];
	} else if (n && n->def->index == RLX_OP_add) {
		s.residual = n->in[n->in[0] == s.sum];
		s.sum = n->out;
	} else if (n && n->def->index == RLX_OP_fused_residual_norm) {
		s.residual = n->in[n->in[0] == s.sum];
		s.norm = n->out;
		s.sum = n->out + 1;
	}
	for (r = f->first[s.sum]; r && !s.norm; r = f->reader[r].next) {
		n = &f->g->node[f->reader[r].node];
		if (is_norm(n) && n->in[0] == s.sum)
			s.norm = n->out;
	}
	return s;
}

/* The network behind a block whose result is @a, and with it the layer. */
static void find_layer(struct find *f, const struct sum *a, uint32_t x)
{
	uint32_t from = a->norm ? a->norm : a->sum, r;

	if (!a->residual)
		return;
	for (r = f->first[from]; r; r = f->reader[r].next) {
		const struct rlx_node *n = &f->g->node[f->reader[r].node], *down;
		struct sum b;

		if (!is_gemm(n) || n->in[0] != from)
			continue;
		down = next_gemm(f, n->out, true);
		if (!down)
			continue;
		b = sum_of(f, down);
		if (b.residual == a->norm && b.norm && a->residual == x)
			f->post++;
		else if (b.residual == a->sum && a->residual != x)
			f->pre++;
		else
			continue;
		return;
	}
}

/* Is @n a slice of some columns of a product's result, all else being whole? */
static bool takes_columns(const struct find *f, const struct rlx_node *n, struct op_slice_axis *out)
{
	const struct rlx_type *x = &f->g->val[n->in[0]].type, *y = &f->g->val[n->out].type;
	struct op_slice_axis axes[RLX_MAX_RANK];
	uint32_t i, last = x->rank - 1;

	op_slice_axes(n->args, x, axes);
	for (i = 0; i < last; i++)
		if (x->dim[i] != y->dim[i] || (axes[i].step != 1 && x->dim[i] > 1))
			return false;
	*out = axes[last];
	return axes[last].step == 1 && axes[last].n > 0;
}

/*
 * May the product @n be taken apart into those columns that @part are, and nothing else reads?
 * Of one row they are columns that lie there already, without a copy.
 */
static bool comes_apart(const struct find *f, const struct rlx_node *n,
			const struct rlx_node *const part[3])
{
	const struct rlx_graph *g = f->g;
	struct op_slice_axis c[3] = { 0 };
	const struct rlx_type *y = &g->val[n->out].type;
	uint32_t i, k;

	if ((n->def->index != RLX_OP_matmul && n->def->index != RLX_OP_fused_matmul) ||
	    !rlx_dtype_is_float(g->val[n->in[0]].type.dtype) ||
	    !rlx_dtype_is_float(g->val[n->in[1]].type.dtype) ||
	    y->dim[y->rank - 1] == rlx_type_count(y) || f->rw->uses[n->out] != 3 ||
	    rlx_node_of(g, n->in[1])->def->index != RLX_OP_constant ||
	    g->val[n->in[1]].type.rank != 2 ||
	    (n->def->index == RLX_OP_fused_matmul && n->in[3]))
		return false;
	for (i = 0; i < 3; i++) {
		if (!takes_columns(f, part[i], &c[i]))
			return false;
		for (k = 0; k < i; k++)
			if (c[k].start < c[i].start + c[i].n && c[i].start < c[k].start + c[k].n)
				return false;
	}
	return true;
}

static void find_block(struct find *f, const struct rlx_node *n)
{
	bool cached = n->def->index == RLX_OP_cached_attention;
	const struct rlx_node *p[3], *part[3], *out;
	struct sum s;
	uint32_t i;

	for (i = 0; i < 3; i++) {
		p[i] = projection(f, n->in[cached ? 1 : i], &part[i]);
		if (!p[i] || p[i]->in[0] != p[0]->in[0])
			return;
	}
	out = next_gemm(f, n->out + cached, false);
	if (!out)
		return;
	f->blocks++;
	s = sum_of(f, out);
	find_layer(f, &s, p[0]->def->index == RLX_OP_fused_norm_matmul ? 0 : p[0]->in[0]);
	if (!cached && part[0] && part[1] && part[2] && part[0]->in[0] == p[0]->out &&
	    part[1]->in[0] == p[0]->out && part[2]->in[0] == p[0]->out &&
	    comes_apart(f, p[0], part)) {
		f->n_split += !f->split[p[0]->out];	/* others may read its parts too */
		f->split[p[0]->out] = true;
	}
}

/* ---- taking apart ---- */

/* Rows of a constant as they lie. */
static rlx_value rows(struct rlx_graph *g, const struct rlx_op_constant *c,
		      const struct op_slice_axis *a)
{
	size_t row = (size_t)(rlx_type_bytes(&c->type) / c->type.dim[0]);
	struct rlx_type t = c->type;
	struct rlx_blob *blob;
	rlx_value v;

	t.dim[0] = a->n;
	blob = rlx_blob_part(c->data, row * (size_t)a->start, row * (size_t)a->n);
	if (!blob) {
		rlx_fail(&g->err, RLX_ENOMEM, "attention block: out of memory");
		return RLX_NONE;
	}
	v = rlx_constant_blob(g, t, blob);
	rlx_blob_put(blob);
	return v;
}

static rlx_value along(struct rlx_graph *g, rlx_value x, int64_t axis,
		       const struct op_slice_axis *a)
{
	return rlx_emit(g, slice, .x = x, .axes = RLX_INTS(axis), .starts = RLX_INTS(a->start),
			.ends = RLX_INTS(a->start + a->n));
}

/* The columns of product @n that slice @s takes. */
static void emit_part(const struct find *f, const struct rlx_node *n, const struct rlx_node *s)
{
	struct rlx_op_fused_matmul a = { 0 };
	struct rlx_rewrite *rw = f->rw;
	struct op_slice_axis c = { 0 };
	rlx_value v;

	takes_columns(f, s, &c);
	if (n->def->index == RLX_OP_fused_matmul)
		a = *(const struct rlx_op_fused_matmul *)n->args;
	else
		a.alpha = 1;
	a.a = rlx_rewrite_value(rw, n->in[0]);
	v = rlx_rewrite_value(rw, n->in[1]);
	a.b = a.trans_b ? rows(rw->g, rlx_node_of(f->g, n->in[1])->args, &c) :
	      along(rw->g, v, 1, &c);
	if (n->def->index == RLX_OP_fused_matmul && n->in[2]) {
		a.bias = rlx_rewrite_value(rw, n->in[2]);
		if (f->g->val[n->in[2]].type.dim[0] > 1)
			a.bias = along(rw->g, a.bias, 0, &c);
	}
	v = rlx_emit_raw(rw->g, &rlx_op_fused_matmul, &a, sizeof(a), n->file, n->line);
	rlx_rewrite_set(rw, s->out, v);
}

static void emit_all(struct find *f)
{
	const struct rlx_graph *g = f->g;
	uint32_t i;

	for (i = 0; i < g->n_node; i++) {
		const struct rlx_node *n = &g->node[i];

		if (!rlx_rewrite_live(f->rw, i) || f->split[n->out])
			continue;
		if (n->n_in && n->in[0] && f->split[n->in[0]])
			emit_part(f, rlx_node_of(g, n->in[0]), n);
		else
			rlx_rewrite_copy(f->rw, i);
	}
}

static void report(const struct find *f, FILE *out)
{
	if (!out || !f->blocks)
		return;
	fprintf(out, "found %u attention blocks, %u of them in post-norm and %u in pre-norm "
		"layers\n", f->blocks, f->post, f->pre);
	if (f->n_split)
		fprintf(out, "made of %u projections those of queries, keys and values\n",
			f->n_split);
}

enum rlx_status rlx_pass_attention_block(struct rlx_pass_ctx *c, struct rlx_graph *g,
					 struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	struct find f = { .g = g, .rw = &rw };
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);
	uint32_t i;

	if (st)
		return st;
	f.split = rlx_calloc(g->n_val, sizeof(*f.split));
	if (!f.split || !find_readers(&f))
		rlx_fail(&rw.g->err, RLX_ENOMEM, "attention block: out of memory");
	for (i = 0; !rw.g->err.status && i < g->n_node; i++)
		if (rw.live[i] && (g->node[i].def->index == RLX_OP_attention ||
				   g->node[i].def->index == RLX_OP_cached_attention))
			find_block(&f, &g->node[i]);
	if (!rw.g->err.status)
		emit_all(&f);
	report(&f, c->report);
	rlx_free(f.first);
	rlx_free(f.reader);
	rlx_free(f.split);
	return rlx_rewrite_end(&rw, out);
}
