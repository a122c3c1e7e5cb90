// SPDX-License-Identifier: MIT
/*
 * Weights that alone are quantized: a product of floats and a dequantized constant becomes one
 * that reads its bytes, or where they have but 4 bits, half of them.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/shape.h"
#include "ir/element.h"
#include "ops/emit.h"
#include "pass/quant.h"

/* A constant weight [k, n] by @rows of scales of columns, each of @block of the k. */
struct weight {
	const struct rlx_node	*dequantize;
	struct rlx_tensor	 q;
	struct rlx_blob		*of;		/* that holds it */
	int64_t			 k, n, rows, block;
	bool			 few;		/* bits: 4 hold all */
};

static bool is_constant(const struct rlx_graph *g, uint32_t v)
{
	return !v || rlx_node_of(g, v)->def->index == RLX_OP_constant;
}

/* Scales for all, of columns, or of columns in blocks of k. */
static bool scales_of(const struct rlx_graph *g, struct weight *w)
{
	const struct rlx_op_dequantize *d = w->dequantize->args;
	const struct rlx_type *s = &g->val[w->dequantize->in[1]].type;
	uint32_t axis = shape_axis(d->axis, 2);

	w->rows = 1;
	w->block = 0;
	if (d->block && axis == 0) {
		w->block = d->block;
		w->rows = s->dim[0];
		return true;
	}
	return !d->block && (rlx_type_count(s) == 1 || (axis == 1 && rlx_type_count(s) == w->n));
}

static bool fits_4_bits(const struct weight *w)
{
	int64_t lo = w->q.type.dtype == RLX_I8 ? -8 : 0, i, v;

	for (i = 0; i < w->k * w->n; i++) {
		v = el_geti(&w->q, i);
		if (v < lo || v > lo + 15)
			return false;
	}
	return true;
}

static bool weight_of(const struct rlx_graph *g, uint32_t v, struct weight *w)
{
	const struct rlx_node *n = rlx_node_of(g, v);
	const struct rlx_op_constant *c;
	const struct rlx_type *t;

	if (n->def->index != RLX_OP_dequantize || g->val[v].type.dtype != RLX_F32 ||
	    g->val[v].type.rank != 2 || !is_constant(g, n->in[0]) || !is_constant(g, n->in[1]) ||
	    !is_constant(g, n->in[2]))
		return false;
	c = rlx_node_of(g, n->in[0])->args;
	t = &c->type;
	if ((t->dtype != RLX_I8 && t->dtype != RLX_U8) || !rlx_type_count(t))
		return false;
	*w = (struct weight){
		.dequantize = n, .k = t->dim[0], .n = t->dim[1],
		.q = { *t, (void *)(uintptr_t)rlx_blob_data(c->data) }, .of = c->data,
	};
	if (!scales_of(g, w))
		return false;
	w->few = fits_4_bits(w);
	return true;
}

/* Unsigned bytes less 128, or 4 bits each. */
static void fill(uint8_t *p, int64_t bytes, const struct weight *w)
{
	int64_t i;

	memset(p, 0, (size_t)bytes);
	for (i = 0; i < w->k * w->n; i++) {
		uint8_t q = (uint8_t)el_geti(&w->q, i);

		if (w->few)
			p[i / 2] |= (uint8_t)((q & 15) << (i % 2 * 4));
		else
			p[i] = w->q.type.dtype == RLX_U8 ? q ^ 128 : q;
	}
}

/* The weight as dequant_matmul has it; one for all programs that read the same bytes. */
static rlx_value pack(struct rlx_graph *g, const struct weight *w)
{
	int64_t count = w->k * w->n, bytes = w->few ? (count + 1) / 2 : count;
	struct { char who[16]; struct rlx_blob *of; int64_t count, dtype; } key;
	struct rlx_blob *b;
	uint8_t *p;
	rlx_value v;

	memset(&key, 0, sizeof(key));
	memcpy(key.who, "packed weight", 13);
	key.of = w->of;
	key.count = count;
	key.dtype = w->q.type.dtype;
	b = rlx_blob_shared(&key, sizeof(key));
	if (!b) {
		p = rlx_aligned(64, (size_t)bytes);
		if (p)
			fill(p, bytes, w);
		b = p ? rlx_blob_new_shared(&key, sizeof(key), p, (size_t)bytes, &w->of, 1) : NULL;
		if (!b)
			rlx_free(p);
	}
	if (!b) {
		rlx_fail(&g->err, RLX_ENOMEM, "dequant_matmul: out of memory");
		return RLX_NONE;
	}
	v = rlx_constant_blob(g, rlx_type(RLX_U8, bytes), b);
	rlx_blob_put(b);
	return v;
}

/* Scales or zero points as [rows, n]. */
static rlx_value of_columns(struct rlx_graph *g, rlx_value v, const struct weight *w)
{
	struct rlx_type t = op_type(g, v);
	int64_t count = rlx_type_count(&t);
	const int64_t one[2] = { 1, count == 1 ? 1 : w->n };

	if (t.rank == 2)
		return v;
	v = op_reshape(g, v, one, 2);
	return count == w->rows * w->n ? v :
	       rlx_emit(g, expand, .x = v, .shape = RLX_INTS(w->rows, w->n));
}

bool rlx_quant_packed_weight(struct rlx_rewrite *rw, const struct rlx_node *n)
{
	bool is_signed;
	struct rlx_op_dequant_matmul a;
	rlx_value zp = RLX_NONE;
	struct weight w;

	if (rw->old->val[n->in[0]].type.dtype != RLX_F32 ||
	    rw->old->val[n->in[0]].type.rank < 2 || !weight_of(rw->old, n->in[1], &w))
		return false;
	is_signed = w.q.type.dtype == RLX_I8;
	if (w.dequantize->in[2])
		zp = op_cast(rw->g, rlx_rewrite_value(rw, w.dequantize->in[2]), RLX_I32);
	else if (!is_signed && !w.few)
		zp = rlx_scalar_const(rw->g, RLX_I32, 0);
	if (!is_signed && !w.few)	/* as the bytes */
		zp = op_add_const(rw->g, zp, -128);
	a = (struct rlx_op_dequant_matmul){
		.x = rlx_rewrite_value(rw, n->in[0]), .w = pack(rw->g, &w), .n = w.n,
		.block = w.block,
		.scale = of_columns(rw->g, rlx_rewrite_value(rw, w.dequantize->in[1]), &w),
		.zp = zp.id ? of_columns(rw->g, zp, &w) : zp,
		.scheme = !w.few ? zp.id ? RLX_SCHEME_INT8_BLOCK_ASYM : RLX_SCHEME_INT8_BLOCK :
			  is_signed ? RLX_SCHEME_INT4_BLOCK : RLX_SCHEME_UINT4_BLOCK,
	};
	rlx_rewrite_set(rw, n->out, rlx_emit_raw(rw->g, &rlx_op_dequant_matmul, &a, sizeof(a),
						 n->file, n->line));
	return true;
}
