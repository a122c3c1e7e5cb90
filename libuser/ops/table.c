// SPDX-License-Identifier: MIT
/* The harvested rows as rlx_op_defs[], the field tables and the public names. */
#include <stddef.h>
#include <string.h>

#include "ir/opdef.h"

/* Every op file must define its impl: a missing one is a link error naming it. */
#define RLX_OP(name, doc, fields, traits) \
	extern const struct rlx_op_impl rlx_op_##name##_impl;
#include "rlx/ops.list.h"
#undef RLX_OP

#define IN(op, n)	ROW(op, n, 0, ZERO, IN, 0, NULL)
#define OPT(op, n)	ROW(op, n, 0, ZERO, OPT, 0, NULL)
#define INS(op, n)	ROW(op, n, 0, ZERO, INS, 0, NULL)
#define ATTR(op, t, n)	ROW(op, n, RLX_K_##t, ZERO, ATTR, 0, NULL)
#define ATTR_NZ(op, t, n, v) ROW(op, n, RLX_K_##t, NZ, ATTR, v, NULL)
#define DEF(op, t, n, v) ROW(op, n, RLX_K_##t, DEF, ATTR, v, NULL)
#define REQ(op, t, n, h) ROW(op, n, RLX_K_##t, REQ, ATTR, 0, h)
#define ROW(op, n, kind, a, role, def, hint) \
	{ #n, offsetof(struct rlx_op_##op, n), kind, RLX_ABSENT_##a, RLX_FIELD_##role, def, hint },
#define RLX_FIELDS(op, doc, fields, traits)				\
	static const struct rlx_field fields_##op[] = {			\
		fields { NULL, sizeof(struct rlx_op_##op) }		\
	};
#include "ops.fields.h"
#undef IN
#undef OPT
#undef INS
#undef ATTR
#undef ATTR_NZ
#undef DEF
#undef REQ

#define IN(n)		+1
#define OPT(n)		+1
#define INS(n)
#define ATTR(t, n)
#define ATTR_NZ(t, n, v)
#define DEF(t, n, v)
#define REQ(t, n, h)
/* Constant, so that a program which emits no ops need not carry them. */
#define RLX_OP(op, d, fields, t)					\
	static const struct rlx_op_def def_##op = {			\
		.name = #op, .doc = d, .traits = 0 | t,			\
		.index = RLX_OP_##op,					\
		.args_size = sizeof(struct rlx_op_##op),		\
		.n_fixed = 0 fields, .impl = &rlx_op_##op##_impl,	\
		.field = fields_##op,					\
		.n_field = sizeof(fields_##op) / sizeof(fields_##op[0]) - 1, \
	};								\
	const struct rlx_op_ref rlx_op_##op = { &def_##op };
#include "rlx/ops.list.h"
#undef RLX_OP

const struct rlx_op_def *const rlx_op_defs[] = {
#define RLX_OP(op, d, fields, t) &def_##op,
#include "rlx/ops.list.h"
#undef RLX_OP
};

const unsigned int rlx_op_count = RLX_OP_COUNT;

const struct rlx_op_def *rlx_op_find(const char *name, size_t len)
{
	unsigned int lo = 0, hi = RLX_OP_COUNT;

	/* rows are sorted bytewise by "RLX_OP(name,": compare with the comma */
	while (lo < hi) {
		unsigned int mid = (lo + hi) / 2;
		const char *have = rlx_op_defs[mid]->name;
		int c = strncmp(have, name, len);

		if (!c && have[len])
			c = have[len] < ',' ? -1 : 1;
		if (!c)
			return rlx_op_defs[mid];
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}
