// SPDX-License-Identifier: MIT
/* Which calls become one launch: rows of groups.def, tried on the list of calls as it grows. */
#include <string.h>

#include "backends/gpu/group.h"
#include "base/alloc.h"

struct row {
	gpu_group_fn	*fn;
	uint8_t		 n;
	uint8_t		 family[GPU_GROUP_CALLS];
};

#define NORM		GPU_FAMILY_NORM
#define NORM_GRAD	GPU_FAMILY_NORM_GRAD
#define CAST		GPU_FAMILY_CAST
#define ADD		GPU_FAMILY_ADD
#define GATHER		GPU_FAMILY_GATHER
#define ATTENTION	GPU_FAMILY_ATTENTION
#define SMALL_M		GPU_FAMILY_SMALL_M
#define HORIZONTAL	GPU_FAMILY_HORIZONTAL
#define WGMMA		GPU_FAMILY_WGMMA
#define HORIZONTAL_TILED	GPU_FAMILY_HORIZONTAL_TILED
#define TAIL		GPU_FAMILY_TAIL
static const struct row rows[] = {
#define GROUP(name, ...)						\
	{ gpu_group_##name, sizeof((uint8_t[]){ __VA_ARGS__ }), { __VA_ARGS__ } },
#include "backends/gpu/groups.def"
#undef GROUP
};

static enum gpu_family family_of(const struct rlx_plan *p, const struct gpu_call *call)
{
	const struct rlx_op_def *def;

	if (call->kind != GPU_KERNEL_CALL || call->base.step == GPU_NO_STEP)
		return GPU_FAMILY_NONE;
	switch (call->launch.variant) {
	case RLX_G_gemm_small_m:
	case RLX_G_gemm_small_m_f32:
		return SMALL_M;
	case RLX_G_gemm_horizontal:
	case RLX_G_gemm_horizontal_f32:
		return HORIZONTAL;
	case RLX_G_gemm_wgmma_horizontal:
		return HORIZONTAL_TILED;
	case RLX_G_gemm_wgmma:
		return call->launch.n_launches > 1 || p->step[call->base.step].once ?
		       GPU_FAMILY_NONE : WGMMA;
	case RLX_G_encoder_tail:
		return TAIL;
	case RLX_G_norm_grad:
		return call->base.n_step == 1 ? NORM_GRAD : GPU_FAMILY_NONE;
	default:
		break;
	}
	def = p->step[call->base.step].def;
	/* what later runs leave out is a launch of its own */
	if (!def || call->base.n_step > 1 || call->launch.n_launches > 1 ||
	    p->step[call->base.step].once)
		return GPU_FAMILY_NONE;
	switch (def->index) {
	case RLX_OP_layer_norm:
	case RLX_OP_rms_norm:
	case RLX_OP_fused_residual_norm:
		return NORM;
	case RLX_OP_cast:
		return CAST;
	case RLX_OP_add:
		return ADD;
	case RLX_OP_gather:
		return GATHER;
	case RLX_OP_attention:
		return ATTENTION;
	}
	return GPU_FAMILY_NONE;
}

/* The last calls of the list are a row's; @next: the step of the one behind them. */
static bool matches(const struct gpu_code *c, const struct row *r, uint32_t next)
{
	const struct gpu_call *call;
	uint32_t step = 0, k;

	if (c->calls.n_call < r->n)
		return false;
	call = gpu_calls(c) + c->calls.n_call - r->n;
	for (k = 0; k < r->n; k++) {
		if (family_of(c->base.plan, &call[k]) != r->family[k] ||
		    (k && call[k].base.step != step))
			return false;
		step = call[k].base.step + call[k].base.n_step;
	}
	/* all of what their steps do */
	return next != step - 1 && (c->calls.n_call == r->n || call[-1].kind != GPU_KERNEL_CALL ||
				    call[-1].base.step != call->base.step);
}

bool gpu_group_take(struct gpu_group *g, uint32_t k, void *to)
{
	uint64_t at = (uint64_t)((unsigned char *)to - g->args);
	const struct gpu_call *m = &g->call[k];
	uint32_t i;

	if (at + m->base.n_args > sizeof(g->args) || g->n_ref + m->base.n_ref > RLX_LOWER_REFS)
		return false;
	memcpy(to, gpu_args_of(g, k), m->base.n_args);
	for (i = m->base.ref; i < m->base.ref + m->base.n_ref; i++) {
		struct rlx_ref r = g->c->calls.ref[i];

		if (r.at != RLX_NO_FIELD)
			r.at += at;
		g->ref[g->n_ref++] = r;
	}
	g->again = g->again || m->again;
	if (m->bad)
		g->bad = m->bad;
	if (m->val)
		g->scratch = m->val;
	if (m->base.checked.n) {	/* at most one of a launch's parts checks */
		g->checked = m->base.checked;
		g->checked.at += at;
	}
	return true;
}

void gpu_group_writes(struct gpu_group *g, void *field, uint32_t v)
{
	struct rlx_ref r = { .at = (uint64_t)((unsigned char *)field - g->args), .val = v,
			     .access = RLX_WRITE };
	uint32_t i = 0;

	while (i < g->n_ref && g->ref[i].at != r.at)
		i++;
	g->ref[i] = r;		/* a member had it */
	gpu_put_known(g->c, &r, field);
}

bool gpu_group_reads(struct gpu_group *g, void *field, uint32_t v)
{
	struct rlx_ref r = { .at = (uint64_t)((unsigned char *)field - g->args), .val = v,
			     .access = RLX_READ };

	if (g->n_ref == RLX_LOWER_REFS)
		return false;
	g->ref[g->n_ref++] = r;
	gpu_put_known(g->c, &r, field);
	return true;
}

/* The last @n calls are @g's members: in their place comes what they become. */
static bool replace(struct gpu_group *g, uint32_t n)
{
	struct rlx_calls *c = &g->c->calls;
	uint32_t step = g->call->base.step, decision = g->call[n - 1].decision, n_step = 0, k;
	struct gpu_call *call;

	for (k = 0; k < n; k++)
		n_step += g->call[k].base.n_step;
	c->n_call -= n;
	call = rlx_calls_add(c, g->args, g->n_args, g->ref, g->n_ref);
	if (!call)
		return false;
	call->base.step = step;
	call->base.n_step = n_step;
	call->base.rows = g->rows;
	call->base.checked = g->checked;
	call->bad = g->bad;
	call->again = g->again;
	call->val = g->launch.scratch ? g->scratch : 0;
	call->launch = g->launch;
	call->decision = decision;
	return true;
}

/* Does nobody read @v behind step @end? */
static bool is_inside(const struct rlx_plan *p, uint32_t v, uint32_t end)
{
	return p->val[v].root == v && p->val[v].place.kind == RLX_PLACE_WORK &&
	       p->val[v].last <= end;
}

/*
 * May the last @n calls be one launch as far as states go? If they replace one they make nothing
 * else for others: a run that wants such alone leaves the state as it is, but has the launch.
 */
static bool keeps_states(const struct gpu_group *g, uint32_t n)
{
	const uint32_t end = g->call[n - 1].base.step + g->call[n - 1].base.n_step;
	uint32_t s, k, made = 0, states = 0;

	for (s = g->call->base.step; s < end; s++)
		for (k = 0; k < g->p->step[s].n_out; k++) {
			const uint32_t v = g->p->step[s].out[k];

			made += !is_inside(g->p, v, end - 1);
			states += gpu_is_next_value(g->p, v);
		}
	return !states || made == 1;
}

/* Does some row make one of the last calls? */
static bool put_together(struct gpu_group *g, uint32_t next, bool *ok)
{
	struct gpu_code *c = g->c;
	const struct row *r;

	for (r = rows; r < rows + sizeof(rows) / sizeof(rows[0]); r++) {
		if (!matches(c, r, next))
			continue;
		*g = (struct gpu_group){ .c = c, .p = c->base.plan,
			.call = gpu_calls(c) + c->calls.n_call - r->n };
		g->rows = g->call[r->n - 1].base.rows;
		if (!keeps_states(g, r->n) || !r->fn(g))
			continue;
		*ok = replace(g, r->n);
		return *ok;
	}
	return false;
}

bool gpu_keep_call(struct gpu_code *c, const struct gpu_call *call)
{
	if (!rlx_grow(&c->calls.call, &c->calls.cap_call, c->calls.n_call + 1, sizeof(*call)))
		return false;
	gpu_calls(c)[c->calls.n_call++] = *call;
	return true;
}

enum rlx_status gpu_group_calls(struct gpu_code *c, struct rlx_error *err)
{
	struct gpu_group *g = rlx_aligned(64, sizeof(*g));
	struct gpu_call *from = gpu_calls(c);
	uint32_t n = c->calls.n_call, i;
	bool ok = g;

	c->calls.call = NULL;
	c->calls.n_call = c->calls.cap_call = 0;
	if (g)
		g->c = c;
	for (i = 0; i < n && ok; i++) {
		ok = gpu_keep_call(c, &from[i]);
		while (ok && put_together(g, i + 1 < n && from[i + 1].kind == GPU_KERNEL_CALL ?
					  from[i + 1].base.step : GPU_NO_STEP, &ok))
			;
	}
	rlx_free(from);
	rlx_free(g);
	return ok ? RLX_OK : rlx_fail(err, RLX_ENOMEM, "%s: out of memory",
				      c->base.dev->be->name);
}

/* ---- what rows ask of values ---- */

bool gpu_dies_at(const struct rlx_plan *p, uint32_t v, const struct rlx_plan_step *st)
{
	const struct rlx_plan_val *val = &p->val[v];

	return val->root == v && val->place.kind == RLX_PLACE_WORK &&
	       val->last == (uint32_t)(st - p->step);
}

bool gpu_is_next_value(const struct rlx_plan *p, uint32_t v)
{
	const struct rlx_place *at = &p->val[p->val[v].root].place;

	return at->kind == RLX_PLACE_OUTPUT && p->io[RLX_IO_OUTPUT][at->index].state;
}

bool gpu_is_in(const struct rlx_plan *p, uint32_t v, enum rlx_place_kind kind)
{
	return v && p->val[v].place.kind == kind;
}

bool gpu_is_last_of(const struct rlx_plan *p, uint32_t v, uint32_t root,
		    const struct rlx_plan_step *st)
{
	return p->val[v].root == root && gpu_dies_at(p, root, st) &&
	       rlx_plan_bytes(p, v) == rlx_plan_bytes(p, root);
}

bool gpu_reads_made(const struct gpu_group *g, uint32_t k)
{
	const struct rlx_plan_step *st = gpu_step_of(g, k), *by = &g->p->step[g->call->base.step];
	const struct rlx_plan_val *val = g->p->val;
	uint32_t i, o;

	for (; by < st; by++)
		for (o = 0; o < by->n_out; o++)
			for (i = 1; i < st->n_in; i++)
				if (st->in[i] && val[st->in[i]].root == val[by->out[o]].root)
					return true;
	return false;
}
