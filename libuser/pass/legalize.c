// SPDX-License-Identifier: MIT
/*
 * Type legalization: an op that the target runs in a wider dtype only is put between
 * conversions. What it takes is widened without loss, and each of its results is rounded
 * to the dtype that it had, so that no tensor changes its values' format. A value is
 * widened once for all who read it; conversions of constants are folded, and others
 * become parts of regions, where a result that is rounded and widened again costs one
 * pass over it.
 */
#include <string.h>

#include "pass/legal.h"

rlx_pass_fn rlx_pass_legalize, rlx_pass_legalize_again;

struct legalize {
	struct rlx_pass_ctx	*c;
	struct rlx_rewrite	 rw;
	uint32_t		*wide[2];	/* per old value: as f32, as f64; 0: not made yet */
	unsigned int		 count[RLX_OP_COUNT];
};

/* Has it numbers that a wider float could hold? f32 and f64 alone are asked about by none. */
static bool has_narrow(const struct rlx_graph *g, const struct rlx_node *n)
{
	bool f32 = false, f64 = false;
	uint32_t k;

	for (k = 0; k < n->n_in; k++) {
		enum rlx_dtype dt = n->in[k] ? g->val[n->in[k]].type.dtype : RLX_BOOL;

		if (dt != RLX_BOOL && (rlx_dtype_size(dt) < 4 ||
				       (rlx_dtype_is_int(dt) && n->def->traits & RLX_T_SELECT)))
			return true;
		f32 = f32 || dt == RLX_F32;
		f64 = f64 || dt == RLX_F64;
	}
	return f32 && f64;
}

static uint32_t widened(struct legalize *l, uint32_t old, enum rlx_dtype to)
{
	uint32_t *w = &l->wide[to == RLX_F64][old];

	if (!*w)
		*w = rlx_emit(l->rw.g, cast, .x = rlx_rewrite_value(&l->rw, old), .to = to).id;
	return *w;
}

static void put_between(struct legalize *l, const struct rlx_node *n, const enum rlx_dtype *to)
{
	struct rlx_rewrite *rw = &l->rw;
	uint32_t in[RLX_LEGAL_INPUTS], k;
	rlx_value v, y;

	for (k = 0; k < n->n_in; k++)
		in[k] = to[k] ? widened(l, n->in[k], to[k]) : rw->map[n->in[k]];
	v = rw->g->err.status ? RLX_NONE :
	    rlx_node_new(rw->g, n->def, n->args, in, n->n_in, n);
	for (k = 0; v.id && k < n->n_out; k++) {
		enum rlx_dtype was = rw->old->val[n->out + k].type.dtype;

		y = (rlx_value){ v.id + k };
		if (rw->g->val[y.id].type.dtype != was)
			y = rlx_emit(rw->g, cast, .x = y, .to = was);
		rlx_rewrite_set(rw, n->out + k, y);
	}
	l->count[n->def->index]++;
}

enum rlx_status rlx_pass_legalize(struct rlx_pass_ctx *c, struct rlx_graph *g,
				  struct rlx_graph **out)
{
	enum rlx_dtype to[RLX_LEGAL_INPUTS];
	struct legalize l = { .c = c };
	struct rlx_legal legal;
	enum rlx_status st;
	uint32_t n, i;

	if (!c->target.widen && !c->target.widen_aside)
		return RLX_OK;
	st = rlx_legal_begin(&legal, c, g);
	if (!st)
		st = rlx_rewrite_begin(&l.rw, g, c->err);
	if (st)
		goto out;
	for (i = 0; i < 2; i++)
		l.wide[i] = rlx_bump_new(&l.rw.g->bump, g->n_val, sizeof(**l.wide));
	if (!l.wide[0] || !l.wide[1])
		rlx_fail(&l.rw.g->err, RLX_ENOMEM, "legalize: out of memory");
	for (n = 0; n < g->n_node && !l.rw.g->err.status; n++) {
		if (!rlx_rewrite_live(&l.rw, n))
			continue;
		if (has_narrow(g, &g->node[n]) &&
		    rlx_legal(&legal, &g->node[n], to) == RLX_LEGAL_WIDENED)
			put_between(&l, &g->node[n], to);
		else
			rlx_rewrite_copy(&l.rw, n);
	}
	st = rlx_rewrite_end(&l.rw, out);
	for (i = 0; c->report && i < RLX_OP_COUNT; i++)
		if (l.count[i])
			fprintf(c->report, "widened %u %s\n", l.count[i], rlx_op_defs[i]->name);
out:
	rlx_legal_end(&legal);
	return st;
}

/* What expansion made. */
enum rlx_status rlx_pass_legalize_again(struct rlx_pass_ctx *c, struct rlx_graph *g,
					struct rlx_graph **out)
{
	return rlx_pass_legalize(c, g, out);
}
