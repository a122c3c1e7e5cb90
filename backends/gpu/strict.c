// SPDX-License-Identifier: MIT
/* Programs with strict bits: what has no kernel that keeps the CPU's order is refused, by name. */
#include "backends/gpu/gpu.h"

static bool is_whole(const struct rlx_type *t)
{
	return !t || rlx_dtype_is_int(t->dtype) || t->dtype == RLX_BOOL;
}

bool gpu_step_rounds(const struct rlx_lower *lo)
{
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (!is_whole(rlx_lower_in(lo, k)))
			return true;
	for (k = 0; k < lo->st->n_out; k++)
		if (!is_whole(rlx_lower_out(lo, k)))
			return true;
	return false;
}

enum rlx_status gpu_refuse_host(struct rlx_lower *lo, const struct rlx_error *why)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0), *y = rlx_lower_out(lo, 0);
	char in[64] = "nothing", out[64] = "nothing";

	if (!lo->strict || !gpu_step_rounds(lo))
		return RLX_OK;
	if (x)
		rlx_type_print(x, in, sizeof(in));
	if (y)
		rlx_type_print(y, out, sizeof(out));
	rlx_error_set(lo->err, RLX_ENOSUP, lo->st->file, lo->st->line, "%s: strict bits: %s (node "
		      "%u, of %s to %s) has no kernel with the CPU's order; compile for cpu, or "
		      "without strict bits%s%.90s", lo->code->dev->be->name, lo->st->def->name,
		      lo->st->node, in, out, why->status ? ": " : "", why->text);
	lo->err->node = lo->st->node;
	return RLX_ENOSUP;
}
