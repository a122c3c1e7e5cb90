/* SPDX-License-Identifier: MIT */
/* The activation that a fused op may end with (enum rlx_act). */
#ifndef RLX_OPS_ACT_H
#define RLX_OPS_ACT_H

#include "ir/match.h"
#include "ops/emit.h"

/* RLX_EINVAL unless the activation and its bounds make sense. */
enum rlx_status op_act_infer(struct rlx_infer *q, int act, float lo, float hi);
/* The activation that the pointwise op @index is; RLX_ACT_NONE for others. */
int op_act_of(unsigned int index);
rlx_value op_act_emit(struct rlx_graph *g, rlx_value x, int act, float lo, float hi);

/*
 * Rows of a struct rlx_pattern table: each activation of @x, a pattern's text. op_act_take()
 * tells @accept which one it was: false where a bound is no f32.
 */
#define OP_ACT_PATTERNS(x, accept)					\
	{ "relu(" x ")", accept },					\
	{ "silu(" x ")", accept },					\
	{ "sigmoid(" x ")", accept },					\
	{ "tanh(" x ")", accept },					\
	{ "gelu(" x ")", accept },					\
	{ "gelu_tanh(" x ")", accept },					\
	{ "hard_swish(" x ")", accept },				\
	{ "min(relu(" x "), #hi)", accept },				\
	{ "min(max(" x ", #lo), #hi)", accept },			\
	{ "min(relu(add(mul(" x ", #al), #be)), 1)", accept }
bool op_act_take(const struct rlx_match *m, int32_t *act, float *lo, float *hi);

#endif
