// SPDX-License-Identifier: MIT
/* Convolutions: which kernel sums them up. */
#include "backends/common/conv_desc.h"
#include "backends/gpu/gpu.h"
#include "kernels/gemm.h"

/* One dtype throughout; the bias may be wider than 16-bit floats are. */
static bool takes(const struct rlx_lower *lo)
{
	enum rlx_dtype dt = rlx_lower_out(lo, 0)->dtype;
	const struct rlx_type *bias = rlx_lower_in(lo, 2), *res = rlx_lower_in(lo, 3);

	if (!rlx_lower_real(dt) && dt != RLX_F64)
		return false;
	if (bias && (dt == RLX_F64 ? bias->dtype != dt : !rlx_lower_real(bias->dtype)))
		return false;
	return rlx_lower_in(lo, 0)->dtype == dt && rlx_lower_in(lo, 1)->dtype == dt &&
	       (!res || res->dtype == dt);
}

enum rlx_status gpu_conv(struct rlx_lower *lo, const struct rlx_conv *g)
{
	struct rlx_k_conv_nd *a = rlx_lower_args(lo, sizeof(*a));

	if (g->block)
		return rlx_lower_unsupported(lo, "no blocked layout here");
	if (!takes(lo))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	rlx_conv_plain(a, g);
	a->type = (uint8_t)rlx_lower_out(lo, 0)->dtype;
	if (rlx_lower_in(lo, 2))
		a->bias_type = (uint8_t)rlx_lower_in(lo, 2)->dtype;
	rlx_conv_refs(lo, &a->x, &a->bias, &a->res, &a->y);
	rlx_lower_ref_in(lo, &a->w, 1, 0);
	return rlx_lower_call(lo, RLX_KERNEL_conv_nd, 0, 0, 0);
}

enum rlx_status gpu_conv_i8(struct rlx_lower *lo, struct rlx_k_conv_i8 *a)
{
	rlx_lower_ref_in(lo, &a->w, 1, 0);
	return rlx_lower_call(lo, RLX_KERNEL_conv_i8, 0, 0, 0);
}
