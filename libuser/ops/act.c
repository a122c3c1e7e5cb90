// SPDX-License-Identifier: MIT
/* Activations at the end of fused ops, in simpler ops. */
#include "ops/act.h"

enum rlx_status op_act_infer(struct rlx_infer *q, int act, float lo, float hi)
{
	enum rlx_status st = op_need_enum(q, "act", act, RLX_ACT_COUNT);

	if (st)
		return st;
	if ((act == RLX_ACT_CLIP || act == RLX_ACT_HARD_SIGMOID) &&
	    (isnan(lo) || isnan(hi)))
		return op_fail(q, RLX_EINVAL, "act_lo or act_hi is not a number");
	return RLX_OK;
}

static rlx_value clip(struct rlx_graph *g, rlx_value x, double lo, double hi)
{
	x = rlx_emit(g, max, .a = x, .b = op_const_like(g, x, lo));
	return rlx_emit(g, min, .a = x, .b = op_const_like(g, x, hi));
}

rlx_value op_act_emit(struct rlx_graph *g, rlx_value x, int act, float lo, float hi)
{
	switch (act) {
	case RLX_ACT_RELU: return rlx_emit(g, relu, .x = x);
	case RLX_ACT_GELU: return rlx_emit(g, gelu, .x = x);
	case RLX_ACT_GELU_TANH: return rlx_emit(g, gelu_tanh, .x = x);
	case RLX_ACT_SILU: return rlx_emit(g, silu, .x = x);
	case RLX_ACT_SIGMOID: return rlx_emit(g, sigmoid, .x = x);
	case RLX_ACT_TANH: return rlx_emit(g, tanh, .x = x);
	case RLX_ACT_HARD_SWISH: return rlx_emit(g, hard_swish, .x = x);
	case RLX_ACT_CLIP: return clip(g, x, lo, hi);
	case RLX_ACT_HARD_SIGMOID:
		return clip(g, op_add_const(g, op_mul_const(g, x, lo), hi), 0, 1);
	default: return x;
	}
}

int op_act_of(unsigned int index)
{
	switch (index) {
	case RLX_OP_relu: return RLX_ACT_RELU;
	case RLX_OP_gelu: return RLX_ACT_GELU;
	case RLX_OP_gelu_tanh: return RLX_ACT_GELU_TANH;
	case RLX_OP_silu: return RLX_ACT_SILU;
	case RLX_OP_sigmoid: return RLX_ACT_SIGMOID;
	case RLX_OP_tanh: return RLX_ACT_TANH;
	case RLX_OP_hard_swish: return RLX_ACT_HARD_SWISH;
	default: return RLX_ACT_NONE;
	}
}

bool op_act_take(const struct rlx_match *m, int32_t *act, float *lo, float *hi)
{
	*act = op_act_of(m->g->node[m->root].def->index);
	if (rlx_match_value(m, "hi").id) {
		*act = RLX_ACT_CLIP;
		return rlx_match_f32(m, "hi", hi) &&
		       (!rlx_match_value(m, "lo").id || rlx_match_f32(m, "lo", lo));
	}
	if (!rlx_match_value(m, "al").id)
		return true;
	*act = RLX_ACT_HARD_SIGMOID;	/* clip(al x + be, 0, 1) */
	return rlx_match_f32(m, "al", lo) && rlx_match_f32(m, "be", hi);
}
