/* SPDX-License-Identifier: MIT */
/*
 * The argument struct and the descriptor of every op, made from the list that
 * the build harvests out of libuser/ops/. An op's struct only ever grows at its
 * end and a zero field means "absent", so that a program built against an older
 * header keeps working with a newer library.
 */
#ifndef RLX_OPS_H
#define RLX_OPS_H

#include "rlx/attr.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_op_def;

/*
 * struct rlx_op_ref - names an op in a call. One pointer, for ever: programs may
 * hold a copy of the object, so it must not change size.
 */
struct rlx_op_ref {
	const struct rlx_op_def	*def;
};

/*
 * Each member starts a slot of 8 bytes: one that is added later then lies beyond
 * the struct that older programs pass, never in the padding at its end, which
 * they leave as it was.
 */
#define RLX_SLOT	__attribute__((aligned(8)))
#pragma push_macro("IN")	/* a program may have its own */
#pragma push_macro("OPT")
#pragma push_macro("INS")
#pragma push_macro("ATTR")
#undef IN
#undef OPT
#undef INS
#undef ATTR
#define IN(n)		RLX_SLOT rlx_value n;
#define OPT(n)		RLX_SLOT rlx_value n;
#define INS(n)		RLX_SLOT struct rlx_values n;
#define ATTR(t, n)	RLX_SLOT rlx_attr_##t n;
#define RLX_OP(name, doc, fields, traits)				\
	struct rlx_op_##name { fields };				\
	typedef struct rlx_op_##name rlx_args_##name;			\
	extern RLX_EXPORT const struct rlx_op_ref rlx_op_##name;
#include "rlx/ops.list.h"
#undef RLX_OP
#undef IN
#undef OPT
#undef INS
#undef ATTR
#pragma pop_macro("IN")
#pragma pop_macro("OPT")
#pragma pop_macro("INS")
#pragma pop_macro("ATTR")

#ifdef __cplusplus
}
#endif
#endif
