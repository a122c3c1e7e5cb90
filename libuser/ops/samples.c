// SPDX-License-Identifier: MIT
/*
 * The samples of all ops as one table. Only the archive has this file, so that librlx.so refers to
 * none of them and is linked without.
 */
#include "ir/opdef.h"

#define RLX_OP(name, doc, fields, traits) \
	extern rlx_sample_fn *const rlx_op_##name##_samples __attribute__((weak));
#include "rlx/ops.list.h"
#undef RLX_OP

/* Addresses, which are NULL of ops without. */
static rlx_sample_fn *const *const samples[] = {
#define RLX_OP(name, doc, fields, traits) &rlx_op_##name##_samples,
#include "rlx/ops.list.h"
#undef RLX_OP
};

bool rlx_op_has_samples(const struct rlx_op_def *def)
{
	return samples[def->index] != NULL;
}

bool rlx_sample_get(unsigned int i, struct rlx_sample *s)
{
	return rlx_op_has_samples(s->def) && (*samples[s->def->index])(i, s);
}
