// SPDX-License-Identifier: MIT
/* Which op is said by which function, and whether it can be. */
#include <stdio.h>
#include <string.h>

#include "backends/pjrt/emit.h"
#include "base/alloc.h"

static hlo_fn *function_of(const struct rlx_op_def *def)
{
	static hlo_fn *const table[RLX_OP_COUNT] = {
#define EMIT(op) [RLX_OP_##op] = hlo_emit_##op,
#include "backends/pjrt/emit.def"
#undef EMIT
	};

	return def->index < RLX_OP_COUNT ? table[def->index] : NULL;
}

/* What came out is what the op's type rule says, or nothing reads it. */
static bool check(struct hlo_emit *e)
{
	uint32_t k;

	for (k = 0; k < e->n_out && !e->why; k++) {
		struct hlo_type t = hlo_type(&e->type[k]);

		if (!e->out[k].id)
			hlo_fail(e, "no StableHLO for it");
		else if (e->out[k].t.dtype != t.dtype || !hlo_same_shape(&e->out[k].t, &t))
			hlo_fail(e, "its text has another type");
	}
	return !e->why;
}

static int64_t count_of(const void *emit, uint32_t k)
{
	const struct hlo_emit *e = emit;

	if (k >= e->n_in)
		return rlx_type_count(&e->type[k - e->n_in]);
	return e->in[k].id ? hlo_count(&e->in[k].t) : -1;
}

/* Nothing comes out: the kernels of a plugin are not asked for it. */
static void idle(struct hlo_emit *e)
{
	struct hlo_type t;
	uint32_t k;

	for (k = 0; k < e->n_out; k++) {
		t = hlo_type(&e->type[k]);
		e->out[k] = hlo_nothing(e, &t);
	}
}

bool hlo_step(struct hlo_emit *e)
{
	bool is_idle = rlx_is_idle(count_of, e, e->n_in, e->n_out);
	hlo_fn *fn = function_of(e->def);
	const size_t begin = e->text.n;
	const uint32_t last = e->last;
	uint32_t k;

	e->why = NULL;
	e->bad = e->each_bad = (struct hlo){ 0 };
	memset(e->out, 0, e->n_out * sizeof(*e->out));
	if (!fn && !is_idle)
		hlo_fail(e, "no StableHLO for it");
	for (k = 0; k < e->n_in && !e->why; k++)
		if (e->in[k].id && !hlo_dtype_name(e->in[k].t.dtype))
			hlo_fail(e, "StableHLO has no such dtype");
	for (k = 0; k < e->n_out && !e->why; k++)
		if (rlx_dtype_is_float(e->type[k].dtype) && rlx_dtype_size(e->type[k].dtype) < 2)
			hlo_fail(e, "floats of 8 bits are not made");
	if (!e->why && is_idle)
		idle(e);
	else if (!e->why)
		fn(e);
	if (check(e))
		return true;
	e->text.n = begin;
	e->last = last;
	return false;
}

bool hlo_supports(const struct rlx_infer *q, struct rlx_error *why)
{
	struct hlo_emit *e;
	bool yes;
	uint32_t k;

	if (q->n_in > HLO_IN || q->n_out > HLO_OUT) {
		rlx_fail(why, RLX_ENOSUP, "pjrt: %s: too many operands", q->def->name);
		return false;
	}
	e = rlx_calloc(1, sizeof(*e));
	if (!e)
		return true;		/* whoever asked runs out of memory as well */
	e->def = q->def;
	e->args = q->args;
	e->n_in = q->n_in;
	e->n_out = q->n_out;
	for (k = 0; k < q->n_in; k++)
		if (q->in[k])
			e->in[k] = (struct hlo){ ++e->last, hlo_type(q->in[k]) };
	for (k = 0; k < q->n_out; k++)
		e->type[k] = q->out[k];
	yes = hlo_step(e) || e->text.failed;
	if (!yes)
		rlx_fail(why, RLX_ENOSUP, "pjrt: %s: %s", q->def->name, e->why);
	rlx_free(e->text.p);
	rlx_free(e);
	return yes;
}
