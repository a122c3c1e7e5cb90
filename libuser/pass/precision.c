// SPDX-License-Identifier: MIT
/*
 * The precision policy (enum rlx_precision). BF16, F16 and TF32 let GEMMs round their
 * operands, those of attention and convolutions (BF16 and F16) where the target gains by it,
 * and leave every tensor as written. The mixed forms also keep tensors between ops in 16 bits:
 * compute, pointwise and moving ops work in them, and so do reductions, whose kernels
 * accumulate in f32. What the target computes in f32 nevertheless, as convolutions on CPUs
 * without products of bf16, stays as it is, with what only reads that: each conversion would
 * be a pass over the tensor. Inputs, params, states and outputs keep their dtypes; integers,
 * indices and bool are never touched, nor are nodes in RLX_SCOPE_AS_WRITTEN.
 */
#include <math.h>
#include <string.h>

#include "pass/legal.h"

rlx_pass_fn rlx_pass_precision;

struct policy {
	struct rlx_rewrite	*rw;
	enum rlx_dtype		 small;		/* none: TF32 */
	bool			 all;		/* attention, too */
	int64_t			 queries;	/* attention of so many or more, too; 0: none */
	bool			 conv;		/* convolutions, too */
	uint32_t		*cast;		/* per new value: its 16-bit form, or 0 */
	uint32_t		 n_cast;
	bool			*wide;		/* per old node: it stays in f32 */
	const struct rlx_legal	*legal;
};

/* GEMMs of two f32 tensors get a compute dtype, or leave to be made of TF32. */
static bool product_only(struct policy *p, const struct rlx_node *n)
{
	const struct rlx_graph *g = p->rw->old;
	struct rlx_op_fused_matmul a = { .bias = RLX_NONE };

	if (n->def->index != RLX_OP_matmul && n->def->index != RLX_OP_fused_matmul)
		return false;
	if (g->val[n->in[0]].type.dtype != RLX_F32 || g->val[n->in[1]].type.dtype != RLX_F32)
		return false;
	if (n->def->index == RLX_OP_fused_matmul) {
		a = *(const struct rlx_op_fused_matmul *)n->args;
		a.bias = rlx_rewrite_value(p->rw, n->in[2]);
		a.residual = rlx_rewrite_value(p->rw, n->in[3]);
	}
	if (p->small)
		a.compute = p->small;
	a.tf32 = !p->small;
	a.a = rlx_rewrite_value(p->rw, n->in[0]);
	a.b = rlx_rewrite_value(p->rw, n->in[1]);
	rlx_rewrite_set(p->rw, n->out, rlx_emit_raw(p->rw->g, &rlx_op_fused_matmul, &a,
						    sizeof(a), n->file, n->line));
	return true;
}

/* Small per-channel constants of a norm or product, and a mask, stay as they are. */
static bool stays(const struct policy *p, const struct rlx_node *n, uint32_t k)
{
	const struct rlx_graph *g = p->rw->old;

	if (n->def->index == RLX_OP_attention_grad)	/* y and dy go with q, k and v */
		return k > 2 && k != 5 && k != 6;
	if (n->def->traits & (RLX_T_ELEMENTWISE | RLX_T_MOVE) ||
	    rlx_type_equal(&g->val[n->in[k]].type, &g->val[n->out].type))
		return false;	/* a residual goes with the result */
	if (n->def->index == RLX_OP_attention)
		return k > 2;
	if (n->def->index == RLX_OP_sum_squares)
		return false;
	return k >= 2 || (k && g->val[n->in[k]].type.rank <= 1);
}

/* Weights go by the million, so four at a time, as integers. */
typedef int32_t four __attribute__((vector_size(16)));

/* -1 where a number is finite, and above 65504, which is the last that f16 has. */
static inline four above_f16(const float *p)
{
	four u;

	memcpy(&u, p, sizeof(u));
	u &= INT32_MAX;
	return (four)(u > 0x477fe000) & (four)(u < 0x7f800000);
}

/* A finite constant that would round to infinity (a mask's -3.4e38). */
static bool would_overflow(const struct rlx_graph *g, uint32_t v)
{
	const struct rlx_node *n = rlx_node_of(g, v);
	const struct rlx_op_constant *c = n->args;
	const float *x;
	int64_t count, i = 0;
	four over = { 0 };

	if (n->def->index != RLX_OP_constant)
		return false;
	x = rlx_blob_data(c->data);
	count = rlx_type_count(&c->type);
	for (; i + 4 <= count; i += 4)
		over |= above_f16(x + i);
	if (over[0] | over[1] | over[2] | over[3])
		return true;
	for (; i < count; i++)
		if (isfinite(x[i]) && fabsf(x[i]) > 65504.0f)
			return true;
	return false;
}

/* The 16-bit form of a new f32 value, made once. */
static uint32_t narrowed(struct policy *p, uint32_t v)
{
	struct rlx_graph *g = p->rw->g;
	uint32_t to;

	if (!v || g->val[v].type.dtype != RLX_F32)
		return v;
	if (v < p->n_cast && p->cast[v])
		return p->cast[v];
	to = would_overflow(g, v) ? v : rlx_emit(g, cast, .x = { v }, .to = p->small).id;
	if (v < p->n_cast)
		p->cast[v] = to;
	return to;
}

/* As the graph had it: a bias or mask made by ops that now work in 16 bits. */
static uint32_t widened(struct policy *p, uint32_t v, uint32_t old)
{
	enum rlx_dtype want = p->rw->old->val[old].type.dtype;

	if (!v || p->rw->g->val[v].type.dtype == want)
		return v;
	return rlx_emit(p->rw->g, cast, .x = { v }, .to = want).id;
}

/* Are products of attention @n faster if its operands lie in 16 bits? */
static bool attention_gains(const struct policy *p, const struct rlx_node *n)
{
	const struct rlx_type *y = &p->rw->old->val[n->out].type;
	const struct rlx_op_attention *a = n->args;
	int64_t queries;

	if (p->all || !p->queries)
		return p->all;
	queries = y->dim[y->rank == 4 && a->layout == RLX_BHSD ? 2 : 1];
	return p->small == RLX_BF16 && queries >= p->queries;
}

/*
 * Likewise the products of attention, where the target multiplies in 16 bits what lies in
 * 16 bits: casts round what they read, which whatever makes it may take over.
 */
static bool attention_only(struct policy *p, const struct rlx_node *n)
{
	const struct rlx_graph *g = p->rw->old;
	struct rlx_op_attention a;
	rlx_value *in[] = { &a.q, &a.k, &a.v }, v;
	uint32_t k;

	if (n->def->index != RLX_OP_attention || !p->small || !attention_gains(p, n))
		return false;
	a = *(const struct rlx_op_attention *)n->args;
	for (k = 0; k < 3; k++) {
		if (g->val[n->in[k]].type.dtype != RLX_F32)
			return false;
		*in[k] = (rlx_value){ narrowed(p, p->rw->map[n->in[k]]) };
	}
	a.bias = rlx_rewrite_value(p->rw, n->in[3]);
	a.lens = rlx_rewrite_value(p->rw, n->in[4]);
	a.out_dtype = g->val[n->out].type.dtype;
	v = rlx_emit_raw(p->rw->g, &rlx_op_attention, &a, sizeof(a), n->file, n->line);
	for (k = 0; v.id && k < n->n_out; k++)
		rlx_rewrite_set(p->rw, n->out + k, (rlx_value){ v.id + k });
	return true;
}

/* And those of its gradient, which is y's dot product with dy besides: y stays as it is. */
static bool attention_grad_only(struct policy *p, const struct rlx_node *n)
{
	const struct rlx_graph *g = p->rw->old;
	struct rlx_op_attention_grad a;
	rlx_value *in[] = { &a.q, &a.k, &a.v, &a.bias, &a.lens, &a.y, &a.dy, &a.lse, &a.dlse }, v;
	uint32_t k;

	if (n->def->index != RLX_OP_attention_grad || !p->all || !p->small)
		return false;
	a = *(const struct rlx_op_attention_grad *)n->args;
	for (k = 0; k < sizeof(in) / sizeof(in[0]); k++) {
		bool product = k < 3 || in[k] == &a.dy;

		if (product && g->val[n->in[k]].type.dtype != RLX_F32)
			return false;
		*in[k] = rlx_rewrite_value(p->rw, n->in[k]);
		if (product)
			in[k]->id = narrowed(p, in[k]->id);
	}
	a.out_dtype = g->val[n->out].type.dtype;
	v = rlx_emit_raw(p->rw->g, &rlx_op_attention_grad, &a, sizeof(a), n->file, n->line);
	for (k = 0; v.id && k < n->n_out; k++)
		rlx_rewrite_set(p->rw, n->out + k, (rlx_value){ v.id + k });
	return true;
}

static struct rlx_op_fused_conv conv_args(const struct rlx_node *n)
{
	const struct rlx_op_conv *c = n->args;

	if (n->def->index == RLX_OP_fused_conv)
		return *(const struct rlx_op_fused_conv *)n->args;
	return (struct rlx_op_fused_conv){ .stride = c->stride, .pad = c->pad,
					   .dilation = c->dilation, .groups = c->groups };
}

/* And the products of convolutions: what is summed and added stays in f32. */
static bool conv_only(struct policy *p, const struct rlx_node *n)
{
	const struct rlx_graph *g = p->rw->old;
	struct rlx_node as = *n;
	struct rlx_op_fused_conv a;
	uint32_t in[4] = { 0 }, k;

	if ((n->def->index != RLX_OP_conv && n->def->index != RLX_OP_fused_conv) || !p->conv ||
	    !p->small)
		return false;
	for (k = 0; k < n->n_in; k++) {
		in[k] = n->in[k];
		if (in[k] && g->val[in[k]].type.dtype != RLX_F32)
			return false;
	}
	a = conv_args(n);
	a.out_dtype = RLX_F32;
	as.def = rlx_op_defs[RLX_OP_fused_conv];
	as.in = in;
	as.n_in = 4;
	if (would_overflow(g, in[0]) || would_overflow(g, in[1]) ||
	    !rlx_legal_as(p->legal, &as, &a, (enum rlx_dtype[RLX_LEGAL_INPUTS]){ p->small,
										 p->small }))
		return false;
	a.x = (rlx_value){ narrowed(p, p->rw->map[in[0]]) };
	a.w = (rlx_value){ narrowed(p, p->rw->map[in[1]]) };
	a.bias = rlx_rewrite_value(p->rw, in[2]);
	a.residual = rlx_rewrite_value(p->rw, in[3]);
	rlx_rewrite_set(p->rw, n->out, rlx_emit_raw(p->rw->g, &rlx_op_fused_conv, &a, sizeof(a),
						    n->file, n->line));
	return true;
}

/* Is node @idx computed in f32 in any case, or does it read f32 of such alone? */
static bool stays_wide(const struct policy *p, uint32_t idx)
{
	const struct rlx_graph *g = p->rw->old;
	enum rlx_dtype to[RLX_LEGAL_INPUTS] = { 0 };
	const struct rlx_node *n = &g->node[idx];
	bool any = false;
	uint32_t k, v;

	for (k = 0; n->def->traits & RLX_T_COMPUTE && k < n->n_in && k < RLX_LEGAL_INPUTS; k++)
		if (n->in[k] && g->val[n->in[k]].type.dtype == RLX_F32 && !stays(p, n, k))
			to[k] = p->small;
	if (n->def->traits & RLX_T_COMPUTE)
		return !rlx_legal_as(p->legal, n, NULL, to);
	for (k = 0; k < n->n_in; k++) {
		v = n->in[k];
		if (!v || g->val[v].type.dtype != RLX_F32)
			continue;
		if (p->rw->g->val[p->rw->map[v]].type.dtype == p->small)
			return false;
		any |= p->wide[g->val[v].node];
	}
	return any;
}

static void mixed(struct policy *p, uint32_t idx)
{
	struct rlx_rewrite *rw = p->rw;
	const struct rlx_node *n = &rw->old->node[idx];
	uint32_t in[16], k, i, from;
	rlx_value v;

	p->wide[idx] = !(n->def->traits & RLX_T_LEAF) && stays_wide(p, idx);
	if (n->n_in > 16 || n->def->traits & RLX_T_LEAF || rlx_keeps_dtypes(n->def) ||
	    p->wide[idx] || n->scope & RLX_SCOPE_AS_WRITTEN) {
		/* these want what they were written for */
		for (k = 0; k < n->n_in; k++) {
			uint32_t old = n->in[k];
			enum rlx_dtype want = rw->old->val[old].type.dtype;

			from = rw->map[old];
			if (old && rw->g->val[from].type.dtype != want &&
			    !(n->def->traits & RLX_T_WIDENS))
				rw->map[old] = rlx_emit(rw->g, cast, .x = { from }, .to = want).id;
		}
		rlx_rewrite_copy(rw, idx);
		return;
	}
	for (k = 0; k < n->n_in; k++) {
		from = rw->map[n->in[k]];
		in[k] = stays(p, n, k) ? widened(p, from, n->in[k]) : narrowed(p, from);
	}
	v = rw->g->err.status ? RLX_NONE :
	    rlx_node_new(rw->g, n->def, n->args, in, n->n_in, n);
	for (i = 0; v.id && i < n->n_out; i++)
		rlx_rewrite_set(rw, n->out + i, (rlx_value){ v.id + i });
}

static bool operands_only(struct policy *p, const struct rlx_node *n)
{
	return product_only(p, n) || attention_only(p, n) || attention_grad_only(p, n) ||
	       conv_only(p, n);
}

static void restore_outputs(struct rlx_rewrite *rw)
{
	const struct rlx_named_list *l = &rw->old->io[RLX_IO_OUTPUT];
	uint32_t i;

	for (i = 0; i < l->n && !rw->g->err.status; i++) {
		uint32_t v = l->e[i].v.id;

		if (rw->g->val[rw->map[v]].type.dtype != rw->old->val[v].type.dtype)
			rw->map[v] = rlx_emit(rw->g, cast, .x = { rw->map[v] },
					      .to = rw->old->val[v].type.dtype).id;
	}
}

enum rlx_status rlx_pass_precision(struct rlx_pass_ctx *c, struct rlx_graph *g,
				   struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	struct rlx_legal legal;
	struct policy p = { .rw = &rw, .small = RLX_BF16, .all = c->target.mma16,
			    .queries = c->target.attention16,
			    .legal = &legal };
	bool mix = c->precision == RLX_PRECISION_MIXED_BF16 ||
		   c->precision == RLX_PRECISION_MIXED_F16;
	enum rlx_status st;
	uint32_t n;

	if (c->precision == RLX_PRECISION_AS_WRITTEN)
		return RLX_OK;
	if (c->precision == RLX_PRECISION_F16 || c->precision == RLX_PRECISION_MIXED_F16)
		p.small = RLX_F16;
	if (c->precision == RLX_PRECISION_TF32)
		p.small = 0;
	p.conv = p.all || c->target.widen;	/* a target that widens what it has not is asked */
	if (p.small == RLX_F16 && c->target.fuse && !c->target.f16)
		return rlx_fail(c->err, RLX_ENOSUP,
				"precision f16: this device has no f16 GEMM; bf16 is what it has");
	st = rlx_legal_begin(&legal, c, g);
	if (!st)
		st = rlx_rewrite_begin(&rw, g, c->err);
	if (st) {
		rlx_legal_end(&legal);
		return st;
	}
	/* values of the new graph: at most the old ones and a cast for each input */
	p.n_cast = g->n_val * 4 + 64;
	p.cast = rlx_bump_new(&rw.g->bump, p.n_cast, sizeof(*p.cast));
	p.wide = rlx_bump_new(&rw.g->bump, g->n_node, sizeof(*p.wide));
	if (!p.cast || !p.wide)
		rlx_fail(&rw.g->err, RLX_ENOMEM, "precision: out of memory");
	for (n = 0; n < g->n_node && !rw.g->err.status; n++) {
		if (!rlx_rewrite_live(&rw, n))
			continue;
		if (mix)
			mixed(&p, n);
		else if (g->node[n].scope & RLX_SCOPE_AS_WRITTEN || !operands_only(&p, &g->node[n]))
			rlx_rewrite_copy(&rw, n);
	}
	if (!rw.g->err.status)
		restore_outputs(&rw);
	rlx_legal_end(&legal);
	return rlx_rewrite_end(&rw, out);
}
