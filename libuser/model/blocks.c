// SPDX-License-Identifier: MIT
/* Blocks of models, as ops. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/act.h"
#include "rlx/blocks.h"
#include "rlx/dims.h"

/* Which block is built, the part that its next op is of, and for whom. */
struct block {
	struct rlx_graph	*g;
	const char		*name, *part;
	const char		*file;
	unsigned int		 line;
};

#define BEGIN(name) { g, name, NULL, file, line }

#define EMIT(b, op, ...)						\
	RLX_OVERRIDE(rlx_emit_raw((b)->g, &rlx_op_##op,			\
		&(struct rlx_op_##op){ RLX_INIT_##op __VA_ARGS__ },	\
		sizeof(struct rlx_op_##op), (b)->file, (b)->line))

static bool failed(const struct block *b)
{
	return rlx_graph_error(b->g)->status != RLX_OK;
}

/* What is emitted next is of @part; a failure stays with that which it was of. */
static void enter(struct block *b, const char *part)
{
	if (!failed(b))
		b->part = part;
}

static rlx_value refuse(struct block *b, const char *what)
{
	if (b->g && !failed(b))
		rlx_error_set(&b->g->err, RLX_EINVAL, b->file, b->line, "%s", what);
	return RLX_NONE;
}

/* The caller's struct as this library knows it; false, with an error, if there is none. */
static bool take(struct block *b, void *to, size_t size, const void *from)
{
	size_t n = from ? *(const size_t *)from : 0;

	memset(to, 0, size);
	if (!b->g || failed(b))
		return false;
	if (n < sizeof(n)) {
		refuse(b, "its struct is NULL, or has no size: it is sizeof of it");
		return false;
	}
	memcpy(to, from, n < size ? n : size);
	return true;
}

/* What failed was this block's, its caller having begun without an error. */
static rlx_value end(struct block *b, rlx_value y)
{
	struct rlx_error *e = b->g ? &b->g->err : NULL;
	char text[sizeof(e->text)];

	if (!e || !e->status)
		return y;
	snprintf(text, sizeof(text), "%s block%s%s: %.400s", b->name, b->part ? ", " : "",
		 b->part ? b->part : "", e->text);
	memcpy(e->text, text, sizeof(text));
	return RLX_NONE;
}

/* ---- linear ---- */

/* Weights of @part come next; false, with an error, if they are none. */
static bool enter_weights(struct block *b, const struct rlx_linear *w, const char *part)
{
	enter(b, part);
	if (!w->w.id)
		refuse(b, "a weight is missing");
	else if (w->in_out && op_type(b->g, w->w).dtype == RLX_U8)
		refuse(b, "in_out goes with floats: blocks of a scheme lie along k");
	else if ((uint32_t)w->act >= RLX_ACT_COUNT || w->act == RLX_ACT_CLIP ||
		 w->act == RLX_ACT_HARD_SIGMOID)
		refuse(b, "act is none of enum rlx_act, or has bounds");
	return !failed(b);
}

static rlx_value linear(struct block *b, rlx_value x, const struct rlx_linear *w,
			rlx_value residual, const char *part)
{
	struct rlx_type t = op_type(b->g, w->w);

	if (!enter_weights(b, w, part))
		return RLX_NONE;
	if (t.dtype != RLX_U8)
		return EMIT(b, fused_matmul, .a = x, .b = w->w, .bias = w->bias,
			    .residual = residual, .trans_b = !w->in_out, .act = w->act);
	x = EMIT(b, dequant_matmul, .x = x, .w = w->w, .scheme = w->scheme, .n = t.dim[0]);
	if (w->bias.id)
		x = EMIT(b, add, .a = x, .b = w->bias);
	if (residual.id)
		x = EMIT(b, add, .a = x, .b = residual);
	return op_act_emit(b->g, x, w->act, 0, 0);
}

rlx_value rlx_block_linear_at(struct rlx_graph *g, rlx_value x, const struct rlx_linear *w,
			      rlx_value residual, const char *file, unsigned int line)
{
	struct block b = BEGIN("linear");

	if (!g || failed(&b))
		return RLX_NONE;
	return end(&b, w ? linear(&b, x, w, residual, NULL) : refuse(&b, "its struct is NULL"));
}

/* ---- norms ---- */

static rlx_value norm(struct block *b, rlx_value x, const struct rlx_norm *n, const char *part)
{
	if (failed(b))
		return RLX_NONE;
	enter(b, part);
	if ((unsigned int)n->kind > RLX_NORM_RMS)
		return refuse(b, "kind is none of enum rlx_norm_kind");
	if (n->kind == RLX_NORM_RMS)
		return EMIT(b, rms_norm, .x = x, .gamma = n->gamma, .beta = n->beta, .axis = -1,
			    .eps = n->eps);
	return EMIT(b, layer_norm, .x = x, .gamma = n->gamma, .beta = n->beta, .axis = -1,
		    .eps = n->eps);
}

rlx_value rlx_block_norm_at(struct rlx_graph *g, rlx_value x, const struct rlx_norm *n,
			    rlx_value residual, const char *file, unsigned int line)
{
	struct block b = BEGIN("norm");

	if (!g || failed(&b))
		return RLX_NONE;
	if (residual.id)
		x = EMIT(&b, add, .a = x, .b = residual);
	return end(&b, n ? norm(&b, x, n, NULL) : refuse(&b, "its struct is NULL"));
}

/* ---- attention ---- */

static void fill_tables(const struct rlx_rope_tables *r, float *cosines, float *sines)
{
	int64_t half = r->n_rot / 2, i;

	for (i = 0; i < r->positions * half; i++) {
		double f = pow(r->base ? r->base : 10000, -2.0 * (double)(i % half) /
			       (double)r->n_rot) * (r->scale ? r->scale : 1);

		if (r->factors)
			f /= (double)r->factors[i % half];
		cosines[i] = (float)cos((double)(i / half) * f);
		sines[i] = (float)sin((double)(i / half) * f);
	}
}

void rlx_block_rope_tables_at(struct rlx_graph *g, const struct rlx_rope_tables *tables,
			      rlx_value *cosines, rlx_value *sines, const char *file,
			      unsigned int line)
{
	struct block b = BEGIN("rope tables");
	struct rlx_rope_tables r;
	struct rlx_type type;
	float *t;

	if (cosines)
		*cosines = RLX_NONE;
	if (sines)
		*sines = RLX_NONE;
	if (!g || failed(&b))
		return;
	if (!take(&b, &r, sizeof(r), tables) || !cosines || !sines || r.positions < 0 ||
	    r.n_rot < 2 || r.n_rot % 2 || !(r.base >= 0) || !(r.scale >= 0) ||
	    r.positions > INT32_MAX || r.n_rot > INT32_MAX) {
		refuse(&b, "positions are from 0 on, n_rot is even and at least 2, base "
		       "and scale are not below 0, and cos and sin have a place");
		end(&b, RLX_NONE);
		return;
	}
	type = rlx_type(RLX_F32, r.positions, r.n_rot / 2);
	t = rlx_calloc((size_t)rlx_type_count(&type) * 2 + 1, sizeof(*t));
	if (!t) {
		rlx_error_set(&g->err, RLX_ENOMEM, file, line, "out of memory");
		end(&b, RLX_NONE);
		return;
	}
	fill_tables(&r, t, t + rlx_type_count(&type));
	*cosines = rlx_constant_at(g, type, t, file, line);
	*sines = rlx_constant_at(g, type, t + rlx_type_count(&type), file, line);
	rlx_free(t);
}

/* Columns @from to @to of x. */
static rlx_value columns(struct block *b, rlx_value x, int64_t from, int64_t to)
{
	return EMIT(b, slice, .x = x, .axes = RLX_INTS(-1), .starts = RLX_INTS(from),
		    .ends = RLX_INTS(to));
}

/* x[.., heads width] as [batch, sequence, heads, width]. */
static rlx_value in_heads(struct block *b, rlx_value x, int64_t heads)
{
	struct rlx_type t = op_type(b->g, x);

	if (failed(b))
		return RLX_NONE;
	if (t.rank != 3 || t.dim[2] % heads)
		return refuse(b, "x is not [batch, sequence, width], or a weight's rows are no "
			      "multiple of the heads");
	return EMIT(b, reshape, .x = x,
		    .shape = RLX_INTS(t.dim[0], t.dim[1], heads, t.dim[2] / heads));
}

static rlx_value side_by_side(struct block *b, rlx_value x)
{
	struct rlx_type t = op_type(b->g, x);

	if (t.rank != 4)
		return x;
	return EMIT(b, reshape, .x = x, .shape = RLX_INTS(t.dim[0], t.dim[1], t.dim[2] * t.dim[3]));
}

/* The rows of the tables of a sequence that begins at @pos[batch]. */
static rlx_value positions(struct block *b, rlx_value pos, int64_t seq)
{
	struct rlx_type t = op_type(b->g, pos);

	pos = op_cast(b->g, pos, RLX_I64);
	pos = EMIT(b, reshape, .x = pos, .shape = RLX_INTS(t.dim[0], 1));
	return EMIT(b, add, .a = pos, .b = EMIT(b, iota, .type = rlx_type(RLX_I64, 1, seq),
						.axis = 1, .step = 1));
}

/* Queries or @keys, normed and rotated as is asked for; in heads then. */
static rlx_value turned(struct block *b, const struct rlx_attention_block *a, rlx_value x,
			rlx_value pos, bool keys)
{
	const struct rlx_norm *n = keys ? &a->k_norm : &a->q_norm;
	int64_t heads = keys ? a->kv_heads : a->heads;
	const char *part = keys ? "k" : "q";

	enter(b, part);
	if (n->gamma.id || a->cos.id)
		x = in_heads(b, x, heads);
	if (n->gamma.id)
		x = norm(b, x, n, part);
	if (!a->cos.id)
		return x;
	return EMIT(b, rope, .x = x, .cos = a->cos, .sin = a->sin, .pos = pos, .layout = RLX_BSHD,
		    .n_rot = a->n_rot, .style = a->style);
}

/* Queries, keys and values, of one weight or of three. */
static void project(struct block *b, const struct rlx_attention_block *a, rlx_value x,
		    rlx_value y[3])
{
	int64_t h = a->heads, kv = a->kv_heads, n;

	y[0] = linear(b, x, &a->q, RLX_NONE, "q");
	if (a->k.w.id || a->v.w.id) {
		y[1] = linear(b, x, &a->k, RLX_NONE, "k");
		y[2] = linear(b, x, &a->v, RLX_NONE, "v");
		return;
	}
	n = op_type(b->g, y[0]).rank == 3 ? op_type(b->g, y[0]).dim[2] : 0;
	if (n % (h + 2 * kv))
		refuse(b, "rows of its weight are no multiple of heads and twice kv_heads");
	n /= h + 2 * kv;
	y[2] = columns(b, y[0], (h + kv) * n, (h + 2 * kv) * n);
	y[1] = columns(b, y[0], h * n, (h + kv) * n);
	y[0] = columns(b, y[0], 0, h * n);
}

/* Over a cache; the op rotates by itself, but whole heads and without norms alone. */
static rlx_value cached(struct block *b, const struct rlx_attention_block *a, rlx_value x)
{
	struct rlx_type cache = op_type(b->g, a->cache), t = op_type(b->g, x);
	bool apart = a->q_norm.gamma.id || a->k_norm.gamma.id ||
		     (a->n_rot && a->n_rot != cache.dim[cache.rank ? cache.rank - 1 : 0]);
	rlx_value y[3], pos, out;

	if (a->mask || a->bias.id || a->lens.id || !a->pos.id)
		return refuse(b, "a cache wants pos, and no mask, bias or lens");
	if (apart || a->k.w.id || a->v.w.id) {
		project(b, a, x, y);
		if (apart) {
			pos = positions(b, a->pos, t.rank == 3 ? t.dim[1] : 0);
			y[0] = turned(b, a, y[0], pos, false);
			y[1] = turned(b, a, y[1], pos, true);
		}
		y[0] = side_by_side(b, y[0]);
		y[1] = side_by_side(b, y[1]);
		y[0] = EMIT(b, concat, .axis = -1, .xs = { y, 3 });
	} else {
		y[0] = linear(b, x, &a->q, RLX_NONE, "q");
	}
	enter(b, "cache");
	out = EMIT(b, cached_attention, .cache = a->cache, .x = y[0], .pos = a->pos,
		   .cos = apart ? RLX_NONE : a->cos, .sin = apart ? RLX_NONE : a->sin,
		   .heads = a->heads, .kv_heads = a->kv_heads, .style = a->style,
		   .scale = a->scale);
	if (a->next)
		*a->next = out;
	else
		rlx_state_next(b->g, a->cache, out);
	return rlx_out(b->g, out, 1);
}

static rlx_value attention(struct block *b, const struct rlx_attention_block *how, rlx_value x,
			   rlx_value residual)
{
	struct rlx_attention_block a;
	rlx_value y[3];

	enter(b, NULL);
	if (!take(b, &a, sizeof(a), how))
		return RLX_NONE;
	a.kv_heads = a.kv_heads ? a.kv_heads : a.heads;
	if (a.heads < 1 || a.kv_heads < 1 || a.heads % a.kv_heads)
		return refuse(b, "heads is below 1, or no multiple of kv_heads");
	if (a.cache.id) {
		x = cached(b, &a, x);
	} else {
		project(b, &a, x, y);
		y[0] = turned(b, &a, y[0], a.pos, false);
		y[1] = turned(b, &a, y[1], a.pos, true);
		if (op_type(b->g, y[0]).rank == 4 || op_type(b->g, y[1]).rank == 4) {
			y[0] = op_type(b->g, y[0]).rank == 4 ? y[0] : in_heads(b, y[0], a.heads);
			y[1] = op_type(b->g, y[1]).rank == 4 ? y[1] : in_heads(b, y[1], a.kv_heads);
			enter(b, "v");
			y[2] = in_heads(b, y[2], a.kv_heads);
		}
		enter(b, NULL);
		x = EMIT(b, attention, .q = y[0], .k = y[1], .v = y[2], .bias = a.bias,
			 .lens = a.lens, .heads = a.heads, .kv_heads = a.kv_heads,
			 .layout = RLX_BSHD, .mask = a.mask, .window = a.window, .scale = a.scale);
	}
	return linear(b, side_by_side(b, x), &a.out, residual, "out");
}

rlx_value rlx_block_attention_at(struct rlx_graph *g, rlx_value x,
				 const struct rlx_attention_block *how, rlx_value residual,
				 const char *file, unsigned int line)
{
	struct block b = BEGIN("attention");

	if (!g || failed(&b))
		return RLX_NONE;
	return end(&b, attention(&b, how, x, residual));
}

/* ---- networks ---- */

static rlx_value ffn(struct block *b, const struct rlx_ffn_block *how, rlx_value x,
		     rlx_value residual)
{
	struct rlx_ffn_block f;
	rlx_value gate;

	enter(b, NULL);
	if (!take(b, &f, sizeof(f), how))
		return RLX_NONE;
	if (f.gate.w.id) {
		gate = linear(b, x, &f.gate, RLX_NONE, "gate");
		x = linear(b, x, &f.up, RLX_NONE, "up");
		x = EMIT(b, mul, .a = gate, .b = x);
	} else {
		x = linear(b, x, &f.up, RLX_NONE, "up");
	}
	return linear(b, x, &f.down, residual, "down");
}

rlx_value rlx_block_ffn_at(struct rlx_graph *g, rlx_value x, const struct rlx_ffn_block *how,
			   rlx_value residual, const char *file, unsigned int line)
{
	struct block b = BEGIN("ffn");

	if (!g || failed(&b))
		return RLX_NONE;
	return end(&b, ffn(&b, how, x, residual));
}

/* Each row times the matrix of its expert. */
static rlx_value of_expert(struct block *b, rlx_value x, const struct rlx_linear *w, rlx_value idx,
			   const char *part)
{
	rlx_value y;

	if (!enter_weights(b, w, part))
		return RLX_NONE;
	if (op_type(b->g, w->w).dtype == RLX_U8)
		y = EMIT(b, dequant_grouped_matmul, .x = x, .w = w->w, .idx = idx,
			 .scheme = w->scheme);
	else
		y = EMIT(b, grouped_matmul, .x = x, .idx = idx,
			 .w = w->in_out ? w->w : op_swap_last(b->g, w->w));
	if (w->bias.id)
		y = EMIT(b, add, .a = y, .b = EMIT(b, gather, .x = w->bias, .indices = idx));
	return op_act_emit(b->g, y, w->act, 0, 0);
}

static rlx_value experts(struct block *b, const struct rlx_ffn_block *f, rlx_value x,
			 rlx_value idx)
{
	rlx_value y;

	y = of_expert(b, x, &f->up, idx, "up");
	if (f->gate.w.id)
		y = EMIT(b, mul, .a = of_expert(b, x, &f->gate, idx, "gate"), .b = y);
	return of_expert(b, y, &f->down, idx, "down");
}

/* x as @rank dimensions. */
static rlx_value shaped(struct block *b, rlx_value x, const int64_t *dim, uint32_t rank)
{
	return EMIT(b, reshape, .x = x, .shape = { dim, rank });
}

/* x[.., width] as [rows @k, width], each row @k times. */
static rlx_value repeated(struct block *b, rlx_value x, int64_t rows, int64_t k, int64_t width)
{
	x = shaped(b, x, (int64_t[]){ rows, 1, width }, 3);
	x = EMIT(b, expand, .x = x, .shape = RLX_INTS(rows, k, width));
	return shaped(b, x, (int64_t[]){ rlx_dim_mul(b->g, rows, k), width }, 2);
}

static rlx_value moe(struct block *b, const struct rlx_moe_block *how, rlx_value x,
		     rlx_value residual)
{
	rlx_value share, idx, y;
	struct rlx_moe_block m;
	int64_t all, k, rows;
	struct rlx_type t;
	uint32_t i;

	enter(b, NULL);
	if (!take(b, &m, sizeof(m), how))
		return RLX_NONE;
	k = m.chosen;
	share = linear(b, x, &m.router, RLX_NONE, "router");
	if (k < 1)
		return refuse(b, "chosen is below 1");
	share = EMIT(b, topk, .x = share, .k = k, .axis = -1);
	idx = rlx_out(b->g, share, 1);
	if (m.choice)
		*m.choice = idx;
	if (failed(b))
		return RLX_NONE;
	t = op_type(b->g, share);
	for (rows = 1, i = 0; i + 1 < t.rank; i++)	/* their number may have a name */
		rows = rlx_dim_mul(b->g, rows, t.dim[i]);
	all = rlx_dim_mul(b->g, rows, k);
	share = EMIT(b, softmax, .x = share, .axis = -1);
	share = shaped(b, share, (int64_t[]){ rows, k, 1 }, 3);
	idx = shaped(b, idx, &all, 1);
	t = op_type(b->g, x);
	y = experts(b, &m.experts, repeated(b, x, rows, k, t.dim[t.rank - 1]), idx);
	if (failed(b))
		return RLX_NONE;
	t.dim[t.rank - 1] = op_type(b->g, y).dim[1];
	y = shaped(b, y, (int64_t[]){ rows, k, t.dim[t.rank - 1] }, 3);
	y = EMIT(b, mul, .a = y, .b = share);
	y = EMIT(b, reduce, .x = y, .kind = RLX_REDUCE_SUM, .axes = RLX_INTS(1));
	y = shaped(b, y, t.dim, t.rank);
	enter(b, NULL);
	return residual.id ? EMIT(b, add, .a = y, .b = residual) : y;
}

rlx_value rlx_block_moe_at(struct rlx_graph *g, rlx_value x, const struct rlx_moe_block *how,
			   rlx_value residual, const char *file, unsigned int line)
{
	struct block b = BEGIN("moe");

	if (!g || failed(&b))
		return RLX_NONE;
	return end(&b, moe(&b, how, x, residual));
}

/* ---- convolution, layers ---- */

rlx_value rlx_block_causal_conv_at(struct rlx_graph *g, rlx_value x,
				   const struct rlx_causal_conv_block *how, const char *file,
				   unsigned int line)
{
	struct block b = BEGIN("causal conv");
	struct rlx_causal_conv_block c;
	rlx_value y;

	if (!g || failed(&b))
		return RLX_NONE;
	if (!take(&b, &c, sizeof(c), how))
		return end(&b, RLX_NONE);
	y = EMIT(&b, causal_conv, .x = x, .w = c.w, .bias = c.bias, .state = c.state,
		 .silu = c.silu);
	if (c.next)
		*c.next = rlx_out(g, y, 1);
	else if (c.state.id)
		rlx_state_next(g, c.state, rlx_out(g, y, 1));
	return end(&b, y);
}

static rlx_value network(struct block *b, const struct rlx_layer_block *l, rlx_value x,
			 rlx_value residual)
{
	return l->ffn ? ffn(b, l->ffn, x, residual) : moe(b, l->moe, x, residual);
}

rlx_value rlx_block_layer_at(struct rlx_graph *g, rlx_value x, const struct rlx_layer_block *how,
			     const char *file, unsigned int line)
{
	struct block b = BEGIN("layer");
	struct rlx_layer_block l;
	rlx_value y;

	if (!g || failed(&b))
		return RLX_NONE;
	if (!take(&b, &l, sizeof(l), how))
		return end(&b, RLX_NONE);
	if (!l.ffn == !l.moe)
		return end(&b, refuse(&b, "one of ffn and moe is wanted, and not both"));
	if (l.post_norm) {
		x = norm(&b, attention(&b, l.attention, x, x), &l.norm1, "norm1");
		return end(&b, norm(&b, network(&b, &l, x, x), &l.norm2, "norm2"));
	}
	y = norm(&b, x, &l.norm1, "norm1");
	x = attention(&b, l.attention, y, x);
	y = norm(&b, x, &l.norm2, "norm2");
	return end(&b, network(&b, &l, y, x));
}
