// SPDX-License-Identifier: MIT
/*
 * GEMMs of f32 become GEMMs of 8-bit integers: what was observed gives the
 * scale of the input, the weights are known and get a scale for each channel.
 */
#include <math.h>

#include "base/alloc.h"
#include "pass/pass.h"
#include "pass/quant.h"

/* Below this a scale is no use: its inverse, or the product of two, is lost. */
static const double LEAST_SCALE = 1e-18;

struct insert {
	struct rlx_rewrite		 rw;
	const struct rlx_quant_scheme	*s;
};

/* The operands of one product, in the new graph. */
struct operands {
	rlx_value	 x, x_scale, x_zp, w, w_scale;
	double		 scale;		/* of x */
	const float	*scales;	/* of w: one, or one a channel */
	int64_t		 n_scale;
};

const float *rlx_quant_floats(const struct rlx_graph *g, uint32_t v)
{
	const struct rlx_node *n = v ? rlx_node_of(g, v) : NULL;

	if (!n || n->def->index != RLX_OP_constant || g->val[v].type.dtype != RLX_F32)
		return NULL;
	return rlx_blob_data(((const struct rlx_op_constant *)n->args)->data);
}

bool rlx_quant_supports(const struct rlx_graph *g, const struct rlx_node *n)
{
	bool mm = n->def->index == RLX_OP_matmul;
	const struct rlx_type *w;
	int64_t terms;

	if (!mm && n->def->index != RLX_OP_conv)
		return false;
	w = &g->val[n->in[1]].type;
	if (!rlx_quant_floats(g, n->in[1]) || g->val[n->in[0]].type.dtype != RLX_F32 ||
	    rlx_quant_floats(g, n->in[0]) || (mm && w->rank != 2) ||
	    rlx_type_count(w) < 1 || rlx_type_count(&g->val[n->out].type) < 1)
		return false;
	terms = mm ? w->dim[0] : rlx_type_count(w) / w->dim[0];
	return terms <= RLX_QUANT_TERMS;
}

/* A constant of @g that owns @data, which may be NULL: out of memory. */
rlx_value rlx_quant_own(struct rlx_graph *g, struct rlx_type type, void *data)
{
	struct rlx_blob *b = NULL;
	rlx_value v;

	if (data)
		b = rlx_blob_new_alike("quantize", data, (size_t)rlx_type_bytes(&type));
	if (!b) {
		rlx_free(data);
		rlx_fail(&g->err, RLX_ENOMEM, "quantize: out of memory");
		return RLX_NONE;
	}
	v = rlx_constant_blob(g, type, b);
	rlx_blob_put(b);
	return v;
}

/*
 * The range of value @v. Bytes can be shared by what is only moved, so the range of
 * where it was moved from is used if that is quantised too.
 */
static struct rlx_quant_range range_of(const struct insert *q, uint32_t v)
{
	struct rlx_quant_range best = q->s->range[v];
	const struct rlx_node *n = rlx_node_of(q->rw.old, v);

	while (n->def->index == RLX_OP_reshape || n->def->index == RLX_OP_transpose ||
	       n->def->index == RLX_OP_slice) {
		const struct rlx_quant_range *r = &q->s->range[n->in[0]];

		if (r->lo <= r->hi)
			best = *r;
		n = rlx_node_of(q->rw.old, n->in[0]);
	}
	return best;
}

/* 0 is always exact. False: nothing to go by. */
static bool input_scale(const struct insert *q, uint32_t v, float *scale, int *zp)
{
	struct rlx_quant_range r = range_of(q, v);
	double lo = fmin((double)r.lo, 0), hi = fmax((double)r.hi, 0), s;

	if (!(r.lo <= r.hi))
		return false;
	s = q->s->symmetric ? fmax(-lo, hi) / 127 : (hi - lo) / 255;
	*scale = (float)s;
	if (!(s >= LEAST_SCALE) || !isfinite(*scale))
		return false;
	*zp = q->s->symmetric ? 0 : (int)rint(-lo / s);
	return true;
}

/* Quantise weights [outer, channels, inner] of @type; false: not all are finite. */
static bool weights(struct insert *q, const struct rlx_type *type, const float *w,
		    const int64_t dim[3], struct operands *o)
{
	int64_t n = rlx_type_count(type), i, c;
	struct rlx_type wt = *type;
	int8_t *bytes;
	float *s;

	for (i = 0; i < n; i++)
		if (!isfinite(w[i]))
			return false;
	o->n_scale = q->s->per_tensor ? 1 : dim[1];
	s = rlx_calloc((size_t)o->n_scale, sizeof(*s));
	bytes = rlx_aligned(64, (size_t)n);
	for (i = 0; s && i < n; i++) {
		c = o->n_scale == 1 ? 0 : i / dim[2] % dim[1];
		s[c] = fmaxf(s[c], fabsf(w[i]));
	}
	for (c = 0; s && c < o->n_scale; c++)
		s[c] = (double)s[c] / 127 >= LEAST_SCALE ? s[c] / 127 : 1;
	for (i = 0; s && bytes && i < n; i++) {
		c = o->n_scale == 1 ? 0 : i / dim[2] % dim[1];
		bytes[i] = (int8_t)fmaxf(-127, fminf(127, rintf(w[i] / s[c])));
	}
	wt.dtype = RLX_I8;
	o->w_scale = rlx_quant_own(q->rw.g, o->n_scale == 1 ? rlx_scalar(RLX_F32) :
			 rlx_type(RLX_F32, o->n_scale), s);
	o->w = rlx_quant_own(q->rw.g, wt, bytes);
	/* the constant's: equal ones that were there before take the place of @s */
	o->scales = rlx_quant_floats(q->rw.g, o->w_scale.id);
	return true;
}

/* An i32 bias in units of the sums; none if one of its @n does not fit. */
static rlx_value bias_of(struct rlx_graph *g, const float *bias, int64_t n,
			 const struct operands *o)
{
	int32_t *b;
	int64_t i;
	double v;

	if (!bias || !o->scales)
		return RLX_NONE;
	b = rlx_aligned(64, (size_t)n * sizeof(*b));
	for (i = 0; b && i < n; i++) {
		v = rint((double)bias[i] /
			 (o->scale * (double)o->scales[o->n_scale == 1 ? 0 : i]));
		if (!(fabs(v) <= RLX_QUANT_BIAS)) {
			rlx_free(b);
			return RLX_NONE;
		}
		b[i] = (int32_t)v;
	}
	return rlx_quant_own(g, rlx_type(RLX_I32, n), b);
}

static bool operands(struct insert *q, const struct rlx_node *n, struct operands *o)
{
	const struct rlx_graph *old = q->rw.old;
	const struct rlx_type *w = &old->val[n->in[1]].type;
	enum rlx_dtype to = q->s->symmetric ? RLX_I8 : RLX_U8;
	bool mm = n->def->index == RLX_OP_matmul;
	int64_t dim[3] = { 1, w->dim[0], rlx_type_count(w) / w->dim[0] };
	struct rlx_op_quantize a;
	float scale;
	int zp;

	if (mm) {
		dim[0] = w->dim[0];
		dim[1] = w->dim[1];
		dim[2] = 1;
	}
	if (!input_scale(q, n->in[0], &scale, &zp) ||
	    !weights(q, w, rlx_quant_floats(old, n->in[1]), dim, o))
		return false;
	o->scale = (double)scale;
	o->x_scale = rlx_scalar_const(q->rw.g, RLX_F32, o->scale);
	o->x_zp = rlx_scalar_const(q->rw.g, to, zp);
	a = (struct rlx_op_quantize){
		.x = rlx_rewrite_value(&q->rw, n->in[0]), .scale = o->x_scale,
		.zp = o->x_zp, .to = to,
	};
	o->x = rlx_emit_raw(q->rw.g, &rlx_op_quantize, &a, sizeof(a), n->file, n->line);
	return true;
}

static bool insert_matmul(struct insert *q, const struct rlx_node *n)
{
	struct operands o = { 0 };
	struct rlx_op_qmatmul a;

	if (!operands(q, n, &o))
		return false;
	a = (struct rlx_op_qmatmul){
		.a = o.x, .b = o.w, .a_scale = o.x_scale, .a_zp = o.x_zp,
		.b_scale = o.w_scale,
	};
	rlx_rewrite_set(&q->rw, n->out, rlx_emit_raw(q->rw.g, &rlx_op_qmatmul, &a,
						     sizeof(a), n->file, n->line));
	return true;
}

rlx_value rlx_quant_add_bias(struct rlx_rewrite *rw, const struct rlx_node *n, rlx_value y)
{
	const struct rlx_type *t = &rw->old->val[n->out].type;
	int64_t shape[RLX_MAX_RANK] = { 0 };
	rlx_value b = rlx_rewrite_value(rw, n->in[2]);
	uint32_t i;

	for (i = 0; i + 1 < t->rank; i++)
		shape[i] = i ? 1 : t->dim[1];
	b = rlx_emit(rw->g, reshape, .x = b, .shape = { shape, t->rank - 1 });
	return rlx_emit(rw->g, add, .a = y, .b = b);
}

static bool insert_conv(struct insert *q, const struct rlx_node *n)
{
	const struct rlx_op_conv *c = n->args;
	struct rlx_graph *g = q->rw.g;
	struct operands o = { 0 };
	struct rlx_op_qconv a;
	rlx_value y;

	if (!operands(q, n, &o))
		return false;
	a = (struct rlx_op_qconv){
		.x = o.x, .w = o.w, .x_scale = o.x_scale, .x_zp = o.x_zp,
		.w_scale = o.w_scale, .stride = c->stride, .pad = c->pad,
		.dilation = c->dilation, .groups = c->groups,
		.bias = bias_of(g, rlx_quant_floats(q->rw.old, n->in[2]),
				q->rw.old->val[n->out].type.dim[1], &o),
	};
	y = rlx_emit_raw(g, &rlx_op_qconv, &a, sizeof(a), n->file, n->line);
	if (n->in[2] && !a.bias.id && !g->err.status)
		y = rlx_quant_add_bias(&q->rw, n, y);	/* computed, or it does not fit */
	rlx_rewrite_set(&q->rw, n->out, y);
	return true;
}

/* A constant for each column, added to a product that nothing else reads. */
static bool insert_bias(struct insert *q, const struct rlx_node *n)
{
	const struct rlx_graph *old = q->rw.old;
	uint32_t k, i, in[9];

	for (k = 0; k < 2; k++) {
		const float *bias = rlx_quant_floats(old, n->in[1 - k]);
		const struct rlx_type *t = &old->val[n->in[1 - k]].type;
		const struct rlx_type *y = &old->val[n->out].type;
		const struct rlx_node *mm;
		struct operands o = { 0 };

		if (!bias || q->rw.uses[n->in[k]] != 1 || !t->rank ||
		    rlx_type_count(t) != y->dim[y->rank - 1] ||
		    t->dim[t->rank - 1] != y->dim[y->rank - 1] ||
		    !rlx_type_equal(&old->val[n->in[k]].type, y))
			continue;
		mm = rlx_node_of(q->rw.g, q->rw.map[n->in[k]]);
		if (mm->def->index != RLX_OP_qmatmul || mm->in[6] || mm->in[8])
			continue;
		for (i = 0; i < 9; i++)
			in[i] = mm->in[i];
		if (!rlx_quant_floats(q->rw.g, in[2]) || !rlx_quant_floats(q->rw.g, in[4]))
			continue;
		o.scale = (double)*rlx_quant_floats(q->rw.g, in[2]);
		o.scales = rlx_quant_floats(q->rw.g, in[4]);
		o.n_scale = rlx_type_count(&q->rw.g->val[in[4]].type);
		if (rlx_type_count(&q->rw.g->val[in[2]].type) != 1)
			continue;
		in[8] = bias_of(q->rw.g, bias, rlx_type_count(t), &o).id;
		if (!in[8])
			return false;
		rlx_rewrite_set(&q->rw, n->out, rlx_node_new(q->rw.g, rlx_op_qmatmul.def,
				&(struct rlx_op_qmatmul){ 0 }, in, 9, n));
		return true;
	}
	return false;
}

static bool insert_at(struct insert *q, const struct rlx_node *n)
{
	if (n->def->index == RLX_OP_add)
		return insert_bias(q, n);
	if (!rlx_quant_supports(q->rw.old, n))
		return false;
	if (n->def->index == RLX_OP_matmul)
		return q->s->matmul && insert_matmul(q, n);
	return q->s->conv && insert_conv(q, n);
}

enum rlx_status rlx_quant_insert(struct rlx_graph *g, const struct rlx_quant_scheme *s,
				 struct rlx_graph **out, struct rlx_error *err)
{
	struct insert q = { .s = s };
	enum rlx_status st = rlx_rewrite_begin(&q.rw, g, err);
	struct rlx_graph *new = NULL;
	uint32_t n;

	if (st)
		return st;
	for (n = 0; n < g->n_node && !q.rw.g->err.status; n++)
		if (q.rw.live[n] && !insert_at(&q, &g->node[n]))
			rlx_rewrite_copy(&q.rw, n);
	st = rlx_rewrite_end(&q.rw, &new);
	if (!st)
		*out = new ? new : rlx_graph_get(g);
	return st;
}

rlx_pass_fn rlx_pass_cse, rlx_pass_fold, rlx_pass_views, rlx_pass_conv_affine;

enum rlx_status rlx_quant_simplify(struct rlx_graph *g, struct rlx_graph **out,
				   struct rlx_error *err)
{
	static rlx_pass_fn *const pass[] = {
		rlx_pass_cse, rlx_pass_fold, rlx_pass_views, rlx_pass_conv_affine,
	};
	struct rlx_pass_ctx c = { .err = err };
	struct rlx_graph *cur = rlx_graph_get(g), *next;
	enum rlx_status st = RLX_OK;
	unsigned int i;

	for (i = 0; !st && i < sizeof(pass) / sizeof(pass[0]); i++) {
		next = NULL;
		st = pass[i](&c, cur, &next);
		if (!st && next) {
			rlx_graph_put(cur);
			cur = next;
		}
	}
	if (st)
		rlx_graph_put(cur);
	else
		*out = cur;
	return st;
}
