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

#define IN(n)		{ #n, offsetof(SELF, n), 0, 0, RLX_FIELD_IN },
#define OPT(n)		{ #n, offsetof(SELF, n), 0, 0, RLX_FIELD_OPT },
#define INS(n)		{ #n, offsetof(SELF, n), 0, 0, RLX_FIELD_INS },
#define ROW(kind, n, a, ...) \
	{ #n, offsetof(SELF, n), kind, RLX_ABSENT_##a, RLX_FIELD_ATTR, __VA_ARGS__ },
#define ATTR(t, n)	ROW(RLX_K_##t, n, ZERO, 0, NULL)
#define ATTR_NZ(t, n, v) ROW(RLX_K_##t, n, NZ, v, NULL)
#define DEF(t, n, v)	ROW(RLX_K_##t, n, DEF, v, NULL)
#define REQ(t, n, h)	ROW(RLX_K_##t, n, REQ, 0, h)
/* SELF is the row's struct: a typedef in a function of its own keeps it local. */
#define RLX_OP(name, doc, fields, traits)				\
	static const struct rlx_field *fields_##name(uint16_t *n)	\
	{								\
		typedef struct rlx_op_##name SELF;			\
		static const struct rlx_field f[] = {			\
			fields { NULL, sizeof(SELF) }		\
		};							\
		*n = sizeof(f) / sizeof(f[0]) - 1;			\
		return f;						\
	}
#include "rlx/ops.list.h"
#undef RLX_OP
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
/* Not const: field and n_field are filled in before main() and never again. */
#define RLX_OP(op, d, fields, t)					\
	static struct rlx_op_def def_##op = {				\
		.name = #op, .doc = d, .traits = 0 | t,			\
		.index = RLX_OP_##op,					\
		.args_size = sizeof(struct rlx_op_##op),		\
		.n_fixed = 0 fields, .impl = &rlx_op_##op##_impl,	\
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

__attribute__((constructor)) static void fill_fields(void)
{
#define RLX_OP(op, d, fields, t) def_##op.field = fields_##op(&def_##op.n_field);
#include "rlx/ops.list.h"
#undef RLX_OP
}

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
