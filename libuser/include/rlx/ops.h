/* SPDX-License-Identifier: MIT */
/*
 * The argument struct and the descriptor of every op, made from the list that
 * the build harvests out of libuser/ops/. An op's struct only ever grows at its
 * end, so that a program built against an older header keeps working with a newer
 * library. What an attribute means that is not given is said by its row:
 *
 *	ATTR(kind, name)		zero: 0, false, none, or an empty list
 *	ATTR_NZ(kind, name, value)	@value, and so for 0
 *	DEF(kind, name, value)		@value; 0 is 0
 *	REQ(kind, name, hint)		it must be given: the op is refused, with @hint
 *
 * For DEF and REQ, rlx_emit() tells 0 from not given: RLX_INIT_<op> puts
 * RLX_UNSET_<kind> where nothing is written (members are initialised so in C++).
 * Who fills in the struct by hand and passes zeros has given them.
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
#pragma push_macro("ATTR_NZ")
#pragma push_macro("DEF")
#pragma push_macro("REQ")
#undef IN
#undef OPT
#undef INS
#undef ATTR
#undef ATTR_NZ
#undef DEF
#undef REQ
#define IN(n)		RLX_SLOT rlx_value n;
#define OPT(n)		RLX_SLOT rlx_value n;
#define INS(n)		RLX_SLOT struct rlx_values n;
#define ATTR(t, n)	RLX_SLOT rlx_attr_##t n;
#define ATTR_NZ(t, n, v) RLX_SLOT rlx_attr_##t n;
#ifndef __cplusplus
#define DEF(t, n, v)	RLX_SLOT rlx_attr_##t n;
#define REQ(t, n, h)	RLX_SLOT rlx_attr_##t n;
#else
#define DEF(t, n, v)	RLX_SLOT rlx_attr_##t n = RLX_UNSET_##t;
#define REQ(t, n, h)	RLX_SLOT rlx_attr_##t n = RLX_UNSET_##t;
#endif
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
#undef ATTR_NZ
#undef DEF
#undef REQ
#pragma pop_macro("IN")
#pragma pop_macro("OPT")
#pragma pop_macro("INS")
#pragma pop_macro("ATTR")
#pragma pop_macro("ATTR_NZ")
#pragma pop_macro("DEF")
#pragma pop_macro("REQ")

/*
 * What is given stands after RLX_INIT_<op> and overrides it, which compilers warn of
 * where it is a slip: not within RLX_OVERRIDE().
 */
#ifdef __clang__
#define RLX_OVERRIDE_OK	_Pragma("clang diagnostic ignored \"-Winitializer-overrides\"")
#else
#define RLX_OVERRIDE_OK	_Pragma("GCC diagnostic ignored \"-Woverride-init\"")
#endif
#define RLX_OVERRIDE(expr)						\
	__extension__ ({						\
		_Pragma("GCC diagnostic push") RLX_OVERRIDE_OK		\
		(expr);							\
		_Pragma("GCC diagnostic pop")				\
	})

#ifdef __cplusplus
}
#endif
#endif
